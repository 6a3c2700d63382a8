//! What the providers cost: `world_cost` prints a command's share over plain `fork` and `exec`,
//! and the time of a search and a glob below the folder given as the argument.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reins_world::{
    CancelToken, CommandSpec, Env, Fs, GlobQuery, LocalFs, LocalProcess, Process, SearchQuery,
};

const RUNS: u32 = 300;

fn main() -> ExitCode {
    if let Some(status) = reins_sandbox::run_if_host_role(std::env::args_os()) {
        return status;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/usr/share"), Into::into);
    for line in runtime.block_on(measure(root)) {
        #[expect(clippy::print_stdout, reason = "a program that prints measurements")]
        {
            println!("{line}");
        }
    }
    ExitCode::SUCCESS
}

async fn measure(root: PathBuf) -> Vec<String> {
    let process = LocalProcess::new(&Env::from_iter([("PATH", "/usr/bin:/bin")]), &[]);
    let command = || CommandSpec {
        argv: ["bash", "-c", "true"].map(OsString::from).into(),
        cwd: "/".into(),
        env: process.child_env(),
        time_limit: Duration::from_secs(10),
        grace: Duration::from_secs(1),
        keep_bytes: 1 << 16,
    };
    let mut lines = Vec::new();
    let started = Instant::now();
    if let Err(error) = process.run(command(), CancelToken::new()).await {
        return vec![error.to_string()];
    }
    lines.push(format!("first command: {:?}", started.elapsed()));
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        if let Err(error) = process.run(command(), CancelToken::new()).await {
            lines.push(error.to_string());
        }
        times.push(started.elapsed());
    }
    times.sort();
    lines.push(format!("`bash -c true`: median {:?}", times[times.len() / 2]));
    process.shut_down().await;

    let fs = LocalFs::default();
    let started = Instant::now();
    let hits = fs
        .search(SearchQuery {
            pattern: "copyright [0-9]{4} nobody".into(),
            root: root.clone(),
            include: None,
            max_matches: 100,
            max_line_bytes: 200,
            time_limit: Duration::from_secs(60),
        })
        .await;
    let files = hits.map_or(0, |hits| hits.files);
    lines.push(format!("search in {files} files: {:?}", started.elapsed()));
    let started = Instant::now();
    let time_limit = Duration::from_secs(60);
    let glob = GlobQuery { pattern: "*.h".into(), root, max_files: 100, time_limit };
    let total = fs.glob(glob).await.map_or(0, |hits| hits.total);
    lines.push(format!("glob with {total} hits: {:?}", started.elapsed()));
    lines
}
