//! Registrations and updates: their links go in one message, or block by block where they are longer than one (RFC 7959
//! section 2.5). Then the whole of it has the time of one.

use super::{Devices, Purpose};
use crate::drivers::coap::transfer::{Order, Room, Step, Transfer};
use plimsoll_codec::coap::{Block, Kind, Message, code, option};
use plimsoll_model::Nanos;

/// What has gone out of a registration or an update that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    /// Bytes of the links in that message.
    pub content: u32,
    /// When the whole of it began.
    pub begun_at: Nanos,
}

impl Devices {
    /// Sends a registration or an update whose options were made. The links go in blocks of at most so many bytes where
    /// they are longer.
    pub(super) fn post_links(
        &mut self,
        (slot, purpose): (u32, Purpose),
        links: Vec<u8>,
        (size, begun_at): (u16, Nanos),
        now: Nanos,
    ) {
        self.forget_transfer(slot);
        if links.len() <= usize::from(size) {
            let place = self.post(slot, purpose, &links, now);
            return self.date_back(place, begun_at);
        }
        let mut transfer = Box::<Transfer>::default();
        (transfer.options, transfer.body) = (self.options.clone(), links);
        let room = Room { largest: None, block_size: Some(size), takes_many: false, over_stream: false };
        transfer.begin(Order::default(), code::POST, room);
        self.post_block((slot, purpose), transfer, begun_at, now);
    }

    /// Sends the next block of a registration or an update.
    fn post_block(
        &mut self,
        (slot, purpose): (u32, Purpose),
        mut transfer: Box<Transfer>,
        begun_at: Nanos,
        now: Nanos,
    ) {
        let port = self.devices.get(slot as usize).map_or(self.port, |own| own.port);
        let (place, id) = self.open((slot, port), purpose, now);
        let token = self.exchanges.token(place);
        if let Some(exchange) = self.exchanges.get_mut(place) {
            let message = transfer.request(Kind::Confirmable, id, &token);
            exchange.content = message.payload.len() as u32;
            message.encode(&mut exchange.datagram);
        }
        self.date_back(place, begun_at);
        self.rare(slot, |rare| rare.transfer = Some(transfer));
        self.send(place);
    }

    /// What is under way at a place is a part of something that began earlier.
    fn date_back(&mut self, place: u32, begun_at: Nanos) {
        if let Some(exchange) = self.exchanges.get_mut(place) {
            exchange.begun_at = begun_at;
        }
    }

    /// Sends what an answer to a registration or an update asks for: the next block, all of them once more, or smaller
    /// ones. Whether it asks for something.
    pub(super) fn goes_on(
        &mut self,
        (slot, purpose): (u32, Purpose),
        posted: Posted,
        answer: &Message<'_>,
        now: Nanos,
    ) -> bool {
        let rare = self.devices.get_mut(slot as usize).and_then(|own| own.rare.as_mut());
        if let Some(mut transfer) = rare.and_then(|rare| rare.transfer.take()) {
            // What is no matter of blocks is looked at like the answer to a single message.
            let goes_on = transfer.answer(answer, |_| false) == Step::Next;
            if goes_on {
                self.post_block((slot, purpose), transfer, posted.begun_at, now);
            }
            return goes_on;
        }
        // It was one message, and the server takes smaller ones (section 2.9.3).
        let wished = answer.block(option::BLOCK1).filter(|_| answer.code == code::TOO_LARGE).map(Block::size);
        let Some(size) = wished.filter(|size| u32::from(*size) < posted.content) else { return false };
        match purpose {
            Purpose::Register => self.register_in_blocks(slot, (size, posted.begun_at), now),
            _ => self.update_in_blocks(slot, true, (size, posted.begun_at), now),
        }
        true
    }

    /// Nothing follows of a registration or an update that is under way.
    pub(super) fn forget_transfer(&mut self, slot: u32) {
        if let Some(rare) = self.devices.get_mut(slot as usize).and_then(|own| own.rare.as_mut()) {
            rare.transfer = None;
        }
    }
}
