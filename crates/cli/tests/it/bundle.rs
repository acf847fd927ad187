//! `plimsoll bundle`: one file with which others repeat a run, and in which no secret stands.

use crate::harness::{Bench, Finished, RESULTS, count};
use serde_json::Value;
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
    assert!(text("rows.csv").contains("second") && text("scenario.yaml").contains("file: rows.csv"));
    assert_eq!(text("SHA256SUMS").lines().count(), files.len() - 1);
    assert!(text("README.md").contains("plimsoll run scenario.yaml"), "{}", text("README.md"));
    assert!(text("report.html").starts_with("<!DOCTYPE html>"));
    assert!(text("profile.yaml").contains("name: embedded"));
    let summary: Value = serde_json::from_str(text("summary.json")).unwrap();
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
    let again_summary: Value =
        serde_json::from_str(&std::fs::read_to_string(other.path("summary.json")).unwrap()).unwrap();
    assert_eq!(count(&again_summary["levels"][0], "due"), count(run.level(0), "due"), "{}", again.stdout);
}

/// A run of a file of that bench, whose result goes where the harness looks for it.
fn run_file(bench: &Bench, file: &str) -> Finished {
    let command = [&["run", file][..], &RESULTS].concat();
    bench.start(&mut bench.plimsoll(command)).finish().judged()
}

/// A bundle is run as it is. What it repeats is said, and both runs are repeats of one candidate.
#[test]
fn a_bundle_is_run_without_its_files() {
    let bench = Bench::beside_others();
    std::fs::create_dir(bench.path("data")).unwrap();
    bench.write("data/rows.csv", "v\nfirst\nsecond\n");
    bench.write("trace.csv", "time,device\n0,a\n0.1,b\n0.15,c\n0.7,b\n");
    let prices = bench.write("prices.csv", "type,price\nsmall,3\n");
    let scenario = SCENARIO
        .replace("rows.csv", "./data/rows.csv")
        .replace("levels: [60]", "levels: [40], arrivals: { trace: { file: trace.csv } }");
    let prices = prices.display();
    let scenario =
        format!("{scenario}prices: {{ currency: EUR, file: {prices}, others: {{ rack: small }} }}\n");
    let first = bench.run(&scenario).judged();
    bench.call(["bundle", "last", "--store", "runs.db", "--out", "one.tar.gz"]).exits(0);
    let files = unpacked(&std::fs::read(bench.path("one.tar.gz")).unwrap());
    for name in ["data/rows.csv", "trace.csv", "files/1/prices.csv"] {
        assert!(files.keys().any(|file| file.ends_with(name)), "no {name} in {:?}", files.keys());
    }
    for file in ["data/rows.csv", "trace.csv", "prices.csv", "scenario.yaml"] {
        std::fs::remove_file(bench.path(file)).unwrap();
    }
    let before = bench.files();
    let id = first.summary["run"].as_str().unwrap();
    bench.call(["check", "one.tar.gz"]).exits(0).says(&format!("repeats run {id} of ")).says("40 per second");
    let again = run_file(&bench, "one.tar.gz").says(&format!("repeats run {id} of "));
    assert_eq!(count(again.level(0), "due"), count(first.level(0), "due"));
    assert_eq!(bench.files(), before, "nothing is left of a bundle");
    assert!(again.summary["notes"][0].as_str().unwrap().contains(id), "{}", again.summary["notes"]);
    // A bundle of what a bundle has made has the same files.
    bench.call(["bundle", "last", "--store", "runs.db", "--out", "two.tar.gz"]).exits(0);
    let second = unpacked(&std::fs::read(bench.path("two.tar.gz")).unwrap());
    assert_eq!(second.len(), files.len(), "{:?}", second.keys());
    run_file(&bench, "two.tar.gz");
    let own = bench.call(["report", "--store", "runs.db", "--output", "report.html"]);
    own.exits(0);
    assert!(std::fs::read_to_string(bench.path("report.html")).unwrap().contains("epeats run"));
}

/// Without files outside its folder, a scenario in a bundle is the same, so that runs of both are repeats.
#[test]
fn runs_of_a_bundle_are_compared_with_the_first() {
    let bench = Bench::beside_others();
    bench.write("rows.csv", "v\nfirst\nsecond\n");
    let first = bench.run(SCENARIO).judged();
    bench.call(["bundle", "last", "--store", "runs.db", "--out", "one.tar.gz"]).exits(0);
    let again = run_file(&bench, "one.tar.gz");
    let ids = [&first, &again].map(|run| run.summary["run"].as_str().unwrap().to_owned());
    bench.call(["compare", &ids[0], &ids[1], "--store", "runs.db", "--json", "compared.json"]).exits(0);
    let compared: Value =
        serde_json::from_str(&std::fs::read_to_string(bench.path("compared.json")).unwrap()).unwrap();
    let candidates = compared["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 1, "{compared:#}");
    assert_eq!(candidates[0]["runs"], serde_json::json!(ids));
}

#[test]
fn hostile_bundles_are_refused() {
    let bench = Bench::beside_others();
    bench.write("rows.csv", "v\nfirst\nsecond\n");
    bench.run(SCENARIO).judged();
    bench.call(["bundle", "last", "--store", "runs.db", "--out", "good.tar.gz"]).exits(0);
    let good = std::fs::read(bench.path("good.tar.gz")).unwrap();
    std::fs::write(bench.path("cut.tar.gz"), &good[..good.len() / 2]).unwrap();
    bench.call(["run", "cut.tar.gz"]).exits(104).says("a part of it is missing");
    // Packed again with another scenario, and with a file that leads out of the folder.
    let repacked = |name: &str, change: &dyn Fn(&str, &str) -> (String, String)| {
        let packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(packing);
        for (name, text) in unpacked(&good) {
            let (name, text) = change(&name, &text);
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(text.len() as u64);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            archive.append(&header, text.as_bytes()).unwrap();
        }
        std::fs::write(bench.path(name), archive.into_inner().unwrap().finish().unwrap()).unwrap();
    };
    repacked("changed.tar.gz", &|name, text| (name.to_owned(), text.replace("devices: 3", "devices: 4")));
    bench.call(["check", "changed.tar.gz"]).exits(104).says("is not the one of which `SHA256SUMS`");
    repacked("outside.tar.gz", &|name, text| {
        let name = if name.ends_with("rows.csv") { "../rows.csv" } else { name };
        (name.to_owned(), text.to_owned())
    });
    bench.call(["run", "outside.tar.gz"]).exits(104).says("does not lie in the folder of the bundle");
    assert!(!bench.path("../rows.csv").exists());
    repacked("good.tar.gz", &|name, text| (name.to_owned(), text.to_owned()));
    bench.call(["check", "good.tar.gz"]).exits(0);
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
