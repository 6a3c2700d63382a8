//! Moments between: a wake, a cancel or a limit while something else is on its way.

use super::check;

#[test]
fn contexts_of_a_cancelled_turn_are_parked() {
    check(
        "",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        cancel parent
        done c1 context x
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
        > cancelling
        > stop c1
        11 tool/result c1 ok <9
        12 agent/inbox/spliced next-step +x
        13 step/end 1
        14 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn steering_while_a_turn_is_being_closed_opens_the_next() {
    check(
        "",
        "
        hold flush
        send a go
        release flush
        text ok
        hold flush
        finish stop
        steer b more
        release flush
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
        8 assistant/message #1 Stop ok <7
        9 step/end 1
        10 turn/end 1 completed
        > flush
        11 agent/inbox/spliced next-step +b
        12 turn/start 2
        13 step/start 1
        14 user/message b: more -[b]
        15 request/sent Turn #1 3 items
        > flush
        > start attempt
        16 assistant/chunk #1
        17 assistant/message #1 Stop ok <16
        18 step/end 1
        19 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_injection_while_a_turn_is_being_closed_waits() {
    check(
        "",
        "
        send a go
        text ok
        hold flush
        finish stop
        inject b fact
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
        8 assistant/message #1 Stop ok <7
        9 step/end 1
        10 turn/end 1 completed
        > flush
        11 agent/inbox/spliced next-step +b
        > idle
        ",
    );
}

#[test]
fn steering_before_a_second_cut_opens_the_next_turn() {
    check(
        "",
        "
        send a go
        text part
        finish cut
        steer b also
        text part
        finish cut
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
        8 assistant/message #1 MaxTokens part <7
        9 step/end 1
        10 step/start 2
        11 user/message s/9: Your last answer was cut off a -[]
        12 request/sent Turn #1 3 items
        > flush
        > start attempt
        13 agent/inbox/spliced next-step +b
        14 assistant/chunk #1
        15 assistant/message #1 MaxTokens part <14
        16 step/end 2
        17 turn/end 1 max-tokens
        > flush
        18 turn/start 2
        19 step/start 1
        20 user/message b: also -[b]
        21 request/sent Turn #1 5 items
        > flush
        > start attempt
        22 assistant/chunk #1
        23 assistant/message #1 Stop ok <22
        24 step/end 1
        25 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_while_stopping() {
    check(
        "",
        "
        hold stop
        send a go
        text ok
        finish stop
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
        8 assistant/message #1 Stop ok <7
        9 step/end 1
        > cancelling
        10 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_of_a_turn_that_has_ended_parks_the_rest() {
    check(
        "",
        "
        send a go
        queue b later
        text ok
        hold flush
        finish stop
        cancel user keep
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
        7 agent/inbox/spliced next-turn +b
        8 assistant/chunk #1
        9 assistant/message #1 Stop ok <8
        10 step/end 1
        11 turn/end 1 completed
        > flush
        > cancelling
        > idle
        ",
    );
}

#[test]
fn cancel_while_a_retry_waits() {
    check(
        "",
        "
        send a go
        fail SERVER
        retry 1000
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
        7 assistant/attempt #1 SERVER
        8 llm/retry 1 in 1000 ms after SERVER
        > cancelling
        9 step/end 1
        10 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn cancel_before_the_request_leaves() {
    check(
        "",
        "
        hold flush
        send a go
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
        > cancelling
        7 step/end 1
        8 turn/end 1 aborted by Parent
        > flush
        > idle
        ",
    );
}

#[test]
fn the_time_limit_is_extended() {
    check(
        "time_ms: 50",
        "
        send a go
        woke
        limit extend 20
        text ok
        woke
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
        7 limit/reached time 50
        8 limit/reached time 70
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
fn a_limit_leaves_contexts_for_the_next_wake() {
    check(
        "steps: 1",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        done c1 context x
        limit stop
        send b on
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
        8 assistant/message #1 ToolCalls (c1 read) <7
        9 tool/call c1 read
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 tool/result c1 ok <9
        12 agent/inbox/spliced next-step +x
        13 step/end 1
        14 limit/reached steps 1
        15 turn/end 1 limit steps
        > flush
        > idle
        16 agent/inbox/spliced next-turn +b
        > running
        17 turn/start 2
        18 step/start 1
        19 user/message x: context -[x]
        20 user/message b: on -[b]
        21 request/sent Turn #1 5 items
        > flush
        > start attempt
        22 assistant/chunk #1
        23 assistant/message #1 Stop ok <22
        24 step/end 1
        25 turn/end 2 completed
        > flush
        > idle
        ",
    );
}
