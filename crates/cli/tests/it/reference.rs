//! What Reins says of its own settings: the reference page, and the JSON Schema for editors.

use std::path::{Path, PathBuf};

use reins_kernel::{Catalog, FieldDoc, Layer, PluginDef, References, compose};
use reins_testkit::Bin;
use serde_json::{Value, json};

use crate::rows::MISTAKES;

/// Mistakes that a schema of one file cannot see.
const UNSEEN: [&str; 4] =
    ["a misspelt reference", "a variable that is not set", "an id that is taken", "no TOML"];

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The plugins of all crates that have some.
fn catalog() -> Catalog {
    let plugins: Vec<PluginDef> = [
        reins_world::PLUGINS,
        reins_store::PLUGINS,
        reins_agent::PLUGINS,
        reins_providers::PLUGINS,
        reins_tools::PLUGINS,
        reins_features::PLUGINS,
        reins_host::PLUGINS,
    ]
    .concat();
    Catalog::new(&plugins).unwrap()
}

/// What `reins config schema` prints, and what it says beside.
async fn schema_of(bin: &Bin) -> (Value, String) {
    let end = bin.run(["config", "schema"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    (serde_json::from_str(&end.stdout).unwrap(), end.stderr)
}

/// A schema, ready to judge.
struct Judge(boon::Schemas, boon::SchemaIndex);

impl Judge {
    async fn of(bin: &Bin) -> Self {
        let (schema, stderr) = schema_of(bin).await;
        assert_eq!(stderr, "");
        Self::new(schema)
    }

    /// Refuses what is no JSON Schema of 2020-12.
    fn new(schema: Value) -> Self {
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("rows.json", schema).unwrap();
        let index = compiler.compile("rows.json", &mut schemas).unwrap();
        Self(schemas, index)
    }

    /// What is wrong with a text of rows.
    fn problem(&self, text: &str) -> Option<String> {
        let table: toml::Table = text.parse().unwrap();
        let value = serde_json::to_value(table).unwrap();
        self.0.validate(&value, self.1).err().map(|error| format!("{error:#}"))
    }
}

/// The TOML of rows in a page.
fn examples(page: &str) -> Vec<&str> {
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("\n```").unwrap().0);
    blocks.filter(|text| text.contains("[[row]]") || text.contains("[[insert]]")).collect()
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a half written page is seen by the next run")]
#[tokio::test]
async fn the_reference_page_is_what_the_plugins_say() {
    let end = bin().run(["config", "schema", "--markdown"]).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let file = repository().join("docs/settings.md");
    if std::env::var_os("REINS_UPDATE").is_some() {
        std::fs::write(&file, &end.stdout).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    let differs = end.stdout.lines().zip(written.lines()).find(|(now, then)| now != then);
    let again = "REINS_UPDATE=1 cargo test -p reins-cli --test it reference";
    assert_eq!(differs, None, "docs/settings.md is out of date; `{again}` writes it");
    assert_eq!(end.stdout, written, "docs/settings.md is out of date; `{again}` writes it");
}

#[tokio::test]
async fn every_field_of_every_plugin_is_explained() {
    let end = bin().run(["config", "schema", "--markdown"]).await.unwrap();
    let catalog = catalog();
    for plugin in catalog.plugins() {
        let name = plugin.name;
        let heading = format!("\n### `{name}`\n");
        let section = end.stdout.split_once(&heading).unwrap_or_else(|| panic!("{name}")).1;
        let section = section.split("\n### ").next().unwrap();
        for field in catalog.fields(name).unwrap() {
            let path = &field.path;
            assert!(!field.doc.trim().is_empty(), "{name}: `{path}` needs a doc comment");
            assert!(section.contains(&format!("\n| `{path}` | ")), "{name}: {path}\n{section}");
        }
    }
    let shown = end.stdout.matches("\n### `").count();
    assert_eq!(shown, catalog.plugins().len(), "the catalog of this test is not complete");
}

/// A default that is lost on the way would be missing from page and schema.
#[test]
fn what_is_not_required_has_a_default_or_says_what_holds_without_it() {
    for plugin in catalog().plugins() {
        for field in catalog().fields(plugin.name).unwrap() {
            let told = ["Left out", "left out"].iter().any(|words| field.doc.contains(words));
            let has_default = field.default.is_some();
            assert!(field.required || has_default || told, "{}: {}", plugin.name, field.path);
        }
    }
}

#[test]
fn keys_are_secret() {
    let catalog = catalog();
    let secret = |field: &FieldDoc| field.secret.then(|| field.path.clone());
    let found: Vec<String> = catalog
        .plugins()
        .iter()
        .flat_map(|plugin| catalog.fields(plugin.name).unwrap())
        .filter_map(|field| secret(&field))
        .collect();
    assert_eq!(found, ["api_key", "headers"]);
}

#[tokio::test]
async fn whatever_is_shipped_or_shown_is_valid_under_the_schema() {
    let judge = Judge::of(&bin()).await;
    let mut count = 0;
    let mut check = |text: &str, name: &Path| {
        assert_eq!(judge.problem(text), None, "{}:\n{text}", name.display());
        count += 1;
    };
    for folder in ["crates/cli/bundles", "crates/cli/presets"] {
        for file in files(folder, "toml") {
            check(&std::fs::read_to_string(&file).unwrap(), &file);
        }
    }
    for file in files(".", "md").into_iter().chain(files("docs", "md")) {
        for example in examples(&std::fs::read_to_string(&file).unwrap()) {
            check(example, &file);
        }
    }
    assert!(count >= 3, "{count}");
}

#[tokio::test]
async fn mistakes_are_seen_by_the_schema_where_one_file_shows_them() {
    let judge = Judge::of(&bin()).await;
    for (what, text, message) in MISTAKES {
        if text.parse::<toml::Table>().is_err() {
            assert!(UNSEEN.contains(what), "{what}");
            continue;
        }
        let problem = judge.problem(text);
        assert_eq!(problem.is_none(), UNSEEN.contains(what), "{what}: {message}\n{problem:?}");
    }
}

#[tokio::test]
async fn the_schema_takes_what_the_kernel_takes() {
    let judge = Judge::of(&bin()).await;
    let row = "[[row]]\nid = \"deepseek\"\nconfig = ";
    let insert = "[[insert]]\nid = \"x\"\nplugin = \"provider-chat\"\nconfig = ";
    let cases = [
        ("", true),
        ("bundles = [\"base\"]\n", true),
        ("description = \"Looks only.\"\n[[row]]\nid = \"bash\"\ndisabled = true\n", true),
        ("bundles = [\"base\"]\ndescription = \"Both.\"\n", false),
        ("bundles = \"base\"\n", false),
        ("[[row]]\nid = \"not-there\"\nconfig = { any = 1 }\n", true),
        ("[[row]]\nid = \"bash\"\nplugin = \"tool-bash\"\n", true),
        ("[[row]]\nid = \"bash\"\nplugin = \"tool-read\"\n", false),
        ("[[row]]\nid = \"two words\"\n", false),
        ("[[row]]\ndisabled = true\n", false),
        ("[row]\nid = \"bash\"\n", false),
        ("[[insert]]\nid = \"x\"\nplugin = \"tool-bash\"\n", true),
        ("[[insert]]\nid = \"x\"\n", false),
        ("[[insert]]\nid = \"x\"\nplugin = \"provider-chat\"\n", false),
        (&format!("{insert}{{ base_url = \"u\" }}"), false),
        (&format!("{row}{{ vendor = \"deepseek\" }}"), true),
        (&format!("{row}{{ vendor = \"${{env:VENDOR:-deepseek}}\" }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", unlisted_models = \"allow\" }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", unlisted_models = \"${{env:U}}\" }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", unlisted_models = \"alow\" }}"), false),
        (&format!("{row}{{ vendor = \"deepseek\", models = [{{ id = \"m\" }}] }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", models = [{{ name = \"m\" }}] }}"), false),
        (&format!("{row}{{ vendor = \"deepseek\", retry = {{ jitter = 0.5 }} }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", retry = {{ jitter = 1.5 }} }}"), false),
        (&format!("{row}{{ vendor = \"deepseek\", retry = {{ jiter = 0.5 }} }}"), false),
        (&format!("{row}{{ vendor = \"deepseek\", headers = {{ any = \"x\" }} }}"), true),
        (&format!("{row}{{ vendor = \"deepseek\", headers = {{ any = 1 }} }}"), false),
    ];
    for (text, is_valid) in cases {
        let problem = judge.problem(text);
        assert_eq!(problem.is_none(), is_valid, "{text}\n{problem:?}");
    }
}

/// Every default written out, and something for what is required.
fn full_config(catalog: &Catalog, plugin: &str) -> serde_json::Map<String, Value> {
    let fields = catalog.fields(plugin).unwrap();
    let fields = fields.into_iter().filter(|field| !field.path.contains(['.', '[']));
    let value = |field: FieldDoc| {
        let choice =
            || field.kind.split('`').nth(1).map_or_else(|| json!("/x"), |first| json!(first));
        let value = field.default.clone().or_else(|| field.required.then(choice))?;
        Some((field.path.clone(), value))
    };
    fields.filter_map(value).collect()
}

#[tokio::test]
async fn schema_and_kernel_agree_on_every_default_and_on_unknown_keys_in_every_table() {
    let judge = Judge::of(&bin()).await;
    let catalog = catalog();
    let references = References { env: &|_| None, home: Path::new("/") };
    for plugin in catalog.plugins() {
        let config = full_config(&catalog, plugin.name);
        let tables =
            config.iter().filter(|(_, value)| value.as_object().is_some_and(|t| !t.is_empty()));
        let tables: Vec<String> = tables.map(|(key, _)| key.clone()).collect();
        let mut cases = vec![(Value::Object(config.clone()), true)];
        cases.push((Value::Object(config.clone()), false));
        cases[1].0["zzz"] = json!(1);
        for table in tables {
            let mut odd = config.clone();
            odd[&table]["zzz"] = json!(1);
            cases.push((Value::Object(odd), false));
        }
        for (config, is_valid) in cases {
            let row = json!({ "id": "x", "plugin": plugin.name, "config": config });
            let text = toml::to_string(&json!({ "insert": [row] })).unwrap();
            let layer = Layer { name: "x".into(), file: None, head: &[], text: text.clone() };
            let errors = compose(&[layer], &catalog, &references).err();
            assert_eq!(errors.is_none(), is_valid, "{text}\n{errors:?}");
            let problem = judge.problem(&text);
            assert_eq!(problem.is_none(), is_valid, "{text}\n{problem:?}");
        }
    }
}

#[tokio::test]
async fn rows_of_the_settings_are_in_the_schema_and_a_mistake_there_is_told() {
    let bin = bin();
    let insert = "[[insert]]\nid = \"local\"\nplugin = \"provider-chat\"\n";
    let good = format!("{insert}config = {{ vendor = \"compatible\", base_url = \"http://h\" }}\n");
    let patch = "[[row]]\nid = \"local\"\nconfig = { vendor = \"compatible\", base_ulr = \"\" }\n";
    assert_eq!(Judge::of(&bin).await.problem(patch), None, "nothing is known of the row");

    bin.file("../home/settings.toml", &good).unwrap();
    assert!(Judge::of(&bin).await.problem(patch).is_some());

    bin.file("../home/settings.toml", format!("{insert}config = {{ vendr = 1 }}\n")).unwrap();
    let (schema, told) = schema_of(&bin).await;
    assert!(told.starts_with("only the shipped rows are in the schema"), "{told}");
    assert!(told.contains("unknown key; did you mean `vendor`?"), "{told}");
    assert_eq!(Judge::new(schema).problem(patch), None);
}

#[tokio::test]
async fn names_in_the_schema_are_unique_and_resolve() {
    let (schema, _) = schema_of(&bin()).await;
    let text = schema.to_string();
    let definitions = schema["$defs"].as_object().unwrap();
    let plugins = catalog().plugins().len();
    let configs = definitions.keys().filter(|name| name.starts_with("config.")).count();
    assert_eq!(configs, plugins);
    for target in text.split("\"$ref\":\"#/$defs/").skip(1) {
        let name = target.split('"').next().unwrap();
        assert!(definitions.contains_key(name), "{name}");
    }
    assert!(!text.contains("\"null\""), "TOML has no null");
}

#[tokio::test]
async fn a_written_key_is_not_dumped() {
    let bin = bin();
    let text = "[[insert]]\nid = \"other\"\nplugin = \"provider-chat\"\n[insert.config]\n\
                vendor = \"compatible\"\nbase_url = \"http://127.0.0.1:1\"\n\
                api_key = \"sk-in-the-file\"\nheaders = { x-team = \"sk-in-a-header\" }\n";
    bin.file("p.toml", text).unwrap();
    let end = bin.run(["config", "dump", "--patch", "p.toml"]).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert!(!end.stdout.contains("sk-in"), "{}", end.stdout);
    let told = "# withheld, since written here: `api_key`, `headers.x-team`; `${env:NAME}` would \
                be printed\n[[insert]]\nid = \"other\"\n";
    assert!(end.stdout.contains(told), "{}", end.stdout);
    assert!(end.stdout.contains("api_key = \"[withheld]\"\n"), "{}", end.stdout);
}
