//! Messages of which a platform says what became of them by their numbers, which follow each other.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The row may be that long whatever its first message waits for.
const SHORT: usize = 1024;

/// See the module.
#[derive(Default)]
pub struct Flight {
    /// The messages, in the order of their numbers; `None` where it has been said.
    row: VecDeque<Option<u32>>,
    /// Those in `row` of which it has not.
    open: usize,
    /// The number of the first in `row`.
    first: u64,
    /// Those that ended together last.
    ended: Vec<u32>,
}

impl Flight {
    /// Numbers begin there on a new connection; nothing is under way.
    pub fn begin(&mut self, first: u64) {
        self.first = first;
    }

    /// The number of the first one of which it was not said what became of it.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether one more may be under way, of so many at most.
    pub fn has_room(&self, most: u16) -> bool {
        let most = usize::from(most);
        self.open < most && self.row.len() < 2 * most.max(SHORT)
    }

    /// A message goes, with the next number.
    pub fn push(&mut self, sequence: u32) {
        self.row.push_back(Some(sequence));
        self.open += 1;
    }

    /// Those in these places behind the first one have ended; whether there were any. [`Flight::ended`] has them.
    pub fn end(&mut self, places: RangeInclusive<usize>) -> bool {
        self.ended.clear();
        if *places.end() >= self.row.len() || places.is_empty() {
            return false;
        }
        self.ended.extend(self.row.range_mut(places).filter_map(Option::take));
        self.open -= self.ended.len();
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.first += 1;
        }
        !self.ended.is_empty()
    }

    /// All have ended; whether there were any.
    pub fn end_all(&mut self) -> bool {
        self.row.len().checked_sub(1).is_some_and(|last| self.end(0..=last))
    }

    /// Those that ended together last.
    pub fn ended(&self) -> &[u32] {
        &self.ended
    }

    /// A message was not sent: it has no number, since it is always the last one.
    pub fn withdraw(&mut self, sequence: u32) {
        let Some(place) = self.row.iter().rposition(|own| *own == Some(sequence)) else { return };
        self.open -= 1;
        if place + 1 == self.row.len() {
            self.row.pop_back();
        } else if let Some(own) = self.row.get_mut(place) {
            *own = None;
        }
    }

    /// Takes out all of which it was not said.
    pub fn drain(&mut self) -> Vec<u32> {
        self.open = 0;
        self.row.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_follows_what_has_ended() {
        let mut flight = Flight::default();
        flight.begin(1);
        (10..14).for_each(|sequence| flight.push(sequence));
        assert!(!flight.has_room(4) && flight.has_room(5));
        assert!(flight.end(1..=1) && flight.ended() == [11] && flight.first() == 1);
        assert!(flight.end(0..=1) && flight.ended() == [10] && flight.first() == 3);
        assert!(!flight.end(2..=2) && flight.ended().is_empty());
        flight.withdraw(13);
        flight.push(14);
        assert!(flight.end(1..=1) && flight.ended() == [14]);
        assert!(flight.end_all() && flight.ended() == [12]);
        assert!(!flight.end_all());
        flight.push(15);
        assert_eq!(flight.drain(), [15]);
        assert!(flight.has_room(1));
    }
}
