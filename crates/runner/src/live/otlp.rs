//! The body of an OTLP request with metrics (OpenTelemetry Protocol 1.x, `ExportMetricsServiceRequest`), as JSON.

use plimsoll_codec::openmetrics::{Family, Kind, Series, Value};
use serde_json::{Value as Json, json};

/// Sums that count from the beginning of the run on.
const CUMULATIVE: u8 = 2;

/// The request: metrics as they were at a time, counters since another, both in nanoseconds since 1970.
pub fn request(families: &[Family], resource: &[(&str, &str)], since: u64, now: u64) -> Json {
    let metrics: Vec<Json> = families.iter().map(|family| metric(family, since, now)).collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes(resource.iter().copied()) },
        "scopeMetrics": [{
            "scope": { "name": "plimsoll", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics,
        }],
    }] })
}

fn metric(family: &Family, since: u64, now: u64) -> Json {
    let points: Vec<Json> = family.series.iter().map(|series| point(series, since, now)).collect();
    let data = match family.kind {
        Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        Kind::Counter => (
            "sum",
            json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points }),
        ),
        Kind::Histogram => {
            ("histogram", json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points }))
        }
    };
    json!({ "name": family.name, "description": family.help, data.0: data.1 })
}

fn point(series: &Series, since: u64, now: u64) -> Json {
    let labels = series.labels.iter().map(|(name, value)| (*name, value.as_str()));
    // 64-bit integers are strings in the JSON of Protocol Buffers.
    let mut point = json!({
        "attributes": attributes(labels),
        "startTimeUnixNano": since.to_string(),
        "timeUnixNano": now.to_string(),
    });
    match &series.value {
        Value::Number(value) => point["asDouble"] = json!(value),
        Value::Buckets { counts, count, sum } => {
            // Each bucket by itself, and one above the last end.
            let ends = counts.iter().map(|(_, count)| *count).chain([*count]);
            let below = std::iter::once(0).chain(counts.iter().map(|(_, count)| *count));
            let own: Vec<String> =
                ends.zip(below).map(|(to, from)| to.saturating_sub(from).to_string()).collect();
            let bounds: Vec<f64> = counts.iter().map(|(end, _)| *end).collect();
            point["count"] = json!(count.to_string());
            point["sum"] = json!(sum);
            point["bucketCounts"] = json!(own);
            point["explicitBounds"] = json!(bounds);
        }
    }
    point
}

fn attributes<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Json {
    labels.map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}
