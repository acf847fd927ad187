//! The user's word in simulated time, which may stand still or pass in leaps.

use super::bench::Setup;
use plimsoll_model::Verdict;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_simulation_hears_the_user_however_its_time_passes() {
    let closed = "model: closed, in_flight: [10], hold: 10s, samples: 20, warm_up: 1s, again: 0s";
    let open = "levels: [150], hold: 10s, samples: 20, warm_up: 1s, again: 0s";
    let long = "levels: [150], hold: 300d, samples: 20, warm_up: 1s, again: 0s";
    let nothing = "  network: { round_trip: 0us, jitter: 0us }\n  generator_cost: 0us\n";
    for (service, more, load) in [
        ("0us", nothing, closed),
        ("1ms", "  generator_cost: 300d\n", closed),
        ("1ms", "  generator_cost: 300d\n", open),
        ("1ms", "", long),
    ] {
        let setup = Setup {
            stations: format!("{{ name: broker, service: {service} }}"),
            more: more.into(),
            load: load.into(),
            objectives: "delivered: null".into(),
            ..Setup::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let word = Arc::clone(&stop);
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            word.store(true, Ordering::Relaxed);
            Instant::now()
        });
        let summary = setup.run_until(1, stop);
        let ended = Instant::now();
        let heard = ended.saturating_duration_since(user.join().unwrap());
        // A shared machine may keep us from the processor for a while.
        assert!(heard < Duration::from_secs(10), "{more} {load}: {heard:?}");
        // Where time leaps, the run is over before.
        let by_itself = more.contains("300d");
        assert!(by_itself || summary.verdict == Verdict::Interrupted, "{more} {load}: {:?}", summary.verdict);
    }
}
