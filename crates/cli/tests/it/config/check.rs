//! `reins config check`: everything that it looks at, and what it says of it.

use super::{bin, config, with_settings};

#[tokio::test]
async fn what_was_looked_at_is_counted() {
    let bin = bin();
    let end = config(&bin, &["check"]).await;
    let says = "21 rows, 2 agent presets, 2 profiles and 0 prompts are fine\n";
    assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (Some(0), says, ""));
    bin.file("../home/presets/mine.toml", "description = \"Mine.\"\n").unwrap();
    bin.file("../home/profiles/mine.toml", "bundles = [\"base\"]\n").unwrap();
    bin.file("../home/prompts/review.md", "Review $1.\n").unwrap();
    let end = config(&bin, &["check"]).await;
    let says = "21 rows, 3 agent presets, 3 profiles and 1 prompt are fine\n";
    assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (Some(0), says, ""));
}

/// A file of the home, its text, and what is said of it, without the path of the home.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "profiles/mine.toml",
        "bundles = [\"bsae\"]\n",
        "profiles/mine.toml:1: field `bundles`: there is no bundle `bsae`; bundles are `base`, \
         `sdk`; did you mean `base`?",
    ),
    (
        // Only mounting shows it.
        "profiles/mine.toml",
        "bundles = [\"base\"]\n[[row]]\nid = \"bash\"\nconfig = { timeout_ms = 0 }\n",
        "profiles/mine.toml:4: row `bash`, field `config.timeout_ms`: must be at least 1 and at \
         most `max_timeout_ms`",
    ),
    (
        // Only a new session shows it.
        "profiles/mine.toml",
        "bundles = [\"base\"]\n[[row]]\nid = \"default-preset\"\nconfig = { preset = \"nope\" }\n",
        "profiles/mine.toml:4: row `default-preset`, field `config.preset`: there is no agent \
         preset `nope`",
    ),
    (
        "presets/mine.toml",
        "[[insert]]\nid = \"x\"\nplugin = \"tool-bsah\"\n",
        "presets/mine.toml:3: row `x`, field `plugin`: there is no plugin `tool-bsah`",
    ),
    ("prompts/review.md", "---\nnope: 1\n---\nReview $1.\n", "prompts/review.md"),
    ("prompts/deep/er.md", "\u{0}", "prompts/deep/er.md"),
];

#[tokio::test]
async fn a_broken_file_of_the_home_is_an_error() {
    for (path, text, message) in BROKEN {
        let bin = bin();
        bin.file(&format!("../home/{path}"), text).unwrap();
        let end = config(&bin, &["check"]).await;
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{path}: {}", end.stderr);
        let wanted = bin.home().join(message).display().to_string();
        assert!(end.stderr.contains(&wanted), "wanted {wanted} in {}", end.stderr);
    }
}

#[tokio::test]
async fn all_that_is_broken_is_told_at_once_and_each_once() {
    let bin = with_settings("[[row]]\nid = \"bash\"\nconfig = { timeuot_ms = 1 }\n");
    for (path, text, _) in [BROKEN[0], BROKEN[3]] {
        bin.file(&format!("../home/{path}"), text).unwrap();
    }
    let end = config(&bin, &["check"]).await;
    for part in ["`config.timeuot_ms`", "no bundle `bsae`", "no plugin `tool-bsah`"] {
        assert_eq!(end.stderr.matches(part).count(), 1, "{part} in {}", end.stderr);
    }
    // The same when rows can be mounted.
    let bin = self::bin();
    for (path, text, _) in [BROKEN[0], BROKEN[3], BROKEN[4], BROKEN[5]] {
        bin.file(&format!("../home/{path}"), text).unwrap();
    }
    let end = config(&bin, &["check"]).await;
    for part in ["no bundle `bsae`", "no plugin `tool-bsah`", "review.md", "deep/er.md"] {
        assert_eq!(end.stderr.matches(part).count(), 1, "{part} in {}", end.stderr);
    }
}

#[tokio::test]
async fn files_that_nothing_can_name_are_named() {
    let bin = bin();
    for path in ["presets/Bad Name.toml", "profiles/Bad Name.toml", "prompts/Bad Name.md"] {
        bin.file(&format!("../home/{path}"), "").unwrap();
    }
    let end = config(&bin, &["check"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for (path, names) in [
        ("presets/Bad Name.toml", "a name has at most 100 letters (a to z), digits"),
        ("profiles/Bad Name.toml", "a name has at most 100 letters (a to z), digits"),
        ("prompts/Bad Name.md", "names are lower-case letters, digits, `-` and `_`"),
    ] {
        let path = bin.home().join(path);
        let line = format!("warning: {}: not read: {names}", path.display());
        assert_eq!(end.stderr.matches(&line).count(), 1, "wanted {line} in {}", end.stderr);
    }
}
