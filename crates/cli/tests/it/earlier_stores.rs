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
