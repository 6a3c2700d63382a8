//! A program with the host role and nothing else of the harness.

use std::process::ExitCode;

fn main() -> ExitCode {
    reins_sandbox::run_if_host_role(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
