//! The ledger: what became of every message, level by level.

use crate::html::level;
use crate::html::table::{Column, Tone, count_cell, level_cell, number_cell, table};
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;

/// The tables of the ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What became of what was due, and of the connections.
    Messages,
    /// What became of what was sent.
    Deliveries,
}

/// One count of the ledger.
struct Entry {
    part: Part,
    name: &'static str,
    /// `None` where the thing does not exist.
    count: fn(&LevelSummary) -> Option<u64>,
    tone: fn(&LevelSummary) -> Tone,
    /// Whether the column stands even where it is zero throughout.
    always: bool,
}

const fn entry(
    part: Part,
    name: &'static str,
    count: fn(&LevelSummary) -> Option<u64>,
    tone: fn(&LevelSummary) -> Tone,
    always: bool,
) -> Entry {
    Entry { part, name, count, tone, always }
}

const PLAIN: fn(&LevelSummary) -> Tone = |_| Tone::Plain;
const NOTABLE: fn(&LevelSummary) -> Tone = |_| Tone::Notable;
const VIOLATION: fn(&LevelSummary) -> Tone = |_| Tone::Violation;

const ENTRIES: [Entry; 20] = [
    entry(Part::Messages, "Due", |level| Some(level.due), PLAIN, true),
    entry(Part::Messages, "Sent", |level| Some(level.sent), PLAIN, true),
    entry(Part::Messages, "Unsent", |level| Some(level.unsent), NOTABLE, true),
    entry(Part::Messages, "Acknowledged", |level| level.acknowledged, PLAIN, true),
    entry(Part::Messages, "Refused", |level| Some(level.refused), VIOLATION, false),
    entry(Part::Messages, "Sent again", |level| Some(level.repeated), NOTABLE, false),
    entry(Part::Messages, "Retransmitted", |level| Some(level.retransmitted), NOTABLE, false),
    entry(Part::Deliveries, "Expected", |level| Some(level.expected_deliveries), PLAIN, true),
    entry(Part::Deliveries, "Delivered", |level| Some(level.delivered), PLAIN, true),
    entry(Part::Deliveries, "Late", |level| Some(level.late), NOTABLE, true),
    entry(Part::Deliveries, "Superseded", |level| Some(level.superseded), PLAIN, false),
    entry(Part::Deliveries, "Lost", |level| Some(level.lost), VIOLATION, true),
    entry(Part::Deliveries, "Lost although acknowledged", |level| level.lost_acknowledged, VIOLATION, false),
    entry(Part::Deliveries, "Duplicated", |level| Some(level.duplicated), duplicates, true),
    entry(Part::Deliveries, "Reordered", |level| Some(level.reordered), VIOLATION, true),
    entry(Part::Deliveries, "Foreign", |level| Some(level.foreign), NOTABLE, true),
    entry(Part::Messages, "Unknown acknowledgements", |level| Some(level.unknown_acks), NOTABLE, false),
    entry(Part::Deliveries, "Wills", |level| Some(level.wills), NOTABLE, false),
    entry(Part::Messages, "Disconnected", |level| Some(level.disconnected), NOTABLE, false),
    entry(Part::Messages, "Reconnects", |level| Some(level.reconnects), NOTABLE, true),
];

fn duplicates(level: &LevelSummary) -> Tone {
    if level.duplicates_legal.is_some() { Tone::Plain } else { Tone::Violation }
}

/// The tables, and what they leave open.
pub fn body(summary: &Summary) -> Markup {
    let levels = &summary.levels;
    let duplicated = levels.iter().find(|level| level.duplicated > 0);
    html! {
        p {
            "Every message by the level in which it was due: due = sent + unsent. Each expected delivery is \
             delivered, late (after the drain), or lost."
        }
        h3 { "Messages" }
        (of_part(levels, Part::Messages))
        h3.apart { "Deliveries" }
        (of_part(levels, Part::Deliveries))
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
                    None => { "The duplicates are violations: neither how subscribers receive nor their filters allow them." }
                }
            }
        }
    }
}

/// The counts of one part, those left out that are zero throughout and need not be there.
fn of_part(levels: &[LevelSummary], part: Part) -> Markup {
    let is_shown = |entry: &&Entry| {
        let counted = |level: &LevelSummary| (entry.count)(level).is_some_and(|count| count > 0);
        entry.part == part && (entry.always || levels.iter().any(counted))
    };
    let entries: Vec<&Entry> = ENTRIES.iter().filter(is_shown).collect();
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
    table(&columns, &rows)
}
