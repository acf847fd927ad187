//! Counts and histograms of one load thread, cut into samples.

use plimsoll_model::LevelIndex;
use plimsoll_model::record::SamplePart;
use plimsoll_model::{Counts, Histogram, Metric, Nanos};

/// Where in a level something belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSlot {
    /// The level.
    pub level: LevelIndex,
    /// The sample, `None` for the warm-up.
    pub sample: Option<u16>,
}

/// The timeline of one level on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The level.
    pub level: LevelIndex,
    /// When the warm-up begins.
    pub start: Nanos,
    /// When the hold begins.
    pub hold_start: Nanos,
    /// When the hold ends and the drain begins.
    pub hold_end: Nanos,
    /// Parts of the hold.
    pub samples: u16,
    /// How long each of them is; `None` where they are equal parts of a hold that ends by time.
    pub cut: Option<Nanos>,
}

impl Timeline {
    /// Where a message due at that time belongs.
    pub fn slot(&self, due: Nanos) -> SampleSlot {
        let sample = (due >= self.hold_start).then(|| self.sample_at(due));
        SampleSlot { level: self.level, sample }
    }

    /// When a sample ends.
    pub fn sample_end(&self, sample: u16) -> Nanos {
        if let Some(cut) = self.cut {
            return self.hold_start + cut * (i64::from(sample) + 1);
        }
        let hold = self.hold_end - self.hold_start;
        let part = i128::from(hold.0) * (i128::from(sample) + 1) / i128::from(self.samples.max(1));
        self.hold_start + Nanos(part as i64)
    }

    /// The sample of a time within the hold or, for what happens in the drain, the last one.
    fn sample_at(&self, time: Nanos) -> u16 {
        let last = self.samples.saturating_sub(1);
        if let Some(cut) = self.cut {
            let sample = (time - self.hold_start).0 / cut.0.max(1);
            return u16::try_from(sample).unwrap_or(last).min(last);
        }
        let hold = (self.hold_end - self.hold_start).0.max(1);
        let since = (time - self.hold_start).0;
        let sample = match since.checked_mul(i64::from(self.samples)) {
            Some(all) => all / hold,
            // Holds of months.
            None => (i128::from(since) * i128::from(self.samples) / i128::from(hold)) as i64,
        };
        (sample as u16).min(last)
    }
}

/// Collects until it is flushed; what it gives is to be added up (see [`SamplePart`]).
#[derive(Debug, Default)]
pub struct Recorder {
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    slot: SampleSlot,
    counts: Counts,
    histograms: [Option<Histogram>; Metric::ALL.len()],
}

impl Recorder {
    /// The counts of a slot, to add to.
    #[inline]
    pub fn counts(&mut self, slot: SampleSlot) -> &mut Counts {
        &mut self.cell(slot).counts
    }

    /// Records a time.
    #[inline]
    pub fn time(&mut self, slot: SampleSlot, metric: Metric, span: Nanos) {
        self.cell(slot).histograms[metric as usize].get_or_insert_with(Histogram::new).record(span);
    }

    /// Takes everything recorded since the last flush, and an empty part for a slot that was looked at.
    pub fn flush(&mut self) -> Vec<SamplePart> {
        let parts = self.cells.drain(..).map(|cell| SamplePart {
            population: 0,
            level: cell.slot.level,
            sample: cell.slot.sample,
            counts: cell.counts,
            histograms: Metric::ALL
                .into_iter()
                .zip(cell.histograms)
                .filter_map(|(m, h)| Some((m, h?)))
                .collect(),
        });
        parts.collect()
    }

    /// The few places of a flush interval are searched from the newest.
    #[inline]
    fn cell(&mut self, slot: SampleSlot) -> &mut Cell {
        let known = self.cells.iter().rposition(|cell| cell.slot == slot);
        let position = known.unwrap_or_else(|| {
            self.cells.push(Cell {
                slot,
                counts: Counts::default(),
                histograms: [const { None }; Metric::ALL.len()],
            });
            self.cells.len() - 1
        });
        &mut self.cells[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: Timeline = Timeline {
        level: 2,
        start: Nanos(0),
        hold_start: Nanos(100),
        hold_end: Nanos(200),
        samples: 3,
        cut: None,
    };

    #[test]
    fn times_fall_into_warm_up_samples_and_drain() {
        let sample = |time| TIMELINE.slot(Nanos(time)).sample;
        assert_eq!(
            [50, 99, 100, 133, 134, 199, 200, 999].map(sample),
            [None, None, Some(0), Some(0), Some(1), Some(2), Some(2), Some(2)]
        );
        assert_eq!(TIMELINE.sample_end(2), Nanos(200));
    }

    #[test]
    fn the_end_of_a_hold_moves_none_of_its_pieces() {
        let timeline = Timeline { cut: Some(Nanos(10)), samples: 50, ..TIMELINE };
        for hold_end in [Nanos(600), Nanos(125)] {
            let timeline = Timeline { hold_end, ..timeline };
            let sample = |time| timeline.slot(Nanos(time)).sample;
            assert_eq!([99, 100, 119, 120, 9999].map(sample), [None, Some(0), Some(1), Some(2), Some(49)]);
            assert_eq!(timeline.sample_end(1), Nanos(120));
        }
    }

    #[test]
    fn parts_add_up_to_what_was_recorded() {
        let mut recorder = Recorder::default();
        let slot = TIMELINE.slot(Nanos(120));
        recorder.counts(slot).due += 2;
        recorder.time(slot, Metric::Lateness, Nanos(5));
        let first = recorder.flush();
        assert_eq!((first.len(), first[0].counts.due, first[0].histograms.len()), (1, 2, 1));
        assert!(recorder.flush().is_empty());
    }
}
