//! The tool `bash` over the local processes, in a directory of its own.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use reins_agent::{AnyTool, Observations, ToolContext, ToolReply};
use reins_kernel::*;
use reins_schema::{Block, CallId, SessionId};
use reins_world::{CancelToken, Env, Fs, LocalFs, LocalProcess, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

struct World;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WorldConfig {}

impl Plugin for World {
    const NAME: &'static str = "test-world";
    const SUMMARY: &'static str = "Local files and processes.";
    type Config = WorldConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs"), ServiceKey::of::<dyn Process>("process")]
    }

    fn mount(_config: WorldConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let env: Env = std::env::vars_os().collect();
        mount.provide::<dyn Fs>(Arc::new(LocalFs::default()))?;
        mount.provide::<dyn Process>(Arc::new(LocalProcess::new(&env, &[])))
    }
}

pub(crate) struct Shell {
    pub(crate) dir: TempDir,
    pub(crate) cancel: CancelToken,
    session: String,
    generation: Generation,
}

impl Shell {
    pub(crate) async fn new() -> Self {
        let mut plugins = reins_tools::PLUGINS.to_vec();
        plugins.push(PluginDef::of::<World>());
        let catalog = Catalog::new(&plugins).unwrap();
        let text = "[[insert]]\nid = \"world\"\nplugin = \"test-world\"\n\
                    [[insert]]\nid = \"bash\"\nplugin = \"tool-bash\"\n\
                    [insert.config]\ngrace_ms = 300\n";
        let layer = Layer { name: "test".into(), file: None, head: &[], text: text.into() };
        let references = References { env: &|_| None, home: Path::new("/") };
        let composition = compose(&[layer], &catalog, &references).unwrap();
        let dir = tempfile::tempdir().unwrap();
        Self {
            session: dir.path().file_name().unwrap().to_string_lossy().into_owned(),
            dir,
            cancel: CancelToken::new(),
            generation: composition
                .build(&catalog, 1, reins_kernel::Root::default())
                .await
                .unwrap(),
        }
    }

    pub(crate) async fn run(&self, command: &str, timeout_ms: u64) -> ToolReply {
        let ctx = ToolContext {
            session: SessionId::new(&self.session),
            call_id: CallId::new("call-1"),
            cwd: self.dir.path().to_owned(),
            cancel: self.cancel.clone(),
            observations: Observations::default(),
            scope: self.generation.scope.clone(),
        };
        let arguments =
            json!({"command": command, "description": "a test", "timeoutMs": timeout_ms});
        let tool = self.generation.scope.entry::<dyn AnyTool>("bash").unwrap().value;
        tool.call(arguments, ctx).await
    }

    pub(crate) async fn ok(&self, command: &str, timeout_ms: u64) -> (String, Value) {
        let success = self.run(command, timeout_ms).await.unwrap();
        let meta = serde_json::from_str(success.meta.unwrap().get()).unwrap();
        match success.content.into_iter().next() {
            Some(Block::Text(text)) => (text, meta),
            other => panic!("{command}: {other:?}"),
        }
    }

    /// Command lines of processes that this session started and that still run.
    pub(crate) fn alive(&self) -> Vec<String> {
        let mark = format!("REINS_SESSION_ID={}", self.session);
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let ours = processes.filter(|process| {
            let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|part| part == mark.as_bytes())
        });
        ours.map(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        })
        .collect()
    }

    pub(crate) async fn stop(self) {
        let process = self.generation.scope.need::<dyn Process>().unwrap();
        process.shut_down().await;
        assert_eq!(self.alive(), Vec::<String>::new(), "all ends with the harness");
        self.generation.stop().await;
    }

    pub(crate) fn has(&self, name: impl AsRef<OsStr>) -> bool {
        self.dir.path().join(name.as_ref()).exists()
    }
}
