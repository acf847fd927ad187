//! Clients that a load thread is to connect or to release: a few bytes, however many they are.

use crate::driver::Client;
use crate::share::Share;
use std::ops::Range;

/// Clients of one kind whose numbers are in a range, as far as a load thread owns them, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// Which clients.
    pub kind: ClientKind,
    /// Those that the load thread owns.
    pub share: Share,
    /// The first number of the range, and the one behind it.
    pub from: u32,
    /// See `from`.
    pub to: u32,
}

/// A kind of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Devices.
    Devices,
    /// Subscribers.
    Subscribers,
}

impl ClientKind {
    /// The client of that number.
    pub fn client(self, number: u32) -> Client {
        match self {
            ClientKind::Devices => Client::Device(number),
            ClientKind::Subscribers => Client::Subscriber(number),
        }
    }
}

impl Clients {
    /// How many they are.
    pub fn count(&self) -> u32 {
        self.places().len() as u32
    }

    /// Their places among those of their kind that the load thread owns.
    pub fn places(&self) -> Range<u32> {
        self.share.slots(self.from..self.to)
    }

    /// The client at a place.
    pub fn at(&self, place: u32) -> Client {
        self.kind.client(self.share.number(place))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Client> {
        self.places().map(|place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_in_order_as_far_as_the_load_thread_owns_them() {
        let share = Share { index: 1, of: 3, first: 10 };
        let clients = Clients { kind: ClientKind::Subscribers, share, from: 12, to: 1036 };
        let all: Vec<Client> = clients.iter().collect();
        assert_eq!(all.len(), clients.count() as usize);
        assert_eq!(all.first(), Some(&Client::Subscriber(14)), "12 and 13 are those of others");
        assert!(all.is_sorted());
        let of =
            |share: Share| Clients { kind: ClientKind::Devices, share, from: u32::MAX - 1, to: u32::MAX };
        assert!(of(Share::WHOLE).iter().eq([Client::Device(u32::MAX - 1)]));
        assert_eq!(of(Share::NOTHING).iter().next(), None);
    }
}
