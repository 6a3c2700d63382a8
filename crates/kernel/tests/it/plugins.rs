//! Plugins for the tests.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use reins_kernel::*;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn layer(name: &str, file: Option<&str>, text: &str) -> Layer {
    Layer { name: name.into(), file: file.map(Into::into), head: &[], text: text.into() }
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

/// A model back end: required fields, a map, a union with and one without tags.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
pub(crate) struct ProviderConfig {
    url: String,
    auth: Auth,
    #[serde(default)]
    models: BTreeMap<String, Model>,
    source: Option<Source>,
    #[serde(default)]
    extra: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Auth {
    None,
    Key { value: String },
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the shape matters")]
struct Model {
    window: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the shape matters")]
enum Source {
    File { path: String },
    Web { url: String },
}

pub(crate) struct Provider;

impl Plugin for Provider {
    const NAME: &'static str = "provider";
    const SUMMARY: &'static str = "Provides.";
    type Config = ProviderConfig;

    fn mount(_: ProviderConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.add::<str>("provider", Arc::from("provider"))
    }
}

thread_local! {
    static JOURNAL: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Writes down what happens; every test has its own thread.
pub(crate) fn note(text: impl Into<String>) {
    JOURNAL.with_borrow_mut(|journal| journal.push(text.into()));
}

/// What was written down since the last call.
pub(crate) fn journal() -> Vec<String> {
    JOURNAL.take()
}

pub(crate) trait Ground: Send + Sync {}
pub(crate) trait House: Send + Sync {}
pub(crate) trait Roof: Send + Sync {}

struct Built;

impl Ground for Built {}
impl House for Built {}
impl Roof for Built {}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StepConfig {
    /// `error`, `field`, `panic`, `stop-panic`, `secret ...`, or nothing.
    pub(crate) fail: String,
}

/// What every step of the building does beside its service.
fn step(config: &StepConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
    let row = mount.row().to_owned();
    note(format!("mount {row}"));
    mount.add::<str>(&row, Arc::from(row.as_str()))?;
    let scope = mount.scope().clone();
    let (name, panics) = (row.clone(), config.fail == "stop-panic");
    mount.on_stop(move || {
        Box::pin(async move {
            assert!(!panics, "stop went wrong");
            let left = scope.entry::<str>(&name).is_some();
            note(format!("stop {name}, own entry there: {left}"));
        })
    });
    match config.fail.as_str() {
        "error" => {
            let number = "x".parse::<u32>();
            number.map(drop).map_err(MountError::from)
        }
        "field" => Err(MountError::new("no good").at("fail")),
        "panic" => panic!("mount went wrong"),
        text if text.starts_with("secret") => Err(MountError::new(format!("refused: {text}"))),
        _ => Ok(()),
    }
}

macro_rules! building {
    (
        $plugin:ident, $name:literal, $provides:expr,
        [$($need:expr),*], [$($want:expr),*], $mount:expr
    ) => {
        pub(crate) struct $plugin;

        impl Plugin for $plugin {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = "Builds.";
            type Config = StepConfig;

            fn needs() -> Vec<ServiceKey> {
                vec![$($need),*]
            }

            fn wants() -> Vec<ServiceKey> {
                vec![$($want),*]
            }

            fn provides() -> Vec<ServiceKey> {
                $provides
            }

            fn mount(config: StepConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
                let more: fn(&mut Mount<'_>) -> Result<(), MountError> = $mount;
                more(mount)?;
                step(&config, mount)
            }
        }
    };
}

const GROUND: ServiceKey = ServiceKey::of::<dyn Ground>("ground");
const HOUSE: ServiceKey = ServiceKey::of::<dyn House>("house");
const ROOF: ServiceKey = ServiceKey::of::<dyn Roof>("roof");

building!(GroundWork, "ground", vec![GROUND], [], [], |m| m.provide::<dyn Ground>(Arc::new(Built)));
building!(HouseWork, "house", vec![HOUSE], [GROUND], [], |m| {
    m.need::<dyn Ground>()?;
    m.provide::<dyn House>(Arc::new(Built))
});
building!(RoofWork, "roof", vec![ROOF], [HOUSE], [], |m| {
    m.need::<dyn House>()?;
    m.provide::<dyn Roof>(Arc::new(Built))
});
building!(Upside, "upside-down", vec![GROUND], [ROOF], [], |m| {
    m.provide::<dyn Ground>(Arc::new(Built))
});
building!(Painter, "painter", vec![], [], [ROOF], |m| {
    let there = m.want::<dyn Roof>()?.is_some();
    note(format!("roof there: {there}"));
    Ok(())
});
building!(Thief, "thief", vec![], [], [], |m| m.need::<dyn Ground>().map(drop));
building!(Forgetful, "forgetful", vec![ROOF], [], [], |_| Ok(()));

pub(crate) fn catalog() -> Catalog {
    let plugins = [
        PluginDef::of::<Read>(),
        PluginDef::of::<Provider>(),
        PluginDef::of::<GroundWork>(),
        PluginDef::of::<HouseWork>(),
        PluginDef::of::<RoofWork>(),
        PluginDef::of::<Upside>(),
        PluginDef::of::<Painter>(),
        PluginDef::of::<Thief>(),
        PluginDef::of::<Forgetful>(),
    ];
    Catalog::new(&plugins).unwrap()
}
