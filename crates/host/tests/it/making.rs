//! Agents are made as a whole or not at all, and end as a whole.

use std::sync::Arc;

use reins_agent::{AgentError, EventType, SessionOrder, draft};
use reins_host::HostError;
use reins_kernel::{Origin, Scope};
use reins_schema::SessionId;
use reins_store::StoreError;
use reins_testkit::script;

use crate::house::{House, Point, polled, yields};

/// More polls than an open takes.
const MANY: usize = 500;

/// New, and one that was there.
async fn both(house: &House) -> [SessionOrder; 2] {
    [SessionOrder::New, SessionOrder::Resume(house.old_session().await)]
}

fn id(order: &SessionOrder) -> Option<SessionId> {
    match order {
        SessionOrder::New => None,
        SessionOrder::Resume(id) => Some(id.clone()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_that_is_dropped_after_any_poll_leaves_nothing() {
    let house = House::new(script()).await;
    for order in both(&house).await {
        let session = id(&order);
        let rest = house.at_rest().await;
        let mut polls = 0;
        loop {
            let mut sessions = house.sessions();
            let opened = polled(house.host.open(house.order(session.as_ref())), polls).await;
            let done = opened.is_some();
            // Dropping the handle ends the agent as well as a close does.
            let id = opened.map(|opened| opened.unwrap().agent.session().clone());
            if let Some(session) = id.as_ref().or(session.as_ref()) {
                house.open(Some(session)).await.agent.close().await;
            }
            house.rests(&rest).await;
            // A new session is there when somebody has got its agent, and not otherwise.
            sessions.extend(id.filter(|_| session.is_none()));
            house.keeps(&sessions).await;
            if done {
                break;
            }
            polls += 1;
            assert!(polls < MANY, "it never comes to its end");
        }
        assert!(polls >= 2, "{polls} polls are too few to prove anything");
        house.all_open().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_make_whose_caller_leaves_while_the_store_works_leaves_nothing() {
    let house = House::new(script()).await;
    let factory = house.factory().await;
    for points in [[Point::BeforeCreate, Point::AfterCreate], [Point::BeforeOpen, Point::AfterOpen]]
    {
        let creates = points[0] == Point::BeforeCreate;
        let session = if creates { None } else { Some(house.old_session().await) };
        let rest = house.at_rest().await;
        for point in points {
            let mut sessions = house.sessions();
            house.gate.hold(point);
            let order = session.clone().map_or(SessionOrder::New, SessionOrder::Resume);
            let (order, watched) = house.watched(order).await;
            let making = factory.make(order);
            tokio::select! {
                made = making => panic!("made at {point:?}: {:?}", made.err()),
                () = house.gate.reached() => {}
            }
            // Whoever wants the session now waits until it is let go.
            let again = house.order(session.as_ref());
            let (opened, ()) = tokio::join!(house.host.open(again), async {
                tokio::task::yield_now().await;
                house.gate.release();
            });
            let agent = opened.unwrap().agent;
            agent.close().await;
            watched.gone().await;
            sessions.extend(creates.then(|| agent.session().clone()));
            drop(agent);
            house.rests(&rest).await;
            house.keeps(&sessions).await;
        }
    }
    house.all_open().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_leaves_nothing_and_the_next_open_works() {
    let house = House::new(script()).await;
    let factory = house.factory().await;
    let session = house.old_session().await;
    let (rest, sessions) = (house.at_rest().await, house.sessions());
    for point in [Point::BeforeCreate, Point::AfterCreate, Point::BeforeOpen, Point::AfterOpen] {
        let creates = matches!(point, Point::BeforeCreate | Point::AfterCreate);
        let order = if creates { SessionOrder::New } else { SessionOrder::Resume(session.clone()) };
        let (order, watched) = house.watched(order).await;
        house.gate.fail(Some(point));
        let error = factory.make(order).await.err().unwrap();
        house.gate.fail(None);
        let AgentError::Store(StoreError::Writer { problem }) = error else { panic!("{error}") };
        assert_eq!(problem, format!("{point:?}"));
        watched.gone().await;
        house.rests(&rest).await;
        house.keeps(&sessions).await;
        house.all_open().await;
    }
    house.gate.fail(Some(Point::BeforeInspect));
    let refused = house.host.open(house.order(Some(&session))).await.err().unwrap();
    assert!(matches!(refused, HostError::Store(_)), "{refused}");
    house.gate.fail(None);
    house.all_open().await;
    house.rests(&rest).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_takes_no_event_leaves_nothing() {
    let house = House::new(script()).await;
    let factory = house.factory().await;
    let rest = house.at_rest().await;
    let (order, watched) = house.watched(SessionOrder::New).await;
    house.gate.spoil();
    // The first events reach the disk later than they are committed, so this may go well.
    let mut sessions = Vec::new();
    if let Ok(agent) = factory.make(order).await {
        sessions.push(agent.session().clone());
        let message = reins_schema::Message::user(reins_schema::MessageId::new("m"), "go");
        agent.followup(message).await.unwrap_err();
        assert!(agent.dead().is_some());
        agent.close().await;
    }
    watched.gone().await;
    house.rests(&rest).await;
    house.keeps(&sessions).await;
    house.all_open().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_event_that_is_refused_leaves_nothing() {
    let house = House::new(script()).await;
    let factory = house.factory().await;
    for (order, unknown) in
        both(&house).await.into_iter().zip(["sandbox/mode", "agent-preset/selected"])
    {
        let (rest, sessions) = (house.at_rest().await, house.sessions());
        let (mut order, watched) = house.watched(order).await;
        let scope = house.scope.child("odd");
        let origin = Origin::runtime("test");
        let hidden = scope.restrict::<EventType>(move |name| name != unknown, &origin);
        order.preset.scope = scope;
        if unknown == "agent-preset/selected" {
            order.preset.preset = "other".into();
        }
        let error = factory.make(order).await.err().unwrap();
        let AgentError::Start { reason, .. } = &error else { panic!("{error}") };
        assert!(reason.contains(unknown), "{reason}");
        watched.gone().await;
        drop(hidden);
        house.rests(&rest).await;
        house.keeps(&sessions).await;
        house.all_open().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_refuses_or_panics_leaves_nothing() {
    let house = House::new(script()).await;
    let factory = house.factory().await;
    for order in both(&house).await {
        let (rest, sessions) = (house.at_rest().await, house.sessions());
        for panics in [false, true] {
            let (mut order, watched) = house.watched(order.clone()).await;
            let adds = order.setup.take().unwrap();
            order.setup = Some(Arc::new(move |scope: &Scope| {
                let kept = adds(scope)?;
                assert!(!panics, "no mood, with {} registrations", kept.len());
                Err("not today".to_owned())
            }));
            let error = factory.make(order).await.err().unwrap().to_string();
            let words = if panics { "it panicked: no mood, with 1 reg" } else { "not today" };
            assert!(error.starts_with(&format!("setting up the agent: {words}")), "{error}");
            watched.gone().await;
            house.rests(&rest).await;
            house.keeps(&sessions).await;
        }
        house.all_open().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_can_only_be_read_is_let_go() {
    const ODD: EventType = EventType { version: 1, ignorable: false, keep_last: false };
    let house = House::new(script()).await;
    let factory = house.factory().await;
    let odd = |scope: &Scope| {
        let registered = scope.add("test/odd", Arc::new(ODD), &Origin::runtime("test"));
        Ok(vec![registered.map_err(|e| e.to_string())?])
    };
    let (mut order, _) = house.watched(SessionOrder::New).await;
    order.setup = Some(Arc::new(odd));
    let agent = factory.make(order).await.unwrap();
    agent.commit(draft("test/odd", ODD, &"x").unwrap()).await.unwrap();
    agent.close().await;
    let session = agent.session().clone();
    drop(agent);
    let rest = house.at_rest().await;
    let (order, watched) = house.watched(SessionOrder::Resume(session.clone())).await;
    let error = factory.make(order).await.err().unwrap();
    assert!(matches!(error, AgentError::ReadOnly { .. }), "{error}");
    watched.gone().await;
    house.rests(&rest).await;
    // With the type it can be written again, at once.
    let (mut order, _) = house.watched(SessionOrder::Resume(session)).await;
    order.setup = Some(Arc::new(odd));
    factory.make(order).await.unwrap().close().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_somebody_has_is_busy_and_one_that_is_let_go_is_awaited() {
    let house = House::new(script()).await;
    let opened = house.open(None).await;
    let session = opened.agent.session().clone();
    let error = house.host.open(house.order(Some(&session))).await.err().unwrap();
    assert!(matches!(error, HostError::Agent(AgentError::Store(StoreError::Busy { .. }))));
    drop(opened);
    house.open(Some(&session)).await.agent.close().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn making_races_with_closing_all_and_nothing_is_left() {
    for round in 0..20 {
        let house = House::new(script()).await;
        let factory = house.factory().await;
        let rest = house.at_rest().await;
        let mut makers = tokio::task::JoinSet::new();
        for at in 0..8 {
            let (order, watched) = house.watched(SessionOrder::New).await;
            let factory = Arc::clone(&factory);
            makers.spawn(async move {
                yields((at * round) % 7).await;
                (factory.make(order).await, watched)
            });
        }
        yields(round).await;
        factory.close_all().await;
        // Drivers are over when it returns; what is still made is refused.
        let mut sessions = Vec::new();
        while let Some(made) = makers.join_next().await {
            let (made, watched) = made.unwrap();
            match made {
                Ok(agent) => {
                    agent.close().await;
                    assert!(agent.status().has_changed().is_err(), "its driver is gone");
                    sessions.push(agent.session().clone());
                }
                Err(error) => assert!(matches!(error, AgentError::Ending), "{error}"),
            }
            watched.gone().await;
        }
        house.rests(&rest).await;
        house.keeps(&sessions).await;
        let home = house.home().to_owned();
        let (next, _) =
            crate::house::open_host(&home, &house.server.base_url(), "", &[("plain", "")]).await;
        for session in sessions {
            next.open(house.order(Some(&session))).await.unwrap().agent.close().await;
        }
        next.stop().await;
        house.end().await;
    }
}
