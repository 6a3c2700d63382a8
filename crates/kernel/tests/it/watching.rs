//! What can be seen of scopes: their contents, and the layers that run.

use std::sync::{Arc, Mutex};

use reins_kernel::*;

struct Step(bool);

impl Chain for Step {
    const NAME: &'static str = "step";
    type Out = &'static str;
}

struct Other;

impl Chain for Other {
    const NAME: &'static str = "other";
    type Out = ();
}

struct Ping;

impl Notice for Ping {
    const NAME: &'static str = "ping";
}

fn ranked(row: &str, rank: u32) -> Origin {
    Origin { rank, ..Origin::runtime(row) }
}

type Seen = Arc<Mutex<Vec<String>>>;

fn take(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut *seen.lock().unwrap())
}

fn write(seen: &Seen, text: String) {
    seen.lock().unwrap().push(text);
}

fn told(ran: &LayerRan) -> String {
    let layer = &ran.layer;
    format!("{}: {} {} in {}", ran.chain, layer.origin.row, layer.order, layer.scope)
}

/// Writes its name when it is entered; answers itself when the step says so.
fn pass(
    seen: &Seen,
    name: &'static str,
    stops: bool,
) -> impl Fn(Step, Next<Step>) -> BoxFuture<'static, &'static str> + Send + Sync + use<> {
    let seen = seen.clone();
    move |step, next| {
        write(&seen, format!("enter {name}"));
        if stops && step.0 { Box::pin(async { "stopped" }) } else { next.run(step) }
    }
}

async fn run(scope: &Scope, stops: bool) -> &'static str {
    scope.run(Step(stops), |_| Box::pin(async { "end" })).await
}

fn observer(seen: &Seen) -> impl Fn(&LayerRan) + Send + Sync + use<> {
    let seen = seen.clone();
    move |ran: &LayerRan| write(&seen, told(ran))
}

#[tokio::test]
async fn each_layer_is_told_as_it_is_entered_while_somebody_looks() {
    let seen = Seen::default();
    let root = Scope::root();
    let (agent, beside) = (root.child("agent"), root.child("beside"));
    let _layers = [
        agent.wrap(-1, pass(&seen, "inner", false), &ranked("i", 0)),
        root.wrap(7, pass(&seen, "late", true), &ranked("l", 0)),
        root.wrap(2, pass(&seen, "early", false), &ranked("e", 9)),
        root.wrap(0, |other: Other, next: Next<Other>| next.run(other), &ranked("o", 0)),
    ];
    assert_eq!(run(&agent, false).await, "end");
    assert_eq!(take(&seen), ["enter early", "enter late", "enter inner"], "nobody looks");
    let looks = root.observe(observer(&seen), &ranked("x", 1));
    assert_eq!(run(&agent, false).await, "end");
    let all = [
        "step: e 2 in process",
        "enter early",
        "step: l 7 in process",
        "enter late",
        "step: i -1 in agent",
        "enter inner",
    ];
    assert_eq!(take(&seen), all);
    // What is not run is not told.
    assert_eq!(run(&agent, true).await, "stopped");
    assert_eq!(take(&seen), all[..4]);
    agent.run(Other, |_| Box::pin(async {})).await;
    assert_eq!(take(&seen), ["other: o 0 in process"]);
    // In the scope from which the chain runs: not to those beside it.
    drop(looks);
    let looks = beside.observe(observer(&seen), &ranked("x", 1));
    run(&agent, false).await;
    assert_eq!(take(&seen), ["enter early", "enter late", "enter inner"]);
    drop(looks);
    let _looks = agent.observe(observer(&seen), &ranked("x", 1));
    run(&root, false).await;
    assert_eq!(take(&seen), ["enter early", "enter late"]);
    run(&agent, false).await;
    assert_eq!(take(&seen), all);
}

#[tokio::test]
async fn a_run_that_began_unseen_stays_so_and_one_that_is_seen_may_cease_to_be() {
    let seen = Seen::default();
    let root = Scope::root();
    let _layer = root.wrap(0, pass(&seen, "one", false), &ranked("one", 0));
    let unseen = root.run(Step(false), |_| Box::pin(async { "end" }));
    let looks = root.observe(observer(&seen), &ranked("x", 1));
    assert_eq!(unseen.await, "end");
    assert_eq!(take(&seen), ["enter one"]);
    let seen_at_first = root.run(Step(false), |_| Box::pin(async { "end" }));
    drop(looks);
    assert_eq!(seen_at_first.await, "end");
    assert_eq!(take(&seen), ["enter one"]);
}

#[tokio::test]
async fn a_layer_that_was_withdrawn_meanwhile_is_told_with_the_others() {
    let seen = Seen::default();
    let root = Scope::root();
    let _looks = root.observe(observer(&seen), &ranked("x", 1));
    let first = root.wrap(0, pass(&seen, "first", false), &ranked("first", 0));
    let _second = root.wrap(1, pass(&seen, "second", false), &ranked("second", 0));
    let running = root.run(Step(false), |_| Box::pin(async { "end" }));
    drop(first);
    let _late = root.wrap(-1, pass(&seen, "late", false), &ranked("late", 0));
    running.await;
    let entered = ["step: first 0 in process", "enter first", "step: second 1 in process"];
    assert_eq!(take(&seen)[..3], entered);
}

#[tokio::test]
async fn a_panic_of_who_looks_is_contained_and_the_chain_goes_on() {
    let seen = Seen::default();
    let root = Scope::root();
    let agent = root.child("agent");
    let _layers = [
        root.wrap(0, pass(&seen, "one", false), &ranked("one", 0)),
        agent.wrap(0, pass(&seen, "two", false), &ranked("two", 0)),
    ];
    let _bad = root.observe(|_: &LayerRan| panic!("looked wrong"), &ranked("bad", 0));
    let contained = seen.clone();
    let _told = root.observe(
        move |caught: &Contained| {
            assert_eq!(caught.place, ContainedWhere::Observer("layer-ran"));
            write(&contained, format!("{}: {}", caught.origin.row, caught.message));
        },
        &ranked("x", 0),
    );
    assert_eq!(run(&agent, false).await, "end");
    let expected = ["bad: looked wrong", "enter one", "bad: looked wrong", "enter two"];
    assert_eq!(take(&seen), expected);
    assert_eq!((agent.contained(), root.contained()), (2, 0));
}

#[tokio::test]
async fn who_looks_may_run_a_chain_and_change_the_scope() {
    let root = Scope::root();
    let seen = Seen::default();
    let _layer = root.wrap(0, pass(&seen, "one", false), &ranked("one", 0));
    let (scope, own) = (root.clone(), seen.clone());
    let _looks = root.observe(
        move |ran: &LayerRan| {
            let held = scope.wrap(0, pass(&own, "never", false), &ran.layer.origin);
            write(&own, format!("{} layers", scope.layers::<Step>().len()));
            drop(held);
        },
        &ranked("x", 0),
    );
    assert_eq!(run(&root, false).await, "end");
    assert_eq!(take(&seen), ["2 layers", "enter one"]);
}

fn line(held: &Contribution) -> String {
    let name = held.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let (row, order) = (&held.origin.row, held.order);
    format!("{row}: {:?} {}{name} {order} in {}", held.kind, held.of, held.scope)
}

#[test]
fn contents_are_those_of_this_very_scope_in_row_order() {
    let root = Scope::root();
    let agent = root.child("agent");
    let (one, two) = (ranked("one", 1), ranked("two", 2));
    let seen = Seen::default();
    assert_eq!(root.contents(), []);
    let mut held = vec![
        root.restrict::<u32>(|_| true, &one),
        root.wrap(4, pass(&seen, "", false), &two),
        root.wrap(3, pass(&seen, "", false), &two),
        root.wrap(-9, pass(&seen, "", false), &one),
        root.observe(|_: &Ping| {}, &one),
        root.observe(|_: &Ping| {}, &one),
        root.add("b", Arc::new(1_u32), &one).unwrap(),
        root.add("a", Arc::new(1_u32), &one).unwrap(),
        root.provide::<u64>(Arc::new(1), &two).unwrap(),
        root.provide::<str>(Arc::from("text"), &one).unwrap(),
        agent.add::<u32>("a", Arc::new(2), &two).unwrap(),
    ];
    let lines: Vec<String> = root.contents().iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "one: Service str 0 in process",
            "one: Entry u32 a 0 in process",
            "one: Entry u32 b 0 in process",
            "one: Observer ping 0 in process",
            "one: Observer ping 0 in process",
            "one: Layer step -9 in process",
            "one: Restriction u32 0 in process",
            "two: Service u64 0 in process",
            "two: Layer step 3 in process",
            "two: Layer step 4 in process",
        ]
    );
    assert_eq!(root.contributions(), lines.len());
    assert_eq!(
        agent.contents().iter().map(line).collect::<Vec<_>>(),
        ["two: Entry u32 a 0 in agent"]
    );
    // Whatever goes, the rest stays as it was.
    while let Some(registration) = held.pop() {
        let before = root.contents();
        drop(registration);
        let after = root.contents();
        assert!(after.iter().all(|one| before.contains(one)));
        assert_eq!(after.len() + agent.contents().len(), held.len());
    }
}

trait Part: Send + Sync {}

struct Bolt;

impl Part for Bolt {}

#[test]
fn types_are_named_by_their_last_words() {
    let root = Scope::root();
    let origin = ranked("one", 1);
    let _held = [
        root.add::<Bolt>("bolt", Arc::new(Bolt), &origin).unwrap(),
        root.add::<dyn Part>("part", Arc::new(Bolt), &origin).unwrap(),
        root.add::<Vec<String>>("list", Arc::new(vec![]), &origin).unwrap(),
    ];
    let names: Vec<&str> = root.contents().iter().map(|held| held.of).collect();
    assert_eq!(names, ["Bolt", "Part", "Vec<alloc::string::String>"]);
}
