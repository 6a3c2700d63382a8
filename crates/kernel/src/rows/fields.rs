//! What may be set in a plugin's `config`, for people: read from its JSON Schema.

use serde_json::{Map, Value};

use super::layer::join;
use super::parts::{Parts, list, types};
use crate::Catalog;

/// One field of a plugin's `config`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDoc {
    /// Where it is: `retry.max_retries`, `models[].id`, `models.<name>.window`.
    pub path: String,
    /// What it takes: `an integer`, `true or false`, ``one of `a`, `b` ``, `a list of tables`.
    pub kind: String,
    /// Whether the table around it needs it.
    pub required: bool,
    /// What holds when it is left out; `None` when that is for the plugin to decide, and when the
    /// value's type can be read only (it has no `Serialize`).
    pub default: Option<Value>,
    /// What it means, with its choices when they are described. Its line breaks are those of the
    /// source.
    pub doc: String,
    /// Whether its value is not for everybody's eyes.
    pub secret: bool,
    /// The values it takes, for example `at least 1`; empty when any of its kind will do.
    pub limits: String,
}

impl Catalog {
    /// The fields of a plugin's `config` in the order of its source, each table followed by what
    /// is in it; `None` when there is no such plugin.
    pub fn fields(&self, plugin: &str) -> Option<Vec<FieldDoc>> {
        let root = self.schema(plugin)?;
        let mut reader = Reader { root: &root, fields: Vec::new(), open: Vec::new() };
        reader.inside(&Parts::of(&root, &root), "", false);
        Some(reader.fields)
    }
}

struct Reader<'s> {
    root: &'s Value,
    fields: Vec<FieldDoc>,
    /// The tables around: a type may hold itself.
    open: Vec<&'s Map<String, Value>>,
}

/// One key of a table. Several variants of a table may each say something of it.
struct Key<'s> {
    name: &'s str,
    schemas: Vec<&'s Value>,
    required: bool,
}

impl<'s> Reader<'s> {
    /// The fields in a table, in the entries of a list and in the values of a map.
    fn inside(&mut self, parts: &Parts<'s>, path: &str, secret: bool) {
        let is_open = |part: &&&'s Map<String, Value>| {
            self.open.iter().any(|open| std::ptr::eq::<Map<String, Value>>(*open, **part))
        };
        let fresh: Vec<_> = parts.simple.iter().filter(|part| !is_open(part)).copied().collect();
        let depth = self.open.len();
        self.open.extend(&fresh);
        for key in keys(&fresh) {
            self.field(key, path, secret);
        }
        for part in fresh {
            let items = list(part, "prefixItems").iter().chain(part.get("items"));
            for item in items {
                let item = Parts::of(self.root, item);
                let secret = secret || item.secret;
                self.inside(&item, &format!("{path}[]"), secret);
            }
            if let Some(value) = part.get("additionalProperties") {
                let value = Parts::of(self.root, value);
                let secret = secret || value.secret;
                self.inside(&value, &join(path, "<name>"), secret);
            }
        }
        self.open.truncate(depth);
    }

    fn field(&mut self, key: Key<'s>, path: &str, secret: bool) {
        let parts = Parts::of_all(self.root, &key.schemas);
        let path = join(path, key.name);
        let secret = secret || parts.secret;
        let default = key.schemas.iter().find_map(|schema| schema.get("default"));
        let mut doc = parts.doc.unwrap_or_default().to_owned();
        doc.push_str(&choices_described(&parts));
        self.fields.push(FieldDoc {
            path: path.clone(),
            kind: parts.kind(self.root),
            required: key.required,
            default: default.filter(|value| !value.is_null()).cloned(),
            doc,
            secret,
            limits: limits(&parts),
        });
        self.inside(&parts, &path, secret);
    }
}

/// Every key once, in the order of the source. It is required when no variant does without.
fn keys<'s>(parts: &[&'s Map<String, Value>]) -> Vec<Key<'s>> {
    let tables: Vec<_> = parts.iter().filter(|part| part.contains_key("properties")).collect();
    let mut keys: Vec<Key<'s>> = Vec::new();
    for part in &tables {
        let Some(properties) = part.get("properties").and_then(Value::as_object) else { continue };
        for (name, schema) in properties {
            match keys.iter_mut().find(|key| key.name == name) {
                Some(key) => key.schemas.push(schema),
                None => keys.push(Key { name, schemas: vec![schema], required: false }),
            }
        }
    }
    for key in &mut keys {
        let needs =
            |part: &Map<String, Value>| list(part, "required").iter().any(|n| n == key.name);
        key.required = tables.iter().all(|part| needs(part));
    }
    keys
}

/// What each choice means, where that is written.
fn choices_described(parts: &Parts<'_>) -> String {
    let described = parts.simple.iter().filter_map(|part| {
        let name = part.get("const")?.as_str()?;
        let meaning = part.get("description")?.as_str()?;
        Some(format!("\n`{name}`: {meaning}"))
    });
    described.collect()
}

fn limits(parts: &Parts<'_>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for part in &parts.simple {
        let unsigned = part.get("format").and_then(Value::as_str);
        let unsigned = unsigned.is_some_and(|format| format.starts_with("uint"));
        let most = part.get("maximum");
        // That a count is not below nothing goes without saying.
        let least = part.get("minimum");
        let least = least.filter(|least| !(unsigned && **least == 0));
        let ranges = [
            (least, most, ""),
            (part.get("minLength"), part.get("maxLength"), " characters"),
            (part.get("minItems"), part.get("maxItems"), " entries"),
        ];
        for (least, most, unit) in ranges {
            let text = match (least, most) {
                (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
                (Some(least), None) => format!("at least {least}{unit}"),
                (None, Some(most)) => format!("at most {most}{unit}"),
                (None, None) => continue,
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts.join(", ")
}

impl Parts<'_> {
    /// What a value must be, in words.
    pub(super) fn kind(&self, root: &Value) -> String {
        let choices = self.choices();
        let mut kinds = Vec::new();
        match &choices[..] {
            [] => {}
            [only] => kinds.push(format!("`{only}`")),
            several => kinds.push(format!("one of `{}`", several.join("`, `"))),
        }
        for (name, part) in self.types() {
            let kind = match name {
                "string" => "a string".to_owned(),
                "integer" => "an integer".to_owned(),
                "number" => "a number".to_owned(),
                "boolean" => "true or false".to_owned(),
                "array" => with_inner("a list", part.get("items"), root),
                "object" => with_inner("a table", part.get("additionalProperties"), root),
                _ => continue,
            };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.is_empty() { "anything".to_owned() } else { kinds.join(" or ") }
    }

    /// As [`Self::kind`], of many.
    fn kinds(&self) -> Option<String> {
        let choices = self.choices();
        let mut kinds = Vec::new();
        if !choices.is_empty() {
            kinds.push(format!("`{}`", choices.join("` or `")));
        }
        for (name, _) in self.types() {
            let kind = match name {
                "string" => "strings",
                "integer" => "integers",
                "number" => "numbers",
                "boolean" => "true or false",
                "array" => "lists",
                "object" => "tables",
                _ => continue,
            };
            if !kinds.iter().any(|held| held == kind) {
                kinds.push(kind.to_owned());
            }
        }
        (!kinds.is_empty()).then(|| kinds.join(" or "))
    }

    fn choices(&self) -> Vec<&str> {
        let constants = self.simple.iter().flat_map(|part| {
            part.get("const").into_iter().chain(list(part, "enum")).filter_map(Value::as_str)
        });
        let mut choices = Vec::new();
        for choice in constants {
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
        choices
    }

    /// The types of what is no choice.
    fn types(&self) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        let free =
            |part: &&&Map<String, Value>| !part.contains_key("const") && !part.contains_key("enum");
        self.simple.iter().filter(free).flat_map(|part| {
            let mut names = types(part);
            if names.is_empty() && part.contains_key("properties") {
                names.push("object");
            }
            names.into_iter().map(move |name| (name, *part))
        })
    }
}

fn with_inner(outer: &str, inner: Option<&Value>, root: &Value) -> String {
    let inner = inner.and_then(|inner| Parts::of(root, inner).kinds());
    inner.map_or_else(|| outer.to_owned(), |inner| format!("{outer} of {inner}"))
}
