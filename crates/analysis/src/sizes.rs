//! What messages weigh, part by part, and what the network carried for them (work B).

use plimsoll_model::Counts;
use plimsoll_model::record::Listener;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Largest content of one record of TLS (RFC 8446 section 5.1).
const LARGEST_RECORD: f64 = 16_384.0;

/// Sizes of one level, in bytes; means over what was counted in hold and drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SizesSummary {
    /// What says a message.
    pub request: Option<PartsSummary>,
    /// What answers it, acknowledgements of the protocol included.
    pub response: Option<PartsSummary>,
    /// What a subscriber receives.
    pub notification: Option<PartsSummary>,
    /// All packets of all connections, both ways, with the headers of IP and transport: work B's total data used. Over
    /// TCP the headers are those of the connections that the kernel was asked about, scaled to the bytes of all. Null
    /// where the kernel knew none.
    pub total_data: Option<f64>,
    /// The same for each message that was sent.
    pub data_per_message: Option<f64>,
    /// Mean record of TLS handed down, its header and tag included; null without TLS.
    pub record_sent: Option<f64>,
    /// Mean record of TLS received.
    pub record_received: Option<f64>,
    /// What TLS adds to a record's content.
    pub record_overhead: Option<f64>,
}

/// A packet by its parts, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartsSummary {
    /// Headers of IP and transport of its packets, where they travel alone; null where the kernel reported no connection.
    pub transport_header: Option<f64>,
    /// What TLS adds; null without TLS.
    pub security: Option<f64>,
    /// What the protocol adds: head, options, topic.
    pub application_header: f64,
    /// The content: over HTTP what Content-Length counts.
    pub content: f64,
}

impl PartsSummary {
    /// All of it, as far as it is known.
    pub fn whole(&self) -> f64 {
        let below = self.transport_header.unwrap_or(0.0) + self.security.unwrap_or(0.0);
        below + self.application_header + self.content
    }
}

impl SizesSummary {
    /// Of a level's counts.
    pub(crate) fn of(counts: &Counts, listener: Option<Listener>) -> SizesSummary {
        let below = Below::of(counts);
        let parts_over = |below: &Below, (count, packets): (u64, u64), header: u64, content: u64| {
            let mean = |bytes: u64| bytes as f64 / count as f64;
            (count > 0).then(|| below.parts(mean(packets.max(count)), mean(header), mean(content)))
        };
        let parts = |counts, header, content| parts_over(&below, counts, header, content);
        let header = counts.publication_bytes.saturating_sub(counts.content_bytes);
        let records = counts.records_sent + counts.records_received;
        let record_bytes = counts.record_bytes_sent + counts.record_bytes_received;
        let total_data = total(counts);
        SizesSummary {
            request: parts((counts.sent, counts.request_packets), header, counts.content_bytes),
            response: parts(
                (counts.answers, counts.answer_packets),
                counts.answer_header_bytes,
                counts.answer_content_bytes,
            ),
            notification: parts_over(
                &Below::of_notifications(counts, listener),
                (counts.notifications, counts.notification_packets),
                counts.notification_header_bytes,
                counts.notification_content_bytes,
            ),
            total_data,
            data_per_message: total_data.and_then(|total| ratio(total, counts.sent)),
            record_sent: ratio(counts.record_bytes_sent as f64, counts.records_sent),
            record_received: ratio(counts.record_bytes_received as f64, counts.records_received),
            record_overhead: below.record_overhead.filter(|_| records > 0 && record_bytes > 0),
        }
    }
}

/// What lies below the protocol.
struct Below {
    /// Headers of one packet, and how many bytes above them it can carry, where that is a matter of the transport.
    packet: Option<(f64, f64)>,
    record_overhead: Option<f64>,
}

impl Below {
    fn of(counts: &Counts) -> Below {
        let packet = if counts.tcp_connections > 0 { over_tcp(counts) } else { over_udp(counts) };
        let records = counts.records_sent + counts.records_received;
        let bytes = counts.record_bytes_sent + counts.record_bytes_received;
        let secured = counts.secured_bytes_sent + counts.secured_bytes_received;
        Below { packet, record_overhead: ratio(bytes.saturating_sub(secured) as f64, records) }
    }

    /// Notifications over connections of the platform's own are not secured by us.
    fn of_notifications(counts: &Counts, listener: Option<Listener>) -> Below {
        let packet = match listener {
            None => return Below::of(counts),
            Some(Listener::Tcp) => over_tcp(counts),
            Some(Listener::Udp) => over_udp(counts),
        };
        Below { packet, record_overhead: None }
    }

    /// Of something that goes in so many packets of the protocol.
    fn parts(&self, packets: f64, application_header: f64, content: f64) -> PartsSummary {
        // Each packet of the protocol is one of the transport, or more where it has no room there.
        let pieces = |whole: f64, room: f64| packets * (whole / packets / room.max(1.0)).ceil().max(1.0);
        let clear = application_header + content;
        let security = self.record_overhead.map(|overhead| overhead * pieces(clear, LARGEST_RECORD));
        let above = clear + security.unwrap_or(0.0);
        let transport_header = self.packet.map(|(header, room)| header * pieces(above, room));
        PartsSummary { transport_header, security, application_header, content }
    }
}

fn over_tcp(counts: &Counts) -> Option<(f64, f64)> {
    let largest = ratio(counts.tcp_largest_segments as f64, counts.tcp_looks);
    ratio(counts.tcp_header_bytes as f64, counts.tcp_segments).zip(largest)
}

fn over_udp(counts: &Counts) -> Option<(f64, f64)> {
    ratio(counts.datagram_header_bytes as f64, counts.datagrams).map(|header| (header, f64::MAX))
}

/// Bytes of all packets, `None` where nothing is known of the headers of TCP.
fn total(counts: &Counts) -> Option<f64> {
    let carried = counts.bytes_sent + counts.bytes_received;
    let over_tcp = carried.saturating_sub(counts.datagram_bytes);
    let headers = match over_tcp {
        0 => 0.0,
        bytes => counts.tcp_header_bytes as f64 * ratio(bytes as f64, counts.tcp_bytes)?,
    };
    (carried > 0).then_some(carried as f64 + counts.datagram_header_bytes as f64 + headers)
}

fn ratio(part: f64, of: u64) -> Option<f64> {
    (of > 0).then(|| part / of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(transport: f64, header: f64, content: f64) -> Option<PartsSummary> {
        let transport_header = Some(transport);
        Some(PartsSummary { transport_header, security: None, application_header: header, content })
    }

    #[test]
    fn over_tcp_headers_are_scaled_from_the_connections_looked_at() {
        let counts = Counts {
            sent: 10,
            content_bytes: 1000,
            publication_bytes: 3000,
            answers: 10,
            answer_header_bytes: 500,
            notifications: 20,
            notification_header_bytes: 200,
            notification_content_bytes: 2000,
            bytes_sent: 3000,
            bytes_received: 2700,
            tcp_connections: 4,
            tcp_looks: 4,
            tcp_largest_segments: 4 * 250,
            tcp_segments: 30,
            tcp_header_bytes: 30 * 52,
            tcp_bytes: 2850,
            ..Counts::default()
        };
        let sizes = SizesSummary::of(&counts, None);
        assert_eq!(sizes.request, parts(104.0, 200.0, 100.0), "300 bytes want two segments of 250");
        assert_eq!(sizes.response, parts(52.0, 50.0, 0.0));
        assert_eq!(sizes.notification, parts(52.0, 10.0, 100.0));
        let total = 5700.0 + 2.0 * 30.0 * 52.0;
        assert_eq!((sizes.total_data, sizes.data_per_message), (Some(total), Some(total / 10.0)));
        assert_eq!(sizes.record_sent, None);
    }

    #[test]
    fn over_udp_every_datagram_was_counted() {
        let counts = Counts {
            sent: 2,
            content_bytes: 100,
            publication_bytes: 140,
            bytes_sent: 140,
            bytes_received: 24,
            datagrams: 4,
            datagram_bytes: 164,
            datagram_header_bytes: 4 * 28,
            ..Counts::default()
        };
        let sizes = SizesSummary::of(&counts, None);
        assert_eq!(sizes.request, parts(28.0, 20.0, 50.0));
        assert_eq!((sizes.response, sizes.total_data), (None, Some(164.0 + 112.0)));
        // In blocks each is a datagram of its own.
        let in_blocks = SizesSummary::of(&Counts { request_packets: 6, ..counts }, None);
        assert_eq!(in_blocks.request, parts(84.0, 20.0, 50.0));
    }

    #[test]
    fn records_of_tls_are_a_part_of_their_own() {
        let counts = Counts {
            sent: 1,
            content_bytes: 20_000,
            publication_bytes: 20_100,
            records_sent: 2,
            record_bytes_sent: 20_144,
            secured_bytes_sent: 20_100,
            bytes_sent: 20_144,
            ..Counts::default()
        };
        let sizes = SizesSummary::of(&counts, None);
        assert_eq!((sizes.record_sent, sizes.record_overhead), (Some(10_072.0), Some(22.0)));
        assert_eq!(sizes.request.and_then(|request| request.security), Some(44.0));
        assert_eq!(sizes.total_data, None, "the kernel told of no connection");
    }
}
