//! The wire of a run at its workers: which of them captures which packets.
//!
//! Each connection is captured at one place: on the host of its server, or, where no process of the run is on that host, on that
//! of its client. So times within a connection are those of one clock.

use super::{Fleet, FleetError};
use plimsoll_observe::host::network_identity;
use plimsoll_observe::network::is_here;
use plimsoll_scenario::plan::{CapturePlan, WirePlace};
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::message::{Message, PacketOrder};
use std::collections::BTreeSet;
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
        let workers: Vec<&Announcement> = self.members.iter().map(|member| &member.worker).collect();
        let ours = network_identity();
        let filters = filters(plan, (servers, &there), &workers, ours.as_deref(), &is_here);
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
            member.tell(&Message::Capture(packets))?;
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

/// What each worker is to capture, in the words of tcpdump; `None` where there is nothing that others do not see. The coordinator is in
/// the network `ours`, and has the addresses `is_here`.
fn filters(
    plan: &CapturePlan,
    servers: Servers<'_>,
    workers: &[&Announcement],
    ours: Option<&str>,
    is_here: &dyn Fn(IpAddr) -> bool,
) -> Vec<Option<String>> {
    let of_one = |worker: &&Announcement| {
        let network = worker.network.as_deref();
        // All that is in a network sees the same: one that may capture does, if there is one.
        let beside: Vec<&Announcement> = match network {
            Some(_) => workers.iter().copied().filter(|other| other.network.as_deref() == network).collect(),
            None => vec![*worker],
        };
        let chosen = beside.iter().find(|other| other.captures).or(beside.first());
        if chosen.is_none_or(|chosen| chosen.process != worker.process) {
            return None;
        }
        let own: BTreeSet<IpAddr> = beside.iter().map(|other| other.address).collect();
        // The coordinator captures what it knows in its own network. A server that is on no host of the run is seen by its clients alone.
        let is_ours = network.is_some() && network == ours;
        let is_elsewhere =
            |server: IpAddr| !is_here(server) && workers.iter().all(|other| other.address != server);
        let sees = |server: IpAddr| !is_ours && (own.contains(&server) || is_elsewhere(server));
        match &plan.filter {
            Some(filter) if !is_ours => Some(filter.clone()),
            _ => filter(plan, servers, (&own, is_ours), &sees),
        }
    };
    workers.iter().map(of_one).collect()
}

/// What goes to and from servers at the addresses `own`, and from others that are seen.
fn filter(
    plan: &CapturePlan,
    (servers, there): Servers<'_>,
    (own, is_ours): (&BTreeSet<IpAddr>, bool),
    sees: &dyn Fn(IpAddr) -> bool,
) -> Option<String> {
    // Both of one end: the host's own clients may go to that port of another one.
    let at = |server: SocketAddr| {
        let (ip, port) = (server.ip(), server.port());
        format!("(src host {ip} and src port {port}) or (dst host {ip} and dst port {port})")
    };
    let mut all: BTreeSet<String> = BTreeSet::new();
    all.extend(there.iter().filter(|(_, server)| own.contains(&server.ip())).map(|(_, server)| at(*server)));
    all.extend(servers.iter().filter(|(_, server)| sees(server.ip())).map(|(_, server)| at(*server)));
    for (_, place) in &plan.names {
        match place {
            WirePlace::Port(port) if !is_ours => {
                all.extend(own.iter().map(|own| at(SocketAddr::new(*own, *port))));
            }
            WirePlace::Endpoint(server) if sees(server.ip()) => all.extend([at(*server)]),
            WirePlace::Host(server) if sees(*server) => all.extend([format!("host {server}")]),
            _ => {}
        }
    }
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workers::frame::ProcessId;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn found(
        plan: &CapturePlan,
        [servers, there]: [&[(u8, u16)]; 2],
        hosts: &[(Option<&str>, u8)],
    ) -> Vec<Option<String>> {
        let server = |(host, port): &(u8, u16)| ("server".to_owned(), SocketAddr::new(address(*host), *port));
        let [servers, there] = [servers, there].map(|all| all.iter().map(server).collect::<Vec<_>>());
        let worker = |(process, (network, host)): (u64, &(Option<&str>, u8))| Announcement {
            network: network.map(str::to_owned),
            address: address(*host),
            // Of two in one network, the second one may capture.
            captures: process > 0,
            ..Announcement::of(ProcessId(process), "w")
        };
        let workers: Vec<Announcement> = (0..).zip(hosts).map(worker).collect();
        let is_here = |server| server == address(1);
        filters(plan, (&servers, &there), &workers.iter().collect::<Vec<_>>(), Some("ours"), &is_here)
    }

    #[test]
    fn each_connection_is_captured_at_one_place() {
        let plan = CapturePlan::default();
        let at = |host: u8, port: u16| {
            let end = |way: &str| format!("({way} host 192.0.2.{host} and {way} port {port})");
            format!("{} or {}", end("src"), end("dst"))
        };
        // The coordinator has 1, the second worker is in the network of the first and may capture, and nobody is at 9.
        let hosts = [(Some("a"), 2), (Some("a"), 2), (Some("b"), 3), (Some("ours"), 1), (None, 4)];
        assert_eq!(
            found(&plan, [&[(1, 10), (3, 31), (9, 90)], &[(1, 11), (2, 20), (3, 30)]], &hosts),
            [
                None,
                Some(format!("{} or {}", at(2, 20), at(9, 90))),
                Some(format!("{} or {} or {}", at(3, 30), at(3, 31), at(9, 90))),
                Some(at(1, 11)),
                Some(at(9, 90)),
            ]
        );
        assert_eq!(found(&plan, [&[(1, 10)], &[]], &hosts), vec![None; 5], "the coordinator sees all of it");
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
        let captured = found(&plan, [&[], &[]], &[(Some("a"), 2)]);
        let named =
            "(src host 192.0.2.2 and src port 5) or (dst host 192.0.2.2 and dst port 5) or host 192.0.2.8";
        assert_eq!(captured, [Some(named.to_owned())]);
        let plan = CapturePlan { filter: Some("udp".into()), ..plan };
        assert_eq!(
            found(&plan, [&[], &[]], &[(Some("a"), 2), (Some("ours"), 1)]),
            [Some("udp".to_owned()), None]
        );
    }
}
