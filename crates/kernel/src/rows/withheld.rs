//! Secret values that are written in a row: neither dumps nor messages show them.

use serde_json::{Map, Value};

use super::check::{SECRET_MIN_BYTES, replaced};
use super::layer::join;
use super::parts::{Parts, list};
use super::reference::is_variable;
use super::schema::field_schema;
use crate::Catalog;

/// The `format` that a schema gives to a field for the name of an environment variable. A value
/// that is no such name may be what the variable should hold.
const VARIABLE: &str = "variable";

/// What stands for such a value.
const WITHHELD: &str = "[withheld]";

/// Longest word before a reference, as in `Bearer ${env:NAME}`; a longer one may be a secret.
const MAX_SCHEME_CHARS: usize = 16;

impl Catalog {
    /// A `config` of this plugin as it may be shown: `"[withheld]"` stands for every secret that is
    /// written in it, and for what is not known to be none: all that an unknown plugin has, keys
    /// that the plugin does not know, which may be misspelt, and every text with an address that
    /// holds a name or password (`://user:password@`), whatever its field is for.
    pub fn withhold(&self, plugin: &str, config: &toml::Table) -> toml::Table {
        let schema = self.schema(plugin).unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        shown(config, &schema)
    }
}

/// As [`Catalog::withhold`], by the plugin's schema.
pub(super) fn shown(config: &toml::Table, schema: &Value) -> toml::Table {
    let walk = Walk { root: schema, withheld: Withheld::default(), unknown_too: true };
    let withheld = walk.all(config, &Value::Null);
    if withheld.paths.is_empty() { config.clone() } else { withheld.config }
}

/// The secret values of a `config` that are written in it, not referred to.
#[derive(Clone, Default)]
pub(super) struct Withheld {
    /// The `config` without them; empty when there are none.
    pub(super) config: toml::Table,
    /// Where they were.
    pub(super) paths: Vec<String>,
    /// What they were.
    texts: Vec<String>,
}

impl std::fmt::Debug for Withheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Withheld({:?})", self.paths)
    }
}

impl Withheld {
    /// `ready` is the configuration with its references evaluated.
    pub(super) fn of(schema: &Value, config: &toml::Table, ready: &Value) -> Self {
        // A message about an unknown key does not quote its value.
        let walk = Walk { root: schema, withheld: Self::default(), unknown_too: false };
        walk.all(config, ready)
    }

    /// Takes the values out of a message about `field`. Short ones only where the message is about
    /// them and quotes them: anywhere else they would garble it.
    pub(super) fn redact(&self, mut message: String, field: &str) -> String {
        for (path, text) in self.paths.iter().zip(&self.texts) {
            if text.len() >= SECRET_MIN_BYTES {
                message = replaced(&message, text, WITHHELD);
            } else if path.starts_with(field) {
                for quote in ['`', '"'] {
                    let quoted = |text: &str| format!("{quote}{text}{quote}");
                    message = message.replace(&quoted(text), &quoted(WITHHELD));
                }
            }
        }
        message
    }
}

struct Walk<'a> {
    root: &'a Value,
    withheld: Withheld,
    /// Whether keys that the plugin does not know count as secret.
    unknown_too: bool,
}

impl<'a> Walk<'a> {
    fn all(mut self, config: &toml::Table, ready: &Value) -> Withheld {
        let mut config = config.clone();
        self.table(&Parts::of(self.root, self.root), &mut config, ready, "");
        if !self.withheld.paths.is_empty() {
            self.withheld.config = config;
        }
        self.withheld
    }

    fn table(&mut self, parts: &Parts<'a>, table: &mut toml::Table, ready: &Value, path: &str) {
        for (key, value) in table.iter_mut() {
            let of_key = |part: &&'a Map<String, Value>| field_schema(part, key);
            let schemas: Vec<&Value> = parts.simple.iter().filter_map(of_key).collect();
            let is_unknown = schemas.is_empty() && !parts.simple.is_empty();
            let mut inner = self.inner(parts, schemas);
            inner.secret |= is_unknown && self.unknown_too;
            self.value(&inner, value, &ready[key.as_str()], &join(path, key));
        }
    }

    fn value(&mut self, parts: &Parts<'a>, value: &mut toml::Value, ready: &Value, path: &str) {
        match value {
            toml::Value::Table(table) => self.table(parts, table, ready, path),
            toml::Value::Array(entries) => {
                for (at, entry) in entries.iter_mut().enumerate() {
                    let of_entry = |part: &&'a Map<String, Value>| {
                        list(part, "prefixItems").get(at).or_else(|| part.get("items"))
                    };
                    let of_entry = parts.simple.iter().filter_map(of_entry).collect();
                    let inner = self.inner(parts, of_entry);
                    self.value(&inner, entry, &ready[at], &format!("{path}[{at}]"));
                }
            }
            // One of two values is no secret.
            toml::Value::Boolean(_) => {}
            leaf => {
                let text = leaf.as_str();
                if parts.secret || text.is_some_and(|text| parts.misplaced(text)) {
                    self.leaf(leaf, ready, path);
                }
            }
        }
    }

    fn inner(&self, around: &Parts<'a>, schemas: Vec<&'a Value>) -> Parts<'a> {
        let mut inner = Parts::of_all(self.root, &schemas);
        inner.secret |= around.secret;
        inner
    }

    fn leaf(&mut self, value: &mut toml::Value, ready: &Value, path: &str) {
        if value.as_str().is_some_and(|text| text.is_empty() || is_reference(text)) {
            return;
        }
        self.withheld.texts.push(match ready {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        self.withheld.paths.push(path.to_owned());
        *value = toml::Value::String(WITHHELD.to_owned());
    }
}

/// Whether the text tells only where the value is: `${env:NAME}`, or `Bearer ${env:NAME}`.
fn is_reference(text: &str) -> bool {
    let is_scheme = |word: &str| {
        word.len() <= MAX_SCHEME_CHARS && word.chars().all(|c| c.is_ascii_alphabetic())
    };
    let rest = match text.split_once(' ') {
        Some((word, rest)) if is_scheme(word) => rest,
        _ => text,
    };
    let name = rest.strip_prefix("${env:").and_then(|rest| rest.strip_suffix('}'));
    // What stands after `:-` is a value.
    name.map(|name| name.strip_suffix(":-").unwrap_or(name)).is_some_and(is_variable)
}

impl Parts<'_> {
    /// Whether this text may well hold a secret though its field is for something else.
    fn misplaced(&self, text: &str) -> bool {
        let is_for_name = self
            .simple
            .iter()
            .any(|part| part.get("format").and_then(Value::as_str) == Some(VARIABLE));
        (is_for_name && !is_variable(text)) || holds_login(text) || is_unsafe_address(text)
    }
}

/// Whether the text is one address, written with a login but without a scheme, or with a query.
fn is_unsafe_address(text: &str) -> bool {
    let plain = without_references(text);
    if plain.contains(char::is_whitespace) {
        return false;
    }
    if plain.contains("://") {
        return plain.contains('?');
    }
    let is_word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    let Some((login, address)) = plain.rsplit_once('@') else { return false };
    let Some((name, password)) = login.split_once(':') else { return false };
    let host = address.split([':', '/']).next().unwrap_or_default();
    is_word(name) && !password.is_empty() && is_word(host)
}

/// Whether an address in this text holds a name or password that is written there. A name is none
/// beside a password that is only referred to.
fn holds_login(text: &str) -> bool {
    let plain = without_references(text);
    let refers = plain.len() < text.len();
    plain.split("://").skip(1).any(|rest| {
        let end = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
        let word = rest.split(end).next().unwrap_or_default();
        let Some((login, _)) = place_of(word).rsplit_once('@') else { return false };
        let (name, password) = login.split_once(':').unwrap_or((login, ""));
        !password.is_empty() || !(name.is_empty() || refers)
    })
}

/// The place that an address begins with, up to its path; behind a port there is nothing of it.
fn place_of(address: &str) -> &str {
    let place = address.split(['/', '?', '#']).next().unwrap_or_default();
    let port = place.rsplit_once(':').map(|(_, port)| port);
    let is_whole = place.contains('@')
        || place.starts_with('[')
        || port.is_none_or(|port| port.chars().all(|c| c.is_ascii_digit()));
    // A password may hold what should have been escaped.
    if is_whole { place } else { address }
}

/// Without every `${env:NAME}`.
fn without_references(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${env:") {
        plain.push_str(before);
        rest = match after.split_once('}') {
            Some((name, after)) if is_variable(name.strip_suffix(":-").unwrap_or(name)) => after,
            _ => {
                plain.push_str("${env:");
                after
            }
        };
    }
    plain.push_str(rest);
    plain
}
