//! Measures the binary against a scripted model on this machine and prints the figures of
//! `docs/performance.md`: `cargo run --release -p reins-cli --example measure`.
//!
//! CPU is the process's own, summed over its threads from `/proc/PID/task/*/schedstat`
//! (nanoseconds); commands that tools run are other processes. Wall times include the scripted
//! model, which runs here on the other core.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring program for developers"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reins_providers::script::{
    Player, Reply, Request, Respond, Script, ScriptOptions, ScriptServer,
};

/// What was seen when a request arrived.
#[derive(Clone, Copy)]
struct Arrival {
    at: Instant,
    cpu_ns: u64,
    rss_kb: u64,
    bytes: usize,
}

struct Meter {
    player: Player,
    pid: Arc<Mutex<Option<u32>>>,
    seen: Arc<Mutex<Vec<Arrival>>>,
}

impl Respond for Meter {
    fn respond(&mut self, request: &Request) -> Reply {
        let at = Instant::now();
        let pid = *self.pid.lock().unwrap();
        let (cpu_ns, rss_kb) = pid.map_or((0, 0), |pid| (cpu_ns(pid), rss_kb(pid)));
        let bytes = request.body.len();
        self.seen.lock().unwrap().push(Arrival { at, cpu_ns, rss_kb, bytes });
        self.player.respond(request)
    }
}

fn cpu_ns(pid: u32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = |path: PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(|task| of_task(task.ok()?.path())).sum()
}

fn rss_kb(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs the binary once with this script.
async fn run(script: &str) -> (Instant, Vec<Arrival>, Duration) {
    let script = Script::parse(script, "measure").unwrap();
    let (pid, seen) = (Arc::default(), Arc::default());
    let meter =
        Meter { player: Player::new(script), pid: Arc::clone(&pid), seen: Arc::clone(&seen) };
    let server = ScriptServer::start_with(meter, ScriptOptions::default()).unwrap();
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.txt"), "one line of text\n").unwrap();
    let binary = std::env::current_exe().unwrap();
    let binary = binary.parent().unwrap().parent().unwrap().join("reins");
    let began = Instant::now();
    let child = Command::new(binary)
        .args(["run", "--output", "json", "measure"])
        .current_dir(root.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("REINS_HOME", root.path().join("home"))
        .env("DEEPSEEK_BASE_URL", server.base_url())
        .env("DEEPSEEK_API_KEY", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    *pid.lock().unwrap() = Some(child.id());
    let mut child = child;
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    let took = began.elapsed();
    assert!(status.success(), "the run failed: {status}");
    server.stop().await;
    let seen = seen.lock().unwrap().clone();
    (began, seen, took)
}

fn steps(count: usize, call: &str) -> String {
    format!(
        "[[answer]]\ntext = \"step\"\nrepeat = {count}\n[[answer.call]]\n{call}\n\n\
         [[answer]]\ntext = \"done\"\n"
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Mean CPU milliseconds of a step between two requests, counted from 0.
fn cpu_ms(seen: &[Arrival], from: usize, to: usize) -> f64 {
    (seen[to].cpu_ns - seen[from].cpu_ns) as f64 / 1e6 / (to - from) as f64
}

async fn start_up() {
    let mut first = Vec::new();
    let mut floor = Vec::new();
    let mut bytes = 0;
    for _ in 0..30 {
        let (began, seen, _) = run("[[answer]]\ntext = \"done\"\n").await;
        first.push(ms(seen[0].at - began));
        bytes = seen[0].bytes;
        let began = Instant::now();
        Command::new("/bin/true").status().unwrap();
        floor.push(ms(began.elapsed()));
    }
    let least = first.iter().copied().fold(f64::INFINITY, f64::min);
    let (first, floor) = (median(first), median(floor));
    println!("start to first request    median {first:.1} ms, least {least:.1} ms");
    println!("  floor: start and end of /bin/true {floor:.1} ms, ratio {:.1}", first / floor);
    println!("first request             {bytes} bytes");
}

async fn long_session() {
    let call = "name = \"read\"\narguments = { file_path = \"a.txt\" }";
    let (_, seen, took) = run(&steps(1000, call)).await;
    let early = cpu_ms(&seen, 1, 20);
    println!("1,000 steps with `read`   {:.1} s in all", took.as_secs_f64());
    for (name, from, to) in [("1", 1, 20), ("100", 90, 110), ("1,000", 980, 1000)] {
        let cpu = cpu_ms(&seen, from, to);
        let wall = ms((seen[to].at - seen[from].at) / u32::try_from(to - from).unwrap());
        println!(
            "  step {name:<6} CPU {cpu:.2} ms ({:.1} of step 1), wall {wall:.2} ms, request {} bytes, \
             memory {:.1} MB",
            cpu / early,
            seen[to].bytes,
            seen[to].rss_kb as f64 / 1024.0
        );
    }
}

async fn shell_steps() {
    let bash = "name = \"bash\"\narguments = { command = \"true\", description = \"nothing\" }";
    let (_, seen, _) = run(&steps(200, bash)).await;
    let wall = median(seen[20..].windows(2).map(|pair| ms(pair[1].at - pair[0].at)).collect());
    let read = "name = \"read\"\narguments = { file_path = \"a.txt\" }";
    let (_, seen, _) = run(&steps(200, read)).await;
    let reading = median(seen[20..].windows(2).map(|pair| ms(pair[1].at - pair[0].at)).collect());
    let mut floor = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        Command::new("bash").args(["-c", "true"]).status().unwrap();
        floor.push(ms(began.elapsed()));
    }
    let floor = median(floor);
    println!("a step with `bash -c`     wall {wall:.2} ms, model server included");
    println!("  the same step with `read` {reading:.2} ms; bare `bash -c true` {floor:.2} ms");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        start_up().await;
        shell_steps().await;
        long_session().await;
    });
}
