//! The configuration for a wanted load: that of the least price, or where nothing has one, that with the fewest additions.

use super::change::Change;
use super::instances::{Step, additions, bought};
use super::least::least;
use super::measured::Measured;
use super::{Basis, Bounds, Configuration};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// How the configuration for a demand was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Searched {
    /// Of what it has the least.
    pub by: Rule,
    /// The components of which it may have more.
    pub components: Vec<String>,
    /// Configurations that were predicted on the way.
    pub predicted: usize,
    /// Whether no other configuration of these components has less of it; false where the search ended before it knew that.
    pub is_certain: bool,
}

/// Of what a configuration for a demand has the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// It costs least.
    Price,
    /// It has the fewest additions, each as large as a component is now: prices do not say more.
    Additions,
}

/// A component, and the capacities that it may have.
struct Axis {
    component: String,
    steps: Vec<Step>,
}

/// What was found for a demand.
#[derive(Default)]
pub struct Found {
    /// The configuration, and how it was found; `None` where none is known.
    pub least: Option<(Configuration, Searched)>,
    /// What must be said of it, for people.
    pub said: Vec<String>,
}

/// The configuration with the least of what counts whose load line is such that `is_enough` holds, for a demand.
pub fn search(
    measured: &Measured<'_>,
    basis: &[Basis<'_>],
    demand: f64,
    is_enough: impl Fn(Bounds) -> bool,
) -> Found {
    let (axes, mut said) = by_price(measured, basis);
    let at_least_price = of_axes(measured, &axes, Rule::Price, demand, &is_enough);
    if at_least_price.is_some() {
        let names: Vec<String> = measured.components().into_iter().map(|own| own.component).collect();
        let is_priced = |name: &String| axes.iter().any(|axis| axis.component == *name);
        let unpriced: Vec<String> = names.into_iter().filter(|name| !is_priced(name)).collect();
        if !unpriced.is_empty() {
            said.push(format!("no more of what has no price was considered: {}", unpriced.join(", ")));
        }
        return Found { least: at_least_price, said };
    }
    if !axes.is_empty() {
        said = vec![
            "no capacities of what has a price are known to be enough, so additions are counted".to_owned(),
        ];
    }
    let of = |component: String| Axis { component, steps: additions() };
    let axes: Vec<Axis> = measured.components().into_iter().map(|own| of(own.component)).collect();
    Found { least: of_axes(measured, &axes, Rule::Additions, demand, &is_enough), said }
}

/// What has a price, and what must be said of it.
fn by_price(measured: &Measured<'_>, basis: &[Basis<'_>]) -> (Vec<Axis>, Vec<String>) {
    let Some(cost) = measured.cost() else { return Default::default() };
    let (mut axes, mut said) = (Vec::new(), Vec::new());
    for own in measured.components() {
        let part = cost.priced.iter().find(|part| part.name == own.component && part.count > 0);
        if let Some(part) = part {
            let (steps, sentence) = bought(measured, basis, cost, part);
            said.extend(sentence);
            axes.push(Axis { component: own.component, steps });
        }
    }
    (axes, said)
}

fn of_axes(
    measured: &Measured<'_>,
    axes: &[Axis],
    by: Rule,
    demand: f64,
    is_enough: &impl Fn(Bounds) -> bool,
) -> Option<(Configuration, Searched)> {
    if axes.is_empty() {
        return None;
    }
    let prices: Vec<Vec<f64>> =
        axes.iter().map(|axis| axis.steps.iter().map(|step| step.price).collect()).collect();
    let chosen = |steps: &[usize]| -> Vec<(&str, &Step)> {
        let pairs = axes.iter().zip(steps);
        pairs.filter_map(|(axis, step)| Some((axis.component.as_str(), axis.steps.get(*step)?))).collect()
    };
    let found = least(&prices, |steps| {
        let factors: Vec<(&str, f64)> =
            chosen(steps).into_iter().map(|(name, step)| (name, step.times)).collect();
        measured.load_line(&factors).is_some_and(is_enough)
    })?;
    let mut change = Change::default();
    for (name, step) in chosen(&found.steps) {
        if let Some(instances) = &step.instances {
            change.instances.insert(name.to_owned(), instances.clone());
        }
        if step.times != 1.0 || step.instances.is_some() {
            change.times.insert(name.to_owned(), step.times);
        }
    }
    let searched = Searched {
        by,
        components: axes.iter().map(|axis| axis.component.clone()).collect(),
        predicted: found.looked_at,
        is_certain: found.is_certain,
    };
    Some((measured.predict(&change, Some(demand))?, searched))
}
