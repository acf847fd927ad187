//! Which level comes next: the listed ones in turn, or what a search asks for.

use plimsoll_analysis::early_stop;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::search::{Purpose, Search};
use plimsoll_model::Nanos;
use plimsoll_model::record::LevelRecord;
use plimsoll_scenario::plan::{LevelPlan, Plan};

/// The course of a run through its levels.
pub struct Course<'a> {
    plan: &'a Plan,
    /// Listed levels looked at so far.
    position: usize,
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

impl<'a> Course<'a> {
    /// The course that the plan sets.
    pub fn of(plan: &'a Plan) -> Course<'a> {
        Course { plan, position: 0 }
    }

    /// How many levels there will be at most; `None` where that depends on what they tell.
    pub fn levels(&self) -> Option<usize> {
        self.plan.load.search.is_none().then_some(self.plan.load.levels.len())
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
        loop {
            let level = *load.levels.get(self.position)?;
            self.position += 1;
            let needless = |after| early_stop::is_needless(level.load(), levels, after);
            if !load.stop_after_missed.is_some_and(needless) {
                let falls = levels.last().is_some_and(|last| level.load() < last.load());
                let settle = falls && leaves_something_behind(levels);
                return Some(Next { level, hold: load.hold, settle, purpose: "" });
            }
        }
    }
}

/// A platform that was asked for more than it bears may still be at work when its level is over.
fn leaves_something_behind(levels: &[LevelSummary]) -> bool {
    levels.last().is_some_and(|last| !last.is_met())
}
