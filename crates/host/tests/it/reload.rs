//! Sources that change at awkward moments.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use reins_host::{Blueprint, Host, LayerSource, ReloadNews, Stamp};
use reins_kernel::{Catalog, Layer, RowError};
use reins_world::Env;

use crate::house;

/// What a source shows, and what happens to it each time it is read.
#[derive(Default)]
struct State {
    text: String,
    /// What it looks like.
    look: i64,
    newest_ms: Option<i64>,
    after_read: Vec<(String, i64)>,
    reads: usize,
}

/// A file system that may not answer.
#[derive(Default)]
struct Disk {
    hangs: Mutex<bool>,
    changed: Condvar,
}

impl Disk {
    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }

    fn answer(&self) {
        let hangs = self.hangs.lock().unwrap();
        drop(self.changed.wait_while(hangs, |hangs| *hangs).unwrap());
    }
}

struct Source(Arc<Mutex<State>>, Arc<Disk>);

impl LayerSource for Source {
    fn layers(&self) -> Result<Vec<Layer>, Vec<RowError>> {
        let mut state = self.0.lock().unwrap();
        let rows = house::ROWS.replace("store-gated", "store-jsonl");
        let text =
            format!("{rows}[[insert]]\nid = \"reload\"\nplugin = \"reload\"\n{}", state.text);
        state.reads += 1;
        if let Some((text, look)) = state.after_read.pop() {
            (state.text, state.look) = (text, look);
        }
        Ok(vec![Layer { name: "rows".to_owned(), file: None, text, head: &[] }])
    }

    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>> {
        self.1.answer();
        Ok(Layer { name: name.to_owned(), file: None, text: String::new(), head: &[] })
    }

    fn presets(&self) -> Result<Vec<String>, Vec<RowError>> {
        Ok(Vec::new())
    }

    fn stamp(&self) -> Stamp {
        self.1.answer();
        let state = self.0.lock().unwrap();
        Stamp { files: vec![Some([state.look; 5])], newest_ms: state.newest_ms }
    }

    fn preset_stamp(&self, _name: &str) -> Stamp {
        Stamp::default()
    }
}

fn row(id: &str) -> String {
    format!("[[insert]]\nid = \"{id}\"\nplugin = \"limits\"\n")
}

fn now_ms() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

struct Rig {
    host: Host,
    state: Arc<Mutex<State>>,
    disk: Arc<Disk>,
    home: tempfile::TempDir,
}

impl Rig {
    async fn new(state: State) -> Self {
        let (state, disk) = (Arc::new(Mutex::new(state)), Arc::<Disk>::default());
        let home = tempfile::tempdir().unwrap();
        let blueprint = Blueprint {
            catalog: Catalog::new(&house::plugins()).unwrap(),
            source: Arc::new(Source(Arc::clone(&state), Arc::clone(&disk))),
            env: Arc::new(Env::default()),
            home: home.path().to_owned(),
        };
        let (host, _) = Host::start(blueprint).await.unwrap();
        Self { host, state, disk, home }
    }

    /// Whether there is this row.
    async fn has(&self, row: &str) -> bool {
        let (rows, _) = self.host.rows("").await;
        rows.iter().any(|found| found.id == row)
    }

    /// How often a look read the source.
    async fn reads(&self) -> usize {
        let before = self.state.lock().unwrap().reads;
        self.host.refresh().await;
        self.state.lock().unwrap().reads - before
    }

    async fn end(self) {
        self.host.stop().await;
        drop(self.home);
    }
}

#[tokio::test]
async fn what_changes_while_it_is_read_is_not_taken_and_not_told() {
    let rig = Rig::new(State::default()).await;
    let mut news = rig.host.reloads();
    {
        let mut state = rig.state.lock().unwrap();
        (state.text, state.look) = (row("half"), 1);
        state.after_read.push((row("whole"), 2));
    }
    assert_eq!(rig.reads().await, 1);
    assert!(!rig.has("half").await);
    {
        let mut state = rig.state.lock().unwrap();
        (state.text, state.look) = ("broken".to_owned(), 3);
        state.after_read.push((row("whole"), 4));
    }
    assert_eq!(rig.reads().await, 1);
    assert!(news.try_recv().is_err(), "nothing is told");
    assert_eq!(rig.reads().await, 1);
    assert!(rig.has("whole").await);
    assert!(matches!(news.try_recv(), Ok(ReloadNews::Changed { generation: 2, .. })));
    assert_eq!(rig.reads().await, 0, "nothing changed since");
    rig.end().await;
}

#[tokio::test]
async fn a_start_reads_again_what_changes_while_it_is_read() {
    let after_read = vec![(row("last"), 3), (row("second"), 2)];
    let state = State { text: row("first"), after_read, ..State::default() };
    let rig = Rig::new(state).await;
    assert!(rig.has("last").await);
    assert_eq!(rig.state.lock().unwrap().reads, 3);
    assert_eq!(rig.reads().await, 0, "the last time nothing changed");
    rig.end().await;

    let after_read = (0..5).map(|n| (row(&format!("row-{n}")), n)).collect();
    let rig = Rig::new(State { look: 9, after_read, ..State::default() }).await;
    rig.state.lock().unwrap().after_read.clear();
    assert_eq!(rig.reads().await, 1, "a start does not wait until it is left alone");
    assert!(rig.has("row-2").await);
    rig.end().await;
}

#[tokio::test]
async fn a_change_that_looks_like_the_one_before_is_found() {
    let newest_ms = Some(now_ms());
    let rig = Rig::new(State { text: row("one"), newest_ms, ..State::default() }).await;
    // As on a file system that counts in seconds.
    {
        let mut state = rig.state.lock().unwrap();
        (state.text, state.newest_ms) = (row("two"), Some(now_ms() - 1000));
    }
    assert_eq!(rig.reads().await, 1);
    assert!(rig.has("two").await);
    rig.state.lock().unwrap().text = row("six");
    assert_eq!(rig.reads().await, 1);
    assert!(rig.has("six").await);
    rig.state.lock().unwrap().newest_ms = Some(now_ms() - 60_000);
    assert_eq!((rig.reads().await, rig.reads().await), (1, 0), "once more, and then no more");
    rig.end().await;
}

#[tokio::test]
async fn a_file_system_that_does_not_answer_holds_up_neither_others_nor_the_end() {
    let rig = Rig::new(State::default()).await;
    rig.disk.hang(true);
    {
        // On the only thread of this runtime.
        let short = Duration::from_secs(1);
        let refresh = tokio::time::timeout(short, rig.host.refresh());
        assert!(refresh.await.is_err(), "it cannot be done");
        let preset = tokio::time::timeout(short, rig.host.preset("plain"));
        assert!(preset.await.is_err(), "it waits for the look");
    }
    let Rig { host, disk, home, .. } = rig;
    tokio::time::timeout(house::LONG, host.stop()).await.expect("the host stops");
    disk.hang(false);
    drop(home);
}

#[tokio::test]
async fn a_preset_whose_file_does_not_answer_does_not_hold_up_the_end() {
    let rig = Rig::new(State::default()).await;
    rig.disk.hang(true);
    let preset = tokio::time::timeout(Duration::from_secs(1), rig.host.preset("plain"));
    assert!(preset.await.is_err(), "it cannot be read");
    let Rig { host, disk, home, .. } = rig;
    tokio::time::timeout(house::LONG, host.stop()).await.expect("the host stops");
    disk.hang(false);
    drop(home);
}

#[tokio::test]
async fn the_end_stops_also_what_somebody_holds() {
    let rig = Rig::new(State::default()).await;
    let first = rig.host.preset("plain").await.unwrap();
    {
        let mut state = rig.state.lock().unwrap();
        (state.text, state.look) = (row("next"), 1);
    }
    assert_eq!(rig.reads().await, 1);
    let second = rig.host.preset("plain").await.unwrap();
    assert_eq!((first.generation, second.generation), (1, 2));
    assert_eq!(rig.host.stop_unused().await, 2);
    let left = || {
        let scopes = [&first, &second].map(|held| held.scope.parent().unwrap());
        let of_rows = scopes.map(reins_kernel::Scope::contributions);
        (of_rows, scopes[0].parent().unwrap().contributions())
    };
    let (of_rows, process) = left();
    assert!(of_rows[0] > 0 && of_rows[1] > of_rows[0] && process > 0, "{of_rows:?}, {process}");
    rig.end().await;
    assert_eq!(left(), ([0, 0], 0));
}
