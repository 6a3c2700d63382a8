//! What the commands say to people: help, hints, and the views of sessions and tools.

use std::net::TcpListener;

use reins_testkit::{Bin, Finished, StrictServer, script};
use serde_json::{Value, json};

use super::demo::newest_session;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

#[tokio::test]
async fn an_unknown_command_is_told_which_there_are() {
    let first = "commands are: run, demo, session, config, explain, scripted-model; a prompt comes \
                 after `run`";
    let cases: [(&[&str], &str); 5] = [
        (&["rnu", "hi"], "did you mean `run`?; a prompt comes after `run`"),
        (&["mend the parser"], first),
        (&["help"], first),
        (&["session", "lst"], "did you mean `list`?"),
        (&["config", "everything"], "commands are: dump, check, schema, set, unset, edit, path"),
    ];
    let bin = bin();
    for (args, hint) in cases {
        let end = bin.run(args).await.unwrap();
        let name = args.iter().rfind(|word| **word != "hi").unwrap();
        let said = format!("reins: there is no command `{name}`\nhint: {hint}\n");
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_eq!(end.stderr, said, "{args:?}");
    }
}

#[tokio::test]
async fn the_help_of_run_has_examples_variables_and_exit_codes() {
    let end = bin().run(["run", "--help"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    for part in [
        "Examples:\n  reins run \"",
        "reins run --continue ",
        " | reins run --output json ",
        "DEEPSEEK_API_KEY ",
        "DEEPSEEK_BASE_URL ",
        "REINS_HOME ",
        "Exit codes:\n  0    completed\n",
        "  143  terminated\n",
    ] {
        assert!(end.stdout.contains(part), "no `{part}` in {}", end.stdout);
    }
    assert!(end.stdout.lines().all(|line| line.len() <= 100), "{}", end.stdout);
    // The table is that of the README.
    let readme = include_str!("../../../../README.md");
    let table = end.stdout.split("Exit codes:\n").nth(1).unwrap();
    for line in table.lines() {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        let row = format!("| {code} | {} |\n", meaning.trim());
        assert!(readme.contains(&row), "no `{row}` in README.md");
    }
}

async fn run(bin: &Bin) -> Finished {
    bin.run(["run", "hi"]).await.unwrap()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_look_at() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bin = bin().model_at(&format!("http://127.0.0.1:{port}"));
    let retry =
        "config = { vendor = \"deepseek\", retry = { max_retries = 2, initial_delay_ms = 1 } }";
    bin.file("p.toml", format!("[[row]]\nid = \"deepseek\"\n{retry}\n")).unwrap();
    let end = bin.run(["run", "hi", "--patch", "p.toml"]).await.unwrap();
    assert_eq!(end.code, Some(3), "{end:?}");
    for part in ["refused", "(3 attempts)\n", "the variable that", "`base_url`", "--continue"] {
        assert!(end.stderr.contains(part), "no `{part}` in {}", end.stderr);
    }
}

#[tokio::test]
async fn one_attempt_is_not_counted_and_has_nothing_to_do_with_the_network() {
    let server = StrictServer::start(script().status(401, &[])).unwrap();
    let end = run(&bin().model_at(&server.base_url())).await;
    assert_eq!(end.code, Some(3), "{end:?}");
    assert!(!end.stderr.contains("attempts") && !end.stderr.contains("network"), "{}", end.stderr);
}

#[tokio::test]
async fn an_end_without_a_text_is_no_silence() {
    let server = StrictServer::start(script().reasoning("Hm.")).unwrap();
    let end = run(&bin().model_at(&server.base_url())).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), ""), "{end:?}");
    assert!(end.stderr.ends_with("\nreins: the model ended without a text\n"), "{}", end.stderr);
}

#[tokio::test]
async fn a_session_is_shown_with_who_said_what() {
    let call = |command: &str| json!({"command": command, "description": "A command of a test"});
    let acts = script()
        .text("I look.")
        .call("bash", call("echo here"))
        .call("read", json!({"file_path": "absent"}))
        .usage(1, 7, 0)
        .then()
        .text("Done.");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    assert_eq!(run(&bin).await.code, Some(0));
    let id = newest_session(&bin);
    let show = bin.run(["session", "show", &id]).await.unwrap();
    assert_eq!(show.code, Some(0), "{show:?}");
    for part in [
        "] you: hi\n",
        "] model deepseek/deepseek-v4-flash: I look.\n→ bash {",
        "] result of bash: here\n[",
        "] result of read (failed): ",
        "] model deepseek/deepseek-v4-flash: Done.\n",
        " events, 1 turn, 1 token in, 7 out\n",
    ] {
        assert!(show.stdout.contains(part), "no `{part}` in {}", show.stdout);
    }
}

#[tokio::test]
async fn what_reins_tells_the_model_is_not_yours() {
    let stop = script().call("bash", json!({"command": "true", "description": "Nothing"}));
    let server = StrictServer::start(stop.then().text("on")).unwrap();
    let bin = bin().model_at(&server.base_url());
    // A turn that a limit ends is one of which the model is told.
    let end = bin.run(["run", "hi", "--max-steps", "1"]).await.unwrap();
    assert_eq!(end.code, Some(5), "{end:?}");
    let end = bin.run(["run", "--continue", "and on"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    let log = std::fs::read_to_string(bin.logs().unwrap().pop().unwrap()).unwrap();
    let notices = log.lines().filter(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event.to_string().contains("\"kind\":\"plugin\"") && line.contains("\"user/message\"")
    });
    let show = bin.run(["session", "show", &newest_session(&bin)]).await.unwrap();
    assert_eq!(show.stdout.matches("] reins: ").count(), notices.count(), "{}", show.stdout);
    assert!(show.stdout.contains("] reins: "), "{}", show.stdout);
    assert_eq!(show.stdout.matches("] you: ").count(), 2, "{}", show.stdout);
}

#[tokio::test]
async fn a_tool_of_a_disabled_row_is_explained_by_what_disabled_it() {
    let bin = bin();
    bin.file("p.toml", "\n[[row]]\nid = \"bash\"\ndisabled = true\n").unwrap();
    // A later change that says nothing of it is not the reason.
    bin.file("q.toml", "[[row]]\nid = \"bash\"\nconfig = {}\n").unwrap();
    let patches = ["--patch", "p.toml", "--patch", "q.toml"];
    let end = bin.run(["explain", "tool", "bash"].iter().chain(&patches)).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{end:?}");
    assert_eq!(
        end.stderr,
        "reins: there is no tool `bash`: tool row `bash` is disabled by patch p.toml:2\n\
         hint: take `disabled` out there to have the tool again\n"
    );
}
