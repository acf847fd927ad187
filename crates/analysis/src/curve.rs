//! A level whose load follows a curve: what was offered and done in each sample, and the times at which objectives were missed.
//!
//! The objectives hold all along the curve. A sample misses one if more of its messages lie beyond the bound than chance explains. Over
//! all samples and objectives of a level together, the chance is at most 5 % that any is said to miss of a platform that just meets them
//! (Bonferroni). Beside a spike, they hold before it and from the recovery on ([`crate::faults`]).

use crate::faults::Outcome;
use crate::level::{LevelSummary, LevelVerdict};
use crate::load_line::rate;
use crate::objective::Standing;
use crate::sample_tests::{SampleTest, SampleTests, first_of_row};
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{LevelRecord, LevelStart, SampleRecord, Terms};
use plimsoll_model::{LoadCurve, Metric, Nanos, Verdict};
use plimsoll_stats::proportion::chance_of_at_least;
use plimsoll_stats::quantile::quantile;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// The chance that any sample of a level is said to miss an objective that the platform just meets.
const ALARMS: f64 = 0.05;
/// So many stretches of time are told one by one.
const TOLD: usize = 3;

/// A level whose load follows a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CurveSummary {
    /// The lowest load that was offered, in operations per second.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// Each sample of the hold.
    pub parts: Vec<CurvePart>,
    /// The times at which an objective was missed, by objective and time; none of a spike.
    pub missed: Vec<MissedStretch>,
    /// Whether it is a spike, from which `faults` says how the platform recovered.
    pub is_spike: bool,
}

/// A sample of a level along a curve. Messages belong to the sample in which they were due.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CurvePart {
    /// When it begins on the curve's own clock.
    pub time: String,
    /// When it begins and ends, in seconds from the beginning of the hold.
    pub span: [f64; 2],
    /// The mean load offered, in operations per second.
    pub offered: f64,
    /// Messages due in it.
    pub due: u64,
    /// Operations completed in its time, per second; null where the sample was not taken.
    pub achieved: Option<f64>,
    /// Expected deliveries that came before the drain ended.
    pub delivered: u64,
    /// Expected deliveries that never came.
    pub lost: u64,
    /// Messages not sent when the drain ended.
    pub unsent: u64,
    /// Median of the publish time, in seconds; null with too few observations.
    pub publish_p50: Option<f64>,
    /// 99 % quantile of the publish time, in seconds; null with too few observations.
    pub publish_p99: Option<f64>,
    /// 99 % quantile of the subscribe time, in seconds; null with too few observations.
    pub subscribe_p99: Option<f64>,
    /// Whether no objective was missed in it; null where nothing was due, or our generator was late.
    pub met: Option<bool>,
}

/// A time at which an objective was missed: from the first sample that misses it to the first of three in a row that do not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MissedStretch {
    /// The objective, as text.
    pub objective: String,
    /// When it begins on the curve's own clock.
    pub from: String,
    /// When it ends.
    pub to: String,
    /// The same in seconds from the beginning of the hold.
    pub span: [f64; 2],
    /// The lowest and the highest load offered in samples of it that missed, in operations per second.
    pub offered: [f64; 2],
    /// How many samples of it missed.
    pub samples: usize,
    /// The load from which on each sample of the hold missed the objective, and below which none did, in operations per second; null
    /// where there is none, as where the platform recovered late.
    pub at_least: Option<f64>,
}

/// Of a level that follows a curve and came to its end.
pub fn of(record: &LevelRecord, terms: &Terms) -> Option<CurveSummary> {
    let curve = record.start.curve.as_ref()?;
    let tests = SampleTests::of(record, terms);
    let is_spike = curve.spike().is_some();
    let judged = if is_spike { Vec::new() } else { judged(record, &tests) };
    let met = |sample: usize| match is_spike {
        true => tests.meets(sample),
        false => {
            judged.iter().filter_map(|(_, own)| own.get(sample).copied()?).reduce(|one, other| one && other)
        }
    };
    let part = |(place, sample): (usize, &Option<SampleRecord>)| {
        part(&record.start, curve, place, sample.as_ref(), met(place))
    };
    let whole = record.is_whole();
    let missed = judged.iter().filter(|_| whole);
    Some(CurveSummary {
        lowest: curve.lowest(),
        highest: curve.highest(),
        parts: record.samples.iter().enumerate().map(part).collect(),
        missed: missed.flat_map(|(test, own)| stretches(&record.start, curve, test, own)).collect(),
        is_spike,
    })
}

fn part(
    start: &LevelStart,
    curve: &LoadCurve,
    place: usize,
    sample: Option<&SampleRecord>,
    met: Option<bool>,
) -> CurvePart {
    let (begin, end) = (start.sample_begin(place), start.sample_begin(place + 1));
    let counts = sample.map(|sample| sample.counts).unwrap_or_default();
    let time = |metric: Metric, q: f64| {
        let times = sample?.histograms.get(&metric)?;
        quantile(times, q).map(Nanos::as_secs_f64)
    };
    CurvePart {
        time: curve.clock(begin),
        span: [begin.as_secs_f64(), end.as_secs_f64()],
        offered: curve.mean_between(begin, end),
        due: counts.due,
        achieved: sample.map(|_| counts.completed as f64 / start.sample_seconds(place)),
        delivered: counts.delivered,
        lost: counts.lost(),
        unsent: counts.unsent,
        publish_p50: time(Metric::PublishTime, 0.5),
        publish_p99: time(Metric::PublishTime, 0.99),
        subscribe_p99: time(Metric::SubscribeTime, 0.99),
        met,
    }
}

/// Of each objective that can be tested in a sample, whether each sample meets it; `None` where it says nothing.
fn judged<'a, 't>(
    record: &LevelRecord,
    tests: &'t SampleTests<'a>,
) -> Vec<(&'t SampleTest<'a>, Vec<Option<bool>>)> {
    let samples = 0..record.samples.len();
    let seen = |test: &SampleTest<'_>| -> Vec<Option<(u64, u64)>> {
        samples.clone().map(|sample| test.beyond(sample).filter(|_| !tests.is_late(sample))).collect()
    };
    let all: Vec<_> = tests.each().map(|test| (test, seen(test))).collect();
    let tested = all.iter().flat_map(|(_, seen)| seen).flatten().count();
    let alarm = ALARMS / tested.max(1) as f64;
    let is_met = |test: &SampleTest<'_>, seen: Option<(u64, u64)>| {
        let (beyond, n) = seen?;
        Some(chance_of_at_least(beyond, n, test.allowed()) > alarm)
    };
    all.into_iter()
        .map(|(test, seen)| (test, seen.into_iter().map(|seen| is_met(test, seen)).collect()))
        .collect()
}

/// The times at which an objective was missed.
fn stretches(
    start: &LevelStart,
    curve: &LoadCurve,
    test: &SampleTest<'_>,
    met: &[Option<bool>],
) -> Vec<MissedStretch> {
    let at = |sample: usize| start.sample_begin(sample);
    let offered = |sample: usize| curve.mean_between(at(sample), at(sample + 1));
    let that = |wanted: bool| (0..met.len()).filter(move |sample| met.get(*sample) == Some(&Some(wanted)));
    let lowest_missed = that(false).map(offered).reduce(f64::min);
    let highest_met = that(true).map(offered).reduce(f64::max);
    // Equal loads of the way up and down differ by rounding.
    let is_below = |highest: f64, lowest: f64| highest < lowest * (1.0 - 1e-9);
    let at_least =
        lowest_missed.filter(|lowest| highest_met.is_none_or(|highest| is_below(highest, *lowest)));
    let stretch = |samples: Range<usize>| {
        let missed: Vec<usize> = that(false).filter(|sample| samples.contains(sample)).collect();
        let loads = || missed.iter().map(|sample| offered(*sample));
        let (begin, end) = (at(samples.start), at(samples.end));
        MissedStretch {
            objective: test.objective.to_string(),
            from: curve.clock(begin),
            to: curve.clock(end),
            span: [begin.as_secs_f64(), end.as_secs_f64()],
            offered: [loads().fold(f64::INFINITY, f64::min), loads().fold(0.0, f64::max)],
            samples: missed.len(),
            at_least,
        }
    };
    let (mut all, mut from) = (Vec::new(), 0);
    while let Some(begin) = that(false).find(|sample| *sample >= from) {
        let recovered = first_of_row(begin..met.len(), |sample| met.get(sample).copied().flatten());
        // Where the hold ends before three are met, the last that missed ends it.
        let end = recovered.or_else(|| Some(that(false).next_back()? + 1)).unwrap_or(met.len());
        all.push(stretch(begin..end));
        from = end.max(begin + 1);
    }
    all
}

/// What a level with a spike says of an objective on times or on what is achieved: these hold before the spike and from the recovery on.
/// `None` of another objective, and of a level without a spike.
pub(crate) fn beside_spike(objective: &Objective, level: &LevelSummary) -> Option<Standing> {
    let is_apart = matches!(objective.subject, Subject::Quantile(..) | Subject::Mean(_) | Subject::Achieved);
    let has_spike = level.curve.as_ref().is_some_and(|curve| curve.is_spike);
    let spike = level.faults.first().filter(|_| is_apart && has_spike)?;
    let told = || format!("{objective}: {}", spike.in_words());
    Some(match spike.recovery.outcome {
        Outcome::Undisturbed | Outcome::Recovered => Standing::Met,
        Outcome::NotRecovered | Outcome::Metastable => Standing::Missed(told()),
        Outcome::Recovering | Outcome::Unknown => Standing::Undecided(told()),
    })
}

impl CurveSummary {
    /// When an objective was missed, for people; `None` where it was not.
    pub(crate) fn missed(&self, objective: &Objective) -> Option<String> {
        let name = objective.to_string();
        let own: Vec<&MissedStretch> = self.missed.iter().filter(|own| own.objective == name).collect();
        let first = own.first()?;
        let when = |own: &&MissedStretch| {
            let when = format!("from {} to {}", own.from, own.to);
            match (own.at_least, own.offered) {
                (Some(_), _) => when,
                (None, [low, high]) if rate(low) == rate(high) => format!("{when} ({}/s)", rate(low)),
                (None, [low, high]) => format!("{when} ({} to {}/s)", rate(low), rate(high)),
            }
        };
        let mut told: Vec<String> = own.iter().take(TOLD).map(when).collect();
        if own.len() > TOLD {
            told.push(format!("{} more times", own.len() - TOLD));
        }
        let last = told.pop()?;
        let when = if told.is_empty() { last } else { format!("{} and {last}", told.join(", ")) };
        let from_on = first.at_least.map(|load| format!(", at {}/s and more", rate(load)));
        Some(format!("{name} was missed {when}{}", from_on.unwrap_or_default()))
    }

    /// The verdict on a run of such a level, and why.
    pub(crate) fn judge(&self, level: &LevelSummary) -> (Verdict, String) {
        let (low, high) = (rate(self.lowest), rate(self.highest));
        match level.verdict {
            LevelVerdict::Met if self.is_spike => {
                let recovery = level.faults.first().map(|spike| spike.recovery.in_words());
                (Verdict::Met, format!("a spike from {low} to {high}/s: {}", recovery.unwrap_or_default()))
            }
            LevelVerdict::Met => {
                (Verdict::Met, format!("the objectives hold all along the curve, from {low} to {high}/s"))
            }
            LevelVerdict::Missed => (Verdict::Missed, level.why()),
            LevelVerdict::Invalid => (Verdict::Invalid, format!("this host cannot decide: {}", level.why())),
            LevelVerdict::Undecided | LevelVerdict::Unfinished => (Verdict::Invalid, level.why()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::objective::{Comparison, Objectives};
    use plimsoll_model::record::LevelEnd;
    use plimsoll_model::{Counts, Histogram, Load};

    fn objective() -> Objective {
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        Objective { population: None, subject, comparison: Comparison::Below, bound: 0.05 }
    }

    fn terms() -> Terms {
        let objectives = Objectives { level: vec![objective()], load_line: None };
        Terms { qos: 1, devices: 10, objectives, ..Terms::default() }
    }

    /// A day of 24 samples of a second with 1,000 messages each, of which so many take 100 ms: from 100/s at midnight evenly to 500/s at
    /// noon, and back.
    fn day(slow: [u64; 24]) -> LevelRecord {
        let hours = |hours: i64| Nanos::from_secs(3600 * hours);
        let hold = Nanos::from_secs(24);
        let curve = LoadCurve::new(&[(hours(0), 100.0), (hours(12), 500.0), (hours(24), 100.0)], hold);
        let sample = |slow: u64| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_millis(1), 1000 - slow);
            times.record_n(Nanos::from_millis(100), slow);
            let counts =
                Counts { due: 1000, sent: 1000, acknowledged: 1000, completed: 1000, ..Counts::default() };
            Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() })
        };
        LevelRecord {
            start: LevelStart { load: Load::Rate(300.0), hold, samples: 24, curve, ..LevelStart::default() },
            end: Some(LevelEnd { at: hold, ..LevelEnd::default() }),
            samples: slow.map(sample).to_vec(),
            ..LevelRecord::default()
        }
    }

    fn missed(slow: [u64; 24]) -> Option<String> {
        of(&day(slow), &terms()).unwrap().missed(&objective())
    }

    #[test]
    fn a_miss_has_its_times_and_its_load() {
        let mut slow = [5; 24];
        slow[10..14].fill(300);
        let told = "publish_p99 < 50.0 ms was missed from 10:00 to 14:00, at 450/s and more";
        assert_eq!(missed(slow).unwrap(), told);
        // At equal load and more in the morning it met.
        slow[14..16].fill(300);
        let told = "publish_p99 < 50.0 ms was missed from 10:00 to 16:00 (383 to 483/s)";
        assert_eq!(missed(slow).unwrap(), told);
    }

    #[test]
    fn what_meets_for_less_than_three_samples_has_not_recovered() {
        let mut slow = [0; 24];
        (slow[2], slow[5], slow[20], slow[23]) = (200, 200, 200, 200);
        let found = of(&day(slow), &terms()).unwrap().missed;
        let spans: Vec<[f64; 2]> = found.iter().map(|own| own.span).collect();
        assert_eq!(spans, [[2.0, 6.0], [20.0, 24.0]]);
        assert_eq!((found[0].samples, found[1].to.as_str()), (2, "24:00"));
    }

    #[test]
    fn chance_misses_nothing() {
        assert_eq!(missed([10; 24]), None, "just met");
        // A sample in a thousand has so many by chance, and of 24 that is not enough to say so.
        let mut slow = [10; 24];
        slow[7] = 20;
        assert_eq!(missed(slow), None);
        slow[7] = 30;
        assert!(missed(slow).is_some());
        // Of few messages a single slow one is chance.
        let mut record = day([0; 24]);
        let mut times = Histogram::new();
        times.record_n(Nanos::from_millis(100), 1);
        let counts = Counts { due: 1, sent: 1, acknowledged: 1, completed: 1, ..Counts::default() };
        record.samples[3] = Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() });
        assert_eq!(of(&record, &terms()).unwrap().missed, []);
    }

    #[test]
    fn each_sample_says_what_was_offered_and_done() {
        let mut record = day([5; 24]);
        record.samples[1] = None;
        let found = of(&record, &terms()).unwrap();
        let part = &found.parts[10];
        assert_eq!((part.time.as_str(), part.due, part.achieved), ("10:00", 1000, Some(1000.0)));
        assert!((part.offered - 450.0).abs() < 1e-9, "{part:?}");
        assert_eq!((part.met, found.parts[1].met, found.parts[1].achieved), (Some(true), None, None));
        assert_eq!((found.lowest, found.highest), (100.0, 500.0));
    }
}
