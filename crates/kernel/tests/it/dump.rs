use reins_kernel::*;

use crate::plugins::{catalog, layer, references};

const BASE: &str = r#"
[[insert]]
id = "read"
plugin = "tool-read"
[insert.config]
root = "${home}/x/${env:TOKEN}/$${plain}"
modes = ["text"]
[insert.config.retry]
codes = [1, 2]

[[insert]]
id = "spare"
plugin = "tool-read"
disabled = true
"#;

#[test]
fn a_dump_loads_again_and_names_origins() {
    let patch = "[[row]]\nid = \"spare\"\nconfig = { max_bytes = 9 }\n";
    let layers = [layer("base", None, BASE), layer("home", Some("/h/settings.toml"), patch)];
    let first = compose(&layers, &catalog(), &references()).unwrap();
    let dump = first.dump();
    assert_eq!(
        dump,
        r#"# inserted by base:2
[[insert]]
id = "read"
plugin = "tool-read"

[insert.config]
modes = ["text"]
root = "${home}/x/${env:TOKEN}/$${plain}"

[insert.config.retry]
codes = [1, 2]

# inserted by base:11
# changed by home (/h/settings.toml:1)
[[insert]]
id = "spare"
plugin = "tool-read"
disabled = true

[insert.config]
max_bytes = 9
"#
    );
    let again = compose(&[layer("dump", None, &dump)], &catalog(), &references()).unwrap();
    let facts = |composition: &Composition| -> Vec<(String, String, toml::Table, bool)> {
        let rows = composition.rows.iter();
        let fact =
            |row: &Row| (row.id.clone(), row.plugin.clone(), row.config.clone(), row.disabled);
        rows.map(fact).collect()
    };
    assert_eq!(facts(&first), facts(&again));
}

#[test]
fn secrets_appear_in_no_text() {
    let layers = [layer("base", None, BASE)];
    let composition = compose(&layers, &catalog(), &references()).unwrap();
    let texts = [composition.dump(), format!("{composition:?}")];
    for text in texts {
        assert!(text.contains("${env:TOKEN}") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_line_break_in_a_file_name_does_not_end_the_comment() {
    let text = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n";
    let layers = [layer("x", Some("/a\n[[insert]]"), text)];
    let dump = compose(&layers, &catalog(), &references()).unwrap().dump();
    assert!(dump.starts_with("# inserted by x (/a?[[insert]]:1)\n"), "{dump}");
}
