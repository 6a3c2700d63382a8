//! Random operations on sessions and on the file.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use reins_schema::SessionId;

use super::medium::Pretended;
use super::{everything, kept_in, list};
use crate::ListFilter;
use crate::index::Index;

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Append(u8),
    Roll(u8),
    Remove(u8),
    RestoreOlder(u8),
    BreakLog(u8),
    /// The stamp does not show it, so the store forgets the row.
    BreakHeader(u8),
    MendHeader(u8),
    /// The stamp does not show it, so the store forgets the row.
    Archive(u8),
    Forget(u8),
    FlipBit(usize),
    Cut(usize),
    RemoveFile,
    List(ListFilter),
}

fn filter() -> impl Strategy<Value = ListFilter> {
    let limit = proptest::option::of(0_usize..4);
    let older = proptest::option::of(1_700_000_000_000_i64..1_700_000_000_400);
    (any::<bool>(), limit, older).prop_map(|(archived, limit, older_than)| ListFilter {
        archived,
        limit,
        older_than,
        ..ListFilter::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0_u8..6;
    prop_oneof![
        3 => n().prop_map(Step::Create),
        4 => n().prop_map(Step::Append),
        2 => n().prop_map(Step::Roll),
        2 => n().prop_map(Step::Remove),
        2 => n().prop_map(Step::RestoreOlder),
        1 => n().prop_map(Step::BreakLog),
        1 => n().prop_map(Step::BreakHeader),
        1 => n().prop_map(Step::MendHeader),
        1 => n().prop_map(Step::Archive),
        2 => n().prop_map(Step::Forget),
        1 => any::<usize>().prop_map(Step::FlipBit),
        1 => any::<usize>().prop_map(Step::Cut),
        1 => Just(Step::RemoveFile),
        6 => filter().prop_map(Step::List),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_list_with_the_file_is_the_list_without(steps in prop::collection::vec(step(), 1..60)) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("index.sqlite");
        let (index, medium) = (kept_in(home.path()), Pretended::with(3));
        let name = |n: u8| format!("s-{n}");
        let break_file = |how: &dyn Fn(&mut Vec<u8>)| {
            let Ok(mut bytes) = fs::read(&file) else { return };
            how(&mut bytes);
            File::create(&file).unwrap().write_all(&bytes).unwrap();
        };
        for step in steps {
            match step {
                Step::Create(n) => medium.create(&name(n)),
                Step::Append(n) => medium.append(&name(n)),
                Step::Roll(n) => medium.roll(&name(n)),
                Step::Remove(n) => medium.remove(&name(n)),
                Step::RestoreOlder(n) => medium.restore_older(&name(n)),
                Step::BreakLog(n) => medium.break_log(&name(n)),
                Step::BreakHeader(n) => {
                    medium.break_header(&name(n));
                    index.forget(&SessionId::new(name(n)));
                }
                Step::MendHeader(n) => medium.mend_header(&name(n)),
                Step::Archive(n) => {
                    medium.archive(&name(n));
                    index.forget(&SessionId::new(name(n)));
                }
                Step::Forget(n) => index.forget(&SessionId::new(name(n))),
                Step::FlipBit(at) => break_file(&|bytes| {
                    let at = at % bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (at % 8);
                    }
                }),
                Step::Cut(at) => break_file(&|bytes| bytes.truncate(at % (bytes.len() + 1))),
                Step::RemoveFile => drop(fs::remove_file(&file)),
                Step::List(filter) => {
                    let (with, _) = list(&index, &medium, &filter);
                    let (without, _) = list(&Index::new(None), &medium, &filter);
                    prop_assert_eq!(format!("{with:?}"), format!("{without:?}"));
                }
            }
        }
    }
}

#[test]
fn many_that_list_and_forget_at_once_are_all_right() {
    let home = tempfile::tempdir().unwrap();
    let medium = Pretended::with(200);
    let expected = format!("{:?}", everything(&Index::new(None), &medium).0);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for n in 0..8_u32 {
            let (home, medium, expected, start) = (home.path(), &medium, &expected, &start);
            scope.spawn(move || {
                let index = kept_in(home);
                start.wait();
                for round in 0..20 {
                    // Half of them forget one each round.
                    let forgotten = (n % 2 == 0).then(|| format!("s-{}", (round * 7 + n) % 200));
                    forgotten.into_iter().for_each(|id| index.forget(&SessionId::new(id)));
                    assert_eq!(format!("{:?}", everything(&index, medium).0), *expected);
                }
            });
        }
    });
    everything(&kept_in(home.path()), &medium);
    assert_eq!(everything(&kept_in(home.path()), &medium).1, 0);
}
