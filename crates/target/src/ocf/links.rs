//! Connections: what comes over them, and what waits to go.

use super::Csm;
use crate::tcp::{Outgoing, Peer, Slots};
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Message, OptionList};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The listening socket, and what other threads wake the loop by, as epoll names them.
pub const DOOR: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
/// Longest wait, so that a wish to stop is seen in time.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Bytes read at once.
const SCRATCH: usize = 256 * 1024;
/// The longest message that is taken, in bytes.
const LONGEST: usize = 2 << 20;
/// Most bytes that wait for a client that does not read.
const MOST_UNREAD: usize = 16 << 20;

/// All connections of a server.
pub struct Links {
    epoll: OwnedFd,
    csm: Csm,
    links: Slots<Link>,
    /// Those with something to send, and those that have ended.
    dirty: Vec<u64>,
    ended: Vec<u64>,
    scratch: Vec<u8>,
    alarm: Option<Arc<OwnedFd>>,
    unread: u64,
}

struct Link {
    peer: Peer,
    out: Outgoing,
    /// What came of a message that is not whole.
    partial: Vec<u8>,
    has_said_csm: bool,
    is_dirty: bool,
    is_ended: bool,
}

/// Bytes that came over a connection, with what was kept of it before.
pub struct Came {
    pub link: u64,
    pub bytes: Vec<u8>,
}

impl Links {
    pub fn new(csm: Csm) -> std::io::Result<Links> {
        Ok(Links {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            csm,
            links: Slots::default(),
            dirty: Vec::new(),
            ended: Vec::new(),
            scratch: vec![0; SCRATCH],
            alarm: None,
            unread: 0,
        })
    }

    pub fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// What other threads wake the loop by.
    pub fn alarm(&mut self) -> std::io::Result<Arc<OwnedFd>> {
        let alarm = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&self.epoll, &alarm, EventData::new_u64(ALARM), EventFlags::IN)?;
        self.alarm = Some(Arc::clone(&alarm));
        Ok(alarm)
    }

    /// Connections that were closed because they did not read.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// Waits for the network: whether somebody connects, and what came.
    pub fn wait(&mut self) -> (bool, Vec<Came>) {
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut ready = [none; 256];
        let timeout = if self.dirty.is_empty() { PATIENCE } else { Timespec { tv_sec: 0, tv_nsec: 0 } };
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let count = epoll::wait(&self.epoll, &mut ready[..], Some(&timeout)).unwrap_or(0);
        let (mut accepts, mut came) = (false, Vec::new());
        for event in &ready[..count] {
            match event.data.u64() {
                DOOR => accepts = true,
                ALARM => {
                    if let Some(alarm) = &self.alarm {
                        let _ = rustix::io::read(alarm, &mut [0; 8]);
                    }
                }
                link => came.extend(self.read(link, event.flags)),
            }
        }
        (accepts, came)
    }

    fn read(&mut self, id: u64, flags: EventFlags) -> Option<Came> {
        let link = self.links.get_mut(id)?;
        if flags.contains(EventFlags::OUT) && !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(id);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return None;
        }
        match link.peer.read(&mut self.scratch) {
            Ok(Some(count)) => {
                let mut bytes = std::mem::take(&mut link.partial);
                bytes.extend_from_slice(self.scratch.get(..count).unwrap_or_default());
                Some(Came { link: id, bytes })
            }
            Ok(None) => None,
            Err(_) => {
                self.close(id);
                None
            }
        }
    }

    /// Takes in a connection, made or accepted.
    pub fn welcome(&mut self, stream: TcpStream) -> std::io::Result<u64> {
        let id = self.links.insert_with(|id| {
            let peer = Peer::new(stream, id, &self.epoll)?;
            Ok::<Link, std::io::Error>(Link {
                peer,
                out: Outgoing::default(),
                partial: Vec::new(),
                has_said_csm: false,
                is_dirty: false,
                is_ended: false,
            })
        })?;
        if self.csm == Csm::First {
            self.say_csm(id);
        }
        Ok(id)
    }

    /// The other side has said what it takes.
    pub fn heard_csm(&mut self, id: u64) {
        if self.csm == Csm::Answer {
            self.say_csm(id);
        }
    }

    fn say_csm(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(id) else { return };
        if std::mem::replace(&mut link.has_said_csm, true) {
            return;
        }
        let mut list = OptionList::new();
        list.add_number(signal::MAX_MESSAGE_SIZE, LONGEST as u32);
        self.say(id, signal::CSM, &[], &list, &[]);
    }

    /// The first message of what came; `None` where it is not whole, or the connection has ended by it.
    pub fn cut<'a>(&mut self, id: u64, bytes: &'a [u8]) -> Option<(Message<'a>, usize)> {
        if self.links.get(id).is_none_or(|link| link.is_ended) {
            return None;
        }
        match stream::decode(bytes, LONGEST) {
            Ok(Frame::Message(message, length)) => Some((message, length)),
            Ok(Frame::Part(_)) => None,
            Err(_) => {
                self.say(id, signal::ABORT, &[], &OptionList::new(), b"no message of CoAP over TCP");
                self.close(id);
                None
            }
        }
    }

    /// Keeps what came of a message that is not whole.
    pub fn keep(&mut self, id: u64, rest: &[u8]) {
        if let Some(link) = self.links.get_mut(id) {
            link.partial = rest.to_vec();
        }
    }

    /// Sends a message.
    pub fn say(&mut self, id: u64, code: u8, token: &[u8], list: &OptionList, payload: &[u8]) {
        self.write(id, |out| stream::append(code, token, list, payload, out));
    }

    /// Sends a message as it is.
    pub fn pass(&mut self, id: u64, message: &Message<'_>) {
        self.write(id, |out| stream::encode(message, out));
    }

    fn write(&mut self, id: u64, append: impl FnOnce(&mut Vec<u8>)) {
        let Some(link) = self.links.get_mut(id).filter(|link| !link.is_ended) else { return };
        append(link.out.bytes());
        if !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(id);
        }
    }

    /// Closes a connection when what waits for it was handed to the kernel, as far as that takes it.
    pub fn close(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(id)
            && !std::mem::replace(&mut link.is_ended, true)
        {
            self.ended.push(id);
        }
    }

    /// Sends what waits; the connections that have ended.
    pub fn send(&mut self) -> Vec<u64> {
        for id in std::mem::take(&mut self.dirty) {
            let Some(link) = self.links.get_mut(id) else { continue };
            link.is_dirty = false;
            let sent = link.peer.send(&mut link.out);
            let waits = link.out.waiting();
            let is_stuck = waits > MOST_UNREAD;
            self.unread += u64::from(is_stuck && !link.is_ended);
            if sent.is_err() || is_stuck || link.peer.watch(&self.epoll, true, waits > 0).is_err() {
                self.close(id);
            }
        }
        let ended = std::mem::take(&mut self.ended);
        for id in &ended {
            if let Some(link) = self.links.remove(*id) {
                link.peer.finish(&mut self.scratch);
            }
        }
        ended
    }
}
