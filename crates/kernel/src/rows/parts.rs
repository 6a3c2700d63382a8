//! What a JSON Schema comes down to: the part of it that `schemars` writes.

use serde_json::{Map, Value};

/// `$ref`s and unions that are followed into each other without consuming any of the value.
const MAX_DEPTH: usize = 32;

/// The simple schemas that a schema comes down to, without `null`: one for each branch of a union.
#[derive(Default)]
pub(super) struct Parts<'s> {
    pub(super) simple: Vec<&'s Map<String, Value>>,
    /// The description that is nearest to the use.
    pub(super) doc: Option<&'s str>,
    /// Whether the value is not for everybody's eyes.
    pub(super) secret: bool,
}

impl<'s> Parts<'s> {
    pub(super) fn of(root: &'s Value, schema: &'s Value) -> Self {
        Self::of_all(root, &[schema])
    }

    pub(super) fn of_all(root: &'s Value, schemas: &[&'s Value]) -> Self {
        let mut parts = Self::default();
        for schema in schemas {
            parts.add(root, schema, 0);
        }
        parts
    }

    fn add(&mut self, root: &'s Value, schema: &'s Value, depth: usize) {
        let Value::Object(map) = schema else { return };
        if types(map) == ["null"] || depth > MAX_DEPTH {
            return;
        }
        self.secret |= map.get("writeOnly") == Some(&Value::Bool(true));
        // A constant's description is about that choice.
        if self.doc.is_none() && !map.contains_key("const") {
            self.doc = map.get("description").and_then(Value::as_str);
        }
        let own = ["type", "properties", "additionalProperties", "items", "enum", "const"];
        if own.iter().any(|key| map.contains_key(*key)) {
            self.simple.push(map);
        }
        if let Some(target) = target(root, map) {
            self.add(root, target, depth + 1);
        }
        for branch in ["allOf", "anyOf", "oneOf"].iter().flat_map(|union| list(map, union)) {
            self.add(root, branch, depth + 1);
        }
    }
}

/// What a `$ref` names.
pub(super) fn target<'s>(root: &'s Value, map: &Map<String, Value>) -> Option<&'s Value> {
    let pointer = map.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

pub(super) fn list<'s>(map: &'s Map<String, Value>, key: &str) -> &'s [Value] {
    map.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn types(map: &Map<String, Value>) -> Vec<&str> {
    match map.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
