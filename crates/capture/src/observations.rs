//! What was observed in a stretch of a capture: exchanges, notices, markers, and what was not understood.

use crate::action::ClientAction;
use crate::marker::MessageId;
use crate::request::Asking;
use crate::side::Side;
use crate::tls::Unopened;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, Span, WireProtocol};

/// Names a conversation within a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(pub u32);

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Where.
    pub conversation: ConversationId,
    /// What was spoken.
    pub protocol: WireProtocol,
    /// Who asked.
    pub requester: Side,
    /// What for.
    pub verb: Label,
    /// What became of it.
    pub outcome: Outcome,
    /// Of the response, empty without one.
    pub status: Label,
    /// The request.
    pub request: Span,
    /// When a first sign of life came that did not end the exchange.
    pub interim: Option<Nanos>,
    /// The response, where there was one.
    pub response: Option<Span>,
    /// The first marker in the request, else in the response.
    pub marker: Option<MessageId>,
    /// Whether the request had it.
    pub carried: bool,
    /// What the request asks for.
    pub asking: Asking,
}

/// A message that is neither request nor response, or a response that answers nothing that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notice {
    /// Where.
    pub conversation: ConversationId,
    /// What was spoken.
    pub protocol: WireProtocol,
    /// Who said it.
    pub from: Side,
    /// What it is; of a response, its status.
    pub verb: Label,
    /// Whether it is a response without a request.
    pub unexpected: bool,
    /// Its bytes.
    pub span: Span,
}

/// A marker was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sighting {
    /// When the message that holds it was complete; outside messages, when it was there.
    pub at: Nanos,
    /// Where.
    pub conversation: ConversationId,
    /// Who said it.
    pub from: Side,
    /// Whose marker.
    pub message: MessageId,
    /// Of the message, or the status of a response; empty outside messages.
    pub verb: Label,
    /// How it came to be said.
    pub manner: Manner,
}

/// How a message came to be said by one side to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By its own wish: in a request, in a push, or outside messages.
    Handed,
    /// In the response to the request that had it: this passes nothing on.
    Echoed,
    /// In the response to a request that did not have it, which was complete at that time, where it was seen.
    Answered(Option<Nanos>),
    /// As what a queue had next.
    Taken,
}

/// A stretch of bytes that was not understood, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breach {
    /// Where.
    pub conversation: ConversationId,
    /// What was to be spoken.
    pub protocol: WireProtocol,
    /// Who.
    pub from: Side,
    /// When.
    pub at: Nanos,
    /// What is wrong.
    pub reason: &'static str,
}

/// All that was observed.
#[derive(Debug, Default)]
pub struct Observations {
    /// In the order in which they ended.
    pub exchanges: Vec<Exchange>,
    /// In their order.
    pub notices: Vec<Notice>,
    /// In their order.
    pub sightings: Vec<Sighting>,
    /// In their order.
    pub breaches: Vec<Breach>,
    /// What clients do, in its order; `None` where nobody wants to know.
    pub actions: Option<Vec<ClientAction>>,
    /// What became of each conversation under TLS that is over or was given up.
    pub secured: Vec<Result<(), Unopened>>,
    /// Bytes of known protocols that were skipped: after a hole in the capture or a breach.
    pub skipped: u64,
}
