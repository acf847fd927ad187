//! How old the newest value of a device is that a subscriber has: what a city sees of a platform that is late or loses
//! messages. The age is looked at on a grid of time, so that each moment counts alike, and grows from the level's
//! beginning where nothing has come yet.

use crate::recorder::{Recorder, Timeline};
use plimsoll_model::{Metric, Nanos};

/// Looks a second at most, over all pairs of device and subscriber of a shard; more would cost more than it tells.
const LOOKS_PER_SECOND: i64 = 1_000;
/// Shortest time between two looks at one pair.
const SHORTEST_STEP: Nanos = Nanos::from_millis(100);
/// Looks at the pairs are spread over the step by this fraction of it, the golden ratio's, from one to the next.
const SPREAD: f64 = 0.618_033_988_749_895;

/// The ages of the devices of one shard.
pub struct Freshness {
    /// For each device, for each of its receivers.
    newest: Vec<Box<[Newest]>>,
    step: Nanos,
    level: Option<Timeline>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    /// When the newest value delivered was due.
    due: Nanos,
    /// When its age is looked at next.
    look: Nanos,
}

impl Freshness {
    /// For devices with so many receivers each.
    pub fn new(receivers: impl Iterator<Item = usize>) -> Freshness {
        let newest: Vec<Box<[Newest]>> =
            receivers.map(|count| vec![Newest::default(); count].into()).collect();
        let pairs: usize = newest.iter().map(|of_device| of_device.len()).sum();
        let step = Nanos(pairs as i64 * 1_000_000_000 / LOOKS_PER_SECOND).max(SHORTEST_STEP);
        Freshness { newest, step, level: None }
    }

    /// A level begins, in which the first `devices` of the shard take part.
    pub fn begin(&mut self, timeline: Timeline, devices: usize) {
        self.level = Some(timeline);
        let mut phase = 0.0f64;
        for (position, of_device) in self.newest.iter_mut().enumerate() {
            for newest in of_device.iter_mut() {
                phase = (phase + SPREAD).fract();
                let look = timeline.hold_start + Nanos((self.step.0 as f64 * phase) as i64);
                let look = if position < devices { look } else { Nanos::MAX };
                *newest = Newest { due: timeline.start, look };
            }
        }
    }

    /// A message that was due then has been delivered.
    pub fn delivered(
        &mut self,
        recorder: &mut Recorder,
        (device, receiver): (usize, usize),
        due: Nanos,
        at: Nanos,
    ) {
        let Some(timeline) = self.level else { return };
        let newest = self.newest.get_mut(device).and_then(|of_device| of_device.get_mut(receiver));
        let Some(newest) = newest.filter(|newest| due > newest.due) else { return };
        look(recorder, &timeline, newest, self.step, at);
        newest.due = due;
    }

    /// The hold ends at that time, which was not known before.
    pub fn hold_ends(&mut self, at: Nanos) {
        if let Some(timeline) = &mut self.level {
            timeline.hold_end = at;
        }
    }

    /// The level is over: what is old at its end is looked at too.
    pub fn end(&mut self, recorder: &mut Recorder) {
        let Some(timeline) = self.level.take() else { return };
        for newest in self.newest.iter_mut().flat_map(|of_device| of_device.iter_mut()) {
            look(recorder, &timeline, newest, self.step, timeline.hold_end);
        }
    }
}

fn look(recorder: &mut Recorder, timeline: &Timeline, newest: &mut Newest, step: Nanos, until: Nanos) {
    let until = until.min(timeline.hold_end);
    while newest.look < until {
        recorder.time(timeline.slot(newest.look), Metric::Freshness, newest.look - newest.due);
        newest.look += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Histogram;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn timeline() -> Timeline {
        Timeline {
            level: 0,
            start: Nanos::ZERO,
            hold_start: SECOND,
            hold_end: SECOND * 11,
            samples: 10,
            cut: None,
        }
    }

    fn ages(recorder: &mut Recorder) -> Histogram {
        let mut all = Histogram::new();
        for part in recorder.flush() {
            part.histograms.iter().for_each(|(_, histogram)| all.merge(histogram));
        }
        all
    }

    /// A value a second, each delivered 0.2 s after it was due: the age runs evenly from 0.2 s to 1.2 s.
    #[test]
    fn the_age_grows_until_the_next_value_comes() {
        let (mut freshness, mut recorder) = (Freshness::new([1].into_iter()), Recorder::default());
        freshness.begin(timeline(), 1);
        for second in 0..11 {
            let due = Nanos(second * 1_000_000_000 + 1);
            freshness.delivered(&mut recorder, (0, 0), due, due + Nanos::from_millis(200));
        }
        freshness.end(&mut recorder);
        let ages = ages(&mut recorder);
        assert_eq!(ages.count(), 100, "ten looks a second");
        let near = |time: Option<Nanos>, seconds: f64| (time.unwrap().as_secs_f64() - seconds).abs() < 0.11;
        assert!(near(ages.min(), 0.2) && near(ages.max(), 1.2) && near(ages.quantile(0.5), 0.7), "{ages:?}");
    }

    #[test]
    fn what_never_comes_ages_from_the_levels_beginning_and_older_values_change_nothing() {
        let (mut freshness, mut recorder) = (Freshness::new([1, 1].into_iter()), Recorder::default());
        freshness.begin(timeline(), 1);
        freshness.delivered(&mut recorder, (0, 0), Nanos(-5), SECOND * 5);
        freshness.end(&mut recorder);
        let ages = ages(&mut recorder);
        assert_eq!(ages.count(), 100, "the second device takes no part");
        assert!(ages.max().unwrap() > SECOND * 10);
    }
}
