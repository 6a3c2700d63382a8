use crate::fixture::{findings, manifest};

const TURN: &str = "crates/agent/src/turn.rs";

/// The findings for the agent's `turn.rs` with this text.
fn turn(text: &str) -> Vec<String> {
    // The tests stay listed, so that only the rule in question speaks.
    findings(&[(TURN, &format!("{text}\n#[cfg(test)]\nmod tests;\n"))])
}

fn at(line: usize, rule: &str) -> String {
    format!("{TURN}:{line} {rule}")
}

#[test]
fn nothing_is_found_in_a_tidy_workspace() {
    assert_eq!(findings(&[]), [""; 0]);
}

#[test]
fn a_dependency_upwards_is_found_and_tests_may_use_the_testkit() {
    let up = manifest("session", "[dependencies]\nreins-agent = { path = \"../agent\" }\n");
    assert_eq!(
        findings(&[("crates/session/Cargo.toml", &up)]),
        ["crates/session/Cargo.toml layers"]
    );
    let build = up.replace("[dependencies]", "[build-dependencies]");
    assert_eq!(
        findings(&[("crates/session/Cargo.toml", &build)]),
        ["crates/session/Cargo.toml layers"]
    );
    let testkit = "\"../testkit\" }\nreins-sandbox = { path = \"../sandbox\" }\n";
    let dev = format!("[dev-dependencies]\nreins-testkit = {{ path = {testkit}");
    let dev = manifest("agent", &dev);
    assert_eq!(findings(&[("crates/agent/Cargo.toml", &dev)]), [""; 0]);
    let product = dev.replace("[dev-dependencies]", "[dependencies]");
    assert_eq!(
        findings(&[("crates/agent/Cargo.toml", &product)]),
        ["crates/agent/Cargo.toml layers", "crates/agent/Cargo.toml layers"]
    );
    let dev_up = up.replace("[dependencies]", "[dev-dependencies]");
    assert_eq!(
        findings(&[("crates/session/Cargo.toml", &dev_up)]),
        ["crates/session/Cargo.toml layers"]
    );
}

#[test]
fn a_layer_table_that_contradicts_itself_or_the_crates_is_found() {
    let table = |rows: &str| format!("```layers\n{rows}0 schema -\n0 sandbox -\n```\n");
    let good =
        "3 tools agent schema\n2 agent session schema\n1 session schema\ndev testkit agent\n";
    let check = |rows: &str| findings(&[("ARCHITECTURE.md", &table(rows))]);
    assert_eq!(check(good), [""; 0]);
    let beside = good.replace("1 session schema", "2 session schema");
    assert_eq!(check(&beside), ["ARCHITECTURE.md:3 layers"]);
    let unknown = good.replace("2 agent session", "2 agent sesion session");
    assert_eq!(check(&unknown), ["ARCHITECTURE.md:3 layers"]);
    let twice = format!("{good}1 session schema\n");
    assert_eq!(check(&twice), ["ARCHITECTURE.md:6 layers"]);
    let gone = format!("{good}1 store schema\n");
    assert_eq!(check(&gone), ["ARCHITECTURE.md:6 layers"]);
    let garbled = format!("{good}nonsense\n");
    assert_eq!(check(&garbled), ["ARCHITECTURE.md:6 layers"]);
    let unlisted = good.replace("3 tools agent schema\n", "");
    assert_eq!(check(&unlisted), ["crates/tools/Cargo.toml layers"]);
    assert_eq!(findings(&[("ARCHITECTURE.md", "# Map\n")]), ["ARCHITECTURE.md layers"]);
}

#[test]
fn a_package_with_another_name_than_its_folder_is_found() {
    let other = manifest("shema", "");
    let found = findings(&[("crates/schema/Cargo.toml", &other)]);
    assert!(found.contains(&"crates/schema/Cargo.toml crate-name".to_owned()), "{found:?}");
}

#[test]
fn a_long_file_is_found_unless_it_is_a_catalogue() {
    let line = "pub struct S;\n";
    assert_eq!(turn(&line.repeat(798)), [""; 0]);
    assert_eq!(turn(&line.repeat(801)), [format!("{TURN} file-lines")]);
    let blank = format!("{}{}", "// a comment\n\n/// documented\n".repeat(900), line.repeat(700));
    assert_eq!(turn(&blank), [""; 0]);
    let tests = format!("#[cfg(test)]\nmod inline {{\n{}}}\n", line.repeat(900));
    assert_eq!(turn(&tests), [""; 0]);
    assert_eq!(turn(&format!("//! catalogue: every code\n{}", line.repeat(900))), [""; 0]);
    let unreasoned = format!("//! catalogue: \n{}", line.repeat(900));
    assert_eq!(turn(&unreasoned), [format!("{TURN} file-lines")]);
}

#[test]
fn a_long_function_is_found_also_in_impls_and_tests() {
    let body = |lines: usize| format!("{{\n{}}}\n", "    let x = 1;\n".repeat(lines));
    assert_eq!(turn(&format!("fn f() {}", body(70))), [""; 0]);
    assert_eq!(turn(&format!("fn f() {}", body(71))), [at(1, "function-lines")]);
    assert_eq!(turn(&format!("impl S {{\nfn f() {}}}", body(71))), [at(2, "function-lines")]);
    assert_eq!(turn(&format!("trait S {{\nfn f() {}}}", body(71))), [at(2, "function-lines")]);
    assert_eq!(turn(&format!("#[test]\nfn f() {}", body(71))), [at(2, "function-lines")]);
    let spread = format!("fn f() {{\n{}}}\n", "    // why\n\n    let x = 1;\n".repeat(70));
    assert_eq!(turn(&spread), [""; 0]);
}

#[test]
fn too_many_parameters_and_fields_are_found() {
    let seven = "fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}\n";
    assert_eq!(turn(seven), [at(1, "parameters")]);
    assert_eq!(turn(&format!("impl Foreign for S {{\n{seven}}}\n")), [""; 0]);
    assert_eq!(turn(&format!("impl S {{\n{seven}}}\n")), [at(2, "parameters")]);
    let fields = |count: usize| -> String {
        let fields: String = (0..count).map(|index| format!("    f{index}: u8,\n")).collect();
        format!("struct Wide {{\n{fields}}}\n")
    };
    assert_eq!(turn(&fields(20)), [""; 0]);
    assert_eq!(turn(&fields(21)), [at(1, "fields")]);
    let schema =
        [("crates/schema/src/lib.rs", "mod wide;\n"), ("crates/schema/src/wide.rs", &fields(21))];
    assert_eq!(findings(&schema), [""; 0]);
}

#[test]
fn a_lib_with_content_is_found() {
    let lib = "crates/schema/src/lib.rs";
    assert_eq!(findings(&[(lib, "//! All.\n\nfn f() {}\n")]), [format!("{lib}:3 lib-body")]);
    let method = "struct S;\nimpl S {\n    fn f() {}\n}\n";
    assert_eq!(findings(&[(lib, method)]), [format!("{lib}:3 lib-body")]);
    assert_eq!(findings(&[(lib, &"//! Words.\n".repeat(151))]), [format!("{lib} lib-lines")]);
    assert_eq!(findings(&[(lib, "#[cfg(test)]\nmod t {\n    fn f() {}\n}\n")]), [""; 0]);
}

#[test]
fn a_crate_that_is_too_big_is_found() {
    let part = format!("//! catalogue: bulk\n{}", "pub struct S;\n".repeat(7_600));
    let big = [
        ("crates/schema/src/lib.rs", "mod a;\nmod b;\n"),
        ("crates/schema/src/a.rs", part.as_str()),
        ("crates/schema/src/b.rs", part.as_str()),
    ];
    assert_eq!(findings(&big), ["crates/schema/Cargo.toml crate-lines"]);
}

#[test]
fn wide_lines_and_tabs_are_found_outside_long_literals() {
    let wide = "x".repeat(95);
    assert_eq!(turn(&format!("// {wide}")), [""; 0]);
    assert_eq!(turn(&format!("\n// {wide}é234")), [at(2, "line-width")]);
    assert_eq!(turn("fn f() {\n\tg();\n}"), [at(2, "tab")]);
    assert_eq!(turn(&format!("const S: &str = \"\n\t{wide}{wide}\n\";")), [""; 0]);
}

#[test]
fn a_map_that_became_a_manual_is_found() {
    let rows = "3 tools agent schema\n2 agent session schema\n1 session schema\n0 schema -\n\
                0 sandbox -\ndev testkit agent\n";
    let long = format!("```layers\n{rows}```\n{}", "word\n".repeat(500));
    assert_eq!(findings(&[("ARCHITECTURE.md", &long)]), ["ARCHITECTURE.md document-lines"]);
}

#[test]
fn a_leaf_that_is_not_listed_is_found() {
    let lib = "crates/tools/src/lib.rs";
    let unlisted = [("crates/tools/src/glob/mod.rs", "pub const PLUGIN: u8 = 2;\n")];
    let found = findings(&unlisted);
    assert_eq!(found, ["crates/tools/src/glob/mod.rs dead-file".to_owned(), format!("{lib} leaf")]);
    let text = "mod glob;\nmod read;\npub const PLUGINS: [u8; 1] = [read::PLUGIN];\n";
    let no_plugin = [unlisted[0], (lib, text)];
    assert_eq!(findings(&no_plugin), [format!("{lib} leaf")]);
    let without = [(lib, text), ("crates/tools/src/glob/mod.rs", "pub fn f() {}\n")];
    assert_eq!(findings(&without), [""; 0]);
    let used_before = "mod glob;\nmod read;\nuse glob::PLUGIN;\n\
                       pub const PLUGINS: [u8; 1] = [read::PLUGIN];\n";
    assert_eq!(findings(&[unlisted[0], (lib, used_before)]), [format!("{lib} leaf")]);
}

#[test]
fn a_leaf_that_uses_its_sibling_is_found() {
    let lib = "mod glob;\nmod read;\npub const PLUGINS: [u8; 2] = [glob::PLUGIN, read::PLUGIN];\n";
    let glob = "pub const PLUGIN: u8 = 2;\nconst TWICE: u8 = crate::read::PLUGIN;\n";
    let check = |glob: &str| {
        findings(&[("crates/tools/src/lib.rs", lib), ("crates/tools/src/glob/mod.rs", glob)])
    };
    let found = ["crates/tools/src/glob/mod.rs:2 sibling"];
    assert_eq!(check(glob), found);
    assert_eq!(check(&glob.replace("crate::read", "super::read")), found);
    let grouped = "pub const PLUGIN: u8 = 2;\nuse crate::{read::PLUGIN as READ};\n";
    assert_eq!(check(grouped), found);
    assert_eq!(check("pub const PLUGIN: u8 = 2;\nuse crate::glob::x;\n"), [""; 0]);
}

#[test]
fn a_missing_readme_and_missing_documents_are_found() {
    let extra = manifest("extra", "");
    let text = "mod inner {}\nmod other {}\n";
    let files = [("crates/extra/Cargo.toml", extra.as_str()), ("crates/extra/src/lib.rs", text)];
    let expected = ["crates/extra/Cargo.toml layers", "crates/extra/README.md crate-readme"];
    assert_eq!(findings(&files), expected);
    assert_eq!(findings(&[("GLOSSARY.md", "# Words\n")]), ["GLOSSARY.md word"]);
}

#[test]
fn files_that_nothing_reaches_are_found() {
    let dead = [("crates/agent/src/old.rs", ""), ("crates/agent/tests/it/lost.rs", "")];
    let expected = ["crates/agent/src/old.rs dead-file", "crates/agent/tests/it/lost.rs dead-file"];
    assert_eq!(findings(&dead), expected);
    assert_eq!(findings(&[("crates/agent/tests/it/fixtures/demo.rs", "")]), [""; 0]);
    let by_path = [("crates/agent/src/old.rs", ""), (TURN, "#[path = \"old.rs\"]\nmod new;\n")];
    assert_eq!(findings(&by_path), ["crates/agent/src/turn/tests.rs dead-file"]);
    let nested = [("crates/agent/src/turn/a/b.rs", ""), (TURN, "mod a {\n    mod b;\n}\n")];
    assert_eq!(findings(&nested), ["crates/agent/src/turn/tests.rs dead-file"]);
}

#[test]
fn a_file_that_does_not_parse_is_found() {
    let found = findings(&[(TURN, "fn f() {}\nfn g( {}\n")]);
    assert_eq!(found[0].split(' ').next_back(), Some("dead-file"));
    assert!(found[1].starts_with(&format!("{TURN}:2 syntax")), "{found:?}");
}

#[test]
fn leftovers_are_found_in_code_and_not_in_text() {
    assert_eq!(turn("fn f() { todo!() }"), [at(1, "leftover")]);
    assert_eq!(turn("fn f() {\n    unimplemented!(\"x\")\n}"), [at(2, "leftover")]);
    assert_eq!(turn("fn f() {\n    assert!(dbg!(true));\n}"), [at(2, "leftover")]);
    assert_eq!(turn("\n// FIXME: later"), [at(2, "leftover")]);
    assert_eq!(turn("/// Good.\n/// XXX bad.\nfn f() {}"), [at(2, "leftover")]);
    assert_eq!(turn("/* one\n   FIXME two */"), [at(2, "leftover")]);
    let text = "/// `todo!()`, dbg!\nconst S: &str = \"todo!() FIXME XXX\"; // mktemp XXXXXX";
    assert_eq!(turn(text), [""; 0]);
}

#[test]
fn an_ignored_test_is_found() {
    assert_eq!(turn("#[test]\n#[ignore]\nfn f() {}"), [at(2, "ignored-test")]);
    assert_eq!(turn("#[test]\n#[ignore = \"slow\"]\nfn f() {}"), [at(2, "ignored-test")]);
    let conditional = "#[test]\n#[cfg_attr(not(unix), ignore)]\nfn f() {}";
    assert_eq!(turn(conditional), [at(2, "ignored-test")]);
    let long =
        "#[test]\n#[cfg_attr(any(a = \"b\", all(c, d, e, f)), ignore = \"slow\")]\nfn f() {}";
    assert_eq!(turn(long), [at(2, "ignored-test")]);
    assert_eq!(turn("fn f() { g(a, ignore); }\n#[derive(ignore)]\nstruct S;"), [""; 0]);
    assert_eq!(turn("fn ignore() { ignore(); }\nuse ignore::Walk;"), [""; 0]);
}

#[test]
fn unsafe_and_unbounded_queues_are_found() {
    assert_eq!(turn("fn f() {\n    unsafe { g() }\n}"), [at(2, "unsafe")]);
    let sandbox = [
        ("crates/sandbox/src/lib.rs", "mod fork;\n"),
        ("crates/sandbox/src/fork.rs", "fn f() {\n    unsafe { g() }\n}\n"),
    ];
    assert_eq!(findings(&sandbox), [""; 0]);
    assert_eq!(turn("fn f() {\n    mpsc::unbounded_channel();\n}"), [at(2, "unbounded")]);
    assert_eq!(turn("struct S(UnboundedSender<u8>);"), [at(1, "unbounded")]);
    assert_eq!(turn("#![forbid(unsafe_code)]\nuse std::ops::Bound::Unbounded;"), [""; 0]);
}

#[test]
fn module_names_that_say_nothing_are_found() {
    for name in ["util", "utils", "common", "helper", "helpers", "misc"] {
        assert_eq!(turn(&format!("mod {name} {{}}")), [at(1, "module-name")], "{name}");
    }
    assert_eq!(turn("mod outer {\n    mod misc {}\n}"), [at(2, "module-name")]);
}

#[test]
fn refused_words_are_found_in_declared_names_only() {
    assert_eq!(turn("struct ConversationId;"), [at(1, "word")]);
    assert_eq!(turn("fn open_conversation() {}"), [at(1, "word")]);
    assert_eq!(turn("struct S {\n    conversation: u8,\n}"), [at(2, "word")]);
    assert_eq!(turn("enum E {\n    Conversation,\n}"), [at(2, "word")]);
    assert_eq!(turn("struct Thread;"), [at(1, "word")]);
    assert_eq!(turn("struct WriterThread;\nfn thread() {}"), [""; 0]);
    assert_eq!(turn("use outside::Conversation;\nconst S: &str = \"conversation\";"), [""; 0]);
    let bad = "```refused\nconversation session\nThread -> Session\n```\n";
    assert_eq!(findings(&[("GLOSSARY.md", bad)]), ["GLOSSARY.md:2 word"]);
}

#[test]
fn the_machine_is_reached_through_world_only() {
    assert_eq!(turn("use std::fs;"), [at(1, "reach")]);
    assert_eq!(turn("use std::{\n    fmt,\n    fs::File,\n};"), [at(3, "reach")]);
    assert_eq!(turn("use std::fs::{self as disk};"), [at(1, "reach")]);
    assert_eq!(turn("use std::*;"), [at(1, "reach")]);
    assert_eq!(turn("use reqwest as http;"), [at(1, "reach")]);
    assert_eq!(turn("use std::time::{Duration, SystemTime};"), [at(1, "reach")]);
    assert_eq!(turn("fn f() {\n    tokio::fs::read();\n}"), [at(2, "reach")]);
    assert_eq!(turn("fn f() {\n    assert!(std::net::x());\n}"), [at(2, "reach")]);
    assert_eq!(turn("fn f() {\n    use ::std::process::Command;\n}"), [at(2, "reach")]);
    assert_eq!(turn("use std::time::Duration;\nuse world::fs;\nuse tokio::sync;"), [""; 0]);
    assert_eq!(turn("#[cfg(test)]\nmod t {\n    use std::fs;\n}"), [""; 0]);
    assert_eq!(turn("#[cfg(all(test, unix))]\nfn f() {\n    std::fs::read();\n}"), [""; 0]);
    let any = "#[cfg(any(test, unix))]\nfn f() {\n    std::fs::read();\n}";
    assert_eq!(turn(any), [at(3, "reach")]);
    let after = "#[cfg(test)]\nuse a::b;\nuse std::fs;";
    assert_eq!(turn(after), [at(3, "reach")]);
}

#[test]
fn the_pure_core_names_no_clock_and_no_runtime() {
    let check = |text: &str| {
        findings(&[
            ("crates/session/src/lib.rs", "mod core;\n"),
            ("crates/session/src/core.rs", text),
        ])
    };
    assert_eq!(check("use tokio::sync::mpsc;\n"), ["crates/session/src/core.rs:1 reach"]);
    assert_eq!(check("use std::time::Instant;\n"), ["crates/session/src/core.rs:1 reach"]);
    assert_eq!(check("use std::time::Duration;\n"), [""; 0]);
}

#[test]
fn only_the_script_server_may_listen() {
    let check = |script: &str, other: &str| {
        let table = "```layers\n3 tools agent schema\n3 providers -\n2 agent session schema\n\
                     1 session schema\n0 schema -\n0 sandbox -\ndev testkit agent\n```\n";
        findings(&[
            ("ARCHITECTURE.md", table),
            ("crates/providers/Cargo.toml", &manifest("providers", "")),
            ("crates/providers/README.md", "What lives here.\n"),
            ("crates/providers/src/lib.rs", "mod chat;\nmod script;\n"),
            ("crates/providers/src/script/mod.rs", script),
            ("crates/providers/src/chat/mod.rs", other),
        ])
    };
    assert_eq!(check("use tokio::net::TcpListener;\n", ""), [""; 0]);
    assert_eq!(check("use std::fs;\n", ""), ["crates/providers/src/script/mod.rs:1 reach"]);
    let listens = check("", "use tokio::net::TcpListener;\n");
    assert_eq!(listens, ["crates/providers/src/chat/mod.rs:1 reach"]);
}
