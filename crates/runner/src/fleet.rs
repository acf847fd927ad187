//! The workers of a run, seen from the coordinator: finds them, makes them ready, and passes the engine's orders to their load threads
//! and the replies back.

mod clocks;
mod collecting;
mod components;
mod local;
mod passing;
mod standing;
mod wire;

use crate::resume::fingerprint;
use clocks::Clocks;
pub use collecting::{CapturedElsewhere, Folders, WireElsewhere};
pub use components::{AtWorkers, Reports};
use plimsoll_load::clock::monotonic;
use plimsoll_load::engine::Addresses;
use plimsoll_load::layout::Layout;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{DeliveryContract, Plan, PlatformPlan};
use plimsoll_scenario::profile::Component;
use plimsoll_stats::clock_offset::Reading;
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::frame::{Body, Frame, ProcessId};
use plimsoll_workers::link::{Broken, GONE, Link};
use plimsoll_workers::message::{Begin, Message, Prepared, Report};
use plimsoll_workers::placement::{Unplaced, placed};
use plimsoll_workers::post::{Arrival, Post, PostError};
use plimsoll_workers::prepare::{Peer, Prepare};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub use local::Local;
use passing::Awaited;
pub use passing::Passing;
pub use plimsoll_workers::post::Server;
pub use plimsoll_workers::prepare::Source;
pub(crate) use standing::demands;

/// Workers announce themselves once a second: after so long all were heard.
const LISTENING: Duration = Duration::from_millis(2500);
/// How long it may take until enough workers are there, and until each is ready or has begun.
pub const GATHERING: Duration = Duration::from_secs(60);
const ANSWERING: Duration = Duration::from_secs(60);
/// Bytes that may wait for a worker.
const SPOOL: usize = 64 * 1024 * 1024;
/// Inputs that are taken before the next look at all workers.
const AT_ONCE: usize = 1024;
/// The longest wait for whatever comes next.
const TURN: Duration = Duration::from_millis(50);

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
    /// At a NATS server, so many at least, for which the coordinator waits so long at most.
    At(Server, usize, Duration),
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
        "{found} at {server}, and {wanted} are wanted: start `plimsoll worker --join {server}` on more machines, with the options that let you in there{busy}"
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
    #[error(
        "worker {worker} does not answer: look whether it runs and reaches the NATS server, then start the run again"
    )]
    Silent {
        /// Its name.
        worker: String,
    },
    /// The workers that are there cannot have the run's clients.
    #[error(transparent)]
    Unplaced(#[from] Unplaced),
    /// Clients stand apart that must stand together.
    #[error("{0}")]
    Apart(String),
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
    /// Its workers, in the order of the layout.
    members: Vec<Member>,
    /// Where each process stands among them.
    places: BTreeMap<ProcessId, usize>,
    clocks: Clocks,
    /// Which load threads they have.
    layout: Arc<Layout>,
    /// Who stands where, for the reader of the result; `None` where nobody is pinned.
    sites: Option<String>,
    /// Where goes what workers see of components, and comes out until somebody wants it.
    reports: Sender<Report>,
    reported: Option<Reports>,
    /// While workers capture: the servers of the platform, and bytes of packets that each keeps at most.
    captured: Option<(Vec<(String, SocketAddr)>, u64)>,
    /// Those that were started for this run.
    _local: Option<Local>,
}

struct Member {
    worker: Announcement,
    link: Link,
    /// Load threads that it has of a population at most.
    threads: u32,
    /// The components of the platform that it starts.
    components: Vec<String>,
    /// Its clock; `None` where it is ours.
    clock: Option<usize>,
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

/// Whether workers can do all that a plan has.
///
/// # Errors
/// [`FleetError::Unsupported`].
pub fn check_supported(plan: &Plan) -> Result<(), FleetError> {
    unsupported(plan).map_or(Ok(()), |unsupported| Err(FleetError::Unsupported(unsupported)))
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
    if any(|plan| plan.platform.reports_stages()) {
        return Some("no devices that push to a gateway which reports what becomes of their events");
    }
    if any(|plan| matches!(plan.platform.roles.delivery, DeliveryContract::Throttled(_))) {
        return Some("no platform that keeps messages back for a time");
    }
    let PlatformPlan { quotas, processors, replicas, relays, balancers, profile, .. } = &plan.platform;
    let pinned = || profile.components.iter().filter(|component| component.at.is_some());
    let is_bounded = |component: &Component| {
        let name = &component.name;
        let has_front = relays.iter().any(|own| own.component == *name)
            || balancers.iter().any(|own| own.component == *name);
        has_front || quotas.contains_key(name) || processors.contains_key(name) || replicas.contains_key(name)
    };
    if pinned().any(is_bounded) {
        return Some("no quota, processors, replicas, relay or balancer of a component at a worker");
    }
    let load = &plan.load;
    if pinned().next().is_some()
        && (load.storm.is_some() || load.experiment.is_some() || !load.faults.is_empty())
    {
        return Some("no storm, faults or experiment where components stand at workers");
    }
    None
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
        check_supported(plan)?;
        let (server, least, wait, local) = match &wanted.place {
            Place::At(server, least, wait) => (server.clone(), *least, *wait, None),
            Place::Local(count) => {
                let local = Local::start(program, *count, processors)?;
                (local.server().clone(), *count, GATHERING, Some(local))
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
        let workers = heard(&inputs, (&server, least, wait), stop)?;
        let layout = placed(&workers, &standing::demands(plan))?;
        let components = components::placed(plan, &workers)?;
        let (workers, layout) = standing::with_work(workers.into_iter().zip(components).collect(), &layout);
        let names: Vec<&str> = workers.iter().map(|(worker, _)| worker.name.as_str()).collect();
        standing::check_beside(plan, run, &layout, &names).map_err(FleetError::Apart)?;
        let ours = plimsoll_observe::host::network_identity();
        standing::check_polled(plan, &layout, &workers, ours.as_deref()).map_err(FleetError::Apart)?;
        let mut clocks = Clocks::new(plan.clock_bound);
        let members = (0..).zip(workers).map(|(process, (worker, components))| Member {
            components,
            link: Link::new(run.bits(), SPOOL, monotonic()),
            threads: standing::threads(&layout, process),
            clock: clocks.of(&worker, clock.as_deref()),
            worker,
            prepared: None,
            has_begun: false,
            is_away: false,
            is_gone: false,
            awaited: Vec::new(),
        });
        let members: Vec<Member> = members.collect();
        let places =
            members.iter().enumerate().map(|(place, member)| (member.worker.process, place)).collect();
        let (layout, sites) = (Arc::new(layout), plan.all_sites_in_words());
        let (reports, reported) = channel();
        let reported = Some(reported);
        Ok(Fleet {
            post,
            inputs,
            input,
            run,
            members,
            places,
            clocks,
            layout,
            sites,
            reports,
            reported,
            captured: None,
            _local: local,
        })
    }

    /// Makes the workers ready: each makes the plan by itself, and it must be the same.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn prepare(&mut self, plan: &Plan, source: &Source, stop: &AtomicBool) -> Result<(), FleetError> {
        // Only receipts go from one worker to another.
        let is_received = plan.populations().any(|plan| plan.own_subscribers() > 0);
        let known = self.members.iter().filter(|_| is_received);
        let known: Vec<_> = known.map(|member| (member.worker.process, member.clock)).collect();
        for (place, member) in self.members.iter_mut().enumerate() {
            let peer = |(process, clock): &(ProcessId, Option<usize>)| Peer {
                process: *process,
                shares_clock: *clock == member.clock,
            };
            let prepare = Prepare {
                run: self.run.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source: source.clone(),
                digest: digest(plan),
                stands: self.layout.stands().to_vec(),
                peers: known.iter().map(peer).collect(),
                place,
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
        while let Some(unknown) = self.members.iter().find(|member| !self.clocks.is_known(member.clock)) {
            if Instant::now() > end {
                return Err(FleetError::Silent { worker: unknown.worker.name.clone() });
            }
            self.turn(stop)?;
        }
        self.clocks.begin();
        for member in &mut self.members {
            let begin =
                Begin { addresses: addresses.to_vec(), epoch: epoch + self.clocks.ahead(member.clock) };
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

    /// How well the clocks of workers are known, and which contradict what the user says of them, for people; empty where all read ours.
    pub fn clocks_in_words(&self) -> Vec<String> {
        let name = |clock: usize| {
            let has = |member: &&Member| member.clock == Some(clock);
            self.members.iter().find(has).map_or("", |member| member.worker.name.as_str())
        };
        let worst = self.clocks.worst().map(|(clock, within)| {
            format!(
                "workers have clocks of their own: that of {} is known to within {within}. Times from a device at one worker to a \
                 subscriber at another are less certain by the bounds of both",
                name(clock)
            )
        });
        let contradicted = self.clocks.contradicted().into_iter().map(|(clock, by)| {
            format!(
                "`clock_bound` does not hold for worker {}: round trips say that its wall clock differs from the coordinator's by {by} \
                 more than both allow, so the bound was not used for it",
                name(clock)
            )
        });
        worst.into_iter().chain(contradicted).collect()
    }

    /// What the reader of the result must know of the workers, by name.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let all: u32 = self.members.iter().map(|member| member.threads).sum();
        let mut facts = BTreeMap::from([
            ("load threads".to_owned(), all.to_string()),
            ("remark".to_owned(), format!("load threads run at {} workers", self.members.len())),
        ]);
        facts.extend(self.sites.clone().map(|sites| ("pinned".to_owned(), sites)));
        let mut first = 0;
        for member in &self.members {
            let of =
                |name: &str| member.worker.host.get(name).map(|fact| format!(", {fact}")).unwrap_or_default();
            let own = match member.threads {
                0 => "no load thread".to_owned(),
                1 => format!("load thread {first}"),
                threads => format!("load threads {first} to {}", first + threads - 1),
            };
            let site = member.worker.site.as_ref().map(|site| format!(", site {site}")).unwrap_or_default();
            let components = match member.components.as_slice() {
                [] => String::new(),
                own => format!(", starts {}", own.join(" and ")),
            };
            let fact = format!("{own} of {all}{site}{components}{}{}", of("kernel"), of("processor"));
            facts.insert(format!("worker {}", member.worker.name), fact);
            first += member.threads;
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
            let mut awaited = open.iter().filter_map(|place| self.members.get(*place));
            if let Some(gone) = awaited.find(|member| member.is_lost()) {
                return Err(FleetError::Silent { worker: gone.worker.name.clone() });
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
        let first = self.inputs.recv_timeout(TURN).ok();
        let all: Vec<Input> = first.into_iter().chain(self.inputs.try_iter().take(AT_ONCE)).collect();
        for input in all {
            if let Input::Arrival(Arrival::Frame(frame, read)) = input {
                messages.extend(self.take(frame, read)?);
            }
        }
        Ok(messages)
    }

    /// Sends what links have to send, and asks for the time.
    fn send(&mut self) {
        for member in &mut self.members {
            while let Some(frame) = member.link.next(monotonic()) {
                self.post.send(member.worker.process, Body::Link(frame));
            }
        }
        let due = self.clocks.due(monotonic());
        if due.is_empty() {
            return;
        }
        let drifted = |clock: usize| (clock, (Message::Clock(self.clocks.drifted(clock)).encode(), false));
        let mut due: BTreeMap<usize, (Vec<u8>, bool)> = due.into_iter().map(drifted).collect();
        for member in self.members.iter_mut().filter(|member| !member.is_gone) {
            let Some((drifted, is_asked)) = member.clock.and_then(|clock| due.get_mut(&clock)) else {
                continue;
            };
            // Of those that have a clock in common, one is enough.
            if !std::mem::replace(is_asked, true) {
                self.post.send(member.worker.process, Body::Ping { asked: monotonic().0 });
            }
            if member.has_begun {
                let _ = member.link.push(drifted);
            }
        }
    }

    /// What a frame says; who is no member is not listened to.
    fn take(&mut self, frame: Frame, read: i64) -> Result<Option<(usize, Message)>, FleetError> {
        let Some(place) = self.places.get(&frame.from).copied() else { return Ok(None) };
        let Some(member) = self.members.get_mut(place) else { return Ok(None) };
        match frame.body {
            Body::Link(frame) => {
                let taken = member.link.take(frame, monotonic()).map_err(|broken| member.broke(broken))?;
                let Some(bytes) = taken else { return Ok(None) };
                let message = Message::decode(&bytes).map_err(|malformed| FleetError::Refused {
                    worker: member.worker.name.clone(),
                    reason: malformed.to_string(),
                })?;
                if let Message::Report(report) = message {
                    // Whoever wanted it may be gone.
                    let _ = self.reports.send(report);
                    return Ok(None);
                }
                Ok(Some((place, message)))
            }
            Body::Pong { asked, theirs, wall_ahead } => {
                if let Some(clock) = member.clock {
                    let (asked, answered) = (Nanos(asked), Nanos(read));
                    self.clocks.answered(
                        clock,
                        Reading { asked, answered, theirs: Nanos(theirs) },
                        wall_ahead,
                    );
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

    /// Whether nothing comes of it any more.
    fn is_lost(&self) -> bool {
        self.link.silence(monotonic()) > GONE || self.link.broken().is_some()
    }

    fn broke(&self, broken: Broken) -> FleetError {
        FleetError::Refused { worker: self.worker.name.clone(), reason: broken.to_string() }
    }
}

/// The workers that are there and free, in the order of their names: those that announce themselves until all that are there did, and
/// as many as are wanted.
fn heard(
    inputs: &Receiver<Input>,
    (server, least, wait): (&Server, usize, Duration),
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
        if begun.elapsed() >= wait {
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
            workers.insert(worker.process, *worker);
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
