//! WebSocket servers that answer in other forms than an echo, break the protocol, flood, fall silent and go away.

use crate::harness::{Bench, Finished, RESULTS, count, on_a_calm_host};
use plimsoll_codec::websocket::{Event, Opcode, Reader, accept_of, encode_frame};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// Greets, then sends each message back as text around it, in three frames with a ping between them.
    Fragments,
    /// Says `ok` to each message.
    WithoutMarker,
    /// Says `ok` to each message but one of them.
    WithoutMarkerAndOneMissing,
    /// Never answers, and sends something every 2 ms.
    Pushes,
    /// Sends each message back, but does this to the thirtieth.
    Once(Fault),
    /// Takes connections and no request.
    NoAnswer,
    /// Takes requests and no message.
    Silent,
    /// Has no WebSocket at that path.
    NotFound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Close,
    Cut,
    Masked,
    Garbage,
    Endless,
    /// Announces what never comes.
    Announced,
    NoUtf8,
    Pings,
}

/// The number of the message that a fault befalls.
const FAULTY: usize = 30;
/// More than memory would have to hold, if a client kept what is sent to it.
const FLOOD: usize = 160 * 1024 * 1024;
/// What a client may use for everything, far below that.
const MEMORY: u64 = 128 * 1024 * 1024;

/// Starts a server, which runs while the tests do, and gives its address.
fn serve(manner: Manner) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("ws://{}/in", listener.local_addr().unwrap());
    let messages = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, messages) = (stream.unwrap(), Arc::clone(&messages));
            // However a connection ends, its client sees it.
            thread::spawn(move || converse(stream, manner, &messages).unwrap_or_default());
        }
    });
    address
}

fn converse(mut stream: TcpStream, manner: Manner, messages: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_millis(300)))?;
    let (mut buffer, mut asked) = (vec![0; 64 * 1024], Vec::new());
    while manner == Manner::NoAnswer || !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => asked.extend_from_slice(&buffer[..count]),
        }
    }
    let asked = String::from_utf8(asked).unwrap();
    assert!(asked.starts_with("GET /in HTTP/1.1\r\n") && !asked.contains("Protocol"), "{asked}");
    if manner == Manner::NotFound {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    }
    let key = asked.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let mut out = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept_of(key.as_bytes())
    )
    .into_bytes();
    if manner == Manner::Fragments {
        encode_frame(Opcode::Text, true, None, b"welcome", &mut out);
    }
    stream.write_all(&out)?;
    if manner == Manner::Pushes {
        let mut push = Vec::new();
        encode_frame(Opcode::Text, true, None, b"{\"news\": 1}", &mut push);
        loop {
            stream.write_all(&push)?;
            thread::sleep(Duration::from_millis(2));
        }
    }
    let (mut reader, mut content) = (Reader::of_client(), Vec::new());
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let (taken, event) = reader.read(rest, &mut content).unwrap();
            rest = &rest[taken..];
            match event {
                Some(Event::Message(opcode)) => {
                    let number = messages.fetch_add(1, Ordering::Relaxed) + 1;
                    answer(&mut stream, manner, number, opcode, &std::mem::take(&mut content))?;
                }
                Some(Event::Close(..)) => return Ok(()),
                _ => {}
            }
        }
    }
}

fn answer(
    stream: &mut TcpStream,
    manner: Manner,
    number: usize,
    opcode: Opcode,
    content: &[u8],
) -> std::io::Result<()> {
    let mut out = Vec::new();
    let mut frame = |opcode, ends, content: &[u8]| encode_frame(opcode, ends, None, content, &mut out);
    match manner {
        Manner::Fragments => {
            frame(Opcode::Text, false, b"{\"seen\": \"");
            frame(Opcode::Ping, true, b"there?");
            frame(Opcode::Continuation, false, content);
            frame(Opcode::Continuation, true, b"\"}");
        }
        Manner::WithoutMarkerAndOneMissing if number == FAULTY => {}
        Manner::WithoutMarker | Manner::WithoutMarkerAndOneMissing => frame(Opcode::Text, true, b"ok"),
        Manner::Once(fault) if number == FAULTY => match fault {
            Fault::Close => frame(Opcode::Close, true, b"\x03\xf3not now"),
            Fault::Cut => return Err(std::io::ErrorKind::Other.into()),
            Fault::Masked => encode_frame(opcode, true, Some([1, 2, 3, 4]), content, &mut out),
            Fault::Garbage => out.extend([0xff; 50]),
            Fault::Endless => {
                frame(Opcode::Binary, false, b"and so on");
                stream.write_all(&out)?;
                let mut more = Vec::new();
                encode_frame(Opcode::Continuation, false, None, &[0; 64 * 1024], &mut more);
                return flood(stream, &more);
            }
            // A binary frame of 2^62 bytes.
            Fault::Announced => out.extend([0x82, 127, 0x40, 0, 0, 0, 0, 0, 0, 0]),
            Fault::NoUtf8 => frame(Opcode::Text, true, b"\xff\xfe"),
            Fault::Pings => {
                let mut pings = Vec::new();
                (0..1000).for_each(|_| encode_frame(Opcode::Ping, true, None, &[b'!'; 125], &mut pings));
                return flood(stream, &pings);
            }
        },
        Manner::Once(_) => frame(opcode, true, content),
        Manner::NoAnswer | Manner::Silent | Manner::NotFound | Manner::Pushes => {}
    }
    stream.write_all(&out)
}

/// Sends that again and again, and reads nothing meanwhile.
fn flood(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    (0..FLOOD / bytes.len()).try_for_each(|_| stream.write_all(bytes))?;
    Err(std::io::ErrorKind::Other.into())
}

/// Constant arrivals: a level at 100/s has 99 messages in its second.
fn run(manner: Manner, more: &str) -> Finished {
    run_on(Bench::beside_others, "500ms", manner, more)
}

fn run_on(bench: fn() -> Bench, drain: &str, manner: Manner, more: &str) -> Finished {
    on_a_calm_host(|| {
        let address = serve(manner);
        bench().run(&format!(
            "name: websocket
platform: {{ profile: existing, address: \"{address}\", protocol: websocket }}
population: {{ devices: 2 }}
mqtt: {{ connect_timeout: 1s, reconnect: {{ from: 50ms, to: 1s }} }}
load: {{ arrivals: constant, levels: [100], warm_up: 0s, hold: 1s, samples: 5, drain: {drain} }}
objectives: {{ publish_p99: null, publish_p50: \"< 10 s\" }}
{more}"
        ))
    })
}

const TEXT: &str = "message: { size: 40, marker: ascii }\n";

#[test]
fn an_answer_is_any_message_with_the_marker_however_it_is_cut() {
    // Exact at any speed; whether a second of it decides is no matter here.
    let run = run(Manner::Fragments, TEXT).judged();
    let level = run.level(0);
    let found = ["due", "sent", "acknowledged", "unsent", "disconnected"];
    assert_eq!(found.map(|name| count(level, name)), [99, 99, 99, 0, 0]);
    let [content, packet] = ["marshalled_size", "publication_size"].map(|name| level[name].as_f64().unwrap());
    // RFC 6455, section 5.2: two bytes and the mask.
    assert_eq!((content, packet), (40.0, 46.0));
}

#[test]
fn answers_without_markers_come_in_order() {
    let run = run(Manner::WithoutMarker, "").judged();
    assert_eq!(["acknowledged", "foreign"].map(|name| count(run.level(0), name)), [99, 0]);
}

/// One answer too few lends each later message of its device the answer of the next, and the last has none. That ends
/// with its level.
#[test]
fn a_missing_answer_without_marker_is_missed_and_does_not_reach_the_next_level() {
    let levels = "load: { arrivals: constant, levels: [100, 110], warm_up: 300ms, hold: 1s, samples: 5, drain: 500ms }";
    let run = on_a_calm_host(|| {
        let address = serve(Manner::WithoutMarkerAndOneMissing);
        Bench::beside_others().run(&format!(
            "name: missing
platform: {{ profile: existing, address: \"{address}\", protocol: websocket }}
population: {{ devices: 2 }}
{levels}
objectives: {{ publish_p99: null, delivered: null, achieved: null, publish_p50: \"< 10 s\" }}
"
        ))
    });
    let acknowledged =
        |level: usize| count(run.level(level), "sent") - count(run.level(level), "acknowledged");
    assert_eq!((acknowledged(0), acknowledged(1)), (1, 0));
    run.says("messages were not answered before their level was closed");
}

#[test]
fn a_silent_server_has_missed() {
    let run = run(Manner::Silent, "").not_met();
    let run = run.says("messages were not answered before their level was closed");
    assert_eq!(["sent", "acknowledged"].map(|name| count(run.level(0), name)), [99, 0]);
    assert!(run.level(0)["publish_time"].is_null());
}

#[test]
fn what_a_server_sends_by_itself_is_not_taken_for_answers_for_long() {
    // Each time it takes a while until the device sees it, so how many messages seem answered depends on the machine.
    run(Manner::Pushes, "").judged().says("the platform sends more messages than answers");
}

#[test]
fn a_server_without_a_websocket_fails_the_run() {
    run(Manner::NotFound, "").exits(1).says("answered by HTTP 404 Not Found").says("`/in`");
    run(Manner::NoAnswer, "").exits(1).says("the WebSocket request was not answered within 1.00 s");
}

#[test]
fn the_form_without_a_file_names_the_protocol() {
    let address = serve(Manner::WithoutMarker);
    let load = "--protocol websocket --devices 2 --rate 100 --hold 1s --warm-up 0s --samples 5 --drain 500ms";
    let mut arguments = vec!["run", &address];
    arguments.extend(load.split(' '));
    arguments.extend(["--objective", "publish_p50 < 10 s", "--set", "objectives.publish_p99=null"]);
    arguments.extend(RESULTS);
    let run = Bench::beside_others().call(arguments).judged();
    assert_eq!(count(run.level(0), "acknowledged"), count(run.level(0), "due"));
}

#[test]
fn each_breach_costs_one_connection_and_its_reason_is_told() {
    for (fault, reason) in [
        (Fault::Close, "closed the WebSocket with code 1011 (not now)"),
        (Fault::Cut, "the platform closed the connection"),
        (Fault::Masked, "malformed WebSocket"),
        (Fault::Garbage, "reserved bits"),
        (Fault::Endless, "a message of more than 2097152 bytes"),
        (Fault::Announced, "a message of more than 2097152 bytes"),
        (Fault::NoUtf8, "a text message is no UTF-8"),
        (Fault::Pings, "connection"),
    ] {
        // Reading what a fault floods it with takes a slow machine longer than the hold.
        let run = run_on(Bench::beside_others, "3s", Manner::Once(fault), "").judged().says(reason);
        let level = run.level(0);
        // That message, and at most those that were under way with it, have no answer; the others waited.
        let [disconnected, reconnects] = ["disconnected", "reconnects"].map(|name| count(level, name));
        assert_eq!((fault, reconnects), (fault, 1));
        assert!((1..=20).contains(&disconnected), "{fault:?}: {disconnected}");
        let [due, sent, unsent, acknowledged] =
            ["due", "sent", "unsent", "acknowledged"].map(|name| count(level, name));
        assert_eq!((due, sent + unsent), (99, 99), "{fault:?}");
        assert!((30..=98).contains(&acknowledged), "{fault:?}: {acknowledged}");
        assert!(run.peak_memory < MEMORY, "{fault:?}: {} bytes", run.peak_memory);
    }
}
