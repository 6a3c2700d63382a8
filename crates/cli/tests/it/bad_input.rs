//! What people get wrong or find in their way: the exit code, the words, and that nothing is lost.

mod ends;
mod homes;
mod logs;
mod prompts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use reins_testkit::{Bin, Fault, Finished, StrictServer, script};
use serde_json::Value;

/// The keys of the object of `--output json`.
const KEYS: [&str; 13] = [
    "schema",
    "session",
    "ephemeral",
    "recovered",
    "turn",
    "reason",
    "text",
    "usage",
    "steps",
    "tool_calls",
    "denied",
    "duration_ms",
    "error",
];

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

/// The one object on standard output.
fn object(end: &Finished) -> Value {
    assert_eq!(end.stdout.lines().count(), 1, "one line: {}", end.stdout);
    let object: Value = serde_json::from_str(&end.stdout).unwrap();
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, KEYS);
    assert_eq!(object["schema"], "reins.run/1");
    object
}

/// Every file below the sessions' folder; empty when that is no folder.
fn sessions(bin: &Bin) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    collect(&bin.home().join("sessions"), &mut files);
    files
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
}

/// A home with one session of one turn, and its id.
async fn with_session(bin: &Bin) -> String {
    let end = bin.run(["run", "--output", "json", "the first prompt"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    object(&end)["session"].as_str().unwrap().to_owned()
}

/// A mistake: arguments after `run`, the exit code, and standard error without `reins: `.
struct Mistake {
    what: &'static str,
    args: Vec<OsString>,
    code: i32,
    message: String,
}

fn mistake(what: &'static str, args: &[&str], code: i32, message: impl Into<String>) -> Mistake {
    let args = args.iter().map(OsString::from).collect();
    Mistake { what, args, code, message: message.into() }
}

/// Runs it in every form of output.
async fn assert_refused(bin: &Bin, mistake: &Mistake) {
    let Mistake { what, args, code, message } = mistake;
    let before = sessions(bin);
    let run = [OsString::from("run")].into_iter().chain(args.iter().cloned());
    let end = bin.run(run.clone()).await.unwrap();
    assert_eq!(end.code, Some(*code), "{what}: {}", end.stderr);
    assert_eq!(end.stderr, format!("reins: {message}\n"), "{what}");
    assert_eq!(end.stdout, "", "{what}");

    let end = bin.run(run.clone().chain(["--output=json".into()])).await.unwrap();
    assert_eq!(end.code, Some(*code), "{what}: {}", end.stderr);
    assert_eq!(end.stderr, format!("reins: {message}\n"), "{what}");
    assert_error(&object(&end), what, message);

    let end = bin.run(run.chain(["--output=stream-json".into()])).await.unwrap();
    assert_eq!(end.code, Some(*code), "{what}: {}", end.stderr);
    let result: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(result["type"], "result", "{what}");
    assert_error(&result, what, message);
    assert_eq!(sessions(bin), before, "{what}: sessions stay as they are");
}

/// The object says the same as standard error.
fn assert_error(object: &Value, what: &str, message: &str) {
    let error = &object["error"];
    let mut said = error["message"].as_str().unwrap().to_owned();
    if let Some(hint) = error["hint"].as_str() {
        said.push_str("\nhint: ");
        said.push_str(hint);
    }
    assert_eq!(said, message, "{what}");
    assert_eq!(object["reason"], "error", "{what}");
    assert_ne!(error["code"], "", "{what}");
}

const HELP: &str = "\nhint: `--help` after a command shows what it takes";
const CWD: &str = "\nhint: give a directory that exists, or leave --cwd out for the current one";
const EMPTY: &str =
    "the prompt is empty\nhint: reins run \"what to do\", or pipe text into `reins run -`";
const DASH: &str = "`-` reads the prompt from standard input and stands alone\nhint: piped input is \
                    added to a prompt without `-`; a prompt with a dash of its own is one \
                    argument in quotes";
const FILE: &str = "; correct it, or leave out --patch";

/// Models that cannot be asked.
fn wrong_models() -> Vec<Mistake> {
    vec![
        mistake(
            "an unknown model",
            &["hi", "-m", "deepseek/deepseek-v4-falsh"],
            2,
            "provider `deepseek` has no model `deepseek-v4-falsh`; did you mean \
             `deepseek-v4-flash`? Its models are deepseek-v4-flash, deepseek-v4-pro; to use \
             others: `reins config set deepseek.unlisted_models allow`",
        ),
        mistake(
            "a model like no other",
            &["hi", "-m", "deepseek/gpt"],
            2,
            "provider `deepseek` has no model `gpt`; its models are deepseek-v4-flash, \
             deepseek-v4-pro; to use others: `reins config set \
             deepseek.unlisted_models allow`",
        ),
        mistake(
            "an unknown provider",
            &["hi", "-m", "depseek/x"],
            2,
            "there is no provider `depseek`; providers are: deepseek",
        ),
        mistake(
            "a model without a provider",
            &["hi", "-m", "deepseek-v4-flash"],
            2,
            "`deepseek-v4-flash` is not a model; models are written provider/model; did you mean \
             `deepseek/deepseek-v4-flash`?",
        ),
        mistake(
            "a word that is no model",
            &["hi", "-m", "best"],
            2,
            "`best` is not a model; models are written provider/model",
        ),
    ]
}

/// Prompts that say nothing, and directories that are none.
fn wrong_prompts_and_directories() -> Vec<Mistake> {
    let not_text = Mistake {
        what: "a prompt that is not UTF-8",
        args: vec![OsString::from_vec(b"caf\xe9".to_vec())],
        code: 2,
        message: "the prompt `caf\u{fffd}` is not UTF-8\nhint: pass the text through a file or \
                  pipe in UTF-8"
            .to_owned(),
    };
    vec![
        not_text,
        mistake("no prompt", &[], 2, EMPTY),
        mistake("an empty prompt", &[""], 2, EMPTY),
        mistake("a dash before a prompt", &["-", "review"], 2, DASH),
        mistake("a dash after a prompt", &["review", "-"], 2, DASH),
        mistake("a prompt of spaces", &[" \n\t"], 2, EMPTY),
        mistake(
            "a missing directory",
            &["hi", "--cwd", "absent"],
            2,
            format!("--cwd `absent`: No such file or directory (os error 2){CWD}"),
        ),
        mistake(
            "a file as directory",
            &["hi", "--cwd", "file"],
            2,
            format!("--cwd `file` is not a directory{CWD}"),
        ),
    ]
}

/// Options that cannot be.
fn wrong_options() -> Vec<Mistake> {
    vec![
        mistake(
            "a time without a unit",
            &["hi", "--max-time", "5"],
            2,
            format!(
                "invalid value '5' for '--max-time <TIME>': expected a number with a unit: 500ms, \
                 90s, 10m or 2h{HELP}"
            ),
        ),
        mistake(
            "no step at all",
            &["hi", "--max-steps", "0"],
            2,
            format!("invalid value '0' for '--max-steps <N>': must be 1 or more{HELP}"),
        ),
        mistake(
            "an unknown option",
            &["hi", "--flga"],
            2,
            "unexpected argument '--flga' found\nhint: to pass '--flga' as a value, use \
             '-- --flga'",
        ),
        mistake(
            "two sessions at once",
            &["hi", "--session", "x", "--continue"],
            2,
            format!("the argument '--session <ID>' cannot be used with '--continue'{HELP}"),
        ),
        mistake(
            "an unknown profile",
            &["hi", "--profile", "defualt"],
            2,
            "there is no profile `defualt`; known are: default, sdk; did you mean `default`?",
        ),
        mistake(
            "a folder as patch",
            &["hi", "--patch", "folder"],
            2,
            format!("folder: a folder, not a file{FILE}"),
        ),
        mistake(
            "a patch that is no text",
            &["hi", "--patch", "binary"],
            2,
            "binary: saved as UTF-16; save it as UTF-8",
        ),
    ]
}

#[tokio::test]
async fn wrong_arguments_are_refused_with_what_to_do_and_no_request() {
    let server = StrictServer::start(script().text("hello").times(1)).unwrap();
    let bin = bin().model_at(&server.base_url());
    bin.file("file", "").unwrap();
    bin.file("binary", b"\xff\xfe").unwrap();
    bin.file("folder/file", "").unwrap();
    with_session(&bin).await;
    let prompts = wrong_prompts_and_directories();
    for mistake in wrong_models().into_iter().chain(prompts).chain(wrong_options()) {
        assert_refused(&bin, &mistake).await;
    }
    assert_eq!(server.requests().len(), 1, "only the first run asked the model");
}

#[tokio::test]
async fn wrong_sessions_are_refused() {
    let server = StrictServer::start(script().text("hello").times(1)).unwrap();
    let bin = bin().model_at(&server.base_url());
    bin.file("folder/file", "").unwrap();
    let id = with_session(&bin).await;
    let (project, folder) = (bin.project(), bin.project().join("folder"));
    let near = format!("{}0", &id[..id.len() - 1]);
    let sessions = bin.home().join("sessions");
    let mistakes = [
        mistake(
            "an unknown session",
            &["hi", "--session", "nothing-like-it"],
            6,
            format!(
                "no session `nothing-like-it` in {}; list the sessions to see their ids",
                sessions.display()
            ),
        ),
        mistake(
            "a misspelt session",
            &["hi", "--session", &near],
            6,
            format!("no session `{near}` in {}; did you mean `{id}`?", sessions.display()),
        ),
        mistake(
            "a path as session",
            &["hi", "--session", "../x"],
            6,
            "`../x` is not a session id; ids consist of 1 to 128 letters, digits and hyphens",
        ),
        mistake(
            "a session of another directory",
            &["hi", "--session", &id, "--cwd", "folder"],
            2,
            format!(
                "session {id} belongs to `{}`, not to `{}`; leave --cwd out, or say that it \
                 belongs there from now on: reins session move {id} DIR",
                project.display(),
                folder.display()
            ),
        ),
        mistake(
            "no session of this directory",
            &["hi", "--continue", "--cwd", "folder"],
            6,
            format!(
                "there is no session of directory `{}` yet; start one without --continue",
                folder.display()
            ),
        ),
    ];
    for mistake in &mistakes {
        // The same digit may have been there already.
        if mistake.what != "a misspelt session" || near != id {
            assert_refused(&bin, mistake).await;
        }
    }
    assert_eq!(server.requests().len(), 1, "only the first run asked the model");
}

#[tokio::test]
async fn without_a_key_nothing_is_made() {
    let bin = bin();
    let message = "no key for provider `deepseek`: set the environment variable DEEPSEEK_API_KEY, \
                   or `api_key_env` or `api_key` in the settings of row `deepseek`\nhint: `reins demo` needs no \
                   key; for other servers see README.md, Models";
    assert_refused(&bin, &mistake("no key", &["hi"], 2, message)).await;
    let again = bin.env("DEEPSEEK_API_KEY", "");
    assert_refused(&again, &mistake("an empty key", &["hi"], 2, message)).await;
    assert!(!again.home().join("sessions").exists());
}

#[tokio::test]
async fn a_wrong_key_fails_once_and_the_session_goes_on() {
    let acts = script().status(401, &[]).then().text("now it works");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    let end = bin.run(["run", "--output", "json", "hello"]).await.unwrap();
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    let object = object(&end);
    assert_eq!(object["error"]["code"], "AUTH");
    assert!(end.stderr.contains("DEEPSEEK_API_KEY"), "what to do: {}", end.stderr);
    assert_eq!(server.requests().len(), 1, "no retry");

    let end = bin.run(["run", "--continue", "again"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "now it works\n"), "{}", end.stderr);
    server.assert_clean();
}

#[tokio::test]
async fn the_words_of_a_server_cannot_drive_the_terminal() {
    let body = r#"{"error":{"message":"gone \u001b[2J\u001b]0;title\u0007\u202e wrong"}}"#;
    let fault = Fault::status(400, &BTreeMap::new(), Some(body.to_owned())).unwrap();
    let server = StrictServer::start(script().text("no").fault(fault)).unwrap();
    let bin = bin().model_at(&server.base_url());
    let end = bin.run(["run", "hello"]).await.unwrap();
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(end.stderr.contains("gone \\u{1b}[2J"), "{}", end.stderr);
    let drives = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!end.stderr.contains(drives), "{:?}", end.stderr);
}
