//! When a run is repeated.

use crate::config::Schedule;
use crate::context::Context;
use crate::plan::{SchedulePlan, TimeOfDay};
use plimsoll_model::Nanos;

/// Runs of `every`, where the scenario does not say how many.
const TIMES: u32 = 24;

pub(super) fn resolve(written: Option<&Schedule>, context: &mut Context<'_>) -> Option<SchedulePlan> {
    let Schedule { at, days, every, times } = written?;
    let help = "write `at: [\"08:00\", \"22:00\"]`, with `days`, or `every: 1h`, with `times`";
    match (at.is_empty(), every) {
        (false, None) => {
            if times.is_some() {
                context.error_with_help("schedule.times", "`times` belongs to `every`", "write `days`");
            }
            let mut clock: Vec<TimeOfDay> = Vec::new();
            for (position, text) in at.iter().enumerate() {
                match time_of_day(text) {
                    Some(time) => clock.push(time),
                    None => context.error_with_help(
                        &format!("schedule.at.{position}"),
                        format!("`{text}` is no time of the day"),
                        "write hours and minutes, such as \"08:00\" or \"22:30\"",
                    ),
                }
            }
            clock.sort_unstable();
            clock.dedup();
            Some(SchedulePlan::At { times: clock, days: days.unwrap_or(1) })
        }
        (true, Some(every)) => {
            if days.is_some() {
                context.error_with_help("schedule.days", "`days` belongs to `at`", "write `times`");
            }
            if every.0 <= Nanos::ZERO {
                context.error("schedule.every", "the next run must begin later than the one before");
            }
            Some(SchedulePlan::Every { gap: every.0, times: times.unwrap_or(TIMES) })
        }
        (true, None) => {
            context.error_with_help("schedule", "nothing says when the run is repeated", help);
            None
        }
        (false, Some(_)) => {
            context.error_with_help("schedule.every", "`at` and `every` exclude each other", help);
            None
        }
    }
}

fn time_of_day(text: &str) -> Option<TimeOfDay> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, below: u8| {
        let whole = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u8>().ok().filter(|number| whole && *number < below)
    };
    Some(TimeOfDay { hour: number(hour, 24)?, minute: number(minute, 60)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day_have_hours_and_minutes() {
        assert_eq!(time_of_day("08:05"), Some(TimeOfDay { hour: 8, minute: 5 }));
        for wrong in ["8:05", "24:00", "08:60", "0805", "+8:05", "08:5", "", ":"] {
            assert_eq!(time_of_day(wrong), None, "{wrong}");
        }
    }
}
