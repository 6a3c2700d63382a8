//! Deterministic simulation: random schedules from a seed, with a crash after any event.

mod answers;
mod cover;
mod damage;
mod limits;
mod moves;
mod rng;
mod sabotage;
mod shadow;
mod snapshot;
mod world;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use reins_session::{Input, Sabotage};

use cover::Cover;
use world::World;

/// Plays one schedule.
fn schedule(seed: u64, rule: Option<Sabotage>) -> Result<Cover, String> {
    caught(|| {
        let mut world = World::new(seed, rule);
        world.sabotage_core();
        world.step(Input::Opened { recovered: Vec::new() })?;
        for _ in 0..50 + world.rng.below(120) {
            world.act()?;
        }
        world.converge()?;
        Ok(world.cover)
    })
}

/// A panic is a problem like others.
fn caught<T>(play: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let played = std::panic::catch_unwind(AssertUnwindSafe(play));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Err(text.or(literal).unwrap_or_else(|| "a panic".to_owned()))
    })
}

#[expect(clippy::disallowed_methods, reason = "the number of schedules is the caller's choice")]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name}={text} is not a number"),
    }
}

fn play(count: u64) -> Result<Cover, (u64, String)> {
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<Cover> = std::thread::scope(|scope| {
        let worker = || {
            let mut cover = Cover::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= count || failed.load(Ordering::Relaxed) != u64::MAX {
                    return cover;
                }
                match schedule(seed, None) {
                    Ok(part) => cover.add(part),
                    Err(_) => drop(failed.fetch_min(seed, Ordering::Relaxed)),
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let seed = failed.load(Ordering::Relaxed);
    if seed != u64::MAX {
        let problem = schedule(seed, None).err();
        return Err((seed, problem.unwrap_or_else(|| "not reproducible".to_owned())));
    }
    let mut cover = Cover::default();
    parts.into_iter().for_each(|part| cover.add(part));
    Ok(cover)
}

#[test]
fn random_schedules_keep_every_rule() {
    if let Some(seed) = number("REINS_SIM_SEED") {
        if let Err(problem) = schedule(seed, None) {
            panic!("seed {seed}: {problem}");
        }
        return;
    }
    let count = number("REINS_SIM_SCHEDULES").unwrap_or(2000);
    let cover = match play(count) {
        Ok(cover) => cover,
        Err((seed, problem)) => panic!("REINS_SIM_SEED={seed} replays it: {problem}"),
    };
    println!("{}", cover.report());
    println!("{} schedules, {} inputs, {} crashes", cover.schedules, cover.inputs, cover.crashes);
    assert_eq!(cover.schedules, count, "every schedule was played");
    assert!(cover.inputs >= 40 * cover.schedules, "at least 40 inputs a schedule");
    if count >= 2000 {
        assert_eq!(cover.missing(), Vec::<String>::new(), "no schedule reached these");
    }
}
