use reins_world::{Captured, CommandEnd};

use super::output::Report;

fn all(bytes: &[u8]) -> Captured {
    Captured { head: bytes.to_vec(), ..Captured::default() }
}

fn end(stdout: &[u8], stderr: &[u8], code: Option<i32>) -> CommandEnd {
    CommandEnd {
        code,
        signal: None,
        timed_out: false,
        cancelled: false,
        stdout: all(stdout),
        stderr: all(stderr),
        survivors: 0,
    }
}

#[track_caller]
fn check(end: &CommandEnd, expected: &str) {
    assert_eq!(Report::new(end, 1000, 48_000).text, expected);
}

#[test]
fn output_and_markers_stand_in_order() {
    check(&end(b"hi\n", b"", Some(0)), "hi\n");
    check(&end(b"", b"", Some(0)), "(no output)");
    check(&end(b"", b"", Some(1)), "(no output)\n[exit code: 1]");
    check(&end(b"out", b"err\n", Some(2)), "out\n[stderr]\nerr\n[exit code: 2]");
    check(&end(b"", b"err", Some(0)), "[stderr]\nerr");
    let mut late = end(b"start\n", b"", None);
    (late.timed_out, late.signal) = (true, Some(9));
    check(&late, "start\n[timed out after 1000 ms]\n[killed by signal: SIGKILL]");
    let mut trapped = end(b"", b"", Some(0));
    trapped.timed_out = true;
    check(&trapped, "(no output)\n[timed out after 1000 ms]");
    let mut busy = end(b"ok\n", b"", Some(0));
    busy.survivors = 1;
    check(&busy, "ok\n[1 background process still runs; it ends with this session]");
    busy.survivors = 2;
    check(&busy, "ok\n[2 background processes still run; they end with this session]");
    let mut odd = end(b"", b"", None);
    odd.signal = Some(40);
    check(&odd, "(no output)\n[killed by signal: 40]");
}

#[test]
fn what_is_no_text_is_replaced_and_counted() {
    check(
        &end(b"a\xFF\xFE\0b\x1b[31m\r\n", b"", Some(0)),
        "a\u{FFFD}\u{FFFD}\u{FFFD}b\u{1b}[31m\r\n\
         [3 bytes were not UTF-8 text or NUL; they are shown as U+FFFD]",
    );
}

#[test]
fn characters_split_by_the_capture_are_left_out_without_complaint() {
    let (before, after) = ("é漢".as_bytes(), "漢é".as_bytes());
    for cut in 0..3 {
        let captured = Captured {
            head: before[..before.len() - cut].to_vec(),
            tail: after[cut..].to_vec(),
            omitted: 100,
        };
        let report =
            Report::new(&CommandEnd { stdout: captured, ..end(b"", b"", Some(0)) }, 1, 100);
        assert!(report.truncated);
        let lost = if cut == 0 { 100 } else { 100 + 2 * (3 - cut) };
        let (head, tail) = if cut == 0 { ("é漢", "漢é") } else { ("é", "é") };
        assert_eq!(report.text, format!("{head}\n[… {lost} bytes left out …]\n{tail}"));
    }
}

#[test]
fn both_streams_together_are_bounded_and_the_end_mark_stays() {
    let long = "0123456789\n".repeat(10_000);
    for (out, err) in [(&*long, ""), ("", &*long), (&*long, &*long), ("short", &*long)] {
        let report = Report::new(&end(out.as_bytes(), err.as_bytes(), Some(3)), 1, 3000);
        assert!(report.text.len() < 3200, "{}", report.text.len());
        assert!(report.text.ends_with("[exit code: 3]"));
        assert!(report.truncated);
    }
    let report = Report::new(&end(b"out", &[b'e'; 2990], Some(0)), 1, 3000);
    assert!(!report.truncated);
    let report = Report::new(&end(&[b'o'; 3000], b"", Some(0)), 1, 3000);
    assert!(!report.truncated);
}
