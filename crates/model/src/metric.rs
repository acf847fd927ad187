//! The times that a run measures.

use serde::{Deserialize, Serialize};

/// One measured time. `docs/metrics.md` says for each from where to where it runs, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Due to acknowledged (PUBACK at QoS 1, PUBCOMP at QoS 2); does not exist at QoS 0.
    PublishTime,
    /// Sent to acknowledged.
    PublishTimeFromSend,
    /// Due to received, one observation a delivery.
    SubscribeTime,
    /// Sent to received, one observation a delivery.
    SubscribeTimeFromSend,
    /// Acknowledged minus first received, where that is positive or zero.
    AcknowledgedAfterDelivery,
    /// First received minus acknowledged, where that is positive.
    DeliveredAfterAcknowledgement,
    /// Due to ready: how late the generator itself was.
    Lateness,
    /// Kernel receive to read: how late our own reading of a delivery was.
    ReceiverLag,
    /// First SYN to CONNACK of one client.
    ConnectTime,
    /// Now minus due of the newest message of a device that a subscriber has, on a grid of time.
    Freshness,
    /// Connection lost to connection made again, of one client.
    Outage,
    /// TCP connected to TLS secured, of one connection; the handshake of DTLS, of one session.
    HandshakeTime,
    /// The kernel's smoothed round-trip time of one connection, at the end of a sample.
    TcpRtt,
    /// The kernel's least round-trip time of one connection, at the end of a sample.
    TcpLeastRtt,
    /// Due to answered, of a northbound query.
    QueryTime,
    /// Request sent to acknowledged, where the protocol itself acknowledges (CoAP) and the request was sent once.
    RequestRtt,
    /// A request's last sending to its being sent again for want of an acknowledgement (CoAP).
    RetransmissionDelay,
    /// An answer that asks for it, or a lost connection, to the message being sent again.
    RetryDelay,
    /// A probe's round trip to the platform's host: SYN to SYN-ACK, or to a reset where nobody listens.
    NetworkRtt,
    /// Due to sent, of an event that a gateway fetches or is sent and tells of: how long it was at its device.
    WaitTime,
    /// Fetched from the device, or sent by it, to retrieved by the gateway.
    TransferTime,
    /// Retrieved by the gateway to taken by its event handler.
    DispatchTime,
    /// Retrieved by the gateway to its work being done.
    ProcessingTime,
}

impl Metric {
    /// Every metric, in the order of reports.
    pub const ALL: [Metric; 23] = [
        Metric::PublishTime,
        Metric::PublishTimeFromSend,
        Metric::SubscribeTime,
        Metric::SubscribeTimeFromSend,
        Metric::AcknowledgedAfterDelivery,
        Metric::DeliveredAfterAcknowledgement,
        Metric::Lateness,
        Metric::ReceiverLag,
        Metric::ConnectTime,
        Metric::Freshness,
        Metric::Outage,
        Metric::HandshakeTime,
        Metric::TcpRtt,
        Metric::TcpLeastRtt,
        Metric::QueryTime,
        Metric::RequestRtt,
        Metric::RetransmissionDelay,
        Metric::RetryDelay,
        Metric::NetworkRtt,
        Metric::WaitTime,
        Metric::TransferTime,
        Metric::DispatchTime,
        Metric::ProcessingTime,
    ];

    /// The name in the run store, in exports and in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Metric::PublishTime => "publish_time",
            Metric::PublishTimeFromSend => "publish_time_from_send",
            Metric::SubscribeTime => "subscribe_time",
            Metric::SubscribeTimeFromSend => "subscribe_time_from_send",
            Metric::AcknowledgedAfterDelivery => "acknowledged_after_delivery",
            Metric::DeliveredAfterAcknowledgement => "delivered_after_acknowledgement",
            Metric::Lateness => "lateness",
            Metric::ReceiverLag => "receiver_lag",
            Metric::ConnectTime => "connect_time",
            Metric::Freshness => "freshness",
            Metric::Outage => "outage",
            Metric::HandshakeTime => "handshake_time",
            Metric::TcpRtt => "tcp_rtt",
            Metric::TcpLeastRtt => "tcp_least_rtt",
            Metric::QueryTime => "query_time",
            Metric::RequestRtt => "request_rtt",
            Metric::RetransmissionDelay => "retransmission_delay",
            Metric::RetryDelay => "retry_delay",
            Metric::NetworkRtt => "network_rtt",
            Metric::WaitTime => "wait_time",
            Metric::TransferTime => "transfer_time",
            Metric::DispatchTime => "dispatch_time",
            Metric::ProcessingTime => "processing_time",
        }
    }

    /// The metric of that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_match_serde() {
        for (position, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(Metric::ALL.iter().position(|m| m.name() == metric.name()), Some(position));
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
        }
    }
}
