//! `bash` over scripted commands: what it asks for and what it makes of the end.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use reins_kernel::BoxFuture;
use reins_world::{CancelToken, Captured, CommandEnd, CommandSpec, Process, ProcessError};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Answers commands by their text and keeps what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    asked: Arc<Mutex<Vec<CommandSpec>>>,
}

impl Process for Script {
    fn run(
        &self,
        command: CommandSpec,
        cancel: CancelToken,
    ) -> BoxFuture<'static, Result<CommandEnd, ProcessError>> {
        let text = command.argv[2].to_string_lossy().into_owned();
        self.asked.lock().unwrap().push(command.clone());
        Box::pin(async move {
            let mut end = CommandEnd {
                code: Some(0),
                signal: None,
                timed_out: false,
                cancelled: false,
                stdout: Captured::default(),
                stderr: Captured::default(),
                survivors: 0,
            };
            match text.as_str() {
                "no shell" => {
                    let problem = "not found".to_owned();
                    return Err(ProcessError::Program { program: "bash".into(), problem });
                }
                "no room" => {
                    let problem = "arguments and environment exceed 9 bytes".to_owned();
                    return Err(ProcessError::Program { program: "bash".into(), problem });
                }
                "no folder" => {
                    let problem = "not found".to_owned();
                    return Err(ProcessError::Cwd { path: command.cwd, problem });
                }
                "closed folder" => {
                    let problem = "Permission denied".to_owned();
                    return Err(ProcessError::Cwd { path: command.cwd, problem });
                }
                "wait" => {
                    end.stdout.head = b"so far\n".to_vec();
                    cancel.cancelled().await;
                    (end.cancelled, end.code, end.signal) = (true, None, Some(15));
                }
                "spec" => {
                    let env = |key: &str| {
                        let found = command.env.iter().filter(|(name, _)| name == key);
                        found.map(|(_, value)| value.to_string_lossy().into_owned()).collect()
                    };
                    let env: Vec<Vec<String>> =
                        ["TERM", "PAGER", "REINS_SESSION_ID", "HOME"].map(env).to_vec();
                    let argv = command.argv[..2].iter().map(|part| part.to_string_lossy());
                    let spec = json!({
                        "argv": argv.collect::<Vec<_>>(),
                        "cwd": command.cwd.to_string_lossy(),
                        "limit": command.time_limit.as_secs_f64(),
                        "grace": command.grace.as_secs_f64(),
                        "keep": command.keep_bytes,
                        "env": env,
                    });
                    end.stdout.head = spec.to_string().into_bytes();
                }
                _ => end.code = Some(3),
            }
            Ok(end)
        })
    }

    fn child_env(&self) -> Vec<(OsString, OsString)> {
        vec![("TERM".into(), "xterm".into()), ("HOME".into(), "/home/x".into())]
    }

    fn shut_down(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn call(command: &str) -> Value {
    json!({"command": command, "description": "does it"})
}

#[tokio::test]
async fn the_command_gets_a_quiet_shell_in_the_right_place() {
    let bench = Bench::new().await;
    let spec: Value = serde_json::from_str(&bench.ok("bash", call("spec")).await.text).unwrap();
    assert_eq!(
        spec,
        json!({
            "argv": ["bash", "-c"],
            "cwd": bench.dir.path().to_string_lossy(),
            "limit": 120.0,
            "grace": 3.0,
            "keep": 64_000,
            "env": [["dumb"], ["cat"], ["session-1"], ["/home/x"]],
        })
    );
    let mut other = call("spec");
    other["timeoutMs"] = json!(9_000_000);
    other["workdir"] = json!("sub/dir");
    let spec: Value = serde_json::from_str(&bench.ok("bash", other).await.text).unwrap();
    assert_eq!(spec["limit"], 600.0, "never longer than the row allows");
    assert_eq!(spec["cwd"], json!(bench.path("sub/dir").to_string_lossy()));
}

#[tokio::test]
async fn a_failing_command_is_a_result() {
    let bench = Bench::new().await;
    let answer = bench.ok("bash", call("false")).await;
    assert_eq!(answer.text, "(no output)\n[exit code: 3]");
    assert_eq!(answer.meta["exitCode"], 3);
    assert_eq!(answer.meta["timedOut"], false);
    assert!(answer.meta["durationMs"].is_u64());
}

#[tokio::test]
async fn a_command_that_cannot_run_is_a_failure() {
    let bench = Bench::new().await;
    for (command, code, words) in [
        ("no shell", "SHELL_NOT_FOUND", "commands need `bash`"),
        ("no room", "PROCESS_FAILED", "most of it is the environment"),
        ("no folder", "FS_NOT_DIRECTORY", "existing folder as `workdir`"),
        ("closed folder", "FS_PERMISSION_DENIED", "denied; give a folder that may be entered"),
        (&"x".repeat(131_072), "INVALID_ARGS", "longer than a command line can be (131071 bytes)"),
        (" \n", "INVALID_ARGS", "`command` is empty"),
        ("a\0b", "INVALID_ARGS", "NUL"),
    ] {
        let (got, message) = bench.fails("bash", call(command)).await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
    let mut zero = call("x");
    zero["timeoutMs"] = json!(0);
    assert_eq!(bench.fails("bash", zero).await.0, "INVALID_ARGS");
}

#[tokio::test]
async fn a_cancelled_command_tells_what_it_had() {
    let bench = Bench::new().await;
    let (reply, ()) = tokio::join!(bench.fails("bash", call("wait")), async {
        tokio::task::yield_now().await;
        bench.cancel.cancel();
    });
    assert_eq!(reply.0, "ABORTED");
    assert!(reply.1.contains("so far"), "{}", reply.1);
}
