//! Numbers at the start of lines, found or not.

use std::io::Write;

use super::{find, line_seq};

#[test]
fn only_whole_numbers_are_read() {
    let cases: [(&[u8], Option<u64>); 7] = [
        (b"{\"seq\":0,\"time\":1", Some(0)),
        (b"{\"seq\":18446744073709551615,", Some(u64::MAX)),
        (b"{\"seq\":18446744073709551616,", None),
        (b"{\"seq\":12", None),
        (b"{\"seq\":,", None),
        (b"{\"seq\":-1,", None),
        (b"", None),
    ];
    for (line, expected) in cases {
        assert_eq!(line_seq(line), expected, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn the_place_is_at_or_shortly_before_the_event() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|n| dir.path().join(n.to_string())).collect();
    let mut starts = Vec::new();
    for (part, path) in paths.iter().enumerate() {
        let mut file = std::fs::File::create(path).unwrap();
        let mut offset = 0;
        for n in 0..1000 {
            let seq = part * 1000 + n;
            // One line is longer than many others together.
            let filler = "x".repeat(if n == 500 { 300_000 } else { n % 300 });
            let line = format!("{{\"seq\":{seq},\"data\":\"{filler}\"}}\n");
            file.write_all(line.as_bytes()).unwrap();
            starts.push((part, offset as u64));
            offset += line.len();
        }
    }
    for seq in 0..3000 {
        let (part, offset) = find(&paths, seq).unwrap().unwrap();
        let (expected_part, expected) = starts[usize::try_from(seq).unwrap()];
        assert_eq!(part, expected_part);
        assert!(starts.contains(&(part, offset)), "{seq}: {offset} is no line's start");
        assert!(offset <= expected && expected - offset < 500_000, "{seq}: {offset} {expected}");
    }
    assert_eq!(find(&paths[1..], 999).unwrap(), None);
    assert!(find(&paths, 99_999).unwrap().is_some());
}
