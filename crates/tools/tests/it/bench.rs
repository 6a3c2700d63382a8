//! A directory, the tools mounted from rows, and one session's observations.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_agent::{AnyTool, Observations, ToolContext, ToolEffect, ToolReply};
use reins_kernel::*;
use reins_schema::{Block, CallId, SessionId};
use reins_world::{CancelToken, Fs, LocalFs, Process};
use serde_json::Value;
use tempfile::TempDir;

use crate::bash::Script;

/// Mounts what the tools need.
struct World;

impl Plugin for World {
    const NAME: &'static str = "test-world";
    const SUMMARY: &'static str = "Local files and scripted commands.";
    type Config = WorldConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs"), ServiceKey::of::<dyn Process>("process")]
    }

    fn mount(_config: WorldConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide::<dyn Fs>(Arc::new(LocalFs::default()))?;
        mount.provide::<dyn Process>(Arc::new(Script::default()))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WorldConfig {}

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) cancel: CancelToken,
    pub(crate) generation: Generation,
    observations: Observations,
}

/// What a test looks at.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) meta: Value,
}

/// A generation with every tool; `config` holds lines of TOML for rows by id.
pub(crate) async fn build(config: &[(&str, &str)]) -> Result<Generation, String> {
    let mut plugins = reins_tools::PLUGINS.to_vec();
    plugins.push(PluginDef::of::<World>());
    let catalog = Catalog::new(&plugins).unwrap();
    let mut text = "[[insert]]\nid = \"world\"\nplugin = \"test-world\"\n".to_owned();
    for plugin in reins_tools::PLUGINS {
        let id = plugin.name().strip_prefix("tool-").unwrap();
        text.push_str(&format!("[[insert]]\nid = \"{id}\"\nplugin = \"{}\"\n", plugin.name()));
        for (_, lines) in config.iter().filter(|(row, _)| *row == id) {
            text.push_str(&format!("[insert.config]\n{lines}\n"));
        }
    }
    let layer = Layer { name: "test".into(), file: None, head: &[], text };
    let references = References { env: &|_| None, home: Path::new("/") };
    let told = |errors: Vec<RowError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let composition = compose(&[layer], &catalog, &references).map_err(told)?;
    composition.build(&catalog, 1, reins_kernel::Root::default()).await.map_err(told)
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(config: &[(&str, &str)]) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            cancel: CancelToken::new(),
            generation: build(config).await.unwrap(),
            observations: Observations::default(),
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn AnyTool> {
        self.generation.scope.entry::<dyn AnyTool>(name).unwrap().value
    }

    pub(crate) fn effect(&self, name: &str, arguments: Value) -> ToolEffect {
        self.tool(name).check(&arguments).unwrap()
    }

    pub(crate) async fn run(&self, name: &str, arguments: Value) -> ToolReply {
        let ctx = ToolContext {
            session: SessionId::new("session-1"),
            call_id: CallId::new("call-1"),
            cwd: self.dir.path().to_owned(),
            cancel: self.cancel.clone(),
            observations: self.observations.clone(),
            scope: self.generation.scope.clone(),
        };
        self.tool(name).call(arguments, ctx).await
    }

    #[track_caller]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> Answer {
        let told = arguments.to_string();
        match self.run(name, arguments).await {
            Ok(success) => match success.content.as_slice() {
                [Block::Text(text)] => Answer {
                    text: text.clone(),
                    meta: serde_json::from_str(success.meta.unwrap().get()).unwrap(),
                },
                other => panic!("{name} {told}: {other:?}"),
            },
            Err(failure) => panic!("{name} {told}: {} {failure}", failure.code),
        }
    }

    /// Code and message.
    pub(crate) async fn fails(&self, name: &str, arguments: Value) -> (String, String) {
        let told = arguments.to_string();
        match self.run(name, arguments).await {
            Ok(success) => panic!("{name} {told} should fail: {:?}", success.content),
            Err(failure) => (failure.code, failure.message),
        }
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let mut file = std::fs::File::create(self.path(name)).unwrap();
        file.write_all(content.as_ref()).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.get(name)).unwrap()
    }
}
