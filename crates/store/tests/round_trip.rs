//! What is written is read again, also when the run has no end.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used)]

use plimsoll_model::experiment::{ExperimentLevel, Stage};
use plimsoll_model::fault::{FaultKind, FaultRecord, PlannedFault};
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::{
    ComponentUsage, LevelEnd, LevelStart, Measurement, Provenance, RunEnd, SamplePart, Terms, ThreadUsage,
};
use plimsoll_model::{Counts, Histogram, Load, LoadCurve, Metric, Nanos};
use plimsoll_store::{NewRun, RunReader, RunWriter, StoreError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn new_run(id: &str) -> NewRun {
    let provenance = Provenance {
        plimsoll: "0".into(),
        notes: Vec::new(),
        seed: 1,
        started: "2026-01-01T00:00:00Z".into(),
        command: vec!["plimsoll".into()],
        host: Default::default(),
        platform: Default::default(),
        profile: String::new(),
        placement: Default::default(),
        clock_epoch: None,
        wall_epoch: None,
        series: None,
        process: None,
        inputs: Default::default(),
        resumed: Vec::new(),
    };
    let (name, scenario) = ("n".into(), "name: n".into());
    NewRun { id: id.into(), name, scenario, terms: Terms::default(), provenance }
}

fn level_start() -> LevelStart {
    LevelStart {
        populations: Vec::new(),
        index: 0,
        load: Load::Rate(100.0),
        idle: Some((Nanos(1), Nanos(3))),
        hold_start: Nanos(5),
        hold: Nanos(10),
        samples: 2,
        messages: Some(7),
        put_together: None,
        cut: None,
        experiment: None,
        faults: vec![PlannedFault {
            component: "broker".into(),
            kind: FaultKind::Delay { delay: Nanos(3), jitter: Nanos(1) },
            at: Nanos(2),
            length: Nanos(4),
        }],
        curve: LoadCurve::new(&[(Nanos(0), 50.0), (Nanos(10), 150.0)], Nanos(10)),
        falling: true,
    }
}

fn part(sample: Option<u16>, due: u64) -> SamplePart {
    let mut histogram = Histogram::new();
    histogram.record(Nanos(1_000_000));
    let counts = Counts { due, ..Counts::default() };
    SamplePart { population: 0, level: 0, sample, counts, histograms: vec![(Metric::PublishTime, histogram)] }
}

#[test]
fn levels_of_an_experiment_are_read_back_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let mut writer = RunWriter::begin(&path, &new_run("a"), &Arc::default()).unwrap();
    let experiment = Some(ExperimentLevel::new(Stage::Alone, Vec::new()));
    let level = LevelStart { index: 1, experiment, ..level_start() };
    writer
        .append(&[Measurement::LevelStarted(level_start()), Measurement::LevelStarted(level.clone())])
        .unwrap();
    let run = RunReader::open(&path).unwrap().run("a").unwrap();
    assert_eq!(run.levels.iter().map(|level| &level.start).collect::<Vec<_>>(), [&level_start()]);
    assert_eq!(run.experiment.iter().map(|level| &level.start).collect::<Vec<_>>(), [&level]);
}

#[test]
fn parts_of_a_sample_add_up_and_a_sample_never_taken_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let mut writer = RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).unwrap();
    writer.append(&[Measurement::SetUp(part(None, 0)), Measurement::LevelStarted(level_start())]).unwrap();
    writer.append(&[Measurement::Sample(part(None, 7)), Measurement::Sample(part(Some(0), 1))]).unwrap();
    writer.append(&[Measurement::Sample(part(Some(0), 2))]).unwrap();

    // The writer is still open and the run has no end, as after a kill.
    let record = RunReader::open(&path).unwrap().run("aaaa").unwrap();
    assert_eq!((record.end.as_ref(), record.levels.len()), (None, 1));
    assert_eq!(record.set_up.histograms[&Metric::PublishTime].count(), 1);
    let level = &record.levels[0];
    assert_eq!((level.end.as_ref(), level.warm_up.counts.due), (None, 7));
    let first = level.samples[0].as_ref().unwrap();
    assert_eq!((first.counts.due, first.histograms[&Metric::PublishTime].count()), (3, 2));
    assert_eq!(level.samples[1], None);

    let thread = ThreadUsage {
        level: 0,
        sample: 0,
        thread: 0,
        wall: Nanos(9),
        cpu: Nanos(8),
        run_delay: Nanos(1),
        timeslices: 3,
        steal: Nanos(0),
    };
    let component = ComponentUsage {
        component: "broker".into(),
        at: Nanos(1),
        window: Nanos(1),
        cpu: Nanos(1),
        busiest_thread: Some(Nanos::from_millis(7)),
        run_delay: Some(Nanos(5)),
        held_by_others: None,
        throttled: Nanos::from_millis(3),
        processors: None,
        processor_list: None,
        holder: None,
        beside_load: true,
        stopped: true,
        rss: 5,
        descriptors: Some(6),
    };
    let fault = FaultRecord { began: Some(Nanos(7)), failed: Some("y".into()), ..FaultRecord::default() };
    let end = LevelEnd { index: 0, incident: Some("x".into()), faults: vec![fault], ..LevelEnd::default() };
    let rest = [
        Measurement::Thread(thread),
        Measurement::Component(component.clone()),
        Measurement::LevelEnded(end.clone()),
    ];
    writer.append(&rest).unwrap();
    writer.end(&RunEnd::Complete).unwrap();

    let reader = RunReader::open(&path).unwrap();
    let record = reader.run("last").unwrap();
    assert_eq!(record.end, Some(RunEnd::Complete));
    assert_eq!((&record.levels[0].threads, &record.levels[0].end), (&vec![thread], &Some(end)));
    assert_eq!(record.components, [component]);
    assert_eq!(reader.runs().unwrap().len(), 1);
}

/// An id may begin another one, or be the word that means the newest run.
#[test]
fn a_run_takes_over_what_another_one_has_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let begin = |id: &str| RunWriter::begin(&path, &new_run(id), &Arc::default()).unwrap();
    let mut first = begin("aaaa1111");
    let other = |index: u16| LevelStart { index, ..level_start() };
    let end = LevelEnd { index: 0, at: Nanos(20), ..LevelEnd::default() };
    let of_level = |level: u16, part: SamplePart| Measurement::Sample(SamplePart { level, ..part });
    let component = ComponentUsage { component: "broker".into(), at: Nanos(9), ..ComponentUsage::default() };
    first.append(&[Measurement::SetUp(part(None, 50)), Measurement::LevelStarted(other(0))]).unwrap();
    first.append(&[of_level(0, part(Some(0), 3)), of_level(0, part(Some(1), 4))]).unwrap();
    first.append(&[Measurement::LevelEnded(end.clone()), Measurement::Component(component.clone())]).unwrap();
    first.append(&[Measurement::LevelStarted(other(1)), of_level(1, part(Some(0), 5))]).unwrap();
    let before = RunReader::open(&path).unwrap().run("aaaa").unwrap();
    let mut second = begin("bbbb2222");
    let cut = LevelStart { hold: Nanos(5), samples: 1, ..other(1) };
    second.keep("aaaa1111", 2, Some(&cut)).unwrap();
    second.append(&[Measurement::LevelStarted(other(2)), of_level(2, part(Some(1), 6))]).unwrap();
    let reader = RunReader::open(&path).unwrap();
    let record = reader.run("bbbb").unwrap();
    assert_eq!((record.levels.len(), &record.levels[0]), (3, &before.levels[0]));
    assert_eq!((&record.levels[1].start, record.levels[1].end.as_ref()), (&cut, None));
    let due = |level: usize, sample: usize| record.levels[level].samples[sample].as_ref().unwrap().counts.due;
    assert_eq!((due(1, 0), due(2, 1)), (5, 6));
    assert_eq!((record.components, record.set_up.counts.due), (vec![component], 0), "it connects anew");
    assert_eq!(reader.run("aaaa").unwrap(), before, "the other one stays as it was");
}

#[test]
fn a_run_is_found_by_its_id_or_the_beginning_of_it_or_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    for id in ["aaaa", "last", "aaaa1111"] {
        RunWriter::begin(&path, &new_run(id), &Arc::default()).unwrap().end(&RunEnd::Complete).unwrap();
    }
    let reader = RunReader::open(&path).unwrap();
    assert_eq!(reader.run("aaaa").unwrap().id, "aaaa1111", "the newest of those that begin so");
    assert_eq!(reader.run("last").unwrap().id, "aaaa1111");
    for id in ["aaaa", "last", "aaaa1111"] {
        assert_eq!(reader.run_of_id(id).unwrap().id, id);
    }
    drop(reader);
    for (id, name) in [("first", "aaaa"), ("second", "aaaa"), ("third", "last"), ("aaaa2222", "harbour")] {
        let run = NewRun { name: name.into(), ..new_run(id) };
        RunWriter::begin(&path, &run, &Arc::default()).unwrap().end(&RunEnd::Complete).unwrap();
    }
    let reader = RunReader::open(&path).unwrap();
    for (asked, found) in
        [("harbour", "aaaa2222"), ("aaaa", "second"), ("aaaa2", "aaaa2222"), ("last", "aaaa2222")]
    {
        assert_eq!(reader.run(asked).unwrap().id, found, "{asked}");
    }
    assert!(matches!(reader.run_of_id("aaa"), Err(StoreError::NoRun { .. })));
    assert!(matches!(reader.run_of_id(""), Err(StoreError::NoRun { .. })));
}

fn messages(path: &std::path::Path) -> Vec<MessageRecord> {
    let reader = RunReader::open(path).unwrap();
    let mut messages = Vec::new();
    reader.messages("aaaa1111", |message| messages.push(message)).unwrap();
    messages
}

#[test]
fn the_message_log_comes_back_in_order_and_the_clock_epoch_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let mut writer = RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).unwrap();
    writer.set_epoch(77, 88).unwrap();
    let whole = MessageRecord {
        level: 0,
        sample: Some(1),
        device: 2,
        sequence: 3,
        due: Nanos(4),
        ready: Nanos(5),
        sent: Some(Nanos(6)),
        done: Some(Nanos(7)),
        first_received: Some(Nanos(8)),
        retrieved: Some(Nanos(10)),
        dispatched: Some(Nanos(11)),
        receivers: 9,
        missing: 0,
        fate: Fate::Complete,
    };
    let bare = MessageRecord { sample: None, sent: None, done: None, first_received: None, ..whole };
    let of_each_fate: Vec<MessageRecord> =
        Fate::ALL.into_iter().map(|fate| MessageRecord { fate, ..bare }).collect();
    writer
        .append(&[Measurement::Messages(vec![whole]), Measurement::Messages(of_each_fate.clone())])
        .unwrap();
    let read = messages(&path);
    assert_eq!((read[0], &read[1..]), (whole, &of_each_fate[..]));
    assert_eq!(RunReader::open(&path).unwrap().run("last").unwrap().provenance.clock_epoch, Some(77));
}

#[test]
fn a_store_from_before_the_message_log_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE message").unwrap();
    assert_eq!(messages(&path), []);
}

#[test]
fn a_database_of_another_program_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("contacts.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE contacts (name TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Foreign { .. }), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_that_another_program_holds_is_given_up_at_the_users_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held.db");
    RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).unwrap().end(&RunEnd::Complete).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    let told = RunWriter::begin(&path, &new_run("bbbb2222"), &stop).map(drop).unwrap_err().to_string();
    assert!(told.contains("locked"), "{told}");
    other.execute_batch("COMMIT").unwrap();
    RunWriter::begin(&path, &new_run("cccc3333"), &stop).unwrap();
}

/// What was measured before the user's word is to be kept: another program that is busy for a moment loses none of it.
#[test]
fn the_last_samples_of_a_stopped_run_wait_for_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy.db");
    let stop = Arc::new(AtomicBool::new(false));
    let mut writer = RunWriter::begin(&path, &new_run("aaaa1111"), &stop).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let released = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        other.execute_batch("COMMIT").unwrap();
    });
    writer.end(&RunEnd::Interrupted).unwrap();
    released.join().unwrap();
    let record = RunReader::open(&path).unwrap().run("aaaa1111").unwrap();
    assert_eq!(record.end, Some(RunEnd::Interrupted));
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let missing = RunReader::open(&path).map(drop).unwrap_err().to_string();
    assert!(missing.contains("runs.db") && missing.contains("--store"), "{missing}");
    RunWriter::begin(&path, &new_run("aaaa1111"), &Arc::default()).unwrap();
    let error = RunReader::open(&path).unwrap().run("zzzz").unwrap_err();
    assert!(matches!(error, StoreError::NoRun { .. }));
    std::fs::write(&path, "this is no database").unwrap();
    assert!(RunReader::open(&path).is_err());
    let nowhere =
        RunWriter::begin(&folder.path().join("no/such/folder.db"), &new_run("b"), &Arc::default()).map(drop);
    assert!(nowhere.unwrap_err().to_string().contains("no/such/folder.db"));
}
