//! What stands before the conversation, and the facts in it.

use std::path::PathBuf;

use reins_agent::{
    FactPart, PromptContext, PromptPart, PromptSection, RuntimeFact, fact_parts, facts_text,
    prompt_parts, system_prompt,
};
use reins_schema::SessionId;

use super::{Explain, Shadowed};

/// The prompt of an agent that would start now.
#[derive(Clone, Debug)]
pub struct PromptFacts {
    /// The sections in the order in which they stand, the empty ones, too, with what each takes
    /// the place of.
    pub sections: Vec<(PromptPart, Vec<Shadowed>)>,
    /// The facts in the order in which they stand, the silent ones, too, likewise.
    pub facts: Vec<(FactPart, Vec<Shadowed>)>,
}

impl PromptFacts {
    /// The system prompt, byte for byte as the model gets it.
    pub fn system(&self) -> String {
        system_prompt(self.sections.iter().map(|(part, _)| part.text.as_str()))
    }

    /// The message with the facts, as the model gets it; empty when there are none.
    pub fn facts_message(&self) -> String {
        facts_text(self.facts.iter().filter_map(|(part, _)| part.text.as_deref()))
    }
}

impl Explain {
    /// The prompt of an agent that would work in this directory. Its session has no id yet.
    pub async fn prompt(&self, cwd: PathBuf) -> PromptFacts {
        let session = SessionId::new("not-yet");
        let of = PromptContext { session, cwd, scope: self.scope().clone() };
        let sections = prompt_parts(&of).into_iter();
        let sections = sections.map(|part| {
            let shadows = self.shadowed::<dyn PromptSection>(&part.name);
            (part, shadows)
        });
        let facts = fact_parts(&of).await.into_iter().map(|part| {
            let shadows = self.shadowed::<dyn RuntimeFact>(&part.name);
            (part, shadows)
        });
        PromptFacts { sections: sections.collect(), facts: facts.collect() }
    }
}
