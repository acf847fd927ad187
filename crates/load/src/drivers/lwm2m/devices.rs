//! The devices of a shard as a state machine without I/O: datagrams of the server come in, datagrams to it go out, and time
//! passes.

mod bootstrapping;
mod incoming;
mod notifying;
mod posting;
mod registering;
mod securing;
mod sending;
mod updating;

use super::blocks::Upload;
use super::exchanges::{Exchange, Exchanges, Purpose};
use super::firmware::{Download, Outcome};
use super::objects::Objects;
use super::observations::Observations;
use super::own::{Own, Values};
use crate::content::Contents;
use crate::driver::{Client, Event, Traffic};
use crate::drivers::DriverContext;
use crate::drivers::coap::answered::Answered;
use crate::drivers::coap::message_ids::MessageIds;
use crate::drivers::coap::transfer::Transfer;
use crate::drivers::timers::Timers;
use crate::share::Share;
use plimsoll_codec::coap::OptionList;
use plimsoll_codec::lwm2m::format;
use plimsoll_model::Nanos;
use plimsoll_model::formats::{ByFormat, Sizes};
use plimsoll_model::record::ObservedDevices;
use plimsoll_scenario::plan::{CoapPlan, Lwm2mPlan};
use plimsoll_stats::distribution::{Random, random};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;

pub use securing::Wanted;

/// Bytes of a block, where nothing else is planned: the most (RFC 7959 section 2.2).
const BLOCK: u16 = 1024;
/// That message ids come round before a server has to forget them, for people.
const TOO_SOON: &str = "the 65,536 message ids of a device came round within 247 s, in which a server may take a message for a repetition \
                        of the one before with its id (RFC 7252 section 4.8.2): keep below 265 messages/s for each device";
/// That a server wants fewer notifications than there are messages, for people.
const HELD_BACK: &str = "the server wants a longer period between notifications (pmin, or 1/0/2) than messages have: the device holds them \
                         back";
/// Answers that are remembered for each device at least.
const ANSWERS: usize = 8;
/// Bytes of answers that may wait for room in the kernel.
const MOST_ANSWERS: usize = 1 << 20;

/// See the module.
pub struct Devices {
    share: Share,
    plan: Lwm2mPlan,
    coap: CoapPlan,
    pauses: (Nanos, Nanos),
    /// How long a registration may take, repetitions included.
    register_within: Nanos,
    run: String,
    objects: Objects,
    contents: Contents,
    devices: Vec<Device>,
    exchanges: Exchanges,
    /// Where servers are, the port of the one for registrations, and of the one for bootstrapping.
    host: IpAddr,
    port: u16,
    bootstrap_port: Option<u16>,
    /// Bytes of a block.
    block_size: u16,
    /// What was answered, by device, registration and port: a server that has lost its memory asks anew.
    answered: Answered<(u32, u16, u16)>,
    timers: Timers<Wake>,
    outgoing: Vec<Outgoing>,
    /// What answers are made of: their bytes, until they are sent.
    answers: Vec<u8>,
    options: OptionList,
    encoded: Vec<u8>,
    content: Vec<u8>,
    payload: Vec<u8>,
    /// Whether datagrams are secured, and devices that wait for a session.
    is_secured: bool,
    /// Whether a device hears one port of the server at a time alone.
    pub hears_one_port: bool,
    insecure: Vec<u32>,
    /// Devices with something to send.
    dirty: Vec<u32>,
    /// Messages that wait for their device's turn.
    waiting: usize,
    /// Bytes that servers have begun to write in blocks.
    uploading: usize,
    /// Whether the message ids of a device have come round too soon.
    ids_came_round: bool,
    /// Whether a device held a message back, since its server wants it so.
    holds_back: bool,
    /// Answers that found no room.
    answers_lost: u64,
    random: Random,
    /// Who is observed among the registered.
    observed: ObservedDevices,
    pub traffic: Traffic,
}

#[derive(Default)]
struct Device {
    standing: Standing,
    /// Whether it is observed, as it was counted last; `None` where it was not registered.
    counted: Option<bool>,
    /// Whether it was ever told as ready, and whether it is now.
    was_ready: bool,
    is_ready: bool,
    /// Whether it has a DTLS session with the server's port that it speaks to.
    has_session: bool,
    /// Whether a bootstrap server has named it its server, at which it could register since.
    knows_server: bool,
    /// Whether its registration is renewed once more when it was renewed, and whether that lists its objects.
    updates_again: Option<bool>,
    /// Where the server has it.
    location: Box<str>,
    observations: Observations,
    own: Own,
    rare: Option<Box<Rare>>,
    /// Messages that wait.
    queue: VecDeque<u32>,
    /// Places of what is under way.
    under_way: Vec<u32>,
    ids: MessageIds,
    /// Its newest message that was sent.
    newest: Option<u32>,
    /// When it began to register, and how long that took.
    began: Nanos,
    took: Nanos,
    /// How often it has registered.
    lives: u16,
    /// The port of the server that it is registered at, or registers at when it knows its server.
    port: u16,
    /// The port of the server that it speaks to, which may be that of the bootstrap server.
    peer: u16,
    /// In queue mode, when it sent something last.
    sent_at: Nanos,
    /// When its standing changes by itself, when its registration is renewed, when a message that waits may go, and when it is
    /// looked at what is observed.
    turns_at: Nanos,
    renews_at: Nanos,
    notifies_at: Nanos,
    values_at: Nanos,
    /// Whether it is to look at what is observed as soon as something under way has ended.
    owes: bool,
    /// When it is looked at: its timer that is due next, and one that is due later. A timer of another time is of an earlier wish.
    look_at: Nanos,
    later_at: Nanos,
    /// The pause before it registers again, should that fail.
    pause: Nanos,
}

impl Device {
    /// Forgets when it wanted to be woken, and what it wanted to say then: whom it spoke to is not there any more.
    fn sleep(&mut self) {
        (self.turns_at, self.renews_at) = (Nanos::MAX, Nanos::MAX);
        (self.notifies_at, self.values_at, self.owes) = (Nanos::MAX, Nanos::MAX, false);
        self.updates_again = None;
    }
}

/// What few devices have at a time.
#[derive(Default)]
struct Rare {
    /// What a server writes in blocks.
    upload: Option<Upload>,
    /// A registration or an update that goes in blocks.
    transfer: Option<Box<Transfer>>,
    /// The firmware that it downloads, and when the one that it has is installed.
    download: Option<Download>,
    installs_at: Option<Nanos>,
}

/// How a device stands with its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Nobody wants it to be there.
    #[default]
    Idle,
    /// It asks to be bootstrapped, or is.
    Bootstrapping,
    /// It waits for a DTLS session.
    Securing,
    /// Its registration is under way.
    Registering,
    /// It is registered.
    Registered,
    /// It registers again after a pause.
    Pausing,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// The exchange at a place.
    Exchange,
    /// A device.
    Device,
}

/// Where messages of a format are counted.
fn sizes_of(content_format: u16, all: &mut ByFormat) -> &mut Sizes {
    match content_format {
        format::TEXT | format::OLD_TEXT => &mut all.text,
        format::SENML_JSON => &mut all.senml_json,
        format::SENML_CBOR => &mut all.senml_cbor,
        format::TLV | format::OLD_TLV => &mut all.tlv,
        _ => &mut all.opaque,
    }
}

/// A datagram that waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// The message of an exchange: its place, and its turn there.
    Exchange(u32, u32),
    /// An answer of that device to that port: which of the bytes it is.
    Answer(u32, u16, Range<usize>),
}

impl Devices {
    /// The devices of a share, none of them registered.
    pub fn new(context: &DriverContext) -> Devices {
        let &DriverContext { ref plan, run, address, bootstrap, share, ref run_context, .. } = context;
        let mut random =
            random(plan.seed ^ u64::from(run.tag()), &[u64::from(share.index), 0x006c_776d_326d]);
        let pause = plan.connection.reconnect.0;
        let never = Nanos::MAX;
        let device = |first| Device {
            ids: MessageIds::beginning_at(first, Nanos::ZERO),
            pause,
            turns_at: never,
            renews_at: never,
            notifies_at: never,
            values_at: never,
            look_at: never,
            later_at: never,
            port: address.port(),
            peer: address.port(),
            ..Device::default()
        };
        let owned = share.count(plan.devices);
        Devices {
            share,
            coap: plan.coap.clone(),
            pauses: plan.connection.reconnect,
            register_within: plan.connection.timeout,
            run: run.to_string(),
            objects: Objects::new(&plan.lwm2m, run.to_string(), plan.seed, plan.message.feed.clone()),
            contents: Contents::new(plan, run).in_context(run_context),
            plan: plan.lwm2m.clone(),
            devices: (0..owned).map(|_| device(random.below(1 << 16) as u16)).collect(),
            exchanges: Exchanges::default(),
            host: address.ip(),
            port: address.port(),
            block_size: plan.coap.block_size.unwrap_or(BLOCK),
            bootstrap_port: bootstrap.filter(|_| plan.lwm2m.bootstrap).map(|address| address.port()),
            answered: Answered::with_room(ANSWERS * owned as usize),
            timers: Timers::new(),
            outgoing: Vec::new(),
            answers: Vec::new(),
            options: OptionList::new(),
            encoded: Vec::new(),
            content: Vec::new(),
            payload: Vec::new(),
            is_secured: plan.coap.dtls.is_some(),
            hears_one_port: plan.coap.dtls.is_some(),
            insecure: Vec::new(),
            dirty: Vec::new(),
            waiting: 0,
            uploading: 0,
            ids_came_round: false,
            holds_back: false,
            answers_lost: 0,
            random,
            observed: ObservedDevices::default(),
            traffic: Traffic::default(),
        }
    }

    fn number(&self, slot: u32) -> u32 {
        self.share.number(slot)
    }

    fn client(&self, slot: u32) -> Client {
        Client::Device(self.number(slot))
    }

    /// Begins to register a device, unless it is registered or about to be.
    pub fn connect(&mut self, slot: u32, now: Nanos) -> bool {
        let is_idle = self.devices.get(slot as usize).is_some_and(|own| own.standing == Standing::Idle);
        if is_idle {
            self.begin(slot, now);
        }
        is_idle
    }

    /// Takes over a message of a device.
    pub fn submit(&mut self, slot: u32, sequence: u32) {
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.queue.push_back(sequence);
            self.waiting += 1;
            self.dirty.push(slot);
        }
    }

    /// Places of what a device has under way.
    fn under_way(&self, slot: u32) -> Vec<u32> {
        self.devices.get(slot as usize).map(|own| own.under_way.clone()).unwrap_or_default()
    }

    /// Forgets what was not sent, and gives up what is under way.
    pub fn withdraw(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.devices.iter_mut().for_each(|own| own.queue.clear());
        self.waiting = 0;
        for slot in 0..self.devices.len() as u32 {
            for place in self.under_way(slot) {
                let is_message = |own: &Exchange| own.purpose.message().is_some();
                if self.exchanges.get(place).is_some_and(is_message) {
                    self.give_up(place, now, false, events);
                }
            }
        }
    }

    /// Whether messages wait, so that what comes must be read at once.
    pub fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the server has nothing to answer or to acknowledge.
    pub fn expect_nothing(&self) -> bool {
        self.exchanges.are_none()
    }

    /// When something is to be done whatever comes.
    pub fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    /// Lets time pass: repeats, gives up, renews, and begins what may begin.
    pub fn tick(&mut self, now: Nanos, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.ids_came_round) {
            events.push(Event::Incident { reason: TOO_SOON.to_owned() });
        }
        if std::mem::take(&mut self.holds_back) {
            events.push(Event::Incident { reason: HELD_BACK.to_owned() });
        }
        let times = std::mem::take(&mut self.answers_lost);
        if times > 0 {
            let reason = "answers of devices found no room at our socket".to_owned();
            events.push(Event::Incidents { reason, times });
        }
        while let Some((at, slot, wake)) = self.timers.due(now) {
            match wake {
                Wake::Exchange => self.look_after_exchange(slot, at, now, events),
                Wake::Device => {
                    if self.devices.get(slot as usize).is_some_and(|own| own.look_at == at) {
                        self.look_after(slot, now, events);
                    }
                }
            }
        }
        while let Some(slot) = self.dirty.pop() {
            self.send_messages(slot, now, events);
            self.ask_for_block(slot, now);
            self.notify_values(slot, now);
        }
    }

    /// Whether devices have something to send that was not looked at.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Who is observed; `None` where devices send of themselves.
    pub fn observed(&self) -> Option<ObservedDevices> {
        (!self.plan.send).then_some(self.observed)
    }

    /// Counts a device again, whose registration or observations may have changed.
    fn count(&mut self, slot: u32) {
        let message = self.plan.message;
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        let is_registered = own.standing == Standing::Registered;
        let now = is_registered.then(|| own.observations.cover(message));
        let before = std::mem::replace(&mut own.counted, now);
        let of = |is_observed: bool| match is_observed {
            true => ObservedDevices { observed: 1, unobserved: 0 },
            false => ObservedDevices { observed: 0, unobserved: 1 },
        };
        let (gone, come) = (before.map(of).unwrap_or_default(), now.map(of).unwrap_or_default());
        let all = self.observed + come;
        self.observed = ObservedDevices {
            observed: all.observed - gone.observed,
            unobserved: all.unobserved - gone.unobserved,
        };
    }

    /// Wakes a device when the first of its wishes is due.
    fn wake(&mut self, slot: u32) {
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        let installs_at = own.rare.as_ref().and_then(|rare| rare.installs_at).unwrap_or(Nanos::MAX);
        let first = own.turns_at.min(own.renews_at).min(own.notifies_at).min(own.values_at).min(installs_at);
        if first >= own.look_at {
            return;
        }
        // Of two that are due later the farther one is kept in mind: nearer ones are soon gone.
        if own.later_at == Nanos::MAX {
            own.later_at = own.look_at;
        }
        own.look_at = first;
        self.timers.set(first, slot, Wake::Device);
    }

    /// Takes what waits to be sent; what is not sent is to be given back by [`Devices::keep`].
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Keeps what found no room, before what came since; an empty list keeps its memory.
    pub fn keep(&mut self, mut unsent: Vec<Outgoing>) {
        // A server that takes nothing for long asks again for what it wanted.
        if self.answers.len() > MOST_ANSWERS {
            let before = unsent.len();
            unsent.retain(|outgoing| matches!(outgoing, Outgoing::Exchange(..)));
            self.answers_lost += (before - unsent.len()) as u64;
        }
        if !unsent.iter().any(|outgoing| matches!(outgoing, Outgoing::Answer(..))) {
            self.answers.clear();
        }
        unsent.append(&mut self.outgoing);
        self.outgoing = unsent;
    }

    /// The device of a datagram, the server's port that it goes to, and its bytes; `None` of an exchange that has ended meanwhile.
    pub fn datagram(&self, outgoing: &Outgoing) -> Option<(u32, u16, &[u8])> {
        match outgoing {
            Outgoing::Exchange(place, turn) => {
                let own = self.exchanges.get(*place).filter(|_| self.exchanges.turn(*place) == *turn)?;
                Some((own.device, own.port, &own.datagram))
            }
            Outgoing::Answer(device, port, range) => Some((*device, *port, self.answers.get(range.clone())?)),
        }
    }

    /// A device in queue mode listens for a while after it has sent something.
    fn keep_awake(&mut self, outgoing: &Outgoing, at: Nanos) {
        let slot = match outgoing {
            Outgoing::Exchange(place, _) => self.exchanges.get(*place).map(|own| own.device),
            Outgoing::Answer(slot, ..) => Some(*slot),
        };
        if let Some(own) = slot.and_then(|slot| self.devices.get_mut(slot as usize)) {
            own.sent_at = at;
        }
    }

    /// Notes that the kernel has a datagram, when the call that handed it over began, and tells it.
    pub fn was_sent(&mut self, outgoing: &Outgoing, at: Nanos, events: &mut Vec<Event>) {
        if self.plan.awake.is_some() {
            self.keep_awake(outgoing, at);
        }
        let &Outgoing::Exchange(place, _) = outgoing else { return };
        let (chance, until) = (self.random.fraction(), self.until(place));
        let Some(own) = self.exchanges.get_mut(place) else { return };
        own.sendings += 1;
        let after = at - own.sent_at;
        own.sent_at = at;
        // ACK_TIMEOUT and ACK_RANDOM_FACTOR of RFC 7252 section 4.2.
        own.wait = match own.sendings {
            1 => Nanos::from_secs_f64(self.coap.ack_timeout.as_secs_f64() * (1.0 + 0.5 * chance)),
            _ => own.wait * 2,
        };
        let look_at = (at + own.wait).min(until);
        let (device, purpose, content, packet) =
            (self.share.number(own.device), own.purpose, own.content, own.datagram.len() as u32);
        let (is_first, is_confirmable) = (own.sendings == 1, own.is_confirmable);
        let content_format = match purpose {
            Purpose::Send(_) => Some(self.plan.format),
            _ => purpose.is_notification().then_some(own.content_format),
        };
        if let Some(content_format) = content_format.filter(|_| is_first) {
            let sizes = sizes_of(content_format, &mut self.traffic.formats);
            sizes.add(content.into(), packet.into());
        }
        match (is_first, purpose, purpose.message()) {
            (false, ..) => events.push(Event::Retransmitted { after }),
            (true, _, Some(sequence)) => {
                self.traffic.request_packets += 1;
                events.push(Event::Sent { device, sequence, at, content, packet });
            }
            (true, Purpose::Value | Purpose::Notify(None), _) => self.traffic.value_notifications += 1,
            (true, Purpose::Update, _) => self.traffic.renewals += 1,
            (true, ..) => {}
        }
        if is_confirmable {
            self.watch(place, look_at);
        } else {
            self.end(place);
        }
    }

    /// Gives a place back; whose it was, and what for.
    fn end(&mut self, place: u32) -> Option<(u32, Purpose)> {
        let (slot, purpose) = self.exchanges.free(place)?;
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.under_way.retain(|known| *known != place);
            let download = own.rare.as_mut().and_then(|rare| rare.download.as_mut());
            let downloads = download.is_some();
            if let Some(download) = download.filter(|_| purpose == Purpose::Download) {
                download.is_asked = false;
            }
            if !own.queue.is_empty() || own.owes || downloads {
                self.dirty.push(slot);
            }
        }
        Some((slot, purpose))
    }

    /// Ends an exchange without an answer. A message of which nothing was sent is put back, or forgotten.
    fn give_up(&mut self, place: u32, at: Nanos, put_back: bool, events: &mut Vec<Event>) {
        let was_sent = self.exchanges.get(place).is_some_and(|own| own.sendings > 0);
        let Some((slot, purpose)) = self.end(place) else { return };
        let Some(sequence) = purpose.message() else { return };
        if was_sent {
            events.push(Event::Abandoned { device: self.number(slot), sequence, at });
        } else if let Some(own) = self.devices.get_mut(slot as usize).filter(|_| put_back) {
            own.queue.push_front(sequence);
            self.waiting += 1;
            self.dirty.push(slot);
        }
    }

    fn look_after_exchange(&mut self, place: u32, at: Nanos, now: Nanos, events: &mut Vec<Event>) {
        let Some(look_at) = self.exchanges.woken(place, at) else { return };
        if look_at > now {
            return self.watch(place, look_at);
        }
        let Some(own) = self.exchanges.get(place) else { return };
        let until = self.until(place);
        let is_over = now >= until || (!own.is_acknowledged && own.sendings > self.coap.max_retransmit);
        if !is_over && !own.is_acknowledged {
            return self.send(place);
        }
        if !is_over {
            return self.watch(place, until);
        }
        let (slot, purpose) = (own.device, own.purpose);
        self.give_up(place, now, true, events);
        if purpose == Purpose::Download {
            return self.download_failed(slot, Outcome::ConnectionLost, "the server does not answer", events);
        }
        // It may have lost the session, which it does not say (RFC 6347 section 4.1.2.7).
        self.forget_session(slot);
        self.failed_to_send(slot, "the server does not answer".to_owned(), now, events);
    }

    /// Until when an answer is awaited.
    fn until(&self, place: u32) -> Nanos {
        let end = |own: &Exchange| match own.purpose {
            Purpose::Register | Purpose::Bootstrap => own.begun_at + self.register_within,
            _ => own.begun_at + self.coap.timeout,
        };
        self.exchanges.get(place).map_or(Nanos::MAX, end)
    }

    fn watch(&mut self, place: u32, at: Nanos) {
        if self.exchanges.watch(place, at) {
            self.timers.set(at, place, Wake::Exchange);
        }
    }

    /// Puts the message of an exchange among those that wait to be sent.
    fn send(&mut self, place: u32) {
        self.outgoing.push(Outgoing::Exchange(place, self.exchanges.turn(place)));
    }

    /// An id that nothing of the device under way has: far fewer are under way than there are ids.
    fn take_id(&mut self, slot: u32, now: Nanos) -> u16 {
        let Some(own) = self.devices.get_mut(slot as usize) else { return 0 };
        let (under_way, exchanges) = (&own.under_way, &self.exchanges);
        let has = |id: u16, place: &u32| exchanges.get(*place).is_some_and(|own| own.id == id);
        let id = own.ids.take(now, |id| under_way.iter().any(|place| has(id, place)));
        self.ids_came_round |= own.ids.came_round();
        id.unwrap_or_default()
    }

    /// The values of a device at a time; its newest message stands in `message`.
    fn values<'a>(&'a self, slot: u32, now: Nanos, message: &'a [u8]) -> Option<Values<'a>> {
        let own = &self.devices.get(slot as usize)?.own;
        Some(Values { objects: &self.objects, own, device: self.number(slot), now, message })
    }
}
