use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reins_world::{CancelToken, CommandEnd, CommandSpec, Env, LocalProcess, Process, ProcessError};
use tempfile::tempdir;

use crate::files::put;

fn env() -> Env {
    Env::from_iter([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/"),
        ("DEEPSEEK_API_KEY", "sk-1"),
        ("gh_token", "t"),
        ("REINS_HOME", "/h"),
        ("MY_KEY", "passed"),
    ])
}

fn process() -> LocalProcess {
    let host = PathBuf::from(env!("CARGO_BIN_EXE_reins-world-test-host"));
    LocalProcess::with_host_program(&env(), &["MY_KEY".to_owned()], host)
}

fn spec(process: &LocalProcess, argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: process.child_env(),
        time_limit: Duration::from_secs(60),
        grace: Duration::from_millis(300),
        keep_bytes: 1 << 16,
    }
}

fn bash(process: &LocalProcess, script: &str) -> CommandSpec {
    spec(process, &["bash", "-c", script])
}

async fn run(process: &LocalProcess, command: CommandSpec) -> Result<CommandEnd, ProcessError> {
    process.run(command, CancelToken::new()).await
}

async fn script(script: &str) -> CommandEnd {
    let process = process();
    let end = run(&process, bash(&process, script)).await.unwrap();
    process.shut_down().await;
    end
}

fn text(captured: &reins_world::Captured) -> String {
    assert_eq!((captured.omitted, captured.tail.len()), (0, 0));
    String::from_utf8(captured.head.clone()).unwrap()
}

/// Seconds to sleep that no other test run uses, to tell our processes from others.
fn mark(seconds: u32) -> String {
    format!("{seconds}.{:08}", std::process::id())
}

/// Processes whose arguments hold this.
fn alive(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.windows(mark.len()).any(|window| window == mark.as_bytes())
        })
        .count()
}

#[tokio::test]
async fn exits_and_output() {
    let end = script("echo out; echo err >&2; exit 3").await;
    assert_eq!((end.code, end.signal), (Some(3), None));
    assert_eq!((text(&end.stdout), text(&end.stderr)), ("out\n".into(), "err\n".into()));
    assert_eq!((end.timed_out, end.cancelled, end.survivors), (false, false, 0));
    let killed = script("kill -9 $$").await;
    assert_eq!((killed.code, killed.signal), (None, Some(9)));
    // Standard input is at its end, and there is no terminal.
    assert_eq!(text(&script("cat; echo $?; pwd").await.stdout), "0\n/\n");
}

#[tokio::test]
async fn secrets_stay_here() {
    let end = script("env").await;
    let mut lines: Vec<String> = text(&end.stdout).lines().map(str::to_owned).collect();
    lines.retain(|line| !["PWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own)));
    lines.sort();
    assert_eq!(lines, ["HOME=/", "MY_KEY=passed", "PATH=/usr/local/bin:/usr/bin:/bin"]);
    assert!(!format!("{:?}", env()).contains("sk-1"));
}

#[test]
fn what_looks_like_a_secret_is_withheld() {
    let host = PathBuf::from("/no/such/host");
    let passes = |name: &str, value: &str| {
        let env = Env::from_iter([(name, value)]);
        !LocalProcess::with_host_program(&env, &[], host.clone()).child_env().is_empty()
    };
    for name in [
        "PGPASSWD",
        "ssh_passphrase",
        "BEARER",
        "SESSION_COOKIE",
        "MYSQL_PWD",
        "GH_PAT",
        "npm_config__auth",
        "AUTH",
        "JWT",
        "MY_JWT_VALUE",
        "PRIVATE_KEY_FILE",
    ] {
        assert!(!passes(name, "x"), "{name}");
    }
    for name in
        ["PWD", "OLDPWD", "PATH", "PATTERN", "SSH_AUTH_SOCK", "XAUTHORITY", "JWTS", "AUTHOR"]
    {
        assert!(passes(name, "x"), "{name}");
    }
    for value in [
        "postgres://me:hunter2@db/x",
        "redis://:hunter2@cache",
        "a://b c://d:e@f",
        "\u{e9}://a:b@c",
    ] {
        assert!(!passes("URL", value), "{value}");
    }
    assert!(passes("https_proxy", "http://me:hunter2@proxy:3128"));
    for value in ["postgres://me@db/x", "http://host:80/a@b", "a:b@c", "http://me:@host", "://"] {
        assert!(passes("URL", value), "{value}");
    }
}

/// Git ends with an error when its counted list has a gap.
#[test]
fn gits_own_settings_go_as_a_whole_or_not_at_all() {
    let children = |value: &str| {
        let list =
            [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", value)];
        let env = Env::from_iter(list);
        LocalProcess::with_host_program(&env, &[], PathBuf::from("/no/such/host")).child_env().len()
    };
    assert_eq!(children("*"), 3);
    assert_eq!(children("https://me:hunter2@host"), 0);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let folder = tempdir().unwrap();
    let process = process();
    let missing = run(&process, spec(&process, &["no-such-program-anywhere", "x"])).await;
    let expected = ProcessError::Program {
        program: "no-such-program-anywhere".into(),
        problem: "No such file or directory".into(),
    };
    assert_eq!(missing, Err(expected));
    let cwd = folder.path().join("missing");
    let elsewhere = CommandSpec { cwd: cwd.clone(), ..bash(&process, "true") };
    let problem = "No such file or directory".into();
    assert_eq!(run(&process, elsewhere).await, Err(ProcessError::Cwd { path: cwd, problem }));
    let file = folder.path().join("file");
    put(&file, "x");
    let elsewhere = CommandSpec { cwd: file.clone(), ..bash(&process, "true") };
    let problem = "Not a directory".into();
    assert_eq!(
        run(&process, elsewhere).await,
        Err(ProcessError::Cwd { path: file.clone(), problem })
    );
    let not_executable = run(&process, spec(&process, &[file.to_str().unwrap()])).await;
    let program = file.to_str().unwrap().to_owned();
    let problem = "Permission denied".into();
    assert_eq!(not_executable, Err(ProcessError::Program { program, problem }));
    let empty = run(&process, spec(&process, &[])).await;
    assert!(matches!(empty, Err(ProcessError::Program { .. })), "{empty:?}");
    process.shut_down().await;
}

#[tokio::test]
async fn a_flood_is_kept_at_both_ends() {
    let process = process();
    let before = rss_kb();
    let flood = "echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end";
    let end = run(&process, bash(&process, flood)).await.unwrap();
    let all = 50_000_000 + 6 + 1 + 4;
    let kept = &end.stdout;
    assert_eq!((kept.head.len(), kept.tail.len()), (1 << 15, 1 << 15));
    assert_eq!(kept.omitted, all - (1 << 16));
    assert!(kept.head.starts_with(b"begin\nxx") && kept.tail.ends_with(b"xx\nend\n"));
    assert!(rss_kb() < before + 30_000, "{before} -> {}", rss_kb());
    // Exactly at the limit nothing is left out; one more byte is.
    for (bytes, omitted) in [(1000, 0), (1001, 1)] {
        let command = bash(&process, &format!("head -c {bytes} /dev/zero"));
        let end = run(&process, CommandSpec { keep_bytes: 1000, ..command }).await.unwrap();
        let Captured { head, tail, omitted: left } = end.stdout;
        assert_eq!((left, head.len() + tail.len()), (omitted, 1000));
        assert_eq!(tail.is_empty(), omitted == 0);
    }
    process.shut_down().await;
}

use reins_world::Captured;

fn rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_result() {
    let process = process();
    let started = Instant::now();
    let nap = mark(61);
    let end = run(&process, bash(&process, &format!("sleep {nap} & echo ok"))).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!((end.code, text(&end.stdout), end.survivors), (Some(0), "ok\n".into(), 1));
    assert_eq!(alive(&nap), 1);
    // A survivor that writes on is neither blocked nor killed by a closed pipe.
    let folder = tempdir().unwrap();
    let mark = folder.path().join("done");
    let writer = format!("(head -c 1000000 /dev/zero; echo > {}) & true", mark.display());
    let end = run(&process, bash(&process, &writer)).await.unwrap();
    assert_eq!(end.code, Some(0));
    let until = Instant::now() + Duration::from_secs(20);
    while !mark.exists() {
        assert!(Instant::now() < until);
        tokio::task::yield_now().await;
    }
    process.shut_down().await;
    assert_eq!(alive(&nap), 0);
}

#[tokio::test]
async fn the_time_limit_ends_the_tree() {
    let process = process();
    let nap = mark(62);
    let stubborn =
        format!("trap '' TERM; (trap '' TERM; sleep {nap}) & echo begun; sleep {nap}; exit 0");
    let limit = Duration::from_millis(500);
    let command = CommandSpec { time_limit: limit, ..bash(&process, &stubborn) };
    let started = Instant::now();
    let end = run(&process, command).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((end.timed_out, end.cancelled, end.survivors), (true, false, 0));
    assert_eq!((end.code, end.signal, text(&end.stdout)), (None, Some(9), "begun\n".into()));
    assert_eq!(alive(&nap), 0);
    // What ends politely may give its own code; the limit passed all the same.
    let polite = format!("trap 'exit 7' TERM; sleep {nap} & wait");
    let command = CommandSpec { time_limit: limit, ..bash(&process, &polite) };
    let end = run(&process, command).await.unwrap();
    assert_eq!((end.timed_out, end.code, end.signal), (true, Some(7), None));
    process.shut_down().await;
}

#[tokio::test]
async fn cancelling_and_dropping_end_the_tree() {
    let process = Arc::new(process());
    let folder = tempdir().unwrap();
    let begun = |name: &str| folder.path().join(name);
    let command = |name: &str, mark: &str| {
        bash(&process, &format!("sleep {mark} & echo > {}; wait", begun(name).display()))
    };
    let (first, second) = (mark(63), mark(64));
    let cancel = CancelToken::new();
    let running = process.run(command("a", &first), cancel.clone());
    let (end, ()) = tokio::join!(running, async {
        until(|| begun("a").exists()).await;
        cancel.cancel();
        cancel.cancel();
    });
    let end = end.unwrap();
    assert_eq!((end.cancelled, end.timed_out, end.signal), (true, false, Some(15)));
    assert_eq!((end.survivors, alive(&first)), (0, 0));
    // Cancelled before it began.
    let end = process.run(command("b", &first), cancel).await.unwrap();
    assert!(end.cancelled);
    let mut dropped = process.run(command("c", &second), CancelToken::new());
    tokio::select! {
        end = &mut dropped => panic!("{end:?}"),
        () = until(|| begun("c").exists()) => {}
    }
    drop(dropped);
    until(|| alive(&second) == 0).await;
    process.shut_down().await;
}

async fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "it did not come to hold");
        tokio::task::yield_now().await;
    }
}

/// Children of this process that are hosts of this test file's process.
fn hosts(process: &Path) -> Vec<rustix::process::Pid> {
    let children = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let lists =
        children.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
    });
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains("__sandbox-host")
            && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == process)
    })
    .filter_map(rustix::process::Pid::from_raw)
    .collect()
}

#[tokio::test]
async fn a_dead_host_ends_commands_and_the_next_one_gets_a_new_host() {
    // A name of its own, so that the hosts of other tests are told apart. A copy could be "busy":
    // another test may fork while it is being written.
    let host = Path::new(env!("CARGO_BIN_EXE_reins-world-test-host"));
    let folder = tempfile::tempdir_in(host.parent().unwrap()).unwrap();
    let program = folder.path().join("host");
    std::fs::hard_link(host, &program).unwrap();
    let process = LocalProcess::with_host_program(&env(), &[], program.clone());
    let begun = folder.path().join("begun");
    let nap = mark(65);
    let command = bash(&process, &format!("echo > {}; sleep {nap}", begun.display()));
    let running = process.run(command, CancelToken::new());
    let (end, ()) = tokio::join!(running, async {
        until(|| begun.exists()).await;
        let [host] = hosts(&program)[..] else { panic!("one host") };
        rustix::process::kill_process(host, rustix::process::Signal::KILL).unwrap();
    });
    assert!(matches!(end, Err(ProcessError::Supervisor(_))), "{end:?}");
    until(|| alive(&nap) == 0).await;
    let end = run(&process, bash(&process, "echo again")).await.unwrap();
    assert_eq!(text(&end.stdout), "again\n");
    process.shut_down().await;
    let stopped = run(&process, bash(&process, "true")).await;
    assert!(matches!(stopped, Err(ProcessError::Supervisor(_))), "{stopped:?}");
    assert_eq!(hosts(&program), []);
}

#[tokio::test]
async fn a_host_that_cannot_start_says_so() {
    let process = LocalProcess::with_host_program(&env(), &[], "/no/such/host".into());
    let refused = run(&process, bash(&process, "true")).await;
    let Err(ProcessError::Supervisor(problem)) = &refused else { panic!("{refused:?}") };
    assert!(problem.contains("/no/such/host"), "{problem}");
    process.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_at_once() {
    let process = Arc::new(process());
    let mut running = tokio::task::JoinSet::new();
    for n in 0..100 {
        let process = Arc::clone(&process);
        running.spawn(async move {
            let end = run(&process, bash(&process, &format!("echo {n}; exit {n}"))).await.unwrap();
            assert_eq!((end.code, text(&end.stdout)), (Some(n), format!("{n}\n")));
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    process.shut_down().await;
}
