use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;

/// A workspace in which tidy finds nothing: six small crates, one leaf, one test suite.
fn tidy_files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: &str| files.insert(path.to_owned(), text.to_owned());
    put("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n");
    put(
        "ARCHITECTURE.md",
        "# Map\n\n```layers\n3 tools agent schema\n2 agent session schema\n1 session schema\n\
         0 schema -\n0 sandbox -\ndev testkit agent\n```\n",
    );
    put("GLOSSARY.md", "# Words\n\n```refused\nconversation -> session\nThread -> Session\n```\n");
    let crates = ["tools", "agent", "session", "schema", "sandbox", "testkit"];
    for name in crates {
        put(&format!("crates/{name}/README.md"), "What lives here.\n");
        put(&format!("crates/{name}/Cargo.toml"), &manifest(name, ""));
        put(&format!("crates/{name}/src/lib.rs"), "//! A crate.\n");
    }
    put("crates/tools/src/lib.rs", "mod read;\n\npub const PLUGINS: [u8; 1] = [read::PLUGIN];\n");
    put("crates/tools/src/read/mod.rs", "pub const PLUGIN: u8 = 1;\n");
    put("crates/agent/src/lib.rs", "mod turn;\n");
    put("crates/agent/src/turn.rs", "pub fn turn() {}\n\n#[cfg(test)]\nmod tests;\n");
    put("crates/agent/src/turn/tests.rs", "use std::fs;\n\n#[test]\nfn turns() {}\n");
    put("crates/agent/tests/it/main.rs", "mod loops;\n");
    put("crates/agent/tests/it/loops.rs", "use std::process::Command;\n");
    files
}

/// A manifest named after its folder, with more text (dependencies, say) at its end.
pub(crate) fn manifest(name: &str, more: &str) -> String {
    format!("[package]\nname = \"reins-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{more}")
}

/// What tidy says about the tidy workspace with `changes` laid over it: `path:line rule`, or
/// `path rule` for findings about a whole file.
pub(crate) fn findings(changes: &[(&str, &str)]) -> Vec<String> {
    let mut files = tidy_files();
    for (path, text) in changes {
        files.insert((*path).to_owned(), (*text).to_owned());
    }
    let root = TempDir::new().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        replace(&path, &text);
    }
    let report = reins_xtask::tidy(root.path()).unwrap();
    let line = |found: &reins_xtask::Finding| match found.line {
        0 => format!("{} {}", found.path.display(), found.rule),
        line => format!("{}:{line} {}", found.path.display(), found.rule),
    };
    report.findings.iter().map(line).collect()
}

#[expect(clippy::disallowed_methods, reason = "a scratch file that nobody reads meanwhile")]
fn replace(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap();
}
