//! The next station of a chain: what was served here is passed on there, and answered here when it was answered there.
//! A pool of N connections is one connection with N messages in flight: the next station cannot tell them apart.

use super::session::Message;
use super::{NextStation, StationError};
use plimsoll_codec::mqtt::{
    AckKind, Connect, Packet, PublishHeader, QoS, Version, encode_connect, encode_publish, packet_length,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the next station to accept us.
const PATIENCE: Duration = Duration::from_secs(10);
const VERSION: Version = Version::V5;
/// Bytes read at once.
const READ_SIZE: usize = 64 * 1024;

/// The connection to the next station, as a client of MQTT at QoS 1.
pub struct Next {
    address: SocketAddr,
    stream: TcpStream,
    input: Vec<u8>,
    out: Vec<u8>,
    /// The job of each packet id in flight.
    jobs: HashMap<u16, usize>,
    /// Jobs that wait for a free packet id, the window or the pool.
    waiting: VecDeque<(usize, Arc<Message>)>,
    next_id: u16,
    /// Most messages in flight.
    window: usize,
    wants_write: bool,
}

/// A job that the next station has answered.
pub struct Answered {
    /// Which.
    pub job: usize,
    /// Whether it was taken there.
    pub accepted: bool,
}

impl Next {
    /// Connects, and waits for the answer.
    pub fn connect(NextStation { address, pool }: NextStation) -> Result<Next, StationError> {
        let failed = |cause: std::io::Error| StationError::Next { address, cause };
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let name = format!("station-{}", std::process::id());
        let connect = Connect::clean(VERSION, &name);
        let mut out = Vec::new();
        let no_mqtt = || failed(ErrorKind::InvalidData.into());
        encode_connect(&connect, &mut out).map_err(|_| no_mqtt())?;
        stream.write_all(&out).map_err(failed)?;
        let mut input = Vec::new();
        let mut byte = [0];
        while !matches!(packet_length(&input), Ok(Some(length)) if length <= input.len()) {
            stream.read_exact(&mut byte).map_err(failed)?;
            input.extend_from_slice(&byte);
        }
        let window = match Packet::decode(VERSION, &input) {
            Ok(Packet::Connack(connack)) if connack.accepted() => {
                usize::from(connack.properties.receive_maximum().unwrap_or(u16::MAX - 1))
            }
            _ => return Err(no_mqtt()),
        };
        let window = pool.map_or(window, |pool| window.min(pool.get()));
        stream.set_nonblocking(true).map_err(failed)?;
        Ok(Next {
            address,
            stream,
            input: Vec::new(),
            out: Vec::new(),
            jobs: HashMap::new(),
            waiting: VecDeque::new(),
            next_id: 0,
            window,
            wants_write: false,
        })
    }

    /// Asks to be woken for it.
    pub fn register(&self, epoll: &OwnedFd, data: u64) -> Result<(), StationError> {
        Ok(epoll::add(epoll, &self.stream, EventData::new_u64(data), EventFlags::IN)?)
    }

    /// Passes a message on; its answer comes by [`Next::read`].
    pub fn forward(&mut self, job: usize, message: Arc<Message>) {
        self.waiting.push_back((job, message));
        self.encode_waiting();
    }

    fn encode_waiting(&mut self) {
        while self.jobs.len() < self.window.min(usize::from(u16::MAX) - 1) {
            let Some((job, message)) = self.waiting.pop_front() else { return };
            loop {
                self.next_id = self.next_id.checked_add(1).unwrap_or(1);
                if !self.jobs.contains_key(&self.next_id) {
                    break;
                }
            }
            self.jobs.insert(self.next_id, job);
            let (topic, packet_id) = (message.topic.as_bytes(), self.next_id);
            let header = PublishHeader { dup: false, qos: QoS::AtLeastOnce, retain: false, topic, packet_id };
            // Topic and size are those of a packet that came in.
            let _ = encode_publish(VERSION, &header, &message.payload, &mut self.out);
        }
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, epoll: &OwnedFd, data: u64) -> Result<(), StationError> {
        let mut written = 0;
        while let Some(rest) = self.out.get(written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.lost(cause)),
            }
        }
        self.out.drain(..written);
        if self.out.is_empty() == self.wants_write {
            self.wants_write = !self.out.is_empty();
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, self.wants_write);
            epoll::modify(epoll, &self.stream, EventData::new_u64(data), flags)?;
        }
        Ok(())
    }

    /// Reads what has been answered.
    pub fn read(&mut self, answered: &mut Vec<Answered>) -> Result<(), StationError> {
        let mut bytes = [0; READ_SIZE];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(self.lost(ErrorKind::UnexpectedEof.into())),
            Ok(count) => self.input.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(cause) => return Err(self.lost(cause)),
        }
        let mut taken = 0;
        while let Some(rest) = self.input.get(taken..) {
            let length = match packet_length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break,
                Err(_) => return Err(self.lost(ErrorKind::InvalidData.into())),
            };
            match Packet::decode(VERSION, rest.get(..length).unwrap_or_default()) {
                Ok(Packet::Ack(ack)) if ack.kind == AckKind::Puback => {
                    if let Some(job) = self.jobs.remove(&ack.packet_id) {
                        answered.push(Answered { job, accepted: ack.reason < 0x80 });
                    }
                }
                Ok(_) => {}
                Err(_) => return Err(self.lost(ErrorKind::InvalidData.into())),
            }
            taken += length;
        }
        self.input.drain(..taken);
        self.encode_waiting();
        Ok(())
    }

    fn lost(&self, cause: std::io::Error) -> StationError {
        StationError::Next { address: self.address, cause }
    }
}
