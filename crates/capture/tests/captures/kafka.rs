//! Kafka.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_capture::side::Side;
use plimsoll_model::wire::Outcome;
use plimsoll_model::wire::WireProtocol::Kafka;
use std::collections::BTreeMap;

#[test]
fn requests_of_a_client_that_wrote_them_down_are_found() {
    let (mut reading, truth) = (read("kafka.pcap"), truth("kafka"));
    let counted = reading.protocol(Kafka);
    assert_eq!((counted.unexpected, counted.notices, counted.malformed, counted.unknown), (0, 0, 0, 0));
    assert_eq!(counted.unanswered, count(&truth, "raw_unanswered"));
    let port = truth["exchanges"][0]["client_port"].as_u64();
    reading.exchanges.retain(|exchange| port == Some(u64::from(exchange.client.port)));
    let raw = |outcome| {
        reading.exchanges.iter().filter(|exchange| exchange.observed.outcome == outcome).count() as u64
    };
    assert_eq!(raw(Outcome::Answered) + raw(Outcome::Failed), count(&truth, "raw_responses"));
    assert_eq!(reading.exchanges.len() as u64, count(&truth, "raw_requests"));
    agree(&reading, &truth, true, count(&truth, "raw_responses") as usize, |_| true);
}

#[test]
fn produce_requests_are_answered_unless_nobody_waits() {
    let (reading, truth) = (read("kafka.pcap"), truth("kafka"));
    let sent = |acknowledged: bool| {
        truth["producers"]
            .as_object()
            .unwrap()
            .values()
            .filter(|producer| (producer["acks"] != 0) == acknowledged)
            .map(|producer| producer["requests_by_api_at_last_stats"]["Produce"].as_u64().unwrap())
            .sum::<u64>()
    };
    let produced = |outcome| {
        let produces = |verb: &str| verb.starts_with("Produce ");
        let observed = reading.exchanges.iter().map(|exchange| exchange.observed);
        observed.filter(|observed| produces(observed.verb.as_str()) && observed.outcome == outcome).count()
            as u64
    };
    assert_eq!((produced(Outcome::Answered), produced(Outcome::OneWay)), (sent(true), sent(false)));
}

/// Whatever packs them: every message is seen on its way in, and once more on its way out.
#[test]
fn messages_are_found_in_batches_of_all_codecs() {
    let (reading, truth) = (read("kafka.pcap"), truth("kafka"));
    for (side, count) in [
        (Side::Client, count(&truth, "messages_produced")),
        (Side::Server, count(&truth, "messages_consumed")),
    ] {
        let mut seen: BTreeMap<_, u64> = BTreeMap::new();
        for sighting in reading.sightings.iter().filter(|sighting| sighting.observed.from == side) {
            *seen.entry(sighting.observed.message).or_default() += 1;
        }
        assert_eq!(seen.len() as u64, count, "{side:?}");
        assert!(seen.values().all(|&times| times == 1), "{side:?}");
    }
}
