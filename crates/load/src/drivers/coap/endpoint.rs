//! An endpoint of CoAP (RFC 7252 section 1.2): one socket, the ids of the messages that it sends, the messages that it reads,
//! and the requests that it has answered. It may be client and server at once.
//!
//! What its requests are about, and what becomes of them, is its owner's: a socket of devices, a subscriber that observes,
//! a listener.

use super::answered::{Answered, RequestKey};
use super::channel::{Channel, Peer, Reading};
use super::dtls::Session;
use super::message_ids::MessageIds;
use crate::driver::Traffic;
use crate::drivers::readiness;
use crate::refusal;
use plimsoll_codec::coap::{Kind, Malformed, Message};
use plimsoll_model::Nanos;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// See the module. Not open at first.
#[derive(Default)]
pub struct Endpoint {
    channel: Option<Channel>,
    /// The number of its socket: what is told of an earlier one is known by that.
    generation: u32,
    ids: MessageIds,
    answered: Answered,
    /// An empty message as bytes.
    empty: Vec<u8>,
}

/// The one peer that an endpoint connects to, and how.
pub struct Remote {
    /// Where it is.
    pub address: SocketAddr,
    /// From which address of ours.
    pub source: Option<IpAddr>,
    /// What secures datagrams.
    pub session: Option<Session>,
    /// Whether messages go together that are sent together.
    pub gathers: bool,
}

/// What a request is answered with; its options as they stand on the wire.
#[derive(Clone, Copy, Default)]
pub struct Answer<'a> {
    /// The response code.
    pub code: u8,
    /// The options.
    pub options: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

/// What one look at an endpoint gave.
pub enum Incoming<'a> {
    /// There is nothing at present.
    Nothing,
    /// A message that nobody has dealt with.
    Message {
        /// The message.
        message: Message<'a>,
        /// Who sent it.
        from: Peer,
        /// How long it had lain in the kernel.
        lag: Option<Nanos>,
    },
    /// A request that was answered before, and now again.
    Repeated,
    /// A datagram that is no message.
    Malformed(Malformed),
    /// A part of what DTLS needs for itself.
    Part,
    /// The handshake is over, after so long: messages can go.
    Secured(Nanos),
}

impl Endpoint {
    /// Opens a socket to one peer, told of as that slot's; where it has a session, it is of use once that is secured.
    ///
    /// # Errors
    /// The kernel refuses the socket: why, for people.
    pub fn connect(
        &mut self,
        Remote { address, source, session, gathers }: Remote,
        ids: MessageIds,
        (epoll, slot): (&OwnedFd, u32),
    ) -> Result<(), String> {
        let data = self.renew(ids, slot);
        let channel = Channel::open((address, source), (epoll, data), session).map_err(refusal::told)?;
        self.channel = Some(if gathers { channel.gathering() } else { channel });
        Ok(())
    }

    /// Takes over a bound socket, at which it hears whoever sends; told of as that slot's.
    ///
    /// # Errors
    /// The kernel refuses to tell of it.
    pub fn bind(
        &mut self,
        socket: UdpSocket,
        ids: MessageIds,
        (epoll, slot): (&OwnedFd, u32),
    ) -> std::io::Result<()> {
        let data = self.renew(ids, slot);
        self.channel = Some(Channel::bound(socket, (epoll, data))?);
        Ok(())
    }

    /// Begins a new generation; what its socket is registered with.
    fn renew(&mut self, ids: MessageIds, slot: u32) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        self.ids = ids;
        readiness::data(slot, self.generation)
    }

    /// Puts a channel in the place of the one that it has.
    #[cfg(test)]
    pub fn replace_channel(&mut self, channel: Channel) {
        self.channel = Some(channel);
    }

    /// Whether it has a socket.
    pub fn is_open(&self) -> bool {
        self.channel.is_some()
    }

    /// The number of the socket that it has or last had; each closing changes it, too.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// When its handshake is to be looked at; `None` where there is none under way.
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.channel.as_ref().and_then(Channel::wakes_at)
    }

    /// Begins the handshake where there is to be one, and repeats what of it was not answered.
    ///
    /// # Errors
    /// It took too long, or the peer cannot be reached: why, for people.
    pub fn tick(&mut self, now: Nanos, traffic: &mut Traffic) -> Result<(), String> {
        self.channel.as_mut().map_or(Ok(()), |channel| channel.tick(now, traffic))
    }

    /// Whether it has a session that the peer may have lost: nothing came since.
    pub fn is_silent_since(&self, since: Nanos) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.is_silent_since(since))
    }

    /// Says that nothing follows, and closes it.
    pub fn leave(&mut self, now: Nanos, traffic: &mut Traffic) {
        if let Some(channel) = &mut self.channel {
            channel.close(now, traffic);
        }
        self.close();
    }

    /// Closes it; what was under way over it is the owner's to tell.
    pub fn close(&mut self) {
        self.channel = None;
        self.answered = Answered::default();
        self.generation = self.generation.wrapping_add(1);
    }

    /// A message id that nothing under way has; `None` where all are taken.
    pub fn take_id(&mut self, now: Nanos, is_under_way: impl Fn(u16) -> bool) -> Option<u16> {
        self.ids.take(now, is_under_way)
    }

    /// Whether message ids have come round before a peer had to forget them, told once a round.
    pub fn came_round(&mut self) -> bool {
        self.ids.came_round()
    }

    /// Sends a message; whether there was room.
    ///
    /// # Errors
    /// The connected peer cannot be reached: why, for people.
    pub fn send(
        &mut self,
        message: &[u8],
        to: Peer,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<bool, String> {
        self.open_channel()?.send(message, to, now, traffic)
    }

    /// Sends the first of these messages to the connected peer, or as many as can go together; how many that were, none
    /// without room.
    ///
    /// # Errors
    /// The peer cannot be reached: why, for people.
    pub fn send_first<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a [u8]>,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<usize, String> {
        self.open_channel()?.send_first(messages, now, traffic)
    }

    fn open_channel(&mut self) -> Result<&mut Channel, String> {
        self.channel.as_mut().ok_or_else(|| refusal::told_of_datagram(Errno::NOTCONN))
    }

    /// Sends an empty message: a ping, an acknowledgement, a reset. One that finds no room is lost, as datagrams are: who
    /// waits for it asks again.
    pub fn say(&mut self, kind: Kind, id: u16, to: Peer, now: Nanos, traffic: &mut Traffic) {
        self.empty.clear();
        Message::empty(kind, id).encode(&mut self.empty);
        if let Some(channel) = &mut self.channel {
            let _ = channel.send(&self.empty, to, now, traffic);
        }
    }

    /// Answers a request, in its acknowledgement where it wants one, else with an id that nothing under way has. The same
    /// answer is given by itself to each repetition, so that an answer that finds no room is sent when it is asked for again.
    pub fn answer(
        &mut self,
        (request, from): (&Message<'_>, Peer),
        Answer { code, options, payload }: Answer<'_>,
        is_under_way: impl Fn(u16) -> bool,
        now: Nanos,
        traffic: &mut Traffic,
    ) {
        let (kind, id) = match request.kind {
            Kind::Confirmable => (Kind::Acknowledgement, request.id),
            _ => (Kind::NonConfirmable, self.take_id(now, is_under_way).unwrap_or_default()),
        };
        let mut answer = Vec::new();
        Message { kind, code, id, token: request.token, options, payload }.encode(&mut answer);
        // What cannot be sent is lost, as above.
        let _ = self.send(&answer, from, now, traffic);
        self.answered.remember(RequestKey::of(request, from), answer, now);
    }

    /// Reads into `scratch`, and gives what was read as it is to be understood.
    ///
    /// # Errors
    /// The connected peer cannot be reached, or the session is over: why, for people.
    pub fn read<'a>(
        &mut self,
        scratch: &'a mut [u8],
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<Incoming<'a>, String> {
        let Some(channel) = &mut self.channel else { return Ok(Incoming::Nothing) };
        let (length, lag, from) = match channel.read(scratch, now, traffic)? {
            Reading::Message(length, lag, from) => (length, lag, from),
            Reading::Nothing => return Ok(Incoming::Nothing),
            Reading::Part => return Ok(Incoming::Part),
            Reading::Secured(took) => return Ok(Incoming::Secured(took)),
        };
        let scratch: &'a [u8] = scratch;
        let message = match Message::decode(scratch.get(..length).unwrap_or_default()) {
            Ok(message) => message,
            Err(malformed) => return Ok(Incoming::Malformed(malformed)),
        };
        if message.is_request() && self.answer_again(&message, from, now, traffic) {
            return Ok(Incoming::Repeated);
        }
        Ok(Incoming::Message { message, from, lag })
    }

    /// Gives a repeated request the answer that it got; whether it is one.
    fn answer_again(&mut self, request: &Message<'_>, from: Peer, now: Nanos, traffic: &mut Traffic) -> bool {
        let answer = self.answered.answer(&RequestKey::of(request, from));
        let (Some(answer), Some(channel)) = (answer, &mut self.channel) else { return false };
        // What cannot be sent is lost, as above.
        let _ = channel.send(answer, from, now, traffic);
        true
    }

    /// Whether a message waits that came together with one that was read.
    pub fn has_more(&self) -> bool {
        self.channel.as_ref().is_some_and(Channel::has_more)
    }

    /// Wants to be woken for room, or not any more.
    pub fn wants_room(&self, slot: u32, wanted: bool, epoll: &OwnedFd) {
        if let Some(channel) = &self.channel {
            channel.wants_room(wanted, epoll, readiness::data(slot, self.generation));
        }
    }
}

#[cfg(test)]
mod tests;
