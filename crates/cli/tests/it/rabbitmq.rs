//! AMQP 0-9-1: a real RabbitMQ.

use crate::harness::{Bench, Finished, count, number};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Without a warm-up, whose messages another client would count, too.
const LOAD: &str = "\
load: { arrivals: constant, levels: [200], hold: 2s, samples: 4, warm_up: 0s, drain: 2s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

/// Sent = acknowledged, and each subscriber has everything.
#[track_caller]
fn assert_adds_up(run: &Finished, level: usize, copies: u64) {
    let level = run.level(level);
    let sent = count(level, "sent");
    assert!((350..=440).contains(&sent), "{level:#}");
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    assert_eq!(count(level, "delivered"), sent * copies, "{level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 6], "{level:#}");
}

#[test]
fn confirms_and_deliveries_add_up_also_where_devices_speak_mqtt() {
    let bench = Bench::beside_others();
    let run = bench.run(&format!(
        "name: rabbit\nplatform: rabbitmq\nconnection: {{ timeout: 20s }}\n\
         populations:\n\
         \x20 - {{ name: own, devices: 10, message: {{ target: 'city.{{run}}.{{device}}', size: 40 }} }}\n\
         \x20 - {{ name: mqtt, devices: 10, platform: {{ mapping: mqtt }}, message: {{ target: 'city/{{run}}/{{device}}' }} }}\n\
         subscribers: {{ count: 2, filters: ['city/#'] }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), 0, 2);
}

#[test]
fn everything_comes_once_over_amqp_1_0_also_in_several_frames() {
    let bench = Bench::beside_others();
    let run = bench.run(&format!(
        "name: new\nplatform: {{ profile: rabbitmq, mapping: amqp1 }}\nconnection: {{ timeout: 20s }}\n\
         amqp1: {{ prefix: /topic/ }}\n\
         population: {{ devices: 10, subscribers: 2 }}\n\
         message: {{ target: 'city.{{run}}.{{device}}', size: {{ uniform: {{ min: 40, max: 70000 }} }} }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), 0, 2);
}

#[test]
#[ignore = "acceptance: rabbitmq"]
fn everything_comes_once_over_tls_and_over_websocket() {
    let mappings = [
        ("amqp-tls", "city.{run}.{device}"),
        ("amqp1-tls", "city.{run}.{device}"),
        ("mqtt-tls", "city/{run}/{device}"),
        ("mqtt-websocket", "city/{run}/{device}"),
    ];
    for (mapping, target) in mappings {
        let run = Bench::new().run(&format!(
            "name: {mapping}\nplatform: {{ profile: rabbitmq, mapping: {mapping} }}\nconnection: {{ timeout: 20s }}\n\
             {}population: {{ devices: 10, subscribers: 2 }}\nmessage: {{ target: '{target}', size: 40 }}\n{LOAD}",
            if mapping == "amqp1-tls" { "amqp1: { prefix: /topic/ }\n" } else { "" }
        ));
        assert_adds_up(&run.judged(), 0, 2);
    }
}

const BROKER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

fn start(program: &str, environment: &[(&'static str, String)]) -> Child {
    let mut command = Command::new(program);
    command.envs(environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("rabbitmq-server is installed by scripts/peers")
}

/// A broker of our own, which can be asked for things.
struct Server {
    child: Child,
    /// Its port mapper (epmd). One that it starts itself is a daemon, which outlives a broker that does not end in order.
    mapper: Child,
    environment: Vec<(&'static str, String)>,
    port: u16,
}

impl Server {
    fn begin(bench: &Bench) -> Server {
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, mapper, distribution] =
            free.each_ref().map(|listener| listener.local_addr().unwrap().port());
        drop(free);
        let configuration = bench.write("rabbitmq.conf", &format!("listeners.tcp.1 = 127.0.0.1:{port}\n"));
        let plugins = bench.write("plugins", "[].\n");
        let home = bench.path("").display().to_string();
        let environment = vec![
            ("HOME", home.clone()),
            ("RABBITMQ_NODENAME", "witness@localhost".to_owned()),
            ("RABBITMQ_CONFIG_FILE", configuration.display().to_string()),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", plugins.display().to_string()),
            ("RABBITMQ_MNESIA_BASE", bench.path("data").display().to_string()),
            ("RABBITMQ_LOG_BASE", bench.path("log").display().to_string()),
            ("RABBITMQ_DIST_PORT", distribution.to_string()),
            ("ERL_EPMD_PORT", mapper.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ];
        let mapper = start("epmd", &environment);
        let child = start(BROKER, &environment);
        let server = Server { child, mapper, environment, port };
        server.await_port();
        server
    }

    fn await_port(&self) {
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "RabbitMQ does not listen");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the broker without a warning, and starts it again.
    fn restart(&mut self) {
        // Its script, which is our child, waits for it.
        let said = self.ask(&["eval", "os:getpid()."]);
        let id = said.trim().trim_matches('"').parse().unwrap_or_else(|_| panic!("{said}"));
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
        self.child.wait().unwrap();
        self.child = start(BROKER, &self.environment);
        self.await_port();
    }

    /// What its own program for that says.
    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("/usr/lib/rabbitmq/bin/rabbitmqctl");
        let output = command.args(arguments).envs(self.environment.clone()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its script hands the signal on to the broker and waits for that. Its own program for it fails where the broker is not up yet.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        let _ = self.mapper.kill();
        let _ = self.mapper.wait();
    }
}

/// A broker that is out of disk reads nothing for a while, and a queue is deleted under its consumers. Another client counts the same.
#[test]
#[ignore = "acceptance: rabbitmq"]
fn a_broker_out_of_disk_and_a_queue_that_is_deleted_are_told() {
    let bench = Bench::new();
    let server = Server::begin(&bench);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/amqp_witness.py");
    let mut witness = Command::new("brokers-python")
        .arg(script)
        .arg(server.port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("brokers-python is installed by scripts/peers");
    let mut output = BufReader::new(witness.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready=1\n");
    let scenario = |subscribers: &str| {
        format!(
            "name: disk\nplatform: {{ profile: existing, address: 'amqp://127.0.0.1:{}' }}\n\
             population: {{ devices: 10, subscribers: {subscribers} }}\n\
             load: {{ arrivals: constant, levels: [100], hold: 12s, samples: 6, warm_up: 0s, drain: 5s }}\n\
             objectives: {{ publish_p99: null, achieved: null, delivered: null, publish_p50: \"< 20 s\" }}\n",
            server.port
        )
    };
    let run = bench.start(&mut bench.run_command(&scenario("2")));
    bench.await_level(0);
    server.ask(&["set_disk_free_limit", "1000000GB"]);
    thread::sleep(Duration::from_secs(2));
    server.ask(&["set_disk_free_limit", "1MB"]);
    let run = run.finish().judged().says("reads no messages for a while");
    let level = run.level(0);
    let sent = count(level, "sent");
    assert_eq!([count(level, "acknowledged"), count(level, "delivered")], [sent, sent * 2], "{level:#}");
    assert_eq!(["lost", "duplicated", "reconnects"].map(|name| count(level, name)), [0; 3], "{level:#}");
    assert!(number(level, &["publish_time", "p99"]) > 1.0, "messages waited, and that counts: {level:#}");
    kill_process(Pid::from_child(&witness), Signal::TERM).unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    witness.wait().unwrap();
    let came: u64 = line.split_once("came=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(came, sent);

    let run = bench.start(&mut bench.run_command(&scenario("{ count: 2, share: workers }")));
    bench.await_level(0);
    let queues = server.ask(&["list_queues", "name", "--quiet", "--no-table-headers"]);
    let queue = queues.lines().find(|line| line.ends_with("-workers")).unwrap().trim();
    server.ask(&["delete_queue", queue]);
    let run = run.finish().says("is the queue gone?");
    let level = run.level(0);
    assert!(count(level, "reconnects") >= 2, "{level:#}");
    assert!(count(level, "delivered") > count(level, "sent") / 2, "it is made again: {level:#}");
}

/// The broker is killed in the middle of a level and started again. The durable queue of a group has what was confirmed. What another client
/// publishes again to a subscriber with a queue of its own counts as duplicates, each of it, and the report says that they are allowed.
#[test]
#[ignore = "acceptance: rabbitmq"]
fn duplicates_after_an_unclean_restart_are_counted_and_called_legal() {
    const COPIES: u64 = 7;
    let bench = Bench::new();
    let mut server = Server::begin(&bench);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/amqp_repeater.py");
    let mut repeater = Command::new("brokers-python")
        .arg(script)
        .args([&server.port.to_string(), "own.#", &COPIES.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("brokers-python is installed by scripts/peers");
    let mut output = BufReader::new(repeater.stdout.take().unwrap());
    let mut says = |expected: &str| {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{expected}\n"));
    };
    says("ready=1");
    let run = bench.start(&mut bench.run_command(&format!(
        "name: again\nplatform: {{ profile: existing, address: 'amqp://127.0.0.1:{}' }}\namqp: {{ persistent: true }}\n\
         populations:\n\
         \x20 - {{ name: own, devices: 10, subscribers: 1, message: {{ target: 'own.{{run}}.{{device}}' }} }}\n\
         \x20 - {{ name: shared, devices: 10, subscribers: {{ count: 1, share: workers }}, \
             message: {{ target: 'shared.{{run}}.{{device}}' }} }}\n\
         connection: {{ timeout: 20s, reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 40s, samples: 4, warm_up: 0s, drain: 10s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 60 s\" }}\n",
        server.port
    )));
    says("heard=1");
    server.restart();
    // Clients are back within that time.
    thread::sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&repeater), Signal::USR1).unwrap();
    says(&format!("again={COPIES}"));
    repeater.wait().unwrap();
    let run = run.finish();
    let level = run.level(0);
    assert!(count(level, "reconnects") >= 22, "{level:#}");
    let of = |name: &str| {
        let populations = level["populations"].as_array().unwrap();
        &populations.iter().find(|own| own["name"] == name).unwrap()["figures"]
    };
    assert_eq!(count(of("own"), "duplicated"), COPIES, "{level:#}");
    assert_eq!(count(of("shared"), "lost_acknowledged"), 0, "{level:#}");
    for name in ["own", "shared"] {
        let why = of(name)["duplicates_legal"].as_str().unwrap_or_default();
        assert!(why.contains("AMQP 0-9-1 delivers at least once"), "{name}: {why}");
        assert!(count(of(name), "delivered") > 1000, "most went on after it: {level:#}");
    }
}
