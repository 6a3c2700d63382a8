//! Prompts of one's own: what `/name` sends, what the log says of it, and what is refused.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use reins_testkit::{Bin, Finished, StrictServer, needs, read_events, script};
use serde_json::Value;

/// The binary and the model that it asks, which says `read` to everything.
struct Rig {
    server: StrictServer,
    bin: Bin,
}

impl Rig {
    fn new() -> Self {
        let server = StrictServer::start(script().text("read").forever()).unwrap();
        let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
        Self { server, bin }
    }

    /// Writes a prompt of the home.
    fn prompt(&self, below: &str, content: impl AsRef<[u8]>) -> &Self {
        self.bin.file(&format!("../home/prompts/{below}"), content).unwrap();
        self
    }

    async fn run(&self, args: &[&str]) -> Finished {
        self.bin.run(["run"].iter().chain(args)).await.unwrap()
    }

    /// The last prompt that the model got, and nothing was refused by it.
    fn sent(&self) -> String {
        self.server.assert_clean();
        let body = self.server.json_bodies().pop().unwrap();
        let messages = body["messages"].as_array().unwrap();
        let told = |message: &&Value| message["role"] == "user" && !is_facts(message);
        messages.iter().rfind(told).unwrap()["content"].as_str().unwrap().to_owned()
    }

    /// What the model got in this run, which went well.
    #[track_caller]
    fn got(&self, end: &Finished) -> String {
        assert_eq!((end.code, end.stdout.as_str()), (Some(0), "read\n"), "{}", end.stderr);
        self.sent()
    }

    /// Standard error of a run that is refused before anything is made or sent; the home is `~`.
    async fn refusal(&self, args: &[&str]) -> String {
        let requests = self.server.requests().len();
        let logs = self.bin.logs().unwrap();
        let end = self.run(args).await;
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{args:?}: {}", end.stderr);
        assert_eq!(self.server.requests().len(), requests, "{args:?}: nothing is sent");
        assert_eq!(self.bin.logs().unwrap(), logs, "{args:?}: no session is made");
        end.stderr.replace(self.bin.home().to_str().unwrap(), "~")
    }
}

/// Facts are told beside the prompt.
fn is_facts(message: &Value) -> bool {
    message["content"].as_str().unwrap().starts_with("Facts about the environment")
}

const REVIEW: &str = "---\r\ndescription: Look for mistakes\r\nargument-hint: FILE [HOW]\r\n---\r\n\
                      \r\nReview $1.\r\nAll: $ARGUMENTS\r\nIt costs $$5.\r\n";

#[tokio::test]
async fn a_name_sends_the_text_with_the_arguments_in_it() {
    let rig = Rig::new();
    rig.prompt("review.md", REVIEW).prompt("team/check.md", "Check it.\n");
    let cases: [(&[&str], &str); 6] = [
        (&["/review", "a.rs"], "Review a.rs.\nAll: a.rs\nIt costs $5."),
        (
            &["/review 'my file.rs' well"],
            "Review my file.rs.\nAll: 'my file.rs' well\nIt costs $5.",
        ),
        // The shell has split these already.
        (&["/review", "it's it.rs", "$1"], "Review it's it.rs.\nAll: it's it.rs $1\nIt costs $5."),
        (&["/team:check"], "Check it."),
        (&["/team:check", "don't", "stop"], "Check it.\n\ndon't stop"),
        (&["--", "/team:check", "--all"], "Check it.\n\n--all"),
    ];
    for (args, prompt) in cases {
        let end = rig.run(args).await;
        assert_eq!(rig.got(&end), prompt, "{args:?}");
    }
    // The file is read at each use.
    rig.prompt("team/check.md", "Check it twice.");
    let end = rig.run(&["/team:check"]).await;
    assert_eq!(rig.got(&end), "Check it twice.");
}

#[tokio::test]
async fn piped_input_follows_the_text_and_is_no_name_itself() {
    let rig = Rig::new();
    rig.prompt("review.md", REVIEW).prompt("ask.md", "$ARGUMENTS");
    let cases: [(&[&str], &str, &str); 5] = [
        (&["/review", "x"], "diff\n", "Review x.\nAll: x\nIt costs $5.\n\ndiff\n"),
        (&["/ask"], "all of it", "all of it"),
        (&["-"], "/review x", "/review x"),
        (&[], "/nothing\n", "/nothing\n"),
        (&["look"], "/review x", "look\n\n/review x"),
    ];
    for (args, input, prompt) in cases {
        let args = ["run"].iter().chain(args);
        let end = rig.bin.run_with_input(args, input.as_bytes()).await.unwrap();
        assert_eq!(rig.got(&end), prompt, "{input:?}");
    }
}

#[tokio::test]
async fn a_slip_in_a_name_is_not_sent() {
    let rig = Rig::new();
    rig.prompt("fix.md", "wrong");
    for prompt in ["/Fix it", "/fix: it", "/FIX", "/fxi it"] {
        let end = rig.run(&[prompt]).await;
        assert_eq!(end.code, Some(2), "{prompt}: {}", end.stdout);
        assert!(end.stderr.contains("; did you mean `/fix`?\n"), "{prompt}: {}", end.stderr);
    }
    assert_eq!(rig.bin.logs().unwrap(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn what_only_looks_like_a_name_is_sent_as_it_is() {
    let rig = Rig::new();
    rig.prompt("fix.md", "wrong");
    let plain = [
        "/tmp is full",
        "/usr/bin is full",
        " /fix",
        " /nothing",
        "/fix.",
        "//fix",
        "/ fix",
        "fix /fix",
        "/tmp",
    ];
    for prompt in plain {
        let end = rig.run(&[prompt]).await;
        assert_eq!(rig.got(&end), prompt);
    }
    let logs = rig.bin.logs().unwrap();
    assert_eq!(logs.len(), plain.len());
    for log in logs {
        let events = read_events(&log).unwrap();
        assert!(events.iter().all(|event| event.body.kind != "command/run"));
    }
    // A prompt of that name comes before a file of that path.
    rig.prompt("tmp.md", "Look at $1.");
    let end = rig.run(&["/tmp/x"]).await;
    assert_eq!(rig.got(&end), "/tmp/x");
    let end = rig.run(&["/tmp", "x"]).await;
    assert_eq!(rig.got(&end), "Look at x.");
}

#[tokio::test]
async fn a_disabled_row_makes_everything_plain() {
    let rig = Rig::new();
    rig.prompt("fix.md", "wrong")
        .bin
        .file("off.toml", "[[row]]\nid = \"prompts\"\ndisabled = true")
        .unwrap();
    for prompt in ["/fix", "/nothing at all", "/"] {
        let end = rig.run(&["--patch", "off.toml", prompt]).await;
        assert_eq!(rig.got(&end), prompt);
    }
}

#[tokio::test]
async fn the_log_says_which_command_made_the_message() {
    let rig = Rig::new();
    rig.prompt("review.md", REVIEW);
    let end = rig.run(&["--output", "stream-json", "/review", "a.rs", "well  done"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);

    let logs = rig.bin.logs().unwrap();
    let events = read_events(&logs[0]).unwrap();
    let at = events.iter().position(|event| event.body.kind == "command/run").unwrap();
    let run = &events[at];
    assert_eq!((run.body.v, run.body.ignorable), (Some(1), true));
    let data: Value = serde_json::from_str(run.body.data.get()).unwrap();
    let file = rig.bin.home().join("prompts/review.md");
    let id = data["commandId"].as_str().unwrap();
    // As sha256sum prints it.
    let sha = "25ec4d4f3e480168cbd64d7e83f25d3b8ce511d685f98795ed77c44edbaf7a13";
    let expected = serde_json::json!({
        "commandId": id, "name": "review", "args": "a.rs well  done",
        "source": {"kind": "user"}, "file": file, "sha256": sha,
    });
    assert_eq!(data, expected);
    let message = events.iter().position(|event| event.body.kind == "agent/inbox/spliced").unwrap();
    assert!(at < message, "the event comes before its message");

    let streamed: Vec<Value> =
        end.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(streamed.iter().any(|line| line["type"] == "command/run" && line["data"] == expected));

    let session = streamed.last().unwrap()["session"].as_str().unwrap().to_owned();
    let shown = rig.bin.run(["session", "show", &session]).await.unwrap();
    let line = format!("[{}] called /review a.rs well  done ({})\n", run.seq, file.display());
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    // The session goes on where there are no prompts any more.
    rig.bin.file("off.toml", "[[row]]\nid = \"prompts\"\ndisabled = true").unwrap();
    let end = rig.run(&["--continue", "--patch", "off.toml", "and now"]).await;
    assert_eq!(rig.got(&end), "and now");
}

#[tokio::test]
async fn an_unknown_name_is_refused_with_the_nearest_and_with_all() {
    let rig = Rig::new();
    let none = "hint: a space before the slash sends it as it is; a file NAME.md in `~/prompts` is \
                the prompt `/NAME`\n";
    let said = rig.refusal(&["/nmae", "x"]).await;
    assert_eq!(said, format!("reins: there is no prompt `/nmae`\n{none}"));

    rig.prompt("name.md", "x").prompt("review.md", REVIEW).prompt("My own.md", "x");
    rig.prompt("a/b.md", "---\nmodel: x\n---\ny");
    let list = "prompts are:\n  /a:b – ~/prompts/a/b.md:2: unknown key `model`\n  /name\n  \
                /review FILE [HOW] – Look for mistakes\n  not `~/prompts/My own.md`: names are \
                lower-case letters, digits, `-` and `_`, a letter first\n";
    let said = rig.refusal(&["/nmae", "x"]).await;
    let head = "reins: there is no prompt `/nmae`; did you mean `/name`?\nhint: a space before the \
                slash sends it as it is; ";
    assert_eq!(said, format!("{head}{list}"));
    let said = rig.refusal(&["/help"]).await;
    assert!(said.starts_with("reins: there is no prompt `/help`\nhint: "), "{said}");
    assert!(said.ends_with(list), "{said}");
    let said = rig.refusal(&["/"]).await;
    assert_eq!(said, format!("reins: `/` is not followed by the name of a prompt\nhint: {list}"));

    for number in 10..40 {
        rig.prompt(&format!("n{number}.md"), "x");
    }
    let said = rig.refusal(&["/help"]).await;
    assert_eq!(said.matches("\n  /").count(), 20, "{said}");
    assert!(said.contains("\n  and 13 more\n"), "{said}");
}

#[tokio::test]
async fn a_refusal_is_an_object_too() {
    let rig = Rig::new();
    rig.prompt("name.md", "x");
    let end = rig.run(&["--output", "json", "/nmae"]).await;
    let object: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!((end.code, &object["error"]["code"]), (Some(2), &"USAGE".into()));
    assert_eq!(object["error"]["message"], "there is no prompt `/nmae`; did you mean `/name`?");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused() {
    let rig = Rig::new();
    rig.prompt("review.md", REVIEW).prompt("one.md", "Look at\n$1.").prompt("all.md", "$ARGUMENTS");
    let cases: [(&[&str], &str); 4] = [
        (
            &["/review"],
            "reins: ~/prompts/review.md:6: `$1` stands here, and there is no argument 1\n\
             hint: usage: /review FILE [HOW]\n",
        ),
        (
            &["/one", "my", "file"],
            "reins: ~/prompts/one.md:2: `$1` is the last place for an argument, and there are 2 \
             arguments\nhint: usage: /one, with the arguments that the file names; quote a word as \
             in a shell; `\\'` is the character itself\n",
        ),
        (
            &["/one it's"],
            "reins: `/one`: the quote ' in the arguments is not closed\n\
             hint: quote a word as in a shell; `\\'` is the character itself\n",
        ),
        (
            &["/all"],
            "reins: `/all` makes an empty prompt without arguments\n\
             hint: write after it what it is to work on\n",
        ),
    ];
    for (args, said) in cases {
        assert_eq!(rig.refusal(args).await, said, "{args:?}");
    }
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_prompt_is_refused_with_its_path() {
    let rig = Rig::new();
    rig.prompt("latin.md", b"caf\xe9").prompt("large.md", "x".repeat(256 * 1024 + 1));
    rig.prompt("folder.md/x", "").prompt("open.md", "---\ndescription: d\n").prompt("empty.md", "");
    let folder = rig.bin.home().join("prompts");
    fifo(&folder.join("pipe.md"));
    symlink("gone.md", folder.join("link.md")).unwrap();
    let cases = [
        ("/latin", "`~/prompts/latin.md` is not UTF-8 text: invalid byte at offset 3 (line 1)"),
        ("/large", "`~/prompts/large.md` has 262145 bytes, more than the limit of 262144"),
        ("/folder", "`~/prompts/folder.md` is not a regular file but a directory"),
        ("/pipe", "`~/prompts/pipe.md` is not a regular file but a FIFO"),
        ("/link", "`~/prompts/link.md` is a link to `~/prompts/gone.md`, which does not exist"),
        ("/open", "~/prompts/open.md:1: the `---` of this line is not closed by another"),
        ("/empty", "~/prompts/empty.md: there is no text in it"),
    ];
    for (name, problem) in cases {
        let said = rig.refusal(&[name]).await;
        assert!(said.starts_with(&format!("reins: {problem}\nhint: ")), "{name}: {said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[tokio::test]
async fn the_row_takes_another_folder_and_limit() {
    let rig = Rig::new();
    rig.bin.file("own/fix.md", "Mend it.").unwrap();
    let own = rig.bin.project().join("own");
    let row = |config: &str| format!("[[row]]\nid = \"prompts\"\nconfig = {{ {config} }}\n");
    rig.bin.file("own.toml", row(&format!("folder = \"{}\"", own.display()))).unwrap();
    let end = rig.run(&["--patch", "own.toml", "/fix"]).await;
    assert_eq!(rig.got(&end), "Mend it.");

    let small = row(&format!("folder = \"{}\", max_bytes = 7", own.display()));
    rig.bin.file("own.toml", small).unwrap();
    let said = rig.refusal(&["--patch", "own.toml", "/fix"]).await;
    assert!(
        said.contains("fix.md` has 8 bytes, more than the limit of 7\nhint: shorten"),
        "{said}"
    );

    for (config, problem) in [
        ("folder = \"own\"", "field `config.folder`: must be an absolute path, found `own`"),
        ("folder = \"/x\", max_bytes = 0", "field `config.max_bytes`: must be"),
        ("max_bytes = 7", "field `config"),
    ] {
        rig.bin.file("own.toml", row(config)).unwrap();
        let said = rig.refusal(&["--patch", "own.toml", "hi"]).await;
        assert!(said.starts_with("reins: own.toml:"), "{said}");
        assert!(said.contains(&format!("row `prompts`, {problem}")), "{said}");
    }
}

#[tokio::test]
async fn two_rows_with_one_name_are_both_said() {
    let rig = Rig::new();
    rig.prompt("fix.md", "one").bin.file("own/fix.md", "two").unwrap();
    rig.bin.file("own/ask.md", "three").unwrap();
    let own = rig.bin.project().join("own");
    let row = format!(
        "[[insert]]\nid = \"own\"\nplugin = \"prompt-files\"\nconfig = {{ folder = \"{}\" }}\n",
        own.display()
    );
    rig.bin.file("own.toml", row).unwrap();
    let end = rig.run(&["--patch", "own.toml", "/ask"]).await;
    assert_eq!(rig.got(&end), "three");
    let said = rig.refusal(&["--patch", "own.toml", "/fix"]).await;
    let both =
        format!("`{}/fix.md` of row `own` (own.toml:1) and `~/prompts/fix.md`", own.display());
    assert!(said.starts_with(&format!("reins: there are two commands `/fix`: {both}")), "{said}");
}

#[tokio::test]
async fn what_a_project_brings_along_is_not_read_and_that_is_said() {
    let rig = Rig::new();
    rig.bin.file("repo/.git/HEAD", "").unwrap();
    rig.bin.file("repo/.reins/prompts/fix.md", "from the project").unwrap();
    rig.bin.file("repo/sub/x", "").unwrap();
    let repo = rig.bin.project().join("repo");
    let note = format!("reins: `{}/.reins/prompts` is not read: ", repo.display());

    let end = rig.run(&["--cwd", "repo/sub", "hello"]).await;
    assert_eq!(rig.got(&end), "hello");
    assert_eq!(end.stderr.matches(&note).count(), 1, "{}", end.stderr);
    let said = rig.refusal(&["--cwd", "repo", "/fix"]).await;
    assert!(said.contains("there is no prompt `/fix`"), "{said}");
    assert_eq!(said.matches("is not read: ").count(), 1, "{said}");

    let end = rig.run(&["hello"]).await;
    assert_eq!(rig.got(&end), "hello");
    assert!(!end.stderr.contains("is not read"), "above the project: {}", end.stderr);
    rig.bin.file("off.toml", "[[row]]\nid = \"prompts\"\ndisabled = true").unwrap();
    let end = rig.run(&["--patch", "off.toml", "--cwd", "repo", "hello"]).await;
    assert_eq!(rig.got(&end), "hello");
    assert!(!end.stderr.contains("is not read"), "{}", end.stderr);
}

#[tokio::test]
async fn a_folder_without_permission_is_said() {
    if !needs("setpriv").unwrap() {
        return;
    }
    let bin = Bin::new("setpriv").unwrap().env("DEEPSEEK_API_KEY", "a-key");
    bin.file("../home/prompts/fix.md", "x").unwrap();
    let folder = bin.home().join("prompts");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o000)).unwrap();
    // The administrator may read everything, unless without the capability.
    let root = rustix::process::geteuid().is_root();
    let dropped: &[&str] = if root { &["--bounding-set", "-all"] } else { &[] };
    let args = dropped.iter().chain(&[env!("CARGO_BIN_EXE_reins"), "run", "/fix"]);
    let end = bin.run(args).await.unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let said = end.stderr.replace(bin.home().to_str().unwrap(), "~");
    assert_eq!(end.code, Some(2), "{said}");
    assert!(said.starts_with("reins: no permission for `~/prompts/fix.md`"), "{said}");
    assert_eq!(bin.logs().unwrap().len(), 0);
}
