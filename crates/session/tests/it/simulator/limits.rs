//! Limits, and new ones at any moment.

use std::collections::HashSet;

use reins_session::{Input, Limits, Status};

use super::rng::Rng;
use super::shadow::Key;
use super::world::{Wait, World};

type Checked = Result<(), String>;

/// What binds in some schedules and not in others.
pub(crate) fn some_limits(rng: &mut Rng) -> Limits {
    let some = |rng: &mut Rng, percent, from: u64, spread| {
        rng.chance(percent).then(|| from + rng.below(spread) as u64)
    };
    Limits {
        steps: some(rng, 20, 0, 5),
        tool_calls: some(rng, 30, 1, 8),
        time_ms: some(rng, 20, 20, 500),
        parallel_tools: 1 + rng.below(3),
        inbox: 3 + rng.below(8),
    }
}

/// What the open turn's own limits allow, with what was granted on top.
#[derive(Default)]
pub(crate) struct Allowed {
    steps: Option<u64>,
    calls: Option<u64>,
    time: Option<u64>,
    called: HashSet<Key>,
}

impl Allowed {
    pub(crate) fn of(limits: &Limits) -> Self {
        let Limits { steps, tool_calls: calls, time_ms: time, .. } = *limits;
        Self { steps, calls, time, called: HashSet::new() }
    }

    fn limit(&mut self, name: &str) -> &mut Option<u64> {
        match name {
            "steps" => &mut self.steps,
            "tool-calls" => &mut self.calls,
            _ => &mut self.time,
        }
    }

    pub(crate) fn extend(&mut self, name: &str, more: u64) {
        if let Some(limit) = self.limit(name) {
            *limit += more;
        }
    }

    pub(crate) fn step(&self, step: u64) -> Result<(), String> {
        match self.steps {
            Some(limit) if step > limit => Err(format!("step {step} is past the limit {limit}")),
            _ => Ok(()),
        }
    }

    pub(crate) fn call(&mut self, key: &Key) -> Result<(), String> {
        self.called.insert(key.clone());
        match self.calls {
            Some(limit) if self.called.len() as u64 > limit => {
                Err(format!("call {key:?} is past the limit {limit}"))
            }
            _ => Ok(()),
        }
    }

    /// A limit that is reached is the turn's own.
    pub(crate) fn reached(&mut self, name: &str, value: u64) -> Result<(), String> {
        match *self.limit(name) {
            Some(limit) if limit == value => Ok(()),
            own => {
                Err(format!("the limit {name} is reached at {value}, and the turn's is {own:?}"))
            }
        }
    }
}

impl World {
    /// New limits. Whom they reach is decided here from what waits, not from the core's memory.
    pub(crate) fn limit_some(&mut self) -> Checked {
        let limits = some_limits(&mut self.rng);
        let anew = self.waits.values().any(|wait| matches!(wait, Wait::Assemble { step: 1 }));
        self.count_limits(&limits, anew);
        self.limits = limits;
        let mut clocks = self.clocks();
        if anew {
            self.shadow.allowed = Allowed::of(&limits);
            let ends = limits.time_ms.map(|limit| self.now.saturating_add_unsigned(limit));
            clocks = ends.into_iter().collect();
        }
        let (from, waited) = (self.log.len(), self.shadow.waiting.clone());
        let status = self.core.status();
        self.step(Input::UseLimits(limits))?;
        if self.clocks() != clocks {
            return Err(format!("new limits leave {:?}, not {clocks:?}", self.clocks()));
        }
        // The first step may be past the new limit.
        let none = anew && limits.steps == Some(0);
        if anew && self.asks_limit() != none {
            return Err("new limits ask about one that does not hold".to_owned());
        }
        if self.shadow.waiting != waited || self.core.status() != status {
            return Err("new limits change the inbox or the status".to_owned());
        }
        // A larger pool goes on with the calls of the step at once.
        let mut written = self.log[from..].iter().map(|event| event.body.kind.as_str());
        let goes_on = |kind: &str| match kind {
            "limit/reached" => none || !anew,
            _ => !anew && kind.starts_with("tool/"),
        };
        match written.find(|kind| !goes_on(kind)) {
            Some(kind) => Err(format!("new limits lead to {kind}")),
            None => Ok(()),
        }
    }

    /// When the outstanding clocks go off.
    fn clocks(&self) -> Vec<i64> {
        let clocks = self.waits.values().filter_map(|wait| match wait {
            Wait::Clock { time } => Some(*time),
            _ => None,
        });
        clocks.collect()
    }

    /// Bodies that run, and those whose start stands in the log and that do not run yet.
    pub(crate) fn in_flight(&self) -> usize {
        let waiting = self.bodies.iter().filter(|(key, body)| {
            let answered = self.shadow.results.contains_key(*key);
            !body.started && !answered && self.shadow.starts.contains_key(*key)
        });
        self.running().len() + waiting.count()
    }

    fn asks_limit(&self) -> bool {
        self.waits.values().any(|wait| matches!(wait, Wait::Limit { .. }))
    }

    fn count_limits(&mut self, limits: &Limits, anew: bool) {
        let (running, in_flight) = (self.running().len(), self.in_flight());
        let status = self.core.status();
        let open = matches!(status, Status::Running | Status::Cancelling) && !anew;
        let met = [
            (anew, "limits anew"),
            (anew && self.asks_limit(), "limits anew while time is asked about"),
            (open, "limits kept by an open turn"),
            (status == Status::Idle, "limits when idle"),
            (self.shadow.waiting.len() > limits.inbox, "limits below the inbox"),
            (running > limits.parallel_tools, "limits below the running bodies"),
            (
                in_flight > running.max(limits.parallel_tools),
                "limits below what waits at a barrier",
            ),
        ];
        for (_, what) in met.iter().filter(|(met, _)| *met) {
            self.cover.count(what);
        }
    }
}
