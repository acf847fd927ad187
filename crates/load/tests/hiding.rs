//! A platform may repeat the access token in whatever it says; none of it leaves a load thread.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_load::clients::{ClientKind, Clients};
use plimsoll_load::driver::{Client, Driver, Event, Traffic};
use plimsoll_load::layout::Layout;
use plimsoll_load::owners::Owners;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::run_context::RunContext;
use plimsoll_load::shard::{Command, Reply, Shard, Wiring};
use plimsoll_load::share::Share;
use plimsoll_load::topology::Topology;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::{Environment, SourceFile, load};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Tells what it was run_context to tell, all at once, in simulated time.
struct Telling {
    now: Nanos,
    events: Vec<Event>,
}

impl Driver for Telling {
    fn now(&self) -> Nanos {
        self.now
    }

    fn connect(&mut self, client: Client) -> bool {
        self.events.push(Event::ConnectFailed { reason: "who is sesame?".into(), client, lasting: true });
        true
    }

    fn release(&mut self, _: Client) -> bool {
        false
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.now = until;
        events.append(&mut self.events);
    }

    fn take_traffic(&mut self) -> Traffic {
        Traffic::default()
    }

    fn disconnect(&mut self) {}
}

#[test]
fn no_token_leaves_a_load_thread_however_the_platform_repeats_it() {
    let text = "name: a\nplatform: embedded\npopulation: { devices: 1 }\nload: { levels: [1], hold: 1s }\n";
    let environment = Environment { profile: &|_| Err(String::new()), variable: &|_| None };
    let source = SourceFile { name: "test".into(), text: text.into() };
    let plan = Arc::new(load(&source, &[], &environment).unwrap_or_else(|error| panic!("{error}")));
    let (run, run_context) = (RunId::from_bits(7), Arc::new(RunContext::default()));
    run_context.token.renew("a b/c/d");
    run_context.token.renew("sesame");
    let (replies_in, replies) = channel();
    let wiring = Wiring {
        replies: replies_in,
        mailboxes: vec![Arc::default()],
        number: 0,
        population: 0,
        owners: Arc::new(Owners::new(&plan, &Arc::new(Layout::of_one_process(1, 1)))),
        queriers: None,
        datagram_header: 28,
        throttle: None,
        awaits_stages: false,
        run_context,
    };
    let (client, at) = (Client::Device(0), Nanos::ZERO);
    let driver = Telling {
        now: Nanos::ZERO,
        events: vec![
            Event::Refused { device: 0, sequence: 0, at, reason: "no good: sesame".into() },
            Event::Refused { device: 0, sequence: 1, at, reason: "no good: a%20b%2Fc%2fd".into() },
            Event::Unanswered { query: None, reason: "cut: sesa".into() },
            Event::Disconnected { reason: "Basic c2VzYW1l".into(), client, at },
            Event::Incident { reason: "lost".into() },
        ],
    };
    let topology = Arc::new(Topology::of(&plan, run));
    let mut shard = Shard::new(Arc::clone(&plan), run, topology, Share::WHOLE, driver, wiring);
    let (hold_start, hold_end) = (Nanos::from_secs(1), Nanos::from_secs(2));
    let timeline = Timeline { level: 0, start: hold_start, hold_start, hold_end, samples: 1, cut: None };
    shard.apply(Command::Run { timeline, level: plan.load.levels[0], messages: None, drain_end: hold_end });
    shard.step();
    let clients = Clients { kind: ClientKind::Devices, share: Share::WHOLE, from: 0, to: 1 };
    shard.apply(Command::Connect { clients, start: at, gap: Nanos(1), awaited: true });
    while shard.now() < hold_end {
        shard.step();
    }
    shard.apply(Command::Close);
    let replies: Vec<Reply> = replies.try_iter().collect();
    let failed =
        |reply: &Reply| matches!(reply, Reply::ConnectFailed { reason, .. } if reason == "who is ***?");
    assert!(replies.iter().any(failed));
    let told = replies.iter().find_map(|reply| match reply {
        Reply::Closed(_, end) => end.incident.as_deref(),
        _ => None,
    });
    assert_eq!(told, Some("Basic ***; cut: ***; lost; 2 x no good: ***"));
}
