//! What is simulated.

use plimsoll_model::Nanos;
use plimsoll_stats::queue::ServiceTime;

/// A platform, its host, its network and what goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The components in the order in which messages pass them.
    pub stations: Vec<StationSpec>,
    /// Position of the station that acknowledges messages, once it has served them.
    pub acknowledged_by: usize,
    /// Processors on which all stations work; `None` where each worker has one of its own.
    pub processors: Option<usize>,
    /// The way between generator and platform.
    pub network: NetworkSpec,
    /// The load generator.
    pub generator: GeneratorSpec,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
}

/// One component: a queue in front of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct StationSpec {
    /// Its name in reports.
    pub name: String,
    /// Messages served side by side.
    pub workers: usize,
    /// How long a worker is busy with one message.
    pub service: ServiceTime,
    /// Share of the service time that needs a processor; the rest is waiting, for a disk perhaps. What needs one comes
    /// first. The waiting goes on while the station stands still, which then learns later of its end.
    pub processor: f64,
    /// Share of the service time that all workers do one after the other, under a lock. It comes last and rests while the
    /// station stands still; it takes what the processor has left to do.
    pub lock: f64,
    /// Which lock that is, where several stations have one: equal numbers are one lock.
    pub shared_lock: Option<usize>,
    /// Processor time that it may use in each tenth of a second, as a share of that time; `None` for as much as it wants.
    pub quota: Option<f64>,
    /// Whether all messages that are there are served at once and share one worker's speed. It has no lock, and a processor
    /// of its own whatever [`Spec::processors`] says.
    pub sharing: bool,
    /// Messages that may wait; one that finds no room is lost.
    pub limit: Option<usize>,
    /// Messages that may be on the way to the next station and there at once, until it has served them; others wait here
    /// for their turn. `None` for any number.
    pub pool: Option<usize>,
    /// Whether a relay stands before it, which takes no time unless an order says so.
    pub relay: bool,
}

/// The way between generator and platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSpec {
    /// A packet there and one back.
    pub round_trip: Nanos,
    /// Mean of what is added to each way at random, exponentially distributed.
    pub jitter: Nanos,
    /// Whether the platform's address is one of the generator's own host.
    pub local: bool,
}

/// The load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// Processor time that it needs for each message that it sends and each event that it reads.
    pub cost: Nanos,
}

/// Something goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When it begins, on the run's clock.
    pub from: Nanos,
    /// When it ends; [`Nanos::MAX`] for never.
    pub to: Nanos,
}

/// What goes wrong. Stations are named by their position; `None` for all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A station stands still, as after SIGSTOP: it reads nothing and uses no processor.
    Pause(Option<usize>),
    /// Processes outside the platform hold the station's processor for that share of the time.
    Starve(Option<usize>, f64),
    /// A station needs so many times its service time.
    Slow(Option<usize>, f64),
    /// A station needs so many times its service time at first, and ever less: the excess falls to 1/e in the fault's length.
    WarmUp(Option<usize>, f64),
    /// A station's memory grows by so many bytes a second, for good.
    Leak(Option<usize>, f64),
    /// A station loses that share of the messages, after it has acknowledged them if it is the one that does.
    Lose(Option<usize>, f64),
    /// That share of the acknowledgements is never sent.
    LoseAcknowledgements(f64),
    /// A station ends with all that it holds, and is there again when the fault ends.
    Die(usize),
    /// Other processes hold the generator's processor for that share of the time.
    StarveGenerator(f64),
    /// The hypervisor takes the generator's processor for that share of the time.
    StealGenerator(f64),
    /// The generator stands still, as after SIGSTOP.
    PauseGenerator,
    /// Each way takes so much longer.
    NetworkDelay(Nanos),
    /// That share of the packets is lost and sent again.
    NetworkLoss(f64),
}

impl Fault {
    /// Whether it goes on then.
    pub fn is_on(&self, at: Nanos) -> bool {
        self.from <= at && at < self.to
    }
}
