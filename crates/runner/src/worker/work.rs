//! What a worker does for one run.

use super::components::{Components, Said, Seen};
use super::sending::Sending;
use super::wire::{Wire, Word};
use super::{Input, PlanOf, SPOOL};
use crate::fleet::{demands, digest};
use crate::preflight::{self, Demand, Severity};
use plimsoll_load::clock::{Clock, monotonic};
use plimsoll_load::engine::{LoadPart, Part};
use plimsoll_load::recorder::Timeline;
use plimsoll_load::run_context::RunContext;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_model::record::ThreadUsage;
use plimsoll_model::{Nanos, RunId};
use plimsoll_observe::limits::Limits;
use plimsoll_observe::threads::ThreadSampler;
use plimsoll_scenario::plan::{Captures, Plan};
use plimsoll_workers::frame::{Body, LinkFrame, ProcessId};
use plimsoll_workers::gathered_parts::GatheredParts;
use plimsoll_workers::link::{GONE, Link};
use plimsoll_workers::message::{Begin, Collected, Crossing, Give, Message, PacketOrder, Prepared, Reserve};
use plimsoll_workers::placement::clients_at;
use plimsoll_workers::post::Post;
use plimsoll_workers::prepare::{Peer, Prepare};
use plimsoll_workers::receipts::Receipts;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};

/// Receipts for other workers wait for so long, so that many travel at once. Their times were taken before, and a level does not end
/// without them.
const GATHERING: Nanos = Nanos::from_millis(20);

/// Bytes of files that may wait for the coordinator: as much as keeps the way busy.
const WAITING: usize = 8 * 1024 * 1024;

/// What a worker has for a run.
pub struct Host<'a> {
    /// The processors of load threads.
    pub processors: &'a [Option<usize>],
    /// Where their replies go, and what components say.
    pub input: &'a Sender<Input>,
    /// This program.
    pub program: &'a Path,
    /// Whether components may be started.
    pub starts_components: bool,
    /// Whether packets may be captured.
    pub captures: bool,
    /// Where others reach what listens here.
    pub address: IpAddr,
}

/// See the module.
pub struct Work {
    pub run: RunId,
    /// The run as frames name it.
    bits: u64,
    coordinator: ProcessId,
    /// To the coordinator, and to the other workers with which deliveries were exchanged.
    links: BTreeMap<ProcessId, Link>,
    /// Which load threads this worker has, and who has each of the others; `None` before it was made ready.
    own: Option<Own>,
    plan: Option<Arc<Plan>>,
    /// Why it does not work for the run after all.
    refusal: Option<String>,
    contexts: Vec<Arc<RunContext>>,
    /// Whether the coordinator was told that the platform refuses the access token.
    token_refused: bool,
    load: Option<Load>,
    /// Components of the platform that stand here.
    components: Option<Components>,
    seen: Seen,
    /// Where packets are captured.
    wire: Option<Wire>,
    /// What was kept, on its way to the coordinator.
    sending: Sending,
    /// By how much the clock here is ahead of the coordinator's, as the coordinator said last.
    ahead: Nanos,
    /// When it looked at its load threads last.
    looked: Nanos,
    /// Whether the coordinator said that the run is over.
    ended: bool,
}

/// The load threads of a run, seen from one worker.
struct Own {
    part: Part,
    /// The other worker that has a load thread, by the number of that; `None` of those here, and where nobody receives.
    homes: Vec<Option<Peer>>,
    /// The same workers by their processes: each frame asks for one.
    peers: BTreeMap<ProcessId, Peer>,
    /// Deliveries that went to them, and that came of them.
    receipts: Receipts,
}

impl Own {
    fn of(prepare: &Prepare) -> Own {
        let part = prepare.part();
        let mut homes = vec![None; part.layout.count()];
        for (process, peer) in
            prepare.peers.iter().enumerate().filter(|(process, _)| *process != part.process)
        {
            for number in part.layout.numbers_at(process) {
                if let Some(home) = homes.get_mut(number as usize) {
                    *home = Some(*peer);
                }
            }
        }
        let peers = homes.iter().flatten().map(|peer| (peer.process, *peer)).collect();
        let receipts = Receipts::new(part.layout.numbers_at(part.process).len());
        Own { part, homes, peers, receipts }
    }

    /// What this host has to say of its part of the plan.
    ///
    /// # Errors
    /// What forbids it.
    fn examined(&self, plan: &Plan, is_local: bool) -> Result<Vec<String>, String> {
        let Part { layout, process } = &self.part;
        let clients = clients_at(*process, &demands(plan), layout);
        let demand = Demand::of_part(plan, &clients, self.count(), is_local);
        let checks = preflight::examine(&Limits::read(), None, Some(&demand));
        match checks.iter().find(|check| check.severity == Severity::Problem) {
            Some(problem) => Err(problem.to_string()),
            None => {
                let warnings = checks.iter().filter(|check| check.severity == Severity::Warning);
                Ok(warnings.map(ToString::to_string).collect())
            }
        }
    }

    /// Load threads here.
    fn count(&self) -> usize {
        self.part.layout.numbers_at(self.part.process).len()
    }

    /// Another worker with load threads.
    fn peer(&self, process: ProcessId) -> Option<Peer> {
        self.peers.get(&process).copied()
    }
}

/// Load threads that run.
struct Load {
    part: LoadPart,
    clock: Clock,
    threads: ThreadSampler,
    /// What came from other workers since the level began, by worker and population.
    crossed: BTreeMap<(ProcessId, u16), u64>,
    stopped: usize,
    /// Clients that are ready since the coordinator heard of it last.
    ready: u32,
    /// What load threads saw of samples since the coordinator heard of it last.
    parts: GatheredParts,
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
            own: None,
            plan: None,
            refusal: None,
            contexts: Vec::new(),
            token_refused: false,
            load: None,
            components: None,
            seen: Seen::default(),
            wire: None,
            sending: Sending::default(),
            ahead: Nanos::ZERO,
            looked: Nanos::ZERO,
            ended: false,
        }
    }

    /// Whether a frame belongs to this run.
    pub fn is_from(&self, from: ProcessId, frame: &LinkFrame) -> bool {
        let is_peer = |own: &Own| own.peer(from).is_some() && !own.receipts.is_lost(from);
        frame.run == self.bits && (from == self.coordinator || self.own.as_ref().is_some_and(is_peer))
    }

    /// For people: whether it is ready.
    pub fn told(&self) -> String {
        match (&self.refusal, &self.own) {
            (Some(why), _) => format!("refused: {why}"),
            (None, Some(own)) => format!("ready with {} of {} load threads", own.count(), own.homes.len()),
            (None, None) => "is being sent".into(),
        }
    }

    /// Takes a frame; what it asks for is done at once.
    pub fn frame(&mut self, from: ProcessId, frame: LinkFrame, plan_of: PlanOf<'_>, host: &Host<'_>) {
        let Ok(Some(bytes)) = self.link(from).take(frame, monotonic()) else { return };
        let Ok(message) = Message::decode(&bytes) else { return };
        if from == self.coordinator {
            self.order(message, plan_of, host);
        } else {
            self.receipt(from, message);
        }
    }

    /// Makes ready for a run, or refuses it.
    pub fn prepare(&mut self, prepare: Prepare, plan_of: PlanOf<'_>, host: &Host<'_>) {
        let answer = self.make(&prepare, plan_of).and_then(|plan| {
            let own = Own::of(&prepare);
            let warnings = own.examined(&plan, host.address.is_loopback())?;
            self.plan = Some(Arc::new(plan));
            self.own = Some(own);
            Ok(Prepared { warnings, host: plimsoll_observe::host::facts() })
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
        if !prepare.is_sound(plan.populations().count()) {
            return Err("the load threads that the coordinator deals out do not fit the plan".into());
        }
        Ok(plan)
    }

    fn tell(&mut self, message: &Message) {
        self.send_to(self.coordinator, message);
    }

    /// The link to the coordinator or to another worker, which is made when there is something to say.
    fn link(&mut self, other: ProcessId) -> &mut Link {
        let bits = self.bits;
        self.links.entry(other).or_insert_with(|| Link::quiet(bits, SPOOL, monotonic()))
    }

    /// A link that is broken carries nothing; that to the coordinator ends the run.
    fn send_to(&mut self, other: ProcessId, message: &Message) {
        let _ = self.link(other).push(&message.encode());
    }

    /// What the coordinator wants.
    fn order(&mut self, message: Message, plan_of: PlanOf<'_>, host: &Host<'_>) {
        match message {
            Message::Prepare(prepare) if self.own.is_none() => self.prepare(*prepare, plan_of, host),
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
            Message::Clock(ahead) => self.ahead = Nanos(ahead),
            Message::Reserve(reserve) if self.components.is_none() => {
                if let Err(why) = self.reserve(reserve, host) {
                    self.tell(&Message::Reserved(Err(why)));
                }
            }
            Message::Start(start) => self.components.iter().for_each(|own| own.start(start.clone())),
            Message::Capture(packets) if self.wire.is_none() => {
                if let Err(why) = self.capture(packets, host) {
                    self.tell(&Message::Capturing(Err(why)));
                }
            }
            Message::Collect => match &self.wire {
                Some(wire) => wire.end(),
                None => self.collect(Box::default(), Vec::new()),
            },
            Message::Gone(process) => {
                self.links.remove(&process);
                if let Some(own) = &mut self.own {
                    own.receipts.lose(process);
                }
                self.pass_on();
            }
            Message::Expect(expected) => {
                if let Some(own) = &mut self.own {
                    own.receipts.expect(expected);
                }
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

    /// Finds ports for components, if any may be started here.
    fn reserve(&mut self, reserve: Reserve, host: &Host<'_>) -> Result<(), String> {
        let Some(plan) = self.plan.clone() else { return Err("it was not made ready".into()) };
        if !host.starts_components {
            return Err(
                "it starts no component of a platform: start it with --allow-commands to let it run what a scenario names".into()
            );
        }
        let said = Said { input: host.input.clone(), run: self.bits, seen: Arc::clone(&self.seen) };
        let components = Components::host(plan, reserve, (host.program.to_owned(), host.address), said);
        self.components = Some(components.map_err(|error| format!("a thread could not start: {error}"))?);
        Ok(())
    }

    /// Begins to capture packets, if that may be done here.
    fn capture(&mut self, packets: Option<PacketOrder>, host: &Host<'_>) -> Result<(), String> {
        if packets.is_some() && !host.captures {
            return Err("it captures no packets: start it with --allow-captures".into());
        }
        let wire = Wire::begin(packets, host.program, Arc::clone(&self.seen));
        self.wire = Some(wire.map_err(|error| format!("packets cannot be captured: {error}"))?);
        Ok(())
    }

    /// Says what was kept, which is sent from now on: captures, keys and logs.
    fn collect(&mut self, mut kept: Box<Collected>, mut files: Vec<PathBuf>) {
        if self.plan.as_ref().is_some_and(|plan| plan.platform.logs.is_some()) {
            let here = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (names, logs): (Vec<String>, Vec<PathBuf>) = here.logs.iter().cloned().unzip();
            kept.logs = names;
            files.extend(logs);
        }
        self.sending = Sending::of(files);
        self.tell(&Message::Collected(kept));
    }

    /// Says how it stands with the capture, and sends what was kept as the coordinator takes it.
    fn send_kept(&mut self) {
        while let Some(word) = self.wire.as_mut().and_then(Wire::word) {
            match word {
                Word::Begun(begun) => self.tell(&Message::Capturing(begun)),
                Word::Ended(kept, files) => self.collect(kept, files),
            }
        }
        let mut room = WAITING.saturating_sub(self.links.get(&self.coordinator).map_or(0, Link::waiting));
        while room > 0
            && let Some((file, bytes)) = self.sending.part()
        {
            room = room.saturating_sub(bytes.len());
            self.tell(&Message::FilePart(file, bytes));
        }
    }

    /// What components say goes on to the coordinator, with its time.
    pub fn say(&mut self, run: u64, message: &Message) {
        if run != self.bits {
            return;
        }
        match message {
            Message::Report(report) => {
                let moved = report.clone().moved(Nanos::ZERO - self.ahead);
                self.tell(&Message::Report(moved));
            }
            message => self.tell(message),
        }
    }

    fn begin(&mut self, begin: &Begin, host: &Host<'_>) -> Result<(), String> {
        let &Host { processors, input, .. } = host;
        let (Some(plan), Some(Own { part, .. })) = (self.plan.clone(), &self.own) else {
            return Err("it was not made ready".into());
        };
        let clock = Clock::at(begin.epoch);
        let token = Arc::default();
        let keys = self.wire.as_ref().map(Wire::key_log);
        let context = |_| {
            let (token, keys) = (Arc::clone(&token), keys.clone());
            Arc::new(RunContext { token, keys, ..RunContext::default() })
        };
        self.contexts = plan.populations().map(context).collect();
        let has_load = self.own.as_ref().is_some_and(|own| own.count() > 0);
        if let Some(components) = &self.components {
            components.observe(clock, if has_load { processors.to_vec() } else { Vec::new() });
        }
        if !has_load {
            return Ok(());
        }
        let run = (&plan, self.run);
        let started =
            LoadPart::start(run, &begin.addresses, (processors, true), part.clone(), clock, &self.contexts);
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
            crossed: BTreeMap::new(),
            stopped: 0,
            ready: 0,
            parts: GatheredParts::default(),
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
        let (Some(load), Some(own)) = (&mut self.load, &mut self.own) else { return };
        // Workers have nothing else to say to each other.
        let Message::Receipts(shard, mut deliveries) = message else { return };
        if !own.peer(from).is_some_and(|peer| peer.shares_clock) {
            deliveries.iter_mut().for_each(|delivery| delivery.at += self.ahead);
        }
        let count = deliveries.len() as u64;
        if let Some(population) = own.part.layout.population_of(shard) {
            *load.crossed.entry((from, population as u16)).or_default() += count;
        }
        load.part.leave(shard, deliveries);
        own.receipts.came(from, count);
        self.pass_on();
    }

    /// A reply of a load thread.
    pub fn reply(&mut self, mut reply: Reply) {
        if let (Reply::Closed(_, end), Some(load)) = (&mut reply, &self.load) {
            load.part.complete(end);
        }
        let Some(load) = &mut self.load else { return };
        let reply = match reply {
            Reply::Ready(count) => return load.ready += count,
            Reply::Part(part) => return load.parts.add(*part),
            reply => reply,
        };
        self.tell_gathered();
        let Some(load) = &mut self.load else { return };
        match (reply, &mut load.halted) {
            (Reply::PassedOn, _) => {
                if self.own.as_mut().is_some_and(|own| own.receipts.thread_has_passed_on()) {
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

    /// Tells how many clients have become ready, and what all load threads saw of a sample at once: otherwise each load thread of a
    /// cluster would cost the coordinator as much as a worker.
    fn tell_gathered(&mut self) {
        let Some(load) = &mut self.load else { return };
        let (ready, parts) = (std::mem::take(&mut load.ready), load.parts.take());
        if ready > 0 {
            self.tell(&Message::Reply(Reply::Ready(ready)));
        }
        for part in parts {
            self.tell(&Message::Reply(Reply::Part(Box::new(part))));
        }
    }

    /// All shards here have passed on their receipts: those for other workers go out, and the coordinator hears how many there were.
    fn tell_passed_on(&mut self) {
        self.leave_receipts();
        if let Some(passed) = self.own.as_ref().map(|own| own.receipts.round()) {
            self.tell(&Message::PassedOn(passed));
        }
    }

    /// Replies that all was passed on, once what all other workers have passed on is here.
    fn pass_on(&mut self) {
        let replies = self.own.as_mut().map_or(0, |own| own.receipts.take_complete());
        if replies > 0 {
            self.tell_crossed();
        }
        (0..replies).for_each(|_| self.tell(&Message::Reply(Reply::PassedOn)));
    }

    /// Tells what came from other workers since the level began.
    fn tell_crossed(&mut self) {
        let Some(load) = &mut self.load else { return };
        let crossing = |((from, population), deliveries)| Crossing { from, population, deliveries };
        let crossings: Vec<Crossing> = std::mem::take(&mut load.crossed).into_iter().map(crossing).collect();
        if !crossings.is_empty() {
            self.tell(&Message::Crossed(crossings));
        }
    }

    /// Sends what was received here of the devices of other workers.
    fn leave_receipts(&mut self) {
        let (Some(load), Some(own)) = (&mut self.load, &mut self.own) else { return };
        let mut sent: Vec<(ProcessId, Message)> = Vec::new();
        for (shard, mut deliveries) in load.part.take_for_others() {
            let Some(peer) = own.homes.get(shard as usize).copied().flatten() else { continue };
            // Receipts travel with the coordinator's time, or with that of the clock that both read.
            if !peer.shares_clock {
                deliveries.iter_mut().for_each(|delivery| delivery.at = delivery.at - self.ahead);
            }
            own.receipts.sent(peer.process, deliveries.len() as u64);
            // Nobody reads what goes to one that is gone.
            if !own.receipts.is_lost(peer.process) {
                sent.push((peer.process, Message::Receipts(shard, deliveries)));
            }
        }
        sent.iter().for_each(|(owner, message)| self.send_to(*owner, message));
    }

    /// When it has to look at its load threads again: for receipts, or because a sample ends.
    pub fn next_look(&self) -> Option<Nanos> {
        let load = self.load.as_ref()?;
        let receipts = self.looked + GATHERING;
        let sample = load.next_reading().map(|at| at + Nanos(load.clock.epoch()));
        Some(sample.map_or(receipts, |at| at.min(receipts)))
    }

    /// What is to be done again and again.
    pub fn turn(&mut self, now: Nanos) {
        if self.next_look().is_some_and(|next| next <= now) {
            self.looked = now;
            self.tell_gathered();
            self.leave_receipts();
            self.read_threads();
        }
        self.look_at_token();
        self.send_kept();
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
        let Some(load) = &mut self.load else { return };
        let used = load.used();
        let number = |thread: u16| load.part.numbers().get(usize::from(thread)).copied();
        let told = used.into_iter().map(|usage| {
            let thread = number(usage.thread).and_then(|number| u16::try_from(number).ok());
            Message::Reply(Reply::Thread(ThreadUsage { thread: thread.unwrap_or(u16::MAX), ..usage }))
        });
        let told: Vec<Message> = told.collect();
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

    /// Ends the load threads, and then the components.
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

    /// When what the threads use is to be read next, on the clock of the run.
    fn next_reading(&self) -> Option<Nanos> {
        let Level { timeline, next_sample, in_hold } = self.level.as_ref()?;
        match in_hold {
            false => Some(timeline.hold_start),
            true => (*next_sample < timeline.samples).then(|| timeline.sample_end(*next_sample)),
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
