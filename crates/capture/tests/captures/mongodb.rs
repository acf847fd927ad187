//! MongoDB.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::WireProtocol::MongoDb;

#[test]
fn commands_are_those_that_were_sent() {
    for name in ["mongodb", "mongodb_w0"] {
        let (reading, truth) = (read(&format!("{name}.pcap")), truth(name));
        let counted = reading.protocol(MongoDb);
        // Greetings come beside the commands that the truth counts.
        let greetings = reading.verb(MongoDb, "hello") + reading.verb(MongoDb, "ismaster");
        assert!(greetings >= count(&truth, "monitor_hello_ok"), "{name}");
        let one_way = truth["counts"]["w0_no_reply_by_protocol"].as_u64().unwrap_or(0);
        assert_eq!(counted.requests, count(&truth, "requests") + greetings, "{name}");
        assert_eq!(counted.responses, count(&truth, "responses") + greetings, "{name}");
        assert_eq!(counted.one_way, one_way, "{name}");
        assert_eq!(counted.unanswered + one_way, count(&truth, "unanswered"), "{name}");
        let failed = truth["counts"]["errors"].as_u64().unwrap_or(reading.verb(MongoDb, "nosuchcmd"));
        assert_eq!(counted.errors, failed + count(&truth, "write_errors_in_ok_reply"), "{name}");
        assert_eq!(
            (counted.unexpected, counted.notices, counted.malformed, counted.unknown),
            (0, 0, 0, 0),
            "{name}"
        );
        for (verb, sent) in truth["by_verb"].as_object().unwrap() {
            assert_eq!(reading.verb(MongoDb, verb), sent.as_u64().unwrap(), "{name}: {verb}");
        }
        agree(&reading, &truth, true, count(&truth, "responses") as usize, |_| true);
    }
}
