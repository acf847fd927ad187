//! Metrics that a platform itself tells: exporters, a Prometheus server, JSON; honest ones, and those that lie, stall or die.

use crate::harness::{Bench, Finished, STORE, on_a_calm_host};
use crate::http_service::{answer, read};
use serde_json::Value;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What the counter grows by, bytes per second.
const GROWTH: f64 = 50_000.0;

/// Serves the metrics of a broker that is planted here, one thread for each connection.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || converse(stream, began));
        }
    });
    address
}

fn converse(stream: TcpStream, began: Instant) {
    let mut out = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let told = match request.path.as_str() {
            "/metrics" => {
                let total = (began.elapsed().as_secs_f64() * GROWTH).round();
                let many: String =
                    (0..10_000).map(|number| format!("many{{number=\"{number}\"}} 1\n")).collect();
                let text = format!(
                    "# TYPE queue gauge\nqueue{{name=\"in\"}} 7\nqueue{{name=\"out\"}} 5\nbytes_total {total}\n\
                     pause_milliseconds 250\nlies NaN\n{many}# EOF\n"
                );
                answer(200, &text)
            }
            "/statistics" => answer(200, r#"{"counters": {"waiting": "3"}}"#),
            path if path.starts_with("/api/v1/query?query=") => {
                let result = if path.ends_with("sum%28up%29") {
                    r#"[{"metric":{},"value":[1,"0.25"]}]"#
                } else {
                    "[{},{}]"
                };
                answer(
                    200,
                    &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":{result}}}}}"#),
                )
            }
            "/dies" => return,
            "/stalls" => {
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            _ => answer(404, "not here"),
        };
        if out.write_all(told.as_bytes()).is_err() {
            return;
        }
    }
}

fn run(bench: &Bench, metrics: &str) -> Finished {
    bench.run(&format!(
        "name: observing\nplatform: station\npopulation: {{ devices: 2 }}\n\
         load: {{ arrivals: constant, levels: [20], warm_up: 500ms, hold: 3s, samples: 3, drain: 500ms }}\n\
         objectives: {{ publish_p99: null, publish_p50: \"< 10 s\" }}\nrecord:\n  metrics:\n{metrics}"
    ))
}

/// Mean and unit of a metric in the level's hold.
fn seen<'a>(summary: &'a Value, subject: &str, quantity: &str) -> Option<(f64, &'a str)> {
    let gauges = summary["gauges"].as_array().unwrap();
    let gauge = gauges.iter().find(|gauge| {
        gauge["sampler"] == "metrics" && gauge["subject"] == subject && gauge["quantity"] == quantity
    })?;
    Some((gauge["levels"][0]["mean"].as_f64()?, gauge["unit"].as_str().unwrap()))
}

#[test]
fn exporters_servers_and_json_tell_what_was_planted() {
    let (bench, at) = (Bench::beside_others(), serve());
    let metrics = format!(
        "    - component: broker
      exporter: http://{at}/metrics
      every: 200ms
      read:
        queue length: queue{{name=~\"i.\"}}
        both queues: queue
        written: {{ select: bytes_total, kind: counter, unit: bytes }}
        pause: {{ select: pause_milliseconds, unit: seconds, scale: 0.001 }}
        series: many
    - component: host
      prometheus: http://{at}
      read: {{ up: {{ select: sum(up), unit: share }} }}
    - component: orion
      json: http://{at}/statistics
      read: {{ waiting: /counters/waiting }}
"
    );
    let finished = on_a_calm_host(|| run(&bench, &metrics).judged());
    let summary = &finished.summary;
    for (subject, quantity, expected) in [
        ("broker", "queue length", (7.0, "count")),
        ("broker", "both queues", (12.0, "count")),
        ("broker", "pause", (0.25, "seconds")),
        ("broker", "series", (10_000.0, "count")),
        ("host", "up", (0.25, "share")),
        ("orion", "waiting", (3.0, "count")),
    ] {
        assert_eq!(seen(summary, subject, quantity), Some(expected), "{subject} {quantity}");
    }
    // A busy machine stretches the way from the counter to its reader.
    let (rate, unit) = seen(summary, "broker", "written").unwrap();
    assert!(unit == "bytes/s" && (rate / GROWTH - 1.0).abs() < 0.25, "{rate} {unit}");
    let gauges = summary["gauges"].as_array().unwrap();
    let observers =
        gauges.iter().filter(|gauge| gauge["sampler"] == "observers" && gauge["quantity"] == "cost");
    let subjects: Vec<&str> = observers.map(|gauge| gauge["subject"].as_str().unwrap()).collect();
    assert!(subjects.contains(&"metrics of broker"), "{subjects:?}");
}

#[test]
fn sources_that_lie_stall_or_die_leave_gaps_that_are_told_once() {
    let (bench, at) = (Bench::beside_others(), serve());
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let metrics = format!(
        "    - {{ component: liar, exporter: \"http://{at}/metrics\", read: {{ lies: lies, absent: absent, queue: queue }} }}
    - {{ component: page, exporter: \"http://{at}/nothing?token=s3cr3t-t0k3n\", read: {{ a: a }} }}
    - {{ component: dead, exporter: \"http://{at}/dies\", read: {{ a: a }} }}
    - {{ component: still, exporter: \"http://{at}/stalls\", read: {{ a: a }} }}
    - {{ component: nobody, json: \"http://{nobody}/\", read: {{ a: /a }} }}
    - {{ component: several, prometheus: \"http://{at}\", read: {{ a: up }} }}
    - {{ component: port, exporter: \"http://127.0.0.1:{{port:stats}}/metrics\", read: {{ a: a }} }}
"
    );
    let finished = run(&bench, &metrics).judged();
    let told = finished.summary["notes"].to_string();
    for expected in [
        "`lies`: the value is NaN",
        "`absent`: the answer has no such series",
        "have a gap: it was answered 404",
        "metrics of dead from",
        "/stalls have a gap: no answer within 1.00 s",
        "metrics of nobody from",
        "the query gives 2 series",
        "the platform has no port `stats`",
    ] {
        assert_eq!(told.matches(expected).count(), 1, "{expected}\n{}", finished.summary["notes"]);
    }
    let store = std::fs::read(bench.path(STORE)).unwrap();
    for told in [finished.summary.to_string().as_bytes(), finished.said().as_bytes(), &store] {
        assert!(!String::from_utf8_lossy(told).contains("s3cr3t-t0k3n"));
    }
    assert_eq!(seen(&finished.summary, "liar", "queue"), Some((12.0, "count")));
    assert_eq!(seen(&finished.summary, "liar", "lies"), None);
}

#[test]
fn metrics_that_cannot_be_read_are_refused_before_the_run() {
    let bench = Bench::beside_others();
    for (metrics, key, reason) in [
        (
            "{ component: a, read: { b: c } }",
            "8:7",
            "write one of `exporter`, `prometheus`, `json` and `mqtt`",
        ),
        (
            "{ component: a, exporter: \"http://h/\", json: \"http://h/\", read: { b: c } }",
            "8:7",
            "write one of",
        ),
        ("{ component: a, exporter: \"h:9100\", read: { b: c } }", "exporter", "is no URL"),
        (
            "{ component: a, exporter: \"http://me:secret@h/\", read: { b: c } }",
            "exporter",
            "are not supported",
        ),
        ("{ component: a, exporter: \"http://h/\", read: { b: \"rate(c[5m])\" } }", "b", "functions"),
        ("{ component: a, json: \"http://h/\", read: { b: c } }", "b", "no JSON pointer"),
        ("{ component: a, json: \"http://h/\", read: {} }", "read", "at least one metric"),
        ("{ component: a, json: \"http://h/\", every: 1ms, read: { b: /c } }", "every", "ten times a second"),
        (
            "{ component: a, exporter: \"http://h/\", read: { b: { select: c, scale: 0 } } }",
            "b",
            "other than 0",
        ),
    ] {
        let finished = run(&bench, &format!("    - {metrics}\n")).exits(104);
        let told = finished.said();
        assert!(told.contains(reason) && told.contains(key), "{metrics}\n{told}");
    }
}

/// Mosquitto publishes once a second, and not more exactly than that.
#[test]
fn what_a_broker_publishes_of_itself_is_read_by_one_more_client() {
    let bench = Bench::beside_others();
    let run = bench.run(
        "name: topics
platform: mosquitto
population: { devices: 3, subscribers: 1 }
load: { arrivals: constant, levels: [20], warm_up: 2s, hold: 4s, samples: 4, drain: 500ms }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
record:
  metrics:
    - component: broker
      mqtt: mqtt://127.0.0.1:{port:mqtt}
      read:
        received: { select: $SYS/broker/publish/messages/received, kind: counter }
        uptime: { select: $SYS/broker/uptime, unit: seconds }
        version: $SYS/broker/version
",
    );
    let summary = &run.judged().summary;
    assert_eq!(seen(summary, "mosquitto", "stored messages").map(|(_, unit)| unit), Some("count"));
    // Three devices, one subscriber, and the clients that read the profile's metrics and ours.
    let (clients, _) = seen(summary, "mosquitto", "clients").unwrap();
    assert!((5.0..=6.0).contains(&clients), "{clients}");
    let (received, unit) = seen(summary, "broker", "received").unwrap();
    assert!(unit == "1/s" && (10.0..40.0).contains(&received), "{received} {unit}");
    let (uptime, unit) = seen(summary, "broker", "uptime").unwrap();
    assert!(unit == "seconds" && (1.0..60.0).contains(&uptime), "{uptime} {unit}");
    assert!(seen(summary, "broker", "version").is_none());
    let notes = summary["notes"].to_string() + &summary["provenance"].to_string();
    assert!(notes.contains("$SYS/broker/version") && notes.contains("it is no number"), "{notes}");
}
