//! TLS on the wire: a run opens what its own clients say, and captures of other people's programs are opened with the key logs
//! that these write, as tshark opens them.

use crate::harness::{Bench, count};
use crate::tls::{bench, secured};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Dissects with further arguments; the summary.
fn dissect(bench: &Bench, file: &Path, arguments: &[&str]) -> Value {
    let file = file.display().to_string();
    let fixed = ["dissect", &file, "-q", "--summary-json", "out.json"];
    let finished = bench.call(fixed.iter().chain(arguments)).exits(0);
    assert!(finished.stdout.lines().all(|line| line.chars().count() <= 80), "{}", finished.stdout);
    json(&bench.path("out.json"))
}

/// How many packets or messages tshark finds by a field, with that key log.
fn tshark(file: &Path, keys: &Path, port: u16, protocol: &str, filter: &str, field: &str) -> u64 {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-o", &format!("tls.keylog_file:{}", keys.display())])
        .args(["-d", &format!("tcp.port=={port},tls"), "-d", &format!("tls.port=={port},{protocol}")])
        .args(["-Y", filter, "-T", "fields", "-e", field])
        .output()
        .expect("tshark is not installed: apt-get install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().flat_map(|line| line.split(',')).filter(|word| !word.is_empty()).count() as u64
}

/// The only file of the folder whose name ends so.
fn only(folder: &Path, end: &str) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> =
        paths.filter(|path| path.file_name().unwrap().to_string_lossy().contains(end)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_run_opens_what_its_own_clients_say() {
    let (bench, _) = bench();
    let broker = secured(&bench, "server", "");
    let port = broker.port();
    let scenario = |record: &str| {
        format!(
            "name: wire of tls\nplatform: {{ profile: existing, address: \"mqtts://localhost:{port}\" }}\n\
             population: {{ devices: 5, subscribers: 1 }}\nmqtt: {{ tls: {{ ca: ca.pem }} }}\n\
             message: {{ size: 100, marker: ascii }}\n\
             load: {{ levels: [100], warm_up: 0s, hold: 2s, samples: 2, drain: 2s }}\n\
             record: {{ {record} }}\n\
             objectives: {{ delivered: null, achieved: null, publish_p99: null }}\n"
        )
    };
    let run = bench.run(&scenario("capture: { interface: lo, keep: kept }")).judged();
    let (dissection, level) = (&run.summary["dissection"], run.level(0));
    let sent = count(level, "sent");
    let publishes = count(&dissection["protocols"]["mqtt"]["by_verb"]["PUBLISH"], "count");
    assert_eq!(publishes, sent + count(level, "delivered"), "{dissection:#}");
    let tls = &dissection["tls"];
    assert_eq!(count(tls, "opened"), 6, "{tls:#}");
    // The probe of the network connects and says nothing, to which the broker may say goodbye.
    assert!(tls["unopened"].as_object().unwrap().keys().all(|reason| reason == "unfinished"), "{tls:#}");
    assert_eq!(count(&dissection["messages"], "marked"), sent, "markers are found under TLS");
    // Beside what is kept are the keys, for their owner alone.
    let (file, keys) = (only(&bench.path("kept"), ".pcap"), only(&bench.path("kept"), "keys.log"));
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(dissection["notes"].to_string().contains("keys.log"), "{dissection:#}");
    let shown = keys.display().to_string();
    let name = format!("broker=:{port}");
    let read = dissect(&bench, &file, &["--keys", &shown, "--name", &name]);
    assert_eq!(count(&read["protocols"]["mqtt"]["by_verb"]["PUBLISH"], "count"), publishes);
    assert_eq!(tshark(&file, &keys, port, "mqtt", "mqtt.msgtype==3", "mqtt.topic"), publishes);
    // Without keys it is said why nothing was read.
    let closed = dissect(&bench, &file, &[]);
    assert_eq!((count(&closed["tls"], "opened"), &closed["tls"]["unopened"]["no_key"]), (0, &Value::from(6)));
    assert!(closed["protocols"]["mqtt"].is_null() && count(&closed["protocols"]["tls"], "bytes") > 0);
    // A pcapng file may carry them itself.
    let carrying = bench.path("carrying.pcapng");
    let injected = Command::new("editcap")
        .args(["--inject-secrets", &format!("tls,{shown}")])
        .args([&file, &carrying])
        .status()
        .expect("editcap is not installed: apt-get install tshark");
    assert!(injected.success());
    let carried = dissect(&bench, &carrying, &[]);
    assert_eq!(carried["protocols"]["mqtt"]["by_verb"], read["protocols"]["mqtt"]["by_verb"]);
    // What is not kept leaves no keys anywhere.
    let passing = bench.run(&scenario("capture: { interface: lo }")).judged();
    assert_eq!(count(&passing.summary["dissection"]["tls"], "opened"), 6);
    assert_eq!(passing.summary["dissection"]["notes"], serde_json::json!([]));
}

/// A server and clients of Python's, which log their keys: connections of TLS 1.2 and 1.3, new and resumed, of 1 to 8 requests each.
const TALK: &str = r#"
import http.client, http.server, socket, ssl, sys, threading
port, certificate, key, ca, log = int(sys.argv[1]), *sys.argv[2:]

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * int(self.path.rsplit("/", 1)[1])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()

for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
    for cipher in ["ECDHE+AES128+AESGCM", "ECDHE+AES256+AESGCM", "ECDHE+CHACHA20"]:
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = context.maximum_version = version
        context.set_ciphers(cipher)
        context.keylog_filename = log
        session = None
        for requests in range(1, 9):
            connection = http.client.HTTPSConnection("localhost", port)
            connection.sock = context.wrap_socket(
                socket.create_connection(("127.0.0.1", port)), server_hostname="localhost", session=session)
            for number in range(requests):
                connection.request("GET", "/size/%d" % (number * 9000))
                connection.getresponse().read()
            session = connection.sock.session
            connection.close()
server.shutdown()
"#;

#[test]
fn a_capture_of_other_programs_is_opened_with_their_key_log() {
    let (bench, _) = bench();
    bench.write("talk.py", TALK);
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let filter = format!("tcp port {port}");
    let arguments = ["capture", "--interface", "lo", "--filter", &filter, "--out", "c.pcap"];
    let capturing = bench.start(&mut bench.plimsoll(arguments));
    let (file, keys) = (bench.path("c.pcap"), bench.path("keys.log"));
    capturing.await_capture();
    let talked = bench
        .in_folder("python3")
        .args(["talk.py", &port.to_string(), "server.pem", "server.key", "ca.pem", "keys.log"])
        .output()
        .expect("python3 is not installed: apt-get install python3");
    assert!(talked.status.success(), "{}", String::from_utf8_lossy(&talked.stderr));
    capturing.signal(Signal::INT);
    capturing.finish().exits(0);
    let summary = dissect(&bench, &file, &["--keys", "keys.log"]);
    let http = &summary["protocols"]["http"];
    // Two versions, three suites, 1 to 8 requests a connection.
    assert_eq!((count(http, "requests"), count(http, "responses")), (216, 216), "{summary:#}");
    assert_eq!(tshark(&file, &keys, port, "http", "http.request", "http.request.method"), 216);
    let tls = &summary["tls"];
    assert_eq!((count(tls, "conversations"), count(tls, "opened")), (48, 48), "{tls:#}");
    // Lines that are none are told, and do no harm.
    let log = fs::read_to_string(&keys).unwrap();
    fs::write(&keys, format!("CLIENT_RANDOM 12 34\n{log}")).unwrap();
    let summary = dissect(&bench, &file, &["--keys", "keys.log"]);
    assert_eq!(count(&summary["protocols"]["http"], "requests"), 216);
    assert!(summary["notes"][0].as_str().unwrap().starts_with("keys.log, line 1: "), "{summary:#}");
    bench.call(["dissect", "c.pcap", "--keys", "absent.log"]).exits(1).says("absent.log");
    bench.call(["dissect", "c.pcap", "--keys", "k", "--summary-json", "k"]).exits(104);
}
