use proptest::prelude::*;

use reins_agent::ToolFailure;

use super::plan::{Beside, Plan, Wanted};

/// A limit that no test reaches.
const LIMIT: u64 = 64 << 20;

fn plan(name: &str, file: &[u8], old: &str, new: &str, all: bool) -> Result<Plan, ToolFailure> {
    super::plan::plan(name, file, Wanted { old, new, all, beside: Beside::FileTools }, LIMIT)
}

/// The new file and how the text was found, or the failure's code.
fn edit(file: &[u8], old: &str, new: &str, all: bool) -> Result<(Vec<u8>, &'static str), String> {
    plan("f", file, old, new, all)
        .map(|plan| (plan.bytes, plan.rule.name()))
        .map_err(|failure| failure.code)
}

fn message(file: &str, old: &str) -> String {
    match plan("f.txt", file.as_bytes(), old, "\u{1}new", false) {
        Err(failure) => failure.message,
        Ok(_) => panic!("{old:?} should not be found in {file:?}"),
    }
}

#[track_caller]
fn check(file: &str, old: &str, new: &str, expected: &str, rule: &str) {
    match edit(file.as_bytes(), old, new, false) {
        Ok((bytes, used)) => {
            let got = String::from_utf8_lossy(&bytes);
            assert_eq!((&*got, used), (expected, rule), "edit {old:?} → {new:?} in {file:?}");
        }
        Err(code) => panic!("edit {old:?} → {new:?} in {file:?}: {code}"),
    }
}

#[test]
fn exact_text_is_replaced_and_nothing_else() {
    check("a b c", "b", "x", "a x c", "exact");
    check("a b c", " b", "", "a c", "exact");
    check("$1 \\n", "$1", "$2 \\0", "$2 \\0 \\n", "exact");
    check("\u{feff}one\ntwo", "one", "1", "\u{feff}1\ntwo", "exact");
    check("no end", "end", "end\n", "no end\n", "exact");
    check("end\n", "end\n", "end", "end", "exact");
    check("\tx\n        x=1\n", "\tx", "\ty", "\ty\n        x=1\n", "exact");
}

#[test]
fn line_ends_follow_the_matched_text() {
    let crlf = "one\r\ntwo\r\nthree\r\n";
    check(crlf, "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n", "line ends");
    check(crlf, "two", "2\n2b", "one\r\n2\r\n2b\r\nthree\r\n", "exact");
    check(crlf, "\ntwo", "\n2", "one\r\n2\r\nthree\r\n", "line ends");
    check(crlf, "\ntwo", "X\ntwo", "oneX\r\ntwo\r\nthree\r\n", "line ends");
    check(crlf, "three\n", "three\nfour\n", "one\r\ntwo\r\nthree\r\nfour\r\n", "line ends");
    check(crlf, "two\n", "", "one\r\nthree\r\n", "line ends");
    // Mixed files: the matched place decides, the rest stays.
    check("a\r\nb\nc\nd\r\n", "b\nc", "B\nC", "a\r\nB\nC\nd\r\n", "exact");
    check("a\r\nb\nc\r\nd\r\n", "c\nd", "C\nx\nd", "a\r\nb\nC\r\nx\r\nd\r\n", "line ends");
    check("a\r\nb\nc\n", "a\nb\nc", "a\nb\nC", "a\r\nb\nC\n", "line ends");
    // The model writes CRLF where the file has LF.
    check("x\ny\nz\n", "x\r\ny", "x\r\nq\r\nw", "x\nq\nw\nz\n", "line ends");
    // A lone CR is content.
    check("a\rb\nc\n", "a\rb", "a\rB", "a\rB\nc\n", "exact");
    // Without any line end in the file, LF.
    check("abc", "b", "1\n2", "a1\n2c", "exact");
}

#[test]
fn a_change_of_line_ends_is_real_or_refused() {
    check("x\r\ny\r\n", "x\r\ny", "x\ny", "x\ny\r\n", "exact");
    check("x\ny\n", "x\ny", "x\r\ny", "x\r\ny\n", "exact");
    let refused = Err("FS_EDIT_NO_CHANGE".to_owned());
    assert_eq!(edit(b"x\r\ny\r\n", "x\ny", "x\r\ny", false), refused);
    assert_eq!(edit(b"x\ny\n", "x\r\ny", "x\ny", false), refused);
}

#[test]
fn blanks_at_line_ends_are_ignored_only_at_line_ends() {
    let rule = "blanks at line ends";
    check("foo  \nbar\n", "foo\nbar", "foo\nBAR", "foo  \nBAR\n", rule);
    check("foo\t\r\nbar\n", "foo\nbar", "x\nbar", "x\r\nbar\n", rule);
    check("foo\nbar\n", "foo  \nbar", "foo  \nBAR", "foo\nBAR\n", rule);
    check("foobar\nfoo\n", "foo  ", "x  ", "foobar\nx  \n", rule);
    let absent = Err("FS_EDIT_NOT_FOUND".to_owned());
    assert_eq!(edit(b"foobar\n", "foo  ", "x", false), absent);
    assert_eq!(edit(b"a  b\n", "a b", "x", false), absent);
    assert_eq!(edit(b"  a\n", "\ta", "x", false), absent);
}

#[test]
fn look_alikes_are_found_and_the_unchanged_ones_stay() {
    let rule = "look-alike characters";
    check(
        "（最大３）— ok\nx\nsay “hi”\n",
        "say \"hi\"",
        "say \"bye\"",
        "（最大３）— ok\nx\nsay “bye”\n",
        rule,
    );
    check("10\u{202f}km", "10 km", "12 km", "12\u{202f}km", rule);
    check("total \u{2212} 5", "total - 5", "total - 6", "total \u{2212} 6", rule);
    check("a\u{3000}b", "a b", "a c", "a\u{3000}c", rule);
    check("（３）", "(3)", "(4)", "（4）", rule);
    check("it’s", "it's", "it was", "it was", rule);
    check("wait… go", "wait... go", "wait... stop", "wait… stop", rule);
    check("a\u{200b}b c", "ab c", "ab d", "a\u{200b}b d", rule);
    check("caf\u{e9} x", "cafe\u{301} x", "cafe\u{301} y", "caf\u{e9} y", rule);
    check("cafe\u{301} x", "caf\u{e9} x", "caf\u{e9} y", "cafe\u{301} y", rule);
    check("“a”\r\nb\r\n", "\"a\"\nb", "\"a\"\nc", "“a”\r\nc\r\n", rule);
    check(
        "“a” \r\nb\r\n",
        "\"a\"\nb",
        "\"a\"\nc",
        "“a” \r\nc\r\n",
        "blanks at line ends and look-alike characters",
    );
    // The wanted character is written even if the old one looked like it.
    check("say “hi”", "“hi”", "\"hi\"", "say \"hi\"", "exact");
}

#[test]
fn a_match_never_ends_inside_a_character() {
    let absent = Err("FS_EDIT_NOT_FOUND".to_owned());
    assert_eq!(edit("x…".as_bytes(), "x.", "y", false), absent);
    assert_eq!(edit("’cafe\u{301}".as_bytes(), "'cafe", "y", false), absent);
    assert_eq!(edit("’caf\u{e9}".as_bytes(), "'cafe", "y", false), absent);
}

#[test]
fn several_places_need_replace_all() {
    let ambiguous = Err("FS_AMBIGUOUS_EDIT".to_owned());
    assert_eq!(edit(b"x = 0\nx = 0\nx = 0\n", "x = 0", "x = 1", false), ambiguous);
    assert_eq!(edit(b"aaa", "aa", "b", false), ambiguous, "overlapping places count");
    assert_eq!(edit("“a” “a”".as_bytes(), "\"a\"", "b", false), ambiguous);
    let text = match plan("f", b"x = 0\ny\nx = 0\nx = 0", "x = 0", "x = 1", false) {
        Err(failure) => failure.message,
        Ok(_) => panic!("must be ambiguous"),
    };
    assert!(text.contains("occurs 3 times in `f`: lines 1, 3, 4."), "{text}");
    let all = |file: &str, old, new| {
        let (bytes, rule) = edit(file.as_bytes(), old, new, true).unwrap();
        (String::from_utf8(bytes).unwrap(), rule)
    };
    assert_eq!(all("aaa", "aa", "b"), ("ba".into(), "exact"));
    assert_eq!(all("1\n1\r\n1", "1", "2"), ("2\n2\r\n2".into(), "exact"));
    assert_eq!(
        all("a\nb\na\r\nb\r\n", "a\nb", "a\nX\nb"),
        ("a\nX\nb\na\r\nX\r\nb\r\n".into(), "line ends")
    );
    assert_eq!(all("“a” “a”", "\"a\"", "\"b\""), ("“b” “b”".into(), "look-alike characters"));
    assert_eq!(all("a\r\nb", "b", "c"), ("a\r\nc".into(), "exact"));
}

#[test]
fn huge_numbers_of_places_are_bounded() {
    let file = vec![b'a'; 1 << 20];
    let text = plan("f", &file, "a", "b", false).map(|_| ()).unwrap_err().message;
    assert!(text.contains("more than 1000 times in `f`: lines 1, 1, "), "{text}");
    assert_eq!(edit(&file, "a", "b", true), Err("FS_AMBIGUOUS_EDIT".into()));
    let explosion = "x".repeat(1000);
    assert_eq!(edit(&file, "aa", &explosion, true), Err("FS_TOO_LARGE".into()));
    assert!(edit(&file, "aa", "b", true).is_ok());
}

#[test]
fn other_encodings_survive() {
    let (bytes, rule) = edit(b"n = 1\n# caf\xE9\n", "n = 1", "n = 2", false).unwrap();
    assert_eq!((&bytes[..], rule), (&b"n = 2\n# caf\xE9\n"[..], "exact"));
    let (bytes, _) = edit(b"n = 1\r\n\xD6\xD0\xCE\xC4\r\nz", "n = 1\n", "n = 2\n", false).unwrap();
    assert_eq!(&bytes[..], b"n = 2\r\n\xD6\xD0\xCE\xC4\r\nz");
    let (bytes, _) = edit(b"\xE9 \xE2\x80\x9Cq\xE2\x80\x9D \xE9", "\"q\"", "\"r\"", false).unwrap();
    assert_eq!(&bytes[..], b"\xE9 \xE2\x80\x9Cr\xE2\x80\x9D \xE9");
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(edit(b"a", "", "b", false), Err("INVALID_ARGS".into()));
    assert_eq!(edit(b"a", "a", "a", false), Err("INVALID_ARGS".into()));
    assert_eq!(edit(b"", "a", "b", false), Err("FS_EDIT_NOT_FOUND".into()));
    assert_eq!(edit(b"a\0b", "a", "b", false), Err("FS_NOT_TEXT".into()));
    assert_eq!(edit(b"a", "  ", "b", true), Err("FS_EDIT_NOT_FOUND".into()));
}

#[test]
fn a_failure_shows_the_nearest_text() {
    let file = "fn main() {\n\tlet total = 5;\n    print(total);\n}\n";
    assert_eq!(
        message(file, "    let total = 5;\n    print(total);"),
        "`old_string` was not found in `f.txt`; nothing was changed. \
         The nearest text, from line 2:\n\
         2: \tlet total = 5;\n\
         3:     print(total);\n\
         First difference in line 2, column 1: old_string has a space, the file has a tab.\n\
         Copy the text from a fresh `read`, without its line numbers."
    );
    let text = message("x\nprice: 10\u{202f}km – far\n", "price: 10  km - near");
    assert!(text.contains("2: price: 10\u{202f}km – far"), "{text}");
    assert!(text.contains("old_string has a space, the file has U+202F"), "{text}");
    assert!(text.contains("U+202F (line 2, column 10), U+2013 (line 2, column 14)"), "{text}");
    let text = message(file, "2: let total = 5;");
    assert!(text.ends_with("line numbers that `read` adds; leave them out."), "{text}");
    let text = message(file, "completely different words");
    assert!(!text.contains("nearest"), "{text}");
    // Bounded whatever the file holds.
    let long = "let value = 1;".repeat(100_000);
    assert!(message(&long, "let value = 2;\nlet value = 3;").len() < 2_000);
}

/// Every mixture of line ends, marks and characters in which one place is edited.
#[test]
fn the_whole_matrix_keeps_what_is_outside() {
    let variants: [(&str, &str); 7] = [
        ("say \"hi\" - it's", "exact"),
        ("say “hi” – it’s", "look-alike characters"),
        ("say\u{a0}\"hi\"\u{202f}\u{2212}\u{3000}it's", "look-alike characters"),
        ("say \"hi\" - it's  ", "exact"),
        ("\tsay \"hi\" - it's", "exact"),
        ("say \"hi\" - it's \u{3000}", "exact"),
        ("ｓａｙ “hi” — it’s\t", "look-alike characters"),
    ];
    for (line, rule) in variants {
        for end in ["\n", "\r\n"] {
            for (outside, close) in [("\n", ""), ("\r\n", "\r\n"), (end, "\n"), (end, "  ")] {
                for bom in ["", "\u{feff}"] {
                    let before = format!("{bom}“first” \t{outside}é e\u{301}{outside}");
                    let after = format!("{end}last’s line{close}");
                    let file = format!("{before}{line}{end}next{after}");
                    let old = "say \"hi\" - it's";
                    let (bytes, used) =
                        edit(file.as_bytes(), old, "say \"ho\" - it's", false).unwrap();
                    let expected = line.replace("hi", "ho");
                    let expected = format!("{before}{expected}{end}next{after}");
                    assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{file:?}");
                    assert_eq!(used, rule, "{file:?}");
                    let two_lines = format!("{old}\nnext");
                    let (bytes, _) =
                        edit(file.as_bytes(), &two_lines, &format!("{old}\nNEXT"), false).unwrap();
                    let expected = format!("{before}{line}{end}NEXT{after}");
                    assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{file:?}");
                }
            }
        }
    }
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "\n", "\r\n", "\r", " ", "\t", "“", "\"", "’", "'", "–", "-", "\u{a0}", "é",
        "e\u{301}", "…", "\u{200b}", "Ａ", "\u{feff}", "漢",
    ])
}

fn text(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..most).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Whatever is found, only the middle changes, and a success is a change.
    #[test]
    fn bytes_outside_never_change(
        before in prop::collection::vec(any::<u8>(), 0..12),
        after in prop::collection::vec(any::<u8>(), 0..12),
        rest in text(5),
        old in text(5),
        new in text(5),
        (all, there) in any::<(bool, bool)>(),
    ) {
        let middle = if there { format!("{rest}{old}{rest}") } else { rest };
        let file = [&before, middle.as_bytes(), &after].concat();
        let Ok(plan) = plan("f", &file, &old, &new, all) else { return Ok(()) };
        prop_assert_ne!(&plan.bytes, &file);
        let found = super::find::find(&file, old.as_bytes(), all);
        let places = match found {
            Ok(found) => found.places,
            Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
        };
        let first = places[0].raw.start;
        let last = file.len() - places[places.len() - 1].raw.end;
        prop_assert_eq!(&file[..first], &plan.bytes[..first]);
        prop_assert_eq!(&file[file.len() - last..], &plan.bytes[plan.bytes.len() - last..]);
        prop_assert!(all || places.len() == 1);
    }

    /// An exact edit without line ends is the plain replacement of bytes.
    #[test]
    fn exact_single_line_edits_are_plain(
        before in "[ac é“]{0,6}",
        old in "[xyz’]{1,4}",
        new in "[xyz\"]{0,4}",
        after in "[ac é“]{0,6}",
    ) {
        prop_assume!(old != new);
        let file = format!("{before}{old}{after}");
        let got = edit(file.as_bytes(), &old, &new, false);
        prop_assert_eq!(got, Ok((format!("{before}{new}{after}").into_bytes(), "exact")));
    }

    /// With LF only and an exact match, an edit is what `str::replace` does.
    #[test]
    fn plain_edits_equal_plain_replacement(
        file in "[ab \n]{0,24}",
        old in "[ab \n]{1,3}",
        new in "[abc \n]{0,4}",
        all in any::<bool>(),
    ) {
        prop_assume!(file.contains(&old) && old != new);
        match edit(file.as_bytes(), &old, &new, all) {
            Ok((bytes, rule)) => {
                prop_assert_eq!(String::from_utf8(bytes).unwrap(), file.replace(&old, &new));
                prop_assert_eq!(rule, "exact");
            }
            Err(code) => {
                prop_assert_eq!(code, "FS_AMBIGUOUS_EDIT");
                prop_assert!(!all && file.find(&old) != file.rfind(&old));
            }
        }
    }

    /// The text of a unique line is found whatever its line ends are, and the edit can be undone.
    #[test]
    fn edits_can_be_undone(
        lines in prop::collection::vec("[a-d]{1,3}", 2..6),
        crlf in any::<bool>(),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let file = format!("{}{end}mark one{end}mark two{end}", lines.join(end));
        let (there, _) = edit(file.as_bytes(), "mark one\nmark two", "Q\nR\nS", false).unwrap();
        prop_assert_eq!(
            String::from_utf8(there.clone()).unwrap(),
            format!("{}{end}Q{end}R{end}S{end}", lines.join(end))
        );
        let (back, _) = edit(&there, "Q\nR\nS", "mark one\nmark two", false).unwrap();
        prop_assert_eq!(back, file.into_bytes());
    }
}
