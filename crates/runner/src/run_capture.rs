//! The wire of a run: captured from before the platform's first connection until after the last, then read against the run's
//! own phases and losses.

use crate::awake::Awake;
use crate::capturing::{Captured, Capturing, CapturingError, Death, Network, Wanted};
use crate::fleet::{CapturedElsewhere, WireElsewhere};
use crate::tls_keys::TlsKeys;
use plimsoll_analysis::dissection::{
    DissectionSummary, FileSummary, Ledger, OURSELVES, StallSummary, summarize,
};
use plimsoll_analysis::usage;
use plimsoll_capture::component::Components;
use plimsoll_capture::marker::{Form, Search};
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::phases::{Phase, Phases};
use plimsoll_capture::pipeline::dissect;
use plimsoll_capture::source::PacketSource;
use plimsoll_capture::table::Settings;
use plimsoll_capture::tls::keys::Keys;
use plimsoll_capture::traces::Traces;
use plimsoll_load::clock::wall_nanos;
use plimsoll_model::record::{ComponentUsage, RunRecord, SampleRecord};
use plimsoll_model::{Nanos, RunId};
use plimsoll_observe::connection_tracer::{ConnectionTracer, Opened};
use plimsoll_observe::containers::containers;
use plimsoll_observe::endpoints::{EndpointSampler, Ends, Owned};
use plimsoll_observe::network::is_here;
use plimsoll_platform::folder;
use plimsoll_scenario::plan::{CapturePlan, MarkerForm, Plan, WireNetwork, WirePlace};
use plimsoll_workers::message::OwnedEnd;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is told where the kernel does not say who opens connections.
const UNSEEN: &str = "who opens a connection could not be asked of the kernel (tracefs, for root alone): connections that lived \
    shorter than a second may have no name";
/// The same where workers have captured.
const UNSEEN_WITH_WORKERS: &str = "with workers, the kernel is not asked who opens a connection: those that lived shorter than a second may have no name";
/// Share of a stall for which a component may wait for a processor and still be the one that stood still.
const STARVED: f64 = 0.3;
/// Conversations that are followed at once.
const OPEN: usize = 1 << 16;

/// Captures that go on, and who is known on the wire.
pub struct RunCapture {
    plan: CapturePlan,
    capturings: Vec<Capturing>,
    servers: Vec<(String, SocketAddr)>,
    ends: EndpointSampler,
    connection_tracer: Option<ConnectionTracer>,
    /// Of a platform on this host: whether the host stood still.
    awake: Option<Awake>,
    /// The first processes of components.
    roots: BTreeMap<i32, String>,
    hosts: Hosts,
    has_looked: bool,
    keys: Arc<TlsKeys>,
    /// Removed with the captures where they are not kept.
    folder: Folder,
}

/// Addresses of containers, `None` where several have one.
#[derive(Debug, Default)]
struct Hosts(BTreeMap<IpAddr, Option<String>>);

impl Hosts {
    fn look(&mut self) {
        for container in containers() {
            for address in container.addresses {
                let known = self.0.entry(address).or_insert_with(|| Some(container.name.clone()));
                if known.as_ref() != Some(&container.name) {
                    *known = None;
                }
            }
        }
    }
}

enum Folder {
    Kept(PathBuf),
    Passing(folder::Folder),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Folder::Kept(path) => path,
            Folder::Passing(folder) => folder.path(),
        }
    }
}

impl RunCapture {
    /// Begins to capture what goes to and from those servers, and from one to another, and to those ports of this host; where
    /// subscribers listen, what comes to them, too. Setting `stop` ends the wait for the tools.
    pub fn begin(
        plan: &CapturePlan,
        run: RunId,
        program: &Path,
        (servers, ports): (Vec<(String, SocketAddr)>, &BTreeSet<u16>),
        listens: bool,
        stop: &AtomicBool,
    ) -> Result<RunCapture, CapturingError> {
        let failed = |cause| CapturingError::Start { command: "a folder for captures".into(), cause };
        let folder = match &plan.keep {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(failed)?;
                Folder::Kept(path.clone())
            }
            None => Folder::Passing(folder::Folder::fresh(program).map_err(failed)?),
        };
        let local = servers.iter().all(|(_, address)| address.ip().is_loopback());
        let own_interface = if local { "lo" } else { "any" };
        let mut capturings = Vec::new();
        let mut hosts = Hosts::default();
        hosts.look();
        for (number, network) in plan.networks.iter().enumerate() {
            let network = match network {
                WireNetwork::Host => Network::Own,
                WireNetwork::Named(name) => Network::Named(name.clone()),
                WireNetwork::Process(process) => Network::OfProcess(*process),
                WireNetwork::Container(name) => Network::of_container(name)?,
            };
            let interface = if network == Network::Own { own_interface } else { "any" };
            // At which ports subscribers will listen is not known yet: who is a stranger is found out afterwards.
            let filter = plan.filter.clone().unwrap_or_else(|| match network {
                Network::Own if !listens => filter(&servers, ports, plan),
                _ => String::new(),
            });
            // All components stand at workers, which capture what they see.
            if plan.filter.is_none() && network == Network::Own && !listens && filter.is_empty() {
                continue;
            }
            let wanted = Wanted {
                network,
                interface: plan.interface.clone().unwrap_or_else(|| interface.to_owned()),
                filter,
                file: folder.path().join(format!("{run}-{number}.pcap")),
                limit: Some(plan.limit),
                replace: false,
            };
            capturings.push(Capturing::start(program, wanted, stop)?);
        }
        let log = plan.keep.as_ref().map(|folder| folder.join(format!("{run}-keys.log")));
        let (keys, ends) = (Arc::new(TlsKeys::new(log)), EndpointSampler::default());
        let (plan, connection_tracer, roots) = (plan.clone(), ConnectionTracer::begin(), BTreeMap::new());
        let here = !servers.is_empty() && servers.iter().all(|(_, address)| is_here(address.ip()));
        let awake = here.then(Awake::begin).flatten();
        Ok(RunCapture {
            plan,
            capturings,
            servers,
            ends,
            connection_tracer,
            awake,
            roots,
            hosts,
            has_looked: false,
            keys,
            folder,
        })
    }

    /// Where our clients leave the keys of their TLS sessions.
    pub fn key_log(&self) -> Arc<dyn rustls::KeyLog> {
        Arc::clone(&self.keys) as Arc<dyn rustls::KeyLog>
    }

    /// Looks which process has which connection.
    pub fn look(&mut self, mut processes: Vec<(String, i32)>) {
        if !std::mem::replace(&mut self.has_looked, true) {
            // Those that were brought up for the run are there now.
            self.hosts.look();
        }
        // Components are children of this process: they are told after it, and keep what is theirs.
        let ours = (OURSELVES.to_owned(), std::process::id() as i32);
        processes.insert(0, ours);
        self.ends.look(&processes, Nanos(wall_nanos()));
        self.roots.extend(processes.into_iter().map(|(name, process)| (process, name)));
    }

    /// The folder of the captures.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the captures and reads them together with those of workers. What cannot be read is told in the summary's notes, since
    /// what was measured counts without it.
    pub fn finish(
        mut self,
        (record, plan): (&RunRecord, &Plan),
        run: RunId,
        elsewhere: WireElsewhere,
        ledger: Option<&Ledger>,
    ) -> DissectionSummary {
        self.hosts.look();
        let mut captured: Vec<_> = self.capturings.into_iter().map(Capturing::stop).collect();
        let mut notes = gaps(&captured, record);
        let (mut sources, mut paths) = open(&captured, &mut notes);
        let mut components = components(&self.servers, &self.plan, self.hosts, self.ends.finish());
        for (name, address) in &elsewhere.servers {
            components.endpoint((*address).into(), name);
        }
        // Our kernel tells of the openings of this host alone, and takes those of workers on it for strangers'. So does whether the host
        // stood still.
        let is_alone = !elsewhere.has_workers;
        self.awake = self.awake.filter(|_| elsewhere.servers.is_empty());
        for there in elsewhere.captures {
            let of_worker = |note: String| format!("worker {}: {note}", there.worker);
            let mut own_notes = gaps(std::slice::from_ref(&there.captured), record);
            let (own, own_paths) = open(std::slice::from_ref(&there.captured), &mut own_notes);
            notes.extend(own_notes.into_iter().map(of_worker));
            notes.extend(uncertain(&there));
            sources.extend(own.into_iter().map(|source| source.corrected(there.clock.clone())));
            paths.extend(own_paths);
            learn(&mut components, &self.keys.keys(), &there, &mut notes);
            captured.push(there.captured);
        }
        match self.connection_tracer.map(ConnectionTracer::end).filter(|_| is_alone) {
            Some(all) => opened(&mut components, all, &self.roots),
            None if is_alone => notes.push(UNSEEN.into()),
            None => notes.push(UNSEEN_WITH_WORKERS.into()),
        }
        let components = Arc::new(components);
        let phases = Arc::new(phases(record, plan.load.warm_up));
        let settings = Settings {
            search: Search::new(forms(plan, run)).numbered(plan.numbering()),
            components: Arc::clone(&components),
            phases: Arc::clone(&phases),
            keys: self.keys.keys(),
            exchanges: true,
            actions: false,
            only_known: true,
            open: OPEN,
            stop: Arc::default(),
        };
        let mut traces = Traces::new(Arc::clone(&phases));
        if let Some(ledger) = ledger {
            traces.name(ledger.lost.clone());
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut read = dissect(sources, &settings, threads, &mut |batch, _| {
            traces.observe(&batch);
        });
        if let (Ok(dissected), Some(awake)) = (&mut read, self.awake) {
            awake.end().into_iter().for_each(|at| dissected.tally.pulse.awake(at));
        }
        let first = read.as_ref().ok().and_then(|dissected| dissected.first);
        let mut summary = match read {
            Ok(dissected) => {
                traces.finish(
                    captured.iter().filter_map(|part| part.died.as_ref()).map(|death| death.at).min(),
                );
                summarize(&dissected, &paths, &traces, &components, &phases, &settings.search, ledger)
            }
            Err(error) => {
                notes.push(error.to_string());
                DissectionSummary::default()
            }
        };
        if let Folder::Passing(_) = &self.folder {
            // The files will be gone; what was wrong with them is not.
            summary.files.drain(..).for_each(|file| notes.extend(flaws(file)));
        }
        if let Some(first) = first {
            place_in_run(&mut summary.stalls, first, record);
        }
        summary.stalls.iter_mut().for_each(|stall| acquit_who_was_starved(stall, &record.components));
        notes.extend(without_marker(&summary, record));
        notes.extend(self.keys.keys().notes());
        notes.extend(self.keys.note());
        summary.notes.extend(notes);
        summary
    }
}

/// What a worker knows beside its packets: whose connections were there, and keys of TLS sessions.
fn learn(components: &mut Components, keys: &Keys, there: &CapturedElsewhere, notes: &mut Vec<String>) {
    for OwnedEnd { address, from, until, owner } in &there.ends {
        let ip = address.ip().to_canonical();
        if !ip.is_unspecified() && (there.is_here || !ip.is_loopback()) {
            let span = (there.clock.right(*from), there.clock.right(*until));
            components.owned((*address).into(), span, owner);
        }
    }
    if let Some(log) = &there.keys {
        match std::fs::read(log) {
            Ok(bytes) => keys.read(&bytes, log.display().to_string()),
            Err(error) => notes.push(format!("worker {}: its key log cannot be read: {error}", there.worker)),
        }
    }
}

/// How far the times of a worker's packets may be wrong, where it has a clock of its own.
fn uncertain(there: &CapturedElsewhere) -> Option<String> {
    let (worker, within) = (&there.worker, there.within.filter(|_| there.captured.packets > 0)?);
    Some(format!(
        "packets that worker {worker} captured have the times of its clock, which is known to within {within}: times from its host \
         to others and back are uncertain by that, times within a connection are not"
    ))
}

/// What the captures do not hold.
fn gaps(captured: &[Captured], record: &RunRecord) -> Vec<String> {
    let mut notes = Vec::new();
    for part in captured {
        if let Some(dropped) = part.dropped.filter(|&dropped| dropped > 0) {
            notes.push(format!(
                "the kernel dropped {dropped} packets, which are in no capture: what they said is not known"
            ));
        }
        notes.extend(part.died.as_ref().map(|death| told(death, record)));
        if part.wrapped {
            notes.push(
                "the captures reached their limit (record.capture.limit): their oldest packets are gone"
                    .into(),
            );
        }
    }
    notes
}

/// The files that can be read, and their paths; why others cannot is noted.
fn open(captured: &[Captured], notes: &mut Vec<String>) -> (Vec<PacketSource>, Vec<String>) {
    let (mut sources, mut paths) = (Vec::new(), Vec::new());
    for path in captured.iter().flat_map(|part| &part.files) {
        match PacketSource::open(path) {
            Ok(source) => {
                sources.push(source);
                paths.push(path.display().to_string());
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    (sources, paths)
}

/// What was wrong with a file.
fn flaws(file: FileSummary) -> impl Iterator<Item = String> {
    let garbage = file.garbage.map(|garbage| format!("reading of a capture ended at {garbage}"));
    garbage.into_iter().chain(file.error.map(|error| format!("a capture {error}")))
}

/// Stalls are told as times since the first packet; now as times of the run, as all else is.
fn place_in_run(stalls: &mut [StallSummary], first: Nanos, record: &RunRecord) {
    let begin = Nanos(record.provenance.wall_epoch.unwrap_or(0));
    let later = (first - begin).as_secs_f64();
    for stall in stalls {
        for time in [&mut stall.from, &mut stall.to] {
            *time = ((*time + later) * 10.0).round() / 10.0;
        }
    }
}

/// What is told of a run that has sent messages of which none was seen.
fn without_marker(summary: &DissectionSummary, record: &RunRecord) -> Option<String> {
    let sent = |record: &SampleRecord| record.counts.sent;
    let levels = record.levels.iter();
    let sent: u64 = levels
        .map(|level| sent(&level.warm_up) + level.samples.iter().flatten().map(sent).sum::<u64>())
        .sum();
    (summary.messages.marked == 0 && sent > 0).then(|| format!(
        "no marker of this run was found on the wire, though {sent} messages were sent: ways and losses are not known \
         (TLS without keys, a filter or an interface that misses them, or contents that change on the way)"
    ))
}

/// A component that was ready to run for much of a stall, and had no processor, did not stand still by itself: then nobody is
/// named. One that is stopped or waits for a lock is not ready to run.
fn acquit_who_was_starved(stall: &mut StallSummary, components: &[ComponentUsage]) {
    let Some(name) = &stall.component else { return };
    let waited = usage::share(components, name, &(stall.from..stall.to), |usage| usage.run_delay);
    if waited.is_some_and(|waited| waited > STARVED) {
        stall.waiting.push(name.clone());
        stall.component = None;
    }
}

/// When, in the run, a capture ended too early, and why.
fn told(death: &Death, record: &RunRecord) -> String {
    let begin = Nanos(record.provenance.wall_epoch.unwrap_or(0));
    let when = if death.at < begin {
        "before the load began".to_owned()
    } else {
        format!("{:.1} s into the run", (death.at - begin).as_secs_f64())
    };
    format!(
        "the capture ended {when} ({}): what came later is in no capture, and who lost a message after that is not known",
        death.why
    )
}

/// What goes to or from the servers that are known.
fn filter(servers: &[(String, SocketAddr)], ports: &BTreeSet<u16>, plan: &CapturePlan) -> String {
    let named = plan.names.iter().map(|(_, place)| match place {
        WirePlace::Port(port) => format!("port {port}"),
        WirePlace::Endpoint(address) => format!("(host {} and port {})", address.ip(), address.port()),
        WirePlace::Host(address) => format!("host {address}"),
    });
    let own = servers.iter().map(|(_, address)| format!("port {}", address.port()));
    let further = ports.iter().map(|port| format!("port {port}"));
    let all: BTreeSet<String> = own.chain(named).chain(further).collect();
    all.into_iter().collect::<Vec<_>>().join(" or ")
}

/// Names from the processes' own sockets come first, then those of the profile and of the scenario.
fn components(servers: &[(String, SocketAddr)], plan: &CapturePlan, hosts: Hosts, ends: Ends) -> Components {
    let mut components = Components::default();
    components.outside(OURSELVES);
    for (name, address) in servers {
        // A platform that runs already has no better name in its profile than the profile's own.
        if !matches!(hosts.0.get(&address.ip()), Some(Some(_))) {
            components.port(address.port(), name);
        }
    }
    for (address, name) in hosts.0 {
        if let Some(name) = name {
            components.host(Endpoint::from(SocketAddr::new(address, 0)).address, &name);
        }
    }
    for (name, place) in &plan.names {
        match place {
            WirePlace::Port(port) => components.port(*port, name),
            WirePlace::Endpoint(address) => components.endpoint((*address).into(), name),
            WirePlace::Host(address) => {
                components.host(Endpoint::from(SocketAddr::new(*address, 0)).address, name);
            }
        }
    }
    ends.listening.into_iter().for_each(|port| components.listens(port));
    for (address, spans) in ends.owned.into_iter().filter(|(address, _)| !address.ip().is_unspecified()) {
        for Owned { from, until, owner } in spans {
            components.owned(address.into(), (from, until), &owner);
        }
    }
    components
}

/// Connections whose opening the kernel has told: each is that component's among whose processes the one is that opened it.
fn opened(components: &mut Components, all: Vec<Opened>, roots: &BTreeMap<i32, String>) {
    for one in all {
        // Components are children of this process: the nearest counts.
        let owner = one.processes.iter().find_map(|process| roots.get(process));
        let address = one.address.map(|address| Endpoint::from(SocketAddr::new(address, 0)).address);
        components.opened(one.at, address, (one.port, one.to), owner.map(String::as_str));
    }
}

/// Our markers in the forms that this run's messages have, and the ids that the platform's own messages share.
fn forms(plan: &Plan, run: RunId) -> Vec<Form> {
    let mut markers: Vec<MarkerForm> = Vec::new();
    for plan in plan.with_devices() {
        if !markers.contains(&plan.message.marker) {
            markers.push(plan.message.marker);
        }
    }
    let ours = markers.into_iter().map(|marker| match marker {
        MarkerForm::Ascii => Form::Ascii(Some(run.tag())),
        MarkerForm::Binary => Form::Binary(run.tag()),
        MarkerForm::Integer => Form::Integer(run.tag()),
    });
    let shared = plan.platform.profile.shared_ids.iter().cloned().map(Form::Shared);
    ours.chain(shared).collect()
}

/// Set-up, and of each level its warm-up, hold and drain, on the wall clock.
fn phases(record: &RunRecord, planned_warm_up: Nanos) -> Phases {
    let wall = Nanos(record.provenance.wall_epoch.unwrap_or(0));
    let phase = |begin: Nanos, name: String, measured| Phase { begin, name, measured };
    let mut phases = vec![phase(Nanos(i64::MIN), "set-up".to_owned(), false)];
    let mut before = None;
    for level in record.levels.iter().chain(&record.experiment) {
        let start = &level.start;
        let name = plimsoll_analysis::level::phase(start);
        // What is before the first hold since the last level ended is this one's warm-up.
        let warm_up = before.unwrap_or(start.hold_start - planned_warm_up);
        phases.push(phase(wall + warm_up, format!("{name}, warm-up"), false));
        // Where components are slowed, times are not those of the platform.
        let is_untouched = start.blocks().is_empty();
        phases.push(phase(wall + start.hold_start, name.clone(), is_untouched));
        phases.push(phase(wall + start.hold_start + start.hold, format!("{name}, drain"), false));
        before = level.end.as_ref().map(|end| end.at);
    }
    phases.extend(before.map(|end| phase(wall + end, "ending".to_owned(), false)));
    Phases::new(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_had_no_processor_did_not_stand_still() {
        let named = |waited: i64| {
            let mut stall = StallSummary {
                from: 2.0,
                to: 4.0,
                component: Some("store".into()),
                waiting: vec!["front".into()],
            };
            let usage = |at: i64| ComponentUsage {
                component: "store".into(),
                at: Nanos::from_secs(at),
                window: Nanos::from_secs(1),
                run_delay: Some(Nanos::from_millis(waited)),
                ..ComponentUsage::default()
            };
            acquit_who_was_starved(&mut stall, &[usage(3), usage(4), usage(9)]);
            (stall.component, stall.waiting.len())
        };
        assert_eq!(named(100), (Some("store".to_owned()), 1));
        assert_eq!(named(900), (None, 2));
    }
}
