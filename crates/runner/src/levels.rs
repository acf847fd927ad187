//! The levels of a run, one after the other: those that the scenario lists or searches, then those of its experiment.

use crate::experiment::{Experiment, Step};
use crate::failure::Failure;
use crate::level_sequence::LevelSequence;
use crate::resume::replay;
use crate::watch::RunWatch;
use crate::{identity, suspicion};
use plimsoll_analysis::experiment::ENDED_EARLY;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_load::engine::{Engine, EngineError};
use plimsoll_model::experiment::Stage;
use plimsoll_model::record::{ComponentUsage, DeathRecord, LevelRecord, LevelStart, Measurement, RunEnd};
use plimsoll_model::{LevelIndex, Nanos, RunId};
use plimsoll_scenario::plan::{LevelPlan, Plan};
use plimsoll_store::RunPosition;

/// Connects the clients and runs all levels, or those that are left of a run that is continued (`resumes`); `own_processors` says
/// whether those of the platform are its own.
pub fn connect_and_run(
    (plan, id, own_processors): (&Plan, RunId, bool),
    resumes: bool,
    engine: &mut Engine,
    watch: &mut RunWatch,
) -> Result<RunEnd, Failure> {
    watch.step("connecting");
    if let Some(told) = suspicion::too_few_files(plan, watch.platform_address()) {
        watch.step(&told);
        watch.note(&told);
    }
    engine.connect(watch)?;
    engine.repeated_connections().iter().for_each(|told| watch.note(told));
    let mut sequence = LevelSequence::of(plan);
    watch.expect_levels(sequence.levels());
    let (mut records, mut levels, mut components) = (Vec::new(), Vec::new(), Vec::new());
    let terms = identity::terms(plan);
    let mut position = RunPosition::begin(terms.populations.len());
    let mut index: LevelIndex = 0;
    if resumes {
        let kept = watch.added(id, &mut position)?;
        index = kept.levels.last().map_or(0, |level| level.start.index + 1);
        components = kept.components;
        let summarize =
            |record: &LevelRecord| plimsoll_analysis::summarize_level(record, &terms, &components);
        (records, levels) = replay(&mut sequence, kept.levels, summarize);
        watch.step(&format!("going on after {} finished levels", levels.len()));
    }
    while let Some(next) = sequence.next(&records, &levels) {
        if next.settle {
            watch.step("letting the platform settle");
            let held = records.last().map_or(plan.load.hold, |last: &LevelRecord| last.start.hold);
            engine.settle(plan.load.warm_up + held + plan.load.drain, watch)?;
        }
        if plan.load.idle_before > Nanos::ZERO {
            watch.step("leaving the platform without load");
        }
        let idle = engine.idle(plan.load.idle_before, watch)?;
        if let Some(death) = watch.death() {
            return Ok(RunEnd::PlatformDied(death));
        }
        let start = engine.plan_level(index, next.level, (next.hold, None), watch)?;
        index = index.saturating_add(1);
        let number = sequence.number(levels.len() + 1);
        let faults = plan.load.faults.iter().filter(|fault| fault.is_in(number));
        let faults = faults.map(|plan| plan.fault.clone()).collect();
        let start = LevelStart { idle, faults, falling: plan.load.falls(number), ..start };
        let named = (next.purpose, number);
        let ended = hold(&start, next.level, named, engine, watch)?;
        if ended.stopped {
            // A store that failed also stops the level; `finish` tells.
            return Ok(RunEnd::Interrupted);
        }
        let added = watch.added(id, &mut position)?;
        components.extend(added.components);
        for record in added.levels {
            let level = plimsoll_analysis::summarize_level(&record, &terms, &components);
            watch.level_ended(&level);
            levels.push(level);
            records.push(record);
        }
        if let Some(death) = ended.death {
            return Ok(RunEnd::PlatformDied(death));
        }
        if ended.platform_gone {
            break;
        }
    }
    // One that was lost in the last level takes part in nothing that follows.
    engine.check_workers()?;
    if let Some(terms_of_it) = plan.load.experiment {
        let besides = plan.load.warm_up + plan.load.drain;
        let own = (&terms, plan.seed);
        let experiment = Experiment::new(terms_of_it, own, watch.slowable(), own_processors, besides);
        let settle = levels.last().is_some_and(|last: &LevelSummary| !last.is_met());
        let ended = run_experiment((plan, id, settle), experiment, (index, position), engine, watch)?;
        if ended != RunEnd::Complete {
            return Ok(ended);
        }
    }
    if plan.load.idle_after > Nanos::ZERO {
        watch.step("leaving the platform without load after the last level");
        // All levels have ended: who has seen enough loses nothing.
        match engine.idle(plan.load.idle_after, watch) {
            Ok(_) | Err(EngineError::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(DeathRecord { component, status, .. }) = watch.death() {
            watch
                .note(&format!("{component} ended in the time without load after the last level ({status})"));
        }
    }
    let listener = engine.listener(0);
    // Of several populations each level says by itself who received nothing.
    let alone = Some(plan).filter(|plan| plan.with_devices().count() == 1);
    let silent = alone.and_then(|plan| suspicion::nothing_received(plan, &listener, &levels));
    let refused = alone.and_then(|plan| suspicion::refused_content(plan, &levels));
    silent.iter().chain(&refused).for_each(|told| watch.note(told));
    Ok(RunEnd::Complete)
}

/// Runs the levels of an experiment, from that number on.
fn run_experiment(
    (plan, id, mut settle): (&Plan, RunId, bool),
    mut experiment: Experiment<'_>,
    (first, mut position): (u16, RunPosition),
    engine: &mut Engine,
    watch: &mut RunWatch,
) -> Result<RunEnd, Failure> {
    let (mut done, mut components): (Vec<LevelRecord>, Vec<ComponentUsage>) = (Vec::new(), Vec::new());
    watch.expect_levels(None);
    loop {
        let mut next = match experiment.next(&done, &components, engine.now()) {
            Step::Level(next) => next,
            Step::Over(told) => {
                told.iter().for_each(|told| watch.note(told));
                return Ok(RunEnd::Complete);
            }
        };
        if settle {
            watch.step("letting the platform settle");
            engine.settle(plan.load.warm_up + next.hold.min(plan.load.hold) + plan.load.drain, watch)?;
        }
        if next.experiment.stage == Stage::Delays {
            next.experiment.callers = watch.callers();
        }
        let index = first + done.len() as u16;
        let start = engine.plan_level(index, next.level, (next.hold, Some(next.samples)), watch)?;
        let start = LevelStart { experiment: Some(next.experiment), ..start };
        let ended = hold(&start, next.level, (next.purpose, done.len() + 1), engine, watch)?;
        if ended.stopped {
            return Ok(RunEnd::Interrupted);
        }
        let added = watch.added(id, &mut position)?;
        done.extend(added.levels);
        components.extend(added.components);
        if let Some(death) = ended.death {
            if !start.blocks().is_empty() {
                watch.note(&format!("{} ended in a level in which components were slowed", death.component));
            }
            return Ok(RunEnd::PlatformDied(death));
        }
        if ended.platform_gone {
            watch.note(&format!("{ENDED_EARLY}: the platform completed nothing any more"));
            return Ok(RunEnd::Complete);
        }
        settle = true;
    }
}

/// How a level ended.
struct Ended {
    /// The user or a store that failed stopped it.
    stopped: bool,
    platform_gone: bool,
    death: Option<DeathRecord>,
}

/// Runs one level and stores it; `purpose` and number are for people.
fn hold(
    start: &LevelStart,
    level: LevelPlan,
    (purpose, number): (&str, usize),
    engine: &mut Engine,
    watch: &mut RunWatch,
) -> Result<Ended, EngineError> {
    watch.begin_level(start, purpose, number);
    let (mut end, stopped) = engine.run_level(start, level, watch)?;
    watch.end_level(&mut end, stopped);
    let (platform_gone, death) = (end.platform_gone, end.death.clone());
    watch.measured_now(Measurement::LevelEnded(end));
    Ok(Ended { stopped, platform_gone, death })
}
