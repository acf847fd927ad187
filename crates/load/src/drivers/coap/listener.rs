//! Subscribers that listen: a CoAP server of ours for each shard, to which the platform brings its notifications as
//! requests. The first part of a request's path is the subscriber's number.

use super::channel::Peer;
use super::endpoint::{Answer, Endpoint, Incoming};
use super::message_ids::MessageIds;
use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Readiness;
use crate::drivers::{DriverContext, ListenerEntry, Part};
use crate::notification::notify;
use crate::share::Share;
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::ListenerRole;
use std::collections::HashMap;
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
    endpoint: Endpoint,
    contents: Contents,
    share: Share,
    subscribers: u32,
    /// Code and options of every answer.
    code: u8,
    options: OptionList,
    /// Notifications that come in blocks, by who brings them to which subscriber.
    in_blocks: HashMap<(Peer, u32), Vec<u8>>,
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
        let mut endpoint = Endpoint::default();
        let ids = MessageIds::beginning_at(run.tag().wrapping_add(1), clock.now());
        endpoint.bind(socket, ids, (readiness.epoll(), 0))?;
        let mut options = OptionList::new();
        for (number, value) in &role.options {
            options.add(*number, value);
        }
        Ok(CoapListenerDriver {
            clock,
            readiness,
            endpoint,
            contents: Contents::new(plan, run),
            share,
            subscribers: share.first.saturating_add(count),
            code: code::of_status(role.status).unwrap_or(code::CHANGED),
            options,
            in_blocks: HashMap::new(),
            scratch: vec![0; READ_SIZE],
            traffic: Traffic::default(),
            early: Vec::new(),
        })
    }

    fn read(&mut self, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            let read = self.endpoint.read(&mut scratch, self.clock.now(), &mut self.traffic);
            match read {
                // An error tells that a platform did not want an answer of ours: it has gone.
                Ok(Incoming::Nothing) | Err(_) => break,
                Ok(Incoming::Message { message, from, lag }) => {
                    let at = self.readiness.received_at(self.clock.now(), lag);
                    self.take_in(&message, from, (at, lag), events);
                }
                // Platforms bring notifications without DTLS.
                Ok(Incoming::Repeated | Incoming::Malformed(_) | Incoming::Part | Incoming::Secured(_)) => {}
            }
        }
        self.scratch = scratch;
    }

    fn take_in(
        &mut self,
        message: &Message<'_>,
        from: Peer,
        stamp: (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
        if message.is_request() {
            self.serve(message, from, stamp, events);
        } else if message.kind == Kind::Confirmable {
            // A ping, or an answer to nobody.
            self.endpoint.say(Kind::Reset, message.id, from, self.clock.now(), &mut self.traffic);
        }
    }

    fn serve(
        &mut self,
        request: &Message<'_>,
        from: Peer,
        stamp: (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
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
        let answer = Answer { code, options: &encoded, payload: &[] };
        // It asks nothing itself, so no message of its own is under way.
        let is_under_way = |_| false;
        self.endpoint.answer((request, from), answer, is_under_way, self.clock.now(), &mut self.traffic);
    }

    /// Takes a notification or a block of one; the code to answer with.
    fn take(
        &mut self,
        subscriber: u32,
        payload: &[u8],
        (from, block): (Peer, Option<Block>),
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
