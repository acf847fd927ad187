//! What became of every message of this shard's devices: exact, for any number of subscribers, and with memory only
//! for what is still outstanding or was lost, and for the order of each row in which messages come.

mod message;

use crate::contract::Contract;
use crate::driver::Stages;
use crate::freshness::Freshness;
use crate::proof::Unproved;
use crate::recorder::{Recorder, SampleSlot, Timeline};
use crate::share::Share;
use crate::topology::Topology;
use message::{Bits, Message, NOT_YET};
use plimsoll_model::message::MessageRecord;
use plimsoll_model::record::FirstLoss;
use plimsoll_model::{Metric, Nanos};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Books events of the devices that this shard owns.
pub struct Ledger {
    topology: Arc<Topology>,
    /// Whether messages are acknowledged.
    acknowledges: bool,
    /// The devices of this shard, in the order of their numbers.
    devices: Vec<Device>,
    share: Share,
    /// The same as a device's `highest`, by device, seat and partition, of what came in partitions other than 0: a platform that spreads the
    /// messages of a device over several promises no order among these.
    highest_in_others: FxHashMap<(u32, usize, u16), u32>,
    /// Messages of closed levels that some subscriber still lacks.
    missing: HashMap<(u32, u32), Message>,
    outstanding: u64,
    span: Span,
    /// The age of the newest values; `None` where nobody asks.
    freshness: Option<Freshness>,
    /// Messages done with since the log was last taken; `None` where no log is kept.
    log: Option<Vec<MessageRecord>>,
    /// What the platform may leave out; `None` where it promises every message.
    contract: Option<Contract>,
    /// Whether the log of a component tells of every message's stages, beside what answers it.
    awaits_stages: bool,
    /// Messages of the hold that neither an acknowledgement nor a delivery can prove; `None` where messages are acknowledged.
    unproved: Option<Unproved>,
}

/// So many devices are looked at for one that is known.
const NEAR: usize = 64;

/// First sending and last end among the hold's messages.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first_sent: Option<Nanos>,
    last_done: Option<Nanos>,
}

struct Device {
    /// Sequence of the front of `messages`.
    base: u32,
    messages: VecDeque<Message>,
    /// For each subscriber that may receive, one more than the highest sequence it has had from this device.
    highest: Vec<u32>,
    /// Sequence of the first message due in the current hold.
    hold_begin: Option<u32>,
    /// Whether the platform has had a message of it, as far as is known.
    is_known: bool,
}

impl Device {
    fn new(seats: usize) -> Device {
        Device {
            base: 0,
            messages: VecDeque::new(),
            highest: vec![0; seats],
            hold_begin: None,
            is_known: false,
        }
    }
}

/// A delivery, on its way to the shard that owns the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The device that sent it.
    pub device: u32,
    /// The message.
    pub sequence: u32,
    /// Who received it.
    pub subscriber: u32,
    /// When.
    pub at: Nanos,
    /// Content bytes.
    pub content: u32,
    /// The partition in which it came; 0 where the platform has none.
    pub partition: u16,
}

impl Ledger {
    /// An empty ledger. `acknowledges` is false where a message is done when it is sent, as at QoS 0.
    pub fn new(topology: Arc<Topology>, acknowledges: bool, share: Share) -> Ledger {
        let owned = share.numbers(topology.devices());
        let devices: Vec<Device> =
            owned.map(|device| Device::new(topology.receivers(device).seats())).collect();
        Ledger {
            unproved: (!acknowledges).then(|| Unproved::new(share, devices.len())),
            topology,
            acknowledges,
            devices,
            share,
            highest_in_others: FxHashMap::default(),
            missing: HashMap::new(),
            outstanding: 0,
            span: Span::default(),
            freshness: None,
            log: None,
            contract: None,
            awaits_stages: false,
        }
    }

    /// The same with a log of every message.
    pub fn logging(self) -> Ledger {
        Ledger { log: Some(Vec::new()), ..self }
    }

    /// The same for a platform that may leave out what the contract says; `None` where it promises every message.
    pub fn under(self, contract: Option<Contract>) -> Ledger {
        Ledger { contract, ..self }
    }

    /// The same where the log of a component tells of every message's stages, beside what answers it.
    pub fn awaiting_stages(self) -> Ledger {
        Ledger { awaits_stages: true, ..self }
    }

    /// The same with the age of the newest values of its devices.
    pub fn with_freshness(self) -> Ledger {
        let owned = self.share.numbers(self.topology.devices());
        let freshness = Freshness::new(owned.map(|device| self.topology.receivers(device).len()));
        Ledger { freshness: Some(freshness), ..self }
    }

    /// Whether a device is one of its population.
    #[inline]
    pub fn has(&self, device: u32) -> bool {
        self.topology.has(device)
    }

    /// Whether every message of that device is to be delivered to somebody.
    pub fn promises_delivery(&self, device: u32) -> bool {
        self.contract.is_none() && !self.topology.receivers(device).is_empty()
    }

    /// A level begins, in which devices below that number take part.
    pub fn begin(&mut self, timeline: &Timeline, devices: u32) {
        if let Some(freshness) = &mut self.freshness {
            let below = self.share.count(devices);
            freshness.begin(*timeline, below as usize);
        }
    }

    /// Messages in the log that were not taken yet.
    #[inline]
    pub fn logged(&self) -> usize {
        self.log.as_ref().map_or(0, Vec::len)
    }

    /// Takes the log of the messages done with since the last call.
    pub fn take_log(&mut self) -> Vec<MessageRecord> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Messages taken up of which sending, acknowledgement, a delivery or what a component's log tells is still awaited, and those that
    /// are kept behind one of the same device. Where lines of such a log are lost, it does not come down to none.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// A device of which the platform can tell something: that one, or one near it of this shard. Of a device that has sent
    /// nothing yet there is nothing to ask for, which is no failure.
    pub fn known_near(&self, device: u32) -> u32 {
        let owned = self.devices.len();
        let first = self.share.slot(device) as usize;
        let near = (0..owned.min(NEAR)).map(|step| (first + step) % owned);
        let known = |&index: &usize| self.devices.get(index).is_some_and(|device| device.is_known);
        near.filter(known).map(|index| self.share.number(index as u32)).next().unwrap_or(device)
    }

    /// Books a message that the engine took up; returns its sequence, `None` for a device of another shard.
    pub fn ready(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
        device: u32,
        due: Nanos,
        at: Nanos,
    ) -> Option<u32> {
        let slot = timeline.slot(due);
        recorder.counts(slot).due += 1;
        recorder.time(slot, Metric::Lateness, at - due);
        let state = self.devices.get_mut(self.share.slot(device) as usize)?;
        let receivers = self.topology.receivers(device).len();
        let sequence = state.base.wrapping_add(state.messages.len() as u32);
        let number_in_hold = match slot.sample {
            None => 0,
            Some(_) => 1 + u64::from(sequence.wrapping_sub(*state.hold_begin.get_or_insert(sequence))),
        };
        state.messages.push_back(Message {
            slot,
            due,
            ready: at,
            sent: NOT_YET,
            done: NOT_YET,
            first_received: NOT_YET,
            retrieved: NOT_YET,
            dispatched: NOT_YET,
            settled: false,
            staged: !self.awaits_stages,
            refused: false,
            undelivered: Bits::full(receivers),
            replaced: if self.contract.is_some() { Bits::none(receivers) } else { Bits::Few(0) },
            number_in_hold,
        });
        self.outstanding += 1;
        Some(sequence)
    }

    /// The hold of the level ends at that time, which was not known before.
    pub fn hold_ends(&mut self, at: Nanos) {
        if let Some(freshness) = &mut self.freshness {
            freshness.hold_ends(at);
        }
    }

    /// Books what was due but never taken up before the hold ended.
    pub fn never_ready(&mut self, recorder: &mut Recorder, timeline: &Timeline, due: Nanos) {
        let counts = recorder.counts(timeline.slot(due));
        counts.due += 1;
        counts.never_ready += 1;
        counts.unsent += 1;
    }

    /// Books the sending of a message.
    pub fn sent(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
        (device, sequence): (u32, u32),
        at: Nanos,
        (content, packet): (u32, u32),
    ) {
        let acknowledges = self.acknowledges;
        let receivers = self.topology.receivers(device).len() as u64;
        // Another attempt is the same message.
        let Some(message) = self.message(device, sequence).filter(|message| message.sent == NOT_YET) else {
            return;
        };
        message.sent = at;
        message.settled = !acknowledges;
        let slot = message.slot;
        let counts = recorder.counts(slot);
        counts.sent += 1;
        counts.expected_deliveries += receivers;
        counts.content_bytes += u64::from(content);
        counts.publication_bytes += u64::from(packet);
        if slot.sample.is_some() {
            self.span.first_sent = Some(self.span.first_sent.map_or(at, |first| first.min(at)));
        }
        if !acknowledges {
            self.completed(recorder, timeline, slot, at);
            self.know(device);
        }
        if let Some(unproved) = self.unproved.as_mut().filter(|_| receivers == 0 && slot.sample.is_some()) {
            unproved.sent(device, sequence);
        }
        self.retire(device);
    }

    /// Books that the platform has read the messages of a device up to that one.
    pub fn arrived(&mut self, device: u32, through: u32) {
        if let Some(unproved) = &mut self.unproved {
            unproved.arrived(device, through);
        }
    }

    /// How many messages of the hold nothing has proved to have arrived.
    pub fn unproved(&self) -> u64 {
        self.unproved.as_ref().map_or(0, Unproved::count)
    }

    /// The devices that they are of.
    pub fn unproved_devices(&self) -> Vec<u32> {
        self.unproved.as_ref().map_or(Vec::new(), |unproved| unproved.devices().collect())
    }

    fn know(&mut self, device: u32) {
        if let Some(state) = self.devices.get_mut(self.share.slot(device) as usize) {
            state.is_known = true;
        }
    }

    /// Books an acknowledgement. Whether the message was not at its end before.
    pub fn acknowledged(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
        (device, sequence): (u32, u32),
        at: Nanos,
    ) -> bool {
        let Some(message) = self.message(device, sequence) else { return false };
        if message.settled || message.sent == NOT_YET {
            return false;
        }
        message.done = at;
        message.settled = true;
        let (slot, due, sent, received) = (message.slot, message.due, message.sent, message.first_received);
        recorder.counts(slot).acknowledged += 1;
        recorder.time(slot, Metric::PublishTime, at - due);
        recorder.time(slot, Metric::PublishTimeFromSend, at - sent);
        if received != NOT_YET {
            difference(recorder, slot, at, received);
        }
        self.completed(recorder, timeline, slot, at);
        self.know(device);
        self.retire(device);
        true
    }

    /// Books stages whose end acknowledges a message. Nothing is booked of stages that it cannot have passed by now, which is told by
    /// `false`.
    pub fn acknowledged_by_stages(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
        (device, sequence): (u32, u32),
        (stages, now): (Stages, Nanos),
    ) -> bool {
        let Some(message) = self.message(device, sequence) else { return true };
        if message.settled || message.sent == NOT_YET {
            return true;
        }
        if !stages.is_possible(message.sent, now) {
            return false;
        }
        let stages = stages.not_before(message.sent);
        message.book_stages(recorder, stages);
        self.acknowledged(recorder, timeline, (device, sequence), stages.done);
        true
    }

    /// Books stages of a message that is answered otherwise; see [`Ledger::acknowledged_by_stages`].
    pub fn passed_stages(
        &mut self,
        recorder: &mut Recorder,
        (device, sequence): (u32, u32),
        (stages, now): (Stages, Nanos),
    ) -> bool {
        let Some(message) = self.message(device, sequence) else { return true };
        if message.staged || message.sent == NOT_YET {
            return true;
        }
        message.staged = true;
        let is_possible = stages.is_possible(message.sent, now);
        if is_possible {
            message.book_stages(recorder, stages.not_before(message.sent));
        }
        self.retire(device);
        is_possible
    }

    /// Books that no acknowledgement will come: refused (with a reason code) or lost with its connection. Whether that was not
    /// known.
    pub fn given_up(
        &mut self,
        recorder: &mut Recorder,
        (device, sequence): (u32, u32),
        refused: bool,
    ) -> bool {
        let Some(message) = self.message(device, sequence) else { return false };
        if message.settled {
            return false;
        }
        message.settled = true;
        message.staged = true;
        message.refused = refused;
        let counts = recorder.counts(message.slot);
        counts.refused += u64::from(refused);
        if message.sent == NOT_YET {
            // It will never be sent, so nobody waits for it.
            counts.unsent += 1;
            message.undelivered = Bits::Few(0);
        }
        self.retire(device);
        true
    }

    /// Books a delivery.
    pub fn received(&mut self, recorder: &mut Recorder, now: SampleSlot, delivery: Delivery) {
        let Delivery { device, sequence, subscriber, at, content, partition } = delivery;
        let receivers = self.topology.receivers(device);
        let place = self.topology.place(subscriber);
        let position = place.and_then(|place| receivers.position(place));
        let seat = place.and_then(|place| receivers.seat(place));
        let state = self.devices.get_mut(self.share.slot(device) as usize);
        let (Some(position), Some(seat), Some(state)) = (position, seat, state) else {
            recorder.counts(now).foreign += 1;
            return;
        };
        let Some(highest) = state.highest.get_mut(seat) else {
            recorder.counts(now).foreign += 1;
            return;
        };
        let index = sequence.wrapping_sub(state.base) as usize;
        if sequence >= state.base && index >= state.messages.len() {
            // Our marker, but a message that was never taken up: nobody of this run sent it.
            recorder.counts(now).foreign += 1;
            return;
        }
        let live = if sequence >= state.base { state.messages.get_mut(index) } else { None };
        let closed = live.is_none();
        let Some(message) = live.or_else(|| self.missing.get_mut(&(device, sequence))) else {
            recorder.counts(now).duplicated += 1;
            return;
        };
        let acknowledged = message.done != NOT_YET;
        let counts = recorder.counts(message.slot);
        if !message.undelivered.take(position) {
            counts.duplicated += 1;
            return;
        }
        let highest = match partition {
            0 => highest,
            _ => self.highest_in_others.entry((device, seat, partition)).or_default(),
        };
        if sequence < *highest {
            counts.reordered += 1;
        }
        *highest = (*highest).max(sequence + 1);
        if closed {
            counts.late += 1;
            counts.late_acknowledged += u64::from(acknowledged);
            if message.undelivered.is_empty() {
                self.missing.remove(&(device, sequence));
            }
            return;
        }
        counts.delivered += 1;
        counts.delivered_bytes += u64::from(content);
        let slot = message.slot;
        recorder.time(slot, Metric::SubscribeTime, at - message.due);
        if message.sent != NOT_YET {
            recorder.time(slot, Metric::SubscribeTimeFromSend, at - message.sent);
        }
        if let Some(freshness) = &mut self.freshness {
            let device = self.share.slot(device) as usize;
            freshness.delivered(recorder, (device, position), message.due, at);
        }
        if message.first_received == NOT_YET {
            message.first_received = at;
            if message.done != NOT_YET {
                difference(recorder, slot, message.done, at);
            }
        }
        if let (Some(contract), Some(state)) =
            (&self.contract, self.devices.get_mut(self.share.slot(device) as usize))
        {
            message::replace_older(&mut state.messages, (index, position), at, contract);
        }
        self.retire(device);
    }

    /// Closes a level: what was not sent is unsent, what some subscriber lacks is remembered in case it comes late.
    /// Returns first sending, last end and the first loss of the hold.
    pub fn close(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
    ) -> (Option<Nanos>, Option<Nanos>, Option<FirstLoss>) {
        if let Some(freshness) = &mut self.freshness {
            freshness.end(recorder);
        }
        if let Some(unproved) = &mut self.unproved {
            let last = SampleSlot { level: timeline.level, sample: Some(timeline.samples.saturating_sub(1)) };
            recorder.counts(last).unproved += unproved.count();
            unproved.clear();
        }
        let mut first_loss: Option<(Nanos, FirstLoss)> = None;
        for (index, state) in (0..).zip(&mut self.devices) {
            let device = self.share.number(index);
            let receivers = self.topology.receivers(device).len() as u32;
            let base = state.base;
            state.base = base.wrapping_add(state.messages.len() as u32);
            state.hold_begin = None;
            for (sequence, mut message) in (base..).zip(state.messages.drain(..)) {
                // What the platform never took, or refused, is not replaced by anything.
                let taken = message.sent != NOT_YET
                    && !message.refused
                    && (!self.acknowledges || message.done != NOT_YET);
                if let (Some(contract), true) = (&self.contract, taken) {
                    let superseded = message.superseded(self.topology.receivers(device), contract);
                    recorder.counts(message.slot).superseded += superseded;
                }
                if let Some(log) = &mut self.log {
                    log.push(message.record(device, sequence, receivers, self.acknowledges));
                }
                if message.sent == NOT_YET {
                    // One that was given up has been counted then.
                    recorder.counts(message.slot).unsent += u64::from(!message.settled);
                    continue;
                }
                if message.undelivered.is_empty() {
                    continue;
                }
                if self.acknowledges {
                    let (missing, counts) =
                        (u64::from(message.undelivered.count()), recorder.counts(message.slot));
                    match message.done {
                        NOT_YET => counts.missing_unacknowledged += missing,
                        _ => counts.missing_acknowledged += missing,
                    }
                }
                let loss = FirstLoss {
                    device,
                    sequence,
                    message_number: message.number_in_hold,
                    due_in_hold: message.due - timeline.hold_start,
                };
                if message.slot.sample.is_some() && first_loss.is_none_or(|(due, _)| message.due < due) {
                    first_loss = Some((message.due, loss));
                }
                self.missing.insert((device, sequence), message);
            }
        }
        self.outstanding = 0;
        let span = std::mem::take(&mut self.span);
        (span.first_sent, span.last_done, first_loss.map(|(_, loss)| loss))
    }

    fn message(&mut self, device: u32, sequence: u32) -> Option<&mut Message> {
        let state = self.devices.get_mut(self.share.slot(device) as usize)?;
        let index = sequence.checked_sub(state.base)?;
        state.messages.get_mut(index as usize)
    }

    /// An operation came to its end: it counts towards the achieved load of the moment, whenever it was due.
    fn completed(&mut self, recorder: &mut Recorder, timeline: &Timeline, slot: SampleSlot, at: Nanos) {
        if at < timeline.hold_end {
            recorder.counts(timeline.slot(at)).completed += 1;
        }
        if slot.sample.is_some() {
            self.span.last_done = self.span.last_done.max(Some(at));
        }
    }

    /// Forgets what is finished at the front.
    #[inline]
    fn retire(&mut self, device: u32) {
        let Some(state) = self.devices.get_mut(self.share.slot(device) as usize) else { return };
        while state.messages.front().is_some_and(|front| front.is_over()) {
            if let (Some(log), Some(message)) = (&mut self.log, state.messages.front()) {
                let receivers = self.topology.receivers(device).len() as u32;
                log.push(message.record(device, state.base, receivers, self.acknowledges));
            }
            state.messages.pop_front();
            state.base = state.base.wrapping_add(1);
            self.outstanding -= 1;
        }
    }
}

/// Acknowledged minus first received, by its sign.
fn difference(recorder: &mut Recorder, slot: SampleSlot, done: Nanos, received: Nanos) {
    if done >= received {
        recorder.time(slot, Metric::AcknowledgedAfterDelivery, done - received);
    } else {
        recorder.time(slot, Metric::DeliveredAfterAcknowledgement, received - done);
    }
}

#[cfg(test)]
mod tests;
