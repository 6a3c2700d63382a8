//! Random use against a model: a list of what must be there.

use proptest::prelude::*;
use reins_store::{JsonlStore, Store, StoreConfig};

use crate::setup::{create, id, line, log_path, note, on_disk, open};

#[derive(Clone, Debug)]
enum Action {
    Append(String),
    Flush,
    Reopen,
    /// Close, damage the end with these bytes, open.
    Tear(Vec<u8>),
    Read(u8),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => ".{0,300}".prop_map(Action::Append),
        2 => Just(Action::Flush),
        1 => Just(Action::Reopen),
        1 => proptest::collection::vec(any::<u8>(), 1..40).prop_map(Action::Tear),
        2 => any::<u8>().prop_map(Action::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(48)
    })]

    #[test]
    fn the_log_is_the_list_of_what_was_appended(
        actions in proptest::collection::vec(action(), 1..60),
        queue in 1_usize..20,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(actions, queue));
    }
}

async fn run(actions: Vec<Action>, queue: usize) {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    (config.queue_events, config.recent_events, config.write_within_ms) = (queue, queue / 2, 5);
    let store = JsonlStore::new(config);
    let mut model: Vec<Vec<u8>> = Vec::new();
    let mut durable = 0;
    let mut session = create(&store).await;
    for action in actions {
        let next = model.len() as u64;
        match action {
            Action::Append(text) => {
                session.log.append(note(next, &text)).await.unwrap();
                model.push(line(next, &text));
            }
            Action::Flush => {
                session.log.flush().await.unwrap();
                durable = next;
            }
            Action::Reopen => {
                session.log.close().await.unwrap();
                session = open(&store).await.unwrap();
                assert_eq!(session.recovered, []);
                durable = next;
            }
            Action::Tear(bytes) => {
                session.log.close().await.unwrap();
                let whole = model.concat();
                crate::setup::put(&log_path(home.path()), &[&whole[..], &bytes].concat());
                session = open(&store).await.unwrap();
                assert_eq!(session.recovered[0].cut_bytes, bytes.len() as u64);
                durable = next;
            }
            Action::Read(from) => {
                let from = u64::from(from).min(next);
                let mut subscription = session.log.subscribe(from);
                for seq in from..next {
                    let event = subscription.next().await.unwrap();
                    let index = usize::try_from(seq).unwrap();
                    assert_eq!(event.encode().unwrap().0, model[index]);
                }
                let events = store.read(&id(), from, 1000).await.unwrap();
                assert!(from + events.len() as u64 >= durable);
            }
        }
        assert_eq!(session.log.next_seq(), model.len() as u64);
        assert_eq!(session.fold.next_seq().max(durable), durable);
    }
    session.log.close().await.unwrap();
    assert_eq!(std::fs::read(log_path(home.path())).unwrap(), model.concat());
    assert_eq!(on_disk(&store).await.len(), model.len());
}
