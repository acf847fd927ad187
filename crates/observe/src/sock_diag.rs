//! The kernel's sockets, asked for over netlink (sock_diag(7)): one request for many, and without unsafe code.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as KernelAddress};
use std::io;

/// Room for what the kernel sends at once.
const ROOM: usize = 32 * 1024;

/// Gives sockets of TCP in this network that have the wanted ports, and are in one of those states, until the taker wants no more.
///
/// # Errors
/// The kernel refuses to answer.
pub(crate) fn sockets(
    wanted: SocketId,
    states: StateFlags,
    mut take: impl FnMut(InetResponse) -> bool,
) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&KernelAddress::new(0, 0))?;
    // The kernel answers within the call; where it has nothing more to say, nobody waits.
    socket.set_non_blocking(true)?;
    socket.send(&request(wanted, states), 0)?;
    let mut room = vec![0; ROOM];
    loop {
        let length = socket.recv(&mut &mut room[..], 0)?;
        let mut rest = room.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            let message = <NetlinkMessage<SockDiagMessage>>::deserialize(rest).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    if !take(*response) {
                        return Ok(());
                    }
                }
                NetlinkPayload::Noop => {}
                _ => return Ok(()),
            }
            // Messages begin at multiples of four bytes.
            let next = (message.header.length as usize).next_multiple_of(4).max(4);
            rest = rest.get(next..).unwrap_or_default();
        }
    }
}

/// What the kernel knows of a connection (`tcp_info`).
pub(crate) fn info(socket: &InetResponse) -> Option<&TcpInfo> {
    socket.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })
}

fn request(wanted: SocketId, states: StateFlags) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family: if wanted.source_address.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states,
        socket_id: wanted,
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
