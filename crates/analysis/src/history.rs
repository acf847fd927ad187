//! The load line of a scenario over its runs: where it changed for good.

use crate::load_line::LoadLine;
use plimsoll_stats::change_point::change_points;

/// How often runs of an unchanged platform are said to have changed, at most: one history in a hundred.
const CHANCE: f64 = 0.01;

/// The runs of a history at which the load line changed, by their places: each is the first of other load lines than before. `lines` are in
/// the order of time, and of one unit; runs without a load line are left out.
///
/// The run is the unit: what differs between two runs alone is no change, since runs differ.
pub fn changes(lines: &[&LoadLine]) -> Vec<usize> {
    let (places, amounts): (Vec<usize>, Vec<f64>) =
        lines.iter().enumerate().filter_map(|(place, line)| Some((place, line.amount()?))).unzip();
    change_points(&amounts, CHANCE).into_iter().filter_map(|change| places.get(change).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: Option<f64>) -> LoadLine {
        LoadLine {
            rate,
            devices: None,
            connect_rate: None,
            level: 0,
            at_least: false,
            below: None,
            at_most: None,
            limited_by: None,
            next_level: None,
        }
    }

    #[test]
    fn a_change_is_named_by_its_place_among_all_runs() {
        let mut lines: Vec<LoadLine> =
            (0..8).map(|place| line(Some(1000.0 + f64::from(place % 2)))).collect();
        lines.insert(3, line(None));
        lines.extend((0..8).map(|place| line(Some(800.0 + f64::from(place % 2)))));
        let lines: Vec<&LoadLine> = lines.iter().collect();
        assert_eq!(changes(&lines), [9]);
        assert_eq!(changes(&lines[..9]), [0; 0]);
        assert_eq!(changes(&lines[7..11]), [0; 0], "four runs show no change");
    }
}
