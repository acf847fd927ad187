//! What a platform costs, and what its host's processors take in energy, in words.

use crate::sweep::money;
use crate::text::rate;
use plimsoll_analysis::cost::{CostSummary, PricedPart};
use plimsoll_analysis::energy::EnergySummary;

/// What a platform costs, with its parts, what it sustains for that, and what has no price.
pub fn in_words(cost: &CostSummary) -> String {
    let CostSummary { currency, per, total, priced, unpriced, load_line_per_cost } = cost;
    let part = |part: &PricedPart| {
        let count = if part.count == 1 { String::new() } else { format!("{} x ", part.count) };
        let on = part.on.as_ref().map(|on| format!(" on {on}")).unwrap_or_default();
        format!("{} {count}{}{on}", part.name, money(part.price))
    };
    let parts: Vec<String> = priced.iter().map(part).collect();
    let mut said = format!("cost: {} {currency} a {per}", money(*total));
    if !parts.is_empty() {
        said += &format!(" ({})", parts.join(", "));
    }
    if let Some(per_cost) = load_line_per_cost {
        said += &format!("; {} of the load line for each {currency}", rate(*per_cost));
    }
    if !unpriced.is_empty() {
        said += &format!("; without a price: {}", unpriced.join(", "));
    }
    said
}

/// What the host's processors take at the load line, by operation.
pub fn energy_in_words(energy: &EnergySummary) -> String {
    let [watts, idle] =
        [Some(energy.watts), energy.idle_watts].map(|watts| watts.map(|own| format!("{own:.1} W")));
    let mut said =
        format!("energy: this host's processors take {} at the load line", watts.unwrap_or_default());
    if let Some([lo, hi]) = energy.watts_ci95 {
        said += &format!(" ({lo:.1} to {hi:.1})");
    }
    if let Some(idle) = idle {
        said += &format!(", {idle} without load");
    }
    if let Some(joules) = energy.joules_per_operation {
        said += &format!("; {} an operation", of_joules(joules));
    }
    if let Some(joules) = energy.joules_per_operation_above_idle {
        said += &format!(", {} of them by the load", of_joules(joules));
    }
    said + ". The generator on this host is in it"
}

fn of_joules(joules: f64) -> String {
    match joules.abs() {
        small if small < 1e-3 => format!("{:.1} µJ", joules * 1e6),
        small if small < 1.0 => format!("{:.1} mJ", joules * 1e3),
        _ => format!("{joules:.2} J"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_said_with_what_is_known() {
        let mut energy = EnergySummary {
            level: 1,
            watts: 45.0,
            watts_ci95: Some([44.25, 46.0]),
            idle_watts: Some(20.0),
            joules_per_operation: Some(0.045),
            joules_per_operation_above_idle: Some(2.5e-4),
        };
        assert_eq!(
            energy_in_words(&energy),
            "energy: this host's processors take 45.0 W at the load line (44.2 to 46.0), 20.0 W without load; \
             45.0 mJ an operation, 250.0 µJ of them by the load. The generator on this host is in it"
        );
        energy = EnergySummary {
            watts_ci95: None,
            idle_watts: None,
            joules_per_operation: Some(1.5),
            joules_per_operation_above_idle: None,
            ..energy
        };
        assert_eq!(
            energy_in_words(&energy),
            "energy: this host's processors take 45.0 W at the load line; 1.50 J an operation. \
             The generator on this host is in it"
        );
    }
}
