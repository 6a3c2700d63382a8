//! `reins demo`: the real loop, tools, HTTP path and log, with a scripted model.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use reins_kernel::Layer;
use reins_providers::script::{Recorder, Script, ScriptOptions, ScriptServer};

use crate::args::{ComposeArgs, DemoArgs, Output, RunArgs};
use crate::exit::{self, CliError};
use crate::run::run_prompt;
use crate::start::Start;
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
    terminal::note(&format!(
        "reins demo: the model is SCRIPTED, its answers come from a file in this program.\n\
         Everything else is real: loop, tools, HTTP, log.\n\
         project: {}\nprompt: {PROMPT}",
        project.display()
    ));
    let layer = Layer {
        name: "demo".to_owned(),
        file: None,
        text: format!(
            "[[insert]]\nid = \"scripted\"\nplugin = \"provider-chat\"\n\
             config = {{ vendor = \"compatible\", base_url = \"{}\" }}\n",
            server.base_url()
        ),
    };
    let result =
        run_prompt(start, run_args(&project), PROMPT.to_owned(), Some(layer), Instant::now());
    let result = result.await;
    server.stop().await;
    let (code, session) = result?;
    if code == exit::COMPLETED {
        terminal::note(&format!(
            "\nSee for yourself: cd {} && bash check.sh\n\
             The session: reins session show {session}\n\
             Its log: {}\n\
             With a real model: export DEEPSEEK_API_KEY=… ; reins run \"what to do\"",
            project.display(),
            start.home.join("sessions").join(session.as_str()).display()
        ));
    }
    Ok(code)
}

fn make_project() -> Result<PathBuf, CliError> {
    let project = tempfile::Builder::new()
        .prefix("reins-demo-")
        .tempdir()
        .map_err(|e| CliError::internal(format!("a temporary folder: {e}")))?
        .keep();
    for (name, content) in PROJECT {
        let path = project.join(name);
        let written = File::create(&path).and_then(|mut file| file.write_all(content.as_bytes()));
        written.map_err(|e| CliError::internal(format!("{}: {e}", path.display())))?;
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
        cwd: Some(project.to_owned()),
        compose: ComposeArgs { profile: "default".to_owned(), patch: Vec::new() },
        max_steps: Some(20),
        max_time: None,
        prompt: Vec::new(),
    }
}

fn internal(error: impl std::fmt::Display) -> CliError {
    CliError::internal(error.to_string())
}
