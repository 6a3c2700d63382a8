//! What a catalog says of a plugin's fields, and which of them are kept from people's eyes.

use std::collections::BTreeMap;

use reins_kernel::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plugins::{layer, references};

/// Everything that a configuration is made of.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the shape matters")]
struct Config {
    /// Must be
    /// there.
    name: String,
    /// Counts.
    #[serde(default = "five")]
    #[schemars(range(min = 1))]
    count: u32,
    /// A byte.
    byte: Option<u8>,
    /// A share.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: Option<f64>,
    /// May be off.
    #[serde(default)]
    flag: bool,
    /// Which way.
    mode: Option<Mode>,
    /// Several ways.
    #[serde(default)]
    modes: Vec<Mode>,
    /// Again and again.
    #[serde(default)]
    retry: Retry,
    /// Known ones.
    #[serde(default)]
    models: Vec<Model>,
    /// By name.
    #[serde(default)]
    routes: BTreeMap<String, Model>,
    /// Labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Where from.
    source: Option<Source>,
    /// How to get in.
    auth: Option<Auth>,
    /// A tree.
    tree: Option<Tree>,
    /// The key.
    #[schemars(extend("writeOnly" = true))]
    key: Option<String>,
    /// Sent along.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    headers: BTreeMap<String, String>,
    /// Known to few.
    #[schemars(extend("writeOnly" = true))]
    signal: Option<Mode>,
    extra: Option<serde_json::Value>,
}

fn five() -> u32 {
    5
}

/// The way.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Not slow.
    FastOne,
    /// Not fast.
    Slow,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Retry {
    /// How often.
    times: u32,
    /// Which.
    codes: Vec<u16>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 2, codes: vec![500] }
    }
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Model {
    /// On the wire.
    id: String,
    /// In tokens.
    window: Option<u64>,
    /// Of this model.
    #[schemars(extend("writeOnly" = true))]
    token: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Source {
    File {
        /// Of the file.
        path: String,
        /// Either way.
        again: bool,
    },
    Web {
        /// Of the page.
        url: String,
        again: bool,
    },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Auth {
    None,
    Key {
        /// In clear.
        value: String,
    },
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Tree {
    /// Further ones.
    branches: Vec<Tree>,
}

struct Everything;

impl Plugin for Everything {
    const NAME: &'static str = "everything";
    const SUMMARY: &'static str = "Takes everything.";
    type Config = Config;

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        match (config.key, config.headers.get("x")) {
            (Some(key), _) => Err(MountError::new(format!("`{key}` opens nothing")).at("key")),
            (None, Some(x)) => Err(MountError::new(format!("{x:?} is no header"))),
            (None, None) => mount.add::<str>("everything", "".into()),
        }
    }
}

fn catalog() -> Catalog {
    Catalog::new(&[PluginDef::of::<Everything>()]).unwrap()
}

#[test]
fn every_kind_of_field_is_described() {
    let fields = catalog().fields("everything").unwrap();
    let lines: Vec<String> = fields.iter().map(shown).collect();
    let modes = "\n`fast-one`: Not slow.\n`slow`: Not fast.";
    let expected = [
        "name | a string | required | - | Must be\nthere.".to_owned(),
        "count | an integer, at least 1 | | 5 | Counts.".to_owned(),
        "byte | an integer, at most 255 | | - | A byte.".to_owned(),
        "share | a number, 0.0 to 1.0 | | - | A share.".to_owned(),
        "flag | true or false | | false | May be off.".to_owned(),
        format!("mode | one of `fast-one`, `slow` | | - | Which way.{modes}"),
        "modes | a list of `fast-one` or `slow` | | - | Several ways.".to_owned(),
        r#"retry | a table | | {"times":2,"codes":[500]} | Again and again."#.to_owned(),
        "retry.times | an integer | | 2 | How often.".to_owned(),
        "retry.codes | a list of integers | | [500] | Which.".to_owned(),
        "models | a list of tables | | - | Known ones.".to_owned(),
        "models[].id | a string | required | - | On the wire.".to_owned(),
        "models[].window | an integer | | - | In tokens.".to_owned(),
        "models[].token | a string | | - | Of this model. (secret)".to_owned(),
        "routes | a table of tables | | - | By name.".to_owned(),
        "routes.<name>.id | a string | required | - | On the wire.".to_owned(),
        "routes.<name>.window | an integer | | - | In tokens.".to_owned(),
        "routes.<name>.token | a string | | - | Of this model. (secret)".to_owned(),
        "labels | a table of strings | | {} | Labels.".to_owned(),
        "source | a table | | - | Where from.".to_owned(),
        "source.kind | one of `file`, `web` | required | - | ".to_owned(),
        "source.path | a string | | - | Of the file.".to_owned(),
        "source.again | true or false | required | - | Either way.".to_owned(),
        "source.url | a string | | - | Of the page.".to_owned(),
        "auth | `none` or a table | | - | How to get in.".to_owned(),
        "auth.key | a table | required | - | ".to_owned(),
        "auth.key.value | a string | required | - | In clear.".to_owned(),
        "tree | a table | | - | A tree.".to_owned(),
        "tree.branches | a list of tables | required | - | Further ones.".to_owned(),
        "key | a string | | - | The key. (secret)".to_owned(),
        "headers | a table of strings | | {} | Sent along. (secret)".to_owned(),
        format!("signal | one of `fast-one`, `slow` | | - | Known to few.{modes} (secret)"),
        "extra | anything | | - | ".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(catalog().fields("nothing"), None);
}

fn shown(field: &FieldDoc) -> String {
    let FieldDoc { path, kind, required, default, doc, secret, limits } = field;
    let comma = if limits.is_empty() { "" } else { ", " };
    let required = if *required { "required " } else { "" };
    let default = default.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let secret = if *secret { " (secret)" } else { "" };
    format!("{path} | {kind}{comma}{limits} | {required}| {default} | {doc}{secret}")
}

fn composed(config: &str) -> Result<Composition, Vec<RowError>> {
    let text =
        format!("[[insert]]\nid = \"all\"\nplugin = \"everything\"\n[insert.config]\n{config}");
    compose(&[layer("base", None, &text)], &catalog(), &references())
}

#[test]
fn a_dump_withholds_secrets_that_are_written_and_loads_again() {
    let config = r#"name = "n"
key = "sk-literal"
labels = { seen = "by all" }
models = [{ id = "m", token = "t0ken" }, { id = "o", token = "${env:TOKEN}" }]

[insert.config.headers]
a = "Bearer ${env:TOKEN}"
b = "Bearer sk-literal"
c = "${env:TOKEN:-sk-default}"
d = "sk-${env:TOKEN}"
e = "${home}"
f = ""
g = "${env:TOKEN:-}"
"x\ny" = "sk"
"#;
    let dump = composed(config).unwrap().dump();
    assert_eq!(
        dump,
        r#"# inserted by base:1
# withheld, since written here: `headers.b`, `headers.c`, `headers.d`, `headers.e`, `headers.x?y`, `key`, `models[0].token`; `${env:NAME}` would be printed
[[insert]]
id = "all"
plugin = "everything"

[insert.config]
key = "[withheld]"
name = "n"

[insert.config.headers]
a = "Bearer ${env:TOKEN}"
b = "[withheld]"
c = "[withheld]"
d = "[withheld]"
e = "[withheld]"
f = ""
g = "${env:TOKEN:-}"
"x\ny" = "[withheld]"

[insert.config.labels]
seen = "by all"

[[insert.config.models]]
id = "m"
token = "[withheld]"

[[insert.config.models]]
id = "o"
token = "${env:TOKEN}"
"#
    );
    let again = compose(&[layer("dump", None, &dump)], &catalog(), &references()).unwrap();
    assert_eq!(again.rows[0].config["key"].as_str(), Some("[withheld]"));
    // Whoever shows a `config` otherwise shows the same.
    let config = &composed(config).unwrap().rows[0].config;
    assert_eq!(catalog().withhold("everything", config), again.rows[0].config);
}

#[test]
fn what_is_not_known_to_be_no_secret_is_withheld() {
    let config = toml::toml! {
        kye = "sk-literal"
        name = "n"
        from = "${env:TOKEN}"
        models = [{ id = "m", tokne = ["sk"] }]
    };
    let shown = catalog().withhold("everything", &config).to_string();
    assert!(!shown.contains("sk"), "{shown}");
    assert!(shown.contains("name = \"n\"") && shown.contains("id = \"m\""), "{shown}");
    assert!(shown.contains("from = \"${env:TOKEN}\""), "a reference says nothing: {shown}");
    let shown = catalog().withhold("unknown", &config).to_string();
    assert!(!shown.contains("sk") && !shown.contains("\"n\""), "{shown}");
}

#[test]
fn an_address_with_a_login_is_withheld_in_every_field() {
    let shows = |text: &str| {
        let config = toml::toml! { name = "x" };
        let config = toml::Table::from_iter(config.into_iter().map(|(key, _)| (key, text.into())));
        let shown = catalog().withhold("everything", &config);
        assert_eq!(composed(&config.to_string()).unwrap().dump().contains("[withheld]"), {
            shown["name"].as_str() == Some("[withheld]")
        });
        shown["name"].as_str() == Some(text)
    };
    for secret in [
        "http://u:p@h/",
        "http://token@h",
        "http://token:@h",
        "see http://h/x, and https://u:p@h:1 too",
        "http://u:p/with/slashes@h",
        "http://u:p?x#y@h",
        "http://u:p${env:TOKEN}@h",
        "http://u:${env:TOKEN:-p}@h",
        "postgres://u:p@[::1]/d",
        "u:p@h/v1",
        "http://h/v1?key=k",
    ] {
        assert!(!shows(secret), "{secret}");
    }
    for plain in [
        "http://h/@scope",
        "http://h:8000/@scope",
        "http://[::1]:8000/@x",
        "http://[::1]/@x",
        "http://h, or mail me@x.org",
        "me@x.org",
        "http://u:${env:TOKEN}@h",
        "http://${env:TOKEN}@h",
        "http://${env:TOKEN}:${env:TOKEN}@h",
        "://",
        "git@h:p",
        "a question? http://h",
    ] {
        assert!(shows(plain), "{plain}");
    }
}

#[test]
fn a_dump_without_written_secrets_says_nothing_of_them() {
    let dump = composed("name = \"n\"\nkey = \"${env:TOKEN}\"\n").unwrap().dump();
    assert!(!dump.contains("withheld") && dump.contains("key = \"${env:TOKEN}\""), "{dump}");
}

#[test]
fn what_is_wrong_with_a_secret_is_said_without_it() {
    let cases = [
        ("key = [\"sk-literal\"]", "key", "must be a string, found a list"),
        ("key = 12345", "key", "must be a string, found an integer"),
        ("headers = \"sk-literal\"", "headers", "must be a table of strings, found a string"),
        ("headers.a = 12345", "headers.a", "must be a string, found an integer"),
        ("signal = \"sk-literal\"", "signal", "`[withheld]` is none of `fast-one`, `slow`"),
        ("signal = \"sk\"", "signal", "`[withheld]` is none of `fast-one`, `slow`"),
        ("mode = \"shown\"", "mode", "`shown` is none of `fast-one`, `slow`"),
    ];
    for (config, field, problem) in cases {
        let errors = composed(&format!("name = \"n\"\n{config}\n")).unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [format!("base:6: row `all`, field `config.{field}`: {problem}")]);
    }
}

#[tokio::test]
async fn what_a_plugin_says_of_a_secret_is_shown_without_it() {
    let cases = [
        ("key = \"sk-$${literal\"", "row `all`, field `config.key`: `[withheld]` opens nothing"),
        ("key = \"sk\"", "row `all`, field `config.key`: `[withheld]` opens nothing"),
        ("key = \"a${env:TOKEN}\"", "row `all`, field `config.key`: `[withheld]` opens nothing"),
        ("key = \"${env:TOKEN}\"", "row `all`, field `config.key`: `${env:TOKEN}` opens nothing"),
        ("headers.x = \"one\\ttwo\"", "row `all`: \"[withheld]\" is no header"),
    ];
    for (config, message) in cases {
        let composition = composed(&format!("name = \"n\"\n{config}\n")).unwrap();
        let built = composition.build(&catalog(), 1, Root::default()).await;
        let text = built.map(drop).unwrap_err()[0].to_string();
        assert!(text.ends_with(message), "{text}");
    }
}
