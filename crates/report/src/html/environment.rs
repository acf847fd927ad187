//! Where the run comes from: enough to repeat it and to distrust it.

use crate::html::verdict::started;
use maud::{Markup, html};
use plimsoll_model::record::RunRecord;
use std::collections::BTreeMap;

/// The facts, by what they are about.
pub fn body(record: &RunRecord) -> Markup {
    let provenance = &record.provenance;
    let run = BTreeMap::from([
        ("plimsoll".to_owned(), provenance.plimsoll.clone()),
        ("seed".to_owned(), provenance.seed.to_string()),
        ("started".to_owned(), started(&provenance.started)),
        ("run".to_owned(), record.id.clone()),
    ]);
    html! {
        div.cards {
            (card("Measurement", &run))
            (card("Platform", &provenance.platform))
            (card("Placement", &provenance.placement))
            (card("Host", &provenance.host))
        }
        h3.apart { "Command" }
        pre.command tabindex="0" { (provenance.command.join(" ")) }
    }
}

fn card(title: &str, facts: &BTreeMap<String, String>) -> Markup {
    html! {
        div.card {
            h3 { (title) }
            @if facts.is_empty() {
                p.empty { "Nothing was recorded." }
            } @else {
                dl {
                    @for (name, value) in facts {
                        dt { (name) }
                        dd { (value) }
                    }
                }
            }
        }
    }
}
