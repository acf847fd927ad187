//! What the colours and symbols of a chart stand for. It is HTML: its entries go on in the next line where they do not fit.

use super::heat::{Heat, SHADES};
use super::series::{Mark, Series};
use super::{Panel, number};
use maud::{Markup, html};

/// The names of all series, each once: their place is the key by which the script shows and hides them.
pub fn keys(panels: &[Panel]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !keys.contains(&series.name.as_str()) {
            keys.push(&series.name);
        }
    }
    keys
}

/// The legend; nothing where there is but one series and that is named by its axis.
pub fn legend(panels: &[Panel], keys: &[&str]) -> Markup {
    let listed = |key: &&str| {
        let mut all = panels.iter().flat_map(|panel| &panel.series);
        all.find(|series| series.name == *key && series.is_listed)
    };
    let entries: Vec<(usize, &Series)> =
        keys.iter().enumerate().filter_map(|(key, name)| Some((key, listed(name)?))).collect();
    let heat = panels.iter().find_map(|panel| panel.heat.as_ref());
    html! {
        @if !entries.is_empty() || heat.is_some() {
            ul.legend {
                @for (key, series) in entries {
                    li data-k=(key) class=(series.ink.class()) { (swatch(series)) (series.name) }
                }
                @if let Some(heat) = heat { (shades(heat)) }
            }
        }
    }
}

/// A small drawing of the series.
fn swatch(series: &Series) -> Markup {
    let has = |wanted: fn(&Mark) -> bool| series.marks.iter().any(wanted);
    let dashed =
        has(|mark| matches!(mark, Mark::Line { dashed: true, .. } | Mark::Guide { dashed: true, .. }));
    let line = dashed || has(|mark| matches!(mark, Mark::Line { .. } | Mark::Guide { .. }));
    let block = has(|mark| matches!(mark, Mark::Bars(_)));
    let frame = has(|mark| matches!(mark, Mark::Boxes(_)));
    let band = has(|mark| matches!(mark, Mark::Band(_)));
    let alone = has(|mark| matches!(mark, Mark::Points(_) | Mark::Intervals { .. }));
    let symbol = series.symbol.filter(|_| alone || line).or(alone.then(Default::default));
    html! {
        svg viewBox="0 0 26 14" aria-hidden="true" {
            @if band { rect.band x="1" y="2" width="24" height="10" {} }
            @if block { rect.bar x="6" y="1" width="14" height="12" {} }
            @if frame { rect.box x="6" y="2" width="14" height="10" {} path.median d="M6 8h14" {} }
            @if line { path class=(if dashed { "line dashed" } else { "line" }) d="M1 7h24" {} }
            @if let Some(symbol) = symbol { (symbol.at(&[(13.0, 7.0)], 4.0)) }
        }
    }
}

/// The shades of a heat map with the counts that they stand for.
fn shades(heat: &Heat) -> Markup {
    let steps = heat.steps();
    let range = |place: usize, least: u64| match steps.get(place + 1) {
        Some((_, next)) if *next == least + 1 => number::decimal(least as f64),
        Some((_, next)) => {
            format!("{}\u{2013}{}", number::decimal(least as f64), number::decimal((next - 1) as f64))
        }
        None => format!("{} and more", number::decimal(least as f64)),
    };
    html! {
        li.of { (heat.counted) ":" }
        @for (place, (shade, least)) in steps.iter().enumerate().take(SHADES) {
            li {
                svg viewBox="0 0 26 14" aria-hidden="true" { rect class={ "cell h" (shade) } width="26" height="14" {} }
                (range(place, *least))
            }
        }
    }
}
