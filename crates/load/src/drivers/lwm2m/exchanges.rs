//! Messages of devices that are under way: each has a place, which is used again and again.

use plimsoll_model::Nanos;

/// Bytes of the token of a request: the place, and the turn: the number of the exchange there.
pub const TOKEN: usize = 8;

/// What a message is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To register.
    #[default]
    Register,
    /// To renew the registration.
    Update,
    /// To ask to be bootstrapped.
    Bootstrap,
    /// To notify of a message of the device, by its number; `None` where it was notified of already, to another observer.
    Notify(Option<u32>),
    /// To notify of a value that is no message.
    Value,
    /// To send a message of the device of itself, by its number.
    Send(u32),
    /// To ask for a block of new firmware.
    Download,
}

impl Purpose {
    /// The message of the device that it carries.
    pub fn message(self) -> Option<u32> {
        match self {
            Purpose::Notify(message) => message,
            Purpose::Send(message) => Some(message),
            _ => None,
        }
    }

    /// Whether it is a notification, which is acknowledged and not answered.
    pub fn is_notification(self) -> bool {
        matches!(self, Purpose::Notify(_) | Purpose::Value)
    }
}

/// A message under way.
#[derive(Default)]
pub struct Exchange {
    /// Whose it is, as a slot.
    pub device: u32,
    pub purpose: Purpose,
    pub id: u16,
    /// The server's port that it goes to.
    pub port: u16,
    /// The whole message.
    pub datagram: Vec<u8>,
    /// Bytes of its content, and the format of that in a notification.
    pub content: u32,
    pub content_format: u16,
    /// Whether it is repeated until it is acknowledged.
    pub is_confirmable: bool,
    /// Whether it was acknowledged, and only its answer is awaited.
    pub is_acknowledged: bool,
    /// How often it was sent.
    pub sendings: u32,
    /// When it was begun, when it was sent last, and when it is looked at.
    pub begun_at: Nanos,
    pub sent_at: Nanos,
    look_at: Nanos,
    /// How long an acknowledgement is awaited; twice as long after each repetition.
    pub wait: Nanos,
    turn: u32,
    is_taken: bool,
    /// When a timer of the place is due, whatever exchange set it.
    wakes_at: Option<Nanos>,
}

/// See the module.
#[derive(Default)]
pub struct Exchanges {
    places: Vec<Exchange>,
    vacant: Vec<u32>,
}

impl Exchanges {
    /// Takes a place; its buffer keeps its memory and is empty.
    pub fn take(&mut self, device: u32, purpose: Purpose, now: Nanos) -> u32 {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Exchange::default());
            self.places.len() as u32 - 1
        });
        if let Some(own) = self.places.get_mut(place as usize) {
            let mut datagram = std::mem::take(&mut own.datagram);
            datagram.clear();
            let (turn, wakes_at) = (own.turn.wrapping_add(1), own.wakes_at);
            *own = Exchange {
                device,
                purpose,
                datagram,
                turn,
                wakes_at,
                is_taken: true,
                begun_at: now,
                ..Exchange::default()
            };
        }
        place
    }

    /// Gives a place back; what was there.
    pub fn free(&mut self, place: u32) -> Option<(u32, Purpose)> {
        let own = self.places.get_mut(place as usize).filter(|own| own.is_taken)?;
        own.is_taken = false;
        self.vacant.push(place);
        Some((own.device, own.purpose))
    }

    /// Whether nothing is under way.
    pub fn are_none(&self) -> bool {
        self.vacant.len() == self.places.len()
    }

    /// Has what is under way at a place looked at then; whether that takes a timer: one that is due before serves as well. Most
    /// exchanges end long before they are looked at, and a timer for each would wake the thread in vain.
    pub fn watch(&mut self, place: u32, at: Nanos) -> bool {
        let Some(own) = self.get_mut(place) else { return false };
        own.look_at = at;
        let is_wanted = own.wakes_at.is_none_or(|wakes_at| wakes_at > at);
        if is_wanted {
            own.wakes_at = Some(at);
        }
        is_wanted
    }

    /// Takes a timer of a place that is due: when it is to be looked at what is under way there, if there is something.
    pub fn woken(&mut self, place: u32, at: Nanos) -> Option<Nanos> {
        let own = self.places.get_mut(place as usize).filter(|own| own.wakes_at == Some(at))?;
        own.wakes_at = None;
        (own.is_taken && own.sendings > 0).then_some(own.look_at)
    }

    /// What is under way at a place.
    pub fn get(&self, place: u32) -> Option<&Exchange> {
        self.places.get(place as usize).filter(|own| own.is_taken)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Exchange> {
        self.places.get_mut(place as usize).filter(|own| own.is_taken)
    }

    /// The token of the request at a place.
    pub fn token(&self, place: u32) -> [u8; TOKEN] {
        let turn = self.turn(place);
        let ([a, b, c, d], [e, f, g, h]) = (place.to_be_bytes(), turn.to_be_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// The turn of a place: the number of its exchange that is under way.
    pub fn turn(&self, place: u32) -> u32 {
        self.places.get(place as usize).map_or(0, |own| own.turn)
    }

    /// Whether a token is that of a request that has ended: its answer comes late, or once more.
    pub fn is_past(&self, token: &[u8]) -> bool {
        let Some((place, turn)) = token.split_first_chunk::<4>() else { return false };
        let known = self.places.get(u32::from_be_bytes(*place) as usize);
        known.is_some_and(|own| turn.len() == 4 && (turn != own.turn.to_be_bytes() || !own.is_taken))
    }

    /// The place whose request has that token.
    pub fn of_token(&self, token: &[u8]) -> Option<u32> {
        let (place, turn) = token.split_first_chunk::<4>()?;
        let place = u32::from_be_bytes(*place);
        let own = self.get(place)?;
        (turn == own.turn.to_be_bytes()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_one_exchange_only() {
        let mut all = Exchanges::default();
        let first = all.take(7, Purpose::Register, Nanos::ZERO);
        let token = all.token(first);
        assert_eq!(all.of_token(&token), Some(first));
        assert_eq!(all.free(first), Some((7, Purpose::Register)));
        assert_eq!((all.of_token(&token), all.free(first)), (None, None));
        assert!(all.are_none());
        let second = all.take(8, Purpose::Update, Nanos::ZERO);
        assert_eq!(second, first, "the place is used again");
        assert!(!all.are_none());
        assert_eq!((all.of_token(&token), all.of_token(&all.token(second))), (None, Some(second)));
        assert!(all.is_past(&token) && !all.is_past(&all.token(second)) && !all.is_past(b"other"));
        assert_eq!([&b""[..], b"abc", &token[..4]].map(|token| all.of_token(token)), [None; 3]);
    }
}
