//! Random lives of generations: what can be looked up equals a plain model at each moment, and
//! nothing is left at the end.

use std::collections::BTreeMap;

use proptest::prelude::*;
use reins_kernel::*;

use crate::plugins::journal;
use crate::rig::{Lamp, Store, Value, alive, catalog, composed, entries, noted};

/// The ids of rows; all plugins here that add an entry may have each of them.
const IDS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Tool,
    Post,
    /// Restart: provides the store, adds no entry.
    Store,
    /// Live: provides the lamp.
    Lamp,
    /// Live, needs lamp and store.
    Reader,
    /// Lets pass the ids whose bit is set.
    Fence(u8),
    /// Mounts, and fails then.
    Fails,
}

#[derive(Clone, Debug)]
struct RowPlan {
    what: What,
    tag: u8,
    off: bool,
}

type Rows = Vec<RowPlan>;

#[derive(Clone, Debug)]
enum Move {
    Build(Rows),
    Next(usize, Rows),
    Nested(usize, Rows),
    StopNested(usize),
    DropNested(usize),
    Stop(usize),
    Drop(usize),
}

fn rows() -> impl Strategy<Value = Rows> {
    let what = prop_oneof![
        4 => Just(What::Tool),
        3 => Just(What::Post),
        3 => Just(What::Store),
        2 => Just(What::Lamp),
        2 => Just(What::Reader),
        1 => any::<u8>().prop_map(What::Fence),
        1 => Just(What::Fails),
    ];
    let row = (what, 0..3_u8, prop::bool::weighted(0.15)).prop_map(|(what, tag, off)| RowPlan {
        what,
        tag,
        off,
    });
    prop::collection::vec(row, 0..=IDS.len())
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let at = 0..8_usize;
    let one = prop_oneof![
        2 => rows().prop_map(Move::Build),
        6 => (at.clone(), rows()).prop_map(|(at, rows)| Move::Next(at, rows)),
        6 => (at.clone(), rows()).prop_map(|(at, rows)| Move::Nested(at, rows)),
        2 => at.clone().prop_map(Move::StopNested),
        1 => at.clone().prop_map(Move::DropNested),
        2 => at.clone().prop_map(Move::Stop),
        1 => at.prop_map(Move::Drop),
    ];
    prop::collection::vec(one, 1..30)
}

impl RowPlan {
    fn text(&self, at: usize) -> String {
        let plugin = match self.what {
            What::Tool | What::Fails => "tool",
            What::Post => "post",
            What::Store => "store",
            What::Lamp => "lamp",
            What::Reader => "reader",
            What::Fence(_) => "fence",
        };
        let (id, tag) = (IDS[at], self.tag);
        let mut text = format!("{plugin}:{id} tag=t{tag}");
        if self.off {
            text.push_str(" off");
        }
        if let What::Fence(mask) = self.what {
            let pass: Vec<String> = IDS
                .iter()
                .enumerate()
                .filter(|(at, _)| mask & (1 << at) != 0)
                .map(|(_, id)| format!("\"{id}\""))
                .collect();
            text.push_str(&format!(" allow=[{}]", pass.join(",")));
        }
        if self.what == What::Fails {
            text.push_str(" fail=error");
        }
        text
    }

    fn stays(&self) -> bool {
        matches!(self.what, What::Post | What::Store)
    }
}

fn compose_rows(rows: &Rows) -> Composition {
    let texts: Vec<String> = rows.iter().enumerate().map(|(at, row)| row.text(at)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    composed(&texts, "").unwrap()
}

/// What one scope holds.
#[derive(Clone, Debug, Default)]
struct Held {
    entries: BTreeMap<&'static str, String>,
    store: Option<String>,
    lamp: Option<String>,
    fences: Vec<u8>,
    values: usize,
    contributions: usize,
}

impl Held {
    fn mount<'r>(
        rows: impl Iterator<Item = (usize, &'r RowPlan)> + Clone,
        around: &[&Held],
    ) -> Option<Self> {
        let mut held = Self::default();
        for (at, row) in rows.clone() {
            let tag = format!("t{}", row.tag);
            held.contributions += 1;
            held.values += 1;
            match row.what {
                What::Tool | What::Post => drop(held.entries.insert(IDS[at], tag)),
                What::Store if held.store.is_some() => return None,
                What::Store => held.store = Some(tag),
                What::Lamp if held.lamp.is_some() => return None,
                What::Lamp => held.lamp = Some(tag),
                What::Fence(mask) => held.fences.push(mask),
                What::Reader => {}
                What::Fails => return None,
            }
        }
        for (at, _) in rows.filter(|(_, row)| row.what == What::Reader) {
            let all = || std::iter::once(&held).chain(around.iter().copied());
            let store = all().find_map(|scope| scope.store.clone())?;
            let lamp = all().find_map(|scope| scope.lamp.clone())?;
            held.entries.insert(IDS[at], format!("{store} by {lamp}"));
        }
        Some(held)
    }

    /// What is seen through scopes, the nearest first.
    fn visible(scopes: &[&Held]) -> Vec<String> {
        let mut visible: BTreeMap<&str, &str> = BTreeMap::new();
        for scope in scopes.iter().rev() {
            visible.retain(|id, _| {
                let at = IDS.iter().position(|known| known == id).unwrap();
                scope.fences.iter().all(|mask| mask & (1 << at) != 0)
            });
            visible.extend(scope.entries.iter().map(|(id, tag)| (*id, tag.as_str())));
        }
        visible.iter().map(|(id, tag)| format!("{id}={tag}")).collect()
    }
}

struct Process {
    held: Held,
    rows: Rows,
    scope: Scope,
    users: usize,
}

struct Below {
    real: RowScope,
    held: Held,
}

struct One {
    real: Generation,
    held: Held,
    process: usize,
    below: Vec<Below>,
}

#[derive(Default)]
struct World {
    processes: Vec<Process>,
    generations: Vec<One>,
}

fn enabled(rows: &Rows, stays: Option<bool>) -> impl Iterator<Item = (usize, &RowPlan)> + Clone {
    let all = rows.iter().enumerate().filter(|(_, row)| !row.off);
    all.filter(move |(_, row)| stays.is_none_or(|stays| row.stays() == stays))
}

/// What a start with these rows would give: in the scope of the process, and below it.
fn start(rows: &Rows) -> Option<(Held, Held)> {
    let stay = Held::mount(enabled(rows, Some(true)), &[])?;
    let live = Held::mount(enabled(rows, Some(false)), &[&stay])?;
    Some((stay, live))
}

impl World {
    async fn apply(&mut self, step: &Move) {
        let some = self.generations.len();
        match step {
            Move::Build(rows) => self.build(rows).await,
            _ if some == 0 => {}
            Move::Next(at, rows) => self.next(at % some, rows).await,
            Move::Nested(at, rows) => self.nested(at % some, rows).await,
            Move::StopNested(at) => {
                if let Some(below) = self.generations[at % some].below.pop() {
                    below.real.stop().await;
                }
            }
            Move::DropNested(at) => drop(self.generations[at % some].below.pop()),
            Move::Stop(at) => {
                let one = self.leave(at % some);
                journal();
                one.real.stop().await;
                self.stopped(one.process);
            }
            Move::Drop(at) => drop(self.leave(at % some).real),
        }
    }

    async fn build(&mut self, rows: &Rows) {
        if self.processes.len() >= 3 {
            return;
        }
        let built = compose_rows(rows).build(&catalog(), 1, Root::default()).await;
        let expected = start(rows);
        assert_eq!(built.is_ok(), expected.is_some(), "{built:?}");
        let (Ok(real), Some((stay, live))) = (built, expected) else { return };
        let scope = real.scope.parent().unwrap().clone();
        self.processes.push(Process { held: stay, rows: rows.clone(), scope, users: 1 });
        let process = self.processes.len() - 1;
        self.generations.push(One { real, held: live, process, below: vec![] });
    }

    async fn next(&mut self, at: usize, rows: &Rows) {
        let process = self.generations[at].process;
        let around = &self.processes[process];
        let built = self.generations[at].real.next(compose_rows(rows), &catalog()).await;
        // What could not start is refused, and so is what needs a row that is not there yet.
        let live = Held::mount(enabled(rows, Some(false)), &[&around.held]);
        let live = start(rows).and(live);
        assert_eq!(built.is_ok(), live.is_some(), "{built:?}");
        let (Ok(real), Some(held)) = (built, live) else { return };
        let same = |before: &Rows, now: &Rows, at: usize| {
            let row = |rows: &Rows| {
                let row = rows.get(at).filter(|row| row.stays() && !row.off);
                row.map(|row| (row.what, row.tag))
            };
            (row(before).is_some() || row(now).is_some()) && row(before) != row(now)
        };
        let waiting = (0..IDS.len()).filter(|at| same(&around.rows, rows, *at)).count();
        assert_eq!(real.waiting.len(), waiting, "{:?}", real.waiting);
        self.processes[process].users += 1;
        self.generations.push(One { real, held, process, below: vec![] });
    }

    async fn nested(&mut self, at: usize, rows: &Rows) {
        let one = &mut self.generations[at];
        let process = &self.processes[one.process].held;
        let built = one.real.nested("preset", compose_rows(rows), &catalog()).await;
        let stands = !enabled(rows, None).any(|(_, row)| row.what == What::Store);
        let held = Held::mount(enabled(rows, None), &[&one.held, process]).filter(|_| stands);
        assert_eq!(built.is_ok(), held.is_some(), "{built:?}");
        if let (Ok(real), Some(held)) = (built, held) {
            one.below.push(Below { real, held });
        }
    }

    /// Takes a generation out; what is below it goes first.
    fn leave(&mut self, at: usize) -> One {
        let mut one = self.generations.remove(at);
        one.below.clear();
        self.processes[one.process].users -= 1;
        one
    }

    /// Rows that stay stop with the last generation of their process, and not before.
    fn stopped(&self, process: usize) {
        let process = &self.processes[process];
        let stopped = noted("stop").iter().filter(|line| line.contains("in process")).count();
        let rows = process.held.contributions;
        assert_eq!(stopped, if process.users == 0 { rows } else { 0 });
    }

    fn compare(&self) {
        let mut values = 0;
        for process in &self.processes {
            let held = if process.users == 0 { &Held::default() } else { &process.held };
            compare(&process.scope, &[held]);
            values += held.values;
        }
        for one in &self.generations {
            let process = &self.processes[one.process].held;
            compare(&one.real.scope, &[&one.held, process]);
            values += one.held.values;
            for below in &one.below {
                compare(&below.real.scope, &[&below.held, &one.held, process]);
                values += below.held.values;
            }
        }
        assert_eq!(alive().len(), values);
    }
}

fn compare(scope: &Scope, model: &[&Held]) {
    let expected = Held::visible(model);
    assert_eq!(entries(scope), expected);
    for id in IDS {
        let found = scope.entry::<Value>(id).map(|entry| format!("{id}={}", entry.value.tag));
        let start = format!("{id}=");
        assert_eq!(found.as_ref(), expected.iter().find(|line| line.starts_with(&start)));
        let anywhere = model.iter().any(|held| held.entries.contains_key(id));
        assert_eq!(scope.hidden_by::<Value>(id).is_some(), anywhere && found.is_none());
    }
    let store = scope.service::<dyn Store>().map(|store| store.tag().to_owned());
    assert_eq!(store, model.iter().find_map(|held| held.store.clone()));
    let lamp = scope.service::<dyn Lamp>().map(|lamp| lamp.tag().to_owned());
    assert_eq!(lamp, model.iter().find_map(|held| held.lamp.clone()));
    assert_eq!(scope.contributions(), model[0].contributions);
    assert_eq!(scope.contents().len(), model[0].contributions);
}

async fn live(steps: &[Move]) {
    let mut world = World::default();
    for step in steps {
        world.apply(step).await;
        world.compare();
    }
    let scopes: Vec<Scope> = world
        .generations
        .iter()
        .flat_map(|one| {
            let below = one.below.iter().map(|below| &below.real.scope);
            below.chain([&one.real.scope]).cloned().collect::<Vec<_>>()
        })
        .chain(world.processes.iter().map(|process| process.scope.clone()))
        .collect();
    // Half of them are dropped.
    let mut stops = true;
    while !world.generations.is_empty() {
        let last = world.generations.len() - 1;
        world.apply(&if stops { Move::Stop(last) } else { Move::Drop(last) }).await;
        world.compare();
        stops = !stops;
    }
    assert!(scopes.iter().all(|scope| scope.contributions() == 0));
    assert_eq!(alive(), [""; 0]);
}

proptest! {
    #[test]
    fn lookups_equal_the_model_and_nothing_is_left(steps in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(live(&steps));
        journal();
    }
}
