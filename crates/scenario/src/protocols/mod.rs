//! What devices may speak: a *slice* for each protocol, in a folder of its own, and one ordered table of them.
//!
//! A slice has what a scenario may say (`config`), what is planned (`plan`) and how the one becomes the other (`resolve`).
//! What the rest of this crate asks about a protocol's section stands in its [`Slice`]. How addresses name a protocol, and
//! whether it uses datagrams or requests, stands in `address.rs`, below everything that reads an address.
//! `docs/adding-a-protocol.md` leads through a new one.

pub(crate) mod amqp;
pub(crate) mod amqp1;
mod check;
pub(crate) mod coap;
mod coap_tcp;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod kafka;
pub(crate) mod lwm2m;
pub(crate) mod mqtt;
pub(crate) mod nats;
pub(crate) mod routing;
mod slice;
pub(crate) mod websocket;

pub(crate) use check::{check, forget_inherited};

use crate::plan::{Plan, Protocol, ReceiveRole};
use crate::secret::Secret;
use slice::Slice;

/// All of them.
const SLICES: [Slice; 11] = [
    mqtt::SLICE,
    http::SLICE,
    coap::SLICE,
    coap_tcp::SLICE,
    websocket::SLICE,
    gateway::SLICE,
    lwm2m::SLICE,
    nats::SLICE,
    amqp::SLICE,
    amqp1::SLICE,
    kafka::SLICE,
];

/// The slice of a protocol.
pub(crate) fn slice(protocol: Protocol) -> &'static Slice {
    let found = SLICES.iter().find(|slice| slice.protocol == protocol);
    found.unwrap_or(&SLICES[0])
}

/// The sections of a scenario that are about protocols, in the order of the table.
pub(crate) fn sections() -> impl Iterator<Item = &'static str> {
    SLICES.iter().map(|slice| slice.section).filter(|section| !section.is_empty())
}

impl Plan {
    /// Connections at the same time: of devices, subscribers and queriers.
    pub fn connections(&self) -> u64 {
        let of_devices = (slice(self.protocol()).sockets)(self);
        let queriers = self.northbound.map_or(0, |northbound| u64::from(northbound.queriers));
        let each = match &self.platform.roles.receives {
            Some(ReceiveRole::Http(role)) if role.of_each_device => self.subscribers.followed(self.devices),
            _ => 1,
        };
        of_devices + u64::from(self.subscribers.count) * u64::from(each) + queriers
    }

    /// Passwords and keys that must not be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.platform.secrets.iter().chain(SLICES.iter().flat_map(|slice| (slice.secrets)(self)))
    }

    /// The QoS of subscribers that are clients over MQTT; 0 where they receive otherwise.
    pub fn subscribe_qos(&self) -> u8 {
        let are_clients = self.protocol() == Protocol::Mqtt && !self.platform.roles.have_receivers();
        if are_clients { self.subscribers.qos.level() } else { 0 }
    }

    /// Why the platform may bring messages of these devices more than once to subscribers that connect by the plan of `receivers`. `None`
    /// where it may not, and where subscribers have the broker of MQTT to which devices publish: there both QoS decide.
    pub fn redelivery(&self, receivers: &Plan) -> Option<&'static str> {
        let roles = &receivers.platform.roles;
        let spoken = match (roles.have_receivers(), &roles.notified) {
            (true, _) => return None,
            (false, Some(_)) => Protocol::Mqtt,
            (false, None) => receivers.protocol(),
        };
        let is_same_broker = roles.notified.is_none()
            && self.protocol() == Protocol::Mqtt
            && self.platform.address == receivers.platform.address;
        if spoken == Protocol::Mqtt && is_same_broker { None } else { (slice(spoken).redelivers)(receivers) }
    }

    /// Whether the platform answers each message: by the protocol, or by a message of its own.
    pub fn is_answered(&self) -> bool {
        let device = &self.platform.roles.device;
        // Where nothing is answered, what is described of answers are refusals.
        let has_answers = device.answer.is_some() && !device.websocket.is_unanswered;
        (slice(self.protocol()).is_answered)(self) || has_answers
    }
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
