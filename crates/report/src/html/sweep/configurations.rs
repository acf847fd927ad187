//! Whole configurations of a sweep: what each change did to the load line, what limits, and what is worth its money.

use crate::chart::{Axis, Chart, Filling, Ink, Interval, Mark, Panel, Series, Shape, Symbol};
use crate::html::Section;
use crate::html::table::{Column, number_cell, table};
use crate::sweep::configurations::{Part, factor, limit, line, name, parts, prediction};
use crate::sweep::{combination, money, unit};
use crate::text::capitalised;
use maud::{Markup, html};
use plimsoll_analysis::sweep::{Cell, Effect, Quantity, Sweep, Worth};

/// One section for each part that has something to say.
pub(super) fn sections(sweep: &Sweep) -> Vec<Section> {
    let mut sections = Vec::new();
    for (part, sentences) in parts(sweep) {
        let said =
            html! { ul.findings { @for sentence in &sentences { li { (capitalised(sentence)) "." } } } };
        let body = match (part, &sweep.worth) {
            (Part::Changes, _) => changes(sweep),
            (Part::Worth, Some(worth)) => {
                html! { (said) (front(sweep, worth).render()) (offers(sweep, worth)) }
            }
            _ => said,
        };
        let title = part.title();
        sections.push(Section { id: title.replace(' ', "-"), title: capitalised(title), body });
    }
    sections
}

/// The changes, a row for each.
fn changes(sweep: &Sweep) -> Markup {
    let columns = [
        Column::Text("Change"),
        Column::Number("Before"),
        Column::Number("After"),
        Column::Number("Factor (95\u{a0}%)"),
        Column::Text("Load line"),
        Column::Text("Prediction"),
        Column::Number("Cost"),
        Column::Text("Limit before"),
        Column::Text("Limit after"),
    ];
    let limit = |position: &[usize]| limit(sweep, position).unwrap_or("\u{2013}").to_owned();
    let rows: Vec<Markup> = sweep
        .changes
        .iter()
        .map(|change| {
            let cost = change.cost.map(|cost| {
                let sign = if cost > 0.0 { "+" } else { "" };
                format!("{sign}{}", money(cost))
            });
            html! {
                tr {
                    th.free scope="row" { (name(sweep, change)) }
                    (number_cell(line(sweep, &change.from)))
                    (number_cell(line(sweep, &change.to)))
                    (number_cell(Some(factor(change)).filter(|factor| !factor.is_empty())))
                    td { (in_short(change.effect)) }
                    td { (prediction(change).unwrap_or_default()) }
                    (number_cell(cost))
                    td { (limit(&change.from)) }
                    td { (limit(&change.to)) }
                }
            }
        })
        .collect();
    html! {
        (table(&columns, &rows))
        p.note {
            "Each row is one key that goes to its next value while everything else stays. Load lines are in "
            (unit(sweep, Quantity::LoadLine).unwrap_or_default())
            ". The interval of a factor is by Welch over the runs, and wider by as far as the levels are apart. A prediction \
              is by how full what limits and the next component were before the change."
        }
    }
}

const fn in_short(effect: Effect) -> &'static str {
    match effect {
        Effect::Higher => "higher",
        Effect::Lower => "lower",
        Effect::NotDistinguishable => "not distinguishable",
        Effect::NoUpperBound => "no level missed",
        Effect::RunOnce => "run once",
        Effect::NoLoadLine => "no level met",
    }
}

/// Combinations with a price and a load line, by their index, with their price.
fn priced(sweep: &Sweep) -> impl Iterator<Item = (usize, &Cell, f64)> {
    sweep.cells.iter().enumerate().filter_map(|(index, cell)| {
        let cost = cell.measured(Quantity::Cost)?.mean;
        cell.measured(Quantity::LoadLine).map(|_| (index, cell, cost))
    })
}

/// Cost along the foot, load lines above it, and the line of those that are worth their money.
fn front(sweep: &Sweep, worth: &Worth) -> Chart {
    let point = |cell: &Cell, cost: f64| {
        let line = cell.measured(Quantity::LoadLine)?;
        let ends = line.ci95.map(|ends| ends.map(|end| end.max(0.0)));
        Some(Interval { at: cost, value: line.mean, ends })
    };
    let points = |is_efficient: bool| -> Vec<Interval> {
        let own = priced(sweep).filter(|(index, ..)| worth.efficient.contains(index) == is_efficient);
        own.filter_map(|(_, cell, cost)| point(cell, cost)).collect()
    };
    let (mut efficient, others) = (points(true), points(false));
    efficient.sort_by(|one, other| one.at.total_cmp(&other.at));
    let all = || efficient.iter().chain(&others);
    let heights =
        all().flat_map(|point| std::iter::once(point.value).chain(point.ends.into_iter().flatten()));
    let titled = |quantity: Quantity| {
        let unit = unit(sweep, quantity).unwrap_or_default();
        format!("{} ({unit})", capitalised(quantity.name()))
    };
    let x = Axis::linear(&titled(Quantity::Cost), all().map(|point| point.at));
    let y = Axis::linear(&titled(Quantity::LoadLine), heights);
    let path = efficient.iter().map(|point| (point.at, Some(point.value))).collect();
    let mark = |filling| Symbol { shape: Shape::Circle, filling };
    let front =
        Series::new("no other one sustains as much for less", Ink::Curve(0)).symbol(mark(Filling::Full));
    let front = front.with(Mark::Guide { points: path, dashed: false });
    let front = front.with(Mark::Intervals { points: efficient, of: "95 % interval" });
    let others = Series::new("others", Ink::Neutral)
        .symbol(mark(Filling::Open))
        .with(Mark::Intervals { points: others, of: "95 % interval" });
    let caption =
        "Each point is a combination. Those on the line are the Pareto front: what sustains more costs more.";
    Chart::new("chart-worth", caption).panel(Panel::new(x, y).height(320.0).series(front).series(others))
}

/// Combinations with their prices, the cheapest first.
fn offers(sweep: &Sweep, worth: &Worth) -> Markup {
    let columns = [
        Column::Text("Combination"),
        Column::Number("Cost"),
        Column::Number("Load line"),
        Column::Number("Load line by cost"),
        Column::Text(""),
    ];
    let mut offers: Vec<(usize, &Cell, f64)> = priced(sweep).collect();
    offers.sort_by(|(.., one), (.., other)| one.total_cmp(other));
    let row = |(index, cell, cost): &(usize, &Cell, f64)| {
        let marks = [
            (worth.cheapest == Some(*index), "cheapest that is enough"),
            (worth.best == Some(*index), "most for the money"),
            (worth.efficient.contains(index), "Pareto front"),
        ];
        let marks: Vec<&str> = marks.iter().filter_map(|(has, mark)| has.then_some(*mark)).collect();
        html! {
            tr {
                th.free scope="row" { (combination(sweep, &cell.position, None)) }
                (number_cell(Some(money(*cost))))
                (number_cell(line(sweep, &cell.position)))
                (number_cell(cell.measured(Quantity::LoadLinePerCost).map(crate::sweep::mean)))
                td { (marks.join(", ")) }
            }
        }
    };
    table(&columns, &offers.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use crate::html::sweep::page;
    use crate::sweep::tests::{priced, sweep};

    #[test]
    fn a_page_of_configurations_has_their_changes_their_limits_and_their_prices() {
        let page = page(&priced());
        for expected in [
            "What each change did to the load line",
            "replicas.worker from 1 to 2",
            "database (quota)",
            "id=\"chart-worth\"",
            "Load line (operations/s)",
            "cheapest that is enough",
            "class=\"num w6\"",
            "\u{2265} 2,101",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        let other = crate::html::sweep::page(&sweep());
        assert!(!other.contains("What each change did") && !other.contains("chart-worth"));
    }
}
