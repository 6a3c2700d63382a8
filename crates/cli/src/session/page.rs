//! A session as a page of Markdown.

use std::collections::HashMap;

use reins_schema::{Block, CallId, Event, Payload, ToolResult};
use reins_store::Inspected;

use super::tell::{result_of, speaker};
use super::words::{directory, in_line, local_time, place, recovered};
use crate::terminal;

/// The most that is shown of one result or of the arguments of one call, in bytes. All of it is in
/// the log.
const PIECE_BYTES: usize = 4000;
/// The most that a page has, in bytes.
const PAGE_BYTES: usize = 32 << 20;

/// A page that grows event by event.
pub(super) struct Page {
    text: String,
    tools: HashMap<CallId, String>,
    left_out: u64,
}

impl Page {
    pub(super) fn begin(inspected: &Inspected) -> Self {
        let header = &inspected.header;
        let mut text = format!(
            "# Session {}\n\nBegan {}, in {}.\n",
            header.id,
            local_time(header.created_at),
            directory(inspected.fold.cwd()),
        );
        if let Some(parent) = &header.parent {
            let at = parent.at.seq;
            text.push_str(&format!("Forked from session {} at event {at}.\n", parent.session));
        }
        Self { text, tools: HashMap::new(), left_out: 0 }
    }

    pub(super) fn add(&mut self, event: &Event) {
        let Ok(payload) = Payload::read(&event.body) else { return };
        let Some(text) = self.part(event.seq, payload) else { return };
        if self.text.len() + text.len() > PAGE_BYTES {
            self.left_out += 1;
            return;
        }
        self.text.push_str(&terminal::shown(&text));
    }

    pub(super) fn end(mut self) -> String {
        if self.left_out > 0 {
            let parts = terminal::count(self.left_out, "part");
            self.text.push_str(&format!("\n{parts} left out: the page is full.\n"));
        }
        self.text
    }

    fn part(&mut self, seq: u64, payload: Payload) -> Option<String> {
        Some(match payload {
            Payload::TurnStart(start) => format!("\n## Turn {}\n", start.turn),
            Payload::UserMessage(entered) => {
                said(&speaker(&entered.message.source), &entered.message.text())
            }
            Payload::AssistantMessage(answer) => {
                let mut text = String::new();
                let who = speaker(&answer.message.source);
                for block in &answer.message.content {
                    match block {
                        Block::Text(words) => text.push_str(&said(&who, words)),
                        Block::ToolCall(call) => {
                            self.tools.insert(call.id.clone(), call.name.clone());
                            let name = in_line(&call.name);
                            text.push_str(&format!("\n**{name}**\n\n{}", fenced(&call.arguments)));
                        }
                        _ => {}
                    }
                }
                text
            }
            Payload::ToolResult(result) => self.result(&result),
            Payload::AssistantAttempt(attempt) => {
                format!("\n*Attempt {} failed: {}*\n", attempt.attempt, attempt.failure.code)
            }
            Payload::TurnEnd(end) => format!("\n*Turn ended: {}*\n", end.reason.word()),
            Payload::SessionRecovered(facts) => {
                format!("\n*[{seq}] recovered: {}*\n", recovered(&facts, None))
            }
            Payload::SessionMoved(moved) => format!("\n*Moved to `{}`*\n", place(&moved.to)),
            _ => return None,
        })
    }

    fn result(&self, result: &ToolResult) -> String {
        let (tool, failed, text) = result_of(result, &self.tools);
        let failed = if failed { " (failed)" } else { "" };
        format!("\nResult of **{}**{failed}\n\n{}", in_line(tool), fenced(&text))
    }
}

/// What somebody said, as a quote: nothing in it can look like a part of the page.
fn said(who: &str, text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("> {line}")).collect();
    format!("\n**{}**\n\n{}\n", in_line(who), lines.join("\n"))
}

/// Text as it is, in a fence that it does not hold.
fn fenced(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(PIECE_BYTES)];
    let runs = shown.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let more = match text.len() - shown.len() {
        0 => String::new(),
        more => format!("\n({} more)\n", terminal::count(more as u64, "byte")),
    };
    format!("{fence}\n{}\n{fence}\n{more}", shown.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_own_fence() {
        assert_eq!(fenced("a\n"), "```\na\n```\n");
        assert_eq!(fenced("a ```` b"), "`````\na ```` b\n`````\n");
        assert!(fenced(&"x".repeat(PIECE_BYTES + 1)).ends_with("\n```\n\n(1 byte more)\n"));
    }

    #[test]
    fn what_is_said_cannot_look_like_a_heading() {
        assert_eq!(said("you", "a\n# b\n"), "\n**you**\n\n> a\n> # b\n");
        assert_eq!(said("you", " \n"), "");
    }
}
