//! Crashes and failing disks.

use super::check;

#[test]
fn repair_tells_what_started() {
    check(
        "",
        "
        send a go
        call c1 edit
        call c2 edit
        call c3 edit
        finish calls
        prepare rw
        prepare rw
        hold flush
        prepare needs-alone
        crash
        release flush
        send b go on
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
        8 assistant/message #1 ToolCalls (c1 edit) (c2 edit) (c3 edit) <7
        9 tool/call c1 edit
        > prepare c1 alone
        10 tool/call c2 edit
        > prepare c2
        11 tool/call c3 edit
        > prepare c3
        12 tool/start c1
        13 tool/start c2
        > flush
        > crash
        14 tool/result c1 TOOL_OUTCOME_UNKNOWN <9,12
        15 tool/result c2 TOOL_OUTCOME_UNKNOWN <10,13
        16 tool/result c3 TOOL_NOT_STARTED <11
        17 step/end 1
        18 turn/end 1 interrupted
        19 session/repaired 1 unknown [c1, c2] not started [c3]
        > idle
        20 agent/inbox/spliced next-turn +b
        > running
        21 turn/start 2
        22 step/start 1
        23 user/message b: go on -[b]
        24 request/sent Turn #1 6 items
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
fn repair_after_a_crash_in_the_stream() {
    check(
        "",
        "
        send a go
        queue b later
        text half
        arrive
        crash
        send c go on
        text ok
        finish stop
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
        > crash
        9 step/end 1
        10 turn/end 1 interrupted
        11 session/repaired 1 unknown [] not started []
        > idle
        12 agent/inbox/spliced next-turn +c
        > running
        13 turn/start 2
        14 step/start 1
        15 user/message b: later -[b]
        16 request/sent Turn #1 2 items
        > flush
        > start attempt
        17 assistant/chunk #1
        18 assistant/message #1 Stop ok <17
        19 step/end 1
        20 turn/end 2 completed
        > flush
        21 turn/start 3
        22 step/start 1
        23 user/message c: go on -[c]
        24 request/sent Turn #1 4 items
        > flush
        > start attempt
        25 assistant/chunk #1
        26 assistant/message #1 Stop ok <25
        27 step/end 1
        28 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn repair_of_a_turn_without_a_step() {
    check(
        "",
        "
        send a go
        crash 2
        send b also
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
        > crash
        2 turn/end 1 interrupted
        3 session/repaired 1 unknown [] not started []
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
        12 assistant/message #1 Stop x <11
        13 step/end 1
        14 turn/end 2 completed
        > flush
        15 turn/start 3
        16 step/start 1
        17 user/message b: also -[b]
        18 request/sent Turn #1 3 items
        > flush
        > start attempt
        19 assistant/chunk #1
        20 assistant/message #1 Stop y <19
        21 step/end 1
        22 turn/end 3 completed
        > flush
        > idle
        ",
    );
}

#[test]
fn a_failing_disk_ends_the_agent() {
    check(
        "",
        "
        hold flush
        send a go
        disk-fails
        send b more
        edit clear
        commit test/note
        cancel user
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
        > dead
        > refused: the session ended: no space; open it again
        > refused: the session ended: no space; open it again
        > refused: the session ended: no space; open it again
        ",
    );
}
