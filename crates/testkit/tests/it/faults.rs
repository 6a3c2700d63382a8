use std::time::{Duration, Instant};

use reins_testkit::{Acts, At, Fault, StrictServer, script};
use serde_json::json;
use tokio::net::TcpStream;

use crate::client::{Client, End, Got, hello};

/// The response to the first request of a script.
async fn first(keys: &str) -> Got {
    let text = format!(
        "[[answer]]\ntext = \"0123456789\"\n{keys}\n[[answer.call]]\nname = \"read\"\n\
         arguments = '{{\"path\":\"a.txt\"}}'\n"
    );
    let server = StrictServer::start(Acts::parse(&text, "test.toml").unwrap()).unwrap();
    let got = Client::to(server.port()).await.ask(&hello()).await;
    server.assert_clean();
    server.stop().await;
    got
}

#[tokio::test]
async fn a_connection_can_end_at_every_place() {
    let arguments = r#"{"path":"a.txt"}"#;
    let half = &arguments[..arguments.len() / 2];
    for (fault, end) in [("cut", End::Closed), ("reset", End::Reset), ("stall", End::Closed)] {
        let table = [
            ("at = \"head\"", 0, "", ""),
            ("at = \"start\"", 200, "", ""),
            ("at = \"text\"", 200, "01234", ""),
            ("at = \"after_text\"", 200, "0123456789", ""),
            ("at = \"arguments\"", 200, "0123456789", half),
            ("at = 2", 200, "0123456789", ""),
        ];
        for (at, status, text, arguments) in table {
            let keys = format!("fault = \"{fault}\"\n{at}\nlimit_ms = 1");
            let got = first(&keys).await;
            assert_eq!((got.status, got.end), (status, end), "{keys}");
            assert_eq!(
                (got.text().as_str(), got.arguments().as_str()),
                (text, arguments),
                "{keys}"
            );
        }
    }
}

#[tokio::test]
async fn a_connection_can_end_after_a_byte() {
    let whole = first("").await.body;
    for bytes in [0, 1, 7, whole.len() / 2, whole.len() - 1] {
        let got = first(&format!("fault = \"cut\"\nat_byte = {bytes}")).await;
        assert_eq!((got.body.as_str(), got.end), (&whole[..bytes], End::Closed));
    }
}

#[tokio::test]
async fn a_stall_lasts_until_its_limit() {
    let started = Instant::now();
    let got = first("fault = \"stall\"\nat = \"text\"\nlimit_ms = 60").await;
    assert!(started.elapsed() >= Duration::from_millis(60));
    assert_eq!((got.text().as_str(), got.end), ("01234", End::Closed));
}

#[tokio::test]
async fn a_server_stops_in_the_middle_of_a_stall() {
    let acts = script().text("abc").fault(Fault::Stall(At::Head, Duration::from_secs(3600)));
    let server = StrictServer::start(acts).unwrap();
    let mut client = Client::to(server.port()).await;
    let body = hello();
    let asking = client.ask(&body);
    let stopping = async {
        server.reached(1).await;
        server.stop().await;
    };
    let (got, ()) = tokio::join!(asking, stopping);
    assert_eq!((got.status, got.end), (0, End::Closed));
}

#[tokio::test]
async fn a_client_that_leaves_ends_a_stall() {
    // One stalled connection more than there may be at a time: all must have been given up.
    let stall = Fault::Stall(At::Text, Duration::from_secs(3600));
    let acts = script().text("ab").fault(stall).times(256).then().text("still here");
    let server = StrictServer::start(acts).unwrap();
    for number in 1..=256 {
        let mut client = Client::to(server.port()).await;
        let body = hello();
        tokio::select! {
            got = client.ask(&body) => panic!("{got:?}"),
            () = server.reached(number) => {}
        }
    }
    assert_eq!(Client::to(server.port()).await.ask(&hello()).await.text(), "still here");
    server.stop().await;
}

#[tokio::test]
async fn a_status_comes_with_its_headers_and_body() {
    let got = first("status = 429\nheaders = { retry-after = \"2\" }\nbody = \"slow down\"").await;
    assert_eq!((got.status, got.body.as_str(), got.end), (429, "slow down", End::Whole));
    assert!(got.head.contains("retry-after: 2"), "{}", got.head);
    let got = first("status = 500").await;
    assert_eq!(got.body, r#"{"error":{"message":"scripted status 500"}}"#);
}

#[tokio::test]
async fn an_answer_can_be_wrong_in_many_ways() {
    let html = first("fault = \"html\"").await;
    assert!(html.head.contains("content-type: text/html") && html.body.contains("<html>"));

    let bad = first("fault = \"bad_json\"").await;
    let lines: Vec<&str> = bad.body.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), bad.events().len() + 2, "one broken, one end mark");
    assert!(serde_json::from_str::<serde_json::Value>(&lines[1]["data: ".len()..]).is_err());
    assert!(bad.is_done());

    let open = first("fault = \"missing_done\"").await;
    assert_eq!((open.end, open.is_done()), (End::Whole, false));
    assert_eq!(open.joined("/choices/0/finish_reason"), "tool_calls");

    let error = first("fault = \"error_event\"\nat = \"text\"").await;
    assert_eq!((error.end, error.text().as_str()), (End::Whole, "01234"));
    assert_eq!(error.events().last().unwrap()["error"]["type"], "server_error");

    let empty = first("fault = \"empty\"").await;
    assert_eq!((empty.text().as_str(), empty.arguments().as_str()), ("", ""));
    assert_eq!(empty.joined("/choices/0/finish_reason"), "stop");
    assert!(empty.is_done());

    let nothing = first("fault = \"empty_body\"").await;
    assert_eq!((nothing.status, nothing.body.as_str(), nothing.end), (200, "", End::Whole));

    let length = first("fault = \"length\"").await;
    assert_eq!(length.arguments(), r#"{"path":"#);
    assert_eq!(length.joined("/choices/0/finish_reason"), "length");
    assert!(length.is_done());

    let unfinished = first("finish = \"length\"").await;
    assert_eq!(unfinished.joined("/choices/0/finish_reason"), "length");
}

#[tokio::test]
async fn a_server_that_is_gone_lets_nobody_connect() {
    let acts = script().text("a").then().text("b").fault(Fault::ServerGone);
    let server = StrictServer::start(acts).unwrap();
    let mut client = Client::to(server.port()).await;
    assert_eq!(client.ask(&hello()).await.text(), "a");
    assert_eq!(client.ask(&hello()).await.end, End::Closed);
    let refused = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.stop().await;
}

#[tokio::test]
async fn a_script_goes_on_after_a_fault() {
    let acts = script()
        .text("never read")
        .status(503, &[("retry-after", "0")])
        .times(2)
        .then()
        .call("read", json!({"path": "x"}))
        .fault(Fault::Reset(At::Arguments))
        .then()
        .text("well");
    let server = StrictServer::start(acts).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let got = Client::to(server.port()).await.ask(&hello()).await;
        seen.push((got.status, got.end));
    }
    let expected = [(503, End::Whole), (503, End::Whole), (200, End::Reset), (200, End::Whole)];
    assert_eq!(seen, expected);
    server.stop().await;
}

#[test]
fn a_wrong_fault_is_refused_with_its_line() {
    let table = [
        ("fault = \"cutt\"", "`fault = \"cutt\"` is not known; faults are cut, reset, stall"),
        ("fault = \"cut\"\nat = \"middle\"", "`at = \"middle\"` is not known; places are head"),
        ("fault = \"cut\"\nat = \"arguments\"", "a fault in the arguments needs an"),
        ("fault = \"cut\"\nat = 1\nat_byte = 2", "`at` and `at_byte` exclude each other"),
        ("fault = \"bad_json\"\nat = \"head\"", "it cannot come before the head"),
        ("fault = \"cut\"\nstatus = 500", "`fault` and `status` exclude each other"),
        ("at = \"text\"", "`fault` or `status` is missing"),
        ("status = 99", "`status = 99` is no status of a response"),
        ("status = 429\nheaders = { \"a b\" = \"c\" }", "`a b: c` is no header"),
        ("status = \"429\"", "invalid type: string \"429\", expected u16"),
    ];
    for (keys, problem) in table {
        let text = format!("\n[[answer]]\ntext = \"a\"\n{keys}");
        let error = Acts::parse(&text, "test.toml").unwrap_err().to_string();
        assert!(error.starts_with("test.toml:2: "), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    let acts = script().call("read", json!({})).fault(Fault::Cut(At::Text));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async { StrictServer::start(acts).err().unwrap().to_string() });
    assert!(error.contains("answer 1: a fault in the text needs `text`"), "{error}");
}
