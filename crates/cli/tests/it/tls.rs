//! TLS against the real Mosquitto, with certificates made here, and WebSocket against it through a door.

use crate::harness::{Bench, Finished, count, number};
use crate::http_service::HttpService;
use crate::mosquitto::Mosquitto;
use crate::websocket_door;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// An authority of the test's own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the authority's certificate to a file of the bench.
    pub fn write(&self, bench: &Bench, file: &str) {
        bench.write(file, &self.0.pem());
    }

    /// Writes a certificate for that name and its key to `NAME.pem` and `NAME.key`; `year` is the last it is valid in.
    pub fn sign(&self, bench: &Bench, name: &str, file: &str, year: i32) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        bench.write(&format!("{file}.pem"), &certificate.pem());
        bench.write(&format!("{file}.key"), &key.serialize_pem());
    }
}

/// A bench with an authority, a certificate `server` for localhost, and one `device` for clients.
pub fn bench() -> (Bench, Authority) {
    let (bench, authority) = (Bench::beside_others(), Authority::new("harbour"));
    authority.write(&bench, "ca.pem");
    authority.sign(&bench, "localhost", "server", 4000);
    authority.sign(&bench, "device", "device", 4000);
    (bench, authority)
}

/// A broker that shows that certificate, with further lines of configuration.
pub fn secured(bench: &Bench, certificate: &str, more: &str) -> Mosquitto {
    let path = |name: &str| bench.path(name).display().to_string();
    let (certificate, key) = (path(&format!("{certificate}.pem")), path(&format!("{certificate}.key")));
    let lines = format!("allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n{more}");
    Mosquitto::start(bench, &lines)
}

fn run(bench: &Bench, address: &str, tls: &str, load: &str) -> Finished {
    bench.run(&format!(
        "name: tls
platform: {{ profile: existing, address: \"{address}\" }}
population: {{ devices: 20, subscribers: 1 }}
mqtt: {{ {tls} }}
message: {{ size: 1000 }}
load: {{ {load}, warm_up: 200ms, hold: 1s, samples: 5, drain: 2s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
"
    ))
}

const LEVELS: &str = "levels: [500]";

/// What holds of every run that the platform took.
#[track_caller]
fn delivered(run: Finished) -> Finished {
    assert!([0, 3].map(Some).contains(&run.code), "{:?}\n{}\n{}", run.code, run.stdout, run.stderr);
    let level = run.level(0);
    let ends = ["sent", "acknowledged", "delivered"].map(|name| count(level, name));
    assert!(ends[0] > 300 && ends[1] == ends[0] && ends[2] == ends[0], "{level:#}");
    run
}

#[test]
fn messages_go_over_tls_and_the_bytes_on_the_wire_are_counted() {
    let (bench, _) = bench();
    let broker = secured(&bench, "server", "");
    let address = format!("mqtts://localhost:{}", broker.port());
    let run = delivered(run(&bench, &address, "tls: { ca: ca.pem }", LEVELS));
    assert_eq!(count(&run.summary["wire"], "handshakes"), 21, "{}", run.stdout);
    assert_eq!(count(&run.summary["wire"], "handshakes_resumed"), 0);
    let handshake = number(&run.summary, &["wire", "handshake_time", "p50"]);
    let connect = number(&run.summary, &["connect_time", "p50"]);
    assert!(0.0 < handshake && handshake < connect, "{handshake} is a part of {connect}");
    let level = run.level(0);
    // A record has 22 bytes more than what is in it (RFC 8446, 5.2 and 5.3), and the acknowledgements are records too.
    let clear = number(level, &["publication_size"]) * count(level, "sent") as f64;
    assert!(count(level, "bytes_sent") as f64 > clear + 22.0 * count(level, "sent") as f64, "{level:#}");
    // Five sample ends, 21 connections; a host that stalls may make one reading of several.
    let looked = level["wire"]["tcp_rtt"]["n"].as_u64().unwrap();
    assert!((21..=105).contains(&looked), "{level:#}");
    let round_trips = ["tcp_least_rtt", "tcp_rtt"].map(|name| number(level, &["wire", name, "p50"]));
    assert!(0.0 < round_trips[0] && round_trips[0] <= round_trips[1] && round_trips[1] < 1.0, "{level:#}");
    assert!(level["wire"]["tcp_retransmissions"].is_u64(), "{level:#}");
    run.says("21 TLS handshakes, 0 of them resumed");
}

/// The configuration of a server with that certificate.
fn server(bench: &Bench, certificate: &str) -> Arc<ServerConfig> {
    let read = |kind: &str| std::fs::read(bench.path(&format!("{certificate}.{kind}"))).unwrap();
    let chain = CertificateDer::pem_slice_iter(&read("pem")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(&read("key")).unwrap();
    Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap())
}

#[test]
fn messages_go_over_a_websocket_in_clear_and_secured() {
    let (bench, _) = bench();
    let broker = Mosquitto::start(&bench, "allow_anonymous true\n");
    let clear = websocket_door::open(broker.port(), None);
    let run_clear = delivered(run(&bench, &format!("ws://127.0.0.1:{clear}/mqtt"), "qos: 2", LEVELS));
    assert_eq!(count(&run_clear.summary["wire"], "handshakes"), 0);
    let level = run_clear.level(0);
    // A frame of 1000 bytes has a head of four bytes and a mask of four.
    let frames = (number(level, &["publication_size"]) + 8.0) * count(level, "sent") as f64;
    assert!(count(level, "bytes_sent") as f64 > frames, "{level:#}");
    let secured = websocket_door::open(broker.port(), Some(server(&bench, "server")));
    let address = format!("wss://localhost:{secured}/mqtt");
    let run_secured = delivered(run(&bench, &address, "version: 5, tls: { ca: ca.pem }", LEVELS));
    assert_eq!(count(&run_secured.summary["wire"], "handshakes"), 21);
    let address = format!("ws://127.0.0.1:{}/mqtt", broker.port());
    run(&bench, &address, "", LEVELS).exits(1).says("is it the port for");
}

/// Messages larger than the kernel's buffers wait half wrapped, and arrive whole and in order.
#[test]
fn large_messages_go_through_every_layer_whole() {
    let (bench, _) = bench();
    let broker =
        Mosquitto::start(&bench, "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n");
    let door = websocket_door::open(broker.port(), Some(server(&bench, "server")));
    let run = bench.run(&format!(
        "name: large
platform: {{ profile: existing, address: \"wss://localhost:{door}/mqtt\" }}
population: {{ devices: 3, subscribers: 1 }}
mqtt: {{ tls: {{ ca: ca.pem }} }}
message: {{ size: {{ choice: [{{ size: 1 MiB, weight: 1 }}, {{ size: 100 KiB, weight: 1 }}] }} }}
load: {{ model: closed, in_flight: [12], warm_up: 200ms, hold: 1500ms, samples: 5, drain: 5s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
"
    ));
    let level = run.level(0);
    let counts = ["lost", "reordered", "disconnected", "foreign"].map(|name| count(level, name));
    assert_eq!(counts, [0; 4], "{level:#}");
    assert!(count(level, "delivered") > 10, "{level:#}");
}

#[test]
fn clients_show_their_certificate_to_a_platform_that_asks() {
    let (bench, _) = bench();
    let ca = bench.path("ca.pem").display().to_string();
    let broker = secured(&bench, "server", &format!("require_certificate true\ncafile {ca}\n"));
    let address = format!("mqtts://localhost:{}", broker.port());
    let with = |tls: &str| run(&bench, &address, tls, LEVELS);
    delivered(with("tls: { ca: ca.pem, certificate: device.pem, key: device.key }"));
    with("tls: { ca: ca.pem }").exits(1).says("asks for a client certificate; give one by --cert FILE");
    let stranger = Authority::new("stranger");
    stranger.sign(&bench, "device", "strange", 4000);
    with("tls: { ca: ca.pem, certificate: strange.pem, key: strange.key }")
        .exits(1)
        .says("does not know the authority of our client certificate");
    with("tls: { ca: ca.pem, certificate: device.pem, key: strange.key }")
        .exits(104)
        .says("the key does not match the certificate");
    let keys = ["--ca", "ca.pem", "--cert", "device.pem", "--key", "strange.key"];
    let options = ["check", &address, "--devices", "1", "--rate", "1"];
    bench.call(options.iter().chain(&keys)).exits(104).says("the key does not match the certificate");
    bench.write("x.yaml", &format!(
        "name: x\nplatform: {{ profile: existing, address: \"{address}\" }}\npopulation: {{ devices: 1 }}\nload: {{ levels: [1] }}\n\
         connection: {{ tls: {{ certificate: device.pem, key: strange.key }} }}\n"
    ));
    bench.call(["check", "x.yaml"]).exits(104).says("the key does not match the certificate");
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_with_the_remedy() {
    let (bench, authority) = bench();
    authority.sign(&bench, "localhost", "old", 2001);
    Authority::new("stranger").write(&bench, "stranger.pem");
    let broker = secured(&bench, "server", "");
    let at = |host: &str| format!("mqtts://{host}:{}", broker.port());
    let with = |host: &str, tls: &str| run(&bench, &at(host), tls, LEVELS);
    with("localhost", "tls: { ca: stranger.pem }")
        .exits(1)
        .says("give the certificate of its authority by --ca FILE");
    with("127.0.0.1", "tls: { ca: ca.pem }").exits(1).says("not for the name 127.0.0.1");
    delivered(with("127.0.0.1", "tls: { ca: ca.pem, server_name: localhost }"));
    delivered(with("127.0.0.1", "tls: { verify: false }"));
    let old = secured(&bench, "old", "");
    let address = format!("mqtts://localhost:{}", old.port());
    run(&bench, &address, "tls: { ca: ca.pem }", LEVELS).exits(1).says("certificate has expired");
    let plain = Mosquitto::start(&bench, "allow_anonymous true\n");
    let address = format!("mqtts://localhost:{}", plain.port());
    run(&bench, &address, "tls: { ca: ca.pem }", LEVELS).exits(1).says("is it the port for");
}

/// The lines of docs/mqtt.md that make an authority and a certificate of a server, done in the bench's folder.
fn certificates_of_the_documents(bench: &Bench) {
    let page = include_str!("../../../../docs/mqtt.md");
    let (_, rest) = page.split_once("### A certificate of your own").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let lines = section.lines().filter(|line| line.starts_with("    "));
    openssl(bench, &lines.collect::<Vec<_>>().join("\n"));
}

fn openssl(bench: &Bench, lines: &str) {
    let mut shell = std::process::Command::new("sh");
    let done = shell.args(["-euc", lines]).current_dir(bench.path("")).output().unwrap();
    assert!(done.status.success(), "{lines}\n{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_certificate_that_the_documents_make_is_trusted() {
    let bench = Bench::beside_others();
    certificates_of_the_documents(&bench);
    let broker = secured(&bench, "server", "");
    for host in ["localhost", "127.0.0.1"] {
        let address = format!("mqtts://{host}:{}", broker.port());
        delivered(run(&bench, &address, "tls: { ca: ca.pem }", LEVELS));
    }
}

/// `openssl x509 -req` without extensions makes version 1, which the library refuses by a name of its own.
#[test]
fn a_certificate_of_version_1_is_told_in_words_and_taken_unchecked() {
    let bench = Bench::beside_others();
    certificates_of_the_documents(&bench);
    openssl(
        &bench,
        "openssl req -newkey rsa:2048 -nodes -keyout first.key -subj /CN=localhost -out first.csr
         openssl x509 -req -in first.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -out first.pem",
    );
    let broker = secured(&bench, "first", "");
    let address = format!("mqtts://localhost:{}", broker.port());
    let refused = run(&bench, &address, "tls: { ca: ca.pem }", LEVELS).exits(1);
    let refused = refused.says("X.509 version 1").says("version 3").says("--insecure");
    assert!(!refused.stderr.contains("UnsupportedCertVersion"), "{}", refused.stderr);
    delivered(run(&bench, &address, "tls: { verify: false }", LEVELS));
}

/// Each level connects the population anew: in the second, every device has a ticket.
#[test]
fn a_client_that_comes_back_resumes_its_session() {
    let (bench, _) = bench();
    let broker = secured(&bench, "server", "");
    let address = format!("mqtts://localhost:{}", broker.port());
    let load = "connect_rates: [50, 50]";
    let of_levels = |run: &Finished| {
        run.levels()
            .iter()
            .map(|level| (count(&level["wire"], "handshakes"), count(&level["wire"], "handshakes_resumed")))
            .collect::<Vec<_>>()
    };
    let resumed = run(&bench, &address, "tls: { ca: ca.pem }", load);
    assert_eq!(of_levels(&resumed), [(20, 0), (20, 20)], "{}", resumed.stdout);
    let anew = run(&bench, &address, "tls: { ca: ca.pem, resumption: false }", load);
    assert_eq!(of_levels(&anew), [(20, 0), (20, 0)], "{}", anew.stdout);
}

#[test]
fn websocket_alone_goes_over_tls() {
    let (bench, _) = bench();
    let address = format!("wss://localhost:{}/in", websocket_door::echo(server(&bench, "server")));
    let run = bench.run(&format!(
        "name: secured websocket
platform: {{ profile: existing, address: \"{address}\", protocol: websocket }}
population: {{ devices: 20 }}
mqtt: {{ tls: {{ ca: ca.pem }} }}
message: {{ size: 1000, marker: ascii }}
load: {{ {LEVELS}, warm_up: 200ms, hold: 1s, samples: 5, drain: 2s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null, publish_p50: \"< 10 s\" }}
"
    ));
    let level = run.level(0);
    let sent = count(level, "sent");
    assert!(sent > 300, "{level:#}");
    assert_eq!(["acknowledged", "foreign"].map(|name| count(level, name)), [sent, 0]);
    assert_eq!(count(&run.summary["wire"], "handshakes"), 20, "{}", run.stdout);
}

/// Devices and controller secure their requests alike; of a platform that a stranger has signed for, nothing is asked.
#[test]
fn requests_over_https_are_secured_and_checked() {
    let (bench, _) = bench();
    let service = HttpService::secured(server(&bench, "server"));
    let scenario = |ca: &str| {
        format!(
            "name: https\nplatform: {{ profile: ./things.yaml, address: \"https://localhost:{}\" }}\n\
             population: {{ devices: 4, subscribers: 1 }}\n\
             mqtt: {{ tls: {{ ca: {ca} }} }}\n\
             load: {{ model: closed, in_flight: [4], hold: 1s, samples: 2, warm_up: 0s }}\n\
             objectives: {{ delivered: \">= 99 %\" }}\n",
            service.port()
        )
    };
    bench.write("things.yaml", crate::roles::PROFILE);
    let finished = bench.run(&scenario("ca.pem")).judged();
    let level = finished.level(0);
    assert!(count(level, "sent") > 0);
    assert_eq!(count(level, "delivered"), count(level, "sent"));
    assert_eq!(finished.summary["wire"]["handshakes"].as_u64(), Some(4), "{:#}", finished.summary["wire"]);
    // TLS 1.3: five bytes of header, one of the content's type, sixteen of the tag (RFC 8446 section 5.2). The server sends
    // tickets, too, which secure nothing of ours, so that answers cost a little more.
    let sizes = &level["sizes"];
    let whole = number(level, &["publication_size"]);
    assert!((number(sizes, &["record_sent"]) - whole - 22.0).abs() < 0.5, "{sizes:#}");
    assert!((22.0..24.0).contains(&number(sizes, &["record_overhead"])), "{sizes:#}");
    assert_eq!(number(sizes, &["request", "security"]), number(sizes, &["record_overhead"]));
    assert!(sizes["notification"]["security"].is_null(), "notifications come in clear");
    Authority::new("elsewhere").write(&bench, "other.pem");
    bench.run(&scenario("other.pem")).exits(1).says("step `register things`");
}
