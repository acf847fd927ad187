//! A run that loses a worker for good goes on with the workers that are there: it is resumed, as one that was interrupted is.

use crate::fleet::{Place, Wanted};
use crate::resume::Resume;
use crate::{Options, Outcome, Progress, RunError, run};
use plimsoll_model::host_check::HostCheck;
use plimsoll_model::record::RunEnd;
use plimsoll_scenario::plan::Plan;
use std::sync::Arc;

/// Runs a plan, as [`run`] does. Where a worker at a server was lost, a new run keeps the levels that were held, and the workers that
/// are there then have all devices. It needs as many workers as are wanted at least, and a scenario that can be resumed.
///
/// # Errors
/// Those of [`run`], for the first run.
pub fn run_with_who_is_there(
    plan: &Arc<Plan>,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, RunError> {
    let mut outcome = run(plan, options, progress)?;
    let mut options = options.clone();
    let mut kept = 0;
    while let Some((resume, levels)) =
        continuation(plan, &options, &outcome).filter(|(_, levels)| *levels > kept)
    {
        progress.warned(&HostCheck::warning(
            "workers",
            format!("{}: the run goes on without it{}", lost(&outcome), among(&options)),
            "",
        ));
        options.resume = Some(Arc::new(resume));
        match run(plan, &options, progress) {
            Ok(next) => (outcome, kept) = (next, levels),
            Err(error) => {
                progress.warned(&HostCheck::warning(
                    "workers",
                    format!("the run could not go on: {error}"),
                    "",
                ));
                break;
            }
        }
    }
    Ok(outcome)
}

/// How a run is continued that lost a worker, and how many levels it has; `None` where it did not, or cannot be.
fn continuation(plan: &Plan, options: &Options, outcome: &Outcome) -> Option<(Resume, usize)> {
    let is_elsewhere = matches!(options.workers, Some(Wanted { place: Place::At(..), .. }));
    let is_lost = matches!(outcome.record.end, Some(RunEnd::WorkerLost(_)));
    if !is_elsewhere || !is_lost {
        return None;
    }
    let resume = Resume::of(&options.store, &outcome.record.id, plan, &options.inputs).ok()?;
    Some((resume, outcome.record.levels.len()))
}

/// How many workers it needs for that, and how long it waits for them.
fn among(options: &Options) -> String {
    match &options.workers {
        Some(Wanted { place: Place::At(_, least, wait), .. }) if *least > 1 => {
            format!(", if {least} workers are there within {} s", wait.as_secs())
        }
        _ => String::new(),
    }
}

fn lost(outcome: &Outcome) -> &str {
    match &outcome.record.end {
        Some(RunEnd::WorkerLost(why)) => why,
        _ => "",
    }
}
