//! Cancels and limits.

use super::check;

#[test]
fn cancel_keeps_what_had_arrived() {
    check(
        "",
        "
        send a go
        reason hm
        text partial
        arrive
        cancel user
        send b again
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
        > cancelling
        > stop attempt
        8 assistant/message #1 Aborted [hm] partial <7
        9 step/end 1
        10 turn/end 1 aborted by User
        11 agent/inbox/spliced next-step +s/11
        > flush
        > idle
        12 agent/inbox/spliced next-turn +b
        > running
        13 turn/start 2
        14 step/start 1
        15 user/message s/11: The user interrupted the previ -[s/11]
        16 user/message b: again -[b]
        17 request/sent Turn #1 4 items
        > flush
        > start attempt
        18 assistant/chunk #1
        19 assistant/message #1 Stop ok <18
        20 step/end 1
        21 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_before_any_text() {
    check(
        "",
        "
        send a go
        call c1 edit
        arrive
        cancel parent
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
        > cancelling
        > stop attempt
        8 assistant/attempt #1 ABORTED <7
        9 step/end 1
        10 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_while_tools_run() {
    check(
        "",
        "
        send a go
        call c1 edit
        call c2 edit
        call c3 bash
        finish calls
        prepare rw
        prepare rw
        prepare needs-alone
        queue b later
        cancel user keep
        done c2 error
        done c1
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
        8 assistant/message #1 ToolCalls (c1 edit) (c2 edit) (c3 bash) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/call c2 edit
        > prepare c2
        11 tool/call c3 bash
        > prepare c3
        12 tool/start c1
        13 tool/start c2
        > flush
        > start c1
        > start c2
        14 agent/inbox/spliced next-turn +b
        > cancelling
        > stop c1
        > stop c2
        15 tool/result c1 ok <9
        16 tool/result c2 FAILED <10
        17 tool/result c3 ABORTED_BEFORE_DISPATCH <11
        18 step/end 1
        19 turn/end 1 aborted by User
        20 agent/inbox/spliced next-step +s/20
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_before_the_barrier_of_a_batch() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish calls
        hold flush
        prepare rw
        cancel parent
        release flush
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
        8 assistant/message #1 ToolCalls (c1 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > cancelling
        11 tool/result c1 ABORTED_BEFORE_DISPATCH <9
        12 step/end 1
        13 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn the_first_cause_wins() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish calls
        prepare rw
        cancel lint keep
        cancel user keep
        done c1
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
        8 assistant/message #1 ToolCalls (c1 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > start c1
        > cancelling
        > stop c1
        11 tool/result c1 ok <9
        12 step/end 1
        13 turn/end 1 aborted by lint
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_gives_a_claim_back() {
    check(
        "",
        "
        hold pre-step
        send a go
        cancel user keep
        release pre-step
        send b more
        text one
        finish stop
        text two
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        > cancelling
        2 turn/end 1 aborted by User
        > flush
        > idle
        3 agent/inbox/spliced next-turn +b
        > running
        4 turn/start 2
        5 step/start 1
        6 user/message a: go -[a]
        7 request/header m Initial
        8 request/context m
        9 request/sent Turn #1 1 items
        > flush
        > start attempt
        10 assistant/chunk #1
        11 assistant/message #1 Stop one <10
        12 step/end 1
        13 turn/end 2 completed
        > flush
        14 turn/start 3
        15 step/start 1
        16 user/message b: more -[b]
        17 request/sent Turn #1 3 items
        > flush
        > start attempt
        18 assistant/chunk #1
        19 assistant/message #1 Stop two <18
        20 step/end 1
        21 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_clears_what_is_claimed_and_what_waits() {
    check(
        "",
        "
        hold pre-step
        send a go
        queue b more
        inject c aside
        cancel user
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-turn +b
        3 agent/inbox/spliced next-step +c
        > cancelling
        4 agent/inbox/spliced next-step -c canceled
        5 agent/inbox/spliced next-turn -a -b canceled
        6 turn/end 1 aborted by User
        > flush
        > idle
        ",
    );
}

#[test]
fn a_wake_during_a_cancel_is_kept() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish calls
        prepare rw
        cancel user
        steer b instead
        done c1
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
        8 assistant/message #1 ToolCalls (c1 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > start c1
        > cancelling
        > stop c1
        11 agent/inbox/spliced next-turn +b
        12 tool/result c1 ok <9
        13 step/end 1
        14 turn/end 1 aborted by User
        15 agent/inbox/spliced next-step +s/15
        > flush
        > running
        16 turn/start 2
        17 step/start 1
        18 user/message s/15: The user interrupted the previ -[s/15]
        19 user/message b: instead -[b]
        20 request/sent Turn #1 5 items
        > flush
        > start attempt
        21 assistant/chunk #1
        22 assistant/message #1 Stop ok <21
        23 step/end 1
        24 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_wake_that_is_taken_back_opens_no_turn() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish calls
        prepare rw
        cancel user
        send b instead
        edit remove b
        done c1
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
        8 assistant/message #1 ToolCalls (c1 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > start c1
        > cancelling
        > stop c1
        11 agent/inbox/spliced next-turn +b
        12 agent/inbox/spliced next-turn -b canceled
        13 tool/result c1 ok <9
        14 step/end 1
        15 turn/end 1 aborted by User
        16 agent/inbox/spliced next-step +s/16
        > flush
        > idle
        ",
    );
}

#[test]
fn a_wake_after_disposal_waits() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish calls
        prepare rw
        cancel disposed
        send b instead
        done c1
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
        8 assistant/message #1 ToolCalls (c1 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > start c1
        > cancelling
        > stop c1
        11 agent/inbox/spliced next-turn +b
        12 tool/result c1 ok <9
        13 step/end 1
        14 turn/end 1 aborted by Disposed
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_when_idle_clears_the_inbox() {
    check(
        "",
        "
        inject a fact
        cancel user
        send b go
        text ok
        finish stop
        ",
        "
        0 agent/inbox/spliced next-step +a
        1 agent/inbox/spliced next-step -a canceled
        2 agent/inbox/spliced next-turn +b
        > running
        3 turn/start 1
        4 step/start 1
        5 user/message b: go -[b]
        6 request/header m Initial
        7 request/context m
        8 request/sent Turn #1 1 items
        > flush
        > start attempt
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
fn the_step_limit_is_extended_then_stops() {
    check(
        "steps: 1",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        done c1
        limit extend 1
        call c2 read
        finish calls
        prepare ro
        done c2
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
        8 assistant/message #1 ToolCalls (c1 read) <7
        9 tool/call c1 read
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 tool/result c1 ok <9
        12 step/end 1
        13 limit/reached steps 1
        14 step/start 2
        15 request/sent Turn #1 3 items
        > flush
        > start attempt
        16 assistant/chunk #1
        17 assistant/message #1 ToolCalls (c2 read) <16
        18 tool/call c2 read
        > prepare c2 alone
        19 tool/start c2
        > start c2
        20 tool/result c2 ok <18
        21 step/end 2
        22 limit/reached steps 2
        23 turn/end 1 limit steps
        > flush
        > idle
        ",
    );
}

#[test]
fn the_call_limit_answers_what_is_left() {
    check(
        "tool_calls: 1",
        "
        send a go
        call c1 read
        call c2 read
        finish calls
        prepare ro
        limit stop
        done c1
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
        > stop c1
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
fn the_call_limit_is_extended() {
    check(
        "tool_calls: 1",
        "
        send a go
        call c1 read
        call c2 read
        finish calls
        prepare ro
        limit extend 1
        prepare ro
        done c2
        done c1
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
        8 assistant/message #1 ToolCalls (c1 read) (c2 read) <7
        9 tool/call c1 read
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 limit/reached tool-calls 1
        12 tool/call c2 read
        > prepare c2
        13 tool/start c2
        > start c2
        14 tool/result c1 ok <9
        15 tool/result c2 ok <12
        16 step/end 1
        17 step/start 2
        18 request/sent Turn #1 4 items
        > flush
        > start attempt
        19 assistant/chunk #1
        20 assistant/message #1 Stop ok <19
        21 step/end 2
        22 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn the_time_limit_stops_the_stream() {
    check(
        "time_ms: 50",
        "
        send a go
        queue b later
        text partial
        arrive
        woke
        limit stop
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
        9 limit/reached time 50
        > stop attempt
        10 assistant/message #1 Aborted partial <8
        11 step/end 1
        12 turn/end 1 limit time
        > flush
        13 turn/start 2
        14 step/start 1
        15 user/message b: later -[b]
        16 request/sent Turn #1 3 items
        > flush
        > start attempt
        17 assistant/chunk #1
        18 assistant/message #1 Stop ok <17
        19 step/end 1
        20 turn/end 2 completed
        > flush
        > idle
        ",
    );
}
