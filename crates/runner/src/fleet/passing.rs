//! Passes orders of the engine to workers and their replies back, in a thread of its own, until the engine is gone.

use super::{Fleet, Input, Member, TURN, now};
use plimsoll_load::clock::Clock;
use plimsoll_load::engine::{Engine, Order, Orders};
use plimsoll_load::run_context::RunContext;
use plimsoll_load::shard::Reply;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Plan;
use plimsoll_workers::message::{Give, Message};
use plimsoll_workers::post::Arrival;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A worker that is away for so long does not come back.
const GONE: Nanos = Nanos::from_secs(30);
/// How long workers may take to hear that the run is over.
const PARTING: Duration = Duration::from_secs(3);

/// The thread that passes orders and replies. It ends when the engine was dropped, and is awaited when this is.
pub struct Passing(Option<JoinHandle<()>>);

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
        let orders = Orders { orders, replies: answers, threads: self.threads };
        let engine = Engine::elsewhere(plan, orders, clock, contexts.clone());
        let mut work = Work { fleet: self, replies, given: vec![false; contexts.len()], contexts, token: 0 };
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
}

impl Work {
    fn pass(&mut self) {
        loop {
            self.fleet.send();
            match self.fleet.inputs.recv_timeout(TURN) {
                Ok(Input::Arrival(Arrival::Frame(frame, read))) => match self.fleet.take(frame, read) {
                    Ok(Some((_, message))) => self.heard(message),
                    Ok(None) => {}
                    Err(error) => self.reply(Reply::Lost(error.to_string())),
                },
                Ok(Input::Arrival(Arrival::Announced(_))) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Input::Order(order)) => self.order(order),
                Ok(Input::Over) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look_for_missing();
            self.give();
        }
    }

    /// An engine that is gone wants no reply.
    fn reply(&self, reply: Reply) {
        let _ = self.replies.send(reply);
    }

    fn heard(&mut self, message: Message) {
        match message {
            Message::Reply(reply) => self.reply(reply),
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
        let index = order.shard % self.fleet.threads.max(1);
        let has = |member: &&mut Member| (member.first..member.first + member.threads).contains(&index);
        let Some(member) = self.fleet.members.iter_mut().find(has) else { return };
        if let Err(error) = member.tell(&Message::Order(order)) {
            self.reply(Reply::Lost(error.to_string()));
        }
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
        for message in &told {
            self.tell_all(message);
        }
    }

    fn tell_all(&mut self, message: &Message) {
        let told: Vec<_> = self.fleet.members.iter_mut().map(|member| member.tell(message)).collect();
        for error in told.into_iter().filter_map(Result::err) {
            self.reply(Reply::Lost(error.to_string()));
        }
    }

    /// Who was not heard of for as long as a lease has stopped its load by now.
    fn look_for_missing(&mut self) {
        let mut told = Vec::new();
        for member in &mut self.fleet.members {
            let is_away = member.link.is_away(now());
            if is_away && !member.is_away {
                told.push(Reply::Halted(format!(
                    "worker {} was not heard of for {}: it has stopped its load",
                    member.worker.name,
                    plimsoll_workers::link::LEASE
                )));
            }
            member.is_away = is_away;
            if member.link.silence(now()) > GONE {
                told.push(Reply::Lost(format!(
                    "worker {} was not heard of for {GONE}: it is gone, or the NATS server is",
                    member.worker.name
                )));
            }
        }
        told.into_iter().for_each(|reply| self.reply(reply));
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
        let is_heard = |member: &Member| member.link.is_idle() || member.link.broken().is_some() || member.is_away;
        while Instant::now() < end && !self.members.iter().all(is_heard) {
            self.send();
            if let Ok(Input::Arrival(Arrival::Frame(frame, read))) = self.inputs.recv_timeout(TURN) {
                let _ = self.take(frame, read);
            }
        }
    }
}
