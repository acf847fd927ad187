//! Publish minus subscribe time, total time, goodput and sizes.

use crate::html::level;
use crate::html::parts;
use crate::html::table::{Column, Tone, count_cell, level_cell, number_cell, share_cell, table, time_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;

/// The two tables.
pub fn body(summary: &Summary) -> Markup {
    html! {
        h3 { "Publish time minus subscribe time" }
        @if summary.levels.iter().any(|level| level.publish_minus_subscribe.n > 0) {
            p.lead {
                "Of each message's first delivery. Below zero, the acknowledgement came before the delivery."
            }
            (differences(summary))
        } @else {
            p.empty { "No message was both acknowledged and delivered, so there is no difference." }
        }
        (parts::body(summary))
        h3.apart { "Throughput and sizes" }
        (throughput(summary))
        p.note {
            "Goodput is the content of one message divided by the time of one message: marshalled size / mean publish time from \
             send. It says how fast the platform serves a message by itself, not how much content all messages carry in a second: \
             that is content delivered."
        }
        p.note {
            "Marshalled size is the content of a message, publication size its whole protocol packet. A backlog that grows \
             shows a platform that does not keep up."
        }
        @if summary.connect_time.n > 0 {
            p.note {
                "Connecting during set-up took " (text::time(summary.connect_time.p50)) " at the median and at \
                 most " (text::time(summary.connect_time.max)) ", over "
                (text::count(summary.connect_time.n as f64)) " clients."
            }
        }
    }
}

fn differences(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("n"),
        Column::Number("p25"),
        Column::Number("p50"),
        Column::Number("p75"),
        Column::Number("Mean"),
        Column::Number("Below zero"),
    ];
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .map(|level| {
            let difference = &level.publish_minus_subscribe;
            html! {
                tr {
                    (level_cell(level))
                    (count_cell(difference.n, Tone::Plain))
                    @for time in [difference.p25, difference.p50, difference.p75, difference.mean] {
                        (time_cell(time))
                    }
                    (share_cell(difference.negative))
                }
            }
        })
        .collect();
    table(&columns, &rows)
}

fn throughput(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("Total time"),
        Column::Number("Backlog growth"),
        Column::Number("Goodput"),
        Column::Number("Content delivered"),
        Column::Number("Marshalled size"),
        Column::Number("Publication size"),
        Column::Number("Bytes sent"),
        Column::Number("Bytes received"),
    ];
    let per_second = |rate: f64| format!("{}/s", text::bytes(rate));
    let size = |bytes: f64| format!("{bytes:.0} B");
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .map(|level| {
            html! {
                tr {
                    (level_cell(level))
                    (time_cell(level.total_time))
                    (number_cell(level.backlog_slope.map(backlog)))
                    (number_cell(level.goodput.map(per_second)))
                    (number_cell(level.delivered_bytes_per_second.map(per_second)))
                    (number_cell(level.marshalled_size.map(size)))
                    (number_cell(level.publication_size.map(size)))
                    (number_cell(Some(text::bytes(level.bytes_sent as f64))))
                    (number_cell(Some(text::bytes(level.bytes_received as f64))))
                }
            }
        })
        .collect();
    table(&columns, &rows)
}

/// Growth of the backlog in messages per second; what rounds to nothing is nothing.
fn backlog(slope: f64) -> String {
    if slope.abs() < 0.05 { "0/s".into() } else { level::per_second(slope) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_stands_still_has_no_sign() {
        assert_eq!([backlog(-0.01), backlog(1234.6), backlog(-3.26)], ["0/s", "1,235/s", "-3.3/s"]);
    }
}
