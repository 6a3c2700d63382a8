//! `reins session export`

use reins_schema::SessionId;
use reins_store::{ExportOrder, ListFilter, SessionSummary};
use serde::Serialize;

use super::Sessions;
use super::args::ExportArgs;
use super::meter::Meter;
use super::page::Page;
use super::words::{object, place, size};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    file: &'a str,
    sessions: &'a [SessionId],
    bytes: u64,
}

pub(super) async fn export(sessions: &Sessions<'_>, args: &ExportArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let to = sessions.start.cwd.join(&args.to);
    let mut pages = Vec::new();
    for id in descendants(sessions, id.clone(), args.with_forks).await? {
        let page = page(sessions, &id).await?;
        pages.push((id, page));
    }
    let meter = Meter::new(sessions.start, "export");
    let (replace, forks) = (args.force, args.with_forks);
    let order = ExportOrder { id, to: to.clone(), replace, forks, pages };
    let exported = sessions.store().export(order, meter.progress()).await?;
    drop(meter);
    if args.form.json {
        object(&Object {
            schema: "reins.session.export/1",
            file: &to.to_string_lossy(),
            sessions: &exported.sessions,
            bytes: exported.bytes,
        })?;
    } else {
        let count = terminal::count(exported.sessions.len() as u64, "session");
        terminal::note(&format!("{}: {count}, {}", place(&to), size(exported.bytes)));
    }
    Ok(exit::COMPLETED)
}

/// The session, then those that it delegated to, and if wanted those forked from it; and theirs.
async fn descendants(
    sessions: &Sessions<'_>,
    id: SessionId,
    forks: bool,
) -> Result<Vec<SessionId>, CliError> {
    let mut found = vec![id];
    let filter = ListFilter { archived: true, ..ListFilter::default() };
    let listed = sessions.store().list(filter).await?.sessions;
    let mut next = 0;
    while let Some(parent) = found.get(next).cloned() {
        let is_child = |session: &&SessionSummary| {
            let header = &session.header;
            let is_its = header.parent.as_ref().is_some_and(|it| it.session == parent);
            is_its && (forks || header.origin.is_some())
        };
        let children = listed.iter().filter(is_child).map(|session| session.header.id.clone());
        let new: Vec<SessionId> = children.filter(|id| !found.contains(id)).collect();
        found.extend(new);
        next += 1;
    }
    Ok(found)
}

async fn page(sessions: &Sessions<'_>, id: &SessionId) -> Result<String, CliError> {
    let mut view = sessions.view(id).await?;
    let mut page = Page::begin(&view.inspected);
    let each = |event: &reins_schema::Event| {
        page.add(event);
        Ok::<(), CliError>(())
    };
    view.read(sessions.store(), 0, each).await?;
    Ok(page.end())
}
