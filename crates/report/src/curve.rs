//! A level along a curve as a table: its samples, put together to few rows.

use plimsoll_analysis::curve::{CurvePart, CurveSummary};

/// Most rows of a table: the hours of a day.
const MOST_ROWS: usize = 24;

/// Rows of equally many samples: means of loads, sums of messages, and of quantiles the highest.
pub(crate) fn rows(curve: &CurveSummary) -> Vec<CurvePart> {
    let size = curve.parts.len().div_ceil(MOST_ROWS).max(1);
    curve.parts.chunks(size).filter_map(together).collect()
}

fn together(parts: &[CurvePart]) -> Option<CurvePart> {
    let (first, last) = (parts.first()?, parts.last()?);
    let sum = |of: fn(&CurvePart) -> u64| parts.iter().map(of).sum();
    let mean = |values: Vec<f64>| {
        let count = values.len() as f64;
        (count > 0.0).then(|| values.iter().sum::<f64>() / count)
    };
    let highest = |of: fn(&CurvePart) -> Option<f64>| parts.iter().filter_map(of).reduce(f64::max);
    Some(CurvePart {
        time: first.time.clone(),
        span: [first.span[0], last.span[1]],
        offered: mean(parts.iter().map(|part| part.offered).collect()).unwrap_or_default(),
        due: sum(|part| part.due),
        achieved: mean(parts.iter().filter_map(|part| part.achieved).collect()),
        delivered: sum(|part| part.delivered),
        lost: sum(|part| part.lost),
        unsent: sum(|part| part.unsent),
        publish_p50: highest(|part| part.publish_p50),
        publish_p99: highest(|part| part.publish_p99),
        subscribe_p99: highest(|part| part.subscribe_p99),
        met: parts.iter().filter_map(|part| part.met).reduce(|one, other| one && other),
    })
}

/// What a row says of the objectives.
pub(crate) fn verdict(row: &CurvePart) -> &'static str {
    match row.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_put_together_to_the_hours_of_a_day() {
        let part = |place: usize| CurvePart {
            time: format!("{place}"),
            span: [place as f64, (place + 1) as f64],
            offered: place as f64,
            due: 10,
            achieved: (place != 1).then_some(2.0 * place as f64),
            delivered: 9,
            lost: 1,
            unsent: 0,
            publish_p50: None,
            publish_p99: (place != 0).then_some(place as f64),
            subscribe_p99: None,
            met: Some(place != 3),
        };
        let curve = CurveSummary {
            lowest: 0.0,
            highest: 95.0,
            parts: (0..96).map(part).collect(),
            missed: Vec::new(),
            is_spike: false,
        };
        let found = rows(&curve);
        assert_eq!((found.len(), found[1].time.as_str()), (24, "4"));
        let first = &found[0];
        assert_eq!((first.span, first.offered, first.due, first.lost), ([0.0, 4.0], 1.5, 40, 4));
        assert_eq!((first.achieved, first.publish_p99), (Some(10.0 / 3.0), Some(3.0)));
        assert_eq!((verdict(first), verdict(&found[1])), ("missed", "met"));
    }
}
