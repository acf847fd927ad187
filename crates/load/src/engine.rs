//! All shards together: starts their threads, leads them through set-up and levels, gives what they measure.

mod connecting;
mod simulated;
mod thread;

use crate::clock::Clock;
use crate::driver::Client;
use crate::drivers::{self, DriverContext, RunService, ServiceContext};
use crate::mailbox::Mailbox;
use crate::recorder::Timeline;
use crate::roles::listening::Listening;
use crate::roles::mux::OtherRoles;
use crate::run_context::RunContext;
use crate::shard::{Command, Reply, Wiring};
use crate::share::Share;
use crate::throttle::Throttle;
use crate::topology::Topology;
use plimsoll_model::record::{LevelEnd, LevelStart, Measurement, SamplePart};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::Captures;
use plimsoll_scenario::plan::{Delivery, LevelPlan, Plan};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thread::{ShardThread, Start};

/// Bytes of the headers of a datagram: IP without options, and UDP.
const UDP_OVER_IPV4: u64 = 28;
const UDP_OVER_IPV6: u64 = 48;
/// Time between the order to begin a level and its beginning, so that every shard is ready for it.
const LEAD: Nanos = Nanos::from_millis(30);
/// A shard that is silent for so long has died.
const SHARD_SILENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at what the platform still sends after a level.
const LOOK: Nanos = Nanos::from_millis(200);
/// So many looks in a row that find nothing make the platform quiet.
const QUIET_LOOKS: u32 = 2;
/// Bytes at most with which the platform answers a client that only keeps its connection.
const IDLE_ANSWER: u64 = 2;

/// The running engine.
pub struct Engine {
    plan: Arc<Plan>,
    clock: Clock,
    shards: Vec<ShardThread>,
    /// The only shard of a run in simulated time.
    simulated: Option<Box<simulated::Simulated>>,
    replies: Receiver<Reply>,
    /// Whether parts belong to the set-up, which goes on until all are connected.
    in_set_up: bool,
    /// Whether a level was run.
    has_run: bool,
    /// Devices connected when the last level ended.
    connected: u32,
    /// Where subscribers listen.
    listening: Option<Listening>,
    /// Where subscribers that are notified as clients of a broker are: that broker, as a URL.
    broker: Option<String>,
    subscribers_ready: bool,
    /// Attempts to connect during set-up that failed and were made again, by what was said.
    repeated: BTreeMap<String, u64>,
    /// What the shards share, where their protocol has something of that kind.
    service: Option<Arc<dyn RunService>>,
    given: Arc<RunContext>,
}

/// Where a platform is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// By devices; where the platform comes to them, where it finds them.
    pub devices: SocketAddr,
    /// By queriers, if there is anything to ask.
    pub queriers: Option<SocketAddr>,
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
    /// Starts one load thread for each entry of `processors`, bound to that processor where one is given. `precedence`
    /// lets them go before whatever else runs there; it is not for processors that the platform may use. What is `given` to
    /// all may be filled later.
    ///
    /// # Errors
    /// [`EngineError::Start`].
    pub fn start(
        plan: &Arc<Plan>,
        run: RunId,
        addresses: Addresses,
        processors: &[Option<usize>],
        precedence: bool,
        clock: Clock,
        given: Arc<RunContext>,
    ) -> Result<Engine, EngineError> {
        let Addresses { devices: address, queriers: query_address, stage_log } = addresses;
        let topology = Arc::new(Topology::of(plan, run));
        let of = processors.len().max(1) as u32;
        let (replies_in, replies) = channel();
        let listening = match &plan.platform.roles.listener {
            Some(role) => Some(Listening::bind(role.protocol, address, processors.len())?),
            None => None,
        };
        let mailboxes: Vec<_> = (0..of).map(|_| Arc::new(Mailbox::default())).collect();
        let throttle = match plan.platform.roles.delivery {
            Delivery::Throttled(period) => Some(Arc::new(Throttle::new(period, plan.subscribers.count))),
            _ => None,
        };
        let services = ServiceContext { plan, run, address, stage_log, shards: of, clock };
        let service = drivers::service(&services)?;
        let awaits_stages = service.as_ref().is_some_and(|service| service.awaits_stages());
        let mut shards = Vec::new();
        for (index, &processor) in (0..).zip(processors) {
            let share = Share { index, of };
            let context = DriverContext {
                plan: Arc::clone(plan),
                run,
                address,
                share,
                clock,
                given: Arc::clone(&given),
                service: service.clone(),
            };
            let wiring = Wiring {
                replies: replies_in.clone(),
                mailboxes: mailboxes.clone(),
                datagram_header: if address.is_ipv4() { UDP_OVER_IPV4 } else { UDP_OVER_IPV6 },
                throttle: throttle.clone(),
                awaits_lives: awaits_stages,
                given: Arc::clone(&given),
            };
            let start = Start {
                plan: Arc::clone(plan),
                run,
                topology: Arc::clone(&topology),
                share,
                wiring,
                processor,
                precedence,
            };
            let roles = &plan.platform.roles;
            let listener = match (&roles.listener, &listening, &roles.observes) {
                (Some(role), Some(listening), _) => Some(listening.serve(&context, role)?),
                (_, _, Some(role)) => Some(drivers::role_of(plan, |entry| entry.observers)?(&context, role)?),
                _ => None,
            };
            let queriers = match (&plan.northbound, query_address) {
                (Some(northbound), Some(address)) => {
                    let context = DriverContext { address, ..context.clone() };
                    Some(drivers::role_of(plan, |entry| entry.queriers)?(&context, northbound.queriers)?)
                }
                _ => None,
            };
            let stages = service.as_ref().and_then(|service| service.stage_reader(index));
            let others = OtherRoles { listener, queriers, stages };
            let devices = drivers::driver_of(plan.protocol())?.devices;
            shards.push(start.with(devices(&context)?, others)?);
        }
        let broker = match &plan.platform.roles.notified {
            Some(_) => Some(drivers::role_of(plan, |entry| entry.broker_url)?(plan, address)),
            None => None,
        };
        Ok(Engine {
            plan: Arc::clone(plan),
            clock,
            shards,
            simulated: None,
            replies,
            in_set_up: true,
            has_run: false,
            connected: 0,
            listening,
            broker,
            subscribers_ready: false,
            repeated: BTreeMap::new(),
            service,
            given,
        })
    }

    /// Where a subscriber is notified, for the steps that tell the platform: where it listens, or the broker. Empty where
    /// nobody is notified.
    pub fn listener(&self, subscriber: u32) -> String {
        let listening = self.listening.as_ref().map(|listening| listening.url(subscriber));
        listening.or_else(|| self.broker.clone()).unwrap_or_default()
    }

    /// The ports at which subscribers listen, one a load thread; none where subscribers are clients.
    pub fn listening_ports(&self) -> Vec<u16> {
        self.listening.as_ref().map(Listening::ports).unwrap_or_default()
    }

    /// Gives what set-up steps captured to whoever sends requests from now on; once in a run.
    pub fn give(&self, captures: Captures) {
        // Nobody else gives any.
        let _ = self.given.captures.set(captures);
    }

    /// What the load threads are given, for whoever renews the access token.
    pub fn given(&self) -> Arc<RunContext> {
        Arc::clone(&self.given)
    }

    /// The load threads: kernel thread ids and the processors that they are bound to.
    pub fn threads(&self) -> Vec<(i32, Option<usize>)> {
        self.shards.iter().map(|shard| (shard.id, shard.processor)).collect()
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
        hold: Nanos,
        watch: &mut dyn Watch,
    ) -> Result<LevelStart, EngineError> {
        let (warm_up, samples) = (self.plan.load.warm_up, self.plan.load.samples);
        let (mut offered, mut in_flight, mut devices, mut connect_rate) = (None, None, None, None);
        let mut connecting = 0.0;
        match level {
            LevelPlan::Rate(rate) => offered = Some(rate),
            LevelPlan::InFlight(count) => in_flight = Some(count),
            LevelPlan::Devices { devices: wanted, rate } => {
                (devices, offered) = (Some(wanted), (rate > 0.0).then_some(rate));
                self.release(wanted, watch)?;
                connecting = f64::from(wanted.saturating_sub(self.connected)) / self.plan.load.connect_rate;
            }
            LevelPlan::ConnectRate(rate) => {
                (devices, connect_rate) = (Some(self.plan.devices), Some(rate));
                self.release(0, watch)?;
                connecting = f64::from(self.plan.devices) / rate;
            }
        }
        let hold_start = self.now() + LEAD + Nanos::from_secs_f64(connecting) + warm_up;
        let idle = None;
        Ok(LevelStart { index, offered, in_flight, devices, connect_rate, idle, hold_start, hold, samples })
    }

    /// Disconnects all devices but the first so many.
    fn release(&mut self, keep: u32, watch: &mut dyn Watch) -> Result<(), EngineError> {
        if !self.has_run {
            return Ok(());
        }
        let of = self.shards.len() as u32;
        for (index, shard) in (0..).zip(&self.shards) {
            let owned = (keep..self.plan.devices).filter(|&device| Share { index, of }.owns(device));
            shard.tell(Command::Release(owned.map(Client::Device).collect()))?;
        }
        self.await_all(watch, |reply| matches!(reply, Reply::Flushed))?;
        self.connected = self.connected.min(keep);
        Ok(())
    }

    /// Waits until nothing that belongs to earlier levels comes from the platform any more, so that a lower level is
    /// not charged with what a higher one has left behind; not longer than `longest`.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`], [`EngineError::Interrupted`].
    pub fn settle(&mut self, longest: Nanos, watch: &mut dyn Watch) -> Result<(), EngineError> {
        // What the network still brings while nobody publishes: an answer of that kind to each client at most.
        let clients = u64::from(self.plan.devices) + u64::from(self.plan.subscribers.count);
        let end = self.now() + longest;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS && self.now() < end {
            let look = self.now() + LOOK;
            while self.now() < look {
                self.next(watch)?;
            }
            let mut ear = Ear { watch, received: 0 };
            self.tell_all_and_await(&Command::Flush, &mut ear, |reply| matches!(reply, Reply::Flushed))?;
            quiet = if ear.received <= clients * IDLE_ANSWER { quiet + 1 } else { 0 };
        }
        Ok(())
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
        };
        let drain_end = timeline.hold_end + self.plan.load.drain;
        for shard in &self.shards {
            shard.tell(Command::Run { timeline, level, drain_end })?;
        }
        if let Some(devices) = start.devices {
            let clients: Vec<Client> = (0..devices).map(Client::Device).collect();
            let rate = start.connect_rate.unwrap_or(self.plan.load.connect_rate);
            self.tell_to_connect(&clients, self.now() + LEAD, rate, false)?;
        }
        let mut stopped = false;
        let mut drained = 0;
        while drained < self.shards.len() && !stopped {
            match self.next(watch) {
                Ok(Some(Reply::Drained)) => drained += 1,
                Ok(_) => {}
                Err(EngineError::Interrupted) => stopped = true,
                Err(error) => return Err(error),
            }
        }
        self.tell_all_and_await(&Command::PassOn, watch, |reply| matches!(reply, Reply::PassedOn))?;
        let closed =
            self.tell_all_and_await(&Command::Close, watch, |reply| matches!(reply, Reply::Closed(_)))?;
        let ends = closed.into_iter().filter_map(|reply| match reply {
            Reply::Closed(end) => Some(*end),
            _ => None,
        });
        let mut end = ends.reduce(LevelEnd::merged).unwrap_or_default();
        if let Some(service) = &self.service {
            service.level_ended(&mut end);
        }
        (self.has_run, self.connected) = (true, end.connected);
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
    fn now(&self) -> Nanos {
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
                Ok(Reply::Part(part)) => {
                    // The level is being closed already; there is nothing to stop.
                    let _ = watch.measured(self.measurement(*part));
                }
                Ok(Reply::Messages(messages)) => {
                    let _ = watch.measured(Measurement::Messages(messages));
                }
                Ok(reply) if wanted(&reply) => answers.push(reply),
                Ok(_) => {}
                // One silence may be this process's own, which was stopped meanwhile.
                Err(RecvTimeoutError::Timeout) if silences == 0 => silences += 1,
                Err(_) => return Err(EngineError::ShardDied),
            }
        }
        Ok(answers)
    }

    fn measurement(&self, part: SamplePart) -> Measurement {
        if self.in_set_up { Measurement::SetUp(part) } else { Measurement::Sample(part) }
    }

    /// The next reply that is not a part; `None` after a tenth of a second without one.
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Option<Reply>, EngineError> {
        let reply = match self.receive(Duration::from_millis(100)) {
            Ok(Reply::Part(part)) => {
                if !watch.measured(self.measurement(*part)) {
                    return Err(EngineError::Interrupted);
                }
                None
            }
            Ok(Reply::Messages(messages)) => {
                if !watch.measured(Measurement::Messages(messages)) {
                    return Err(EngineError::Interrupted);
                }
                None
            }
            Ok(reply) => Some(reply),
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

/// Hears how much comes from the platform.
struct Ear<'a> {
    watch: &'a mut dyn Watch,
    received: u64,
}

impl Watch for Ear<'_> {
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
