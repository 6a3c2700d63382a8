//! How an agent moves to another generation, and what stops it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reins_agent::{
    Agent, AgentOrder, CompositionChanged, EventType, Generations, Newer, PresetScope,
    SessionOrder, Setup, TurnLimits, draft,
};
use reins_host::{RunEnd, RunOrder, run};
use reins_kernel::{BoxFuture, Origin, RowChange, Scope};
use reins_schema::{CallConfig, CancelCause, Event, Message, MessageId, TurnEndReason};
use reins_session::Status;
use reins_testkit::script;
use reins_world::CancelToken;
use serde_json::json;
use tokio::sync::Notify;

use crate::house::{House, LONG, yields};

/// Two generations, the second of which is there when the test says so.
struct Two {
    next: Mutex<Option<PresetScope>>,
    asked: Notify,
    held: AtomicBool,
    /// Whether it differs in what the agent sees.
    shows: AtomicBool,
    released: Notify,
}

impl Two {
    fn new(house: &House) -> Arc<Self> {
        let next = PresetScope { generation: 2, ..first(house) };
        let scope = house.scope.parent().unwrap().child("preset plain of 2");
        Arc::new(Self {
            next: Mutex::new(Some(PresetScope { scope, ..next })),
            asked: Notify::new(),
            held: AtomicBool::new(false),
            shows: AtomicBool::new(true),
            released: Notify::new(),
        })
    }

    fn scope(&self) -> Scope {
        self.next.lock().unwrap().as_ref().unwrap().scope.clone()
    }
}

struct Shared(Arc<Two>);

impl Generations for Shared {
    fn newer(&self, of: &PresetScope) -> BoxFuture<'static, Option<Newer>> {
        let (two, generation) = (Arc::clone(&self.0), of.generation);
        Box::pin(async move {
            two.asked.notify_one();
            if two.held.load(Ordering::SeqCst) {
                two.released.notified().await;
            }
            let next = two.next.lock().unwrap().clone()?;
            let newer = next.generation > generation;
            let (row, what) = ("tool".to_owned(), "changed");
            let change = RowChange { row, what, origin: Origin::runtime("tool") };
            let changes = Vec::from_iter(two.shows.load(Ordering::SeqCst).then_some(change));
            newer.then_some(Newer { preset: next, changes })
        })
    }
}

fn first(house: &House) -> PresetScope {
    let (scope, keeper) = (house.scope.clone(), Arc::new(()));
    PresetScope { preset: "plain".into(), generation: 1, scope, keeper }
}

async fn make(house: &House, two: &Arc<Two>, order: impl FnOnce(&mut AgentOrder)) -> Agent {
    let (mut made, _) = house.watched(SessionOrder::New).await;
    made.setup = None;
    made.preset = first(house);
    made.generations = Some(Arc::new(Shared(Arc::clone(two))));
    made.model = Some(CallConfig {
        provider: "deepseek".to_owned(),
        model: "deepseek-v4-flash".to_owned(),
        ..CallConfig::default()
    });
    order(&mut made);
    house.factory().await.make(made).await.unwrap()
}

async fn go(agent: &Agent) -> (RunEnd, Vec<Event>) {
    let mut events = Vec::new();
    let mut watch = |event: &Event| events.push(event.clone());
    let cancel = CancelToken::new();
    let order = RunOrder { prompt: "go".to_owned(), before: None, cancel, watch: &mut watch };
    let end = tokio::time::timeout(LONG, run(agent, order)).await.expect("the run ends").end;
    (end, events)
}

fn changes(events: &[Event]) -> Vec<CompositionChanged> {
    let changes = events.iter().filter(|event| event.body.kind == CompositionChanged::TYPE);
    changes.map(|event| serde_json::from_str(event.body.data.get()).unwrap()).collect()
}

fn completed() -> RunEnd {
    RunEnd::Turn(TurnEndReason::Completed)
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_a_move_moves_as_a_whole_or_not_at_all() {
    let house = House::new(script().text("ok").forever()).await;
    let (mut moved, mut stayed) = (0, 0);
    for round in 0..60 {
        let two = Two::new(&house);
        two.held.store(true, Ordering::SeqCst);
        let agent = make(&house, &two, |_| {}).await;
        let mut status = agent.status();
        agent.followup(Message::user(MessageId::new("m"), "go")).await.unwrap();
        two.asked.notified().await;
        // Both become known at once; the driver takes them in any order.
        two.released.notify_one();
        yields(round % 4).await;
        agent.cancel(CancelCause::User, true).await;
        status.wait_for(|status| *status == Status::Idle).await.unwrap();
        two.held.store(false, Ordering::SeqCst);
        let in_second = agent.scope().parent().unwrap().name() == two.scope().name();
        let kinds = house_kinds(&agent).await;
        let change = kinds.iter().position(|kind| kind == CompositionChanged::TYPE);
        let end = kinds.iter().position(|kind| kind == "turn/end").unwrap();
        assert_eq!(change.is_some(), in_second, "{kinds:?}");
        assert!(change.is_none_or(|change| change < end), "{kinds:?}");
        *(if in_second { &mut moved } else { &mut stayed }) += 1;
        // What did not happen happens with the next turn, once.
        let (end, events) = go(&agent).await;
        assert_eq!(end, completed());
        assert_eq!(changes(&events).len(), usize::from(!in_second));
        assert_eq!(agent.scope().parent().unwrap().name(), two.scope().name());
        agent.close().await;
    }
    assert!(moved > 0 && stayed > 0, "{moved} moved and {stayed} stayed: one is not proved");
    house.end().await;
}

async fn house_kinds(agent: &Agent) -> Vec<String> {
    let (mut events, end) = (agent.events(0), agent.next_seq());
    let mut kinds = Vec::new();
    while (kinds.len() as u64) < end {
        kinds.push(events.next().await.unwrap().body.kind.clone());
    }
    kinds
}

/// Refuses the second generation.
fn not_again(panics: bool) -> Setup {
    Arc::new(move |scope: &Scope| {
        if !scope.parent().is_some_and(|parent| parent.name().ends_with("of 2")) {
            return Ok(Vec::new());
        }
        assert!(!panics, "not again");
        Err("not again".to_owned())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_refuses_a_generation_is_told_once_and_the_agent_goes_on() {
    for panics in [false, true] {
        let house = House::new(script().text("ok").forever()).await;
        let two = Two::new(&house);
        let agent = make(&house, &two, |order| {
            order.setup = Some(not_again(panics));
        });
        let agent = agent.await;
        let before = agent.scope().parent().unwrap().name().to_owned();
        let (end, events) = go(&agent).await;
        assert_eq!(end, completed());
        let refused = changes(&events).pop().unwrap().refused.unwrap();
        assert_eq!(refused, if panics { "it panicked: not again" } else { "not again" });
        let (end, events) = go(&agent).await;
        assert_eq!((end, changes(&events)), (completed(), Vec::new()));
        assert_eq!(agent.scope().parent().unwrap().name(), before);
        agent.close().await;
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_types_of_the_new_generation_may_be_written_and_the_old_ones_no_more() {
    const NEWS: EventType = EventType { version: 1, ignorable: true, keep_last: false };
    let house = House::new(script().text("ok").forever()).await;
    let two = Two::new(&house);
    let (old, new) = (house.scope.clone(), two.scope());
    let origin = Origin::runtime("test");
    let kept = [("test/old", &old), ("test/new", &new)]
        .map(|(name, scope)| scope.add(name, Arc::new(NEWS), &origin).unwrap());
    let agent = make(&house, &two, |_| {}).await;
    let commit = async |name: &str| agent.commit(draft(name, NEWS, &"x").unwrap()).await.is_ok();
    assert_eq!((commit("test/old").await, commit("test/new").await), (true, false));
    assert_eq!(go(&agent).await.0, completed());
    assert_eq!((commit("test/old").await, commit("test/new").await), (false, true));
    agent.close().await;
    drop((kept, old, new));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_that_moves_has_the_limits_of_the_new_generation() {
    let house = House::new(script().call("absent", json!({})).forever()).await;
    let two = Two::new(&house);
    let one = TurnLimits { steps: Some(1), ..TurnLimits::default() };
    let kept = two.scope().provide(Arc::new(one), &Origin::runtime("test")).unwrap();
    let agent = make(&house, &two, |order| order.limits.tool_calls = Some(5)).await;
    for moves in [1, 0] {
        let (end, events) = go(&agent).await;
        assert_eq!(end, RunEnd::Turn(TurnEndReason::Limit { name: "steps".to_owned() }));
        assert_eq!(changes(&events).len(), moves);
    }
    agent.close().await;
    drop(kept);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_limit_ends_before_its_first_step_ends_the_run() {
    let house = House::new(script().text("ok").forever()).await;
    let steps = TurnLimits { steps: Some(0), ..TurnLimits::default() };
    let time = TurnLimits { time_ms: Some(5), ..TurnLimits::default() };
    for (limits, name) in [(steps, "steps"), (time, "time")] {
        let two = Two::new(&house);
        // The assembly takes longer than any limit.
        two.held.store(true, Ordering::SeqCst);
        let agent = make(&house, &two, |order| order.limits = limits).await;
        for turns in 1..4 {
            let (end, events) = go(&agent).await;
            assert_eq!(end, RunEnd::Turn(TurnEndReason::Limit { name: name.to_owned() }));
            let ends = events.iter().filter(|event| event.body.kind == "turn/end").count();
            assert_eq!(ends, 1, "it is not tried again by itself");
            assert_eq!(agent.status().borrow().clone(), Status::Idle);
            let all = house_kinds(&agent).await;
            assert_eq!(all.iter().filter(|kind| *kind == "turn/end").count(), turns);
        }
        agent.close().await;
        // Nothing is lost: the prompts are taken one after the other.
        let again = house.open(Some(agent.session())).await.agent;
        assert_eq!(go(&again).await.0, completed());
        let kinds = house_kinds(&again).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "user/message").count(), 4);
        again.close().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_changes_nothing_for_the_agent_is_not_logged() {
    let house = House::new(script().text("ok").forever()).await;
    let two = Two::new(&house);
    two.shows.store(false, Ordering::SeqCst);
    let agent = make(&house, &two, |_| {}).await;
    let (end, events) = go(&agent).await;
    assert_eq!((end, changes(&events)), (completed(), Vec::new()));
    assert_eq!(agent.scope().parent().unwrap().name(), two.scope().name());
    agent.close().await;
    house.end().await;
}
