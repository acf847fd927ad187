//! The bootstrap server beside the target: it tells each device that asks of the target, and has it register there.

use super::{ACK_TIMEOUT, LOOK, Lwm2mError, SENDINGS, is_passing};
use crate::clock::monotonic;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Path, Value, format, payload};
use plimsoll_model::Nanos;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
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

/// A request to a device that is not answered.
struct Session {
    step: usize,
    datagram: Vec<u8>,
    due: Nanos,
    sendings: u32,
}

/// See the module.
pub struct Bootstrap {
    socket: UdpSocket,
    /// Where the target is.
    server: SocketAddr,
    sessions: HashMap<SocketAddr, Session>,
    next_id: u16,
    done: u64,
}

impl Bootstrap {
    /// Begins to listen; devices are told of that server.
    ///
    /// # Errors
    /// The port is taken.
    pub fn bind(address: SocketAddr, server: SocketAddr) -> Result<Bootstrap, Lwm2mError> {
        let socket = UdpSocket::bind(address).map_err(|cause| Lwm2mError::Listen { address, cause })?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Bootstrap { socket, server, sessions: HashMap::new(), next_id: monotonic().0 as u16, done: 0 })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, Lwm2mError> {
        Ok(self.socket.local_addr()?)
    }

    /// Serves until it is to stop; how many devices were told everything.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub fn run(mut self, stop: &AtomicBool) -> Result<u64, Lwm2mError> {
        let (mut room, mut looked) = (vec![0; 64 * 1024], monotonic());
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut room) {
                Ok((length, from)) => self.take(room.get(..length).unwrap_or_default(), from),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
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
        let socket = &self.socket;
        self.sessions.retain(|to, session| {
            if session.due > at {
                return true;
            }
            (session.sendings, session.due) = (session.sendings + 1, at + ACK_TIMEOUT);
            // What cannot be sent is lost, as datagrams are.
            session.sendings <= SENDINGS && socket.send_to(&session.datagram, to).is_ok()
        });
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let Ok(message) = Message::decode(datagram) else { return };
        if message.is_request() {
            let is_asking = message.code == code::POST && message.path() == INTERFACE;
            let answer = if is_asking { code::CHANGED } else { code::NOT_FOUND };
            let kind = Kind::Acknowledgement;
            let mut out = Vec::new();
            Message { kind, code: answer, id: message.id, token: message.token, options: &[], payload: &[] }
                .encode(&mut out);
            let _ = self.socket.send_to(&out, from);
            if is_asking && !self.sessions.contains_key(&from) {
                self.say(from, 0);
            }
            return;
        }
        let session = self.sessions.get(&from);
        let step = session.map(|session| session.step).filter(|step| message.token == [*step as u8]);
        let Some(step) = step.filter(|_| message.code != code::EMPTY) else { return };
        self.sessions.remove(&from);
        if step + 1 < STEPS.len() {
            self.say(from, step + 1);
        } else {
            self.done += 1;
        }
    }

    /// Says the next thing to a device.
    fn say(&mut self, to: SocketAddr, step: usize) {
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
            let uri = format!("coap://{}", self.server);
            let of = |id| account.child(id).unwrap_or(Path::ROOT);
            // Where it is, that it is no bootstrap server, without encryption, and its short number.
            let entries = [
                (of(0), Value::String(&uri)),
                (of(1), Value::Boolean(false)),
                (of(2), Value::Integer(3)),
                (of(10), Value::Integer(1)),
            ];
            payload::write(format::TLV, account, &entries, &mut body);
        }
        list.encode(&mut options);
        self.next_id = self.next_id.wrapping_add(1);
        let (kind, id, token) = (Kind::Confirmable, self.next_id, &[step as u8][..]);
        let mut datagram = Vec::new();
        Message { kind, code: method, id, token, options: &options, payload: &body }.encode(&mut datagram);
        let _ = self.socket.send_to(&datagram, to);
        let due = monotonic() + ACK_TIMEOUT;
        self.sessions.insert(to, Session { step, datagram, due, sendings: 1 });
    }
}
