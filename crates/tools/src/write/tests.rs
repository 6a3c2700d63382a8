use super::count_lines;
use crate::cap::head_and_tail;
use crate::diff::unified;

#[test]
fn lines_are_counted_with_and_without_a_final_line_end() {
    assert_eq!(count_lines(b""), "0 lines, 0 bytes");
    assert_eq!(count_lines(b"a"), "1 line, 1 byte");
    assert_eq!(count_lines(b"a\n"), "1 line, 2 bytes");
    assert_eq!(count_lines(b"a\nb"), "2 lines, 3 bytes");
}

#[test]
fn differences_are_bounded_and_only_of_text() {
    let diff = unified(b"a\nb\nc\n", b"a\nB\nc\n", 1000).unwrap();
    assert!(diff.contains("-b\n+B\n"), "{diff}");
    assert_eq!(unified(b"a\0", b"b", 1000), None);
    assert_eq!(unified(&vec![b'a'; 2 << 20], b"b", 1000), None);
    let long = unified(b"", "line\n".repeat(10_000).as_bytes(), 1000).unwrap();
    assert!(long.len() < 1100, "{}", long.len());
}

#[test]
fn head_and_tail_keep_whole_characters() {
    assert_eq!(head_and_tail("abc", 3), "abc");
    assert_eq!(head_and_tail("ééééé", 5), "é\n[… 6 bytes left out …]\né");
}
