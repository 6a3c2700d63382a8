//! Inputs that come before their time, or never should.

use reins_schema::{CancelCause, InboxTarget};
use reins_session::{Core, Effect, Input, Limits, QueueEdit, Status, TurnLimits};

use crate::made;

#[test]
fn nothing_happens_before_the_session_is_open() {
    let mut core = Core::new(made::empty_fold(), Limits::default());
    let message = made::message("a", "go");
    let send = Input::Send { message, target: InboxTarget::NextTurn, wake: true };
    assert!(matches!(core.step(1, send).as_slice(), [Effect::SendAnswered { result: Err(_), .. }]));
    let edit = Input::EditQueue(QueueEdit::Clear);
    assert!(matches!(core.step(2, edit).as_slice(), [Effect::EditAnswered { result: Err(_) }]));
    let cancel = Input::Cancel { cause: CancelCause::User, keep_inbox: false };
    assert!(core.step(3, cancel).is_empty());
    assert!(core.step(4, Input::Woke { op: 1 }).is_empty());
    assert_eq!(core.fold().next_seq(), 0);
    assert_eq!(core.status(), Status::Idle);
}

#[test]
fn a_second_opening_is_ignored() {
    let mut core = Core::new(made::empty_fold(), Limits::default());
    assert_eq!(core.step(1, Input::Opened { recovered: Vec::new() }).len(), 1);
    assert!(core.step(2, Input::Opened { recovered: Vec::new() }).is_empty());
}

#[test]
fn extreme_times_and_limits_do_not_overflow() {
    let limits = Limits {
        turn: TurnLimits {
            time_ms: Some(u64::MAX),
            steps: Some(u64::MAX),
            ..TurnLimits::default()
        },
        parallel_tools: 0,
        ..Limits::default()
    };
    let mut core = Core::new(made::empty_fold(), limits);
    core.step(i64::MAX, Input::Opened { recovered: Vec::new() });
    let message = made::message("a", "go");
    let send = Input::Send { message, target: InboxTarget::NextTurn, wake: true };
    let effects = core.step(i64::MAX, send);
    let woken = effects.iter().find_map(|effect| match effect {
        Effect::WakeAt { time, .. } => Some(*time),
        _ => None,
    });
    assert_eq!(woken, Some(i64::MAX));
}

#[test]
fn a_dead_core_says_why() {
    let mut core = Core::new(made::empty_fold(), Limits::default());
    core.step(1, Input::Opened { recovered: Vec::new() });
    let failed = Input::StoreFailed { message: "no space left".to_owned() };
    assert!(matches!(core.step(2, failed).as_slice(), [Effect::Status(Status::Dead)]));
    assert_eq!(core.dead(), Some("no space left"));
    let again = Input::StoreFailed { message: "again".to_owned() };
    assert!(core.step(3, again).is_empty());
    assert!(core.step(4, Input::Opened { recovered: Vec::new() }).is_empty());
}
