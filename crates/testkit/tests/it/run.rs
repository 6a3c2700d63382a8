use std::time::Duration;

use reins_testkit::{Bin, BinError, have, needs, processes_with_marker};

fn shell() -> Bin {
    Bin::new("/bin/sh").unwrap()
}

#[tokio::test]
async fn it_runs_in_its_own_home_and_environment() {
    let bin = shell().model_at("http://127.0.0.1:1").env("EXTRA", "x");
    bin.file("sub/a.txt", "content").unwrap();
    let code = "cat sub/a.txt; pwd; env | sort; cat >&2; exit 7";
    let run = bin.run_with_input(["-c", code], b"from outside").await.unwrap();
    assert_eq!((run.code, run.signal, run.stderr.as_str()), (Some(7), None, "from outside"));
    assert!(run.stdout.starts_with(&format!("content{}\n", bin.project().display())), "{run:?}");
    let names: Vec<&str> =
        run.stdout.lines().skip(1).filter_map(|line| line.split_once('=')).map(|v| v.0).collect();
    let known = [
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        "EXTRA",
        "HOME",
        "LANG",
        "OLDPWD",
        "PATH",
        "PWD",
        "REINS_HOME",
        "SHLVL",
        "TZ",
        "_",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert!(run.stdout.contains(&format!("REINS_HOME={}", bin.home().display())));
    assert_eq!(bin.run(["-c", "cat"]).await.unwrap().stdout, "", "nothing to read");
    assert!(bin.logs().unwrap().is_empty());
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_killed() {
    let bin = shell().limit(Duration::from_millis(200));
    let error = bin.run(["-c", "echo so far; exec sleep 1000"]).await.unwrap_err();
    assert!(matches!(&error, BinError::Overrun { stdout, .. } if stdout == "so far\n"), "{error}");
}

#[tokio::test]
async fn it_is_killed_after_an_event_in_a_log() {
    let bin = shell();
    let code = "mkdir -p $REINS_HOME/sessions/1; for i in 1 2 3; do echo '{\"type\":\"tool/start\"}'; done \
                > $REINS_HOME/sessions/1/00000000.log; exec sleep 1000";
    let run = bin.spawn(["-c", code], None).await.unwrap();
    let killed = run.kill9_after(bin.until_log("\"type\":\"tool/start\"", 3)).await.unwrap();
    assert_eq!((killed.code, killed.signal), (None, Some(9)));
    let run = bin.spawn(["-c", "echo oops >&2; exit 1"], None).await.unwrap();
    let error = run.kill9_after(std::future::pending::<()>()).await.unwrap_err().to_string();
    assert!(error.contains("before it was to be killed") && error.contains("oops"), "{error}");
}

#[tokio::test]
async fn processes_of_a_run_are_found_by_their_environment() {
    let marker = format!("REINS_TEST_MARK={}", uuid());
    let (name, value) = marker.split_once('=').unwrap();
    let bin = shell().env(name, value);
    let run = bin.spawn(["-c", "echo > ready; exec sleep 1000"], None).await.unwrap();
    let id = run.id().unwrap();
    let ready = bin.project().join("ready");
    while !ready.exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(processes_with_marker(&marker), [id]);
    run.kill9_after(std::future::ready(())).await.unwrap();
    assert!(processes_with_marker(&marker).is_empty());
}

/// Unlike any other run of this test.
fn uuid() -> String {
    tempfile::tempdir().unwrap().path().display().to_string()
}

#[test]
fn an_absent_program_is_skipped_or_fails() {
    assert!(have("sh") && needs("sh").unwrap());
    let absent = "no-such-program-anywhere";
    assert!(!have(absent));
    let program = std::env::current_exe().unwrap();
    // The other half runs in a process of its own, so that it has its own environment.
    if std::env::var_os("REINS_TEST_NEEDS").is_some() {
        assert!(!needs(absent).unwrap());
        return;
    }
    let bin = Bin::new(program).unwrap().env("REINS_TEST_NEEDS", "1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let args = ["--exact", "run::an_absent_program_is_skipped_or_fails", "--nocapture"];
    let skipped = runtime.block_on(bin.run(args)).unwrap();
    assert_eq!(skipped.code, Some(0), "{skipped:?}");
    assert!(skipped.stderr.contains(&format!("SKIPPED (needs {absent})")), "{skipped:?}");
    let failed = runtime.block_on(bin.env("CI", "true").run(args)).unwrap();
    assert_eq!(failed.code, Some(101), "{failed:?}");
    assert!(failed.stderr.contains(&format!("needs {absent}, which is absent")), "{failed:?}");
}
