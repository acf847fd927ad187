//! The NGSIv2 target, spoken to over sockets: status codes, notifications, planted faults, clients that misbehave; with
//! entities in memory, and in document stores (`stored`).

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod stored;

use plimsoll_codec::http::{Reader, Side, Start};
use plimsoll_target::ngsi::{NgsiTarget, Settings};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(10);

/// A target in a thread; dropped, it ends, and a failure of it fails the test.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn settings() -> Settings {
    Settings {
        host: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        workers: 4,
        delay: Duration::ZERO,
        max_body: 1024 * 1024,
        fail_every: None,
        token: None,
        tells_first: true,
        store: None,
    }
}

impl Running {
    fn start(settings: &Settings) -> Running {
        let target = NgsiTarget::bind(settings).unwrap();
        let address = target.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || target.run(&seen).unwrap()));
        Running { address, stop, thread }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        Client { stream, reader: Reader::new(Side::Answer, 16 * 1024 * 1024), headers: String::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the target failed");
    }
}

/// A kept connection.
struct Client {
    stream: TcpStream,
    reader: Reader,
    /// Header fields of every request, each with its line end.
    headers: String,
}

#[derive(Debug)]
struct Said {
    status: u16,
    location: String,
    count: String,
    body: Value,
}

impl Client {
    fn ask(&mut self, method: &str, path: &str, body: Option<Value>) -> Said {
        let headers = &self.headers;
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}");
        if let Some(body) = body {
            let body = body.to_string();
            request.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        } else {
            request.push_str("\r\n");
        }
        self.stream.write_all(request.as_bytes()).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Said {
        let mut scratch = [0; 65536];
        let mut ended = false;
        loop {
            if let Some(message) = self.reader.take(ended, false).unwrap() {
                let Start::Status { code, .. } = message.head.start else { panic!("no answer") };
                let field =
                    |name| String::from_utf8(message.head.field(name).unwrap_or_default().to_vec()).unwrap();
                return Said {
                    status: code,
                    location: field("location"),
                    count: field("fiware-total-count"),
                    body: serde_json::from_slice(message.body).unwrap_or_default(),
                };
            }
            assert!(!ended, "the connection ended without an answer");
            let count = self.stream.read(&mut scratch).unwrap();
            ended = count == 0;
            self.reader.push(&scratch[..count]);
        }
    }

    #[track_caller]
    fn does(&mut self, method: &str, path: &str, body: Option<Value>, status: u16) -> Said {
        let said = self.ask(method, path, body);
        assert_eq!(said.status, status, "{method} {path}: {said:?}");
        said
    }

    #[track_caller]
    fn fails(&mut self, method: &str, path: &str, body: Option<Value>, status: u16, error: &str) {
        let said = self.does(method, path, body, status);
        assert_eq!(said.body["error"], error, "{said:?}");
        assert!(said.body["description"].is_string());
    }
}

/// A listener that answers everything with 204; its address, and what it is told: connection, path and body.
fn listener() -> (String, Receiver<(usize, String, Value)>) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", socket.local_addr().unwrap());
    let (told, notifications) = channel();
    std::thread::spawn(move || {
        for (number, stream) in socket.incoming().enumerate() {
            let (mut stream, told) = (stream.unwrap(), told.clone());
            std::thread::spawn(move || {
                let mut reader = Reader::new(Side::Request, 1 << 20);
                let mut scratch = [0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut scratch) {
                    reader.push(&scratch[..count]);
                    while let Some(message) = reader.take(false, false).unwrap() {
                        let Start::Request { target, .. } = message.head.start else { panic!("no request") };
                        let body = serde_json::from_slice(message.body).unwrap();
                        // The test may have seen enough.
                        let _ = told.send((number, target.to_owned(), body));
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    }
                }
            });
        }
    });
    (address, notifications)
}

fn road(id: &str, speed: f64) -> Option<Value> {
    Some(json!({ "id": id, "type": "Road", "speed": { "value": speed } }))
}

fn speed(value: f64) -> Option<Value> {
    Some(json!({ "speed": { "value": value, "type": "Number" } }))
}

#[test]
fn entities_live_as_the_specification_says() {
    live(&settings());
}

fn live(settings: &Settings) {
    let target = Running::start(settings);
    let mut client = target.client();
    let made = client.does("POST", "/v2/entities", road("r1", 10.0), 201);
    assert_eq!(made.location, "/v2/entities/r1?type=Road");
    client.fails("POST", "/v2/entities", road("r1", 10.0), 422, "Unprocessable");
    client.does("POST", "/v2/entities?options=upsert", road("r1", 11.0), 204);
    client.does("PATCH", "/v2/entities/r1/attrs?type=Road", speed(12.0), 204);
    let unknown = Some(json!({ "cars": { "value": 1 } }));
    client.fails("PATCH", "/v2/entities/r1/attrs", unknown.clone(), 422, "Unprocessable");
    client.fails("PATCH", "/v2/entities/r2/attrs", speed(1.0), 404, "NotFound");
    client.fails("PATCH", "/v2/entities/r1/attrs?type=River", speed(1.0), 404, "NotFound");
    client.does("POST", "/v2/entities/r1/attrs", unknown.clone(), 204);
    client.fails("POST", "/v2/entities/r1/attrs?options=append", unknown, 422, "Unprocessable");
    assert_eq!(client.does("GET", "/v2/entities/r1/attrs/speed", None, 200).body["value"], 12.0);
    client.does("PUT", "/v2/entities/r1/attrs/speed/value", Some(json!(13.5)), 204);
    assert_eq!(client.does("GET", "/v2/entities/r1/attrs/speed/value", None, 200).body, 13.5);
    let short = client.does("GET", "/v2/entities/r1?options=keyValues", None, 200).body;
    assert_eq!(short, json!({ "id": "r1", "type": "Road", "speed": 13.5, "cars": 1 }));
    client.does("PUT", "/v2/entities/r1/attrs", speed(1.0), 204);
    client.fails("GET", "/v2/entities/r1/attrs/cars", None, 404, "NotFound");
    client.does("POST", "/v2/entities", Some(json!({ "id": "r1", "type": "River" })), 201);
    client.fails("GET", "/v2/entities/r1", None, 409, "TooManyResults");
    client.does("DELETE", "/v2/entities/r1?type=River", None, 204);
    client.does("DELETE", "/v2/entities/r1", None, 204);
    client.fails("DELETE", "/v2/entities/r1", None, 404, "NotFound");
}

#[test]
fn wrong_requests_get_their_status() {
    let target = Running::start(&Settings { max_body: 1000, ..settings() });
    let mut client = target.client();
    client.fails("DELETE", "/v2/entities", None, 405, "MethodNotAlowed");
    client.fails("GET", "/v3", None, 404, "NotFound");
    client.fails("POST", "/v2/entities", None, 411, "ContentLengthRequired");
    client.fails("POST", "/v2/entities", Some(json!({ "type": "T" })), 400, "BadRequest");
    let forbidden = json!({ "id": "a", "x": { "value": "a<b" } });
    client.fails("POST", "/v2/entities", Some(forbidden), 400, "BadRequest");
    client.fails("GET", "/v2/entities?limit=1001", None, 400, "BadRequest");
    client.fails("GET", "/v2/entities?q=%3D", None, 400, "BadRequest");
    client.fails("GET", "/v2/entities?idPattern=(", None, 400, "BadRequest");
    client.fails("POST", "/v2/op/update", Some(json!({ "actionType": "make" })), 400, "BadRequest");
    for (kind, body, status) in [("text/plain", "{}", 415), ("application/json;x=y", "{", 400)] {
        let length = body.len();
        let text = format!(
            "POST /v2/entities HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        client.stream.write_all(text.as_bytes()).unwrap();
        assert_eq!(client.answer().status, status, "{kind}");
    }
    let mut large = target.client();
    large.fails("POST", "/v2/entities", Some(json!("x".repeat(1000))), 413, "RequestEntityTooLarge");
    // That connection is closed, as is one that does not speak HTTP; others are not touched.
    assert_eq!(large.stream.read(&mut [0; 10]).unwrap(), 0);
    let mut garbage = target.client();
    garbage.stream.write_all(b"\x16\x03\x01\xff\r\n\r\n").unwrap();
    assert_eq!(garbage.answer().status, 400);
    let nested = "[".repeat(400) + &"]".repeat(400);
    let text = format!(
        "POST /v2/entities HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 800\r\n\r\n{nested}"
    );
    client.stream.write_all(text.as_bytes()).unwrap();
    assert_eq!(client.answer().body["error"], "ParseError");
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
}

#[test]
fn entities_are_listed_and_queried() {
    are_found(&settings());
}

fn are_found(settings: &Settings) {
    let target = Running::start(settings);
    let mut client = target.client();
    let entities: Vec<Value> = (0..30).map(|n| road(&format!("r{n:02}"), f64::from(n)).unwrap()).collect();
    let update = json!({ "actionType": "append", "entities": entities });
    client.does("POST", "/v2/op/update", Some(update), 204);
    let ids = |said: &Said| {
        let list = said.body.as_array().unwrap().iter();
        list.map(|entity| entity["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let page = client.does("GET", "/v2/entities?type=Road&limit=2&offset=28&options=count", None, 200);
    assert_eq!((ids(&page), page.count.as_str()), (vec!["r28".into(), "r29".into()], "30"));
    assert_eq!(ids(&client.does("GET", "/v2/entities", None, 200)).len(), 20);
    let fast = client.does("GET", "/v2/entities?q=speed%3E=28;speed!=29&idPattern=^r2", None, 200);
    assert_eq!(ids(&fast), ["r28"]);
    let query = json!({
        "entities": [{ "idPattern": "r0.", "type": "Road" }, { "id": "r15" }],
        "expression": { "q": "speed<2" },
    });
    assert_eq!(ids(&client.does("POST", "/v2/op/query", Some(query), 200)), ["r00", "r01"]);
    for (action, entity, status) in [
        ("update", json!({ "id": "r00", "type": "Road", "cars": { "value": 1 } }), 422),
        ("update", json!({ "id": "new" }), 404),
        ("appendStrict", json!({ "id": "r00", "type": "Road", "speed": { "value": 1 } }), 422),
        ("replace", json!({ "id": "r00", "type": "Road", "cars": { "value": 1 } }), 204),
        ("delete", json!({ "id": "r01", "type": "Road" }), 204),
    ] {
        let update = json!({ "actionType": action, "entities": [entity] });
        client.does("POST", "/v2/op/update", Some(update), status);
    }
    let replaced = client.does("GET", "/v2/entities/r00?options=keyValues", None, 200).body;
    assert_eq!(replaced, json!({ "id": "r00", "type": "Road", "cars": 1 }));
    client.does("GET", "/v2/entities/r01", None, 404);
}

#[test]
fn subscriptions_are_told_in_order_over_kept_connections() {
    are_told(&settings());
}

fn are_told(settings: &Settings) {
    let target = Running::start(settings);
    let mut client = target.client();
    let (address, notifications) = listener();
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
    let subscription = |path: &str, more: Value| {
        Some(json!({
            "subject": { "entities": [{ "idPattern": "^r" }], "condition": more },
            "notification": { "http": { "url": format!("{address}/{path}") }, "attrsFormat": "keyValues" },
        }))
    };
    let made = client.does("POST", "/v2/subscriptions", subscription("all", json!({})), 201);
    // What is there already is told first.
    let (_, path, first) = notifications.recv_timeout(WAIT).unwrap();
    let id = made.location.rsplit('/').next().unwrap();
    assert_eq!((path.as_str(), &first["subscriptionId"]), ("/all", &json!(id)));
    assert_eq!(first["data"], json!([{ "id": "r1", "type": "Road", "speed": 1.0 }]));
    let fast = json!({ "attrs": ["speed"], "expression": { "q": "speed>95" } });
    let skip = "/v2/subscriptions?options=skipInitialNotification";
    client.does("POST", skip, subscription("fast", fast), 201);
    for value in 2..=100 {
        client.does("PATCH", "/v2/entities/r1/attrs", speed(f64::from(value)), 204);
        // The same once more changes nothing and is not told.
        client.does("PATCH", "/v2/entities/r1/attrs", speed(f64::from(value)), 204);
    }
    client.does("PATCH", "/v2/entities/r1/attrs?options=forcedUpdate", speed(100.0), 204);
    let told: Vec<_> = (0..99 + 5 + 2).map(|_| notifications.recv_timeout(WAIT).unwrap()).collect();
    let of = |wanted: &str| {
        let speeds = told.iter().filter(|(_, path, _)| path == wanted);
        speeds.map(|(.., body)| body["data"][0]["speed"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let all: Vec<f64> = (2..=100).chain([100]).map(f64::from).collect();
    assert_eq!(of("/all"), all);
    assert_eq!(of("/fast"), [96.0, 97.0, 98.0, 99.0, 100.0, 100.0]);
    for wanted in ["/all", "/fast"] {
        let mut used: Vec<usize> =
            told.iter().filter(|(_, path, _)| path == wanted).map(|(connection, ..)| *connection).collect();
        used.dedup();
        assert_eq!(used.len(), 1, "{wanted} was not told over one kept connection");
    }
    let path = format!("/v2/subscriptions/{id}");
    client.does("PATCH", &path, Some(json!({ "status": "inactive" })), 204);
    assert_eq!(client.does("GET", &path, None, 200).body["notification"]["timesSent"], 101);
    client.does("DELETE", &path, None, 204);
    client.fails("GET", &path, None, 404, "NotFound");
    assert_eq!(client.does("GET", "/v2/subscriptions", None, 200).body.as_array().unwrap().len(), 1);
}

#[test]
fn subscriptions_are_bounded() {
    let target = Running::start(&settings());
    let mut client = target.client();
    let subscription = |entities: usize, pattern: &str| {
        Some(json!({
            "subject": { "entities": vec![json!({ "idPattern": pattern }); entities] },
            "notification": { "http": { "url": "http://127.0.0.1:9/" } },
        }))
    };
    client.fails("POST", "/v2/subscriptions", subscription(1001, "x"), 400, "BadRequest");
    client.fails("POST", "/v2/subscriptions", subscription(1, "x{1000000}"), 400, "BadRequest");
    let long = "x".repeat(70_000);
    client.fails("POST", "/v2/subscriptions", subscription(1, &long), 413, "RequestEntityTooLarge");
    for _ in 0..10 {
        client.does("POST", "/v2/subscriptions", subscription(1000, "x"), 201);
    }
    client.fails("POST", "/v2/subscriptions", subscription(1, "x"), 413, "NoResourcesAvailable");
}

#[test]
fn a_listener_that_is_gone_is_counted_and_harms_nobody() {
    let target = Running::start(&settings());
    let mut client = target.client();
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let subscription = json!({
        "subject": { "entities": [{ "idPattern": ".*" }] },
        "notification": { "http": { "url": format!("http://{gone}/") } },
    });
    client.does("POST", "/v2/subscriptions", Some(subscription), 201);
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
    let begin = Instant::now();
    while client.does("GET", "/statistics", None, 200).body["notifications"]["failed"] != 1 {
        assert!(begin.elapsed() < WAIT, "it was not counted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn tenants_and_paths_keep_data_apart() {
    are_apart(&settings());
}

fn are_apart(settings: &Settings) {
    let target = Running::start(settings);
    let mut client = target.client();
    let mut as_whom = |tenant: &str, path: &str, method: &str, target: &str, body: Option<Value>| {
        client.headers = format!("Fiware-Service: {tenant}\r\nFiware-ServicePath: {path}\r\n");
        client.ask(method, target, body)
    };
    assert_eq!(as_whom("porto", "/a", "POST", "/v2/entities", road("r", 1.0)).status, 201);
    assert_eq!(as_whom("lisboa", "/a", "POST", "/v2/entities", road("r", 2.0)).status, 201);
    assert_eq!(as_whom("porto", "/b", "POST", "/v2/entities", road("r", 3.0)).status, 201);
    let value = "/v2/entities/r/attrs/speed/value";
    assert_eq!(as_whom("porto", "/a", "GET", value, None).body, 1.0);
    assert_eq!(as_whom("lisboa", "/a", "GET", value, None).body, 2.0);
    assert_eq!(as_whom("porto", "/#", "GET", value, None).status, 409);
    assert_eq!(as_whom("porto", "/c", "GET", value, None).status, 404);
    assert_eq!(as_whom("nobody", "/a", "GET", value, None).status, 404);
    assert_eq!(as_whom("porto", "/#", "POST", "/v2/entities", road("x", 1.0)).status, 400);
    assert_eq!(as_whom("por to", "/a", "GET", value, None).status, 400);
    assert_eq!(as_whom("porto", "a", "GET", value, None).status, 400);
}

#[test]
fn faults_are_as_planted() {
    let delay = Duration::from_millis(30);
    let token = Some("open-sesame".to_owned());
    let target = Running::start(&Settings { workers: 1, delay, fail_every: Some(4), token, ..settings() });
    let mut client = target.client();
    client.fails("GET", "/v2/entities", None, 401, "Unauthorized");
    client.headers = "X-Auth-Token: open-sesame\r\n".into();
    let statuses: Vec<u16> = (0..7).map(|_| client.ask("GET", "/v2/entities", None).status).collect();
    // The first request was the one without a token.
    assert_eq!(statuses, [200, 200, 503, 200, 200, 200, 503]);
    // Four clients of one worker take four times as long as one, at least.
    let begin = Instant::now();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = target.client();
            std::thread::spawn(move || client.ask("GET", "/v2/entities", None).status)
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert!(begin.elapsed() >= 4 * delay, "{:?}", begin.elapsed());
}
