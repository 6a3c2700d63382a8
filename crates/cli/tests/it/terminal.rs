//! What a person sees: runs whose streams are terminals.

mod lines;
mod news;

use reins_testkit::{Acts, Bin, Finished, StrictServer, needs, script};
use serde_json::json;

/// Runs a command with terminals of 80 columns: `one` for both streams, `two` with one for each, or
/// `out` for standard output only. What appears there goes to the same stream of this program.
pub(super) const WATCH: &str = "
import fcntl, os, pty, selectors, struct, sys, termios
mode, command = sys.argv[1], sys.argv[2:]
pairs = [pty.openpty() for _ in range(2 if mode == 'two' else 1)]
for master, slave in pairs:
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
pid = os.fork()
if pid == 0:
    os.setsid()
    os.dup2(pairs[0][1], 1)
    if mode != 'out':
        os.dup2(pairs[-1][1], 2)
    os.execv(command[0], command)
select = selectors.DefaultSelector()
for to, (master, slave) in enumerate(pairs, 1):
    os.close(slave)
    select.register(master, selectors.EVENT_READ, to)
while select.get_map():
    for key, _ in select.select():
        try:
            data = os.read(key.fd, 65536)
        except OSError:
            data = b''
        if data:
            os.write(key.data, data)
        else:
            select.unregister(key.fd)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Control codes as a model may write them: the escape character, and the one-byte form of it.
const HOSTILE: &str = "\u{1b}[2J\u{9b}1m\u{202e}gone";

/// Nothing when python is not there.
pub(super) fn watcher(server: &StrictServer) -> Option<Bin> {
    if !needs("python3").unwrap() {
        return None;
    }
    let bin = Bin::new("python3").unwrap().model_at(&server.base_url());
    Some(bin.env("TERM", "xterm-256color"))
}

/// What the person sees; line ends are those that were written.
async fn watch(bin: &Bin, mode: &str, args: &[&str]) -> Finished {
    let reins = [env!("CARGO_BIN_EXE_reins")];
    let python = ["-c", WATCH, mode];
    let mut end = bin.run(python.iter().chain(&reins).chain(args)).await.unwrap();
    end.stdout = end.stdout.replace("\r\n", "\n");
    end.stderr = end.stderr.replace("\r\n", "\n");
    end
}

/// What stays on the screen: without the status lines that were cleared.
fn lasting(seen: &str) -> String {
    const CLEAR: &str = "\r\u{1b}[K";
    let lines = seen.split('\n').map(|line| line.rsplit(CLEAR).next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "description": "A command of a test"})
}

fn served(acts: Acts) -> StrictServer {
    StrictServer::start(acts).unwrap()
}

#[tokio::test]
async fn nothing_of_a_model_drives_a_terminal() {
    let text = format!("a{HOSTILE}b");
    let acts = script()
        .text(&*text)
        .call(HOSTILE, json!({"command": HOSTILE}))
        .call("bash", bash(&format!("printf '{HOSTILE}'")))
        .then()
        .text(&*text)
        .forever();
    for mode in ["one", "two", "out"] {
        let server = served(acts.clone());
        let Some(bin) = watcher(&server) else { return };
        let bin = bin.env("TERM", "dumb");
        let end = watch(&bin, mode, &["run", "hi"]).await;
        assert_eq!(end.code, Some(0), "{mode}: {end:?}");
        assert!(end.stdout.contains("a\\u{1b}[2J\\u{9b}1m\\u{202e}goneb"), "{mode}: {end:?}");
        for form in ["json", "stream-json"] {
            let form = watch(&bin, mode, &["run", "hi", "--output", form]).await;
            assert_eq!(form.code, Some(0), "{mode}: {form:?}");
            assert!(form.stdout.contains("\\u001b[2J\\u009b1m\\u202egone"), "{mode}: {form:?}");
            assert_harmless(&form);
        }
        let id = super::demo::newest_session(&bin);
        let show = watch(&bin, mode, &["session", "show", &id]).await;
        assert!(show.stdout.contains("a\\u{1b}[2J"), "{mode}: {show:?}");
        assert_harmless(&show);
        assert_harmless(&end);
    }
}

fn assert_harmless(end: &Finished) {
    for stream in [&end.stdout, &end.stderr] {
        let drives = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!stream.contains(drives), "{stream:?}");
    }
}

#[tokio::test]
async fn a_pipe_gets_the_text_byte_for_byte() {
    let server = served(script().text(HOSTILE).forever());
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
    let end = bin.run(["run", "hi"]).await.unwrap();
    assert_eq!((end.code, end.stdout), (Some(0), format!("{HOSTILE}\n")));
    let id = super::demo::newest_session(&bin);
    let show = bin.run(["session", "show", &id]).await.unwrap();
    assert!(show.stdout.contains(HOSTILE), "{show:?}");
}
