//! Service demand, utilisation and bound of each component: the laws of operational analysis over the levels.

use crate::chart::{Axis, Chart, INKS, Ink, Mark, Panel, Series, Symbol};
use crate::html::level;
use crate::html::table::{Column, interval_cell, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::laws::{ComponentLaws, DemandCourse};
use plimsoll_analysis::summary::Summary;

/// Whether the demand of any component is known.
pub fn known(summary: &Summary) -> bool {
    summary.laws.iter().any(|laws| laws.demand.is_some())
}

/// Chart and table.
pub fn body(summary: &Summary) -> Markup {
    html! {
        p {
            "The service demand is the processor time that one more operation costs a component: the slope of the line through \
             its levels. Its processors are full at the rate in the last column, if each further operation costs as much and nothing \
             else limits it before."
        }
        (chart(summary).render())
        (demands(summary))
    }
}

fn chart(summary: &Summary) -> Chart {
    let points = || summary.laws.iter().flat_map(|laws| &laws.levels);
    let x = Axis::linear("Completed operations (/s)", points().map(|point| point.rate).chain([0.0]));
    let y = Axis::linear("Processors used", points().map(|point| point.used).chain([0.0]));
    let series = summary.laws.iter().enumerate().flat_map(|(place, laws)| {
        let ink = Ink::Curve(place % INKS);
        let seen = laws.levels.iter().map(|point| (point.rate, point.used)).collect();
        let measured =
            Series::new(&laws.component, ink).symbol(Symbol::of_curve(place)).with(Mark::Points(seen));
        let most = laws.levels.iter().map(|point| point.rate).fold(0.0, f64::max);
        let line = laws.demand.as_ref().map(|demand| {
            let at = |rate: f64| (rate, Some((demand.without_load + demand.seconds * rate).max(0.0)));
            let line = Mark::Guide { points: vec![at(0.0), at(most)], dashed: true };
            Series::new(&laws.component, ink).with(line).unlisted()
        });
        [Some(measured), line].into_iter().flatten()
    });
    let caption = "Processors that each component used over what the platform completed, one point a level, with the line of \
                   least squares.";
    Chart::new("chart-laws", caption).panel(Panel::new(x, y).height(280.0).all(series))
}

fn demands(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Component"),
        Column::Number("Processors it can use"),
        Column::Number("Demand"),
        Column::Text("At higher rates"),
        Column::Number("Without load"),
        Column::Number("Highest utilisation"),
        Column::Number("Full at"),
    ];
    let rows: Vec<Markup> = summary.laws.iter().map(row).collect();
    table(&columns, &rows)
}

fn row(laws: &ComponentLaws) -> Markup {
    let demand = laws.demand.as_ref();
    let utilisation = laws.levels.iter().filter_map(|level| level.utilisation).reduce(f64::max);
    let course = match demand.map(|demand| demand.course) {
        Some(DemandCourse::Constant) => "no change seen",
        Some(DemandCourse::Grows) => "an operation costs more",
        Some(DemandCourse::Falls) => "an operation costs less",
        Some(DemandCourse::Unknown) => "not known: it takes four valid levels of different rates",
        None => "not known: it takes two valid levels of different rates",
    };
    // A line that is bent meets zero elsewhere.
    let straight =
        demand.filter(|demand| !matches!(demand.course, DemandCourse::Grows | DemandCourse::Falls));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    html! {
        tr {
            th scope="row" { (laws.component) }
            (number_cell(laws.servers.map(text::rate)))
            (interval_cell(
                demand.map(|demand| demand.seconds.max(0.0)),
                demand.and_then(|demand| demand.interval),
                |seconds| text::time(Some(seconds)),
            ))
            td { (course) }
            (number_cell(straight.map(|demand| percent(demand.without_load.max(0.0)))))
            (number_cell(utilisation.map(percent)))
            (interval_cell(
                demand.and_then(|demand| demand.bound),
                demand.and_then(|demand| demand.bound_interval),
                level::per_second,
            ))
        }
    }
}
