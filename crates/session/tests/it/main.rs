//! Tests of the pure core: transcripts of the main branches, and random schedules.

mod made;
mod reading;
mod rules;
mod simulator;
mod totality;
mod transcripts;
