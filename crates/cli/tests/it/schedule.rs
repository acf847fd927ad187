//! Runs that are repeated.

use crate::harness::{Bench, STORE};
use rustix::process::Signal;

const SCENARIO: &str = "name: day\nplatform: embedded\npopulation: { devices: 2, subscribers: 1 }\n\
    load: { levels: [50/s], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }\n\
    objectives: { delivered: \">= 50 %\", publish_p99: null }\n";

#[test]
fn a_schedule_repeats_the_run_and_tells_all_by_the_time_of_day() {
    let bench = Bench::beside_others();
    let scenario = format!("{SCENARIO}schedule: {{ every: 2s, times: 3 }}\n");
    let finished = bench.run(&scenario).says("by time of day");
    let rows = finished.stdout.split("by time of day").nth(1).unwrap().matches("50/s").count();
    assert_eq!(rows, 3, "{}", finished.stdout);
    let listed = bench.call(["runs", "--store", STORE]).exits(0);
    assert_eq!(listed.stdout.matches("  day\n").count(), 3, "{}", listed.stdout);
    bench.call(["show", "last", "--store", STORE]).exits(0).says("by time of day");
    bench.call(["report", "last", "--store", STORE, "--output", "day.html"]).exits(0);
    let page = std::fs::read_to_string(bench.path("day.html")).unwrap();
    assert!(page.contains("id=\"time-of-day\"") && page.contains("chart-time-of-day"));
}

#[test]
fn the_user_may_end_a_schedule_and_keeps_its_runs() {
    let bench = Bench::beside_others();
    let scenario = format!("{SCENARIO}schedule: {{ every: 1h, times: 3 }}\n");
    let started = bench.start(&mut bench.run_command(&scenario));
    let begun = std::time::Instant::now();
    while !started.said_so_far().contains("objectives:") {
        assert!(begun.elapsed().as_secs() < 60, "{}", started.said_so_far());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    started.signal(Signal::INT);
    started.finish().exits(105).says("the next run begins at");
    let listed = bench.call(["runs", "--store", STORE]).exits(0);
    assert_eq!(listed.stdout.matches("  day\n").count(), 1, "{}", listed.stdout);
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    let bench = Bench::beside_others();
    for (schedule, told) in [
        ("{ at: [\"25:00\"] }", "`25:00` is no time of the day"),
        ("{ at: [\"08:00\"], every: 1h }", "`at` and `every` exclude each other"),
        ("{ at: [\"08:00\"], times: 2 }", "`times` belongs to `every`"),
        ("{ days: 2 }", "nothing says when the run is repeated"),
        ("{ every: 0s }", "the next run must begin later"),
    ] {
        bench.run(&format!("{SCENARIO}schedule: {schedule}\n")).exits(104).says(told);
    }
}
