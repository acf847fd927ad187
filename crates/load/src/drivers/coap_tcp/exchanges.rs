//! Messages of devices that are under way, and what an answer means for them. Which bytes go when is the connections'
//! business.

use super::connection::Settings;
use crate::driver::{Event, Traffic};
use crate::drivers::coap::devices::Devices;
use crate::drivers::coap::requests::Requests;
use crate::drivers::coap::slip;
use crate::drivers::coap::tokens::{self, Age, TURNS};
use crate::drivers::coap::transfer::{Order, Room, Step, Transfer};
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{Kind, Message};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::CoapPlan;
use plimsoll_stats::distribution::Random;

/// See the module.
pub struct Exchanges {
    pub plan: CoapPlan,
    pub requests: Requests,
    pub devices: Devices,
    pub places: Vec<Place>,
    vacant: Vec<u32>,
    /// The places of the exchanges under way over each connection.
    over: Vec<Vec<u32>>,
    /// Places whose next request is to be written.
    pub next: Vec<u32>,
    /// Exchanges in blocks: their next step waits for the platform.
    pub in_blocks: usize,
    pub random: Random,
}

/// Room for an exchange, used again and again.
pub struct Place {
    pub transfer: Transfer,
    /// Whether one is under way.
    pub taken: bool,
    pub connection: u32,
    /// Where it stands among the places of its connection.
    position: usize,
    /// The turn of this place: the number of its present request.
    pub turn: u32,
    /// Which of them was answered last.
    answered: Option<u32>,
    /// Bytes of its present request.
    length: u32,
    /// When its answer is awaited no longer; never before its first request has gone.
    pub give_up_at: Nanos,
    /// When its timer is due; never where it has none.
    pub watched: Nanos,
}

impl Exchanges {
    /// Of devices, over so many connections, without messages.
    pub fn new(
        plan: CoapPlan,
        requests: Requests,
        devices: Devices,
        connections: usize,
        random: Random,
    ) -> Exchanges {
        Exchanges {
            plan,
            requests,
            devices,
            places: Vec::new(),
            vacant: Vec::new(),
            over: vec![Vec::new(); connections],
            next: Vec::new(),
            in_blocks: 0,
            random,
        }
    }

    /// Begins an exchange over a connection of those settings; its place.
    pub fn begin(&mut self, connection: u32, order: Order, settings: Settings) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            let turn = self.random.below(u64::from(TURNS)) as u32;
            let (give_up_at, watched) = (Nanos::MAX, Nanos::MAX);
            let (transfer, taken, length, position) = (Transfer::default(), false, 0, 0);
            self.places.push(Place {
                transfer,
                taken,
                connection,
                position,
                turn,
                answered: None,
                length,
                give_up_at,
                watched,
            });
            self.places.len() as u32 - 1
        });
        let code = self.requests.code();
        let Some(place) = self.places.get_mut(slot as usize) else { return slot };
        (place.taken, place.connection) = (true, connection);
        if let Some(over) = self.over.get_mut(connection as usize) {
            place.position = over.len();
            over.push(slot);
        }
        place.give_up_at = Nanos::MAX;
        let transfer = &mut place.transfer;
        self.requests.write(order.device, order.sequence, &mut transfer.options, &mut transfer.body);
        transfer.generation = self.requests.view().generation();
        let room = Room {
            largest: settings.max_message_size.map(|size| size as usize),
            block_size: self.plan.block_size,
            takes_many: settings.takes_blocks,
            over_stream: true,
        };
        transfer.begin(order, code, room);
        self.in_blocks += usize::from(transfer.is_in_blocks());
        slot
    }

    /// Appends the request of a place that is next; its turn.
    pub fn write(&mut self, slot: u32, out: &mut Vec<u8>) -> Option<u32> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.taken)?;
        let begin = out.len();
        let token = tokens::token(slot, place.turn);
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
        events.extend(place.tell_sent(at));
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
        if let Some((told, order)) = self.free(slot) {
            self.devices.abandon(order, told, at, put_back, events);
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
        if self.is_under_way((slot, turn)) {
            self.abandon(slot, at, put_back, events);
        }
    }

    /// Whether a request that was written is under way.
    pub fn is_under_way(&self, (slot, turn): (u32, u32)) -> bool {
        self.places.get(slot as usize).is_some_and(|place| place.taken && place.turn == turn)
    }

    /// A request has begun to go, and its end will not: it counts as sent.
    pub fn has_begun(&mut self, (slot, turn): (u32, u32), at: Nanos, events: &mut Vec<Event>) {
        if let Some(place) = self.places.get_mut(slot as usize)
            && place.taken
            && place.turn == turn
        {
            events.extend(place.tell_sent(at));
        }
    }

    /// The places of the exchanges under way over a connection.
    pub fn over(&self, connection: u32) -> &[u32] {
        self.over.get(connection as usize).map_or(&[], Vec::as_slice)
    }

    /// Ends all exchanges of a device over its connection, as if they had never been.
    pub fn forget(&mut self, device: u32, connection: u32) {
        let is_own = |slot: &u32| {
            self.places.get(*slot as usize).is_some_and(|place| place.transfer.order.device == device)
        };
        let own: Vec<u32> = self.over(connection).iter().copied().filter(is_own).collect();
        own.into_iter().for_each(|slot| _ = self.free(slot));
    }

    /// Gives a place back; whether its message was told as sent, and which it was.
    pub fn free(&mut self, slot: u32) -> Option<(bool, Order)> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.taken)?;
        place.taken = false;
        place.turn = tokens::next(place.turn);
        self.vacant.push(slot);
        self.in_blocks -= usize::from(place.transfer.is_in_blocks());
        let (told, order) = (place.transfer.told, place.transfer.order);
        let (position, connection) = (place.position, place.connection);
        // The last one of the connection stands where this one stood.
        if let Some(over) = self.over.get_mut(connection as usize)
            && over.get(position) == Some(&slot)
        {
            over.swap_remove(position);
            let moved = over.get(position).and_then(|last| self.places.get_mut(*last as usize));
            moved.into_iter().for_each(|moved| moved.position = position);
        }
        self.devices.ended(order);
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
        let named = tokens::named(message.token);
        let place = named.and_then(|(slot, turn)| Some((slot, turn, self.places.get_mut(slot as usize)?)));
        let Some((slot, turn, place)) = place else {
            return slip("an answer to what was never asked", events);
        };
        // Another connection may have the place by now.
        match tokens::age(turn, place.turn, place.taken && place.connection == connection) {
            Age::Now => {}
            Age::Past if place.answered == Some(turn) => return slip("an answer once more", events),
            // It comes after its time.
            Age::Past => return,
            Age::Foreign => return slip("an answer to what was never asked", events),
        }
        // A platform may answer before the kernel has said that all of the request has gone.
        events.extend(place.tell_sent(at));
        traffic.answers.add_part(stream::length(message), message.payload.len());
        let transfer = &mut place.transfer;
        let was_in_blocks = transfer.is_in_blocks();
        let step = transfer.answer(message, |status| self.requests.is_success(status));
        let (order, generation) = (transfer.order, transfer.generation);
        place.answered = Some(turn);
        let refused = match step {
            Step::Next => {
                self.in_blocks += usize::from(!was_in_blocks);
                place.turn = tokens::next(place.turn);
                return self.next.push(slot);
            }
            Step::Done => None,
            Step::Refused(status, reason) => {
                Some((status, self.requests.refusal(status, &reason, order.device, generation)))
            }
        };
        traffic.answers.count += 1;
        self.free(slot);
        self.devices.answered(order, at, refused, &self.requests, events);
    }
}

impl Place {
    /// That its message was sent; `None` where that was told before.
    fn tell_sent(&mut self, at: Nanos) -> Option<Event> {
        self.transfer.tell_sent(self.length, at)
    }
}
