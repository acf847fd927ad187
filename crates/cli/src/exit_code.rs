//! Exit codes, in falling precedence: interrupted, usage, undoable, invalid, missed, met.

use plimsoll_model::Verdict;

/// Everything asked for was met.
pub const MET: u8 = 0;
/// The run could not be done: platform unreachable, wrong password, store not writable.
pub const UNDOABLE: u8 = 1;
/// The measurement is invalid where the answer lies.
pub const INVALID: u8 = 3;
/// An objective was missed at every level, or the load line is below `objectives.load_line`.
pub const MISSED: u8 = 99;
/// The scenario or the command line is wrong, or this host does not allow the run.
pub const USAGE: u8 = 104;
/// The user stopped the run; what was measured is kept and reported.
pub const INTERRUPTED: u8 = 105;

/// The exit code of a verdict.
pub fn of(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Met => MET,
        Verdict::Missed => MISSED,
        Verdict::Invalid => INVALID,
        Verdict::Failed => UNDOABLE,
        // A run that has been left before its end has been cut short as well.
        Verdict::Interrupted | Verdict::Running => INTERRUPTED,
    }
}
