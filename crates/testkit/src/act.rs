//! Scripts with faults, from a file or written in Rust.

use std::collections::BTreeMap;
use std::time::Duration;

use reins_providers::script::{Answer, Arguments, Call, CallUsage, Repeat, Script, ScriptError};

use crate::fault::{FAULT_KEYS, Fault};

/// A script, and what goes wrong with which of its answers.
///
/// ```
/// use reins_testkit::{At, Fault, script};
/// use serde_json::json;
///
/// let acts = script()
///     .text("I look.")
///     .call("read", json!({"file_path": "a.txt"}))
///     .then()
///     .text("half an answer")
///     .fault(Fault::Cut(At::Text))
///     .then()
///     .text("done");
/// ```
#[derive(Clone, Debug)]
pub struct Acts {
    answers: Vec<Answer>,
    faults: Vec<Option<Fault>>,
    name: String,
}

/// Starts a script with an empty first answer.
pub fn script() -> Acts {
    Acts {
        answers: vec![Answer::default()],
        faults: vec![None],
        name: "the script of this test".to_owned(),
    }
}

impl Acts {
    /// Reads a script with the keys `fault`, `at`, `at_byte`, `limit_ms`, `status`, `headers` and
    /// `body`; `name` is for messages.
    ///
    /// # Errors
    /// As [`Script::parse`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ScriptError> {
        let Script { name, answers } = Script::parse_with(text, name, &FAULT_KEYS)?;
        let mut faults = Vec::with_capacity(answers.len());
        for answer in &answers {
            let fault = Fault::read(answer).map_err(|problem| ScriptError::Format {
                name: name.clone(),
                line: answer.line,
                problem,
            })?;
            faults.push(fault);
        }
        Ok(Self { answers, faults, name })
    }

    /// The next answer.
    #[must_use]
    pub fn then(mut self) -> Self {
        self.answers.push(Answer::default());
        self.faults.push(None);
        self
    }

    /// Its text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(|answer| answer.text = text.into())
    }

    /// Its reasoning.
    #[must_use]
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.with(|answer| answer.reasoning = text.into())
    }

    /// One more call.
    #[must_use]
    pub fn call(self, name: &str, arguments: serde_json::Value) -> Self {
        self.with(|answer| answer.calls.push(call(name, Arguments::Json(arguments), None)))
    }

    /// One more call, with this id.
    #[must_use]
    pub fn call_with_id(self, id: &str, name: &str, arguments: serde_json::Value) -> Self {
        self.with(|answer| answer.calls.push(call(name, Arguments::Json(arguments), Some(id))))
    }

    /// One more call, with exactly these arguments, which need not be JSON.
    #[must_use]
    pub fn raw_call(self, name: &str, arguments: &str) -> Self {
        let arguments = Arguments::Raw(arguments.to_owned());
        self.with(|answer| answer.calls.push(call(name, arguments, None)))
    }

    /// What it is said to cost: the whole input, the output, how much of the input was cached.
    #[must_use]
    pub fn usage(self, input: u64, output: u64, cached: u64) -> Self {
        self.with(|answer| answer.usage = Some(CallUsage { input, output, cached }))
    }

    /// Its finish reason.
    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.with(|answer| answer.finish = Some(reason.to_owned()))
    }

    /// Pieces of at most so many bytes, with this wait between them.
    #[must_use]
    pub fn chunks(self, bytes: usize, wait: Duration) -> Self {
        self.with(|answer| {
            answer.chunk_bytes = Some(bytes);
            answer.chunk_delay = wait;
        })
    }

    /// Wait before the head.
    #[must_use]
    pub fn delay(self, wait: Duration) -> Self {
        self.with(|answer| answer.delay = wait)
    }

    /// Only for requests whose last message contains this.
    #[must_use]
    pub fn when(self, part: &str) -> Self {
        self.with(|answer| answer.when = Some(part.to_owned()))
    }

    /// So many times.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        self.with(|answer| answer.repeat = Repeat::Times(times))
    }

    /// Without end.
    #[must_use]
    pub fn forever(self) -> Self {
        self.with(|answer| answer.repeat = Repeat::Forever)
    }

    /// It goes wrong like this.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        if let Some(last) = self.faults.last_mut() {
            *last = Some(fault);
        }
        self
    }

    /// It is this status, with an error object as its body.
    ///
    /// # Panics
    /// The status or a header is not one of HTTP.
    #[must_use]
    pub fn status(self, status: u16, headers: &[(&str, &str)]) -> Self {
        let headers: BTreeMap<_, _> =
            headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        match Fault::status(status, &headers, None) {
            Ok(fault) => self.fault(fault),
            Err(problem) => panic!("{problem}"),
        }
    }

    /// The script without its faults, and each answer's fault.
    ///
    /// # Errors
    /// A fault happens in something that its answer does not have.
    pub(crate) fn split(self) -> Result<(Script, Vec<Option<Fault>>), ScriptError> {
        for (index, (answer, fault)) in self.answers.iter().zip(&self.faults).enumerate() {
            let checked = fault.as_ref().map_or(Ok(()), |fault| fault.check(answer));
            checked.map_err(|problem| ScriptError::Format {
                name: self.name.clone(),
                line: answer.line,
                problem: format!("answer {}: {problem}", index + 1),
            })?;
        }
        Ok((Script { name: self.name, answers: self.answers }, self.faults))
    }

    fn with(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Some(last) = self.answers.last_mut() {
            change(last);
        }
        self
    }
}

fn call(name: &str, arguments: Arguments, id: Option<&str>) -> Call {
    Call { name: name.to_owned(), arguments, id: id.map(str::to_owned) }
}
