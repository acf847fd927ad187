//! Metrics as other programs take them: the text of OpenMetrics 1.0 and of Prometheus 0.0.4, and the body of a Prometheus
//! remote write (protocol 1.0).

use std::fmt::Write;

/// The media type of OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of Prometheus' own text.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What kind of metric a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; names of its samples end in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, without the ending that its kind adds.
    pub name: String,
    /// What it is.
    pub help: String,
    /// What kind it is.
    pub kind: Kind,
    /// One of each set of labels.
    pub series: Vec<Series>,
}

/// A metric with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// What it is now.
    pub value: Value,
}

/// What a metric is now.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Buckets {
        /// Upper ends, rising, each with how many observations are not above it.
        counts: Vec<(f64, u64)>,
        /// All observations.
        count: u64,
        /// Their sum.
        sum: f64,
    },
}

impl Series {
    /// A number with labels.
    pub fn number(labels: Vec<(&'static str, String)>, value: f64) -> Series {
        Series { labels, value: Value::Number(value) }
    }
}

/// A line of the text: the whole name, the label of a bucket, and the value.
struct Line {
    name: String,
    bucket: Option<String>,
    value: f64,
}

fn lines(family: &Family, series: &Series) -> Vec<Line> {
    let line = |ending: &str, bucket, value| Line { name: format!("{}{ending}", family.name), bucket, value };
    match &series.value {
        Value::Number(value) if family.kind == Kind::Counter => vec![line("_total", None, *value)],
        Value::Number(value) => vec![line("", None, *value)],
        Value::Buckets { counts, count, sum } => {
            let bucket = |end: &str, count: u64| line("_bucket", Some(end.to_owned()), count as f64);
            let mut all: Vec<Line> =
                counts.iter().map(|(end, count)| bucket(&number(*end), *count)).collect();
            all.push(bucket("+Inf", *count));
            all.push(line("_sum", None, *sum));
            all.push(line("_count", None, *count as f64));
            all
        }
    }
}

/// The text of families, in OpenMetrics 1.0 or, for scrapers that know only that, in Prometheus' own.
pub fn text(families: &[Family], is_openmetrics: bool) -> String {
    let mut out = String::new();
    for family in families {
        // Prometheus' own text names a counter as its samples are named.
        let ending = if family.kind == Kind::Counter && !is_openmetrics { "_total" } else { "" };
        let name = format!("{}{ending}", family.name);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} {}", escaped(&family.help, is_openmetrics));
        let _ = writeln!(out, "# TYPE {name} {}", family.kind.name());
        for series in &family.series {
            for line in lines(family, series) {
                let bucket = line.bucket.iter().map(|end| ("le", end.as_str()));
                let labels = series.labels.iter().map(|(name, value)| (*name, value.as_str()));
                let labels: Vec<String> = labels
                    .chain(bucket)
                    .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
                    .collect();
                let labels =
                    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                let _ = writeln!(out, "{}{labels} {}", line.name, number(line.value));
            }
        }
    }
    if is_openmetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

/// The message `WriteRequest` of remote write 1.0, not yet compressed: each series with its one sample at that time,
/// milliseconds since 1970. `common` are labels that all have.
pub fn write_request(families: &[Family], common: &[(&str, &str)], time_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for family in families {
        for series in &family.series {
            for line in lines(family, series) {
                let mut labels: Vec<(&str, &str)> = vec![("__name__", line.name.as_str())];
                labels.extend(common);
                labels.extend(series.labels.iter().map(|(name, value)| (*name, value.as_str())));
                labels.extend(line.bucket.iter().map(|end| ("le", end.as_str())));
                // Receivers may refuse labels that are not in the order of their names.
                labels.sort_unstable();
                field(&mut request, 1, &time_series(&labels, line.value, time_ms));
            }
        }
    }
    request
}

fn time_series(labels: &[(&str, &str)], value: f64, time_ms: i64) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, value) in labels {
        let mut label = Vec::new();
        field(&mut label, 1, name.as_bytes());
        field(&mut label, 2, value.as_bytes());
        field(&mut all, 1, &label);
    }
    let mut sample = vec![(1 << 3) | WIRE_FIXED_64];
    sample.extend_from_slice(&value.to_le_bytes());
    sample.push((2 << 3) | WIRE_VARINT);
    varint(&mut sample, time_ms as u64);
    field(&mut all, 2, &sample);
    all
}

/// Wire types of Protocol Buffers.
const WIRE_VARINT: u8 = 0;
const WIRE_FIXED_64: u8 = 1;
const WIRE_LENGTH: u8 = 2;

/// A field whose content has a length before it.
fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push((number << 3) | WIRE_LENGTH);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition;

    fn families() -> Vec<Family> {
        vec![
            Family {
                name: "sent".into(),
                help: "Messages\nthat were sent.".into(),
                kind: Kind::Counter,
                series: vec![Series::number(vec![("run", "a\"b\\".into())], 7.0)],
            },
            Family {
                name: "time_seconds".into(),
                help: "How long.".into(),
                kind: Kind::Histogram,
                series: vec![Series {
                    labels: Vec::new(),
                    value: Value::Buckets { counts: vec![(0.01, 2), (0.1, 3)], count: 4, sum: 1.5 },
                }],
            },
        ]
    }

    #[test]
    fn both_texts_name_counters_as_their_readers_want() {
        let openmetrics = "# HELP sent Messages\\nthat were sent.\n# TYPE sent counter\n\
            sent_total{run=\"a\\\"b\\\\\"} 7\n\
            # HELP time_seconds How long.\n# TYPE time_seconds histogram\n\
            time_seconds_bucket{le=\"0.01\"} 2\ntime_seconds_bucket{le=\"0.1\"} 3\n\
            time_seconds_bucket{le=\"+Inf\"} 4\ntime_seconds_sum 1.5\ntime_seconds_count 4\n# EOF\n";
        assert_eq!(text(&families(), true), openmetrics);
        let own = openmetrics.replace("HELP sent", "HELP sent_total").replace("TYPE sent", "TYPE sent_total");
        assert_eq!(text(&families(), false), own.replace("# EOF\n", ""));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = text(&families(), true);
        let read: Vec<_> = exposition::samples(&written).collect();
        assert_eq!(read.len(), 6);
        assert_eq!(
            (read[0].name, read[0].labels[0].1.as_str(), read[0].value),
            ("sent_total", "a\"b\\", 7.0)
        );
    }

    /// Written down by hand from the definition of the message.
    #[test]
    fn a_write_request_has_sorted_labels_and_one_sample() {
        let one = [Family {
            name: "up".into(),
            help: String::new(),
            kind: Kind::Gauge,
            series: vec![Series::number(Vec::new(), 1.0)],
        }];
        let mut expected = vec![0x0a, 41];
        expected.extend([0x0a, 8, 0x0a, 1, b'Z', 0x12, 3, b'o', b'n', b'e']);
        expected.extend([0x0a, 14, 0x0a, 8]);
        expected.extend(b"__name__");
        expected.extend([0x12, 2, b'u', b'p']);
        expected.extend([0x12, 12, 0x09]);
        expected.extend(1.0_f64.to_le_bytes());
        expected.extend([0x10, 0xac, 0x02]);
        expected[1] = (expected.len() - 2) as u8;
        assert_eq!(write_request(&one, &[("Z", "one")], 300), expected);
    }
}
