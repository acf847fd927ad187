//! The interface: devices and controllers connect to it, and it passes on what they ask, and what is answered.

use super::desk::{Desk, map_of, observe, text};
use super::links::Links;
use super::{OcfError, Server, Upstreams};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::{KeptMessage, Kind, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SESSION: &str = "/oic/account/session";
const PING: &str = "/oic/ping";
const ROUTE: &str = "/oic/route/";
/// What those may ask that have not signed in.
const OPEN: [&str; 2] = ["/oic/account", "/oic/account/tokenrefresh"];
/// How long connecting to one of the others may take, and the pause before it is tried again.
const CONNECTING: Duration = Duration::from_secs(2);
const PAUSE: Nanos = Nanos::from_millis(200);

/// See the module.
pub struct Interface {
    upstreams: [Upstream; 3],
    /// Those that have signed in, by their connections, and the connections of devices.
    clients: HashMap<u64, Client>,
    devices: HashMap<String, u64>,
    /// What was passed on, by the tokens that it has then.
    passed: HashMap<u64, Passed>,
    /// Those of them that ask to be notified, by the client and its token.
    observing: HashMap<(u64, Vec<u8>), u64>,
    next_token: u64,
    /// When requests went to devices, which may never answer, and the tokens that they had then.
    routed: VecDeque<(Nanos, u64)>,
    /// How long a device may take for an answer.
    patience: Nanos,
}

/// One of the servers behind the interface.
struct Upstream {
    what: &'static str,
    address: SocketAddr,
    link: Option<u64>,
    again_at: Nanos,
}

/// The places of [`Upstreams`].
const ACCOUNT: usize = 0;
const DIRECTORY: usize = 1;
const QUEUE: usize = 2;

struct Client {
    di: String,
    user: String,
    until: Nanos,
}

/// A request that was passed on.
struct Passed {
    client: u64,
    /// The client's own token.
    token: Vec<u8>,
    /// The connection that it went over.
    to: u64,
    /// Its options, where it asks to be notified, and whether it was asked since to be notified no longer.
    observes: Option<Vec<u8>>,
    is_cancelled: bool,
    /// Whether an answer came, after which notifications may.
    is_answered: bool,
    then: Then,
}

/// What its answer does.
enum Then {
    /// Nothing more.
    Pass,
    /// It lets the client in.
    SignIn { di: String, user: String },
    /// It lets the client out.
    SignOut,
    /// It allows a request to a device, which is kept.
    Allow { di: String, request: KeptMessage },
    /// It comes from a device.
    Route { di: String },
}

impl Interface {
    pub fn new(upstreams: Upstreams, links: &mut Links) -> Result<Interface, OcfError> {
        let Upstreams { account, directory, queue, patience } = upstreams;
        let all = [
            ("the account server", account),
            ("the resource directory", directory),
            ("the message queue", queue),
        ];
        let mut upstreams =
            all.map(|(what, address)| Upstream { what, address, link: None, again_at: Nanos::ZERO });
        for upstream in &mut upstreams {
            upstream.connect(links)?;
        }
        Ok(Interface {
            upstreams,
            clients: HashMap::new(),
            devices: HashMap::new(),
            passed: HashMap::new(),
            observing: HashMap::new(),
            next_token: 0,
            routed: VecDeque::new(),
            patience,
        })
    }

    /// The connection to one of the others, made again where it was lost.
    fn upstream(&mut self, place: usize, desk: &mut Desk) -> Option<u64> {
        let upstream = self.upstreams.get_mut(place)?;
        if upstream.link.is_none() && desk.at >= upstream.again_at {
            upstream.again_at = desk.at + PAUSE;
            // Whoever asks meanwhile is told that it is away.
            let _ = upstream.connect(&mut desk.links);
        }
        upstream.link
    }

    /// Passes a request on; refuses it where nobody is there.
    fn pass(&mut self, client: u64, request: &Message<'_>, to: Option<u64>, then: Then, desk: &mut Desk) {
        let Some(to) = to else { return desk.refuse(client, request, code::SERVICE_UNAVAILABLE) };
        if observe(request) == Some(1) {
            return self.stop_observing(client, request, to, desk);
        }
        let observes = (observe(request) == Some(0)).then(|| request.options.to_vec());
        let own = (client, request.token.to_vec());
        // Who asks once more under the same token is notified once (RFC 7641 section 4.1).
        let known = self.observing.get(&own).copied().filter(|_| observes.is_some()).filter(|known| {
            self.passed.get(known).is_some_and(|passed| passed.observes == observes && passed.to == to)
        });
        let number = known.unwrap_or_else(|| {
            self.next_token += 1;
            self.next_token
        });
        let token = number.to_be_bytes();
        if observes.is_some() {
            self.observing.insert(own, number);
        }
        let token_of_client = request.token.to_vec();
        if matches!(then, Then::Route { .. }) {
            self.routed.push_back((desk.at, number));
        }
        let passed = Passed {
            client,
            token: token_of_client,
            to,
            observes,
            is_cancelled: false,
            is_answered: false,
            then,
        };
        self.passed.insert(number, passed);
        desk.seen.passed_on += 1;
        desk.note("passed_on", client, &request.path(), request.payload);
        desk.links.pass(to, &Message { token: &token, ..*request });
    }

    /// Passes on that a client is not to be notified any more, with the token under which it was to be.
    fn stop_observing(&mut self, client: u64, request: &Message<'_>, to: u64, desk: &mut Desk) {
        let found = self.observing.remove(&(client, request.token.to_vec()));
        let Some(token) = found.filter(|token| self.passed.contains_key(token)) else {
            return desk.answer(client, request, code::CONTENT, None);
        };
        if let Some(passed) = self.passed.get_mut(&token) {
            (passed.observes, passed.is_cancelled) = (None, true);
        }
        desk.links.pass(to, &Message { token: &token.to_be_bytes(), ..*request });
    }

    /// A request to a device, once it is known that the client may ask.
    fn route(&mut self, passed: &Passed, answer: &Message<'_>, desk: &mut Desk) {
        let Then::Allow { di, request } = &passed.then else { return };
        let asked = request.message();
        let policy = cbor::to_json(answer.payload).ok();
        if policy.as_ref().and_then(|policy| text(policy, "gp")) != Some("Allowed") {
            return desk.refuse(passed.client, &asked, code::UNAUTHORIZED);
        }
        let Some(device) = self.devices.get(di).copied() else {
            return desk.refuse(passed.client, &asked, code::NOT_FOUND);
        };
        // What the device calls the resource stands behind /oic/route/<di>.
        let mut list = OptionList::new();
        let mut parts = 0;
        for (number, value) in asked.options() {
            parts += usize::from(number == option::URI_PATH);
            if number != option::URI_PATH || parts > 3 {
                list.add(number, value);
            }
        }
        let mut options = Vec::new();
        list.encode(&mut options);
        let then = Then::Route { di: di.clone() };
        self.pass(passed.client, &Message { options: &options, ..asked }, Some(device), then, desk);
    }

    /// Nobody is signed in over a connection any more.
    fn forget(&mut self, link: u64) {
        if let Some(client) = self.clients.remove(&link)
            && self.devices.get(&client.di) == Some(&link)
        {
            self.devices.remove(&client.di);
        }
    }

    fn signed_in(&mut self, link: u64, di: &str, user: &str, answer: &Message<'_>, at: Nanos) {
        let left = cbor::to_json(answer.payload).ok().and_then(|map| map.get("expiresin")?.as_i64());
        let until = match left {
            Some(seconds) if seconds >= 0 => at + Nanos::from_secs(seconds),
            _ => Nanos::MAX,
        };
        self.forget(link);
        self.clients.insert(link, Client { di: di.to_owned(), user: user.to_owned(), until });
        self.devices.insert(di.to_owned(), link);
    }
}

impl Upstream {
    fn connect(&mut self, links: &mut Links) -> Result<(), OcfError> {
        let (what, address) = (self.what, self.address);
        let stream = TcpStream::connect_timeout(&address, CONNECTING);
        let stream = stream.map_err(|cause| OcfError::Upstream { what, address, cause })?;
        self.link = Some(links.welcome(stream)?);
        Ok(())
    }
}

impl Server for Interface {
    fn request(&mut self, link: u64, request: &Message<'_>, desk: &mut Desk) {
        let path = request.path();
        if path == PING {
            return desk.answer(link, request, code::CONTENT, Some(&json!({ "inarray": [1, 2, 4, 8] })));
        }
        let is_open = OPEN.contains(&path.as_str()) || path == SESSION;
        let client = self.clients.get(&link);
        if !is_open && client.is_none_or(|client| client.until <= desk.at) {
            return desk.refuse(link, request, code::UNAUTHORIZED);
        }
        let place = match () {
            () if path.starts_with("/oic/account") || path.starts_with("/oic/acl") => ACCOUNT,
            () if ["/oic/rd", "/oic/res", "/oic/prs"].iter().any(|own| path.starts_with(own)) => DIRECTORY,
            () if path.starts_with("/oic/ps") => QUEUE,
            () if path.starts_with(ROUTE) => ACCOUNT,
            () => return desk.refuse(link, request, code::NOT_FOUND),
        };
        if let (Some(rest), Some(client)) = (path.strip_prefix(ROUTE), client) {
            let di = rest.split('/').next().unwrap_or_default().to_owned();
            let user = client.user.clone();
            let then = Then::Allow { di: di.clone(), request: request.keep() };
            let mut list = OptionList::new();
            list.add_target(format!("/oic/acl/verify?sid={user};di={di};rm=GET;uri=/").as_bytes());
            let mut options = Vec::new();
            list.encode(&mut options);
            let ask = Message { code: code::GET, options: &options, payload: &[], ..*request };
            let to = self.upstream(place, desk);
            return self.pass(link, &ask, to, then, desk);
        }
        // Only what is said of sessions is looked into.
        let map = if path == SESSION { map_of(request).unwrap_or_default() } else { Value::Null };
        let then = match map.get("login") {
            Some(Value::Bool(true)) => Then::SignIn {
                di: text(&map, "di").unwrap_or_default().to_owned(),
                user: text(&map, "uid").unwrap_or_default().to_owned(),
            },
            Some(Value::Bool(false)) => Then::SignOut,
            _ => Then::Pass,
        };
        let to = self.upstream(place, desk);
        self.pass(link, request, to, then, desk);
    }

    fn answer(&mut self, link: u64, answer: &Message<'_>, desk: &mut Desk) {
        let Ok(token) = answer.token.try_into().map(u64::from_be_bytes) else { return };
        // What comes over another connection than the request went over is nobody's answer.
        if self.passed.get(&token).is_none_or(|passed| passed.to != link) {
            return;
        }
        let Some(mut passed) = self.passed.remove(&token) else { return };
        passed.is_answered = true;
        if passed.is_cancelled && answer.number(option::OBSERVE).is_some() {
            // It was under way when the client asked for no more.
            self.passed.insert(token, passed);
            return;
        }
        if matches!(passed.then, Then::Allow { .. }) {
            return self.route(&passed, answer, desk);
        }
        if let Then::SignIn { di, user } = &passed.then
            && answer.code == code::CHANGED
        {
            let (di, user) = (di.clone(), user.clone());
            self.signed_in(passed.client, &di, &user, answer, desk.at);
        }
        if matches!(passed.then, Then::SignOut) && answer.code == code::CHANGED {
            self.forget(passed.client);
        }
        let mut options = answer.options.to_vec();
        if let Then::Route { di } = &passed.then {
            let mut list = OptionList::new();
            [b"oic".as_slice(), b"route", di.as_bytes()]
                .iter()
                .for_each(|part| list.add(option::URI_PATH, part));
            answer.options().for_each(|(number, value)| list.add(number, value));
            options.clear();
            list.encode(&mut options);
        }
        let number = answer.number(option::OBSERVE).filter(|_| passed.observes.is_some());
        match number {
            Some(1..) => desk.seen.notified += 1,
            _ => desk.count(answer.code),
        }
        desk.note("answered", passed.client, &answer.path(), answer.payload);
        desk.links.pass(passed.client, &Message { token: &passed.token, options: &options, ..*answer });
        if answer.code >> 5 == 2 && number.is_some() {
            self.passed.insert(token, passed);
        }
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<(), OcfError> {
        while let Some(&(at, token)) = self.routed.front() {
            if desk.at - at < self.patience {
                return Ok(());
            }
            self.routed.pop_front();
            // One that is not answered takes no more room, and whoever has asked is told.
            if self.passed.get(&token).is_some_and(|passed| !passed.is_answered)
                && let Some(passed) = self.passed.remove(&token)
            {
                desk.count(code::GATEWAY_TIMEOUT);
                desk.links.say(passed.client, code::GATEWAY_TIMEOUT, &passed.token, &OptionList::new(), &[]);
            }
        }
        Ok(())
    }

    fn closed(&mut self, link: u64, desk: &mut Desk) {
        for upstream in self.upstreams.iter_mut().filter(|upstream| upstream.link == Some(link)) {
            (upstream.link, upstream.again_at) = (None, desk.at + PAUSE);
        }
        self.forget(link);
        self.observing.retain(|(client, _), _| *client != link);
        let gone: Vec<u64> = self
            .passed
            .iter()
            .filter(|(_, own)| own.client == link || own.to == link)
            .map(|(token, _)| *token)
            .collect();
        for token in gone {
            let Some(passed) = self.passed.remove(&token) else { continue };
            if passed.to == link {
                desk.count(code::SERVICE_UNAVAILABLE);
                desk.links.say(
                    passed.client,
                    code::SERVICE_UNAVAILABLE,
                    &passed.token,
                    &OptionList::new(),
                    &[],
                );
            } else if let Some(options) = passed.observes {
                // Nobody is there any more who would be notified.
                let (kind, token) = (Kind::NonConfirmable, token.to_be_bytes());
                let asked =
                    Message { kind, code: code::GET, id: 0, token: &token, options: &options, payload: &[] };
                let mut list = OptionList::new();
                for (number, value) in asked.options().filter(|(number, _)| *number != option::OBSERVE) {
                    list.add(number, value);
                }
                list.add_number(option::OBSERVE, 1);
                desk.links.say(passed.to, code::GET, &token, &list, &[]);
            }
        }
    }
}
