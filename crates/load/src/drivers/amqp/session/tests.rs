//! The session against single frames: no socket, no clock.

use super::*;
use crate::drivers::messaging::{Session as _, hostile};
use plimsoll_codec::amqp::methods::{encode_start_ok, encode_tune_ok};
use plimsoll_scenario::{Environment, SourceFile, load};

fn settings(more: &str, subscribers: &str) -> Arc<Settings> {
    let text = format!(
        "name: t\nplatform: {{ profile: existing, address: \"amqp://h:1\" }}\n\
         population: {{ devices: 4, subscribers: {subscribers} }}\n\
         message: {{ target: \"city.{{run}}.{{device}}\" }}\nload: {{ levels: [1/s] }}\n{more}"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| Some("hidden".to_owned()) };
    let plan =
        load(&SourceFile { name: "t".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Settings::new(&plan, RunId::from_bits(7)))
}

/// A frame of a server.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, 1][..], &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat()
}

fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(1, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

/// What a frame means, and what is answered.
fn receive(session: &mut Session, frame: &[u8]) -> (Result<String, Failure>, Vec<u8>) {
    let mut out = Vec::new();
    assert_eq!(session.frame(frame), Ok(Some(frame.len())));
    let happened = session.receive(frame, &mut out).map(|happened| format!("{happened:?}"));
    (happened, out)
}

fn happened(session: &mut Session, frame: &[u8]) -> String {
    receive(session, frame).0.unwrap()
}

/// A session up to where its channel is open.
fn opened(client: Client, filters: &[&str], settings: &Arc<Settings>) -> (Session, Vec<u8>) {
    let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
    let mut session = Session::new(client, &filters, settings);
    let mut out = Vec::new();
    session.begin(&mut out);
    assert_eq!(out, amqp::PROTOCOL_HEADER);
    let start = [&[0, 9][..], &[0; 4], &[0, 0, 0, 14], b"PLAIN AMQPLAIN", &[0; 4]].concat();
    let (outcome, said) = receive(&mut session, &method(10, 10, &start));
    let mut expected = Vec::new();
    encode_start_ok(env!("CARGO_PKG_VERSION"), "guest", "guest", &mut expected);
    assert_eq!((outcome.unwrap().as_str(), said), ("Nothing", expected));
    // It offers more channels and larger frames than we ask for, and shorter silences.
    let (_, said) = receive(&mut session, &method(10, 30, &[7, 255, 0, 4, 0, 0, 0, 10]));
    let mut expected = Vec::new();
    encode_tune_ok(Tuning { channels: 1, frame: LARGEST_FRAME, heartbeat: 10 }, &mut expected);
    assert!(said.starts_with(&expected), "{said:?}");
    assert_eq!(session.keep_alive(), Nanos::from_secs(5));
    assert_eq!(happened(&mut session, &method(10, 41, &[0])), "Accepted");
    let (outcome, said) = receive(&mut session, &method(20, 11, &[0; 4]));
    if outcome.unwrap() == "Ready" {
        assert!(said.is_empty());
    }
    (session, said)
}

fn device(more: &str) -> Session {
    let (mut device, _) = opened(Client::Device(1), &[], &settings(more, "0"));
    assert_eq!(happened(&mut device, &method(85, 11, &[])), "Ready");
    device
}

fn publish(session: &mut Session, sequence: u32) -> Vec<u8> {
    let (mut topic, mut out) = (b"a/b".to_vec(), Vec::new());
    session.publish(Outgoing { sequence, topic: &mut topic, content: b"hello" }, &mut out).unwrap();
    out
}

fn ack(number: u16, tag: u64, through: bool) -> Vec<u8> {
    method(60, number, &[&tag.to_be_bytes()[..], &[u8::from(through)]].concat())
}

#[test]
fn confirms_name_messages_by_their_order() {
    let mut device = device("amqp: { in_flight: 4 }\n");
    let out = publish(&mut device, 10);
    assert!(out.windows(4).any(|part| part == b"\x03a.b"), "dots separate levels");
    (11..14).for_each(|sequence| drop(publish(&mut device, sequence)));
    assert!(!device.may_publish(), "four are in flight");
    assert_eq!(happened(&mut device, &ack(80, 2, false)), "AcknowledgedTogether([11])");
    assert_eq!(happened(&mut device, &ack(80, 3, true)), "AcknowledgedTogether([10, 12])");
    assert_eq!(happened(&mut device, &ack(80, 3, true)), "UnknownAck");
    assert_eq!(happened(&mut device, &ack(80, 9, false)), "UnknownAck");
    assert!(happened(&mut device, &ack(120, 4, false)).starts_with("RefusedTogether([13]"));
    assert!(device.may_publish() && device.abandon().is_empty());
    publish(&mut device, 14);
    publish(&mut device, 15);
    device.withdraw(15);
    publish(&mut device, 16);
    assert_eq!(happened(&mut device, &ack(80, 6, false)), "AcknowledgedTogether([16])", "15 had no tag");
    publish(&mut device, 17);
    // All that are under way.
    assert_eq!(happened(&mut device, &ack(80, 0, true)), "AcknowledgedTogether([14, 17])");
    assert_eq!(happened(&mut device, &ack(80, 0, true)), "UnknownAck");
    publish(&mut device, 18);
    assert_eq!(happened(&mut device, &ack(80, 0, false)), "UnknownAck", "no message has the tag zero");
    assert!(happened(&mut device, &ack(120, 0, true)).starts_with("RefusedTogether([18]"));
}

#[test]
fn a_subscriber_has_a_queue_of_its_own_or_shares_one() {
    for (subscribers, more, wanted, bound) in [
        ("1", "", "plimsoll-RUN-s0", true),
        ("{ count: 1, share: g }", "", "plimsoll-RUN-0-g", true),
        ("1", "amqp: { queue: orders }\n", "orders", false),
    ] {
        let settings = settings(more, subscribers);
        let (mut subscriber, said) = opened(Client::Subscriber(0), &["a/+/#"], &settings);
        let wanted = wanted.replace("RUN", &RunId::from_bits(7).to_string());
        let has = |text: &str| said.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has(&wanted), "{wanted}");
        assert_eq!(has("a.*.#"), bound);
        assert_eq!(happened(&mut subscriber, &method(50, 11, &[0; 9])), "Nothing");
        assert_eq!(happened(&mut subscriber, &method(60, 21, &[0])), "Ready");
    }
}

#[test]
fn contents_are_put_together_and_acknowledged() {
    let (mut subscriber, _) = opened(Client::Subscriber(0), &["#"], &settings("", "1"));
    happened(&mut subscriber, &method(60, 21, &[0]));
    let deliver = |tag: u64| method(60, 60, &[&[1, b'c'][..], &tag.to_be_bytes(), &[0, 0, 0]].concat());
    let head = |size: u64| frame(2, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), &[0, 0]].concat());
    assert_eq!(happened(&mut subscriber, &deliver(1)), "Part(0)");
    assert_eq!(happened(&mut subscriber, &head(5)), "Part(0)");
    let (outcome, said) = receive(&mut subscriber, &frame(3, b"hello"));
    assert_eq!(outcome.unwrap(), format!("Delivered({:?})", b"hello"));
    let mut expected = Vec::new();
    methods::encode_basic_ack(1, 1, &mut expected);
    assert_eq!(said, expected);
    happened(&mut subscriber, &deliver(2));
    happened(&mut subscriber, &head(5));
    assert_eq!(happened(&mut subscriber, &frame(3, b"he")), "Part(2)");
    assert_eq!(happened(&mut subscriber, &frame(3, b"llo")), format!("Delivered({:?})", b"hello"));
    happened(&mut subscriber, &deliver(3));
    assert_eq!(happened(&mut subscriber, &head(0)), "Delivered([])");
    let failure = receive(&mut subscriber, &frame(3, b"x")).0.unwrap_err();
    assert!(failure.reason.contains("belongs to nothing"));
    happened(&mut subscriber, &deliver(4));
    happened(&mut subscriber, &head(1));
    let failure = receive(&mut subscriber, &frame(3, b"xy")).0.unwrap_err();
    assert_eq!(failure.reason, "the platform sent 2 bytes of a content of 1");
    happened(&mut subscriber, &deliver(5));
    assert!(receive(&mut subscriber, &head(u64::MAX)).0.is_err());
}

#[test]
fn what_the_platform_refuses_is_told() {
    let settings = settings("", "1");
    let mut device = Session::new(Client::Device(0), &[], &settings);
    device.begin(&mut Vec::new());
    let start = [&[0, 9][..], &[0; 4], &[0, 0, 0, 8], b"EXTERNAL", &[0; 4]].concat();
    assert!(receive(&mut device, &method(10, 10, &start)).0.unwrap_err().lasting);
    let start = [&[0, 9][..], &[0; 4], &[0, 0, 0, 5], b"PLAIN", &[0; 4]].concat();
    happened(&mut device, &method(10, 10, &start));
    let close = |code: u16, text: &str| {
        [&code.to_be_bytes()[..], &[text.len() as u8], text.as_bytes(), &[0; 4]].concat()
    };
    let refused = receive(&mut device, &method(10, 50, &close(403, "ACCESS_REFUSED"))).0.unwrap_err();
    let told =
        "the platform closed the connection: 403 ACCESS_REFUSED; write `amqp.username` and `amqp.password`";
    assert_eq!(refused, Failure::lasting(told));
    let last_words = |device: &mut Session| {
        let mut out = Vec::new();
        device.last_words(&mut out);
        out
    };
    assert_eq!(last_words(&mut device), [1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, 0xce], "connection.close-ok");
    let mut device = self::device("");
    let gone = receive(&mut device, &method(20, 40, &close(404, "NOT_FOUND - no exchange"))).0.unwrap_err();
    let told = "the platform closed the channel: 404 NOT_FOUND - no exchange; make the exchange `amq.topic` at the platform, or \
                write another `amqp.exchange`";
    assert_eq!(gone, Failure::passing(told));
    assert_eq!(last_words(&mut device), [1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 41, 0xce], "channel.close-ok");
    assert!(
        receive(&mut device, &method(60, 30, &[0, 0])).0.unwrap_err().reason.contains("is the queue gone?")
    );
    assert!(
        happened(&mut device, &method(10, 60, b"\x03low")).contains("it reads no messages for a while: low")
    );
    assert_eq!(device.patience(), LONGEST_BLOCKED);
    happened(&mut device, &method(10, 61, &[]));
    assert_eq!(device.patience(), Nanos::from_secs(20));
    assert_eq!(device.held_back(), None, "it reads no messages, and says nothing of sending");
    let (_, said) = receive(&mut device, &method(20, 20, &[0]));
    assert!(!device.may_publish() && !said.is_empty(), "it lets nobody send");
    assert!(device.held_back().is_some_and(|by| by.contains("channel.flow")));
    assert_eq!(happened(&mut device, &method(60, 11, &[])), "Pong");
}

#[test]
fn what_is_missing_is_named_with_its_key() {
    let close = |code: u16| [&code.to_be_bytes()[..], &[0], &[0; 4]].concat();
    let filters = ["#".to_owned()];
    let mut unknown =
        Session::new(Client::Subscriber(0), &filters, &settings("amqp: { virtual_host: nowhere }\n", "1"));
    unknown.begin(&mut Vec::new());
    let start = [&[0, 9][..], &[0; 4], &[0, 0, 0, 5], b"PLAIN", &[0; 4]].concat();
    happened(&mut unknown, &method(10, 10, &start));
    happened(&mut unknown, &method(10, 30, &[7, 255, 0, 4, 0, 0, 0, 10]));
    let refused = receive(&mut unknown, &method(10, 50, &close(530))).0.unwrap_err();
    assert!(refused.lasting && refused.reason.contains("`amqp.virtual_host` is `nowhere`"), "{refused:?}");
    for (more, advice) in [
        ("amqp: { exchange: plant }\n", "make the exchange `plant` at the platform"),
        ("amqp: { queue: orders }\n", "make the queue `orders` at the platform"),
    ] {
        let (mut subscriber, _) = opened(Client::Subscriber(0), &["#"], &settings(more, "1"));
        let missing = receive(&mut subscriber, &method(20, 40, &close(404))).0.unwrap_err();
        assert!(missing.lasting && missing.reason.contains(advice), "{missing:?}");
    }
}

#[test]
fn whatever_a_server_says_nothing_panics() {
    let start = [&[0, 9][..], &[0; 4], &[0, 0, 0, 5], b"PLAIN", &[0; 4]].concat();
    let opening = [
        method(10, 10, &start),
        method(10, 30, &[7, 255, 0, 0, 16, 0, 0, 10]),
        method(10, 41, &[0]),
        method(20, 11, &[0; 4]),
    ];
    let later = [
        method(60, 60, &[&[1, b'c'][..], &1_u64.to_be_bytes(), &[0, 0, 0]].concat()),
        frame(2, &[&[0, 60, 0, 0][..], &5_u64.to_be_bytes(), &[0, 0]].concat()),
        frame(3, b"hello"),
        frame(3, b"he"),
        ack(80, 1, true),
        ack(80, 2, false),
        ack(80, 0, true),
        ack(80, u64::MAX, true),
        ack(120, 3, true),
        method(60, 50, &[&312_u16.to_be_bytes()[..], &[2, b'n', b'o', 1, b'e', 1, b'k']].concat()),
        method(20, 20, &[0]),
        method(20, 20, &[1]),
        method(10, 60, b"\x03low"),
        method(10, 61, &[]),
        method(60, 11, &[]),
        method(60, 30, &[0, 0]),
        frame(8, &[]),
    ];
    let settings = settings("amqp: { in_flight: 4 }\n", "1");
    for client in [Client::Device(1), Client::Subscriber(0)] {
        let is_device = client == Client::Device(1);
        let ready = if is_device { method(85, 11, &[]) } else { method(60, 21, &[0]) };
        let said = [&opening[..], &[ready], &later].concat();
        let say = |_: &Session, place: usize| said[place].clone();
        hostile::endure(|| Session::new(client, &["a/#".to_owned()], &settings), said.len(), say);
    }
}
