//! A small server of LwM2M, for tests and rehearsal: devices register, it observes the resources that it was told of, and keeps a
//! record of all that comes. It may also bootstrap devices and give them new firmware. Everything is in memory.

mod bodies;
mod bootstrap;
mod channel;
mod firmware;
mod registrations;
mod secured;

use crate::clock::monotonic;
use crate::record_file::{RecordFile, Unwritable};
use bodies::{Bodies, Taken};
use bootstrap::{Account, Bootstrap};
use channel::Channel;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Given, Path, format, payload};
use plimsoll_model::Nanos;
use registrations::{Registrations, number_in, of_token, token};
use rustix::net::sockopt;
pub use secured::Secret;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interface for registrations, and the one for what devices send of themselves.
const INTERFACE: &str = "/rd";
const SEND: &str = "/dp";
/// Where devices are told of new firmware (5/0/1), and the part of a token that stands for it.
const PACKAGE_URI: &str = "/5/0/1";
const ABOUT_FIRMWARE: u8 = u8::MAX;
/// How long a registration holds that does not say it (1.0 core, section 5.3.1).
const LIFETIME: Nanos = Nanos::from_secs(86_400);
/// How often a wish to stop, and what is to be repeated, is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that may wait to be read.
const ROOM: usize = 64 << 20;
/// Time until a request to observe is repeated, and how often it is sent (RFC 7252 section 4.8).
const ACK_TIMEOUT: Nanos = Nanos::from_secs(2);
const SENDINGS: u32 = 5;
/// How often is looked who has not renewed.
const EXPIRY: Nanos = Nanos::from_secs(1);
/// The first line of a record.
const HEADER: &str = "time_ns,what,endpoint,path,number,value\n";

/// What the target is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// What it observes of each device.
    pub observes: Vec<Path>,
    /// The format that it wants; `None` leaves it to the device.
    pub content_format: Option<u16>,
    /// Of so many datagrams one is put away as if the network had lost it; `None` for never.
    pub lose_every: Option<u64>,
    /// What secures datagrams by DTLS, whoever devices say that they are; `None` where they are not secured.
    pub secret: Option<Secret>,
    /// The port at which devices are bootstrapped, 0 for a free one; `None` where they are not.
    pub bootstrap_port: Option<u16>,
    /// The key that secures datagrams there; `None` for that of the secret.
    pub bootstrap_key: Option<String>,
    /// Bytes of a block of a registration at most, a power of two from 16 to 1,024; `None` takes whatever comes.
    pub block_size: Option<u16>,
    /// Bytes of the new firmware of which a device is told as soon as it has notified; `None` where there is none.
    pub firmware: Option<usize>,
    /// Where the record is written.
    pub record: Option<PathBuf>,
}

impl Settings {
    /// The key that all devices have; `None` where datagrams are not secured.
    fn key(&self) -> Result<Option<&str>, Lwm2mError> {
        match &self.secret {
            None => Ok(None),
            Some(Secret::Key(key)) => Ok(Some(key)),
            Some(Secret::Certificate { .. }) => {
                let reason =
                    "devices are given a key when they are bootstrapped, and this server has a certificate";
                Err(Lwm2mError::Secret(reason.into()))
            }
        }
    }
}

/// Why the target could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Lwm2mError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The key or certificate for DTLS cannot be used.
    #[error("cannot secure datagrams: {0}")]
    Secret(String),
    /// The record.
    #[error(transparent)]
    Record(#[from] Unwritable),
    /// The operating system refused something else.
    #[error("the target cannot go on: {0}")]
    System(#[from] std::io::Error),
}

/// How often the target has seen something when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Registrations.
    pub registered: u64,
    /// Renewals.
    pub updated: u64,
    /// Notifications, repetitions left out.
    pub notified: u64,
    /// What devices sent of themselves.
    pub sent: u64,
    /// Devices that were bootstrapped.
    pub bootstrapped: u64,
    /// Images that were asked for up to their last block.
    pub downloaded: u64,
    /// Messages that came again.
    pub repeated: u64,
}

/// A target that listens.
pub struct Lwm2mTarget {
    channel: Channel,
    settings: Settings,
    registrations: Registrations,
    bodies: Bodies,
    bootstrap: Option<Bootstrap>,
    image: Option<Vec<u8>>,
    record: Option<RecordFile>,
    /// Requests to observe that were not answered.
    unanswered: HashMap<[u8; 5], Request>,
    next_id: u16,
    /// When it was last looked who has not renewed.
    expired: Nanos,
    came: u64,
    seen: Seen,
}

/// A request of the target's.
struct Request {
    to: SocketAddr,
    id: u16,
    datagram: Vec<u8>,
    due: Nanos,
    sendings: u32,
}

impl Lwm2mTarget {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken, or the record cannot be written.
    pub fn bind(settings: Settings) -> Result<Lwm2mTarget, Lwm2mError> {
        let address = SocketAddr::new(settings.host, settings.port);
        let channel = Channel::bind(address, settings.secret.as_ref())?;
        // Who may not have more room has less: what finds none is sent again.
        let _ = sockopt::set_socket_recv_buffer_size(channel.socket(), ROOM);
        let _ = sockopt::set_socket_recv_buffer_size_force(channel.socket(), ROOM);
        let bootstrap = settings.bootstrap_port.map(|port| {
            let (uri, key) = (format!("{}://{}", channel.scheme(), channel.address()?), settings.key()?);
            let secret = key.map(|key| Secret::Key(settings.bootstrap_key.as_deref().unwrap_or(key).into()));
            let account = Account { uri, key: key.map(str::to_owned) };
            Bootstrap::bind(SocketAddr::new(settings.host, port), secret.as_ref(), account)
        });
        let bootstrap = bootstrap.transpose()?;
        let record = settings.record.as_deref().map(|path| RecordFile::begin(path, HEADER)).transpose()?;
        // Numbers that an earlier target hardly had.
        let begin = (monotonic().0 / 1_000_000) as u32;
        Ok(Lwm2mTarget {
            channel,
            bootstrap,
            image: settings.firmware.map(firmware::image),
            bodies: Bodies::of_blocks(settings.block_size),
            settings,
            registrations: Registrations::beginning_at(begin),
            record,
            unanswered: HashMap::new(),
            next_id: begin as u16,
            expired: Nanos::ZERO,
            came: 0,
            seen: Seen::default(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, Lwm2mError> {
        self.channel.address()
    }

    /// Where it bootstraps devices, where it does.
    ///
    /// # Errors
    /// The system does not say.
    pub fn bootstrap_address(&self) -> Result<Option<SocketAddr>, Lwm2mError> {
        self.bootstrap.as_ref().map(Bootstrap::address).transpose()
    }

    /// Serves until it is to stop; what it has seen.
    ///
    /// # Errors
    /// The record cannot be written, or the system refuses the socket.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Seen, Lwm2mError> {
        let Some(bootstrap) = self.bootstrap.take() else { return self.serve_devices(stop) };
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| bootstrap.run(stop));
            let seen = self.serve_devices(stop);
            let gone = || Err(std::io::Error::other("the thread that bootstraps devices ended").into());
            let bootstrapped = beside.join().unwrap_or_else(|_| gone())?;
            Ok(Seen { bootstrapped, ..seen? })
        })
    }

    fn serve_devices(mut self, stop: &AtomicBool) -> Result<Seen, Lwm2mError> {
        let mut room = vec![0; 64 * 1024];
        let mut looked = monotonic();
        while !stop.load(Ordering::Relaxed) {
            if let Some((length, from)) = self.channel.read(&mut room)? {
                self.take(room.get(..length).unwrap_or_default(), from)?;
            }
            let at = monotonic();
            if at - looked > Nanos::from_millis(20) {
                looked = at;
                self.look_around(at)?;
            }
        }
        if let Some(record) = &mut self.record {
            record.flush()?;
        }
        Ok(self.seen)
    }

    /// Repeats what was not answered, and forgets who has not renewed.
    fn look_around(&mut self, at: Nanos) -> Result<(), Lwm2mError> {
        let mut again = Vec::new();
        self.unanswered.retain(|_, request| {
            let is_due = request.due <= at;
            if is_due && request.sendings < SENDINGS {
                (request.sendings, request.due) = (request.sendings + 1, at + ACK_TIMEOUT);
                again.push((request.datagram.clone(), request.to));
                return true;
            }
            !is_due
        });
        again.iter().for_each(|(datagram, to)| self.channel.send(datagram, *to));
        if at - self.expired > EXPIRY {
            self.expired = at;
            for gone in self.registrations.expire(at) {
                self.note(at, "expired", &gone.endpoint, "", 0, &[])?;
            }
        }
        match &mut self.record {
            Some(record) => Ok(record.flush()?),
            None => Ok(()),
        }
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr) -> Result<(), Lwm2mError> {
        self.came += 1;
        if self.settings.lose_every.is_some_and(|every| self.came.is_multiple_of(every)) {
            return Ok(());
        }
        match self.channel.opened(datagram, from) {
            Some(messages) => messages.iter().try_for_each(|message| self.take_message(message, from)),
            None => self.take_message(datagram, from),
        }
    }

    fn take_message(&mut self, datagram: &[u8], from: SocketAddr) -> Result<(), Lwm2mError> {
        let at = monotonic();
        let Ok(message) = Message::decode(datagram) else { return Ok(()) };
        match (message.kind, message.code) {
            (Kind::Confirmable, code::EMPTY) => self.say(Kind::Reset, message.id, from),
            _ if message.is_request() => self.serve(&message, from, at)?,
            (Kind::Reset, _) | (_, code::EMPTY) => {
                self.unanswered.retain(|_, request| request.id != message.id || request.to != from);
            }
            _ => self.notified(&message, from, at)?,
        }
        Ok(())
    }

    fn serve(&mut self, request: &Message<'_>, from: SocketAddr, at: Nanos) -> Result<(), Lwm2mError> {
        let path = request.path();
        let seconds = query(request, "lt").and_then(|text| text.parse::<i64>().ok());
        let lifetime = seconds.map(|seconds| Nanos::from_secs(seconds.clamp(1, i64::from(u32::MAX))));
        let by = (from, request.id);
        let mut location = OptionList::new();
        let mut registered = None;
        let number = number_in(&path, INTERFACE);
        if request.code == code::GET && path == firmware::PATH {
            return self.serve_firmware(request, from, at);
        }
        if request.code == code::POST && path == SEND {
            return self.take_sent(request, from, at);
        }
        let is_posted = request.code == code::POST && (path == INTERFACE || number.is_some());
        let taken = if is_posted { self.bodies.take(request, from) } else { Taken::Whole(None) };
        let block = match taken {
            Taken::Answer(code, block) => {
                if let Some(block) = block {
                    location.add_number(option::BLOCK1, block.to_number());
                }
                self.answer(request, (code, &location, &[]), from);
                return Ok(());
            }
            Taken::Whole(block) => block,
        };
        let code = match (request.code, number, query(request, "ep")) {
            (code::POST, None, Some(endpoint)) if path == INTERFACE => {
                let is_again = self.registrations.has(&endpoint, by);
                let held = lifetime.unwrap_or(LIFETIME);
                let number = self.registrations.register(endpoint.clone(), by, at, held);
                location.add(option::LOCATION_PATH, INTERFACE.trim_start_matches('/').as_bytes());
                location.add(option::LOCATION_PATH, number.to_string().as_bytes());
                if !is_again {
                    self.seen.registered += 1;
                    self.note(at, "registered", &endpoint, "", 0, &[])?;
                    registered = Some(number);
                }
                code::CREATED
            }
            (code::POST, Some(number), _) => match self.registrations.renewed_from(number, from) {
                Some(own) => {
                    own.lifetime = lifetime.unwrap_or(own.lifetime);
                    own.until = at + own.lifetime;
                    let endpoint = own.endpoint.clone();
                    self.seen.updated += 1;
                    self.note(at, "updated", &endpoint, "", 0, &[])?;
                    code::CHANGED
                }
                None => code::NOT_FOUND,
            },
            (code::DELETE, Some(number), _) => match self.registrations.remove(number) {
                Some(gone) => {
                    self.note(at, "deregistered", &gone.endpoint, "", 0, &[])?;
                    code::DELETED
                }
                None => code::NOT_FOUND,
            },
            (code::POST, ..) => code::BAD_REQUEST,
            _ => code::NOT_FOUND,
        };
        if let Some(block) = block {
            location.add_number(option::BLOCK1, block.to_number());
        }
        self.answer(request, (code, &location, &[]), from);
        if let Some(number) = registered {
            self.observe(number, from, at);
        }
        Ok(())
    }

    /// A block of the image, for whoever asks.
    fn serve_firmware(
        &mut self,
        request: &Message<'_>,
        from: SocketAddr,
        at: Nanos,
    ) -> Result<(), Lwm2mError> {
        let mut list = OptionList::new();
        let image = self.image.take();
        let (code, payload, is_last) = firmware::serve(image.as_deref(), request, &mut list);
        self.answer(request, (code, &list, payload), from);
        self.image = image;
        if !is_last {
            return Ok(());
        }
        self.seen.downloaded += 1;
        let endpoint = self.registrations.at(from).unwrap_or_default();
        self.note(at, "downloaded", &endpoint, "", 0, &[])
    }

    /// What a device sent of itself.
    fn take_sent(&mut self, request: &Message<'_>, from: SocketAddr, at: Nanos) -> Result<(), Lwm2mError> {
        let Some(endpoint) = self.registrations.at(from) else {
            self.answer(request, (code::NOT_FOUND, &OptionList::new(), &[]), from);
            return Ok(());
        };
        let content_format = request.content_format().unwrap_or_default();
        let values = payload::read(content_format, Path::ROOT, request.payload).unwrap_or_default();
        let code = if values.is_empty() { code::BAD_REQUEST } else { code::CHANGED };
        self.answer(request, (code, &OptionList::new(), &[]), from);
        if self.registrations.is_repeated(from, request.id) {
            self.seen.repeated += 1;
            return self.note(at, "repeated", &endpoint, SEND, 0, &[]);
        }
        self.seen.sent += u64::from(!values.is_empty());
        for (path, value) in values {
            self.note(at, "sent", &endpoint, &path.to_string(), 0, &bytes(&value))?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        request: &Message<'_>,
        (code, list, payload): (u8, &OptionList, &[u8]),
        to: SocketAddr,
    ) {
        let (kind, id) = match request.kind {
            Kind::Confirmable => (Kind::Acknowledgement, request.id),
            _ => (Kind::NonConfirmable, self.take_id()),
        };
        let (mut options, mut out) = (Vec::new(), Vec::new());
        list.encode(&mut options);
        Message { kind, code, id, token: request.token, options: &options, payload }.encode(&mut out);
        self.channel.send(&out, to);
    }

    /// Asks to be notified of all that is to be observed.
    fn observe(&mut self, number: u32, to: SocketAddr, at: Nanos) {
        for place in 0..self.settings.observes.len() {
            let Some(path) = self.settings.observes.get(place).copied() else { continue };
            let mut list = OptionList::new();
            list.add_number(option::OBSERVE, 0);
            list.add_target(path.to_string().as_bytes());
            if let Some(content_format) = self.settings.content_format {
                list.add_number(option::ACCEPT, u32::from(content_format));
            }
            self.ask((code::GET, token(number, place as u8)), &list, &[], (to, at));
        }
    }

    /// Sends a request, which is repeated until it is answered.
    fn ask(
        &mut self,
        (code, token): (u8, [u8; 5]),
        list: &OptionList,
        payload: &[u8],
        (to, at): (SocketAddr, Nanos),
    ) {
        let (mut options, mut datagram) = (Vec::new(), Vec::new());
        list.encode(&mut options);
        let (kind, id) = (Kind::Confirmable, self.take_id());
        Message { kind, code, id, token: &token, options: &options, payload }.encode(&mut datagram);
        self.channel.send(&datagram, to);
        let due = at + ACK_TIMEOUT;
        self.unanswered.insert(token, Request { to, id, datagram, due, sendings: 1 });
    }

    /// Tells a device where the new firmware is.
    fn tell_of_firmware(&mut self, number: u32, to: SocketAddr, at: Nanos) {
        let Ok(address) = self.channel.address() else { return };
        let mut list = OptionList::new();
        list.add_target(PACKAGE_URI.as_bytes());
        list.add_number(option::CONTENT_FORMAT, u32::from(format::TEXT));
        let place = format!("{}://{address}{}", self.channel.scheme(), firmware::PATH);
        self.ask((code::PUT, token(number, ABOUT_FIRMWARE)), &list, place.as_bytes(), (to, at));
    }

    /// An answer to a request to observe, or a notification that follows it.
    fn notified(&mut self, message: &Message<'_>, from: SocketAddr, at: Nanos) -> Result<(), Lwm2mError> {
        let is_first = message.kind == Kind::Acknowledgement;
        if let (true, Ok(token)) = (is_first, <[u8; 5]>::try_from(message.token)) {
            self.unanswered.remove(&token);
        }
        let known = of_token(message.token);
        if known.is_some_and(|(_, about)| about == ABOUT_FIRMWARE) {
            return Ok(());
        }
        let own = known.and_then(|(number, _)| self.registrations.get_mut(number));
        let path = known.and_then(|(_, place)| self.settings.observes.get(usize::from(place)).copied());
        let (Some(own), Some(path)) = (own, path) else {
            // An acknowledgement is not reset (RFC 7252 section 4.2).
            if !is_first {
                self.say(Kind::Reset, message.id, from);
            }
            return Ok(());
        };
        let is_repeated = !is_first && own.is_repeated(message.id);
        let is_to_be_told = self.image.is_some() && !is_first && !std::mem::replace(&mut own.was_told, true);
        let number = message.number(option::OBSERVE);
        let endpoint = own.endpoint.clone();
        if message.kind == Kind::Confirmable {
            self.say(Kind::Acknowledgement, message.id, from);
        }
        if let (true, Some((number, _))) = (is_to_be_told, known) {
            self.tell_of_firmware(number, from, at);
        }
        let what = match (is_first, is_repeated) {
            _ if message.code != code::CONTENT || number.is_none() => "refused",
            (true, _) => "observed",
            (_, true) => "repeated",
            _ => "notified",
        };
        self.seen.notified += u64::from(what == "notified");
        self.seen.repeated += u64::from(is_repeated);
        let values = payload::read(message.content_format().unwrap_or_default(), path, message.payload)
            .unwrap_or_default();
        if values.is_empty() {
            return self.note(at, what, &endpoint, &path.to_string(), number.unwrap_or_default(), &[]);
        }
        for (path, value) in values {
            self.note(at, what, &endpoint, &path.to_string(), number.unwrap_or_default(), &bytes(&value))?;
        }
        Ok(())
    }

    /// Writes a line of the record; values are bytes in hexadecimal digits.
    fn note(
        &mut self,
        at: Nanos,
        what: &str,
        endpoint: &str,
        path: &str,
        number: u32,
        value: &[u8],
    ) -> Result<(), Lwm2mError> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let mut digits = String::with_capacity(2 * value.len());
        // Writing to memory does not fail.
        value.iter().for_each(|byte| _ = write!(digits, "{byte:02x}"));
        // A name must not end its field or line.
        let endpoint: String =
            endpoint.chars().map(|one| if one == ',' || one.is_control() { '_' } else { one }).collect();
        Ok(record.write(format_args!("{},{what},{endpoint},{path},{number},{digits}\n", at.0))?)
    }

    fn say(&mut self, kind: Kind, id: u16, to: SocketAddr) {
        let mut out = Vec::new();
        Message::empty(kind, id).encode(&mut out);
        self.channel.send(&out, to);
    }

    fn take_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

/// A value as bytes: text and bytes as they are, else as text.
fn bytes(value: &Given<'_>) -> Vec<u8> {
    match value {
        Given::Bytes(bytes) => bytes.to_vec(),
        Given::Text(text) => text.as_bytes().to_vec(),
        Given::Integer(number) => number.to_string().into_bytes(),
        Given::Float(number) => number.to_string().into_bytes(),
        Given::Boolean(is_true) => is_true.to_string().into_bytes(),
        Given::ObjectLink(object, instance) => format!("{object}:{instance}").into_bytes(),
    }
}

fn query(request: &Message<'_>, name: &str) -> Option<String> {
    let parts = request.options().filter(|(number, _)| *number == option::URI_QUERY);
    parts
        .filter_map(|(_, value)| std::str::from_utf8(value).ok()?.strip_prefix(name)?.strip_prefix('='))
        .next()
        .map(str::to_owned)
}
