//! Platforms that know devices by their certificates, and emulated networks under TLS and WebSocket.

use crate::harness::{Bench, Finished, count, number};
use crate::mosquitto::Mosquitto;
use crate::tls::{bench, secured};
use crate::websocket_door;

fn run(bench: &Bench, address: &str, population: &str, mqtt: &str) -> Finished {
    bench.run(&format!(
        "name: own
platform: {{ profile: existing, address: \"{address}\" }}
population: {{ devices: 5, {population} }}
mqtt: {{ topic: \"own/{{run}}/{{device}}\", {mqtt} }}
load: {{ levels: [200], warm_up: 200ms, hold: 1s, samples: 5, drain: 2s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
"
    ))
}

/// The broker lets a device write to its own topic alone, and knows it by its certificate.
#[test]
#[ignore = "acceptance: peers"]
fn each_device_shows_its_own_certificate() {
    let (bench, authority) = bench();
    let mut access = String::new();
    for device in 0..5 {
        authority.sign(&bench, &format!("device-{device}"), &format!("device-{device}"), 4000);
        access += &format!("user device-{device}\ntopic write own/+/{device}\n");
    }
    for subscriber in 0..2 {
        authority.sign(&bench, &format!("crew-{subscriber}"), &format!("crew-{subscriber}"), 4000);
        access += &format!("user crew-{subscriber}\ntopic read own/#\n");
    }
    let (access, ca) = (bench.write("access", &access), bench.path("ca.pem"));
    let lines = "require_certificate true\nuse_identity_as_username true\n";
    let lines = format!("{lines}cafile {}\nacl_file {}\n", ca.display(), access.display());
    let broker = secured(&bench, "server", &lines);
    let address = format!("mqtts://localhost:{}", broker.port());
    let of_devices = "certificate: \"device-{device}.pem\", key: \"device-{device}.key\"";
    let of_crew =
        "subscriber_certificate: \"crew-{subscriber}.pem\", subscriber_key: \"crew-{subscriber}.key\"";
    let with = |tls: &str| {
        run(&bench, &address, "subscribers: 2", &format!("version: 5, tls: {{ ca: ca.pem, {tls} }}"))
    };
    let own = with(&format!("{of_devices}, {of_crew}"));
    let level = own.level(0);
    let sent = count(level, "sent");
    assert!(sent > 100, "{level:#}");
    let found = ["acknowledged", "refused", "delivered", "lost"].map(|name| count(level, name));
    assert_eq!(found, [sent, 0, 2 * sent, 0], "{level:#}");

    // With one certificate for all, four of five devices are refused.
    let one = with(&format!("certificate: device-3.pem, key: device-3.key, {of_crew}"));
    let level = one.level(0);
    let (sent, refused) = (count(level, "sent"), count(level, "refused"));
    assert!(refused > sent / 2 && refused < sent, "{level:#}");

    std::fs::remove_file(bench.path("device-2.key")).unwrap();
    with(&format!("{of_devices}, {of_crew}"))
        .exits(104)
        .says("cannot read `device-2.key`")
        .says("scenario.yaml:4");
    std::fs::copy(bench.path("device-1.key"), bench.path("device-2.key")).unwrap();
    with(&format!("{of_devices}, {of_crew}"))
        .exits(104)
        .says("device 2: the client certificate and its key cannot be used");
}

/// A message and its acknowledgement each take 25 ms more, whatever lies between MQTT and TCP, and so does each way of
/// a handshake.
#[test]
fn a_link_delays_what_goes_over_tls_and_over_a_websocket() {
    let (bench, _) = bench();
    let link = "link: { delay: 25ms, jitter: 0s }";
    let far = &format!("{link}, subscribers: {{ count: 2, {link} }}");
    let broker = secured(&bench, "server", "");
    let address = format!("mqtts://localhost:{}", broker.port());
    let over_tls = run(&bench, &address, far, "tls: { ca: ca.pem }");
    let plain = Mosquitto::start(&bench, "allow_anonymous true\n");
    let door = websocket_door::open(plain.port(), None);
    let over_websocket = run(&bench, &format!("ws://127.0.0.1:{door}/mqtt"), far, "qos: 1");
    for run in [&over_tls, &over_websocket] {
        let level = run.level(0);
        let sent = count(level, "sent");
        let found = ["acknowledged", "delivered", "lost"].map(|name| count(level, name));
        assert_eq!(found, [sent, 2 * sent, 0], "{level:#}");
        let fastest = number(level, &["publish_time_from_send", "p25"]);
        assert!(fastest >= 0.0499, "there and back: {fastest}");
        // TCP's handshake, that of TLS or WebSocket, and MQTT's.
        let connect = number(&run.summary, &["connect_time", "mean"]);
        assert!(connect >= 0.1499, "three times there and back: {connect}");
    }
}
