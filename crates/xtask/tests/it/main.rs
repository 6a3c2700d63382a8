//! Tidy on this repository, and each of its rules seen failing on a small one.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

mod fixture;
mod repository;
mod rules;
