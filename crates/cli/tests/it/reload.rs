//! What `reins run` says of settings that change while its turn runs.

use std::time::Duration;

use reins_testkit::{Bin, Running, StrictServer, needs, script};
use serde_json::{Value, json};

/// So that nobody waits long.
const QUICK: &str = "[[row]]\nid = \"reload\"\nconfig = { every_ms = 20, settle_ms = 20 }\n";
const BROKEN: &str = "[[row]]\nid = \"prompt\"\nconfig = { persna = \"x\" }\n";
const CHANGED: &str = "[[row]]\nid = \"prompt\"\nconfig = { persona = \"x\" }\n\n\
                       [[row]]\nid = \"grep\"\ndisabled = true\n";
const WAITS: &str = "[[row]]\nid = \"agent-loop\"\nconfig = { inbox = 5 }\n";

/// A run whose turn lasts until the file `end` is in the project.
async fn long_run(server: &StrictServer, form: &str) -> (Bin, Running) {
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
    bin.file("../home/settings.toml", QUICK).unwrap();
    let running = bin.spawn(["run", "--output", form, "go"], None).await.unwrap();
    bin.until_log("\"type\":\"tool/start\"", 1).await.unwrap();
    (bin, running)
}

fn server() -> StrictServer {
    let command = "while [ ! -e end ]; do sleep 0.05; done; echo ended";
    let wait = json!({"command": command, "description": "Wait for the test"});
    StrictServer::start(script().call("bash", wait).then().text("done")).unwrap()
}

/// Edits the settings and waits until this line is said of it.
async fn edit(bin: &Bin, running: &Running, text: &str, line: &str) {
    bin.file("../home/settings.toml", text).unwrap();
    let said = async {
        while running.stderr().lines().last() != Some(line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), said).await.is_err() {
        panic!("no\n{line}\nin\n{}", running.stderr());
    }
}

#[tokio::test]
async fn each_change_is_said_once_on_standard_error_and_nothing_else() {
    if !needs("bash").unwrap() {
        return;
    }
    for form in ["text", "json", "stream-json"] {
        let server = server();
        let (bin, running) = long_run(&server, form).await;
        let path = bin.home().join("settings.toml").display().to_string();
        let broken = format!(
            "reins: {path}:6: row `prompt`, field `config.persna`: unknown key; did you mean \
             `persona`?; the last good settings stay in force"
        );
        let changed = format!(
            "reins: from the next turn on: row `prompt` changed ({path}:4), row `grep` disabled \
             ({path}:8)"
        );
        let waits = format!(
            "reins: {path}:12: row `agent-loop`: changed, which takes effect when Reins starts \
             again"
        );
        let mended = "reins: the settings are in order again, as they were before";
        bin.file("../home/settings.toml", format!("{QUICK}# a comment\n")).unwrap();
        edit(&bin, &running, &format!("{QUICK}{BROKEN}"), &broken).await;
        bin.file("../home/settings.toml", format!("{QUICK}{BROKEN}# a comment\n")).unwrap();
        edit(&bin, &running, &format!("{QUICK}{CHANGED}"), &changed).await;
        let all = format!("{QUICK}{CHANGED}\n{WAITS}");
        edit(&bin, &running, &all, &waits).await;
        edit(&bin, &running, &format!("{QUICK}{BROKEN}"), &broken).await;
        edit(&bin, &running, &all, mended).await;
        bin.file("end", "").unwrap();
        let end = running.finish().await.unwrap();

        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let no_sandbox = "reins: no sandbox yet: commands run with all your permissions \
                          (danger-full-access)";
        let said: Vec<&str> = end.stderr.lines().collect();
        assert_eq!(said, [no_sandbox, &broken, &changed, &waits, &broken, mended], "{form}");
        server.assert_clean();
        let bodies = server.json_bodies();
        assert_eq!(bodies[0]["messages"][0], bodies[1]["messages"][0], "the turn stays as it was");
        assert_eq!(bodies[0]["tools"], bodies[1]["tools"]);
        match form {
            "text" => assert_eq!(end.stdout, "done\n"),
            _ => {
                let lines = end.stdout.lines();
                let results = lines.filter(|line| {
                    serde_json::from_str::<Value>(line).unwrap()["schema"] != Value::Null
                });
                assert_eq!(results.count(), 1, "{}", end.stdout);
            }
        }
    }
}

#[tokio::test]
async fn several_mistakes_are_lines_below_each_other_and_the_run_ends_as_it_began() {
    if !needs("bash").unwrap() {
        return;
    }
    let server = server();
    let (bin, running) = long_run(&server, "text").await;
    let path = bin.home().join("settings.toml").display().to_string();
    let text = format!("{BROKEN}[[row]]\nid = \"bash\"\nconfig = {{ timeuot_ms = 5 }}\n");
    let last = format!(
        "  {path}:6: row `bash`, field `config.timeuot_ms`: unknown key; did you mean \
         `timeout_ms`?"
    );
    edit(&bin, &running, &text, &last).await;
    bin.file("end", "").unwrap();
    let end = running.finish().await.unwrap();
    let head = "reins: the settings cannot be used; the last good settings stay in force:";
    let said: Vec<&str> = end.stderr.lines().skip(1).collect();
    assert_eq!((said[0], said.len(), said[2]), (head, 3, last.as_str()), "{}", end.stderr);
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "done\n"));
}
