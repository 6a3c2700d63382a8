//! One request on the wire: deltas in, packed chunks out.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reins_schema::{ChunkRun, Failure, FailureCode, PartKind, Usage};
use reins_session::{AttemptOutcome, Input, Op};
use reins_world::Clock;
use tokio::sync::mpsc;

use crate::contain::contain;
use crate::provider::{Provider, StreamPart, WireCall};
use crate::size::escaped_bytes;

/// A record is written when this much time has passed since its first delta …
const PACK_TIME: Duration = Duration::from_millis(50);
/// … or when it holds this many bytes of text.
const PACK_BYTES: usize = 4096;
/// What a call takes in a record besides its texts.
const AROUND_CALL: usize = 64;

/// Deltas of one record.
struct Pack {
    runs: Vec<ChunkRun>,
    bytes: usize,
    started_ms: u64,
}

impl Pack {
    fn new() -> Self {
        Self { runs: Vec::new(), bytes: 0, started_ms: 0 }
    }

    fn add(&mut self, now_ms: u64, delta: Delta) {
        if self.runs.is_empty() {
            self.started_ms = now_ms;
        }
        self.bytes += delta.text.len();
        let dt = u32::try_from(now_ms.saturating_sub(self.started_ms)).unwrap_or(u32::MAX);
        let continues = self.runs.last().is_some_and(|run| {
            run.index == delta.index
                && run.kind == delta.kind
                && delta.id.is_none()
                && delta.name.is_none()
        });
        match self.runs.last_mut() {
            Some(run) if continues => {
                run.dt.push(dt);
                run.text.push(delta.text);
            }
            _ => self.runs.push(ChunkRun {
                index: delta.index,
                kind: delta.kind,
                id: delta.id,
                name: delta.name,
                dt: vec![dt],
                text: vec![delta.text],
            }),
        }
    }

    fn take(&mut self) -> Vec<ChunkRun> {
        self.bytes = 0;
        std::mem::take(&mut self.runs)
    }
}

struct Delta {
    index: u32,
    kind: PartKind,
    id: Option<String>,
    name: Option<String>,
    text: String,
}

impl Delta {
    /// What it adds to the record of the whole answer.
    fn bytes(&self) -> usize {
        let heads = [&self.id, &self.name].into_iter().flatten();
        let heads: usize = heads.map(|text| escaped_bytes(text) + AROUND_CALL).sum();
        heads + escaped_bytes(&self.text)
    }
}

/// What one request is given.
pub(crate) struct Attempt {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) call: WireCall,
    pub(crate) clock: Arc<dyn Clock>,
    /// The longest answer, as the log writes it.
    pub(crate) max_bytes: usize,
}

/// Runs an attempt to its end and reports it. `inputs` is bounded: a slow disk slows the reading.
pub(crate) async fn run(op: Op, attempt: Attempt, inputs: mpsc::Sender<Input>) {
    let outcome = contain(stream(op, attempt, &inputs)).await;
    let outcome = outcome.unwrap_or_else(|words| {
        let code = FailureCode::Other("INTERNAL".to_owned());
        let failure = Failure::new(code, format!("the provider panicked: {words}"));
        AttemptOutcome::Failed { failure, usage: None }
    });
    // A closed mailbox means that the agent has ended; then nobody waits for the outcome.
    drop(inputs.send(Input::AttemptEnded { op, outcome }).await);
}

async fn stream(op: Op, of: Attempt, inputs: &mpsc::Sender<Input>) -> AttemptOutcome {
    let Attempt { provider, call, clock, max_bytes } = of;
    let mut parts = provider.send(call);
    let mut pack = Pack::new();
    let mut bytes = 0_usize;
    let mut usage: Option<Usage> = None;
    let mut due = clock.sleep(Duration::MAX);
    let outcome = loop {
        let part = tokio::select! {
            part = parts.next() => part,
            () = &mut due, if !pack.runs.is_empty() => {
                drop(inputs.send(Input::Chunk { op, runs: pack.take() }).await);
                continue;
            }
        };
        match part {
            Some(Ok(StreamPart::Delta { index, kind, id, name, text })) => {
                let delta = Delta { index, kind, id, name, text };
                bytes = bytes.saturating_add(delta.bytes());
                if bytes > max_bytes {
                    break AttemptOutcome::Failed { failure: too_long(max_bytes), usage };
                }
                if pack.runs.is_empty() {
                    due = clock.sleep(PACK_TIME);
                }
                pack.add(clock.monotonic_ms(), delta);
                if pack.bytes >= PACK_BYTES {
                    drop(inputs.send(Input::Chunk { op, runs: pack.take() }).await);
                }
            }
            Some(Ok(StreamPart::Usage(latest))) => usage = Some(latest),
            Some(Ok(StreamPart::Finish { reason, replay })) => {
                break AttemptOutcome::Finished { finish: reason, usage, replay };
            }
            Some(Err(failure)) => break AttemptOutcome::Failed { failure, usage },
            None => {
                let failure = Failure::new(
                    FailureCode::StreamClosed,
                    "the answer ended without its end mark",
                );
                break AttemptOutcome::Failed { failure, usage };
            }
        }
    };
    if !pack.runs.is_empty() {
        drop(inputs.send(Input::Chunk { op, runs: pack.take() }).await);
    }
    outcome
}

fn too_long(limit: usize) -> Failure {
    let message = format!(
        "the answer is longer than {limit} bytes in the log, the limit that `max_answer_bytes` of \
         row `agent-loop` sets"
    );
    Failure::new(FailureCode::MalformedResponse, message)
}
