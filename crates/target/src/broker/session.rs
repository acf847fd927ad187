//! A client's session: what outlives its connection (MQTT 5 section 4.1).

use super::deliveries::Deliveries;
use super::link::Will;
use super::memory::Held;
use super::subscriptions::Filters;
use plimsoll_model::Nanos;
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// An expiry interval that never ends, s (MQTT 5 section 3.1.2.11.2).
pub const FOR_EVER: u32 = u32::MAX;

/// A session.
pub struct Session {
    /// The client id.
    pub client_id: Rc<str>,
    /// The connection, while there is one.
    pub link: Option<u64>,
    /// How long it outlives its connection, s.
    pub expiry: u32,
    /// When it ends, while nobody is connected.
    pub ends: Option<Nanos>,
    /// The will of a connection that broke, and when it is published.
    pub will: Option<(Nanos, Will)>,
    /// Its subscriptions.
    pub filters: Filters,
    /// What is owed to the client.
    pub deliveries: Deliveries,
    /// Packet ids of messages at QoS 2 that came and were not released.
    pub incoming: FxHashSet<u16>,
    /// Its own bytes.
    _held: Held,
}

impl Session {
    /// A new session.
    pub fn new(client_id: Rc<str>, held: Held) -> Session {
        Session {
            client_id,
            link: None,
            expiry: 0,
            ends: None,
            will: None,
            filters: Filters::default(),
            deliveries: Deliveries::default(),
            incoming: FxHashSet::default(),
            _held: held,
        }
    }
}
