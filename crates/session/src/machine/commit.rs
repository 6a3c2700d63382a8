//! Events of contributions.

use reins_schema::{Draft, Payload, Purpose, SurfaceOp};

use super::Core;
use crate::face::{Effect, Refusal};

impl Core {
    pub(super) fn commit(&mut self, ticket: u64, draft: Draft) {
        let result = self
            .closed()
            .and_then(|()| self.admitted(draft))
            .and_then(|draft| self.append_draft(draft).map_err(|e| Refusal(e.to_string())));
        self.answer(Effect::CommitAnswered { ticket, result });
    }

    /// What a contribution may write: its own registered types, surface replaces, the requests that
    /// it makes outside the loop, and that the session belongs to another directory.
    fn admitted(&self, mut draft: Draft) -> Result<Draft, Refusal> {
        let kind = draft.kind.as_str();
        if !Payload::is_core(kind) {
            let Some(known) = self.fold.known().get(kind) else {
                return Err(Refusal(format!(
                    "event type `{kind}` is not registered; a plugin registers its types by name \
                     and version"
                )));
            };
            if draft.v.is_some_and(|v| v != known.version) {
                return Err(Refusal(format!(
                    "event type `{kind}` is registered with version {}",
                    known.version
                )));
            }
            draft.v = Some(known.version);
            draft.ignorable = known.ignorable;
            return Ok(draft);
        }
        let replaces = matches!(draft.surface, Some(SurfaceOp::Replace(..)));
        // Where a session belongs is a matter of who opens it, not of the conversation.
        let moves = matches!(Payload::read(&draft), Ok(Payload::SessionMoved(_)));
        if replaces || moves || self.is_side_request(&draft) {
            return Ok(draft);
        }
        Err(Refusal(format!("only the loop itself writes `{kind}`; a plugin may replace a span")))
    }

    fn is_side_request(&self, draft: &Draft) -> bool {
        let read = if draft.kind == "request/sent" { Payload::read(draft).ok() } else { None };
        matches!(read, Some(Payload::RequestSent(sent)) if sent.purpose != Purpose::Turn)
    }
}
