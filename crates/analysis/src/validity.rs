//! Whose limit was it (rule 2): whether a level measured the platform or ourselves.

use crate::summary::Generator;
use plimsoll_model::record::Terms;
use plimsoll_model::{Counts, Nanos, Validity};

/// Lateness and lag that are always allowed.
const SMALLEST_BOUND: f64 = 0.001;
/// Share of the tightest latency objective that lateness and lag may take.
const SHARE_OF_OBJECTIVE: f64 = 0.1;
/// Share of what was due that the generator may fail to take up.
const NEVER_READY: f64 = 0.001;
/// Share of a level's time that the host may keep from our threads before it is the host's fault.
const KEPT_BY_HOST: f64 = 0.1;

/// The p99 in seconds that lateness and receiver lag of a valid level stay within.
pub fn bound(terms: &Terms) -> f64 {
    let of_objective = terms.objectives.tightest_latency().unwrap_or(0.0) * SHARE_OF_OBJECTIVE;
    of_objective.max(SMALLEST_BOUND)
}

/// The validity of a level and, where it is not valid, the reason for people. `wait_per_turn` is the mean time that
/// a load thread waited for a processor each time it had become runnable, in seconds.
pub fn judge(
    counts: &Counts,
    generator: &Generator,
    wait_per_turn: Option<f64>,
    terms: &Terms,
) -> (Validity, Option<String>) {
    let bound = bound(terms);
    let shown = Nanos::from_secs_f64(bound);
    let kept = generator.run_delay.unwrap_or(0.0) + generator.steal.unwrap_or(0.0);
    if let Some(wait) = wait_per_turn.filter(|&wait| wait > bound) {
        let wait = Nanos::from_secs_f64(wait);
        let reason = format!("load threads waited {wait} for a processor each time (bound {shown})");
        return (Validity::HostBound, Some(reason));
    }
    let own_fault = generator_fault(counts, generator, bound)
        .map(|reason| (Validity::GeneratorBound, reason))
        .or_else(|| receiver_fault(generator, bound).map(|reason| (Validity::ReceiverBound, reason)));
    match own_fault {
        None if generator.steal.unwrap_or(0.0) > KEPT_BY_HOST => {
            let reason = format!("the hypervisor took {:.0} % of the load threads' time", kept * 100.0);
            (Validity::HostBound, Some(reason))
        }
        None => (Validity::Valid, None),
        Some((_, reason)) if kept > KEPT_BY_HOST => {
            let reason = format!("{reason}; the host kept {:.0} % of the time from our threads", kept * 100.0);
            (Validity::HostBound, Some(reason))
        }
        Some((validity, reason)) => (validity, Some(reason)),
    }
}

fn generator_fault(counts: &Counts, generator: &Generator, bound: f64) -> Option<String> {
    let missed = counts.never_ready as f64 / counts.due.max(1) as f64;
    if missed > NEVER_READY {
        let share = missed * 100.0;
        return Some(format!("the generator never took up {share:.1} % of what was due (bound 0.1 %)"));
    }
    // With few observations the maximum stands in for the p99 that cannot be told.
    let lateness = generator.lateness.p99.or(generator.lateness.max)?;
    (lateness > bound).then(|| {
        let (lateness, bound) = (Nanos::from_secs_f64(lateness), Nanos::from_secs_f64(bound));
        format!("the generator was late by {lateness} at p99 (bound {bound})")
    })
}

fn receiver_fault(generator: &Generator, bound: f64) -> Option<String> {
    let lag = generator.receiver_lag.p99.or(generator.receiver_lag.max)?;
    (lag > bound).then(|| {
        let (lag, bound) = (Nanos::from_secs_f64(lag), Nanos::from_secs_f64(bound));
        format!("our subscribers read {lag} after the kernel had received, at p99 (bound {bound})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::TimeSummary;

    fn late(p99: f64) -> Generator {
        let lateness = TimeSummary { p99: Some(p99), ..TimeSummary::default() };
        Generator { lateness, ..Generator::default() }
    }

    fn validity(counts: Counts, generator: &Generator, wait: Option<f64>) -> Validity {
        judge(&counts, generator, wait, &Terms::default()).0
    }

    #[test]
    fn lateness_counts_against_the_generator_unless_the_host_kept_it_from_running() {
        let counts = Counts { due: 1000, ..Counts::default() };
        assert_eq!(validity(counts, &late(0.0009), None), Validity::Valid);
        assert_eq!(validity(counts, &late(0.0011), None), Validity::GeneratorBound);
        let starved = Generator { run_delay: Some(0.2), ..late(0.0011) };
        assert_eq!(validity(counts, &starved, None), Validity::HostBound);
        assert_eq!(validity(counts, &late(0.0001), Some(0.002)), Validity::HostBound);
        let robbed = Generator { steal: Some(0.2), ..late(0.0001) };
        assert_eq!(validity(counts, &robbed, None), Validity::HostBound);
    }

    #[test]
    fn one_in_a_thousand_never_taken_up_is_allowed() {
        let counts = |never_ready| Counts { due: 1000, never_ready, ..Counts::default() };
        assert_eq!(validity(counts(1), &late(0.0), None), Validity::Valid);
        assert_eq!(validity(counts(2), &late(0.0), None), Validity::GeneratorBound);
    }

    #[test]
    fn slow_reading_counts_against_the_receiver() {
        let receiver_lag = TimeSummary { p99: Some(0.01), ..TimeSummary::default() };
        let generator = Generator { receiver_lag, ..Generator::default() };
        assert_eq!(validity(Counts::default(), &generator, None), Validity::ReceiverBound);
    }
}
