//! One run from its plan to its stored result: platform, observers, engine, levels. Beside it what is made of several runs: the
//! series of a schedule, sweeps, comparisons, probes. Each tells by a trait what it does, which a terminal follows, or anybody else.
//!
//! Main flow: [`run`] checks the host, enters the run into the store, brings the platform up, connects, runs level
//! after level with a [`watch`] that stores what is measured as it comes, and takes everything down whatever happens.

mod awake;
mod bringing_up;
pub mod bundle;
pub mod capturing;
pub mod comparison;
mod controller;
pub mod dissection;
mod experiment;
mod failure;
mod faults;
pub mod fleet;
pub mod host_lock;
mod identity;
pub mod learning;
mod level_sequence;
mod levels;
pub mod live;
mod observers;
mod placement;
pub mod preflight;
pub mod probe;
pub mod resume;
mod run_capture;
mod running;
mod sampling;
mod schedule;
mod scraping;
mod secrets;
pub mod series;
mod so_far;
pub mod stored;
mod storm;
mod suspicion;
pub mod sweep;
pub mod takeover;
mod tls_keys;
mod token;
mod watch;
pub mod worker;

pub use live::Live;
pub use placement::Placement;
pub use so_far::SoFar;

use bringing_up::Brought;
use controller::{ControllerError, Scene, Sessions};
use failure::Failure;
use faults::Faults;
use fleet::{AtWorkers, Fleet, FleetError, Folders, Passing, Wanted, WireElsewhere};
use plimsoll_analysis::dissection::Ledger;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_capture::marker::MessageId;
use plimsoll_load::clock::{Clock, wall_nanos};
use plimsoll_load::drivers;
use plimsoll_load::engine::{Addresses, Engine, EngineError, Watch};
use plimsoll_load::run_context::RunContext;
use plimsoll_model::message::Fate;
use plimsoll_model::record::{RunEnd, RunRecord};
use plimsoll_model::{Metric, RunId};
use plimsoll_observe::limits::Limits;
use plimsoll_observe::network::NetworkProbe;
use plimsoll_platform::{HttpAddresses, Planned, Platform, PlatformError};
use plimsoll_scenario::plan::Captures;
use plimsoll_scenario::plan::{BOOTSTRAP_PORT, Each, Plan, Protocol, ReceiveRole, StepPlan};
use plimsoll_store::{RunWriter, StoreError};
use preflight::{Demand, HostCheck, Severity};
use resume::Resume;
use run_capture::RunCapture;
use running::Running;
use secrets::Secrets;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storm::Storm;
use token::{Happenings, Keeper, TokenError};
use watch::RunWatch;

/// What a run needs beside its plan.
#[derive(Clone)]
pub struct Options {
    /// This program, which starts the platform's components.
    pub program: PathBuf,
    /// The run store.
    pub store: PathBuf,
    /// The command line, secrets left out, for the provenance.
    pub command: Vec<String>,
    /// The schedule that the run belongs to: the id of its first run.
    pub series: Option<String>,
    /// When the run begins in simulated time, RFC 3339; `None` for now.
    pub started: Option<String>,
    /// Set to stop the run: what was measured is kept.
    pub stop: Arc<AtomicBool>,
    /// Is kept up to date for programs that watch the run.
    pub live: Option<Arc<Live>>,
    /// The files that the scenario names, with their fingerprints ([`resume::fingerprint`]), for the provenance.
    pub inputs: BTreeMap<String, String>,
    /// The interrupted run that is to be continued; `None` for a run of its own.
    pub resume: Option<Arc<Resume>>,
    /// Workers that have the load threads; `None` where this process has them.
    pub workers: Option<Wanted>,
    /// Which run it repeats out of a bundle, for people.
    pub repeats: Option<String>,
}

/// What a run tells while it goes on.
pub trait Progress {
    /// A run begins; that time tells of its platform.
    fn run_begun(&mut self, leading: Metric);
    /// It is over, or could not be done.
    fn run_over(&mut self);
    /// Something of this host may spoil or limit the run, which begins all the same.
    fn warned(&mut self, finding: &HostCheck);
    /// A step begins: bringing up, connecting, ...
    fn step(&mut self, what: &str);
    /// Clients connected so far.
    fn connected(&mut self, ready: u64, wanted: u64);
    /// A level has begun; `of` is `None` where nobody knows how many there will be.
    fn level_begun(&mut self, number: usize, of: Option<usize>, label: &str);
    /// A level goes on: seconds since its warm-up began, the seconds that it takes without its drain, and its figures.
    fn level_goes_on(&mut self, elapsed: f64, planned: f64, so_far: &SoFar);
    /// A level is closed.
    fn level_ended(&mut self, level: &LevelSummary);
}

/// A run that came far enough to have something stored.
pub struct Outcome {
    /// Everything that was recorded.
    pub record: RunRecord,
    /// What it means.
    pub summary: Summary,
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This host does not allow the run.
    #[error("{0}")]
    Host(String),
    /// The workers that are to have the load cannot be had.
    #[error("{0}")]
    Workers(String),
    /// The run store failed; what it had taken before is kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user stopped it before it was entered into the store.
    #[error("interrupted")]
    Interrupted,
}

/// Finds out whether the plan's certificates and keys can be used, before anything is started.
///
/// # Errors
/// What is wrong with them, for people.
pub fn check_certificates(plan: &Plan) -> Result<(), String> {
    plan.populations().try_for_each(|plan| {
        plan.connection.transport.tls.as_ref().map_or(Ok(()), drivers::check_tls)?;
        plan.coap.dtls.as_ref().map_or(Ok(()), |dtls| drivers::coap::check_certificates(dtls))
    })
}

/// Finds out whether the commands or the engine can be run that bring the plan's platform up and take it down, before either is.
///
/// # Errors
/// What is wrong with them, for people.
pub fn check_commands(plan: &Plan) -> Result<(), String> {
    plan.platform.command.as_ref().map_or(Ok(()), plimsoll_platform::check_commands)
}

/// Finds out whether this host allows the faults that are planned, before anything is started.
///
/// # Errors
/// Which it does not allow and why, for people.
pub fn check_faults(plan: &Plan) -> Result<(), String> {
    plimsoll_platform::check_faults(&plan.load.faults, plan.protocol().uses_datagrams())
}

/// Runs the plan.
///
/// # Errors
/// The host makes the run impossible, or the store cannot be used. A platform that cannot be brought up or reached
/// is no error of this function but an [`Outcome`] with the verdict `failed`.
pub fn run(plan: &Arc<Plan>, options: &Options, progress: &mut dyn Progress) -> Result<Outcome, RunError> {
    progress.run_begun(if plan.is_delivered_apart() { Metric::SubscribeTime } else { Metric::PublishTime });
    let outcome = run_and_store(plan, options, progress);
    progress.run_over();
    outcome
}

fn run_and_store(
    plan: &Arc<Plan>,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, RunError> {
    let examine = |plan: &Plan| examine(plan, options.workers.is_none());
    let mut checks = examine(plan);
    if let Some(problem) = problem(&checks) {
        return Err(RunError::Host(problem));
    }
    let id = identity::new_run_id();
    let fleet = options.workers.as_ref().map(|wanted| gather((plan, id), wanted, options, progress));
    let fleet = fleet.transpose()?;
    let mut brought = Brought::of(plan, id, options, progress);
    if plan.platform.command.is_some() {
        // Only now is it known where the platform is.
        checks = examine(&brought.plan);
        brought.failure = brought.failure.take().or_else(|| problem(&checks).map(Failure::Host));
    }
    let plan = &Arc::clone(&brought.plan);
    let warnings: Vec<_> = checks.into_iter().filter(|check| check.severity == Severity::Warning).collect();
    warnings.iter().for_each(|warning| progress.warned(warning));
    let placement = match &options.workers {
        Some(Wanted { place: fleet::Place::At(..), .. }) => Placement::without_load(plan),
        _ => Placement::choose(plan),
    };
    let secrets = Secrets::of(plan);
    let mut new_run = identity::new_run(plan, id, options, &placement, &warnings);
    match &fleet {
        Some(fleet) => {
            new_run.provenance.placement.extend(fleet.facts());
            new_run.provenance.notes.extend(fleet.warnings());
        }
        None => new_run.provenance.notes.extend(plan.all_places_in_words().map(|sites| {
            format!("the scenario says where clients and components stand ({sites}), which holds with --workers: here, all stand on this host")
        })),
    }
    let facts = std::mem::take(&mut brought.facts);
    new_run.provenance.platform.extend(facts.into_iter().map(|(name, fact)| (name, secrets.hide(&fact))));
    let resume = options.resume.as_deref();
    let clock_at = resume.map(Resume::now);
    if let Some((resume, now)) = resume.zip(clock_at) {
        let provenance = &mut new_run.provenance;
        provenance.resumed = resume.story(now);
        let starts = !plan.platform.profile.components.is_empty() || plan.platform.command.is_some();
        // What was noted before is not said twice.
        let earlier = resume.notes(&provenance.resumed, starts);
        provenance.notes.retain(|note| !earlier.contains(note));
        provenance.notes.splice(0..0, earlier);
    }
    let begun = RunWriter::begin(&options.store, &new_run, &options.stop).and_then(|mut writer| {
        resume.map_or(Ok(()), |resume| writer.keep(resume.run(), resume.begun(), resume.cut().as_ref()))?;
        Ok(writer)
    });
    if begun.is_err() {
        warn_of_what_is_left(brought.take_down(progress), &secrets, progress);
    }
    let mut writer = begun.map_err(|error| {
        let stopped = error.is_busy() && options.stop.load(Ordering::Relaxed);
        if stopped { RunError::Interrupted } else { error.into() }
    })?;
    options.live.iter().for_each(|live| live.begin(&plan.name, &id.to_string()));
    let performed = match brought.failure.take() {
        None => perform((plan, id), (&placement, fleet), options, &mut writer, &mut brought, progress),
        Some(failure) => Err(failure),
    };
    let left = warn_of_what_is_left(brought.take_down(progress), &secrets, progress);
    // What was measured is worth more than what was left behind, which the result says.
    let noted = left.map_or(Ok(()), |left| writer.add_note(left));
    let ended = match performed {
        Ok(end) => writer.end(&end),
        Err(Failure::Store(error)) => Err(error),
        Err(failure) if failure.is_interruption() => writer.end(&RunEnd::Interrupted),
        Err(failure) if failure.is_lost_worker() => writer.end(&RunEnd::WorkerLost(failure.to_string())),
        Err(failure) => writer.end(&RunEnd::Failed(secrets.hide(&failure.to_string()))),
    };
    let ended = ended.and(noted);
    let read = || writer.reader().run(&id.to_string());
    let record = match ended {
        Ok(()) => read()?,
        Err(error) => {
            // The store takes no more, but what it took can be read; where that fails too, its error stands.
            let Ok(mut record) = read() else { return Err(error.into()) };
            record.end = Some(RunEnd::Failed(error.to_string()));
            record
        }
    };
    let summary = plimsoll_analysis::summarize(&record);
    Ok(Outcome { record, summary })
}

/// Finds the workers of a run, and makes them ready.
fn gather(
    (plan, id): (&Plan, RunId),
    wanted: &Wanted,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Fleet, RunError> {
    let undone = |error: FleetError| match error {
        FleetError::Interrupted => RunError::Interrupted,
        FleetError::Unsupported(_) | FleetError::Apart(_) => RunError::Host(error.to_string()),
        error => RunError::Workers(error.to_string()),
    };
    progress.step("looking for workers");
    let processors: Vec<usize> = Placement::choose(plan).load.into_iter().flatten().collect();
    let here = (options.program.as_path(), processors.as_slice());
    let mut fleet = Fleet::gather((plan, id), wanted, here, &options.stop).map_err(undone)?;
    progress.step("making workers ready");
    fleet.prepare(plan, &wanted.source, &options.stop).map_err(undone)?;
    Ok(fleet)
}

/// What forbids the run or may spoil it: limits of this host, if the load is here, and what the plan wants.
fn examine(plan: &Plan, load_is_here: bool) -> Vec<HostCheck> {
    let is_simulated = plan.platform.profile.simulated.is_some();
    let mut checks = if is_simulated || !load_is_here { Vec::new() } else { examine_host(plan) };
    for plan in plan.with_devices() {
        checks.extend(plan.oversize().map(preflight::oversize));
        checks.extend(plan.platform.roles.doubtful_delivery.clone().map(preflight::doubtful_delivery));
        checks.extend(plan.unreached_by_queries().map(preflight::unreached_by_queries));
    }
    checks.extend(plan.doubtful_filters().into_iter().map(preflight::doubtful_filter));
    checks
}

/// The first of them that forbids the run.
fn problem(checks: &[HostCheck]) -> Option<String> {
    checks.iter().find(|check| check.severity == Severity::Problem).map(ToString::to_string)
}

/// Says that a platform was not taken down; what is said, without secrets.
fn warn_of_what_is_left(
    left: Option<String>,
    secrets: &Secrets,
    progress: &mut dyn Progress,
) -> Option<String> {
    let left = secrets.hide(&left?);
    progress.warned(&HostCheck::warning("platform", left.clone(), ""));
    Some(left)
}

/// What this host allows, after what can be raised without anybody's leave was raised. Nothing is tried: that takes time,
/// and whether load threads get what they need is seen in the run.
fn examine_host(plan: &Plan) -> Vec<HostCheck> {
    let demand = Demand::of(plan);
    plimsoll_observe::limits::raise_open_files(demand.open_files());
    preflight::examine(&Limits::read(), None, Some(&demand))
}

fn perform(
    (plan, id): (&Arc<Plan>, RunId),
    (placement, mut fleet): (&Placement, Option<Fleet>),
    options: &Options,
    writer: &mut RunWriter,
    brought: &mut Brought,
    progress: &mut dyn Progress,
) -> Result<RunEnd, Failure> {
    let platform_options = plimsoll_platform::Options {
        program: options.program.clone(),
        processors: placement.platform.clone(),
        logs: plan.platform.logs.as_ref().map(|folder| Path::new(folder).join(id.to_string())),
        mqtt5: plan.mqtt.version == plimsoll_codec::mqtt::Version::V5,
        stop: Arc::clone(&options.stop),
    };
    let state = &plan.platform.state;
    if state.reset && !state.command.is_empty() {
        progress.step(&format!("resetting the platform: {}", state.command.join(" ")));
        plimsoll_platform::reset(&state.command, &platform_options)?;
    }
    if plan.platform.command.is_none() {
        progress.step(&format!("bringing up {}", plan.platform.profile.name));
    }
    let planned = Planned::of(&plan.platform, plan.seed, &platform_options)?;
    let listens = plan.populations().any(|plan| plan.platform.roles.listener.is_some());
    let mut servers = planned.ports(&plan.platform);
    if fleet.is_some() {
        let stands_elsewhere = |name: &str| {
            plan.platform.profile.components.iter().any(|own| own.at.is_some() && own.name == name)
        };
        servers.retain(|(name, _)| !stands_elsewhere(name));
    }
    let running = Running::find(&plan.platform, &servers, plan.record.capture.is_some())?;
    servers.extend(running.servers.iter().cloned());
    let ports = running.ports();
    let begin = |capture| {
        RunCapture::begin(capture, id, &options.program, (servers.clone(), &ports), listens, &options.stop)
    };
    let mut capture = plan.record.capture.as_ref().map(begin).transpose()?;
    let folders = Folders {
        captures: capture.as_ref().map(|capture| (capture.folder().to_owned(), id.to_string())),
        logs: platform_options.logs.clone(),
    };
    brought.release(options, progress)?;
    let mut platform = match &mut fleet {
        Some(fleet) if fleet.has_components() => {
            let mut elsewhere = AtWorkers { fleet, plan, servers: &servers, stop: &options.stop };
            planned.bring_up_with(&plan.platform, &platform_options, Some(&mut elsewhere))?
        }
        _ => planned.bring_up(&plan.platform, &platform_options)?,
    };
    let reports = fleet.as_mut().and_then(Fleet::take_reports);
    if state.reset && !plan.protocol().uses_datagrams() {
        plimsoll_platform::await_return(platform.address(), "reset", &platform_options)?;
    }
    writer.add_platform_facts(platform.facts())?;
    writer.add_platform_facts(&identity::state_facts(plan))?;
    // Platforms take their time to come up.
    let clock = options.resume.as_deref().map_or_else(Clock::start, |resume| Clock::showing(resume.now()));
    let epoch = clock.epoch();
    writer.set_epoch(epoch, wall_nanos() - clock.now().0)?;
    let places = Reached::each(plan, &platform, &platform_options)?;
    let token = Arc::default();
    let context = || {
        let (keys, token) = (capture.as_ref().map(RunCapture::key_log), Arc::clone(&token));
        Arc::new(RunContext { keys, token, ..RunContext::default() })
    };
    let contexts = plan.populations().map(|_| context()).collect();
    let addresses: Vec<Addresses> = places.iter().map(|place| place.addresses).collect();
    let fleet = match fleet {
        None => None,
        Some(mut fleet) => {
            if let Some(capture) = plan.record.capture.as_ref().filter(|_| !fleet.has_components()) {
                fleet.begin_captures(capture, &servers, Vec::new(), &options.stop)?;
            }
            progress.step("starting load threads at workers");
            fleet.begin(&addresses, epoch, &options.stop)?;
            fleet.clocks_in_words().into_iter().try_for_each(|told| writer.add_note(told))?;
            Some(fleet)
        }
    };
    let (mut engine, network, passing) =
        start_engine((plan, id), &platform, &addresses, (placement, fleet), options, (clock, contexts))?;
    let own_processors = placement.divides() || platform.simulation().is_some();
    let faults = (!plan.load.faults.is_empty()).then(|| Faults::new(platform_options.clone()));
    let storm = plan.load.storm.clone().map(|storm| Storm::new(storm, platform_options));
    let happenings = Happenings::default();
    let mut watch = RunWatch::new(plan, writer, &mut platform, &engine, options, network, progress)
        .with_storm(storm)
        .with_faults(faults)
        .with_running(running.processes, running.vigils)
        .with_reports(reports)
        .with_capture(capture.as_mut())
        .with_epoch(epoch)
        .with_happenings(&happenings);
    let http: Vec<HttpAddresses> = places.into_iter().map(|place| place.http).collect();
    let terms = plan.populations().zip(&http).zip(engine.run_contexts());
    let mut terms = terms.filter_map(|((plan, http), context)| {
        Some((plan, plan.platform.roles.token.as_ref()?, http, Arc::clone(context)))
    });
    let terms = terms.next();
    if terms.is_some() {
        watch.step("getting an access token");
    }
    let mut work =
        || control_and_run_levels((plan, id, own_processors), &http, options, &mut engine, &mut watch);
    let outcome = match terms {
        None => work(),
        Some((plan, terms, http, context)) => {
            let keeper = Keeper::new(plan, terms, &|port| http.of(port), context, &happenings);
            with_token(keeper, &options.stop, work)
        }
    };
    let outcome = outcome.map_err(|failure| failure.after(watch.death()).behind(&plan.platform.relays));
    engine.stop(&mut watch);
    let (mut wire, mut lost) = (WireElsewhere::default(), Vec::new());
    if let Some(mut fleet) = passing.and_then(Passing::end) {
        (wire, lost) = fleet.collect(&folders);
    }
    // What the platform used in the last seconds, and a store that failed, are known only now.
    let stored = watch.finish();
    platform.take_down();
    stored?;
    lost.into_iter().try_for_each(|told| writer.add_note(told))?;
    if let Some(capture) = capture {
        progress.step("reading the capture");
        dissect((capture, wire), plan, id, writer)?;
    }
    outcome
}

/// The engine, and the probe of the network's round trip where that is measured.
fn start_engine(
    (plan, id): (&Arc<Plan>, RunId),
    platform: &Platform,
    addresses: &[Addresses],
    (placement, fleet): (&Placement, Option<Fleet>),
    options: &Options,
    (clock, contexts): (Clock, Vec<Arc<RunContext>>),
) -> Result<(Engine, Option<NetworkProbe>, Option<Passing>), Failure> {
    if let Some(simulation) = platform.simulation() {
        return Ok((Engine::simulated(plan, id, simulation, &options.stop)?, None, None));
    }
    if let Some(fleet) = fleet {
        let (engine, passing) = fleet.engine(plan, clock, contexts).map_err(EngineError::from)?;
        return Ok((engine, None, Some(passing)));
    }
    let engine = Engine::start(plan, id, addresses, &placement.load, placement.precedence, clock, contexts)?;
    // Before this process steps back, so that the probe does not wait for a processor behind the load.
    let is_away = || !plimsoll_observe::network::is_here(platform.address().ip());
    let wanted = plan.record.network.unwrap_or_else(is_away);
    let network = wanted.then(|| NetworkProbe::new(platform.address()).ok()).flatten();
    placement::step_back();
    Ok((engine, network, None))
}

/// Adds to a run what its packets tell.
fn dissect(
    (capture, wire): (RunCapture, WireElsewhere),
    plan: &Plan,
    id: RunId,
    writer: &mut RunWriter,
) -> Result<(), StoreError> {
    let record = writer.reader().run(&id.to_string())?;
    let ledger = ledger(writer, id)?;
    let dissection = capture.finish((&record, plan), id, wire, ledger.as_ref());
    writer.add_dissection(&serde_json::to_string(&dissection).unwrap_or_default())
}

/// What the ledger knows of the messages, where there are subscribers.
fn ledger(writer: &RunWriter, run: RunId) -> Result<Option<Ledger>, StoreError> {
    let (mut lost, mut receivers) = (BTreeSet::new(), BTreeSet::new());
    writer.reader().messages(&run.to_string(), |message| {
        receivers.insert(message.receivers);
        // What was never acknowledged is told as that, and may be lost all the same.
        let is_open = matches!(message.fate, Fate::Unacknowledged | Fate::Abandoned);
        if message.fate == Fate::Lost || is_open && message.missing > 0 {
            lost.insert(MessageId { device: message.device, sequence: u64::from(message.sequence) });
        }
    })?;
    let is_owed = receivers.last().is_some_and(|most| *most > 0);
    let receivers = receivers.first().copied().filter(|_| receivers.len() == 1);
    Ok(is_owed.then_some(Ledger { lost, receivers }))
}

/// Works with an access token that is renewed meanwhile.
fn with_token(
    keeper: Result<Keeper<'_>, TokenError>,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<RunEnd, Failure>,
) -> Result<RunEnd, Failure> {
    let keeper = keeper?;
    let held = keeper.begin(stop)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| keeper.keep(held));
        let _ending = keeper.ending(thread.thread());
        work()
    })
}

/// Where a population finds the platform, and where requests of the controller about it go.
struct Reached {
    addresses: Addresses,
    http: HttpAddresses,
}

impl Reached {
    /// By each population; the first speaks to the platform itself.
    fn each(
        plan: &Plan,
        platform: &Platform,
        options: &plimsoll_platform::Options,
    ) -> Result<Vec<Reached>, PlatformError> {
        let mut all = vec![Reached::first(plan, platform)];
        for other in &plan.others {
            let mqtt5 = other.mqtt.version == plimsoll_codec::mqtt::Version::V5;
            let options = plimsoll_platform::Options { mqtt5, ..options.clone() };
            all.push(Reached::at(other, platform, platform.address_of(&other.platform, &options)?));
        }
        Ok(all)
    }

    fn first(plan: &Plan, platform: &Platform) -> Reached {
        let stage_log = platform.stage_log_address(&plan.platform);
        let reached = Reached::at(plan, platform, platform.address());
        Reached { addresses: Addresses { stage_log, ..reached.addresses }, ..reached }
    }

    fn at(plan: &Plan, platform: &Platform, devices: SocketAddr) -> Reached {
        let http = platform.http_addresses(&plan.platform, devices);
        let bootstrap = http.of(Some(BOOTSTRAP_PORT)).filter(|_| plan.lwm2m.bootstrap);
        let queriers = plan.platform.roles.query.as_ref().and_then(|query| match query.protocol {
            Protocol::Http => http.of(query.ask.port()),
            // Others speak what devices do, unless they name a port.
            _ => query.ask.port().map_or(Some(devices), |port| http.of(Some(port))),
        });
        let roles = &plan.platform.roles;
        let observing = roles.observes.as_ref().and_then(|observes| observes.port.as_deref());
        let observers = match &roles.receives {
            // As queries: beside devices of another protocol, there is a port of HTTP.
            Some(ReceiveRole::Http(role)) => http.of(role.request.port.as_deref()),
            Some(ReceiveRole::WebSocket(role)) => role.port.as_deref().and_then(|port| http.of(Some(port))),
            None => observing.and_then(|port| http.of(Some(port))),
        };
        Reached { addresses: Addresses { devices, queriers, observers, bootstrap, stage_log: None }, http }
    }
}

/// Lets the controller do its steps before the levels and, where the scenario asks for it, undo them afterwards.
fn control_and_run_levels(
    (plan, id, own_processors): (&Plan, RunId, bool),
    http: &[HttpAddresses],
    options: &Options,
    engine: &mut Engine,
    watch: &mut RunWatch,
) -> Result<RunEnd, Failure> {
    let all_subscribers = plan.all_subscribers();
    let listeners: Vec<String> = (0..all_subscribers).map(|subscriber| engine.listener(subscriber)).collect();
    let listener = |subscriber: u32| listeners.get(subscriber as usize).cloned().unwrap_or_default();
    let token = engine.run_contexts().first().map(|context| Arc::clone(&context.token)).unwrap_or_default();
    let addresses: Vec<_> = http.iter().map(|http| |port: Option<&str>| http.of(port)).collect();
    let sessions: Vec<Sessions> = http.iter().map(|_| Sessions::default()).collect();
    let mut scenes: Vec<(Scene<'_>, Captures)> = plan
        .populations()
        .zip(http.iter().zip(addresses.iter().zip(&sessions)))
        .map(|(plan, (http, (address, sessions)))| {
            let (devices, token, stop) = (http.of_devices(), &*token, &*options.stop);
            let scene = Scene {
                plan,
                run: id,
                address,
                devices,
                sessions,
                token,
                listener: &listener,
                stop,
                hasty: false,
            };
            (scene, Captures::new(&plan.platform.roles.captured))
        })
        .collect();
    if plan.populations().any(|plan| plan.platform.roles.notified.is_some()) {
        // A platform may ask each subscriber whether it wants a subscription before it grants that.
        watch.step("connecting subscribers");
        engine.connect_notified(watch)?;
    }
    let outcome = match set_up(&mut scenes, watch) {
        Ok(()) => {
            for (population, captures) in captured(&scenes).into_iter().enumerate() {
                engine.give(population, captures);
            }
            let resumes = options.resume.is_some();
            levels::connect_and_run((plan, id, own_processors), resumes, engine, watch)
        }
        Err(error) => Err(error.into()),
    };
    if plan.platform.clean_up {
        watch.step("cleaning up");
        let mut done: Vec<&StepPlan> = Vec::new();
        for (scene, captures) in scenes.iter_mut().filter(|(scene, _)| scene.plan.devices > 0) {
            let is_new = |step: &&StepPlan| step.each != Each::Once || !done.contains(step);
            let steps: Vec<StepPlan> =
                scene.plan.platform.roles.clean_up.iter().filter(is_new).cloned().collect();
            done.extend(&scene.plan.platform.roles.clean_up);
            // The user may have stopped the run; what it has set up is taken away all the same.
            let scene = Scene { stop: &AtomicBool::new(false), hasty: true, ..*scene };
            // What was measured is worth more than what was left behind, which the result tells.
            for left in controller::clean_up(&steps, &scene, captures) {
                watch.step(&left);
                watch.note(&left);
            }
        }
    }
    outcome
}

/// Lets the controller set up what each population with devices needs; the platform itself is reset and filled once.
fn set_up(scenes: &mut [(Scene<'_>, Captures)], watch: &mut RunWatch) -> Result<(), ControllerError> {
    let mut told = String::new();
    let mut done: Vec<(&StepPlan, &Plan, Captures)> = Vec::new();
    for (scene, captures) in scenes.iter_mut().filter(|(scene, _)| scene.plan.devices > 0) {
        let (roles, state) = (&scene.plan.platform.roles, &scene.plan.platform.state);
        let first = done.is_empty();
        let reset = if state.reset && first { &roles.reset[..] } else { &[] };
        let preload = if state.preload > 0 && first { &roles.preload[..] } else { &[] };
        for step in reset.iter().chain(preload).chain(&roles.set_up) {
            let same = |(other, ..): &&(&StepPlan, &Plan, Captures)| {
                step.each == Each::Once && (&step.name, &step.ask) == (&other.name, &other.ask)
            };
            // What one population has made is there for the others, but for a connection that was let in.
            if let Some((_, plan, known)) = done.iter().find(same).filter(|_| !step.logs_in) {
                known.copy_common(&plan.platform.roles.captured, captures, &roles.captured);
                continue;
            }
            let steps = std::slice::from_ref(step);
            controller::perform(steps, scene, captures, &mut |step, done, of| {
                if told != step {
                    watch.step(&format!("setting up: {step}"));
                    step.clone_into(&mut told);
                }
                if of > 1 {
                    watch.connected(done, of);
                }
            })?;
            if step.each == Each::Once {
                done.push((step, scene.plan, captures.clone()));
            }
        }
    }
    Ok(())
}

/// What was captured for each population. Subscribers in common say what the last population says that speaks as they do: a platform that
/// was asked again for each population may have taken back what it gave before.
fn captured(scenes: &[(Scene<'_>, Captures)]) -> Vec<Captures> {
    let of = |(scene, own): &(Scene<'_>, Captures)| {
        let speaks = |(other, _): &&(Scene<'_>, Captures)| {
            other.plan.devices > 0 && other.plan.platform.roles.mapping == scene.plan.platform.roles.mapping
        };
        let like = scenes.iter().rfind(speaks).filter(|_| scene.plan.devices == 0);
        like.map_or_else(|| own.clone(), |(_, captures)| captures.clone())
    };
    scenes.iter().map(of).collect()
}
