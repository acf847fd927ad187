//! Comma-separated values (RFC 4180): one row a level, a sample, a reading of an observer or a message. Times in seconds, sizes in
//! bytes.

use crate::plain;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
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

/// A column of levels: its name, and the cell of a level.
type LevelColumn = (&'static str, fn(&LevelSummary) -> String);

const LEVEL_COLUMNS: [LevelColumn; 30] = [
    ("level", |level| number(level.index)),
    ("offered", |level| optional(level.load.offered())),
    ("in_flight", |level| optional(level.load.in_flight())),
    ("achieved", |level| optional(level.achieved)),
    ("verdict", |level| level.verdict.name().to_owned()),
    ("validity", |level| level.validity.name().to_owned()),
    ("due", |level| level.due.to_string()),
    ("sent", |level| level.sent.to_string()),
    ("unsent", |level| level.unsent.to_string()),
    ("acknowledged", |level| optional(level.acknowledged)),
    ("expected_deliveries", |level| level.expected_deliveries.to_string()),
    ("delivered", |level| level.delivered.to_string()),
    ("late", |level| level.late.to_string()),
    ("superseded", |level| level.superseded.to_string()),
    ("lost", |level| level.lost.to_string()),
    ("duplicated", |level| level.duplicated.to_string()),
    ("reordered", |level| level.reordered.to_string()),
    ("foreign", |level| level.foreign.to_string()),
    ("unknown_acks", |level| level.unknown_acks.to_string()),
    ("reconnects", |level| level.reconnects.to_string()),
    ("goodput", |level| optional(level.goodput)),
    ("marshalled_size", |level| optional(level.marshalled_size)),
    ("publication_size", |level| optional(level.publication_size)),
    ("bytes_sent", |level| level.bytes_sent.to_string()),
    ("bytes_received", |level| level.bytes_received.to_string()),
    ("total_time", |level| optional(level.total_time)),
    ("devices", |level| optional(level.load.devices())),
    ("connect_rate", |level| optional(level.load.connect_rate())),
    ("connected", |level| optional(level.connected)),
    ("connect_failed", |level| level.connect_failed.to_string()),
];

/// The times of a level, several columns each.
type LevelTime = (&'static str, fn(&LevelSummary) -> &TimeSummary);

const LEVEL_TIMES: [LevelTime; 5] = [
    ("publish_time", |level| &level.times[Metric::PublishTime]),
    ("publish_time_from_send", |level| &level.times[Metric::PublishTimeFromSend]),
    ("subscribe_time", |level| &level.times[Metric::SubscribeTime]),
    ("subscribe_time_from_send", |level| &level.times[Metric::SubscribeTimeFromSend]),
    ("lateness", |level| &level.generator.lateness),
];

/// One row a level, and one for each of its populations where there are several.
pub fn levels(summary: &Summary) -> String {
    const PARTS: [&str; 7] = ["n", "mean", "ci95_lo", "ci95_hi", "p50", "p99", "max"];
    let names = RUN.into_iter().chain(LEVEL_COLUMNS.iter().map(|(name, _)| *name)).map(str::to_owned);
    let times = LEVEL_TIMES.iter().flat_map(|(time, _)| PARTS.map(|part| format!("{time}_{part}")));
    let mut out = row(names.chain(times).chain([POPULATION.to_owned()]).collect());
    let started = summary.provenance["started"].as_str().unwrap_or_default();
    let rows = summary.levels.iter().flat_map(|level| {
        let own = level.populations.iter().map(|own| (own.name.as_str(), &*own.figures));
        std::iter::once(("", level)).chain(own)
    });
    for (population, level) in rows {
        let run = [summary.run.as_str(), &summary.name, started].map(str::to_owned);
        let cells = LEVEL_COLUMNS.iter().map(|(_, cell)| cell(level));
        let times = LEVEL_TIMES.iter().flat_map(|(_, time)| time_cells(time(level)));
        out += &row(run.into_iter().chain(cells).chain(times).chain([population.to_owned()]).collect());
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
/// One row for each reading of a component: when it ended, on the run's clock, how long it looks back, and what was used in it.
pub fn components(record: &RunRecord) -> String {
    let columns = [
        "at",
        "component",
        "window_s",
        "cpu_s",
        "run_delay_s",
        "held_by_others_s",
        "rss_bytes",
        "descriptors",
        "stopped",
    ];
    readings(record, &columns, &record.components, |usage| {
        vec![
            seconds(usage.at),
            usage.component.clone(),
            seconds(usage.window),
            seconds(usage.cpu),
            optional(usage.run_delay.map(seconds)),
            optional(usage.held_by_others.map(seconds)),
            usage.rss.to_string(),
            optional(usage.descriptors.map(|count| count.to_string())),
            usage.stopped.to_string(),
        ]
    })
}

/// One row for each value that another observer saw, with its time on the run's clock.
pub fn gauges(record: &RunRecord) -> String {
    readings(record, &["at", "sampler", "subject", "quantity", "unit", "value"], &record.gauges, |gauge| {
        let texts = [&gauge.sampler, &gauge.subject, &gauge.quantity, &gauge.unit].map(String::clone);
        let mut cells = vec![seconds(gauge.at)];
        cells.extend(texts);
        cells.push(gauge.value.to_string());
        cells
    })
}

/// A row for each reading, behind the columns by which runs are told apart.
fn readings<T>(
    record: &RunRecord,
    columns: &[&str],
    readings: &[T],
    cells: impl Fn(&T) -> Vec<String>,
) -> String {
    let own = || [&record.id, &record.name, &record.provenance.started].map(String::clone).to_vec();
    let header = RUN.iter().chain(columns).map(|&column| column.to_owned()).collect();
    let rows = readings.iter().map(|reading| row([own(), cells(reading)].concat()));
    row(header) + &rows.collect::<String>()
}

fn seconds(time: Nanos) -> String {
    time.as_secs_f64().to_string()
}

pub(crate) fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A row, quoted where it must be.
pub(crate) fn row(cells: Vec<String>) -> String {
    let quoted = cells.iter().map(|cell| plain::csv(cell));
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
