use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use reins_kernel::*;

struct Step(Vec<&'static str>);

impl Chain for Step {
    const NAME: &'static str = "step";
    type Out = Vec<&'static str>;
}

type Trace = BoxFuture<'static, Vec<&'static str>>;

/// Notes its name on the way in and on the way out.
fn around(name: &'static str) -> impl Fn(Step, Next<Step>) -> Trace + Send + Sync {
    move |mut step, next| {
        step.0.push(name);
        Box::pin(async move {
            let mut trace = next.run(step).await;
            trace.push(name);
            trace
        })
    }
}

async fn run(scope: &Scope) -> Vec<&'static str> {
    let end = |step: Step| -> Trace { Box::pin(async move { [step.0, vec!["end"]].concat() }) };
    scope.run(Step(vec![]), end).await
}

fn ranked(row: &str, rank: u32) -> Origin {
    Origin { rank, ..Origin::runtime(row) }
}

#[tokio::test]
async fn outer_scopes_wrap_inner_ones_then_order_then_row_order() {
    let root = Scope::root();
    let child = root.child("agent");
    let _kept = [
        child.wrap(-5, around("inner"), &ranked("i", 0)),
        root.wrap(2, around("late"), &ranked("l", 0)),
        root.wrap(1, around("second row"), &ranked("s", 9)),
        root.wrap(1, around("first row"), &ranked("f", 3)),
    ];
    let inward = ["first row", "second row", "late", "inner", "end"];
    let outward = ["inner", "late", "second row", "first row"];
    assert_eq!(run(&child).await, [&inward[..], &outward[..]].concat());
    assert_eq!(run(&root).await.len(), 7);
    let layers = child.layers::<Step>();
    let infos: Vec<_> =
        layers.iter().map(|layer| (&*layer.origin.row, layer.order, &*layer.scope)).collect();
    let expected =
        [("f", 1, "process"), ("s", 1, "process"), ("l", 2, "process"), ("i", -5, "agent")];
    assert_eq!(infos, expected);
}

#[tokio::test]
async fn not_running_the_rest_short_circuits() {
    let root = Scope::root();
    let origin = Origin::runtime("test");
    let _outer = root.wrap(0, around("outer"), &origin);
    let _stop = root.wrap(
        1,
        |step: Step, _next| -> Trace { Box::pin(async move { [step.0, vec!["no"]].concat() }) },
        &origin,
    );
    let _never = root.wrap(2, around("never"), &origin);
    assert_eq!(run(&root).await, ["outer", "no", "outer"]);
}

#[tokio::test]
async fn a_run_keeps_the_layers_of_its_dispatch() {
    let root = Scope::root();
    let origin = Origin::runtime("test");
    let first = root.wrap(0, around("first"), &origin);
    let running = root.run(Step(vec![]), |step| Box::pin(async move { step.0 }));
    drop(first);
    let _late = root.wrap(0, around("late"), &origin);
    assert_eq!(running.await, ["first", "first"]);
    assert_eq!(run(&root).await, ["late", "end", "late"]);
}

#[tokio::test]
async fn a_panic_in_a_layer_is_a_panic_of_the_future() {
    let root = Scope::root();
    let _bad = root.wrap(
        0,
        |_: Step, _| -> Trace { panic!("layer went wrong") },
        &Origin::runtime("test"),
    );
    // Dispatching does not panic; polling does, where the caller can catch it.
    let running = root.run(Step(vec![]), |_| Box::pin(async { vec![] }));
    let caught = std::panic::AssertUnwindSafe(running).catch_unwind().await;
    assert!(caught.is_err());
    drop(root.wrap(0, around("still works"), &Origin::runtime("test")));
}

struct Ping(u32);

impl Notice for Ping {
    const NAME: &'static str = "ping";
}

#[test]
fn observers_of_this_and_outer_scopes_are_told_and_panics_contained() {
    let root = Scope::root();
    let (child, other) = (root.child("child"), root.child("other"));
    let origin = ranked("row", 1);
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |factor: u32| {
        let sum = sum.clone();
        move |ping: &Ping| {
            sum.fetch_add((ping.0 * factor) as usize, Ordering::Relaxed);
        }
    };
    let _bad = root.observe(|_: &Ping| panic!("observer went wrong"), &ranked("bad", 0));
    let _worse = root.observe(|_: &Contained| panic!("worse"), &origin);
    let outer = root.observe(add(1), &origin);
    let _inner = child.observe(add(10), &origin);
    let _beside = other.observe(add(100), &origin);
    child.notify(&Ping(2));
    assert_eq!(sum.load(Ordering::Relaxed), 22);
    assert_eq!(child.contained(), 2, "the observer, and the observer of that");
    drop(outer);
    child.notify(&Ping(1));
    assert_eq!(sum.load(Ordering::Relaxed), 32);
    root.notify(&Ping(1));
    assert_eq!(sum.load(Ordering::Relaxed), 32);
}

#[test]
fn an_observer_may_change_the_scope_while_it_is_told() {
    let root = Scope::root();
    let origin = Origin::runtime("row");
    let scope = root.clone();
    let _observer = root.observe(
        move |_: &Ping| {
            let added = scope.add::<u8>("new", Arc::new(1), &Origin::runtime("row"));
            assert!(added.is_ok() && scope.entry::<u8>("new").is_some());
        },
        &origin,
    );
    root.notify(&Ping(1));
    root.notify(&Ping(1));
    assert_eq!((root.contained(), root.contributions()), (0, 1));
}
