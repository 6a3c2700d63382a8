//! The order in which rows stop, or go when they are dropped.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use futures_util::FutureExt as _;
use reins_kernel::*;

use crate::plugins::{journal, note};
use crate::rig::{
    Store, Value, alive, build, catalog, composed, entries, nested, next, noted, process, value,
};

const ROWS: [&str; 6] = ["reader", "tool", "lamp", "post", "index", "store"];

#[tokio::test]
async fn nested_rows_stop_then_those_that_reload_then_those_that_stay() {
    let generation = build(&ROWS).await;
    let below = nested(&generation, &["shelf", "post:own", "tool:last"]).await.unwrap();
    let mounts = noted("mount");
    let expected = ["post", "store", "index", "tool", "lamp", "reader", "shelf", "own", "last"];
    assert_eq!(mounts, expected.map(|row| format!("mount {row}")));
    below.stop().await;
    note("nested is gone");
    generation.stop().await;
    let order: Vec<String> =
        journal().into_iter().filter(|line| !line.starts_with("drop")).collect();
    assert_eq!(
        order,
        [
            "stop last in preset, store there",
            "stop own in preset, store there",
            "stop shelf in preset, store there",
            "nested is gone",
            "stop reader in global, store there",
            "stop lamp in global, store there",
            "stop tool in global, store there",
            "stop index in process, store there",
            // Its own contribution is withdrawn before its work is awaited.
            "stop store in process, no store",
            "stop post in process, no store",
        ]
    );
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn rows_that_stay_stop_with_the_last_generation_whichever_it_is() {
    let rows = |tag: &str| ["post".to_owned(), format!("tool:{tag}"), "store".to_owned()];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    // Whether the last but one is dropped and not stopped has no meaning for the last.
    for (order, drops) in orders.iter().flat_map(|order| [(order, false), (order, true)]) {
        let texts = ["one", "two", "three"].map(rows);
        let texts: Vec<Vec<&str>> =
            texts.iter().map(|rows| rows.iter().map(String::as_str).collect()).collect();
        let first = build(&texts[0]).await;
        let second = next(&first, &texts[1]).await.unwrap();
        let third = next(&second, &texts[2]).await.unwrap();
        let around = process(&first);
        let mut all = [Some(first), Some(second), Some(third)];
        journal();
        for (done, at) in order.iter().enumerate() {
            let generation = all[*at].take().unwrap();
            assert_eq!(around.contributions(), 2, "{order:?}");
            if done == 1 && drops { drop(generation) } else { generation.stop().await }
        }
        let name = |at: usize| ["one", "two", "three"][at];
        let mut expected: Vec<String> = order
            .iter()
            .enumerate()
            .filter(|(done, _)| !(*done == 1 && drops))
            .map(|(_, at)| format!("stop {} in global, store there", name(*at)))
            .collect();
        expected.push("stop store in process, no store".into());
        expected.push("stop post in process, no store".into());
        assert_eq!(noted("stop"), expected, "{order:?}");
        assert_eq!((around.contributions(), alive()), (0, vec![]));
    }
}

#[tokio::test]
async fn generations_that_stop_at_the_same_time_stop_what_they_share_once() {
    let first = build(&["store", "tool:one", "tool:two"]).await;
    let second = next(&first, &["store", "tool:one", "tool:two"]).await.unwrap();
    futures_util::future::join(first.stop(), second.stop()).await;
    let stops = noted("stop");
    assert_eq!(stops.len(), 5, "{stops:?}");
    assert_eq!(stops[4], "stop store in process, no store");
}

#[tokio::test]
async fn on_threads_too_exactly_one_of_them_stops_what_they_share() {
    let start = Arc::new(Barrier::new(3));
    for _ in 0..200 {
        let first = build(&["store", "post"]).await;
        let second = next(&first, &["store", "post"]).await.unwrap();
        let failing = composed(&["store", "tool fail=error"], "").unwrap();
        let third = second.next(failing, &catalog());
        let third = async move { assert!(third.await.is_err()) };
        let around = process(&first);
        let works: [BoxFuture<'static, ()>; 3] = [first.stop(), second.stop(), Box::pin(third)];
        let threads = works.map(|work| {
            let start = start.clone();
            std::thread::spawn(move || {
                start.wait();
                run_alone(work)
            })
        });
        let journals: Vec<Vec<String>> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let shared: Vec<&String> =
            journals.iter().flatten().filter(|line| line.contains("in process")).collect();
        // In one go, by one of them.
        let expected = ["stop post in process, store there", "stop store in process, no store"];
        assert_eq!(shared, expected);
        assert_eq!(around.contributions(), 0);
    }
}

/// What was noted on this thread while the work ran.
fn run_alone(work: impl Future<Output = ()>) -> Vec<String> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
    journal()
}

#[tokio::test]
async fn what_is_dropped_goes_in_the_same_order_and_awaits_nothing() {
    let mut root = Root::default();
    root.give::<Value>(value("given")).unwrap();
    let live: Vec<String> = (0..6).map(|at| format!("tool:t{at} fail=quiet")).collect();
    let stay: Vec<String> = (0..6).map(|at| format!("post:p{at} fail=quiet")).collect();
    let rows: Vec<&str> = live.iter().chain(&stay).map(String::as_str).collect();
    // Nobody else holds a scope: what was mounted must not go with it in any odd order.
    let generation = composed(&rows, "").unwrap().build(&catalog(), 1, root).await.unwrap();
    let rows: Vec<String> = (0..6).map(|at| format!("tool:n{at} fail=quiet")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let below = nested(&generation, &rows).await.unwrap();
    journal();
    drop(below);
    assert_eq!(journal(), [5, 4, 3, 2, 1, 0].map(|at| format!("drop n{at}")));
    drop(generation);
    let mut expected: Vec<String> = Vec::new();
    expected.extend((0..6).rev().map(|at| format!("drop t{at}")));
    expected.extend((0..6).rev().map(|at| format!("drop p{at}")));
    expected.push("drop given".into());
    assert_eq!(journal(), expected);
}

#[tokio::test]
async fn dropping_withdraws_everything_from_the_scopes() {
    let first = build(&ROWS).await;
    let second = next(&first, &ROWS).await.unwrap();
    let below = nested(&second, &["tool", "fence"]).await.unwrap();
    let scopes = [&below.scope, &second.scope, &first.scope].map(Scope::clone);
    let around = process(&first);
    assert_eq!(scopes.each_ref().map(Scope::contributions), [2, 3, 3]);
    journal();
    drop(below);
    assert_eq!(scopes.each_ref().map(Scope::contributions), [0, 3, 3]);
    drop(first);
    assert_eq!(scopes.each_ref().map(Scope::contributions), [0, 3, 0]);
    assert_eq!(around.contributions(), 3);
    drop(second);
    assert_eq!(scopes.each_ref().map(Scope::contributions), [0, 0, 0]);
    assert_eq!(around.contributions(), 0);
    assert_eq!(noted("stop"), [""; 0]);
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn a_stop_that_is_given_up_withdraws_the_rest() {
    for rows in [
        ["store", "post", "tool", "tool:stuck fail=hang-stop", "lamp"],
        ["store", "post", "post:stuck fail=hang-stop", "tool", "lamp"],
    ] {
        let generation = build(&rows).await;
        let below = nested(&generation, &["tool", "tool:stuck fail=hang-stop"]).await.unwrap();
        let around = process(&generation);
        assert!(below.stop().now_or_never().is_none());
        assert!(generation.stop().now_or_never().is_none());
        assert_eq!((around.contributions(), alive()), (0, vec![]));
    }
    // Never begun is the same.
    let generation = build(&["store", "tool"]).await;
    drop(generation.stop());
    assert_eq!(alive(), [""; 0]);
}

#[tokio::test]
async fn a_panic_in_stop_work_is_told_and_stops_nothing_else() {
    let rows = ["store", "post:bad fail=stop-panic", "tool", "lamp fail=stop-panic"];
    let generation = build(&rows).await;
    let below = nested(&generation, &["tool:a", "tool:b fail=stop-panic"]).await.unwrap();
    let around = process(&generation);
    let origin = Origin::runtime("test");
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let _observer = around.observe(
        move |contained: &Contained| {
            assert_eq!(contained.place, ContainedWhere::Stop);
            assert_eq!(contained.message, "stop went wrong");
            note(format!("stop {} went wrong", contained.origin.row));
            counter.fetch_add(1, Ordering::Relaxed);
        },
        &origin,
    );
    let (inner, middle) = (below.scope.clone(), generation.scope.clone());
    below.stop().await;
    generation.stop().await;
    let expected = [
        "stop b went wrong",
        "stop a in preset, store there",
        "stop lamp went wrong",
        "stop tool in global, store there",
        "stop bad went wrong",
        "stop store in process, no store",
    ];
    assert_eq!(noted("stop"), expected);
    assert_eq!((inner.contained(), middle.contained(), around.contained()), (1, 1, 1));
    assert_eq!(told.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn who_still_uses_a_value_keeps_it_after_the_stop() {
    let generation = build(&["store", "tool"]).await;
    let store = generation.scope.need::<dyn Store>().unwrap();
    let scope = generation.scope.clone();
    generation.stop().await;
    assert_eq!(store.tag(), "store");
    assert_eq!((alive(), entries(&scope)), (vec!["store".to_owned()], vec![]));
}

#[tokio::test]
async fn a_generation_that_somebody_still_holds_is_stopped_all_the_same_and_once() {
    let generation = Arc::new(build(&["post", "tool", "store"]).await);
    let below = Arc::new(nested(&generation, &["tool:last"]).await.unwrap());
    let (held, held_below, around) = (generation.clone(), below.clone(), process(&generation));
    journal();
    below.stop().await;
    generation.stop().await;
    let stops = [
        "stop last in preset, store there",
        "stop tool in global, store there",
        "stop store in process, no store",
        "stop post in process, no store",
    ];
    assert_eq!(noted("stop"), stops);
    assert_eq!((around.contributions(), alive()), (0, vec![]));
    held_below.stop().await;
    held.stop().await;
    assert_eq!(noted("stop"), [""; 0]);
    let composition = composed(&["store"], "").unwrap();
    let errors = held.next(composition, &catalog()).await.unwrap_err();
    assert_eq!(errors[0].to_string(), "generation 1 was stopped; nothing follows it");
}
