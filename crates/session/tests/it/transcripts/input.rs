//! Input: claims, pre-step decisions, queue edits, refusals, commits.

use super::check;

#[test]
fn a_rejected_prompt_parks_the_others() {
    check(
        "",
        "
        hold pre-step
        send a bad
        queue b good
        reject
        release pre-step
        steer c now
        text x
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-turn +b
        3 agent/inbox/spliced next-turn -a rejected
        4 turn/end 1 blocked
        > flush
        > idle
        5 agent/inbox/spliced next-step +c
        > running
        6 turn/start 2
        7 step/start 1
        8 user/message c: now -[c]
        9 user/message b: good -[b]
        10 request/header m Initial
        11 request/context m
        12 request/sent Turn #1 2 items
        > flush
        > start attempt
        13 assistant/chunk #1
        14 assistant/message #1 Stop x <13
        15 step/end 1
        16 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn rejecting_a_later_step_blocks_the_turn() {
    check(
        "",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        hold pre-step
        steer b wait
        done c1
        reject
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
        11 agent/inbox/spliced next-step +b
        12 tool/result c1 ok <9
        13 step/end 1
        14 agent/inbox/spliced next-step -b rejected
        15 turn/end 1 blocked
        > flush
        > idle
        ",
    );
}

#[test]
fn an_empty_first_proposal_completes() {
    check(
        "",
        "
        hold pre-step
        send a go
        queue b later
        enter-nothing
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-turn +b
        3 agent/inbox/spliced next-turn -a dropped
        4 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_empty_proposal_with_results_owed_opens_the_step() {
    check(
        "",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        hold pre-step
        done c1
        enter-nothing
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
        12 step/end 1
        13 step/start 2
        14 request/sent Turn #1 3 items
        > flush
        > start attempt
        15 assistant/chunk #1
        16 assistant/message #1 Stop ok <15
        17 step/end 2
        18 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_empty_proposal_with_nothing_owed_closes() {
    check(
        "",
        "
        send a go
        hold pre-step
        inject b fact
        text ok
        finish stop
        enter-nothing
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
        7 agent/inbox/spliced next-step +b
        8 assistant/chunk #1
        9 assistant/message #1 Stop ok <8
        10 step/end 1
        11 agent/inbox/spliced next-step -b dropped
        12 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn input_that_a_layer_rewrites_is_dropped() {
    check(
        "",
        "
        hold pre-step
        send a go
        enter z
        text ok
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 step/start 1
        3 user/message z: rewritten -[]
        4 agent/inbox/spliced next-turn -a dropped
        5 request/header m Initial
        6 request/context m
        7 request/sent Turn #1 1 items
        > flush
        > start attempt
        8 assistant/chunk #1
        9 assistant/message #1 Stop ok <8
        10 step/end 1
        11 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_invalid_entry_ends_the_turn_and_loses_nothing() {
    check(
        "",
        "
        hold pre-step
        send a go
        enter a
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 turn/end 1 error INVALID_ENTRY
        > flush
        > idle
        ",
    );
}

#[test]
fn a_failed_assembly_loses_nothing() {
    check(
        "",
        "
        hold assemble
        send a go
        assembly-fails
        release assemble
        send b again
        text x
        finish stop
        text y
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 turn/end 1 error INVALID_REQUEST
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
        11 assistant/message #1 Stop x <10
        12 step/end 1
        13 turn/end 2 completed
        > flush
        14 turn/start 3
        15 step/start 1
        16 user/message b: again -[b]
        17 request/sent Turn #1 3 items
        > flush
        > start attempt
        18 assistant/chunk #1
        19 assistant/message #1 Stop y <18
        20 step/end 1
        21 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn steering_joins_the_next_step() {
    check(
        "",
        "
        send a go
        steer b also
        text one
        finish stop
        text two
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
        7 agent/inbox/spliced next-step +b
        8 assistant/chunk #1
        9 assistant/message #1 Stop one <8
        10 step/end 1
        11 step/start 2
        12 user/message b: also -[b]
        13 request/sent Turn #1 3 items
        > flush
        > start attempt
        14 assistant/chunk #1
        15 assistant/message #1 Stop two <14
        16 step/end 2
        17 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn input_during_pre_step_joins_the_next_step() {
    check(
        "",
        "
        hold pre-step
        send a go
        steer b also
        release pre-step
        text one
        finish stop
        text two
        finish stop
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-step +b
        3 step/start 1
        4 user/message a: go -[a]
        5 request/header m Initial
        6 request/context m
        7 request/sent Turn #1 1 items
        > flush
        > start attempt
        8 assistant/chunk #1
        9 assistant/message #1 Stop one <8
        10 step/end 1
        11 step/start 2
        12 user/message b: also -[b]
        13 request/sent Turn #1 3 items
        > flush
        > start attempt
        14 assistant/chunk #1
        15 assistant/message #1 Stop two <14
        16 step/end 2
        17 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn queue_edits() {
    check(
        "",
        "
        queue a one
        queue b two
        inject c three
        edit to-step b
        edit replace a a2
        edit to-turn c
        edit remove b
        edit remove b
        edit clear
        ",
        "
        0 agent/inbox/spliced next-turn +a
        1 agent/inbox/spliced next-turn +b
        2 agent/inbox/spliced next-step +c
        3 agent/inbox/spliced next-step -b +b
        4 agent/inbox/spliced next-turn -a +a2 canceled
        5 agent/inbox/spliced next-turn -c +c
        6 agent/inbox/spliced next-step -b canceled
        > refused: message `b` is not waiting
        7 agent/inbox/spliced next-turn -c -a2 canceled
        ",
    );
}

#[test]
fn a_claimed_message_is_out_of_reach() {
    check(
        "",
        "
        hold pre-step
        send a go
        queue b later
        edit remove a
        edit replace a z
        edit clear
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > running
        1 turn/start 1
        2 agent/inbox/spliced next-turn +b
        > refused: message `a` was already taken by the running turn
        > refused: message `a` was already taken by the running turn
        3 agent/inbox/spliced next-turn -b canceled
        ",
    );
}

#[test]
fn refused_input() {
    check(
        "inbox: 1",
        "
        queue a one
        queue b two
        edit remove a
        queue a again
        queue c
        ",
        "
        0 agent/inbox/spliced next-turn +a
        > refused: 1 messages wait already and the limit is 1; remove some or wait for the agent
        1 agent/inbox/spliced next-turn -a canceled
        > refused: message id `a` was used before
        > refused: message `c` is not taken: the message is empty
        ",
    );
}

#[test]
fn commits_are_refused_with_a_reason() {
    check(
        "",
        "
        commit test/note
        commit test/other
        commit turn/start
        ",
        "
        0 test/note
        > refused: event type `test/other` is not registered; a plugin registers its types by name and version
        > refused: only the loop itself writes `turn/start`; a plugin may replace a span
        ",
    );
}

#[test]
fn a_summary_in_place_of_a_span() {
    check(
        "",
        "
        send a go
        call c1 read
        finish calls
        prepare ro
        done c1
        text ok
        finish stop
        commit summary 3 8
        commit summary 3 9
        commit summary 3 11
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
        12 step/end 1
        13 step/start 2
        14 request/sent Turn #1 3 items
        > flush
        > start attempt
        15 assistant/chunk #1
        16 assistant/message #1 Stop ok <15
        17 step/end 2
        18 turn/end 1 completed
        > flush
        > idle
        > refused: event 19 `user/message`: the span separates a call from its result
        > refused: event 19 `user/message`: event 9 is not on the surface
        19 user/message sum: summary -[] replaces 3..11 <3-11
        20 agent/inbox/spliced next-turn +b
        > running
        21 turn/start 2
        22 step/start 1
        23 user/message b: on -[b]
        24 request/sent Turn #1 3 items
        > flush
        > start attempt
        25 assistant/chunk #1
        26 assistant/message #1 Stop ok <25
        27 step/end 1
        28 turn/end 2 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_replace_while_rendering_renders_again() {
    check(
        "",
        "
        send a go
        text ok
        finish stop
        hold render
        send b on
        commit summary 3 8
        release render
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
        > idle
        11 agent/inbox/spliced next-turn +b
        > running
        12 turn/start 2
        13 step/start 1
        14 user/message b: on -[b]
        15 user/message sum: summary -[] replaces 3..8 <3-8
        16 request/sent Turn #1 2 items
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
