//! Prometheus and node exporter of Debian: a run reads their metrics, and Prometheus reads those of a run.

use crate::harness::Bench;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long a program may take until it listens, and Prometheus until it has read something.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that listens. Dropped, it is killed.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(bench: &Bench, program: &str, arguments: impl FnOnce(u16) -> Vec<String>) -> Listening {
        let port = free();
        let log = || File::create(bench.path(&format!("output.{program}"))).unwrap();
        let mut command = Command::new(program);
        command.args(arguments(port)).current_dir(bench.path("")).stdout(log()).stderr(log());
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; see scripts/exporters"));
        let listening = Listening { child, port };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "{program} does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(50));
        }
        listening
    }

    /// Node exporter, with what it reads of processors and load.
    fn node_exporter(bench: &Bench) -> Listening {
        Listening::start(bench, "prometheus-node-exporter", |port| {
            let collectors = [
                "--collector.disable-defaults",
                "--collector.cpu",
                "--collector.loadavg",
                "--collector.meminfo",
            ];
            let address = format!("--web.listen-address=127.0.0.1:{port}");
            collectors.map(str::to_owned).into_iter().chain([address]).collect()
        })
    }

    /// A Prometheus that reads that port once a second.
    fn prometheus(bench: &Bench, reads: u16) -> Listening {
        let job = format!("{{ job_name: one, static_configs: [{{ targets: ['127.0.0.1:{reads}'] }}] }}");
        bench.write(
            "prometheus.yml",
            &format!("global: {{ scrape_interval: 1s }}\nscrape_configs: [{job}]\n"),
        );
        Listening::start(bench, "prometheus", |port| {
            vec![
                "--config.file=prometheus.yml".to_owned(),
                "--storage.tsdb.path=series".to_owned(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ]
        })
    }

    /// What a query gives, as soon as it gives something.
    fn ask(&self, query: &str) -> f64 {
        let begin = Instant::now();
        loop {
            let answer = get(self.port, &format!("/api/v1/query?query={query}"));
            let value = answer["data"]["result"][0]["value"][1].as_str().and_then(|text| text.parse().ok());
            if let Some(value) = value {
                return value;
            }
            assert!(begin.elapsed() < PATIENCE, "{query}: {answer:#}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What is answered, null where that is no JSON: Prometheus says so while it starts.
fn get(port: u16, path: &str) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

#[test]
#[ignore = "acceptance: exporters"]
fn metrics_of_node_exporter_and_of_prometheus_are_read() {
    let bench = Bench::new();
    let node = Listening::node_exporter(&bench);
    let server = Listening::prometheus(&bench, node.port);
    assert_eq!(server.ask("up"), 1.0);
    server.ask("rate(node_cpu_seconds_total[5s])");
    let run = bench.run(&format!(
        "name: exporters
platform: embedded
population: {{ devices: 5, subscribers: 1 }}
load: {{ levels: [100, 200], warm_up: 1s, hold: 5s, samples: 5, drain: 1s }}
objectives: {{ publish_p99: null, publish_p50: \"< 1 s\" }}
record:
  metrics:
    - component: host
      exporter: http://127.0.0.1:{}/metrics
      read:
        load average: node_load1
        active memory: {{ select: node_memory_Active_bytes, unit: bytes }}
        idle: {{ select: 'node_cpu_seconds_total{{mode=\"idle\"}}', kind: counter, unit: seconds }}
    - component: host
      prometheus: http://127.0.0.1:{}
      read:
        busy: {{ select: '1 - avg(rate(node_cpu_seconds_total{{mode=\"idle\"}}[5s]))', unit: share }}
",
        node.port, server.port
    ));
    let summary = run.judged().summary;
    let means = |quantity: &str| -> Vec<f64> {
        let gauges = summary["gauges"].as_array().unwrap();
        let own = gauges.iter().find(|gauge| gauge["sampler"] == "metrics" && gauge["quantity"] == quantity);
        let levels = own.unwrap_or_else(|| panic!("no {quantity}: {}", summary["notes"]))["levels"].clone();
        levels.as_array().unwrap().iter().map(|level| level["mean"].as_f64().unwrap()).collect()
    };
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    assert_eq!(means("load average").len(), 2);
    assert!(means("active memory").iter().all(|bytes| *bytes > 1e6));
    for (idle, busy) in means("idle").into_iter().zip(means("busy")) {
        assert!((0.0..=1.0).contains(&busy) && (0.0..=processors * 1.1).contains(&idle), "{idle} {busy}");
    }
}

#[test]
#[ignore = "acceptance: exporters"]
fn prometheus_reads_a_run() {
    let bench = Bench::new();
    let port = free();
    let scenario = "name: watched\nplatform: embedded\npopulation: { devices: 5, subscribers: 1 }\n\
                    load: { arrivals: constant, levels: [100], warm_up: 1s, hold: 12s, samples: 6, drain: 1s }\n\
                    objectives: { publish_p99: null, publish_p50: \"< 1 s\" }\n";
    let address = format!("127.0.0.1:{port}");
    let run = bench.start(bench.run_command(scenario).args(["--metrics", &address]));
    let server = Listening::prometheus(&bench, port);
    // Once the load has gone on for as long as the rate is taken over: where a series begins within that time, Prometheus
    // extrapolates.
    server.ask("rate(plimsoll_messages_sent_total[4s])%20%3E%2090%20%3C%20110");
    assert_eq!(server.ask("up"), 1.0);
    let p99 = server.ask("histogram_quantile(0.99,rate(plimsoll_publish_time_seconds_bucket[4s]))");
    assert!((1e-5..1.0).contains(&p99), "{p99}");
    assert_eq!(server.ask("count(plimsoll_run_info)"), 1.0);
    run.finish().judged();
}
