//! What `reins explain` says, held against what really runs: layers of chains, tools, prompt and
//! facts of real requests. The binary is Reins with a few more plugins, see `tests/watch`.

use std::collections::{BTreeMap, BTreeSet};

use reins_testkit::{Acts, Bin, Finished, StrictServer, script};
use serde_json::{Value, json};

mod texts;

/// Every shipped profile with every shipped preset.
const SHIPPED: [(&str, &str); 4] =
    [("default", "standard"), ("default", "minimal"), ("sdk", "standard"), ("sdk", "minimal")];

/// What a tool call passes.
const CALL: [&str; 4] = ["tool-pre-execute", "approval", "tool-execute", "tool-post-execute"];

fn watching() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins-test-watch")).unwrap()
}

/// A layer of a chain, by what can be seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    row: String,
    order: String,
    scope: String,
    /// Layer of the row, and file and line.
    place: String,
}

/// A binary whose files and options are settled.
struct Rig {
    bin: Bin,
    args: Vec<String>,
}

impl Rig {
    fn new(bin: Bin, profile: &str, preset: &str, patch: &str) -> Self {
        let watch = "[[insert]]\nid = \"watch\"\nplugin = \"test-watch\"\n\
                     config = { file = \"ran.txt\" }\n\n";
        bin.file("p.toml", watch.to_owned() + patch).unwrap();
        bin.file("a.txt", "one\n").unwrap();
        let args = ["--profile", profile, "--preset", preset, "--patch", "p.toml"];
        Self { bin, args: args.map(str::to_owned).to_vec() }
    }

    async fn call(&self, command: &[&str]) -> Finished {
        let command = command.iter().map(|word| (*word).to_owned());
        self.bin.run(command.chain(self.args.clone())).await.unwrap()
    }

    async fn explain(&self, command: &[&str]) -> String {
        let end = self.call(&[&["explain"], command].concat()).await;
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{command:?}");
        end.stdout
    }

    /// The first words of the lines of a list.
    async fn names(&self, what: &str) -> Vec<String> {
        let list = self.explain(&[what]).await;
        list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    }

    async fn layers(&self, chain: &str) -> Vec<Layer> {
        let text = self.explain(&["chain", chain]).await;
        let (_, after) = text.split_once("\nlayers, outermost first:\n").unwrap();
        let lines = after.lines().take_while(|line| line.starts_with("  "));
        lines.filter(|line| *line != "  none").map(told).collect()
    }

    /// Which layers ran, chain by chain.
    fn ran(&self) -> BTreeMap<String, Vec<Layer>> {
        let mut ran: BTreeMap<String, Vec<Layer>> = BTreeMap::new();
        for line in std::fs::read_to_string(self.bin.project().join("ran.txt")).unwrap().lines() {
            let [chain, row, order, scope, layer, place]: [&str; 6] =
                line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let (file, number) = place.rsplit_once(':').unwrap();
            let place = match layer.ends_with(file) {
                true => format!("{layer}:{number}"),
                false => format!("{layer}, {place}"),
            };
            let [row, order, scope] = [row, order, scope].map(str::to_owned);
            ran.entry(chain.to_owned()).or_default().push(Layer { row, order, scope, place });
        }
        ran
    }

    /// Every run of every chain passed the layers that are explained, in their order, and nothing
    /// else ran. Answers the chains that did not run.
    async fn chains_ran_as_explained(&self) -> BTreeSet<String> {
        let mut ran = self.ran();
        let mut idle = BTreeSet::new();
        for chain in self.names("chain").await {
            let layers = self.layers(&chain).await;
            let runs = ran.remove(&chain).unwrap_or_default();
            if runs.is_empty() {
                idle.insert(chain);
                continue;
            }
            assert!(!layers.is_empty(), "`{chain}` has layers that are not explained: {runs:?}");
            for run in runs.chunks(layers.len()) {
                assert_eq!(run, layers, "chain `{chain}`");
            }
        }
        assert_eq!(ran, BTreeMap::new(), "chains that `explain` does not know");
        idle
    }
}

/// The chains that `explain tool` says a call passes, with their layers.
fn passed(text: &str) -> Vec<(&str, Vec<Layer>)> {
    let mut chains: Vec<(&str, Vec<Layer>)> = Vec::new();
    for line in text.lines().take_while(|line| *line != "limits that hold:") {
        if let Some(name) = line.strip_prefix("chain `") {
            chains.push((name.split('`').next().unwrap(), Vec::new()));
        } else if let (true, Some((_, layers))) = (line.contains(", order "), chains.last_mut()) {
            layers.push(told(line));
        }
    }
    chains
}

/// Reads `  row `retry` (bundle base:46), order 0, scope global`.
fn told(line: &str) -> Layer {
    let rest = line.strip_prefix("  row `").unwrap_or_else(|| panic!("no layer: {line}"));
    let (row, rest) = rest.split_once("` (").unwrap();
    let (rest, scope) = rest.rsplit_once(", scope ").unwrap();
    let (place, order) = rest.rsplit_once("), order ").unwrap();
    let [row, order, scope, place] = [row, order, scope, place].map(str::to_owned);
    Layer { row, order, scope, place }
}

/// Tools of a preset, each with a call that works.
fn calls(preset: &str) -> Vec<(&'static str, Value)> {
    let bash = ("bash", json!({"command": "echo hi", "description": "Say hi"}));
    let edit = ("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}));
    if preset == "minimal" {
        return vec![bash, edit];
    }
    vec![
        bash,
        ("read", json!({"file_path": "a.txt"})),
        edit,
        ("glob", json!({"pattern": "*.txt"})),
        ("grep", json!({"pattern": "two"})),
        ("write", json!({"file_path": "b.txt", "content": "new\n"})),
    ]
}

/// A failed attempt, every tool in a step of its own, and an end.
fn acts(preset: &str) -> Acts {
    let mut acts = script().status(503, &[("retry-after-ms", "1")]);
    for (name, arguments) in calls(preset) {
        acts = acts.then().call(name, arguments);
    }
    acts.then().text("Done.")
}

/// Two layers around every chain, of which the outer one stands later in the file. Somebody is
/// asked about `bash` and says yes; a limit that is reached is extended.
const WRAPS: &str = "\
[[insert]]
id = \"inner\"
plugin = \"test-wrap\"
config = { order = \"7\", answer = \"yes\" }

[[insert]]
id = \"outer\"
plugin = \"test-wrap\"
config = { order = \"-7\", ask = \"bash\", extend = \"yes\", inspect = \"yes\" }
";

/// Runs every tool of the preset; the limit of one step is reached on the way.
async fn run_all(rig: &Rig, preset: &str, server: &StrictServer) {
    let end = rig.call(&["run", "go on", "--max-steps", "1"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "Done.\n"), "{}", end.stderr);
    server.assert_clean();
    let log = std::fs::read_to_string(rig.bin.logs().unwrap().last().unwrap()).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<Value> = events.filter(|event| event["type"] == "tool/result").collect();
    assert!(results.iter().all(|result| result["data"]["error"].is_null()), "{results:#?}");
    assert_eq!(results.len(), calls(preset).len(), "every tool was called");
}

#[tokio::test]
async fn chains_run_as_they_are_explained_in_every_shipped_profile_and_preset() {
    for (profile, preset) in SHIPPED {
        let server = StrictServer::start(acts(preset)).unwrap();
        let rig = Rig::new(watching().model_at(&server.base_url()), profile, preset, WRAPS);
        run_all(&rig, preset, &server).await;
        let idle = rig.chains_ran_as_explained().await;
        assert_eq!(idle, BTreeSet::new(), "{profile}/{preset}: every chain runs");
        let layers = rig.layers("request-error").await;
        let rows: Vec<&str> = layers.iter().map(|layer| layer.row.as_str()).collect();
        assert_eq!(rows, ["outer", "retry", "inner"]);
        chains_are_listed_in_the_order_of_a_turn(&rig).await;

        let calls = calls(preset);
        for (tool, _) in &calls {
            calls_passed_as_explained(&rig, tool, calls.len()).await;
        }
    }
}

async fn chains_are_listed_in_the_order_of_a_turn(rig: &Rig) {
    let foreign = "test-inspect";
    let text = std::fs::read_to_string(rig.bin.project().join("ran.txt")).unwrap();
    let mut met: Vec<&str> = Vec::new();
    for line in text.lines() {
        let chain = line.split('\t').next().unwrap();
        if !met.contains(&chain) && chain != foreign {
            met.push(chain);
        }
    }
    let mut listed = rig.names("chain").await;
    assert_eq!(listed.pop().unwrap(), foreign, "those of other plugins come last");
    assert_eq!(listed, met);
}

/// Each call passed the chains that its tool is said to pass, and no chain ran for anything else.
async fn calls_passed_as_explained(rig: &Rig, tool: &str, calls: usize) {
    let (text, ran) = (rig.explain(&["tool", tool]).await, rig.ran());
    let passed = passed(&text);
    let names: Vec<&str> = passed.iter().map(|(chain, _)| *chain).collect();
    assert_eq!(names, CALL);
    for (chain, layers) in passed {
        assert_eq!(layers, rig.layers(chain).await, "`{chain}` around `{tool}`");
        // Only about `bash` somebody is asked.
        let runs = if chain == "approval" { 1 } else { calls };
        assert_eq!(ran[chain].len(), runs * layers.len(), "{chain}");
    }
}

#[tokio::test]
async fn of_the_shipped_rows_only_what_is_explained_runs() {
    // Without rows of the test: what is not wrapped cannot be seen to run.
    for (profile, preset) in SHIPPED {
        // The step after the limit is not made: the first call ends the turn.
        let server = StrictServer::start(acts(preset)).unwrap();
        let rig = Rig::new(watching().model_at(&server.base_url()), profile, preset, "");
        let end = rig.call(&["run", "go on", "--max-steps", "1"]).await;
        assert_eq!(end.code, Some(5), "{}", end.stderr);
        for chain in rig.chains_ran_as_explained().await {
            let layers = rig.layers(&chain).await;
            assert_eq!(layers, [], "{profile}/{preset}: `{chain}` did not run");
        }
    }
}

#[tokio::test]
async fn tools_prompt_and_facts_are_explained_as_the_model_gets_them() {
    for (profile, preset) in SHIPPED {
        let server = StrictServer::start(script().text("Done.")).unwrap();
        let rig = Rig::new(watching().model_at(&server.base_url()), profile, preset, "");
        let facts_before = facts(&rig).await;
        let end = rig.call(&["run", "go on"]).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        server.assert_clean();
        let body = &server.json_bodies()[0];

        assert_eq!(visible_tools(&rig).await, names_of(body), "{profile}/{preset}");
        let called: BTreeSet<&str> = calls(preset).into_iter().map(|(name, _)| name).collect();
        let called: Vec<&str> = called.into_iter().collect();
        assert_eq!(names_of(body), called, "the other test calls every tool");
        for tool in body["tools"].as_array().unwrap() {
            tool_is_explained(&rig, &tool["function"]).await;
        }

        let messages = body["messages"].as_array().unwrap();
        let system = messages.iter().filter(|message| message["role"] == "system");
        let system: Vec<&str> = system.map(|m| m["content"].as_str().unwrap()).collect();
        assert_eq!(system, [rig.explain(&["prompt", "--raw"]).await]);

        let told = messages.iter().filter_map(|message| message["content"].as_str());
        let told = told.filter(|text| text.contains("Facts about the environment"));
        let told: Vec<&str> = told.collect();
        // The date may change in between.
        let facts = [facts_before, facts(&rig).await];
        assert!(told.len() == 1 && facts.iter().any(|facts| facts == told[0]), "{told:?}");
    }
}

/// What the model is told of a tool is what `explain tool` says it reads.
async fn tool_is_explained(rig: &Rig, function: &Value) {
    let text = rig.explain(&["tool", function["name"].as_str().unwrap(), "--full"]).await;
    let (_, read) = text.split_once("\nwhat the model reads:\n").unwrap();
    let (description, parameters) = read.rsplit_once("\n\nparameters:\n").unwrap();
    assert_eq!(description, function["description"]);
    assert_eq!(serde_json::from_str::<Value>(parameters).unwrap(), function["parameters"]);
}

fn names_of(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// The tools that `explain tool` does not call hidden.
async fn visible_tools(rig: &Rig) -> Vec<String> {
    let list = rig.explain(&["tool"]).await;
    let visible = list.lines().filter(|line| !line.contains("; hidden by "));
    visible.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The message with the facts that `explain prompt` lists.
async fn facts(rig: &Rig) -> String {
    let text = rig.explain(&["prompt"]).await;
    let (_, facts) = text.split_once("\nFacts are no part of the prompt").unwrap();
    let lines: Vec<&str> = facts.lines().filter(|line| line.starts_with("- ")).collect();
    format!("Facts about the environment, as of now:\n{}", lines.join("\n"))
}

/// A preset with three layers of its own, out of order in the file, and a tool in the place of one
/// that it inherits.
const OWN: &str = "\
description = \"For a test.\"

[[insert]]
id = \"late\"
plugin = \"test-wrap\"
config = { order = \"3\" }

[[insert]]
id = \"tie\"
plugin = \"test-wrap\"
config = { order = \"3\", only = \"test-inspect\" }

[[insert]]
id = \"early\"
plugin = \"test-wrap\"
config = { order = \"-30\" }

[[insert]]
id = \"shade\"
plugin = \"test-shade\"
config = { tool = \"bash\" }
";

#[tokio::test]
async fn rows_of_a_preset_wrap_inside_those_around_and_a_nearer_tool_takes_the_place() {
    let acts = script().call("bash", json!({})).then().text("Done.");
    let server = StrictServer::start(acts).unwrap();
    let bin = watching().model_at(&server.base_url());
    bin.file("../home/presets/own.toml", OWN).unwrap();
    let rig = Rig::new(bin, "default", "own", WRAPS);
    let end = rig.call(&["run", "go on"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "Done.\n"), "{}", end.stderr);
    server.assert_clean();

    let idle = rig.chains_ran_as_explained().await;
    assert_eq!(idle, ["limit", "request-error"].map(str::to_owned).into(), "nothing failed");
    let rows = |layers: Vec<Layer>| layers.into_iter().map(|layer| layer.row).collect::<Vec<_>>();
    let executed = rig.layers("tool-execute").await;
    assert_eq!(rows(executed), ["outer", "inner", "early", "late"], "outer scopes are outside");
    let inspected = rig.layers("test-inspect").await;
    let own = rig.bin.home().join("presets/own.toml");
    assert_eq!(inspected[2].place, format!("preset own, {}:13", own.display()));
    assert_eq!(inspected[2].scope, "preset own");
    assert_eq!(rows(inspected), ["outer", "inner", "early", "late", "tie"], "of a foreign plugin");

    let text = rig.explain(&["tool", "bash"]).await;
    let own = own.display();
    let first = format!(
        "tool `bash` comes from row `shade` (preset own, {own}:18)\nin scope preset own\n\
         agents of preset `own` have it\ntakes the place of that of row `bash` ("
    );
    assert!(text.starts_with(&first), "{text}");
    let bodies = server.json_bodies();
    tool_is_explained(&rig, &bodies[0]["tools"][0]["function"]).await;
    let answer = bodies[1]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(answer, "from the shade", "it is the one that runs");
}

#[tokio::test]
async fn a_guard_that_refuses_is_explained() {
    let call = json!({"command": "echo hi", "description": "Say hi"});
    let server = StrictServer::start(script().call("bash", call).then().text("Done.")).unwrap();
    let patch = "[[insert]]\nid = \"strict\"\nplugin = \"test-wrap\"\n\
                 config = { order = \"0\", refuse = \"bash\" }\n";
    let bin = watching().model_at(&server.base_url());
    let rig = Rig::new(bin, "default", "standard", patch);
    assert_eq!(rig.call(&["run", "go on"]).await.code, Some(0));
    let bodies = server.json_bodies();
    let answer = bodies[1]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(answer, "Error: refused by a test");
    let idle = rig.chains_ran_as_explained().await;
    assert!(idle.contains("tool-execute"), "nothing of the call ran: {idle:?}");

    let guards =
        "guards, any \"no\" wins:\n  `no-bash`: row `strict` (patch p.toml:6), scope global\n";
    for explained in [["tool", "bash"], ["chain", "tool-pre-execute"]] {
        let text = rig.explain(&explained).await;
        assert!(text.contains(guards), "{text}");
    }
}

#[tokio::test]
async fn the_rows_that_a_log_blames_for_a_new_header_are_the_ones_explained() {
    let server = StrictServer::start(script().text("One.").then().text("Two.")).unwrap();
    let bin = watching().model_at(&server.base_url());
    let standard = Rig::new(bin, "default", "standard", "");
    assert_eq!(standard.call(&["run", "first"]).await.code, Some(0));
    let minimal = Rig::new(standard.bin, "default", "minimal", "");
    assert_eq!(minimal.call(&["run", "second", "--continue"]).await.code, Some(0));
    let log = std::fs::read_to_string(minimal.bin.logs().unwrap().last().unwrap()).unwrap();
    let header = log.lines().rfind(|line| line.contains("\"type\":\"request/header\"")).unwrap();
    let header: Value = serde_json::from_str(header).unwrap();
    let cause = header["data"]["reason"]["cause"].as_str().unwrap();

    let text = minimal.explain(&["tool", "edit"]).await;
    assert!(text.starts_with("tool `edit` comes from row `edit` (preset minimal:"), "{text}");
    let text = minimal.explain(&["prompt", "persona"]).await;
    assert!(text.starts_with("── persona  row `prompt` (preset minimal:"), "{text}");
    let expected = "system prompt (rows prompt); tools: `edit` (row edit), `glob` gone, \
                    `grep` gone, `read` gone, `write` gone";
    assert_eq!(cause, expected);
    let list = minimal.explain(&["tool"]).await;
    let hidden = list.lines().filter(|line| line.contains("; hidden by row `only-bash`"));
    assert_eq!(hidden.count(), 4, "those that are gone: {list}");
}
