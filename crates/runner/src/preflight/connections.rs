//! What connections need: open files, local ports, source addresses, room in queues.

use super::demand::{Demand, Place};
use plimsoll_model::host_check::HostCheck;
use plimsoll_model::text::grouped;
use plimsoll_observe::limits::Limits;

/// Open files that let one plan a large run without thinking about them.
const PLENTY_OF_FILES: u64 = 65_536;
/// Beyond this share of the ports the kernel looks long for a free one, and those of closed connections are missed.
const PORTS_WELL_USED: f64 = 0.8;
/// The widest range of local ports that leaves out the well-known ones.
pub const WIDEST: u64 = 64_512;
/// Data of a connection that waits in the kernel under load, in bytes: the least, a page for each direction.
const WAITING: u64 = 2 * 4096;
/// How long a platform may stop accepting, as in a collection of garbage, before its queue must be full.
const PAUSE: f64 = 0.1;

pub fn open_files(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "open files";
    let soft = limits.open_files?;
    let most = limits.open_files_hard.unwrap_or(u64::MAX).max(soft);
    let Some(demand) = demand else {
        if most >= PLENTY_OF_FILES {
            return Some(HostCheck::good(
                SUBJECT,
                format!("this process may have {}, up to {} on demand", shown(soft), shown(most)),
            ));
        }
        let told = format!("this process may have {}, and each connection is one", shown(most));
        return Some(HostCheck::warning(SUBJECT, told, raise_files(PLENTY_OF_FILES, limits)));
    };
    let (connections, needed) = (demand.connections, demand.open_files());
    if needed > most {
        let listening = match demand.listening {
            0 => String::new(),
            listening => format!(" and {} sockets that listen", shown(listening)),
        };
        let remedy = format!("{}, or use fewer devices", raise_files(needed, limits));
        let [connections, needed, most] = [connections, needed, most].map(shown);
        let told = format!(
            "{connections} connections{listening} need {needed} open files, but this process may have {most}"
        );
        return Some(HostCheck::problem(SUBJECT, told, remedy));
    }
    let raised = match needed > soft {
        true => format!("; the limit of {} is raised by itself", shown(soft)),
        false => String::new(),
    };
    Some(HostCheck::good(SUBJECT, format!("{} needed, {} allowed{raised}", shown(needed), shown(most))))
}

fn raise_files(needed: u64, limits: &Limits) -> String {
    let first = match limits.open_files_most {
        Some(most) if needed > most => format!("`sudo sysctl -w fs.nr_open={needed}`, then "),
        _ => String::new(),
    };
    format!(
        "{first}as root `ulimit -n {needed}` (lasting: `* - nofile {needed}` in /etc/security/limits.conf)"
    )
}

pub fn local_ports(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "local ports";
    let ports = limits.local_ports.filter(|&ports| ports > 0)?;
    let Some(demand) = demand else {
        let told = format!("{} connections to one platform from each address of this host", shown(ports));
        return Some(HostCheck::good(SUBJECT, told));
    };
    if demand.place == Place::Loopback && demand.sources == 0 {
        let told = "connections spread over the addresses 127.0.0.0/8 by themselves";
        return Some(HostCheck::good(SUBJECT, told));
    }
    let addresses = demand.sources.max(1) as u64;
    let (room, wanted) = (ports * addresses, demand.connections);
    let from = if addresses == 1 { "one address".to_owned() } else { format!("{addresses} addresses") };
    let (told_wanted, told_room) = (shown(wanted), shown(room));
    if wanted as f64 <= room as f64 * PORTS_WELL_USED {
        return Some(HostCheck::good(SUBJECT, format!("{told_wanted} of {told_room} from {from}")));
    }
    let remedy = more_ports(wanted, addresses, ports);
    Some(match wanted > room {
        true => {
            let told =
                format!("{told_wanted} connections to one platform, but {from} can have {told_room} of them");
            HostCheck::problem(SUBJECT, told, remedy)
        }
        false => {
            let told = format!(
                "{told_wanted} connections of the {told_room} that {from} can have: ports become scarce"
            );
            HostCheck::warning(SUBJECT, told, remedy)
        }
    })
}

/// How to make room for so many connections.
fn more_ports(wanted: u64, addresses: u64, ports: u64) -> String {
    let enough = |ports: u64| (wanted as f64 / (ports as f64 * PORTS_WELL_USED)).ceil() as u64;
    let widen = "`sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`";
    if ports < WIDEST && enough(WIDEST) <= addresses {
        return widen.to_owned();
    }
    let (needed, first) = match ports < WIDEST {
        true => (enough(WIDEST), format!("{widen}, then ")),
        false => (enough(ports), String::new()),
    };
    let further = needed.saturating_sub(addresses).max(1);
    let plural = if further == 1 { "a further address" } else { "further addresses" };
    format!(
        "{first}give this host {further} {plural} (`sudo ip addr add ADDRESS/PREFIX dev INTERFACE`) and list all \
         {needed} in `connection.source_addresses`"
    )
}

pub fn source_addresses(demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "source addresses";
    let demand = demand.filter(|demand| demand.sources > 0)?;
    let Some(first) = demand.foreign_sources.first() else {
        return Some(HostCheck::good(SUBJECT, format!("this host has all {}", demand.sources)));
    };
    let shown: Vec<String> = demand.foreign_sources.iter().take(4).map(ToString::to_string).collect();
    let more = demand.foreign_sources.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let told = format!("this host does not have {}{more}", shown.join(", "));
    let remedy = format!("`sudo ip addr add {first}/PREFIX dev INTERFACE` for each");
    Some(HostCheck::problem(SUBJECT, told, remedy))
}

pub fn accept_queue(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "accept queue";
    let (queue, half_open) = (limits.accept_queue?, limits.half_open?);
    let room = queue.min(half_open);
    let Some(demand) = demand else {
        let [queue, half_open] = [queue, half_open].map(shown);
        let told =
            format!("a platform on this host can have {queue} connections wait, and {half_open} half open");
        return Some(HostCheck::good(SUBJECT, told));
    };
    if demand.place == Place::Elsewhere {
        return None;
    }
    let at_once = match demand.storm {
        true => demand.connections,
        false => (demand.connect_rate * PAUSE).min(demand.connections as f64) as u64,
    };
    if at_once <= room {
        return Some(HostCheck::good(
            SUBJECT,
            format!("{} connections can wait for the platform", shown(room)),
        ));
    }
    let cause = match demand.storm {
        true => "after the platform's restart".to_owned(),
        false => format!("at {}/s, if the platform pauses for 0.1 s", grouped(demand.connect_rate)),
    };
    let told = format!(
        "{} connections may wait {cause}, but its queue holds {}; the others try again after a second",
        shown(at_once),
        shown(room)
    );
    let remedy =
        format!("`sudo sysctl -w net.core.somaxconn={at_once} net.ipv4.tcp_max_syn_backlog={at_once}`");
    Some(HostCheck::warning(SUBJECT, told, remedy))
}

pub fn tracked(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "firewall";
    let (room, demand) = (limits.tracked?, demand?);
    if demand.connections <= room {
        return Some(HostCheck::good(
            SUBJECT,
            format!("it can keep track of {} more connections", shown(room)),
        ));
    }
    let wanted = demand.connections;
    let told = format!(
        "{} connections wanted, but it can keep track of {} more and drops the rest",
        shown(wanted),
        shown(room)
    );
    let most = wanted * 2;
    Some(HostCheck::warning(SUBJECT, told, format!("`sudo sysctl -w net.netfilter.nf_conntrack_max={most}`")))
}

pub fn tcp_memory(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "buffers";
    let (room, demand) = (limits.tcp_memory?, demand?);
    let ends = if demand.place == Place::Elsewhere { 1 } else { 2 };
    let wanted = demand.connections.saturating_mul(ends * WAITING);
    if wanted <= room {
        let told = format!(
            "the kernel has room for a page that waits in each direction of {} connections",
            shown(demand.connections)
        );
        return Some(HostCheck::good(SUBJECT, told));
    }
    let told = format!(
        "if a page waits in each direction of {} connections, the kernel is beyond what it gives to TCP, and slows them down",
        shown(demand.connections)
    );
    // Three numbers of pages: from the first one on it watches, from the second on it is sparing, at the third it refuses.
    let pages = wanted.div_ceil(4096);
    let remedy = format!("`sudo sysctl -w net.ipv4.tcp_mem=\"{pages} {} {}\"`", pages * 3 / 2, pages * 2);
    Some(HostCheck::warning(SUBJECT, told, remedy))
}

/// A count for people; commands have their numbers without commas.
fn shown(count: u64) -> String {
    grouped(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Severity::{Good, Problem, Warning};
    use plimsoll_model::Nanos;

    fn demand(connections: u64, place: Place) -> Demand {
        Demand {
            connections,
            listening: 0,
            connect_rate: 500.0,
            secured: false,
            storm: false,
            place,
            sources: 0,
            foreign_sources: Vec::new(),
            threads: 1,
            shared: false,
            walked: 0.0,
            precision: Nanos::from_micros(100),
        }
    }

    fn limits() -> Limits {
        Limits {
            open_files: Some(1024),
            open_files_hard: Some(20_000),
            open_files_most: Some(1_048_576),
            local_ports: Some(28_232),
            accept_queue: Some(4096),
            half_open: Some(2048),
            tracked: Some(10_000),
            tcp_memory: Some(1 << 28),
            ..Limits::default()
        }
    }

    #[test]
    fn files_are_raised_within_the_hard_limit_and_refused_beyond_it() {
        let found = |connections| open_files(&limits(), Some(&demand(connections, Place::Loopback))).unwrap();
        assert_eq!(found(19_936).severity, Good);
        assert!(found(19_936).told.contains("raised by itself"));
        let beyond = found(19_937);
        assert_eq!(beyond.severity, Problem);
        assert!(
            beyond.remedy.contains("`ulimit -n 20001`") && !beyond.remedy.contains("nr_open"),
            "{beyond}"
        );
        assert!(found(2_000_000).remedy.contains("fs.nr_open=2000064"));
        let polled = Demand { listening: 10_000, ..demand(10_000, Place::Loopback) };
        let told = open_files(&limits(), Some(&polled)).unwrap().told;
        assert!(
            told.starts_with("10,000 connections and 10,000 sockets that listen need 20,064 open"),
            "{told}"
        );
    }

    #[test]
    fn a_remote_platform_needs_addresses_for_its_ports_and_a_local_one_does_not() {
        let found = |connections, place, sources| {
            local_ports(&limits(), Some(&Demand { sources, ..demand(connections, place) })).unwrap()
        };
        assert_eq!(found(100_000, Place::Loopback, 0).severity, Good);
        assert_eq!(found(20_000, Place::Elsewhere, 0).severity, Good);
        let scarce = found(28_000, Place::Elsewhere, 0);
        assert_eq!(
            (scarce.severity, scarce.remedy.contains("source_addresses")),
            (Warning, false),
            "{scarce}"
        );
        let few = found(28_233, Place::Elsewhere, 0);
        assert_eq!(few.severity, Problem);
        assert!(few.remedy.contains("ip_local_port_range"), "widening is enough: {few}");
        // 200,000 / (64,512 x 0.8) = 3.9.
        let many = found(200_000, Place::Elsewhere, 0);
        assert!(many.remedy.contains("3 further addresses") && many.remedy.contains("all 4 in"), "{many}");
        assert_eq!(found(50_000, Place::Here, 4).severity, Good);
    }

    #[test]
    fn a_source_address_of_another_host_is_named() {
        let foreign = vec!["192.0.2.7".parse().unwrap()];
        let given = Demand { sources: 2, foreign_sources: foreign, ..demand(10, Place::Elsewhere) };
        let found = source_addresses(Some(&given)).unwrap();
        assert_eq!(found.severity, Problem);
        assert!(found.remedy.contains("ip addr add 192.0.2.7/"), "{found}");
        assert_eq!(source_addresses(Some(&demand(10, Place::Elsewhere))), None);
    }

    #[test]
    fn a_fast_connect_rate_or_a_storm_may_overrun_the_queue_of_a_platform_here() {
        let found = |connect_rate, storm, place| {
            accept_queue(&limits(), Some(&Demand { connect_rate, storm, ..demand(50_000, place) }))
        };
        assert_eq!(found(500.0, false, Place::Loopback).unwrap().severity, Good);
        assert_eq!(found(30_000.0, false, Place::Loopback).unwrap().severity, Warning);
        let storm = found(500.0, true, Place::Here).unwrap();
        assert!(storm.severity == Warning && storm.remedy.contains("somaxconn=50000"), "{storm}");
        assert_eq!(
            found(30_000.0, true, Place::Elsewhere),
            None,
            "another host's queue is not seen from here"
        );
    }

    #[test]
    fn a_firewall_may_be_too_small() {
        let found = |connections| tracked(&limits(), Some(&demand(connections, Place::Elsewhere))).unwrap();
        assert_eq!((found(10_000).severity, found(10_001).severity), (Good, Warning));
    }

    #[test]
    fn without_a_demand_the_room_is_told() {
        assert_eq!(open_files(&limits(), None).unwrap().severity, Warning);
        assert!(local_ports(&limits(), None).unwrap().told.contains("28,232"));
        assert_eq!(open_files(&Limits::default(), None), None, "what is not known is not judged");
    }

    #[test]
    fn connections_need_memory_for_what_waits_on_the_way() {
        let found = |connections, place| tcp_memory(&limits(), Some(&demand(connections, place))).unwrap();
        assert_eq!(found(32_768, Place::Elsewhere).severity, Good);
        let beyond = found(32_769, Place::Elsewhere);
        assert_eq!(beyond.severity, Warning);
        assert!(beyond.remedy.contains("tcp_mem=\"65538 98307 131076\""), "{beyond}");
        assert_eq!(found(32_768, Place::Loopback).severity, Warning, "both ends are here");
        assert_eq!(tcp_memory(&limits(), None), None);
    }
}
