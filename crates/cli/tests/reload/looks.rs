//! How the files are looked at: never half written, never for ever, never given up half way; and
//! what lives how long.

use std::time::Duration;

use reins_cli::Files;
use reins_host::{LayerSource, ReloadNews};
use reins_testkit::{StrictServer, script};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::rig::{Gate, House, Plan, SETTLED, persona, personas, write};

fn brief() -> StrictServer {
    StrictServer::start(script().text("done").forever()).unwrap()
}

/// Files are left alone for so long after a change.
fn settle_ms(ms: u64) -> String {
    format!("[[row]]\nid = \"reload\"\nconfig = {{ every_ms = 10, settle_ms = {ms} }}\n")
}

#[tokio::test]
async fn a_file_that_was_just_written_or_removed_is_left_alone() {
    let server = brief();
    let settings = format!("{}{}", settle_ms(10_000), persona("one"));
    let plan = Plan { settings: Some(&settings), patch: Some("patch.toml"), ..Plan::default() };
    let mut house = House::new(&server, plan).await;
    let talk = house.open(None).await;
    let patch = house.home().join("patch.toml");
    write(&patch, "[[row]]\nid = \"grep\"\n");
    assert_eq!(house.look().await, [], "it could be half of what is meant");
    std::fs::remove_file(&patch).unwrap();
    assert_eq!(house.look().await, [], "it could be about to come back");
    std::fs::remove_file(house.settings()).unwrap();
    talk.turn("go").await;
    assert_eq!(personas(&server), ["one"]);
    assert_eq!(house.told(), []);
    talk.agent.close().await;
    house.end(server).await;
}

#[test]
fn whatever_stands_in_the_place_of_the_settings_looks_different() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("settings.toml");
    let files = Files::new(home.path().to_owned(), "default".to_owned(), &[], None, None);
    let link = |to: &str| std::os::unix::fs::symlink(to, &path).unwrap();
    let mut looks = vec![files.stamp().files];
    let mut look = || looks.push(files.stamp().files);
    link("nowhere");
    look();
    std::fs::remove_file(&path).unwrap();
    link("target");
    look();
    write(&home.path().join("target"), "");
    look();
    write(&home.path().join("target"), "# longer\n");
    look();
    std::fs::remove_file(&path).unwrap();
    write(&path, "");
    look();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    look();
    for (at, one) in looks.iter().enumerate() {
        assert!(!looks[at + 1..].contains(one), "{at} of {looks:?}");
    }
}

#[tokio::test]
async fn a_time_in_the_future_hides_no_change() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    write(&house.settings(), &persona("one"));
    let late = std::fs::File::options().write(true).open(house.settings()).unwrap();
    let future = std::time::UNIX_EPOCH + Duration::from_secs(10_000_000_000);
    late.set_modified(future).unwrap();
    tokio::time::sleep(SETTLED).await;
    assert!(matches!(&house.look().await[..], [ReloadNews::Changed { .. }]));
    write(&house.settings(), &persona("two"));
    late.set_modified(future).unwrap();
    tokio::time::sleep(SETTLED).await;
    assert!(matches!(&house.look().await[..], [ReloadNews::Changed { .. }]));
    house.end(server).await;
}

#[tokio::test]
async fn a_patch_that_becomes_a_pipe_is_broken_and_nobody_waits_for_it() {
    let server = brief();
    let plan = Plan { patch: Some("patch.toml"), ..Plan::default() };
    let mut house = House::new(&server, plan).await;
    let patch = house.home().join("patch.toml");
    std::fs::remove_file(&patch).unwrap();
    mknodat(CWD, &patch, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    tokio::time::sleep(SETTLED).await;
    let told = house.look().await;
    let [ReloadNews::Broken(errors)] = &told[..] else { panic!("{told:?}") };
    assert!(errors[0].to_string().contains("not a regular file"), "{errors:?}");
    std::fs::remove_file(&patch).unwrap();
    house.edit("patch.toml", "").await;
    assert_eq!(house.look().await, [ReloadNews::Mended]);
    house.end(server).await;
}

#[tokio::test]
async fn a_look_that_nobody_waits_for_any_more_is_not_half_done() {
    let server = brief();
    let mut house = House::new(&server, Plan::default()).await;
    house.edit("settings.toml", &persona("one")).await;
    {
        let refresh = std::pin::pin!(house.host.refresh());
        assert!(futures_util::poll!(refresh).is_pending());
    }
    // The second look waits for the first.
    let told = house.look().await;
    assert!(matches!(&told[..], [ReloadNews::Changed { generation: 2, .. }]), "{told:?}");
    house.end(server).await;
}

#[tokio::test]
async fn a_stop_that_nobody_waits_for_any_more_goes_to_its_end() {
    let server = brief();
    let slow = "[[row]]\nid = \"probe\"\nconfig = { gate = \"let go\" }\n";
    let house = House::new(&server, Plan { settings: Some(slow), ..Plan::default() }).await;
    house.edit("settings.toml", &persona("one")).await;
    let gate = Gate::named("let go");
    // A stranger's stop does not hold up who looks.
    house.host.refresh().await;
    gate.reached().await;
    {
        let mut generations = std::pin::pin!(house.host.stop_unused());
        for _ in 0..10 {
            assert!(futures_util::poll!(generations.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
        gate.open();
        assert_eq!(generations.await, 1);
    }
    house.end(server).await;
}

#[tokio::test]
async fn the_watch_takes_changes_by_itself() {
    let server = brief();
    let settings = settle_ms(10);
    let house = House::new(&server, Plan { settings: Some(&settings), ..Plan::default() }).await;
    let mut news = house.host.reloads();
    write(&house.settings(), &format!("{settings}{}", persona("one")));
    let told = tokio::select! {
        never = house.host.watch() => match never {},
        told = news.recv() => told.unwrap(),
    };
    assert!(matches!(told, ReloadNews::Changed { generation: 2, .. }), "{told:?}");
    house.end(server).await;
}

#[tokio::test]
async fn a_generation_lives_until_the_last_agent_has_moved_on() {
    let server = brief();
    let house = House::new(&server, Plan::default()).await;
    let (idle, busy) = (house.open(None).await, house.open(None).await);
    house.edit("settings.toml", &persona("one")).await;
    busy.turn("1").await;
    assert_eq!(house.host.stop_unused().await, 2);
    house.edit("settings.toml", &persona("two")).await;
    busy.turn("2").await;
    assert_eq!(house.host.stop_unused().await, 2, "nobody lives in the one between");
    assert_eq!(idle.turn("3").await.changes, [["prompt"]]);
    assert_eq!(house.host.stop_unused().await, 1);
    house.edit("settings.toml", &persona("three")).await;
    busy.turn("4").await;
    assert_eq!(house.host.stop_unused().await, 2);
    idle.agent.close().await;
    assert_eq!(house.host.stop_unused().await, 1);
    assert_eq!(personas(&server), ["one", "two", "two", "three"]);
    busy.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn while_a_turn_is_open_all_generations_but_its_own_and_the_newest_are_stopped() {
    let acts = script().call("gate", json!({"name": "long"})).then().text("done").forever();
    let server = StrictServer::start(acts).unwrap();
    let settings = settle_ms(5);
    let mut house =
        House::new(&server, Plan { settings: Some(&settings), ..Plan::default() }).await;
    let talk = house.open(None).await;
    let gate = Gate::named("long");
    let edits = async {
        gate.reached().await;
        let (mut built, mut number) = (0, 0);
        while built < 100 {
            number += 1;
            let next = house.home().join("next");
            write(&next, &format!("{settings}{}", persona(&format!("persona {number}"))));
            std::fs::rename(&next, house.settings()).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            built += house.look().await.len();
            assert!(house.host.stop_unused().await <= 2);
        }
        gate.open();
        number
    };
    let (turn, last) = tokio::join!(talk.turn("1"), edits);
    assert_eq!(turn.outcome.steps, 2);
    assert_eq!(house.host.stop_unused().await, 2);
    talk.turn("2").await;
    assert_eq!(house.host.stop_unused().await, 1);
    let personas = personas(&server);
    assert_eq!(personas[0], personas[1]);
    assert_eq!(personas[2], format!("persona {last}"));
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn nobodys_turn_waits_until_an_old_generation_has_stopped() {
    let server = brief();
    let slow = "[[row]]\nid = \"probe\"\nconfig = { gate = \"stop\" }\n";
    let house = House::new(&server, Plan { settings: Some(slow), ..Plan::default() }).await;
    let talk = house.open(None).await;
    house.edit("settings.toml", &persona("one")).await;
    let gate = Gate::named("stop");
    talk.turn("1").await;
    // The agent has left the old generation, which stops now and does not come to its end.
    talk.turn("2").await;
    gate.reached().await;
    house.edit("settings.toml", &persona("two")).await;
    let other = house.open(None).await;
    talk.turn("3").await;
    // Another generation is retired meanwhile; nothing queues behind the stop that lasts.
    house.edit("settings.toml", &persona("three")).await;
    talk.turn("4").await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for turn in 5..10 {
        talk.turn(&turn.to_string()).await;
        house.host.refresh().await;
    }
    tokio::task::yield_now().await;
    assert!(tasks() <= before, "{} instead of {before}", tasks());
    assert_eq!(personas(&server)[..4], ["one", "one", "two", "three"]);
    other.agent.close().await;
    gate.open();
    assert_eq!(house.host.stop_unused().await, 1);
    talk.agent.close().await;
    house.end(server).await;
}
