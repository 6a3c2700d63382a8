//! A copy of the binary that can be run at once.

use std::path::Path;

use reins_testkit::Bin;

/// Copies the binary. A process of its own does it: what another test starts meanwhile would hold
/// the copy open for writing, and nobody could run it.
pub(crate) async fn copy_binary(to: &Path) {
    let from_to = [Path::new(env!("CARGO_BIN_EXE_reins")), to];
    let copied = Bin::new("cp").unwrap().run(from_to).await.unwrap();
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
}
