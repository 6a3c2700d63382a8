//! One arm for each effect.

use std::sync::Arc;

use reins_kernel::BoxFuture;
use reins_schema::{Event, Failure, Message, Payload};
use reins_session::{
    Barrier, Effect, Entering, Input, LimitAnswer, Op, PreStepDecision, Prepared, RetryDecision,
    Status,
};

use super::{Done, Driver};
use crate::approvals::Committer;
use crate::chains::{LimitQuestion, PreStep, RequestError, TurnStopping};
use crate::pipeline::{self, Preparation};
use crate::prompt::snapshot_text;
use crate::tool::ToolFailure;

impl Driver {
    /// Does what one effect says. An error means that the store took no event.
    pub(super) async fn perform(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Append(event) => return self.append(event).await,
            Effect::Flush { op, point } => self.flush(op, point),
            Effect::Assemble { op, step, .. } => self.assemble(op, step),
            Effect::AskPreStep { op, turn, step, claimed, facts } => {
                self.ask_pre_step(
                    op,
                    PreStep { session: self.env.session.clone(), turn, step, claimed, facts },
                );
            }
            Effect::AskConfig { op, turn, step, .. } => self.ask_config(op, turn, step),
            Effect::Render { op, .. } => {
                // Rendering is the delta's cost; a task would cost more than it saves.
                let result = self.render();
                self.now.push_back(Input::Rendered { op, result });
            }
            Effect::StartAttempt { op, .. } => self.start_attempt(op),
            Effect::StopAttempt { op } | Effect::Abandon { op } => {
                if let Some(work) = self.forget(op) {
                    work.abort();
                }
            }
            Effect::AskRetry { op, turn, step, retries, failure, .. } => {
                self.ask_retry(op, turn, step, retries, failure);
            }
            Effect::PrepareTool { op, call, alone, .. } => self.prepare_tool(op, call, alone),
            Effect::StartTool { op, call, .. } => self.start_tool(op, call),
            Effect::StopTool { op, .. } => {
                if let Some(cancel) = self.bodies.get(&op) {
                    cancel.cancel();
                }
            }
            Effect::AskStop { op, turn } => self.ask_stop(op, turn),
            Effect::AskLimit { op, name, value, .. } => self.ask_limit(op, name, value),
            Effect::WakeAt { op, time } => self.wake_at(op, time),
            Effect::Status(status) => {
                if status == Status::Idle {
                    // Calls that were prepared and then abandoned.
                    self.ready.clear();
                }
                if let Some(words) = self.core.dead() {
                    self.env.dead.get_or_init(|| words.to_owned());
                }
                self.status.send_replace(status);
            }
            Effect::SendAnswered { id, result } => {
                if let Some(answer) = self.waiting.sends.remove(&id) {
                    drop(answer.send(result));
                }
            }
            Effect::EditAnswered { result } => {
                if let Some(answer) = self.waiting.edit.take() {
                    drop(answer.send(result));
                }
            }
            Effect::CommitAnswered { ticket, result } => {
                if let Some(answer) = self.waiting.commits.remove(&ticket) {
                    drop(answer.send(result));
                }
            }
        }
        Ok(())
    }

    async fn append(&mut self, event: Arc<Event>) -> Result<(), String> {
        if event.body.kind == "user/message"
            && let Ok(Payload::UserMessage(entered)) = Payload::read(&event.body)
            && let Some(text) = snapshot_text(&entered.message)
        {
            self.turn.last_facts = Some(text);
        }
        self.log.append(event).await.map_err(|e| e.to_string())
    }

    fn flush(&mut self, op: Op, point: Barrier) {
        if point == Barrier::TurnEnd {
            self.turn_end = Some(op);
        }
        if !self.place.barriers.waits_at(point) {
            return self.now.push_back(Input::Flushed { op, result: Ok(()) });
        }
        let log = self.log.clone();
        let on_panic = move |failure: Failure| Input::Flushed { op, result: Err(failure.message) };
        self.spawn(op, on_panic, async move {
            let result = log.flush().await.map_err(|e| e.to_string());
            Done::Input(Input::Flushed { op, result })
        });
    }

    fn ask_pre_step(&mut self, op: Op, event: PreStep) {
        let chain = self.place.scope.run(event, |event: PreStep| {
            Box::pin(async move { PreStepDecision::Enter(enter(event.claimed, event.facts)) })
        });
        self.ask(
            op,
            chain,
            |failure| PreStepDecision::Reject { reason: failure.message },
            move |decision| Input::PreStepDecided { op, decision },
        );
    }

    fn ask_retry(&mut self, op: Op, turn: u64, step: u64, retries: u32, failure: Failure) {
        let Some(plan) = &self.turn.plan else {
            self.now.push_back(Input::RetryDecided { op, decision: RetryDecision::GiveUp });
            return;
        };
        let policy = plan.provider.retry_policy();
        let session = self.env.session.clone();
        let event = RequestError { session, turn, step, retries, failure, policy };
        let chain = self.place.scope.run(event, |_| Box::pin(async { RetryDecision::GiveUp }));
        self.ask(
            op,
            chain,
            |_| RetryDecision::GiveUp,
            move |decision| Input::RetryDecided { op, decision },
        );
    }

    fn ask_stop(&mut self, op: Op, turn: u64) {
        let event = TurnStopping { session: self.env.session.clone(), turn };
        let chain = self.place.scope.run(event, |_| Box::pin(async {}));
        self.ask(op, chain, |_| (), move |()| Input::StopDecided { op });
    }

    fn ask_limit(&mut self, op: Op, name: String, value: u64) {
        let event = LimitQuestion { session: self.env.session.clone(), name, value };
        let chain = self.place.scope.run(event, |_| Box::pin(async { LimitAnswer::Stop }));
        self.ask(
            op,
            chain,
            |_| LimitAnswer::Stop,
            move |answer| Input::LimitAnswered { op, answer },
        );
    }

    /// Awaits a chain; `fallback` is its answer when a layer panics.
    fn ask<T: Send + 'static>(
        &mut self,
        op: Op,
        chain: BoxFuture<'static, T>,
        fallback: impl FnOnce(Failure) -> T + Send + 'static,
        input: impl Fn(T) -> Input + Clone + Send + 'static,
    ) {
        let on_panic = {
            let input = input.clone();
            move |failure| input(fallback(failure))
        };
        self.spawn(op, on_panic, async move {
            let answer = chain.await;
            Done::Input(input(answer))
        });
    }

    fn wake_at(&mut self, op: Op, time: i64) {
        let wait = u64::try_from(time - self.env.clock.now_ms()).unwrap_or(0);
        let clock = self.env.clock.clone();
        self.spawn(op, move |_| Input::Woke { op }, async move {
            clock.sleep(std::time::Duration::from_millis(wait)).await;
            Done::Input(Input::Woke { op })
        });
    }

    fn prepare_tool(&mut self, op: Op, call: reins_schema::ToolCallBlock, alone: bool) {
        let call_id = call.id.clone();
        let of = Preparation {
            op,
            scope: self.place.scope.clone(),
            tools: self.turn.tools.clone(),
            session: self.env.session.clone(),
            cwd: self.env.cwd.clone(),
            call,
            alone,
            committer: Committer { mailbox: self.ways.mailbox_in.clone() },
        };
        let on_panic = move |failure: Failure| {
            let outcome = pipeline::failed(&ToolFailure::new("INTERNAL", failure.message));
            Input::ToolPrepared { op, decision: Prepared::Refused(Box::new(outcome)) }
        };
        self.spawn(op, on_panic, async move {
            let (decision, ready) = pipeline::prepare(of).await;
            Done::Prepared { input: Input::ToolPrepared { op, decision }, call_id, ready }
        });
    }
}

fn enter(claimed: Vec<Message>, facts: Option<Message>) -> Vec<Entering> {
    let claimed =
        claimed.into_iter().map(|message| Entering { inbox: vec![message.id.clone()], message });
    claimed.chain(facts.map(|message| Entering { message, inbox: Vec::new() })).collect()
}
