//! The runs of a schedule, one after the other.

use crate::{Options, Outcome, Progress, RunError, run, schedule};
use jiff::{Timestamp, Zoned};
use plimsoll_model::Verdict;
use plimsoll_scenario::plan::{Plan, SchedulePlan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the clock is looked at while a schedule waits.
const LOOK: Duration = Duration::from_millis(200);

/// Which of several runs says how all of them ended.
const WORST_FIRST: [Verdict; 6] = [
    Verdict::Failed,
    Verdict::Interrupted,
    Verdict::Running,
    Verdict::Invalid,
    Verdict::Missed,
    Verdict::Met,
];

/// What a schedule tells while it goes on.
pub trait SeriesEvents {
    /// Follows the run that goes on.
    fn progress(&mut self) -> &mut dyn Progress;
    /// The next run begins then.
    fn waits_until(&mut self, begin: &Zoned);
    /// A run is over.
    fn run_ended(&mut self, outcome: Outcome);
    /// A run could not be done.
    fn run_failed(&mut self, why: RunError);
}

/// Runs a plan at the times of its schedule, until the user ends it. What stands in the way of one run may be gone by the next
/// time. The verdict of the worst of them; `None` where none was run.
pub fn run_series(
    plan: &Arc<Plan>,
    schedule: &SchedulePlan,
    options: &Options,
    events: &mut dyn SeriesEvents,
) -> Option<Verdict> {
    let mut verdicts = Vec::new();
    let mut first = None;
    for begin in schedule::begins(schedule, &Zoned::now()) {
        // Where nothing is real, time is not either.
        let simulated = plan.platform.profile.simulated.is_some();
        let started = simulated.then(|| begin.timestamp().to_string());
        if !simulated && !await_begin(&begin, &options.stop, events) {
            break;
        }
        let options = Options { series: first.clone(), started, ..options.clone() };
        let verdict = match run(plan, &options, events.progress()) {
            Ok(outcome) => {
                first.get_or_insert_with(|| outcome.record.id.clone());
                let verdict = outcome.summary.verdict;
                events.run_ended(outcome);
                verdict
            }
            Err(RunError::Interrupted) => break,
            Err(why) => {
                events.run_failed(why);
                Verdict::Failed
            }
        };
        verdicts.push(verdict);
        if verdict == Verdict::Interrupted {
            break;
        }
    }
    let worst = |verdict: &Verdict| WORST_FIRST.iter().position(|known| known == verdict);
    verdicts.into_iter().min_by_key(worst)
}

/// Waits until a run of a schedule is to begin; whether it is, for the user may end the schedule instead.
fn await_begin(begin: &Zoned, stop: &AtomicBool, events: &mut dyn SeriesEvents) -> bool {
    let ahead = || begin.timestamp().as_millisecond() - Timestamp::now().as_millisecond();
    if ahead() > LOOK.as_millis() as i64 {
        events.waits_until(begin);
    }
    // The wall clock is looked at again and again: it may be set, and the host may sleep.
    while ahead() > 0 && !stop.load(Ordering::Relaxed) {
        let rest = Duration::from_millis(ahead().max(0).unsigned_abs());
        std::thread::sleep(rest.min(LOOK));
    }
    !stop.load(Ordering::Relaxed)
}
