//! The sockets of the devices of a shard. On the loopback network one of them serves all devices, each of which has an address of
//! its own there; elsewhere each has a socket.

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
    /// Datagrams that found no room at the shared socket: as the kernel counts them, and as they were taken.
    dropped: u32,
    taken: u32,
}

enum Ways {
    /// Each device has an address at this socket.
    Shared(Socket, SocketAddrV4),
    /// Each device has a socket, once it has sent something, and the server's port that it speaks to.
    Own(Vec<Option<(Socket, u16)>>),
}

/// What one reading gave.
pub enum Reading {
    /// There is nothing at present.
    Nothing,
    /// Something of no device of ours, or from somebody else than the platform.
    Foreign,
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
        (platform, sources): (SocketAddr, Sources),
        epoll: &OwnedFd,
    ) -> std::io::Result<Hub> {
        let ways = match platform {
            SocketAddr::V4(address)
                if address.ip().is_loopback() && !sources.are_given() && devices < MOST =>
            {
                let socket = Socket::of_loopback(ROOM)?;
                socket.register(epoll, readiness::data(0, 0), Interest { read: true, write: false })?;
                Ways::Shared(socket, address)
            }
            _ => Ways::Own((0..share.count(devices)).map(|_| None).collect()),
        };
        Ok(Hub { share, devices, platform, ways, sources, dropped: 0, taken: 0 })
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
        epoll: &OwnedFd,
        traffic: &mut Traffic,
    ) -> Result<bool, String> {
        let number = self.share.number(slot);
        let sent = match &mut self.ways {
            Ways::Shared(socket, platform) => {
                let to = SocketAddrV4::new(*platform.ip(), port);
                socket.write_from(datagram, Ipv4Addr::from(FIRST + number), to)
            }
            Ways::Own(sockets) => {
                let Some(own) = sockets.get_mut(slot as usize) else { return Ok(false) };
                let to = SocketAddr::new(self.platform.ip(), port);
                let (socket, heard) = match own {
                    Some(known) => known,
                    None => {
                        let socket = Socket::datagrams(to, self.sources.of(number));
                        let socket = socket.map_err(refusal::told)?;
                        let data = readiness::data(slot, 0);
                        socket
                            .register(epoll, data, Interest { read: true, write: false })
                            .map_err(refusal::told)?;
                        own.insert((socket, port))
                    }
                };
                if *heard != port {
                    socket.turn_to(to).map_err(refusal::told)?;
                    *heard = port;
                }
                socket.write(datagram)
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
    pub fn read(&mut self, ready: u32, scratch: &mut [u8], traffic: &mut Traffic) -> Result<Reading, String> {
        let (slot, port, reading) = match &self.ways {
            Ways::Own(sockets) => {
                let Some(Some((socket, port))) = sockets.get(ready as usize) else {
                    return Ok(Reading::Nothing);
                };
                let reading = socket.read(scratch).map_err(refusal::told_of_datagram)?;
                let Some(reading) = reading else { return Ok(Reading::Nothing) };
                (ready, *port, reading)
            }
            Ways::Shared(socket, platform) => {
                // An error is that of no device: what was lost is asked for again.
                let Ok(Some(read)) = socket.read_addressed(scratch) else { return Ok(Reading::Nothing) };
                self.dropped = read.dropped.unwrap_or(self.dropped);
                let port = read.from.filter(|from| from.ip() == *platform.ip()).map(|from| from.port());
                let number = u32::from(read.to).checked_sub(FIRST);
                let own = number.filter(|number| *number < self.devices && self.share.owns(*number));
                let (Some(number), Some(port)) = (own, port) else { return Ok(Reading::Foreign) };
                (self.share.slot(number), port, read.reading)
            }
        };
        traffic.received_datagram(reading.length);
        Ok(Reading::Datagram(Datagram { slot, port, length: reading.length, lag: reading.lag }))
    }

    /// Datagrams that found no room at the socket of all devices since this was asked last.
    pub fn take_dropped(&mut self) -> u32 {
        self.dropped.wrapping_sub(std::mem::replace(&mut self.taken, self.dropped))
    }

    /// Closes the sockets of single devices.
    pub fn close(&mut self) {
        if let Ways::Own(sockets) = &mut self.ways {
            sockets.iter_mut().for_each(|socket| *socket = None);
        }
    }
}
