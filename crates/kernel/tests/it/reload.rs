//! Rows that stay for the life of the process, and rows that each generation mounts anew.

use std::sync::Arc;

use futures_util::FutureExt as _;
use reins_kernel::*;

use crate::plugins::journal;
use crate::rig::{
    Store, Value, alive, build, catalog, composed, entries, messages, next, noted, process,
};

#[tokio::test]
async fn rows_mount_in_the_scope_of_their_kind() {
    let generation = build(&["tool", "reader", "lamp", "index", "store", "post"]).await;
    assert_eq!((process(&generation).name(), generation.scope.name()), ("process", "global"));
    let held = |scope: &Scope| -> Vec<String> {
        let held = scope.contents();
        held.iter().map(|one| format!("{} {}", one.origin.row, one.scope)).collect()
    };
    assert_eq!(held(&process(&generation)), ["index process", "store process", "post process"]);
    assert_eq!(held(&generation.scope), ["tool global", "reader global", "lamp global"]);
    let order = ["store", "index", "post", "tool", "lamp", "reader"];
    assert_eq!(noted("mount"), order.map(|row| format!("mount {row}")));
    assert!(generation.waiting.is_empty());
}

#[tokio::test]
async fn the_next_generation_shares_what_stays_and_builds_the_rest_anew() {
    let rows = ["store", "post", "tool tag=one"];
    let first = build(&rows).await;
    journal();
    let second = next(&first, &["store", "post", "tool tag=two", "tool:more"]).await.unwrap();
    assert_eq!(noted("mount"), ["mount tool", "mount more"]);
    assert_eq!((first.number, second.number), (1, 2));
    assert!(second.waiting.is_empty());
    let store = |generation: &Generation| generation.scope.need::<dyn Store>().unwrap();
    assert!(Arc::ptr_eq(&store(&first), &store(&second)));
    let entry =
        |generation: &Generation, name: &str| generation.scope.entry::<Value>(name).unwrap().value;
    assert!(Arc::ptr_eq(&entry(&first, "post"), &entry(&second, "post")));
    // Both are in use at the same time, and what is equal in both is still mounted anew.
    assert_eq!(entries(&first.scope), ["post=post", "tool=one"]);
    assert_eq!(entries(&second.scope), ["more=more", "post=post", "tool=two"]);
    let third = next(&second, &["store", "post", "tool tag=two"]).await.unwrap();
    assert!(!Arc::ptr_eq(&entry(&second, "tool"), &entry(&third, "tool")));
    assert_eq!(third.number, 3);
}

fn waiting(generation: &Generation) -> Vec<String> {
    generation.waiting.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn changes_of_rows_that_stay_wait_and_say_where_they_were_made() {
    let before = [
        "post:same",
        "post:changed tag=old",
        "post:gone",
        "post:off",
        "post:on off",
        "post:never off",
        "tool:live",
    ];
    let first = build(&before).await;
    let now = [
        "post:same",
        "post:changed tag=old",
        "post:off",
        "post:on off",
        "post:new tag=new",
        "post:never-new off",
        "post:elsewhere off",
        "tool:live tag=newer",
    ];
    // The patch that changes a row is named, not the last one that touched it.
    let patches = "[[row]]\nid = \"changed\"\nconfig = { tag = \"new\" }\n\
                   [[row]]\nid = \"off\"\ndisabled = true\n\
                   [[row]]\nid = \"on\"\ndisabled = false\n\
                   [[row]]\nid = \"changed\"\ndisabled = false\n\
                   [[row]]\nid = \"off\"\nconfig = { tag = \"no matter\" }\n\
                   [[row]]\nid = \"on\"\nconfig = {}\n";
    let composition = composed(&now, patches).unwrap();
    let second = first.next(composition, &catalog()).await.unwrap();
    let expected = [
        "home.toml:1: row `changed`: changed, which takes effect when Reins starts again",
        "home.toml:4: row `off`: disabled, which takes effect when Reins starts again",
        "home.toml:7: row `on`: enabled, which takes effect when Reins starts again",
        "base.toml:21: row `new`: added, which takes effect when Reins starts again",
        "base.toml:11: row `gone`: removed, which takes effect when Reins starts again",
    ];
    assert_eq!(waiting(&second), expected);
    // They go on as they were at the start.
    let on = ["changed=old", "gone=gone", "live=newer", "off=off", "same=same"];
    assert_eq!(entries(&second.scope), on);
    // Compared with what runs, not with the generation before.
    let third = next(&second, &before).await.unwrap();
    assert_eq!(waiting(&third), [""; 0]);
    let composition = composed(&now, patches).unwrap();
    let fourth = third.next(composition, &catalog()).await.unwrap();
    assert_eq!(waiting(&fourth), expected);
}

#[tokio::test]
async fn a_row_whose_plugin_changes_its_kind_is_gone_here_and_new_there() {
    let first = build(&["post:one", "tool:two", "post:three"]).await;
    let second = next(&first, &["tool:one", "post:two", "index:three off"]).await.unwrap();
    let again = "which takes effect when Reins starts again";
    assert_eq!(
        waiting(&second),
        [
            format!("base.toml:6: row `two`: added, {again}"),
            format!("base.toml:11: row `three`: disabled, {again}"),
            format!("base.toml:1: row `one`: removed, {again}"),
        ]
    );
    let changes = second.changes_since(&first, &catalog());
    let changes: Vec<_> = changes.iter().map(|change| (&*change.row, change.what)).collect();
    assert_eq!(changes, [("one", "added"), ("two", "removed")]);
    let third = next(&second, &["index:one off", "tool:two", "shelf:three off"]).await.unwrap();
    assert_eq!(waiting(&third).len(), 2, "{:?}", waiting(&third));
}

#[tokio::test]
async fn changes_since_tells_the_rows_that_reload() {
    let before = ["tool:same", "tool:changed", "tool:gone", "tool:off", "tool:on off", "post"];
    let first = build(&before).await;
    let now = ["tool:new", "tool:same", "tool:changed", "tool:off", "tool:on off", "post tag=x"];
    let patches = "[[row]]\nid = \"changed\"\nconfig = { tag = \"new\" }\n\
                   [[row]]\nid = \"off\"\ndisabled = true\n\
                   [[row]]\nid = \"on\"\ndisabled = false\n\
                   [[row]]\nid = \"changed\"\ndisabled = false\n";
    let second = first.next(composed(&now, patches).unwrap(), &catalog()).await.unwrap();
    let changes = second.changes_since(&first, &catalog());
    let told: Vec<String> = changes
        .iter()
        .map(|change| format!("{} {} {}", change.row, change.what, change.origin.place()))
        .collect();
    assert_eq!(
        told,
        [
            "new added base.toml:1",
            "changed changed home.toml:1",
            "off disabled home.toml:4",
            "on enabled home.toml:7",
            "gone removed base.toml:11",
        ]
    );
    assert_eq!(first.changes_since(&first, &catalog()), []);
    let back = first.changes_since(&second, &catalog());
    let back: Vec<_> = back.iter().map(|change| (&*change.row, change.what)).collect();
    let expected = [
        ("changed", "changed"),
        ("gone", "added"),
        ("off", "enabled"),
        ("on", "disabled"),
        ("new", "removed"),
    ];
    assert_eq!(back, expected);
}

/// Rows that cannot follow `OLD`, with all messages and the rows that were mounted for it.
const OLD: [&str; 3] = ["store", "post", "tool"];
type Bad = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);
const BAD: [Bad; 13] = [
    (
        &["store", "tool number=many"],
        &["base.toml:10: row `tool`, field `config.number`: must be an integer, found a string"],
        &[],
    ),
    (
        &["store", "tool", "tool:bad fail=error", "tool:after"],
        &["base.toml:15: row `bad`, field `config.fail`: no good"],
        &["tool", "bad"],
    ),
    (
        &["store", "lamp", "tool:bad fail=panic", "reader"],
        &["base.toml:11: row `bad`: the plugin panicked: mount went wrong"],
        &["lamp", "bad"],
    ),
    (
        &["store", "tool:bad fail=panic", "tool"],
        &["base.toml:6: row `bad`: the plugin panicked: mount went wrong"],
        &["bad"],
    ),
    (
        &["store", "reader", "tool"],
        &["base.toml:6: row `reader`: needs service `lamp`, which no enabled row provides; \
           insert a row of plugin `lamp` or `ring-a`"],
        &[],
    ),
    (
        &["store", "ring-b", "ring-a"],
        &["base.toml:6: row `ring-b`: rows need each other's services: `ring-b` → `ring-a` → \
           `ring-b`; disable one of them"],
        &[],
    ),
    (
        &["store", "shelf", "index"],
        &["base.toml:6: row `shelf`: needs service `index` of row `index`, which is there when \
           Reins starts again"],
        &[],
    ),
    (
        &["store", "lamp", "clinger"],
        &["base.toml:11: row `clinger`: stays for the life of the process, and cannot need \
           service `lamp` of row `lamp`, which reloads"],
        &[],
    ),
    (
        &["store", "narrow"],
        &["base.toml:8: row `narrow`, field `plugin`: plugin `narrow` narrows what some agents \
           get and has no meaning for the whole process; put the row into an agent preset"],
        &[],
    ),
    (
        &["store", "post", "tool name=post", "post:b", "tool:a name=b", "tool:own"],
        &["base.toml:11: row `tool`: `post` is already there from row `post` \
             (base.toml:6); disable one of the two rows"],
        &["tool", "a", "own"],
    ),
    // These could be mounted beside what runs, but could not start.
    (
        &["store", "other-store"],
        &["base.toml:6: row `other-store`: service `store` is already provided by row `store` \
           (base.toml:1); disable one of the two"],
        &[],
    ),
    (
        &["store off", "lamp", "reader"],
        &["base.toml:11: row `reader`: needs service `store`, which no enabled row provides; \
           enable row `store`"],
        &[],
    ),
    (
        &["index", "clinger", "tool"],
        &[
            "base.toml:1: row `index`: needs service `store`, which no enabled row provides; \
             insert a row of plugin `other-store` or `store`",
            "base.toml:6: row `clinger`: needs service `lamp`, which no enabled row provides; \
             insert a row of plugin `lamp` or `ring-a`",
        ],
        &[],
    ),
];

#[tokio::test]
async fn a_generation_that_cannot_be_built_leaves_the_old_one_as_it_was() {
    let old = build(&OLD).await;
    let (scope, around) = (old.scope.clone(), process(&old));
    let look = || {
        let store = scope.need::<dyn Store>().unwrap();
        (scope.contents(), around.contents(), entries(&scope), store.tag().len())
    };
    let (before, values) = (look(), alive());
    assert_eq!((before.0.len(), before.1.len()), (1, 2));
    for (rows, expected, mounted) in BAD {
        journal();
        assert_eq!(messages(next(&old, rows).await), expected, "{rows:?}");
        let happened = journal();
        let of = |start: &str| -> Vec<String> {
            let lines = happened.iter().filter_map(|line| line.strip_prefix(start));
            lines.map(|line| line.split(' ').next().unwrap().trim_matches(',').into()).collect()
        };
        assert_eq!(of("mount "), mounted, "{rows:?}");
        let mut stopped = of("stop ");
        stopped.reverse();
        assert_eq!(stopped, mounted, "{rows:?}");
        assert_eq!(look(), before, "{rows:?}");
        assert_eq!(alive(), values, "{rows:?}");
    }
    let new = next(&old, &["store", "post", "tool tag=new"]).await.unwrap();
    assert_eq!(entries(&new.scope), ["post=post", "tool=new"]);
    assert_eq!(look(), before);
}

#[tokio::test]
async fn the_same_is_refused_before_a_start() {
    for (rows, expected, _) in BAD {
        // Only beside a running process are new services and entries not there.
        if rows.contains(&"shelf") || rows.contains(&"post:b") {
            continue;
        }
        let Ok(composition) = composed(rows, "") else { continue };
        let built = composition.build(&catalog(), 1, Root::default()).await;
        assert_eq!(messages(built), expected, "{rows:?}");
        let mounts = rows.iter().any(|row| row.contains("fail"));
        let checked = composed(rows, "").unwrap().check(&catalog(), &Root::default());
        assert_eq!(checked.is_ok(), mounts, "{rows:?}");
        assert_eq!(alive(), [""; 0], "{rows:?}");
    }
}

#[tokio::test]
async fn an_entry_of_a_row_that_reloads_may_hide_only_what_waits_for_a_change() {
    let refused = "base.toml:6: row `b`: `post` is already there from row `post` \
                   (base.toml:1); disable one of the two rows";
    let rows = ["post", "tool:b name=post", "tool:a name=x"];
    let start = composed(&rows, "").unwrap().build(&catalog(), 1, Root::default()).await;
    assert_eq!(messages(start), [refused]);
    assert_eq!(noted("stop").len(), 3);
    let old = build(&["post", "post:renamed name=y", "post:off off"]).await;
    assert_eq!(messages(next(&old, &rows).await), [refused]);
    for rows in [
        ["post off", "post:renamed name=y", "tool name=post"],
        ["tool:other", "post:renamed name=y", "tool name=post"],
        ["post", "post:renamed name=z", "tool name=y"],
        ["tool:post", "post:renamed name=y", "tool:free"],
    ] {
        let new = next(&old, &rows).await.unwrap();
        assert_eq!(new.waiting.len(), 1, "{rows:?}");
        let hides = ["post", "y"].iter().any(|name| {
            new.scope.entry::<Value>(name).is_some_and(|entry| &*entry.scope == "global")
        });
        assert!(hides, "{rows:?}");
    }
}

#[tokio::test]
async fn a_failing_start_stops_the_rows_that_stay() {
    let composition = composed(&["store", "index", "tool fail=error"], "").unwrap();
    let built = composition.build(&catalog(), 1, Root::default()).await;
    assert_eq!(messages(built).len(), 1);
    let stops = [
        "stop tool in global, store there",
        "stop index in process, store there",
        "stop store in process, no store",
    ];
    assert_eq!(noted("stop"), stops);
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn a_row_that_stays_does_without_a_wanted_service_that_reloads() {
    // No circle: the lamp wants what the wisher provides, and the wisher never waits for it.
    let generation = build(&["lamp", "wisher"]).await;
    assert_eq!(noted("lamp there"), ["lamp there: false"]);
    assert!(next(&generation, &["lamp", "wisher"]).await.is_ok());
}

#[tokio::test]
async fn what_was_given_is_there_for_every_generation_and_counts_as_provided() {
    let mut root = Root::default();
    root.give::<dyn Store>(crate::rig::value("given")).unwrap();
    let again = root.give::<dyn Store>(crate::rig::value("again")).unwrap_err();
    assert!(again.to_string().starts_with("service `Store` is already there"), "{again}");
    let rows = ["index", "lamp", "reader"];
    assert!(composed(&rows, "").unwrap().check(&catalog(), &root).is_ok());
    let first = composed(&rows, "").unwrap().build(&catalog(), 1, root).await.unwrap();
    let second = next(&first, &rows).await.unwrap();
    assert_eq!(entries(&second.scope), ["reader=given by lamp"]);
    first.stop().await;
    assert!(second.scope.service::<dyn Store>().is_some());
    second.stop().await;
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn a_generation_in_the_making_keeps_the_rows_that_stay() {
    for fail in ["", "tool fail=error", "index:unstartable", "shelf"] {
        let old = build(&["store", "tool"]).await;
        let composition =
            composed(&["store", "tool:new", fail][..2 + usize::from(!fail.is_empty())], "");
        let next = old.next(composition.unwrap(), &catalog());
        journal();
        old.stop().await;
        assert_eq!(noted("stop"), ["stop tool in global, store there"]);
        // The only one left: what it shared stops with it, when it comes to be or not.
        match next.await {
            Ok(new) => {
                assert!(new.scope.service::<dyn Store>().is_some());
                new.stop().await;
            }
            Err(errors) => assert_eq!(errors.len(), 1),
        }
        assert_eq!(noted("stop").last().unwrap(), "stop store in process, no store", "{fail}");
        assert_eq!(alive(), [""; 0]);
    }
}

#[tokio::test]
async fn a_generation_given_up_in_the_making_leaves_nothing() {
    let old = build(&OLD).await;
    let (before, values) = (old.scope.contents(), alive());
    let rows = ["store", "post", "tool:new", "tool:stuck fail=hang"];
    // It fails, and then waits for stop work that never ends.
    let next = next(&old, &rows).now_or_never();
    assert!(next.is_none());
    assert_eq!((old.scope.contents(), alive()), (before, values));
    let rows = ["store", "index", "post:stuck fail=hang"];
    let start = composed(&rows, "").unwrap().build(&catalog(), 1, Root::default()).now_or_never();
    assert!(start.is_none());
    old.stop().await;
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn a_row_that_stands_elsewhere_is_told_and_those_that_make_room_are_not() {
    let before = ["tool:a", "tool:b", "post:s", "tool:c", "post:t", "tool:d", "tool:off off"];
    let first = build(&before).await;
    let cases: [(&[&str], &[&str], bool); 6] = [
        (&["tool:off off", "tool:a", "post:s", "tool:b", "post:t", "tool:c", "tool:d"], &[], false),
        (&["tool:b", "tool:c", "tool:d", "tool:a", "post:s", "post:t"], &["a moved"], false),
        (&["tool:d", "tool:a", "tool:b", "tool:c", "post:s", "post:t"], &["d moved"], false),
        (&["tool:d", "post:t", "post:s"], &["a removed", "b removed", "c removed"], true),
        (
            &["tool:b", "tool:a tag=x", "tool:c", "tool:d", "post:s", "post:t"],
            &["a changed"],
            false,
        ),
        (&["tool:d", "tool:c", "tool:b", "tool:a"], &["d moved", "c moved", "a moved"], false),
    ];
    for (rows, expected, waits) in cases {
        let second = next(&first, rows).await.unwrap();
        let changes = second.changes_since(&first, &catalog()).into_iter();
        let told: Vec<String> = changes.map(|one| format!("{} {}", one.row, one.what)).collect();
        assert_eq!(told, expected, "{rows:?}");
        let waiting = waiting(&second);
        let moved = waiting.iter().any(|words| words.contains("`: moved, which"));
        assert_eq!(moved, waits, "{waiting:?}");
    }
}
