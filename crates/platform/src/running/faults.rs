//! Faults that a scenario plans: what guards and relays do at its time, and what is done from here.

use super::Platform;
use crate::PlatformError;
use crate::component::is_installed;
use crate::line::{How, Request, Slowdown, ToldFault};
use crate::options::Options;
use plimsoll_model::Nanos;
use plimsoll_model::fault::{FaultKind, FaultRecord};
use plimsoll_scenario::plan::FaultPlan;
use rustix::process::geteuid;
use std::io;

/// A fault that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultOver {
    /// The component.
    pub component: String,
    /// When it was to begin, on the run's clock, to some microseconds.
    pub from: Nanos,
    /// What was done.
    pub record: FaultRecord,
}

/// Whether this host allows the faults that are planned for a platform, whose devices speak over datagrams or not.
///
/// # Errors
/// Which of them it does not allow and why, for people.
pub fn check_faults(planned: &[FaultPlan], datagrams: bool) -> Result<(), String> {
    let is_root = geteuid().is_root();
    for fault in planned.iter().map(|plan| &plan.fault) {
        let refused = match fault.kind {
            FaultKind::Loss { .. } if datagrams => None,
            FaultKind::Loss { .. } if !is_root => Some(
                "only root may have the kernel lose segments of TCP; a relay has none of its own to lose",
            ),
            FaultKind::Loss { .. } if !is_installed("nft") => {
                Some("segments of TCP are lost by nftables, and there is no `nft`; install nftables")
            }
            FaultKind::Disk { .. } if !is_root => {
                Some("only root may give the component a small file system that can be full")
            }
            _ => None,
        };
        if let Some(why) = refused {
            let (component, kind) = (&fault.component, fault.kind.name());
            return Err(format!("this host allows no fault of kind `{kind}` of {component}: {why}"));
        }
    }
    Ok(())
}

impl Platform {
    /// Has a fault of a component happen between two times of the run's clock, which lie ahead; returns at once. A component that
    /// is to be killed or restarted is none of these. `epoch` is that of [`Platform::slow`].
    ///
    /// # Errors
    /// There is no such component, no relay before it takes orders, or its guard is gone.
    pub fn plan_fault(
        &mut self,
        component: &str,
        kind: FaultKind,
        (from, to): (Nanos, Nanos),
        epoch: i64,
    ) -> io::Result<()> {
        if let Some(simulation) = &self.simulation {
            simulation.plan_fault(component, kind, (from, to));
            return Ok(());
        }
        let (from, to) = (epoch + from.0, epoch + to.0);
        let how = match kind {
            FaultKind::Pause => How::Pause,
            FaultKind::Processor { keep } => How::Squeeze { keep },
            FaultKind::Memory { limit } => How::Memory { limit },
            FaultKind::Disk { .. } => How::Fill,
            FaultKind::Kill | FaultKind::Restart => return Ok(()),
            FaultKind::Cut => return self.order(component, &format!("cut {from} {to}")),
            FaultKind::HalfOpen => return self.order(component, &format!("half-open {from} {to}")),
            FaultKind::Delay { delay, jitter } => {
                return self.order(component, &format!("slow {from} {to} {} {}", delay.0, jitter.0));
            }
            FaultKind::Rate { bits } => return self.order(component, &format!("rate {from} {to} {bits}")),
            FaultKind::Loss { share } => return self.order(component, &format!("lose {from} {to} {share}")),
        };
        let missing = || {
            let what = format!("there is no component {component}");
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        let running = self.components.iter_mut().find(|running| running.name == component);
        running.ok_or_else(missing)?.process.ask(&Request::Slow(Slowdown { from, to, how }))
    }

    /// Gives an order to all relays before a component.
    fn order(&self, component: &str, order: &str) -> io::Result<()> {
        let mut relays = self.relays_before(component).peekable();
        if relays.peek().is_none() {
            let what = format!("no relay before {component} takes orders");
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        relays.try_for_each(|relay| relay.order(order))
    }

    /// The faults that are over by now, each once for each guard or relay that carried it out.
    pub fn take_faults(&mut self, epoch: i64) -> Vec<FaultOver> {
        if let Some(simulation) = &self.simulation {
            let over = |(component, span): (String, (Nanos, Nanos))| {
                let record = FaultRecord {
                    began: Some(span.0),
                    ended: Some(span.1),
                    means: "in the simulation".to_owned(),
                    failed: None,
                };
                FaultOver { component, from: span.0, record }
            };
            return simulation.take_faults().into_iter().map(over).collect();
        }
        let of = |component: &str, told: ToldFault| {
            let ToldFault { from, span, words } = told;
            let on_clock = |at: i64| Nanos(at - epoch);
            let record = match span {
                Some((began, ended)) => FaultRecord {
                    began: Some(on_clock(began)),
                    ended: Some(on_clock(ended)),
                    means: words,
                    failed: None,
                },
                None => FaultRecord { failed: Some(words), ..FaultRecord::default() },
            };
            FaultOver { component: component.to_owned(), from: on_clock(from), record }
        };
        let mut over = Vec::new();
        for running in &mut self.components {
            let told = running.process.take_faults();
            over.extend(told.into_iter().map(|told| of(&running.name, told)));
            if let Some(relay) = &mut running.relay {
                let component = relay.component.clone();
                over.extend(relay.take_faults().into_iter().map(|told| of(&component, told)));
            }
        }
        over
    }

    /// Asks a component to end (SIGTERM), and does not wait for it. It is not told as a death.
    pub fn ask_to_end(&mut self, component: &str) {
        if let Some(simulation) = &self.simulation {
            simulation.kill(component);
        }
        if let Some(running) = self.components.iter_mut().find(|running| running.name == component) {
            running.reported = true;
            running.process.ask_to_end();
        }
    }

    /// Whether a component that was asked to end has ended, with all that it has started.
    pub fn has_ended(&mut self, component: &str) -> bool {
        let running = self.components.iter_mut().find(|running| running.name == component);
        running.is_none_or(|running| !running.process.goes_on())
    }

    /// The same as [`Platform::start_again`] of a component that has ended, or is killed now.
    ///
    /// # Errors
    /// See there.
    pub fn end_and_start_again(&mut self, component: &str, options: &Options) -> Result<(), PlatformError> {
        if let Some(running) = self.components.iter_mut().find(|running| running.name == component) {
            running.process.kill();
        }
        self.start_again(component, options)
    }
}
