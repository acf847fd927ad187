//! What a server should not do, or does late: devices keep to the rules, and to bounds.

use crate::rig::*;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::format;
use plimsoll_load::driver::{Driver, Event};
use plimsoll_model::Nanos;

fn is_incident(event: &Event, said: &str) -> bool {
    matches!(event, Event::Incident { reason } if reason.contains(said))
}

/// Notifications that need no acknowledgement leave before the reset of an older one comes.
#[test]
fn the_reset_of_an_older_notification_ends_the_observation() {
    let (mut rig, device) = Rig::observed("coap: { confirmable: false }");
    (0..5).for_each(|sequence| rig.driver.submit(0, sequence));
    let ids: Vec<u16> = (0..5).map(|_| Message::decode(&rig.next().1).unwrap().id).collect();
    rig.send(device, &bytes(Message::empty(Kind::Reset, ids[1])));
    rig.until(|rig| rig.count(|event| is_incident(event, "any more")) == 1);
    let (_, update) = rig.next();
    rig.send(device, &answer(&Message::decode(&update).unwrap(), code::CHANGED, &OptionList::new()));
    rig.driver.submit(0, 5);
    assert!(rig.is_silent(Nanos::from_millis(50)));
}

/// What asks for an update while one is under way gets one more, whatever it asked for and how often.
#[test]
fn one_update_is_under_way_at_a_time() {
    let (mut rig, device) =
        Rig::observed("lwm2m: { resources: { 3303/0/5601: { value: 1.5, writable: true } } }");
    rig.ask(device, &request(code::POST, 2, b"u", "/1/0/8", &[], b""));
    let first = rig.next().1;
    let first = Message::decode(&first).unwrap();
    assert_eq!((first.code, first.path().as_str()), (code::POST, "/rd/5"));
    for id in 3..20 {
        let answer = rig.ask(device, &request(code::POST, id, b"u", "/1/0/8", &[], b""));
        assert_eq!(Message::decode(&answer).unwrap().code, code::CHANGED);
    }
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
    let created = rig.ask(device, &request(code::POST, 20, b"c", "/3303", &tlv, b""));
    assert_eq!(Message::decode(&created).unwrap().code, code::CREATED);
    rig.ask(device, &request(code::POST, 21, b"u", "/1/0/8", &[], b""));
    assert!(rig.is_silent(Nanos::from_millis(50)), "the first update is not answered yet");
    rig.send(device, &answer(&first, code::CHANGED, &OptionList::new()));
    let second = rig.next().1;
    let second = Message::decode(&second).unwrap();
    assert!(String::from_utf8_lossy(second.payload).ends_with("</3303/0>,</3303/1>"), "it lists what came");
    rig.send(device, &answer(&second, code::CHANGED, &OptionList::new()));
    assert!(rig.is_silent(Nanos::from_millis(50)), "once is enough");
}

#[test]
fn nobody_reads_the_keys_of_a_device_over_the_root() {
    let (mut rig, device) = Rig::observed("");
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::SENML_JSON))];
    let root = rig.ask(device, &request(code::FETCH, 2, b"f", "/", &tlv, br#"[{"n":"/"}]"#));
    let root = Message::decode(&root).unwrap();
    let text = String::from_utf8_lossy(root.payload).into_owned();
    assert!(root.code == code::CONTENT && text.contains("3/0/0"), "{text}");
    assert!(!text.contains(r#""n":"0/"#), "{text}");
}

#[test]
fn ids_that_come_round_too_soon_are_reported() {
    let (mut rig, _) = Rig::observed("coap: { confirmable: false }");
    let mut room = [0; 2048];
    for round in 0..132_u32 {
        (0..500).for_each(|at| rig.driver.submit(0, round * 500 + at));
        rig.turn();
        while rig.server.recv_from(&mut room).is_ok() {
            rig.turn();
        }
        rig.events.retain(|event| matches!(event, Event::Incident { .. }));
    }
    assert_eq!(rig.count(|event| is_incident(event, "65,536 message ids")), 1, "{:?}", rig.events);
}

#[test]
fn a_server_may_not_fill_a_device() {
    let (mut rig, device) =
        Rig::observed("lwm2m: { resources: { 3303/0/5750: { value: some, writable: true } } }");
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
    let answer_to = |rig: &mut Rig, datagram: &[u8]| {
        rig.send(device, datagram);
        loop {
            let datagram = rig.next().1;
            let message = Message::decode(&datagram).unwrap();
            // Of itself it renews its registration, which nobody answers here.
            if message.kind == Kind::Acknowledgement {
                return message.code;
            }
        }
    };
    let created: Vec<u8> = (0..1_100)
        .map(|id| answer_to(&mut rig, &request(code::POST, 100 + id, b"c", "/3303", &tlv, b"")))
        .collect();
    assert_eq!(created.iter().filter(|own| **own == code::CREATED).count(), 1_024);
    assert_eq!(created.last(), Some(&code::TOO_LARGE));
    let bad = [(option::BLOCK1, 0b1111)];
    let answered = answer_to(&mut rig, &request(code::PUT, 9, b"b", "/3303/0/5750", &bad, b"text"));
    assert_eq!(answered, code::BAD_REQUEST, "a block size that does not exist");
    assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), 0);
}

/// What cannot be read changes nothing, and the device goes on.
#[test]
fn a_malformed_write_is_refused_and_changes_nothing() {
    let (mut rig, device) =
        Rig::observed("lwm2m: { resources: { 3303/0/5601: { value: 1.5, writable: true } } }");
    let text = [(option::ACCEPT, u32::from(format::TEXT))];
    let malformed: [(u16, &[u8]); 8] = [
        (format::TLV, b"\xc8\x15\xe1\xff\xff"),
        (format::TLV, b"\xe4\x15\xe1\x40"),
        (format::SENML_JSON, br#"[{"n":"5601","v":1."#),
        (format::SENML_JSON, br#"{"n":"5601","v":1.0}"#),
        (format::SENML_CBOR, b"\x81\xa2\x00\x645601\x02\xfb\x40"),
        (format::SENML_CBOR, b"\x9f\xbf\x00"),
        (format::SENML_CBOR, b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
        (format::TEXT, b"\xff\xfe"),
    ];
    for (at, (content_format, payload)) in (10_u16..).zip(malformed) {
        let numbers = [(option::CONTENT_FORMAT, u32::from(content_format))];
        let answered = rig.ask(device, &request(code::PUT, at, b"w", "/3303/0/5601", &numbers, payload));
        assert_eq!(Message::decode(&answered).unwrap().code, code::BAD_REQUEST, "{payload:?}");
        let read = rig.ask(device, &request(code::GET, 100 + at, b"r", "/3303/0/5601", &text, b""));
        assert_eq!(Message::decode(&read).unwrap().payload, b"1.5", "{payload:?}");
    }
    rig.driver.submit(0, 0);
    assert_eq!(Message::decode(&rig.next().1).unwrap().code, code::CONTENT, "it is observed as before");
}
