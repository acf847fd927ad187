//! What comes in blocks: large answers, what a server writes, new firmware. And devices that learn of their server from another one.

use crate::rig::*;
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Path, Value, format, payload};
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_model::Nanos;
use std::net::SocketAddr;

const FIRMWARE: &str =
    "lwm2m: { firmware: { install: 100ms }, resources: { 3303/0/5750: { value: x, writable: true } } }";
const TEXT: (u16, u32) = (option::ACCEPT, format::TEXT as u32);

fn block(number: u32, more: bool, size: u16) -> u32 {
    Block::new(number, more, size).to_number()
}

fn read(rig: &mut Rig, device: SocketAddr, id: u16, path: &str) -> String {
    let answer = rig.ask(device, &request(code::GET, id, &id.to_be_bytes(), path, &[TEXT], b""));
    String::from_utf8(Message::decode(&answer).unwrap().payload.to_vec()).unwrap()
}

#[test]
fn a_long_value_comes_and_goes_in_blocks_and_its_tag_shows_a_change() {
    let (mut rig, device) = Rig::observed(FIRMWARE);
    let long = "0123456789abcdef".repeat(200);
    let write = |rig: &mut Rig, text: &str, first: u16| {
        let blocks: Vec<&[u8]> = text.as_bytes().chunks(1024).collect();
        for (number, part) in blocks.iter().enumerate() {
            let is_last = number + 1 == blocks.len();
            let option = (option::BLOCK1, block(number as u32, !is_last, 1024));
            let id = first + number as u16;
            let answer = rig.ask(device, &request(code::PUT, id, b"w", "/3303/0/5750", &[option], part));
            let answer = Message::decode(&answer).unwrap();
            assert_eq!(answer.code, if is_last { code::CHANGED } else { code::CONTINUE });
            assert_eq!(answer.number(option::BLOCK1), Some(option.1));
        }
    };
    write(&mut rig, &long, 100);
    let part = |rig: &mut Rig, number: u32, id: u16| {
        let wanted = [TEXT, (option::BLOCK2, block(number, false, 512))];
        let datagram = rig.ask(device, &request(code::GET, id, b"r", "/3303/0/5750", &wanted, b""));
        let answer = Message::decode(&datagram).unwrap();
        let tag = answer.option(option::ETAG).unwrap().to_vec();
        (answer.block(option::BLOCK2).unwrap(), tag, String::from_utf8(answer.payload.to_vec()).unwrap())
    };
    let (mut all, mut tags) = (String::new(), Vec::new());
    for number in 0..7 {
        let (own, tag, text) = part(&mut rig, number, 200 + number as u16);
        assert_eq!((own.number, own.more, own.size()), (number, number < 6, 512));
        all += &text;
        tags.push(tag);
    }
    assert!(all == long && tags.windows(2).all(|pair| pair[0] == pair[1]));
    write(&mut rig, &long.to_uppercase(), 300);
    assert_ne!(part(&mut rig, 3, 400).1, tags[0], "the value has changed between two blocks");
    let beyond = [(option::BLOCK2, block(9, false, 512))];
    let answer = rig.ask(device, &request(code::GET, 401, b"r", "/3303/0/5750", &beyond, b""));
    assert_eq!(Message::decode(&answer).unwrap().code, code::BAD_REQUEST);
}

/// Serves an image of that size until the device has it; how many blocks were asked for.
fn serve_image(rig: &mut Rig, image: &[u8], size: u16) -> usize {
    let mut served = 0;
    loop {
        let (device, datagram) = rig.next();
        let asked = Message::decode(&datagram).unwrap();
        if asked.code != code::GET {
            continue;
        }
        assert_eq!(asked.path(), "/fw");
        let wanted = asked.block(option::BLOCK2).unwrap();
        let size = wanted.size().min(size);
        let parts: Vec<&[u8]> = image.chunks(size.into()).collect();
        let is_last = wanted.number as usize + 1 == parts.len();
        let (mut list, mut options) = (OptionList::new(), Vec::new());
        list.add(option::ETAG, b"v2");
        list.add_number(option::BLOCK2, block(wanted.number, !is_last, size));
        list.encode(&mut options);
        let payload = parts[wanted.number as usize];
        let kind = Kind::Acknowledgement;
        let answer = Message { kind, code: code::CONTENT, options: &options, payload, ..asked };
        rig.send(device, &bytes(answer));
        served += 1;
        if is_last {
            return served;
        }
    }
}

#[test]
fn a_device_downloads_firmware_and_installs_it() {
    let (mut rig, device) = Rig::observed(FIRMWARE);
    let image: Vec<u8> = (0..5000_u32).map(|at| at as u8).collect();
    let place = format!("coap://{}/fw", rig.server.local_addr().unwrap());
    let written = rig.ask(device, &request(code::PUT, 2, b"w", "/5/0/1", &[], place.as_bytes()));
    assert_eq!(Message::decode(&written).unwrap().code, code::CHANGED);
    // The server has smaller blocks than the device asks for first.
    assert_eq!(serve_image(&mut rig, &image, 256), 20);
    let is_there = |event: &Event| matches!(event, Event::Downloaded { took: Some(_), bytes: 5000 });
    rig.until(|rig| rig.count(is_there) == 1);
    assert_eq!(read(&mut rig, device, 3, "/5/0/3"), "2");
    let installing = rig.ask(device, &request(code::POST, 4, b"x", "/5/0/2", &[], b""));
    assert_eq!(Message::decode(&installing).unwrap().code, code::CHANGED);
    assert_eq!(read(&mut rig, device, 5, "/5/0/3"), "3");
    let (_, update) = rig.next();
    assert_eq!(Message::decode(&update).unwrap().path(), "/rd/5", "it says that it is there");
    rig.send(device, &answer(&Message::decode(&update).unwrap(), code::CHANGED, &OptionList::new()));
    assert_eq!(
        (read(&mut rig, device, 6, "/5/0/3"), read(&mut rig, device, 7, "/5/0/5")),
        ("0".into(), "1".into())
    );
}

#[test]
fn messages_go_on_while_firmware_is_downloaded() {
    let (mut rig, device) = Rig::observed(FIRMWARE);
    let place = format!("coap://{}/fw", rig.server.local_addr().unwrap());
    rig.ask(device, &request(code::PUT, 2, b"w", "/5/0/1", &[], place.as_bytes()));
    let (_, datagram) = rig.next();
    assert_eq!(Message::decode(&datagram).unwrap().path(), "/fw");
    rig.driver.submit(0, 0);
    assert!(rig.is_silent(Nanos::from_millis(30)), "one at a time (NSTART)");
    let asked = Message::decode(&datagram).unwrap();
    let (mut list, mut options) = (OptionList::new(), Vec::new());
    list.add_number(option::BLOCK2, block(0, true, 16));
    list.encode(&mut options);
    let kind = Kind::Acknowledgement;
    rig.send(
        device,
        &bytes(Message { kind, code: code::CONTENT, options: &options, payload: &[0; 16], ..asked }),
    );
    let (_, datagram) = rig.next();
    let notification = Message::decode(&datagram).unwrap();
    assert_eq!(notification.token, b"obs", "the message goes before the next block");
    rig.send(device, &bytes(Message::empty(Kind::Acknowledgement, notification.id)));
    let (_, datagram) = rig.next();
    assert_eq!(Message::decode(&datagram).unwrap().block(option::BLOCK2).unwrap().number, 1);
}

#[test]
fn a_download_that_fails_says_why() {
    let (mut rig, device) =
        Rig::observed(&format!("coap: {{ ack_timeout: 20ms, max_retransmit: 1 }}\n{FIRMWARE}"));
    let silent = format!("coap://{}/fw", rig.server.local_addr().unwrap());
    for (id, place, result) in
        [(10, "coap://192.0.2.1/fw", "7"), (20, "http://127.0.0.1/fw", "9"), (30, silent.as_str(), "4")]
    {
        rig.events.clear();
        rig.ask(device, &request(code::PUT, id, b"w", "/5/0/1", &[], place.as_bytes()));
        rig.until(|rig| rig.count(|event| matches!(event, Event::DownloadFailed { .. })) == 1);
        // What it had sent for it is still there.
        let mut room = [0; 2048];
        while rig.server.recv_from(&mut room).is_ok() {}
        assert_eq!(read(&mut rig, device, id + 1, "/5/0/5"), result, "{place}");
        assert_eq!(read(&mut rig, device, id + 2, "/5/0/3"), "0");
    }
    assert_eq!(
        rig.count(|event| matches!(event, Event::Disconnected { .. })),
        0,
        "it is registered all the same"
    );
}

#[test]
fn an_image_that_the_server_writes_is_there_at_its_last_block() {
    let (mut rig, device) = Rig::observed(FIRMWARE);
    let opaque = (option::CONTENT_FORMAT, u32::from(format::OPAQUE));
    for number in 0..3 {
        let own = (option::BLOCK1, block(number, number < 2, 1024));
        let answer = rig
            .ask(device, &request(code::PUT, 50 + number as u16, b"w", "/5/0/0", &[opaque, own], &[7; 1024]));
        let expected = if number < 2 { code::CONTINUE } else { code::CHANGED };
        assert_eq!(Message::decode(&answer).unwrap().code, expected);
    }
    assert_eq!(rig.count(|event| matches!(event, Event::Downloaded { took: None, bytes: 3072 })), 1);
    assert_eq!(read(&mut rig, device, 60, "/5/0/3"), "2");
    let answer = rig.ask(device, &request(code::GET, 61, b"r", "/5/0/0", &[], b""));
    assert_eq!(Message::decode(&answer).unwrap().code, code::METHOD_NOT_ALLOWED, "nobody reads it");
    rig.ask(device, &request(code::PUT, 62, b"w", "/5/0/0", &[opaque], b""));
    assert_eq!(read(&mut rig, device, 63, "/5/0/3"), "0", "an empty one takes it away");
}

/// What was cancelled is not installed, though that had begun.
#[test]
fn an_image_that_is_taken_away_is_not_installed() {
    let (mut rig, device) = Rig::observed("lwm2m: { firmware: { install: 300ms } }");
    let opaque = (option::CONTENT_FORMAT, u32::from(format::OPAQUE));
    rig.ask(device, &request(code::PUT, 50, b"w", "/5/0/0", &[opaque], b"image"));
    rig.ask(device, &request(code::POST, 51, b"x", "/5/0/2", &[], b""));
    assert_eq!(read(&mut rig, device, 52, "/5/0/3"), "3", "it is being installed");
    rig.ask(device, &request(code::PUT, 53, b"w", "/5/0/0", &[opaque], b""));
    assert!(rig.is_silent(Nanos::from_millis(400)), "an update would say that it was installed");
    assert_eq!(
        [54, 55].map(|id| read(&mut rig, device, id, ["/5/0/3", "/5/0/5"][usize::from(id - 54)])),
        ["0", "0"]
    );
}

/// What comes next to the bootstrap server.
fn next_at_bootstrap(rig: &mut Rig) -> (SocketAddr, Vec<u8>) {
    let (end, mut room) = (rig.clock.now() + LONGEST, [0; 2048]);
    loop {
        rig.turn();
        if let Ok((length, from)) = rig.bootstrap.recv_from(&mut room) {
            return (from, room[..length].to_vec());
        }
        assert!(rig.clock.now() < end, "nothing came: {:?}", rig.events);
    }
}

fn account(instance: u16, uri: &str, is_bootstrap: bool) -> Vec<u8> {
    let own = Path::parse(&format!("/0/{instance}")).unwrap();
    let of = |id| own.child(id).unwrap();
    let entries =
        [(of(0), Value::String(uri)), (of(1), Value::Boolean(is_bootstrap)), (of(10), Value::Integer(7))];
    let mut body = Vec::new();
    payload::write(format::TLV, own, &entries, &mut body);
    body
}

/// A bootstrap server tells of a server, the way another one does it, and is done.
fn bootstrap(rig: &mut Rig, device: SocketAddr, uri: &str) {
    let tlv = [(option::CONTENT_FORMAT, u32::from(format::TLV))];
    let mut lifetime = Vec::new();
    payload::write(
        format::TLV,
        Path::parse("/1/0").unwrap(),
        &[(Path::resource(1, 0, 1), Value::Integer(77))],
        &mut lifetime,
    );
    let steps = [
        (request(code::DELETE, 1, b"1", "/", &[], b""), code::DELETED),
        (request(code::PUT, 2, b"2", "/0/0", &tlv, &account(0, "coap://127.0.0.1:9", true)), code::CHANGED),
        (request(code::PUT, 3, b"3", "/0/1", &tlv, &account(1, uri, false)), code::CHANGED),
        (request(code::PUT, 4, b"4", "/1/0", &tlv, &lifetime), code::CHANGED),
        (request(code::POST, 5, b"5", "/bs", &[], b""), code::CHANGED),
    ];
    for (step, expected) in steps {
        rig.bootstrap.send_to(&step, device).unwrap();
        let (_, answer) = next_at_bootstrap(rig);
        assert_eq!(Message::decode(&answer).unwrap().code, expected);
    }
}

#[test]
fn a_device_learns_of_its_server_and_registers_there() {
    for connection in ["", "connection: { timeout: 400ms, source_addresses: [127.0.0.1] }\n"] {
        let mut rig = Rig::new(1, &format!("{connection}lwm2m: {{ bootstrap: true }}"));
        let (device, datagram) = next_at_bootstrap(&mut rig);
        let asked = Message::decode(&datagram).unwrap();
        assert_eq!((asked.code, asked.path().as_str()), (code::POST, "/bs"));
        assert_eq!(queries(&asked), ["ep=plimsoll-0"]);
        rig.bootstrap.send_to(&answer(&asked, code::CHANGED, &OptionList::new()), device).unwrap();
        let uri = format!("coap://{}", rig.server.local_addr().unwrap());
        bootstrap(&mut rig, device, &uri);
        let (from, datagram) = rig.next();
        let registration = Message::decode(&datagram).unwrap();
        assert_eq!((from, registration.path().as_str()), (device, "/rd"));
        assert!(queries(&registration).contains(&"lt=77".to_owned()), "{:?}", queries(&registration));
        rig.send(device, &created(&registration, "rd/5"));
        let observe = request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b"");
        assert_eq!(Message::decode(&rig.ask(device, &observe)).unwrap().code, code::CONTENT);
        let secret = rig.ask(device, &request(code::GET, 2, b"s", "/0/1/0", &[], b""));
        assert_eq!(Message::decode(&secret).unwrap().code, code::UNAUTHORIZED);
        rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
    }
}

#[test]
fn a_bootstrap_server_that_names_nobody_or_another_host_is_a_reason() {
    for (uri, expected) in [("coap://192.0.2.7:5683", "192.0.2.7"), ("", "named")] {
        let mut rig = Rig::new(1, "lwm2m: { bootstrap: true }");
        let (device, datagram) = next_at_bootstrap(&mut rig);
        let asked = Message::decode(&datagram).unwrap();
        rig.bootstrap.send_to(&answer(&asked, code::CHANGED, &OptionList::new()), device).unwrap();
        bootstrap(&mut rig, device, uri);
        let is_it = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains(expected) || uri.is_empty());
        rig.until(|rig| rig.count(is_it) == 1);
    }
}

#[test]
fn a_released_device_stays_where_it_is_though_its_bootstrap_server_goes_on() {
    let mut rig = Rig::new(1, "lwm2m: { bootstrap: true }");
    let (device, datagram) = next_at_bootstrap(&mut rig);
    let asked = Message::decode(&datagram).unwrap();
    rig.bootstrap.send_to(&answer(&asked, code::CHANGED, &OptionList::new()), device).unwrap();
    rig.until(|rig| rig.count(|event| matches!(event, Event::RoundTrip { .. })) == 1);
    rig.driver.release(Client::Device(0));
    let uri = format!("coap://{}", rig.server.local_addr().unwrap());
    bootstrap(&mut rig, device, &uri);
    assert!(rig.is_silent(Nanos::from_millis(50)), "nobody wants it to register");
    assert_eq!(rig.count(|event| matches!(event, Event::Ready { .. } | Event::ConnectFailed { .. })), 0);
}

/// A device that was bootstrapped, is registered and observed.
fn bootstrapped(more: &str) -> (Rig, SocketAddr) {
    let mut rig = Rig::new(1, more);
    let (device, datagram) = next_at_bootstrap(&mut rig);
    let asked = Message::decode(&datagram).unwrap();
    rig.bootstrap.send_to(&answer(&asked, code::CHANGED, &OptionList::new()), device).unwrap();
    let uri = format!("coap://{}", rig.server.local_addr().unwrap());
    bootstrap(&mut rig, device, &uri);
    rig.register("rd/5");
    rig.ask(device, &request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b""));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
    (rig, device)
}

/// It sees which accounts there are, and deletes whole instances (1.1 core, section 6.1.7).
#[test]
fn a_bootstrap_server_lists_the_accounts_of_a_device() {
    let (mut rig, device) = bootstrapped("lwm2m: { bootstrap: true }");
    let mut ask = |code: u8, id: u16, path: &str, options: &[(u16, u32)]| {
        rig.bootstrap.send_to(&request(code, id, b"l", path, options, b""), device).unwrap();
        let (_, answer) = next_at_bootstrap(&mut rig);
        let answer = Message::decode(&answer).unwrap();
        (answer.code, String::from_utf8(answer.payload.to_vec()).unwrap())
    };
    let links = [(option::ACCEPT, u32::from(format::LINK))];
    let (code, list) = ask(code::GET, 31, "/", &links);
    assert_eq!(code, code::CONTENT);
    assert!(
        list.starts_with("</>;lwm2m=1.0,</0/0>;ssid=7;uri=\"coap://127.0.0.1:9\",</0/1>;ssid=7;uri="),
        "{list}"
    );
    assert!(list.contains(",</1/0>;ssid=1,"), "{list}");
    assert_eq!(ask(code::DELETE, 32, "/1/0/1", &[]).0, code::METHOD_NOT_ALLOWED);
}

#[test]
fn a_bootstrap_server_may_begin_by_itself() {
    let (mut rig, device) = bootstrapped("lwm2m: { bootstrap: true }");
    rig.bootstrap.send_to(&request(code::POST, 31, b"again", "/bs", &[], b""), device).unwrap();
    let (_, finished) = next_at_bootstrap(&mut rig);
    assert_eq!(Message::decode(&finished).unwrap().code, code::CHANGED);
    rig.register("rd/6");
    assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), 1);
}

/// A server that was restarted is no reason to ask for another one. One that refuses to register the device is.
#[test]
fn a_device_that_knows_its_server_registers_there_again() {
    let (mut rig, device) = bootstrapped("lwm2m: { bootstrap: true, lifetime: 2s }");
    rig.ask(device, &request(code::POST, 2, b"u", "/1/0/8", &[], b""));
    let update = rig.next().1;
    rig.send(device, &answer(&Message::decode(&update).unwrap(), code::NOT_FOUND, &OptionList::new()));
    let (_, datagram) = rig.next();
    let registration = Message::decode(&datagram).unwrap();
    assert_eq!(registration.path(), "/rd", "at the server that it knows");
    rig.send(device, &answer(&registration, code::UNAUTHORIZED, &OptionList::new()));
    let (_, datagram) = next_at_bootstrap(&mut rig);
    assert_eq!(Message::decode(&datagram).unwrap().path(), "/bs");
}
