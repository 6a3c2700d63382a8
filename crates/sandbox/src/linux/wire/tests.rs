use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn answers() -> impl Strategy<Value = Answer> {
    let status = proptest::option::of(0..=255i32);
    let stage = prop_oneof![
        Just(SpawnStage::Directory),
        Just(SpawnStage::Program),
        Just(SpawnStage::Interpreter),
        Just(SpawnStage::Process),
    ];
    prop_oneof![
        Just(Answer::Ready),
        ".{0,50}".prop_map(Answer::Unfit),
        any::<(u64, u32)>().prop_map(|(id, pid)| Answer::Report(Report::Started { id, pid })),
        any::<(u64, u32)>().prop_map(|(id, left)| Answer::Report(Report::Gone { id, left })),
        (any::<(u64, u32)>(), status.clone(), status).prop_map(
            |((id, survivors), code, signal)| {
                Answer::Report(Report::Exited { id, code, signal, survivors })
            }
        ),
        (any::<(u64, i32)>(), stage, ".{0,50}").prop_map(|((id, errno), stage, what)| {
            Answer::Report(Report::SpawnFailed { id, stage, errno, what })
        }),
    ]
}

proptest! {
    #[test]
    fn answers_survive_a_round_trip(answer in answers()) {
        prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in vec(any::<u8>(), 0..60)) {
        drop(Answer::decode(&bytes));
    }
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let encoded = Answer::Unfit("é".repeat(MAX_TEXT_BYTES)).encode();
    assert!(encoded.len() <= MAX_ANSWER_BYTES);
    assert_eq!(Answer::decode(&encoded), Some(Answer::Unfit("é".repeat(MAX_TEXT_BYTES / 2))));
}
