//! Limits of a turn: each hit is an event and a question. They may be changed at any time.

use reins_schema::{LimitReached, TurnEndReason};

use super::{Clock, Core, Phase};
use crate::face::{Effect, LimitAnswer, Op, TurnLimits};
use crate::sabotage::Sabotage;

impl Core {
    pub(super) fn use_limits(&mut self, limits: TurnLimits) {
        self.limits.turn = limits;
        let first = self.steps() == 0;
        let mid_turn = self.broken(Sabotage::LimitsMidTurn);
        let Some(turn) = &mut self.turn else { return };
        let assembling = first && matches!(turn.phase, Phase::Assembling { .. });
        if assembling || mid_turn {
            turn.steps_limit = limits.steps;
            turn.calls_limit = limits.tool_calls;
            self.stop_clock();
            self.start_clock(limits.time_ms);
        }
    }

    pub(super) fn reach_limit(&mut self, name: &str, value: u64) -> Op {
        let turn = self.fold.last_turn();
        self.append(LimitReached { turn, name: name.to_owned(), value }, Vec::new());
        let op = self.op();
        self.emit(Effect::AskLimit { op, turn, name: name.to_owned(), value });
        op
    }

    pub(super) fn start_clock(&mut self, limit_ms: Option<u64>) {
        let Some(limit_ms) = limit_ms else { return };
        self.wake_in(limit_ms, limit_ms);
    }

    fn wake_in(&mut self, wait_ms: u64, limit_ms: u64) {
        let op = self.op();
        let time = self.now.saturating_add_unsigned(wait_ms);
        if let Some(turn) = &mut self.turn {
            turn.clock = Clock::Running { op, limit_ms };
            self.emit(Effect::WakeAt { op, time });
        }
    }

    pub(super) fn stop_clock(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        match std::mem::replace(&mut turn.clock, Clock::Off) {
            Clock::Off => {}
            Clock::Running { op, .. } | Clock::Asking { op, .. } => {
                self.emit(Effect::Abandon { op });
            }
        }
    }

    pub(super) fn time_is_up(&mut self, op: Op) {
        let Some(turn) = &self.turn else { return };
        let Clock::Running { op: awaited, limit_ms } = turn.clock else { return };
        if awaited != op {
            return;
        }
        let op = self.reach_limit("time", limit_ms);
        if let Some(turn) = &mut self.turn {
            turn.clock = Clock::Asking { op, limit_ms };
        }
    }

    pub(super) fn limit_answered(&mut self, op: Op, answer: LimitAnswer) {
        let Some(turn) = &mut self.turn else { return };
        let more = match answer {
            LimitAnswer::Extend(more) if more > 0 => Some(more),
            LimitAnswer::Extend(_) | LimitAnswer::Stop => None,
        };
        if let Clock::Asking { op: awaited, limit_ms } = turn.clock
            && awaited == op
        {
            turn.clock = Clock::Off;
            return match more {
                Some(more) => self.wake_in(more, limit_ms.saturating_add(more)),
                None => self.stop_at_limit("time"),
            };
        }
        match &mut turn.phase {
            Phase::StepLimit { op: awaited } if *awaited == op => match more {
                Some(more) => {
                    turn.steps_limit = turn.steps_limit.map(|limit| limit.saturating_add(more));
                    self.begin_step();
                }
                None => {
                    turn.phase = Phase::Between;
                    self.stop_at_limit("steps");
                }
            },
            Phase::Tools(tools) if tools.asks_limit(op) => match more {
                Some(more) => {
                    tools.free_lane();
                    turn.calls_limit = turn.calls_limit.map(|limit| limit.saturating_add(more));
                    self.drive_tools();
                }
                None => {
                    tools.free_lane();
                    self.stop_at_limit("tool-calls");
                }
            },
            _ => {}
        }
    }

    fn stop_at_limit(&mut self, name: &str) {
        self.wind_down(TurnEndReason::Limit { name: name.to_owned() });
    }
}
