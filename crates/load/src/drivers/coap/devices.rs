//! Devices and those of their messages that wait: for the turn of their device, or to be sent again. Whether datagrams or
//! a stream carry them is their driver's business.

use super::requests::Requests;
use super::transfer::Order;
use crate::driver::{Client, Event};
use crate::share::Share;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::RetryPlan;
use plimsoll_stats::distribution::{Random, random};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Names the stream of random numbers that pauses are drawn from.
const STREAM: u64 = 0x7061_7573_6573;

/// See the module.
pub struct Devices {
    share: Share,
    /// Most messages of a device under way at once.
    outstanding: u32,
    /// How often and when a message is sent again after an answer that asks for it.
    retries: RetryPlan,
    random: Random,
    devices: Vec<Device>,
    /// Messages to be sent again after an answer that asks for it: when, which.
    to_repeat: BinaryHeap<Reverse<(Nanos, Order)>>,
    /// Those that may have something to send.
    pub dirty: Vec<u32>,
    /// Messages that wait for their device's turn.
    waiting: usize,
}

#[derive(Default)]
struct Device {
    standing: Standing,
    /// Whether it was ever connected.
    is_known: bool,
    queue: VecDeque<Order>,
    under_way: u32,
}

/// How a device stands with its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Idle,
    Waiting,
    Ready,
}

impl Devices {
    /// So many of a share, none of them connected.
    pub fn new(share: Share, owned: usize, outstanding: u32, (retries, seed): (RetryPlan, u64)) -> Devices {
        Devices {
            share,
            outstanding,
            retries,
            random: random(seed, &[STREAM, u64::from(share.index)]),
            devices: (0..owned).map(|_| Device::default()).collect(),
            to_repeat: BinaryHeap::new(),
            dirty: Vec::new(),
            waiting: 0,
        }
    }

    /// The place of a device; queries about any device share one.
    pub fn slot(&self, device: u32) -> u32 {
        self.share.slot(device) % (self.devices.len().max(1) as u32)
    }

    /// Whether messages wait for their device's turn.
    pub fn have_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// A message waits for its device's turn.
    pub fn enqueue(&mut self, order: Order) {
        self.wait(order, VecDeque::push_back);
    }

    fn wait(&mut self, order: Order, push: fn(&mut VecDeque<Order>, Order)) {
        let slot = self.slot(order.device);
        if let Some(device) = self.devices.get_mut(slot as usize) {
            push(&mut device.queue, order);
            self.waiting += 1;
            self.dirty.push(slot);
        }
    }

    /// Whether a device may begin with a message.
    pub fn may_begin(&self, slot: u32) -> bool {
        self.devices.get(slot as usize).is_some_and(|device| {
            device.standing == Standing::Ready
                && device.under_way < self.outstanding
                && !device.queue.is_empty()
        })
    }

    /// The message that a device begins with, if it may.
    pub fn begin(&mut self, slot: u32) -> Option<Order> {
        if !self.may_begin(slot) {
            return None;
        }
        let device = self.devices.get_mut(slot as usize)?;
        let order = device.queue.pop_front()?;
        device.under_way += 1;
        self.waiting -= 1;
        Some(order)
    }

    /// Whether messages of a device are under way.
    pub fn has_under_way(&self, slot: u32) -> bool {
        self.devices.get(slot as usize).is_some_and(|device| device.under_way > 0)
    }

    /// A message is under way no longer.
    pub fn ended(&mut self, order: Order) {
        let slot = self.slot(order.device);
        if let Some(device) = self.devices.get_mut(slot as usize) {
            device.under_way = device.under_way.saturating_sub(1);
            if !device.queue.is_empty() {
                self.dirty.push(slot);
            }
        }
    }

    /// A message ended without an answer: it is given up if its sending was told. Else it waits again, in front, or is
    /// forgotten.
    pub fn abandon(
        &mut self,
        order: Order,
        was_told: bool,
        at: Nanos,
        put_back: bool,
        events: &mut Vec<Event>,
    ) {
        let Order { device, sequence, tries, .. } = order;
        if was_told || tries > 0 {
            events.push(Event::Abandoned { device, sequence, at });
        } else if put_back {
            self.wait(order, VecDeque::push_front);
        }
    }

    /// The platform has answered a message, or refused it with a status and for a reason: it is at its end, or is sent
    /// again after a pause.
    pub fn answered(
        &mut self,
        order: Order,
        at: Nanos,
        refused: Option<(u16, String)>,
        requests: &Requests,
        events: &mut Vec<Event>,
    ) {
        let Order { device, sequence, tries, .. } = order;
        events.push(match refused {
            None => Event::Acknowledged { device, sequence, at },
            Some((status, _)) if requests.is_to_be_repeated(status) && self.retries.goes_on(tries + 1) => {
                let pause = self.retries.pause(tries + 1, self.random.fraction());
                let order = Order { tries: tries + 1, after: status, since: at, ..order };
                return self.to_repeat.push(Reverse((at + pause, order)));
            }
            Some((_, reason)) => Event::Refused { device, sequence, at, reason },
        });
    }

    /// When the next message is to be sent again; never where there is none.
    pub fn next_repetition(&self) -> Nanos {
        self.to_repeat.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// Messages that are to be sent again by now wait for their device's turn.
    pub fn repeat(&mut self, now: Nanos) {
        while self.next_repetition() <= now {
            let Some(Reverse((_, order))) = self.to_repeat.pop() else { return };
            self.enqueue(order);
        }
    }

    /// A device waits for its connection from now on; `false` if it did before, or has one.
    pub fn wants_connection(&mut self, slot: u32) -> bool {
        let device = self.devices.get_mut(slot as usize);
        let Some(device) = device.filter(|device| device.standing == Standing::Idle) else { return false };
        device.standing = Standing::Waiting;
        true
    }

    /// Devices have their connection, which took so long.
    pub fn are_ready(&mut self, slots: &[u32], took: Nanos, events: &mut Vec<Event>) {
        for &slot in slots {
            let Some(device) = self.devices.get_mut(slot as usize) else { continue };
            device.standing = Standing::Ready;
            let again = std::mem::replace(&mut device.is_known, true);
            events.push(Event::Ready { client: Client::Device(self.share.number(slot)), took, again });
            self.dirty.push(slot);
        }
    }

    /// The connection of `members` is lost, and they wait for the next one. That of `waiting` could not be made, and they
    /// wait no more.
    pub fn are_lost(
        &mut self,
        (members, waiting): (&[u32], &[u32]),
        at: Nanos,
        reason: &str,
        events: &mut Vec<Event>,
    ) {
        let of_members = members.iter().map(|slot| (slot, Standing::Waiting));
        for (&slot, standing) in of_members.chain(waiting.iter().map(|slot| (slot, Standing::Idle))) {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.standing = standing;
            }
            let (client, reason) = (Client::Device(self.share.number(slot)), reason.to_owned());
            events.push(match standing {
                Standing::Waiting => Event::Disconnected { client, at, reason },
                _ => Event::ConnectFailed { client, reason, lasting: false },
            });
        }
    }

    /// Forgets the messages of a device that leaves; whether it had its connection.
    pub fn forget(&mut self, slot: u32) -> bool {
        let number = self.share.number(slot);
        self.to_repeat.retain(|Reverse((_, order))| order.device != number);
        let Some(device) = self.devices.get_mut(slot as usize) else { return false };
        self.waiting -= device.queue.len();
        device.queue.clear();
        device.is_known = false;
        std::mem::take(&mut device.standing) == Standing::Ready
    }

    /// Gives up what waits and was sent before, and forgets what was not.
    pub fn withdraw(&mut self, at: Nanos, events: &mut Vec<Event>) {
        let abandoned =
            |order: Order| Event::Abandoned { device: order.device, sequence: order.sequence, at };
        for device in &mut self.devices {
            events.extend(device.queue.drain(..).filter(|order| order.tries > 0).map(abandoned));
        }
        self.waiting = 0;
        events.extend(self.to_repeat.drain().map(|Reverse((_, order))| abandoned(order)));
    }

    /// No device has a connection any more.
    pub fn are_disconnected(&mut self) {
        self.devices.iter_mut().for_each(|device| device.standing = Standing::Idle);
    }
}
