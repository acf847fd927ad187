//! What a dissector is: it turns the bytes of one conversation into requests, responses and notices. It is given bytes in
//! order and in pieces of any size; what it cannot use yet is kept for it.

use crate::action::{Action, Actions};
use crate::pairing::{Pairing, Waiting};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use plimsoll_model::wire::{Label, WireProtocol};

/// The most that is kept of one side until a dissector can use it, bytes. Longer contents are [passed](Step::Pass).
pub const KEPT: usize = 1 << 20;
/// The most that is unpacked of one content, bytes.
pub const UNPACKED: usize = 4 << 20;

/// What the first bytes of one side say about a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// They are its, and spoken by that side where that can be told.
    Yes(Option<Side>),
    /// They may be; more are needed.
    More,
    /// They are not.
    No,
}

/// How far a dissector came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes (at least one) were understood: a message, or a part of one.
    Taken(usize),
    /// Nothing can be said before there are so many bytes in all, counted from the beginning of those given.
    Need(usize),
    /// The next so many bytes are content that need not be looked at; they may arrive later. When the last is there,
    /// [`Dissector::passed`] is called. Markers are searched in them all the same.
    Pass(u64),
    /// This is not the protocol (any more): why.
    Malformed(&'static str),
    /// After so many bytes, which may be none, both sides speak another protocol.
    Becomes(WireProtocol, usize),
}

/// One protocol, for one conversation.
pub trait Dissector: Send {
    /// Reads the beginning of what a side has said and was not taken yet. Never empty. Takes one message, or less: the
    /// engine stamps and counts each step.
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step;

    /// All of what was to be passed on that side is there.
    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        let _ = (side, out);
    }

    /// Bytes of that side are missing from the capture, or could not be understood: what was half read is void. What
    /// follows is given from where [`Dissector::resumes`] says that a message begins.
    fn lost(&mut self, side: Side);

    /// Whether a message of that side begins with those bytes, which may be cut short at the end. Asked at the beginning of
    /// packets after a loss.
    fn resumes(&self, side: Side, bytes: &[u8]) -> bool;

    /// What is spoken, where that is not what its entry says: something that it carries.
    fn carries(&self) -> Option<WireProtocol> {
        None
    }

    /// A side has said its last word.
    fn finished(&mut self, side: Side, out: &mut Output<'_>) {
        let _ = (side, out);
    }
}

/// How a dissector is found: by port and by content.
pub struct Entry {
    /// What it reads.
    pub protocol: WireProtocol,
    /// Ports of servers on which it is tried first.
    pub ports: &'static [u16],
    /// Whether it reads TCP.
    pub streams: bool,
    /// Whether it reads UDP, a datagram at a time.
    pub datagrams: bool,
    /// Judges the first bytes of a side, the speaker given where the handshake was seen. A stranger's bytes are refused as
    /// early as can be. The third argument tells whether this is the whole of a datagram.
    pub probe: fn(&[u8], Option<Side>, bool) -> Probe,
    /// What a request with that verb, answered with that status, asks for.
    pub asking: fn(&str, &str) -> Asking,
    /// A dissector for a new conversation.
    pub make: fn(Carrier) -> Box<dyn Dissector>,
}

/// What carries a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// TCP, or a protocol that carries a stream.
    Stream,
    /// UDP: each call of [`Dissector::parse`] has the rest of one datagram.
    Datagrams,
}

/// What a dissector has understood in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Request(Request),
    Early(Request),
    Response(Response),
    Interim(Key),
    Withdrawn(Key),
    Notice(Label),
    Aside(Label, usize),
    Part(u64, bool),
    Prepares,
    Other,
}

/// Where a dissector tells what it has understood. Events take effect when its step has ended: a request is found by
/// [`Output::oldest`] from the next step on.
pub struct Output<'a> {
    pub(crate) side: Side,
    pub(crate) pairing: &'a mut Pairing,
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) opened: &'a mut Opened,
    pub(crate) actions: &'a mut Actions,
}

/// Contents that a dissector decoded in a step.
#[derive(Default)]
pub(crate) struct Opened {
    /// Looked for at all.
    pub wanted: bool,
    pub bytes: Vec<u8>,
}

impl Output<'_> {
    /// A request of the side that is being read is complete.
    pub fn request(&mut self, request: Request) {
        self.events.push(Event::Request(request));
    }

    /// What the other side is in the middle of saying is a request, and is about to be answered before its end. What
    /// still comes of it is a message of its own.
    pub fn early(&mut self, request: Request) {
        self.events.push(Event::Early(request));
    }

    /// A response of the side that is being read is complete.
    pub fn response(&mut self, response: Response) {
        self.events.push(Event::Response(response));
    }

    /// A first sign of life towards a request, which does not end it: HTTP's 1xx, CoAP's empty acknowledgement.
    pub fn interim(&mut self, key: Key) {
        self.events.push(Event::Interim(key));
    }

    /// The other side's request with that key (the oldest, by order) will not be answered, since the protocol says so: it
    /// was skipped, or answered by a change of protocol.
    pub fn withdrawn(&mut self, key: Key) {
        self.events.push(Event::Withdrawn(key));
    }

    /// A whole message that is neither request nor response: a push, an acknowledgement that asks for nothing.
    pub fn notice(&mut self, verb: impl Into<Label>) {
        self.events.push(Event::Notice(verb.into()));
    }

    /// The bytes of this step, so many, were a whole message between the parts of another one, which goes on.
    pub fn aside(&mut self, verb: impl Into<Label>, bytes: usize) {
        self.events.push(Event::Aside(verb.into(), bytes));
    }

    /// The bytes of this step are a part of the message with that number; parts of others may stand between. Told before all
    /// else in a step. With the `last` part, what is told besides is told of the message.
    pub fn part(&mut self, id: u64, last: bool) {
        self.events.push(Event::Part(id, last));
    }

    /// This step's message prepares the next request of its side: what it carries, that one carries too.
    pub fn prepares(&mut self) {
        self.events.push(Event::Prepares);
    }

    /// The bytes of this step were a whole message (padding, a part of a handshake) that is not even worth a notice. The
    /// next byte begins a new one.
    pub fn nothing(&mut self) {
        self.events.push(Event::Other);
    }

    /// Content of this step's message that stands on the wire in another form (compressed, masked): markers are searched
    /// in it, and not in the bytes of this step.
    pub fn opened(&mut self, bytes: &[u8]) {
        if self.opened.wanted {
            self.opened.bytes.extend_from_slice(bytes);
            // No marker is read across the end of two contents.
            self.opened.bytes.push(0);
        }
    }

    /// Whether anybody looks for markers: else decompression is in vain.
    pub fn searches(&self) -> bool {
        self.opened.wanted
    }

    /// What this step's message says that a client does. Told beside the request or notice that the message is.
    pub fn act(&mut self, action: Action) {
        if self.actions.wanted {
            self.actions.list.push(action);
        }
    }

    /// Whether anybody wants to know what clients do: else names are read in vain.
    pub fn learns(&self) -> bool {
        self.actions.wanted
    }

    /// The oldest request of the other side that waits to be answered in order.
    pub fn oldest(&self) -> Option<&Waiting> {
        self.pairing.oldest(self.side.other())
    }

    /// The request of the other side that waits with that number.
    pub fn waiting(&self, id: u64) -> Option<&Waiting> {
        self.pairing.waiting(self.side.other(), id)
    }

    /// The request of the side that is being read that waits with that number: an earlier one.
    pub fn asked(&self, id: u64) -> Option<&Waiting> {
        self.pairing.waiting(self.side, id)
    }
}
