//! Stations that speak HTTP and CoAP, spoken to byte by byte: answers come after the service, and faults are as planted.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::coap::{self, Kind, code};
use plimsoll_model::Nanos;
use plimsoll_stats::queue::{ServiceTime, Settings as QueueSettings};
use plimsoll_stats::system::Discipline;
use plimsoll_target::station::{Faults, Settings, Station, StationProtocol, Work};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVICE: Nanos = Nanos::from_millis(20);
const WAIT: Duration = Duration::from_secs(10);

/// A station in a thread; dropped, it ends, and a failure of it fails the test.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(protocol: StationProtocol, limit: Option<usize>, faults: Faults) -> Running {
        let service = ServiceTime::Deterministic(SERVICE);
        let queue = QueueSettings { workers: 1, service, limit, stall: None, seed: 1 };
        let host = Ipv4Addr::LOCALHOST.into();
        let settings = Settings {
            protocol,
            host,
            port: 0,
            queue,
            work: Work::Sleep(Discipline::default()),
            faults,
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
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the station failed");
    }
}

fn http(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

#[test]
fn http_answers_after_the_service_and_closes_when_asked() {
    let station = Running::start(StationProtocol::Http, None, Faults::default());
    let mut stream = http(&station);
    let begin = Instant::now();
    stream
        .write_all(
            b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(begin.elapsed() >= (SERVICE * 2).to_duration(), "two services of one worker");
    assert!(said.starts_with("HTTP/1.1 204") && said.contains("HTTP/1.1 200"), "{said}");
}

#[test]
fn http_refuses_what_finds_no_room_and_says_what_is_wrong() {
    let station = Running::start(StationProtocol::Http, Some(0), Faults::default());
    let mut first = http(&station);
    first.write_all(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    first.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("HTTP/1.1 503"), "{said}");
    let mut wrong = http(&station);
    wrong.write_all(b"\x16\x03\x01garbage\r\n\r\n").unwrap();
    let mut said = String::new();
    wrong.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
}

/// Sends a request and gives what comes within a second, datagram by datagram.
fn ask(socket: &UdpSocket, kind: Kind, id: u16) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let token = &id.to_be_bytes();
    coap::Message { kind, code: code::POST, id, token, options: &[], payload: b"x" }.encode(&mut out);
    socket.send(&out).unwrap();
    let mut answers = Vec::new();
    let mut datagram = [0; 100];
    while let Ok(length) = socket.recv(&mut datagram) {
        answers.push(datagram[..length].to_vec());
    }
    answers
}

fn coap_client(station: &Running) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(station.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

#[test]
fn coap_answers_in_the_acknowledgement_once_and_again_when_asked_again() {
    let station = Running::start(StationProtocol::Coap, None, Faults::default());
    let client = coap_client(&station);
    let answers = ask(&client, Kind::Confirmable, 7);
    assert_eq!(answers.len(), 1);
    let answer = coap::Message::decode(&answers[0]).unwrap();
    assert_eq!((answer.kind, answer.code, answer.id), (Kind::Acknowledgement, code::CHANGED, 7));
    assert_eq!(answer.token, 7u16.to_be_bytes());
    assert_eq!(ask(&client, Kind::Confirmable, 7), answers, "a repetition is answered, not served");
    let by_itself = ask(&client, Kind::NonConfirmable, 8);
    let answer = coap::Message::decode(&by_itself[0]).unwrap();
    assert_eq!(
        (answer.kind, answer.code, answer.token),
        (Kind::NonConfirmable, code::CHANGED, &8u16.to_be_bytes()[..])
    );
    client.send(b"garbage").unwrap();
    assert_eq!(ask(&client, Kind::Confirmable, 9).len(), 1);
}

#[test]
fn coap_drops_and_duplicates_as_planted() {
    let lost = Running::start(StationProtocol::Coap, None, Faults { drop: 1.0, ..Faults::default() });
    assert!(ask(&coap_client(&lost), Kind::Confirmable, 1).is_empty());
    let twice = Running::start(StationProtocol::Coap, None, Faults { duplicate: 1.0, ..Faults::default() });
    assert_eq!(ask(&coap_client(&twice), Kind::Confirmable, 1).len(), 2);
}
