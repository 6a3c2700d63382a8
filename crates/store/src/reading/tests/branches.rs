//! Numbers that stand there twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::DamageKind;

/// Numbers with the letter of the writer.
fn written(pattern: &str) -> Vec<u8> {
    let record = |word: &str| {
        let (seq, writer) = word.split_at(word.len() - 1);
        note(seq.parse().unwrap(), writer)
    };
    pattern.split_whitespace().flat_map(record).collect()
}

/// Carries the plan out; the log, and the kept branches.
fn opened(medium: &Arc<Memory>) -> (String, Vec<String>) {
    let folded = fold(&source(medium));
    folded.plan.carry_out(&mut medium.hold()).unwrap();
    let again = fold(&source(medium));
    assert!(again.plan.is_empty(), "{:?}", again.damage);
    assert_eq!(again.fold.next_seq(), folded.fold.next_seq());
    let bytes: Vec<u8> = {
        let segments = medium.segments.lock().unwrap();
        segments.values().flat_map(|segment| segment.bytes.clone()).collect()
    };
    let kept = medium.kept.lock().unwrap();
    let kept = kept.iter().filter(|(name, _)| name.starts_with("branch-"));
    (pattern(&bytes), kept.map(|(_, bytes)| pattern(bytes)).collect())
}

fn pattern(bytes: &[u8]) -> String {
    let word = |found: Found| match found {
        Found::Event { event, .. } => {
            let text: serde_json::Value = serde_json::from_str(event.body.data.get()).unwrap();
            format!("{}{}", event.seq, text["text"].as_str().unwrap_or_default())
        }
        Found::Damaged { place, problem } => panic!("{place:?}: {problem}"),
    };
    let found = all(Reader::whole(&source(&log(&[bytes]))).unwrap());
    found.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn histories_are_taken_apart() {
    let cases = [
        // One writer after the other.
        ("0a 1a 2a 1b 2b", "0a 1a 2a", vec!["1b 2b"]),
        ("0a 1a 2a 1b", "0a 1a 2a", vec!["1b"]),
        ("0a 1a 2a 1b 2b 3b", "0a 1b 2b 3b", vec!["1a 2a"]),
        ("0a 1a 0b", "0a 1a", vec!["0b"]),
        // In turns.
        ("0a 1a 1b 2a 2b 3a 3b", "0a 1a 2a 3a", vec!["1b 2b 3b"]),
        ("0a 1a 2a 1b 3a 2b 3b 4b", "0a 1b 2b 3b 4b", vec!["1a 2a 3a"]),
        ("0a 1a 2a 1b 3a 4a 2b 3b", "0a 1a 2a 3a 4a", vec!["1b 2b 3b"]),
        // Three of them, one of which left another.
        ("0a 1a 2a 1b 2b 3b 2c", "0a 1b 2b 3b", vec!["1a 2a", "1a 2c"]),
        // Repeated beside it.
        ("0a 1a 2a 1b 1a 2b 1b 3b", "0a 1b 2b 3b", vec!["1a 2a"]),
    ];
    for (order, expected, branches) in cases {
        let medium = log(&[&written(order)]);
        let (kept_log, kept) = opened(&medium);
        assert_eq!(kept_log, expected, "{order}");
        assert_eq!(
            kept.iter().cloned().collect::<BTreeSet<_>>(),
            branches.iter().map(|text| (*text).to_owned()).collect(),
            "{order}"
        );
        let kept = medium.kept.lock().unwrap();
        // What stood at the end was cut off; else the whole is kept.
        let is_kept = |(name, bytes): (&String, &Vec<u8>)| match name.split_once('-') {
            Some(("original", _)) => *bytes == written(order),
            Some(("torn", _)) => written(order).ends_with(bytes),
            _ => false,
        };
        assert!(kept.iter().any(is_kept), "{order}");
    }
}

#[test]
fn the_second_writer_of_ten_eleven_twelve_is_reported() {
    let medium = log(&[&[notes(0..13, "a"), notes(10..12, "b")].concat()]);
    let source = source(&medium);
    let folded = fold(&source);
    assert_eq!(folded.fold.next_seq(), 13);
    assert_eq!(folded.damage.len(), 1);
    assert_eq!(folded.damage[0].kind, DamageKind::Branch { first: 10, last: 11 });
    assert_eq!(folded.damage[0].line, Some(14));
    let (told, _) = folded.plan.carry_out(&mut medium.hold()).unwrap();
    assert_eq!(told[0].branch.unwrap().bounds(), (10, 11));
    let name = &told[0].kept_in;
    assert!(name.starts_with("branch-10-"), "{name}");
    assert_eq!(medium.kept.lock().unwrap()[name], notes(10..12, "b"));
    assert_eq!(medium.bytes(0), notes(0..13, "a"));
}

#[test]
fn the_fold_says_whose_record_it_is() {
    // Both continue at 2; only for one of them a turn may end, or begin, there.
    let (a, b) = ([start(1, 1), end(2, 1)], [note(1, "b"), start(2, 1), end(3, 1)]);
    let order = [&note(0, "a"), &a[0], &b[0], &b[1], &a[1], &b[2]];
    let medium = log(&[&order.map(Vec::as_slice).concat()]);
    let folded = fold(&source(&medium));
    folded.plan.carry_out(&mut medium.hold()).unwrap();
    assert_eq!(medium.bytes(0), [note(0, "a"), b.concat()].concat());
    let kept = medium.kept.lock().unwrap();
    let branch = kept.iter().find(|(name, _)| name.starts_with("branch-1-")).unwrap();
    assert_eq!(branch.1, &a.concat());
}

#[test]
fn damage_between_histories_belongs_to_the_one_that_goes_on() {
    let mut bytes = written("0a 1a 2a 1b 2b 3b 4b 5b");
    let size = note(0, "a").len();
    bytes[5 * size + 4] ^= 1;
    let medium = log(&[&bytes]);
    let folded = fold(&source(&medium));
    let kinds: Vec<_> = folded.damage.iter().map(|damage| damage.kind).collect();
    let (hole, branch) =
        (DamageKind::Hole { first: 3, last: 3 }, DamageKind::Branch { first: 1, last: 2 });
    assert!(kinds.len() == 2, "{kinds:?}");
    assert!(kinds.contains(&hole) || kinds.contains(&branch), "{kinds:?}");
    let total = folded.fold.next_seq();
    assert_eq!(total, 6);
}

#[test]
fn more_writers_than_are_told_apart_stay_in_the_original() {
    let mut bytes = notes(0..5, "a");
    for writer in 0..40 {
        bytes.extend(notes(3..5, &format!("writer {writer}")));
    }
    let medium = log(&[&bytes]);
    let folded = fold(&source(&medium));
    let kinds: Vec<_> = folded.damage.iter().map(|damage| damage.kind).collect();
    let branches = kinds.iter().filter(|kind| matches!(kind, DamageKind::Branch { .. })).count();
    assert_eq!(branches, 15);
    assert!(kinds.iter().any(|kind| matches!(kind, DamageKind::Refused { .. })), "{kinds:?}");
    let (told, _) = folded.plan.carry_out(&mut medium.hold()).unwrap();
    assert_eq!(told.len(), 16);
    assert_eq!(medium.bytes(0), notes(0..5, "a"));
    let kept = medium.kept.lock().unwrap();
    assert!(kept.iter().any(|(name, kept)| name.starts_with("torn-") && bytes.ends_with(kept)));
}

#[test]
fn long_histories_in_turns_cost_what_they_are_long() {
    let mut bytes = notes(0..10, "a");
    for seq in 10..20_000 {
        bytes.extend(note(seq, "a"));
        bytes.extend(note(seq, "b"));
    }
    let medium = log(&[&bytes]);
    let (log, kept) = opened(&medium);
    assert!(log.ends_with(" 19999a"));
    assert!(kept.len() == 1 && kept[0].starts_with("10b "));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_record_of_every_writer_is_somewhere(
        common in 0_u64..5,
        lengths in proptest::collection::vec(1_u64..12, 2..4),
        batches in proptest::collection::vec((any::<prop::sample::Index>(), 1_usize..4), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut order: Vec<(u64, usize)> = (0..common).map(|seq| (seq, 0)).collect();
        let mut left: Vec<Vec<u64>> =
            lengths.iter().map(|length| (common..common + length).rev().collect()).collect();
        for (writer, size) in batches {
            let writer = writer.index(left.len());
            for _ in 0..size {
                order.extend(left[writer].pop().map(|seq| (seq, writer)));
            }
        }
        let lines: Vec<Vec<u8>> =
            order.iter().map(|(seq, writer)| note(*seq, &writer.to_string())).collect();
        let border = cut.index(lines.len() + 1);
        let medium = log(&[&lines[..border].concat(), &lines[border..].concat()]);
        let (kept_log, branches) = opened(&medium);
        let mut somewhere: BTreeSet<String> =
            kept_log.split_whitespace().map(str::to_owned).collect();
        let seq = |word: &str| word[..word.len() - 1].parse().unwrap();
        let log: Vec<u64> = kept_log.split_whitespace().map(seq).collect();
        prop_assert_eq!(&log, &(0..log.len() as u64).collect::<Vec<_>>());
        for branch in &branches {
            somewhere.extend(branch.split_whitespace().map(str::to_owned));
            prop_assert!(branch.split_whitespace().count() <= log.len());
        }
        let all: BTreeSet<String> =
            order.iter().map(|(seq, writer)| format!("{seq}{writer}")).collect();
        prop_assert_eq!(somewhere, all);
    }
}
