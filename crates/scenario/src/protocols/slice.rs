//! What a slice is.

use crate::config::Scenario;
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::secret::Secret;

/// What the rest of the crate asks of a protocol.
pub(crate) struct Slice {
    /// Which it is.
    pub protocol: Protocol,
    /// What it is spoken over, where that is a protocol with a section of its own, which holds for it, too.
    pub over: Option<Protocol>,
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
    /// Whether subscribers may be clients that speak it.
    pub has_subscribers: bool,
    /// Whether a network between clients and the platform is emulated.
    pub has_links: bool,
    /// Whether subscribers may observe resources of the platform (RFC 7641).
    pub has_observers: bool,
    /// Reports what a scenario says of it although devices speak something else.
    pub unspoken: fn(&Scenario, &Slice, &mut Context<'_>),
    /// How many operations all devices may have in flight together, and what raises that; `None` where nothing bounds it.
    pub most_in_flight: fn(&Scenario) -> Option<(u64, &'static str)>,
    /// How many sockets the devices have.
    pub sockets: fn(&Plan) -> u64,
    /// Whether messages are acknowledged, as the scenario says it.
    pub acknowledges: fn(&Scenario) -> bool,
    /// Whether the platform answers each message by the protocol itself.
    pub is_answered: fn(&Plan) -> bool,
    /// Why the platform may bring a message more than once to subscribers that are its clients, however it acknowledges what is
    /// published; `None` where it may not.
    pub redelivers: fn(&Plan) -> Option<&'static str>,
    /// What its section holds that must not be shown.
    pub secrets: fn(&Plan) -> Vec<&Secret>,
    /// The devices and what they send, for people.
    pub describe: fn(&Plan) -> String,
}

/// A socket for each device.
pub(super) fn one_each(plan: &Plan) -> u64 {
    u64::from(plan.devices)
}
