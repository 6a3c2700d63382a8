//! Tool calls: order, barriers, pool, refusals.

use super::check;

#[test]
fn results_are_committed_in_the_models_order() {
    check(
        "",
        "
        send a go
        call c1 read
        call c2 read
        finish calls
        prepare ro
        prepare ro
        done c2
        done c1
        text done
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
        11 tool/call c2 read
        > prepare c2
        12 tool/start c2
        > start c2
        13 tool/result c1 ok <9
        14 tool/result c2 ok <11
        15 step/end 1
        16 step/start 2
        17 request/sent Turn #1 4 items
        > flush
        > start attempt
        18 assistant/chunk #1
        19 assistant/message #1 Stop done <18
        20 step/end 2
        21 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_batch_has_one_barrier() {
    check(
        "",
        "
        send a go
        call c1 edit
        call c2 edit
        call c3 read
        finish calls
        prepare rw
        prepare rw
        prepare ro
        done c1
        done c2
        done c3
        reason enough
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
        8 assistant/message #1 ToolCalls (c1 edit) (c2 edit) (c3 read) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/call c2 edit
        > prepare c2
        11 tool/call c3 read
        > prepare c3
        12 tool/start c3
        > start c3
        13 tool/start c1
        14 tool/start c2
        > flush
        > start c1
        > start c2
        15 tool/result c1 ok <9
        16 tool/result c2 ok <10
        17 tool/result c3 ok <11
        18 step/end 1
        19 step/start 2
        20 request/sent Turn #1 5 items
        > flush
        > start attempt
        21 assistant/chunk #1
        22 assistant/message #1 Stop [enough] <21
        23 step/end 2
        24 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn an_exclusive_call_runs_alone() {
    check(
        "",
        "
        send a go
        call c1 edit
        call c2 bash
        call c3 edit
        finish calls
        prepare rw
        prepare needs-alone
        done c1
        prepare exclusive
        done c2
        prepare rw
        done c3
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
        8 assistant/message #1 ToolCalls (c1 edit) (c2 bash) (c3 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/call c2 bash
        > prepare c2
        11 tool/start c1
        > flush
        > start c1
        12 tool/result c1 ok <9
        > prepare c2 alone
        13 tool/start c2
        > flush
        > start c2
        14 tool/result c2 ok <10
        15 tool/call c3 edit
        > prepare c3 alone
        16 tool/start c3
        > flush
        > start c3
        17 tool/result c3 ok <15
        18 step/end 1
        19 step/start 2
        20 request/sent Turn #1 5 items
        > flush
        > start attempt
        21 assistant/chunk #1
        22 assistant/message #1 Stop ok <21
        23 step/end 2
        24 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn the_pool_is_refilled() {
    check(
        "parallel_tools: 1",
        "
        send a go
        call c1 edit
        call c2 edit
        finish calls
        prepare rw
        done c1
        prepare rw
        done c2
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
        8 assistant/message #1 ToolCalls (c1 edit) (c2 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/start c1
        > flush
        > start c1
        11 tool/result c1 ok <9
        12 tool/call c2 edit
        > prepare c2 alone
        13 tool/start c2
        > flush
        > start c2
        14 tool/result c2 ok <12
        15 step/end 1
        16 step/start 2
        17 request/sent Turn #1 4 items
        > flush
        > start attempt
        18 assistant/chunk #1
        19 assistant/message #1 Stop ok <18
        20 step/end 2
        21 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_refused_call_has_a_result() {
    check(
        "",
        "
        send a go
        call c1 nothing
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
        15 assistant/message #1 Stop ok <14
        16 step/end 2
        17 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_second_call_with_one_id_is_not_run() {
    check(
        "",
        "
        send a go
        call c1 read
        call c1 read
        call - read
        finish stop
        prepare ro
        prepare ro
        done c1
        done call-2
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
        8 assistant/message #1 ToolCalls (c1 read) (c1-2 read) (call-2 read) <7
        9 tool/call c1 read
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 tool/call c1-2 read
        12 tool/call call-2 read
        > prepare call-2
        13 tool/start call-2
        > start call-2
        14 tool/result c1 ok <9
        15 tool/result c1-2 DUPLICATE_CALL_ID <11
        16 tool/result call-2 ok <12
        17 step/end 1
        18 step/start 2
        19 request/sent Turn #1 5 items
        > flush
        > start attempt
        20 assistant/chunk #1
        21 assistant/message #1 Stop ok <20
        22 step/end 2
        23 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_concluding_result_ends_the_turn() {
    check(
        "",
        "
        send a go
        call c1 finish
        finish calls
        prepare ro
        done c1 concludes
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
        8 assistant/message #1 ToolCalls (c1 finish) <7
        9 tool/call c1 finish
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 tool/result c1 ok <9
        12 step/end 1
        13 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_concluding_result_with_steering_goes_on() {
    check(
        "",
        "
        send a go
        call c1 finish
        finish calls
        prepare ro
        steer b also
        done c1 concludes
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
        8 assistant/message #1 ToolCalls (c1 finish) <7
        9 tool/call c1 finish
        > prepare c1 alone
        10 tool/start c1
        > start c1
        11 agent/inbox/spliced next-step +b
        12 tool/result c1 ok <9
        13 step/end 1
        14 step/start 2
        15 user/message b: also -[b]
        16 request/sent Turn #1 4 items
        > flush
        > start attempt
        17 assistant/chunk #1
        18 assistant/message #1 Stop ok <17
        19 step/end 2
        20 turn/end 1 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn contexts_follow_all_results() {
    check(
        "",
        "
        send a go
        call c1 read
        call c2 read
        finish calls
        prepare ro
        prepare ro
        done c1 context x
        done c2
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
        11 tool/call c2 read
        > prepare c2
        12 tool/start c2
        > start c2
        13 tool/result c1 ok <9
        14 tool/result c2 ok <11
        15 agent/inbox/spliced next-step +x
        16 step/end 1
        17 step/start 2
        18 user/message x: context -[x]
        19 request/sent Turn #1 5 items
        > flush
        > start attempt
        20 assistant/chunk #1
        21 assistant/message #1 Stop ok <20
        22 step/end 2
        23 turn/end 1 completed
        > flush
        > idle
        ",
    );
}
