//! Whose limit was it (rule 2): whether a level measured the platform or ourselves.

use crate::generator::Generator;
use plimsoll_model::record::Terms;
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Nanos, Validity};

/// Lateness and lag that are always allowed, in seconds.
const SMALLEST_BOUND: f64 = 0.001;
/// Share of the tightest latency objective that lateness and lag may take.
const SHARE_OF_OBJECTIVE: f64 = 0.1;
/// Share of the hold that they may take in any case: where no objective looks at times, no more is asked of the generator.
const SHARE_OF_HOLD: f64 = 0.1;
/// Lateness and lag are by design up to the precision; the bound leaves half of it for wake-ups.
const OF_PRECISION: f64 = 1.5;
/// Share of what was due that the generator may fail to take up.
pub(crate) const NEVER_READY: f64 = 0.001;
/// Datagrams of the platform that may find no room at our sockets, as a share of what was due.
const OVERFLOWED: f64 = 0.001;
/// Share of a level's time that the host may keep from our threads before it is the host's fault.
const KEPT_BY_HOST: f64 = 0.1;
/// Share of the hold for which this process may stand still.
const STOOD_STILL: f64 = 0.02;

/// Share of its processor beyond which a load thread may have been the limit.
const BUSY: f64 = 0.9;

/// The bound in seconds that lateness and receiver lag of a valid level of so many seconds stay within. A scenario without
/// an objective on times has the widest.
pub fn bound(terms: &Terms, hold: f64) -> f64 {
    let widest = if hold > 0.0 { hold * SHARE_OF_HOLD } else { f64::INFINITY };
    let of_objective = terms.objectives.tightest_latency().map(|tightest| tightest * SHARE_OF_OBJECTIVE);
    let bound = of_objective.map_or(widest, |bound| bound.max(SMALLEST_BOUND).min(widest));
    bound.max(terms.precision.as_secs_f64() * OF_PRECISION)
}

/// The quantile of lateness and lag that the bound is asked of: the highest that an objective uses, 0.99 at least.
pub fn quantile(terms: &Terms) -> f64 {
    terms.objectives.highest_quantile().max(0.99)
}

/// What validity is judged by, beside the counts. Times in seconds; `None` where nothing was observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// Length of the hold.
    pub hold: f64,
    /// The quantile that is looked at, see [`quantile`].
    pub q: f64,
    /// That quantile of lateness, told here from however few observations there are.
    pub lateness: Option<f64>,
    /// That quantile of the receiver lag, likewise.
    pub receiver_lag: Option<f64>,
    /// Mean time that a load thread waited for a processor each time it had become runnable.
    pub wait_per_turn: Option<f64>,
    /// The share of what was due that was late by more than the bound while its load thread was at work, the time left out in which
    /// that thread slept or had no processor. `None` of a record that does not tell.
    pub late_by_own_work: Option<f64>,
    /// For how long this process stood still.
    pub stood_still: f64,
}

/// The validity of a level and, where it is not valid, the reason for people.
pub fn judge(
    counts: &Counts,
    generator: &Generator,
    evidence: &Evidence,
    terms: &Terms,
) -> (Validity, Option<String>) {
    let bound = bound(terms, evidence.hold);
    let shown = Nanos::from_secs_f64(bound.min(1e6));
    if evidence.stood_still > evidence.hold * STOOD_STILL {
        let (still, hold) = (Nanos::from_secs_f64(evidence.stood_still), Nanos::from_secs_f64(evidence.hold));
        let reason =
            format!("Plimsoll itself stood still for {still} of {hold}: it was stopped, or its host was");
        return (Validity::HostBound, Some(reason));
    }
    if let Some(wait) = evidence.wait_per_turn.filter(|&wait| wait > bound) {
        let wait = Nanos::from_secs_f64(wait);
        let reason = format!("load threads waited {wait} for a processor each time (bound {shown})");
        return (Validity::HostBound, Some(reason));
    }
    let own_fault = generator_fault(counts, evidence, bound)
        .map(|(reason, allowed)| (Validity::GeneratorBound, reason, Some(allowed)))
        .or_else(|| {
            receiver_fault(counts, evidence, bound).map(|reason| (Validity::ReceiverBound, reason, None))
        });
    let Some((validity, reason, allowed)) = own_fault else { return (Validity::Valid, None) };
    // Threads that sent in time were woken in time: what they read late they read slowly.
    let woken_late =
        evidence.late_by_own_work.zip(allowed).and_then(|(own, allowed)| woken_late(own, allowed));
    let by_host = kept_by_host(generator)
        .map(|kept| format!("the host kept {:.0} % of the time from our threads", kept * 100.0))
        .or(woken_late);
    match by_host {
        Some(why) => (Validity::HostBound, Some(format!("{reason}; {why}"))),
        None => (validity, Some(reason)),
    }
}

/// Why the host and not our own work made us late; `None` where our work alone made a share late that is not allowed.
fn woken_late(by_own_work: f64, allowed: f64) -> Option<String> {
    let (share, allowed) = (by_own_work * 100.0, allowed * 100.0);
    (share <= allowed).then(|| {
        format!(
            "the host let the load threads run late: by their own work alone, {share:.2} % would have been as late \
             ({allowed:.1} % may be)"
        )
    })
}

/// The share of the time that the host kept from the load threads, where that is too much.
fn kept_by_host(generator: &Generator) -> Option<f64> {
    let kept = generator.run_delay.unwrap_or(0.0) + generator.steal.unwrap_or(0.0);
    (kept > KEPT_BY_HOST).then_some(kept)
}

/// Why a level that does not meet its objectives must not be blamed on the platform although lateness and lag were within
/// bounds: the host kept much of the time from our threads, or one of them was busy nearly all of the time, so that
/// acknowledgements of ours, for which the platform waits, were slow too. A level that meets in spite of it has met.
pub fn excuse(generator: &Generator) -> Option<(Validity, String)> {
    if let Some(kept) = kept_by_host(generator) {
        let share = kept * 100.0;
        let reason = format!("the host kept {share:.0} % of the time from the load threads (bound 10 %)");
        return Some((Validity::HostBound, reason));
    }
    let busiest = generator.cpu.iter().flatten().copied().fold(0.0, f64::max);
    (busiest > BUSY).then(|| {
        let share = busiest * 100.0;
        let reason = format!(
            "a load thread used {share:.0} % of its processor (bound 90 %), so it may have been the limit"
        );
        (Validity::GeneratorBound, reason)
    })
}

/// Why we were late, and the share of what was due that may be as late.
fn generator_fault(counts: &Counts, evidence: &Evidence, bound: f64) -> Option<(String, f64)> {
    let missed = counts.never_ready as f64 / counts.due.max(1) as f64;
    if missed > NEVER_READY {
        let share = missed * 100.0;
        let reason = format!("the generator never took up {share:.1} % of what was due (bound 0.1 %)");
        return Some((reason, NEVER_READY));
    }
    let lateness = evidence.lateness?;
    (lateness > bound).then(|| {
        let (lateness, bound) = (Nanos::from_secs_f64(lateness), Nanos::from_secs_f64(bound));
        let at = percentile(evidence.q);
        (format!("the generator was late by {lateness} at {at} (bound {bound})"), 1.0 - evidence.q)
    })
}

fn receiver_fault(counts: &Counts, evidence: &Evidence, bound: f64) -> Option<String> {
    let share = counts.overflowed as f64 / counts.due.max(1) as f64;
    if share > OVERFLOWED {
        let (overflowed, share) = (grouped(counts.overflowed as f64), share * 100.0);
        return Some(format!(
            "{overflowed} datagrams of the platform found no room at our sockets: {share:.1} % of what was due (bound 0.1 %)"
        ));
    }
    let lag = evidence.receiver_lag?;
    (lag > bound).then(|| {
        let (lag, bound) = (Nanos::from_secs_f64(lag), Nanos::from_secs_f64(bound));
        let at = percentile(evidence.q);
        format!("our subscribers read {lag} after the kernel had received, at {at} (bound {bound})")
    })
}

/// 0.99 as `p99`, 0.999 as `p99.9`.
fn percentile(q: f64) -> String {
    format!("p{}", (q * 1e5).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Metric;
    use plimsoll_model::objective::{Comparison, Objective, Objectives, Subject};

    fn late(p99: f64) -> Evidence {
        Evidence {
            q: 0.99,
            hold: 10.0,
            lateness: Some(p99),
            late_by_own_work: Some(0.5),
            ..Evidence::default()
        }
    }

    /// With an objective on a time of that many seconds.
    fn terms(bound: f64) -> Terms {
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        let level = vec![Objective { population: None, subject, comparison: Comparison::Below, bound }];
        Terms { objectives: Objectives { level, load_line: None }, ..Terms::default() }
    }

    fn validity(counts: Counts, generator: &Generator, evidence: &Evidence) -> Validity {
        judge(&counts, generator, evidence, &terms(0.01)).0
    }

    #[test]
    fn lateness_counts_against_the_generator_unless_the_host_kept_it_from_running() {
        let counts = Counts { due: 1000, ..Counts::default() };
        let calm = Generator::default();
        assert_eq!(validity(counts, &calm, &late(0.0009)), Validity::Valid);
        assert_eq!(validity(counts, &calm, &late(0.0011)), Validity::GeneratorBound);
        let starved = Generator { run_delay: Some(0.2), ..Generator::default() };
        assert_eq!(validity(counts, &starved, &late(0.0011)), Validity::HostBound);
        assert_eq!(validity(counts, &starved, &late(0.0001)), Validity::Valid);
        let waiting = Evidence { wait_per_turn: Some(0.002), ..late(0.0001) };
        assert_eq!(validity(counts, &calm, &waiting), Validity::HostBound);
        let idle = Evidence { late_by_own_work: Some(0.004), ..late(0.0011) };
        assert_eq!(validity(counts, &calm, &idle), Validity::HostBound, "it had nothing to do and was late");
    }

    #[test]
    fn a_socket_of_ours_that_overflows_is_our_limit() {
        let of = |overflowed| Counts { due: 10_000, overflowed, ..Counts::default() };
        let calm = Generator::default();
        assert_eq!(validity(of(10), &calm, &late(0.0001)), Validity::Valid);
        assert_eq!(validity(of(11), &calm, &late(0.0001)), Validity::ReceiverBound);
        let starved = Generator { run_delay: Some(0.2), ..Generator::default() };
        assert_eq!(validity(of(11), &starved, &late(0.0001)), Validity::HostBound);
    }

    #[test]
    fn a_process_that_was_stopped_is_not_a_slow_generator() {
        let stopped = Evidence { stood_still: 0.3, ..late(0.2) };
        let (validity, reason) = judge(&Counts::default(), &Generator::default(), &stopped, &terms(0.01));
        assert_eq!(validity, Validity::HostBound);
        assert!(reason.unwrap().contains("stood still for 300 ms of 10.0 s"));
    }

    #[test]
    fn without_an_objective_on_times_validity_is_no_tighter() {
        for of in [0.001, 0.05, 2.0, 60.0] {
            assert!(bound(&Terms::default(), 10.0) >= bound(&terms(of), 10.0), "{of}");
        }
        assert!((bound(&terms(0.05), 10.0) - 0.005).abs() < 1e-9);
    }

    #[test]
    fn a_level_that_misses_while_our_threads_had_no_processor_left_is_excused() {
        let robbed = Generator { steal: Some(0.2), ..Generator::default() };
        assert_eq!(excuse(&robbed).map(|(validity, _)| validity), Some(Validity::HostBound));
        let busy = Generator { cpu: vec![Some(0.5), Some(0.95)], ..Generator::default() };
        assert_eq!(excuse(&busy).map(|(validity, _)| validity), Some(Validity::GeneratorBound));
        assert_eq!(excuse(&Generator::default()), None);
    }

    #[test]
    fn one_in_a_thousand_never_taken_up_is_allowed() {
        let counts = |never_ready| Counts { due: 1000, never_ready, ..Counts::default() };
        let calm = Generator::default();
        assert_eq!(validity(counts(1), &calm, &late(0.0)), Validity::Valid);
        assert_eq!(validity(counts(2), &calm, &late(0.0)), Validity::GeneratorBound);
    }

    #[test]
    fn slow_reading_counts_against_the_receiver() {
        let slow = Evidence { receiver_lag: Some(0.01), late_by_own_work: Some(0.0), ..late(0.0) };
        assert_eq!(validity(Counts::default(), &Generator::default(), &slow), Validity::ReceiverBound);
        let starved = Generator { run_delay: Some(0.2), ..Generator::default() };
        assert_eq!(validity(Counts::default(), &starved, &slow), Validity::HostBound);
    }
}
