//! `cargo xtask tidy`: prints what tidy found and exits with 1 when it found something.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        // Nobody is left to read a message when stdout or stderr is closed.
        Err(_closed) => ExitCode::FAILURE,
    }
}

fn run(arguments: &[String]) -> io::Result<ExitCode> {
    if arguments != ["tidy"] {
        writeln!(io::stderr(), "usage: cargo xtask tidy")?;
        return Ok(ExitCode::from(2));
    }
    let report = match reins_xtask::tidy(Path::new(".")) {
        Ok(report) => report,
        Err(error) => {
            writeln!(io::stderr(), "tidy: {error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut out = io::stdout().lock();
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    let (found, files, crates) = (report.findings.len(), report.files, report.crates);
    writeln!(out, "tidy: {found} findings in {files} files of {crates} crates")?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
