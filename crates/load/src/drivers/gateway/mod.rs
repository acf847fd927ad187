//! Passive devices and the test manager of a gateway that polls them (docs/gateway-protocol.md): what is submitted waits in its
//! device until the gateway fetches it; the gateway's log tells what became of it.

mod calls;
mod device;
mod lives;
mod log;
pub mod manager;
mod service;

use super::readiness::{Readiness, Ready};
use super::timers::Timers;
use super::{DriverContext, DriverEntry, Part, RunService};
use crate::clock::Clock;
use crate::driver::{Client, Driver, Event, StageSource, Traffic};
use crate::share::Share;
use device::Device;
use manager::Manager;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Protocol;
use rustix::event::epoll::{self, EventData, EventFlags};
use service::GatewayService;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Devices that a gateway polls; and of devices that send to a gateway by other protocols, what becomes of their events.
pub const ENTRY: DriverEntry = DriverEntry {
    service: Some(|context| {
        Ok(GatewayService::start(context)?.map(|service| Arc::new(service) as Arc<dyn RunService>))
    }),
    ..DriverEntry::of_devices(Protocol::Gateway, |context| Ok(Box::new(GatewayDriver::new(context)?)))
};

/// What is said of an event whose work failed.
const FAILED: &str = "the gateway could not do the work of an event";
/// Whose log tells of stages.
static STAGE_SOURCE: StageSource = StageSource { name: "the gateway's log", failure: FAILED };
/// Bytes read from a socket at once.
const READ_SIZE: usize = 16 * 1024;
/// How often it is looked for.
const LOOK: Nanos = Nanos::from_millis(10);
/// What the manager's news are known by.
const NEWS: u32 = u32::MAX;

/// The passive devices of one shard.
pub struct GatewayDriver {
    share: Share,
    devices: Vec<Device>,
    manager: Arc<Manager>,
    /// Devices that are ready when the test has begun.
    waiting: Vec<u32>,
    since: Nanos,
    lives: Vec<log::Life>,
    io: Io,
}

/// What all devices of a shard use in turn.
struct Io {
    clock: Clock,
    readiness: Readiness,
    delay: Nanos,
    tag: u16,
    timers: Timers<Timer>,
    /// Events that are at the gateway.
    fetched: HashSet<(u32, u32)>,
    scratch: Vec<u8>,
    traffic: Traffic,
}

/// What a device wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answer,
    Accept,
}

impl GatewayDriver {
    /// A driver for the devices of a share, which listen at the address of the manager, each on a port of its own.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance or a socket, or the run has no test manager.
    pub fn new(context: &DriverContext) -> std::io::Result<GatewayDriver> {
        let &DriverContext { ref plan, run, address, share, clock, .. } = context;
        let manager = Arc::clone(context.service::<GatewayService>()?.manager());
        let mut readiness = Readiness::new(clock, &plan.load)?;
        // A gateway waits for the answer to each of its calls.
        readiness.tell_urgency(&mut false, true);
        let io = Io {
            clock,
            readiness,
            delay: plan.gateway.delay,
            tag: run.tag(),
            timers: Timers::new(),
            fetched: HashSet::new(),
            scratch: vec![0; READ_SIZE],
            traffic: Traffic::default(),
        };
        if let Some(wake) = manager.wake(share.index) {
            let data = EventData::new_u64(super::readiness::data(NEWS, 0));
            epoll::add(io.readiness.epoll(), wake, data, EventFlags::IN)?;
        }
        let owned = share.numbers(plan.devices);
        let mut devices = Vec::new();
        let mut last = None;
        for (slot, number) in (0..).zip(owned) {
            let device = Device::listen(number, slot, (address.ip(), last), &io)?;
            let port = device.port()?;
            last = Some(port);
            manager.listens(number, port);
            devices.push(device);
        }
        let (waiting, since, lives) = (Vec::new(), Nanos::ZERO, Vec::new());
        Ok(GatewayDriver { share, devices, manager, waiting, since, lives, io })
    }

    fn device(&mut self, number: u32) -> Option<&mut Device> {
        self.devices.get_mut(self.share.slot(number) as usize)
    }

    /// Devices that wait for the gateway are ready when the test has begun, and fail when it cannot.
    fn look_for_gateway(&mut self, events: &mut Vec<Event>) {
        let waited = self.io.clock.now() - self.since;
        match self.manager.begun(waited) {
            None => {}
            Some(Ok(())) => {
                let client = self.waiting.drain(..).map(Client::Device);
                events.extend(client.map(|client| Event::Ready { client, took: waited, again: false }));
            }
            Some(Err(reason)) => {
                if let Some(device) = self.waiting.pop() {
                    self.waiting.clear();
                    // It was waited for long enough.
                    let client = Client::Device(device);
                    events.push(Event::ConnectFailed { client, reason, lasting: true });
                }
            }
        }
    }

    fn take_news(&mut self, events: &mut Vec<Event>) {
        self.manager.take(self.share.index, &mut self.lives);
        for life in self.lives.drain(..) {
            let was_fetched = self.io.fetched.remove(&(life.device, life.sequence));
            events.push(if was_fetched { life.end() } else { Event::Stray });
        }
        events.extend(self.manager.take_incidents().into_iter().map(|reason| Event::Incident { reason }));
    }
}

impl Part for GatewayDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.io.readiness.is_urgent()
    }
}

impl Driver for GatewayDriver {
    fn now(&self) -> Nanos {
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        if self.waiting.is_empty() {
            self.since = self.io.clock.now();
        }
        self.waiting.push(number);
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        let was_waiting = self.waiting.contains(&number);
        self.waiting.retain(|&waiting| waiting != number);
        if let Some(device) = self.device(number) {
            device.withdraw();
            return !was_waiting;
        }
        false
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        if let Some(device) = self.device(device) {
            device.create(sequence);
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.devices.iter_mut().for_each(Device::withdraw);
        events.extend(self.manager.take_others().told());
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let mut until = until.min(self.io.timers.next());
        if !self.waiting.is_empty() {
            self.look_for_gateway(events);
            until = until.min(self.io.clock.now() + LOOK);
        }
        self.io.readiness.wait(until);
        let found = self.io.readiness.found();
        for &Ready { slot, generation, .. } in &found {
            if slot == NEWS {
                self.take_news(events);
            } else if let Some(device) = self.devices.get_mut(slot as usize) {
                device.ready(slot, generation, &mut self.io, events);
            }
        }
        self.io.readiness.served(found);
        let now = self.io.clock.now();
        while let Some((_, slot, timer)) = self.io.timers.due(now) {
            let Some(device) = self.devices.get_mut(slot as usize) else { continue };
            match timer {
                Timer::Answer => device.elapsed(now, &mut self.io, events),
                Timer::Accept => device.accept(slot, &mut self.io),
            }
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        self.devices.iter_mut().for_each(Device::close);
    }
}
