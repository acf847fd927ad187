//! How devices send their messages: as notifications to whoever observes them, or of themselves.

use super::{Devices, Event, Purpose, Standing};
use crate::drivers::lwm2m::objects::message_value;
use crate::drivers::lwm2m::observations::{Observation, Paths};
use plimsoll_codec::coap::option;
use plimsoll_codec::lwm2m::{Path, payload};
use plimsoll_model::Nanos;

/// Where devices send what they were not asked for (1.1 core, section 6.4.6).
const SEND: &[u8] = b"/dp";

impl Devices {
    /// Sends the messages of a device that may be sent.
    pub(super) fn send_messages(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        while let Some(sequence) = self.next_message(slot, now) {
            self.waiting -= 1;
            let Some(own) = self.devices.get_mut(slot as usize) else { return };
            own.newest = Some(sequence);
            let mut content = std::mem::take(&mut self.content);
            content.clear();
            self.contents.render(self.number(slot), sequence, &mut content);
            let is_under_way = match self.plan.send {
                true => self.send_of_itself((slot, sequence), &content, now),
                false => self.notify((slot, sequence), &content, now),
            };
            self.content = content;
            if !is_under_way {
                let reason =
                    "the message fits into no datagram, or not into the format that is wanted".to_owned();
                let device = self.number(slot);
                events.push(Event::Refused { device, sequence, at: now, reason });
            }
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
        if self.plan.send {
            return own.queue.pop_front();
        }
        // A device may not notify before it is observed.
        let notified_at = own.observations.of(message).map(|known| known.notified_at).max()?;
        let pmin = own.own.attributes(message).pmin.unwrap_or(0);
        let (may_at, has_notified) = (notified_at + Nanos::from_secs(i64::from(pmin)), own.newest.is_some());
        if pmin > 0 && has_notified && may_at > now {
            self.holds_back |= own.notifies_at != may_at;
            own.notifies_at = may_at;
            self.wake(slot);
            return None;
        }
        own.queue.pop_front()
    }

    /// Sends a message to whoever observes it; whether it is on its way.
    fn notify(&mut self, (slot, sequence): (u32, u32), content: &[u8], now: Nanos) -> bool {
        let message = self.plan.message;
        let Some(own) = self.devices.get_mut(slot as usize) else { return false };
        let observers = own.observations.of(message).count();
        let mut is_under_way = false;
        for at in 0..observers {
            let id = self.take_id(slot, now);
            let own = self.devices.get_mut(slot as usize);
            let observation = own.and_then(|own| own.observations.of(message).nth(at));
            let Some(observation) = observation.map(|known| known.notified(id, now)) else { break };
            // The first one is the message; to others the same is told again.
            let purpose = Purpose::Notify((at == 0).then_some(sequence));
            let fits = self.send_notification((slot, purpose), (&observation, id), content, now);
            is_under_way |= fits && at == 0;
        }
        is_under_way
    }

    /// Sends a message that nobody has to ask for (1.1 core, section 6.4.6); whether it is on its way.
    fn send_of_itself(&mut self, (slot, sequence): (u32, u32), content: &[u8], now: Nanos) -> bool {
        let (message, content_format) = (self.plan.message, self.plan.format);
        let mut bytes = std::mem::take(&mut self.payload);
        bytes.clear();
        let value = message_value(content, self.plan.message_kind);
        let is_carried = payload::write(content_format, Path::ROOT, &[(message, value)], &mut bytes);
        if is_carried {
            self.options.clear();
            self.options.add_target(SEND);
            self.options.add_number(option::CONTENT_FORMAT, u32::from(content_format));
            self.post(slot, Purpose::Send(sequence), &bytes, now);
        }
        self.payload = bytes;
        if let Some(own) = self.devices.get_mut(slot as usize).filter(|own| own.observations.cover(message)) {
            // Whoever observes it besides is notified of it as of any value.
            own.observations.look_again(now);
            own.owes = true;
        }
        is_carried
    }

    /// Puts a notification on its way; whether its format and a datagram can carry it.
    fn send_notification(
        &mut self,
        (slot, purpose): (u32, Purpose),
        (wanted, id): (&Observation, u16),
        content: &[u8],
        now: Nanos,
    ) -> bool {
        let mut bytes = std::mem::take(&mut self.payload);
        bytes.clear();
        let message = self.plan.message;
        let is_carried = if wanted.paths == Paths::One(message) {
            let value = message_value(content, self.plan.message_kind);
            payload::write(wanted.content_format, message, &[(message, value)], &mut bytes)
        } else {
            self.write_below(slot, wanted, content, now, &mut bytes)
        };
        let fits = is_carried && self.put_on_way((slot, purpose), (wanted, id), (&bytes, None), now);
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
        let given = values.of(&wanted.paths);
        let entries = self.objects.entries(&given);
        payload::write(wanted.content_format, wanted.paths.base(), &entries, out)
    }
}
