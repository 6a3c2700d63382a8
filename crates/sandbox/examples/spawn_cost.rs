//! What supervision costs: the time from request to exit of `/bin/true` and `bash -c true`, under
//! the host and by plain spawn and wait, taken in turns in one run.
//!
//! `cargo run --release -p reins-sandbox --example spawn_cost [ROUNDS]`
#![expect(clippy::print_stdout, reason = "prints its measurements")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use reins_sandbox::{CommandSpec, HostClient, Report, SandboxError, run_if_host_role};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(status) = run_if_host_role(std::env::args_os()) {
        return status;
    }
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(1000);
    match measure(rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(rounds: u64) -> Result<(), Failure> {
    let client = HostClient::start()?;
    let null = File::options().write(true).open("/dev/null")?;
    for argv in [&["/bin/true"][..], &["/bin/bash", "-c", "true"]] {
        let (mut plain, mut hosted) = (Vec::new(), Vec::new());
        let command = CommandSpec::new(argv.iter().copied(), Path::new("/"));
        for id in 0..rounds {
            plain.push(run_plain(argv)?);
            hosted.push(run_hosted(&client, id, &command, &null)?);
        }
        let (plain, hosted) = (median(plain), median(hosted));
        let ratio = hosted.as_secs_f64() / plain.as_secs_f64();
        println!("{}: plain {plain:?}, hosted {hosted:?}, ratio {ratio:.2}", argv.join(" "));
    }
    client.close().map_err(Into::into)
}

/// Uses posix_spawn: no directory is set and no code runs in the child.
#[expect(clippy::disallowed_methods, reason = "the yardstick")]
fn run_plain(argv: &[&str]) -> Result<Duration, Failure> {
    let started = Instant::now();
    let [program, arguments @ ..] = argv else { return Err("no program".into()) };
    Command::new(program).args(arguments).env_clear().stdin(Stdio::null()).status()?;
    Ok(started.elapsed())
}

fn run_hosted(
    client: &HostClient,
    id: u64,
    command: &CommandSpec,
    null: &File,
) -> Result<Duration, SandboxError> {
    let started = Instant::now();
    client.spawn(id, command, null, null)?;
    let mut exited = Duration::ZERO;
    loop {
        match client.recv(Duration::from_secs(10))? {
            Some(Report::Exited { .. }) => exited = started.elapsed(),
            Some(report) if report.is_last() => return Ok(exited),
            Some(_) => {}
            None => return Err(SandboxError::Gone),
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
