//! Forms of a configuration that no shipped plugin has: schema and kernel take and refuse the same.

use std::collections::BTreeMap;
use std::path::Path;

use reins_kernel::{Catalog, Layer, Mount, MountError, Plugin, PluginDef, References, compose};
use schemars::JsonSchema;
use serde::Deserialize;

/// On purpose without `deny_unknown_fields`: the kernel refuses unknown keys all the same.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Config {
    plain: Option<Plain>,
    #[serde(default)]
    named: BTreeMap<String, Plain>,
    source: Option<Source>,
    auth: Option<Auth>,
    mode: Option<Mode>,
    tree: Option<Box<Tree>>,
    flat: Option<Flat>,
    pair: Option<(u8, bool)>,
    open: Option<serde_json::Map<String, serde_json::Value>>,
    inner: Option<Box<Config>>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Plain {
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Source {
    File { path: String },
    Web { url: String },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Auth {
    None,
    Key { value: String },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// With a comment.
    Fast,
    Slow,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Tree {
    branches: Vec<Tree>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Flat {
    own: bool,
    #[serde(flatten)]
    plain: Plain,
    #[serde(flatten)]
    source: Source,
}

struct Odd;

impl Plugin for Odd {
    const NAME: &'static str = "odd~1/%";
    const SUMMARY: &'static str = "Has every form.";
    type Config = Config;

    fn mount(_: Config, _: &mut Mount<'_>) -> Result<(), MountError> {
        Ok(())
    }
}

#[test]
fn schema_and_kernel_take_and_refuse_the_same() {
    let catalog = Catalog::new(&[PluginDef::of::<Odd>()]).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("rows.json", super::schema(&catalog, &[])).unwrap();
    let index = compiler.compile("rows.json", &mut schemas).unwrap();
    let references = References { env: &|_| Some("fast".to_owned()), home: Path::new("/") };
    let cases = [
        ("", true),
        ("zzz = 1", false),
        ("plain.id = 'a'", true),
        ("plain = {}", false),
        ("plain = { id = 'a', zzz = 1 }", false),
        ("named.x.id = 'a'", true),
        ("named.x = { id = 'a', zzz = 1 }", false),
        ("named.x = 1", false),
        ("source = { kind = 'file', path = 'p' }", true),
        ("source = { kind = 'file', url = 'p' }", false),
        ("source = { kind = 'file', path = 'p', url = 'p' }", false),
        ("source = { kind = 'disk', path = 'p' }", false),
        ("source = { path = 'p' }", false),
        ("auth = 'none'", true),
        ("auth = { key = { value = 'v' } }", true),
        ("auth = { key = { value = 'v', zzz = 1 } }", false),
        ("auth = { kay = { value = 'v' } }", false),
        ("auth = 'nome'", false),
        ("mode = 'fast'", true),
        ("mode = 'slow'", true),
        ("mode = '${env:MODE}'", true),
        ("mode = 'quick'", false),
        ("mode = 1", false),
        ("tree.branches = [{ branches = [] }]", true),
        ("tree.branches = [{ branches = [], zzz = 1 }]", false),
        ("flat = { own = true, id = 'a', kind = 'web', url = 'u' }", true),
        ("flat = { own = true, id = 'a', kind = 'web', url = 'u', zzz = 1 }", false),
        ("flat = { id = 'a', kind = 'web', url = 'u' }", false),
        ("pair = [1, true]", true),
        ("pair = [1, 2]", false),
        ("open = { any = [1] }", true),
        ("inner.mode = 'slow'", true),
        ("inner.zzz = 1", false),
    ];
    for (config, is_valid) in cases {
        let row = "[[insert]]\nid = \"x\"\nplugin = \"odd~1/%\"\n";
        let text = format!("{row}[insert.config]\n{config}\n");
        let layer = Layer { name: "x".into(), file: None, head: &[], text: text.clone() };
        let errors = compose(&[layer], &catalog, &references).err();
        assert_eq!(errors.is_none(), is_valid, "{config}\n{errors:?}");
        let value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
        let problem = schemas.validate(&value, index).err().map(|error| format!("{error:#}"));
        assert_eq!(problem.is_none(), is_valid, "{config}\n{problem:?}");
    }
}
