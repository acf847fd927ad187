//! The laws of operational analysis against chains whose service demands are planted.

use crate::bench::{Setup, between};
use plimsoll_analysis::laws::DemandCourse;

/// Twenty chains of three spinning stations, each with demands of its own: the demand that is found is within 5 % of the planted
/// one, and the bound is not below what the platform was seen to complete.
#[test]
fn demands_of_spinning_stations_are_found() {
    for seed in 0..20 {
        let demands = [between(seed, 0.2, 1.0), between(seed + 7, 0.1, 0.6), between(seed + 13, 0.05, 1.4)];
        let station =
            |(place, demand): (usize, &f64)| format!("{{ name: s{place}, service: {:.0}us }}", demand * 1e3);
        let stations: Vec<String> = demands.iter().enumerate().map(station).collect();
        let setup = Setup {
            stations: stations.join(", "),
            load: "levels: [100, 200, 300, 400, 500], hold: 10s, samples: 10, warm_up: 1s, again: 0s".into(),
            ..Setup::default()
        };
        let summary = setup.run(seed);
        let completed = summary.levels.iter().filter_map(|level| level.achieved).fold(0.0, f64::max);
        assert_eq!(summary.laws.len(), demands.len(), "seed {seed}");
        for (laws, planted) in summary.laws.iter().zip(demands) {
            let planted = (planted * 1e3).round() / 1e6;
            let demand = laws.demand.as_ref().unwrap();
            let error = demand.seconds / planted - 1.0;
            assert!(error.abs() < 0.05, "seed {seed}, {}: {demand:?}, planted {planted}", laws.component);
            let full = laws.levels.iter().filter_map(|level| level.utilisation).fold(0.0, f64::max);
            assert!(full <= 1.0 + 1e-6, "seed {seed}: {laws:?}");
            assert!(demand.course != DemandCourse::Unknown, "seed {seed}: {demand:?}");
            if let Some([_, most]) = demand.bound_interval {
                assert!(most >= completed * 0.99, "seed {seed}: {completed}/s were completed: {demand:?}");
            }
        }
    }
}
