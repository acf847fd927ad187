//! Subscribers over CoAP against a scripted platform: those that observe, and those that listen.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_codec::marker::Marker;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::DriverContext;
use plimsoll_load::drivers::coap::{CoapListenerDriver, ObserverDriver};
use plimsoll_load::roles::listening::Listening;
use plimsoll_load::run_context::RunContext;
use plimsoll_load::share::Share;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{Plan, Protocol};
use plimsoll_scenario::{Environment, SourceFile, load};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// A test that waits longer than this hangs.
const LONGEST: Nanos = Nanos::from_secs(20);
fn run() -> RunId {
    RunId::from_bits(7)
}

fn plan(address: SocketAddr, subscriber: &str) -> Arc<Plan> {
    let profile = format!(
        "name: scripted\ntitle: scripted\ndevice: {{ speaks: coap, marker: ascii }}\nsubscriber: {subscriber}\ncomponents: []\n"
    );
    let text = format!(
        "name: scripted\nplatform: {{ profile: ./scripted.yaml, address: \"coap://{address}\" }}\n\
         population: {{ devices: 2, subscribers: 1 }}\nmqtt: {{ reconnect: {{ from: 10ms, to: 20ms }} }}\n\
         coap: {{ ack_timeout: 100ms }}\nload: {{ levels: [1] }}\n"
    );
    let profile = move |_: &str| Ok(profile.clone());
    let environment = Environment { profile: &profile, variable: &|_| None };
    let plan = load(&SourceFile { name: "test".into(), text }, &[], &environment);
    Arc::new(plan.unwrap_or_else(|found| panic!("{found}")))
}

fn context(plan: &Arc<Plan>, address: SocketAddr, clock: Clock) -> DriverContext {
    let run_context = Arc::default();
    DriverContext {
        plan: Arc::clone(plan),
        run: run(),
        address,
        share: Share::WHOLE,
        subscribers: (Share::WHOLE, plan.subscribers.count),
        clock,
        bootstrap: None,
        run_context,
        service: None,
    }
}

fn bytes(message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn options(list: &[(u16, u32)]) -> Vec<u8> {
    let (mut options, mut out) = (OptionList::new(), Vec::new());
    list.iter().for_each(|(number, value)| options.add_number(*number, *value));
    options.encode(&mut out);
    out
}

fn content(sequence: u32) -> Vec<u8> {
    let mut text = b"value ".to_vec();
    Marker { run: run().tag(), device: 0, sequence }.write_ascii(&mut text);
    text
}

/// Turns the driver while the platform, which is this test, waits for a datagram.
fn hear<D: Driver>(driver: &mut D, socket: &UdpSocket, events: &mut Vec<Event>) -> (Vec<u8>, SocketAddr) {
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let end = driver.now() + LONGEST;
    let mut room = [0; 2048];
    loop {
        driver.poll(driver.now() + Nanos::from_millis(1), events);
        if let Ok((length, from)) = socket.recv_from(&mut room) {
            return (room[..length].to_vec(), from);
        }
        assert!(driver.now() < end, "nothing came: {events:?}");
    }
}

fn until<D: Driver>(driver: &mut D, events: &mut Vec<Event>, wanted: impl Fn(&Event) -> bool) {
    let end = driver.now() + LONGEST;
    while !events.iter().any(&wanted) {
        assert!(driver.now() < end, "it never came: {events:?}");
        driver.poll(driver.now() + Nanos::from_millis(2), events);
    }
}

fn received(events: &[Event]) -> Vec<u32> {
    let sequences = events.iter().filter_map(|event| match event {
        Event::Received { marker, .. } => Some(marker.map_or(u32::MAX, |marker| marker.sequence)),
        _ => None,
    });
    sequences.collect()
}

fn is_ready(event: &Event) -> bool {
    matches!(event, Event::Ready { .. })
}

#[test]
fn an_observer_registers_orders_acknowledges_and_registers_anew() {
    let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = platform.local_addr().unwrap();
    let plan = plan(address, "{ observes: { path: '/d{device}?x', options: { 17: 50 } }, delivery: latest }");
    let role = plan.platform.roles.observes.clone().unwrap();
    let clock = Clock::start();
    let mut driver = ObserverDriver::new(&context(&plan, address, clock), &role).unwrap();
    let mut events = Vec::new();
    assert!(driver.connect(Client::Subscriber(0)));

    // Both registrations; the first is lost once and comes again as it was.
    let (first, from) = hear(&mut driver, &platform, &mut events);
    let mut other = hear(&mut driver, &platform, &mut events).0;
    while other == first {
        other = hear(&mut driver, &platform, &mut events).0;
    }
    let (again, _) = hear(&mut driver, &platform, &mut events);
    assert!(again == first || again == other);
    let mut tokens = Vec::new();
    for (datagram, path) in [(&first, "/d0"), (&other, "/d1")] {
        let request = Message::decode(datagram).unwrap();
        assert_eq!(
            (request.kind, request.code, request.path()),
            (Kind::Confirmable, code::GET, path.to_owned())
        );
        assert_eq!((request.number(option::OBSERVE), request.number(17)), (Some(0), Some(50)));
        assert_eq!(request.option(option::URI_QUERY), Some(&b"x"[..]));
        tokens.push(request.token.to_vec());
        let options = options(&[(option::OBSERVE, 10)]);
        let kind = Kind::Acknowledgement;
        // What the resource held before is no notification.
        let answer = Message { kind, code: code::CONTENT, options: &options, payload: b"old", ..request };
        platform.send_to(&bytes(answer), from).unwrap();
    }
    until(&mut driver, &mut events, is_ready);
    assert!(received(&events).is_empty());

    // Newer, older, the same again, newer.
    let notify = |number: u32, sequence: u32, kind: Kind| {
        let (options, payload) = (options(&[(option::OBSERVE, number)]), content(sequence));
        let (code, token) = (code::CONTENT, &tokens[0][..]);
        let id = 1000 + sequence as u16;
        let message = Message { kind, code, id, token, options: &options, payload: &payload };
        platform.send_to(&bytes(message), from).unwrap();
    };
    notify(12, 1, Kind::NonConfirmable);
    notify(11, 0, Kind::NonConfirmable);
    notify(13, 2, Kind::Confirmable);
    notify(13, 2, Kind::Confirmable);
    notify(15, 3, Kind::NonConfirmable);
    let is_last =
        |event: &Event| matches!(event, Event::Received { marker: Some(marker), .. } if marker.sequence == 3);
    until(&mut driver, &mut events, is_last);
    assert_eq!(received(&events), [1, 2, 3]);
    let mut acknowledged = 0;
    while acknowledged < 2 {
        let (datagram, _) = hear(&mut driver, &platform, &mut events);
        acknowledged += usize::from(datagram == bytes(Message::empty(Kind::Acknowledgement, 1002)));
    }

    // A notification for nobody is rejected; an error ends the observation, and all is registered anew.
    events.clear();
    let nobody = Message {
        kind: Kind::Confirmable,
        code: code::CONTENT,
        id: 5,
        token: b"nobody",
        options: &[],
        payload: b"",
    };
    platform.send_to(&bytes(nobody), from).unwrap();
    assert_eq!(hear(&mut driver, &platform, &mut events).0, bytes(Message::empty(Kind::Reset, 5)));
    assert!(events.contains(&Event::Stray));
    let gone = Message {
        kind: Kind::NonConfirmable,
        code: code::NOT_FOUND,
        token: &tokens[0],
        payload: b"gone",
        ..nobody
    };
    platform.send_to(&bytes(gone), from).unwrap();
    until(
        &mut driver,
        &mut events,
        |event| matches!(event, Event::Disconnected { reason, .. } if reason.contains("4.04: gone")),
    );
    for _ in 0..2 {
        let (datagram, from) = hear(&mut driver, &platform, &mut events);
        let request = Message::decode(&datagram).unwrap();
        let options = options(&[(option::OBSERVE, 1)]);
        // The one still holds what was notified, the other what was not.
        let payload = content(if request.path() == "/d0" { 3 } else { 4 });
        let (kind, code) = (Kind::Acknowledgement, code::CONTENT);
        let answer = Message { kind, code, options: &options, payload: &payload, ..request };
        platform.send_to(&bytes(answer), from).unwrap();
    }
    until(&mut driver, &mut events, |event| matches!(event, Event::Ready { again: true, .. }));
    assert_eq!(received(&events), [4]);

    // It says goodbye.
    driver.disconnect();
    let (datagram, _) = hear(&mut driver, &platform, &mut events);
    assert_eq!(Message::decode(&datagram).unwrap().number(option::OBSERVE), Some(1));
}

#[test]
fn an_observer_registers_anew_when_what_it_has_is_stale() {
    let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = platform.local_addr().unwrap();
    let plan = plan(address, "{ observes: { path: /all } }");
    let role = plan.platform.roles.observes.clone().unwrap();
    let clock = Clock::start();
    let mut driver = ObserverDriver::new(&context(&plan, address, clock), &role).unwrap();
    let mut events = Vec::new();
    assert!(driver.connect(Client::Subscriber(0)));
    let (datagram, from) = hear(&mut driver, &platform, &mut events);
    let request = Message::decode(&datagram).unwrap();
    let options = options(&[(option::OBSERVE, 3), (option::MAX_AGE, 0)]);
    let answer = Message { kind: Kind::Acknowledgement, code: code::CONTENT, options: &options, ..request };
    platform.send_to(&bytes(answer), from).unwrap();
    until(&mut driver, &mut events, is_ready);
    let registered = driver.now();
    let (datagram, _) = hear(&mut driver, &platform, &mut events);
    let again = Message::decode(&datagram).unwrap();
    assert_eq!((again.number(option::OBSERVE), again.token), (Some(0), request.token));
    assert!(driver.now() - registered >= Nanos::from_millis(4_900));
    assert_eq!(events.iter().filter(|event| is_ready(event)).count(), 1);
}

#[test]
fn a_listener_answers_each_notification_and_counts_it_once() {
    let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = plan(platform.local_addr().unwrap(), "{ listens: coap, status: 201, options: { 307: 2000 } }");
    let role = plan.platform.roles.listener.clone().unwrap();
    let listening = Listening::bind(Protocol::Coap, platform.local_addr().unwrap(), 1, 0).unwrap();
    let here = listening.addresses()[0];
    assert_eq!(listening.url(0), format!("coap://{here}/0"));
    let socket = listening.socket(0).unwrap().into();
    let context = context(&plan, platform.local_addr().unwrap(), Clock::start());
    let mut driver = CoapListenerDriver::new(&context, &role, socket).unwrap();
    let mut events = Vec::new();
    let ask = |driver: &mut CoapListenerDriver, events: &mut Vec<Event>, message: Message<'_>| {
        platform.send_to(&bytes(message), here).unwrap();
        hear(driver, &platform, events).0
    };
    let mut list = OptionList::new();
    list.add_target(b"0/n");
    let (mut path, payload) = (Vec::new(), content(9));
    list.encode(&mut path);
    let path_of_first = path.clone();
    let request = Message {
        kind: Kind::Confirmable,
        code: code::POST,
        id: 1,
        token: b"a",
        options: &path_of_first,
        payload: &payload,
    };

    for _ in 0..2 {
        let answer = ask(&mut driver, &mut events, request);
        let answer = Message::decode(&answer).unwrap();
        assert_eq!(
            (answer.kind, answer.code, answer.id, answer.token),
            (Kind::Acknowledgement, code::CREATED, 1, &b"a"[..])
        );
        assert_eq!(answer.number(307), Some(2000));
    }
    assert_eq!(received(&events), [9]);
    // The same id with another token is another one.
    ask(&mut driver, &mut events, Message { token: b"b", ..request });
    assert_eq!(received(&events), [9, 9]);
    let answer = ask(&mut driver, &mut events, Message { kind: Kind::NonConfirmable, id: 2, ..request });
    assert_eq!(Message::decode(&answer).unwrap().kind, Kind::NonConfirmable);

    // In blocks, one of them missing.
    events.clear();
    let long = [content(4), vec![b'.'; 40]].concat();
    let block = |number: u32, more: bool, id: u16| {
        let mut list = OptionList::new();
        list.add_target(b"0");
        list.add_number(option::BLOCK1, Block::new(number, more, 32).to_number());
        let mut options = Vec::new();
        list.encode(&mut options);
        let begin = number as usize * 32;
        let payload = &long[begin..(begin + 32).min(long.len())];
        bytes(Message {
            kind: Kind::Confirmable,
            code: code::POST,
            id,
            token: b"c",
            options: &options,
            payload,
        })
    };
    let last = (long.len() as u32 - 1) / 32;
    let mut codes = Vec::new();
    for (id, number) in [(10, 0), (11, 2), (12, 1), (13, last)] {
        let datagram = block(number, number < last, id);
        platform.send_to(&datagram, here).unwrap();
        codes.push(hear(&mut driver, &platform, &mut events).0[1]);
    }
    assert_eq!(codes[0], code::CONTINUE);
    assert_eq!(codes[3], code::CREATED, "{codes:x?}");
    assert_eq!(received(&events), [4]);

    // Somebody unknown, a ping, and what is no message at all.
    let mut nobody = OptionList::new();
    nobody.add_target(b"7");
    path.clear();
    nobody.encode(&mut path);
    let answer = ask(&mut driver, &mut events, Message { id: 20, options: &path, ..request });
    assert_eq!(answer[1], code::NOT_FOUND);
    platform.send_to(b"\xff\xff", here).unwrap();
    let answer = ask(&mut driver, &mut events, Message::empty(Kind::Confirmable, 21));
    assert_eq!(answer, bytes(Message::empty(Kind::Reset, 21)));
    assert_eq!(received(&events), [4]);
}

/// An observer shows the access token, and one that is refused is to be renewed.
#[test]
fn an_observer_that_is_not_let_in_asks_for_another_access_token() {
    let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = platform.local_addr().unwrap();
    let token = "token: { url: /token, grant: client_credentials, client_id: me }";
    let plan =
        plan(address, &format!("{{ observes: {{ path: /d, options: {{ 2049: '{{token}}' }} }} }}\n{token}"));
    let role = plan.platform.roles.observes.clone().unwrap();
    let run_context = Arc::new(RunContext::default());
    run_context.token.renew("sesame");
    let clock = Clock::start();
    let context = DriverContext { run_context: Arc::clone(&run_context), ..context(&plan, address, clock) };
    let mut driver = ObserverDriver::new(&context, &role).unwrap();
    let mut events = Vec::new();
    assert!(driver.connect(Client::Subscriber(0)));
    let (first, from) = hear(&mut driver, &platform, &mut events);
    let request = Message::decode(&first).unwrap();
    assert_eq!(request.option(2049), Some(&b"sesame"[..]));
    assert!(!run_context.token.is_refused());
    let (kind, payload) = (Kind::Acknowledgement, b"no good: sesame".as_slice());
    platform.send_to(&bytes(Message { kind, code: 0x81, options: &[], payload, ..request }), from).unwrap();
    let refused = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains("no good: sesame"));
    until(&mut driver, &mut events, refused);
    assert!(run_context.token.is_refused());
}
