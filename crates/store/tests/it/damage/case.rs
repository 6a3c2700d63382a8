//! A damaged log, what is expected of it, and everything that must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use reins_schema::{Event, Payload, SessionId};
use reins_session::Applied;
use reins_store::{Damage, DamageKind, JsonlStore, OpenSession, Store, StoreConfig};

use super::logs::{self, LOGS, Made, Record, Rng, plain, read_files};
use crate::setup::{note, put};

/// A place where something must be named: the file, and from where to where.
pub(super) struct Spot {
    pub(super) file: String,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A log that was damaged.
pub(super) struct Case {
    pub(super) made: Made,
    /// The folder as it is now.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Numbers of records that are damaged or gone.
    pub(super) lost: BTreeSet<u64>,
    /// Numbers of records whose frame is damaged: what can be read of them is right.
    pub(super) doubtful: BTreeSet<u64>,
    pub(super) spots: Vec<Spot>,
    /// Records that count though they were not there before, or instead of what was.
    pub(super) also: BTreeMap<u64, Vec<u8>>,
    /// What the log says before it is opened cannot be predicted.
    pub(super) is_contested: bool,
    pub(super) is_read_only: bool,
    /// What stands where a file belongs; a folder, or else a FIFO.
    pub(super) aliens: Vec<(String, bool)>,
}

pub(super) fn name(segment: u32) -> String {
    format!("{segment:08}.log")
}

impl Case {
    pub(super) fn new(made: &Made) -> Self {
        Self {
            made: made.clone(),
            files: made.files.clone(),
            lost: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            spots: Vec::new(),
            also: BTreeMap::new(),
            is_contested: false,
            is_read_only: false,
            aliens: Vec::new(),
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.made.records
    }

    pub(super) fn any(&self, rng: &mut Rng) -> Record {
        self.records()[rng.below(self.records().len())].clone()
    }

    /// One that no fork shares: what stands behind the boundary is damaged for nobody.
    pub(super) fn any_own(&self, rng: &mut Rng) -> Record {
        let first = self.records().iter().position(|r| r.segment >= self.made.shared).unwrap();
        self.records()[first + rng.below(self.records().len() - first)].clone()
    }

    pub(super) fn last(&self) -> Record {
        self.records().last().unwrap().clone()
    }

    /// The plain content of a segment, which then is not sealed any more: sealing was interrupted.
    pub(super) fn content(&mut self, segment: u32) -> &mut Vec<u8> {
        let sealed = format!("{}.zst", name(segment));
        if let Some(bytes) = self.files.remove(&sealed) {
            self.files.insert(name(segment), plain(&sealed, &bytes));
        }
        self.files.get_mut(&name(segment)).unwrap()
    }

    /// Whether no other segment follows this one.
    pub(super) fn is_end(&self, segment: u32) -> bool {
        self.files.keys().filter_map(|name| logs::segment(name)).max() == Some(segment)
    }

    pub(super) fn spot(&mut self, segment: u32, from: usize, to: usize) {
        self.spots.push(Spot { file: name(segment), from, to });
    }

    /// Every record of which a byte is in the range is lost; its line feed does not count.
    pub(super) fn lose_within(&mut self, segment: u32, from: usize, to: usize) {
        let hit = |r: &&Record| r.segment == segment && r.start < to && from < r.end - 1;
        let hit: Vec<u64> = self.records().iter().filter(hit).map(|record| record.seq).collect();
        self.lost.extend(hit);
    }

    fn expected(&self) -> BTreeMap<u64, Vec<u8>> {
        let mut expected: BTreeMap<u64, Vec<u8>> =
            self.records().iter().map(|record| (record.seq, record.line.clone())).collect();
        expected.retain(|seq, _| !self.lost.contains(seq));
        expected.extend(self.also.clone());
        expected
    }

    /// What was read is what must be, before number `end`.
    fn compare(&self, found: &BTreeMap<u64, Vec<u8>>, end: u64) {
        let expected = self.expected();
        for (seq, line) in found.range(..end) {
            let Some(right) = expected.get(seq) else { panic!("event {seq} is read, and is none") };
            assert!(line == right, "event {seq} is read as another one");
        }
        for seq in expected.keys() {
            let may_be_lost = self.doubtful.contains(seq) || *seq >= end;
            assert!(found.contains_key(seq) || may_be_lost, "event {seq} is not read");
        }
    }

    fn check_named(&self, damage: &[Damage]) {
        let touches = |spot: &Spot, damage: &Damage| {
            let is_file = damage.path.file_name().is_some_and(|file| *file == *spot.file);
            let (from, to) = (damage.offset, damage.offset + damage.bytes);
            is_file && from <= spot.to as u64 && spot.from as u64 <= to
        };
        for spot in &self.spots {
            let Spot { file, from, to } = spot;
            let is_named = damage.iter().any(|damage| touches(spot, damage));
            assert!(is_named, "{file}, {from} to {to} is not named: {damage:?}");
        }
        for found in damage {
            // What fell with the damaged ones is somewhere else.
            let is_consequence = matches!(found.kind, DamageKind::Refused { .. });
            // Of a longer log the snapshot knows.
            let is_end = found.bytes == 0 && found.problem.contains("ends here");
            let is_lossy = !self.lost.is_empty() || !self.doubtful.is_empty();
            let is_consequence = is_consequence || (is_end && is_lossy);
            let is_damaged = self.spots.iter().any(|spot| touches(spot, found));
            assert!(is_consequence || is_damaged, "nothing is damaged at {found:?}");
        }
    }

    /// Whatever was in a log file is still there, or in what was kept of it.
    fn check_kept(&self, folder: &Path) {
        let now = read_files(folder);
        for (file, was) in &self.files {
            let Some(number) = logs::segment(file) else { continue };
            let original = format!("original-{}", name(number));
            let torn = format!("torn-{number:08}-");
            let is_kept = now.iter().any(|(found, bytes)| {
                // It may have been sealed before it was kept.
                let is_same = [file, &format!("{file}.zst")].contains(&found);
                if let Some(offset) = found.strip_prefix(&torn) {
                    let offset: usize = offset.split_once('.').unwrap().0.parse().unwrap();
                    let sealed = format!("{file}.zst");
                    let before = now.get(file).cloned();
                    let before = before.unwrap_or_else(|| plain(&sealed, &now[&sealed]));
                    return was.get(offset..).is_some_and(|tail| bytes.starts_with(tail))
                        && before.starts_with(&was[..offset]);
                }
                let is_original = is_same || found.starts_with(&original);
                let is_sealed_now = found.ends_with(".zst") && !file.ends_with(".zst");
                let bytes = if is_sealed_now { &plain(found, bytes) } else { bytes };
                is_original && bytes.starts_with(was)
            });
            assert!(is_kept, "{file} is not kept: {:?}", now.keys());
        }
        for (alien, _) in self.aliens.iter().filter(|(name, _)| logs::segment(name).is_some()) {
            let kept = std::fs::metadata(folder.join(format!("original-{alien}"))).unwrap();
            assert!(!kept.is_file());
        }
    }

    pub(super) async fn check(&self) {
        let home = logs::home();
        let folder = logs::folder(home.path(), &self.made.id);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in &self.files {
            put(&folder.join(name), bytes);
        }
        for (name, is_folder) in &self.aliens {
            let path = folder.join(name);
            if *is_folder {
                std::fs::create_dir(path).unwrap();
            } else {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
            }
        }
        self.check_in(home.path(), &folder).await;
    }

    /// Everything that must hold of the session in a folder.
    pub(super) async fn check_in(&self, home: &Path, folder: &Path) {
        let store = JsonlStore::new(StoreConfig::new(home));
        let id = &self.made.id;
        let before = read_files(folder);
        store.inspect(id, Default::default()).await.unwrap();
        let verified = verify(&store, id).await;
        self.check_named(&verified);
        let found = read(&store, id).await;
        if !self.is_contested {
            self.compare(&found, u64::MAX);
        }
        assert!(read_files(folder) == before, "reading wrote");

        let mut open = store.open(id, Default::default()).await.unwrap();
        assert_eq!(open.fold.read_only().is_some(), self.is_read_only);
        let next = open.fold.next_seq();
        if self.doubtful.is_empty() {
            let last = self.expected().into_keys().next_back();
            // Numbers that the snapshot knows are not used again.
            let last = last.max(self.made.snapshot);
            assert_eq!(next, last.map_or(0, |last| last + 1));
        }
        let mut end = tell_and_go_on(&mut open, self.is_read_only).await;
        open.log.close().await.unwrap();
        if self.made.snapshot.is_some() {
            let progress = Arc::new(|_, _| {});
            let done = store.repair(id, Default::default(), false, progress).await.unwrap();
            end += done.done.len() as u64;
        }
        let after = read(&store, id).await;
        self.compare(&after, next);
        assert_eq!(after.into_keys().next_back().map_or(0, |last| last + 1), end);
        self.check_kept(folder);
        let verified = verify(&store, id).await;
        assert!(verified.is_empty(), "told twice: {verified:?}");
        let again = store.open(id, Default::default()).await.unwrap();
        assert!(again.recovered.is_empty(), "told twice: {:?}", again.recovered);
        assert_eq!(again.fold.next_seq(), end);
        again.log.close().await.unwrap();
    }
}

async fn verify(store: &JsonlStore, id: &SessionId) -> Vec<Damage> {
    store.verify(id, Default::default(), Arc::new(|_, _| {})).await.unwrap().damage
}

/// Every event that a reader gets, as it was encoded.
async fn read(store: &JsonlStore, id: &SessionId) -> BTreeMap<u64, Vec<u8>> {
    let events = store.read(id, 0, 100_000).await.unwrap();
    events.iter().map(|event| (event.seq, event.encode().unwrap().0)).collect()
}

/// As the core: what was recovered is logged, then the session goes on. Returns the next number.
async fn tell_and_go_on(open: &mut OpenSession, is_read_only: bool) -> u64 {
    let told: Vec<_> = open.recovered.drain(..).map(Payload::SessionRecovered).collect();
    for payload in told {
        let body = payload.draft(Vec::new()).unwrap();
        append(open, Event { seq: open.fold.next_seq(), time: 1, body }).await;
    }
    for _ in 0..if is_read_only { 0 } else { 2 } {
        let event = note(open.fold.next_seq(), "it goes on");
        append(open, Event::clone(&event)).await;
    }
    open.fold.next_seq()
}

async fn append(open: &mut OpenSession, event: Event) {
    assert_eq!(open.fold.apply_or_set_aside(&event), Ok(Applied::Folded));
    open.log.append(Arc::new(event)).await.unwrap();
}

/// Damages the first hundred logs that can be damaged so, and checks each.
pub(super) async fn each(what: &str, damage: impl Fn(&mut Case, &mut Rng) -> Option<()>) {
    let mut done = 0;
    for made in logs::all().await {
        let mut rng = Rng::new(made.seed ^ 0xDA7A);
        let mut case = Case::new(made);
        if damage(&mut case, &mut rng).is_none() {
            continue;
        }
        done += 1;
        let place = format!("{what}, log {}", made.seed);
        Named(&place).run(case.check()).await;
        if done == LOGS {
            return;
        }
    }
    panic!("{what}: only {done} logs can be damaged so");
}

/// Says which log it was when the check of it panics.
struct Named<'a>(&'a str);

impl Named<'_> {
    async fn run(self, check: impl Future<Output = ()>) {
        check.await;
        std::mem::forget(self);
    }
}

impl Drop for Named<'_> {
    #[expect(clippy::print_stderr, reason = "only beside the message of a panic")]
    fn drop(&mut self) {
        eprintln!("this was: {}", self.0);
    }
}
