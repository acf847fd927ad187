//! When the runs of a schedule begin.

use jiff::civil::Time;
use jiff::{SignedDuration, Zoned};
use plimsoll_scenario::plan::{SchedulePlan, TimeOfDay};

/// The begins of a schedule's runs that are still to come.
pub fn begins(plan: &SchedulePlan, now: &Zoned) -> Vec<Zoned> {
    match plan {
        SchedulePlan::Every { gap, times } => {
            let begin = |run: u32| {
                let after = SignedDuration::from_nanos(gap.0).checked_mul(run.try_into().unwrap_or(i32::MAX));
                after.and_then(|after| now.checked_add(after).ok())
            };
            (0..*times).map_while(begin).collect()
        }
        SchedulePlan::At { times, days } => {
            let on = |day: i64, time: &TimeOfDay| {
                let time = Time::new(time.hour as i8, time.minute as i8, 0, 0).ok()?;
                let date = now.date().checked_add(jiff::Span::new().try_days(day).ok()?).ok()?;
                // A time that a change of the clocks leaves out is the one that the clock shows instead.
                date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()
            };
            // One more day, for the times that are past today.
            let all =
                (0..=i64::from(*days)).flat_map(|day| times.iter().filter_map(move |time| on(day, time)));
            all.filter(|begin| begin >= now).take(times.len() * *days as usize).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    fn told(plan: &SchedulePlan) -> Vec<String> {
        let now: Zoned = "2026-11-21T09:30:00+00:00[UTC]".parse().unwrap();
        begins(plan, &now).iter().map(|begin| begin.strftime("%d %H:%M").to_string()).collect()
    }

    #[test]
    fn runs_begin_so_long_after_each_other() {
        let plan = SchedulePlan::Every { gap: Nanos::from_secs(90 * 60), times: 3 };
        assert_eq!(told(&plan), ["21 09:30", "21 11:00", "21 12:30"]);
    }

    #[test]
    fn a_time_that_is_past_today_is_kept_tomorrow() {
        let at = |hour| TimeOfDay { hour, minute: 0 };
        let plan = SchedulePlan::At { times: vec![at(8), at(14), at(22)], days: 2 };
        assert_eq!(told(&plan), ["21 14:00", "21 22:00", "22 08:00", "22 14:00", "22 22:00", "23 08:00"]);
    }
}
