//! How wrong predictions were of other platforms, by configurations that were predicted and then run. Both ends of a prediction are
//! widened by it.

use plimsoll_model::plan_check::PlanResidual;
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// So many checked predictions of so many other platforms are the least that says something of this one.
const RESIDUALS: usize = 10;
const PLATFORMS: usize = 3;

/// What checked predictions of other platforms say of the error of a prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelError {
    /// Other platforms of which predictions were checked.
    pub platforms: usize,
    /// Predictions of them that were checked.
    pub residuals: usize,
    /// Of those, how many had the measured load line within their ends.
    pub within: usize,
    /// The factor by which both ends are widened; null with too few checked predictions.
    pub factor: Option<f64>,
}

impl ModelError {
    /// What is known for that platform: predictions of it say nothing here, since they are not held out.
    ///
    /// Predictions of one platform are wrong for the same reasons, so the platform is the unit: the root of the mean square of what lay
    /// outside, over the platforms, times Student's t for one platform more.
    pub fn of(residuals: &[PlanResidual], platform: &str) -> ModelError {
        let mut platforms: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for own in residuals.iter().filter(|own| own.platform != platform && own.outside.is_finite()) {
            platforms.entry(&own.platform).or_default().push(own.outside);
        }
        let count: usize = platforms.values().map(Vec::len).sum();
        let within = platforms.values().flatten().filter(|outside| **outside == 0.0).count();
        let squares =
            platforms.values().map(|own| mean(own.iter().map(|outside| outside * outside), own.len()));
        let n = platforms.len();
        let spread = mean(squares, n).sqrt();
        let t = student::quantile(n as f64 - 1.0).filter(|_| n >= PLATFORMS && count >= RESIDUALS);
        let factor = t.map(|t| (t * spread * (1.0 + 1.0 / n as f64).sqrt()).exp());
        ModelError { platforms: n, residuals: count, within, factor }
    }

    /// The logarithm of the factor by which both ends are widened.
    pub fn widening(&self) -> f64 {
        self.factor.map_or(0.0, f64::ln)
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let ModelError { platforms, residuals, within, factor } = self;
        match factor {
            Some(factor) => format!(
                "{within} of {residuals} predictions of {platforms} other platforms were right when they were checked, so both ends are \
                 widened by x {factor:.2}"
            ),
            None => format!(
                "no model error is known: it takes {RESIDUALS} checked predictions (--check) of {PLATFORMS} other platforms, and there are \
                 {residuals} of {platforms}"
            ),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residuals(outside: &[(&str, f64)]) -> Vec<PlanResidual> {
        let of = |(platform, outside): &(&str, f64)| PlanResidual {
            platform: (*platform).to_owned(),
            outside: *outside,
            ..PlanResidual::default()
        };
        outside.iter().map(of).collect()
    }

    #[test]
    fn ends_are_widened_by_what_lay_outside_on_other_platforms() {
        let mut all: Vec<(&str, f64)> = ["a", "b", "c"].iter().flat_map(|own| [(*own, 0.0); 4]).collect();
        let right = ModelError::of(&residuals(&all), "mine");
        assert_eq!((right.platforms, right.residuals, right.within, right.factor), (3, 12, 12, Some(1.0)));
        // The same is of all predictions of one platform: a mean square of 0.04 of one in three.
        all[0..4].iter_mut().for_each(|own| own.1 = 0.2);
        all[1].1 = -0.2;
        let wrong = ModelError::of(&residuals(&all), "mine");
        let expected = 4.303 * (0.04_f64 / 3.0).sqrt() * (4.0_f64 / 3.0).sqrt();
        assert!((wrong.widening() - expected).abs() < 1e-3, "{wrong:?}");
        assert!(
            wrong.in_words().starts_with("8 of 12 predictions of 3 other platforms"),
            "{}",
            wrong.in_words()
        );
    }

    #[test]
    fn few_predictions_and_those_of_the_same_platform_say_nothing() {
        let few = residuals(&[("a", 0.5), ("b", 0.5), ("c", 0.5)]);
        assert_eq!(ModelError::of(&few, "mine").factor, None);
        let of_two: Vec<(&str, f64)> = ["a", "b"].iter().flat_map(|own| [(*own, 0.1); 10]).collect();
        assert_eq!(ModelError::of(&residuals(&of_two), "mine").factor, None);
        let with_own: Vec<(&str, f64)> =
            ["a", "b", "mine"].iter().flat_map(|own| [(*own, 0.1); 10]).collect();
        let found = ModelError::of(&residuals(&with_own), "mine");
        assert_eq!((found.platforms, found.residuals, found.factor), (2, 20, None));
        assert!(found.in_words().ends_with("and there are 20 of 2"), "{}", found.in_words());
        assert_eq!(ModelError::of(&[], "mine").widening(), 0.0);
    }
}
