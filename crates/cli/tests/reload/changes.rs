//! What is taken, when, and what is said of it.

use reins_host::ReloadNews;
use reins_kernel::RowChange;
use reins_testkit::{Acts, StrictServer, script};
use serde_json::json;

use crate::presets::own;
use crate::rig::{Gate, House, Plan, persona, personas, write};

/// A model that answers at once.
fn brief() -> StrictServer {
    StrictServer::start(script().text("done").forever()).unwrap()
}

/// A model that first calls `gate`.
fn through_gate(name: &str) -> Acts {
    script().call("gate", json!({"name": name})).then().text("done").forever()
}

fn with_settings(settings: &str) -> Plan<'_> {
    Plan { settings: Some(settings), ..Plan::default() }
}

fn rows(changes: &[RowChange]) -> Vec<(&str, &str)> {
    changes.iter().map(|change| (change.row.as_str(), change.what)).collect()
}

#[tokio::test]
async fn an_edit_is_in_force_from_the_next_turn_on_and_the_running_turn_stays_as_it_was() {
    let server = StrictServer::start(through_gate("edit")).unwrap();
    let mut house = House::new(&server, with_settings(&persona("one"))).await;
    let talk = house.open(None).await;
    let gate = Gate::named("edit");
    let edit = async {
        gate.reached().await;
        house.edit("settings.toml", &persona("two")).await;
        house.host.refresh().await;
        gate.open();
    };
    let (first, ()) = tokio::join!(talk.turn("first"), edit);
    let told = house.told();
    let [ReloadNews::Changed { generation: 2, changes, waiting, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((rows(changes), waiting.len()), (vec![("prompt", "changed")], 0));
    let place = format!("{}:1", house.settings().display());
    assert_eq!(changes[0].origin.place(), place);
    assert_eq!(first.outcome.steps, 2);
    assert_eq!(first.changes, Vec::<Vec<String>>::new());

    let second = talk.turn("second").await;
    assert_eq!(personas(&server), ["one", "one", "two"]);
    assert_eq!(second.changes, [["prompt"]]);
    assert_eq!(second.causes, [Some("system prompt (rows prompt)".to_owned())]);
    let third = talk.turn("third").await;
    assert_eq!((third.changes.len(), third.causes), (0, vec![None]));
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_row_that_stays_is_told_to_wait_and_is_not_applied() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    let talk = house.open(None).await;
    let limits = "[[row]]\nid = \"agent-loop\"\nconfig = { inbox = 0 }\n";
    house.edit("settings.toml", limits).await;
    let told = house.look().await;
    let [ReloadNews::Changed { changes, waiting, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(changes.len(), 0);
    let path = house.settings();
    let words = format!(
        "{}:1: row `agent-loop`: changed, which takes effect when Reins starts again",
        path.display()
    );
    assert_eq!(waiting.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
    // With an inbox of no places this would be refused. The agent sees no change and logs none.
    let turn = talk.turn("go").await;
    assert_eq!((turn.outcome.text.as_str(), turn.changes.len()), ("done", 0));

    house.edit("settings.toml", "").await;
    let told = house.look().await;
    let [ReloadNews::Changed { changes, waiting, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((changes.len(), waiting.len()), (0, 0));
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn nothing_is_told_when_nothing_changed() {
    let server = brief();
    let mut house = House::new(&server, with_settings(&persona("one"))).await;
    let talk = house.open(None).await;
    let same = persona("one");
    for text in [&same, &format!("# a word\n\n{same}"), &format!("{same}\n# another\n"), &same] {
        house.edit("settings.toml", text).await;
        assert_eq!(house.look().await, []);
    }
    let other = house.home().join("other");
    write(&other, &same);
    std::fs::rename(&other, house.settings()).unwrap();
    house.edit("presets/unused.toml", "broken").await;
    assert_eq!(house.look().await, []);
    let turn = talk.turn("go").await;
    assert_eq!((turn.changes.len(), house.host.stop_unused().await), (0, 1));
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_broken_file_is_told_once_and_the_last_good_one_serves_until_it_is_mended() {
    let server = brief();
    let mut house = House::new(&server, with_settings(&persona("one"))).await;
    let talk = house.open(None).await;
    house.edit("settings.toml", "[[row]]\nid = \"prompt\"\nconfig = { persna = \"x\" }\n").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    let words = format!(
        "{}:3: row `prompt`, field `config.persna`: unknown key; did you mean `persona`?",
        house.settings().display()
    );
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
    talk.turn("first").await;
    // A comment below leaves the mistake as it is.
    let again = "[[row]]\nid = \"prompt\"\nconfig = { persna = \"x\" }\n# mend this\n";
    house.edit("settings.toml", again).await;
    assert_eq!(house.look().await, []);
    // A value that only mounting refuses is a mistake like others.
    let refused = "[[row]]\nid = \"bash\"\nconfig = { timeout_ms = 0 }\n";
    house.edit("settings.toml", refused).await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    assert!(errors[0].to_string().contains("row `bash`, field `config.timeout_ms`"), "{errors:?}");
    talk.turn("second").await;

    house.edit("settings.toml", &persona("one")).await;
    assert_eq!(house.look().await, [ReloadNews::Mended]);
    house.edit("settings.toml", &persona("two")).await;
    talk.turn("third").await;
    assert_eq!(personas(&server), ["one", "one", "two"]);
    assert_eq!(house.host.stop_unused().await, 1);
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_new_patch_of_an_unknown_row_is_told_once() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    let gerp = "[[row]]\nid = \"gerp\"\ndisabled = true\n";
    house.edit("settings.toml", gerp).await;
    let told = house.look().await;
    let [ReloadNews::Warned(warnings)] = &told[..] else { panic!("{told:?}") };
    assert!(warnings[0].to_string().contains("did you mean `grep`?"), "{warnings:?}");
    house.edit("settings.toml", &format!("# moved\n{gerp}")).await;
    assert_eq!(house.look().await, []);
    house.edit("settings.toml", &format!("{gerp}{}", persona("one"))).await;
    let told = house.look().await;
    let [ReloadNews::Changed { warnings, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(warnings.len(), 0);
    house.end(server).await;
}

#[tokio::test]
async fn settings_that_go_away_and_come_back_are_taken_each_time() {
    let server = brief();
    let mut house = House::new(&server, with_settings(&persona("one"))).await;
    let talk = house.open(None).await;
    let (path, target) = (house.settings(), house.home().join("target"));
    talk.turn("1").await;
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    house.edit("unrelated", "").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    assert!(errors[0].to_string().contains("which does not exist"), "{errors:?}");
    talk.turn("2").await;
    // The link leads nowhere before, and nothing is there after: not the same.
    std::fs::remove_file(&path).unwrap();
    house.edit("unrelated", "").await;
    let told = house.look().await;
    assert!(matches!(&told[..], [ReloadNews::Changed { .. }]), "{told:?}");
    talk.turn("3").await;
    std::os::unix::fs::symlink(&target, &path).unwrap();
    house.edit("target", &persona("four")).await;
    talk.turn("4").await;
    house.edit("target", &persona("five")).await;
    talk.turn("5").await;
    let personas = personas(&server);
    assert_eq!((&*personas[0], &*personas[1]), ("one", "one"));
    assert!(personas[2].starts_with("You are Reins"), "{personas:?}");
    assert_eq!((&*personas[3], &*personas[4]), ("four", "five"));
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn the_profile_for_programs_never_reloads() {
    let server = brief();
    let settings = persona("one");
    let plan = Plan { profile: "sdk", ..with_settings(&settings) };
    let mut house = House::new(&server, plan).await;
    let talk = house.open(None).await;
    house.edit("settings.toml", &persona("two")).await;
    assert_eq!(house.look().await, []);
    let turn = talk.turn("go").await;
    assert_eq!((turn.changes.len(), house.host.stop_unused().await), (0, 1));
    assert_eq!(personas(&server), ["one"]);
    {
        let watching = std::pin::pin!(house.host.watch());
        assert!(futures_util::poll!(watching).is_pending());
    }
    talk.agent.close().await;
    drop(talk);
    // A preset is read at its first use, and then no more.
    for text in ["two", "three"] {
        house.edit("presets/own.toml", &own(text)).await;
        let talk = house.open(Some("own")).await;
        talk.turn("go").await;
        talk.agent.close().await;
    }
    assert_eq!(personas(&server), ["one", "two", "two"]);
    house.end(server).await;
}

#[tokio::test]
async fn changed_limits_hold_from_the_next_turn_on() {
    let acts = script()
        .when("go")
        .call("read", json!({"file_path": "a.txt"}))
        .forever()
        .then()
        .text("done")
        .forever();
    let server = StrictServer::start(acts).unwrap();
    // Without facts, so that the prompt is the last message.
    let plain = "[[row]]\nid = \"prompt\"\nconfig = { facts = false }\n";
    let house = House::new(&server, with_settings(plain)).await;
    let talk = house.open(None).await;
    let steps = async |prompt| {
        let outcome = talk.turn(prompt).await.outcome;
        (outcome.steps, format!("{:?}", outcome.end))
    };
    assert_eq!(steps("go 1").await, (2, "Turn(Completed)".to_owned()));
    let limits = "[[row]]\nid = \"limits\"\nconfig = { max_steps = 1 }\n";
    house.edit("settings.toml", &format!("{plain}{limits}")).await;
    let (one, end) = steps("go 2").await;
    assert_eq!(one, 1);
    assert!(end.contains("Limit"), "{end}");
    house.edit("settings.toml", plain).await;
    assert_eq!(steps("go 3").await, (2, "Turn(Completed)".to_owned()));
    talk.agent.close().await;
    house.end(server).await;
}

/// The warnings of the only news, which is a change.
fn warned(told: &[ReloadNews]) -> Vec<String> {
    let [ReloadNews::Changed { warnings, .. }] = told else { panic!("{told:?}") };
    warnings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn settings_that_new_sessions_could_not_begin_with_serve_and_are_told_with_their_place() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    let talk = house.open(None).await;
    let path = house.settings().display().to_string();
    let off = "[[row]]\nid = \"deepseek\"\ndisabled = true\n";
    let cases = [
        (
            off,
            format!(
                "{path}:1: row `deepseek`: disabled here; new sessions use model \
                 `deepseek/deepseek-v4-flash` of it (bundle base:86): undo this, or give row \
                 `default-model` another model"
            ),
        ),
        (
            "\n[[row]]\nid = \"default-model\"\nconfig = { model = \"depseek/x\" }\n",
            format!(
                "{path}:4: row `default-model`, field `config.model`: there is no provider \
                 `depseek`; providers are: deepseek"
            ),
        ),
        (
            "[[row]]\nid = \"default-model\"\ndisabled = true\n",
            format!(
                "{path}:1: row `default-model`: Reins needs its service `default model`; it must \
                 not be disabled"
            ),
        ),
        (
            "[[row]]\nid = \"default-preset\"\nconfig = { preset = \"standrad\" }\n",
            format!(
                "{path}:3: row `default-preset`, field `config.preset`: there is no agent preset \
                 `standrad`; known are: minimal, standard; did you mean `standard`?"
            ),
        ),
        (
            "[[row]]\nid = \"default-preset\"\nconfig = { preset = \"minimal\" }\n\
             [[row]]\nid = \"bash\"\ndisabled = true\n",
            format!(
                "{path}:3: row `default-preset`, field `config.preset`: agent preset `minimal` \
                 cannot be used: preset minimal:"
            ),
        ),
    ];
    for (settings, words) in cases {
        house.edit("settings.toml", settings).await;
        let told = warned(&house.look().await);
        assert!(told.len() == 1 && told[0].starts_with(&words), "{told:#?}\n{words}");
        let refused = house.host.check_defaults().await.unwrap_err();
        assert_eq!(refused.to_string(), told[0], "a check says the same");
        // It is not told again with the next change.
        house.edit("settings.toml", &format!("{settings}{}", persona("x"))).await;
        assert_eq!(warned(&house.look().await), [""; 0]);
        house.edit("settings.toml", "").await;
        assert_eq!(warned(&house.look().await), [""; 0]);
    }
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn rows_that_change_places_are_a_change_and_lines_that_move_are_none() {
    let server = brief();
    let probe = |id: &str| format!("[[insert]]\nid = \"{id}\"\nplugin = \"retry\"\n");
    let wrong = "[[row]]\nid = \"default-model\"\nconfig = { model = \"no/x\" }\n";
    let off = "[[row]]\nid = \"retry\"\ndisabled = true\n";
    let settings =
        |first: &str, second: &str| format!("{wrong}{off}{}{}", probe(first), probe(second));
    let mut house = House::new(&server, with_settings(&settings("a", "b"))).await;
    house.edit("settings.toml", &settings("b", "a")).await;
    let told = house.look().await;
    let [ReloadNews::Changed { changes, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(rows(changes), [("a", "moved")]);
    let place = async || house.host.check_defaults().await.unwrap_err().to_string();
    let path = house.settings().display().to_string();
    assert!(place().await.starts_with(&format!("{path}:3: ")), "{}", place().await);
    house.edit("settings.toml", &format!("# one\n# two\n{}", settings("b", "a"))).await;
    house.host.refresh().await;
    assert!(place().await.starts_with(&format!("{path}:5: ")), "{}", place().await);
    assert_eq!(house.told(), []);
    house.end(server).await;
}

#[tokio::test]
async fn a_home_that_goes_away_is_no_home_without_settings() {
    let server = brief();
    let mut house = House::new(&server, with_settings(&persona("one"))).await;
    let (home, away) = (house.home(), house.home().with_extension("away"));
    let broken = |told: &[ReloadNews]| {
        let [ReloadNews::Broken(errors)] = told else { panic!("{told:?}") };
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    house.edit("unrelated", "").await;
    std::fs::rename(&home, &away).unwrap();
    tokio::time::sleep(crate::rig::SETTLED).await;
    let gone = format!("{}: the home is gone; put it right", home.display());
    assert_eq!(broken(&house.look().await), std::slice::from_ref(&gone));
    let refused = house.host.preset("minimal").await.map(drop).unwrap_err();
    assert_eq!(refused.to_string(), gone);
    std::fs::rename(&away, &home).unwrap();
    tokio::time::sleep(crate::rig::SETTLED).await;
    assert_eq!(house.look().await, [ReloadNews::Mended]);

    std::fs::rename(&home, &away).unwrap();
    write(&home, "");
    tokio::time::sleep(crate::rig::SETTLED).await;
    let file = format!("{}: the home is no folder any more; put it right", home.display());
    assert_eq!(broken(&house.look().await), [file]);
    std::fs::remove_file(&home).unwrap();
    std::fs::rename(&away, &home).unwrap();
    tokio::time::sleep(crate::rig::SETTLED).await;
    assert_eq!(house.look().await, [ReloadNews::Mended]);
    let talk = house.open(None).await;
    talk.turn("go").await;
    assert_eq!(personas(&server), ["one"]);
    talk.agent.close().await;
    house.end(server).await;
}
