//! Which source address a connection leaves from. One address has about 28,000 ports for connections to one server, and
//! the kernel needs the longer to find a free one the more are taken; so connections are spread.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Connections from one address of the loopback network before the next is used.
const PER_LOOPBACK_ADDRESS: u32 = 2_000;
/// 127.0.0.1.
const FIRST_LOOPBACK: u32 = 0x7f00_0001;

/// The source addresses of a run.
#[derive(Clone, Debug)]
pub struct Sources {
    given: Vec<IpAddr>,
    spread: bool,
}

impl Sources {
    /// Those that the user gave; without any, addresses of the loopback network where the platform is there, else what
    /// the kernel chooses.
    pub fn new(given: Vec<IpAddr>, platform: SocketAddr) -> Sources {
        let spread = matches!(platform.ip(), IpAddr::V4(address) if address.is_loopback());
        Sources { given, spread }
    }

    /// Whether the user gave some.
    pub fn are_given(&self) -> bool {
        !self.given.is_empty()
    }

    /// The source address of the connection with that number; `None` leaves it to the kernel.
    pub fn of(&self, number: u32) -> Option<IpAddr> {
        if !self.given.is_empty() {
            return self.given.get(number as usize % self.given.len()).copied();
        }
        let further = number / PER_LOOPBACK_ADDRESS;
        (self.spread && further > 0).then(|| Ipv4Addr::from(FIRST_LOOPBACK + further).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_loopback_leave_from_many_addresses() {
        let sources = Sources::new(Vec::new(), ([127, 0, 0, 1], 1883).into());
        assert_eq!(sources.of(1_999), None);
        assert_eq!(sources.of(2_000), Some([127, 0, 0, 2].into()));
        assert_eq!(sources.of(16_777_215), Some([127, 0, 32, 197].into()));
        assert_eq!(Sources::new(Vec::new(), ([192, 0, 2, 1], 1883).into()).of(50_000), None);
    }

    #[test]
    fn given_addresses_take_turns() {
        let given: Vec<IpAddr> = vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let sources = Sources::new(given.clone(), ([127, 0, 0, 1], 1883).into());
        assert_eq!([0, 1, 2].map(|number| sources.of(number)), [0, 1, 0].map(|index| Some(given[index])));
    }
}
