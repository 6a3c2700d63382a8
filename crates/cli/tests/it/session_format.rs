//! `docs/session-format.md` and its example reader against sessions that the product made.

use std::path::{Path, PathBuf};

use reins_agent::{EVENT_TYPES, EventType};
use reins_schema::{Block, Event, Message, MessageId, Payload, SessionId, SourceRange, SurfaceOp};
use reins_session::{Fold, KnownTypes};
use reins_store::{JsonlStore, Store, StoreConfig};
use reins_testkit::{Acts, Bin, StrictServer, needs, script};
use serde_json::json;

const PAGE: &str = include_str!("../../../../docs/session-format.md");

/// A row that seals a segment as soon as it may be.
const SMALL: &str =
    "[[row]]\nid = \"store\"\nconfig = { home = \"${home}\", segment_bytes = 65536 }\n";

fn known() -> KnownTypes {
    EVENT_TYPES.into_iter().map(|(name, of)| (name.to_owned(), of)).collect()
}

/// What the example prints for a block.
fn words(block: &Block) -> String {
    match block {
        Block::Text(text) | Block::Reasoning(text) => text.clone(),
        Block::ToolCall(call) => format!("{} {}", call.name, call.arguments),
        Block::ToolResult(result) => {
            result.content.iter().map(words).collect::<Vec<_>>().join("\n")
        }
        other => panic!("{other:?}"),
    }
}

/// What the example has to print for a fold.
fn printed(fold: &Fold) -> String {
    let message = |node: &reins_session::Node| {
        let role = if node.message.role == reins_schema::Role::User { "user" } else { "assistant" };
        let words = node.message.content.iter().map(words).collect::<Vec<_>>().join("\n");
        format!("## {} {role}\n{words}\n", node.seq)
    };
    fold.surface().nodes().iter().map(message).collect()
}

/// Runs the example on a session's folder: its output and its errors.
async fn example(folder: &Path) -> (String, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/read_session.py");
    let end = Bin::new("python3").unwrap().run([script.as_path(), folder]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    (end.stdout, end.stderr)
}

/// A home with a store on it, and the program.
struct Home {
    bin: Bin,
    store: JsonlStore,
}

impl Home {
    fn new(server: &StrictServer) -> Self {
        let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
        bin.file("../home/settings.toml", SMALL).unwrap();
        let store = JsonlStore::new(StoreConfig::new(bin.home()));
        Self { bin, store }
    }

    fn folder(&self, id: &SessionId) -> PathBuf {
        self.bin.home().join("sessions").join(id.as_str())
    }

    fn names(&self, id: &SessionId, end: &str) -> usize {
        let names = std::fs::read_dir(self.folder(id)).unwrap();
        names.filter(|name| name.as_ref().unwrap().path().to_string_lossy().ends_with(end)).count()
    }

    /// A turn of a new session, or of this one.
    async fn turn(&self, session: Option<&SessionId>) {
        let go_on: Vec<&str> = session.iter().flat_map(|id| ["--session", id.as_str()]).collect();
        let end = self.bin.run(["run", "go"].iter().chain(&go_on)).await.unwrap();
        assert_eq!((end.code, end.stdout.as_str()), (Some(0), "done\n"), "{}", end.stderr);
    }

    async fn fold(&self, id: &SessionId) -> Fold {
        self.store.inspect(id, known()).await.unwrap().fold
    }

    /// Replaces the oldest two messages, the prompt and the facts, by one.
    async fn shadow(&self, id: &SessionId) {
        let mut session = self.store.open(id, known()).await.unwrap();
        let [first, last, ..] = session.fold.surface().nodes() else { panic!("no messages") };
        let (first, last) = (first.seq, last.seq);
        let message = Message::user(MessageId::new("shadow"), "What was asked, in short.");
        let payload = reins_schema::UserMessage { message, inbox: Vec::new() };
        let sources = vec![SourceRange::Range(first, last)];
        let mut body = Payload::from(payload).draft(sources).unwrap();
        body.surface = Some(SurfaceOp::Replace(first, last));
        let event = Event { seq: session.log.next_seq(), time: 1_800_000_000_000, body };
        session.fold.apply(&event).unwrap();
        session.log.append(event.into()).await.unwrap();
        session.log.close().await.unwrap();
    }

    async fn assert_read(&self, id: &SessionId) {
        let (text, errors) = example(&self.folder(id)).await;
        assert_eq!(text, printed(&self.fold(id).await));
        assert_eq!(errors, "");
    }
}

/// A model that reads a large file twice in each turn.
fn acts(turns: usize) -> Acts {
    let read = || json!({"file_path": "big.txt"});
    (0..turns).fold(script(), |acts, nth| {
        let acts = if nth > 0 { acts.then() } else { acts };
        acts.text("I look.").call("read", read()).then().call("read", read()).then().text("done")
    })
}

#[tokio::test]
async fn the_example_prints_what_the_model_sees_of_sealed_replaced_and_forked_sessions() {
    if !needs("python3").unwrap() || !needs("zstd").unwrap() {
        return;
    }
    let server = StrictServer::start(acts(4)).unwrap();
    let home = Home::new(&server);
    home.bin.file("big.txt", "a line of a large file, with an ä in it\n".repeat(900)).unwrap();
    home.turn(None).await;
    let parent = home.store.list(Default::default()).await.unwrap().sessions[0].header.id.clone();
    assert!(home.names(&parent, ".log.zst") > 0, "nothing was sealed");
    home.assert_read(&parent).await;
    home.shadow(&parent).await;
    home.assert_read(&parent).await;

    let at = home.fold(&parent).await.next_seq() - 1;
    home.turn(Some(&parent)).await;
    let child = home.store.fork(&parent, Some(at)).await.unwrap();
    home.assert_read(&child.id).await;
    home.turn(Some(&child.id)).await;
    home.turn(Some(&parent)).await;
    for id in [&parent, &child.id] {
        home.assert_read(id).await;
    }
    let [of_parent, of_child] = [home.fold(&parent).await, home.fold(&child.id).await];
    assert_eq!(of_parent.last_turn(), 3);
    assert_eq!(of_child.last_turn(), 2, "what the parent did later is not the child's");
}

#[tokio::test]
async fn the_example_reads_the_first_format_and_passes_over_damage() {
    if !needs("python3").unwrap() {
        return;
    }
    let home = Home::new(&StrictServer::start(script().text("unused")).unwrap());
    let id = SessionId::new("01a22e61-f270-709b-97ad-49fb8c8a532f");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    std::fs::create_dir_all(home.folder(&id)).unwrap();
    for name in ["header.json", "00000000.log"] {
        std::fs::copy(fixture.join(id.as_str()).join(name), home.folder(&id).join(name)).unwrap();
    }
    home.assert_read(&id).await;
    let whole = printed(&home.fold(&id).await);

    // Of a chunk, which is not on the surface.
    let log = home.folder(&id).join("00000000.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let damaged = text.replacen("\"ld see the f\"", "\"ld see the F\"", 1);
    assert_ne!(text, damaged);
    let mut file = std::fs::File::create(&log).unwrap();
    std::io::Write::write_all(&mut file, damaged.as_bytes()).unwrap();
    let (text, errors) = example(&home.folder(&id)).await;
    assert_eq!(text, whole);
    assert_eq!(errors, format!("{}: passed over a damaged line\n", log.display()));
    assert_eq!(printed(&home.fold(&id).await), whole, "the store agrees");
}

/// The types in the first column of the page's tables.
fn types() -> Vec<&'static str> {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("Events\n")).unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" | ").next().unwrap_or_default());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

#[test]
fn the_page_lists_every_type_of_event_and_no_other() {
    let types = types();
    let own = |name: &str| EVENT_TYPES.iter().any(|(own, _)| *own == name);
    for (name, EventType { version, .. }) in EVENT_TYPES {
        assert!(types.contains(&name) && version == 1, "{name}");
    }
    let core = types.iter().filter(|name| Payload::is_core(name)).count();
    assert_eq!(core, Payload::KINDS.len(), "of {:?}", Payload::KINDS);
    assert_eq!(types.len(), core + types.iter().filter(|name| own(name)).count(), "{types:?}");
}
