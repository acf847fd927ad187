use super::*;
use plimsoll_stats::distribution::{InterArrival, random};

fn starts(times: &[u32]) -> Vec<String> {
    times.iter().map(|time| format!("2026-11-20T20:{time:02}:00Z")).collect()
}

fn finding(first: (&[u32], &[f64]), other: (&[u32], &[f64])) -> Conclusion {
    let first = Side { starts: starts(first.0), values: first.1 };
    difference(&first, &Side { starts: starts(other.0), values: other.1 }).finding
}

#[test]
fn a_difference_is_claimed_only_of_repeats_in_turns() {
    let (low, high) = ([1.0, 1.1, 0.9], [2.0, 2.1, 1.9]);
    assert_eq!(finding((&[1, 3, 5], &low), (&[2, 4, 6], &high)), Conclusion::Higher);
    assert_eq!(finding((&[1, 3, 5], &high), (&[2, 4, 6], &low)), Conclusion::Lower);
    assert_eq!(finding((&[1, 2, 3], &low), (&[4, 5, 6], &high)), Conclusion::NotInTurns);
    assert_eq!(finding((&[1, 3, 5], &low), (&[2], &[2.0])), Conclusion::RunOnce);
    assert_eq!(finding((&[1, 3, 5], &low), (&[2], &[])), Conclusion::Absent);
    assert_eq!(finding((&[1, 3, 5], &low), (&[2, 4, 6], &[2.0, 2.1])), Conclusion::NotInAllRuns);
    assert_eq!(
        finding((&[1, 2, 3, 9], &[1.0, 1.1, 0.9, 1.0]), (&[4, 5, 6, 7], &[2.0, 2.1, 2.0, 2.2])),
        Conclusion::NotInTurns
    );
    assert_eq!(
        finding((&[1, 3, 5], &low), (&[2, 4, 6], &[1.05, 0.95, 1.15])),
        Conclusion::NotDistinguishable
    );
}

/// Two candidates that are the same: five runs each in turns, 4,000 times. Values are sums of four exponential ones, so
/// neither normal nor symmetric. One in twenty may be found different; the band is three deviations of that share and
/// what the skewness costs.
#[test]
fn what_is_the_same_is_found_different_one_time_in_twenty() {
    let mut numbers = random(7, &[1]);
    let mut value = || (0..4).map(|_| InterArrival::Exponential.sample(&mut numbers)).sum::<f64>();
    let mut alarms = 0;
    for _ in 0..4000 {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            one.push(value());
            other.push(value());
        }
        let one = Side { starts: starts(&[1, 3, 5, 7, 9]), values: &one };
        let other = Side { starts: starts(&[2, 4, 6, 8, 10]), values: &other };
        alarms += u32::from(difference(&one, &other).finding != Conclusion::NotDistinguishable);
    }
    let share = f64::from(alarms) / 4000.0;
    assert!((0.025..0.06).contains(&share), "{share}");
}
