//! Which load threads a run has at all of its processes, and what of its population each of them has.
//!
//! Each population is dealt to load threads of its own. Devices, subscribers and queriers of one population may stand at different
//! processes, so each kind is dealt to those load threads that have some of it.

use crate::share::Share;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How many load threads of one process take part in a population. Each kind of clients is dealt to the first so many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// Those that have devices.
    pub devices: u32,
    /// Those that have subscribers.
    pub subscribers: u32,
    /// Those that have queriers.
    pub queriers: u32,
}

impl Stand {
    /// So many threads that have some of each.
    pub fn of_all(threads: u32) -> Stand {
        Stand { devices: threads, subscribers: threads, queriers: threads }
    }

    /// Load threads of the population at the process.
    pub fn threads(self) -> u32 {
        self.devices.max(self.subscribers).max(self.queriers)
    }
}

/// What one load thread has of its population, whose numbers begin at zero here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its devices.
    pub devices: Share,
    /// Its subscribers.
    pub subscribers: Share,
    /// Its part of the queriers; `None` where it has none, since a share of them has one at least.
    pub queriers: Option<Share>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Of each population, what each process has.
    stands: Vec<Vec<Stand>>,
    /// Of each population, its load threads: those of the first process come first.
    seats: Vec<Vec<Seat>>,
    /// Of each population, the numbers of the load threads that have devices, in the order in which these are dealt.
    with_devices: Vec<Vec<u32>>,
    /// The same of subscribers.
    with_subscribers: Vec<Vec<u32>>,
    /// The number of the first load thread of each population, and behind the last one how many there are.
    firsts: Vec<u32>,
    /// Population and process of each load thread: among thousands of processes nobody looks for them again and again.
    homes: Vec<(usize, usize)>,
}

impl Layout {
    /// Of a run in one process, which has so many load threads of each population.
    pub fn of_one_process(populations: usize, threads: u32) -> Layout {
        Layout::new(vec![vec![Stand::of_all(threads)]; populations])
    }

    /// Of populations of which each process has so much.
    pub fn new(stands: Vec<Vec<Stand>>) -> Layout {
        let seats: Vec<Vec<Seat>> = stands.iter().map(|stands| seats(stands)).collect();
        let mut firsts = vec![0];
        let mut next = 0;
        for seats in &seats {
            next += seats.len() as u32;
            firsts.push(next);
        }
        let with = |share: fn(&Seat) -> Share| -> Vec<Vec<u32>> {
            let of = |(seats, first): (&Vec<Seat>, &u32)| {
                let numbers = (*first..).zip(seats).filter(|(_, seat)| share(seat).has_any());
                numbers.map(|(number, _)| number).collect()
            };
            seats.iter().zip(&firsts).map(of).collect()
        };
        let (with_devices, with_subscribers) = (with(|seat| seat.devices), with(|seat| seat.subscribers));
        let of = |(population, stands): (usize, &Vec<Stand>)| -> Vec<(usize, usize)> {
            let at = |(process, stand): (usize, &Stand)| {
                std::iter::repeat_n((population, process), stand.threads() as usize)
            };
            stands.iter().enumerate().flat_map(at).collect()
        };
        let homes = stands.iter().enumerate().flat_map(of).collect();
        Layout { stands, seats, with_devices, with_subscribers, firsts, homes }
    }

    /// What each process has of each population.
    pub fn stands(&self) -> &[Vec<Stand>] {
        &self.stands
    }

    /// Load threads of all populations.
    pub fn count(&self) -> usize {
        self.firsts.last().map_or(0, |all| *all as usize)
    }

    /// The load threads of a population.
    pub fn seats(&self, population: usize) -> &[Seat] {
        self.seats.get(population).map_or(&[], Vec::as_slice)
    }

    /// Their numbers among those of all populations.
    pub fn numbers(&self, population: usize) -> Range<u32> {
        let bound = |place: usize| self.firsts.get(place).copied().unwrap_or_default();
        bound(population)..bound(population + 1).max(bound(population))
    }

    /// Which of the load threads of a population a process has, by their places among these.
    pub fn places(&self, population: usize, process: usize) -> Range<u32> {
        let stands = self.stands.get(population).map_or(&[][..], Vec::as_slice);
        let threads = |stands: &[Stand]| stands.iter().map(|stand| stand.threads()).sum::<u32>();
        let first = threads(stands.get(..process).unwrap_or(stands));
        let own = stands.get(process).map_or(0, |stand| stand.threads());
        first..first + own
    }

    /// The numbers of all load threads that a process has, in rising order.
    pub fn numbers_at(&self, process: usize) -> Vec<u32> {
        let of = |population: usize| {
            let first = self.numbers(population).start;
            self.places(population, process).map(move |place| first + place)
        };
        (0..self.stands.len()).flat_map(of).collect()
    }

    /// The population of a load thread.
    pub fn population_of(&self, number: u32) -> Option<usize> {
        self.homes.get(number as usize).map(|(population, _)| *population)
    }

    /// The process of a load thread.
    pub fn process_of(&self, number: u32) -> Option<usize> {
        self.homes.get(number as usize).map(|(_, process)| *process)
    }

    /// The number of the load thread that has a subscriber, by the number of the subscriber among those of its population.
    pub fn of_subscriber(&self, population: usize, subscriber: u32) -> Option<u32> {
        let numbers = self.with_subscribers.get(population)?;
        numbers.get(Share::owner(subscriber, numbers.len() as u32) as usize).copied()
    }

    /// The number of the load thread that owns a device, by the number of the device within its population.
    #[inline]
    pub fn owner(&self, population: usize, device: u32) -> Option<u32> {
        let numbers = self.with_devices.get(population)?;
        numbers.get(Share::owner(device, numbers.len() as u32) as usize).copied()
    }
}

/// The load threads of one population, in the order of the processes.
fn seats(stands: &[Stand]) -> Vec<Seat> {
    let all = |of: fn(&Stand) -> u32| stands.iter().map(of).sum::<u32>();
    let [devices, subscribers, queriers] =
        [all(|stand| stand.devices), all(|stand| stand.subscribers), all(|stand| stand.queriers)];
    let mut dealt = Stand::default();
    let mut seats = Vec::new();
    let turn = |place: u32, own: u32, next: &mut u32, of: u32| {
        (place < own).then(|| {
            *next += 1;
            Share { index: *next - 1, of, first: 0 }
        })
    };
    for stand in stands {
        for place in 0..stand.threads() {
            seats.push(Seat {
                devices: turn(place, stand.devices, &mut dealt.devices, devices).unwrap_or(Share::NOTHING),
                subscribers: turn(place, stand.subscribers, &mut dealt.subscribers, subscribers)
                    .unwrap_or(Share::NOTHING),
                queriers: turn(place, stand.queriers, &mut dealt.queriers, queriers),
            });
        }
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::BLOCKS;

    fn stand(devices: u32, subscribers: u32, queriers: u32) -> Stand {
        Stand { devices, subscribers, queriers }
    }

    /// How many of so many numbers each load thread has, and that each has one owner.
    fn dealt(seats: &[Seat], share: impl Fn(&Seat) -> Share, all: u32) -> Vec<u32> {
        let mut owned: Vec<u32> = seats.iter().flat_map(|seat| share(seat).numbers(all)).collect();
        owned.sort_unstable();
        assert!(owned.iter().copied().eq(0..all), "each has one owner");
        seats.iter().map(|seat| share(seat).count(all)).collect()
    }

    #[test]
    fn one_process_has_everything() {
        let layout = Layout::of_one_process(2, 3);
        assert_eq!((layout.count(), layout.numbers(1)), (6, 3..6));
        assert_eq!(layout.numbers_at(0), [0, 1, 2, 3, 4, 5]);
        for population in 0..2 {
            assert_eq!(dealt(layout.seats(population), |seat| seat.devices, 100), [34, 33, 33]);
            assert_eq!(dealt(layout.seats(population), |seat| seat.subscribers, 2), [1, 1, 0]);
        }
        assert_eq!(layout.owner(1, 1), Some(4));
        assert_eq!(layout.owner(1, BLOCKS), Some(3), "what BLOCKS leaves modulo BLOCKS is 0");
        assert_eq!(layout.owner(2, 0), None);
    }

    #[test]
    fn each_kind_of_clients_stands_where_it_is_said_and_nowhere_else() {
        // Devices at the first process, subscribers at the second, queriers at the third; and a population at the third alone.
        let layout = Layout::new(vec![
            vec![stand(2, 0, 0), stand(0, 1, 0), stand(0, 0, 1)],
            vec![Stand::default(), Stand::default(), Stand::of_all(2)],
        ]);
        let seats = layout.seats(0);
        assert_eq!(dealt(seats, |seat| seat.devices, 10), [5, 5, 0, 0]);
        assert_eq!(dealt(seats, |seat| seat.subscribers, 3), [0, 0, 3, 0]);
        let with_queriers: Vec<bool> = seats.iter().map(|seat| seat.queriers.is_some()).collect();
        assert_eq!(with_queriers, [false, false, false, true]);
        let numbers = [0, 1, 2].map(|process| layout.numbers_at(process));
        assert_eq!(numbers, [vec![0, 1], vec![2], vec![3, 4, 5]]);
        assert_eq!((layout.places(1, 2), layout.places(1, 0)), (0..2, 0..0));
        assert_eq!([0, 1, 2].map(|device| layout.owner(0, device)), [0, 1, 0].map(Some));
        assert_eq!([0, 1].map(|device| layout.owner(1, device)), [4, 5].map(Some));
        assert_eq!(
            [0, 3, 5, 6].map(|number| layout.population_of(number)),
            [Some(0), Some(0), Some(1), None]
        );
        assert_eq!(
            [0, 2, 3, 5, 6].map(|number| layout.process_of(number)),
            [Some(0), Some(1), Some(2), Some(2), None]
        );
        assert_eq!((layout.of_subscriber(0, 1), layout.of_subscriber(1, 1)), (Some(2), Some(5)));
    }

    #[test]
    fn a_load_thread_without_devices_owns_none() {
        let nothing = Share::NOTHING.from(7);
        assert_eq!((nothing.count(5_000_000), nothing.part(100, 3)), (0, 0));
        assert!(nothing.numbers(5000).next().is_none());
        assert!((0..5000).all(|number| !nothing.owns(number)));
        let nobody = Layout::new(vec![vec![stand(0, 1, 0)]]);
        assert_eq!(nobody.owner(0, 3), None);
    }
}
