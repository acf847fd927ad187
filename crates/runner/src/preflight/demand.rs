//! What a plan asks of this host.

use crate::Placement;
use plimsoll_load::arrivals::are_walked_whole;
use plimsoll_model::{LoadCurve, Nanos};
use plimsoll_scenario::plan::{ArrivalsPer, LevelPlan, Model, Plan, Protocol};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// Where the platform is, seen from the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On another host.
    Elsewhere,
    /// On this one, at an address of its network.
    Here,
    /// On this one, at 127.0.0.1 or its like: connections then spread over many source addresses by themselves.
    Loopback,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Connections at the same time.
    pub connections: u64,
    /// Sockets at which devices listen that are polled.
    pub listening: u64,
    /// The highest number of connections begun per second.
    pub connect_rate: f64,
    /// Whether connections are secured by TLS, or sockets by DTLS.
    pub secured: bool,
    /// Whether all clients connect anew at once, as after a restart of the platform.
    pub storm: bool,
    /// Where the platform is.
    pub place: Place,
    /// Source addresses that the scenario gives.
    pub sources: usize,
    /// Those of them that this host does not have.
    pub foreign_sources: Vec<IpAddr>,
    /// The load threads.
    pub threads: usize,
    /// Whether the platform has to share their processors.
    pub shared: bool,
    /// Arrivals per second that each load thread walks whole, those of other threads' devices too.
    pub walked: f64,
    /// How far sending may lag behind due by design.
    pub precision: Nanos,
}

impl Demand {
    /// What the plan asks for.
    pub fn of(plan: &Plan) -> Demand {
        let placement = Placement::choose(plan);
        let place = match &plan.platform.address {
            None => Place::Loopback,
            Some(endpoint) => {
                let found = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
                let first = found.ok().and_then(|mut addresses| addresses.next());
                // Only IPv4 has a whole network of loopback addresses.
                match first.map(|address| address.ip()) {
                    Some(IpAddr::V4(address)) if address.is_loopback() => Place::Loopback,
                    _ if placement.here => Place::Here,
                    _ => Place::Elsewhere,
                }
            }
        };
        let of_level = |level: &LevelPlan| match level {
            LevelPlan::ConnectRate(rate) => *rate,
            _ => 0.0,
        };
        let rates = plan.load.levels.iter().map(of_level);
        let polled = if plan.protocol() == Protocol::Gateway { u64::from(plan.devices) } else { 0 };
        // A gateway that connects to some devices at once says so in its configuration; 0 means all.
        let at_once = plan.platform.roles.device.configuration.get("SOCKETS");
        let at_once = at_once.and_then(|sockets| sockets.parse().ok()).filter(|&sockets| sockets > 0);
        let apart = at_once.map_or(0, |at_once: u64| polled.saturating_sub(at_once));
        Demand {
            connections: plan.populations().map(Plan::connections).sum::<u64>() - apart,
            listening: polled,
            connect_rate: rates.fold(plan.load.connect_rate, f64::max),
            secured: plan.populations().any(is_secured),
            storm: plan.load.storm.is_some(),
            place,
            sources: plan.connection.source_addresses.len(),
            foreign_sources: plan
                .populations()
                .flat_map(|plan| plan.connection.source_addresses.iter().copied())
                .filter(is_foreign)
                .collect(),
            threads: placement.load.len(),
            shared: placement.here && placement.load.contains(&None) && !plan.load.shares_processors,
            walked: walked(plan),
            precision: plan.load.precision,
        }
    }

    /// What a worker's part of the plan asks for: devices, subscribers and queriers of each population, on so many load threads. Where
    /// the platform is started for the run, it is on this host if the worker `is_local`: in one host with the coordinator.
    pub fn of_part(plan: &Plan, clients: &[[u32; 3]], threads: usize, is_local: bool) -> Demand {
        let whole = Demand::of(plan);
        let all: u64 = plan.populations().map(Plan::connections).sum();
        let connections: u64 = clients.iter().flatten().copied().map(u64::from).sum();
        let part = connections as f64 / all.max(1) as f64;
        let devices = |(own, [devices, ..]): (&Plan, &[u32; 3])| match own.protocol() {
            Protocol::Gateway => u64::from(*devices),
            _ => 0,
        };
        Demand {
            connections: connections.min(whole.connections),
            listening: plan.populations().zip(clients).map(devices).sum(),
            connect_rate: whole.connect_rate * part.min(1.0),
            place: match plan.platform.address {
                None if !is_local => Place::Elsewhere,
                _ => whole.place,
            },
            threads,
            shared: false,
            ..whole
        }
    }

    /// Open files that this process needs.
    pub fn open_files(&self) -> u64 {
        self.connections + self.listening + BESIDE
    }
}

/// Whether connections of a population are secured by TLS, or its sockets by DTLS.
pub(super) fn is_secured(plan: &Plan) -> bool {
    plan.connection.transport.tls.is_some() || plan.coap.dtls.is_some()
}

/// The highest rate of arrivals that each thread walks whole.
fn walked(plan: &Plan) -> f64 {
    let is_walked_whole = match plan.load.model {
        Model::Open { arrivals, per } => are_walked_whole(arrivals, per),
        Model::PartlyOpen { arrivals, .. } => are_walked_whole(arrivals, ArrivalsPer::Population),
        Model::Trace(_) => true,
        Model::Closed { .. } => false,
    };
    if !is_walked_whole {
        return 0.0;
    }
    let searched = plan.load.search.iter().map(|search| search.to);
    let along = plan.load.curve.iter().map(LoadCurve::highest);
    plan.load.levels.iter().map(|level| level.rate()).chain(searched).chain(along).fold(0.0, f64::max)
}

/// Descriptors beside the connections: standard streams, run store, log files, one epoll instance a thread.
const BESIDE: u64 = 64;

/// Whether nothing can be sent from that address.
fn is_foreign(address: &IpAddr) -> bool {
    UdpSocket::bind((*address, 0)).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, load};

    #[test]
    fn a_part_asks_for_its_clients_and_its_part_of_the_rate() {
        let text = "name: t\nplatform: embedded\npopulation: { devices: 900, subscribers: 100 }\n\
                    load: { levels: [10/s], hold: 1s, connect_rate: 2000 }\n";
        let profile = |_: &str| Err("none".to_owned());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let source = SourceFile { name: "t".into(), text: text.into() };
        let plan = load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"));
        let part = Demand::of_part(&plan, &[[200, 50, 0]], 3, false);
        assert_eq!((part.connections, part.connect_rate, part.threads), (250, 500.0, 3));
        assert_eq!((part.place, part.listening, part.shared), (Place::Elsewhere, 0, false));
        let local = Demand::of_part(&plan, &[[900, 100, 0]], 2, true);
        assert_eq!((local.place, local.connections, local.connect_rate), (Place::Loopback, 1000, 2000.0));
    }
}
