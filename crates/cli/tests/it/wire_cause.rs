//! True causes on the wire of a real platform: a context broker that reads before it writes, notifies over a connection for each
//! message, and may be stopped; started by a profile, and found where it runs already.

use crate::harness::{Bench, Finished, Started, count, until_valid};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `front` passes each message to `context` over one connection; `context` reads its value from `store` (the protocol of
/// Redis), writes it, and notifies each subscriber over a new connection.
const PLATFORM: &str = r#"
import http.client, http.server, json, socket, sys, threading, time, urllib.parse

role, port, next_port, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
lock, subscribers, values = threading.Lock(), [], {}


def words(lines):
    return [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(lines.readline()[1:]))]


def command(stream, lines, *parts):
    text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    stream.sendall(b"*%d\r\n" % len(parts) + text)
    line = lines.readline()
    if line.startswith(b"$") and not line.startswith(b"$-1"):
        lines.read(int(line[1:]) + 2)


def keep(stream):
    lines = stream.makefile("rb")
    while lines.peek(1):
        parts = words(lines)
        if parts[0] == b"GET":
            value = values.get(parts[1])
            stream.sendall(b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value))
        else:
            values[parts[1]] = parts[2]
            stream.sendall(b"+OK\r\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/hooks" and role == "context":
            subscribers.append(urllib.parse.urlsplit(json.loads(body)["url"]))
        else:
            with lock:
                pass_on(self.path, body)
        self.answer(201)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def pass_on(path, body):
    if role == "front":
        behind.request("POST", path, body)
        behind.getresponse().read()
        return
    command(store, store_lines, b"GET", b"entity")
    time.sleep(pause)
    command(store, store_lines, b"SET", b"entity", body)
    for url in subscribers:
        told = http.client.HTTPConnection(url.hostname, url.port)
        told.request("POST", url.path or "/", body)
        told.getresponse().read()
        told.close()


if role == "store":
    server = socket.create_server(("127.0.0.1", port))
    print("ready", flush=True)
    while True:
        threading.Thread(target=keep, args=(server.accept()[0],), daemon=True).start()
if role == "front":
    behind = http.client.HTTPConnection("127.0.0.1", next_port)
    behind.connect()
    behind.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
else:
    store = socket.create_connection(("127.0.0.1", next_port))
    store_lines = store.makefile("rb")
http.server.ThreadingHTTPServer.request_queue_size = 64
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("ready", flush=True)
server.serve_forever()
"#;

/// A platform that runs before the program looks at it.
#[derive(Default)]
pub(crate) struct Platform {
    processes: Vec<Child>,
    ports: Vec<u16>,
}

impl Platform {
    /// The roles from the last to the first; `pause` is what the context broker does with each message, seconds.
    pub(crate) fn begin(bench: &Bench, pause: &str) -> Platform {
        let mut platform = Platform::default();
        for role in ["store", "context", "front"] {
            platform.add(bench, role, pause, |command| command);
        }
        platform
    }

    /// A role in front of those that are there; `place` puts its process where it shall run.
    pub(crate) fn add(&mut self, bench: &Bench, role: &str, pause: &str, place: impl Fn(Command) -> Command) {
        let script = bench.write("platform.py", PLATFORM);
        let port = free_port();
        let next = self.ports.last().copied().unwrap_or(0).to_string();
        let mut command = Command::new("python3");
        command.arg(&script).args([role, &port.to_string(), &next, pause]);
        self.put(started(place(command)), port);
    }

    /// A component that runs already, in front of those that are there.
    pub(crate) fn put(&mut self, process: Child, port: u16) {
        self.processes.push(process);
        self.ports.push(port);
    }

    /// The process and the port of a component, counted from the last one.
    pub(crate) fn component(&self, place: usize) -> (&Child, u16) {
        (&self.processes[place], self.ports[place])
    }

    pub(crate) fn scenario(&self, components: bool, hold: &str) -> String {
        let [store, context, front] = self.ports[..] else { panic!("three") };
        let listed = format!(
            ", components: [{{ name: front, port: {front} }}, {{ name: context, pid: {} }}, {{ name: store, port: {store} }}]",
            self.processes[1].id()
        );
        // Subscribers are made known to the component behind the first one.
        format!(
            "name: cause\nplatform: {{ profile: ./context.yaml, address: \"http://127.0.0.1:{front}\", ports: {{ context: {context} }}{} }}\n\
             population: {{ devices: 5, subscribers: 1 }}\nmessage: {{ size: 60, marker: ascii }}\n\
             load: {{ levels: [40], warm_up: 500ms, hold: {hold}, samples: 4, drain: 3s }}\n\
             objectives: {{ publish_p99: null, delivered: null, achieved: null }}\n",
            if components { listed } else { String::new() }
        )
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a program, and waits until it says that it is ready.
pub(crate) fn started(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready", "{command:?}");
    child
}

pub(crate) const PROFILE: &str = "name: context\ntitle: a context broker\ndescription: planted\nlimits: { all: none }\ncomponents: []\n\
    controller:\n  set_up:\n    - name: subscribe\n      each: subscriber\n      request:\n        port: context\n        path: /hooks\n\
    \x20       headers: { Content-Type: application/json }\n        body: '{\"url\":\"{listener}\"}'\n        expect: [201]\n\
    device:\n  speaks: http\n  marker: ascii\n  request: { path: /things, body: \"{message}\" }\n\
    subscriber:\n  listens: http\n  status: 204\n";

fn run(bench: &Bench, scenario: &str) -> Value {
    start(bench, scenario).finish().summary
}

pub(crate) fn start(bench: &Bench, scenario: &str) -> Started {
    bench.write("context.yaml", PROFILE);
    bench.start(bench.run_command(scenario).arg("--capture"))
}

pub(crate) fn hops(summary: &Value) -> Vec<(String, f64)> {
    let phases = summary["dissection"]["phases"].as_array().unwrap();
    let level = phases.iter().find(|phase| phase["measured"] == true).unwrap();
    let hops = level["ways"]["hops"].as_array().unwrap();
    hops.iter()
        .map(|hop| (hop["component"].as_str().unwrap().to_owned(), hop["share"].as_f64().unwrap()))
        .collect()
}

/// Who calls whom, and how often.
pub(crate) fn calls(summary: &Value, client: &str, server: &str) -> u64 {
    let services = summary["dissection"]["services"].as_array().unwrap();
    services
        .iter()
        .filter(|service| service["client"] == client && service["server"] == server)
        .map(|service| count(service, "count"))
        .sum()
}

/// A run in which that component, counted from the last one, is stopped for two seconds.
pub(crate) fn stopped_for_two_seconds(place: usize) -> Finished {
    let bench = Bench::new();
    let platform = Platform::begin(&bench, "0");
    let process = Pid::from_child(platform.component(place).0);
    let run = start(&bench, &platform.scenario(true, "8s"));
    bench.await_level(0);
    std::thread::sleep(Duration::from_secs(2));
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill_process(process, Signal::CONT).unwrap();
    run.finish()
}

/// A component, counted from the last one, is stopped for two seconds: it is named, and those who wait for it are not.
#[track_caller]
fn names_the_stopped_one(place: usize, name: &str) {
    let run = until_valid(|| stopped_for_two_seconds(place));
    let stalls = run.summary["dissection"]["stalls"].as_array().unwrap();
    let named: Vec<&Value> = stalls.iter().map(|stall| &stall["component"]).collect();
    assert!(named.contains(&&Value::from(name)), "{place}: {stalls:#?}");
    assert!(named.iter().all(|other| other.is_null() || *other == name), "{stalls:#?}");
}

#[test]
#[ignore = "acceptance: fiware"]
fn the_first_and_the_last_component_are_named_when_they_stand_still() {
    names_the_stopped_one(0, "store");
    names_the_stopped_one(2, "front");
}

/// Tests that measure.
mod alone {
    use super::*;

    /// The store answers at once, and returns the message before with each reading: it was blamed, and each of the notifications,
    /// over connections that live for a millisecond, had no owner.
    #[test]
    fn a_context_broker_that_reads_before_it_writes_is_named_and_its_store_is_not() {
        let bench = Bench::new();
        let platform = Platform::begin(&bench, "0.004");
        let summary = run(&bench, &platform.scenario(true, "4s"));
        let hops = hops(&summary);
        assert_eq!(hops[0].0, "context", "{hops:?}");
        // The front passes on one request at a time, so that some wait there for the context broker, more or fewer by chance.
        assert!(hops[0].1 > 0.5, "{hops:?}");
        let delivered = count(&summary["levels"][0], "delivered");
        assert!(
            delivered > 100 && calls(&summary, "context", "plimsoll") >= delivered,
            "{:#}",
            summary["dissection"]["services"]
        );
        assert_eq!(calls(&summary, "127.0.0.1", "plimsoll"), 0, "nobody is anonymous");
        assert_eq!(calls(&summary, "plimsoll", "plimsoll"), 0);
        let sampled: Vec<&str> =
            summary["components"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        for name in ["front", "context", "store"] {
            assert!(sampled.contains(&name), "{sampled:?}");
        }
        assert_eq!(summary["dissection"]["losses_by_component"], serde_json::json!({}));
    }

    #[test]
    fn a_component_that_stands_still_is_named() {
        names_the_stopped_one(1, "context");
    }

    #[test]
    fn what_cannot_be_found_is_said() {
        let bench = Bench::new();
        bench.write("context.yaml", PROFILE);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let scenario = |component: &str| {
            format!(
                "name: x\nplatform: {{ profile: existing, address: \"mqtt://127.0.0.1:{free}\", components: [{component}] }}\npopulation: {{ devices: 1 }}\nload: {{ levels: [1], hold: 1s }}\n"
            )
        };
        for (component, words, code) in [
            (format!("{{ name: a, port: {free} }}"), "listen at port", 1),
            ("{ name: a, pid: 4194303 }".into(), "no process 4194303", 1),
            ("{ name: a, unit: plimsoll-none }".into(), "plimsoll-none.service", 1),
            ("{ name: a, container: plimsoll-none }".into(), "no container plimsoll-none", 1),
            ("{ name: a }".into(), "which process that is", 104),
            ("{ name: generator, pid: 1 }".into(), "choose another name", 104),
            ("{ name: a, pid: 1, port: 1 }".into(), "which process that is", 104),
            ("{ name: a, pid: 1 }, { name: a, pid: 1 }".into(), "already", 104),
        ] {
            bench.write("x.yaml", &scenario(&component));
            let finished = bench.call(["run", "x.yaml", "-q"]).exits(code);
            assert!(
                format!("{}{}", finished.stdout, finished.stderr).replace("\n  ", " ").contains(words),
                "{component}"
            );
        }
    }
}
