use super::*;
use plimsoll_capture::observations::{ConversationId, Manner, Sighting};
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::phases::Phases;
use plimsoll_capture::side::Side;
use plimsoll_capture::table::Located;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, WireProtocol};
use std::net::SocketAddr;
use std::sync::Arc;

mod blame;

fn end(port: u16) -> Endpoint {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

/// The second component encrypts what it passes on: its messages are delivered, and none is seen to leave it.
#[test]
fn who_cannot_be_followed_is_not_accused() {
    let mut components = Components::default();
    components.outside("plimsoll");
    components.port(1883, "broker");
    components.port(8080, "agent");
    components.endpoint(end(40_001), "broker");
    let components = Arc::new(components);
    let losses = |ledger: BTreeSet<MessageId>| {
        let mut traces = Traces::new(Arc::new(Phases::default()));
        traces.name(ledger.clone());
        for sequence in 0..10_u64 {
            for (client, server, later) in [(50_001, 1883, 0), (40_001, 8080, 5)] {
                let at = Nanos::from_millis(sequence as i64 * 10 + later);
                let message = MessageId { device: 0, sequence };
                let (conversation, verb, from) = (ConversationId(0), Label::new("POST"), Side::Client);
                let observed = Sighting { at, conversation, from, message, verb, manner: Manner::Handed };
                let (client, server) = (end(client), end(server));
                let parties = [components.client(&client), components.server(&server)];
                traces.seen(&Located { client, server, parties, protocol: WireProtocol::Http, observed });
            }
        }
        traces.finish(Some(Nanos::from_secs(10)));
        let ledger = Ledger { lost: ledger, receivers: None };
        tell(&traces, &components, &Search::default(), Some(&ledger)).losses
    };
    let messages =
        |range: std::ops::Range<u64>| range.map(|sequence| MessageId { device: 0, sequence }).collect();
    assert_eq!(losses(messages(4..5)), BTreeMap::from([("agent or behind it".to_owned(), 1)]));
    // None came through: nothing says that it passes anything on.
    assert_eq!(losses(messages(0..10)), BTreeMap::from([("agent".to_owned(), 10)]));
}

/// Publisher and subscriber are strangers on one host: that the host has sent a message does not mean that it got it.
#[test]
fn what_a_broker_keeps_is_lost_there_though_both_ends_are_of_one_host() {
    let components = Arc::new(Components::default());
    let mut traces = Traces::new(Arc::new(Phases::default()));
    for sequence in 0..10_u64 {
        for (client, from, later) in [(50_001, Side::Client, 0), (50_002, Side::Server, 5)] {
            if sequence == 4 && from == Side::Server {
                continue;
            }
            let at = Nanos::from_millis(sequence as i64 * 10 + later);
            let message = MessageId { device: 0, sequence };
            let (conversation, verb) = (ConversationId(0), Label::new("PUBLISH"));
            let observed = Sighting { at, conversation, from, message, verb, manner: Manner::Handed };
            let (client, server) = (end(client), end(1883));
            let parties = [components.client(&client), components.server(&server)];
            traces.seen(&Located { client, server, parties, protocol: WireProtocol::Mqtt, observed });
        }
    }
    traces.finish(Some(Nanos::from_secs(10)));
    let told = tell(&traces, &components, &Search::default(), None);
    assert_eq!(told.losses, BTreeMap::from([("127.0.0.1:1883".to_owned(), 1)]));
    assert_eq!((told.messages.marked, told.messages.lost, told.messages.unseen), (10, 1, 0));
    assert_eq!(told.lost[0].sequence, 4);
}
