use reins_agent::RetryPolicy;
use reins_schema::{Failure, FailureCode};
use reins_session::RetryDecision;

use super::{decide, random_unit};

fn policy() -> RetryPolicy {
    RetryPolicy {
        codes: vec![FailureCode::RateLimit, FailureCode::Server],
        max_retries: 3,
        initial_delay_ms: 500,
        max_delay_ms: 10_000,
        jitter: 0.1,
    }
}

fn failure(code: FailureCode, retry_after_ms: Option<u64>) -> Failure {
    Failure { retry_after_ms, ..Failure::new(code, "x") }
}

fn delay(decision: &RetryDecision) -> Option<u64> {
    match decision {
        RetryDecision::Retry { delay_ms, .. } => Some(*delay_ms),
        RetryDecision::GiveUp => None,
    }
}

#[test]
fn waits_double_and_stay_within_jitter_and_maximum() {
    for (retries, base) in [(0, 500.0), (1, 1000.0), (2, 2000.0)] {
        for random in [0.0, 0.5, 1.0] {
            let failure = failure(FailureCode::Server, None);
            let delay = delay(&decide(&policy(), &failure, retries, random)).unwrap() as f64;
            assert!((base * 0.9 - 1.0..=base * 1.1 + 1.0).contains(&delay), "{retries}: {delay}");
        }
    }
    let long = RetryPolicy { max_retries: 60, ..policy() };
    let failure = failure(FailureCode::Server, None);
    assert_eq!(delay(&decide(&long, &failure, 50, 1.0)), Some(10_000));
}

#[test]
fn a_code_that_is_not_listed_or_a_used_up_count_gives_up() {
    let auth = failure(FailureCode::Auth, None);
    assert_eq!(decide(&policy(), &auth, 0, 0.5), RetryDecision::GiveUp);
    let server = failure(FailureCode::Server, None);
    assert_eq!(decide(&policy(), &server, 3, 0.5), RetryDecision::GiveUp);
    let never = RetryPolicy { max_retries: 0, ..policy() };
    assert_eq!(decide(&never, &server, 0, 0.5), RetryDecision::GiveUp);
}

#[test]
fn the_providers_wish_is_obeyed_up_to_the_maximum_and_not_beyond() {
    let soon = failure(FailureCode::RateLimit, Some(2000));
    assert_eq!(delay(&decide(&policy(), &soon, 0, 0.9)), Some(2000));
    let at = failure(FailureCode::RateLimit, Some(10_000));
    assert_eq!(delay(&decide(&policy(), &at, 0, 0.9)), Some(10_000));
    let days = failure(FailureCode::RateLimit, Some(1_500_000_000));
    assert_eq!(decide(&policy(), &days, 0, 0.9), RetryDecision::GiveUp);
}

#[test]
fn the_random_number_stays_in_its_interval_and_moves() {
    let numbers: Vec<f64> = (0..100).map(|_| random_unit()).collect();
    assert!(numbers.iter().all(|n| (0.0..1.0).contains(n)));
    assert!(numbers.windows(2).any(|pair| pair[0] != pair[1]));
}
