//! HTTP/1.1: a raw client, aiohttp and nginx, on several kinds of links, with and without loss.

use crate::clients::agree;
use crate::{Reading, count, read, truth};
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;

fn counts(name: &str, reading: &Reading, truth: &Value) {
    let counted = reading.protocol(WireProtocol::Http);
    // What goes through nginx is seen on both of its sides.
    let again = truth["counts"]["proxied_second_hop"].as_u64().unwrap_or(0);
    assert_eq!(counted.requests, count(truth, "requests") + again, "{name}");
    assert_eq!(counted.responses, count(truth, "responses") + again, "{name}");
    assert_eq!(counted.unanswered, count(truth, "unanswered"), "{name}");
    assert_eq!((counted.unexpected, counted.unknown, counted.malformed), (0, 0, 0), "{name}");
    assert_eq!(reading.verb(WireProtocol::Http, "100"), count(truth, "interim_100"), "{name}");
    for (verb, times) in truth["by_verb"].as_object().unwrap() {
        let again = if verb == "GET" { again } else { 0 };
        assert_eq!(reading.verb(WireProtocol::Http, verb), times.as_u64().unwrap() + again, "{name} {verb}");
    }
    for (status, times) in &counted.statuses {
        let again = if status.as_str() == "200" { again } else { 0 };
        assert_eq!(*times, count(truth, &format!("status_{status}")) + again, "{name} {status}");
    }
}

#[test]
fn requests_and_responses_are_those_of_the_clients() {
    for name in [
        "http11.pcap",
        "http_ipv6.pcap",
        "http_any_sll1.pcap",
        "http_any_sll2.pcap",
        "http_two_if.pcapng",
        "http_veth.pcap",
        "http_veth_nooffload.pcap",
        "any_bridge_dups.pcap",
        "loss_rx.pcap",
        "loss_tx.pcap",
        "wan_real.pcap",
    ] {
        let (stem, _) = name.rsplit_once('.').unwrap();
        let (reading, truth) = (read(name), truth(stem));
        counts(name, &reading, &truth);
        // There the network's delay lies between client and capture.
        if stem != "wan_real" {
            agree(&reading, &truth, true, 124, |said| said["kind"] == "single");
        }
    }
}
