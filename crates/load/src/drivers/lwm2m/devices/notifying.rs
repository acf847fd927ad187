//! How devices notify whoever observes them: the way of a notification, and when a value is worth one.

use super::{Devices, Outgoing, Purpose, Standing};
use crate::drivers::lwm2m::blocks;
use crate::drivers::lwm2m::conditions::{self, Content, Next};
use crate::drivers::lwm2m::observations::{Observation, Paths};
use crate::drivers::lwm2m::operations::Reply;
use plimsoll_codec::coap::{Kind, LARGEST_DATAGRAM, Message, code, option};
use plimsoll_codec::lwm2m::{Path, payload};
use plimsoll_model::Nanos;

impl Devices {
    /// Puts a notification on its way, as a block where the content was cut; whether a datagram can carry it.
    pub(super) fn put_on_way(
        &mut self,
        (slot, purpose): (u32, Purpose),
        (wanted, id): (&Observation, u16),
        (payload, cut): (&[u8], Option<Reply>),
        now: Nanos,
    ) -> bool {
        let place = self.exchanges.take(slot, purpose, now);
        self.options.clear();
        if let Some(tag) = cut.and_then(|cut| cut.tag) {
            self.options.add(option::ETAG, &tag);
        }
        self.options.add_number(option::OBSERVE, wanted.number);
        self.options.add_number(option::CONTENT_FORMAT, u32::from(wanted.content_format));
        if let Some(block) = cut.and_then(|cut| cut.block2) {
            self.options.add_number(option::BLOCK2, block.to_number());
        }
        self.encoded.clear();
        self.options.encode(&mut self.encoded);
        let is_confirmable = self.coap.confirmable;
        let kind = if is_confirmable { Kind::Confirmable } else { Kind::NonConfirmable };
        let Some(exchange) = self.exchanges.get_mut(place) else { return false };
        (exchange.id, exchange.port, exchange.is_confirmable) = (id, wanted.port, is_confirmable);
        (exchange.content, exchange.content_format) = (payload.len() as u32, wanted.content_format);
        let (token, options) = (wanted.token(), self.encoded.as_slice());
        Message { kind, code: code::CONTENT, id, token, options, payload }.encode(&mut exchange.datagram);
        if exchange.datagram.len() > LARGEST_DATAGRAM {
            self.exchanges.free(place);
            return false;
        }
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.under_way.push(place);
        }
        self.send(place);
        true
    }

    /// Tells who observed what a server has deleted that it is no more (RFC 7641 section 3.2).
    pub(super) fn notify_of_deletion(&mut self, slot: u32, ended: &Observation, now: Nanos) {
        let id = self.take_id(slot, now);
        let begin = self.answers.len();
        let (code, token) = (code::NOT_FOUND, ended.token());
        let (kind, options, payload) = (Kind::NonConfirmable, &[][..], &[][..]);
        Message { kind, code, id, token, options, payload }.encode(&mut self.answers);
        self.outgoing.push(Outgoing::Answer(slot, ended.port, begin..self.answers.len()));
    }

    /// Has a device look at what is observed as soon as it can.
    pub(super) fn look_at_values(&mut self, slot: u32) {
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.owes = true;
            self.dirty.push(slot);
        }
    }

    /// Notifies of values that have changed, messages apart, as far as it may.
    pub(super) fn notify_values(&mut self, slot: u32, now: Nanos) {
        let (message, outstanding) = (self.plan.message, self.coap.outstanding as usize);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        if own.standing != Standing::Registered || !std::mem::take(&mut own.owes) {
            return;
        }
        own.values_at = Nanos::MAX;
        for place in 0.. {
            let Some(own) = self.devices.get_mut(slot as usize) else { return };
            let is_full = own.under_way.len() >= outstanding;
            let Some(known) = own.observations.at(place) else { break };
            if known.look_at > now {
                continue;
            }
            if known.paths.cover(message) && !self.plan.send {
                // Each message notifies of all that is observed with it.
                known.look_at = Nanos::MAX;
            } else if is_full {
                own.owes = true;
                return;
            } else {
                self.look_at_value(slot, place, now);
            }
        }
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.values_at = own.observations.look_at();
        }
        self.wake(slot);
    }

    /// Looks at what one observation has, and notifies of it where that is wanted.
    fn look_at_value(&mut self, slot: u32, place: usize, now: Nanos) {
        let device = self.number(slot);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        let Some(known) = own.observations.at(place).cloned() else { return };
        let attributes = match known.paths {
            Paths::One(path) => own.own.attributes(path),
            Paths::Several(_) => own.own.attributes(Path::ROOT),
        };
        let newest = own.newest.filter(|_| known.paths.cover(self.plan.message));
        let mut bytes = std::mem::take(&mut self.payload);
        let mut message = std::mem::take(&mut self.content);
        bytes.clear();
        message.clear();
        if let Some(sequence) = newest {
            self.contents.render(device, sequence, &mut message);
        }
        let content = match self.values(slot, now, &message) {
            Some(values) => {
                let given = values.of(&known.paths);
                let entries = self.objects.entries(&given);
                payload::write(known.content_format, known.paths.base(), &entries, &mut bytes);
                Content::of(&entries, &bytes)
            }
            None => known.content,
        };
        let mut next =
            conditions::next(&attributes, (known.content, known.notified_at), (content, now), known.owed);
        if next == Next::Notify {
            self.notify_of_value((slot, place), content, &mut bytes, now);
            next = conditions::next(&attributes, (content, now), (content, now), false);
        }
        let changes =
            known.paths.all().iter().filter_map(|path| self.objects.next_change(*path, device, now));
        let changes = changes.min().unwrap_or(Nanos::MAX);
        let wanted = match next {
            Next::LookAt(at) | Next::NotifyAt(at) => at,
            Next::Notify => now,
        };
        let own = self.devices.get_mut(slot as usize);
        if let Some(known) = own.and_then(|own| own.observations.at(place)) {
            known.look_at = wanted.min(changes);
            known.owed |= matches!(next, Next::NotifyAt(_));
        }
        (self.payload, self.content) = (bytes, message);
    }

    fn notify_of_value(
        &mut self,
        (slot, place): (u32, usize),
        content: Content,
        bytes: &mut Vec<u8>,
        now: Nanos,
    ) {
        let id = self.take_id(slot, now);
        let own = self.devices.get_mut(slot as usize);
        let Some(known) = own.and_then(|own| own.observations.at(place)) else { return };
        known.content = content;
        let wanted = known.notified(id, now);
        let mut cut = Reply::of(code::CONTENT);
        blocks::cut(&mut cut, None, self.block_size, bytes);
        self.put_on_way((slot, Purpose::Value), (&wanted, id), (bytes, Some(cut)), now);
    }
}
