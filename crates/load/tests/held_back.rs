//! A platform that lets messages go only now and then: that is reported where messages wait because of it, by the level in which they
//! wait.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::messaging::{Failure, Happened, MessagingDriver, Outgoing, Session};
use plimsoll_model::Nanos;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Longer than a platform may hold messages back without a word of it.
const HOLD: Nanos = Nanos::from_millis(30);

/// A protocol whose messages are single letters: `o` lets a client in, `s` lets nothing go and `g` lets all go. A message is an `m`, and a
/// full stop stands behind the last one.
struct Letters {
    may_publish: bool,
    owes_stop: bool,
}

impl Session for Letters {
    const NAME: &'static str = "letters";

    fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'h');
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        Ok((!bytes.is_empty()).then_some(1))
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], _: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        match frame {
            b"o" => Ok(Happened::Ready),
            _ => {
                self.may_publish = frame == b"g";
                // An event by which the test knows that the letter came.
                Ok(Happened::Delivered(frame))
            }
        }
    }

    fn may_publish(&self) -> bool {
        self.may_publish
    }

    fn held_back(&self) -> Option<&'static str> {
        (!self.may_publish).then_some("it let nothing go")
    }

    fn all_sent(&mut self, wait: bool, out: &mut Vec<u8>) {
        if !wait && std::mem::take(&mut self.owes_stop) {
            out.push(b'.');
        }
    }

    fn publish(&mut self, _: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(b'm');
        self.owes_stop = true;
        Ok(())
    }

    fn withdraw(&mut self, _: u32) {}

    fn abandon(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn ping(&mut self, _: &mut Vec<u8>) {}

    fn keep_alive(&self) -> Nanos {
        Nanos::from_secs(60)
    }

    fn goodbye(&mut self, _: bool, _: &mut Vec<u8>) {}

    fn awaited(&self) -> &'static str {
        "a letter"
    }
}

/// A driver with a device, and what it is connected to.
struct Bench {
    driver: MessagingDriver<Letters>,
    clock: Clock,
    platform: TcpStream,
}

impl Bench {
    fn new() -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scenario = format!(
            "name: test\nplatform: {{ profile: existing, address: \"nats://{address}\" }}\n\
             population: {{ devices: 1 }}\nload: {{ levels: [1] }}\n"
        );
        let context = context_of(scenario, None, address);
        let session = |_, _: &[String]| Letters { may_publish: true, owes_stop: false };
        let mut driver = MessagingDriver::new(&context, session).unwrap();
        assert!(driver.connect(Client::Device(0)));
        let accepted = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"o").unwrap();
            stream
        });
        let (clock, mut events) = (context.clock, Vec::new());
        while !events.iter().any(|event| matches!(event, Event::Ready { .. })) {
            driver.poll(clock.now() + Nanos::from_millis(10), &mut events);
        }
        Bench { driver, clock, platform: accepted.join().unwrap() }
    }

    /// Turns the driver until something happens that is looked for.
    fn until(&mut self, found: impl Fn(&Event) -> bool) {
        let (mut events, end) = (Vec::new(), self.clock.now() + Nanos::from_secs(5));
        while !events.iter().any(&found) {
            assert!(self.clock.now() < end, "only {events:?}");
            self.driver.poll(self.clock.now() + Nanos::from_millis(10), &mut events);
        }
    }

    /// The platform says that letter, and it comes.
    fn says(&mut self, letter: u8) {
        self.platform.write_all(&[letter]).unwrap();
        self.until(|event| matches!(event, Event::Received { .. }));
    }

    fn waits(&mut self) {
        let end = self.clock.now() + HOLD;
        while self.clock.now() < end {
            self.driver.poll(end, &mut Vec::new());
        }
    }

    /// What is said when a level is closed.
    fn closes(&mut self) -> Vec<(String, u64)> {
        let mut events = Vec::new();
        self.driver.withdraw(&mut events);
        let incident = |event| match event {
            Event::Incidents { reason, times } => Some((reason, times)),
            _ => None,
        };
        events.into_iter().filter_map(incident).collect()
    }

    /// What the platform was sent.
    fn came(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.platform.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

fn once() -> Vec<(String, u64)> {
    vec![("the platform complained: it let nothing go".to_owned(), 1)]
}

fn never() -> Vec<(String, u64)> {
    Vec::new()
}

#[test]
fn a_platform_that_lets_nothing_go_is_reported_where_messages_wait() {
    let mut bench = Bench::new();
    bench.says(b's');
    bench.waits();
    bench.says(b'g');
    assert_eq!(bench.closes(), never(), "nothing waited");
    bench.says(b's');
    (0..3).for_each(|sequence| bench.driver.submit(0, sequence));
    bench.waits();
    bench.says(b'g');
    assert_eq!(bench.came(4), "mmm.", "the session is asked again when all has left");
    assert_eq!(bench.closes(), once(), "however many waited");
    assert_eq!(bench.closes(), never(), "it is over");
}

#[test]
fn a_level_that_ends_while_messages_wait_says_so_itself() {
    let mut bench = Bench::new();
    bench.says(b's');
    for sequence in 0..2 {
        bench.driver.submit(0, sequence);
        bench.waits();
        assert_eq!(bench.closes(), once());
    }
    bench.says(b'g');
    assert_eq!(bench.closes(), never(), "what waited was withdrawn");
}

#[test]
fn a_connection_that_is_lost_while_messages_wait_says_both() {
    let mut bench = Bench::new();
    bench.says(b's');
    bench.driver.submit(0, 0);
    bench.waits();
    bench.platform.shutdown(std::net::Shutdown::Both).unwrap();
    bench.until(|event| matches!(event, Event::Disconnected { .. }));
    assert_eq!(bench.closes(), once());
}
