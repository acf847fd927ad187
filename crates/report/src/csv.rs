//! Comma-separated values (RFC 4180): one row a level, a sample or a message. Times in seconds, sizes in bytes.

use crate::plain;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::{Summary, TimeSummary};
use plimsoll_model::message::MessageRecord;
use plimsoll_model::record::RunRecord;
use plimsoll_model::{Metric, Nanos};

/// The columns by which rows of several runs are told apart.
const RUN: [&str; 3] = ["run", "name", "started"];

/// The last column: empty for all populations together, as in a run of one.
const POPULATION: &str = "population";

/// The number of a level for people, from 1 in the order in which levels were run.
fn number(index: u16) -> String {
    (u32::from(index) + 1).to_string()
}

/// One row a level.
pub fn levels(summary: &Summary) -> String {
    let mut header: Vec<String> = RUN.map(str::to_owned).into();
    header.extend(
        [
            "level",
            "offered",
            "in_flight",
            "achieved",
            "verdict",
            "validity",
            "due",
            "sent",
            "unsent",
            "acknowledged",
            "expected_deliveries",
            "delivered",
            "late",
            "superseded",
            "lost",
            "duplicated",
            "reordered",
            "foreign",
            "unknown_acks",
            "reconnects",
            "goodput",
            "marshalled_size",
            "publication_size",
            "bytes_sent",
            "bytes_received",
            "total_time",
            "devices",
            "connect_rate",
            "connected",
            "connect_failed",
        ]
        .map(str::to_owned),
    );
    let started = summary.provenance["started"].as_str().unwrap_or_default();
    let times =
        ["publish_time", "publish_time_from_send", "subscribe_time", "subscribe_time_from_send", "lateness"];
    for time in times {
        header.extend(
            ["n", "mean", "ci95_lo", "ci95_hi", "p50", "p99", "max"].map(|part| format!("{time}_{part}")),
        );
    }
    header.push(POPULATION.to_owned());
    let mut out = row(header);
    let of_populations = |level: &LevelSummary| {
        let own = level.populations.iter().map(|own| (own.name.clone(), (*own.figures).clone()));
        own.collect::<Vec<_>>()
    };
    let rows = summary
        .levels
        .iter()
        .flat_map(|level| std::iter::once((String::new(), level.clone())).chain(of_populations(level)));
    for (population, level) in rows {
        let mut cells = vec![
            summary.run.clone(),
            summary.name.clone(),
            started.to_owned(),
            number(level.index),
            optional(level.offered),
            optional(level.in_flight),
            optional(level.achieved),
            level.verdict.name().to_owned(),
            level.validity.name().to_owned(),
            level.due.to_string(),
            level.sent.to_string(),
            level.unsent.to_string(),
            optional(level.acknowledged),
            level.expected_deliveries.to_string(),
            level.delivered.to_string(),
            level.late.to_string(),
            level.superseded.to_string(),
            level.lost.to_string(),
            level.duplicated.to_string(),
            level.reordered.to_string(),
            level.foreign.to_string(),
            level.unknown_acks.to_string(),
            level.reconnects.to_string(),
            optional(level.goodput),
            optional(level.marshalled_size),
            optional(level.publication_size),
            level.bytes_sent.to_string(),
            level.bytes_received.to_string(),
            optional(level.total_time),
            optional(level.devices),
            optional(level.connect_rate),
            optional(level.connected),
            level.connect_failed.to_string(),
        ];
        for time in [
            &level.publish_time,
            &level.publish_time_from_send,
            &level.subscribe_time,
            &level.subscribe_time_from_send,
            &level.generator.lateness,
        ] {
            cells.extend(time_cells(time));
        }
        cells.push(population);
        out += &row(cells);
    }
    out
}

/// One row a sample that was taken; a gap has no row.
pub fn samples(record: &RunRecord) -> String {
    let mut header: Vec<String> = RUN.map(str::to_owned).into();
    header.extend(
        [
            "level",
            "sample",
            "due",
            "sent",
            "acknowledged",
            "completed",
            "delivered",
            "duplicated",
            "reordered",
        ]
        .map(str::to_owned),
    );
    header.extend(Metric::ALL.iter().flat_map(|metric| {
        ["n", "mean", "p50", "p99", "max"].map(|part| format!("{}_{part}", metric.name()))
    }));
    header.push(POPULATION.to_owned());
    let mut out = row(header);
    let names = record.terms.populations.iter().map(|own| own.name.as_str());
    for level in &record.levels {
        let own = names.clone().zip(&level.populations);
        let samples = std::iter::once(("", level)).chain(own).flat_map(|(name, level)| {
            level.samples.iter().enumerate().map(move |(index, sample)| (name, index, sample))
        });
        for (population, index, sample) in samples {
            let Some(sample) = sample else { continue };
            let counts = sample.counts;
            let mut cells = vec![
                record.id.clone(),
                record.name.clone(),
                record.provenance.started.clone(),
                number(level.start.index),
                index.to_string(),
            ];
            cells.extend(
                [
                    counts.due,
                    counts.sent,
                    counts.acknowledged,
                    counts.completed,
                    counts.delivered,
                    counts.duplicated,
                    counts.reordered,
                ]
                .map(|count| count.to_string()),
            );
            for metric in Metric::ALL {
                let time =
                    sample.histograms.get(&metric).map(|histogram| TimeSummary::of(&[histogram], true));
                let time = time.unwrap_or_default();
                cells.push(time.n.to_string());
                cells.extend([time.mean, time.p50, time.p99, time.max].map(optional));
            }
            cells.push(population.to_owned());
            out += &row(cells);
        }
    }
    out
}

/// The names of what [`message`] writes.
pub fn message_header() -> String {
    let names = [
        "level",
        "sample",
        "device",
        "sequence",
        "due",
        "ready",
        "sent",
        "done",
        "first_received",
        "receivers",
        "missing",
        "fate",
    ];
    row(names.map(str::to_owned).into())
}

/// One message of the log. Stamps are seconds since the run's epoch with nine decimals, so that no nanosecond is lost.
pub fn message(message: &MessageRecord) -> String {
    let seconds = |at: Nanos| {
        let sign = if at.0 < 0 { "-" } else { "" };
        let nanos = at.0.unsigned_abs();
        format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    };
    row(vec![
        number(message.level),
        optional(message.sample),
        message.device.to_string(),
        message.sequence.to_string(),
        seconds(message.due),
        seconds(message.ready),
        optional(message.sent.map(seconds)),
        optional(message.done.map(seconds)),
        optional(message.first_received.map(seconds)),
        message.receivers.to_string(),
        message.missing.to_string(),
        message.fate.name().to_owned(),
    ])
}

/// The names of what [`event`] writes: the columns of work E.
pub fn event_header() -> String {
    let names =
        ["sid", "eid", "created_time", "fetched_time", "retrieved_time", "dispatched_time", "done_time"];
    row(names.map(str::to_owned).into())
}

/// The life of one event of a level, by the name that it had on the wire. Times are milliseconds since the run's epoch, with six
/// decimals.
pub fn event(tag: u16, message: &MessageRecord) -> String {
    let milliseconds = |at: Nanos| {
        let sign = if at.0 < 0 { "-" } else { "" };
        let nanos = at.0.unsigned_abs();
        format!("{sign}{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
    };
    row(vec![
        message.level.to_string(),
        format!("{tag:04x}-{}-{}", message.device, message.sequence),
        milliseconds(message.due),
        optional(message.sent.map(milliseconds)),
        optional(message.retrieved.map(milliseconds)),
        optional(message.dispatched.map(milliseconds)),
        optional(message.done.map(milliseconds)),
    ])
}

fn time_cells(time: &TimeSummary) -> [String; 7] {
    let [lo, hi] = time.ci95.map_or([None, None], |[lo, hi]| [Some(lo), Some(hi)]);
    [
        time.n.to_string(),
        optional(time.mean),
        optional(lo),
        optional(hi),
        optional(time.p50),
        optional(time.p99),
        optional(time.max),
    ]
}

/// A value, nothing where it does not exist.
pub(crate) fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A row, quoted where it must be.
pub(crate) fn row(cells: Vec<String>) -> String {
    let quoted = cells.iter().map(|cell| plain::csv(cell));
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
