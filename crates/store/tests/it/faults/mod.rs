//! The life of sessions on a disk that fails at every single call, in every way. Afterwards, what
//! was acknowledged is there.

mod disk;
mod life;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reins_store::{JsonlStore, StoreConfig};
use rustix::io::Errno;

use disk::{Fault, FaultyDisk};
use life::Life;

/// What happens, and what follows.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// The fault alone; the process lives on.
    Lives(Fault),
    /// The process is killed and nothing else.
    Killed,
    /// The power fails.
    PowerCut,
    /// The process is killed, another one opens its sessions, then the power fails.
    PowerCutLater,
}

const CASES: [Case; 7] = [
    Case::Lives(Fault::Refused(Errno::IO)),
    Case::Lives(Fault::Refused(Errno::NOSPC)),
    Case::Lives(Fault::Short),
    Case::Lives(Fault::Full),
    Case::Killed,
    Case::PowerCut,
    Case::PowerCutLater,
];

/// Repeats a run as far as threads allow it.
const SEED: &str = "REINS_FAULT_SEED";

/// So small that every kind of thing happens within a few hundred calls.
fn config(home: &Path) -> StoreConfig {
    StoreConfig { segment_bytes: 1200, snapshot_events: 8, ..StoreConfig::new(home) }
}

/// One life with a fault at one call. Returns how many calls there were.
fn run(case: Case, at: usize, seed: u64) -> usize {
    let place = tempfile::tempdir().unwrap();
    let (home, graves) = (place.path().join("home"), place.path().join("graves"));
    std::fs::create_dir(&graves).unwrap();
    let fault = match case {
        Case::Lives(fault) => fault,
        Case::Killed | Case::PowerCut | Case::PowerCutLater => Fault::Killed,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let disk = Arc::new(FaultyDisk::new(&graves, fault, at, seed));
    let mut life = Life::new(seed);
    runtime.block_on(async {
        let store = JsonlStore::on(config(&home), disk.clone());
        life.live(&store).await;
        if matches!(case, Case::PowerCutLater) {
            disk.revive();
            let store = JsonlStore::on(config(&home), disk.clone());
            life.go_on(&store).await;
        }
    });
    if matches!(case, Case::PowerCut | Case::PowerCutLater) {
        disk.cut_power();
    }
    runtime.block_on(life.check(&JsonlStore::new(config(&home))));
    disk.calls()
}

/// Every call of a life, in every case. The threads of a log make the order of calls differ a
/// little from run to run; each number is played, whichever call it meets.
#[test]
fn what_was_acknowledged_survives_every_fault() {
    let given = std::env::var_os(SEED).and_then(|seed| seed.to_str()?.parse().ok());
    let seed = given.unwrap_or(u64::from(std::process::id()));
    let whole = run(Case::Lives(Fault::Short), usize::MAX, seed);
    println!("{SEED}={seed}, {whole} calls");
    assert!(whole > 150, "a life of {whole} calls has too little in it");
    let runs = whole * CASES.len();
    let (next, failed) = (AtomicUsize::new(0), std::sync::Mutex::new(BTreeSet::new()));
    let work = || {
        loop {
            let run_number = next.fetch_add(1, Ordering::Relaxed);
            if run_number >= runs {
                return;
            }
            let (case, at) = (CASES[run_number % CASES.len()], 1 + run_number / CASES.len());
            let seed = seed.wrapping_add(run_number as u64);
            let done = catch_unwind(AssertUnwindSafe(|| run(case, at, seed)));
            if done.is_err() {
                failed.lock().unwrap().insert(format!("{case:?} at call {at}, seed {seed}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |count| count.get().min(4)) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {runs}: {failed:#?}", failed.len());
}
