//! What is written, in files of every form.

use super::{bin, changes, config, text_of, with_settings};

/// The file, the key, the value, the file afterwards, and what is said.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const COMMENTED: &str = "\
# My settings.

# Commands may take longer here.
[[row]]  # the tool
  id   = 'bash'
  [row.config]
  timeout_ms =   60000   # a minute
  # grace_ms = 1

# No searching.
[[row]]
id = \"grep\"
disabled = true # for now


# the end
";

const FORMS: &[Case] = &[
    (
        COMMENTED,
        "bash.timeout_ms",
        "70000",
        "\
# My settings.

# Commands may take longer here.
[[row]]  # the tool
  id   = 'bash'
  [row.config]
  timeout_ms =   70000   # a minute
  # grace_ms = 1

# No searching.
[[row]]
id = \"grep\"
disabled = true # for now


# the end
",
        "7: bash.timeout_ms: 60000 → 70000",
    ),
    (
        COMMENTED,
        "bash.grace_ms",
        "500",
        "\
# My settings.

# Commands may take longer here.
[[row]]  # the tool
  id   = 'bash'
  [row.config]
  timeout_ms =   60000   # a minute
  grace_ms = 500
  # grace_ms = 1

# No searching.
[[row]]
id = \"grep\"
disabled = true # for now


# the end
",
        "8: bash.grace_ms: 3000 (default) → 500",
    ),
    (
        COMMENTED,
        "glob.max_files",
        "5",
        "\
# My settings.

# Commands may take longer here.
[[row]]  # the tool
  id   = 'bash'
  [row.config]
  timeout_ms =   60000   # a minute
  # grace_ms = 1

# No searching.
[[row]]
id = \"grep\"
disabled = true # for now


# the end

[[row]]
id = \"glob\"
[row.config]
max_files = 5
",
        "21: glob.max_files: 100 (default) → 5",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1, grace_ms=2 } # c\n",
        "bash.timeout_ms",
        "5",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 5, grace_ms=2 } # c\n",
        "3: bash.timeout_ms: 1 → 5",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 } # c\n",
        "bash.grace_ms",
        "5",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1, grace_ms = 5 } # c\n",
        "3: bash.grace_ms: 3000 (default) → 5",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = {\n  timeout_ms = 1, # one\n}\n",
        "bash.grace_ms",
        "5",
        "[[row]]\nid = 'bash'\nconfig = {\n  timeout_ms = 1, # one\n  grace_ms = 5,\n}\n",
        "5: bash.grace_ms: 3000 (default) → 5",
    ),
    (
        "[[row]]\nconfig.timeout_ms = 1 # one\nid = 'bash'\n",
        "bash.grace_ms",
        "5",
        "[[row]]\nconfig.timeout_ms = 1 # one\nconfig.grace_ms = 5\nid = 'bash'\n",
        "3: bash.grace_ms: 3000 (default) → 5",
    ),
    (
        "[[row]]\nid = 'deepseek'\nconfig.vendor = 'deepseek'\nconfig.retry.jitter = 0.2\n",
        "deepseek.retry.max_retries",
        "5",
        "[[row]]\nid = 'deepseek'\nconfig.vendor = 'deepseek'\nconfig.retry.jitter = 0.2\n\
         config.retry.max_retries = 5\n",
        "5: deepseek.retry.max_retries: 2 (default) → 5",
    ),
    (
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\n\n[row.config.retry] # r\n\
         jitter = 0.2\n",
        "deepseek.retry.max_retries",
        "5",
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\n\n[row.config.retry] # r\n\
         jitter = 0.2\nmax_retries = 5\n",
        "8: deepseek.retry.max_retries: 2 (default) → 5",
    ),
    (
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\n\n[row.config.retry] # r\n\
         jitter = 0.2\n",
        "deepseek.config.effort",
        "max",
        "[[row]]\nid = 'deepseek'\n[row.config]\nvendor = 'deepseek'\neffort = \"max\"\n\n\
         [row.config.retry] # r\njitter = 0.2\n",
        "5: deepseek.effort: not set → \"max\"",
    ),
    // Keys in quotes, and rows in one list.
    (
        "[[\"row\"]]\n\"id\" = \"bash\"\n[\"row\".'config']\n\"timeout_ms\" = 1\n",
        "bash.timeout_ms",
        "5",
        "[[\"row\"]]\n\"id\" = \"bash\"\n[\"row\".'config']\n\"timeout_ms\" = 5\n",
        "4: bash.timeout_ms: 1 → 5",
    ),
    (
        "row = [\n  { id = 'bash', config.timeout_ms = 1 },\n  { id = 'grep', disabled = true },\n\
         ]\n",
        "bash.grace_ms",
        "5",
        "row = [\n  { id = 'bash', config.timeout_ms = 1, config.grace_ms = 5 },\n  \
         { id = 'grep', disabled = true },\n]\n",
        "2: bash.grace_ms: 3000 (default) → 5",
    ),
    (
        "row = [{ id = 'bash', disabled = true }]\n",
        "glob.max_files",
        "5",
        "row = [{ id = 'bash', disabled = true }, { id = \"glob\", config = { max_files = 5 } }]\n",
        "1: glob.max_files: 100 (default) → 5",
    ),
    // A row that the file has without the part that is set.
    (
        "[[row]]\nid = 'bash'\ndisabled = false # on\n\n[[row]]\nid = 'grep'\ndisabled = true\n",
        "bash.timeout_ms",
        "5",
        "[[row]]\nid = 'bash'\ndisabled = false # on\n[row.config]\ntimeout_ms = 5\n\n\
         [[row]]\nid = 'grep'\ndisabled = true\n",
        "5: bash.timeout_ms: 120000 (default) → 5",
    ),
    (
        "[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 5\n",
        "bash.disabled",
        "true",
        "[[row]]\nid = 'bash'\ndisabled = true\n[row.config]\ntimeout_ms = 5\n",
        "3: bash.disabled: false → true",
    ),
    // What is below is repeated, with references as they are written.
    (
        "",
        "prompts.max_bytes",
        "1000",
        "[[row]]\nid = \"prompts\"\n[row.config]\nfolder = \"${home}/prompts\"\nmax_bytes = 1000\n",
        "5: prompts.max_bytes: 262144 (default) → 1000",
    ),
    // A row that is inserted here, without and with a configuration, and patched here.
    (
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\n\n[[row]]\nid = 'bash'\ndisabled = true\n",
        "sh.timeout_ms",
        "5",
        "[[insert]]\nid = 'sh'\nplugin = 'tool-bash'\n[insert.config]\ntimeout_ms = 5\n\n\
         [[row]]\nid = 'bash'\ndisabled = true\n",
        "5: sh.timeout_ms: 120000 (default) → 5",
    ),
    (
        "[[row]]\nid = 'sh'\nconfig = { timeout_ms = 1 }\n\n[[insert]]\nid = 'sh'\n\
         plugin = 'tool-bash'\nconfig = { timeout_ms = 2 }\n\n[[row]]\nid = 'bash'\n\
         disabled = true\n",
        "sh.timeout_ms",
        "5",
        "[[row]]\nid = 'sh'\nconfig = { timeout_ms = 5 }\n\n[[insert]]\nid = 'sh'\n\
         plugin = 'tool-bash'\nconfig = { timeout_ms = 2 }\n\n[[row]]\nid = 'bash'\n\
         disabled = true\n",
        "3: sh.timeout_ms: 1 → 5",
    ),
    // A row that is patched twice: the last one holds.
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\ndisabled = true\n\n\
         [[row]]\nid = 'bash'\nconfig = { timeout_ms = 2 }\n",
        "bash.timeout_ms",
        "5",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\ndisabled = true\n\n\
         [[row]]\nid = 'bash'\nconfig = { timeout_ms = 5 }\n",
        "8: bash.timeout_ms: 2 → 5",
    ),
    (
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\ndisabled = true\n\n\
         [[row]]\nid = 'bash'\nconfig = { timeout_ms = 2 }\n",
        "bash.disabled",
        "false",
        "[[row]]\nid = 'bash'\nconfig = { timeout_ms = 1 }\ndisabled = false\n\n\
         [[row]]\nid = 'bash'\nconfig = { timeout_ms = 2 }\n",
        "4: bash.disabled: true → false",
    ),
    // Line ends, the end of the file, and a byte order mark.
    (
        "\u{feff}# c\r\n[[row]]\r\nid = 'bash'\r\n[row.config]\r\ntimeout_ms = 1\r\n",
        "bash.grace_ms",
        "5",
        "\u{feff}# c\r\n[[row]]\r\nid = 'bash'\r\n[row.config]\r\ntimeout_ms = 1\r\n\
         grace_ms = 5\r\n",
        "6: bash.grace_ms: 3000 (default) → 5",
    ),
    (
        "\u{feff}[[row]]\r\nid = 'bash'\r\ndisabled = true",
        "glob.max_files",
        "5",
        "\u{feff}[[row]]\r\nid = 'bash'\r\ndisabled = true\r\n\r\n[[row]]\r\nid = \"glob\"\r\n\
         [row.config]\r\nmax_files = 5",
        "8: glob.max_files: 100 (default) → 5",
    ),
    (
        "[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 1",
        "bash.grace_ms",
        "5",
        "[[row]]\nid = 'bash'\n[row.config]\ntimeout_ms = 1\ngrace_ms = 5",
        "5: bash.grace_ms: 3000 (default) → 5",
    ),
];

#[tokio::test]
async fn set_changes_its_own_bytes_only_in_every_form() {
    for (before, key, value, after, says) in FORMS {
        changes(&with_settings(before), &["set", key, value], after, says).await;
    }
}

/// A provider with a list of models, as tables and as a list.
const TABLES: &str = "\
[[insert]]
id = 'local'
plugin = 'provider-chat'
[insert.config]
vendor = 'compatible'
base_url = 'http://127.0.0.1:1/v1'

# the small one
[[insert.config.models]]
id = 'm1' # first

# the large one
[[insert.config.models]]
id = 'm2'

[[row]]
id = 'grep'
disabled = true
";

#[tokio::test]
async fn elements_of_lists_are_set_and_added() {
    let tables = with_settings(TABLES);
    let after = TABLES.replace("'m1' # first\n", "'m1' # first\nmax_tokens = 100\n");
    let says = "11: local.models[0].max_tokens: not set → 100";
    changes(&tables, &["set", "local.models[0].max_tokens", "100"], &after, says).await;
    let after = after.replace("id = 'm2'\n", "id = 'm2'\n[[insert.config.models]]\nid = \"m3\"\n");
    let says = "17: local.models[2].id: not set → \"m3\"";
    changes(&tables, &["set", "local.models[2].id", "m3"], &after, says).await;

    let before = "[[insert]]\nid = 'local'\nplugin = 'provider-chat'\nconfig = { vendor = \
                  'compatible', base_url = 'http://127.0.0.1:1', models = [{ id = 'm1' }] }\n";
    let list = with_settings(before);
    let after = before.replace("{ id = 'm1' }]", "{ id = 'm1' }, { id = \"3\" }]");
    let says = "4: local.models[1].id: not set → \"3\"";
    changes(&list, &["set", "local.models[1].id", "3"], &after, says).await;
    let after = after.replace("id = \"3\" }", "id = \"3\", context_window = 1000 }");
    let says = "4: local.models[1].context_window: not set → 1000";
    changes(&list, &["set", "local.models[1].context_window", "1000"], &after, says).await;
}

/// Key, value, and the statement that it becomes.
const VALUES: &[(&str, &str, &str)] = &[
    ("bash.timeout_ms", "60_000", "timeout_ms = 60_000"),
    ("deepseek.retry.jitter", "0.5", "retry = { jitter = 0.5 }"),
    ("prompt.facts", "false", "facts = false"),
    ("prompt.persona", "You are terse.", "persona = \"You are terse.\""),
    ("prompt.persona", "true", "persona = \"true\""),
    ("prompt.persona", "3", "persona = \"3\""),
    ("prompt.persona", "2026-01-02", "persona = \"2026-01-02\""),
    ("prompt.persona", "'quoted'", "persona = 'quoted'"),
    ("prompt.persona", "a \"b\" \\c", "persona = 'a \"b\" \\c'"),
    ("prompt.persona", "-1", "persona = \"-1\""),
    ("prompt.persona", "${env:NOT_SET:-x}", "persona = \"${env:NOT_SET:-x}\""),
    ("deepseek.effort", "max", "effort = \"max\""),
    ("process.pass", "[\"A_KEY\", 'B_KEY']", "pass = [\"A_KEY\", 'B_KEY']"),
    ("deepseek.headers", "{ x-a = \"1\" }", "headers = { x-a = \"1\" }"),
    ("deepseek.headers.\"x.b\"", "2", "headers = { \"x.b\" = \"2\" }"),
    ("deepseek.retry", "{ max_retries = 0, }", "retry = { max_retries = 0, }"),
];

#[tokio::test]
async fn a_value_is_what_the_field_takes() {
    for (key, value, statement) in VALUES {
        let bin = bin();
        let end = config(&bin, &["set", key, value]).await;
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{key} = {value}");
        let text = text_of(&bin);
        assert!(text.ends_with(&format!("\n{statement}\n")), "{key} = {value} gave\n{text}");
        assert_eq!(config(&bin, &["check"]).await.code, Some(0), "{key} = {value}");
    }
}

#[tokio::test]
async fn setting_what_is_set_leaves_the_file() {
    let bin = with_settings(COMMENTED);
    let inode = |bin: &reins_testkit::Bin| {
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(super::file_of(bin)).unwrap())
    };
    let before = inode(&bin);
    let says = "7: bash.timeout_ms: 60000, unchanged";
    changes(&bin, &["set", "bash.timeout_ms", "60000"], COMMENTED, says).await;
    assert_eq!(inode(&bin), before, "not written");
}

#[tokio::test]
async fn the_rows_of_the_profile_are_those_below() {
    let bin = bin();
    let profile = "bundles = [\"base\"]\n[[insert]]\nid = \"sh\"\nplugin = \"tool-bash\"\n\
                   config = { grace_ms = 7 }\n[[row]]\nid = \"bash\"\ndisabled = true\n";
    bin.file("../home/profiles/own.toml", profile).unwrap();
    let end = config(&bin, &["set", "sh.timeout_ms", "5", "--profile", "own"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let text = "[[row]]\nid = \"sh\"\n[row.config]\ngrace_ms = 7\ntimeout_ms = 5\n";
    assert_eq!(text_of(&bin), text);
    let end = config(&bin, &["unset", "sh.timeout_ms", "--profile", "own"]).await;
    assert_eq!((end.code, text_of(&bin).as_str()), (Some(0), ""));
}
