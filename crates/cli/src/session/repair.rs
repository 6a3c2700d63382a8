//! `reins session repair`

use serde::Serialize;

use super::Sessions;
use super::args::RepairArgs;
use super::meter::Meter;
use super::words::{RecoveredObject, object, recovered};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    dry_run: bool,
    recovered: Vec<RecoveredObject>,
}

pub(super) async fn repair(sessions: &Sessions<'_>, args: &RepairArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let meter = Meter::new(sessions.start, "repair");
    let known = sessions.known().await;
    let repaired = sessions.store().repair(&id, known, args.dry_run, meter.progress()).await?;
    drop(meter);
    if args.form.json {
        object(&Object {
            schema: "reins.session.repair/1",
            session: id.as_str(),
            dry_run: repaired.dry_run,
            recovered: repaired.done.iter().map(RecoveredObject::of).collect(),
        })?;
        return Ok(exit::COMPLETED);
    }
    let folder = sessions.store().path(&id).await?;
    let verb = if repaired.dry_run { "would be repaired" } else { "repaired" };
    for facts in &repaired.done {
        terminal::output(&format!("{verb}: {}\n", recovered(facts, Some(&folder))))?;
    }
    if repaired.done.is_empty() {
        terminal::note("nothing is to be repaired");
    }
    Ok(exit::COMPLETED)
}
