//! A non-blocking socket of TCP or UDP that tells when the kernel received what it gives.

use crate::clock::wall_nanos;
use nix::libc::{in_addr, in_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrLike, SockaddrStorage, recvmsg,
    sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use plimsoll_model::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto,
    sockopt as rustix_sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

/// Room for one time stamp and its header.
const CONTROL_SIZE: usize = 128;

/// Most datagrams that kernels cut one handing-over into (UDP_MAX_SEGMENTS; newer ones allow twice as many).
pub const SEGMENTS: usize = 64;
/// Most bytes of all of them: what fits in one datagram over IPv4.
pub const SEGMENT_BYTES: usize = 65_507;

/// A socket registered with an epoll instance.
pub struct Socket {
    descriptor: OwnedFd,
}

/// What one reading gave.
pub struct Reading {
    /// Bytes; zero means that the peer closed its side, over UDP an empty datagram.
    pub length: usize,
    /// How long the newest of them had been in the kernel.
    pub lag: Option<Nanos>,
}

/// A datagram at a socket of several addresses.
pub struct Addressed {
    /// What was read.
    pub reading: Reading,
    /// To which of our addresses it was sent.
    pub to: Ipv4Addr,
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// How many datagrams have found no room at the socket so far, where the kernel tells.
    pub dropped: Option<u32>,
}

impl Socket {
    /// Begins to connect, from that source address where one is given; readiness to write tells the end.
    pub fn connect(address: SocketAddr, source: Option<IpAddr>) -> Result<Socket, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let descriptor = net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        rustix_sockopt::set_tcp_nodelay(&descriptor, true)?;
        // Without time stamps the receiver lag is unknown, which the report says; it is no reason to fail.
        let _ = setsockopt(&descriptor, sockopt::ReceiveTimestampns, &true);
        if let Some(source) = source {
            // The port is chosen at connecting, when the kernel knows which ones are free towards this platform.
            let _ = setsockopt(&descriptor, sockopt::IpBindAddressNoPort, &true);
            net::bind(&descriptor, &SocketAddr::new(source, 0))?;
        }
        match net::connect(&descriptor, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Socket { descriptor }),
            Err(error) => Err(error),
        }
    }

    /// A socket for datagrams to and from that address alone, from that source address where one is given.
    pub fn datagrams(address: SocketAddr, source: Option<IpAddr>) -> Result<Socket, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let descriptor = net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
        let _ = setsockopt(&descriptor, sockopt::ReceiveTimestampns, &true);
        if let Some(source) = source {
            net::bind(&descriptor, &SocketAddr::new(source, 0))?;
        }
        net::connect(&descriptor, &address)?;
        Ok(Socket { descriptor })
    }

    /// Has a socket for datagrams speak to another address from now on.
    ///
    /// # Errors
    /// The kernel knows no way there.
    pub fn turn_to(&self, address: SocketAddr) -> Result<(), Errno> {
        net::connect(&self.descriptor, &address)
    }

    /// Takes over a socket for datagrams from anybody.
    pub fn bound(socket: UdpSocket) -> std::io::Result<Socket> {
        socket.set_nonblocking(true)?;
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
        Ok(Socket { descriptor: socket.into() })
    }

    /// A socket for datagrams to and from all addresses of the loopback network of this host, with room for so many bytes that
    /// wait to be read, where the kernel allows that. Nobody reaches it from elsewhere.
    pub fn of_loopback(room: usize) -> Result<Socket, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
        setsockopt(&descriptor, sockopt::BindToDevice, &"lo".into()).map_err(errno)?;
        setsockopt(&descriptor, sockopt::Ipv4PacketInfo, &true).map_err(errno)?;
        // Who may not have more room, or be told of what found none, has less: that is reported where it matters.
        let _ = setsockopt(&descriptor, sockopt::RcvBuf, &room);
        let _ = setsockopt(&descriptor, sockopt::RcvBufForce, &room);
        let _ = setsockopt(&descriptor, sockopt::RxqOvfl, &1);
        let _ = setsockopt(&descriptor, sockopt::ReceiveTimestampns, &true);
        net::bind(&descriptor, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        Ok(Socket { descriptor })
    }

    /// Lets the kernel stamp what comes on connections before they are accepted: they have the listening socket's option from
    /// their beginning.
    pub fn stamp_before_accepting(listener: &TcpListener) {
        // As above.
        let _ = setsockopt(listener, sockopt::ReceiveTimestampns, &true);
    }

    /// Takes over a connection that was accepted.
    pub fn accepted(descriptor: OwnedFd) -> Result<Socket, Errno> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        rustix_sockopt::set_tcp_nodelay(&descriptor, true)?;
        let _ = setsockopt(&descriptor, sockopt::ReceiveTimestampns, &true);
        Ok(Socket { descriptor })
    }

    /// Asks to be woken for reading and perhaps writing.
    pub fn register(&self, epoll: &OwnedFd, data: u64, interest: Interest) -> Result<(), Errno> {
        epoll::add(epoll, &self.descriptor, EventData::new_u64(data), interest.flags())
    }

    /// Changes what to be woken for.
    pub fn modify(&self, epoll: &OwnedFd, data: u64, interest: Interest) -> Result<(), Errno> {
        epoll::modify(epoll, &self.descriptor, EventData::new_u64(data), interest.flags())
    }

    /// The error that connecting ended with, if it did.
    pub fn take_error(&self) -> Result<(), Errno> {
        rustix_sockopt::socket_error(&self.descriptor)?
    }

    /// Hands bytes to the kernel; `Ok(0)` when it takes none at present.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match net::send(&self.descriptor, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => other,
        }
    }

    /// Hands datagrams of one size to the kernel with one call, which passes the network stack with all of them at once
    /// (segmentation offload, `UDP_SEGMENT` of udp(7)): at most [`SEGMENTS`], and [`SEGMENT_BYTES`] together. Gives the
    /// bytes that it took: all, or none when it takes none at present. `None` where it or the way to the platform does
    /// not do so.
    pub fn write_segments(&self, datagrams: &[IoSlice<'_>]) -> Result<Option<usize>, Errno> {
        let size = datagrams.first().map_or(0, |first| first.len());
        // Set for this call alone, because it would cut larger datagrams that are sent by themselves.
        if setsockopt(&self.descriptor, sockopt::UdpGsoSegment, &(size as i32)).is_err() {
            return Ok(None);
        }
        let mut control = SendAncillaryBuffer::default();
        let sent = net::sendmsg(&self.descriptor, datagrams, &mut control, SendFlags::NOSIGNAL);
        let _ = setsockopt(&self.descriptor, sockopt::UdpGsoSegment, &0);
        match sent {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Some(0)),
            // Larger than the path carries in one packet; no checksums by the network card; IPsec.
            Err(Errno::INVAL | Errno::MSGSIZE | Errno::IO | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads what is there; `None` when there is nothing at present.
    pub fn read(&self, into: &mut [u8]) -> Result<Option<Reading>, Errno> {
        Ok(self.receive::<()>(into)?.map(|(reading, _)| reading))
    }

    /// Reads a datagram and who sent it; `None` when there is nothing at present.
    pub fn read_from(&self, into: &mut [u8]) -> Result<Option<(Reading, SocketAddr)>, Errno> {
        let received = self.receive::<SockaddrStorage>(into)?;
        Ok(received.and_then(|(reading, from)| Some((reading, std_address(&from?)?))))
    }

    /// Reads a datagram, and to which of our addresses and by whom it was sent; `None` when there is nothing at present.
    pub fn read_addressed(&self, into: &mut [u8]) -> Result<Option<Addressed>, Errno> {
        let mut control = [0u8; CONTROL_SIZE];
        let mut slices = [IoSliceMut::new(into)];
        let flags = MsgFlags::empty();
        let received =
            recvmsg::<SockaddrStorage>(self.descriptor.as_raw_fd(), &mut slices, Some(&mut control), flags);
        let message = match received {
            Ok(message) => message,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(None),
            Err(error) => return Err(errno(error)),
        };
        let (mut to, mut dropped, mut lag) = (Ipv4Addr::UNSPECIFIED, None, None);
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    to = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))
                }
                ControlMessageOwned::RxqOvfl(all) => dropped = Some(all),
                ControlMessageOwned::ScmTimestampns(time) => lag = lag_of(time),
                _ => {}
            }
        }
        let from = message.address.as_ref().and_then(std_address);
        Ok(Some(Addressed { reading: Reading { length: message.bytes, lag }, to, from, dropped }))
    }

    /// Sends a datagram from one of our addresses; the bytes that the kernel took: all of them, or none when it takes none at
    /// present.
    pub fn write_from(&self, bytes: &[u8], source: Ipv4Addr, to: SocketAddrV4) -> Result<usize, Errno> {
        let source = in_addr { s_addr: u32::from(source).to_be() };
        let info = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: in_addr { s_addr: 0 } };
        let control = [ControlMessage::Ipv4PacketInfo(&info)];
        let (slices, to) = ([IoSlice::new(bytes)], SockaddrIn::from(to));
        let flags = MsgFlags::MSG_NOSIGNAL;
        match sendmsg(self.descriptor.as_raw_fd(), &slices, &control, flags, Some(&to)) {
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR | nix::errno::Errno::ENOBUFS) => Ok(0),
            other => other.map_err(errno),
        }
    }

    /// Sends a datagram; the bytes that the kernel took: all of them, or none.
    pub fn write_to(&self, bytes: &[u8], to: SocketAddr) -> usize {
        net::sendto(&self.descriptor, bytes, SendFlags::NOSIGNAL, &to).unwrap_or_default()
    }

    fn receive<A: SockaddrLike>(&self, into: &mut [u8]) -> Result<Option<(Reading, Option<A>)>, Errno> {
        let mut control = [0u8; CONTROL_SIZE];
        let mut slices = [IoSliceMut::new(into)];
        let received =
            recvmsg::<A>(self.descriptor.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty());
        match received {
            Ok(message) => {
                let stamp = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|control| match control {
                        ControlMessageOwned::ScmTimestampns(time) => Some(time),
                        _ => None,
                    })
                });
                let lag = stamp.and_then(lag_of);
                Ok(Some((Reading { length: message.bytes, lag }, message.address)))
            }
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }
}

/// How long ago the kernel stamped something. A stamp of zero means that it had not begun to stamp when the bytes came.
fn lag_of(time: TimeSpec) -> Option<Nanos> {
    let stamp = time.tv_sec() * 1_000_000_000 + time.tv_nsec();
    (stamp > 0).then(|| Nanos((wall_nanos() - stamp).max(0)))
}

fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

fn std_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let four = address.as_sockaddr_in().map(|address| SocketAddr::V4(SocketAddrV4::from(*address)));
    four.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::V6(SocketAddrV6::from(*address))))
}

/// What a socket is to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

impl Interest {
    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::RDHUP;
        if self.read {
            flags |= EventFlags::IN;
        } else {
            flags.remove(EventFlags::RDHUP);
        }
        if self.write {
            flags |= EventFlags::OUT;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn bytes_that_came_before_their_connection_was_accepted_have_the_stamp_of_their_coming() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Socket::stamp_before_accepting(&listener);
        // Where nobody else on this host wants stamps, the kernel begins with them a moment later.
        std::thread::sleep(Duration::from_millis(100));
        let mut platform = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        platform.write_all(b"early").unwrap();
        std::thread::sleep(Duration::from_millis(150));
        let socket = Socket::accepted(listener.accept().unwrap().0.into()).unwrap();
        let reading = socket.read(&mut [0; 64]).unwrap().unwrap();
        assert_eq!(reading.length, 5);
        assert!(reading.lag.is_some_and(|lag| lag >= Nanos::from_millis(150)), "{:?}", reading.lag);
    }

    #[test]
    fn datagrams_that_are_handed_over_together_arrive_apart_and_later_ones_whole() {
        let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
        platform.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let socket = Socket::datagrams(platform.local_addr().unwrap(), None).unwrap();
        let mut room = [0; 2048];
        for size in [1, 45, SEGMENT_BYTES / SEGMENTS] {
            let datagrams: Vec<Vec<u8>> = (0..SEGMENTS).map(|number| vec![number as u8; size]).collect();
            let slices: Vec<IoSlice<'_>> = datagrams.iter().map(|one| IoSlice::new(one)).collect();
            assert_eq!(socket.write_segments(&slices), Ok(Some(SEGMENTS * size)));
            for datagram in &datagrams {
                let length = platform.recv(&mut room).unwrap();
                assert_eq!(&room[..length], datagram);
            }
            assert_eq!(socket.write(&[7; 1200]), Ok(1200));
            assert_eq!(platform.recv(&mut room).unwrap(), 1200);
        }
    }
}
