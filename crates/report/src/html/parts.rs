//! What messages weigh part by part: requests, responses and notifications as stacked bars (work B).

use crate::html::figure::{self, BLUE, CURVES, Figure, NEUTRAL, PURPLE};
use crate::html::level;
use crate::html::table::{Column, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::sizes::{PartsSummary, SizesSummary};
use plimsoll_analysis::summary::Summary;
use plotly::Bar;
use plotly::common::Marker;
use plotly::layout::BarMode;

/// A part of a packet, and how it is shown.
struct Shown {
    name: &'static str,
    colour: &'static str,
    of: fn(&PartsSummary) -> Option<f64>,
}

const SHOWN: [Shown; 4] = [
    Shown { name: "transport header", colour: NEUTRAL, of: |parts| parts.transport_header },
    Shown { name: "TLS", colour: CURVES[4], of: |parts| parts.security },
    Shown { name: "application header", colour: PURPLE, of: |parts| Some(parts.application_header) },
    Shown { name: "content", colour: BLUE, of: |parts| Some(parts.content) },
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
        (chart(lowest).render(&format!(
            "Mean sizes at {}, the lowest level: what the message itself is, what the protocol adds, and the headers of \
             IP and transport of a packet that travels alone.",
            level::name(lowest)
        )))
        (sizes(&told))
        p.note {
            "Data per message is all that the network carried both ways for one message: packets, their headers, \
             acknowledgements of TCP and what several messages shared. Over TCP the headers are those of the \
             connections that the kernel was asked about, scaled to the bytes of all."
        }
    }
}

fn chart(level: &LevelSummary) -> Figure {
    // Bars grow upwards: the request is to be the topmost.
    let kinds: Vec<_> = kinds(&level.sizes).into_iter().rev().collect();
    let layout = figure::layout()
        .bar_mode(BarMode::Stack)
        .x_axis(figure::axis("Bytes"))
        .y_axis(figure::axis("Packet").show_grid(false));
    let mut figure = Figure::new("chart-parts", 120 + 60 * kinds.len(), layout);
    for shown in &SHOWN {
        let values: Vec<f64> =
            kinds.iter().map(|(_, parts)| (shown.of)(parts).unwrap_or(0.0).round()).collect();
        if values.iter().any(|value| *value > 0.0) {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            let bar = Bar::new(values, names)
                .orientation(plotly::common::Orientation::Horizontal)
                .name(shown.name)
                .marker(Marker::new().color(shown.colour));
            figure.add(bar);
        }
    }
    figure
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
