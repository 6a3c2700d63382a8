//! One use of everything that is there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reins_agent::{
    Agent, AgentFactory, AgentOrder, AnyTool, Barriers, CommandSource, EventType, Guard,
    Observations, PreExecute, PresetScope, PromptContext, PromptSection, Provider, ProviderName,
    RequestError, RetryPolicy, RuntimeFact, SessionOrder, ToolContext, ToolEffect, TurnLimits,
    find_provider, known_types, list_commands, turn_limits,
};
use reins_host::{DefaultModel, DefaultPreset, ReloadPolicy, RunEnd, RunOrder, run};
use reins_kernel::Scope;
use reins_schema::{CallConfig, CallId, Failure, FailureCode, Header, SessionId, TurnEndReason};
use reins_session::RetryDecision;
use reins_store::Store;
use reins_testkit::Acts;
use reins_world::{CancelToken, Clock, CommandSpec, Env, Fs, Http, HttpRequest, Process};
use serde_json::{Value, json};

/// Arguments for each tool, in an order that works.
fn calls() -> [(&'static str, Value); 6] {
    [
        ("write", json!({"file_path": "b.txt", "content": "b\n"})),
        ("read", json!({"file_path": "a.txt"})),
        ("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        ("glob", json!({"pattern": "*.txt"})),
        ("grep", json!({"pattern": "two"})),
        ("bash", json!({"command": "cat a.txt; sleep 100 &", "description": "Looks"})),
    ]
}

/// A model that calls every tool that is offered when all rows are there.
pub(crate) fn acts(acts: Acts) -> Acts {
    let offered = calls().into_iter().filter(|(name, _)| *name != "write");
    let acts = offered.fold(acts, |acts, (name, arguments)| acts.call(name, arguments));
    acts.then().text("done").forever()
}

/// Uses what is there, and says what it was.
pub(crate) async fn everything(scope: &Scope, home: &Path) -> Vec<&'static str> {
    let file = std::fs::File::create(home.join("a.txt"));
    std::io::Write::write_all(&mut file.unwrap(), b"one\n").unwrap();
    let mut used = services(scope, home).await;
    used.extend(entries(scope, home).await);
    if scope.service::<dyn AgentFactory>().is_some() {
        agent(scope, home).await;
        used.push("AgentFactory");
    }
    used
}

async fn services(scope: &Scope, home: &Path) -> Vec<&'static str> {
    let mut used = Vec::new();
    let env = scope.need::<Env>().unwrap();
    let url = env.get("DEEPSEEK_BASE_URL").unwrap().to_str().unwrap().to_owned();
    used.push("Env");
    if let Some(clock) = scope.service::<dyn Clock>() {
        clock.sleep(Duration::from_millis(1)).await;
        assert!(clock.now_ms() > 0);
        used.push("Clock");
    }
    if let Some(fs) = scope.service::<dyn Fs>() {
        assert!(fs.resolve(home, "a.txt").await.unwrap().kind.is_some());
        used.push("Fs");
    }
    if let Some(http) = scope.service::<dyn Http>() {
        let (headers, body) = (Vec::new(), Default::default());
        // Not what the server serves, which it says.
        let asked = http.send(HttpRequest { method: "GET", url, headers, body }).await;
        assert!(asked.unwrap().status >= 400);
        used.push("Http");
    }
    if let Some(process) = scope.service::<dyn Process>() {
        let command = CommandSpec {
            argv: ["bash", "-c", "sleep 100 & exit 3"].map(Into::into).to_vec(),
            cwd: home.to_owned(),
            env: process.child_env(),
            time_limit: Duration::from_secs(30),
            grace: Duration::from_millis(100),
            keep_bytes: 1000,
        };
        let end = process.run(command, CancelToken::new()).await.unwrap();
        assert_eq!((end.code, end.survivors), (Some(3), 1), "one is left for the stop to end");
        let mark = home.to_str().unwrap();
        assert!(!reins_testkit::processes_with_marker(mark).is_empty(), "the one that is left");
        used.push("Process");
    }
    if let Some(store) = scope.service::<dyn Store>() {
        let header = Header {
            format: reins_schema::FORMAT,
            id: SessionId::new("of-the-test"),
            created_at: 1,
            cwd: home.to_owned(),
            parent: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        };
        let opened = store.create(header, known_types(scope)).await.unwrap();
        opened.log.close().await.unwrap();
        assert_eq!(store.list(Default::default()).await.unwrap().sessions.len(), 1);
        used.push("Store");
    }
    let barriers = scope.service::<Barriers>();
    used.extend(barriers.filter(|barriers| !barriers.at_turn_end).map(|_| "Barriers"));
    let limits = scope.service::<TurnLimits>();
    used.extend(limits.map(|_| "TurnLimits").filter(|_| turn_limits(scope).steps == Some(9)));
    let model = scope.service::<DefaultModel>();
    used.extend(model.filter(|model| model.0.contains('/')).map(|_| "DefaultModel"));
    let preset = scope.service::<DefaultPreset>();
    used.extend(preset.filter(|preset| preset.0 == "test").map(|_| "DefaultPreset"));
    let reload = scope.service::<ReloadPolicy>();
    used.extend(reload.filter(|reload| !reload.every.is_zero()).map(|_| "ReloadPolicy"));
    used
}

async fn entries(scope: &Scope, home: &Path) -> Vec<&'static str> {
    let mut used = tools(scope, home).await;
    let of = PromptContext {
        session: SessionId::new("of-the-test"),
        cwd: home.to_owned(),
        scope: scope.clone(),
    };
    for section in scope.entries::<dyn PromptSection>() {
        assert!(!section.value.text(&of).contains('\0'));
        used.push("PromptSection");
    }
    for fact in scope.entries::<dyn RuntimeFact>() {
        assert!(fact.value.text(&of).await.is_some());
        used.push("RuntimeFact");
    }
    for guard in scope.entries::<dyn Guard>() {
        let call = PreExecute {
            session: SessionId::new("of-the-test"),
            call_id: CallId::new("c"),
            tool: "read".to_owned(),
            arguments: json!({}),
            effect: ToolEffect::ReadOnly,
            cwd: home.to_owned(),
        };
        assert_eq!(guard.value.refuses(&call), None);
        used.push("Guard");
    }
    if !scope.entries::<EventType>().is_empty() {
        assert!(known_types(scope).get("sandbox/mode").is_some());
        used.push("EventType");
    }
    if !scope.entries::<dyn CommandSource>().is_empty() {
        let (list, errors) = list_commands(scope).await;
        assert!(list.names.is_empty() && errors.is_empty());
        used.push("CommandSource");
    }
    for provider in scope.entries::<dyn Provider>() {
        assert!(!provider.value.models().is_empty() && provider.value.ready().is_ok());
        used.push("Provider");
    }
    for name in scope.entries::<ProviderName>() {
        assert_eq!(find_provider(scope, &name.name).unwrap().id(), name.value.provider);
        used.push("ProviderName");
    }
    if !scope.layers::<RequestError>().is_empty() {
        assert!(matches!(retry(scope).await, RetryDecision::Retry { .. }));
        used.push("request-error");
    }
    used
}

async fn tools(scope: &Scope, home: &Path) -> Vec<&'static str> {
    let mut used = Vec::new();
    for (name, arguments) in calls() {
        let Some(tool) = scope.entry::<dyn AnyTool>(name) else { continue };
        let ctx = ToolContext {
            session: SessionId::new("of-the-test"),
            call_id: CallId::new("c"),
            cwd: home.to_owned(),
            cancel: CancelToken::new(),
            observations: Observations::default(),
            scope: scope.clone(),
        };
        tool.value.check(&arguments).unwrap();
        tool.value.call(arguments, ctx).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        used.push("AnyTool");
    }
    let all = scope.parent().unwrap().entries::<dyn AnyTool>().len();
    let hidden = all - scope.entries::<dyn AnyTool>().len();
    if hidden > 0 {
        used.push("AnyTool");
    }
    used
}

async fn retry(scope: &Scope) -> RetryDecision {
    let event = RequestError {
        session: SessionId::new("of-the-test"),
        turn: 1,
        step: 1,
        retries: 0,
        failure: Failure::new(FailureCode::Server, "busy"),
        policy: RetryPolicy {
            max_retries: 3,
            codes: vec![FailureCode::Server],
            initial_delay_ms: 1,
            max_delay_ms: 2,
            ..RetryPolicy::never()
        },
    };
    scope.run(event, |_| Box::pin(async { RetryDecision::GiveUp })).await
}

/// With a provider a whole turn, else an agent that is made and closed.
async fn agent(scope: &Scope, home: &Path) {
    let order = AgentOrder {
        preset: PresetScope {
            preset: "test".into(),
            generation: 1,
            scope: scope.clone(),
            keeper: Arc::new(()),
        },
        generations: None,
        session: SessionOrder::New,
        cwd: home.to_owned(),
        model: Some(CallConfig {
            provider: "deepseek".to_owned(),
            model: "deepseek-v4-flash".to_owned(),
            ..CallConfig::default()
        }),
        limits: TurnLimits::default(),
        setup: None,
    };
    let agent: Agent = scope.need::<dyn AgentFactory>().unwrap().make(order).await.unwrap();
    if scope.service::<DefaultModel>().is_some() {
        std::fs::File::create(home.join("a.txt"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"one\n"))
            .unwrap();
        let order = RunOrder {
            prompt: "go".to_owned(),
            before: None,
            cancel: CancelToken::new(),
            watch: &mut |_| {},
        };
        let outcome = run(&agent, order).await;
        assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
        assert_eq!((outcome.tool_calls, outcome.text.as_str()), (5, "done"));
        assert_eq!(std::fs::read_to_string(home.join("a.txt")).unwrap(), "two\n");
    }
    agent.close().await;
}
