//! The loop of a relay: who is connected, what is under way, which fault is due.

use super::datagrams::{AT_FLOW, DATAGRAMS, Datagrams};
use super::faults::Kind;
use super::link::{Disturbance, Link};
use super::orders::{ORDERS, Orders};
use super::servers::Servers;
use super::way::Way;
use super::{RelayError, Settings, Totals};
use crate::clock::monotonic;
use crate::tcp::{Door, Peer, Slots, reset};
use plimsoll_model::Nanos;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

/// The id of the listening socket in epoll.
pub const LISTENER: u64 = u64::MAX;
/// Set in the ids of servers' sockets, beside the id of the connection; there are never so many connections that it means another.
const AT_SERVER: u64 = 1 << 63;
/// Longest wait, so that a wish to stop is seen in time.
const PATIENCE: Nanos = Nanos::from_millis(100);
const SCRATCH: usize = 64 * 1024;
/// Readings of one socket before others get their turn.
const READINGS: usize = 4;

/// The client's end of a connection, and the way that begins there. The server's is the other one.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A client's connection and the one to the server.
#[derive(Default)]
struct Pair {
    ends: [Option<Peer>; 2],
    ways: [Way; 2],
    /// Whether a fault has made it half-open: what either end sends vanishes, and none sees the end of the other.
    void: bool,
}

/// See the module.
pub struct Server {
    settings: Settings,
    begin: Nanos,
    links: [Link; 2],
    servers: Servers,
    pairs: Slots<Pair>,
    datagrams: Datagrams,
    orders: Option<Orders>,
    /// Where clients connect.
    address: Option<SocketAddr>,
    /// When the next piece of a way gets to its end.
    timers: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    /// Pairs of which something changed.
    dirty: BTreeSet<u64>,
    next_cut: Option<Nanos>,
    next_half_open: Option<Nanos>,
    totals: Totals,
    scratch: Vec<u8>,
}

impl Server {
    pub fn new(
        settings: Settings,
        address: Option<SocketAddr>,
        datagrams: UdpSocket,
        orders: Option<Orders>,
    ) -> Server {
        let begin = monotonic();
        let link = |direction| Link::new(settings.network, settings.seed, direction);
        Server {
            begin,
            links: [link(0), link(1)],
            pairs: Slots::default(),
            datagrams: Datagrams::new(datagrams, Servers::new(settings.to.clone())),
            orders,
            address,
            servers: Servers::new(settings.to.clone()),
            timers: BinaryHeap::new(),
            dirty: BTreeSet::new(),
            next_cut: settings.cut.map(|cut| begin + cut.every),
            next_half_open: settings.half_open.map(|every| begin + every),
            totals: Totals::default(),
            scratch: vec![0; SCRATCH],
            settings,
        }
    }

    /// Prepares the loop.
    pub fn begin(&self, epoll: &OwnedFd, door: &Door) -> Result<(), RelayError> {
        // Without it every wake-up is 50 µs late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        door.register(epoll)?;
        self.orders.iter().try_for_each(|orders| orders.register(epoll))?;
        Ok(self.datagrams.register(epoll)?)
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Waits for the network or for something that is due, and does what there is to do.
    pub fn turn(&mut self, epoll: &OwnedFd, door: &mut Door) -> Result<(), RelayError> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let faults = self.next_cut.into_iter().chain(self.next_half_open);
        let ordered = self.orders.as_ref().and_then(|orders| orders.faults.next(monotonic()));
        let next = timer.into_iter().chain(self.datagrams.next()).chain(faults).chain(ordered).min();
        let wait = (next.unwrap_or(Nanos::MAX) - monotonic()).0.clamp(0, PATIENCE.0);
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut ready = [none; 256];
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait };
        let count = epoll::wait(epoll, &mut ready[..], Some(&timeout)).unwrap_or(0);
        self.break_connections();
        self.obey();
        for event in &ready[..count] {
            match event.data.u64() {
                LISTENER => self.accept(epoll, door),
                DATAGRAMS => self.read_datagrams(epoll, None),
                ORDERS => self.hear(),
                id if id & AT_FLOW != 0 => self.read_datagrams(epoll, Some(id & !AT_FLOW)),
                id if id & AT_SERVER != 0 => self.read(epoll, id & !AT_SERVER, SERVER, event.flags),
                id => self.read(epoll, id, CLIENT, event.flags),
            }
        }
        door.resume(epoll, monotonic())?;
        self.fire();
        self.datagrams.fire(monotonic(), &mut self.totals, self.orders.as_mut());
        self.send_dirty(epoll);
        Ok(())
    }

    /// Hears orders.
    fn hear(&mut self) {
        if let Some(orders) = &mut self.orders {
            orders.read(monotonic());
        }
    }

    /// Delays by the orders whose time it is, and tells of those that are over.
    fn obey(&mut self) {
        if let Some(orders) = &mut self.orders {
            let now = monotonic();
            let longer = orders.delay(now);
            self.links.iter_mut().for_each(|link| link.delay_by(longer));
            let changes = orders.faults.turn(now);
            if let Some(address) = self.address {
                orders.faults.lose_segments(address, self.totals.in_connections > 0);
            }
            orders.tell(now);
            changes.into_iter().for_each(|(kind, begins)| self.change(kind, begins));
        }
    }

    /// A fault begins or ends.
    fn change(&mut self, kind: Kind, begins: bool) {
        match kind {
            Kind::Cut if begins => self.reset_all(),
            Kind::HalfOpen if begins => {
                for (id, pair) in self.pairs.iter_mut() {
                    self.totals.broken += u64::from(!pair.void);
                    (pair.void, pair.ways) = (true, Default::default());
                    self.dirty.insert(id);
                }
                self.datagrams.clear(&mut self.totals);
            }
            Kind::Cut | Kind::HalfOpen => {}
            Kind::Disturb(disturbance) => {
                let disturbance = if begins { disturbance } else { Disturbance::default() };
                self.links.iter_mut().for_each(|link| link.disturb(disturbance));
            }
        }
    }

    /// All connections are reset, and nothing is under way any more.
    fn reset_all(&mut self) {
        let ids: Vec<u64> = self.pairs.iter_mut().map(|(id, _)| id).collect();
        for pair in ids.into_iter().filter_map(|id| self.pairs.remove(id)) {
            self.totals.broken += 1;
            pair.ends.into_iter().flatten().for_each(Peer::reset);
        }
        self.links.iter_mut().for_each(Link::clear);
        self.datagrams.clear(&mut self.totals);
    }

    fn accept(&mut self, epoll: &OwnedFd, door: &mut Door) {
        while let Some(stream) = door.accept(epoll, monotonic()) {
            if self.is_cut(monotonic()) {
                self.totals.broken += 1;
                reset(stream);
                continue;
            }
            let void = self.orders.as_ref().is_some_and(|orders| orders.faults.is_half_open());
            let id = self.pairs.insert(Pair { void, ..Pair::default() });
            if void {
                match (Peer::new(stream, id, epoll), self.pairs.get_mut(id)) {
                    (Ok(client), Some(pair)) => pair.ends[CLIENT] = Some(client),
                    _ => drop(self.pairs.remove(id)),
                }
                continue;
            }
            let to = self.servers.next();
            let connected = Peer::new(stream, id, epoll).and_then(|client| {
                let to = to.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
                let server = Peer::new(begin_to_connect(to)?, id | AT_SERVER, epoll)?;
                Ok([Some(client), Some(server)])
            });
            match (connected, self.pairs.get_mut(id)) {
                (Ok(ends), Some(pair)) => {
                    pair.ends = ends;
                    self.totals.connections += 1;
                }
                _ => drop(self.pairs.remove(id)),
            }
        }
    }

    /// Whether the network is cut at that time.
    fn is_cut(&self, now: Nanos) -> bool {
        let by_order = self.orders.as_ref().is_some_and(|orders| orders.faults.is_cut());
        by_order
            || self.settings.cut.is_some_and(|cut| {
                let since = (now - self.begin).0;
                since >= cut.every.0 && since % cut.every.0.max(1) < cut.length.0
            })
    }

    /// Does the faults that are due.
    fn break_connections(&mut self) {
        let now = monotonic();
        if let (Some(at), Some(cut)) = (self.next_cut, self.settings.cut)
            && at <= now
        {
            self.next_cut = Some(at + cut.every);
            self.reset_all();
        }
        if let (Some(at), Some(every)) = (self.next_half_open, self.settings.half_open)
            && at <= now
        {
            self.next_half_open = Some(at + every);
            for (id, pair) in self.pairs.iter_mut() {
                self.totals.broken += u64::from(pair.ends[SERVER].take().is_some());
                pair.ways = Default::default();
                self.dirty.insert(id);
            }
        }
    }

    /// Reads datagrams of clients, or those of the server in a flow.
    fn read_datagrams(&mut self, epoll: &OwnedFd, flow: Option<u64>) {
        let now = monotonic();
        let half_open = self.orders.as_ref().is_some_and(|orders| orders.faults.is_half_open());
        let is_cut = self.is_cut(now) || half_open;
        let [up, down] = &mut self.links;
        let (scratch, totals) = (&mut self.scratch, &mut self.totals);
        match flow {
            None => self.datagrams.read_clients(epoll, now, (!is_cut).then_some(up), scratch, totals),
            Some(id) => self.datagrams.read_server(id, now, (!is_cut).then_some(down), scratch, totals),
        }
    }

    /// Reads what an end has sent.
    fn read(&mut self, epoll: &OwnedFd, id: u64, side: usize, flags: EventFlags) {
        self.dirty.insert(id);
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let is_gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        for _ in 0..READINGS {
            let Some(Pair { ends, ways, void }) = self.pairs.get_mut(id) else { return };
            if *void {
                let Some(end) = &mut ends[side] else { return };
                match end.read(&mut self.scratch) {
                    Ok(Some(1..)) => continue,
                    Ok(None) => return,
                    // The other end does not learn of it.
                    Ok(Some(0)) | Err(_) => ends[side] = None,
                }
                return;
            }
            let is_half_open = ends[1 - side].is_none();
            let [up, down] = ways;
            let (way, back) = if side == CLIENT { (up, down) } else { (down, up) };
            let Some(end) = &mut ends[side] else { return };
            if way.ended || !way.has_room() {
                if !way.ended
                    && let Some(orders) = &mut self.orders
                {
                    orders.see_full(monotonic());
                }
                // Epoll would report that an end is gone for as long as what it sent is under way.
                if is_gone {
                    end.forget(epoll);
                }
                return;
            }
            let bytes = match end.read(&mut self.scratch) {
                Ok(Some(count)) => self.scratch.get(..count).unwrap_or_default(),
                Ok(None) => return,
                Err(_) => {
                    if is_gone {
                        back.give_up();
                    }
                    &[]
                }
            };
            if is_half_open && !bytes.is_empty() {
                continue;
            }
            let arrival = self.links[side].arrival(monotonic(), bytes.len());
            if let Some(first) = way.put(arrival, bytes) {
                self.timers.push(Reverse((first, id, side)));
            }
        }
    }

    /// Hands over what has got to its end.
    fn fire(&mut self) {
        let now = monotonic();
        while let Some(&Reverse((at, id, side))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            if let Some(orders) = &mut self.orders {
                orders.see(at, now);
            }
            let Some(pair) = self.pairs.get_mut(id) else { continue };
            if let Some(next) = pair.ways[side].take_arrived(now) {
                self.timers.push(Reverse((next, id, side)));
            }
            self.dirty.insert(id);
        }
    }

    fn send_dirty(&mut self, epoll: &OwnedFd) {
        let before: u64 = self.totals.bytes.iter().sum();
        while let Some(id) = self.dirty.pop_first() {
            let Some(pair) = self.pairs.get_mut(id) else { continue };
            if !pair.go_on(epoll, &mut self.totals.bytes) {
                self.pairs.remove(id);
            }
        }
        self.totals.in_connections += self.totals.bytes.iter().sum::<u64>() - before;
    }
}

impl Pair {
    /// Hands to each end what its socket takes, and chooses what to wait for; whether the connection goes on. `bytes` counts what
    /// was handed over, by the way that it came.
    fn go_on(&mut self, epoll: &OwnedFd, bytes: &mut [u64; 2]) -> bool {
        if self.void {
            // What an end cannot be waited for tells with its next reading.
            for end in self.ends.iter_mut().flatten() {
                let _ = end.watch(epoll, true, false);
            }
            return self.ends.iter().any(Option::is_some);
        }
        let Pair { ends: [client, server], ways: [up, down], .. } = self;
        let [to_server, to_client] = bytes;
        hand_over(server, up, to_server);
        hand_over(client, down, to_client);
        // Afterwards, since there may be room again.
        wait_for(server, up, down, epoll);
        wait_for(client, down, up, epoll);
        match server {
            Some(_) => !up.is_over() || !down.is_over(),
            None => !up.ended,
        }
    }
}

/// Hands to an end what came `to` it. An end that takes nothing any more is given up: what it has sent itself still gets to the
/// other one.
fn hand_over(end: &mut Option<Peer>, to: &mut Way, bytes: &mut u64) {
    let Some(peer) = end else { return };
    let before = to.out.sent();
    let sent = peer.send(&mut to.out);
    *bytes += to.out.sent() - before;
    if sent.is_err() {
        to.give_up();
    }
    if to.is_over() {
        peer.end();
    }
}

/// Chooses what to wait for at an end.
fn wait_for(end: &mut Option<Peer>, to: &Way, from: &Way, epoll: &OwnedFd) {
    let Some(peer) = end else { return };
    // Where this fails, the socket is gone, and the next reading tells.
    let _ = peer.watch(epoll, !from.ended && from.has_room(), to.out.waiting() > 0);
}

/// A connection to the server that may still be under way: a socket that waits for it takes no bytes and has none.
fn begin_to_connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}
