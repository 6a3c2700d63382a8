//! Plugins of both kinds of reload, and short texts for their rows.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use reins_kernel::*;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::plugins::{journal, layer, note, references};

/// What the rows contribute. It notes its end.
pub(crate) struct Value {
    pub(crate) tag: String,
}

impl Drop for Value {
    fn drop(&mut self) {
        note(format!("drop {}", self.tag));
    }
}

thread_local! {
    static VALUES: RefCell<Vec<Weak<Value>>> = const { RefCell::new(Vec::new()) };
}

/// A value that [`alive`] counts.
pub(crate) fn value(tag: &str) -> Arc<Value> {
    let value = Arc::new(Value { tag: tag.to_owned() });
    VALUES.with_borrow_mut(|values| values.push(Arc::downgrade(&value)));
    value
}

/// The tags of the values of this test that are still there, sorted.
pub(crate) fn alive() -> Vec<String> {
    let values = VALUES.with_borrow(|values| values.clone());
    let mut tags: Vec<String> =
        values.iter().filter_map(Weak::upgrade).map(|value| value.tag.clone()).collect();
    tags.sort();
    tags
}

/// What was noted since the last look, only lines that begin so.
pub(crate) fn noted(start: &str) -> Vec<String> {
    journal().into_iter().filter(|line| line.starts_with(start)).collect()
}

pub(crate) trait Store: Send + Sync {
    fn tag(&self) -> &str;
}

pub(crate) trait Index: Send + Sync {}

pub(crate) trait Lamp: Send + Sync {
    fn tag(&self) -> &str;
}

pub(crate) trait Wish: Send + Sync {}

impl Store for Value {
    fn tag(&self) -> &str {
        &self.tag
    }
}

impl Lamp for Value {
    fn tag(&self) -> &str {
        &self.tag
    }
}

impl Index for Value {}
impl Wish for Value {}

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Config {
    /// Of the row's value; the row's id when it is empty.
    tag: String,
    /// `error`, `panic`: while it mounts. `stop-panic`: in its stop work. `hang-stop`: that work
    /// never ends. `hang`: it does not mount, and its stop work never ends. `quiet`: it has none.
    fail: String,
    /// Of the row's entry; the row's id when it is empty.
    name: String,
    /// What a fence lets pass.
    allow: Vec<String>,
    /// A registry's contributions, until it fails.
    until: Option<u8>,
    number: u8,
}

impl Config {
    pub(crate) fn until(&self) -> Option<u8> {
        self.until
    }
}

fn note_stop(config: &Config, mount: &mut Mount<'_>) {
    let row = mount.row().to_owned();
    // The stop work holds the scope, and goes before it.
    let (scope, fail) = (mount.scope().clone(), config.fail.clone());
    mount.on_stop(move || {
        Box::pin(async move {
            if fail.starts_with("hang") {
                std::future::pending::<()>().await;
            }
            assert!(fail != "stop-panic", "stop went wrong");
            tokio::task::yield_now().await;
            let store = scope.service::<dyn Store>().map_or("no store", |_| "store there");
            note(format!("stop {row} in {}, {store}", scope.name()));
        })
    });
}

pub(crate) type Contribute = fn(&Config, Arc<Value>, &mut Mount<'_>) -> Result<(), MountError>;

/// Notes that the row mounts and stops, contributes, and fails as it is told.
pub(crate) fn mount_row(
    config: Config,
    mount: &mut Mount<'_>,
    contribute: Contribute,
) -> Result<(), MountError> {
    let row = mount.row().to_owned();
    note(format!("mount {row}"));
    let value = value(if config.tag.is_empty() { &row } else { &config.tag });
    if config.fail != "quiet" {
        note_stop(&config, mount);
    }
    contribute(&config, value, mount)?;
    match config.fail.as_str() {
        "error" | "hang" => Err(MountError::new("no good").at("fail")),
        "panic" => panic!("mount went wrong"),
        _ => Ok(()),
    }
}

macro_rules! plugins {
    ($($plugin:ident $name:literal $reload:ident $places:ident
        needs [$($need:expr),*] wants [$($want:expr),*] provides [$($provide:expr),*]
        $contribute:expr;)*) => {
        $(
            struct $plugin;

            impl Plugin for $plugin {
                const NAME: &'static str = $name;
                const SUMMARY: &'static str = "Tests.";
                const RELOAD: Reload = Reload::$reload;
                const PLACES: Places = Places::$places;
                type Config = Config;

                fn needs() -> Vec<ServiceKey> {
                    vec![$($need),*]
                }

                fn wants() -> Vec<ServiceKey> {
                    vec![$($want),*]
                }

                fn provides() -> Vec<ServiceKey> {
                    vec![$($provide),*]
                }

                fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
                    mount_row(config, mount, $contribute)
                }
            }
        )*

        fn defs() -> Vec<PluginDef> {
            vec![$(PluginDef::of::<$plugin>()),*]
        }
    };
}

const STORE: ServiceKey = ServiceKey::of::<dyn Store>("store");
const INDEX: ServiceKey = ServiceKey::of::<dyn Index>("index");
const LAMP: ServiceKey = ServiceKey::of::<dyn Lamp>("lamp");
const WISH: ServiceKey = ServiceKey::of::<dyn Wish>("wish");

fn add(config: &Config, value: Arc<Value>, mount: &mut Mount<'_>) -> Result<(), MountError> {
    let name = if config.name.is_empty() { mount.row() } else { &config.name }.to_owned();
    mount.add::<Value>(&name, value)
}

fn lamp(_: &Config, value: Arc<Value>, mount: &mut Mount<'_>) -> Result<(), MountError> {
    mount.provide::<dyn Lamp>(value)
}

fn store(_: &Config, value: Arc<Value>, mount: &mut Mount<'_>) -> Result<(), MountError> {
    mount.provide::<dyn Store>(value)
}

fn fence(config: &Config, value: Arc<Value>, mount: &mut Mount<'_>) -> Result<(), MountError> {
    let allow = config.allow.clone();
    mount.restrict::<Value>(move |name| {
        assert!(!value.tag.is_empty());
        allow.iter().any(|allowed| allowed == name)
    });
    Ok(())
}

plugins! {
    StoreRow "store" Restart Global needs [] wants [] provides [STORE] store;
    IndexRow "index" Restart Global needs [STORE] wants [] provides [INDEX] |_, value, mount| {
        mount.need::<dyn Store>()?;
        mount.provide::<dyn Index>(value)
    };
    PostRow "post" Restart Both needs [] wants [] provides [] add;
    ToolRow "tool" Live Both needs [] wants [] provides [] add;
    ShelfRow "shelf" Live Both needs [INDEX] wants [] provides [] |config, value, mount| {
        mount.need::<dyn Index>()?;
        add(config, value, mount)
    };
    LampRow "lamp" Live Both needs [] wants [WISH] provides [LAMP] lamp;
    OtherStoreRow "other-store" Live Both needs [] wants [] provides [STORE] store;
    ReaderRow "reader" Live Both needs [LAMP, STORE] wants [] provides [] |_, held, mount| {
        let (lamp, store) = (mount.need::<dyn Lamp>()?, mount.need::<dyn Store>()?);
        let row = mount.row().to_owned();
        drop(held);
        mount.add::<Value>(&row, value(&format!("{} by {}", store.tag(), lamp.tag())))
    };
    ClingerRow "clinger" Restart Global needs [LAMP] wants [] provides [] |config, value, mount| {
        mount.need::<dyn Lamp>()?;
        add(config, value, mount)
    };
    WisherRow "wisher" Restart Global needs [] wants [LAMP] provides [WISH] |_, value, mount| {
        note(format!("lamp there: {}", mount.want::<dyn Lamp>()?.is_some()));
        mount.provide::<dyn Wish>(value)
    };
    RingARow "ring-a" Live Both needs [WISH] wants [] provides [LAMP] lamp;
    RingBRow "ring-b" Live Both needs [LAMP] wants [] provides [WISH] |_, value, mount| {
        mount.provide::<dyn Wish>(value)
    };
    FenceRow "fence" Live Both needs [] wants [] provides [] fence;
    NarrowRow "narrow" Restart Nested needs [] wants [] provides [] fence;
}

pub(crate) fn catalog() -> Catalog {
    let mut defs = defs();
    defs.extend(crate::registry::defs());
    Catalog::new(&defs).unwrap()
}

/// Rows as text, of five lines each: `plugin` or `plugin:id`, then `off` and `key=value` of its
/// config, the value a number, a list in brackets or a string.
pub(crate) fn text(rows: &[&str]) -> String {
    rows.iter().map(|row| insert(row)).collect()
}

fn insert(row: &str) -> String {
    let mut words = row.split(' ');
    let (mut disabled, mut config) = (false, Vec::new());
    let name = words.next().unwrap_or_default();
    let (plugin, id) = name.split_once(':').unwrap_or((name, name));
    for word in words {
        match word.split_once('=') {
            None => disabled = word == "off",
            Some((key, list)) if list.starts_with('[') => config.push(format!("{key} = {list}")),
            Some((key, number)) if number.parse::<u8>().is_ok() => {
                config.push(format!("{key} = {number}"));
            }
            Some((key, text)) => config.push(format!("{key} = \"{text}\"")),
        }
    }
    let config = config.join(", ");
    format!(
        "[[insert]]\nid = \"{id}\"\nplugin = \"{plugin}\"\ndisabled = {disabled}\n\
         config = {{ {config} }}\n"
    )
}

/// Rows in the file `base.toml`, and a text that patches them in `home.toml`.
pub(crate) fn composed(rows: &[&str], patches: &str) -> Result<Composition, Vec<RowError>> {
    let base = layer("base", Some("base.toml"), &text(rows));
    compose(&[base, layer("home", Some("home.toml"), patches)], &catalog(), &references())
}

pub(crate) fn messages<T: std::fmt::Debug>(result: Result<T, Vec<RowError>>) -> Vec<String> {
    result.unwrap_err().iter().map(ToString::to_string).collect()
}

pub(crate) async fn build(rows: &[&str]) -> Generation {
    composed(rows, "").unwrap().build(&catalog(), 1, Root::default()).await.unwrap()
}

pub(crate) async fn next(from: &Generation, rows: &[&str]) -> Result<Generation, Vec<RowError>> {
    from.next(composed(rows, "")?, &catalog()).await
}

pub(crate) async fn nested(from: &Generation, rows: &[&str]) -> Result<RowScope, Vec<RowError>> {
    from.nested("preset", composed(rows, "")?, &catalog()).await
}

/// The scope of the process, around a generation's.
pub(crate) fn process(generation: &Generation) -> Scope {
    generation.scope.parent().unwrap().clone()
}

/// `name=tag` of every entry that is visible.
pub(crate) fn entries(scope: &Scope) -> Vec<String> {
    let entries = scope.entries::<Value>();
    entries.iter().map(|entry| format!("{}={}", entry.name, entry.value.tag)).collect()
}
