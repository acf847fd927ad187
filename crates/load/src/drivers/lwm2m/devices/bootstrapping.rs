//! How devices learn of their server from another one (1.1 core, section 6.1).

use super::{Devices, Event, Purpose, Standing};
use crate::drivers::lwm2m::bootstrap::{INTERFACE, account_of};
use crate::drivers::lwm2m::registration;
use plimsoll_codec::coap::code;
use plimsoll_model::Nanos;

impl Devices {
    /// Asks to be bootstrapped.
    pub(super) fn ask_for_bootstrap(&mut self, slot: u32, port: u16, now: Nanos) {
        let device = self.number(slot);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        own.standing = Standing::Bootstrapping;
        own.observations.clear();
        own.sleep();
        self.options.clear();
        self.options.add_target(INTERFACE.as_bytes());
        registration::add_name(&self.plan, (&self.run, device), &mut self.options);
        self.request((slot, port), (Purpose::Bootstrap, code::POST), &[], now);
    }

    /// The bootstrap server knows the device, and writes now what it shall know.
    pub(super) fn is_being_bootstrapped(&mut self, slot: u32, at: Nanos) {
        let until = at + self.register_within;
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.turns_at = until;
        }
        self.wake(slot);
    }

    /// The bootstrap server is done: the device registers at the server that it was told of, also where it was registered already.
    pub(super) fn bootstrapped(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) {
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        if own.standing == Standing::Idle {
            // It was released meanwhile.
            return;
        }
        match account_of(&own.own, self.host, self.is_secured) {
            Ok(account) => {
                (own.port, own.knows_server) = (account.port, true);
                let client = self.client(slot);
                if self.part(slot, at, events) {
                    let reason = "the bootstrap server gave the device a new start".to_owned();
                    events.push(Event::Disconnected { client, at, reason });
                    self.note_beginning(slot, at);
                }
                // What it took to be bootstrapped belongs to connecting. The server may have changed the keys of a
                // known one.
                self.forget_session(slot);
                self.turn_to_server(slot, at);
            }
            Err(reason) => self.failed(slot, reason, at, events),
        }
    }
}
