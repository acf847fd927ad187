//! The kernel's sockets, asked for over netlink (sock_diag(7)): one request for many, and without unsafe code.
//!
//! The request is the older one of the two that the kernel knows (`TCPDIAG_GETSOCK`): it tells sockets of IPv4 and IPv6 in one walk
//! through a table, and that walk is what costs.
//!
//! Places and lengths of fields are those of `linux/netlink.h`, `linux/inet_diag.h` and `linux/tcp.h`. The kernel only adds fields
//! at the end of a structure, so an older one lacks some: they are zero.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto, socket_with,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for what the kernel sends at once.
const ROOM: usize = 32 * 1024;

const HEADER: usize = 16;
const REQUEST: usize = 60;
const RESPONSE: usize = 72;
/// `TCPDIAG_GETSOCK`, with the flags of a request for all (`NLM_F_REQUEST | NLM_F_DUMP`).
const SOCKET: u16 = 18;
const ALL: u16 = 0x301;
/// `INET_DIAG_INFO`, an attribute, and the bit that asks for it.
const INFO: u16 = 2;
const WITH_INFO: u8 = 1 << (INFO - 1);
/// Messages that say nothing, that the kernel refuses to answer, and that its answer is over (`linux/netlink.h`).
const NOTHING: u16 = 1;
const REFUSED: u16 = 2;
const DONE: u16 = 3;

/// The states of TCP that the kernel tells (`linux/tcp_states.h`).
pub(crate) mod state {
    pub(crate) const ESTABLISHED: u8 = 1;
    pub(crate) const SYN_SENT: u8 = 2;
    pub(crate) const SYN_RECV: u8 = 3;
    pub(crate) const FIN_WAIT_1: u8 = 4;
    pub(crate) const FIN_WAIT_2: u8 = 5;
    pub(crate) const TIME_WAIT: u8 = 6;
    pub(crate) const CLOSE_WAIT: u8 = 8;
    pub(crate) const LISTEN: u8 = 10;
    /// All of them.
    pub(crate) const ALL: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
}

/// Which sockets are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Their own port, and that of the other side; 0 for any.
    pub ports: [u16; 2],
    pub states: &'a [u8],
}

/// A socket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Socket {
    /// One of [`state`].
    pub state: u8,
    /// Its own address and port, and those of the other side.
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    /// Bytes that wait to be read; of a listening socket, connections that wait to be accepted.
    pub unread: u32,
    /// Bytes that wait to be acknowledged; of a listening socket, the most that may wait.
    pub unsent: u32,
    /// 0 where no process has it any more.
    pub inode: u32,
    pub info: Option<TcpInfo>,
}

/// What the kernel knows of a connection (`tcp_info`), as far as it matters. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TcpInfo {
    pub probes: u8,
    pub options: u8,
    pub snd_mss: u32,
    pub unacked: u32,
    pub rtt: u32,
    pub min_rtt: u32,
    pub total_retrans: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub segs_out: u32,
    pub segs_in: u32,
}

/// Gives the wanted sockets of TCP in this network, until the taker wants no more.
///
/// # Errors
/// The kernel refuses to answer.
pub(crate) fn sockets(wanted: Wanted<'_>, mut take: impl FnMut(Socket) -> bool) -> io::Result<()> {
    // The kernel answers within the call; where it has nothing more to say, nobody waits.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    sendto(&kernel, &request(wanted), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut room = vec![0; ROOM];
    loop {
        let (length, _) = recv(&kernel, &mut room[..], RecvFlags::empty())?;
        let mut rest = room.get(..length).unwrap_or_default();
        while let Some((kind, message, behind)) = message(rest) {
            rest = behind;
            match kind {
                SOCKET => {
                    if let Some(socket) = Socket::read(message)
                        && !take(socket)
                    {
                        return Ok(());
                    }
                }
                NOTHING => {}
                // Both begin with an error number below zero, or zero.
                DONE | REFUSED => return answer(message),
                _ => return Err(io::Error::other("the kernel answers something else")),
            }
        }
    }
}

/// What ended the answer of the kernel.
fn answer(message: &[u8]) -> io::Result<()> {
    match number(message, 0).map_or(0, u32::cast_signed) {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
    }
}

fn request(wanted: Wanted<'_>) -> Vec<u8> {
    let states = wanted.states.iter().fold(0_u32, |states, state| states | 1 << state);
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend([SOCKET, ALL].into_iter().flat_map(u16::to_ne_bytes));
    // Sequence and sender.
    bytes.extend([0; 8]);
    // Family and lengths of addresses: any.
    bytes.extend([0, 0, 0, WITH_INFO]);
    bytes.extend(wanted.ports.into_iter().flat_map(u16::to_be_bytes));
    // Addresses, interface and cookie: any.
    bytes.resize(HEADER + REQUEST - 8, 0);
    bytes.extend(states.to_ne_bytes());
    // The kernel ignores it.
    bytes.extend([0; 4]);
    bytes
}

/// The first message: its type and what it holds, and what is behind it. They begin at multiples of four bytes.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0)? as usize;
    let kind = short(bytes, 4)?;
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(HEADER..length)?, behind))
}

impl Socket {
    fn read(message: &[u8]) -> Option<Socket> {
        let fixed = message.get(..RESPONSE)?;
        let is_ipv6 = AddressFamily::from_raw(u16::from(*fixed.first()?)) == AddressFamily::INET6;
        let port = |place: usize| Some(u16::from_be_bytes(fixed.get(place..place + 2)?.try_into().ok()?));
        let address = |place: usize| -> Option<IpAddr> {
            Some(match is_ipv6 {
                true => Ipv6Addr::from(<[u8; 16]>::try_from(fixed.get(place..place + 16)?).ok()?).into(),
                false => Ipv4Addr::from(<[u8; 4]>::try_from(fixed.get(place..place + 4)?).ok()?).into(),
            })
        };
        Some(Socket {
            state: *fixed.get(1)?,
            source: (address(8)?, port(4)?),
            destination: (address(24)?, port(6)?),
            unread: number(fixed, 56)?,
            unsent: number(fixed, 60)?,
            inode: number(fixed, 68)?,
            info: attribute(message.get(RESPONSE..)?, INFO).map(TcpInfo::read),
        })
    }
}

/// What an attribute of that type holds (`struct rtattr`).
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(short(bytes, 0)?);
        let content = bytes.get(4..length)?;
        if short(bytes, 2)? == wanted {
            return Some(content);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

impl TcpInfo {
    fn read(bytes: &[u8]) -> TcpInfo {
        let byte = |place: usize| bytes.get(place).copied().unwrap_or_default();
        let number = |place: usize| number(bytes, place).unwrap_or_default();
        let long = |place: usize| {
            let found = bytes.get(place..place + 8).and_then(|bytes| bytes.try_into().ok());
            found.map(u64::from_ne_bytes).unwrap_or_default()
        };
        TcpInfo {
            probes: byte(3),
            options: byte(5),
            snd_mss: number(16),
            unacked: number(24),
            rtt: number(68),
            total_retrans: number(100),
            bytes_acked: long(120),
            bytes_received: long(128),
            segs_out: number(136),
            segs_in: number(140),
            min_rtt: number(148),
            bytes_sent: long(200),
        }
    }
}

fn short(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(place..place + 2)?.try_into().ok()?))
}

fn number(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn of_ports(ports: [u16; 2]) -> Vec<Socket> {
        let mut found = Vec::new();
        sockets(Wanted { ports, states: state::ALL }, |socket| {
            found.push(socket);
            true
        })
        .unwrap();
        found
    }

    #[test]
    fn both_ends_of_a_connection_are_told_with_addresses_bytes_and_times() {
        for host in ["127.0.0.1", "::1"] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut server = listener.accept().unwrap().0;
            client.write_all(&[7; 1000]).unwrap();
            server.read_exact(&mut [0; 400]).unwrap();
            let (near, far) = (client.local_addr().unwrap(), listener.local_addr().unwrap());
            let [of_client] = &of_ports([near.port(), far.port()])[..] else { panic!("{host}") };
            let address = |address: std::net::SocketAddr| (address.ip(), address.port());
            assert_eq!((of_client.source, of_client.destination), (address(near), address(far)));
            assert_eq!(of_client.state, state::ESTABLISHED);
            let info = of_client.info.unwrap();
            assert_eq!(
                (info.bytes_sent, info.bytes_acked.max(1000)),
                (1000, 1001),
                "its SYN counts: {info:?}"
            );
            assert!(info.rtt > 0 && info.min_rtt > 0 && info.snd_mss >= 500 && info.segs_out > 0, "{info:?}");
            let [of_server] = &of_ports([far.port(), near.port()])[..] else { panic!("{host}") };
            assert_eq!((of_server.unread, of_server.info.unwrap().bytes_received), (600, 1000));
            let all = of_ports([far.port(), 0]);
            assert!(all.iter().any(|socket| socket.state == state::LISTEN && socket.inode > 0), "{all:?}");
        }
    }

    /// Whatever the kernel may say: no panic, and no end of a walk that does not come.
    #[test]
    fn what_is_cut_short_or_long_is_left() {
        let whole = [&[0_u8; RESPONSE][..], &[8, 0, 9, 0, 1, 1, 1, 1], &[8, 0, 2, 0, 0, 0, 0, 5]].concat();
        assert_eq!(Socket::read(&whole).unwrap().info, Some(TcpInfo { probes: 5, ..TcpInfo::default() }));
        for length in 0..whole.len() {
            let _ = Socket::read(&whole[..length]);
            let _ = message(&whole[..length]);
        }
        for byte in 0..=255 {
            let _ = attribute(&[byte; 64], INFO);
            let mut walked = &[byte; 256][..];
            while let Some((.., behind)) = message(walked) {
                assert!(behind.len() < walked.len());
                walked = behind;
            }
        }
        assert_eq!(attribute(&[0; 16], INFO), None, "of no length");
    }
}
