//! What connections cost below the protocol, in the set-up and level by level.

use crate::html::table::{Column, in_pieces, number_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::wire::WireSummary;

/// Whether there is anything to tell.
pub fn told(summary: &Summary) -> bool {
    rows_of(summary).iter().any(|(_, wire)| !wire.in_words(text::time).is_empty())
}

fn rows_of(summary: &Summary) -> Vec<(String, &WireSummary)> {
    let levels = summary.levels.iter().map(|level| (level.load.to_string(), &level.wire));
    std::iter::once(("set-up".to_owned(), &summary.wire)).chain(levels).collect()
}

/// A column: its head, and what it shows of a row, where there is anything.
type Shown = (&'static str, fn(&WireSummary) -> Option<String>);

fn time(seconds: Option<f64>) -> Option<String> {
    seconds.map(|seconds| text::time(Some(seconds)))
}

fn some(count: u64) -> Option<String> {
    (count > 0).then(|| text::count(count as f64))
}

const SHOWN: [Shown; 14] = [
    ("TLS handshakes", |wire| some(wire.handshakes)),
    ("Resumed", |wire| some(wire.handshakes_resumed)),
    ("Handshake p50", |wire| time(wire.handshake_time.p50)),
    ("Handshake p99", |wire| time(wire.handshake_time.p99)),
    ("Network round trip p50", |wire| time(wire.network_rtt.p50)),
    ("Network p99", |wire| time(wire.network_rtt.p99)),
    ("TCP round trip p50", |wire| time(wire.tcp_rtt.p50)),
    ("TCP p99", |wire| time(wire.tcp_rtt.p99)),
    ("TCP least p50", |wire| time(wire.tcp_least_rtt.p50)),
    ("Segments in flight", |wire| wire.tcp_in_flight.map(|segments| format!("{segments:.2}"))),
    ("Segments sent again", |wire| wire.tcp_retransmissions.map(|again| text::count(again as f64))),
    ("Request round trip p50", |wire| time(wire.request_rtt.p50)),
    ("Request p99", |wire| time(wire.request_rtt.p99)),
    ("Retransmitted after, mean", |wire| time(wire.retransmission_delay.mean)),
];

/// One row for the set-up and one for each level; columns of which no row has anything are left out.
pub fn body(summary: &Summary) -> Markup {
    let told = rows_of(summary);
    let shown: Vec<&Shown> =
        SHOWN.iter().filter(|(_, of)| told.iter().any(|(_, wire)| of(wire).is_some())).collect();
    let columns: Vec<Column> = shown.iter().map(|(title, _)| Column::Number(title)).collect();
    let row = |(label, wire): &(String, &WireSummary)| {
        let cells = shown.iter().map(|(_, of)| number_cell(of(wire)));
        (html! { th scope="row" { (label) } }, cells.collect())
    };
    let rows: Vec<_> = told.iter().map(row).collect();
    let rises: Vec<(String, String)> = summary
        .levels
        .iter()
        .filter_map(|level| Some((level, level.inference.as_ref()?)))
        .filter_map(|(level, inference)| {
            let told = inference.in_words(level, |seconds| text::time(Some(seconds)));
            (!told.is_empty()).then(|| (level.load.to_string(), told.join("; ")))
        })
        .collect();
    let lowest = summary.levels.iter().find_map(|level| level.inference.as_ref()).and_then(|inference| {
        summary.levels.iter().find(|level| level.index == inference.reference).map(|level| level.load)
    });
    html! {
        (in_pieces(Column::Text("Level"), &columns, &rows))
        @if summary.levels.iter().any(|level| level.wire.network_rtt.p50.is_some()) {
            p.note {
            "The network\u{2019}s round trip is that of a probe that the platform\u{2019}s host answers without the \
             platform\u{2019}s application; TCP\u{2019}s own has delayed acknowledgements in it."
            }
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
