//! Snapshots of random schedules: the text is the fold, and nothing else is taken for one.

use reins_session::{EventType, Fold, KnownTypes, SnapshotError};

use super::damage::{log, read, spoil};
use super::rng::Rng;
use crate::made;

fn again(text: &str) -> Result<Fold, SnapshotError> {
    Fold::restore(made::header(), made::known(), text)
}

/// At every event the fold is stored and read back, and both go on.
#[test]
fn a_snapshot_is_the_fold() {
    for seed in 0..150 {
        let mut log = log(seed).unwrap_or_default();
        if seed % 2 == 1 && !log.is_empty() {
            spoil(&mut log, &mut Rng::new(seed));
        }
        let mut fold = made::empty_fold();
        let mut restored = made::empty_fold();
        for event in &log {
            let one = std::slice::from_ref(event);
            assert_eq!(read(&mut fold, one).is_ok(), read(&mut restored, one).is_ok());
            assert!(fold == restored, "seed {seed}: differs after event {}", event.seq);
            let text = fold.snapshot().unwrap_or_default();
            match again(&text) {
                Ok(same) => restored = same,
                Err(problem) => panic!("seed {seed}, event {}: {problem}", event.seq),
            }
            assert!(fold == restored, "seed {seed}: event {} is stored otherwise", event.seq);
        }
    }
}

/// Cut anywhere, and with any byte changed, a text is refused or is a fold that keeps every rule.
#[test]
fn a_damaged_snapshot_is_no_panic() {
    let mut rng = Rng::new(3);
    for seed in 0..30 {
        let mut fold = made::empty_fold();
        let log = log(seed).unwrap_or_default();
        let upto = rng.below(log.len() + 1);
        assert!(read(&mut fold, &log[..upto]).is_ok());
        let text = fold.snapshot().unwrap_or_default();
        for end in 0..text.len() {
            if rng.chance(10) && text.is_char_boundary(end) {
                assert!(again(&text[..end]).is_err(), "cut at {end}");
            }
        }
        for _ in 0..300 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bytes.len());
                let to = [b"0123456789"[rng.below(10)], b"{}[],:\"nt"[rng.below(9)]];
                bytes[at] = to[rng.below(2)];
            }
            let Ok(text) = String::from_utf8(bytes) else { continue };
            if let Ok(mut fold) = again(&text) {
                assert_eq!(reins_session::check(&fold), Ok(()));
                // Whatever comes next is folded or refused.
                for event in &log[upto..] {
                    drop(fold.apply_or_set_aside(event));
                }
            }
        }
    }
    for text in ["", "{}", "[]", "{\"v\":1}", "null", "{\"v\":1,\"surface\":[[[[", "\u{0}"] {
        assert!(matches!(again(text), Err(SnapshotError::Shape(_))), "{text}");
    }
    assert_eq!(again("{\"v\":77}").map(drop), Err(SnapshotError::Version(77)));
}

#[test]
fn a_snapshot_without_what_is_kept_now_is_refused() {
    let mut known = made::known();
    let text = made::empty_fold().snapshot().unwrap_or_default();
    let of = EventType { version: 1, ignorable: true, keep_last: false };
    known.insert("other/thing", of);
    let restored = Fold::restore(made::header(), known.clone(), &text).map(drop);
    assert_eq!(restored, Ok(()), "nothing of it is wanted");
    known.insert("other/thing", EventType { keep_last: true, ..of });
    let restored = Fold::restore(made::header(), known, &text).map(drop);
    assert_eq!(restored, Err(SnapshotError::Kept("other/thing".to_owned())));
    let fewer = Fold::restore(made::header(), KnownTypes::default(), &text).map(drop);
    assert_eq!(fewer, Ok(()), "more was kept than is wanted");
}
