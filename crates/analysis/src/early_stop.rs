//! Early stop: which of the listed levels need not be run any more because lower ones have missed.

use crate::level::{LevelSummary, LevelVerdict};
use plimsoll_model::record::{RunEnd, RunRecord};
use plimsoll_model::text::grouped;

/// Whether a level of that load would tell nothing new: so many levels in a row have surely missed, none of them above
/// it. Levels that are undecided or invalid are no misses.
pub fn is_needless(load: f64, run: &[LevelSummary], after: u16) -> bool {
    lowest_of_missed_row(run, after).is_some_and(|missed| load >= missed)
}

/// What a reader must know of a run that was stopped early; `None` where it was not.
pub fn story(record: &RunRecord, levels: &[LevelSummary]) -> Option<String> {
    let after = record.terms.stop_after_missed?;
    let missed = lowest_of_missed_row(levels, after)?;
    let not_run = not_run(record.terms.levels, levels)?;
    (!is_gone(record) && record.end == Some(RunEnd::Complete)).then(|| {
        let row = match after {
            0 | 1 => "a level missed".to_owned(),
            _ => format!("{after} levels in a row missed"),
        };
        let (total, missed) = (record.terms.levels, grouped(missed));
        format!(
            "stopped early, as asked for: {row}, so {not_run} of {total} levels from {missed} on were not run"
        )
    })
}

/// How many listed levels were not run because the platform died, or completed nothing any more; `None` where all were, or
/// levels are not listed.
pub fn skipped(record: &RunRecord, levels: &[LevelSummary]) -> Option<String> {
    let died = matches!(record.end, Some(RunEnd::PlatformDied(_)));
    if !is_gone(record) && !died {
        return None;
    }
    let not_run = not_run(record.terms.levels, levels)?;
    let why = if died { "the platform died" } else { "the platform completed nothing any more" };
    let total = record.terms.levels;
    Some(format!("{not_run} of {total} levels were not run, because {why}"))
}

fn is_gone(record: &RunRecord) -> bool {
    record.levels.last().and_then(|level| level.end.as_ref()).is_some_and(|end| end.platform_gone)
}

/// How many of the listed levels were not run, if any; a level that was held again is one.
fn not_run(listed: u16, levels: &[LevelSummary]) -> Option<usize> {
    let mut loads: Vec<f64> = levels.iter().map(|level| level.load.amount()).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    usize::from(listed).checked_sub(loads.len()).filter(|&count| count > 0)
}

/// The lowest load of the first row of missed levels that is long enough.
fn lowest_of_missed_row(run: &[LevelSummary], after: u16) -> Option<f64> {
    let mut row: Vec<f64> = Vec::new();
    for level in run {
        if level.verdict == LevelVerdict::Missed {
            row.push(level.load.amount());
        } else {
            row.clear();
        }
        if row.len() >= usize::from(after.max(1)) {
            return row.into_iter().min_by(f64::total_cmp);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use LevelVerdict::{Invalid, Met, Missed, Undecided};
    use plimsoll_model::Load;

    fn run(levels: &[(f64, LevelVerdict)]) -> Vec<LevelSummary> {
        let level = |(index, &(rate, verdict)): (u16, &(f64, LevelVerdict))| LevelSummary {
            index,
            load: Load::Rate(rate),
            verdict,
            ..LevelSummary::default()
        };
        (0..).zip(levels).map(level).collect()
    }

    #[test]
    fn a_level_that_was_held_again_is_one_of_those_that_were_run() {
        let held = [(100.0, Met), (200.0, Undecided), (300.0, Missed), (200.0, Met), (300.0, Missed)];
        assert_eq!(not_run(5, &run(&held)), Some(2));
        assert_eq!(not_run(3, &run(&held)), None);
    }

    #[test]
    fn only_sure_misses_in_a_row_make_higher_levels_needless() {
        let levels = run(&[(100.0, Met), (200.0, Missed), (300.0, Missed)]);
        assert!(is_needless(400.0, &levels, 2) && is_needless(200.0, &levels, 2));
        assert!(!is_needless(150.0, &levels, 2), "a lower level still tells something");
        assert!(!is_needless(400.0, &levels, 3));
        assert!(!is_needless(400.0, &levels[..2], 2));
        for between in [Met, Undecided, Invalid] {
            let levels = run(&[(200.0, Missed), (300.0, between), (400.0, Missed)]);
            assert!(!is_needless(500.0, &levels, 2), "{between:?}");
            assert!(is_needless(500.0, &levels, 1), "{between:?}");
        }
    }
}
