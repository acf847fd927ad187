//! Whether the platform recovered from a fault, and when: by the first of several samples in a row that meet the objectives.

use super::phase::Phases;
use crate::censored::{self, NEVER};
use crate::sample_tests::{IN_A_ROW, SampleTests, first_of_row};
use plimsoll_model::record::{LevelRecord, Terms};
use plimsoll_model::{Counts, Histogram, Nanos};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// The share of the samples before a fault that may miss an objective of a platform that is said to have met it.
const MISSED_BEFORE: f64 = 0.2;
/// Samples after a fault that show whether times still fall.
const FEWEST: usize = 10;
/// Devices send clearly more where it is so many times as much.
const MORE: f64 = 1.1;
/// The share of what is due that a platform answers at least that keeps up.
const KEPT_UP: f64 = 0.95;
/// Times fall where those of the last third are less than this share of those of the first third.
const FALLING: f64 = 0.95;

/// Whether the platform recovered, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RecoverySummary {
    /// What became of the platform.
    pub outcome: Outcome,
    /// From the end of the fault until objectives were met again, in seconds; null where they were not, or nobody can say.
    pub from_end: Option<f64>,
    /// The same from the beginning of the fault; 0 where no sample missed an objective.
    pub from_start: Option<f64>,
    /// Objectives may have been met again up to so many seconds before: the length of a sample, and of those before it in which our
    /// generator was late, so that nobody can say.
    pub resolution: f64,
    /// Whether that is the longest that it can have taken, since the level is invalid: our generator, a receiver or the host may have
    /// made it longer.
    pub at_most: bool,
    /// Why that is the outcome, for people.
    pub why: String,
}

/// What became of the platform after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No sample missed an objective, during the fault neither.
    Undisturbed,
    /// It met its objectives again.
    Recovered,
    /// It did not yet, but its times still fell when the level ended, or there was too little time to say.
    Recovering,
    /// It did not, and its times did not fall.
    NotRecovered,
    /// The same, although the load is as it was before: the devices' retries keep the platform overloaded.
    Metastable,
    /// Nobody can say: `why` says what is missing.
    Unknown,
}

impl RecoverySummary {
    /// The same in a level that did not measure the platform: nobody says that it has not recovered.
    pub(super) fn in_invalid(&mut self) {
        match self.outcome {
            Outcome::Recovered => self.at_most = true,
            Outcome::Recovering | Outcome::NotRecovered | Outcome::Metastable => {
                self.outcome = Outcome::Unknown;
                self.why = format!("the level is invalid; {}", self.why);
            }
            Outcome::Undisturbed | Outcome::Unknown => {}
        }
    }

    /// For people.
    pub fn in_words(&self) -> String {
        match (self.outcome, self.from_end) {
            (Outcome::Undisturbed, _) => "no sample missed an objective".to_owned(),
            (Outcome::Recovered, Some(from_end)) => match from_end {
                0.0 => format!("recovered within {:.2} s of its end", self.resolution),
                _ if self.at_most => format!("recovered at most {from_end:.2} s after its end"),
                _ => format!("recovered {from_end:.2} s after its end (exact to {:.2} s)", self.resolution),
            },
            (Outcome::Recovering, _) => format!("not recovered when the level ended: {}", self.why),
            (Outcome::NotRecovered, _) => format!("not recovered: {}", self.why),
            (Outcome::Metastable, _) => format!("metastable failure: {}", self.why),
            (Outcome::Recovered | Outcome::Unknown, _) => format!("recovery not known: {}", self.why),
        }
    }
}

/// Whether the platform recovered, and the first sample of it; `span` says when the fault was there, from the beginning of the hold.
pub(super) fn of(
    record: &LevelRecord,
    terms: &Terms,
    phases: &Phases,
    span: Option<(Nanos, Nanos)>,
) -> (RecoverySummary, Option<usize>) {
    let resolution = record.start.sample_seconds(0);
    let told = |outcome, why: String| RecoverySummary {
        outcome,
        from_end: None,
        from_start: None,
        resolution,
        at_most: false,
        why,
    };
    let unknown = |why: &str| (told(Outcome::Unknown, why.to_owned()), None);
    let Some((began, ended)) = span else { return unknown("the fault was not there as planned") };
    let tests = SampleTests::of(record, terms);
    if tests.is_empty() {
        return unknown("no objective on deliveries or on a quantile of a time can be tested in a sample");
    }
    if phases.before.is_empty() {
        return unknown("there is no sample before it in which the platform met its objectives");
    }
    let judged = |samples: Range<usize>| samples.filter_map(|sample| tests.meets(sample));
    let (met, all) =
        judged(phases.before.clone()).fold((0, 0), |(met, all), own| (met + usize::from(own), all + 1));
    if ((all - met) as f64) > MISSED_BEFORE * f64::from(u32::try_from(all).unwrap_or(u32::MAX)) || all == 0 {
        let why = format!("{} of the {all} samples before it missed an objective, too", all - met);
        let why = if all == 0 { "in the samples before it, our generator was late".to_owned() } else { why };
        return unknown(&why);
    }
    // The sample in which it ends may already show the platform as it was.
    let first = phases.during.end.saturating_sub(1);
    let from = if ended > record.start.sample_begin(first) { first } else { phases.during.end };
    let is_met = |sample: usize| tests.meets(sample);
    let recovered = first_of_row(from..phases.rest.end, is_met);
    let disturbed = judged(phases.during.start..recovered.unwrap_or(phases.rest.end)).any(|met| !met);
    let Some(sample) = recovered else {
        let rest = phases.rest.clone();
        let left = (record.start.sample_begin(rest.end) - ended).as_secs_f64();
        let enough = rest.len() >= FEWEST && left >= (ended - began).as_secs_f64();
        let falls = falls(record, terms, &rest);
        return match (enough, falls) {
            (false, _) => (told(Outcome::Recovering, format!("{left:.1} s are too short to say")), None),
            (true, true) => (told(Outcome::Recovering, "times still fell".to_owned()), None),
            (true, false) => {
                let why = format!(
                    "for {left:.1} s, no {IN_A_ROW} samples in a row met the objectives, and times did not fall"
                );
                match metastability(record, phases) {
                    Some(evidence) => (told(Outcome::Metastable, format!("{why}; {evidence}")), None),
                    None => (told(Outcome::NotRecovered, why), None),
                }
            }
        };
    };
    let begin = record.start.sample_begin(sample);
    let passed_over =
        (phases.during.start..sample).rev().take_while(|before| tests.meets(*before).is_none()).count();
    let resolution = resolution * (1 + passed_over) as f64;
    let told = |outcome, why| RecoverySummary { resolution, ..told(outcome, why) };
    let since = |time: Nanos| Some((begin - time).as_secs_f64().max(0.0));
    let why = format!("{IN_A_ROW} samples in a row met the objectives");
    let summary = if disturbed {
        RecoverySummary { from_end: since(ended), from_start: since(began), ..told(Outcome::Recovered, why) }
    } else {
        RecoverySummary { from_end: Some(0.0), from_start: Some(0.0), ..told(Outcome::Undisturbed, why) }
    };
    (summary, Some(sample))
}

/// What shows that retries keep a platform overloaded that has not recovered; `None` where they need not be the reason. Taken
/// together: no more is due than before the fault, devices send clearly more than before it, and the platform answers as much as is
/// due. So it could carry the load, and spends its time on attempts of which nobody awaits the answer any more (Bronson et al.,
/// Metastable Failures in Distributed Systems, HotOS 2021). A platform that answers less has lost capacity, and retries may only
/// follow from that.
fn metastability(record: &LevelRecord, phases: &Phases) -> Option<String> {
    let third = phases.rest.len() / 3;
    let before = Work::of(record, phases.before.clone());
    let now = Work::of(record, phases.rest.end - third..phases.rest.end);
    let holds = now.repeated > 0.0
        && now.due <= before.due * MORE
        && now.attempts() >= before.attempts() * MORE
        && now.answered >= now.due * KEPT_UP;
    holds.then(|| {
        format!(
            "{:.0}/s are due as before, devices send {:.0}/s instead of {:.0}/s, and the platform answers {:.0}/s: without the \
             retries it would keep up",
            now.due,
            now.attempts(),
            before.attempts(),
            now.answered
        )
    })
}

/// What was asked and done in some samples, per second.
struct Work {
    due: f64,
    repeated: f64,
    /// Attempts that were acknowledged or refused, whether anybody awaited that or not.
    answered: f64,
}

impl Work {
    fn of(record: &LevelRecord, samples: Range<usize>) -> Work {
        let seconds: f64 = samples.clone().map(|sample| record.start.sample_seconds(sample)).sum();
        let mut counts = Counts::default();
        let own = record.samples.get(samples).unwrap_or_default();
        own.iter().flatten().for_each(|sample| counts += sample.counts);
        let rate = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        Work {
            due: rate(counts.due),
            repeated: rate(counts.repeated),
            answered: rate(counts.completed + counts.acknowledged_again + counts.refused),
        }
    }

    fn attempts(&self) -> f64 {
        self.due + self.repeated
    }
}

/// Whether the median time of the last third of samples is below that of the first third, what never came included.
fn falls(record: &LevelRecord, terms: &Terms, samples: &Range<usize>) -> bool {
    let third = samples.len() / 3;
    let metric = terms.leading_time();
    let owed = censored::owed_of_all(record, terms, metric);
    let median = |samples: Range<usize>| {
        let mut all = Histogram::new();
        for sample in samples {
            let times =
                record.samples.get(sample).and_then(|sample| sample.as_ref()?.histograms.get(&metric));
            times.into_iter().for_each(|times| all.merge(times));
            let seen = times.map_or(0, Histogram::count);
            all.record_n(NEVER, owed.get(sample).copied().unwrap_or(0).saturating_sub(seen));
        }
        all.quantile(0.5)
    };
    let first = median(samples.start..samples.start + third);
    let last = median(samples.end - third..samples.end);
    first.zip(last).is_some_and(|(first, last)| (last.0 as f64) < first.0 as f64 * FALLING)
}
