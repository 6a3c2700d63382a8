//! Answers, retries, cut answers.

use super::check;

#[test]
fn a_plain_answer() {
    check(
        "",
        "
        send a hello
        text hi
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: hello -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 assistant/chunk #1
        8 assistant/message #1 Stop hi <7
        9 step/end 1
        10 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_second_prompt_waits_for_its_own_turn() {
    check(
        "",
        "
        send a one
        send b two
        text x
        finish stop
        text y
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message a: one -[a]
        4 request/header m Initial
        5 request/context m
        6 request/sent Turn #1 1 items
        > flush
        > start attempt
        7 agent/inbox/spliced next-turn +b
        8 assistant/chunk #1
        9 assistant/message #1 Stop x <8
        10 step/end 1
        11 turn/end 1 completed
        > flush
        12 turn/start 2
        13 step/start 1
        14 user/message b: two -[b]
        15 request/sent Turn #1 3 items
        > flush
        > start attempt
        16 assistant/chunk #1
        17 assistant/message #1 Stop y <16
        18 step/end 1
        19 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_failed_attempt_is_repeated_in_its_step() {
    check(
        "",
        "
        send a go
        text half
        fail SERVER
        retry 100
        woke
        text whole
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
        8 assistant/attempt #1 SERVER <7
        9 llm/retry 1 in 100 ms after SERVER
        10 llm/retry-started 1
        11 request/sent Turn #2 1 items
        > flush
        > start attempt
        12 assistant/chunk #2
        13 assistant/message #2 Stop whole <12
        14 step/end 1
        15 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn giving_up_ends_the_turn_and_parks_the_rest() {
    check(
        "",
        "
        send a go
        queue b later
        fail AUTH
        give-up
        send c next
        text x
        finish stop
        text y
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
        8 assistant/attempt #1 AUTH
        9 step/end 1
        10 turn/end 1 error AUTH
        > flush
        > idle
        11 agent/inbox/spliced next-turn +c
        > running
        12 turn/start 2
        13 step/start 1
        14 user/message b: later -[b]
        15 request/sent Turn #1 2 items
        > flush
        > start attempt
        16 assistant/chunk #1
        17 assistant/message #1 Stop x <16
        18 step/end 1
        19 turn/end 2 completed
        > flush
        20 turn/start 3
        21 step/start 1
        22 user/message c: next -[c]
        23 request/sent Turn #1 4 items
        > flush
        > start attempt
        24 assistant/chunk #1
        25 assistant/message #1 Stop y <24
        26 step/end 1
        27 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_aborted_attempt_is_not_repeated() {
    check(
        "",
        "
        send a go
        fail ABORTED
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
        7 assistant/attempt #1 ABORTED
        8 step/end 1
        9 turn/end 1 error ABORTED
        > flush
        > idle
        ",
    );
}

#[test]
fn an_empty_answer_is_a_failure() {
    check(
        "",
        "
        send a go
        finish stop
        retry 5
        woke
        finish stop
        give-up
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
        7 assistant/attempt #1 EMPTY_RESPONSE
        8 llm/retry 1 in 5 ms after EMPTY_RESPONSE
        9 llm/retry-started 1
        10 request/sent Turn #2 1 items
        > flush
        > start attempt
        11 assistant/attempt #2 EMPTY_RESPONSE
        12 step/end 1
        13 turn/end 1 error EMPTY_RESPONSE
        > flush
        > idle
        ",
    );
}

#[test]
fn a_cut_answer_runs_no_call_and_continues_once() {
    check(
        "",
        "
        send a go
        text part
        call c1 edit
        finish cut
        text more
        finish cut
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
        13 assistant/chunk #1
        14 assistant/message #1 MaxTokens more <13
        15 step/end 2
        16 turn/end 1 max-tokens
        > flush
        > idle
        ",
    );
}

#[test]
fn a_cut_answer_with_nothing_left() {
    check(
        "",
        "
        send a go
        call c1 edit
        finish cut
        text short
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
        8 assistant/attempt #1 MAX_TOKENS <7
        9 step/end 1
        10 step/start 2
        11 user/message s/9: Your last answer was cut off a -[]
        12 request/sent Turn #1 2 items
        > flush
        > start attempt
        13 assistant/chunk #1
        14 assistant/message #1 Stop short <13
        15 step/end 2
        16 turn/end 1 completed
        > flush
        > idle
        ",
    );
}
