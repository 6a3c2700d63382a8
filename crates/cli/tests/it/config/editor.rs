//! `reins config edit`

use reins_testkit::{Bin, Finished};

use super::{bin, config, file_of, text_of, with_settings};

/// A home whose editor is this script; `$2` is the file, after an option.
fn with_editor(bin: Bin, variable: &str, script: &str) -> Bin {
    bin.file("my editor/ed.sh", script).unwrap();
    let command = format!("sh '{}/my editor/ed.sh' --wait", bin.project().display());
    bin.env(variable, command)
}

async fn edit(bin: &Bin) -> Finished {
    config(bin, &["edit"]).await
}

#[tokio::test]
async fn the_editor_gets_the_file_and_the_result_is_checked() {
    let bin = with_editor(bin(), "EDITOR", "echo \"$@\" > args; printf '%s' '# new' > \"$2\"");
    let end = edit(&bin).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert!(end.stdout.ends_with("and 0 prompts are fine\n"), "{}", end.stdout);
    assert_eq!(text_of(&bin), "# new");
    let args = std::fs::read_to_string(bin.project().join("args")).unwrap();
    let home = bin.home().canonicalize().unwrap();
    assert_eq!(args, format!("--wait {}/settings.toml\n", home.display()));
}

#[tokio::test]
async fn ctrl_c_is_for_the_editor() {
    let script = "kill -INT $PPID; kill -QUIT $PPID; echo '# typed' > \"$2\"";
    let bin = with_editor(bin(), "EDITOR", script);
    let end = edit(&bin).await;
    assert_eq!((end.code, end.signal, end.stderr.as_str()), (Some(0), None, ""));
    assert_eq!(text_of(&bin), "# typed\n");
}

#[tokio::test]
async fn what_is_wrong_afterwards_is_said_and_the_file_kept() {
    let text = "[[row]]\nid = 'bash'\n";
    let script = "printf '%s\\n' 'config = { tmeout_ms = 1 }' >> \"$2\"";
    let bin = with_editor(with_settings(text), "VISUAL", script).env("EDITOR", "false");
    let end = edit(&bin).await;
    let message = format!(
        "reins: {}:3: row `bash`, field `config.tmeout_ms`: unknown key; did you mean \
         `timeout_ms`?\nhint: `reins config edit` opens the file again\n",
        file_of(&bin).display()
    );
    assert_eq!((end.code, end.stdout.as_str(), end.stderr), (Some(2), "", message));
    assert_eq!(text_of(&bin), format!("{text}config = {{ tmeout_ms = 1 }}\n"));
}

#[tokio::test]
async fn a_broken_file_can_be_opened() {
    let bin = with_editor(with_settings("[[row"), "EDITOR", "echo '# mended' > \"$2\"");
    let end = edit(&bin).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert_eq!(text_of(&bin), "# mended\n");
}

#[tokio::test]
async fn a_new_file_has_a_header_and_goes_when_nothing_is_written() {
    let bin = with_editor(bin(), "EDITOR", "cp \"$2\" seen; stat -c %a \"$2\" > mode");
    let end = edit(&bin).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let seen = std::fs::read_to_string(bin.project().join("seen")).unwrap();
    assert!(seen.starts_with("# Settings of Reins."), "{seen}");
    assert!(seen.lines().all(|line| line.starts_with('#')), "{seen}");
    assert_eq!(std::fs::read_to_string(bin.project().join("mode")).unwrap(), "600\n");
    assert!(!file_of(&bin).exists());

    // An example in it holds once it is no comment.
    let bin = with_editor(super::bin(), "EDITOR", "sed -i '4,$s/^# //' \"$2\"");
    let end = edit(&bin).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert!(text_of(&bin).contains("\n[[row]]\nid = \"bash\"\n"), "{}", text_of(&bin));
}

#[tokio::test]
async fn without_an_editor_or_with_a_wrong_one_it_is_said() {
    let cases = [
        (
            "",
            "there is no terminal for `vi`\nhint: set VISUAL or EDITOR, or use `reins config set`",
        ),
        (
            "no-such-editor -x",
            "the editor `no-such-editor` cannot be started: No such file or directory (os error \
             2)\nhint: set VISUAL or EDITOR",
        ),
        ("sh -c 'exit 3'", "the editor `sh` ended with exit status: 3"),
        ("'ed", "$EDITOR is `'ed`: the quote ' is not closed"),
    ];
    for (editor, message) in cases {
        let bin = bin().env("EDITOR", editor);
        let end = edit(&bin).await;
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{editor}");
        assert_eq!(end.stderr, format!("reins: {message}\n"), "{editor}");
        assert!(!file_of(&bin).exists(), "{editor}");
    }
}
