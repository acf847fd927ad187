//! Redis.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::WireProtocol::Redis;
use serde_json::Value;

#[test]
fn commands_are_those_that_were_sent() {
    for name in ["redis_basic", "redis_ns", "redis_ns_ipv6"] {
        let (reading, truth) = (read(&format!("{name}.pcap")), truth(name));
        let counted = reading.protocol(Redis);
        assert_eq!(counted.conversations, count(&truth, "connections"), "{name}");
        assert_eq!(counted.requests, count(&truth, "requests"), "{name}");
        assert_eq!(counted.responses, count(&truth, "responses"), "{name}");
        assert_eq!(counted.unanswered, count(&truth, "unanswered"), "{name}");
        assert_eq!(counted.one_way, count(&truth, "no_reply_by_protocol"), "{name}");
        // What a client library asks of a server that is too old for it fails, too.
        let of_library = counted.verbs[&"CLIENT".into()].failed;
        assert_eq!(counted.errors, count(&truth, "error_responses") + of_library, "{name}");
        assert_eq!(
            (counted.unexpected, counted.notices, counted.malformed, counted.unknown),
            (0, 0, 0, 0),
            "{name}"
        );
        for (verb, sent) in truth["by_verb"].as_object().unwrap() {
            assert_eq!(reading.verb(Redis, verb), sent.as_u64().unwrap(), "{name}: {verb}");
        }
        // One that the client did not time has the same time twice.
        let timed = |said: &Value| said["answered"] == true && said["t_send"] != said["t_recv"];
        let exchanges = truth["exchanges"].as_array().unwrap();
        agree(&reading, &truth, true, exchanges.iter().filter(|said| timed(said)).count(), timed);
    }
}

#[test]
fn messages_and_confirmations_are_told_from_replies() {
    let (reading, truth) = (read("redis_pubsub_queue.pcap"), truth("redis_pubsub_queue"));
    let counted = reading.protocol(Redis);
    assert_eq!(counted.requests, count(&truth, "requests"));
    assert_eq!(counted.responses, count(&truth, "responses"));
    assert_eq!((counted.unanswered, counted.unexpected, counted.malformed), (0, 0, 0));
    let notices = |verb| reading.verb(Redis, verb);
    assert_eq!(notices("message") + notices("pmessage"), count(&truth, "push_messages"));
    // The last confirmation of each subscription is its reply.
    let replies = notices("SUBSCRIBE") + notices("PSUBSCRIBE");
    assert_eq!(notices("subscribe") + replies, count(&truth, "subscribe_confirmations"));
    for (verb, sent) in truth["by_verb"].as_object().unwrap() {
        assert_eq!(reading.verb(Redis, verb), sent.as_u64().unwrap(), "{verb}");
    }
    agree(&reading, &truth, true, count(&truth, "responses") as usize, |_| true);
}
