//! The account server: users, their devices, and their access tokens.

use super::Server;
use super::desk::{Desk, map_of, query, text};
use plimsoll_codec::coap::{Message, code};
use plimsoll_model::Nanos;
use serde_json::{Value, json};
use std::collections::HashMap;

const ACCOUNT: &str = "/oic/account";
const SESSION: &str = "/oic/account/session";
const REFRESH: &str = "/oic/account/tokenrefresh";
const VERIFY: &str = "/oic/acl/verify";
/// How a token is said to hold for ever.
const FOR_EVER: i64 = -1;

/// See the module.
pub struct Account {
    token_life: Option<u32>,
    /// The user of each device, its access token, its refresh token, and when the access token ends.
    devices: HashMap<String, Device>,
    /// The user of each authorisation code.
    users: HashMap<String, String>,
    issued: u64,
}

struct Device {
    user: String,
    access: String,
    refresh: String,
    until: Nanos,
}

impl Account {
    pub fn new(token_life: Option<u32>) -> Account {
        Account { token_life, devices: HashMap::new(), users: HashMap::new(), issued: 0 }
    }

    fn issue(&mut self, at: Nanos) -> (String, String, Nanos) {
        self.issued += 1;
        let (number, time) = (self.issued, at.0);
        let until = self.token_life.map_or(Nanos::MAX, |life| at + Nanos::from_secs(i64::from(life)));
        (format!("access-{number:x}-{time:x}"), format!("refresh-{number:x}-{time:x}"), until)
    }

    fn expires_in(&self) -> i64 {
        self.token_life.map_or(FOR_EVER, i64::from)
    }

    fn sign_up(&mut self, map: &Value, at: Nanos) -> Option<Value> {
        let (di, code) = (text(map, "di")?, text(map, "authcode")?);
        text(map, "authprovider")?;
        let next = self.users.len() + 1;
        let user = self.users.entry(code.to_owned()).or_insert_with(|| format!("user-{next}")).clone();
        let (access, refresh, until) = self.issue(at);
        let answer = json!({
            "accesstoken": access, "refreshtoken": refresh, "tokentype": "bearer", "expiresin": self.expires_in(),
            "uid": user,
        });
        self.devices.insert(di.to_owned(), Device { user, access, refresh, until });
        Some(answer)
    }

    /// The device of a request that shows its access token.
    fn known(&self, map: &Value, at: Nanos) -> Option<&Device> {
        let device = self.devices.get(text(map, "di")?)?;
        let is_its =
            text(map, "uid") == Some(&device.user) && text(map, "accesstoken") == Some(&device.access);
        (is_its && at < device.until).then_some(device)
    }

    fn refreshed(&mut self, map: &Value, at: Nanos) -> Option<Value> {
        let (di, refresh) = (text(map, "di")?.to_owned(), text(map, "refreshtoken")?);
        let is_its = |device: &&Device| text(map, "uid") == Some(&device.user) && refresh == device.refresh;
        let user = self.devices.get(&di).filter(is_its)?.user.clone();
        let (access, refresh, until) = self.issue(at);
        let answer = json!({
            "accesstoken": access, "refreshtoken": refresh, "tokentype": "bearer", "expiresin": self.expires_in(),
        });
        self.devices.insert(di, Device { user, access, refresh, until });
        Some(answer)
    }
}

impl Server for Account {
    fn request(&mut self, link: u64, request: &Message<'_>, desk: &mut Desk) {
        let (path, at) = (request.path(), desk.at);
        let map = map_of(request);
        let (code, answer, what) = match (request.code, path.as_str(), &map) {
            (code::POST, ACCOUNT, Some(map)) => match self.sign_up(map, at) {
                Some(answer) => (code::CHANGED, Some(answer), "signed_up"),
                None => (code::BAD_REQUEST, None, "refused"),
            },
            (code::POST, SESSION, Some(map)) if map.get("login") == Some(&Value::Bool(false)) => {
                (code::CHANGED, Some(json!({})), "signed_out")
            }
            (code::POST, SESSION, Some(map)) => match self.known(map, at) {
                Some(device) => {
                    let left = match device.until {
                        Nanos::MAX => FOR_EVER,
                        // A second that has begun counts, so that what holds is not said to have ended.
                        until => (until - at).as_secs_f64().ceil() as i64,
                    };
                    (code::CHANGED, Some(json!({ "expiresin": left })), "signed_in")
                }
                None => (code::UNAUTHORIZED, None, "refused"),
            },
            (code::POST, REFRESH, Some(map)) => match self.refreshed(map, at) {
                Some(answer) => (code::CHANGED, Some(answer), "refreshed"),
                None => (code::NOT_FOUND, None, "refused"),
            },
            (code::GET, VERIFY, _) => {
                let user = query(request, "sid");
                let device = query(request, "di").and_then(|di| self.devices.get(&di));
                let is_its = device.is_some_and(|device| user.as_deref() == Some(&device.user));
                let policy = if is_its { "Allowed" } else { "Denied" };
                (code::CONTENT, Some(json!({ "gp": policy })), "verified")
            }
            (code::DELETE, ACCOUNT, _) => {
                let device = query(request, "di").filter(|di| {
                    let token = query(request, "accesstoken");
                    self.devices.get(di).is_some_and(|device| token.as_deref() == Some(&device.access))
                });
                match device.and_then(|di| self.devices.remove(&di)) {
                    Some(_) => (code::DELETED, None, "deleted"),
                    None => (code::UNAUTHORIZED, None, "refused"),
                }
            }
            (_, ACCOUNT | SESSION | REFRESH, None) => (code::BAD_REQUEST, None, "refused"),
            _ => (code::NOT_FOUND, None, "refused"),
        };
        desk.note(what, link, &path, request.payload);
        desk.answer(link, request, code, answer.as_ref());
    }
}
