//! Rows: statuses, broken connections, silence, no server.

use std::time::Duration;

use reins_testkit::{Acts, At, Fault};

use super::{Row, Server, append, done};

/// Longer than anybody waits.
const LONG: Duration = Duration::from_secs(600);
const QUOTA: &str = r#"{"error":{"message":"You exceeded your current quota"}}"#;
const TOO_LONG: &str = r#"{"error":{"message":"The maximum context length is 131072 tokens"}}"#;

fn refused(acts: Acts, status: u16, body: &str) -> Acts {
    acts.fault(Fault::status(status, &Default::default(), Some(body.to_owned())).unwrap())
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "401",
        server: Server::There,
        acts: |acts| acts.status(401, &[]),
        attempts: 1,
        exit: 3,
        code: "AUTH",
        events: &["step sent failed:AUTH", "end:error"],
        says: "DEEPSEEK_API_KEY",
        ran: "",
    },
    Row {
        name: "403",
        server: Server::There,
        acts: |acts| acts.status(403, &[]),
        attempts: 1,
        exit: 3,
        code: "AUTH",
        events: &["step sent failed:AUTH", "end:error"],
        says: "DEEPSEEK_API_KEY",
        ran: "",
    },
    Row {
        name: "402",
        server: Server::There,
        acts: |acts| acts.status(402, &[]),
        attempts: 1,
        exit: 3,
        code: "QUOTA",
        events: &["step sent failed:QUOTA", "end:error"],
        says: "balance or quota is used up",
        ran: "",
    },
    Row {
        name: "429 that speaks of a quota",
        server: Server::There,
        acts: |acts| refused(acts, 429, QUOTA),
        attempts: 1,
        exit: 3,
        code: "QUOTA",
        events: &["step sent failed:QUOTA", "end:error"],
        says: "You exceeded your current quota",
        ran: "",
    },
    Row {
        name: "429, a short wait",
        server: Server::There,
        acts: |acts| done(acts.status(429, &[("retry-after", "1")])),
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:RATE_LIMIT", "retry:1000ms sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "429 without a wish",
        server: Server::There,
        acts: |acts| done(acts.status(429, &[])),
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:RATE_LIMIT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "429 for ever",
        server: Server::There,
        acts: |acts| acts.status(429, &[]).forever(),
        attempts: 3,
        exit: 3,
        code: "RATE_LIMIT",
        events: &[
            "step sent failed:RATE_LIMIT",
            "retry sent failed:RATE_LIMIT",
            "retry sent failed:RATE_LIMIT",
            "end:error",
        ],
        says: "HTTP 429",
        ran: "",
    },
    Row {
        name: "429, a very long wait",
        server: Server::There,
        acts: |acts| acts.status(429, &[("retry-after", "1500000")]),
        attempts: 1,
        exit: 3,
        code: "RATE_LIMIT",
        events: &["step sent failed:RATE_LIMIT", "end:error"],
        says: "asks to wait 417 h",
        ran: "",
    },
    Row {
        name: "500 twice",
        server: Server::There,
        acts: |acts| done(acts.status(500, &[]).times(2)),
        attempts: 3,
        exit: 0,
        code: "",
        events: &[
            "step sent failed:SERVER",
            "retry sent failed:SERVER",
            "retry sent answer",
            "end:completed",
        ],
        says: "done",
        ran: "",
    },
    Row {
        name: "500 for ever",
        server: Server::There,
        acts: |acts| acts.status(500, &[]).forever(),
        attempts: 3,
        exit: 3,
        code: "SERVER",
        events: &[
            "step sent failed:SERVER",
            "retry sent failed:SERVER",
            "retry sent failed:SERVER",
            "end:error",
        ],
        says: "HTTP 500",
        ran: "",
    },
    Row {
        name: "503",
        server: Server::There,
        acts: |acts| acts.status(503, &[]).forever(),
        attempts: 3,
        exit: 3,
        code: "OVERLOADED",
        events: &[
            "step sent failed:OVERLOADED",
            "retry sent failed:OVERLOADED",
            "retry sent failed:OVERLOADED",
            "end:error",
        ],
        says: "HTTP 503",
        ran: "",
    },
    Row {
        name: "529",
        server: Server::There,
        acts: |acts| acts.status(529, &[]).forever(),
        attempts: 3,
        exit: 3,
        code: "OVERLOADED",
        events: &[
            "step sent failed:OVERLOADED",
            "retry sent failed:OVERLOADED",
            "retry sent failed:OVERLOADED",
            "end:error",
        ],
        says: "HTTP 529",
        ran: "",
    },
    Row {
        name: "404",
        server: Server::There,
        acts: |acts| acts.status(404, &[]),
        attempts: 1,
        exit: 3,
        code: "INVALID_REQUEST",
        events: &["step sent failed:INVALID_REQUEST", "end:error"],
        says: "no such path or model `deepseek-v4-flash`",
        ran: "",
    },
    Row {
        name: "the request is too long",
        server: Server::There,
        acts: |acts| refused(acts, 400, TOO_LONG),
        attempts: 1,
        exit: 7,
        code: "CONTEXT_WINDOW_EXCEEDED",
        events: &["step sent failed:CONTEXT_WINDOW_EXCEEDED", "end:error"],
        says: "maximum context length",
        ran: "",
    },
    Row {
        name: "cut before the head",
        server: Server::There,
        acts: |acts| done(acts.text("lost").fault(Fault::Cut(At::Head))),
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TRANSPORT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "cut before the text",
        server: Server::There,
        acts: |acts| done(acts.text("lost").fault(Fault::Cut(At::Start))),
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TRANSPORT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "cut inside the text",
        server: Server::There,
        acts: |acts| done(acts.text("lost").fault(Fault::Cut(At::Text))),
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TRANSPORT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "cut after the text",
        server: Server::There,
        acts: |acts| acts.text("lost").fault(Fault::Cut(At::AfterText)).forever(),
        attempts: 3,
        exit: 3,
        code: "TRANSPORT",
        events: &[
            "step sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "end:error",
        ],
        says: "127.0.0.1",
        ran: "",
    },
    Row {
        name: "reset inside arguments",
        server: Server::There,
        acts: |acts| {
            done(acts.text("lost").call("bash", append("half")).fault(Fault::Reset(At::Arguments)))
        },
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TRANSPORT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "reset inside arguments, then the whole call",
        server: Server::There,
        acts: |acts| {
            done(
                acts.text("Hello")
                    .call("bash", append("half"))
                    .fault(Fault::Reset(At::Arguments))
                    .then()
                    .text("Hello")
                    .call("bash", append("whole")),
            )
        },
        attempts: 3,
        exit: 0,
        code: "",
        events: &[
            "step sent failed:TRANSPORT",
            "retry sent answer",
            "call start result",
            "step sent answer",
            "end:completed",
        ],
        says: "done",
        ran: "whole\n",
    },
    Row {
        name: "silence before the head",
        server: Server::Watched,
        acts: |acts| {
            done(acts.text("lost").call("bash", append("half")).fault(Fault::Stall(At::Head, LONG)))
        },
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TIMEOUT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "silence after the head",
        server: Server::Watched,
        acts: |acts| {
            done(
                acts.text("lost").call("bash", append("half")).fault(Fault::Stall(At::Start, LONG)),
            )
        },
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TIMEOUT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "silence inside the text",
        server: Server::Watched,
        acts: |acts| {
            done(acts.text("lost").call("bash", append("half")).fault(Fault::Stall(At::Text, LONG)))
        },
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TIMEOUT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "silence inside arguments",
        server: Server::Watched,
        acts: |acts| {
            done(
                acts.text("lost")
                    .call("bash", append("half"))
                    .fault(Fault::Stall(At::Arguments, LONG)),
            )
        },
        attempts: 2,
        exit: 0,
        code: "",
        events: &["step sent failed:TIMEOUT", "retry sent answer", "end:completed"],
        says: "done",
        ran: "",
    },
    Row {
        name: "silence for ever",
        server: Server::Watched,
        acts: |acts| acts.text("lost").fault(Fault::Stall(At::Start, LONG)).forever(),
        attempts: 3,
        exit: 3,
        code: "TIMEOUT",
        events: &[
            "step sent failed:TIMEOUT",
            "retry sent failed:TIMEOUT",
            "retry sent failed:TIMEOUT",
            "end:error",
        ],
        says: "idle_timeout_ms",
        ran: "",
    },
    Row {
        name: "the server goes away",
        server: Server::There,
        acts: |acts| acts.fault(Fault::ServerGone),
        attempts: 1,
        exit: 3,
        code: "TRANSPORT",
        events: &[
            "step sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "end:error",
        ],
        says: "127.0.0.1",
        ran: "",
    },
    Row {
        name: "nothing listens",
        server: Server::Absent,
        acts: |acts| acts,
        attempts: 0,
        exit: 3,
        code: "TRANSPORT",
        events: &[
            "step sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "retry sent failed:TRANSPORT",
            "end:error",
        ],
        says: "127.0.0.1",
        ran: "",
    },
];
