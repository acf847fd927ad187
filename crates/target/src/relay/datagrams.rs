//! Datagrams through a relay: what a client sends goes to the server from a socket of its own, by which answers find back.

use super::Totals;
use super::link::Link;
use super::orders::Orders;
use super::servers::Servers;
use crate::tcp::Slots;
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// The id in epoll of the socket that clients send to.
pub const DATAGRAMS: u64 = u64::MAX - 1;
/// Set in the ids of flows' sockets, beside the id of the flow.
pub const AT_FLOW: u64 = 1 << 62;
/// A flow that was silent for so long is forgotten (RFC 4787, REQ-5).
const SILENCE: Nanos = Nanos::from_secs(300);
/// From one search for silent flows to the next.
const SEARCH: Nanos = Nanos::from_secs(10);
/// Bytes under way beyond which more is lost, as at the full queue of a router.
const MOST_UNDER_WAY: usize = 16 << 20;
/// Readings of one socket before others get their turn.
const READINGS: usize = 64;

/// The way of what clients send, and that of what the server answers.
const UP: usize = 0;
const DOWN: usize = 1;

/// What a client and the server say to each other.
struct Flow {
    client: SocketAddr,
    /// Connected to the server.
    socket: UdpSocket,
    last: Nanos,
}

/// A datagram under way. Ordered by its arrival, then by its number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Parcel {
    arrival: Nanos,
    number: u64,
    flow: u64,
    side: usize,
    bytes: Vec<u8>,
}

/// See the module.
pub struct Datagrams {
    socket: UdpSocket,
    servers: Servers,
    flows: Slots<Flow>,
    by_client: FxHashMap<SocketAddr, u64>,
    under_way: BinaryHeap<Reverse<Parcel>>,
    held: usize,
    taken: u64,
    next_search: Nanos,
}

impl Datagrams {
    /// Takes what comes to this socket.
    pub fn new(socket: UdpSocket, servers: Servers) -> Datagrams {
        Datagrams {
            socket,
            servers,
            flows: Slots::default(),
            by_client: FxHashMap::default(),
            under_way: BinaryHeap::new(),
            held: 0,
            taken: 0,
            next_search: Nanos::ZERO,
        }
    }

    /// Asks epoll for what clients send.
    pub fn register(&self, epoll: &OwnedFd) -> rustix::io::Result<()> {
        epoll::add(epoll, &self.socket, EventData::new_u64(DATAGRAMS), EventFlags::IN)
    }

    /// When the next datagram gets there.
    pub fn next(&self) -> Option<Nanos> {
        self.under_way.peek().map(|Reverse(parcel)| parcel.arrival)
    }

    /// Nothing of what was sent is under way any more.
    pub fn clear(&mut self, totals: &mut Totals) {
        totals.lost += self.under_way.len() as u64;
        self.under_way.clear();
        self.held = 0;
    }

    /// Reads what clients have sent. Without a link the network is cut.
    pub fn read_clients(
        &mut self,
        epoll: &OwnedFd,
        now: Nanos,
        mut link: Option<&mut Link>,
        scratch: &mut [u8],
        totals: &mut Totals,
    ) {
        self.forget_silent(now);
        for _ in 0..READINGS {
            let Ok((count, client)) = self.socket.recv_from(scratch) else { return };
            let bytes = scratch.get(..count).unwrap_or_default();
            match self.flow_of(client, epoll, now) {
                Some(flow) => self.take(flow, UP, now, link.as_deref_mut(), bytes, totals),
                None => totals.lost += 1,
            }
        }
    }

    /// Reads what the server has answered to a client. Without a link the network is cut.
    pub fn read_server(
        &mut self,
        id: u64,
        now: Nanos,
        mut link: Option<&mut Link>,
        scratch: &mut [u8],
        totals: &mut Totals,
    ) {
        for _ in 0..READINGS {
            let Some(flow) = self.flows.get_mut(id) else { return };
            let Ok(count) = flow.socket.recv(scratch) else { return };
            flow.last = now;
            let bytes = scratch.get(..count).unwrap_or_default();
            self.take(id, DOWN, now, link.as_deref_mut(), bytes, totals);
        }
    }

    fn take(
        &mut self,
        flow: u64,
        side: usize,
        now: Nanos,
        link: Option<&mut Link>,
        bytes: &[u8],
        totals: &mut Totals,
    ) {
        let link = link.filter(|_| self.held + bytes.len() <= MOST_UNDER_WAY);
        let Some(arrival) = link.and_then(|link| (!link.loses()).then(|| link.arrival(now, bytes.len())))
        else {
            totals.lost += 1;
            return;
        };
        self.held += bytes.len();
        self.taken += 1;
        let bytes = bytes.to_vec();
        self.under_way.push(Reverse(Parcel { arrival, number: self.taken, flow, side, bytes }));
    }

    /// Hands over what has got to its end. What a full or closed socket refuses is lost, as on a network.
    pub fn fire(&mut self, now: Nanos, totals: &mut Totals, mut orders: Option<&mut Orders>) {
        while self.next().is_some_and(|arrival| arrival <= now) {
            let Some(Reverse(parcel)) = self.under_way.pop() else { return };
            if let Some(orders) = &mut orders {
                orders.see(parcel.arrival, now);
            }
            self.held -= parcel.bytes.len();
            let flow = self.flows.get(parcel.flow);
            let sent = flow.is_some_and(|flow| {
                let sent = match parcel.side {
                    UP => flow.socket.send(&parcel.bytes),
                    _ => self.socket.send_to(&parcel.bytes, flow.client),
                };
                sent.is_ok()
            });
            if sent {
                totals.datagrams[parcel.side] += 1;
                totals.bytes[parcel.side] += parcel.bytes.len() as u64;
            } else {
                totals.lost += 1;
            }
        }
    }

    /// The flow of a client, which may be a new one; `None` where no socket is left for it.
    fn flow_of(&mut self, client: SocketAddr, epoll: &OwnedFd, now: Nanos) -> Option<u64> {
        if let Some(id) = self.by_client.get(&client) {
            self.flows.get_mut(*id)?.last = now;
            return Some(*id);
        }
        let to = self.servers.next()?;
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.connect(to).ok()?;
        let id = self.flows.insert(Flow { client, socket, last: now });
        let flow = self.flows.get(id)?;
        if epoll::add(epoll, &flow.socket, EventData::new_u64(id | AT_FLOW), EventFlags::IN).is_err() {
            self.flows.remove(id);
            return None;
        }
        self.by_client.insert(client, id);
        Some(id)
    }

    fn forget_silent(&mut self, now: Nanos) {
        if now < self.next_search {
            return;
        }
        self.next_search = now + SEARCH;
        let silent = self.flows.iter_mut().filter(|(_, flow)| now - flow.last > SILENCE).map(|(id, _)| id);
        for id in silent.collect::<Vec<_>>() {
            if let Some(flow) = self.flows.remove(id) {
                self.by_client.remove(&flow.client);
            }
        }
    }
}
