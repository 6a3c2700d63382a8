//! Every kind of registration: mounted, used, withdrawn, and nothing is left.

use std::sync::{Arc, Weak};

use reins_kernel::*;

use crate::plugins::{journal, note};
use crate::rig::{Config, Value, alive, build, entries, messages, mount_row, next, process};
use crate::rig::{nested, value};

/// What a registry's observer is told.
struct Bell;

impl Notice for Bell {
    const NAME: &'static str = "bell";
}

struct Count(u32);

impl Chain for Count {
    const NAME: &'static str = "count";
    type Out = u32;
}

/// A plugin that makes one registration of each kind, and fails after `until` of them.
struct Registry<const LIVE: bool>;

impl<const LIVE: bool> Plugin for Registry<LIVE> {
    const NAME: &'static str = if LIVE { "live-registry" } else { "registry" };
    const SUMMARY: &'static str = "Contributes one of each kind.";
    const RELOAD: Reload = if LIVE { Reload::Live } else { Reload::Restart };
    const PLACES: Places = Places::Both;
    type Config = Config;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Value>("value")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount_row(config, mount, |config, value, mount| {
            for kind in 0..KINDS {
                if config.until() == Some(kind) {
                    return Err(MountError::new(format!("failed after {kind}")));
                }
                contribute(kind, value.clone(), mount)?;
            }
            match config.until() {
                Some(KINDS) => panic!("failed after all"),
                _ => Ok(()),
            }
        })
    }
}

const KINDS: u8 = 6;

/// Each holds the value, and the scope in which it is held.
fn contribute(kind: u8, value: Arc<Value>, mount: &mut Mount<'_>) -> Result<(), MountError> {
    let scope = mount.scope().clone();
    match kind {
        0 => mount.provide::<Value>(value)?,
        1 => mount.add::<Value>("own", value)?,
        2 => mount.observe(move |_: &Bell| note(format!("{} rings in {scope:?}", value.tag))),
        3 => mount.wrap(5, move |count: Count, next: Next<Count>| {
            assert!(!value.tag.is_empty() && !scope.name().is_empty());
            next.run(Count(count.0 + 1))
        }),
        4 => mount.restrict::<Value>(move |name| {
            assert!(!value.tag.is_empty() && !scope.name().is_empty());
            name != "hidden"
        }),
        _ => mount.on_stop(move || {
            Box::pin(async move { note(format!("{} ends in {scope:?}", value.tag)) })
        }),
    }
    Ok(())
}

pub(crate) fn defs() -> [PluginDef; 2] {
    [PluginDef::of::<Registry<true>>(), PluginDef::of::<Registry<false>>()]
}

/// A value that only the scope holds, and its registration, which holds no scope.
fn probe(scope: &Scope) -> (Weak<()>, Registration) {
    let probe = Arc::new(());
    let weak = Arc::downgrade(&probe);
    (weak, scope.add("probe", probe, &Origin::runtime("test")).unwrap())
}

async fn use_registry(scope: &Scope, row: &str) {
    assert_eq!(scope.need::<Value>().unwrap().tag, row);
    assert_eq!(&*scope.service_origin::<Value>().unwrap().row, row);
    assert_eq!(scope.entry::<Value>("own").unwrap().value.tag, row);
    journal();
    scope.notify(&Bell);
    assert_eq!(journal(), [format!("{row} rings in {scope:?}")]);
    let counted = scope.run(Count(0), |count| Box::pin(async move { count.0 })).await;
    assert_eq!(counted, 1);
    let below = scope.child("below");
    let _hidden = scope.parent().map(|around| {
        let origin = Origin::runtime("test");
        let held = around.add("hidden", value("hidden"), &origin).unwrap();
        assert!(around.entry::<Value>("hidden").is_some());
        assert!(scope.entry::<Value>("hidden").is_none());
        assert!(below.entry::<Value>("hidden").is_none());
        assert_eq!(&*below.hidden_by::<Value>("hidden").unwrap().row, row);
        held
    });
    assert_eq!(entries(&below), [format!("own={row}")]);
    let kinds: Vec<_> = scope.contents().iter().map(|held| (held.kind, held.of)).collect();
    let expected = [
        (ContributionKind::Service, "Value"),
        (ContributionKind::Entry, "Value"),
        (ContributionKind::Observer, "bell"),
        (ContributionKind::Layer, "count"),
        (ContributionKind::Restriction, "Value"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(scope.contributions(), expected.len());
}

async fn is_unused(scope: &Scope) {
    assert_eq!((scope.contributions(), scope.contents()), (0, vec![]));
    assert!(scope.service::<Value>().is_none() && scope.entries::<Value>().is_empty());
    journal();
    scope.notify(&Bell);
    assert_eq!(journal(), [""; 0]);
    assert_eq!(scope.run(Count(0), |count| Box::pin(async move { count.0 })).await, 0);
    let origin = Origin::runtime("test");
    let around = scope.parent().unwrap_or(scope);
    let _held = around.add("hidden", value("hidden"), &origin).unwrap();
    assert!(scope.entry::<Value>("hidden").is_some());
}

fn ended() -> Vec<String> {
    journal().into_iter().filter(|line| !line.starts_with("drop")).collect()
}

#[tokio::test]
async fn a_row_that_reloads_comes_and_goes_whole() {
    let generation = build(&["live-registry:r"]).await;
    let scope = generation.scope.clone();
    use_registry(&scope, "r").await;
    generation.stop().await;
    let ends = ["r ends in Scope(process/global)", "stop r in global, no store"];
    assert_eq!(ended(), ends);
    is_unused(&scope).await;
    assert_eq!(alive(), [""; 0]);
    let generation = build(&["live-registry:r"]).await;
    let (weak, _registration) = probe(&generation.scope);
    generation.stop().await;
    drop(generation);
    assert!(weak.upgrade().is_none(), "something still holds the scope");
}

#[tokio::test]
async fn a_row_that_stays_comes_and_goes_whole() {
    let generation = build(&["registry:r"]).await;
    let scope = process(&generation);
    use_registry(&scope, "r").await;
    generation.stop().await;
    let ends = ["r ends in Scope(process)", "stop r in process, no store"];
    assert_eq!(ended(), ends);
    is_unused(&scope).await;
    assert_eq!(alive(), [""; 0]);
    drop(scope);
    let generation = build(&["registry:r"]).await;
    let (weak, _registration) = probe(generation.scope.parent().unwrap());
    generation.stop().await;
    drop(generation);
    assert!(weak.upgrade().is_none(), "something still holds the scope");
}

#[tokio::test]
async fn a_nested_row_comes_and_goes_whole() {
    let generation = build(&["post"]).await;
    let below = nested(&generation, &["registry:r"]).await.unwrap();
    let scope = below.scope.clone();
    let _probe = generation.scope.add("hidden", value("x"), &Origin::runtime("x")).unwrap();
    assert_eq!(entries(&generation.scope), ["hidden=x", "post=post"]);
    assert_eq!(entries(&scope), ["own=r", "post=post"]);
    assert_eq!(&*scope.hidden_by::<Value>("hidden").unwrap().row, "r");
    scope.notify(&Bell);
    generation.scope.notify(&Bell);
    let rings = journal();
    assert_eq!(rings.last().unwrap(), "r rings in Scope(process/global/preset)");
    assert_eq!(rings.iter().filter(|line| line.contains("rings")).count(), 1);
    below.stop().await;
    assert_eq!((scope.contributions(), scope.contents()), (0, vec![]));
    assert_eq!(entries(&scope), ["hidden=x", "post=post"]);
    assert_eq!(alive(), ["post", "x"]);
    let below = nested(&generation, &["registry:r"]).await.unwrap();
    let (weak, _registration) = probe(&below.scope);
    below.stop().await;
    drop(below);
    assert!(weak.upgrade().is_none(), "something still holds the scope");
}

#[tokio::test]
async fn a_row_that_fails_after_any_of_its_contributions_leaves_nothing() {
    let old = build(&["post"]).await;
    let before = (old.scope.contents(), process(&old).contents());
    for until in 0..=KINDS {
        let live = format!("live-registry:r until={until}");
        let rows = ["post", "tool", &live];
        let problem = match until {
            KINDS => "the plugin panicked: failed after all".to_owned(),
            _ => format!("failed after {until}"),
        };
        let expected = [format!("base.toml:11: row `r`: {problem}")];
        assert_eq!(messages(next(&old, &rows).await), expected);
        assert_eq!(messages(nested(&old, &rows).await), expected);
        let composition = crate::rig::composed(&rows, "").unwrap();
        let start = composition.build(&crate::rig::catalog(), 1, Root::default()).await;
        assert_eq!(messages(start), expected);
        let stays = format!("registry:r until={until}");
        let composition = crate::rig::composed(&["post", "tool", &stays], "").unwrap();
        let start = composition.build(&crate::rig::catalog(), 1, Root::default()).await;
        assert_eq!(messages(start), expected);
        assert_eq!(alive(), ["post"]);
        let after = (old.scope.contents(), process(&old).contents());
        assert_eq!(after, before);
    }
    old.stop().await;
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn withdrawing_a_row_spares_those_of_others() {
    let first = build(&["live-registry:r", "tool"]).await;
    let second = next(&first, &["live-registry:r", "tool"]).await.unwrap();
    let before = second.scope.contents();
    first.stop().await;
    assert_eq!(second.scope.contents(), before);
    use_registry_entries(&second.scope);
    journal();
    second.scope.notify(&Bell);
    assert_eq!(journal(), ["r rings in Scope(process/global)"]);
    let scope = second.scope.clone();
    second.stop().await;
    assert_eq!(scope.contributions(), 0);
}

fn use_registry_entries(scope: &Scope) {
    assert_eq!(entries(scope), ["own=r", "tool=tool"]);
    assert_eq!(scope.need::<Value>().unwrap().tag, "r");
}
