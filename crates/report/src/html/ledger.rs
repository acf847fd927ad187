//! The ledger: what became of every message, level by level.

use crate::html::level;
use crate::html::table::{Column, Tone, count_cell, level_cell, number_cell, table};
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;

/// One count of the ledger.
struct Entry {
    name: &'static str,
    /// `None` where the thing does not exist.
    count: fn(&LevelSummary) -> Option<u64>,
    tone: fn(&LevelSummary) -> Tone,
    /// Whether the column stands even where it is zero throughout.
    always: bool,
}

const fn entry(
    name: &'static str,
    count: fn(&LevelSummary) -> Option<u64>,
    tone: fn(&LevelSummary) -> Tone,
    always: bool,
) -> Entry {
    Entry { name, count, tone, always }
}

const PLAIN: fn(&LevelSummary) -> Tone = |_| Tone::Plain;
const NOTABLE: fn(&LevelSummary) -> Tone = |_| Tone::Notable;
const VIOLATION: fn(&LevelSummary) -> Tone = |_| Tone::Violation;

const ENTRIES: [Entry; 20] = [
    entry("Due", |level| Some(level.due), PLAIN, true),
    entry("Sent", |level| Some(level.sent), PLAIN, true),
    entry("Unsent", |level| Some(level.unsent), NOTABLE, true),
    entry("Acknowledged", |level| level.acknowledged, PLAIN, true),
    entry("Refused", |level| Some(level.refused), VIOLATION, false),
    entry("Sent again", |level| Some(level.repeated), NOTABLE, false),
    entry("Retransmitted", |level| Some(level.retransmitted), NOTABLE, false),
    entry("Expected", |level| Some(level.expected_deliveries), PLAIN, true),
    entry("Delivered", |level| Some(level.delivered), PLAIN, true),
    entry("Late", |level| Some(level.late), NOTABLE, true),
    entry("Superseded", |level| Some(level.superseded), PLAIN, false),
    entry("Lost", |level| Some(level.lost), VIOLATION, true),
    entry("Lost although acknowledged", |level| level.lost_acknowledged, VIOLATION, false),
    entry("Duplicated", |level| Some(level.duplicated), duplicates, true),
    entry("Reordered", |level| Some(level.reordered), VIOLATION, true),
    entry("Foreign", |level| Some(level.foreign), NOTABLE, true),
    entry("Unknown acknowledgements", |level| Some(level.unknown_acks), NOTABLE, false),
    entry("Wills", |level| Some(level.wills), NOTABLE, false),
    entry("Disconnected", |level| Some(level.disconnected), NOTABLE, false),
    entry("Reconnects", |level| Some(level.reconnects), NOTABLE, true),
];

fn duplicates(level: &LevelSummary) -> Tone {
    if level.duplicates_legal.is_some() { Tone::Plain } else { Tone::Violation }
}

/// The table, and what it leaves open.
pub fn body(summary: &Summary) -> Markup {
    let levels = &summary.levels;
    let entries: Vec<&Entry> = ENTRIES
        .iter()
        .filter(|entry| {
            entry.always || levels.iter().any(|level| (entry.count)(level).is_some_and(|count| count > 0))
        })
        .collect();
    let mut columns = vec![Column::Text("Level")];
    columns.extend(entries.iter().map(|entry| Column::Number(entry.name)));
    let cells = |level: &LevelSummary| {
        html! {
            @for entry in &entries {
                @match (entry.count)(level) {
                    Some(count) => { (count_cell(count, (entry.tone)(level))) }
                    None => { (number_cell(None)) }
                }
            }
        }
    };
    let rows: Vec<Markup> = levels
        .iter()
        .map(|level| {
            html! {
                tr { (level_cell(level)) (cells(level)) }
                @for own in &level.populations {
                    tr { th.sub scope="row" { (own.name) } (cells(&own.figures)) }
                }
            }
        })
        .collect();
    let duplicated = levels.iter().find(|level| level.duplicated > 0);
    html! {
        p {
            "Every message by the level in which it was due: due = sent + unsent, and each expected delivery is \
             delivered, late (after the drain), or lost."
        }
        (table(&columns, &rows))
        @for level in levels {
            @if let Some(loss) = level.first_loss {
                p.note {
                    "At " (level::name(level)) " losses began " (loss.due_in_hold) " into the hold, with message "
                    (loss.message_number) " of device " (loss.device) "."
                }
            }
        }
        @if let Some(level) = duplicated {
            p.note {
                @match &level.duplicates_legal {
                    Some(why) => { "The duplicates are legal here: " (why) "." }
                    None => { "The duplicates are violations: nothing in these QoS levels and filters allows them." }
                }
            }
        }
    }
}
