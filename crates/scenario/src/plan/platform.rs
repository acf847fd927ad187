//! The platform under test: its profile, where it is, what is spoken there.

use super::{BalancerPlan, CommandPlan, FaultNeeds, QuotaPlan, RelayPlan, RolePlan};
use crate::address::{Endpoint, Protocol};
use crate::profile::{Component, Profile};
use crate::secret::Secret;
use std::collections::{BTreeMap, BTreeSet};

/// The platform under test.
#[derive(Clone, Debug)]
pub struct PlatformPlan {
    /// How to talk to it and how to start it.
    pub profile: Profile,
    /// `host:port` of a platform that runs already; `None` where the profile starts it. Where commands bring it up, only protocol
    /// and scheme are known before.
    pub address: Option<Endpoint>,
    /// What brings it up and takes it down, where commands of the user's do, or an engine with files of theirs.
    pub command: Option<CommandPlan>,
    /// What each role says to it.
    pub roles: RolePlan,
    /// Ports of a platform that runs already, by the names that its profile gives them.
    pub ports: BTreeMap<String, u16>,
    /// Relays before components that the profile starts.
    pub relays: Vec<RelayPlan>,
    /// How many of a component are started, by its name; one of all others.
    pub replicas: BTreeMap<String, u16>,
    /// Load balancers before components that the profile starts.
    pub balancers: Vec<BalancerPlan>,
    /// What components which the profile starts may use at most, by name.
    pub quotas: BTreeMap<String, QuotaPlan>,
    /// What components that the profile starts have because of planned faults, by name.
    pub needs: BTreeMap<String, FaultNeeds>,
    /// The processors that components which the profile starts may run on, by name; all that the platform has for the others.
    pub processors: BTreeMap<String, Vec<usize>>,
    /// A folder that keeps the logs of components which the profile starts.
    pub logs: Option<String>,
    /// Processes of a platform on this host that Plimsoll does not start itself.
    pub components: Vec<RunningPlan>,
    /// Whether the controller undoes after the run what it did before it.
    pub clean_up: bool,
    /// Values of the profile's variables that came from the environment, and those of the address's query
    /// that are secrets.
    pub secrets: Vec<Secret>,
    /// In which state a run finds it.
    pub state: StatePlan,
}

/// A component that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPlan {
    /// What it is called.
    pub name: String,
    /// Where its process is.
    pub place: RunningPlace,
}

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunningPlace {
    /// It has that number.
    Process(u32),
    /// It listens at that port of this host.
    Port(u16),
    /// systemd has started it as that unit.
    Unit(String),
    /// It is the first process of that container.
    Container(String),
}

/// In which state a run finds a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePlan {
    /// Whether it is brought back to its first state before the run; never for one that is started for the run.
    pub reset: bool,
    /// The command that does so, before the profile's own steps; empty for none.
    pub command: Vec<String>,
    /// How many things it is filled with.
    pub preload: u32,
}

impl PlatformPlan {
    /// How many of a component are started.
    pub fn replicas_of(&self, component: &str) -> usize {
        self.replicas.get(component).copied().unwrap_or(1).into()
    }

    /// The load balancer before a component.
    pub fn balancer_before(&self, component: &str) -> Option<&BalancerPlan> {
        self.balancers.iter().find(|balancer| balancer.component == component)
    }

    /// Whether something stands before a component, through which others reach it: a load balancer, or a relay, which was wanted or
    /// which replicas need.
    pub fn is_behind_front(&self, component: &str) -> bool {
        self.replicas_of(component) > 1
            || self.relays.iter().any(|relay| relay.component == component)
            || self.balancer_before(component).is_some()
    }

    /// The files that say how it is started, as written: the profile, and each load balancer in comments, so that the whole still is a
    /// profile.
    pub fn source(&self) -> String {
        let balancers: BTreeSet<&str> =
            self.balancers.iter().map(|plan| plan.balancer.source.as_str()).collect();
        let mut source = self.profile.source.clone();
        if !balancers.is_empty() && !source.ends_with('\n') {
            source.push('\n');
        }
        source.extend(balancers.into_iter().flat_map(str::lines).map(|line| format!("# {line}\n")));
        source
    }

    /// What devices speak: what the profile says, else the address, else MQTT.
    pub fn protocol(&self) -> Protocol {
        let told = self.address.as_ref().map(|address| address.protocol);
        self.roles.device.protocol.or(told).unwrap_or_default()
    }

    /// Where clients connect, as far as that is known before: the address, or this host where the profile starts the platform.
    pub fn endpoint(&self) -> Endpoint {
        let started = || Endpoint {
            protocol: self.protocol(),
            wire: self.roles.device.wire,
            host: "localhost".to_owned(),
            port: 0,
            path: self.roles.device.path.clone(),
        };
        self.address.clone().unwrap_or_else(started)
    }

    /// Whether devices send their events to a gateway that tells a test manager what becomes of them, one that we start.
    pub fn reports_stages(&self) -> bool {
        let told = |component: &Component| component.port(Protocol::Gateway).is_some();
        self.address.is_none()
            && self.protocol() != Protocol::Gateway
            && self.profile.components.iter().any(told)
    }
}
