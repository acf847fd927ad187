//! What was learned, on 80 columns.

use super::scenario::{law_text, number};
use crate::text::{bytes, count, time, wrapped};
use plimsoll_analysis::learning::Learned;

/// Populations with their arrivals, subscribers, and what to know of them.
pub fn terminal(learned: &Learned) -> String {
    let mut out = String::new();
    let mut lines = |text: &str, indent: &str| {
        for line in wrapped(text, indent) {
            out += &format!("{line}\n");
        }
    };
    let [messages, populations] = [learned.messages as f64, learned.populations.len() as f64].map(count);
    let duration = time(Some(learned.duration));
    let plural = if learned.populations.len() == 1 { "" } else { "s" };
    lines(&format!("{messages} messages in {duration}; {populations} population{plural}"), "");
    for population in &learned.populations {
        lines("", "");
        lines(
            &format!(
                "{}: {}, {}/s ({:.1} %), {} on average, to {}",
                population.name,
                devices(population.devices),
                number(population.rate),
                100.0 * population.share,
                bytes(population.sizes.mean),
                population.target
            ),
            "",
        );
        lines(&format!("  {}", law_text(&population.arrivals)), "  ");
        for note in &population.notes {
            lines(&format!("  {note}"), "  ");
        }
    }
    if let Some(subscribers) = &learned.subscribers {
        lines("", "");
        let plural = if subscribers.count == 1 { "" } else { "s" };
        let filters = match subscribers.filters.as_slice() {
            [] => "of filters that the capture does not show".to_owned(),
            filters => filters.join(", "),
        };
        lines(&format!("{} subscriber{plural}: {filters}", subscribers.count), "  ");
    }
    lines("", "");
    for note in &learned.notes {
        lines(note, "  ");
    }
    out
}

fn devices(number: u32) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} device{plural}", count(f64::from(number)))
}
