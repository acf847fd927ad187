//! A subscriber that works on each message reads nothing meanwhile: what the platform said and lies unread is no silence of it.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::messaging::{Failure, Happened, MessagingDriver, Outgoing, Session};
use plimsoll_load::drivers::mqtt::MqttDriver;
use plimsoll_model::Nanos;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Messages that come at once: the work on them takes five times as long as an answer to a ping may.
const MESSAGES: usize = 20;
const WORK: &str = "50ms";
const PATIENCE: Nanos = Nanos::from_millis(200);

/// A protocol whose messages are single letters: `o` lets a client in, `d` delivers, and `p` asks for an `a`.
struct Letters;

impl Session for Letters {
    const NAME: &'static str = "letters";

    fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'h');
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        Ok((!bytes.is_empty()).then_some(1))
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], _: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        Ok(match frame {
            b"o" => Happened::Ready,
            b"a" => Happened::Pong,
            _ => Happened::Delivered(frame),
        })
    }

    fn may_publish(&self) -> bool {
        false
    }

    fn publish(&mut self, _: Outgoing<'_>, _: &mut Vec<u8>) -> Result<(), String> {
        Err("nothing is published".to_owned())
    }

    fn withdraw(&mut self, _: u32) {}

    fn abandon(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        out.push(b'p');
    }

    fn keep_alive(&self) -> Nanos {
        PATIENCE / 4
    }

    fn patience(&self) -> Nanos {
        PATIENCE
    }

    fn goodbye(&mut self, _: bool, _: &mut Vec<u8>) {}

    fn awaited(&self) -> &'static str {
        "a letter"
    }
}

/// Delivers to the one who comes, and then answers so many pings.
fn platform(mut stream: TcpStream, answers: usize) {
    let mut letter = [0];
    stream.read_exact(&mut letter).unwrap();
    stream.write_all(b"o").unwrap();
    stream.write_all(&[b'd'; MESSAGES]).unwrap();
    for _ in 0..answers {
        if stream.read_exact(&mut letter).is_err() || stream.write_all(b"a").is_err() {
            return;
        }
    }
    // It stays, and says nothing.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_subscriber_that_works_for_long_keeps_its_connection_and_leaves_a_silent_platform() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let scenario = format!(
        "name: test\nplatform: {{ profile: existing, address: \"nats://{address}\" }}\n\
         population: {{ devices: 1, subscribers: {{ count: 1, work: {WORK} }} }}\nload: {{ levels: [1] }}\n"
    );
    let context = context_of(scenario, None, address);
    let mut driver = MessagingDriver::new(&context, |_, _: &[String]| Letters).unwrap();
    assert!(driver.connect(Client::Subscriber(0)));
    let serves = std::thread::spawn(move || platform(listener.accept().unwrap().0, 2));
    let (clock, mut all, mut events) = (context.clock, Vec::new(), Vec::new());
    let end = clock.now() + Nanos::from_secs(20);
    while !all.iter().any(|event| matches!(event, Event::Disconnected { .. })) {
        assert!(clock.now() < end, "only {all:?}");
        driver.poll(clock.now() + Nanos::from_millis(10), &mut events);
        all.append(&mut events);
    }
    let delivered = all.iter().filter(|event| matches!(event, Event::Received { .. })).count();
    assert_eq!(delivered, MESSAGES, "{all:?}");
    let Some(Event::Disconnected { reason, .. }) = all.last() else { panic!("{all:?}") };
    assert!(reason.contains("a ping was not answered"), "{reason}");
    drop(driver);
    serves.join().unwrap();
}

/// The same of MQTT at QoS 0, where a subscriber has nothing to say but pings.
#[test]
fn an_mqtt_subscriber_that_works_for_long_keeps_its_connection() {
    const DELIVERED: usize = 8;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let scenario = format!(
        "name: test\nplatform: {{ profile: existing, address: \"mqtt://{address}\" }}\n\
         population: {{ devices: 1, subscribers: {{ count: 1, filters: [a], work: 400ms }} }}\n\
         mqtt: {{ qos: 0, keep_alive: 1s }}\nload: {{ levels: [1] }}\n"
    );
    let context = context_of(scenario, None, address);
    let mut driver = MqttDriver::new(&context).unwrap();
    assert!(driver.connect(Client::Subscriber(0)));
    let serves = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut pings = 0;
        loop {
            let mut head = [0; 2];
            if stream.read_exact(&mut head).is_err() {
                return pings;
            }
            let mut rest = vec![0; usize::from(head[1])];
            stream.read_exact(&mut rest).unwrap();
            match head[0] >> 4 {
                1 => stream.write_all(&[0x20, 2, 0, 0]).unwrap(),
                8 => {
                    stream.write_all(&[0x90, 3, rest[0], rest[1], 0]).unwrap();
                    stream.write_all(&[0x30, 4, 0, 1, b'a', b'x'].repeat(DELIVERED)).unwrap();
                }
                12 => {
                    pings += 1;
                    // One answer that comes while it works; then it stays, and says nothing.
                    if pings == 1 {
                        stream.write_all(&[0xd0, 0]).unwrap();
                    }
                }
                _ => {}
            }
        }
    });
    let (clock, mut all, mut events) = (context.clock, Vec::new(), Vec::new());
    let end = clock.now() + Nanos::from_secs(30);
    while !all.iter().any(|event| matches!(event, Event::Disconnected { .. })) {
        assert!(clock.now() < end, "only {all:?}");
        driver.poll(clock.now() + Nanos::from_millis(10), &mut events);
        all.append(&mut events);
    }
    let delivered = all.iter().filter(|event| matches!(event, Event::Received { .. })).count();
    assert_eq!(delivered, DELIVERED, "{all:?}");
    let Some(Event::Disconnected { reason, .. }) = all.last() else { panic!("{all:?}") };
    assert!(reason.contains("PINGREQ was not answered"), "{reason}");
    drop(driver);
    assert_eq!(serves.join().unwrap(), 2);
}
