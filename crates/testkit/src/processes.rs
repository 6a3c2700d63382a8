//! Which processes belong to a run.

use std::fs;

/// The ids of all processes whose environment, as it was when they started, contains the marker
/// (for example `REINS_TEST_MARK=…` with a value of this test alone), this process left out.
/// Processes of other users are not seen.
pub fn processes_with_marker(marker: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> =
        ids.filter(|id| *id != std::process::id() && has_marker(*id, marker.as_bytes())).collect();
    found.sort_unstable();
    found
}

fn has_marker(id: u32, marker: &[u8]) -> bool {
    // A process that ends meanwhile, or is a zombie, has no environment any more.
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable.windows(marker.len().max(1)).any(|window| window == marker))
}
