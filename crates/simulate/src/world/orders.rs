//! Experiments: the platform is slowed by order.

use super::World;
use crate::calendar::{Cycle, Hindrance};
use crate::station::Station;
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Dose, Means, Order, Perturbation};

impl World {
    /// See [`super::Simulation::slow`].
    pub(super) fn slow(&mut self, order: &Order) {
        self.forget_orders();
        let (from, to) = (order.from.max(self.now), order.to);
        if to <= from {
            return;
        }
        let Perturbation { components, means, share, stop, .. } = &order.perturbation;
        let cycle = Cycle { stop: *stop, cycle: order.perturbation.cycle() };
        let lasts = *stop > Nanos::ZERO && cycle.cycle > Nanos::ZERO;
        let stopped = if lasts { cycle.share(to - from) } else { 0.0 };
        let dose = |component: &str, share| (to, Dose { component: component.to_owned(), from, share });
        let named = |station: &&mut Station| components.iter().any(|name| name == station.name());
        let stations = self.stations.iter_mut().filter(named);
        match means {
            Means::Stop => {
                for station in stations {
                    if lasts {
                        station.hinder(from, to, Hindrance::Stopped(cycle));
                    }
                    self.doses.push(dose(station.name(), stopped));
                }
            }
            Means::Quota => {
                for station in stations {
                    let cut = station.cut(from, to, *share);
                    self.doses.push(dose(station.name(), cut));
                }
            }
            Means::Occupy => {
                if lasts {
                    self.occupy(from, to, Hindrance::Occupied(cycle));
                }
                self.doses.push(dose("", stopped));
            }
            Means::Delay => {
                for station in stations {
                    station.delay(from, to, *stop);
                    self.doses.push(dose(station.name(), 1.0));
                }
            }
        }
    }

    /// Somebody else holds the processors: those that all share, and those that stations have for themselves.
    fn occupy(&mut self, from: Nanos, to: Nanos, hindrance: Hindrance) {
        let shares = self.processors.is_some();
        if let Some(processors) = &mut self.processors {
            processors.hinder(from, to, hindrance);
        }
        for station in self.stations.iter_mut().filter(|station| !shares || station.is_sharing()) {
            station.hinder(from, to, hindrance);
        }
    }

    /// Forgets the orders before the earliest time at which something may still happen.
    fn forget_orders(&mut self) {
        let next = self.planned.peek().map_or(self.now, |planned| planned.at);
        let before = next.min(self.now);
        self.stations.iter_mut().for_each(|station| station.forget(before));
        if let Some(processors) = &mut self.processors {
            processors.forget(before);
        }
    }

    /// See [`super::Simulation::take_doses`].
    pub(super) fn take_doses(&mut self) -> Vec<Dose> {
        let now = self.now;
        let (over, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.doses).into_iter().partition(|(to, _)| *to <= now);
        self.doses = left;
        over.into_iter().map(|(_, dose)| dose).collect()
    }
}
