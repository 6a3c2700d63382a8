//! From the bytes of a response to the parts of an answer.

use std::borrow::Cow;
use std::collections::VecDeque;

use reins_agent::StreamPart;
use reins_schema::{Failure, FailureCode, FinishReason, PartKind, Usage};
use serde_json::Value;
use serde_json::value::RawValue;

use super::chunk::{CallDelta, Chunk, Delta};
use super::error;
use super::surrogate::Halves;
use crate::sse::{MAX_EVENT_BYTES, SseDecoder, SseEvent};
use crate::vendor::DoneMark;

/// The most bytes of unknown fields that are passed on from one answer.
const UNKNOWN_MAX: usize = 256 * 1024;
const CUT: &str = "the stream ended in the middle of an event";

/// Decodes one response body with status 2xx. It tells an event stream, a plain JSON answer (a
/// server that ignores `stream`) and a web page apart by the first byte.
///
/// After an error, or once [`ChatDecoder::is_done`], it takes nothing more.
pub struct ChatDecoder {
    body: Body,
    html: bool,
    done_mark: DoneMark,
    bytes: u64,
    answer: Answer,
}

enum Body {
    /// No byte that tells; at most a torn byte order mark is kept.
    Undecided(Vec<u8>),
    Events(SseDecoder),
    Json(Vec<u8>),
}

impl ChatDecoder {
    /// `content_type` is the response's header.
    pub fn new(content_type: Option<&str>, done_mark: DoneMark) -> Self {
        let html = content_type.is_some_and(|text| text.trim_start().starts_with("text/html"));
        Self {
            body: Body::Undecided(Vec::new()),
            html,
            done_mark,
            bytes: 0,
            answer: Answer::default(),
        }
    }

    /// Whether the end mark was read. What follows it is not looked at.
    pub fn is_done(&self) -> bool {
        self.answer.done
    }

    /// Decodes more bytes; what they bring is pushed to `parts`, also before an error.
    ///
    /// # Errors
    /// MALFORMED_RESPONSE, EMPTY_RESPONSE at the end mark, CONTENT_FILTER, or what an error object
    /// in the stream says.
    pub fn push(&mut self, bytes: &[u8], parts: &mut VecDeque<StreamPart>) -> Result<(), Failure> {
        if self.answer.done {
            return Ok(());
        }
        self.bytes += bytes.len() as u64;
        match &mut self.body {
            Body::Undecided(head) => {
                head.extend_from_slice(bytes);
                let head = std::mem::take(head);
                self.decide(&head, parts)
            }
            Body::Events(decoder) => {
                decoder.push(bytes);
                take_events(decoder, &mut self.answer, parts)
            }
            Body::Json(text) if text.len() + bytes.len() > MAX_EVENT_BYTES => {
                let message = format!("the answer is longer than {MAX_EVENT_BYTES} bytes");
                Err(Failure::new(FailureCode::MalformedResponse, message))
            }
            Body::Json(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Says that the body ended.
    ///
    /// # Errors
    /// As [`ChatDecoder::push`], and STREAM_CLOSED when the answer is not complete.
    pub fn end(&mut self, parts: &mut VecDeque<StreamPart>) -> Result<(), Failure> {
        if self.answer.done {
            return Ok(());
        }
        match &mut self.body {
            Body::Undecided(_) => {}
            Body::Json(text) => {
                let text = std::mem::take(text);
                return self.answer.whole(&text, parts);
            }
            Body::Events(decoder) => {
                decoder.end();
                // What was whole was taken before; a torn character is a cut, not nonsense.
                take_events(decoder, &mut self.answer, parts).map_err(|failure| {
                    match failure.code {
                        FailureCode::MalformedResponse => closed(CUT),
                        _ => failure,
                    }
                })?;
            }
        }
        if self.answer.done {
            return Ok(());
        }
        match &self.answer.finish {
            Some(_) if self.done_mark == DoneMark::Optional => self.answer.complete(parts),
            Some(finish) => match finish.failure() {
                Some(failure) => Err(failure),
                None => Err(closed("the stream ended without its end mark `[DONE]`")),
            },
            None if self.bytes == 0 => Err(closed("the server sent no answer, only an empty body")),
            None => Err(closed("the stream ended before the answer was complete")),
        }
    }

    fn decide(&mut self, head: &[u8], parts: &mut VecDeque<StreamPart>) -> Result<(), Failure> {
        const BOM: &[u8] = b"\xEF\xBB\xBF";
        let text = head.strip_prefix(BOM).unwrap_or(head);
        let Some(first) = text.iter().position(|byte| !byte.is_ascii_whitespace()) else {
            // Line ends before the first event mean nothing.
            return Ok(());
        };
        let text = &text[first..];
        if BOM.starts_with(text) {
            self.body = Body::Undecided(text.to_vec());
            return Ok(());
        }
        if self.html || text[0] == b'<' {
            let message = "a web page came instead of an answer; the base URL is probably wrong";
            let page = String::from_utf8_lossy(text);
            return Err(error::malformed(message, &page));
        }
        if matches!(text[0], b'{' | b'[') {
            self.body = Body::Json(text.to_vec());
            return Ok(());
        }
        let mut decoder = SseDecoder::default();
        decoder.push(text);
        let result = take_events(&mut decoder, &mut self.answer, parts);
        self.body = Body::Events(decoder);
        result
    }
}

fn take_events(
    decoder: &mut SseDecoder,
    answer: &mut Answer,
    parts: &mut VecDeque<StreamPart>,
) -> Result<(), Failure> {
    loop {
        match decoder.next_event() {
            Ok(Some(event)) => answer.event(event, parts)?,
            Ok(None) => return Ok(()),
            Err(problem) => {
                return Err(Failure::new(FailureCode::MalformedResponse, problem.to_string()));
            }
        }
        if answer.done {
            return Ok(());
        }
    }
}

fn closed(message: &str) -> Failure {
    Failure::new(FailureCode::StreamClosed, message)
}

/// Why the model stopped, in the provider's word.
enum Finish {
    Reason(FinishReason),
    Failed(String),
}

impl Finish {
    fn of(word: &str) -> Self {
        match word {
            "stop" => Self::Reason(FinishReason::Stop),
            "tool_calls" | "function_call" => Self::Reason(FinishReason::ToolCalls),
            "length" => Self::Reason(FinishReason::MaxTokens),
            other => Self::Failed(other.to_owned()),
        }
    }

    fn failure(&self) -> Option<Failure> {
        let Self::Failed(word) = self else { return None };
        let (code, message) = match word.as_str() {
            "content_filter" => (
                FailureCode::ContentFilter,
                "the provider's content filter stopped the answer".to_owned(),
            ),
            "insufficient_system_resource" => (
                FailureCode::Overloaded,
                "the provider ran out of resources during the answer".to_owned(),
            ),
            other => (
                FailureCode::Other(error::quote(other).to_uppercase()),
                format!("the model stopped for a reason not known here: `{}`", error::quote(other)),
            ),
        };
        Some(Failure::new(code, message))
    }
}

struct Call {
    /// The provider's index; absent when it sends none.
    wire: Option<u64>,
    /// As the provider sent it last. The core tells two calls with one id apart.
    id: String,
    name: String,
    part: u32,
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    parts: u32,
    text: Option<u32>,
    reasoning: Option<u32>,
    calls: Vec<Call>,
    /// By field name.
    unknown: Vec<(String, u32)>,
    unknown_bytes: usize,
    halves: Halves,
    usage: Option<Usage>,
    finish: Option<Finish>,
    done: bool,
}

impl Answer {
    fn event(
        &mut self,
        event: SseEvent<'_>,
        parts: &mut VecDeque<StreamPart>,
    ) -> Result<(), Failure> {
        let data = event.data.trim_ascii();
        match data {
            "" => return Ok(()),
            "[DONE]" => return self.complete(parts),
            _ => {}
        }
        let data = self.halves.mend(data);
        let data = data.as_ref();
        match serde_json::from_str::<Chunk<'_>>(data) {
            Ok(chunk) if event.name == "error" && chunk.error.is_none() => {
                Err(error::in_stream(data))
            }
            Ok(chunk) => self.chunk(chunk, data, parts),
            Err(_) if !event.complete => Err(closed(CUT)),
            Err(_) if event.name == "error" => Err(error::in_stream(data)),
            Err(problem) => {
                Err(error::malformed(&format!("an event is no chunk ({problem})"), data))
            }
        }
    }

    fn whole(&mut self, bytes: &[u8], parts: &mut VecDeque<StreamPart>) -> Result<(), Failure> {
        let lossy = String::from_utf8_lossy(bytes);
        let text = lossy.trim_ascii();
        if text.starts_with('[') {
            return Err(error::in_stream(text));
        }
        let text = self.halves.mend(text);
        let text = text.as_ref();
        match serde_json::from_str::<Chunk<'_>>(text) {
            Ok(chunk) => {
                if chunk.choices.as_ref().is_none_or(Vec::is_empty) && chunk.error.is_none() {
                    return Err(error::malformed("the answer has no `choices`", text));
                }
                self.chunk(chunk, text, parts)?;
                self.complete(parts)
            }
            Err(problem) if problem.is_eof() => Err(closed("the answer ended in its middle")),
            Err(problem) => {
                Err(error::malformed(&format!("the answer is no completion ({problem})"), text))
            }
        }
    }

    fn chunk(
        &mut self,
        chunk: Chunk<'_>,
        data: &str,
        parts: &mut VecDeque<StreamPart>,
    ) -> Result<(), Failure> {
        let is_error = chunk.object.is_some_and(|object| object.0 == "error");
        if is_error || chunk.error.is_some_and(|raw| !matches!(raw.get(), "null" | "false")) {
            return Err(error::in_stream(data));
        }
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.is_some_and(|index| index != 0) {
                continue;
            }
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.delta(delta, data, parts)?;
            }
            if let Some(word) = choice.finish_reason.filter(|word| !word.0.is_empty()) {
                self.finish = Some(Finish::of(&word.0));
            }
        }
        if let Some(usage) = chunk.usage.and_then(read_usage)
            && self.usage != Some(usage)
        {
            self.usage = Some(usage);
            parts.push_back(StreamPart::Usage(usage));
        }
        Ok(())
    }

    /// Reasoning before content before calls, whatever the order of the keys.
    fn delta(
        &mut self,
        delta: Delta<'_>,
        data: &str,
        parts: &mut VecDeque<StreamPart>,
    ) -> Result<(), Failure> {
        if let Some(text) = delta.reasoning {
            let index = open(&mut self.reasoning, &mut self.parts);
            parts.push_back(plain(index, PartKind::Reasoning, text));
        }
        if let Some(text) = delta.content {
            let index = open(&mut self.text, &mut self.parts);
            parts.push_back(plain(index, PartKind::Text, text));
        }
        for call in delta.calls {
            let part = self
                .call(&call)
                .map_err(|_| error::malformed("a call's arguments are no text", data))?;
            parts.push_back(part);
        }
        for (key, raw) in delta.unknown {
            self.unknown(key, raw, parts);
        }
        Ok(())
    }

    fn call(&mut self, delta: &CallDelta<'_>) -> Result<StreamPart, serde_json::Error> {
        let sent_id = delta.id.as_ref().map_or("", |id| id.0.as_ref());
        let function = delta.function.as_ref();
        let name = function.and_then(|f| f.name.as_ref()).map_or("", |name| name.0.as_ref());
        let text = function.map(|f| f.arguments()).transpose()?.unwrap_or_default();
        let slot = match self.find_call(delta.index, sent_id, name) {
            Some(slot) => slot,
            None => {
                let part = self.parts;
                self.parts += 1;
                let wire = delta.index;
                self.calls.push(Call { wire, id: String::new(), name: String::new(), part });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[slot];
        let id = (!sent_id.is_empty() && call.id != sent_id).then(|| {
            call.id = sent_id.to_owned();
            sent_id.to_owned()
        });
        let name = (!name.is_empty() && call.name != name).then(|| {
            call.name = name.to_owned();
            name.to_owned()
        });
        Ok(StreamPart::Delta { index: call.part, kind: PartKind::Call, id, name, text })
    }

    /// The call that a delta belongs to. Servers without an index send whole calls, told apart by
    /// id or name; some give every call index 0, told apart by a second id with a name.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let known = self.calls.iter().rposition(|call| !id.is_empty() && call.id == id);
        match index {
            Some(_) => {
                let slot = self.calls.iter().rposition(|call| call.wire == index)?;
                let sent = &self.calls[slot].id;
                let other = !id.is_empty() && !sent.is_empty() && sent != id && !name.is_empty();
                (!other).then_some(slot)
            }
            None if known.is_some() => known,
            None if !id.is_empty() || !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    /// An id for a call that came without one.
    fn unused_id(&self, wanted: &str) -> String {
        let used = |id: &str| self.calls.iter().any(|call| call.id == id);
        if !used(wanted) {
            return wanted.to_owned();
        }
        let mut number = 2u32;
        loop {
            let id = format!("{wanted}-{number}");
            if !used(&id) {
                return id;
            }
            number += 1;
        }
    }

    fn unknown(&mut self, key: Cow<'_, str>, raw: &RawValue, parts: &mut VecDeque<StreamPart>) {
        if self.unknown_bytes > UNKNOWN_MAX {
            return;
        }
        self.unknown_bytes += raw.get().len();
        let known = self.unknown.iter().find(|(name, _)| *name == key).map(|(_, part)| *part);
        let index = known.unwrap_or_else(|| {
            self.parts += 1;
            self.unknown.push((key.clone().into_owned(), self.parts - 1));
            self.parts - 1
        });
        let key = Value::String(key.into_owned());
        let text = if self.unknown_bytes > UNKNOWN_MAX {
            format!("{{{key}:\"left out: unknown fields of more than {UNKNOWN_MAX} bytes\"}}")
        } else {
            format!("{{{key}:{}}}", raw.get())
        };
        parts.push_back(plain(index, PartKind::Unknown, text));
    }

    /// What stands for the first half of a character whose second half did not come.
    fn end_half(&mut self, parts: &mut VecDeque<StreamPart>) {
        let (index, kind) = match self.halves.take() {
            None => return,
            Some("content") => (open(&mut self.text, &mut self.parts), PartKind::Text),
            Some("arguments") => match self.calls.last() {
                Some(call) => (call.part, PartKind::Call),
                None => return,
            },
            Some(_) => (open(&mut self.reasoning, &mut self.parts), PartKind::Reasoning),
        };
        parts.push_back(plain(index, kind, "\u{fffd}".to_owned()));
    }

    /// The end mark: nothing can follow it.
    fn complete(&mut self, parts: &mut VecDeque<StreamPart>) -> Result<(), Failure> {
        self.done = true;
        self.end_half(parts);
        let reason = match &self.finish {
            None => FinishReason::Stop,
            Some(Finish::Reason(reason)) => *reason,
            Some(failed) => {
                return failed.failure().map_or(Ok(()), Err);
            }
        };
        // Servers do not agree on the word when there are calls.
        let reason = match reason {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Stop,
            other => other,
        };
        let nothing = self.text.is_none() && self.reasoning.is_none() && self.calls.is_empty();
        if nothing && reason == FinishReason::Stop {
            let message = "the model finished its answer without saying anything";
            return Err(Failure::new(FailureCode::EmptyResponse, message));
        }
        for slot in 0..self.calls.len() {
            if self.calls[slot].id.is_empty() {
                let index = self.calls[slot].part;
                let id = self.unused_id(&format!("call-{index}"));
                self.calls[slot].id.clone_from(&id);
                let (kind, id, name) = (PartKind::Call, Some(id), None);
                parts.push_back(StreamPart::Delta { index, kind, id, name, text: String::new() });
            }
        }
        parts.push_back(StreamPart::Finish { reason, replay: None });
        Ok(())
    }
}

fn open(part: &mut Option<u32>, parts: &mut u32) -> u32 {
    *part.get_or_insert_with(|| {
        *parts += 1;
        *parts - 1
    })
}

fn plain(index: u32, kind: PartKind, text: String) -> StreamPart {
    StreamPart::Delta { index, kind, id: None, name: None, text }
}

/// Usage in disjoint counts; nothing when there are no counts.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let value: Value = serde_json::from_str(raw.get()).ok()?;
    let count = |pointer: &str| value.pointer(pointer).and_then(read_count);
    let prompt = count("/prompt_tokens");
    let output = count("/completion_tokens");
    prompt.or(output)?;
    let cached = count("/prompt_tokens_details/cached_tokens")
        .or_else(|| count("/prompt_cache_hit_tokens"))
        .unwrap_or(0);
    Some(Usage {
        input_tokens: prompt.unwrap_or(0).saturating_sub(cached),
        output_tokens: output.unwrap_or(0),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}

/// A count, also when a server writes it as `12.0`; a number that can be none is left out.
fn read_count(value: &Value) -> Option<u64> {
    const MAX: u64 = 1_000_000_000_000_000;
    value.as_u64().filter(|number| *number <= MAX).or_else(|| {
        let number = value.as_f64().filter(|number| (0.0..1e15).contains(number))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked"
        )]
        Some(number as u64)
    })
}
