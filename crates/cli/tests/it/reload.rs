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

/// Replaces the settings at once: a slow machine must not show them half written.
fn write(bin: &Bin, text: &str) {
    bin.file("../home/new", text).unwrap();
    std::fs::rename(bin.home().join("new"), bin.home().join("settings.toml")).unwrap();
}

/// Edits the settings and waits until this line is said of it.
async fn edit(bin: &Bin, running: &Running, text: &str, line: &str) {
    write(bin, text);
    said(running, line).await;
}

/// Waits until this line is the last one.
async fn said(running: &Running, line: &str) {
    let said = async {
        while running.stderr().lines().last() != Some(line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), said).await.is_err() {
        panic!("no\n{line}\nin\n{}", running.stderr());
    }
}

/// Edits the settings and waits until the run has looked at them, of which nothing is said.
async fn edit_silently(bin: &Bin, running: &Running, text: &str) {
    let before = running.stderr();
    write(bin, text);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(running.stderr(), before, "of {text}");
}

#[tokio::test]
async fn what_becomes_wrong_and_that_it_is_in_order_again_is_said_and_nothing_else() {
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
        let other = format!(
            "reins: {path}:1: not valid TOML: the brackets are not closed; end them with `]]`; the \
             last good settings stay in force"
        );
        let in_order = "reins: the settings are in order again";
        let gone = format!(
            "reins: {}: the home is gone; put it right; the last good settings stay in force",
            bin.home().display()
        );
        let good = format!("{QUICK}{CHANGED}\n{WAITS}");
        edit_silently(&bin, &running, &good).await;
        edit(&bin, &running, &format!("{QUICK}{BROKEN}"), &broken).await;
        // The same mistake on another line, and another one.
        edit_silently(&bin, &running, &format!("# moved\n{QUICK}{BROKEN}")).await;
        edit(&bin, &running, "[[row\n", &other).await;
        edit(&bin, &running, &good, in_order).await;
        edit_silently(&bin, &running, QUICK).await;
        edit(&bin, &running, &format!("{QUICK}{BROKEN}"), &broken).await;
        edit(&bin, &running, &format!("{QUICK}{WAITS}"), in_order).await;
        let away = bin.home().with_extension("away");
        std::fs::rename(bin.home(), &away).unwrap();
        said(&running, &gone).await;
        std::fs::rename(&away, bin.home()).unwrap();
        said(&running, in_order).await;
        bin.file("end", "").unwrap();
        let end = running.finish().await.unwrap();

        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let no_sandbox = "reins: no sandbox yet: commands run with all your permissions \
                          (danger-full-access)";
        let said: Vec<&str> = end.stderr.lines().collect();
        let expected = [no_sandbox, &broken, &other, in_order, &broken, in_order, &gone, in_order];
        assert_eq!(said, expected, "{form}");
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
