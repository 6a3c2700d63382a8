//! Presets whose files change while agents use them.

use reins_host::{ReloadNews, SessionChoice};
use reins_testkit::{StrictServer, script};

use crate::rig::{House, Plan, asked, persona, personas, write};

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

/// The most tokens that each request asked for.
fn limits(server: &StrictServer) -> Vec<Option<u64>> {
    asked(server).into_iter().map(|asked| asked.max_tokens).collect()
}

fn tokens(most: u64) -> String {
    let config = format!("{{ vendor = \"deepseek\", max_tokens = {most} }}");
    format!("[[row]]\nid = \"deepseek\"\nconfig = {config}\n")
}

#[tokio::test]
async fn a_preset_that_is_broken_or_gone_keeps_only_its_own_rows_as_they_were() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    house.edit("presets/own.toml", &own("one")).await;
    let (talk, other) = (house.open(Some("own")).await, house.open(None).await);
    for (nth, broken) in [Some("description = 5\n"), None].into_iter().enumerate() {
        let path = house.home().join("presets/own.toml");
        match broken {
            Some(text) => write(&path, text),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let most = 1000 + 10 * nth as u64;
        house.edit("settings.toml", &tokens(most)).await;
        let told = house.look().await;
        let [ReloadNews::Changed { broken: true, .. }, ReloadNews::Broken(errors)] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!(errors.len(), 1, "{errors:?}");
        // Told once, and everything else is taken as ever.
        house.edit("settings.toml", &tokens(most + 1)).await;
        let told = house.look().await;
        assert!(matches!(&told[..], [ReloadNews::Changed { broken: true, .. }]), "{told:?}");
        talk.turn("1").await;
        other.turn("1").await;
        let served = asked(&server).split_off(2 * nth);
        assert_eq!(limits(&server).split_off(2 * nth), [Some(most + 1); 2]);
        assert_eq!(served[0].persona, "one");
        assert!(served[1].persona.starts_with("You are Reins"), "{served:?}");
        let refused = house.host.preset("own").await.err().unwrap().to_string();
        assert_eq!(refused, errors[0].to_string(), "who asks for it now is told the same");
    }
    house.edit("presets/own.toml", &own("one")).await;
    assert_eq!(house.look().await, [ReloadNews::Mended]);
    drop(house.host.preset("own").await.unwrap());
    talk.agent.close().await;
    other.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn last_good_rows_that_do_not_fit_a_change_are_named_and_keep_the_last_good_generation() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    let only = "[[insert]]\nid = \"only\"\nplugin = \"offer\"\nconfig = { tools = [\"grep\"] }\n";
    house.edit("presets/own.toml", only).await;
    let talk = house.open(Some("own")).await;
    std::fs::remove_file(house.home().join("presets/own.toml")).unwrap();
    house.edit("settings.toml", "[[row]]\nid = \"grep\"\ndisabled = true\n").await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].contains("own.toml:4: row `only`"), "{words:?}");
    assert!(words[0].contains("the last good row of agent preset `own`"), "{words:?}");
    assert!(words[1].starts_with("there is no agent preset `own`"), "{words:?}");
    talk.turn("1").await;
    assert_eq!(server.json_bodies()[0]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(house.host.stop_unused().await, 1, "what was built half is stopped");
    talk.agent.close().await;
    house.end(server).await;
}
