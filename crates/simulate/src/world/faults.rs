//! Planned faults: what goes wrong by order, for a time.

use super::{Due, World};
use crate::calendar::{Cycle, Hindrance};
use crate::spec::{Fault, FaultKind};
use plimsoll_model::Nanos;
use plimsoll_model::fault::FaultKind as Kind;

/// From one stop to the next of a station whose processor time is squeezed: the period of a quota.
const SQUEEZE: Nanos = Nanos::from_millis(100);

/// The way to the platform is broken for a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    pub from: Nanos,
    pub to: Nanos,
    /// Whether connections stay, and what is sent on them vanishes. Their ends notice that when the break is over.
    pub half_open: bool,
}

impl Break {
    pub fn is_on(&self, at: Nanos) -> bool {
        self.from <= at && at < self.to
    }
}

impl World {
    /// See [`super::Simulation::plan_fault`].
    pub(super) fn plan_fault(&mut self, component: &str, kind: Kind, (from, to): (Nanos, Nanos)) {
        let Some(place) = self.position(component) else { return };
        let from = from.max(self.now);
        if to <= from {
            return;
        }
        self.ordered.push((component.to_owned(), (from, to)));
        match kind {
            Kind::Pause => self.stations[place].hinder(from, to, Hindrance::Paused),
            Kind::Processor { keep } => {
                let stop = Nanos((SQUEEZE.0 as f64 * (1.0 - keep)) as i64);
                self.stations[place].hinder(from, to, Hindrance::Stopped(Cycle { stop, cycle: SQUEEZE }));
            }
            Kind::Cut | Kind::HalfOpen => {
                let half_open = kind == Kind::HalfOpen;
                self.breaks.push(Break { from, to, half_open });
                self.plan(if half_open { to } else { from }, Due::Break { half_open });
            }
            Kind::Delay { delay, .. } if place == 0 => {
                self.network.add(Fault { kind: FaultKind::NetworkDelay(delay), from, to });
            }
            Kind::Delay { delay, .. } => self.stations[place].delay(from, to, delay),
            Kind::Loss { share } => self.network.add(Fault { kind: FaultKind::NetworkLoss(share), from, to }),
            Kind::Kill | Kind::Restart | Kind::Memory { .. } | Kind::Disk { .. } | Kind::Rate { .. } => {}
        }
    }

    /// See [`super::Simulation::take_faults`].
    pub(super) fn take_faults(&mut self) -> Vec<(String, (Nanos, Nanos))> {
        let now = self.now;
        self.ordered.extract_if(.., |(_, (_, to))| *to <= now).collect()
    }
}
