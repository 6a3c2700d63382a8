//! What a database of sessions consists of, as the list of steps that made it so. A step that was
//! released is never edited: what changes is one more step.

use rusqlite::{Connection, TransactionBehavior};

/// "Rein": tells a database of sessions from every other one.
pub(super) const APPLICATION_ID: i32 = 0x5265_696e;

/// The steps; the number of those that a database has seen is its `user_version`.
pub(super) const STEPS: &[&str] = &[FIRST];

/// The version that this program writes.
pub(super) fn newest() -> i32 {
    version_of(STEPS)
}

/// A log's segments are rows, and a fork names rows of its parent: what is shared is stored once.
/// Segment numbers of removed sessions never come back, so that a reader cannot land in another's.
const FIRST: &str = "
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  header BLOB,
  archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  length INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  is_sealed INTEGER NOT NULL CHECK (is_sealed IN (0, 1)),
  changed_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE chunks (
  segment INTEGER NOT NULL REFERENCES segments ON DELETE CASCADE,
  offset INTEGER NOT NULL,
  plain_bytes INTEGER NOT NULL,
  is_zst INTEGER NOT NULL CHECK (is_zst IN (0, 1)),
  bytes BLOB NOT NULL,
  PRIMARY KEY (segment, offset)
) STRICT;

CREATE TABLE session_segments (
  session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
  number INTEGER NOT NULL,
  segment INTEGER NOT NULL REFERENCES segments,
  PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_segments_by_segment ON session_segments (segment);

CREATE TABLE kept (
  session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
  name TEXT NOT NULL,
  segment INTEGER NOT NULL REFERENCES segments,
  PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_by_segment ON kept (segment);

CREATE TABLE snapshots (
  session TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
  bytes BLOB NOT NULL
) STRICT;

CREATE TABLE blobs (
  name TEXT PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;

CREATE TABLE session_blobs (
  session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
  name TEXT NOT NULL REFERENCES blobs,
  PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_blobs_by_name ON session_blobs (name);
";

/// Takes a database through the steps that it has not seen, each in a transaction of its own.
/// Several processes may do so at once. A newer database is left alone.
pub(super) fn upgrade(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let seen = user_version(&transaction)?;
        let Some(step) = usize::try_from(seen).ok().and_then(|seen| steps.get(seen)) else {
            return Ok(());
        };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", seen + 1)?;
        transaction.commit()?;
    }
}

/// How many steps a database has seen.
pub(super) fn user_version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn version_of(steps: &[&str]) -> i32 {
    i32::try_from(steps.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of each version there ever was comes out as a new one does, with its rows.
    #[test]
    fn every_older_database_is_upgraded() {
        let later =
            [STEPS, &["ALTER TABLE sessions ADD COLUMN colour TEXT", "CREATE TABLE more (a)"]]
                .concat();
        let shape = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY name";
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut new = Connection::open_in_memory().unwrap();
        upgrade(&mut new, &later).unwrap();
        for version in 1..later.len() {
            let mut old = Connection::open_in_memory().unwrap();
            upgrade(&mut old, &later[..version]).unwrap();
            old.execute("INSERT INTO sessions (id) VALUES ('a')", []).unwrap();
            upgrade(&mut old, &later).unwrap();
            assert_eq!(user_version(&old).unwrap(), version_of(&later));
            assert_eq!(shape(&old), shape(&new), "from {version}");
            let ids: String = old.query_row("SELECT id FROM sessions", [], |r| r.get(0)).unwrap();
            assert_eq!(ids, "a");
        }
    }

    /// A step that fails leaves the database at the version before it.
    #[test]
    fn a_failed_step_changes_nothing() {
        let steps = [FIRST, "CREATE TABLE more (a); CREATE TABLE sessions (b)"];
        let mut database = Connection::open_in_memory().unwrap();
        upgrade(&mut database, &steps).unwrap_err();
        assert_eq!(user_version(&database).unwrap(), 1);
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'more'";
        assert_eq!(database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
