//! Rows of users: what they change, what is said of mistakes in them, and that keys stay secret.

use std::path::{Path, PathBuf};

use reins_providers::Vendor;
use reins_testkit::{Bin, Fault, Finished, StrictOptions, StrictServer, script};
use serde_json::json;

const KEY: &str = "sk-not-to-be-seen-anywhere-1234567890";

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

/// Where a row of the shipped bundle is inserted, as errors name it.
pub(crate) fn in_base(row: &str) -> String {
    let bundle = include_str!("../../bundles/base.toml");
    let id = format!("id = \"{row}\"");
    let line = bundle.lines().position(|line| line == id).unwrap();
    format!("bundle base:{line}")
}

/// A server that takes what any chat server takes.
fn compatible(acts: reins_testkit::Acts) -> StrictServer {
    let quirks = Some(Vendor::named("compatible").unwrap().quirks);
    StrictServer::start_with(acts, StrictOptions { quirks, ..StrictOptions::default() }).unwrap()
}

fn tools_of(body: &serde_json::Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "description": "A command of a test"})
}

/// Shorter time for `bash`, no `grep`, one more provider.
fn three_changes(base_url: &str) -> String {
    format!(
        r#"[[row]]
id = "bash"
config = {{ timeout_ms = 400, grace_ms = 100 }}

[[row]]
id = "grep"
disabled = true

[[insert]]
id = "other"
plugin = "provider-chat"
config = {{ vendor = "compatible", base_url = "{base_url}" }}
"#
    )
}

/// Runs with the rows in `file`, a path from the project, and checks that all three are in force.
async fn three_changes_work(file: &str, args: &[&str]) {
    let acts = script().call("bash", bash("echo begun; sleep 300")).then().text("I saw it.");
    let (usual, other) =
        (StrictServer::start(script().text("wrong server")).unwrap(), compatible(acts));
    let bin = bin().model_at(&usual.base_url());
    bin.file(file, three_changes(&other.base_url())).unwrap();

    let run = ["run", "-m", "other/x", "try it"].iter().chain(args);
    let end = bin.run(run).await.unwrap();

    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "I saw it.\n"), "{}", end.stderr);
    other.assert_clean();
    assert_eq!(usual.requests().len(), 0, "the usual provider is not asked");
    let bodies = other.json_bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0]["model"], "x");
    assert_eq!(tools_of(&bodies[0]), ["bash", "edit", "glob", "read", "write"]);
    let described = bodies[0]["tools"][0]["function"]["description"].as_str().unwrap();
    assert!(described.contains("A command may take 0.4 s"), "{described}");
    let answer = bodies[1]["messages"].as_array().unwrap().last().unwrap();
    let answer = answer["content"].as_str().unwrap();
    assert!(answer.starts_with("begun\n[timed out after 400 ms]"), "{answer}");
}

#[tokio::test]
async fn a_patch_replaces_a_config_disables_a_tool_and_adds_a_provider() {
    three_changes_work("patch.toml", &["--patch", "patch.toml"]).await;
}

#[tokio::test]
async fn the_settings_of_the_home_do_what_a_patch_does() {
    three_changes_work("../home/settings.toml", &[]).await;
}

#[tokio::test]
async fn a_patch_wins_over_the_settings_of_the_home() {
    let server = StrictServer::start(script().text("ok")).unwrap();
    let bin = bin().model_at(&server.base_url());
    let settings =
        "[[row]]\nid = \"grep\"\ndisabled = true\n[[row]]\nid = \"glob\"\ndisabled = true\n";
    bin.file("../home/settings.toml", settings).unwrap();
    bin.file("p.toml", "[[row]]\nid = \"glob\"\ndisabled = false\n").unwrap();
    let end = bin.run(["run", "hi", "--patch", "p.toml"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let bodies = server.json_bodies();
    assert_eq!(tools_of(&bodies[0]), ["bash", "edit", "glob", "read", "write"]);
}

/// What is wrong, the text of `p.toml`, and what standard error says of it.
pub(crate) const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "a misspelt key of a config",
        "[[row]]\nid = \"bash\"\n[row.config]\ngrace_ms = 1\ntimeuot_ms = 5\n",
        "p.toml:5: row `bash`, field `config.timeuot_ms`: unknown key; did you mean `timeout_ms`?",
    ),
    (
        "a misspelt key inside a table of a config",
        "[[row]]\nid = \"deepseek\"\nconfig = { vendor = \"deepseek\", retry = { jiter = 0.1 } }\n",
        "p.toml:3: row `deepseek`, field `config.retry.jiter`: unknown key; did you mean `jitter`?",
    ),
    (
        "a misspelt key of a row",
        "[[row]]\nid = \"bash\"\ndisable = true\n",
        "p.toml:3: row `bash`, field `disable`: unknown key; a row has `id`, `plugin`, `config`, \
         `disabled`; did you mean `disabled`?",
    ),
    (
        "a misspelt table",
        "\n[[rows]]\nid = \"bash\"\n",
        "p.toml:2: field `rows`: unknown key; a layer has `[[insert]]` and `[[row]]` tables; did \
         you mean `row`?",
    ),
    (
        "a misspelt plugin",
        "[[insert]]\nid = \"x\"\nplugin = \"provider-chta\"\n",
        "p.toml:3: row `x`, field `plugin`: there is no plugin `provider-chta`; did you mean \
         `provider-chat`?",
    ),
    (
        "a misspelt reference",
        "[[insert]]\nid = \"x\"\nplugin = \"provider-chat\"\n\
         config = { vendor = \"compatible\", base_url = \"${evn:X}\" }\n",
        "p.toml:4: row `x`, field `config.base_url`: unknown reference `${evn:X}`; known are \
         `${home}`, `${env:NAME}`, `${env:NAME:-default}`; write `$${` for a plain `${`; did you \
         mean `${env:X}`?",
    ),
    (
        "a variable that is not set",
        "[[insert]]\nid = \"x\"\nplugin = \"provider-chat\"\n\
         config = { vendor = \"compatible\", base_url = \"${env:NOT_SET}\" }\n",
        "p.toml:4: row `x`, field `config.base_url`: environment variable `NOT_SET` is not set; \
         set it, or write a default: `${env:NOT_SET:-default}`",
    ),
    (
        "a wrong type",
        "[[row]]\nid = \"bash\"\nconfig = { timeout_ms = \"5\" }\n",
        "p.toml:3: row `bash`, field `config.timeout_ms`: must be an integer, found a string",
    ),
    (
        "a value that the plugin refuses",
        "[[row]]\nid = \"bash\"\nconfig = { timeout_ms = 0 }\n",
        "p.toml:3: row `bash`, field `config.timeout_ms`: must be at least 1 and at most \
         `max_timeout_ms`",
    ),
    (
        "a misspelt name in a value",
        "[[insert]]\nid = \"x\"\nplugin = \"provider-chat\"\n\
         config = { vendor = \"compatibel\", base_url = \"http://127.0.0.1:1\" }\n",
        "p.toml:4: row `x`, field `config.vendor`: there is no vendor `compatibel`; the vendors are \
         deepseek, compatible; did you mean `compatible`?",
    ),
    (
        "an id that is taken",
        "[[insert]]\nid = \"x\"\nplugin = \"tool-bash\"\n\n[[insert]]\nid = \"x\"\n\
         plugin = \"tool-read\"\n",
        "p.toml:5: row `x`, field `id`: this id is taken by the row inserted at p.toml:1; change \
         it with `[[row]]`, or choose another id",
    ),
    (
        "another plugin",
        "[[row]]\nid = \"retry\"\nplugin = \"tool-bash\"\n",
        "p.toml:3: row `retry`, field `plugin`: the row is of plugin `retry` (inserted at \
         {retry}), not `tool-bash`; a patch cannot change it",
    ),
    (
        "no TOML",
        "[[row]\nid = \"bash\"\n",
        "p.toml:1: not valid TOML: the brackets are not closed; end them with `]]`",
    ),
];

fn assert_refused(end: &Finished, what: &str, message: &str) {
    assert_eq!(end.code, Some(2), "{what}: {}", end.stderr);
    assert_eq!(end.stderr, format!("reins: {message}\n"), "{what}");
    assert_eq!(end.stdout, "", "{what}");
}

#[tokio::test]
async fn a_mistake_is_named_with_file_line_row_field_and_the_nearest_name() {
    let bin = bin().env("DEEPSEEK_API_KEY", KEY);
    for (what, text, message) in MISTAKES {
        let message = &message.replace("{retry}", &in_base("retry"));
        bin.file("p.toml", text).unwrap();
        for command in [vec!["config", "check"], vec!["run", "hi"]] {
            let end = bin.run(command.iter().chain(&["--patch", "p.toml"])).await.unwrap();
            assert_refused(&end, what, message);
        }
    }
    assert_eq!(bin.logs().unwrap(), Vec::<PathBuf>::new(), "no session was made");
}

#[tokio::test]
async fn all_mistakes_of_all_files_are_named_at_once() {
    let bin = bin();
    bin.file("../home/settings.toml", "[[row]]\nid = \"bash\"\nconfig = { tmeout_ms = 1 }\n")
        .unwrap();
    bin.file("p.toml", "[[row]]\nid = \"read\"\ndisbled = true\n").unwrap();
    let end = bin.run(["config", "check", "--patch", "p.toml"]).await.unwrap();
    let settings = bin.home().join("settings.toml");
    let message = format!(
        "{}:3: row `bash`, field `config.tmeout_ms`: unknown key; did you mean `timeout_ms`?\n\
         p.toml:3: row `read`, field `disbled`: unknown key; a row has `id`, `plugin`, `config`, \
         `disabled`; did you mean `disabled`?",
        settings.display()
    );
    assert_refused(&end, "two files", &message);
}

#[tokio::test]
async fn a_row_without_its_service_and_a_missing_file_are_named() {
    let bin = bin();
    bin.file("p.toml", "[[row]]\nid = \"process\"\ndisabled = true\n").unwrap();
    let end = bin.run(["run", "hi", "--patch", "p.toml"]).await.unwrap();
    let message = format!(
        "{}: row `bash`: needs service `process`, which no enabled row provides; enable row \
         `process`, which p.toml:1 disables",
        in_base("bash")
    );
    assert_refused(&end, "a missing service", &message);

    let end = bin.run(["run", "hi", "--patch", "absent.toml"]).await.unwrap();
    let message = "absent.toml: there is no such file; correct the path, or leave out --patch";
    assert_refused(&end, "a missing file", message);
}

#[tokio::test]
async fn an_unknown_row_is_a_warning() {
    let server = StrictServer::start(script().text("still here")).unwrap();
    let bin = bin().model_at(&server.base_url());
    bin.file("p.toml", "[[row]]\nid = \"gerp\"\ndisabled = true\n").unwrap();
    let warning = "warning: p.toml:1: row `gerp`: no row has this id, so this patch changes \
                   nothing; did you mean `grep`?\n";

    let end = bin.run(["config", "check", "--patch", "p.toml"]).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), warning));
    assert_eq!(end.stdout, "21 rows, 2 agent presets, 2 profiles and 0 prompts are fine\n");

    let end = bin.run(["run", "hi", "--patch", "p.toml"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "still here\n"));
    assert!(end.stderr.starts_with(warning), "{}", end.stderr);
}

/// A provider that gets the key of the variable `OTHER_KEY` in two ways.
fn keyed_provider(base_url: &str) -> String {
    format!(
        r#"[[insert]]
id = "other"
plugin = "provider-chat"

[insert.config]
vendor = "compatible"
base_url = "{base_url}"
api_key = "${{env:OTHER_KEY}}"
headers = {{ x-team = "${{env:OTHER_KEY}}" }}
"#
    )
}

#[tokio::test]
async fn dump_shows_origins_and_no_keys() {
    let bin = bin().env("OTHER_KEY", KEY);
    bin.file("../home/settings.toml", "[[row]]\nid = \"grep\"\ndisabled = true\n").unwrap();
    let patch = keyed_provider("http://127.0.0.1:1/v1")
        + "\n[[row]]\nid = \"bash\"\nconfig = { timeout_ms = 400 }\n";
    bin.file("p.toml", patch).unwrap();
    let end = bin.run(["config", "dump", "--patch", "p.toml"]).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let head = "# All rows in force. Not a settings file: change rows with `reins config set ";
    assert!(end.stdout.starts_with(head), "who copies it learns that first: {}", end.stdout);
    let settings = bin.home().join("settings.toml");
    let parts = [
        &format!(
            "# inserted by {}\n# changed by patch p.toml:11\n[[insert]]\n\
             id = \"bash\"\nplugin = \"tool-bash\"\n\n[insert.config]\ntimeout_ms = 400\n",
            in_base("bash")
        ),
        &format!(
            "# inserted by {}\n# changed by your settings, {}:1\n[[insert]]\n\
             id = \"grep\"\nplugin = \"tool-grep\"\ndisabled = true\n",
            in_base("grep"),
            settings.display()
        ),
        "# inserted by patch p.toml:1\n[[insert]]\nid = \"other\"\n\
         plugin = \"provider-chat\"\n",
        "api_key = \"${env:OTHER_KEY}\"\n",
        "x-team = \"${env:OTHER_KEY}\"\n",
    ];
    for part in parts {
        assert!(end.stdout.contains(part), "no\n{part}\nin\n{}", end.stdout);
    }
    assert!(!end.stdout.contains(KEY), "{}", end.stdout);

    let rows = end.stdout.matches("[[insert]]").count();
    assert_eq!(rows, 22);
    let check = bin.run(["config", "check", "--patch", "p.toml"]).await.unwrap();
    assert_eq!(
        (check.code, check.stdout.as_str()),
        (Some(0), "21 rows, 2 agent presets, 2 profiles and 0 prompts are fine\n")
    );
}

#[tokio::test]
async fn a_mistake_beside_a_key_does_not_show_the_key() {
    let bin = bin().env("OTHER_KEY", KEY);
    let patch = "[[row]]\nid = \"deepseek\"\nconfig = { vendor = \"${env:OTHER_KEY}\" }\n";
    bin.file("p.toml", patch).unwrap();
    for command in [["config", "check"], ["run", "hi"]] {
        let end = bin.run(command.iter().chain(&["--patch", "p.toml"])).await.unwrap();
        let message = "p.toml:3: row `deepseek`, field `config.vendor`: there is no vendor \
                       `${env:OTHER_KEY}`; the vendors are deepseek, compatible";
        assert_refused(&end, "a key as vendor", message);
    }
}

/// Every file below `folder` whose bytes contain `text`.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if contains(&std::fs::read(&path).unwrap(), text) {
            found.push(path);
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A run whose model looks at the environment; the answer of `env`, as the model got it.
async fn environment_seen(pass: &str) -> (Bin, Finished, String) {
    let acts = script()
        .call("bash", bash("env; cat /proc/$PPID/environ | tr '\\0' '\\n'"))
        .then()
        .text("looked");
    let server = compatible(acts);
    let bin = bin().env("OTHER_KEY", KEY).env("my_token", KEY).env("PLAIN", "plain-to-see");
    // Names that tell nothing: one holds a key's value, one is named by a row.
    let bin = bin.env("COPY", KEY).env("GATEWAY", "sk-of-the-gateway");
    let third = "\n[[insert]]\nid = \"third\"\nplugin = \"provider-chat\"\n[insert.config]\n\
                 vendor = \"compatible\"\nbase_url = \"http://127.0.0.1:1\"\n\
                 api_key_env = \"GATEWAY\"\n";
    let patch = keyed_provider(&server.base_url()) + third + pass;
    bin.file("p.toml", patch).unwrap();
    let args = ["run", "--output", "stream-json", "-m", "other/x", "look", "--patch", "p.toml"];
    let end = bin.run(args).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    server.assert_clean();
    let requests = server.requests();
    let sent = |name: &str| {
        let headers = requests[0].headers.iter();
        headers.filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect::<Vec<_>>()
    };
    assert_eq!(sent("x-team"), [KEY], "the key is used");
    assert_eq!(sent("authorization"), ["(withheld)"]);
    let bodies = server.json_bodies();
    let answer = bodies[1]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    (bin, end, answer.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_key_appears_in_no_file_no_output_and_no_command() {
    let (bin, end, seen) = environment_seen("").await;
    assert!(seen.contains("PLAIN=plain-to-see"), "{seen}");
    assert!(!seen.contains("OTHER_KEY") && !seen.contains("my_token"), "{seen}");
    assert!(!seen.contains("COPY") && !seen.contains("GATEWAY"), "{seen}");
    assert!(!seen.contains(KEY), "{seen}");
    assert!(!end.stdout.contains(KEY) && !end.stderr.contains(KEY));
    assert_eq!(bin.logs().unwrap().len(), 1);
    assert_eq!(files_with(bin.project().parent().unwrap(), KEY), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_row_lets_a_variable_pass_by_name() {
    let pass = "\n[[row]]\nid = \"process\"\nconfig = { pass = [\"my_token\"] }\n";
    let (_, _, seen) = environment_seen(pass).await;
    assert!(seen.contains(&format!("my_token={KEY}")), "{seen}");
    assert!(!seen.contains("OTHER_KEY"), "{seen}");
}

#[tokio::test]
async fn a_server_that_repeats_the_key_does_not_get_it_into_log_or_output() {
    let body = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}\"}}}}");
    let fault = Fault::status(401, &std::collections::BTreeMap::new(), Some(body)).unwrap();
    let server = StrictServer::start(script().text("no").fault(fault)).unwrap();
    let bin = bin().env("DEEPSEEK_BASE_URL", server.base_url()).env("DEEPSEEK_API_KEY", KEY);
    let end = bin.run(["run", "--output", "stream-json", "hi"]).await.unwrap();
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(end.stderr.contains("Incorrect API key provided"), "{}", end.stderr);
    assert_eq!(files_with(bin.project().parent().unwrap(), KEY), Vec::<PathBuf>::new());
    assert!(!end.stdout.contains(KEY) && !end.stderr.contains(KEY), "{}", end.stderr);
}
