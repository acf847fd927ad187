//! What the kernel knows of our TCP connections (`tcp_info`), asked for over netlink (sock_diag(7)): one request for many
//! connections, outside the load threads, and without unsafe code.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as KernelAddress};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Most connections that one reading looks at, so that it stays short.
const MOST: usize = 256;
/// Room for what the kernel tells at once.
const ROOM: usize = 32 * 1024;

/// Reads `tcp_info` of established connections of this host to the platform. The kernel tells them in the order of its
/// table, and the first so many are looked at.
pub struct TcpSampler {
    platform: SocketAddr,
    /// Retransmissions of each connection so far, by its own address and port.
    retransmitted: HashMap<(IpAddr, u16), u32>,
}

/// One reading: counts to be added, histograms to be merged.
pub struct TcpReading {
    /// Connections looked at, segments in flight on them, retransmissions since they were looked at last.
    pub counts: Counts,
    /// Smoothed and least round-trip time of each.
    pub histograms: Vec<(Metric, Histogram)>,
}

impl TcpSampler {
    /// For connections to that address.
    pub fn new(platform: SocketAddr) -> TcpSampler {
        TcpSampler { platform, retransmitted: HashMap::new() }
    }

    /// Looks at connections; `None` where the kernel does not tell of any.
    pub fn sample(&mut self) -> Option<TcpReading> {
        let connections = connections_to(self.platform).ok()?;
        if connections.is_empty() {
            return None;
        }
        let mut counts = Counts::default();
        let (mut smoothed, mut least) = (Histogram::new(), Histogram::new());
        let before = std::mem::take(&mut self.retransmitted);
        for (socket, info) in &connections {
            smoothed.record(Nanos::from_micros(i64::from(info.rtt)));
            least.record(Nanos::from_micros(i64::from(info.min_rtt)));
            counts.tcp_connections += 1;
            counts.tcp_in_flight += u64::from(info.unacked);
            let own = (socket.source_address, socket.source_port);
            // What one retransmitted before it was looked at first belongs to no sample.
            let known = before.get(&own).copied().unwrap_or(info.total_retrans);
            counts.tcp_retransmissions += u64::from(info.total_retrans.saturating_sub(known));
            self.retransmitted.insert(own, info.total_retrans);
        }
        Some(TcpReading {
            counts,
            histograms: vec![(Metric::TcpRtt, smoothed), (Metric::TcpLeastRtt, least)],
        })
    }
}

fn connections_to(platform: SocketAddr) -> std::io::Result<Vec<(SocketId, TcpInfo)>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&KernelAddress::new(0, 0))?;
    // The kernel answers within the call; where it has nothing more to say, nobody waits.
    socket.set_non_blocking(true)?;
    socket.send(&request(platform), 0)?;
    let mut found = Vec::new();
    let mut room = vec![0; ROOM];
    loop {
        let length = socket.recv(&mut &mut room[..], 0)?;
        let mut rest = room.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            let message =
                <NetlinkMessage<SockDiagMessage>>::deserialize(rest).map_err(std::io::Error::other)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    let info = response.nlas.into_iter().find_map(|attribute| match attribute {
                        Nla::TcpInfo(info) => Some(info),
                        _ => None,
                    });
                    let id = response.header.socket_id;
                    if let Some(info) = info.filter(|_| id.destination_address == platform.ip()) {
                        found.push((id, info));
                    }
                }
                NetlinkPayload::Noop => {}
                _ => return Ok(found),
            }
            // Messages begin at multiples of four bytes.
            let next = (message.header.length as usize).next_multiple_of(4).max(4);
            rest = rest.get(next..).unwrap_or_default();
            if found.len() == MOST {
                return Ok(found);
            }
        }
    }
}

/// Asks for all established connections to that port.
fn request(platform: SocketAddr) -> Vec<u8> {
    let (family, empty) = match platform {
        SocketAddr::V4(_) => (AF_INET, SocketId::new_v4()),
        SocketAddr::V6(_) => (AF_INET6, SocketId::new_v6()),
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED,
        socket_id: SocketId { destination_port: platform.port(), ..empty },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_tells_of_our_connections_and_of_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sampler = TcpSampler::new(address);
        assert!(sampler.sample().is_none(), "nobody is connected");
        let mut pairs: Vec<(TcpStream, TcpStream)> =
            (0..3).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).collect();
        for (ours, theirs) in &mut pairs {
            ours.write_all(b"x").unwrap();
            theirs.read_exact(&mut [0]).unwrap();
        }
        let reading = sampler.sample().unwrap();
        assert_eq!(reading.counts.tcp_connections, 3, "the other ends are the platform's");
        assert_eq!(reading.counts.tcp_retransmissions, 0);
        let metrics: Vec<Metric> = reading.histograms.iter().map(|(metric, _)| *metric).collect();
        assert_eq!(metrics, [Metric::TcpRtt, Metric::TcpLeastRtt]);
        for (_, histogram) in &reading.histograms {
            let longest = histogram.quantile(1.0).unwrap();
            assert!(histogram.count() == 3 && longest > Nanos::ZERO && longest < Nanos::from_secs(1));
        }
    }
}
