//! The measurements.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use reins_schema::SessionId;
use reins_session::Fold;
use reins_store::{ListFilter, OpenSession};

use crate::place::{Backend, Place, header, id, reins};
use crate::talk::Talk;
use crate::{Failure, row};

/// Which session the appends go to; the long ones have the number of their events.
const APPENDS: u64 = 1;
const LIVE: u64 = 2;
const LIVE_EVENTS: u64 = 100_000;

/// What something took: on the clock, and of the processors. The second is what a machine that has
/// other work to do does not disturb.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} (CPU {:.1?})", self.wall, self.cpu)
    }
}

struct Watch {
    started: Instant,
    cpu: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu() }
    }

    fn took(&self) -> Took {
        Took { wall: self.started.elapsed(), cpu: cpu().saturating_sub(self.cpu) }
    }
}

/// Processor time of all threads of this process, those that ended too.
fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or(0))
}

/// One event, with and without a barrier after it.
pub(crate) async fn append(place: &Place) -> Result<(), Failure> {
    let session = place.store.create(header(&id(APPENDS)), Default::default()).await?;
    let mut talk = Talk::new();
    let mut events = Vec::new();
    while events.len() < 20_000 {
        events.extend(talk.turn()?);
    }
    let (plain, synced) = events.split_at(events.len() - 500);
    let (before, started) = (writes()?, Instant::now());
    for event in plain {
        session.log.append(event.clone()).await?;
    }
    session.log.flush().await?;
    let each = started.elapsed() / u32::try_from(plain.len())?;
    let calls = per(writes()? - before, plain.len());
    row("append one event, one flush at the end", format!("{each:.1?}, {calls:.3} writes"));

    let mut times = Vec::new();
    let before = writes()?;
    for event in synced {
        let started = Instant::now();
        session.log.append(event.clone()).await?;
        session.log.flush().await?;
        times.push(started.elapsed());
    }
    let calls = per(writes()? - before, synced.len());
    let (each, floor) = (median(times), floor(place)?);
    let ratio = each.as_secs_f64() / floor.as_secs_f64();
    row(
        "append one event and flush",
        format!("{each:.0?}, {calls:.1} writes; write + fdatasync {floor:.0?}, ratio {ratio:.2}"),
    );
    Ok(session.log.close().await?)
}

/// What the disk alone takes for a line.
fn floor(place: &Place) -> Result<Duration, Failure> {
    let mut file = std::fs::File::create(place.home().join("floor"))?;
    let mut times = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        file.write_all(&[b'x'; 300])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(median(times))
}

/// A session of so many events: made, opened, read, forked, compressed.
pub(crate) async fn long(place: &Place, events: u64) -> Result<(), Failure> {
    let id = id(events);
    let before = place.bytes()?;
    let watch = Watch::start();
    let plain = fill(place, &id, events, None).await?;
    row(&format!("{events} events made and appended"), watch.took());
    open(place, &id, events).await?;
    read(place, &id, events).await?;
    let stored = place.bytes()? - before;
    place.store.archive(&id, true).await?;
    let archived = place.bytes()? - before;
    row(
        "  plain, as stored, and archived",
        format!(
            "{:.1} MB, {:.1} MB, {:.1} MB",
            megabytes(plain),
            megabytes(stored),
            megabytes(archived)
        ),
    );
    place.store.archive(&id, false).await?;
    let before = place.bytes()?;
    let watch = Watch::start();
    let child = place.store.fork(&id, None).await?;
    let took = watch.took();
    let more = place.bytes()?.saturating_sub(before);
    row("  fork", format!("{took}, {:.1} KB more", kilobytes(more)));
    Ok(place.store.remove(&child.id).await?)
}

/// Appends conversations until there are so many events; their plain bytes. Folds them as an agent
/// does when there is a fold.
async fn fill(
    place: &Place,
    id: &SessionId,
    events: u64,
    mut fold: Option<Fold>,
) -> Result<u64, Failure> {
    let OpenSession { log, .. } = place.store.create(header(id), Default::default()).await?;
    let (mut talk, mut bytes) = (Talk::new(), 0);
    while log.next_seq() < events {
        for event in talk.turn()? {
            bytes += event.encode()?.0.len() as u64;
            if let Some(fold) = &mut fold {
                fold.apply(&event)?;
            }
            log.append(event).await?;
        }
        if let Some(fold) = &fold
            && log.wants_snapshot()
        {
            log.offer_snapshot(fold);
        }
    }
    log.close().await?;
    Ok(bytes)
}

async fn open(place: &Place, id: &SessionId, events: u64) -> Result<(), Failure> {
    let mut seen = 0;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        place.drop_snapshot(id)?;
        for times in [&mut without, &mut with] {
            let watch = Watch::start();
            let session = place.store.open(id, Default::default()).await?;
            times.push(watch.took());
            seen = session.fold.surface().nodes().len();
            session.log.close().await?;
        }
    }
    let (without, with) = (median(without), median(with));
    row("  opened without and with a snapshot", format!("{without}, {with}; {seen} messages"));
    if events >= 100_000 {
        let with = peak(place, &["open", id.as_str()])?;
        place.drop_snapshot(id)?;
        let without = peak(place, &["open", id.as_str()])?;
        let [without, with] = [without, with].map(megabytes);
        row("  memory of that", format!("{without:.1} MB, {with:.1} MB at most"));
    }
    Ok(())
}

async fn read(place: &Place, id: &SessionId, events: u64) -> Result<(), Failure> {
    let mut last = Vec::new();
    let mut anywhere = Vec::new();
    let mut at = 7;
    for _ in 0..31 {
        let started = Instant::now();
        let read = place.store.read(id, events - 100, 100).await?;
        last.push(started.elapsed());
        at = (at * 7_919 + 104_729) % (events - 10);
        let started = Instant::now();
        let ten = place.store.read(id, at, 10).await?;
        anywhere.push(started.elapsed());
        if read.len() != 100 || ten.first().is_none_or(|event| event.seq != at) {
            return Err(format!("read {} and from {at} {}", read.len(), ten.len()).into());
        }
    }
    let (last, anywhere) = (median(last), median(anywhere));
    row("  the last 100 read, and 10 anywhere", format!("{last:.1?}, {anywhere:.1?}"));
    Ok(())
}

/// The memory of a session as an agent keeps it.
pub(crate) fn live(place: &Place) -> Result<(), Failure> {
    let bytes = peak(place, &["live"])?;
    row(&format!("memory of a live session of {LIVE_EVENTS} events"), mb(bytes));
    Ok(())
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", megabytes(bytes))
}

/// Many sessions with a prompt and an answer each: listed, found, and the index made anew.
pub(crate) async fn list(place: &Place, sessions: u64) -> Result<(), Failure> {
    let events = Talk::new().turn()?;
    let started = Instant::now();
    for number in 0..sessions {
        let session = place.store.create(header(&id(number)), Default::default()).await?;
        for event in &events {
            session.log.append(event.clone()).await?;
        }
        session.log.close().await?;
    }
    row(&format!("{sessions} sessions made"), format!("{:.1?}", started.elapsed()));
    place.drop_index()?;
    // Another store on the same home, as in another process.
    let store = place.backend.store(place.home());
    let watch = Watch::start();
    let listing = store.list(ListFilter::default()).await?;
    row("  listed without an index", watch.took());
    if listing.sessions.len() as u64 != sessions {
        return Err(format!("{} of {sessions} sessions listed", listing.sessions.len()).into());
    }
    let (mut listed, mut found) = (Vec::new(), Vec::new());
    for nth in 0..9 {
        let watch = Watch::start();
        store.list(ListFilter::default()).await?;
        listed.push(watch.took());
        let whole = id(sessions * nth / 9);
        let started = Instant::now();
        store.find(whole.as_str()).await?;
        found.push(started.elapsed());
    }
    row("  listed", median(listed));
    row("  found by id", format!("{:.1?}", median(found)));
    if place.backend == Backend::Jsonl {
        let took = command(place).map(|took| format!("{took:.1?}"));
        let said = took.unwrap_or_else(|error| error.to_string());
        row("  `reins session list`, the whole process", said);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "measures the program")]
fn command(place: &Place) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..9 {
        let mut command = Command::new(reins()?);
        command.args(["session", "list"]).env("REINS_HOME", place.home());
        let started = Instant::now();
        let end = command.stdin(Stdio::null()).output()?;
        times.push(started.elapsed());
        if !end.status.success() {
            return Err(String::from_utf8_lossy(&end.stderr).into_owned().into());
        }
    }
    Ok(median(times))
}

/// The most memory that this program takes when it only does this.
#[expect(clippy::disallowed_methods, reason = "measures a process of its own")]
fn peak(place: &Place, what: &[&str]) -> Result<u64, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["child", place.backend.name()]).arg(place.home()).args(what);
    let end = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&end.stdout);
    said.trim().parse().map_err(|_| said.into_owned().into())
}

/// What [`peak`] starts: does it and prints the bytes.
pub(crate) async fn child(arguments: &[String]) -> Result<(), Failure> {
    let [backend, home, what @ ..] = arguments else { return Err("no back end, no home".into()) };
    let place = Place::at(Backend::named(backend)?, home.into());
    match what {
        [open, session] if open == "open" => {
            let id = SessionId::new(session.clone());
            let session = place.store.open(&id, Default::default()).await?;
            session.log.close().await?;
        }
        _ => {
            let id = id(LIVE);
            let fold = Fold::new(header(&id), Default::default());
            fill(&place, &id, LIVE_EVENTS, Some(fold)).await?;
        }
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|text| text.trim().strip_suffix(" kB"));
    let bytes = kilobytes.ok_or("no VmHWM")?.trim().parse::<u64>()? * 1024;
    println!("{bytes}");
    Ok(())
}

/// How many write calls this process has made.
fn writes() -> Result<u64, Failure> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let calls = io.lines().find_map(|line| line.strip_prefix("syscw: "));
    Ok(calls.ok_or("no syscw in /proc/self/io")?.parse()?)
}

fn median<T: Copy + Default + Ord>(mut times: Vec<T>) -> T {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per(total: u64, count: usize) -> f64 {
    total as f64 / count as f64
}

fn kilobytes(bytes: u64) -> f64 {
    per(bytes, 1_000)
}

fn megabytes(bytes: u64) -> f64 {
    per(bytes, 1_000_000)
}
