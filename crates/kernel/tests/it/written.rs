//! What each layer wrote into a row, field by field, and that no secret is among it.

use std::collections::BTreeMap;

use reins_kernel::*;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::plugins::{layer, references};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    tries: Vec<u8>,
    routes: BTreeMap<String, BTreeMap<String, u8>>,
    #[schemars(extend("writeOnly" = true))]
    key: String,
}

struct Routed;

impl Plugin for Routed {
    const NAME: &'static str = "routed";
    const SUMMARY: &'static str = "Has fields.";
    type Config = Config;

    fn mount(_: Config, _: &mut Mount<'_>) -> Result<(), MountError> {
        Ok(())
    }
}

const BASE: &str = r#"[[insert]]
id = "a"
plugin = "routed"
[insert.config]
tries = [1, 2]
key = "sk-old"
[insert.config.routes]
"x.y" = { z = 3 }
"#;

const PATCH: &str = r#"[[row]]
id = "a"
disabled = false

[[row]]
id = "a"
config = { key = "${env:TOKEN}", tries = [
  7,
] }
"#;

/// Place and value of each, the oldest first.
fn written(row: &Row, path: &str, catalog: &Catalog) -> Vec<(String, Option<String>)> {
    let written = row.written(path, catalog).into_iter();
    written.map(|w| (w.origin.place(), w.value.map(|value| value.to_string()))).collect()
}

#[test]
fn every_config_says_what_it_wrote_and_what_it_left_out() {
    let catalog = Catalog::new(&[PluginDef::of::<Routed>()]).unwrap();
    let layers = [layer("base", None, BASE), layer("home", Some("/h/s.toml"), PATCH)];
    let rows = compose(&layers, &catalog, &references()).unwrap().rows;
    let of = |path: &str| written(&rows[0], path, &catalog);
    let some = |place: &str, value: &str| (place.to_owned(), Some(value.to_owned()));
    let none = |place: &str| (place.to_owned(), None);

    assert_eq!(of("tries[0]"), [some("base:5", "1"), some("/h/s.toml:8", "7")]);
    assert_eq!(of("tries[1]"), [some("base:5", "2"), none("/h/s.toml:7")]);
    let dotted = [some("base:8", "3"), none("/h/s.toml:7")];
    assert_eq!(of("routes.x.y.z"), dotted, "a key may hold dots");
    assert_eq!(of("routes.x"), [none("base:7"), none("/h/s.toml:7")], "a part of a key is none");
    let secrets = [some("base:6", "\"[withheld]\""), some("/h/s.toml:7", "\"${env:TOKEN}\"")];
    assert_eq!(of("key"), secrets, "references are no secrets");
    assert_eq!(rows[0].paths(), ["key", "tries", "tries[0]"], "of what is in force");
    let whole = of("").into_iter().map(|(_, value)| value.unwrap()).collect::<String>();
    assert!(!whole.contains("sk-old") && whole.contains("[withheld]"), "{whole}");
}

#[test]
fn what_is_written_can_be_had_though_it_is_wrong() {
    let text = "[[insert]]\nid = \"a\"\nplugin = \"gone\"\nconfig = { n = \"${env:NOT_SET}\" }\n\
                [[insert]]\nplugin = \"no-id\"\n[[row]]\nid = \"a\"\nconfig = { n = \"x\" }\n";
    let layers = [layer("base", None, text)];
    assert!(compose(&layers, &Catalog::default(), &references()).is_err());
    let rows = as_written(&layers);
    let shown: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.config.to_string())).collect();
    assert_eq!(shown, [("a", "n = \"x\"\n".to_owned())]);
    assert_eq!(rows[0].patched_by[0].line, 7);
}
