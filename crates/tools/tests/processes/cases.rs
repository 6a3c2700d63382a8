use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::shell::Shell;

type Case = for<'a> fn(&'a Shell) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) const ALL: [(&str, Case); 9] = [
    ("background children do not hold the call", |shell| Box::pin(background(shell))),
    ("standard input is at its end", |shell| Box::pin(input(shell))),
    ("a time limit ends the whole tree", |shell| Box::pin(time_limit(shell))),
    ("a silent failure says so", |shell| Box::pin(silence(shell))),
    ("huge and binary output is bounded text", |shell| Box::pin(huge(shell))),
    ("a cancelled command tells what it had", |shell| Box::pin(cancelled(shell))),
    ("what was written before a lost end is told", |shell| Box::pin(lost(shell))),
    ("a stopped supervisor does not hold the call", |shell| Box::pin(stopped(shell))),
    ("the shell is quiet and knows its session", |shell| Box::pin(environment(shell))),
];

/// Long before any of the commands would end by itself, also on a busy machine.
const SOON: Duration = Duration::from_secs(25);

/// B20
async fn background(shell: &Shell) {
    for command in [
        "sleep 60 & echo ok",
        "setsid sleep 60 >/dev/null & echo ok",
        "(while :; do echo x; sleep 0.1; done) & echo ok",
    ] {
        let begun = Instant::now();
        let (text, meta) = shell.ok(command, 50_000).await;
        assert!(begun.elapsed() < SOON, "{command}");
        assert!(text.lines().any(|line| line == "ok"), "{command}: {text}");
        assert!(text.contains("still run"), "{command}: {text}");
        assert_eq!((&meta["exitCode"], &meta["timedOut"]), (&0.into(), &false.into()));
    }
}

/// B21
async fn input(shell: &Shell) {
    let (text, _) = shell.ok("cat; read v; echo \"read: $? <$v>\"", 50_000).await;
    assert_eq!(text, "read: 1 <>\n");
}

/// B22
async fn time_limit(shell: &Shell) {
    for command in [
        "echo start; (sleep 40; touch late.txt) & wait",
        "trap '' TERM; echo start; (sleep 40; touch late.txt) & wait; sleep 40; touch late.txt",
        "echo start; setsid sh -c 'sleep 40; touch late.txt' & wait",
    ] {
        let begun = Instant::now();
        let (text, meta) = shell.ok(command, 1000).await;
        assert!(begun.elapsed() < SOON, "{command}");
        assert!(text.starts_with("start\n"), "{command}: {text}");
        assert!(text.contains("[timed out after 1000 ms]"), "{command}: {text}");
        assert_eq!(meta["timedOut"], true);
        assert_eq!(shell.alive(), Vec::<String>::new(), "{command}");
        assert!(!shell.has("late.txt"));
    }
}

/// B23
async fn silence(shell: &Shell) {
    let (text, meta) = shell.ok("exit 1", 50_000).await;
    assert_eq!((&*text, &meta["exitCode"]), ("(no output)\n[exit code: 1]", &1.into()));
    let (text, _) = shell.ok("kill -9 $$", 50_000).await;
    assert_eq!(text, "(no output)\n[killed by signal: SIGKILL]");
    let longest = format!("echo ok #{}", "x".repeat(131_062));
    assert_eq!((longest.len(), shell.ok(&longest, 50_000).await.0), (131_071, "ok\n".into()));
    let (text, _) = shell.ok("echo out; echo err >&2; exit 7", 50_000).await;
    assert_eq!(text, "out\n[stderr]\nerr\n[exit code: 7]");
}

/// B24
async fn huge(shell: &Shell) {
    let (text, meta) = shell.ok("head -c 3000000 /dev/urandom", 50_000).await;
    assert!(text.len() < 50_000, "{}", text.len());
    assert!(text.contains("bytes left out") && text.contains("not UTF-8"));
    assert_eq!(meta["truncated"], true);
    let (text, meta) = shell.ok("yes 'a line of text' | head -c 50000000; echo end", 50_000).await;
    assert!(text.len() < 50_000, "{}", text.len());
    assert!(text.starts_with("a line of text\n") && text.ends_with("end\n"));
    assert_eq!(meta["truncated"], true);
}

async fn cancelled(shell: &Shell) {
    let fifo = shell.dir.path().join("fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let cancel = shell.cancel.clone();
    let begun = Instant::now();
    let (reply, ()) =
        tokio::join!(shell.run("echo so far; echo > fifo; sleep 60", 50_000), async {
            // Resolves when the command has written into it.
            tokio::task::spawn_blocking(move || std::fs::read(fifo)).await.unwrap().unwrap();
            cancel.cancel();
        });
    let failure = reply.unwrap_err();
    assert!(begun.elapsed() < SOON);
    assert_eq!(failure.code, "ABORTED");
    assert!(failure.message.contains("so far"), "{failure}");
    assert_eq!(shell.alive(), Vec::<String>::new());
}

async fn lost(shell: &Shell) {
    let command = "echo so far; echo bad >&2; kill -9 $PPID; sleep 60";
    let failure = shell.run(command, 50_000).await.unwrap_err();
    assert_eq!(failure.code, "PROCESS_FAILED");
    let told = failure.message.ends_with("; until then:\nso far\n[stderr]\nbad\n");
    assert!(told && failure.message.contains("exit is unknown"), "{failure}");
}

async fn stopped(shell: &Shell) {
    let begun = Instant::now();
    let (text, meta) = shell.ok("echo so far; kill -STOP $PPID; sleep 60", 500).await;
    // The limit, the grace and somewhat more; the host itself waits several seconds longer.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(meta["timedOut"], true);
    assert!(text.starts_with("so far\n[timed out after 500 ms]\n"), "{text}");
    assert!(text.contains("still run"), "{text}");
}

async fn environment(shell: &Shell) {
    std::fs::create_dir(shell.dir.path().join("sub")).unwrap();
    let (text, _) = shell.ok("cd sub; pwd; echo $TERM $NO_COLOR $PAGER", 50_000).await;
    assert!(text.ends_with("/sub\ndumb 1 cat\n"), "{text}");
}
