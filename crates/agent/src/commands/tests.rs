use std::sync::Arc;

use reins_kernel::{BoxFuture, Origin, Scope};

use super::*;

fn words(text: &str) -> Vec<String> {
    Arguments::of_text(text).words().unwrap()
}

#[test]
fn arguments_are_split_as_a_shell_does() {
    let cases: [(&str, &[&str]); 12] = [
        ("", &[]),
        ("  \t\n ", &[]),
        ("a  b\tc\nd", &["a", "b", "c", "d"]),
        ("'a b' c", &["a b", "c"]),
        ("\"a b\" c", &["a b", "c"]),
        ("a' 'b\" \"c", &["a b c"]),
        ("'' \"\"", &["", ""]),
        ("'\\' \"'\"", &["\\", "'"]),
        ("\"\\\" \\\\ \\n\"", &["\" \\ \\n"]),
        ("a\\ b \\'c", &["a b", "'c"]),
        ("end\\", &["end\\"]),
        ("größe '漢 字'", &["größe", "漢 字"]),
    ];
    for (text, expected) in cases {
        assert_eq!(words(text), expected, "{text:?}");
    }
}

#[test]
fn an_open_quote_is_no_word_and_the_text_is_kept() {
    for (text, open) in [("it's", '\''), ("a \"b", '"'), ("'a\" ", '\''), ("\"\\\"", '"')] {
        let arguments = Arguments::of_text(text);
        assert_eq!(arguments.words(), Err(OpenQuote(open)), "{text:?}");
        assert_eq!(arguments.text(), text.trim());
    }
}

#[test]
fn words_of_a_shell_stay_as_they_are() {
    let tail = ["it's".to_owned(), " b c ".to_owned(), String::new()];
    let arguments = Arguments::new(" 'one two'  3 ", &tail);
    assert_eq!(arguments.words().unwrap(), ["one two", "3", "it's", " b c ", ""]);
    assert_eq!(arguments.text(), "'one two'  3 it's  b c");
    assert_eq!(Arguments::new("", &["x".to_owned()]).text(), "x");
}

/// A source with one command.
struct One(&'static str, &'static str);

struct Said(CommandInfo);

impl Command for Said {
    fn info(&self) -> &CommandInfo {
        &self.0
    }

    fn expand(&self, arguments: &Arguments) -> Result<String, CommandError> {
        Ok(arguments.text().to_owned())
    }
}

impl CommandSource for One {
    fn place(&self) -> String {
        self.1.to_owned()
    }

    fn list(&self) -> BoxFuture<'_, Result<CommandList, CommandError>> {
        let names = vec![self.0.to_owned()];
        Box::pin(std::future::ready(match self.1 {
            "broken" => Err(CommandError::new("broken")),
            _ => Ok(CommandList { names, ..CommandList::default() }),
        }))
    }

    fn find<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn Command>>, CommandError>> {
        let found = (name == self.0).then(|| {
            let command: Arc<dyn Command> = Arc::new(Said(CommandInfo {
                name: name.to_owned(),
                description: None,
                argument_hint: None,
                file: Some(self.1.into()),
                sha256: None,
            }));
            command
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}

fn add(scope: &Scope, row: &str, one: One) -> reins_kernel::Registration {
    scope.add::<dyn CommandSource>(row, Arc::new(one), &Origin::runtime(row)).unwrap()
}

#[tokio::test]
async fn the_nearest_scope_wins_and_a_tie_says_both() {
    let outer = Scope::root();
    let inner = outer.child("agent");
    let _far = add(&outer, "far", One("fix", "/far/fix.md"));
    let _near = add(&inner, "near", One("fix", "/near/fix.md"));
    let _other = add(&outer, "other", One("ask", "/far/ask.md"));

    let file = async |scope: &Scope, name: &str| {
        let found = find_command(scope, name).await.unwrap();
        found.and_then(|command| command.info().file.clone())
    };
    assert_eq!(file(&inner, "fix").await, Some("/near/fix.md".into()));
    assert_eq!(file(&outer, "fix").await, Some("/far/fix.md".into()));
    assert_eq!(file(&inner, "ask").await, Some("/far/ask.md".into()));
    assert_eq!(file(&inner, "none").await, None);

    let _tie = add(&outer, "tie", One("fix", "/tie/fix.md"));
    assert_eq!(file(&inner, "fix").await, Some("/near/fix.md".into()), "ties count where they are");
    let Err(tie) = find_command(&outer, "fix").await else { panic!("a tie is no command") };
    let said = "there are two commands `/fix`: `/far/fix.md` of row `far` (runtime) and \
                `/tie/fix.md` of row `tie` (runtime)";
    assert_eq!(tie.message, said);
}

#[tokio::test]
async fn a_list_has_each_name_once_and_says_what_failed() {
    let scope = Scope::root();
    let _a = add(&scope, "a", One("fix", "/a"));
    let _b = add(&scope, "b", One("ask", "/b"));
    let _c = add(&scope, "c", One("fix", "/c"));
    let _d = add(&scope, "d", One("no", "broken"));
    let (list, errors) = list_commands(&scope).await;
    assert_eq!(list.names, ["ask", "fix"]);
    assert_eq!(errors, [CommandError::new("broken")]);
}

#[test]
fn the_event_is_registered_and_has_its_fields() {
    let info = CommandInfo {
        name: "team:fix".to_owned(),
        description: None,
        argument_hint: None,
        file: Some("/p/team/fix.md".into()),
        sha256: Some("ab".to_owned()),
    };
    let run = CommandRun::by_user(&info, &Arguments::of_text(" a b "));
    let draft = run.draft().unwrap();
    assert_eq!((draft.kind.as_str(), draft.v, draft.ignorable), ("command/run", Some(1), true));
    let data: serde_json::Value = serde_json::from_str(draft.data.get()).unwrap();
    let expected = serde_json::json!({
        "commandId": run.command_id, "name": "team:fix", "args": "a b",
        "source": {"kind": "user"}, "file": "/p/team/fix.md", "sha256": "ab",
    });
    assert_eq!(data, expected);
    assert!(crate::EVENT_TYPES.iter().any(|(name, _)| *name == CommandRun::TYPE));
}
