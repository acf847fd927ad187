//! Whether a platform takes as long at equal load on the way down as on the way up. Where it does not, it has not recovered from what it
//! saw above that load.
//!
//! The time of a level is the mean of each sample, on a logarithmic scale; samples are put together until neighbours are independent. The
//! two holds of a load are compared by Welch's interval. Over all loads together, the chance is at most 5 % that any interval misses the
//! factor (Bonferroni). Each load is held once each way, so an interval knows nothing of what changes from hold to hold by itself: only a
//! factor that matters is called slower.

use crate::level::{LevelSummary, LevelVerdict};
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::{Load, Metric};
use plimsoll_stats::batches::{batching, groups};
use plimsoll_stats::student::difference_interval_at;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The chance that any of the intervals misses its factor.
const ALARMS: f64 = 0.05;
/// From this factor on, a difference matters: hosts and platforms change by less from one hold to the next by themselves.
const MATTERS: f64 = 1.25;

/// What came of the levels of a way up and a way down.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Hysteresis {
    /// Each load that was held both ways, from the highest down.
    pub pairs: Vec<LevelPair>,
    /// Whether any of them was surely slower on the way down.
    pub seen: bool,
    /// The same for people.
    pub told: String,
}

/// A load that was held on the way up and on the way down.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LevelPair {
    /// The load, for people.
    pub load: String,
    /// The number of its level of the way up.
    pub up: u16,
    /// The number of its level of the way down.
    pub down: u16,
    /// How many times as long messages took on the way down; null where that is not known.
    pub times: Option<f64>,
    /// The interval of that, with the confidence that belongs to so many pairs.
    pub interval: Option<[f64; 2]>,
    /// What that says.
    pub change: Change,
    /// Why it is not known; empty where it is.
    pub why: String,
}

/// How the way down compares with the way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Surely by a quarter slower or more.
    Slower,
    /// Surely by less than a quarter slower or faster.
    Alike,
    /// Surely by a fifth faster or more, as a platform that was warming up on the way up.
    Faster,
    /// The interval leaves it open.
    Open,
    /// It cannot be compared.
    Unknown,
}

impl Change {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Change::Slower => "slower",
            Change::Alike => "alike",
            Change::Faster => "faster",
            Change::Open => "open",
            Change::Unknown => "not known",
        }
    }
}

/// Of a run with a way down; `None` without one.
pub fn of(record: &RunRecord, levels: &[LevelSummary]) -> Option<Hysteresis> {
    let metric = record.terms.leading_time();
    let both: Vec<(&LevelRecord, &LevelSummary)> = record.levels.iter().zip(levels).collect();
    let down = both.iter().filter(|(_, level)| level.falling && level.finished);
    // Of several holds of a load on the way up the last counts: what decided nothing was held again.
    let up =
        |load: Load| both.iter().rfind(|(_, level)| !level.falling && level.finished && level.load == load);
    let pairs: Vec<_> = down.filter_map(|down| Some((up(down.1.load)?, down))).collect();
    if pairs.is_empty() {
        return None;
    }
    let confidence = 1.0 - ALARMS / pairs.len() as f64;
    let pairs: Vec<LevelPair> =
        pairs.into_iter().map(|(up, down)| pair(*up, *down, metric, confidence)).collect();
    let told = told(&pairs);
    Some(Hysteresis { seen: pairs.iter().any(|pair| pair.change == Change::Slower), pairs, told })
}

fn pair(
    (up, up_level): (&LevelRecord, &LevelSummary),
    (down, down_level): (&LevelRecord, &LevelSummary),
    metric: Metric,
    confidence: f64,
) -> LevelPair {
    let not_measured = |level: &LevelSummary| level.verdict == LevelVerdict::Invalid;
    let why = match (not_measured(up_level), not_measured(down_level)) {
        (true, _) => "its level of the way up is invalid",
        (_, true) => "its level of the way down is invalid",
        // Times of an overload grow with the length of the hold.
        _ if up_level.overload => "it was an overload on the way up, too",
        _ => "",
    };
    let compared = || {
        let (one, other) = (logarithms(up, metric), logarithms(down, metric));
        let interval = difference_interval_at(&one, &other, confidence)?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Some(((mean(&other) - mean(&one)).exp(), [interval.lo.exp(), interval.hi.exp()]))
    };
    let found = if why.is_empty() { compared() } else { None };
    let change = match found {
        None => Change::Unknown,
        Some((_, [lo, _])) if lo > MATTERS => Change::Slower,
        Some((_, [_, hi])) if hi < 1.0 / MATTERS => Change::Faster,
        Some((_, [lo, hi])) if lo > 1.0 / MATTERS && hi < MATTERS => Change::Alike,
        Some(_) => Change::Open,
    };
    let why = if why.is_empty() && found.is_none() { "too few samples have times" } else { why };
    LevelPair {
        load: down_level.load.to_string(),
        up: up_level.index,
        down: down_level.index,
        times: found.map(|(times, _)| times),
        interval: found.map(|(_, interval)| interval),
        change,
        why: why.to_owned(),
    }
}

/// The logarithms of the mean times of samples, put together until neighbours are independent.
fn logarithms(level: &LevelRecord, metric: Metric) -> Vec<f64> {
    let times = level.samples.iter().flatten().filter_map(|sample| sample.histograms.get(&metric)?.mean());
    let values: Vec<f64> = times.filter(|mean| *mean > 0.0).map(f64::ln).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let deviations: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let size = batching(&deviations).size;
    let batch = |range: std::ops::Range<usize>| {
        let own = values.get(range).unwrap_or_default();
        own.iter().sum::<f64>() / own.len().max(1) as f64
    };
    groups(values.len(), size).map(batch).collect()
}

/// A sentence on all pairs.
fn told(pairs: &[LevelPair]) -> String {
    let of = |change: Change| pairs.iter().filter(move |pair| pair.change == change);
    let worst = of(Change::Slower)
        .max_by(|one, other| one.times.unwrap_or(0.0).total_cmp(&other.times.unwrap_or(0.0)));
    if let Some((LevelPair { load, .. }, times, [lo, hi])) =
        worst.and_then(|pair| Some((pair, pair.times?, pair.interval?)))
    {
        let others = match of(Change::Slower).count() - 1 {
            0 => String::new(),
            1 => "; another load took longer, too".to_owned(),
            more => format!("; {more} other loads took longer, too"),
        };
        return format!(
            "on the way down, {load} took {times:.1} times as long as on the way up ({lo:.1} to {hi:.1}): the platform has not \
             recovered from what it saw above{others}"
        );
    }
    let [alike, faster, all] = [of(Change::Alike).count(), of(Change::Faster).count(), pairs.len()];
    let verb = if faster == 1 { "was" } else { "were" };
    let faster_too = match faster {
        0 => String::new(),
        _ => format!("; {faster} of them {verb} faster than on the way up"),
    };
    match alike + faster {
        known if known == all => {
            format!(
                "no hysteresis is seen: on the way down, no load took {MATTERS} times as long as on the way up{faster_too}"
            )
        }
        0 => "whether there is hysteresis is not known: no load could be compared closely enough".to_owned(),
        known => format!(
            "no hysteresis is seen, as far as could be compared: on the way down, {known} of {all} loads took less than {MATTERS} \
             times as long as on the way up{faster_too}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::{LevelStart, SampleRecord, Terms};
    use plimsoll_model::{Histogram, Nanos};
    use plimsoll_stats::distribution::random;

    /// Twenty samples whose messages take so many milliseconds, give or take a tenth.
    fn level(index: u16, rate: f64, falling: bool, millis: f64) -> (LevelRecord, LevelSummary) {
        let mut numbers = random(7, &[u64::from(index)]);
        let mut sample = || {
            let mut times = Histogram::new();
            let mean = millis * 1e6 * (0.9 + 0.2 * numbers.fraction());
            times.record_n(Nanos(mean as i64), 100);
            Some(SampleRecord {
                histograms: [(Metric::PublishTime, times)].into(),
                ..SampleRecord::default()
            })
        };
        let load = Load::Rate(rate);
        let record = LevelRecord {
            start: LevelStart { index, load, falling, samples: 20, ..LevelStart::default() },
            samples: (0..20).map(|_| sample()).collect(),
            ..LevelRecord::default()
        };
        let verdict = LevelVerdict::Met;
        (record, LevelSummary { index, load, falling, finished: true, verdict, ..LevelSummary::default() })
    }

    fn found(down: [f64; 2], change: impl FnOnce(&mut Vec<LevelSummary>)) -> Option<Hysteresis> {
        let all = vec![
            level(0, 100.0, false, 1.0),
            level(1, 200.0, false, 2.0),
            level(2, 400.0, false, 9.0),
            level(3, 200.0, true, down[0]),
            level(4, 100.0, true, down[1]),
        ];
        let (levels, mut summaries): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        change(&mut summaries);
        let terms = Terms { qos: 1, ..Terms::default() };
        of(&RunRecord { levels, terms, ..RunRecord::default() }, &summaries)
    }

    #[test]
    fn a_platform_that_stays_slow_is_named_with_its_factor() {
        let found = found([4.2, 1.0], |_| {}).unwrap();
        let changes: Vec<Change> = found.pairs.iter().map(|pair| pair.change).collect();
        assert_eq!((changes.as_slice(), found.seen), (&[Change::Slower, Change::Alike][..], true));
        let [lo, hi] = found.pairs[0].interval.unwrap();
        assert!(lo < 2.1 && 2.1 < hi && hi - lo < 0.4, "{lo} to {hi}");
        assert!(found.told.starts_with("on the way down, 200/s took 2."), "{}", found.told);
        assert!(found.told.ends_with("has not recovered from what it saw above"), "{}", found.told);
    }

    #[test]
    fn a_platform_that_recovers_has_no_hysteresis() {
        let alike = found([2.0, 1.0], |_| {}).unwrap();
        assert_eq!((alike.seen, alike.pairs[0].up, alike.pairs[0].down), (false, 1, 3));
        assert!(alike.told.starts_with("no hysteresis is seen: "), "{}", alike.told);
        let faster = found([1.0, 1.0], |_| {}).unwrap();
        assert_eq!((faster.seen, faster.pairs[0].change), (false, Change::Faster));
        assert!(faster.told.ends_with("1 of them was faster than on the way up"), "{}", faster.told);
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let invalid = found([4.0, 1.0], |levels| levels[3].verdict = LevelVerdict::Invalid).unwrap();
        assert_eq!((invalid.pairs[0].change, invalid.seen), (Change::Unknown, false));
        assert!(invalid.told.contains("1 of 2 loads"), "{}", invalid.told);
        let overload = found([4.0, 1.0], |levels| levels[1].overload = true).unwrap();
        assert_eq!(overload.pairs[0].why, "it was an overload on the way up, too");
        assert_eq!(
            found([2.0, 1.0], |levels| levels.iter_mut().for_each(|level| level.falling = false)),
            None
        );
    }
}
