//! What devices may speak: a *slice* for each protocol, in a folder of its own, and one ordered table of them.
//!
//! A slice has what is written in a scenario (`written`), what is planned (`plan`) and how the one becomes the other (`resolve`).
//! What the rest of this crate asks of a protocol stands in its [`Slice`], so that nothing else names one.
//! `docs/adding-a-protocol.md` leads through a new one.

mod check;
pub(crate) mod coap;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod mqtt;
pub(crate) mod websocket;

pub(crate) use check::{check, forget_inherited};

use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::written::Scenario;

/// What the rest of the crate asks of a protocol.
pub(crate) struct Slice {
    /// Which it is.
    pub protocol: Protocol,
    /// How devices that speak it are called where something "means nothing to" them.
    pub name: &'static str,
    /// Its section of a scenario; empty where it has none.
    pub section: &'static str,
    /// Takes what its section says out of the scenario of a population that speaks something else.
    pub forget: fn(&mut Scenario),
    /// The keys of `connection` that mean something to it.
    pub connection: &'static [&'static str],
    /// Whether messages have a target: a topic or a path.
    pub has_target: bool,
    /// Whether subscribers may be clients that speak it, and a network between them and the platform is emulated.
    pub has_subscribers: bool,
    /// Whether subscribers may observe resources of the platform (RFC 7641).
    pub has_observers: bool,
    /// Reports what a scenario says of it although devices speak something else.
    pub unspoken: fn(&Scenario, &Slice, &mut Context<'_>),
    /// How many operations all devices may have in flight together, and what raises that; `None` where nothing bounds it.
    pub most_in_flight: fn(&Scenario) -> Option<(u64, &'static str)>,
    /// How many sockets the devices have.
    pub sockets: fn(&Plan) -> u64,
    /// Whether the platform answers each message by the protocol itself.
    pub is_answered: fn(&Plan) -> bool,
    /// The devices and what they send, for people.
    pub describe: fn(&Plan) -> String,
}

/// All of them.
const SLICES: [Slice; 5] = [mqtt::SLICE, http::SLICE, coap::SLICE, websocket::SLICE, gateway::SLICE];

/// The slice of a protocol.
pub(crate) fn slice(protocol: Protocol) -> &'static Slice {
    let found = SLICES.iter().find(|slice| slice.protocol == protocol);
    found.unwrap_or(&SLICES[0])
}

impl Plan {
    /// Connections at the same time: of devices, subscribers and queriers.
    pub fn connections(&self) -> u64 {
        let of_devices = (slice(self.protocol()).sockets)(self);
        let queriers = self.northbound.map_or(0, |northbound| u64::from(northbound.queriers));
        of_devices + u64::from(self.subscribers.count) + queriers
    }

    /// Whether the platform answers each message: by the protocol, or by a message of its own.
    pub fn is_answered(&self) -> bool {
        (slice(self.protocol()).is_answered)(self) || self.platform.roles.device.answer.is_some()
    }
}

/// A socket for each device.
fn one_each(plan: &Plan) -> u64 {
    u64::from(plan.devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_a_slice() {
        for protocol in Protocol::ALL {
            assert_eq!(slice(protocol).protocol, protocol);
        }
        assert_eq!(SLICES.len(), Protocol::ALL.len());
    }
}
