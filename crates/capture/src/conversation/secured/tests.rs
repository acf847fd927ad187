//! Conversations under TLS: what is spoken in them is observed as if it were said in clear.

use crate::conversation::{Conversation, DissectionContext, Opening};
use crate::dissect::Carrier;
use crate::marker::{Form, Pattern, Search};
use crate::observations::{ConversationId, Observations};
use crate::tls::Unopened;
use crate::tls::keys::Keys;
use crate::tls::sessions::{Pair, Said, suites};
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Outcome, WireProtocol};

/// What is observed on that port; an empty part is a hole.
fn observe(port: u16, keys: &Keys, wire: &[Said]) -> (Observations, WireProtocol) {
    let search = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())]);
    let mut observations = Observations::default();
    let mut context = DissectionContext { search: &search, keys, observations: &mut observations };
    let mut conversation =
        Conversation::new(ConversationId(0), Carrier::Stream, [50_000, port], Opening::Unknown);
    let mut at = Nanos::ZERO;
    for (from, bytes) in wire {
        at += Nanos::from_millis(1);
        match bytes.as_slice() {
            [] => conversation.gap(*from, at, 1000, &mut context),
            bytes => conversation.data(*from, at, bytes, &mut context),
        }
    }
    for direction in [0, 1] {
        conversation.finished(direction, at, &mut context);
    }
    conversation.end(&mut context);
    (observations, conversation.protocol())
}

/// A session in which that is said, after what was said in clear; of each suite.
fn each(before: &[Said], said: &[(usize, &[u8])], check: impl Fn(&Keys, &[Said])) {
    for (suite, version) in suites() {
        let pair = Pair::new(suite, version);
        let mut session = pair.open();
        session.turn();
        said.iter().for_each(|(from, text)| session.say(*from, text));
        let wire = [before, &session.wire].concat();
        check(&pair.keys(), &wire);
    }
}

fn verbs(observations: &Observations) -> Vec<(String, String)> {
    observations.exchanges.iter().map(|one| (one.verb.to_string(), one.status.to_string())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(verb, status)| ((*verb).to_owned(), (*status).to_owned())).collect()
}

#[test]
fn requests_are_observed_with_their_markers_and_the_size_of_what_was_said() {
    let request = b"POST /in HTTP/1.1\r\nContent-Length: 10\r\n\r\nplm1:d7:3;";
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    each(&[], &[(0, request), (1, answer)], |keys, wire| {
        let (observations, protocol) = observe(8443, keys, wire);
        assert_eq!((verbs(&observations), protocol), (pairs(&[("POST", "204")]), WireProtocol::Http));
        let exchange = observations.exchanges[0];
        assert_eq!(exchange.request.bytes, request.len() as u64);
        assert_eq!(exchange.response.unwrap().last - exchange.request.last, Nanos::from_millis(1));
        assert_eq!(observations.sightings.len(), 1);
        assert_eq!(observations.secured, [Ok(())]);
    });
}

#[test]
fn a_protocol_that_changes_under_tls_changes() {
    let upgrade = b"GET /mqtt HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let accepted = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let connect = b"\x82\x92\0\0\0\0\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd";
    let connected = b"\x82\x04\x20\x02\0\0";
    each(&[], &[(0, upgrade), (1, accepted), (0, connect), (1, connected)], |keys, wire| {
        let (observations, protocol) = observe(443, keys, wire);
        assert_eq!(protocol, WireProtocol::Mqtt, "{:?}", observations.exchanges);
        assert!(
            verbs(&observations).contains(&("CONNECT".into(), "CONNACK".into())),
            "{:?}",
            verbs(&observations)
        );
    });
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    each(&[], &[(0, preface), (1, b"\0\0\0\x04\0\0\0\0\0")], |keys, wire| {
        assert_eq!(observe(443, keys, wire).1, WireProtocol::Http2);
    });
}

/// PostgreSQL asks for it, NATS only says that it is wanted.
#[test]
fn a_conversation_that_turns_to_tls_is_followed_into_it() {
    let startup = b"\0\0\0\x16\0\x03\0\0user\0me\0db\0d\0\0";
    let ready = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    let query = b"Q\0\0\0\x0dselect 1\0";
    let done = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
    let asked = [(0, b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec()), (1, b"S".to_vec())];
    each(&asked, &[(0, startup), (1, ready), (0, query), (1, done)], |keys, wire| {
        let (observations, protocol) = observe(5432, keys, wire);
        assert_eq!(protocol, WireProtocol::Postgres, "{:?}", observations.breaches);
        assert_eq!(verbs(&observations), pairs(&[("Query", "SELECT")]), "{:?}", observations.notices);
    });
    let info =
        [(1, b"INFO {\"server_id\":\"x\",\"tls_required\":true,\"max_payload\":1048576}\r\n".to_vec())];
    let asks = b"CONNECT {\"verbose\":false}\r\nSUB r 1\r\nPUB q r 2\r\nhi\r\n";
    each(&info, &[(0, asks), (1, b"MSG r 1 2\r\nho\r\n")], |keys, wire| {
        let (observations, protocol) = observe(4222, keys, wire);
        assert_eq!((protocol, observations.secured.as_slice()), (WireProtocol::Nats, &[Ok(())][..]));
        assert_eq!(verbs(&observations), pairs(&[("PUB", "MSG")]));
        assert!(observations.breaches.is_empty());
    });
}

/// A response that is missing must not leave its request's time to the next one.
#[test]
fn requests_across_a_hole_are_unknown() {
    let ask: (usize, &[u8]) = (0, b"*1\r\n$4\r\nPING\r\n");
    let tell: (usize, &[u8]) = (1, b"+PONG\r\n");
    each(&[], &[ask, tell, ask, tell, ask, tell, ask, tell], |keys, wire| {
        let mut wire = wire.to_vec();
        let place = wire.len() - 3;
        assert_eq!(wire[place].0, 1);
        wire[place].1.clear();
        let (observations, protocol) = observe(6380, keys, &wire);
        assert_eq!((protocol, observations.secured.as_slice()), (WireProtocol::Redis, &[Ok(())][..]));
        let count = |outcome| observations.exchanges.iter().filter(|one| one.outcome == outcome).count();
        assert!(count(Outcome::Answered) >= 2, "{:?}", observations.exchanges);
        assert!(
            count(Outcome::Unknown) >= 1 && count(Outcome::Unanswered) == 0,
            "{:?}",
            observations.exchanges
        );
    });
}

/// Nothing is opened behind it that would tell: the last answer is missing all the same.
#[test]
fn a_hole_at_the_end_leaves_requests_unknown() {
    let ask: (usize, &[u8]) = (0, b"*1\r\n$4\r\nPING\r\n");
    let tell: (usize, &[u8]) = (1, b"+PONG\r\n");
    each(&[], &[ask, tell, ask, tell], |keys, wire| {
        let mut wire = wire.to_vec();
        let place = wire.len() - 1;
        assert_eq!(wire[place].0, 1);
        wire[place].1.clear();
        let (observations, _) = observe(6380, keys, &wire);
        let outcomes: Vec<Outcome> = observations.exchanges.iter().map(|one| one.outcome).collect();
        assert_eq!(outcomes, [Outcome::Answered, Outcome::Unknown]);
        assert_eq!(observations.secured, [Err(Unopened::Hole)]);
    });
}

#[test]
fn what_stays_closed_is_tls_and_counted_once() {
    each(&[], &[(0, b"GET / HTTP/1.1\r\n\r\n"), (1, b"HTTP/1.1 204 No Content\r\n\r\n")], |keys, wire| {
        let (observations, protocol) = observe(443, &Keys::default(), wire);
        assert_eq!(
            (protocol, observations.secured.as_slice()),
            (WireProtocol::Tls, &[Err(Unopened::NoKey)][..])
        );
        assert!(observations.exchanges.is_empty() && observations.breaches.is_empty());
        let (observations, protocol) = observe(443, keys, &wire[3..]);
        assert_eq!(
            (protocol, observations.secured.as_slice()),
            (WireProtocol::Tls, &[Err(Unopened::Beginning)][..])
        );
    });
}
