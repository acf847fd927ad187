//! Which clients lost their connection, and which of them are back.

use crate::driver::Client;
use plimsoll_model::Nanos;
use plimsoll_model::record::LevelOutages;
use std::collections::{HashMap, HashSet};

/// The outages of one shard's clients.
#[derive(Debug, Default)]
pub struct Outages {
    /// Clients that are away, and since when.
    away: HashMap<Client, Nanos>,
    /// From when on a loss belongs to the level; `None` between levels.
    since: Option<Nanos>,
    /// Clients that were lost in the level, each once.
    lost: HashSet<Client>,
    /// The longest outage of those that came back.
    longest: Option<Nanos>,
}

impl Outages {
    /// A level begins whose losses are those from `since` on: its hold, or where a storm is planned what that takes away.
    pub fn begin(&mut self, since: Nanos) {
        self.since = Some(since);
        self.lost.clear();
        self.longest = None;
    }

    /// A client lost its connection.
    pub fn lost(&mut self, client: Client, at: Nanos) {
        self.away.insert(client, at);
        if self.since.is_some_and(|since| at >= since) {
            self.lost.insert(client);
        }
    }

    /// A client is back; how long it was away, `None` for one that was not.
    pub fn back(&mut self, client: Client, at: Nanos) -> Option<Nanos> {
        let lost = self.away.remove(&client)?;
        let outage = at - lost;
        if self.since.is_some_and(|since| lost >= since) {
            self.longest = self.longest.max(Some(outage));
        }
        Some(outage)
    }

    /// A client is not wanted any more.
    pub fn forget(&mut self, client: Client) {
        self.away.remove(&client);
    }

    /// The level is over.
    pub fn end(&mut self) -> LevelOutages {
        self.since = None;
        let away = self.lost.iter().filter(|client| self.away.contains_key(client)).count();
        LevelOutages {
            lost: self.lost.len() as u32,
            back: (self.lost.len() - away) as u32,
            away_before: (self.away.len() - away) as u32,
            longest: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_lost_before_the_storm_stands_for_nobody_whom_it_took() {
        let [first, second, third] = [0, 1, 2].map(Client::Device);
        let mut outages = Outages::default();
        outages.begin(Nanos(100));
        outages.lost(first, Nanos(50));
        outages.lost(second, Nanos(100));
        outages.lost(third, Nanos(101));
        assert_eq!(outages.back(first, Nanos(500)), Some(Nanos(450)));
        assert_eq!(outages.back(second, Nanos(300)), Some(Nanos(200)));
        let end = outages.end();
        assert_eq!(end, LevelOutages { lost: 2, back: 1, away_before: 0, longest: Some(Nanos(200)) });
        assert_eq!(end.recovery(), None, "the third is still away");

        outages.begin(Nanos(1000));
        assert_eq!(outages.back(third, Nanos(1100)), Some(Nanos(999)));
        assert_eq!(outages.end(), LevelOutages::default(), "an outage of the level before");
    }

    #[test]
    fn a_client_that_is_lost_twice_is_one_client() {
        let (client, other) = (Client::Device(0), Client::Subscriber(0));
        let mut outages = Outages::default();
        outages.lost(other, Nanos(1));
        outages.begin(Nanos(10));
        for (lost, back) in [(20, 50), (60, 70)] {
            outages.lost(client, Nanos(lost));
            assert!(outages.back(client, Nanos(back)).is_some());
        }
        assert_eq!(outages.back(client, Nanos(80)), None, "it was not away");
        let end = outages.end();
        assert_eq!(end, LevelOutages { lost: 1, back: 1, away_before: 1, longest: Some(Nanos(30)) });
        assert_eq!(end.recovery(), None, "not all are back");
        outages.forget(other);
        outages.begin(Nanos(100));
        assert_eq!(outages.end().away_before, 0);
    }
}
