//! The proof that the simulator notices: each switch breaks one rule, and is caught.

use reins_session::Sabotage;

use super::schedule;

/// Schedules within which each switch is caught.
const SCHEDULES_MAX: u64 = 2000;

#[test]
fn every_sabotage_is_caught() {
    for rule in Sabotage::ALL {
        let caught = (0..SCHEDULES_MAX)
            .find_map(|seed| schedule(seed, Some(rule)).err().map(|problem| (seed, problem)));
        match caught {
            Some((seed, problem)) => println!("{rule:?} caught by seed {seed}: {problem}"),
            None => panic!("{rule:?} is not noticed within {SCHEDULES_MAX} schedules"),
        }
    }
}
