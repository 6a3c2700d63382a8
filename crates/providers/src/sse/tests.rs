use proptest::prelude::*;

use super::{SseDecoder, SseError};

type Got = Vec<(String, String, bool)>;

fn take(decoder: &mut SseDecoder, got: &mut Got) -> Result<(), SseError> {
    while let Some(event) = decoder.next_event()? {
        got.push((event.name.to_owned(), event.data.to_owned(), event.complete));
    }
    Ok(())
}

fn decode(pieces: &[&[u8]]) -> Result<Got, SseError> {
    let mut decoder = SseDecoder::default();
    let mut got = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        take(&mut decoder, &mut got)?;
    }
    decoder.end();
    take(&mut decoder, &mut got)?;
    Ok(got)
}

fn event(name: &str, data: &str) -> (String, String, bool) {
    (name.to_owned(), data.to_owned(), true)
}

/// Checks the whole, and every cut into three pieces.
fn check(stream: &[u8], expected: &Got) {
    assert_eq!(&decode(&[stream]).unwrap(), expected);
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(&decode(&pieces).unwrap(), expected, "cut at {first} and {second}");
        }
    }
}

#[test]
fn line_ends_and_fields() {
    let expected = vec![event("", "a"), event("ping", "b\nc"), event("", "")];
    let lines = ["data: a", "", ": comment", "event: ping", "id: 7", "data:b", "data: c", ""];
    let lines = [&lines[..], &["event: lost", "", "data", "", ""]].concat();
    for end in ["\n", "\r", "\r\n"] {
        check(lines.join(end).as_bytes(), &expected);
    }
}

#[test]
fn bom_at_the_start_only() {
    check(b"\xEF\xBB\xBFdata: a\n\n", &vec![event("", "a")]);
    check("data: \u{feff}a\n\n".as_bytes(), &vec![event("", "\u{feff}a")]);
}

#[test]
fn characters_are_never_torn() {
    check("data: 读写\n\n".as_bytes(), &vec![event("", "读写")]);
    check("data: a\u{2028}b\u{85}c\n\n".as_bytes(), &vec![event("", "a\u{2028}b\u{85}c")]);
}

#[test]
fn one_space_is_removed_and_no_more() {
    check(b"data:  a \n\ndata:b:c\n\n", &vec![event("", " a "), event("", "b:c")]);
}

#[test]
fn the_last_event_is_not_lost() {
    let last = |data: &str| (String::new(), data.to_owned(), false);
    check(b"data: a\n\ndata: [DONE]", &vec![event("", "a"), last("[DONE]")]);
    check(b"data: [DONE]\n", &vec![last("[DONE]")]);
    check(b"data: [DONE]\r", &vec![last("[DONE]")]);
    check(b": only a comment\n\nevent: x", &vec![]);
    check(b"", &vec![]);
}

#[test]
fn bytes_that_are_not_utf8_are_named_by_their_offset() {
    let stream = b"data: a\n\ndata: b\xFFc\n\n";
    for cut in 0..=stream.len() {
        let got = decode(&[&stream[..cut], &stream[cut..]]);
        assert_eq!(got, Err(SseError::Utf8 { offset: 16 }));
    }
    let joined = b"data: a\ndata: \xC3\x28\n\n";
    assert_eq!(decode(&[joined]), Err(SseError::Utf8 { offset: 14 }));
}

#[test]
fn an_endless_event_is_refused_but_comments_are_not() {
    let too_long = Err(SseError::TooLong { limit: 16 });
    for stream in ["data: 0123456789abcdefg\n\n", "data: 0123456789\ndata: 0123456789\n\n", "x"] {
        let mut decoder = SseDecoder::new(16);
        let mut got = Vec::new();
        let mut feed = || {
            for byte in stream.as_bytes().iter().cycle().take(100) {
                decoder.push(&[*byte]);
                take(&mut decoder, &mut got)?;
            }
            Ok(())
        };
        assert_eq!(feed(), too_long);
    }
    let mut decoder = SseDecoder::new(16);
    let mut got = Vec::new();
    for _ in 0..100 {
        decoder.push(b": alive\n");
        take(&mut decoder, &mut got).unwrap();
    }
    decoder.push(b"data: a\n\n");
    take(&mut decoder, &mut got).unwrap();
    assert_eq!(got, vec![event("", "a")]);
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_give_the_same(
        stream in prop::collection::vec(
            prop::sample::select(b"data:ev \n\r\xEF\xBB\xBF\xC3\xA9[".to_vec()), 0..80),
        cuts in prop::collection::vec(0usize..80, 0..6),
    ) {
        let whole = decode(&[&stream]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
        prop_assert_eq!(whole, decode(&pieces));
    }
}
