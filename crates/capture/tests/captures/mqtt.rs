//! MQTT: paho's clients and Mosquitto, over TCP and WebSocket.

use crate::clients::agree;
use crate::{Reading, count, read, truth};
use plimsoll_capture::side::Side;
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;

/// Packets of that type, both ways, as docs/dissectors/mqtt.md says: requests and notices by verb, responses by status.
fn packets(reading: &Reading, kind: &str) -> u64 {
    let counted = reading.protocol(WireProtocol::Mqtt);
    let of_kind = |label: &str| label.split(' ').next() == Some(kind);
    let asked = counted.verbs.iter().filter(|(verb, _)| of_kind(verb.as_str())).map(|(_, verb)| verb.count);
    let answered =
        counted.statuses.iter().filter(|(status, _)| of_kind(status.as_str())).map(|(_, count)| *count);
    asked.sum::<u64>() + answered.sum::<u64>()
}

fn both_ways(truth: &Value, kind: &str) -> u64 {
    let ways = ["control_packets_client_to_broker", "control_packets_broker_to_client"];
    let clients = ways.iter().flat_map(|way| truth[way].as_object().unwrap().values());
    clients.filter_map(|packets| packets[kind].as_u64()).sum()
}

#[test]
fn packets_of_each_type_are_those_of_the_clients() {
    for name in ["mqtt311", "mqtt5", "mqtt311_ws"] {
        let (reading, truth) = (read(&format!("{name}.pcap")), truth(name));
        for (kind, times) in truth["control_packets_total"].as_object().unwrap() {
            assert_eq!(
                both_ways(&truth, kind),
                times.as_u64().unwrap(),
                "the truth of {name} agrees with itself"
            );
            assert_eq!(packets(&reading, kind), *times, "{name} {kind}");
        }
        let counted = reading.protocol(WireProtocol::Mqtt);
        assert_eq!(
            (counted.unanswered, counted.unexpected, counted.unknown, counted.malformed),
            (0, 0, 0, 0),
            "{name}"
        );
    }
}

/// Who asks is who publishes: of deliveries it is the broker.
#[test]
fn deliveries_are_requests_of_the_broker() {
    for (name, calls) in [("mqtt311", 0), ("mqtt5", 16), ("mqtt311_ws", 0)] {
        let (reading, truth) = (read(&format!("{name}.pcap")), truth(name));
        let of = |side, status: &str| {
            let observed = reading.exchanges.iter().map(|exchange| exchange.observed);
            let published =
                observed.filter(|observed| observed.requester == side && observed.verb.as_str() == "PUBLISH");
            published.filter(|observed| observed.status.as_str().split(' ').next() == Some(status)).count()
                as u64
        };
        for (qos, status) in [(0, ""), (1, "PUBACK"), (2, "PUBCOMP")] {
            // Requests over MQTT 5 and their responses are in no other count of the truth.
            let calls = if qos == 1 { calls } else { 0 };
            let (published, delivered) = (format!("publishes_qos{qos}"), format!("deliveries_qos{qos}"));
            assert_eq!(of(Side::Client, status), count(&truth, &published) + calls, "{name} QoS {qos}");
            assert_eq!(of(Side::Server, status), count(&truth, &delivered) + calls, "{name} QoS {qos}");
        }
    }
}

#[test]
fn times_are_those_of_the_clients() {
    for (name, publishes) in [("mqtt311", 42), ("mqtt5", 75), ("mqtt311_ws", 15)] {
        let (reading, truth) = (read(&format!("{name}.pcap")), truth(name));
        agree(&reading, &truth, true, publishes, |said| {
            said["verb"] == "PUBLISH" && said["kind"] == "single" && said["qos"] != 0
        });
    }
}

/// Among other protocols, on one interface.
#[test]
fn a_chain_has_its_messages_at_both_ends() {
    let (reading, truth) = (read("chain.pcap"), truth("chain"));
    let published = |side| {
        let observed = reading.exchanges.iter().map(|exchange| exchange.observed);
        observed.filter(|observed| observed.requester == side && observed.verb.as_str() == "PUBLISH").count()
            as u64
    };
    assert_eq!(published(Side::Client), count(&truth, "messages"));
    assert_eq!(published(Side::Server), count(&truth, "reached_bridge"));
    assert_eq!(reading.verb(WireProtocol::Http, "POST"), count(&truth, "notified"));
}
