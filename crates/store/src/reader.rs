//! Reading runs, finished, interrupted or killed.

use crate::{StoreError, schema};
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::{
    ComponentUsage, LevelEnd, LevelRecord, LevelStart, Provenance, RunEnd, RunRecord, SampleRecord, Terms,
    ThreadUsage,
};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use rusqlite::{Connection, Row, params};
use std::borrow::Borrow;
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

/// Reads a run store, through a connection of its own or one that is borrowed from a writer.
pub struct RunReader<C = Connection> {
    connection: C,
    path: PathBuf,
}

impl RunReader {
    /// Opens an existing store.
    ///
    /// # Errors
    /// The file is missing, unreadable, no run store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<RunReader, StoreError> {
        Ok(RunReader { connection: schema::open_for_reading(path)?, path: path.to_owned() })
    }
}

impl<C: Borrow<Connection>> RunReader<C> {
    pub(crate) fn through(connection: C, path: &Path) -> RunReader<C> {
        RunReader { connection, path: path.to_owned() }
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
                components: Vec::new(),
                dissection: None,
            })
        })?;
        let no_run = || StoreError::NoRun { id: id.to_owned(), path: self.path.clone() };
        let mut record = found.into_iter().next().filter(|_| !id.is_empty()).ok_or_else(no_run)?;
        record.levels = self.levels(&record.id, record.terms.populations.len())?;
        self.read_parts(&mut record)?;
        self.read_threads(&mut record)?;
        let sql = "SELECT usage FROM component WHERE run = ? ORDER BY rowid";
        record.components = self
            .rows(sql, params![record.id], |row| self.parse::<ComponentUsage>(&row.get::<_, String>(0)?))?;
        if self.has_table("dissection")? {
            let sql = "SELECT summary FROM dissection WHERE run = ?";
            record.dissection = self.rows(sql, params![record.id], |row| Ok(row.get::<_, String>(0)?))?.pop();
        }
        Ok(record)
    }

    /// Whether the file has that table: one that was last written by an earlier version may lack it.
    fn has_table(&self, name: &str) -> Result<bool, StoreError> {
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

    fn levels(&self, run: &str, populations: usize) -> Result<Vec<LevelRecord>, StoreError> {
        let sql = "SELECT start, ended FROM level WHERE run = ? ORDER BY idx";
        self.rows(sql, params![run], |row| {
            let start: LevelStart = self.parse(&row.get::<_, String>(0)?)?;
            let end = row.get::<_, Option<String>>(1)?;
            let end = end.map(|end| self.parse::<LevelEnd>(&end)).transpose()?;
            Ok(LevelRecord::begun(start, end, populations))
        })
    }

    fn read_parts(&self, record: &mut RunRecord) -> Result<(), StoreError> {
        let sql =
            "SELECT part.id, metric, data FROM part JOIN histogram ON histogram.part = part.id WHERE run = ?";
        let rows = self.rows(sql, params![record.id], |row| {
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
        let sql =
            format!("SELECT id, level, sample, counts, {population} FROM part WHERE run = ? ORDER BY id");
        let parts = self.rows(&sql, params![record.id], |row| {
            let (level, sample): (Option<u16>, Option<u16>) = (row.get(1)?, row.get(2)?);
            let counts: Counts = self.parse(&row.get::<_, String>(3)?)?;
            Ok((row.get::<_, i64>(0)?, level, (row.get::<_, u16>(4)?, sample), counts))
        })?;
        for (id, level, place, counts) in parts {
            let histograms = histograms.remove(&id).unwrap_or_default();
            let Some(index) = level else {
                record.set_up.absorb(counts, histograms);
                continue;
            };
            let of_level = record.levels.iter_mut().find(|level| level.start.index == index);
            let absorbed = of_level.and_then(|level| level.absorb(place, counts, histograms));
            absorbed.ok_or_else(|| self.damaged(format!("part {id} belongs to no level")))?;
        }
        Ok(())
    }

    fn read_threads(&self, record: &mut RunRecord) -> Result<(), StoreError> {
        let sql = "SELECT usage FROM thread WHERE run = ? ORDER BY rowid";
        let usages =
            self.rows(sql, params![record.id], |row| self.parse::<ThreadUsage>(&row.get::<_, String>(0)?))?;
        for usage in usages {
            if let Some(level) = record.levels.iter_mut().find(|level| level.start.index == usage.level) {
                level.threads.push(usage);
            }
        }
        Ok(())
    }

    fn rows<T>(
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
            read(row).map_err(|error| match error {
                RowError::Sql(cause) => failed(cause),
                RowError::Damaged(what) => StoreError::Damaged { path: self.path.clone(), what },
            })?;
        }
        Ok(())
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, RowError> {
        serde_json::from_str(text).map_err(|error| RowError::Damaged(error.to_string()))
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what }
    }
}

enum RowError {
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
