//! An answer as the events of a chat-completions stream.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::format::{Answer, Arguments};
use super::player::{Played, Refusal};
use super::server::{Reply, Step};

/// Which part of an answer an event brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The role.
    Start,
    /// A piece of the reasoning.
    Reasoning,
    /// A piece of the text.
    Text,
    /// Id and name of a call.
    Call,
    /// A piece of a call's arguments.
    Arguments,
    /// The finish reason.
    Finish,
    /// What it cost.
    Usage,
    /// The end mark.
    Done,
}

/// One event of the stream.
#[derive(Clone, Debug)]
pub struct WireEvent {
    /// What it brings.
    pub place: Place,
    /// As it is sent.
    pub bytes: Bytes,
}

impl Played {
    /// The events of the stream, in order.
    pub fn events(&self) -> Vec<WireEvent> {
        let answer = &self.answer;
        let mut events = Events { played: self, list: Vec::new() };
        events.delta(Place::Start, json!({"role": "assistant", "content": ""}));
        for piece in pieces(&answer.reasoning, answer.chunk_bytes) {
            events.delta(Place::Reasoning, json!({"reasoning_content": piece}));
        }
        for piece in pieces(&answer.text, answer.chunk_bytes) {
            events.delta(Place::Text, json!({"content": piece}));
        }
        for (index, call) in answer.calls.iter().enumerate() {
            let function = json!({"name": call.name, "arguments": ""});
            let head = json!({
                "index": index, "id": call.id, "type": "function", "function": function,
            });
            events.delta(Place::Call, json!({"tool_calls": [head]}));
            let Arguments::Raw(arguments) = &call.arguments else { continue };
            for piece in pieces(arguments, answer.chunk_bytes) {
                let delta = json!({"index": index, "function": {"arguments": piece}});
                events.delta(Place::Arguments, json!({"tool_calls": [delta]}));
            }
        }
        let choice = json!({"index": 0, "delta": {}, "finish_reason": finish(answer)});
        events.chunk(Place::Finish, json!([choice]), None);
        if let Some(usage) = answer.usage {
            let cost = json!({
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": usage.input.saturating_add(usage.output),
                "prompt_tokens_details": {"cached_tokens": usage.cached},
                "prompt_cache_hit_tokens": usage.cached,
                "prompt_cache_miss_tokens": usage.input.saturating_sub(usage.cached),
            });
            events.chunk(Place::Usage, json!([]), Some(cost));
        }
        events.push(Place::Done, Bytes::from_static(b"data: [DONE]\n\n"));
        events.list
    }

    /// The response with these events, with the answer's waits before and between them.
    pub fn reply(&self, events: Vec<WireEvent>) -> Reply {
        let wait = |time: Duration| (!time.is_zero()).then_some(Step::Wait(time));
        let mut body = Vec::with_capacity(events.len() * 2);
        for event in events {
            if !body.is_empty() {
                body.extend(wait(self.answer.chunk_delay));
            }
            body.push(Step::Send(event.bytes));
        }
        let before = wait(self.answer.delay).into_iter().collect();
        Reply { before, ..Reply::new(StatusCode::OK, "text/event-stream", body) }
    }
}

impl Refusal {
    /// The response that says so.
    pub fn reply(&self) -> Reply {
        let error =
            json!({"message": self.message, "type": "script_error", "code": self.status.as_u16()});
        Reply::json(self.status, &json!({"error": error}))
    }
}

struct Events<'a> {
    played: &'a Played,
    list: Vec<WireEvent>,
}

impl Events<'_> {
    fn delta(&mut self, place: Place, delta: Value) {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        self.chunk(place, json!([choice]), None);
    }

    fn chunk(&mut self, place: Place, choices: Value, usage: Option<Value>) {
        let mut chunk = json!({
            "id": format!("scripted-{}", self.played.number),
            "object": "chat.completion.chunk",
            // The same script gives the same bytes.
            "created": 0,
            "model": self.played.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        self.push(place, Bytes::from(format!("data: {chunk}\n\n")));
    }

    fn push(&mut self, place: Place, bytes: Bytes) {
        self.list.push(WireEvent { place, bytes });
    }
}

fn finish(answer: &Answer) -> &str {
    let usual = if answer.calls.is_empty() { "stop" } else { "tool_calls" };
    answer.finish.as_deref().unwrap_or(usual)
}

/// Pieces of at most `limit` bytes and at least one character.
fn pieces(text: &str, limit: Option<usize>) -> Vec<&str> {
    let limit = limit.unwrap_or(text.len()).max(1);
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let fitting = rest.floor_char_boundary(limit).max(first.len_utf8());
        let (piece, after) = rest.split_at(fitting);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_never_split_a_character() {
        assert_eq!(pieces("aébc", Some(2)), ["a", "é", "bc"]);
        assert_eq!(pieces("é語", Some(1)), ["é", "語"]);
        assert_eq!(pieces("whole", None), ["whole"]);
        assert!(pieces("", Some(3)).is_empty());
    }
}
