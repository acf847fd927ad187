//! The bootstrap server beside the target: it tells each device that asks of the target, and has it register there.

use super::channel::Channel;
use super::secured::Secret;
use super::{ACK_TIMEOUT, Lwm2mError, SENDINGS, query};
use crate::clock::monotonic;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Path, Value, format, payload};
use plimsoll_model::Nanos;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where devices ask, and where they learn that all is said.
const INTERFACE: &str = "/bs";
/// What is said to each device, one after the other.
const STEPS: [Step; 3] = [Step::Forget, Step::Account, Step::Finish];

#[derive(Clone, Copy)]
enum Step {
    /// It is to forget the servers that it knows.
    Forget,
    /// It is told of the target (object 0).
    Account,
    /// All is said.
    Finish,
}

/// Security modes: a pre-shared key, and none (1.1 core, appendix E.1, resource 0/x/2).
const WITH_KEY: i64 = 0;
const WITHOUT_SECURITY: i64 = 3;

/// What devices are told of the target.
pub struct Account {
    /// Where it is.
    pub uri: String,
    /// The key for it, which each device has under its name; `None` where datagrams are not secured.
    pub key: Option<String>,
}

/// A request to a device that is not answered.
struct Session {
    /// How the device calls itself.
    endpoint: String,
    step: usize,
    datagram: Vec<u8>,
    due: Nanos,
    sendings: u32,
}

/// See the module.
pub struct Bootstrap {
    channel: Channel,
    account: Account,
    sessions: HashMap<SocketAddr, Session>,
    next_id: u16,
    done: u64,
}

impl Bootstrap {
    /// Begins to listen; devices are told of that server.
    ///
    /// # Errors
    /// The port is taken, or the secret cannot be used.
    pub fn bind(
        address: SocketAddr,
        secret: Option<&Secret>,
        account: Account,
    ) -> Result<Bootstrap, Lwm2mError> {
        let channel = Channel::bind(address, secret)?;
        Ok(Bootstrap { channel, account, sessions: HashMap::new(), next_id: monotonic().0 as u16, done: 0 })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, Lwm2mError> {
        self.channel.address()
    }

    /// Serves until it is to stop; how many devices were told everything.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub fn run(mut self, stop: &AtomicBool) -> Result<u64, Lwm2mError> {
        let (mut room, mut looked) = (vec![0; 64 * 1024], monotonic());
        while !stop.load(Ordering::Relaxed) {
            if let Some((length, from)) = self.channel.read(&mut room)? {
                let datagram = room.get(..length).unwrap_or_default();
                match self.channel.opened(datagram, from) {
                    Some(messages) => messages.iter().for_each(|message| self.take(message, from)),
                    None => self.take(datagram, from),
                }
            }
            let at = monotonic();
            if at - looked > Nanos::from_millis(20) {
                looked = at;
                self.repeat(at);
            }
        }
        Ok(self.done)
    }

    fn repeat(&mut self, at: Nanos) {
        let channel = &mut self.channel;
        self.sessions.retain(|to, session| {
            if session.due > at {
                return true;
            }
            (session.sendings, session.due) = (session.sendings + 1, at + ACK_TIMEOUT);
            let is_sent = session.sendings <= SENDINGS;
            if is_sent {
                channel.send(&session.datagram, *to);
            }
            is_sent
        });
    }

    fn take(&mut self, message: &[u8], from: SocketAddr) {
        let Ok(message) = Message::decode(message) else { return };
        if message.is_request() {
            let is_asking = message.code == code::POST && message.path() == INTERFACE;
            let answer = if is_asking { code::CHANGED } else { code::NOT_FOUND };
            let kind = Kind::Acknowledgement;
            let mut out = Vec::new();
            Message { kind, code: answer, id: message.id, token: message.token, options: &[], payload: &[] }
                .encode(&mut out);
            self.channel.send(&out, from);
            if is_asking && !self.sessions.contains_key(&from) {
                self.say(from, query(&message, "ep").unwrap_or_default(), 0);
            }
            return;
        }
        let session = self.sessions.get(&from);
        let step = session.map(|session| session.step).filter(|step| message.token == [*step as u8]);
        let Some(step) = step.filter(|_| message.code != code::EMPTY) else { return };
        let endpoint = self.sessions.remove(&from).map(|session| session.endpoint).unwrap_or_default();
        if step + 1 < STEPS.len() {
            self.say(from, endpoint, step + 1);
        } else {
            self.done += 1;
        }
    }

    /// Says the next thing to a device.
    fn say(&mut self, to: SocketAddr, endpoint: String, step: usize) {
        let Some(what) = STEPS.get(step) else { return };
        let account = Path::new(&[0, 1]).unwrap_or(Path::ROOT);
        let (method, path) = match what {
            Step::Forget => (code::DELETE, "/0".to_owned()),
            Step::Account => (code::PUT, account.to_string()),
            Step::Finish => (code::POST, INTERFACE.to_owned()),
        };
        let (mut list, mut options, mut body) = (OptionList::new(), Vec::new(), Vec::new());
        list.add_target(path.as_bytes());
        if matches!(what, Step::Account) {
            list.add_number(option::CONTENT_FORMAT, u32::from(format::TLV));
            let of = |id| account.child(id).unwrap_or(Path::ROOT);
            let mode = if self.account.key.is_some() { WITH_KEY } else { WITHOUT_SECURITY };
            // Where it is, that it is no bootstrap server, how datagrams are secured, and its short number.
            let mut entries = vec![
                (of(0), Value::String(&self.account.uri)),
                (of(1), Value::Boolean(false)),
                (of(2), Value::Integer(mode)),
                (of(10), Value::Integer(1)),
            ];
            if let Some(key) = &self.account.key {
                entries.push((of(3), Value::Opaque(endpoint.as_bytes())));
                entries.push((of(5), Value::Opaque(key.as_bytes())));
            }
            payload::write(format::TLV, account, &entries, &mut body);
        }
        list.encode(&mut options);
        self.next_id = self.next_id.wrapping_add(1);
        let (kind, id, token) = (Kind::Confirmable, self.next_id, &[step as u8][..]);
        let mut datagram = Vec::new();
        Message { kind, code: method, id, token, options: &options, payload: &body }.encode(&mut datagram);
        self.channel.send(&datagram, to);
        let due = monotonic() + ACK_TIMEOUT;
        self.sessions.insert(to, Session { endpoint, step, datagram, due, sendings: 1 });
    }
}
