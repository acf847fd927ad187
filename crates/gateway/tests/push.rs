//! Devices that send their events: all nine combinations over each of the three protocols, and bad days.

#![allow(clippy::unwrap_used, clippy::panic)]

mod told;

use plimsoll_gateway::configuration::{Configuration, Model, PushProtocol, Reactor, Spread};
use plimsoll_gateway::gateway::{Bootup, Done, GatewayError, Push};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use told::{Told, check, configuration, read};

struct Running {
    address: SocketAddr,
    log: UdpSocket,
    stop: Arc<AtomicBool>,
    gateway: JoinHandle<Result<Done, GatewayError>>,
}

fn start_in(folder: &Path, configuration: Configuration, protocol: PushProtocol) -> Running {
    start_on(TcpListener::bind("127.0.0.1:0").unwrap(), folder, configuration, protocol)
}

fn start_on(
    listener: TcpListener,
    folder: &Path,
    configuration: Configuration,
    protocol: PushProtocol,
) -> Running {
    let address = listener.local_addr().unwrap();
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    let gateway = Push {
        configuration,
        protocol,
        listener,
        bootup: None,
        log: Some(log.local_addr().unwrap().to_string()),
        folder: folder.to_owned(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    Running { address, log, stop, gateway: thread::spawn(move || gateway.run(&asked)) }
}

impl Running {
    /// Ends when so many events are over.
    fn told(self, events: usize) -> Told {
        let lines = read(&self.log, events, &[], &self.stop);
        Told { done: self.gateway.join().unwrap().unwrap(), lines }
    }

    fn end(self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.gateway.join().unwrap().unwrap()
    }
}

/// A device of the tests' own.
struct Device {
    protocol: PushProtocol,
    stream: TcpStream,
}

impl Device {
    fn connect(protocol: PushProtocol, address: SocketAddr) -> Device {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        if protocol == PushProtocol::Mqtt {
            stream.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01d").unwrap();
            let mut connack = [0; 4];
            stream.read_exact(&mut connack).unwrap();
            assert_eq!(connack, [0x20, 2, 0, 0]);
        }
        Device { protocol, stream }
    }

    /// An event as it goes over the wire, in one of the forms that there are.
    fn words(&self, name: &str, number: usize) -> Vec<u8> {
        match self.protocol {
            PushProtocol::Tcp => format!("{{\"name\":\"event\",\"args\":[\"{name}\"]}}").into_bytes(),
            PushProtocol::Http if number.is_multiple_of(2) => {
                format!("POST /any HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n{name}", name.len())
                    .into_bytes()
            }
            PushProtocol::Http => format!(
                "POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\n{:x}\r\n{name}\r\n0\r\n\r\n",
                name.len()
            )
            .into_bytes(),
            PushProtocol::Mqtt => {
                let rest = [&[0, 1, b't'][..], &(number as u16 + 1).to_be_bytes(), name.as_bytes()].concat();
                [&[0x32, rest.len() as u8][..], &rest].concat()
            }
        }
    }

    fn answer(&self, number: usize, is_done: bool) -> Vec<u8> {
        match (self.protocol, is_done) {
            (PushProtocol::Tcp, true) => b"{\"result\":true}\n".to_vec(),
            (PushProtocol::Tcp, false) => {
                b"{\"error\":{\"name\":\"OSError\",\"args\":[\"The work of the event failed.\"]}}\n".to_vec()
            }
            (PushProtocol::Http, true) => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            (PushProtocol::Http, false) => {
                b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()
            }
            (PushProtocol::Mqtt, true) => [&[0x40, 2][..], &(number as u16 + 1).to_be_bytes()].concat(),
            (PushProtocol::Mqtt, false) => Vec::new(),
        }
    }

    fn expect(&mut self, answer: &[u8]) {
        let mut read = vec![0; answer.len()];
        self.stream.read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(answer));
    }

    /// Sends one event after the other, or all at once; each is answered.
    fn send(mut self, name: impl Fn(usize) -> String, events: usize, at_once: bool) {
        let words: Vec<Vec<u8>> = (0..events).map(|event| self.words(&name(event), event)).collect();
        let answers: Vec<Vec<u8>> = (0..events).map(|event| self.answer(event, true)).collect();
        if at_once {
            self.stream.write_all(&words.concat()).unwrap();
            self.expect(&answers.concat());
        } else {
            for (words, answer) in words.iter().zip(&answers) {
                self.stream.write_all(words).unwrap();
                self.expect(answer);
            }
        }
    }
}

/// Eight devices, twenty events of each, half of the devices without a wait for answers.
fn all_are_done_once(configuration: Configuration, protocol: PushProtocol) {
    let what = format!("{}/{} over {protocol}", configuration.dispatcher, configuration.event_handler);
    let folder = tempfile::tempdir().unwrap();
    let gateway = start_in(folder.path(), configuration, protocol);
    let devices: Vec<JoinHandle<()>> = (0..8)
        .map(|number| {
            let device = Device::connect(protocol, gateway.address);
            thread::spawn(move || device.send(|event| format!("{number}-{event}"), 20, number % 2 == 0))
        })
        .collect();
    check(&gateway.told(160), 8, 20, &what);
    // The last answers are there although the gateway has ended.
    for device in devices {
        assert!(device.join().is_ok(), "{what}");
    }
}

#[test]
fn all_nine_take_every_event_once_and_in_order_over_every_protocol() {
    for protocol in PushProtocol::ALL {
        for dispatcher in Model::ALL {
            for handler in Model::ALL {
                all_are_done_once(configuration(dispatcher, handler), protocol);
            }
        }
    }
}

#[test]
fn our_own_loop_does_the_same() {
    for protocol in PushProtocol::ALL {
        for (dispatcher, handler) in [
            (Model::Serial, Model::Cooperative),
            (Model::Cooperative, Model::Serial),
            (Model::Cooperative, Model::Preemptive),
            (Model::Cooperative, Model::Cooperative),
        ] {
            let own = Configuration { event_loop: Reactor::Epoll, ..configuration(dispatcher, handler) };
            all_are_done_once(own, protocol);
        }
    }
}

fn light(dispatcher: Model) -> Configuration {
    Configuration { io_intensity: 0.0, ..configuration(dispatcher, Model::Preemptive) }
}

/// Who stalls within a message, closes within an event, or says what nobody understands, holds up nobody, not even a serial
/// dispatcher; and who stalls is sent away.
#[test]
fn devices_that_misbehave_hold_up_nobody() {
    thread::scope(|scope| {
        for protocol in PushProtocol::ALL {
            for dispatcher in Model::ALL {
                scope.spawn(move || {
                    let folder = tempfile::tempdir().unwrap();
                    let gateway = start_in(folder.path(), light(dispatcher), protocol);
                    let mut stalled = Device::connect(protocol, gateway.address);
                    let words = stalled.words("never", 0);
                    stalled.stream.write_all(&words[..words.len() - 2]).unwrap();
                    let mut gone = Device::connect(protocol, gateway.address);
                    let words = gone.words("gone", 0);
                    gone.stream.write_all(&words).unwrap();
                    drop(gone);
                    let mut garbage = Device::connect(protocol, gateway.address);
                    garbage.stream.write_all(b"\xff\xff\xff\xff\xff\xff\n\n\r\n\r\n").unwrap();
                    let good = Device::connect(protocol, gateway.address);
                    good.send(|event| format!("0-{event}"), 20, false);
                    // Both connections end; who is not understood may be told so.
                    garbage.stream.read_to_end(&mut Vec::new()).unwrap();
                    assert_eq!(stalled.stream.read_to_end(&mut Vec::new()).unwrap(), 0);
                    let done = gateway.end();
                    assert_eq!(
                        done,
                        Done { done: 21, failed: 0, refused: 0 },
                        "{dispatcher} over {protocol}"
                    );
                });
            }
        }
    });
}

/// Who sends without end and reads no answers is not read without end; a body too long is refused.
#[test]
fn nobody_fills_the_memory() {
    for dispatcher in Model::ALL {
        let folder = tempfile::tempdir().unwrap();
        let gateway = start_in(folder.path(), light(dispatcher), PushProtocol::Http);
        let mut large = Device::connect(PushProtocol::Http, gateway.address);
        large.stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n").unwrap();
        // It does not wait for the answer.
        let _ = large.stream.write_all(&vec![b'x'; 1 << 20]);
        large.expect(b"HTTP/1.1 413 Content Too Large\r\n");
        let mut whole = Device::connect(PushProtocol::Http, gateway.address);
        whole.stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\nname ").unwrap();
        whole.stream.write_all(&vec![b'x'; (1 << 20) - 5]).unwrap();
        whole.expect(b"HTTP/1.1 204 No Content\r\n\r\n");

        gateway.end();

        // Once the answers stay unread, once the events come faster than they are handled.
        let nothing = Configuration { cpu_intensity: 0.0, event_handler: Model::Serial, ..light(dispatcher) };
        let heavy = Configuration { cpu_intensity: 0.5, ..light(dispatcher) };
        for configuration in [nothing, heavy] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // Accepted sockets have the buffers of their listener: small ones are full sooner.
            sockopt::set_socket_recv_buffer_size(&listener, 1 << 14).unwrap();
            sockopt::set_socket_send_buffer_size(&listener, 1 << 14).unwrap();
            let gateway = start_on(listener, folder.path(), configuration, PushProtocol::Http);
            let mut deaf = Device::connect(PushProtocol::Http, gateway.address);
            sockopt::set_socket_recv_buffer_size(&deaf.stream, 1 << 14).unwrap();
            sockopt::set_socket_send_buffer_size(&deaf.stream, 1 << 14).unwrap();
            let many: Vec<u8> = (0..1000).flat_map(|event| deaf.words("event", event)).collect();
            deaf.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let (begin, mut sent) = (Instant::now(), 0);
            while let Ok(count) = deaf.stream.write(&many[sent % many.len()..]) {
                sent += count;
                assert!(begin.elapsed() < Duration::from_secs(60) && sent < 1 << 24, "{dispatcher}: {sent}");
            }
            drop(deaf);
            gateway.end();
        }
    }
}

#[test]
fn more_connections_than_there_may_be_are_refused() {
    for dispatcher in Model::ALL {
        let folder = tempfile::tempdir().unwrap();
        let few = Configuration { sockets: 4, ..light(dispatcher) };
        let gateway = start_in(folder.path(), few, PushProtocol::Tcp);
        let mut kept: Vec<Device> =
            (0..4).map(|_| Device::connect(PushProtocol::Tcp, gateway.address)).collect();
        // All of them are in when each was answered.
        for device in &mut kept {
            device.stream.write_all(b"{\"name\":\"status\"}").unwrap();
            assert!(device.stream.read(&mut [0; 512]).unwrap() > 0);
        }
        for _ in 0..3 {
            let mut refused = TcpStream::connect(gateway.address).unwrap();
            assert_eq!(refused.read(&mut [0; 512]).unwrap(), 0);
        }
        kept.pop();
        // There is room again, as soon as the gateway has seen it.
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < Duration::from_secs(20));
            let mut again = TcpStream::connect(gateway.address).unwrap();
            let _ = again.write_all(b"{\"name\":\"event\",\"args\":[\"a\"]}");
            if matches!(again.read(&mut [0; 512]), Ok(1..)) {
                break;
            }
        }
        let done = gateway.end();
        assert!((done.done, done.refused >= 3) == (1, true), "{dispatcher}: {done:?}");
    }
}

/// The end is asked for while an event is handled: it is finished and answered.
#[test]
fn what_is_being_handled_at_the_end_is_answered() {
    for protocol in PushProtocol::ALL {
        for dispatcher in Model::ALL {
            for handler in Model::ALL {
                let folder = tempfile::tempdir().unwrap();
                // Long enough for the end to come in between.
                let heavy = Configuration {
                    cpu_intensity: 1.0,
                    cpu_spread: Spread::Constant,
                    ..configuration(dispatcher, handler)
                };
                let gateway = start_in(folder.path(), heavy, protocol);
                let mut device = Device::connect(protocol, gateway.address);
                let (words, answer) = (device.words("0-0", 0), device.answer(0, true));
                device.stream.write_all(&words).unwrap();
                // Asked for when the log knows of the event.
                let mut buffer = [0; 4096];
                loop {
                    let read = gateway.log.recv(&mut buffer).unwrap();
                    if std::str::from_utf8(&buffer[..read]).unwrap().contains("RETRIEVED") {
                        break;
                    }
                }
                let done = gateway.end();
                device.expect(&answer);
                assert_eq!(done.done, 1, "{dispatcher}/{handler} over {protocol}");
            }
        }
    }
}

#[test]
fn work_that_fails_is_answered_so() {
    for protocol in PushProtocol::ALL {
        for (dispatcher, handler) in [
            (Model::Serial, Model::Serial),
            (Model::Preemptive, Model::Preemptive),
            (Model::Cooperative, Model::Cooperative),
        ] {
            let folder = tempfile::tempdir().unwrap();
            // Where the file of the first device would be.
            std::fs::create_dir(folder.path().join("device-0")).unwrap();
            let always = Configuration { io_spread: Spread::Constant, ..configuration(dispatcher, handler) };
            let gateway = start_in(folder.path(), always, protocol);
            let mut device = Device::connect(protocol, gateway.address);
            let (words, answer) = (device.words("0-0", 0), device.answer(0, false));
            device.stream.write_all(&words).unwrap();
            device.expect(&answer);
            let told = gateway.told(1);
            assert_eq!(told.done, Done { done: 0, failed: 1, refused: 0 }, "{dispatcher}/{handler}");
        }
    }
}

#[test]
fn clients_of_mqtt_5_are_refused_and_nobody_subscribes() {
    for dispatcher in Model::ALL {
        let folder = tempfile::tempdir().unwrap();
        let gateway = start_in(folder.path(), light(dispatcher), PushProtocol::Mqtt);
        let mut five = TcpStream::connect(gateway.address).unwrap();
        five.write_all(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01d").unwrap();
        let mut answer = [0; 5];
        five.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0x20, 3, 0, 0x84, 0]);
        let mut device = Device::connect(PushProtocol::Mqtt, gateway.address);
        // SUBSCRIBE, PINGREQ, and an event of QoS 0, which nobody answers.
        device.stream.write_all(b"\x82\x06\x00\x01\x00\x01a\x01\x30\x06\x00\x01t0-0\xc0\x00").unwrap();
        device.expect(b"\x90\x03\x00\x01\x80\xd0\x00");
        check(&gateway.told(1), 1, 1, "QoS 0");
    }
}

/// A test manager is asked where there is one, and told where it finds the gateway's interface.
#[test]
fn a_manager_with_another_configuration_refuses() {
    let manager = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = manager.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let (mut caller, _) = manager.accept().unwrap();
        let mut call = [0; 4096];
        let read = caller.read(&mut call).unwrap();
        let refusal =
            b"{\"error\":{\"name\":\"ConfigurationError\",\"args\":[\"POOL_SIZE: 3 is not 10\"]}}\n";
        caller.write_all(refusal).unwrap();
        String::from_utf8_lossy(&call[..read]).into_owned()
    });
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let gateway = Push {
        configuration: light(Model::Serial),
        protocol: PushProtocol::Tcp,
        listener,
        bootup: Some(Bootup { manager: address.to_string(), interface: "127.0.0.1:0".into() }),
        log: None,
        folder: folder.path().to_owned(),
    };
    let error = gateway.run(&Arc::new(AtomicBool::new(false))).unwrap_err().to_string();
    assert!(error.contains("POOL_SIZE: 3 is not 10"), "{error}");
    let call = asked.join().unwrap();
    let interface = interface_in(&call);
    assert!(interface.ip().is_loopback() && interface != own, "{call}");
}

/// What a gateway calls its interface when it asks whether its configuration is the right one.
fn interface_in(call: &str) -> SocketAddr {
    let call: serde_json::Value = serde_json::from_str(call).unwrap();
    assert_eq!(call["name"], "verify_gateway");
    call["args"][1].as_str().unwrap().parse().unwrap()
}

/// Where there is a test manager, it starts the test: devices that came earlier wait for that.
#[test]
fn a_manager_starts_the_test() {
    for dispatcher in Model::ALL {
        let manager = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Push {
            configuration: Configuration { dispatcher, ..light(Model::Serial) },
            protocol: PushProtocol::Tcp,
            listener,
            bootup: Some(Bootup {
                manager: manager.local_addr().unwrap().to_string(),
                interface: "127.0.0.1:0".into(),
            }),
            log: None,
            folder: folder.path().to_owned(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let gateway = thread::spawn(move || gateway.run(&asked));
        let (mut caller, _) = manager.accept().unwrap();
        let mut call = [0; 4096];
        let read = caller.read(&mut call).unwrap();
        let interface = interface_in(std::str::from_utf8(&call[..read]).unwrap());
        caller.write_all(b"{\"result\":true}\n").unwrap();

        let mut device = TcpStream::connect(address).unwrap();
        device.write_all(b"{\"name\":\"event\",\"args\":[\"0-0\"]}\n").unwrap();
        device.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(device.read(&mut [0; 1]).is_err(), "answered before the test");
        let mut interface = TcpStream::connect(interface).unwrap();
        for (call, answers) in [("get_timestamp", false), ("start_test", true)] {
            let line = format!("{{\"name\":\"{call}\",\"args\":[]}}\n");
            interface.write_all(line.as_bytes()).unwrap();
            let mut answer = [0; 256];
            let read = interface.read(&mut answer).unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&answer[..read]).unwrap();
            assert!(if answers { answer["result"] == true } else { answer["result"].is_f64() }, "{answer}");
        }
        device.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = [0; 64];
        let read = device.read(&mut answer).unwrap();
        assert_eq!(&answer[..read], b"{\"result\":true}\n", "{dispatcher:?}");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(gateway.join().unwrap().unwrap().done, 1);
    }
}
