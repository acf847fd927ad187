//! What observers say against other witnesses: the kernel's account at a process's end, tshark, and planted service demands.

use crate::harness::{Bench, Finished, number};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program as users have it: without optimisation, a station itself takes a good part of what it is planted to take.
fn released() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let built =
        Command::new("cargo").args(["build", "--release", "--quiet"]).current_dir(&folder).status().unwrap();
    assert!(built.success(), "the release build failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(folder.join("target"), PathBuf::from);
    target.join("release/plimsoll")
}

/// The profile of a chain of stations that work. Each is started by `before`, and its last component is the first of the chain.
fn chain(services: &[String], before: impl Fn(usize) -> String) -> String {
    let program = released();
    let station = |place: usize| {
        let next = match place + 1 < services.len() {
            true => format!(", --next, \"127.0.0.1:{{port:s{}}}\"", place + 2),
            false => String::new(),
        };
        format!(
            "  - name: s{number}\n    command: [{before}\"{program}\", target, station, --port, \"{{port:s{number}}}\", \
             --work, spin, --service, \"{service}\"{next}]\n    ready_port: s{number}\n",
            number = place + 1,
            before = before(place),
            program = program.display(),
            service = services[place],
        )
    };
    let components: String = (0..services.len()).rev().map(station).collect();
    format!(
        "name: working\ntitle: a chain\ndescription: stations that work, one behind the other\nlimits: {{ all: one worker }}\n\
         components:\n{components}    mqtt_port: s1\n"
    )
}

fn scenario(levels: &str, hold: &str) -> String {
    format!(
        "name: working\nplatform: working.yaml\npopulation: {{ devices: 20 }}\nmqtt: {{ qos: 1 }}\n\
         load: {{ levels: {levels}, arrivals: constant, warm_up: 1s, hold: {hold}, drain: 2s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null }}\n"
    )
}

fn of<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|one| one[key] == value);
    found.unwrap_or_else(|| panic!("no {value} in {list:#}"))
}

/// The mean of a quantity of a component in a level.
fn gauge(run: &Finished, component: &str, quantity: &str, level: usize) -> f64 {
    let gauges = run.summary["gauges"].as_array().unwrap();
    let found = gauges.iter().find(|it| it["subject"] == component && it["quantity"] == quantity);
    number(&found.unwrap_or_else(|| panic!("no {quantity} of {component}"))["levels"][level], &["mean"])
}

/// All that `/usr/bin/time` counts of a process, from its start to its end, and all that the observer saw of it.
#[test]
#[ignore = "acceptance: observers"]
fn processor_time_is_that_of_the_kernels_own_account() {
    let bench = Bench::new();
    let account = |place: usize| bench.path(&format!("account-{place}"));
    // Told to end, the station ends and `time` stays to say what it used.
    let before = |place: usize| {
        let path = account(place);
        format!(
            "sh, -c, \"trap '' TERM; exec /usr/bin/time -f '%U %S' -o {} \\\"$@\\\"\", sh, ",
            path.display()
        )
    };
    let services = ["400us", "900us", "600us"].map(|mean| format!("exponential:{mean}"));
    bench.write("working.yaml", &chain(&services, before));
    let run = bench.run(&scenario("[100, 400]", "15s"));
    let components = bench.call(["export", "--store", "runs.db", "--rows", "components"]).exits(0).stdout;
    let mut lines = components.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column =
        |name: &str| columns.iter().position(|it| *it == name).unwrap_or_else(|| panic!("{columns:?}"));
    let (name, cpu) = (column("component"), column("cpu_s"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for place in 0..services.len() {
        let own = rows.iter().filter(|row| row[name] == format!("s{}", place + 1));
        let seen: f64 = own.map(|row| row[cpu].parse::<f64>().unwrap()).sum();
        let told = fs::read_to_string(account(place)).unwrap();
        let whole: f64 = told.split_whitespace().map(|seconds| seconds.parse::<f64>().unwrap()).sum();
        println!(
            "s{}: {seen:.3} s seen, {whole:.3} s by /usr/bin/time, {:+.2} %",
            place + 1,
            (seen / whole - 1.0) * 100.0
        );
        assert!((seen / whole - 1.0).abs() <= 0.02, "{seen} s of {whole} s: {}", run.said());
    }
}

/// Bytes in and out of each station of a chain on loopback, where all of them share one interface.
#[test]
#[ignore = "acceptance: observers"]
fn bytes_of_each_component_are_those_that_tshark_counts() {
    let bench = Bench::new();
    let services = ["200us", "300us", "100us"].map(|mean| format!("deterministic:{mean}"));
    let command = |place: usize| bench.path(&format!("command-{place}"));
    let before = |place: usize| {
        format!("sh, -c, \"echo \\\"$@\\\" > {}; exec \\\"$@\\\"\", sh, ", command(place).display())
    };
    bench.write("working.yaml", &chain(&services, before));
    let text = scenario("[300]", "20s") + "message: { size: 500 B }\nrecord: { capture: { keep: kept } }\n";
    let run = bench.run(&text);
    let kept = fs::read_dir(bench.path("kept")).unwrap().map(|entry| entry.unwrap().path());
    let is_capture = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains(".pcap");
    let captures: Vec<PathBuf> = kept.filter(is_capture).collect();
    let [capture] = &captures[..] else { panic!("{captures:?}") };
    let tshark = Command::new("tshark")
        .args(["-r", capture.to_str().unwrap(), "-Y", "tcp.len > 0", "-T", "fields", "-E", "separator=,"])
        .args(["-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "tcp.len"])
        .output()
        .unwrap();
    let told = String::from_utf8(tshark.stdout).unwrap();
    let packets: Vec<[f64; 4]> = told
        .lines()
        .map(|line| {
            let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
            fields.try_into().unwrap()
        })
        .collect();
    // The load is even: any stretch of the hold has the bytes a second of all of it.
    let first = packets.iter().map(|packet| packet[0]).fold(f64::INFINITY, f64::min);
    let last = packets.iter().map(|packet| packet[0]).fold(0.0, f64::max);
    let (from, to) = (last - 18.0, last - 4.0);
    assert!(from > first + 1.0, "{first} to {last}");
    let within = || packets.iter().filter(|packet| packet[0] >= from && packet[0] < to);
    let port = |place: usize| {
        let told = fs::read_to_string(command(place)).unwrap();
        told.split_once("--port ").unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let ports: Vec<f64> = (0..services.len()).map(port).collect();
    // A station talks at its own port with who calls it, and from another one with the next.
    for (place, port) in ports.iter().enumerate() {
        let next = ports.get(place + 1).copied();
        let sum = |mine: usize, other: usize| {
            let is_own =
                |packet: &&[f64; 4]| packet[mine] == *port || next.is_some_and(|next| packet[other] == next);
            within().filter(is_own).map(|packet| packet[3]).sum::<f64>() / (to - from)
        };
        for (quantity, counted) in [("sent", sum(1, 2)), ("received", sum(2, 1))] {
            let component = format!("s{}", place + 1);
            let seen = gauge(&run, &component, quantity, 0);
            println!(
                "{component} {quantity}: {seen:.0} B/s, tshark {counted:.0} B/s, {:+.2} %",
                (seen / counted - 1.0) * 100.0
            );
            assert!((seen / counted - 1.0).abs() <= 0.01, "{component} {quantity}");
        }
    }
}

/// Five chains of three stations that work: the demand that the laws find is what was planted.
#[test]
#[ignore = "acceptance: observers"]
fn demands_of_working_chains_are_those_that_were_planted() {
    let bench = Bench::new();
    // In microseconds. What a station needs beside its service, 40 to 80, is a small part of that; together they are at most
    // 9 ms, so that 120 messages a second leave both processors room.
    let planted =
        [[2500, 3500, 2000], [3500, 2000, 2500], [2000, 2500, 3000], [3000, 3000, 2000], [2200, 2700, 3100]];
    for demands in planted {
        let services = demands.map(|mean| format!("deterministic:{mean}us"));
        bench.write("working.yaml", &chain(&services, |_| String::new()));
        let run = bench.run(&scenario("[24, 48, 72, 96, 120]", "6s"));
        for (place, &mean) in demands.iter().enumerate() {
            let laws = of(&run.summary["laws"], "component", &format!("s{}", place + 1));
            let found = number(laws, &["demand", "seconds"]) * 1e6;
            println!(
                "planted {mean} us, found {found:.0} us ({:+.1} %)",
                (found / f64::from(mean) - 1.0) * 100.0
            );
            assert!((found / f64::from(mean) - 1.0).abs() <= 0.05, "{laws:#}");
            // The measured load line is below every bound.
            if let Some(bound) = laws["demand"]["bound"].as_f64() {
                let most =
                    run.levels().iter().filter_map(|level| level["achieved"].as_f64()).fold(0.0, f64::max);
                assert!(bound >= most, "{bound} and {most}: {laws:#}");
            }
        }
    }
}

/// The witnesses are there: a missing one is a failure.
#[test]
fn the_witnesses_are_installed() {
    for program in ["/usr/bin/time", "/usr/bin/tshark"] {
        assert!(Path::new(program).exists(), "{program} is missing: run scripts/peers");
    }
}
