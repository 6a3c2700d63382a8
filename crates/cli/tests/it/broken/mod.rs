//! Tables of broken configurations: of each the exact message with its place and what to do, from
//! every command, and nothing is started half. `case.rs` says how a case is written.

mod case;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, stream};
use reins_testkit::{Bin, Finished, StrictServer, have, needs, needs_condition, script};

use crate::copy::copy_binary;

use case::{Case, SECRET, cases};

const REINS: &str = env!("CARGO_BIN_EXE_reins");

/// Cases that run at once.
const AT_ONCE: usize = 4;

const CHECK: &[&str] = &["config", "check"];
const DUMP: &[&str] = &["config", "dump"];
const EXPLAIN: &[&str] = &["explain", "tool", "bash"];
const RUN: &[&str] = &["run", "hi", "--output", "json"];

/// A command that does not mount rows finds what their texts show, and no more.
#[derive(Clone, Copy)]
enum Also {
    /// All of it is in the texts.
    Dump,
    /// What else the rows together show.
    Explain,
}

#[tokio::test]
async fn text_that_is_no_toml() {
    refused(REINS, include_str!("syntax.txt"), Also::Dump).await;
}

#[tokio::test]
async fn tables_and_keys_of_rows() {
    refused(REINS, include_str!("shape.txt"), Also::Dump).await;
}

#[tokio::test]
async fn keys_and_types_of_a_config() {
    refused(REINS, include_str!("config.txt"), Also::Dump).await;
}

#[tokio::test]
async fn references() {
    refused(REINS, include_str!("references.txt"), Also::Dump).await;
}

#[tokio::test]
async fn values_that_plugins_refuse_and_rows_that_need_each_other() {
    refused(REINS, include_str!("mount.txt"), Also::Explain).await;
}

#[tokio::test]
async fn files_that_cannot_be_read() {
    refused(REINS, include_str!("files.txt"), Also::Explain).await;
}

#[tokio::test]
async fn profiles() {
    refused(REINS, include_str!("profiles.txt"), Also::Explain).await;
}

#[tokio::test]
async fn agent_presets() {
    refused(REINS, include_str!("presets.txt"), Also::Explain).await;
}

#[tokio::test]
async fn several_mistakes_at_once() {
    refused(REINS, include_str!("several.txt"), Also::Explain).await;
}

#[tokio::test]
async fn what_has_no_effect_is_a_warning() {
    let cases = cases(include_str!("warnings.txt"));
    stream::iter(&cases).for_each_concurrent(AT_ONCE, warned).await;
}

/// Every mistake of the tables that the settings alone make is told of a patch and of a profile's
/// own rows, too.
#[tokio::test]
async fn the_same_mistakes_in_other_layers() {
    let tables = [
        include_str!("syntax.txt"),
        include_str!("shape.txt"),
        include_str!("config.txt"),
        include_str!("references.txt"),
        include_str!("mount.txt"),
    ];
    let cases: Vec<Case> = tables.iter().flat_map(|table| cases(table)).collect();
    let moved: Vec<Case> =
        cases.iter().flat_map(|case| [case.in_patch(), case.in_profile()]).flatten().collect();
    assert!(moved.len() > cases.len(), "most of {} are of the settings alone", cases.len());
    let check = async |case: &Case| {
        let place = Place::of(case, Bin::new(REINS).unwrap().env("DEEPSEEK_API_KEY", "a-key"));
        let check = place.run(CHECK, &case.options("check")).await;
        place.assert_refused(&check, &case.says("check").unwrap());
        assert_eq!(place.tree(), place.before, "{}: nothing was made or changed", case.name);
    };
    stream::iter(&moved).for_each_concurrent(AT_ONCE, check).await;
}

/// A binary with plugins of its own.
#[tokio::test]
async fn rows_that_a_binary_brings_along() {
    let binary = env!("CARGO_BIN_EXE_reins-test-watch");
    refused(binary, include_str!("added.txt"), Also::Explain).await;
}

/// Checks a table.
async fn refused(program: &str, table: &str, also: Also) {
    let server = StrictServer::start(script().text("never")).unwrap();
    let cases = cases(table);
    assert!(!cases.is_empty());
    let url = server.base_url();
    let bin = || Bin::new(program).unwrap().model_at(&url);
    let checks = cases.iter().map(|case| refuses(case, also, bin()));
    stream::iter(checks).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    assert_eq!(server.requests().len(), 0, "nobody was asked");
}

async fn refuses(case: &Case, also: Also, bin: Bin) {
    let place = Place::of(case, bin);
    let check = place.run(CHECK, &case.options("check")).await;
    match case.says("check") {
        Some(message) => place.assert_refused(&check, &message),
        None => place.assert_fine(&check),
    }
    if let Some(message) = case.says("run") {
        let run = place.run(RUN, &case.options("run")).await;
        place.assert_result(&run, &message);
    }
    if let Some(message) = case.always_says() {
        let (command, texts_only) = match also {
            Also::Dump => (DUMP, false),
            Also::Explain => (EXPLAIN, true),
        };
        let end = place.run(command, &case.options("")).await;
        // Neither mounts presets nor asks for the model of new sessions.
        if texts_only && end.code == Some(0) {
            place.assert_fine(&end);
        } else {
            place.assert_refused(&end, &message);
        }
    }
    assert_eq!(place.tree(), place.before, "{}: nothing was made or changed", case.name);
}

async fn warned(case: &Case) {
    let server = StrictServer::start(script().text("still here")).unwrap();
    let place = Place::of(case, Bin::new(REINS).unwrap().model_at(&server.base_url()));
    let warnings = place.filled(&case.warns());
    for command in [CHECK, DUMP] {
        let end = place.run(command, &case.options("")).await;
        assert_eq!(end.code, Some(0), "{}: {}", case.name, end.stderr);
        assert_eq!(end.stderr.trim_end(), warnings, "{}", case.name);
    }
    assert_eq!(place.tree(), place.before, "{}: nothing was made or changed", case.name);
    let end = place.run(&["run", "hi"], &case.options("run")).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "still here\n"), "{}", end.stderr);
    let rest = end.stderr.strip_prefix(&warnings);
    assert!(rest.is_some_and(|rest| !rest.contains("warning:")), "{}: {}", case.name, end.stderr);
}

/// The files of a case and the binary among them.
struct Place<'a> {
    case: &'a Case,
    bin: Bin,
    /// What stands before the arguments of the binary, when another program starts it.
    through: Vec<String>,
    before: Tree,
}

impl<'a> Place<'a> {
    fn of(case: &'a Case, bin: Bin) -> Self {
        let bin = case.lay_out(bin);
        let mut place = Self { case, bin, through: Vec::new(), before: Tree::new() };
        place.before = place.tree();
        place
    }

    async fn run(&self, command: &[&str], options: &[String]) -> Finished {
        let through = self.through.iter().map(String::as_str);
        let words = through.chain(command.iter().copied());
        self.bin.run(words.chain(options.iter().map(String::as_str))).await.unwrap()
    }

    fn filled(&self, text: &str) -> String {
        text.replace("<home>", &self.bin.home().display().to_string())
    }

    fn assert_refused(&self, end: &Finished, message: &str) {
        self.assert_says(end, message);
        assert_eq!(end.stdout, "", "{}", self.case.name);
    }

    fn assert_says(&self, end: &Finished, message: &str) {
        let name = &self.case.name;
        assert_eq!(end.code, Some(2), "{name}: {}", end.stderr);
        assert_eq!(end.stderr, format!("reins: {}\n", self.filled(message)), "{name}");
        assert!(!end.stderr.contains(SECRET), "{name}: {}", end.stderr);
    }

    /// The same in the object that a program reads.
    fn assert_result(&self, end: &Finished, message: &str) {
        self.assert_says(end, message);
        let name = &self.case.name;
        assert_eq!(end.stdout.lines().count(), 1, "{name}: {}", end.stdout);
        let object: serde_json::Value = serde_json::from_str(&end.stdout).unwrap();
        assert_eq!(object["session"], serde_json::Value::Null, "{name}");
        let error = &object["error"];
        let hint = error["hint"].as_str().map(|hint| format!("\nhint: {hint}"));
        let said = format!("{}{}", error["message"].as_str().unwrap(), hint.unwrap_or_default());
        assert_eq!(on_terminal(&said), self.filled(message), "{name}");
        assert!(!end.stdout.contains(SECRET), "{name}: {}", end.stdout);
    }

    fn assert_fine(&self, end: &Finished) {
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{}", self.case.name);
    }

    /// What is in the home, the project and the user's own folder.
    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let root = self.bin.home().parent().unwrap().to_owned();
        for folder in ["home", "project", "user"] {
            look(&root.join(folder), &mut tree);
        }
        tree
    }
}

/// As it is said to people: one who prints it is not controlled by it.
fn on_terminal(text: &str) -> String {
    let mut said = String::new();
    for c in text.chars() {
        if c.is_control() && c != '\n' { said.extend(c.escape_debug()) } else { said.push(c) }
    }
    said
}

/// Of each path what changes with its content.
type Tree = BTreeMap<PathBuf, [i64; 4]>;

fn look(path: &Path, tree: &mut Tree) {
    let found = path.symlink_metadata().unwrap();
    let size = found.size().cast_signed();
    let state = [i64::from(found.mode()), size, found.mtime(), found.mtime_nsec()];
    tree.insert(path.to_owned(), state);
    if found.is_dir() {
        path.read_dir().unwrap().for_each(|entry| look(&entry.unwrap().path(), tree));
    }
}

/// Root may read everything, so another user looks at what is closed.
#[tokio::test]
async fn files_that_nobody_may_read() {
    let is_root = have("id") && Bin::new("id").unwrap().run(["-u"]).await.unwrap().stdout == "0\n";
    if is_root && !needs("setpriv").unwrap() {
        return;
    }
    let shared = tempfile::tempdir().unwrap();
    open(shared.path());
    let copy = shared.path().join("reins");
    copy_binary(&copy).await;
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"].map(str::to_owned);
    for case in &cases(include_str!("closed.txt")) {
        let program = if is_root { Path::new("setpriv") } else { &copy };
        let bin = Bin::new(program).unwrap().env("DEEPSEEK_API_KEY", "a-key");
        open(bin.home().parent().unwrap());
        let mut place = Place::of(case, bin);
        if is_root {
            place.through = nobody.iter().cloned().chain([copy.display().to_string()]).collect();
        }
        let message = case.says("check").unwrap();
        place.assert_refused(&place.run(CHECK, &case.options("check")).await, &message);
        place.assert_result(&place.run(RUN, &case.options("run")).await, &message);
        assert_eq!(place.tree(), place.before, "{}", case.name);
    }
}

fn open(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// One case of each stage that a start goes through, seen by the system.
#[tokio::test]
async fn no_process_is_started() {
    if !needs("strace").unwrap() {
        return;
    }
    let stages = [
        (include_str!("files.txt"), "settings that are a folder"),
        (include_str!("config.txt"), "a misspelt key"),
        (include_str!("mount.txt"), "a service that a tool needs"),
        (include_str!("mount.txt"), "nothing where something is needed"),
        (include_str!("mount.txt"), "a default model of an unknown provider"),
        (include_str!("presets.txt"), "an unknown tool with a near name"),
    ];
    for (table, name) in stages {
        let cases = cases(table);
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let bin = Bin::new("strace").unwrap().env("DEEPSEEK_API_KEY", "a-key");
        let mut place = Place::of(case, bin);
        let trace = place.bin.home().parent().unwrap().join("trace");
        let through = ["-f", "-qq", "-e", "trace=execve,execveat,fork,vfork,clone,clone3", "-o"];
        place.through = through.map(str::to_owned).to_vec();
        place.through.push(trace.display().to_string());
        place.through.push(REINS.to_owned());
        let run = place.run(RUN, &case.options("run")).await;
        let can_trace = trace.metadata().is_ok_and(|found| found.len() > 0);
        if !needs_condition("a trace", can_trace).unwrap() {
            return;
        }
        place.assert_result(&run, &case.says("run").unwrap());
        let calls = std::fs::read_to_string(&trace).unwrap();
        let starts = |line: &&str| !line.contains("CLONE_THREAD") && !line.contains("resumed>");
        let started: Vec<&str> = calls.lines().filter(starts).collect();
        assert_eq!(started.len(), 1, "{name}: only the binary itself: {started:#?}");
    }
}
