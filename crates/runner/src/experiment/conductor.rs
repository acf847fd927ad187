//! Has the platform slowed as the blocks of a level say, each order well ahead of its time, and tells the doses.

use plimsoll_analysis::experiment::effect::{DOSE, PROCESSORS};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Dose, Order, Perturbation};
use plimsoll_model::record::{Gauge, LevelStart};
use plimsoll_platform::Platform;
use std::collections::VecDeque;

/// So long before its time an order is given.
const AHEAD: Nanos = Nanos::from_millis(500);

/// The orders of one level that were not given yet.
pub struct Conductor {
    orders: VecDeque<Order>,
    /// When those that were given begin and end.
    given: Vec<(Nanos, Nanos)>,
    /// What the host's monotonic clock showed at time zero of the run, in nanoseconds.
    epoch: i64,
}

impl Conductor {
    /// The orders of a level that is planned so: two of each block, so that the dose of what counts is told by itself.
    pub fn of(start: &LevelStart, epoch: i64) -> Conductor {
        let at = |sample: u16| start.hold_start + start.sample_begin(usize::from(sample));
        let mut orders = VecDeque::new();
        for block in start.blocks() {
            let each = block.perturbation.as_ref().map(Perturbation::of_each).unwrap_or_default();
            for (from, to) in [(block.begin, block.measured), (block.measured, block.end)] {
                let order = |(perturbation, later): &(Perturbation, Nanos)| Order {
                    perturbation: perturbation.clone(),
                    from: at(from) + *later,
                    to: at(to),
                };
                orders.extend(each.iter().map(order));
            }
        }
        Conductor { orders, given: Vec::new(), epoch }
    }

    /// Gives the orders whose time comes, and what is told of those that are over; what could not be done, for people.
    pub fn tick(&mut self, now: Nanos, platform: &mut Platform) -> (Vec<Gauge>, Option<String>) {
        let mut failed = None;
        while self.orders.front().is_some_and(|order| order.from <= now + AHEAD) {
            let Some(order) = self.orders.pop_front() else { break };
            match platform.slow(&order, self.epoch) {
                Ok(()) => self.given.push((order.from, order.to)),
                Err(error) => failed = Some(format!("a component could not be slowed: {error}")),
            }
        }
        (self.doses(platform), failed)
    }

    /// The doses that are told by now.
    pub fn doses(&self, platform: &mut Platform) -> Vec<Gauge> {
        let gauge = |dose: Dose| {
            // A guard tells times of another clock, which may differ by the rounding.
            let near = |given: &&(Nanos, Nanos)| (given.0 - dose.from).0.abs() < 1_000_000;
            let (_, to) = self.given.iter().find(near)?;
            let subject = if dose.component.is_empty() { PROCESSORS.to_owned() } else { dose.component };
            let (sampler, quantity) = (DOSE.0.to_owned(), DOSE.1.to_owned());
            Some(Gauge { at: *to, sampler, subject, quantity, unit: "share".to_owned(), value: dose.share })
        };
        platform.take_doses(self.epoch).into_iter().filter_map(gauge).collect()
    }
}
