//! Devices that push their events and stop half way, drip, or leave before they are answered.

#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_gateway::configuration::{Configuration, Model, Order, PushProtocol, Reactor, Spread};
use plimsoll_gateway::gateway::{Done, Push};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// All dispatchers, and those with a loop on both.
const DISPATCHERS: [(Model, Reactor); 4] = [
    (Model::Serial, Reactor::Epoll),
    (Model::Preemptive, Reactor::Epoll),
    (Model::Cooperative, Reactor::Epoll),
    (Model::Cooperative, Reactor::Libuv),
];

/// Lets devices have their way with a gateway, whose work takes some milliseconds; what it says of itself then.
fn with_gateway(
    (dispatcher, event_loop): (Model, Reactor),
    protocol: PushProtocol,
    devices: impl FnOnce(SocketAddr),
) -> Done {
    let configuration = Configuration {
        dispatcher,
        event_handler: Model::Preemptive,
        cpu_intensity: 1.0,
        io_intensity: 0.0,
        pool_size: 3,
        cores: 0,
        cpu_spread: Spread::Constant,
        io_spread: Spread::Constant,
        io_order: Order::After,
        event_loop,
        sockets: 0,
    };
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder_of = folder.path().to_owned();
    let gateway = Push { configuration, protocol, listener, bootup: None, log: None, folder: folder_of };
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let running = thread::spawn(move || gateway.run(&asked));
    devices(address);
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap()
}

fn connect(protocol: PushProtocol, address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    if protocol == PushProtocol::Mqtt {
        stream.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01d").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
    }
    stream
}

/// An event as it goes over the wire, and its answer.
fn event(protocol: PushProtocol, number: u8) -> (Vec<u8>, Vec<u8>) {
    match protocol {
        PushProtocol::Tcp => (
            format!("{{\"name\":\"event\",\"args\":[\"a-{number}\"]}}\n").into_bytes(),
            b"{\"result\":true}\n".to_vec(),
        ),
        PushProtocol::Http => (
            format!("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na-{number}").into_bytes(),
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        ),
        PushProtocol::Mqtt => (
            [&[0x32, 8, 0, 1, b't', 0, number][..], format!("a-{number}").as_bytes()].concat(),
            vec![0x40, 2, 0, number],
        ),
    }
}

/// Who says nothing more after its events, but has not closed, is answered each of them; then the gateway closes.
#[test]
fn who_says_nothing_more_is_answered() {
    for protocol in PushProtocol::ALL {
        for dispatcher in DISPATCHERS {
            let done = with_gateway(dispatcher, protocol, |address| {
                let mut device = connect(protocol, address);
                let events: Vec<_> = (1..=3).map(|number| event(protocol, number)).collect();
                device
                    .write_all(&events.iter().flat_map(|(event, _)| event.clone()).collect::<Vec<u8>>())
                    .unwrap();
                device.shutdown(Shutdown::Write).unwrap();
                let mut answers = Vec::new();
                device.read_to_end(&mut answers).unwrap();
                let expected: Vec<u8> = events.into_iter().flat_map(|(_, answer)| answer).collect();
                assert!(answers == expected, "{dispatcher:?} over {protocol}: {answers:?}");
            });
            assert_eq!(done.done, 3, "{dispatcher:?} over {protocol}");
        }
    }
}

/// Who sends a little again and again has no more time for a message than who is silent within it.
#[test]
fn who_drips_is_sent_away() {
    thread::scope(|scope| {
        for protocol in PushProtocol::ALL {
            for dispatcher in DISPATCHERS {
                // The beginning of a message, and what may follow for ever.
                let (begin, drip): (&[u8], &[u8]) = match protocol {
                    PushProtocol::Tcp => (b"{", b" "),
                    PushProtocol::Http => {
                        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n")
                    }
                    PushProtocol::Mqtt => (b"\x30\xff\xff\x3f", b"a"),
                };
                scope.spawn(move || {
                    let done = with_gateway(dispatcher, protocol, |address| {
                        let mut device = connect(protocol, address);
                        device.write_all(begin).unwrap();
                        let first = Instant::now();
                        while device.write_all(drip).is_ok() {
                            assert!(
                                first.elapsed() < Duration::from_secs(60),
                                "{dispatcher:?} over {protocol}"
                            );
                            thread::sleep(Duration::from_millis(200));
                        }
                    });
                    assert_eq!(done.done, 0);
                });
            }
        }
    });
}

/// What comes behind an event may be long: the device waits with the rest of it, and goes on when the event is over.
#[test]
fn a_long_message_behind_an_event_is_taken() {
    for dispatcher in DISPATCHERS {
        let done = with_gateway(dispatcher, PushProtocol::Http, |address| {
            let mut device = connect(PushProtocol::Http, address);
            let (first, answer) = event(PushProtocol::Http, 1);
            let head = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n";
            device.write_all(&[&first, &head[..], &vec![b'x'; 1_000_000]].concat()).unwrap();
            let mut answers = vec![0; 2 * answer.len()];
            device.read_exact(&mut answers).unwrap();
            assert!(answers == answer.repeat(2), "{dispatcher:?}");
        });
        assert_eq!(done.done, 2, "{dispatcher:?}");
    }
}
