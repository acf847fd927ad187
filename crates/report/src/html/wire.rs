//! What connections cost below the protocol, in the set-up and level by level.

use crate::html::table::{Column, number_cell, table};
use crate::terminal;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::wire::WireSummary;

/// Whether there is anything to tell.
pub fn told(summary: &Summary) -> bool {
    rows_of(summary).iter().any(|(_, wire)| !wire.in_words(terminal::time).is_empty())
}

fn rows_of(summary: &Summary) -> Vec<(String, &WireSummary)> {
    let levels = summary.levels.iter().map(|level| (level.label(), &level.wire));
    std::iter::once(("set-up".to_owned(), &summary.wire)).chain(levels).collect()
}

/// One row for the set-up and one for each level.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("TLS handshakes"),
        Column::Number("Resumed"),
        Column::Number("Handshake p50"),
        Column::Number("Handshake p99"),
        Column::Number("Network round trip p50"),
        Column::Number("p99"),
        Column::Number("TCP round trip p50"),
        Column::Number("p99"),
        Column::Number("Least p50"),
        Column::Number("Segments in flight"),
        Column::Number("Sent again"),
        Column::Number("Request round trip p50"),
        Column::Number("p99"),
        Column::Number("Retransmitted after, mean"),
    ];
    let shown = |time: Option<f64>| number_cell(time.map(|time| terminal::time(Some(time))));
    let rows: Vec<Markup> = rows_of(summary)
        .into_iter()
        .map(|(label, wire)| {
            html! {
                tr {
                    th scope="row" { (label) }
                    (number_cell(Some(terminal::count(wire.handshakes as f64))))
                    (number_cell(Some(terminal::count(wire.handshakes_resumed as f64))))
                    (shown(wire.handshake_time.p50))
                    (shown(wire.handshake_time.p99))
                    (shown(wire.network_rtt.p50))
                    (shown(wire.network_rtt.p99))
                    (shown(wire.tcp_rtt.p50))
                    (shown(wire.tcp_rtt.p99))
                    (shown(wire.tcp_least_rtt.p50))
                    (number_cell(wire.tcp_in_flight.map(|segments| format!("{segments:.2}"))))
                    (number_cell(wire.tcp_retransmissions.map(|again| terminal::count(again as f64))))
                    (shown(wire.request_rtt.p50))
                    (shown(wire.request_rtt.p99))
                    (shown(wire.retransmission_delay.mean))
                }
            }
        })
        .collect();
    let rises: Vec<(String, String)> = summary
        .levels
        .iter()
        .filter_map(|level| Some((level, level.inference.as_ref()?)))
        .filter_map(|(level, inference)| {
            let told = inference.in_words(level, |seconds| terminal::time(Some(seconds)));
            (!told.is_empty()).then(|| (level.label(), told.join("; ")))
        })
        .collect();
    let lowest = summary.levels.iter().find_map(|level| level.inference.as_ref()).and_then(|inference| {
        summary.levels.iter().find(|level| level.index == inference.reference).map(|level| level.label())
    });
    html! {
        (table(&columns, &rows))
        p.note {
            "The network\u{2019}s round trip is that of a probe that the platform\u{2019}s host answers without the \
             platform\u{2019}s application; TCP\u{2019}s own has delayed acknowledgements in it."
        }
        @if let Some(lowest) = lowest {
            h3.apart { "Why times rose over " (lowest) }
            @if rises.is_empty() {
                p.empty { "Neither the publish time nor the total time rose beyond doubt." }
            }
            ul { @for (label, told) in &rises { li { strong { (label) } ": " (told) "." } } }
        }
    }
}
