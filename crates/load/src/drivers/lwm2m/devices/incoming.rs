//! What comes from the server: acknowledgements, answers, and its own requests.

use super::{Devices, Event, Exchange, Outgoing, Purpose};
use crate::drivers::coap::answered::RequestKey;
use crate::drivers::lwm2m::blocks::{self, Taken, Upload};
use crate::drivers::lwm2m::firmware::{Order, Outcome};
use crate::drivers::lwm2m::observations::Observation;
use crate::drivers::lwm2m::operations::{Reply, Served, Then};
use plimsoll_codec::coap::{Kind, LARGEST_DATAGRAM, Message, code, option};
use plimsoll_codec::lwm2m::Path;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Lwm2mPlan;

/// Bytes that servers have written to devices of a thread in blocks, and not ended yet.
const MOST_UPLOADING: usize = 64 << 20;
/// Bytes of the token of a deregistration.
pub(super) const GOODBYE: usize = 2;

/// What is said of an observation that a server has forgotten.
const FORGOTTEN: &str = "the server does not observe the device any more: it reset a notification";

/// Why the messages of a device are not observed any more, by the request that ended that.
fn no_more_observed(request: u8) -> &'static str {
    match request {
        code::DELETE => "the server deleted what holds a device's messages, so nobody observes them any more",
        _ => "the server does not observe a device's messages any more: it said so",
    }
}

impl Devices {
    /// Takes a datagram for a device that came from that port of the server at that time.
    pub fn incoming(
        &mut self,
        (slot, port): (u32, u16),
        datagram: &[u8],
        at: Nanos,
        events: &mut Vec<Event>,
    ) {
        if self.sleeps(slot, at) {
            self.traffic.unheard += 1;
            return;
        }
        let Ok(message) = Message::decode(datagram) else {
            return events
                .push(Event::Incident { reason: "a datagram of the server is no CoAP message".to_owned() });
        };
        match message.kind {
            // Neither acknowledgements nor resets carry requests (RFC 7252 section 4.3).
            Kind::Acknowledgement | Kind::Reset if message.is_request() => {}
            Kind::Acknowledgement if message.code == code::EMPTY => {
                self.acknowledged(slot, message.id, at, events)
            }
            Kind::Reset => self.reset(slot, message.id, at, events),
            _ if message.is_request() => self.requested((slot, port), &message, at, events),
            _ if message.code == code::EMPTY => self.say((slot, port), Kind::Reset, message.id),
            _ => self.response((slot, port), &message, at, events),
        }
    }

    /// Whether a device in queue mode listens no more (1.0 core, section 8.3): its radio is off. It listens while it waits for an
    /// acknowledgement or an answer.
    fn sleeps(&self, slot: u32, at: Nanos) -> bool {
        let Some(awake) = self.plan.awake else { return false };
        let is_over = |own: &super::Device| own.under_way.is_empty() && at - own.sent_at > awake;
        self.devices.get(slot as usize).is_some_and(is_over)
    }

    /// The place of what a device has under way with that id.
    pub(super) fn of_id(&self, slot: u32, id: u16) -> Option<u32> {
        let under_way = &self.devices.get(slot as usize)?.under_way;
        under_way.iter().copied().find(|place| self.exchanges.get(*place).is_some_and(|own| own.id == id))
    }

    fn acknowledged(&mut self, slot: u32, id: u16, at: Nanos, events: &mut Vec<Event>) {
        // What was repeated is acknowledged as often; nobody waits for the last one.
        let Some(place) = self.sent_with(slot, id) else { return };
        let Some(own) = self.exchanges.get_mut(place) else { return };
        if own.sendings == 1 && !own.is_acknowledged {
            events.push(Event::RoundTrip { took: (at - own.sent_at).max(Nanos::ZERO) });
        }
        if own.purpose.is_notification() {
            let message = own.purpose.message();
            self.end(place);
            if let Some(sequence) = message {
                self.traffic.answers.add(4, 0);
                events.push(Event::Acknowledged { device: self.number(slot), sequence, at });
            }
        } else {
            // Its answer comes by itself.
            own.is_acknowledged = true;
        }
    }

    /// The same, if it was sent.
    fn sent_with(&self, slot: u32, id: u16) -> Option<u32> {
        let place = self.of_id(slot, id)?;
        self.exchanges.get(place).filter(|own| own.sendings > 0).map(|_| place)
    }

    /// The server knows nothing of a notification: it is not observed any more (RFC 7641 section 3.6).
    fn reset(&mut self, slot: u32, id: u16, at: Nanos, events: &mut Vec<Event>) {
        let place = self.sent_with(slot, id);
        let ended = place.and_then(|place| self.end(place));
        let mut is_refused = false;
        match ended.map(|(_, purpose)| purpose) {
            Some(Purpose::Register | Purpose::Update | Purpose::Bootstrap) => {
                return self.failed(slot, "the server reset a registration".to_owned(), at, events);
            }
            Some(Purpose::Download) => {
                let reason = "the server reset a request for it";
                return self.download_failed(slot, Outcome::ConnectionLost, reason, events);
            }
            Some(Purpose::Send(sequence)) => {
                let reason = "the server reset what the device sent".to_owned();
                return events.push(Event::Refused { device: self.number(slot), sequence, at, reason });
            }
            Some(Purpose::Notify(Some(sequence))) => {
                let reason = FORGOTTEN.to_owned();
                events.push(Event::Refused { device: self.number(slot), sequence, at, reason });
                is_refused = true;
            }
            Some(Purpose::Notify(None) | Purpose::Value) | None => {}
        }
        let message = self.plan.message;
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        let was_observed = own.observations.cover(message);
        own.observations.cancel_notified(id);
        let is_observed = own.observations.cover(message);
        self.count(slot);
        if was_observed && !is_observed {
            // Of a notification that was acknowledged before, nothing is refused.
            events.extend((!is_refused).then(|| Event::Incident { reason: FORGOTTEN.to_owned() }));
            // A server that was restarted has lost the registration, too, and says so.
            self.update(slot, false, at);
        }
    }

    /// An answer to a request of a device, in its acknowledgement or by itself.
    fn response(
        &mut self,
        (slot, port): (u32, u16),
        answer: &Message<'_>,
        at: Nanos,
        events: &mut Vec<Event>,
    ) {
        let place = self.exchanges.of_token(answer.token);
        let is_asked = |own: &Exchange| {
            own.device == slot && own.port == port && own.sendings > 0 && !own.purpose.is_notification()
        };
        let place = place.filter(|place| self.exchanges.get(*place).is_some_and(is_asked));
        // To a request that was repeated there may be several answers; nobody waits for that to the last one.
        let is_late =
            || answer.token.len() == GOODBYE || place.is_none() && self.exchanges.is_past(answer.token);
        let is_ours = place.is_some() || is_late();
        if answer.kind == Kind::Confirmable {
            // What nobody asked for is rejected (RFC 7252 section 4.2).
            let kind = if is_ours { Kind::Acknowledgement } else { Kind::Reset };
            self.say((slot, port), kind, answer.id);
        }
        let Some(place) = place else {
            events.extend((!is_ours).then_some(Event::Stray));
            return;
        };
        if let Some(own) = self.exchanges.get(place).filter(|own| own.sendings == 1 && !own.is_acknowledged) {
            events.push(Event::RoundTrip { took: (at - own.sent_at).max(Nanos::ZERO) });
        }
        self.answered(place, answer, at, events);
    }

    fn say(&mut self, (slot, port): (u32, u16), kind: Kind, id: u16) {
        let begin = self.answers.len();
        Message::empty(kind, id).encode(&mut self.answers);
        self.outgoing.push(Outgoing::Answer(slot, port, begin..self.answers.len()));
    }

    /// A request of the server: it is served once, however often it comes.
    fn requested(
        &mut self,
        (slot, port): (u32, u16),
        request: &Message<'_>,
        at: Nanos,
        events: &mut Vec<Event>,
    ) {
        let lives = self.devices.get(slot as usize).map_or(0, |own| own.lives);
        let key = RequestKey::of(request, (slot, lives, port));
        let begin = self.answers.len();
        if let Some(answer) = self.answered.answer(&key) {
            self.answers.extend_from_slice(answer);
            return self.outgoing.push(Outgoing::Answer(slot, port, begin..self.answers.len()));
        }
        self.traffic.served += 1;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let was_observed = self.is_observed(slot);
        let reply = self.serve_in_blocks((slot, port), request, at, &mut payload);
        let deleted = if reply.code == code::DELETED { self.end_deleted(slot, request) } else { Vec::new() };
        if was_observed && !self.is_observed(slot) {
            events.push(Event::Incident { reason: no_more_observed(request.code).to_owned() });
        }
        self.answer((slot, port), request, (&reply, &payload), at);
        // Reading twice does no harm, and what was read may be long.
        let is_reading = matches!(request.code, code::GET | code::FETCH);
        let answer = (!is_reading || reply.observe.is_some())
            .then(|| self.answers.get(begin..).unwrap_or_default().to_vec());
        self.payload = payload;
        deleted.iter().for_each(|ended| self.notify_of_deletion(slot, ended, at));
        self.after(slot, reply.then, at, events);
        if reply.updates {
            self.update(slot, false, at);
        }
        let Some(answer) = answer else { return };
        // What has a device register anew may be repeated in its next life.
        let lives_now = self.devices.get(slot as usize).map_or(0, |own| own.lives);
        if lives_now != lives {
            self.answered.remember(RequestKey::of(request, (slot, lives_now, port)), answer.clone(), at);
        }
        self.answered.remember(key, answer, at);
    }

    /// Takes away the observations of what a request has deleted.
    fn end_deleted(&mut self, slot: u32, request: &Message<'_>) -> Vec<Observation> {
        let own = self.devices.get_mut(slot as usize);
        let (Some(own), Some(deleted)) = (own, Path::parse(&request.path())) else { return Vec::new() };
        own.observations.end(|known| known.paths.all().iter().all(|own| deleted.covers(own)))
    }

    /// Whether somebody observes the messages of a device.
    fn is_observed(&self, slot: u32) -> bool {
        self.devices.get(slot as usize).is_some_and(|own| own.observations.cover(self.plan.message))
    }

    /// Serves a request that is whole, and collects the blocks of one that is not.
    fn serve_in_blocks(
        &mut self,
        (slot, port): (u32, u16),
        request: &Message<'_>,
        now: Nanos,
        payload: &mut Vec<u8>,
    ) -> Reply {
        let is_malformed = |number| request.option(number).is_some() && request.block(number).is_none();
        if is_malformed(option::BLOCK1) || is_malformed(option::BLOCK2) {
            return Reply::of(code::BAD_REQUEST);
        }
        let Some(block) = request.block(option::BLOCK1) else {
            return self.serve((slot, port), request, now, payload);
        };
        if block.number == 0 && !block.more {
            return Reply { block1: Some(block), ..self.serve((slot, port), request, now, payload) };
        }
        let Some(own) = self.devices.get_mut(slot as usize) else { return Reply::of(code::NOT_FOUND) };
        let upload = &mut own.rare.get_or_insert_default().upload;
        let before = upload.as_ref().map_or(0, Upload::kept);
        let taken = blocks::take(upload, block, request, now);
        self.uploading += upload.as_ref().map_or(0, Upload::kept);
        self.uploading -= before;
        if self.uploading > MOST_UPLOADING {
            self.forget_given_up(now);
        }
        if self.uploading > MOST_UPLOADING {
            self.forget_upload(slot);
            return Reply { block1: Some(block), ..Reply::of(code::TOO_LARGE) };
        }
        let reply = match taken {
            Taken::Continue => Reply::of(code::CONTINUE),
            Taken::Refused(code) => Reply::of(code),
            Taken::Whole { body, length } => {
                let whole = Message { payload: &body, ..*request };
                let reply = self.serve((slot, port), &whole, now, payload);
                match reply.then {
                    // Of an image, only its beginning was kept.
                    Then::Firmware(Order::Pushed(_)) => reply.then(Then::Firmware(Order::Pushed(length))),
                    _ => reply,
                }
            }
        };
        Reply { block1: Some(block), ..reply }
    }

    /// Nobody goes on with what a server has begun to write in blocks.
    pub(super) fn forget_upload(&mut self, slot: u32) {
        let rare = self.devices.get_mut(slot as usize).and_then(|own| own.rare.as_mut());
        let upload = rare.and_then(|rare| rare.upload.take());
        self.uploading -= upload.as_ref().map_or(0, Upload::kept);
    }

    /// The same of all that was given up.
    fn forget_given_up(&mut self, now: Nanos) {
        for slot in 0..self.devices.len() as u32 {
            let rare = self.devices.get(slot as usize).and_then(|own| own.rare.as_ref());
            let upload = rare.and_then(|rare| rare.upload.as_ref());
            if upload.is_some_and(|upload| upload.is_given_up(now)) {
                self.forget_upload(slot);
            }
        }
    }

    fn serve(
        &mut self,
        (slot, port): (u32, u16),
        request: &Message<'_>,
        now: Nanos,
        payload: &mut Vec<u8>,
    ) -> Reply {
        let device = self.number(slot);
        let mut message = std::mem::take(&mut self.content);
        message.clear();
        // Only who reads it needs it.
        let is_read = matches!(request.code, code::GET | code::FETCH);
        let newest = self.devices.get(slot as usize).and_then(|own| own.newest).filter(|_| is_read);
        if let Some(sequence) = newest {
            self.contents.render(device, sequence, &mut message);
        }
        let reply = match self.devices.get_mut(slot as usize) {
            Some(own) => {
                let (observations, own) = (&mut own.observations, &mut own.own);
                let objects = &self.objects;
                let Lwm2mPlan { format: preferred, version, .. } = self.plan;
                let (message, block_size) = (message.as_slice(), self.block_size);
                let mut served = Served {
                    objects,
                    own,
                    observations,
                    device,
                    now,
                    message,
                    port,
                    preferred,
                    block_size,
                    version,
                };
                match self.bootstrap_port {
                    Some(known) if known == port => served.bootstrap(request, payload),
                    _ => served.serve(request, payload),
                }
            }
            None => Reply::of(code::NOT_FOUND),
        };
        self.content = message;
        reply
    }

    fn answer(
        &mut self,
        (slot, port): (u32, u16),
        request: &Message<'_>,
        (reply, payload): (&Reply, &[u8]),
        now: Nanos,
    ) {
        self.options.clear();
        if let Some(tag) = reply.tag {
            self.options.add(option::ETAG, &tag);
        }
        if let Some(number) = reply.observe {
            self.options.add_number(option::OBSERVE, number);
        }
        if let Some(content_format) = reply.content_format {
            self.options.add_number(option::CONTENT_FORMAT, u32::from(content_format));
        }
        for id in reply.created.iter().flat_map(|path| path.ids()) {
            self.options.add(option::LOCATION_PATH, id.to_string().as_bytes());
        }
        for (number, block) in [(option::BLOCK2, reply.block2), (option::BLOCK1, reply.block1)] {
            let _ = block.map(|block| self.options.add_number(number, block.to_number()));
        }
        self.encoded.clear();
        self.options.encode(&mut self.encoded);
        let (kind, id) = match request.kind {
            Kind::Confirmable => (Kind::Acknowledgement, request.id),
            _ => (Kind::NonConfirmable, self.take_id(slot, now)),
        };
        let begin = self.answers.len();
        let (code, token, options) = (reply.code, request.token, self.encoded.as_slice());
        Message { kind, code, id, token, options, payload }.encode(&mut self.answers);
        if self.answers.len() - begin > LARGEST_DATAGRAM {
            self.answers.truncate(begin);
            let (code, options, payload) = (code::TOO_LARGE, &[][..], &[][..]);
            Message { kind, code, id, token, options, payload }.encode(&mut self.answers);
        }
        self.outgoing.push(Outgoing::Answer(slot, port, begin..self.answers.len()));
    }

    fn after(&mut self, slot: u32, then: Then, now: Nanos, events: &mut Vec<Event>) {
        self.count(slot);
        match then {
            Then::Nothing => {}
            Then::Notify => {
                let message = self.plan.message;
                let own = self.devices.get(slot as usize);
                if own.is_some_and(|own| own.observations.cover(message)) {
                    self.ready(slot, events);
                }
                self.look_at_values(slot);
            }
            Then::Look => {
                if let Some(own) = self.devices.get_mut(slot as usize) {
                    own.observations.look_again(now);
                }
                self.look_at_values(slot);
            }
            Then::Register => self.bootstrapped(slot, now, events),
            Then::Firmware(order) => self.ordered(slot, order, now, events),
            Then::List => {
                self.update(slot, true, now);
                // Who observes the object sees what was created or deleted in it.
                self.after(slot, Then::Look, now, events);
            }
            Then::Restart => self.restart(slot, now, events),
        }
    }
}
