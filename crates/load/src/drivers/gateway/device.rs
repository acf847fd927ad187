//! One passive device: a server that a gateway asks for events.

use super::calls::{self, DeviceCall, Input};
use super::{Io, Timer};
use crate::driver::Event;
use crate::drivers::readiness::data;
use plimsoll_model::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// What the listening socket is known by, among the connections of a device.
const LISTENING: u32 = 0;
/// Connections of one device at once: a gateway has one, and a new one before it has noticed that the old one broke.
const CONNECTIONS: usize = 8;
/// Calls of a connection that wait for the delay of the network; a gateway awaits the answer to each.
const MOST_DELAYED: usize = 1 << 12;
/// How long a device that cannot take a connection, for want of open files, leaves it.
const PAUSE: Nanos = Nanos::from_millis(100);
/// Bytes that wait for a gateway that does not read.
const MOST_UNSENT: usize = 1 << 16;

/// See the module.
pub(super) struct Device {
    number: u32,
    listener: TcpListener,
    /// Created and not fetched yet: numbers of messages.
    queue: VecDeque<u32>,
    connections: Vec<Connection>,
    opened: u32,
    /// Whether it does not listen for a while.
    pauses: bool,
}

struct Connection {
    generation: u32,
    stream: TcpStream,
    input: Input,
    unsent: Vec<u8>,
    /// Calls that wait for the delay of the network to pass, and until when.
    delayed: VecDeque<(Nanos, DeviceCall)>,
}

impl Device {
    /// Listens on a free port of that address; `last` is the port of the device before it.
    pub fn listen(
        number: u32,
        slot: u32,
        (address, last): (IpAddr, Option<u16>),
        io: &Io,
    ) -> std::io::Result<Device> {
        // With thousands of ports taken the kernel looks for milliseconds for a free one. It gives even ones to those who listen
        // and odd ones to those who connect, so that every other one is tried.
        let next = last.and_then(|last| last.checked_add(2)).unwrap_or(0);
        let listener = TcpListener::bind(SocketAddr::new(address, next))
            .or_else(|_| TcpListener::bind(SocketAddr::new(address, 0)))?;
        listener.set_nonblocking(true)?;
        let data = EventData::new_u64(data(slot, LISTENING));
        epoll::add(io.readiness.epoll(), &listener, data, EventFlags::IN)?;
        let (queue, connections) = (VecDeque::new(), Vec::new());
        Ok(Device { number, listener, queue, connections, opened: LISTENING, pauses: false })
    }

    /// Where it listens.
    pub fn port(&self) -> std::io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// An event is created.
    pub fn create(&mut self, sequence: u32) {
        self.queue.push_back(sequence);
    }

    /// Forgets the events that were not fetched.
    pub fn withdraw(&mut self) {
        self.queue.clear();
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        self.connections.clear();
    }

    /// A socket of it is ready.
    pub fn ready(&mut self, slot: u32, generation: u32, io: &mut Io, events: &mut Vec<Event>) {
        if generation == LISTENING {
            return self.accept(slot, io);
        }
        let Some(at) = self.connections.iter().position(|one| one.generation == generation) else { return };
        if self.serve(slot, at, io, events).is_err() {
            self.connections.swap_remove(at);
        }
    }

    /// The delay of some calls has passed.
    pub fn elapsed(&mut self, now: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        for at in (0..self.connections.len()).rev() {
            let mut result = Ok(());
            while let Some(&(due, call)) = self.connections[at].delayed.front()
                && due <= now
            {
                self.connections[at].delayed.pop_front();
                result = result.and(self.answer(at, call, io, events));
            }
            if result.is_err() {
                self.connections.swap_remove(at);
            }
        }
    }

    /// Takes the connections that have come.
    pub fn accept(&mut self, slot: u32, io: &mut Io) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    let is_out = error.kind() != ErrorKind::WouldBlock;
                    return self.listen_again(slot, is_out, io);
                }
            };
            self.opened += 1;
            let data = EventData::new_u64(data(slot, self.opened));
            let registered = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true))
                .and_then(|()| Ok(epoll::add(io.readiness.epoll(), &stream, data, EventFlags::IN)?));
            if registered.is_err() {
                continue;
            }
            if self.connections.len() == CONNECTIONS {
                self.connections.remove(0);
            }
            self.connections.push(Connection {
                generation: self.opened,
                stream,
                input: Input::default(),
                unsent: Vec::new(),
                delayed: VecDeque::new(),
            });
        }
    }

    /// Listens on, or leaves for a while what it cannot take: its socket would be ready without end.
    fn listen_again(&mut self, slot: u32, is_out: bool, io: &mut Io) {
        if is_out == self.pauses {
            return;
        }
        self.pauses = is_out;
        let wanted = if is_out { EventFlags::empty() } else { EventFlags::IN };
        let data = EventData::new_u64(data(slot, LISTENING));
        // Where the kernel refuses, the device goes on as before.
        let _ = epoll::modify(io.readiness.epoll(), &self.listener, data, wanted);
        if is_out {
            io.timers.set(io.clock.now() + PAUSE, slot, Timer::Accept);
        }
    }

    /// Reads calls and answers them, at once or after the delay. An error ends the connection.
    fn serve(&mut self, slot: u32, at: usize, io: &mut Io, events: &mut Vec<Event>) -> std::io::Result<()> {
        let connection = &mut self.connections[at];
        // Once: whoever sends more than fits is read on in the next turn, after the others.
        match connection.stream.read(&mut io.scratch) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                io.traffic.received += read as u64;
                connection.input.add(&io.scratch[..read]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        connection.send(&[], io)?;
        loop {
            let connection = &mut self.connections[at];
            let call = match connection.input.device_call() {
                Ok(Some(call)) => call,
                Ok(None) => return Ok(()),
                Err(reason) => {
                    connection.send(&calls::error("ValueError", &[reason]), io)?;
                    return Err(ErrorKind::InvalidData.into());
                }
            };
            if io.delay == Nanos::ZERO {
                self.answer(at, call, io, events)?;
            } else {
                if connection.delayed.len() == MOST_DELAYED {
                    return Err(ErrorKind::InvalidData.into());
                }
                let due = io.clock.now() + io.delay;
                connection.delayed.push_back((due, call));
                io.timers.set(due, slot, Timer::Answer);
            }
        }
    }

    fn answer(
        &mut self,
        at: usize,
        call: DeviceCall,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> std::io::Result<()> {
        let connection = &mut self.connections[at];
        let answer = match (call, self.queue.front()) {
            (DeviceCall::Status, Some(_)) => calls::SOMETHING,
            (DeviceCall::Status, None) => calls::NOTHING,
            (DeviceCall::NextEvent, None) => calls::EMPTY,
            (DeviceCall::Unknown, _) => calls::UNKNOWN,
            (DeviceCall::NextEvent, Some(&sequence)) => {
                let name = super::log::name(io.tag, self.number, sequence);
                let answer = calls::event(&name);
                let fetched = io.clock.now();
                connection.send(&answer, io)?;
                self.queue.pop_front();
                io.fetched.insert((self.number, sequence));
                let (content, packet) = (name.len() as u32, answer.len() as u32);
                events.push(Event::Sent { device: self.number, sequence, at: fetched, content, packet });
                return Ok(());
            }
        };
        connection.send(answer, io)
    }
}

impl Connection {
    /// Sends what waits, and this. What the socket does not take waits for the next call, since a gateway reads an answer before
    /// it calls again.
    fn send(&mut self, bytes: &[u8], io: &mut Io) -> std::io::Result<()> {
        let waiting = !self.unsent.is_empty();
        if waiting {
            self.unsent.extend_from_slice(bytes);
        }
        let mut rest = if waiting { std::mem::take(&mut self.unsent) } else { bytes.to_vec() };
        while !rest.is_empty() {
            match self.stream.write(&rest) {
                Ok(sent) => {
                    io.traffic.sent += sent as u64;
                    rest.drain(..sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && rest.len() <= MOST_UNSENT => {
                    self.unsent = rest;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
