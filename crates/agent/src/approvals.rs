//! Asking somebody, with question and answer in the log.

use reins_schema::Draft;
use reins_session::{Op, Refusal};
use tokio::sync::{mpsc, oneshot};

use crate::chains::{Approval, ApprovalRequest, PreExecute};
use crate::driver::Command;
use crate::events::{ApprovalAsked, ApprovalDecided, own_draft};
use crate::handle::ended;
use crate::pipeline::Preparation;
use crate::size::check_bytes;
use crate::tool::ToolFailure;

/// What an event is to an approval.
pub(crate) enum Question {
    /// It asks, for this work; when the work ends without a decision, `undecided` is logged.
    Asked { op: Op, undecided: ApprovalDecided },
    /// It is the decision.
    Decided { op: Op },
}

/// Appends events of registered types, for all but the driver itself.
#[derive(Clone)]
pub(crate) struct Committer {
    /// Weak: work in flight must not keep the mailbox open.
    pub(crate) mailbox: mpsc::WeakSender<Command>,
}

impl Committer {
    /// Appends; resolves when the event is committed.
    pub(crate) async fn commit(
        &self,
        draft: Draft,
        question: Option<Question>,
    ) -> Result<u64, Refusal> {
        check_bytes("the event", draft.data.get().len())?;
        let (answer, committed) = oneshot::channel();
        let mailbox = self.mailbox.upgrade().ok_or_else(ended)?;
        mailbox.send(Command::Commit { draft, question, answer }).await.map_err(|_| ended())?;
        drop(mailbox);
        committed.await.map_err(|_| ended())?
    }
}

/// Runs the approval chain; only [`Approval::AllowedOnce`] lets the call through.
pub(crate) async fn ask(
    of: &Preparation,
    call: PreExecute,
    reason: String,
) -> Result<(), ToolFailure> {
    let Preparation { op, scope, committer, .. } = of;
    let id = format!("{}/{}", call.session, call.call_id);
    let asked = ApprovalAsked {
        id: id.clone(),
        tool_name: call.tool.clone(),
        call_id: call.call_id.clone(),
        reason: reason.clone(),
    };
    let call_id = call.call_id.clone();
    let decided = |outcome: &str| ApprovalDecided {
        id: id.clone(),
        call_id: call_id.clone(),
        outcome: outcome.to_owned(),
    };
    let question = Question::Asked { op: *op, undecided: decided("cancelled") };
    commit(committer, ApprovalAsked::TYPE, &asked, question).await?;
    let request = ApprovalRequest { id: id.clone(), call, reason, scope: scope.clone() };
    let answer = scope.run(request, |_| Box::pin(async { Approval::Unavailable })).await;
    let (outcome, refusal) = match answer {
        Approval::AllowedOnce => ("allowed-once", None),
        Approval::Rejected { message } if message.is_empty() => {
            ("rejected", Some("the user denied this call".to_owned()))
        }
        Approval::Rejected { message } => {
            ("rejected", Some(format!("the user denied this call and says: {message}")))
        }
        Approval::Cancelled => ("cancelled", Some("the turn was cancelled".to_owned())),
        Approval::Unavailable => (
            "unavailable",
            Some("this call needs an approval and nobody is there to give one".to_owned()),
        ),
    };
    let question = Question::Decided { op: *op };
    commit(committer, ApprovalDecided::TYPE, &decided(outcome), question).await?;
    refusal.map_or(Ok(()), |message| Err(ToolFailure::new("DENIED", message)))
}

async fn commit(
    committer: &Committer,
    kind: &str,
    payload: &impl serde::Serialize,
    question: Question,
) -> Result<(), ToolFailure> {
    let refused = |problem: String| {
        ToolFailure::new("DENIED", format!("the question could not be recorded: {problem}"))
    };
    let draft = own_draft(kind, payload).map_err(|e| refused(e.to_string()))?;
    committer.commit(draft, Some(question)).await.map(|_| ()).map_err(|e| refused(e.0))
}
