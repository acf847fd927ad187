//! Document stores and their router: as a client on the library of others sees them, and as the stores of context brokers.

use crate::harness::{Bench, Finished, Started, count, sent};
use crate::truth::listening_address;

/// A target that listens, and where.
fn start(bench: &Bench, options: &[&str]) -> (Started, String) {
    let started = bench.start(&mut bench.plimsoll([&["target"][..], options].concat()));
    let address = listening_address(&started);
    let address = address.strip_prefix("mongodb://").unwrap().to_owned();
    (started, address)
}

/// Lets the client do what drivers do at an address whose documents are in those stores.
#[track_caller]
fn assert_serves(bench: &Bench, address: &str, stores: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stand_ins/documents_client.py");
    let mut client = bench.in_folder("documents-python");
    client.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
    client.args([&[address][..], stores].concat().iter().map(|address| format!("mongodb://{address}/")));
    let output = client.output().expect("documents-python is installed by scripts/peers");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_driver_of_others_is_served_by_a_store() {
    let bench = Bench::beside_others();
    let (_store, address) = start(&bench, &["documents"]);
    assert_serves(&bench, &address, &[&address]);
}

#[test]
fn a_driver_of_others_is_served_by_a_router_before_two_stores() {
    let bench = Bench::beside_others();
    let (_one, one) = start(&bench, &["documents"]);
    let (_other, other) = start(&bench, &["documents", "--read", "10us", "--write", "10us"]);
    let (_router, router) = start(&bench, &["documents-router", "--to", &one, "--to", &other]);
    assert_serves(&bench, &router, &[&one, &other]);
}

/// A context broker before a router before so many stores with those options.
fn profile(stores: usize, options: &str) -> String {
    let mut profile =
        "name: stored\ntitle: a context broker before document stores\nlike: fiware-orion\ncomponents:\n"
            .to_owned();
    let mut shards = String::new();
    for number in 1..=stores {
        let command =
            format!("[\"{{plimsoll}}\", target, documents, --port, \"{{port:store{number}}}\"{options}]");
        profile += &format!("- name: store{number}\n  ready_port: store{number}\n  command: {command}\n");
        shards += &format!(", --to, \"127.0.0.1:{{port:store{number}}}\"");
    }
    profile += &format!(
        "- name: router\n  ready_port: router\n\
        \x20 command: [\"{{plimsoll}}\", target, documents-router, --port, \"{{port:router}}\"{shards}]\n\
        - name: broker\n  ready_port: http\n  http_port: http\n\
        \x20 command: [\"{{plimsoll}}\", target, ngsi, --port, \"{{port:http}}\", --workers, \"32\", \
        --store, \"127.0.0.1:{{port:router}}\", --store-connections, \"32\"]\n"
    );
    profile
}

fn run(bench: &Bench, profile: &str, platform: &str, rate: u32) -> Finished {
    bench.write("stored.yaml", profile);
    bench.run(&format!(
        "name: stored\nplatform: {{ profile: stored.yaml, mapping: update, clean_up: true{platform} }}\n\
         population: {{ devices: 30 }}\nmessage: {{ size: 100 }}\n\
         load: {{ levels: [{rate}], arrivals: constant, warm_up: 1s, hold: 3s, samples: 3, drain: 5s, again: 0s }}\n\
         objectives: {{ achieved: null, publish_p99: null }}\n"
    ))
}

#[test]
fn two_brokers_before_one_router_have_an_exact_ledger() {
    let bench = Bench::beside_others();
    let finished = run(&bench, &profile(2, ""), ", replicas: { broker: 2 }", 100);
    let level = finished.level(0);
    let sent = sent(level, 251..);
    // The controller made each entity through one of them; devices write through either.
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    for nothing in ["refused", "lost"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
    let components = finished.summary["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in ["store1", "store2", "router", "broker 1", "broker 2"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

mod alone {
    use super::{profile, run};
    use crate::harness::{Bench, number, until_valid};

    /// Each update holds the lock of its store for 5 ms: one store serves less than 200 a second.
    #[test]
    fn the_lock_of_a_store_limits_brokers_and_a_second_store_helps() {
        let bench = Bench::new();
        let achieved = |stores: usize| {
            let profile = profile(stores, ", --write, 5ms, --work, wait");
            let finished = until_valid(|| run(&bench, &profile, "", 300));
            number(finished.level(0), &["achieved"])
        };
        let (one, two) = (achieved(1), achieved(2));
        assert!((100.0..200.0).contains(&one), "{one}");
        assert!(two > 1.2 * one, "{two} instead of {one}");
    }
}
