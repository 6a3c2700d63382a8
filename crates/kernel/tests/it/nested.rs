//! Rows below a generation, as those of an agent's preset.

use std::sync::Arc;

use reins_kernel::*;

use crate::plugins::journal;
use crate::rig::{
    Lamp, Store, Value, alive, build, catalog, composed, entries, messages, nested, next, noted,
    process,
};

#[tokio::test]
async fn entries_shadow_and_siblings_do_not_see_each_other() {
    let generation = build(&["post:stays", "post:both", "tool:live", "tool:each tag=outer"]).await;
    let left = nested(&generation, &["tool:each tag=left", "post:both tag=left", "tool:own"]).await;
    let right = nested(&generation, &["tool:each tag=right", "tool:other"]).await;
    let (left, right) = (left.unwrap(), right.unwrap());
    let outer = ["both=both", "each=outer", "live=live", "stays=stays"];
    assert_eq!(entries(&generation.scope), outer);
    assert_eq!(
        entries(&left.scope),
        ["both=left", "each=left", "live=live", "own=own", "stays=stays"]
    );
    assert_eq!(
        entries(&right.scope),
        ["both=both", "each=right", "live=live", "other=other", "stays=stays"]
    );
    let each = left.scope.entry::<Value>("each").unwrap();
    assert_eq!((&*each.value.tag, &*each.scope, &*each.origin.row), ("left", "preset", "each"));
    drop(each);
    assert_eq!(left.scope.parent().map(Scope::contents), Some(generation.scope.contents()));
    assert_eq!((left.scope.name(), left.rows.len()), ("preset", 3));
    left.stop().await;
    assert_eq!(entries(&generation.scope), outer);
    assert_eq!(right.scope.entry::<Value>("each").unwrap().value.tag, "right");
    right.stop().await;
    assert_eq!(alive(), ["both", "live", "outer", "stays"]);
}

#[tokio::test]
async fn a_service_of_a_nested_row_wins_there_only() {
    let generation = build(&["store tag=disk", "index", "lamp tag=sun", "reader"]).await;
    journal();
    let rows = ["reader:inner", "lamp tag=torch", "other-store tag=memory", "shelf"];
    let below = nested(&generation, &rows).await.unwrap();
    // Providers first in here, too; the index is one of the rows that stay.
    let mounts = ["mount lamp", "mount other-store", "mount inner", "mount shelf"];
    assert_eq!(noted("mount"), mounts);
    assert_eq!(
        entries(&below.scope),
        ["inner=memory by torch", "reader=disk by sun", "shelf=shelf"]
    );
    let tags = |scope: &Scope| {
        let (store, lamp) = (scope.need::<dyn Store>().unwrap(), scope.need::<dyn Lamp>().unwrap());
        format!("{} {}", store.tag(), lamp.tag())
    };
    assert_eq!(tags(&below.scope), "memory torch");
    assert_eq!(tags(&generation.scope), "disk sun");
    let beside = nested(&generation, &["reader:inner"]).await.unwrap();
    assert_eq!(entries(&beside.scope)[0], "inner=disk by sun");
    let origin = below.scope.service_origin::<dyn Lamp>().unwrap();
    assert_eq!(origin.place(), "base.toml:6");
    let scope = below.scope.clone();
    below.stop().await;
    assert_eq!(tags(&scope), "disk sun");
}

#[tokio::test]
async fn restrictions_filter_what_is_inherited_and_never_what_is_own() {
    let rows = ["post:a", "post:b", "post:c", "tool:d", "fence allow=[\"a\",\"b\"]"];
    let generation = build(&rows).await;
    // The fence of a row that reloads stands around the rows that stay.
    assert_eq!(entries(&generation.scope), ["a=a", "b=b", "d=d"]);
    assert_eq!(entries(&process(&generation)), ["a=a", "b=b", "c=c"]);
    let rows = ["narrow allow=[\"b\",\"c\",\"d\"]", "tool:a tag=own", "tool:x", "tool:c tag=own"];
    let below = nested(&generation, &rows).await.unwrap();
    assert_eq!(entries(&below.scope), ["a=own", "b=b", "c=own", "d=d", "x=x"]);
    let both = nested(&generation, &["narrow allow=[\"b\",\"d\"]", "fence allow=[\"a\",\"d\"]"]);
    let both = both.await.unwrap();
    assert_eq!(entries(&both.scope), ["d=d"]);
    let none = nested(&generation, &["narrow", "tool:x"]).await.unwrap();
    assert_eq!(entries(&none.scope), ["x=x"]);
    let free = nested(&generation, &["tool:y"]).await.unwrap();
    assert_eq!(entries(&free.scope), ["a=a", "b=b", "d=d", "y=y"]);
    // An agent's scope below inherits what is left.
    assert_eq!(entries(&below.scope.child("agent")), entries(&below.scope));
    for name in ["a", "b", "c", "d", "x", "y", "z"] {
        for scope in [&generation.scope, &below.scope, &both.scope, &none.scope, &free.scope] {
            let listed = entries(scope).iter().any(|entry| entry.starts_with(name));
            assert_eq!(scope.entry::<Value>(name).is_some(), listed, "{name} in {scope:?}");
        }
    }
    let hidden = |scope: &Scope, name: &str| {
        scope.hidden_by::<Value>(name).map(|origin| (origin.row.to_string(), origin.place()))
    };
    let by = |row: &str, place: &str| Some((row.to_owned(), place.to_owned()));
    // The nearest of those who refuse; nobody hides what is own, visible or nowhere.
    assert_eq!(hidden(&below.scope, "c"), None);
    assert_eq!(hidden(&free.scope, "c"), by("fence", "base.toml:21"));
    assert_eq!(hidden(&both.scope, "c"), by("narrow", "base.toml:1"));
    assert_eq!(hidden(&both.scope, "b"), by("fence", "base.toml:6"));
    assert_eq!(hidden(&both.scope, "a"), by("narrow", "base.toml:1"));
    assert_eq!(hidden(&both.scope, "d"), None);
    assert_eq!(hidden(&none.scope, "x"), None);
    assert_eq!(hidden(&none.scope, "nowhere"), None);
    assert_eq!(hidden(&below.scope.child("agent"), "c"), None);
    assert_eq!(hidden(&both.scope.child("agent"), "b"), by("fence", "base.toml:6"));
    // What is gone hides nothing.
    let scope = both.scope.clone();
    both.stop().await;
    assert_eq!(entries(&scope), ["a=a", "b=b", "d=d"]);
    assert_eq!(hidden(&scope, "b"), None);
}

#[tokio::test]
async fn rows_that_may_not_stand_here_are_refused() {
    let generation = build(&["store"]).await;
    let rows = ["tool", "index", "narrow", "store", "lamp", "store:off off"];
    let serves = "serves the whole process and cannot be set for some agents only; put the row into \
                  the settings";
    assert_eq!(
        messages(nested(&generation, &rows).await),
        [
            format!("base.toml:8: row `index`, field `plugin`: plugin `index` {serves}"),
            format!("base.toml:18: row `store`, field `plugin`: plugin `store` {serves}"),
        ]
    );
    // A row of the wrong place that is off is nothing.
    assert!(nested(&generation, &["tool", "index off"]).await.is_ok());
    let narrows = "narrows what some agents get and has no meaning for the whole process; put the \
                   row into an agent preset";
    let rows = ["narrow", "tool", "narrow:off off", "narrow:two"];
    let expected = [
        format!("base.toml:3: row `narrow`, field `plugin`: plugin `narrow` {narrows}"),
        format!("base.toml:18: row `two`, field `plugin`: plugin `narrow` {narrows}"),
    ];
    assert_eq!(messages(next(&generation, &rows).await), expected);
    let composition = composed(&rows, "").unwrap();
    assert_eq!(messages(composition.check(&catalog(), &Root::default())), expected);
    assert!(next(&generation, &["store", "narrow off"]).await.is_ok());
}

#[tokio::test]
async fn nested_rows_that_cannot_be_mounted_leave_nothing() {
    type Bad<'a> = (&'a [&'a str], &'a str);
    let cases: [Bad<'_>; 5] = [
        (&["tool", "tool:bad fail=error"], "base.toml:10: row `bad`, field `config.fail`: no good"),
        (
            &["fence", "lamp fail=panic"],
            "base.toml:6: row `lamp`: the plugin panicked: mount went wrong",
        ),
        (
            &["tool", "reader"],
            "base.toml:6: row `reader`: needs service `lamp`, which no enabled row provides; \
             insert a row of plugin `lamp` or `ring-a`",
        ),
        (
            &["lamp", "lamp:second"],
            "base.toml:6: row `second`: service `lamp` is already provided by row `lamp` \
             (base.toml:1); disable one of the two",
        ),
        (
            &["ring-a", "ring-b"],
            "base.toml:1: row `ring-a`: rows need each other's services: `ring-a` → `ring-b` → \
             `ring-a`; disable one of them",
        ),
    ];
    let generation = build(&["store", "tool"]).await;
    let look = || {
        let scope = &generation.scope;
        (scope.contents(), process(&generation).contents(), entries(scope))
    };
    let (before, values) = (look(), alive());
    for (rows, expected) in cases {
        assert_eq!(messages(nested(&generation, rows).await), [expected]);
        assert_eq!(look(), before, "{rows:?}");
        assert_eq!(alive(), values, "{rows:?}");
    }
}

#[tokio::test]
async fn all_kinds_of_rows_that_differ_are_told() {
    let generation = build(&["store"]).await;
    let before = ["tool", "post", "narrow allow=[\"a\"]", "post:same"];
    let now = ["tool tag=x", "post tag=x", "narrow allow=[\"b\"]", "post:same"];
    let old = nested(&generation, &before).await.unwrap();
    let new = nested(&generation, &now).await.unwrap();
    let changes = new.changes_since(&old, &catalog());
    let changes: Vec<_> = changes.iter().map(|change| (&*change.row, change.what)).collect();
    assert_eq!(changes, [("tool", "changed"), ("post", "changed"), ("narrow", "changed")]);
    assert_eq!(old.changes_since(&old, &catalog()), []);
    assert!(!old.differs(&composed(&before, "").unwrap(), &catalog()));
    for at in 0..3 {
        let mut rows = before;
        rows[at] = now[at];
        assert!(old.differs(&composed(&rows, "").unwrap(), &catalog()), "{}", rows[at]);
    }
}

#[tokio::test]
async fn a_generation_tells_whether_other_rows_would_differ() {
    let before = ["store", "tool", "post off"];
    let generation = build(&before).await;
    let differs = |rows: &[&str]| {
        let composition = composed(rows, "").unwrap();
        generation.differs(&composition, &catalog())
    };
    assert!(!differs(&before));
    assert!(!differs(&["store", "post off", "tool"]), "a row that is off has no meaning");
    assert!(differs(&["tool", "store"]), "the order breaks ties");
    assert!(differs(&["store tag=x", "tool", "post off"]));
    assert!(differs(&["store", "tool tag=x", "post off"]));
    assert!(differs(&["store", "tool", "post"]));
    assert!(differs(&["store"]));
    assert!(differs(&["store", "post:tool"]));
}

#[tokio::test]
async fn nested_rows_go_on_beside_the_next_generation() {
    let first = build(&["store", "lamp tag=old"]).await;
    let below = nested(&first, &["reader"]).await.unwrap();
    let second = next(&first, &["store", "lamp tag=new"]).await.unwrap();
    let beside = nested(&second, &["reader"]).await.unwrap();
    assert_eq!(entries(&below.scope), ["reader=store by old"]);
    assert_eq!(entries(&beside.scope), ["reader=store by new"]);
    let store = |scope: &Scope| scope.need::<dyn Store>().unwrap();
    assert!(Arc::ptr_eq(&store(&below.scope), &store(&beside.scope)));
    below.stop().await;
    first.stop().await;
    assert_eq!(entries(&beside.scope), ["reader=store by new"]);
}
