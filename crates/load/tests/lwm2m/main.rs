//! The LwM2M driver against a scripted server that observes, reads, writes, forgets, resets or is silent.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod blocks;
#[path = "../context/mod.rs"]
mod context;
mod misuse;
mod rare;
mod rig;
mod updating;
mod values;

use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::link::Links;
use plimsoll_codec::lwm2m::{Path, format, payload};
use plimsoll_codec::marker::Marker;
use plimsoll_load::driver::{Driver, Event};
use plimsoll_model::Nanos;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;

use rig::*;

#[test]
fn a_device_says_what_it_is_and_where_it_may_be_reached() {
    let mut rig = Rig::new(
        3,
        "lwm2m: { lifetime: 2h, resources: { 3303/0/5700: { sine: { min: 0, max: 1, period: 9s } } } }",
    );
    let (mut addresses, mut names) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..3 {
        let (device, datagram) = rig.next();
        let request = Message::decode(&datagram).unwrap();
        let queries = queries(&request);
        assert_eq!(queries[1..], ["lt=7200", "lwm2m=1.0", "b=U"]);
        assert_eq!(request.number(option::CONTENT_FORMAT), Some(u32::from(format::LINK)));
        let links: Vec<String> = Links::new(request.payload)
            .unwrap()
            .map(|link| link.unwrap().path().unwrap().to_string())
            .collect();
        assert_eq!(links, ["/1/0", "/3/0", "/19/0", "/3303/0"]);
        names.insert(queries[0].clone());
        addresses.insert(device.ip());
    }
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["ep=plimsoll-0", "ep=plimsoll-1", "ep=plimsoll-2"]);
    assert_eq!(addresses.len(), 3, "each has an address of its own");
}

#[test]
fn an_observed_device_notifies_of_its_messages() {
    let (mut rig, device) = Rig::observed("");
    let mut id = None;
    for sequence in 0..3 {
        rig.driver.submit(0, sequence);
        let (from, datagram) = rig.next();
        let notification = Message::decode(&datagram).unwrap();
        assert_eq!((from, notification.kind, notification.token), (device, Kind::Confirmable, &b"obs"[..]));
        assert_eq!(notification.number(option::OBSERVE), Some(sequence + 1));
        // Servers remember ids for minutes: none is left out.
        let before = id.replace(notification.id);
        assert!(before.is_none_or(|before: u16| before.wrapping_add(1) == notification.id), "{before:?}");
        let marker = Marker::read_binary(&notified(&notification)).unwrap();
        assert_eq!((marker.device, marker.sequence), (0, sequence));
        rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, notification.id)));
        let is_it =
            |event: &Event| matches!(event, Event::Acknowledged { sequence: own, .. } if *own == sequence);
        rig.until(|rig| rig.count(is_it) == 1);
    }
    assert_eq!(rig.count(|event| matches!(event, Event::Sent { .. })), 3);
    assert_eq!(rig.count(|event| matches!(event, Event::RoundTrip { .. })), 3);
}

#[test]
fn a_device_that_nobody_observes_sends_nothing_and_that_is_told() {
    let mut rig = Rig::new(1, "lwm2m: { observed_within: 1s }");
    rig.register("rd/5");
    rig.driver.submit(0, 0);
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
    let is_told =
        |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("nobody observed"));
    assert_eq!(rig.count(is_told), 1);
    assert!(rig.is_silent(Nanos::from_millis(50)));
    rig.driver.withdraw(&mut rig.events);
    assert_eq!(rig.count(|event| matches!(event, Event::Sent { .. } | Event::Abandoned { .. })), 0);
}

#[test]
fn a_notification_that_is_not_acknowledged_is_repeated_as_it_was() {
    let (mut rig, device) = Rig::observed("coap: { ack_timeout: 50ms }");
    rig.driver.submit(0, 0);
    let (_, first) = rig.next();
    let (_, second) = rig.next();
    assert_eq!(first, second);
    let id = Message::decode(&first).unwrap().id;
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, id)));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Acknowledged { .. })) == 1);
    assert_eq!(rig.count(|event| matches!(event, Event::Retransmitted { .. })), 1);
    assert_eq!(
        rig.count(|event| matches!(event, Event::RoundTrip { .. })),
        0,
        "which one was acknowledged is not known"
    );
}

#[test]
fn a_registration_that_nobody_answers_ends_in_time() {
    let mut rig = Rig::new(1, "coap: { ack_timeout: 40ms }");
    rig.until(|rig| rig.count(|event| matches!(event, Event::ConnectFailed { .. })) == 1);
    let took = rig.clock.now();
    assert!(took > Nanos::from_millis(390) && took < Nanos::from_secs(10), "{took}");
    assert!(rig.count(|event| matches!(event, Event::Retransmitted { .. })) >= 2, "{:?}", rig.events);
}

#[test]
fn a_reset_ends_the_observation() {
    let (mut rig, device) = Rig::observed("");
    rig.driver.submit(0, 0);
    let (_, datagram) = rig.next();
    rig.send(device, &bytes(Message::empty(Kind::Reset, Message::decode(&datagram).unwrap().id)));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Refused { .. })) == 1);
    let (_, update) = rig.next();
    rig.send(device, &answer(&Message::decode(&update).unwrap(), code::CHANGED, &OptionList::new()));
    rig.driver.submit(0, 1);
    assert!(rig.is_silent(Nanos::from_millis(50)));
}

/// Whatever ends an observation is said, even where no message was refused.
#[test]
fn an_observation_that_ends_without_a_refusal_is_reported() {
    let said = |rig: &mut Rig| {
        let is_said =
            |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("any more"));
        rig.until(|rig| rig.count(is_said) == 1);
        assert_eq!(rig.count(|event| matches!(event, Event::Refused { .. })), 0, "{:?}", rig.events);
    };
    let (mut rig, device) = Rig::observed("");
    rig.ask(device, &request(code::DELETE, 9, b"gone", "/19/0", &[], b""));
    said(&mut rig);
    let (mut rig, device) = Rig::observed("");
    rig.ask(device, &request(code::GET, 9, b"obs", MESSAGE, &[(option::OBSERVE, 1)], b""));
    said(&mut rig);
    let (mut rig, device) = Rig::observed("");
    rig.driver.submit(0, 0);
    let (_, datagram) = rig.next();
    let id = Message::decode(&datagram).unwrap().id;
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, id)));
    rig.send(device, &bytes(Message::empty(Kind::Reset, id)));
    said(&mut rig);
}

#[test]
fn a_server_that_lost_a_registration_gets_a_new_one() {
    let (mut rig, device) = Rig::observed("lwm2m: { lifetime: 2s }");
    let (from, datagram) = rig.next();
    let update = Message::decode(&datagram).unwrap();
    assert_eq!((from, update.code, update.path().as_str()), (device, code::POST, "/rd/5"));
    rig.send(device, &answer(&update, code::NOT_FOUND, &OptionList::new()));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Disconnected { .. })) == 1);
    rig.register("rd/6");
    rig.driver.submit(0, 0);
    assert!(rig.is_silent(Nanos::from_millis(50)), "what was observed ended with the registration");
    rig.ask(device, &request(code::GET, 9, b"new", MESSAGE, &[(option::OBSERVE, 0)], b""));
    let (_, datagram) = rig.next();
    assert_eq!(Message::decode(&datagram).unwrap().token, b"new");
    assert_eq!(rig.count(|event| matches!(event, Event::Ready { again: true, .. })), 1);
}

#[test]
fn a_device_that_is_not_to_renew_does_not() {
    let (mut rig, _) = Rig::observed("lwm2m: { update: false, lifetime: 1s, observed_within: 1s }");
    assert!(rig.is_silent(Nanos::from_millis(1500)));
}

#[test]
fn between_two_notifications_lies_what_the_server_wants() {
    let (mut rig, device) = Rig::observed("lwm2m: { lifetime: 3s }");
    let written = rig.ask(device, &request(code::PUT, 2, b"w", "/19/0/0?pmin=1", &[], b""));
    assert_eq!(Message::decode(&written).unwrap().code, code::CHANGED);
    (0..3).for_each(|sequence| rig.driver.submit(0, sequence));
    let (mut came, mut updates) = (Vec::new(), 0);
    while came.len() < 3 {
        let (_, datagram) = rig.next();
        let message = Message::decode(&datagram).unwrap();
        if message.code == code::POST {
            updates += 1;
            rig.send(device, &answer(&message, code::CHANGED, &OptionList::new()));
        } else {
            came.push(rig.clock.now());
            rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, message.id)));
        }
    }
    for pair in came.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap > Nanos::from_millis(900), "{gap}");
    }
    assert!(updates <= 1, "a wait is no reason to renew: {updates}");
}

#[test]
fn a_lifetime_that_the_server_writes_is_that_of_the_registration() {
    let (mut rig, device) = Rig::observed("");
    let written = rig.ask(device, &request(code::PUT, 2, b"w", "/1/0/1", &[], b"30"));
    assert_eq!(Message::decode(&written).unwrap().code, code::CHANGED);
    let (_, update) = rig.next();
    assert_eq!(queries(&Message::decode(&update).unwrap()), ["lt=30"]);
}

#[test]
fn a_device_that_the_server_restarts_registers_anew() {
    let (mut rig, device) = Rig::observed("");
    rig.driver.submit(0, 0);
    let (_, notification) = rig.next();
    let restarted = rig.ask(device, &request(code::POST, 2, b"r", "/3/0/4", &[], b""));
    assert_eq!(Message::decode(&restarted).unwrap().code, code::CHANGED);
    rig.register("rd/6");
    let is_given_up = |event: &Event| matches!(event, Event::Abandoned { .. });
    assert_eq!(rig.count(is_given_up), 1);
    // What comes late of its earlier life changes nothing.
    let id = Message::decode(&notification).unwrap().id;
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, id)));
    rig.ask(device, &request(code::GET, 3, b"new", MESSAGE, &[(option::OBSERVE, 0)], b""));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { again: true, .. })) == 1);
    assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), 1);
    assert_eq!(rig.count(|event| matches!(event, Event::Acknowledged { .. })), 0);
}

#[test]
fn a_request_to_observe_may_overtake_the_answer_to_the_registration() {
    let mut rig = Rig::new(1, "lwm2m: { observed_within: 1h }");
    let (device, datagram) = rig.next();
    rig.ask(device, &request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b""));
    assert_eq!(rig.count(|event| matches!(event, Event::Ready { .. })), 0);
    rig.send(device, &created(&Message::decode(&datagram).unwrap(), "rd/5"));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
}

#[test]
fn notifications_that_nobody_confirms_go_one_after_the_other_until_they_are_reset() {
    let (mut rig, device) = Rig::observed("coap: { confirmable: false }");
    (0..5).for_each(|sequence| rig.driver.submit(0, sequence));
    rig.turn();
    assert_eq!(rig.count(|event| matches!(event, Event::Sent { .. })), 5, "in one turn");
    let mut last = 0;
    for _ in 0..5 {
        let (_, datagram) = rig.next();
        let message = Message::decode(&datagram).unwrap();
        assert_eq!(message.kind, Kind::NonConfirmable);
        last = message.id;
    }
    rig.send(device, &bytes(Message::empty(Kind::Reset, last)));
    let (_, update) = rig.next();
    assert_eq!(
        Message::decode(&update).unwrap().code,
        code::POST,
        "whether the server still knows the device"
    );
    rig.driver.submit(0, 5);
    rig.send(device, &answer(&Message::decode(&update).unwrap(), code::CHANGED, &OptionList::new()));
    assert!(rig.is_silent(Nanos::from_millis(50)));
}

/// Over a socket of its own, a device is told at once that nobody listens.
#[test]
fn what_could_not_be_sent_is_sent_when_the_server_is_back() {
    let more =
        "connection: { timeout: 400ms, source_addresses: [127.0.0.1], reconnect: { from: 10ms, to: 20ms } }";
    let (mut rig, _) = Rig::observed(more);
    let address = rig.server.local_addr().unwrap();
    // The socket moves elsewhere: its port is closed.
    rig.server = UdpSocket::bind("127.0.0.1:0").unwrap();
    rig.driver.submit(0, 0);
    rig.until(|rig| rig.count(|event| matches!(event, Event::Disconnected { .. })) == 1);
    // Its kernel took the first one; what follows waits.
    rig.driver.submit(0, 1);
    rig.server = UdpSocket::bind(address).unwrap();
    rig.server.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let device = rig.register("rd/6");
    rig.ask(device, &request(code::GET, 3, b"new", MESSAGE, &[(option::OBSERVE, 0)], b""));
    let (_, datagram) = rig.next();
    let marker = Marker::read_binary(&notified(&Message::decode(&datagram).unwrap())).unwrap();
    let abandoned = rig.count(|event| matches!(event, Event::Abandoned { sequence: 0, .. }));
    assert_eq!(
        (marker.sequence as usize, abandoned),
        (abandoned, abandoned),
        "sent once, or told as given up"
    );
}

#[test]
fn a_server_reads_writes_and_discovers() {
    let (mut rig, device) = Rig::observed(
        "lwm2m: { resources: { 3303/0/5701: Cel, 3303/0/5601: { value: 1.5, writable: true } } }",
    );
    let mut ask = |code, path: &str, numbers: &[(u16, u32)], payload: &[u8], id| {
        let answer = rig.ask(device, &request(code, id, &[id as u8], path, numbers, payload));
        let answer = Message::decode(&answer).unwrap();
        assert_eq!((answer.kind, answer.id, answer.token), (Kind::Acknowledgement, id, &[id as u8][..]));
        (answer.code, answer.payload.to_vec())
    };
    let text = [(option::ACCEPT, u32::from(format::TEXT))];
    assert_eq!(ask(code::GET, "/3303/0/5701", &text, b"", 10), (code::CONTENT, b"Cel".to_vec()));
    assert_eq!(ask(code::PUT, "/3303/0/5601", &[], b"2.25", 11).0, code::CHANGED);
    assert_eq!(ask(code::GET, "/3303/0/5601", &text, b"", 12), (code::CONTENT, b"2.25".to_vec()));
    assert_eq!(ask(code::PUT, "/3303/0/5701", &[], b"Far", 13).0, code::METHOD_NOT_ALLOWED);
    assert_eq!(ask(code::PUT, "/3303/0/5601", &[], b"warm", 14).0, code::BAD_REQUEST);
    assert_eq!(ask(code::GET, "/3303/1", &[], b"", 15).0, code::NOT_FOUND);
    assert_eq!(ask(code::GET, "/3/0/4", &[], b"", 16).0, code::METHOD_NOT_ALLOWED);
    assert_eq!(ask(code::PUT, "/3303/0/5601?pmin=1&gt=3", &[], b"", 17).0, code::CHANGED);
    let links = [(option::ACCEPT, u32::from(format::LINK))];
    let listed = b"</3303/0>,</3303/0/5601>;pmin=1;gt=3,</3303/0/5701>".to_vec();
    assert_eq!(ask(code::GET, "/3303/0", &links, b"", 18), (code::CONTENT, listed));
    assert_eq!(ask(code::GET, "/3303/0", &[(option::ACCEPT, 9999)], b"", 19).0, code::NOT_ACCEPTABLE);
    assert_eq!(ask(code::POST, "/1/0/1", &[], b"", 20).0, code::METHOD_NOT_ALLOWED);
    // The same request again gets the same answer, and is not served twice.
    assert_eq!(ask(code::PUT, "/3303/0/5601", &[], b"2.25", 11).0, code::CHANGED);
    assert_eq!(ask(code::PUT, "/19/0/0?st=1", &[], b"", 21).0, code::BAD_REQUEST, "messages have no steps");
}

#[test]
fn instances_come_and_go_and_the_server_is_told() {
    let (mut rig, device) =
        Rig::observed("lwm2m: { resources: { 3303/0/5601: { value: 1.5, writable: true } } }");
    let mut body = Vec::new();
    let value = plimsoll_codec::lwm2m::Value::Float(7.5);
    payload::write(
        format::TLV,
        Path::parse("3303").unwrap(),
        &[(Path::resource(3303, 4, 5601), value)],
        &mut body,
    );
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
    let created = rig.ask(device, &request(code::POST, 1, b"c", "/3303", &tlv, &body));
    let created = Message::decode(&created).unwrap();
    let location: Vec<&[u8]> = created
        .options()
        .filter(|(number, _)| *number == option::LOCATION_PATH)
        .map(|(_, value)| value)
        .collect();
    assert_eq!((created.code, location), (code::CREATED, vec![&b"3303"[..], b"4"]));
    let (_, update) = rig.next();
    let update = Message::decode(&update).unwrap();
    let listed = String::from_utf8(update.payload.to_vec()).unwrap();
    assert!(listed.ends_with("</3303/0>,</3303/4>"), "{listed}");
    rig.send(device, &answer(&update, code::CHANGED, &OptionList::new()));
    let text = [(option::ACCEPT, u32::from(format::TEXT))];
    let read = rig.ask(device, &request(code::GET, 2, b"r", "/3303/4/5601", &text, b""));
    assert_eq!(Message::decode(&read).unwrap().payload, b"7.5");
    let deleted = rig.ask(device, &request(code::DELETE, 3, b"d", "/3303/4", &[], b""));
    assert_eq!(Message::decode(&deleted).unwrap().code, code::DELETED);
    let (_, update) = rig.next();
    assert!(!String::from_utf8_lossy(Message::decode(&update).unwrap().payload).contains("/3303/4"));
}

/// As a server whose requests leave from other ports than the one for registrations: each port has its own observation.
#[test]
fn a_server_is_notified_at_each_port_that_observes() {
    let (mut rig, device) = Rig::observed("");
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let observe = request(code::GET, 5, b"two", MESSAGE, &[(option::OBSERVE, 0)], b"");
    other.send_to(&observe, device).unwrap();
    let mut room = [0; 2048];
    other.set_nonblocking(true).unwrap();
    let mut next = |rig: &mut Rig| loop {
        rig.turn();
        if let Ok((length, from)) = other.recv_from(&mut room) {
            assert_eq!(from, device);
            return room[..length].to_vec();
        }
    };
    let answer = next(&mut rig);
    assert_eq!(Message::decode(&answer).unwrap().kind, Kind::Acknowledgement);
    rig.driver.submit(0, 0);
    let notification = next(&mut rig);
    let notification = Message::decode(&notification).unwrap();
    assert_eq!((notification.token, notification.number(option::OBSERVE)), (&b"two"[..], Some(1)));
    other.send_to(&bytes(Message::empty(Kind::Acknowledgement, notification.id)), device).unwrap();
    let (_, first) = rig.next();
    let first = Message::decode(&first).unwrap();
    assert_eq!((first.token, notified(&first)), (&b"obs"[..], notified(&notification)));
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, first.id)));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Acknowledged { .. })) == 1);
}

#[test]
fn whoever_else_sends_something_is_not_heard() {
    let (mut rig, device) = Rig::observed("");
    let stranger = UdpSocket::bind("127.0.0.9:0").unwrap();
    stranger.send_to(&request(code::GET, 1, b"x", "/3/0/0", &[], b""), device).unwrap();
    rig.send(device, b"\xff\xff");
    // A request in an acknowledgement is none.
    let mut odd = request(code::GET, 1, b"x", "/3/0/0", &[], b"");
    odd[0] |= 0x20;
    rig.send(device, &odd);
    assert!(rig.is_silent(Nanos::from_millis(50)));
    assert_eq!(rig.count(|event| matches!(event, Event::Incident { .. })), 1, "the garbage of the server");
}

/// What a device answered may be lost: it restarts once, though the order comes again in its next life.
#[test]
fn a_device_restarts_once_however_often_the_order_comes() {
    let (mut rig, device) = Rig::observed("");
    let order = request(code::POST, 2, b"r", "/3/0/4", &[], b"");
    let done = rig.ask(device, &order);
    rig.register("rd/6");
    rig.until(|rig| rig.count(|event| matches!(event, Event::Disconnected { .. })) == 1);
    rig.send(device, &order);
    assert_eq!(rig.next().1, done, "it is answered as before");
    assert!(rig.is_silent(Nanos::from_millis(50)), "and nothing else is done");
    assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), 1);
}

/// It is equal to nothing, itself included: whoever observed it would be notified without end.
#[test]
fn a_server_cannot_write_what_is_no_number() {
    let (mut rig, device) =
        Rig::observed("lwm2m: { resources: { 3303/0/5601: { value: 1.5, writable: true } } }");
    for (id, number) in (10..).zip([f64::NAN, f64::INFINITY, 2.5]) {
        let (mut body, path) = (Vec::new(), Path::resource(3303, 0, 5601));
        let value = plimsoll_codec::lwm2m::Value::Float(number);
        payload::write(format::TLV, path, &[(path, value)], &mut body);
        let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
        let answer = rig.ask(device, &request(code::PUT, id, b"w", "/3303/0/5601", &tlv, &body));
        let expected = if number.is_finite() { code::CHANGED } else { code::BAD_REQUEST };
        assert_eq!(Message::decode(&answer).unwrap().code, expected, "{number}");
    }
}

/// In queue mode, a device listens for a while after it sent something.
#[test]
fn a_device_in_queue_mode_sleeps_until_it_has_something_to_say() {
    let (mut rig, device) = Rig::observed("lwm2m: { queue_mode: true, awake: 1s }");
    let ask = |id: u16| request(code::GET, id, b"now", "/3/0/0", &[], b"");
    assert_eq!(Message::decode(&rig.ask(device, &ask(7))).unwrap().code, code::CONTENT);
    std::thread::sleep(Duration::from_millis(1_050));
    rig.send(device, &ask(8));
    assert!(rig.is_silent(Nanos::from_millis(50)), "it sleeps");
    rig.driver.submit(0, 0);
    let id = Message::decode(&rig.next().1).unwrap().id;
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, id)));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Acknowledged { .. })) == 1);
    assert_eq!(Message::decode(&rig.ask(device, &ask(9))).unwrap().code, code::CONTENT);
    assert_eq!(rig.driver.take_traffic().unheard, 1);
}

/// As behind a NAT: the device does not know that it has another port.
#[test]
fn a_device_comes_from_another_port_after_a_while() {
    for connection in ["", "connection: { timeout: 9s, source_addresses: [127.0.0.1] }\n"] {
        let (mut rig, device) = Rig::observed(&format!("{connection}lwm2m: {{ nat_rebinding: 1s }}"));
        let (mut sequence, mut ports) = (0, BTreeSet::from([device.port()]));
        while ports.len() < 2 {
            rig.driver.submit(0, sequence);
            let is_it = |event: &Event| matches!(event, Event::Acknowledged { sequence: own, .. } if *own == sequence);
            // An acknowledgement that comes where nobody is any more is lost: the device says it again.
            while rig.count(is_it) == 0 {
                let (from, datagram) = rig.next();
                ports.insert(from.port());
                let id = Message::decode(&datagram).unwrap().id;
                rig.send(from, &bytes(Message::empty(Kind::Acknowledgement, id)));
                rig.is_silent(Nanos::from_millis(5));
            }
            sequence += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        rig.send(device, &request(code::GET, 99, b"late", "/3/0/0", &[], b""));
        assert!(rig.is_silent(Nanos::from_millis(50)), "nobody is at the old port any more");
        assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. } | Event::Stray)), 0);
    }
}
