//! A scripted model that refuses what a real server may refuse.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use reins_providers::script::{
    Player, Recorder, Refusal, Reply, Request, Respond, ScriptError, ScriptOptions, ScriptServer,
};
use reins_providers::{Quirks, Rules, Vendor, check_body};
use serde::Deserialize;
use tokio::sync::watch;

use crate::act::Acts;
use crate::fault::Fault;

/// Called with every request and what is wrong with it.
pub type Watch = Arc<dyn Fn(&Request, &[String]) + Send + Sync>;

/// How a strict server is started.
#[derive(Clone, Default)]
pub struct StrictOptions {
    /// 0 = any free one.
    pub port: u16,
    /// Which vendor's rules; absent = DeepSeek's.
    pub quirks: Option<Quirks>,
    /// Sees every request before it is answered.
    pub watch: Option<Watch>,
    /// Keeps no request: for tests that watch how memory grows.
    pub forget: bool,
}

/// A request that broke rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The request's number, from 1.
    pub request: u64,
    /// Place and rule, one text each.
    pub faults: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}: {}", self.request, self.faults.join("; "))
    }
}

/// A running strict server. It records every request, unless told to forget them; a chat request
/// that breaks a rule gets HTTP 400 and is remembered, and uses up no answer of the script.
pub struct StrictServer {
    server: ScriptServer,
    recorder: Recorder,
    violations: Arc<Mutex<Vec<Violation>>>,
    count: watch::Receiver<u64>,
}

impl StrictServer {
    /// Listens on a free port, with DeepSeek's rules.
    ///
    /// # Errors
    /// As [`StrictServer::start_with`].
    pub fn start(acts: Acts) -> Result<Self, ScriptError> {
        Self::start_with(acts, StrictOptions::default())
    }

    /// Listens. To be called within a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// The port is taken, or a fault happens in something that its answer does not have.
    pub fn start_with(acts: Acts, options: StrictOptions) -> Result<Self, ScriptError> {
        let (script, faults) = acts.split()?;
        let recorder = Recorder::in_memory();
        let violations = Arc::new(Mutex::new(Vec::new()));
        let (counted, count) = watch::channel(0);
        let quirks = match options.quirks {
            Some(quirks) => quirks,
            None => deepseek()?,
        };
        let examiner = Examiner {
            player: Player::new(script),
            faults,
            rules: Rules::of(quirks),
            reasoning: HashMap::new(),
            violations: Arc::clone(&violations),
            watch: options.watch,
            counted,
        };
        let record = (!options.forget).then(|| recorder.clone());
        let options = ScriptOptions { port: options.port, record };
        let server = ScriptServer::start_with(examiner, options)?;
        Ok(Self { server, recorder, violations, count })
    }

    /// What a client puts before `/chat/completions`.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.recorder.requests()
    }

    /// Their bodies as JSON; a body that is none is null.
    pub fn json_bodies(&self) -> Vec<serde_json::Value> {
        let bodies = self.recorder.bodies();
        bodies.iter().map(|body| serde_json::from_slice(body).unwrap_or_default()).collect()
    }

    /// Waits until so many requests have arrived, in total. Does not end when they never do.
    pub async fn reached(&self, requests: u64) {
        let mut count = self.count.clone();
        // The sender lives as long as the server does.
        count.wait_for(|count| *count >= requests).await.ok();
    }

    /// The requests that broke rules.
    pub fn violations(&self) -> Vec<Violation> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No request broke a rule.
    ///
    /// # Panics
    /// One did; the message lists all of them.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
        assert!(list.is_empty(), "requests broke rules:\n{}", list.join("\n"));
    }

    /// Closes everything and waits for it.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

fn deepseek() -> Result<Quirks, ScriptError> {
    Vendor::named("deepseek").map(|vendor| vendor.quirks).map_err(|error| ScriptError::Format {
        name: "deepseek.toml".to_owned(),
        line: 0,
        problem: error.to_string(),
    })
}

struct Examiner {
    player: Player,
    faults: Vec<Option<Fault>>,
    rules: Rules,
    /// The reasoning that was sent with a call, by the call's id.
    reasoning: HashMap<String, String>,
    violations: Arc<Mutex<Vec<Violation>>>,
    watch: Option<Watch>,
    counted: watch::Sender<u64>,
}

impl Respond for Examiner {
    fn respond(&mut self, request: &Request) -> Reply {
        let faults = self.examine(request);
        if let Some(watch) = &self.watch {
            watch(request, &faults);
        }
        let reply =
            if faults.is_empty() { self.play(request) } else { self.refuse(request, faults) };
        self.counted.send_replace(request.number);
        reply
    }
}

impl Examiner {
    fn examine(&self, request: &Request) -> Vec<String> {
        if request.method != "POST" || !request.path.ends_with("/chat/completions") {
            return Vec::new();
        }
        let checked = check_body(&request.body, self.rules);
        let mut faults: Vec<String> =
            checked.err().unwrap_or_default().iter().map(ToString::to_string).collect();
        if self.rules.reasoning_content {
            self.examine_reasoning(&request.body, &mut faults);
        }
        faults
    }

    /// Reasoning that came with calls must be sent back with them, unchanged.
    fn examine_reasoning(&self, body: &[u8], faults: &mut Vec<String>) {
        #[derive(Deserialize)]
        struct Body {
            messages: Vec<Message>,
        }
        #[derive(Deserialize)]
        struct Message {
            reasoning_content: Option<String>,
            #[serde(default)]
            tool_calls: Vec<Call>,
        }
        #[derive(Deserialize)]
        struct Call {
            id: String,
        }
        // A body of another shape is refused by the checker.
        let Ok(body) = serde_json::from_slice::<Body>(body) else { return };
        for (index, message) in body.messages.iter().enumerate() {
            let sent = message.tool_calls.iter().find_map(|call| self.reasoning.get(&call.id));
            if sent.is_some() && sent != message.reasoning_content.as_ref() {
                let at = format!("messages[{index}].reasoning_content");
                faults.push(format!("{at}: must be the reasoning that came with the calls"));
            }
        }
    }

    fn play(&mut self, request: &Request) -> Reply {
        let played = match self.player.play(request) {
            Ok(played) => played,
            Err(refusal) => return refusal.reply(),
        };
        match self.faults.get(played.index).cloned().flatten() {
            // What a faulty answer brought does not count, so nothing of it must come back.
            Some(fault) => fault.reply(played),
            None => {
                if !played.answer.reasoning.is_empty() {
                    for id in played.answer.calls.iter().filter_map(|call| call.id.clone()) {
                        self.reasoning.insert(id, played.answer.reasoning.clone());
                    }
                }
                played.reply(played.events())
            }
        }
    }

    fn refuse(&mut self, request: &Request, faults: Vec<String>) -> Reply {
        let violation = Violation { request: request.number, faults };
        let refusal = Refusal { status: StatusCode::BAD_REQUEST, message: violation.to_string() };
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
        refusal.reply()
    }
}
