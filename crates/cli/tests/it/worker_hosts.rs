//! Workers on several hosts, which are network namespaces here, and with as many devices as several processes can have.

use crate::harness::{Bench, Ended, Finished, Started, count, sent};
use crate::truth::listening_address;
use crate::workers::{BROKER, Fleet, SCENARIO, assert_captured_whole, assert_same_ledger, captured, run};
use std::process::Command;
use std::time::Duration;

/// Networks of their own on one bridge, as of several hosts. Dropped, they are gone; what runs in them ends before.
struct Networks {
    names: Vec<String>,
}

impl Networks {
    /// So many hosts beside the first one, which has the bridge.
    fn new(hosts: usize) -> Networks {
        let process = std::process::id();
        let networks = Networks { names: (0..=hosts).map(|host| format!("plm{process}n{host}")).collect() };
        for (host, name) in networks.names.iter().enumerate() {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
            let address = format!("{}/24", Networks::address(host));
            if host == 0 {
                ip(&["-n", name, "link", "add", "plm", "type", "bridge"]);
                ip(&["-n", name, "address", "add", &address, "dev", "plm"]);
                ip(&["-n", name, "link", "set", "plm", "up"]);
                continue;
            }
            let (hub, port) = (&networks.names[0], format!("plm{host}"));
            ip(&["-n", hub, "link", "add", &port, "type", "veth", "peer", "name", "plm", "netns", name]);
            ip(&["-n", hub, "link", "set", &port, "master", "plm", "up"]);
            ip(&["-n", name, "address", "add", &address, "dev", "plm"]);
            ip(&["-n", name, "link", "set", "plm", "up"]);
        }
        networks
    }

    /// Of the addresses for tests of networks (RFC 2544, appendix C), which nobody routes.
    fn address(host: usize) -> String {
        format!("198.18.78.{}", 10 + host)
    }

    /// The same command on one of the hosts.
    fn on(&self, host: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.names[host]]).arg(command.get_program()).args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }

    /// Starts these commands on the first host behind the hub and on those that follow; so many of them are servers, which listen before
    /// anybody looks for them.
    fn start_all(&self, commands: &[Command], servers: usize) -> Vec<Ended> {
        let mut started = Vec::new();
        for (host, command) in (1..).zip(commands) {
            started.push(Ended::start(&mut self.on(host, command)));
            if host == servers {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        started
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed by scripts/test");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "acceptance: workers"]
fn three_hosts_send_what_one_host_sends_to_a_broker_on_another_one() {
    let bench = Bench::beside_others();
    let networks = Networks::new(5);
    let [nats, broker] = [1, 2].map(Networks::address);
    bench.write(
        "mosquitto.conf",
        &format!("listener 1883 {broker}\nallow_anonymous true\nmax_queued_messages 0\n"),
    );
    let mut servers = vec![bench.in_folder("nats-server"), bench.in_folder("mosquitto")];
    servers[0].args(["-a", &nats]);
    servers[1].arg("-c").arg(bench.path("mosquitto.conf"));
    let workers = (3..=5).map(|host| {
        bench.plimsoll([
            "worker",
            "--join",
            &format!("nats://{nats}:4222"),
            "--name",
            &format!("host-{host}"),
            "--threads",
            "1",
        ])
    });
    let commands: Vec<Command> = servers.into_iter().chain(workers).collect();
    let _started = networks.start_all(&commands, 2);
    let platform = format!("platform: {{ profile: existing, address: \"mqtt://{broker}:1883\" }}");
    let scenario = SCENARIO.replace("platform: embedded", &platform).replace("hold: 2s", "hold: 5s");
    let on_hub =
        |more: &[&str]| bench.start(&mut networks.on(0, bench.run_command(&scenario).args(more))).finish();
    let alone = on_hub(&[]).judged();
    let shared = on_hub(&["--workers", &format!("nats://{nats}:4222,min=3")]).judged();
    assert_same_ledger(&shared, &alone);
    let placement = &shared.summary["provenance"]["placement"];
    assert!(placement["worker host-5"].is_string(), "{placement}");
}

/// So many workers and brokers, each broker with 16,667 devices and a subscriber. The load begins when all are connected. A process may
/// have 20,000 open files.
fn many_devices(parts: usize) {
    const OF_ONE: usize = 16_667;
    let bench = Bench::beside_others();
    let broker = || {
        let mut broker = bench.plimsoll(["target", "broker", "--port", "0", "--max-connections", "20000"]);
        bench.start(&mut broker)
    };
    let brokers: Vec<Started> = (0..parts).map(|_| broker()).collect();
    let population = |(number, broker): (usize, &Started)| {
        format!(
            "- {{ name: city-{number}, devices: {OF_ONE}, subscribers: 1, platform: {{ address: \"{}\" }} }}\n",
            listening_address(broker)
        )
    };
    let populations: String = brokers.iter().enumerate().map(population).collect();
    let scenario = format!(
        "name: many devices\nplatform: {{ profile: existing, address: \"{}\" }}\nseed: 3\npopulations:\n{populations}\
         mqtt: {{ qos: 1 }}\nload: {{ levels: [{rate}], connect_rate: 3000, hold: 30s, samples: 10, warm_up: 1s, drain: 10s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p99: null, city-0.subscribe_p50: \"< 10 s\" }}\n",
        listening_address(&brokers[0]),
        rate = 1000 * parts,
    );
    let run = run(&bench, &scenario, &["--workers", &format!("local:{parts}")]).judged();
    let level = run.level(0);
    let connected = count(&run.summary["connect_time"], "n");
    assert!(connected >= (parts * OF_ONE) as u64, "{connected}");
    let sent = sent(level, 29_000 * parts as u64..);
    for (name, expected) in
        [("acknowledged", sent), ("expected_deliveries", sent), ("lost", 0), ("duplicated", 0)]
    {
        assert_eq!(count(level, name), expected, "{name}: {level:#}");
    }
    assert_eq!(count(level, "delivered") + count(level, "late"), sent, "{level:#}");
}

#[test]
#[ignore = "acceptance: workers"]
fn fifty_thousand_devices_of_three_workers_at_three_brokers_have_an_exact_ledger() {
    many_devices(3);
}

#[test]
#[ignore = "acceptance: workers"]
fn a_hundred_thousand_devices_of_six_workers_at_six_brokers_have_an_exact_ledger() {
    many_devices(6);
}

#[test]
#[ignore = "acceptance: workers"]
fn captures_of_several_hosts_are_one_wire() {
    let bench = Bench::beside_others();
    let networks = Networks::new(4);
    let nats = Networks::address(1);
    bench.write("broker.yaml", &BROKER.replace("at: w1", "at: server"));
    let mut server = bench.in_folder("nats-server");
    server.args(["-a", &nats]);
    let worker = |name: &str, rights: &[&str]| {
        let url = format!("nats://{nats}:4222");
        let mut worker = bench.plimsoll(["worker", "--join", &url, "--name", name, "--threads", "1"]);
        worker.args(rights);
        worker
    };
    let rights = ["--allow-commands", "--allow-captures"];
    let commands = [server, worker("server", &rights), worker("one", &[]), worker("other", &[])];
    let _started = networks.start_all(&commands, 1);
    let workers = format!("nats://{nats}:4222,min=3");
    let run = |scenario: &str| {
        let mut command = bench.run_command(scenario);
        bench.start(&mut networks.on(0, command.args(["--workers", &workers]))).finish()
    };
    assert_captured_whole(&run(&captured()).judged());
    // A broker beside the run's hosts is seen by its clients alone, which may not capture here.
    let elsewhere = captured().replace(
        "platform: ./broker.yaml",
        "platform: { profile: existing, address: \"mqtt://198.18.78.200:1883\" }",
    );
    run(&elsewhere).exits(1).says("--allow-captures");
}

#[test]
#[ignore = "acceptance: workers"]
fn a_clock_that_is_ahead_shows_in_no_time() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 1);
    // Its monotonic clock is ahead by 5,000 s, as that of a host that was started earlier.
    let mut ahead = Command::new("unshare");
    ahead.args([
        "--time",
        "--monotonic",
        "5000",
        env!("CARGO_BIN_EXE_plimsoll"),
        "worker",
        "--join",
        &fleet.url(),
    ]);
    let _ahead = Ended::start(ahead.args(["--name", "ahead", "--threads", "1"]));
    let scenario = SCENARIO.replace("hold: 2s", "hold: 8s").replace("levels: [80, 160]", "levels: [80]");
    let shared = fleet.run(&bench, &scenario, 2).finish().judged();
    assert_eq!(
        (count(shared.level(0), "lost"), count(shared.level(0), "duplicated")),
        (0, 0),
        "{}",
        shared.stdout
    );
    let notes = shared.summary["provenance"]["notes"].to_string();
    assert!(notes.contains("workers have clocks of their own: that of ahead is known to within"), "{notes}");
    let alone = run(&bench, &scenario, &[]).judged();
    let median = |run: &Finished| run.level(0)["subscribe_time"]["p50"].as_f64().unwrap();
    let (shared, alone) = (median(&shared), median(&alone));
    assert!((shared - alone).abs() < 0.02, "{shared} s and {alone} s");
}
