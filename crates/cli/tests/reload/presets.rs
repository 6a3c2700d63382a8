//! Presets whose files change while agents use them.

use reins_host::{ReloadNews, SessionChoice};
use reins_testkit::{StrictServer, script};

use crate::rig::{House, Plan, persona, personas};

fn brief() -> StrictServer {
    StrictServer::start(script().text("done").forever()).unwrap()
}

/// A preset with a persona of its own.
pub(crate) fn own(text: &str) -> String {
    format!(
        "description = \"A test.\"\n[[insert]]\nid = \"own-prompt\"\nplugin = \"prompt\"\n\
         config = {{ persona = \"{text}\" }}\n"
    )
}

#[tokio::test]
async fn a_preset_in_use_follows_its_file_and_outlives_what_is_wrong_with_it() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    house.edit("presets/own.toml", &own("one")).await;
    let (talk, other) = (house.open(Some("own")).await, house.open(None).await);
    talk.turn("1").await;
    house.edit("presets/own.toml", &own("two")).await;
    assert_eq!(talk.turn("2").await.changes, [["own-prompt"]]);
    assert_eq!(other.turn("2").await.changes.len(), 0, "its rows are not those of the preset");
    assert_eq!(house.told().len(), 1);

    house.edit("presets/own.toml", "description = 5\n").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    let place = house.home().join("presets/own.toml");
    let words = errors[0].to_string();
    assert!(words.starts_with(&format!("{}:1: field `description`", place.display())), "{words}");
    talk.turn("3").await;

    std::fs::remove_file(&place).unwrap();
    house.edit("settings.toml", "").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    assert!(errors[0].to_string().contains("no agent preset `own`"), "{errors:?}");
    talk.turn("4").await;

    house.edit("presets/own.toml", &own("five")).await;
    talk.turn("5").await;
    let asked = personas(&server);
    assert_eq!(
        [&asked[0], &asked[1], &asked[3], &asked[4], &asked[5]],
        ["one", "two", "two", "two", "five"]
    );
    assert!(asked[2].starts_with("You are Reins"), "{asked:?}");
    other.agent.close().await;
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_preset_that_nobody_uses_any_more_holds_nothing_up_and_is_read_again() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    house.edit("presets/own.toml", &own("one")).await;
    let talk = house.open(Some("own")).await;
    talk.turn("1").await;
    let session = talk.session();
    talk.agent.close().await;
    drop(talk);
    house.edit("presets/own.toml", "broken").await;
    house.edit("settings.toml", &persona("all")).await;
    let told = house.look().await;
    assert!(matches!(&told[..], [ReloadNews::Changed { .. }]), "{told:?}");

    house.edit("presets/own.toml", &own("two")).await;
    let talk = house.open_session(SessionChoice::Id(session), None).await;
    talk.turn("2").await;
    talk.agent.close().await;
    drop(talk);
    // In the same generation, with other rows than before.
    house.edit("presets/own.toml", &own("three")).await;
    let talk = house.open(Some("own")).await;
    talk.turn("3").await;
    assert_eq!(personas(&server), ["one", "two", "three"]);
    assert_eq!(house.host.stop_unused().await, 1);
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_preset_that_a_change_of_the_settings_breaks_keeps_the_last_good_generation() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    let only = "[[insert]]\nid = \"only\"\nplugin = \"offer\"\nconfig = { tools = [\"grep\"] }\n";
    house.edit("presets/own.toml", only).await;
    let talk = house.open(Some("own")).await;
    house.edit("settings.toml", "[[row]]\nid = \"grep\"\ndisabled = true\n").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    assert!(errors[0].to_string().contains("own.toml:4: row `only`"), "{errors:?}");
    talk.turn("1").await;
    assert_eq!(server.json_bodies()[0]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(house.host.stop_unused().await, 1, "what was built half is stopped");
    talk.agent.close().await;
    house.end(server).await;
}
