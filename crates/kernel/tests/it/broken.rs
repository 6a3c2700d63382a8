//! Broken configurations and the exact messages, all of them, in order.

use reins_kernel::*;

use crate::plugins::{catalog, layer, references};

/// Layer `base` (no file) inserts rows `read` and `spare` (disabled); `text` is `home.toml`.
fn problems(text: &str) -> Vec<String> {
    let base = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n\
                [[insert]]\nid = \"spare\"\nplugin = \"tool-read\"\ndisabled = true\n";
    let layers = [layer("base", None, base), layer("your settings", Some("home.toml"), text)];
    let errors = compose(&layers, &catalog(), &references()).map(drop).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(problems(text), *expected, "\n{text}");
    }
}

const ROW: &str = "unknown key; a row has `id`, `plugin`, `config`, `disabled`";
const TOP: &str = "unknown key; a layer has `[[insert]]` and `[[row]]` tables";
const KNOWN: &str = "known are `${home}`, `${env:NAME}`, `${env:NAME:-default}`; \
                     write `$${` for a plain `${`";

#[test]
fn the_shape_of_a_layer() {
    check(&[
        (
            "[[row]\n",
            &["home.toml:1: not valid TOML: the brackets are not closed; end them with `]]`"],
        ),
        ("a = 1\na = 2\n", &["home.toml:2: not valid TOML: the key `a` is there twice; keep one"]),
        (
            "[[rows]]\nid = \"read\"\n",
            &[&format!("home.toml:1: field `rows`: {TOP}; did you mean `row`?")],
        ),
        ("\n\nzzz = 1\n", &[&format!("home.toml:3: field `zzz`: {TOP}")]),
        (
            "[row]\nid = \"read\"\n",
            &["home.toml:1: field `row`: must be written as `[[row]]` tables"],
        ),
        ("row = 3\n", &["home.toml:1: field `row`: must be written as `[[row]]` tables"]),
        (
            "insert = [1]\n",
            &["home.toml:1: field `insert`: must be written as `[[insert]]` tables"],
        ),
    ]);
}

#[test]
fn the_keys_of_a_row() {
    check(&[
        (
            "[[row]]\nid = \"read\"\ndisable = true\n",
            &[&format!(
                "home.toml:3: row `read`, field `disable`: {ROW}; did you mean `disabled`?"
            )],
        ),
        (
            "[[row]]\nid = \"read\"\nconfg.max_bytes = 1\n",
            &[&format!("home.toml:3: row `read`, field `confg`: {ROW}; did you mean `config`?")],
        ),
        (
            "[[row]]\nid = \"read\"\ndisabled = \"yes\"\n",
            &["home.toml:3: row `read`, field `disabled`: must be true or false, found a string"],
        ),
        (
            "[[row]]\nid = \"read\"\nconfig = 3\n",
            &["home.toml:3: row `read`, field `config`: must be a table, found an integer"],
        ),
        (
            "[[row]]\nid = \"read\"\nplugin = true\n",
            &["home.toml:3: row `read`, field `plugin`: must be a string, found true or false"],
        ),
        (
            "[[row]]\nid = \"read\"\nplugin = \"tool-grep\"\n",
            &["home.toml:3: row `read`, field `plugin`: the row is of plugin `tool-read` \
               (inserted at base:1), not `tool-grep`; a patch cannot change it"],
        ),
    ]);
}

#[test]
fn the_id_and_plugin_of_a_row() {
    check(&[
        ("[[row]]\nid = 5\n", &["home.toml:2: field `id`: must be a string, found an integer"]),
        (
            "[[row]]\ndisabled = true\n",
            &["home.toml:1: field `id`: is required: give the `[[row]]` an id"],
        ),
        (
            "[[insert]]\nid = \"a b\"\nplugin = \"tool-read\"\n",
            &["home.toml:2: field `id`: must be a word without blanks and back-ticks"],
        ),
        (
            "[[insert]]\nid = \"\"\nplugin = \"tool-read\"\n",
            &["home.toml:2: field `id`: must be a word without blanks and back-ticks"],
        ),
        (
            "[[insert]]\nid = \"new\"\n",
            &["home.toml:1: row `new`, field `plugin`: is required: name the plugin"],
        ),
        (
            "[[insert]]\nplugin = \"tool-read\"\nconfg = 1\n",
            &[
                "home.toml:1: field `id`: is required: give the `[[insert]]` an id",
                &format!("home.toml:3: field `confg`: {ROW}; did you mean `config`?"),
            ],
        ),
        (
            "[[insert]]\nid = \"new\"\nplugin = \"tool-raed\"\n",
            &["home.toml:3: row `new`, field `plugin`: there is no plugin `tool-raed`; \
               did you mean `tool-read`?"],
        ),
        (
            "[[insert]]\nid = \"new\"\nplugin = \"quite-other\"\ndisabled = true\n",
            &["home.toml:3: row `new`, field `plugin`: there is no plugin `quite-other`; \
               known are `forgetful`, `ground`, `house`, `painter`, `provider`, `roof`, `thief`, \
               `tool-read`, `upside-down`"],
        ),
        (
            "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n",
            &["home.toml:1: row `read`, field `id`: this id is taken by the row inserted at \
               base:1; change it with `[[row]]`, or choose another id"],
        ),
        (
            "[[insert]]\nid = \"x\"\nplugin = \"tool-read\"\n\n\
             [[insert]]\nid = \"x\"\nplugin = \"tool-read\"\n",
            &["home.toml:5: row `x`, field `id`: this id is taken by the row inserted at \
               home.toml:1; change it with `[[row]]`, or choose another id"],
        ),
    ]);
}

/// A patch of `read` whose config starts at line 3.
fn config(lines: &str) -> Vec<String> {
    problems(&format!("[[row]]\nid = \"read\"\n[row.config]\n{lines}"))
}

fn check_config(cases: &[(&str, &[&str])]) {
    for (lines, expected) in cases {
        assert_eq!(config(lines), *expected, "\n{lines}");
    }
}

#[test]
fn the_keys_and_types_of_a_config() {
    check_config(&[
        (
            "max_byte = 1\n",
            &["home.toml:4: row `read`, field `config.max_byte`: unknown key; \
               did you mean `max_bytes`?"],
        ),
        (
            "zzz = 1\n",
            &["home.toml:4: row `read`, field `config.zzz`: unknown key; known are `max_bytes`, \
               `root`, `retry`, `modes`"],
        ),
        (
            "[row.config.retry]\n\natempts = 1\n",
            &["home.toml:6: row `read`, field `config.retry.atempts`: unknown key; \
               did you mean `attempts`?"],
        ),
        (
            "retry = { attempts = 1, zzz = { deep = 1 } }\n",
            &["home.toml:4: row `read`, field `config.retry.zzz`: unknown key; known are \
               `attempts`, `codes`"],
        ),
        (
            "max_bytes = \"many\"\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be an integer, \
                 found a string"],
        ),
        (
            "max_bytes = -1\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be 0 to 4294967295, \
               found -1"],
        ),
        (
            "max_bytes = 1.5\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be an integer, \
                 found a number with a point"],
        ),
        (
            "max_bytes = 99999999999999999999\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be from \
               -9223372036854775808 to 9223372036854775807, which is what fits into 64 bits"],
        ),
        (
            "max_bytes = inf\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be a finite number"],
        ),
        (
            "root = [\"a\"]\n",
            &["home.toml:4: row `read`, field `config.root`: must be a string, found a list"],
        ),
        (
            "retry = 1\n",
            &["home.toml:4: row `read`, field `config.retry`: must be a table, found an integer"],
        ),
    ]);
}

#[test]
fn lists_choices_and_several_flaws_at_once() {
    check_config(&[
        (
            "[row.config.retry]\ncodes = [\n  429,\n  \"x\",\n  70000,\n]\n",
            &[
                "home.toml:7: row `read`, field `config.retry.codes[1]`: must be an integer, \
                 found a string",
                "home.toml:8: row `read`, field `config.retry.codes[2]`: must be 0 to 65535, \
                 found 70000",
            ],
        ),
        (
            "[row.config.retry]\ncodes = [\n  429,\n  70000,\n]\n",
            &["home.toml:7: row `read`, field `config.retry.codes[1]`: must be 0 to 65535, \
               found 70000"],
        ),
        (
            "modes = [\"text\", \"binray\"]\n",
            &["home.toml:4: row `read`, field `config.modes[1]`: `binray` is none of `text`, \
               `binary`; did you mean `binary`?"],
        ),
        (
            "max_byte = 1\nroot = true\nmodes = [7]\n",
            &[
                "home.toml:4: row `read`, field `config.max_byte`: unknown key; \
                 did you mean `max_bytes`?",
                "home.toml:5: row `read`, field `config.root`: must be a string, \
                 found true or false",
                "home.toml:6: row `read`, field `config.modes[0]`: must be one of `text`, \
                 `binary`, found an integer",
            ],
        ),
    ]);
}

#[test]
fn required_keys_tags_and_maps() {
    let insert = |lines: &str| {
        problems(&format!(
            "[[insert]]\nid = \"p\"\nplugin = \"provider\"\n[insert.config]\n{lines}"
        ))
    };
    let cases: [(&str, &[&str]); 8] = [
        (
            "",
            &[
                "home.toml:4: row `p`, field `config.url`: is required: a string",
                "home.toml:4: row `p`, field `config.auth`: is required: `none` or a table",
            ],
        ),
        (
            "ulr = \"x\"\nauth = \"none\"\n",
            &["home.toml:5: row `p`, field `config.ulr`: unknown key; did you mean `url`?"],
        ),
        (
            "url = \"x\"\nauth = \"non\"\n",
            &["home.toml:6: row `p`, field `config.auth`: `non` is none of `none`; \
               did you mean `none`?"],
        ),
        (
            "url = \"x\"\nauth = { key = { vaule = \"k\" } }\n",
            &["home.toml:6: row `p`, field `config.auth.key.vaule`: unknown key; \
               did you mean `value`?"],
        ),
        (
            "url = \"x\"\nauth = \"none\"\n[insert.config.models.big]\nwindow = 1\nwindw = 2\n",
            &["home.toml:9: row `p`, field `config.models.big.windw`: unknown key; \
               did you mean `window`?"],
        ),
        (
            "url = \"x\"\nauth = \"none\"\n[insert.config.models.big]\n",
            &["home.toml:7: row `p`, field `config.models.big.window`: is required: an integer"],
        ),
        (
            "url = \"x\"\nauth = \"none\"\n\
             source = { kind = \"file\", path = \"p\", ur = \"x\" }\n",
            &["home.toml:7: row `p`, field `config.source.ur`: unknown key; known are \
               `kind`, `path`"],
        ),
        (
            "url = \"x\"\nauth = \"none\"\nsource = { kind = \"fiel\", path = \"p\" }\n",
            &["home.toml:7: row `p`, field `config.source.kind`: `fiel` is none of `file`, \
                 `web`; \
               did you mean `file`?"],
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(insert(lines), *expected, "\n{lines}");
    }
    // Free tables take any key.
    let free = "[[insert]]\nid = \"p\"\nplugin = \"provider\"\n[insert.config]\nurl = \"u\"\n\
                auth = \"none\"\nextra = { any = [1, { thing = true }] }\n";
    assert!(compose(&[layer("x", None, free)], &catalog(), &references()).is_ok());
}

#[test]
fn a_patch_that_left_a_required_key_out_is_told_where_it_stood() {
    let base = "[[insert]]\nid = \"p\"\nplugin = \"provider\"\n[insert.config]\nurl = \"${home}\"\n\
                auth = \"none\"\n[insert.config.models]\nbig = { window = 1 }\n";
    let middle = "[[row]]\nid = \"p\"\nconfig = { url = \"x\" }\n";
    let last = "[[row]]\nid = \"p\"\n[row.config]\nmodels = { big = {}, small = {} }\n";
    let layers = [
        layer("bundle base", None, base),
        layer("middle", Some("m.toml"), middle),
        layer("last", Some("l.toml"), last),
    ];
    let errors = compose(&layers, &catalog(), &references()).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let whole = "a patch replaces the row's whole `config`: repeat";
    assert_eq!(
        lines,
        [
            format!(
                "l.toml:3: row `p`, field `config.url`: is required: a string; {whole} `url = …` \
                 from m.toml:3"
            ),
            format!(
                "l.toml:3: row `p`, field `config.auth`: is required: `none` or a table; {whole} \
                 `auth = …` from bundle base:6"
            ),
            format!(
                "l.toml:4: row `p`, field `config.models.big.window`: is required: an integer; \
                 {whole} `models.big.window = …` from bundle base:8"
            ),
            "l.toml:4: row `p`, field `config.models.small.window`: is required: an integer"
                .to_owned(),
        ]
    );
}

#[test]
fn references_are_a_closed_set() {
    check_config(&[
        (
            "root = \"${hoem}/x\"\n",
            &[&format!(
                "home.toml:4: row `read`, field `config.root`: unknown reference `${{hoem}}`; \
                 {KNOWN}; did you mean `${{home}}`?"
            )],
        ),
        (
            "root = \"${TOKEN}\"\n",
            &[&format!(
                "home.toml:4: row `read`, field `config.root`: unknown reference `${{TOKEN}}`; \
                 {KNOWN}; did you mean `${{env:TOKEN}}`?"
            )],
        ),
        (
            "root = \"${enf:TOKEN}\"\n",
            &[&format!(
                "home.toml:4: row `read`, field `config.root`: unknown reference \
                 `${{enf:TOKEN}}`; {KNOWN}; did you mean `${{env:TOKEN}}`?"
            )],
        ),
        (
            "root = \"a${home\"\n",
            &[&format!(
                "home.toml:4: row `read`, field `config.root`: the reference `${{home` has no \
                 closing `}}`; {KNOWN}"
            )],
        ),
        (
            "root = \"${env:A B}\"\n",
            &["home.toml:4: row `read`, field `config.root`: `${env:A…}` holds no name of an \
               environment variable: letters, digits and `_`, not beginning with a digit; a \
               default is written `${env:A:-default}`"],
        ),
        (
            "root = \"${env:NOPE:-${home}}\"\n",
            &["home.toml:4: row `read`, field `config.root`: `${env:NOPE:-…}` has a \
               reference in its default; they do not nest"],
        ),
        (
            "root = \"${env:NOPE}\"\n",
            &["home.toml:4: row `read`, field `config.root`: environment variable `NOPE` is not \
               set; set it, or write a default: `${env:NOPE:-default}`"],
        ),
        // The value of a variable never appears.
        (
            "modes = [\"${env:TOKEN}\"]\n",
            &["home.toml:4: row `read`, field `config.modes[0]`: `${env:TOKEN}` is none of \
               `text`, `binary`"],
        ),
        (
            "max_bytes = \"${env:TOKEN}\"\n",
            &["home.toml:4: row `read`, field `config.max_bytes`: must be an integer, \
               found a string; a reference gives a string, so write the value itself"],
        ),
    ]);
}

#[test]
fn a_disabled_row_may_wait_for_its_variable() {
    let text = "[[row]]\nid = \"spare\"\nconfig = { root = \"${env:NOPE}\" }\n\
                [[row]]\nid = \"read\"\nconfig = { root = \"${env:NOPE}\" }\n";
    assert_eq!(problems(text).len(), 1);
    let text = "[[row]]\nid = \"spare\"\nconfig = { root = \"${nope}\" }\n";
    assert_eq!(problems(text).len(), 1);
}

#[test]
fn everything_wrong_is_said_at_once_in_the_order_of_layers_and_lines() {
    let layers = [
        layer("one", None, "[[insert]]\nid = \"a\"\nplugin = \"tool-read\"\nconfig = { x = 1 }\n"),
        layer("two", Some("two.toml"), "[[insert]]\nid = \"b\"\nplugin = \"nope\"\n[[row]\n"),
        layer("three", Some("three.toml"), "[[row]]\nid = \"a\"\nx = 1\n"),
    ];
    let errors = compose(&layers, &catalog(), &references()).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let starts = ["one:4: row `a`", "two.toml:4: not valid", "three.toml:3: row `a`"];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_layer_has_a_size() {
    let text = "#".repeat(MAX_LAYER_BYTES + 1);
    assert_eq!(
        problems(&text),
        ["home.toml: longer than 1048576 bytes; take out what is not needed"]
    );
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let lists = format!("root = {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let tables = format!("retry = {}1{}\n", "{a=".repeat(100_000), "}".repeat(100_000));
    let dotted = format!("{}a = 1\n", "a.".repeat(100_000));
    let header = format!("[row.config{}]\nx = 1\n", ".a".repeat(100_000));
    for lines in [lists, tables, dotted, header] {
        let problems = config(&lines);
        assert!(!problems.is_empty() && problems.iter().all(|text| text.len() < 1000));
    }
}

#[test]
fn references_to_long_values_have_a_limit_in_all() {
    let long = "x".repeat(1024 * 1024);
    let references = References { env: &|_| Some(long.clone()), home: "/home".as_ref() };
    let text = |times: usize| {
        let roots = "${env:LONG}".repeat(times);
        format!(
            "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\nconfig = {{ root = \"{roots}\" }}\n"
        )
    };
    assert!(compose(&[layer("a", None, &text(16))], &catalog(), &references).is_ok());
    let errors = compose(&[layer("a", None, &text(17))], &catalog(), &references).unwrap_err();
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "a:4: row `read`, field `config.root`: the references of all rows bring more than 16777216 \
          bytes; write fewer of them"
        ]
    );
}

#[test]
fn of_very_many_errors_the_first_are_told() {
    let rows: String =
        (0..150).map(|n| format!("[[insert]]\nid = \"r{n}\"\nplugin = \"x\"\n")).collect();
    let errors = compose(&[layer("a", None, &rows)], &catalog(), &references()).unwrap_err();
    let told = RowError::lines(&errors);
    assert_eq!((errors.len(), told.lines().count()), (150, 101));
    assert!(told.ends_with("\nand 50 more"), "{told}");
}
