//! One conversation: the bytes of both sides in order, given to the dissector that knows them, and what it tells of them
//! stamped, counted, matched, and searched for markers.

use crate::action::Actions;
use crate::component::Components;
use crate::direction::Direction;
use crate::dissect::{Carrier, Dissector, Event, KEPT, Opened, Output, Step};
use crate::dissectors;
use crate::marker::Search;
use crate::observations::{Breach, ConversationId, Exchange, Manner, Observations, Sighting};
use crate::pairing::{Pairing, Waiting};
use crate::side::Side;
use crate::tls::keys::Keys;
use crate::tls::{Opener, Piece, Unopened};
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, WireProtocol};

/// Bytes kept of each side until it is known what is spoken.
const UNDECIDED: usize = 4096;

/// A silence after which a pipeline is taken as empty, so that responses find their requests in order again.
const SILENCE: Nanos = Nanos::from_millis(200);

/// What is shared by all conversations of a thread.
pub struct DissectionContext<'a> {
    /// Looks for markers.
    pub search: &'a Search,
    /// Open TLS.
    pub keys: &'a Keys,
    /// What is observed goes here.
    pub observations: &'a mut Observations,
}

/// Two sides and what they speak.
pub struct Conversation {
    id: ConversationId,
    carrier: Carrier,
    ports: [u16; 2],
    /// Which of the two directions is the client's, and whether that is known: from the handshake, from who listens, or from
    /// what is spoken.
    client: usize,
    sure: bool,
    /// The capture has it from its beginning.
    begun: bool,
    tries: u32,
    last: Nanos,
    security: Security,
    state: State,
    directions: [Direction; 2],
    pairing: Pairing,
    events: Vec<Event>,
    opened: Opened,
    actions: Actions,
}

enum State {
    Undecided,
    Known(WireProtocol, Box<dyn Dissector>),
    Opaque(WireProtocol),
}

/// What lies between the bytes of the transport and those that are read.
enum Security {
    None,
    Tls(Box<Opener>),
    /// TLS that is being opened just now, or was given up or has ended: nothing lies above it that could be opened.
    Within,
}

/// The direction (0 or 1) of who opened a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The opening itself was captured.
    Seen(usize),
    /// It was not, and the other end is known to listen.
    Told(usize),
    /// It was not, and nobody knows.
    Unknown,
}

impl Opening {
    /// By what was seen, else by who is known to listen.
    pub fn new(seen: Option<usize>, components: &Components, ports: [u16; 2]) -> Opening {
        match seen {
            Some(client) => Opening::Seen(client),
            None => components.opener(ports).map_or(Opening::Unknown, Opening::Told),
        }
    }

    /// The direction of the client, by a guess where it is not known: servers have the lower ports, mostly.
    pub fn client(self, ports: [u16; 2]) -> usize {
        match self {
            Opening::Seen(client) | Opening::Told(client) => client,
            Opening::Unknown => usize::from(ports[0] < ports[1]),
        }
    }
}

impl Conversation {
    /// Between two ports.
    pub fn new(id: ConversationId, carrier: Carrier, ports: [u16; 2], opening: Opening) -> Conversation {
        Conversation {
            id,
            carrier,
            ports,
            client: opening.client(ports),
            sure: opening != Opening::Unknown,
            begun: matches!(opening, Opening::Seen(_)),
            tries: 0,
            last: Nanos::ZERO,
            security: Security::None,
            state: State::Undecided,
            directions: Default::default(),
            pairing: Pairing::default(),
            events: Vec::new(),
            opened: Opened::default(),
            actions: Actions::default(),
        }
    }

    /// What is spoken; [`WireProtocol::Unknown`] while that is not known.
    pub fn protocol(&self) -> WireProtocol {
        match &self.state {
            State::Undecided if matches!(self.security, Security::None) => WireProtocol::Unknown,
            State::Undecided => WireProtocol::Tls,
            State::Known(protocol, dissector) => dissector.carries().unwrap_or(*protocol),
            State::Opaque(protocol) => *protocol,
        }
    }

    /// The direction (0 or 1) of the client, as far as that is known.
    pub fn client(&self) -> usize {
        self.client
    }

    /// Memory held for bytes that wait, bytes.
    pub fn kept(&self) -> usize {
        let sealed = if let Security::Tls(opener) = &self.security { opener.kept() } else { 0 };
        sealed + self.directions.iter().map(|direction| direction.kept.capacity()).sum::<usize>()
    }

    fn side(&self, direction: usize) -> Side {
        if direction == self.client { Side::Client } else { Side::Server }
    }

    /// The next bytes of a direction.
    pub fn data(&mut self, direction: usize, at: Nanos, bytes: &[u8], context: &mut DissectionContext<'_>) {
        if bytes.is_empty() {
            return;
        }
        // After so long a silence nothing is owed any more.
        if at - std::mem::replace(&mut self.last, at) > SILENCE {
            self.pairing.set_right();
        }
        if let Security::Tls(_) = self.security {
            return self.sealed(direction, at, Piece::Data(bytes), context);
        }
        match self.state {
            State::Known(..) => self.known(direction, at, bytes, context),
            // Bytes that nobody reads are searched all the same.
            State::Opaque(_) => self.seek(direction, at, bytes, context),
            State::Undecided => self.undecided(direction, at, bytes, context),
        }
    }

    /// Bytes of that direction are not in the capture.
    pub fn gap(&mut self, direction: usize, at: Nanos, missing: u64, context: &mut DissectionContext<'_>) {
        if let Security::Tls(_) = self.security {
            return self.sealed(direction, at, Piece::Gap(missing), context);
        }
        let own = &mut self.directions[direction];
        own.tail.clear();
        if own.pass > missing && own.kept.is_empty() {
            own.pass -= missing;
            own.bytes += missing;
            return;
        }
        if matches!(self.state, State::Known(..)) {
            self.lose(direction, at, context);
        } else {
            let kept = std::mem::take(&mut own.kept);
            self.seek(direction, at, &kept, context);
        }
    }

    /// That direction has ended.
    pub fn finished(&mut self, direction: usize, at: Nanos, context: &mut DissectionContext<'_>) {
        if let Security::Tls(_) = self.security {
            return self.sealed(direction, at, Piece::End, context);
        }
        self.looks_for(context);
        if self.with_dissector(direction, |dissector, side, out| dissector.finished(side, out)).is_some() {
            self.tell(direction, at, context);
        }
    }

    /// What still waits may yet be answered, and nobody will know.
    pub fn leave(&mut self, context: &mut DissectionContext<'_>) {
        self.pairing.doubt();
        if let Security::Tls(_) = self.security {
            self.security = Security::Within;
            context.observations.secured.push(Err(Unopened::GivenUp));
        }
        self.end(context);
    }

    /// The conversation is over, or the capture is: what still waits was not answered. Nothing that follows is read.
    pub fn end(&mut self, context: &mut DissectionContext<'_>) {
        self.unseal_last(context);
        for side in [Side::Client, Side::Server] {
            for waiting in self.pairing.drain(side) {
                self.close(side, &waiting, waiting.without_answer(), context);
            }
        }
        if let State::Undecided = self.state {
            for direction in [0, 1] {
                let own = &mut self.directions[direction];
                let (since, kept) = (own.kept_since, std::mem::take(&mut own.kept));
                self.seek(direction, since, &kept, context);
            }
        }
        // Many more conversations are over than go on: what is left of one costs little.
        self.state = State::Opaque(self.protocol());
        (self.directions, self.pairing, self.opened, self.actions) = Default::default();
        self.events = Vec::new();
    }

    fn seek(&mut self, direction: usize, at: Nanos, bytes: &[u8], context: &mut DissectionContext<'_>) {
        let from = self.side(direction);
        let own = &mut self.directions[direction];
        own.search(bytes, context.search);
        for message in own.markers.drain(..).filter(|id| !id.is_shared()) {
            let (conversation, verb, manner) = (self.id, Label::default(), Manner::Handed);
            context.observations.sightings.push(Sighting { at, conversation, from, message, verb, manner });
        }
    }

    /// Gives the dissector the next bytes of a direction, behind those that it could not use yet.
    fn known(&mut self, direction: usize, at: Nanos, bytes: &[u8], context: &mut DissectionContext<'_>) {
        if self.turns_to_tls(direction, bytes) {
            return self.secure(direction, at, bytes, context);
        }
        let side = self.side(direction);
        let own = &mut self.directions[direction];
        if own.lost {
            let State::Known(_, dissector) = &self.state else { return };
            if !dissector.resumes(side, bytes) {
                return self.skip(direction, at, bytes, context);
            }
            own.lost = false;
        }
        if own.kept.is_empty() {
            let taken = self.read(direction, at, bytes, context);
            if let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
                let own = &mut self.directions[direction];
                own.kept.extend_from_slice(rest);
                own.kept_since = at;
                own.begun.get_or_insert(at);
            }
            return;
        }
        own.kept.extend_from_slice(bytes);
        if own.kept.len() < own.need {
            return;
        }
        let mut kept = std::mem::take(&mut own.kept);
        let taken = self.read(direction, at, &kept, context);
        kept.drain(..taken.min(kept.len()));
        // A dissector that changed the protocol may have begun to keep.
        let own = &mut self.directions[direction];
        if own.kept.is_empty() {
            own.kept = kept;
        }
        if !own.kept.is_empty() {
            own.begun.get_or_insert(at);
        } else if own.kept.capacity() > UNDECIDED {
            own.kept = Vec::new();
        }
    }

    /// Reads as many messages as there are; how many bytes of the input are done with.
    fn read(
        &mut self,
        direction: usize,
        at: Nanos,
        input: &[u8],
        context: &mut DissectionContext<'_>,
    ) -> usize {
        self.looks_for(context);
        // Most packets hold no marker: one look at the whole saves one at each message.
        let clean = self.directions[direction].tail.is_empty() && !context.search.may_hold(input);
        let (mut at_byte, mut idle) = (0, 0);
        while let Some(rest) = input.get(at_byte..).filter(|rest| !rest.is_empty()) {
            let own = &mut self.directions[direction];
            if own.pass > 0 {
                at_byte += self.pass(direction, at, rest, clean, context);
                continue;
            }
            if rest.len() < own.need {
                break;
            }
            let Some(step) = self.step(direction, rest) else { break };
            let own = &mut self.directions[direction];
            own.need = 0;
            let reason = match step {
                Step::Taken(taken) => {
                    let taken = taken.clamp(1, rest.len());
                    // What was opened is searched instead: compressed bytes may show parts of it as they are.
                    let clean = clean || !self.opened.bytes.is_empty();
                    own.took(at, &rest[..taken], clean, context.search);
                    at_byte += taken;
                    self.tell(direction, at, context);
                    idle = 0;
                    continue;
                }
                Step::Need(need) if need.max(rest.len() + 1) <= KEPT => {
                    own.need = need.max(rest.len() + 1);
                    break;
                }
                Step::Pass(0) => {
                    self.passed(direction, at, context);
                    idle += 1;
                    if idle <= 2 {
                        continue;
                    }
                    "a dissector that does not move on"
                }
                Step::Pass(content) => {
                    own.pass = content;
                    self.tell(direction, at, context);
                    continue;
                }
                Step::Becomes(protocol, taken) => {
                    let (taken, rest) = rest.split_at(taken.min(rest.len()));
                    own.took(at, taken, clean, context.search);
                    self.go_on_as(protocol, direction, at, rest, context);
                    return input.len();
                }
                Step::Need(_) => "a message that is too long to be kept",
                Step::Malformed(reason) => reason,
            };
            self.breach(direction, at, reason, rest, context);
            return input.len();
        }
        if self.carrier == Carrier::Datagrams && at_byte < input.len() {
            let rest = input.get(at_byte..).unwrap_or_default();
            self.breach(direction, at, "a datagram that ends too early", rest, context);
            return input.len();
        }
        at_byte
    }

    /// What a dissector is to look for, beside messages.
    fn looks_for(&mut self, context: &DissectionContext<'_>) {
        self.opened.wanted = context.search.is_wanted();
        self.actions.wanted = context.observations.actions.is_some();
    }

    /// What the dissector, where there is one, makes of the next bytes.
    fn step(&mut self, direction: usize, bytes: &[u8]) -> Option<Step> {
        self.with_dissector(direction, |dissector, side, out| dissector.parse(side, bytes, out))
    }

    /// Lets the dissector, where there is one, read a direction and tell of it.
    fn with_dissector<T>(
        &mut self,
        direction: usize,
        read: impl FnOnce(&mut dyn Dissector, Side, &mut Output<'_>) -> T,
    ) -> Option<T> {
        let side = self.side(direction);
        let State::Known(_, dissector) = &mut self.state else { return None };
        let (pairing, events) = (&mut self.pairing, &mut self.events);
        let (opened, actions) = (&mut self.opened, &mut self.actions);
        Some(read(dissector.as_mut(), side, &mut Output { side, pairing, events, opened, actions }))
    }

    fn passed(&mut self, direction: usize, at: Nanos, context: &mut DissectionContext<'_>) {
        let _ = self.with_dissector(direction, |dissector, side, out| dissector.passed(side, out));
        self.tell(direction, at, context);
    }

    /// Passes content that need not be looked at; how many bytes of it are there.
    fn pass(
        &mut self,
        direction: usize,
        at: Nanos,
        bytes: &[u8],
        clean: bool,
        context: &mut DissectionContext<'_>,
    ) -> usize {
        let own = &mut self.directions[direction];
        let passed = own.pass.min(bytes.len() as u64) as usize;
        own.pass -= passed as u64;
        own.took(at, &bytes[..passed], clean, context.search);
        if own.pass == 0 {
            self.passed(direction, at, context);
        }
        passed
    }

    /// Both sides speak another protocol after the message that was just read: in the rest of the packet, and in what of the other
    /// direction waits.
    fn go_on_as(
        &mut self,
        protocol: WireProtocol,
        direction: usize,
        at: Nanos,
        rest: &[u8],
        context: &mut DissectionContext<'_>,
    ) {
        self.tell(direction, at, context);
        self.become_other(protocol);
        if !rest.is_empty() {
            self.data(direction, at, rest, context);
        }
        let waiting = std::mem::take(&mut self.directions[1 - direction].kept);
        self.data(1 - direction, at, &waiting, context);
    }

    fn become_other(&mut self, protocol: WireProtocol) {
        for direction in &mut self.directions {
            (direction.need, direction.pass, direction.lost) = (0, 0, false);
        }
        self.state = match dissectors::entry(protocol) {
            None if protocol == WireProtocol::Tls && matches!(self.security, Security::None) => {
                self.security = Security::Tls(Box::default());
                State::Undecided
            }
            Some(entry) => State::Known(protocol, (entry.make)(Carrier::Stream)),
            None => State::Opaque(protocol),
        };
    }

    /// The rest of the packet is not understood.
    fn breach(
        &mut self,
        direction: usize,
        at: Nanos,
        reason: &'static str,
        rest: &[u8],
        context: &mut DissectionContext<'_>,
    ) {
        let (from, protocol) = (self.side(direction), self.protocol());
        self.events.clear();
        self.actions.list.clear();
        context.observations.breaches.push(Breach { conversation: self.id, protocol, from, at, reason });
        self.lose(direction, at, context);
        self.skip(direction, at, rest, context);
    }

    /// Bytes that cannot be understood are counted, and searched all the same.
    fn skip(&mut self, direction: usize, at: Nanos, bytes: &[u8], context: &mut DissectionContext<'_>) {
        context.observations.skipped += bytes.len() as u64;
        self.seek(direction, at, bytes, context);
    }

    /// The thread is lost on one side. In the order in which they wait, requests find their responses no more.
    fn lose(&mut self, direction: usize, at: Nanos, context: &mut DissectionContext<'_>) {
        let side = self.side(direction);
        self.actions.list.clear();
        let kept = std::mem::take(&mut self.directions[direction].kept);
        self.skip(direction, at, &kept, context);
        self.directions[direction].forget();
        if self.carrier == Carrier::Stream {
            self.directions[direction].lost = true;
            for side in [Side::Client, Side::Server] {
                for waiting in self.pairing.drop_in_order(side) {
                    self.close(side, &waiting, Outcome::Unknown, context);
                }
            }
        }
        if let State::Known(_, dissector) = &mut self.state {
            dissector.lost(side);
        }
    }

    fn close(
        &self,
        requester: Side,
        waiting: &Waiting,
        outcome: Outcome,
        context: &mut DissectionContext<'_>,
    ) {
        context.observations.exchanges.push(Exchange {
            conversation: self.id,
            protocol: self.protocol(),
            requester,
            verb: waiting.verb,
            outcome,
            status: Label::default(),
            request: waiting.span,
            interim: waiting.interim,
            response: None,
            marker: waiting.marker,
            carried: waiting.marker.is_some(),
            asking: dissectors::asking(self.protocol(), &waiting.verb, &Label::default()),
        });
    }
}

mod events;
mod finding;
mod secured;
#[cfg(test)]
mod tests;
