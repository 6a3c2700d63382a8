//! `docs/session-format.md` against what there is.

use reins_agent::{EVENT_TYPES, EventType};
use reins_schema::Payload;

const PAGE: &str = include_str!("../../../../docs/session-format.md");

/// The types in the first column of the page's tables.
fn types() -> Vec<&'static str> {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("Events\n")).unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" | ").next().unwrap_or_default());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

#[test]
fn the_page_lists_every_type_of_event_and_no_other() {
    let types = types();
    let own = |name: &str| EVENT_TYPES.iter().any(|(own, _)| *own == name);
    for (name, EventType { version, .. }) in EVENT_TYPES {
        assert!(types.contains(&name) && version == 1, "{name}");
    }
    let core = types.iter().filter(|name| Payload::is_core(name)).count();
    assert_eq!(core, Payload::KINDS.len(), "of {:?}", Payload::KINDS);
    assert_eq!(types.len(), core + types.iter().filter(|name| own(name)).count(), "{types:?}");
}
