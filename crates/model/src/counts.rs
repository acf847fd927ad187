//! The ledger: what became of every message.

use crate::formats::ByFormat;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Counts of one sample or of one level, by the due time of the message unless a field says otherwise.
/// Counts add up exactly over samples, load threads and parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Messages that the plan asked for.
    pub due: u64,
    /// Of the due ones, those that the generator never took up before the hold ended: its own failure.
    pub never_ready: u64,
    /// Messages handed to the kernel, at least their first byte.
    pub sent: u64,
    /// Messages not sent when the level's drain ended, the never-ready ones included. `due = sent + unsent`.
    pub unsent: u64,
    /// Of the messages sent, those that nothing proves to have arrived: they are neither acknowledged nor delivered to
    /// anybody, and no later answer came on their connection.
    pub unproved: u64,
    /// Messages whose acknowledgement came before the level closed (none at QoS 0).
    pub acknowledged: u64,
    /// Messages that the platform refused with a reason code.
    pub refused: u64,
    /// By time: messages sent again: after an answer that asks for it, and where devices retry after a lost connection or a timeout.
    pub repeated: u64,
    /// By time: acknowledgements of messages that were at their end already: they answer an attempt that nobody awaits any more.
    pub acknowledged_again: u64,
    /// By time: requests sent again because no acknowledgement came, where the protocol does that itself (CoAP).
    pub retransmitted: u64,
    /// Operations that came to their end within the time of this sample, whenever they were due: acknowledged,
    /// or at QoS 0 sent. Divided by the hold this is the achieved load.
    pub completed: u64,
    /// One per sent message and matching subscriber.
    pub expected_deliveries: u64,
    /// Expected deliveries that came before the level's drain ended.
    pub delivered: u64,
    /// Expected deliveries that came after the level's drain ended.
    pub late: u64,
    /// Expected deliveries that the delivery contract allows to be replaced by a newer one.
    pub superseded: u64,
    /// Expected deliveries of acknowledged messages that were missing when the level's drain ended: the platform had taken
    /// responsibility. None where messages are not acknowledged.
    pub missing_acknowledged: u64,
    /// The same of messages that were not acknowledged although others are.
    pub missing_unacknowledged: u64,
    /// Of the late ones, those of acknowledged messages.
    pub late_acknowledged: u64,
    /// Deliveries of a message to a subscriber that already had it.
    pub duplicated: u64,
    /// First deliveries with a sequence below the highest already seen from that device by that subscriber.
    pub reordered: u64,
    /// By time of arrival: deliveries without this run's marker, and answers that answer nothing.
    pub foreign: u64,
    /// By time of arrival: acknowledgements that nothing in flight awaited: of an unknown packet id, second
    /// ones (MQTT).
    pub unknown_acks: u64,
    /// By time of arrival: deliveries of this run flagged as retained; they are no part of the ledger.
    pub retained: u64,
    /// By time of arrival: deliveries of wills; they are no part of the ledger.
    pub wills: u64,
    /// By time: connections lost.
    pub disconnected: u64,
    /// By time: attempts to connect again.
    pub reconnects: u64,
    /// By time: devices that a level began to connect.
    pub connects: u64,
    /// By time: attempts to connect that failed, those to connect again included.
    pub connect_failed: u64,
    /// By time: handshakes of TLS that came to their end.
    pub handshakes: u64,
    /// By time: of those, the ones that resumed an earlier session.
    pub handshakes_resumed: u64,
    /// At sample ends: TCP connections that the kernel was asked about, summed.
    pub tcp_connections: u64,
    /// At sample ends: segments in flight on those connections, summed.
    pub tcp_in_flight: u64,
    /// At sample ends: bytes handed to the kernel on those connections that the other side had not acknowledged, summed.
    pub tcp_send_queue: u64,
    /// At sample ends: those connections whose other side took no more bytes (a window of zero that was probed), summed.
    pub tcp_shut_windows: u64,
    /// Segments that those connections sent again since they were looked at last.
    pub tcp_retransmissions: u64,
    /// By time: notifications of values that are no messages, and of messages to any observer after the first (LwM2M).
    pub value_notifications: u64,
    /// By time: what devices notified of or sent of themselves, by format (LwM2M).
    #[serde(skip_serializing_if = "ByFormat::is_empty")]
    pub formats: ByFormat,
    /// By time: registrations that were renewed or changed, as requests (LwM2M).
    pub renewals: u64,
    /// By time: requests of the server that devices served, repetitions apart (LwM2M).
    pub served: u64,
    /// By time: datagrams that came to devices in queue mode that did not listen any more (LwM2M).
    pub unheard: u64,
    /// By time: datagrams of the platform that found no room at our sockets, where the kernel tells (LwM2M).
    pub overflowed: u64,
    /// By time: devices that have new firmware.
    pub downloads: u64,
    /// By time: bytes of that firmware.
    pub download_bytes: u64,
    /// By time: devices that could not download firmware.
    pub downloads_failed: u64,
    /// Northbound queries that were due.
    pub queries: u64,
    /// Of them, those that were answered as the profile expects.
    pub queries_answered: u64,
    /// Of them, those that were refused, or whose connection was lost.
    pub queries_failed: u64,
    /// Content bytes of the sent messages (the marshalled size, summed).
    pub content_bytes: u64,
    /// Bytes of the sent messages as protocol packets (the publication size, summed).
    pub publication_bytes: u64,
    /// By time: bytes handed to the kernel on all connections, protocol overhead included.
    pub bytes_sent: u64,
    /// By time: bytes read from the kernel on all connections.
    pub bytes_received: u64,
    /// By time: answers that brought a message to its end, good or bad.
    pub answers: u64,
    /// By time: packets of which those answers were.
    pub answer_packets: u64,
    /// By time: packets of which notifications were.
    pub notification_packets: u64,
    /// By time: datagrams of requests, those that were sent again counted once; none where a request is one packet.
    pub request_packets: u64,
    /// By time: bytes of what answered messages, without its content: heads, options, packets without a payload.
    pub answer_header_bytes: u64,
    /// By time: content bytes of those answers.
    pub answer_content_bytes: u64,
    /// By time: notifications that subscribers received, whatever they held.
    pub notifications: u64,
    /// By time: bytes of those notifications without their content.
    pub notification_header_bytes: u64,
    /// By time: content bytes of those notifications.
    pub notification_content_bytes: u64,
    /// By time: datagrams handed to the kernel and read from it.
    pub datagrams: u64,
    /// By time: bytes of those datagrams, in `bytes_sent` and `bytes_received` too.
    pub datagram_bytes: u64,
    /// By time: bytes of their headers, IP and UDP.
    pub datagram_header_bytes: u64,
    /// By time: records of TLS handed down, those of the handshake apart.
    pub records_sent: u64,
    /// By time: bytes of those records, their headers and tags included.
    pub record_bytes_sent: u64,
    /// By time: what went into those records.
    pub secured_bytes_sent: u64,
    /// By time: records of TLS received, those of the handshake apart.
    pub records_received: u64,
    /// By time: bytes of those records.
    pub record_bytes_received: u64,
    /// By time: what came out of those records.
    pub secured_bytes_received: u64,
    /// Segments of the TCP connections looked at, both ways, those without data included, since they were looked at last.
    pub tcp_segments: u64,
    /// Bytes of the headers of those segments, IP and TCP.
    pub tcp_header_bytes: u64,
    /// Bytes that those connections carried meanwhile, both ways, repetitions of ours included.
    pub tcp_bytes: u64,
    /// At sample ends: connections looked at, those that the platform made to us included, summed.
    pub tcp_looks: u64,
    /// At sample ends: the largest segment that each of those may send, summed.
    pub tcp_largest_segments: u64,
    /// Content bytes of the deliveries counted under `delivered`.
    pub delivered_bytes: u64,
}

impl Counts {
    /// Expected deliveries that are neither delivered, late nor superseded. Final once the level is closed.
    pub fn lost(&self) -> u64 {
        self.expected_deliveries.saturating_sub(self.delivered + self.late + self.superseded)
    }

    /// Of the lost ones, those of messages that the platform had acknowledged. `None` where that is not known: messages are not
    /// acknowledged, the level is not closed, or an earlier version stored the counts.
    pub fn lost_acknowledged(&self) -> Option<u64> {
        let missing = self.missing_acknowledged + self.missing_unacknowledged;
        let is_known = missing == self.lost() + self.late;
        is_known.then(|| self.missing_acknowledged.saturating_sub(self.late_acknowledged))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.due = self.due.saturating_add(other.due);
        self.never_ready = self.never_ready.saturating_add(other.never_ready);
        self.sent = self.sent.saturating_add(other.sent);
        self.unsent = self.unsent.saturating_add(other.unsent);
        self.unproved = self.unproved.saturating_add(other.unproved);
        self.acknowledged = self.acknowledged.saturating_add(other.acknowledged);
        self.refused = self.refused.saturating_add(other.refused);
        self.repeated = self.repeated.saturating_add(other.repeated);
        self.acknowledged_again = self.acknowledged_again.saturating_add(other.acknowledged_again);
        self.retransmitted = self.retransmitted.saturating_add(other.retransmitted);
        self.completed = self.completed.saturating_add(other.completed);
        self.expected_deliveries = self.expected_deliveries.saturating_add(other.expected_deliveries);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.late = self.late.saturating_add(other.late);
        self.superseded = self.superseded.saturating_add(other.superseded);
        self.missing_acknowledged = self.missing_acknowledged.saturating_add(other.missing_acknowledged);
        self.missing_unacknowledged =
            self.missing_unacknowledged.saturating_add(other.missing_unacknowledged);
        self.late_acknowledged = self.late_acknowledged.saturating_add(other.late_acknowledged);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.foreign = self.foreign.saturating_add(other.foreign);
        self.unknown_acks = self.unknown_acks.saturating_add(other.unknown_acks);
        self.retained = self.retained.saturating_add(other.retained);
        self.wills = self.wills.saturating_add(other.wills);
        self.disconnected = self.disconnected.saturating_add(other.disconnected);
        self.reconnects = self.reconnects.saturating_add(other.reconnects);
        self.connects = self.connects.saturating_add(other.connects);
        self.connect_failed = self.connect_failed.saturating_add(other.connect_failed);
        self.handshakes = self.handshakes.saturating_add(other.handshakes);
        self.handshakes_resumed = self.handshakes_resumed.saturating_add(other.handshakes_resumed);
        self.tcp_connections = self.tcp_connections.saturating_add(other.tcp_connections);
        self.tcp_in_flight = self.tcp_in_flight.saturating_add(other.tcp_in_flight);
        self.tcp_send_queue = self.tcp_send_queue.saturating_add(other.tcp_send_queue);
        self.tcp_shut_windows = self.tcp_shut_windows.saturating_add(other.tcp_shut_windows);
        self.tcp_retransmissions = self.tcp_retransmissions.saturating_add(other.tcp_retransmissions);
        self.renewals = self.renewals.saturating_add(other.renewals);
        self.served = self.served.saturating_add(other.served);
        self.unheard = self.unheard.saturating_add(other.unheard);
        self.value_notifications = self.value_notifications.saturating_add(other.value_notifications);
        self.overflowed = self.overflowed.saturating_add(other.overflowed);
        self.formats += other.formats;
        self.downloads = self.downloads.saturating_add(other.downloads);
        self.download_bytes = self.download_bytes.saturating_add(other.download_bytes);
        self.downloads_failed = self.downloads_failed.saturating_add(other.downloads_failed);
        self.queries = self.queries.saturating_add(other.queries);
        self.queries_answered = self.queries_answered.saturating_add(other.queries_answered);
        self.queries_failed = self.queries_failed.saturating_add(other.queries_failed);
        self.content_bytes = self.content_bytes.saturating_add(other.content_bytes);
        self.publication_bytes = self.publication_bytes.saturating_add(other.publication_bytes);
        self.bytes_sent = self.bytes_sent.saturating_add(other.bytes_sent);
        self.bytes_received = self.bytes_received.saturating_add(other.bytes_received);
        self.answers = self.answers.saturating_add(other.answers);
        self.answer_packets = self.answer_packets.saturating_add(other.answer_packets);
        self.notification_packets = self.notification_packets.saturating_add(other.notification_packets);
        self.request_packets = self.request_packets.saturating_add(other.request_packets);
        self.answer_header_bytes = self.answer_header_bytes.saturating_add(other.answer_header_bytes);
        self.answer_content_bytes = self.answer_content_bytes.saturating_add(other.answer_content_bytes);
        self.notifications = self.notifications.saturating_add(other.notifications);
        self.notification_header_bytes =
            self.notification_header_bytes.saturating_add(other.notification_header_bytes);
        self.notification_content_bytes =
            self.notification_content_bytes.saturating_add(other.notification_content_bytes);
        self.datagrams = self.datagrams.saturating_add(other.datagrams);
        self.datagram_bytes = self.datagram_bytes.saturating_add(other.datagram_bytes);
        self.datagram_header_bytes = self.datagram_header_bytes.saturating_add(other.datagram_header_bytes);
        self.records_sent = self.records_sent.saturating_add(other.records_sent);
        self.record_bytes_sent = self.record_bytes_sent.saturating_add(other.record_bytes_sent);
        self.secured_bytes_sent = self.secured_bytes_sent.saturating_add(other.secured_bytes_sent);
        self.records_received = self.records_received.saturating_add(other.records_received);
        self.record_bytes_received = self.record_bytes_received.saturating_add(other.record_bytes_received);
        self.secured_bytes_received =
            self.secured_bytes_received.saturating_add(other.secured_bytes_received);
        self.tcp_segments = self.tcp_segments.saturating_add(other.tcp_segments);
        self.tcp_header_bytes = self.tcp_header_bytes.saturating_add(other.tcp_header_bytes);
        self.tcp_bytes = self.tcp_bytes.saturating_add(other.tcp_bytes);
        self.tcp_looks = self.tcp_looks.saturating_add(other.tcp_looks);
        self.tcp_largest_segments = self.tcp_largest_segments.saturating_add(other.tcp_largest_segments);
        self.delivered_bytes = self.delivered_bytes.saturating_add(other.delivered_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_delivered_late_nor_superseded_is_lost() {
        let mut counts = Counts { expected_deliveries: 10, delivered: 6, ..Counts::default() };
        counts += Counts { late: 1, superseded: 2, ..Counts::default() };
        assert_eq!(counts.lost(), 1);
    }

    #[test]
    fn losses_are_split_where_every_missing_delivery_was_booked() {
        let counts = Counts { expected_deliveries: 10, delivered: 4, late: 2, ..Counts::default() };
        let booked = Counts { missing_acknowledged: 5, missing_unacknowledged: 1, ..counts };
        assert_eq!(Counts { late_acknowledged: 2, ..booked }.lost_acknowledged(), Some(3));
        assert_eq!(counts.lost_acknowledged(), None, "QoS 0, or written by an earlier version");
        assert_eq!(Counts::default().lost_acknowledged(), Some(0));
    }
}
