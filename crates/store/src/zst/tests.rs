//! What was compressed is read back whole, by any offset; what is damaged costs its frame only.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{FRAME_BYTES, FRAME_BYTES_MAX, Frames, ZstReader, compress};

/// Lines that do not compress well, of these lengths, each beginning with its number.
fn lines(lengths: &[usize]) -> Vec<u8> {
    let mut random = 1_u64;
    let mut plain = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        let start = plain.len();
        plain.extend(format!("{number:06} ").bytes());
        while plain.len() < start + length {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            plain.push(b'a' + u8::try_from((random >> 40) % 26).unwrap());
        }
        plain.push(b'\n');
    }
    plain
}

fn many() -> Vec<u8> {
    lines(&[4000; 400])
}

fn stored(plain: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    assert_eq!(compress(plain, &mut stored).unwrap(), plain.len() as u64);
    stored
}

fn reader(stored: &[u8]) -> ZstReader {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(stored).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    ZstReader::new(file).unwrap()
}

/// An offset and what was read from there on.
type Stretch = (u64, Vec<u8>);

/// Everything readable, as stretches with their offsets, and the damaged stretches between.
fn read_all(reader: &mut ZstReader) -> (Vec<Stretch>, Vec<(u64, u64)>) {
    let (mut good, mut damaged) = (Vec::new(), Vec::new());
    let (mut at, mut run) = (0, Vec::new());
    let mut buffer = [0; 10_000];
    loop {
        match reader.read_at(at, &mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                run.extend_from_slice(&buffer[..read]);
                at += read as u64;
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                if !run.is_empty() {
                    good.push((at - run.len() as u64, std::mem::take(&mut run)));
                }
                let next = reader.after_damage(at);
                assert!(next > at && next <= reader.length(), "{at}..{next}");
                damaged.push((at, next));
                at = next;
            }
        }
    }
    assert_eq!(at, reader.length());
    if !run.is_empty() {
        good.push((at - run.len() as u64, run));
    }
    (good, damaged)
}

fn whole(stored: &[u8]) -> Vec<u8> {
    let (mut good, damaged) = read_all(&mut reader(stored));
    assert_eq!(damaged, []);
    good.pop().map_or_else(Vec::new, |(_, bytes)| bytes)
}

/// Plain starts and stored starts of the frames, with the ends.
fn frames(plain: &[u8]) -> Vec<(u64, usize)> {
    let mut frames = Frames::new(plain).unwrap();
    let mut starts = vec![(0, 0)];
    while let Some(frame) = frames.next_frame().unwrap() {
        let (plain, stored) = starts[starts.len() - 1];
        starts.push((plain + u64::from(frame.plain), stored + frame.stored.len()));
    }
    starts
}

#[test]
fn frames_end_with_lines_and_long_lines_have_their_own() {
    let long = FRAME_BYTES * 3;
    for plain in [lines(&[1000; 900]), lines(&[10, long, 20, 30, long + 7, 5]), b"\n".to_vec()] {
        let starts = frames(&plain);
        for pair in starts.windows(2) {
            let length = usize::try_from(pair[1].0 - pair[0].0).unwrap();
            let content = &plain[usize::try_from(pair[0].0).unwrap()..][..length];
            assert_eq!(content.last(), Some(&b'\n'));
            let is_one_line = content.iter().filter(|byte| **byte == b'\n').count() == 1;
            assert!(length <= FRAME_BYTES || is_one_line, "{length}");
        }
        assert_eq!(starts.last().unwrap().0, plain.len() as u64);
    }
    assert_eq!(frames(&lines(&[10, long, 20, 30, long + 7, 5])).len() - 1, 5);
    assert_eq!(frames(b""), [(0, 0)]);
}

#[test]
fn what_is_too_long_for_a_line_is_cut() {
    let length = FRAME_BYTES_MAX + 1000;
    let mut frames = Frames::new(io::repeat(b'x').take(length as u64)).unwrap();
    let mut sizes = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        sizes.push(frame.plain as usize);
    }
    assert_eq!(sizes, [FRAME_BYTES_MAX, 1000]);
}

#[test]
fn the_program_zstd_gives_the_lines() {
    if !reins_testkit::needs("zstd").unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for plain in [Vec::new(), lines(&[50]), many(), lines(&[FRAME_BYTES * 2, 1])] {
        let path = folder.path().join("lines.zst");
        File::create(&path).unwrap().write_all(&stored(&plain)).unwrap();
        assert!(zstd(&["-dc"], &path) == plain);
        zstd(&["-q", "-t"], &path);
        // And what the program made is read, by its headers.
        let plain_path = folder.path().join("lines");
        File::create(&plain_path).unwrap().write_all(&plain).unwrap();
        assert!(whole(&zstd(&["-c"], &plain_path)) == plain);
    }
}

#[expect(clippy::disallowed_methods, reason = "what people will use")]
fn zstd(arguments: &[&str], path: &Path) -> Vec<u8> {
    let output = std::process::Command::new("zstd").args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn any_offset_is_read_and_lands_at_a_line() {
    let plain = many();
    let mut reader = reader(&stored(&plain));
    assert_eq!(reader.length(), plain.len() as u64);
    let mut buffer = [0; 5000];
    for offset in (0..plain.len()).rev().step_by(7919).chain([0, plain.len() - 1]) {
        let read = reader.read_at(offset as u64, &mut buffer).unwrap();
        assert!(read > 0 && plain[offset..].starts_with(&buffer[..read]));
        let landing = usize::try_from(reader.landing(offset as u64)).unwrap();
        assert!(landing <= offset && offset - landing < FRAME_BYTES);
        assert!(landing == 0 || plain[landing - 1] == b'\n');
    }
    assert_eq!(reader.read_at(plain.len() as u64, &mut buffer).unwrap(), 0);
    assert_eq!(reader.read_at(u64::MAX, &mut buffer).unwrap(), 0);
}

#[test]
fn a_missing_or_damaged_table_costs_nothing() {
    let plain = many();
    let starts = frames(&plain);
    let table_at = starts.last().unwrap().1;
    let good = stored(&plain);
    assert!(whole(&good[..table_at]) == plain, "without a table");
    // One number after the other; the frames say otherwise, whatever the table says.
    for at in table_at..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let (stretches, damaged) = read_all(&mut reader(&bad));
        assert!(stretches[0].1 == plain, "byte {at}: {damaged:?}");
        assert!(damaged.iter().all(|(from, _)| *from >= plain.len() as u64), "{damaged:?}");
    }
}

#[test]
fn a_damaged_frame_costs_at_most_its_own_lines() {
    let plain = many();
    let starts = frames(&plain);
    assert!(starts.len() > 5);
    let good = stored(&plain);
    let cases = [("header", 4), ("size", 6), ("first block", 100), ("last block", usize::MAX)];
    for has_table in [true, false] {
        for (name, inside) in cases {
            let (from, to) = (starts[2], starts[3]);
            let mut bad = good.clone();
            let at = (from.1 + inside.min(to.1)).min(to.1 - 10);
            bad[at] ^= 0xFF;
            bad.truncate(if has_table { good.len() } else { starts.last().unwrap().1 });
            let mut reader = reader(&bad);
            let (stretches, damaged) = read_all(&mut reader);
            let (before, after) = plain.split_at(usize::try_from(from.0).unwrap());
            let after = &after[usize::try_from(to.0 - from.0).unwrap()..];
            assert!(stretches[0].1.starts_with(before), "{name}");
            assert!(stretches.last().unwrap().1.ends_with(after), "{name}, {damaged:?}");
            if has_table && name != "size" {
                assert_eq!(reader.length(), plain.len() as u64, "{name}");
                assert!(damaged.iter().all(|d| d.0 >= from.0 && d.1 <= to.0), "{damaged:?}");
            }
        }
    }
}

/// Lines are checked by their own sums, so those before the damage are handed out.
#[test]
fn lines_before_the_damage_of_a_frame_are_read() {
    let plain = many();
    let starts = frames(&plain);
    let mut bad = stored(&plain);
    bad[starts[3].1 - 2] ^= 0xFF;
    let (stretches, damaged) = read_all(&mut reader(&bad));
    assert!(stretches[0].1 == plain && damaged.is_empty(), "only the checksum is wrong");
    bad[starts[3].1 - 5] ^= 0xFF;
    bad[starts[3].1 - 900] ^= 0xFF;
    let mut reader = reader(&bad);
    let (stretches, damaged) = read_all(&mut reader);
    let first = &stretches[0].1;
    assert!(plain.starts_with(first) || damaged.is_empty());
    assert!(first.len() as u64 > starts[2].0 + 100_000, "{damaged:?}");
    assert_eq!(first.last(), Some(&b'\n'));
}

#[test]
fn a_cut_file_has_all_frames_before_the_cut() {
    let plain = many();
    let starts = frames(&plain);
    let good = stored(&plain);
    for cut in (0..good.len()).step_by(good.len() / 60).chain([1, 2, 3, good.len() - 1]) {
        let (stretches, _) = read_all(&mut reader(&good[..cut]));
        let read = stretches.first().map_or(&[][..], |(_, bytes)| bytes);
        let kept = starts.iter().rev().find(|(_, stored)| *stored <= cut).unwrap().0;
        assert!(plain.starts_with(read) && read.len() as u64 >= kept, "cut at {cut}");
    }
}

/// A frame of a few bytes that says it holds 60 MiB is refused before memory is taken for it.
#[test]
fn a_claimed_size_is_not_believed() {
    let mut frame = zstd::bulk::compress(&[b'x'; 100_000], 3).unwrap();
    let size_bytes = 4;
    assert_eq!(frame[4] >> 6, 2, "a size of four bytes");
    frame[5..5 + size_bytes].copy_from_slice(&60_000_000_u32.to_le_bytes());
    assert!(super::layout::plain_max(&frame) < 1_000_000);
    let (stretches, damaged) = read_all(&mut reader(&frame));
    assert!(stretches.is_empty());
    assert_eq!(damaged.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(20)
    })]

    /// Whatever bytes are changed, inserted or removed: reading ends, and frames that were not
    /// touched are read.
    #[test]
    fn untouched_frames_survive_any_damage(
        lengths in vec(prop_oneof![20_usize..3000, 100_000_usize..400_000], 3..12),
        changes in vec((any::<Index>(), 0_u8..3, any::<u8>()), 1..5),
    ) {
        let plain = lines(&lengths);
        let good = stored(&plain);
        let mut bad = good.clone();
        let mut touched = Vec::new();
        for (at, change, byte) in changes {
            let at = at.index(good.len()).min(bad.len() - 1);
            match change {
                0 => bad[at] = byte,
                1 => bad.insert(at, byte),
                _ => drop(bad.remove(at)),
            }
            touched.push(at);
        }
        let (stretches, _) = read_all(&mut reader(&bad));
        for pair in frames(&plain).windows(2) {
            // An earlier insertion shifts by a byte or two.
            let near = pair[0].1.saturating_sub(4)..pair[1].1 + 4;
            if touched.iter().any(|at| near.contains(at)) {
                continue;
            }
            let range = usize::try_from(pair[0].0).unwrap()..usize::try_from(pair[1].0).unwrap();
            let content = &plain[range];
            // Lines begin with their numbers, so the first one is found by it.
            let is_read = stretches.iter().any(|(_, stretch)| {
                let starts = stretch.windows(7).enumerate();
                let mut starts = starts.filter(|(_, number)| **number == content[..7]);
                starts.any(|(at, _)| stretch[at..].starts_with(content))
            });
            prop_assert!(is_read, "stored bytes {:?}, touched {:?}", near, touched);
        }
    }

    #[test]
    fn random_files_are_read_to_their_end(
        bytes in vec(any::<u8>(), 0..3000),
        magics in vec(any::<Index>(), 0..4),
    ) {
        let mut bytes = bytes;
        for at in magics {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, [0x28, 0xB5, 0x2F, 0xFD, 0x64]);
        }
        read_all(&mut reader(&bytes));
    }
}

/// A whole frame is decoded at once, with its checksum; only what is left of a damaged one is
/// looked for line by line, which would lose the bytes after the last line end.
#[test]
fn a_whole_frame_is_not_salvaged() {
    let frame = Frames::new(&b"no line end"[..]).unwrap().next_frame().unwrap().unwrap();
    assert_eq!(super::decode(&frame.stored, 11), b"no line end");
}
