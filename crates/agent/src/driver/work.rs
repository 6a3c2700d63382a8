//! Work in flight: every task belongs to the driver's set and is awaited at the end.

use reins_schema::{Message, MessageId};
use reins_session::{Input, Op};
use uuid::Uuid;

use super::{Done, Driver};
use crate::attempt;
use crate::pipeline::{self, Execution};
use crate::prompt::{self, PromptContext};
use crate::provider::WireCall;
use crate::tool::ToolContext;

impl Driver {
    /// Runs `work`; its result comes back through `done` unless the op is abandoned.
    pub(super) fn spawn(&mut self, op: Op, work: impl Future<Output = Done> + Send + 'static) {
        let done = self.done_in.clone();
        let handle = self.work.spawn(async move {
            // Fails only when the driver has ended, and then nobody waits.
            drop(done.send(work.await).await);
        });
        self.running.insert(op, handle);
    }

    pub(super) fn assemble(&mut self, op: Op, step: u64) {
        if step == 1 {
            self.turn.tools = pipeline::ToolSet::take(&self.env.scope);
        }
        let of = self.prompt_context();
        let last = self.turn.last_facts.clone();
        self.spawn(op, async move {
            let sections = prompt::sections(&of);
            let text = prompt::facts(&of).await;
            let changed = !text.is_empty() && last.as_deref() != Some(text.as_str());
            let facts: Option<Message> = changed.then(|| {
                prompt::facts_message(MessageId::new(Uuid::now_v7().to_string()), text)
            });
            Done::Assembled { input: Input::Assembled { op, result: Ok(facts) }, sections }
        });
    }

    pub(super) fn prompt_context(&self) -> PromptContext {
        PromptContext {
            session: self.env.session.clone(),
            cwd: self.env.cwd.clone(),
            scope: self.env.scope.clone(),
        }
    }

    pub(super) fn start_attempt(&mut self, op: Op) {
        let (Some(plan), Some(rendered)) = (&self.turn.plan, self.turn.rendered.take()) else {
            return;
        };
        let call = WireCall { body: rendered.body, session: self.env.session.clone() };
        let provider = plan.provider.clone();
        let work = attempt::run(op, provider, call, self.env.clock.clone(), self.inputs_in.clone());
        let handle = self.work.spawn(work);
        self.running.insert(op, handle);
    }

    pub(super) fn start_tool(&mut self, op: Op, call: reins_schema::ToolCallBlock) {
        let Some(ready) = self.ready.remove(&call.id) else { return };
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
                scope: self.env.scope.clone(),
            },
            clock: self.env.clock.clone(),
            grace: self.env.limits.grace,
            max_bytes: self.env.limits.max_result_bytes,
        };
        self.spawn(op, async move {
            let outcome = pipeline::execute(of).await;
            Done::Input(Input::ToolFinished { op, outcome })
        });
    }
}
