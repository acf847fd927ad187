//! Traffic with known properties, as a capture would tell of it.

use super::*;
use plimsoll_capture::action::{Action, ActionCarrier, ClientAction, Connect, Publish};
use plimsoll_capture::component::Party;
use plimsoll_capture::observations::ConversationId;
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::table::Located;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;
use plimsoll_stats::distribution::{InterArrival, random};
use std::net::SocketAddr;

fn end(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().unwrap().into()
}

/// What is gathered of actions: seconds, the client's end, what it does.
struct Traffic {
    protocol: WireProtocol,
    gathered: Gathering,
}

impl Traffic {
    fn of(protocol: WireProtocol) -> Traffic {
        Traffic { protocol, gathered: Gathering::default() }
    }

    fn act(&mut self, seconds: f64, client: &str, action: Action) {
        let (client, server) = (end(client), end("10.0.0.1:1883"));
        let observed = ClientAction {
            at: Nanos((seconds * 1e9) as i64),
            conversation: ConversationId(0),
            protocol: self.protocol,
            carrier: ActionCarrier::Stream,
            secured: false,
            action,
        };
        let parties = [Party::Host(client.address), Party::Server(server)];
        self.gathered.take(Located { client, server, parties, protocol: self.protocol, observed });
    }

    fn connect(&mut self, seconds: f64, client: &str, name: &str) {
        let connect =
            Connect { client: name.into(), version: 4, keep_alive: 30, clean: true, ..Connect::default() };
        self.act(seconds, client, Action::Connect(connect));
    }

    fn publish(&mut self, seconds: f64, client: &str, target: &str, bytes: u64) {
        let (method, target) = ("PUBLISH", target.to_owned());
        self.act(
            seconds,
            client,
            Action::Publish(Publish { method, target, qos: 1, bytes, ..Publish::default() }),
        );
    }

    fn learned(&self) -> Learned {
        learn(&self.gathered, &Wishes { keep_names: false, times: 1.0, traces: Traces::Never })
    }
}

#[test]
fn a_fleet_is_recovered() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    let mut random = random(1, &[]);
    for device in 0..20 {
        traffic.connect(0.0, &format!("10.0.1.{device}:4000"), &format!("sensor-{device}"));
    }
    traffic.act(0.0, "10.0.2.1:5", Action::Subscribe { filter: "city/+/temp".into(), qos: 1 });
    let mut messages: Vec<(f64, u32)> = Vec::new();
    for device in 0..20_u32 {
        let mut at = InterArrival::Gamma { shape: 4.0 }.sample_first(&mut random);
        while at < 100.0 {
            messages.push((at, device));
            at += InterArrival::Gamma { shape: 4.0 }.sample(&mut random);
        }
    }
    messages.sort_by(|one, other| one.0.total_cmp(&other.0));
    for &(at, device) in &messages {
        let bytes = 100 + random.below(51);
        traffic.publish(at, &format!("10.0.1.{device}:4000"), &format!("city/s{device}/temp"), bytes);
        traffic.act(at, "10.0.2.1:5", Action::Receive);
    }
    let learned = traffic.learned();
    let [population] = learned.populations.as_slice() else { panic!("{learned:?}") };
    assert_eq!((population.name.as_str(), population.target.as_str()), ("mqtt-1", "city/{device}/temp"));
    assert_eq!((population.devices, population.device_by, population.qos), (20, "target", 1));
    assert!((population.rate - 20.0).abs() < 1.0, "{}", population.rate);
    let [lo, hi] = population.rate_interval;
    assert!(lo < 20.0 && 20.0 < hi && hi - lo < 2.0, "{lo} {hi}");
    assert_eq!(
        (population.arrivals.per, population.arrivals.law, population.arrivals.fits),
        ("device", "gamma", true)
    );
    assert!((3.3..4.8).contains(&population.arrivals.parameter.unwrap()), "{:?}", population.arrivals);
    assert_eq!((population.sizes.kind, population.sizes.min, population.sizes.max), ("uniform", 100, 150));
    assert_eq!(population.session.map(|session| (session.version, session.keep_alive)), Some((4, 30)));
    let subscribers = learned.subscribers.unwrap();
    assert_eq!(
        (subscribers.count, subscribers.filters.as_slice()),
        (1, ["city/+/temp".to_owned()].as_slice())
    );
    assert!((subscribers.deliveries_per_message - 1.0).abs() < 1e-9);
    assert!(learned.notes.iter().any(|note| note.contains("shorter than two hours")), "{:?}", learned.notes);
}

#[test]
fn a_gateway_and_sizes_apart_are_populations_of_their_own() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    traffic.connect(0.0, "10.0.1.1:4000", "gateway");
    for number in 0..400 {
        let (at, device) = (f64::from(number) * 0.1, number % 4);
        // One of the four is a camera.
        let bytes = if device == 3 { 5_000 } else { 40 };
        traffic.publish(at, "10.0.1.1:4000", &format!("site/dev{device}"), bytes);
    }
    let learned = traffic.learned();
    let [sensors, cameras] = learned.populations.as_slice() else { panic!("{learned:?}") };
    assert_eq!((sensors.devices, sensors.sizes.max), (3, 40));
    assert_eq!((cameras.devices, cameras.sizes.min), (1, 5_000));
    assert!((sensors.share - 0.75).abs() < 1e-9, "{}", sensors.share);
    assert_eq!(sensors.target, "site/{device}");
    assert!(
        sensors.notes.iter().any(|note| note.contains("3 devices publish through 1 connections")),
        "{sensors:?}"
    );
    assert_eq!((sensors.arrivals.law, sensors.arrivals.per), ("constant", "device"));
}

/// Connections that come and go are no devices; a part of the path is.
#[test]
fn requests_have_devices_by_path_connection_or_host() {
    let http = |target: &dyn Fn(u32) -> String, port: &dyn Fn(u32) -> u32| {
        let mut traffic = Traffic::of(WireProtocol::Http);
        for number in 0..200 {
            let client = format!("10.0.1.1:{}", port(number));
            traffic.publish(f64::from(number) * 0.5, &client, &target(number), 64);
        }
        let learned = traffic.learned();
        let [population] = learned.populations.as_slice() else { panic!("{learned:?}") };
        (population.target.clone(), population.devices, population.device_by)
    };
    let (each, few) = (|number: u32| 1_000 + number, |number: u32| 1_000 + number % 5);
    assert_eq!(http(&|number| format!("/in/{}", number % 10), &each), ("/in/{device}".into(), 10, "target"));
    assert_eq!(http(&|_| "/in".into(), &few), ("/in".into(), 5, "connection"));
    assert_eq!(http(&|_| "/in".into(), &each), ("/name1".into(), 1, "host"));
    assert_eq!(http(&|number| format!("/in/{number}"), &few), ("/in/{sequence}".into(), 5, "connection"));
}

/// Keys are targets, a topic divides populations, and a record without a key is no unknown one.
#[test]
fn records_are_learned_by_topic_and_key() {
    let mut traffic = Traffic::of(WireProtocol::Kafka);
    for number in 0..300_u32 {
        let produce = |topic: &str, target: String, bytes| {
            let (method, topic) = ("PRODUCE", topic.to_owned());
            Action::Publish(Publish { method, target, topic, qos: 2, bytes, ..Publish::default() })
        };
        let at = f64::from(number);
        traffic.act(at, "10.0.1.1:4000", produce("readings", format!("meter-{}", number % 10), 40));
        traffic.act(at + 0.5, "10.0.1.2:4000", produce("events", String::new(), 90));
    }
    traffic.act(1.0, "10.0.3.1:4000", Action::Subscribe { filter: "#".into(), qos: 1 });
    traffic.act(1.0, "10.0.3.1:4000", Action::Receive);
    for keep_names in [false, true] {
        let learned = learn(&traffic.gathered, &Wishes { keep_names, times: 1.0, traces: Traces::Never });
        let mut populations = learned.populations.clone();
        populations.sort_by_key(|population| population.sizes.max);
        let [readings, events] = populations.as_slice() else { panic!("{learned:?}") };
        assert_eq!((readings.target.as_str(), readings.devices, readings.qos), ("{device}", 10, 2));
        assert_eq!((events.target.as_str(), events.devices, events.device_by), ("{device}", 1, "client"));
        assert!(events.notes.iter().any(|note| note.contains("the records have no key")), "{events:?}");
        assert_eq!(readings.service.scheme, "kafka");
        let topics = [readings, events].map(|population| population.topic.as_deref());
        assert_eq!(topics, if keep_names { [Some("readings"), Some("events")] } else { [None; 2] });
        let subscribers = learned.subscribers.unwrap();
        assert_eq!((subscribers.count, subscribers.protocol.as_deref()), (1, Some("kafka")));
        assert_eq!(subscribers.filters, ["#"]);
    }
}

#[test]
fn a_day_is_learned_hour_by_hour() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    for hour in 0..3_u32 {
        // 100, 200 and 300 messages in these hours.
        let count = 100 * (hour + 1);
        for number in 0..count {
            let at = 3_600.0 * (f64::from(hour) + f64::from(number) / f64::from(count));
            traffic.publish(at, "10.0.1.1:4000", "a/b", 20);
        }
    }
    traffic.publish(3.0 * 3_600.0, "10.0.1.1:4000", "a/b", 20);
    let learned = traffic.learned();
    assert_eq!(learned.hours, [0, 1, 2]);
    let rates: Vec<f64> = learned.populations[0].hourly.iter().map(|rate| (rate * 36.0).round()).collect();
    assert_eq!(rates, [1.0, 2.0, 3.0]);
    let points: Vec<(f64, f64)> =
        learned.curve.iter().map(|point| (point.at / 3_600.0, (point.rate * 36.0).round())).collect();
    assert_eq!(points, [(0.0, 1.0), (0.5, 1.0), (1.5, 2.0), (2.5, 3.0), (3.0, 3.0)]);
}

/// A rush within minutes is followed, and the law is that of the messages within it; where the mix changes, nothing can be followed.
#[test]
fn a_rush_is_learned_from_a_short_capture() {
    let traffic = |rise: &dyn Fn(u32) -> f64| {
        let mut traffic = Traffic::of(WireProtocol::Mqtt);
        let mut random = random(4, &[]);
        for (number, topic) in [(1, "a/b"), (2, "c/d/e")] {
            let mut at = 0.0;
            while at < 80.0 {
                let rate = 20.0 * (1.0 + rise(number) * at / 80.0);
                at += InterArrival::Exponential.sample(&mut random) / rate;
                traffic.publish(at, &format!("10.0.1.{number}:4000"), topic, 20);
            }
        }
        traffic.learned()
    };
    let rush = traffic(&|_| 4.0);
    let (first, last) = (rush.curve[0].rate, rush.curve[9].rate);
    assert!((40.0..60.0).contains(&first) && (170.0..210.0).contains(&last), "{:?}", rush.curve);
    assert!(rush.hours.is_empty() && rush.notes.iter().any(|note| note.contains("the load follows them")));
    assert!(
        rush.populations.iter().all(|own| own.arrivals.law == "poisson" && own.arrivals.fits),
        "{rush:?}"
    );
    assert!(traffic(&|_| 0.0).curve.is_empty());
    let apart = traffic(&|number| if number == 1 { 4.0 } else { 0.0 });
    assert!(apart.curve.is_empty(), "{apart:?}");
    let told = |own: &LearnedPopulation| own.notes.iter().any(|note| note.contains("in the first half"));
    assert!(apart.populations.iter().any(told), "{apart:?}");
}

/// Bursts of a length that no law has: their times are kept, or all times are.
#[test]
fn times_that_no_law_explains_are_kept() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    let mut random = random(9, &[]);
    let mut at = 0.0;
    for burst in 0..60_u32 {
        for number in 0..10_u32 {
            at += 0.01 + 0.001 * random.fraction();
            let device = number % 2;
            traffic.publish(at, &format!("10.0.1.{device}:4000"), &format!("t/dev{device}"), 20);
        }
        at += if burst % 2 == 0 { 1.0 } else { 2.0 };
    }
    for number in 0..400 {
        traffic.publish(0.25 * f64::from(number) + 0.1, "10.0.2.1:4000", "even", 900);
    }
    let learned = |traces| learn(&traffic.gathered, &Wishes { keep_names: false, times: 1.0, traces });
    let never = learned(Traces::Never);
    assert!(never.rows.is_empty() && never.populations.iter().all(|own| own.trace.is_none()));
    let some = learned(Traces::Unexplained);
    let bursts = some.populations.iter().position(|own| own.devices == 2).unwrap();
    let population = &some.populations[bursts];
    assert!(!population.arrivals.fits, "{population:?}");
    let trace = population.trace.unwrap();
    assert_eq!((trace.messages, some.rows.len()), (600, 600));
    assert!(some.rows.iter().all(|row| row.population == bursts && row.device < 2));
    assert_eq!(some.rows[0].at, Nanos::ZERO);
    let last = some.rows[599].at.as_secs_f64();
    assert!((trace.length / last - 600.0 / 599.0).abs() < 1e-6, "{trace:?} {last}");
    assert!((trace.rate - 599.0 / last).abs() < 1e-4 * trace.rate, "{trace:?} {last}");
    assert!(population.notes.iter().any(|note| note.contains("has the exact times")), "{population:?}");
    let all = learned(Traces::All);
    assert_eq!(all.rows.len(), 1_000);
    assert!(all.populations.iter().all(|own| own.trace.is_some()) && all.rows.is_sorted());
}

#[test]
fn names_do_not_stand_in_what_is_learned() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    traffic.connect(0.0, "10.0.1.1:4000", "alices-phone");
    for number in 0..50 {
        traffic.publish(f64::from(number), "10.0.1.1:4000", "home/alice/door", 20);
    }
    traffic.act(0.0, "10.0.2.1:5", Action::Subscribe { filter: "home/alice/#".into(), qos: 0 });
    let told = serde_json::to_string(&traffic.learned()).unwrap();
    for name in ["alice", "home", "door", "10.0"] {
        assert!(!told.contains(name), "{name} in {told}");
    }
    assert!(told.contains("name1/name2/#"), "{told}");
}

#[test]
fn nothing_teaches_nothing() {
    let learned =
        learn(&Gathering::default(), &Wishes { keep_names: false, times: 1.0, traces: Traces::Never });
    assert!(learned.populations.is_empty() && learned.subscribers.is_none());
    assert_eq!(learned.messages, 0);
    let mut once = Traffic::of(WireProtocol::Coap);
    once.publish(1.0, "10.0.1.1:4000", "/a", 20);
    assert_eq!(once.learned().populations[0].devices, 1);
}

/// More targets than are followed: they are counted, and memory stays bounded.
#[test]
fn a_flood_of_targets_is_counted_and_not_followed() {
    let mut traffic = Traffic::of(WireProtocol::Mqtt);
    for number in 0..140_000 {
        traffic.publish(f64::from(number) * 0.001, "10.0.1.1:4000", &format!("flood/{number}"), 20);
    }
    let learned = traffic.learned();
    assert_eq!(learned.messages, 1 << 17);
    let note = learned.notes.iter().find(|note| note.contains("than are followed: 8928"));
    assert!(note.is_some(), "{:?}", learned.notes);
    assert_eq!(learned.populations[0].target, "name1/{sequence}");
}

/// Actions of any kind, at any time: learning neither panics nor writes numbers that are none.
#[test]
fn any_actions_at_all_can_be_learned_from() {
    use proptest::prelude::*;
    let target = prop::collection::vec("[a-z0-9{}?=&+#/]{0,6}", 0..5).prop_map(|parts| parts.join("/"));
    let action = (0..6_u8, any::<i64>(), 0..5_u8, target, any::<u64>(), 0..4_u8);
    let config = ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() };
    let actions = prop::collection::vec(action, 0..120);
    proptest::test_runner::TestRunner::new(config)
        .run(&(actions, any::<bool>(), 0..6_usize, 0..3_usize), |(actions, keep_names, protocol, traces)| {
            let protocols = [
                WireProtocol::Mqtt,
                WireProtocol::Http,
                WireProtocol::Coap,
                WireProtocol::Nats,
                WireProtocol::Kafka,
                WireProtocol::Http2,
            ];
            let traces = [Traces::Never, Traces::Unexplained, Traces::All][traces];
            let mut traffic = Traffic::of(protocols[protocol]);
            for (kind, at, client, target, bytes, qos) in actions {
                let end = format!("10.0.1.{client}:4000");
                // Any moment, and often one close to others.
                let seconds = if kind == 0 { at as f64 / 1e9 } else { (at >> 50) as f64 / 100.0 };
                match kind {
                    1 => traffic.connect(seconds, &end, &target),
                    2 => traffic.act(seconds, &end, Action::Subscribe { filter: target, qos }),
                    3 => traffic.act(seconds, &end, Action::Receive),
                    _ => traffic.publish(seconds, &end, &target, bytes),
                }
            }
            let learned = learn(&traffic.gathered, &Wishes { keep_names, times: 2.0, traces });
            for population in &learned.populations {
                let [lo, hi] = population.rate_interval;
                prop_assert!(population.rate.is_finite() && lo <= population.rate && population.rate <= hi);
                prop_assert!(population.devices >= 1 && population.sizes.min <= population.sizes.max);
                let trace = population.trace.map_or((1.0, 1.0), |trace| (trace.rate, trace.length));
                prop_assert!(trace.0 > 0.0 && trace.1 > 0.0 && trace.1.is_finite());
            }
            let known = |row: &TraceRow| row.device < learned.populations[row.population].devices;
            prop_assert!(learned.rows.iter().all(known) && learned.rows.is_sorted());
            prop_assert!(learned.curve.iter().all(|point| point.rate.is_finite() && point.at.is_finite()));
            Ok(())
        })
        .unwrap();
}
