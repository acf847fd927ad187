//! What a station says on one connection, by protocol.

use super::{StationProtocol, http, mqtt, websocket};
use plimsoll_codec::mqtt::QoS;
use std::sync::Arc;

/// Bytes of one message that are taken at most, twice the largest message of a scenario.
pub const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;

/// Something that a client sent and that is to be served.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it was published or requested.
    pub topic: String,
    /// Its content.
    pub payload: Vec<u8>,
    /// MQTT's quality of service.
    pub qos: QoS,
    /// What tells it apart on its connection: MQTT's packet id (0 at QoS 0), the number of an HTTP request, the
    /// message id of CoAP, the opcode of a WebSocket message.
    pub id: u16,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Well.
    Well,
    /// It was served, but is lost: an answer that carries the result does not come.
    Lost,
    /// There was no room for it.
    Refused,
}

/// What is not of the protocol, or forbidden: the connection ends.
#[derive(Debug)]
pub struct Refused;

/// One client's session.
pub enum Session {
    /// MQTT 3.1.1 or 5.
    Mqtt(mqtt::Session),
    /// HTTP/1.1.
    Http(http::Session),
    /// WebSocket.
    WebSocket(websocket::Session),
}

impl Session {
    /// A session of a connection just accepted.
    pub fn new(protocol: StationProtocol) -> Session {
        match protocol {
            StationProtocol::Http => Session::Http(http::Session::default()),
            StationProtocol::WebSocket => Session::WebSocket(websocket::Session::default()),
            // CoAP has no connections; its datagrams never come here.
            StationProtocol::Mqtt | StationProtocol::Coap => Session::Mqtt(mqtt::Session::default()),
        }
    }

    /// Takes whole packets off the front of `bytes`, appends answers that need no service to `out`, and what is to be
    /// served to `messages`. Returns the bytes taken.
    pub fn input(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Message>,
    ) -> Result<usize, Refused> {
        match self {
            Session::Mqtt(session) => session.input(bytes, out, messages),
            Session::Http(session) => session.input(bytes, out, messages),
            Session::WebSocket(session) => session.input(bytes, out, messages),
        }
    }

    /// Bytes that wait for the client beside those that were given out.
    pub fn waiting_bytes(&self) -> usize {
        match self {
            Session::Mqtt(session) => session.waiting_bytes(),
            Session::Http(session) => session.waiting_bytes(),
            Session::WebSocket(session) => session.waiting_bytes(),
        }
    }

    /// Tells the sender that the service of its message is over.
    pub fn answer(&mut self, message: &Message, served: Served, out: &mut Vec<u8>) {
        match self {
            Session::Mqtt(session) => session.answer(message, served != Served::Refused, out),
            Session::Http(session) => session.answer(message, served, out),
            Session::WebSocket(session) => session.answer(message, served, out),
        }
    }

    /// Delivers a message where it is subscribed to, or of this connection (`own`) back.
    pub fn deliver(&mut self, message: &Arc<Message>, own: bool, out: &mut Vec<u8>) {
        match self {
            Session::Mqtt(session) => session.deliver(message, out),
            Session::WebSocket(session) => session.deliver(message, own, out),
            Session::Http(_) => {}
        }
    }

    /// Whether the connection has served its purpose.
    pub fn is_over(&self) -> bool {
        match self {
            Session::Mqtt(_) => false,
            Session::Http(session) => session.is_over(),
            Session::WebSocket(session) => session.is_over(),
        }
    }
}
