//! PostgreSQL.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::WireProtocol::Postgres;

#[test]
fn queries_and_executions_are_those_that_were_sent() {
    let (reading, truth) = (read("postgres.pcap"), truth("postgres"));
    let counted = reading.protocol(Postgres);
    assert_eq!(counted.conversations, count(&truth, "connections"));
    assert_eq!(counted.requests, count(&truth, "requests"));
    assert_eq!(counted.responses, count(&truth, "responses"));
    assert_eq!(counted.errors, count(&truth, "error_responses"));
    assert_eq!(counted.unanswered, count(&truth, "unanswered"));
    assert_eq!(counted.one_way, count(&truth, "skipped_after_error"));
    assert_eq!((counted.unexpected, counted.malformed, counted.unknown), (0, 0, 0));
    for (verb, name) in [
        ("NotificationResponse", "async_notifications"),
        ("CancelRequest", "cancel_requests"),
        ("SSLRequest", "ssl_requests"),
        // The only error that answers no request.
        ("ErrorResponse", "auth_failures"),
    ] {
        assert_eq!(reading.verb(Postgres, verb), count(&truth, name), "{verb}");
    }
    for (verb, sent) in truth["by_verb"].as_object().unwrap() {
        assert_eq!(reading.verb(Postgres, verb), sent.as_u64().unwrap(), "{verb}");
    }
    agree(&reading, &truth, false, count(&truth, "responses") as usize, |_| true);
}
