//! `reins config set`, `unset`, `edit` and `path`: what they write, what they leave alone, and what
//! they refuse.

mod answers;
mod check;
mod editor;
mod files;
mod forms;
mod refusals;
mod unset;

use std::path::PathBuf;

use reins_testkit::{Bin, Finished, StrictServer, script};

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

fn file_of(bin: &Bin) -> PathBuf {
    bin.home().join("settings.toml")
}

fn text_of(bin: &Bin) -> String {
    std::fs::read_to_string(file_of(bin)).unwrap()
}

/// A home with these settings.
fn with_settings(text: &str) -> Bin {
    let bin = bin();
    bin.file("../home/settings.toml", text).unwrap();
    bin
}

async fn config(bin: &Bin, args: &[&str]) -> Finished {
    bin.run(["config"].iter().chain(args)).await.unwrap()
}

/// Runs it and checks the whole file and all that is said. `says` is the first line without the
/// file's name.
async fn changes(bin: &Bin, args: &[&str], after: &str, says: &str) {
    let end = config(bin, args).await;
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
    // The tests switch `bash` off, which the shipped preset `minimal` names, and patch rows twice.
    let known = [": preset minimal:", "; write both into one `[[row]]`"];
    let is_usual = |text: &str| text.is_empty() || known.iter().any(|part| text.contains(part));
    assert!(is_usual(&end.stderr), "{args:?}: {}", end.stderr);
    assert_eq!(text_of(bin), after, "{args:?}");
    let file = file_of(bin);
    let line = format!("{}:{says}\n", file.display());
    assert!(end.stdout.starts_with(&line), "{args:?}\nwanted {line}in   {}", end.stdout);
    let check = config(bin, &["check"]).await;
    assert!(is_usual(&check.stderr), "{args:?}: {}", check.stderr);
}

/// Runs it and checks that it says this and that the file is as it was.
async fn refused(bin: &Bin, args: &[&str], message: &str) {
    let before = std::fs::read(file_of(bin)).ok();
    let end = config(bin, args).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{args:?}: {}", end.stderr);
    let message = message.replace("{file}", &file_of(bin).display().to_string());
    assert_eq!(end.stderr, format!("reins: {message}\n"), "{args:?}");
    assert_eq!(std::fs::read(file_of(bin)).ok(), before, "{args:?}");
}

#[tokio::test]
async fn path_is_one_line_whether_or_not_the_file_exists() {
    let bin = bin();
    let line = format!("{}\n", file_of(&bin).display());
    for _ in 0..2 {
        let end = config(&bin, &["path"]).await;
        assert_eq!((end.code, end.stdout, end.stderr), (Some(0), line.clone(), String::new()));
        bin.file("../home/settings.toml", "not [ TOML").unwrap();
    }
    let end = config(&bin, &["path", "--profile", "sdk"]).await;
    assert_eq!((end.code, end.stdout), (Some(0), line));
    let end = config(&bin, &["path", "--profile", "nope"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""));
    assert!(end.stderr.contains("there is no profile `nope`"), "{}", end.stderr);
}

#[tokio::test]
async fn a_run_sees_what_was_set_and_no_more_what_was_unset() {
    let acts = script().text("one").then().text("two");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    let tools = |at: usize| server.json_bodies()[at]["tools"].as_array().unwrap().len();
    let model = |at: usize| server.json_bodies()[at]["model"].clone();

    assert_eq!(config(&bin, &["set", "grep.disabled", "true"]).await.code, Some(0));
    let set = ["set", "default-model.model", "deepseek/deepseek-v4-pro"];
    let end = config(&bin, &set).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let end = bin.run(["run", "hi"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);

    assert_eq!(config(&bin, &["unset", "grep"]).await.code, Some(0));
    assert_eq!(config(&bin, &["unset", "default-model.model"]).await.code, Some(0));
    assert_eq!(text_of(&bin), "");
    let end = bin.run(["run", "hi"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);

    assert_eq!((tools(0) + 1, model(0)), (tools(1), "deepseek-v4-pro".into()));
    assert_eq!(model(1), "deepseek-v4-flash");
}

#[tokio::test]
async fn secrets_are_not_printed() {
    let bin = bin();
    for (key, value) in [
        ("deepseek.api_key", "sk-not-to-be-seen"),
        ("deepseek.api_key", "sk-not-to-be-seen-either"),
        ("deepseek.headers", "{ x-team = \"sk-not-to-be-seen\" }"),
        ("deepseek.headers.x-more", "sk-not-to-be-seen"),
        ("deepseek.base_url", "http://me:sk-not-to-be-seen@127.0.0.1:1/v1"),
    ] {
        let end = config(&bin, &["set", key, value]).await;
        assert!(!format!("{}{}", end.stdout, end.stderr).contains("sk-not"), "{key}: {end:?}");
    }
    let text = text_of(&bin);
    assert!(text.contains("api_key = \"sk-not-to-be-seen-either\"\n"), "{text}");
    assert!(text.contains("x-more = \"sk-not-to-be-seen\""), "{text}");
    let end = config(&bin, &["unset", "deepseek"]).await;
    assert!(end.stdout.contains("deepseek.api_key: \"[withheld]\" → not set"), "{}", end.stdout);
    assert!(!end.stdout.contains("sk-not"), "{}", end.stdout);

    // A misspelt key, and what a binary with other plugins has left.
    let text = "[[row]]\nid = 'deepseek'\nconfig = { vendor = 'deepseek', api_kye = 'sk-not' }\n\
                [[insert]]\nid = 'own'\nplugin = 'gone'\nconfig = { any = ['sk-not'] }\n";
    for (key, says) in [
        ("deepseek.api_kye", "3: deepseek.api_kye: \"[withheld]\" → not set\n"),
        ("own.any", "7: own.any: [\"[withheld]\"] → not set\n"),
    ] {
        let end = config(&with_settings(text), &["unset", key]).await;
        assert!(end.stdout.contains(says), "{end:?}");
        assert!(!format!("{}{}", end.stdout, end.stderr).contains("sk-not"), "{end:?}");
    }
}

#[tokio::test]
async fn a_password_in_an_address_is_not_printed_whatever_the_field_is_for() {
    let bin = with_settings(
        "[[row]]\nid = 'prompt'\nconfig = { persona = 'Ask http://u:sk-not@h:1/v1 first.' }\n\
         [[row]]\nid = 'deepseek'\nconfig = { vendor = 'deepseek', base_url = \
         'http://u:sk-not@h:1/v1' }\n[[row]]\nid = 'prompts'\nconfig = { folder = \
         '/p/http://me@x/a' }\n",
    );
    for args in [
        &["config", "dump"][..],
        &["explain", "row", "deepseek"],
        &["explain", "row", "prompt"],
        &["explain", "field", "deepseek.base_url"],
        &["explain", "field", "prompt.persona"],
        &["config", "check"],
        &["config", "unset", "prompt.persona"],
    ] {
        let end = bin.run(args).await.unwrap();
        let said = format!("{}{}", end.stdout, end.stderr);
        assert!(!said.is_empty() && !said.contains("sk-not"), "{args:?}: {said}");
    }
    let dump = config(&bin, &["dump"]).await.stdout;
    assert!(dump.contains("base_url = \"[withheld]\"\n"), "{dump}");
    assert!(dump.contains("folder = \"[withheld]\"\n"), "{dump}");
}

#[tokio::test]
async fn what_a_variable_gives_as_a_default_is_named_by_its_reference() {
    let row = |id: &str, field: &str, value: &str| {
        with_settings(&format!("[[row]]\nid = 'default-{id}'\nconfig.{field} = '{value}'\n"))
    };
    let only = "${env:WANTED}";
    for (bin, wanted, says) in [
        (row("model", "model", only), "sk-no/such", "there is no provider `${env:WANTED}`; pro"),
        (row("model", "model", only), "sk-no", "`${env:WANTED}` is not a model; models are "),
        (
            row("model", "model", only),
            "deepseek/sk-no",
            "provider `deepseek` has no model `${env:WANTED}`; its models are ",
        ),
        (
            row("model", "model", "deepseek/${env:WANTED}"),
            "sk-no",
            "provider `deepseek` has no model `deepseek/${env:WANTED}`; its models are ",
        ),
        (
            row("preset", "preset", only),
            "sk-no",
            "`${env:WANTED}` gives the name of no agent preset; `reins explain preset` lists them",
        ),
    ] {
        let bin = bin.env("WANTED", wanted).env("DEEPSEEK_API_KEY", "a-key");
        for args in [&["config", "check"][..], &["run", "hi"]] {
            let end = bin.run(args).await.unwrap();
            assert_eq!(end.code, Some(2), "{args:?}: {}", end.stderr);
            assert!(end.stderr.contains(says), "wanted {says} in {}", end.stderr);
            assert!(!end.stderr.contains("sk-no"), "{args:?}: {}", end.stderr);
        }
    }
}

#[tokio::test]
async fn a_refused_switch_shows_no_layer_of_the_check_itself() {
    for row in ["store", "clock", "fs", "process"] {
        let bin = bin();
        let end = config(&bin, &["set", &format!("{row}.disabled"), "true"]).await;
        assert_eq!(end.code, Some(2), "{row}");
        let needs = format!(": needs row `{row}`\n");
        assert!(end.stderr.contains(&needs), "{row}: {}", end.stderr);
        assert!(!end.stderr.contains("check"), "{row}: {}", end.stderr);
        assert!(!file_of(&bin).exists());
    }
}

#[tokio::test]
async fn a_shipped_preset_that_the_settings_leave_without_a_tool_is_a_warning_of_check() {
    let bin = with_settings("[[row]]\nid = \"bash\"\ndisabled = true\n");
    let end = config(&bin, &["check"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(
        end.stdout.ends_with(" rows, 1 agent preset, 2 profiles and 0 prompts are fine\n"),
        "{}",
        end.stdout
    );
    assert_eq!(
        end.stderr,
        "warning: agent preset `minimal`: preset minimal:6: row `only-bash`, field \
         `config.tools[0]`: no tool `bash` is inherited; there are edit, glob, grep, read, write\n"
    );
    // A preset of one's own is the user's own mistake.
    bin.file("../home/presets/mine.toml", "[[insert]]\nid = \"x\"\nplugin = \"tool-bsah\"\n")
        .unwrap();
    let end = config(&bin, &["check"]).await;
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(
        end.stderr.contains("mine.toml:3: row `x`, field `plugin`: there is no"),
        "{}",
        end.stderr
    );
}

#[tokio::test]
async fn a_key_in_the_place_of_something_else_is_not_shown_when_it_is_mended() {
    for (field, wrong, right) in [
        ("api_key_env", "sk-SECRET", "MY_KEY"),
        ("base_url", "u:SECRET@h", "http://h/v1"),
        ("base_url", "http://h/v1?api_key=SECRET", "http://h/v1"),
    ] {
        let config_of = format!("{{ vendor = \"deepseek\", {field} = \"{wrong}\" }}");
        let bin = with_settings(&format!("[[row]]\nid = \"deepseek\"\nconfig = {config_of}\n"));
        let dump = config(&bin, &["dump"]).await;
        assert!(dump.stdout.contains("[withheld]"), "{}", dump.stdout);
        let set = config(&bin, &["set", &format!("deepseek.{field}"), right]).await;
        assert_eq!(set.code, Some(0), "{}", set.stderr);
        for end in [dump, set] {
            assert!(!format!("{}{}", end.stdout, end.stderr).contains("SECRET"), "{end:?}");
        }
        // What is right is shown.
        let dump = config(&bin, &["dump"]).await;
        assert!(dump.stdout.contains(&format!("{field} = \"{right}\"")), "{}", dump.stdout);
    }
}

#[tokio::test]
async fn check_names_the_profile_that_lacks_something_and_tells_its_warnings() {
    let bin = bin();
    bin.file("../home/profiles/typo.toml", "bundles = [\"base\"]\n\n[[row]]\nid = \"bahs\"\n")
        .unwrap();
    let end = config(&bin, &["check"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains("typo.toml:3: row `bahs`: no row has this id"), "{}", end.stderr);
    bin.file("../home/profiles/empty.toml", "bundles = []\n").unwrap();
    let end = config(&bin, &["check"]).await;
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("profile `empty`: Reins needs service `"), "{}", end.stderr);
}
