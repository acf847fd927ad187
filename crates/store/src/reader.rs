//! Reading runs, finished, interrupted or killed.

use crate::{StoreError, schema};
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::{
    ComponentUsage, Gauge, LevelEnd, LevelRecord, LevelStart, Provenance, RunEnd, RunRecord, SampleRecord,
    Terms, ThreadUsage,
};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use rusqlite::{Connection, Row, params};
use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunListing {
    /// Its id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// Wall-clock begin, RFC 3339.
    pub started: String,
    /// How it ended; `None` when it was killed or still goes on.
    pub end: Option<RunEnd>,
    /// The schedule that it belongs to: the id of its first run.
    pub series: Option<String>,
    /// The process that writes it.
    pub process: Option<String>,
    /// Levels begun.
    pub levels: u32,
}

/// A run that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteRun {
    /// Its id.
    pub id: String,
    /// Its resolved scenario.
    pub scenario: String,
    /// Its platform's profile.
    pub profile: String,
}

/// Up to where a run was read.
#[derive(Clone, Debug)]
pub struct RunPosition {
    populations: usize,
    levels: u32,
    part: i64,
    thread: i64,
    component: i64,
}

impl RunPosition {
    /// The beginning of a run of so many populations, none where it has one.
    pub fn begin(populations: usize) -> RunPosition {
        RunPosition { populations, levels: 0, part: 0, thread: 0, component: 0 }
    }
}

/// What was added to a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Added {
    /// Of what was seen before the first level.
    pub set_up: SampleRecord,
    /// Levels.
    pub levels: Vec<LevelRecord>,
    /// Readings of components.
    pub components: Vec<ComponentUsage>,
}

/// Reads a run store, through a connection of its own or one that is borrowed from a writer.
pub struct RunReader<C = Connection> {
    connection: C,
    path: PathBuf,
    /// Rows that were read so far.
    rows: Cell<u64>,
}

impl RunReader {
    /// Opens an existing store.
    ///
    /// # Errors
    /// The file is missing, unreadable, no run store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<RunReader, StoreError> {
        Ok(RunReader {
            connection: schema::open_for_reading(path)?,
            path: path.to_owned(),
            rows: Cell::new(0),
        })
    }
}

impl<C: Borrow<Connection>> RunReader<C> {
    pub(crate) fn through(connection: C, path: &Path) -> RunReader<C> {
        RunReader { connection, path: path.to_owned(), rows: Cell::new(0) }
    }

    /// How many rows were read through this reader.
    pub fn rows_read(&self) -> u64 {
        self.rows.get()
    }

    /// All runs, the newest last.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let sql = "SELECT id, name, provenance, ended,
                   (SELECT count(*) FROM level WHERE level.run = run.id) FROM run ORDER BY rowid";
        self.rows(sql, params![], |row| {
            let provenance: Provenance = self.parse(&row.get::<_, String>(2)?)?;
            let end = row.get::<_, Option<String>>(3)?;
            Ok(RunListing {
                id: row.get(0)?,
                name: row.get(1)?,
                started: provenance.started,
                series: provenance.series,
                process: provenance.process,
                end: end.map(|end| self.parse(&end)).transpose()?,
                levels: row.get(4)?,
            })
        })
    }

    /// The runs that came to their end in that version of Plimsoll, the newest last: their ids, scenarios and profiles. A run that
    /// cannot be read is left out.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn complete(&self, version: &str) -> Result<Vec<CompleteRun>, StoreError> {
        let sql = "SELECT id, scenario, provenance, ended FROM run WHERE ended IS NOT NULL ORDER BY rowid";
        let runs = self.rows(sql, params![], |row| {
            let provenance = self.parse::<Provenance>(&row.get::<_, String>(2)?);
            let end = self.parse::<RunEnd>(&row.get::<_, String>(3)?);
            let (Ok(provenance), Ok(end)) = (provenance, end) else { return Ok(None) };
            let counts = end == RunEnd::Complete && provenance.plimsoll == version;
            let run = CompleteRun { id: row.get(0)?, scenario: row.get(1)?, profile: provenance.profile };
            Ok(counts.then_some(run))
        })?;
        Ok(runs.into_iter().flatten().collect())
    }

    /// One run, by its id, the beginning of its id, `last`, or the name of its scenario. Of several it is the newest; a name goes
    /// before the beginning of an id.
    ///
    /// # Errors
    /// There is no such run, or the file is damaged.
    pub fn run(&self, id: &str) -> Result<RunRecord, StoreError> {
        self.run_where("?1 = 'last' OR name = ?1 OR substr(id, 1, length(?1)) = ?1", id)
    }

    /// One run, by its whole id.
    ///
    /// # Errors
    /// As for [`RunReader::run`].
    pub fn run_of_id(&self, id: &str) -> Result<RunRecord, StoreError> {
        self.run_where("id = ?1", id)
    }

    /// The newest run that meets a condition on `?1`, where possible of those whose scenario is named so.
    fn run_where(&self, condition: &str, id: &str) -> Result<RunRecord, StoreError> {
        let sql = format!(
            "SELECT id, name, scenario, terms, provenance, ended FROM run WHERE {condition}
             ORDER BY name = ?1 AND ?1 <> 'last' DESC, rowid DESC LIMIT 1"
        );
        let found = self.rows(&sql, params![id], |row| {
            let end = row.get::<_, Option<String>>(5)?;
            Ok(RunRecord {
                id: row.get(0)?,
                name: row.get(1)?,
                scenario: row.get(2)?,
                terms: self.parse::<Terms>(&row.get::<_, String>(3)?)?,
                provenance: self.parse(&row.get::<_, String>(4)?)?,
                end: end.map(|end| self.parse(&end)).transpose()?,
                goes_on: false,
                set_up: SampleRecord::default(),
                levels: Vec::new(),
                experiment: Vec::new(),
                components: Vec::new(),
                gauges: Vec::new(),
                dissection: None,
            })
        })?;
        let no_run = || StoreError::NoRun { id: id.to_owned(), path: self.path.clone() };
        let mut record = found.into_iter().next().filter(|_| !id.is_empty()).ok_or_else(no_run)?;
        let added = self.added(&record.id, &mut RunPosition::begin(record.terms.populations.len()))?;
        (record.set_up, record.components) = (added.set_up, added.components);
        let is_load = |level: &LevelRecord| level.start.experiment.is_none();
        (record.levels, record.experiment) = added.levels.into_iter().partition(is_load);
        record.gauges = self.gauges(&record.id)?;
        if self.has_table("dissection")? {
            let sql = "SELECT summary FROM dissection WHERE run = ?";
            record.dissection = self.rows(sql, params![record.id], |row| Ok(row.get::<_, String>(0)?))?.pop();
        }
        Ok(record)
    }

    fn gauges(&self, run: &str) -> Result<Vec<Gauge>, StoreError> {
        if !self.has_table("gauge")? {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT at, sampler, subject, quantity, unit, value FROM gauge WHERE run = ? ORDER BY rowid";
        self.rows(sql, params![run], |row| {
            Ok(Gauge {
                at: Nanos(row.get(0)?),
                sampler: row.get(1)?,
                subject: row.get(2)?,
                quantity: row.get(3)?,
                unit: row.get(4)?,
                value: row.get(5)?,
            })
        })
    }

    /// Whether the file has that table: one that was last written by an earlier version may lack it.
    pub(crate) fn has_table(&self, name: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?";
        Ok(!self.rows(sql, params![name], |_| Ok(()))?.is_empty())
    }

    /// Gives the message log of a run, named by its whole id, message by message in the order of storing. Nothing for a
    /// run without one.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn messages(&self, run: &str, mut each: impl FnMut(MessageRecord)) -> Result<(), StoreError> {
        if !self.has_table("message")? {
            return Ok(());
        }
        let lives = schema::has_column(self.connection.borrow(), "message", "retrieved");
        let lives = lives.map_err(|cause| StoreError::Read { path: self.path.clone(), cause })?;
        let lives = if lives { "retrieved, dispatched" } else { "NULL, NULL" };
        let sql = format!(
            "SELECT level, sample, device, sequence, due, ready, sent, done, first_received, receivers, missing, fate,
             {lives} FROM message WHERE run = ? ORDER BY rowid"
        );
        self.each_row(&sql, params![run], |row| {
            let stamp = |at| row.get::<_, Option<i64>>(at).map(|at| at.map(Nanos));
            let fate: String = row.get(11)?;
            each(MessageRecord {
                level: row.get(0)?,
                sample: row.get(1)?,
                device: row.get(2)?,
                sequence: row.get(3)?,
                due: Nanos(row.get(4)?),
                ready: Nanos(row.get(5)?),
                sent: stamp(6)?,
                done: stamp(7)?,
                first_received: stamp(8)?,
                retrieved: stamp(12)?,
                dispatched: stamp(13)?,
                receivers: row.get(9)?,
                missing: row.get(10)?,
                fate: Fate::from_name(&fate).ok_or_else(|| self.damaged(format!("fate {fate}")))?,
            });
            Ok(())
        })
    }

    /// What was added to a run, named by its whole id, since `position`, which is moved behind it. Of a level that was not closed by
    /// then, what comes later is not told any more: ask between levels.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn added(&self, run: &str, position: &mut RunPosition) -> Result<Added, StoreError> {
        let mut added = Added { levels: self.levels(run, position)?, ..Added::default() };
        self.read_parts(run, position, &mut added)?;
        self.read_threads(run, position, &mut added.levels)?;
        added.levels.iter_mut().for_each(LevelRecord::put_together);
        let sql = "SELECT rowid, usage FROM component WHERE run = ? AND rowid > ? ORDER BY rowid";
        let rows = self.rows(sql, params![run, position.component], |row| {
            Ok((row.get::<_, i64>(0)?, self.parse::<ComponentUsage>(&row.get::<_, String>(1)?)?))
        })?;
        position.component = rows.last().map_or(position.component, |(row, _)| *row);
        added.components = rows.into_iter().map(|(_, usage)| usage).collect();
        Ok(added)
    }

    fn levels(&self, run: &str, position: &mut RunPosition) -> Result<Vec<LevelRecord>, StoreError> {
        let sql = "SELECT start, ended FROM level WHERE run = ? AND idx >= ? ORDER BY idx";
        let levels = self.rows(sql, params![run, position.levels], |row| {
            let start: LevelStart = self.parse(&row.get::<_, String>(0)?)?;
            let end = row.get::<_, Option<String>>(1)?;
            let end = end.map(|end| self.parse::<LevelEnd>(&end)).transpose()?;
            Ok(LevelRecord::begun(start, end, position.populations))
        })?;
        position.levels = levels.last().map_or(position.levels, |level| u32::from(level.start.index) + 1);
        Ok(levels)
    }

    fn read_parts(&self, run: &str, position: &mut RunPosition, added: &mut Added) -> Result<(), StoreError> {
        let sql = "SELECT part.id, metric, data FROM part JOIN histogram ON histogram.part = part.id
                   WHERE run = ? AND part.id > ?";
        let rows = self.rows(sql, params![run, position.part], |row| {
            let name: String = row.get(1)?;
            let metric = Metric::from_name(&name).ok_or_else(|| self.damaged(format!("metric {name}")))?;
            let histogram = Histogram::decode(&row.get::<_, Vec<u8>>(2)?);
            Ok((row.get(0)?, (metric, histogram.map_err(|error| self.damaged(error.to_string()))?)))
        })?;
        let mut histograms: BTreeMap<i64, Vec<(Metric, Histogram)>> = BTreeMap::new();
        for (part, histogram) in rows {
            histograms.entry(part).or_default().push(histogram);
        }
        let population = schema::has_column(self.connection.borrow(), "part", "population");
        let population = population.map_err(|cause| StoreError::Read { path: self.path.clone(), cause })?;
        let population = if population { "coalesce(population, 0)" } else { "0" };
        let sql = format!(
            "SELECT id, level, sample, counts, {population} FROM part WHERE run = ? AND id > ? ORDER BY id"
        );
        let parts = self.rows(&sql, params![run, position.part], |row| {
            let (level, sample): (Option<u16>, Option<u16>) = (row.get(1)?, row.get(2)?);
            let counts: Counts = self.parse(&row.get::<_, String>(3)?)?;
            Ok((row.get::<_, i64>(0)?, level, (row.get::<_, u16>(4)?, sample), counts))
        })?;
        for (id, level, place, counts) in parts {
            position.part = id;
            let histograms = histograms.remove(&id).unwrap_or_default();
            let Some(index) = level else {
                added.set_up.absorb(counts, histograms);
                continue;
            };
            let of_level = added.levels.iter_mut().find(|level| level.start.index == index);
            let absorbed = match of_level {
                Some(level) => level.absorb(place, counts, histograms),
                // A level that was told of already.
                None => (u32::from(index) < position.levels).then_some(()),
            };
            absorbed.ok_or_else(|| self.damaged(format!("part {id} belongs to no level")))?;
        }
        Ok(())
    }

    fn read_threads(
        &self,
        run: &str,
        position: &mut RunPosition,
        levels: &mut [LevelRecord],
    ) -> Result<(), StoreError> {
        let sql = "SELECT rowid, usage FROM thread WHERE run = ? AND rowid > ? ORDER BY rowid";
        let usages = self.rows(sql, params![run, position.thread], |row| {
            Ok((row.get::<_, i64>(0)?, self.parse::<ThreadUsage>(&row.get::<_, String>(1)?)?))
        })?;
        for (row, usage) in usages {
            position.thread = row;
            if let Some(level) = levels.iter_mut().find(|level| level.start.index == usage.level) {
                level.threads.push(usage);
            }
        }
        Ok(())
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl Fn(&Row) -> Result<T, RowError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        self.each_row(sql, params, |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn each_row(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut read: impl FnMut(&Row) -> Result<(), RowError>,
    ) -> Result<(), StoreError> {
        let failed = |cause| StoreError::Read { path: self.path.clone(), cause };
        let mut statement = self.connection.borrow().prepare(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            self.rows.set(self.rows.get() + 1);
            read(row).map_err(|error| match error {
                RowError::Sql(cause) => failed(cause),
                RowError::Damaged(what) => StoreError::Damaged { path: self.path.clone(), what },
            })?;
        }
        Ok(())
    }

    pub(crate) fn parse<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, RowError> {
        serde_json::from_str(text).map_err(|error| RowError::Damaged(error.to_string()))
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what }
    }
}

/// Why a row could not be read.
pub(crate) enum RowError {
    Sql(rusqlite::Error),
    Damaged(String),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> RowError {
        RowError::Sql(error)
    }
}

impl From<StoreError> for RowError {
    fn from(error: StoreError) -> RowError {
        RowError::Damaged(error.to_string())
    }
}
