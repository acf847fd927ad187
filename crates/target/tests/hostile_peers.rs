//! A station among peers that send garbage, halves, giants, or never read: it serves the others as before.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::mqtt::{
    Ack, AckKind, Connect, Packet, Properties, Publish, QoS, Subscribe, Subscription, Version,
    encode_connect, packet_length,
};
use plimsoll_model::Nanos;
use plimsoll_stats::queue::{ServiceTime, Settings as QueueSettings};
use plimsoll_stats::system::Discipline;
use plimsoll_target::station::{Faults, Settings, Station, StationProtocol, Work};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A station in a thread; dropped, it ends, and a failure of it fails the test.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(service: Nanos) -> Running {
        let settings = Settings {
            protocol: StationProtocol::Mqtt,
            host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            queue: QueueSettings {
                workers: 1,
                service: ServiceTime::Deterministic(service),
                limit: None,
                stall: None,
                seed: 1,
            },
            work: Work::Sleep(Discipline::default()),
            faults: Faults::default(),
            truth: None,
            next: None,
        };
        let station = Station::bind(&settings).unwrap();
        let address = station.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || station.run(&seen).unwrap()));
        Running { address, stop, thread }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// A client that is connected.
    fn client(&self, version: Version) -> TcpStream {
        let mut stream = self.connect();
        let connect = Connect::clean(version, "c");
        let mut out = Vec::new();
        encode_connect(&connect, &mut out).unwrap();
        stream.write_all(&out).unwrap();
        let answer = read_packet(&mut stream).unwrap();
        assert!(matches!(Packet::decode(version, &answer), Ok(Packet::Connack(ack)) if ack.accepted()));
        stream
    }

    /// Whether a well-behaved client is served.
    fn serves(&self) {
        for version in [Version::V311, Version::V5] {
            let mut stream = self.client(version);
            stream.write_all(&publish(version, b"hello", 7)).unwrap();
            let answer = read_packet(&mut stream).unwrap();
            let expected =
                Ack { kind: AckKind::Puback, packet_id: 7, reason: 0, properties: Properties::default() };
            assert_eq!(Packet::decode(version, &answer), Ok(Packet::Ack(expected)));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the station panicked");
    }
}

fn publish(version: Version, payload: &[u8], packet_id: u16) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "t",
        packet_id: Some(packet_id),
        properties: Properties::default(),
        payload,
    };
    let mut out = Vec::new();
    Packet::Publish(publish).encode(version, &mut out).unwrap();
    out
}

/// The next packet; `None` where the station closed the connection.
fn read_packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    loop {
        if let Ok(Some(length)) = packet_length(&packet)
            && length == packet.len()
        {
            return Some(packet);
        }
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => packet.push(byte[0]),
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn garbage_and_giants_are_hung_up_on_and_halves_wait() {
    let station = Running::start(Nanos(1000));
    // HTTP, a reserved packet type, a remaining length of five bytes, a packet of 256 MiB, PUBLISH before CONNECT.
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x00, 0x00],
        &[0x10, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x10, 0xff, 0xff, 0xff, 0x7f],
        &publish(Version::V311, b"early", 1),
    ];
    for bytes in hostile {
        let mut stream = station.connect();
        stream.write_all(bytes).unwrap();
        assert_eq!(read_packet(&mut stream), None, "{bytes:?}");
    }
    let mut half = station.client(Version::V311);
    let packet = publish(Version::V311, b"in two halves", 9);
    half.write_all(&packet[..10]).unwrap();
    station.serves();
    half.write_all(&packet[10..]).unwrap();
    assert_eq!(read_packet(&mut half), Some(vec![0x40, 2, 0, 9]));
}

/// A subscriber that never reads is given up once it owes more than it may; the publisher gets every acknowledgement.
#[test]
fn a_subscriber_that_never_reads_is_given_up() {
    let station = Running::start(Nanos(1000));
    let version = Version::V311;
    let mut subscriber = station.client(version);
    let subscriptions = vec![Subscription::new("#", QoS::AtMostOnce)];
    let subscribe =
        Packet::Subscribe(Subscribe { packet_id: 1, subscriptions, properties: Properties::default() });
    let mut out = Vec::new();
    subscribe.encode(version, &mut out).unwrap();
    subscriber.write_all(&out).unwrap();
    assert_eq!(read_packet(&mut subscriber), Some(vec![0x90, 3, 0, 1, 0]));
    let mut publisher = station.client(version);
    let payload = vec![b'x'; 1024 * 1024];
    // More than the station keeps and both sockets hold together.
    for id in 1..=64 {
        publisher.write_all(&publish(version, &payload, id)).unwrap();
        assert_eq!(read_packet(&mut publisher), Some([&[0x40, 2][..], &id.to_be_bytes()].concat()));
    }
    let mut read = 0;
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match subscriber.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("still connected: {error}"),
        }
    }
    assert!(read < 64 * 1024 * 1024, "{read}");
    station.serves();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes after CONNECT, in whatever pieces, the station goes on.
    #[test]
    fn no_bytes_bring_the_station_down(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..5),
        version_5: bool,
    ) {
        static STATION: std::sync::OnceLock<Running> = std::sync::OnceLock::new();
        let station = STATION.get_or_init(|| Running::start(Nanos(1000)));
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let mut stream = station.client(version);
        for piece in pieces {
            // The station may have hung up.
            let _ = stream.write_all(&piece);
        }
        drop(stream);
        station.serves();
    }
}
