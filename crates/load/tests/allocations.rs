//! The steady state allocates nothing: a load thread that publishes, is acknowledged and receives uses the memory that it
//! has. Only where a sample ends does it give its counts and histograms away, and begin with new ones.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Kind, Message, code};
use plimsoll_load::clients::{ClientKind, Clients};
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::Driver;
use plimsoll_load::drivers::DriverContext;
use plimsoll_load::drivers::coap::CoapDriver;
use plimsoll_load::drivers::coap_tcp::CoapTcpDriver;
use plimsoll_load::drivers::lwm2m::Lwm2mDriver;
use plimsoll_load::drivers::mqtt::MqttDriver;
use plimsoll_load::drivers::nats;
use plimsoll_load::drivers::websocket::WebSocketDriver;
use plimsoll_load::layout::Layout;
use plimsoll_load::owners::Owners;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply, Shard, Wiring};
use plimsoll_load::share::Share;
use plimsoll_load::topology::Topology;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Environment, SourceFile, load};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

const DEVICES: u32 = 20;

/// A platform for QoS 1 that acknowledges each message and passes it to whoever subscribed, at QoS 0.
struct Reflector {
    address: SocketAddr,
}

impl Reflector {
    fn start() -> Reflector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subscriber: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let subscriber = Arc::clone(&subscriber);
                std::thread::spawn(move || serve(stream.unwrap(), &subscriber));
            }
        });
        Reflector { address }
    }
}

/// Serves one client whose packets are shorter than 128 bytes.
fn serve(mut stream: TcpStream, subscriber: &Mutex<Option<TcpStream>>) {
    loop {
        let mut head = [0; 2];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let mut body = vec![0; usize::from(head[1])];
        stream.read_exact(&mut body).unwrap();
        match head[0] >> 4 {
            1 => stream.write_all(&[0x20, 2, 0, 0]).unwrap(),
            8 => {
                stream.write_all(&[0x90, 3, body[0], body[1], 1]).unwrap();
                *subscriber.lock().unwrap() = Some(stream.try_clone().unwrap());
            }
            3 => {
                let topic = 2 + usize::from(body[1]);
                stream.write_all(&[0x40, 2, body[topic], body[topic + 1]]).unwrap();
                body.drain(topic..topic + 2);
                let mut delivery = vec![0x30, body.len() as u8];
                delivery.append(&mut body);
                subscriber.lock().unwrap().as_mut().unwrap().write_all(&delivery).unwrap();
            }
            _ => {}
        }
    }
}

/// A WebSocket server that sends each message back.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || echo_messages(stream.unwrap()));
        }
    });
    address
}

/// A CoAP server that answers each request with 2.04, and pings with a reset.
fn acknowledging() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 1500];
        while let Ok((_, from)) = socket.recv_from(&mut room) {
            // The token has six bytes.
            let (first, code, length) = if room[1] == 0 { (0x70, 0, 4) } else { (0x66, 0x44, 10) };
            (room[0], room[1]) = (first, code);
            socket.send_to(&room[..length], from).unwrap();
        }
    });
    address
}

/// A server of CoAP over TCP that says what it takes, and answers each request with 2.04.
fn acknowledging_over_tcp() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || acknowledge(stream.unwrap()));
        }
    });
    address
}

fn acknowledge(mut stream: TcpStream) {
    fn say(code: u8, token: &[u8], out: &mut Vec<u8>) {
        let kind = Kind::NonConfirmable;
        stream::encode(&Message { kind, code, id: 0, token, options: &[], payload: &[] }, out);
    }
    let (mut bytes, mut room, mut out) = (Vec::new(), [0; 65_536], Vec::new());
    say(signal::CSM, &[], &mut out);
    while stream.write_all(&out).is_ok() {
        out.clear();
        let Ok(length @ 1..) = stream.read(&mut room) else { return };
        bytes.extend_from_slice(&room[..length]);
        while let Frame::Message(came, length) = stream::decode(&bytes, 1 << 20).unwrap() {
            if came.code == code::POST {
                say(code::CHANGED, came.token, &mut out);
            }
            bytes.drain(..length);
        }
    }
}

/// A server of NATS that passes each message to whoever subscribed first.
fn passing_on() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let subscriber: Arc<Mutex<Option<TcpStream>>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let subscriber = Arc::clone(&subscriber);
            std::thread::spawn(move || pass_on(stream.unwrap(), &subscriber));
        }
    });
    address
}

fn pass_on(mut stream: TcpStream, subscriber: &Mutex<Option<TcpStream>>) {
    stream.write_all(b"INFO {}\r\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["PING"] => stream.write_all(b"PONG\r\n").unwrap(),
            ["SUB", ..] => *subscriber.lock().unwrap() = Some(stream.try_clone().unwrap()),
            ["PUB", subject, size] => {
                let mut content = vec![0; size.parse::<usize>().unwrap() + 2];
                lines.read_exact(&mut content).unwrap();
                let delivery = [format!("MSG {subject} 2 {size}\r\n").as_bytes(), &content].concat();
                subscriber.lock().unwrap().as_mut().unwrap().write_all(&delivery).unwrap();
            }
            _ => {}
        }
        line.clear();
    }
}

/// A server of LwM2M that registers each device, observes the bytes at 19/0/0, and acknowledges what is notified.
fn observing() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            let message = Message::decode(&room[..length]).unwrap();
            let mut answers = vec![Vec::new()];
            match message.code {
                code::POST => {
                    // Location-Path: rd, 1. Then Observe: 0, and the path.
                    let created = [0x82, b'r', b'd', 0x01, b'1'];
                    let (kind, code) = (Kind::Acknowledgement, code::CREATED);
                    Message { kind, code, options: &created, payload: b"", ..message }
                        .encode(&mut answers[0]);
                    let path = [0x60, 0x52, b'1', b'9', 0x01, b'0', 0x01, b'0'];
                    let (kind, code, token) = (Kind::Confirmable, code::GET, b"o");
                    let observe = Message { kind, code, id: 7, token, options: &path, payload: b"" };
                    answers.push(Vec::new());
                    observe.encode(&mut answers[1]);
                }
                _ if message.kind == Kind::Confirmable => {
                    Message::empty(Kind::Acknowledgement, message.id).encode(&mut answers[0]);
                }
                _ => continue,
            }
            answers.iter().for_each(|answer| _ = socket.send_to(answer, from).unwrap());
        }
    });
    address
}

/// Serves one client whose messages are shorter than 126 bytes.
fn echo_messages(mut stream: TcpStream) {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = plimsoll_codec::websocket::accept_of(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).unwrap();
    let mut head = [0; 6];
    while stream.read_exact(&mut head).is_ok() {
        let [first, length, mask @ ..] = head;
        let mut content = vec![0; usize::from(length & 0x7f)];
        stream.read_exact(&mut content).unwrap();
        content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        let mut frame = vec![first, content.len() as u8];
        frame.append(&mut content);
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

fn plan(platform: &str, subscribers: u32) -> Arc<Plan> {
    plan_with(platform, subscribers, "")
}

fn plan_with(platform: &str, subscribers: u32, more: &str) -> Arc<Plan> {
    plan_of(&format!("profile: existing, {platform}"), subscribers, more)
}

fn plan_of(platform: &str, subscribers: u32, more: &str) -> Arc<Plan> {
    let text = format!(
        "name: steady\nplatform: {{ {platform} }}\n\
         population: {{ devices: {DEVICES}, subscribers: {subscribers} }}\n\
         message: {{ size: 20 }}\nload: {{ levels: [2000], hold: 60s, samples: 2, warm_up: 0s }}\n{more}"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| None };
    Arc::new(
        load(&SourceFile { name: "test".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}")),
    )
}

fn context(plan: &Arc<Plan>, run: RunId, address: SocketAddr, clock: Clock) -> DriverContext {
    let run_context = Arc::default();
    DriverContext {
        plan: Arc::clone(plan),
        run,
        address,
        share: Share::WHOLE,
        subscribers: (Share::WHOLE, plan.subscribers.count),
        clock,
        bootstrap: None,
        run_context,
        service: None,
    }
}

fn connected<D: Driver>(shard: &mut Shard<D>, replies: &Receiver<Reply>, kind: ClientKind, count: u32) {
    let clients = Clients { kind, share: Share::WHOLE, from: 0, to: count };
    shard.apply(Command::Connect { clients, start: Nanos::ZERO, gap: Nanos(1), awaited: true });
    while !replies.try_iter().any(|reply| matches!(reply, Reply::AllReady)) {
        shard.step();
    }
}

#[test]
fn a_load_thread_in_its_steady_state_allocates_nothing() {
    let reflector = Reflector::start();
    let (plan, run, clock) = (plan("address: \"mqtt://127.0.0.1\"", 1), RunId::from_bits(7), Clock::start());
    let driver = MqttDriver::new(&context(&plan, run, reflector.address, clock)).unwrap();
    let acknowledged_and_delivered = assert_steady(&plan, run, clock, driver);
    assert!(acknowledged_and_delivered.iter().all(|&number| number > 1000), "the load was there");
}

#[test]
fn neither_does_one_that_speaks_websocket() {
    let address = echo();
    let platform = format!("address: \"ws://{address}\", protocol: websocket");
    let (plan, run, clock) = (plan(&platform, 0), RunId::from_bits(7), Clock::start());
    let driver = WebSocketDriver::new(&context(&plan, run, address, clock)).unwrap();
    let [acknowledged, _] = assert_steady(&plan, run, clock, driver);
    assert!(acknowledged > 1000, "the load was there: {acknowledged}");
}

#[test]
fn neither_does_one_that_speaks_coap() {
    for sockets in ["", "coap: { sockets: 1 }\n"] {
        let address = acknowledging();
        let platform = format!("address: \"coap://{address}\"");
        let (run, clock) = (RunId::from_bits(7), Clock::start());
        let plan = plan_with(&platform, 0, sockets);
        let driver = CoapDriver::new(&context(&plan, run, address, clock)).unwrap();
        let [acknowledged, _] = assert_steady(&plan, run, clock, driver);
        assert!(acknowledged > 1000, "the load was there: {acknowledged}");
    }
}

#[test]
fn neither_does_one_that_speaks_coap_over_tcp() {
    for sockets in ["", "coap: { sockets: 1, outstanding: 100 }\n"] {
        let address = acknowledging_over_tcp();
        let platform = format!("address: \"coap+tcp://{address}\"");
        let (run, clock) = (RunId::from_bits(7), Clock::start());
        let plan = plan_with(&platform, 0, sockets);
        let driver = CoapTcpDriver::new(&context(&plan, run, address, clock)).unwrap();
        let [acknowledged, _] = assert_steady(&plan, run, clock, driver);
        assert!(acknowledged > 1000, "the load was there: {acknowledged}");
    }
}

#[test]
fn neither_does_one_that_speaks_nats() {
    let address = passing_on();
    let platform = format!("address: \"nats://{address}\"");
    let (plan, run, clock) = (plan(&platform, 1), RunId::from_bits(7), Clock::start());
    let driver = nats::driver(&context(&plan, run, address, clock)).unwrap();
    let [_, delivered] = assert_steady(&plan, run, clock, driver);
    assert!(delivered > 1000, "the load was there: {delivered}");
}

/// Over a socket of each device: the shared one of the loopback network makes a control message for each datagram.
#[test]
fn neither_does_one_that_speaks_lwm2m() {
    let address = observing();
    let platform = format!("profile: lwm2m, address: \"coap://{address}\"");
    let (run, clock) = (RunId::from_bits(7), Clock::start());
    let plan = plan_of(&platform, 0, "connection: { source_addresses: [127.0.0.1] }\n");
    let driver = Lwm2mDriver::new(&context(&plan, run, address, clock)).unwrap();
    let [acknowledged, _] = assert_steady(&plan, run, clock, driver);
    assert!(acknowledged > 1000, "the load was there: {acknowledged}");
}

/// Loads a platform until a second goes by without an allocation; gives how much was acknowledged and delivered.
fn assert_steady<D: Driver>(plan: &Arc<Plan>, run: RunId, clock: Clock, driver: D) -> [u64; 2] {
    let (replies_in, replies) = channel();
    let wiring = Wiring {
        replies: replies_in,
        mailboxes: vec![Arc::default()],
        number: 0,
        population: 0,
        owners: Arc::new(Owners::new(plan, &Arc::new(Layout::of_one_process(1, 1)))),
        queriers: None,
        datagram_header: 28,
        throttle: None,
        awaits_stages: false,
        run_context: Arc::default(),
    };
    let topology = Arc::new(Topology::of(plan, run));
    let mut shard = Shard::new(Arc::clone(plan), run, topology, Share::WHOLE, driver, wiring);
    let subscribers = plan.subscribers.count;
    if subscribers > 0 {
        connected(&mut shard, &replies, ClientKind::Subscribers, subscribers);
    }
    connected(&mut shard, &replies, ClientKind::Devices, DEVICES);

    let start = clock.now() + Nanos::from_millis(10);
    let hold_end = start + Nanos::from_secs(60);
    let timeline = Timeline { level: 0, start, hold_start: start, hold_end, samples: 2, cut: None };
    shard.apply(Command::Run { timeline, level: plan.load.levels[0], messages: None, drain_end: hold_end });
    // Queues and histograms grow to what the load needs. A stall of this host may make them grow once more, so the first
    // second without one is taken.
    let second = |shard: &mut Shard<D>| {
        let end = clock.now() + Nanos::from_secs(1);
        allocation_counter::measure(|| {
            while clock.now() < end {
                shard.step();
            }
        })
    };
    second(&mut shard);
    let counted: Vec<u64> = (0..20)
        .map(|_| second(&mut shard).count_total)
        .scan(false, |done, count| (!std::mem::replace(done, count == 0)).then_some(count))
        .collect();
    assert_eq!(counted.last(), Some(&0), "allocations in each second: {counted:?}");
    shard.apply(Command::Close);
    let mut totals = [0; 2];
    for reply in replies.try_iter() {
        if let Reply::Part(part) = reply {
            totals[0] += part.counts.acknowledged;
            totals[1] += part.counts.delivered;
        }
    }
    totals
}
