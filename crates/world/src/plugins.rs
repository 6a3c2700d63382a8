//! One plugin per service, so that each can be replaced alone.

use std::sync::Arc;
use std::time::Duration;

use reins_kernel::{Mount, MountError, Plugin, PluginDef, ServiceKey};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::local::{DEFAULT_CONCURRENT, LocalClock, LocalFs, LocalHttp, LocalProcess};
use crate::{Clock, Env, Fs, Http, Process};

/// Rows that provide the local machine.
pub const PLUGINS: &[PluginDef] = &[
    PluginDef::of::<FsPlugin>(),
    PluginDef::of::<HttpPlugin>(),
    PluginDef::of::<ProcessPlugin>(),
    PluginDef::of::<ClockPlugin>(),
];

/// More threads than that help no file system.
const MAX_CONCURRENT: usize = 1024;

struct FsPlugin;

/// Local files.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct FsConfig {
    /// File operations that run at once; further ones wait.
    #[schemars(range(min = 1, max = MAX_CONCURRENT))]
    concurrent: usize,
}

impl Default for FsConfig {
    fn default() -> Self {
        Self { concurrent: DEFAULT_CONCURRENT }
    }
}

impl Plugin for FsPlugin {
    const NAME: &'static str = "world-fs";
    const SUMMARY: &'static str = "The files of this machine";
    type Config = FsConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: FsConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if !(1..=MAX_CONCURRENT).contains(&config.concurrent) {
            let problem = format!("must be between 1 and {MAX_CONCURRENT}");
            return Err(MountError::new(problem).at("concurrent"));
        }
        mount.provide::<dyn Fs>(Arc::new(LocalFs::new(config.concurrent)))
    }
}

struct HttpPlugin;

/// Outgoing HTTP.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct HttpConfig {
    /// Milliseconds for name lookup, connection and TLS handshake together.
    #[schemars(range(min = 1))]
    connect_timeout_ms: u64,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { connect_timeout_ms: 10_000 }
    }
}

impl Plugin for HttpPlugin {
    const NAME: &'static str = "world-http";
    const SUMMARY: &'static str = "HTTP from this machine";
    type Config = HttpConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Http>("http")]
    }

    fn mount(config: HttpConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.connect_timeout_ms == 0 {
            return Err(MountError::new("at least 1 is needed").at("connect_timeout_ms"));
        }
        let timeout = Duration::from_millis(config.connect_timeout_ms);
        mount.provide::<dyn Http>(Arc::new(LocalHttp::new(timeout)))
    }
}

struct ProcessPlugin;

/// Local processes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ProcessConfig {
    /// Variables that children get though they look like secrets: by their names (they hold KEY,
    /// TOKEN, SECRET, PASSWORD, PASSWD, PASSPHRASE, CREDENTIAL, BEARER or COOKIE, end in `_PWD`,
    /// `_PAT` or `_AUTH`, have the word JWT, or begin with `REINS_`) or because their value is an
    /// address with a password. Exact names.
    pass: Vec<String>,
}

impl Plugin for ProcessPlugin {
    const NAME: &'static str = "world-process";
    const SUMMARY: &'static str = "Processes on this machine, under one supervisor";
    type Config = ProcessConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Env>("env")]
    }

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Process>("process")]
    }

    fn mount(config: ProcessConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let env = mount.need::<Env>()?;
        let process = Arc::new(LocalProcess::new(&env, &config.pass));
        let stopped = Arc::clone(&process);
        mount.on_stop(move || Box::pin(async move { stopped.shut_down().await }));
        mount.provide::<dyn Process>(process)
    }
}

struct ClockPlugin;

/// The clock has nothing to configure.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ClockConfig {}

impl Plugin for ClockPlugin {
    const NAME: &'static str = "world-clock";
    const SUMMARY: &'static str = "The clocks of this machine";
    type Config = ClockConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Clock>("clock")]
    }

    fn mount(_: ClockConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide::<dyn Clock>(Arc::new(LocalClock::new()))
    }
}
