//! Work in flight: every task belongs to the driver's set and is awaited at the end.

use reins_schema::{Failure, FailureCode, Message, MessageId};
use reins_session::{AttemptOutcome, Input, Op};
use uuid::Uuid;

use super::{Begun, Done, Driver};
use crate::attempt::{self, Attempt};
use crate::contain::contain;
use crate::pipeline::{self, Execution, failed};
use crate::place::Move;
use crate::prompt::{self, PromptContext, assembly_failure};
use crate::provider::WireCall;
use crate::tool::{ToolContext, ToolFailure};

impl Driver {
    /// Runs `work`; its result comes back through `done` unless the op is abandoned. When a
    /// plugin's code panics in it, `on_panic` is the answer instead.
    pub(super) fn spawn(
        &mut self,
        op: Op,
        on_panic: impl FnOnce(Failure) -> Input + Send + 'static,
        work: impl Future<Output = Done> + Send + 'static,
    ) {
        let done = self.ways.done_in.clone();
        let handle = self.work.spawn(async move {
            let result = contain(work).await;
            let result = result.unwrap_or_else(|words| Done::Input(on_panic(panicked(&words))));
            // Fails only when the driver has ended, and then nobody waits.
            drop(done.send(result).await);
        });
        self.running.insert(op, handle);
    }

    pub(super) fn assemble(&mut self, op: Op, step: u64) {
        let preset = (step == 1).then(|| self.place.preset.clone());
        let mover = self.env.mover.clone();
        let mut of = self.prompt_context();
        let last = self.turn.last_facts.clone();
        let on_panic = move |failure| Input::Assembled { op, result: Err(failure) };
        self.spawn(op, on_panic, async move {
            let begun = match preset {
                None => None,
                Some(preset) => {
                    let moved = mover.next(&preset, &of.session).await;
                    if let Some(Move { place: Ok(place), .. }) = &moved {
                        of.scope = place.scope.clone();
                    }
                    let tools = pipeline::ToolSet::take(&of.scope);
                    Some(Box::new(Begun { tools, moved }))
                }
            };
            let sections = prompt::sections(&of);
            let text = prompt::facts(&of).await;
            let changed = !text.is_empty() && last.as_deref() != Some(text.as_str());
            let facts: Option<Message> = changed
                .then(|| prompt::facts_message(MessageId::new(Uuid::now_v7().to_string()), text));
            let input = Input::Assembled { op, result: Ok(facts) };
            Done::Assembled { input, sections, begun }
        });
    }

    pub(super) fn prompt_context(&self) -> PromptContext {
        PromptContext {
            session: self.env.session.clone(),
            cwd: self.env.cwd.clone(),
            scope: self.place.scope.clone(),
        }
    }

    pub(super) fn start_attempt(&mut self, op: Op) {
        let (Some(plan), Some(rendered)) = (&self.turn.plan, self.turn.rendered.take()) else {
            let failure = assembly_failure("the request was not rendered");
            let outcome = AttemptOutcome::Failed { failure, usage: None };
            return self.now.push_back(Input::AttemptEnded { op, outcome });
        };
        let call = WireCall { body: rendered.body, session: self.env.session.clone() };
        let attempt = Attempt {
            provider: plan.provider.clone(),
            call,
            clock: self.env.clock.clone(),
            max_bytes: self.env.limits.max_answer_bytes,
        };
        let handle = self.work.spawn(attempt::run(op, attempt, self.ways.inputs_in.clone()));
        self.running.insert(op, handle);
    }

    pub(super) fn start_tool(&mut self, op: Op, call: reins_schema::ToolCallBlock) {
        let Some(ready) = self.ready.remove(&call.id) else {
            let outcome = failed(&ToolFailure::new("INTERNAL", "the call was not prepared"));
            return self.now.push_back(Input::ToolFinished { op, outcome });
        };
        let cancel = reins_world::CancelToken::new();
        self.bodies.insert(op, cancel.clone());
        let of = Execution {
            name: call.name,
            ready,
            ctx: ToolContext {
                session: self.env.session.clone(),
                call_id: call.id,
                cwd: self.env.cwd.clone(),
                cancel,
                observations: self.observations.clone(),
                scope: self.place.scope.clone(),
            },
            clock: self.env.clock.clone(),
            grace: self.env.limits.grace,
            max_bytes: self.env.limits.max_result_bytes,
        };
        let on_panic = move |failure: Failure| {
            let outcome = failed(&ToolFailure::new("INTERNAL", failure.message));
            Input::ToolFinished { op, outcome }
        };
        self.spawn(op, on_panic, async move {
            let outcome = pipeline::execute(of).await;
            Done::Input(Input::ToolFinished { op, outcome })
        });
    }
}

/// What a turn ends with when a plugin's code panicked in its loop.
pub(super) fn panicked(words: &str) -> Failure {
    let code = FailureCode::Other("INTERNAL".to_owned());
    Failure::new(code, format!("a plugin panicked: {words}"))
}
