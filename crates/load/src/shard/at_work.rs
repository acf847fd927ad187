//! How much of the time by which operations were late the load thread was at work itself: the rest is its host's.

use crate::recorder::{Recorder, SampleSlot};
use plimsoll_model::{Metric, Nanos};
use std::collections::VecDeque;

/// What is less late is not looked at: reading the processor time costs more than it tells.
const LATE: Nanos = Nanos::from_micros(500);
/// Between two readings that are kept: of the last seconds, and of the last hour.
const STEPS: [Nanos; 2] = [Nanos::from_millis(1), Nanos::from_secs(1)];
/// Readings kept of each.
const KEPT: usize = 4096;

/// The processor time of a load thread, as its turns have read it.
#[derive(Default)]
pub struct AtWork {
    /// When, and the processor time until then, in those steps.
    past: [VecDeque<(Nanos, Nanos)>; 2],
    /// The last reading, which stands for its turn.
    last: Option<(Nanos, Nanos)>,
}

impl AtWork {
    /// Notes the processor time where the last reading is older than a step.
    pub fn note(&mut self, now: Nanos, processor_time: impl Fn() -> Nanos) {
        for (past, step) in self.past.iter_mut().zip(STEPS) {
            if past.back().is_some_and(|&(at, _)| now < at + step) {
                return;
            }
            if past.len() == KEPT {
                past.pop_front();
            }
            past.push_back((now, processor_time()));
        }
    }

    /// Books how much of the time since an operation was due the thread was at work, if it is late.
    pub fn book(
        &mut self,
        recorder: &mut Recorder,
        slot: SampleSlot,
        (due, now): (Nanos, Nanos),
        processor_time: impl Fn() -> Nanos,
    ) {
        if let Some(at_work) = self.since(due, now, processor_time) {
            recorder.time(slot, Metric::AtWorkWhenLate, at_work);
        }
    }

    /// How much of the time since an operation was due the thread was at work; `None` of one that is hardly late.
    fn since(&mut self, due: Nanos, now: Nanos, processor_time: impl Fn() -> Nanos) -> Option<Nanos> {
        if now - due <= LATE {
            return None;
        }
        let (_, until_now) = match self.last.filter(|&(at, _)| at == now) {
            Some(last) => last,
            None => *self.last.insert((now, processor_time())),
        };
        let [fine, coarse] = &self.past;
        let past = if fine.front().is_some_and(|&(at, _)| at <= due) { fine } else { coarse };
        let later = past.partition_point(|&(at, _)| at <= due);
        let before = later.checked_sub(1).and_then(|place| past.get(place)).copied();
        let after = past.get(later).copied().unwrap_or((now, until_now));
        // Between two readings the thread was at work evenly, as far as is known.
        let until_due = match before {
            Some((from, used)) => {
                let part = (due - from).as_secs_f64() / (after.0 - from).as_secs_f64().max(1e-9);
                used + Nanos::from_secs_f64((after.1 - used).as_secs_f64() * part.min(1.0))
            }
            None => after.1,
        };
        Some((until_now - until_due).clamp(Nanos::ZERO, now - due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: i64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// A thread that works in every other interval of 10 ms.
    fn processor_time(at: i64) -> Nanos {
        ms(at / 20 * 10 + (at % 20).min(10))
    }

    fn until(end: i64) -> AtWork {
        let mut at_work = AtWork::default();
        (0..=end).for_each(|at| at_work.note(ms(at), || processor_time(at)));
        at_work
    }

    #[test]
    fn the_time_at_work_since_an_operation_was_due_is_told() {
        let mut at_work = until(100);
        let mut since = |due, now| at_work.since(ms(due), ms(now), || processor_time(now));
        assert_eq!(since(60, 70), Some(ms(10)), "all of it");
        assert_eq!(since(70, 80), Some(ms(0)), "none");
        assert_eq!(since(65, 85), Some(ms(10)), "half");
        assert_eq!(since(100, 100), None, "not late");
        assert_eq!(since(-50, 100), Some(ms(50)), "not known before the first reading");
        assert_eq!(since(100, 101), Some(ms(1)), "since the last reading");
    }

    #[test]
    fn readings_of_long_ago_are_far_apart() {
        let mut at_work = until(20_000);
        assert_eq!(at_work.past.each_ref().map(VecDeque::len), [KEPT, 21]);
        let since = at_work.since(ms(10_000), ms(20_000), || processor_time(20_000)).unwrap();
        assert!(since > ms(4_950) && since < ms(5_050), "{since}");
        let since = at_work.since(ms(19_980), ms(19_990), || processor_time(19_990)).unwrap();
        assert_eq!(since, ms(10));
    }
}
