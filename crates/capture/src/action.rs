//! What clients do, beyond how long it takes: connect, publish, subscribe, receive. Names are kept as they stand on the wire, at
//! most [`LONGEST`] bytes of each; contents never. Only for those who ask: `plimsoll learn`.

use crate::observations::ConversationId;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;

/// Bytes of a name that are kept.
pub const LONGEST: usize = 512;

/// Something that a client did, or that was done to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientAction {
    /// When its first byte was captured.
    pub at: Nanos,
    /// Where.
    pub conversation: ConversationId,
    /// What was spoken.
    pub protocol: WireProtocol,
    /// What carried it.
    pub carrier: ActionCarrier,
    /// Whether it came out of TLS.
    pub secured: bool,
    /// What.
    pub action: Action,
}

/// What carries the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionCarrier {
    /// TCP.
    Stream,
    /// UDP.
    Datagrams,
    /// WebSocket.
    WebSocket,
}

/// What a client does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It says who it is.
    Connect(Connect),
    /// It sends a message.
    Publish(Publish),
    /// It asks for messages.
    Subscribe {
        /// Which.
        filter: String,
        /// The highest QoS that it wants.
        qos: u8,
    },
    /// It gets a message.
    Receive,
}

/// How a client introduces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// Its identifier, empty where it has none.
    pub client: String,
    /// The protocol's version, as the protocol numbers it.
    pub version: u8,
    /// Longest silence, seconds.
    pub keep_alive: u16,
    /// Whether it begins without an earlier session.
    pub clean: bool,
    /// Whether it leaves a will.
    pub will: bool,
    /// Whether it gives a user name.
    pub username: bool,
}

/// A message of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// The method, where the protocol has several.
    pub method: &'static str,
    /// Topic, subject or path; empty where the capture does not show it. Of Kafka the key, empty for a record without one.
    pub target: String,
    /// Kafka's topic, within which the target is a key. Of AMQP 1.0 what stands before the levels of the address, such as `/topic/`. Empty
    /// elsewhere.
    pub topic: String,
    /// QoS as MQTT numbers it. Over CoAP, 1 for a confirmable message and 0 for another. Of Kafka which copies must have the message: 0
    /// for none, 1 for that of the leader, 2 for all.
    pub qos: u8,
    /// Whether the broker shall keep it.
    pub retained: bool,
    /// Bytes of the content.
    pub bytes: u64,
}

/// A name from the wire: what is no UTF-8 is replaced, and what is longer than [`LONGEST`] is cut.
pub(crate) fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..LONGEST).unwrap_or(bytes));
    text.into_owned()
}

/// Actions of one step.
#[derive(Default)]
pub(crate) struct Actions {
    /// Looked for at all.
    pub wanted: bool,
    pub list: Vec<Action>,
}
