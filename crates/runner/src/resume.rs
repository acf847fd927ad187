//! Continuing a run that was interrupted: by a crash, a kill, a reboot, or by the user. The new run keeps the levels that the other one
//! has finished, and that in which it was interrupted, which is invalid. It runs that one again, and those that follow. It has an id of
//! its own, so that what the interrupted run left on the platform counts as foreign.

use crate::level_sequence::LevelSequence;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_load::clock::wall_nanos;
use plimsoll_model::record::{LevelRecord, LevelStart, Resumption, RunEnd, RunRecord};
use plimsoll_model::text::grouped;
use plimsoll_model::{LevelIndex, Nanos};
use plimsoll_observe::process::{is_alive, own_identity};
use plimsoll_scenario::plan::Plan;
use plimsoll_store::{RunReader, StoreError};
use std::collections::BTreeMap;
use std::path::Path;

/// Between the last time that an interrupted run has recorded and its continuation, where the wall clock says that there was less.
const LEAST_PAUSE: Nanos = Nanos::from_secs(1);

/// A run that can be continued.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The run as it was stored.
    record: RunRecord,
}

/// Why a run cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The store has no such run, or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It, or the scenario, does not allow it.
    #[error("{0}")]
    Refused(String),
}

/// The content of a file, in a form that changes with it: its length, and the 64 bits of FNV-1a (Fowler, Noll and Vo).
pub fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{} bytes, {hash:016x}", grouped(text.len() as f64))
}

impl Resume {
    /// The run of a store that a user names, which the plan is to continue; `inputs` are the fingerprints of the files that the scenario
    /// names.
    ///
    /// # Errors
    /// There is no such run, it was not interrupted, or scenario, files or version are others than those of that run.
    pub fn of(
        store: &Path,
        run: &str,
        plan: &Plan,
        inputs: &BTreeMap<String, String>,
    ) -> Result<Resume, ResumeError> {
        let record = RunReader::open(store)?.run(run)?;
        match refusal(&record, plan, inputs) {
            Some(why) => Err(ResumeError::Refused(format!("run {} cannot be resumed: {why}", record.id))),
            None => Ok(Resume { record }),
        }
    }

    /// The id of the interrupted run.
    pub(crate) fn run(&self) -> &str {
        &self.record.id
    }

    /// How many levels of the interrupted run were begun.
    pub(crate) fn begun(&self) -> LevelIndex {
        self.record.levels.last().map_or(0, |level| level.start.index + 1)
    }

    /// How the level began in which it was interrupted, no longer than it was held: what comes after it belongs to other levels. `None`
    /// where it was between two, or where the length of the hold is known at its end only.
    pub(crate) fn cut(&self) -> Option<LevelStart> {
        let level =
            self.record.levels.last().filter(|level| !level.is_whole() && level.start.cut.is_none())?;
        let samples = recorded(level);
        let hold = level.start.sample_begin(samples);
        Some(LevelStart { hold, samples: u16::try_from(samples).unwrap_or(u16::MAX), ..level.start.clone() })
    }

    /// What the clock of the run shows now: that of the interrupted run goes on.
    pub(crate) fn now(&self) -> Nanos {
        let last = last_time(&self.record) + LEAST_PAUSE;
        let by_wall = self.record.provenance.wall_epoch.map(|epoch| Nanos(wall_nanos() - epoch));
        by_wall.map_or(last, |now| now.max(last))
    }

    /// What the provenance says of it, and of those before it.
    pub(crate) fn story(&self, now: Nanos) -> Vec<Resumption> {
        let RunRecord { id, provenance, .. } = &self.record;
        let interrupted = self.record.levels.last().filter(|level| !level.is_whole());
        let boot = |process: Option<String>| process?.split('/').next().map(str::to_owned);
        let own = Resumption {
            run: id.clone(),
            began: provenance.started.clone(),
            at: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
            at_ns: now.0,
            kept: finished(&self.record).count(),
            interrupted: interrupted.map(|level| level.start.index),
            boots: [boot(provenance.process.clone()), boot(own_identity())],
        };
        provenance.resumed.iter().cloned().chain([own]).collect()
    }

    /// What the reader of the result must know, for people: what was noted before, and that the run was continued.
    pub(crate) fn notes(&self, story: &[Resumption], starts_platform: bool) -> Vec<String> {
        let told = story.last().map(|last| in_words(last, starts_platform));
        self.record.provenance.notes.iter().cloned().chain(told).collect()
    }
}

/// The levels that were held to their end.
fn finished(record: &RunRecord) -> impl Iterator<Item = &LevelRecord> {
    record.levels.iter().filter(|level| level.is_whole())
}

/// Lets a sequence go the way of levels that were finished, so that the level after them is next.
pub(crate) fn replay(
    sequence: &mut LevelSequence<'_>,
    records: Vec<LevelRecord>,
    summarize: impl Fn(&LevelRecord) -> LevelSummary,
) -> (Vec<LevelRecord>, Vec<LevelSummary>) {
    let (mut kept, mut levels) = (Vec::new(), Vec::new());
    for record in records.into_iter().filter(LevelRecord::is_whole) {
        if sequence.next(&kept, &levels).is_none() {
            break;
        }
        levels.push(summarize(&record));
        kept.push(record);
    }
    (kept, levels)
}

fn in_words(resumption: &Resumption, starts_platform: bool) -> String {
    let Resumption { run, at, kept, interrupted, boots, .. } = resumption;
    let when = match interrupted {
        Some(level) => format!("within its level {}", level + 1),
        None => "between two levels".to_owned(),
    };
    let levels = if *kept == 1 { "level is" } else { "levels are" };
    let [before, after] = boots;
    let rebooted = before.is_some() && after.is_some() && before != after;
    let host = if rebooted { "; this host was started again in between" } else { "" };
    let platform = if starts_platform { "; the platform was started again in between" } else { "" };
    format!("resumed {at}: {kept} {levels} kept of run {run}, which was interrupted {when}{host}{platform}")
}

/// Up to which sample a level was recorded.
fn recorded(level: &LevelRecord) -> usize {
    level.samples.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
}

/// The last time that a run has recorded.
fn last_time(record: &RunRecord) -> Nanos {
    let recorded = |level: &LevelRecord| level.start.hold_start + level.start.sample_begin(recorded(level));
    let levels =
        record.levels.iter().map(|level| level.end.as_ref().map_or_else(|| recorded(level), |end| end.at));
    let components = record.components.iter().map(|usage| usage.at);
    let gauges = record.gauges.iter().map(|gauge| gauge.at);
    levels.chain(components).chain(gauges).max().unwrap_or(Nanos::ZERO)
}

/// Why a run cannot be continued with a plan, for people; `None` where it can.
fn refusal(record: &RunRecord, plan: &Plan, inputs: &BTreeMap<String, String>) -> Option<String> {
    let goes_on = record.end.is_none() && record.provenance.process.as_deref().is_some_and(is_alive);
    let state = match &record.end {
        _ if goes_on => Some("it still goes on".to_owned()),
        Some(RunEnd::Complete) => Some("it came to its end, and nothing is left to be run".to_owned()),
        Some(RunEnd::PlatformDied(death)) => {
            Some(format!("it was not interrupted: {} ended by itself, which is its result", death.component))
        }
        Some(RunEnd::Interrupted | RunEnd::Killed | RunEnd::Failed(_) | RunEnd::WorkerLost(_)) | None => None,
    };
    let nothing = (finished(record).count() == 0)
        .then(|| "it has finished no level that could be kept; run the scenario without --resume".to_owned());
    let excluded = [
        (plan.load.search.is_some(), "its levels are searched, and a search knows no pause: run it again"),
        (
            plan.record.capture.is_some(),
            "it captures packets, and those of its first part are gone: run it again",
        ),
        (plan.schedule.is_some(), "its scenario repeats runs (`schedule`): each of them is a run of its own"),
        (plan.platform.profile.simulated.is_some(), "its platform is only simulated: run it again"),
    ];
    let excluded = excluded.iter().find(|(is_so, _)| *is_so).map(|(_, why)| (*why).to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let provenance = &record.provenance;
    let version = (provenance.plimsoll != version).then(|| {
        format!(
            "it was measured by Plimsoll {}, and this is {version}: use that version",
            provenance.plimsoll
        )
    });
    state
        .or(nothing)
        .or(excluded)
        .or(version)
        .or_else(|| difference("the scenario", &record.scenario, &plan.resolved))
        .or_else(|| difference("the platform profile", &provenance.profile, &plan.platform.source()))
        .or_else(|| changed(&provenance.inputs, inputs))
}

/// The first line in which two texts differ, for people.
fn difference(what: &str, then: &str, now: &str) -> Option<String> {
    if then == now {
        return None;
    }
    let (mut old, mut new) = (then.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (one, other) = (old.next(), new.next());
        if one != other || one.is_none() {
            let shown =
                |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{}`", line.trim()));
            return Some(format!(
                "{what} is another one: line {number} of it was {}, and is {} now",
                shown(one),
                shown(other)
            ));
        }
    }
}

/// The first file whose content is another one, for people.
fn changed(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let names = then.keys().chain(now.keys());
    let shown = |content: Option<&String>| content.map_or("not read", String::as_str).to_owned();
    let different =
        names.map(|name| (name, then.get(name), now.get(name))).find(|(_, one, other)| one != other);
    different.map(|(name, one, other)| {
        format!("the file `{name}` is another one: it was {}, and is {} now", shown(one), shown(other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::{LevelEnd, Provenance, SampleRecord};

    #[test]
    fn fingerprints_change_with_the_content() {
        // The test vectors of the algorithm's authors.
        assert_eq!(fingerprint(""), "0 bytes, cbf29ce484222325");
        assert_eq!(fingerprint("foobar"), "6 bytes, 85944171f73967e8");
        assert_ne!(fingerprint("time,rate\n0,1\n"), fingerprint("time,rate\n0,2\n"));
    }

    #[test]
    fn differences_say_both_values() {
        assert_eq!(difference("it", "a: 1\nb: 2\n", "a: 1\nb: 2\n"), None);
        let told = "it is another one: line 2 of it was `b: 2`, and is `b: 3` now";
        assert_eq!(difference("it", "a: 1\n  b: 2\n", "a: 1\n  b: 3\n").unwrap(), told);
        assert!(difference("it", "a: 1\n", "a: 1\nb: 2\n").unwrap().contains("was nothing, and is `b: 2`"));
        let files = |content: &str| BTreeMap::from([("day.csv".to_owned(), content.to_owned())]);
        assert_eq!(changed(&files("x"), &files("x")), None);
        let told = "the file `day.csv` is another one: it was x, and is y now";
        assert_eq!(changed(&files("x"), &files("y")).unwrap(), told);
        assert!(changed(&BTreeMap::new(), &files("y")).unwrap().contains("it was not read"));
    }

    #[test]
    fn a_run_that_is_continued_says_from_where() {
        let level = |index: u16, whole: bool| LevelRecord {
            start: LevelStart {
                index,
                hold_start: Nanos::from_secs(10 * i64::from(index)),
                hold: Nanos::from_secs(5),
                samples: 5,
                ..LevelStart::default()
            },
            end: whole
                .then(|| LevelEnd { at: Nanos::from_secs(10 * i64::from(index) + 6), ..LevelEnd::default() }),
            ..LevelRecord::default()
        };
        let provenance = Provenance {
            process: Some("boot-1/7/8".into()),
            notes: vec!["noted".into()],
            wall_epoch: Some(wall_nanos()),
            ..Provenance::default()
        };
        let mut levels = vec![level(0, true), level(1, true), level(2, false)];
        levels[2].samples =
            vec![Some(SampleRecord::default()), Some(SampleRecord::default()), None, None, None];
        let record = RunRecord { id: "old".into(), provenance, levels, ..RunRecord::default() };
        let resume = Resume { record };
        assert_eq!((resume.run(), resume.begun()), ("old", 3));
        assert_eq!(resume.now(), Nanos::from_secs(23), "a wall clock that stood still");
        let cut = resume.cut().unwrap();
        assert_eq!((cut.index, cut.hold, cut.samples), (2, Nanos::from_secs(2), 2), "as long as it was held");
        let story = resume.story(Nanos::from_secs(23));
        let [own] = story.as_slice() else { panic!("{story:?}") };
        assert_eq!((own.kept, own.interrupted, own.at_ns), (2, Some(2), 23_000_000_000));
        assert_eq!(own.boots[0].as_deref(), Some("boot-1"));
        let notes = resume.notes(&story, true);
        assert_eq!(notes[0], "noted");
        let told = "2 levels are kept of run old, which was interrupted within its level 3";
        assert!(notes[1].contains(told) && notes[1].contains("this host was started again"), "{}", notes[1]);
    }
}
