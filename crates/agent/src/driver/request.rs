//! From a call configuration to a rendered request.

use std::collections::{BTreeSet, HashMap};

use reins_schema::{CallConfig, Failure, HeaderReason, Purpose, RequestContext, RequestHeader};
use reins_session::{Input, Op, RenderedFacts, RequestPlan};

use super::{Done, Driver, Plan};
use crate::chains::RequestConfig;
use crate::prompt::{SectionText, assembly_failure, system_prompt};
use crate::provider::{ResolvedCall, resolve};

impl Driver {
    pub(super) fn ask_config(&mut self, op: Op, turn: u64, step: u64) {
        let config = self.seed_config();
        let session = self.env.session.clone();
        let event = RequestConfig { session, turn, step, config };
        let chain = self
            .place
            .scope
            .run(event, |event: RequestConfig| Box::pin(async { Ok(event.config) }));
        let scope = self.place.scope.clone();
        let draft = HeaderDraft {
            system: system_prompt(self.turn.sections.iter().map(|section| section.text.as_str())),
            tools: self.turn.tools.tools.iter().map(|t| t.tool.schema().clone()).collect(),
            rows: self.turn.tools.tools.iter().map(|t| (t.name.clone(), t.row.clone())).collect(),
            sections: self.turn.sections.clone(),
            previous_sections: self.turn.previous_sections.clone(),
            previous: self.last_header().cloned(),
        };
        let on_panic = move |failure| Input::ConfigDecided { op, result: Err(failure) };
        self.spawn(op, on_panic, async move {
            let resolved = match chain.await {
                Ok(config) => resolve(&scope, config),
                Err(failure) => Err(failure),
            };
            match resolved {
                Ok((provider, call)) => {
                    let (plan, new_items) = draft.plan(call);
                    let cause = match &plan.header.reason {
                        HeaderReason::Change { cause } => Some(cause.clone()),
                        HeaderReason::Initial => None,
                    };
                    let input = Input::ConfigDecided { op, result: Ok(Box::new(plan)) };
                    Done::Configured { input, plan: Some(Plan { provider, cause, new_items }) }
                }
                Err(failure) => {
                    let input = Input::ConfigDecided { op, result: Err(failure) };
                    Done::Configured { input, plan: None }
                }
            }
        });
    }

    /// What was asked for; without a wish, what the session used last, less the provider's own
    /// defaults, which are resolved anew.
    fn seed_config(&self) -> CallConfig {
        if !self.turn.seed.provider.is_empty() {
            return self.turn.seed.clone();
        }
        let Some(last) = self.last_header() else { return CallConfig::default() };
        let mut config = last.config.clone();
        if last.adapter_defaults.reasoning_effort {
            config.reasoning_effort = None;
        }
        if last.adapter_defaults.max_tokens {
            config.max_tokens = None;
        }
        config
    }

    pub(super) fn render(&mut self) -> Result<RenderedFacts, Failure> {
        let plan = self.turn.plan.as_ref().ok_or_else(|| assembly_failure("no provider"))?;
        let id = plan.provider.id();
        let kept = self.turn.renderer.take().filter(|(of, _)| of == id);
        let is_new = kept.is_none();
        let (id, mut renderer) = kept.unwrap_or_else(|| (id.to_owned(), plan.provider.renderer()));
        let fold = self.core.fold();
        let header = fold.request_header().ok_or_else(|| assembly_failure("no header"))?;
        let mut rendered =
            renderer.render(header, fold.surface(), fold.last_sent(Purpose::Turn))?;
        let by_header = match rendered.facts.cause.as_deref() {
            Some("header") => true,
            // A new renderer has not seen the previous request, in which the header came first.
            Some("surface") => is_new && plan.new_items,
            _ => false,
        };
        if by_header && let Some(cause) = &plan.cause {
            rendered.facts.cause = Some(cause.clone());
        } else if rendered.facts.cause.as_deref() == Some("surface") && fold.lost_since_sent() {
            rendered.facts.cause = Some("recovered".to_owned());
        }
        self.turn.renderer = Some((id, renderer));
        let facts = rendered.facts.clone();
        self.turn.rendered = Some(rendered);
        Ok(facts)
    }
}

struct HeaderDraft {
    system: String,
    tools: Vec<reins_schema::ToolSchema>,
    rows: HashMap<String, String>,
    sections: Vec<SectionText>,
    previous_sections: Vec<SectionText>,
    previous: Option<RequestHeader>,
}

impl HeaderDraft {
    /// Also answers whether items of the previous header differ.
    fn plan(self, call: ResolvedCall) -> (RequestPlan, bool) {
        let context = RequestContext {
            provider: call.config.provider.clone(),
            model: call.config.model.clone(),
            context_window: call.context_window,
        };
        let mut header = RequestHeader {
            config: call.config,
            adapter_defaults: call.defaults,
            system: self.system,
            tools: self.tools,
            reason: HeaderReason::Initial,
        };
        let mut new_items = false;
        if let Some(previous) = &self.previous {
            new_items = previous.system != header.system || previous.tools != header.tools;
            let cause = change_cause(
                previous,
                &header,
                &self.rows,
                &section_rows(&self.previous_sections, &self.sections),
            );
            header.reason = HeaderReason::Change { cause };
        }
        (RequestPlan { header, context }, new_items)
    }
}

/// Rows of the sections that differ.
fn section_rows(before: &[SectionText], now: &[SectionText]) -> BTreeSet<String> {
    let only = |of: &[SectionText], other: &[SectionText]| -> Vec<String> {
        of.iter().filter(|s| !other.contains(s)).map(|s| s.row.to_string()).collect()
    };
    only(before, now).into_iter().chain(only(now, before)).collect()
}

/// What differs between two headers, with the rows behind it where they are known.
fn change_cause(
    before: &RequestHeader,
    now: &RequestHeader,
    tool_rows: &HashMap<String, String>,
    section_rows: &BTreeSet<String>,
) -> String {
    let mut causes = Vec::new();
    if before.config.provider != now.config.provider || before.config.model != now.config.model {
        causes.push("model".to_owned());
    } else if before.config != now.config || before.adapter_defaults != now.adapter_defaults {
        causes.push("call settings".to_owned());
    }
    if before.system != now.system {
        let rows: Vec<&str> = section_rows.iter().map(String::as_str).collect();
        causes.push(match rows.is_empty() {
            true => "system prompt".to_owned(),
            false => format!("system prompt (rows {})", rows.join(", ")),
        });
    }
    let old = |name: &str| before.tools.iter().find(|tool| tool.name == name);
    let new = |name: &str| now.tools.iter().any(|tool| tool.name == name);
    let changed = now.tools.iter().filter(|tool| old(&tool.name) != Some(*tool)).map(|tool| {
        let row = tool_rows.get(&tool.name).map_or("?", String::as_str);
        format!("`{}` (row {row})", tool.name)
    });
    let gone = before.tools.iter().filter(|tool| !new(&tool.name));
    let gone = gone.map(|tool| format!("`{}` gone", tool.name));
    let tools: Vec<String> = changed.chain(gone).collect();
    if !tools.is_empty() {
        causes.push(format!("tools: {}", tools.join(", ")));
    }
    causes.join("; ")
}
