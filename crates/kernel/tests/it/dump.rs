use proptest::prelude::*;
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

fn facts(composition: &Composition) -> Vec<(String, String, toml::Table, bool)> {
    let fact = |row: &Row| (row.id.clone(), row.plugin.clone(), row.config.clone(), row.disabled);
    composition.rows.iter().map(fact).collect()
}

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
# changed by home, /h/settings.toml:1
[[insert]]
id = "spare"
plugin = "tool-read"
disabled = true

[insert.config]
max_bytes = 9
"#
    );
    let again = compose(&[layer("dump", None, &dump)], &catalog(), &references()).unwrap();
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
    assert!(dump.starts_with("# inserted by x, /a?[[insert]]:1\n"), "{dump}");
}

fn value() -> impl Strategy<Value = toml::Value> {
    // References have their own tests.
    let text = any::<String>().prop_map(|text| toml::Value::String(text.replace("${", "")));
    let leaf = prop_oneof![
        text,
        any::<i64>().prop_map(toml::Value::Integer),
        any::<bool>().prop_map(toml::Value::Boolean),
        (-1e9_f64..1e9).prop_map(toml::Value::Float),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::Array),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|fields| toml::Value::Table(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_config_survives_a_dump(extra in prop::collection::btree_map(".{0,6}", value(), 0..5)) {
        let extra: toml::Table = extra.into_iter().collect();
        let mut config = toml::toml! { url = "u" auth = "none" };
        config.insert("extra".to_owned(), toml::Value::Table(extra));
        let mut row = toml::toml! { id = "p" plugin = "provider" };
        row.insert("config".to_owned(), toml::Value::Table(config));
        let mut document = toml::Table::new();
        document.insert("insert".to_owned(), toml::Value::Array(vec![toml::Value::Table(row)]));
        let text = toml::to_string(&document).unwrap();
        let first = compose(&[layer("x", None, &text)], &catalog(), &references()).unwrap();
        // A value that looks like an address with a login does not survive, and must not.
        prop_assume!(!first.dump().contains("[withheld]"));
        let again = compose(&[layer("x", None, &first.dump())], &catalog(), &references()).unwrap();
        assert_eq!(facts(&first), facts(&again));
    }

    /// A settings file with any typing error is composed or refused, with places inside it.
    #[test]
    fn any_typing_error_is_survived(
        at in 0..BASE.len(), cut in 0..6_usize, typed in "[\\[\\]{}=\"'$.#a\n]{0,4}"
    ) {
        let end = (at + cut).min(BASE.len());
        let text = format!("{}{typed}{}", &BASE[..at], &BASE[end..]);
        match compose(&[layer("x", None, &text)], &catalog(), &references()) {
            Ok(composition) => {
                let dump = composition.dump();
                let again = compose(&[layer("x", None, &dump)], &catalog(), &references());
                assert_eq!(facts(&composition), facts(&again.unwrap()));
            }
            Err(errors) => {
                let lines = text.lines().count() + 1;
                assert!(!errors.is_empty());
                for error in errors {
                    assert!((1..=lines).contains(&(error.line as usize)), "{error}");
                    assert!(!error.to_string().contains("s3cret"), "{error}");
                }
            }
        }
    }
}
