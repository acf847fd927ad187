//! The sockets of the devices of a shard. On the loopback network one of them serves all devices, each of which has an address of
//! its own there; elsewhere each has a socket. Behind a NAT that forgets, a device comes from another port after a while: from a
//! second socket of all devices, or a new one of its own.

use super::changing::PHASE;
use crate::clock::Clock;
use crate::driver::Traffic;
use crate::drivers::readiness;
use crate::drivers::socket::{Interest, Socket};
use crate::refusal;
use crate::share::Share;
use crate::sources::Sources;
use plimsoll_model::Nanos;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// The address of the first device of a run.
const FIRST: u32 = u32::from_be_bytes([127, 1, 0, 1]);
/// Devices that have room behind that.
const MOST: u32 = u32::from_be_bytes([127, 255, 255, 255]) - FIRST;
/// Bytes that may wait to be read at the socket of all devices.
const ROOM: usize = 64 << 20;

/// See the module.
pub struct Hub {
    share: Share,
    /// Devices of all shards.
    devices: u32,
    platform: SocketAddr,
    ways: Ways,
    sources: Sources,
    /// After how long a device has another port.
    rebinding: Option<Nanos>,
    /// The number of the port that each device has sent from last, where they share sockets and ports change: a NAT that has forgotten that
    /// one lets nothing in.
    turns: Vec<u64>,
    /// Datagrams that found no room at shared sockets, as they were taken.
    taken: u32,
}

enum Ways {
    /// Each device has an address at these sockets, which take turns.
    Shared(Vec<Shared>, SocketAddrV4),
    /// Each device has a socket, once it has sent something.
    OneEach(Vec<Option<Single>>),
}

/// A socket of all devices.
struct Shared {
    socket: Socket,
    /// Datagrams that found no room there, as the kernel counts them.
    dropped: u32,
}

/// The socket of one device.
struct Single {
    socket: Socket,
    /// The server's port that it speaks to.
    port: u16,
    /// The number of its port among those of the device.
    turn: u64,
}

/// What one reading gave.
pub enum Reading {
    /// There is nothing at present.
    Nothing,
    /// Something of no device of ours, or from somebody else than the platform.
    Foreign,
    /// Something for a port that the device does not have any more: a NAT would put it away.
    Late,
    /// A datagram of the platform.
    Datagram(Datagram),
}

/// A datagram that was read.
pub struct Datagram {
    /// The device that it is for, as a slot.
    pub slot: u32,
    /// The server's port that it is from.
    pub port: u16,
    /// Its bytes in the buffer.
    pub length: usize,
    /// How long it had lain in the kernel.
    pub lag: Option<Nanos>,
}

impl Hub {
    /// Sockets of the devices of a share; that of all devices is registered for reading.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn new(
        share: Share,
        devices: u32,
        (platform, sources, rebinding): (SocketAddr, Sources, Option<Nanos>),
        epoll: &OwnedFd,
    ) -> std::io::Result<Hub> {
        let ways = match platform {
            SocketAddr::V4(address)
                if address.ip().is_loopback()
                    && !sources.are_given()
                    && share.first.saturating_add(devices) < MOST =>
            {
                let count = if rebinding.is_some() { 2 } else { 1 };
                let shared = |place| {
                    let socket = Socket::of_loopback(ROOM)?;
                    let interest = Interest { read: true, write: false };
                    socket.register(epoll, readiness::data(place, 0), interest)?;
                    Ok(Shared { socket, dropped: 0 })
                };
                Ways::Shared((0..count).map(shared).collect::<std::io::Result<_>>()?, address)
            }
            _ => Ways::OneEach((0..share.count(devices)).map(|_| None).collect()),
        };
        let remembered = rebinding.filter(|_| matches!(ways, Ways::Shared(..)));
        let turns = vec![0; remembered.map_or(0, |_| share.count(devices) as usize)];
        Ok(Hub { share, devices, platform, ways, sources, rebinding, turns, taken: 0 })
    }

    /// Whether a device hears one port of the server at a time alone, that which it has sent to last.
    pub fn hears_one_port(&self) -> bool {
        matches!(self.ways, Ways::OneEach(_))
    }

    /// Sends a datagram of a device to a port of the server, and hears that one alone afterwards where each device has a socket;
    /// whether there was room.
    ///
    /// # Errors
    /// The platform cannot be reached: why, for people.
    pub fn send(
        &mut self,
        (slot, port): (u32, u16),
        datagram: &[u8],
        (epoll, now): (&OwnedFd, Nanos),
        traffic: &mut Traffic,
    ) -> Result<bool, String> {
        let number = self.share.number(slot);
        let turn = turn(self.rebinding, number, || now);
        if let Some(last) = self.turns.get_mut(slot as usize) {
            *last = turn;
        }
        let sent = match &mut self.ways {
            Ways::Shared(sockets, platform) => {
                let to = SocketAddrV4::new(*platform.ip(), port);
                let place = turn as usize % sockets.len().max(1);
                let Some(shared) = sockets.get(place) else { return Ok(false) };
                shared.socket.write_from(datagram, Ipv4Addr::from(FIRST + number), to)
            }
            Ways::OneEach(sockets) => {
                let Some(own) = sockets.get_mut(slot as usize) else { return Ok(false) };
                let to = SocketAddr::new(self.platform.ip(), port);
                // The one that it had before is closed.
                let single = match own.take_if(|single| single.turn == turn) {
                    Some(known) => own.insert(known),
                    None => {
                        let socket = Socket::datagrams(to, self.sources.of(number));
                        let socket = socket.map_err(refusal::told)?;
                        let data = readiness::data(slot, 0);
                        socket
                            .register(epoll, data, Interest { read: true, write: false })
                            .map_err(refusal::told)?;
                        own.insert(Single { socket, port, turn })
                    }
                };
                if single.port != port {
                    single.socket.turn_to(to).map_err(refusal::told)?;
                    single.port = port;
                }
                single.socket.write(datagram)
            }
        };
        let count = sent.map_err(refusal::told_of_datagram)?;
        traffic.sent_datagram(count);
        Ok(count > 0)
    }

    /// Reads a datagram at the socket that was told as ready.
    ///
    /// # Errors
    /// The platform cannot be reached over it: why, for people.
    pub fn read(
        &mut self,
        ready: u32,
        scratch: &mut [u8],
        clock: Clock,
        traffic: &mut Traffic,
    ) -> Result<Reading, String> {
        let (slot, port, reading) = match &mut self.ways {
            Ways::OneEach(sockets) => {
                let Some(Some(single)) = sockets.get(ready as usize) else {
                    return Ok(Reading::Nothing);
                };
                let reading = single.socket.read(scratch).map_err(refusal::told_of_datagram)?;
                let Some(reading) = reading else { return Ok(Reading::Nothing) };
                if single.turn != turn(self.rebinding, self.share.number(ready), || clock.now()) {
                    return Ok(Reading::Late);
                }
                (ready, single.port, reading)
            }
            Ways::Shared(sockets, platform) => {
                let count = sockets.len().max(1) as u64;
                let Some(shared) = sockets.get_mut(ready as usize) else { return Ok(Reading::Nothing) };
                // An error is that of no device: what was lost is asked for again.
                let Ok(Some(read)) = shared.socket.read_addressed(scratch) else {
                    return Ok(Reading::Nothing);
                };
                shared.dropped = read.dropped.unwrap_or(shared.dropped);
                let port = read.from.filter(|from| from.ip() == *platform.ip()).map(|from| from.port());
                let number = u32::from(read.to).checked_sub(FIRST);
                let is_ours = |number: &u32| {
                    let own = number.checked_sub(self.share.first);
                    own.is_some_and(|own| own < self.devices) && self.share.owns(*number)
                };
                let (Some(number), Some(port)) = (number.filter(is_ours), port) else {
                    return Ok(Reading::Foreign);
                };
                let slot = self.share.slot(number);
                let turn = turn(self.rebinding, number, || clock.now());
                let is_known = self.turns.get(slot as usize).is_none_or(|last| *last == turn);
                if !is_known || turn % count != u64::from(ready) {
                    return Ok(Reading::Late);
                }
                (slot, port, read.reading)
            }
        };
        traffic.received_datagram(reading.length);
        Ok(Reading::Datagram(Datagram { slot, port, length: reading.length, lag: reading.lag }))
    }

    /// Datagrams that found no room at the socket of all devices since this was asked last.
    pub fn take_dropped(&mut self) -> u32 {
        let Ways::Shared(sockets, _) = &self.ways else { return 0 };
        let dropped = sockets.iter().fold(0, |all: u32, shared| all.wrapping_add(shared.dropped));
        dropped.wrapping_sub(std::mem::replace(&mut self.taken, dropped))
    }

    /// Closes the sockets of single devices.
    pub fn close(&mut self) {
        if let Ways::OneEach(sockets) = &mut self.ways {
            sockets.iter_mut().for_each(|socket| *socket = None);
        }
    }
}

/// The number of the port that a device has at a time: devices change theirs at different times.
fn turn(rebinding: Option<Nanos>, device: u32, now: impl FnOnce() -> Nanos) -> u64 {
    let Some(every) = rebinding else { return 0 };
    let ahead = (f64::from(device) * PHASE).fract();
    ((now().as_secs_f64() / every.as_secs_f64()) + ahead).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_keeps_its_port_until_its_nat_forgets() {
        let every = Some(Nanos::from_secs(10));
        let at = |device, seconds| turn(every, device, || Nanos::from_secs(seconds));
        assert_eq!((turn(None, 3, || Nanos::from_secs(100)), at(0, 9), at(0, 10), at(0, 25)), (0, 0, 1, 2));
        let changed = (0..100).filter(|device| at(*device, 3) != at(*device, 5)).count();
        assert!((15..=25).contains(&changed), "{changed} of 100 in a fifth of the time");
    }
}
