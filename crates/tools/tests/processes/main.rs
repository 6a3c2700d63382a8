//! `bash` with real processes. Its own `main`, because the process host is this executable again.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that is its own runner")]

mod cases;
mod shell;

use std::process::ExitCode;

use shell::Shell;

fn main() -> ExitCode {
    if let Some(code) = reins_sandbox::run_if_host_role(std::env::args_os()) {
        return code;
    }
    if !["bash", "setsid", "yes"].into_iter().all(|program| reins_testkit::needs(program).unwrap())
    {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (name, case) in cases::ALL {
            let shell = Shell::new().await;
            case(&shell).await;
            shell.stop().await;
            println!("test {name} ... ok");
        }
    });
    ExitCode::SUCCESS
}
