//! `--debug`: what the log says, what it never says, and that it is only there when asked for.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use reins_testkit::{Bin, Fault, StrictServer, script};
use serde_json::json;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

fn log_of(bin: &Bin) -> String {
    std::fs::read_to_string(folder(bin).join("reins.log")).unwrap()
}

fn folder(bin: &Bin) -> PathBuf {
    bin.home().join("logs")
}

#[tokio::test]
async fn a_run_is_told_in_numbers_and_never_in_content() {
    let planted =
        ["key-planted-1", "key-planted-2", "key-planted-3", "said-planted", "asked-planted"];
    let command = "echo $0 key-planted-2; cat planted.txt; exit 3";
    let headers = BTreeMap::from([("retry-after-ms".to_owned(), "1".to_owned())]);
    let words = "{\"error\": {\"message\": \"asked-planted key-planted-1\"}}".to_owned();
    let refusal = Fault::status(429, &headers, Some(words)).unwrap();
    let acts = script()
        .text("said-planted")
        .call("bash", json!({"command": command, "description": "said-planted"}))
        .usage(11, 7, 0)
        .then()
        .text("never sent")
        .fault(refusal)
        .then()
        .text("said-planted");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url()).env("MY_SECRET_TOKEN", "key-planted-1");
    bin.file("planted.txt", "key-planted-3").unwrap();
    let row = "[[row]]\nid = \"deepseek\"\nconfig = { vendor = \"deepseek\", \
               api_key = \"key-planted-2\", headers = { x-more = \"key-planted-3\" } }\n";
    bin.file("p.toml", row).unwrap();
    let end = bin.run(["run", "asked-planted", "--debug", "--patch", "p.toml"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    let log = log_of(&bin);
    for word in planted {
        assert!(!log.contains(word), "`{word}` in {log}");
    }
    for part in [
        " INFO reins_cli::entry: reins 0.1.0 run\n",
        " INFO reins_host::generations: generation 1 serves: clock, fs, ",
        " is open, preset standard of generation 1\n",
        ": turn 1 starts\n",
        " for model deepseek-v4-flash\n",
        " bytes to 127.0.0.1:",
        " begins to answer after ",
        ": 11 tokens in (0 cached), 7 out\n",
        ": tool bash starts, call ",
        " ms, exit 3\n",
        ": RATE_LIMIT, status 429 after ",
        ": retry 1 in ",
        ": turn 1 ends: completed\n",
        ": all sessions are closed\n",
    ] {
        assert!(log.contains(part), "no `{part}` in {log}");
    }
    assert!(log.ends_with(" INFO reins_cli::entry: exit code 0\n"), "{log}");
}

#[tokio::test]
async fn nobody_else_may_read_it_and_who_did_not_ask_has_none() {
    let bin = bin();
    assert_eq!(bin.run(["session", "list"]).await.unwrap().code, Some(0));
    assert!(!folder(&bin).exists());
    let bin = bin.env("REINS_DEBUG", "1");
    let end = bin.run(["session", "show", "absent"]).await.unwrap();
    assert_eq!(end.code, Some(6), "{end:?}");
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder(&bin)), 0o700);
    assert_eq!(mode(folder(&bin).join("reins.log")), 0o600);
    let log = log_of(&bin);
    assert!(log.contains(": error SESSION_NOT_FOUND "), "{log}");
    assert!(log.ends_with(": exit code 6\n"), "{log}");
}

#[tokio::test]
async fn the_files_rotate_and_the_oldest_goes() {
    let bin = bin();
    std::fs::create_dir_all(folder(&bin)).unwrap();
    let put = |name: &str, bytes: usize| {
        let text = format!("{name}{}", "z".repeat(bytes));
        bin.file(&format!("../home/logs/{name}"), text).unwrap();
    };
    put("reins.log", 3_999_990);
    (1..5).for_each(|number| put(&format!("reins.{number}.log"), 3_999_000));
    assert_eq!(bin.run(["session", "list", "--debug"]).await.unwrap().code, Some(0));
    let files = std::fs::read_dir(folder(&bin)).unwrap().map(|file| file.unwrap());
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= 20_000_000, "{bytes}");
    assert!(log_of(&bin).contains("reins 0.1.0 session"));
    for number in 1..5 {
        let text = std::fs::read_to_string(folder(&bin).join(format!("reins.{number}.log")));
        let was =
            if number == 1 { "reins.log".to_owned() } else { format!("reins.{}.log", number - 1) };
        assert!(text.unwrap().starts_with(&was));
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told_and_hinders_nothing() {
    let bin = bin();
    bin.file("../home/logs", "no folder").unwrap();
    let end = bin.run(["session", "list", "--debug"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.stderr.starts_with("reins: no debug log in `"), "{}", end.stderr);
}
