use std::path::Path;
use std::sync::Arc;

use reins_agent::Provider;
use reins_agent::ProviderName;
use reins_kernel::{
    Catalog, Generation, Layer, Mount, MountError, Plugin, PluginDef, References, ServiceKey,
    compose,
};
use reins_providers::PLUGINS;
use reins_world::{Clock, Env, Http};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::world::EndPoint;

struct World;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Plugin for World {
    const NAME: &'static str = "test-world";
    const SUMMARY: &'static str = "The services that providers need.";
    type Config = Nothing;

    fn provides() -> Vec<ServiceKey> {
        vec![
            ServiceKey::of::<dyn Http>("http"),
            ServiceKey::of::<dyn Clock>("clock"),
            ServiceKey::of::<Env>("env"),
        ]
    }

    fn mount(_: Nothing, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let services = EndPoint::new([]).services();
        mount.provide::<dyn Http>(services.http)?;
        mount.provide::<dyn Clock>(services.clock)?;
        let env: Env = [("DEEPSEEK_API_KEY", "sk-1")].into_iter().collect();
        mount.provide::<Env>(Arc::new(env))
    }
}

/// Builds these rows of providers beside the world.
async fn build(rows: &[(&str, &str)]) -> Result<Generation, String> {
    let mut text = "[[insert]]\nid = \"world\"\nplugin = \"test-world\"\n".to_owned();
    for (id, config) in rows {
        text.push_str(&format!(
            "[[insert]]\nid = \"{id}\"\nplugin = \"provider-chat\"\nconfig = {{ {config} }}\n"
        ));
    }
    let layers = [Layer { name: "base".to_owned(), file: None, head: &[], text }];
    let catalog = Catalog::new(&[PLUGINS[0], PluginDef::of::<World>()]).unwrap();
    let references = References { env: &|_| None, home: Path::new("/home/x") };
    let words = |errors: Vec<reins_kernel::RowError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let composition = compose(&layers, &catalog, &references).map_err(words)?;
    composition.build(&catalog, 1, reins_kernel::Root::default()).await.map_err(words)
}

#[tokio::test]
async fn several_rows_are_several_providers() {
    let local = "vendor = \"compatible\", base_url = \"http://127.0.0.1:1\"";
    let rows = [("deep", "vendor = \"deepseek\""), ("local", local), ("local-2", local)];
    let generation = build(&rows).await.unwrap();
    let entries = generation.scope.entries::<dyn Provider>();
    let ids: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(ids, ["deepseek", "local", "local-2"]);
    entries.iter().for_each(|entry| entry.value.ready().unwrap());
    let alias = generation.scope.entry::<ProviderName>("deepseek-official").unwrap();
    assert_eq!(alias.value.provider, "deepseek");
    generation.stop().await;
}

#[tokio::test]
async fn a_name_belongs_to_one_row() {
    let twice = [("a", "vendor = \"deepseek\""), ("b", "vendor = \"deepseek\"")];
    let error = build(&twice).await.unwrap_err();
    assert!(error.contains("`deepseek` is already there from"), "{error}");
    assert!(error.contains("give one of them another `id`"), "{error}");
    let alias = [
        ("a", "vendor = \"deepseek\""),
        ("b", "vendor = \"deepseek\", id = \"deepseek-official\""),
    ];
    let error = build(&alias).await.unwrap_err();
    assert!(error.contains("`deepseek-official` is already there from"), "{error}");
}

#[tokio::test]
async fn errors_name_row_and_field() {
    let error = build(&[("a", "vendor = \"deepseek\", effort = \"low\"")]).await.unwrap_err();
    assert!(error.contains("`a`") && error.contains("effort"), "{error}");
    let error = build(&[("a", "vendor = \"deepseek\", api_kee = \"x\"")]).await.unwrap_err();
    assert!(error.contains("api_kee") && error.contains("api_key"), "{error}");
    let local = "vendor = \"compatible\", base_url = \"localhost:8000/v1\"";
    let error = build(&[("local", local)]).await.unwrap_err();
    let wanted = "row `local`, field `config.base_url`: is no base URL such as `https://";
    assert!(error.contains(wanted) && error.ends_with(": `localhost:8000/v1`"), "{error}");
}
