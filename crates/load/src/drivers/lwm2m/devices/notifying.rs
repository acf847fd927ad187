//! How devices notify whoever observes them of their messages.

use super::{Devices, Event, Purpose, Standing};
use crate::drivers::lwm2m::objects::message_value;
use crate::drivers::lwm2m::observations::Observation;
use plimsoll_codec::coap::{Kind, LARGEST_DATAGRAM, Message, code, option};
use plimsoll_codec::lwm2m::payload;
use plimsoll_model::Nanos;

impl Devices {
    /// Sends the messages of a device that may be sent.
    pub(super) fn notify_next(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        while let Some(sequence) = self.next_message(slot, now) {
            self.waiting -= 1;
            self.notify(slot, sequence, now, events);
        }
    }

    /// Takes the next message of a device that may be sent now.
    fn next_message(&mut self, slot: u32, now: Nanos) -> Option<u32> {
        let message = self.plan.message;
        let own = self.devices.get_mut(slot as usize)?;
        let may_send = own.is_ready && own.standing == Standing::Registered;
        if !may_send || own.queue.is_empty() || own.under_way.len() >= self.coap.outstanding as usize {
            return None;
        }
        // A device may not notify before it is observed.
        let notified_at = own.observations.of(message).map(|known| known.notified_at).max()?;
        let pmin = own.own.attributes(message).pmin.unwrap_or(0);
        let (may_at, has_notified) = (notified_at + Nanos::from_secs(i64::from(pmin)), own.newest.is_some());
        if pmin > 0 && has_notified && may_at > now {
            own.notifies_at = may_at;
            self.wake(slot);
            return None;
        }
        own.queue.pop_front()
    }

    fn notify(&mut self, slot: u32, sequence: u32, now: Nanos, events: &mut Vec<Event>) {
        let (message, number) = (self.plan.message, self.number(slot));
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        own.newest = Some(sequence);
        let observers = own.observations.of(message).count();
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        self.contents.render(number, sequence, &mut content);
        for at in 0..observers {
            let id = self.take_id(slot);
            let own = self.devices.get_mut(slot as usize);
            let observation = own.and_then(|own| own.observations.of(message).nth(at));
            let Some(observation) = observation.map(|known| known.notified(id, now)) else { break };
            // The first one is the message; to others the same is told again.
            let purpose = Purpose::Notify((at == 0).then_some(sequence));
            if !self.send_notification(slot, purpose, &observation, &content, now) && at == 0 {
                let reason =
                    "the message fits into no datagram, or not into the format that is wanted".to_owned();
                events.push(Event::Refused { device: number, sequence, at: now, reason });
            }
        }
        self.content = content;
    }

    /// Puts a notification on its way; whether its format and a datagram can carry it.
    fn send_notification(
        &mut self,
        slot: u32,
        purpose: Purpose,
        wanted: &Observation,
        content: &[u8],
        now: Nanos,
    ) -> bool {
        let mut bytes = std::mem::take(&mut self.payload);
        bytes.clear();
        let message = self.plan.message;
        let is_carried = if wanted.path == message {
            let value = message_value(content, self.plan.message_kind);
            payload::write(wanted.content_format, message, &[(message, value)], &mut bytes)
        } else {
            self.write_below(slot, wanted, content, now, &mut bytes)
        };
        let fits = is_carried && self.put_on_way(slot, purpose, wanted, &bytes, now);
        self.payload = bytes;
        fits
    }

    /// Writes all that an observation of more than the message covers.
    fn write_below(
        &self,
        slot: u32,
        wanted: &Observation,
        content: &[u8],
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(values) = self.values(slot, now, content) else { return false };
        let given = values.below(wanted.path);
        let entries = self.objects.entries(&given);
        payload::write(wanted.content_format, wanted.path, &entries, out)
    }

    fn put_on_way(
        &mut self,
        slot: u32,
        purpose: Purpose,
        wanted: &Observation,
        payload: &[u8],
        now: Nanos,
    ) -> bool {
        let place = self.exchanges.take(slot, purpose, now);
        self.options.clear();
        self.options.add_number(option::OBSERVE, wanted.number);
        self.options.add_number(option::CONTENT_FORMAT, u32::from(wanted.content_format));
        self.encoded.clear();
        self.options.encode(&mut self.encoded);
        let is_confirmable = self.coap.confirmable;
        let kind = if is_confirmable { Kind::Confirmable } else { Kind::NonConfirmable };
        let Some(exchange) = self.exchanges.get_mut(place) else { return false };
        (exchange.id, exchange.port, exchange.is_confirmable) = (wanted.id, wanted.port, is_confirmable);
        exchange.content = payload.len() as u32;
        let (id, token, options) = (wanted.id, wanted.token(), self.encoded.as_slice());
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
}
