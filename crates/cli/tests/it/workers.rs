//! Load threads at workers, over a real NATS server: the same load as of one process, and what befalls workers.

use crate::harness::{Bench, Ended, Finished, STORE, Started, count, number};
use crate::truth::listening_address;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Devices of several rates in all levels, and subscribers that receive them: most messages are received at another worker than that of
/// their device.
pub const SCENARIO: &str = "name: shared out
platform: embedded
seed: 11
population: { devices: 40, subscribers: 3 }
mqtt: { qos: 1 }
message: { size: { uniform: { min: 64, max: 128 } } }
load: { levels: [80, 160], hold: 2s, samples: 4, warm_up: 200ms, drain: 3s, again: 0s }
record: { messages: true }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

pub fn run(bench: &Bench, scenario: &str, more: &[&str]) -> Finished {
    bench.start(bench.run_command(scenario).args(more)).finish()
}

/// Both levels have the same counts, nothing was lost, and messages were delivered.
#[track_caller]
pub fn assert_same_ledger(shared: &Finished, alone: &Finished) {
    for level in 0..2 {
        for name in ["due", "sent", "acknowledged", "expected_deliveries", "delivered", "lost", "duplicated"]
        {
            let counts = [shared, alone].map(|run| count(run.level(level), name));
            assert_eq!(counts[0], counts[1], "{name} of level {level}");
        }
        assert_eq!(count(shared.level(level), "lost"), 0);
        assert!(count(shared.level(level), "delivered") > 300);
    }
}

/// When each message was due within its level, by device and sequence.
fn due_times(bench: &Bench) -> Vec<(u64, String, String, i64)> {
    let rows = bench.call(["export", "--store", STORE, "--format", "messages"]).exits(0).stdout;
    let mut lines = rows.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| {
        names.iter().position(|own| *own == name).unwrap_or_else(|| panic!("no {name}: {names:?}"))
    };
    let [level, device, sequence, due] = ["level", "device", "sequence", "due"].map(place);
    let mut due_times: Vec<(u64, String, String, i64)> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let due = fields[due].parse::<f64>().unwrap();
            (
                fields[level].parse().unwrap(),
                fields[device].into(),
                fields[sequence].into(),
                (due * 1e9).round() as i64,
            )
        })
        .collect();
    due_times.sort();
    // Levels begin when they can, so times count from the first one of each.
    let first =
        |level: u64| due_times.iter().filter(|row| row.0 == level).map(|row| row.3).min().unwrap_or(0);
    let firsts = [1, 2].map(first);
    due_times
        .iter()
        .map(|(level, device, sequence, due)| {
            (*level, device.clone(), sequence.clone(), due - firsts[*level as usize - 1])
        })
        .collect()
}

#[test]
fn workers_send_what_one_process_sends_and_every_delivery_is_booked() {
    let bench = Bench::beside_others();
    let alone = run(&bench, SCENARIO, &[]).judged();
    let due_alone = due_times(&bench);
    let shared = run(&bench, SCENARIO, &["--workers", "local:3"]).judged();
    assert_eq!(due_times(&bench), due_alone, "each message is due when it is due without workers");
    assert_same_ledger(&shared, &alone);
    let placement = &shared.summary["provenance"]["placement"];
    assert_eq!(placement["load threads"], "3", "{placement}");
    assert!(placement["worker local-3"].as_str().unwrap().starts_with("load thread 2 of 3"), "{placement}");
}

#[test]
fn devices_over_http_are_shared_out() {
    let bench = Bench::beside_others();
    let scenario = "name: http
platform: ngsi-target
seed: 3
population: { devices: 20 }
load: { levels: [100], hold: 2s, samples: 4, warm_up: 0s, drain: 3s, again: 0s }
objectives: { publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }
";
    let alone = run(&bench, scenario, &[]).judged();
    let shared = run(&bench, scenario, &["--workers", "local:2"]).judged();
    for name in ["due", "sent", "acknowledged"] {
        assert_eq!(count(shared.level(0), name), count(alone.level(0), name), "{name}");
    }
}

/// A NATS server, and workers at it.
pub struct Fleet {
    nats: Option<Child>,
    port: u16,
    workers: Vec<Child>,
}

impl Fleet {
    pub fn begin(bench: &Bench, workers: usize) -> Fleet {
        let none: &[&str] = &[];
        Fleet::with(bench, &vec![none; workers])
    }

    /// With a worker for each of these options, named w1, w2 and so on.
    fn with(bench: &Bench, workers: &[&[&str]]) -> Fleet {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut fleet = Fleet { nats: None, port, workers: Vec::new() };
        fleet.start_nats();
        for (number, options) in (1..).zip(workers) {
            let name = format!("w{number}");
            let mut command =
                bench.plimsoll(["worker", "--join", &fleet.url(), "--name", &name, "--threads", "1"]);
            command.args(*options);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            fleet.workers.push(command.spawn().unwrap());
        }
        fleet
    }

    pub fn start_nats(&mut self) {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.nats = Some(command.spawn().expect("nats-server is installed by scripts/peers"));
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(10), "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn kill_nats(&mut self) {
        if let Some(mut nats) = self.nats.take() {
            let _ = nats.kill();
            let _ = nats.wait();
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn signal(&self, worker: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.workers[worker]), signal).unwrap();
    }

    pub fn run(&self, bench: &Bench, scenario: &str, least: usize) -> Started {
        let workers = format!("{},min={least}", self.url());
        bench.start(bench.run_command(scenario).args(["--workers", &workers]))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
        self.kill_nats();
    }
}

#[test]
fn what_workers_cannot_do_and_where_none_are_is_said() {
    let bench = Bench::beside_others();
    let none = run(&bench, SCENARIO, &["--workers", "nats://127.0.0.1:1"]).exits(1);
    assert!(none.stderr.contains("cannot use the NATS server nats://127.0.0.1:1"), "{}", none.stderr);
    for wrong in ["local:0", "local:65", "local:x", "here", "nats://127.0.0.1:1,min=0"] {
        let refused = run(&bench, SCENARIO, &["--workers", wrong]).exits(104);
        assert!(refused.stderr.contains("nats://HOST:4222"), "{wrong}: {}", refused.stderr);
    }
    let simulated = SCENARIO.replace("platform: embedded", "platform: simulated");
    let refused = run(&bench, &simulated, &["--workers", "local:2"]).exits(104);
    assert!(refused.stderr.contains("no simulated platform"), "{}", refused.stderr);
    // As a host of its own would be looked at by `doctor`.
    let foreign = format!("{SCENARIO}connection: {{ source_addresses: [127.0.0.1, 203.0.113.9] }}\n");
    let refused = run(&bench, &foreign, &["--workers", "local:2"]).exits(1);
    refused.says("worker local-").says("this host does not have 203.0.113.9");
}

/// Populations at two sites, and subscribers at one of them.
const PINNED: &str = "name: pinned
platform: embedded
seed: 5
populations:
- { name: near, devices: 20, at: north }
- { name: far, devices: 10, at: south }
- { name: anywhere, devices: 12 }
subscribers: { count: 3, at: south }
mqtt: { qos: 1 }
load: { levels: [80, 160], hold: 2s, samples: 4, warm_up: 200ms, drain: 3s, again: 0s }
record: { messages: true }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p99: null, near.subscribe_p50: \"< 10 s\" }
";

/// Sockets of a process.
fn sockets(process: &Child) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    let is_socket = |file: std::io::Result<std::fs::DirEntry>| {
        let target = file.ok().and_then(|file| std::fs::read_link(file.path()).ok());
        target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    files.map(is_socket).filter(|is| *is).count()
}

#[test]
fn populations_stand_at_their_sites_and_have_the_counts_and_due_times_of_one_process() {
    let here = Bench::beside_others();
    let alone = run(&here, PINNED, &[]).judged();
    let notes = alone.summary["provenance"]["notes"].to_string();
    assert!(
        notes.contains("near: devices at north") && notes.contains("here, all stand on this host"),
        "{notes}"
    );
    let (due_alone, bench) = (due_times(&here), Bench::beside_others());
    let sites: [&[&str]; 2] = [&["--site", "north"], &["--site", "south"]];
    let fleet = Fleet::with(&bench, &sites);
    let going_on = fleet.run(&bench, PINNED, 2);
    bench.await_level(0);
    let during: Vec<usize> = fleet.workers.iter().map(sockets).collect();
    let shared = going_on.finish().judged();
    // Its own socket to NATS is left.
    std::thread::sleep(Duration::from_secs(1));
    let held: Vec<usize> =
        fleet.workers.iter().zip(during).map(|(worker, during)| during - sockets(worker)).collect();
    assert_eq!(held, [20 + 6, 10 + 6 + 3], "devices that stand at all workers are dealt evenly");
    assert_eq!(due_times(&bench), due_alone, "each message is due when it is due without workers");
    assert_same_ledger(&shared, &alone);
    for level in 0..2 {
        for (place, at) in [Value::from("north"), Value::from("south"), Value::Null].into_iter().enumerate() {
            let [own, other] = [&shared, &alone].map(|run| &run.level(level)["populations"][place]);
            assert_eq!(own["at"], at, "{own:#}");
            for name in ["due", "sent", "acknowledged", "expected_deliveries", "delivered", "lost"] {
                let counts = [own, other].map(|population| count(&population["figures"], name));
                assert_eq!(counts[0], counts[1], "{name} of population {place} in level {level}");
            }
        }
        assert!(shared.level(level)["crossed"].is_null(), "all read one clock: {:#}", shared.level(level));
    }
    let placement = &shared.summary["provenance"]["placement"];
    let pinned = placement["pinned"].as_str().unwrap();
    assert!(
        pinned.contains("far: devices at south") && pinned.contains("subscribers at south"),
        "{placement}"
    );
    assert!(placement["worker w1"].as_str().unwrap().contains("site north"), "{placement}");
}

#[test]
fn a_site_without_a_worker_and_subscribers_that_cannot_stand_beside_devices_are_refused() {
    let bench = Bench::beside_others();
    let nobody = run(&bench, PINNED, &["--workers", "local:2"]).exits(1);
    nobody.says("no worker is at `north`: there are local-1, local-2;");
    let beside = "{ count: 2, beside: devices }";
    let scenario = SCENARIO.replace("subscribers: 3", &format!("subscribers: {beside}"));
    let refused = run(&bench, &scenario, &["--workers", "local:2"]).exits(104);
    refused.says("`subscribers.beside: devices` cannot be kept: subscriber 1 stands at worker local-2");
    // At one worker they stand beside each other.
    let one = scenario.replace("devices: 40", "devices: 40, at: local-2");
    let run = run(&bench, &one, &["--workers", "local:2"]).judged();
    assert_eq!(count(run.level(0), "delivered"), count(run.level(0), "expected_deliveries"));
}

/// A worker whose monotonic clock is another one than that of this host, and whose way to the server takes 200 ms each way: nobody can say
/// better than within 200 ms how its clock stands, if the two ways are not known to be equal.
struct FarAway {
    _relay: Started,
    _worker: Ended,
}

impl FarAway {
    fn join(bench: &Bench, fleet: &Fleet) -> FarAway {
        let to = format!("127.0.0.1:{}", fleet.port);
        let mut relay = bench.plimsoll(["target", "relay", "--to", &to, "--delay", "200ms"]);
        let relay = bench.start(&mut relay);
        let url = format!("nats://{}", listening_address(&relay));
        let mut worker = bench.in_folder("unshare");
        worker.args(["--time", "--monotonic", "5000", env!("CARGO_BIN_EXE_plimsoll"), "worker"]);
        worker.args(["--join", &url, "--name", "away", "--threads", "1"]);
        FarAway { _relay: relay, _worker: Ended::start(&mut worker) }
    }
}

#[test]
fn what_the_clocks_of_workers_leave_open_is_not_judged() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 1);
    let _away = FarAway::join(&bench, &fleet);
    let scenario = |at: &str, more: &str| {
        format!(
            "name: across\nplatform: embedded\nseed: 3\n\
             population: {{ devices: 10, at: {at}, subscribers: {{ count: 1, at: away }} }}\n\
             mqtt: {{ qos: 1 }}\n{more}\
             load: {{ levels: [50], hold: 4s, samples: 4, warm_up: 200ms, drain: 3s, again: 0s }}\n\
             objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 150 ms\" }}\n"
        )
    };
    let within = |run: &Finished| run.level(0)["crossed"]["within"].as_f64().unwrap();
    let across = fleet.run(&bench, &scenario("w1", ""), 2).finish().exits(3);
    let level = across.level(0);
    assert_eq!(level["verdict"], "invalid", "{level:#}");
    assert_eq!(level["validity"], "clock_bound", "{level:#}");
    assert!(
        reasons(level).contains("subscribe_p50") && reasons(level).contains("is not judged"),
        "{level:#}"
    );
    assert!((0.2..0.25).contains(&within(&across)), "{level:#}");
    assert!(count(&level["crossed"], "deliveries") >= count(level, "delivered"), "{level:#}");
    let clock = &level["clocks"][0];
    assert_eq!(clock["worker"], "away", "{clock:#}");
    assert_eq!(clock["ended"]["by_wall_clock"], false, "{clock:#}");
    // Half of the round trip is what is certain, and the truth lies within: the clock is ahead by 5,000 s.
    let (offset, certain) = (number(&clock["ended"], &["offset"]), number(&clock["ended"], &["within"]));
    assert!((offset - 5000.0).abs() <= certain && certain >= 0.2, "{clock:#}");
    across.says("clocks of workers");
    // The wall clocks of both are the same here, and the user may say so.
    let kept = fleet.run(&bench, &scenario("w1", "clock_bound: 1ms\n"), 2).finish().judged();
    assert_ne!(kept.level(0)["validity"], "clock_bound", "{:#}", kept.level(0));
    assert_eq!(within(&kept), 0.001, "{:#}", kept.level(0));
    assert_eq!(kept.level(0)["clocks"][0]["ended"]["by_wall_clock"], true, "{:#}", kept.level(0));
    let median = kept.level(0)["subscribe_time"]["p50"].as_f64().unwrap();
    assert!((0.0..0.02).contains(&median), "no clock shows in it: {median} s");
    // One worker needs no second clock.
    let beside = fleet.run(&bench, &scenario("away", ""), 1).finish().judged();
    assert!(beside.level(0)["crossed"].is_null(), "{:#}", beside.level(0));
    assert_ne!(beside.level(0)["validity"], "clock_bound", "{:#}", beside.level(0));
}

/// A Mosquitto that a worker starts.
pub const BROKER: &str = "name: broker
title: a Mosquitto at a worker
components:
- name: broker
  at: w1
  command: [mosquitto, -c, \"{dir}/mosquitto.conf\"]
  files:
    mosquitto.conf: |
      user root
      listener {port:mqtt} {listen}
      allow_anonymous true
  ready_port: mqtt
  mqtt_port: mqtt
  install: apt-get install mosquitto
";

/// Where devices of the run in the bench's store find the platform.
fn platform_address(bench: &Bench) -> String {
    let shown = bench.call(["show", "--store", STORE, "--json"]);
    let summary: Value = serde_json::from_str(&shown.stdout).unwrap();
    summary["provenance"]["platform"]["address"].as_str().unwrap_or_else(|| panic!("{summary:#}")).to_owned()
}

#[test]
fn a_component_at_a_worker_is_started_sampled_and_stopped_there_and_only_where_the_worker_allows_it() {
    let bench = Bench::beside_others();
    bench.write("broker.yaml", BROKER);
    let scenario = SCENARIO.replace("platform: embedded", "platform: ./broker.yaml");
    let careful = Fleet::begin(&bench, 1);
    let refused = careful.run(&bench, &scenario, 1).finish().exits(1);
    refused.says("worker w1: component broker stands there (`at: w1`), and the worker starts none: start it with --allow-commands");
    drop(careful);
    let fleet = Fleet::with(&bench, &[&["--allow-commands"], &[]]);
    let run = fleet.run(&bench, &scenario, 2).finish().judged();
    for level in run.levels() {
        assert_eq!(count(level, "delivered"), count(level, "expected_deliveries"), "{level:#}");
        assert!(number(level, &["platform_cpu"]) > 0.0, "{level:#}");
    }
    let components = run.summary["components"].as_array().unwrap();
    assert_eq!(components.len(), 1, "{components:#?}");
    assert_eq!(components[0]["name"], "broker");
    assert!(number(&components[0], &["cpu_mean"]) > 0.0 && number(&components[0], &["rss_max"]) > 1e5);
    let placement = &run.summary["provenance"]["placement"];
    assert!(placement["worker w1"].as_str().unwrap().contains("starts broker"), "{placement}");
    let address = platform_address(&bench);
    // The worker stops it when it hears that the run is over.
    let over = Instant::now();
    while TcpStream::connect(&address).is_ok() {
        assert!(over.elapsed() < Duration::from_secs(10), "it ends with the run");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Whatever ends the worker ends the component.
    let bench = Bench::beside_others();
    bench.write("broker.yaml", BROKER);
    let going_on = fleet.run(&bench, &scenario.replace("hold: 2s", "hold: 20s"), 2);
    bench.await_level(0);
    let address = platform_address(&bench);
    assert!(TcpStream::connect(&address).is_ok(), "it is there");
    fleet.signal(0, Signal::KILL);
    let begin = Instant::now();
    while TcpStream::connect(&address).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it outlives its worker");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(going_on);
}

/// The scenario with a broker at a worker, its packets captured. All messages count, since levels do not have those of a warm-up.
pub fn captured() -> String {
    SCENARIO
        .replace("platform: embedded", "platform: ./broker.yaml")
        .replace("warm_up: 200ms", "warm_up: 0s")
        .replace("record: { messages: true }", "record: { capture: { limit: 100 MiB } }")
}

/// The packets say what the ledger says, and who spoke to whom.
#[track_caller]
pub fn assert_captured_whole(run: &Finished) {
    let dissection = &run.summary["dissection"];
    let all = |name: &str| run.levels().iter().map(|level| count(level, name)).sum::<u64>();
    let publishes = &dissection["protocols"]["mqtt"]["by_verb"]["PUBLISH"]["count"];
    assert_eq!(publishes.as_u64(), Some(all("sent") + all("delivered") + all("late")), "{dissection:#}");
    let services = dissection["services"].as_array().unwrap();
    let mqtt = services.iter().find(|service| service["protocol"] == "mqtt").unwrap();
    assert_eq!((&mqtt["client"], &mqtt["server"]), (&"plimsoll".into(), &"broker".into()), "{services:#?}");
    assert_eq!(dissection["losses_by_component"], serde_json::json!({}));
}

#[test]
fn packets_are_captured_where_a_component_stands_and_only_where_the_worker_allows_it() {
    let bench = Bench::beside_others();
    bench.write("broker.yaml", BROKER);
    let careful = Fleet::with(&bench, &[&["--allow-commands"], &[]]);
    let refused = careful.run(&bench, &captured(), 2).finish().exits(1);
    refused.says("worker w1: record.capture needs packets that only its host sees").says("--allow-captures");
    drop(careful);
    let fleet = Fleet::with(&bench, &[&["--allow-commands", "--allow-captures"], &[]]);
    let kept =
        captured().replace("platform: ./broker.yaml", "platform: { profile: ./broker.yaml, logs: kept }");
    let run = fleet.run(&bench, &kept, 2).finish().judged();
    assert_captured_whole(&run);
    let logs = std::fs::read_dir(bench.path("kept")).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(logs.join("broker.log")).unwrap().contains("mosquitto"));
    // The coordinator sees what is on its own host.
    let own = captured().replace("platform: ./broker.yaml", "platform: embedded");
    let run = fleet.run(&bench, &own, 2).finish().judged();
    let dissection = &run.summary["dissection"];
    let published =
        run.levels().iter().flat_map(|level| ["sent", "delivered", "late"].map(|name| count(level, name)));
    let publishes = &dissection["protocols"]["mqtt"]["by_verb"]["PUBLISH"]["count"];
    assert_eq!(publishes.as_u64(), Some(published.sum()), "{dissection:#}");
}

#[test]
fn a_gateway_and_the_devices_that_it_polls_stand_at_one_worker() {
    let bench = Bench::beside_others();
    let fleet = Fleet::with(&bench, &[&["--allow-commands"], &[]]);
    let scenario = "name: polled
platform: { profile: gateway, with: { cpu: \"0\", io: \"0\" }, at: { gateway: w1 } }
seed: 3
population: { devices: 10, at: w1 }
load: { levels: [100], hold: 2s, samples: 4, warm_up: 200ms, drain: 5s, again: 0s }
objectives: { publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }
";
    let run = fleet.run(&bench, scenario, 2).finish().judged();
    crate::gateway::check(&run, "at a worker");
    let apart = fleet.run(&bench, &scenario.replace(", at: w1 }\nload", " }\nload"), 2).finish().exits(104);
    apart.says("devices that a gateway polls stand at one worker");
    let elsewhere = fleet.run(&bench, &scenario.replace("10, at: w1", "10, at: w2"), 2).finish().exits(104);
    elsewhere
        .says("worker w2 has the devices that a gateway polls")
        .says("but component gateway stands at w1");
}

#[test]
fn a_component_that_ends_at_a_worker_or_does_not_start_there_is_the_headline() {
    let bench = Bench::beside_others();
    let fleet = Fleet::with(&bench, &[&["--allow-commands"]]);
    let scenario = SCENARIO.replace("platform: embedded", "platform: ./broker.yaml");
    bench.write("broker.yaml", &BROKER.replace("[mosquitto,", "[timeout, \"8\", mosquitto,"));
    let dead = fleet.run(&bench, &scenario.replace("hold: 2s", "hold: 20s"), 1).finish().exits(99);
    assert_eq!(dead.level(0)["death"]["component"], "broker", "{:#}", dead.level(0));
    dead.says("broker died");
    bench.write("broker.yaml", &BROKER.replace("allow_anonymous", "nonsense"));
    let broken = fleet.run(&bench, &scenario, 1).finish().exits(1);
    broken.says("worker w1: component broker ended").says("its last words:");
}

#[test]
fn a_worker_works_for_one_run_at_a_time_and_then_for_the_next() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 1);
    let long = SCENARIO.replace("hold: 2s", "hold: 6s").replace("levels: [80, 160]", "levels: [40]");
    let first = fleet.run(&bench, &long, 1);
    bench.await_level(0);
    let other = Bench::beside_others();
    let waiting = fleet.run(&other, SCENARIO, 1);
    first.finish().judged();
    // It was busy, and is free in time.
    waiting.finish().judged();
}

/// Two levels that are long enough for something to happen in the first.
const LONG: &str = "name: befallen
platform: embedded
seed: 11
population: { devices: 20, subscribers: 2 }
mqtt: { qos: 1 }
load: { levels: [50, 50], hold: 12s, samples: 12, warm_up: 200ms, drain: 3s, again: 0s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

fn reasons(level: &Value) -> String {
    level["reasons"].to_string()
}

#[test]
#[ignore = "acceptance: workers"]
fn a_worker_that_is_killed_makes_its_level_invalid_and_the_others_take_its_devices_over() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 3);
    let going_on = fleet.run(&bench, LONG, 2);
    bench.await_level(0);
    fleet.signal(1, Signal::KILL);
    let ended = going_on.finish().judged();
    assert_eq!(ended.level(0)["verdict"], "invalid", "{}", ended.stdout);
    assert!(reasons(ended.level(0)).contains("worker w2 was not heard of"), "{}", reasons(ended.level(0)));
    assert_eq!(ended.level(1)["validity"], "valid", "{}", ended.stdout);
    assert_eq!((count(ended.level(1), "lost"), count(ended.level(1), "duplicated")), (0, 0));
    assert_eq!(count(ended.level(1), "delivered"), count(ended.level(1), "expected_deliveries"));
    assert!(ended.stderr.contains("the run goes on without it"), "{}", ended.stderr);
}

#[test]
#[ignore = "acceptance: workers"]
fn a_run_with_too_few_workers_left_ends_and_the_rest_is_kept() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 2);
    let going_on = fleet.run(&bench, LONG, 2);
    bench.await_level(1);
    fleet.signal(1, Signal::KILL);
    let ended = going_on.finish().exits(1);
    assert_eq!(ended.level(0)["validity"], "valid", "{}", ended.stdout);
    assert_eq!(count(ended.level(0), "lost"), 0);
    assert_eq!(ended.level(1)["verdict"], "invalid", "{}", ended.stdout);
    assert!(reasons(ended.level(1)).contains("worker w2 was not heard of"), "{}", reasons(ended.level(1)));
    assert!(ended.stdout.contains("it is gone"), "{}", ended.stdout);
}

#[test]
#[ignore = "acceptance: workers"]
fn a_worker_that_stood_still_for_longer_than_its_lease_makes_its_level_invalid_and_the_next_is_whole() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 2);
    let going_on = fleet.run(&bench, LONG, 2);
    bench.await_level(0);
    fleet.signal(1, Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    fleet.signal(1, Signal::CONT);
    let ended = going_on.finish().judged();
    assert_eq!(ended.level(0)["verdict"], "invalid", "{}", ended.stdout);
    assert_eq!(ended.level(1)["validity"], "valid", "{}", ended.stdout);
    assert_eq!((count(ended.level(1), "lost"), count(ended.level(1), "duplicated")), (0, 0));
    assert_eq!(count(ended.level(1), "delivered"), count(ended.level(1), "expected_deliveries"));
}

#[test]
#[ignore = "acceptance: workers"]
fn a_server_that_is_killed_and_comes_back_within_a_lease_is_not_noticed_and_a_longer_absence_is_said() {
    let of_workers = Bench::beside_others();
    let mut fleet = Fleet::begin(&of_workers, 2);
    for (absence, verdict) in [(2, "met"), (9, "invalid")] {
        let bench = Bench::beside_others();
        let going_on = fleet.run(&bench, LONG, 2);
        bench.await_level(0);
        fleet.kill_nats();
        std::thread::sleep(Duration::from_secs(absence));
        fleet.start_nats();
        let ended = going_on.finish().judged();
        assert_eq!(ended.level(0)["verdict"], verdict, "after {absence} s: {}", ended.stdout);
        assert_eq!(ended.level(1)["verdict"], "met", "after {absence} s: {}", ended.stdout);
        for level in usize::from(verdict != "met")..2 {
            assert_eq!(
                count(ended.level(level), "delivered"),
                count(ended.level(level), "expected_deliveries")
            );
        }
    }
}

#[test]
#[ignore = "acceptance: workers"]
fn workers_stop_their_load_when_the_coordinator_is_killed_and_what_was_measured_is_kept() {
    let bench = Bench::beside_others();
    let fleet = Fleet::begin(&bench, 2);
    let broker = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut target = bench.plimsoll(["target", "broker", "--port", &broker.to_string()]);
    let target = bench.start(&mut target);
    let scenario = LONG.replace(
        "platform: embedded",
        &format!("platform: {{ profile: existing, address: \"mqtt://127.0.0.1:{broker}\" }}"),
    );
    let going_on = fleet.run(&bench, &scenario, 2);
    bench.await_level(0);
    going_on.signal(Signal::KILL);
    drop(going_on);
    // Their connections end when the coordinator is given up.
    let begin = Instant::now();
    while connections_to(broker) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} connections are left", connections_to(broker));
        std::thread::sleep(Duration::from_millis(200));
    }
    let shown = bench.call(["show", "--store", STORE, "--json"]);
    let summary: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert!(count(&summary["levels"][0], "delivered") > 0, "{summary}");
    // They are free for the next run.
    let next = fleet.run(&bench, SCENARIO, 2).finish().judged();
    assert_eq!(count(next.level(0), "lost"), 0);
    drop(target);
}

/// How many connections there are to a port of the loopback network.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    let is_to = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|remote| remote.ends_with(&port)) && fields.get(3) == Some(&"01")
    };
    table.lines().filter(is_to).count()
}
