//! What a server may ask of a device (1.1 core, chapter 6): to read, write, execute, create, delete and discover, and to be
//! notified.

use super::conditions::Content;
use super::objects::{Objects, links};
use super::observations::{Observation, Observations, Paths};
use super::own::{self, Own, Values};
use super::{blocks, firmware};
use plimsoll_codec::coap::{Block, Message, code, option};
use plimsoll_codec::lwm2m::{Attributes, Given, Kind, Path, format, link, payload};

/// Objects whose instances belong to the device itself: nobody creates or deletes them (security, server, device, firmware).
const OWN_OBJECTS: [u16; 4] = [own::SECURITY, own::SERVER, 3, 5];
/// The resource that restarts the device when it is executed.
const REBOOT: Path = Path::resource(3, 0, 4);
/// The resource of the object of servers that renews the registration when it is executed.
const RENEW: u16 = 8;

/// What a server may have of one device: observations, paths of one request, and values that it wrote.
const MOST_OBSERVATIONS: usize = 256;
const MOST_PATHS: usize = 256;
const MOST_WRITTEN: usize = 4_096;
/// Bytes of these, and instances that it created or deleted.
const MOST_BYTES: usize = 1 << 20;
const MOST_CHANGED: usize = 1_024;

/// What a request is answered with, beside the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The response code.
    pub code: u8,
    /// The format of the payload, where it has one.
    pub content_format: Option<u16>,
    /// The number of an observation's first notification.
    pub observe: Option<u32>,
    /// The instance that was created.
    pub created: Option<Path>,
    /// Which block of the answer it is, and what tells it from blocks of another answer.
    pub block2: Option<Block>,
    pub tag: Option<[u8; 4]>,
    /// Which block of the request it answers.
    pub block1: Option<Block>,
    /// What the device does next.
    pub then: Then,
    /// Whether it renews its registration besides.
    pub updates: bool,
}

/// What a device does after it has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    #[default]
    Nothing,
    /// It is observed now, so that it may send.
    Notify,
    /// It looks whether what is observed has changed.
    Look,
    /// It renews it and lists its objects, which have changed.
    List,
    /// It is bootstrapped, and registers.
    Register,
    /// It registers anew.
    Restart,
    /// It does what was asked about its firmware.
    Firmware(firmware::Order),
}

/// A device as it is when a request comes.
pub struct Served<'a> {
    /// Its values. What it has of its own stands in `own`.
    pub objects: &'a Objects,
    pub own: &'a mut Own,
    pub observations: &'a mut Observations,
    /// Its number.
    pub device: u32,
    pub now: plimsoll_model::Nanos,
    /// Its newest message.
    pub message: &'a [u8],
    /// The server's port that asks.
    pub port: u16,
    /// The format that a value is read in where the server names none.
    pub preferred: u16,
    /// Bytes of a block of an answer.
    pub block_size: u16,
    /// The version of LwM2M that it speaks, as text.
    pub version: &'static str,
}

impl Reply {
    /// A code and nothing else.
    pub const fn of(code: u8) -> Reply {
        Reply {
            code,
            content_format: None,
            observe: None,
            created: None,
            block2: None,
            tag: None,
            block1: None,
            then: Then::Nothing,
            updates: false,
        }
    }

    /// The same, and what the device does after it.
    pub fn then(self, then: Then) -> Reply {
        Reply { then, ..self }
    }
}

impl Served<'_> {
    /// Does what a request asks; what it is answered with is put into `out`, which is empty.
    pub fn serve(&mut self, request: &Message<'_>, out: &mut Vec<u8>) -> Reply {
        if !is_understood(request) {
            return Reply::of(code::BAD_OPTION);
        }
        let mut reply = self.operation(request, out);
        if matches!(request.code, code::GET | code::FETCH) && reply.code == code::CONTENT {
            blocks::cut(&mut reply, request.block(option::BLOCK2), self.block_size, out);
        }
        reply
    }

    fn operation(&mut self, request: &Message<'_>, out: &mut Vec<u8>) -> Reply {
        let Some(path) = Path::parse(&request.path()) else { return Reply::of(code::NOT_FOUND) };
        // What a device knows of its servers is for the one that it was bootstrapped by alone.
        if path.object() == Some(own::SECURITY) {
            return Reply::of(code::UNAUTHORIZED);
        }
        let accept = request.number(option::ACCEPT).and_then(|number| u16::try_from(number).ok());
        // Only the first block of an answer observes (RFC 7959 section 2.6).
        let is_first = request.block(option::BLOCK2).is_none_or(|block| block.number == 0);
        let observe = request.number(option::OBSERVE).filter(|_| is_first);
        match (request.code, observe) {
            (code::GET, _) if accept == Some(format::LINK) => self.discover(path, out),
            (code::GET, Some(0)) => self.observe(Paths::One(path), accept, request.token, out),
            (code::GET, Some(1)) => {
                self.observations.cancel((self.port, request.token));
                self.read(&Paths::One(path), accept, out)
            }
            (code::GET, _) => self.read(&Paths::One(path), accept, out),
            (code::FETCH, observe) => self.fetch(request, (accept, observe), out),
            (code::IPATCH, _) => self.write(Path::ROOT, request),
            (code::PUT, _) if request.payload.is_empty() && request.option(option::URI_QUERY).is_some() => {
                self.write_attributes(path, request)
            }
            (code::PUT | code::POST, _) if path.depth() == 2 => self.write(path, request),
            (code::PUT, _) if path.depth() > 2 => self.write(path, request),
            (code::POST, _) => match path.depth() {
                1 => self.create(path, request),
                3 => self.execute(path),
                _ => Reply::of(code::METHOD_NOT_ALLOWED),
            },
            (code::DELETE, _) => self.delete(path),
            _ => Reply::of(code::METHOD_NOT_ALLOWED),
        }
    }

    pub(super) fn values(&self) -> Values<'_> {
        let Served { objects, own, device, now, message, .. } = self;
        Values { objects, own, device: *device, now: *now, message }
    }

    pub(super) fn read(&self, paths: &Paths, accept: Option<u16>, out: &mut Vec<u8>) -> Reply {
        self.read_content(paths, accept, out).0
    }

    /// The same, and what the answer contains.
    fn read_content(
        &self,
        paths: &Paths,
        accept: Option<u16>,
        out: &mut Vec<u8>,
    ) -> (Reply, Option<Content>) {
        let refused = |code| (Reply::of(code), None);
        let values = self.values();
        if let Paths::One(path) = paths {
            if *path == Path::ROOT {
                return refused(code::METHOD_NOT_ALLOWED);
            }
            if !values.has(*path) {
                return refused(code::NOT_FOUND);
            }
        }
        let given = values.of(paths);
        let base = paths.base();
        if given.is_empty() && base.depth() > 2 {
            return refused(code::METHOD_NOT_ALLOWED);
        }
        // What is below a path may be many values, which only some formats can carry.
        let preferred = match paths {
            Paths::One(path) if path.depth() > 2 => self.preferred,
            Paths::One(_) => format::TLV,
            Paths::Several(_) => format::SENML_CBOR,
        };
        let mut content_format = accept.unwrap_or(preferred);
        if base == Path::ROOT && !format::OF_SEVERAL_PATHS.contains(&content_format) {
            return refused(code::NOT_ACCEPTABLE);
        }
        let entries = self.objects.entries(&given);
        let mut is_carried = payload::write(content_format, base, &entries, out);
        if !is_carried && accept.is_none() {
            // A server that names no format takes any, and TLV carries everything.
            out.clear();
            content_format = format::TLV;
            is_carried = payload::write(content_format, base, &entries, out);
        }
        if !is_carried {
            return refused(code::NOT_ACCEPTABLE);
        }
        let reply = Reply { content_format: Some(content_format), ..Reply::of(code::CONTENT) };
        (reply, Some(Content::of(&entries, out)))
    }

    fn observe(&mut self, paths: Paths, accept: Option<u16>, token: &[u8], out: &mut Vec<u8>) -> Reply {
        let (reply, content) = self.read_content(&paths, accept, out);
        let (Some(content_format), Some(content)) = (reply.content_format, content) else { return reply };
        let wanted = Observation::new(paths, (self.port, token), (content_format, content), self.now);
        if self.observations.count_beside(&wanted) >= MOST_OBSERVATIONS {
            // Read, and not observed, as RFC 7641 section 4.1 allows.
            return reply;
        }
        Reply { observe: Some(self.observations.add(wanted)), ..reply }.then(Then::Notify)
    }

    /// Reads or observes what the payload names (1.1 core, sections 6.3.9 and 6.4.4). What the device does not have is left out.
    fn fetch(
        &mut self,
        request: &Message<'_>,
        (accept, observe): (Option<u16>, Option<u32>),
        out: &mut Vec<u8>,
    ) -> Reply {
        let content_format = request.content_format().unwrap_or_default();
        if !format::OF_SEVERAL_PATHS.contains(&content_format) {
            return Reply::of(code::UNSUPPORTED_FORMAT);
        }
        let named = payload::read_paths(content_format, request.payload);
        let Some(named) = named.ok().filter(|named| !named.is_empty()) else {
            return Reply::of(code::BAD_REQUEST);
        };
        if named.len() > MOST_PATHS {
            return Reply::of(code::TOO_LARGE);
        }
        if named.iter().any(|path| path.object() == Some(own::SECURITY)) {
            return Reply::of(code::UNAUTHORIZED);
        }
        let (paths, accept) = (Paths::Several(named.into()), accept.or(Some(content_format)));
        match observe {
            Some(0) => self.observe(paths, accept, request.token, out),
            Some(1) => {
                self.observations.cancel((self.port, request.token));
                self.read(&paths, accept, out)
            }
            _ => self.read(&paths, accept, out),
        }
    }

    fn discover(&self, path: Path, out: &mut Vec<u8>) -> Reply {
        let values = self.values();
        if !values.has(path) {
            return Reply::of(code::NOT_FOUND);
        }
        let mut text = String::new();
        let list = |own: Path, text: &mut String| {
            let mut attributes = String::new();
            // What holds at the path that was asked for may come from above it.
            let shown = if own == path { self.own.attributes(own) } else { self.own.attributes_at(own) };
            shown.show(&mut attributes);
            link::write(&own.to_string(), &attributes, text);
        };
        if path.depth() < 2 {
            if path != Path::ROOT {
                list(path, &mut text);
            }
            let shown = |path: &Path| path.object() != Some(own::SECURITY);
            values.instances(path).into_iter().filter(shown).for_each(|own| list(own, &mut text));
        } else if path.depth() == 2 {
            list(path, &mut text);
        }
        if path != Path::ROOT {
            let known = self.objects.below(path).iter().map(|resource| resource.path);
            let written = values.below(path).into_iter().map(|(own, _)| own.up_to(3));
            let mut resources: Vec<Path> = known.chain(written).filter(|own| values.has(*own)).collect();
            resources.sort_unstable();
            resources.dedup();
            resources.into_iter().for_each(|own| list(own, &mut text));
        }
        out.extend_from_slice(text.as_bytes());
        Reply { content_format: Some(format::LINK), ..Reply::of(code::CONTENT) }
    }

    /// What a request writes, as the resources hold it.
    fn written(&self, path: Path, request: &Message<'_>) -> Result<Vec<(Path, Given<'static>)>, u8> {
        let content_format =
            request.content_format().unwrap_or(if path.depth() > 2 { format::TEXT } else { format::TLV });
        if !format::OF_VALUES.contains(&content_format) {
            return Err(code::UNSUPPORTED_FORMAT);
        }
        let given = payload::read(content_format, path, request.payload).map_err(|_| code::BAD_REQUEST)?;
        if !self.has_room_for(&given) {
            return Err(code::TOO_LARGE);
        }
        let one = |(path, given): (Path, Given<'_>)| {
            let resource = self.objects.like(path.up_to(3)).ok_or(code::NOT_FOUND)?;
            if path.depth() > 3 {
                // Each resource here has one value, and no instances.
                return Err(code::METHOD_NOT_ALLOWED);
            }
            let kind = resource.kind().filter(|_| resource.is_writable).ok_or(code::METHOD_NOT_ALLOWED)?;
            Ok((path, given.as_kind(kind).ok_or(code::BAD_REQUEST)?.into()))
        };
        given.into_iter().map(one).collect()
    }

    /// Whether a device may keep these values beside what was written before. An image is kept by nobody.
    pub(super) fn has_room_for(&self, given: &[(Path, Given<'_>)]) -> bool {
        let (values, bytes) = self.own.count_written();
        let kept = || given.iter().filter(|(path, _)| *path != firmware::PACKAGE);
        let new: usize = kept().map(|(_, value)| value.length()).sum();
        // What takes the place of an earlier value takes its room.
        let replaced: Vec<usize> =
            kept().filter_map(|(path, _)| self.own.written(*path)).map(Given::length).collect();
        let values = values.saturating_sub(replaced.len());
        let bytes = bytes.saturating_sub(replaced.iter().sum());
        given.len() + values <= MOST_WRITTEN && new + bytes <= MOST_BYTES
    }

    /// Writes what the payload has for that path; at the root, for the paths that it names (1.1 core, section 6.3.10).
    fn write(&mut self, path: Path, request: &Message<'_>) -> Reply {
        let is_composite = path == Path::ROOT;
        if is_composite
            && !request.content_format().is_some_and(|own| format::OF_SEVERAL_PATHS.contains(&own))
        {
            return Reply::of(code::UNSUPPORTED_FORMAT);
        }
        if !is_composite && !self.values().has(path.up_to(2)) {
            return Reply::of(code::NOT_FOUND);
        }
        let written = match self.written(path, request) {
            Ok(written) => written,
            Err(code) => return Reply::of(code),
        };
        if written.iter().any(|(path, _)| !self.values().has(path.up_to(2))) {
            return Reply::of(code::NOT_FOUND);
        }
        let is_lifetime =
            |path: Path| path.object() == Some(own::SERVER) && path.resource_id() == Some(own::LIFETIME);
        let mut updates = written.iter().any(|(path, _)| is_lifetime(*path));
        if request.code == code::PUT && path.depth() == 2 {
            // It takes the place of all that servers may write there (1.1 core, section 6.3.3).
            let is_writable =
                |own: Path| self.objects.like(own.up_to(3)).is_some_and(|resource| resource.is_writable);
            updates |= self.own.of_object(own::SERVER).any(|(own, _)| path.covers(own) && is_lifetime(*own));
            self.own.forget(path, is_writable);
        }
        let mut then = Then::Look;
        for (path, value) in written {
            if let Some(order) = firmware::order_of_write(path, &value) {
                then = Then::Firmware(order);
            }
            // An image is read by nobody.
            if path != firmware::PACKAGE {
                self.own.write(path, value);
            }
        }
        Reply { updates, ..Reply::of(code::CHANGED) }.then(then)
    }

    fn write_attributes(&mut self, path: Path, request: &Message<'_>) -> Reply {
        if path == Path::ROOT || !self.values().has(path) {
            return Reply::of(if path == Path::ROOT { code::METHOD_NOT_ALLOWED } else { code::NOT_FOUND });
        }
        let mut attributes = self.own.attributes_at(path);
        let queries = request.options().filter(|(number, _)| *number == option::URI_QUERY);
        for (_, query) in queries {
            let read = std::str::from_utf8(query).ok().and_then(|query| attributes.write(query));
            if read.is_none() {
                return Reply::of(code::BAD_REQUEST);
            }
        }
        // Each message is worth a notification: what it holds is no measure that crosses a bound.
        let Attributes { gt, lt, st, .. } = attributes;
        let has_conditions = gt.or(lt).or(st).is_some();
        let below = self.objects.below(path);
        let holds_message = below.iter().any(|resource| resource.is_message());
        let is_number = |kind| matches!(kind, Some(Kind::Integer | Kind::Float));
        let is_measure = path.depth() > 2 && below.iter().all(|resource| is_number(resource.kind()));
        if !attributes.are_consistent() || (has_conditions && (holds_message || !is_measure)) {
            return Reply::of(code::BAD_REQUEST);
        }
        self.own.set_attributes(path, attributes);
        Reply::of(code::CHANGED).then(Then::Look)
    }

    fn execute(&mut self, path: Path) -> Reply {
        match self.objects.at(path) {
            None => Reply::of(code::NOT_FOUND),
            Some(_) if !self.values().has(path) => Reply::of(code::NOT_FOUND),
            Some(resource) if resource.kind().is_some() => Reply::of(code::METHOD_NOT_ALLOWED),
            Some(_) => Reply::of(code::CHANGED).then(match path.ids() {
                _ if path == REBOOT => Then::Restart,
                _ if path == firmware::UPDATE && !firmware::is_downloaded(self.own) => {
                    return Reply::of(code::METHOD_NOT_ALLOWED);
                }
                _ if path == firmware::UPDATE => Then::Firmware(firmware::Order::Install),
                [own::SERVER, _, RENEW] => return Reply { updates: true, ..Reply::of(code::CHANGED) },
                _ => Then::Nothing,
            }),
        }
    }

    fn create(&mut self, object: Path, request: &Message<'_>) -> Reply {
        if self.objects.below(object).is_empty() {
            return Reply::of(code::NOT_FOUND);
        }
        if object.object().is_some_and(|id| OWN_OBJECTS.contains(&id)) {
            return Reply::of(code::METHOD_NOT_ALLOWED);
        }
        if self.own.count_changed() >= MOST_CHANGED {
            return Reply::of(code::TOO_LARGE);
        }
        let taken = self.values().instances(object);
        let is_free = |id: &u16| !taken.iter().any(|own| own.instance() == Some(*id));
        let named =
            payload::created_instance(request.content_format().unwrap_or(format::TLV), request.payload);
        let id = named.or_else(|| (0..u16::MAX).find(is_free)).filter(is_free);
        let Some(instance) = id.and_then(|id| object.child(id)) else { return Reply::of(code::BAD_REQUEST) };
        let base = if named.is_some() { object } else { instance };
        let written = match self.written(base, request) {
            Ok(written) if written.iter().all(|(path, _)| instance.covers(path)) => written,
            Ok(_) => return Reply::of(code::BAD_REQUEST),
            Err(code) => return Reply::of(code),
        };
        self.own.create(instance);
        written.into_iter().for_each(|(path, value)| self.own.write(path, value));
        Reply { created: Some(instance), ..Reply::of(code::CREATED) }.then(Then::List)
    }

    fn delete(&mut self, path: Path) -> Reply {
        if path.depth() != 2 || path.object().is_some_and(|id| OWN_OBJECTS.contains(&id)) {
            return Reply::of(code::METHOD_NOT_ALLOWED);
        }
        if !self.values().has(path) {
            return Reply::of(code::NOT_FOUND);
        }
        self.own.delete(path);
        Reply::of(code::DELETED).then(Then::List)
    }
}

/// Whether a device can do what the options of a request ask: those that must not be ignored have odd numbers (RFC 7252 section
/// 5.4.1).
pub(super) fn is_understood(request: &Message<'_>) -> bool {
    const KNOWN: [u16; 7] = [
        option::URI_HOST,
        option::URI_PORT,
        option::URI_PATH,
        option::URI_QUERY,
        option::ACCEPT,
        option::BLOCK1,
        option::BLOCK2,
    ];
    request.options().all(|(number, _)| number.is_multiple_of(2) || KNOWN.contains(&number))
}

/// What a device registers, as links.
pub fn registered(values: &Values<'_>) -> String {
    links(values.registered().into_iter())
}
