//! The nearest known name to a misspelt one.

/// Longest name, in characters, that is compared; longer ones get no suggestion.
const MAX_CHARS: usize = 64;

/// The candidate that `name` was probably meant to be: fewest edits (insert, delete, replace,
/// swap neighbours; case and `-`/`_` are equal), at most a third of the name's length, at least
/// one. Ties go to the first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    let limit = (wanted.len() / 3).max(1);
    if wanted.len() > MAX_CHARS {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (candidate, folded(candidate)))
        .filter(|(_, folded)| folded.len().abs_diff(wanted.len()) <= limit)
        .map(|(candidate, folded)| (edits(&wanted, &folded), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

fn folded(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).map(|c| if c == '_' { '-' } else { c }).collect()
}

/// Optimal string alignment distance with three rolling rows.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replace = last[j] + usize::from(a != b);
            let mut best = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests;
