//! One JSON Schema for all files that hold rows: settings, patches, profiles, presets.

use std::collections::BTreeMap;

use reins_kernel::{Catalog, Places, PluginSummary, Row};
use serde_json::{Map, Value, json};

/// Names of schemas that are not a plugin's.
const REFERENCE: &str = "reference";

/// Keys whose values are lists of schemas.
const UNIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The schema of a file whose patches may name these rows.
pub(super) fn schema(catalog: &Catalog, rows: &[Row]) -> Value {
    let plugins = catalog.plugins();
    let mut definitions = Map::new();
    definitions.insert("insert".to_owned(), insert(catalog, &plugins));
    definitions.insert("row".to_owned(), patch(catalog, &plugins, rows));
    definitions.insert(REFERENCE.to_owned(), reference());
    for plugin in &plugins {
        define(catalog, plugin, &mut definitions);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rows of Reins",
        "description": "The settings, a `--patch` file, a profile or an agent preset.",
        "type": "object",
        "properties": {
            "bundles": {
                "description": "Only in a profile, above all tables: the shipped layers below it.",
                "type": "array",
                "items": { "type": "string" },
            },
            "description": {
                "description": "Only in an agent preset, above all tables: what it is for.",
                "type": "string",
            },
            "insert": {
                "description": "Adds a row.",
                "type": "array",
                "items": { "$ref": "#/$defs/insert" },
            },
            "row": {
                "description": "Changes a row of this file or of a layer below it.",
                "type": "array",
                "items": { "$ref": "#/$defs/row" },
            },
        },
        "additionalProperties": false,
        "not": { "required": ["bundles", "description"] },
        "$defs": definitions,
    })
}

fn insert(catalog: &Catalog, plugins: &[PluginSummary]) -> Value {
    let configs = plugins.iter().map(|plugin| {
        let mut then = json!({ "properties": { "config": config_of(plugin.name) } });
        if needs_config(catalog, plugin.name) {
            then["required"] = json!(["config"]);
        }
        let is_plugin = json!({ "const": plugin.name });
        json!({
            "if": { "properties": { "plugin": is_plugin }, "required": ["plugin"] },
            "then": then,
        })
    });
    let shape = shape(plugins, id(), &["id", "plugin"]);
    json!({ "allOf": std::iter::once(shape).chain(configs).collect::<Vec<_>>() })
}

fn patch(catalog: &Catalog, plugins: &[PluginSummary], rows: &[Row]) -> Value {
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows.iter().filter(|row| catalog.schema(&row.plugin).is_some()) {
        ids.entry(&row.plugin).or_default().push(&row.id);
    }
    let configs = ids.iter().map(|(plugin, ids)| {
        json!({
            "if": { "properties": { "id": { "enum": ids } }, "required": ["id"] },
            "then": {
                "properties": { "plugin": { "const": plugin }, "config": config_of(plugin) },
            },
        })
    });
    let known = rows.iter().map(|row| {
        let summary = plugins.iter().find(|plugin| plugin.name == row.plugin);
        json!({ "const": row.id, "description": summary.map(|plugin| plugin.summary) })
    });
    let mut id = id();
    // Another id only changes nothing, which is no error.
    id["anyOf"] = known.chain([json!({ "type": "string" })]).collect();
    let shape = shape(plugins, id, &["id"]);
    json!({ "allOf": std::iter::once(shape).chain(configs).collect::<Vec<_>>() })
}

/// The keys of a row, whatever its plugin.
fn shape(plugins: &[PluginSummary], id: Value, required: &[&str]) -> Value {
    let names = plugins.iter().map(|plugin| {
        let place = match plugin.places {
            Places::Global => " Not in agent presets.",
            Places::Nested => " Only in agent presets.",
            Places::Both => "",
        };
        let summary = plugin.summary.trim_end_matches('.');
        json!({ "const": plugin.name, "description": format!("{summary}.{place}") })
    });
    // Many editors offer nothing of what stands in `then`. This offers the keys of all plugins and
    // refuses no table; what is right is said by the conditions beside.
    let offered = plugins.iter().map(|plugin| config_of(plugin.name));
    let offered: Vec<Value> = offered.chain([json!({ "type": "object" })]).collect();
    json!({
        "type": "object",
        "properties": {
            "id": id,
            "plugin": { "type": "string", "oneOf": names.collect::<Vec<_>>() },
            "disabled": {
                "description": "Whether the row is left out.",
                "type": "boolean",
            },
            "config": {
                "description": "What the plugin takes. In a `[[row]]` it replaces the whole.",
                "type": "object",
                "anyOf": offered,
            },
        },
        "required": required,
        "additionalProperties": false,
    })
}

fn id() -> Value {
    json!({ "description": "Names the row.", "type": "string", "pattern": "^[^\\s`]+$" })
}

fn reference() -> Value {
    json!({
        "description": "A text with a reference: `${home}`, `${env:NAME}`, \
                        `${env:NAME:-default}`.",
        "type": "string",
        "pattern": "\\$\\{",
    })
}

fn needs_config(catalog: &Catalog, plugin: &str) -> bool {
    let schema = catalog.schema(plugin);
    let required = schema.as_ref().and_then(|schema| schema.get("required")?.as_array());
    required.is_some_and(|names| !names.is_empty())
}

fn config_of(plugin: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{}", pointer(&config_name(plugin))) })
}

fn config_name(plugin: &str) -> String {
    format!("config.{plugin}")
}

fn type_name(plugin: &str, name: &str) -> String {
    format!("type.{plugin}.{name}")
}

/// As a part of a JSON pointer in an address.
fn pointer(name: &str) -> String {
    name.replace('%', "%25").replace('~', "~0").replace('/', "~1")
}

/// Adds the schema of a plugin's `config`, and those that it refers to under names of their own.
fn define(catalog: &Catalog, plugin: &PluginSummary, definitions: &mut Map<String, Value>) {
    let Some(mut config) = catalog.schema(plugin.name) else { return };
    let types = config.as_object_mut().and_then(|config| config.remove("$defs"));
    let editor = Editor { plugin: plugin.name };
    for (name, mut schema) in types.as_ref().and_then(Value::as_object).cloned().unwrap_or_default()
    {
        editor.schema(&mut schema, Extent::Whole);
        definitions.insert(type_name(plugin.name, &name), schema);
    }
    editor.schema(&mut config, Extent::Whole);
    config["description"] = Value::from(plugin.summary);
    definitions.insert(config_name(plugin.name), config);
}

/// How much of a table a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Other keys may stand in another part.
    Part,
}

/// Turns the schema of a Rust type into one of the TOML that the kernel takes for it.
struct Editor<'a> {
    plugin: &'a str,
}

impl Editor<'_> {
    fn schema(&self, schema: &mut Value, extent: Extent) {
        let Value::Object(map) = schema else { return };
        map.remove("$schema");
        // A name of the source.
        map.remove("title");
        if let Some(Value::String(target)) = map.get_mut("$ref") {
            *target = self.renamed(target);
        }
        drop_null(map);
        let is_table = is_table(map);
        if is_table && extent == Extent::Whole {
            close(map);
        }
        let of_branch = if is_table { Extent::Part } else { extent };
        for union in UNIONS {
            for branch in map.get_mut(union).and_then(Value::as_array_mut).into_iter().flatten() {
                self.schema(branch, of_branch);
            }
        }
        for key in ["properties", "patternProperties"] {
            let properties = map.get_mut(key).and_then(Value::as_object_mut);
            for (_, property) in properties.into_iter().flatten() {
                self.property(property);
            }
        }
        for key in ["additionalProperties", "items"] {
            map.get_mut(key).into_iter().for_each(|inner| self.schema(inner, Extent::Whole));
        }
        let items = map.get_mut("prefixItems").and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(|item| self.schema(item, Extent::Whole));
        admit_references(map);
    }

    /// A constant alone in a table tells its variants apart, so it stays a constant.
    fn property(&self, property: &mut Value) {
        if property.get("const").is_none() {
            self.schema(property, Extent::Whole);
        }
    }

    fn renamed(&self, target: &str) -> String {
        match target.strip_prefix("#/$defs/") {
            Some(name) => format!("#/$defs/{}{name}", pointer(&type_name(self.plugin, ""))),
            None => format!("#/$defs/{}", pointer(&config_name(self.plugin))),
        }
    }
}

/// TOML has no `null`: what may be null may be left out.
fn drop_null(map: &mut Map<String, Value>) {
    if map.get("default") == Some(&Value::Null) {
        map.remove("default");
    }
    if let Some(Value::Array(names)) = map.get_mut("type") {
        names.retain(|name| name != "null");
        if let [only] = &names[..] {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    for union in UNIONS {
        if let Some(Value::Array(branches)) = map.get_mut(union) {
            branches.retain(|branch| branch.get("type") != Some(&json!("null")));
        }
    }
    if let Some(Value::Array(choices)) = map.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
}

fn is_table(map: &Map<String, Value>) -> bool {
    map.get("type") == Some(&json!("object")) || map.contains_key("properties")
}

/// The kernel refuses unknown keys in every table that does not say that it takes more.
fn close(map: &mut Map<String, Value>) {
    let open = ["additionalProperties", "unevaluatedProperties"];
    if open.iter().any(|key| map.contains_key(*key)) {
        return;
    }
    let is_whole = !map.contains_key("$ref") && UNIONS.iter().all(|key| !map.contains_key(*key));
    let key = if is_whole { "additionalProperties" } else { "unevaluatedProperties" };
    map.insert(key.to_owned(), Value::Bool(false));
}

/// Where a text is one of several, a reference may stand, too: it is evaluated first.
fn admit_references(map: &mut Map<String, Value>) {
    let is_choice = |branch: &Value| {
        let constant = branch.get("const").is_some_and(Value::is_string);
        constant || branch.get("enum").is_some()
    };
    let reference = json!({ "$ref": format!("#/$defs/{REFERENCE}") });
    for union in ["oneOf", "anyOf"] {
        let Some(Value::Array(branches)) = map.get_mut(union) else { continue };
        if branches.iter().any(is_choice) {
            let mut branches = std::mem::take(branches);
            branches.push(reference);
            map.remove(union);
            map.insert("anyOf".to_owned(), Value::Array(branches));
            return;
        }
    }
    if let Some(choices) = map.remove("enum") {
        map.insert("anyOf".to_owned(), json!([{ "enum": choices }, reference]));
    }
}

#[cfg(test)]
mod tests;
