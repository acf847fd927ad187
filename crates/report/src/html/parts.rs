//! What messages weigh part by part: requests, responses and notifications as stacked bars (work B).

use crate::chart::{Axis, Bar, Chart, Ink, Mark, Panel, Series};
use crate::html::level;
use crate::html::table::{Column, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::sizes::{PartsSummary, SizesSummary};
use plimsoll_analysis::summary::Summary;

/// A part of a packet, and how it is shown.
struct Shown {
    name: &'static str,
    ink: Ink,
    of: fn(&PartsSummary) -> Option<f64>,
}

const SHOWN: [Shown; 4] = [
    Shown { name: "transport header", ink: Ink::Neutral, of: |parts| parts.transport_header },
    Shown { name: "TLS", ink: Ink::Curve(4), of: |parts| parts.security },
    Shown { name: "application header", ink: Ink::Curve(3), of: |parts| Some(parts.application_header) },
    Shown { name: "content", ink: Ink::Curve(0), of: |parts| Some(parts.content) },
];

/// The packets of a level by what they are for, those that there were.
fn kinds(sizes: &SizesSummary) -> Vec<(&'static str, PartsSummary)> {
    let all =
        [("request", sizes.request), ("response", sizes.response), ("notification", sizes.notification)];
    all.into_iter().filter_map(|(name, parts)| Some((name, parts?))).collect()
}

/// Chart of one level and table of all; nothing where no message was sent.
pub fn body(summary: &Summary) -> Markup {
    let levels = level::rising(summary);
    let told: Vec<&LevelSummary> =
        levels.into_iter().filter(|level| !kinds(&level.sizes).is_empty()).collect();
    let Some(lowest) = told.first() else { return html! {} };
    html! {
        h3.apart { "Sizes by part" }
        (chart(lowest).render())
        (sizes(&told))
        p.note {
            "Data per message is all that the network carried both ways for one message: packets, their headers, \
             acknowledgements of TCP and what several messages shared. Over TCP the headers are those of the \
             connections that the kernel was asked about, scaled to the bytes of all."
        }
    }
}

fn chart(level: &LevelSummary) -> Chart {
    let kinds = kinds(&level.sizes);
    let mut ends = vec![0.0; kinds.len()];
    let stacked = SHOWN.map(|shown| {
        let bars = kinds.iter().zip(&mut ends).enumerate().map(|(place, ((_, parts), end))| {
            let from = *end;
            *end += (shown.of)(parts).unwrap_or(0.0).round();
            Bar { at: place as f64, from, to: *end, ends: None }
        });
        let bars: Vec<Bar> = bars.collect();
        let is_there = bars.iter().any(|bar| bar.to > bar.from);
        Series::new(shown.name, shown.ink).with(Mark::Bars(if is_there { bars } else { Vec::new() }))
    });
    let y = Axis::places("Packet", kinds.iter().map(|(name, _)| (*name).to_owned()));
    let panel = Panel::new(Axis::linear("Size (bytes)", ends.into_iter()), y);
    let caption = format!(
        "Mean sizes at {}, the lowest level: what the message itself is, what the protocol adds, and the headers of \
         IP and transport of a packet that travels alone.",
        level::name(level)
    );
    let height = 20.0 + 50.0 * kinds.len() as f64;
    Chart::new("chart-parts", &caption).panel(panel.height(height).all(stacked))
}

fn sizes(levels: &[&LevelSummary]) -> Markup {
    let secured = levels.iter().any(|level| level.sizes.record_sent.is_some());
    let mut columns = vec![
        Column::Text("Level"),
        Column::Text("Packet"),
        Column::Number("Transport header"),
        Column::Number("Application header"),
        Column::Number("Content"),
        Column::Number("Data per message"),
    ];
    if secured {
        columns.extend([
            Column::Number("TLS"),
            Column::Number("TLS record sent"),
            Column::Number("received"),
        ]);
    }
    let size = |bytes: Option<f64>| number_cell(bytes.map(text::bytes));
    let rows = levels.iter().flat_map(|level| {
        let sizes = &level.sizes;
        kinds(sizes).into_iter().enumerate().map(move |(place, (name, parts))| {
            let first = place == 0;
            html! {
                tr {
                    th scope="row" { @if first { (level::name(level)) } }
                    td { (name) }
                    (size(parts.transport_header))
                    (size(Some(parts.application_header)))
                    (size(Some(parts.content)))
                    (size(sizes.data_per_message.filter(|_| first)))
                    @if secured {
                        (size(parts.security))
                        (size(sizes.record_sent.filter(|_| first)))
                        (size(sizes.record_received.filter(|_| first)))
                    }
                }
            }
        })
    });
    table(&columns, &rows.collect::<Vec<_>>())
}
