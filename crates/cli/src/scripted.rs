//! `reins scripted-model`: a file of answers as a model on this machine.

use reins_providers::script::{Script, ScriptOptions, serve as serve_script};

use crate::args::{Output, ScriptedArgs};
use crate::exit::{self, CliError};
use crate::signals::Signals;
use crate::terminal;

pub(crate) async fn serve(args: ScriptedArgs) -> Result<u8, CliError> {
    let name = args.file.display().to_string();
    let text =
        std::fs::read_to_string(&args.file).map_err(|e| CliError::usage(format!("{name}: {e}")))?;
    let script = Script::parse(&text, &name).map_err(|e| CliError::usage(e.to_string()))?;
    let signals = Signals::listen(Output::Text)?;
    let options = ScriptOptions { port: args.port, ..ScriptOptions::default() };
    let ready = |url: &str| {
        terminal::note(&format!(
            "scripted model at {url}\nto use it:\n  export DEEPSEEK_BASE_URL={url} \
             DEEPSEEK_API_KEY=none"
        ));
    };
    serve_script(script, options, signals.cancel.clone(), ready)
        .await
        .map_err(|e| CliError::usage(e.to_string()))?;
    Ok(signals.code().unwrap_or(exit::COMPLETED))
}
