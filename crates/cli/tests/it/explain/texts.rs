//! The words of `reins explain`.

use reins_testkit::{Bin, Finished};

const KEY: &str = "sk-not-to-be-seen-anywhere-1234567890";

const SETTINGS: &str = r#"[[row]]
id = "bash"
config = { timeout_ms = 400, grace_ms = 100 }

[[row]]
id = "grep"
disabled = true

[[insert]]
id = "my.own"
plugin = "provider-chat"
[insert.config]
vendor = "compatible"
base_url = "http://127.0.0.1:1/v1"
api_key = "sk-not-to-be-seen-anywhere-1234567890"
models = [{ id = "m1" }, { id = "m2", max_tokens = 5 }]
[insert.config.headers]
x-team = "Bearer ${env:TEAM}"
"x.dot" = "sk-not-to-be-seen-anywhere-1234567890"
"#;

const PATCH: &str = "[[row]]\nid = \"bash\"\nconfig = { grace_ms = 200 }\n";

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

fn with_settings() -> Bin {
    let bin = bin().env("TEAM", KEY);
    bin.file("../home/settings.toml", SETTINGS).unwrap();
    bin.file("p.toml", PATCH).unwrap();
    bin
}

async fn explained(bin: &Bin, args: &[&str]) -> String {
    let end = bin.run([&["explain"], args].concat()).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{args:?}");
    end.stdout
}

/// Where a row of the shipped bundle is inserted.
fn in_base(row: &str) -> String {
    let bundle = include_str!("../../../bundles/base.toml");
    let id = format!("id = \"{row}\"");
    let line = bundle.lines().position(|line| line == id).unwrap();
    format!("bundle base:{line}")
}

fn assert_refused(end: &Finished, what: &str, message: &str) {
    assert_eq!(end.code, Some(2), "{what}: {}", end.stderr);
    assert_eq!(end.stderr, format!("reins: {message}\n"), "{what}");
    assert_eq!(end.stdout, "", "{what}");
}

#[tokio::test]
async fn a_tool_names_the_row_its_layer_and_line() {
    let bin = bin();
    let text = explained(&bin, &["tool", "bash"]).await;
    let first = format!("tool `bash` comes from row `bash` ({})\n", in_base("bash"));
    assert!(text.starts_with(&first), "{text}");

    let settings = "[[row]]\nid = \"bash\"\ndisabled = true\n\n\
                    [[insert]]\nid = \"shell\"\nplugin = \"tool-bash\"\n";
    bin.file("../home/settings.toml", settings).unwrap();
    let text = explained(&bin, &["tool", "bash"]).await;
    let settings = bin.home().join("settings.toml");
    let place = format!("your settings, {}:5", settings.display());
    let first = format!("tool `bash` comes from row `shell` ({place})\n");
    assert!(text.starts_with(&first), "{text}");

    bin.file("p.toml", "\n[[row]]\nid = \"shell\"\nconfig = { timeout_ms = 5 }\n").unwrap();
    let text = explained(&bin, &["tool", "bash", "--patch", "p.toml"]).await;
    let all = format!(
        "{first}changed by patch p.toml:2\nin scope global\n\
         agents of preset `standard` have it\n"
    );
    assert!(text.starts_with(&all), "{text}");
}

#[tokio::test]
async fn a_tool_names_the_limits_that_hold_for_its_calls() {
    let bin = bin();
    bin.file("p.toml", "[[row]]\nid = \"limits\"\nconfig = { max_steps = 9 }\n").unwrap();
    let text = explained(&bin, &["tool", "bash", "--patch", "p.toml"]).await;
    let (limits, caps) = (in_base("limits"), in_base("agent-loop"));
    let of_turn =
        format!("  row `limits` ({limits}): max_steps = 9 (patch p.toml:3). Steps of a turn");
    let of_call = format!("  row `agent-loop` ({caps}): max_result_bytes = 50000 (default). ");
    for line in [of_turn, of_call] {
        assert!(text.contains(&line), "no {line} in {text}");
    }
    assert!(!text.contains("max_answer_bytes"), "that is no limit of a call: {text}");
}

#[tokio::test]
async fn a_field_says_where_it_was_written_before() {
    let bin = with_settings();
    let settings = format!("your settings, {}", bin.home().join("settings.toml").display());
    let of = async |field: &str| explained(&bin, &["field", field, "--patch", "p.toml"]).await;

    let text = of("bash.grace_ms").await;
    let part = format!(
        "value: 200\nwritten in patch p.toml:3\nreplaced: 100, written in {settings}:3\n\
         takes: an integer\n"
    );
    assert!(text.contains(&part), "{text}");
    assert!(
        text.contains("to change it: edit patch p.toml:3\na change is taken "),
        "it is on top: {text}"
    );

    let text = of("bash.timeout_ms").await;
    let part = format!(
        "value: 120000, the default\nreplaced: 400, written in {settings}:3; patch p.toml:3 does \
         not repeat it\ntakes: "
    );
    assert!(text.contains(&part), "a patch replaces the whole: {text}");
    let part = "default: 120000\n\nto change it: edit patch p.toml:3\n";
    assert!(text.contains(part), "no setting below the patch would be in force: {text}");
    assert_eq!(of("bash.config.timeout_ms").await, text, "as in messages");

    let text = of("grep.disabled").await;
    let part = format!("value: true\nwritten in {settings}:5\n");
    assert!(text.contains(&part), "{text}");
    assert!(text.contains("`reins config set grep.disabled false`"), "{text}");

    let text = of("my.own.models[1].max_tokens").await;
    assert!(text.contains(&format!("value: 5\nwritten in {settings}:16\n")), "{text}");
    let text = of("my.own.models[1]").await;
    assert!(text.contains("takes: an entry of `models`, a list of tables\n"), "{text}");
}

/// What `config set` is said to take is what it takes.
#[tokio::test]
async fn a_field_is_changed_as_it_says() {
    let bin = with_settings();
    let fields =
        [("bash.timeout_ms", "9000"), ("my.own.headers.x.dot", "new"), ("prompt.facts", "false")];
    for (field, value) in fields {
        let text = explained(&bin, &["field", field]).await;
        let (_, command) = text.split_once("to change it: `reins ").unwrap();
        let (command, _) = command.split_once(" VALUE`").unwrap();
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        let end = bin.run(words.chain([value])).await.unwrap();
        assert_eq!(end.code, Some(0), "{field}: {}", end.stderr);
    }
    let text = explained(&bin, &["field", "bash.timeout_ms"]).await;
    assert!(text.contains("\nvalue: 9000\n"), "{text}");
    let settings = std::fs::read_to_string(bin.home().join("settings.toml")).unwrap();
    assert!(settings.contains("\"x.dot\" = \"new\""), "{settings}");
}

#[tokio::test]
async fn no_secret_is_printed() {
    let bin = with_settings();
    let mut texts = Vec::new();
    for command in [
        &["field"][..],
        &["field", "my.own.api_key"],
        &["field", "my.own.headers"],
        &["field", "my.own.headers.x-team"],
        &["field", "my.own.headers.x.dot"],
        &["row", "my.own"],
    ] {
        texts.push(explained(&bin, command).await);
    }
    assert!(texts.iter().all(|text| !text.contains(KEY)), "{texts:#?}");
    assert!(texts[1].contains("value: \"[withheld]\"\n"), "{}", texts[1]);
    assert!(texts[3].contains("value: \"Bearer ${env:TEAM}\"\n"), "{}", texts[3]);
    assert!(texts[4].contains("value: \"[withheld]\"\n"), "{}", texts[4]);
    assert!(texts[5].contains("  api_key = \"[withheld]\" ("), "{}", texts[5]);

    // Neither is what a patch replaced.
    let config = "{ vendor = \"compatible\", base_url = \"http://127.0.0.1:2\" }";
    bin.file("q.toml", format!("[[row]]\nid = \"my.own\"\nconfig = {config}\n")).unwrap();
    let text = explained(&bin, &["field", "my.own.api_key", "--patch", "q.toml"]).await;
    assert!(text.contains("value: not set\nreplaced: \"[withheld]\", written in "), "{text}");
}

#[tokio::test]
async fn a_row_says_who_changed_it_and_what_it_contributes() {
    let bin = with_settings();
    let settings = format!("your settings, {}", bin.home().join("settings.toml").display());
    let text = explained(&bin, &["row", "grep"]).await;
    let part = format!(
        "inserted by {}\nchanged by {settings}:5\noff: turned off by {settings}:5\n",
        in_base("grep")
    );
    assert!(text.contains(&part), "{text}");
    assert!(text.contains("\ncontributes:\n  none\n"), "{text}");
    let list = explained(&bin, &["row"]).await;
    let off = list.lines().find(|line| line.starts_with("grep ")).unwrap();
    let words: Vec<&str> =
        off.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).take(4).collect();
    assert_eq!(words, ["grep", "tool-grep", "next turn", "off"]);
    assert!(off.ends_with(&format!("{}; turned off by {settings}:5", in_base("grep"))), "{off}");

    let text = explained(&bin, &["row", "bash", "--patch", "p.toml"]).await;
    for part in [
        "changed by patch p.toml:1\non, in scope global\n",
        "a change is taken by the next run; a running agent takes it at its next turn\n\
         needs: process (row `process`)\n",
        "\ncontributes:\n  tool `bash`\n",
        "  grace_ms = 200 (patch p.toml:3)\n",
        "  timeout_ms = 120000 (default)\n",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let text = explained(&bin, &["row", "deepseek"]).await;
    let needs = text.lines().find_map(|line| line.strip_prefix("needs: ")).unwrap();
    let needs: Vec<&str> = needs.split(", ").collect();
    assert!(needs[0].ends_with(" (row `http`)") && needs[1].ends_with(" (row `clock`)"), "{text}");
    assert_eq!(needs[2].to_lowercase(), "env", "the process itself gives the environment");
    let text = explained(&bin, &["row", "agent-loop"]).await;
    for part in [
        "on, in scope process\na change is taken when Reins starts again\n",
        "  service `AgentFactory`\n",
        "  event type `",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let text = explained(&bin, &["row", "retry"]).await;
    assert!(text.contains("contributes:\n  layer of chain `request-error`, order 0\n"), "{text}");
    assert!(text.ends_with("fields:\n  none: there is nothing to set\n"), "{text}");
}

#[tokio::test]
async fn rows_of_a_preset_are_explained_beside_those_of_the_process() {
    let bin = bin();
    let of =
        async |args: &[&str]| explained(&bin, &[args, &["--preset", "minimal"]].concat()).await;
    let text = of(&["row", "prompt"]).await;
    let (process, preset) = text.split_once("\n\nrow `prompt` of preset `minimal`,").unwrap();
    assert!(process.contains("\non, in scope global\n"), "{process}");
    assert!(preset.contains("\non, in scope preset minimal\n"), "{preset}");
    let text = of(&["row", "only-bash"]).await;
    assert!(text.contains("\ncontributes:\n  restriction of each inherited tool\n"), "{text}");
    let text = of(&["field", "only-bash.tools"]).await;
    let how = "to change it: write `presets/minimal.toml` in the home, which takes the place of";
    assert!(text.contains(how), "{text}");
    let text = of(&["tool", "read"]).await;
    assert!(text.contains("hidden from agents of preset `minimal` by row `only-bash` ("), "{text}");
    let text = explained(&bin, &["field", "limits.max_steps", "--profile", "sdk"]).await;
    let part = "`reins config set limits.max_steps VALUE --profile sdk`, which holds for every \
                profile\n\
                a change is taken when Reins starts again, since no row of plugin `reload` \
                is on\n";
    assert!(text.contains(part), "{text}");
}

#[tokio::test]
async fn what_a_profile_of_ones_own_says_is_changed_in_its_file() {
    let bin = bin();
    let profile = "bundles = [\"base\"]\n[[row]]\nid = \"bash\"\nconfig = { timeout_ms = 7 }\n\
                   [[row]]\nid = \"grep\"\ndisabled = true\n";
    bin.file("../home/profiles/mine.toml", profile).unwrap();
    let file = bin.home().join("profiles/mine.toml").display().to_string();
    for (field, line) in [("bash.timeout_ms", 4), ("bash.grace_ms", 4), ("grep.disabled", 5)] {
        let text = explained(&bin, &["field", field, "--profile", "mine"]).await;
        let part = format!("\nto change it: edit profile mine, {file}:{line}\n");
        assert!(text.contains(&part), "wanted {part} in {text}");
    }
    let text = explained(&bin, &["field", "read.max_lines", "--profile", "mine"]).await;
    assert!(text.contains("`reins config set read.max_lines VALUE --profile mine`"), "{text}");
}

const OWN_PRESET: &str = "description = \"Looks\\nonly.\"\n\n[[insert]]\nid = \"few\"\n\
                          plugin = \"limits\"\nconfig = { max_steps = 3 }\n\n[[insert]]\n\
                          id = \"prompt\"\nplugin = \"prompt\"\nconfig = { facts = false }\n";

#[tokio::test]
async fn what_agents_of_a_preset_do_not_use_is_said_to_be_shadowed() {
    let bin = bin();
    bin.file("../home/presets/own.toml", OWN_PRESET).unwrap();
    let own = format!("preset own, {}", bin.home().join("presets/own.toml").display());
    let of = async |args: &[&str]| explained(&bin, &[args, &["--preset", "own"]].concat()).await;

    let text = of(&["field", "prompt.facts"]).await;
    let (preset, process) = text.split_once("\n\nfield `facts` of row `prompt`, plugin").unwrap();
    let part =
        format!("\nin force for agents of preset `own`\nvalue: false\nwritten in {own}:11\n");
    assert!(preset.contains(&part), "{preset}");
    assert!(preset.contains(&format!("\nto change it: edit {own}:11\n")), "{preset}");
    // The facts of the process are still there: only the section is replaced.
    let shadowed = format!(
        "\nshadowed for agents of preset `own` by row `prompt` ({own}:8): prompt section \
         `persona`\nvalue: true, the default\n"
    );
    assert!(process.contains(&shadowed), "{process}");

    // Another id takes the place just the same.
    let shadowed = format!(
        "\nshadowed for agents of preset `own` by row `few` ({own}:3): service `TurnLimits`\n"
    );
    for command in [["field", "limits.max_steps"], ["row", "limits"]] {
        let text = of(&command).await;
        assert!(text.contains(&shadowed), "{text}");
    }
    let text = explained(&bin, &["field", "limits.max_steps"]).await;
    assert!(!text.contains("shadowed") && !text.contains("in force"), "in `standard`: {text}");
}

#[tokio::test]
async fn presets_are_listed_and_compared_with_the_profile() {
    let bin = bin();
    bin.file("../home/presets/own.toml", OWN_PRESET).unwrap();
    bin.file("../home/presets/bad.toml", "[[insert]\n").unwrap();
    let file = bin.home().join("presets/own.toml").display().to_string();
    let list = explained(&bin, &["preset"]).await;
    let cells = |name: &str| -> Vec<String> {
        let line = list.lines().find(|line| line.starts_with(name)).unwrap();
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    assert_eq!(cells("own"), ["own", &*file, "Looks only."]);
    let minimal = "A shell and one editor, and few words about them.";
    assert_eq!(cells("minimal"), ["minimal", "part of Reins", minimal]);
    assert_eq!(cells("standard")[..3], ["standard", "default", "part of Reins"]);

    let text = explained(&bin, &["preset", "minimal"]).await;
    let start = format!("agent preset `minimal`, part of Reins\n{minimal}\n\nrows:\n  only-bash ");
    assert!(text.starts_with(&start), "{text}");
    let hidden = format!("  tool `read` of row `read` ({}), by row `only-bash`\n", in_base("read"));
    let replaced = format!("  tool `edit` of row `edit` ({}), by row `edit`\n", in_base("edit"));
    let (hides, replaces) = text.split_once("\ntakes the place of:\n").unwrap();
    assert!(hides.contains(&hidden) && replaces.contains(&replaced), "{text}");

    let text = explained(&bin, &["preset", "own"]).await;
    let rest = format!(
        "agent preset `own`, {file}\nLooks only.\n\nrows:\n  \
         few     limits  on  preset own, {file}:3\n  prompt  prompt  on  preset own, {file}:8\n\
         hides from its agents:\n  none\ntakes the place of:\n  service `TurnLimits` of row \
         `limits` ({}), by row `few`\n  prompt section `persona` of row `prompt` ({}), by row \
         `prompt`\n",
        in_base("limits"),
        in_base("prompt")
    );
    assert_eq!(text, rest);

    let end = bin.run(["explain", "preset", "minmal"]).await.unwrap();
    let message = "there is no agent preset `minmal`; known are: bad, minimal, own, standard; did \
                   you mean `minimal`?";
    assert_refused(&end, "an unknown one", message);
}

#[tokio::test]
async fn profiles_are_listed_with_bundles_and_rows() {
    let bin = bin();
    let own = "bundles = [\"base\"]\n[[row]]\nid = \"grep\"\ndisabled = true\n";
    bin.file("../home/profiles/own.toml", own).unwrap();
    bin.file("../home/profiles/bad.toml", "bundles = 3\n").unwrap();
    // What is wrong in the settings does not matter here.
    bin.file("../home/settings.toml", "[[row]\n").unwrap();
    let file = bin.home().join("profiles/own.toml").display().to_string();
    let list = explained(&bin, &["profile"]).await;
    let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("own ").ends_with(&format!("{file}  Bundles: base.")), "{list}");
    assert!(line("default ").starts_with("default  default  part of Reins  "), "{list}");
    assert!(line("sdk ").ends_with("Bundles: base, sdk."), "{list}");
    assert!(line("bad ").ends_with("  cannot be read, see `reins explain profile bad`"), "{list}");

    let text = explained(&bin, &["profile", "own"]).await;
    let start = format!("profile `own`, {file}\nBundles: base.\n\nrows below your settings:\n");
    assert!(text.starts_with(&start), "{text}");
    let grep = text.lines().find(|line| line.starts_with("  grep ")).unwrap();
    let place = format!("off  {}; turned off by profile own, {file}:2", in_base("grep"));
    assert!(grep.ends_with(&place), "{text}");

    let end = bin.run(["explain", "profile", "sdj"]).await.unwrap();
    let message =
        "there is no profile `sdj`; known are: bad, default, own, sdk; did you mean `sdk`?";
    assert_refused(&end, "an unknown one", message);
    let end = bin.run(["explain", "profile", "bad"]).await.unwrap();
    assert!(end.code == Some(2) && end.stderr.contains("bad.toml:1: field `bundles`"), "{end:?}");
}

#[tokio::test]
async fn a_tool_is_told_shortly_and_in_full() {
    let bin = bin();
    let short = explained(&bin, &["tool", "bash"]).await;
    assert!(short.contains("\n\nno layers around the call, no guards\n\n"), "{short}");
    let parameters = "parameters: command, description, timeoutMs, workdir; `--full` shows their \
                      schema\n";
    assert!(short.ends_with(parameters), "{short}");
    let full = explained(&bin, &["tool", "bash", "--full"]).await;
    for part in ["chain `tool-execute`, layers outermost first:\n  none\n  at its end: ", "{\n  \""]
    {
        assert!(full.contains(part) && !short.contains(part), "no {part} in {full}");
    }
}

#[tokio::test]
async fn the_fields_of_a_row_fit_a_terminal() {
    let text = explained(&bin(), &["row", "deepseek"]).await;
    let (_, fields) = text.split_once("\nfields:\n").unwrap();
    let long: Vec<&str> = fields.lines().filter(|line| line.chars().count() > 100).collect();
    assert_eq!(long, [""; 0]);
}

#[tokio::test]
async fn parts_of_the_prompt_are_shown_alone() {
    let bin = bin();
    let whole = explained(&bin, &["prompt"]).await;
    let persona = explained(&bin, &["prompt", "persona"]).await;
    let raw = explained(&bin, &["prompt", "persona", "--raw"]).await;
    let heading = format!("── persona  row `prompt` ({}), scope global\n", in_base("prompt"));
    assert_eq!(persona, format!("{heading}{raw}\n"));
    assert!(whole.starts_with(&persona), "{whole}");
    assert_eq!(explained(&bin, &["prompt", "--raw"]).await, raw, "it is the only one");
    let fact = explained(&bin, &["prompt", "1-directory", "--raw"]).await;
    let project = bin.project().canonicalize().unwrap();
    assert_eq!(fact, format!("- Working directory: {}", project.display()));
}

#[tokio::test]
async fn unknown_names_are_answered_with_the_nearest_and_all() {
    let bin = bin();
    let tools = "tools are: bash, edit, glob, grep, read, write";
    let refused = async |args: &[&str], message: &str| {
        let end = bin.run([&["explain"], args].concat()).await.unwrap();
        assert_refused(&end, &args.join(" "), message);
    };
    let message = format!("there is no tool `bsh`\nhint: did you mean `bash`? {tools}");
    refused(&["tool", "bsh"], &message).await;
    let message = format!("there is no tool `zzzzzz`\nhint: {tools}");
    refused(&["tool", "zzzzzz"], &message).await;
    let message = "there is no chain `pre-stpe`\nhint: did you mean `pre-step`? chains are: \
                   pre-step, request, request-error, tool-pre-execute, approval, tool-execute, \
                   tool-post-execute, limit, turn-stopping";
    refused(&["chain", "pre-stpe"], message).await;
    let message = "there is no prompt part `person`\nhint: did you mean `persona`? prompt parts \
                   are: persona, 1-directory, 2-system, 3-date";
    refused(&["prompt", "person"], message).await;
    let message = "row `prompt` has no field `fatcs`\nhint: did you mean `facts`? fields are: \
                   persona, facts, disabled";
    refused(&["field", "prompt.fatcs"], message).await;
    let message = "`prompt` names a row and none of its fields\nhint: `reins explain row prompt` \
                   shows them all";
    refused(&["field", "prompt"], message).await;
    for args in [["row", "promt"], ["field", "promt.facts"]] {
        let end = bin.run([&["explain"], &args[..]].concat()).await.unwrap();
        let start =
            "reins: there is no row `promt`\nhint: did you mean `prompt`? rows are: clock, ";
        assert!(end.code == Some(2) && end.stderr.starts_with(start), "{}", end.stderr);
    }
    let message = "there is no agent preset `minmal`; known are: minimal, standard; did you mean \
                   `minimal`?";
    refused(&["tool", "--preset", "minmal"], message).await;
}
