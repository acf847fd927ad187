//! One level while it goes on: what was due and what was done in each of its samples.

use crate::so_far::{Gathering, SoFar};
use plimsoll_model::record::{LevelEnd, LevelStart, SamplePart, Terms};
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Nanos};

/// See the module.
pub struct LevelWatch {
    pub start: LevelStart,
    /// What it shows so far.
    gathering: Gathering,
    /// The sample whose end is awaited.
    next_sample: u16,
    /// Whether the connections were looked at since the hold began.
    pub looked_at_connections: bool,
    /// Operations of each sample that were completed or answered.
    completed: Vec<u64>,
    /// Operations of each sample that were due.
    due: Vec<u64>,
    /// Operations, those of the warm-up included, that were due and have not come to their end.
    open: u64,
    /// For how long this process stood still.
    pub stood_still: Nanos,
    /// What a storm did.
    pub stormed: Vec<String>,
}

impl LevelWatch {
    /// A level that begins.
    pub fn begin(start: &LevelStart, terms: &Terms) -> LevelWatch {
        LevelWatch {
            start: start.clone(),
            gathering: Gathering::new(terms, start.hold),
            next_sample: 0,
            looked_at_connections: false,
            completed: vec![0; usize::from(start.samples)],
            due: vec![0; usize::from(start.samples)],
            open: 0,
            stood_still: Nanos::ZERO,
            stormed: Vec::new(),
        }
    }

    /// Takes in a part of it.
    pub fn add(&mut self, part: &SamplePart) {
        self.gathering.add(part);
        let Counts { due, completed, refused, answers, .. } = part.counts;
        self.open = (self.open + due).saturating_sub(completed + refused);
        let sample = part.sample.map(usize::from);
        if let Some(sum) = sample.and_then(|sample| self.due.get_mut(sample)) {
            *sum += due;
        }
        if let Some(sum) = sample.and_then(|sample| self.completed.get_mut(sample)) {
            // Who refuses is there.
            *sum += completed + answers;
        }
    }

    /// What is to be shown at that time.
    pub fn told(&mut self, now: Nanos) -> SoFar {
        self.gathering.told(now)
    }

    /// Whether its hold has not begun by then.
    pub fn is_before_hold(&self, now: Nanos) -> bool {
        self.next_sample == 0 && now < self.start.hold_start
    }

    /// Whether the end of a sample is awaited.
    pub fn is_sampled(&self) -> bool {
        self.next_sample < self.start.samples
    }

    /// The sample that has ended by then, the last where several have: after a hiccup of ours one reading covers them all.
    pub fn ended_sample(&mut self, now: Nanos) -> Option<u16> {
        let start = &self.start;
        let ended = |sample: u16| {
            let parts = i64::from(start.samples.max(1));
            now >= start.hold_start + start.hold * i64::from(sample + 1) / parts
        };
        if !self.is_sampled() || !ended(self.next_sample) {
            return None;
        }
        while self.next_sample + 1 < start.samples && ended(self.next_sample + 1) {
            self.next_sample += 1;
        }
        self.next_sample += 1;
        Some(self.next_sample - 1)
    }

    /// When its hold ended.
    pub fn hold_end(&self, end: &LevelEnd) -> Nanos {
        self.start.hold_start + end.hold.unwrap_or(self.start.hold)
    }

    /// Whether nothing was completed in the last third of the hold although something was asked for.
    pub fn is_silent(&self, end: &LevelEnd) -> bool {
        let piece = (self.start.hold / i64::from(self.start.samples.max(1))).max(Nanos(1));
        let held = end.hold.map_or(usize::MAX, |hold| usize::try_from(hold.0 / piece.0 + 1).unwrap_or(1));
        let samples = self.completed.len().min(held);
        let last_third = samples - (samples / 3 + 1).min(samples);
        let any = |counts: &[u64]| counts.iter().take(samples).skip(last_third).any(|&count| count > 0);
        // Where nothing was asked, silence is no answer.
        let asked = self.open > 0 || any(&self.due);
        asked && !any(&self.completed)
    }

    /// Says of a level that was to end after a number of messages that its time was over before.
    pub fn cut_by_time(&self) -> Option<String> {
        let due: u64 = self.due.iter().sum();
        let messages = self.start.messages.filter(|&messages| due < messages)?;
        let [due, messages] = [due as f64, messages as f64].map(grouped);
        Some(format!("the level ended by time: {due} of its {messages} messages were due by then"))
    }

    /// How long the hold takes, as far as it can be told now.
    pub fn expected_hold(&self, now: Nanos) -> Nanos {
        let (start, due) = (&self.start, self.due.iter().sum::<u64>());
        let messages = start.messages.filter(|_| start.put_together.is_some() && due > 0);
        let so_far = (now - start.hold_start).as_secs_f64();
        let expected = messages.map(|messages| Nanos::from_secs_f64(so_far * messages as f64 / due as f64));
        expected.map_or(start.hold, |expected| expected.min(start.hold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(samples: &[(u64, u64)], open: u64) -> LevelWatch {
        let start =
            LevelStart { samples: 6, hold: Nanos::from_secs(6), messages: Some(10), ..LevelStart::default() };
        let mut level = LevelWatch::begin(&start, &Terms::default());
        for (sample, &(due, completed)) in (0..).zip(samples) {
            let counts = Counts { due, completed, ..Counts::default() };
            level.add(&SamplePart { sample: Some(sample), counts, ..SamplePart::default() });
        }
        level.open = open;
        level
    }

    #[test]
    fn silence_is_that_of_the_last_third_and_of_those_who_were_asked() {
        let end = LevelEnd::default();
        let of = |samples: &[(u64, u64)], open| watched(samples, open).is_silent(&end);
        assert!(of(&[(1, 1), (1, 1), (1, 1), (1, 0), (1, 0), (1, 0)], 3));
        assert!(!of(&[(1, 1), (1, 1), (1, 1), (1, 1), (1, 0), (1, 0)], 2));
        assert!(!of(&[(1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)], 0), "nobody was asked");
        let early = LevelEnd { hold: Some(Nanos::from_millis(2500)), ..LevelEnd::default() };
        assert!(!watched(&[(1, 1), (1, 1), (1, 1)], 0).is_silent(&early), "the hold was over");
        assert!(watched(&[(1, 1), (1, 0), (1, 0)], 2).is_silent(&early));
    }

    #[test]
    fn one_reading_covers_the_samples_that_ended_since_the_last() {
        let mut level = watched(&[], 0);
        let at = Nanos::from_millis;
        assert_eq!(
            [at(500), at(1000), at(1500), at(3999), at(9000), at(9999)].map(|now| level.ended_sample(now)),
            [None, Some(0), None, Some(2), Some(5), None]
        );
    }

    #[test]
    fn a_level_whose_time_was_over_says_what_was_due() {
        assert!(
            watched(&[(4, 4)], 0).cut_by_time().is_some_and(|told| told.contains("4 of its 10 messages"))
        );
        assert_eq!(watched(&[(4, 4), (6, 6)], 0).cut_by_time(), None);
    }
}
