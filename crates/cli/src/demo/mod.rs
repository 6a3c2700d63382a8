//! `reins demo`: the real loop, tools, HTTP path and log, with a scripted model.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use reins_kernel::Layer;
use reins_providers::script::{Recorder, Script, ScriptOptions, ScriptServer};
use tempfile::TempDir;

use crate::args::{ComposeArgs, DemoArgs, Output, RunArgs};
use crate::exit::{self, CliError};
use crate::run::{Typed, open};
use crate::signals::Signals;
use crate::start::{Start, quoted};
use crate::terminal;

/// A small project with a mistake that its check finds.
const PROJECT: [(&str, &str); 3] = [
    ("total.sh", include_str!("project/total.sh")),
    ("check.sh", include_str!("project/check.sh")),
    ("prices.csv", include_str!("project/prices.csv")),
];
const SCRIPT: &str = include_str!("script.toml");
const PROMPT: &str = "The check of this project fails. Find out why and mend it.";

pub(crate) async fn demo(start: &Start, args: DemoArgs) -> Result<u8, CliError> {
    let record = args.record.as_deref().map(recorder).transpose()?;
    let project = make_project()?;
    let script = Script::parse(SCRIPT, "demo script").map_err(internal)?;
    let options = ScriptOptions { record, ..ScriptOptions::default() };
    let server = ScriptServer::start(script, options).map_err(internal)?;
    let result = with_model(start, &server.base_url(), project).await;
    server.stop().await;
    result
}

/// The project goes away again when no session can be opened.
async fn with_model(start: &Start, base_url: &str, project: TempDir) -> Result<u8, CliError> {
    let began = Instant::now();
    let layer = Layer {
        name: "demo".to_owned(),
        file: None,
        head: &[],
        text: format!(
            "[[insert]]\nid = \"scripted\"\nplugin = \"provider-chat\"\n\
             config = {{ vendor = \"compatible\", base_url = \"{base_url}\" }}\n"
        ),
    };
    let signals = Signals::listen(Output::Text)?;
    let args = run_args(project.path());
    let opened =
        open(start, &args, signals, Some(layer), async { Ok(Typed::text(PROMPT)) }).await?;
    let project = project.keep();
    terminal::note(&format!(
        "reins demo: the model is SCRIPTED, its answers come from a file in this program.\n\
         Everything else is real: loop, tools, HTTP, log.\n\
         project: {}\nprompt: {PROMPT}",
        project.display()
    ));
    let (code, session) = opened.go(start, began).await;
    if code == exit::COMPLETED {
        let program = start.program();
        terminal::note(&format!(
            "\nSee for yourself: cd {} && bash check.sh\n\
             The session: {program} session show {session}\n\
             Its log: {}\n\
             With a real model: export DEEPSEEK_API_KEY=… ; {program} run \"what to do\"",
            quoted(&project.to_string_lossy()),
            start.home.join("sessions").join(session.as_str()).display()
        ));
    }
    Ok(code)
}

fn make_project() -> Result<TempDir, CliError> {
    let unusable = |e: std::io::Error| {
        CliError::usage(format!("a temporary folder for the project cannot be made: {e}"))
            .with_hint("set TMPDIR to a folder that can be written")
    };
    let project = tempfile::Builder::new().prefix("reins-demo-").tempdir().map_err(unusable)?;
    for (name, content) in PROJECT {
        let file = File::create(project.path().join(name));
        file.and_then(|mut file| file.write_all(content.as_bytes())).map_err(unusable)?;
    }
    Ok(project)
}

fn recorder(path: &Path) -> Result<Recorder, CliError> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(|e| CliError::usage(format!("--record {}: {e}", path.display())))?;
    Ok(Recorder::to_writer(file))
}

fn run_args(project: &Path) -> RunArgs {
    RunArgs {
        model: Some("scripted/demo".to_owned()),
        output: Output::Text,
        session: None,
        continue_newest: false,
        ephemeral: false,
        cwd: Some(project.to_owned()),
        preset: None,
        compose: ComposeArgs::of_profile("default"),
        max_steps: Some(20),
        max_time: None,
        prompt: Vec::new(),
    }
}

fn internal(error: impl std::fmt::Display) -> CliError {
    CliError::internal(error.to_string())
}
