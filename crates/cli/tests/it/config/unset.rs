//! What goes, and what comes back.

use super::{bin, changes, config, refused, text_of, with_settings};

/// The file, the key, the file afterwards, and what is said.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    // A field that is not below goes with the comment above it.
    (
        "[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 1 # one\n\n# two\ngrace_ms = 2\n\n\
         # end\n",
        "bash.grace_ms",
        "[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 1 # one\n\n# end\n",
        "7: bash.grace_ms: 2 → 3000 (default)",
    ),
    // What is commented out in the row or below it stays.
    (
        "# mine\n\n# b\n[[row]]\nid = 'bash'\n[row.config]\n# note\ntimeout_ms = 1\n\
         # grace_ms = 2\n# [[row]]\n# id = 'glob'\n\n# g\n[[row]]\nid = 'grep'\n\
         disabled = true\n# tail\n",
        "bash.timeout_ms",
        "# mine\n\n# note\n# grace_ms = 2\n# [[row]]\n# id = 'glob'\n\n# g\n[[row]]\n\
         id = 'grep'\ndisabled = true\n# tail\n",
        "8: bash.timeout_ms: 1 → 120000 (default)",
    ),
    (
        "[[row]]\nid = 'bash'\ndisabled = true\n# [[row]]\n# id = 'glob'\n\n# mine\n",
        "bash",
        "# [[row]]\n# id = 'glob'\n\n# mine\n",
        "1: bash.disabled: true → false",
    ),
    // The last one goes with its row, and the rest of the file stays.
    (
        "# mine\n\n# b\n[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 1\n\n# g\n[[row]]\n\
         id = 'grep'\ndisabled = true\n",
        "bash.timeout_ms",
        "# mine\n\n# g\n[[row]]\nid = 'grep'\ndisabled = true\n",
        "7: bash.timeout_ms: 1 → 120000 (default)",
    ),
    // What else the row says stays.
    (
        "[[row]]\nid = 'bash'\ndisabled = true # off\nconfig = { timeout_ms = 1 }\n",
        "bash.timeout_ms",
        "[[row]]\nid = 'bash'\ndisabled = true # off\n",
        "4: bash.timeout_ms: 1 → 120000 (default)",
    ),
    (
        "[[row]]\nid = 'bash'\ndisabled = true # off\nconfig = { timeout_ms = 1 }\n",
        "bash.disabled",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n",
        "3: bash.disabled: true → false",
    ),
    (
        "[[row]]\nid = 'bash'\nplugin = 'tool-bash'\ndisabled = true\n",
        "bash.disabled",
        "",
        "4: bash.disabled: true → false",
    ),
    // A field that is below comes back.
    (
        "[[row]]\nid = 'prompts'\nconfig = { folder = '/p', max_bytes = 1000 } # c\n",
        "prompts.folder",
        "[[row]]\nid = 'prompts'\n\
         config = { folder = \"${home}/prompts\", max_bytes = 1000 } # c\n",
        "3: prompts.folder: \"/p\" → \"${home}/prompts\"",
    ),
    (
        "[[row]]\nid = 'prompts'\nconfig = { folder = '/p' }\n",
        "prompts.folder",
        "",
        "3: prompts.folder: \"/p\" → \"${home}/prompts\"",
    ),
    // Tables that were only there for the field go, too.
    (
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\neffort = 'max'\n\
         retry = { jitter = 0.2 }\n",
        "deepseek.retry.jitter",
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\neffort = 'max'\n",
        "6: deepseek.retry.jitter: 0.2 → 0.1 (default)",
    ),
    (
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\n[row.config.retry]\n\
         jitter = 0.2\n\n[[row]]\nid = 'grep'\ndisabled = true\n",
        "deepseek.retry.jitter",
        "[[row]]\nid = 'grep'\ndisabled = true\n",
        "6: deepseek.retry.jitter: 0.2 → 0.1 (default)",
    ),
    // A row that is patched twice has nothing left of the first one either.
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n\n[[row]]\nid = 'bash'\n\
         disabled = true\nconfig.timeout_ms = 2\n",
        "bash.timeout_ms",
        "[[row]]\nid = 'bash'\ndisabled = true\n",
        "8: bash.timeout_ms: 2 → 120000 (default)",
    ),
    (
        "[[row]]\nid = 'bash'\ndisabled = true\n\n[[row]]\nid = 'bash'\ndisabled = true\n",
        "bash.disabled",
        "",
        "7: bash.disabled: true → false",
    ),
    // What else is written of the row stays as it was, though it is not in force.
    (
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\nconfig = { timeout_ms = 1 }\n\n\
         [[row]]\nid = 'sh'\nconfig = { grace_ms = 2 }\n\n[[row]]\nid = 'bash'\n\
         disabled = true\n",
        "sh.grace_ms",
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\nconfig = { timeout_ms = 1 }\n\n\
         [[row]]\nid = 'sh'\nconfig = {}\n\n[[row]]\nid = 'bash'\ndisabled = true\n",
        "8: sh.grace_ms: 2 → 3000 (default)",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n\n[[row]]\nid = 'bash'\n\
         config = { grace_ms = 2 }\n",
        "bash.grace_ms",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n\n[[row]]\nid = 'bash'\n\
         config = {}\n",
        "7: bash.grace_ms: 2 → 3000 (default)",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1, grace_ms = 1 }\n\n[[row]]\n\
         id = 'bash'\nconfig = { timeout_ms = 1, grace_ms = 2 }\n",
        "bash.grace_ms",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n",
        "7: bash.grace_ms: 2 → 3000 (default)",
    ),
    // A row that is inserted here stays until it is itself unset.
    (
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\n[insert.config]\ntimeout_ms = 1\n\n\
         [[row]]\nid = 'bash'\ndisabled = true\n",
        "sh.timeout_ms",
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\n\n[[row]]\nid = 'bash'\ndisabled = true\n",
        "5: sh.timeout_ms: 1 → 120000 (default)",
    ),
    (
        "# s\n\n# sh\n[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\n\n[[row]]\nid = 'bash'\n\
         disabled = true\n\n[[row]]\nid = 'sh'\nconfig = { timeout_ms = 1 }\n",
        "sh",
        "# s\n\n[[row]]\nid = 'bash'\ndisabled = true\n",
        "4: row `sh` of plugin `tool-bash` → gone",
    ),
    // A whole row.
    (
        "[[row]]\r\nid = 'bash'\r\ndisabled = true\r\nconfig = { timeout_ms = 1 }\r\n\r\n\
         [[row]]\r\nid = 'grep'\r\ndisabled = true",
        "bash",
        "[[row]]\r\nid = 'grep'\r\ndisabled = true",
        "1: bash.timeout_ms: 1 → 120000 (default), bash.disabled: true → false",
    ),
    // A patch that meets no row.
    (
        "[[row]]\nid = 'gerp'\ndisabled = true\n",
        "gerp",
        "",
        "1: gerp: no row has this id, and nothing is set for it now",
    ),
];

#[tokio::test]
async fn unset_takes_back_what_the_settings_say() {
    for (before, key, after, says) in CASES {
        changes(&with_settings(before), &["unset", key], after, says).await;
    }
}

#[tokio::test]
async fn unset_undoes_each_set_to_the_byte() {
    // The last line has no end.
    const FILE: &str = "# mine\n\n[[row]] # g\nid = 'grep'\nconfig = { max_matches = 5 }";
    for (key, value) in [
        ("bash.timeout_ms", "5"),
        ("bash.disabled", "true"),
        ("grep.disabled", "true"),
        ("grep.max_line_bytes", "100"),
        ("deepseek.retry.max_retries", "7"),
        ("deepseek.models[0].id", "deepseek-v4-flash"),
        ("prompts.folder", "/p"),
        ("default-model.model", "deepseek/deepseek-v4-pro"),
    ] {
        let bin = with_settings(FILE);
        let end = config(&bin, &["set", key, value]).await;
        assert_eq!(end.code, Some(0), "{key}: {}", end.stderr);
        assert_ne!(text_of(&bin), FILE, "{key}");
        let key = key.trim_end_matches("[0].id");
        let end = config(&bin, &["unset", key]).await;
        assert_eq!(end.code, Some(0), "{key}: {}", end.stderr);
        assert_eq!(text_of(&bin), FILE, "{key}");
    }
}

#[tokio::test]
async fn an_element_of_a_list_goes_alone() {
    let before =
        "[[row]]\nid = 'process'\n[row.config]\npass = [\n  'A_KEY', # a\n  'B_KEY', # b\n]\n";
    let after = "[[row]]\nid = 'process'\n[row.config]\npass = [\n  'B_KEY', # b\n]\n";
    let says = "5: process.pass[0]: \"A_KEY\" → \"B_KEY\"";
    changes(&with_settings(before), &["unset", "process.pass[0]"], after, says).await;
}

#[tokio::test]
async fn nothing_to_unset_is_said() {
    let bin = bin();
    refused(&bin, &["unset", "bash"], "`bash`: there is nothing to unset in {file}").await;
    let message = "`bash.timeout_ms`: there is nothing to unset in {file}";
    refused(&bin, &["unset", "bash.timeout_ms"], message).await;
    assert!(!super::file_of(&bin).exists());

    let bin = with_settings("[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\n");
    let message = "`bash.disabled`: there is nothing to unset in {file}";
    refused(&bin, &["unset", "bash.disabled"], message).await;
    let message = "`bash.timeuot_ms`: there is nothing to unset in {file}\n\
                   hint: did you mean `bash.timeout_ms`?";
    refused(&bin, &["unset", "bash.timeuot_ms"], message).await;
    let message = "there is no row `bahs`\nhint: did you mean `bash`?";
    refused(&bin, &["unset", "bahs.timeout_ms"], message).await;

    let bin = self::bin().env("REINS_HOME", bin.project().join("no/home"));
    let end = config(&bin, &["unset", "bash"]).await;
    assert_eq!(end.code, Some(2));
    assert_eq!(end.stderr, "reins: `bash`: there is nothing to unset\n");
}

#[tokio::test]
async fn a_row_that_others_need_stays() {
    let text = "[[row]]\nid = 'process'\ndisabled = true\n\n[[insert]]\nid = 'own'\n\
                plugin = 'world-process'\n";
    let bin = with_settings(text);
    let end = config(&bin, &["unset", "own"]).await;
    assert_eq!(end.code, Some(2));
    let message = format!(
        "{}: row `bash`: needs row `own`\nhint: {} is as it was\n",
        crate::rows::in_base("bash"),
        super::file_of(&bin).display()
    );
    assert_eq!(end.stderr, format!("reins: {message}"));
    assert_eq!(text_of(&bin), text);

    let text = "[[insert]]\nid = 'local'\nplugin = 'provider-chat'\nconfig = { vendor = \
                'compatible', base_url = 'http://127.0.0.1:1' }\n\n[[row]]\nid = 'default-model'\n\
                config = { model = 'local/m' }\n";
    let bin = with_settings(text);
    let end = config(&bin, &["unset", "local"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("there is no provider `local`"), "{}", end.stderr);
    assert_eq!(text_of(&bin), text);
}
