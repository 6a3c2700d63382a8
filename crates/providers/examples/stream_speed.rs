//! Prints how many megabytes of a typical stream are decoded into parts in a second.
//!
//! `cargo run --release -p reins-providers --example stream_speed`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::collections::VecDeque;
use std::time::Instant;

use reins_providers::{ChatDecoder, DoneMark};
use reins_schema::Failure;

const STREAM_BYTES: usize = 16 * 1024 * 1024;
const ROUNDS: usize = 5;
/// What one read of a socket brings.
const READ_BYTES: usize = 16 * 1024;

fn stream() -> String {
    let head = "data: {\"id\":\"930c60df-bf64-41c9-a88e-3ec75f81e00e\",\"object\":\
                \"chat.completion.chunk\",\"created\":1770617860,\"model\":\"deepseek-v4-flash\",\
                \"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":0,\"delta\":";
    let deltas = [
        r#"{"content":" the"}"#,
        r#"{"content":"读写"}"#,
        r#"{"reasoning_content":"\n\nFirst, "}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"path\": "}}]}"#,
    ];
    let mut stream = String::new();
    for delta in deltas.iter().cycle() {
        stream.push_str(head);
        stream.push_str(delta);
        stream.push_str(",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
        if stream.len() > STREAM_BYTES {
            break;
        }
    }
    stream.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    stream.push_str("data: [DONE]\n\n");
    stream
}

fn main() -> Result<(), Failure> {
    let stream = stream();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut decoder = ChatDecoder::new(Some("text/event-stream"), DoneMark::Required);
        let mut parts = VecDeque::new();
        let mut count = 0usize;
        for read in stream.as_bytes().chunks(READ_BYTES) {
            decoder.push(read, &mut parts)?;
            count += parts.len();
            parts.clear();
        }
        decoder.end(&mut parts)?;
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let speed = stream.len() as f64 / 1e6 / seconds;
        println!("{speed:.0} MB/s, {count} parts");
    }
    Ok(())
}
