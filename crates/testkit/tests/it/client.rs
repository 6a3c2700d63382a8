//! A client that sees how a response ends on the wire.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How the response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With the last chunk.
    Whole,
    /// The connection was closed before.
    Closed,
    /// The connection was reset.
    Reset,
}

#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// Lower case.
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) end: End,
}

pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) async fn to(port: u16) -> Self {
        Self { stream: TcpStream::connect(("127.0.0.1", port)).await.unwrap() }
    }

    pub(crate) async fn ask(&mut self, body: &Value) -> Got {
        self.send("POST", "/v1/chat/completions", body.to_string().as_bytes()).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Got {
        let head = format!(
            "{method} {path}?x=1 HTTP/1.1\r\nhost: test\r\nauthorization: Bearer secret\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.write_all(body).await.unwrap();
        self.read().await
    }

    async fn read(&mut self) -> Got {
        let mut bytes = Vec::new();
        let mut end = None;
        let mut buffer = vec![0; 64 * 1024];
        while end.is_none() {
            match self.stream.read(&mut buffer).await {
                Ok(0) => end = Some(End::Closed),
                Ok(count) => {
                    bytes.extend_from_slice(&buffer[..count]);
                    end = bytes.ends_with(b"0\r\n\r\n").then_some(End::Whole);
                }
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    end = Some(End::Reset);
                }
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, chunks) = text.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        let head = head.to_lowercase();
        Got { status, head, body: dechunked(chunks), end: end.unwrap() }
    }
}

fn dechunked(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap().min(rest.len());
        body.push_str(&rest[..size]);
        chunks = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    body
}

impl Got {
    /// The events' data that is JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.joined("/choices/0/delta/content")
    }

    pub(crate) fn joined(&self, pointer: &str) -> String {
        let events = self.events();
        events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
    }

    pub(crate) fn arguments(&self) -> String {
        self.joined("/choices/0/delta/tool_calls/0/function/arguments")
    }

    pub(crate) fn is_done(&self) -> bool {
        self.body.ends_with("data: [DONE]\n\n")
    }
}

/// A request that breaks no rule.
pub(crate) fn chat(messages: &Value) -> Value {
    json!({"model": "deepseek-v4-flash", "stream": true, "messages": messages})
}

pub(crate) fn hello() -> Value {
    chat(&json!([{"role": "user", "content": "hello"}]))
}
