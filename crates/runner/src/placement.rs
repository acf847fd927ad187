//! Which processors carry the load threads and which the platform: disjoint ones where there are two.

use plimsoll_scenario::plan::{Endpoint, LevelPlan, Plan};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Lowest scheduling priority.
const LOWEST_PRIORITY: i32 = 19;

/// Processors by purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// One entry a load thread: the processor it is bound to, `None` for any.
    pub load: Vec<Option<usize>>,
    /// The platform's processors; empty for any.
    pub platform: Vec<usize>,
    /// Whether load threads go before whatever else runs on their processors: where that is not the platform, or the
    /// scenario says so.
    pub precedence: bool,
    /// Whether the platform is on this host.
    pub here: bool,
    /// What the reader must know.
    pub remark: String,
}

impl Placement {
    /// For this host and plan.
    pub fn choose(plan: &Plan) -> Placement {
        let processors = processors();
        let starts_platform = plan.platform.address.is_none();
        let here = Placement::is_here(plan);
        Placement::divide(
            &processors,
            here,
            starts_platform,
            plan.load.shares_processors,
            plan.load.threads.map(usize::from),
            busy_threads(plan),
        )
    }

    /// For this host and plan, if the load threads are elsewhere.
    pub fn without_load(plan: &Plan) -> Placement {
        Placement {
            load: Vec::new(),
            platform: Vec::new(),
            precedence: false,
            here: Placement::is_here(plan),
            remark: "load threads run elsewhere".into(),
        }
    }

    /// Whether the platform has processors of its own.
    pub fn divides(&self) -> bool {
        !self.platform.is_empty()
    }

    /// Whether the platform is on this host.
    pub fn is_here(plan: &Plan) -> bool {
        plan.populations().any(|plan| plan.platform.address.as_ref().is_none_or(is_this_host))
    }

    fn divide(
        processors: &[usize],
        platform_is_here: bool,
        platform_is_ours: bool,
        shared: bool,
        threads: Option<usize>,
        busy: u32,
    ) -> Placement {
        let count = processors.len();
        let default = if platform_is_here { (count / 2).max(1) } else { count };
        let threads = threads.unwrap_or(default).clamp(1, (busy as usize).max(1));
        if platform_is_here && shared {
            return Placement {
                load: vec![None; threads],
                platform: Vec::new(),
                precedence: true,
                here: true,
                remark:
                    "load threads and platform share all processors, as was asked for; load threads go first"
                        .into(),
            };
        }
        if count < 2 || threads > count || (platform_is_here && threads == count) {
            let remark = if platform_is_here {
                "load threads and platform share processors: their numbers influence each other"
            } else {
                "load threads may run on any processor"
            };
            let load = vec![None; threads];
            return Placement {
                load,
                platform: Vec::new(),
                precedence: !platform_is_here,
                here: platform_is_here,
                remark: remark.into(),
            };
        }
        let (load, rest) = processors.split_at(threads);
        let (platform, remark) = match (platform_is_here, platform_is_ours) {
            (true, true) => (rest.to_vec(), "load threads and platform have disjoint processors"),
            (true, false) => (
                Vec::new(),
                "the platform runs on this host and was not bound: it may share the load's processors",
            ),
            (false, _) => (Vec::new(), "the platform runs elsewhere"),
        };
        let load = load.iter().copied().map(Some).collect();
        let precedence = platform_is_ours || !platform_is_here;
        Placement { load, platform, precedence, here: platform_is_here, remark: remark.into() }
    }

    /// Facts for the provenance of a run.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let list = |processors: &[usize]| {
            let shown: Vec<String> = processors.iter().map(ToString::to_string).collect();
            if shown.is_empty() { "any".to_owned() } else { shown.join(", ") }
        };
        let bound: Vec<usize> = self.load.iter().copied().flatten().collect();
        BTreeMap::from([
            ("load threads".to_owned(), self.load.len().to_string()),
            ("load processors".to_owned(), list(&bound)),
            ("platform processors".to_owned(), list(&self.platform)),
            ("remark".to_owned(), self.remark.clone()),
        ])
    }
}

/// How many load threads have something to do: one without devices has not. One without operations in flight would leave those of its
/// devices undone after which a level ends.
fn busy_threads(plan: &Plan) -> u32 {
    let counted = plan.load.levels.iter().filter(|_| plan.load.count.is_some());
    let in_flight = counted.flat_map(|level| plan.shares_of(*level)).filter_map(|share| match share {
        LevelPlan::InFlight(count) => Some(count).filter(|count| *count > 0),
        _ => None,
    });
    in_flight.min().map_or(plan.all_devices(), |least| least.min(plan.all_devices()))
}

/// Lets this thread, which stores and shows, run only when nobody else wants the processor. To be called when load
/// threads and platform have been started, since they would inherit it.
pub fn step_back() {
    // A priority that cannot be lowered costs some lateness, which is measured.
    let _ = setpriority_process(None, LOWEST_PRIORITY);
}

fn processors() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
}

/// Whether an endpoint is one of this host's own addresses: packets to it would leave from the address itself. A
/// container behind a bridge of this host is not recognised.
fn is_this_host(endpoint: &Endpoint) -> bool {
    let leaves_from = |address: SocketAddr| {
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        // Connecting a datagram socket sends nothing.
        socket.connect(address)?;
        Ok::<IpAddr, std::io::Error>(socket.local_addr()?.ip())
    };
    let found = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    found.is_ok_and(|mut addresses| {
        addresses.any(|address| leaves_from(address).is_ok_and(|local| local == address.ip()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processors_are_divided_between_load_and_our_platform() {
        let placement = Placement::divide(&[0, 1], true, true, false, None, 100);
        assert_eq!(
            (placement.load, placement.platform, placement.precedence),
            (vec![Some(0)], vec![1], true)
        );
    }

    #[test]
    fn one_processor_is_shared_and_the_report_says_so() {
        let placement = Placement::divide(&[0], true, true, false, None, 100);
        assert_eq!((placement.load, placement.platform), (vec![None], vec![]));
        assert!(placement.remark.contains("share"));
    }

    #[test]
    fn load_threads_take_no_precedence_over_a_platform_that_may_share_their_processors() {
        let placement = Placement::divide(&[0, 1], true, false, false, None, 100);
        assert!(!placement.precedence && placement.platform.is_empty());
    }

    #[test]
    fn processors_are_shared_where_the_scenario_says_so() {
        let placement = Placement::divide(&[0, 1], true, true, true, None, 100);
        assert_eq!((placement.load, placement.platform, placement.precedence), (vec![None], vec![], true));
        let elsewhere = Placement::divide(&[0, 1], false, false, true, None, 100);
        assert_eq!(elsewhere.load, vec![Some(0), Some(1)], "there is nobody to share with");
    }

    #[test]
    fn this_host_is_known_by_its_addresses() {
        let endpoint = |host: &str| Endpoint {
            protocol: Default::default(),
            wire: Default::default(),
            host: host.into(),
            port: 1883,
            path: String::new(),
        };
        assert!(is_this_host(&endpoint("127.0.0.1")));
        assert!(!is_this_host(&endpoint("192.0.2.1")), "an address for documentation");
    }

    #[test]
    fn a_platform_elsewhere_leaves_all_processors_to_the_load() {
        let placement = Placement::divide(&[0, 1, 2], false, false, false, None, 2);
        assert_eq!(placement.load, vec![Some(0), Some(1)], "no thread without a device");
    }
}
