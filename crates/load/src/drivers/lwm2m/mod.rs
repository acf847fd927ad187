//! The LwM2M driver: devices that register at a server, are observed by it and notify it of their messages.
//!
//! [`devices`] is all of them as a state machine without I/O; [`objects`] what they have, [`own`] what a server changed at one of
//! them, [`observations`] who is to be notified, [`operations`] what a server may ask, [`registration`] how they present
//! themselves, [`exchanges`] what is under way. [`bootstrap`] is what devices learn of their server before, [`firmware`] what
//! they download, [`changing`] how values change and [`conditions`] when that is worth a notification, [`blocks`] what is too
//! large for one message. [`hub`] is their sockets, and [`sessions`] what secures their datagrams.

mod blocks;
mod bootstrap;
mod changing;
mod conditions;
mod devices;
mod exchanges;
mod firmware;
mod hub;
mod objects;
mod observations;
mod operations;
mod own;
mod registration;
mod sessions;

use crate::clock::Clock;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Readiness;
use crate::drivers::{DriverContext, DriverEntry, Part};
use crate::share::Share;
use crate::sources::Sources;
use devices::Devices;
use hub::{Datagram, Hub, Reading};
use plimsoll_model::Nanos;
use plimsoll_model::record::ObservedDevices;
use plimsoll_scenario::plan::Protocol;
use sessions::Sessions;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read at once: the largest datagram.
const READ_SIZE: usize = 64 * 1024;
/// Datagrams read from a socket before others have their turn, and before messages go that are due.
const READINGS: usize = 64;
/// Turns of a poll in which what was sent makes way for more.
const TURNS: usize = 64;
/// Datagrams without room in the kernel after which no more are tried, and how long they wait then.
const MOST_REFUSED: usize = 8;
const CROWDED: Nanos = Nanos::from_millis(1);

/// Devices alone: what they notify of goes through the server.
pub const ENTRY: DriverEntry =
    DriverEntry::of_devices(Protocol::Lwm2m, |context| Ok(Box::new(Lwm2mDriver::new(context)?)));

/// Devices of one shard that speak LwM2M.
pub struct Lwm2mDriver {
    share: Share,
    clock: Clock,
    readiness: Readiness,
    devices: Devices,
    hub: Hub,
    /// Where datagrams are secured.
    sessions: Option<Sessions>,
    urgent: bool,
    /// Whether something found no room in the kernel.
    is_crowded: bool,
    scratch: Vec<u8>,
    traffic: Traffic,
}

impl Lwm2mDriver {
    /// A driver for the devices of a share, none of them registered yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance or a socket, or the platform has nobody who bootstraps devices.
    pub fn new(context: &DriverContext) -> std::io::Result<Lwm2mDriver> {
        let &DriverContext { ref plan, address, bootstrap, share, clock, .. } = context;
        if plan.lwm2m.bootstrap && bootstrap.is_none() {
            let reason = "devices are to be bootstrapped, and the platform has no port `bootstrap`; \
                          give its number under `platform.ports`";
            return Err(std::io::Error::other(reason));
        }
        let readiness = Readiness::new(clock, &plan.load)?;
        let sources = Sources::new(plan.connection.source_addresses.clone(), address);
        let bootstrap_port = bootstrap.filter(|_| plan.lwm2m.bootstrap).map(|address| address.port());
        let count = share.count(plan.devices);
        let sessions = plan.coap.dtls.as_ref().map(|dtls| Sessions::new(dtls, count, bootstrap_port));
        let ports = (address, sources, plan.lwm2m.nat_rebinding);
        let hub = Hub::new(share, plan.devices, ports, readiness.epoll())?;
        let mut devices = Devices::new(context);
        devices.hears_one_port |= hub.hears_one_port();
        Ok(Lwm2mDriver {
            share,
            clock,
            devices,
            sessions: sessions.transpose().map_err(std::io::Error::other)?,
            hub,
            readiness,
            urgent: false,
            is_crowded: false,
            scratch: vec![0; READ_SIZE],
            traffic: Traffic::default(),
        })
    }

    /// Lets time pass, and sends what waits for that.
    fn turn(&mut self, events: &mut Vec<Event>) {
        self.shake_hands(events);
        for _ in 0..TURNS {
            self.devices.tick(self.clock.now(), events);
            self.flush(events);
            // What is not acknowledged makes way for the next message as soon as it is sent.
            if !self.devices.is_dirty() || self.is_crowded {
                return;
            }
        }
    }

    /// Sends what can be sent. What finds no room waits: the kernel passes on what it has within a moment.
    fn flush(&mut self, events: &mut Vec<Event>) {
        if self.sessions.is_some() {
            return self.flush_secured(events);
        }
        let Lwm2mDriver { devices, hub, readiness, clock, traffic, .. } = self;
        let mut waiting = devices.take_outgoing();
        let mut refused = 0;
        waiting.retain(|outgoing| {
            if refused >= MOST_REFUSED {
                return true;
            }
            let at = clock.now();
            let Some((slot, port, datagram)) = devices.datagram(outgoing) else { return false };
            match hub.send((slot, port), datagram, (readiness.epoll(), at), traffic) {
                Ok(true) => devices.was_sent(outgoing, at, events),
                Ok(false) => {
                    refused += 1;
                    return true;
                }
                Err(reason) => devices.failed_to_send(slot, reason, at, events),
            }
            false
        });
        devices.keep(waiting);
        self.is_crowded = refused > 0;
    }

    /// The same over the sessions of devices. What was secured counts as sent: the same is never secured twice.
    fn flush_secured(&mut self, events: &mut Vec<Event>) {
        let Lwm2mDriver { devices, clock, traffic, sessions, .. } = self;
        let Some(sessions) = sessions else { return };
        for outgoing in devices.take_outgoing() {
            let at = clock.now();
            let Some((slot, port, message)) = devices.datagram(&outgoing) else { continue };
            match sessions.secure((slot, port), message, at, traffic) {
                Ok(()) => devices.was_sent(&outgoing, at, events),
                Err(reason) => devices.lost_session((slot, port), reason, at, events),
            }
        }
        devices.keep(Vec::new());
        // A device answers its bootstrap server before it turns to its own: it may hear the one that it has sent to
        // last alone.
        self.begin_sessions(events);
        self.send_sealed(events);
    }

    /// Sends what sessions have made.
    fn send_sealed(&mut self, events: &mut Vec<Event>) {
        let Lwm2mDriver { devices, hub, readiness, clock, traffic, sessions, .. } = self;
        let Some(sessions) = sessions else { return };
        let mut waiting = sessions.take_outgoing();
        let mut refused = 0;
        waiting.retain(|sealed| {
            if refused >= MOST_REFUSED {
                return true;
            }
            let to = (sealed.slot, sealed.port);
            match hub.send(to, &sealed.datagram, (readiness.epoll(), clock.now()), traffic) {
                Ok(true) => false,
                Ok(false) => {
                    refused += 1;
                    true
                }
                Err(reason) => {
                    devices.lost_session(to, reason, clock.now(), events);
                    false
                }
            }
        });
        sessions.keep(waiting);
        self.is_crowded = refused > 0;
    }

    /// Begins the sessions that devices wait for.
    fn begin_sessions(&mut self, events: &mut Vec<Event>) {
        let Some(sessions) = &mut self.sessions else { return };
        while let Some(wanted) = self.devices.wants_session() {
            let (slot, now) = (wanted.slot, self.clock.now());
            sessions.leave_bootstrap(slot, self.hub.hears_one_port(), now);
            if let Err(reason) = sessions.begin(&wanted, self.share.number(slot), now) {
                self.devices.lost_session((slot, wanted.port), reason, now, events);
            }
        }
    }

    /// Repeats what of handshakes was not answered.
    fn shake_hands(&mut self, events: &mut Vec<Event>) {
        let Some(sessions) = &mut self.sessions else { return };
        let now = self.clock.now();
        while let Some(of) = sessions.due(now) {
            if let Err(reason) = sessions.tick(of, now) {
                self.devices.lost_session(of, reason, now, events);
            }
        }
    }

    /// Takes in a datagram that came.
    fn take(&mut self, datagram: &Datagram, bytes: &[u8], events: &mut Vec<Event>) {
        let now = self.clock.now();
        let at = self.readiness.received_at(now, datagram.lag);
        let (slot, port) = (datagram.slot, datagram.port);
        let Some(sessions) = &mut self.sessions else {
            return self.devices.incoming((slot, port), bytes, at, events);
        };
        match sessions.incoming((slot, port), bytes, now) {
            Ok(Some(took)) => {
                events.push(Event::Secured { took, resumed: false });
                self.devices.secured((slot, port), at);
            }
            Ok(None) => {}
            Err(reason) => return self.devices.lost_session((slot, port), reason, at, events),
        }
        while let Some(message) = sessions.message((slot, port), bytes.len(), &mut self.traffic) {
            self.devices.incoming((slot, port), &message, at, events);
        }
    }

    fn read(&mut self, ready: u32, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..READINGS {
            match self.hub.read(ready, &mut scratch, self.clock, &mut self.traffic) {
                Ok(Reading::Foreign) => events.push(Event::Stray),
                Ok(Reading::Late) => {
                    let reason =
                        "a datagram of the server went to a port that a device had before (`nat_rebinding`)";
                    events.push(Event::Incident { reason: reason.to_owned() });
                }
                Ok(Reading::Datagram(datagram)) => {
                    let bytes = scratch.get(..datagram.length).unwrap_or_default();
                    self.take(&datagram, bytes, events);
                }
                Ok(Reading::Nothing) => break,
                Err(reason) => {
                    let now = self.clock.now();
                    match self.devices.peer(ready).filter(|_| self.sessions.is_some()) {
                        Some(port) => self.devices.lost_session((ready, port), reason, now, events),
                        None => self.devices.failed_to_send(ready, reason, now, events),
                    }
                    break;
                }
            }
        }
        self.scratch = scratch;
        let dropped = self.hub.take_dropped();
        self.traffic.overflowed += u64::from(dropped);
        if dropped > 0 {
            let reason = "datagrams of the server found no room at our socket".to_owned();
            events.push(Event::Incidents { reason, times: u64::from(dropped) });
        }
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.readiness.tell_urgency(&mut self.urgent, self.devices.is_waiting());
        if self.devices.expect_nothing() {
            self.readiness.expect_nothing();
        }
        self.readiness.wait(until.min(self.next_timer()));
        let found = self.readiness.found();
        found.iter().for_each(|ready| self.read(ready.slot, events));
        self.readiness.served(found);
    }
}

impl Part for Lwm2mDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        if self.devices.is_dirty() && !self.is_crowded {
            return self.clock.now();
        }
        let of_sessions = self.sessions.as_ref().map_or(Nanos::MAX, Sessions::next_timer);
        let next = self.devices.next_timer().min(of_sessions);
        if self.is_crowded { next.min(self.clock.now() + CROWDED) } else { next }
    }

    fn is_urgent(&self) -> bool {
        self.readiness.is_urgent()
    }
}

impl Driver for Lwm2mDriver {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        self.devices.connect(self.share.slot(number), self.clock.now())
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        self.devices.release(self.share.slot(number), self.clock.now())
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.devices.submit(self.share.slot(device), sequence);
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.devices.withdraw(self.clock.now(), events);
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.turn(events);
        self.wait(until, events);
        self.turn(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        let mut traffic = std::mem::take(&mut self.traffic);
        traffic += std::mem::take(&mut self.devices.traffic);
        traffic
    }

    fn observed(&self) -> Option<ObservedDevices> {
        self.devices.observed()
    }

    fn disconnect(&mut self) {
        self.devices.disconnect(self.clock.now());
        self.flush(&mut Vec::new());
        if let Some(sessions) = &mut self.sessions {
            let now = self.clock.now();
            sessions.close_all(now);
        }
        self.flush(&mut Vec::new());
        self.hub.close();
    }
}
