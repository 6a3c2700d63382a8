//! The layer of `run --ephemeral`: sessions are kept in memory only.

use reins_kernel::Layer;
use toml::{Table, Value};

/// The row that takes the place of the store.
const ROW: &str = "ephemeral-store";
const PLUGIN: &str = "store-memory";
/// How the plugins begin that keep sessions.
const STORES: &str = "store-";

/// Disables every store that the layers insert, and inserts one that keeps nothing. A layer that
/// is broken inserts none; that is told elsewhere.
pub(super) fn layer(below: &[Layer]) -> Layer {
    let mut rows = vec![inserted()];
    for layer in below {
        let parsed = layer.text.parse::<Table>().unwrap_or_default();
        let inserts = parsed.get("insert").and_then(Value::as_array).into_iter().flatten();
        let stores = inserts.filter(|insert| text(insert, "plugin").starts_with(STORES));
        rows.extend(stores.map(|insert| disabled(text(insert, "id"))));
    }
    Layer { name: "--ephemeral".to_owned(), file: None, text: rows.concat(), head: &[] }
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn inserted() -> String {
    format!("[[insert]]\nid = \"{ROW}\"\nplugin = \"{PLUGIN}\"\n")
}

fn disabled(id: &str) -> String {
    format!("[[row]]\nid = {}\ndisabled = true\n", Value::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_of_the_layers_below_is_disabled() {
        let layer_of = |text: &str| Layer {
            name: String::new(),
            file: None,
            text: text.to_owned(),
            head: &[],
        };
        let base = layer_of("[[insert]]\nid = \"store\"\nplugin = \"store-jsonl\"\n");
        let own = "[[insert]]\nid = \"my \\\"db\"\nplugin = \"store-sqlite\"\n\
                   [[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n";
        let made = layer(&[base, layer_of(own), layer_of("broken = ")]);
        let expected = "[[insert]]\nid = \"ephemeral-store\"\nplugin = \"store-memory\"\n\
                        [[row]]\nid = \"store\"\ndisabled = true\n\
                        [[row]]\nid = 'my \"db'\ndisabled = true\n";
        assert_eq!(made.text, expected);
    }
}
