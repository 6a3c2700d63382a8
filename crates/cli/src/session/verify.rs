//! `reins session verify`

use reins_schema::SessionId;
use reins_session::KnownTypes;
use reins_store::{Damage, DamageKind, ListFilter, Verified};
use serde::Serialize;

use super::Sessions;
use super::args::VerifyArgs;
use super::meter::Meter;
use super::words::{DamageObject, in_line, object, size};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object {
    schema: &'static str,
    ok: bool,
    sessions: Vec<SessionObject>,
}

#[derive(Serialize)]
struct SessionObject {
    id: String,
    ok: bool,
    events: u64,
    bytes: u64,
    segments: u32,
    blobs: u64,
    read_only: Option<String>,
    damage: Vec<DamageObject>,
    /// Why it could not be checked at all.
    error: Option<String>,
}

pub(super) async fn verify(sessions: &Sessions<'_>, args: &VerifyArgs) -> Result<u8, CliError> {
    let known = sessions.known().await;
    let (ids, strangers) = match &args.id {
        Some(typed) => (vec![sessions.find(typed).await?], Vec::new()),
        None => {
            let listing =
                sessions.store().list(ListFilter { archived: true, ..ListFilter::default() });
            let listing = listing.await?;
            let ids = listing.sessions.into_iter().map(|session| session.header.id);
            (ids.collect(), listing.damaged)
        }
    };
    let (mut objects, mut damaged) = (Vec::new(), strangers.len());
    for (path, problem) in &strangers {
        terminal::note(&in_line(&format!("damaged: {}: {problem}", path.display())));
    }
    for id in &ids {
        let checked = one(sessions, id, known.clone()).await;
        // Of many, one that cannot be read does not keep the others from being checked.
        if args.id.is_some()
            && let Err(error) = &checked
        {
            return Err(error.clone());
        }
        let found = SessionObject::of(id, &checked);
        damaged += usize::from(!found.ok);
        if args.form.json {
            objects.push(found);
        } else {
            terminal::output(&text(id, &checked))?;
        }
    }
    if args.form.json {
        let ok = damaged == 0;
        object(&Object { schema: "reins.session.verify/1", ok, sessions: objects })?;
    }
    if damaged == 0 {
        return Ok(exit::COMPLETED);
    }
    let words = terminal::count(damaged as u64, "session");
    let are = if damaged == 1 { "is" } else { "are" };
    let hint = "`reins session repair ID` mends what can be mended, and keeps what it takes out";
    Err(CliError::new(exit::SESSION, "SESSION_DAMAGED", format!("{words} {are} damaged"))
        .with_hint(hint))
}

async fn one(
    sessions: &Sessions<'_>,
    id: &SessionId,
    known: KnownTypes,
) -> Result<Verified, CliError> {
    let meter = Meter::new(sessions.start, "verify");
    Ok(sessions.store().verify(id, known, meter.progress()).await?)
}

/// A record that stands there twice is told and costs nothing.
fn is_harmless(damage: &Damage) -> bool {
    matches!(damage.kind, DamageKind::Repeated { .. })
}

fn text(id: &SessionId, checked: &Result<Verified, CliError>) -> String {
    let verified = match checked {
        Err(error) => return format!("{id}  not readable: {}\n", in_line(&error.message)),
        Ok(verified) => verified,
    };
    let mut facts = vec![terminal::count(verified.events, "event"), size(verified.bytes)];
    facts.push(terminal::count(u64::from(verified.segments), "segment"));
    if verified.blobs > 0 {
        facts.push(terminal::count(verified.blobs, "blob"));
    }
    let facts = facts.join(", ");
    let is_well = verified.damage.iter().all(is_harmless);
    let mut text = format!("{id}  {}: {facts}\n", if is_well { "ok" } else { "damaged" });
    if let Some(reason) = &verified.read_only {
        text.push_str(&format!("  can only be read: {}\n", in_line(reason)));
    }
    for damage in &verified.damage {
        let DamageObject { kind, .. } = DamageObject::of(damage);
        text.push_str(&format!("  {kind}: {}\n", in_line(&damage.to_string())));
    }
    text
}

impl SessionObject {
    fn of(id: &SessionId, checked: &Result<Verified, CliError>) -> Self {
        let none = Self {
            id: id.to_string(),
            ok: false,
            events: 0,
            bytes: 0,
            segments: 0,
            blobs: 0,
            read_only: None,
            damage: Vec::new(),
            error: None,
        };
        match checked {
            Err(error) => Self { error: Some(error.message.clone()), ..none },
            Ok(verified) => Self {
                ok: verified.damage.iter().all(is_harmless),
                events: verified.events,
                bytes: verified.bytes,
                segments: verified.segments,
                blobs: verified.blobs,
                read_only: verified.read_only.clone(),
                damage: verified.damage.iter().map(DamageObject::of).collect(),
                ..none
            },
        }
    }
}
