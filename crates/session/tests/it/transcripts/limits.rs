//! New limits: whom they reach, and from when.

use reins_schema::InboxTarget;
use reins_session::{Core, Effect, Input, Limits, Op, TurnLimits};

use super::check;
use crate::made;

#[test]
fn a_turn_whose_first_step_is_assembled_takes_fewer_steps() {
    check(
        "steps: 3",
        "
        hold assemble
        send a go
        limits steps: 1
        release assemble
        call c1 nothing
        finish calls
        prepare UNKNOWN_TOOL
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 nothing) <7
        9 tool/call c1 nothing
        > prepare c1 alone
        10 tool/result c1 UNKNOWN_TOOL <9
        11 step/end 1
        12 limit/reached steps 1
        13 turn/end 1 limit steps
        > flush
        > idle
        ",
    );
}

#[test]
fn a_turn_whose_first_step_is_assembled_takes_fewer_calls() {
    check(
        "",
        "
        hold assemble
        send a go
        limits tool_calls: 1
        release assemble
        call c1 read
        call c2 read
        finish calls
        prepare ro
        done c1
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 read) (c2 read) <7
        9 tool/call c1 read
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 limit/reached tool-calls 1
        12 tool/result c1 ok <9
        13 tool/call c2 read
        14 tool/result c2 LIMIT_REACHED <13
        15 step/end 1
        16 turn/end 1 limit tool-calls
        > flush
        > idle
        ",
    );
}

#[test]
fn a_turn_that_has_gone_on_keeps_its_steps() {
    check(
        "steps: 1",
        "
        send a go
        queue b later
        limits steps: 2
        call c1 nothing
        finish calls
        prepare UNKNOWN_TOOL
        limit stop
        call c2 nothing
        finish calls
        prepare UNKNOWN_TOOL
        text ok
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 agent/inbox/spliced next-turn +b
        8 assistant/chunk #1
        9 assistant/message #1 ToolCalls (c1 nothing) <8
        10 tool/call c1 nothing
        > prepare c1 alone
        11 tool/result c1 UNKNOWN_TOOL <10
        12 step/end 1
        13 limit/reached steps 1
        14 turn/end 1 limit steps
        > flush
        15 turn/start 2
        16 step/start 1
        17 user/message b: later -[b]
        18 request/sent Turn #1 4 items
        > flush
        > start attempt
        19 assistant/chunk #1
        20 assistant/message #1 ToolCalls (c2 nothing) <19
        21 tool/call c2 nothing
        > prepare c2 alone
        22 tool/result c2 UNKNOWN_TOOL <21
        23 step/end 1
        24 step/start 2
        25 request/sent Turn #1 6 items
        > flush
        > start attempt
        26 assistant/chunk #1
        27 assistant/message #1 Stop ok <26
        28 step/end 2
        29 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_turn_whose_first_step_was_assembled_keeps_its_steps() {
    check(
        "steps: 1",
        "
        hold pre-step
        send a go
        limits steps: 2
        release pre-step
        call c1 nothing
        finish calls
        prepare UNKNOWN_TOOL
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 nothing) <7
        9 tool/call c1 nothing
        > prepare c1 alone
        10 tool/result c1 UNKNOWN_TOOL <9
        11 step/end 1
        12 limit/reached steps 1
        13 turn/end 1 limit steps
        > flush
        > idle
        ",
    );
}

#[test]
fn a_turn_whose_second_step_is_assembled_keeps_its_calls() {
    check(
        "",
        "
        send a go
        call c1 nothing
        finish calls
        hold assemble
        prepare UNKNOWN_TOOL
        limits tool_calls: 1
        release assemble
        call c2 nothing
        finish calls
        prepare UNKNOWN_TOOL
        text ok
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 nothing) <7
        9 tool/call c1 nothing
        > prepare c1 alone
        10 tool/result c1 UNKNOWN_TOOL <9
        11 step/end 1
        12 step/start 2
        13 request/sent Turn #1 3 items
        > flush
        > start attempt
        14 assistant/chunk #1
        15 assistant/message #1 ToolCalls (c2 nothing) <14
        16 tool/call c2 nothing
        > prepare c2 alone
        17 tool/result c2 UNKNOWN_TOOL <16
        18 step/end 2
        19 step/start 3
        20 request/sent Turn #1 5 items
        > flush
        > start attempt
        21 assistant/chunk #1
        22 assistant/message #1 Stop ok <21
        23 step/end 3
        24 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_turn_takes_a_time_limit_where_there_was_none() {
    check(
        "",
        "
        hold assemble
        send a go
        limits time_ms: 50
        release assemble
        text partial
        arrive
        woke
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 limit/reached time 50
        > stop attempt
        9 assistant/message #1 Aborted partial <7
        10 step/end 1
        11 turn/end 1 limit time
        > flush
        > idle
        ",
    );
}

#[test]
fn a_question_about_time_falls_with_its_limit() {
    check(
        "time_ms: 50",
        "
        hold assemble
        send a go
        woke
        limits time_ms: 80
        release assemble
        text ok
        woke
        limit extend 20
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 limit/reached time 50
        3 step/start 1
        4 user/message a: go -[a]
        5 request/header m Initial
        6 request/context m
        7 request/sent Turn #1 1 items
        > flush
        > start attempt
        8 limit/reached time 80
        9 assistant/chunk #1
        10 assistant/message #1 Stop ok <9
        11 step/end 1
        12 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_first_step_that_is_assembled_is_under_way_whatever_limits_come() {
    check(
        "",
        "
        hold assemble
        send a go
        limits steps: 0
        release assemble
        call c1 nothing
        finish calls
        prepare UNKNOWN_TOOL
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 nothing) <7
        9 tool/call c1 nothing
        > prepare c1 alone
        10 tool/result c1 UNKNOWN_TOOL <9
        11 step/end 1
        12 limit/reached steps 0
        13 turn/end 1 limit steps
        > flush
        > idle
        ",
    );
}

#[test]
fn limits_that_come_when_idle_hold_for_the_next_turn() {
    check(
        "",
        "
        limits steps: 1
        send a go
        call c1 nothing
        finish calls
        prepare UNKNOWN_TOOL
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: go -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 ToolCalls (c1 nothing) <7
        9 tool/call c1 nothing
        > prepare c1 alone
        10 tool/result c1 UNKNOWN_TOOL <9
        11 step/end 1
        12 limit/reached steps 1
        13 turn/end 1 limit steps
        > flush
        > idle
        ",
    );
}

/// The clock of a turn that is being assembled, whatever limits come: the one before goes with
/// its wait.
#[test]
fn the_clock_starts_again_from_now() {
    let timed = |time_ms| TurnLimits { time_ms, ..TurnLimits::default() };
    let limits = Limits { turn: timed(Some(50)), ..Limits::default() };
    let mut core = Core::new(made::empty_fold(), limits);
    core.step(1, Input::Opened { recovered: Vec::new() });
    let message = made::message("a", "go");
    let send = Input::Send { message, target: InboxTarget::NextTurn, wake: true };
    let effects = core.step(100, send);
    let clock = effects.iter().find_map(|effect| match effect {
        Effect::WakeAt { op, time: 150 } => Some(*op),
        _ => None,
    });
    let Some(first) = clock else { panic!("no clock in {effects:?}") };

    let effects = core.step(140, Input::UseLimits(timed(Some(50))));
    let [Effect::Abandon { op }, Effect::WakeAt { op: second, time: 190 }] = effects.as_slice()
    else {
        panic!("{effects:?}");
    };
    assert_eq!(*op, first);
    let effects = core.step(145, Input::UseLimits(timed(None)));
    assert!(matches!(effects.as_slice(), [Effect::Abandon { op }] if op == second), "{effects:?}");
    assert!(core.step(190, Input::Woke { op: *second }).is_empty());
    let effects = core.step(200, Input::UseLimits(timed(Some(0))));
    assert!(matches!(effects.as_slice(), [Effect::WakeAt { time: 200, .. }]), "{effects:?}");
}

/// A turn that was begun at 100, and what its first step is assembled for.
fn assembling(limits: Limits) -> (Core, Op) {
    let mut core = Core::new(made::empty_fold(), limits);
    core.step(1, Input::Opened { recovered: Vec::new() });
    let message = made::message("a", "go");
    let send = Input::Send { message, target: InboxTarget::NextTurn, wake: true };
    let effects = core.step(100, send);
    let op = effects.iter().find_map(|effect| match effect {
        Effect::Assemble { op, .. } => Some(*op),
        _ => None,
    });
    let Some(op) = op else { panic!("nothing is assembled in {effects:?}") };
    (core, op)
}

#[test]
fn the_clock_of_a_turn_that_has_gone_on_is_left() {
    let timed = |time_ms| TurnLimits { time_ms, ..TurnLimits::default() };
    let (mut core, op) = assembling(Limits { turn: timed(Some(50)), ..Limits::default() });
    core.step(110, Input::Assembled { op, result: Ok(None) });
    for limits in [timed(None), timed(Some(20))] {
        assert!(core.step(120, Input::UseLimits(limits)).is_empty());
    }
}

#[test]
fn limits_may_come_before_the_session_is_open_and_after_its_end() {
    let mut core = Core::new(made::empty_fold(), Limits::default());
    let none = TurnLimits { steps: Some(0), ..TurnLimits::default() };
    assert!(core.step(1, Input::UseLimits(none)).is_empty());
    core.step(2, Input::Opened { recovered: Vec::new() });
    let message = made::message("a", "go");
    let send = Input::Send { message, target: InboxTarget::NextTurn, wake: true };
    let effects = core.step(3, send);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::AskLimit { value: 0, .. })));
    core.step(4, Input::StoreFailed { message: "no space left".to_owned() });
    assert!(core.step(5, Input::UseLimits(TurnLimits::default())).is_empty());
}

#[test]
fn a_turn_that_a_limit_ends_before_its_first_step_waits_for_the_next_send() {
    check(
        "steps: 0",
        "
        send a go
        limit stop
        limits steps: 1
        send b on
        text ok
        finish stop
        text too
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 limit/reached steps 0
        3 turn/end 1 limit steps
        > flush
        > idle
        4 agent/inbox/spliced next-turn +b
        > running
        5 turn/start 2
        6 step/start 1
        7 user/message a: go -[a]
        8 request/header m Initial
        9 request/context m
        10 request/sent Turn #1 1 items
        > flush
        > start attempt
        11 assistant/chunk #1
        12 assistant/message #1 Stop ok <11
        13 step/end 1
        14 turn/end 2 completed
        > flush
        15 turn/start 3
        16 step/start 1
        17 user/message b: on -[b]
        18 request/sent Turn #1 3 items
        > flush
        > start attempt
        19 assistant/chunk #1
        20 assistant/message #1 Stop too <19
        21 step/end 1
        22 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_time_limit_that_ends_the_assembly_is_tried_again_only_for_what_came_meanwhile() {
    check(
        "time_ms: 5",
        "
        hold assemble
        send a go
        send b on
        woke
        limit stop
        woke
        limit stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-turn +b
        3 limit/reached time 5
        4 turn/end 1 limit time
        > flush
        5 turn/start 2
        6 limit/reached time 5
        7 turn/end 2 limit time
        > flush
        > idle
        ",
    );
}
