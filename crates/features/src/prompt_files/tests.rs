use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use reins_agent::{Arguments, CommandError, CommandSource};
use reins_world::LocalFs;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::template::Template;
use super::{Folder, MAX_NAME_BYTES, max_bytes};

const FILE: &str = "/p/fix.md";

fn parse(text: &str) -> Result<Template, CommandError> {
    Template::parse(Path::new(FILE), text)
}

fn expand(text: &str, arguments: &str) -> Result<String, CommandError> {
    parse(text)?.expand("fix", &Arguments::of_text(arguments))
}

#[test]
fn placeholders_become_arguments() {
    let cases = [
        // template, arguments, prompt
        ("All: $ARGUMENTS.", "a 'b c'", "All: a 'b c'."),
        ("All: $ARGUMENTS.", "", "All: ."),
        ("All: $ARGUMENTS", "it's \"open", "All: it's \"open"),
        ("$2 before $1", "one two", "two before one"),
        ("$1$1", "x", "xx"),
        ("$1st $1_ $1é", "x", "xst x_ xé"),
        ("<$1> <$2>", "'a b' \"c 'd'\"", "<a b> <c 'd'>"),
        ("<$1>", "\"\"", "<>"),
        ("$1$2$3$4$5$6$7$8 $9", "1 2 3 4 5 6 7 8 nine", "12345678 nine"),
        ("$1 of $ARGUMENTS", "a b c", "a of a b c"),
        // What an argument contains is not looked at again.
        ("$1 $2", "'$2' $ARGUMENTS", "$2 $ARGUMENTS"),
        ("$ARGUMENTS", "$1 $$", "$1 $$"),
    ];
    for (template, arguments, prompt) in cases {
        assert_eq!(
            expand(template, arguments).as_deref(),
            Ok(prompt),
            "{template:?} {arguments:?}"
        );
    }
}

#[test]
fn other_dollars_stay_and_two_are_one() {
    let cases = [
        ("$10 $100 $0 $ $x ${1} $arguments", "$10 $100 $0 $ $x ${1} $arguments"),
        ("$ARGUMENTS_2 $ARGUMENTSé $ARGUMENT", "$ARGUMENTS_2 $ARGUMENTSé $ARGUMENT"),
        ("$$1 $$ARGUMENTS $$", "$1 $ARGUMENTS $"),
        ("$$$$1 $$$", "$$1 $$"),
        ("end$", "end$"),
    ];
    for (template, prompt) in cases {
        assert_eq!(expand(template, "").as_deref(), Ok(prompt), "{template:?}");
        // None of them is a place for arguments.
        let appended = format!("{prompt}\n\na 'b");
        assert_eq!(expand(template, " a 'b ").as_deref(), Ok(&*appended), "{template:?}");
    }
    assert_eq!(expand("$$$1", "x").as_deref(), Ok("$x"));
}

#[test]
fn line_ends_marks_and_empty_lines_around_the_text_go() {
    let cases = [
        ("one\r\ntwo\r\n", "one\ntwo"),
        ("\u{feff}one\n", "one"),
        ("\u{feff}---\r\ndescription: d\r\n---\r\n\r\none\r\n", "one"),
        ("\n \n  indented\n\nlast  \n\n", "  indented\n\nlast"),
        ("---\n---\none", "one"),
        ("---  \n\n--- \none", "one"),
        ("one\n---\ntwo: x\n---", "one\n---\ntwo: x\n---"),
        (" ---\none", " ---\none"),
        ("----\none", "----\none"),
    ];
    for (template, prompt) in cases {
        assert_eq!(expand(template, "").as_deref(), Ok(prompt), "{template:?}");
    }
}

#[test]
fn front_matter_has_two_keys() {
    let both =
        parse("---\ndescription:  Mend: it \nargument-hint : \"[FILE] HOW\"\n---\nx").unwrap();
    assert_eq!(both.description.as_deref(), Some("Mend: it"));
    assert_eq!(both.argument_hint.as_deref(), Some("[FILE] HOW"));
    let single = parse("---\nargument-hint: '\"'\n---\nx").unwrap();
    assert_eq!((single.description, single.argument_hint.as_deref()), (None, Some("\"")));
    let lone = parse("---\ndescription: \"\n---\nx").unwrap();
    assert_eq!(lone.description.as_deref(), Some("\""));
}

#[test]
fn mistakes_in_a_file_name_the_line() {
    let cases = [
        ("---\ndescription: d\nx", "1: the `---` of this line is not closed by another"),
        ("---", "1: the `---` of this line is not closed by another"),
        ("---\n\ndescripton: d\n---\nx", "3: unknown key `descripton`"),
        ("---\r\nallowed-tools: a\r\n---\r\nx", "2: unknown key `allowed-tools`"),
        ("---\n: d\n---\nx", "2: unknown key ``"),
        ("---\nplain\n---\nx", "2: `plain` is not of the form `key: value`"),
        ("---\ndescription: a\ndescription: b\n---\nx", "3: `description` is there twice"),
        ("", " there is no text in it"),
        (" \n\r\n", " there is no text in it"),
        ("---\ndescription: d\n---\n\n", " there is no text in it"),
    ];
    for (template, problem) in cases {
        let error = parse(template).unwrap_err();
        assert_eq!(error.message, format!("{FILE}:{problem}"), "{template:?}");
        assert!(error.hint.is_some(), "{template:?}");
    }
    let known = parse("---\nmodel: x\n---\ny").unwrap_err().hint;
    assert_eq!(known.as_deref(), Some("keys are `description`, `argument-hint`"));
}

#[test]
fn arguments_that_do_not_fit_are_refused_where_they_would_stand() {
    let head = "---\nargument-hint: FILE LINE\n---\n\n";
    let (two, line) = (format!("{head}in $1\nat $2\n"), "/p/fix.md:6: ");
    let absent = expand(&two, "a.rs").unwrap_err();
    assert_eq!(absent.message, format!("{line}`$2` stands here, and there is no argument 2"));
    assert_eq!(absent.hint.as_deref(), Some("usage: /fix FILE LINE"));
    let first = expand(&two, " ").unwrap_err();
    assert_eq!(first.message, "/p/fix.md:5: `$1` stands here, and there is no argument 1");

    let more = expand(&two, "my a.rs 7").unwrap_err();
    let problem = "`$2` is the last place for an argument, and there are 3 arguments";
    assert_eq!(more.message, format!("{line}{problem}"));
    assert!(more.hint.unwrap().starts_with("usage: /fix FILE LINE; quote a word"));
    let gap = expand("$0 and $3", "a b c").unwrap_err();
    assert_eq!(gap.message, "/p/fix.md:1: there is no `$1`, so argument 1 has no place");
    assert_eq!(expand("$2, $ARGUMENTS", "a b").as_deref(), Ok("b, a b"), "all of it has a place");

    let open = expand(&two, "it's 7").unwrap_err();
    assert_eq!(open.message, "`/fix`: the quote ' in the arguments is not closed");
}

#[test]
fn a_prompt_that_grows_without_end_is_refused() {
    let template = parse(&"$ARGUMENTS ".repeat(20_000)).unwrap();
    let error = template.expand("fix", &Arguments::of_text(&"x".repeat(100_000))).unwrap_err();
    assert!(error.message.contains("more than 16777216 bytes"), "{error}");
}

struct Rig {
    root: TempDir,
    source: Folder,
}

impl Rig {
    /// The folder `prompts` in a folder of its own.
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let real = root.path().canonicalize().unwrap();
        let files = Arc::new(LocalFs::default());
        let folder = real.join("prompts");
        Self { root, source: Folder { files, folder, max_bytes: max_bytes() } }
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.root.path().join("prompts").join(below)
    }

    fn file(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(content.as_ref()).unwrap();
    }

    /// The prompt without arguments; `None` when there is no such command.
    async fn prompt(&self, name: &str) -> Result<Option<String>, String> {
        let found = self.source.find(name).await.map_err(|e| e.message)?;
        Ok(found.map(|command| command.expand(&Arguments::default()).unwrap()))
    }

    async fn refusal(&self, name: &str) -> String {
        let message = self.prompt(name).await.unwrap_err();
        message.replace(self.root.path().canonicalize().unwrap().to_str().unwrap(), "")
    }
}

#[tokio::test]
async fn files_are_found_by_their_names_and_read_anew_each_time() {
    let rig = Rig::new();
    assert_eq!(rig.prompt("fix").await, Ok(None), "no folder yet");
    rig.file("fix.md", "one");
    rig.file("team/web-2/fix_it.md", "two");
    rig.file("linked.txt", "three");
    symlink("linked.txt", rig.path("link.md")).unwrap();
    symlink("team", rig.path("same")).unwrap();
    for (name, text) in [("fix", "one"), ("team:web-2:fix_it", "two"), ("link", "three")] {
        assert_eq!(rig.prompt(name).await, Ok(Some(text.to_owned())), "{name}");
    }
    assert_eq!(rig.prompt("same:web-2:fix_it").await, Ok(Some("two".to_owned())));
    rig.file("fix.md", "four");
    assert_eq!(rig.prompt("fix").await, Ok(Some("four".to_owned())));
    // SHA-256 of `four`, as sha256sum prints it.
    let found = rig.source.find("fix").await.unwrap().unwrap();
    let sum = "04efaf080f5a3e74e1c29d1ca6a48569382cbbcd324e8d59d2b83ef21c039f00";
    assert_eq!(found.info().sha256.as_deref(), Some(sum));
    for name in ["none", "team", "team:fix", "fix:x", "team:none:x", "../prompts/fix", "", ":fix"] {
        assert_eq!(rig.prompt(name).await, Ok(None), "{name}");
    }
    assert_eq!(rig.prompt(&"n".repeat(MAX_NAME_BYTES + 1)).await, Ok(None));
}

#[tokio::test]
async fn what_is_no_readable_text_is_refused_with_its_path() {
    let mut rig = Rig::new();
    rig.source.max_bytes = 20;
    rig.file("latin.md", b"one\ncaf\xe9\n");
    rig.file("zero.md", "one\0");
    rig.file("large.md", "x".repeat(21));
    rig.file("fits.md", "x".repeat(20));
    rig.file("dir.md/x.md", "one");
    symlink("gone", rig.path("broken.md")).unwrap();
    symlink("gone", rig.path("away")).unwrap();
    symlink("round.md", rig.path("round.md")).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, rig.path("pipe.md"), FileType::Fifo, mode, 0).unwrap();
    let cases = [
        ("latin", "`/prompts/latin.md` is not UTF-8 text: invalid byte at offset 7 (line 2)"),
        ("zero", "`/prompts/zero.md` is not UTF-8 text: NUL byte at offset 3 (line 1)"),
        ("large", "`/prompts/large.md` has 21 bytes, more than the limit of 20"),
        ("dir", "`/prompts/dir.md` is not a regular file but a directory"),
        ("pipe", "`/prompts/pipe.md` is not a regular file but a FIFO"),
        ("broken", "`/prompts/broken.md` is a link to `/prompts/gone`, which does not exist"),
        ("away:x", "`/prompts/away` is a link to `/prompts/gone`, which does not exist"),
        ("round", "`/prompts/round.md`: Too many levels of symbolic links"),
    ];
    for (name, said) in cases {
        assert_eq!(rig.refusal(name).await, said, "{name}");
    }
    assert!(rig.prompt("fits").await.unwrap().is_some());
}

#[tokio::test]
async fn a_folder_that_is_none_is_said() {
    let rig = Rig::new();
    File::create(rig.root.path().join("prompts")).unwrap();
    assert_eq!(rig.refusal("fix").await, "`/prompts` is not a directory");
    let error = rig.source.list().await.unwrap_err();
    assert!(error.message.ends_with("is not a directory"), "{error}");
    std::fs::remove_file(rig.root.path().join("prompts")).unwrap();
    symlink("gone", rig.root.path().join("prompts")).unwrap();
    let said = "`/prompts` is a link to `/gone`, which does not exist";
    assert_eq!(rig.refusal("fix").await, said);
}

#[tokio::test]
async fn the_list_has_what_can_be_typed_and_names_the_rest() {
    let rig = Rig::new();
    assert_eq!(rig.source.list().await.unwrap(), Default::default());
    for file in
        ["b.md", "a.md", "team/c-1.md", "README.md", "1.md", "a:b.md", "no.txt", "My team/d.md"]
    {
        rig.file(file, "x");
    }
    let list = rig.source.list().await.unwrap();
    assert_eq!(list.names, ["a", "b", "team:c-1"]);
    let below = |path: &Path| path.strip_prefix(&rig.source.folder).unwrap().to_owned();
    let unusable: Vec<_> = list.unusable.iter().map(|path| below(path)).collect();
    assert_eq!(
        unusable,
        ["1.md", "My team/d.md", "README.md", "a:b.md"].map(Into::<std::path::PathBuf>::into)
    );
    assert!(!list.incomplete);
}
