//! A run that never was: six levels, with a platform that keeps up to 4,000 messages a second.

use plimsoll_model::objective::{Comparison, Objective, Objectives, Subject};
use plimsoll_model::record::{
    ClockRecord, ComponentUsage, FirstLoss, LevelEnd, LevelRecord, LevelStart, Provenance, RunEnd, RunRecord,
    SampleRecord, Terms, ThreadUsage,
};
use plimsoll_model::{Counts, Histogram, Load, Metric, Nanos};
use plimsoll_stats::distribution::{InterArrival, Random, random};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const SAMPLES: u16 = 10;
const HOLD_SECONDS: i64 = 10;
/// Messages a second that the platform carries at most.
const CAPACITY: f64 = 4_600.0;
/// Above so many a second the generator is late.
const LATE: f64 = 5_500.0;

/// 1,000 to 4,000 a second are met, the last with a few losses and duplicates; 5,000 is overload; at 6,000 the
/// generator is late, and nothing else is wrong. One sample of the second level was never taken. Drawn once for all tests.
pub fn record() -> RunRecord {
    static RECORD: LazyLock<RunRecord> = LazyLock::new(draw);
    RECORD.clone()
}

fn draw() -> RunRecord {
    let mut levels: Vec<LevelRecord> =
        (0..6).map(|index| level(index, 1000.0 * f64::from(index + 1))).collect();
    levels[1].samples[6] = None;
    let few = levels[3].samples[4].as_mut().unwrap();
    few.counts.delivered -= 9;
    few.counts.duplicated += 17;
    levels[3].end.as_mut().unwrap().first_loss = Some(FirstLoss {
        device: 41,
        sequence: 131,
        message_number: 17,
        due_in_hold: Nanos::from_millis(4_310),
    });
    levels[4].end.as_mut().unwrap().first_loss =
        Some(FirstLoss { device: 7, sequence: 96, message_number: 3, due_in_hold: Nanos::from_millis(612) });
    RunRecord {
        gauges: Vec::new(),
        dissection: None,
        id: "7k3m9q2x".into(),
        name: "mqtt-baseline".into(),
        scenario: "name: mqtt-baseline\nplatform: mosquitto\npopulation: { devices: 1000, subscribers: 1 }\nload:\n  \
                   model: open\n  arrivals: poisson\n  levels: { from: 1000, to: 6000, step: 1000 }\n  hold: 10s\n  \
                   samples: 10\nmessage: { size: 64 }\nobjectives:\n  delivered: \">= 99.9 %\"\n  \
                   publish_p99: \"< 50 ms\"\n"
            .into(),
        terms: terms(),
        provenance: provenance(),
        end: Some(RunEnd::Complete),
        goes_on: false,
        set_up: set_up(),
        components: components(&levels),
        levels,
        experiment: Vec::new(),
    }
}

/// The same run in the closed model.
pub fn closed() -> RunRecord {
    let mut record = record();
    for level in &mut record.levels {
        level.start.load = Load::InFlight(1 << level.start.index);
    }
    record
}

/// A run whose levels connect 1,000 to 6,000 idle devices; of the last 6,000 one in six was refused.
pub fn devices() -> RunRecord {
    let mut record = record();
    let connected = Objective {
        population: None,
        subject: Subject::Connected,
        comparison: Comparison::AtLeast,
        bound: 0.999,
    };
    record.terms.objectives.level = vec![connected];
    for level in &mut record.levels {
        let devices = 1000 * u32::from(level.start.index + 1);
        level.start.load = Load::Devices { devices, rate: None };
        level.warm_up.counts.connects = 1000;
        level.threads.clear();
        for sample in level.samples.iter_mut().flatten() {
            *sample = SampleRecord::default();
        }
        let end = level.end.as_mut().unwrap();
        (end.connected, end.first_loss) = (devices.min(5000), None);
    }
    record.levels[5].warm_up.counts.connect_failed = 1000;
    record
}

/// The same run at a gateway that tells where events spend their lives; of its last level it tells nothing.
pub fn gateway() -> RunRecord {
    let mut record = record();
    let [.., last] = record.levels.as_slice() else { return record };
    let last = last.start.index;
    for level in record.levels.iter_mut().filter(|level| level.start.index != last) {
        for sample in level.samples.iter_mut().flatten() {
            for (metric, milliseconds) in [
                (Metric::WaitTime, 1),
                (Metric::TransferTime, 2),
                (Metric::DispatchTime, 3),
                (Metric::ProcessingTime, 4),
            ] {
                let spent = Nanos::from_millis(milliseconds);
                sample.histograms.entry(metric).or_default().record_n(spent, sample.counts.due);
            }
        }
        level.end.as_mut().unwrap().clock = Some(ClockRecord {
            offset: Nanos::from_millis(7),
            offset_within: Nanos::from_micros(30 + i64::from(level.start.index)),
            drift: 12.5,
            drift_within: Some(1.5),
            readings: 15,
            ..ClockRecord::default()
        });
    }
    record
}

fn terms() -> Terms {
    let objective = |subject, comparison, bound| Objective { population: None, subject, comparison, bound };
    Terms {
        cost: None,
        populations: Vec::new(),
        relayed: false,
        datagrams: false,
        devices: 1000,
        subscribers: 1,
        qos: 1,
        acknowledged_otherwise: false,
        subscribe_qos: 1,
        redelivery: None,
        subscriber_work: Nanos::ZERO,
        subscribers_acknowledge_late: false,
        listener: None,
        delivered_apart: false,
        repeats_lost: false,
        several_filters: false,
        persistent: false,
        levels: 6,
        precision: Nanos::from_micros(100),
        search: None,
        stop_after_missed: None,
        local: true,
        objectives: Objectives {
            level: vec![
                objective(Subject::Delivered, Comparison::AtLeast, 0.999),
                objective(Subject::Achieved, Comparison::AtLeast, 0.99),
                objective(Subject::Quantile(Metric::PublishTime, 0.99), Comparison::Below, 0.05),
                objective(Subject::Quantile(Metric::SubscribeTime, 0.99), Comparison::Below, 0.1),
            ],
            load_line: None,
        },
    }
}

fn provenance() -> Provenance {
    let facts = |facts: &[(&str, &str)]| -> BTreeMap<String, String> {
        facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Provenance {
        plimsoll: "0.1.0".into(),
        notes: Vec::new(),
        seed: 42,
        started: "2026-03-14T09:26:53Z".into(),
        command: ["plimsoll", "run", "examples/mqtt-baseline.yaml", "--report", "report.html"]
            .map(str::to_owned)
            .into(),
        host: facts(&[
            ("kernel", "6.12.0-amd64"),
            ("processor", "AMD EPYC 7B13"),
            ("cores", "2"),
            ("memory", "7.8 GiB"),
            ("clock source", "kvm-clock"),
            ("open files", "1048576"),
            ("local ports", "32768 to 60999"),
        ]),
        platform: facts(&[
            ("profile", "mosquitto"),
            ("protocol", "MQTT"),
            ("version", "mosquitto 2.0.21"),
            ("address", "127.0.0.1:41883"),
            ("limit: max_inflight_messages", "0, that is no limit"),
            ("limit: max_queued_messages", "0, that is no limit"),
        ]),
        profile: String::new(),
        placement: facts(&[
            ("load threads", "0"),
            ("platform", "1"),
            ("remark", "load threads and platform have disjoint processors"),
        ]),
        clock_epoch: Some(86_400_000_000_000),
        wall_epoch: None,
        series: None,
        process: None,
        inputs: Default::default(),
        resumed: Vec::new(),
    }
}

fn set_up() -> SampleRecord {
    let mut random = random(42, &[100]);
    let mut set_up = SampleRecord::default();
    let connect = set_up.histograms.entry(Metric::ConnectTime).or_default();
    (0..1001).for_each(|_| connect.record(span(0.0004, &mut random)));
    set_up
}

/// A span with a fixed and an equal exponential part, of that mean in seconds.
fn span(mean: f64, random: &mut Random) -> Nanos {
    coarse(Nanos::from_secs_f64(mean * (0.5 + 0.5 * InterArrival::Exponential.sample(random))))
}

/// The six leading bits: few different values keep the many summaries in these tests short.
fn coarse(span: Nanos) -> Nanos {
    let bits = 64 - span.0.leading_zeros();
    let dropped = bits.saturating_sub(6);
    Nanos(span.0 >> dropped << dropped)
}

fn level(index: u16, offered: f64) -> LevelRecord {
    let mut random = random(42, &[u64::from(index)]);
    let hold_start = Nanos::from_secs(4 + i64::from(index) * (HOLD_SECONDS + 4));
    let hold = Nanos::from_secs(HOLD_SECONDS);
    let samples = (0..SAMPLES).map(|position| Some(sample(offered, position, &mut random))).collect();
    LevelRecord {
        populations: Vec::new(),
        start: LevelStart {
            index,
            load: Load::Rate(offered),
            hold_start,
            hold,
            samples: SAMPLES,
            ..LevelStart::default()
        },
        end: Some(LevelEnd {
            index,
            at: hold_start + hold + Nanos::from_secs(1),
            first_sent: Some(hold_start),
            last_done: Some(hold_start + hold),
            ..LevelEnd::default()
        }),
        warm_up: SampleRecord::default(),
        samples,
        threads: (0..SAMPLES).map(|position| thread(index, position, offered)).collect(),
    }
}

fn sample(offered: f64, position: u16, random: &mut Random) -> SampleRecord {
    let due = (offered * (1.0 + 0.03 * (random.fraction() - 0.5))) as u64;
    let late = offered > LATE;
    let overload = offered > CAPACITY && !late;
    let most = (CAPACITY * (1.0 + 0.02 * (random.fraction() - 0.5))) as u64;
    let completed = if overload { due.min(most) } else { due };
    let lost = if overload { due / 50 } else { 0 };
    let counts = Counts {
        due,
        sent: due,
        acknowledged: due,
        completed,
        expected_deliveries: due,
        delivered: due - lost,
        reordered: if overload { 3 } else { 0 },
        content_bytes: due * 64,
        publication_bytes: due * 88,
        bytes_sent: due * 92,
        bytes_received: due * 96,
        delivered_bytes: (due - lost) * 64,
        ..Counts::default()
    };
    let mut sample = SampleRecord { counts, ..SampleRecord::default() };
    let service = 0.0004 / (1.0 - (offered / CAPACITY).min(0.98));
    // In overload the wait grows with the backlog.
    let backlog = if overload { (offered - CAPACITY) * f64::from(position + 1) / CAPACITY } else { 0.0 };
    let late = if late { 0.02 } else { 0.00003 };
    for _ in 0..due {
        let publish = coarse(span(service, random) + Nanos::from_secs_f64(backlog));
        let subscribe = coarse(span(service * 0.8, random) + Nanos::from_secs_f64(backlog));
        let (signed, difference) = match publish - subscribe {
            span if span.0 >= 0 => (Metric::AcknowledgedAfterDelivery, span),
            span => (Metric::DeliveredAfterAcknowledgement, Nanos(-span.0)),
        };
        for (metric, span) in [
            (Metric::PublishTime, publish),
            (Metric::PublishTimeFromSend, span(service, random)),
            (Metric::SubscribeTime, subscribe),
            (Metric::SubscribeTimeFromSend, span(service * 0.8, random)),
            (signed, difference),
            (Metric::Lateness, span(late, random)),
            (Metric::ReceiverLag, span(0.00005, random)),
        ] {
            let histogram: &mut Histogram = sample.histograms.entry(metric).or_default();
            histogram.record(span);
        }
    }
    sample
}

fn thread(level: u16, sample: u16, offered: f64) -> ThreadUsage {
    let wall = Nanos::from_secs(1);
    ThreadUsage {
        level,
        sample,
        thread: 0,
        wall,
        cpu: Nanos::from_secs_f64((offered / 6200.0).min(1.0)),
        run_delay: Nanos::from_millis(4),
        timeslices: 900,
        steal: Nanos::from_millis(2),
    }
}

/// A broker whose processor follows the load and whose memory grows with the backlog, and a small bridge that was
/// away for some seconds.
fn components(levels: &[LevelRecord]) -> Vec<ComponentUsage> {
    let mut random = random(42, &[200]);
    let end = 4 + levels.len() as i64 * (HOLD_SECONDS + 4);
    let usage = |component: &str, second: i64, cpu: f64, mebibytes: f64| ComponentUsage {
        component: component.to_owned(),
        at: Nanos::from_secs(second),
        window: Nanos::from_secs(1),
        cpu: Nanos::from_secs_f64(cpu),
        run_delay: Some(Nanos::from_millis(12)),
        rss: (mebibytes * 1024.0 * 1024.0) as u64,
        descriptors: Some(1012),
        ..ComponentUsage::default()
    };
    let mut components = Vec::new();
    let mut backlog = 0.0f64;
    for second in 1..=end {
        let at = Nanos::from_secs(second);
        let running = levels
            .iter()
            .find(|level| level.start.hold_start < at && at <= level.start.hold_start + level.start.hold);
        let offered = running.and_then(|level| level.start.load.offered()).unwrap_or(0.0);
        backlog = (backlog + offered - CAPACITY).max(0.0);
        let cpu = (offered / CAPACITY).min(0.99) * (1.0 - 0.04 * random.fraction());
        components.push(usage("mosquitto", second, cpu.max(0.01), 14.0 + backlog / 400.0));
        if !(40..48).contains(&second) {
            components.push(usage("bridge", second, 0.08 + 0.02 * random.fraction(), 31.0));
        }
    }
    components
}
