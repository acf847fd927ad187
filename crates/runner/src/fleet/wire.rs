//! The wire of a run at its workers: which of them captures which packets.
//!
//! Each connection is captured at one place: on the host of its server, or, where no process of the run is on that host, on that
//! of its client. So times within a connection are those of one clock.

use super::{Fleet, FleetError, Member};
use plimsoll_observe::host::network_identity;
use plimsoll_observe::network::is_here;
use plimsoll_scenario::plan::{CapturePlan, WirePlace};
use plimsoll_workers::message::{CaptureOrder, Message, PacketOrder};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

impl Fleet {
    /// Lets workers capture what the coordinator does not, and keep the keys of their TLS sessions. `servers` are those that the
    /// coordinator knows, here or elsewhere, and `there` those at workers.
    ///
    /// # Errors
    /// A worker that must capture may not or cannot.
    pub fn begin_captures(
        &mut self,
        plan: &CapturePlan,
        servers: &[(String, SocketAddr)],
        there: Vec<(String, SocketAddr)>,
        stop: &AtomicBool,
    ) -> Result<(), FleetError> {
        self.clocks.keep_track();
        let filters = filters(plan, (servers, &there), &self.members);
        for (member, filter) in self.members.iter().zip(&filters) {
            if filter.is_some() && !member.worker.captures {
                return Err(FleetError::Refused {
                    worker: member.worker.name.clone(),
                    reason: "record.capture needs packets that only its host sees, and it captures none: start it with --allow-captures"
                        .into(),
                });
            }
        }
        for (member, filter) in self.members.iter_mut().zip(filters) {
            let interface = plan.interface.clone().unwrap_or_else(|| "any".into());
            let packets = filter.map(|filter| PacketOrder { interface, filter, limit: plan.limit });
            member.tell(&Message::Capture(CaptureOrder { packets }))?;
        }
        self.captured = Some((there, plan.limit));
        self.await_each(stop, |_, message| match message {
            Message::Capturing(begun) => Some(begun),
            _ => None,
        })
    }
}

/// Servers that the coordinator knows, and those at workers.
type Servers<'a> = (&'a [(String, SocketAddr)], &'a [(String, SocketAddr)]);

/// What each worker is to capture, in the words of tcpdump; `None` where there is nothing that others do not see.
fn filters(plan: &CapturePlan, servers: Servers<'_>, members: &[Member]) -> Vec<Option<String>> {
    let hosts: Vec<HostOf> = members
        .iter()
        .map(|member| HostOf {
            network: member.worker.network.as_deref(),
            address: member.worker.address,
            captures: member.worker.captures,
        })
        .collect();
    filters_of(plan, servers, &hosts, network_identity().as_deref(), &is_here)
}

/// Where a worker stands.
struct HostOf<'a> {
    network: Option<&'a str>,
    address: IpAddr,
    /// Whether it may capture.
    captures: bool,
}

/// The same where the coordinator is in the network `ours` and has the addresses `is_here`.
fn filters_of(
    plan: &CapturePlan,
    (servers, there): Servers<'_>,
    hosts: &[HostOf<'_>],
    ours: Option<&str>,
    is_here: &dyn Fn(IpAddr) -> bool,
) -> Vec<Option<String>> {
    // One of those in a network sees what all of them do: one that may capture, if there is one.
    let sees_for_all = |place: usize, network: &str| {
        let there = || hosts.iter().enumerate().filter(|(_, host)| host.network == Some(network));
        let chosen = there().find(|(_, host)| host.captures).or_else(|| there().next());
        chosen.is_some_and(|(chosen, _)| chosen == place)
    };
    let mut own: BTreeMap<&str, BTreeSet<IpAddr>> = BTreeMap::new();
    for HostOf { network, address, .. } in hosts {
        own.entry(network.unwrap_or_default()).or_default().insert(*address);
    }
    let addresses: BTreeSet<IpAddr> = hosts.iter().map(|host| host.address).collect();
    hosts
        .iter()
        .enumerate()
        .map(|(place, HostOf { network, address, .. })| {
            if network.is_some_and(|network| !sees_for_all(place, network)) {
                return None;
            }
            let alone = BTreeSet::from([*address]);
            let own = network.and_then(|network| own.get(network)).unwrap_or(&alone);
            // A server that is on no host of the run is seen by its clients alone.
            let sees =
                |server: IpAddr| own.contains(&server) || !(addresses.contains(&server) || is_here(server));
            // The coordinator captures what it knows in its own network.
            let is_ours = network.is_some() && *network == ours;
            if let Some(filter) = plan.filter.as_ref().filter(|_| !is_ours) {
                return Some(filter.clone());
            }
            // Both of one end: the host's own clients may go to that port of another one.
            let at = |server: SocketAddr| {
                let (ip, port) = (server.ip(), server.port());
                format!("(src host {ip} and src port {port}) or (dst host {ip} and dst port {port})")
            };
            let of = |servers: &[(String, SocketAddr)]| {
                servers.iter().map(|(_, server)| *server).collect::<Vec<_>>()
            };
            let there = of(there).into_iter().filter(|server| own.contains(&server.ip())).map(at);
            let known = of(servers).into_iter().filter(|server| !is_ours && sees(server.ip())).map(at);
            let named = plan.names.iter().filter(|_| !is_ours).flat_map(|(_, place)| match place {
                WirePlace::Port(port) => {
                    own.iter().map(|own| at(SocketAddr::new(*own, *port))).collect::<Vec<_>>()
                }
                WirePlace::Endpoint(server) => sees(server.ip()).then(|| at(*server)).into_iter().collect(),
                WirePlace::Host(server) => {
                    sees(*server).then(|| format!("host {server}")).into_iter().collect()
                }
            });
            let all: BTreeSet<String> = there.chain(known).chain(named).collect();
            (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(" or "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn filters(
        plan: &CapturePlan,
        [servers, there]: [&[(u8, u16)]; 2],
        hosts: &[(Option<&str>, u8)],
    ) -> Vec<Option<String>> {
        let server = |(host, port): &(u8, u16)| ("server".to_owned(), SocketAddr::new(address(*host), *port));
        let [servers, there] = [servers, there].map(|all| all.iter().map(server).collect::<Vec<_>>());
        let hosts: Vec<HostOf> = hosts
            .iter()
            .map(|(network, host)| HostOf { network: *network, address: address(*host), captures: true })
            .collect();
        filters_of(plan, (&servers, &there), &hosts, Some("ours"), &|server| server == address(1))
    }

    #[test]
    fn each_connection_is_captured_at_one_place() {
        let plan = CapturePlan::default();
        let at = |host: u8, port: u16| {
            let end = |way: &str| format!("({way} host 192.0.2.{host} and {way} port {port})");
            format!("{} or {}", end("src"), end("dst"))
        };
        // The coordinator has 1, the second worker is in the network of the first, and nobody is at 9.
        let hosts = [(Some("a"), 2), (Some("a"), 2), (Some("b"), 3), (Some("ours"), 1), (None, 4)];
        assert_eq!(
            filters(&plan, [&[(1, 10), (3, 31), (9, 90)], &[(1, 11), (2, 20), (3, 30)]], &hosts),
            [
                Some(format!("{} or {}", at(2, 20), at(9, 90))),
                None,
                Some(format!("{} or {} or {}", at(3, 30), at(3, 31), at(9, 90))),
                Some(at(1, 11)),
                Some(at(9, 90)),
            ]
        );
        assert_eq!(
            filters(&plan, [&[(1, 10)], &[]], &hosts),
            vec![None; 5],
            "the coordinator sees all of it"
        );
    }

    #[test]
    fn named_servers_are_captured_where_they_are() {
        let names = [
            WirePlace::Port(5),
            WirePlace::Endpoint(([192, 0, 2, 1], 7).into()),
            WirePlace::Host(address(8)),
        ];
        let plan = CapturePlan {
            names: names.into_iter().map(|place| ("named".to_owned(), place)).collect(),
            ..CapturePlan::default()
        };
        let found = filters(&plan, [&[], &[]], &[(Some("a"), 2)]);
        let named =
            "(src host 192.0.2.2 and src port 5) or (dst host 192.0.2.2 and dst port 5) or host 192.0.2.8";
        assert_eq!(found, [Some(named.to_owned())]);
        let plan = CapturePlan { filter: Some("udp".into()), ..plan };
        assert_eq!(
            filters(&plan, [&[], &[]], &[(Some("a"), 2), (Some("ours"), 1)]),
            [Some("udp".to_owned()), None]
        );
    }
}
