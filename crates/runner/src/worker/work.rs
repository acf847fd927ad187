//! What a worker does for one run.

use super::{Input, PlanOf, SPOOL};
use crate::fleet::digest;
use plimsoll_load::clock::{Clock, monotonic};
use plimsoll_load::engine::LoadPart;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::run_context::RunContext;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_model::record::ThreadUsage;
use plimsoll_model::{Nanos, RunId};
use plimsoll_observe::threads::ThreadSampler;
use plimsoll_scenario::plan::{Captures, Plan};
use plimsoll_workers::frame::{Body, LinkFrame, ProcessId};
use plimsoll_workers::link::Link;
use plimsoll_workers::message::{Begin, Give, Message, Prepare, Prepared};
use plimsoll_workers::post::Post;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// A coordinator that is away for so long does not come back.
const GONE: Nanos = Nanos::from_secs(30);

/// The processors of load threads, and where their replies go.
pub type Host<'a> = (&'a [Option<usize>], &'a Sender<Input>);

/// See the module.
pub struct Work {
    pub run: RunId,
    /// The run as frames name it.
    bits: u64,
    coordinator: ProcessId,
    /// To the coordinator, and to the other workers.
    links: BTreeMap<ProcessId, Link>,
    prepare: Option<Prepare>,
    plan: Option<Arc<Plan>>,
    /// Why it does not work for the run after all.
    refusal: Option<String>,
    contexts: Vec<Arc<RunContext>>,
    /// Whether the coordinator was told that the platform refuses the access token.
    token_refused: bool,
    load: Option<Load>,
    /// Whether the coordinator said that the run is over.
    ended: bool,
}

/// Load threads that run.
struct Load {
    part: LoadPart,
    clock: Clock,
    /// By how much that is ahead of the coordinator's, as the coordinator said last.
    ahead: Nanos,
    threads: ThreadSampler,
    /// Replies of shards that have passed on their receipts, up to now and in this round.
    passed: usize,
    /// How often all of them have, here and at each other worker.
    rounds: u32,
    others: BTreeMap<ProcessId, u32>,
    /// Replies that wait until all other workers have passed on theirs.
    held_back: usize,
    stopped: usize,
    level: Option<Level>,
    /// Where the load of the level was stopped here: what its shards replied when they were closed, and how many of these replies the
    /// coordinator wants.
    halted: Option<Halted>,
}

#[derive(Default)]
struct Halted {
    closed: Vec<Reply>,
    wanted: usize,
}

/// The level that goes on.
struct Level {
    timeline: Timeline,
    /// The sample whose end is awaited.
    next_sample: u16,
    in_hold: bool,
}

impl Work {
    /// A run of which only the first frame has come.
    pub fn to_come(coordinator: ProcessId, bits: u64, link: Link) -> Work {
        Work {
            run: RunId::from_bits(0),
            bits,
            coordinator,
            links: BTreeMap::from([(coordinator, link)]),
            prepare: None,
            plan: None,
            refusal: None,
            contexts: Vec::new(),
            token_refused: false,
            load: None,
            ended: false,
        }
    }

    /// Whether a frame belongs to this run.
    pub fn is_from(&self, from: ProcessId, frame: &LinkFrame) -> bool {
        frame.run == self.bits && self.links.contains_key(&from)
    }

    /// For people: whether it is ready.
    pub fn told(&self) -> String {
        match (&self.refusal, &self.prepare) {
            (Some(why), _) => format!("refused: {why}"),
            (None, Some(Prepare { first, threads, of, .. })) => {
                format!("ready with {threads} of {of} load threads, from number {first} on")
            }
            (None, None) => "is being sent".into(),
        }
    }

    /// Takes a frame; what it asks for is done at once.
    pub fn frame(&mut self, from: ProcessId, frame: LinkFrame, plan_of: PlanOf<'_>, host: Host<'_>) {
        let Some(link) = self.links.get_mut(&from) else { return };
        let Ok(Some(bytes)) = link.take(frame, monotonic()) else { return };
        let Ok(message) = Message::decode(&bytes) else { return };
        if from == self.coordinator {
            self.order(message, plan_of, host);
        } else {
            self.receipt(from, message);
        }
    }

    /// Makes ready for a run, or refuses it.
    pub fn prepare(&mut self, prepare: Prepare, plan_of: PlanOf<'_>) {
        let answer = self.make(&prepare, plan_of).map(|plan| {
            for (other, ..) in &prepare.others {
                self.links.insert(*other, Link::new(self.bits, SPOOL, monotonic()));
            }
            self.plan = Some(Arc::new(plan));
            self.prepare = Some(prepare);
            Prepared { warnings: Vec::new(), host: plimsoll_observe::host::facts() }
        });
        self.refusal = answer.as_ref().err().cloned();
        self.tell(&Message::Prepared(answer));
    }

    fn make(&mut self, prepare: &Prepare, plan_of: PlanOf<'_>) -> Result<Plan, String> {
        let own = env!("CARGO_PKG_VERSION");
        if prepare.version != own {
            return Err(format!(
                "it has Plimsoll {own}, and the coordinator {}: all need the same version",
                prepare.version
            ));
        }
        let run = prepare.run_id().filter(|run| run.bits() == self.bits);
        self.run = run.ok_or_else(|| format!("`{}` is no run", prepare.run))?;
        let plan = plan_of(&prepare.source)?;
        let digest = digest(&plan);
        if digest != prepare.digest {
            return Err(format!(
                "it makes another plan of the scenario ({digest}) than the coordinator ({})",
                prepare.digest
            ));
        }
        Ok(plan)
    }

    fn tell(&mut self, message: &Message) {
        self.send_to(self.coordinator, message);
    }

    /// A link that is broken carries nothing; that to the coordinator ends the run.
    fn send_to(&mut self, other: ProcessId, message: &Message) {
        if let Some(link) = self.links.get_mut(&other) {
            let _ = link.push(&message.encode());
        }
    }

    /// What the coordinator wants.
    fn order(&mut self, message: Message, plan_of: PlanOf<'_>, host: Host<'_>) {
        match message {
            Message::Prepare(prepare) if self.prepare.is_none() => self.prepare(*prepare, plan_of),
            Message::Begin(begin) if self.load.is_none() => {
                let begun = self.begin(&begin, host);
                self.tell(&Message::Begun(begun));
            }
            Message::Give(give) => self.give(give),
            Message::Token(token) => {
                self.token_refused = false;
                if let Some(context) = self.contexts.first() {
                    context.token.renew(&token);
                }
            }
            Message::Clock(ahead) => {
                if let Some(load) = &mut self.load {
                    load.ahead = Nanos(ahead);
                }
            }
            Message::Gone(process) => {
                self.links.remove(&process);
                self.pass_on();
            }
            Message::Order(order) => {
                let Some(load) = &mut self.load else { return };
                if let Command::Run { timeline, .. } = &order.command {
                    load.begin_level(*timeline);
                }
                if let (Some(halted), Command::Close) = (&mut load.halted, &order.command) {
                    halted.wanted += 1;
                    return self.give_closed();
                }
                if let Err(died) = load.part.tell(order.shard, order.command) {
                    self.tell(&Message::Reply(Reply::Lost(died.to_string())));
                }
            }
            Message::End => self.ended = true,
            // Others are for coordinators and between workers.
            _ => {}
        }
    }

    fn begin(&mut self, begin: &Begin, (processors, input): Host<'_>) -> Result<(), String> {
        let (Some(plan), Some(prepare)) = (self.plan.clone(), &self.prepare) else {
            return Err("it was not made ready".into());
        };
        let (part, threads) = (prepare.part(), prepare.threads as usize);
        let processors: Vec<Option<usize>> =
            processors.iter().copied().chain(std::iter::repeat(None)).take(threads).collect();
        let clock = Clock::at(begin.epoch);
        let token = Arc::default();
        let context = |_| Arc::new(RunContext { token: Arc::clone(&token), ..RunContext::default() });
        self.contexts = plan.populations().map(context).collect();
        let run = (&plan, self.run);
        let started =
            LoadPart::start(run, &begin.addresses, (&processors, true), part, clock, &self.contexts);
        let (part, replies) = started.map_err(|error| error.to_string())?;
        let input = input.clone();
        let passing = std::thread::Builder::new().name("replies".into()).spawn(move || {
            for reply in replies {
                if input.send(Input::Reply(reply)).is_err() {
                    return;
                }
            }
        });
        passing.map_err(|error| format!("a thread could not start: {error}"))?;
        self.load = Some(Load {
            threads: ThreadSampler::new(part.threads()),
            part,
            clock,
            ahead: Nanos::ZERO,
            passed: 0,
            rounds: 0,
            others: BTreeMap::new(),
            held_back: 0,
            stopped: 0,
            level: None,
            halted: None,
        });
        Ok(())
    }

    /// Takes what was captured for a population, once.
    fn give(&mut self, give: Give) {
        let Some(plan) = self.plan.as_ref().and_then(|plan| plan.populations().nth(give.population)) else {
            return;
        };
        let mut captures = Captures::new(&plan.platform.roles.captured);
        for (slot, device, subscriber, value) in give.values {
            captures.set(slot, device, subscriber, value);
        }
        if let Some(context) = self.contexts.get(give.population) {
            let _ = context.captures.set(captures);
        }
    }

    /// What another worker has to say.
    fn receipt(&mut self, from: ProcessId, message: Message) {
        let Some(load) = &mut self.load else { return };
        match message {
            Message::Receipts(shard, mut deliveries) => {
                deliveries.iter_mut().for_each(|delivery| delivery.at += load.ahead);
                load.part.leave(shard, deliveries);
            }
            Message::PassedOn(rounds) => {
                load.others.insert(from, rounds);
                self.pass_on();
            }
            // Workers have nothing else to say to each other.
            _ => {}
        }
    }

    /// A reply of a load thread.
    pub fn reply(&mut self, reply: Reply) {
        let Some(load) = &mut self.load else { return };
        match (reply, &mut load.halted) {
            (Reply::PassedOn, _) => {
                load.passed += 1;
                let all = load.part.count();
                if load.passed == all {
                    (load.passed, load.held_back, load.rounds) = (0, load.held_back + all, load.rounds + 1);
                    self.tell_passed_on();
                }
            }
            (Reply::Stopped, _) => {
                load.stopped += 1;
                self.tell(&Message::Reply(Reply::Stopped));
            }
            (reply @ Reply::Closed(..), Some(halted)) => {
                halted.closed.push(reply);
                self.give_closed();
            }
            (reply, _) => self.tell(&Message::Reply(reply)),
        }
    }

    /// All shards here have passed on their receipts: those for other workers go out, and then the word that they did.
    fn tell_passed_on(&mut self) {
        self.leave_receipts();
        let rounds = self.load.as_ref().map_or(0, |load| load.rounds);
        let others: Vec<ProcessId> = self.others().collect();
        for other in others {
            self.send_to(other, &Message::PassedOn(rounds));
        }
        self.pass_on();
    }

    fn others(&self) -> impl Iterator<Item = ProcessId> {
        self.links.keys().copied().filter(|other| *other != self.coordinator)
    }

    /// Replies that all was passed on, once all other workers have passed on as well: what they received is here then.
    fn pass_on(&mut self) {
        let Some(load) = &self.load else { return };
        let has = |other: ProcessId| load.others.get(&other).is_some_and(|rounds| *rounds >= load.rounds);
        if load.held_back == 0 || !self.others().all(has) {
            return;
        }
        let replies = load.held_back;
        (0..replies).for_each(|_| self.tell(&Message::Reply(Reply::PassedOn)));
        if let Some(load) = &mut self.load {
            load.held_back -= replies;
        }
    }

    /// Sends what was received here of the devices of other workers.
    fn leave_receipts(&mut self) {
        let (Some(load), Some(prepare)) = (&self.load, &self.prepare) else { return };
        let index = |shard: u32| shard % prepare.of.max(1);
        let owner = |shard: u32| {
            let has = |(_, first, threads): &&(ProcessId, u32, u32)| {
                (*first..first + threads).contains(&index(shard))
            };
            prepare.others.iter().find(has).map(|(process, ..)| *process)
        };
        // Receipts travel with the coordinator's time.
        let taken = load.part.take_for_others().into_iter().map(|(shard, mut deliveries)| {
            deliveries.iter_mut().for_each(|delivery| delivery.at = delivery.at - load.ahead);
            (shard, deliveries)
        });
        let sent: Vec<(ProcessId, Message)> = taken
            .filter_map(|(shard, deliveries)| Some((owner(shard)?, Message::Receipts(shard, deliveries))))
            .collect();
        sent.iter().for_each(|(owner, message)| self.send_to(*owner, message));
    }

    /// What is to be done again and again.
    pub fn turn(&mut self, now: Nanos) {
        self.leave_receipts();
        self.read_threads();
        self.look_at_token();
        let died = self.load.as_ref().is_some_and(|load| load.stopped == 0 && load.part.has_died());
        if died {
            let told = "a load thread ended unexpectedly; this is a defect of plimsoll";
            self.tell(&Message::Reply(Reply::Lost(told.into())));
        }
        let is_away = self.links.get(&self.coordinator).is_some_and(|link| link.is_away(now));
        if is_away {
            self.halt("it did not hear of the coordinator for as long as a lease");
        }
    }

    /// Stops the load of the level at once: what it has is closed, and what came of it is told when the coordinator closes the level.
    pub fn halt(&mut self, why: &str) {
        let Some(load) = &mut self.load else { return };
        if load.level.take().is_none() || load.halted.is_some() {
            return;
        }
        load.halted = Some(Halted::default());
        let told = load.part.tell_all(&Command::Close);
        self.tell(&Message::Reply(Reply::Halted(format!("stopped its load: {why}"))));
        if let Err(died) = told {
            self.tell(&Message::Reply(Reply::Lost(died.to_string())));
        }
    }

    /// Tells what came of closing a level that was stopped here, as far as the coordinator wants to know.
    fn give_closed(&mut self) {
        let Some(halted) = self.load.as_mut().and_then(|load| load.halted.as_mut()) else { return };
        let count = halted.wanted.min(halted.closed.len());
        halted.wanted -= count;
        let given: Vec<Reply> = halted.closed.drain(..count).collect();
        given.into_iter().for_each(|reply| self.tell(&Message::Reply(reply)));
    }

    fn look_at_token(&mut self) {
        let is_refused = self.contexts.first().is_some_and(|context| context.token.is_refused());
        if is_refused && !self.token_refused {
            self.token_refused = true;
            self.tell(&Message::TokenRefused);
        }
    }

    /// Tells what load threads used in samples that have ended, by their numbers among all.
    fn read_threads(&mut self) {
        let (Some(load), Some(prepare)) = (&mut self.load, &self.prepare) else { return };
        let (first, of, here) = (prepare.first, prepare.of, prepare.threads.max(1));
        let number = |thread: u16| u32::from(thread) / here * of + first + u32::from(thread) % here;
        let used = load.used().into_iter().map(|usage| {
            let thread = u16::try_from(number(usage.thread)).unwrap_or(u16::MAX);
            Message::Reply(Reply::Thread(ThreadUsage { thread, ..usage }))
        });
        let told: Vec<Message> = used.collect();
        told.iter().for_each(|message| self.tell(message));
    }

    /// Sends what links have to send.
    pub fn send(&mut self, post: &Post) {
        let now = monotonic();
        for (process, link) in &mut self.links {
            while let Some(frame) = link.next(now) {
                post.send(*process, Body::Link(frame));
            }
        }
    }

    /// Whether the run is over, or its coordinator is gone.
    pub fn is_over(&self, now: Nanos) -> bool {
        let Some(link) = self.links.get(&self.coordinator) else { return true };
        let is_refused = self.refusal.is_some() && link.is_idle();
        self.ended || is_refused || link.silence(now) > GONE || link.broken().is_some()
    }

    /// Ends the load threads.
    pub fn end(self) {
        if let Some(load) = self.load {
            // Who has ended needs no command.
            let _ = load.part.tell_all(&Command::Stop);
            load.part.join();
        }
    }
}

impl Load {
    /// Each of the shards is told of a level.
    fn begin_level(&mut self, timeline: Timeline) {
        if self.level.as_ref().is_none_or(|level| level.timeline != timeline) {
            self.level = Some(Level { timeline, next_sample: 0, in_hold: false });
            self.halted = None;
        }
    }

    /// What the threads used in a sample that has ended; nothing before.
    fn used(&mut self) -> Vec<ThreadUsage> {
        let now = self.clock.now();
        let Some(level) = &mut self.level else { return Vec::new() };
        let timeline = level.timeline;
        if !level.in_hold {
            // Until the hold begins every reading is a new beginning.
            level.in_hold = now >= timeline.hold_start;
            self.threads.restart(now);
            return Vec::new();
        }
        let mut ended = None;
        while level.next_sample < timeline.samples && now >= timeline.sample_end(level.next_sample) {
            ended = Some(level.next_sample);
            level.next_sample += 1;
        }
        ended.map(|sample| self.threads.sample(now, timeline.level, sample)).unwrap_or_default()
    }
}
