//! A thousand edits of the settings while an agent works. Alone in its process, because it counts
//! what the process holds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at a surprise")]

mod editor;
#[path = "../reload/rig.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod rig;

use std::collections::BTreeSet;
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reins_host::ReloadNews;
use reins_testkit::{StrictOptions, StrictServer, Watch, script};
use serde_json::{Value, json};

use editor::{Check, Editor};
use rig::{Asked, House, Plan, SETTLED, Talk, Turn, traces};

const EDITS: u64 = 1000;
/// Turns of one session, so that requests stay small.
const TURNS: usize = 12;
/// What memory may grow by in the second half.
const GROWTH: usize = 8 * 1024 * 1024;

/// What the server saw: the prompt of the turn, and the settings.
type Seen = Arc<Mutex<Vec<(String, Asked)>>>;

/// A model that looks for files in each turn, then answers.
fn server(seen: &Seen) -> StrictServer {
    let acts = script()
        .when("a.txt")
        .text("done")
        .forever()
        .then()
        .call("glob", json!({"pattern": "*.txt"}))
        .forever();
    let seen = Arc::clone(seen);
    let watch: Watch = Arc::new(move |request, _| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter().rev();
        let mut prompts = messages.filter_map(|message| message["content"].as_str());
        let prompt = prompts.find(|text| text.starts_with("turn ")).unwrap().to_owned();
        seen.lock().unwrap().push((prompt, Asked::of(&body)));
    });
    let options = StrictOptions { watch: Some(watch), forget: true, ..StrictOptions::default() };
    StrictServer::start_with(acts, options).unwrap()
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    tasks: usize,
    threads: usize,
    files: usize,
}

impl Held {
    fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Self { tasks, threads: count("/proc/self/task"), files: count("/proc/self/fd") }
    }

    fn is_within(self, other: Self) -> bool {
        self.tasks <= other.tasks && self.threads <= other.threads && self.files <= other.files
    }

    /// Waits until this process holds no more than that.
    async fn back_to(other: Self) {
        let soon = async {
            while !Self::now().is_within(other) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), soon).await.is_err() {
            panic!("{:?} is left of {other:?}", Self::now());
        }
    }
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

/// The agent, turn after turn, and what is asserted of each.
struct Watcher {
    house: House,
    seen: Seen,
    talk: Option<Talk>,
    /// Turns of all sessions, and of this one.
    turns: usize,
    here: usize,
    /// What the last turn was asked with, in this session.
    last: Option<Asked>,
    plain: Asked,
    /// What no edit ever wrote as a whole.
    mixed: BTreeSet<Asked>,
    served: BTreeSet<Asked>,
    news: Vec<ReloadNews>,
    /// How many of them there were at the last check.
    checked: usize,
}

impl Watcher {
    async fn turn(&mut self) -> Asked {
        if self.here == TURNS {
            self.leave().await;
        }
        if self.talk.is_none() {
            self.talk = Some(self.house.open(None).await);
        }
        let (talk, prompt) = (self.talk.as_ref().unwrap(), format!("turn {}", self.turns));
        let turn = talk.turn(&prompt).await;
        self.turns += 1;
        self.here += 1;
        assert_eq!(turn.outcome.text, "done", "{prompt}: {:?}", turn.outcome);
        assert_eq!(turn.outcome.steps, 2, "{prompt}");
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        assert!(seen.iter().all(|(of, _)| *of == prompt), "{seen:?}");
        let asked: Vec<Asked> = seen.into_iter().map(|(_, asked)| asked).collect();
        assert_eq!(asked.len(), 2, "{prompt}");
        assert_eq!(asked[0], asked[1], "one turn, one generation");
        let asked = asked.into_iter().next().unwrap();
        self.examine(&turn, &asked);
        self.last = Some(asked.clone());
        self.hear();
        asked
    }

    fn examine(&mut self, turn: &Turn, asked: &Asked) {
        if asked != &self.plain && !asked.is_whole() {
            self.mixed.insert(asked.clone());
        }
        self.served.insert(asked.clone());
        let changed = self.last.as_ref().is_some_and(|last| last != asked);
        if !changed {
            assert_eq!(turn.causes, [None, None], "nothing that the model reads changed");
            return;
        }
        assert_eq!(turn.changes.len(), 1, "moved once, before its first step");
        let rows: BTreeSet<&str> = turn.changes[0].iter().map(String::as_str).collect();
        if asked.is_whole() && self.last.as_ref().is_some_and(Asked::is_whole) {
            assert_eq!(rows, BTreeSet::from(["prompt", "deepseek"]));
        }
        let cause = turn.causes[0].as_deref().unwrap_or_default();
        assert!(cause.contains("system prompt (rows prompt)"), "{cause}");
        assert_eq!(turn.causes[1], None);
    }

    fn hear(&mut self) {
        for news in self.house.told() {
            assert_ne!(self.news.last(), Some(&news), "told twice");
            self.news.push(news);
        }
    }

    async fn leave(&mut self) {
        if let Some(talk) = self.talk.take() {
            talk.agent.close().await;
        }
        (self.here, self.last) = (0, None);
    }

    async fn check(&mut self, check: &Check) {
        tokio::time::sleep(SETTLED).await;
        assert_eq!(self.turn().await, check.serves, "after {} edits", check.edits);
        let since = std::mem::replace(&mut self.checked, self.news.len());
        let told = self.news[since..].iter().any(|news| matches!(news, ReloadNews::Broken(_)));
        assert!(told || !check.broken, "{:?}", &self.news[since..]);
    }
}

/// `$REINS_EDITS_SEED`, or the time.
fn seed() -> u64 {
    if let Some(given) = std::env::var_os("REINS_EDITS_SEED") {
        return given.to_str().unwrap().parse().unwrap();
    }
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    u64::from(now.subsec_nanos()) << 32 | now.as_secs()
}

/// Says what happened.
async fn a_thousand_edits(seed: u64) -> String {
    let seen = Seen::default();
    let server = server(&seen);
    let house = House::new(&server, Plan::default()).await;
    let mut watcher = Watcher {
        house,
        seen,
        talk: None,
        turns: 0,
        here: 0,
        last: None,
        plain: Asked { persona: String::new(), max_tokens: None },
        mixed: BTreeSet::new(),
        served: BTreeSet::new(),
        news: Vec::new(),
        checked: 0,
    };
    watcher.plain = watcher.turn().await;
    watcher.leave().await;
    watcher.mixed.clear();
    let start = Held::now();

    let (to_watcher, checks) = sync_channel(1);
    let (go_on, wait) = sync_channel(1);
    let editor = Editor::new(watcher.house.settings(), watcher.plain.clone(), seed);
    let editing = std::thread::spawn(move || editor.edit(EDITS, &to_watcher, &wait));
    let mut half = 0;
    loop {
        match checks.try_recv() {
            Ok(check) => {
                watcher.check(&check).await;
                if check.edits <= EDITS / 2 {
                    half = resident();
                }
                go_on.send(()).unwrap();
            }
            Err(TryRecvError::Empty) => drop(watcher.turn().await),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    let stretched = editing.join().unwrap();
    assert!(watcher.mixed.is_subset(&stretched), "{:?}, not {stretched:?}", watcher.mixed);

    assert_eq!(watcher.house.host.stop_unused().await, 1);
    let (built, alive) = traces();
    assert_eq!(alive, 1, "of {built} generations");
    watcher.leave().await;
    Held::back_to(start).await;
    let growth = resident().saturating_sub(half);
    assert!(growth < GROWTH, "{growth} bytes more than half way");
    let broken = watcher.news.iter().filter(|news| matches!(news, ReloadNews::Broken(_))).count();
    let report = format!(
        "{} turns, {built} generations, {} of them served, broken {broken} times, {growth} bytes \
         more",
        watcher.turns,
        watcher.served.len(),
    );
    assert!(built > 30 && watcher.served.len() > 30 && broken > 10, "{report}");
    watcher.house.end(server).await;
    assert_eq!(traces().1, 0);
    report
}

#[test]
fn a_thousand_edits_while_an_agent_works_show_no_mixture_and_leave_nothing() {
    let seed = seed();
    println!("REINS_EDITS_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_keep_alive(Duration::from_millis(100))
        .build()
        .unwrap();
    println!("{}", runtime.block_on(a_thousand_edits(seed)));
}
