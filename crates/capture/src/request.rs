//! What a dissector says of a request and of a response.

use plimsoll_model::wire::Label;

/// A request, told when its last byte was taken.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it asks for: `GET`, `PUBLISH`.
    pub verb: Label,
    /// How its response will be found.
    pub key: Key,
    /// Whether the protocol answers it.
    pub answered: bool,
    /// For the dissector: given back by [`Output::oldest`] and [`Output::waiting`].
    pub tag: u64,
}

/// A response, told when its last byte was taken.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// How its request is found.
    pub key: Key,
    /// `200`, `2.05`, `OK`, an SQLSTATE.
    pub status: Label,
    /// Whether the status says that the request failed.
    pub failed: bool,
}

/// How a response finds its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// It answers the oldest one.
    Order,
    /// Both carry this number.
    Id(u64),
    /// Both carry the same marker; a response without one answers the oldest request without one, or, where responses never
    /// carry any, the oldest of all.
    Content,
}

/// What a request asks for, as far as its verb and the status of its response tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asking {
    /// Something to be done or told, now: what it is told may be stored, and others may be told the same.
    Now,
    /// The next messages of a queue: each is given once to each group of consumers, who passes it on or is its receiver. May
    /// wait for them.
    Next,
    /// To be told when there is something new: how long that takes says nothing of the server.
    News,
}

impl Asking {
    /// Of protocols in which no request is known to wait.
    pub fn now(_verb: &str, _status: &str) -> Asking {
        Asking::Now
    }
}
