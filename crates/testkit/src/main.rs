//! The strict server by hand: `cargo run -p reins-testkit -- serve FILE [--port N]`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::sync::Arc;

use reins_testkit::{Acts, StrictOptions, StrictServer};

const USAGE: &str = "usage: reins-testkit serve FILE [--port N]

Plays the answers in FILE over loopback HTTP in the chat-completions dialect, with faults, and
prints every request and the rules that it breaks. Ctrl-C ends it.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (file, port) = match args.as_slice() {
        ["serve", file] => (*file, Ok(0)),
        ["serve", file, "--port", port] => (*file, port.parse()),
        _ => return failed(2, USAGE),
    };
    let Ok(port) = port else { return failed(2, "--port: a number from 0 to 65535 is meant") };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return failed(2, &format!("{file}: {error}")),
    };
    let acts = match Acts::parse(&text, file) {
        Ok(acts) => acts,
        Err(error) => return failed(2, &error.to_string()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(serve(acts, port)).map_err(|error| error.to_string()));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(1, &error),
    }
}

fn failed(code: u8, message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(code)
}

async fn serve(acts: Acts, port: u16) -> Result<(), reins_providers::script::ScriptError> {
    let watch: reins_testkit::Watch = Arc::new(|request, faults| {
        let (number, method, path) = (request.number, &request.method, &request.path);
        println!("{number} {method} {path}, {} bytes", request.body.len());
        for fault in faults {
            println!("  refused: {fault}");
        }
    });
    let options = StrictOptions { port, watch: Some(watch), ..StrictOptions::default() };
    let server = StrictServer::start_with(acts, options)?;
    println!("DEEPSEEK_BASE_URL={}", server.base_url());
    std::future::pending().await
}
