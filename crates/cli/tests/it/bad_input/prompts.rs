//! Where prompts come from, and readers that leave.

use reins_testkit::{Bin, Finished, StrictServer, script};

use super::{bin, object};

/// The text of the first user message of a run with these arguments and this input.
async fn prompt_of(args: &[&str], input: Option<&[u8]>) -> (Finished, Option<String>) {
    let server = StrictServer::start(script().text("read")).unwrap();
    let bin = bin().model_at(&server.base_url());
    let args = ["run"].iter().chain(args);
    let end = match input {
        Some(input) => bin.run_with_input(args, input).await.unwrap(),
        None => bin.run(args).await.unwrap(),
    };
    let bodies = server.json_bodies();
    let text = bodies.first().map(|body| {
        let messages = body["messages"].as_array().unwrap();
        let user = messages.iter().find(|message| message["role"] == "user").unwrap();
        user["content"].as_str().unwrap().to_owned()
    });
    (end, text)
}

/// Arguments after `run`, input, the prompt.
type Case = (&'static [&'static str], Option<&'static [u8]>, &'static str);

#[tokio::test]
async fn piped_input_joins_the_prompt() {
    let cases: [Case; 7] = [
        (&["review"], Some(b"diff --git a b\n"), "review\n\ndiff --git a b\n"),
        (&["review", "this"], Some(b"x"), "review this\n\nx"),
        (&["-"], Some(b"all from the pipe\n"), "all from the pipe\n"),
        (&[], Some(b"all from the pipe"), "all from the pipe"),
        (&["alone"], Some(b""), "alone"),
        (&["alone"], None, "alone"),
        (&["--", "--flag"], None, "--flag"),
    ];
    for (args, input, expected) in cases {
        let (end, prompt) = prompt_of(args, input).await;
        assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
        assert_eq!(prompt.as_deref(), Some(expected), "{args:?}");
    }
}

#[tokio::test]
async fn input_that_is_no_text_or_nothing_is_refused() {
    let (end, prompt) = prompt_of(&["--output=json", "-"], Some(b"caf\xe9")).await;
    assert_eq!((end.code, prompt), (Some(2), None));
    assert_eq!(
        end.stderr,
        "reins: standard input is not UTF-8 text (byte 3)\n\
         hint: convert it first, for example with iconv\n"
    );
    object(&end);
    for args in [&["-"][..], &[], &[" "]] {
        let (end, prompt) = prompt_of(args, Some(b" \n")).await;
        assert_eq!((end.code, prompt), (Some(2), None));
        assert!(end.stderr.starts_with("reins: the prompt is empty\nhint: "), "{}", end.stderr);
    }
}

/// A shell whose `$reins` is the binary.
fn shell(server: &StrictServer) -> Bin {
    let bin = Bin::new("bash").unwrap().model_at(&server.base_url());
    bin.env("reins", env!("CARGO_BIN_EXE_reins"))
}

#[tokio::test]
async fn standard_input_is_a_patch_or_a_part_of_the_prompt_and_never_both() {
    let patch = b"[[row]]\nid = \"prompt\"\nconfig = { persona = \"Of the pipe.\" }\n";
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/thread-self/fd/0"] {
        let server = StrictServer::start(script().text("read")).unwrap();
        let piped = bin().model_at(&server.base_url());
        let end = piped.run_with_input(["run", "--patch", name, "hi"], patch).await.unwrap();
        assert_eq!(end.code, Some(0), "{name}: {}", end.stderr);
        let messages = server.json_bodies()[0]["messages"].clone();
        assert!(messages[0]["content"].as_str().unwrap().starts_with("Of the pipe."), "{name}");
        assert_eq!(messages.to_string().matches("Of the pipe").count(), 1, "{messages}");
        for prompt in [&["-"][..], &[], &[" "]] {
            let options = ["run", "--patch", name];
            let args = options.iter().chain(prompt);
            let end = bin().run_with_input(args, patch).await.unwrap();
            assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""));
            assert_eq!(
                end.stderr,
                "reins: standard input is the patch\nhint: give the prompt as an argument\n"
            );
        }
    }
    let twice = ["run", "--patch", "-", "--patch", "/dev/stdin", "hi"];
    let end = bin().run_with_input(twice, patch).await.unwrap();
    assert_eq!(end.code, Some(2));
    assert_eq!(
        end.stderr,
        "reins: standard input is given as a patch more than once\n\
         hint: keep one --patch of it\n"
    );
}

/// The prompt of a run whose patch and input come from redirections of the shell.
async fn prompt_in_shell(redirected: &str) -> String {
    let server = StrictServer::start(script().text("read")).unwrap();
    let bin = shell(&server);
    bin.file("p.toml", "[[row]]\nid = \"prompt\"\nconfig = { persona = \"Of it.\" }\n").unwrap();
    bin.file("text", "some text").unwrap();
    let end = bin.run(["-c", &format!("\"$reins\" run {redirected}")]).await.unwrap();
    assert_eq!(end.code, Some(0), "{redirected}: {}", end.stderr);
    let messages = server.json_bodies()[0]["messages"].clone();
    assert!(messages[0]["content"].as_str().unwrap().starts_with("Of it."), "{redirected}");
    let user = messages.as_array().unwrap().iter().find(|message| message["role"] == "user");
    user.unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn only_a_patch_that_is_standard_input_takes_it_from_the_prompt() {
    assert_eq!(prompt_in_shell("--patch /dev/stdin hi < p.toml").await, "hi");
    assert_eq!(prompt_in_shell("--patch <(cat p.toml) hi < text").await, "hi\n\nsome text");
    assert_eq!(prompt_in_shell("--patch /dev/fd/3 - 3< p.toml < text").await, "some text");
    assert_eq!(prompt_in_shell("--patch /dev/null --patch p.toml hi < /dev/null").await, "hi");
}

#[tokio::test]
async fn closed_streams_are_no_error() {
    let acts = script().text("answer").forever();
    let server = StrictServer::start(acts).unwrap();
    let bin = shell(&server);
    let end = bin.run(["-c", "exec \"$reins\" run hi <&-"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "answer\n"), "{}", end.stderr);
    let end = bin.run(["-c", "exec \"$reins\" run hi 2>&-"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "answer\n"), "{}", end.stderr);
    let end = bin.run(["-c", "exec \"$reins\" run - <&-"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{}", end.stderr);
    assert!(!end.stderr.contains("internal error"), "{}", end.stderr);
}

#[tokio::test]
async fn a_reader_that_leaves_early_is_no_error() {
    let acts = script().text("a long answer ".repeat(20_000)).forever();
    let server = StrictServer::start(acts).unwrap();
    let bin = shell(&server);
    for form in ["text", "json", "stream-json"] {
        let script = format!(
            "set -o pipefail; \"$reins\" run hi --output {form} | head -c1 | wc -c; \
             echo \"${{PIPESTATUS[0]}}\" >&2"
        );
        let end = bin.run(["-c", &script]).await.unwrap();
        assert_eq!((end.code, end.stdout.trim()), (Some(0), "1"), "{form}: {}", end.stderr);
        assert!(end.stderr.ends_with("\n0\n"), "{form}: {}", end.stderr);
        assert!(!end.stderr.contains("internal error"), "{form}: {}", end.stderr);
    }
    server.assert_clean();
    for log in bin.logs().unwrap() {
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains("\"kind\":\"completed\""), "the run went on to its end");
    }
}

#[tokio::test]
async fn output_that_cannot_be_written_is_said_and_the_session_is_whole() {
    let server = StrictServer::start(script().text("answer").forever()).unwrap();
    let bin = shell(&server);
    let reason = "reins: standard output: No space left on device (os error 28)";
    for form in ["text", "json", "stream-json"] {
        let script = format!("exec \"$reins\" run hi --output {form} > /dev/full");
        let end = bin.run(["-c", &script]).await.unwrap();
        assert_eq!(end.code, Some(1), "{form}: {}", end.stderr);
        assert!(end.stderr.contains(reason), "{form}: {}", end.stderr);
        assert!(end.stderr.lines().count() <= 4, "{form}: {}", end.stderr);
    }
    for log in bin.logs().unwrap() {
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains("\"kind\":\"completed\""), "the run went on to its end");
    }
}
