//! The loop of the broker: sockets on one side, the hub on the other.

use super::hub::Hub;
use super::record::Record;
use super::{BrokerError, Limits};
use crate::clock::monotonic;
use crate::tcp::{Door, Peer};
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait, so that a wish to stop is seen in time.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Bytes read at once.
const SCRATCH: usize = 256 * 1024;
/// Clients accepted before others have their turn.
const ACCEPTED: usize = 256;

/// The broker with its sockets.
pub struct Server {
    epoll: OwnedFd,
    doors: Vec<Door>,
    hub: Hub,
    peers: FxHashMap<u64, Peer>,
    record: Option<Record>,
    scratch: Vec<u8>,
    /// Connections that are being written to; empty between turns.
    dirty: Vec<u64>,
    /// Whether the memory bound was reported.
    reported: bool,
}

/// The id of a listening socket in epoll.
pub fn door_id(number: usize) -> u64 {
    u64::MAX - number as u64
}

impl Server {
    /// A broker that accepts clients at these doors.
    pub fn new(doors: Vec<Door>, limits: Limits, record: Option<Record>) -> Result<Server, BrokerError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for door in &doors {
            door.register(&epoll)?;
        }
        let hub = Hub::new(limits, record.as_ref().map(Record::lines), monotonic());
        Ok(Server {
            epoll,
            doors,
            hub,
            peers: FxHashMap::default(),
            record,
            scratch: vec![0; SCRATCH],
            dirty: Vec::new(),
            reported: false,
        })
    }

    /// Serves until `stop` is set, then tells clients and completes the record.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), BrokerError> {
        while !stop.load(Ordering::Relaxed) {
            self.turn()?;
        }
        self.hub.shut_down();
        self.close_ended();
        if self.reported {
            eprintln!("plimsoll broker: dropped {} messages in all", self.hub.dropped_for_memory());
        }
        let Server { hub, record, .. } = self;
        // Messages that are kept write their lines now.
        drop(hub);
        Ok(record.map_or(Ok(()), Record::finish)?)
    }

    /// Waits for the network or a timer and does what there is to do.
    fn turn(&mut self) -> Result<(), BrokerError> {
        let next = self.hub.next_timer().unwrap_or(Nanos::MAX);
        let wait = if self.hub.is_dirty() { 0 } else { (next - monotonic()).0.clamp(0, PATIENCE.0) };
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait };
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut ready = [none; 256];
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let count = epoll::wait(&self.epoll, &mut ready[..], Some(&timeout)).unwrap_or(0);
        self.hub.set_time(monotonic());
        for event in &ready[..count] {
            let id = event.data.u64();
            match self.doors.len().checked_sub(1) {
                Some(last) if id >= door_id(last) => self.accept((u64::MAX - id) as usize),
                _ => self.ready(id, event.flags),
            }
        }
        let now = monotonic();
        self.hub.set_time(now);
        self.hub.fire();
        self.send();
        self.close_ended();
        for door in &mut self.doors {
            door.resume(&self.epoll, now)?;
        }
        self.report();
        self.record.as_mut().map_or(Ok(()), Record::flush)?;
        Ok(())
    }

    fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTED {
            let Some(door) = self.doors.get_mut(number) else { return };
            let Some(stream) = door.accept(&self.epoll, monotonic()) else { return };
            self.welcome(stream);
        }
    }

    fn welcome(&mut self, stream: TcpStream) {
        let id = self.hub.open();
        match Peer::new(stream, id, &self.epoll) {
            Ok(peer) => drop(self.peers.insert(id, peer)),
            Err(_) => self.hub.end(id, None),
        }
    }

    fn ready(&mut self, id: u64, flags: EventFlags) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if flags.contains(EventFlags::OUT) {
            self.hub.wake(id);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        match peer.read(&mut self.scratch) {
            Ok(Some(count)) => {
                self.hub.set_time(monotonic());
                self.hub.input(id, self.scratch.get(..count).unwrap_or_default());
            }
            Ok(None) => {}
            Err(_) => self.hub.end(id, None),
        }
    }

    /// Sends what there is to send, each connection once.
    fn send(&mut self) {
        self.hub.take_dirty(&mut self.dirty);
        for id in self.dirty.drain(..) {
            let (Some(peer), Some(link)) = (self.peers.get_mut(&id), self.hub.link(id)) else { continue };
            link.dirty = false;
            if link.ended {
                continue;
            }
            if peer.send(&mut link.out).is_err() {
                self.hub.end(id, None);
                continue;
            }
            let full = link.out.waiting() > 0;
            self.hub.sent(id);
            let choked = self.hub.is_choked(id);
            if peer.watch(&self.epoll, !choked, full).is_err() {
                self.hub.end(id, None);
            }
        }
    }

    /// Closes what the hub has ended. A last packet is sent as far as the socket takes it.
    fn close_ended(&mut self) {
        for id in self.hub.take_ended() {
            let Some(mut link) = self.hub.remove(id) else { continue };
            if let Some(mut peer) = self.peers.remove(&id) {
                if peer.send(&mut link.out).is_ok() {
                    peer.finish(&mut self.scratch);
                }
                link.sent();
            }
            link.close();
        }
    }

    fn report(&mut self) {
        if !self.reported && self.hub.dropped_for_memory() > 0 {
            self.reported = true;
            eprintln!(
                "plimsoll broker: the memory bound is reached, and messages that would have to wait are dropped; \
                 raise --memory, or let subscribers read faster"
            );
        }
    }
}
