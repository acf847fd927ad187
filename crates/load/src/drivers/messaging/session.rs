//! What a protocol of message brokers is to its driver: a session without I/O, bytes in, bytes and meanings out.

use plimsoll_model::Nanos;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::Range;

/// The largest content that a session takes, bytes: twice the largest of a scenario.
pub const LARGEST_CONTENT: usize = 2 << 20;
/// Room for contents that a session keeps from one to the next, bytes.
pub const KEPT: usize = 64 << 10;

/// One client's session. A lost connection ends it; what was in flight is neither repeated nor asked for again.
pub trait Session: Send {
    /// What is spoken, for people.
    const NAME: &'static str;

    /// Whether the protocol begins without TLS, and says itself when TLS begins: [`Happened::Secured`].
    const BEGINS_IN_CLEAR: bool = false;

    /// A connection begins: appends what a client says before the platform says anything.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// The length of the first frame of what came; `None` until that can be known.
    ///
    /// # Errors
    /// It is no frame, or larger than we take: why, for people.
    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String>;

    /// What a frame means. Appends what is to be said because of it.
    ///
    /// # Errors
    /// The connection is of no use any more.
    fn receive<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure>;

    /// Takes what the platform complained of besides what its last frame meant: for people.
    fn take_complaint(&mut self) -> Option<String> {
        None
    }

    /// Takes out the further connections that the client is to have from now on beside this one, each with the server that it goes to:
    /// they take the place of those that it had, and end with this one. `None` where nothing changes.
    fn take_branches(&mut self) -> Option<Vec<(SocketAddr, Self)>>
    where
        Self: Sized,
    {
        None
    }

    /// All further connections are ready: what that means. Appends what is to be said because of it.
    fn branches_ready(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        let _ = out;
        Happened::Nothing
    }

    /// This connection is there and ends all the same: something that came is of no use, or a further connection is lost. Appends its
    /// last words.
    fn last_words(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// After how long it wants to be woken, as it stands; `None` where it waits for the platform alone.
    fn wakes_after(&self) -> Option<Nanos> {
        None
    }

    /// That time is over: appends what is to be said.
    fn wake(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Whether one more message may be under way.
    fn may_publish(&self) -> bool;

    /// The partition in which the next delivery comes, of a platform that keeps an order only within each.
    fn read_partition(&self) -> u16 {
        0
    }

    /// What the platform does that no message may be under way, for people, as something that is over. `None` where it lets messages go,
    /// also if as many are under way as the scenario allows.
    fn held_back(&self) -> Option<&'static str> {
        None
    }

    /// All that was appended has left; whether messages wait that may not be under way yet. Appends what is to be said because of it.
    fn all_sent(&mut self, wait: bool, out: &mut Vec<u8>) {
        let _ = (wait, out);
    }

    /// Appends a message.
    ///
    /// # Errors
    /// The platform would not take it: why, for people.
    fn publish(&mut self, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String>;

    /// The message that was written last with that number is not sent.
    fn withdraw(&mut self, sequence: u32);

    /// Takes out the messages whose acknowledgement is awaited, in no particular order.
    fn abandon(&mut self) -> Vec<u32>;

    /// Appends what the platform answers after all that was said before.
    fn ping(&mut self, out: &mut Vec<u8>);

    /// After so much silence of its own a client asks whether the platform is there.
    fn keep_alive(&self) -> Nanos;

    /// After so much silence of the platform that was asked, the connection is given up.
    fn patience(&self) -> Nanos {
        self.keep_alive() * 2
    }

    /// Appends a client's last words on a connection. `ends` asks it to speak for the whole run, which ends.
    fn goodbye(&mut self, ends: bool, out: &mut Vec<u8>);

    /// What is awaited before the client is ready, for people.
    fn awaited(&self) -> &'static str;

    /// What may be wrong where the platform closes the connection in place of that, and what to do about it, for people; empty where
    /// nothing is known.
    fn advice_on_closing(&self) -> &'static str {
        ""
    }
}

/// A message to be written.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Its number within its device.
    pub sequence: u32,
    /// Where it goes, as levels that slashes separate.
    pub topic: &'a mut [u8],
    /// What is in it.
    pub content: &'a [u8],
}

/// What a frame meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Happened<'a> {
    /// Nothing that matters outside the session.
    Nothing,
    /// The platform has let the client in, and something is still to be set up.
    Accepted,
    /// TLS begins now. When it has, the next call is [`Session::begin`].
    Secured,
    /// The client may publish and, for a subscriber, receive.
    Ready,
    /// A part of a delivery that is not whole yet, with so many bytes of its content.
    Part(usize),
    /// A message was acknowledged.
    Acknowledged(u32),
    /// These messages were acknowledged together.
    AcknowledgedTogether(&'a [u32]),
    /// A message was refused, with the platform's reason.
    Refused(u32, String),
    /// These messages were refused together.
    RefusedTogether(&'a [u32], String),
    /// The platform says no more of a message, and may have it or not: why, for people.
    Doubtful(u32, String),
    /// The same of these messages.
    DoubtfulTogether(&'a [u32], String),
    /// An acknowledgement that nothing in flight awaits.
    UnknownAck,
    /// A delivery, by its content.
    Delivered(&'a [u8]),
    /// Deliveries that came packed together, and where the content of each stands in what was unpacked.
    DeliveredTogether(&'a [u8], &'a [Range<usize>]),
    /// The answer to a ping.
    Pong,
    /// The platform complained, and goes on: what it said, for people.
    Complaint(String),
    /// The client is to go on with another server of the platform: the next call is [`Session::begin`], or [`Session::abandon`] where
    /// that server cannot be reached.
    Elsewhere(SocketAddr),
}

/// A connection is of no use any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, for people.
    pub reason: String,
    /// Whether another attempt would end the same way.
    pub lasting: bool,
}

impl Failure {
    /// Something that another attempt may not meet.
    pub fn passing(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), lasting: false }
    }

    /// What came is none of what the protocol has.
    pub fn malformed(error: impl Display) -> Failure {
        Failure::passing(malformed(error))
    }

    /// Something that another attempt would meet, too.
    pub fn lasting(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), lasting: true }
    }
}

/// That what came is none of what the protocol has, for people.
pub fn malformed(error: impl Display) -> String {
    format!("malformed: {error}")
}
