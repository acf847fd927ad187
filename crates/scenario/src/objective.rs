//! The objectives that a scenario can name.

use crate::check::near_miss;
use crate::plan::{Objective, Subject};
use crate::quantity::{Condition, Quantity, rate_condition, ratio_condition, time_condition};
use plimsoll_model::Nanos;
use plimsoll_model::metric::METRICS;
use plimsoll_stats::quantile::fewest_observations;

/// The name of an objective in a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Name {
    /// A demand on each level.
    Level(Subject),
    /// The demand on the load line.
    LoadLine,
}

/// Quantiles that objectives may be about, by the last part of their key.
const QUANTILES: [(&str, f64); 7] =
    [("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// The finest quantile that a default may be about, for which so many observations are enough.
pub(crate) fn finest_quantile(observations: f64) -> Option<f64> {
    const FINEST_FIRST: [f64; 4] = [0.99, 0.95, 0.9, 0.5];
    FINEST_FIRST.into_iter().find(|q| fewest_observations(*q) as f64 <= observations)
}

impl Name {
    /// Every name, in the order of reports.
    pub fn all() -> impl Iterator<Item = Name> {
        let times = METRICS.iter().filter(|row| row.objective.is_some()).flat_map(|row| {
            let quantiles =
                QUANTILES.into_iter().map(|(_, quantile)| Subject::Quantile(row.metric, quantile));
            std::iter::once(Subject::Mean(row.metric)).chain(quantiles)
        });
        let subjects = [Subject::Delivered, Subject::Achieved, Subject::Connected, Subject::FaultRecovery]
            .into_iter()
            .chain(times);
        subjects.map(Name::Level).chain([Name::LoadLine])
    }

    /// The key in a scenario.
    pub fn key(self) -> String {
        match self {
            Name::Level(subject) => subject.key(),
            Name::LoadLine => "load_line".to_owned(),
        }
    }

    /// Reads a condition on it.
    pub fn condition(self, text: &str) -> Result<Condition, String> {
        match self {
            Name::Level(Subject::Delivered | Subject::Achieved | Subject::Connected) => ratio_condition(text),
            Name::Level(Subject::Quantile(..) | Subject::Mean(_) | Subject::FaultRecovery) => {
                time_condition(text)
            }
            Name::LoadLine => rate_condition(text),
        }
    }
}

/// Reads an objective on levels, as in `publish_p99 < 50 ms`, or of one of several populations as in `sensors.publish_p99 < 50 ms`.
///
/// # Errors
/// What is wrong with it, for people.
pub fn objective(text: &str) -> Result<Objective, String> {
    let form = "write a name, a comparison and a bound, as in \"publish_p99 < 50 ms\"";
    let place = text.find(['<', '>']).ok_or_else(|| format!("this is no objective; {form}"))?;
    let (name, condition) = text.split_at(place);
    let (population, key) = match name.trim().rsplit_once('.') {
        Some((population, key)) => (Some(population.to_owned()), key),
        None => (None, name.trim()),
    };
    let found = Name::all().find(|name| name.key() == key);
    let Some(Name::Level(subject)) = found else {
        let keys: Vec<String> = Name::all().map(Name::key).collect();
        return Err(match found {
            Some(_) => "a load line is no objective of a level".to_owned(),
            None => {
                format!("there is no objective `{key}`: {}", near_miss(key, keys.iter().map(String::as_str)))
            }
        });
    };
    let read = Name::Level(subject).condition(condition.trim());
    let Condition { comparison, bound } = read.map_err(|why| format!("`{}`: {why}", condition.trim()))?;
    Ok(Objective { population, subject, comparison, bound })
}

/// The condition as a scenario writes it, such as `>= 99.9 %` or `< 50ms`.
pub(crate) fn condition(objective: &Objective) -> String {
    let symbol = objective.comparison.symbol();
    match objective.subject {
        // Rounded to hide what binary fractions add; a condition is never written with more digits.
        Subject::Delivered | Subject::Achieved | Subject::Connected => {
            format!("{symbol} {} %", (objective.bound * 1e12).round() / 1e10)
        }
        Subject::Quantile(..) | Subject::Mean(_) | Subject::FaultRecovery => {
            format!("{symbol} {}", Nanos::from_secs_f64(objective.bound).show())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Comparison;
    use plimsoll_model::Metric;

    #[test]
    fn keys_are_distinct() {
        let all: Vec<Name> = Name::all().collect();
        assert_eq!(all.len(), 61);
        for (position, name) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other.key() == name.key()), Some(position));
        }
        let subject = Subject::Quantile(Metric::SubscribeTimeFromSend, 0.999);
        assert_eq!(subject.key(), "subscribe_from_send_p999");
    }

    #[test]
    fn an_objective_is_read_as_the_command_line_has_it() {
        let read = objective("publish_p99 < 200 ms").unwrap();
        assert_eq!((read.to_string().as_str(), read.population), ("publish_p99 < 200 ms", None));
        let of_one = objective("sensors.delivered >= 99 %").unwrap();
        assert_eq!(of_one.population.as_deref(), Some("sensors"));
        assert!((of_one.bound - 0.99).abs() < 1e-12 && of_one.comparison == Comparison::AtLeast);
        for (wrong, said) in [
            ("publish_p99", "as in \"publish_p99 < 50 ms\""),
            ("publsh_p99 < 5 ms", "did you mean `publish_p99`?"),
            ("load_line >= 5/s", "no objective of a level"),
            ("publish_p99 < soon", "soon"),
        ] {
            let found = objective(wrong).unwrap_err();
            assert!(found.contains(said), "{wrong}: {found}");
        }
    }

    #[test]
    fn conditions_are_shown_as_they_are_written() {
        let objective =
            |subject, comparison, bound| Objective { population: None, subject, comparison, bound };
        let delivered = objective(Subject::Delivered, Comparison::AtLeast, 0.999);
        assert_eq!(condition(&delivered), ">= 99.9 %");
        let mean = objective(Subject::Mean(Metric::PublishTime), Comparison::Below, 0.05);
        assert_eq!(condition(&mean), "< 50ms");
    }
}
