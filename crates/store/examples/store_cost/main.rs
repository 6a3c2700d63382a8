//! What the store costs on this machine, for both back ends: the figures of
//! `docs/performance.md`.
//!
//! `cargo build --release -p reins-cli && cargo run --release -p reins-store --example store_cost
//! [EVENTS] [SESSIONS]`: no longer logs and no more sessions than that; 1,000,000 and 10,000 when
//! not said. CPU is that of all threads, also of what goes on beside. The logs are conversations
//! with deltas, calls and results that the pure core accepts, driven through the public face.
#![expect(clippy::print_stdout, reason = "prints its measurements")]

mod measures;
mod place;
mod talk;

use std::process::ExitCode;

use measures::{append, list, long};
use place::{Backend, Place};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How much is made.
#[derive(Clone, Copy)]
struct Sizes {
    events: u64,
    sessions: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = threads.worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match arguments.first().map(String::as_str) {
                Some("child") => measures::child(&arguments[1..]).await,
                _ => all(&arguments).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn all(arguments: &[String]) -> Result<(), Failure> {
    let number = |at: usize, default: u64| match arguments.get(at) {
        None => Ok(default),
        Some(text) => text.parse(),
    };
    let sizes = Sizes { events: number(0, 1_000_000)?, sessions: number(1, 10_000)? };
    for backend in [Backend::Jsonl, Backend::Sqlite] {
        println!("\n{}", backend.name());
        let place = Place::new(backend)?;
        append(&place).await?;
        for events in [1_000, 100_000, 1_000_000].into_iter().filter(|one| *one <= sizes.events) {
            long(&place, events).await?;
        }
        measures::live(&place)?;
        drop(place);
        list(&Place::new(backend)?, sizes.sessions).await?;
    }
    Ok(())
}

/// A line of the table.
pub(crate) fn row(what: &str, figure: impl std::fmt::Display) {
    println!("  {what:<58} {figure}");
}
