//! Which worker has what of each population: by processors, at the workers that the scenario names.

use crate::announcement::Announcement;
use plimsoll_load::layout::{Layout, Stand};
use plimsoll_model::text::grouped;

/// Clients of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// How many.
    pub count: u32,
    /// The site or the worker at which they stand; `None` for all workers.
    pub at: Option<String>,
}

/// A population that is to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Its devices.
    pub devices: Clients,
    /// The subscribers that connect by its plan.
    pub subscribers: Clients,
    /// Those who ask northbound.
    pub queriers: Clients,
    /// The population beside whose devices its subscribers stand, by its place.
    pub beside: Option<usize>,
}

/// Why populations cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplaced {
    /// No worker is where the scenario wants one.
    #[error(
        "no worker is at `{at}`: {there}; start one there with `plimsoll worker --join SERVER --site {at}`, or change `at` in the scenario"
    )]
    Nobody {
        /// The site or the name.
        at: String,
        /// Who is there, for people.
        there: String,
    },
    /// A worker cannot hold its part.
    #[error(
        "worker {worker} can hold {} connections, and its part of the run has {}: more workers, or a higher limit of open files there \
         (`ulimit -n`), help",
        grouped(*room as f64),
        grouped(*part as f64)
    )]
    NoRoom {
        /// Its name.
        worker: String,
        /// What it can hold.
        room: u64,
        /// What it would have.
        part: u64,
    },
}

impl Unplaced {
    /// Of these workers, none is there.
    pub fn nobody(at: &str, workers: &[Announcement]) -> Unplaced {
        Unplaced::Nobody { at: at.to_owned(), there: there(workers) }
    }
}

/// Which load threads each worker has, in the order of the workers. Clients of each kind are dealt evenly to the load threads of those
/// workers at which they stand: as many as a worker has processors, and no more than there are clients for.
///
/// # Errors
/// [`Unplaced`].
pub fn placed(workers: &[Announcement], populations: &[Demand]) -> Result<Layout, Unplaced> {
    let mut stands: Vec<Vec<Stand>> = Vec::new();
    for demand in populations {
        let [devices, subscribers, queriers] =
            [&demand.devices, &demand.subscribers, &demand.queriers].map(|clients| threads(workers, clients));
        let (devices, subscribers, queriers) = (devices?, subscribers?, queriers?);
        let of_each = devices.into_iter().zip(subscribers).zip(queriers);
        let own = of_each.map(|((devices, subscribers), queriers)| Stand { devices, subscribers, queriers });
        stands.push(own.collect());
    }
    for (place, demand) in populations.iter().enumerate() {
        let Some(devices) = demand.beside.and_then(|beside| stands.get(beside)).cloned() else { continue };
        for (own, beside) in stands.get_mut(place).into_iter().flatten().zip(devices) {
            own.subscribers = if demand.subscribers.count > 0 { beside.devices } else { 0 };
        }
    }
    let layout = Layout::new(stands);
    check_room(workers, populations, &layout)?;
    Ok(layout)
}

/// How many load threads of each worker have clients of one kind.
fn threads(workers: &[Announcement], clients: &Clients) -> Result<Vec<u32>, Unplaced> {
    if clients.count == 0 {
        return Ok(vec![0; workers.len()]);
    }
    let is_there = |worker: &Announcement| clients.at.as_ref().is_none_or(|at| worker.is_at(at));
    let processors = |worker: &Announcement| if is_there(worker) { worker.processors.max(1) } else { 0 };
    let mut threads: Vec<u32> = workers.iter().map(processors).collect();
    if let Some(at) = clients.at.as_ref().filter(|_| threads.iter().all(|threads| *threads == 0)) {
        return Err(Unplaced::nobody(at, workers));
    }
    // One after the other, from the worker with the most threads, gives one back.
    while threads.iter().sum::<u32>() > clients.count {
        let Some(largest) = threads.iter_mut().rev().max_by_key(|threads| **threads) else { break };
        *largest -= 1;
    }
    Ok(threads)
}

/// The workers that are there, for people.
fn there(workers: &[Announcement]) -> String {
    let shown = |worker: &Announcement| match &worker.site {
        Some(site) => format!("{} (site {site})", worker.name),
        None => worker.name.clone(),
    };
    let shown: Vec<String> = workers.iter().map(shown).collect();
    let are = if shown.len() == 1 { "is" } else { "are" };
    format!("there {are} {}", shown.join(", "))
}

/// Devices, subscribers and queriers of each population that stand at a worker.
pub fn clients_at(process: usize, populations: &[Demand], layout: &Layout) -> Vec<[u32; 3]> {
    let of = |(population, demand): (usize, &Demand)| {
        let places = layout.places(population, process);
        let seats = layout.seats(population).get(places.start as usize..places.end as usize);
        seats.unwrap_or_default().iter().fold([0; 3], |[devices, subscribers, queriers], seat| {
            [
                devices + seat.devices.count(demand.devices.count),
                subscribers + seat.subscribers.count(demand.subscribers.count),
                queriers
                    + seat.queriers.map_or(0, |share| share.queriers(demand.queriers.count).count()) as u32,
            ]
        })
    };
    populations.iter().enumerate().map(of).collect()
}

/// Whether each worker can hold its connections.
fn check_room(workers: &[Announcement], populations: &[Demand], layout: &Layout) -> Result<(), Unplaced> {
    for (process, worker) in workers.iter().enumerate() {
        let clients = clients_at(process, populations, layout);
        let part: u64 = clients.into_iter().flatten().map(u64::from).sum();
        if let Some(room) = worker.connections().filter(|room| *room < part) {
            return Err(Unplaced::NoRoom { worker: worker.name.clone(), room, part });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ProcessId;

    fn worker(name: &str, site: Option<&str>, processors: u32, descriptors: u64) -> Announcement {
        Announcement {
            site: site.map(str::to_owned),
            processors,
            descriptors: Some(descriptors),
            ports: Some(28_000),
            ..Announcement::of(ProcessId(u64::from(processors)), name)
        }
    }

    fn clients(count: u32, at: Option<&str>) -> Clients {
        Clients { count, at: at.map(str::to_owned) }
    }

    fn devices(count: u32, at: Option<&str>) -> Demand {
        Demand { devices: clients(count, at), ..Demand::default() }
    }

    /// Load threads with devices of the first population, of each worker.
    fn dealt(workers: &[Announcement], demand: Demand) -> Vec<u32> {
        let layout = placed(workers, &[demand]).unwrap();
        layout.stands()[0].iter().map(|stand| stand.devices).collect()
    }

    #[test]
    fn load_threads_follow_processors_and_devices() {
        let workers =
            [worker("a", None, 4, 50_000), worker("b", None, 1, 50_000), worker("c", None, 2, 50_000)];
        assert_eq!(dealt(&workers, devices(1_000, None)), [4, 1, 2]);
        assert_eq!(dealt(&workers, devices(5, None)), [2, 1, 2], "no thread without a device");
        assert_eq!(dealt(&workers, devices(2, None)).iter().sum::<u32>(), 2);
    }

    #[test]
    fn who_cannot_hold_its_part_is_named() {
        let workers = [worker("a", None, 2, 50_000), worker("b", None, 1, 1_100)];
        assert_eq!(dealt(&workers, devices(3_000, None)), [2, 1]);
        let refused = placed(&workers, &[devices(3_072, None)]).unwrap_err();
        assert_eq!(refused, Unplaced::NoRoom { worker: "b".into(), room: 1_000, part: 1_024 });
        assert!(
            refused.to_string().contains("can hold 1,000 connections, and its part of the run has 1,024")
        );
        let ports = placed(&[worker("a", None, 1, 50_000)], &[devices(28_001, None)]).unwrap_err();
        assert_eq!(ports, Unplaced::NoRoom { worker: "a".into(), room: 28_000, part: 28_001 });
    }

    #[test]
    fn clients_stand_at_the_site_or_the_worker_that_is_named_and_others_at_all() {
        let workers = [
            worker("a", Some("north"), 2, 50_000),
            worker("b", Some("north"), 1, 50_000),
            worker("c", Some("south"), 4, 50_000),
        ];
        assert_eq!(dealt(&workers, devices(100, Some("north"))), [2, 1, 0], "by capacity within the site");
        assert_eq!(dealt(&workers, devices(100, Some("b"))), [0, 1, 0]);
        assert_eq!(dealt(&workers, devices(100, None)), [2, 1, 4]);
        let apart = Demand {
            devices: clients(100, Some("north")),
            subscribers: clients(9, Some("south")),
            queriers: clients(1, Some("b")),
            beside: None,
        };
        let layout = placed(&workers, &[apart]).unwrap();
        let stand = |devices, subscribers, queriers| Stand { devices, subscribers, queriers };
        assert_eq!(layout.stands(), [vec![stand(2, 0, 0), stand(1, 0, 1), stand(0, 4, 0)]]);
    }

    #[test]
    fn a_site_without_a_worker_is_refused_with_those_that_are_there() {
        let workers = [worker("a", Some("north"), 2, 50_000), worker("b", None, 1, 50_000)];
        let refused = placed(&workers, &[devices(10, Some("west"))]).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("no worker is at `west`: there are a (site north), b;"), "{told}");
        // Nobody stands there who does not exist.
        assert!(placed(&workers, &[devices(0, Some("west"))]).is_ok());
    }

    #[test]
    fn subscribers_beside_devices_are_dealt_as_these() {
        let workers = [worker("a", None, 2, 50_000), worker("b", None, 2, 50_000)];
        let own = Demand {
            devices: clients(10, Some("b")),
            subscribers: clients(10, None),
            beside: Some(0),
            ..Demand::default()
        };
        let common = Demand { subscribers: clients(1, None), beside: Some(0), ..Demand::default() };
        let layout = placed(&workers, &[own, common]).unwrap();
        let subscribers = |stands: &[Stand]| stands.iter().map(|stand| stand.subscribers).collect::<Vec<_>>();
        let dealt: Vec<_> = layout.stands().iter().map(|stands| subscribers(stands)).collect();
        assert_eq!(dealt, [[0, 2], [0, 2]]);
    }

    #[test]
    fn where_devices_stand_changes_no_owner_of_a_block() {
        // Due times belong to devices: each device has one load thread, wherever that is.
        let workers = [worker("a", Some("north"), 2, 50_000), worker("b", Some("south"), 3, 50_000)];
        for at in [None, Some("north"), Some("south")] {
            let layout = placed(&workers, &[devices(5_000, at)]).unwrap();
            let mut owned: Vec<u32> =
                layout.seats(0).iter().flat_map(|seat| seat.devices.numbers(5_000)).collect();
            owned.sort_unstable();
            assert!(owned.into_iter().eq(0..5_000), "{at:?}");
        }
    }
}
