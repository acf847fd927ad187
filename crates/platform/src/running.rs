//! A platform that is up.

mod faults;
mod site;

pub use faults::{FaultOver, check_faults};
pub use site::Site;

use crate::PlatformError;
use crate::component::{Allowed, GRACE, Running};
use crate::folder::Folder;
use crate::fronts;
use crate::interruptible::unless_stopped;
use crate::line::{How, Request, Slowdown};
use crate::occupier::{Occupation, Occupier, all_processors};
use crate::options::Options;
use crate::output::{last_lines, last_words};
use crate::placeholders::Placeholders;
use crate::relays::RelayOf;
use crate::replicas;
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Dose, Means, Order, Slowable};
use plimsoll_observe::endpoints;
use plimsoll_scenario::plan::{Endpoint, PlatformPlan, Protocol};
use plimsoll_scenario::profile::{Component, ReadyRequest};
use plimsoll_simulate::Simulation;
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After a death, the guards of others that died have so long to tell it.
const TELLING: Duration = Duration::from_millis(500);
/// The ends of components that are no further apart may have been noted in another order: on a busy host, a guard waits for its turn.
const NEARLY: Duration = Duration::from_millis(300);
/// How long the guard of a component that has ended may still be at work.
const ENDING: Duration = Duration::from_secs(1);
/// How long a component that was started again may take at the end of a level to accept connections.
const RETURN: Duration = Duration::from_secs(5);
/// How long a component may take to accept a connection before it is looked again.
const ATTEMPT: Duration = Duration::from_millis(100);
/// How long one of several addresses may take to accept a connection, and a component to answer.
const LOOK: Duration = Duration::from_secs(2);
/// Bytes of a status line up to its code: `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;
/// How long a component that listens nowhere must have run to be up: what cannot start ends sooner.
const SETTLED: Duration = Duration::from_millis(500);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A platform that is up: started by us, or running already. Dropping it takes down what we started.
#[derive(Debug)]
pub struct Platform {
    address: SocketAddr,
    components: Vec<Running>,
    facts: BTreeMap<String, String>,
    /// The ports of what was started, by name.
    ports: BTreeMap<String, SocketAddr>,
    /// Holds the components' files; removed with the platform.
    dir: Option<Folder>,
    /// Of a platform that is only simulated.
    simulation: Option<Simulation>,
    /// Those that the platform runs on.
    processors: Vec<usize>,
    /// Who uses them beside the platform, as ordered.
    occupiers: Vec<Occupier>,
    /// Where components listen that we start, beside the loopback network.
    listen: IpAddr,
}

/// Where a platform is reached over HTTP.
#[derive(Clone, Debug)]
pub struct HttpAddresses {
    host: SocketAddr,
    ports: BTreeMap<String, SocketAddr>,
    by_itself: Option<SocketAddr>,
}

impl HttpAddresses {
    /// Where devices connect.
    pub fn of_devices(&self) -> SocketAddr {
        self.host
    }

    /// The address of the port of that name; without a name, of the one that requests go to by themselves.
    pub fn of(&self, port: Option<&str>) -> Option<SocketAddr> {
        match port {
            Some(name) => self.ports.get(name).copied(),
            None => self.by_itself,
        }
    }
}

/// A component that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which.
    pub component: String,
    /// How, as the operating system tells it.
    pub status: String,
    /// The end of its output; empty where there is none.
    pub last_words: String,
}

/// A platform that is about to be brought up: its ports are known, and nobody has connected to them.
#[derive(Debug)]
pub enum Planned {
    /// It runs already, there.
    Running(SocketAddr),
    /// It will be started, with files in that folder.
    ToStart(Box<(Folder, Placeholders)>),
    /// It is only simulated.
    Simulated(Simulation),
}

impl Planned {
    /// Finds the address of a platform that runs, and free ports for one that does not. The seed is that of a simulation.
    ///
    /// # Errors
    /// See [`PlatformError`].
    pub fn of(plan: &PlatformPlan, seed: u64, options: &Options) -> Result<Planned, PlatformError> {
        if let Some(spec) = &plan.profile.simulated {
            return Ok(Planned::Simulated(Simulation::of(spec.clone(), seed)));
        }
        if let Some(endpoint) = &plan.address {
            return Ok(Planned::Running(resolve(endpoint, &options.stop)?));
        }
        let wrong = |what: String| PlatformError::Profile { profile: plan.profile.name.clone(), what };
        let dir =
            Folder::fresh(&options.program).map_err(|error| wrong(format!("no folder for it: {error}")))?;
        let mut placeholders = Placeholders::new(dir.path());
        fronts::find_ports(plan, &mut placeholders)
            .map_err(|error| wrong(format!("no free port: {error}")))?;
        for component in &plan.profile.components {
            reserve(component, &mut placeholders).map_err(|error| wrong(format!("no free port: {error}")))?;
        }
        Ok(Planned::ToStart(Box::new((dir, placeholders))))
    }

    /// The ports of what will be started and the components that they belong to, as far as the profile tells: those at which a
    /// component is healthy or that devices use. The others are called by their own names.
    pub fn ports(&self, plan: &PlatformPlan) -> Vec<(String, SocketAddr)> {
        match self {
            Planned::Running(address) => vec![(plan.profile.name.clone(), *address)],
            Planned::Simulated(_) => Vec::new(),
            Planned::ToStart(start) => {
                let owner = |port: &String| {
                    let has = |component: &&Component| component.named_ports().any(|(_, name)| name == port);
                    plan.profile.components.iter().find(has).map_or(port, |component| &component.name).clone()
                };
                let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
                let ports = start.1.ports().iter().flat_map(|(name, port)| {
                    let owner = owner(name);
                    let behind = start.1.behind_front(name);
                    if behind.is_empty() {
                        return vec![(owner, at(*port))];
                    }
                    let replica = |(place, &port)| (replicas::name(&owner, place, behind.len()), at(port));
                    let mut all: Vec<_> = behind.iter().enumerate().map(replica).collect();
                    all.insert(0, (fronts::name(plan, &owner, name), at(*port)));
                    all
                });
                ports.collect()
            }
        }
    }

    /// Starts it, as [`Platform::bring_up`] does.
    ///
    /// # Errors
    /// See there.
    pub fn bring_up(self, plan: &PlatformPlan, options: &Options) -> Result<Platform, PlatformError> {
        self.bring_up_with(plan, options, None)
    }

    /// The same of a platform of which others start some components.
    ///
    /// # Errors
    /// See [`Platform::bring_up`].
    pub fn bring_up_with(
        self,
        plan: &PlatformPlan,
        options: &Options,
        elsewhere: Option<&mut dyn Elsewhere>,
    ) -> Result<Platform, PlatformError> {
        match self {
            Planned::Running(address) => {
                let mut facts = facts(plan);
                if let Some(endpoint) = &plan.address {
                    facts.insert("address".into(), format!("{}:{}", endpoint.host, endpoint.port));
                }
                Ok(Platform::at(address, facts, None, options))
            }
            Planned::Simulated(simulation) => {
                let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
                Ok(Platform::at(nowhere, facts(plan), Some(simulation), options))
            }
            Planned::ToStart(start) => Platform::start_all(plan, options, *start, elsewhere),
        }
    }
}

/// Who starts the components of a platform that stand at other hosts.
pub trait Elsewhere {
    /// Finds free ports there; where these components will listen, by the names of their ports.
    ///
    /// # Errors
    /// There is no such port, or nobody answers.
    fn reserve(&mut self) -> Result<BTreeMap<String, SocketAddr>, PlatformError>;

    /// Whether a component stands there.
    fn has(&self, component: &str) -> bool;

    /// Starts a component and waits until it is healthy; its version, where it says one. Others listen where `known` says.
    ///
    /// # Errors
    /// It does not become healthy, or nobody answers.
    fn start(
        &mut self,
        component: &str,
        known: &BTreeMap<String, SocketAddr>,
    ) -> Result<Option<String>, PlatformError>;
}

/// Finds free ports for all that the texts of a component name.
fn reserve(component: &Component, placeholders: &mut Placeholders) -> io::Result<()> {
    component.texts().try_for_each(|text| placeholders.fill(text).map(drop))
}

/// How a component is started, on the processors that the scenario gives it.
fn bound(plan: &PlatformPlan, component: &Component, options: &Options) -> Result<Options, PlatformError> {
    let Some(own) = plan.processors.get(&component.name) else { return Ok(options.clone()) };
    let all = if options.processors.is_empty() { all_processors() } else { options.processors.clone() };
    let list =
        |processors: &[usize]| processors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if own.iter().any(|processor| !all.contains(processor)) {
        return Err(PlatformError::Start {
            component: component.name.clone(),
            what: format!("cannot bind it to the processors {} (platform.processors)", list(own)),
            cause: std::io::Error::other(format!("the platform may run on {} (load.processors)", list(&all))),
        });
    }
    Ok(Options { processors: own.clone(), ..options.clone() })
}

fn facts(plan: &PlatformPlan) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([("profile".to_owned(), plan.profile.name.clone())]);
    facts.extend(plan.roles.mapping.clone().map(|mapping| ("mapping".to_owned(), mapping)));
    facts
}

impl Platform {
    /// Nothing of which was started.
    fn at(
        address: SocketAddr,
        facts: BTreeMap<String, String>,
        simulation: Option<Simulation>,
        options: &Options,
    ) -> Platform {
        let is_bound = !options.processors.is_empty();
        Platform {
            address,
            components: Vec::new(),
            facts,
            ports: BTreeMap::new(),
            dir: None,
            simulation,
            processors: if is_bound { options.processors.clone() } else { all_processors() },
            occupiers: Vec::new(),
            listen: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// The simulation that this platform is, if it is one.
    pub fn simulation(&self) -> Option<Simulation> {
        self.simulation.clone()
    }

    /// Starts every component of the profile in order and waits until each accepts connections; for a platform that
    /// runs already, finds its address.
    ///
    /// # Errors
    /// See [`PlatformError`]; what had been started is taken down again.
    pub fn bring_up(plan: &PlatformPlan, options: &Options) -> Result<Platform, PlatformError> {
        Planned::of(plan, 0, options)?.bring_up(plan, options)
    }

    fn start_all(
        plan: &PlatformPlan,
        options: &Options,
        (dir, mut placeholders): (Folder, Placeholders),
        mut elsewhere: Option<&mut dyn Elsewhere>,
    ) -> Result<Platform, PlatformError> {
        let wrong = |what: String| PlatformError::Profile { profile: plan.profile.name.clone(), what };
        placeholders.stand_for_program(&options.program);
        let mut platform = Platform::at(([127, 0, 0, 1], 0).into(), facts(plan), None, options);
        if geteuid().is_root() && plan.profile.components.iter().any(|component| component.user.is_some()) {
            dir.let_pass().map_err(|error| wrong(format!("its folder: {error}")))?;
        }
        let protocol = plan.protocol();
        let mut device_port = None;
        if let Some(elsewhere) = &mut elsewhere {
            elsewhere.reserve()?.into_iter().for_each(|(name, address)| placeholders.know(&name, address));
        }
        for component in &plan.profile.components {
            let version_5 = component.mqtt5_port.as_ref();
            let version_5 = version_5.filter(|_| options.mqtt5 && protocol == Protocol::Mqtt);
            if let Some(name) = version_5.or(component.port(protocol)) {
                device_port = Some(name);
            }
            if let Some(elsewhere) = elsewhere.as_mut().filter(|elsewhere| elsewhere.has(&component.name)) {
                let version = elsewhere.start(&component.name, &placeholders.addresses())?;
                platform
                    .facts
                    .extend(version.map(|version| (format!("{} version", component.name), version)));
                continue;
            }
            let quota = plan.quotas.get(&component.name).copied().unwrap_or_default();
            let needs = plan.needs.get(&component.name).copied().unwrap_or_default();
            let bound = bound(plan, component, options)?;
            for (place, replica) in replicas::of(plan, component).into_iter().enumerate() {
                let ports = component.named_ports().map(|(_, port)| port);
                placeholders.speak_to(ports, place, replica.own_folder.as_deref());
                let allowed = Allowed { quota, needs };
                platform.start(&replica.component, dir.path(), &mut placeholders, allowed, &bound)?;
            }
            let running = platform.components.last();
            if let Some(version) = running.and_then(|running| running.version(dir.path(), options)) {
                platform.facts.insert(format!("{} version", component.name), version);
            }
            for front in fronts::before(plan, component, dir.path(), &placeholders) {
                placeholders.speak_to(std::iter::empty(), 0, front.own_folder.as_deref());
                let allowed = Allowed::default();
                platform.start(&front.component, dir.path(), &mut placeholders, allowed, options)?;
                let Some(running) = platform.components.last_mut() else { continue };
                if front.is_relay {
                    running.relay = Some(RelayOf::new(&component.name, dir.path(), running.ready_port));
                } else if let Some(version) = running.version(dir.path(), options) {
                    platform.facts.insert(format!("balancer before {} version", component.name), version);
                }
            }
            placeholders.speak_to_others();
        }
        for relay in &plan.relays {
            platform.facts.insert(format!("relay before {}", relay.component), relay.in_words());
        }
        for balancer in &plan.balancers {
            platform.facts.insert(format!("balancer before {}", balancer.component), balancer.in_words());
        }
        for (component, count) in &plan.replicas {
            platform.facts.insert(format!("replicas of {component}"), count.to_string());
        }
        for (component, quota) in &plan.quotas {
            // All replicas have it in the same way.
            let first = replicas::name(component, 0, plan.replicas_of(component));
            let running = platform.components.iter().find(|running| running.name == first);
            let kept = running.and_then(|running| running.quota_kept.as_ref());
            let kept = kept.map(|kept| format!(", {kept}")).unwrap_or_default();
            platform.facts.insert(format!("quota of {component}"), format!("{quota}{kept}"));
        }
        for (component, processors) in &plan.processors {
            let list: Vec<String> = processors.iter().map(ToString::to_string).collect();
            platform.facts.insert(format!("processors of {component}"), list.join(", "));
        }
        let name = plan.roles.device.port.as_ref().or(device_port);
        let name = name.ok_or_else(|| wrong(format!("no component has a port for {protocol}")))?;
        let port = placeholders.port(name).map_err(|error| wrong(error.to_string()))?;
        platform.address = SocketAddr::new(placeholders.host(name), port);
        platform.ports = placeholders.addresses();
        platform.facts.insert("address".into(), platform.address.to_string());
        platform.dir = Some(dir);
        Ok(platform)
    }

    /// Starts a component and waits until it is up.
    fn start(
        &mut self,
        component: &Component,
        dir: &Path,
        placeholders: &mut Placeholders,
        allowed: Allowed,
        options: &Options,
    ) -> Result<(), PlatformError> {
        let mut running = Running::start(component, dir, placeholders, allowed, options)?;
        let ready_port = component.ready_port.as_ref().map(|name| placeholders.told_port(name)).transpose();
        running.ready_port = ready_port.map_err(|cause| PlatformError::Start {
            component: component.name.clone(),
            what: "no free port".into(),
            cause,
        })?;
        self.components.push(running);
        self.await_ready(component, &options.stop)
    }

    /// Where devices connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the devices of another population connect, which speak to this platform in another way, or to another one.
    ///
    /// # Errors
    /// An address cannot be found, or no component has a port for what they speak.
    pub fn address_of(&self, plan: &PlatformPlan, options: &Options) -> Result<SocketAddr, PlatformError> {
        if let Some(endpoint) = &plan.address {
            return resolve(endpoint, &options.stop);
        }
        let protocol = plan.protocol();
        let names = plan.profile.components.iter().filter_map(|component| {
            let version_5 = component.mqtt5_port.as_ref();
            version_5.filter(|_| options.mqtt5 && protocol == Protocol::Mqtt).or(component.port(protocol))
        });
        let own = plan.roles.device.port.as_ref();
        let address =
            names.filter(|_| own.is_none()).chain(own).filter_map(|name| self.ports.get(name)).next_back();
        let missing = || PlatformError::Profile {
            profile: plan.profile.name.clone(),
            what: format!("no component has a port for {protocol}"),
        };
        address.copied().ok_or_else(missing)
    }

    /// Where a gateway that devices send to was told to find the test manager.
    pub fn stage_log_address(&self, plan: &PlatformPlan) -> Option<SocketAddr> {
        let named = plan.profile.components.iter().find_map(|component| component.port(Protocol::Gateway));
        named.filter(|_| plan.reports_stages()).and_then(|name| self.ports.get(name)).copied()
    }

    /// Where requests of the controller go: to a port by its name, else to the one that speaks what it does. `devices` is where devices
    /// connect.
    pub fn http_addresses(&self, plan: &PlatformPlan, devices: SocketAddr) -> HttpAddresses {
        let mut ports = self.ports.clone();
        let at_devices = |port: u16| SocketAddr::new(devices.ip(), port);
        ports.extend(plan.ports.iter().map(|(name, port)| (name.clone(), at_devices(*port))));
        let spoken = plan.roles.controller.requests.protocol();
        let speaking = plan.profile.components.iter().find_map(|component| component.port(spoken).cloned());
        let http = ports.get("http").filter(|_| spoken == Protocol::Http);
        let named = speaking.and_then(|name| ports.get(&name)).or(http);
        let by_itself = match named {
            Some(&address) => Some(address),
            None => (plan.protocol() == spoken).then_some(devices),
        };
        HttpAddresses { host: devices, ports, by_itself }
    }

    /// Facts for the provenance of a run.
    pub fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// The components that we started: names and process ids.
    pub fn processes(&self) -> Vec<(String, i32)> {
        self.components.iter().map(|running| (running.name.clone(), running.process.id())).collect()
    }

    /// A component that has ended by itself since the last call: of several the first, of which others may have died.
    pub fn take_death(&mut self) -> Option<Death> {
        if let Some((component, _)) = self.simulation.as_ref().and_then(Simulation::take_death) {
            let status = "signal: 11 (SIGSEGV)".to_owned();
            return Some(Death { component, status, last_words: String::new() });
        }
        if !self.ended().iter().any(|(is_over, ..)| *is_over) {
            return None;
        }
        // Others may die of it at once, and the guard of the first one may be the last that has a turn to tell.
        if self.components.len() > 1 {
            std::thread::sleep(TELLING);
        }
        let ended = self.ended();
        let first = ended.iter().map(|(_, at, _)| *at).min()?;
        // Guards note an end when they have a turn. Of those that ended nearly together, one that a signal ended did not end because
        // of another one's end, as one may that ends itself.
        let nearly =
            ended.into_iter().filter(|(_, at, _)| at.saturating_sub(first) < NEARLY.as_nanos() as i64);
        let known = nearly.filter_map(|(_, at, running)| {
            running.process.await_end(ENDING);
            let status = running.process.try_wait().ok().flatten()?;
            Some((status.signal().is_none(), at, status, running))
        });
        let mut known: Vec<_> = known.collect();
        known.sort_by_key(|(ends_itself, at, ..)| (*ends_itself, *at));
        let mut known = known.into_iter();
        let (.., status, running) = known.next()?;
        running.reported = true;
        // A guard that ended first is all that there is to wait for.
        let whose = if running.process.ended_at().is_none() { "its guard ended: " } else { "" };
        let killed = known.filter(|(ends_itself, ..)| !ends_itself).map(|(.., own)| own.name.clone());
        let killed: Vec<String> = killed.collect();
        let others = match &killed[..] {
            [] => String::new(),
            names => format!("; a signal ended {} nearly at the same time", names.join(" and ")),
        };
        let (component, status) = (running.name.clone(), format!("{whose}{status}{others}"));
        Some(Death { component, status, last_words: last_lines(&running.log).join("\n") })
    }

    /// The components that have ended and were not told as dead: whether its guard is gone as well, and when it ended.
    fn ended(&mut self) -> Vec<(bool, i64, &mut Running)> {
        let of = |running: &mut Running| {
            let is_over = matches!(running.process.try_wait(), Ok(Some(_)));
            // A guard that was killed has told nothing.
            let at = running.process.ended_at().or(is_over.then_some(i64::MIN))?;
            Some((is_over, at))
        };
        let open = self.components.iter_mut().filter(|running| !running.reported);
        open.filter_map(|running| of(running).map(|(is_over, at)| (is_over, at, running))).collect()
    }

    /// Kills a component as a crash would (SIGKILL to all of its processes). It is not told as a death.
    pub fn kill(&mut self, component: &str) {
        if let Some(simulation) = &self.simulation {
            simulation.kill(component);
        }
        if let Some(running) = self.components.iter_mut().find(|running| running.name == component) {
            running.reported = true;
            running.process.kill();
        }
    }

    /// Starts a killed component again, with the same command, ports and files, and does not wait for it.
    ///
    /// # Errors
    /// The operating system does not start it.
    pub fn start_again(&mut self, component: &str, options: &Options) -> Result<(), PlatformError> {
        if let Some(simulation) = &self.simulation {
            simulation.start_again(component);
        }
        let found = self.components.iter_mut().find(|running| running.name == component);
        let (Some(running), Some(dir)) = (found, &self.dir) else { return Ok(()) };
        running.start_again(dir.path(), options)
    }

    /// A component that was started again and still does not accept connections a while later, as a death.
    /// Nobody waits for it after the user's word.
    pub fn take_missing(&mut self, stop: &AtomicBool) -> Option<Death> {
        let returning = self.components.iter_mut().filter(|running| running.returning);
        let (port, running) = returning.filter_map(|running| Some((running.ready_port?, running))).next()?;
        running.returning = false;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let begin = Instant::now();
        while !running.reported
            && !stop.load(Ordering::Relaxed)
            && TcpStream::connect_timeout(&address, ATTEMPT).is_err()
        {
            if begin.elapsed() > RETURN {
                running.reported = true;
                let status = format!(
                    "it was started again and accepts no connections on port {port} after {} s",
                    RETURN.as_secs()
                );
                let last_words = last_lines(&running.log).join("\n");
                return Some(Death { component: running.name.clone(), status, last_words });
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// The components that can be slowed, in the order in which they were started: load balancers, too, but no relays.
    pub fn slowable(&self) -> Vec<Slowable> {
        if let Some(simulation) = &self.simulation {
            return simulation.slowable();
        }
        let part = |running: &Running| Slowable {
            component: running.name.clone(),
            quota: running.quota().processors,
            has_relay: self.relays_before(&running.name).next().is_some(),
        };
        self.components.iter().filter(|running| running.relay.is_none()).map(part).collect()
    }

    /// By component behind a relay: the components that have connections to that relay now.
    pub fn callers(&self) -> BTreeMap<String, Vec<String>> {
        if let Some(simulation) = &self.simulation {
            return simulation.callers();
        }
        let relays = self.components.iter().filter_map(|running| running.relay.as_ref());
        let processes = self.processes();
        let mut callers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (relay, port) in relays.filter_map(|relay| Some((relay, relay.port?))) {
            callers.entry(relay.component.clone()).or_default().extend(endpoints::callers(&processes, port));
        }
        callers
    }

    /// Begins to slow components, or the platform's processors, as ordered; returns at once. A component that has died is left
    /// out. `epoch` is what the host's monotonic clock showed at time zero of the run's clock, in nanoseconds.
    ///
    /// # Errors
    /// A component that was not started, an order that makes no sense, or the operating system gives no threads that use the
    /// processors.
    pub fn slow(&mut self, order: &Order, epoch: i64) -> io::Result<()> {
        if let Some(simulation) = &self.simulation {
            simulation.slow(order);
            return Ok(());
        }
        let Order { perturbation, from, to } = order;
        let (from, to) = (epoch + from.0, epoch + to.0);
        let (length, cycle) = (perturbation.stop.0, perturbation.cycle().0);
        let how = match perturbation.means {
            Means::Stop => How::Stop { length, cycle },
            Means::Quota => How::Quota { share: perturbation.share },
            Means::Delay => return self.delay(&perturbation.components, from, to, perturbation.stop),
            Means::Occupy => {
                let occupation = Occupation { from, to, length, cycle };
                self.occupiers.push(Occupier::start(&self.processors, occupation)?);
                return Ok(());
            }
        };
        let is_started = |name: &String| self.components.iter().any(|running| running.name == *name);
        if let Some(name) = perturbation.components.iter().find(|name| !is_started(name)) {
            let what = format!("there is no component {name} that could be slowed");
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let slowdown = Slowdown { from, to, how };
        if !slowdown.is_sound() {
            let what = "an order has a length, and a share from 0 to 1";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let request = Request::Slow(slowdown);
        for running in &mut self.components {
            if perturbation.components.contains(&running.name) {
                // Its guard is gone with it.
                let _ = running.process.ask(&request);
            }
        }
        Ok(())
    }

    /// The relays that stand before a component.
    fn relays_before(&self, component: &str) -> impl Iterator<Item = &RelayOf> {
        let relays = self.components.iter().filter_map(|running| running.relay.as_ref());
        relays.filter(move |relay| relay.component == component && relay.takes_orders())
    }

    /// Has the relays before components delay what passes them.
    fn delay(&self, components: &[String], from: i64, to: i64, each_way: Nanos) -> io::Result<()> {
        for component in components {
            if self.relays_before(component).next().is_none() {
                let what = format!("no relay before {component} takes orders");
                return Err(io::Error::new(io::ErrorKind::NotFound, what));
            }
            self.relays_before(component).try_for_each(|relay| relay.delay(from, to, each_way))?;
        }
        Ok(())
    }

    /// The doses of what is over, each once. `epoch` is that of [`Platform::slow`].
    pub fn take_doses(&mut self, epoch: i64) -> Vec<Dose> {
        if let Some(simulation) = &self.simulation {
            return simulation.take_doses();
        }
        let of = |component: &str, from: i64, share: f64| {
            let (component, from) = (component.to_owned(), Nanos(from - epoch));
            Dose { component, from, share }
        };
        let mut doses = Vec::new();
        for running in &mut self.components {
            let told = running.take_doses();
            doses.extend(told.into_iter().map(|dose| of(&running.name, dose.from, dose.share)));
        }
        for relay in self.components.iter_mut().filter_map(|running| running.relay.as_mut()) {
            let told = relay.take_doses();
            doses.extend(told.into_iter().map(|dose| of(&relay.component, dose.from, dose.share)));
        }
        let over = self.occupiers.extract_if(.., |occupier| occupier.is_over());
        doses.extend(over.map(|occupier| of("", occupier.from(), occupier.end())));
        doses
    }

    /// Takes down what we started, the last component first, with all that it has started.
    pub fn take_down(&mut self) {
        self.occupiers.clear();
        while let Some(mut running) = self.components.pop() {
            running.process.end(GRACE);
        }
    }

    fn await_ready(&mut self, component: &Component, stop: &AtomicBool) -> Result<(), PlatformError> {
        let listen = self.listen;
        let Some(running) = self.components.last_mut() else { return Ok(()) };
        let request = component.ready_request.as_ref();
        let patience = Duration::from_nanos(component.ready_within.0.try_into().unwrap_or(0));
        let begin = Instant::now();
        let quiet = Duration::from_secs_f64(request.map_or(0.0, |request| request.after.clamp(0.0, 15.0)));
        loop {
            if let Ok(Some(status)) = running.process.try_wait() {
                let (component, log) = (running.name.clone(), last_words(&running.log));
                let help = if status.success() { " (a component must stay in the foreground)" } else { "" };
                return Err(PlatformError::Died { component, status: status.to_string(), help, log });
            }
            let is_up = match running.ready_port {
                None => begin.elapsed() >= SETTLED,
                Some(_) if begin.elapsed() < quiet => false,
                Some(port) => reached(listen, port)
                    .is_some_and(|stream| request.is_none_or(|request| is_healthy(stream, request, stop))),
            };
            if is_up {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(PlatformError::Interrupted);
            }
            let port = running.ready_port.filter(|_| begin.elapsed() > patience);
            if let Some(port) = port {
                let (component, log) = (running.name.clone(), last_words(&running.log));
                let quota = running.quota().to_string();
                let quota = if quota.is_empty() { quota } else { format!(", with a quota of {quota}") };
                let seconds = patience.as_secs();
                return Err(PlatformError::NotReady { component, port, seconds, quota, log });
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// A connection to a component that listens here, at an address that others reach or on the loopback network alone.
fn reached(listen: IpAddr, port: u16) -> Option<TcpStream> {
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut hosts = std::iter::once(here).chain((listen != here).then_some(listen));
    hosts.find_map(|host| TcpStream::connect_timeout(&SocketAddr::new(host, port), ATTEMPT).ok())
}

/// Whether a component answers its health check as it should.
fn is_healthy(mut stream: TcpStream, request: &ReadyRequest, stop: &AtomicBool) -> bool {
    let fields: String = request.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text =
        format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n", request.path);
    let asked = stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.write_all(text.as_bytes()));
    let status = format!(" {}", request.status);
    asked.is_ok()
        && unless_stopped(stop, move || {
            let mut line = [0; STATUS_LINE];
            stream.read_exact(&mut line).is_ok() && line.ends_with(status.as_bytes())
        })
        .unwrap_or(false)
}

fn resolve(endpoint: &Endpoint, stop: &AtomicBool) -> Result<SocketAddr, PlatformError> {
    let address = format!("{}:{}", endpoint.host, endpoint.port);
    let failed = |cause: String| PlatformError::Resolve { address: address.clone(), cause };
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    let found = unless_stopped(stop, move || (host.as_str(), port).to_socket_addrs());
    let found = found.ok_or(PlatformError::Interrupted)?;
    let found: Vec<SocketAddr> = found.map_err(|error| failed(error.to_string()))?.collect();
    // A name such as localhost often has an IPv6 address first, at which nobody listens.
    let listens = |address: &SocketAddr| TcpStream::connect_timeout(address, LOOK).is_ok();
    let first = found.first().copied();
    let chosen = match found.len() {
        0 | 1 => None,
        _ => {
            unless_stopped(stop, move || found.into_iter().find(listens)).ok_or(PlatformError::Interrupted)?
        }
    };
    chosen.or(first).ok_or_else(|| failed("no address".into()))
}
