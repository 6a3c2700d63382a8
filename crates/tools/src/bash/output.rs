//! The text of a command's end. Markers stand after the output, the way it ended last.

use std::borrow::Cow;
use std::fmt::Write;

use reins_world::{Captured, CommandEnd};

use crate::cap::{head_and_tail, omitted};

/// Room that stderr gets at least when both streams are long, as a part of the whole.
const STDERR_PART: usize = 3;

pub(super) struct Report {
    pub(super) text: String,
    /// Something of the output was left out.
    pub(super) truncated: bool,
}

impl Report {
    /// At most `max_bytes` of output, plus markers.
    pub(super) fn new(end: &CommandEnd, limit_ms: u64, max_bytes: usize) -> Self {
        let (stdout, stderr) = (Stream::new(&end.stdout), Stream::new(&end.stderr));
        let for_stderr =
            stderr.len().min((max_bytes / STDERR_PART).max(max_bytes.saturating_sub(stdout.len())));
        let (stdout_text, stdout_cut) = stdout.within(max_bytes - for_stderr.min(max_bytes));
        let (stderr_text, stderr_cut) = stderr.within(for_stderr);
        let mut text = stdout_text;
        if !stderr_text.is_empty() {
            open_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&stderr_text);
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        for marker in markers(end, limit_ms, stdout.replaced + stderr.replaced) {
            open_line(&mut text);
            text.push_str(&marker);
        }
        Self { text, truncated: stdout_cut || stderr_cut }
    }
}

fn markers(end: &CommandEnd, limit_ms: u64, replaced: usize) -> Vec<String> {
    let mut markers = Vec::new();
    if replaced > 0 {
        markers.push(format!(
            "[{replaced} bytes were not UTF-8 text or NUL; they are shown as U+FFFD]"
        ));
    }
    if end.timed_out {
        markers.push(format!("[timed out after {limit_ms} ms]"));
    }
    match end.survivors {
        0 => {}
        1 => markers.push("[1 background process still runs; it ends with this session]".into()),
        n => markers
            .push(format!("[{n} background processes still run; they end with this session]")),
    }
    match (end.signal, end.code) {
        (Some(signal), _) => markers.push(format!("[killed by signal: {}]", signal_name(signal))),
        (None, Some(0) | None) => {}
        (None, Some(code)) => markers.push(format!("[exit code: {code}]")),
    }
    markers
}

fn open_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// One stream as text.
struct Stream<'a> {
    head: Cow<'a, str>,
    tail: Cow<'a, str>,
    omitted: u64,
    replaced: usize,
}

impl<'a> Stream<'a> {
    fn new(captured: &'a Captured) -> Self {
        let cut = captured.omitted > 0;
        let head = if cut { before_split_character(&captured.head) } else { &captured.head[..] };
        let tail = if cut { after_split_character(&captured.tail) } else { &captured.tail[..] };
        let trimmed = captured.head.len() - head.len() + captured.tail.len() - tail.len();
        let (head, replaced_head) = readable(head);
        let (tail, replaced_tail) = readable(tail);
        Self {
            head,
            tail,
            omitted: captured.omitted + trimmed as u64,
            replaced: replaced_head + replaced_tail,
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The text within `limit` bytes, and whether something is missing.
    fn within(&self, limit: usize) -> (String, bool) {
        if self.omitted == 0 {
            let whole = format!("{}{}", self.head, self.tail);
            return (head_and_tail(&whole, limit), whole.len() > limit);
        }
        let half = limit / 2;
        let head = &self.head[..self.head.floor_char_boundary(half)];
        let from = self.tail.len().saturating_sub(half);
        let tail = &self.tail[self.tail.ceil_char_boundary(from)..];
        let dropped = self.len() - head.len() - tail.len();
        let mut text = head.to_owned();
        let _infallible = write!(text, "{}{tail}", omitted(self.omitted + dropped as u64));
        (text, true)
    }
}

/// Text without what providers refuse, and how many bytes that was.
fn readable(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let text = String::from_utf8_lossy(bytes);
    let nuls = memchr::memchr_iter(0, text.as_bytes()).count();
    match nuls {
        0 => (text, invalid),
        _ => (Cow::Owned(text.replace('\0', "\u{FFFD}")), invalid + nuls),
    }
}

/// Without a last character whose end is missing.
fn before_split_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => bytes,
        Err(_) => {
            let lead = bytes.iter().rev().take(3).position(|byte| byte & 0xC0 != 0x80);
            let Some(back) = lead else { return bytes };
            let at = bytes.len() - 1 - back;
            let wanted = match bytes[at] {
                0xC0..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF7 => 4,
                _ => 1,
            };
            if wanted > back + 1 { &bytes[..at] } else { bytes }
        }
    }
}

/// Without the last bytes of a character whose beginning is missing.
fn after_split_character(bytes: &[u8]) -> &[u8] {
    let skip = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[skip..]
}

/// The usual name, or the number.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return other.to_string(),
    };
    name.to_owned()
}
