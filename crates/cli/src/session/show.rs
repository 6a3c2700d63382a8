//! `reins session show`

use reins_host::SessionView;
use reins_schema::{Event, Header, Message};
use reins_store::{Damage, DamageKind, Inspected};
use serde::Serialize;

use super::Sessions;
use super::args::ShowArgs;
use super::tell::{Teller, message_text, said, said_text};
use super::words::{DamageObject, LeaseObject, ParentObject, directory, holder, json, local_time};
use crate::exit::{self, CliError};
use crate::terminal;

pub(super) async fn show(sessions: &Sessions<'_>, args: &ShowArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let mut view = sessions.view(&id).await?;
    if args.form.json {
        as_json(sessions, args, &mut view).await?;
    } else {
        as_text(sessions, args, &mut view).await?;
    }
    damaged(&view.inspected.damage)
}

/// How a command ends that met this damage.
fn damaged(damage: &[Damage]) -> Result<u8, CliError> {
    let mut told = damage.iter().filter(|it| !matches!(it.kind, DamageKind::Repeated { .. }));
    let Some(first) = told.next() else { return Ok(exit::COMPLETED) };
    let others = match told.count() {
        0 => String::new(),
        1 => ", and one other place".to_owned(),
        others => format!(", and {others} other places"),
    };
    let text = format!("the session is damaged: {first}{others}");
    let hint = "the next run of the session keeps the damaged bytes aside and goes on; `reins \
                session verify ID` names every place";
    Err(CliError::new(exit::SESSION, "SESSION_DAMAGED", text).with_hint(hint))
}

async fn as_text(
    sessions: &Sessions<'_>,
    args: &ShowArgs,
    view: &mut SessionView,
) -> Result<(), CliError> {
    let store = sessions.store();
    if args.surface {
        for node in view.inspected.fold.surface().nodes() {
            terminal::output(&message_text(node.seq, &node.message))?;
        }
        return Ok(());
    }
    if args.events {
        return view.read(store, args.from, |event| json(&line(event)?)).await;
    }
    if args.messages {
        let each = |event: &Event| match said(event) {
            Some(message) => terminal::output(&said_text(event.seq, &message)),
            None => Ok(()),
        };
        return view.read(store, args.from, each).await;
    }
    terminal::output(&head(&view.inspected))?;
    let mut teller = Teller::default();
    let each = |event: &Event| terminal::output(&teller.tell(event));
    view.read(store, args.from, each).await?;
    terminal::output(teller.rest())?;
    terminal::output(&format!("\n{}\n", totals(view)))
}

/// An event exactly as it stands in the log.
fn line(event: &Event) -> Result<String, CliError> {
    let (line, _) = event
        .encode()
        .map_err(|e| CliError::internal(format!("event {} cannot be shown: {e}", event.seq)))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn head(inspected: &Inspected) -> String {
    let Inspected { header, fold, lease, .. } = inspected;
    let mut head = format!(
        "session {} of {}, in {}",
        header.id,
        local_time(header.created_at),
        directory(fold.cwd()),
    );
    if let Some(preset) = &header.agent_preset {
        head.push_str(&format!(", agent preset {}", super::words::in_line(preset)));
    }
    if let Some(parent) = &header.parent {
        head.push_str(&format!(", forked from {} at {}", parent.session, parent.at.seq));
    }
    if let Some(lease) = lease {
        head.push_str(&format!(", in use by {}", holder(lease)));
    }
    head.push('\n');
    head
}

fn totals(view: &SessionView) -> String {
    let mut totals =
        vec![terminal::count(view.events, "event"), terminal::count(view.turns, "turn")];
    let usage = view.usage;
    let read = usage.total_input();
    if read > 0 || usage.output_tokens > 0 {
        totals.push(format!("{} in", terminal::count(read, "token")));
        totals.push(format!("{} out", usage.output_tokens));
    }
    totals.join(", ")
}

/// Who and where.
#[derive(Serialize)]
struct SessionObject<'a> {
    id: &'a str,
    created_at: i64,
    cwd: String,
    began_in: String,
    agent_preset: Option<&'a str>,
    parent: Option<ParentObject>,
    lease: Option<LeaseObject>,
}

/// What is known at the end.
#[derive(Serialize)]
struct TotalsObject {
    events: u64,
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Serialize)]
struct MessageObject<'a> {
    seq: u64,
    message: &'a Message,
}

/// The events are printed as they are read, however many there are.
async fn as_json(
    sessions: &Sessions<'_>,
    args: &ShowArgs,
    view: &mut SessionView,
) -> Result<(), CliError> {
    let store = sessions.store();
    let part = match (args.surface, args.messages) {
        (true, _) => "surface",
        (_, true) => "messages",
        _ => "events",
    };
    let facts = text(&facts(&view.inspected))?;
    json(&format!("{{\"schema\":\"reins.session.show/1\",\"session\":{facts},\"{part}\":["))?;
    let mut separator = "";
    let mut print = |item: &str| {
        let printed = json(&format!("{separator}{}", item.trim_end_matches('\n')));
        separator = ",";
        printed
    };
    if args.surface {
        for node in view.inspected.fold.surface().nodes() {
            print(&text(&MessageObject { seq: node.seq, message: &node.message })?)?;
        }
    } else {
        let each = |event: &Event| {
            if !args.messages {
                return print(&line(event)?);
            }
            match said(event) {
                Some(message) => {
                    print(&text(&MessageObject { seq: event.seq, message: &message })?)
                }
                None => Ok(()),
            }
        };
        view.read(store, args.from, each).await?;
    }
    let totals = text(&TotalsObject {
        events: view.events,
        turns: view.turns,
        input_tokens: view.usage.total_input(),
        output_tokens: view.usage.output_tokens,
    })?;
    let damage: Vec<DamageObject> = view.inspected.damage.iter().map(DamageObject::of).collect();
    json(&format!("],\"totals\":{totals},\"damage\":{}}}\n", text(&damage)?))
}

fn text(object: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(object).map_err(|e| CliError::internal(e.to_string()))
}

fn facts(inspected: &Inspected) -> SessionObject<'_> {
    let header: &Header = &inspected.header;
    SessionObject {
        id: header.id.as_str(),
        created_at: header.created_at,
        cwd: inspected.fold.cwd().to_string_lossy().into_owned(),
        began_in: header.cwd.to_string_lossy().into_owned(),
        agent_preset: header.agent_preset.as_deref(),
        parent: ParentObject::of(header),
        lease: inspected.lease.as_ref().map(LeaseObject::of),
    }
}
