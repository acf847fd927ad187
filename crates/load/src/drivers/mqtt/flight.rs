//! The QoS 1 and 2 messages that a session has in flight, found by packet id in constant time.
//!
//! Packet ids are given in turn (MQTT 5 section 2.2.1), so those in flight stand in a row with few gaps, and an id tells
//! its place in it. The few whose answer stays out are set aside, so that the row stays short.

use std::collections::{BTreeMap, VecDeque};

/// Packet ids run from 1 to 65,535.
const IDS: usize = 65_535;
/// A row of so many places is never too long.
const SHORT: usize = 64;
/// A longer row has at least one message in flight among so many places.
const SPARSE: usize = 4;

/// Messages in flight.
#[derive(Default)]
pub struct Flight {
    /// The id of the row's front is one more than this.
    front: usize,
    row: VecDeque<Place>,
    aside: BTreeMap<u16, Message>,
    /// Messages in the row.
    open: usize,
}

/// `None` where the message has been answered, or the id was taken by one that is set aside.
type Place = Option<Message>;

/// One message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number within its device.
    pub sequence: u32,
    /// Whether PUBREC came and PUBREL went (QoS 2).
    pub released: bool,
    /// Whether PUBREL was sent again over a later connection.
    pub released_again: bool,
}

impl Flight {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.open + self.aside.len()
    }

    /// Puts a message in flight and gives its packet id. The caller's window keeps the number below 65,535.
    pub fn begin(&mut self, sequence: u32) -> u16 {
        self.shorten();
        loop {
            let id = self.id_at(self.row.len());
            if self.aside.contains_key(&id) {
                self.row.push_back(None);
                continue;
            }
            self.row.push_back(Some(Message { sequence, released: false, released_again: false }));
            self.open += 1;
            return id;
        }
    }

    /// The message with that packet id, `None` where there is none in flight.
    pub fn get_mut(&mut self, id: u16) -> Option<&mut Message> {
        let place = self.place_of(id)?;
        match self.row.get_mut(place) {
            Some(Some(message)) => Some(message),
            _ => self.aside.get_mut(&id),
        }
    }

    /// Takes out the message with that packet id.
    pub fn end(&mut self, id: u16) -> Option<Message> {
        let place = self.place_of(id)?;
        let Some(message) = self.row.get_mut(place).and_then(Option::take) else {
            return self.aside.remove(&id);
        };
        self.open -= 1;
        self.drop_answered();
        Some(message)
    }

    /// Takes back the message that was begun last with that sequence.
    pub fn withdraw(&mut self, sequence: u32) {
        let is_it = |place: &Place| place.is_some_and(|message| message.sequence == sequence);
        if let Some(place) = self.row.iter().rposition(is_it) {
            self.row[place] = None;
            self.open -= 1;
            self.drop_answered();
        }
    }

    /// Every message with its packet id, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Message)> + '_ {
        let row =
            self.row.iter().enumerate().filter_map(|(place, message)| Some((self.id_at(place), (*message)?)));
        self.aside.iter().map(|(&id, &message)| (id, message)).chain(row)
    }

    /// Takes out every message, the oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.open = 0;
        let front = self.front + self.row.len();
        self.front = front % IDS;
        let aside = std::mem::take(&mut self.aside).into_values();
        aside.chain(self.row.drain(..).flatten()).map(|message| message.sequence)
    }

    fn id_at(&self, place: usize) -> u16 {
        ((self.front + place) % IDS) as u16 + 1
    }

    /// `None` for 0, which is no packet id.
    fn place_of(&self, id: u16) -> Option<usize> {
        let index = usize::from(id.checked_sub(1)?);
        Some((index + IDS - self.front) % IDS)
    }

    fn drop_answered(&mut self) {
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.front = (self.front + 1) % IDS;
        }
    }

    /// Sets aside the messages at the front that hold up a row of which most has been answered.
    fn shorten(&mut self) {
        while self.row.len() >= SHORT && (self.row.len() >= self.open * SPARSE || self.row.len() + 1 >= IDS) {
            let id = self.id_at(0);
            if let Some(message) = self.row.pop_front().flatten() {
                self.open -= 1;
                self.aside.insert(id, message);
            }
            self.front = (self.front + 1) % IDS;
            self.drop_answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn ids_begin_anew_after_the_last_and_skip_those_still_in_flight() {
        let mut flight = Flight::default();
        let stuck = flight.begin(0);
        assert_eq!(stuck, 1);
        for sequence in 1..IDS as u32 {
            let id = flight.begin(sequence);
            assert_eq!((u32::from(id), flight.end(id).map(|m| m.sequence)), (sequence + 1, Some(sequence)));
        }
        assert_eq!(flight.begin(9), 2, "1 is still in flight");
        assert_eq!(flight.end(stuck).map(|m| m.sequence), Some(0));
        assert_eq!(flight.len(), 1);
    }

    #[test]
    fn a_full_window_has_every_id_but_one_and_gives_them_back() {
        let mut flight = Flight::default();
        let ids: Vec<u16> = (0..65_534).map(|sequence| flight.begin(sequence)).collect();
        assert_eq!(flight.len(), 65_534);
        for &id in ids.iter().rev() {
            assert!(flight.end(id).is_some());
        }
        assert_eq!((flight.len(), flight.row.len()), (0, 0));
    }

    #[test]
    fn a_message_without_an_answer_does_not_lengthen_the_row() {
        let mut flight = Flight::default();
        flight.begin(0);
        for sequence in 1..10_000 {
            let id = flight.begin(sequence);
            flight.end(id);
            assert!(flight.row.len() <= SHORT);
        }
        assert_eq!(flight.len(), 1);
    }

    proptest! {
        /// Against a map from ids to sequences: every id given is free, and answers in any order find their message.
        #[test]
        fn it_does_what_a_map_does(steps in prop::collection::vec((0u8..4, 0usize..64), 0..2000)) {
            let mut flight = Flight::default();
            let mut map: HashMap<u16, u32> = HashMap::new();
            let mut order: Vec<u16> = Vec::new();
            for (sequence, (what, which)) in (0u32..).zip(steps) {
                match what {
                    0 | 1 => {
                        let id = flight.begin(sequence);
                        prop_assert!(id != 0 && map.insert(id, sequence).is_none());
                        order.push(id);
                    }
                    2 if !order.is_empty() => {
                        let id = order.remove(which % order.len());
                        prop_assert_eq!(flight.get_mut(id).map(|m| m.sequence), map.get(&id).copied());
                        prop_assert_eq!(flight.end(id).map(|m| m.sequence), map.remove(&id));
                        prop_assert!(flight.end(id).is_none());
                    }
                    _ => if let Some(id) = order.pop() {
                        let sequence = map.remove(&id);
                        flight.withdraw(sequence.unwrap_or_default());
                        prop_assert!(flight.get_mut(id).is_none() || flight.aside.contains_key(&id));
                        // One that was set aside stays in flight until it is answered.
                        flight.end(id);
                    }
                }
                prop_assert_eq!(flight.len(), map.len());
            }
            let mut left: Vec<u32> = flight.drain().collect();
            let mut expected: Vec<u32> = map.into_values().collect();
            left.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }
}
