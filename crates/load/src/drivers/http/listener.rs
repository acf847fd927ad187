//! Subscribers that listen: an HTTP server of ours for each shard, to which the platform brings its notifications. The
//! first part of a request's path is the subscriber's number.

use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::{Readiness, Ready, data, received_since};
use crate::drivers::socket::{Interest, Socket};
use crate::drivers::{DriverContext, ListenerEntry, Part};
use crate::notification::notify;
use crate::share::Share;
use plimsoll_codec::http::{HttpError, Reader, Side, Start, reason};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::ListenerRole;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 64 * 1024;
/// Largest notification that is taken: a broker's own limit for one may be 8 MB.
const LARGEST_NOTIFICATION: usize = 16 * 1024 * 1024;
/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: i32 = 4096;
/// Answers that wait for a platform that does not read them, in bytes; beyond that its connection is closed.
const MOST_UNSENT: usize = 1024 * 1024;
/// What the readiness of the listening socket is known by.
const LISTENING: u32 = u32::MAX;

/// How subscribers listen over HTTP.
pub const ENTRY: ListenerEntry = ListenerEntry {
    scheme: "http",
    bind,
    serve: |context, role, socket| Ok(Box::new(HttpListenerDriver::new(context, role, socket.into())?)),
};

fn bind(here: SocketAddr) -> std::io::Result<(OwnedFd, SocketAddr)> {
    let socket = TcpListener::bind(here)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Socket::stamp_before_accepting(&socket);
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    Ok((socket.into(), address))
}

/// Subscribers of one shard that listen.
pub struct HttpListenerDriver {
    clock: Clock,
    readiness: Readiness,
    socket: TcpListener,
    contents: Contents,
    connections: Vec<Option<Connection>>,
    vacant: Vec<u32>,
    share: Share,
    subscribers: u32,
    /// What every answer ends with, from its header fields on.
    answer: Vec<u8>,
    scratch: Vec<u8>,
    traffic: Traffic,
    early: Vec<Event>,
    /// Whether no connection is accepted until one ends.
    full: bool,
    /// Since when connections have waited that could not be accepted.
    unaccepted_since: Option<Nanos>,
}

struct Connection {
    socket: Socket,
    reader: Reader,
    unsent: Vec<u8>,
    wants_to_write: bool,
}

impl HttpListenerDriver {
    /// A driver that serves what comes at that socket.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        context: &DriverContext,
        role: &ListenerRole,
        socket: TcpListener,
    ) -> std::io::Result<HttpListenerDriver> {
        let &DriverContext { ref plan, run, subscribers: (share, count), clock, .. } = context;
        let readiness = Readiness::new(clock, &plan.load)?;
        epoll::add(readiness.epoll(), &socket, EventData::new_u64(data(LISTENING, 0)), EventFlags::IN)?;
        let mut answer = format!("HTTP/1.1 {} {}\r\n", role.status, reason(role.status)).into_bytes();
        for (name, value) in &role.headers {
            // Writing to a Vec cannot fail.
            let _ = write!(answer, "{name}: {value}\r\n");
        }
        answer.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        Ok(HttpListenerDriver {
            clock,
            readiness,
            socket,
            contents: Contents::new(plan, run),
            connections: Vec::new(),
            vacant: Vec::new(),
            share,
            subscribers: share.first.saturating_add(count),
            answer,
            scratch: vec![0; READ_SIZE],
            traffic: Traffic::default(),
            early: Vec::new(),
            full: false,
            unaccepted_since: None,
        })
    }

    /// Accepts what has come, and reads at once what it brought: later nobody would know how long it may have lain there.
    fn accept(&mut self, events: &mut Vec<Event>) {
        let since = self.readiness.unread_since();
        let since = self.unaccepted_since.map_or(since, |waiting| since.min(waiting));
        loop {
            let stream = match self.socket.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.unaccepted_since = None;
                    return;
                }
                Err(_) => {
                    // At the limit of open files the platform's connections wait in the kernel until one of ours
                    // ends: asked about further, the kernel would tell of them without end.
                    let _ = epoll::delete(self.readiness.epoll(), &self.socket);
                    self.full = true;
                    self.unaccepted_since = Some(since);
                    return;
                }
            };
            let slot = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() as u32 - 1
            });
            let opened = Socket::accepted(stream.into()).and_then(|socket| {
                socket.register(
                    self.readiness.epoll(),
                    data(slot, 0),
                    Interest { read: true, write: false },
                )?;
                Ok(Connection {
                    socket,
                    reader: Reader::new(Side::Request, LARGEST_NOTIFICATION),
                    unsent: Vec::new(),
                    wants_to_write: false,
                })
            });
            match (opened, self.connections.get_mut(slot as usize)) {
                (Ok(connection), Some(place)) => {
                    *place = Some(connection);
                    self.serve(slot, since, EventFlags::IN, events);
                }
                _ => self.vacant.push(slot),
            }
        }
    }

    /// Serves a connection on which nothing had come at `since`.
    fn serve(&mut self, slot: u32, since: Nanos, flags: EventFlags, events: &mut Vec<Event>) {
        let Some(mut connection) = self.connections.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if self.exchange(&mut connection, (slot, since), flags, events) {
            if let Some(place) = self.connections.get_mut(slot as usize) {
                *place = Some(connection);
            }
        } else {
            self.vacant.push(slot);
            drop(connection);
            if std::mem::take(&mut self.full) {
                let listening = EventData::new_u64(data(LISTENING, 0));
                // It was there before, so that nothing is in the way.
                let _ = epoll::add(self.readiness.epoll(), &self.socket, listening, EventFlags::IN);
            }
        }
    }

    /// Reads notifications and answers them; whether the connection stays.
    fn exchange(
        &mut self,
        connection: &mut Connection,
        (slot, since): (u32, Nanos),
        flags: EventFlags,
        events: &mut Vec<Event>,
    ) -> bool {
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            let (at, lag, ended) = match connection.socket.read(&mut self.scratch) {
                Ok(None) => return true,
                Ok(Some(reading)) => {
                    let now = self.clock.now();
                    self.traffic.received += reading.length as u64;
                    connection.reader.push(self.scratch.get(..reading.length).unwrap_or_default());
                    let (at, lag) = received_since(since, now, reading.lag);
                    (at, lag, reading.length == 0)
                }
                Err(_) => return false,
            };
            loop {
                match connection.reader.take(ended, false) {
                    Ok(Some(message)) => {
                        let Start::Request { target, .. } = message.head.start else { return false };
                        let subscriber = subscriber(target)
                            .filter(|&number| number < self.subscribers && self.share.owns(number));
                        let stays = message.stays;
                        match subscriber {
                            Some(subscriber) => {
                                let (wire, body) = (message.wire_bytes as usize, message.body.len());
                                self.traffic.notifications.add(wire, body);
                                notify(&self.contents, subscriber, (at, lag), message.body, events);
                                connection.unsent.extend_from_slice(&self.answer);
                            }
                            None => {
                                let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                                connection.unsent.extend_from_slice(answer);
                            }
                        }
                        if !stays {
                            self.send(connection, slot);
                            return false;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let status = if matches!(error, HttpError::BodyTooLong(_)) { 413 } else { 400 };
                        // Writing to a Vec cannot fail.
                        let _ = write!(
                            connection.unsent,
                            "HTTP/1.1 {status} {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                            reason(status)
                        );
                        self.send(connection, slot);
                        return false;
                    }
                }
            }
            if ended {
                self.send(connection, slot);
                return false;
            }
        }
        self.send(connection, slot) && connection.unsent.len() <= MOST_UNSENT
    }

    /// Sends what waits; whether the connection still works.
    fn send(&mut self, connection: &mut Connection, slot: u32) -> bool {
        let mut written = 0;
        while let Some(rest) = connection.unsent.get(written..).filter(|rest| !rest.is_empty()) {
            match connection.socket.write(rest) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(_) => return false,
            }
        }
        self.traffic.sent += written as u64;
        connection.unsent.drain(..written);
        let write = !connection.unsent.is_empty();
        if write || connection.wants_to_write {
            connection.wants_to_write = write;
            // Fails only for a socket that is not registered, which ours is.
            let _ = connection.socket.modify(
                self.readiness.epoll(),
                data(slot, 0),
                Interest { read: true, write },
            );
        }
        true
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.readiness.wait(until);
        let found = self.readiness.found();
        for &Ready { slot, flags, .. } in &found {
            match slot {
                LISTENING => self.accept(events),
                slot => self.serve(slot, self.readiness.unread_since(), flags, events),
            }
        }
        self.readiness.served(found);
    }
}

/// The subscriber that the first part of a path names.
fn subscriber(target: &str) -> Option<u32> {
    let first = target.strip_prefix('/')?.split(['/', '?']).next()?;
    first.parse().ok()
}

impl Part for HttpListenerDriver {
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

impl Driver for HttpListenerDriver {
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
        self.wait(until, events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {
        self.connections.clear();
        self.vacant.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_path_is_the_subscriber() {
        assert_eq!(["/7", "/7/n?x", "/7?x", "/"].map(subscriber), [Some(7), Some(7), Some(7), None]);
        assert_eq!(["7", "/x", "/-1", "/99999999999"].map(subscriber), [None; 4]);
    }
}
