//! Peers that refuse now and then, speak something else, speak another version, or slip in the protocol.

use crate::harness::{Bench, Finished, RESULTS, count};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Serves each connection, which it is told the number of, until the test's process ends.
fn serve(each: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let each = Arc::new(each);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let each = Arc::clone(&each);
            thread::spawn(move || each(number, stream));
        }
    });
    address
}

/// Passes on what comes, both ways.
fn relay(stream: TcpStream, to: SocketAddr) {
    let Ok(other) = TcpStream::connect(to) else { return };
    let (mut from_here, mut from_there) = (stream.try_clone().unwrap(), other.try_clone().unwrap());
    let (mut here, mut there) = (stream, other);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_here, &mut there);
        let _ = there.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut from_there, &mut here);
    let _ = here.shutdown(std::net::Shutdown::Both);
}

fn run(address: SocketAddr, mqtt: &str) -> Finished {
    Bench::beside_others().run(&format!(
        "name: peer
platform: {{ profile: existing, address: \"mqtt://{address}\" }}
population: {{ devices: 4, subscribers: 1 }}
mqtt: {{ {mqtt} }}
load: {{ arrivals: constant, levels: [50], warm_up: 0s, hold: 1s, samples: 2, drain: 500ms }}
record: {{ network: false }}
objectives: {{ publish_p99: null, achieved: null }}
"
    ))
}

#[test]
fn a_connection_that_is_refused_once_is_made_again_and_told() {
    let broker = ScriptedBroker::start(Script::default());
    let to = broker.url().trim_start_matches("mqtt://").parse().unwrap();
    // The third and the fourth are closed before anything was said.
    let address = serve(move |number, stream| match number {
        2 | 3 => drop(stream),
        _ => relay(stream, to),
    });
    let finished = run(address, "");
    let level = finished.level(0);
    assert_eq!((count(level, "sent"), count(level, "lost")), (count(level, "due"), 0), "{level:#}");
    finished.says("2 attempts to connect failed during set-up").says("load.connect_rate");
}

/// Nobody listens when the devices begin; a second later somebody does.
#[test]
fn a_service_that_comes_late_is_waited_for() {
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    thread::spawn(move || {
        thread::sleep(std::time::Duration::from_secs(1));
        let listener = TcpListener::bind(address).unwrap();
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut chunk = [0; 4096];
                // Requests of this test come whole, one at a time.
                while let Ok(1..) = stream.read(&mut chunk) {
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                }
            });
        }
    });
    let finished = Bench::beside_others().run(&format!(
        "name: late
platform: {{ profile: http, address: \"http://{address}\" }}
population: {{ devices: 4 }}
load: {{ arrivals: constant, levels: [50], warm_up: 0s, hold: 1s, samples: 2, drain: 500ms }}
objectives: {{ publish_p99: null, achieved: null }}
"
    ));
    let level = finished.level(0);
    assert_eq!(
        (count(level, "acknowledged"), count(level, "disconnected")),
        (count(level, "due"), 0),
        "{level:#}"
    );
    finished.says("attempts to connect failed during set-up").says("Connection refused");
}

#[test]
fn whoever_refuses_all_the_time_ends_the_run_and_it_is_said_for_how_long() {
    static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
    let address = serve(|_, stream| {
        ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        drop(stream);
    });
    let finished = run(address, "version: 3.1.1").exits(1).says("0 of 5 clients connected");
    finished.says("right after CONNECT").says("it tried again for 5.00 s");
    assert!(ATTEMPTS.load(Ordering::Relaxed) > 5);
}

#[test]
fn a_port_of_something_else_is_named_at_once() {
    for (said, name) in [
        (&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..], "speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "speaks SSH"),
        (&[0x15, 3, 1, 0, 2, 2, 0x50], "speaks TLS"),
        (b"AMQP\0\0\x09\x01", "speaks AMQP"),
        (b"hello, what is your name?", "\"hello, what is y\""),
    ] {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let address = serve(move |_, mut stream| {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(said);
        });
        run(address, "").exits(1).says("no MQTT there").says(name);
        // Each of the five clients once at most: nobody tries again.
        assert!(attempts.load(Ordering::Relaxed) <= 5, "{name}");
    }
}

#[test]
fn a_broker_of_another_version_and_one_that_wants_a_password_say_what_to_try() {
    for (version, answer, words) in [
        ("5", &[0x20, 2, 0, 1][..], ["speaks no MQTT 5", "--mqtt 3.1.1"]),
        ("3.1.1", &[0x20, 2, 0, 1], ["speaks no MQTT 3.1.1", "--mqtt 5"]),
        ("3.1.1", &[0x20, 2, 0, 5], ["--username", "PLIMSOLL_PASSWORD"]),
    ] {
        let address = serve(move |_, mut stream| {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer);
        });
        run(address, &format!("version: {version}")).exits(1).says(words[0]).says(words[1]);
    }
    let closes = serve(|_, mut stream| drop(stream.read(&mut [0; 512])));
    run(closes, "version: 5").exits(1).says("it speaks no MQTT 5 (try `--mqtt 3.1.1`");
}

/// A broker of MQTT 5 that acknowledges with a code that only SUBACK has, as one was seen to do.
#[test]
fn slips_that_touch_nothing_are_counted_and_told() {
    let address = serve(|_, mut stream| {
        let mut buffer = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            buffer.extend_from_slice(&chunk[..read]);
            while let Ok(Some(length)) = plimsoll_codec::mqtt::packet_length(&buffer) {
                if buffer.len() < length {
                    break;
                }
                let packet: Vec<u8> = buffer.drain(..length).collect();
                let answer = match packet[0] >> 4 {
                    1 => vec![0x20, 3, 0, 0, 0],
                    3 => {
                        let topic = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                        let id = &packet[4 + topic..6 + topic];
                        vec![0x40, 11, id[0], id[1], 1, 7, 0x26, 0, 1, b'k', 0, 1, b'v']
                    }
                    _ => continue,
                };
                let _ = stream.write_all(&answer);
            }
        }
    });
    let finished = Bench::beside_others().run(&format!(
        "name: slips
platform: {{ profile: existing, address: \"mqtt://{address}\" }}
population: {{ devices: 4 }}
mqtt: {{ version: 5, qos: 1 }}
message: {{ size: 16 }}
load: {{ arrivals: constant, levels: [50], warm_up: 0s, hold: 1s, samples: 2, drain: 500ms, threads: 1 }}
objectives: {{ publish_p99: null, achieved: null }}
"
    ));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!((count(level, "acknowledged"), count(level, "disconnected")), (sent, 0), "{level:#}");
    assert!(sent > 40, "{level:#}");
    let incident = level["incident"].as_str().unwrap_or_default();
    assert!(incident.starts_with(&format!("{sent} x the platform slipped in its protocol")), "{incident}");
    assert!(incident.contains("PUBACK cannot have the code 0x01"), "{incident}");
}

/// A service that refuses everything and repeats the address, so that its words are cut within the token that
/// is in it.
#[test]
fn a_token_in_the_query_of_an_address_is_shown_nowhere() {
    const TOKEN: &str = "tiktak-tiktak-tiktak-tiktak";
    let address = serve(|_, mut stream| {
        let mut chunk = [0; 4096];
        // Requests of this test come whole, one at a time.
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            let request = String::from_utf8_lossy(&chunk[..read]).into_owned();
            let target = request.split(' ').nth(1).unwrap_or_default();
            let body = format!("{}{target}", "-".repeat(140));
            let answer = format!("HTTP/1.1 403 No\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let bench = Bench::beside_others();
    let url = format!("http://{address}/in?token={TOKEN}");
    let mut arguments =
        vec!["run", &url, "--devices", "2", "--rate", "50", "--hold", "1s", "--warm-up", "0s"];
    arguments.extend(["--samples", "2", "--drain", "200ms", "--set", "objectives.publish_p99=null"]);
    arguments.extend(RESULTS);
    let finished =
        bench.call(arguments).not_met().says("the platform answered 403 No: ---").says("token=***");
    let written = bench.files().into_iter().filter(|name| !name.ends_with("-shm"));
    let texts = written.map(|name| std::fs::read(bench.path(&name)).unwrap());
    for text in texts.chain([finished.said().into_bytes()]) {
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("tiktak"), "{text}");
    }
    assert!(finished.summary["name"].as_str().is_some_and(|name| name.ends_with("/in?token=***")));
}

/// A service that takes everything, notifies nobody and forgets nothing.
#[test]
fn what_stays_behind_and_what_may_be_wrong_is_told_in_the_result() {
    let address = serve(|_, mut stream| {
        let mut buffer = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            buffer.extend_from_slice(&chunk[..read]);
            // No request of this test has a line like these within its body.
            while let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
                if buffer.len() < end + 4 + length {
                    break;
                }
                let status = if head.starts_with("delete") { "500 No" } else { "200 OK" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
                buffer.drain(..end + 4 + length);
            }
        }
    });
    let bench = Bench::beside_others();
    bench.write(
        "mute.yaml",
        "name: mute
title: a service that notifies nobody
controller:
  set_up:
    - name: subscribe to all
      each: subscriber
      request: { path: /subscriptions, body: '{\"url\":\"{listener}\"}' }
  clean_up:
    - name: delete the subscriptions
      each: subscriber
      request: { method: DELETE, path: '/subscriptions/{subscriber}' }
    - name: delete the things
      each: device
      request: { method: DELETE, path: '/things/{device}', expect: [204, 500] }
device: { speaks: http, marker: ascii, request: { path: '/things/{device}' } }
subscriber: { listens: http }
components: []
",
    );
    let finished = bench.run(&format!(
        "name: mute
platform: {{ profile: ./mute.yaml, address: \"http://{address}\", clean_up: true }}
population: {{ devices: 2, subscribers: 3 }}
load: {{ model: closed, in_flight: [1], hold: 500ms, samples: 2, warm_up: 0s, drain: 200ms }}
objectives: {{ publish_p99: null, achieved: null }}
"
    ));
    let notes = finished.summary["notes"].to_string();
    assert!(notes.contains("step `delete the subscriptions`: 3 of 3 requests failed"), "{notes}");
    assert!(!notes.contains("delete the things"), "{notes}");
    assert!(notes.contains("First suspicion: the platform may not reach the subscribers"), "{notes}");
    let level = finished.level(0);
    assert_eq!(count(level, "lost_acknowledged"), count(level, "lost"));
    finished.says("cleaning up").says("`subscribe to all`");
}
