//! A run in the log format of HdrHistogram, version 1.3: one line a sample and metric, tagged by the metric's name. A run of
//! several populations has further lines for each, tagged `NAME.METRIC` as its objectives are.
//!
//! The format is that of HdrHistogram's `HistogramLogWriter`: begin and length of the interval in seconds, its largest
//! value in milliseconds, and the histogram of nanoseconds in the compressed V2 encoding as base64.

use crate::wall_clock::WallClock;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::{Metric, Nanos};

/// The holds of all levels in the order of time. A sample that was not taken has no lines, nor has a metric of which
/// nothing was seen. Begins are seconds since 1970.
pub fn render(record: &RunRecord) -> String {
    let wall = WallClock::of(&record.provenance);
    let mut out = format!(
        "#[Run {} of {} by plimsoll {}]\n#[Histogram log format version 1.3]\n",
        record.id,
        record.name.replace(char::is_control, " "),
        record.provenance.plimsoll
    );
    let (start, written) = (wall.seconds(Nanos::ZERO), wall.written(Nanos::ZERO));
    out += &format!("#[StartTime: {start:.3} (seconds since epoch), {written}]\n");
    out += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    for level in &record.levels {
        let label = level.start.load;
        out += &format!("#[Level {}: {label}]\n", level.start.index);
        for position in 0..level.samples.len() {
            out += &lines(level, position, "", wall);
            for (own, terms) in level.populations.iter().zip(&record.terms.populations) {
                out += &lines(own, position, &format!("{}.", terms.name), wall);
            }
        }
    }
    out
}

/// The lines of one sample.
fn lines(level: &LevelRecord, position: usize, prefix: &str, wall: WallClock) -> String {
    let Some(sample) = level.samples.get(position).and_then(Option::as_ref) else { return String::new() };
    let begin = wall.seconds(level.start.hold_start + level.start.sample_begin(position));
    let length = level.start.sample_seconds(position);
    let seen = Metric::ALL.into_iter().filter_map(|metric| {
        let histogram = sample.histograms.get(&metric)?;
        let max = histogram.max()?.as_secs_f64() * 1e3;
        let encoded = BASE64_STANDARD.encode(histogram.encode());
        Some(format!("Tag={prefix}{},{begin:.3},{length:.3},{max:.6},{encoded}\n", metric.name()))
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    /// The log reader of the hdrhistogram crate shares nothing with what wrote the lines.
    #[test]
    fn a_reader_of_the_format_finds_every_sample_with_its_time_and_values() {
        let record = synthetic::record();
        let text = render(&record);
        let mut intervals = Vec::new();
        let mut start = None;
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            match entry.unwrap() {
                LogEntry::StartTime(at) => start = Some(at.as_secs()),
                LogEntry::Interval(interval) => intervals.push(interval),
                LogEntry::BaseTime(_) => panic!("begins are absolute"),
            }
        }
        // 2026-03-14T09:26:53Z.
        assert_eq!(start, Some(1_773_480_413));
        let taken = record.levels.iter().flat_map(|level| level.samples.iter().flatten());
        let seen: usize = taken.map(|sample| sample.histograms.len()).sum();
        assert_eq!(intervals.len(), seen, "one line a sample and metric");
        let publish: Vec<_> = intervals
            .iter()
            .filter(|interval| interval.tag().is_some_and(|t| t.as_str() == "publish_time"))
            .collect();
        assert_eq!(publish.len(), 6 * 10 - 1, "a gap has no line");
        // The first level's hold begins four seconds after time zero; its samples have a second each.
        assert_eq!(publish[1].start_timestamp().as_secs(), 1_773_480_413 + 4 + 1);
        assert_eq!(publish[1].duration().as_secs(), 1);
        let bytes = BASE64_STANDARD.decode(publish[1].encoded_histogram()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        let written = &record.levels[0].samples[1].as_ref().unwrap().histograms[&Metric::PublishTime];
        assert_eq!((read.len(), read.max()), (written.count(), written.max().unwrap().0 as u64));
        assert!(
            (publish[1].max() - read.max() as f64 / 1e6).abs() < 1e-6,
            "the largest value in milliseconds"
        );
    }
}
