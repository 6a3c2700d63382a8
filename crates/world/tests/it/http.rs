use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use reins_world::{Http, HttpError, HttpRequest, HttpResponse, LocalHttp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);

fn http() -> LocalHttp {
    LocalHttp::new(Duration::from_secs(10))
}

async fn server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/path?key=secret", listener.local_addr().unwrap());
    (listener, url)
}

fn post(url: &str, body: &'static str) -> HttpRequest {
    HttpRequest {
        method: "POST",
        url: url.into(),
        headers: vec![
            ("user-agent".into(), "reins/1".into()),
            ("authorization".into(), "Bearer sk-secret".into()),
        ],
        body: Bytes::from_static(body.as_bytes()),
    }
}

/// One request's head and body of this length.
async fn request(stream: &mut TcpStream, body: usize) -> String {
    let mut seen = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        if text.split_once("\r\n\r\n").is_some_and(|(_, rest)| rest.len() >= body) {
            return text;
        }
    }
}

async fn next(response: &mut HttpResponse) -> Result<Bytes, HttpError> {
    tokio::time::timeout(PATIENCE, response.body.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_response_streams() {
    let (listener, url) = server().await;
    let client = http();
    let (sent, accepted) = tokio::join!(client.send(post(&url, "hello")), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = request(&mut stream, 5).await;
        let head = "HTTP/1.1 418 I'm a teapot\r\nX-One: 1\r\nContent-Encoding: gzip\r\n\
            Transfer-Encoding: chunked\r\n\r\n4\r\none!\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        (stream, request)
    });
    let (mut stream, request) = accepted;
    assert!(request.starts_with("POST /path?key=secret HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("user-agent: reins/1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer sk-secret\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\nhello"), "{request}");
    assert!(!request.contains("accept-encoding"), "{request}");
    let mut response = sent.unwrap();
    assert_eq!((response.status, response.header("x-one")), (418, Some("1")));
    // The first piece is here before the second one is sent, and is not decompressed.
    assert_eq!(next(&mut response).await.unwrap(), "one!");
    stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(next(&mut response).await.unwrap(), "two");
    assert!(response.body.next().await.is_none());
}

#[tokio::test]
async fn redirects_are_answers() {
    let (listener, url) = server().await;
    let client = http();
    let (sent, ()) = tokio::join!(client.send(post(&url, "")), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream, 0).await;
        let head = "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
    });
    let response = sent.unwrap();
    assert_eq!((response.status, response.header("location")), (302, Some("/other")));
}

#[tokio::test]
async fn refused_connections_say_so() {
    let (listener, url) = server().await;
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let refused = http().send(post(&url, "")).await.err().unwrap();
    let HttpError::Connect { host: named, problem } = &refused else { panic!("{refused:?}") };
    assert_eq!(named, &host);
    assert!(problem.contains("Connection refused"), "{problem}");
    assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused:?}");
}

#[tokio::test]
async fn a_reset_breaks_the_body() {
    let (listener, url) = server().await;
    let client = http();
    for reset in [true, false] {
        let (sent, stream) = tokio::join!(client.send(post(&url, "")), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream, 0).await;
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
        });
        let mut response = sent.unwrap();
        assert_eq!(next(&mut response).await.unwrap(), "some");
        if reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        let broken = next(&mut response).await.unwrap_err();
        let HttpError::Broken { problem, .. } = &broken else { panic!("{broken:?}") };
        assert!(!problem.is_empty() && !problem.contains("secret"), "{problem}");
    }
    // Before any answer.
    let (sent, ()) = tokio::join!(client.send(post(&url, "")), async {
        let (stream, _) = listener.accept().await.unwrap();
        drop(stream);
    });
    assert!(matches!(sent.err().unwrap(), HttpError::Broken { .. }));
}

#[tokio::test]
async fn dropping_closes_the_connection() {
    let (listener, url) = server().await;
    let client = http();
    let (sent, mut stream) = tokio::join!(client.send(post(&url, "")), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream, 0).await;
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    });
    drop(sent.unwrap());
    let end = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 8])).await.unwrap();
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    // And the future, while it waits for the head.
    let mut waiting = client.send(post(&url, ""));
    let accepted = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream, 0).await;
        stream
    };
    let mut stream = tokio::select! {
        _ = &mut waiting => panic!("nothing was answered"),
        stream = accepted => stream,
    };
    drop(waiting);
    let end = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 8])).await.unwrap();
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn unusable_requests_are_refused_without_a_connection() {
    for url in ["", "example", "ftp://example/x", "file:///etc/passwd", "http://"] {
        let refused = http().send(post(url, "")).await.err().unwrap();
        assert!(matches!(refused, HttpError::Url { .. }), "{url}: {refused:?}");
    }
    let bad = "http://user:secret@[::1/?key=secret";
    let refused = http().send(post(bad, "")).await.err().unwrap();
    assert!(matches!(refused, HttpError::Url { .. }), "{refused:?}");
    assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused:?}");
    let mut request = post("http://127.0.0.1:9/", "");
    request.headers.push(("x-key".into(), "secret\nvalue".into()));
    let refused = http().send(request).await.err().unwrap();
    assert_eq!(refused, HttpError::Header { name: "x-key".into() });
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_refused() {
    let (listener, url) = server().await;
    let client = http();
    let url = url.replace("http:", "https:");
    let (sent, ()) = tokio::join!(client.send(post(&url, "")), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // What speaks plain HTTP is no TLS server.
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let refused = sent.err().unwrap();
    assert!(matches!(refused, HttpError::Connect { .. }), "{refused:?}");
}

#[tokio::test]
async fn the_first_plain_request_is_quick() {
    let (listener, url) = server().await;
    // The best of several, since other work runs beside.
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let client = http();
        let started = Instant::now();
        let (sent, at) = tokio::join!(client.send(post(&url, "")), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream, 0).await;
            let at = started.elapsed();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            at
        });
        assert_eq!(sent.unwrap().status, 204);
        best = best.min(at);
    }
    println_time("first plain request", best);
    assert!(best < Duration::from_millis(200), "{best:?}");
}

#[expect(clippy::print_stdout, reason = "a measurement that people who run the tests can see")]
fn println_time(what: &str, time: Duration) {
    println!("{what}: {time:?}");
}
