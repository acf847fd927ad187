//! `plimsoll bundle`: one file with which others repeat a run, and in which no secret stands.

use crate::harness::{Bench, count};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

const SCENARIO: &str = "name: a paper
seed: 7
platform: embedded
population: { devices: 3, subscribers: 1 }
message: { template: '{\"v\":\"{feed:v}\",\"m\":\"{marker}\"}', feed: { file: rows.csv } }
load: { levels: [60], hold: 1s, samples: 4, warm_up: 0s, drain: 1s }
objectives: { publish_p99: null }
";

/// The files of a bundle by their paths.
fn unpacked(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name, text);
    }
    files
}

#[test]
fn a_bundle_repeats_its_run() {
    let bench = Bench::beside_others();
    bench.write("rows.csv", "v\nfirst\nsecond\n");
    let run = bench.run(SCENARIO).judged();
    bench
        .call(["bundle", "last", "--store", "runs.db", "--out", "one.tar.gz"])
        .exits(0)
        .says("bundle: one.tar.gz");
    bench.call(["bundle", "last", "--store", "runs.db", "--out", "two.tar.gz"]).exits(0);
    let bytes = std::fs::read(bench.path("one.tar.gz")).unwrap();
    assert_eq!(bytes, std::fs::read(bench.path("two.tar.gz")).unwrap(), "the same run gives the same bytes");
    let rights = std::fs::metadata(bench.path("one.tar.gz")).unwrap().permissions().mode();
    assert_eq!(rights & 0o777, 0o600);
    let files = unpacked(&bytes);
    let folder = files.keys().next().unwrap().split('/').next().unwrap().to_owned();
    assert!(folder.starts_with("a-paper-"), "{folder}");
    let text =
        |name: &str| files.get(&format!("{folder}/{name}")).unwrap_or_else(|| panic!("no {name}: {files:?}"));
    assert!(text("feeds/rows.csv").contains("second") && text("scenario.yaml").contains("./feeds/rows.csv"));
    assert!(text("README.md").contains("plimsoll run scenario.yaml"), "{}", text("README.md"));
    assert!(text("report.html").starts_with("<!DOCTYPE html>"));
    assert!(text("profile.yaml").contains("name: embedded"));
    let summary: serde_json::Value = serde_json::from_str(text("summary.json")).unwrap();
    assert_eq!(summary["run"], run.summary["run"]);
    let methods = text("methods.md");
    for said in ["3 simulated devices", "60/s", "4 equal samples", "seed 7", "QoS 1"] {
        assert!(methods.replace('\n', " ").contains(said), "{said} in {methods}");
    }
    // Elsewhere, from nothing but the bundle.
    let other = Bench::beside_others();
    for (name, text) in &files {
        let path = other.path(name.split_once('/').unwrap().1);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let again =
        other.call(["run", "scenario.yaml", "--no-report", "--summary-json", "summary.json"]).judged();
    let again_summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(other.path("summary.json")).unwrap()).unwrap();
    assert_eq!(count(&again_summary["levels"][0], "due"), count(run.level(0), "due"), "{}", again.stdout);
}

#[test]
fn no_secret_stands_in_a_bundle_and_what_is_missing_is_named() {
    let bench = Bench::beside_others();
    bench.write("rows.csv", "v\npassword\n");
    let scenario = format!("{SCENARIO}mqtt: {{ username: me, password: {{ env: BUNDLE_PASSWORD }} }}\n");
    let mut command = bench.run_command(&scenario);
    command.env("BUNDLE_PASSWORD", "open-sesame-42");
    bench.start(&mut command).finish().judged();
    bench
        .call(["bundle", "--store", "runs.db", "--out", "secret.tar.gz"])
        .exits(0)
        .says("rows.csv has the word `password`");
    for (name, text) in unpacked(&std::fs::read(bench.path("secret.tar.gz")).unwrap()) {
        assert!(!text.contains("open-sesame-42"), "{name}");
    }
    std::fs::remove_file(bench.path("rows.csv")).unwrap();
    bench
        .call(["bundle", "--store", "runs.db", "--out", "missing.tar.gz"])
        .exits(0)
        .says("the scenario names `rows.csv`, which was not found");
    bench.call(["bundle", "nobody", "--store", "runs.db"]).exits(104);
    bench.call(["bundle", "--store", "none.db"]).exits(104);
}
