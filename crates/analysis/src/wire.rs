//! What connections cost below MQTT: handshakes of TLS.

use crate::summary::TimeSummary;
use plimsoll_model::{Counts, Histogram, Metric};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What connections cost below MQTT, in one level or in the set-up.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WireSummary {
    /// Handshakes of TLS that came to their end, resumed ones included.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session of their client.
    pub handshakes_resumed: u64,
    /// TCP connected to TLS secured, a part of the connect time; null without TLS. Its intervals are those of
    /// independent observations.
    #[serde(serialize_with = "observed")]
    #[schemars(with = "Option<TimeSummary>")]
    pub handshake_time: TimeSummary,
}

impl WireSummary {
    /// Of counts and the histogram of each metric.
    pub(crate) fn of(counts: &Counts, merged: impl Fn(Metric) -> Histogram) -> WireSummary {
        WireSummary {
            handshakes: counts.handshakes,
            handshakes_resumed: counts.handshakes_resumed,
            handshake_time: TimeSummary::of_independent(&merged(Metric::HandshakeTime)),
        }
    }

    /// In words, one part a subject; empty where there is nothing to tell.
    pub fn in_words(&self, time: impl Fn(Option<f64>) -> String) -> Vec<String> {
        let mut told = Vec::new();
        if self.handshakes > 0 {
            let mut text =
                format!("{} TLS handshakes, {} of them resumed", self.handshakes, self.handshakes_resumed);
            if let Some(p50) = self.handshake_time.p50 {
                text += &format!(", half within {}", time(Some(p50)));
            }
            told.push(text);
        }
        told
    }
}

fn observed<S: Serializer>(time: &TimeSummary, serializer: S) -> Result<S::Ok, S::Error> {
    (time.n > 0).then_some(time).serialize(serializer)
}
