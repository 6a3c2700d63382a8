//! Values of a plugin's description in the words of a layer.

use serde_json::Value;

/// On one line. What is null is left out, as TOML has no such value.
pub(crate) fn json_as_toml(value: &Value) -> String {
    match value {
        Value::Array(entries) => {
            let entries = entries.iter().filter(|entry| !entry.is_null()).map(json_as_toml);
            format!("[{}]", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields =
                fields.map(|(name, value)| format!("{} = {}", key(name), json_as_toml(value)));
            match &fields.collect::<Vec<_>>()[..] {
                [] => "{}".to_owned(),
                fields => format!("{{ {} }}", fields.join(", ")),
            }
        }
        // Every text, number and flag of JSON is one of TOML, too.
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_reads_as_the_same_value_without_what_is_null() {
        let odd = "a\"b\\c\n\t\u{1}\u{1f40e}'";
        let value = json!({
            "a.b": 1, "": [1.5, null, true], "plain-_1": { "x y": odd, "none": null }, "e": {},
            "f": 1.0, "g": -3, "l": [], (odd): 1e300,
        });
        let text = json_as_toml(&value);
        assert!(!text.contains('\n'), "{text}");
        let read: toml::Table = format!("v = {text}").parse().unwrap();
        let expected = json!({
            "a.b": 1, "": [1.5, true], "plain-_1": { "x y": odd }, "e": {},
            "f": 1.0, "g": -3, "l": [], (odd): 1e300,
        });
        assert_eq!(serde_json::to_value(&read["v"]).unwrap(), expected);
    }
}
