use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reins_kernel::{
    Catalog, Layer, Mount, MountError, Plugin, PluginDef, References, ServiceKey, compose,
};
use reins_world::{Clock, Env, Fs, Http, PLUGINS, Process};
use schemars::JsonSchema;
use serde::Deserialize;

/// What the program would provide.
struct EnvPlugin;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Plugin for EnvPlugin {
    const NAME: &'static str = "test-env";
    const SUMMARY: &'static str = "A fixed environment";
    type Config = Nothing;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Env>("Env")]
    }

    fn mount(_: Nothing, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide(Arc::new(Env::from_iter([("A_TOKEN", "1"), ("B_TOKEN", "2"), ("C", "3")])))
    }
}

fn catalog() -> Catalog {
    let mut plugins = PLUGINS.to_vec();
    plugins.push(PluginDef::of::<EnvPlugin>());
    Catalog::new(&plugins).unwrap()
}

fn composed(text: &str) -> Result<reins_kernel::Composition, Vec<reins_kernel::RowError>> {
    let layer = Layer { name: "test".into(), file: None, head: &[], text: text.into() };
    let references = References { env: &|_| None, home: Path::new("/h") };
    compose(&[layer], &catalog(), &references)
}

const ROWS: &str = r#"
[[insert]]
id = "process"
plugin = "world-process"
[insert.config]
pass = ["B_TOKEN"]
[[insert]]
id = "fs"
plugin = "world-fs"
[[insert]]
id = "http"
plugin = "world-http"
[insert.config]
connect_timeout_ms = 5000
[[insert]]
id = "clock"
plugin = "world-clock"
[[insert]]
id = "env"
plugin = "test-env"
"#;

#[tokio::test]
async fn rows_provide_the_machine() {
    let generation =
        composed(ROWS).unwrap().build(&catalog(), 1, reins_kernel::Root::default()).await.unwrap();
    let scope = generation.scope.clone();
    let here = scope.need::<dyn Fs>().unwrap().resolve(Path::new("/"), ".").await.unwrap();
    assert_eq!(here.real, Path::new("/"));
    scope.need::<dyn Http>().unwrap();
    let env = scope.need::<dyn Process>().unwrap().child_env();
    assert_eq!(env, [("B_TOKEN".into(), "2".into()), ("C".into(), "3".into())]);
    let clock = scope.need::<dyn Clock>().unwrap();
    let (before, wall) = (clock.monotonic_ms(), clock.now_ms());
    clock.sleep(Duration::from_millis(2)).await;
    assert!(clock.monotonic_ms() > before);
    // Later than the day this was written.
    assert!(wall > 1_790_000_000_000, "{wall}");
    generation.stop().await;
    assert!(scope.need::<dyn Process>().is_err());
}

#[tokio::test]
async fn wrong_rows_are_refused() {
    let unknown =
        composed("[[insert]]\nid = \"c\"\nplugin = \"world-clock\"\nconfig = { x = 1 }\n");
    assert!(unknown.is_err());
    for (plugin, field) in [("world-fs", "concurrent"), ("world-http", "connect_timeout_ms")] {
        let row =
            format!("[[insert]]\nid = \"r\"\nplugin = \"{plugin}\"\nconfig = {{ {field} = 0 }}\n");
        let built =
            composed(&row).unwrap().build(&catalog(), 1, reins_kernel::Root::default()).await;
        let errors = built.err().unwrap();
        assert!(errors[0].to_string().contains(field), "{}", errors[0]);
    }
}
