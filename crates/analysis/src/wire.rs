//! What happens below MQTT: handshakes of TLS, and what the kernel knows of TCP.

use crate::time_summary::TimeSummary;
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Histogram, Metric};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What connections cost below MQTT, in one level or in the set-up.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WireSummary {
    /// Handshakes of TLS and DTLS that came to their end, resumed ones included.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session of their client.
    pub handshakes_resumed: u64,
    /// TCP connected to TLS secured, a part of the connect time, or all of the handshake of DTLS; null without both. Its
    /// intervals are those of independent observations.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub handshake_time: TimeSummary,
    /// The kernel's smoothed round-trip time of a bounded sample of connections, looked at when samples end; null where
    /// it was not read. It is that of the packets that our side sends.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub tcp_rtt: TimeSummary,
    /// The least round-trip time of those connections.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub tcp_least_rtt: TimeSummary,
    /// Requests sent to acknowledged, where the protocol itself acknowledges (CoAP): of those that were sent once. Its
    /// intervals are those of independent observations. Null where there was none.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub request_rtt: TimeSummary,
    /// A request's last sending to its being sent again because no acknowledgement came (CoAP). Its intervals are those of
    /// independent observations. Null where none was.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub retransmission_delay: TimeSummary,
    /// The network's own round trip: SYN to SYN-ACK of a probe, or to a reset where nobody listens. Its intervals are
    /// those of independent observations. Null where it was not recorded, or nobody answered.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub network_rtt: TimeSummary,
    /// Segments that those connections of ours sent again; null where it was not read.
    pub tcp_retransmissions: Option<u64>,
    /// Mean number of segments in flight on such a connection; null where it was not read.
    pub tcp_in_flight: Option<f64>,
    /// Mean number of bytes that waited in the kernel on such a connection, sent or not, until the other side acknowledged
    /// them; null where it was not read.
    pub tcp_send_queue: Option<f64>,
    /// Share of looks at such a connection at which the other side took no more bytes (a window of zero); null where it was
    /// not read.
    pub tcp_shut_windows: Option<f64>,
}

/// For each look at a connection; `None` where none was looked at.
fn of_connections(counts: &Counts, sum: u64) -> Option<f64> {
    (counts.tcp_connections > 0).then(|| sum as f64 / counts.tcp_connections as f64)
}

impl WireSummary {
    /// Of counts and the histogram of each metric.
    pub(crate) fn of(counts: &Counts, merged: impl Fn(Metric) -> Histogram) -> WireSummary {
        WireSummary {
            handshakes: counts.handshakes,
            handshakes_resumed: counts.handshakes_resumed,
            handshake_time: TimeSummary::of_independent(&merged(Metric::HandshakeTime)),
            tcp_rtt: TimeSummary::of_independent(&merged(Metric::TcpRtt)),
            tcp_least_rtt: TimeSummary::of_independent(&merged(Metric::TcpLeastRtt)),
            request_rtt: TimeSummary::of_independent(&merged(Metric::RequestRtt)),
            retransmission_delay: TimeSummary::of_independent(&merged(Metric::RetransmissionDelay)),
            network_rtt: TimeSummary::of_independent(&merged(Metric::NetworkRtt)),
            tcp_retransmissions: (counts.tcp_connections > 0).then_some(counts.tcp_retransmissions),
            tcp_in_flight: of_connections(counts, counts.tcp_in_flight),
            tcp_send_queue: of_connections(counts, counts.tcp_send_queue),
            tcp_shut_windows: of_connections(counts, counts.tcp_shut_windows),
        }
    }

    /// In words, one part a subject; empty where there is nothing to tell.
    pub fn in_words(&self, time: impl Fn(Option<f64>) -> String) -> Vec<String> {
        let mut told = Vec::new();
        if self.handshakes > 0 {
            let [all, resumed] =
                [self.handshakes, self.handshakes_resumed].map(|count| grouped(count as f64));
            let mut text = format!("{all} TLS handshakes, {resumed} of them resumed");
            if let Some(p50) = self.handshake_time.p50 {
                text += &format!(", half within {}", time(Some(p50)));
            }
            told.push(text);
        }
        if let Some(again) = self.tcp_retransmissions {
            let (p50, max) = (time(self.tcp_rtt.p50), time(self.tcp_rtt.max));
            let again = grouped(again as f64);
            told.push(format!("TCP round trip p50 {p50}, max {max}; {again} segments sent again"));
        }
        if let Some(shut) = self.tcp_shut_windows.filter(|shut| *shut > 0.0) {
            let (share, bytes) = (shut * 100.0, self.tcp_send_queue.unwrap_or(0.0));
            told.push(format!(
                "the platform did not read: {share:.0} % of looks found a window of zero, {bytes:.0} B waited on a connection"
            ));
        }
        if self.request_rtt.n > 0 {
            let (p50, p99) = (time(self.request_rtt.p50), time(self.request_rtt.p99));
            told.push(format!("request to acknowledgement p50 {p50}, p99 {p99}"));
        }
        if let Some(p50) = self.network_rtt.p50 {
            told.push(format!("network round trip p50 {}", time(Some(p50))));
        }
        told
    }
}

fn observed<S: Serializer>(time: &TimeSummary, serializer: S) -> Result<S::Ok, S::Error> {
    (time.n > 0).then_some(time).serialize(serializer)
}
