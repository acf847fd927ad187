//! The wire of a run: captured from before the platform's first connection until after the last, then read against the run's
//! own phases and losses.

use crate::capturing::{Capturing, CapturingError, Network, Wanted};
use crate::tls_keys::TlsKeys;
use plimsoll_analysis::dissection::{DissectionSummary, FileSummary, summarize};
use plimsoll_capture::component::Components;
use plimsoll_capture::hops::Ways;
use plimsoll_capture::marker::{Form, MessageId, Search};
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::phases::{Phase, Phases};
use plimsoll_capture::pipeline::dissect;
use plimsoll_capture::source::Source;
use plimsoll_capture::table::Settings;
use plimsoll_model::record::RunRecord;
use plimsoll_model::{Nanos, RunId};
use plimsoll_observe::endpoints::EndpointSampler;
use plimsoll_scenario::plan::{CapturePlan, MarkerForm, Plan, WirePlace};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What our own process is called on the wire: devices, subscribers, controller and querier in one.
const OURSELVES: &str = "plimsoll";
/// Conversations that are followed at once.
const OPEN: usize = 1 << 16;

/// Captures that go on, and who is known on the wire.
pub struct Tap {
    plan: CapturePlan,
    capturings: Vec<Capturing>,
    servers: Vec<(String, SocketAddr)>,
    ends: EndpointSampler,
    keys: Arc<TlsKeys>,
    /// Removed with the captures where they are not kept.
    folder: Folder,
}

enum Folder {
    Kept(PathBuf),
    Passing(TempDir),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Folder::Kept(path) => path,
            Folder::Passing(folder) => folder.path(),
        }
    }
}

impl Tap {
    /// Begins to capture what goes to and from those servers, and from one to another; where subscribers listen, what comes to
    /// them, too.
    pub fn begin(
        plan: &CapturePlan,
        run: RunId,
        program: &Path,
        servers: Vec<(String, SocketAddr)>,
        listens: bool,
    ) -> Result<Tap, CapturingError> {
        let failed = |cause| CapturingError::Start { command: "a folder for captures".into(), cause };
        let folder = match &plan.keep {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(failed)?;
                Folder::Kept(path.clone())
            }
            None => Folder::Passing(TempDir::with_prefix("plimsoll-wire-").map_err(failed)?),
        };
        let local = servers.iter().all(|(_, address)| address.ip().is_loopback());
        let own_interface = if local { "lo" } else { "any" };
        let mut capturings = Vec::new();
        for (number, namespace) in plan.namespaces.iter().enumerate() {
            let network = namespace.clone().map_or(Network::Own, Network::Named);
            let interface = if network == Network::Own { own_interface } else { "any" };
            // At which ports subscribers will listen is not known yet: who is a stranger is found out afterwards.
            let filter = plan.filter.clone().unwrap_or_else(|| match network {
                Network::Own if !listens => filter(&servers, plan),
                _ => String::new(),
            });
            let wanted = Wanted {
                network,
                interface: plan.interface.clone().unwrap_or_else(|| interface.to_owned()),
                filter,
                file: folder.path().join(format!("{run}-{number}.pcap")),
                limit: Some(plan.limit),
            };
            capturings.push(Capturing::start(program, wanted)?);
        }
        let log = plan.keep.as_ref().map(|folder| folder.join(format!("{run}-keys.log")));
        let (keys, ends) = (Arc::new(TlsKeys::new(log)), EndpointSampler::default());
        Ok(Tap { plan: plan.clone(), capturings, servers, ends, keys, folder })
    }

    /// Where our clients leave the keys of their TLS sessions.
    pub fn key_log(&self) -> Arc<dyn rustls::KeyLog> {
        Arc::clone(&self.keys) as Arc<dyn rustls::KeyLog>
    }

    /// Looks which process has which connection.
    pub fn look(&mut self, mut processes: Vec<(String, i32)>) {
        // Components are children of this process: they are told after it, and keep what is theirs.
        let ours = (OURSELVES.to_owned(), std::process::id() as i32);
        processes.insert(0, ours);
        self.ends.look(&processes);
    }

    /// Ends the captures and reads them. What cannot be read is told in the summary's notes, since what was measured counts
    /// without it.
    pub fn finish(
        self,
        record: &RunRecord,
        plan: &Plan,
        run: RunId,
        lost: Option<BTreeSet<MessageId>>,
    ) -> DissectionSummary {
        let captured: Vec<_> = self.capturings.into_iter().map(Capturing::stop).collect();
        let mut notes = Vec::new();
        for part in &captured {
            if let Some(dropped) = part.dropped.filter(|&dropped| dropped > 0) {
                notes.push(format!("the kernel dropped {dropped} packets, which are in no capture: what they said is not known"));
            }
            if part.died {
                notes.push(
                    "the capturing tool ended before the run did: what came later is in no capture".into(),
                );
            }
            if part.wrapped {
                notes.push(
                    "the captures reached their limit (record.capture.limit): their oldest packets are gone"
                        .into(),
                );
            }
        }
        let mut sources = Vec::new();
        let mut paths = Vec::new();
        for path in captured.iter().flat_map(|part| &part.files) {
            match Source::open(path) {
                Ok(source) => {
                    sources.push(source);
                    paths.push(path.display().to_string());
                }
                Err(error) => notes.push(error.to_string()),
            }
        }
        let components = Arc::new(components(&self.servers, &self.plan, self.ends.into_known()));
        let phases = Arc::new(phases(record, plan.load.warm_up));
        let settings = Settings {
            search: Search::new(forms(plan, run)),
            components: Arc::clone(&components),
            phases: Arc::clone(&phases),
            keys: self.keys.keys(),
            exchanges: false,
            only_known: true,
            open: OPEN,
            stop: Arc::default(),
        };
        let mut ways = Ways::new(Arc::clone(&components), Arc::clone(&phases));
        if let Some(lost) = &lost {
            ways.name(lost.clone());
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let read = dissect(sources, &settings, threads, &mut |batch, _| {
            batch.sightings.iter().for_each(|sighting| ways.seen(sighting));
        });
        let mut summary = match read {
            Ok(dissected) => {
                ways.finish(dissected.last.unwrap_or_default());
                summarize(&dissected, &paths, &ways, &components, &phases, &settings.search, lost.as_ref())
            }
            Err(error) => {
                notes.push(error.to_string());
                DissectionSummary::default()
            }
        };
        if let Folder::Passing(_) = &self.folder {
            // The files will be gone; what was wrong with them is not.
            let ended = |file: FileSummary| {
                file.garbage.map(|garbage| format!("reading of a capture ended at {garbage}"))
            };
            notes.extend(summary.files.drain(..).filter_map(ended));
        }
        notes.extend(self.keys.keys().notes());
        notes.extend(self.keys.note());
        summary.notes.extend(notes);
        summary
    }
}

/// What goes to or from the servers that are known.
fn filter(servers: &[(String, SocketAddr)], plan: &CapturePlan) -> String {
    let named = plan.names.iter().map(|(_, place)| match place {
        WirePlace::Port(port) => format!("port {port}"),
        WirePlace::Endpoint(address) => format!("(host {} and port {})", address.ip(), address.port()),
        WirePlace::Host(address) => format!("host {address}"),
    });
    let own = servers.iter().map(|(_, address)| format!("port {}", address.port()));
    let all: BTreeSet<String> = own.chain(named).collect();
    all.into_iter().collect::<Vec<_>>().join(" or ")
}

/// Names from the processes' own sockets come first, then those of the profile and of the scenario.
fn components(
    servers: &[(String, SocketAddr)],
    plan: &CapturePlan,
    ends: BTreeMap<SocketAddr, String>,
) -> Components {
    let mut components = Components::default();
    for (name, address) in servers {
        components.port(address.port(), name);
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
    for (address, name) in ends {
        if !address.ip().is_unspecified() {
            components.endpoint(address.into(), &name);
        }
    }
    components
}

/// Our markers in the form that this run's messages have.
fn forms(plan: &Plan, run: RunId) -> Vec<Form> {
    match plan.message.marker {
        MarkerForm::Ascii => vec![Form::Ascii(Some(run.tag()))],
        MarkerForm::Binary => vec![Form::Binary(run.tag())],
        MarkerForm::Integer => vec![Form::Integer(run.tag())],
    }
}

/// Set-up, and of each level its warm-up, hold and drain, on the wall clock.
fn phases(record: &RunRecord, planned_warm_up: Nanos) -> Phases {
    let wall = Nanos(record.provenance.wall_epoch.unwrap_or(0));
    let phase = |begin: Nanos, name: String, measured| Phase { begin, name, measured };
    let mut phases = vec![phase(Nanos(i64::MIN), "set-up".to_owned(), false)];
    let mut before = None;
    for level in &record.levels {
        let start = &level.start;
        let name =
            format!("level {} ({})", usize::from(start.index) + 1, plimsoll_analysis::level::label(start));
        // What is before the first hold since the last level ended is this one's warm-up.
        let warm_up = before.unwrap_or(start.hold_start - planned_warm_up);
        phases.push(phase(wall + warm_up, format!("{name}, warm-up"), false));
        phases.push(phase(wall + start.hold_start, name.clone(), true));
        phases.push(phase(wall + start.hold_start + start.hold, format!("{name}, drain"), false));
        before = level.end.as_ref().map(|end| end.at);
    }
    phases.extend(before.map(|end| phase(wall + end, "ending".to_owned(), false)));
    Phases::new(phases)
}
