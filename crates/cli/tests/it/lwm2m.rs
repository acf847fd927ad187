//! LwM2M against the target that comes along: the ledger is that of the target's record, also where datagrams are lost.

use crate::fiware_shape::platform::Network;
use crate::harness::{Bench, Finished, count, sent};
use crate::tls;
use plimsoll_codec::marker::Marker;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A target that runs until it is dropped.
struct Target {
    child: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

impl Target {
    fn start(bench: &Bench, options: &[&str]) -> Target {
        let arguments = ["target", "lwm2m", "--record", "record.csv"].iter().chain(options);
        Target::started(bench.plimsoll(arguments))
    }

    fn started(mut command: Command) -> Target {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let address = next(&mut lines, "listening on ");
        Target { child, address, lines }
    }

    /// The port at which it bootstraps devices.
    fn bootstrap_port(&mut self) -> u16 {
        let address = next(&mut self.lines, "bootstrapping devices on ");
        let (_, address) = address.split_once("://").unwrap();
        address.parse::<SocketAddr>().unwrap().port()
    }

    /// Ends it as a user would.
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// What stands behind these words in the next line.
fn next(lines: &mut impl BufRead, words: &str) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim().strip_prefix(words).unwrap_or_else(|| panic!("{line}")).to_owned()
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scenario(address: &str, more: &str) -> String {
    format!(
        "name: lwm2m\nplatform: {{ profile: lwm2m, address: \"{address}\" }}\n\
         population: {{ devices: 40 }}\nmessage: {{ size: 20 }}\n\
         load: {{ arrivals: constant, levels: [80], hold: 2s, samples: 2, warm_up: 0s, drain: 5s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }}\n{more}\n"
    )
}

/// How often each kind of line stands in the record, and how often each message was notified.
fn record(path: &Path) -> (BTreeMap<String, u64>, BTreeMap<(u32, u32), u64>) {
    let (mut lines, mut messages) = (BTreeMap::new(), BTreeMap::new());
    for line in fs::read_to_string(path).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        *lines.entry(fields[1].to_owned()).or_default() += 1;
        if ["notified", "sent"].contains(&fields[1]) && fields[3] == "/19/0/0" {
            let digits: Vec<u8> = (0..fields[5].len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&fields[5][at..at + 2], 16).unwrap())
                .collect();
            let marker = Marker::read_binary(&digits).unwrap();
            assert_eq!(fields[2], format!("plimsoll-{}", marker.device), "{line}");
            *messages.entry((marker.device, marker.sequence)).or_default() += 1;
        }
    }
    (lines, messages)
}

/// The ledger is that of the record: each message was sent, acknowledged and notified once. The lines of the record.
#[track_caller]
fn exact(bench: &Bench, finished: &Finished) -> BTreeMap<String, u64> {
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    // Of each population the first or last one may fall out of the hold.
    assert!((156..=160).contains(&sent), "{finished:?}");
    assert_eq!((count(level, "acknowledged"), messages.len() as u64), (sent, sent), "{lines:?}");
    assert!(messages.values().all(|times| *times == 1), "{lines:?}");
    lines
}

#[test]
fn what_the_ledger_says_is_what_the_server_recorded() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &[]);
    let finished = bench.run(&scenario(&target.address, ""));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = sent(level, 158..=160);
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    for nothing in ["refused", "retransmitted", "foreign"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    for (what, expected) in [("registered", 40), ("observed", 40), ("notified", sent), ("deregistered", 40)] {
        assert_eq!(lines.get(what), Some(&expected), "{what}: {lines:?}");
    }
    assert_eq!(messages.len() as u64, sent);
    assert!(messages.values().all(|times| *times == 1));
}

#[test]
fn lost_datagrams_are_repeated_and_each_message_counts_once() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &["--lose-every", "7", "--format", "senml-cbor"]);
    let finished = bench.run(&scenario(&target.address, "coap: { ack_timeout: 100ms }"));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    assert!(count(level, "retransmitted") > sent / 20, "{finished:?}");
    assert_eq!(messages.len() as u64, sent, "{lines:?}");
    assert!(messages.values().all(|times| *times == 1));
}

#[test]
fn devices_that_are_bootstrapped_download_firmware_while_they_notify() {
    let bench = Bench::beside_others();
    let mut target = Target::start(&bench, &["--bootstrap-port", "0", "--firmware", "20480"]);
    let port = target.bootstrap_port();
    let text = scenario(&target.address, "lwm2m: { bootstrap: true, firmware: {} }")
        .replace("lwm2m, address", &format!("lwm2m, ports: {{ bootstrap: {port} }}, address"));
    let finished = bench.run(&text);
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!((count(level, "acknowledged"), messages.len() as u64), (sent, sent), "{finished:?}");
    assert_eq!((lines.get("registered"), lines.get("downloaded")), (Some(&40), Some(&40)), "{lines:?}");
    let management = &level["management"];
    for (key, expected) in
        [("observed", 40), ("unobserved", 0), ("downloads", 40), ("download_bytes", 40 * 20_480)]
    {
        assert_eq!(count(management, key), expected, "{key}: {management}");
    }
    assert_eq!(count(&management["download_time"], "n"), 40, "{management}");
}

#[test]
fn what_devices_send_of_themselves_is_what_the_server_recorded() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &["--lose-every", "9", "--observe", "3/0/0"]);
    let more = "lwm2m: { version: 1.1, send: true }\ncoap: { ack_timeout: 100ms }";
    let finished = bench.run(&scenario(&target.address, more));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!((count(level, "acknowledged"), messages.len() as u64), (sent, sent), "{finished:?} {lines:?}");
    assert!(messages.values().all(|times| *times == 1), "{lines:?}");
    assert_eq!(lines.get("notified"), None);
}

#[test]
fn values_that_change_are_notified_beside_messages() {
    let bench = Bench::beside_others();
    let observed = ["--observe", "19/0/0", "--observe", "3303/0/5700", "--format", "senml-json"];
    let target = Target::start(&bench, &observed);
    let walk = "lwm2m: { resources: { 3303/0/5700: { walk: { min: 0, max: 90, step: 1, every: 200ms } } } }";
    let finished = bench.run(&scenario(&target.address, walk));
    target.end();
    let level = finished.level(0);
    let lines = fs::read_to_string(bench.path("record.csv")).unwrap();
    let values =
        lines.lines().filter(|line| line.contains(",notified,") && line.contains("/3303/0/5700")).count();
    let counted = count(&level["management"], "value_notifications");
    // The record has those before and after the hold, too.
    assert!((350..=440).contains(&counted) && values as u64 >= counted, "{counted} of {values}");
    assert_eq!(count(level, "acknowledged"), count(level, "sent"), "{finished:?}");
}

/// The numbers of a population begin behind those of the one before, and so do its addresses.
#[test]
fn devices_of_a_second_population_are_heard() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &[]);
    let each = |name: &str| format!("  - {{ name: {name}, devices: 20, load: {{ share: 1 }} }}\n");
    let populations = format!("populations:\n{}{}", each("north"), each("south"));
    let text = scenario(&target.address, "").replace("population: { devices: 40 }\n", &populations);
    let finished = bench.run(&text);
    target.end();
    assert_eq!(exact(&bench, &finished).get("registered"), Some(&40), "{finished:?}");
}

/// The kernel of a network of its own drops a share of all datagrams, whosever they are.
#[test]
#[ignore = "acceptance: faults"]
fn datagrams_that_a_network_drops_are_sent_again() {
    let (bench, network) = (Bench::beside_others(), Network::new());
    let chain = "type filter hook input priority 0\nmeta l4proto udp numgen random mod 100 < 15 drop\n";
    let mut filter = Command::new("nft");
    filter.arg(format!("table inet planted {{\nchain way {{\n{chain}}}\n}}"));
    assert!(
        network.within(&bench, &filter).status().unwrap().success(),
        "nftables is installed by scripts/peers"
    );
    let arguments = ["target", "lwm2m", "--record", "record.csv"];
    let target = Target::started(network.within(&bench, &bench.plimsoll(arguments)));
    let run =
        bench.run_command(&scenario(&target.address, "coap: { ack_timeout: 200ms, max_retransmit: 6 }"));
    let finished = bench.start(&mut network.within(&bench, &run)).finish().judged();
    target.end();
    exact(&bench, &finished);
    // Of 160 exchanges, 28 % lose one of their two datagrams at first.
    let again = count(finished.level(0), "retransmitted");
    assert!((10..150).contains(&again), "{again}: {finished:?}");
}

/// Each device has a socket, and others have taken most of the ports of this host.
#[test]
#[ignore = "acceptance: faults"]
fn a_host_without_a_free_port_is_a_reason() {
    let (bench, network) = (Bench::beside_others(), Network::new());
    let mut few = bench.in_folder("sh");
    few.args(["-c", "echo 20000 20044 > /proc/sys/net/ipv4/ip_local_port_range"]);
    assert!(network.within(&bench, &few).status().unwrap().success());
    let mut others = bench.in_folder("python3");
    let taking = "s = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(20)]; [one.bind(('127.0.0.1', 0)) for one in s]";
    others
        .args(["-c", &format!("import socket, time; {taking}; print('taken', flush=True); time.sleep(60)")]);
    let mut others = network.within(&bench, &others).stdout(Stdio::piped()).spawn().unwrap();
    next(&mut BufReader::new(others.stdout.take().unwrap()), "taken");
    let target = Target::started(network.within(&bench, &bench.plimsoll(["target", "lwm2m"])));
    let text = scenario(&target.address, "connection: { source_addresses: [127.0.0.1] }");
    let run = network.within(&bench, &bench.run_command(&text));
    let finished = bench.start(&mut { run }).finish().exits(1);
    finished
        .says("24 of 40 clients connected, then one could not")
        .says("all local ports towards the platform are taken");
    others.kill().unwrap();
    others.wait().unwrap();
}

/// The lifetime of a registration passes, and the device does not know: the server resets its next message.
#[test]
fn a_registration_that_has_expired_is_made_again() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &[]);
    let text = scenario(&target.address, "lwm2m: { lifetime: 2s, update: false }");
    let finished = bench.run(&text.replace("hold: 2s", "hold: 6s"));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let [expired, registered] = ["expired", "registered"].map(|what| lines.get(what).copied().unwrap_or(0));
    // Each device loses it after 2 s and with its next message registers again, for two more seconds.
    assert!(expired >= 40 && registered >= 80 && expired <= registered, "{lines:?}");
    assert!(count(level, "refused") >= 40, "{finished:?}");
    assert!(messages.values().all(|times| *times == 1), "{lines:?}");
    let acknowledged = count(level, "acknowledged");
    // The record has messages before and after the hold, too.
    assert!(acknowledged > 200 && messages.len() as u64 >= acknowledged, "{acknowledged} {finished:?}");
    let accounted = ["acknowledged", "refused", "unsent", "lost"].map(|key| count(level, key));
    assert_eq!(accounted.iter().sum::<u64>(), count(level, "due"), "{finished:?}");
}

/// Stands before a server, and holds every third notification of a device until it sends its next datagram.
fn disordering(server: &str) -> (String, Arc<AtomicBool>, JoinHandle<usize>) {
    let server: SocketAddr = server.trim_start_matches("coap://").parse().unwrap();
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    front.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let address = format!("coap://{}", front.local_addr().unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let until = is_over.clone();
    let run = move || {
        let mut devices: HashMap<SocketAddr, (UdpSocket, Option<Vec<u8>>)> = HashMap::new();
        let (mut room, mut notifications, mut disordered) = ([0; 2048], 0, 0);
        while !until.load(Ordering::Relaxed) {
            if let Ok((length, device)) = front.recv_from(&mut room) {
                let datagram = &room[..length];
                let (back, held) = devices.entry(device).or_insert_with(|| {
                    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                    back.set_nonblocking(true).unwrap();
                    (back, None)
                });
                let is_notification = matches!(datagram, [first, 0x45, ..] if first & 0x30 == 0);
                notifications += usize::from(is_notification);
                if is_notification && notifications % 3 == 0 && held.is_none() {
                    *held = Some(datagram.to_vec());
                    continue;
                }
                back.send_to(datagram, server).unwrap();
                if let Some(earlier) = held.take() {
                    back.send_to(&earlier, server).unwrap();
                    disordered += usize::from(datagram != earlier);
                }
            }
            for (device, (back, _)) in &devices {
                while let Ok(length) = back.recv(&mut room) {
                    front.send_to(&room[..length], device).unwrap();
                }
            }
        }
        disordered
    };
    (address, is_over, thread::spawn(run))
}

#[test]
fn notifications_out_of_order_are_each_counted_once() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &[]);
    let (address, is_over, disordering) = disordering(&target.address);
    let finished = bench.run(&scenario(&address, "coap: { outstanding: 4 }"));
    is_over.store(true, Ordering::Relaxed);
    let disordered = disordering.join().unwrap();
    target.end();
    assert!(disordered > 20, "{disordered}");
    exact(&bench, &finished);
}

/// Devices have more instances than fit into one block of the server: each registers once, also where blocks are lost.
#[test]
fn long_registrations_go_in_blocks() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &["--block-size", "256", "--lose-every", "13"]);
    let resources: String = (0..200).map(|instance| format!("3303/{instance}/5700: 1, ")).collect();
    let more = format!("lwm2m: {{ resources: {{ {resources} }} }}\ncoap: {{ ack_timeout: 200ms }}");
    let finished = bench.run(&scenario(&target.address, &more));
    target.end();
    let lines = exact(&bench, &finished);
    assert_eq!(lines.get("registered"), Some(&40), "{lines:?}");
}

/// Each device has a session of its own over the socket that all of them share.
#[test]
fn datagrams_are_secured_without_a_socket_for_each_device() {
    let bench = Bench::beside_others();
    bench.write("key", "sesame\n");
    let target = Target::start(&bench, &["--key-file", "key", "--lose-every", "11"]);
    // What of a handshake is lost is repeated after 1, 2, 4 and more seconds.
    let dtls = "coap: { ack_timeout: 200ms, dtls: { identity: \"plimsoll-{device}\", key: sesame } }\n\
        connection: { timeout: 60s }";
    let finished = bench.run(&scenario(&target.address, dtls));
    target.end();
    let lines = exact(&bench, &finished);
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 40);
    assert_eq!(lines.get("registered"), Some(&40), "{lines:?}");
}

/// The bootstrap server has another key than the server, and gives that of the server to each device under its name.
#[test]
fn devices_learn_of_their_server_and_its_key_over_dtls() {
    for (sockets, lost) in [("", "11"), (", source_addresses: [127.0.0.1]", "10000")] {
        let bench = Bench::beside_others();
        bench.write("key", "sesame\n");
        bench.write("first", "open\n");
        let keys = ["--key-file", "key", "--bootstrap-key-file", "first", "--bootstrap-port", "0"];
        let mut target = Target::start(&bench, &[&keys[..], &["--lose-every", lost]].concat());
        let port = target.bootstrap_port();
        let more = format!(
            "lwm2m: {{ bootstrap: true }}\nconnection: {{ timeout: 60s{sockets} }}\n\
             coap: {{ ack_timeout: 200ms, dtls: {{ identity: \"factory-{{device}}\", key: open }} }}"
        );
        let text = scenario(&target.address, &more)
            .replace("lwm2m, address", &format!("lwm2m, ports: {{ bootstrap: {port} }}, address"));
        let finished = bench.run(&text);
        target.end();
        assert_eq!(exact(&bench, &finished).get("registered"), Some(&40), "{finished:?}");
        assert_eq!(count(&finished.summary["wire"], "handshakes"), 2 * 40, "{sockets}");
    }
}

/// Each device shows a certificate of its own, and looks at the server's.
#[test]
fn devices_and_server_know_each_other_by_certificates() {
    let (bench, authority) = tls::bench();
    authority.sign(&bench, "127.0.0.1", "harbour", 4000);
    for device in 0..40 {
        authority.sign(&bench, &format!("plimsoll-{device}"), &format!("device-{device}"), 4000);
    }
    let target = Target::start(&bench, &["--certificate", "harbour.pem", "--certificate-key", "harbour.key"]);
    let own = "certificate: \"device-{device}.pem\", key: \"device-{device}.key\"";
    let more = format!("connection: {{ tls: {{ ca: ca.pem, {own} }} }}");
    let finished = bench.run(&scenario(&target.address, &more));
    target.end();
    exact(&bench, &finished);
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 40);
}

#[test]
fn a_certificate_that_is_not_good_is_a_reason() {
    let (bench, authority) = tls::bench();
    authority.sign(&bench, "127.0.0.1", "harbour", 4000);
    let another = tls::Authority::new("another harbour");
    another.write(&bench, "another.pem");
    let target = Target::start(&bench, &["--certificate", "harbour.pem", "--certificate-key", "harbour.key"]);
    let run = |tls: &str| {
        bench.run(&scenario(&target.address, &format!("connection: {{ timeout: 1s, tls: {{ {tls} }} }}")))
    };
    let own = "certificate: device.pem, key: device.key";
    run(&format!("ca: another.pem, {own}")).exits(1).says("is signed by no authority that is trusted here");
    run(&format!("ca: ca.pem, server_name: elsewhere, {own}")).exits(1).says("is not for the name elsewhere");
    assert_eq!(count(run(&format!("verify: false, {own}")).judged().level(0), "lost"), 0);
    run("ca: ca.pem").exits(104).says("over DTLS devices show a certificate");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    bench.write("device.key", &key.serialize_pem());
    run(&format!("ca: ca.pem, {own}")).exits(104);
    target.end();
}

#[test]
fn a_wrong_key_is_a_reason() {
    let bench = Bench::beside_others();
    bench.write("key", "sesame");
    let target = Target::start(&bench, &["--key-file", "key"]);
    let dtls = "coap: { dtls: { identity: device, key: another } }\nconnection: { timeout: 1s }";
    let finished = bench.run(&scenario(&target.address, dtls)).exits(1);
    finished.says("has another key for it").says("`coap.dtls`");
    target.end();
}

/// The published example in its quick form.
#[test]
fn a_firmware_campaign_reaches_every_device() {
    let bench = Bench::beside_others();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/firmware.yaml");
    let mut command =
        bench.plimsoll(["run", "--quick", "--no-report", "--summary-json", "summary.json", "-v"]);
    let finished = bench.start(command.arg(example.canonicalize().unwrap())).finish().judged();
    let management = &finished.level(0)["management"];
    // Of a few devices, the first message comes late in so short a level.
    let downloads = count(management, "downloads");
    assert!(downloads > 20 && count(management, "downloads_failed") == 0, "{management}");
    assert_eq!(count(management, "download_bytes"), downloads * 102_400);
    // The line of the management wraps at 80 columns.
    let words: Vec<&str> = finished.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("devices with new firmware: "), "{}", finished.stdout);
}
