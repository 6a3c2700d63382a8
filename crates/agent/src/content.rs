//! The border at which everything that enters the context is capped.

use reins_schema::Block;

/// Cuts the middle out of texts so that all of them together have at most `max_bytes`.
pub(crate) fn cap_content(content: Vec<Block>, max_bytes: usize) -> Vec<Block> {
    let total: usize = content.iter().map(text_bytes).sum();
    if total <= max_bytes {
        return content;
    }
    let mut left = max_bytes;
    let capped = content.into_iter().map(|block| match block {
        Block::Text(text) => {
            let text = cap_text(text, left);
            left = left.saturating_sub(text.len());
            Block::Text(text)
        }
        other => other,
    });
    capped.collect()
}

fn text_bytes(block: &Block) -> usize {
    match block {
        Block::Text(text) => text.len(),
        _ => 0,
    }
}

/// Keeps head and tail; the marker counts towards the limit where there is room for one.
fn cap_text(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let marker = format!("\n[… {} bytes left out …]\n", text.len() - max_bytes);
    let keep = max_bytes.saturating_sub(marker.len());
    let head_end = text.floor_char_boundary(keep - keep / 3);
    let tail_start = text.ceil_char_boundary(text.len() - keep / 3);
    format!("{}{marker}{}", &text[..head_end], &text[tail_start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_over_the_limit_keeps_both_ends_and_says_what_is_missing() {
        let text = format!("begin{}end", "ü".repeat(5000));
        let capped = cap_text(text, 300);
        assert!(capped.len() <= 300, "{} bytes", capped.len());
        assert!(capped.starts_with("begin") && capped.ends_with("end"));
        assert!(capped.contains("9708 bytes left out"), "{capped}");
    }

    #[test]
    fn all_texts_of_a_result_share_the_limit() {
        let blocks = vec![Block::Text("a".repeat(900)), Block::Text("b".repeat(900))];
        let total: usize = cap_content(blocks, 1000).iter().map(text_bytes).sum();
        assert!(total <= 1000 + 40, "{total} bytes");
    }
}
