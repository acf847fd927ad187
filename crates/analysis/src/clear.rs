//! Whether a miss is clear although generator, receiver or host were not in order: the platform missed even if all that they
//! may have added is taken off.

use crate::censored::NEVER;
use crate::level::LevelSummary;
use crate::objective;
use crate::validity::NEVER_READY;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{LevelRecord, SampleRecord};
use plimsoll_model::text::grouped;
use plimsoll_model::{Histogram, Metric, Nanos, Validity};
use plimsoll_stats::quantile;

/// How many standard errors a share must lie beyond what an objective allows.
const MARGIN: f64 = 3.0;
/// Observations beyond the bound that show a miss where the quantile itself is not known.
const BEYOND: u64 = 10;
/// How many times as many as the objective allows they must be: those of one moment come together.
const FAR: f64 = 3.0;
/// Of what the generator and the receiver added, the quantiles up to which it is taken off, one after the other.
const TAKEN_OFF: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];
/// A subscriber reads as soon as it can. If half of what it read lay in our kernel for longer than this, it always had more to read.
const BEHIND: Nanos = Nanos::from_millis(10);
/// A server that others stop for some time makes no message wait longer by more than that time. What waits for a repetition
/// may: so many times as long is excused.
const AMPLIFIED: f64 = 2.0;

/// Whether an objective that a level misses is missed clearly.
///
/// Of a quantile: a time from due is no longer than the lateness before it, the platform's own part and the lag after it
/// together. So the share of platform's parts above the bound is at least the share of times above bound + lateness + lag,
/// less the share of larger latenesses and lags, for any lateness and lag (Boole's inequality).
///
/// Of a platform whose processors others `held` for so long in all, what it took responsibility for and lost is clear. So are
/// times that lie beyond the bound by more than [`AMPLIFIED`] times that.
pub fn is_clear(
    objective: &Objective,
    level: &LevelSummary,
    record: &LevelRecord,
    held: Option<Nanos>,
) -> bool {
    let (level, record) = objective::about(objective, level, record);
    match objective.subject {
        Subject::Delivered => losses_are_clear(objective, level, record, held.is_some()),
        Subject::Quantile(metric, q) => time_is_clear(metric, q, objective.bound, level, record, held),
        _ if held.is_some() => false,
        Subject::Achieved => level.achievement.at_last.is_some_and(|at_last| {
            // What was never taken up is the generator's failure.
            let never = level.never_ready as f64 / level.due.max(1) as f64;
            !objective.comparison.holds(at_last + never, objective.bound)
        }),
        Subject::Mean(_) | Subject::Connected | Subject::FaultRecovery => level.validity == Validity::Valid,
    }
}

/// Why an objective on a quantile is missed clearly, though there are too few observations to tell the quantile itself: as many
/// as it needs beyond it lie beyond the bound, and they are several times as many as it allows. `None` where it is not.
pub fn is_clear_of_few(objective: &Objective, level: &LevelSummary, record: &LevelRecord) -> Option<String> {
    let Subject::Quantile(metric, q) = objective.subject else { return None };
    let (level, record) = objective::about(objective, level, record);
    let samples = record.samples.iter().flatten().filter_map(|sample| sample.histograms.get(&metric));
    let bound = Nanos::from_secs_f64(objective.bound).max(Nanos::ZERO);
    let above: u64 = samples.clone().map(|times| times.count_above(bound)).sum();
    let n: u64 = samples.map(Histogram::count).sum();
    let allowed = (1.0 - q) * n as f64;
    let is_far = n < quantile::fewest_observations(q) && above >= BEYOND && above as f64 > FAR * allowed;
    // Whether others held its processor is judged with all other misses.
    (is_far && time_is_clear(metric, q, objective.bound, level, record, None)).then(|| {
        let [above, n, allowed] = [above as f64, n as f64, allowed.floor()].map(grouped);
        format!("{above} of {n} took longer (objective {objective} allows {allowed})")
    })
}

/// What the platform took responsibility for and lost is lost whatever the host kept from anybody, unless our kernel may still
/// have had it when we stopped to read. What it never acknowledged may be missing because we read too late.
fn losses_are_clear(objective: &Objective, level: &LevelSummary, record: &LevelRecord, robbed: bool) -> bool {
    if may_be_unread(record) {
        return false;
    }
    let owed = level.expected_deliveries.saturating_sub(level.superseded).max(1) as f64;
    let without = |lost: u64| !objective.comparison.holds(1.0 - lost as f64 / owed, objective.bound);
    let excused = robbed || level.validity == Validity::ReceiverBound;
    without(level.lost_acknowledged.unwrap_or(0)) || !excused && without(level.lost)
}

/// Whether what never came may be ours: our subscribers were so far behind that what lay in our kernel at the end of the drain was never
/// read, or they read more slowly than messages came, so that TCP made the platform keep the others.
pub(crate) fn may_be_unread(record: &LevelRecord) -> bool {
    let mut all = Histogram::new();
    let samples = record.samples.iter().flatten();
    samples.filter_map(|sample| sample.histograms.get(&Metric::ReceiverLag)).for_each(|lags| all.merge(lags));
    let longest = all.max().unwrap_or(Nanos::ZERO);
    let drained =
        record.end.as_ref().map_or(Nanos::ZERO, |end| end.at - record.start.hold_start - record.start.hold);
    longest > Nanos::ZERO && longest >= drained / 2 || all.quantile(0.5).is_some_and(|lag| lag > BEHIND)
}

fn time_is_clear(
    metric: Metric,
    q: f64,
    bound: f64,
    level: &LevelSummary,
    record: &LevelRecord,
    held: Option<Nanos>,
) -> bool {
    let from_due = matches!(metric, Metric::PublishTime | Metric::SubscribeTime | Metric::QueryTime);
    let received = matches!(metric, Metric::SubscribeTime | Metric::SubscribeTimeFromSend);
    if !from_due && !received && metric != Metric::PublishTimeFromSend {
        return level.validity == Validity::Valid && held.is_none();
    }
    // Another load than the one asked for was offered, in other pieces.
    if level.never_ready as f64 > level.due as f64 * NEVER_READY {
        return false;
    }
    let all = |metric: Metric| {
        let mut all = Histogram::new();
        let samples = record.samples.iter().flatten();
        samples.filter_map(|sample: &SampleRecord| sample.histograms.get(&metric)).for_each(|h| all.merge(h));
        all
    };
    let times = all(metric);
    let owed = level.with_censored.get(&metric).map_or(times.count(), |time| time.n);
    // What was never sent may have waited for a thread of ours, where these were the limit.
    let ours = if level.validity == Validity::Valid { level.never_ready } else { level.unsent };
    let missing = owed.saturating_sub(times.count()).saturating_sub(ours);
    // What had not come when the drain ended may have come later of a platform that others kept waiting, and a subscriber that is far
    // behind has not read all that came.
    let is_excused = held.is_some() || received && may_be_unread(record);
    let never = if is_excused { 0 } else { missing };
    let n = times.count() + missing;
    if n == 0 {
        return false;
    }
    let lateness = if from_due { all(Metric::Lateness) } else { Histogram::new() };
    let lag = all(Metric::ReceiverLag);
    let share = |times: &Histogram, above: Nanos| match times.count() {
        0 => 0.0,
        count => times.count_above(above) as f64 / count as f64,
    };
    let at = |times: &Histogram, q: f64| times.quantile(q).unwrap_or(Nanos::ZERO);
    let allowed = 1.0 - q;
    let margin = MARGIN * (allowed * q / n as f64).sqrt();
    let excused = held.map_or(Nanos::ZERO, |held| Nanos::from_secs_f64(held.as_secs_f64() * AMPLIFIED));
    // What the clocks of workers may have added to it.
    let by_clocks = level.crossed.filter(|_| received).map_or(0.0, |crossed| crossed.within);
    let bound = Nanos::from_secs_f64(bound + by_clocks).max(Nanos::ZERO) + excused;
    TAKEN_OFF.iter().any(|&quantile| {
        let (late, slow) = (at(&lateness, quantile), at(&lag, quantile));
        let beyond = (bound + late + slow).0.min(NEVER.0);
        let above = times.count_above(Nanos(beyond)) + never;
        let surely = above as f64 / n as f64 - share(&lateness, late) - share(&lag, slow);
        surely > allowed + margin
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Counts;
    use plimsoll_model::objective::{Comparison, Objectives};
    use plimsoll_model::record::{LevelEnd, LevelStart, Terms};

    /// So many messages, of which some took 100 ms and all others 1 ms.
    fn told(n: u64, slow: u64) -> Option<String> {
        let mut times = Histogram::new();
        times.record_n(Nanos::from_millis(1), n - slow);
        times.record_n(Nanos::from_millis(100), slow);
        let counts = Counts { due: n, sent: n, completed: n, ..Counts::default() };
        let sample = SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() };
        let record = LevelRecord {
            populations: Vec::new(),
            start: LevelStart { hold: Nanos::from_secs(8), samples: 1, ..LevelStart::default() },
            end: None,
            warm_up: SampleRecord::default(),
            samples: vec![Some(sample)],
            threads: Vec::new(),
        };
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        let objective = Objective { population: None, subject, comparison: Comparison::Below, bound: 0.015 };
        let level = LevelSummary { due: n, sent: n, ..LevelSummary::default() };
        is_clear_of_few(&objective, &level, &record)
    }

    #[test]
    fn few_observations_are_enough_for_a_miss_that_is_far() {
        let reason = told(293, 73).unwrap();
        assert_eq!(reason, "73 of 293 took longer (objective publish_p99 < 15.0 ms allows 2)");
        assert_eq!(told(293, 7), None, "chance");
        assert_eq!(told(400, 11), None, "not far");
        assert_eq!(told(5000, 1000), None, "enough for an interval");
    }

    /// Whether it is clear that 500 of 1,000 deliveries missed a bound on their time, if they never came, and our subscribers read the
    /// others so long after our kernel had them.
    fn undelivered(lag: Nanos) -> bool {
        let (mut times, mut lags) = (Histogram::new(), Histogram::new());
        times.record_n(Nanos::from_millis(1), 500);
        lags.record_n(lag, 500);
        let histograms = [(Metric::SubscribeTime, times), (Metric::ReceiverLag, lags)].into();
        let counts =
            Counts { due: 1000, sent: 1000, expected_deliveries: 1000, delivered: 500, ..Counts::default() };
        let sample = SampleRecord { counts, histograms };
        let hold = Nanos::from_secs(8);
        let record = LevelRecord {
            start: LevelStart { hold, samples: 1, ..LevelStart::default() },
            end: Some(LevelEnd { at: hold + Nanos::from_secs(3), ..LevelEnd::default() }),
            samples: vec![Some(sample)],
            ..LevelRecord::default()
        };
        let subject = Subject::Quantile(Metric::SubscribeTime, 0.9);
        let objective = Objective { population: None, subject, comparison: Comparison::Below, bound: 0.05 };
        let mut level = LevelSummary { due: 1000, sent: 1000, ..LevelSummary::default() };
        let level_objectives = Objectives { level: vec![objective.clone()], load_line: None };
        let terms = Terms { objectives: level_objectives, ..Terms::default() };
        level.with_censored = crate::censored::with_censored(&record, &terms);
        is_clear(&objective, &level, &record, None)
    }

    #[test]
    fn what_our_subscribers_may_not_have_read_is_no_miss_of_the_platform() {
        assert!(undelivered(Nanos::from_millis(1)));
        assert!(!undelivered(Nanos::from_secs(2)));
        assert!(!undelivered(Nanos::from_millis(300)), "the rest waited before a full window");
    }
}
