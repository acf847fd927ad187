//! A time within a hold in which nothing came to its end although much was due: somebody stood still.

use plimsoll_model::record::LevelRecord;
use plimsoll_model::{Metric, Nanos};

/// Operations that must have been due meanwhile for the silence not to be chance.
const FEWEST: u64 = 20;

/// Round trips of the network that must be expected in it for their absence not to be chance.
const FEWEST_TRIPS: f64 = 4.0;

/// A silence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// When it began and ended, from the beginning of the hold, to the samples' length.
    pub from: Nanos,
    /// See `from`.
    pub to: Nanos,
    /// The network's own round trips in it, as a share of those in as long a time of the rest of the hold; `None` where there
    /// were too few to tell. A silence outlasts a cut of the network, since what was lost is sent again with pauses.
    pub network_answered: Option<f64>,
}

impl Stall {
    /// For people.
    pub fn in_words(&self) -> String {
        let (from, to) = (self.from.as_secs_f64(), self.to.as_secs_f64());
        format!("nothing was completed from {from:.1} s to {to:.1} s of the hold")
    }
}

/// The longest silence of a hold whose operations are acknowledged; `None` where there was none.
pub fn of(record: &LevelRecord) -> Option<Stall> {
    let mut longest: Option<(usize, usize)> = None;
    let mut begin = 0;
    for (position, sample) in record.samples.iter().enumerate() {
        // Who refuses answers, too.
        let silent =
            sample.as_ref().is_some_and(|sample| sample.counts.completed == 0 && sample.counts.answers == 0);
        if !silent {
            begin = position + 1;
            continue;
        }
        let due: u64 = record.samples[begin..=position].iter().flatten().map(|s| s.counts.due).sum();
        if due >= FEWEST && longest.is_none_or(|(from, to)| position - begin > to - from) {
            longest = Some((begin, position));
        }
    }
    let (from, to) = longest?;
    let trips = |sample: &plimsoll_model::record::SampleRecord| {
        sample.histograms.get(&Metric::NetworkRtt).map_or(0, |seen| seen.count())
    };
    let all: u64 = record.samples.iter().flatten().map(trips).sum();
    let meanwhile: u64 = record.samples[from..=to].iter().flatten().map(trips).sum();
    let within = to - from + 1;
    let elsewhere = record.samples.len().saturating_sub(within);
    let expected = (all - meanwhile) as f64 * within as f64 / elsewhere.max(1) as f64;
    Some(Stall {
        from: record.start.sample_begin(from),
        to: record.start.sample_begin(to + 1),
        network_answered: (expected >= FEWEST_TRIPS).then(|| meanwhile as f64 / expected),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::{LevelStart, SampleRecord};
    use plimsoll_model::{Counts, Histogram};

    fn level(completed: &[u64], due: u64, trips: &[u64]) -> LevelRecord {
        let sample = |(completed, trips): (&u64, &u64)| {
            let mut seen = Histogram::new();
            seen.record_n(Nanos::from_micros(200), *trips);
            let counts = Counts { due, completed: *completed, ..Counts::default() };
            Some(SampleRecord { counts, histograms: [(Metric::NetworkRtt, seen)].into() })
        };
        LevelRecord {
            populations: Vec::new(),
            start: LevelStart {
                hold: Nanos::from_secs(completed.len() as i64),
                samples: completed.len() as u16,
                ..LevelStart::default()
            },
            end: None,
            warm_up: SampleRecord::default(),
            samples: completed.iter().zip(trips).map(sample).collect(),
            threads: Vec::new(),
        }
    }

    #[test]
    fn who_refuses_everything_is_not_silent() {
        let mut level = level(&[5, 0, 0, 5], 20, &[1; 4]);
        assert!(of(&level).is_some());
        level.samples.iter_mut().flatten().for_each(|sample| sample.counts.answers = 5);
        assert_eq!(of(&level), None);
    }

    #[test]
    fn the_longest_silence_is_found_and_whether_the_network_answered_meanwhile() {
        let completed = [50, 0, 50, 0, 0, 0, 200, 50];
        let stall = of(&level(&completed, 50, &[4; 8])).unwrap();
        assert_eq!((stall.from, stall.to), (Nanos::from_secs(3), Nanos::from_secs(6)));
        assert_eq!(stall.network_answered, Some(1.0));
        assert_eq!(stall.in_words(), "nothing was completed from 3.0 s to 6.0 s of the hold");
        let cut = of(&level(&completed, 50, &[4, 4, 4, 0, 0, 0, 4, 4])).unwrap();
        assert_eq!(cut.network_answered, Some(0.0));
        assert_eq!(of(&level(&completed, 50, &[0; 8])).unwrap().network_answered, None);
        let back = of(&level(&completed, 50, &[4, 4, 4, 0, 0, 4, 4, 4])).unwrap();
        assert!(back.network_answered.is_some_and(|share| (share - 1.0 / 3.0).abs() < 1e-9), "{back:?}");
        assert_eq!(of(&level(&completed, 1, &[4; 8])), None, "so little was due that silence is chance");
        assert_eq!(of(&level(&[50; 8], 50, &[4; 8])), None);
    }
}
