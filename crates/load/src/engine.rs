//! All shards together: starts their threads, leads them through set-up and levels, gives what they measure.

mod connecting;
mod elsewhere;
mod part;
mod population;
mod simulated;
mod thread;

pub use elsewhere::{Order, Orders};
pub use part::{LoadPart, Part};

use crate::arrivals::{self, Process};
use crate::clients::ClientKind;
use crate::clock::Clock;
use crate::drivers::RunService;
use crate::layout::{Layout, Seat};
use crate::recorder::Timeline;
use crate::roles::listening::Listening;
use crate::run_context::RunContext;
use crate::shard::workload::process_of;
use crate::shard::{Command, Reply};
use connecting::{Group, clients_of};
use part::Started;
use plimsoll_model::record::{LevelClocks, LevelEnd, LevelStart, Measurement, PopulationEnd};
use plimsoll_model::samples::pieces_of;
use plimsoll_model::{Load, Nanos, RunId};
use plimsoll_scenario::plan::Captures;
use plimsoll_scenario::plan::{LevelPlan, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use thread::ShardThread;

/// Bytes of the headers of a datagram: IP without options, and UDP.
const UDP_OVER_IPV4: u64 = 28;
const UDP_OVER_IPV6: u64 = 48;
/// Time between the order to begin a level and its beginning, so that every shard is ready for it: here, and at workers.
const LEAD: Nanos = Nanos::from_millis(30);
const LEAD_OF_WORKERS: Nanos = Nanos::from_millis(500);
/// A shard that is silent for so long has died.
const SHARD_SILENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at what the platform still sends after a level.
const LOOK: Nanos = Nanos::from_millis(200);
/// So many looks in a row that find nothing make the platform quiet.
const QUIET_LOOKS: u32 = 2;
/// Share of what came under load below which a platform is quiet.
const QUIET: f64 = 0.05;
/// Bytes of a PINGRESP (MQTT 5.0, 3.13) in a frame of WebSocket.
const KEEP_ALIVE_ANSWER: f64 = 4.0;
/// Bytes by which a record of TLS 1.2 with AES-GCM is longer than its content, the most of all usual ones (RFC 5288).
const RECORD_OVERHEAD: f64 = 29.0;

/// The running engine.
pub struct Engine {
    /// What holds for the run.
    plan: Arc<Plan>,
    /// All populations, that of the run's plan first.
    plans: Vec<Arc<Plan>>,
    clock: Clock,
    /// Which load threads there are, at all workers.
    layout: Arc<Layout>,
    /// Those of the first population come first.
    shards: Vec<ShardThread>,
    /// The only shard of a run in simulated time.
    simulated: Option<Box<simulated::Simulated>>,
    replies: Receiver<Reply>,
    /// Whether parts belong to the set-up, which goes on until all are connected.
    in_set_up: bool,
    /// Whether a level was run.
    has_run: bool,
    /// Bytes a second that came from the platform in the last level, on average until its hold ended.
    received_rate: f64,
    /// Devices connected when the last level ended.
    connected: u32,
    /// Where the subscribers of each population are notified.
    notified: Vec<Notified>,
    notified_ready: bool,
    /// Attempts to connect during set-up that failed and were made again, by what was said.
    repeated: BTreeMap<String, u64>,
    /// What the shards of a population share, where their protocol has something of that kind.
    services: Vec<Arc<dyn RunService>>,
    /// What each population is given.
    run_contexts: Vec<Arc<RunContext>>,
    /// Why load threads at a worker are gone, if they are: no further level begins.
    lost: Option<String>,
    /// Why those of a worker stopped the load of the level that goes on, if they did.
    halted: Option<String>,
    /// What was said of the clocks of workers in it.
    clocks: Option<LevelClocks>,
}

/// Where subscribers are notified.
#[derive(Default)]
struct Notified {
    /// Where they listen.
    listening: Option<Listening>,
    /// The broker whose clients they are, as a URL.
    broker: Option<String>,
}

/// Where a platform is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// By devices; where the platform comes to them, where it finds them.
    pub devices: SocketAddr,
    /// By queriers, if there is anything to ask.
    pub queriers: Option<SocketAddr>,
    /// By subscribers that observe, where the profile says another port than that of devices.
    pub observers: Option<SocketAddr>,
    /// Where devices learn of the platform before, where they do so.
    pub bootstrap: Option<SocketAddr>,
    /// Where a component of the platform sends the log of the stages that messages pass at it, if it sends one.
    pub stage_log: Option<SocketAddr>,
}

/// Why the engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The operating system refused something that a load thread needs.
    #[error("a load thread could not start: {0}")]
    Start(#[from] std::io::Error),
    /// A load thread ended by itself: a defect of Plimsoll.
    #[error("a load thread ended unexpectedly; this is a defect of plimsoll")]
    ShardDied,
    /// Clients could not connect during set-up.
    #[error("{ready} of {wanted} clients connected, then one could not: {reason}")]
    Connect {
        /// Clients that were ready by then.
        ready: u64,
        /// Clients wanted.
        wanted: u64,
        /// What went wrong for the first that failed.
        reason: String,
    },
    /// The plan asks for what is not simulated: subscribers that listen, queries, promises of its own.
    #[error("a simulated platform {0}")]
    NotSimulated(&'static str),
    /// The load threads at a worker are gone.
    #[error("{0}")]
    WorkerLost(String),
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

/// What set-up and levels tell while they go on. Returning `false` asks to stop as soon as possible.
pub trait Watch {
    /// Something was measured.
    fn measured(&mut self, measurement: Measurement) -> bool;
    /// So many clients are ready, of so many wanted.
    fn connected(&mut self, ready: u64, wanted: u64) -> bool;
    /// Called at least ten times a second while a level runs.
    fn tick(&mut self, now: Nanos) -> bool;
}

impl Engine {
    /// Starts one load thread for each population and entry of `processors`, bound to that processor where one is given.
    /// `precedence` lets them go before whatever else runs there; it is not for processors that the platform may use.
    /// `addresses` says where each population finds the platform, and what is `given` to each may be filled later.
    ///
    /// # Errors
    /// [`EngineError::Start`].
    pub fn start(
        plan: &Arc<Plan>,
        run: RunId,
        addresses: &[Addresses],
        processors: &[Option<usize>],
        precedence: bool,
        clock: Clock,
        run_contexts: Vec<Arc<RunContext>>,
    ) -> Result<Engine, EngineError> {
        let threads = processors.len().max(1) as u32;
        let layout = Arc::new(Layout::of_one_process(plan.populations().count(), threads));
        let part = Part { layout: Arc::clone(&layout), process: 0 };
        let started =
            part::start((plan, run), addresses, (processors, precedence), &part, clock, &run_contexts)?;
        let Started { shards, notified, services, replies, .. } = started;
        Ok(Engine {
            notified,
            services,
            ..Engine::over(plan, (shards, layout), replies, clock, run_contexts)
        })
    }

    /// An engine over such load threads, of which nobody is notified and which share nothing.
    fn over(
        plan: &Arc<Plan>,
        (shards, layout): (Vec<ShardThread>, Arc<Layout>),
        replies: Receiver<Reply>,
        clock: Clock,
        run_contexts: Vec<Arc<RunContext>>,
    ) -> Engine {
        let plans = all_of(plan);
        Engine {
            plan: Arc::clone(plan),
            notified: plans.iter().map(|_| Notified::default()).collect(),
            plans,
            clock,
            layout,
            shards,
            simulated: None,
            replies,
            in_set_up: true,
            has_run: false,
            received_rate: 0.0,
            connected: 0,
            notified_ready: false,
            repeated: BTreeMap::new(),
            services: Vec::new(),
            run_contexts,
            lost: None,
            halted: None,
            clocks: None,
        }
    }

    /// Where a subscriber is notified, for the steps that tell the platform: where it listens, or the broker. Empty where
    /// nobody is notified.
    pub fn listener(&self, subscriber: u32) -> String {
        let holds = |plan: &Plan| {
            let first = plan.population.first_subscriber;
            subscriber.checked_sub(first).is_some_and(|place| place < plan.own_subscribers())
        };
        let holder = self.plans.iter().zip(&self.notified).find(|(plan, _)| holds(plan));
        let Some((_, Notified { listening, broker })) = holder else { return String::new() };
        let listening = listening.as_ref().map(|listening| listening.url(subscriber));
        listening.or_else(|| broker.clone()).unwrap_or_default()
    }

    /// The ports at which subscribers listen, one a load thread; none where subscribers are clients.
    pub fn listening_ports(&self) -> Vec<u16> {
        let listening = self.notified.iter().filter_map(|notified| notified.listening.as_ref());
        listening.flat_map(Listening::ports).collect()
    }

    /// Gives what the set-up steps of a population captured to whoever sends requests from now on; once in a run.
    pub fn give(&self, population: usize, captures: Captures) {
        if let Some(run_context) = self.run_contexts.get(population) {
            // Nobody else gives any.
            let _ = run_context.captures.set(captures);
        }
    }

    /// What the load threads of each population are given, for whoever renews the access token.
    pub fn run_contexts(&self) -> &[Arc<RunContext>] {
        &self.run_contexts
    }

    /// The load threads of this process: kernel thread ids and the processors that they are bound to.
    pub fn threads(&self) -> Vec<(i32, Option<usize>)> {
        let here = self.shards.iter().filter(|shard| shard.thread.is_some());
        here.map(|shard| (shard.id, shard.processor)).collect()
    }

    fn lead(&self) -> Nanos {
        if self.is_elsewhere() { LEAD_OF_WORKERS } else { LEAD }
    }

    /// Whether the load threads are at workers.
    fn is_elsewhere(&self) -> bool {
        self.simulated.is_none() && self.shards.iter().all(|shard| shard.thread.is_none())
    }

    /// Disconnects the devices that a level does not want, and says how the level begins if it is begun now; give that
    /// to `run_level`. A level that connects devices has the time for that before its warm-up, by plan and not by
    /// observation: a platform that is slower still has connections to accept in the warm-up and the hold.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`].
    pub fn plan_level(
        &mut self,
        index: u16,
        level: LevelPlan,
        (hold, samples): (Nanos, Option<u16>),
        watch: &mut dyn Watch,
    ) -> Result<LevelStart, EngineError> {
        self.check_workers()?;
        let warm_up = self.plan.load.warm_up;
        let all = self.plan.all_devices();
        let load = asked(level, Some(all));
        let connecting = match level {
            LevelPlan::Devices { devices, .. } => {
                self.release(level, watch)?;
                f64::from(devices.saturating_sub(self.connected)) / self.plan.load.connect_rate
            }
            LevelPlan::ConnectRate(rate) => {
                self.release(LevelPlan::Devices { devices: 0, rate: 0.0 }, watch)?;
                f64::from(all) / rate
            }
            LevelPlan::Rate(_)
            | LevelPlan::Listed { .. }
            | LevelPlan::InFlight(_)
            | LevelPlan::Experiment(_)
            | LevelPlan::ExperimentRate(_) => 0.0,
        };
        let samples = samples.unwrap_or(self.plan.load.samples);
        let messages = self.plan.messages_of(level);
        let (hold, samples, put_together) = match messages {
            Some(_) if level.rate() == 0.0 => {
                let (longest, pieces) = pieces_of(hold);
                (longest, pieces, Some(samples))
            }
            Some(messages) => {
                let hold = self.hold_of((index, level), hold, messages, watch)?;
                (hold, samples, None)
            }
            None => (hold, samples, None),
        };
        let hold_start = self.now() + self.lead() + Nanos::from_secs_f64(connecting) + warm_up;
        let idle = None;
        let populations = match self.plan.with_devices().count() {
            1 => Vec::new(),
            _ => self.plan.shares_of(level).into_iter().map(|share| asked(share, None)).collect(),
        };
        Ok(LevelStart {
            index,
            load,
            populations,
            idle,
            hold_start,
            hold,
            samples,
            messages,
            put_together,
            cut: None,
            experiment: None,
            faults: Vec::new(),
            curve: self.plan.load.curve_of(level).cloned(),
            falling: false,
        })
    }

    /// Whether all workers that have load threads are still there.
    ///
    /// # Errors
    /// [`EngineError::WorkerLost`].
    pub fn check_workers(&self) -> Result<(), EngineError> {
        self.lost.clone().map_or(Ok(()), |why| Err(EngineError::WorkerLost(why)))
    }

    /// How long the hold of a level takes that ends with so many arrivals: their times are known beforehand.
    fn hold_of(
        &self,
        (index, level): (u16, LevelPlan),
        longest: Nanos,
        messages: u64,
        watch: &mut dyn Watch,
    ) -> Result<Nanos, EngineError> {
        let shares = self.plans.iter().zip(self.plan.shares_of(level));
        let processes = shares.filter_map(|(plan, share)| process_of(plan, share, index));
        let processes: Vec<Process> = processes.filter(|process| process.rate > 0.0).collect();
        let goes_on = &mut || watch.tick(self.now());
        arrivals::hold_of(&processes, self.plan.load.warm_up, longest, messages, goes_on)
            .ok_or(EngineError::Interrupted)
    }

    /// Disconnects all devices but those of a level.
    fn release(&mut self, level: LevelPlan, watch: &mut dyn Watch) -> Result<(), EngineError> {
        if !self.has_run {
            return Ok(());
        }
        let kept: Vec<u32> = self.plan.shares_of(level).into_iter().map(devices_of).collect();
        for ((plan, shards), keep) in self.populations().zip(&kept) {
            for (seat, shard) in shards {
                let left = clients_of(seat, ClientKind::Devices, &plan.population, *keep..plan.devices);
                shard.tell(Command::Release(left))?;
            }
        }
        self.await_all(watch, |reply| matches!(reply, Reply::Flushed))?;
        self.connected = self.connected.min(kept.iter().sum());
        Ok(())
    }

    /// Each population with its load threads, and what each of these has of it.
    fn populations(&self) -> impl Iterator<Item = (&Arc<Plan>, Vec<(&Seat, &ShardThread)>)> {
        self.plans.iter().enumerate().map(move |(population, plan)| {
            let numbers = self.layout.numbers(population);
            let shards = self.shards.get(numbers.start as usize..numbers.end as usize).unwrap_or_default();
            (plan, self.layout.seats(population).iter().zip(shards).collect())
        })
    }

    /// Waits until nothing that belongs to earlier levels comes from the platform any more, so that a lower level is
    /// not charged with what a higher one has left behind; not longer than `longest`.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`], [`EngineError::Interrupted`].
    pub fn settle(&mut self, longest: Nanos, watch: &mut dyn Watch) -> Result<(), EngineError> {
        // Devices may have a rhythm of their own beside messages. A platform with a backlog is as busy as under load.
        let quiet_at = self.idle_bytes(LOOK).max((self.received_rate * LOOK.as_secs_f64() * QUIET) as u64);
        let end = self.now() + longest;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS && self.now() < end {
            let look = self.now() + LOOK;
            while self.now() < look {
                self.next(watch)?;
            }
            let mut counting = ReceivedBytes { watch, received: 0 };
            self.tell_all_and_await(&Command::Flush, &mut counting, |reply| matches!(reply, Reply::Flushed))?;
            quiet = if counting.received <= quiet_at { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    /// So many bytes come within that time if the clients only keep their connections: what is expected, and three standard
    /// deviations of a Poisson law more.
    fn idle_bytes(&self, span: Nanos) -> u64 {
        let clients = f64::from(self.plan.all_devices()) + f64::from(self.plan.all_subscribers());
        // A keep-alive of zero is none.
        let keep_alive = Some(self.plan.mqtt.keep_alive).filter(|every| *every > Nanos::ZERO);
        let answers = keep_alive.map_or(0.0, |every| clients * span.as_secs_f64() / every.as_secs_f64());
        let record = if self.plan.connection.transport.tls.is_some() { RECORD_OVERHEAD } else { 0.0 };
        ((answers + 3.0 * answers.sqrt() + 1.0).ceil() * (KEEP_ALIVE_ANSWER + record)) as u64
    }

    /// Lets the platform be without load for so long; between which times it was.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`], or the watch asks to stop.
    pub fn idle(
        &mut self,
        span: Nanos,
        watch: &mut dyn Watch,
    ) -> Result<Option<(Nanos, Nanos)>, EngineError> {
        let begin = self.now();
        while self.now() < begin + span {
            self.next(watch)?;
        }
        Ok((span > Nanos::ZERO).then(|| (begin, self.now())))
    }

    /// Runs a level through warm-up, hold and drain, and closes its ledger. When the watch asks to stop, the level
    /// is closed at once with what it has.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`].
    pub fn run_level(
        &mut self,
        start: &LevelStart,
        level: LevelPlan,
        watch: &mut dyn Watch,
    ) -> Result<(LevelEnd, bool), EngineError> {
        let timeline = Timeline {
            level: start.index,
            start: start.hold_start - self.plan.load.warm_up,
            hold_start: start.hold_start,
            hold_end: start.hold_start + start.hold,
            samples: start.samples,
            cut: start.put_together.map(|_| start.hold / i64::from(start.samples.max(1))),
        };
        let drain_end = timeline.hold_end + self.plan.load.drain;
        let levels = self.plan.shares_of(level);
        let messages = self.plan.messages_of_each(level);
        for (((_, shards), &level), &messages) in self.populations().zip(&levels).zip(&messages) {
            for (_, shard) in shards {
                shard.tell(Command::Run { timeline, level, messages, drain_end })?;
            }
        }
        if start.load.devices().is_some() {
            let counts = levels.iter().zip(&self.plans).map(|(level, plan)| match level {
                LevelPlan::Devices { devices, .. } => *devices,
                _ => plan.devices,
            });
            let group = Group { kind: ClientKind::Devices, counts: counts.collect() };
            let rate = start.load.connect_rate().unwrap_or(self.plan.load.connect_rate);
            self.tell_to_connect(&group, self.now() + self.lead(), rate, false)?;
        }
        let mut counting = ReceivedBytes { watch, received: 0 };
        let watch: &mut dyn Watch = &mut counting;
        // What was said of an earlier level does not hold for this one.
        self.halted = None;
        let mut stopped = false;
        let mut drained = 0;
        while drained < self.shards.len() && !stopped && self.halted.is_none() {
            match self.next(watch) {
                Ok(Some(Reply::Drained)) => drained += 1,
                Ok(_) => {}
                Err(EngineError::Interrupted) => stopped = true,
                Err(error) => return Err(error),
            }
        }
        self.tell_all_and_await(&Command::PassOn, watch, |reply| matches!(reply, Reply::PassedOn))?;
        let closed =
            self.tell_all_and_await(&Command::Close, watch, |reply| matches!(reply, Reply::Closed(..)))?;
        let mut ends: Vec<Option<LevelEnd>> = vec![None; self.plans.len()];
        for reply in closed {
            let Reply::Closed(population, end) = reply else { continue };
            if let Some(own) = ends.get_mut(usize::from(population)) {
                *own = Some(own.take().into_iter().fold(*end, |end, earlier| earlier.merged(end)));
            }
        }
        let populations = ended(&self.plan, &ends);
        let mut end = ends.into_iter().flatten().reduce(LevelEnd::merged).unwrap_or_default();
        end.populations = populations;
        // Also where it was said while the level was being closed.
        end.halted = self.halted.take();
        let clocks = self.clocks.take().unwrap_or_default();
        let mut end = end.with_clocks(clocks);
        for service in &self.services {
            service.level_ended(&mut end);
        }
        (self.has_run, self.connected) = (true, end.connected);
        let loaded = (timeline.hold_end - timeline.start).as_secs_f64();
        self.received_rate = if loaded > 0.0 { counting.received as f64 / loaded } else { 0.0 };
        Ok((end, stopped))
    }

    /// Disconnects every client and ends the threads.
    pub fn stop(mut self, watch: &mut dyn Watch) {
        // A shard that died has nothing left to say, and its thread has ended.
        let _ = self.tell_all_and_await(&Command::Stop, watch, |reply| matches!(reply, Reply::Stopped));
        for shard in &mut self.shards {
            if let Some(thread) = shard.thread.take() {
                let _ = thread.join();
            }
        }
    }

    /// The time on the run's clock.
    pub fn now(&self) -> Nanos {
        self.simulated.as_ref().map_or_else(|| self.clock.now(), |simulated| simulated.simulation.now())
    }

    fn receive(&mut self, patience: Duration) -> Result<Reply, RecvTimeoutError> {
        match &mut self.simulated {
            None => self.replies.recv_timeout(patience),
            Some(simulated) => simulated.receive(&self.replies, patience.into()),
        }
    }

    fn tell_all_and_await(
        &mut self,
        command: &Command,
        watch: &mut dyn Watch,
        wanted: fn(&Reply) -> bool,
    ) -> Result<Vec<Reply>, EngineError> {
        for shard in &self.shards {
            shard.tell(command.clone())?;
        }
        self.await_all(watch, wanted)
    }

    fn await_all(
        &mut self,
        watch: &mut dyn Watch,
        wanted: fn(&Reply) -> bool,
    ) -> Result<Vec<Reply>, EngineError> {
        let mut answers = Vec::new();
        let mut silences = 0;
        while answers.len() < self.shards.len() {
            match self.receive(SHARD_SILENCE) {
                Ok(reply) => {
                    // The level is being closed already; there is nothing to stop.
                    let (rest, _) = self.take(reply, watch);
                    answers.extend(rest.filter(wanted));
                }
                // One silence may be this process's own, which was stopped meanwhile. Of workers it is said when they are lost.
                Err(RecvTimeoutError::Timeout) if silences == 0 || self.is_elsewhere() => silences += 1,
                Err(_) => return Err(EngineError::ShardDied),
            }
        }
        Ok(answers)
    }

    /// Takes a reply that is for the watch, or says that a worker does not go on; gives back any other, and whether the watch goes on.
    fn take(&mut self, reply: Reply, watch: &mut dyn Watch) -> (Option<Reply>, bool) {
        let measurement = match reply {
            Reply::Part(part) if self.in_set_up => Measurement::SetUp(*part),
            Reply::Part(part) => Measurement::Sample(*part),
            Reply::Messages(messages) => Measurement::Messages(messages),
            Reply::Thread(usage) => Measurement::Thread(usage),
            Reply::Halted(why) => {
                self.halted = Some(why);
                return (None, true);
            }
            Reply::Clocks(clocks) => {
                self.clocks = Some(*clocks);
                return (None, true);
            }
            // Who leads the workers answers for those that are gone.
            Reply::Lost(why) => {
                (self.halted, self.lost) = (Some(why.clone()), Some(why));
                return (None, true);
            }
            reply => return (Some(reply), true),
        };
        (None, watch.measured(measurement))
    }

    /// The next reply that is not a part; `None` after a tenth of a second without one.
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Option<Reply>, EngineError> {
        let reply = match self.receive(Duration::from_millis(100)) {
            Ok(reply) => match self.take(reply, watch) {
                (rest, true) => rest,
                (_, false) => return Err(EngineError::Interrupted),
            },
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::ShardDied),
        };
        if !watch.tick(self.now()) {
            return Err(EngineError::Interrupted);
        }
        let died = self.shards.iter().any(|shard| shard.thread.as_ref().is_some_and(JoinHandle::is_finished));
        if died { Err(EngineError::ShardDied) } else { Ok(reply) }
    }
}

/// All populations, that of the run's plan first.
fn all_of(plan: &Arc<Plan>) -> Vec<Arc<Plan>> {
    std::iter::once(plan).chain(&plan.others).cloned().collect()
}

/// What a level asks for, as it is recorded; `all` devices, where it connects all of those that it is about.
fn asked(level: LevelPlan, all: Option<u32>) -> Load {
    match level {
        LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. } | LevelPlan::ExperimentRate(rate) => {
            Load::Rate(rate)
        }
        LevelPlan::InFlight(count) | LevelPlan::Experiment(count) => Load::InFlight(count),
        LevelPlan::Devices { devices, rate } => Load::Devices { devices, rate: (rate > 0.0).then_some(rate) },
        LevelPlan::ConnectRate(rate) => Load::ConnectRate { rate, devices: all },
    }
}

/// How a level ended for each population, where there are several.
fn ended(plan: &Plan, ends: &[Option<LevelEnd>]) -> Vec<PopulationEnd> {
    if plan.with_devices().count() == 1 {
        return Vec::new();
    }
    let of = |end: &Option<LevelEnd>| {
        let end = end.clone().unwrap_or_default();
        let LevelEnd { first_sent, last_done, first_loss, connected, outages, .. } = end;
        PopulationEnd { first_sent, last_done, first_loss, connected, outages, crossed: None }
    };
    ends.iter().map(of).collect()
}

/// Devices that a level connects.
fn devices_of(level: LevelPlan) -> u32 {
    match level {
        LevelPlan::Devices { devices, .. } => devices,
        _ => 0,
    }
}

/// Counts how much comes from the platform, on its way to the watch.
struct ReceivedBytes<'a> {
    watch: &'a mut dyn Watch,
    received: u64,
}

impl Watch for ReceivedBytes<'_> {
    fn measured(&mut self, measurement: Measurement) -> bool {
        if let Measurement::Sample(part) = &measurement {
            self.received += part.counts.bytes_received;
        }
        self.watch.measured(measurement)
    }

    fn connected(&mut self, ready: u64, wanted: u64) -> bool {
        self.watch.connected(ready, wanted)
    }

    fn tick(&mut self, now: Nanos) -> bool {
        self.watch.tick(now)
    }
}
