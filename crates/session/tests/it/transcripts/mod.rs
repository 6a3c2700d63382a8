//! What is written in the main branches: a script goes in, one line for each event comes out.
//! Lines that begin with `>` are effects that say when something may happen.

mod answers;
mod ends;
mod input;
mod limits;
mod line;
mod moments;
mod scheduling;
mod stage;
mod stopping;

use reins_session::Limits;

pub(crate) use stage::Stage;

/// Plays `script` and compares what was written, ignoring indentation. `limits` is
/// `NAME: VALUE, …`.
fn check(limits: &str, script: &str, expected: &str) {
    let written = Stage::play(read_limits(limits), script);
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (written, expected) = (lines(&written), lines(expected));
    let same = written.iter().zip(&expected).take_while(|(a, b)| a == b).count();
    assert!(
        written == expected,
        "line {} differs; written is:\n{}\n",
        same + 1,
        written.join("\n")
    );
}

fn read_limits(text: &str) -> Limits {
    let mut limits = Limits::default();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once(": ") else { panic!("`{pair}` is no limit") };
        let Ok(value) = value.parse::<u64>() else { panic!("`{pair}` has no number") };
        let size = usize::try_from(value).unwrap_or(usize::MAX);
        match name {
            "steps" => limits.turn.steps = Some(value),
            "tool_calls" => limits.turn.tool_calls = Some(value),
            "time_ms" => limits.turn.time_ms = Some(value),
            "parallel_tools" => limits.parallel_tools = size,
            "inbox" => limits.inbox = size,
            _ => panic!("no limit `{name}`"),
        }
    }
    limits
}
