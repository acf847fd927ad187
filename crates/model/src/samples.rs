//! The samples of a hold. A hold whose length is known beforehand is cut into equal parts. One that ends after a number of
//! messages of the closed model is cut into short pieces, of which the samples are put together once its length is known.

use crate::Nanos;
use crate::record::{LevelRecord, LevelStart, SampleRecord};

/// Shortest piece: each is stored by each load thread.
const SHORTEST_PIECE: Nanos = Nanos::from_millis(100);
/// Most pieces of a hold.
const MOST_PIECES: i64 = 36_000;

/// The length that a hold can have at most, in whole pieces, and how many they are: ten a second where it has an hour at most.
pub fn pieces_of(longest: Nanos) -> (Nanos, u16) {
    let piece = Nanos(divided(longest, Nanos(MOST_PIECES))).max(SHORTEST_PIECE);
    let pieces = divided(longest, piece).max(1);
    (piece * pieces, u16::try_from(pieces).unwrap_or(u16::MAX))
}

/// How many parts of that length cover a time.
fn divided(time: Nanos, part: Nanos) -> i64 {
    let part = part.0.max(1);
    time.0 / part + i64::from(time.0 % part > 0)
}

impl LevelStart {
    /// When a sample begins, counted from the beginning of the hold.
    pub fn sample_begin(&self, sample: usize) -> Nanos {
        let sample = i64::try_from(sample).unwrap_or(i64::MAX);
        match self.cut {
            Some(cut) => Nanos(cut.0.saturating_mul(sample)).min(self.hold),
            None => self.hold / i64::from(self.samples.max(1)) * sample,
        }
    }

    /// The length of a sample, in seconds. Of those that were put together, the last is shorter than the others.
    pub fn sample_seconds(&self, sample: usize) -> f64 {
        match self.cut {
            Some(_) => (self.sample_begin(sample + 1) - self.sample_begin(sample)).as_secs_f64(),
            None => self.hold.as_secs_f64() / f64::from(self.samples.max(1)),
        }
    }
}

impl LevelRecord {
    /// Puts samples together of the pieces of a hold whose length is known now, or of as much of it as was recorded. To be called
    /// when everything was added.
    pub fn put_together(&mut self) {
        let Some(wanted) = self.start.put_together else { return };
        let piece = (self.start.hold / i64::from(self.start.samples.max(1))).max(Nanos(1));
        let recorded = self.samples.iter().rposition(Option::is_some).map_or(0, |last| last as i64 + 1);
        let ended = self.end.as_ref().and_then(|end| end.hold);
        let hold = ended.unwrap_or(piece * recorded).clamp(piece, self.start.hold.max(piece));
        let pieces = usize::try_from(divided(hold, piece)).unwrap_or(1).max(1);
        let group = pieces.div_ceil(usize::from(wanted.max(1)));
        self.put_in_groups(hold, piece * group as i64, (pieces, group));
    }

    fn put_in_groups(&mut self, hold: Nanos, cut: Nanos, (pieces, group): (usize, usize)) {
        let mut samples: Vec<Option<SampleRecord>> = vec![None; pieces.div_ceil(group)];
        let last = samples.len() - 1;
        // What came after the hold is booked under its last sample.
        for (place, piece) in self.samples.drain(..).enumerate() {
            if let (Some(piece), Some(sample)) = (piece, samples.get_mut((place / group).min(last))) {
                sample.get_or_insert_default().absorb(piece.counts, piece.histograms);
            }
        }
        self.samples = samples;
        self.threads.retain(|usage| usize::from(usage.sample) < pieces);
        for usage in &mut self.threads {
            usage.sample /= u16::try_from(group).unwrap_or(u16::MAX);
        }
        self.start.samples = u16::try_from(self.samples.len()).unwrap_or(u16::MAX);
        (self.start.hold, self.start.cut, self.start.put_together) = (hold, Some(cut), None);
        for population in &mut self.populations {
            population.put_in_groups(hold, cut, (pieces, group));
        }
    }

    /// How long the hold was, in seconds; of an unfinished one what its samples cover.
    pub fn seconds(&self) -> f64 {
        let taken = || self.samples.iter().enumerate().filter(|(_, sample)| sample.is_some());
        let start = &self.start;
        match start.cut {
            Some(_) => {
                let lengths = taken().map(|(at, _)| start.sample_begin(at + 1) - start.sample_begin(at));
                lengths.sum::<Nanos>().as_secs_f64()
            }
            None => start.hold.as_secs_f64() * taken().count() as f64 / f64::from(start.samples.max(1)),
        }
    }

    /// Whether the level was held to its end: the user did not cut it short.
    pub fn is_whole(&self) -> bool {
        let Some(end) = &self.end else { return false };
        match self.start.cut {
            Some(_) => end.hold.is_some(),
            None => end.at >= self.start.hold_start + self.start.hold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counts;
    use crate::record::{LevelEnd, ThreadUsage};

    #[test]
    fn pieces_are_short_and_few() {
        assert_eq!(pieces_of(Nanos::from_secs(30)), (Nanos::from_secs(30), 300));
        assert_eq!(pieces_of(Nanos::from_secs(3600)), (Nanos::from_secs(3600), 36_000));
        assert_eq!(pieces_of(Nanos::from_millis(250)), (Nanos::from_millis(300), 3));
        let (longest, pieces) = pieces_of(Nanos::from_secs(100_000));
        assert!(longest >= Nanos::from_secs(100_000) && pieces <= 36_000, "{longest:?} in {pieces}");
    }

    /// A level that can take a second, in pieces of 100 ms, in each of which so many messages were due.
    fn level(due: &[u64], wanted: u16, end: Option<Nanos>) -> LevelRecord {
        let start = LevelStart {
            hold: Nanos::from_secs(1),
            samples: 10,
            put_together: Some(wanted),
            ..LevelStart::default()
        };
        let end = LevelEnd { hold: end, at: Nanos::from_secs(1), ..LevelEnd::default() };
        let mut record = LevelRecord::begun(start, Some(end), 2);
        for (piece, &due) in (0..).zip(due) {
            let counts = Counts { due, ..Counts::default() };
            record.absorb((0, Some(piece)), counts, Vec::new()).unwrap();
            let wall = Nanos::from_millis(100);
            let [cpu, run_delay, steal] = [Nanos::ZERO; 3];
            let (level, sample, thread, timeslices) = (0, piece, 0, 0);
            let usage = ThreadUsage { level, sample, thread, wall, cpu, run_delay, timeslices, steal };
            record.threads.push(usage);
        }
        record.put_together();
        record
    }

    fn due(record: &LevelRecord) -> Vec<u64> {
        record.samples.iter().map(|sample| sample.as_ref().map_or(0, |sample| sample.counts.due)).collect()
    }

    #[test]
    fn samples_are_put_together_of_pieces_and_the_last_is_shorter() {
        let record = level(&[1, 2, 3, 4, 5, 6, 7], 3, Some(Nanos::from_millis(650)));
        assert_eq!(due(&record), [6, 15, 7]);
        assert_eq!(due(&record.populations[0]), [6, 15, 7]);
        let lengths = [0, 1, 2].map(|sample| record.start.sample_seconds(sample));
        assert!(lengths.iter().zip([0.3, 0.3, 0.05]).all(|(a, b)| (a - b).abs() < 1e-9), "{lengths:?}");
        assert_eq!(record.start.sample_begin(2), Nanos::from_millis(600));
        let read: Vec<u16> = record.threads.iter().map(|usage| usage.sample).collect();
        assert_eq!(read, [0, 0, 0, 1, 1, 1, 2]);
        assert!(record.is_whole());
    }

    #[test]
    fn what_comes_after_the_hold_is_booked_under_its_last_sample() {
        let record = level(&[1, 1, 1, 1, 1], 30, Some(Nanos::from_millis(300)));
        assert_eq!((due(&record), record.threads.len()), (vec![1, 1, 3], 3));
    }

    #[test]
    fn a_level_that_was_cut_short_has_what_was_recorded() {
        let record = level(&[1, 1, 1, 1], 2, None);
        assert_eq!((due(&record), record.start.hold), (vec![2, 2], Nanos::from_millis(400)));
        assert!(!record.is_whole());
        let nothing = level(&[], 2, None);
        assert_eq!(nothing.samples, [None]);
    }

    #[test]
    fn equal_samples_stay() {
        let start = LevelStart { hold: Nanos::from_secs(3), samples: 3, ..LevelStart::default() };
        let mut record = LevelRecord::begun(start, None, 0);
        record.put_together();
        assert_eq!(record.samples.len(), 3);
        assert_eq!(
            (record.start.sample_begin(2), record.start.sample_seconds(2)),
            (Nanos::from_secs(2), 1.0)
        );
    }
}
