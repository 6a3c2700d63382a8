//! How layers combine.

use reins_kernel::*;

use crate::plugins::{catalog, layer, references};

const BASE: &str = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n\
                    config = { max_bytes = 5, root = \"/a\" }\n";

fn composed(layers: &[(&str, &str)]) -> Composition {
    let layers: Vec<Layer> = layers.iter().map(|(name, text)| layer(name, None, text)).collect();
    compose(&layers, &catalog(), &references()).unwrap()
}

#[test]
fn a_patch_replaces_the_whole_config() {
    let patch = "[[row]]\nid = \"read\"\nconfig = { max_bytes = 7 }\n";
    let composition = composed(&[("base", BASE), ("home", patch)]);
    let row = &composition.rows[0];
    assert_eq!(row.config, toml::toml! { max_bytes = 7 });
    assert_eq!(row.origin.place(), "base:1");
    assert_eq!(row.patched_by[0].place(), "home:1");
}

#[test]
fn later_layers_win_and_disabled_is_separate_from_config() {
    let off = "[[row]]\nid = \"read\"\ndisabled = true\n";
    let on = "[[row]]\nid = \"read\"\ndisabled = false\nplugin = \"tool-read\"\n";
    let composition = composed(&[("base", BASE), ("home", off)]);
    assert!(composition.rows[0].disabled);
    assert!(composition.rows[0].disabled_by.is_some());
    let composition = composed(&[("base", BASE), ("home", off), ("patch", on)]);
    assert!(!composition.rows[0].disabled);
    assert_eq!(composition.rows[0].disabled_by, None);
    assert_eq!(composition.rows[0].config, toml::toml! { max_bytes = 5 root = "/a" });
    assert_eq!(composition.rows[0].patched_by.len(), 2);
}

#[test]
fn within_a_layer_order_in_the_file_has_no_meaning() {
    let text = format!("[[row]]\nid = \"read\"\ndisabled = true\n{BASE}");
    let composition = composed(&[("one", &text)]);
    assert!(composition.rows[0].disabled);
    assert!(composition.warnings.is_empty());
}

#[test]
fn a_patch_of_an_absent_row_warns() {
    let text = "[[row]]\nid = \"raed\"\ndisabled = true\n\
                [[row]]\nid = \"other\"\nplugin = \"tool-read\"\n";
    let composition = composed(&[("base", BASE), ("home", text)]);
    let warnings: Vec<String> = composition.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "home:1: row `raed`: no row has this id, so this patch changes nothing; \
             did you mean `read`?",
            "home:4: row `other`: no row has this id, so this patch changes nothing; \
             to add a row write `[[insert]]`",
        ]
    );
}

#[test]
fn a_patch_without_a_change_warns() {
    let composition = composed(&[("base", BASE), ("home", "[[row]]\nid = \"read\"\n")]);
    assert_eq!(
        composition.warnings[0].to_string(),
        "home:1: row `read`: this patch changes nothing; give it `config` or `disabled`"
    );
}

#[test]
fn every_field_knows_where_it_was_written() {
    let patch = "[[row]]\nid = \"read\"\n[row.config]\nmax_bytes = 7\n\n[row.config.retry]\n\
                 codes = [1,\n 2]\n";
    let row = composed(&[("base", BASE), ("home", patch)]).rows.remove(0);
    let cases = [
        ("", "home:3"),
        ("max_bytes", "home:4"),
        ("retry", "home:6"),
        ("retry.attempts", "home:6"),
        ("retry.codes[1]", "home:8"),
        ("root", "home:3"),
    ];
    for (path, place) in cases {
        assert_eq!(row.field_origin(path).place(), place, "{path}");
    }
}

#[test]
fn a_config_that_replaces_one_of_the_same_layer_warns() {
    let twice = "[[row]]\nid = \"read\"\nconfig = { max_bytes = 7 }\n\n\
                 [[row]]\nid = \"read\"\n[row.config]\nroot = \"/b\"\nmax_bytes = 7\n";
    let composition = composed(&[("base", BASE), ("home", twice)]);
    let warnings: Vec<String> = composition.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["home:7: row `read`: replaces the `config` of line 3 as a whole; write both into one \
             `[[row]]`"]
    );
    assert_eq!(composition.rows[0].config, toml::toml! { root = "/b" max_bytes = 7 });
    // Another layer is meant to replace it, and `disabled` replaces nothing.
    let once = "[[row]]\nid = \"read\"\nconfig = { max_bytes = 7 }\n\
                [[row]]\nid = \"read\"\ndisabled = true\n";
    let composition = composed(&[("base", BASE), ("home", once), ("patch", once)]);
    assert_eq!(composition.warnings, []);
}

#[test]
fn a_patch_of_a_row_of_a_later_layer_warns() {
    let patch = "[[row]]\nid = \"read\"\ndisabled = true\n";
    let composition = composed(&[("early", patch), ("base", BASE)]);
    assert!(!composition.rows[0].disabled);
    assert_eq!(composition.warnings.len(), 1);
}

#[test]
fn the_catalog_refuses_two_plugins_of_one_name_and_shows_schemas() {
    let read = PluginDef::of::<crate::plugins::Read>();
    let error = Catalog::new(&[read, read]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin `tool-read` is listed twice in the catalog; rename one of them"
    );
    let schema = catalog().schema("tool-read").unwrap();
    assert!(schema["properties"]["max_bytes"].is_object());
    assert!(catalog().schema("nope").is_none());
    let summaries = catalog().plugins();
    let read = summaries.iter().find(|plugin| plugin.name == "tool-read").unwrap();
    assert_eq!((read.summary, read.reload), ("Reads.", Reload::Live));
}
