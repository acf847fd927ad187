//! The tables.

use crate::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The format that this version writes, kept in SQLite's `user_version`.
pub const FORMAT: i64 = 1;

/// Marks a SQLite file as a run store (`application_id`): "plim" in ASCII.
const APPLICATION: i64 = 0x706c_696d;

/// Another run may be writing to the same file; its transactions are short.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for the last samples of a run that the user has stopped.
const PATIENCE_WHEN_STOPPED: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);
/// How long SQLite waits by itself before it is asked whether somebody wants to stop.
const ATTEMPT: Duration = Duration::from_millis(200);

/// Names of files are no URIs, and each connection stays in one thread.
const PLAIN: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

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
    counts TEXT NOT NULL,
    population INTEGER
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
CREATE TABLE IF NOT EXISTS gauge (
    run      TEXT NOT NULL REFERENCES run(id),
    at       INTEGER NOT NULL,
    sampler  TEXT NOT NULL,
    subject  TEXT NOT NULL,
    quantity TEXT NOT NULL,
    unit     TEXT NOT NULL,
    value    REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS gauge_of_run ON gauge(run);
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
CREATE TABLE IF NOT EXISTS annotation (
    run     TEXT PRIMARY KEY REFERENCES run(id),
    tags    TEXT NOT NULL,
    note    TEXT NOT NULL,
    deleted TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS plan_check (
    configuration TEXT NOT NULL,
    checks        TEXT NOT NULL,
    residual      TEXT NOT NULL,
    PRIMARY KEY (configuration, checks)
) STRICT;
";

/// How long another program that holds the file is waited for.
#[derive(Clone, Copy)]
pub enum Patience {
    /// Until somebody wants to stop: nothing is lost yet.
    UntilStopped,
    /// A few seconds more after that: what was measured is to be kept.
    ToKeep,
}

impl Patience {
    fn limit(self, stop: &AtomicBool) -> Duration {
        match (self, stop.load(Ordering::Relaxed)) {
            (_, false) => PATIENCE,
            (Patience::UntilStopped, true) => Duration::ZERO,
            (Patience::ToKeep, true) => PATIENCE_WHEN_STOPPED,
        }
    }
}

/// Does something again and again while another program holds the file, as long as that is bearable.
pub fn patiently<T, E>(
    (patience, stop): (Patience, &AtomicBool),
    is_busy: impl Fn(&E) -> bool,
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begin = Instant::now();
    loop {
        match act() {
            Err(error) if is_busy(&error) && begin.elapsed() < patience.limit(stop) => {
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Opens the file for writing, and makes it and its tables where they are missing.
pub fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let failed = |cause| StoreError::Open { path: path.to_owned(), cause };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | PLAIN;
    let mut connection = Connection::open_with_flags(named(path)?, flags).map_err(failed)?;
    connection.busy_timeout(ATTEMPT).map_err(failed)?;
    // One transaction: whoever is killed in it leaves a file without tables, which the next one takes for its own, and others
    // that begin at the same time wait.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    check_format(&transaction, path)?;
    transaction
        .execute_batch(TABLES)
        .and_then(|()| add_columns(&transaction))
        .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION))
        .and_then(|()| transaction.pragma_update(None, "user_version", FORMAT))
        .and_then(|()| transaction.commit())
        .map_err(failed)?;
    // While another connection uses the file, SQLite refuses a write-ahead log without waiting; the caller tries again.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")
        .map_err(failed)?;
    Ok(connection)
}

/// Whether another connection holds the file.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The path as one that SQLite takes for the name of a file: others stand for databases in memory, in which nothing is kept.
fn named(path: &Path) -> Result<PathBuf, StoreError> {
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Err(StoreError::NoFile { path: path.to_owned() });
    }
    Ok(Path::new(".").join(path))
}

/// Adds the columns that a file of an earlier version lacks.
fn add_columns(connection: &Connection) -> rusqlite::Result<()> {
    for (table, column) in [("message", "retrieved"), ("message", "dispatched"), ("part", "population")] {
        if !has_column(connection, table, column)? {
            connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} INTEGER"))?;
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
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | PLAIN;
    let named = named(path)?;
    if fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(StoreError::NoRuns { path: path.to_owned() });
    }
    let connection = Connection::open_with_flags(named, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    match check_has_runs(&connection, path) {
        Err(StoreError::Open { .. }) if is_at_rest(path) => {}
        checked => return checked.map(|()| connection),
    }
    // A folder in which nothing can be made: nobody writes there.
    let file = unchanging(path).map_err(|cause| StoreError::Place { path: path.to_owned(), cause })?;
    let connection = Connection::open_with_flags(file, UNCHANGING).map_err(failed)?;
    check_has_runs(&connection, path)?;
    Ok(connection)
}

/// Refuses what [`check_format`] does, and a file without tables.
fn check_has_runs(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    match check_format(connection, path)? {
        0 => Err(StoreError::NoRuns { path: path.to_owned() }),
        _ => Ok(()),
    }
}

/// Of a file that is named by a URI, by which it can be said that nobody changes it.
const UNCHANGING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI).union(PLAIN);

/// Whether the file is there, and nothing stands in a log beside it.
fn is_at_rest(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    path.is_file() && fs::metadata(log).map_or(true, |data| data.len() == 0)
}

/// The URI of a file that nobody changes (SQLite's `immutable`).
fn unchanging(path: &Path) -> std::io::Result<String> {
    let whole = path.canonicalize()?;
    let bytes = whole.as_os_str().as_encoded_bytes().iter();
    let encoded = bytes.map(|&byte| match byte {
        b'/' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    Ok(format!("file:{}?immutable=1", encoded.collect::<String>()))
}

/// Refuses a database of another program before anything in it is touched, and a format of a later version. How many tables
/// and indexes it has.
fn check_format(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
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
    Ok(tables)
}
