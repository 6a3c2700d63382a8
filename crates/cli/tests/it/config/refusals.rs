//! What is not written, and what may be though not all is well.

use super::{bin, config, file_of, refused, text_of, with_settings};

const AS_IT_WAS: &str = "\nhint: {file} is as it was";

/// Key, value, and what is said.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "bash.timeout_ms",
        "abc",
        "row `bash`, field `config.timeout_ms`: must be an integer, found a string",
    ),
    (
        "bash.timeout_ms",
        "true",
        "row `bash`, field `config.timeout_ms`: must be an integer, found true or false",
    ),
    (
        "bash.timeout_ms",
        "\"5\"",
        "row `bash`, field `config.timeout_ms`: must be an integer, found a string",
    ),
    (
        "bash.timeout_ms",
        "0",
        "row `bash`, field `config.timeout_ms`: must be at least 1 and at most \
             `max_timeout_ms`",
    ),
    ("bash.timeout_ms", "inf", "row `bash`, field `config.timeout_ms`: must be a finite number"),
    (
        "bash.timeout_ms.x",
        "1",
        "row `bash`, field `config.timeout_ms`: must be an integer, found a table",
    ),
    (
        "bash.tiemout_ms",
        "5",
        "row `bash`, field `config.tiemout_ms`: unknown key; did you mean `timeout_ms`?",
    ),
    (
        "bash.config.tiemout_ms",
        "5",
        "row `bash`, field `config.tiemout_ms`: unknown key; did you mean `timeout_ms`?",
    ),
    (
        "deepseek.retry.jiter",
        "0.1",
        "row `deepseek`, field `config.retry.jiter`: unknown key; did you mean `jitter`?",
    ),
    (
        "deepseek.vendor",
        "3",
        "row `deepseek`, field `config.vendor`: there is no vendor `3`; the vendors are \
             deepseek, compatible",
    ),
    (
        "deepseek.unlisted_models",
        "alow",
        "row `deepseek`, field `config.unlisted_models`: `alow` is none of `refuse`, \
             `allow`; did you mean `allow`?",
    ),
    (
        "prompt.persona",
        "${evn:X}",
        "row `prompt`, field `config.persona`: unknown reference `${evn:X}`; known are \
             `${home}`, `${env:NAME}`, `${env:NAME:-default}`; write `$${` for a plain `${`; \
             did you mean `${env:X}`?",
    ),
    (
        "prompt.persona",
        "${env:NOT_SET}",
        "row `prompt`, field `config.persona`: environment variable `NOT_SET` is not set; \
             set it, or write a default: `${env:NOT_SET:-default}`",
    ),
    (
        "default-model.model",
        "nope/x",
        "row `default-model`, field `config.model`: there is no provider `nope`; providers are: \
         deepseek",
    ),
];

#[tokio::test]
async fn a_value_that_is_wrong_changes_nothing() {
    let settings = "# c\n[[row]]\nid = 'bash'\nconfig = {timeout_ms=1}";
    for before in [Some(settings), None] {
        for (key, value, message) in WRONG {
            let bin = before.map_or_else(bin, with_settings);
            refused(&bin, &["set", key, value], &format!("{message}{AS_IT_WAS}")).await;
        }
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let bin = with_settings("[[row]]\nid = 'gerp'\ndisabled = true\n");
    let cases = [
        ("bahs.timeout_ms", "there is no row `bahs`\nhint: did you mean `bash`?"),
        (
            "nothing-like-it.x",
            "there is no row `nothing-like-it`\nhint: `reins config dump` shows all rows",
        ),
        // A patch of no row makes no row.
        ("gerp.max_matches", "there is no row `gerp`\nhint: did you mean `grep`?"),
        (
            "bash",
            "`bash` is a row; name a field of it\n\
             hint: `bash.disabled`, or a field of its `config`",
        ),
        ("bash.disabled", "`bash.disabled` must be true or false"),
        ("process.pass[1]", "`process.pass[1]`: the list is empty; its next element is `[0]`"),
        (
            "bash..x",
            "`bash..x`: a name is missing in the path\n\
             hint: a field is written like `bash.timeout_ms`, `deepseek.models[0].id`",
        ),
        (
            "bash.config",
            "`bash.config`: name a field in the row's `config`\n\
             hint: a field is written like `bash.timeout_ms`, `deepseek.models[0].id`",
        ),
    ];
    for (key, message) in cases {
        refused(&bin, &["set", key, "5"], message).await;
    }
}

#[tokio::test]
async fn a_patch_is_no_option_here() {
    let bin = bin();
    for args in [
        &["set", "--patch", "p.toml", "bash.timeout_ms", "5"][..],
        &["set", "bash.timeout_ms", "5", "--patch", "p.toml"],
        &["unset", "--patch", "p.toml", "bash.timeout_ms"],
    ] {
        let end = config(&bin, args).await;
        assert_eq!(end.code, Some(2), "{args:?}");
        assert!(end.stderr.contains("unexpected argument '--patch'"), "{}", end.stderr);
    }
    assert!(!file_of(&bin).exists());
}

#[tokio::test]
async fn a_file_that_is_no_toml_is_not_made_longer() {
    for (text, message) in [
        (
            "[[row]\nid = 'bash'\n",
            "{file}:1: not valid TOML: the brackets are not closed; end them with `]]`",
        ),
        (
            "x = 1\n[row]\nid = 'a'\n",
            "{file}:1: field `x`: unknown key; a layer has `[[insert]]` and `[[row]]` tables\n\
             {file}:2: field `row`: must be written as `[[row]]` tables",
        ),
    ] {
        let bin = with_settings(text);
        let hint = "\nhint: mend the file with `reins config edit`; it is as it was";
        refused(&bin, &["set", "bash.timeout_ms", "5"], &format!("{message}{hint}")).await;
    }
    let bin = bin();
    bin.file("../home/settings.toml", b"# fine\n\xff").unwrap();
    let message =
        "{file}:2: not UTF-8; save the file as UTF-8\nhint: the settings are as they were";
    refused(&bin, &["set", "bash.timeout_ms", "5"], message).await;
    // As Windows saves it; every command says what to do.
    for text in [b"\xff\xfe[\0[\0r\0", b"\xfe\xff\0[\0[\0r"] {
        bin.file("../home/settings.toml", text).unwrap();
        let utf16 = "{file}: saved as UTF-16; save it as UTF-8";
        let changed = format!("{utf16}\nhint: the settings are as they were");
        refused(&bin, &["set", "bash.timeout_ms", "5"], &changed).await;
        refused(&bin, &["unset", "bash.timeout_ms"], &changed).await;
        refused(&bin, &["check"], utf16).await;
        refused(&bin, &["dump"], utf16).await;
    }
}

/// Runs it, and checks the file and what is said to be still wrong.
async fn written_with_notes(text: &str, args: &[&str], after: &str, notes: &[&str]) {
    let bin = with_settings(text);
    let end = config(&bin, args).await;
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
    assert_eq!(text_of(&bin), after, "{args:?}");
    let file = file_of(&bin).display().to_string();
    let notes: String = notes
        .iter()
        .map(|note| format!("note: still wrong: {}\n", note.replace("{file}", &file)))
        .collect();
    assert_eq!(end.stderr, notes, "{args:?}");
    assert_eq!(end.stdout.ends_with("taken when the rest is mended\n"), !notes.is_empty());
}

const BROKEN: &str = "[[row]]\nid = 'glob'\nconfig = { max_fils = 1 }\n\n\
                      [[row]]\nid = 'read'\nconfig = { max_lines = 'x' }\n";

#[tokio::test]
async fn a_file_with_mistakes_can_be_mended_step_by_step() {
    let read = "{file}:6: row `read`, field `config.max_lines`: must be an integer, found a string";
    let read = read.replace(":6:", ":7:");
    let glob =
        "{file}:3: row `glob`, field `config.max_fils`: unknown key; did you mean `max_files`?";
    // Another row, with all that was wrong before.
    let after = format!("{BROKEN}\n[[row]]\nid = \"bash\"\n[row.config]\ntimeout_ms = 5\n");
    let set = ["set", "bash.timeout_ms", "5"];
    written_with_notes(BROKEN, &set, &after, &[glob, &read]).await;
    // One of the two.
    let mended = BROKEN.replace("'x'", "5");
    written_with_notes(BROKEN, &["set", "read.max_lines", "5"], &mended, &[glob]).await;
    // And the other.
    let after = "[[row]]\nid = 'read'\nconfig = { max_lines = 5 }\n";
    written_with_notes(&mended, &["unset", "glob.max_fils"], after, &[]).await;
    // A value is judged, though the mistakes of others hide what its plugin says.
    let bin = with_settings(BROKEN);
    let message = "row `bash`, field `config.timeout_ms`: must be at least 1 and at most \
                   `max_timeout_ms`";
    refused(&bin, &["set", "bash.timeout_ms", "0"], &format!("{message}{AS_IT_WAS}")).await;
    let message = "row `prompt`, field `config.facts`: must be true or false, found a string";
    refused(&bin, &["set", "prompt.facts", "maybe"], &format!("{message}{AS_IT_WAS}")).await;
}

#[tokio::test]
async fn what_plugins_refused_before_hides_nothing_new() {
    // Both are refused when they are mounted, and mounting stops at the first.
    let text = "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 0 }\n\n\
                [[row]]\nid = 'fs'\nconfig = { concurrent = 0 }\n";
    let bin = with_settings(text);
    let end = config(&bin, &["set", "glob.max_files", "0"]).await;
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(
        end.stderr.starts_with("reins: row `glob`, field `config.max_files`"),
        "{}",
        end.stderr
    );
    assert_eq!(text_of(&bin), text);

    let after = text.replace("concurrent = 0", "concurrent = 4");
    let bash = "{file}:3: row `bash`, field `config.timeout_ms`: must be at least 1 and at most \
                `max_timeout_ms`";
    written_with_notes(text, &["set", "fs.concurrent", "4"], &after, &[bash]).await;
}

#[tokio::test]
async fn a_row_that_misses_another_hinders_no_other_change() {
    // The line that the message names moves.
    let text = "[[row]]\nid = 'grep'\ndisabled = true\n\n[[row]]\nid = 'process'\n\
                disabled = true\n";
    let after = text.replacen("true\n", "true\n[row.config]\nmax_matches = 5\n", 1);
    let note = format!(
        "{}: row `bash`: needs service `process`, which no enabled row provides; enable row \
         `process`, which {{file}}:7 disables",
        crate::rows::in_base("bash")
    );
    written_with_notes(text, &["set", "grep.max_matches", "5"], &after, &[&note]).await;
}

#[tokio::test]
async fn a_damaged_row_does_not_hide_a_wrong_value() {
    let text = "[[row]]\nid = 'bash'\ndisbled = true\n";
    let bin = with_settings(text);
    let message = "row `bash`, field `config.timeout_ms`: must be an integer, found a string";
    refused(&bin, &["set", "bash.timeout_ms", "abc"], &format!("{message}{AS_IT_WAS}")).await;
}

#[tokio::test]
async fn an_unset_variable_below_is_no_hindrance() {
    let profile = "bundles = [\"base\"]\n[[insert]]\nid = \"local\"\nplugin = \"provider-chat\"\n\
                   config = { vendor = \"compatible\", base_url = \"${env:NOT_SET}\" }\n";
    let bin = bin();
    bin.file("../home/profiles/own.toml", profile).unwrap();
    let end = config(&bin, &["set", "local.disabled", "true", "--profile", "own"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert_eq!(text_of(&bin), "[[row]]\nid = \"local\"\ndisabled = true\n");
}

#[tokio::test]
async fn a_preset_that_cannot_be_used_any_more_is_named() {
    let bin = bin();
    let preset = "description = \"Few.\"\n[[insert]]\nid = \"few\"\nplugin = \"offer\"\n\
                  config = { tools = [\"grep\"] }\n";
    bin.file("../home/presets/few.toml", preset).unwrap();
    let end = config(&bin, &["set", "grep.disabled", "true"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let note = format!(
        "note: no longer to be used: {}:5: row `few`, field `config.tools[0]`: no tool `grep`",
        bin.home().join("presets/few.toml").display()
    );
    assert!(end.stderr.starts_with(&note), "{}", end.stderr);
    assert!(
        end.stdout.ends_with("taken by the next run; a running agent takes it at its next turn\n"),
        "{}",
        end.stdout
    );
    // It is said once.
    let end = config(&bin, &["set", "glob.max_files", "5"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));

    // The preset of new sessions must stay well.
    let bin = self::bin();
    bin.file("../home/presets/few.toml", preset).unwrap();
    assert_eq!(config(&bin, &["set", "default-preset.preset", "few"]).await.code, Some(0));
    let end = config(&bin, &["set", "grep.disabled", "true"]).await;
    assert_eq!(end.code, Some(2), "{}", end.stdout);
    assert!(end.stderr.contains("row `few`, field `config.tools[0]`"), "{}", end.stderr);
}
