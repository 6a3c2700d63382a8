//! The binary `reins`.

use std::process::ExitCode;

fn main() -> ExitCode {
    reins_cli::main(reins_cli::Additions::default())
}
