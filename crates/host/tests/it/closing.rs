//! An agent ends as a whole, whatever it is doing.

use std::sync::Arc;
use std::time::Duration;

use reins_agent::{
    Agent, AnyTool, Approval, ApprovalRequest, Permission, PreExecute, PromptContext, RuntimeFact,
    ToolEffect, ToolSuccess,
};
use reins_kernel::{BoxFuture, Origin, Registration};
use reins_schema::{CancelCause, Message, MessageId};
use reins_session::Status;
use reins_testkit::{Acts, At, Fault, script};
use serde_json::json;
use tokio::sync::Notify;

use crate::house::{House, LONG, Point, polled, until};
use crate::rig::Probe;

/// What an agent can be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Assembling,
    Streaming,
    WaitingToRetry,
    AskingSomebody,
    /// In a tool that ends when it is told to.
    InATool,
    /// In a tool that ignores that.
    InADeafTool,
    /// Already cancelled, with a tool that ignores it.
    Cancelling,
}

const ALL: [Doing; 8] = [
    Doing::Nothing,
    Doing::Assembling,
    Doing::Streaming,
    Doing::WaitingToRetry,
    Doing::AskingSomebody,
    Doing::InATool,
    Doing::InADeafTool,
    Doing::Cancelling,
];

fn acts() -> Acts {
    let stall = Fault::Stall(At::Text, Duration::from_secs(300));
    let acts = script().text("half of it").fault(stall).when("Streaming").forever().then();
    let acts = acts.status(500, &[]).when("WaitingToRetry").forever().then();
    let acts = acts.call("work", json!({})).when("AskingSomebody").forever().then();
    let acts = acts.call("work", json!({})).when("InATool").forever().then();
    let acts = acts.call("work", json!({})).when("InADeafTool").forever().then();
    acts.call("work", json!({})).when("Cancelling").forever()
}

struct Never(Arc<Notify>);

impl RuntimeFact for Never {
    fn text(&self, _of: &PromptContext) -> BoxFuture<'static, Option<String>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// Brings an agent there. What it needs is registered as long as the answer is kept.
async fn bring(agent: &Agent, doing: Doing) -> Vec<Registration> {
    let (scope, origin) = (agent.scope(), Origin::runtime("test"));
    let begun = Arc::new(Notify::new());
    let mut kept = Vec::new();
    let (tell, obeys) = (Arc::clone(&begun), doing == Doing::InATool);
    let tool = Probe::new("work", ToolEffect::Exclusive, move |ctx| {
        tell.notify_one();
        async move {
            match obeys {
                true => ctx.cancel.cancelled().await,
                false => std::future::pending().await,
            }
            Ok(ToolSuccess::text("stopped"))
        }
    });
    kept.push(scope.add::<dyn AnyTool>("work", tool.entry(), &origin).unwrap());
    if doing == Doing::Assembling {
        let fact = Arc::new(Never(Arc::clone(&begun)));
        kept.push(scope.add::<dyn RuntimeFact>("never", fact, &origin).unwrap());
    }
    if doing == Doing::AskingSomebody {
        let ask = |_, _| -> BoxFuture<'static, Permission> {
            Box::pin(async { Permission::Ask { reason: "it works".to_owned() } })
        };
        kept.push(scope.wrap::<PreExecute>(0, ask, &origin));
        let tell = Arc::clone(&begun);
        let nobody = move |_, _| -> BoxFuture<'static, Approval> {
            tell.notify_one();
            Box::pin(std::future::pending())
        };
        kept.push(scope.wrap::<ApprovalRequest>(0, nobody, &origin));
    }
    if doing == Doing::Nothing {
        return kept;
    }
    let mut events = agent.events(agent.next_seq());
    let prompt = Message::user(MessageId::new(format!("{doing:?}")), format!("{doing:?}"));
    agent.followup(prompt).await.unwrap();
    let there = async {
        let kind = match doing {
            Doing::Streaming => "assistant/chunk",
            Doing::WaitingToRetry => "llm/retry",
            _ => return begun.notified().await,
        };
        while let Some(event) = events.next().await {
            if event.body.kind == kind {
                return;
            }
        }
        panic!("no {kind}");
    };
    tokio::time::timeout(LONG, there).await.unwrap_or_else(|_| panic!("it is never {doing:?}"));
    if doing == Doing::Cancelling {
        agent.cancel(CancelCause::User, true).await;
        agent.status().wait_for(|status| *status == Status::Cancelling).await.unwrap();
    }
    kept
}

/// Whatever was begun has its end in the log.
async fn check_log(house: &House, agent: &Agent, doing: Doing) {
    let kinds = house.kinds(agent.session()).await;
    let count = |kind: &str| kinds.iter().filter(|other| *other == kind).count();
    for (begin, end) in [
        ("turn/start", "turn/end"),
        ("step/start", "step/end"),
        ("tool/call", "tool/result"),
        ("approval/asked", "approval/decided"),
    ] {
        assert_eq!(count(begin), count(end), "{doing:?}: {begin} in {kinds:?}");
    }
    assert_eq!(count("turn/start"), usize::from(doing != Doing::Nothing), "{doing:?}");
    assert_eq!(count("session/repaired"), 0, "{doing:?}: nothing is left to be repaired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_is_dropped_after_any_poll_or_called_twice_ends_everything() {
    let house = House::new(acts()).await;
    for doing in ALL {
        let mut polls = 0;
        loop {
            let agent = house.open(None).await.agent;
            let kept = bring(&agent, doing).await;
            let done = polled(agent.close(), polls).await.is_some();
            // One that was dropped is no obstacle to two more at once.
            let closing = async { tokio::join!(agent.close(), agent.close()) };
            tokio::time::timeout(LONG, closing).await.unwrap_or_else(|_| panic!("{doing:?}"));
            drop(kept);
            assert!(agent.status().has_changed().is_err(), "{doing:?}: its driver is gone");
            assert_eq!(agent.scope().contributions(), 0, "{doing:?}");
            check_log(&house, &agent, doing).await;
            house.open(Some(agent.session())).await.agent.close().await;
            if done {
                break;
            }
            polls += 1;
            assert!(polls < 100, "{doing:?}: it never comes to its end");
        }
    }
    let rest = house.at_rest().await;
    house.rests(&rest).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_is_dropped_ends_everything() {
    let house = House::new(acts()).await;
    for doing in ALL {
        let agent = house.open(None).await.agent;
        let _kept = bring(&agent, doing).await;
        let (session, mut status) = (agent.session().clone(), agent.status());
        drop(agent);
        let ended = async { while status.changed().await.is_ok() {} };
        tokio::time::timeout(LONG, ended).await.unwrap_or_else(|_| panic!("{doing:?} goes on"));
        let again = house.open(Some(&session)).await.agent;
        again.close().await;
        check_log(&house, &again, doing).await;
    }
    house.end().await;
}

/// Who opens a session while somebody still wants it, and gets it, lets it go like anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_had_by_another_when_it_was_asked_for_is_awaited_afterwards() {
    let house = House::new(acts()).await;
    let first = house.open(None).await.agent;
    let session = first.session().clone();
    house.gate.hold(Point::BeforeOpen);
    let (second, ()) = tokio::join!(house.open(Some(&session)), async {
        house.gate.reached().await;
        first.close().await;
        house.gate.release();
    });
    // It takes its time to end.
    let kept = bring(&second.agent, Doing::InADeafTool).await;
    drop(second);
    let third = house.host.open(house.order(Some(&session))).await;
    third.map_err(|error| error.to_string()).unwrap().agent.close().await;
    drop(kept);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_stops_with_agents_that_do_anything() {
    let house = House::new(acts()).await;
    let tasks = house.at_rest().await;
    let mut agents = Vec::new();
    for doing in ALL {
        let agent = house.open(None).await.agent;
        let kept = bring(&agent, doing).await;
        agents.push((doing, agent, kept));
    }
    let House { host, server, home, scope, .. } = house;
    let store = Arc::clone(host.store());
    tokio::time::timeout(LONG, host.stop()).await.expect("the host stops");
    let parents = scope.outward();
    assert_eq!(parents.map(|scope| scope.contributions()).sum::<usize>(), 0);
    until("no task is left", || tasks.has_at_least_the_tasks_of_now()).await;
    for (doing, agent, kept) in agents {
        assert!(agent.status().has_changed().is_err(), "{doing:?}: its driver is gone");
        drop(kept);
        assert_eq!(agent.scope().contributions(), 0, "{doing:?}");
        let events = store.read(agent.session(), 0, 10_000).await.unwrap();
        let ends = events.iter().filter(|event| event.body.kind == "turn/end").count();
        assert_eq!(ends, usize::from(doing != Doing::Nothing), "{doing:?}");
    }
    drop((store, home));
    server.assert_clean();
    server.stop().await;
}
