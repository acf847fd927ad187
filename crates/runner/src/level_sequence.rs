//! Which level comes next: the listed ones in turn, or what a search asks for.

use plimsoll_analysis::early_stop;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::search::{Purpose, Search};
use plimsoll_model::Nanos;
use plimsoll_model::record::LevelRecord;
use plimsoll_scenario::plan::{CalibrationPlan, LevelPlan, Plan};

/// How often a listed level that decided nothing is held again.
const TIMES_AGAIN: u32 = 2;

/// The levels of a run, one after the other.
pub struct LevelSequence<'a> {
    plan: &'a Plan,
    /// Listed levels looked at so far.
    position: usize,
    /// How often the last of them was held again, and the time that this took over all levels.
    again: (u32, Nanos),
}

/// The next level.
pub struct Next {
    /// Its load.
    pub level: LevelPlan,
    /// Its measured time.
    pub hold: Nanos,
    /// Whether the platform must first get rid of what the level before has left behind.
    pub settle: bool,
    /// What it is for, for people; empty where it is one of a list.
    pub purpose: &'static str,
}

impl<'a> LevelSequence<'a> {
    /// The sequence that the plan sets.
    pub fn of(plan: &'a Plan) -> LevelSequence<'a> {
        LevelSequence { plan, position: 0, again: (0, Nanos::ZERO) }
    }

    /// The place of the level that was asked for last in the list, from 1; of others how many there were.
    pub fn number(&self, run: usize) -> usize {
        if self.levels().is_some() { self.position } else { run }
    }

    /// How many levels there will be at most; `None` where that depends on what they tell.
    pub fn levels(&self) -> Option<usize> {
        let load = &self.plan.load;
        (load.search.is_none() && load.calibration.is_none()).then_some(load.levels.len())
    }

    /// The next level after those that were run, as recorded and as judged; `None` after the last.
    pub fn next(&mut self, records: &[LevelRecord], levels: &[LevelSummary]) -> Option<Next> {
        let load = &self.plan.load;
        if let Some(terms) = load.search {
            let next = Search::over(terms, records, levels).next()?;
            let purpose = match next.purpose {
                _ if next.again => "again",
                Purpose::Bracketing | Purpose::Bisection => "searching",
                Purpose::Confirmation => "confirming",
            };
            let (level, hold) = (LevelPlan::Rate(next.rate), next.hold);
            return Some(Next { level, hold, settle: leaves_something_behind(levels), purpose });
        }
        if let Some(terms) = load.calibration {
            let level = LevelPlan::Rate(calibrated(terms, levels)?);
            let purpose = if levels.is_empty() { "above" } else { "calibrating" };
            return Some(Next { level, hold: load.hold, settle: leaves_something_behind(levels), purpose });
        }
        if let Some(next) = self.again(levels) {
            return Some(next);
        }
        loop {
            let level = *load.levels.get(self.position)?;
            self.position += 1;
            self.again.0 = 0;
            let needless = |after| early_stop::is_needless(level.load(), levels, after);
            if !load.stop_after_missed.is_some_and(needless) {
                let falls = levels.last().is_some_and(|last| level.load() < last.load.amount());
                // On the way down, what a level leaves behind is a part of what the platform is asked.
                let settle = falls && !load.falls(self.position) && leaves_something_behind(levels);
                return Some(Next { level, hold: load.hold, settle, purpose: "" });
            }
        }
    }
}

impl LevelSequence<'_> {
    /// The last level once more, where it decided nothing, another hold may, and there is time left for that.
    fn again(&mut self, levels: &[LevelSummary]) -> Option<Next> {
        let load = &self.plan.load;
        let last = levels.last().filter(|last| last.is_worth_again)?;
        let level = *load.levels.get(self.position.checked_sub(1)?)?;
        let can =
            !level.connects() && load.storm.is_none() && load.faults.is_empty() && !load.falls(self.position);
        let (times, spent) = self.again;
        // Longer helps what was too short, and not what was disturbed. What ends by count or follows a curve stays as long as it is.
        let short = last.verdict == LevelVerdict::Undecided && last.warming.is_none();
        let can_be_longer = load.count.is_none() && load.curve.is_none();
        let longer = if short && can_be_longer { 2 << times } else { 1 };
        let hold = load.hold * longer;
        let takes = if load.count.is_none() { hold } else { Nanos::from_secs_f64(last.hold) };
        let spent = spent + load.warm_up + takes + load.drain;
        if !can || times >= TIMES_AGAIN || spent > load.again {
            return None;
        }
        self.again = (times + 1, spent);
        Some(Next { level, hold, settle: true, purpose: "again" })
    }
}

/// The rate of the next level: what was achieved in the last one, once one was above what the platform bears; before that
/// twice the last. `None` where the last one holds, or there were enough.
fn calibrated(terms: CalibrationPlan, levels: &[LevelSummary]) -> Option<f64> {
    let holds = |level: &LevelSummary| level.achieved_ratio().is_some_and(|done| done >= terms.done);
    let Some(last) = levels.last() else { return Some(terms.from) };
    if levels.len() >= usize::from(terms.attempts) {
        return None;
    }
    match (holds(last), levels.iter().all(holds)) {
        (true, true) => last.load.offered().map(|rate| 2.0 * rate),
        (true, false) => None,
        (false, _) => {
            last.achieved.map(|rate| if rate < 10.0 { rate } else { rate.floor() }).filter(|rate| *rate > 0.0)
        }
    }
}

/// A platform that was asked for more than it bears may still be at work when its level is over.
fn leaves_something_behind(levels: &[LevelSummary]) -> bool {
    levels.last().is_some_and(|last| !last.is_met())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Load;

    const TERMS: CalibrationPlan = CalibrationPlan { from: 100.0, done: 0.9, attempts: 5 };

    fn level(offered: f64, achieved: f64) -> LevelSummary {
        let due = (offered * 10.0) as u64;
        LevelSummary {
            load: Load::Rate(offered),
            achieved: Some(achieved),
            due,
            hold: 10.0,
            ..LevelSummary::default()
        }
    }

    /// As in the work: high first, then what was achieved, until most of it is done.
    #[test]
    fn a_calibration_goes_up_until_it_is_too_much_and_down_until_it_holds() {
        let mut levels = Vec::new();
        // Bears up to 350/s; far above that it bears less.
        for (wanted, achieved) in [(100.0, 100.0), (200.0, 200.0), (400.0, 330.0), (330.0, 290.0)] {
            assert_eq!(calibrated(TERMS, &levels), Some(wanted));
            levels.push(level(wanted, achieved));
        }
        assert_eq!(calibrated(TERMS, &levels), Some(290.0));
        levels.push(level(290.0, 289.0));
        assert_eq!(calibrated(TERMS, &levels), None, "it holds, and there were enough");
        levels.pop();
        levels[3] = level(330.0, 299.0);
        assert_eq!(calibrated(TERMS, &levels), None, "90 % were done");
    }

    #[test]
    fn a_platform_that_does_nothing_ends_it() {
        assert_eq!(calibrated(TERMS, &[level(100.0, 0.0)]), None);
    }
}
