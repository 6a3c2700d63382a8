//! What holds whatever happens: one object on standard output, one message for people, a fixed exit
//! code.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use reins_testkit::{At, Bin, Fault, Finished, Running, StrictServer, needs, script};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::demo::newest_session;
use crate::copy::copy_binary;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().env("DEEPSEEK_API_KEY", "a-key")
}

/// A shell that knows the binary as `$reins`; nothing when there is none.
fn shell() -> Option<Bin> {
    if !needs("bash").unwrap() {
        return None;
    }
    let bin = Bin::new("bash").unwrap().env("reins", env!("CARGO_BIN_EXE_reins"));
    Some(bin.env("DEEPSEEK_API_KEY", "a-key"))
}

/// The result, of which there is one, at the end.
#[track_caller]
fn result(end: &Finished) -> Value {
    let lines = end.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let is_result = |line: &&Value| line["schema"] == "reins.run/1";
    assert_eq!(lines.iter().filter(is_result).count(), 1, "{end:?}");
    lines.last().unwrap().clone()
}

fn send(running: &Running, signal: Signal) {
    let id = i32::try_from(running.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

async fn is_root() -> bool {
    Bin::new("id").unwrap().run(["-u"]).await.unwrap().stdout == "0\n"
}

#[tokio::test]
async fn a_panic_of_the_program_is_one_object_and_one_message() {
    for program in ["prlimit", "setpriv", "id"] {
        if !needs(program).unwrap() {
            return;
        }
    }
    // No thread can be made, which the runtime answers with a panic. The limit does not hold for
    // the administrator.
    let bin = Bin::new("setpriv").unwrap().env("DEEPSEEK_API_KEY", "a-key");
    let root = bin.project().parent().unwrap().to_owned();
    std::fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    let copy = root.join("reins");
    copy_binary(&copy).await;
    let mut args = Vec::new();
    if is_root().await {
        std::os::unix::fs::chown(bin.home(), Some(65534), Some(65534)).unwrap();
        args.extend(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    args.extend(["prlimit", "--nproc=1", copy.to_str().unwrap(), "run", "hi"]);
    for form in ["json", "stream-json"] {
        let end = bin.run(args.iter().chain(&["--output", form])).await.unwrap();
        assert_eq!(end.code, Some(1), "{end:?}");
        let result = result(&end);
        assert_eq!(result["error"]["code"], "INTERNAL", "{end:?}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("internal error at "), "{end:?}");
        assert_eq!(end.stderr.matches("internal error").count(), 1, "{end:?}");
        assert!(end.stderr.contains(message), "{end:?}");
    }
    let end = bin.run(&args).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{end:?}");
    assert_eq!(end.stderr.matches("internal error").count(), 1, "{end:?}");
}

#[tokio::test]
async fn a_second_signal_still_leaves_one_object() {
    if !needs("bash").unwrap() {
        return;
    }
    let command = json!({"command": "trap '' INT TERM; sleep 300", "description": "Wait"});
    for form in ["json", "stream-json"] {
        let server = StrictServer::start(script().call("bash", command.clone())).unwrap();
        let bin = bin().model_at(&server.base_url());
        let running = bin.spawn(["run", "--output", form, "hi"], None).await.unwrap();
        bin.until_log("\"type\":\"tool/start\"", 1).await.unwrap();
        // Two kinds, which cannot be taken for one; which of them is seen first is not said.
        send(&running, Signal::INT);
        send(&running, Signal::TERM);
        let end = running.finish().await.unwrap();
        let result = result(&end);
        let code = match end.code {
            Some(130) => "INTERRUPTED",
            Some(143) => "TERMINATED",
            _ => panic!("{end:?}"),
        };
        assert_eq!(result["reason"], "aborted", "{end:?}");
        assert_eq!(result["error"]["code"], code, "{end:?}");
        assert_eq!(result["session"], newest_session(&bin), "{end:?}");
    }
}

#[tokio::test]
async fn a_signal_while_the_prompt_is_awaited_leaves_one_object() {
    if !needs("mkfifo").unwrap() {
        return;
    }
    let Some(bash) = shell() else { return };
    let script = "mkfifo never && exec 3<>never && exec \"$reins\" run --output json - <&3";
    let running = bash.spawn(["-c", script], None).await.unwrap();
    while !running.stderr().contains("waiting for the end of standard input") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    send(&running, Signal::INT);
    let end = running.finish().await.unwrap();
    assert_eq!(end.code, Some(130), "{end:?}");
    assert_eq!(result(&end)["error"]["code"], "INTERRUPTED", "{end:?}");
    assert_eq!(std::fs::read_dir(bash.home()).unwrap().count(), 0);
}

#[tokio::test]
async fn settings_that_are_no_file_are_refused() {
    if !needs("mkfifo").unwrap() {
        return;
    }
    let Some(bash) = shell() else { return };
    let settings = bash.home().join("settings.toml");
    let check = "\"$reins\" config check";
    let end = bash.run(["-c", &format!("mkfifo {} && {check}", settings.display())]).await.unwrap();
    assert_eq!(end.code, Some(2), "{end:?}");
    let message =
        format!("reins: {}: not a regular file; correct or remove it\n", settings.display());
    assert_eq!(end.stderr, message);

    std::fs::remove_file(&settings).unwrap();
    std::os::unix::fs::symlink("absent.toml", &settings).unwrap();
    let end = bash.run(["-c", check]).await.unwrap();
    assert_eq!(end.code, Some(2), "{end:?}");
    let message = format!(
        "reins: {}: a link to `absent.toml`, which does not exist; \
         correct or remove it\n",
        settings.display()
    );
    assert_eq!(end.stderr, message);

    // A link to settings is as good as the file, and a patch may come from a command.
    let real = bash.home().join("absent.toml");
    std::fs::File::create(&real).unwrap();
    let patch = "[[row]]\\nid = \"deepseek\"\\nconfig = { vendor = \"deepseek\", \
                 api_key_env = \"OTHER_KEY\" }\\n";
    let script = format!("\"$reins\" config dump --patch <(printf '{patch}')");
    let end = bash.run(["-c", &script]).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.stdout.contains("OTHER_KEY"), "{end:?}");
}

#[tokio::test]
async fn a_directory_that_is_not_utf8_is_refused_before_anything_is_made() {
    let bin = bin();
    let folder = bin.project().join(OsStr::from_bytes(b"d\xff"));
    // Some file systems know no such names.
    let can = std::fs::create_dir(&folder).is_ok();
    if !reins_testkit::needs_condition("names that are not UTF-8", can).unwrap() {
        return;
    }
    let args = ["run", "--output", "json", "hi", "--cwd"].map(OsStr::new);
    let end = bin.run(args.into_iter().chain([folder.as_os_str()])).await.unwrap();
    assert_eq!(end.code, Some(2), "{end:?}");
    let message = format!(
        "the directory `{}` is not UTF-8; run in a directory whose whole path is",
        folder.canonicalize().unwrap().display()
    );
    assert_eq!(end.stderr, format!("reins: {message}\n"));
    assert_eq!(result(&end)["error"]["message"], message);
    assert_eq!(std::fs::read_dir(bin.home()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_limit_on_file_sizes_ends_the_run_with_words() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let Some(bash) = shell() else { return };
    let bash = bash.model_at(&server.base_url());
    let script = "ulimit -f 4; exec \"$reins\" run --output json hi";
    let end = bash.run(["-c", script]).await.unwrap();
    assert_eq!((end.code, end.signal), (Some(1), None), "{end:?}");
    let result = result(&end);
    assert_eq!(result["error"]["code"], "STORE", "{end:?}");
    assert!(end.stderr.contains("File too large"), "{end:?}");
}

#[tokio::test]
async fn a_torn_tail_that_was_cut_is_told() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let bin = bin().model_at(&server.base_url());
    for form in ["text", "json", "stream-json"] {
        let end = bin.run(["run", "--output", form, "hi"]).await.unwrap();
        assert_eq!(end.code, Some(0), "{end:?}");
        let [.., log] = &bin.logs().unwrap()[..] else { panic!("no log") };
        let mut file = std::fs::File::options().append(true).open(log).unwrap();
        let length = file.metadata().unwrap().len();
        file.write_all(b"{\"seq\":99").unwrap();

        let args = ["run", "--output", form, "--session", &newest_session(&bin), "go on"];
        let end = bin.run(args).await.unwrap();
        assert_eq!(end.code, Some(0), "{end:?}");
        let [line] =
            end.stderr.lines().filter(|line| line.contains("torn")).collect::<Vec<_>>()[..]
        else {
            panic!("not one line: {end:?}")
        };
        let damage = format!("the end of 00000000.log from byte {length}: ");
        assert!(
            line.starts_with("reins: the log was damaged: ") && line.contains(&damage),
            "{line}"
        );
        assert!(line.contains("; 9 bytes are kept in "), "{line}");
        let kept = line.rsplit(' ').next().unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), b"{\"seq\":99", "{line}");

        let again = bin.run(args).await.unwrap();
        assert!(!again.stderr.contains("torn"), "once: {again:?}");
    }
}

/// What stands on standard error when that alone is a terminal, and what is in the file.
async fn watch_errors(server: &StrictServer, term: &str, args: &str) -> Option<(Finished, String)> {
    if !needs("bash").unwrap() {
        return None;
    }
    let bin = super::terminal::watcher(server)?.env("TERM", term);
    let script = format!("exec {} run {args} > out", env!("CARGO_BIN_EXE_reins"));
    let watch = ["-c", super::terminal::WATCH, "two", "/usr/bin/env", "bash", "-c", &script];
    let mut end = bin.run(watch).await.unwrap();
    end.stderr = end.stderr.replace("\r\n", "\n");
    let out = std::fs::read_to_string(bin.project().join("out")).unwrap();
    Some((end, out))
}

#[tokio::test]
async fn progress_is_shown_where_only_errors_go_to_a_terminal() {
    let command = json!({"command": "true", "description": "Nothing"});
    let acts = script().text("first").call("bash", command).then().text("last");
    let server = StrictServer::start(acts).unwrap();
    let Some((end, out)) = watch_errors(&server, "xterm", "'do it'").await else { return };
    assert_eq!((end.code, out.as_str()), (Some(0), "last\n"), "{end:?}");
    assert!(end.stderr.contains("● bash true\n  ✓ bash: (no output)\n"), "{end:?}");
    assert!(end.stderr.contains("\r\u{1b}[K["), "a status line: {end:?}");
    assert!(!end.stderr.contains("first") && !end.stderr.contains("last"), "{end:?}");
    assert!(end.stderr.contains("2 steps · "), "{end:?}");
}

#[tokio::test]
async fn a_terminal_that_cannot_clear_a_line_is_told_of_silence_once() {
    let stall = Fault::Stall(At::Text, Duration::from_secs(600));
    let server = StrictServer::start(script().text("one half, other half").fault(stall)).unwrap();
    let watched = watch_errors(&server, "dumb", "'do it' --max-time 8s").await;
    let Some((end, _)) = watched else { return };
    assert_eq!(end.code, Some(5), "{end:?}");
    assert!(!end.stderr.contains(['\r', '\u{1b}']), "{end:?}");
    assert_eq!(end.stderr.matches("answering · no data for 5 s\n").count(), 1, "{end:?}");
}

#[tokio::test]
async fn a_full_output_is_said_once() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let Some(bash) = shell() else { return };
    let bash = bash.model_at(&server.base_url());
    for form in ["text", "json", "stream-json"] {
        let script = format!("exec \"$reins\" run --output {form} hi > /dev/full");
        let end = bash.run(["-c", &script]).await.unwrap();
        assert_eq!(end.code, Some(1), "{form}: {end:?}");
        assert_eq!(end.stderr.matches("No space left").count(), 1, "{form}: {end:?}");
    }
}
