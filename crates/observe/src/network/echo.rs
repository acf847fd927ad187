//! Echoes of ICMP (RFC 792, RFC 4443): a question that a kernel answers.

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Bytes of a question: its head, and what makes it ours.
const LENGTH: usize = 16;

/// Asks one host.
pub(super) struct Echo {
    socket: OwnedFd,
    /// Type of a question and of its answer.
    kinds: (u8, u8),
    /// Whether answers come with their IP header.
    has_header: bool,
    token: [u8; 6],
    sequence: u16,
}

impl Echo {
    /// Opens the socket.
    ///
    /// # Errors
    /// This process may not send echoes.
    pub fn to(address: IpAddr) -> Result<Echo, Errno> {
        let (family, protocol, kinds) = match address {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, (8, 0)),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, (128, 129)),
        };
        let open = |kind| net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol));
        let (socket, is_raw) = match open(SocketType::DGRAM) {
            Ok(socket) => (socket, false),
            Err(_) => (open(SocketType::RAW)?, true),
        };
        net::connect(&socket, &SocketAddr::new(address, 0))?;
        // Of several who ask, each knows its own answers.
        let [a, b, c, d, e, f, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
        let has_header = is_raw && address.is_ipv4();
        Ok(Echo { socket, kinds, has_header, token: [a, b, c, d, e, f], sequence: 0 })
    }

    /// From the question to its answer; `None` where none comes in time.
    pub fn round_trip(&mut self, patience: Duration) -> Option<Duration> {
        self.sequence = self.sequence.wrapping_add(1);
        let question = self.question();
        let begun = Instant::now();
        net::send(&self.socket, &question, SendFlags::NOSIGNAL).ok()?;
        let mut room = [0; 256];
        loop {
            let left = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
            net::sockopt::set_socket_timeout(&self.socket, net::sockopt::Timeout::Recv, Some(left)).ok()?;
            let (length, _) = match net::recv(&self.socket, &mut room, RecvFlags::empty()) {
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            let took = begun.elapsed();
            if self.answers(room.get(..length).unwrap_or_default(), &question) {
                return Some(took);
            }
        }
    }

    /// The identifier is the kernel's where the socket is for datagrams.
    fn question(&self) -> [u8; LENGTH] {
        let mut question = [0; LENGTH];
        question[0] = self.kinds.0;
        question[4..6].copy_from_slice(&self.token[4..6]);
        question[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        question[8..14].copy_from_slice(&self.token);
        question[14..16].copy_from_slice(&self.sequence.to_be_bytes());
        // Over IPv6 the kernel writes it; for datagrams over IPv4, too.
        let sum = checksum(&question).to_be_bytes();
        question[2..4].copy_from_slice(&sum);
        question
    }

    fn answers(&self, received: &[u8], question: &[u8; LENGTH]) -> bool {
        let header = match received.first() {
            Some(first) if self.has_header => usize::from(first & 0x0f) * 4,
            _ => 0,
        };
        let Some(answer) = received.get(header..) else { return false };
        answer.first() == Some(&self.kinds.1) && answer.get(6..LENGTH) == question.get(6..)
    }
}

/// The sum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        // RFC 1071 section 3: the sum of these is ddf2, its complement 220d.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0x220d);
    }

    #[test]
    fn only_ones_own_answer_counts() {
        // Needs CAP_NET_RAW, or a group within net.ipv4.ping_group_range.
        let mut echo = Echo::to("127.0.0.1".parse().unwrap()).unwrap();
        let question = echo.question();
        let mut answer = question;
        answer[0] = 0;
        let with_header = |answer: &[u8]| match echo.has_header {
            true => [&[0x45][..], &[0; 19], answer].concat(),
            false => answer.to_vec(),
        };
        assert!(echo.answers(&with_header(&answer), &question));
        assert!(!echo.answers(&with_header(&question), &question), "our own question, heard on loopback");
        answer[15] ^= 1;
        assert!(!echo.answers(&with_header(&answer), &question) && !echo.answers(&[], &question));
        assert!(echo.round_trip(Duration::from_secs(5)).is_some_and(|took| took > Duration::ZERO));
    }
}
