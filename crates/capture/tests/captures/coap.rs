//! CoAP: aiocoap over UDP and TCP, and a raw client.

use crate::clients::agree;
use crate::{Reading, count, read, truth};
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;

/// Requests outside the truth's count: one of an observation, one for each transfer in blocks, and its later blocks.
fn beside(reading: &Reading, truth: &Value) -> u64 {
    let counted = reading.protocol(WireProtocol::Coap);
    let later = counted.verbs.iter().filter(|(verb, _)| verb.as_str().ends_with(" block"));
    1 + count(truth, "blockwise_transfers") + later.map(|(_, verb)| verb.count).sum::<u64>()
}

#[test]
fn datagrams_are_those_of_the_clients() {
    let (reading, truth) = (read("coap_udp.pcap"), truth("coap_udp"));
    let counted = reading.protocol(WireProtocol::Coap);
    let beside = beside(&reading, &truth) + count(&truth, "duplicate_con_exchanges");
    assert_eq!(counted.requests, count(&truth, "requests") + beside);
    assert_eq!(counted.responses, count(&truth, "responses") + beside);
    assert_eq!(counted.unanswered, count(&truth, "unanswered"));
    assert_eq!(counted.errors, count(&truth, "resp_4.04"));
    assert_eq!((counted.unexpected, counted.malformed), (0, 0));
    let verb = |verb| reading.verb(WireProtocol::Coap, verb);
    assert_eq!(verb("PING"), count(&truth, "coap_pings"));
    assert_eq!(verb("RST"), count(&truth, "rst"));
    assert_eq!(verb("notification"), count(&truth, "observe_notifications"));
    // Of what was sent again to a server that answers, the answer was sent again too.
    let again = count(&truth, "datagrams_con_duplicates");
    assert_eq!(verb("retransmission"), count(&truth, "con_retransmissions") + 2 * again);
    agree(&reading, &truth, true, 107, |said| said["kind"].is_null());
}

#[test]
fn messages_over_tcp_are_those_of_the_clients() {
    let (reading, truth) = (read("coap_tcp.pcap"), truth("coap_tcp"));
    let counted = reading.protocol(WireProtocol::Coap);
    let beside = beside(&reading, &truth);
    assert_eq!(counted.requests, count(&truth, "requests") + beside);
    assert_eq!(counted.responses, count(&truth, "responses") + beside);
    assert_eq!(counted.errors, count(&truth, "resp_4.04"));
    assert_eq!((counted.unanswered, counted.unexpected, counted.malformed), (0, 0, 0));
    assert_eq!(reading.verb(WireProtocol::Coap, "notification"), count(&truth, "observe_notifications"));
    assert_eq!(reading.verb(WireProtocol::Coap, "CSM"), 2);
    agree(&reading, &truth, true, 87, |said| said["kind"].is_null());
}
