//! What a command finds when it runs, and how its exit is told.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use reins_sandbox::{CommandSpec, HostClient, Report, SandboxError, SpawnStage};

use crate::support::{Host, bash, read_until, test_host};

fn text(command: &CommandSpec) -> String {
    String::from_utf8(Host::start().run(command).output).unwrap()
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let mut host = Host::start();
    for code in [0, 1, 2, 126, 127, 137, 255] {
        let outcome = host.run(&bash(&format!("exit {code}")));
        assert_eq!((outcome.code, outcome.signal, outcome.left), (Some(code), None, 0));
        assert_eq!((outcome.survivors, outcome.output.len()), (0, 0));
    }
    for signal in [1, 6, 9, 11, 13, 15] {
        let outcome = host.run(&bash(&format!("ulimit -c 0; kill -{signal} $$")));
        assert_eq!((outcome.code, outcome.signal), (None, Some(signal)));
    }
}

#[test]
fn a_started_command_is_named_by_the_pid_of_its_main_process_and_group() {
    let mut host = Host::start();
    let (id, mut reader) = host.spawn(&bash("echo $$ $(ps -o pgid= -p $$)"));
    let pid = host.started(id);
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    assert_eq!(output.trim(), format!("{pid} {pid}"));
}

#[test]
fn the_environment_is_exactly_the_given_one() {
    let mut command = CommandSpec::new(["/usr/bin/env", "-0"], Path::new("/"));
    assert_eq!(text(&command), "");
    command.env = vec![("A".into(), "1\n2".into()), ("EMPTY".into(), "".into())];
    assert_eq!(text(&command), "A=1\n2\0EMPTY=\0");
}

#[test]
fn the_host_holds_nothing_of_the_harness_that_a_command_could_read() {
    let host = Host::start();
    let pid = host.client.pid();
    assert_eq!(std::fs::read(format!("/proc/{pid}/environ")).unwrap(), b"");
    assert_eq!(std::fs::read(format!("/proc/{pid}/comm")).unwrap(), b"reins-host\n");
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
}

#[test]
fn arguments_and_directory_arrive_byte_for_byte() {
    use std::os::unix::ffi::OsStringExt;
    let directory = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsString::from_vec(b"a\xff \n'\"$x".to_vec());
    let cwd = directory.path().join(&odd);
    std::fs::create_dir(&cwd).unwrap();
    let mut command = bash("printf '%s|' \"$@\"; pwd -P");
    command.argv.extend(["name".into(), odd.clone(), "".into()]);
    command.cwd = cwd.canonicalize().unwrap();
    let output = Host::start().run(&command).output;
    let mut expected = odd.into_vec();
    expected.extend_from_slice(b"||");
    expected.extend_from_slice(command.cwd.as_os_str().as_encoded_bytes());
    expected.push(b'\n');
    assert_eq!(output, expected);
}

#[test]
fn standard_input_is_at_its_end() {
    let started = Instant::now();
    assert_eq!(
        text(&bash("cat; read v || echo end; readlink /proc/self/fd/0")),
        "end\n/dev/null\n"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn there_is_no_controlling_terminal() {
    let output = text(&bash("exec 3<>/dev/tty || echo none; ps -o tty= -p $$"));
    assert!(output.contains("none\n") && output.trim_end().ends_with('?'), "{output}");
}

#[test]
fn no_descriptor_but_the_three_is_passed_on() {
    // One this process holds open without close-on-exec would be the easiest to leak.
    let leak = std::fs::File::open("/dev/zero").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let mut host = Host::start();
    let (id, _reader) = host.spawn(&bash("sleep 1000"));
    host.started(id);
    let outcome = host.run(&CommandSpec::new(["/bin/ls", "-l", "/proc/self/fd"], Path::new("/")));
    let listing = String::from_utf8(outcome.output).unwrap();
    let mut shown: Vec<&str> = listing.lines().filter(|line| line.contains("->")).collect();
    // ls itself opens the directory that it lists.
    shown.retain(|line| !line.contains("/proc/"));
    assert_eq!(shown.len(), 3, "{listing}");
    assert_eq!(shown.iter().filter(|line| line.contains("pipe:")).count(), 2, "{listing}");
}

#[test]
fn signals_are_at_their_defaults_and_none_is_blocked() {
    let output = text(&bash("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
    assert_eq!(output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    // With SIGPIPE ignored this would complain and exit 1.
    assert_eq!(text(&bash("set -o pipefail; yes | head -1; echo ${PIPESTATUS[0]}")), "y\n141\n");
}

#[test]
fn ten_megabytes_of_output_arrive_whole() {
    let outcome = Host::start().run(&bash("head -c 10000000 /dev/zero | tr '\\0' x"));
    assert_eq!(outcome.output.len(), 10_000_000);
    assert!(outcome.output.iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_large_environment_and_argument_list_arrive() {
    let mut command = bash("echo ${#BIG0} ${#BIG7} $#");
    let value = "v".repeat(100_000);
    command.env.extend((0..8).map(|n| (format!("BIG{n}").into(), value.clone().into())));
    command.argv.extend((0..2000).map(|n| format!("argument {n:0>50}").into()));
    assert_eq!(text(&command), "100000 100000 1999\n");
}

fn failure(command: &CommandSpec) -> (SpawnStage, i32, String) {
    let mut host = Host::start();
    let (id, mut reader) = host.spawn(command);
    let mut output = Vec::new();
    reader.read_to_end(&mut output).unwrap();
    assert!(output.is_empty());
    match host.report(id) {
        Report::SpawnFailed { stage, errno, what, .. } => (stage, errno, what),
        other => panic!("expected SpawnFailed, got {other:?}"),
    }
}

#[test]
fn what_cannot_start_is_told_by_step_error_and_path() {
    const ENOENT: i32 = 2;
    const E2BIG: i32 = 7;
    const ENOEXEC: i32 = 8;
    const EACCES: i32 = 13;
    const ENOTDIR: i32 = 20;
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.path().join(name);
        std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), content.as_bytes())
            .unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let root = Path::new("/");
    let program = |name: &str| failure(&CommandSpec::new([name], root));

    let missing = failure(&CommandSpec::new(["/bin/true"], Path::new("/no/such/place")));
    assert_eq!(missing, (SpawnStage::Directory, ENOENT, "/no/such/place".into()));
    let plain = file("plain", "not a program", 0o644);
    let under_file = failure(&CommandSpec::new(["/bin/true"], Path::new(&plain)));
    assert_eq!(under_file, (SpawnStage::Directory, ENOTDIR, plain.clone()));
    assert_eq!(program("/no/such"), (SpawnStage::Program, ENOENT, "/no/such".into()));
    assert_eq!(program(&plain), (SpawnStage::Program, EACCES, plain.clone()));
    let script = file("script", "#!/no/such/shell\n", 0o755);
    assert_eq!(program(&script), (SpawnStage::Interpreter, ENOENT, script.clone()));
    let text = file("text", "echo no first line\n", 0o755);
    assert_eq!(program(&text), (SpawnStage::Program, ENOEXEC, text.clone()));

    let mut bare = CommandSpec::new(["no-such-program"], root);
    assert_eq!(failure(&bare), (SpawnStage::Program, ENOENT, "no-such-program".into()));
    bare.env = vec![("PATH".into(), "/bin:/usr/bin".into())];
    assert_eq!(failure(&bare), (SpawnStage::Program, ENOENT, "no-such-program".into()));
    bare.argv = vec!["plain".into()];
    bare.env = vec![("PATH".into(), format!("/bin:{}:/", directory.path().display()).into())];
    assert_eq!(failure(&bare), (SpawnStage::Program, EACCES, plain));

    let mut long = CommandSpec::new(["/bin/true"], root);
    long.argv.push("x".repeat(200_000).into());
    assert_eq!(failure(&long), (SpawnStage::Program, E2BIG, "/bin/true".into()));
}

#[test]
fn a_bare_name_is_found_through_the_given_path() {
    let mut command = bash("echo ok");
    command.argv[0] = "bash".into();
    assert_eq!(text(&command), "ok\n");
}

#[test]
fn an_id_in_use_is_refused() {
    let mut host = Host::start();
    let (id, _reader) = host.spawn(&bash("sleep 1000"));
    host.started(id);
    let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
    host.client.spawn(id, &bash(":"), &null, &null).unwrap();
    let refused = host.report(id);
    assert!(matches!(refused, Report::SpawnFailed { errno: 17, .. }), "{refused:?}");
    host.client.kill(id, 0).unwrap();
    assert_eq!(host.exited(id), (None, Some(9), 0));
    assert_eq!(host.gone(id), 0);
}

#[test]
fn fifty_commands_run_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let mut running = Vec::new();
    for n in 0..50 {
        let script = format!("echo up; until [ -e go ]; do sleep 0.05; done; echo {n}; exit {n}");
        let mut command = bash(&script);
        command.cwd = directory.path().to_owned();
        running.push(host.spawn(&command));
    }
    for (_, reader) in &mut running {
        read_until(reader, "up\n");
    }
    std::fs::File::create(directory.path().join("go")).unwrap();
    for (n, (id, mut reader)) in (0..).zip(running) {
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        assert_eq!(output, format!("{n}\n"));
        host.started(id);
        assert_eq!(host.exited(id), (Some(n), None, 0));
        assert_eq!(host.gone(id), 0);
    }
}

#[test]
fn hundreds_of_requests_without_reading_reports_lose_none() {
    let mut host = Host::start();
    let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let command = CommandSpec::new(["/bin/true"], Path::new("/"));
    let ids = 10_000..10_400;
    for id in ids.clone() {
        loop {
            match host.client.spawn(id, &command, &null, &null) {
                Ok(()) => break,
                Err(SandboxError::Full) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
    for id in ids {
        host.started(id);
        assert_eq!(host.exited(id), (Some(0), None, 0));
        assert_eq!(host.gone(id), 0);
    }
}

#[test]
fn a_program_that_is_no_host_is_refused_with_its_name() {
    let error = HostClient::start_program(Path::new("/bin/true")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/bin/true did not become a sandbox host"), "{text}");
    let error = HostClient::start_program(Path::new("/no/such")).unwrap_err();
    assert!(matches!(error, SandboxError::Start { .. }) && error.to_string().contains("/no/such"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the role typed by hand")]
fn the_role_by_hand_says_what_it_is_for() {
    let output = std::process::Command::new(test_host())
        .arg(reins_sandbox::HOST_ROLE)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not by hand"));
}

#[test]
fn the_client_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let host = Host::start();
    shared(&host.client);
    let id = std::thread::scope(|scope| {
        scope.spawn(|| {
            let null = std::fs::File::open("/dev/null").unwrap();
            host.client.spawn(1, &bash("exit 4"), &null, &null).unwrap();
        });
        host.client.recv(Duration::from_secs(20)).unwrap().unwrap().id()
    });
    assert_eq!(id, 1);
}
