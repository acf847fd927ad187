//! Subscribers that listen: a CoAP server of ours for each shard, to which the platform brings its notifications as
//! requests. The first part of a request's path is the subscriber's number.

use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::{Readiness, data};
use crate::drivers::socket::{Interest, Socket};
use crate::drivers::{DriverContext, ListenerEntry, Part};
use crate::notification::notify;
use crate::share::Share;
use plimsoll_codec::coap::{Block, Kind, LONGEST_TOKEN, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::ListenerRole;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes read at once: the largest datagram.
const READ_SIZE: usize = 64 * 1024;
/// Datagrams read before others get their turn.
const DATAGRAMS: usize = 256;
/// Largest notification that is taken in blocks, and most that are under way at once.
const LARGEST_NOTIFICATION: usize = 16 * 1024 * 1024;
const MOST_HELD: usize = 64 * 1024 * 1024;
const MOST_IN_BLOCKS: usize = 1024;
/// How long a request is known when it is repeated: EXCHANGE_LIFETIME (RFC 7252 section 4.8.2); and how many at most.
const EXCHANGE_LIFETIME: Nanos = Nanos::from_secs(247);
const MOST_EXCHANGES: usize = 100_000;

/// What a repetition has in common with its original. Platforms in a hurry use message ids again before their time, but
/// not with the same token.
type Known = (SocketAddr, u16, [u8; LONGEST_TOKEN]);

/// How subscribers listen over CoAP.
pub const ENTRY: ListenerEntry = ListenerEntry {
    scheme: "coap",
    bind,
    serve: |context, role, socket| Ok(Box::new(CoapListenerDriver::new(context, role, socket.into())?)),
};

fn bind(here: SocketAddr) -> std::io::Result<(OwnedFd, SocketAddr)> {
    let socket = UdpSocket::bind(here)?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    Ok((socket.into(), address))
}

/// Subscribers of one shard that listen.
pub struct CoapListenerDriver {
    clock: Clock,
    readiness: Readiness,
    socket: Socket,
    contents: Contents,
    share: Share,
    subscribers: u32,
    /// Code and options of every answer.
    code: u8,
    options: OptionList,
    /// What was answered: to be answered again, and not to be taken for a second delivery.
    answered: HashMap<Known, Vec<u8>>,
    order: VecDeque<(Nanos, Known)>,
    /// Notifications that come in blocks.
    in_blocks: HashMap<(SocketAddr, u32), Vec<u8>>,
    next_id: u16,
    scratch: Vec<u8>,
    traffic: Traffic,
    early: Vec<Event>,
}

impl CoapListenerDriver {
    /// A driver that serves what comes at that socket.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        context: &DriverContext,
        role: &ListenerRole,
        socket: UdpSocket,
    ) -> std::io::Result<CoapListenerDriver> {
        let &DriverContext { ref plan, run, subscribers: (share, count), clock, .. } = context;
        let readiness = Readiness::new(clock, &plan.load)?;
        let socket = Socket::bound(socket)?;
        socket.register(readiness.epoll(), data(0, 0), Interest { read: true, write: false })?;
        let mut options = OptionList::new();
        for (number, value) in &role.options {
            options.add(*number, value);
        }
        Ok(CoapListenerDriver {
            clock,
            readiness,
            socket,
            contents: Contents::new(plan, run),
            share,
            subscribers: share.first.saturating_add(count),
            code: code::of_status(role.status).unwrap_or(code::CHANGED),
            options,
            answered: HashMap::new(),
            order: VecDeque::new(),
            in_blocks: HashMap::new(),
            next_id: run.tag(),
            scratch: vec![0; READ_SIZE],
            traffic: Traffic::default(),
            early: Vec::new(),
        })
    }

    fn read(&mut self, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            // An error tells that a platform did not want an answer of ours: it has gone.
            let Ok(Some((reading, from))) = self.socket.read_from(&mut scratch) else { break };
            self.traffic.received_datagram(reading.length);
            let at = self.readiness.received_at(self.clock.now(), reading.lag);
            if let Ok(message) = Message::decode(scratch.get(..reading.length).unwrap_or_default()) {
                self.serve(&message, from, (at, reading.lag), events);
            }
        }
        self.scratch = scratch;
    }

    fn serve(
        &mut self,
        request: &Message<'_>,
        from: SocketAddr,
        stamp: (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
        let confirmable = request.kind == Kind::Confirmable;
        if request.code == code::EMPTY || request.code >> 5 != 0 {
            if confirmable {
                // A ping, or an answer to nobody.
                self.send(from, Message::empty(Kind::Reset, request.id));
            }
            return;
        }
        let mut token = [0; LONGEST_TOKEN];
        token.iter_mut().zip(request.token).for_each(|(to, from)| *to = *from);
        let known = (from, request.id, token);
        if let Some(answer) = self.answered.get(&known) {
            let count = self.socket.write_to(answer, from);
            self.traffic.sent_datagram(count);
            return;
        }
        let number = subscriber(request);
        let number = number.filter(|&number| number < self.subscribers && self.share.owns(number));
        let block = request.block(option::BLOCK1);
        let code = match number {
            None => code::NOT_FOUND,
            Some(subscriber) => {
                let size = request.header_length() + request.payload.len();
                self.traffic.notifications.add_part(size, request.payload.len());
                self.take(subscriber, request.payload, (from, block), stamp, events)
            }
        };
        let mut options = if code == self.code { self.options.clone() } else { OptionList::new() };
        if let Some(block) = block {
            options.add_number(option::BLOCK1, block.to_number());
        }
        let mut encoded = Vec::new();
        options.encode(&mut encoded);
        let (kind, id) = match confirmable {
            true => (Kind::Acknowledgement, request.id),
            false => {
                self.next_id = self.next_id.wrapping_add(1);
                (Kind::NonConfirmable, self.next_id)
            }
        };
        let answer = Message { kind, code, id, token: request.token, options: &encoded, payload: &[] };
        let answer = self.send(from, answer);
        self.remember(known, answer, stamp.0);
    }

    /// Takes a notification or a block of one; the code to answer with.
    fn take(
        &mut self,
        subscriber: u32,
        payload: &[u8],
        (from, block): (SocketAddr, Option<Block>),
        stamp: (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) -> u8 {
        let Some(block) = block.filter(|block| block.more || block.number > 0) else {
            self.traffic.notifications.count += 1;
            notify(&self.contents, subscriber, stamp, payload, events);
            return self.code;
        };
        let held: usize = self.in_blocks.values().map(Vec::len).sum();
        if self.in_blocks.len() >= MOST_IN_BLOCKS || held >= MOST_HELD {
            self.in_blocks.clear();
        }
        let whole = self.in_blocks.entry((from, subscriber)).or_default();
        if block.number == 0 {
            whole.clear();
        }
        if whole.len() != block.begin() {
            return code::INCOMPLETE;
        }
        whole.extend_from_slice(payload);
        if whole.len() > LARGEST_NOTIFICATION {
            self.in_blocks.remove(&(from, subscriber));
            return code::TOO_LARGE;
        }
        if block.more {
            return code::CONTINUE;
        }
        let whole = self.in_blocks.remove(&(from, subscriber)).unwrap_or_default();
        self.traffic.notifications.count += 1;
        notify(&self.contents, subscriber, stamp, &whole, events);
        self.code
    }

    /// Sends a message and gives it as bytes. One that finds no room is lost, as datagrams are: the platform asks again.
    fn send(&mut self, to: SocketAddr, message: Message<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        let count = self.socket.write_to(&out, to);
        self.traffic.sent_datagram(count);
        out
    }

    fn remember(&mut self, known: Known, answer: Vec<u8>, now: Nanos) {
        let old = |order: &VecDeque<(Nanos, Known)>| {
            order.len() >= MOST_EXCHANGES
                || order.front().is_some_and(|(at, _)| now - *at > EXCHANGE_LIFETIME)
        };
        while old(&self.order) {
            if let Some((_, key)) = self.order.pop_front() {
                self.answered.remove(&key);
            }
        }
        self.answered.insert(known, answer);
        self.order.push_back((now, known));
    }
}

/// The subscriber that the first part of a path names.
fn subscriber(request: &Message<'_>) -> Option<u32> {
    std::str::from_utf8(request.option(option::URI_PATH)?).ok()?.parse().ok()
}

impl Part for CoapListenerDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        Nanos::MAX
    }

    fn is_urgent(&self) -> bool {
        false
    }
}

impl Driver for CoapListenerDriver {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        // It listens already.
        self.early.push(Event::Ready { client, took: Nanos::ZERO, again: false });
        true
    }

    fn release(&mut self, _: Client) -> bool {
        true
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.readiness.wait(until);
        let found = self.readiness.found();
        if !found.is_empty() {
            self.read(events);
        }
        self.readiness.served(found);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {
        self.in_blocks.clear();
    }
}
