//! Requests that were answered: a repetition gets the same answer, and is not taken for a second request (RFC 7252
//! section 4.5).

use super::channel::Peer;
use super::message_ids::EXCHANGE_LIFETIME;
use plimsoll_codec::coap::{LONGEST_TOKEN, Message};
use plimsoll_model::Nanos;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How many requests are remembered at most, where nobody needs more.
const MOST: usize = 100_000;

/// What a repetition has in common with its original. Platforms in a hurry use message ids again before their time, but
/// not with the same token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestKey<P = Peer> {
    from: P,
    id: u16,
    token: [u8; LONGEST_TOKEN],
}

impl<P> RequestKey<P> {
    /// Of a request of that peer, or to that one of several who share a socket.
    pub fn of(request: &Message<'_>, from: P) -> RequestKey<P> {
        let mut token = [0; LONGEST_TOKEN];
        token.iter_mut().zip(request.token).for_each(|(to, from)| *to = *from);
        RequestKey { from, id: request.id, token }
    }
}

/// See the module. It has no memory of its own before the first answer: most sockets give none.
pub struct Answered<P = Peer> {
    answers: HashMap<RequestKey<P>, Vec<u8>>,
    /// The same requests by the time of their answers.
    order: VecDeque<(Nanos, RequestKey<P>)>,
    /// How many there are at most.
    most: usize,
}

impl<P> Default for Answered<P> {
    fn default() -> Answered<P> {
        Answered { answers: HashMap::new(), order: VecDeque::new(), most: MOST }
    }
}

impl<P: Copy + Eq + Hash> Answered<P> {
    /// With room for so many requests, or more.
    pub fn with_room(wanted: usize) -> Answered<P> {
        Answered { most: wanted.max(MOST), ..Answered::default() }
    }

    /// The answer that the request got, as bytes; `None` for one that is new.
    pub fn answer(&self, request: &RequestKey<P>) -> Option<&[u8]> {
        self.answers.get(request).map(Vec::as_slice)
    }

    /// Remembers an answer for as long as its request may be repeated, and forgets what is older.
    pub fn remember(&mut self, request: RequestKey<P>, answer: Vec<u8>, now: Nanos) {
        while self.has_old(now) {
            if let Some((_, old)) = self.order.pop_front() {
                self.answers.remove(&old);
            }
        }
        self.answers.insert(request, answer);
        self.order.push_back((now, request));
    }

    fn has_old(&self, now: Nanos) -> bool {
        let outlived = |(at, _): &(Nanos, RequestKey<P>)| now - *at > EXCHANGE_LIFETIME;
        self.order.len() >= self.most || self.order.front().is_some_and(outlived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::coap::Kind;

    fn key(id: u16, token: &[u8]) -> RequestKey {
        RequestKey::of(&Message { token, ..Message::empty(Kind::Confirmable, id) }, Peer::Connected)
    }

    #[test]
    fn an_answer_is_known_for_as_long_as_its_request_may_be_repeated() {
        let mut answered = Answered::default();
        answered.remember(key(1, b"a"), b"first".to_vec(), Nanos::ZERO);
        assert_eq!(answered.answer(&key(1, b"a")), Some(&b"first"[..]));
        assert_eq!([key(1, b"b"), key(2, b"a")].map(|other| answered.answer(&other)), [None, None]);
        answered.remember(key(2, b"a"), b"second".to_vec(), EXCHANGE_LIFETIME);
        assert!(answered.answer(&key(1, b"a")).is_some());
        answered.remember(key(3, b"a"), b"third".to_vec(), EXCHANGE_LIFETIME + Nanos(1));
        assert!(answered.answer(&key(1, b"a")).is_none());
        assert_eq!(answered.answer(&key(2, b"a")), Some(&b"second"[..]));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut answered = Answered::default();
        for number in 0..MOST as u32 + 5 {
            let token = number.to_be_bytes();
            answered.remember(key(0, &token), Vec::new(), Nanos::ZERO);
        }
        assert_eq!((answered.answers.len(), answered.order.len()), (MOST, MOST));
        assert!(answered.answer(&key(0, &4_u32.to_be_bytes())).is_none());
        assert!(answered.answer(&key(0, &5_u32.to_be_bytes())).is_some());
    }
}
