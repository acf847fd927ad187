//! Predictions that were set beside runs: what the error of later ones is known by.

use crate::schema::{self, Patience};
use crate::{RunReader, StoreError};
use plimsoll_model::plan_check::PlanResidual;
use rusqlite::{Connection, params};
use std::borrow::Borrow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Keeps how far runs lay from what was predicted of them. The same configuration with the same runs is kept once, as it was checked
/// last.
///
/// # Errors
/// The file cannot be opened or written.
pub fn keep_plan_checks(path: &Path, residuals: &[PlanResidual]) -> Result<(), StoreError> {
    let stop = AtomicBool::new(false);
    let is_busy = |error: &StoreError| error.is_busy();
    let mut connection =
        schema::patiently((Patience::ToKeep, &stop), is_busy, || schema::open_for_writing(path))?;
    let written = schema::patiently((Patience::ToKeep, &stop), schema::is_busy, || {
        let transaction = connection.transaction()?;
        for own in residuals {
            let mut checks = own.checks.clone();
            checks.sort();
            transaction.execute(
                "INSERT OR REPLACE INTO plan_check (configuration, checks, residual) VALUES (?, ?, ?)",
                params![own.configuration, checks.join(" "), serde_json::to_string(own).unwrap_or_default()],
            )?;
        }
        transaction.commit()
    });
    written.map_err(|cause| StoreError::Write { path: path.to_owned(), cause })
}

impl<C: Borrow<Connection>> RunReader<C> {
    /// All predictions that were set beside runs; those that another version wrote differently are left out.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn plan_checks(&self) -> Result<Vec<PlanResidual>, StoreError> {
        if !self.has_table("plan_check")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT residual FROM plan_check ORDER BY rowid";
        let read = self.rows(sql, params![], |row| Ok(row.get::<_, String>(0)?))?;
        Ok(read.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plimsoll.db");
        let residual = |outside: f64, checks: &[&str]| PlanResidual {
            platform: "p".into(),
            configuration: "store x 2".into(),
            checks: checks.iter().map(|&id| id.to_owned()).collect(),
            outside,
            ..PlanResidual::default()
        };
        keep_plan_checks(&path, &[residual(0.5, &["b", "a"]), residual(0.1, &["c"])]).unwrap();
        keep_plan_checks(&path, &[residual(0.2, &["a", "b"])]).unwrap();
        let mut found = RunReader::open(&path).unwrap().plan_checks().unwrap();
        found.sort_by(|one, other| one.outside.total_cmp(&other.outside));
        assert_eq!(found, [residual(0.1, &["c"]), residual(0.2, &["a", "b"])]);
    }
}
