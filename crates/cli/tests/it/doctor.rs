//! What this host allows: `doctor`, the warnings of a run, and limits that make it impossible.

use crate::harness::{Bench, Finished, count};
use std::net::TcpListener;

const SCENARIO: &str = "name: small
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100], warm_up: 0s, hold: 500ms, samples: 5, drain: 1s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\", achieved: null }
";

/// Fails unless it is plain text on 80 columns in which everything but what is good has a remedy.
#[track_caller]
fn assert_report(doctor: &Finished) {
    assert!(doctor.stdout.lines().all(|line| line.chars().count() <= 80), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains('\x1b'), "no colour");
    let bad =
        doctor.stdout.lines().filter(|line| line.starts_with("warning ") || line.starts_with("problem "));
    assert_eq!(bad.count(), doctor.stdout.matches(" fix: ").count(), "{}", doctor.stdout);
}

#[test]
fn a_host_is_looked_at_in_general_and_tried() {
    let bench = Bench::beside_others();
    let doctor = bench.call(["doctor"]).exits(0);
    for subject in ["open files", "local ports", "kernel", "processors", "memory", "wake-ups", "precedence"] {
        assert!(doctor.stdout.contains(subject), "nothing about {subject}:\n{}", doctor.stdout);
    }
    assert_report(&doctor);
    assert!(bench.files().is_empty(), "nothing was made");
}

#[test]
fn a_scenario_or_a_number_of_devices_is_judged() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let doctor = bench.call(["doctor", "scenario.yaml"]).exits(0).says("6 connections need");
    assert_report(&doctor);
    // No host has so many ports (2^16 of one address), and hardly one so many files.
    let doctor = bench.call(["doctor", "--devices", "900000", "--rate", "100"]).exits(104);
    let doctor = doctor.says("problem local ports").says("further addresses").says("source_addresses");
    assert_report(&doctor.says("Impossible on this host"));
    // The same devices towards a platform at 127.0.0.1 need no more addresses.
    let local = bench.call(["doctor", "mqtt://127.0.0.1", "--devices", "900000"]);
    assert!(!local.stdout.contains("problem  local ports"), "{}", local.stdout);
    let secured = bench.call(["doctor", "mqtts://192.0.2.1", "--devices", "100"]);
    assert_report(&secured.exits(0).says("100 connections over TLS need").says("11.0 KiB here"));
    bench.call(["doctor", "no-such-scenario.yaml"]).exits(104).says("cannot read no-such-scenario.yaml");
    bench.call(["doctor", "--devices", "some"]).exits(104).says("expected a whole number");
}

#[test]
fn a_source_address_of_another_host_makes_the_run_impossible() {
    let bench = Bench::beside_others();
    // An address for documentation (RFC 5737).
    let scenario = SCENARIO.replace("devices: 5", "source_addresses: [192.0.2.7], devices: 5");
    let run = bench.run(&scenario).exits(104);
    run.says("this host does not have 192.0.2.7").says("ip addr add 192.0.2.7/PREFIX dev INTERFACE");
    assert_eq!(bench.files(), ["scenario.yaml"], "nothing was made");
}

#[test]
fn a_run_warns_in_one_line_keeps_the_warning_and_is_silent_when_asked() {
    let bench = Bench::beside_others();
    // More clients at once than a platform's queue on this host holds; none is there, so the run ends at once.
    let limit = |path: &str| std::fs::read_to_string(path).unwrap().trim().parse::<u64>().unwrap();
    let queue = limit("/proc/sys/net/core/somaxconn").min(limit("/proc/sys/net/ipv4/tcp_max_syn_backlog"));
    let devices = (queue + 100).to_string();
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let url = format!("mqtt://{address}");
    let load = ["--devices", &devices, "--rate", "10", "--hold", "1s", "--set", "load.connect_rate=9000000"];
    let arguments: Vec<&str> = ["run", &url].into_iter().chain(load).chain(crate::harness::RESULTS).collect();
    let run = bench.call(&arguments).exits(1).says("nobody listens there");
    let line = run.stderr.lines().find(|line| line.starts_with("warning: ")).unwrap_or_default();
    assert!(
        line.replace(',', "").contains(&format!("{devices} connections may wait"))
            && line.contains("somaxconn"),
        "{}",
        run.stderr
    );
    let kept = &run.summary["provenance"]["host"]["warning: accept queue"];
    assert!(kept.as_str().is_some_and(|told| told.replace(',', "").contains(&devices)), "{kept}");
    let quiet = bench.call(arguments.iter().filter(|one| **one != "-v").chain(&["--quiet"])).exits(1);
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_raised_and_the_hard_one_refuses() {
        let bench = Bench::new();
        let scenario = SCENARIO.replace("devices: 5", "devices: 100");
        let run = bench.run_command(&scenario);
        // 101 connections and what the program itself needs.
        let mut soft = bench.behind_shell("ulimit -Sn 50 && exec \"$@\"", &run);
        let finished = bench.start(&mut soft).finish().exits(0);
        assert_eq!(count(finished.level(0), "lost"), 0);
        let doctor = bench.plimsoll(["doctor", "scenario.yaml"]);
        let mut hard = bench.behind_shell("ulimit -n 150 && exec \"$@\"", &doctor);
        let told = bench.start(&mut hard).finish().exits(104).says("problem open files");
        assert_report(&told.says("101 connections need 165 open files, but this process may have 150"));
        let mut hard = bench.behind_shell("ulimit -n 150 && exec \"$@\"", &run);
        bench.start(&mut hard).finish().exits(104).says("101 connections need 165").says("`ulimit -n 165`");
    }
}
