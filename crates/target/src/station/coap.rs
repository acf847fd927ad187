//! The server's side of CoAP over UDP, as much as a calibrated target needs (RFC 7252): requests answered in the
//! acknowledgement of a confirmable one or by themselves, repetitions recognised.

use super::session::{Message, Served};
use plimsoll_codec::coap::{self, Kind, LONGEST_TOKEN, code};
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};

/// How long a message id stands for the same message: EXCHANGE_LIFETIME of section 4.8.2.
const EXCHANGE_LIFETIME: Nanos = Nanos::from_secs(247);
/// Most exchanges that are remembered; older ones are forgotten before their time.
const MOST_EXCHANGES: usize = 200_000;

/// The socket and what was said over it.
pub struct Endpoint {
    socket: UdpSocket,
    exchanges: HashMap<(SocketAddr, u16), Exchange>,
    order: VecDeque<(Nanos, (SocketAddr, u16))>,
    /// The number of each peer, by which its messages are kept in order.
    peers: HashMap<SocketAddr, u64>,
    next_peer: u64,
    next_id: u16,
}

/// A request and, once it has been given, the answer to repeat.
struct Exchange {
    at: Nanos,
    kind: Kind,
    get: bool,
    token: [u8; LONGEST_TOKEN],
    token_length: usize,
    answer: Option<Vec<u8>>,
}

/// A request and who sent it.
pub struct Request {
    /// The number of its peer.
    pub peer: u64,
    /// Its address.
    pub from: SocketAddr,
    /// What is to be served.
    pub message: Message,
}

impl Endpoint {
    /// Over a bound socket.
    pub fn new(socket: UdpSocket) -> std::io::Result<Endpoint> {
        socket.set_nonblocking(true)?;
        Ok(Endpoint {
            socket,
            exchanges: HashMap::new(),
            order: VecDeque::new(),
            peers: HashMap::new(),
            next_peer: 0,
            next_id: 0,
        })
    }

    /// The socket, to be waited for.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Reads one datagram: `Err` when there is none, `Ok(None)` where it asks for nothing that is to be served.
    pub fn receive(&mut self, scratch: &mut [u8], now: Nanos) -> Result<Option<Request>, Errno> {
        let (length, _, from) = recvfrom(&self.socket, &mut *scratch, RecvFlags::empty())?;
        let from = from.and_then(|address: SocketAddrAny| SocketAddr::try_from(address).ok());
        let (Some(from), Ok(request)) =
            (from, coap::Message::decode(scratch.get(..length).unwrap_or_default()))
        else {
            return Ok(None);
        };
        if request.code == code::EMPTY {
            if request.kind == Kind::Confirmable {
                // A "CoAP ping" (section 4.3).
                self.send(from, &empty(Kind::Reset, request.id));
            }
            return Ok(None);
        }
        let asks = request.code >> 5 == 0 && matches!(request.kind, Kind::Confirmable | Kind::NonConfirmable);
        if !asks {
            return Ok(None);
        }
        self.forget(now);
        let key = (from, request.id);
        // A client in a hurry uses an id again before its time, but not with the same token.
        let same = |known: &&Exchange| known.token.get(..known.token_length) == Some(request.token);
        if let Some(known) = self.exchanges.get(&key).filter(same) {
            if let Some(answer) = known.answer.clone().filter(|_| known.kind == Kind::Confirmable) {
                self.send(from, &answer);
            }
            return Ok(None);
        }
        let mut token = [0; LONGEST_TOKEN];
        token.iter_mut().zip(request.token).for_each(|(to, from)| *to = *from);
        let get = request.code == code::GET;
        let token_length = request.token.len();
        let exchange = Exchange { at: now, kind: request.kind, get, token, token_length, answer: None };
        self.exchanges.insert(key, exchange);
        self.order.push_back((now, key));
        if self.peers.len() >= MOST_EXCHANGES {
            self.peers.clear();
        }
        let next = self.next_peer;
        let peer = *self.peers.entry(from).or_insert(next);
        self.next_peer += u64::from(peer == next);
        let (topic, payload) = (request.path(), request.payload.to_vec());
        let message = Message { topic, payload, qos: QoS::AtMostOnce, id: request.id };
        Ok(Some(Request { peer, from, message }))
    }

    /// Answers a request, `times` times over.
    pub fn answer(&mut self, from: SocketAddr, id: u16, served: Served, times: u32) {
        let Some(exchange) = self.exchanges.get_mut(&(from, id)) else { return };
        let code = match served {
            Served::Lost => return,
            Served::Refused => code::SERVICE_UNAVAILABLE,
            Served::Well if exchange.get => code::CONTENT,
            Served::Well => code::CHANGED,
        };
        let (kind, id) = match exchange.kind {
            Kind::Confirmable => (Kind::Acknowledgement, id),
            _ => {
                self.next_id = self.next_id.wrapping_add(1);
                (Kind::NonConfirmable, self.next_id)
            }
        };
        let payload: &[u8] = if code == code::CONTENT { b"ok" } else { b"" };
        let token = exchange.token.get(..exchange.token_length).unwrap_or_default();
        let mut answer = Vec::new();
        coap::Message { kind, code, id, token, options: &[], payload }.encode(&mut answer);
        exchange.answer = Some(answer.clone());
        for _ in 0..times {
            self.send(from, &answer);
        }
    }

    fn send(&self, to: SocketAddr, datagram: &[u8]) {
        // A datagram that finds no room is lost, as datagrams are; the client repeats a confirmable request.
        let _ = sendto(&self.socket, datagram, SendFlags::empty(), &to);
    }

    fn forget(&mut self, now: Nanos) {
        let old = |order: &VecDeque<(Nanos, _)>| {
            order.len() >= MOST_EXCHANGES
                || order.front().is_some_and(|(at, _)| now - *at > EXCHANGE_LIFETIME)
        };
        while old(&self.order) {
            if let Some((at, key)) = self.order.pop_front()
                && self.exchanges.get(&key).is_some_and(|known| known.at == at)
            {
                self.exchanges.remove(&key);
            }
        }
    }
}

fn empty(kind: Kind, id: u16) -> Vec<u8> {
    let mut out = Vec::new();
    coap::Message { kind, code: code::EMPTY, id, token: &[], options: &[], payload: &[] }.encode(&mut out);
    out
}
