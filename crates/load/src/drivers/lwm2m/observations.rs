//! Who wants to be notified of what a device has (RFC 7641; 1.1 core, section 6.4).

use super::conditions::Content;
use plimsoll_codec::coap::LONGEST_TOKEN;
use plimsoll_codec::lwm2m::Path;
use plimsoll_model::Nanos;
use std::sync::Arc;

/// What a request is about: one path, or several (1.1 core, section 6.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// One.
    One(Path),
    /// Those of a composite request.
    Several(Arc<[Path]>),
}

impl Paths {
    /// Each of them.
    pub fn all(&self) -> &[Path] {
        match self {
            Paths::One(path) => std::slice::from_ref(path),
            Paths::Several(paths) => paths,
        }
    }

    /// What their values are named from.
    pub fn base(&self) -> Path {
        match self {
            Paths::One(path) => *path,
            Paths::Several(_) => Path::ROOT,
        }
    }

    /// Whether one of them is that path or above it.
    pub fn cover(&self, path: Path) -> bool {
        self.all().iter().any(|own| own.covers(&path))
    }
}

/// A wish to be notified.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What is observed.
    pub paths: Paths,
    /// The server's port that wants it. It may be another one than that for registrations.
    pub port: u16,
    /// The format of its notifications.
    pub content_format: u16,
    /// The newest number of a notification; these have 24 bits.
    pub number: u32,
    /// When it was notified last.
    pub notified_at: Nanos,
    /// The ids of its newest notifications, each in the place of the oldest one, and how many there were.
    ids: [u16; REMEMBERED],
    notified: u32,
    /// What it had then, and when it is looked whether that has changed.
    pub content: Content,
    pub look_at: Nanos,
    /// Whether a change in the shortest period is to be notified of when that ends, whatever there is then.
    pub owed: bool,
    token: [u8; LONGEST_TOKEN],
    token_length: u8,
}

/// Notifications that a server may reset when newer ones have left: those that need no acknowledgement leave before a reset comes.
const REMEMBERED: usize = 16;
/// Numbers of notifications have 24 bits (RFC 7641 section 4.4).
const NUMBERS: u32 = 1 << 24;

impl Observation {
    /// A new one, whose answer is its first notification and has that content.
    pub fn new(
        paths: Paths,
        (port, token): (u16, &[u8]),
        (content_format, content): (u16, Content),
        now: Nanos,
    ) -> Observation {
        let mut room = [0; LONGEST_TOKEN];
        room.iter_mut().zip(token).for_each(|(to, from)| *to = *from);
        let token_length = token.len().min(LONGEST_TOKEN) as u8;
        Observation {
            paths,
            port,
            content_format,
            number: 0,
            notified_at: now,
            ids: [0; REMEMBERED],
            notified: 0,
            content,
            look_at: now,
            owed: false,
            token: room,
            token_length,
        }
    }

    /// The token that its notifications carry.
    pub fn token(&self) -> &[u8] {
        self.token.get(..usize::from(self.token_length)).unwrap_or_default()
    }

    /// Notes a further notification with that id, and gives the observation as that has it.
    pub fn notified(&mut self, id: u16, now: Nanos) -> Observation {
        (self.number, self.notified_at, self.owed) = ((self.number + 1) % NUMBERS, now, false);
        if let Some(place) = self.ids.get_mut(self.notified as usize % REMEMBERED) {
            *place = id;
        }
        self.notified = self.notified.wrapping_add(1);
        self.clone()
    }

    /// Whether it takes the place of another one.
    fn replaces(&self, known: &Observation) -> bool {
        known.port == self.port && (known.token() == self.token() || known.paths == self.paths)
    }

    /// Whether one of its newest notifications had that id.
    fn was_notified(&self, id: u16) -> bool {
        self.ids.iter().take(self.notified as usize).any(|known| *known == id)
    }
}

/// The observations of a device. Most have one or few.
#[derive(Default)]
pub struct Observations(Vec<Observation>);

impl Observations {
    /// Adds one. What has the same port and token takes the place of what had them (RFC 7641 section 4.1), and so does what has the same
    /// port and path: a server that forgot a token observes anew. Its numbers go on from there (section 4.4); the first one of them.
    pub fn add(&mut self, mut new: Observation) -> u32 {
        let replaced = self.0.iter().filter(|known| new.replaces(known));
        let before = replaced.map(|known| known.number + 1).max();
        self.0.retain(|known| !new.replaces(known));
        new.number = before.unwrap_or(0) % NUMBERS;
        let number = new.number;
        self.0.push(new);
        self.0.shrink_to_fit();
        number
    }

    /// Takes away what a port wanted with that token; whether there was such a one.
    pub fn cancel(&mut self, (port, token): (u16, &[u8])) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.port != port || known.token() != token);
        self.0.len() < before
    }

    /// Takes away what a message of that id has notified lately.
    pub fn cancel_notified(&mut self, id: u16) {
        self.0.retain(|known| !known.was_notified(id));
    }

    /// Takes away those that are over.
    pub fn end(&mut self, is_over: impl FnMut(&mut Observation) -> bool) -> Vec<Observation> {
        self.0.extract_if(.., is_over).collect()
    }

    /// Forgets all: the device registers anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How many there are beside those whose place a new one takes.
    pub fn count_beside(&self, new: &Observation) -> usize {
        self.0.iter().filter(|known| !new.replaces(known)).count()
    }

    /// Whether somebody is to be notified of a change there.
    pub fn cover(&self, path: Path) -> bool {
        self.0.iter().any(|own| own.paths.cover(path))
    }

    /// Those that are to be notified of a change there.
    pub fn of(&mut self, path: Path) -> impl Iterator<Item = &mut Observation> {
        self.0.iter_mut().filter(move |own| own.paths.cover(path))
    }

    /// One of them, by its place.
    pub fn at(&mut self, place: usize) -> Option<&mut Observation> {
        self.0.get_mut(place)
    }

    /// When the first one is to be looked at.
    pub fn look_at(&self) -> Nanos {
        self.0.iter().map(|own| own.look_at).min().unwrap_or(Nanos::MAX)
    }

    /// Has all of them looked at: something may have changed.
    pub fn look_again(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|own| own.look_at = now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(path: &str, token: &[u8]) -> Observation {
        let paths = Paths::One(Path::parse(path).unwrap());
        Observation::new(paths, (5683, token), (0, Content::Other(0)), Nanos::ZERO)
    }

    #[test]
    fn a_token_or_a_path_is_observed_once() {
        let mut all = Observations::default();
        all.add(observation("/3303/0/5700", b"a"));
        all.add(observation("/3303/0/5700", b"b"));
        assert_eq!(all.0.len(), 1);
        assert_eq!(all.add(observation("/3303/0/5700", b"b")), 2, "the third one of that path");
        all.add(observation("/3/0", b"b"));
        assert_eq!(all.0.len(), 1);
        assert!(all.cover(Path::resource(3, 0, 9)) && !all.cover(Path::resource(3303, 0, 5700)));
        assert!(!all.cancel((5683, b"a")) && !all.cancel((7, b"b")) && all.cancel((5683, b"b")));
        all.add(observation("/3/0", b"a"));
        let mut elsewhere = observation("/3/0", b"a");
        elsewhere.port = 7;
        all.add(elsewhere);
        assert_eq!(all.0.len(), 2, "two servers may want the same");
    }

    #[test]
    fn a_reset_of_an_older_notification_ends_an_observation() {
        let mut all = Observations::default();
        all.add(observation("/3303/0/5700", b"a"));
        (100..110).for_each(|id| _ = all.at(0).unwrap().notified(id, Nanos::ZERO));
        all.cancel_notified(0);
        assert_eq!(all.0.len(), 1, "no notification had that id");
        all.cancel_notified(103);
        assert_eq!(all.0.len(), 0);
        all.add(observation("/3303/0/5700", b"a"));
        (0..20).for_each(|id| _ = all.at(0).unwrap().notified(id, Nanos::ZERO));
        all.cancel_notified(3);
        assert_eq!(all.0.len(), 1, "that is too long ago");
    }

    #[test]
    fn numbers_go_round_at_24_bits() {
        let mut own = observation("/3", b"");
        own.number = NUMBERS - 1;
        assert_eq!([Nanos(1), Nanos(2)].map(|now| own.notified(1, now).number), [0, 1]);
    }
}
