//! Truth tests: what the program measures over loopback is compared, message by message, with the record of a server
//! whose true times are known.

use crate::harness::{Bench, Finished, STORE, Started, assert_end_within, children, count, on_a_calm_host};
use plimsoll_model::Nanos;
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_store::RunReader;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// A message as the station knows it, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug)]
struct Truth {
    arrival: i64,
    /// Begin of service and departure; none for a refused message.
    service: Option<(i64, i64)>,
    fate: String,
}

/// A run and the station's record of it.
struct Measured {
    run: Finished,
    /// `CLOCK_MONOTONIC` at time zero of the run.
    epoch: i64,
    messages: Vec<MessageRecord>,
    truth: HashMap<(u32, u32), Truth>,
}

/// The address that a target says it listens on.
pub fn listening_address(target: &Started) -> String {
    let begin = Instant::now();
    loop {
        let said = target.said_so_far();
        if let Some((_, rest)) = said.split_once("listening on ")
            && rest.contains('\n')
        {
            return rest.split_whitespace().next().unwrap().to_owned();
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "the target does not listen: {said}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a station with those options, and gives its address.
fn start_station(bench: &Bench, options: &str) -> (Started, String) {
    let arguments =
        ["target", "station", "--truth", "truth.csv"].into_iter().chain(options.split_whitespace());
    let station = bench.start(&mut bench.plimsoll(arguments));
    let address = listening_address(&station);
    (station, address)
}

/// Loads a station with that rate for a few seconds and reads both records.
fn measure(bench: fn() -> Bench, options: &str, rate: u32, more: &str) -> Measured {
    measure_population(bench, options, rate, "devices: 20, subscribers: 1", more)
}

fn measure_population(
    bench: fn() -> Bench,
    options: &str,
    rate: u32,
    population: &str,
    more: &str,
) -> Measured {
    measure_protocol(bench, options, rate, population, "", more)
}

/// `protocol` stands beside the address where that says not all.
fn measure_protocol(
    bench: fn() -> Bench,
    options: &str,
    rate: u32,
    population: &str,
    protocol: &str,
    more: &str,
) -> Measured {
    let bench = bench();
    let (station, address) = start_station(&bench, options);
    let run = bench.run(&format!(
        "name: truth
platform: {{ profile: existing, address: \"{address}\"{protocol} }}
population: {{ {population} }}
load: {{ levels: [{rate}], warm_up: 0s, hold: 2s, samples: 10, drain: 2s }}
record: {{ messages: true }}
objectives: {{ publish_p99: null, delivered: null, achieved: null, publish_p50: \"< 10 s\" }}
{more}"
    ));
    station.signal(Signal::TERM);
    station.finish().exits(0);
    let reader = RunReader::open(&bench.path(STORE)).unwrap();
    let record = reader.run("last").unwrap();
    let mut messages = Vec::new();
    reader.messages(&record.id, |message| messages.push(message)).unwrap();
    let mut truth = HashMap::new();
    for line in fs::read_to_string(bench.path("truth.csv")).unwrap().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse::<i64>().ok();
        let key = (number(1).unwrap() as u32, number(2).unwrap() as u32);
        let service = number(4).zip(number(5));
        let known = Truth { arrival: number(3).unwrap(), service, fate: cells[6].to_owned() };
        assert!(truth.insert(key, known).is_none(), "twice in the record: {line}");
    }
    Measured { run, epoch: record.provenance.clock_epoch.unwrap(), messages, truth }
}

impl Measured {
    /// How many messages the station gave a fate.
    fn fated(&self, fate: &str) -> u64 {
        self.truth.values().filter(|truth| truth.fate.split('+').any(|part| part == fate)).count() as u64
    }

    fn absolute(&self, at: Nanos) -> i64 {
        at.0 + self.epoch
    }

    /// Fails unless every stamp of ours lies where the station's stamps allow; gives, sorted, what the two wake-ups added
    /// to each publish time (the station's after our sending, ours after its departure) and to each subscribe time.
    fn assert_enclosed(&self) -> [Vec<i64>; 2] {
        let mut added = [Vec::new(), Vec::new()];
        assert_eq!(self.messages.len(), self.truth.len(), "messages of ours and of the station");
        assert_eq!(self.messages.len() as u64, count(self.run.level(0), "sent"));
        for message in &self.messages {
            let truth = &self.truth[&(message.device, message.sequence)];
            let sent = self.absolute(message.sent.unwrap());
            assert!(message.due <= message.ready && message.ready <= message.sent.unwrap(), "{message:?}");
            assert!(sent <= truth.arrival, "arrived before it was sent: {message:?} {truth:?}");
            let Some((begin, departure)) = truth.service else { continue };
            assert!(truth.arrival <= begin && begin <= departure, "{truth:?}");
            for (stamp, added) in [message.done, message.first_received].into_iter().zip(&mut added) {
                let Some(stamp) = stamp.map(|at| self.absolute(at)) else { continue };
                assert!(departure <= stamp, "over before its departure: {message:?} {truth:?}");
                added.push((truth.arrival - sent) + (stamp - departure));
            }
        }
        added.each_mut().map(|added| {
            added.sort_unstable();
            std::mem::take(added)
        })
    }
}

#[test]
fn a_killed_station_keeps_its_record() {
    let bench = Bench::beside_others();
    let (station, address) = start_station(&bench, "--service deterministic:100us");
    let run = bench.run(&format!(
        "name: killed
platform: {{ profile: existing, address: \"{address}\" }}
population: {{ devices: 5 }}
load: {{ levels: [500], warm_up: 0s, hold: 500ms, samples: 5, drain: 1s }}
objectives: {{ publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }}
"
    ));
    station.signal(Signal::KILL);
    station.finish();
    let record = fs::read_to_string(bench.path("truth.csv")).unwrap();
    let served = record.lines().filter(|line| line.ends_with(",served")).count() as u64;
    assert_eq!((served, count(run.level(0), "acknowledged")), (count(run.level(0), "sent"), served));
}

#[test]
fn a_scenario_may_start_a_station_as_its_platform_and_log_its_messages() {
    let bench = Bench::beside_others();
    let scenario = "name: platform
platform: station
population: { devices: 5, subscribers: 1 }
load: { levels: [200], warm_up: 0s, hold: 500ms, samples: 5, drain: 1s }
";
    let mut command = bench.run_command(scenario);
    let run = bench.start(command.args(["--set", "record.messages=true"])).finish();
    let sent = count(run.level(0), "sent");
    assert_eq!(count(run.level(0), "delivered"), sent);
    assert_eq!(run.summary["provenance"]["platform"]["profile"], "station");
    let export = bench.call(["export", "last", "--store", STORE, "--format", "messages"]).exits(0);
    let mut lines = export.stdout.lines();
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("level,sample,device,sequence,due,ready,sent,done,first_received,"),
        "{header}"
    );
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len() as u64, sent);
    assert!(rows.iter().all(|row| row.ends_with(",1,0,complete")), "{rows:?}");
    bench.call(["export", "last", "--store", STORE, "--format", "messages", "--rows", "levels"]).exits(104);
    bench.run(scenario);
    let none = bench.call(["export", "last", "--store", STORE, "--format", "messages"]);
    none.exits(1).says("--set record.messages=true");
}

/// Arrival, begin of service and departure of each message (device and sequence) at a station of the chain `hop`.
fn hop(bench: &Bench, station: u32) -> HashMap<(u32, u32), [i64; 3]> {
    let text = fs::read_to_string(bench.path(&format!("hop-{station}.csv"))).unwrap();
    let line = |line: &str| {
        let cells: Vec<i64> = line.split(',').take(6).map(|cell| cell.parse().unwrap()).collect();
        ((cells[1] as u32, cells[2] as u32), [cells[3], cells[4], cells[5]])
    };
    text.lines().skip(1).map(line).collect()
}

/// Three stations, one behind the other: each message passes all of them, and its publish time holds all three services.
#[test]
fn a_chain_serves_each_message_at_every_station() {
    let bench = Bench::beside_others();
    let options = "target chain --stations 3 --truth hop -- --service deterministic:2ms";
    let chain = bench.start(&mut bench.plimsoll(options.split(' ')));
    let address = listening_address(&chain);
    let run = bench.run(&format!(
        "name: chain
platform: {{ profile: existing, address: \"{address}\" }}
population: {{ devices: 5 }}
load: {{ levels: [50], warm_up: 0s, hold: 2s, samples: 4, drain: 2s }}
objectives: {{ publish_p99: null, delivered: null, achieved: null, publish_p50: \"< 10 s\" }}
"
    ));
    chain.signal(Signal::TERM);
    chain.finish().exits(0);
    let sent = count(run.level(0), "sent");
    assert_eq!(count(run.level(0), "acknowledged"), sent);
    let fastest = run.level(0)["publish_time_from_send"]["p25"].as_f64().unwrap();
    // A bucket of the histogram at 6 ms is 4 µs wide.
    assert!(fastest >= 0.005996, "three services of 2 ms: {fastest}");
    let hops = [1, 2, 3].map(|station| hop(&bench, station));
    for (message, [.., departure]) in &hops[0] {
        let (second, third) = (hops[1][message], hops[2][message]);
        assert!(second[0] >= *departure && third[0] >= second[2], "{message:?}");
    }
    assert!(hops.iter().all(|hop| hop.len() as u64 == sent));
}

/// The first station passes on two messages at once, through its pool; the second has a lock, and more workers.
#[test]
fn stations_of_a_chain_have_options_of_their_own() {
    let bench = Bench::beside_others();
    let mut command = bench.plimsoll("target chain --stations 2 --truth hop".split(' '));
    command.args(["--station", "1:--workers 8 --pool 2"]);
    command.args(["--station", "2:--lock deterministic:2ms --workers 4"]);
    command.args(["--", "--workers", "1", "--service", "deterministic:3ms"]);
    let chain = bench.start(&mut command);
    let address = listening_address(&chain);
    let run = bench.run(&format!(
        "name: own options
platform: {{ profile: existing, address: \"{address}\" }}
population: {{ devices: 5 }}
load: {{ levels: [200], warm_up: 0s, hold: 2s, samples: 4, drain: 2s }}
objectives: {{ publish_p99: null, delivered: null, achieved: null, publish_p50: \"< 10 s\" }}
"
    ));
    chain.signal(Signal::TERM);
    chain.finish().exits(0);
    let sent = count(run.level(0), "sent");
    assert_eq!(count(run.level(0), "acknowledged"), sent);
    let milli = 1_000_000;
    let (first, second) = (hop(&bench, 1), hop(&bench, 2));
    assert_eq!((first.len() as u64, second.len() as u64), (sent, sent));
    assert!(
        first.values().all(|[arrival, begin, departure]| begin >= arrival && departure - begin == 3 * milli)
    );
    let mut begins: Vec<i64> = first.values().map(|times| times[1]).collect();
    begins.sort_unstable();
    let overlap = begins.windows(2).any(|pair| pair[1] - pair[0] < 3 * milli);
    assert!(overlap, "the first station has one worker, as all of them, and not eight of its own");
    let mut arrivals: Vec<i64> = second.values().map(|times| times[0]).collect();
    let mut departures: Vec<i64> = second.values().map(|times| times[2]).collect();
    arrivals.sort_unstable();
    departures.sort_unstable();
    assert!(second.values().all(|[_, begin, departure]| departure - begin >= 5 * milli));
    assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= 2 * milli), "two held the lock at once");
    let pairs = departures.iter().zip(&arrivals[2..]);
    assert!(pairs.clone().all(|(departure, arrival)| arrival >= departure), "three were there at once");
    let waited = |(message, times): (&(u32, u32), &[i64; 3])| second[message][0] - times[2] > milli;
    assert!(first.iter().any(waited), "nobody waited for the pool");
}

/// Beside the address of a WebSocket that speaks no MQTT.
const WEBSOCKET_ALONE: &str = ", protocol: websocket";

#[test]
fn wrong_options_of_a_station_are_refused_before_any_starts() {
    let bench = Bench::beside_others();
    for (own, hint) in [
        ("3:--sharing", "there is no station 3"),
        ("1:--lock 5", "station 1: invalid value '5' for '--lock <LAW>'"),
        ("2:--pool 4", "station 2: --pool needs a next station"),
    ] {
        let refused = bench.call(["target", "chain", "--truth", "hop", "--station", own]);
        refused.exits(104).says(hint);
        assert!(!bench.path("hop-1.csv").exists() && !bench.path("hop-2.csv").exists(), "{own}");
    }
    bench.call(["target", "station", "--pool", "4"]).exits(104).says("give its address by --next");
}

/// A member that is stopped cannot obey: it is killed, and the others end in order.
#[test]
fn a_chain_with_a_stopped_member_ends_and_says_so() {
    let bench = Bench::beside_others();
    let chain = bench.start(&mut bench.plimsoll("target chain --stations 2 --truth hop".split(' ')));
    listening_address(&chain);
    let stations = children(chain.id());
    assert_eq!(stations.len(), 2);
    let stopped = i32::try_from(stations[0]).ok().and_then(Pid::from_raw).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    chain.signal(Signal::TERM);
    let chain = chain.finish().exits(1);
    assert_end_within(Duration::ZERO, &stations);
    chain.says("did not end within 5 s and was killed; its record may lack messages");
}

/// Over HTTP, CoAP and WebSocket (alone and under MQTT) too, a request is answered no earlier than the station served it.
#[test]
#[ignore = "acceptance: truth"]
fn requests_are_measured_as_the_station_served_them() {
    let shared = "coap: { sockets: 1 }\n";
    for (protocol, beside, more) in [
        ("http", "", ""),
        ("coap", "", ""),
        ("coap", "", shared),
        ("websocket", "", ""),
        ("websocket", WEBSOCKET_ALONE, ""),
    ] {
        let options = format!("--protocol {protocol} --service exponential:1ms");
        let measured = measure_protocol(Bench::new, &options, 150, "devices: 20", beside, more);
        let mut waits = Vec::new();
        for message in &measured.messages {
            let truth = &measured.truth[&(message.device, message.sequence)];
            let (sent, done) = (message.sent.unwrap().0, message.done.unwrap().0);
            let (_, departure) = truth.service.unwrap();
            let (to, from) = (truth.arrival - (measured.epoch + sent), measured.epoch + done - departure);
            assert!(to >= 0 && from >= 0, "{protocol}: {to} {from}");
            waits.push(to + from);
        }
        waits.sort_unstable();
        assert!(waits.len() > 200, "{protocol}: {} messages", waits.len());
        assert!(
            waits[waits.len() / 2] < 1_000_000,
            "{protocol}: two wake-ups took {} ns",
            waits[waits.len() / 2]
        );
        assert_eq!(count(measured.run.level(0), "acknowledged"), measured.truth.len() as u64);
    }
}

#[test]
fn planted_faults_are_found_to_the_message() {
    let options = "--service deterministic:200us --drop 0.02 --duplicate 0.03 --reorder 0.04 --seed 7";
    for version in ["\"3.1.1\"", "\"5\""] {
        let measured =
            measure(Bench::beside_others, options, 1000, &format!("mqtt: {{ version: {version} }}\n"));
        measured.assert_enclosed();
        let level = measured.run.level(0);
        let planted = ["dropped", "duplicated", "reordered"].map(|fate| measured.fated(fate));
        assert!(planted.iter().all(|&number| number > 20), "{planted:?}");
        assert_eq!(["lost", "duplicated", "reordered"].map(|name| count(level, name)), planted);
        assert_eq!(count(level, "acknowledged"), measured.messages.len() as u64);
        for message in &measured.messages {
            let dropped = measured.truth[&(message.device, message.sequence)].fate == "dropped";
            assert_eq!(message.fate == Fate::Lost, dropped, "{message:?}");
        }
    }
}

/// Twice what it carries: a queue of ten is soon full, and MQTT 5 has a word for it.
#[test]
fn a_full_queue_refuses_with_mqtt_5_and_is_silent_before() {
    for (version, refusals) in [("\"5\"", true), ("\"3.1.1\"", false)] {
        let options = "--service deterministic:2ms --queue 10";
        let measured =
            measure(Bench::beside_others, options, 1000, &format!("mqtt: {{ version: {version} }}\n"));
        measured.assert_enclosed();
        let level = measured.run.level(0);
        let refused = measured.fated("refused");
        assert!(refused > 600, "{refused}");
        assert_eq!(count(level, "refused"), if refusals { refused } else { 0 });
        assert_eq!(count(level, "lost"), refused);
        assert_eq!(count(level, "acknowledged"), measured.fated("served"));
    }
}

/// A worker that burns processor time or waits, at QoS 2; its record is of what it measured itself.
#[test]
fn a_worker_in_a_thread_keeps_an_honest_record() {
    for work in ["spin", "wait --lock deterministic:100us --lock-file lock"] {
        let options = format!("--service deterministic:500us --work {work}");
        let measured = measure(Bench::beside_others, &options, 300, "mqtt: { qos: 2 }\n");
        measured.assert_enclosed();
        assert!(measured.messages.iter().all(|message| message.fate == Fate::Complete));
        let shortest =
            measured.truth.values().filter_map(|truth| truth.service).map(|(begin, end)| end - begin).min();
        let least = if work == "spin" { 500_000 } else { 600_000 };
        assert!(shortest.unwrap() >= least, "{work}: {shortest:?}");
    }
}

/// What the station drops is never answered, and a second answer is nobody's.
#[test]
fn faults_planted_over_websocket_are_found_to_the_message() {
    let options = "--protocol websocket --service deterministic:200us --drop 0.02 --duplicate 0.03 --seed 7";
    let measured = measure_protocol(Bench::beside_others, options, 1000, "devices: 20", WEBSOCKET_ALONE, "");
    measured.assert_enclosed();
    let (dropped, duplicated) = (measured.fated("dropped"), measured.fated("duplicated"));
    assert!(dropped > 20 && duplicated > 20, "{dropped} {duplicated}");
    let level = measured.run.level(0);
    assert_eq!(count(level, "acknowledged"), measured.messages.len() as u64 - dropped);
    assert_eq!((count(level, "foreign"), count(level, "disconnected")), (duplicated, 0));
    for message in &measured.messages {
        let dropped = measured.truth[&(message.device, message.sequence)].fate == "dropped";
        assert_eq!(message.fate == Fate::Unacknowledged, dropped, "{message:?}");
    }
}

/// Tests that measure.
mod alone {
    use super::*;

    /// Measures queues at those loads. What the two wake-ups add is a property of the host, so that only its median is held
    /// to a bound, and a loose one: a wake-up takes tens of microseconds, a shared machine now and then keeps one for tens of
    /// milliseconds.
    #[test]
    fn every_measured_time_is_the_stations_own_and_two_wake_ups() {
        for (options, rate) in [
            ("--service exponential:1ms", 500),
            ("--service exponential:1ms", 900),
            ("--service exponential:4ms --workers 4", 800),
        ] {
            let mut added = [Vec::new(), Vec::new()];
            on_a_calm_host(|| {
                let measured = measure(Bench::new, options, rate, "");
                added = measured.assert_enclosed();
                let sent = measured.messages.len();
                assert!(measured.messages.iter().all(|message| message.fate == Fate::Complete));
                assert_eq!((added[0].len(), added[1].len(), measured.fated("dropped")), (sent, sent, 0));
                assert_eq!(measured.fated("reordered"), count(measured.run.level(0), "reordered"));
                measured.run
            });
            for (what, added) in ["publish", "subscribe"].into_iter().zip(&added) {
                let at = |q: f64| Nanos(added[((added.len() - 1) as f64 * q) as usize]);
                println!(
                    "{options} at {rate}/s: added to the {what} time: p50 {} p99 {} max {}",
                    at(0.5),
                    at(0.99),
                    at(1.0)
                );
                assert!(at(0.5) < Nanos::from_millis(1), "the median of what is added is {}", at(0.5));
            }
        }
    }

    /// Many messages of one device are under way over WebSocket, the load is near what the station carries, and each time is
    /// still that of its own message.
    #[test]
    fn every_message_over_websocket_has_its_own_answer() {
        for (message, options) in [
            ("", "--service exponential:1ms"),
            ("message: { template: '{\"id\": \"{marker}\"}' }\n", "--service exponential:4ms --workers 4"),
        ] {
            let options = format!("--protocol websocket {options}");
            let measured =
                measure_protocol(Bench::new, &options, 800, "devices: 2", WEBSOCKET_ALONE, message);
            let [mut added, _] = measured.assert_enclosed();
            added.sort_unstable();
            let sent = measured.messages.len();
            assert!(sent > 1000, "{sent}");
            assert_eq!((added.len(), measured.fated("reordered") > 0), (sent, options.contains("workers")));
            assert!(added[sent / 2] < 1_000_000, "two wake-ups took {} ns", added[sent / 2]);
            let level = measured.run.level(0);
            assert_eq!((count(level, "acknowledged"), count(level, "foreign")), (sent as u64, 0));
        }
    }
}
