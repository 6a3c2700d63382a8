//! What goes wrong with a model, and what a run makes of it. The table is in `network` and
//! `answers`.

mod answers;
mod forms;
mod network;

use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::path::Path;

use futures_util::StreamExt as _;
use reins_schema::{Event, FinishReason, Payload};
use reins_testkit::{Acts, Bin, Finished, StrictServer, read_events, script};
use serde_json::{Value, json};

/// Occurs nowhere else in a request.
const PROMPT: &str = "Please-do-it-7f3a, whatever happens";
/// How many runs at once.
const AT_ONCE: usize = 4;
/// How much the clock of the log may differ from the one that waits.
const CLOCK_SLACK_MS: i64 = 20;
/// All keys of a result, in order.
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

/// A fault and what becomes of it.
struct Row {
    name: &'static str,
    server: Server,
    /// Adds the faulty answers, and what follows them.
    acts: fn(Acts) -> Acts,
    /// Requests that arrive.
    attempts: usize,
    exit: i32,
    /// Of the error; empty = none.
    code: &'static str,
    /// The log, see [`compact`].
    events: &'static [&'static str],
    /// The text of the answer; of a failed run a part of the error's message.
    says: &'static str,
    /// What the calls have left behind, in order.
    ran: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Server {
    /// Answers, with time for everything.
    There,
    /// Answers, and two seconds of silence are too long.
    Watched,
    /// Nothing listens.
    Absent,
}

/// One row as text, as it should be and as it is.
#[derive(PartialEq)]
struct Line {
    attempts: usize,
    exit: Option<i32>,
    code: String,
    events: String,
    says: String,
    ran: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, exit, code, events, says, ran } = self;
        write!(f, "{attempts} attempts, exit {exit:?} {code}, {ran:?}: {says}\n    {events}")
    }
}

/// What a run left.
struct Ran {
    end: Finished,
    bin: Bin,
    server: Option<StrictServer>,
}

impl Row {
    fn named(name: &str) -> &'static Self {
        table().find(|row| row.name == name).unwrap()
    }

    /// `begun`: the fault comes after a step with a tool, else it comes first.
    async fn run(&self, begun: bool, output: &str) -> Ran {
        let acts = if begun { script().call("bash", append("before")).then() } else { script() };
        let server = (self.server != Server::Absent)
            .then(|| StrictServer::start((self.acts)(acts)).unwrap());
        let url = server.as_ref().map_or_else(nowhere, StrictServer::base_url);
        let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&url);
        let patch = bin.home().join("../patch.toml");
        std::fs::File::create(&patch)
            .and_then(|mut file| std::io::Write::write_all(&mut file, self.patch().as_bytes()))
            .unwrap();
        let patch = patch.to_str().unwrap();
        let args = ["run", "--output", output, "--patch", patch, PROMPT];
        Ran { end: bin.run(args).await.unwrap(), bin, server }
    }

    /// Waits between attempts are short; a test is no person.
    fn patch(&self) -> String {
        let silence = if self.server == Server::Watched { 2000 } else { 60_000 };
        format!(
            "[[row]]\nid = \"deepseek\"\n[row.config]\nvendor = \"deepseek\"\n\
             head_timeout_ms = {silence}\nidle_timeout_ms = {silence}\n\
             retry = {{ initial_delay_ms = 5, max_delay_ms = 2000 }}\n"
        )
    }

    fn expected(&self, begun: bool) -> Line {
        let (before, file) =
            if begun { ("step sent answer call start result ", "before\n") } else { ("", "") };
        Line {
            attempts: self.attempts + usize::from(begun),
            exit: Some(self.exit),
            code: self.code.to_owned(),
            events: format!("{before}{}", self.events.join(" ")),
            says: self.says.to_owned(),
            ran: format!("{file}{}", self.ran),
        }
    }
}

fn table() -> impl Iterator<Item = &'static Row> {
    network::ROWS.iter().chain(answers::ROWS)
}

/// After the fault all is well.
fn done(acts: Acts) -> Acts {
    acts.then().text("done")
}

/// An address that refuses connections.
fn nowhere() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("http://127.0.0.1:{port}")
}

/// The arguments of a call that leaves a line behind.
fn append(line: &str) -> Value {
    let command = format!("echo {line} >> ran.txt");
    json!({"command": command, "description": "leave a line behind"})
}

/// One word for each event that matters here, with what is unusual about it.
fn compact(events: &[Event]) -> String {
    let words = events.iter().filter_map(|event| match Payload::read(&event.body).unwrap() {
        Payload::StepStart(_) => Some("step".to_owned()),
        Payload::RequestSent(_) => Some("sent".to_owned()),
        Payload::AssistantAttempt(attempt) => Some(format!("failed:{}", attempt.failure.code)),
        Payload::LlmRetry(retry) => Some(match retry.failure.retry_after_ms {
            Some(_) => format!("retry:{}ms", retry.delay_ms),
            None => "retry".to_owned(),
        }),
        Payload::AssistantMessage(answer) if answer.finish == FinishReason::MaxTokens => {
            Some("answer:cut".to_owned())
        }
        Payload::AssistantMessage(_) => Some("answer".to_owned()),
        Payload::ToolCall(_) => Some("call".to_owned()),
        Payload::ToolStart(_) => Some("start".to_owned()),
        Payload::ToolResult(result) => {
            Some(result.error.map_or("result".to_owned(), |e| format!("result:{}", e.code)))
        }
        Payload::LimitReached(limit) => Some(format!("limit:{}", limit.name)),
        Payload::TurnEnd(end) => Some(format!("end:{}", end.reason.word())),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Ran {
    fn log(&self) -> std::path::PathBuf {
        let logs = self.bin.logs().unwrap();
        assert_eq!(logs.len(), 1, "{:?}", self.end);
        logs[0].clone()
    }

    fn events(&self) -> Vec<Event> {
        read_events(&self.log()).unwrap()
    }

    fn bodies(&self) -> Vec<Vec<u8>> {
        let requests = self.server.as_ref().map(StrictServer::requests).unwrap_or_default();
        requests.iter().map(|request| request.body.to_vec()).collect()
    }

    /// The files of the project.
    fn files(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.bin.project()).unwrap().map(Result::unwrap);
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        entries.map(|e| (e.file_name().into_string().unwrap(), read(&e.path()))).collect()
    }

    /// What every run must keep, whatever went wrong.
    fn check(&self, problems: &mut Vec<String>) {
        if let Some(server) = &self.server {
            problems.extend(server.violations().iter().map(|found| format!("violation: {found}")));
        }
        for (index, body) in self.bodies().iter().enumerate() {
            let times = String::from_utf8_lossy(body).matches(PROMPT).count();
            if times != 1 {
                problems.push(format!("request {} has the prompt {times} times", index + 1));
            }
        }
        let files = self.files();
        if files.keys().any(|name| name != "ran.txt") {
            problems.push(format!("files that nobody asked for: {files:?}"));
        }
        let ran = files.get("ran.txt").cloned().unwrap_or_default();
        let lines: Vec<&str> = ran.lines().collect();
        if lines.iter().any(|line| lines.iter().filter(|other| other == &line).count() > 1) {
            problems.push(format!("a call ran twice: {lines:?}"));
        }
        problems.extend(self.short_wait());
        problems.extend(self.stderr_problems());
    }

    /// A wait before a retry that was shorter than the log says.
    fn short_wait(&self) -> Option<String> {
        let mut due = 0;
        for event in self.events() {
            match Payload::read(&event.body).unwrap() {
                Payload::LlmRetry(retry) => {
                    due = event.time.saturating_add_unsigned(retry.delay_ms)
                }
                Payload::LlmRetryStarted(_) if event.time + CLOCK_SLACK_MS < due => {
                    return Some(format!("event {} came {} ms early", event.seq, due - event.time));
                }
                _ => {}
            }
        }
        None
    }

    /// Words for people: no debug text, no key.
    fn stderr_problems(&self) -> Option<String> {
        let strange = ["Failure", "Some(", "None", "Err(", "{ ", "panicked", "test-key-of-no-one"];
        let stderr = &self.end.stderr;
        let found = strange.iter().find(|word| stderr.contains(**word))?;
        Some(format!("`{found}` on stderr: {stderr}"))
    }

    /// The object of `--output json`.
    fn object(&self, problems: &mut Vec<String>) -> Value {
        let stdout = &self.end.stdout;
        if stdout.matches('\n').count() != 1 || !stdout.ends_with('\n') {
            problems.push(format!("not one line on stdout: {stdout:?}"));
        }
        let object: Value = serde_json::from_str(stdout).unwrap_or_default();
        let keys: Vec<&str> =
            object.as_object().map(|o| o.keys().map(String::as_str).collect()).unwrap_or_default();
        if keys != KEYS || object["schema"] != "reins.run/1" {
            problems.push(format!("not all keys of a result: {stdout}"));
        }
        // With the provider's words alone nobody knows how to go on.
        if matches!(self.end.code, Some(3 | 5 | 7)) && !object["error"]["hint"].is_string() {
            problems.push(format!("no hint: {stdout}"));
        }
        object
    }

    fn line(&self, object: &Value, row: &Row) -> Line {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (message, answer) = (text(&object["error"]["message"]), text(&object["text"]));
        let said = if row.exit == 0 { answer } else { message };
        let as_told = row.exit != 0 && !row.says.is_empty() && said.contains(row.says);
        Line {
            attempts: self.bodies().len(),
            exit: self.end.code,
            code: text(&object["error"]["code"]),
            events: compact(&self.events()),
            says: if as_told { row.says.to_owned() } else { said },
            ran: self.files().remove("ran.txt").unwrap_or_default(),
        }
    }
}

/// What is wrong with a row, if anything.
async fn problem(row: &Row, begun: bool) -> Option<String> {
    let ran = row.run(begun, "json").await;
    let mut problems = Vec::new();
    let object = ran.object(&mut problems);
    ran.check(&mut problems);
    let (line, expected) = (ran.line(&object, row), row.expected(begun));
    if line != expected {
        problems.push(format!("expected {expected}\n  found    {line}"));
    }
    if let Some(server) = ran.server {
        server.stop().await;
    }
    let place = if begun { " after a tool" } else { "" };
    (!problems.is_empty()).then(|| format!("{}{place}:\n  {}", row.name, problems.join("\n  ")))
}

#[tokio::test]
async fn every_fault_has_the_end_that_the_table_says() {
    let runs = table().flat_map(|row| [(row, false), (row, true)]);
    // Without a server nothing comes before.
    let runs = runs.filter(|(row, begun)| !begun || row.server != Server::Absent);
    let problems: Vec<String> = futures_util::stream::iter(runs)
        .map(|(row, begun)| problem(row, begun))
        .buffered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn names_of_the_table_are_there_once() {
    for row in table() {
        assert_eq!(table().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
    }
}
