//! The components of the platform that stand at workers, seen from the coordinator.

use super::{Fleet, FleetError};
use plimsoll_platform::{Elsewhere, PlatformError};
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::profile::Component;
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::message::{Message, Report, Reserve, StartComponent};
use plimsoll_workers::placement::Unplaced;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

/// The components that each worker is to start.
pub(super) fn placed(plan: &Plan, workers: &[Announcement]) -> Result<Vec<Vec<String>>, FleetError> {
    let mut placed = vec![Vec::new(); workers.len()];
    for component in &plan.platform.profile.components {
        let Some(at) = &component.at else { continue };
        let there: Vec<usize> = (0..workers.len())
            .filter(|place| workers.get(*place).is_some_and(|worker| worker.is_at(at)))
            .collect();
        let name = |place: &usize| workers.get(*place).map_or("", |worker| worker.name.as_str());
        let place = match there.as_slice() {
            [] => return Err(Unplaced::nobody(at, workers).into()),
            [place] => *place,
            several => {
                let names: Vec<&str> = several.iter().map(name).collect();
                return Err(FleetError::Refused {
                    worker: names.join(" and "),
                    reason: format!(
                        "both are at `{at}`, and component {} stands at one worker: write its name",
                        component.name
                    ),
                });
            }
        };
        if workers.get(place).is_some_and(|worker| !worker.starts_components) {
            return Err(FleetError::Refused {
                worker: name(&place).to_owned(),
                reason: format!(
                    "component {} stands there (`at: {at}`), and the worker starts none: start it with --allow-commands to let it run \
                     what a scenario names",
                    component.name
                ),
            });
        }
        if let Some(own) = placed.get_mut(place) {
            own.push(component.name.clone());
        }
    }
    Ok(placed)
}

/// What workers see of the components that they have started.
pub type Reports = Receiver<Report>;

impl Fleet {
    /// Whether components of the platform stand at workers.
    pub fn has_components(&self) -> bool {
        self.members.iter().any(|member| !member.components.is_empty())
    }

    /// What workers see of components from now on; once.
    pub fn take_reports(&mut self) -> Option<Reports> {
        self.reported.take()
    }

    /// Waits for a worker to answer in that way, for as long as it is there.
    fn await_answer<T>(
        &mut self,
        place: usize,
        stop: &AtomicBool,
        answer: fn(Message) -> Option<Result<T, String>>,
    ) -> Result<T, FleetError> {
        loop {
            for (from, message) in self.turn(stop)? {
                let answered = answer(message).filter(|_| from == place);
                let Some(answered) = answered else { continue };
                return answered.map_err(|reason| self.refused(place, reason));
            }
            let is_away =
                self.members.get(place).is_none_or(|member| member.link.is_away(super::monotonic()));
            if is_away {
                return Err(
                    self.refused(place, "it was not heard of while the platform was brought up".into())
                );
            }
        }
    }

    fn refused(&self, place: usize, reason: String) -> FleetError {
        let worker = self.members.get(place).map(|member| member.worker.name.clone());
        FleetError::Refused { worker: worker.unwrap_or_default(), reason }
    }
}

/// Starts what stands at workers, one component after the other.
pub struct AtWorkers<'a> {
    /// The workers.
    pub fleet: &'a mut Fleet,
    /// Of the run.
    pub plan: &'a Plan,
    /// The servers of the platform that the coordinator knows: on its host, and those that run already.
    pub servers: &'a [(String, SocketAddr)],
    /// Set to give up.
    pub stop: &'a AtomicBool,
}

impl AtWorkers<'_> {
    fn undone(error: FleetError) -> PlatformError {
        match error {
            FleetError::Interrupted => PlatformError::Interrupted,
            FleetError::Refused { worker, reason } => PlatformError::Elsewhere { worker, reason },
            error => PlatformError::Elsewhere { worker: String::new(), reason: error.to_string() },
        }
    }

    /// The component that has the port of that name.
    fn owner(&self, port: &str) -> String {
        let has = |component: &&Component| component.named_ports().any(|(_, name)| name == port);
        let owner = self.plan.platform.profile.components.iter().find(has);
        owner.map_or(port, |component| &component.name).to_owned()
    }

    fn place(&self, component: &str) -> Option<usize> {
        self.fleet.members.iter().position(|member| member.components.iter().any(|own| own == component))
    }
}

impl Elsewhere for AtWorkers<'_> {
    fn reserve(&mut self) -> Result<BTreeMap<String, SocketAddr>, PlatformError> {
        let mut known = BTreeMap::new();
        for place in 0..self.fleet.members.len() {
            let Some(member) = self.fleet.members.get_mut(place) else { continue };
            if member.components.is_empty() {
                continue;
            }
            let mqtt5 = self.plan.mqtt.version == plimsoll_codec::mqtt::Version::V5;
            let reserve = Reserve { components: member.components.clone(), mqtt5 };
            member.tell(&Message::Reserve(reserve)).map_err(AtWorkers::undone)?;
            let reserved = self.fleet.await_answer(place, self.stop, |message| match message {
                Message::Reserved(reserved) => Some(reserved),
                _ => None,
            });
            known.extend(reserved.map_err(AtWorkers::undone)?);
        }
        if let Some(capture) = &self.plan.record.capture {
            // From before the first connection of a component.
            let there = known.iter().map(|(port, address)| (self.owner(port), *address));
            let there = there.collect();
            self.fleet.begin_captures(capture, self.servers, there, self.stop).map_err(AtWorkers::undone)?;
        }
        Ok(known)
    }

    fn has(&self, component: &str) -> bool {
        self.place(component).is_some()
    }

    fn start(
        &mut self,
        component: &str,
        known: &BTreeMap<String, SocketAddr>,
    ) -> Result<Option<String>, PlatformError> {
        let Some(place) = self.place(component) else { return Ok(None) };
        let start = StartComponent { component: component.to_owned(), known: known.clone() };
        if let Some(member) = self.fleet.members.get_mut(place) {
            member.tell(&Message::Start(start)).map_err(AtWorkers::undone)?;
        }
        let started = self.fleet.await_answer(place, self.stop, |message| match message {
            Message::Started(started) => Some(started),
            _ => None,
        });
        started.map_err(AtWorkers::undone)
    }
}
