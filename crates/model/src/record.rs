//! What a run records: the rows that the engine and the observers emit while it goes on, and the whole as the
//! run store gives it back. Everything that analysis and reports know of a run is here.

use crate::experiment::{Block, ExperimentLevel, Stage};
use crate::fault::{FaultRecord, PlannedFault};
use crate::message::MessageRecord;
use crate::text::harmless;
use crate::{Counts, Histogram, LevelIndex, Load, LoadCurve, Metric, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of what was seen of one sample since the last part: histograms and counts to be added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplePart {
    /// The number of the population, zero in a run of one; [`SamplePart::OF_ALL`] for what belongs to none.
    pub population: u16,
    /// The level.
    pub level: LevelIndex,
    /// The sample within the hold, `None` for warm-up and set-up.
    pub sample: Option<u16>,
    /// Counts to add.
    pub counts: Counts,
    /// Histograms to merge; absent metrics saw nothing.
    pub histograms: Vec<(Metric, Histogram)>,
}

impl SamplePart {
    /// The population of what was seen of the whole run.
    pub const OF_ALL: u16 = u16::MAX;
}

/// One level as it was planned and begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelStart {
    /// The level.
    pub index: LevelIndex,
    /// What it asks for.
    #[serde(flatten)]
    pub load: Load,
    /// Between which times nobody loaded the platform just before, on the run's clock; `None` where the scenario asks for no such
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<(Nanos, Nanos)>,
    /// What each population has of it, in their order; empty in a run of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub populations: Vec<Load>,
    /// When the hold began, on the run's clock.
    pub hold_start: Nanos,
    /// Length of the hold; of one whose length is known at its end only, how long it may be at most.
    pub hold: Nanos,
    /// Equal parts of the hold.
    pub samples: u16,
    /// Messages after which the hold ends; `None` where it ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// How many samples are wanted of a hold whose length is known at its end only; its samples are pieces until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_together: Option<u16>,
    /// The length of samples that were put together of pieces; `None` where they are equal parts of the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Nanos>,
    /// What it is for in an experiment; `None` of a level that is a load of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<ExperimentLevel>,
    /// What goes wrong in its hold on purpose, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// How its load changes in the hold, of which `load` is the mean; `None` of a level of one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<LoadCurve>,
    /// Whether it was run before on the way up, and now again on the way down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub falling: bool,
}

impl LevelStart {
    /// Its blocks in an experiment, in the order of time; none where nothing is slowed.
    pub fn blocks(&self) -> &[Block] {
        self.experiment.as_ref().map_or(&[], |experiment| &experiment.blocks)
    }

    /// The longest stop in it: that of components, beside which processors are used in small pieces.
    pub fn longest_stop(&self) -> Option<Nanos> {
        self.blocks().iter().filter_map(|block| Some(block.perturbation.as_ref()?.stop)).max()
    }

    /// What it is for in an experiment.
    pub fn stage(&self) -> Option<Stage> {
        self.experiment.as_ref().map(|experiment| experiment.stage)
    }
}

/// How a level ended for one of several populations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PopulationEnd {
    /// When its first message of the hold was sent.
    pub first_sent: Option<Nanos>,
    /// When the last acknowledgement of its messages of the hold came.
    pub last_done: Option<Nanos>,
    /// Its first message that a subscriber never received.
    pub first_loss: Option<FirstLoss>,
    /// Its devices that were connected at the end.
    pub connected: u32,
    /// What became of its clients that lost their connection.
    pub outages: Option<LevelOutages>,
    /// Its deliveries that went from one clock to another one; `None` where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossed: Option<Crossed>,
}

/// Devices that wait for somebody to observe their messages before they send any (LwM2M).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedDevices {
    /// Those that are observed.
    pub observed: u32,
    /// Those that are registered and not observed: they send nothing.
    pub unobserved: u32,
}

impl std::ops::Add for ObservedDevices {
    type Output = ObservedDevices;

    fn add(self, other: ObservedDevices) -> ObservedDevices {
        ObservedDevices {
            observed: self.observed + other.observed,
            unobserved: self.unobserved + other.unobserved,
        }
    }
}

/// How a level ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelEnd {
    /// The level.
    pub index: LevelIndex,
    /// How long it was held, where that is known at its end only; `None` where the user cut such a level short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Nanos>,
    /// When its drain ended, on the run's clock.
    pub at: Nanos,
    /// When the first message of the hold was sent.
    pub first_sent: Option<Nanos>,
    /// When the last acknowledgement (at QoS 0: the last sending) of a message of the hold came.
    pub last_done: Option<Nanos>,
    /// The first message, by due time, that a subscriber never received.
    pub first_loss: Option<FirstLoss>,
    /// What befell the platform in this level, for the reader: a component that died, clients it refused.
    pub incident: Option<String>,
    /// Devices that were connected at the end.
    #[serde(default)]
    pub connected: u32,
    /// Who was observed at the end; `None` where devices need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedDevices>,
    /// Whether the platform was gone at the end: a component died, or nothing came to its end any more, in the drain neither.
    #[serde(default)]
    pub platform_gone: bool,
    /// What became of clients that lost their connection; `None` where an older version measured.
    #[serde(default)]
    pub outages: Option<LevelOutages>,
    /// Messages sent again, by the status of the answer that asked for it; 0 where their connection was lost, and 1 where they were
    /// not acknowledged in time.
    #[serde(default)]
    pub repeated: BTreeMap<u16, u64>,
    /// How the clock of a gateway stood to ours; `None` without one.
    #[serde(default)]
    pub clock: Option<ClockRecord>,
    /// For how long this process itself stood still within the level, as after SIGSTOP, or on a host that stood still.
    #[serde(default)]
    pub stood_still: Nanos,
    /// Why load threads of a worker stopped before the level's end; `None` where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
    /// The component that ended unplanned in the level, or did not come back after a planned end.
    #[serde(default)]
    pub death: Option<DeathRecord>,
    /// The same for each population, in their order; empty in a run of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub populations: Vec<PopulationEnd>,
    /// What was done of each planned fault, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRecord>,
    /// How the clocks of workers stood to that of the coordinator; empty where all read that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<WorkerClock>,
    /// Deliveries that went from one clock to another one; `None` where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossed: Option<Crossed>,
}

/// How the clock of a worker stood to the coordinator's in a level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerClock {
    /// The worker.
    pub worker: String,
    /// When the level began.
    pub began: ClockReading,
    /// When it was closed.
    pub ended: ClockReading,
}

/// How a clock stands to another one, and how well that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Theirs minus ours.
    pub offset: Nanos,
    /// The offset is no more wrong than this, however unequal the two ways of each round trip were.
    pub within: Nanos,
    /// Parts per million by which their clock is faster.
    pub drift: f64,
    /// Half of the 95 % interval of that; `None` with fewer than three readings.
    pub drift_within: Option<f64>,
    /// Round trips so far.
    pub readings: usize,
    /// Whether offset and bound come from the wall clocks of both hosts, which the user says are kept.
    #[serde(default)]
    pub by_wall_clock: bool,
}

/// Deliveries of which one clock saw the sending and another one the arrival, in a level with its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossed {
    /// How many.
    pub deliveries: u64,
    /// Their times are no more wrong by the clocks than this.
    pub within: Nanos,
}

impl Crossed {
    /// Those of two populations, or of two pairs of workers.
    pub fn merged(self, other: Crossed) -> Crossed {
        Crossed { deliveries: self.deliveries + other.deliveries, within: self.within.max(other.within) }
    }
}

/// What is known of the clocks of workers in a level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelClocks {
    /// Of each worker that does not read the coordinator's.
    pub clocks: Vec<WorkerClock>,
    /// Of each population, the deliveries that went from one clock to another one.
    pub crossed: Vec<Option<Crossed>>,
}

/// A component of the platform that ended by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeathRecord {
    /// Which.
    pub component: String,
    /// How, as the operating system says it.
    pub status: String,
    /// When it was noticed, on the run's clock.
    pub at: Nanos,
    /// The end of its output, for people; empty where there is none.
    #[serde(default)]
    pub last_words: String,
}

impl DeathRecord {
    /// The end of its output, for people: `; its last words: ...`, or nothing.
    pub fn in_its_words(&self) -> String {
        let words = self.last_words.lines().next_back().unwrap_or_default().trim();
        if words.is_empty() { String::new() } else { format!("; its last words: {}", harmless(words)) }
    }
}

impl LevelEnd {
    /// As two load threads saw it.
    pub fn merged(self, other: LevelEnd) -> LevelEnd {
        let earlier = |a: Option<Nanos>, b: Option<Nanos>| a.into_iter().chain(b).min();
        let texts: Vec<String> = self.incident.into_iter().chain(other.incident).collect();
        LevelEnd {
            index: self.index,
            hold: self.hold.zip(other.hold).map(|(one, other)| one.max(other)),
            at: self.at.max(other.at),
            first_sent: earlier(self.first_sent, other.first_sent),
            last_done: self.last_done.max(other.last_done),
            first_loss: self
                .first_loss
                .into_iter()
                .chain(other.first_loss)
                .min_by_key(|loss| loss.due_in_hold),
            incident: (!texts.is_empty()).then(|| texts.join("; ")),
            connected: self.connected + other.connected,
            observed: self.observed.into_iter().chain(other.observed).reduce(std::ops::Add::add),
            platform_gone: self.platform_gone || other.platform_gone,
            outages: self.outages.into_iter().chain(other.outages).reduce(LevelOutages::merged),
            repeated: other.repeated.into_iter().fold(self.repeated, |mut all, (status, times)| {
                *all.entry(status).or_default() += times;
                all
            }),
            clock: other.clock.or(self.clock),
            stood_still: self.stood_still.max(other.stood_still),
            halted: self.halted.or(other.halted),
            death: self.death.or(other.death),
            populations: self.populations.into_iter().chain(other.populations).collect(),
            faults: self.faults.into_iter().chain(other.faults).collect(),
            clocks: self.clocks.into_iter().chain(other.clocks).collect(),
            crossed: self.crossed.into_iter().chain(other.crossed).reduce(Crossed::merged),
        }
    }

    /// The same with what is known of the clocks of workers.
    #[must_use]
    pub fn with_clocks(mut self, LevelClocks { clocks, crossed }: LevelClocks) -> LevelEnd {
        for (population, crossed) in self.populations.iter_mut().zip(&crossed) {
            population.crossed = *crossed;
        }
        LevelEnd { clocks, crossed: crossed.into_iter().flatten().reduce(Crossed::merged), ..self }
    }
}

/// How another clock stands to ours, by round trips in which it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Theirs minus ours by the median of the first five round trips.
    pub median: Nanos,
    /// The median is no more wrong than this unless a clock drifts: half of its round trip.
    pub median_within: Nanos,
    /// Theirs minus ours at the last reading, by a line through the shorter half of all round trips.
    pub offset: Nanos,
    /// That is no more wrong than this: in the first seconds as far as the round trips allow, then half of the line's 95 %
    /// interval.
    pub offset_within: Nanos,
    /// Parts per million by which their clock is faster.
    pub drift: f64,
    /// Half of the 95 % interval of that; `None` with fewer than three readings.
    pub drift_within: Option<f64>,
    /// Round trips so far.
    pub readings: usize,
}

/// Clients that lost their connection, each counted once. Those of the level lost it in the hold or the drain, where a
/// storm is planned from the storm on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelOutages {
    /// Clients that the level lost.
    pub lost: u32,
    /// Of those, the ones that were connected when it was closed.
    pub back: u32,
    /// Clients lost earlier that were still away when it was closed.
    pub away_before: u32,
    /// The longest outage that both began and ended in the level.
    pub longest: Option<Nanos>,
}

impl LevelOutages {
    /// Those of two load threads.
    pub fn merged(self, other: LevelOutages) -> LevelOutages {
        LevelOutages {
            lost: self.lost + other.lost,
            back: self.back + other.back,
            away_before: self.away_before + other.away_before,
            longest: self.longest.max(other.longest),
        }
    }

    /// The time until all clients were back; `None` where the level lost none, or any client stayed away.
    pub fn recovery(&self) -> Option<Nanos> {
        self.longest.filter(|_| self.back == self.lost && self.away_before == 0)
    }
}

/// Where losses began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstLoss {
    /// The device that sent the message.
    pub device: u32,
    /// The message's sequence within its device, from 0 over the whole run.
    pub sequence: u32,
    /// The message's number among those its device had due in this level's hold, from 1.
    pub message_number: u64,
    /// When it was due, counted from the beginning of the hold.
    pub due_in_hold: Nanos,
}

/// What the host gave and took from one load thread during one sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// The level.
    pub level: LevelIndex,
    /// The sample.
    pub sample: u16,
    /// The load thread, from 0.
    pub thread: u16,
    /// Wall-clock length of the reading.
    pub wall: Nanos,
    /// Processor time that the thread used.
    pub cpu: Nanos,
    /// Time that the thread was runnable but had no processor (schedstat).
    pub run_delay: Nanos,
    /// How often the thread was put on a processor (schedstat).
    pub timeslices: u64,
    /// Time that the hypervisor took from the thread's processor (steal), at the kernel's tick resolution.
    pub steal: Nanos,
}

/// One reading of a platform component's processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComponentUsage {
    /// The component's name in the platform profile.
    pub component: String,
    /// End of the reading, on the run's clock.
    pub at: Nanos,
    /// Length of the reading.
    pub window: Nanos,
    /// Processor time used in the window by the component's processes, children included.
    pub cpu: Nanos,
    /// Of that, what the busiest of its threads used; `None` where that cannot be read.
    #[serde(default)]
    pub busiest_thread: Option<Nanos>,
    /// Time that its threads were runnable without a processor, summed (schedstat); `None` where it cannot be read.
    #[serde(default)]
    pub run_delay: Option<Nanos>,
    /// Of that, the time in which processes outside the platform held the processors that it may run on; `None` where that
    /// cannot be read.
    #[serde(default)]
    pub held_by_others: Option<Nanos>,
    /// Time for which the quota of its control group kept it from running, all its threads together; zero without a quota, and
    /// where the kernel does not tell.
    #[serde(default)]
    pub throttled: Nanos,
    /// How many processors it may run on; `None` where that cannot be read.
    #[serde(default)]
    pub processors: Option<u16>,
    /// Which these are, as the kernel lists them (`0-3,8`); `None` where that cannot be read.
    #[serde(default)]
    pub processor_list: Option<String>,
    /// The process outside the platform that held them longest.
    #[serde(default)]
    pub holder: Option<String>,
    /// Whether it may run on processors of load threads.
    #[serde(default)]
    pub beside_load: bool,
    /// Whether all of its processes were stopped when they were looked at (SIGSTOP, a debugger).
    #[serde(default)]
    pub stopped: bool,
    /// Resident memory of its processes at the end of the window, in bytes, added up: what they share counts for each.
    pub rss: u64,
    /// Open file descriptors at the end of the window; `None` where they cannot be read, as those of another user.
    pub descriptors: Option<u64>,
}

/// A value that an observer saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// When, on the run's clock.
    pub at: Nanos,
    /// The observer, such as `pressure`.
    pub sampler: String,
    /// Of what: `host`, or a component.
    pub subject: String,
    /// Which quantity, such as `io`.
    pub quantity: String,
    /// The unit of the value: `share` (of one), `bytes`, `1/s`, `seconds`.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// Everything that the engine and the observers tell the run store.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurement {
    /// A level begins.
    LevelStarted(LevelStart),
    /// Part of what was seen before the first level: connect times.
    SetUp(SamplePart),
    /// Part of a sample or of a warm-up.
    Sample(SamplePart),
    /// What the host gave a load thread.
    Thread(ThreadUsage),
    /// What a component used.
    Component(ComponentUsage),
    /// What observers saw.
    Gauges(Vec<Gauge>),
    /// Messages that were done with, or whose level was closed (`record.messages` of the scenario).
    Messages(Vec<MessageRecord>),
    /// A level is closed: its ledger is final.
    LevelEnded(LevelEnd),
}

/// Where a run comes from: enough to repeat it and to distrust it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// The seed of all arrivals and sizes.
    pub seed: u64,
    /// What the reader of the result must know of the run beside its figures, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Wall-clock begin, RFC 3339 in UTC.
    pub started: String,
    /// The command line, secrets left out.
    pub command: Vec<String>,
    /// Facts about the host by name: kernel, processor, cores, memory, clock source, limits.
    pub host: BTreeMap<String, String>,
    /// Facts about the platform by name: profile, address, version where it tells.
    pub platform: BTreeMap<String, String>,
    /// The platform profile as written.
    #[serde(default)]
    pub profile: String,
    /// Which processors load threads and platform were bound to, by name.
    pub placement: BTreeMap<String, String>,
    /// What the host's monotonic clock (`CLOCK_MONOTONIC`) showed at time zero of the run, in nanoseconds, so that
    /// stamps of other processes on this host can be compared; `None` before the engine was started.
    #[serde(default, rename = "clock_epoch_ns", alias = "clock_epoch")]
    pub clock_epoch: Option<i64>,
    /// What the wall clock showed at time zero of the run, in nanoseconds since 1970; `None` before the engine was
    /// started.
    #[serde(default, rename = "wall_epoch_ns")]
    pub wall_epoch: Option<i64>,
    /// The schedule that the run belongs to: the id of its first run; `None` for a run of its own.
    #[serde(default)]
    pub series: Option<String>,
    /// The process that writes the run, in a form by which it is known on its host; `None` where that cannot be read.
    #[serde(default)]
    pub process: Option<String>,
    /// The files that the scenario names, such as a feed or a curve, by their names in it: what is in them, in a form that changes with
    /// it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// That it continues a run that was interrupted, and that one others, the latest last. The clock epoch is that of the last part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
}

/// That a run continues one that was interrupted: finished levels are kept, the one that was interrupted is run again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    /// The run that was interrupted.
    pub run: String,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// When it was continued, RFC 3339 in UTC.
    pub at: String,
    /// The same on the clock of the run, in nanoseconds.
    pub at_ns: i64,
    /// How many levels of it are kept.
    pub kept: usize,
    /// The number of the level in which it was interrupted; `None` where that was between two.
    pub interrupted: Option<LevelIndex>,
    /// The boots of the host (`/proc/sys/kernel/random/boot_id`) in which it ran, and in which it was continued; `None` where they are
    /// not known.
    pub boots: [Option<String>; 2],
}

/// What the analysis must know of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Devices.
    pub devices: u32,
    /// Subscribers.
    pub subscribers: u32,
    /// QoS of publishing over MQTT. Over other protocols 1 stands for messages that are acknowledged.
    pub qos: u8,
    /// Whether messages are acknowledged at a QoS that has no acknowledgement of its own: by an answer of the platform's, or by what
    /// a gateway's log tells.
    #[serde(default)]
    pub acknowledged_otherwise: bool,
    /// QoS that subscribers asked for over MQTT; 0 where they receive otherwise.
    pub subscribe_qos: u8,
    /// Why the platform may bring a message to a subscriber more than once, for people: by another protocol than MQTT, or where the QoS
    /// of what is published to the subscribers' broker is not known. `None` where both QoS decide, and where it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivery: Option<String>,
    /// Time that a subscriber of ours spends on each message before it reads the next.
    #[serde(default)]
    pub subscriber_work: Nanos,
    /// Whether what a subscriber of ours acknowledges comes late by an emulated network.
    #[serde(default)]
    pub subscribers_acknowledge_late: bool,
    /// Whether some subscriber has several filters, which lets a broker deliver a message once for each.
    pub several_filters: bool,
    /// Where the platform connects to subscribers to notify them: over what. `None` where subscribers connect themselves.
    #[serde(default)]
    pub listener: Option<Listener>,
    /// Whether a broker acknowledges messages that another part of the platform delivers, so that its acknowledgement says
    /// nothing of that part.
    #[serde(default)]
    pub delivered_apart: bool,
    /// Whether messages whose connection was lost, or that were not acknowledged in time, are sent again, which the platform may then
    /// have twice.
    #[serde(default)]
    pub repeats_lost: bool,
    /// Whether sessions outlive their connections, so that what was not acknowledged is sent again after a reconnect.
    #[serde(default)]
    pub persistent: bool,
    /// Levels planned; zero where a search chooses them.
    pub levels: u16,
    /// How far sending may lag behind due by design; zero in the closed model.
    #[serde(default)]
    pub precision: Nanos,
    /// Whether the platform's address is one of this host's own.
    #[serde(default)]
    pub local: bool,
    /// Whether relays with the faults of a network stand before components of the platform.
    #[serde(default)]
    pub relayed: bool,
    /// Whether messages travel as datagrams, which a network may lose without a word.
    #[serde(default)]
    pub datagrams: bool,
    /// The search that chose the levels.
    #[serde(default)]
    pub search: Option<crate::search::SearchTerms>,
    /// After so many missed levels in a row no level that is not lower is run; `None` runs all.
    #[serde(default)]
    pub stop_after_missed: Option<u16>,
    /// What the user demands.
    pub objectives: crate::objective::Objectives,
    /// What the platform costs; `None` where the scenario has no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<crate::cost::Cost>,
    /// Each population, in their order; empty in a run of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub populations: Vec<PopulationTerms>,
}

/// What the analysis must know of one of several populations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PopulationTerms {
    /// Its name.
    pub name: String,
    /// What its devices speak.
    pub protocol: String,
    /// The number of its first device.
    pub first_device: u32,
    /// The site or the worker at which its devices stood; `None` where they stood at all workers, or on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The same as of a run of it alone.
    pub terms: Terms,
}

impl Terms {
    /// The time that tells of the platform.
    pub fn leading_time(&self) -> Metric {
        if self.delivered_apart { Metric::SubscribeTime } else { Metric::PublishTime }
    }

    /// Whether messages are acknowledged.
    pub fn acknowledges(&self) -> bool {
        self.qos > 0 || self.acknowledged_otherwise
    }
}

/// Over what a platform notifies those who listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listener {
    /// TCP, as HTTP does.
    Tcp,
    /// UDP, as CoAP does.
    Udp,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Every level was run, or the run ended early because the platform was gone.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// Its process was killed, or its host went down; what it had measured was recovered.
    Killed,
    /// It could not be done: the reason.
    Failed(String),
    /// A worker with load threads was lost for good, and why it counts as lost.
    WorkerLost(String),
    /// A component of the platform ended by itself; what was measured before counts.
    PlatformDied(DeathRecord),
}

/// A level as stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelRecord {
    /// As planned and begun.
    pub start: LevelStart,
    /// How it ended; `None` when the run was cut off within it.
    pub end: Option<LevelEnd>,
    /// Warm-up, merged.
    pub warm_up: SampleRecord,
    /// The samples of the hold, in order; one that was never recorded is `None`: a gap, not a zero.
    pub samples: Vec<Option<SampleRecord>>,
    /// What the host gave the load threads.
    pub threads: Vec<ThreadUsage>,
    /// The same of each population by itself, in their order; empty in a run of one.
    pub populations: Vec<LevelRecord>,
}

impl LevelRecord {
    /// When the last of a run's levels ended; `None` while it goes on. Earlier ones without an end were interrupted.
    pub fn last_end(levels: &[LevelRecord]) -> Option<Nanos> {
        let last = levels.last()?.end.as_ref()?.at;
        let ends = levels.iter().filter_map(|level| Some(level.end.as_ref()?.at));
        Some(ends.fold(last, Nanos::max))
    }

    /// A level that was begun, without anything recorded yet, of so many populations.
    pub fn begun(start: LevelStart, end: Option<LevelEnd>, populations: usize) -> LevelRecord {
        let samples = vec![None; usize::from(start.samples)];
        let of = |number: usize| {
            let load = start.populations.get(number).copied().unwrap_or_default();
            let part = load.offered().zip(start.load.offered().filter(|all| *all > 0.0));
            let curve = start.curve.as_ref().zip(part).map(|(curve, (own, all))| curve.scaled(own / all));
            let start = LevelStart { load, populations: Vec::new(), curve, ..start.clone() };
            let end = end.clone().map(|end| {
                let own = end.populations.get(number).cloned().unwrap_or_default();
                let PopulationEnd { first_sent, last_done, first_loss, connected, outages, crossed } = own;
                LevelEnd {
                    first_sent,
                    last_done,
                    first_loss,
                    connected,
                    outages,
                    crossed,
                    clocks: Vec::new(),
                    populations: Vec::new(),
                    ..end
                }
            });
            LevelRecord::begun(start, end, 0)
        };
        let populations = (0..populations).map(of).collect();
        LevelRecord { start, end, samples, populations, ..LevelRecord::default() }
    }

    /// Adds a part of a sample or of the warm-up, to the whole and to its population. `None` where the level has no such sample.
    #[must_use]
    pub fn absorb(
        &mut self,
        (population, sample): (u16, Option<u16>),
        counts: Counts,
        histograms: Vec<(Metric, Histogram)>,
    ) -> Option<()> {
        if let Some(own) = self.populations.get_mut(usize::from(population)) {
            own.absorb((0, sample), counts, histograms.clone())?;
        }
        let target = match sample {
            None => &mut self.warm_up,
            Some(sample) => self.samples.get_mut(usize::from(sample))?.get_or_insert_default(),
        };
        target.absorb(counts, histograms);
        Some(())
    }
}

/// One sample, its parts merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleRecord {
    /// Its counts.
    pub counts: Counts,
    /// Its histograms.
    pub histograms: BTreeMap<Metric, Histogram>,
}

impl SampleRecord {
    /// Adds a part.
    pub fn absorb(&mut self, counts: Counts, histograms: impl IntoIterator<Item = (Metric, Histogram)>) {
        self.counts += counts;
        for (metric, histogram) in histograms {
            self.histograms.entry(metric).or_insert_with(Histogram::packed).merge(&histogram);
        }
    }
}

/// A whole run as stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// The run's id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// The resolved scenario as YAML, secrets left out.
    pub scenario: String,
    /// What the analysis must know of the plan.
    pub terms: Terms,
    /// Where it comes from.
    pub provenance: Provenance,
    /// How it ended; `None` when it was killed or still goes on.
    pub end: Option<RunEnd>,
    /// Whether the process that writes it is known to be alive.
    pub goes_on: bool,
    /// Set-up: connect times and connection counts before the first level.
    pub set_up: SampleRecord,
    /// The levels begun.
    pub levels: Vec<LevelRecord>,
    /// The levels of its experiment, which are no loads that anybody judges; none of a run without one.
    pub experiment: Vec<LevelRecord>,
    /// What the platform's components used.
    pub components: Vec<ComponentUsage>,
    /// What other observers saw, in the order of time.
    pub gauges: Vec<Gauge>,
    /// What the wire said, as the analysis of captures writes it; `None` where nothing was captured.
    pub dissection: Option<String>,
}
