//! A program with the host role and nothing else of the harness. With `harness` as its argument it
//! stands in for a harness: it starts a host and the commands of its further arguments, says
//! `ready` and the host's pid when all run, and waits to be killed.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use reins_sandbox::{CommandSpec, HostClient, Report, run_if_host_role};

fn main() -> ExitCode {
    if let Some(status) = run_if_host_role(std::env::args_os()) {
        return status;
    }
    match harness() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a program for tests")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Arguments: `harness MARKER SCRIPT…`; each script runs in bash with the variable `MARKER`.
fn harness() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("harness") {
        return Err("usage: harness MARKER SCRIPT…".into());
    }
    let marker = arguments.next().ok_or("no marker")?;
    let client = HostClient::start()?;
    let null = File::options().write(true).open("/dev/null")?;
    let mut waiting = 0;
    for (id, script) in (0..).zip(arguments) {
        let mut command = CommandSpec::new(["/bin/bash", "-c", &script], Path::new("/"));
        command.env = vec![("MARKER".into(), marker.clone().into())];
        client.spawn(id, &command, &null, &null)?;
        waiting += 1;
    }
    while waiting > 0 {
        match client.recv(Duration::from_secs(20))? {
            Some(Report::Started { .. }) => waiting -= 1,
            Some(Report::Exited { .. }) => {}
            other => return Err(format!("unexpected {other:?}").into()),
        }
    }
    #[expect(clippy::print_stdout, reason = "a program for tests")]
    {
        println!("ready {}", client.pid());
    }
    while client.recv(Duration::from_secs(60))?.is_some() {}
    Ok(())
}
