//! The exact times of a capture as a CSV file: a line for each message.

use plimsoll_analysis::learning::{Learned, TraceRow};
use plimsoll_model::Nanos;
use std::fmt::Write;

/// The file, where any population has a trace. It names populations where the scenario has several, and devices by numbers.
pub fn trace(learned: &Learned) -> Option<String> {
    if learned.rows.is_empty() {
        return None;
    }
    let several = learned.populations.len() > 1;
    let mut out =
        String::from("# Learned by plimsoll: when each message came, in seconds, and from which device.\n");
    out += if several { "time,device,population\n" } else { "time,device\n" };
    for TraceRow { at, population, device } in &learned.rows {
        let _ = write!(out, "{},{device}", seconds(*at));
        if let Some(population) = learned.populations.get(*population).filter(|_| several) {
            let _ = write!(out, ",{}", population.name);
        }
        out.push('\n');
    }
    Some(out)
}

/// Seconds to the nanosecond, without zeros at the end.
fn seconds(at: Nanos) -> String {
    let (whole, part) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:09}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_short() {
        for (at, told) in
            [(0, "0"), (1_500_000_000, "1.5"), (12_000_000_345, "12.000000345"), (7_000_000, "0.007")]
        {
            assert_eq!(seconds(Nanos(at)), told);
        }
        assert_eq!(trace(&Learned::default()), None);
        let rows = vec![TraceRow { at: Nanos(0), population: 0, device: 3 }];
        let file = trace(&Learned { rows, ..Learned::default() }).unwrap();
        assert!(file.ends_with("time,device\n0,3\n"), "{file}");
    }
}
