//! Clients that a load thread is to connect or to release: a few bytes, however many they are.

use crate::driver::Client;
use crate::share::Share;

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
    /// Nobody.
    pub const NONE: Clients = Clients { kind: ClientKind::Devices, share: Share::NOTHING, from: 0, to: 0 };

    /// How many they are.
    pub fn count(&self) -> u32 {
        let slots = self.share.slots(self.from..self.to);
        slots.end.saturating_sub(slots.start)
    }

    /// Takes the first one.
    pub fn take_first(&mut self) -> Option<Client> {
        let slots = self.share.slots(self.from..self.to);
        let number = (!slots.is_empty()).then(|| self.share.number(slots.start))?;
        self.from = number + 1;
        Some(self.kind.client(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_in_order_until_none_is_left() {
        let share = Share { index: 1, of: 3, first: 10 };
        let mut clients = Clients { kind: ClientKind::Subscribers, share, from: 12, to: 1036 };
        let count = clients.count();
        let all: Vec<Client> = std::iter::from_fn(|| clients.take_first()).collect();
        assert_eq!(all.len(), count as usize);
        assert_eq!(all.first(), Some(&Client::Subscriber(14)), "12 and 13 are those of others");
        assert!(all.is_sorted() && clients.count() == 0);
        assert_eq!(Clients::NONE.count(), 0);
        let mut last =
            Clients { kind: ClientKind::Devices, share: Share::WHOLE, from: u32::MAX - 1, to: u32::MAX };
        assert_eq!(last.take_first(), Some(Client::Device(u32::MAX - 1)));
        assert_eq!(last.take_first(), None);
    }
}
