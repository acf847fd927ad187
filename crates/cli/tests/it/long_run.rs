//! A stored run of many samples is read back in little memory.

use crate::harness::{Bench, STORE};
use plimsoll_model::record::{LevelEnd, LevelStart, Measurement, Provenance, RunEnd, SamplePart, Terms};
use plimsoll_model::{Counts, Histogram, Load, Metric, Nanos};
use plimsoll_stats::distribution::{InterArrival, random};
use plimsoll_store::{NewRun, RunWriter};
use std::sync::Arc;

const SAMPLES: u16 = 1000;
/// Observations of each time in each sample.
const OBSERVATIONS: u64 = 1000;

/// Times between 0 and about 10 ms, as of a platform at half its capacity.
fn part(sample: u16, times: &[Nanos]) -> SamplePart {
    let metrics = [
        Metric::PublishTime,
        Metric::PublishTimeFromSend,
        Metric::SubscribeTime,
        Metric::SubscribeTimeFromSend,
        Metric::Lateness,
        Metric::ReceiverLag,
        Metric::AcknowledgedAfterDelivery,
        Metric::DeliveredAfterAcknowledgement,
    ];
    let observe = |metric: Metric| {
        let mut histogram = Histogram::new();
        // Each metric and sample sees others of them.
        let begin = (usize::from(sample) * 31 + metric as usize * 7) % times.len();
        times.iter().cycle().skip(begin).take(OBSERVATIONS as usize).for_each(|&time| histogram.record(time));
        (metric, histogram)
    };
    let counts = Counts {
        due: OBSERVATIONS,
        sent: OBSERVATIONS,
        acknowledged: OBSERVATIONS,
        completed: OBSERVATIONS,
        expected_deliveries: OBSERVATIONS,
        delivered: OBSERVATIONS,
        ..Counts::default()
    };
    SamplePart {
        population: 0,
        level: 0,
        sample: Some(sample),
        counts,
        histograms: metrics.map(observe).into(),
    }
}

fn write(bench: &Bench) {
    let provenance = Provenance {
        plimsoll: "0".into(),
        notes: Vec::new(),
        seed: 1,
        started: "2026-01-01T00:00:00Z".into(),
        command: Vec::new(),
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
    let terms =
        Terms { devices: 10, subscribers: 1, qos: 1, subscribe_qos: 1, levels: 1, ..Terms::default() };
    let (id, name, scenario) = ("0123456789abcdef".into(), "long".into(), "name: long".into());
    let run = NewRun { id, name, scenario, terms, provenance };
    let mut writer = RunWriter::begin(&bench.path(STORE), &run, &Arc::default()).unwrap();
    let hold = Nanos::from_secs(i64::from(SAMPLES));
    let start =
        LevelStart { load: Load::Rate(OBSERVATIONS as f64), hold, samples: SAMPLES, ..LevelStart::default() };
    let mut random = random(1, &[]);
    let times: Vec<Nanos> = (0..10_007)
        .map(|_| Nanos::from_secs_f64(1e-3 * InterArrival::Exponential.sample(&mut random)))
        .collect();
    writer.append(&[Measurement::LevelStarted(start)]).unwrap();
    for begin in (0..SAMPLES).step_by(20) {
        let some = begin..SAMPLES.min(begin + 20);
        let samples = some.map(|sample| Measurement::Sample(part(sample, &times)));
        writer.append(&samples.collect::<Vec<_>>()).unwrap();
    }
    let end = LevelEnd { at: hold, ..LevelEnd::default() };
    writer.append(&[Measurement::LevelEnded(end)]).unwrap();
    writer.end(&RunEnd::Complete).unwrap();
}

/// Spread out, these histograms would take more than half a megabyte a sample.
#[test]
fn many_samples_are_read_in_little_memory() {
    let bench = Bench::beside_others();
    write(&bench);
    let shown = bench.call(["show", "--store", STORE]).exits(0).says("1,000/s");
    let of_sample = shown.peak_memory / u64::from(SAMPLES);
    assert!(of_sample < 100_000, "{of_sample} bytes a sample");
}
