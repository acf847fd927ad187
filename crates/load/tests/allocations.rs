//! The steady state allocates nothing: a load thread that publishes, is acknowledged and receives uses the memory that it
//! has. Only where a sample ends does it give its counts and histograms away, and begin with new ones.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_load::arrivals::Share;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver};
use plimsoll_load::drivers::mqtt::MqttDriver;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply, Shard, Wiring};
use plimsoll_load::topology::Topology;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Environment, Source, load};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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

fn plan() -> Arc<Plan> {
    let text = format!(
        "name: steady\nplatform: {{ profile: existing, address: \"mqtt://127.0.0.1\" }}\n\
         population: {{ devices: {DEVICES}, subscribers: 1 }}\n\
         message: {{ size: 20 }}\nload: {{ levels: [2000], hold: 60s, samples: 2, warm_up: 0s }}\n"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| None };
    Arc::new(load(&Source { name: "test".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}")))
}

fn connected<D: Driver>(shard: &mut Shard<D>, replies: &Receiver<Reply>, clients: Vec<Client>) {
    shard.apply(Command::Connect { clients, start: Nanos::ZERO, gap: Nanos(1), awaited: true });
    while !replies.try_iter().any(|reply| matches!(reply, Reply::AllReady)) {
        shard.step();
    }
}

#[test]
fn a_load_thread_in_its_steady_state_allocates_nothing() {
    let reflector = Reflector::start();
    let (plan, run, clock) = (plan(), RunId::from_bits(7), Clock::start());
    let driver = MqttDriver::new(&plan, run, reflector.address, Share::WHOLE, clock).unwrap();
    let (replies_in, replies) = channel();
    let wiring = Wiring { replies: replies_in, mailboxes: vec![Arc::default()] };
    let topology = Arc::new(Topology::of(&plan, run));
    let mut shard = Shard::new(Arc::clone(&plan), run, topology, Share::WHOLE, driver, wiring);
    connected(&mut shard, &replies, vec![Client::Subscriber(0)]);
    connected(&mut shard, &replies, (0..DEVICES).map(Client::Device).collect());

    let start = clock.now() + Nanos::from_millis(10);
    let hold_end = start + Nanos::from_secs(60);
    let timeline = Timeline { level: 0, start, hold_start: start, hold_end, samples: 2 };
    shard.apply(Command::Run { timeline, level: plan.load.levels[0], drain_end: hold_end });
    // Queues and histograms grow to what the load needs. A stall of this host may make them grow once more, so the first
    // second without one is taken.
    let second = |shard: &mut Shard<MqttDriver>| {
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
    let acknowledged: u64 = replies
        .try_iter()
        .filter_map(|reply| match reply {
            Reply::Part(part) => Some(part.counts.acknowledged.min(part.counts.delivered)),
            _ => None,
        })
        .sum();
    assert!(acknowledged > 1000, "the load was there: {acknowledged}");
}
