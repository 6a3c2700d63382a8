//! JSON Schema in the small dialect that all providers take.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Kept of a schema, in this order; everything else is noise for a model.
const KEYWORDS: [&str; 14] = [
    "type",
    "description",
    "enum",
    "const",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "minItems",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
];

/// The parameters' schema as a value and as the text that goes to the model.
pub(super) fn of<I: JsonSchema>() -> (Value, Box<RawValue>) {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = normal(settings.into_generator().into_root_schema_for::<I>().to_value());
    if let Value::Object(root) = &mut schema {
        // The type's own comment is for its author; the model has the tool's description.
        root.shift_remove("description");
        if !root.contains_key("properties") {
            root.insert("properties".into(), Value::Object(Map::new()));
            root.insert("additionalProperties".into(), Value::Bool(false));
        }
    }
    // A JSON value always serialises; `null` would be refused by every provider at once.
    let text =
        serde_json::value::to_raw_value(&schema).unwrap_or_else(|_| RawValue::NULL.to_owned());
    (schema, text)
}

fn normal(schema: Value) -> Value {
    let Value::Object(mut raw) = schema else { return schema };
    merge_single_branch(&mut raw);
    // Every unsigned number has this bound.
    let unsigned = raw.get("format").and_then(Value::as_str).is_some_and(|f| f.starts_with("uint"));
    if unsigned && raw.get("minimum").and_then(Value::as_u64) == Some(0) {
        raw.shift_remove("minimum");
    }
    let mut kept = Map::new();
    for key in KEYWORDS {
        if let Some(value) = raw.shift_remove(key)
            && let Some(value) = normal_keyword(key, value)
        {
            kept.insert(key.into(), value);
        }
    }
    if kept.contains_key("properties") && !kept.contains_key("additionalProperties") {
        kept.insert("additionalProperties".into(), Value::Bool(false));
    }
    Value::Object(kept)
}

fn normal_keyword(key: &str, value: Value) -> Option<Value> {
    match (key, value) {
        ("type", Value::Array(types)) => types.into_iter().find(|name| name != "null"),
        ("description", Value::String(text)) => {
            Some(Value::String(text.split_whitespace().collect::<Vec<_>>().join(" ")))
        }
        ("default", Value::Null) => None,
        ("enum", Value::Array(values)) => {
            Some(Value::Array(values.into_iter().filter(|value| !value.is_null()).collect()))
        }
        ("properties", Value::Object(properties)) => Some(Value::Object(
            properties.into_iter().map(|(name, schema)| (name, normal(schema))).collect(),
        )),
        ("anyOf", Value::Array(branches)) => {
            Some(Value::Array(branches.into_iter().map(normal).collect()))
        }
        ("items" | "additionalProperties", value) => Some(normal(value)),
        (_, value) => Some(value),
    }
}

/// `anyOf`/`oneOf` of one thing and null is that thing; of constants it is an enumeration.
fn merge_single_branch(schema: &mut Map<String, Value>) {
    let branches = ["anyOf", "oneOf"].into_iter().find_map(|key| schema.shift_remove(key));
    let Some(Value::Array(mut branches)) = branches else { return };
    branches.retain(|branch| branch["type"] != "null");
    if branches.len() == 1
        && let Some(Value::Object(only)) = branches.pop()
    {
        for (key, value) in only {
            schema.entry(key).or_insert(value);
        }
        // The branch may itself have branches.
        return merge_single_branch(schema);
    }
    let mut values = Vec::new();
    for branch in &branches {
        match (branch.get("const"), branch.get("enum")) {
            (Some(value), _) => values.push(value.clone()),
            (None, Some(Value::Array(more))) => values.extend(more.iter().cloned()),
            _ => {
                schema.insert("anyOf".into(), Value::Array(branches));
                return;
            }
        }
    }
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), Value::Array(values));
}
