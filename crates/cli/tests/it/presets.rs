//! Agent presets, from files to requests.

use std::fs::File;
use std::path::{Path, PathBuf};

use reins_testkit::{Acts, Bin, Finished, StrictServer, script};
use serde_json::{Value, json};

fn served(acts: Acts) -> (StrictServer, Bin) {
    let server = StrictServer::start(acts).unwrap();
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
    (server, bin)
}

fn preset(bin: &Bin, name: &str, text: &str) {
    bin.file(&format!("../home/presets/{name}.toml"), text).unwrap();
}

async fn run(bin: &Bin, args: &[&str]) -> Finished {
    bin.run(["run", "go"].iter().chain(args)).await.unwrap()
}

async fn runs(bin: &Bin, args: &[&str]) {
    let end = run(bin, args).await;
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
}

/// The tools of a request.
fn tools(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn system(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap()
}

fn log(bin: &Bin) -> (PathBuf, Vec<Value>) {
    let log = bin.logs().unwrap().pop().unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    (log, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The presets that the log of the session says were selected.
fn selected(bin: &Bin) -> Vec<String> {
    let chosen = |event: &Value| event["type"] == "agent-preset/selected";
    let name = |event: Value| event["data"]["agentPreset"].as_str().map(str::to_owned);
    log(bin).1.into_iter().filter(chosen).filter_map(name).collect()
}

fn header(log: &Path) -> Value {
    let text = std::fs::read_to_string(log.with_file_name("header.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

const ALL: [&str; 6] = ["bash", "edit", "glob", "grep", "read", "write"];

#[tokio::test]
async fn minimal_is_a_shell_and_an_editor_that_needs_no_read_and_stays_until_another_is_asked_for()
{
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let acts = script().call("edit", edit).then().text("done").forever();
    let (server, bin) = served(acts);
    bin.file("a.txt", "one\n").unwrap();

    runs(&bin, &["--preset", "minimal"]).await;
    assert_eq!(std::fs::read_to_string(bin.project().join("a.txt")).unwrap(), "two\n");
    assert_eq!(header(&log(&bin).0)["agentPreset"], "minimal");
    assert_eq!(selected(&bin), [""; 0], "the header says it");
    runs(&bin, &["--continue"]).await;
    assert_eq!(selected(&bin), [""; 0]);
    runs(&bin, &["--continue", "--preset", "standard"]).await;
    assert_eq!(selected(&bin), ["standard"]);
    runs(&bin, &["--continue"]).await;
    assert_eq!(selected(&bin), ["standard"], "logged when it changes, not each time");
    runs(&bin, &["--continue", "--preset", "minimal"]).await;
    runs(&bin, &["--continue"]).await;
    assert_eq!(selected(&bin), ["standard", "minimal"]);
    assert_eq!(header(&log(&bin).0)["agentPreset"], "minimal", "never changed");
    assert_eq!(bin.logs().unwrap().len(), 1);

    server.assert_clean();
    let bodies = server.json_bodies();
    let offered: Vec<Vec<&str>> = bodies.iter().map(tools).collect();
    let small: &[&str] = &["bash", "edit"];
    assert_eq!(offered, [small, small, small, &ALL, &ALL, small, small]);
    for (body, tools) in bodies.iter().zip(&offered) {
        let is_short = system(body).contains("You have a shell and an editor.");
        assert_eq!(is_short, *tools == small);
    }
}

#[tokio::test]
async fn what_the_shell_changes_the_editor_of_minimal_edits_again() {
    let edit = |old, new| json!({"file_path": "a.txt", "old_string": old, "new_string": new});
    let shell = json!({"command": "echo more >> a.txt", "description": "Adds a line"});
    let acts = script().call("edit", edit("one", "two")).then().call("bash", shell).then();
    let acts = acts.call("edit", edit("two", "three")).then().text("done");
    let (server, bin) = served(acts);
    bin.file("a.txt", "one\n").unwrap();
    runs(&bin, &["--preset", "minimal"]).await;
    let text = std::fs::read_to_string(bin.project().join("a.txt")).unwrap();
    assert_eq!(text, "three\nmore\n");
    let told = &server.json_bodies()[0]["tools"].to_string();
    assert!(told.contains("Look at the file first."), "{told}");
    assert!(!told.contains("use write"), "{told}");
    server.assert_clean();
}

#[tokio::test]
async fn a_session_is_shown_with_its_presets_and_what_was_called_with_its_turn() {
    let (server, bin) = served(script().text("ok").forever());
    bin.file("../home/prompts/gap.md", "Fill $1.\n").unwrap();
    runs(&bin, &["--preset", "minimal"]).await;
    let call = ["run", "--continue", "--preset", "standard", "/gap", "a"];
    let end = bin.run(call).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let id = header(&log(&bin).0)["id"].as_str().unwrap().to_owned();
    let show = bin.run(["session", "show", &id]).await.unwrap();
    assert_eq!(show.code, Some(0), "{}", show.stderr);
    let lines: Vec<&str> = show.stdout.lines().collect();
    assert!(lines[0].starts_with(&format!("session {id} of ")), "{}", show.stdout);
    assert!(lines[0].ends_with(", agent preset minimal"), "{}", show.stdout);
    let at = |part: &str| {
        let at = lines.iter().position(|line| line.contains(part));
        at.unwrap_or_else(|| panic!("no `{part}` in {}", show.stdout))
    };
    let order =
        ["== turn 1", "] agent preset standard", "== turn 2", "] called /gap a", "] you: Fill"];
    let places = order.map(at);
    assert!(places.is_sorted(), "{}", show.stdout);
    server.assert_clean();
}

#[tokio::test]
async fn a_preset_that_does_not_exist_is_an_error_with_the_nearest() {
    let (server, bin) = served(script().text("never"));
    preset(&bin, "mine", "");
    let end = run(&bin, &["--preset", "minmal"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        end.stderr,
        "reins: there is no agent preset `minmal`; known are: mine, minimal, standard; did you \
         mean `minimal`?\n"
    );
    let end = run(&bin, &["--preset", "../x"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("there is no agent preset `../x`; known are"), "{}", end.stderr);
    assert_eq!(bin.logs().unwrap(), Vec::<PathBuf>::new(), "no session was made");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_session_whose_preset_is_gone_or_broken_says_how_to_go_on() {
    let (server, bin) = served(script().text("ok").forever());
    preset(
        &bin,
        "mine",
        "[[insert]]\nid = \"less\"\nplugin = \"offer\"\nconfig = { tools = [] }\n",
    );
    runs(&bin, &["--preset", "mine"]).await;
    runs(&bin, &["--continue"]).await;
    let (log, events) = log(&bin);
    let session = header(&log)["id"].as_str().unwrap().to_owned();
    let file = bin.home().join("presets/mine.toml");

    std::fs::remove_file(&file).unwrap();
    let end = run(&bin, &["--continue"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""));
    let known = "there is no agent preset `mine`; known are: minimal, standard";
    let start = format!("reins: {known}; a new one is a file {}\n", file.display());
    let rest = format!(
        "session {session} uses this agent preset; go on with another one: --preset standard\n"
    );
    assert_eq!(end.stderr, start + &rest);

    preset(&bin, "mine", "[[insert]]\nid = \"less\"\nplugin = \"ofer\"\n");
    let end = run(&bin, &["--continue"]).await;
    assert_eq!(end.code, Some(2));
    let start = format!(
        "reins: {}:3: row `less`, field `plugin`: there is no plugin `ofer`",
        file.display()
    );
    assert!(end.stderr.starts_with(&start) && end.stderr.ends_with(&rest), "{}", end.stderr);
    assert_eq!(self::log(&bin).1.len(), events.len(), "a refused run writes nothing");

    std::fs::remove_file(&file).unwrap();
    runs(&bin, &["--continue", "--preset", "standard"]).await;
    runs(&bin, &["--continue"]).await;
    let bodies = server.json_bodies();
    let offered: Vec<Vec<&str>> = bodies.iter().map(tools).collect();
    assert_eq!(offered, [&[][..], &[], &ALL, &ALL]);
    server.assert_clean();
}

#[tokio::test]
async fn a_session_that_never_had_a_preset_goes_on_with_standard_whatever_is_the_default_today() {
    let (server, bin) = served(script().text("ok").forever());
    runs(&bin, &[]).await;
    let (log, _) = log(&bin);
    // As sessions were made before there were presets.
    let mut old = header(&log);
    old.as_object_mut().unwrap().remove("agentPreset").unwrap();
    let file = File::create(log.with_file_name("header.json")).unwrap();
    serde_json::to_writer(file, &old).unwrap();
    bin.file(
        "../home/settings.toml",
        "[[row]]\nid = \"default-preset\"\nconfig = { preset = \"minimal\" }\n",
    )
    .unwrap();
    runs(&bin, &["--continue"]).await;
    assert_eq!(tools(&server.json_bodies()[1]), ALL);
    assert_eq!(selected(&bin), ["standard"]);
    runs(&bin, &[]).await;
    assert_ne!(tools(&server.json_bodies()[2]), ALL, "a new one has the default of today");
    server.assert_clean();
}

#[tokio::test]
async fn a_preset_of_the_home_takes_the_place_of_a_shipped_one() {
    let (server, bin) = served(script().text("ok").forever());
    let text = "description = \"Reads.\"\n[[insert]]\nid = \"reads\"\nplugin = \"offer\"\n\
                config = { tools = [\"read\", \"grep\", \"bash\"], hide = [\"bash\"] }\n";
    preset(&bin, "minimal", text);
    runs(&bin, &["--preset", "minimal"]).await;
    let bodies = server.json_bodies();
    assert_eq!(tools(&bodies[0]), ["grep", "read"]);
    assert!(!system(&bodies[0]).contains("You have a shell and an editor."));
}

#[tokio::test]
async fn a_preset_has_a_model_limits_a_prompt_and_hidden_tools_of_its_own() {
    let stop = json!({"command": "true", "description": "Nothing"});
    let call = script().call("bash", stop).forever();
    let (server, bin) = served(call);
    let text = r#"
[[insert]]
id = "default-model"
plugin = "default-model"
config = { model = "deepseek/deepseek-v4-pro" }

[[insert]]
id = "limits"
plugin = "limits"
config = { max_steps = 2 }

[[insert]]
id = "prompt"
plugin = "prompt"
config = { persona = "You are terse." }

[[insert]]
id = "less"
plugin = "offer"
config = { hide = ["write", "edit"] }
"#;
    preset(&bin, "terse", text);
    let end = run(&bin, &["--preset", "terse"]).await;
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    assert!(end.stderr.contains("the limit `steps` was reached"), "{}", end.stderr);
    let end = run(&bin, &["--max-steps", "1"]).await;
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    let bodies = server.json_bodies();
    assert_eq!(bodies.len(), 3, "two steps with the preset, one without");
    for body in &bodies[..2] {
        assert_eq!(body["model"], "deepseek-v4-pro");
        assert_eq!(tools(body), ["bash", "glob", "grep", "read"]);
        assert!(system(body).starts_with("You are terse."), "{}", system(body));
    }
    assert_eq!(bodies[2]["model"], "deepseek-v4-flash");
    assert_eq!(tools(&bodies[2]), ALL);
    assert!(!system(&bodies[2]).contains("terse"));
    server.assert_clean();
}

/// A preset's text, and what is said of it behind `FILE:`.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[[insert]]\nid = \"less\"\nplugin = \"offer\"\nconfig = { hide = [\"bahs\"] }\n",
        "4: row `less`, field `config.hide[0]`: no tool `bahs` is inherited; did you mean `bash`?",
    ),
    (
        "[[insert]]\nid = \"less\"\nplugin = \"offer\"\nconfig = { hid = [\"bash\"] }\n",
        "4: row `less`, field `config.hid`: unknown key; did you mean `hide`?",
    ),
    ("descripton = \"x\"\n", "1: field `descripton`: unknown key; "),
    ("description = 3\n", "1: field `description`: must be a string"),
    (
        "[[row]]\nid = \"bash\"\ndisabled = true\n",
        "1: row `bash`: an agent preset cannot change rows of the profile; write `[[insert]]`",
    ),
    (
        "[[insert]]\nid = \"s\"\nplugin = \"world-clock\"\n",
        "3: row `s`, field `plugin`: plugin `world-clock` serves the whole process and cannot be set for \
         some agents only",
    ),
    ("[[insert]\n", "1: not valid TOML"),
];

#[tokio::test]
async fn a_mistake_in_a_preset_is_named_with_file_and_line() {
    let (server, bin) = served(script().text("never"));
    let file = bin.home().join("presets/mine.toml");
    for (text, words) in MISTAKES {
        preset(&bin, "mine", text);
        let end = run(&bin, &["--preset", "mine"]).await;
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{text}: {}", end.stderr);
        let start = format!("reins: {}:{words}", file.display());
        assert!(end.stderr.starts_with(&start), "{text}: {}", end.stderr);
        let check = bin.run(["config", "check"]).await.unwrap();
        assert_eq!((check.code, check.stderr.as_str()), (Some(2), end.stderr.as_str()), "{text}");
    }
    assert_eq!(bin.logs().unwrap(), Vec::<PathBuf>::new(), "no session was made");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_time_that_is_up_before_the_first_step_ends_the_run_and_keeps_the_prompt() {
    // Longer than the limit, whether that strikes before the request or after it left.
    let late = std::time::Duration::from_millis(200);
    let (server, bin) = served(script().text("ok").delay(late).forever());
    let end = bin.run(["run", "--max-time", "1ms", "--output", "json", "hurry"]).await.unwrap();
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    let result: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(result["reason"], "limit", "{result}");
    let turns = |events: &[Value]| events.iter().filter(|e| e["type"] == "turn/start").count();
    assert_eq!(turns(&log(&bin).1), 1, "it is not tried again by itself");
    runs(&bin, &["--continue"]).await;
    let prompts = |part: &str| {
        let bodies = server.json_bodies();
        bodies.last().unwrap()["messages"].to_string().matches(part).count()
    };
    assert_eq!((prompts("\"hurry\""), prompts("\"go\"")), (1, 1));
    server.assert_clean();
}
