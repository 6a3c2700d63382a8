//! `reins session fork`

use serde::Serialize;

use super::Sessions;
use super::args::OneArgs;
use super::words::object;
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    parent: &'a str,
    at: Option<u64>,
}

pub(super) async fn fork(sessions: &Sessions<'_>, args: &OneArgs) -> Result<u8, CliError> {
    let (typed, at) = place(&args.id)?;
    let parent = sessions.find(typed).await?;
    let header = sessions.store().fork(&parent, at).await?;
    let at = header.parent.as_ref().map(|parent| parent.at.seq);
    let session = header.id.as_str();
    if args.form.json {
        let schema = "reins.session.fork/1";
        object(&Object { schema, session, parent: parent.as_str(), at })?;
        return Ok(exit::COMPLETED);
    }
    terminal::output(&format!("{session}\n"))?;
    let at = at.map(|at| format!(" up to event {at}")).unwrap_or_default();
    let program = sessions.start.program();
    terminal::note(&format!(
        "it has the history of {parent}{at}; go on with: {program} run --session {session} \"…\""
    ));
    Ok(exit::COMPLETED)
}

/// `ID` or `ID@N`.
fn place(typed: &str) -> Result<(&str, Option<u64>), CliError> {
    let Some((id, at)) = typed.split_once('@') else { return Ok((typed, None)) };
    match at.parse() {
        Ok(at) => Ok((id, Some(at))),
        Err(_) => {
            let text = format!("`{at}` behind the @ is not the number of an event");
            let hint = format!("`reins session show {id} --events` shows the numbers, as `seq`");
            Err(CliError::usage(text).with_hint(hint))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_id_and_perhaps_a_number() {
        assert_eq!(place("01a2").unwrap(), ("01a2", None));
        assert_eq!(place("01a2@17").unwrap(), ("01a2", Some(17)));
        assert!(place("01a2@").is_err() && place("01a2@x").is_err() && place("a@1@2").is_err());
    }
}
