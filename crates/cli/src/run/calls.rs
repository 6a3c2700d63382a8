//! A call and its result, each on one line for people.

use reins_schema::{Block, ToolResult, ToolResultBlock};
use serde_json::Value;

use crate::terminal::count;

/// Arguments that say by themselves what a call is about, the first that is there.
const MAIN: [&str; 4] = ["file_path", "pattern", "command", "path"];

/// What a call is about: its main argument, else all of them; empty for none.
pub(super) fn subject(arguments: &str) -> String {
    let Ok(parsed) = serde_json::from_str::<Value>(arguments) else {
        return arguments.to_owned();
    };
    let main = MAIN.iter().find_map(|name| parsed.get(name).and_then(Value::as_str));
    match main {
        Some(text) => text.to_owned(),
        None if parsed.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        None => parsed.to_string(),
    }
}

/// `name subject`, or the name alone.
pub(super) fn title(name: &str, subject: &str) -> String {
    if subject.is_empty() { name.to_owned() } else { format!("{name} {subject}") }
}

/// The line of a result: a mark, and what is worth knowing, from the facts of the tool where it
/// left some.
pub(super) fn result(name: &str, subject: &str, result: &ToolResult) -> String {
    let answer = result.message.content.iter().find_map(|block| match block {
        Block::ToolResult(answer) => Some(answer),
        _ => None,
    });
    let text = answer.map(text_of).unwrap_or_default();
    let meta = result.meta.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let meta: Value = meta.unwrap_or_default();
    if result.error.is_some() || answer.is_some_and(|answer| answer.is_error) {
        return format!("✗ {name}: {}", head(&text));
    }
    if meta.get("exitCode").is_some() {
        return command(name, &meta, &text);
    }
    match found(&meta) {
        Some(found) => format!("✓ {} ({found})", title(name, subject)),
        None => format!("✓ {name}: {}", summary(&text)),
    }
}

fn text_of(answer: &ToolResultBlock) -> String {
    let texts = answer.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// How a command ended, and the first of its output.
fn command(name: &str, meta: &Value, text: &str) -> String {
    let how = if meta["timedOut"] == true {
        "timed out".to_owned()
    } else if let Some(signal) = meta["signal"].as_i64() {
        format!("killed by signal {signal}")
    } else {
        match meta["exitCode"].as_i64() {
            Some(0) => return format!("✓ {name}: {}", summary(text)),
            Some(code) => format!("exit {code}"),
            None => "no exit code".to_owned(),
        }
    };
    let head = head(text);
    let is_marker = head.starts_with('[') && head.ends_with(']');
    if head.is_empty() || head == "(no output)" || is_marker {
        return format!("✗ {name}: {how}");
    }
    format!("✗ {name}: {how} · {head}")
}

/// How much a reading tool found.
fn found(meta: &Value) -> Option<String> {
    let number = |key: &str| meta.get(key).and_then(Value::as_u64);
    let (what, shown, total) = if let Some(lines) = number("lines") {
        ("line", lines, number("totalLines"))
    } else if let Some(matches) = number("matches") {
        ("match", matches, None)
    } else {
        ("file", number("files")?, number("total"))
    };
    let more = if meta["incomplete"] == true { ", incomplete" } else { "" };
    Some(match total.filter(|total| *total > shown) {
        Some(total) => format!("{shown} of {}{more}", count(total, what)),
        None => format!("{}{more}", count(shown, what)),
    })
}

/// The lines that carry something: not the headings between streams, and no envelopes.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let is_tag = |line: &str| line.starts_with('<') && line.ends_with('>');
    text.lines()
        .map(str::trim)
        .filter(move |line| !line.is_empty() && *line != "[stderr]" && !is_tag(line))
}

fn head(text: &str) -> &str {
    lines(text).next().unwrap_or_default()
}

/// The first line, and how many there are.
fn summary(text: &str) -> String {
    match (head(text), text.lines().filter(|line| *line != "[stderr]").count()) {
        ("", 0) => "(no output)".to_owned(),
        (head, 1) => head.to_owned(),
        ("", number) => count(number as u64, "line"),
        (head, number) => format!("{head} ({})", count(number as u64, "line")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;
    use reins_schema::{CallId, Message, MessageId, Role, Source, ToolError};
    use serde_json::json;

    #[test]
    fn a_call_is_named_by_its_main_argument() {
        let cases = [
            (r#"{"content":"long","file_path":"out.txt"}"#, "out.txt"),
            (r#"{"description":"d","command":"cargo test"}"#, "cargo test"),
            (r#"{"path":"src","pattern":"fn main"}"#, "fn main"),
            (r#"{"path":"src"}"#, "src"),
            (r#"{ "path": 3, "b": [1] }"#, r#"{"path":3,"b":[1]}"#),
            ("{}", ""),
            ("{\"file_path\": \"cut", "{\"file_path\": \"cut"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(subject(arguments), expected, "{arguments}");
        }
        assert_eq!(title("write", "out.txt"), "write out.txt");
        assert_eq!(title("list", ""), "list");
    }

    fn of(text: &str, meta: &Value, is_error: bool) -> ToolResult {
        let id = CallId::new("c1");
        let content = vec![Block::Text(text.to_owned())];
        let answer = ToolResultBlock { tool_call_id: id.clone(), content, is_error };
        ToolResult {
            turn: 1,
            step: 1,
            message: Message {
                id: MessageId::new("m1"),
                role: Role::User,
                content: vec![Block::ToolResult(answer)],
                source: Source::Tool { call_id: id },
            },
            error: is_error.then(|| ToolError { code: "FS_NOT_FOUND".to_owned() }),
            meta: Some(serde_json::value::to_raw_value(meta).unwrap()),
        }
    }

    #[track_caller]
    fn check(name: &str, text: &str, meta: Value, expected: &str) {
        assert_eq!(result(name, "it", &of(text, &meta, false)), expected);
    }

    fn ended(code: Option<i32>, signal: Option<i32>, timed_out: bool) -> Value {
        json!({"exitCode": code, "signal": signal, "timedOut": timed_out})
    }

    #[test]
    fn a_command_that_failed_says_how() {
        let text = "[stderr]\ncheck failed: expected 42\nmore\n[exit code: 1]";
        let expected = "✗ bash: exit 1 · check failed: expected 42";
        check("bash", text, ended(Some(1), None, false), expected);
        check("bash", "(no output)\n[exit code: 1]", ended(Some(1), None, false), "✗ bash: exit 1");
        let killed = ended(None, Some(9), false);
        check("bash", "go\n[killed by signal: SIGKILL]", killed, "✗ bash: killed by signal 9 · go");
        let late = ended(None, Some(15), true);
        check("bash", "(no output)\n[timed out after 5 ms]", late, "✗ bash: timed out");
        // A command that obeys the request to end may say 0.
        check("bash", "(no output)", ended(Some(0), None, true), "✗ bash: timed out");
    }

    #[test]
    fn a_command_that_went_well_shows_its_first_line() {
        let well = || ended(Some(0), None, false);
        check("bash", "one\n", well(), "✓ bash: one");
        check("bash", "one\ntwo\n", well(), "✓ bash: one (2 lines)");
        check("bash", "[stderr]\none\n", well(), "✓ bash: one");
        check("bash", "(no output)", well(), "✓ bash: (no output)");
        check("bash", "\n\n", well(), "✓ bash: 2 lines");
        check("other", "", json!({}), "✓ other: (no output)");
    }

    #[test]
    fn reading_tools_say_how_much_they_found() {
        let envelope = "<path>notes.txt</path>\n<type>file</type>\n<content>\n1: a\n</content>\n";
        check("read", envelope, json!({"lines": 3, "totalLines": 3}), "✓ read it (3 lines)");
        check("read", envelope, json!({"lines": 1, "totalLines": 1}), "✓ read it (1 line)");
        check("read", envelope, json!({"lines": 2, "totalLines": 9}), "✓ read it (2 of 9 lines)");
        let cut = json!({"matches": 1, "incomplete": true});
        check("grep", "", cut, "✓ grep it (1 match, incomplete)");
        check("glob", "a\nb", json!({"files": 2, "total": 2}), "✓ glob it (2 files)");
        check("other", envelope, json!({}), "✓ other: 1: a (5 lines)");
    }

    #[test]
    fn a_refused_call_says_why() {
        let refused = of("`a` does not exist\nmore", &Value::Null, true);
        assert_eq!(result("read", "a", &refused), "✗ read: `a` does not exist");
    }
}
