//! In which state a run finds the platform: reset, filled, or as it was.

use crate::harness::{Bench, Finished};
use crate::http_service::HttpService;
use crate::roles::PROFILE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// The service's profile with steps that reset and fill it.
fn profile() -> String {
    PROFILE.replace(
        "controller:\n",
        "controller:\n\
        \x20 reset:\n\
        \x20   - name: take away what the filling made\n\
        \x20     request: { method: DELETE, path: \"/things/extra-1\", expect: [200, 204, 404] }\n\
        \x20 preload:\n\
        \x20   - name: fill the service\n\
        \x20     each: item\n\
        \x20     request: { path: /things, body: \"extra-{item}\", expect: [201, 409] }\n",
    )
}

fn scenario(service: &HttpService, platform: &str) -> String {
    format!(
        "name: things\nplatform: {{ profile: ./things.yaml, address: \"{}\", {platform} }}\n\
        population: {{ devices: 2, subscribers: 1 }}\n\
        load: {{ model: closed, in_flight: [1], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }}\n\
        objectives: {{ delivered: \">= 50 %\", publish_p99: null }}\n",
        service.url()
    )
}

fn fact(finished: &Finished, name: &str) -> String {
    finished.summary["provenance"]["platform"][name].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_platform_is_reset_and_filled_before_the_run_and_the_store_says_so() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", &profile());
    let service = HttpService::start([]);
    let platform = "clean_up: true, between_runs: reset, preload: 5, \
                    reset_command: [sh, -c, \"echo reset >> resets.txt\"]";
    let finished = bench.run(&scenario(&service, platform)).judged();
    assert_eq!(service.things(), ["extra-0", "extra-1", "extra-2", "extra-3", "extra-4"]);
    assert_eq!(fact(&finished, "state"), "reset before this run, by `sh -c echo reset >> resets.txt`");
    assert_eq!(fact(&finished, "preloaded"), "5 items");
    bench.run(&scenario(&service, platform)).judged();
    let resets = std::fs::read_to_string(bench.path("resets.txt")).unwrap();
    assert_eq!(resets.lines().count(), 2, "once before each run");
}

#[test]
fn what_is_kept_or_started_anew_is_told_too() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([]);
    let finished = bench.run(&scenario(&service, "clean_up: true")).judged();
    assert_eq!(fact(&finished, "state"), "as it was found; earlier runs may have left something");
    assert_eq!(fact(&finished, "preloaded"), "");
    let own = "name: own\nplatform: embedded\npopulation: { devices: 2 }\nload: { levels: [100/s], hold: 1s, samples: 2 }\n";
    assert_eq!(fact(&bench.run(own), "state"), "started fresh for this run");
}

#[test]
fn a_reset_that_fails_ends_the_run_and_shows_why() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", &profile());
    let service = HttpService::start([]);
    let platform = "between_runs: reset, reset_command: [sh, -c, \"echo no database; exit 3\"]";
    let finished = bench.run(&scenario(&service, platform)).exits(1);
    finished.says("the platform was not reset by `sh -c echo no database; exit 3`").says("no database");
    assert!(service.things().is_empty(), "nothing was begun");
}

/// What the command says is kept where it fails, but not what it must not say.
#[test]
fn a_reset_that_fails_tells_no_secret() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", &profile());
    let service = HttpService::start([]);
    let platform = "between_runs: reset, with: { prefix: { env: THING_SECRET } }, \
                    reset_command: [sh, -c, \"echo wrong: $THING_SECRET; exit 3\"]";
    let mut command = bench.run_command(&scenario(&service, platform));
    command.env("THING_SECRET", "hush hush");
    let finished = bench.start(&mut command).finish().exits(1).says("wrong: ***");
    let store = std::fs::read(bench.path("runs.db")).unwrap();
    assert!(!store.windows(4).any(|window| window == b"hush"), "{}", finished.said());
    assert!(!finished.said().contains("hush"), "{}", finished.said());
}

#[test]
fn a_state_that_nobody_can_bring_about_is_refused_before_the_run() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start([]);
    for (platform, told) in [
        ("between_runs: reset", "nobody knows how a platform of the profile"),
        ("preload: 5", "does not say how its platform is filled"),
        ("reset_command: [\"true\"]", "it would never be run"),
    ] {
        bench.run(&scenario(&service, platform)).exits(104).says(told);
    }
    let own = "name: own\nplatform: { profile: embedded, between_runs: keep }\npopulation: { devices: 2 }\nload: { levels: [1/s] }\n";
    bench.run(own).exits(104).says("starts its platform fresh for each run");
}

/// A platform that registers some things, is unavailable for a while, and then registers the others.
fn registrar(before: u32, away: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut served, mut away_since) = (0, None);
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let Ok(1..) = stream.read(&mut request) else { continue };
            let registers = request.starts_with(b"POST");
            let unavailable =
                registers && served >= before && away_since.get_or_insert_with(Instant::now).elapsed() < away;
            served += u32::from(registers && !unavailable);
            let status = if unavailable { "503 Service Unavailable" } else { "201 Created" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address
}

#[test]
fn a_set_up_goes_on_where_it_was_when_the_platform_comes_back() {
    let profile = "name: registrar\ntitle: t\ncontroller:\n  set_up:\n    - name: register\n      each: device\n\
        \x20     request: { path: \"/{device}\", expect: [201] }\n\
        device: { speaks: http, request: { method: PUT, path: /x, body: \"{message}\" } }\ncomponents: []\n";
    let scenario = |address: SocketAddr| {
        format!(
            "name: away\nplatform: {{ profile: ./registrar.yaml, address: \"http://{address}\" }}\n\
             population: {{ devices: 40 }}\n\
             load: {{ model: closed, in_flight: [1], hold: 1s, samples: 2, warm_up: 0s, drain: 1s }}\n\
             objectives: {{ publish_p99: null }}\n"
        )
    };
    let bench = Bench::beside_others();
    bench.write("registrar.yaml", profile);
    // Longer than five tries take.
    let finished = bench.run(&scenario(registrar(10, Duration::from_secs(5))));
    assert_eq!(finished.levels().len(), 1, "{}\n{}", finished.stdout, finished.stderr);
    // One that has never answered is given up after five tries.
    let begun = Instant::now();
    bench.run(&scenario(registrar(0, Duration::from_secs(600)))).exits(1).says("was answered 503");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
