//! Peers that send garbage, halves or giants, never read, or flood: the broker serves the others as before.

use crate::running::{Running, publish, read_packet, settings};
use plimsoll_codec::mqtt::{QoS, Version};
use proptest::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::sync::OnceLock;

#[test]
fn garbage_and_giants_are_hung_up_on_and_halves_wait() {
    let broker = Running::start();
    // HTTP, a reserved packet type, a remaining length of five bytes, a packet of 256 MiB, PUBLISH before CONNECT.
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x00, 0x00],
        &[0x10, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x10, 0xff, 0xff, 0xff, 0x7f],
        &publish(Version::V311, "t", b"early", 1),
    ];
    for bytes in hostile {
        let mut stream = broker.connect();
        stream.write_all(bytes).unwrap();
        assert_eq!(read_packet(&mut stream), None, "{bytes:?}");
    }
    let mut half = broker.client(Version::V311, "half");
    let packet = publish(Version::V311, "t", b"in two halves", 9);
    half.write_all(&packet[..10]).unwrap();
    broker.serves();
    half.write_all(&packet[10..]).unwrap();
    assert_eq!(read_packet(&mut half), Some(vec![0x40, 2, 0, 9]));
    let mut giant = broker.client(Version::V5, "giant");
    giant.write_all(&[0x30, 0xff, 0xff, 0xff, 0x7f]).unwrap();
    assert_eq!(read_packet(&mut giant), Some(vec![0xe0, 1, 0x95]), "packet too large");
    assert_eq!(read_packet(&mut giant), None);
}

/// A subscriber that never reads costs nobody else anything, and gets everything once it reads.
#[test]
fn a_subscriber_that_does_not_read_gets_everything_later() {
    let broker = Running::start();
    let mut slow = broker.subscriber("slow", "#", QoS::AtMostOnce);
    let mut publisher = broker.client(Version::V311, "publisher");
    let payload = vec![b'x'; 1024 * 1024];
    for id in 1..=64 {
        publisher.write_all(&publish(Version::V311, "t", &payload, id)).unwrap();
        assert_eq!(read_packet(&mut publisher), Some([&[0x40, 2][..], &id.to_be_bytes()].concat()));
    }
    broker.serves();
    for _ in 1..=64 {
        assert!(read_packet(&mut slow).unwrap().len() > payload.len());
    }
}

/// Beyond the memory bound messages are dropped, and neither the slow subscriber nor the publisher is disconnected.
#[test]
fn at_the_memory_bound_others_are_served_as_before() {
    let broker = Running::with(&plimsoll_target::broker::Settings { memory: 8 * 1024 * 1024, ..settings() });
    let mut slow = broker.subscriber("slow", "t", QoS::AtMostOnce);
    let mut well = broker.subscriber("well", "t", QoS::AtMostOnce);
    let mut publisher = broker.client(Version::V311, "publisher");
    let payload = vec![b'x'; 1024 * 1024];
    for id in 1..=64 {
        publisher.write_all(&publish(Version::V311, "t", &payload, id)).unwrap();
        assert!(read_packet(&mut well).unwrap().len() > payload.len());
        assert_eq!(read_packet(&mut publisher), Some([&[0x40, 2][..], &id.to_be_bytes()].concat()));
    }
    broker.serves();
    slow.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let mut bytes = 0;
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match slow.read(&mut buffer) {
            Ok(0) => panic!("disconnected"),
            Ok(count) => bytes += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((4 * 1024 * 1024..48 * 1024 * 1024).contains(&bytes), "{bytes}");
}

/// A flood of requests whose answers are never read is throttled, not stored.
#[test]
fn a_flood_of_pings_is_not_answered_into_memory() {
    let broker = Running::start();
    let mut flood = broker.client(Version::V311, "flood");
    flood.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let pings = [0xc0, 0].repeat(512 * 1024);
    let mut throttled = false;
    for _ in 0..64 {
        if flood.write_all(&pings).is_err() {
            throttled = true;
            break;
        }
    }
    assert!(throttled);
    broker.serves();
}

/// Connections come and go, most of them in the middle of a packet.
#[test]
fn many_connections_that_break_leave_nothing_behind() {
    let broker = Running::with(&plimsoll_target::broker::Settings { max_connections: 50, ..settings() });
    for round in 0..200 {
        let mut stream = broker.client(Version::V5, &round.to_string());
        stream.write_all(&[0x30, 0x20, 0, 3, b'a']).unwrap();
    }
    broker.serves();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes after CONNECT, in whatever pieces, the broker goes on.
    #[test]
    fn no_bytes_bring_the_broker_down(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..5),
        version_5: bool,
    ) {
        static BROKER: OnceLock<Running> = OnceLock::new();
        let broker = BROKER.get_or_init(Running::start);
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let mut stream = broker.client(version, "x");
        for piece in pieces {
            // The broker may have hung up.
            let _ = stream.write_all(&piece);
        }
        drop(stream);
        broker.serves();
    }
}
