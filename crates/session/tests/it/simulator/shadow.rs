//! A second, simpler account of what the log says, kept without the core's own fold.

use std::collections::{HashMap, HashSet};

use reins_schema::{CancelCause, Event, MessageId, Payload, Purpose, SpliceOutcome, TurnEndReason};

use reins_session::Fold;

use super::limits::Allowed;

/// Turn, step and call.
pub(crate) type Key = (u64, u64, String);

/// Why events are being written: what the input allows.
pub(crate) enum Cause {
    /// Read back after a crash.
    Replay,
    Opened,
    Send {
        id: MessageId,
        wake: bool,
    },
    Edit,
    Cancel {
        cause: CancelCause,
        keep: bool,
    },
    /// What was decided to enter; `None` = rejected.
    PreStep(Option<Vec<(MessageId, Vec<MessageId>)>>),
    LimitStop,
    Other,
}

#[derive(Default)]
pub(crate) struct Shadow {
    pub(crate) waiting: HashSet<MessageId>,
    pub(crate) entered: HashSet<MessageId>,
    pub(crate) turn_open: bool,
    /// Of the turn that is held.
    pub(crate) cancel: Option<CancelCause>,
    pub(crate) limit_stop: bool,
    stepped: bool,
    /// Somebody sent something that wants a turn since the last one began.
    pub(crate) woken: bool,
    /// A limit ended the last turn before its first step.
    pub(crate) parked: bool,
    /// Input that must not be left waiting when the agent becomes idle.
    pub(crate) latched: HashSet<MessageId>,
    pub(crate) sent: HashMap<(u64, u64, u32), u64>,
    pub(crate) starts: HashMap<Key, u64>,
    pub(crate) results: HashMap<Key, String>,
    pub(crate) last_end: Option<TurnEndReason>,
    pub(crate) allowed: Allowed,
}

impl Shadow {
    /// Before the first event after what was folded.
    pub(crate) fn of(start: &Fold) -> Self {
        let inbox = start.inbox();
        let waiting = inbox.next_turn().iter().chain(inbox.next_step());
        Self {
            waiting: waiting.map(|message| message.id.clone()).collect(),
            turn_open: start.open_turn().is_some(),
            ..Self::default()
        }
    }

    pub(crate) fn see(
        &mut self,
        event: &Event,
        payload: &Payload,
        cause: &Cause,
    ) -> Result<(), String> {
        match payload {
            Payload::TurnStart(_) => self.begins(cause)?,
            Payload::TurnEnd(p) => self.ends(&p.reason, cause)?,
            Payload::StepStart(_) => self.stepped = true,
            Payload::UserMessage(p) => {
                for id in &p.inbox {
                    if !self.waiting.remove(id) {
                        return Err(format!("{id} enters and does not wait"));
                    }
                    self.latched.remove(id);
                }
                if !self.entered.insert(p.message.id.clone()) {
                    return Err(format!("{} enters twice", p.message.id));
                }
            }
            Payload::InboxSpliced(p) => {
                for id in &p.removed {
                    if !self.waiting.remove(id) {
                        return Err(format!("{id} leaves and does not wait"));
                    }
                    self.latched.remove(id);
                }
                self.waiting.extend(p.inserted.iter().map(|message| message.id.clone()));
                let legal = match (p.outcome, cause) {
                    (None, _) | (_, Cause::Replay) => true,
                    (Some(SpliceOutcome::Canceled), cause) => {
                        matches!(cause, Cause::Edit | Cause::Cancel { keep: false, .. })
                    }
                    (Some(SpliceOutcome::Dropped), cause) => {
                        matches!(cause, Cause::PreStep(Some(_)))
                    }
                    (Some(SpliceOutcome::Rejected), cause) => {
                        matches!(cause, Cause::PreStep(None))
                    }
                };
                if !legal {
                    return Err(format!("input leaves as {:?} without a reason", p.outcome));
                }
            }
            Payload::RequestSent(p) if p.purpose == Purpose::Turn => {
                self.sent.insert((p.turn, p.step, p.attempt), event.seq);
            }
            Payload::ToolStart(p) => {
                self.starts.insert((p.turn, p.step, p.call_id.to_string()), event.seq);
            }
            Payload::ToolResult(p) => {
                let id = p.message.content.first().and_then(|block| match block {
                    reins_schema::Block::ToolResult(block) => Some(block.tool_call_id.to_string()),
                    _ => None,
                });
                let code = p.error.as_ref().map(|error| error.code.clone());
                let key = (p.turn, p.step, id.unwrap_or_default());
                self.results.insert(key, code.unwrap_or_default());
            }
            Payload::EndSeed(_) => self.waiting.clear(),
            _ => {}
        }
        Ok(())
    }

    fn begins(&mut self, cause: &Cause) -> Result<(), String> {
        let wanted = self.woken || matches!(cause, Cause::Replay | Cause::Send { wake: true, .. });
        if self.parked && !wanted {
            return Err("a turn without a step is followed by itself".to_owned());
        }
        self.turn_open = true;
        self.stepped = false;
        self.woken = false;
        self.parked = false;
        self.cancel = None;
        self.limit_stop = false;
        self.latched.clear();
        Ok(())
    }

    fn ends(&mut self, reason: &TurnEndReason, cause: &Cause) -> Result<(), String> {
        self.turn_open = false;
        self.parked = matches!(reason, TurnEndReason::Limit { .. }) && !self.stepped;
        self.last_end = Some(reason.clone());
        if matches!(cause, Cause::Replay | Cause::Opened) {
            return Ok(());
        }
        self.check_end(reason)
    }

    /// The first cause wins; a limit that was not extended ends the turn as a limit.
    fn check_end(&self, reason: &TurnEndReason) -> Result<(), String> {
        let fits = match (reason, &self.cancel) {
            (TurnEndReason::Interrupted, _) => false,
            (TurnEndReason::Aborted { cause }, Some(first)) => cause == first,
            (TurnEndReason::Aborted { .. }, None) => false,
            (TurnEndReason::Limit { .. }, _) => self.limit_stop,
            (_, Some(_)) => false,
            (_, None) => !self.limit_stop,
        };
        let first = &self.cancel;
        if fits { Ok(()) } else { Err(format!("ends {reason:?}, cancelled first by {first:?}")) }
    }
}
