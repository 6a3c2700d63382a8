//! What is said of a change: old and new, when it is taken, and who does not see it.

use super::{bin, changes, config, file_of, refused, text_of, with_settings};

#[tokio::test]
async fn a_default_is_named_where_nothing_is_set() {
    let end = config(&bin(), &["set", "bash.timeout_ms", "60000"]).await;
    assert!(end.stdout.contains(":4: bash.timeout_ms: 120000 (default) → 60000\n"), "{end:?}");
    let text = "[[row]]\nid = 'deepseek'\nconfig = { vendor = 'deepseek', headers = {} }\n";
    let end = config(&with_settings(text), &["set", "deepseek.headers.x", "1"]).await;
    assert!(end.stdout.contains(": deepseek.headers.x: not set → \"[withheld]\"\n"), "{end:?}");
    let bin = with_settings("[[row]]\nid = 'bash'\nconfig = { timeout_ms = 60000 }\n");
    let says = "3: bash.timeout_ms: 60000 → 120000 (default)";
    changes(&bin, &["unset", "bash.timeout_ms"], "", says).await;
}

#[tokio::test]
async fn a_value_that_is_there_already_is_not_written_again() {
    // The same value in other forms.
    let text = "[[row]]\nid = 'bash'\ndisabled = true\nconfig = { timeout_ms = 60_000 }\n\n\
                [[row]]\nid = 'prompt'\nconfig.persona = '5'\n";
    for (key, value, says) in [
        ("bash.timeout_ms", "60000", "{file}:4: bash.timeout_ms: 60000, unchanged\n"),
        ("bash.disabled", "true", "{file}:3: bash.disabled: true, unchanged\n"),
        ("prompt.persona", "5", "{file}:8: prompt.persona: \"5\", unchanged\n"),
        // What a layer below says.
        ("prompts.folder", "${home}/prompts", "prompts.folder: \"${home}/prompts\", unchanged\n"),
        ("grep.disabled", "false", "grep.disabled: false, unchanged\n"),
    ] {
        let bin = with_settings(text);
        let end = config(&bin, &["set", key, value]).await;
        let says = says.replace("{file}", &file_of(&bin).display().to_string());
        assert_eq!((end.code, end.stdout.as_str()), (Some(0), says.as_str()), "{}", end.stderr);
        assert_eq!(text_of(&bin), text);
    }
    let bin = bin();
    assert_eq!(config(&bin, &["set", "grep.disabled", "false"]).await.code, Some(0));
    assert!(!file_of(&bin).exists(), "nothing to write");
}

#[tokio::test]
async fn key_and_value_may_be_one_word() {
    let bin = bin();
    let end = config(&bin, &["set", "bash.timeout_ms=60000"]).await;
    assert!(end.stdout.contains(": bash.timeout_ms: 120000 (default) → 60000\n"), "{end:?}");
    let end = config(&bin, &["set", "prompt.persona=a = b"]).await;
    assert!(end.stdout.contains(" → \"a = b\"\n"), "{end:?}");
    let end = config(&bin, &["set", "deepseek.headers.\"x=y\"=1"]).await;
    assert!(end.stderr.contains("field `config.headers.x=y`: has a character"), "{end:?}");
    let end = config(&bin, &["set", "bash.timeout_ms="]).await;
    assert!(end.stderr.contains("must be an integer, found a string"), "{end:?}");
    let message = "`bash.timeout_ms` gets no value\n\
                   hint: `reins config set bash.timeout_ms VALUE`; `reins config unset \
                   bash.timeout_ms` takes it back";
    refused(&bin, &["set", "bash.timeout_ms"], message).await;
}

const NEXT_TURN: &str = "\ntaken by the next run; a running agent takes it at its next turn\n";
const NEXT_START: &str = "\ntaken when Reins starts again\n";
const NO_RELOAD: &str = "\ntaken when Reins starts again, since no row of plugin `reload` is on\n";

#[tokio::test]
async fn when_a_change_is_taken_depends_on_the_row_and_on_who_looks() {
    let off = "[[row]]\nid = 'reload'\ndisabled = true\n";
    for (text, args, when) in [
        ("", &["set", "bash.timeout_ms", "60000"][..], NEXT_TURN),
        ("", &["set", "store.write_within_ms", "100"], NEXT_START),
        (off, &["set", "bash.timeout_ms", "60000"], NO_RELOAD),
        (off, &["set", "store.write_within_ms", "100"], NEXT_START),
        ("", &["set", "bash.timeout_ms", "60000", "--profile", "sdk"], NO_RELOAD),
        (off, &["unset", "reload"], NEXT_START),
    ] {
        let end = config(&with_settings(text), args).await;
        assert!(end.stdout.ends_with(when), "{args:?}: {end:?}");
    }
}

#[tokio::test]
async fn a_row_of_the_default_preset_that_hides_the_change_is_named() {
    let minimal = "[[row]]\nid = 'default-preset'\nconfig = { preset = 'minimal' }\n";
    let note = |row: &str| {
        format!(
            "note: agent preset `minimal`, the default, has its own `{row}`: agents of it do not \
             see this\n"
        )
    };
    for (key, value, notes) in [
        ("prompt.persona", "Be brief.", note("prompt")),
        ("edit.require_read", "true", note("edit")),
        ("edit.disabled", "true", note("edit")),
        ("bash.timeout_ms", "60000", String::new()),
        ("prompts.max_bytes", "60000", String::new()),
    ] {
        let end = config(&with_settings(minimal), &["set", key, value]).await;
        assert_eq!((end.code, end.stderr), (Some(0), notes), "{key}");
    }
    // It is not the default.
    let end = config(&bin(), &["set", "prompt.persona", "Be brief."]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_table_that_needs_more_is_set_whole() {
    let local = "[[insert]]\nid = 'local'\nplugin = 'provider-chat'\nconfig = { vendor = \
                 'compatible', base_url = 'http://127.0.0.1:1/v1' }\n";
    let bin = with_settings(local);
    let end = config(&bin, &["set", "local.models[0].max_tokens", "5"]).await;
    let hint = format!(
        "hint: `reins config set 'local.models[0]' '{{ … }}'` sets the whole table · {} is as it \
         was\n",
        file_of(&bin).display()
    );
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("field `config.models[0].id`: is required"), "{}", end.stderr);
    assert!(end.stderr.ends_with(&hint), "{}", end.stderr);
    let end = config(&bin, &["set", "local.models[0]", "{ id = 'm', max_tokens = 5 }"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn what_a_refused_row_brings_down_is_not_told() {
    for (key, value, message) in [
        ("store.home", "rel", "row `store`, field `config.home`: `rel` is not an absolute path"),
        (
            "agent-loop.disabled",
            "true",
            "row `agent-loop`: Reins needs its service `agents`; it must not be disabled",
        ),
    ] {
        refused(&bin(), &["set", key, value], &format!("{message}\nhint: {{file}} is as it was"))
            .await;
    }
}

#[tokio::test]
async fn what_is_wrong_below_the_settings_is_no_hindrance() {
    let profile = "bundles = [\"base\"]\n[[row]]\nid = \"grep\"\n\
                   config = { max_matches = \"${env:NOT_SET}\" }\n";
    let bin = bin();
    bin.file("../home/profiles/own.toml", profile).unwrap();
    let end = config(&bin, &["set", "bash.timeout_ms", "60000", "--profile", "own"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.starts_with("note: still wrong: "), "{}", end.stderr);
    assert!(end.stderr.contains("`NOT_SET` is not set"), "{}", end.stderr);
    assert_eq!(text_of(&bin), "[[row]]\nid = \"bash\"\n[row.config]\ntimeout_ms = 60000\n");
}
