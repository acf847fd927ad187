//! AMQP 0-9-1.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::Outcome;
use plimsoll_model::wire::WireProtocol::Amqp;

#[test]
fn what_was_published_fetched_and_confirmed_is_counted() {
    let (reading, truth) = (read("amqp.pcap"), truth("amqp"));
    let counted = reading.protocol(Amqp);
    let (requests, replies) = (count(&truth, "rpc_requests"), count(&truth, "rpc_replies"));
    assert_eq!(counted.conversations, count(&truth, "connections"));
    assert_eq!(reading.verb(Amqp, "channel.open"), count(&truth, "channels"));
    // A remote call is two publishings and two deliveries, without an acknowledgement of the second.
    assert_eq!(reading.verb(Amqp, "basic.publish"), count(&truth, "publishes") + requests + replies);
    assert_eq!(reading.verb(Amqp, "basic.deliver"), count(&truth, "deliveries") + requests + replies);
    assert_eq!(reading.verb(Amqp, "basic.ack"), count(&truth, "acks") + requests);
    assert_eq!(reading.verb(Amqp, "basic.return"), count(&truth, "returned"));
    assert_eq!(reading.verb(Amqp, "basic.get"), count(&truth, "basic_get"));
    assert_eq!(counted.statuses[&"basic.get-ok".into()], count(&truth, "get_ok"));
    assert_eq!(counted.statuses[&"basic.get-empty".into()], count(&truth, "get_empty"));
    assert_eq!(counted.statuses[&"basic.ack".into()], count(&truth, "confirmed_publishes"));
    assert_eq!((counted.unanswered, counted.unexpected, counted.malformed, counted.unknown), (0, 0, 0, 0));
}

#[test]
fn confirms_and_fetches_take_as_long_as_their_clients_say() {
    let (mut reading, truth) = (read("amqp.pcap"), truth("amqp"));
    reading.exchanges.retain(|exchange| exchange.observed.outcome != Outcome::OneWay);
    // Those that the server has sent back were confirmed as well, and are not among those of the truth.
    let confirmed = count(&truth, "confirmed_publishes") - count(&truth, "returned");
    let timed = count(&truth, "basic_get") + confirmed;
    // A remote call is no exchange of the protocol.
    agree(&reading, &truth, false, timed as usize, |said| said["verb"] != "rpc");
}
