//! The workers of a run, seen from the coordinator: finds them, makes them ready, and passes the engine's orders to their load threads
//! and the replies back.

mod local;
mod passing;

use crate::resume::fingerprint;
use plimsoll_load::clock::monotonic;
use plimsoll_load::engine::Addresses;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{DeliveryContract, Plan, Protocol};
use plimsoll_stats::clock_offset::{Offset, Reading};
use plimsoll_workers::announcement::{Announcement, placed};
use plimsoll_workers::frame::{Body, Frame, ProcessId};
use plimsoll_workers::link::{Broken, Link};
use plimsoll_workers::message::{Begin, Message, Prepare, Prepared};
use plimsoll_workers::post::{Arrival, Post, PostError};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub use local::Local;
use passing::Awaited;
pub use passing::Passing;
pub use plimsoll_workers::message::Source;
pub use plimsoll_workers::post::Server;

/// Workers announce themselves once a second: after so long all were heard.
const LISTENING: Duration = Duration::from_millis(2500);
/// How long it may take until enough workers are there, and until each is ready or has begun.
const GATHERING: Duration = Duration::from_secs(60);
const ANSWERING: Duration = Duration::from_secs(60);
/// Bytes that may wait for a worker.
const SPOOL: usize = 64 * 1024 * 1024;
/// The longest wait for whatever comes next.
const TURN: Duration = Duration::from_millis(50);
/// Clocks are compared so often before the load begins, and then once a second.
const READINGS: usize = 8;
const BETWEEN_FIRST: Nanos = Nanos::from_millis(20);
const BETWEEN: Nanos = Nanos::from_secs(1);

/// Which workers a run is to have.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where they are.
    pub place: Place,
    /// What the plan is made of.
    pub source: Source,
}

/// Where workers are.
#[derive(Clone, Debug)]
pub enum Place {
    /// At a NATS server, so many at least.
    At(Server, usize),
    /// On this host: so many are started for the run, with a server of their own.
    Local(usize),
}

/// Why a run cannot have its workers.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The server.
    #[error(transparent)]
    Post(#[from] PostError),
    /// Too few workers are there.
    #[error(
        "{found} at {server}, and {wanted} are wanted: start `plimsoll worker --join {server}` on more machines{busy}"
    )]
    TooFew {
        /// How many are free, for people.
        found: String,
        /// The server.
        server: String,
        /// How many are wanted.
        wanted: usize,
        /// Who works for another run, for people; empty where nobody does.
        busy: String,
    },
    /// A worker cannot take part.
    #[error("worker {worker}: {reason}")]
    Refused {
        /// Its name.
        worker: String,
        /// Why.
        reason: String,
    },
    /// A worker does not answer.
    #[error("worker {worker} did not answer within {} s", ANSWERING.as_secs())]
    Silent {
        /// Its name.
        worker: String,
    },
    /// The workers cannot carry the run.
    #[error("{0}")]
    NoRoom(String),
    /// The plan has what workers cannot do.
    #[error("with workers, a run has {0}: run it without --workers")]
    Unsupported(&'static str),
    /// Workers on this host cannot be started.
    #[error("workers on this host could not start: {0}")]
    Local(#[from] std::io::Error),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// What comes to the coordinator.
enum Input {
    /// From the server.
    Arrival(Arrival),
    /// From the engine.
    Order(plimsoll_load::engine::Order),
    /// The engine is gone.
    Over,
}

/// Workers that take part in a run.
pub struct Fleet {
    post: Post,
    inputs: Receiver<Input>,
    input: Sender<Input>,
    run: RunId,
    members: Vec<Member>,
    /// Load threads of each population, at all workers.
    threads: u32,
    /// Those that were started for this run.
    _local: Option<Local>,
}

struct Member {
    worker: Announcement,
    link: Link,
    /// Its first load thread, and how many it has.
    first: u32,
    threads: u32,
    /// Its clock; `None` where it is ours.
    clock: Option<Offset>,
    /// By how many nanoseconds that was ahead of ours when the load threads started.
    ahead: i64,
    next_ping: Nanos,
    prepared: Option<Prepared>,
    /// Whether its load threads run.
    has_begun: bool,
    /// Whether it was said that it is away.
    is_away: bool,
    /// Whether it is gone for good.
    is_gone: bool,
    /// Replies that the engine awaits of its load threads.
    awaited: Vec<Awaited>,
}

/// A number that no other process has.
pub fn new_process() -> ProcessId {
    ProcessId(RandomState::new().hash_one(std::process::id()))
}

/// What of the plan workers cannot do.
fn unsupported(plan: &Plan) -> Option<&'static str> {
    let any = |is: fn(&Plan) -> bool| plan.populations().any(is);
    if plan.platform.profile.simulated.is_some() {
        return Some("no simulated platform");
    }
    let is_called = |plan: &Plan| {
        let roles = &plan.platform.roles;
        plan.own_subscribers() > 0 && (roles.listener.is_some() || roles.notified.is_some())
    };
    if any(is_called) {
        return Some("no subscribers that the platform calls");
    }
    if any(|plan| plan.protocol() == Protocol::Gateway) {
        return Some("no devices behind a gateway");
    }
    if any(|plan| matches!(plan.platform.roles.delivery, DeliveryContract::Throttled(_))) {
        return Some("no platform that keeps messages back for a time");
    }
    plan.record.capture.is_some().then_some("no capture of packets")
}

impl Fleet {
    /// Finds the workers that a run of that plan is to have, and deals out its load threads. Workers on this host are started by this
    /// program, on these processors.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn gather(
        (plan, run): (&Plan, RunId),
        wanted: &Wanted,
        (program, processors): (&Path, &[usize]),
        stop: &AtomicBool,
    ) -> Result<Fleet, FleetError> {
        if let Some(unsupported) = unsupported(plan) {
            return Err(FleetError::Unsupported(unsupported));
        }
        let (server, least, local) = match &wanted.place {
            Place::At(server, least) => (server.clone(), *least, None),
            Place::Local(count) => {
                let local = Local::start(program, *count, processors)?;
                (local.server().clone(), *count, Some(local))
            }
        };
        let clock = plimsoll_observe::host::clock_identity();
        let (input, inputs) = channel();
        let arriving = input.clone();
        let deliver = move |arrival| {
            // Who gathers may be gone.
            let _ = arriving.send(Input::Arrival(arrival));
        };
        let post = Post::join(&server, new_process(), true, deliver)?;
        let workers = heard(&inputs, (&server, least), stop)?;
        let connections = u64::from(plan.all_devices()) + u64::from(plan.all_subscribers());
        let threads = placed(&workers, connections, plan.all_devices()).map_err(FleetError::NoRoom)?;
        let mut first = 0;
        let members = workers.into_iter().zip(&threads).map(|(worker, &threads)| {
            first += threads;
            let is_ours = clock.is_some() && worker.clock == clock;
            Member {
                link: Link::new(run.bits(), SPOOL, monotonic()),
                worker,
                first: first - threads,
                threads,
                clock: (!is_ours).then(Offset::default),
                ahead: 0,
                next_ping: monotonic(),
                prepared: None,
                has_begun: false,
                is_away: false,
                is_gone: false,
                awaited: Vec::new(),
            }
        });
        let members: Vec<Member> = members.filter(|member| member.threads > 0).collect();
        Ok(Fleet { post, inputs, input, run, members, threads: threads.iter().sum(), _local: local })
    }

    /// Makes the workers ready: each makes the plan by itself, and it must be the same.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn prepare(&mut self, plan: &Plan, source: &Source, stop: &AtomicBool) -> Result<(), FleetError> {
        let all: Vec<_> =
            self.members.iter().map(|member| (member.worker.process, member.first, member.threads)).collect();
        for member in &mut self.members {
            let own = member.worker.process;
            let prepare = Prepare {
                run: self.run.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source: source.clone(),
                digest: digest(plan),
                first: member.first,
                threads: member.threads,
                of: self.threads,
                others: all.iter().filter(|(process, ..)| *process != own).copied().collect(),
            };
            member.tell(&Message::Prepare(Box::new(prepare)))?;
        }
        self.await_each(stop, |member, message| match message {
            Message::Prepared(Ok(prepared)) => {
                member.prepared = Some(prepared);
                Some(Ok(()))
            }
            Message::Prepared(Err(reason)) => Some(Err(reason)),
            _ => None,
        })
    }

    /// Starts the load threads at the workers; `epoch` is what our monotonic clock showed at time zero of the run.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn begin(
        &mut self,
        addresses: &[Addresses],
        epoch: i64,
        stop: &AtomicBool,
    ) -> Result<(), FleetError> {
        let end = Instant::now() + ANSWERING;
        let is_known =
            |member: &Member| member.clock.as_ref().is_none_or(|clock| clock.told().readings >= READINGS);
        while let Some(unknown) = self.members.iter().find(|member| !is_known(member)) {
            if Instant::now() > end {
                return Err(FleetError::Silent { worker: unknown.worker.name.clone() });
            }
            self.turn(stop)?;
        }
        for member in &mut self.members {
            member.ahead = member.clock.as_ref().map_or(0, |clock| clock.told().offset.0);
            let begin = Begin { addresses: addresses.to_vec(), epoch: epoch + member.ahead };
            member.tell(&Message::Begin(begin))?;
        }
        self.await_each(stop, |member, message| match message {
            Message::Begun(begun) => {
                member.has_begun = begun.is_ok();
                Some(begun)
            }
            _ => None,
        })
    }

    /// How well the clocks of workers are known, for people; `None` where all read ours.
    pub fn clocks_in_words(&self) -> Option<String> {
        let clocks = self.members.iter().filter_map(|member| Some((member, member.clock.as_ref()?.told())));
        let (worst, told) = clocks.max_by_key(|(_, told)| told.offset_within)?;
        Some(format!(
            "workers have clocks of their own: that of {} is known to within {}, so a time from a device at one worker to a \
             subscriber at another may be wrong by twice that",
            worst.worker.name, told.offset_within
        ))
    }

    /// What the reader of the result must know of the workers, by name.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::from([
            ("load threads".to_owned(), self.threads.to_string()),
            ("remark".to_owned(), format!("load threads run at {} workers", self.members.len())),
        ]);
        for member in &self.members {
            let of =
                |name: &str| member.worker.host.get(name).map(|fact| format!(", {fact}")).unwrap_or_default();
            let Member { first, threads, .. } = *member;
            let own = match threads {
                1 => format!("load thread {first}"),
                _ => format!("load threads {first} to {}", first + threads - 1),
            };
            let fact = format!("{own} of {}{}{}", self.threads, of("kernel"), of("processor"));
            facts.insert(format!("worker {}", member.worker.name), fact);
        }
        facts
    }

    /// What workers found on their hosts, for people.
    pub fn warnings(&self) -> Vec<String> {
        let of = |member: &Member| {
            let warnings = member.prepared.iter().flat_map(|prepared| &prepared.warnings);
            warnings.map(|warning| format!("worker {}: {warning}", member.worker.name)).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    /// Waits until each worker has answered in that way.
    fn await_each(
        &mut self,
        stop: &AtomicBool,
        mut answer: impl FnMut(&mut Member, Message) -> Option<Result<(), String>>,
    ) -> Result<(), FleetError> {
        let end = Instant::now() + ANSWERING;
        let mut open: Vec<usize> = (0..self.members.len()).collect();
        while let Some(first) = open.first() {
            if Instant::now() > end {
                let silent = self.members.get(*first).map(|member| member.worker.name.clone());
                return Err(FleetError::Silent { worker: silent.unwrap_or_default() });
            }
            for (place, message) in self.turn(stop)? {
                let Some(member) = self.members.get_mut(place) else { continue };
                match answer(member, message) {
                    Some(Ok(())) => open.retain(|other| *other != place),
                    Some(Err(reason)) => {
                        return Err(FleetError::Refused { worker: member.worker.name.clone(), reason });
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// One turn before the engine runs: sends what is to be sent, and gives what has come from which member.
    fn turn(&mut self, stop: &AtomicBool) -> Result<Vec<(usize, Message)>, FleetError> {
        if stop.load(Ordering::Relaxed) {
            return Err(FleetError::Interrupted);
        }
        self.send();
        let mut messages = Vec::new();
        match self.inputs.recv_timeout(TURN) {
            Ok(Input::Arrival(Arrival::Frame(frame, read))) => messages.extend(self.take(frame, read)?),
            Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        Ok(messages)
    }

    /// Sends what links have to send, and asks for the time.
    fn send(&mut self) {
        for member in &mut self.members {
            while let Some(frame) = member.link.next(monotonic()) {
                self.post.send(member.worker.process, Body::Link(frame));
            }
            if let Some(clock) = &member.clock
                && member.next_ping <= monotonic()
            {
                let is_first = clock.told().readings < READINGS;
                member.next_ping = monotonic() + if is_first { BETWEEN_FIRST } else { BETWEEN };
                self.post.send(member.worker.process, Body::Ping { asked: monotonic().0 });
                let drifted = clock.told().offset.0 - member.ahead;
                if member.has_begun {
                    let _ = member.link.push(&Message::Clock(drifted).encode());
                }
            }
        }
    }

    /// What a frame says; who is no member is not listened to.
    fn take(&mut self, frame: Frame, read: i64) -> Result<Option<(usize, Message)>, FleetError> {
        let Some(place) = self.members.iter().position(|member| member.worker.process == frame.from) else {
            return Ok(None);
        };
        let Some(member) = self.members.get_mut(place) else { return Ok(None) };
        match frame.body {
            Body::Link(frame) => {
                let taken = member.link.take(frame, monotonic()).map_err(|broken| member.broke(broken))?;
                let Some(bytes) = taken else { return Ok(None) };
                let message = Message::decode(&bytes).map_err(|malformed| FleetError::Refused {
                    worker: member.worker.name.clone(),
                    reason: malformed.to_string(),
                })?;
                Ok(Some((place, message)))
            }
            Body::Pong { asked, theirs } => {
                if let Some(clock) = &mut member.clock {
                    clock.add(Reading { asked: Nanos(asked), answered: Nanos(read), theirs: Nanos(theirs) });
                }
                Ok(None)
            }
            Body::Ping { .. } => Ok(None),
        }
    }
}

impl Member {
    fn tell(&mut self, message: &Message) -> Result<(), FleetError> {
        self.link.push(&message.encode()).map_err(|broken| self.broke(broken))
    }

    fn broke(&self, broken: Broken) -> FleetError {
        FleetError::Refused { worker: self.worker.name.clone(), reason: broken.to_string() }
    }
}

/// The workers that are there and free, in the order of their names: those that announce themselves until all that are there did, and
/// as many as are wanted.
fn heard(
    inputs: &Receiver<Input>,
    (server, least): (&Server, usize),
    stop: &AtomicBool,
) -> Result<Vec<Announcement>, FleetError> {
    let begun = Instant::now();
    let mut workers: BTreeMap<ProcessId, Announcement> = BTreeMap::new();
    loop {
        let free = || workers.values().filter(|worker| worker.run.is_none());
        let is_enough = free().count() >= least.max(1);
        if is_enough && begun.elapsed() >= LISTENING {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(FleetError::Interrupted);
        }
        if begun.elapsed() >= GATHERING {
            let busy: Vec<String> = workers
                .values()
                .filter_map(|worker| Some(format!("{} works for run {}", worker.name, worker.run.as_ref()?)))
                .collect();
            return Err(FleetError::TooFew {
                found: match free().count() {
                    0 => "no worker is free".into(),
                    1 => "1 worker is free".into(),
                    count => format!("{count} workers are free"),
                },
                server: server.shown(),
                wanted: least.max(1),
                busy: if busy.is_empty() { String::new() } else { format!(" ({})", busy.join("; ")) },
            });
        }
        if let Ok(Input::Arrival(Arrival::Announced(worker))) = inputs.recv_timeout(TURN) {
            workers.insert(worker.process, worker);
        }
    }
    let mut free: Vec<Announcement> = workers.into_values().filter(|worker| worker.run.is_none()).collect();
    free.sort_by(|one, other| (&one.name, one.process).cmp(&(&other.name, other.process)));
    let own = env!("CARGO_PKG_VERSION");
    match free.iter().find(|worker| worker.version != own) {
        Some(other) => Err(FleetError::Refused {
            worker: other.name.clone(),
            reason: format!(
                "it has Plimsoll {}, and this is {own}: all need the same version",
                other.version
            ),
        }),
        None => Ok(free),
    }
}

/// A digest of a plan: of the scenario with all defaults, and of the profile.
pub fn digest(plan: &Plan) -> String {
    fingerprint(&[plan.resolved.as_str(), &plan.platform.source()].join("\0"))
}
