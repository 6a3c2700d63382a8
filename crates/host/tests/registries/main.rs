//! Every plugin of the product is mounted, used and unmounted, and nothing is left. Its own `main`:
//! the process host is this executable again, and threads, descriptors and children of the whole
//! process are counted.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that is its own runner")]

mod counts;
mod rows;
mod uses;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use reins_kernel::{
    Catalog, ContributionKind, Layer, Origin, PluginDef, References, Registration, Root, Scope,
    compose,
};
use reins_testkit::{StrictServer, processes_with_marker, script};
use reins_world::Env;

use counts::Counts;
use rows::{REGISTRIES, ROWS, Row};

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

type Found = BTreeSet<(ContributionKind, &'static str)>;

fn main() -> ExitCode {
    if let Some(code) = reins_sandbox::run_if_host_role(std::env::args_os()) {
        return code;
    }
    if !reins_testkit::needs("bash").unwrap() {
        return ExitCode::SUCCESS;
    }
    every_plugin_has_its_row();
    let mut found = Found::new();
    for row in ROWS {
        // The first time brings what stays for the life of a process.
        let first = alone(row, &mut found);
        let second = alone(row, &mut found);
        assert_eq!(first, second, "row `{}` leaves something", row.id);
        println!("test {} ... ok", row.plugin);
    }
    let listed: Found = REGISTRIES.iter().copied().collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "list {unlisted:?} in REGISTRIES, and use them in uses.rs");
    let unused: Vec<_> = listed.difference(&found).collect();
    assert!(unused.is_empty(), "no row contributes {unused:?}; add one, or take them out");
    println!("test {} registries ... ok", listed.len());
    let (first, second) = (together(), together());
    assert_eq!(first, second, "all rows together leave something");
    println!("test all together ... ok");
    ExitCode::SUCCESS
}

/// The plugins of all crates, and one of the test for registries that no plugin uses yet.
fn plugins() -> Vec<PluginDef> {
    [
        reins_world::PLUGINS,
        reins_store::PLUGINS,
        reins_agent::PLUGINS,
        reins_providers::PLUGINS,
        reins_tools::PLUGINS,
        reins_features::PLUGINS,
        reins_host::PLUGINS,
        &[rows::TEST_PLUGIN],
    ]
    .concat()
}

fn every_plugin_has_its_row() {
    let all: BTreeSet<&str> = plugins().iter().map(PluginDef::name).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.plugin).collect();
    let catalog = include_str!("../../../cli/src/catalog.rs");
    let is_other = |c: char| !c.is_alphanumeric() && !"_:".contains(c);
    let lists: Vec<&str> =
        catalog.split(is_other).filter(|word| word.contains("::PLUGIN")).collect();
    assert!(
        lists.len() > 6,
        "the catalog of the command line is written in another way: {lists:?}"
    );
    for list in lists {
        assert!(include_str!("main.rs").contains(list), "the product's {list} is not looked at");
    }
    let missing: Vec<_> = all.symmetric_difference(&rows).collect();
    assert!(missing.is_empty(), "bring the rows in rows.rs in line with the plugins: {missing:?}");
}

/// A row and what it needs, and what those need.
fn closure(row: &'static Row) -> Vec<&'static Row> {
    let mut rows: Vec<&Row> = vec![row];
    let mut at = 0;
    while at < rows.len() {
        for id in rows[at].needs {
            let needed = ROWS.iter().find(|row| row.id == *id).unwrap();
            if rows.iter().all(|row| row.id != *id) {
                rows.push(needed);
            }
        }
        at += 1;
    }
    rows
}

/// One row with what it needs, in a runtime of its own.
fn alone(row: &'static Row, found: &mut Found) -> Counts {
    in_a_runtime(async move |home, server| {
        let seen = round(&closure(row), home, server, Some(row)).await;
        assert!(seen.1 > 0, "row `{}` contributes nothing", row.id);
        seen.0
    })
    .map(|(seen, counts)| {
        found.extend(seen);
        counts
    })
    .unwrap()
}

/// All rows, with a turn that calls every tool.
fn together() -> Counts {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| !row.alternative).collect();
    let done = in_a_runtime(async move |home, server| round(&rows, home, server, None).await.0);
    done.unwrap().1
}

/// Runs this in a home and a runtime of its own, and counts what is left after both.
fn in_a_runtime<T>(work: impl AsyncFnOnce(&Path, &StrictServer) -> T) -> Option<(T, Counts)> {
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let server = StrictServer::start(uses::acts(script())).unwrap();
        let before = runtime.metrics().num_alive_tasks();
        let done = tokio::time::timeout(LONG, work(home.path(), &server)).await.ok()?;
        let left = async {
            while runtime.metrics().num_alive_tasks() > before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, left).await.ok()?;
        server.assert_clean();
        server.stop().await;
        Some(done)
    });
    drop(runtime);
    Some((done?, Counts::settled()))
}

/// Mounts, uses and unmounts. Answers what was contributed, and how much of it by `row`.
async fn round(
    rows: &[&Row],
    home: &Path,
    server: &StrictServer,
    row: Option<&Row>,
) -> (Found, usize) {
    let catalog = Catalog::new(&plugins()).unwrap();
    let url = server.base_url();
    let (path, mark) = ("/usr/bin:/bin", home.to_str().unwrap());
    let env =
        [("DEEPSEEK_API_KEY", "k"), ("DEEPSEEK_BASE_URL", &url), ("PATH", path), ("MARK", mark)];
    let env: Arc<Env> = Arc::new(env.into_iter().collect());
    let references = References { env: &|_| None, home };
    let composed = |nested: bool| {
        let texts = rows.iter().filter(|row| row.nested == nested).map(|row| row.text());
        let (name, text) = ("test".to_owned(), texts.collect());
        compose(&[Layer { name, file: None, text, head: &[] }], &catalog, &references).unwrap()
    };
    let mut root = Root::default();
    root.give::<Env>(env).unwrap();
    let generation = composed(false).build(&catalog, 1, root).await.unwrap();
    let preset = generation.nested("preset test", composed(true), &catalog).await.unwrap();

    let scopes: Vec<Scope> = preset.scope.outward().cloned().collect();
    assert_eq!(scopes.len(), 3, "preset, global, process");
    let contents = scopes.iter().flat_map(Scope::contents);
    let mut own = 0;
    let mut found = Found::new();
    for held in contents {
        own += usize::from(row.is_some_and(|row| *held.origin.row == *row.id));
        found.insert((held.kind, held.of));
    }
    let used = uses::everything(&preset.scope, home).await;
    let entries = found.iter().filter(|(kind, _)| *kind != ContributionKind::Restriction);
    let unused: Vec<_> = entries.filter(|(_, of)| !used.contains(of)).collect();
    assert!(unused.is_empty(), "use {unused:?} in uses.rs");

    let probes: Vec<(Weak<()>, Registration)> = scopes.iter().map(probe).collect();
    preset.stop().await;
    generation.stop().await;
    assert_eq!(processes_with_marker(mark), [0; 0], "commands that still run");
    for scope in &scopes {
        let left: Vec<_> =
            scope.contents().into_iter().filter(|c| &*c.origin.row != "test").collect();
        assert!(left.is_empty(), "{scope:?} still holds {left:?}");
        assert_eq!(scope.contributions(), 1, "the probe of {scope:?}");
    }
    drop((scopes, preset, generation));
    for (alive, registration) in probes {
        assert!(alive.upgrade().is_none(), "somebody holds the scope of {registration:?}");
    }
    (found, own)
}

/// A value that only the scope holds, and its registration, which holds no scope.
fn probe(scope: &Scope) -> (Weak<()>, Registration) {
    let probe = Arc::new(());
    let weak = Arc::downgrade(&probe);
    (weak, scope.add("probe", probe, &Origin::runtime("test")).unwrap())
}
