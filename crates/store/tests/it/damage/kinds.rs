//! The kinds of damage.

use reins_schema::{Draft, Event};
use serde_json::value::to_raw_value;

use super::case::{Case, each, name};
use super::logs::{self, Record, Rng};
use crate::setup::note;

/// The record after this one, if there is one.
fn next(case: &Case, record: &Record) -> Option<Record> {
    case.records().iter().find(|other| other.seq == record.seq + 1).cloned()
}

/// A record that another one follows.
fn followed(case: &Case, rng: &mut Rng) -> Record {
    let before_last = case.records().len() - 1;
    case.records()[rng.below(before_last)].clone()
}

#[tokio::test]
async fn a_torn_tail() {
    each("torn", |case, rng| {
        let last = case.last();
        let cut = last.start + 1 + rng.below(last.end - last.start - 1);
        let is_whole = cut == last.end - 1;
        if !is_whole || case.is_end(last.segment) {
            case.lost.insert(last.seq);
        }
        case.content(last.segment).truncate(cut);
        case.spot(last.segment, last.start, cut);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_tail_torn_far_before_the_end() {
    each("torn far", |case, rng| {
        let record = case.any(rng);
        let cut = record.start + 1 + rng.below(record.end - record.start - 2);
        let segment = record.segment;
        case.content(segment).truncate(cut);
        case.files.retain(|name, _| logs::segment(name).is_none_or(|number| number <= segment));
        case.lost.extend(record.seq..=case.last().seq);
        case.spot(segment, record.start, cut);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn flipped_bits() {
    each("flipped", |case, rng| {
        for _ in 0..=rng.below(3) {
            let record = case.any(rng);
            if case.spots.iter().any(|s| s.from == record.start && s.file == name(record.segment)) {
                continue;
            }
            let at = record.start + rng.below(record.end - record.start);
            case.content(record.segment)[at] ^= 1 << rng.below(8);
            case.lose_within(record.segment, at, at + 1);
            case.spot(record.segment, record.start, record.end);
        }
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_block_of_nul() {
    each("nul", |case, rng| {
        let record = case.any(rng);
        let from = record.start + rng.below(record.end - record.start);
        let content = case.content(record.segment);
        let to = (from + 1 + rng.below(700)).min(content.len());
        content[from..to].fill(0);
        case.lose_within(record.segment, from, to);
        case.spot(record.segment, from, to);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn nul_behind_the_end() {
    each("nul behind", |case, rng| {
        let segment = case.last().segment;
        let content = case.content(segment);
        let from = content.len();
        content.extend(vec![0; 1 + rng.below(5000)]);
        let to = content.len();
        case.spot(segment, from, to);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_line_cut_with_the_next_one_glued_on() {
    each("glued", |case, rng| {
        let first = followed(case, rng);
        let second = next(case, &first).filter(|second| second.segment == first.segment)?;
        let from = first.start + 1 + rng.below(first.end - first.start - 1);
        let to = second.start + rng.below(second.end - second.start - 1);
        case.content(first.segment).drain(from..to);
        case.lose_within(first.segment, from, to);
        case.spot(first.segment, first.start, from);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn deleted_lines() {
    each("deleted", |case, rng| {
        let first = followed(case, rng);
        let rest = case.last().seq - first.seq;
        let last = first.seq + rng.below(usize::try_from(rest.min(5)).unwrap()) as u64;
        let (mut removed, mut segment) = (0, first.segment);
        for record in case.records().to_vec() {
            if record.segment != segment {
                (removed, segment) = (0, record.segment);
            }
            if (first.seq..=last).contains(&record.seq) {
                case.content(segment).drain(record.start - removed..record.end - removed);
                removed += record.end - record.start;
                case.lost.insert(record.seq);
            } else if record.seq == last + 1 {
                let at = record.start - removed;
                case.content(segment);
                case.spot(segment, at, at);
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test]
async fn records_that_stand_there_twice() {
    each("twice", |case, rng| {
        let from = case.any_own(rng);
        let rest: Vec<Record> =
            case.records().iter().filter(|record| record.seq >= from.seq).cloned().collect();
        let count = 1 + rng.below(rest.len().min(4));
        let copies: Vec<u8> = rest[..count].iter().flat_map(|r| r.line.clone()).collect();
        // Directly behind the first ones, or anywhere later.
        let later = &rest[count - 1..];
        let at = &later[rng.below(2) * rng.below(later.len())];
        case.content(at.segment).splice(at.end..at.end, copies.iter().copied());
        case.spot(at.segment, at.end, at.end + 2 * copies.len());
        Some(())
    })
    .await;
}

/// Notes of another writer with these numbers.
fn others(first: u64, count: usize) -> Vec<(u64, Vec<u8>)> {
    let line = |seq| (seq, note(seq, "of another writer").encode().unwrap().0);
    (first..first + count as u64).map(line).collect()
}

#[tokio::test]
async fn numbers_of_a_shorter_history_that_stand_there_again() {
    each("shorter", |case, rng| {
        let at = case.any(rng);
        let tail = usize::try_from(case.last().seq - at.seq).unwrap() + 1;
        let other = others(at.seq, 1 + rng.below(tail));
        let segment = case.last().segment;
        let content = case.content(segment);
        let from = content.len();
        content.extend(other.into_iter().flat_map(|(_, line)| line));
        let to = content.len();
        case.spot(segment, from, to);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn numbers_of_a_longer_history_that_stand_there_again() {
    each("longer", |case, rng| {
        // Of a single record nobody can say whose next one it precedes.
        let at = followed(case, rng);
        let tail = usize::try_from(case.last().seq - at.seq).unwrap() + 1;
        let other = others(at.seq, tail + 1 + rng.below(3));
        let segment = case.last().segment;
        let content = case.content(segment);
        content.extend(other.iter().flat_map(|(_, line)| line.clone()));
        let replaced: Vec<Record> =
            case.records().iter().filter(|record| record.seq >= at.seq).cloned().collect();
        let mut of_segment = None;
        for record in replaced {
            // The branch is named once, where it begins.
            if of_segment.is_none() {
                of_segment = Some(record.segment);
                case.content(record.segment);
                case.spot(record.segment, record.start, record.end);
            }
            case.lost.insert(record.seq);
        }
        case.also.extend(other);
        case.is_contested = true;
        Some(())
    })
    .await;
}

#[tokio::test]
async fn two_writers_that_took_turns() {
    each("interleaved", |case, rng| {
        let from = case.any_own(rng);
        let segment = from.segment;
        let mut mixed = Vec::new();
        let (mut first, mut to) = (None, 0);
        let of_segment = |r: &&Record| r.segment == segment && r.seq >= from.seq;
        for record in case.records().iter().filter(of_segment) {
            mixed.extend_from_slice(&record.line);
            first.get_or_insert(from.start + mixed.len());
            for (_, line) in others(record.seq, 1) {
                mixed.extend(line);
            }
            to = from.start + mixed.len();
        }
        let last = case.records().iter().rfind(|r| r.segment == segment)?.clone();
        case.content(segment).splice(from.start..last.end, mixed);
        case.spot(segment, first?, to);
        Some(())
    })
    .await;
}

/// Replaces the content of a segment that others follow, or of any.
fn replace(case: &mut Case, rng: &mut Rng, content: &dyn Fn(&[u8]) -> Vec<u8>) -> Option<()> {
    let segment = case.any(rng).segment;
    let sealed = format!("{}.zst", name(segment));
    let file = if case.files.contains_key(&sealed) { sealed } else { name(segment) };
    let content = content(&case.files[&file]);
    let of_segment: Vec<u64> =
        case.records().iter().filter(|r| r.segment == segment).map(|r| r.seq).collect();
    let after = case.records().iter().find(|r| r.segment > segment).cloned();
    let spot = |file: String, to: usize| super::case::Spot { file, from: 0, to };
    if content.is_empty() && file.ends_with(".log") {
        // An empty file says nothing; what follows it does.
        let after = after?.segment;
        case.content(after);
        case.spots.push(spot(name(after), 0));
    } else {
        case.spots.push(spot(file.clone(), 1 << 20));
        // The gap may be named as well.
        if let Some(after) = after.filter(|_| content.is_empty()) {
            case.content(after.segment);
            case.spots.push(spot(name(after.segment), 0));
        }
    }
    case.files.insert(file, content);
    case.lost.extend(of_segment);
    Some(())
}

#[tokio::test]
async fn a_file_of_zero_bytes() {
    each("empty", |case, rng| replace(case, rng, &|_| Vec::new())).await;
}

#[tokio::test]
async fn a_file_of_random_bytes() {
    each("random", |case, rng| {
        let bytes: Vec<u8> =
            (0..1 + rng.below(5000)).map(|_| u8::try_from(rng.below(256)).unwrap()).collect();
        replace(case, rng, &|_| bytes.clone())
    })
    .await;
}

#[tokio::test]
async fn a_missing_segment() {
    each("missing", |case, rng| {
        let segment = case.any(rng).segment;
        let after = case.records().iter().find(|r| r.segment > segment)?.segment;
        case.content(segment);
        case.files.remove(&name(segment));
        let gone: Vec<u64> =
            case.records().iter().filter(|r| r.segment == segment).map(|r| r.seq).collect();
        case.lost.extend(gone);
        case.content(after);
        case.spot(after, 0, 0);
        Some(())
    })
    .await;
}

/// Changes a sealed segment.
fn spoil_sealed(
    case: &mut Case,
    rng: &mut Rng,
    spoil: &dyn Fn(&mut Vec<u8>, &mut Rng) -> bool,
) -> Option<()> {
    let sealed: Vec<String> =
        case.files.keys().filter(|name| name.ends_with(".log.zst")).cloned().collect();
    if sealed.is_empty() {
        return None;
    }
    let file = sealed[rng.below(sealed.len())].clone();
    let segment = logs::segment(&file)?;
    let bytes = case.files.get_mut(&file)?;
    if !spoil(bytes, rng) {
        return None;
    }
    let of_segment: Vec<u64> =
        case.records().iter().filter(|r| r.segment == segment).map(|r| r.seq).collect();
    case.doubtful.extend(of_segment);
    case.spots.push(super::case::Spot { file, from: 0, to: 1 << 20 });
    Some(())
}

/// The table at the end of a sealed segment of one frame: its header, one entry, its footer.
const TABLE_BYTES: usize = 8 + 8 + 9;

#[tokio::test]
async fn a_sealed_segment_that_is_cut() {
    each("sealed, cut", |case, rng| {
        spoil_sealed(case, rng, &|bytes, rng| {
            bytes.truncate(rng.below(bytes.len()));
            true
        })
    })
    .await;
}

#[tokio::test]
async fn a_flipped_bit_in_a_frame() {
    each("sealed, flipped", |case, rng| {
        spoil_sealed(case, rng, &|bytes, rng| {
            let was = zstd::decode_all(&bytes[..]).unwrap();
            let at = rng.below(bytes.len() - TABLE_BYTES);
            bytes[at] ^= 1 << rng.below(8);
            // There are bits that mean nothing.
            !zstd::decode_all(&bytes[..]).is_ok_and(|plain| plain == was)
        })
    })
    .await;
}

#[tokio::test]
async fn a_flipped_bit_in_the_table_of_frames() {
    each("table, flipped", |case, rng| {
        spoil_sealed(case, rng, &|bytes, rng| {
            let at = bytes.len() - 1 - rng.below(TABLE_BYTES);
            bytes[at] ^= 1 << rng.below(8);
            true
        })?;
        // Without the table the frames are found one after the other.
        case.doubtful.clear();
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_header_that_is_none() {
    each("header", |case, rng| {
        let mut other = crate::setup::header(&reins_schema::SessionId::new("other"));
        other.cwd = "/elsewhere".into();
        let other = serde_json::to_vec(&other).unwrap();
        let is_fork = case.made.seed.is_multiple_of(4);
        let header = match rng.below(if is_fork { 3 } else { 4 }) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(b"\x00\xff{\"format\":".to_vec()),
            _ => Some(other),
        };
        let to = header.as_ref().map_or(0, Vec::len);
        case.files.remove("header.json");
        case.files.extend(header.map(|bytes| ("header.json".to_owned(), bytes)));
        let file = "header.json".to_owned();
        case.spots.push(super::case::Spot { file, from: 0, to });
        Some(())
    })
    .await;
}

/// Appends an event of a type that nobody knows.
fn unknown(case: &mut Case, ignorable: bool) -> Option<()> {
    let last = case.last();
    let body = Draft {
        kind: "future/thing".to_owned(),
        v: Some(7),
        data: to_raw_value(&serde_json::json!({ "a": [1, 2] })).unwrap(),
        surface: None,
        sources: Vec::new(),
        ignorable,
    };
    let seq = last.seq + 1;
    let line = Event { seq, time: 5, body }.encode().unwrap().0;
    case.content(last.segment).extend_from_slice(&line);
    case.also.insert(seq, line);
    case.is_read_only = !ignorable;
    Some(())
}

#[tokio::test]
async fn a_type_that_may_be_unknown() {
    each("unknown optional", |case, _| unknown(case, true)).await;
}

#[tokio::test]
async fn a_type_that_must_be_known() {
    each("unknown required", |case, _| unknown(case, false)).await;
}

#[tokio::test]
async fn a_snapshot_that_is_none() {
    each("snapshot", |case, rng| {
        let bytes = match rng.below(4) {
            0 => Vec::new(),
            1 => b"{\"v\":1,".to_vec(),
            2 => vec![0; 4096],
            _ => {
                let mut bytes = case.files.get("snapshot.json")?.clone();
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
                bytes
            }
        };
        case.files.insert("snapshot.json".to_owned(), bytes);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn lines_that_end_as_on_another_system() {
    each("crlf", |case, rng| {
        let segment = case.any(rng).segment;
        let content = case.content(segment);
        let text = String::from_utf8(content.clone()).unwrap();
        *content = text.replace('\n', "\r\n").into_bytes();
        let to = content.len();
        case.spot(segment, 0, to);
        Some(())
    })
    .await;
}

#[tokio::test]
async fn lines_of_somebody_else() {
    each("foreign", |case, rng| {
        let at = case.any_own(rng);
        let lines: [&[u8]; 6] = [
            b"hello\n",
            b"\n",
            b"{}\n",
            b"{\"seq\":3,\"time\":1}\n",
            b"\xff\xfe\n",
            b"<<<<<<< HEAD\n",
        ];
        let line = lines[rng.below(lines.len())];
        let start = if rng.below(2) == 0 { at.start } else { at.end };
        case.content(at.segment).splice(start..start, line.iter().copied());
        case.spot(at.segment, start, start + line.len());
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_of_another_session() {
    let other = logs::all().await.iter().find(|made| made.snapshot.is_some()).unwrap();
    each("snapshot of another", |case, _| {
        let text = other.files["snapshot.json"].clone();
        case.files.insert("snapshot.json".to_owned(), text);
        (case.made.id != other.id).then_some(())
    })
    .await;
}

/// Of a log that ends between two records only what was made of it says that it was longer.
#[tokio::test]
async fn a_snapshot_of_a_longer_log() {
    let mut done = 0;
    for made in logs::all().await.iter().filter(|made| made.snapshot.is_some()) {
        let mut rng = Rng::new(made.seed);
        let mut case = Case::new(made);
        let known = usize::try_from(made.snapshot.unwrap()).unwrap() + 1;
        let first = made.records[rng.below(known)].clone();
        let segment = first.segment;
        case.content(segment).truncate(first.start);
        case.files.retain(|name, _| logs::segment(name).is_none_or(|number| number <= segment));
        case.lost.extend(first.seq..=case.last().seq);
        case.spot(segment, first.start, first.start);
        case.check().await;
        done += 1;
    }
    assert!(done > 50);
}

#[tokio::test]
async fn a_lease_that_says_nothing() {
    each("lease", |case, rng| {
        let leases: [&[u8]; 4] = [b"", b"garbage", b"{\"pid\":1}", &[0xff; 70_000]];
        case.files.insert("lease".to_owned(), leases[rng.below(4)].to_vec());
        Some(())
    })
    .await;
}

#[tokio::test]
async fn something_else_where_a_segment_belongs() {
    each("no file", |case, rng| {
        let segment = case.any(rng).segment;
        case.content(segment);
        case.files.remove(&name(segment));
        let gone: Vec<u64> =
            case.records().iter().filter(|r| r.segment == segment).map(|r| r.seq).collect();
        case.lost.extend(gone);
        case.spot(segment, 0, 0);
        if let Some(after) = case.records().iter().find(|r| r.segment > segment).cloned() {
            case.content(after.segment);
            case.spot(after.segment, 0, 0);
        }
        case.aliens.push((name(segment), rng.below(2) == 0));
        Some(())
    })
    .await;
}

#[tokio::test]
async fn something_else_where_the_header_or_the_snapshot_belongs() {
    each("no header", |case, rng| {
        let name = ["header.json", "snapshot.json"][rng.below(2)];
        case.files.remove(name);
        if name == "snapshot.json" {
            case.made.snapshot = None;
        } else {
            let (file, from, to) = (name.to_owned(), 0, 0);
            case.spots.push(super::case::Spot { file, from, to });
        }
        case.aliens.push((name.to_owned(), rng.below(2) == 0));
        Some(())
    })
    .await;
}
