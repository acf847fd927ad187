//! What combinations sustain for their money.

use super::{Cell, Quantity, Taken};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// What combinations sustain for their money. Combinations are given by their index among the cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Worth {
    /// The currency, as the scenario writes it.
    pub currency: String,
    /// The time that prices are for, as the scenario writes it.
    pub per: String,
    /// The load line that the objectives demand; null where they demand none, or not the same of all.
    pub demanded: Option<f64>,
    /// The cheapest combination that sustains what is demanded: the lower end of its 95 % interval does, or its only run.
    pub cheapest: Option<usize>,
    /// The combination with the highest load line by its cost.
    pub best: Option<usize>,
    /// Those of which no other one is cheaper and sustains as much, the cheapest first (the Pareto front).
    pub efficient: Vec<usize>,
    /// Components of some combination that have no price, so that all costs leave them out.
    pub unpriced: Vec<String>,
}

/// A combination with its price.
#[derive(Clone, Copy)]
struct Offer {
    cell: usize,
    cost: f64,
    line: f64,
    /// What it sustains with confidence.
    least: f64,
}

/// `None` where no combination has a price and a load line, and where prices are not in one currency.
pub(super) fn of(cells: &[Cell], taken: &[Taken]) -> Option<Worth> {
    let costs = || taken.iter().filter_map(|run| run.cost.as_ref());
    let first = costs().next()?;
    if !costs().all(|cost| (&cost.currency, &cost.per) == (&first.currency, &first.per)) {
        return None;
    }
    let offer = |(index, cell): (usize, &Cell)| {
        let (cost, line) = (cell.measured(Quantity::Cost)?.mean, cell.measured(Quantity::LoadLine)?);
        let least = line.ci95.map_or(line.mean, |[low, _]| low);
        Some(Offer { cell: index, cost, line: line.mean, least })
    };
    let offers: Vec<Offer> = cells.iter().enumerate().filter_map(offer).collect();
    let demanded = taken.first()?.demanded;
    let demanded = demanded.filter(|_| taken.iter().all(|run| run.demanded == demanded));
    let sustaining = |wanted: f64| offers.iter().filter(move |offer| offer.least >= wanted);
    let cheapest = demanded.and_then(|wanted| {
        sustaining(wanted).min_by(|one, other| one.cost.total_cmp(&other.cost)).map(|offer| offer.cell)
    });
    let by_cost = |cell: &Cell| cell.measured(Quantity::LoadLinePerCost).map(|measured| measured.mean);
    let valued = cells.iter().enumerate().filter_map(|(index, cell)| Some((index, by_cost(cell)?)));
    let best = valued.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(index, _)| index);
    let mut unpriced: Vec<String> = costs().flat_map(|cost| cost.unpriced.iter().cloned()).collect();
    unpriced.sort();
    unpriced.dedup();
    let (currency, per) = (first.currency.clone(), first.per.clone());
    let efficient = efficient(&offers);
    (!offers.is_empty()).then_some(Worth { currency, per, demanded, cheapest, best, efficient, unpriced })
}

fn efficient(offers: &[Offer]) -> Vec<usize> {
    let mut sorted = offers.to_vec();
    sorted.sort_by(|one, other| one.cost.total_cmp(&other.cost).then(other.line.total_cmp(&one.line)));
    let mut most = f64::NEG_INFINITY;
    sorted.retain(|offer| {
        let is_more = offer.line > most;
        most = most.max(offer.line);
        is_more
    });
    sorted.into_iter().map(|offer| offer.cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostSummary;
    use crate::level::LevelSummary;
    use crate::load_line::LoadLine;
    use crate::sweep::tests::bare;
    use crate::sweep::{Axis, Origin, Sweep};

    fn run(place: usize, rate: f64, total: f64) -> Taken {
        let line = LoadLine {
            rate: Some(rate),
            devices: None,
            connect_rate: None,
            level: 1,
            at_least: false,
            below: Some(rate * 1.1),
            at_most: None,
            limited_by: None,
            next_level: None,
        };
        let cost = CostSummary {
            currency: "USD".into(),
            per: "month".into(),
            total,
            priced: Vec::new(),
            unpriced: vec!["agent".into()],
            load_line_per_cost: Some(rate / total),
        };
        let level = LevelSummary { index: 1, finished: true, ..LevelSummary::default() };
        let (level, line, cost) = (Some(level), Some(line), Some(cost));
        Taken { level, line, cost, demanded: Some(990.0), ..bare(&[place]) }
    }

    fn worth(runs: &[Taken]) -> Option<Worth> {
        let values = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        Sweep::of("sweep", Origin::default(), vec![Axis { key: "size".into(), values }], runs).worth
    }

    #[test]
    fn the_cheapest_that_sustains_what_is_demanded_is_found_beside_the_front() {
        let runs = [
            run(0, 500.0, 94.0),
            // Dearer than the first one, and sustains less.
            run(1, 400.0, 188.0),
            run(2, 1000.0, 189.0),
            // It may be enough, and may not.
            run(3, 900.0, 100.0),
            run(3, 1100.0, 100.0),
            run(4, 3000.0, 1000.0),
        ];
        let found = worth(&runs).unwrap();
        assert_eq!((found.cheapest, found.best), (Some(2), Some(3)));
        assert_eq!(found.efficient, [0, 3, 4], "1,000/s on average for 100 are cheaper than 1,000/s for 189");
        assert_eq!((found.demanded, found.unpriced), (Some(990.0), vec!["agent".to_owned()]));
    }

    #[test]
    fn what_nobody_sustains_or_what_has_no_price_has_no_answer() {
        assert_eq!(worth(&[run(0, 500.0, 94.0)]).unwrap().cheapest, None);
        assert_eq!(worth(&[Taken { cost: None, ..run(0, 500.0, 94.0) }]), None);
        let mut other = run(1, 500.0, 94.0);
        other.cost.as_mut().unwrap().currency = "EUR".into();
        assert_eq!(worth(&[run(0, 500.0, 94.0), other]), None);
    }
}
