//! Messages of devices: those that wait, those that are under way, and what an answer means for them. Which bytes go when is the
//! connections' business.

use super::super::coap::requests::Requests;
use super::super::coap::transfer::{Order, Room, Step, Transfer};
use super::connection::Settings;
use crate::driver::{Event, Traffic};
use crate::drivers::words;
use crate::share::Share;
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{Kind, Message};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::CoapPlan;
use plimsoll_stats::distribution::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How often a message is sent again at most after an answer that asks for it.
const MOST_TRIES: u32 = 10;
/// What the bytes of a token count to that tell the requests of a place apart.
const TURNS: u32 = 1 << 24;
/// An answer to a request of so many turns ago is a late one of ours; what is further away is somebody else's.
const OUR_TURNS: u32 = 1 << 16;
/// Bytes of a token: three for the place of the exchange, three for the how manieth request of that place it is.
const TOKEN: usize = 6;
/// Unauthorized, as a status: 4.01.
const UNAUTHORIZED: u16 = 401;

/// See the module.
pub struct Exchanges {
    pub share: Share,
    pub plan: CoapPlan,
    /// Most messages of a device under way at once.
    pub outstanding: u32,
    pub requests: Requests,
    pub pauses: (Nanos, Nanos),
    pub devices: Vec<Device>,
    pub places: Vec<Place>,
    vacant: Vec<u32>,
    /// Messages to be sent again after an answer that asks for it: when, which.
    pub to_repeat: BinaryHeap<Reverse<(Nanos, Order)>>,
    /// Devices with something to send, and places whose next request is to be written.
    pub dirty: Vec<u32>,
    pub next: Vec<u32>,
    /// Messages that wait for their device's turn, and exchanges in blocks: their next step waits for the platform.
    pub waiting: usize,
    pub in_blocks: usize,
    pub random: Random,
}

/// A device.
pub struct Device {
    pub state: Standing,
    /// Whether it was ever connected.
    pub known: bool,
    pub queue: VecDeque<Order>,
    pub under_way: u32,
}

/// How a device stands with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Idle,
    Waiting,
    Ready,
}

/// Room for an exchange, used again and again.
pub struct Place {
    pub transfer: Transfer,
    /// Whether one is under way.
    pub taken: bool,
    pub connection: u32,
    /// The how manieth request of this place is under way.
    pub turn: u32,
    /// Bytes of its present request.
    length: u32,
    /// When its answer is awaited no longer; never before its first request has gone.
    pub give_up_at: Nanos,
    /// When its timer is due; never where it has none.
    pub watched: Nanos,
}

impl Exchanges {
    /// Of so many devices, without messages.
    pub fn new(
        (share, plan): (Share, CoapPlan),
        outstanding: u32,
        requests: Requests,
        pauses: (Nanos, Nanos),
        owned: usize,
        random: Random,
    ) -> Exchanges {
        let device = |_| Device { state: Standing::Idle, known: false, queue: VecDeque::new(), under_way: 0 };
        Exchanges {
            share,
            plan,
            outstanding,
            requests,
            pauses,
            devices: (0..owned).map(device).collect(),
            places: Vec::new(),
            vacant: Vec::new(),
            to_repeat: BinaryHeap::new(),
            dirty: Vec::new(),
            next: Vec::new(),
            waiting: 0,
            in_blocks: 0,
            random,
        }
    }

    /// The place of a device; queries about any device share one.
    pub fn slot(&self, device: u32) -> u32 {
        self.share.slot(device) % (self.devices.len().max(1) as u32)
    }

    /// A message waits for its device's turn.
    pub fn enqueue(&mut self, order: Order) {
        let device = self.slot(order.device);
        if let Some(state) = self.devices.get_mut(device as usize) {
            state.queue.push_back(order);
            self.waiting += 1;
            self.dirty.push(device);
        }
    }

    /// The next message that a device may begin with.
    pub fn take_order(&mut self, device: u32) -> Option<Order> {
        let outstanding = self.outstanding;
        let state = self.devices.get_mut(device as usize);
        let state = state.filter(|own| own.state == Standing::Ready && own.under_way < outstanding)?;
        let order = state.queue.pop_front()?;
        state.under_way += 1;
        self.waiting -= 1;
        Some(order)
    }

    /// Begins an exchange over a connection of those settings; its place.
    pub fn begin(&mut self, connection: u32, order: Order, settings: Settings) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            let turn = self.random.below(u64::from(TURNS)) as u32;
            let (give_up_at, watched) = (Nanos::MAX, Nanos::MAX);
            let (transfer, taken, length) = (Transfer::default(), false, 0);
            self.places.push(Place { transfer, taken, connection, turn, length, give_up_at, watched });
            self.places.len() as u32 - 1
        });
        let code = self.requests.code();
        let Some(place) = self.places.get_mut(slot as usize) else { return slot };
        (place.taken, place.connection) = (true, connection);
        place.give_up_at = Nanos::MAX;
        let transfer = &mut place.transfer;
        self.requests.write(order.device, order.sequence, &mut transfer.options, &mut transfer.body);
        transfer.generation = self.requests.view().generation();
        let room = Room {
            largest: settings.max_message_size.map(|size| size as usize),
            block_size: self.plan.block_size,
            takes_many: settings.takes_blocks,
        };
        transfer.begin(order, code, room);
        self.in_blocks += usize::from(transfer.is_in_blocks());
        slot
    }

    /// Appends the request of a place that is next; its turn.
    pub fn write(&mut self, slot: u32, out: &mut Vec<u8>) -> Option<u32> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.taken)?;
        let begin = out.len();
        let token = token(slot, place.turn);
        stream::encode(&place.transfer.request(Kind::NonConfirmable, 0, &token), out);
        place.length = (out.len() - begin) as u32;
        Some(place.turn)
    }

    /// The kernel has a request, handed over by a call that began then; when the place is to be looked at, where nobody does.
    pub fn was_sent(
        &mut self,
        (slot, turn): (u32, u32),
        at: Nanos,
        events: &mut Vec<Event>,
    ) -> Option<Nanos> {
        let place = self.places.get_mut(slot as usize)?;
        if !place.taken || place.turn != turn {
            return None;
        }
        place.give_up_at = place.give_up_at.min(at + self.plan.timeout);
        tell_sent(place, at, events);
        if place.give_up_at >= place.watched {
            return None;
        }
        place.watched = place.give_up_at;
        Some(place.give_up_at)
    }

    /// The timer of a place is due; when it is to be looked at again, where nothing is to be done now. Gives up what waits too long.
    pub fn look_after(&mut self, slot: u32, at: Nanos, now: Nanos, events: &mut Vec<Event>) -> Option<Nanos> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.watched == at)?;
        place.watched = Nanos::MAX;
        // A request that waits for the platform to read is not given up: its bytes would go all the same.
        if !place.taken || place.give_up_at == Nanos::MAX {
            return None;
        }
        if place.give_up_at <= now {
            self.abandon(slot, now, false, events);
            return None;
        }
        place.watched = place.give_up_at;
        Some(place.give_up_at)
    }

    /// Ends an exchange without an answer; one of which nothing was sent is put back, or forgotten.
    pub fn abandon(&mut self, slot: u32, at: Nanos, put_back: bool, events: &mut Vec<Event>) {
        let Some((told, order)) = self.free(slot) else { return };
        let Order { device, sequence, tries, .. } = order;
        if told || tries > 0 {
            events.push(Event::Abandoned { device, sequence, at });
        } else if put_back {
            let slot = self.slot(device);
            if let Some(state) = self.devices.get_mut(slot as usize) {
                state.queue.push_front(order);
                self.waiting += 1;
                self.dirty.push(slot);
            }
        }
    }

    /// The same for a request that was written, if it is still under way.
    pub fn abandon_written(
        &mut self,
        (slot, turn): (u32, u32),
        at: Nanos,
        put_back: bool,
        events: &mut Vec<Event>,
    ) {
        if self.places.get(slot as usize).is_some_and(|place| place.taken && place.turn == turn) {
            self.abandon(slot, at, put_back, events);
        }
    }

    /// A request has begun to go, and its end will not: it counts as sent.
    pub fn has_begun(&mut self, (slot, turn): (u32, u32), at: Nanos, events: &mut Vec<Event>) {
        if let Some(place) = self.places.get_mut(slot as usize)
            && place.taken
            && place.turn == turn
        {
            tell_sent(place, at, events);
        }
    }

    /// The places of the exchanges under way over a connection.
    pub fn over(&self, connection: u32) -> Vec<u32> {
        let places = (0..).zip(&self.places);
        let own = places.filter(|(_, place)| place.taken && place.connection == connection);
        own.map(|(slot, _)| slot).collect()
    }

    /// Gives a place back; whether its message was told as sent, and which it was.
    pub fn free(&mut self, slot: u32) -> Option<(bool, Order)> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.taken)?;
        place.taken = false;
        place.turn = (place.turn + 1) % TURNS;
        self.vacant.push(slot);
        self.in_blocks -= usize::from(place.transfer.is_in_blocks());
        let (told, order) = (place.transfer.told, place.transfer.order);
        let device = self.slot(order.device);
        if let Some(state) = self.devices.get_mut(device as usize) {
            state.under_way = state.under_way.saturating_sub(1);
            if !state.queue.is_empty() {
                self.dirty.push(device);
            }
        }
        Some((told, order))
    }

    /// Takes an answer that came over a connection.
    pub fn answered(
        &mut self,
        connection: u32,
        message: &Message<'_>,
        at: Nanos,
        traffic: &mut Traffic,
        events: &mut Vec<Event>,
    ) {
        let slot = match self.whose(connection, message.token) {
            Whose::Under(slot) => slot,
            Whose::Past => return,
            Whose::Foreign => return slip("an answer to what was never asked", events),
        };
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        // A platform may answer before the kernel has said that all of the request has gone.
        tell_sent(place, at, events);
        traffic.answers.add_part(stream::length(message), message.payload.len());
        let transfer = &mut place.transfer;
        let was_in_blocks = transfer.is_in_blocks();
        let step = transfer.answer(message, |status| self.requests.is_success(status));
        let order = transfer.order;
        let Order { device, sequence, tries, .. } = order;
        let refused = match step {
            Step::Next => {
                self.in_blocks += usize::from(!was_in_blocks);
                place.turn = (place.turn + 1) % TURNS;
                return self.next.push(slot);
            }
            Step::Done => None,
            Step::Refused(status, reason) => {
                if status == UNAUTHORIZED {
                    self.requests.view().refuse(place.transfer.generation);
                }
                let told = words::refusal(&reason, self.requests.target());
                Some((status, self.requests.view().hide_captured(told, (device, 0))))
            }
        };
        traffic.answers.count += 1;
        self.free(slot);
        events.push(match refused {
            None => Event::Acknowledged { device, sequence, at },
            Some((status, _)) if self.requests.is_to_be_repeated(status) && tries < MOST_TRIES => {
                let pause = (self.pauses.0 * (1 << tries)).min(self.pauses.1);
                let order = Order { tries: tries + 1, after: status, since: at, ..order };
                return self.to_repeat.push(Reverse((at + pause, order)));
            }
            Some((_, reason)) => Event::Refused { device, sequence, at, reason },
        });
    }

    /// The exchange that a token names, as far as it is or was under way over that connection.
    fn whose(&self, connection: u32, token: &[u8]) -> Whose {
        let &[a, b, c, d, e, f] = token else { return Whose::Foreign };
        let (slot, turn) = (u32::from_be_bytes([0, a, b, c]), u32::from_be_bytes([0, d, e, f]));
        let Some(place) = self.places.get(slot as usize) else { return Whose::Foreign };
        // Another connection may have the place by now.
        match place.turn.wrapping_sub(turn) % TURNS {
            0 if place.taken && place.connection == connection => Whose::Under(slot),
            1..=OUR_TURNS => Whose::Past,
            _ => Whose::Foreign,
        }
    }
}

/// What a token names.
enum Whose {
    /// An exchange under way.
    Under(u32),
    /// One that has come to its end.
    Past,
    /// None.
    Foreign,
}

/// Tells that a message was sent, once.
fn tell_sent(place: &mut Place, at: Nanos, events: &mut Vec<Event>) {
    let transfer = &mut place.transfer;
    if std::mem::replace(&mut transfer.told, true) {
        return;
    }
    let Order { device, sequence, tries, after, since } = transfer.order;
    let (content, packet) = (transfer.body.len() as u32, transfer.packet(place.length));
    events.push(match tries {
        0 => Event::Sent { device, sequence, at, content, packet },
        _ => Event::Repeated { status: after, after: (at - since).max(Nanos::ZERO) },
    });
}

/// What came from the platform and belongs to nothing.
pub fn slip(what: &str, events: &mut Vec<Event>) {
    events.push(Event::Stray);
    events.push(Event::Incident { reason: format!("the platform sent {what}") });
}

fn token(place: u32, turn: u32) -> [u8; TOKEN] {
    let ([_, a, b, c], [_, d, e, f]) = (place.to_be_bytes(), turn.to_be_bytes());
    [a, b, c, d, e, f]
}
