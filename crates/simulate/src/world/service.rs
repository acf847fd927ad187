//! How stations serve: what a worker does goes from its processor over its waiting to the lock, and then on to the next
//! station.

use super::{Due, HOP, World};
use crate::station::{Job, Service};
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// A lock of the workers of one station, or of several. Who asked first gets it first, but for those who stand still.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// The station that has it.
    holder: Option<usize>,
    waiting: VecDeque<Service>,
}

/// What a station has served for the next one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Messages on the way to the next station, or there.
    away: usize,
    waiting: VecDeque<Job>,
}

impl World {
    fn is_void(&self, service: &Service) -> bool {
        self.stations[service.station].life != service.life
    }

    /// A worker goes on with what is left of a job; its station works at that moment.
    pub(super) fn go_on(&mut self, mut service: Service, now: Nanos) {
        if self.is_void(&service) {
            return;
        }
        let station = &mut self.stations[service.station];
        if service.run > Nanos::ZERO {
            if self.processors.is_some() {
                return self.ask(service, now);
            }
            let until = station.run(std::mem::take(&mut service.run), now);
            self.plan(until, Due::GoOn(service));
        } else if service.rest > Nanos::ZERO {
            let rest = std::mem::take(&mut service.rest);
            // It ends at its time, and that is noticed once the station works.
            let until = station.stay(Nanos::ZERO, now + rest);
            self.plan(until, Due::GoOn(service));
        } else if service.locked > (Nanos::ZERO, Nanos::ZERO) {
            let lock = self.lock_of(service.station);
            self.locks[lock].waiting.push_back(service);
            self.give(lock, now);
        } else {
            self.finish(service, now);
        }
    }

    fn finish(&mut self, service: Service, now: Nanos) {
        if service.holds {
            self.unlock(service.station, now);
        }
        let next = self.stations[service.station].next(now);
        self.pass_on(service.station, service.job, now);
        if let Some(fate) = next {
            self.follow(service.station, fate, now);
        }
    }

    /// The lock of a station, by the position of the first station that has the same.
    fn lock_of(&self, station: usize) -> usize {
        let shared = |station: usize| self.spec.stations.get(station).and_then(|station| station.shared_lock);
        let first = (0..station).find(|other| shared(*other).is_some() && shared(*other) == shared(station));
        first.unwrap_or(station)
    }

    /// Gives a lock that is free to the first who asked for it and does not stand still.
    pub(super) fn give(&mut self, lock: usize, now: Nanos) {
        let World { locks, stations, .. } = self;
        let Lock { holder, waiting } = &mut locks[lock];
        if holder.is_some() {
            return;
        }
        waiting.retain(|service| stations[service.station].life == service.life);
        let works = |service: &Service| stations[service.station].next_work(now);
        if let Some(first) = waiting.iter().position(|service| works(service) == now)
            && let Some(mut service) = waiting.remove(first)
        {
            *holder = Some(service.station);
            (service.run, service.rest) = std::mem::take(&mut service.locked);
            service.holds = true;
            self.go_on(service, now);
        } else if let Some(next) = waiting.iter().map(works).min() {
            self.plan(next, Due::Give(lock));
        }
    }

    /// A station is through with its lock, or died with it.
    pub(super) fn unlock(&mut self, station: usize, now: Nanos) {
        let lock = self.lock_of(station);
        if self.locks[lock].holder == Some(station) {
            self.locks[lock].holder = None;
            self.give(lock, now);
        }
    }

    /// A worker wants one of the processors that all share, as soon as its station works.
    fn ask(&mut self, service: Service, now: Nanos) {
        let at = self.stations[service.station].stay(Nanos::ZERO, now);
        if at > now || service.run == Nanos::ZERO {
            self.plan(at, Due::GoOn(service));
        } else if let Some(processors) = &mut self.processors {
            processors.ask(service);
            self.dispatch(now);
        }
    }

    /// Puts work on the processors that are free.
    fn dispatch(&mut self, now: Nanos) {
        while let Some(processors) = &mut self.processors
            && let Some(mut service) = processors.take_next()
        {
            let station = &mut self.stations[service.station];
            if station.life != service.life {
                continue;
            }
            let works = station.stay(Nanos::ZERO, now);
            if works > now {
                self.plan(works, Due::GoOn(service));
                continue;
            }
            let (end, done) = processors.begin(now, service.run, |end| station.works_until(now, end));
            station.processor += done;
            station.starved += end - now - done;
            service.run = service.run - done;
            self.plan(end, Due::SliceEnds(service));
        }
    }

    /// A processor is free again.
    pub(super) fn end_slice(&mut self, service: Service, now: Nanos) {
        if let Some(processors) = &mut self.processors {
            processors.release();
        }
        if !self.is_void(&service) {
            self.ask(service, now);
        }
        self.dispatch(now);
    }

    /// A station has a message for the next one, which has to wait where the pool between them is empty.
    pub(super) fn hand_over(&mut self, station: usize, job: Job, now: Nanos) {
        self.outboxes[station].waiting.push_back(job);
        self.empty_outbox(station, now);
    }

    /// Sends on what has a place at the next station.
    pub(super) fn empty_outbox(&mut self, station: usize, now: Nanos) {
        let pool = self.spec.stations[station].pool.unwrap_or(usize::MAX);
        while self.outboxes[station].away < pool
            && let Some(job) = self.outboxes[station].waiting.pop_front()
        {
            self.outboxes[station].away += 1;
            let delayed = self.stations[station + 1].delayed(now);
            self.plan(now + HOP + delayed, Due::Arrive(station + 1, job));
        }
    }

    /// So many messages are no longer at a station: the one before sends more, as soon as it hears of it and works.
    pub(super) fn free_places(&mut self, station: usize, count: usize, now: Nanos) {
        match self.stations[station].delayed(now) {
            Nanos::ZERO => self.hear_of_places(station, count, now),
            delayed => self.plan(now + delayed, Due::HearOfPlaces(station, count)),
        }
    }

    /// See [`World::free_places`].
    pub(super) fn hear_of_places(&mut self, station: usize, count: usize, now: Nanos) {
        let Some(before) = station.checked_sub(1) else { return };
        let outbox = &mut self.outboxes[before];
        outbox.away = outbox.away.saturating_sub(count);
        if !outbox.waiting.is_empty() {
            let at = self.stations[before].next_work(now);
            self.plan(at, Due::EmptyOutbox(before));
        }
    }

    /// What a station has for the next one is gone with it; what is there already stays.
    pub(super) fn clear_outbox(&mut self, station: usize) {
        self.outboxes[station].waiting.clear();
    }
}
