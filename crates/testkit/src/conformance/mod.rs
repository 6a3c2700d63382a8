//! What every store must do, whatever it keeps its sessions in: cases that run against the public
//! face of a store, each in a home of its own.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed case panics, a run says so"
)]

mod blobs;
mod bundles;
mod forks;
mod leases;
mod life;
mod lists;
mod reads;
mod repairs;
mod stage;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use reins_store::Store;

use stage::Stage;

/// How long what a store keeps lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// In the home: stores that are made for the same home see the same sessions.
    InTheHome,
    /// In the store: another one sees nothing of it, and the home stays as it was.
    InTheStore,
}

/// Runs every case against stores that `make` gives for a home, and prints each one's name. The
/// stores must begin a new segment at 64 KiB and find snapshots worth it after 100 events, so that
/// a short log has both.
///
/// # Panics
/// A case fails.
pub async fn store_conformance(keeps: Keeps, make: impl Fn(&Path) -> Arc<dyn Store>) {
    for (name, case) in CASES {
        println!("store conformance: {name}");
        let stage = Stage::new(keeps, &make);
        case(&stage).await;
        stage.end();
    }
    println!("store conformance: {} cases", CASES.len());
}

type Case = for<'a> fn(&'a Stage<'a>) -> LocalBoxFuture<'a, ()>;

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), ": ", stringify!($case)),
            |stage| Box::pin($module::$case(stage)),
        )),*]
    };
}

const CASES: &[(&str, Case)] = cases![
    life::a_session_is_made_written_closed_and_opened,
    life::subscribers_see_every_event_once,
    life::numbers_are_contiguous,
    life::racing_writers_never_mix,
    life::a_new_session_that_is_discarded_was_never_there,
    life::unknown_types_are_kept,
    life::another_store_sees_everything,
    leases::the_holder_is_named,
    leases::preparing_holds_and_changes_nothing,
    reads::from_every_position,
    reads::looking_never_writes,
    reads::a_snapshot_changes_nothing_but_time,
    reads::segments_roll_over_and_are_compressed,
    forks::at_every_boundary,
    forks::outside_of_turns_only,
    forks::chains_outlive_their_parents,
    forks::of_a_session_in_use,
    forks::parent_and_child_go_their_ways,
    blobs::kept_by_content,
    blobs::forks_have_them_too,
    lists::the_last_used_is_first,
    lists::short_ids_find_sessions,
    lists::archived_sessions_are_hidden,
    lists::moved_sessions_belong_elsewhere,
    lists::removed_sessions_are_gone,
    repairs::a_whole_session_needs_none,
    bundles::an_export_is_imported_elsewhere,
];
