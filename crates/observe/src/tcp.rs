//! What the kernel knows of our TCP connections (`tcp_info`): outside the load threads.

use crate::sock_diag::{self, Socket, TcpInfo, Wanted, state};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Most connections that one reading looks at, so that it stays short.
const MOST: usize = 256;

/// Bytes of a header of TCP without options.
const TCP_HEADER: u64 = 20;
/// Bytes of its timestamps (RFC 7323), with what aligns them; and the flag by which the kernel tells of them.
const TIMESTAMPS: u64 = 12;
const HAS_TIMESTAMPS: u8 = 1;
/// Bytes of a header of IP.
const IPV4_HEADER: u64 = 20;
const IPV6_HEADER: u64 = 40;

/// Reads `tcp_info` of established connections of this host with the platform. The kernel tells them in the order of its
/// table, and the first so many are looked at.
pub struct TcpSampler {
    platform: SocketAddr,
    /// Ports of ours to which the platform connects.
    listening: Vec<u16>,
    /// What each connection had done when it was looked at last.
    before: HashMap<Connection, Done>,
}

/// A connection: its own address and port, and the port of the other side.
type Connection = (IpAddr, u16, u16);

/// What a connection has done so far.
#[derive(Clone, Copy)]
struct Done {
    retransmissions: u32,
    segments: u64,
    bytes: u64,
}

impl Done {
    fn of(info: &TcpInfo) -> Done {
        Done {
            retransmissions: info.total_retrans,
            segments: u64::from(info.segs_out) + u64::from(info.segs_in),
            bytes: info.bytes_sent + info.bytes_received,
        }
    }
}

/// One reading: counts to be added, histograms to be merged.
pub struct TcpReading {
    /// Connections looked at, segments in flight on them, retransmissions since they were looked at last.
    pub counts: Counts,
    /// Smoothed and least round-trip time of each.
    pub histograms: Vec<(Metric, Histogram)>,
}

impl TcpSampler {
    /// For connections to that address, and for those from that host to the given ports of ours.
    pub fn new(platform: SocketAddr, listening: Vec<u16>) -> TcpSampler {
        TcpSampler { platform, listening, before: HashMap::new() }
    }

    /// Looks at connections; `None` where the kernel does not tell of any.
    pub fn sample(&mut self) -> Option<TcpReading> {
        let mut connections = connections_with(self.platform, None).ok()?;
        for &port in &self.listening {
            let room = MOST.saturating_sub(connections.len());
            connections.extend(connections_with(self.platform, Some(port)).ok()?.into_iter().take(room));
        }
        if connections.is_empty() {
            return None;
        }
        let mut counts = Counts::default();
        let (mut smoothed, mut least) = (Histogram::new(), Histogram::new());
        let before = std::mem::take(&mut self.before);
        let ip_header = if self.platform.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        for socket in &connections {
            let Some(info) = &socket.info else { continue };
            // Of one that the platform made, only what it carried is of interest: its times are the platform's side's.
            if !self.listening.contains(&socket.source.1) {
                smoothed.record(Nanos::from_micros(i64::from(info.rtt)));
                least.record(Nanos::from_micros(i64::from(info.min_rtt)));
                counts.tcp_connections += 1;
                counts.tcp_in_flight += u64::from(info.unacked);
                counts.tcp_send_queue += u64::from(socket.unsent);
                counts.tcp_shut_windows += u64::from(info.probes > 0);
            }
            counts.tcp_looks += 1;
            counts.tcp_largest_segments += u64::from(info.snd_mss);
            let connection = (socket.source.0, socket.source.1, socket.destination.1);
            let now = Done::of(info);
            // What one did before it was looked at first belongs to no sample.
            let known = before.get(&connection).copied().unwrap_or(now);
            counts.tcp_retransmissions +=
                u64::from(now.retransmissions.saturating_sub(known.retransmissions));
            let options = if info.options & HAS_TIMESTAMPS != 0 { TIMESTAMPS } else { 0 };
            let segments = now.segments.saturating_sub(known.segments);
            counts.tcp_segments += segments;
            counts.tcp_header_bytes += segments * (ip_header + TCP_HEADER + options);
            counts.tcp_bytes += now.bytes.saturating_sub(known.bytes);
            self.before.insert(connection, now);
        }
        Some(TcpReading {
            counts,
            histograms: vec![(Metric::TcpRtt, smoothed), (Metric::TcpLeastRtt, least)],
        })
    }
}

/// Established connections of which the kernel knows more, to the platform's port, or those at that port of ours.
fn connections_with(platform: SocketAddr, listening: Option<u16>) -> std::io::Result<Vec<Socket>> {
    let ports = match listening {
        Some(own) => [own, 0],
        None => [0, platform.port()],
    };
    let wanted = Wanted { ports, states: &[state::ESTABLISHED] };
    let mut found = Vec::new();
    sock_diag::sockets(wanted, |socket| {
        let is_wanted = socket.info.is_some() && socket.destination.0 == platform.ip();
        found.extend(Some(socket).filter(|_| is_wanted));
        found.len() < MOST
    })?;
    Ok(found)
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
        let mut sampler = TcpSampler::new(address, Vec::new());
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

    /// A peer that reads nothing lets its window shut once its kernel is full; then the kernel probes it.
    #[test]
    fn a_peer_that_does_not_read_shows_what_waits_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut ours = TcpStream::connect(address).unwrap();
        let _theirs = listener.accept().unwrap().0;
        ours.set_nonblocking(true).unwrap();
        let piece = [0; 65536];
        while ours.write(&piece).is_ok() {}
        let mut sampler = TcpSampler::new(address, Vec::new());
        let begin = std::time::Instant::now();
        loop {
            let counts = sampler.sample().unwrap().counts;
            assert!(counts.tcp_send_queue > 0, "{counts:?}");
            if counts.tcp_shut_windows == 1 {
                break;
            }
            assert!(begin.elapsed().as_secs() < 30, "no window was seen shut: {counts:?}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
