//! NATS.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::Outcome;
use plimsoll_model::wire::WireProtocol::Nats;

#[test]
fn requests_are_those_that_were_sent() {
    let (reading, truth) = (read("nats.pcap"), truth("nats"));
    let counted = reading.protocol(Nats);
    assert_eq!(counted.conversations, count(&truth, "connections"));
    let exchanges = |verb: &str, outcomes: &[Outcome]| {
        reading
            .exchanges
            .iter()
            .filter(|exchange| {
                exchange.observed.verb.as_str() == verb && outcomes.contains(&exchange.observed.outcome)
            })
            .count() as u64
    };
    let answered = [Outcome::Answered, Outcome::Failed];
    assert_eq!(exchanges("PUB", &[Outcome::OneWay]), count(&truth, "pub"));
    assert_eq!(exchanges("HPUB", &[Outcome::OneWay]), count(&truth, "hpub"));
    assert_eq!(counted.one_way, count(&truth, "publishes"));
    // JetStream acknowledges what is published to it as one answers a request.
    assert_eq!(exchanges("PUB", &answered), count(&truth, "responses") + count(&truth, "js_acks"));
    assert_eq!(counted.unanswered, count(&truth, "unanswered"));
    assert_eq!(counted.errors, count(&truth, "no_responders"));
    assert_eq!(counted.statuses[&"503".into()], count(&truth, "no_responders"));
    let asked = exchanges("PUB", &answered) + exchanges("PUB", &[Outcome::Unanswered]);
    assert_eq!(asked, count(&truth, "requests") + count(&truth, "js_publishes"));
    assert_eq!((counted.unexpected, counted.malformed, counted.unknown), (0, 0, 0));
}

#[test]
fn requests_take_as_long_as_their_clients_say() {
    let (mut reading, truth) = (read("nats.pcap"), truth("nats"));
    reading.exchanges.retain(|exchange| exchange.observed.outcome != Outcome::OneWay);
    let answered = count(&truth, "responses") + count(&truth, "js_acks");
    agree(&reading, &truth, false, answered as usize, |_| true);
}
