//! What became of every message of this shard's devices: exact, for any number of subscribers, and with memory only
//! for what is still outstanding or was lost.

use crate::arrivals::Share;
use crate::recorder::{Place, Recorder, Timeline};
use crate::topology::Topology;
use plimsoll_model::record::FirstLoss;
use plimsoll_model::{Metric, Nanos};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

const NOT_YET: Nanos = Nanos(i64::MIN);

/// Books events of the devices that this shard owns.
pub struct Ledger {
    topology: Arc<Topology>,
    /// Whether the platform acknowledges (QoS 1 and 2).
    acknowledges: bool,
    /// The devices of this shard, in the order of their numbers.
    devices: Vec<Device>,
    share: Share,
    /// Messages of closed levels that some subscriber still lacks.
    missing: HashMap<(u32, u32), Message>,
    outstanding: u64,
    span: Span,
}

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
    /// For each receiver, one more than the highest sequence it has had from this device.
    highest: Vec<u32>,
    /// Sequence of the first message due in the current hold.
    hold_begin: Option<u32>,
}

impl Device {
    fn new(receivers: usize) -> Device {
        Device { base: 0, messages: VecDeque::new(), highest: vec![0; receivers], hold_begin: None }
    }
}

struct Message {
    place: Place,
    due: Nanos,
    sent: Nanos,
    done: Nanos,
    first_received: Nanos,
    settled: bool,
    undelivered: Bits,
    number_in_hold: u64,
}

/// A set of receivers, by position.
enum Bits {
    Few(u64),
    Many(Box<[u64]>),
}

impl Bits {
    fn full(length: usize) -> Bits {
        if length <= 64 {
            return Bits::Few(if length == 64 { u64::MAX } else { (1 << length) - 1 });
        }
        let mut words = vec![u64::MAX; length.div_ceil(64)].into_boxed_slice();
        if let (Some(last), true) = (words.last_mut(), !length.is_multiple_of(64)) {
            *last = (1 << (length % 64)) - 1;
        }
        Bits::Many(words)
    }

    /// Takes a position out; whether it was in.
    #[inline]
    fn take(&mut self, position: usize) -> bool {
        let word = match self {
            Bits::Few(word) => Some(word),
            Bits::Many(words) => words.get_mut(position / 64),
        };
        let mask = 1 << (position % 64);
        word.is_some_and(|word| {
            let was_in = *word & mask != 0;
            *word &= !mask;
            was_in
        })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        match self {
            Bits::Few(word) => *word == 0,
            Bits::Many(words) => words.iter().all(|&word| word == 0),
        }
    }
}

/// A delivery, on its way to the shard that owns the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
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
}

impl Ledger {
    /// An empty ledger. `acknowledges` is false at QoS 0.
    pub fn new(topology: Arc<Topology>, acknowledges: bool, share: Share) -> Ledger {
        let owned = (0..topology.devices()).filter(|&device| share.owns(device));
        let devices = owned.map(|device| Device::new(topology.receivers(device).len())).collect();
        Ledger {
            topology,
            acknowledges,
            devices,
            share,
            missing: HashMap::new(),
            outstanding: 0,
            span: Span::default(),
        }
    }

    /// Messages taken up of which sending, acknowledgement or a delivery is still awaited.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
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
        let place = timeline.place(due);
        recorder.counts(place).due += 1;
        recorder.time(place, Metric::Lateness, at - due);
        let state = self.devices.get_mut((device / self.share.of) as usize)?;
        let receivers = state.highest.len();
        let sequence = state.base.wrapping_add(state.messages.len() as u32);
        let number_in_hold = match place.sample {
            None => 0,
            Some(_) => 1 + u64::from(sequence.wrapping_sub(*state.hold_begin.get_or_insert(sequence))),
        };
        state.messages.push_back(Message {
            place,
            due,
            sent: NOT_YET,
            done: NOT_YET,
            first_received: NOT_YET,
            settled: false,
            undelivered: Bits::full(receivers),
            number_in_hold,
        });
        self.outstanding += 1;
        Some(sequence)
    }

    /// Books what was due but never taken up before the hold ended.
    pub fn never_ready(&mut self, recorder: &mut Recorder, timeline: &Timeline, due: Nanos) {
        let counts = recorder.counts(timeline.place(due));
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
        let Some(message) = self.message(device, sequence) else { return };
        message.sent = at;
        message.settled = !acknowledges;
        let place = message.place;
        let counts = recorder.counts(place);
        counts.sent += 1;
        counts.expected_deliveries += receivers;
        counts.content_bytes += u64::from(content);
        counts.publication_bytes += u64::from(packet);
        if place.sample.is_some() {
            self.span.first_sent = Some(self.span.first_sent.map_or(at, |first| first.min(at)));
        }
        if !acknowledges {
            self.completed(recorder, timeline, place, at);
        }
        self.retire(device);
    }

    /// Books an acknowledgement.
    pub fn acknowledged(
        &mut self,
        recorder: &mut Recorder,
        timeline: &Timeline,
        (device, sequence): (u32, u32),
        at: Nanos,
    ) {
        let Some(message) = self.message(device, sequence) else { return };
        if message.settled || message.sent == NOT_YET {
            return;
        }
        message.done = at;
        message.settled = true;
        let (place, due, sent, received) = (message.place, message.due, message.sent, message.first_received);
        recorder.counts(place).acknowledged += 1;
        recorder.time(place, Metric::PublishTime, at - due);
        recorder.time(place, Metric::PublishTimeFromSend, at - sent);
        if received != NOT_YET {
            difference(recorder, place, at, received);
        }
        self.completed(recorder, timeline, place, at);
        self.retire(device);
    }

    /// Books that no acknowledgement will come: refused (with a reason code) or lost with its connection.
    pub fn given_up(&mut self, recorder: &mut Recorder, (device, sequence): (u32, u32), refused: bool) {
        let Some(message) = self.message(device, sequence) else { return };
        if message.settled {
            return;
        }
        message.settled = true;
        let counts = recorder.counts(message.place);
        counts.refused += u64::from(refused);
        if message.sent == NOT_YET {
            // It will never be sent, so nobody waits for it.
            counts.unsent += 1;
            message.undelivered = Bits::Few(0);
        }
        self.retire(device);
    }

    /// Books a delivery.
    pub fn received(&mut self, recorder: &mut Recorder, now: Place, receipt: Receipt) {
        let Receipt { device, sequence, subscriber, at, content } = receipt;
        let position = self.topology.receivers(device).position(subscriber);
        let state = self.devices.get_mut((device / self.share.of) as usize);
        let (Some(position), Some(state)) = (position, state) else {
            recorder.counts(now).foreign += 1;
            return;
        };
        let Some(highest) = state.highest.get_mut(position) else {
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
        let counts = recorder.counts(message.place);
        if !message.undelivered.take(position) {
            counts.duplicated += 1;
            return;
        }
        if sequence < *highest {
            counts.reordered += 1;
        }
        *highest = (*highest).max(sequence + 1);
        if closed {
            counts.late += 1;
            if message.undelivered.is_empty() {
                self.missing.remove(&(device, sequence));
            }
            return;
        }
        counts.delivered += 1;
        counts.delivered_bytes += u64::from(content);
        let place = message.place;
        recorder.time(place, Metric::SubscribeTime, at - message.due);
        if message.sent != NOT_YET {
            recorder.time(place, Metric::SubscribeTimeFromSend, at - message.sent);
        }
        if message.first_received == NOT_YET {
            message.first_received = at;
            if message.done != NOT_YET {
                difference(recorder, place, message.done, at);
            }
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
        let mut first_loss: Option<(Nanos, FirstLoss)> = None;
        for (index, state) in (0..).zip(&mut self.devices) {
            let device = self.share.index + index * self.share.of;
            let base = state.base;
            state.base = base.wrapping_add(state.messages.len() as u32);
            state.hold_begin = None;
            for (sequence, message) in (base..).zip(state.messages.drain(..)) {
                if message.sent == NOT_YET {
                    // One that was given up has been counted then.
                    recorder.counts(message.place).unsent += u64::from(!message.settled);
                    continue;
                }
                if message.undelivered.is_empty() {
                    continue;
                }
                let loss = FirstLoss {
                    device,
                    sequence,
                    message_number: message.number_in_hold,
                    due_in_hold: message.due - timeline.hold_start,
                };
                if message.place.sample.is_some() && first_loss.is_none_or(|(due, _)| message.due < due) {
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
        let state = self.devices.get_mut((device / self.share.of) as usize)?;
        let index = sequence.checked_sub(state.base)?;
        state.messages.get_mut(index as usize)
    }

    /// An operation came to its end: it counts towards the achieved load of the moment, whenever it was due.
    fn completed(&mut self, recorder: &mut Recorder, timeline: &Timeline, place: Place, at: Nanos) {
        if at < timeline.hold_end {
            recorder.counts(timeline.place(at)).completed += 1;
        }
        if place.sample.is_some() {
            self.span.last_done = self.span.last_done.max(Some(at));
        }
    }

    /// Forgets what is finished at the front.
    #[inline]
    fn retire(&mut self, device: u32) {
        let Some(state) = self.devices.get_mut((device / self.share.of) as usize) else { return };
        while state.messages.front().is_some_and(|front| front.settled && front.undelivered.is_empty()) {
            state.messages.pop_front();
            state.base = state.base.wrapping_add(1);
            self.outstanding -= 1;
        }
    }
}

/// Acknowledged minus first received, by its sign.
fn difference(recorder: &mut Recorder, place: Place, done: Nanos, received: Nanos) {
    if done >= received {
        recorder.time(place, Metric::AcknowledgedAfterDelivery, done - received);
    } else {
        recorder.time(place, Metric::DeliveredAfterAcknowledgement, received - done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Counts;

    const TIMELINE: Timeline =
        Timeline { level: 0, start: Nanos(0), hold_start: Nanos(0), hold_end: Nanos(1000), samples: 1 };

    /// One device, two subscribers, and what the recorder says.
    struct Bench {
        ledger: Ledger,
        recorder: Recorder,
        total: Counts,
    }

    impl Bench {
        fn new(receivers: u32) -> Bench {
            let topology = Arc::new(Topology::uniform(1, receivers));
            let ledger = Ledger::new(topology, true, Share::WHOLE);
            Bench { ledger, recorder: Recorder::default(), total: Counts::default() }
        }

        /// A message that is due, ready and sent at once.
        fn send(&mut self, at: i64) -> u32 {
            let sequence = self.ledger.ready(&mut self.recorder, &TIMELINE, 0, Nanos(at), Nanos(at)).unwrap();
            self.ledger.sent(&mut self.recorder, &TIMELINE, (0, sequence), Nanos(at), (10, 20));
            sequence
        }

        fn acknowledge(&mut self, sequence: u32) {
            self.ledger.acknowledged(&mut self.recorder, &TIMELINE, (0, sequence), Nanos(500));
        }

        fn receive(&mut self, sequence: u32, subscriber: u32) {
            let receipt = Receipt { device: 0, sequence, subscriber, at: Nanos(600), content: 10 };
            self.ledger.received(&mut self.recorder, TIMELINE.place(Nanos(600)), receipt);
        }

        fn close(&mut self) -> Option<FirstLoss> {
            self.ledger.close(&mut self.recorder, &TIMELINE).2
        }

        fn counts(&mut self) -> Counts {
            for part in self.recorder.flush() {
                self.total += part.counts;
            }
            self.total
        }
    }

    #[test]
    fn what_everybody_has_is_forgotten_and_comes_again_as_a_duplicate() {
        let mut bench = Bench::new(2);
        let sequence = bench.send(0);
        bench.receive(sequence, 0);
        bench.receive(sequence, 1);
        assert_eq!(bench.ledger.outstanding(), 1, "the acknowledgement is still awaited");
        bench.acknowledge(sequence);
        assert_eq!(bench.ledger.outstanding(), 0);
        bench.receive(sequence, 1);
        let counts = bench.counts();
        assert_eq!((counts.delivered, counts.duplicated, counts.acknowledged), (2, 1, 1));
    }

    #[test]
    fn a_swapped_pair_is_one_reordering_and_a_duplicate_is_none() {
        let mut bench = Bench::new(1);
        let (first, second) = (bench.send(0), bench.send(1));
        bench.receive(second, 0);
        bench.receive(first, 0);
        bench.receive(first, 0);
        let counts = bench.counts();
        assert_eq!((counts.delivered, counts.reordered, counts.duplicated), (2, 1, 1));
    }

    #[test]
    fn the_first_loss_is_named_and_a_late_delivery_takes_it_back() {
        let mut bench = Bench::new(1);
        let sent: Vec<u32> = (0..3).map(|at| bench.send(at * 10)).collect();
        bench.receive(sent[0], 0);
        bench.receive(sent[2], 0);
        let loss = bench.close().unwrap();
        assert_eq!((loss.sequence, loss.message_number, loss.due_in_hold), (1, 2, Nanos(10)));
        assert_eq!(bench.counts().lost(), 1);
        bench.receive(sent[1], 0);
        bench.receive(sent[1], 0);
        let counts = bench.counts();
        assert_eq!((counts.late, counts.lost(), counts.duplicated), (1, 0, 1));
    }

    #[test]
    fn what_was_never_sent_is_unsent_and_expects_nobody() {
        let mut bench = Bench::new(2);
        bench.ledger.ready(&mut bench.recorder, &TIMELINE, 0, Nanos(1), Nanos(2)).unwrap();
        bench.ledger.never_ready(&mut bench.recorder, &TIMELINE, Nanos(3));
        assert_eq!(bench.close(), None);
        let counts = bench.counts();
        assert_eq!((counts.due, counts.sent, counts.unsent, counts.never_ready), (2, 0, 2, 1));
        assert_eq!(counts.expected_deliveries, 0);
    }

    #[test]
    fn a_message_refused_before_it_was_sent_is_unsent_once() {
        for receivers in [0, 2] {
            let mut bench = Bench::new(receivers);
            let sequence = bench.ledger.ready(&mut bench.recorder, &TIMELINE, 0, Nanos(1), Nanos(1)).unwrap();
            bench.ledger.given_up(&mut bench.recorder, (0, sequence), true);
            assert_eq!(bench.ledger.outstanding(), 0);
            bench.close();
            let counts = bench.counts();
            assert_eq!((counts.due, counts.sent, counts.unsent, counts.refused), (1, 0, 1, 1));
        }
    }

    #[test]
    fn an_invented_message_or_subscriber_is_foreign() {
        let mut bench = Bench::new(1);
        let sequence = bench.send(0);
        bench.receive(sequence + 1, 0);
        bench.receive(sequence, 7);
        let counts = bench.counts();
        assert_eq!((counts.foreign, counts.delivered), (2, 0));
    }

    #[test]
    fn more_than_sixty_four_subscribers_are_told_apart() {
        for receivers in [64, 65, 130] {
            let mut bench = Bench::new(receivers);
            let sequence = bench.send(0);
            bench.acknowledge(sequence);
            for subscriber in 0..receivers {
                assert_eq!(bench.ledger.outstanding(), 1);
                bench.receive(sequence, subscriber);
            }
            assert_eq!(bench.ledger.outstanding(), 0);
            assert_eq!(bench.counts().delivered, u64::from(receivers));
        }
    }

    #[test]
    fn a_second_acknowledgement_and_one_of_nothing_change_nothing() {
        let mut bench = Bench::new(1);
        let sequence = bench.send(0);
        bench.acknowledge(sequence);
        bench.acknowledge(sequence);
        bench.acknowledge(sequence + 5);
        assert_eq!(bench.counts().acknowledged, 1);
    }
}
