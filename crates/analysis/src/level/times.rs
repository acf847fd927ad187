//! The times of a level that have a key of their own in its summary, by metric: a row of the table of metrics is all that a new one
//! needs here.

use crate::time_summary::TimeSummary;
use plimsoll_model::Metric;
use plimsoll_model::metric::{METRIC_COUNT, METRICS, MetricRow};
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::ops::{Index, IndexMut};

/// The times of a level by metric. One that was never observed has no observations, and is null in the summary.
#[derive(Clone, Debug, Default)]
pub struct Times(Box<[TimeSummary; METRIC_COUNT]>);

impl Times {
    /// Summarises each of them.
    pub fn of(time: impl Fn(&MetricRow) -> TimeSummary) -> Times {
        let mut times = Times::default();
        rows().for_each(|row| times[row.metric] = time(row));
        times
    }
}

/// Metrics with a key of their own: not those that stand in a part of the summary, nor those that one key shows together.
fn rows() -> impl Iterator<Item = &'static MetricRow> {
    let shares = |row: &MetricRow| METRICS.iter().filter(|other| other.key == row.key).count() > 1;
    METRICS.iter().filter(move |row| !row.key.contains('.') && !shares(row))
}

impl<const N: usize> From<[(Metric, TimeSummary); N]> for Times {
    /// These, and nothing observed of the others.
    fn from(known: [(Metric, TimeSummary); N]) -> Times {
        let mut times = Times::default();
        known.into_iter().for_each(|(metric, time)| times[metric] = time);
        times
    }
}

impl Index<Metric> for Times {
    type Output = TimeSummary;

    fn index(&self, metric: Metric) -> &TimeSummary {
        &self.0[metric as usize]
    }
}

impl IndexMut<Metric> for Times {
    fn index_mut(&mut self, metric: Metric) -> &mut TimeSummary {
        &mut self.0[metric as usize]
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for row in rows() {
            let time = &self[row.metric];
            map.serialize_entry(row.key, &(time.n > 0).then_some(time))?;
        }
        map.end()
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Times {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Times".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for row in rows() {
            let mut schema = generator.subschema_for::<Option<TimeSummary>>();
            schema.insert("description".into(), row.about.into());
            properties.insert(row.key.to_owned(), schema.into());
        }
        json_schema!({ "type": "object", "properties": properties })
    }
}
