//! What scenarios without error become.

use crate::support::{facts, load, load_with};
use plimsoll_codec::mqtt::{QoS, Version};
use plimsoll_model::{Metric, Nanos};
use plimsoll_scenario::balancer::BalancingPolicy;
use plimsoll_scenario::plan::{
    ArrivalsPer, Comparison, Content, LevelPlan, MarkerForm, Model, Offline, Plan, Protocol, Subject,
    Template,
};
use plimsoll_scenario::plan::{QuotaPlan, Variables};
use plimsoll_scenario::{Environment, SourceFile, read_profile};
use plimsoll_stats::distribution::{InterArrival, SizeDistribution};
use proptest::prelude::*;

const LEAST: &str = "\
name: least
platform: embedded
population: { devices: 10 }
load: { levels: [100] }
";

/// A scenario that uses every key of the open model.
const EVERYTHING: &str = "\
name: everything
description: 'Every key: of the open model'
seed: 7
platform: { profile: existing, address: 'mqtt://[::1]:1884' }
population:
  devices: 1000
  subscribers: { count: 3, qos: 0, filters: ['a/{run}/#', 'b/{subscriber}'], work: 2ms }
mqtt:
  version: 5
  qos: 2
  keep_alive: 30s
  username: 1234
  password: { env: BROKER_PASSWORD }
  retain: true
  topic: a/{run}/{device}
  receive_maximum: 10
  in_flight: 20
  connect_timeout: 3s
  reconnect: { from: 1s, to: 1m }
message:
  template: |
    { \"id\": \"{marker}\", \"t\": {random:18.0..25.5:1}, \"at\": {time} }
  marker: ascii
load:
  model: open
  arrivals: { gamma: { shape: 0.5 } }
  per: device
  levels: { from: 0.1, to: 0.3, step: 0.1 }
  warm_up: 1s
  hold: 1h30m
  samples: 10
  drain: 500ms
  connect_rate: 1k/s
  threads: 2
objectives:
  delivered: '> 0.5'
  achieved: null
  subscribe_from_send_p999: '<= 1.5 s'
  load_line: '>= 0.2/s'
";

fn levels(plan: &Plan) -> Vec<LevelPlan> {
    plan.load.levels.clone()
}

fn objectives(plan: &Plan) -> Vec<(String, Comparison, f64)> {
    plan.objectives.level.iter().map(|one| (one.subject.key(), one.comparison, one.bound)).collect()
}

#[test]
fn the_least_scenario_has_the_documented_defaults() {
    let plan = load(LEAST).unwrap();
    assert_eq!((plan.seed, plan.devices, plan.subscribers.count), (1, 10, 0));
    assert_eq!(
        (plan.mqtt.version, plan.mqtt.qos, plan.mqtt.in_flight),
        (Version::V311, QoS::AtLeastOnce, 65535)
    );
    assert_eq!((plan.mqtt.keep_alive, plan.connection.timeout), (Nanos::from_secs(60), Nanos::from_secs(10)));
    assert_eq!(plan.connection.reconnect, (Nanos::from_millis(100), Nanos::from_secs(10)));
    assert!(matches!(plan.message.content, Content::Sized(SizeDistribution::Fixed(64))));
    assert_eq!(plan.message.marker, MarkerForm::Binary);
    let model = Model::Open { arrivals: InterArrival::Exponential, per: ArrivalsPer::Population };
    assert_eq!(plan.load.model, model);
    assert_eq!((plan.load.warm_up, plan.load.hold), (Nanos::from_secs(5), Nanos::from_secs(30)));
    assert_eq!(
        (plan.load.samples, plan.load.drain, plan.load.connect_rate),
        (30, Nanos::from_secs(5), 500.0)
    );
    assert_eq!(plan.load.threads, None);
}

#[test]
fn every_key_reaches_the_plan() {
    let plan = load(EVERYTHING).unwrap();
    let address = plan.platform.address.as_ref().unwrap();
    assert_eq!((address.host.as_str(), address.port), ("::1", 1884));
    assert_eq!((plan.subscribers.count, plan.subscribers.qos), (3, QoS::AtMostOnce));
    assert_eq!((plan.subscribers.filters.len(), plan.subscribers.work), (2, Nanos::from_millis(2)));
    assert_eq!((plan.mqtt.version, plan.mqtt.qos, plan.mqtt.retain), (Version::V5, QoS::ExactlyOnce, true));
    assert_eq!((plan.mqtt.receive_maximum, plan.mqtt.in_flight), (Some(10), 20));
    assert_eq!(plan.mqtt.username.as_deref(), Some("1234"));
    assert_eq!(plan.mqtt.password.as_ref().unwrap().0, "open sesame");
    assert!(matches!(plan.message.content, Content::Template(_)));
    assert_eq!(levels(&plan).len(), 3, "0.1 + 0.1 + 0.1 is above 0.3 in binary");
    assert_eq!(plan.load.hold, Nanos::from_secs(5400));
    assert_eq!((plan.load.connect_rate, plan.load.threads), (1000.0, Some(2)));
    assert_eq!(plan.objectives.load_line, Some(0.2));
    assert_eq!(
        objectives(&plan),
        [
            ("delivered".to_owned(), Comparison::Above, 0.5),
            ("publish_p99".to_owned(), Comparison::Below, 0.05),
            ("subscribe_from_send_p999".to_owned(), Comparison::AtMost, 1.5),
        ]
    );
}

#[test]
fn a_list_of_three_levels_is_no_range() {
    let plan = load(&LEAST.replace("[100]", "[300, 700, 1500]")).unwrap();
    assert_eq!(levels(&plan), [300.0, 700.0, 1500.0].map(LevelPlan::Rate));
}

#[test]
fn a_search_takes_the_place_of_levels() {
    let text = LEAST.replace("levels: [100]", "search: { from: 100, to: 200k, tolerance: 10 % }, hold: 10s");
    let plan = load(&text).unwrap();
    let search = plan.load.search.unwrap();
    assert_eq!((search.from, search.to, search.tolerance), (100.0, 200_000.0, 0.1));
    assert_eq!((search.time, search.hold), (Nanos::from_secs(600), Nanos::from_secs(10)));
    assert_eq!((levels(&plan).len(), plan.messages_due()), (0, None));
    assert_eq!(plan.longest_duration(), Nanos::from_secs_f64(600.0 + 10.0 / 500.0));
    assert_eq!(load(&plan.resolved).unwrap().load.search, Some(search));
    let plan = load(&LEAST.replace("[100]", "[100, 200], stop_after_missed: 2")).unwrap();
    assert_eq!((plan.load.stop_after_missed, plan.load.search), (Some(2), None));
}

#[test]
fn levels_may_be_devices_or_connections_per_second() {
    let with = |text: &str| load(&LEAST.replace("levels: [100]", text)).unwrap();
    let plan = with("devices: [5, 10], rate_per_device: 0.5, hold: 10s");
    let level = |devices, rate| LevelPlan::Devices { devices, rate };
    assert_eq!(levels(&plan), [level(5, 2.5), level(10, 5.0)]);
    assert_eq!(plan.messages_due(), Some(75.0));
    assert!(plan.load.connects_in_levels());
    // Two levels of 5 + 10 + 5 s, and 10 devices at 500 a second.
    assert_eq!(plan.longest_duration(), Nanos::from_secs_f64(40.02));
    let names = |plan: &Plan| objectives(plan).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    assert_eq!(names(&plan), ["achieved", "connected", "publish_p99"]);
    let plan = with("devices: [10]");
    assert_eq!((levels(&plan), names(&plan)), (vec![level(10, 0.0)], vec!["connected".to_owned()]));
    let plan = with("connect_rates: [100, 1k/s], hold: 10s");
    assert_eq!(levels(&plan), [100.0, 1000.0].map(LevelPlan::ConnectRate));
    assert_eq!(plan.longest_duration(), Nanos::from_secs_f64(40.0 + 0.1 + 0.01));
    for text in ["devices: [5, 10], rate_per_device: 0.5", "connect_rates: [100, 1k/s]"] {
        insta::assert_snapshot!(format!("facts_{}", text.split(':').next().unwrap()), facts(&with(text)));
    }
}

#[test]
fn a_storm_kills_the_component_that_devices_connect_to() {
    let text =
        LEAST.replace("[100]", "[100], storm: { after: 5s, down: 2s }") + "mqtt: { offline: keep_latest }\n";
    let plan = load(&text).unwrap();
    let storm = plan.load.storm.clone().unwrap();
    assert_eq!(
        (storm.component.as_str(), storm.after, storm.down),
        ("broker", Nanos::from_secs(5), Nanos::from_secs(2))
    );
    assert_eq!(plan.connection.offline, Offline::KeepLatest);
    insta::assert_snapshot!("facts_storm", facts(&plan));
    let plan = load(LEAST).unwrap();
    assert_eq!((plan.load.storm, plan.connection.offline), (None, Offline::Buffer));
}

#[test]
fn faults_are_planned_in_the_order_of_time_and_the_platform_is_prepared() {
    let faults = "
faults:
  - { kind: loss, loss: 5 %, at: 20s, for: 2s }
  - { kind: processor, keep: 20 %, at: 5s, for: 3s, level: 1 }
  - { kind: disk, size: 16 MiB, at: 12s, for: 1s }
retry: { attempts: 4, timeout: 2s }
mqtt: { qos: 1 }
";
    let plan = load(&(LEAST.to_owned() + faults)).unwrap();
    let kinds: Vec<_> = plan.load.faults.iter().map(|fault| fault.fault.kind.name()).collect();
    assert_eq!(kinds, ["processor", "disk", "loss"]);
    assert!(plan.load.faults[0].is_in(1) && !plan.load.faults[0].is_in(2) && plan.load.faults[1].is_in(2));
    assert_eq!(plan.load.faults[0].fault.component, "broker", "the one that devices connect to");
    // A relay without faults of its own stands before it, and a folder that can be full.
    assert_eq!(plan.platform.relays.len(), 1);
    assert!(plan.platform.relays[0].options().is_empty());
    let needs = plan.platform.needs["broker"];
    assert!(needs.squeeze && needs.folder == Some(16 << 20));
    assert_eq!(plan.retry.map(|retry| (retry.attempts, retry.timeout)), Some((4, Some(Nanos::from_secs(2)))));
    insta::assert_snapshot!("facts_faults", facts(&plan));
    let plain = load(LEAST).unwrap();
    assert!(plain.load.faults.is_empty() && plain.platform.relays.is_empty() && plain.retry.is_none());
    assert_eq!(plain.retries().pauses, plain.connection.reconnect, "what answers ask for");
}

#[test]
fn a_relay_has_the_options_of_the_command() {
    let relay =
        "delay: 5ms, jitter: 1ms, rate: 1.5mbit, loss: 5 %, cut: { every: 1m, for: 2s }, half_open: 90s";
    let platform = format!("{{ profile: embedded, relays: {{ broker: {{ {relay} }} }} }}");
    let plan = load(&LEAST.replace("embedded", &platform)).unwrap();
    let [relay] = &plan.platform.relays[..] else { panic!("{:?}", plan.platform.relays) };
    assert_eq!(relay.component, "broker");
    let told = "--delay 5ms --jitter 1ms --rate 1500000bit --loss 0.05 --cut 1m:2s --half-open 90s";
    assert_eq!(relay.options().join(" "), told);
    assert!(facts(&plan).contains(&format!("before broker: {told}")), "{}", facts(&plan));
}

#[test]
fn a_balancer_has_the_mode_of_what_a_port_speaks_unless_the_scenario_says_another() {
    let planned = |platform: &str| {
        let plan = load(&LEAST.replace("embedded", platform)).unwrap_or_else(|found| panic!("{found}"));
        let [balancer] = &plan.platform.balancers[..] else { panic!("{:?}", plan.platform.balancers) };
        let words = balancer.in_words();
        let told = format!("before {}: {words}\n", balancer.component);
        assert!(facts(&plan).contains(&told), "{told}{}", facts(&plan));
        words
    };
    let chain = |balancer: &str| {
        planned(&format!(
            "{{ profile: chain, replicas: {{ worker: 3 }}, balancers: {{ worker: {balancer} }} }}"
        ))
    };
    assert_eq!(planned("{ profile: embedded, balancers: { broker: haproxy } }"), "haproxy, round_robin, tcp");
    assert_eq!(chain("nginx"), "nginx, round_robin, http");
    assert_eq!(
        chain("{ by: haproxy, policy: least_connections, mode: tcp }"),
        "haproxy, least_connections, tcp"
    );
    assert_eq!(chain("./plain.yaml"), "plain, round_robin, tcp");
    let websocket = "{ profile: mosquitto-websocket, balancers: { mosquitto: { by: nginx, mode: http } } }";
    assert_eq!(planned(websocket), "nginx, round_robin, http");
}

#[test]
fn a_balancer_may_vary_and_stands_in_comments_behind_the_profile() {
    let text = LEAST.replace("embedded", "{ profile: embedded, balancers: { broker: { by: haproxy } } }");
    let plan = load_with(&text, &["platform.balancers.broker.policy=source_address"]).unwrap();
    assert_eq!(plan.platform.balancers[0].policy, BalancingPolicy::SourceAddress);
    let source = plan.platform.source();
    assert!(source.starts_with(&plan.platform.profile.source) && source.contains("\n# name: haproxy\n"));
    let kept = SourceFile { name: "kept.yaml".into(), text: source };
    let again = read_profile(kept, &|_| Err("there is none".into())).unwrap();
    assert_eq!(again.components, plan.platform.profile.components);
}

#[test]
fn devices_that_would_not_pass_a_balancer_are_an_error() {
    let platform = "{ profile: mosquitto, mapping: tls, balancers: { mosquitto: haproxy } }";
    let told = load(&LEAST.replace("embedded", platform)).unwrap_err().to_string();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("devices connect to the port `tls` of `mosquitto`"), "{told}");
}

#[test]
fn a_quota_is_that_of_its_component() {
    let quota = |written: &str| {
        let platform = format!("{{ profile: embedded, quotas: {{ broker: {written} }} }}");
        let plan = load(&LEAST.replace("embedded", &platform)).unwrap();
        (plan.platform.quotas["broker"], facts(&plan))
    };
    let (plan, told) = quota("0.5");
    assert_eq!(plan, QuotaPlan { processors: Some(0.5), ..QuotaPlan::default() });
    assert!(told.contains("broker: at most 0.5 processors"), "{told}");
    let (plan, told) = quota("{ processors: 2, memory: 1.5 GiB }");
    assert_eq!(plan, QuotaPlan { processors: Some(2.0), memory: Some(3 << 29), period: None });
    assert!(told.contains("broker: at most 2 processors and 1536 MiB of memory"), "{told}");
}

#[test]
fn the_resolved_scenario_gives_the_same_plan_and_keeps_the_secret() {
    let closed = LEAST.replace("levels: [100]", "model: closed, in_flight: [1, 5], think_time: 1ms");
    let sized = format!(
        "{LEAST}message: {{ size: {{ choice: [{{ size: 1 KiB, weight: 0.5 }}] }}, marker: integer }}\n"
    );
    let attached = LEAST.replace("embedded", "./mine.yaml");
    let http = LEAST.replace("embedded", "{ profile: existing, address: \"http://localhost:8080/in\" }");
    let websocket = LEAST
        .replace("embedded", "{ profile: existing, address: \"ws://localhost/in\", protocol: websocket }");
    let coap = LEAST.replace("embedded", "{ profile: existing, address: \"coap://localhost/in\" }")
        + "coap: { confirmable: false, outstanding: 4, sockets: 3, ack_timeout: 1s, block_size: 64 }\n";
    let plan = load(&coap).unwrap();
    assert_eq!((plan.coap.outstanding, plan.coap.sockets, plan.coap.block_size), (4, Some(3), Some(64)));
    assert_eq!(plan.coap.max_retransmit, 4);
    let coaps = LEAST.replace("embedded", "{ profile: existing, address: \"coaps://localhost\" }")
        + "coap: { dtls: { identity: \"d{device}\", key: { env: BROKER_PASSWORD } } }\n";
    let described = facts(&plan).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(described.contains("up to 4 requests each at a time, non-confirmable"), "{described}");
    let partly_open =
        LEAST.replace("levels: [100]", "model: partly_open, session_messages: 3, levels: [100]");
    let at_path = LEAST.replace(
        "platform: embedded",
        "platform: { profile: existing, address: \"http://service:8080/in/{device}/?q=1\" }",
    );
    let target = facts(&load(&at_path).unwrap());
    assert!(target.contains("POST /in/0/?q=1 at service:8080"), "{target}");
    let balanced =
        LEAST.replace("embedded", "{ profile: embedded, balancers: { broker: { by: nginx, mode: tcp } } }");
    for text in [
        LEAST,
        EVERYTHING,
        &balanced,
        &at_path,
        &closed,
        &sized,
        &attached,
        &http,
        &websocket,
        &coap,
        &coaps,
        &partly_open,
    ] {
        let plan = load(text).unwrap();
        assert!(!plan.resolved.contains("sesame"), "{}", plan.resolved);
        let again = load(&plan.resolved).unwrap_or_else(|found| panic!("{}\n{found}", plan.resolved));
        assert_eq!(format!("{again:?}"), format!("{plan:?}"));
    }
}

#[test]
fn a_token_in_the_query_of_an_address_is_left_out_of_what_is_kept_and_of_diagnostics() {
    let text = LEAST.replace("embedded", "{ profile: http, address: 'http://h/in?key=tiktak' }");
    let plan = load(&text).unwrap();
    assert!(plan.resolved.contains("http://h:80/in?key=***"), "{}", plan.resolved);
    let told = load(&text.replace("profile: http", "profile: htp")).unwrap_err().to_string();
    assert!(told.contains("in?key=******' }") && !told.contains("tiktak"), "{told}");
}

#[test]
fn messages_over_websocket_are_text_where_their_content_is() {
    let address = "{ profile: existing, address: \"ws://localhost/in\", protocol: websocket }";
    for (message, kind) in [("size: 20", "binary"), ("template: \"{marker}\"", "text")] {
        let text = format!("{}message: {{ {message} }}\n", LEAST.replace("embedded", address));
        let plan = load(&text).unwrap();
        assert_eq!(plan.protocol(), Protocol::WebSocket);
        assert_eq!(plan.connection.transport.websocket.as_ref().unwrap().path, "/in");
        let described = facts(&plan);
        assert!(described.contains(&format!("over WebSocket, {kind} messages")), "{described}");
    }
}

/// Files, `--set` and `matrix` may use the names that keys had before.
#[test]
fn earlier_names_of_keys_mean_the_same() {
    let before = [
        "mqtt={ topic: \"a/{device}\", connect_timeout: 3s, offline: drop, reconnect: { from: 1s, to: 2s } }",
        "population.source_addresses=[127.0.0.2]",
        "mqtt.reconnect.to=5s",
    ];
    let now = [
        "message.target=a/{device}",
        "connection={ timeout: 3s, offline: drop, reconnect: { from: 1s, to: 5s }, source_addresses: [127.0.0.2] }",
    ];
    let [before, now] = [load_with(LEAST, &before).unwrap(), load_with(LEAST, &now).unwrap()];
    assert_eq!(before.resolved, now.resolved);
    assert_eq!(before.connection.timeout, Nanos::from_secs(3));
    assert_eq!(before.connection.reconnect, (Nanos::from_secs(1), Nanos::from_secs(5)));
    let again = load_with(&now.resolved, &[]).unwrap();
    assert_eq!(again.resolved, now.resolved);
    let errors =
        load_with(LEAST, &["mqtt.topic=a", "message={ target: b }", "mqtt={ topic: c }"]).unwrap_err();
    assert!(errors.to_string().contains("two names of one key"), "{errors}");
}

#[test]
fn the_resolved_scenario_shows_every_default() {
    insta::assert_snapshot!("resolved", load(LEAST).unwrap().resolved);
}

#[test]
fn a_plan_is_told_in_facts() {
    let closed = LEAST.replace("levels: [100]", "model: closed, in_flight: [1, 5]");
    for (name, text) in [("least", LEAST), ("everything", EVERYTHING), ("closed", &closed)] {
        let described = facts(&load(text).unwrap());
        insta::assert_snapshot!(format!("facts_{name}"), described);
    }
}

#[test]
fn levels_run_from_first_to_last_in_steps() {
    let rates = |levels: &str| -> Vec<f64> {
        let plan = load(&LEAST.replace("[100]", levels)).unwrap();
        plan.load
            .levels
            .iter()
            .map(|level| if let LevelPlan::Rate(rate) = level { *rate } else { 0.0 })
            .collect()
    };
    assert_eq!(rates("{ from: 100, to: 500, step: 200 }"), [100.0, 300.0, 500.0]);
    assert_eq!(rates("{ from: 100, to: 450, step: 200 }"), [100.0, 300.0]);
    assert_eq!(rates("{ from: 100, to: 100, step: 1 }"), [100.0]);
    assert_eq!(rates("[1.5k/s, 100/s]"), [1500.0, 100.0]);
}

#[test]
fn a_curve_is_one_level_with_its_mean_and_is_played_in_its_hold() {
    let with = |load_keys: &str| load(&LEAST.replace("levels: [100]", load_keys)).unwrap();
    let hours = |hours: i64| Nanos::from_secs(3600 * hours);
    let plan =
        with("curve: { points: [{ at: 0h, rate: 100 }, { at: 8h, rate: 0.5k/s }, { at: 24h, rate: 100 }] }");
    let curve = plan.load.curve.as_ref().unwrap();
    assert_eq!((plan.load.hold, plan.load.levels.as_slice()), (hours(24), &[LevelPlan::Rate(300.0)][..]));
    assert_eq!((curve.mean(), curve.highest(), plan.load.again), (300.0, 500.0, Nanos::ZERO));
    assert!(facts(&plan).contains("1 from 100 to 500 per second, 300 on average: 24h along 3 points"));
    let played = with("curve: { file: day.csv }, hold: 24m");
    let curve = played.load.curve.as_ref().unwrap();
    assert_eq!(curve.clock(Nanos::from_secs(60 * 12)), "12:00");
    assert_eq!((played.load.hold, curve.highest()), (Nanos::from_secs(1440), 500.0));
    let again = load(&played.resolved).unwrap();
    assert_eq!((again.load.hold, &again.load.curve), (played.load.hold, &played.load.curve));
    let spike = with("spike: { from: 100, to: 1000, at: 10s, for: 3s }");
    assert_eq!(spike.load.levels, [LevelPlan::Rate(190.0)]);
    assert!(facts(&spike).contains("a spike of 3s after 10s"), "{}", facts(&spike));
    // Each population has its part of it.
    let shared = "name: two\nplatform: embedded\npopulations:\n- { name: a, devices: 5, load: { share: 1 } }\n- { name: b, devices: 5, \
                  load: { share: 3 } }\nload: { curve: { file: day.csv }, hold: 10m }\n";
    let shared = load(shared).unwrap();
    let parts: Vec<f64> = shared.shares_of(shared.load.levels[0]).iter().map(|part| part.rate()).collect();
    assert_eq!(parts, [75.0, 225.0]);
    assert!(shared.populations().all(|plan| plan.load.curve.is_some()));
}

#[test]
fn a_trace_is_played_as_it_was_taken_or_as_fast_as_levels_say() {
    let with = |load_keys: &str| load(&LEAST.replace("levels: [100]", load_keys)).unwrap();
    let trace_of = |plan: &Plan| match &plan.load.model {
        Model::Trace(trace) => trace.clone(),
        model => panic!("{model:?}"),
    };
    let plan = with("arrivals: { trace: { file: trace.csv } }");
    let trace = trace_of(&plan);
    assert_eq!(trace.times(), [0, 1, 2, 3].map(Nanos::from_secs));
    assert_eq!((trace.devices(), trace.rate()), (Some(2), 1.0));
    assert_eq!(
        (plan.load.hold, plan.load.levels.as_slice()),
        (Nanos::from_secs(4), &[LevelPlan::Rate(1.0)][..])
    );
    assert_eq!(plan.load.again, Nanos::ZERO);
    let told = "open, at the times of a trace: 4 messages of 2 devices in 4 s, 1 per second";
    assert!(facts(&plan).contains(told), "{}", facts(&plan));
    let again = load(&plan.resolved).unwrap();
    assert_eq!((again.load.model, again.load.hold), (plan.load.model, plan.load.hold));
    let faster = with("arrivals: { trace: { file: trace.csv } }, levels: [10, 20], hold: 10s");
    let rates: Vec<f64> = faster.load.levels.iter().map(|level| level.rate()).collect();
    assert_eq!((rates, faster.load.hold), (vec![10.0, 20.0], Nanos::from_secs(10)));
    // Each population has its part of the file, and all have its length.
    let shared = "name: two\nplatform: embedded\nsubscribers: 1\npopulations:\n\
                  - { name: a, devices: 6, load: { share: 1, arrivals: { trace: { file: trace.csv, population: x } } } }\n\
                  - { name: b, devices: 3, load: { share: 1, arrivals: { trace: { file: trace.csv, population: y } } } }\n\
                  - { name: c, devices: 5, load: { share: 2 } }\nload: { levels: [2] }\n";
    let shared = load(shared).unwrap();
    let plans: Vec<&Plan> = shared.populations().filter(|plan| plan.devices > 0).collect();
    let [x, y] = [plans[0], plans[1]].map(trace_of);
    assert_eq!(
        (x.times().len(), y.times().len(), x.length(), y.length()),
        (2, 2, trace.length(), trace.length())
    );
    assert!(matches!(plans[2].load.model, Model::Open { .. }));
    // The resolved scenario is the same: what one population has is not that of another one.
    let resolved = load(&shared.resolved).unwrap();
    assert!(
        resolved
            .populations()
            .map(|plan| &plan.load.model)
            .eq(shared.populations().map(|plan| &plan.load.model))
    );
}

#[test]
fn a_way_down_repeats_the_levels_in_reverse_order() {
    let plan = load(&LEAST.replace("[100]", "[100, 200, 400], ramp_down: true")).unwrap();
    let rates: Vec<f64> = plan.load.levels.iter().map(|level| level.rate()).collect();
    assert_eq!((rates, plan.load.turn), (vec![100.0, 200.0, 400.0, 200.0, 100.0], Some(3)));
    assert_eq!([1, 3, 4, 5].map(|place| plan.load.falls(place)), [false, false, true, true]);
    assert!(facts(&plan).contains("3 of them on the way up"), "{}", facts(&plan));
}

#[test]
fn defaults_of_objectives_follow_qos_subscribers_and_model() {
    let keys = |text: &str| -> Vec<String> {
        load(text).unwrap().objectives.level.iter().map(|one| one.subject.key()).collect()
    };
    let with = |devices: &str, rest: &str| LEAST.replace("devices: 10", devices) + rest;
    assert_eq!(keys(LEAST), ["achieved", "publish_p99"]);
    assert_eq!(keys(&with("devices: 10, subscribers: 1", "")), ["delivered", "achieved", "publish_p99"]);
    let at_0 = with("devices: 10, subscribers: 1", "mqtt: { qos: 0 }\n");
    assert_eq!(keys(&at_0), ["delivered", "achieved", "subscribe_p99"]);
    assert_eq!(keys(&with("devices: 10", "mqtt: { qos: 0 }\n")), ["achieved"]);
    assert_eq!(keys(&LEAST.replace("levels: [100]", "model: closed")), ["publish_p99"]);
    assert_eq!(keys(&with("devices: 10", "objectives: { achieved: null, publish_p99: null }\n")), [""; 0]);
    let replaced = load(&with("devices: 10", "objectives: { publish_p99: \"< 1 s\" }\n")).unwrap();
    let times: Vec<f64> = replaced
        .objectives
        .level
        .iter()
        .filter(|one| one.subject == Subject::Quantile(Metric::PublishTime, 0.99))
        .map(|one| one.bound)
        .collect();
    assert_eq!(times, [1.0]);
}

/// What an experiment keeps in flight is given up after that time, whatever the model of the levels is.
#[test]
fn an_experiment_has_a_timeout_of_operations_in_every_model() {
    let text = LEAST.replace("levels: [100]", "levels: [100], operation_timeout: 30s, experiment: {}");
    let plan = load(&text).unwrap();
    assert_eq!(plan.load.experiment.unwrap().timeout, Nanos::from_secs(30));
}

#[test]
fn impossible_combinations_are_refused() {
    let at_0 = format!("{LEAST}mqtt: {{ qos: 0 }}\n");
    let attached = LEAST.replace("embedded", "{ profile: existing, address: 'mqtt://h' }");
    let connecting = LEAST.replace("levels: [100]", "devices: [5]");
    let searched = LEAST.replace("levels: [100]", "search: { from: 1, to: 10M }");
    let closed = LEAST.replace("levels: [100]", "model: closed");
    let curved = LEAST.replace("levels: [100]", "curve: { file: day.csv }");
    let spiked = LEAST.replace("levels: [100]", "spike: { from: 100, to: 1000, at: 10s, for: 3s }");
    let traced = LEAST.replace("levels: [100]", "arrivals: { trace: { file: trace.csv } }");
    for (text, set, expected) in [
        (LEAST, "load.levels=[]", "the list is empty"),
        (LEAST, "load.levels=[0]", "above zero"),
        (LEAST, "load.levels=[11M]", "10 million"),
        (LEAST, "load.levels=[.nan]", "not a rate"),
        (LEAST, "load.levels=[-1]", "negative"),
        (LEAST, "load.levels={from: 1, to: 2, step: 0}", "step must be above zero"),
        (LEAST, "load.levels={from: 1, to: 2000, step: 1}", "2000 levels"),
        (LEAST, "load.levels={from: 1e, to: 2, step: 1}", "not a rate"),
        (LEAST, "load.in_flight=[1]", "belongs to the closed model"),
        (LEAST, "load.think_time=1s", "belongs to the closed model"),
        (LEAST, "load.operation_timeout=1s", "belongs to the closed model"),
        (LEAST, "load.hold=299ms", "10 ms"),
        (LEAST, "load.samples=4000", "10 ms"),
        (LEAST, "load.samples=1", "out of range"),
        (LEAST, "load.connect_rate=0", "above zero"),
        (LEAST, "load.threads=0", "out of range"),
        (LEAST, "load.arrivals={uniform: {spread: -0.1}}", "out of range"),
        (LEAST, "load.arrivals={gamma: {shape: 0}}", "out of range"),
        (LEAST, "load.arrivals={normal: {cv: .nan}}", "expected a number"),
        (LEAST, "population.devices=268435456", "out of range"),
        (LEAST, "population.devices=-1", "out of range"),
        (LEAST, "population.devices=1.5", "expected a whole number"),
        (&attached, "platform.components=[{name: a, pid: 99999999999}]", "out of range"),
        (&attached, "platform.components=[{name: a, pid: 4294967295}]", "as high as 4294967295"),
        (&attached, "platform.components=[{name: a, unit: ''}]", "a unit or a container has a name"),
        (&attached, "platform.components=[{name: a, container: ' '}]", "a unit or a container has a name"),
        (LEAST, "mqtt.receive_maximum=5", "MQTT 3.1.1 has no receive maximum"),
        (LEAST, "mqtt={version: 5, receive_maximum: 0}", "out of range"),
        (LEAST, "mqtt.version=4", "allowed here: 3.1.1, 5"),
        (LEAST, "mqtt.qos=3", "allowed here: 0, 1, 2"),
        (LEAST, "mqtt.password={env: BROKER_PASSWORD}", "no password without a user name"),
        (LEAST, "mqtt.keep_alive=20h", "65535"),
        (LEAST, "mqtt.reconnect={from: 2s, to: 1s}", "shorter than the first"),
        (LEAST, "mqtt={retain: true, topic: 'a/{sequence}'}", "for ever"),
        (LEAST, "mqtt.topic=a/{time}", "no variable `{time}`"),
        (LEAST, "load.idle_before=2h", "an hour apart at most"),
        (LEAST, "message={size: 64, template: '{marker}'}", "either a size or a template"),
        (LEAST, "message.template={marker", "no closing brace"),
        (LEAST, "message.template='{marker'", "no closing brace"),
        (LEAST, "message.template='{marker}{marker}'", "exactly once, but stands 2 times"),
        (LEAST, "message.size=9", "cannot hold the binary marker"),
        (LEAST, "message={size: 15, marker: integer}", "cannot hold the integer marker"),
        (LEAST, "message.size=1.1 MB", "1 MiB"),
        (LEAST, "message.size={uniform: {min: 20, max: 10}}", "below the smallest"),
        (LEAST, "message.size={normal: {mean: 5, deviation: 1, min: 10, max: 20}}", "outside"),
        (LEAST, "message.size={choice: [{size: 10, weight: 0}]}", "out of range"),
        (LEAST, "objectives.delivered='> 5 %'", "without subscribers"),
        (LEAST, "objectives.subscribe_mean='< 5ms'", "without subscribers"),
        (LEAST, "platform=./none.yaml", "there is no such file"),
        (&at_0, "objectives.publish_from_send_p50='< 5ms'", "no publish time"),
        (LEAST, "load.search={from: 1, to: 2}", "`search` and `levels` exclude each other"),
        (&searched, "load.search.to=0.5", "`from` (1) is above `to` (0.5)"),
        (&searched, "load.search.from=0", "above zero"),
        (&searched, "load.search.tolerance=0.1 %", "1 % at least"),
        (&searched, "load.search.tolerance=200 %", "more than 100 %"),
        (&searched, "load.search.time=10s", "no room for one level and its confirmation"),
        (&searched, "load.stop_after_missed=1", "belongs to `levels`"),
        (&searched, "message.marker=integer", "16,777,216 messages"),
        (LEAST, "load.stop_after_missed=0", "out of range"),
        (LEAST, "load.devices=[5]", "`levels` and `devices` exclude each other"),
        (LEAST, "load.connect_rates=[5]", "`levels` and `connect_rates` exclude each other"),
        (LEAST, "load.rate_per_device=1", "belongs to `devices`"),
        (LEAST, "objectives.connected='> 5 %'", "before the first level"),
        (&searched, "load.devices=[5]", "`search` and `devices` exclude each other"),
        (LEAST, "load.storm={after: 25s, down: 5s}", "30s into a hold of 30s"),
        (LEAST, "load.storm={after: 5s, down: 1s, component: brokr}", "no component `brokr`"),
        (&attached, "load.storm={after: 5s, down: 1s}", "starts nothing that could be killed"),
        (&searched, "load.storm={after: 5s, down: 1s}", "a search has no storm"),
        (
            &attached,
            "faults=[{kind: pause, at: 5s, for: 1s}]",
            "starts nothing in which something could go wrong",
        ),
        (
            &searched,
            "faults=[{kind: pause, at: 5s, for: 1s}]",
            "`faults` and `load.search` exclude each other",
        ),
        (LEAST, "faults=[{kind: disk, at: 5s, for: 1s}]", "needs `size`"),
        (LEAST, "faults=[{kind: memory, limit: 1 kB, at: 5s, for: 1s}]", "1 MiB at least"),
        (LEAST, "faults=[{kind: delay, delay: 2m, at: 5s, for: 1s}]", "one minute at most"),
        (&closed, "mqtt.offline=drop", "in the closed model a device waits"),
        (LEAST, "mqtt.offline=forget", "allowed here: buffer, drop, keep_latest"),
        (&connecting, "load.devices=[11]", "the population has 10"),
        (&connecting, "load.devices=[0]", "out of range"),
        (&connecting, "load.rate_per_device=-1", "negative"),
        (&connecting, "objectives.publish_p50='< 5ms'", "the devices are idle"),
        (&connecting, "objectives.load_line='>= 5'", "not in operations per second"),
        (&connecting, "load.model=closed", "belongs to the open model"),
        (&closed, "load.search={from: 1, to: 2}", "belongs to the open model"),
        (&closed, "load.levels=[1]", "belongs to the open model"),
        (&closed, "load.in_flight=[0]", "out of range"),
        (&closed, "load.in_flight=[655351]", "cannot be in flight"),
        (&closed, "objectives.achieved='> 5 %'", "closed model"),
        (&closed, "objectives.load_line='>= 5'", "closed model"),
        (&closed, "load.operation_timeout=0s", "zero time"),
        (LEAST, "load.curve={file: day.csv}", "`levels` and `curve` exclude each other"),
        (&curved, "load.spike={from: 1, to: 2, at: 9s, for: 1s}", "`curve` and `spike` exclude each other"),
        (&curved, "load.curve={}", "neither `points` nor a `file`"),
        (&curved, "load.curve.points=[{at: 1h, rate: 5}, {at: 2h, rate: 5}]", "either `points` or a `file`"),
        (&curved, "load.curve={points: [{at: 1h, rate: 5}]}", "points at two times"),
        (&curved, "load.curve={points: [{at: 2h, rate: 5}, {at: 1h, rate: 5}]}", "1h is earlier than"),
        (&curved, "load.curve={points: [{at: 1h, rate: 0}, {at: 2h, rate: 0}]}", "nothing at all"),
        (&curved, "load.curve={points: [{at: 1h, rate: 11M}, {at: 2h, rate: 0}]}", "10 million"),
        (&curved, "load.curve.file=wrong-day.csv", "wrong-day.csv, line 3: `noon` is no time"),
        (&curved, "load.curve.file=none.csv", "there is no such file"),
        (&curved, "load.messages=10", "`curve` and `messages` exclude each other"),
        (&curved, "load.stop_after_missed=1", "`curve` and `stop_after_missed` exclude each other"),
        (&curved, "load.model=closed", "`curve` belongs to the open model"),
        (&curved, "load.ramp_down=true", "`curve` and `ramp_down` exclude each other"),
        (&curved, "objectives.load_line='>= 5'", "has no load line"),
        (&spiked, "load.spike.at=1s", "the first 3 samples"),
        (&spiked, "load.spike.for=1h", "must show whether the platform recovers"),
        (&spiked, "load.spike.to=50", "is not above `from`"),
        (&spiked, "load.spike.for=0s", "lasts for some time"),
        (&spiked, "faults=[{kind: pause, at: 5s, for: 1s}]", "`faults` and `load.spike` exclude each other"),
        (LEAST, "load.arrivals={trace: {file: none.csv}}", "there is no such file"),
        (LEAST, "load.arrivals={trace: {file: wrong-trace.csv}}", "wrong-trace.csv, line 3: 4 s is earlier"),
        (LEAST, "load.arrivals={trace: {file: trace.csv, population: z}}", "it has those of `x`, `y`"),
        (LEAST, "load.arrivals={trace: {}}", "missing key `file`"),
        (&traced, "population.devices=3", "the trace has 2 devices, and 3 are not a multiple"),
        (&traced, "load.per=device", "a trace and `per` exclude each other"),
        (&traced, "load.messages=10", "a trace and `messages` exclude each other"),
        (&traced, "load.curve={file: day.csv}", "a trace and `curve` exclude each other"),
        (&traced, "load.model=closed", "`arrivals` belongs to the open model"),
        (
            &traced,
            "load={model: partly_open, session_messages: 2, levels: [5], arrivals: {trace: {file: trace.csv}}}",
            "not those of sessions",
        ),
        (LEAST, "load.ramp_down=true", "two levels or more"),
        (LEAST, "load={levels: [200, 100], ramp_down: true}", "in rising order"),
        (&searched, "load.ramp_down=true", "belongs to `levels`"),
        (LEAST, "objectives.fault_recovery='< 5 s'", "nothing to recover from"),
    ] {
        let told =
            load_with(text, &[set]).map(|_| "no error".to_owned()).unwrap_or_else(|found| found.to_string());
        let told_flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told_flat.contains(expected), "{set}: {told}");
        assert!(told.contains("-->"), "{set}: {told}");
    }
}

#[test]
fn as_many_operations_are_in_flight_as_connections_and_windows_allow_and_the_remedy_is_taken() {
    let closed = LEAST.replace("levels: [100]", "model: closed, in_flight: [20]");
    let at = |platform: &str, more: &str| {
        let text = closed.replace("embedded", platform).replace("devices: 10", "devices: 5");
        load_with(&format!("{text}{more}"), &[]).map(drop).map_err(|found| found.to_string())
    };
    let (http, coap) =
        ("{ profile: http, address: 'http://h/in' }", "{ profile: coap, address: 'coap://h/in' }");
    for (platform, more, most, remedy) in [
        (http, "", 5, "http: { connections: 4 }\n"),
        (http, "http: { connections: 3 }\n", 15, "http: { connections: 4 }\n"),
        (http, "http: { pool: 19 }\n", 19, "http: { pool: 20 }\n"),
        (coap, "", 5, "coap: { outstanding: 4 }\n"),
        ("embedded", "mqtt: { in_flight: 3 }\n", 15, "mqtt: { in_flight: 4 }\n"),
    ] {
        let told = at(platform, more).unwrap_err();
        assert!(told.contains(&format!("the devices may have {most} together")), "{told}");
        let advised = remedy.replace(": { ", ".");
        let advised = advised.split(':').next().unwrap();
        assert!(told.contains(&format!("`{advised}`")), "{advised}: {told}");
        assert_eq!(at(platform, remedy), Ok(()));
    }
}

#[test]
fn what_is_wrong_with_a_component_is_shown_where_it_stands() {
    let platform = "\n  profile: existing\n  address: mqtt://h\n  components:\n    - { name: a, port: 1 }\n    - { name: b }";
    let told = load_with(&LEAST.replace("embedded", platform), &[]).unwrap_err().to_string();
    assert!(told.contains(":7:") && told.contains("- { name: b }"), "{told}");
}

#[test]
fn an_integer_marker_limits_devices_and_messages() {
    let integer = format!("{LEAST}message: {{ marker: integer }}\n");
    assert!(load_with(&integer, &["population.devices=131071"]).is_ok());
    let told =
        load_with(&integer, &["population.devices=131072", "load={levels: [10M], hold: 10h}"]).unwrap_err();
    assert!(told.to_string().contains("131071 devices"), "{told}");
    let told = load_with(&integer, &["load={levels: [10M], hold: 1m}"]).unwrap_err();
    assert!(told.to_string().contains("16,777,216 messages"), "{told}");
}

#[test]
fn subscribers_match_every_device_by_default() {
    let plan =
        load_with(LEAST, &["population.subscribers=2", "mqtt.topic=x/{run}/d-{device}/{sequence}"]).unwrap();
    assert!(plan.resolved.contains("\"x/{run}/+/+\""), "{}", plan.resolved);
    assert_eq!(plan.subscribers.qos, plan.mqtt.qos);
}

proptest! {
    #[test]
    fn no_scenario_however_damaged_makes_loading_panic(
        at in 0usize..1200,
        length in 0usize..40,
        inserted in "[ \n:{}\\[\\],'\"0-9a-z<>|.-]{0,12}",
    ) {
        let clamp = |byte: usize| (0..=byte.min(EVERYTHING.len())).rev().find(|&b| EVERYTHING.is_char_boundary(b)).unwrap();
        let (start, end) = (clamp(at), clamp(at + length));
        let text = format!("{}{inserted}{}", &EVERYTHING[..start], &EVERYTHING[end..]);
        if let Err(found) = load(&text) {
            prop_assert!(!found.is_empty());
            prop_assert!(found.to_string().contains("error: "));
        }
    }
}

#[test]
fn the_message_log_is_kept_on_demand_only() {
    assert!(!load(LEAST).unwrap().record.messages);
    assert!(load_with(LEAST, &["record.messages=true"]).unwrap().record.messages);
    let wrong = load(&format!("{LEAST}record: {{ message: true }}\n")).unwrap_err().to_string();
    assert!(wrong.contains("did you mean `messages`?"), "{wrong}");
    let wrong = load_with(LEAST, &["record.messages=perhaps"]).unwrap_err().to_string();
    assert!(wrong.contains("record.messages=perhaps"), "{wrong}");
}

#[test]
fn metrics_of_the_profile_are_read_unless_that_is_not_wanted() {
    let metrics = |record: &str| {
        let text = format!(
            "name: t\nplatform: {{ profile: ./measured.yaml }}\npopulation: {{ devices: 1 }}\nload: {{ levels: [10/s], hold: 1s }}\nrecord: {{ {record} }}\n"
        );
        load(&text).unwrap_or_else(|found| panic!("{found}")).record.metrics.len()
    };
    let own = "metrics: [{ component: broker, json: 'http://h:1/', read: { queue: /queue } }]";
    assert_eq!([metrics(""), metrics(own)], [1, 2]);
    assert_eq!(
        [metrics("profile_metrics: false"), metrics(&format!("profile_metrics: false, {own}"))],
        [0, 1]
    );
}

#[test]
fn a_city_is_a_feed_of_the_scenarios_seed() {
    let text = |seed: u64| {
        format!(
            "{LEAST}seed: {seed}\nmessage: {{ feed: {{ city: {{}} }}, template: \"{{marker}} {{feed:edge_id}}\" }}\n"
        )
    };
    let id = |seed| {
        let mut out = Vec::new();
        load(&text(seed)).unwrap().message.feed.unwrap().write(3, 7, 0, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!((id(1).len(), id(1) == id(1), id(1) == id(2)), (9, true, false));
}

#[test]
fn the_profile_of_the_manual_is_without_error() {
    let manual = include_str!("../../../../docs/adding-a-platform.md");
    let blocks: Vec<&str> =
        manual.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let [profile, scenario] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let read = |path: &str| match path {
        "./things.yaml" => Ok(profile.to_owned()),
        other => Err(format!("no {other}")),
    };
    let source = SourceFile { name: "scenario.yaml".to_owned(), text: scenario.to_owned() };
    let environment = Environment { profile: &read, variable: &|_| None };
    let plan = plimsoll_scenario::load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"));
    let roles = &plan.platform.roles;
    assert_eq!((roles.set_up.len(), roles.clean_up.len(), roles.captured.len()), (2, 1, 2));
    assert!(roles.listener.is_some() && roles.query.is_some() && roles.device.envelope.is_some());
}

#[test]
fn subscribers_follow_the_devices_after_those_of_the_one_before() {
    let things = "name: t\nplatform: { profile: onem2m, address: \"http://h:1\" }\npopulation: { devices: 8, \
        subscribers: { count: 3, devices: 3 } }\nload: { levels: [1/s] }\n";
    let subscribers = load(things).unwrap().subscribers;
    let followed =
        |subscriber| (0..3).map(|place| subscribers.follows(subscriber, place, 8)).collect::<Vec<u32>>();
    assert_eq!([followed(0), followed(1), followed(2)], [[0, 1, 2], [3, 4, 5], [6, 7, 0]]);
    for (subscriber, device) in (0..3).flat_map(|subscriber| (0..8).map(move |device| (subscriber, device))) {
        let listed = followed(subscriber).contains(&device);
        assert_eq!(subscribers.is_follower(subscriber, device, 8), listed, "{subscriber} {device}");
    }
    let too_many = load_with(things, &["population.subscribers.devices=9"]).unwrap_err().to_string();
    assert!(too_many.contains("there are only 8 devices to follow"), "{too_many}");
    let plain = load_with(LEAST, &["population.subscribers={count: 2, devices: 1}"]).unwrap_err().to_string();
    assert!(plain.contains("makes no subscription for each pair"), "{plain}");
}

#[test]
fn subscribers_may_be_notified_over_mqtt() {
    let onem2m = "name: t\nplatform: { profile: onem2m, mapping: mqtt-notified, address: \"mqtt://h:1\", \
        ports: { http: 2 } }\npopulation: { devices: 2, subscribers: 2 }\nload: { levels: [1/s] }\n";
    let plan = load(onem2m).unwrap();
    let answer = plan.platform.roles.notified.as_ref().unwrap().answer.as_ref().unwrap();
    let variables = Variables { run: "r", subscriber: 1, id: "x\"y", ..Variables::default() };
    let rendered = |template: &Template| {
        let mut out = Vec::new();
        template.render(&variables, &mut || 0, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(rendered(&plan.subscribers.filters[0]), "/oneM2M/req/id-in/Cplimsollrs1/json");
    assert_eq!(rendered(&answer.topic), "/oneM2M/resp/id-in/Cplimsollrs1/json");
    assert!(rendered(&answer.payload).contains(r#""rqi":"x\"y""#), "{}", rendered(&answer.payload));

    let wrong = |device: &str, subscriber: &str| {
        let profile =
            format!("name: p\ntitle: p\ncomponents: []\ndevice: {device}\nsubscriber: {subscriber}\n");
        let text = onem2m.replace("onem2m, mapping: mqtt-notified", "./p.yaml");
        let source = SourceFile { name: "scenario.yaml".to_owned(), text };
        let environment = Environment { profile: &|_| Ok(profile.clone()), variable: &|_| None };
        plimsoll_scenario::load(&source, &[], &environment).unwrap_err().to_string()
    };
    let mqtt = "{ speaks: mqtt }";
    let http = "{ speaks: http, request: { path: /a, body: \"{message}\" } }";
    for (device, subscriber, expected) in [
        (mqtt, "{ filters: [a], answer: { topic: b, payload: c, id: /d } }", "only notifications over MQTT"),
        (mqtt, "{ listens: mqtt }", "come to topics, and none is named"),
        (http, "{ listens: mqtt, filters: [a] }", "come by the broker of the devices"),
        (
            mqtt,
            "{ listens: mqtt, filters: [a], answer: { topic: b, payload: c, id: d } }",
            "begins with a slash",
        ),
        (
            mqtt,
            "{ listens: mqtt, filters: [a], answer: { topic: \"{id}\", payload: c, id: /d } }",
            "no variable `{id}`",
        ),
    ] {
        let shown = wrong(device, subscriber);
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn levels_may_be_idle_before() {
    let plan = load_with(LEAST, &["load.idle_before=2m", "load.levels=[1, 2]", "load.again=0s"]).unwrap();
    assert_eq!(plan.load.idle_before, Nanos::from_secs(120));
    let without = load_with(LEAST, &["load.levels=[1, 2]", "load.again=0s"]).unwrap();
    assert_eq!(plan.longest_duration(), without.longest_duration() + Nanos::from_secs(240));
    assert!(facts(&plan).contains("2m without load, "), "{}", facts(&plan));
    let searched = ["load.levels=null", "load.search={ from: 1, to: 10 }", "load.idle_before=1s"];
    let errors = load_with(LEAST, &searched).unwrap_err().to_string();
    assert!(errors.contains("`idle_before` is for listed levels"), "{errors}");
}

/// A cloud that asks devices over their own connections.
fn relayed(more: &str) -> String {
    format!(
        "name: t\nplatform: {{ profile: ocf-cloud, mapping: relayed, address: 'coap+tcp://h:1' }}\n\
         population: {{ devices: 5 }}\nload: {{ levels: [1/s] }}\n{more}"
    )
}

#[test]
fn queries_of_devices_that_share_connections_are_warned_of() {
    let warns =
        |more: &str| facts(&load(&relayed(more)).unwrap()).contains("queries go through the platform");
    let asks = "northbound: { rate: 1/s }\n";
    assert!(warns(&format!("{asks}coap: {{ sockets: 1 }}")));
    assert!(warns(&format!("{asks}coap: {{ sockets: 4 }}")));
    assert!(!warns(asks), "each has its own");
    assert!(!warns(&format!("{asks}coap: {{ sockets: 5 }}")), "each has its own");
    assert!(!warns("coap: { sockets: 1 }"), "nobody asks");
    let of_types = relayed(&format!("{asks}coap: {{ sockets: 1 }}")).replace("relayed", "one-interface");
    assert!(!facts(&load(&of_types).unwrap()).contains("queries go"), "the directory is asked");
}

#[test]
fn an_address_that_is_missing_or_wrong_is_shown_as_it_would_be() {
    let told = |platform: &str| {
        let text = format!(
            "name: t\nplatform: {platform}\npopulation: {{ devices: 1 }}\nload: {{ levels: [1/s] }}\n"
        );
        load(&text).unwrap_err().to_string()
    };
    assert!(told("{ profile: ocf-cloud }").contains("address: \"coap+tcp://host:5683\""));
    assert!(told("{ profile: fiware-orion }").contains("address: \"http://host:80\""));
    assert!(told("{ profile: onem2m, mapping: coap }").contains("address: \"coap://host:5683\""));
    assert!(told("{ profile: ocf-cloud, address: 'coap://h' }").contains("such as `coap+tcp://host:5683`"));
}

/// Devices of a profile for datagrams speak TCP where the address says so, and then queriers do, too.
#[test]
fn queriers_speak_what_devices_speak() {
    let profile = "name: mine\ntitle: mine\ndevice:\n  speaks: coap\n  marker: ascii\n  request: { path: /in, body: '{message}' }\n\
                   querier: { request: { method: GET, path: /out, body: '1', body_format: cbor } }\ncomponents: []\n";
    let given = |_: &str| Ok(profile.to_owned());
    let environment = Environment { profile: &given, variable: &|_| None };
    for (scheme, expected) in [("coap+tcp", Protocol::CoapTcp), ("coap", Protocol::Http)] {
        let text = format!(
            "name: t\nplatform: {{ profile: ./mine.yaml, address: '{scheme}://h:1' }}\npopulation: {{ devices: 1 }}\n\
             northbound: {{ rate: 1/s }}\nload: {{ levels: [1/s] }}\n"
        );
        let source = SourceFile { name: "scenario.yaml".to_owned(), text };
        let plan =
            plimsoll_scenario::load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"));
        let query = plan.platform.roles.query.unwrap();
        let request = query.ask.request().unwrap();
        assert_eq!(query.protocol, expected);
        let is_over_coap = expected == Protocol::CoapTcp;
        assert_eq!((request.options.len() == 1, request.headers.is_empty()), (is_over_coap, is_over_coap));
    }
}

/// A part of a platform: name, what it runs on, how many, price.
type Priced = (String, Option<String>, usize, f64);

/// What each part of `embedded` costs, then what has no price.
fn costs(prices: &str, platform: &str) -> (Vec<Priced>, Vec<String>) {
    let text = format!("{LEAST}prices: {{ currency: USD, {prices} }}\n").replace("embedded", platform);
    let cost = load(&text).unwrap().cost.unwrap();
    let priced = cost.priced.into_iter().map(|own| (own.name, own.on, own.count, own.price));
    (priced.collect(), cost.unpriced)
}

#[test]
fn a_component_costs_what_it_runs_on() {
    let broker =
        |on: Option<&str>, count, price| vec![("broker".to_owned(), on.map(str::to_owned), count, price)];
    let with = |keys: &str| format!("{{ profile: embedded, {keys} }}");
    let file = "file: prices.csv";
    assert_eq!(costs("components: { broker: 5 }", "embedded").0, broker(None, 1, 5.0));
    let named = costs(&format!("{file}, components: {{ broker: m4.large }}"), "embedded");
    assert_eq!(named.0, broker(Some("m4.large"), 1, 94.43));
    // The cheapest with as much as the quota.
    for (quota, on, price) in [
        ("1.5", "m4.large", 94.43),
        ("{ processors: 3 }", "c4.xlarge", 166.17),
        ("{ processors: 3, memory: 9 GiB }", "c4.2xlarge", 332.33),
    ] {
        let found = costs(file, &with(&format!("quotas: {{ broker: {quota} }}")));
        assert_eq!(found, (broker(Some(on), 1, price), Vec::new()));
    }
    let several = costs("components: { broker: 5 }", &with("replicas: { broker: 3 }"));
    assert_eq!(several.0, broker(None, 3, 5.0));
    let beside = costs(&format!("{file}, others: {{ front: balancer }}"), "embedded");
    assert_eq!(beside.0, [("front".to_owned(), Some("balancer".to_owned()), 1, 11.5)]);
    assert_eq!(beside.1, ["broker"], "it has no price");
    // What components could run on, the cheapest first; of the balancer, no size is known.
    let text = format!("{LEAST}prices: {{ currency: USD, {file} }}\n");
    let types = load(&text).unwrap().cost.unwrap().types;
    let types: Vec<(&str, f64)> = types.iter().map(|own| (own.name.as_str(), own.processors)).collect();
    assert_eq!(types.first(), Some(&("m4.large", 2.0)));
    assert!(types.len() == 3 && !types.iter().any(|(name, _)| *name == "balancer"), "{types:?}");
    let own = "types: { m4.large: 1 }, components: { broker: m4.large }";
    assert_eq!(costs(&format!("{file}, {own}"), "embedded").0, broker(Some("m4.large"), 1, 1.0));
}
