//! Limits, and new ones at any moment.

use std::collections::HashSet;

use reins_session::{Input, Limits, Status, TurnLimits};

use super::rng::Rng;
use super::shadow::Key;
use super::world::{Wait, World};

type Checked = Result<(), String>;

/// What binds in some schedules and not in others.
pub(crate) fn some_limits(rng: &mut Rng) -> Limits {
    let turn = some_turn_limits(rng);
    Limits { turn, parallel_tools: 1 + rng.below(3), inbox: 3 + rng.below(8) }
}

fn some_turn_limits(rng: &mut Rng) -> TurnLimits {
    let some = |rng: &mut Rng, percent, from: u64, spread| {
        rng.chance(percent).then(|| from + rng.below(spread) as u64)
    };
    TurnLimits {
        steps: some(rng, 20, 0, 5),
        tool_calls: some(rng, 30, 1, 8),
        time_ms: some(rng, 20, 20, 500),
    }
}

/// What the open turn's own limits allow, with what was granted on top.
#[derive(Default)]
pub(crate) struct Allowed {
    steps: Option<u64>,
    calls: Option<u64>,
    time: Option<u64>,
    /// The step that was assembled when the limits came.
    under_way: u64,
    called: HashSet<Key>,
}

impl Allowed {
    pub(crate) fn of(limits: TurnLimits) -> Self {
        let TurnLimits { steps, tool_calls: calls, time_ms: time } = limits;
        Self { steps, calls, time, ..Self::default() }
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
            // New limits do not ask about the step that was assembled when they came.
            Some(limit) if step > limit && step > self.under_way => {
                Err(format!("step {step} is past the limit {limit}"))
            }
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
        let limits = some_turn_limits(&mut self.rng);
        let anew = self.waits.values().any(|wait| matches!(wait, Wait::Assemble { step: 1 }));
        self.count_limits(anew);
        self.limits.turn = limits;
        let mut clocks = self.clocks();
        if anew {
            self.shadow.allowed = Allowed { under_way: 1, ..Allowed::of(limits) };
            let ends = limits.time_ms.map(|limit| self.now.saturating_add_unsigned(limit));
            clocks = ends.into_iter().collect();
        }
        let (written, waited) = (self.log.len(), self.shadow.waiting.clone());
        let status = self.core.status();
        self.step(Input::UseLimits(limits))?;
        if self.clocks() != clocks {
            return Err(format!("new limits leave {:?}, not {clocks:?}", self.clocks()));
        }
        if anew && self.asks_limit() {
            return Err("a limit is asked about that no longer holds".to_owned());
        }
        if self.shadow.waiting != waited || self.core.status() != status {
            return Err("new limits change the inbox or the status".to_owned());
        }
        match self.log.get(written) {
            Some(event) => Err(format!("new limits lead to {}", event.body.kind)),
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

    fn asks_limit(&self) -> bool {
        self.waits.values().any(|wait| matches!(wait, Wait::Limit { .. }))
    }

    fn count_limits(&mut self, anew: bool) {
        let status = self.core.status();
        let open = matches!(status, Status::Running | Status::Cancelling) && !anew;
        let met = [
            (anew, "limits anew"),
            (anew && self.asks_limit(), "limits anew while time is asked about"),
            (open, "limits kept by an open turn"),
            (status == Status::Idle, "limits when idle"),
        ];
        for (_, what) in met.iter().filter(|(met, _)| *met) {
            self.cover.count(what);
        }
    }
}
