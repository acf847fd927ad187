//! Five hundred bad days in simulated time: a coordinator and its workers over a network that loses, repeats, delays and reorders frames,
//! while one of them is killed, stands still or is cut off, or the server is. A level that counts has each receipt once, at the worker
//! that has the device; each other level says why it does not count; and nobody sends for longer than a lease without a coordinator.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_load::engine::Order;
use plimsoll_load::ledger::Delivery;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::LevelPlan;
use plimsoll_workers::frame::{LinkFrame, ProcessId};
use plimsoll_workers::link::{GONE, LEASE, Link};
use plimsoll_workers::message::Message;
use plimsoll_workers::receipts::{Passed, Receipts, Rounds};
use std::collections::{BTreeMap, BTreeSet};

const RUN: u64 = 7;
const SPOOL: usize = 1 << 24;
const TURN: Nanos = Nanos::from_millis(10);
const HOLD: Nanos = Nanos::from_secs(4);
const LEVELS: u16 = 4;
/// No day lasts longer.
const NIGHT: Nanos = Nanos::from_secs(400);

/// Numbers that look random (splitmix64, Steele and others, 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// From a tenth of a second to about a minute, short ones more often.
    fn span(&mut self) -> Nanos {
        Nanos::from_millis(100 << self.below(10))
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug)]
enum Bad {
    Killed,
    StandsStill(Nanos),
    CutOff(Nanos),
}

/// A process: 0 is the coordinator, the others are workers.
type Place = usize;

fn process(place: Place) -> ProcessId {
    ProcessId(place as u64)
}

/// Frames under way.
#[derive(Default)]
struct Network {
    under_way: BTreeMap<(Nanos, u64), (Place, Place, LinkFrame)>,
    number: u64,
    lost: u64,
    twice: u64,
    slowest: u64,
}

impl Network {
    fn send(&mut self, from: Place, to: Place, frame: &LinkFrame, now: Nanos, draw: &mut Draw) {
        if draw.chance(self.lost) {
            return;
        }
        for _ in 0..=u64::from(draw.chance(self.twice)) {
            let at = now + Nanos::from_millis(1 + draw.below(self.slowest) as i64);
            self.number += 1;
            self.under_way.insert((at, self.number), (from, to, frame.clone()));
        }
    }

    /// What has arrived by now.
    fn arrived(&mut self, now: Nanos) -> Vec<(Place, Place, LinkFrame)> {
        let later = self.under_way.split_off(&(now + Nanos(1), 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }
}

/// Receipts by level and by the worker that has the device: those that were received somewhere, and those that are where they belong.
#[derive(Default)]
struct Truth {
    received: BTreeMap<(u16, Place), BTreeSet<u32>>,
    there: BTreeMap<(u16, Place), Vec<u32>>,
    next: u32,
}

impl Truth {
    /// Whether each receipt of a level is where it belongs, once.
    fn is_exact(&self, level: u16) -> bool {
        let of = |(own, place): &(u16, Place)| {
            let there = self.there.get(&(*own, *place)).cloned().unwrap_or_default();
            let once: BTreeSet<u32> = there.iter().copied().collect();
            once.len() == there.len() && self.received.get(&(*own, *place)) == Some(&once)
        };
        self.received.keys().filter(|(own, _)| *own == level).all(of)
    }
}

struct Worker {
    place: Place,
    threads: usize,
    links: BTreeMap<Place, Link>,
    receipts: Receipts,
    /// The level whose load goes on, and when its hold ends.
    load: Option<(u16, Nanos)>,
    /// The last level that it was told of.
    level: Option<u16>,
    /// What was received here of the devices of others.
    outbox: BTreeMap<Place, Vec<Delivery>>,
    gone: BTreeSet<Place>,
}

impl Worker {
    fn new(place: Place, threads: usize) -> Worker {
        let links = BTreeMap::from([(0, Link::new(RUN, SPOOL, Nanos::ZERO))]);
        let receipts = Receipts::new(threads);
        let (outbox, gone) = (BTreeMap::new(), BTreeSet::new());
        Worker { place, threads, links, receipts, load: None, level: None, outbox, gone }
    }

    fn link(&mut self, other: Place, now: Nanos) -> &mut Link {
        self.links.entry(other).or_insert_with(|| Link::quiet(RUN, SPOOL, now))
    }

    fn tell(&mut self, to: Place, message: &Message, now: Nanos) {
        // A link that is broken carries nothing.
        let _ = self.link(to, now).push(&message.encode());
    }

    fn hear(&mut self, from: Place, frame: LinkFrame, now: Nanos, truth: &mut Truth) {
        if self.gone.contains(&from) {
            return;
        }
        let Ok(Some(bytes)) = self.link(from, now).take(frame, now) else { return };
        match Message::decode(&bytes).unwrap() {
            Message::Receipts(_, deliveries) => {
                self.receipts.came(process(from), deliveries.len() as u64);
                for delivery in deliveries {
                    truth
                        .there
                        .entry((delivery.device as u16, self.place))
                        .or_default()
                        .push(delivery.sequence);
                }
            }
            // Each load thread is told of the level.
            Message::Order(Order { command: Command::Run { timeline, .. }, .. })
                if self.level != Some(timeline.level) =>
            {
                self.level = Some(timeline.level);
                self.load = Some((timeline.level, timeline.hold_end));
            }
            Message::Order(Order { command: Command::PassOn, .. }) => {
                self.load = None;
                if self.receipts.thread_has_passed_on() {
                    self.leave(now);
                    let round = self.receipts.round();
                    self.tell(0, &Message::PassedOn(round), now);
                }
            }
            Message::Expect(expected) => self.receipts.expect(expected),
            Message::Gone(other) => {
                self.gone.insert(other.0 as Place);
                self.links.remove(&(other.0 as Place));
                self.receipts.lose(other);
            }
            _ => {}
        }
        for _ in 0..self.receipts.take_complete() {
            self.tell(0, &Message::Reply(Reply::PassedOn), now);
        }
    }

    /// Sends what was received here of others' devices.
    fn leave(&mut self, now: Nanos) {
        for (to, deliveries) in std::mem::take(&mut self.outbox) {
            self.receipts.sent(process(to), deliveries.len() as u64);
            if !self.gone.contains(&to) {
                self.tell(to, &Message::Receipts(0, deliveries), now);
            }
        }
    }

    fn turn(&mut self, workers: usize, now: Nanos, (draw, truth): (&mut Draw, &mut Truth)) {
        if let Some((level, end)) = self.load {
            if draw.chance(20) {
                let to = 1 + draw.below(workers as u64) as Place;
                if to != self.place {
                    let (device, sequence) = (u32::from(level), truth.next);
                    truth.next += 1;
                    truth.received.entry((level, to)).or_default().insert(sequence);
                    let delivery =
                        Delivery { device, sequence, subscriber: 0, at: now, content: 1, partition: 0 };
                    self.outbox.entry(to).or_default().push(delivery);
                }
            }
            let is_away = self.links.get(&0).unwrap().is_away(now);
            if is_away {
                self.load = None;
                self.tell(0, &Message::Reply(Reply::Halted("stopped its load".into())), now);
            } else if now >= end {
                self.load = None;
                for _ in 0..self.threads {
                    self.tell(0, &Message::Reply(Reply::Drained), now);
                }
            }
        }
        if draw.chance(30) {
            self.leave(now);
        }
    }
}

struct Coordinator {
    links: Vec<Link>,
    threads: Vec<usize>,
    rounds: Rounds,
    level: u16,
    /// Answers of each worker that are still to come, in the phase that goes on.
    awaited: Vec<usize>,
    is_passing: bool,
    /// Why the level does not count.
    reason: Option<String>,
    away: Vec<bool>,
    gone: Vec<bool>,
    /// Each level: why it does not count.
    levels: Vec<Option<String>>,
    is_over: bool,
}

impl Coordinator {
    fn new(threads: Vec<usize>) -> Coordinator {
        let workers = threads.len();
        Coordinator {
            links: (0..workers).map(|_| Link::new(RUN, SPOOL, Nanos::ZERO)).collect(),
            awaited: vec![0; workers],
            threads,
            rounds: Rounds::default(),
            level: 0,
            is_passing: false,
            reason: None,
            away: vec![false; workers],
            gone: vec![false; workers],
            levels: Vec::new(),
            is_over: false,
        }
    }

    fn there(&self) -> Vec<usize> {
        (0..self.links.len()).filter(|place| !self.gone[*place]).collect()
    }

    fn tell(&mut self, place: usize, message: &Message) {
        if self.links[place].push(&message.encode()).is_err() {
            self.lose(place);
        }
    }

    fn order(&mut self, command: &Command) {
        for place in self.there() {
            for _ in 0..self.threads[place] {
                self.tell(place, &Message::Order(Order { shard: 0, command: command.clone() }));
            }
            self.awaited[place] = self.threads[place];
        }
    }

    fn begin(&mut self, now: Nanos) {
        (self.is_passing, self.reason) = (false, None);
        let (hold_start, hold_end) = (now, now + HOLD);
        let timeline =
            Timeline { level: self.level, start: now, hold_start, hold_end, samples: 1, cut: None };
        let level = LevelPlan::Rate(1.0);
        self.order(&Command::Run { timeline, level, messages: None, drain_end: hold_end });
    }

    fn lose(&mut self, place: usize) {
        if std::mem::replace(&mut self.gone[place], true) {
            return;
        }
        self.reason = Some(format!("worker {place} is gone"));
        self.awaited[place] = 0;
        for other in self.there() {
            self.tell(other, &Message::Gone(process(place + 1)));
        }
        self.expect();
    }

    fn expect(&mut self) {
        let working: Vec<ProcessId> = self.there().into_iter().map(|place| process(place + 1)).collect();
        let Some((round, mut expected)) = self.rounds.complete(working) else { return };
        for place in self.there() {
            let nothing = || Passed { round, deliveries: Vec::new() };
            let own = expected.remove(&process(place + 1)).unwrap_or_else(nothing);
            self.tell(place, &Message::Expect(own));
        }
    }

    fn hear(&mut self, place: usize, frame: LinkFrame, now: Nanos) {
        if self.gone[place] {
            return;
        }
        let Ok(taken) = self.links[place].take(frame, now) else { return self.lose(place) };
        let Some(bytes) = taken else { return };
        match Message::decode(&bytes).unwrap() {
            Message::Reply(Reply::Halted(why)) => self.reason = Some(why),
            Message::Reply(Reply::Drained) if !self.is_passing => self.awaited[place] -= 1,
            Message::Reply(Reply::PassedOn) if self.is_passing => self.awaited[place] -= 1,
            Message::PassedOn(passed) => {
                self.rounds.passed(process(place + 1), passed);
                self.expect();
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Nanos, truth: &Truth) {
        for place in self.there() {
            let was_away = std::mem::replace(&mut self.away[place], self.links[place].is_away(now));
            if self.away[place] && !was_away {
                self.reason = Some(format!("worker {place} was not heard of"));
            }
            if self.links[place].silence(now) > GONE {
                self.lose(place);
            }
        }
        let is_answered = self.awaited.iter().all(|count| *count == 0);
        if !self.is_passing && (is_answered || self.reason.is_some()) {
            self.is_passing = true;
            self.order(&Command::PassOn);
        } else if self.is_passing && is_answered {
            assert!(self.reason.is_some() || truth.is_exact(self.level), "level {} counts", self.level);
            self.levels.push(self.reason.take());
            self.level += 1;
            // A run that has lost a worker for good is resumed by those that are left: that is another run.
            if self.level == LEVELS || self.gone.contains(&true) {
                self.is_over = true;
            } else {
                self.begin(now);
            }
        }
    }
}

/// A day whose coordinator comes through; its levels with the reasons why they do not count, and `None` where the coordinator was killed.
fn day(seed: u64) -> Option<Vec<Option<String>>> {
    let mut draw = Draw(seed);
    let workers = 2 + draw.below(4) as usize;
    let mut network = Network {
        lost: draw.below(4) * 5,
        twice: draw.below(3) * 5,
        slowest: 1 << draw.below(8),
        ..Network::default()
    };
    // The last place is that of the server.
    let server = workers + 1;
    let mut bad: BTreeMap<Place, (Nanos, Bad)> = BTreeMap::new();
    for _ in 0..1 + draw.below(2) {
        let place = draw.below(server as u64 + 1) as Place;
        let what = match draw.below(3) {
            0 if place != server => Bad::Killed,
            1 if place != server => Bad::StandsStill(draw.span()),
            _ => Bad::CutOff(draw.span()),
        };
        bad.insert(place, (Nanos::from_millis(draw.below(15_000) as i64), what));
    }
    let happens = |place: Place, now: Nanos| {
        let (at, what) = *bad.get(&place)?;
        let is_on = match what {
            Bad::Killed => now >= at,
            Bad::StandsStill(span) | Bad::CutOff(span) => now >= at && now < at + span,
        };
        is_on.then_some(what)
    };
    let is_cut = |place: Place, now: Nanos| {
        [place, server].into_iter().any(|place| matches!(happens(place, now), Some(Bad::CutOff(_))))
    };
    let killed = bad.get(&0).filter(|(_, what)| matches!(what, Bad::Killed)).map(|(at, _)| *at);
    let threads: Vec<usize> = (0..workers).map(|_| 1 + draw.below(3) as usize).collect();
    let mut all: Vec<Worker> =
        (1..).zip(&threads).map(|(place, threads)| Worker::new(place, *threads)).collect();
    let (mut coordinator, mut truth) = (Coordinator::new(threads), Truth::default());
    coordinator.begin(Nanos::ZERO);
    // Frames for one that stands still wait for it.
    let mut waiting: Vec<(Place, Place, LinkFrame)> = Vec::new();
    let mut now = Nanos::ZERO;
    while !coordinator.is_over {
        now += TURN;
        assert!(now < NIGHT, "seed {seed}: the run does not end; {bad:?}");
        let stands = |place: Place| matches!(happens(place, now), Some(Bad::StandsStill(_)));
        let is_dead = |place: Place| matches!(happens(place, now), Some(Bad::Killed));
        waiting.extend(network.arrived(now));
        for (from, to, frame) in std::mem::take(&mut waiting) {
            match to {
                _ if is_dead(to) || is_cut(to, now) => {}
                _ if stands(to) => waiting.push((from, to, frame)),
                0 => coordinator.hear(from - 1, frame, now),
                _ => all[to - 1].hear(from, frame, now, &mut truth),
            }
        }
        for worker in all.iter_mut().filter(|worker| !is_dead(worker.place) && !stands(worker.place)) {
            worker.turn(workers, now, (&mut draw, &mut truth));
            let from = worker.place;
            for (to, link) in &mut worker.links {
                while let Some(frame) = link.next(now) {
                    if !is_cut(from, now) {
                        network.send(from, *to, &frame, now, &mut draw);
                    }
                }
            }
        }
        if !is_dead(0) && !stands(0) {
            coordinator.turn(now, &truth);
            for (place, link) in coordinator.links.iter_mut().enumerate() {
                while let Some(frame) = link.next(now) {
                    if !is_cut(0, now) {
                        network.send(0, place + 1, &frame, now, &mut draw);
                    }
                }
            }
        }
        if let Some(killed) = killed {
            let sends =
                |worker: &&Worker| worker.load.is_some() && !stands(worker.place) && !is_dead(worker.place);
            let late = now > killed + LEASE + Nanos::from_secs(1);
            let stood = |worker: &&Worker| matches!(bad.get(&worker.place), Some((_, Bad::StandsStill(_))));
            let who =
                all.iter().filter(sends).find(|worker| late && !stood(worker)).map(|worker| worker.place);
            assert!(who.is_none(), "seed {seed}: worker {who:?} sends without a coordinator; {bad:?}");
            if now > killed + LEASE * 2 {
                return None;
            }
        }
    }
    Some(coordinator.levels)
}

#[test]
fn levels_that_count_are_exact_and_all_others_say_why() {
    let days: Vec<_> = (0..500).map(day).collect();
    let levels: Vec<_> = days.iter().flatten().flatten().collect();
    let valid = levels.iter().filter(|reason| reason.is_none()).count();
    let killed = days.iter().filter(|day| day.is_none()).count();
    // Bad days were bad, and not so bad that nothing counts.
    assert!(
        valid > 500 && levels.len() - valid > 100 && killed > 20,
        "{valid} of {}, {killed} killed",
        levels.len()
    );
}
