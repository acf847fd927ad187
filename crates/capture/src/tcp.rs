//! One TCP connection (RFC 9293): its bytes put in order, its losses and round trips seen.
//!
//! A capture is not what happened: packets are missing from it, stand in it twice or in another order. What the other side has
//! acknowledged did arrive, so that a hole which is acknowledged is the capture's, and is jumped.

use crate::conversation::{Conversation, DissectionContext};
use crate::duplicate_packets::DuplicatePackets;
use crate::packet::{Packet, Tcp};
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Packets of one direction among which a duplicate is recognised.
const DUPLICATES: usize = 16;
/// Nobody repeats a packet that soon.
const AT_ONCE: Nanos = Nanos::from_millis(1);
/// What comes ahead of its turn is kept up to here, for each direction: bytes and pieces.
const EARLY_BYTES: usize = 256 << 10;
const EARLY: usize = 256;
/// Packets that are held back since they acknowledge what was not seen yet, and for how long.
const HELD: usize = 6;
const HOLD: Nanos = Nanos::from_millis(5);
/// A hole that is filled later than this, with nothing to tell which was sent first, was filled by a retransmission.
const REORDERED: Nanos = Nanos::from_millis(3);
/// Segments whose times are remembered for the delay of a retransmission.
const RECENT: usize = 8;

/// What was seen of a direction since the last time that it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets, duplicates apart.
    pub packets: u64,
    /// Bytes of content, each once.
    pub bytes: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Packets that stand in the capture more than once.
    pub duplicates: u64,
    /// Packets that were captured, or came, in another order.
    pub reordered: u64,
    /// Bytes that were acknowledged and are not in the capture.
    pub missing: u64,
    /// Packets that said that no space was left.
    pub zero_windows: u64,
}

/// Where measurements of the transport go.
pub trait Meter {
    /// From a segment to its acknowledgement, as seen where it was captured.
    fn round_trip(&mut self, direction: usize, time: Nanos);
    /// From a segment (where it was seen, else from when its absence showed) to its retransmission.
    fn retransmission(&mut self, direction: usize, delay: Option<Nanos>);
}

/// One direction of a connection: a byte stream that is put together by its sequence numbers.
#[derive(Default)]
struct StreamReassembly {
    /// A packet of it was seen.
    known: bool,
    /// Number of the byte that is next to be given on, and of the one after the highest that was seen.
    next: u32,
    top: u32,
    /// Of the packet that went highest: the sender's count and clock.
    top_id: u16,
    top_clock: u32,
    /// When a hole was first seen before `top`.
    hole_since: Nanos,
    duplicates: DuplicatePackets<DUPLICATES>,
    early: VecDeque<Early>,
    early_bytes: usize,
    /// Number behind the last byte.
    fin: Option<u32>,
    finished: bool,
    mss: u16,
    syn: Option<(u32, Nanos)>,
    recent: [Recent; RECENT],
    recent_at: u8,
    timed: Option<(u32, Nanos)>,
    seen: Seen,
}

/// A segment ahead of its turn.
struct Early {
    sequence: u32,
    /// Bytes beyond those that are there.
    missing: u32,
    bytes: Vec<u8>,
}

impl Early {
    fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.bytes.len() as u32).wrapping_add(self.missing)
    }
}

/// A segment that was seen.
#[derive(Clone, Copy, Default)]
struct Recent {
    end: u32,
    at: Nanos,
    id: u16,
}

struct Held {
    direction: usize,
    packet: Packet,
    tcp: Tcp,
    bytes: Vec<u8>,
}

/// A connection.
#[derive(Default)]
pub struct Connection {
    directions: [StreamReassembly; 2],
    held: VecDeque<Held>,
    /// The direction of who opened it.
    client: Option<usize>,
    reset: bool,
}

/// How far one number is behind another.
fn ahead(number: u32, of: u32) -> i32 {
    number.wrapping_sub(of) as i32
}

impl Connection {
    /// The direction (0 or 1) of who opened it, where that was seen.
    pub fn client(&self) -> Option<usize> {
        self.client
    }

    /// Whether both sides have ended, or one has broken it off.
    pub fn is_over(&self) -> bool {
        self.reset || self.directions.iter().all(|direction| direction.finished)
    }

    /// Whether a packet opens a new connection on the ports of this one.
    pub fn is_opened_anew(&self, direction: usize, tcp: &Tcp) -> bool {
        let opens = tcp.flags.syn() && !tcp.flags.ack();
        let known = &self.directions[direction];
        opens && known.known && known.syn.is_none_or(|(sequence, _)| sequence != tcp.sequence)
    }

    /// What was seen of both directions since the last call.
    pub fn take_seen(&mut self) -> [Seen; 2] {
        self.directions.each_mut().map(|direction| std::mem::take(&mut direction.seen))
    }

    /// Memory held for bytes that wait, bytes.
    pub fn kept(&self) -> usize {
        let held: usize = self.held.iter().map(|held| held.bytes.capacity()).sum();
        held + self.directions.iter().map(|direction| direction.early_bytes).sum::<usize>()
    }

    /// Takes the next packet of the capture.
    pub fn packet(
        &mut self,
        direction: usize,
        packet: &Packet,
        tcp: &Tcp,
        bytes: &[u8],
        to: &mut Receiver<'_, '_>,
    ) {
        if self.directions[direction].is_duplicate(packet, tcp) {
            self.directions[direction].seen.duplicates += 1;
            return;
        }
        if self.is_in_turn(direction, tcp) {
            self.take(direction, packet, tcp, bytes, to);
        } else {
            self.held.push_back(Held { direction, packet: *packet, tcp: *tcp, bytes: bytes.to_vec() });
        }
        while let Some(first) = self.held.front() {
            let in_turn = self.is_in_turn(first.direction, &first.tcp);
            let waited = packet.at - first.packet.at;
            if !in_turn && self.held.len() <= HELD && waited < HOLD && waited >= Nanos::ZERO {
                break;
            }
            let Some(held) = self.held.pop_front() else { break };
            self.take(held.direction, &held.packet, &held.tcp, &held.bytes, to);
        }
    }

    /// The capture is over: nothing more will fill a hole.
    pub fn flush(&mut self, at: Nanos, to: &mut Receiver<'_, '_>) {
        while let Some(held) = self.held.pop_front() {
            self.take(held.direction, &held.packet, &held.tcp, &held.bytes, to);
        }
        for direction in [0, 1] {
            while self.directions[direction].jump(direction, at, to) {}
        }
    }

    /// Whether all that the packet acknowledges was seen, so that it does not come ahead of what it answers. Of a direction
    /// that is not captured nothing is ever seen.
    fn is_in_turn(&self, direction: usize, tcp: &Tcp) -> bool {
        let peer = &self.directions[1 - direction];
        !tcp.flags.ack() || tcp.flags.rst() || !peer.known || ahead(tcp.acknowledgement, peer.next) <= 0
    }

    fn take(
        &mut self,
        direction: usize,
        packet: &Packet,
        tcp: &Tcp,
        bytes: &[u8],
        to: &mut Receiver<'_, '_>,
    ) {
        let at = packet.at;
        if tcp.flags.syn() {
            self.client = Some(if tcp.flags.ack() { 1 - direction } else { direction });
        }
        if tcp.flags.ack() {
            let peer = 1 - direction;
            self.directions[peer].acknowledged(peer, tcp.acknowledgement, at, to);
        }
        let own = &mut self.directions[direction];
        own.take(direction, packet, tcp, bytes, to);
        if tcp.flags.rst() {
            self.reset = true;
        }
    }
}

/// Where bytes and measurements go.
pub struct Receiver<'a, 'b> {
    /// Made with the first bytes.
    pub conversation: &'a mut Option<Box<Conversation>>,
    /// Makes one; the direction of the client is given, where known.
    pub begin: &'a dyn Fn() -> Conversation,
    /// What is observed.
    pub context: &'a mut DissectionContext<'b>,
    /// What is measured.
    pub meter: &'a mut dyn Meter,
}

impl Receiver<'_, '_> {
    fn data(&mut self, direction: usize, at: Nanos, bytes: &[u8], missing: u32) {
        let conversation = self.conversation.get_or_insert_with(|| Box::new((self.begin)()));
        conversation.data(direction, at, bytes, self.context);
        if missing > 0 {
            conversation.gap(direction, at, u64::from(missing), self.context);
        }
    }

    fn finished(&mut self, direction: usize, at: Nanos) {
        if let Some(conversation) = self.conversation {
            conversation.finished(direction, at, self.context);
        }
    }
}

impl StreamReassembly {
    /// Whether that packet was seen before, in all its headers.
    fn is_duplicate(&mut self, packet: &Packet, tcp: &Tcp) -> bool {
        let counted = packet.ip_id != 0 || tcp.clock != 0;
        self.duplicates.has(tcp.print, packet.at, counted, AT_ONCE)
    }

    /// The other side has everything before that number.
    fn acknowledged(&mut self, direction: usize, number: u32, at: Nanos, to: &mut Receiver<'_, '_>) {
        if !self.known {
            return;
        }
        if let Some((_, sent)) = self.timed.filter(|(end, _)| ahead(number, *end) >= 0) {
            self.timed = None;
            to.meter.round_trip(direction, at - sent);
        }
        // A number out of this world is not believed.
        let hole = ahead(number, self.next);
        if hole <= 0 || hole > 1 << 30 || self.finished {
            return;
        }
        while ahead(number, self.next) > 0 {
            if !self.jump(direction, at, to) {
                // Nothing is there behind the hole: all of it is missing, a FIN perhaps.
                let missing = number.wrapping_sub(self.next);
                self.seen.missing += u64::from(missing);
                self.next = number;
                self.top = number;
                if to.conversation.is_some() {
                    to.data(direction, at, &[], missing);
                }
                break;
            }
        }
    }

    fn take(
        &mut self,
        direction: usize,
        packet: &Packet,
        tcp: &Tcp,
        bytes: &[u8],
        to: &mut Receiver<'_, '_>,
    ) {
        let at = packet.at;
        self.seen.packets += 1;
        if tcp.window == 0 && !tcp.flags.syn() && !tcp.flags.rst() {
            self.seen.zero_windows += 1;
        }
        let mut sequence = tcp.sequence;
        if tcp.flags.syn() {
            if let Some((_, sent)) = self.syn.filter(|(number, _)| *number == sequence) {
                self.seen.retransmissions += 1;
                to.meter.retransmission(direction, Some(at - sent));
                self.timed = None;
            } else {
                self.syn = Some((sequence, at));
                self.timed = Some((sequence.wrapping_add(1), at));
            }
            self.mss = tcp.mss;
            sequence = sequence.wrapping_add(1);
        }
        if !self.known {
            self.known = true;
            (self.next, self.top) = (sequence, sequence);
            (self.top_id, self.top_clock) = (packet.ip_id, tcp.clock);
        }
        let length = bytes.len() as u32 + packet.missing;
        if length > 0 {
            self.content(direction, packet, tcp, sequence, bytes, to);
        }
        if tcp.flags.fin() {
            let end = sequence.wrapping_add(length);
            if self.finished && length == 0 {
                self.again(direction, packet, end, to);
            }
            self.fin = Some(end);
        }
        if self.fin == Some(self.next) && !self.finished {
            self.finished = true;
            self.next = self.next.wrapping_add(1);
            to.finished(direction, at);
        }
    }

    fn content(
        &mut self,
        direction: usize,
        packet: &Packet,
        tcp: &Tcp,
        sequence: u32,
        bytes: &[u8],
        to: &mut Receiver<'_, '_>,
    ) {
        let at = packet.at;
        let end = sequence.wrapping_add(bytes.len() as u32).wrapping_add(packet.missing);
        let gap = ahead(sequence, self.next);
        if ahead(end, self.next) <= 0 {
            // A byte that asks whether anybody is there is no retransmission.
            if ahead(end, sequence) > 1 || end != self.next {
                self.again(direction, packet, end, to);
            }
            return;
        }
        if gap > 0 {
            let is_there =
                |early: &Early| ahead(sequence, early.sequence) >= 0 && ahead(end, early.end()) <= 0;
            if self.early.iter().any(is_there) {
                return self.again(direction, packet, end, to);
            }
            if self.early.is_empty() {
                self.hole_since = at;
            } else if ahead(end, self.top) < 0 {
                self.late(direction, packet, tcp, end, to);
            }
            self.note(packet, tcp, end);
            self.keep(sequence, bytes, packet.missing);
            while self.early_bytes > EARLY_BYTES || self.early.len() > EARLY {
                self.jump(direction, at, to);
            }
            return;
        }
        if gap < 0 {
            self.again(direction, packet, end, to);
        } else if !self.early.is_empty() {
            self.late(direction, packet, tcp, end, to);
        } else if self.timed.is_none() {
            self.timed = Some((end, at));
        }
        self.note(packet, tcp, end);
        self.give(direction, at, sequence, bytes, packet.missing, to);
        self.give_early(direction, at, to);
    }

    /// Gives on what lies beyond `next` of a segment that reaches over it.
    fn give(
        &mut self,
        direction: usize,
        at: Nanos,
        sequence: u32,
        bytes: &[u8],
        missing: u32,
        to: &mut Receiver<'_, '_>,
    ) {
        let old = ahead(self.next, sequence).max(0) as usize;
        let fresh = bytes.get(old..).unwrap_or_default();
        let missing = missing.saturating_sub(old.saturating_sub(bytes.len()) as u32);
        self.next = self.next.wrapping_add(fresh.len() as u32).wrapping_add(missing);
        self.seen.bytes += fresh.len() as u64 + u64::from(missing);
        to.data(direction, at, fresh, missing);
    }

    fn give_early(&mut self, direction: usize, at: Nanos, to: &mut Receiver<'_, '_>) {
        while self.early.front().is_some_and(|early| ahead(early.sequence, self.next) <= 0) {
            let Some(early) = self.early.pop_front() else { break };
            self.early_bytes -= early.bytes.len();
            if ahead(early.end(), self.next) > 0 {
                self.give(direction, at, early.sequence, &early.bytes, early.missing, to);
            }
        }
        if self.early.is_empty() && self.early.capacity() > EARLY {
            self.early = VecDeque::new();
        }
    }

    fn keep(&mut self, sequence: u32, bytes: &[u8], missing: u32) {
        let place =
            self.early.iter().rposition(|early| ahead(early.sequence, sequence) <= 0).map_or(0, |at| at + 1);
        self.early_bytes += bytes.len();
        self.early.insert(place, Early { sequence, missing, bytes: bytes.to_vec() });
    }

    /// Gives up the hole before what came early, and gives that on.
    fn jump(&mut self, direction: usize, at: Nanos, to: &mut Receiver<'_, '_>) -> bool {
        let Some(first) = self.early.front() else { return false };
        let missing = ahead(first.sequence, self.next).max(0) as u32;
        self.next = self.next.wrapping_add(missing);
        self.seen.missing += u64::from(missing);
        to.data(direction, at, &[], missing);
        self.give_early(direction, at, to);
        true
    }

    /// Remembers when a segment was seen.
    fn note(&mut self, packet: &Packet, tcp: &Tcp, end: u32) {
        self.recent[usize::from(self.recent_at) % RECENT] = Recent { end, at: packet.at, id: packet.ip_id };
        self.recent_at = self.recent_at.wrapping_add(1);
        if ahead(end, self.top) > 0 {
            (self.top, self.top_id, self.top_clock) = (end, packet.ip_id, tcp.clock);
        }
    }

    /// A segment fills a hole: it was captured or came late, or was sent again after it had been lost.
    fn late(&mut self, direction: usize, packet: &Packet, tcp: &Tcp, end: u32, to: &mut Receiver<'_, '_>) {
        let later = if packet.ip_id != 0 || self.top_id != 0 {
            (packet.ip_id.wrapping_sub(self.top_id) as i16) > 0
        } else if tcp.clock != self.top_clock {
            ahead(tcp.clock, self.top_clock) > 0
        } else {
            packet.at - self.hole_since > REORDERED
        };
        if later {
            self.again(direction, packet, end, to);
        } else {
            self.seen.reordered += 1;
        }
    }

    /// A segment is seen again. One that holds several was sent as several. One that its sender counted before what was seen
    /// of it is the first one itself, which came behind its retransmission; one with the same count is a duplicate.
    fn again(&mut self, direction: usize, packet: &Packet, end: u32, to: &mut Receiver<'_, '_>) {
        self.timed = None;
        let first = self.recent.iter().find(|recent| recent.end == end && recent.at != Nanos::ZERO);
        if let Some(first) = first.filter(|first| first.id != 0 && packet.ip_id != 0) {
            match packet.ip_id.wrapping_sub(first.id) as i16 {
                0 => return self.seen.duplicates += 1,
                ..0 => return self.seen.reordered += 1,
                _ => {}
            }
        }
        let length = packet.length + packet.missing;
        let segments = if self.mss > 0 { length.div_ceil(u32::from(self.mss)).max(1) } else { 1 };
        self.seen.retransmissions += u64::from(segments);
        let since = first.map(|first| first.at).or((!self.early.is_empty()).then_some(self.hole_since));
        to.meter.retransmission(direction, since.map(|since| packet.at - since));
    }
}
