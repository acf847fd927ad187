//! Which clients a plan wants at which workers.

use plimsoll_load::layout::{Layout, Stand};
use plimsoll_load::topology::{Receivers, Topology};
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{Plan, Protocol, ReceiversPlan};
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::placement::{Clients, Demand};

/// What is to be placed of each population.
pub(crate) fn demands(plan: &Plan) -> Vec<Demand> {
    let of = |(place, own): (usize, &Plan)| {
        let (sites, subscribers) = (&own.sites, own.own_subscribers());
        // A query is about a device, and one load thread without a device asks nobody.
        let queriers = own.northbound.map_or(0, |northbound| northbound.queriers).min(own.devices);
        let clients = |count, at: &Option<String>| Clients { count, at: at.clone() };
        let devices = match own.population.receivers {
            ReceiversPlan::OfOthers => first_in_common(plan),
            _ => Some(place),
        };
        Demand {
            devices: clients(own.devices, &sites.devices),
            subscribers: clients(subscribers, &sites.subscribers),
            queriers: clients(queriers, &sites.queriers),
            beside: devices.filter(|_| sites.beside && subscribers > 0),
        }
    };
    plan.populations().enumerate().map(of).collect()
}

/// The first population with subscribers in common.
fn first_in_common(plan: &Plan) -> Option<usize> {
    plan.populations().position(|own| own.devices > 0 && own.population.receivers == ReceiversPlan::Common)
}

/// A worker, and the components that it starts.
type Worker = (Announcement, Vec<String>);

/// The workers that have load threads or components, and the layout of these alone.
pub(super) fn with_work(workers: Vec<Worker>, layout: &Layout) -> (Vec<Worker>, Layout) {
    let works =
        |(process, (_, components)): (usize, &Worker)| threads(layout, process) > 0 || !components.is_empty();
    let has: Vec<bool> = workers.iter().enumerate().map(works).collect();
    let kept = |stands: &Vec<Stand>| {
        let stands = stands.iter().zip(&has).filter(|(_, has)| **has);
        stands.map(|(own, _)| *own).collect()
    };
    let stands = layout.stands().iter().map(kept).collect();
    let workers = workers.into_iter().zip(&has).filter(|(_, has)| **has).map(|(worker, _)| worker);
    (workers.collect(), Layout::new(stands))
}

/// Load threads that a process has of a population at most.
pub(super) fn threads(layout: &Layout, process: usize) -> u32 {
    let of = |stands: &Vec<Stand>| stands.get(process).map_or(0, |stand| stand.threads());
    layout.stands().iter().map(of).max().unwrap_or(0)
}

/// Whether each subscriber that is to stand beside the devices from which it receives does; if not, which does not.
pub(super) fn check_beside(plan: &Plan, run: RunId, layout: &Layout, workers: &[&str]) -> Result<(), String> {
    let common = plan.populations().position(|own| own.population.receivers == ReceiversPlan::OfOthers);
    for (place, own) in plan.populations().enumerate().filter(|(_, own)| own.devices > 0) {
        let receivers = match own.population.receivers {
            ReceiversPlan::Common => common,
            _ => Some(place),
        };
        let of_receivers = receivers.and_then(|place| Some((place, plan.populations().nth(place)?)));
        let Some((receivers, _)) = of_receivers.filter(|(_, of)| of.sites.beside && of.own_subscribers() > 0)
        else {
            continue;
        };
        let has = |process: &usize| {
            !layout.places(place, *process).is_empty() || !layout.places(receivers, *process).is_empty()
        };
        if (0..workers.len()).filter(has).count() == 1 {
            continue;
        }
        let process_of = |number: Option<u32>| number.and_then(|number| layout.process_of(number));
        let topology = Topology::of(own, run);
        let first = own.population.first_device;
        for device in 0..own.devices {
            let at = process_of(layout.owner(place, device));
            let apart = |subscriber: &u32| process_of(layout.of_subscriber(receivers, *subscriber)) != at;
            let found = match topology.receivers(first + device) {
                Receivers::All(count) | Receivers::OneOf(count) => (0..*count).find(apart),
                Receivers::Listed(list) => list.iter().copied().find(apart),
            };
            if let Some(subscriber) = found {
                let name = |process: Option<usize>| {
                    process.and_then(|process| workers.get(process)).copied().unwrap_or_default()
                };
                let (here, there) = (name(process_of(layout.of_subscriber(receivers, subscriber))), name(at));
                return Err(format!(
                    "`subscribers.beside: devices` cannot be kept: subscriber {subscriber} stands at worker {here} and receives from \
                     device {}, which stands at {there}; give the subscribers `filters` with {{subscriber}} where the topic has \
                     {{device}}, or let the devices stand `at` one worker",
                    first + device
                ));
            }
        }
    }
    Ok(())
}

/// Whether devices that a gateway polls stand at one worker, whose process is the gateway's test manager, and that where the gateway
/// reaches it, with `ours` as the network of this host; if not, what is wrong.
pub(super) fn check_polled(
    plan: &Plan,
    layout: &Layout,
    workers: &[Worker],
    ours: Option<&str>,
) -> Result<(), String> {
    for (place, own) in plan.populations().enumerate().filter(|(_, own)| own.protocol() == Protocol::Gateway)
    {
        let processes = layout.stands().get(place).map_or(0, Vec::len);
        let has = |process: &usize| !layout.places(place, *process).is_empty();
        let managers: Vec<&Worker> = (0..processes).filter(has).filter_map(|at| workers.get(at)).collect();
        let key = if own.population.name.is_empty() { "population.at" } else { "populations[].at" };
        let (manager, _) = match managers.as_slice() {
            [] => continue,
            [one] => one,
            _ => {
                return Err(format!(
                    "devices that a gateway polls stand at one worker, which is its test manager: name one with `{key}`"
                ));
            }
        };
        let is_here = manager.network.as_deref().is_some_and(|network| Some(network) == ours);
        let apart = |(name, at): (&str, Option<&str>)| match at {
            None if is_here => None,
            None => Some(format!("component {name} is started on the coordinator's host")),
            Some(at) if manager.is_at(at) => None,
            Some(at) => Some(format!("component {name} stands at {at}")),
        };
        let components = plan.platform.profile.components.iter();
        let mut places = components.map(|component| (component.name.as_str(), component.at.as_deref()));
        if let Some(gateway) = places.find_map(apart) {
            return Err(format!(
                "worker {} has the devices that a gateway polls, and listens for it on the loopback network of its host alone, but \
                 {gateway}: let both stand at one worker, by `{key}` and `platform.at`",
                manager.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, load};
    use plimsoll_workers::frame::ProcessId;

    fn plan(text: &str) -> Plan {
        let text = format!(
            "name: t\nplatform: {{ profile: existing, address: \"mqtt://h:1\" }}\nload: {{ levels: [10/s], hold: 1s }}\n{text}"
        );
        let profile = |_: &str| Err("none".to_owned());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let source = SourceFile { name: "t".into(), text };
        load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"))
    }

    fn worker(name: &str) -> Announcement {
        Announcement::of(ProcessId(1), name)
    }

    /// What is said of subscribers of one population over two workers, with a load thread each.
    fn refused(population: &str) -> Option<String> {
        let plan = plan(&format!("population: {population}\n"));
        let workers = [worker("a"), worker("b")];
        let layout = plimsoll_workers::placement::placed(&workers, &demands(&plan)).unwrap();
        check_beside(&plan, RunId::from_bits(7), &layout, &["a", "b"]).err()
    }

    #[test]
    fn subscribers_stand_beside_their_devices_where_that_is_known_and_are_refused_elsewhere() {
        let all = refused("{ devices: 4, subscribers: { count: 2, beside: devices } }").unwrap();
        assert!(
            all.contains("subscriber 1 stands at worker b and receives from device 0, which stands at a"),
            "{all}"
        );
        let pairs = "filters: [\"plimsoll/{run}/{subscriber}\"]";
        let target = "}\nmessage: { target: \"plimsoll/{run}/{device}\"";
        let paired =
            format!("{{ devices: 4, subscribers: {{ count: 4, beside: devices, {pairs} }} {target} }}");
        assert_eq!(refused(&paired), None);
        let one = "{ devices: 4, at: a, subscribers: { count: 2, beside: devices } }";
        assert_eq!(refused(one), None, "all stand at one worker");
        assert_eq!(refused("{ devices: 4, subscribers: 2 }"), None, "nobody asks for it");
    }

    #[test]
    fn a_gateway_and_the_devices_that_it_polls_stand_at_one_worker() {
        let polled = |of_gateway: &str, of_devices: &str| {
            let text = format!(
                "name: t\nplatform: {{ profile: ./gate.yaml }}\nload: {{ levels: [10/s], hold: 1s }}\npopulation: {{ devices: 4{of_devices} }}\n"
            );
            let profile = |_: &str| {
                let component = format!(
                    "{{ name: gate, command: [gate, '{{port:gate}}'], gateway_port: gate{of_gateway} }}"
                );
                Ok(format!(
                    "name: gate\ntitle: g\ndevice: {{ speaks: gateway }}\ncomponents: [{component}]\n"
                ))
            };
            let environment = Environment { profile: &profile, variable: &|_| None };
            let source = SourceFile { name: "t".into(), text };
            let plan = load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"));
            let mut workers = [worker("a"), worker("b")];
            workers[0].network = Some("here".into());
            let layout = plimsoll_workers::placement::placed(&workers, &demands(&plan)).unwrap();
            let workers: Vec<Worker> = workers.into_iter().map(|worker| (worker, Vec::new())).collect();
            check_polled(&plan, &layout, &workers, Some("here")).err()
        };
        let refused = |of_gateway: &str, of_devices: &str, with: &str| {
            let said = polled(of_gateway, of_devices).unwrap();
            assert!(said.contains(with), "{said}");
        };
        refused("", "", "name one with `population.at`");
        refused("", ", at: b", "but component gate is started on the coordinator's host");
        refused(", at: a", ", at: b", "but component gate stands at a");
        assert_eq!(polled("", ", at: a"), None, "worker a is on this host");
        assert_eq!(polled(", at: b", ", at: b"), None);
    }

    #[test]
    fn workers_without_load_and_components_are_left_out() {
        let (none, some) = (Stand::default(), Stand::of_all(2));
        let all = Layout::new(vec![vec![some, none, none], vec![none, none, some]]);
        let workers = |of_b: Vec<String>| {
            vec![(worker("a"), Vec::new()), (worker("b"), of_b), (worker("c"), Vec::new())]
        };
        let names = |kept: &[Worker]| kept.iter().map(|(worker, _)| worker.name.clone()).collect::<Vec<_>>();
        let (kept, layout) = with_work(workers(Vec::new()), &all);
        assert_eq!(names(&kept), ["a", "c"]);
        assert_eq!(layout.stands(), [vec![some, none], vec![none, some]]);
        let (kept, layout) = with_work(workers(vec!["broker".into()]), &all);
        assert_eq!((names(&kept).len(), layout), (3, all));
    }

    #[test]
    fn each_population_says_where_its_clients_stand() {
        let plan = plan(
            "populations:\n  - { name: near, devices: 10, at: north }\n  - { name: far, devices: 5 }\n\
             subscribers: { count: 3, at: south }\n",
        );
        let demands = demands(&plan);
        let at: Vec<_> =
            demands.iter().map(|own| (own.devices.at.as_deref(), own.subscribers.count)).collect();
        assert_eq!(at, [(Some("north"), 0), (None, 0), (None, 3)]);
        assert_eq!(demands[2].subscribers.at.as_deref(), Some("south"));
        assert_eq!(plan.all_sites_in_words().unwrap(), "near: devices at north; subscribers at south");
    }
}
