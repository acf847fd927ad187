//! Run stores that earlier versions have written are read as before. `tests/stores/v0.1.db` holds two runs of version 0.1.0, of a
//! scenario whose keys have other names today.

use crate::harness::Bench;

fn bench() -> Bench {
    let bench = Bench::beside_others();
    let store = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stores/v0.1.db");
    std::fs::copy(store, bench.path("earlier.db")).unwrap();
    bench
}

#[test]
fn runs_of_version_0_1_are_listed_shown_exported_and_reported() {
    let bench = bench();
    let call = |arguments: &[&str]| bench.call(arguments.iter().chain(&["--store", "earlier.db"])).exits(0);
    call(&["runs"]).says("buffered").says("dropped").says(">= 40 msg/s");
    let shown = call(&["show", "buffered", "-v"]).says("MET").says("at least 40/s");
    assert!(shown.stdout.contains("217 µs"), "the median that was printed then: {}", shown.stdout);
    let csv = call(&["export", "dropped", "--format", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 3, "a header and two levels: {csv}");
    call(&["report", "dropped", "--output", "page.html"]);
    assert!(std::fs::read_to_string(bench.path("page.html")).unwrap().contains("dropped"));
}

#[test]
fn a_run_of_version_0_1_is_compared_by_the_present_names_of_its_settings() {
    let compared = bench().call(["compare", "buffered", "dropped", "--store", "earlier.db"]).exits(0);
    compared.says("A offline buffer").says("B offline drop");
}

/// The embedded broker was rumqttd then.
#[test]
fn a_run_with_another_embedded_broker_is_told_from_one_of_today() {
    let bench = bench();
    let scenario = "name: today\nplatform: embedded\npopulation: { devices: 2, subscribers: { count: 1, qos: 1 } }\n\
        mqtt: { version: 3.1.1, qos: 1, offline: buffer, topic: \"before/{run}/{device}\" }\nmessage: { size: 64 B }\n\
        load: { levels: [20/s, 40/s], again: 0s, warm_up: 100ms, hold: 1s, samples: 2, drain: 200ms }\n\
        objectives: { delivered: '>= 99 %', publish_p50: '< 1 s' }\n";
    std::fs::write(bench.path("today.yaml"), scenario).unwrap();
    bench.call(["run", "today.yaml", "--store", "earlier.db", "--no-report"]);
    let compared = bench.call(["compare", "buffered", "today", "--store", "earlier.db"]).exits(0);
    compared.says("broker version plimsoll 0.1.0").says("broker version plimsoll broker ");
}
