//! The same ends in the other forms of output, in the model's eyes, and afterwards.

use reins_schema::Event;
use reins_testkit::{StrictServer, rebuild_requests, script};
use serde_json::Value;

use super::{KEYS, PROMPT, Row};

/// The first line of every run's stderr.
const NOTE: &str = "reins: no sandbox yet";

/// Rows with different ends.
const SOME: [&str; 8] = [
    "401",
    "429, a very long wait",
    "500 for ever",
    "500 twice",
    "cut after the text",
    "length inside arguments, twice",
    "the request is too long",
    "nothing listens",
];

#[tokio::test]
async fn as_text_the_answer_stands_alone_and_the_error_is_one_line() {
    for name in SOME {
        let row = Row::named(name);
        let ran = row.run(true, "text").await;
        let end = &ran.end;
        let expected = if row.exit == 0 { format!("{}\n", row.says) } else { String::new() };
        assert_eq!((end.code, &end.stdout), (Some(row.exit), &expected), "{name}: {end:?}");
        let mut problems = Vec::new();
        ran.check(&mut problems);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        let (notes, rest): (Vec<&str>, Vec<&str>) =
            end.stderr.lines().partition(|line| line.starts_with(NOTE));
        let (hints, errors): (Vec<&str>, Vec<&str>) =
            rest.iter().partition(|line| line.starts_with("hint: "));
        assert_eq!(notes.len(), 1, "{name}: {}", end.stderr);
        assert!(hints.len() <= errors.len(), "{name}: {}", end.stderr);
        if row.exit == 0 {
            assert!(errors.is_empty(), "{name}: {}", end.stderr);
        } else {
            assert_eq!(errors.len(), 1, "{name}: {}", end.stderr);
            let said = errors[0].strip_prefix("reins: ").unwrap();
            assert!(said.contains(row.says), "{name}: {said}");
        }
    }
}

#[tokio::test]
async fn as_stream_json_every_line_is_an_event_of_the_log_and_the_last_one_the_result() {
    for name in SOME {
        let row = Row::named(name);
        let ran = row.run(true, "stream-json").await;
        let end = &ran.end;
        assert_eq!(end.code, Some(row.exit), "{name}: {end:?}");
        assert!(end.stdout.ends_with('\n'), "{name}");
        let mut lines: Vec<&str> = end.stdout.lines().collect();
        let result: Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
        assert_eq!(result["type"], "result", "{name}");
        let keys: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys[1..], KEYS, "{name}");
        assert_eq!(result["error"]["code"].as_str().unwrap_or_default(), row.code, "{name}");
        // Every event since the run began, as it stands in the log.
        let log = std::fs::read_to_string(ran.log()).unwrap();
        assert!(log.ends_with(&format!("{}\n", lines.join("\n"))), "{name}: {lines:?}\n{log}");
        let (first, _) = Event::decode(lines[0].as_bytes()).unwrap();
        assert_eq!(first.body.kind, "agent/inbox/spliced", "{name}");
        let (last, _) = Event::decode(lines[lines.len() - 1].as_bytes()).unwrap();
        assert_eq!(last.body.kind, "turn/end", "{name}");
    }
}

#[tokio::test]
async fn the_model_is_told_what_was_wrong() {
    let table = [
        ("an unknown tool", "there is no tool `bsh`. The tools are: bash, "),
        ("arguments that are no JSON", "not valid JSON (EOF while parsing"),
        ("arguments without a key", "`description` is missing"),
        ("arguments null", "must be a JSON object with `command`"),
        ("arguments empty", "`command` and `description` is missing"),
        ("arguments with an unknown key", "there is no parameter `sudo`"),
        ("two calls with one id", "An earlier call of the same answer has the same id"),
        ("length inside arguments", "cut off at the output limit. Tool calls in it were dropped"),
    ];
    for (name, words) in table {
        let ran = Row::named(name).run(false, "json").await;
        let body: Value = serde_json::from_slice(ran.bodies().last().unwrap()).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let told = last["content"].as_str().unwrap();
        assert!(told.contains(words), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_failed_turn_does_not_spoil_its_session() {
    for (name, before) in [("429, a very long wait", 1), ("cut after the text", 3)] {
        let row = Row::named(name);
        let failed = row.run(true, "json").await;
        assert_eq!(failed.end.code, Some(row.exit), "{name}: {:?}", failed.end);
        let server = StrictServer::start(script().text("Better now.")).unwrap();
        // The last value of a variable counts.
        let bin = failed.bin.model_at(&server.base_url());
        let again = bin.run(["run", "--continue", "and again"]).await.unwrap();
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), "Better now.\n"), "{again:?}");
        server.assert_clean();
        let body = String::from_utf8(server.requests()[0].body.to_vec()).unwrap();
        assert_eq!(body.matches(PROMPT).count(), 1, "{name}: {body}");
        assert!(!body.contains("lost"), "{name}: {body}");
        let requests = rebuild_requests(&bin.logs().unwrap()[0]).unwrap();
        let (last, earlier) = requests.split_last().unwrap();
        assert_eq!(earlier.len(), before + 1, "{name}");
        assert_eq!(last.sent.shared, earlier.last().unwrap().sent.items, "{name}");
    }
}
