//! What is looked at beside the load: the platform's processes, the load threads, the connections, the network. Of a platform
//! that is simulated, its simulation tells all of that.

use crate::sampling::{Observed, Sampling};
use crate::scraping::Scraping;
use plimsoll_load::engine::Engine;
use plimsoll_model::record::{ComponentUsage, ThreadUsage};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_observe::network::NetworkProbe;
use plimsoll_observe::outside::processor_list;
use plimsoll_observe::tcp::TcpSampler;
use plimsoll_observe::threads::ThreadSampler;
use plimsoll_platform::Platform;
use plimsoll_scenario::plan::Plan;
use plimsoll_simulate::{Host, Simulation, Used};
use std::net::SocketAddr;

/// Looks at one run, on this host or in its simulation.
pub enum Observers {
    /// On this host.
    Here(Box<OnHost>),
    /// In a simulation.
    Simulated(Box<InSimulation>),
}

/// Samplers of this host.
pub struct OnHost {
    /// From the first look on.
    sampling: Option<Sampling>,
    /// Whether the scenario wants no samplers.
    unobserved: bool,
    /// Metrics that the platform itself tells.
    scraping: Scraping,
    /// The first process of each component that was started for the run, and of each that ran already.
    started: Vec<(String, i32)>,
    running: Vec<(String, i32)>,
    threads: ThreadSampler,
    /// The processors of load threads; `None` for one that may run on any.
    load: Vec<Option<usize>>,
    /// Tells the network from the platform, from the first level on; `None` where the scenario does not want it, or no
    /// thread can be had.
    network: Option<NetworkProbe>,
    tcp: TcpSampler,
    /// Where devices reach the platform.
    address: SocketAddr,
}

/// What a simulation told when it was asked last.
pub struct InSimulation {
    simulation: Simulation,
    probes: bool,
    /// For components, for threads and for connections, each of which are looked at in times of their own.
    components: (Nanos, Host),
    threads: (Nanos, Host),
    packets: Host,
}

/// Counts to be added to a sample, and histograms to be merged.
pub type Reading = (Counts, Vec<(Metric, Histogram)>);

impl Observers {
    /// Of this run.
    pub fn new(
        platform: &Platform,
        engine: &Engine,
        network: Option<NetworkProbe>,
        plan: &Plan,
    ) -> Observers {
        match platform.simulation() {
            Some(simulation) => Observers::Simulated(Box::new(InSimulation {
                simulation,
                probes: plan.record.network != Some(false),
                components: Default::default(),
                threads: Default::default(),
                packets: Host::default(),
            })),
            None => Observers::Here(Box::new(OnHost {
                sampling: None,
                unobserved: plan.record.unobserved,
                scraping: Scraping::new(plan, &platform.http_addresses(&plan.platform, platform.address())),
                started: platform.processes(),
                running: Vec::new(),
                threads: ThreadSampler::new(engine.threads()),
                load: engine.threads().into_iter().map(|(_, processor)| processor).collect(),
                network,
                tcp: TcpSampler::new(platform.address(), engine.listening_ports()),
                address: platform.address(),
            })),
        }
    }

    /// A component has a new process.
    pub fn renew(&mut self, platform: &Platform) {
        if let Observers::Here(host) = self {
            host.started = platform.processes();
            host.change();
        }
    }

    /// Looks at processes of the platform that were not started by the run, too.
    pub fn add(&mut self, running: Vec<(String, i32)>) {
        if let Observers::Here(host) = self {
            host.running = running;
            host.change();
        }
    }

    /// The first process of each component.
    pub fn processes(&self) -> Vec<(String, i32)> {
        match self {
            Observers::Here(host) => host.processes(),
            Observers::Simulated(_) => Vec::new(),
        }
    }

    /// A level begins.
    pub fn begin_level(&mut self) {
        if let Observers::Here(host) = self
            && let Some(network) = &host.network
        {
            network.begin();
        }
    }

    /// What observers saw since the last call.
    pub fn observed(&mut self, now: Nanos) -> Vec<Observed> {
        match self {
            Observers::Here(host) => host.observed(now),
            Observers::Simulated(simulated) => {
                simulated.components(now).into_iter().map(Observed::Component).collect()
            }
        }
    }

    /// What observers of this host saw since the last call, up to now: they end.
    pub fn finish(&mut self) -> Vec<Observed> {
        match self {
            Observers::Here(host) => host.sampling.take().map(Sampling::finish).unwrap_or_default(),
            Observers::Simulated(_) => Vec::new(),
        }
    }

    /// Forgets what load threads used and connections carried up to now.
    pub fn restart(&mut self, now: Nanos) {
        match self {
            Observers::Here(host) => host.threads.restart(now),
            Observers::Simulated(simulated) => {
                simulated.threads = (now, simulated.simulation.host());
            }
        }
    }

    /// What load threads used since the last call.
    pub fn threads(&mut self, now: Nanos, level: u16, sample: u16) -> Vec<ThreadUsage> {
        match self {
            Observers::Here(host) => host.threads.sample(now, level, sample),
            Observers::Simulated(simulated) => simulated.threads(now, level, sample),
        }
    }

    /// What connections carried, and the network's round trips, since the last call.
    pub fn network(&mut self) -> Reading {
        match self {
            Observers::Here(host) => {
                let (counts, mut histograms) =
                    host.tcp.sample().map(|seen| (seen.counts, seen.histograms)).unwrap_or_default();
                let round_trips = host.network.as_ref().and_then(NetworkProbe::take);
                histograms.extend(round_trips.map(|seen| (Metric::NetworkRtt, seen)));
                (counts, histograms)
            }
            Observers::Simulated(simulated) => simulated.network(),
        }
    }
}

impl OnHost {
    fn processes(&self) -> Vec<(String, i32)> {
        [self.started.clone(), self.running.clone()].concat()
    }

    fn change(&self) {
        if let Some(sampling) = &self.sampling {
            sampling.change(self.processes());
        }
    }

    fn observed(&mut self, now: Nanos) -> Vec<Observed> {
        if self.sampling.is_none() && !self.unobserved {
            self.sampling = Sampling::begin(self.processes(), self.load.clone(), self.address, now);
        }
        let mut observed = self.sampling.as_ref().map(Sampling::take).unwrap_or_default();
        observed.extend(self.scraping.take(now));
        observed
    }
}

impl InSimulation {
    fn components(&mut self, now: Nanos) -> Vec<ComponentUsage> {
        let host = self.simulation.host();
        let (since, before) = std::mem::replace(&mut self.components, (now, host.clone()));
        if now <= since {
            return Vec::new();
        }
        let earlier = |name: &str| {
            let found = before.components.iter().find(|(known, _)| known == name);
            found.map(|(_, used)| *used).unwrap_or_default()
        };
        let shared = host.processors.map(|processors| u16::try_from(processors).unwrap_or(u16::MAX));
        let mut next = 0;
        let usage = |(component, used): (String, Used)| {
            let before = earlier(&component);
            let starved = used.starved - before.starved;
            let cpu = used.processor - before.processor;
            let processors = shared.unwrap_or(used.threads.max(1));
            let first = next;
            if shared.is_none() {
                next += usize::from(processors);
            }
            let those: Vec<usize> = (first..first + usize::from(processors)).collect();
            ComponentUsage {
                component,
                at: now,
                window: now - since,
                cpu,
                throttled: used.throttled - before.throttled,
                busiest_thread: Some(Nanos(cpu.0 / i64::from(used.threads.max(1)))),
                run_delay: Some(starved),
                held_by_others: Some(starved),
                processors: Some(processors),
                processor_list: Some(processor_list(&those)),
                holder: (starved > Nanos::ZERO).then(|| "a stranger".to_owned()),
                rss: used.memory,
                ..ComponentUsage::default()
            }
        };
        host.components.into_iter().map(usage).collect()
    }

    fn threads(&mut self, now: Nanos, level: u16, sample: u16) -> Vec<ThreadUsage> {
        let host = self.simulation.host();
        let used = host.generator;
        let (since, before) = std::mem::replace(&mut self.threads, (now, host));
        let before = before.generator;
        vec![ThreadUsage {
            level,
            sample,
            thread: 0,
            wall: now - since,
            cpu: used.processor - before.processor,
            run_delay: used.starved - before.starved,
            timeslices: used.turns - before.turns,
            steal: used.stolen - before.stolen,
        }]
    }

    fn network(&mut self) -> Reading {
        let host = self.simulation.host();
        let before = std::mem::replace(&mut self.packets, host.clone());
        let counts = Counts {
            tcp_connections: host.connections,
            tcp_looks: host.connections,
            tcp_retransmissions: host.sent_again - before.sent_again,
            tcp_segments: host.packets - before.packets,
            ..Counts::default()
        };
        let trips = self.simulation.round_trips();
        let mut seen = Histogram::new();
        trips.into_iter().filter(|_| self.probes).for_each(|trip| seen.record(trip));
        let histograms = if seen.is_empty() { Vec::new() } else { vec![(Metric::NetworkRtt, seen)] };
        (counts, histograms)
    }
}
