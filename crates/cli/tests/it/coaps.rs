//! CoAP over DTLS with pre-shared keys or certificates, against libcoap's server.

use crate::coap::PROFILE;
use crate::harness::{Bench, count, number, sent};
use crate::libcoap::Libcoap;
use crate::tls;

/// One identity and key for all.
const SHARED: [&str; 4] = ["-h", "CoAP", "-k", "sesame"];

fn scenario(server: &Libcoap, dtls: &str, more: &str) -> String {
    let port = server.port() + 1;
    format!(
        "name: secured\nplatform: {{ profile: ./resources.yaml, address: \"coaps://127.0.0.1:{port}\" }}\n\
         coap: {{ dtls: {{ {dtls} }}, ack_timeout: 200ms, max_retransmit: 2 }}\n\
         mqtt: {{ connect_timeout: 2s }}\n{more}"
    )
}

const SHORT: &str = "population: { devices: 2 }\n\
    load: { arrivals: constant, levels: [20], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }\n";

fn bench() -> Bench {
    let bench = Bench::beside_others();
    bench.write("resources.yaml", PROFILE);
    bench
}

#[test]
fn each_client_has_a_session_with_its_own_identity_and_key() {
    let bench = bench();
    let lines =
        ["device-0,key 0", "device-1,key 1", "watcher-0,key of 0"].map(|line| format!("CoAP,{line}\n"));
    let keys = bench.write("keys", &lines.concat());
    let server = Libcoap::secured(&["-h", "CoAP", "-k", "unused", "-i", keys.to_str().unwrap()]);
    (0..2).for_each(|device| server.put(&format!("d{device}")));
    // The devices' keys in hexadecimal.
    let dtls = "identity: \"device-{device}\", key: \"0x6b6579203{device}\", \
        subscriber_identity: \"watcher-{subscriber}\", subscriber_key: \"key of {subscriber}\"";
    let more =
        SHORT.replace("devices: 2", "devices: 2, subscribers: 1") + "objectives: { delivered: \">= 1 %\" }\n";
    let finished = bench.run(&scenario(&server, dtls, &more));
    let level = finished.level(0);
    let sent = sent(level, 18..=20);
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    assert!(count(level, "delivered") >= 2, "{finished:?}");
    for nothing in ["lost", "duplicated", "reordered", "foreign", "refused"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 3, "{finished:?}");
    assert_eq!(count(&finished.summary["wire"]["handshake_time"], "n"), 3, "{finished:?}");
    // A record has 29 bytes more than what is in it (RFC 6347 section 4.1, RFC 6655 section 3).
    let clear = number(level, &["publication_size"]) * sent as f64;
    assert!(count(level, "bytes_sent") as f64 >= clear + 29.0 * sent as f64, "{level:#}");
}

/// The server knows clients by the authority of their certificates, and they know it by its own.
#[test]
fn certificates_say_who_is_who() {
    let (bench, authority) = tls::bench();
    bench.write("resources.yaml", PROFILE);
    authority.sign(&bench, "127.0.0.1", "harbour", 4000);
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let start = |ca: &str| {
        Libcoap::secured(&["-c", &path("harbour.pem"), "-j", &path("harbour.key"), "-C", &path(ca)])
    };
    let tls = "certificate: device.pem, key: device.key";
    let of = |server: &Libcoap, ca: &str| {
        let text = scenario(server, "", SHORT).replace("dtls: {  }, ", "");
        bench
            .run(&text.replace("mqtt: {", &format!("connection: {{ tls: {{ ca: {ca}, {tls} }} }}\nmqtt: {{")))
    };
    let server = start("ca.pem");
    let finished = of(&server, "ca.pem");
    let level = finished.level(0);
    assert_eq!(count(level, "acknowledged"), count(level, "due"), "{finished:?}");
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 2, "{finished:?}");
    drop(server);

    tls::Authority::new("another harbour").write(&bench, "another.pem");
    of(&start("another.pem"), "ca.pem").exits(1).says("refused the client's certificate");
}

#[test]
#[ignore = "acceptance: faults"]
fn a_wrong_key_ends_the_run_with_what_to_do() {
    let bench = bench();
    let server = Libcoap::secured(&SHARED);
    let finished = bench.run(&scenario(&server, "identity: device, key: another", SHORT)).exits(1);
    finished.says("has another key for it").says("`coap.dtls`");
    // The port in clear does not speak DTLS.
    let clear = scenario(&server, "identity: device, key: sesame", SHORT)
        .replace(&(server.port() + 1).to_string(), &server.port().to_string());
    bench.run(&clear).exits(1).says("nobody answers the DTLS handshake");
}

#[test]
fn the_key_may_come_from_the_environment_and_is_not_kept() {
    let bench = bench();
    let server = Libcoap::secured(&SHARED);
    let text = scenario(&server, "identity: device, key: { env: COAP_KEY }", SHORT);
    let missing = bench.run(&text).exits(104);
    missing.says("the environment variable `COAP_KEY` is not set");
    let mut command = bench.run_command(&text);
    let finished = bench.start(command.env("COAP_KEY", "sesame")).finish();
    assert_eq!(count(finished.level(0), "acknowledged"), count(finished.level(0), "due"), "{finished:?}");
}

#[test]
fn a_server_that_lost_its_sessions_gets_new_ones_and_nothing_counts_twice() {
    let bench = bench();
    let mut server = Libcoap::secured(&SHARED);
    let more = "population: { devices: 3 }\n\
        load: { arrivals: constant, levels: [60], hold: 6s, samples: 3, warm_up: 0s, drain: 3s }\n";
    let text = scenario(&server, "identity: device, key: sesame", more);
    let run = bench.start(&mut bench.run_command(&text));
    bench.await_count(0, "acknowledged");
    server.restart(&SHARED);
    let finished = run.finish();
    let level = finished.level(0);
    let (due, sent, acknowledged) = (count(level, "due"), count(level, "sent"), count(level, "acknowledged"));
    assert_eq!(sent + count(level, "unsent"), due, "{finished:?}");
    // What was on its way then got no answer; what came after the new handshakes did.
    assert!(acknowledged < sent && acknowledged > due / 3, "{finished:?}");
    // A device is told by ICMP, or notices that nobody answers over its session.
    assert_eq!((count(level, "disconnected"), count(level, "reconnects")), (3, 3), "{finished:?}");
    assert_eq!(count(&level["wire"], "handshakes"), 3, "{finished:?}");
}
