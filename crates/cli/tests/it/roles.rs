//! A platform that is added by a YAML file alone: set-up steps, requests, subscribers that listen.

use crate::harness::{Bench, count, until_valid};
use crate::http_service::{Fault, HttpService};

/// The profile of the tests' own small service.
pub const PROFILE: &str = r#"
name: things
title: a small service of our own
variables: { prefix: thing }
controller:
  set_up:
    - name: register things
      each: device
      request:
        path: /things
        body: "{prefix}{device}"
        expect: [201]
      capture: { key: /thing/key, id: /thing/id }
    - name: set hooks
      each: subscriber
      request: { path: /hooks, body: "{listener}" }
  clean_up:
    - name: delete things
      each: device
      request: { method: DELETE, path: "/things/{id}" }
    - name: forget the hooks
      request: { method: DELETE, path: /hooks }
device:
  speaks: http
  marker: ascii
  request:
    method: PUT
    path: /things/{id}
    headers: { X-Key: "{key}", Content-Type: application/json }
    body: '{"n":{sequence},"text":"{message:json}"}'
    expect: [200, 204]
    retry: [503]
subscriber:
  listens: http
querier:
  request: { method: GET, path: "/things/{id}" }
components: []
"#;

fn scenario(service: &HttpService, more: &str) -> String {
    format!(
        "name: things\nplatform: {{ profile: ./things.yaml, address: \"{}\", clean_up: true }}\n{more}",
        service.url()
    )
}

const CLOSED: &str = "population: { devices: 4, subscribers: 3 }\n\
    load: { model: closed, in_flight: [4], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }\n\
    record: { network: false }\n\
    mqtt: { reconnect: { from: 10ms, to: 20ms } }\n\
    objectives: { delivered: \">= 50 %\" }\n";

#[test]
fn a_platform_is_added_by_a_yaml_file_alone() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([]);
    let finished = bench.run(&scenario(&service, CLOSED)).judged();
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!(sent > 100, "{sent}");
    assert_eq!(count(level, "acknowledged"), sent);
    assert_eq!(count(level, "expected_deliveries"), 3 * sent);
    assert_eq!(count(level, "delivered"), 3 * sent);
    for nothing in ["lost", "duplicated", "foreign", "late", "unsent"] {
        assert_eq!(count(level, nothing), 0, "{nothing}");
    }
    let state = service.state();
    let stored: usize = state.values.values().map(Vec::len).sum();
    assert_eq!(stored as u64, sent);
    assert!(
        state.values["thing3"][0].starts_with("{\"n\":0,\"text\":\"plm"),
        "{:?}",
        state.values["thing3"][0]
    );
    // The controller's connections, at most eight, and one of each device.
    assert!(state.connections <= 3 * 8 + 4, "{}", state.connections);
    // Cleaned up: the same things can be registered again.
    bench.run(&scenario(&service, CLOSED)).judged();
}

#[test]
fn queries_beside_the_load_have_times_of_their_own() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([]);
    let more = format!("{CLOSED}northbound: {{ rate: 200/s, arrivals: constant, queriers: 5 }}\n");
    let finished = bench.run(&scenario(&service, &more)).judged();
    let level = finished.level(0);
    // One every 5 ms; the first is due at 5 ms, the last may fall on the hold's end.
    let queries = count(level, "queries");
    assert!((199..=200).contains(&queries), "{queries}");
    // At first there may be no value yet.
    assert!(count(level, "queries_answered") >= 190, "{level:#}");
    assert_eq!(count(level, "queries_answered") + count(level, "queries_failed"), queries);
    assert_eq!(level["query_time"]["n"].as_u64().unwrap(), count(level, "queries_answered"));
    finished.says(&format!("{queries} queries"));
}

#[test]
fn what_befalls_requests_is_in_the_ledger() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let faults = [
        (3, Fault::Status(500)),
        (5, Fault::Status(503)),
        (6, Fault::Status(503)),
        (9, Fault::Close),
        (12, Fault::GoodbyeAfter),
        (14, Fault::Chunked),
        (17, Fault::Garbage),
        (20, Fault::Untold),
        (23, Fault::ToldTwice),
        (26, Fault::Foreign),
        (29, Fault::Redirect),
    ];
    let service = HttpService::start(faults);
    let finished = bench.run(&scenario(&service, CLOSED));
    let level = finished.level(0);
    let (sent, acknowledged) = (count(level, "sent"), count(level, "acknowledged"));
    // 500 and 307 are refused, closed and garbage have no answer; 503 is sent again.
    assert_eq!(count(level, "refused"), 2, "{finished:?}");
    assert_eq!(count(level, "repeated"), 2);
    assert_eq!(sent - acknowledged, 4, "{finished:?}");
    // Never told: 500, 307, garbage, the untold.
    assert_eq!(count(level, "lost"), 4 * 3);
    assert_eq!(count(level, "duplicated"), 3);
    assert_eq!(count(level, "foreign"), 3);
    let finished =
        finished.says("the platform answered 500").says("to http://elsewhere/, which is not followed");
    finished.says("sent again after 503").says("that port speaks SSH");
}

/// A device is connected once however often it is wanted, and those that a level does not want leave.
#[test]
fn levels_in_devices_count_each_device_once() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    for http in ["", "http: { pool: 3 }\n"] {
        let service = HttpService::start([]);
        let more = format!(
            "population: {{ devices: 30 }}\n{http}\
             load: {{ devices: [10, 30, 20], rate_per_device: 5, hold: 1s, samples: 2, warm_up: 0s, connect_rate: 500 }}\n\
             objectives: {{ achieved: null }}\n"
        );
        let finished = bench.run(&scenario(&service, &more));
        let connected: Vec<u64> = finished.levels().iter().map(|level| count(level, "connected")).collect();
        let connects: Vec<u64> = finished.levels().iter().map(|level| count(level, "connects")).collect();
        assert_eq!(
            (connected, connects),
            (vec![10, 30, 20], vec![10, 20, 0]),
            "{http:?} {}",
            finished.stdout
        );
    }
}

/// Queries that fail count as longer than any that was answered.
#[test]
fn an_objective_on_queries_looks_at_all_that_were_due() {
    let bench = Bench::beside_others();
    bench.write(
        "things.yaml",
        &PROFILE.replace("{ method: GET, path: \"/things/{id}\" }", "{ method: GET, path: /no }"),
    );
    let service = HttpService::start([]);
    let more = "population: { devices: 2, subscribers: 1 }\n\
        load: { model: closed, in_flight: [1], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }\n\
        northbound: { rate: 400/s }\n\
        objectives: { publish_p99: null, query_p50: \"< 1 s\" }\n";
    let finished = until_valid(|| bench.run(&scenario(&service, more))).exits(99);
    assert_eq!(count(finished.level(0), "queries_answered"), 0);
}

/// The store keeps the name of a secret's variable, not what it holds.
#[test]
fn secrets_come_from_the_environment_and_are_not_kept() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([]);
    let text =
        scenario(&service, CLOSED).replace("clean_up: true", "with: { prefix: { env: THINGS_PREFIX } }");
    let mut command = bench.run_command(&text);
    command.env("THINGS_PREFIX", "hush-hush");
    bench.start(&mut command).finish().judged();
    assert!(service.state().values.contains_key("hush-hush0"));
    let store = std::fs::read(bench.path("runs.db")).unwrap();
    assert!(!store.windows(9).any(|window| window == b"hush-hush"));
    bench.run(&text).exits(104).says("the environment variable that it names is not set");
}

#[test]
fn an_answer_that_never_comes_is_given_up() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([(10, Fault::Silence)]);
    let finished = bench.run(&scenario(&service, &format!("{CLOSED}http: {{ timeout: 300ms }}\n")));
    let level = finished.level(0);
    assert_eq!(count(level, "sent") - count(level, "acknowledged"), 1, "{finished:?}");
    assert_eq!(count(level, "lost"), 0);
    finished.says("no answer within 300 ms");
}

#[test]
fn devices_may_share_connections_and_deliveries_may_come_after_the_answer() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::with([], false);
    let more = "population: { devices: 40, subscribers: 1 }\n\
        load: { arrivals: poisson, levels: [400], hold: 1s, samples: 2, warm_up: 0s, drain: 2s }\n\
        http: { pool: 3 }\n\
        objectives: { delivered: \">= 99 %\" }\n";
    let finished = bench.run(&scenario(&service, more));
    let level = finished.level(0);
    assert_eq!(count(level, "delivered"), count(level, "due"), "{finished:?}");
    assert!(level["publish_minus_subscribe"]["negative"].as_f64().unwrap() > 0.0, "{level:#}");
    // The controller's, at most eight a step, and the pool.
    assert!(service.state().connections <= 3 * 8 + 4, "{}", service.state().connections);
}

#[test]
fn more_operations_than_devices_are_in_flight_where_connections_allow_it() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    for http in ["connections: 4", "pool: 4"] {
        // None of the first four is answered: all of them come only where none waits for another one.
        let service = HttpService::start((1..=4).map(|number| (number, Fault::Silence)));
        let more = format!(
            "population: {{ devices: 1 }}\nhttp: {{ {http} }}\n\
             load: {{ model: closed, in_flight: [4], hold: 500ms, samples: 2, warm_up: 0s, drain: 100ms }}\n\
             objectives: {{ publish_p99: null }}\n"
        );
        let finished = bench.run(&scenario(&service, &more));
        let level = finished.level(0);
        assert_eq!((count(level, "sent"), count(level, "acknowledged")), (4, 0), "{http}: {level:#}");
    }
}

#[test]
fn steps_that_fail_are_told_with_what_the_platform_said() {
    let bench = Bench::beside_others();
    let service = HttpService::start([]);
    bench.write("things.yaml", &PROFILE.replace("path: /things\n", "path: /thongs\n"));
    let finished = bench.run(&scenario(&service, CLOSED)).exits(1);
    finished.says("step `register things`: POST http://127.0.0.1").says("was answered 404: no such thing");
    bench.write("things.yaml", &PROFILE.replace("key: /thing/key", "key: /thing/secret"));
    bench.run(&scenario(&service, CLOSED)).exits(1).says("has no `/thing/secret`");
}

#[test]
fn captured_secrets_are_left_out_of_what_failed_steps_tell() {
    let bench = Bench::beside_others();
    let step =
        "\x20   - name: look\n      each: device\n      request: { path: \"/things/{key}?of={device}\" }\n";
    for (profile, told) in [
        (PROFILE.replace("expect: [201]", "expect: [200]"), "was answered 201: {\"thing\":{\"id\":\"thing"),
        (
            PROFILE.replace("    - name: set hooks\n", &format!("{step}    - name: set hooks\n")),
            "/things/***?of=",
        ),
    ] {
        let service = HttpService::start([]);
        bench.write("things.yaml", &profile);
        let finished = bench.run(&scenario(&service, CLOSED)).exits(1).says(told);
        assert!(!finished.said().contains("key-thing"), "{}", finished.said());
        let store = std::fs::read(bench.path("runs.db")).unwrap();
        assert!(!store.windows(9).any(|window| window == b"key-thing"));
    }
}

#[test]
fn what_is_wrong_with_roles_is_told_with_its_place() {
    let bench = Bench::beside_others();
    let service = HttpService::start([]);
    for (from, to, expected) in [
        ("{message:json}", "nothing", "neither `{message}` nor `{marker}` stands in it"),
        ("{key}", "{kez}", "no variable `{kez}` here"),
        ("each: device", "each: devise", "did you mean `device`"),
        ("path: /things/{id}\n", "path: things/{id}\n", "a path begins with a slash"),
        ("X-Key:", "Host:", "`Host` is added by itself"),
        ("key: /thing/key", "key: thing", "`thing` is no place in an answer"),
        (
            "path: \"/things/{id}\" }\ncomponents",
            "path: \"/things/{sequence}\" }\ncomponents",
            "no variable `{sequence}`",
        ),
    ] {
        assert!(PROFILE.contains(from), "{from}");
        bench.write("things.yaml", &PROFILE.replace(from, to));
        bench.run(&scenario(&service, CLOSED)).exits(104).says(expected).says("things.yaml");
    }
}

/// Subscribers that are notified over MQTT are connected while steps still go on, so that they have received something.
#[test]
fn a_set_up_that_fails_with_subscribers_connected_is_told_too() {
    let bench = Bench::beside_others();
    // The steps go to the broker, which does not speak HTTP.
    bench.write(
        "notified.yaml",
        "name: notified\ntitle: a broker alone\ncontroller:\n  set_up:\n\
         \x20 - { name: subscribe, request: { path: /s, body: \"{listener}\" } }\n\
         device: { speaks: mqtt }\nsubscriber: { listens: mqtt, filters: [\"n/{subscriber}\"] }\n\
         components:\n- name: broker\n  command: [\"{plimsoll}\", target, broker, --port, \"{port:mqtt}\"]\n\
         \x20 ready_port: mqtt\n  mqtt_port: mqtt\n  http_port: mqtt\n",
    );
    let finished = bench.run(&format!("name: t\nplatform: ./notified.yaml\n{CLOSED}")).exits(1);
    finished.says("step `subscribe`: POST http://127.0.0.1");
}
