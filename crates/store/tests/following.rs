//! A run is read while it goes on: each level costs as much as the one before.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used)]

use plimsoll_model::record::{ComponentUsage, LevelEnd, LevelStart, Measurement, SamplePart, Terms};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_store::{NewRun, RunPosition, RunReader, RunWriter};
use std::sync::Arc;

const SAMPLES: u16 = 4;
const LEVELS: u16 = 12;

fn new_run() -> NewRun {
    let provenance = serde_json::json!({
        "plimsoll": "0", "seed": 1, "started": "", "command": [], "host": {}, "platform": {}, "placement": {}
    });
    NewRun {
        id: "followed".into(),
        name: "followed".into(),
        scenario: String::new(),
        terms: Terms::default(),
        provenance: serde_json::from_value(provenance).unwrap(),
    }
}

fn part(level: u16, sample: Option<u16>) -> Measurement {
    let mut histogram = Histogram::new();
    histogram.record(Nanos(5));
    Measurement::Sample(SamplePart {
        level,
        sample,
        counts: Counts { due: u64::from(level) + 1, ..Counts::default() },
        histograms: vec![(Metric::PublishTime, histogram)],
        ..SamplePart::default()
    })
}

#[test]
fn what_a_level_costs_to_read_does_not_grow_with_the_levels_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let mut writer = RunWriter::begin(&path, &new_run(), &Arc::default()).unwrap();
    let mut position = RunPosition::begin(0);
    let (mut costs, mut levels, mut components) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..LEVELS {
        let start = LevelStart { index, samples: SAMPLES, ..LevelStart::default() };
        let usage =
            ComponentUsage { component: "one".into(), at: Nanos(i64::from(index)), ..Default::default() };
        writer
            .append(&[Measurement::LevelStarted(start), part(index, None), Measurement::Component(usage)])
            .unwrap();
        for sample in 0..SAMPLES {
            writer.append(&[part(index, Some(sample))]).unwrap();
        }
        writer.append(&[Measurement::LevelEnded(LevelEnd { index, ..LevelEnd::default() })]).unwrap();
        let reader = writer.reader();
        let added = reader.added("followed", &mut position).unwrap();
        costs.push(reader.rows_read());
        assert_eq!((added.levels.len(), added.components.len()), (1, 1));
        levels.extend(added.levels);
        components.extend(added.components);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
    let whole = RunReader::open(&path).unwrap().run("followed").unwrap();
    assert_eq!(
        (whole.levels, whole.components),
        (levels, components),
        "nothing is told twice, or not at all"
    );
}
