//! A configuration against its JSON Schema: unknown keys for sure, and the likely other flaws.
//!
//! Reads the part of JSON Schema that `schemars` writes. A union (`anyOf`, `oneOf`) is read as
//! the branches that fit the value's tags, or all of them when none does.

use std::ops::RangeInclusive;

use serde_json::{Map, Number, Value};

use super::layer::join;
use super::nearest::nearest;
use super::parts::{Parts, list, target, types};

/// `$ref`s that are followed without consuming any of the value.
const MAX_REFS: usize = 32;

#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) flaw: Flaw,
    pub(super) suggestion: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Flaw {
    UnknownKey {
        known: Vec<String>,
    },
    /// A key in quotes with a point in it, which without the quotes would lead into a table.
    Quoted {
        key: String,
    },
    /// With what it takes, in words.
    Missing {
        kind: String,
    },
    /// A whole number that its type does not hold.
    OutOfRange {
        limits: String,
        found: String,
    },
    WrongType {
        expected: String,
        found: &'static str,
    },
    NoChoice {
        found: String,
        choices: Vec<String>,
    },
}

impl Finding {
    pub(super) fn problem(&self) -> String {
        match &self.flaw {
            Flaw::UnknownKey { .. } if self.suggestion.is_some() => "unknown key".to_owned(),
            Flaw::UnknownKey { known } if known.is_empty() => {
                "unknown key; there is nothing to set here".to_owned()
            }
            Flaw::UnknownKey { known } => {
                format!("unknown key; known are `{}`", known.join("`, `"))
            }
            Flaw::Quoted { key } => {
                format!("unknown key; a key in quotes is one word: write `{key}` without quotes")
            }
            Flaw::Missing { kind } => format!("is required: {kind}"),
            Flaw::OutOfRange { limits, found } => format!("must be {limits}, found {found}"),
            Flaw::WrongType { expected, found } => format!("must be {expected}, found {found}"),
            Flaw::NoChoice { found, choices } => {
                format!("`{found}` is none of `{}`", choices.join("`, `"))
            }
        }
    }
}

/// What is wrong with `config`; its unknown keys are removed.
pub(super) fn find_flaws(schema: &Value, config: &mut Value) -> Vec<Finding> {
    let mut walk = Walk { root: schema, findings: Vec::new() };
    walk.value(&[schema], config, "");
    walk.findings
}

struct Walk<'s> {
    root: &'s Value,
    findings: Vec<Finding>,
}

/// The simple schemas that a value is held against.
#[derive(Default)]
struct Shape<'s> {
    parts: Vec<&'s Map<String, Value>>,
    /// Whether one of them takes anything.
    open: bool,
}

impl<'s> Walk<'s> {
    fn value(&mut self, schemas: &[&'s Value], value: &mut Value, path: &str) {
        let mut shape = Shape::default();
        for schema in schemas {
            self.resolve(schema, value, &mut shape, 0);
        }
        if shape.open {
            return;
        }
        if !shape.parts.iter().any(|part| takes_type(part, value)) {
            let parts = Parts { simple: shape.parts, ..Parts::default() };
            let expected = match &*parts.kind(self.root) {
                // Nothing that can be written.
                "anything" => "left out".to_owned(),
                kind => kind.to_owned(),
            };
            let flaw = Flaw::WrongType { expected, found: described(value) };
            return self.push(path.to_owned(), flaw, None);
        }
        match value {
            Value::Object(fields) => self.object(&shape, fields, path),
            Value::Array(items) => self.array(&shape, items, path),
            Value::String(text) => self.choice(&shape, text, path),
            Value::Number(number) => self.range(&shape, number, path),
            _ => {}
        }
    }

    fn push(&mut self, path: String, flaw: Flaw, suggestion: Option<String>) {
        self.findings.push(Finding { path, flaw, suggestion });
    }

    fn resolve(&self, schema: &'s Value, value: &Value, shape: &mut Shape<'s>, refs: usize) {
        let Value::Object(map) = schema else {
            shape.open |= *schema == Value::Bool(true);
            return;
        };
        let mut compound = false;
        if let Some(target) = target(self.root, map) {
            compound = true;
            if refs < MAX_REFS {
                self.resolve(target, value, shape, refs + 1);
            } else {
                shape.open = true;
            }
        }
        for branch in list(map, "allOf") {
            compound = true;
            self.resolve(branch, value, shape, refs + 1);
        }
        for union in ["anyOf", "oneOf"] {
            let branches = list(map, union);
            compound |= !branches.is_empty();
            let fitting: Vec<&Value> =
                branches.iter().filter(|branch| self.fits(branch, value)).collect();
            let chosen = if fitting.is_empty() { branches.iter().collect() } else { fitting };
            for branch in chosen {
                self.resolve(branch, value, shape, refs + 1);
            }
        }
        // Fields beside a union or reference belong to the same object as those inside.
        let own = ["type", "properties", "additionalProperties", "items", "enum", "const"];
        if own.iter().any(|key| map.contains_key(*key)) {
            shape.parts.push(map);
        } else if !compound {
            shape.open = true;
        }
    }

    /// Whether a branch of a union can be the one meant, by type, constant and tags.
    fn fits(&self, branch: &'s Value, value: &Value) -> bool {
        let Value::Object(map) = branch else { return *branch == Value::Bool(true) };
        let map = match target(self.root, map) {
            Some(Value::Object(target)) => target,
            _ => map,
        };
        if !takes_type(map, value) {
            return false;
        }
        if map.get("const").is_some_and(|constant| constant != value)
            || (map.contains_key("enum") && !list(map, "enum").contains(value))
        {
            return false;
        }
        let Value::Object(fields) = value else { return true };
        let required = list(map, "required");
        // One required key alone is how an externally tagged variant looks.
        if let [only] = required
            && !only.as_str().is_some_and(|key| fields.contains_key(key))
        {
            return false;
        }
        let properties = map.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().all(|(key, property)| {
            let constant = property.get("const");
            constant.is_none_or(|constant| fields.get(key).is_none_or(|held| held == constant))
        })
    }

    fn object(&mut self, shape: &Shape<'s>, fields: &mut Map<String, Value>, path: &str) {
        let parts: Vec<_> = shape.parts.iter().filter(|part| is_object(part)).copied().collect();
        let keys: Vec<String> = fields.keys().cloned().collect();
        let mut guessed = Vec::new();
        for key in keys {
            let schemas: Vec<&'s Value> =
                parts.iter().filter_map(|part| field_schema(part, &key)).collect();
            let path = join(path, &key);
            if schemas.is_empty() {
                fields.shift_remove(&key);
                let known = property_names(&parts);
                if key.split_once('.').is_some_and(|(first, _)| known.iter().any(|k| k == first)) {
                    self.push(path, Flaw::Quoted { key }, None);
                    continue;
                }
                let suggestion = nearest(&key, known.iter().map(String::as_str));
                let suggestion = suggestion.map(str::to_owned);
                guessed.extend(suggestion.clone());
                self.push(path, Flaw::UnknownKey { known }, suggestion);
            } else if let Some(value) = fields.get_mut(&key) {
                self.value(&schemas, value, &path);
            }
        }
        // With several parts it is not known which of them are required together.
        let [part] = parts[..] else { return };
        for key in list(part, "required").iter().filter_map(Value::as_str) {
            if !fields.contains_key(key) && !guessed.iter().any(|name| name == key) {
                let schema = field_schema(part, key).unwrap_or(&Value::Null);
                let kind = Parts::of(self.root, schema).kind(self.root);
                self.push(join(path, key), Flaw::Missing { kind }, None);
            }
        }
    }

    fn array(&mut self, shape: &Shape<'s>, items: &mut [Value], path: &str) {
        for (index, item) in items.iter_mut().enumerate() {
            let schemas: Vec<&'s Value> = shape
                .parts
                .iter()
                .filter_map(|part| list(part, "prefixItems").get(index).or(part.get("items")))
                .collect();
            if !schemas.is_empty() {
                self.value(&schemas, item, &format!("{path}[{index}]"));
            }
        }
    }

    /// Only against the width of the type. What else a plugin asks for it says itself.
    fn range(&mut self, shape: &Shape<'s>, number: &Number, path: &str) {
        let Some(number) = number.as_i64().map(i128::from) else { return };
        let takes = |part: &&&Map<String, Value>| takes_type(part, &Value::from(0));
        let parts: Vec<_> = shape.parts.iter().filter(takes).collect();
        let widths: Vec<_> = parts.iter().filter_map(|part| width(part)).collect();
        if widths.len() < parts.len() || widths.iter().any(|width| width.contains(&number)) {
            return;
        }
        let Some(width) = widths.first() else { return };
        let (least, most) = (width.start(), width.end());
        // Larger ones cannot be written.
        let limits = if *most >= i128::from(i64::MAX) {
            format!("at least {least}")
        } else {
            format!("{least} to {most}")
        };
        let found = number.to_string();
        self.push(path.to_owned(), Flaw::OutOfRange { limits, found }, None);
    }

    fn choice(&mut self, shape: &Shape<'s>, text: &str, path: &str) {
        let mut choices: Vec<&str> = Vec::new();
        for part in &shape.parts {
            let constant = part.get("const").map(std::slice::from_ref);
            match constant.or(part.get("enum").and_then(Value::as_array).map(Vec::as_slice)) {
                Some(values) => choices.extend(values.iter().filter_map(Value::as_str)),
                None if takes_type(part, &Value::String(String::new())) => return,
                None => {}
            }
        }
        if choices.contains(&text) {
            return;
        }
        let suggestion = nearest(text, choices.iter().copied()).map(str::to_owned);
        let choices = choices.into_iter().map(str::to_owned).collect();
        self.push(path.to_owned(), Flaw::NoChoice { found: text.to_owned(), choices }, suggestion);
    }
}

fn takes_type(map: &Map<String, Value>, value: &Value) -> bool {
    let types = types(map);
    types.is_empty() || types.iter().any(|name| is_of_type(value, name))
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// What the type of a whole number holds; `None` when any number will do.
fn width(part: &Map<String, Value>) -> Option<RangeInclusive<i128>> {
    let (least, most) = match part.get("format").and_then(Value::as_str)? {
        "uint8" => (0, i128::from(u8::MAX)),
        "uint16" => (0, i128::from(u16::MAX)),
        "uint32" => (0, i128::from(u32::MAX)),
        "uint" | "uint64" => (0, i128::from(u64::MAX)),
        "int8" => (i128::from(i8::MIN), i128::from(i8::MAX)),
        "int16" => (i128::from(i16::MIN), i128::from(i16::MAX)),
        "int32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => return None,
    };
    // A count that must not be 0 says so in the schema only.
    let least =
        if part.get("minimum").and_then(Value::as_u64) == Some(1) { 1.max(least) } else { least };
    Some(least..=most)
}

fn is_object(part: &Map<String, Value>) -> bool {
    types(part).contains(&"object")
        || part.contains_key("properties")
        || part.contains_key("additionalProperties")
}

/// The schema of a field; `None` when the object has no such field.
pub(super) fn field_schema<'s>(part: &'s Map<String, Value>, key: &str) -> Option<&'s Value> {
    let property = part.get("properties").and_then(|properties| properties.get(key));
    property
        .or_else(|| part.get("additionalProperties").filter(|more| **more != Value::Bool(false)))
}

/// Each name once.
fn property_names(parts: &[&Map<String, Value>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let properties = parts.iter().filter_map(|part| part.get("properties")?.as_object());
    for name in properties.flat_map(Map::keys) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a point",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}
