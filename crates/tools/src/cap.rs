//! Keeps texts within limits, visibly.

/// The first `limit` bytes or less, up to a character boundary, with a mark when cut.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

/// At most about `limit` bytes: the first and the last part, with a mark between that tells how
/// much is missing. The mark itself is not counted.
pub(crate) fn head_and_tail(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    format!("{}{}{}", &text[..head], omitted(tail - head), &text[tail..])
}

/// The mark that stands for left out bytes.
pub(crate) fn omitted(bytes: impl std::fmt::Display) -> String {
    format!("\n[… {bytes} bytes left out …]\n")
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}
