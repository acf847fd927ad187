//! All nine combinations against devices and a log server of a test: every event is fetched, dispatched and done once, and in
//! the order of its device.

#![allow(clippy::unwrap_used, clippy::panic)]

mod told;

use plimsoll_gateway::configuration::{Configuration, Model, Order, Reactor, Spread};
use plimsoll_gateway::gateway::{Bootup, Done, Gateway};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use told::{Told, check, configuration, read};

/// What a call is answered with.
type Function = Arc<dyn Fn(&str, &[Value]) -> Value + Send + Sync>;

/// Serves calls, each connection on a thread; objects are put together by a reader of its own.
fn serve(function: Function) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let function = Arc::clone(&function);
            thread::spawn(move || answer(stream, &function));
        }
    });
    address
}

fn answer(mut stream: TcpStream, function: &Function) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let call: Value = serde_json::from_slice(&line).unwrap();
            let answer = function(call["name"].as_str().unwrap(), call["args"].as_array().unwrap());
            if stream.write_all(answer.to_string().as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// A device with so many events in its queue.
fn device(number: usize, events: usize) -> SocketAddr {
    let queue: Mutex<VecDeque<String>> =
        Mutex::new((0..events).map(|event| format!("{number}-{event}")).collect());
    serve(Arc::new(move |name, _| match name {
        "status" => json!({"result": i32::from(!queue.lock().unwrap().is_empty())}),
        "next_event" => match queue.lock().unwrap().pop_front() {
            Some(event) => json!({"result": event}),
            None => json!({"error": {"name": "IndexError", "args": ["pop from an empty deque"]}}),
        },
        _ => json!({"error": {"name": "AttributeError", "args": []}}),
    }))
}

/// Runs a gateway until so many events are over.
fn run(configuration: Configuration, devices: &[SocketAddr], events: usize) -> Told {
    let folder = tempfile::tempdir().unwrap();
    run_until(folder.path(), configuration, devices, (events, &[]))
}

/// The same, until all those words were said to people, too.
fn run_until(
    folder: &Path,
    configuration: Configuration,
    devices: &[SocketAddr],
    (events, words): (usize, &[&str]),
) -> Told {
    let ports: Vec<u16> = devices.iter().map(SocketAddr::port).collect();
    let verified: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let told = Arc::clone(&verified);
    let manager = serve(Arc::new(move |name, args| match name {
        "verify_gateway" => {
            *told.lock().unwrap() = Some(args[1].as_str().unwrap().parse().unwrap());
            json!({"result": true})
        }
        "hostnames" => json!({"result": ports}),
        _ => json!({"error": {"name": "AttributeError", "args": []}}),
    }));
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    let gateway = Gateway {
        configuration,
        bootup: Bootup { manager: manager.to_string(), interface: "127.0.0.1:0".into() },
        log: log.local_addr().unwrap().to_string(),
        folder: folder.to_owned(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let running = thread::spawn(move || gateway.run(&stopped));
    let begin = Instant::now();
    let own = loop {
        if let Some(own) = *verified.lock().unwrap() {
            break own;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the gateway does not come");
        thread::sleep(Duration::from_millis(5));
    };
    let mut interface = TcpStream::connect(own).unwrap();
    for call in ["get_timestamp", "start_test", "stop_everything"] {
        writeln!(interface, "{{\"name\":\"{call}\",\"args\":[]}}").unwrap();
        let mut answer = [0; 512];
        let read = interface.read(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer[..read]).unwrap();
        match call {
            "get_timestamp" => assert!(answer["result"].as_f64().unwrap() > 0.0),
            "start_test" => assert_eq!(answer["result"], true),
            _ => assert_eq!(answer["error"]["name"], "AttributeError"),
        }
    }
    let lines = read(&log, events, words, &stop);
    Told { done: running.join().unwrap().unwrap(), lines }
}

#[test]
fn all_nine_handle_every_event_once_and_in_order() {
    for dispatcher in Model::ALL {
        for handler in Model::ALL {
            let devices: Vec<SocketAddr> = (0..8).map(|number| device(number, 20)).collect();
            let told = run(configuration(dispatcher, handler), &devices, 160);
            check(&told, 8, 20, &format!("{dispatcher}/{handler}"));
        }
    }
}

#[test]
fn our_own_loop_does_the_same() {
    for (dispatcher, handler) in [
        (Model::Serial, Model::Cooperative),
        (Model::Preemptive, Model::Cooperative),
        (Model::Cooperative, Model::Serial),
        (Model::Cooperative, Model::Preemptive),
        (Model::Cooperative, Model::Cooperative),
    ] {
        let devices: Vec<SocketAddr> = (0..8).map(|number| device(number, 20)).collect();
        let own = Configuration {
            event_loop: Reactor::Epoll,
            io_order: Order::Beside,
            ..configuration(dispatcher, handler)
        };
        let told = run(own, &devices, 160);
        check(&told, 8, 20, &format!("{dispatcher}/{handler}"));
    }
}

#[test]
fn more_devices_than_sockets_take_turns() {
    for dispatcher in Model::ALL {
        let devices: Vec<SocketAddr> = (0..12).map(|number| device(number, 5)).collect();
        let few = Configuration { sockets: 4, ..configuration(dispatcher, Model::Preemptive) };
        let told = run(few, &devices, 60);
        check(&told, 12, 5, &format!("{dispatcher} with few sockets"));
    }
}

/// A device that says the same to every call and goes on listening, or closes. With no words it is silent.
fn broken(said: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                while let Ok(1..) = stream.read(&mut [0; 512]) {
                    if stream.write_all(said).is_err() || closes {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Devices that close, are silent, or say half a JSON, what is none, an answer to another call, more than was asked: the
/// others are served all the same, and the log says which one failed, and how. A serial dispatcher waits for those that are
/// silent, and is spared them.
#[test]
fn devices_that_fail_hold_up_nobody_and_are_told() {
    let all =
        Model::ALL.map(|dispatcher| std::thread::spawn(move || devices_that_fail_hold_up_nobody(dispatcher)));
    all.into_iter().for_each(|one| one.join().unwrap());
}

fn devices_that_fail_hold_up_nobody(dispatcher: Model) {
    let mut devices: Vec<SocketAddr> = (0..4).map(|number| device(number, 20)).collect();
    devices.extend([
        broken(b"", true),
        broken(b"{\"result\"", true),
        broken(b"HTTP/1.1 200 OK\r\n", false),
        broken(b"{\"result\":1}{\"result\":[]}", false),
        broken(b"{\"result\":true}", false),
        broken(b"{\"result\":\"x-1\"}", false),
        broken(b"{\"error\":{\"name\":\"KeyError\",\"args\":[\"heat\"]}}", false),
    ]);
    let mut words = vec![
        "device 4 at ",
        "device 5 at ",
        "the answer is no answer: expected value",
        "it answers what nobody has asked",
        "an event is a text or a number, and not true",
        "status is 1 or 0, and not \"x-1\"",
        "KeyError was raised: [\"heat\"]",
    ];
    if dispatcher != Model::Serial {
        devices.extend([broken(b"", false), broken(b"{\"result\"", false)]);
        words.extend(["device 11 at ", "device 12 at "]);
    }
    let folder = tempfile::tempdir().unwrap();
    let told = run_until(folder.path(), configuration(dispatcher, Model::Preemptive), &devices, (80, &words));
    check(&told, 4, 20, &format!("{dispatcher} with broken devices"));
}

/// Devices that are asked for their events by one name: what a device calls its event is not the gateway's to judge, so it is
/// worked on, each time.
#[test]
fn a_device_with_the_event_of_another_one_is_served() {
    for dispatcher in Model::ALL {
        // Both call theirs 0-0 to 0-4.
        let devices = [device(0, 5), device(0, 5)];
        let told = run(configuration(dispatcher, Model::Preemptive), &devices, 10);
        assert_eq!((told.done.done, told.done.failed), (10, 0), "{dispatcher}");
    }
}

/// A pool of one thread, and work that is much longer than the calls: the events wait in their devices and at the door of the
/// pool, and all are done.
#[test]
fn a_pool_that_is_exhausted_lets_events_wait() {
    for dispatcher in Model::ALL {
        let devices: Vec<SocketAddr> = (0..6).map(|number| device(number, 10)).collect();
        let narrow = Configuration {
            pool_size: 1,
            cpu_intensity: 0.1,
            ..configuration(dispatcher, Model::Preemptive)
        };
        let told = run(narrow, &devices, 60);
        check(&told, 6, 10, &format!("{dispatcher} with a pool of one"));
        // One thread has one event at a time.
        let mut at_work = 0;
        let mut lines: Vec<_> = told.lines.iter().filter(|(keyword, ..)| keyword != "RETRIEVED").collect();
        lines.sort_by(|one, other| one.1.total_cmp(&other.1));
        for (keyword, ..) in lines {
            at_work += if keyword == "DISPATCHED" { 1 } else { -1 };
            assert!((0..=1).contains(&at_work), "{dispatcher}");
        }
    }
}

/// A file that cannot be written: its events are told as failed, and the gateway goes on.
#[test]
fn work_that_fails_is_told() {
    for (dispatcher, handler) in [
        (Model::Serial, Model::Serial),
        (Model::Serial, Model::Cooperative),
        (Model::Preemptive, Model::Preemptive),
        (Model::Cooperative, Model::Cooperative),
    ] {
        let devices: Vec<SocketAddr> = (0..2).map(|number| device(number, 5)).collect();
        let always = Configuration { io_spread: Spread::Constant, ..configuration(dispatcher, handler) };
        let folder = tempfile::tempdir().unwrap();
        // Where the file of the second device would be.
        std::fs::create_dir(folder.path().join("device-1")).unwrap();
        let told = run_until(folder.path(), always, &devices, (10, &["the work of 1-"]));
        assert_eq!(told.done, Done { done: 5, failed: 5, refused: 0 }, "{dispatcher}/{handler}");
        let failed = told.lines.iter().filter(|(keyword, _, _)| keyword == "FAILED");
        assert_eq!(failed.filter(|(_, _, event)| event.starts_with("1-")).count(), 5);
    }
}

#[test]
fn a_manager_with_another_configuration_refuses() {
    let manager = serve(Arc::new(|name, _| match name {
        "verify_gateway" => {
            json!({"error": {"name": "ConfigurationError", "args": ["POOL_SIZE: the gateway has 3, the manager 10"]}})
        }
        _ => json!({"result": []}),
    }));
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway {
        configuration: configuration(Model::Serial, Model::Serial),
        bootup: Bootup { manager: manager.to_string(), interface: "127.0.0.1:0".into() },
        log: "127.0.0.1:9".into(),
        folder: folder.path().to_owned(),
    };
    let error = gateway.run(&Arc::new(AtomicBool::new(false))).unwrap_err().to_string();
    assert!(error.contains("POOL_SIZE: the gateway has 3, the manager 10"), "{error}");
}
