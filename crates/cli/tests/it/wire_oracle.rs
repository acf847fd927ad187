//! What another dissector, tshark, says of the captures of the repository: packets, bytes, messages by kind, response times.
//! It does not read NATS, nor MQTT in WebSocket.

use crate::harness::{Bench, count};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// A capture, unpacked in a folder, with our summary and exchanges of it. One at a time: it holds the bench.
struct Read {
    bench: Bench,
    name: &'static str,
    summary: Value,
}

impl Read {
    fn new(name: &'static str) -> Read {
        let bench = Bench::beside_others();
        let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/{}.pcap.zst"), name);
        fs::write(bench.path(name), zstd::decode_all(fs::read(path).unwrap().as_slice()).unwrap()).unwrap();
        let arguments = ["dissect", name, "-q", "--summary-json", "out.json", "--export", "out.csv"];
        bench.call(arguments).exits(0);
        let summary = serde_json::from_str(&fs::read_to_string(bench.path("out.json")).unwrap()).unwrap();
        Read { bench, name, summary }
    }

    /// The fields of each packet, with all their occurrences.
    fn tshark(&self, options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(self.bench.path(self.name)).args(options).args(["-T", "fields"]);
        fields.iter().for_each(|field| {
            command.args(["-e", field]);
        });
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// How often each combination of fields occurs; several messages of a packet are told apart.
    fn counted(&self, options: &[&str], fields: &[&str]) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for packet in self.tshark(options, fields) {
            let columns: Vec<Vec<&str>> = packet.iter().map(|column| column.split(',').collect()).collect();
            for row in 0..columns[0].len() {
                let values: Vec<&str> =
                    columns.iter().filter_map(|column| column.get(row).copied()).collect();
                *counts.entry(values.join(".")).or_default() += 1;
            }
        }
        counts
    }

    /// How often we have counted a verb or a status, whatever follows it (a version, a reason).
    fn ours(&self, protocol: &str, label: &str) -> u64 {
        let protocol = &self.summary["protocols"][protocol];
        let is_it = |name: &str| {
            name.strip_prefix(label).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let labels = |key: &str| protocol[key].as_object().unwrap().clone().into_iter();
        let verbs = labels("by_verb").filter(|(name, _)| is_it(name)).map(|(_, verb)| count(&verb, "count"));
        let statuses = labels("by_status").filter(|(name, _)| is_it(name)).map(|(_, n)| n.as_u64().unwrap());
        verbs.chain(statuses).sum()
    }

    /// Fails unless both count the same of each kind, and something of it.
    #[track_caller]
    fn agree(&self, protocol: &str, theirs: &BTreeMap<String, u64>, kinds: &[(&str, &str)]) {
        for (their_name, our_name) in kinds {
            let ours = self.ours(protocol, our_name);
            assert_eq!(theirs.get(*their_name), Some(&ours), "{}: {our_name} of {theirs:?}", self.name);
        }
    }
}

#[test]
fn packets_and_bytes_are_those_of_tshark() {
    for name in ["http11", "redis_basic", "mongodb", "http_any_sll2", "coap_udp", "synth_vlan"] {
        let read = Read::new(name);
        let frames = read.tshark(&[], &["frame.len"]);
        let bytes: u64 = frames.iter().map(|frame| frame[0].parse::<u64>().unwrap()).sum();
        let ours = (count(&read.summary, "packets"), count(&read.summary, "bytes"));
        assert_eq!(ours, (frames.len() as u64, bytes), "{name}");
    }
}

/// Each time that tshark gives, at the packet that ends the response. Both read the same stamps, so that they differ by what
/// decimals are cut off: less than the microsecond of the files. Of some pipelined responses tshark gives no time.
#[test]
fn http_requests_and_each_response_time_are_those_of_tshark() {
    for (name, fewest) in [("http11", 250), ("http_ipv6", 150), ("http_veth", 150)] {
        let read = Read::new(name);
        let methods = read.counted(&["-Y", "http.request"], &["http.request.method"]);
        for (method, count) in &methods {
            assert_eq!(read.ours("http", method), *count, "{name}: {method}");
        }
        let micros = |seconds: &str| (seconds.parse::<f64>().unwrap() * 1e6).round() as i64;
        let mut table = csv::Reader::from_path(read.bench.path("out.csv")).unwrap();
        let headers = table.headers().unwrap().clone();
        let [last, time, status] = ["response_last", "response_time", "status"]
            .map(|name| headers.iter().position(|header| header == name).unwrap());
        let mut ours: BTreeMap<i64, Vec<(i64, String)>> = BTreeMap::new();
        for row in table.records().map(Result::unwrap).filter(|row| !row[time].is_empty()) {
            ours.entry(micros(&row[last])).or_default().push((micros(&row[time]), row[status].to_owned()));
        }
        let fields = ["frame.time_epoch", "http.time", "http.response.code"];
        let theirs = read.tshark(&["-Y", "http.time"], &fields);
        assert!(theirs.len() >= fewest, "{name}: {}", theirs.len());
        for response in theirs {
            let ours = ours.get(&micros(&response[0])).unwrap_or_else(|| panic!("{name}: no {response:?}"));
            let is_it = |(time, status): &(i64, String)| {
                (time - micros(&response[1])).abs() <= 1 && *status == response[2]
            };
            assert!(ours.iter().any(is_it), "{name}: {response:?} against {ours:?}");
        }
    }
}

#[test]
fn messages_of_mqtt_are_those_of_tshark() {
    let kinds = [
        ("1", "CONNECT"),
        ("2", "CONNACK"),
        ("3", "PUBLISH"),
        ("4", "PUBACK"),
        ("5", "PUBREC"),
        ("6", "PUBREL"),
        ("7", "PUBCOMP"),
        ("8", "SUBSCRIBE"),
        ("9", "SUBACK"),
        ("10", "UNSUBSCRIBE"),
        ("14", "DISCONNECT"),
    ];
    for name in ["mqtt311", "mqtt5"] {
        let read = Read::new(name);
        read.agree("mqtt", &read.counted(&["-Y", "mqtt"], &["mqtt.msgtype"]), &kinds);
    }
}

#[test]
fn messages_of_coap_are_those_of_tshark() {
    let requests = [("1", "GET"), ("2", "POST"), ("3", "PUT"), ("68", "2.04"), ("132", "4.04")];
    let read = Read::new("coap_tcp");
    read.agree("coap", &read.counted(&["-Y", "coap"], &["coap.code"]), &requests);
    drop(read);
    // Over UDP a message that is sent again counts once. A server at the port of DTLS speaks plain CoAP there.
    let read = Read::new("coap_udp");
    let fields = ["ip.src", "udp.srcport", "ip.dst", "udp.dstport", "coap.mid", "coap.code"];
    let packets = read.tshark(&["-d", "udp.port==5684,coap", "-Y", "coap"], &fields);
    let mut theirs = BTreeMap::new();
    for message in packets.into_iter().collect::<BTreeSet<_>>() {
        *theirs.entry(message[5].clone()).or_default() += 1;
    }
    read.agree("coap", &theirs, &requests);
    read.agree("coap", &theirs, &[("95", "2.31")]);
}

#[test]
fn messages_of_postgres_amqp_and_kafka_are_those_of_tshark() {
    let read = Read::new("postgres");
    let kinds = [
        ("Simple query", "Query"),
        ("Parse", "Parse"),
        ("Bind", "Bind"),
        ("Describe", "Describe"),
        ("Execute", "Execute"),
        ("Sync", "Sync"),
        ("Notification", "NotificationResponse"),
    ];
    read.agree("postgres", &read.counted(&["-Y", "pgsql"], &["pgsql.type"]), &kinds);
    drop(read);
    let read = Read::new("amqp");
    let kinds = [
        ("20.10", "channel.open"),
        ("50.10", "queue.declare"),
        ("60.20", "basic.consume"),
        ("60.40", "basic.publish"),
        ("60.50", "basic.return"),
        ("60.60", "basic.deliver"),
        ("60.70", "basic.get"),
        ("60.71", "basic.get-ok"),
        ("60.80", "basic.ack"),
    ];
    read.agree("amqp", &read.counted(&["-Y", "amqp"], &["amqp.method.class", "amqp.method.method"]), &kinds);
    drop(read);
    let read = Read::new("kafka");
    let kinds = [
        ("0", "Produce"),
        ("1", "Fetch"),
        ("2", "ListOffsets"),
        ("3", "Metadata"),
        ("8", "OffsetCommit"),
        ("9", "OffsetFetch"),
        ("10", "FindCoordinator"),
        ("11", "JoinGroup"),
        ("18", "ApiVersions"),
    ];
    // Responses carry the key of their request there.
    let requests = ["-Y", "kafka && tcp.dstport == 9092"];
    read.agree("kafka", &read.counted(&requests, &["kafka.api_key"]), &kinds);
}

#[test]
fn requests_of_mongodb_and_redis_are_those_of_tshark() {
    let read = Read::new("mongodb");
    for (end, key) in [("dstport", "requests"), ("srcport", "responses")] {
        let filter = format!("mongo && tcp.{end} == 27018");
        let theirs = read.counted(&["-d", "tcp.port==27018,mongo", "-Y", &filter], &["mongo.opcode"]);
        assert_eq!(read.summary["protocols"]["mongodb"][key], theirs.values().sum::<u64>(), "{key}");
    }
    drop(read);
    // A command is an array of strings, the first its name. One that comes in pieces is shown with each of them, as some SET
    // here.
    let read = Read::new("redis_basic");
    let fields = ["resp.array.length", "resp.bulk_string.value"];
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    for packet in read.tshark(&["-Y", "resp && tcp.dstport == 6379"], &fields) {
        let mut strings = packet[1].split(',');
        for length in packet[0].split(',').filter_map(|length| length.parse::<usize>().ok()) {
            let name = strings.next().unwrap_or_default();
            let digits: Vec<char> = name.chars().collect();
            let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
            let name: Vec<u8> = digits.chunks(2).map(byte).collect();
            *theirs.entry(String::from_utf8_lossy(&name).to_uppercase()).or_default() += 1;
            (1..length).for_each(|_| {
                strings.next();
            });
        }
    }
    let names = ["GET", "INCR", "HSET", "MULTI", "EXEC", "EVAL", "BLPOP", "HELLO", "CLIENT", "ZADD"];
    read.agree("redis", &theirs, &names.map(|name| (name, name)));
}
