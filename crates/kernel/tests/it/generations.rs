//! Mount order, failing mounts, stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reins_kernel::*;

use crate::plugins::{House, Roof, Tool, catalog, journal, layer, note, references};

/// Rows `(id, plugin, rest of the insert)`.
fn composition(rows: &[(&str, &str, &str)]) -> Composition {
    let text: String = rows
        .iter()
        .map(|(id, plugin, rest)| {
            format!("[[insert]]\nid = \"{id}\"\nplugin = \"{plugin}\"\n{rest}\n")
        })
        .collect();
    compose(&[layer("base", Some("b.toml"), &text)], &catalog(), &references()).unwrap()
}

async fn build(rows: &[(&str, &str, &str)]) -> Result<Generation, Vec<String>> {
    let built = composition(rows).build(&catalog(), 7, reins_kernel::Root::default()).await;
    built.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn providers_mount_first_and_stop_last() {
    let rows = [
        ("painter", "painter", ""),
        ("roof", "roof", ""),
        ("off", "roof", "disabled = true"),
        ("house", "house", ""),
        ("ground", "ground", ""),
        ("read", "tool-read", ""),
    ];
    let generation = build(&rows).await.unwrap();
    assert_eq!(generation.number, 7);
    assert_eq!(generation.rows.len(), 6);
    assert!(generation.scope.need::<dyn House>().is_ok());
    let mounted =
        ["mount ground", "mount house", "mount roof", "roof there: true", "mount painter"];
    assert_eq!(journal(), mounted);
    // Whatever the mount order, a row's rank is its place in the layers.
    let origin = generation.scope.entry::<dyn Tool>("read").unwrap().origin;
    assert_eq!((origin.rank, origin.place().as_str()), (5, "b.toml:21"));
    let scope = generation.scope.clone();
    generation.stop().await;
    assert_eq!(
        journal(),
        [
            "stop painter, own entry there: false",
            "stop roof, own entry there: false",
            "stop house, own entry there: false",
            "stop ground, own entry there: false",
        ]
    );
    assert_eq!(scope.contributions(), 0);
}

#[tokio::test]
async fn a_wanted_service_may_be_absent() {
    build(&[("painter", "painter", "")]).await.unwrap().stop().await;
    assert_eq!(journal()[0], "roof there: false");
}

#[tokio::test]
async fn dropping_a_generation_withdraws_everything() {
    let generation = build(&[("ground", "ground", ""), ("house", "house", "")]).await.unwrap();
    let scope = generation.scope.parent().unwrap().clone();
    assert_eq!(scope.contributions(), 4);
    drop(generation);
    assert_eq!(scope.contributions(), 0);
}

#[tokio::test]
async fn a_failing_mount_unwinds_what_was_mounted() {
    let cases = [
        ("error", "b.toml:9: row `roof`: invalid digit found in string"),
        ("field", "b.toml:12: row `roof`, field `config.fail`: no good"),
        ("panic", "b.toml:9: row `roof`: the plugin panicked: mount went wrong"),
        ("secret ${env:TOKEN}", "b.toml:9: row `roof`: refused: secret ${env:TOKEN}"),
    ];
    for (fail, message) in cases {
        let config = format!("config = {{ fail = \"{fail}\" }}");
        let rows = [("ground", "ground", ""), ("house", "house", ""), ("roof", "roof", &config)];
        let errors = build(&rows).await.unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0], message);
        assert_eq!(
            journal(),
            [
                "mount ground",
                "mount house",
                "mount roof",
                "stop roof, own entry there: false",
                "stop house, own entry there: false",
                "stop ground, own entry there: false",
            ]
        );
    }
}

#[tokio::test]
async fn a_second_row_cannot_take_a_name() {
    let errors = build(&[("a", "tool-read", ""), ("b", "tool-read", "")]).await.unwrap_err();
    assert_eq!(
        errors,
        ["b.toml:5: row `b`: `read` is already there from row `a` (b.toml:1); \
          disable one of the two rows"]
    );
}

#[tokio::test]
async fn what_rows_together_get_wrong() {
    type Rows<'a> = &'a [(&'a str, &'a str, &'a str)];
    let cases: [(Rows<'_>, &[&str]); 6] = [
        (
            &[("house", "house", ""), ("roof", "roof", ""), ("g", "ground", "disabled = true")],
            &["b.toml:1: row `house`: needs service `ground`, which no enabled row provides; \
               enable row `g`"],
        ),
        (
            &[("roof", "roof", "")],
            &["b.toml:1: row `roof`: needs service `house`, which no enabled row provides; \
               insert a row of plugin `house`"],
        ),
        (
            &[("g1", "ground", ""), ("g2", "ground", "")],
            &["b.toml:5: row `g2`: service `ground` is already provided by row `g1` (b.toml:1); \
               disable one of the two"],
        ),
        (
            &[("u", "upside-down", ""), ("h", "house", ""), ("r", "roof", "")],
            &["b.toml:1: row `u`: rows need each other's services: `u` → `r` → `h` → `u`; \
               disable one of them"],
        ),
        (
            &[("g", "ground", ""), ("t", "thief", "")],
            &["b.toml:5: row `t`: plugin `thief` does not list `dyn it::plugins::Ground` in \
               `needs()`; add it there"],
        ),
        (
            &[("f", "forgetful", "")],
            &["b.toml:1: row `f`: plugin `forgetful` lists service `roof` in `provides()` but \
               did not provide it"],
        ),
    ];
    for (rows, expected) in cases {
        assert_eq!(build(rows).await.unwrap_err(), *expected);
    }
    let checked =
        composition(&[("roof", "roof", "")]).check(&catalog(), &reins_kernel::Root::default());
    assert_eq!(checked.unwrap_err().len(), 1);
}

#[tokio::test]
async fn a_panic_while_stopping_stops_nothing_else() {
    let rows = [("ground", "ground", ""), ("house", "house", "config = { fail = \"stop-panic\" }")];
    let generation = build(&rows).await.unwrap();
    let scope = generation.scope.parent().unwrap().clone();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let origin = Origin::runtime("test");
    let _observer = scope.observe(
        move |contained: &Contained| {
            assert_eq!(contained.place, ContainedWhere::Stop);
            assert_eq!(contained.message, "stop went wrong");
            assert_eq!(&*contained.origin.row, "house");
            counter.fetch_add(1, Ordering::Relaxed);
        },
        &origin,
    );
    journal();
    generation.stop().await;
    note("end");
    assert_eq!(journal(), ["stop ground, own entry there: false", "end"]);
    assert_eq!((scope.contained(), seen.load(Ordering::Relaxed)), (1, 1));
    assert!(scope.service::<dyn Roof>().is_none());
}
