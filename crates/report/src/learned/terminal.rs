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
    let [messages, populations] =
        [learned.messages as f64, learned.populations.len() as f64].map(count);
    let duration = time(Some(learned.duration));
    lines(&format!("{messages} messages in {duration}; {populations} populations"), "");
    for population in &learned.populations {
        lines("", "");
        lines(
            &format!(
                "{}: {} devices, {}/s ({:.1} %), {} on average, to {}",
                population.name,
                count(f64::from(population.devices)),
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
        lines(&format!("{} subscribers: {}", subscribers.count, subscribers.filters.join(", ")), "  ");
    }
    lines("", "");
    for note in &learned.notes {
        lines(note, "  ");
    }
    out
}
