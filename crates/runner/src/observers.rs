//! What is looked at beside the load: the platform's processes, the load threads, the connections, the network. Of a platform
//! that is simulated, its simulation tells all of that.

use plimsoll_load::engine::Engine;
use plimsoll_model::record::{ComponentUsage, ThreadUsage};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_observe::network::NetworkProbe;
use plimsoll_observe::outside::{Held, OutsideSampler};
use plimsoll_observe::process::ProcessSampler;
use plimsoll_observe::tcp::TcpSampler;
use plimsoll_observe::threads::ThreadSampler;
use plimsoll_platform::Platform;
use plimsoll_simulate::{Host, Simulation, Used};

/// Looks at one run, on this host or in its simulation.
pub enum Observers {
    /// On this host.
    Here(Box<OnHost>),
    /// In a simulation.
    Simulated(Box<InSimulation>),
}

/// Samplers of this host.
pub struct OnHost {
    components: Vec<ProcessSampler>,
    /// The first process of each component that was started for the run, and of each that ran already.
    started: Vec<(String, i32)>,
    running: Vec<(String, i32)>,
    outside: OutsideSampler,
    threads: ThreadSampler,
    /// Tells the network from the platform, from the first level on; `None` where the scenario does not want it, or no
    /// thread can be had.
    network: Option<NetworkProbe>,
    tcp: TcpSampler,
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
        probes: bool,
    ) -> Observers {
        match platform.simulation() {
            Some(simulation) => Observers::Simulated(Box::new(InSimulation {
                simulation,
                probes,
                components: Default::default(),
                threads: Default::default(),
                packets: Host::default(),
            })),
            None => Observers::Here(Box::new(OnHost {
                components: samplers(&platform.processes()),
                started: platform.processes(),
                running: Vec::new(),
                outside: OutsideSampler::default(),
                threads: ThreadSampler::new(engine.threads()),
                network,
                tcp: TcpSampler::new(platform.address(), engine.listening_ports()),
            })),
        }
    }

    /// A component has a new process.
    pub fn renew(&mut self, platform: &Platform) {
        if let Observers::Here(host) = self {
            host.started = platform.processes();
            host.components = samplers(&host.processes());
        }
    }

    /// Looks at processes of the platform that were not started by the run, too.
    pub fn add(&mut self, running: Vec<(String, i32)>) {
        if let Observers::Here(host) = self {
            host.components.extend(samplers(&running));
            host.running = running;
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

    /// What each component used since the last call.
    pub fn components(&mut self, now: Nanos) -> Vec<ComponentUsage> {
        match self {
            Observers::Here(host) => host.components(now),
            Observers::Simulated(simulated) => simulated.components(now),
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

    fn components(&mut self, now: Nanos) -> Vec<ComponentUsage> {
        if self.components.is_empty() {
            return Vec::new();
        }
        let mut held = self.outside.sample(&self.processes());
        let mut usages: Vec<ComponentUsage> =
            self.components.iter_mut().filter_map(|sampler| sampler.sample(now)).collect();
        for usage in &mut usages {
            if let Some(Held { window, held, holder, processors }) = held.remove(&usage.component) {
                let share = held.as_secs_f64() / window.as_secs_f64();
                let others = Nanos::from_secs_f64(share * usage.window.as_secs_f64());
                // Others held a processor in vain while the component did not want it.
                usage.held_by_others = usage.run_delay.map(|waited| waited.min(others));
                usage.holder = holder;
                usage.processors = Some(processors);
            }
        }
        usages
    }
}

fn samplers(processes: &[(String, i32)]) -> Vec<ProcessSampler> {
    processes.iter().map(|(name, pid)| ProcessSampler::new(name.clone(), *pid)).collect()
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
        let usage = |(component, used): (String, Used)| {
            let before = earlier(&component);
            let starved = used.starved - before.starved;
            ComponentUsage {
                component,
                at: now,
                window: now - since,
                cpu: used.processor - before.processor,
                run_delay: Some(starved),
                held_by_others: Some(starved),
                processors: Some(4),
                holder: (starved > Nanos::ZERO).then(|| "a stranger".to_owned()),
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
