//! Tags, notes and deletion beside what was measured.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used)]

use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::{Measurement, Provenance, RunEnd, SamplePart, Terms};
use plimsoll_model::{Histogram, Metric, Nanos};
use plimsoll_store::{Annotation, NewRun, RunReader, RunWriter, StoreError, annotate, mark_deleted, purge};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    (folder, path)
}

/// Enters a run with rows in several tables.
fn enter(path: &Path, id: &str, messages: u32) {
    let provenance = Provenance { started: "2026-01-01T00:00:00Z".into(), ..Provenance::default() };
    let (name, scenario, terms) = ("n".into(), "name: n".into(), Terms::default());
    let mut writer =
        RunWriter::begin(path, &NewRun { id: id.into(), name, scenario, terms, provenance }, &Arc::default())
            .unwrap();
    let mut histogram = Histogram::default();
    histogram.record(Nanos(1_000));
    let set_up = SamplePart { histograms: vec![(Metric::ConnectTime, histogram)], ..SamplePart::default() };
    let message = |sequence| MessageRecord {
        level: 0,
        sample: None,
        device: 1,
        sequence,
        due: Nanos(1),
        ready: Nanos(2),
        sent: None,
        done: None,
        first_received: None,
        retrieved: None,
        dispatched: None,
        receivers: 0,
        missing: 0,
        fate: Fate::Complete,
    };
    let messages = Measurement::Messages((0..messages).map(message).collect());
    writer.append(&[Measurement::SetUp(set_up), messages]).unwrap();
    writer.end(&RunEnd::Complete).unwrap();
}

fn rows(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    ["run", "part", "histogram", "message", "annotation"]
        .map(|table| {
            connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
                .unwrap()
        })
        .iter()
        .sum()
}

#[test]
fn tags_and_notes_are_kept_beside_runs() {
    let (_folder, path) = store();
    enter(&path, "one", 1);
    assert!(RunReader::open(&path).unwrap().annotations().unwrap().is_empty());
    let tags = ["night".to_owned(), "ä \"b\"".to_owned()];
    annotate(&path, "one", &tags, "slow\ndisk").unwrap();
    let expected = Annotation { tags: tags.to_vec(), note: "slow\ndisk".into(), deleted: None };
    assert_eq!(RunReader::open(&path).unwrap().annotations().unwrap()["one"], expected);
    mark_deleted(&path, "one", Some("2026-01-02T00:00:00Z")).unwrap();
    annotate(&path, "one", &[], "").unwrap();
    let deleted = Annotation { deleted: Some("2026-01-02T00:00:00Z".into()), ..Annotation::default() };
    assert_eq!(RunReader::open(&path).unwrap().annotations().unwrap()["one"], deleted);
    mark_deleted(&path, "one", None).unwrap();
    assert_eq!(RunReader::open(&path).unwrap().annotations().unwrap()["one"], Annotation::default());
    assert_eq!(RunReader::open(&path).unwrap().run("one").unwrap().name, "n", "the run is as it was");
    assert!(matches!(annotate(&path, "two", &[], "x"), Err(StoreError::NoRun { .. })));
    assert!(matches!(mark_deleted(&path, "two", None), Err(StoreError::NoRun { .. })));
    let nowhere = path.with_file_name("none.db");
    assert!(matches!(annotate(&nowhere, "one", &[], "x"), Err(StoreError::NoRuns { .. })));
    assert!(!nowhere.exists(), "no store is made for a note");
}

/// The format stays the same, so that earlier versions read the file: they do not know the table.
#[test]
fn a_store_of_an_earlier_version_is_read_and_gets_its_table_when_something_is_added() {
    let (_folder, path) = store();
    enter(&path, "one", 1);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("DROP TABLE annotation").unwrap();
    let format = || connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(format(), 1);
    assert!(RunReader::open(&path).unwrap().annotations().unwrap().is_empty());
    annotate(&path, "one", &["a".to_owned()], "").unwrap();
    assert_eq!(RunReader::open(&path).unwrap().annotations().unwrap()["one"].tags, ["a"]);
    assert_eq!(format(), 1);
}

#[test]
fn only_a_deleted_run_is_purged_and_wholly() {
    let (_folder, path) = store();
    enter(&path, "one", 12_000);
    enter(&path, "two", 3);
    assert!(!purge(&path, "one", || true).unwrap(), "it is not deleted");
    mark_deleted(&path, "one", Some("2026-01-02T00:00:00Z")).unwrap();
    let before = rows(&path);
    assert!(!purge(&path, "one", || false).unwrap());
    assert_eq!(rows(&path), before);
    // It is interrupted when a run begins, and goes on later.
    let mut turns = 0;
    let interrupted = purge(&path, "one", || {
        turns += 1;
        turns < 9
    });
    assert!(!interrupted.unwrap() && rows(&path) < before);
    assert!(RunReader::open(&path).unwrap().annotations().unwrap()["one"].deleted.is_some());
    assert!(purge(&path, "one", || true).unwrap());
    assert_eq!(rows(&path), 1 + 1 + 1 + 3);
    assert!(matches!(RunReader::open(&path).unwrap().run_of_id("one"), Err(StoreError::NoRun { .. })));
    assert_eq!(RunReader::open(&path).unwrap().run_of_id("two").unwrap().id, "two");
}
