//! Who is registered, where, until when, and what of it is observed.

use plimsoll_model::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::SocketAddr;

/// Message ids of a device by which repetitions are known.
const IDS: usize = 64;

/// A registered device.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The name that the device gave itself.
    pub endpoint: String,
    /// For how long it holds each time, and when it ends unless it is renewed.
    pub lifetime: Nanos,
    pub until: Nanos,
    /// From where it was registered, and by which message.
    by: (SocketAddr, u16),
    ids: VecDeque<u16>,
    /// Whether it was told of new firmware.
    pub was_told: bool,
}

impl Registration {
    /// Whether a message came before, by its id; it is remembered.
    pub fn is_repeated(&mut self, id: u16) -> bool {
        if self.ids.contains(&id) {
            return true;
        }
        if self.ids.len() >= IDS {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
        false
    }
}

/// See the module.
#[derive(Default)]
pub struct Registrations {
    all: HashMap<u32, Registration>,
    by_endpoint: HashMap<String, u32>,
    by_address: HashMap<SocketAddr, u32>,
    /// When registrations are looked at whether their time has passed, the first one on top; a renewal leaves that as it was.
    ends: BinaryHeap<Reverse<(Nanos, u32)>>,
    next: u32,
}

impl Registrations {
    /// None yet; their numbers begin there: devices may remember those of an earlier server.
    pub fn beginning_at(first: u32) -> Registrations {
        Registrations { next: first, ..Registrations::default() }
    }

    /// Registers a device, in the place of an earlier one of that name; its number. The same message again changes nothing.
    pub fn register(&mut self, endpoint: String, by: (SocketAddr, u16), now: Nanos, lifetime: Nanos) -> u32 {
        if let Some(&known) = self.by_endpoint.get(&endpoint) {
            if self.all.get(&known).is_some_and(|own| own.by == by) {
                return known;
            }
            self.all.remove(&known);
        }
        self.next = self.next.wrapping_add(1);
        let number = self.next;
        self.by_endpoint.insert(endpoint.clone(), number);
        let (until, ids) = (now + lifetime, VecDeque::new());
        self.by_address.insert(by.0, number);
        self.ends.push(Reverse((until, number)));
        let was_told = false;
        self.all.insert(number, Registration { endpoint, lifetime, until, by, ids, was_told });
        number
    }

    /// Whether a message registered that device, so that it comes again.
    pub fn has(&self, endpoint: &str, by: (SocketAddr, u16)) -> bool {
        let own = self.by_endpoint.get(endpoint).and_then(|number| self.all.get(number));
        own.is_some_and(|own| own.by == by)
    }

    /// The registration of that number, whose device speaks from that address now.
    pub fn renewed_from(&mut self, number: u32, address: SocketAddr) -> Option<&mut Registration> {
        let own = self.all.get_mut(&number)?;
        self.by_address.insert(address, number);
        Some(own)
    }

    /// The registration of that number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Registration> {
        self.all.get_mut(&number)
    }

    /// The name of the device at an address.
    pub fn at(&self, address: SocketAddr) -> Option<String> {
        self.by_address.get(&address).and_then(|number| self.all.get(number)).map(|own| own.endpoint.clone())
    }

    /// Whether a message of the device at an address came before.
    pub fn is_repeated(&mut self, address: SocketAddr, id: u16) -> bool {
        let own = self.by_address.get(&address).and_then(|number| self.all.get_mut(number));
        own.is_some_and(|own| own.is_repeated(id))
    }

    /// Ends a registration.
    pub fn remove(&mut self, number: u32) -> Option<Registration> {
        let gone = self.all.remove(&number)?;
        if self.by_address.get(&gone.by.0) == Some(&number) {
            self.by_address.remove(&gone.by.0);
        }
        // A later one of that name may be there.
        if self.by_endpoint.get(&gone.endpoint) == Some(&number) {
            self.by_endpoint.remove(&gone.endpoint);
        }
        Some(gone)
    }

    /// Ends those whose time has passed.
    pub fn expire(&mut self, now: Nanos) -> Vec<Registration> {
        let mut gone = Vec::new();
        while self.ends.peek().is_some_and(|Reverse((at, _))| *at < now) {
            let Some(Reverse((_, number))) = self.ends.pop() else { break };
            match self.all.get(&number).map(|own| own.until) {
                Some(until) if until >= now => self.ends.push(Reverse((until, number))),
                Some(_) => gone.extend(self.remove(number)),
                None => {}
            }
        }
        gone
    }
}

/// The token of an observation: the registration, and the number of the path among those that are observed.
pub fn token(number: u32, path: u8) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [a, b, c, d, path]
}

/// The registration and the number of the path of a token.
pub fn of_token(token: &[u8]) -> Option<(u32, u8)> {
    let &[a, b, c, d, path] = token else { return None };
    Some((u32::from_be_bytes([a, b, c, d]), path))
}

/// The number in the path of a registration, such as `/rd/7`.
pub fn number_in(path: &str, interface: &str) -> Option<u32> {
    path.strip_prefix(interface)?.strip_prefix('/')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(id: u16) -> (SocketAddr, u16) {
        (([127, 0, 0, 1], 5000).into(), id)
    }

    #[test]
    fn a_name_is_registered_once() {
        let mut all = Registrations::default();
        let first = all.register("a".into(), by(1), Nanos(0), Nanos(10));
        assert_eq!(all.register("a".into(), by(1), Nanos(5), Nanos(10)), first, "the same message again");
        let second = all.register("a".into(), by(2), Nanos(0), Nanos(20));
        assert!(all.get_mut(first).is_none() && all.get_mut(second).is_some());
        assert_eq!((all.all.len(), all.expire(Nanos(15)).len(), all.expire(Nanos(25)).len()), (1, 0, 1));
        assert!(all.remove(second).is_none());
    }

    #[test]
    fn tokens_and_paths_name_registrations() {
        assert_eq!(of_token(&token(77, 3)), Some((77, 3)));
        assert_eq!(of_token(b"abc"), None);
        assert_eq!(
            (number_in("/rd/7", "/rd"), number_in("/rd", "/rd"), number_in("/rd/x", "/rd")),
            (Some(7), None, None)
        );
    }

    #[test]
    fn a_repetition_is_known_for_a_while() {
        let mut all = Registrations::default();
        let number = all.register("a".into(), by(1), Nanos(0), Nanos(10));
        let own = all.get_mut(number).unwrap();
        assert!(!own.is_repeated(1) && own.is_repeated(1));
        (2..=65).for_each(|id| assert!(!own.is_repeated(id)));
        assert!(!own.is_repeated(1), "forgotten after as many others");
    }
}
