//! What people add to runs that were measured: tags, a note, and that a run was deleted. A deleted run stays as it was until it is purged.
//!
//! It has a table of its own, which versions before it neither know nor touch.

use crate::schema::{self, Patience};
use crate::{RunReader, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Rows that are purged in one transaction: a run that writes waits that long at most.
const ROWS_AT_ONCE: usize = 5_000;
/// The tables that a run has rows in, with their conditions on the run; what others refer to comes later.
const TABLES: [(&str, &str); 8] = [
    ("histogram", "part IN (SELECT id FROM part WHERE run = ?1)"),
    ("part", "run = ?1"),
    ("level", "run = ?1"),
    ("thread", "run = ?1"),
    ("component", "run = ?1"),
    ("gauge", "run = ?1"),
    ("message", "run = ?1"),
    ("dissection", "run = ?1"),
];

/// What was added to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// A text.
    pub note: String,
    /// When it was deleted, RFC 3339; `None` where it was not.
    pub deleted: Option<String>,
}

impl<C: Borrow<Connection>> RunReader<C> {
    /// What was added to runs, by their ids.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn annotations(&self) -> Result<BTreeMap<String, Annotation>, StoreError> {
        if !self.has_table("annotation")? {
            return Ok(BTreeMap::new());
        }
        let rows = self.rows("SELECT run, tags, note, deleted FROM annotation", params![], |row| {
            let tags = self.parse(&row.get::<_, String>(1)?)?;
            Ok((row.get(0)?, Annotation { tags, note: row.get(2)?, deleted: row.get(3)? }))
        })?;
        Ok(rows.into_iter().collect())
    }
}

/// Replaces the tags and the note of a run, named by its whole id.
///
/// # Errors
/// There is no such run, or the file cannot be written.
pub fn annotate(path: &Path, run: &str, tags: &[String], note: &str) -> Result<(), StoreError> {
    let tags = serde_json::to_string(tags).unwrap_or_default();
    let sql = "INSERT INTO annotation (run, tags, note) VALUES (?1, ?2, ?3)
               ON CONFLICT (run) DO UPDATE SET tags = ?2, note = ?3";
    change(path, run, |connection| connection.execute(sql, params![run, tags, note]))
}

/// Marks a run as deleted at that time (RFC 3339), or takes the mark away. All that was measured stays.
///
/// # Errors
/// There is no such run, or the file cannot be written.
pub fn mark_deleted(path: &Path, run: &str, when: Option<&str>) -> Result<(), StoreError> {
    let sql = "INSERT INTO annotation (run, tags, note, deleted) VALUES (?1, '[]', '', ?2)
               ON CONFLICT (run) DO UPDATE SET deleted = ?2";
    change(path, run, |connection| connection.execute(sql, params![run, when]))
}

/// Removes all rows of a run that is marked as deleted, in small transactions, as long as `goes_on` says so. Returns whether nothing is left;
/// what is left is removed by the next call.
///
/// # Errors
/// The file cannot be written.
pub fn purge(path: &Path, run: &str, mut goes_on: impl FnMut() -> bool) -> Result<bool, StoreError> {
    let failed = |cause| StoreError::Write { path: path.to_owned(), cause };
    let mut connection = open(path)?;
    let is_deleted = connection
        .query_row("SELECT 1 FROM annotation WHERE run = ? AND deleted IS NOT NULL", [run], |_| Ok(()))
        .optional();
    if is_deleted.map_err(failed)?.is_none() {
        return Ok(false);
    }
    for (table, condition) in TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {condition} LIMIT {ROWS_AT_ONCE})"
        );
        loop {
            if !goes_on() {
                return Ok(false);
            }
            if patiently(&mut connection, |connection| connection.execute(&sql, [run])).map_err(failed)?
                < ROWS_AT_ONCE
            {
                break;
            }
        }
    }
    let removed = patiently(&mut connection, |connection| {
        let transaction = connection.transaction()?;
        transaction.execute("DELETE FROM annotation WHERE run = ?", [run])?;
        transaction.execute("DELETE FROM run WHERE id = ?", [run])?;
        transaction.commit()
    });
    removed.map_err(failed)?;
    // Another reader may prevent it.
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    Ok(true)
}

/// Opens a store that is there.
fn open(path: &Path) -> Result<Connection, StoreError> {
    drop(schema::open_for_reading(path)?);
    let stop = AtomicBool::new(false);
    let is_busy = |error: &StoreError| error.is_busy();
    schema::patiently((Patience::ToKeep, &stop), is_busy, || schema::open_for_writing(path))
}

fn change(
    path: &Path,
    run: &str,
    mut write: impl FnMut(&mut Connection) -> rusqlite::Result<usize>,
) -> Result<(), StoreError> {
    let mut connection = open(path)?;
    let is_there = connection.query_row("SELECT 1 FROM run WHERE id = ?", [run], |_| Ok(())).optional();
    let failed = |cause| StoreError::Write { path: path.to_owned(), cause };
    if is_there.map_err(failed)?.is_none() {
        return Err(StoreError::NoRun { id: run.to_owned(), path: path.to_owned() });
    }
    patiently(&mut connection, &mut write).map(drop).map_err(failed)
}

fn patiently<T>(
    connection: &mut Connection,
    mut write: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let stop = AtomicBool::new(false);
    schema::patiently((Patience::ToKeep, &stop), schema::is_busy, || write(connection))
}
