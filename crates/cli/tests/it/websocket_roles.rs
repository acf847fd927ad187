//! A platform over WebSocket with devices and subscribers, as brokers made of microservices have it: clients are let in, answers
//! repeat names, and each message is pushed to those that asked for its device.

use crate::harness::{Bench, count, sent};
use plimsoll_codec::websocket::{Event, Opcode, Reader, accept_of, encode_frame};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const PROFILE: &str = r#"
name: chat
title: a platform that pushes over WebSocket
description: a scripted platform
limits: { all: none }
device:
  speaks: websocket
  marker: ascii
  payload: '{"action":"insert","requestId":"{run}-{device}-{sequence}","deviceId":"{device}","text":"{message:json}"}'
  answer: { id: /requestId, is: "{run}-{device}-{sequence}", status: /status, expect: [success] }
  websocket:
    opening:
      - message: '{"action":"authenticate","requestId":"in"}'
        answer: { id: /requestId, is: in, status: /status, expect: [success] }
subscriber:
  websocket:
    opening:
      - message: '{"action":"authenticate","requestId":"in"}'
        answer: { id: /requestId, is: in, status: /status, expect: [success] }
      - message: '{"action":"subscribe","requestId":"of-{device}","deviceId":"{device}"}'
        answer: { id: /requestId, is: "of-{device}", status: /status, expect: [success] }
  delivery: every
components: []
"#;

/// Who is notified of which device.
type Followers = Arc<Mutex<BTreeMap<String, Vec<Arc<Mutex<TcpStream>>>>>>;

/// Starts the platform, which runs while the tests do; every so many messages it pushes one less. Its address.
fn serve(loses_every: u64) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("ws://{}/api", listener.local_addr().unwrap());
    let (followers, inserted) = (Followers::default(), Arc::new(Mutex::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (followers, inserted) = (Arc::clone(&followers), Arc::clone(&inserted));
            // However a connection ends, its client sees it.
            thread::spawn(move || {
                converse(stream.unwrap(), &followers, (&inserted, loses_every)).unwrap_or_default()
            });
        }
    });
    address
}

fn say(to: &Mutex<TcpStream>, message: &Value) {
    let mut out = Vec::new();
    encode_frame(Opcode::Text, true, None, message.to_string().as_bytes(), &mut out);
    // A client that is gone misses it.
    let _ = to.lock().unwrap().write_all(&out);
}

fn converse(
    mut stream: TcpStream,
    followers: &Followers,
    (inserted, loses_every): (&Mutex<u64>, u64),
) -> std::io::Result<()> {
    let (mut room, mut bytes) = ([0; 4096], Vec::new());
    let mut read = |stream: &mut TcpStream, bytes: &mut Vec<u8>| {
        let length = stream.read(&mut room)?;
        bytes.extend_from_slice(&room[..length]);
        if length == 0 { Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)) } else { Ok(()) }
    };
    while !bytes.ends_with(b"\r\n\r\n") {
        read(&mut stream, &mut bytes)?;
    }
    let request = String::from_utf8(std::mem::take(&mut bytes)).unwrap();
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = accept_of(key.as_bytes());
    let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    stream.write_all(format!("{answer}{accept}\r\n\r\n").as_bytes())?;
    let own = Arc::new(Mutex::new(stream.try_clone()?));
    let (mut reader, mut content, mut is_in) = (Reader::of_client(), Vec::new(), false);
    loop {
        let (taken, event) = reader.read(&bytes, &mut content).unwrap();
        let is_message = matches!(event, Some(Event::Message(_)));
        let is_over = matches!(event, Some(Event::Close(..)));
        bytes.drain(..taken);
        if is_over {
            return Ok(());
        }
        if !is_message {
            if taken == 0 {
                read(&mut stream, &mut bytes)?;
            }
            continue;
        }
        let message: Value = serde_json::from_slice(&std::mem::take(&mut content)).unwrap();
        let (action, device) = (message["action"].as_str().unwrap(), message["deviceId"].as_str());
        is_in |= action == "authenticate";
        let status = if is_in { "success" } else { "error" };
        say(&own, &json!({ "action": action, "requestId": message["requestId"], "status": status }));
        let Some(device) = device.filter(|_| is_in) else { continue };
        if action == "subscribe" {
            followers.lock().unwrap().entry(device.to_owned()).or_default().push(Arc::clone(&own));
            continue;
        }
        let number = {
            let mut inserted = inserted.lock().unwrap();
            *inserted += 1;
            *inserted
        };
        if number % loses_every != 0 {
            let push = json!({ "action": "insert", "subscriptionId": 1, "text": message["text"] });
            followers.lock().unwrap().get(device).into_iter().flatten().for_each(|to| say(to, &push));
        }
    }
}

#[test]
fn each_message_is_answered_by_name_and_pushed_to_those_that_follow_its_device() {
    let bench = Bench::beside_others();
    bench.write("chat.yaml", PROFILE);
    let address = serve(20);
    let finished = bench.run(&format!(
        "name: chat\nplatform: {{ profile: ./chat.yaml, address: \"{address}\" }}\n\
         population: {{ devices: 10, subscribers: 2 }}\nmessage: {{ size: 40 }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 3s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, publish_p50: \"< 10 s\" }}\n"
    ));
    let finished = finished.judged();
    let level = finished.level(0);
    let sent = sent(level, 198..=200);
    assert_eq!(
        (count(level, "acknowledged"), count(level, "expected_deliveries")),
        (sent, 2 * sent),
        "{level:#}"
    );
    // One message in twenty is pushed to nobody.
    let lost = count(level, "lost");
    assert!((18..=20).contains(&lost), "{lost}: {level:#}");
    assert_eq!(count(level, "delivered") + count(level, "late") + lost, 2 * sent, "{level:#}");
    for nothing in ["duplicated", "foreign", "refused"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
}
