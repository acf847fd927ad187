//! A platform in a network of its own, as containers have one.

use crate::harness::{Bench, count};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A network namespace with one link to this host's network. Dropped, it is gone, and what ran in it.
struct Namespace {
    name: String,
    address: String,
    broker: Option<Child>,
}

impl Namespace {
    fn new() -> Namespace {
        let process = std::process::id();
        let name = format!("plm-{process}");
        let (ours, theirs) = (format!("plma{process}"), format!("plmb{process}"));
        // Of the addresses for tests of networks (RFC 2544, appendix C), which nobody routes.
        let (host, address) = ("198.18.77.1", "198.18.77.2".to_owned());
        let namespace = Namespace { name: name.clone(), address: address.clone(), broker: None };
        ip(&["netns", "add", &name]);
        ip(&["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &name]);
        ip(&["address", "add", &format!("{host}/30"), "dev", &ours]);
        ip(&["link", "set", &ours, "up"]);
        ip(&["-n", &name, "address", "add", &format!("{address}/30"), "dev", &theirs]);
        ip(&["-n", &name, "link", "set", &theirs, "up"]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        namespace
    }

    /// Runs a program in it, whose output goes to a file.
    fn start(&mut self, program: &str, arguments: &[&str]) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.broker = Some(command.spawn().unwrap());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(broker) = &mut self.broker {
            let _ = broker.kill();
            let _ = broker.wait();
        }
        // The link goes with one of its ends.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed by scripts/test");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn await_port(address: &str) {
    let address = address.parse().unwrap();
    let begin = Instant::now();
    while std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20), "nobody listens at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_platform_in_another_network_is_captured_there_and_called_by_its_name() {
    let bench = Bench::beside_others();
    let mut namespace = Namespace::new();
    let broker = env!("CARGO_BIN_EXE_plimsoll");
    let address = namespace.address.clone();
    namespace.start(broker, &["target", "broker", "--host", &address, "--port", "1883"]);
    await_port(&format!("{address}:1883"));
    let name = namespace.name.clone();
    let scenario = format!(
        "name: elsewhere\nplatform: {{ profile: existing, address: \"mqtt://{address}:1883\" }}\n\
         population: {{ devices: 5, subscribers: 1 }}\nmessage: {{ marker: ascii }}\n\
         load: {{ levels: [50], warm_up: 0s, hold: 1s, samples: 2, drain: 2s, again: 0s }}\n\
         objectives: {{ publish_p99: null, delivered: null, achieved: null }}\n\
         record: {{ capture: {{ namespaces: [\"container:{name}\"] }} }}\n"
    );
    bench.write("elsewhere.yaml", &scenario);
    let arguments = ["run", "elsewhere.yaml", "--no-report", "--summary-json", "summary.json", "-q"];
    let finished = bench.call(arguments);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(bench.path("summary.json")).unwrap()).unwrap();
    let dissection = &summary["dissection"];
    assert_eq!(dissection["notes"], serde_json::json!([]), "{}", finished.stderr);
    let services = dissection["services"].as_array().unwrap();
    let mqtt = services.iter().find(|service| service["protocol"] == "mqtt").unwrap();
    assert_eq!(
        (&mqtt["client"], &mqtt["server"]),
        (&"plimsoll".into(), &name.as_str().into()),
        "{services:#?}"
    );
    let sent = count(&summary["levels"][0], "sent");
    let publishes = &dissection["protocols"]["mqtt"]["by_verb"]["PUBLISH"]["count"];
    // Each once to the broker and once from it.
    assert_eq!(publishes.as_u64(), Some(2 * sent));

    let refused = scenario.replace(&name, "no-such-container");
    bench.write("elsewhere.yaml", &refused);
    bench.call(arguments).exits(1).says("no container is called `no-such-container`").says(&name);
    bench.call(["capture", "--container", "no-such-container", "--seconds", "0.2"]).exits(1).says(&name);
}
