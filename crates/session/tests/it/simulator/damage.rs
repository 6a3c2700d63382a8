//! Logs of random schedules with damage: whatever is lost, the rest folds, keeps every rule, and a
//! session goes on from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reins_schema::{Draft, Event, Payload, SessionRecovered, SourceRange, SurfaceOp};
use reins_session::{Applied, Fold, FoldError, Input, Untold};
use serde_json::value::RawValue;

use super::rng::Rng;
use super::world::World;
use crate::made;

/// The log of a schedule, as it is on disk in the middle of it.
pub(super) fn log(seed: u64) -> Result<Vec<Arc<Event>>, String> {
    let mut world = World::new(seed, None);
    world.step(Input::Opened { recovered: Vec::new() })?;
    for _ in 0..40 + world.rng.below(200) {
        world.act()?;
    }
    Ok(world.log)
}

/// As a store reads: what was read before is passed over, a gap is a loss.
pub(super) fn read(fold: &mut Fold, log: &[Arc<Event>]) -> Result<Vec<FoldError>, String> {
    let mut aside = Vec::new();
    for event in log {
        if event.seq < fold.next_seq() {
            continue;
        }
        fold.lose(event.seq);
        match fold.apply_or_set_aside(event) {
            Ok(Applied::Folded) => {}
            Ok(Applied::Aside(problem)) => aside.push(problem),
            Err(problem) => return Err(problem.to_string()),
        }
        if fold.next_seq() != event.seq + 1 {
            return Err(format!("event {} has not taken its number", event.seq));
        }
        reins_session::check(fold).map_err(|e| format!("after event {}: {e}", event.seq))?;
    }
    Ok(aside)
}

pub(super) fn spoil(log: &mut Vec<Arc<Event>>, rng: &mut Rng) -> &'static str {
    match rng.below(7) {
        0 => {
            let percent = [1, 5, 30, 90][rng.below(4)];
            log.retain(|_| !rng.chance(percent));
            "events are lost"
        }
        1 => {
            for _ in 0..=rng.below(4) {
                let from = rng.below(log.len() + 1);
                let to = (from + rng.below(30)).min(log.len());
                log.drain(from..to);
            }
            "spans are lost"
        }
        2 => {
            log.drain(..rng.below(log.len() + 1));
            "the beginning is lost"
        }
        3 => {
            for _ in 0..=rng.below(5) {
                let event = rng.pick(log).cloned();
                insert(log, event.as_deref(), rng);
            }
            "events stand there again, under new numbers"
        }
        4 => {
            for _ in 0..=rng.below(5) {
                insert(log, Some(&note()), rng);
            }
            "another owner's events stand between"
        }
        5 => {
            for _ in 0..=rng.below(5) {
                let (a, b) = (rng.below(log.len()), rng.below(log.len()));
                let (body, other) = (log[a].body.clone(), log[b].body.clone());
                log[a] = Arc::new(Event { body: other, ..*log[a] });
                log[b] = Arc::new(Event { body, ..*log[b] });
            }
            log.retain(|_| !rng.chance(3));
            "events have changed places"
        }
        _ => {
            for _ in 0..=rng.below(5) {
                let at = rng.below(log.len());
                let again = log[at].clone();
                log.insert(at + 1, again);
            }
            "records are repeated"
        }
    }
}

fn note() -> Event {
    let data = RawValue::from_string("{}".to_owned()).unwrap_or_default();
    let kind = "other/thing".to_owned();
    let body = Draft { kind, v: None, data, surface: None, sources: Vec::new(), ignorable: true };
    Event { seq: 0, time: 0, body }
}

/// Puts an event somewhere; what follows gets other numbers.
fn insert(log: &mut Vec<Arc<Event>>, event: Option<&Event>, rng: &mut Rng) {
    let Some(event) = event else { return };
    let at = rng.below(log.len() + 1);
    let Some(first) = log.get(at).map(|event| event.seq) else { return };
    let moved = |seq: u64| if seq >= first { seq + 1 } else { seq };
    for event in &mut log[at..] {
        let mut next = Event::clone(event);
        next.seq += 1;
        if let Some(SurfaceOp::Replace(a, b)) = &mut next.body.surface {
            (*a, *b) = (moved(*a), moved(*b));
        }
        for source in &mut next.body.sources {
            let (a, b) = source.bounds();
            *source = SourceRange::Range(moved(a), moved(b));
        }
        *event = Arc::new(next);
    }
    log.insert(at, Arc::new(Event { seq: first, ..event.clone() }));
}

fn told(untold: Untold) -> Vec<SessionRecovered> {
    let Untold { lost, aside } = untold;
    let any = !lost.is_empty() || !aside.is_empty();
    let damage = "as the test wants it".to_owned();
    let one = || SessionRecovered { damage, lost, aside, ..SessionRecovered::default() };
    any.then(one).into_iter().collect()
}

/// One log, damaged, folded, gone on with, and folded again.
fn damaged(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0xDA7A);
    let mut log = log(seed)?;
    if log.is_empty() {
        return Ok(());
    }
    let what = spoil(&mut log, &mut rng);
    let with = |problem: String| format!("{what}: {problem}");
    let mut fold = made::empty_fold();
    read(&mut fold, &log).map_err(with)?;
    let mut world = World::on(fold.clone(), seed, None);
    world.step(Input::Opened { recovered: told(fold.untold()) }).map_err(with)?;
    if world.core.fold().untold() != Untold::default() {
        return Err(with("what is told is told again".to_owned()));
    }
    for _ in 0..40 {
        world.act().map_err(with)?;
    }
    world.converge().map_err(with)?;
    let mut again = made::empty_fold();
    log.retain(|event| event.seq < fold.next_seq());
    log.extend(world.log.iter().cloned());
    read(&mut again, &log).map_err(with)?;
    if again != *world.core.fold() {
        return Err(with("the log folds to something else".to_owned()));
    }
    Ok(())
}

#[test]
fn a_session_goes_on_from_any_damage() {
    if let Some(seed) = super::number("REINS_SIM_SEED") {
        assert_eq!(damaged(seed), Ok(()));
        return;
    }
    // Each is folded and played several times, so fewer of them are.
    for seed in 0..super::number("REINS_SIM_SCHEDULES").map_or(1500, |all| all / 5) {
        if let Err(problem) = super::caught(|| damaged(seed)) {
            panic!("REINS_SIM_SEED={seed} replays it: {problem}");
        }
    }
}

#[test]
fn an_undamaged_log_means_the_same_to_both() {
    for seed in 0..200 {
        let log = log(seed).unwrap_or_default();
        let (mut strict, mut lenient) = (made::empty_fold(), made::empty_fold());
        for event in &log {
            assert_eq!(strict.apply(event), Ok(()));
            assert_eq!(lenient.apply_or_set_aside(event), Ok(Applied::Folded));
            assert!(strict == lenient, "seed {seed}, event {}", event.seq);
        }
        assert_eq!(lenient.untold(), Untold::default());
    }
}

/// The events of the step that an event belongs to (without one, only itself), with the shorter
/// results that stand for theirs.
fn step_of(log: &[Arc<Event>], at: usize) -> HashSet<u64> {
    let bound = |i: &usize| ["step/start", "step/end"].contains(&log[*i].body.kind.as_str());
    let first = (0..=at).rev().find(bound).unwrap_or(at);
    let last = (at..log.len()).find(bound).unwrap_or(log.len() - 1);
    let mut of: HashSet<u64> = log[first..=last].iter().map(|event| event.seq).collect();
    for event in log {
        let (kind, surface) = (event.body.kind.as_str(), event.body.surface);
        if let ("tool/result", Some(SurfaceOp::Replace(old, _))) = (kind, surface)
            && of.contains(&old)
        {
            of.insert(event.seq);
        }
    }
    of
}

/// Each single event in turn is lost.
#[test]
fn one_lost_event_costs_no_message_of_another_step() {
    for seed in 0..60 {
        let log = log(seed).unwrap_or_default();
        let mut whole = made::empty_fold();
        for event in &log {
            assert_eq!(whole.apply(event), Ok(()));
        }
        for at in 0..log.len() {
            if let Ok(Payload::UserMessage(lost)) = Payload::read(&log[at].body)
                && lost.inbox.is_empty()
            {
                // Another message that was sent while the step was assembled is then taken for it,
                // and stands one step earlier; a replace may find it there.
                continue;
            }
            let of = step_of(&log, at);
            let mut rest = log.clone();
            let gone = rest.remove(at);
            let mut fold = made::empty_fold();
            let aside = read(&mut fold, &rest);
            let left = fold.surface().nodes().iter().map(|node| &node.message.id);
            let left: HashSet<_> = left.collect();
            for node in whole.surface().nodes() {
                let is_there = left.contains(&node.message.id) || of.contains(&node.seq);
                let kind = &gone.body.kind;
                let seq = gone.seq;
                assert!(is_there, "seed {seed}: without {kind} {seq}: {} {aside:?}", node.seq);
            }
        }
    }
}

/// The event that takes input out of the inbox is lost; the step goes on. The input must not enter
/// twice, nor be missing before its answer.
#[test]
fn input_that_entered_in_a_lost_event_does_not_wait() {
    let (mut seen, mut left) = (0, 0);
    for seed in 0..100 {
        let log = log(seed).unwrap_or_default();
        let mut texts = HashMap::new();
        for at in 0..log.len() {
            if let Ok(Payload::InboxSpliced(splice)) = Payload::read(&log[at].body) {
                texts.extend(splice.inserted.iter().map(|m| (m.id.clone(), m.text())));
            }
            let Ok(Payload::UserMessage(entered)) = Payload::read(&log[at].body) else { continue };
            let is_replace = log[at].body.surface != Some(SurfaceOp::Append);
            let goes_on = log[at..].iter().find(|e| {
                e.body.kind == "request/sent" && e.body.data.get().contains("\"purpose\":\"turn\"")
            });
            let ends = log[at..].iter().find(|e| e.body.kind == "step/end");
            let (Some(goes_on), false) = (goes_on, is_replace) else { continue };
            if ends.is_some_and(|end| end.seq < goes_on.seq) {
                continue;
            }
            let mut rest = log.clone();
            rest.remove(at);
            let upto = rest.iter().position(|e| e.seq == goes_on.seq).unwrap_or(0);
            let mut fold = made::empty_fold();
            assert!(read(&mut fold, &rest[..=upto]).is_ok());
            for id in &entered.inbox {
                if fold.inbox().find(id).is_some() {
                    left += 1;
                    continue;
                }
                let said = texts.get(id).map(String::as_str).unwrap_or_default();
                let mut nodes = fold.surface().nodes().iter();
                let is_there = nodes.any(|node| node.message.text().contains(said));
                assert!(is_there && !said.is_empty(), "seed {seed}: {id} is gone");
                seen += 1;
            }
        }
    }
    // The log does not tell when a step claims: what people send and move just then is in doubt.
    assert!(seen > 100 && left * 50 < seen, "{seen} were found, {left} wait");
}
