//! Checks arguments and says in clear words what is wrong.

use reins_kernel::nearest;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

/// Characters of a wrong value that are quoted.
const MAX_QUOTED: usize = 60;

/// The typed arguments, or what is wrong with them.
pub(super) fn read<I: DeserializeOwned>(arguments: &Value, schema: &Value) -> Result<I, String> {
    if !arguments.is_object() {
        return Err(format!(
            "the arguments must be a JSON object with {}, got {}",
            keys_of(schema),
            shown(arguments)
        ));
    }
    if let Some(problem) = check_keys(arguments, schema, "") {
        return Err(problem);
    }
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let (mut value, mut expected) = (Some(arguments), Some(schema));
        for segment in error.path() {
            (value, expected) = match segment {
                Segment::Map { key } => (
                    value.and_then(|value| value.get(key)),
                    expected.and_then(|schema| schema.get("properties")?.get(key)),
                ),
                Segment::Seq { index } => (
                    value.and_then(|value| value.get(index)),
                    expected.and_then(|schema| schema.get("items")),
                ),
                _ => (None, None),
            };
        }
        let path = error.path().to_string();
        match value.zip(expected.and_then(describe)) {
            Some((value, expected)) if path != "." => {
                format!("`{path}` must be {expected}, got {}", shown(value))
            }
            _ => format!("`{path}`: {}", error.inner()),
        }
    })
}

/// Unknown and missing keys, outermost object first.
fn check_keys(value: &Value, schema: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(given) => check_object(given, schema, path),
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items
                .iter()
                .enumerate()
                .find_map(|(index, item)| check_keys(item, schema, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

fn check_object(given: &Map<String, Value>, schema: &Value, path: &str) -> Option<String> {
    let known = schema.get("properties")?.as_object()?;
    let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    if schema["additionalProperties"] == Value::Bool(false)
        && let Some(key) = given.keys().find(|key| !known.contains_key(*key))
    {
        let free = known.keys().filter(|name| !given.contains_key(*name));
        let hint = match nearest(key, free.map(String::as_str)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("it takes {}", keys_of(schema)),
        };
        return Some(format!("there is no parameter `{key}`{place}; {hint}"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<String> =
        required.filter(|key| !given.contains_key(*key)).map(|key| format!("`{key}`")).collect();
    if !missing.is_empty() {
        return Some(format!(
            "{} is missing{place}; it takes {}",
            missing.join(" and "),
            keys_of(schema)
        ));
    }
    known.iter().find_map(|(key, schema)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        check_keys(given.get(key)?, schema, &path)
    })
}

/// `file_path`, `limit` (optional)
fn keys_of(schema: &Value) -> String {
    let Some(known) = schema["properties"].as_object().filter(|known| !known.is_empty()) else {
        return "no parameters".into();
    };
    let required = schema["required"].as_array();
    let name = |key: &String| match required.is_some_and(|list| list.iter().any(|k| k == key)) {
        true => format!("`{key}`"),
        false => format!("`{key}` (optional)"),
    };
    known.keys().map(name).collect::<Vec<_>>().join(", ")
}

fn describe(schema: &Value) -> Option<String> {
    if let Some(values) = schema["enum"].as_array() {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values: Vec<String> = values.iter().map(|v| format!("`{}`", plain(v))).collect();
        return Some(format!("one of {}", values.join(", ")));
    }
    let bound = match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of at least {least}"),
        (None, Some(most)) => format!(" of at most {most}"),
        (None, None) => String::new(),
    };
    Some(match schema["type"].as_str()? {
        "string" => "a string".into(),
        "boolean" => "true or false".into(),
        "integer" => format!("a whole number{bound}"),
        "number" => format!("a number{bound}"),
        "array" => match describe(&schema["items"]) {
            Some(items) => format!("an array, each item {items}"),
            None => "an array".into(),
        },
        "object" => format!("an object with {}", keys_of(schema)),
        _ => return None,
    })
}

/// The kind of a value and its beginning.
fn shown(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".into(),
        Value::Bool(_) => "",
        Value::Number(_) => "the number ",
        Value::String(_) => "the string ",
        Value::Array(_) => "the array ",
        Value::Object(_) => "the object ",
    };
    let text = value.to_string();
    if text.chars().count() <= MAX_QUOTED {
        return format!("{kind}{text}");
    }
    let head: String = text.chars().take(MAX_QUOTED).collect();
    format!("{kind}{head}…")
}
