//! How fast counters grow that are read again and again.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Instant;

/// Remembers the last values of counters that only grow.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    last: Option<(Instant, HashMap<K, u64>)>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Rates { last: None }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// The growth of each counter per second since the last call; nothing at the first. A counter that was not there at the
    /// last call, or that began again, is left out.
    pub fn since_last(&mut self, now: Instant, counters: HashMap<K, u64>) -> Vec<(K, f64)>
    where
        K: Clone,
    {
        let grown = match &self.last {
            Some((then, before)) if now > *then => {
                let seconds = (now - *then).as_secs_f64();
                let growth = |(key, &value): (&K, &u64)| {
                    let grown = value.checked_sub(*before.get(key)?)?;
                    Some((key.clone(), grown as f64 / seconds))
                };
                counters.iter().filter_map(growth).collect()
            }
            _ => Vec::new(),
        };
        self.last = Some((now, counters));
        grown
    }
}

/// Sums by subject, in the order of the subjects.
pub(crate) fn sum_by<K, S: Ord>(
    rates: impl IntoIterator<Item = (K, f64)>,
    subject: impl Fn(&K) -> S,
) -> BTreeMap<S, f64> {
    let mut sums = BTreeMap::new();
    for (key, rate) in rates {
        *sums.entry(subject(&key)).or_insert(0.0) += rate;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn growth_is_per_second_and_what_began_again_is_left_out() {
        let (mut rates, begin) = (Rates::default(), Instant::now());
        assert!(rates.since_last(begin, HashMap::from([("a", 5), ("b", 9)])).is_empty());
        let now = begin + Duration::from_secs(2);
        let grown = rates.since_last(now, HashMap::from([("a", 15), ("b", 3), ("c", 7)]));
        assert_eq!(grown, [("a", 5.0)]);
        assert!(rates.since_last(now, HashMap::from([("a", 20)])).is_empty(), "no time passed");
    }
}
