//! Registrations and updates that are too long for one block (RFC 7959).

use crate::rig::*;
use plimsoll_codec::coap::{Block, Message, OptionList, code, option};
use plimsoll_load::driver::Event;
use std::fmt::Write;
use std::net::SocketAddr;

/// A device with so many instances that its server is to know.
fn with_instances(count: usize, more: &str) -> Rig {
    let mut resources = String::new();
    (0..count).for_each(|instance| write!(resources, "3303/{instance}/5700: 1, ").unwrap());
    Rig::new(1, &format!("{more}lwm2m: {{ resources: {{ {resources} }} }}"))
}

/// Answers with that code, and a block of that size where one is given.
fn say(rig: &mut Rig, device: SocketAddr, request: &Message<'_>, code: u8, size: Option<u16>) {
    let mut list = OptionList::new();
    if let (Some(size), own) = (size, request.block(option::BLOCK1)) {
        let (number, more) = own.map_or((0, false), |own| (own.number, own.more));
        list.add_number(option::BLOCK1, Block::new(number, more, size).to_number());
    }
    rig.send(device, &answer(request, code, &list));
}

/// Takes the blocks of a registration, which begins with that block, to its end: the links, and how many blocks they
/// came in.
fn take(rig: &mut Rig, location: &str, mut body: Vec<u8>, size: u16) -> (String, usize) {
    for count in 1.. {
        let (device, datagram) = rig.next();
        let request = Message::decode(&datagram).unwrap();
        let own = request.block(option::BLOCK1).unwrap();
        assert_eq!((request.path().as_str(), own.begin(), own.size()), ("/rd", body.len(), size));
        assert!(queries(&request).contains(&"ep=plimsoll-0".to_owned()), "each block has all options");
        body.extend_from_slice(request.payload);
        if !own.more {
            rig.send(device, &created(&request, location));
            return (String::from_utf8(body).unwrap(), count);
        }
        say(rig, device, &request, code::CONTINUE, Some(size));
    }
    unreachable!()
}

/// Whether a device could not connect, with these words.
fn says(event: &Event, words: &str) -> bool {
    matches!(event, Event::ConnectFailed { reason, .. } if reason.contains(words))
}

#[track_caller]
fn names_all(links: &str, count: usize) {
    assert!(links.starts_with('<') && links.ends_with('>'), "{links}");
    for instance in 0..count {
        assert_eq!(links.matches(&format!("</3303/{instance}>")).count(), 1, "{instance}: {links}");
    }
}

#[test]
fn a_long_registration_goes_in_blocks_as_small_as_the_server_wants() {
    let mut rig = with_instances(200, "");
    let (device, datagram) = rig.next();
    let request = Message::decode(&datagram).unwrap();
    assert_eq!(request.block(option::BLOCK1), Some(Block::new(0, true, 1024)));
    assert_eq!(request.payload.len(), 1024);
    let first = request.payload.to_vec();
    say(&mut rig, device, &request, code::CONTINUE, Some(256));
    let (links, blocks) = take(&mut rig, "rd/5", first, 256);
    names_all(&links, 200);
    assert_eq!(blocks, (links.len() - 1024).div_ceil(256));
    let observe = request_to_observe();
    assert_eq!(Message::decode(&rig.ask(device, &observe)).unwrap().code, code::CONTENT);
    rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { again: false, .. })) == 1);
    assert_eq!(rig.count(|event| matches!(event, Event::ConnectFailed { .. })), 0);
}

fn request_to_observe() -> Vec<u8> {
    request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b"")
}

#[test]
fn what_is_too_large_for_a_server_is_sent_in_the_blocks_that_it_names() {
    let mut rig = with_instances(20, "");
    let (device, datagram) = rig.next();
    let request = Message::decode(&datagram).unwrap();
    assert_eq!((request.block(option::BLOCK1), request.payload.len() > 64), (None, true));
    say(&mut rig, device, &request, code::TOO_LARGE, Some(64));
    let (links, _) = take(&mut rig, "rd/5", Vec::new(), 64);
    names_all(&links, 20);
    // Executing 1/0/8 renews the registration, which names no objects.
    rig.send(device, &plain_update());
    let (_, acknowledged) = rig.next();
    assert_eq!(Message::decode(&acknowledged).unwrap().code, code::CHANGED);
    let (_, update) = rig.next();
    let update = Message::decode(&update).unwrap();
    assert_eq!((update.path().as_str(), update.block(option::BLOCK1)), ("/rd/5", None));
}

fn plain_update() -> Vec<u8> {
    request(code::POST, 2, b"u", "/1/0/8", &[], b"")
}

#[test]
fn blocks_that_a_server_has_lost_are_sent_once_more_and_not_for_ever() {
    let mut rig = with_instances(20, "coap: { block_size: 128 }\n");
    for _ in 0..2 {
        let (device, datagram) = rig.next();
        let request = Message::decode(&datagram).unwrap();
        assert_eq!(request.block(option::BLOCK1), Some(Block::new(0, true, 128)));
        say(&mut rig, device, &request, code::INCOMPLETE, None);
    }
    let (device, datagram) = rig.next();
    say(&mut rig, device, &Message::decode(&datagram).unwrap(), code::INCOMPLETE, None);
    let is_told = |event: &Event| says(event, "4.08");
    rig.until(|rig| rig.count(is_told) == 1);
}

/// The time for a registration is that of all its blocks.
#[test]
fn a_server_that_takes_blocks_too_slowly_is_given_up() {
    let mut rig = with_instances(200, "connection: { timeout: 300ms }\ncoap: { block_size: 16 }\n");
    let begin = rig.clock.now();
    let is_told = |event: &Event| says(event, "does not answer");
    while rig.count(is_told) == 0 {
        let (device, datagram) = rig.next();
        std::thread::sleep(std::time::Duration::from_millis(50));
        say(&mut rig, device, &Message::decode(&datagram).unwrap(), code::CONTINUE, Some(16));
        let took = rig.clock.now() - begin;
        assert!(took < plimsoll_model::Nanos::from_secs(5), "it goes on after {took}");
        (0..20).for_each(|_| rig.turn());
    }
}
