//! Device management beside messages: who is observed, values that were notified, firmware that was downloaded.

use crate::html::table::{Column, in_pieces, number_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::management::{FormatSummary, ManagementSummary};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Load;

/// Whether there is anything to tell.
pub fn told(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| level.management.is_some())
}

fn count(number: u64) -> Option<String> {
    Some(text::count(number as f64))
}

fn some(number: u64) -> Option<String> {
    count(number).filter(|_| number > 0)
}

/// A column: its head, and what it shows of a level, where there is anything.
type Shown = (&'static str, fn(&ManagementSummary) -> Option<String>);

const SHOWN: [Shown; 11] = [
    ("Observed", |own| count(own.observed?.into())),
    ("Not observed", |own| count(own.unobserved?.into())),
    ("Notifications of values", |own| some(own.value_notifications)),
    ("Registrations renewed", |own| some(own.renewals)),
    ("Requests of the server", |own| some(own.served)),
    ("Came to sleeping devices", |own| some(own.unheard)),
    ("Downloads", |own| some(own.downloads)),
    ("Downloads failed", |own| some(own.downloads_failed)),
    ("Bytes downloaded", |own| some(own.download_bytes)),
    ("Download p50", |own| Some(text::time(own.download_time.as_ref()?.p50))),
    ("Download max", |own| Some(text::time(own.download_time.as_ref()?.max))),
];

/// One row for each level; columns of which no row has anything are left out.
pub fn body(summary: &Summary) -> Markup {
    let levels: Vec<_> =
        summary.levels.iter().filter_map(|level| Some((level.load, level.management.as_ref()?))).collect();
    let shown: Vec<&Shown> =
        SHOWN.iter().filter(|(_, of)| levels.iter().any(|(_, own)| of(own).is_some())).collect();
    let columns: Vec<Column> = shown.iter().map(|(title, _)| Column::Number(title)).collect();
    let rows: Vec<_> = levels
        .iter()
        .map(|(load, own)| {
            let cells = shown.iter().map(|(_, of)| number_cell(of(own))).collect();
            (html! { th scope="row" { (load) } }, cells)
        })
        .collect();
    let formats: Vec<_> =
        levels.iter().flat_map(|(load, own)| own.formats.iter().map(move |of| (*load, of))).collect();
    html! {
        (in_pieces(Column::Text("Level"), &columns, &rows))
        @if !formats.is_empty() { (by_format(&formats)) }
        @if levels.iter().any(|(_, own)| own.observed.is_some()) {
            p.note { "A device that is registered and that nobody observes sends nothing." }
        }
    }
}

/// What devices sent, by level and format.
fn by_format(formats: &[(Load, &FormatSummary)]) -> Markup {
    let columns = ["Format", "Messages", "Payload, bytes", "Message of CoAP, bytes"].map(Column::Number);
    let rows: Vec<_> = formats
        .iter()
        .map(|(load, own)| {
            let bytes = |bytes: f64| Some(format!("{bytes:.0}"));
            let cells = [
                Some(own.format.clone()),
                count(own.messages),
                bytes(own.payload_bytes),
                bytes(own.packet_bytes),
            ];
            (html! { th scope="row" { (load) } }, cells.into_iter().map(number_cell).collect())
        })
        .collect();
    in_pieces(Column::Text("Level"), &columns, &rows)
}
