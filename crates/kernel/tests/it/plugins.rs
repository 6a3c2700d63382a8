//! Plugins for the tests.
use std::path::Path;
use std::sync::Arc;

use reins_kernel::*;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn layer(name: &str, file: Option<&str>, text: &str) -> Layer {
    Layer { name: name.into(), file: file.map(Into::into), text: text.into() }
}

/// References of a fixed environment.
pub(crate) fn references() -> References<'static> {
    References {
        env: &|name| match name {
            "TOKEN" => Some("s3cret-value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        },
        home: Path::new("/home/me/.reins"),
    }
}

pub(crate) trait Tool: Send + Sync {
    fn run(&self) -> String;
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReadConfig {
    pub(crate) max_bytes: u32,
    pub(crate) root: Option<String>,
    pub(crate) retry: Retry,
    pub(crate) modes: Vec<Mode>,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self { max_bytes: 100, root: None, retry: Retry::default(), modes: Vec::new() }
    }
}

// On purpose without `deny_unknown_fields`: the kernel refuses unknown keys all the same.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Retry {
    pub(crate) attempts: u8,
    pub(crate) codes: Vec<u16>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

struct ReadTool(String);

impl Tool for ReadTool {
    fn run(&self) -> String {
        self.0.clone()
    }
}

pub(crate) struct Read;

impl Plugin for Read {
    const NAME: &'static str = "tool-read";
    const SUMMARY: &'static str = "Reads.";
    const RELOAD: Reload = Reload::Live;
    type Config = ReadConfig;

    fn mount(config: ReadConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let (retry, modes) = (&config.retry, config.modes.len());
        let text = format!(
            "{} {:?} {} {:?} {modes}",
            config.max_bytes, config.root, retry.attempts, retry.codes
        );
        mount.add::<dyn Tool>("read", Arc::new(ReadTool(text)))
    }
}
