//! The tables.

use crate::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// The format that this version writes, kept in SQLite's `user_version`.
pub const FORMAT: i64 = 1;

/// Marks a SQLite file as a run store (`application_id`): "plim" in ASCII.
const APPLICATION: i64 = 0x706c_696d;

/// Another run may be writing to the same file; its transactions are short.
const PATIENCE: Duration = Duration::from_secs(10);

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS run (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    scenario   TEXT NOT NULL,
    terms      TEXT NOT NULL,
    provenance TEXT NOT NULL,
    ended      TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS level (
    run   TEXT NOT NULL REFERENCES run(id),
    idx   INTEGER NOT NULL,
    start TEXT NOT NULL,
    ended TEXT,
    PRIMARY KEY (run, idx)
) STRICT;
CREATE TABLE IF NOT EXISTS part (
    id     INTEGER PRIMARY KEY,
    run    TEXT NOT NULL REFERENCES run(id),
    level  INTEGER,
    sample INTEGER,
    counts TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS part_of_run ON part(run, id);
CREATE TABLE IF NOT EXISTS histogram (
    part   INTEGER NOT NULL REFERENCES part(id),
    metric TEXT NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (part, metric)
) STRICT;
CREATE TABLE IF NOT EXISTS thread (
    run    TEXT NOT NULL REFERENCES run(id),
    level  INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    usage  TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS thread_of_run ON thread(run);
CREATE TABLE IF NOT EXISTS component (
    run   TEXT NOT NULL REFERENCES run(id),
    usage TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS component_of_run ON component(run);
CREATE TABLE IF NOT EXISTS message (
    run            TEXT NOT NULL REFERENCES run(id),
    level          INTEGER NOT NULL,
    sample         INTEGER,
    device         INTEGER NOT NULL,
    sequence       INTEGER NOT NULL,
    due            INTEGER NOT NULL,
    ready          INTEGER NOT NULL,
    sent           INTEGER,
    done           INTEGER,
    first_received INTEGER,
    retrieved      INTEGER,
    dispatched     INTEGER,
    receivers      INTEGER NOT NULL,
    missing        INTEGER NOT NULL,
    fate           TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS message_of_run ON message(run);
CREATE TABLE IF NOT EXISTS dissection (
    run     TEXT PRIMARY KEY REFERENCES run(id),
    summary TEXT NOT NULL
) STRICT;
";

/// Opens the file for writing, and makes it and its tables where they are missing.
pub fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let failed = |cause| StoreError::Open { path: path.to_owned(), cause };
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    check_format(&connection, path)?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")
        .and_then(|()| connection.execute_batch(TABLES))
        .and_then(|()| add_columns(&connection))
        .and_then(|()| connection.pragma_update(None, "application_id", APPLICATION))
        .and_then(|()| connection.pragma_update(None, "user_version", FORMAT))
        .map_err(failed)?;
    Ok(connection)
}

/// Adds the columns that a file of an earlier version lacks.
fn add_columns(connection: &Connection) -> rusqlite::Result<()> {
    for column in ["retrieved", "dispatched"] {
        if !has_column(connection, "message", column)? {
            connection.execute_batch(&format!("ALTER TABLE message ADD COLUMN {column} INTEGER"))?;
        }
    }
    Ok(())
}

/// Whether a table has that column.
pub fn has_column(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?";
    Ok(connection.query_row(sql, [table, column], |row| row.get::<_, i64>(0))? > 0)
}

/// Opens an existing file for reading.
pub fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let failed = |cause| StoreError::Open { path: path.to_owned(), cause };
    // Reading a write-ahead log needs its shared memory, which needs write access where the folder allows it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    check_format(&connection, path)?;
    Ok(connection)
}

/// Refuses a database of another program before anything in it is touched, and a format of a later version.
fn check_format(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(|cause| StoreError::Open { path: path.to_owned(), cause })
    };
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && number("PRAGMA application_id")? != APPLICATION {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|cause| StoreError::Open { path: path.to_owned(), cause })?;
    if found > FORMAT {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    Ok(())
}
