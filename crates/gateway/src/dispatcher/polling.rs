//! Devices that a thread asks one after the other, and waits for each.

use super::{Calls, PATIENCE, PAUSE, event, has_event, is_empty};
use crate::calls::{CallError, Caller};
use crate::handler::{Event, Shared};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a thread rests that nobody wakes up: devices that failed may be asked again.
const REST: Duration = Duration::from_millis(10);

/// The devices of one thread.
pub(super) struct Polling<'a> {
    shared: &'a Shared,
    calls: Calls,
    devices: Vec<Polled>,
    /// Connections that may be open at once.
    sockets: usize,
    open: usize,
    at: usize,
    /// No device could be asked in the last round: each is being handled, or was left alone.
    pub is_blocked: bool,
}

struct Polled {
    number: usize,
    address: SocketAddr,
    connection: Option<Caller>,
    /// It failed: until then it is left alone.
    until: Option<Instant>,
}

impl<'a> Polling<'a> {
    /// Of those devices, with so many connections at once.
    pub fn new(shared: &'a Shared, devices: &[SocketAddr], numbers: &[usize], sockets: usize) -> Polling<'a> {
        let polled =
            |&number: &usize| Polled { number, address: devices[number], connection: None, until: None };
        let devices = numbers.iter().map(polled).collect();
        Polling {
            shared,
            calls: Calls::new(),
            devices,
            sockets: sockets.max(1),
            open: 0,
            at: 0,
            is_blocked: false,
        }
    }

    /// Asks one device after the other until one has an event, or all were asked.
    pub fn next(&mut self) -> Option<Event> {
        self.is_blocked = true;
        for _ in 0..self.devices.len() {
            if self.shared.ends() {
                return None;
            }
            let at = self.at;
            self.at = (self.at + 1) % self.devices.len();
            let device = &self.devices[at];
            let left_alone = device.until.is_some_and(|until| Instant::now() < until);
            if left_alone || self.shared.is_busy(device.number) {
                continue;
            }
            self.is_blocked = false;
            match self.ask(at) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    self.shared.retrieved(&event);
                    return Some(event);
                }
                Err(error) => self.failed(at, &error),
            }
        }
        None
    }

    /// Waits where none of the devices could be asked in the last round. Whichever becomes free wakes this thread up.
    pub fn rest(&self) {
        if self.is_blocked {
            std::thread::park_timeout(REST);
        }
    }

    fn ask(&mut self, at: usize) -> Result<Option<Event>, CallError> {
        let device = &mut self.devices[at];
        let connection = match &mut device.connection {
            Some(connection) => connection,
            None => {
                self.open += 1;
                device.connection.insert(Caller::connect(device.address, PATIENCE, PATIENCE)?)
            }
        };
        let ends = || self.shared.ends();
        let status = connection.call(&self.calls.status, &ends)?;
        let given: Option<Value> = match has_event(&status).map_err(CallError::Malformed)? {
            true => match connection.call(&self.calls.next_event, &ends) {
                Err(CallError::Raised(raised)) if is_empty(&raised) => None,
                given => Some(given?),
            },
            false => None,
        };
        if self.open > self.sockets {
            device.connection = None;
            self.open -= 1;
        }
        given.map(|given| event(device.number, given).map_err(CallError::Malformed)).transpose()
    }

    fn failed(&mut self, at: usize, error: &CallError) {
        let device = &mut self.devices[at];
        self.open = self.open.saturating_sub(1);
        device.connection = None;
        device.until = Some(Instant::now() + PAUSE);
        if !self.shared.ends() {
            self.shared.log.say("ERROR", &format!("device {} at {}: {error}", device.number, device.address));
        }
    }
}
