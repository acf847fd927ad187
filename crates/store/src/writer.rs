//! Writing a run while it goes on.

use crate::schema::Patience;
use crate::{RunReader, StoreError, schema};
use plimsoll_model::Counts;
use plimsoll_model::message::MessageRecord;
use plimsoll_model::record::{Gauge, LevelStart, Measurement, Provenance, RunEnd, SamplePart, Terms};
use rusqlite::{Connection, Transaction, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is known of a run before it begins.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// The resolved scenario, secrets left out.
    pub scenario: String,
    /// What the analysis must know of the plan.
    pub terms: Terms,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// Appends the measurements of one run.
pub struct RunWriter {
    connection: Connection,
    /// Set when the user wants the run to end.
    stop: Arc<AtomicBool>,
    path: PathBuf,
    run: String,
    provenance: Provenance,
}

impl RunWriter {
    /// Opens the store, making it where it is missing, and enters the run. Another program that holds it is waited for, until
    /// `stop` is set.
    ///
    /// # Errors
    /// The file cannot be opened, was written by a newer version, or is not writable.
    pub fn begin(path: &Path, run: &NewRun, stop: &Arc<AtomicBool>) -> Result<RunWriter, StoreError> {
        let is_busy = |error: &StoreError| error.is_busy();
        let connection =
            schema::patiently((Patience::UntilStopped, stop), is_busy, || schema::open_for_writing(path))?;
        let (path, provenance) = (path.to_owned(), run.provenance.clone());
        let mut writer =
            RunWriter { connection, stop: Arc::clone(stop), path, run: run.id.clone(), provenance };
        writer.write(|connection| {
            connection.execute(
                "INSERT INTO run (id, name, scenario, terms, provenance) VALUES (?, ?, ?, ?, ?)",
                params![run.id, run.name, run.scenario, json(&run.terms), json(&run.provenance)],
            )
        })?;
        Ok(writer)
    }

    /// Takes over what another run of this store has measured, named by its whole id: so many of its levels, and all readings of its
    /// components and other observers. `cut` is how a level began that has no end in this run, since it was interrupted.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn keep(&mut self, other: &str, levels: u16, cut: Option<&LevelStart>) -> Result<(), StoreError> {
        let run = self.run.clone();
        self.write(|connection| copy(connection, (other, &run), levels, cut))
    }

    /// Appends measurements in one transaction: all of them or none.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn append(&mut self, measurements: &[Measurement]) -> Result<(), StoreError> {
        if measurements.is_empty() {
            return Ok(());
        }
        let run = self.run.clone();
        self.write(|connection| append_all(connection, &run, measurements))
    }

    /// Adds what became known of the platform when it was up.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn add_platform_facts(&mut self, facts: &BTreeMap<String, String>) -> Result<(), StoreError> {
        self.provenance.platform.extend(facts.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.update_provenance()
    }

    /// Adds what the reader of the result must know beside its figures.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn add_note(&mut self, note: String) -> Result<(), StoreError> {
        self.provenance.notes.push(note);
        self.update_provenance()
    }

    /// Enters what the host's monotonic clock and its wall clock showed at time zero of the run, in nanoseconds.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn set_epoch(&mut self, monotonic: i64, wall: i64) -> Result<(), StoreError> {
        (self.provenance.clock_epoch, self.provenance.wall_epoch) = (Some(monotonic), Some(wall));
        self.update_provenance()
    }

    /// Enters what the wire said.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn add_dissection(&mut self, summary: &str) -> Result<(), StoreError> {
        let run = self.run.clone();
        self.write(|connection| {
            connection.execute(
                "INSERT OR REPLACE INTO dissection (run, summary) VALUES (?, ?)",
                params![run, summary],
            )
        })
    }

    /// Reads the store through the connection that writes it, so that the run is there even if its file was moved away.
    pub fn reader(&self) -> RunReader<&Connection> {
        RunReader::through(&self.connection, &self.path)
    }

    fn update_provenance(&mut self) -> Result<(), StoreError> {
        let (run, provenance) = (self.run.clone(), json(&self.provenance));
        self.write(|connection| {
            connection.execute("UPDATE run SET provenance = ? WHERE id = ?", params![provenance, run])
        })
    }

    /// Enters how the run ended.
    ///
    /// # Errors
    /// The disk is full or the file is gone.
    pub fn end(&mut self, end: &RunEnd) -> Result<(), StoreError> {
        let run = self.run.clone();
        self.write(|connection| {
            connection.execute("UPDATE run SET ended = ? WHERE id = ?", params![json(end), run])
        })?;
        // Folds the log into the file, so that one file is all there is; another reader may prevent it.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(())
    }

    fn write<T>(
        &mut self,
        mut write: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<(), StoreError> {
        let outcome = schema::patiently((Patience::ToKeep, &self.stop), schema::is_busy, || {
            write(&mut self.connection)
        });
        outcome.map(drop).map_err(|cause| StoreError::Write { path: self.path.clone(), cause })
    }
}

fn append_all(connection: &mut Connection, run: &str, measurements: &[Measurement]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for measurement in measurements {
        append_one(&transaction, run, measurement)?;
    }
    transaction.commit()
}

fn append_one(transaction: &Transaction, run: &str, measurement: &Measurement) -> rusqlite::Result<()> {
    match measurement {
        Measurement::LevelStarted(start) => {
            let sql = "INSERT INTO level (run, idx, start) VALUES (?, ?, ?)";
            transaction.prepare_cached(sql)?.execute(params![run, start.index, json(start)])?;
        }
        Measurement::SetUp(part) => append_part(transaction, run, None, part)?,
        Measurement::Sample(part) => append_part(transaction, run, Some(part.level), part)?,
        Measurement::Thread(usage) => {
            let sql = "INSERT INTO thread (run, level, sample, usage) VALUES (?, ?, ?, ?)";
            let row = params![run, usage.level, usage.sample, json(usage)];
            transaction.prepare_cached(sql)?.execute(row)?;
        }
        Measurement::Component(usage) => {
            let sql = "INSERT INTO component (run, usage) VALUES (?, ?)";
            transaction.prepare_cached(sql)?.execute(params![run, json(usage)])?;
        }
        Measurement::Gauges(gauges) => {
            let sql = "INSERT INTO gauge (run, at, sampler, subject, quantity, unit, value) VALUES (?, ?, ?, ?, ?, ?, ?)";
            let mut insert = transaction.prepare_cached(sql)?;
            for Gauge { at, sampler, subject, quantity, unit, value } in gauges {
                insert.execute(params![run, at.0, sampler, subject, quantity, unit, value])?;
            }
        }
        Measurement::Messages(messages) => append_messages(transaction, run, messages)?,
        Measurement::LevelEnded(end) => {
            let sql = "UPDATE level SET ended = ? WHERE run = ? AND idx = ?";
            transaction.prepare_cached(sql)?.execute(params![json(end), run, end.index])?;
        }
    }
    Ok(())
}

/// Copies the rows of a run to another one: those of so many levels, and those that belong to no level but the set-up.
fn copy(
    connection: &mut Connection,
    (from, to): (&str, &str),
    levels: u16,
    cut: Option<&LevelStart>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for sql in [
        "INSERT INTO level (run, idx, start, ended) SELECT ?2, idx, start, ended FROM level WHERE run = ?1 AND idx < ?3",
        "INSERT INTO thread (run, level, sample, usage) SELECT ?2, level, sample, usage FROM thread
         WHERE run = ?1 AND level < ?3 ORDER BY rowid",
        "INSERT INTO message (run, level, sample, device, sequence, due, ready, sent, done, first_received, retrieved, dispatched,
         receivers, missing, fate) SELECT ?2, level, sample, device, sequence, due, ready, sent, done, first_received, retrieved,
         dispatched, receivers, missing, fate FROM message WHERE run = ?1 AND level < ?3 ORDER BY rowid",
    ] {
        transaction.execute(sql, params![from, to, levels])?;
    }
    for sql in [
        "INSERT INTO component (run, usage) SELECT ?2, usage FROM component WHERE run = ?1 ORDER BY rowid",
        "INSERT INTO gauge (run, at, sampler, subject, quantity, unit, value)
         SELECT ?2, at, sampler, subject, quantity, unit, value FROM gauge WHERE run = ?1 ORDER BY rowid",
    ] {
        transaction.execute(sql, params![from, to])?;
    }
    let parts: Vec<i64> = transaction
        .prepare("SELECT id FROM part WHERE run = ? AND level < ? ORDER BY id")?
        .query_map(params![from, levels], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for part in parts {
        let sql = "INSERT INTO part (run, level, sample, counts, population)
                   SELECT ?2, level, sample, counts, population FROM part WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![part, to])?;
        let id = transaction.last_insert_rowid();
        let sql = "INSERT INTO histogram (part, metric, data) SELECT ?2, metric, data FROM histogram WHERE part = ?1";
        transaction.prepare_cached(sql)?.execute(params![part, id])?;
    }
    if let Some(start) = cut {
        let sql = "UPDATE level SET start = ?, ended = NULL WHERE run = ? AND idx = ?";
        transaction.execute(sql, params![json(start), to, start.index])?;
    }
    transaction.commit()
}

fn append_part(
    transaction: &Transaction,
    run: &str,
    level: Option<u16>,
    part: &SamplePart,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO part (run, level, sample, counts, population) VALUES (?, ?, ?, ?, ?)";
    let row = params![run, level, part.sample, without_zeros(&part.counts), part.population];
    transaction.prepare_cached(sql)?.execute(row)?;
    let id = transaction.last_insert_rowid();
    let mut insert =
        transaction.prepare_cached("INSERT INTO histogram (part, metric, data) VALUES (?, ?, ?)")?;
    for (metric, histogram) in &part.histograms {
        insert.execute(params![id, metric.name(), histogram.encode()])?;
    }
    Ok(())
}

fn append_messages(transaction: &Transaction, run: &str, messages: &[MessageRecord]) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO message (run, level, sample, device, sequence, due, ready, sent, done, first_received,
               retrieved, dispatched, receivers, missing, fate) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut insert = transaction.prepare_cached(sql)?;
    for message in messages {
        insert.execute(params![
            run,
            message.level,
            message.sample,
            message.device,
            message.sequence,
            message.due.0,
            message.ready.0,
            message.sent.map(|at| at.0),
            message.done.map(|at| at.0),
            message.first_received.map(|at| at.0),
            message.retrieved.map(|at| at.0),
            message.dispatched.map(|at| at.0),
            message.receivers,
            message.missing,
            message.fate.name(),
        ])?;
    }
    Ok(())
}

/// Most counts of a sample are zero, which is what one that is not there is read as.
fn without_zeros(counts: &Counts) -> String {
    let mut value = serde_json::to_value(counts).unwrap_or_default();
    if let Some(counts) = value.as_object_mut() {
        counts.retain(|_, count| *count != 0);
    }
    value.to_string()
}

/// The model's types hold nothing that JSON cannot.
fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
