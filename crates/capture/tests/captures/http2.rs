//! HTTP/2: gRPC of grpcio, curl and httpx with Hypercorn.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;

#[test]
fn every_stream_is_an_exchange() {
    let (reading, truth) = (read("http2.pcap"), truth("http2"));
    let counted = reading.protocol(WireProtocol::Http2);
    assert_eq!(counted.requests, count(&truth, "requests"));
    assert_eq!(counted.responses, count(&truth, "answered"));
    assert_eq!(counted.unanswered, count(&truth, "unanswered"));
    assert_eq!((counted.unexpected, counted.unknown, counted.malformed), (0, 0, 0));
    for (verb, times) in truth["by_verb"].as_object().unwrap() {
        assert_eq!(reading.verb(WireProtocol::Http2, verb), *times, "{verb}");
    }
    for (status, times) in &counted.statuses {
        assert_eq!(*times, count(&truth, &format!("status_{status}")), "{status}");
    }
    // Those that were made one at a time.
    let single =
        |said: &Value| matches!(said["kind"].as_str(), Some("unary" | "server-stream" | "client-stream"));
    agree(&reading, &truth, true, 90, single);
}
