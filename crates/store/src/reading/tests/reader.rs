//! What a reader finds, and where.

use proptest::prelude::*;
use reins_schema::MAX_LINE_BYTES;

use super::super::Place;
use super::super::recent::{Recent, last_events};
use super::*;

/// Events, damage and what was passed over are all of the log.
fn check_sum(found: &[Found], ignored: u64, medium: &Memory) {
    let bytes = |found: &Found| match found {
        Found::Event { place, .. } | Found::Damaged { place, .. } => place.bytes,
    };
    let sum: u64 = found.iter().map(bytes).sum();
    assert_eq!(sum + ignored, medium.length(), "bytes are neither event nor damage");
}

fn read(source: &Source, medium: &Memory) -> Vec<Found> {
    let mut reader = Reader::whole(source).unwrap();
    let found: Vec<Found> = std::iter::from_fn(|| reader.next().unwrap()).collect();
    check_sum(&found, reader.ignored(), medium);
    found
}

/// Offset, length and problem of what is damaged.
fn damaged(found: &[Found]) -> Vec<(u64, u64, &str)> {
    let damaged = |found: &'_ Found| matches!(found, Found::Damaged { .. });
    let place = |found| match found {
        &Found::Damaged { place, ref problem } => (place.offset, place.bytes, problem.as_str()),
        Found::Event { .. } => unreachable!(),
    };
    found.iter().filter(|found| damaged(found)).map(place).collect()
}

#[test]
fn events_have_their_places() {
    let medium = log(&[&notes(0..3, "a"), b"", &notes(3..5, "a")]);
    let found = read(&source(&medium), &medium);
    let size = note(0, "a").len() as u64;
    let places: Vec<Place> = found
        .iter()
        .map(|found| match found {
            Found::Event { place, .. } => *place,
            Found::Damaged { .. } => panic!("{found:?}"),
        })
        .collect();
    let place = |segment, at| Place { segment, offset: at * size, bytes: size, line: Some(at + 1) };
    assert_eq!(places, [place(0, 0), place(0, 1), place(0, 2), place(2, 0), place(2, 1)]);
}

#[test]
fn records_glued_together_are_told_apart() {
    let (a, b, c) = (note(0, "a"), note(1, "b"), note(2, "c"));
    let bare = |line: &[u8]| line[..line.len() - 1].to_vec();
    let (size, half) = (a.len() as u64, 40);
    type Case<'a> = (&'a str, Vec<u8>, &'a [u64], Vec<(u64, u64)>);
    let cases: [Case<'_>; 6] = [
        ("no feed", [bare(&a), b.clone(), c.clone()].concat(), &[0, 1, 2], vec![(size - 1, 0)]),
        (
            "no feeds at all",
            [bare(&a), bare(&b), c.clone()].concat(),
            &[0, 1, 2],
            vec![(size - 1, 0), (2 * size - 2, 0)],
        ),
        (
            "appended to half a record",
            [a.clone(), b[..half].to_vec(), b.clone(), c.clone()].concat(),
            &[0, 1, 2],
            vec![(size, half as u64)],
        ),
        (
            "NUL between",
            [bare(&a), vec![0; 512], b.clone(), c.clone()].concat(),
            &[0, 1, 2],
            vec![(size - 1, 512)],
        ),
        ("behind NUL", [vec![0; 99], a.clone(), b.clone()].concat(), &[0, 1], vec![(0, 99)]),
        (
            "carriage returns",
            [bare(&a), b"\r\n".to_vec(), bare(&b), b"\r\n".to_vec()].concat(),
            &[0, 1],
            vec![(size - 1, 2), (2 * size, 2)],
        ),
    ];
    for (name, bytes, expected, holes) in cases {
        let medium = log(&[&bytes]);
        let found = read(&source(&medium), &medium);
        assert_eq!(seqs(&found), expected, "{name}");
        let spans: Vec<_> = damaged(&found).iter().map(|(at, size, _)| (*at, *size)).collect();
        assert_eq!(spans, holes, "{name}");
    }
}

#[test]
fn a_record_within_a_damaged_record_is_none() {
    let inner = note(1, "inner");
    let inner = std::str::from_utf8(&inner[..inner.len() - 1]).unwrap();
    let mut outer = line(0, "test/copy", &format!("{{\"copied\":{inner},\"more\":[{inner}]}}"));
    outer[30] ^= 1;
    let medium = log(&[&[outer, note(1, "real")].concat()]);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found), [1]);
    assert_eq!(damaged(&found).len(), 1);
}

#[test]
fn the_last_line_counts_when_it_has_its_end() {
    let bytes = notes(0..2, "a");
    let half = bytes.len() - 1;
    let medium = log(&[&bytes[..half]]);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found), [0]);
    assert_eq!(damaged(&found)[0].2, "the last line has no end");
    // Of an earlier segment the record was complete: another one was begun after it.
    let medium = log(&[&bytes[..half], &note(2, "a")]);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found), [0, 1, 2]);
    assert_eq!(damaged(&found)[0].1, 0);
}

#[test]
fn lines_over_the_limit_are_passed_over_with_bounded_memory() {
    let long = vec![b'x'; MAX_LINE_BYTES + 3];
    let medium = log(&[&[note(0, "a"), long, b"\n".to_vec(), note(2, "a")].concat()]);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found), [0, 2]);
    assert!(damaged(&found)[0].2.contains("more than"), "{:?}", damaged(&found));
}

#[test]
fn the_longest_line_is_an_event() {
    let frame = note(0, "").len();
    let text = "x".repeat(MAX_LINE_BYTES - frame);
    let bytes = [note(0, &text), note(1, "a")].concat();
    assert_eq!(bytes.len(), MAX_LINE_BYTES + note(1, "a").len());
    let medium = log(&[&bytes]);
    assert_eq!(seqs(&read(&source(&medium), &medium)), [0, 1]);
}

#[test]
fn what_cannot_be_read_is_a_stretch_and_reading_goes_on_after_it() {
    let size = note(0, "a").len() as u64;
    let medium = log(&[&notes(0..9, "a")]);
    medium.spoil(0, 2 * size..4 * size);
    medium.spoil(0, 7 * size + 5..8 * size);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found), [0, 1, 4, 5, 6, 8]);
    let spans: Vec<_> = damaged(&found).iter().map(|(at, size, _)| (*at, *size)).collect();
    assert_eq!(spans, [(2 * size, 2 * size), (7 * size, size)]);
    medium.spoil(0, 8 * size..9 * size);
    assert_eq!(seqs(&read(&source(&medium), &medium)), [0, 1, 4, 5, 6]);
}

#[test]
fn a_fork_sees_of_its_parent_only_what_it_shares() {
    let junk = b"of the parent\n".to_vec();
    let medium =
        log(&[&notes(0..3, "a"), &[notes(3..8, "a"), junk].concat(), &notes(5..7, "child")]);
    let source = Source { bounds: vec![2, 4], ..source(&medium) };
    let found = read(&source, &medium);
    assert_eq!(seqs(&found), [0, 1, 2, 3, 4, 5, 6]);
    assert!(damaged(&found).is_empty());
    // The last shared event is lost: those after it still do not count.
    let size = note(0, "a").len() as u64;
    medium.spoil(1, size..2 * size);
    let found = read(&source, &medium);
    assert_eq!(seqs(&found), [0, 1, 2, 3, 5, 6]);
    assert_eq!(damaged(&found).len(), 1);
    assert!(!fold(&source).plan.is_empty());
    for seq in 0..7 {
        let found = all(Reader::from_seq(&source, seq).unwrap());
        assert_eq!(seqs(&found), (seq..7).filter(|n| *n != 4).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_that_goes_while_it_is_opened_is_tried_again() {
    let segments = || log(&[&notes(0..2, "a"), &notes(2..4, "a"), &notes(4..6, "a")]);
    let medium = segments();
    let mut reader = Reader::whole(&source(&medium)).unwrap();
    medium.refuse.lock().unwrap().insert(1, 1);
    assert_eq!(seqs(&reader.batch(4, u64::MAX).unwrap()), [0, 1, 2, 3]);
    // Twice: it is there and cannot be opened.
    let medium = segments();
    medium.refuse.lock().unwrap().insert(1, 5);
    let mut reader = Reader::whole(&source(&medium)).unwrap();
    assert!(reader.batch(9, u64::MAX).is_err());
    // It is gone: then it is missing, and the rest is read.
    let medium = segments();
    medium.refuse.lock().unwrap().insert(1, 0);
    let mut reader = Reader::whole(&source(&medium)).unwrap();
    assert_eq!(seqs(&reader.batch(9, u64::MAX).unwrap()), [0, 1, 4, 5]);
}

#[test]
fn a_number_is_found_without_reading_what_is_before_it() {
    for sealed in [false, true] {
        let part = |first: u64| -> Vec<u8> {
            (first..first + 1000)
                .flat_map(|n| note(n, &"x".repeat(if n % 1000 == 500 { 300_000 } else { 90 })))
                .collect()
        };
        let medium = log(&[&part(0), &part(1000), b"", &part(2000), &part(3000)]);
        if sealed {
            (0..3).for_each(|number| medium.seal(number));
        }
        let source = source(&medium);
        for seq in (0..4000).step_by(37).chain([499, 500, 501, 999, 1000, 3999]) {
            *medium.read.lock().unwrap() = 0;
            let mut reader = Reader::from_seq(&source, seq).unwrap();
            assert_eq!(seqs(&reader.batch(2, u64::MAX).unwrap())[0], seq);
            let read = *medium.read.lock().unwrap();
            assert!(read < 1_600_000, "{read} bytes were read to find {seq}");
        }
        assert!(all(Reader::from_seq(&source, 4000).unwrap()).is_empty());
    }
}

#[test]
fn a_number_is_found_beside_damage() {
    let mut parts: Vec<Vec<u8>> = (0..4).map(|n| notes(n * 2000..(n + 1) * 2000, "a")).collect();
    let size = note(2000, "a").len();
    // First lines, a number that is another one, and many lines in the middle.
    parts[1][..3 * size].fill(b'#');
    parts[2][1000 * size + 7] = b'9';
    parts[3][500 * size..900 * size].fill(0);
    parts[0][1000 * note(0, "a").len()..].fill(b'\n');
    let medium = log(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    medium.segments.lock().unwrap().remove(&2);
    let source = source(&medium);
    let whole = seqs(&all(Reader::whole(&source).unwrap()));
    for seq in (0..8000).step_by(61) {
        let found = seqs(&all(Reader::from_seq(&source, seq).unwrap()));
        let expected: Vec<u64> = whole.iter().copied().filter(|n| *n >= seq).collect();
        assert_eq!(found, expected, "from {seq}");
    }
}

#[test]
fn the_end_says_whether_a_turn_is_open() {
    let filler = notes(1..400, "abc");
    let medium = log(&[&[start(0, 1), filler].concat(), &end(400, 1), &start(401, 2), b""]);
    let recent = last_events(&source(&medium), 4096).unwrap();
    assert_eq!(recent.in_turn, Some(true));
    assert_eq!(recent.last.unwrap().0.seq, 401);
    medium.segments.lock().unwrap().remove(&2);
    assert_eq!(last_events(&source(&medium), 4096).unwrap().in_turn, Some(false));
    medium.segments.lock().unwrap().remove(&1);
    let recent = last_events(&source(&medium), 4096).unwrap();
    assert_eq!((recent.in_turn, recent.last.unwrap().0.seq), (None, 399));
    assert_eq!(last_events(&source(&log(&[])), 4096).unwrap(), Recent::default());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_undamaged_record_is_found_where_it_is(
        counts in proptest::collection::vec(0_u64..40, 1..4),
        flips in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 1_usize..200),
            0..12,
        ),
    ) {
        let mut next = 0;
        let mut segments = Vec::new();
        // Number, segment, and offset of each record.
        let mut records = Vec::new();
        for (segment, count) in counts.iter().enumerate() {
            let mut bytes = Vec::new();
            for _ in 0..*count {
                let text = "y".repeat(usize::try_from(next * 7 % 90).unwrap());
                records.push((next, segment, bytes.len()));
                bytes.extend(note(next, &text));
                next += 1;
            }
            segments.push(bytes);
        }
        let whole = segments.clone();
        for (place, value, length) in flips {
            let total: usize = segments.iter().map(Vec::len).sum();
            if total == 0 { continue }
            let mut at = place.index(total);
            let segment = segments.iter_mut().find(|segment| {
                let inside = at < segment.len();
                if !inside { at -= segment.len(); }
                inside
            }).unwrap();
            let end = (at + if length > 100 { length } else { 1 }).min(segment.len());
            segment[at..end].fill(value);
        }
        let medium = log(&segments.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let found = read(&source(&medium), &medium);
        let mut expected = Vec::new();
        for (seq, segment, offset) in records {
            let length = note(seq, &"y".repeat(usize::try_from(seq * 7 % 90).unwrap())).len();
            let span = offset..offset + length - 1;
            if segments[segment][span.clone()] == whole[segment][span.clone()] {
                expected.push((seq, u32::try_from(segment).unwrap(), offset as u64));
            } else {
                let damaged = found.iter().any(|found| matches!(found, Found::Damaged { place, .. }
                    if place.segment as usize == segment
                        && place.offset <= span.end as u64
                        && place.offset + place.bytes > span.start as u64));
                prop_assert!(damaged, "the damage of {seq} is not named");
            }
        }
        let events: Vec<_> = found.iter().filter_map(|found| match found {
            Found::Event { event, place, .. } => Some((event.seq, place.segment, place.offset)),
            Found::Damaged { .. } => None,
        }).collect();
        prop_assert_eq!(events, expected);
    }
}

#[test]
fn ten_thousand_damaged_lines_cost_no_more_than_good_ones() {
    let lines: Vec<u8> = (0..20_000)
        .flat_map(|seq| {
            let mut line = note(seq, "a");
            if seq % 2 == 1 {
                line[20] ^= 1;
            }
            line
        })
        .collect();
    let medium = log(&[&lines]);
    let found = read(&source(&medium), &medium);
    assert_eq!(seqs(&found).len(), 10_000);
    assert_eq!(damaged(&found).len(), 10_000);
    // One line of them all, and one of nothing but ends, are no trouble either.
    let glued: Vec<u8> = lines.iter().copied().filter(|byte| *byte != b'\n').collect();
    let ends = [b"{\"seq\":1,".to_vec(), b",\"sum\":\"00000000\"}".repeat(100_000)].concat();
    let medium = log(&[&[glued, b"\n".to_vec(), ends, b"\n".to_vec()].concat()]);
    assert_eq!(seqs(&read(&source(&medium), &medium)).len(), 10_000);
}
