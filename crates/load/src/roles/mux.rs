//! Drivers of different roles that take turns in one load thread: devices of one protocol, subscribers of another,
//! queriers beside both, and what a component of the platform tells of the devices' messages.

use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Waiting;
use crate::drivers::{BoxedPart, StageReader};
use plimsoll_model::Nanos;
use plimsoll_model::record::ObservedDevices;
use plimsoll_scenario::plan::LoadPlan;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// Who takes part beside the devices.
#[derive(Default)]
pub struct OtherRoles {
    /// Subscribers; `None` where they are clients beside the devices.
    pub listener: Option<BoxedPart>,
    /// Who asks northbound.
    pub queriers: Option<BoxedPart>,
    /// What a component of the platform tells of the devices' messages.
    pub stages: Option<Box<dyn StageReader + Send>>,
}

impl OtherRoles {
    /// Whether the devices are alone.
    pub fn is_nobody(&self) -> bool {
        self.listener.is_none() && self.queriers.is_none() && self.stages.is_none()
    }
}

/// All of them. Each part has an epoll of its own; this one waits for all.
pub struct RoleMux {
    devices: BoxedPart,
    listener: Option<BoxedPart>,
    queriers: Option<BoxedPart>,
    stages: Option<Box<dyn StageReader + Send>>,
    /// What the queriers' driver tells, as if queries were messages.
    told: Vec<Event>,
    epoll: OwnedFd,
    waiting: Waiting,
    lively: bool,
}

impl RoleMux {
    /// All of them, which wait as the plan says.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        devices: BoxedPart,
        OtherRoles { listener, queriers, stages }: OtherRoles,
        load: &LoadPlan,
    ) -> std::io::Result<RoleMux> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let parts = [
            Some(devices.descriptor()),
            listener.as_ref().map(|listener| listener.descriptor()),
            queriers.as_ref().map(|queriers| queriers.descriptor()),
            stages.as_ref().and_then(|stages| stages.descriptor()),
        ];
        for part in parts.into_iter().flatten() {
            epoll::add(&epoll, part, EventData::new_u64(0), EventFlags::IN)?;
        }
        let (told, waiting) = (Vec::new(), Waiting::of(load));
        Ok(RoleMux { devices, listener, queriers, stages, told, epoll, waiting, lively: false })
    }

    /// When the first of them has something to do whatever the network brings.
    fn next_timer(&self) -> Nanos {
        let of_queriers = self.queriers.as_ref().map_or(Nanos::MAX, |queriers| queriers.next_timer());
        let of_listener = self.listener.as_ref().map_or(Nanos::MAX, |listener| listener.next_timer());
        self.devices.next_timer().min(of_queriers).min(of_listener)
    }

    fn ask_around(&mut self, events: &mut Vec<Event>) {
        let Some(queriers) = &mut self.queriers else { return };
        let now = queriers.now();
        queriers.poll(now, &mut self.told);
        events.extend(self.told.drain(..).filter_map(of_query));
    }

    fn look(&mut self, wait: Nanos) {
        let wait = wait.max(Nanos::ZERO);
        let timeout = Timespec { tv_sec: wait.0 / 1_000_000_000, tv_nsec: wait.0 % 1_000_000_000 };
        let mut room = [const { MaybeUninit::uninit() }; 2];
        // The only error of a sound epoll instance is an interrupting signal, after which all are looked at anyway; so are those
        // for which there is no room.
        let found = epoll::wait(&self.epoll, &mut room[..], Some(&timeout));
        self.lively = found.is_ok_and(|(ready, _)| !ready.is_empty());
    }
}

/// What something told of a message means of a query.
fn of_query(event: Event) -> Option<Event> {
    match event {
        Event::Acknowledged { sequence, at, .. } => Some(Event::Answered { query: sequence, at }),
        Event::Refused { sequence, reason, .. } => Some(Event::Unanswered { query: Some(sequence), reason }),
        Event::Abandoned { sequence, .. } => {
            let reason = "a query was not answered: its connection was lost, or it took too long".to_owned();
            Some(Event::Unanswered { query: Some(sequence), reason })
        }
        Event::ConnectFailed { reason, .. }
        | Event::Disconnected { reason, .. }
        | Event::Incident { reason } => {
            Some(Event::Unanswered { query: None, reason: format!("querier: {reason}") })
        }
        _ => None,
    }
}

impl Driver for RoleMux {
    fn now(&self) -> Nanos {
        self.devices.now()
    }

    fn processor_time(&self) -> Nanos {
        self.devices.processor_time()
    }

    fn connect(&mut self, client: Client) -> bool {
        match (client, &mut self.listener) {
            (Client::Subscriber(_), Some(listener)) => listener.connect(client),
            _ => self.devices.connect(client),
        }
    }

    fn release(&mut self, client: Client) -> bool {
        match (client, &mut self.listener) {
            (Client::Subscriber(_), Some(listener)) => listener.release(client),
            _ => self.devices.release(client),
        }
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.devices.submit(device, sequence);
    }

    fn ask(&mut self, device: u32, query: u32) {
        if let Some(queriers) = &mut self.queriers {
            queriers.submit(device, query);
        }
    }

    fn ask_for_arrival(&mut self, device: u32) -> bool {
        self.devices.ask_for_arrival(device)
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.devices.withdraw(events);
        if let Some(stages) = &mut self.stages {
            stages.level_closed(events);
        }
        if let Some(queriers) = &mut self.queriers {
            queriers.withdraw(&mut self.told);
            let unanswered = self.told.drain(..).filter_map(|event| match event {
                Event::Abandoned { sequence, .. } => {
                    let reason = "a query had no answer when its level was closed".to_owned();
                    Some(Event::Unanswered { query: Some(sequence), reason })
                }
                other => of_query(other),
            });
            events.extend(unanswered);
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        // What was submitted goes out before anybody waits.
        self.devices.poll(self.now(), events);
        self.ask_around(events);
        let until = until.min(self.next_timer());
        let now = self.now();
        let urgent =
            self.devices.is_urgent() || self.queriers.as_ref().is_some_and(|queriers| queriers.is_urgent());
        if events.is_empty() && until > now {
            if !urgent && self.waiting.gather(until - now, self.lively).is_some() {
                self.look(Nanos::ZERO);
            } else {
                let spin = self.waiting.spin;
                self.look(until - now - spin);
                while !self.lively && spin > Nanos::ZERO && self.now() < until {
                    self.look(Nanos::ZERO);
                }
            }
        }
        let now = self.now();
        if let Some(listener) = &mut self.listener {
            listener.poll(now, events);
        }
        self.devices.poll(now, events);
        // After the devices: what was sent is booked before what became of it.
        if let Some(stages) = &mut self.stages {
            stages.read(events);
        }
        self.ask_around(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        // That of queries is no part of what messages cost.
        let listened = self.listener.as_mut().map(|listener| listener.take_traffic()).unwrap_or_default();
        let mut all = self.devices.take_traffic();
        all += listened;
        all
    }

    fn observed(&self) -> Option<ObservedDevices> {
        self.devices.observed()
    }

    fn disconnect(&mut self) {
        self.devices.disconnect();
        if let Some(listener) = &mut self.listener {
            listener.disconnect();
        }
        if let Some(queriers) = &mut self.queriers {
            queriers.disconnect();
        }
    }
}
