//! One load thread: its devices, its subscribers, its driver, its ledger.

mod at_work;
mod attempts;
mod booking;
mod retries;
pub(crate) mod workload;

use crate::clients::Clients;
use crate::content::markers_of;
use crate::contract::Contract;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::ledger::{Delivery, Ledger};
use crate::mailbox::Mailbox;
use crate::outages::Outages;
use crate::owners::Owners;
use crate::queries::Queries;
use crate::recorder::{Recorder, SampleSlot, Timeline};
use crate::run_context::RunContext;
use crate::share::Share;
use crate::throttle::Throttle;
use crate::topology::Topology;
use at_work::AtWork;
use attempts::{Attempts, Due};
use plimsoll_model::message::MessageRecord;
use plimsoll_model::record::{LevelClocks, LevelEnd, SamplePart, ThreadUsage};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{LevelPlan, MarkerForm, Model, Plan, Protocol};
pub(crate) use retries::PATIENCE as CONNECT_PATIENCE;
use retries::Retries;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use workload::Workload;

/// Operations taken up before the driver sends them, by number and by content: few, so that `ready` stays close to the
/// moment of sending, and a generator that cannot keep up still makes turns.
const BATCH: usize = 32;
/// In the closed model, enough that what one reading has answered goes on in one sending.
const CLOSED_BATCH: usize = 128;
const BATCH_BYTES: usize = 256 * 1024;
/// Arrivals that came to nothing counted in one turn, so that the turns stay short.
const SWEEP: usize = 100_000;
/// Longest wait of a shard, so that commands and other shards' deliveries are looked at in time.
const PATIENCE: Nanos = Nanos::from_millis(20);
/// How long after the hold an arrival is still taken up: what is due in the hold's last moment is as late as any
/// other, not lost.
const GRACE: Nanos = Nanos::from_millis(10);
/// A turn that takes so long did not only wait: the thread had no processor.
const STANDSTILL: Nanos = Nanos::from_millis(200);
/// Messages that the log collects before they are passed on, sample end or not: what bounds its memory.
const LOGGED: usize = 4096;
/// Characters of a reason that are shown.
const LONGEST_REASON: usize = 400;
/// Different incidents told to the user by name; further ones are counted together.
const INCIDENTS: usize = 16;

/// What the engine tells a shard.
#[derive(Clone, Debug)]
pub enum Command {
    /// Connect these clients, one every `gap`, beginning at `start`.
    Connect {
        /// Who, in order.
        clients: Clients,
        /// When the first begins.
        start: Nanos,
        /// From one beginning to the next.
        gap: Nanos,
        /// Whether `AllReady` is awaited; otherwise the clients connect while a level goes on, and one that fails
        /// counts against that level.
        awaited: bool,
    },
    /// Say goodbye to these clients, between levels; answered by `Flushed`.
    Release(Clients),
    /// Run a level.
    Run {
        /// Its timeline.
        timeline: Timeline,
        /// Its load.
        level: LevelPlan,
        /// After how many messages of the population its hold ends, where its length is known at its end only.
        messages: Option<u64>,
        /// When waiting for stragglers ends.
        drain_end: Nanos,
    },
    /// Give everything recorded so far.
    Flush,
    /// Pass on what belongs to other shards.
    PassOn,
    /// Close the level's ledger.
    Close,
    /// Say goodbye and end.
    Stop,
}

/// What a shard answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// So many more clients are ready.
    Ready(u32),
    /// Every client of the last `Connect` is ready.
    AllReady,
    /// A client could not connect during set-up.
    ConnectFailed {
        /// Why.
        reason: String,
        /// Whether it had failed before, and tried again.
        tried_again: bool,
    },
    /// A client could not connect during set-up and tries again.
    ConnectRepeated(String),
    /// Part of a sample.
    Part(Box<SamplePart>),
    /// Messages done with, where the scenario asks for a log of them.
    Messages(Vec<MessageRecord>),
    /// The level needs no more waiting: nothing is outstanding, or the drain is over.
    Drained,
    /// `Flush` is done.
    Flushed,
    /// `PassOn` is done.
    PassedOn,
    /// The level is closed for a population of that number.
    Closed(u16, Box<LevelEnd>),
    /// The shard has ended.
    Stopped,
    /// What a load thread used, where a worker watches it.
    Thread(ThreadUsage),
    /// A worker has stopped its load before the level's end, or was not heard of, and why.
    Halted(String),
    /// A worker is gone for good, and why.
    Lost(String),
    /// What is known of the clocks of workers in the level that is being closed.
    Clocks(Box<LevelClocks>),
}

/// One load thread's state, generic over the protocol.
pub struct Shard<D: Driver> {
    plan: Arc<Plan>,
    run: RunId,
    share: Share,
    /// Whether messages are acknowledged, which the plan would have to find out for each.
    acknowledges: bool,
    /// Its number among the load threads of all populations.
    number: u32,
    /// The number of its population.
    population: u16,
    /// Who owns which device.
    owners: Arc<Owners>,
    /// Its part of northbound queries.
    queriers: Option<Share>,
    /// The forms of the markers that come to its clients.
    markers: Vec<MarkerForm>,
    driver: D,
    ledger: Ledger,
    recorder: Recorder,
    replies: Sender<Reply>,
    /// Of every shard, in order.
    mailboxes: Vec<Arc<Mailbox>>,
    throttle: Option<Arc<Throttle>>,
    /// What belongs to the other shards and has not been left with them yet.
    outboxes: Vec<Vec<Delivery>>,
    /// Deliveries taken out of this shard's mailbox.
    received: Vec<Delivery>,
    connecting: Connecting,
    retries: Retries,
    /// Of messages that devices send again by themselves; `None` where they do not.
    attempts: Option<Attempts>,
    /// Devices connected now.
    connected: u32,
    outages: Outages,
    level: Option<Level>,
    /// The number of the next query, over all levels.
    next_query: u32,
    /// Where to book what belongs to no level: before the first, between two.
    last_slot: SampleSlot,
    /// Where to book the traffic since the last flush.
    traffic_slot: SampleSlot,
    /// Operations taken up before the driver sends them.
    batch: usize,
    /// Bytes of the headers of a datagram.
    datagram_header: u64,
    /// How long what is due may wait for more.
    coalescing: Nanos,
    /// What befell the level: as the driver told it, as others may read it, and how often.
    incidents: BTreeMap<String, (String, u64)>,
    run_context: Arc<RunContext>,
    /// Messages of the level that were sent again, by the status that asked for it.
    repeated: BTreeMap<u16, u64>,
    events: Vec<Event>,
    at_work: AtWork,
}

#[derive(Default)]
struct Connecting {
    clients: Option<Clients>,
    /// The places of those who were not tried yet.
    places: Range<u32>,
    /// Who tries again.
    again: VecDeque<Client>,
    next: Nanos,
    gap: Nanos,
    pending: u32,
    awaited: bool,
}

impl Connecting {
    fn of(clients: Clients, (next, gap): (Nanos, Nanos), awaited: bool) -> Connecting {
        let pending = if awaited { clients.count() } else { 0 };
        let places = clients.places();
        Connecting { clients: Some(clients), places, again: VecDeque::new(), next, gap, pending, awaited }
    }

    fn is_over(&self) -> bool {
        self.places.is_empty() && self.again.is_empty()
    }

    /// Takes who is next.
    fn take(&mut self) -> Option<Client> {
        let first = self.clients.and_then(|clients| Some(clients.at(self.places.next()?)));
        first.or_else(|| self.again.pop_front())
    }
}

struct Level {
    timeline: Timeline,
    workload: Workload,
    /// Northbound queries beside the messages.
    queries: Option<Queries>,
    drain_end: Nanos,
    /// For how long the hold was held, once that is known of one whose length is known at its end only.
    held: Option<Nanos>,
    /// Whether it belongs to an experiment: operations end with their delivery, where there is one.
    experiments: bool,
    /// The sample whose end is the next one to flush at, `None` while the end of the warm-up is.
    next_flush: Option<u16>,
    /// Whether nothing is taken up any more: what turns out to have been due in the hold was never made ready.
    over: bool,
    /// Whether the platform was asked, once all was sent, if it has what nothing else proves; `Some(true)` where it can
    /// answer.
    asked_for_arrival: Option<bool>,
    drained: bool,
}

/// What a shard is given beside its plan: channels between shards, and what the engine knows of the way.
pub struct Wiring {
    /// To the engine.
    pub replies: Sender<Reply>,
    /// Of every shard, in order.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Its number among them.
    pub number: u32,
    /// The number of its population.
    pub population: u16,
    /// Which of them owns which device.
    pub owners: Arc<Owners>,
    /// Its part of northbound queries; `None` where it asks none.
    pub queriers: Option<Share>,
    /// Bytes of the headers of a datagram on the way to the platform, IP and UDP.
    pub datagram_header: u64,
    /// When subscribers were notified, for a platform that notifies each at most once a period.
    pub throttle: Option<Arc<Throttle>>,
    /// Whether the log of a component tells of every message's stages, beside what answers it.
    pub awaits_stages: bool,
    /// Holds the access tokens, which a platform may repeat in what it says.
    pub run_context: Arc<RunContext>,
}

impl<D: Driver> Shard<D> {
    /// A shard without connections.
    pub fn new(
        plan: Arc<Plan>,
        run: RunId,
        topology: Arc<Topology>,
        share: Share,
        driver: D,
        wiring: Wiring,
    ) -> Shard<D> {
        let content = plan.largest_content().max(1) as usize;
        let most = if matches!(plan.load.model, Model::Closed { .. }) { CLOSED_BATCH } else { BATCH };
        let batch = (BATCH_BYTES / content).clamp(1, most);
        let acknowledges = plan.acknowledges();
        let ledger = Ledger::new(topology, acknowledges, share);
        let promised = plan.platform.roles.delivery;
        let ledger = ledger.under(Contract::of(promised, plan.load.drain, wiring.throttle.clone()));
        let ledger = if wiring.awaits_stages { ledger.awaiting_stages() } else { ledger };
        let ledger = if plan.record.messages { ledger.logging() } else { ledger };
        let ledger = if plan.record.freshness { ledger.with_freshness() } else { ledger };
        // Over HTTP, a request that is not answered in time occupies its connection: its driver sends it again.
        let by_itself = plan.retry.filter(|_| plan.protocol() == Protocol::Mqtt);
        let attempts = Attempts::of(by_itself, plan.seed, wiring.number);
        Shard {
            ledger,
            coalescing: plan.load.coalescing(),
            markers: markers_of(&plan),
            plan,
            run,
            share,
            acknowledges,
            number: wiring.number,
            population: wiring.population,
            owners: wiring.owners,
            queriers: wiring.queriers,
            driver,
            recorder: Recorder::default(),
            replies: wiring.replies,
            outboxes: vec![Vec::new(); wiring.mailboxes.len()],
            mailboxes: wiring.mailboxes,
            throttle: wiring.throttle,
            received: Vec::new(),
            connecting: Connecting::default(),
            retries: Retries::default(),
            attempts,
            connected: 0,
            outages: Outages::default(),
            level: None,
            next_query: 0,
            last_slot: SampleSlot { level: 0, sample: None },
            traffic_slot: SampleSlot { level: 0, sample: None },
            batch,
            datagram_header: wiring.datagram_header,
            incidents: BTreeMap::new(),
            run_context: wiring.run_context,
            repeated: BTreeMap::new(),
            events: Vec::new(),
            at_work: AtWork::default(),
        }
    }

    /// The time on the run's clock.
    pub fn now(&self) -> Nanos {
        self.driver.now()
    }

    /// Obeys a command. `Stop` is answered by `Stopped`, after which the shard is of no more use.
    pub fn apply(&mut self, command: Command) {
        match command {
            Command::Connect { clients, start, gap, awaited } => {
                self.connecting = Connecting::of(clients, (start, gap), awaited);
                self.retries = Retries::default();
                if awaited && self.connecting.pending == 0 {
                    self.reply(Reply::AllReady);
                }
            }
            Command::Release(clients) => {
                // Those still waiting for their turn are not wanted any more either.
                self.connecting = Connecting::default();
                for client in clients.iter() {
                    let connected = u32::from(self.driver.release(client));
                    self.connected = self.connected.saturating_sub(connected);
                    self.outages.forget(client);
                }
                self.flush();
                self.reply(Reply::Flushed);
            }
            Command::Run { timeline, level, messages, drain_end } => {
                self.last_slot = SampleSlot { level: timeline.level, sample: None };
                let workload = self.workload(&timeline, level, messages);
                self.flush();
                self.traffic_slot = self.last_slot;
                let devices = match level {
                    LevelPlan::Devices { devices, .. } => devices,
                    _ => self.plan.devices,
                };
                self.ledger.begin(&timeline, devices);
                if let Some(throttle) = &self.throttle {
                    throttle.forget_before(timeline.start);
                }
                let storm = self.plan.load.storm.as_ref().map(|storm| storm.after);
                let fault = self.plan.load.faults.first().map(|plan| plan.fault.at);
                let calm = storm.or(fault).unwrap_or(Nanos::ZERO);
                self.outages.begin(timeline.hold_start + calm);
                let northbound = self.plan.northbound.as_ref().zip(self.queriers);
                let queries = northbound.map(|(northbound, share)| {
                    Queries::new(&self.plan, northbound, share, timeline, self.next_query)
                });
                self.level = Some(Level {
                    timeline,
                    workload,
                    queries,
                    drain_end,
                    held: None,
                    experiments: matches!(level, LevelPlan::Experiment(_)),
                    next_flush: None,
                    over: false,
                    asked_for_arrival: None,
                    drained: false,
                });
            }
            Command::Flush => {
                self.flush();
                self.reply(Reply::Flushed);
            }
            Command::PassOn => {
                self.pass_on(true);
                self.reply(Reply::PassedOn);
            }
            Command::Close => self.close(),
            Command::Stop => {
                self.driver.disconnect();
                self.flush();
                self.reply(Reply::Stopped);
            }
        }
    }

    /// One turn: takes up what is due, lets the driver send and wait, books what happened.
    pub fn step(&mut self) {
        let now = self.driver.now();
        self.at_work.note(now, || self.driver.processor_time());
        self.connect_due(now);
        self.send_again(now);
        let more = self.take_up(now);
        self.ask(now);
        let until = if more { now } else { self.next_deadline(now) };
        let mut events = std::mem::take(&mut self.events);
        self.driver.poll(until, &mut events);
        for event in events.drain(..) {
            self.book(event);
        }
        self.events = events;
        self.read_inbox();
        self.pass_on(false);
        self.after_turn(now);
    }

    /// Who stands still with its whole host cannot receive: the drain is as long as this thread was awake, but at most twice what
    /// was asked for.
    fn stood_still(&mut self, from: Nanos, to: Nanos) {
        let Some(level) = &mut self.level else { return };
        let hold_end = level.timeline.hold_end;
        let stood = to - from.max(hold_end);
        if stood >= STANDSTILL {
            let drain = self.plan.load.drain;
            level.drain_end = (level.drain_end + stood).min(hold_end + drain + drain);
        }
    }

    fn connect_due(&mut self, now: Nanos) {
        let mut begun = 0;
        while let Some(client) = self.retries.due(now) {
            // Those who try again keep to the rate, too.
            if self.connecting.is_over() {
                self.connecting.next = self.connecting.next.max(now);
            }
            self.connecting.again.push_back(client);
        }
        while begun < BATCH && self.connecting.next <= now {
            let Some(client) = self.connecting.take() else { return };
            if self.driver.connect(client) {
                if !self.connecting.awaited {
                    let here = self.here();
                    self.recorder.counts(here).connects += 1;
                }
                self.connecting.next += self.connecting.gap;
            }
            begun += 1;
        }
    }

    /// Sends messages again whose pause is over, and gives up those that were sent often enough.
    fn send_again(&mut self, now: Nanos) {
        while let Some(due) = self.attempts.as_mut().and_then(|attempts| attempts.due(now)) {
            match due {
                Due::Again((device, sequence)) => self.driver.submit(device, sequence),
                Due::GivenUp((device, sequence)) => {
                    let at = self.driver.now();
                    self.book(Event::Abandoned { device, sequence, at });
                }
            }
        }
    }

    /// Takes up the queries that are due.
    fn ask(&mut self, now: Nanos) {
        let Some(level) = &mut self.level else { return };
        let (Some(queries), timeline) = (&mut level.queries, level.timeline) else { return };
        while let Some((device, query, due)) = queries.take_up(now, &mut self.recorder) {
            self.at_work
                .book(&mut self.recorder, timeline.slot(due), (due, now), || self.driver.processor_time());
            self.driver.ask(self.ledger.known_near(device), query);
        }
    }

    /// Takes up a batch of what is due; whether more is due already.
    fn take_up(&mut self, now: Nanos) -> bool {
        self.end_hold();
        let Some(level) = &mut self.level else { return false };
        let timeline = level.timeline;
        if now >= timeline.hold_end && (level.workload.is_exhausted() || now >= timeline.hold_end + GRACE) {
            let more = self.give_up(timeline.hold_end, SWEEP);
            if let Some(level) = &mut self.level {
                level.over = !more;
            }
            return more;
        }
        // What is due after the hold is nobody's.
        let by = now.min(timeline.hold_end - Nanos(1));
        for _ in 0..self.batch {
            let Some(begin) = level.workload.take_up(timeline.start, by) else { return false };
            let (device, due) = (begin.device, begin.due);
            self.at_work
                .book(&mut self.recorder, timeline.slot(due), (due, now), || self.driver.processor_time());
            let booked = self.ledger.ready(&mut self.recorder, &timeline, device, due, now);
            if let Some(sequence) = booked {
                level.workload.begun(begin, sequence);
                self.driver.submit(device, sequence);
            }
        }
        true
    }

    /// Ends the hold where the last of the messages after which it ends has come to its own end.
    fn end_hold(&mut self) {
        let Some(level) = self.level.as_mut().filter(|level| level.held.is_none()) else { return };
        let Workload::Closed(slots) = &level.workload else { return };
        let Some(at) = slots.ended() else { return };
        // What happened at that time belongs to the hold.
        let end = (at + Nanos(1)).min(level.timeline.hold_end);
        level.held = Some(end - level.timeline.hold_start);
        level.drain_end = end + self.plan.load.drain;
        level.timeline.hold_end = end;
        if let Some(queries) = &mut level.queries {
            queries.hold_ends(end);
        }
        self.ledger.hold_ends(end);
    }

    /// Books what was due before `end` and is not taken up any more, at most so many; whether there may be more.
    fn give_up(&mut self, end: Nanos, most: usize) -> bool {
        let Some(level) = &mut self.level else { return false };
        let (timeline, now) = (level.timeline, self.driver.now());
        for _ in 0..most {
            let Some(due) = level.workload.give_up(timeline.start, end) else { return false };
            self.at_work
                .book(&mut self.recorder, timeline.slot(due), (due, now), || self.driver.processor_time());
            self.ledger.never_ready(&mut self.recorder, &timeline, due);
        }
        true
    }

    fn next_deadline(&mut self, now: Nanos) -> Nanos {
        let mut deadline = (now + PATIENCE).min(self.retries.next());
        deadline = deadline.min(self.attempts.as_ref().map_or(Nanos::MAX, Attempts::next));
        if !self.connecting.is_over() {
            deadline = deadline.min(self.connecting.next);
        }
        if let Some(level) = &mut self.level {
            let next = match &mut level.workload {
                Workload::Open(arrivals) => {
                    arrivals.peek().map(|arrival| level.timeline.start + arrival.due + self.coalescing)
                }
                Workload::Closed(slots) => slots.next_wake(),
                Workload::PartlyOpen(sessions) => sessions.next_wake(),
                Workload::Idle => None,
            };
            if let Some(queries) = &mut level.queries {
                deadline = deadline.min(queries.next_due() + self.coalescing);
            }
            // Without an arrival in sight the end of the hold is what comes next.
            if now < level.timeline.hold_end {
                deadline = deadline.min(next.unwrap_or(Nanos::MAX)).min(level.timeline.hold_end);
            } else if !level.over {
                deadline = deadline.min(level.timeline.hold_end + GRACE);
            }
        }
        deadline
    }

    fn read_inbox(&mut self) {
        let Some(mailbox) = self.mailboxes.get(self.number as usize) else { return };
        mailbox.take(&mut self.received);
        if self.received.is_empty() {
            return;
        }
        let now = self.here();
        let mut received = std::mem::take(&mut self.received);
        for delivery in received.drain(..) {
            self.received(delivery, now);
        }
        self.received = received;
    }

    /// Leaves deliveries with the shards that own them; `surely` waits where one is at its mailbox.
    fn pass_on(&mut self, surely: bool) {
        for (outbox, mailbox) in self.outboxes.iter_mut().zip(&self.mailboxes) {
            match (outbox.is_empty(), surely) {
                (true, _) => {}
                (false, true) => mailbox.leave(outbox),
                (false, false) => mailbox.try_leave(outbox),
            }
        }
    }

    fn here(&self) -> SampleSlot {
        match &self.level {
            Some(level) => level.timeline.slot(self.driver.now()),
            None => self.last_slot,
        }
    }

    /// Flushes at sample ends and tells when nothing is left to wait for.
    fn after_turn(&mut self, began: Nanos) {
        let now = self.driver.now();
        self.stood_still(began, now);
        let Some(level) = &mut self.level else { return };
        let mut flush = false;
        if level.next_flush.is_none() && now >= level.timeline.hold_start {
            level.next_flush = Some(0);
            flush = true;
        }
        let timeline = level.timeline;
        let ended = |sample: u16| sample < timeline.samples && now >= timeline.sample_end(sample);
        while let Some(sample) = level.next_flush.filter(|&sample| ended(sample)) {
            // A sample in which nothing happened was taken all the same.
            let _ = self.recorder.counts(SampleSlot { level: level.timeline.level, sample: Some(sample) });
            level.next_flush = Some(sample + 1);
            flush = true;
        }
        let asked = level.queries.as_ref().map_or(0, Queries::outstanding);
        let all_sent = self.ledger.outstanding() == 0 && asked == 0;
        if level.over && all_sent && level.asked_for_arrival.is_none() {
            let devices = self.ledger.unproved_devices().into_iter();
            let can = devices.fold(false, |can, device| self.driver.ask_for_arrival(device) | can);
            level.asked_for_arrival = Some(can);
        }
        let proved = level.asked_for_arrival != Some(true) || self.ledger.unproved() == 0;
        let waited = now >= level.drain_end || (all_sent && proved);
        let drained = !level.drained && level.over && waited;
        level.drained |= drained;
        if flush {
            self.flush();
        } else if self.ledger.logged() >= LOGGED {
            self.pass_on_log();
        }
        if drained {
            self.reply(Reply::Drained);
        }
    }

    fn flush(&mut self) {
        let traffic = self.driver.take_traffic();
        let here = self.here();
        let ended = std::mem::replace(&mut self.traffic_slot, here);
        if traffic != Traffic::default() {
            traffic.book(self.recorder.counts(ended), self.datagram_header);
        }
        for part in self.recorder.flush() {
            let population = self.population;
            self.reply(Reply::Part(Box::new(SamplePart { population, ..part })));
        }
        self.pass_on_log();
    }

    fn pass_on_log(&mut self) {
        if self.ledger.logged() > 0 {
            let messages = self.ledger.take_log();
            self.reply(Reply::Messages(messages));
        }
    }

    fn close(&mut self) {
        self.read_inbox();
        self.attempts.iter_mut().for_each(Attempts::clear);
        let mut begun = std::mem::take(&mut self.events);
        self.driver.withdraw(&mut begun);
        for event in begun.drain(..) {
            self.book(event);
        }
        self.events = begun;
        let Some(level) = &self.level else { return };
        let timeline = level.timeline;
        // A hold that ran out of time is as long as it could be at most.
        let longest = timeline.cut.filter(|_| level.over).map(|_| timeline.hold_end - timeline.hold_start);
        let hold = level.held.or(longest);
        // A level that the user cut short asked for what was due until then.
        let end = timeline.hold_end.min(self.driver.now());
        while self.give_up(end, SWEEP) {}
        let (first_sent, last_done, first_loss) = self.ledger.close(&mut self.recorder, &timeline);
        self.flush();
        self.last_slot = timeline.slot(timeline.hold_end);
        let queries = self.level.take().and_then(|level| level.queries);
        self.next_query = queries.map_or(self.next_query, |queries| queries.next_number());
        // Some differed only in a token.
        let mut incidents: BTreeMap<String, u64> = BTreeMap::new();
        for (told, times) in std::mem::take(&mut self.incidents).into_values() {
            *incidents.entry(told).or_default() += times;
        }
        let told: Vec<String> = incidents
            .into_iter()
            .map(|(reason, times)| if times == 1 { reason } else { format!("{times} x {reason}") })
            .collect();
        let outages = Some(self.outages.end());
        let repeated = std::mem::take(&mut self.repeated);
        self.reply(Reply::Closed(
            self.population,
            Box::new(LevelEnd {
                index: timeline.level,
                hold,
                at: self.driver.now(),
                first_sent,
                last_done,
                first_loss,
                incident: (!told.is_empty()).then(|| told.join("; ")),
                connected: self.connected,
                observed: self.driver.observed(),
                platform_gone: false,
                outages,
                repeated,
                ..LevelEnd::default()
            }),
        ));
    }

    fn reply(&self, reply: Reply) {
        // Without an engine to listen, the thread is about to end.
        let _ = self.replies.send(reply);
    }
}
