//! Passes orders of the engine to workers and their replies back, in a thread of its own, until the engine is gone.

use super::{AT_ONCE, Fleet, Input, Member, TURN};
use plimsoll_load::clock::{Clock, monotonic};
use plimsoll_load::engine::{Engine, Order, Orders};
use plimsoll_load::run_context::RunContext;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_model::Nanos;
use plimsoll_model::record::{Crossed, LevelClocks, LevelEnd, WorkerClock};
use plimsoll_scenario::plan::Plan;
use plimsoll_workers::frame::Frame;
use plimsoll_workers::gathered_parts::GatheredParts;
use plimsoll_workers::link::{GONE, LEASE};
use plimsoll_workers::message::{Crossing, Give, Message};
use plimsoll_workers::post::Arrival;
use plimsoll_workers::receipts::{Passed, Rounds};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What workers saw of a sample comes within such a time, and is given to the engine at once.
const PARTS_WITHIN: Nanos = Nanos::from_millis(100);

/// How long workers may take to hear that the run is over.
const PARTING: Duration = Duration::from_secs(3);

/// The thread that passes orders and replies. It ends when the engine was dropped, and is awaited when this is.
pub struct Passing(Option<JoinHandle<Fleet>>);

impl Passing {
    /// Waits until it ends; the workers, which do not know yet that the run is over.
    pub fn end(mut self) -> Option<Fleet> {
        self.0.take()?.join().ok()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

impl Fleet {
    /// The engine whose load threads the workers have, which have begun; and what passes its orders. Drop the engine first.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn engine(
        self,
        plan: &Arc<Plan>,
        clock: Clock,
        contexts: Vec<Arc<RunContext>>,
    ) -> std::io::Result<(Engine, Passing)> {
        let (orders, ordered) = channel::<Order>();
        let (replies, answers) = channel();
        let input = self.input.clone();
        let spawn = |name: &str| std::thread::Builder::new().name(name.into());
        // Ends with the engine, which has the only sender.
        spawn("orders").spawn(move || {
            for order in ordered {
                if input.send(Input::Order(order)).is_err() {
                    return;
                }
            }
            let _ = input.send(Input::Over);
        })?;
        let orders = Orders { orders, replies: answers, layout: Arc::clone(&self.layout) };
        let engine = Engine::elsewhere(plan, orders, clock, contexts.clone());
        let work = Work {
            fleet: self,
            replies,
            given: vec![false; contexts.len()],
            contexts,
            token: 0,
            level: None,
            closes: false,
            crossed: Vec::new(),
            rounds: Rounds::default(),
            parts: GatheredParts::default(),
            parts_since: Nanos::ZERO,
        };
        let thread = spawn("workers").spawn(move || work.pass())?;
        Ok((engine, Passing(Some(thread))))
    }
}

struct Work {
    fleet: Fleet,
    replies: Sender<Reply>,
    contexts: Vec<Arc<RunContext>>,
    /// To which populations the workers were given what was captured.
    given: Vec<bool>,
    /// The generation of the access token that they have.
    token: u64,
    /// The level that goes on; `None` before the first.
    level: Option<u16>,
    /// Whether it is being closed.
    closes: bool,
    /// What came to a worker from other ones in it.
    crossed: Vec<(usize, Crossing)>,
    /// What workers have passed on to each other.
    rounds: Rounds,
    /// What workers saw of samples, and since when it waits for more.
    parts: GatheredParts,
    parts_since: Nanos,
}

/// A reply that an order awaits, as it is given in the place of a worker that is gone.
#[derive(Clone, Debug)]
pub(super) struct Awaited(Reply);

impl Awaited {
    /// That of an order to a shard of a population; `level` is the one that goes on.
    fn of(command: &Command, population: u16, level: u16) -> Option<Awaited> {
        let reply = match command {
            Command::Connect { awaited: true, .. } => Reply::AllReady,
            Command::Connect { awaited: false, .. } => return None,
            Command::Release(_) | Command::Flush => Reply::Flushed,
            Command::Run { .. } => Reply::Drained,
            Command::PassOn => Reply::PassedOn,
            Command::Close => {
                Reply::Closed(population, Box::new(LevelEnd { index: level, ..LevelEnd::default() }))
            }
            Command::Stop => Reply::Stopped,
        };
        Some(Awaited(reply))
    }

    /// Whether a reply is of that kind.
    fn is(&self, reply: &Reply) -> bool {
        std::mem::discriminant(&self.0) == std::mem::discriminant(reply)
    }
}

impl Work {
    fn pass(mut self) -> Fleet {
        loop {
            self.fleet.send();
            match self.fleet.inputs.recv_timeout(TURN) {
                Ok(input) => {
                    if !self.input(input) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // With thousands of workers, a look at all of them costs more than an input does.
            let further: Vec<Input> = self.fleet.inputs.try_iter().take(AT_ONCE).collect();
            if !further.into_iter().all(|input| self.input(input)) {
                break;
            }
            if !self.parts.is_empty() && monotonic() - self.parts_since >= PARTS_WITHIN {
                self.give_parts();
            }
            self.look_for_missing();
            self.give();
        }
        self.fleet
    }

    /// Whether it goes on after that.
    fn input(&mut self, input: Input) -> bool {
        match input {
            Input::Arrival(Arrival::Frame(frame, read)) => self.frame(frame, read),
            Input::Arrival(Arrival::Announced(_)) => {}
            Input::Order(order) => self.order(order),
            Input::Over => return false,
        }
        true
    }

    /// What was seen of samples goes before what ends a level or the set-up. An engine that is gone wants no reply.
    fn reply(&mut self, reply: Reply) {
        if matches!(reply, Reply::PassedOn | Reply::Closed(..) | Reply::Flushed | Reply::Stopped) {
            self.give_parts();
        }
        let _ = self.replies.send(reply);
    }

    /// Gives what all workers saw of a sample as one.
    fn give_parts(&mut self) {
        for part in self.parts.take() {
            let _ = self.replies.send(Reply::Part(Box::new(part)));
        }
    }

    fn frame(&mut self, frame: Frame, read: i64) {
        let from = frame.from;
        match self.fleet.take(frame, read) {
            Ok(Some((place, message))) => self.heard(place, message),
            Ok(None) => {}
            Err(error) => {
                if let Some(place) =
                    self.fleet.members.iter().position(|member| member.worker.process == from)
                {
                    self.lose(place, &error.to_string());
                }
            }
        }
    }

    fn heard(&mut self, place: usize, message: Message) {
        let Some(member) = self.fleet.members.get_mut(place).filter(|member| !member.is_gone) else { return };
        match message {
            Message::Reply(Reply::Lost(why)) => {
                let why = format!("worker {}: {why}", member.worker.name);
                self.lose(place, &why);
            }
            Message::Reply(Reply::Halted(why)) => {
                let why = format!("worker {} {why}", member.worker.name);
                self.reply(Reply::Halted(why));
            }
            Message::Reply(Reply::Part(part)) => {
                if self.parts.is_empty() {
                    self.parts_since = monotonic();
                }
                self.parts.add(*part);
            }
            Message::Reply(reply) => {
                if let Some(answered) = member.awaited.iter().position(|awaited| awaited.is(&reply)) {
                    member.awaited.swap_remove(answered);
                }
                self.reply(reply);
            }
            Message::PassedOn(passed) => {
                self.rounds.passed(member.worker.process, passed);
                self.expect();
            }
            Message::Crossed(crossings) => {
                self.crossed.extend(crossings.into_iter().map(|crossing| (place, crossing)));
            }
            Message::TokenRefused => {
                if let Some(context) = self.contexts.first() {
                    context.token.refuse(self.token);
                }
            }
            // Nothing else is said once the load has begun.
            _ => {}
        }
    }

    /// What the workers need for an order goes before it.
    fn order(&mut self, order: Order) {
        self.give();
        match &order.command {
            Command::Run { timeline, .. } if self.closes || self.level != Some(timeline.level) => {
                (self.level, self.closes) = (Some(timeline.level), false);
                self.crossed.clear();
                self.fleet.clocks.level_begins();
            }
            Command::Close if !self.closes => {
                // All workers have passed on what they received of others' devices.
                self.closes = true;
                let clocks = self.clocks();
                self.reply(Reply::Clocks(Box::new(clocks)));
            }
            _ => {}
        }
        let layout = &self.fleet.layout;
        let home = layout.population_of(order.shard).zip(layout.process_of(order.shard));
        let Some((population, place)) = home else { return };
        let Some(member) = self.fleet.members.get_mut(place) else { return };
        let awaited = Awaited::of(&order.command, population as u16, self.level.unwrap_or_default());
        if member.is_gone {
            awaited.into_iter().for_each(|Awaited(reply)| self.reply(reply));
            return;
        }
        member.awaited.extend(awaited);
        if let Err(error) = member.tell(&Message::Order(order)) {
            self.lose(place, &error.to_string());
        }
    }

    /// How clocks stood in the level that is being closed, and what went from one to another one.
    fn clocks(&self) -> LevelClocks {
        let Fleet { members, clocks, .. } = &self.fleet;
        let own = members.iter().filter_map(|member| {
            let (began, ended) = clocks.in_level(member.clock?)?;
            Some(WorkerClock { worker: member.worker.name.clone(), began, ended })
        });
        let mut crossed: Vec<Option<Crossed>> = vec![None; self.contexts.len()];
        for (place, Crossing { from, population, deliveries }) in &self.crossed {
            let clock_of = |member: &Member| member.clock;
            let receiver = members.iter().find(|member| member.worker.process == *from).map(clock_of);
            let owner = members.get(*place).map(clock_of);
            let within = owner.zip(receiver).and_then(|(owner, receiver)| clocks.between(owner, receiver));
            if let (Some(within), Some(of)) = (within, crossed.get_mut(usize::from(*population))) {
                let own = Crossed { deliveries: *deliveries, within };
                *of = of.take().into_iter().chain([own]).reduce(Crossed::merged);
            }
        }
        LevelClocks { clocks: own.collect(), crossed }
    }

    /// Gives what was captured, once, and the access token whenever it is new.
    fn give(&mut self) {
        let mut told = Vec::new();
        for (population, (context, given)) in self.contexts.iter().zip(&mut self.given).enumerate() {
            if let Some(captures) = context.captures.get().filter(|_| !*given) {
                *given = true;
                let own = |(slot, device, subscriber, value): (usize, u32, u32, &str)| {
                    (slot, device, subscriber, value.to_owned())
                };
                told.push(Message::Give(Give { population, values: captures.values().map(own).collect() }));
            }
        }
        if let Some(context) = self.contexts.first() {
            let (generation, token) = context.token.current();
            if generation != self.token {
                self.token = generation;
                told.push(Message::Token(token.to_string()));
            }
        }
        told.iter().for_each(|message| self.tell_all(message));
    }

    fn tell_all(&mut self, message: &Message) {
        for place in 0..self.fleet.members.len() {
            let Some(member) = self.fleet.members.get_mut(place).filter(|member| !member.is_gone) else {
                continue;
            };
            if let Err(error) = member.tell(message) {
                self.lose(place, &error.to_string());
            }
        }
    }

    /// Who was not heard of for as long as a lease has stopped its load by now.
    fn look_for_missing(&mut self) {
        let now = monotonic();
        for place in 0..self.fleet.members.len() {
            let Some(member) = self.fleet.members.get_mut(place).filter(|member| !member.is_gone) else {
                continue;
            };
            let silence = member.link.silence(now);
            let was_away = std::mem::replace(&mut member.is_away, member.link.is_away(now));
            if !member.is_away {
                continue;
            }
            let name = member.worker.name.clone();
            if !was_away {
                self.reply(Reply::Halted(format!(
                    "worker {name} was not heard of for {LEASE}: it has stopped its load"
                )));
            }
            if silence > GONE {
                self.lose(
                    place,
                    &format!("worker {name} was not heard of for {GONE}: it is gone, or its way to the NATS server is"),
                );
            }
        }
    }

    /// A worker is gone for good: the engine gets the replies that it still awaits, and the others wait for no receipts of it.
    fn lose(&mut self, place: usize, why: &str) {
        let Some(member) = self.fleet.members.get_mut(place).filter(|member| !member.is_gone) else { return };
        member.is_gone = true;
        let (process, awaited) = (member.worker.process, std::mem::take(&mut member.awaited));
        self.reply(Reply::Lost(why.to_owned()));
        awaited.into_iter().for_each(|Awaited(reply)| self.reply(reply));
        self.tell_all(&Message::Gone(process));
        self.expect();
    }

    /// Once all workers have passed on what they had received of others' devices, each hears what is to come to it.
    fn expect(&mut self) {
        let is_working = |member: &&Member| member.threads > 0 && !member.is_gone;
        let working = self.fleet.members.iter().filter(is_working).map(|member| member.worker.process);
        let Some((round, mut expected)) = self.rounds.complete(working) else { return };
        for place in 0..self.fleet.members.len() {
            let is_working = |member: &&mut Member| member.threads > 0 && !member.is_gone;
            let Some(member) = self.fleet.members.get_mut(place).filter(is_working) else { continue };
            let nothing = || Passed { round, deliveries: Vec::new() };
            let own = expected.remove(&member.worker.process).unwrap_or_else(nothing);
            if let Err(error) = member.tell(&Message::Expect(own)) {
                self.lose(place, &error.to_string());
            }
        }
    }
}

/// Workers hear that the run is over, however it ended.
impl Drop for Fleet {
    fn drop(&mut self) {
        // Who is gone need not hear of it.
        for member in &mut self.members {
            let _ = member.tell(&Message::End);
        }
        let end = Instant::now() + PARTING;
        let is_heard = |member: &Member| {
            member.is_gone || member.is_away || member.link.is_idle() || member.link.broken().is_some()
        };
        while Instant::now() < end && !self.members.iter().all(is_heard) {
            self.send();
            if let Ok(Input::Arrival(Arrival::Frame(frame, read))) = self.inputs.recv_timeout(TURN) {
                let _ = self.take(frame, read);
            }
        }
    }
}
