//! What a profile says of connections: requests with which they begin, subscribers that observe, queriers.

use super::{Came, Rig, Side, bytes, is_ready};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::stream::signal;
use plimsoll_codec::coap::{code, option};
use plimsoll_codec::marker::Marker;
use plimsoll_load::driver::{Client, Event};
use plimsoll_load::drivers::driver_of;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Protocol;
use serde_json::{Value, json};

const PROFILE: &str = r#"
name: scripted
title: scripted
device:
  speaks: coap_tcp
  marker: ascii
  log_in:
    - path: /session
      body_format: cbor
      body: '{"di": "d{device}", "login": true}'
      expect: [204]
    - { method: GET, path: /welcome }
  serves: { path: "/state/{device}", body_format: cbor, body: '{"of": {device}}' }
  request: { path: "/in/{device}", body_format: cbor, body: '{"n": {device}, "value": "{message}"}' }
subscriber:
  observes: { path: "/out/{device}" }
  log_in: [{ path: /session, body: "s{subscriber}" }]
  delivery: every
querier:
  log_in: [{ path: /session, body: "q" }]
  request: { method: GET, path: "/out/{device}" }
components: []
"#;

fn devices(devices: u32, more: &str) -> Rig {
    let more = format!("population: {{ devices: {devices} }}\n{more}");
    let mut rig = Rig::of(Some(PROFILE), &more, |context| {
        (driver_of(Protocol::CoapTcp).unwrap().devices)(context).unwrap()
    });
    (0..devices).for_each(|device| assert!(rig.driver.connect(Client::Device(device))));
    rig
}

/// Two devices and a subscriber that follows both.
fn subscriber(more: &str) -> Rig {
    let more = format!("population: {{ devices: 2, subscribers: 1 }}\n{more}");
    let mut rig = Rig::of(Some(PROFILE), &more, |context| {
        let role = context.plan.platform.roles.observes.clone().unwrap();
        driver_of(Protocol::CoapTcp).unwrap().observers.unwrap()(context, &role).unwrap()
    });
    assert!(rig.driver.connect(Client::Subscriber(0)));
    rig
}

/// A connection over which both sides have said what they take.
fn settled(rig: &mut Rig) -> Side {
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side).code, signal::CSM);
    side.say(signal::CSM, b"", &[], b"");
    side
}

fn path(came: &Came) -> String {
    came.message().path()
}

fn value(came: &Came) -> Value {
    assert_eq!(came.message().content_format(), Some(60));
    cbor::to_json(&came.payload).unwrap()
}

#[test]
fn a_connection_begins_with_the_requests_that_let_it_in() {
    let mut rig = devices(1, "");
    rig.driver.submit(0, 1);
    let mut side = settled(&mut rig);
    let first = rig.next(&mut side);
    assert_eq!((path(&first).as_str(), first.code), ("/session", code::POST));
    assert_eq!(value(&first), json!({"di": "d0", "login": true}));
    side.say(code::CHANGED, &first.token, &[], b"");
    let second = rig.next(&mut side);
    assert_eq!((path(&second).as_str(), second.code, second.payload.len()), ("/welcome", code::GET, 0));
    assert_eq!(rig.count(is_ready), 0, "it is not let in yet");
    side.say(code::CONTENT, &second.token, &[], b"hello");
    let message = rig.next(&mut side);
    assert_eq!(path(&message), "/in/0");
    let said = value(&message);
    assert_eq!(said["n"], json!(0));
    assert!(said["value"].as_str().unwrap().contains(&marker(0, 1)), "{said}");
    assert_eq!(rig.count(is_ready), 1);
}

fn marker(device: u32, sequence: u32) -> String {
    let mut text = Vec::new();
    Marker { run: RunId::from_bits(7).tag(), device, sequence }.write_ascii(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn a_device_answers_what_it_is_asked_over_its_connection() {
    let mut rig = devices(1, "");
    let mut side = settled(&mut rig);
    for answer in [code::CHANGED, code::CONTENT] {
        let asked = rig.next(&mut side);
        side.say(answer, &asked.token, &[], b"");
    }
    rig.until(|rig| rig.count(is_ready) == 1);
    rig.events.clear();
    for (asked, observe, expected) in
        [("/state/0", Some(0), code::CONTENT), ("/state/1", None, code::NOT_FOUND)]
    {
        side.ask(code::GET, b"abcdefgh", asked, observe);
        let answer = rig.next(&mut side);
        assert_eq!(
            (answer.code, &answer.token[..], path(&answer).as_str()),
            (expected, &b"abcdefgh"[..], asked)
        );
        assert_eq!(answer.message().number(option::OBSERVE), observe);
        if expected == code::CONTENT {
            assert_eq!(value(&answer), json!({"of": 0}));
        }
    }
    side.ask(code::DELETE, b"x", "/state/0", None);
    assert_eq!(rig.next(&mut side).code, code::NOT_FOUND);
    assert_eq!(rig.count(|event| matches!(event, Event::Stray)), 2, "what it has not got");
}

#[test]
fn who_is_not_let_in_says_why() {
    let mut rig = devices(1, "");
    let mut side = settled(&mut rig);
    let first = rig.next(&mut side);
    side.say(code::of_status(401).unwrap(), &first.token, &[], b"token is expired");
    let reason = rig.reason();
    assert!(
        reason.contains("not let in") && reason.contains("4.01: token is expired (POST /session)"),
        "{reason}"
    );
    // Nobody answers, either.
    let mut rig = devices(1, "");
    let mut side = settled(&mut rig);
    rig.next(&mut side);
    let reason = rig.reason();
    assert!(reason.contains("did not answer the request to be let in within 400 ms"), "{reason}");
}

#[test]
fn an_answer_that_comes_twice_lets_nobody_in() {
    let mut rig = devices(1, "");
    let mut side = settled(&mut rig);
    let first = rig.next(&mut side);
    side.say(code::CHANGED, &first.token, &[], b"");
    side.say(code::CHANGED, &first.token, &[], b"");
    let second = rig.next(&mut side);
    rig.until(|rig| rig.count(|event| matches!(event, Event::Stray)) == 1);
    assert_eq!(rig.count(is_ready), 0, "the second request has no answer yet");
    side.say(code::CONTENT, &second.token, &[], b"");
    rig.until(|rig| rig.count(is_ready) == 1);
}

#[test]
fn devices_that_share_a_connection_are_let_in_once() {
    let mut rig = devices(5, "coap: { sockets: 1 }");
    let mut side = settled(&mut rig);
    for answer in [code::CHANGED, code::CONTENT] {
        let asked = rig.next(&mut side);
        side.say(answer, &asked.token, &[], b"");
    }
    rig.until(|rig| rig.count(is_ready) == 5);
    (0..5).for_each(|device| rig.driver.submit(device, 1));
    let mut said: Vec<u64> = (0..5).map(|_| value(&rig.next(&mut side))["n"].as_u64().unwrap()).collect();
    said.sort_unstable();
    assert_eq!(said, [0, 1, 2, 3, 4]);
}

/// Lets the subscriber in, and takes its requests to be notified.
fn registrations(rig: &mut Rig) -> (Side, Vec<Came>) {
    let mut side = settled(rig);
    let asked = rig.next(&mut side);
    assert_eq!((path(&asked).as_str(), &asked.payload[..]), ("/session", &b"s0"[..]));
    side.say(code::CHANGED, &asked.token, &[], b"");
    let asked: Vec<Came> = (0..2).map(|_| rig.next(&mut side)).collect();
    for (device, came) in asked.iter().enumerate() {
        assert_eq!((path(came), came.code), (format!("/out/{device}"), code::GET));
        assert_eq!(came.message().number(option::OBSERVE), Some(0));
    }
    (side, asked)
}

fn received(rig: &Rig) -> Vec<(u32, u32)> {
    let of = |event: &Event| match event {
        Event::Received { marker: Some(marker), subscriber: 0, .. } => Some((marker.device, marker.sequence)),
        _ => None,
    };
    rig.events.iter().filter_map(of).collect()
}

#[test]
fn a_subscriber_is_ready_when_all_its_resources_have_answered_and_gets_every_notification() {
    let mut rig = subscriber("");
    let (mut side, asked) = registrations(&mut rig);
    side.say(code::CONTENT, &asked[0].token, &[(option::OBSERVE, 1)], b"nothing yet");
    rig.until(|rig| rig.clock.now() > plimsoll_model::Nanos::from_millis(50));
    assert_eq!(rig.count(is_ready), 0);
    // What the second one holds is of this run: it counts, and is no notification.
    side.say(code::CONTENT, &asked[1].token, &[(option::OBSERVE, 1)], marker(1, 7).as_bytes());
    rig.until(|rig| rig.count(is_ready) == 1);
    // Numbers mean nothing over TCP (RFC 8323 section 7.1): what comes is in order. Many come in pieces, and in one packet.
    let mut bytes_of_all = Vec::new();
    for sequence in 0..200 {
        let payload = marker(0, sequence);
        bytes_of_all.extend(bytes(
            code::CONTENT,
            &asked[0].token,
            &[(option::OBSERVE, 0)],
            payload.as_bytes(),
        ));
    }
    for piece in bytes_of_all.chunks(777) {
        std::io::Write::write_all(&mut side.socket, piece).unwrap();
        rig.turn();
    }
    rig.until(|rig| received(rig).len() == 201);
    let expected: Vec<(u32, u32)> =
        [(1, 7)].into_iter().chain((0..200).map(|sequence| (0, sequence))).collect();
    assert_eq!(received(&rig), expected);
    assert_eq!(rig.driver.take_traffic().notifications.count, 200);
}

#[test]
fn a_resource_that_cannot_be_observed_is_told_and_all_is_registered_again() {
    for (answer, said) in
        [(code::NOT_FOUND, "request to observe 4.04: no topic"), (code::CONTENT, "has no Observe option")]
    {
        // At the beginning, whoever connects decides what follows.
        let mut rig = subscriber("");
        let (mut side, asked) = registrations(&mut rig);
        side.say(answer, &asked[0].token, &[], b"no topic");
        let reason = rig.reason();
        assert!(reason.contains(said), "{reason}");
        // Later, the subscriber connects again by itself.
        let mut rig = subscriber("");
        let (mut side, asked) = registrations(&mut rig);
        asked.iter().for_each(|came| side.say(code::CONTENT, &came.token, &[(option::OBSERVE, 0)], b""));
        rig.until(|rig| rig.count(is_ready) == 1);
        side.say(answer, &asked[0].token, &[], b"no topic");
        rig.until(|rig| rig.count(|event| matches!(event, Event::Disconnected { .. })) == 1);
        rig.events.clear();
        let (mut side, asked) = registrations(&mut rig);
        asked.iter().for_each(|came| side.say(code::CONTENT, &came.token, &[(option::OBSERVE, 0)], b""));
        rig.until(|rig| rig.count(is_ready) == 1);
    }
}

#[test]
fn an_observation_ends_with_its_connection() {
    let mut rig = subscriber("");
    let (mut side, asked) = registrations(&mut rig);
    asked.iter().for_each(|came| side.say(code::CONTENT, &came.token, &[(option::OBSERVE, 0)], b""));
    rig.until(|rig| rig.count(is_ready) == 1);
    side.say(code::CONTENT, &asked[0].token, &[(option::OBSERVE, 1)], marker(0, 4).as_bytes());
    rig.until(|rig| received(rig).len() == 1);
    drop(side);
    rig.until(|rig| rig.count(|event| matches!(event, Event::Disconnected { .. })) == 1);
    rig.events.clear();
    let (mut side, asked) = registrations(&mut rig);
    // The first resource holds what came before, the second what came meanwhile.
    for (device, came) in asked.iter().enumerate() {
        side.say(code::CONTENT, &came.token, &[(option::OBSERVE, 0)], marker(device as u32, 4).as_bytes());
    }
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { again: true, .. })) == 1);
    assert_eq!(received(&rig), [(1, 4)]);
}

#[test]
fn a_request_to_observe_that_is_not_answered_is_a_reason() {
    let mut rig = subscriber("coap: { timeout: 300ms }");
    let (mut side, asked) = registrations(&mut rig);
    side.say(code::CONTENT, &asked[0].token, &[(option::OBSERVE, 0)], b"");
    let reason = rig.reason();
    assert!(reason.starts_with("the platform answered 1 of 2 requests to observe (GET /"), "{reason}");
    assert!(reason.ends_with("no further one within 300 ms"), "{reason}");
}

#[test]
fn a_platform_that_answers_no_ping_is_gone() {
    let mut rig = subscriber("coap: { ping: 100ms }");
    let (mut side, asked) = registrations(&mut rig);
    asked.iter().for_each(|came| side.say(code::CONTENT, &came.token, &[(option::OBSERVE, 0)], b""));
    rig.until(|rig| rig.count(is_ready) == 1);
    for _ in 0..2 {
        let ping = rig.next(&mut side);
        assert_eq!(ping.code, signal::PING);
        side.say(signal::PONG, &ping.token, &[], b"");
    }
    assert_eq!(rig.next(&mut side).code, signal::PING);
    let reason = rig.reason();
    assert!(reason.contains("neither a request nor a ping for 100 ms"), "{reason}");
    // A device's connection is looked after in the same way.
    let (mut rig, mut side) = Rig::ready(1, "coap: { ping: 100ms }", &[]);
    assert_eq!(rig.next(&mut side).code, signal::PING);
    let reason = rig.reason();
    assert!(reason.contains("neither a request nor a ping for 100 ms"), "{reason}");
}

#[test]
fn queries_of_a_shard_share_a_connection_that_is_made_for_the_first() {
    let more = "population: { devices: 3 }\nnorthbound: { rate: 1, queriers: 2 }\n";
    let mut rig = Rig::of(Some(PROFILE), more, |context| {
        driver_of(Protocol::CoapTcp).unwrap().queriers.unwrap()(context, 2).unwrap()
    });
    (0..3).for_each(|query| rig.driver.submit(query % 3, query));
    let mut side = settled(&mut rig);
    let asked = rig.next(&mut side);
    assert_eq!((path(&asked).as_str(), &asked.payload[..]), ("/session", &b"q"[..]));
    side.say(code::CHANGED, &asked.token, &[], b"");
    let first: Vec<Came> = (0..2).map(|_| rig.next(&mut side)).collect();
    let paths: Vec<String> = first.iter().map(path).collect();
    assert_eq!(paths, ["/out/0", "/out/1"], "two queriers ask, and the third query waits");
    for _ in 0..20 {
        rig.turn();
        assert!(side.read() && side.cut().is_none());
    }
    side.say(code::CONTENT, &first[0].token, &[], b"21");
    let third = rig.next(&mut side);
    assert_eq!((path(&third).as_str(), third.code, third.payload.len()), ("/out/2", code::GET, 0));
    side.say(code::CONTENT, &third.token, &[], b"22");
    side.say(code::CONTENT, &first[1].token, &[], b"23");
    rig.until(|rig| rig.count(|event| matches!(event, Event::Acknowledged { .. })) == 3);
}
