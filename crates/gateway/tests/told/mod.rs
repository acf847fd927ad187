//! What the log says of the events of a test.

use plimsoll_gateway::configuration::{Configuration, Model, Order, Reactor, Spread};
use plimsoll_gateway::gateway::Done;
use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Keyword, time and event of a line.
pub type Line = (String, f64, String);

/// What became of a test.
pub struct Told {
    /// What the gateway says of itself.
    pub done: Done,
    /// The lives of events.
    pub lines: Vec<Line>,
}

/// Reads the log to its end, which is asked for when so many events are over and all those words were said to people.
pub fn read(log: &UdpSocket, events: usize, words: &[&str], stop: &AtomicBool) -> Vec<Line> {
    log.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (mut lines, mut errors) = (Vec::new(), Vec::<String>::new());
    let (mut over, mut ended) = (0, false);
    while !ended {
        let mut buffer = [0; 4096];
        let read = log.recv(&mut buffer).unwrap_or_else(|error| panic!("{error}: {over} events, {errors:?}"));
        for line in std::str::from_utf8(&buffer[..read]).unwrap().lines() {
            if line.starts_with("ERROR:") && !line.contains(":EVENT_LIFECYCLE_") {
                errors.push(line.to_owned());
                continue;
            }
            let fields: Vec<&str> = line.splitn(5, ':').collect();
            let [_, time, _, keyword, event] = fields[..] else { panic!("{line}") };
            ended |= keyword == "LOG_END";
            if let Some(keyword) = keyword.strip_prefix("EVENT_LIFECYCLE_") {
                over += usize::from(matches!(keyword, "DONE" | "FAILED"));
                lines.push((keyword.to_owned(), time.parse().unwrap(), event.to_owned()));
            }
        }
        let said = |words: &&str| errors.iter().any(|error| error.contains(words));
        if over >= events && words.iter().all(said) {
            stop.store(true, Ordering::Relaxed);
        }
    }
    lines
}

/// Work that differs by event, and three threads.
pub fn configuration(dispatcher: Model, event_handler: Model) -> Configuration {
    Configuration {
        dispatcher,
        event_handler,
        cpu_intensity: 0.02,
        io_intensity: 2e-5,
        pool_size: 3,
        cores: 0,
        cpu_spread: Spread::Uniform,
        io_spread: Spread::Exponential,
        io_order: Order::After,
        event_loop: Reactor::Libuv,
        sockets: 0,
    }
}

/// Every event of so many devices, each with so many, went the whole way once, and those of a device in their order.
pub fn check(told: &Told, devices: usize, events: usize, what: &str) {
    assert_eq!((told.done.done, told.done.failed), ((devices * events) as u64, 0), "{what}");
    let mut lives: HashMap<&str, Vec<(&str, f64)>> = HashMap::new();
    let mut orders: HashMap<&str, Vec<&str>> = HashMap::new();
    for (keyword, time, event) in &told.lines {
        lives.entry(event).or_default().push((keyword, *time));
        if keyword == "DONE" {
            orders.entry(event.split('-').next().unwrap()).or_default().push(event);
        }
    }
    assert_eq!(lives.len(), devices * events, "{what}");
    for (event, life) in &lives {
        let names: Vec<&str> = life.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["RETRIEVED", "DISPATCHED", "DONE"], "{what}: {event}");
        assert!(life.is_sorted_by_key(|(_, time)| *time), "{what}: {life:?}");
    }
    for (device, order) in orders {
        let expected: Vec<String> = (0..events).map(|event| format!("{device}-{event}")).collect();
        assert_eq!(order, expected, "{what}");
    }
}
