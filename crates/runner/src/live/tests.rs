use super::*;
use plimsoll_codec::exposition;
use plimsoll_codec::openmetrics::{OPENMETRICS, text};
use plimsoll_model::{Load, Nanos};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

fn part(sample: Option<u16>, sent: u64, millis: i64) -> Measurement {
    let mut seen = Histogram::new();
    seen.record_n(Nanos::from_millis(millis), sent);
    let counts = Counts { due: sent, sent, ..Counts::default() };
    Measurement::Sample(SamplePart {
        sample,
        counts,
        histograms: vec![(Metric::PublishTime, seen)],
        ..SamplePart::default()
    })
}

fn gauge(subject: &str, value: f64) -> Gauge {
    Gauge {
        at: Nanos::ZERO,
        sampler: "threads".into(),
        subject: subject.into(),
        quantity: "threads".into(),
        unit: "count".into(),
        value,
    }
}

fn live() -> Live {
    let live = Live::default();
    assert!(live.families().is_empty(), "no run yet");
    live.begin("city", "7k3m9q2x");
    live.add(&Measurement::LevelStarted(LevelStart { load: Load::Rate(500.0), ..LevelStart::default() }));
    live.add(&part(None, 10, 3));
    live.add(&part(Some(0), 30, 30));
    live.add(&Measurement::Gauges(vec![gauge("broker", 4.0), gauge("broker", 5.0)]));
    live
}

fn value(text: &str, name: &str) -> Option<f64> {
    exposition::samples(text).find(|sample| sample.name == name).map(|sample| sample.value)
}

#[test]
fn counters_hold_everything_since_the_run_began_and_gauges_the_latest() {
    let live = live();
    let shown = text(&live.families(), true);
    let expected = [
        ("plimsoll_run_info", 1.0),
        ("plimsoll_messages_sent_total", 40.0),
        ("plimsoll_level", 1.0),
        ("plimsoll_level_offered_rate", 500.0),
        ("plimsoll_level_hold", 1.0),
        ("plimsoll_publish_time_seconds_count", 40.0),
        ("plimsoll_observed", 5.0),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&shown, name), Some(expected), "{name} in\n{shown}");
    }
    assert!((value(&shown, "plimsoll_publish_time_seconds_sum").unwrap() - 0.93).abs() < 0.001, "{shown}");
    // Buckets of the histogram are 0.1 % wide.
    assert!(shown.contains("plimsoll_publish_time_seconds_bucket{le=\"0.005\"} 10\n"), "{shown}");
    assert!(shown.contains("plimsoll_publish_time_seconds_bucket{le=\"0.05\"} 40\n"), "{shown}");
    live.add(&Measurement::LevelEnded(plimsoll_model::record::LevelEnd::default()));
    live.level_ended(0, Ended { load: "500/s".into(), achieved: Some(499.0), verdict: "met" });
    let shown = text(&live.families(), true);
    assert_eq!((value(&shown, "plimsoll_level"), value(&shown, "plimsoll_level_met")), (None, Some(1.0)));
}

#[test]
fn an_observer_that_invents_names_is_cut_short() {
    let live = live();
    let many = (0..MOST_GAUGES + 100).map(|number| gauge(&format!("x{number}"), 1.0)).collect();
    live.add(&Measurement::Gauges(many));
    assert_eq!(live.state().gauges.len(), MOST_GAUGES);
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_endpoint_answers_each_scraper_in_its_format_and_ends_with_the_run() {
    let live = Arc::new(live());
    let endpoint = Endpoint::open(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::clone(&live)).unwrap();
    let address = endpoint.address();
    let get = |path: &str, more: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n"));
    let plain = get("/metrics", "");
    assert!(
        plain.starts_with("HTTP/1.1 200 OK") && plain.contains("TYPE plimsoll_messages_sent_total counter")
    );
    let open = get("/metrics?x=1", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(open.contains(OPENMETRICS) && open.ends_with("# EOF\n"), "{open}");
    assert!(get("/", "").starts_with("HTTP/1.1 404") && get("/", "").contains("/metrics"));
    assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    // What is too long is cut off; whether the answer or the end of the connection comes first is no matter.
    let mut long = TcpStream::connect(address).unwrap();
    let _ = long.write_all("x".repeat(20 << 10).as_bytes());
    let _ = long.read_to_string(&mut String::new());
    // One that says nothing keeps nobody waiting for long.
    let _mute = TcpStream::connect(address).unwrap();
    assert!(get("/metrics", "").starts_with("HTTP/1.1 200 OK"));
    assert!(Endpoint::open(address, live).is_err(), "the address is taken");
    drop(endpoint);
    assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
}

/// Takes one request with its head and body, and answers with that status.
fn receiver(status: &'static str) -> (String, std::thread::JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api/v1/write", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece).unwrap();
            all.extend_from_slice(&piece[..count]);
            let Some(end) = all.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if all.len() >= end + 4 + length {
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwhy?");
                stream.write_all(answer.as_bytes()).unwrap();
                return (head, all[end + 4..].to_vec());
            }
        }
    });
    (url, thread)
}

#[test]
fn a_remote_write_is_snappy_and_protocol_buffers() {
    let (url, receiver) = receiver("204 No Content");
    let push = Push::begin(Protocol::RemoteWrite, url, Arc::new(live())).unwrap();
    assert_eq!(push.finish(), Ok(()));
    let (head, body) = receiver.join().unwrap();
    assert!(
        head.contains("content-encoding: snappy")
            && head.contains("x-prometheus-remote-write-version: 0.1.0")
    );
    let request = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    let holds = |text: &str| request.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("plimsoll_messages_sent_total") && holds("__name__") && holds("job"));
}

#[test]
fn otlp_has_histograms_by_bucket_and_a_refusal_is_told() {
    let (url, receiver) = receiver("400 Bad Request");
    let push = Push::begin(Protocol::Otlp, url, Arc::new(live())).unwrap();
    let refused = push.finish().unwrap_err();
    assert!(refused.contains("400") && refused.contains("why?"), "{refused}");
    let (_, body) = receiver.join().unwrap();
    let request: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let named = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    assert_eq!(named("plimsoll_messages_sent")["sum"]["dataPoints"][0]["asDouble"], 40.0);
    let times = &named("plimsoll_publish_time_seconds")["histogram"]["dataPoints"][0];
    let counts: Vec<u64> = times["bucketCounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts.len(), times["explicitBounds"].as_array().unwrap().len() + 1);
    assert_eq!((counts.iter().sum::<u64>(), counts[5], counts[8]), (40, 10, 30));
}

#[test]
fn a_receiver_that_is_gone_is_told_at_the_end() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let push = Push::begin(Protocol::RemoteWrite, format!("http://{free}/"), Arc::new(live())).unwrap();
    assert!(push.finish().is_err());
}
