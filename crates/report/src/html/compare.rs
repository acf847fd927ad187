//! A comparison as one page: who is compared, differences in percent with their intervals, each quantity level by level, and all
//! figures in a table.

use crate::chart::{self, Axis, Chart, Ink, Interval, Mark, Panel, Series, Symbol};
use crate::compare::{qualities, runs, told, value};
use crate::html::sides::{self, Side};
use crate::html::table::{Column, in_pieces};
use crate::html::{Section, columns, head};
use crate::plain;
use crate::text::capitalised;
use maud::{DOCTYPE, Markup, html};
use plimsoll_analysis::compare::{Candidate, Comparison, Conclusion, Row, Unit, interval, mean};

/// Most differences in the chart.
const MOST_DIFFERENCES: usize = 40;

/// The comparison as one HTML file that opens offline.
pub fn page(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.candidates.iter().map(|one| one.label.as_str()).collect();
    let title = match labels.as_slice() {
        [first, others @ ..] if (1..4).contains(&others.len()) => {
            format!("{} compared with {first}", others.join(", "))
        }
        [alone] => (*alone).to_owned(),
        _ => format!("{} candidates", labels.len()),
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head("Comparison \u{b7} Plimsoll"))
            body {
                section.first {
                    p.eyebrow { "Comparison" }
                    h1 { (title) }
                    (candidates(comparison))
                    @for sentence in found(comparison) { p { (sentence) } }
                    @for note in &comparison.notes { p.note { (capitalised(note)) "." } }
                }
                (columns(&sections(comparison)))
                (chart::script())
            }
        }
    };
    plain::page(markup.into_string())
}

/// The sections that have something to show.
fn sections(comparison: &Comparison) -> Vec<Section> {
    let figures = if comparison.rows.is_empty() {
        html! { p.empty { "No run has a valid level, so there is no figure to compare." } }
    } else {
        table(comparison)
    };
    let parts = [
        ("differences", "Differences", differences(comparison)),
        ("levels", "Level by level", quantities(comparison)),
        ("figures", "All figures", Some(figures)),
        ("qualities", "Beside numbers", beside_numbers(comparison)),
    ];
    let section = |(id, title, body): (&str, &str, Option<Markup>)| {
        Some(Section { id: id.into(), title: title.into(), body: body? })
    };
    parts.into_iter().filter_map(section).collect()
}

/// Who is compared, by what differs, with the runs of each.
fn candidates(comparison: &Comparison) -> Markup {
    html! {
        ul.findings {
            @for (number, candidate) in comparison.candidates.iter().enumerate() {
                li {
                    strong { (candidate.label) } ": " (runs(candidate))
                    @if number == 0 && comparison.candidates.len() > 1 { " (the others are compared with it)" }
                }
            }
        }
    }
}

/// For each candidate but the first, how many figures differ.
fn found(comparison: &Comparison) -> Vec<String> {
    let Some((first, others)) = comparison.candidates.split_first() else { return Vec::new() };
    let sentence = |(number, candidate): (usize, &Candidate)| {
        let findings = || comparison.rows.iter().filter_map(|row| Some(row.differences.get(number)?.finding));
        let count = |wanted: Conclusion| findings().filter(|finding| *finding == wanted).count();
        let [higher, lower, same] =
            [Conclusion::Higher, Conclusion::Lower, Conclusion::NotDistinguishable].map(count);
        let all = higher + lower + same;
        (all > 0).then(|| {
            format!(
                "Of {all} figures, {} has {higher} higher and {lower} lower than {}; {same} cannot be distinguished.",
                candidate.label, first.label
            )
        })
    };
    others.iter().enumerate().filter_map(sentence).collect()
}

/// Differences from the first candidate in percent, those that have an interval.
fn differences(comparison: &Comparison) -> Option<Markup> {
    let percent = |row: &Row, number: usize| {
        let base = mean(row.values.first()?).filter(|base| *base > 0.0)?;
        let ends = row.differences.get(number)?.ci95?.map(|end| (end / base).max(-1.0) * 100.0);
        let difference = mean(row.values.get(number + 1)?)? - mean(row.values.first()?)?;
        Some((difference / base * 100.0, ends))
    };
    let others: Vec<&Candidate> = comparison.candidates.iter().skip(1).collect();
    let has_any = |row: &&Row| (0..others.len()).any(|number| percent(row, number).is_some());
    let all = comparison.rows.iter().filter(has_any).count();
    let rows: Vec<&Row> = comparison.rows.iter().filter(has_any).take(MOST_DIFFERENCES).collect();
    if rows.is_empty() {
        return None;
    }
    let name = |row: &&Row| match &row.level {
        Some(level) => format!("{level}: {}", row.quantity),
        None => row.quantity.clone(),
    };
    let series = others.iter().enumerate().map(|(number, candidate)| {
        let point = |(place, row): (usize, &&Row)| {
            let (value, ends) = percent(row, number)?;
            Some(Interval { at: place as f64, value, ends: Some(ends) })
        };
        let points: Vec<Interval> = rows.iter().enumerate().filter_map(point).collect();
        let series =
            Series::new(&candidate.label, Ink::Curve(number + 1)).symbol(Symbol::of_curve(number + 1));
        series.with(Mark::Intervals { points, of: "95 % interval" })
    });
    let extent = rows.iter().flat_map(|row| (0..others.len()).filter_map(move |number| percent(row, number)));
    let extent: Vec<f64> = extent.flat_map(|(_, ends)| ends).collect();
    let first = comparison.candidates.first().map_or("", |first| first.label.as_str());
    let x = Axis::linear(&format!("Difference from {first} (%)"), extent.into_iter());
    let height = 20.0 + 26.0 * rows.len() as f64 * (0.5 + 0.5 * others.len() as f64);
    let panel = Panel::new(x, Axis::places("Figure", rows.iter().map(name))).height(height).side_by_side();
    let caption = "Differences of means in percent of the first candidate, with 95\u{a0}% intervals over runs. An interval that \
                   crosses zero leaves open which is higher.";
    Some(html! {
        (Chart::new("chart-differences", caption).panel(panel.all(series)).render())
        @if all > rows.len() { p.note { (rows.len()) " of " (all) " differences are drawn; the table has all." } }
    })
}

/// A chart of each quantity over the levels; sizes are in the table.
fn quantities(comparison: &Comparison) -> Option<Markup> {
    let mut names: Vec<(&str, Unit)> = Vec::new();
    for row in comparison.rows.iter().filter(|row| row.level.is_some() && row.unit != Unit::Bytes) {
        if !names.iter().any(|(name, _)| *name == row.quantity) {
            names.push((&row.quantity, row.unit));
        }
    }
    let charts: Vec<Markup> = names
        .iter()
        .enumerate()
        .filter_map(|(number, (name, unit))| Some(quantity(comparison, name, *unit, number)?.render()))
        .collect();
    (!charts.is_empty()).then(|| html! { @for chart in charts { (chart) } })
}

/// A quantity of all candidates over the levels; `None` where nothing but zeroes was measured.
fn quantity(comparison: &Comparison, name: &str, unit: Unit, number: usize) -> Option<Chart> {
    let rows: Vec<&Row> =
        comparison.rows.iter().filter(|row| row.quantity == name && row.level.is_some()).collect();
    let highest = rows.iter().flat_map(|row| &row.values).flatten().copied().fold(0.0, f64::max);
    let (scale, unit) = match unit {
        Unit::PerSecond => (1.0, "/s"),
        Unit::Share => (100.0, "%"),
        Unit::Bytes => (1.0, "B"),
        Unit::Seconds if highest < 1e-3 => (1e6, "\u{b5}s"),
        Unit::Seconds if highest < 10.0 => (1e3, "ms"),
        Unit::Seconds => (1.0, "s"),
    };
    let side = |(number, candidate): (usize, &Candidate)| {
        let values = rows.iter().enumerate().filter_map(|(place, row)| {
            let values = row.values.get(number)?;
            let ends = interval(values).map(|ends| ends.map(|end| end.max(0.0) * scale));
            Some(Interval { at: place as f64, value: mean(values)? * scale, ends })
        });
        Side { name: candidate.label.clone(), values: values.collect() }
    };
    let sides: Vec<Side> = comparison.candidates.iter().enumerate().map(side).collect();
    if highest <= 0.0 {
        return None;
    }
    let levels = rows.iter().filter_map(|row| row.level.clone());
    let name = capitalised(name);
    let y = Axis::fitting(&format!("{name} ({unit})"), sides::extent(&sides));
    let caption = format!(
        "{name}: means over the runs of each candidate, with 95\u{a0}% intervals where there are several runs."
    );
    let panel = sides::panel(Axis::places("Level", levels), y, sides).height(260.0);
    Some(Chart::new(&format!("chart-quantity-{number}"), &caption).panel(panel))
}

/// All figures with what can be said of their differences.
fn table(comparison: &Comparison) -> Markup {
    let columns: Vec<Column> = comparison.candidates.iter().map(|one| Column::Number(&one.label)).collect();
    let cell = |row: &Row, position: usize, values: &[f64]| {
        let difference = position.checked_sub(1).and_then(|position| row.differences.get(position));
        let told = difference.and_then(|difference| told(row, difference));
        html! {
            td.num.free {
                (value(row.unit, mean(values)))
                @if let Some(told) = told { span.interval { (told) } }
            }
        }
    };
    let mut rows = Vec::new();
    let mut last = None;
    for row in &comparison.rows {
        let level = row.level.as_deref().unwrap_or("the whole run");
        let head = html! {
            th.free scope="row" {
                @if last != Some(level) { span.over { (level) } }
                span.plain { (row.quantity) }
            }
        };
        last = Some(level);
        let cells = row.values.iter().enumerate().map(|(position, values)| cell(row, position, values));
        rows.push((head, cells.collect::<Vec<_>>()));
    }
    in_pieces(Column::Text("Level and quantity"), &columns, &rows)
}

/// What the profiles say beside numbers.
fn beside_numbers(comparison: &Comparison) -> Option<Markup> {
    let columns: Vec<Column> = comparison.candidates.iter().map(|one| Column::Text(&one.label)).collect();
    let row = |(name, of): (&str, Vec<Option<&str>>)| {
        let cells = of.into_iter().map(|text| html! { td { (text.unwrap_or("\u{2013}")) } });
        (html! { th.free scope="row" { (name) } }, cells.collect::<Vec<_>>())
    };
    let rows: Vec<_> = qualities(comparison).into_iter().map(row).collect();
    (!rows.is_empty()).then(|| in_pieces(Column::Text("What the profiles say"), &columns, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::data;
    use crate::compare::tests::comparison;
    use serde_json::json;

    #[test]
    fn candidates_are_drawn_side_by_side_with_intervals_over_runs() {
        let page = page(&comparison());
        assert!(page.contains("&lt;c&gt;") && !page.contains("<c>"));
        assert!(page.contains("<h1>there compared with here</h1>"));
        let charts = data(&page);
        let ids: Vec<&str> = charts.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["chart-differences", "chart-quantity-0", "chart-quantity-1"]);
        let (_, median) = &charts[1];
        assert_eq!((&median[0]["n"], &median[1]["n"]), (&json!("here"), &json!("there")));
        assert_eq!(
            (&median[0]["d"][0], &median[0]["d"][1]),
            (&json!(["100/s"]), &json!([2])),
            "milliseconds"
        );
        assert!(median[0]["d"][3][0].as_f64().unwrap() > 10.0, "Student's t of two runs is wide: {median}");
    }

    #[test]
    fn a_difference_is_drawn_in_percent_of_the_first() {
        let charts = data(&page(&comparison()));
        let (_, differences) = &charts[0];
        assert_eq!(differences[0]["d"], json!([["100/s: publish time, median"], [100], [50], [150]]));
    }

    #[test]
    fn what_was_run_once_has_no_chart_of_differences() {
        let mut comparison = comparison();
        comparison.rows.iter_mut().flat_map(|row| &mut row.differences).for_each(|one| one.ci95 = None);
        let page = page(&comparison);
        assert!(!page.contains("chart-differences") && page.contains("chart-quantity-0"));
    }
}
