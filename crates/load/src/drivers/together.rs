//! Drivers of different roles that take turns in one load thread: devices of one protocol, subscribers of another.

use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::Part;
use plimsoll_model::Nanos;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::thread::clock_nanosleep_relative;
use rustix::time::ClockId;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// Devices and subscribers that do not speak the same. Each part has an epoll of its own; this one waits for both.
pub struct Together<D, S> {
    devices: D,
    subscribers: S,
    epoll: OwnedFd,
    coalescing: Nanos,
    spin: Nanos,
    lively: bool,
}

impl<D: Part, S: Part> Together<D, S> {
    /// Both of them.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        devices: D,
        subscribers: S,
        coalescing: Nanos,
        spin: Nanos,
    ) -> std::io::Result<Together<D, S>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, devices.descriptor(), EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, subscribers.descriptor(), EventData::new_u64(1), EventFlags::IN)?;
        Ok(Together { devices, subscribers, epoll, coalescing, spin, lively: false })
    }

    fn look(&mut self, wait: Nanos) {
        let wait = wait.max(Nanos::ZERO);
        let timeout = Timespec { tv_sec: wait.0 / 1_000_000_000, tv_nsec: wait.0 % 1_000_000_000 };
        let mut room = [const { MaybeUninit::uninit() }; 2];
        // The only error of a sound epoll instance is an interrupting signal, after which both are looked at anyway.
        let found = epoll::wait(&self.epoll, &mut room[..], Some(&timeout));
        self.lively = found.is_ok_and(|(ready, _)| !ready.is_empty());
    }
}

impl<D: Part, S: Part> Driver for Together<D, S> {
    fn now(&self) -> Nanos {
        self.devices.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        match client {
            Client::Device(_) => self.devices.connect(client),
            Client::Subscriber(_) => self.subscribers.connect(client),
        }
    }

    fn release(&mut self, client: Client) -> bool {
        match client {
            Client::Device(_) => self.devices.release(client),
            Client::Subscriber(_) => self.subscribers.release(client),
        }
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.devices.submit(device, sequence);
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.devices.withdraw(events);
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        // What was submitted goes out before anybody waits.
        self.devices.poll(self.now(), events);
        let until = until.min(self.devices.next_timer()).min(self.subscribers.next_timer());
        let now = self.now();
        let urgent = self.devices.is_urgent() || self.subscribers.is_urgent();
        if events.is_empty() && until > now {
            if self.lively && self.coalescing > Nanos::ZERO && !urgent {
                let span = self.coalescing.min(until - now);
                let span = Timespec { tv_sec: span.0 / 1_000_000_000, tv_nsec: span.0 % 1_000_000_000 };
                // Cut short by a signal, it only gathers less.
                let _ = clock_nanosleep_relative(ClockId::Monotonic, &span);
                self.look(Nanos::ZERO);
            } else {
                self.look(until - now - self.spin);
                while !self.lively && self.spin > Nanos::ZERO && self.now() < until {
                    self.look(Nanos::ZERO);
                }
            }
        }
        let now = self.now();
        self.subscribers.poll(now, events);
        self.devices.poll(now, events);
    }

    fn take_traffic(&mut self) -> Traffic {
        let (one, other) = (self.devices.take_traffic(), self.subscribers.take_traffic());
        Traffic { sent: one.sent + other.sent, received: one.received + other.received }
    }

    fn disconnect(&mut self) {
        self.devices.disconnect();
        self.subscribers.disconnect();
    }
}
