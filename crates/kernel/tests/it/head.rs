//! Keys at the top of a layer that belong to whoever read the file.

use reins_kernel::*;

use crate::plugins::{catalog, references};

fn headed(text: &str) -> Layer {
    let head = &["bundles", "description"];
    Layer { name: "profile".into(), file: Some("p.toml".into()), text: text.into(), head }
}

fn problems(text: &str) -> Vec<String> {
    match compose(&[headed(text)], &catalog(), &references()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

const ROW: &str = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n";

/// A text, a key, its value and line.
type Case<'a> = (&'a str, &'a str, Option<(toml::Value, u32)>);

#[test]
fn a_value_is_read_with_its_line() {
    let list = |names: &[&str]| toml::Value::from(names.to_vec());
    let text = toml::Value::from("text");
    let cases: [Case<'_>; 17] = [
        ("bundles = [\"base\"]\n", "bundles", Some((list(&["base"]), 1))),
        ("bundles = [\n \"a\",\n \"b\"\n]\n", "bundles", Some((list(&["a", "b"]), 1))),
        ("# why\n\n  description = 'text' # so\n", "description", Some((text.clone(), 3))),
        ("# why\r\n\r\ndescription = \"text\"\r\n", "description", Some((text.clone(), 3))),
        ("\u{feff}description = \"text\"\n", "description", Some((text.clone(), 1))),
        ("\u{feff}# why\r\ndescription = \"text\"", "description", Some((text.clone(), 2))),
        ("bundles = []\n\"description\" = \"text\"", "description", Some((text.clone(), 2))),
        ("a = '''\n\n'''\ndescription = \"text\"", "description", Some((text.clone(), 4))),
        ("# \u{1f40e} \u{e9}\ndescription = \"text\"", "description", Some((text.clone(), 2))),
        // Also keys that are in no list, and of any type.
        ("other = true\n", "other", Some((toml::Value::from(true), 1))),
        ("\nb.c.d = 1\n", "b", Some((toml::toml! { c.d = 1 }.into(), 2))),
        ("[b.c]\nd = 1\n", "b", Some((toml::toml! { c.d = 1 }.into(), 1))),
        // What does not belong to the key has no part in it.
        ("description = \"text\"\na = 99999999999999999999\n", "description", Some((text, 1))),
        ("[[row]]\nid = \"read\"\ndescription = \"text\"\n", "description", None),
        ("", "bundles", None),
        ("bundles = [\"base\"\ndescription = \"text\"\n", "description", None),
        ("bundles = []\nbundles = []\n", "bundles", None),
    ];
    for (text, key, expected) in cases {
        let found = headed(text).head_value(key);
        assert_eq!(found.map(|found| (found.value, found.line)), expected, "{text}");
    }
}

#[test]
fn the_entries_of_a_list_have_lines() {
    let lines = |text: &str| headed(text).head_value("bundles").map(|found| found.entry_lines);
    assert_eq!(lines("bundles = [\n \"a\", 7,\n\n { b = [\n 1] }\n]\n"), Some(vec![2, 2, 4]));
    assert_eq!(lines("\nbundles = []\n"), Some(vec![]));
    assert_eq!(lines("bundles = \"a\"\n"), Some(vec![]));
}

#[test]
fn what_cannot_be_read_is_told_by_compose() {
    let big = "must be from -9223372036854775808 to 9223372036854775807, which is what fits \
               into 64 bits";
    let cases = [
        (
            "bundles = [\n",
            "bundles",
            "p.toml:1: not valid TOML: the list is not closed; end it with `]`",
        ),
        (
            "\nbundles = []\nbundles = []\n",
            "bundles",
            "p.toml:3: not valid TOML: the key `bundles` is there twice; keep one",
        ),
        (
            "\ndescription = 99999999999999999999\n",
            "description",
            &format!("p.toml:2: field `description`: {big}"),
        ),
        (
            "bundles = [\"a\",\n 99999999999999999999]\n",
            "bundles",
            &format!("p.toml:2: field `bundles`: {big}"),
        ),
    ];
    for (text, key, expected) in cases {
        assert_eq!(headed(text).head_value(key), None, "{text}");
        assert_eq!(problems(text), [expected]);
    }
    let long = format!("bundles = []\n#{}", "x".repeat(MAX_LAYER_BYTES));
    assert_eq!(headed(&long).head_value("bundles"), None);
    assert_eq!(problems(&long), ["p.toml: longer than 1048576 bytes; take out what is not needed"]);
}

#[test]
fn keys_of_the_head_are_no_keys_of_rows() {
    let text = format!("description = \"d\"\nbundles = 7\n{ROW}");
    let composition = compose(&[headed(&text)], &catalog(), &references()).unwrap();
    assert_eq!((composition.rows.len(), composition.rows[0].origin.line), (1, 3));
    let top =
        "unknown key; a layer has `bundles`, `description`, `[[insert]]` and `[[row]]` tables";
    let late = "belongs at the top of the file, before the first `[[..]]` table";
    let cases = [
        ("bundels = []\n", format!("p.toml:1: field `bundels`: {top}; did you mean `bundles`?")),
        (
            "\ndescripton = 1\n",
            format!("p.toml:2: field `descripton`: {top}; did you mean `description`?"),
        ),
        ("[[rows]]\n", format!("p.toml:1: field `rows`: {top}; did you mean `row`?")),
        ("zzz = 1\n", format!("p.toml:1: field `zzz`: {top}")),
        // TOML puts a key after a table into that table.
        (
            &format!("{ROW}\nbundles = [\"base\"]\n"),
            format!("p.toml:5: row `read`, field `bundles`: {late}"),
        ),
        (
            &format!("{ROW}[[row]]\nid = \"read\"\ndisabled = true\ndescription = \"d\"\n"),
            format!("p.toml:7: row `read`, field `description`: {late}"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected]);
    }
}

#[test]
fn in_a_nested_layer_nobody_is_told_to_write_patches() {
    let cases = [
        ("zzz = 1\n", "unknown key; a layer has `description` and `[[insert]]` tables"),
        ("insrt]]\n", "not valid TOML: a key without a value; write `key = value`"),
        ("insert]]\n", "not valid TOML: the brackets are missing; write `[[insert]]`"),
        ("[[]]\n", "not valid TOML: a name is missing in the brackets; write `[[insert]]`"),
        (
            "{\"insert\": []}\n",
            "not valid TOML: this looks like JSON; write TOML, `[[insert]]` and below it \
             `key = value`",
        ),
    ];
    for (text, expected) in cases {
        let layer = Layer { head: &["description"], ..headed(text) };
        let errors = compose_nested(layer, &catalog(), &references()).map(drop).unwrap_err();
        assert_eq!(errors[0].problem, expected, "{text}");
    }
}

#[test]
fn a_layer_without_a_head_takes_no_such_key() {
    let layer = Layer { head: &[], ..headed("bundles = []\n") };
    let errors = compose(&[layer], &catalog(), &references()).map(drop).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "p.toml:1: field `bundles`: unknown key; a layer has `[[insert]]` and `[[row]]` tables"
    );
}
