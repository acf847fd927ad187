//! Values that a server observes beside messages, requests about several paths, and messages that nobody has to ask for.

use crate::rig::*;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Path, Value, format, payload};
use plimsoll_codec::marker::Marker;
use plimsoll_load::driver::{Driver, Event};
use plimsoll_model::Nanos;

const CHANGING: &str = "lwm2m: { resources: { 3303/0/5700: { walk: { min: 0, max: 100, step: 5, every: 50ms } }, \
                        3303/0/5701: { value: Cel, writable: true } } }";
const TEMPERATURE: &str = "/3303/0/5700";
const TEXT: (u16, u32) = (option::ACCEPT, format::TEXT as u32);

fn text(datagram: &[u8]) -> String {
    String::from_utf8(Message::decode(datagram).unwrap().payload.to_vec()).unwrap()
}

/// The next notification of a token; it is acknowledged.
fn notification(rig: &mut Rig, token: &[u8]) -> Vec<u8> {
    loop {
        let (device, datagram) = rig.next();
        let message = Message::decode(&datagram).unwrap();
        if message.kind == Kind::Confirmable && !message.is_request() {
            rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, message.id)));
        }
        if message.token == token {
            return datagram;
        }
    }
}

#[test]
fn a_value_that_changes_is_notified_each_time() {
    let (mut rig, device) = Rig::observed(CHANGING);
    let first =
        rig.ask(device, &request(code::GET, 2, b"t", TEMPERATURE, &[(option::OBSERVE, 0), TEXT], b""));
    let mut before = text(&first);
    for number in 1..5 {
        let next = notification(&mut rig, b"t");
        assert_eq!(Message::decode(&next).unwrap().number(option::OBSERVE), Some(number));
        assert_ne!(text(&next), before);
        before = text(&next);
    }
    assert_eq!(rig.driver.take_traffic().value_notifications, 4);
    assert_eq!(rig.count(|event| matches!(event, Event::Sent { .. })), 0, "they are no messages");
}

#[test]
fn a_value_is_notified_as_its_attributes_say() {
    let (mut rig, device) = Rig::observed(CHANGING);
    let wanted = format!("{TEMPERATURE}?st=20&pmax=1");
    let written = rig.ask(device, &request(code::PUT, 2, b"w", &wanted, &[], b""));
    assert_eq!(Message::decode(&written).unwrap().code, code::CHANGED);
    let first =
        rig.ask(device, &request(code::GET, 3, b"t", TEMPERATURE, &[(option::OBSERVE, 0), TEXT], b""));
    let (mut before, mut since) = (text(&first).parse::<f64>().unwrap(), rig.clock.now());
    let (mut by_step, mut by_time) = (0, 0);
    while by_step < 2 || by_time < 1 {
        let next = text(&notification(&mut rig, b"t")).parse::<f64>().unwrap();
        let gap = rig.clock.now() - since;
        if (next - before).abs() >= 20.0 {
            by_step += 1;
        } else {
            assert!(gap > Nanos::from_millis(950), "{before} {next} after {gap}");
            by_time += 1;
        }
        (before, since) = (next, rig.clock.now());
    }
}

#[test]
fn what_a_server_writes_is_notified_and_what_stays_is_not() {
    let (mut rig, device) = Rig::observed(CHANGING);
    rig.ask(device, &request(code::GET, 2, b"u", "/3303/0/5701", &[(option::OBSERVE, 0), TEXT], b""));
    assert!(rig.is_silent(Nanos::from_millis(150)));
    rig.ask(device, &request(code::PUT, 3, b"w", "/3303/0/5701", &[], b"Far"));
    assert_eq!(text(&notification(&mut rig, b"u")), "Far");
    rig.ask(device, &request(code::PUT, 4, b"w", "/3303/0/5701", &[], b"Far"));
    assert!(rig.is_silent(Nanos::from_millis(100)), "it is what it was");
    rig.ask(device, &request(code::GET, 5, b"u", "/3303/0/5701", &[(option::OBSERVE, 1), TEXT], b""));
    rig.ask(device, &request(code::PUT, 6, b"w", "/3303/0/5701", &[], b"Cel"));
    assert!(rig.is_silent(Nanos::from_millis(100)), "nobody observes it any more");
}

fn pack(entries: &[(&str, Option<Value<'_>>)]) -> Vec<u8> {
    let record = |(path, value): &(&str, Option<Value<'_>>)| match value {
        Some(Value::String(text)) => format!(r#"{{"n":"{path}","vs":"{text}"}}"#),
        Some(other) => panic!("{other:?}"),
        None => format!(r#"{{"n":"{path}"}}"#),
    };
    format!("[{}]", entries.iter().map(record).collect::<Vec<_>>().join(",")).into_bytes()
}

#[test]
fn several_paths_are_read_written_and_observed_at_once() {
    let (mut rig, device) = Rig::observed(CHANGING);
    let json = [(option::CONTENT_FORMAT, u32::from(format::SENML_JSON))];
    let both = pack(&[("/3303/0/5701", None), ("/3/0/0", None)]);
    let read = rig.ask(device, &request(code::FETCH, 2, b"f", "/", &json, &both));
    let expected = r#"[{"bn":"/","n":"3303/0/5701","vs":"Cel"},{"n":"3/0/0","vs":"Plimsoll"}]"#;
    assert_eq!(text(&read), expected);
    let observe = [(option::OBSERVE, 0), json[0]];
    let observed = rig.ask(device, &request(code::FETCH, 3, b"o", "/", &observe, &both));
    assert_eq!(Message::decode(&observed).unwrap().number(option::OBSERVE), Some(0));
    let far = pack(&[("/3303/0/5701", Some(Value::String("Far")))]);
    let written = rig.ask(device, &request(code::IPATCH, 4, b"p", "/", &json, &far));
    assert_eq!(Message::decode(&written).unwrap().code, code::CHANGED);
    assert_eq!(text(&notification(&mut rig, b"o")), expected.replace("Cel", "Far"));
    for (code, body, expected) in [
        (code::IPATCH, pack(&[("/3/0/0", Some(Value::String("x")))]), code::METHOD_NOT_ALLOWED),
        (code::IPATCH, pack(&[("/3303/7/5701", Some(Value::String("x")))]), code::NOT_FOUND),
        (code::FETCH, b"[]".to_vec(), code::BAD_REQUEST),
        (code::FETCH, pack(&[("/0", None)]), code::UNAUTHORIZED),
    ] {
        let answer = rig.ask(device, &request(code, 20 + u16::from(expected), b"x", "/", &json, &body));
        assert_eq!(Message::decode(&answer).unwrap().code, expected, "{}", String::from_utf8_lossy(&body));
    }
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
    let answer = rig.ask(device, &request(code::FETCH, 9, b"x", "/", &tlv, &both));
    assert_eq!(Message::decode(&answer).unwrap().code, code::UNSUPPORTED_FORMAT);
}

#[test]
fn devices_send_their_messages_of_themselves() {
    let mut rig = Rig::new(1, "lwm2m: { version: 1.1, send: true }");
    let device = rig.register("rd/5");
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
    for (sequence, code) in [(0, code::CHANGED), (1, code::NOT_FOUND)] {
        rig.driver.submit(0, sequence);
        let (from, datagram) = rig.next();
        let sent = Message::decode(&datagram).unwrap();
        assert_eq!((from, sent.code, sent.path().as_str()), (device, code::POST, "/dp"));
        let values = payload::read(format::SENML_CBOR, Path::ROOT, sent.payload).unwrap();
        assert_eq!(values[0].0.to_string(), MESSAGE);
        let Some(Value::Opaque(content)) = values[0].1.as_kind(plimsoll_codec::lwm2m::Kind::Opaque) else {
            panic!("{values:?}")
        };
        let marker = Marker::read_binary(content).unwrap();
        assert_eq!((marker.device, marker.sequence), (0, sequence));
        rig.send(device, &answer(&sent, code, &OptionList::new()));
    }
    rig.until(|rig| rig.count(|event| matches!(event, Event::Refused { .. })) == 1);
    let is_refused = |event: &Event| matches!(event, Event::Refused { sequence: 1, reason, .. } if reason.contains("4.04"));
    assert_eq!(rig.count(is_refused), 1, "{:?}", rig.events);
    assert_eq!(rig.count(|event| matches!(event, Event::Acknowledged { sequence: 0, .. })), 1);
    assert_eq!(rig.driver.observed(), None, "nobody has to observe them");
}

#[test]
fn who_is_observed_is_counted() {
    let mut rig = Rig::new(3, "");
    let devices: Vec<_> = (0..3).map(|number| rig.register(&format!("rd/{number}"))).collect();
    rig.turn();
    let counted = |rig: &Rig| rig.driver.observed().map(|own| (own.observed, own.unobserved)).unwrap();
    rig.until(|rig| counted(rig) == (0, 3));
    for device in &devices[..2] {
        rig.ask(*device, &request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b""));
    }
    assert_eq!(counted(&rig), (2, 1));
    rig.ask(devices[0], &request(code::GET, 2, b"obs", MESSAGE, &[(option::OBSERVE, 1)], b""));
    assert_eq!(counted(&rig), (1, 2));
    rig.driver.disconnect();
    assert_eq!(counted(&rig), (0, 0));
}
