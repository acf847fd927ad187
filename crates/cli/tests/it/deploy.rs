//! Manifests of Kubernetes: a cluster would take them, and what their pods start works here, over a real NATS server.

use crate::harness::{Bench, Ended, count};
use crate::truth::listening_address;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// The platform is elsewhere, a variable is named, and a file.
const SCENARIO: &str = "name: city
platform: { profile: existing, address: \"mqtt://broker.city.svc:1883\" }
seed: 3
population: { devices: 40, subscribers: 2 }
mqtt: { qos: 1 }
load: { curve: { file: day.csv }, hold: 2s, samples: 4, warm_up: 200ms, drain: 3s, again: 0s }
objectives: { publish_p99: null, achieved: null, subscribe_p99: null, delivered: \">= 100 %\" }
";
const DAY: &str = "time,rate\n0,50\n1,100\n2,50\n";

/// What is printed for a scenario in the folder of the bench.
fn deployed(bench: &Bench, more: &[&str]) -> String {
    bench.write("city.yaml", SCENARIO);
    bench.write("day.csv", DAY);
    bench
        .call([&["deploy", "kubernetes", "--workers", "2", "--scenario", "city.yaml"], more].concat())
        .exits(0)
        .stdout
}

#[test]
fn clusters_of_several_versions_would_take_the_manifests() {
    let bench = Bench::beside_others();
    let path = bench.write("plimsoll.yaml", &deployed(&bench, &[]));
    for version in ["1.27.0", "1.30.0", "1.33.0", "1.37.0"] {
        let mut validate = Command::new("kubernetes-validate");
        validate.args(["--strict", "--kubernetes-version", version]).arg(&path);
        let validated = validate.output().expect("kubernetes-validate is installed by scripts/peers");
        assert!(validated.status.success(), "{version}: {validated:?}");
        let said = String::from_utf8_lossy(&validated.stdout);
        assert_eq!(said.matches("passed for resource").count(), 11, "{version}: {said}");
    }
}

/// The document of that kind and name.
#[track_caller]
fn document<'a>(manifests: &'a str, kind: &str, name: &str) -> &'a str {
    let is_it = |text: &&str| {
        let has = |line: &str| text.lines().any(|own| own == line);
        has(&format!("kind: {kind}")) && has(&format!("  name: {name}"))
    };
    manifests.split("---\n").find(is_it).unwrap_or_else(|| panic!("no {kind} {name}: {manifests}"))
}

/// The arguments of the container in that document.
fn arguments(document: &str) -> Vec<String> {
    let lines = document.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let items = lines.map_while(|line| line.trim().strip_prefix("- "));
    let text = |item: &str| serde_json::from_str(item).unwrap_or_else(|_| item.to_owned());
    items.map(text).collect()
}

/// The text that stands below that key.
fn literal(document: &str, key: &str) -> String {
    let lines = document.lines().skip_while(|line| line.trim() != format!("{key}: |")).skip(1);
    let own = lines.map_while(|line| line.strip_prefix("    "));
    own.map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_the_pods_start_works() {
    let bench = Bench::beside_others();
    let manifests = deployed(&bench, &["--processors", "1"]);
    let scenario = document(&manifests, "ConfigMap", "plimsoll-scenario");
    assert_eq!(literal(scenario, "scenario.yaml"), SCENARIO);
    assert_eq!(literal(scenario, "file-1"), DAY);

    // The server, with the token that only the secret has. A variable's value must not be read as a number.
    let token = "t123e4";
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let configuration = literal(document(&manifests, "ConfigMap", "plimsoll-nats"), "nats.conf");
    let configuration = configuration.replace("port: 4222", &format!("host: 127.0.0.1\nport: {port}"));
    let mut nats = Command::new("nats-server");
    nats.arg("--config").arg(bench.write("nats.conf", &configuration)).env("PLIMSOLL_NATS_TOKEN", token);
    let _nats = Ended::start(&mut nats);
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10), "nats-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }

    // What stands in the pods' arguments, with what a pod finds elsewhere.
    let token = bench.write("token", token);
    let here = |argument: String| {
        argument
            .replace("plimsoll-nats:4222", &format!("127.0.0.1:{port}"))
            .replace("/secrets/token", &token.to_string_lossy())
            .replace("/scenario/scenario.yaml", "city.yaml")
            .replace("/results/", "")
            .replace("--idle=15m", "--idle=3s")
    };
    let of = |name: &str| -> Vec<String> {
        arguments(document(&manifests, "Job", name)).into_iter().map(here).collect()
    };
    let workers: Vec<_> = (0..2).map(|_| bench.start(&mut bench.plimsoll(of("plimsoll-worker")))).collect();
    let broker = bench.start(&mut bench.plimsoll(["target", "broker", "--port", "0"]));
    let separate = |argument: String| {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        [name, value].map(str::to_owned).into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>()
    };
    let mut coordinator: Vec<String> = of("plimsoll-coordinator").into_iter().flat_map(separate).collect();
    coordinator.push(format!("--set=platform.address={}", listening_address(&broker)));
    let run = bench.start(&mut bench.plimsoll(&coordinator)).finish().judged();
    assert!(count(run.level(0), "sent") > 100, "{:#}", run.level(0));
    assert_eq!(count(run.level(0), "lost"), 0);
    assert!(bench.path("report.html").exists() && bench.path("runs.db").exists());
    let facts: &Value = &run.summary["provenance"];
    assert!(facts.to_string().contains("load threads run at 2 workers"), "{facts:#}");
    // No other run comes.
    for worker in workers {
        let ended = worker.finish().exits(0);
        assert!(ended.stderr.contains("no run came for 3.00 s"), "{}", ended.stderr);
    }
}

#[test]
fn what_no_cluster_could_run_is_refused() {
    let bench = Bench::beside_others();
    std::fs::create_dir(bench.path("sub")).unwrap();
    bench.write("day.csv", DAY);
    bench.write("sub/day.csv", DAY);
    let refused = |change: (&str, &str), more: &[&str], said: &str| {
        bench.write("sub/city.yaml", &SCENARIO.replace(change.0, change.1));
        let deploy = ["deploy", "kubernetes", "--workers", "2", "--scenario", "sub/city.yaml"];
        let printed = bench.call([&deploy, more].concat()).exits(104);
        assert!(printed.stdout.is_empty(), "{}", printed.stdout);
        assert!(printed.said().contains(said), "{said}: {}", printed.stderr);
    };
    refused(
        ("{ profile: existing, address: \"mqtt://broker.city.svc:1883\" }", "embedded"),
        &[],
        "workers in other pods do not reach a platform",
    );
    refused(("broker.city.svc", "127.0.0.1"), &[], "workers in other pods do not reach a platform");
    for own in ["LOCALHOST", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]", "load.localhost."] {
        refused(("broker.city.svc", own), &[], "workers in other pods do not reach a platform");
    }
    refused(("devices: 40", "devices: 200000"), &[], "use --workers 4 or more");
    refused(("devices: 40", "devices: 60000"), &["--memory", "64"], "the connections of a worker alone take");
    refused(("devices: 40", "devices: 40, at: north"), &[], "stand at no site");
    refused(("name: ", "record: { capture: {} }\nname: "), &[], "may not capture packets");
    refused(("name: ", "connection: { source_addresses: [10.9.9.9] }\nname: "), &[], "a pod has one address");
    refused(("", ""), &["--namespace", "kube-system"], "cannot be a namespace");
    refused(("day.csv", "../day.csv"), &[], "put the file into the folder of the scenario");
    refused(("name: city", "nam: city"), &[], "nam");
    refused(("", ""), &["--namespace", "Load"], "cannot be a namespace");
    refused(("", ""), &["--image", "a b"], "cannot be an image");
}
