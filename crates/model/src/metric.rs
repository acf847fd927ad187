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
    /// The part of a lateness in which the load thread was at work; of operations that were hardly late there is none.
    AtWorkWhenLate,
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
    /// The server's order to the last block of an image that a device downloads.
    DownloadTime,
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

/// How many metrics there are.
pub const METRIC_COUNT: usize = 25;

/// What is known of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricRow {
    /// Which.
    pub metric: Metric,
    /// The name in the run store and in exports.
    pub name: &'static str,
    /// The key in the summary of a level.
    pub key: &'static str,
    /// What objectives call it; `None` where none can be about it.
    pub objective: Option<ObjectiveRow>,
    /// Without what it does not exist.
    pub needs: Needs,
    /// How many observations there would be if everything came to its end.
    pub owed: Owed,
    /// What its intervals rest on.
    pub observations: Observations,
    /// What it is, for readers of the summary.
    pub about: &'static str,
}

/// What the intervals of a metric rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observations {
    /// Observations of a sample depend on each other: samples are put together until they are independent.
    InSamples,
    /// Each observation by itself: they are few, and of clients of which none waits for another.
    Independent,
}

/// What objectives call a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectiveRow {
    /// What their keys begin with: `publish` in `publish_p99`.
    pub key: &'static str,
    /// The metric in words.
    pub words: &'static str,
}

/// Without what a metric does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// It needs nothing that a scenario may lack, or no objective is about it.
    Nothing,
    /// Messages that are acknowledged: QoS 1 and 2, or an answer.
    Acknowledgement,
    /// Subscribers.
    Subscribers,
    /// Subscribers, and a record of the age of what they have.
    Freshness,
    /// Levels that connect devices.
    Connecting,
    /// Northbound queries.
    Queries,
}

/// How many observations a sample owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Nobody knows.
    Nothing,
    /// One for each message that was due.
    Due,
    /// One for each message that was sent.
    Sent,
    /// One for each delivery that is expected of what was due.
    DeliveriesOfDue,
    /// One for each delivery that is expected of what was sent.
    DeliveriesOfSent,
    /// One for each query.
    Queries,
}

/// Every metric, in the order of reports; docs/metrics.md has the same table for people.
pub const METRICS: &[MetricRow; METRIC_COUNT] = &[
    MetricRow {
        metric: Metric::PublishTime,
        name: "publish_time",
        key: "publish_time",
        objective: Some(ObjectiveRow { key: "publish", words: "publish time from due" }),
        needs: Needs::Acknowledgement,
        owed: Owed::Due,
        observations: Observations::InSamples,
        about: "Due to acknowledged; null where nothing was, as at QoS 0.",
    },
    MetricRow {
        metric: Metric::PublishTimeFromSend,
        name: "publish_time_from_send",
        key: "publish_time_from_send",
        objective: Some(ObjectiveRow { key: "publish_from_send", words: "publish time from sent" }),
        needs: Needs::Acknowledgement,
        owed: Owed::Sent,
        observations: Observations::InSamples,
        about: "Sent to acknowledged; null where nothing is acknowledged.",
    },
    MetricRow {
        metric: Metric::SubscribeTime,
        name: "subscribe_time",
        key: "subscribe_time",
        objective: Some(ObjectiveRow { key: "subscribe", words: "subscribe time from due" }),
        needs: Needs::Subscribers,
        owed: Owed::DeliveriesOfDue,
        observations: Observations::InSamples,
        about: "Due to received; null where nothing was, as without subscribers.",
    },
    MetricRow {
        metric: Metric::SubscribeTimeFromSend,
        name: "subscribe_time_from_send",
        key: "subscribe_time_from_send",
        objective: Some(ObjectiveRow { key: "subscribe_from_send", words: "subscribe time from sent" }),
        needs: Needs::Subscribers,
        owed: Owed::DeliveriesOfSent,
        observations: Observations::InSamples,
        about: "Sent to received; null without subscribers.",
    },
    MetricRow {
        metric: Metric::AcknowledgedAfterDelivery,
        name: "acknowledged_after_delivery",
        key: "publish_minus_subscribe",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Publish time minus subscribe time of the first delivery of a message, where that is positive or zero.",
    },
    MetricRow {
        metric: Metric::DeliveredAfterAcknowledgement,
        name: "delivered_after_acknowledgement",
        key: "publish_minus_subscribe",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Subscribe time minus publish time of the first delivery of a message, where that is positive.",
    },
    MetricRow {
        metric: Metric::Lateness,
        name: "lateness",
        key: "generator.lateness",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Ready minus due; null where nothing was due.",
    },
    MetricRow {
        metric: Metric::AtWorkWhenLate,
        name: "at_work_when_late",
        key: "generator.at_work_when_late",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "For how long the load thread was at work while an operation was late, of operations that were late by more than 0.5 ms; null where none was.",
    },
    MetricRow {
        metric: Metric::ReceiverLag,
        name: "receiver_lag",
        key: "generator.receiver_lag",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Read minus received by the kernel; null where nothing was received.",
    },
    MetricRow {
        metric: Metric::ConnectTime,
        name: "connect_time",
        key: "connect_time",
        objective: Some(ObjectiveRow {
            key: "connect",
            words: "connect time, from the first SYN to CONNACK",
        }),
        needs: Needs::Connecting,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "First SYN to CONNACK of clients that connected in the hold; where the level connects devices, also of those that connected before it. Its intervals are then those of independent observations. Null where none connected.",
    },
    MetricRow {
        metric: Metric::Freshness,
        name: "freshness",
        key: "freshness",
        objective: Some(ObjectiveRow {
            key: "freshness",
            words: "age of a device's newest message that a subscriber has, as time goes by",
        }),
        needs: Needs::Freshness,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Age of the newest message of a device that a subscriber has; null where it was not recorded.",
    },
    MetricRow {
        metric: Metric::Outage,
        name: "outage",
        key: "outage",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "Connection lost to connection made again, of clients that came back within the level; its intervals are those of independent observations. Null where none was lost and made again.",
    },
    MetricRow {
        metric: Metric::HandshakeTime,
        name: "handshake_time",
        key: "wire.handshake_time",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "TCP connected to TLS secured, or all of the handshake of DTLS; null without both.",
    },
    MetricRow {
        metric: Metric::DownloadTime,
        name: "download_time",
        key: "management.download_time",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "The server's order to download firmware to the last block of it, of one device (LwM2M); null where none was downloaded.",
    },
    MetricRow {
        metric: Metric::TcpRtt,
        name: "tcp_rtt",
        key: "wire.tcp_rtt",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "The smoothed round-trip time that the kernel knows of a connection; null where it was not read.",
    },
    MetricRow {
        metric: Metric::TcpLeastRtt,
        name: "tcp_least_rtt",
        key: "wire.tcp_least_rtt",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "The least round-trip time that the kernel knows of a connection; null where it was not read.",
    },
    MetricRow {
        metric: Metric::QueryTime,
        name: "query_time",
        key: "query_time",
        objective: Some(ObjectiveRow { key: "query", words: "query time of northbound queries from due" }),
        needs: Needs::Queries,
        owed: Owed::Queries,
        observations: Observations::InSamples,
        about: "Due to answered, of northbound queries; null where nobody asked.",
    },
    MetricRow {
        metric: Metric::RequestRtt,
        name: "request_rtt",
        key: "wire.request_rtt",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "Request sent to acknowledged, where the protocol itself acknowledges (CoAP); null where there was none.",
    },
    MetricRow {
        metric: Metric::RetransmissionDelay,
        name: "retransmission_delay",
        key: "wire.retransmission_delay",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "A request's last sending to its being sent again; null where none was.",
    },
    MetricRow {
        metric: Metric::RetryDelay,
        name: "retry_delay",
        key: "retry_delay",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "From that answer or loss until the message was sent again. Its intervals are those of independent observations; null where none was.",
    },
    MetricRow {
        metric: Metric::NetworkRtt,
        name: "network_rtt",
        key: "wire.network_rtt",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::Independent,
        about: "Round trip of a probe to the platform's host; null where it was not recorded.",
    },
    MetricRow {
        metric: Metric::WaitTime,
        name: "wait_time",
        key: "event_life.wait",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Due to sent, of an event at its device; null without a gateway that reports it.",
    },
    MetricRow {
        metric: Metric::TransferTime,
        name: "transfer_time",
        key: "event_life.transfer",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Fetched from the device, or sent by it, to retrieved by the gateway; null without a gateway that reports it.",
    },
    MetricRow {
        metric: Metric::DispatchTime,
        name: "dispatch_time",
        key: "event_life.dispatch",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Retrieved by the gateway to taken by its event handler; null without a gateway that reports it.",
    },
    MetricRow {
        metric: Metric::ProcessingTime,
        name: "processing_time",
        key: "event_life.processing",
        objective: None,
        needs: Needs::Nothing,
        owed: Owed::Nothing,
        observations: Observations::InSamples,
        about: "Retrieved by the gateway to its work being done; null without a gateway that reports it.",
    },
];

impl Metric {
    /// Every metric, in the order of reports.
    pub const ALL: [Metric; METRIC_COUNT] = {
        let mut all = [Metric::PublishTime; METRIC_COUNT];
        let mut place = 0;
        while place < METRIC_COUNT {
            all[place] = METRICS[place].metric;
            place += 1;
        }
        all
    };

    /// Its row of [`METRICS`].
    pub fn row(self) -> &'static MetricRow {
        // The rows are in the order of the enum, which a test checks.
        METRICS.get(self as usize).unwrap_or(&METRICS[0])
    }

    /// The name in the run store and in exports.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The metric of that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        METRICS.iter().find(|row| row.name == name).map(|row| row.metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_metrics() {
        for (position, row) in METRICS.iter().enumerate() {
            assert_eq!(row.metric as usize, position, "{}", row.name);
            assert_eq!(format!("{:?}", row.metric).to_lowercase(), row.name.replace('_', ""));
        }
    }

    #[test]
    fn names_are_distinct() {
        for (position, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(Metric::ALL.iter().position(|m| m.name() == metric.name()), Some(position));
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
        }
    }
}
