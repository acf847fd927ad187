//! Tables and the cells that they share.

use crate::html::level;
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};

/// The head of a column: text stands left, numbers right.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    /// A column of text.
    Text(&'a str),
    /// A column of numbers.
    Number(&'a str),
}

/// How a count that should be zero is shown where it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Plain,
    /// Worth a look.
    Notable,
    /// Against the contract.
    Violation,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "num",
            Tone::Notable => "num notable",
            Tone::Violation => "num violation",
        }
    }
}

/// A table in a box of its own that scrolls sideways where the page is narrow. Each row is a `tr`.
pub fn table(columns: &[Column<'_>], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        @for column in columns {
                            @match column {
                                Column::Text(title) => { th { (title) } }
                                Column::Number(title) => { th.num { (title) } }
                            }
                        }
                    }
                }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// Most columns of numbers in one table: more would not fit a narrow page.
const MOST_COLUMNS: usize = 8;

/// A table whose columns may be many: below each other as many tables as they need, each with the heads of its rows. A row is its
/// head and its cells.
pub fn in_pieces(head: Column<'_>, columns: &[Column<'_>], rows: &[(Markup, Vec<Markup>)]) -> Markup {
    let pieces = columns.len().div_ceil(MOST_COLUMNS).max(1);
    let each = columns.len().div_ceil(pieces).max(1);
    let piece = |number: usize| {
        let own = columns.iter().skip(number * each).take(each);
        let columns: Vec<Column> = std::iter::once(head).chain(own.copied()).collect();
        let rows = rows.iter().map(|(head, cells)| {
            let own = cells.iter().skip(number * each).take(each);
            html! { tr { (head) @for cell in own { (cell) } } }
        });
        table(&columns, &rows.collect::<Vec<_>>())
    };
    html! { @for number in 0..pieces { (piece(number)) } }
}

/// The level's name, as the head of its row.
pub fn level_cell(level: &LevelSummary) -> Markup {
    html! { th scope="row" { (level::name(level)) } }
}

/// The verdict as a word with a sign.
pub fn verdict_cell(verdict: LevelVerdict) -> Markup {
    html! { td { (chip(verdict)) } }
}

/// The verdict as a word with a sign, in its colour.
pub fn chip(verdict: LevelVerdict) -> Markup {
    let sign = match verdict {
        LevelVerdict::Met => "\u{2713}",
        LevelVerdict::Missed => "\u{2717}",
        LevelVerdict::Undecided => "?",
        LevelVerdict::Invalid => "\u{2298}",
        LevelVerdict::Unfinished => "\u{2026}",
    };
    html! { span class={ "chip " (verdict.name()) } { span aria-hidden="true" { (sign) } " " (verdict.name()) } }
}

/// A count; zero stands back, anything else in the tone given.
pub fn count_cell(number: u64, tone: Tone) -> Markup {
    let class = if number == 0 { "num zero" } else { tone.class() };
    html! { td class=(class) { (text::count(number as f64)) } }
}

/// A number as already written, right-aligned; absent ones stand back.
pub fn number_cell(text: Option<String>) -> Markup {
    match text {
        Some(text) => html! { td.num { (text) } },
        None => absent_cell(),
    }
}

/// A time in seconds.
pub fn time_cell(seconds: Option<f64>) -> Markup {
    number_cell(seconds.map(|seconds| text::time(Some(seconds))))
}

/// A value with its 95 % interval below it.
pub fn interval_cell(value: Option<f64>, interval: Option<[f64; 2]>, show: fn(f64) -> String) -> Markup {
    let Some(value) = value else { return absent_cell() };
    html! {
        td.num {
            (show(value))
            @if let Some([lo, hi]) = interval {
                span.interval { (range(&show(lo), &show(hi))) }
            }
        }
    }
}

/// Two values as a range, their common unit once. It may be broken behind the dash, and nowhere else.
pub fn range(lo: &str, hi: &str) -> String {
    let low = match (lo.rsplit_once(' '), hi.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => number,
        _ => lo,
    };
    let whole = |text: &str| text.replace(' ', "\u{a0}");
    format!("{}\u{a0}\u{2013} {}", whole(low), whole(hi))
}

/// A time in seconds with its 95 % interval.
pub fn time_interval_cell(value: Option<f64>, interval: Option<[f64; 2]>) -> Markup {
    interval_cell(value, interval, |seconds| text::time(Some(seconds)))
}

/// A share of 1 in percent.
pub fn share_cell(share: Option<f64>) -> Markup {
    number_cell(share.map(percent))
}

/// A share of 1 in percent, with one decimal where it is small.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if 0.0 < percent && percent < 0.05 {
        return "< 0.1 %".to_owned();
    }
    let decimals = usize::from((0.05..10.0).contains(&percent));
    format!("{percent:.decimals$} %")
}

fn absent_cell() -> Markup {
    html! { td.num.zero { "\u{2013}" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_stand_back_and_violations_stand_out() {
        assert_eq!(count_cell(0, Tone::Violation).into_string(), "<td class=\"num zero\">0</td>");
        assert_eq!(count_cell(1200, Tone::Violation).into_string(), "<td class=\"num violation\">1,200</td>");
    }

    #[test]
    fn a_small_share_is_not_none() {
        assert_eq!([0.0, 0.0004, 0.0312, 0.25].map(percent), ["0 %", "< 0.1 %", "3.1 %", "25 %"]);
    }

    #[test]
    fn a_range_names_a_common_unit_once() {
        assert_eq!(range("1.20 ms", "3.40 ms"), "1.20\u{a0}\u{2013} 3.40\u{a0}ms");
        assert_eq!(range("900 µs", "1.10 ms"), "900\u{a0}µs\u{a0}\u{2013} 1.10\u{a0}ms");
        assert_eq!(range("990", "1,007"), "990\u{a0}\u{2013} 1,007");
    }

    #[test]
    fn a_wide_table_goes_on_below_with_the_heads_of_its_rows() {
        let columns: Vec<Column> = (0..20).map(|_| Column::Number("n")).collect();
        let cells = || (0..20).map(|number| number_cell(Some(format!("value {number}")))).collect();
        let rows = [(html! { th { "first" } }, cells()), (html! { th { "second" } }, cells())];
        let drawn = in_pieces(Column::Text("Level"), &columns, &rows).into_string();
        let count = |part: &str| drawn.matches(part).count();
        assert_eq!((count("<table>"), count("<th>first</th>"), count("value 19<")), (3, 3, 2));
        assert_eq!(count("<td"), 40);
    }

    #[test]
    fn an_absent_number_is_not_a_zero() {
        assert!(time_cell(None).into_string().contains('\u{2013}'));
    }
}
