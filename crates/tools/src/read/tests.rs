use std::path::PathBuf;

use reins_world::{ContentHash, FileBytes, Line, LineWindow, Lines};

use super::bytes;
use super::page::Page;

fn window(first: u64, count: u64) -> LineWindow {
    LineWindow { first, count, max_bytes: 1000, max_line_bytes: 100, skip_bytes: 0 }
}

fn file(bytes: &[u8]) -> FileBytes {
    FileBytes { real: PathBuf::from("/f"), bytes: bytes.to_vec(), hash: ContentHash([0; 32]) }
}

fn lines(texts: &[&str], first: u64, total: u64, capped: bool) -> Lines {
    let lines = (first..)
        .zip(texts)
        .map(|(number, text)| Line { number, text: (*text).to_owned(), cut_from: None })
        .collect();
    Lines { real: PathBuf::from("/f"), lines, total, capped, hash: ContentHash([0; 32]) }
}

fn page(window: LineWindow, lines: &Lines) -> String {
    Page { window }.text("src/f.txt", lines, 0).unwrap()
}

#[test]
fn a_page_has_numbers_and_a_way_on() {
    assert_eq!(
        page(window(1, 10), &lines(&["a", "", "c"], 1, 3, false)),
        "<path>src/f.txt</path>\n<type>file</type>\n<content>\n1: a\n2: \n3: c\n\n\
         (End of file: 3 lines)\n</content>\n"
    );
    let text = page(window(4, 2), &lines(&["d", "e"], 4, 9, false));
    assert!(text.contains("\n(Lines 4-5 of 9; continue with offset=6)\n"), "{text}");
    let text = page(window(4, 9), &lines(&["d", "e"], 4, 9, true));
    let footer = "(Output limited to 1000 bytes: lines 4-5 of 9; continue with offset=6)";
    assert!(text.contains(footer), "{text}");
}

#[test]
fn an_empty_file_says_so_and_a_far_offset_tells_the_total() {
    let empty = lines(&[], 1, 0, false);
    assert!(page(window(1, 10), &empty).contains("<content>\n(The file is empty)\n</content>"));
    let failure = Page { window: window(2, 1) }.text("f", &empty, 0).unwrap_err();
    assert_eq!(failure.message, "offset 2 is out of range: `f` has 0 lines");
    let one = lines(&[], 9, 1, false);
    let failure = Page { window: window(9, 1) }.text("f", &one, 0).unwrap_err();
    assert_eq!(failure.message, "offset 9 is out of range: `f` has 1 line");
    assert_eq!(failure.code, "FS_NOT_FOUND");
}

#[test]
fn a_cut_line_names_the_next_column() {
    let mut cut = lines(&["0123456789", "x"], 7, 8, false);
    cut.lines[0].cut_from = Some(25);
    let text = page(window(7, 2), &cut);
    let mark = "7: 0123456789… [cut: the line has 25 bytes; continue with offset=7, column=10]\n";
    assert!(text.contains(mark), "{text}");
    let further = LineWindow { skip_bytes: 10, ..window(7, 1) };
    cut.lines.pop();
    let text = page(further, &cut);
    assert!(text.contains("7: …0123456789… [cut: the line has 25 bytes; "), "{text}");
    assert!(text.contains("offset=7, column=20]\n"), "{text}");
    let past = LineWindow { skip_bytes: 99, ..window(1, 1) };
    let failure = Page { window: past }.text("f", &lines(&[""], 1, 1, false), 0).unwrap_err();
    assert_eq!(failure.message, "column 99 is past the end of line 1");
}

#[test]
fn other_encodings_are_windowed_like_text() {
    let (got, replaced) = bytes::lines(file(b"caf\xE9\r\nx\n\xD6\xD0 y"), window(1, 10));
    let texts: Vec<&str> = got.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        (texts, got.total, replaced),
        (vec!["caf\u{FFFD}", "x", "\u{FFFD}\u{FFFD} y"], 3, 3)
    );
    let (got, _) = bytes::lines(file(b"a\nb\nc\xFF\n"), window(2, 1));
    assert_eq!((got.lines.len(), got.lines[0].number, got.total), (1, 2, 3));
    let text = Page { window: window(2, 1) }.text("f", &got, 1).unwrap();
    assert!(text.contains("(Not UTF-8: 1 byte sequence is shown as U+FFFD."), "{text}");
}

#[test]
fn a_long_line_in_another_encoding_is_read_to_its_end() {
    let line = "abc\u{FFFD}".repeat(50);
    let raw = b"abc\xFF".repeat(50);
    let (mut whole, mut skip_bytes) = (String::new(), 0);
    for _ in 0..20 {
        let window = LineWindow { skip_bytes, max_line_bytes: 64, ..window(1, 1) };
        let (got, _) = bytes::lines(file(&raw), window);
        whole.push_str(&got.lines[0].text);
        skip_bytes += got.lines[0].text.len() as u64;
        if got.lines[0].cut_from.is_none() {
            break;
        }
    }
    assert_eq!(whole, line);
}

#[test]
fn line_numbers_count_towards_the_limit() {
    let texts = vec!["12345"; 300];
    let mut short = lines(&texts, 1, 300, false);
    let page = Page { window: window(1, 1000) };
    page.fit(&mut short);
    assert!(short.capped && short.lines.len() < 120);
    let text = page.text("f", &short, 0).unwrap();
    assert!(text.len() < 1200, "{}", text.len());
    let footer =
        format!("-{0} of 300; continue with offset={1})", short.lines.len(), short.lines.len() + 1);
    assert!(text.contains(&footer), "{text}");
    let mut long = lines(&[&"x".repeat(5000)], 1, 1, false);
    page.fit(&mut long);
    assert_eq!((long.lines.len(), long.capped), (1, false));
}
