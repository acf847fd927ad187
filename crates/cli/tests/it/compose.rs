//! Platforms that a container engine or a cluster brings up from files: programs of ours take the place of `docker` and `kubectl`
//! (`stand_ins/engine.py`). No real engine takes part.

use crate::harness::{Bench, Finished, assert_end_within, count};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a call may take to come. It is a matter of milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

const COMPOSE: &str = r#"{ "services": {
    "broker": { "image": "broker:2", "ports": ["127.0.0.1::1883"],
                "depends_on": { "db": { "condition": "service_healthy" } } },
    "db": { "image": "db:1", "x-health": "healthy" },
    "worker": { "image": "worker:3" } } }"#;

const WITH_COMPOSE: &str = "
  compose: { file: compose.yaml, service: broker, port: 1883, scale: { worker: 2 }, logs: logs, within: 1m }
  quotas: { worker: { processors: 0.5, memory: 64 MiB } }";

const MANIFESTS: &str = r#"{ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "broker" },
    "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "broker" } },
        "template": { "metadata": { "labels": { "app": "broker" } },
            "spec": { "containers": [ { "name": "broker", "image": "broker:2" } ] } } } }
---
{ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "broker" },
    "spec": { "selector": { "app": "broker" }, "ports": [ { "port": 1883 } ] } }"#;

const WITH_MANIFESTS: &str = "
  manifests: { files: broker.yaml, service: broker, port: 1883, replicas: { broker: 3 }, context: test, logs: logs }
  quotas: { broker: { processors: 0.5, memory: 64 MiB } }";

/// What takes down all of a run.
const DOWN: &str = "compose down --volumes --remove-orphans";

/// A folder with files for an engine, with a scenario that names them, and with programs that take the engine's place.
struct Engine {
    bench: Bench,
    scenario: String,
}

impl Engine {
    fn of(platform: &str) -> Engine {
        let bench = Bench::beside_others();
        for folder in ["bin", "state"] {
            fs::create_dir(bench.path(folder)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/engine.py");
        for program in ["docker", "kubectl"] {
            let text = format!("#!/bin/sh\nexec python3 -B '{}' {program} \"$@\"\n", script.display());
            let path = bench.write(&format!("bin/{program}"), &text);
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        bench.write("compose.yaml", COMPOSE);
        bench.write("broker.yaml", MANIFESTS);
        let scenario = format!(
            "name: composed
platform:
  profile: existing{platform}
population: {{ devices: 5, subscribers: 1 }}
load: {{ arrivals: constant, levels: [100], warm_up: 0s, hold: 3s, samples: 15, drain: 500ms }}
objectives: {{ publish_p99: null, publish_p50: \"< 10 s\" }}
"
        );
        Engine { bench, scenario }
    }

    /// The same with a text of the scenario replaced.
    fn with(mut self, text: &str, other: &str) -> Engine {
        assert!(self.scenario.contains(text), "{text}");
        self.scenario = self.scenario.replace(text, other);
        self
    }

    /// `plimsoll run` of the scenario, with what the environment says besides.
    fn command(&self, environment: &[(&str, &str)]) -> Command {
        let mut command = self.bench.run_command(&self.scenario);
        self.prepare(&mut command);
        command.envs(environment.iter().copied());
        command
    }

    fn prepare(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.bench.path("bin").display()));
        command.env("ENGINE_STATE", self.bench.path("state"));
        command.env("ENGINE_PLIMSOLL", env!("CARGO_BIN_EXE_plimsoll"));
    }

    fn run(&self, environment: &[(&str, &str)]) -> Finished {
        self.bench.start(&mut self.command(environment)).finish()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.bench.path(name)).unwrap_or_default()
    }

    /// The calls so far.
    fn calls(&self) -> Vec<String> {
        self.read("state/calls.txt").lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn await_call(&self, beginning: &str) {
        let begin = Instant::now();
        while !self.calls().iter().any(|call| call.starts_with(beginning)) {
            assert!(begin.elapsed() < PATIENCE, "{:?} were called", self.calls());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where a call stands among all.
    #[track_caller]
    fn place(&self, call: &str) -> usize {
        let calls = self.calls();
        calls.iter().position(|other| other == call).unwrap_or_else(|| panic!("no {call:?} in {calls:#?}"))
    }

    /// What takes the platform down was called once, at last, and nothing of it runs any more.
    #[track_caller]
    fn assert_down(&self, down: &str) {
        self.await_call(down);
        let processes = self.read("state/processes.txt");
        let processes: Vec<u32> = processes.lines().map(|line| line.parse().unwrap()).collect();
        assert_end_within(PATIENCE, &processes);
        let calls = self.calls();
        assert_eq!(calls.iter().filter(|call| call.starts_with(down)).count(), 1, "{calls:#?}");
        assert!(calls.last().is_some_and(|call| call.starts_with(down)), "{calls:#?}");
    }
}

fn run_of(finished: &Finished) -> String {
    finished.summary["run"].as_str().unwrap().to_owned()
}

/// The platform takes and delivers all that was sent.
#[track_caller]
fn assert_delivers(finished: &Finished) {
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!(sent > 0 && count(level, "delivered") == sent, "{level:#}");
}

#[test]
fn a_compose_file_is_brought_up_for_a_run_and_taken_down_after_it() {
    let engine = Engine::of(WITH_COMPOSE);
    let finished = engine.run(&[]).judged();
    assert_delivers(&finished);
    assert!(engine.place("compose config --quiet") < engine.place("compose up --detach"));
    engine.assert_down(DOWN);
    let run = run_of(&finished);
    let facts = &finished.summary["provenance"]["platform"];
    for (name, fact) in [
        ("engine", "docker 99.0.0"),
        ("compose", "2.99.0"),
        ("project", &format!("plimsoll-{run}")[..]),
        ("scale", "2 of worker"),
        ("image of worker", "worker:3 sha256:0123456789abcdef"),
    ] {
        assert_eq!(facts[name], fact, "{facts:#}");
    }
    let state = facts["state"].as_str().unwrap();
    assert_eq!(state, "brought up for this run, by `docker compose --file compose.yaml up`");
    for service in ["broker", "db", "worker"] {
        let log = format!("logs/{run}/{service}.log");
        assert_eq!(engine.read(&log), format!("{service} says something\n"));
        for (path, mode) in [(log, 0o600), (format!("logs/{run}"), 0o700)] {
            let found = fs::metadata(engine.bench.path(&path)).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{path} can be read by others");
        }
    }
    // Two workers, as the overrides say.
    assert_eq!(engine.read("state/processes.txt").lines().count(), 4);
}

#[test]
fn where_packets_are_captured_containers_stand_still_until_the_capture_has_begun() {
    let engine = Engine::of(WITH_COMPOSE);
    let finished = engine.bench.start(engine.command(&[]).arg("--capture")).finish().judged();
    assert_delivers(&finished);
    let places =
        ["compose up --no-start", "start 0", "pause 0", "start 1", "pause 1", "unpause 1 2 3", "unpause 0"]
            .map(|call| engine.place(call));
    assert!(places.is_sorted(), "{:#?}", engine.calls());
    engine.assert_down(DOWN);
}

#[test]
fn what_does_not_come_up_is_taken_down_and_says_why() {
    for (text, other, fails, said) in [
        ("", "", "compose up", "the image of the next one cannot be pulled"),
        (
            "service: broker",
            "service: brokr",
            "",
            "the files have no service `brokr`; there are: broker, db, worker",
        ),
        ("scale: { worker", "scale: { wrker", "", "the files have no service `wrker`"),
        ("port: 1883", "port: 1884", "", "port 1884 of the service `broker` is not published"),
    ] {
        let engine = Engine::of(WITH_COMPOSE).with(text, other);
        let finished = engine.run(&[("ENGINE_FAILS", fails)]).exits(1).says(said);
        assert_eq!(finished.summary["verdict"], "failed", "{said}");
        engine.assert_down(DOWN);
    }
    let engine = Engine::of(WITH_COMPOSE);
    engine.bench.write("compose.yaml", &COMPOSE.replace("\"healthy\"", "\"unhealthy\""));
    engine.run(&[]).exits(1).says("the service `db` is not healthy");
    engine.assert_down(DOWN);
}

#[test]
fn a_service_that_never_becomes_healthy_takes_too_long() {
    let engine = Engine::of(WITH_COMPOSE).with("within: 1m", "within: 2s");
    engine.bench.write("compose.yaml", &COMPOSE.replace("\"healthy\"", "\"starting\""));
    let finished = engine.run(&[]).exits(1).says("took longer than 2 s and was killed");
    finished.says("`platform.compose.within` gives it longer");
    engine.assert_down(DOWN);
}

#[test]
fn an_engine_or_a_file_that_is_missing_is_seen_before_anything_is_called() {
    for (text, other, said) in [
        ("port: 1883", "port: 1883, with: plimsoll-none", "the command `plimsoll-none` is not installed"),
        ("file: compose.yaml", "file: [compose.yaml, more.yaml]", "more.yaml: No such file"),
    ] {
        let engine = Engine::of(WITH_COMPOSE).with(text, other);
        engine.run(&[]).exits(104).says(said);
        let mut check = engine.bench.plimsoll(["check", "scenario.yaml"]);
        engine.prepare(&mut check);
        engine.bench.start(&mut check).finish().exits(104).says(said);
        assert!(engine.calls().is_empty());
    }
}

#[test]
fn an_interrupt_and_a_kill_take_down_what_is_up_in_part() {
    for (signal, code) in [(Signal::INT, Some(105)), (Signal::KILL, None)] {
        let engine = Engine::of(WITH_COMPOSE);
        let run = engine.bench.start(&mut engine.command(&[("ENGINE_HANGS", "inspect")]));
        engine.await_call("inspect");
        run.signal(signal);
        assert_eq!(run.finish().code, code);
        engine.assert_down(DOWN);
    }
}

#[test]
fn a_kill_in_mid_level_takes_the_platform_down_all_the_same() {
    let engine = Engine::of(WITH_COMPOSE);
    let run = engine.bench.start(&mut engine.command(&[]));
    engine.bench.await_level(0);
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None);
    engine.assert_down(DOWN);
}

#[test]
fn what_is_not_taken_down_is_named_and_the_figures_stay() {
    let engine = Engine::of(WITH_COMPOSE);
    let finished = engine.run(&[("ENGINE_FAILS", "compose down")]).judged();
    let finished =
        finished.says("`docker compose down`, which takes the platform down, ended with exit status: 1");
    assert_delivers(&finished);
    assert!(finished.summary["notes"].to_string().contains("the volume is in use"), "{:#}", finished.summary);
    engine.assert_down(DOWN);
}

/// What a program of the peers prints.
fn printed(program: &str) -> String {
    let output = Command::new(program).output().unwrap_or_else(|error| {
        panic!("{program} is installed by scripts/peers: {error}");
    });
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_added_to_a_compose_file_is_printed_without_an_engine_and_follows_the_specification() {
    let engine = Engine::of(WITH_COMPOSE).with("port: 1883", "port: 1883, with: plimsoll-none");
    engine.bench.write("scenario.yaml", &engine.scenario);
    let finished = engine.bench.call(["check", "scenario.yaml", "--render"]).exits(0);
    let rendered: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(rendered["services"]["worker"]["scale"], 2);
    let schema: Value = serde_json::from_str(&printed("compose-spec-schema")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&rendered).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{rendered:#}");
    assert!(!validator.is_valid(&serde_json::json!({ "services": { "worker": { "scales": 2 } } })));
    assert!(engine.calls().is_empty());
}

#[test]
fn nothing_is_added_where_no_engine_brings_the_platform_up() {
    let engine = Engine::of("").with("profile: existing", "profile: embedded");
    engine.bench.write("scenario.yaml", &engine.scenario);
    engine.bench.call(["check", "scenario.yaml", "--render"]).exits(104).says("--render goes with");
}

#[test]
fn manifests_are_applied_for_a_run_and_their_namespace_is_deleted_after_it() {
    let engine = Engine::of(WITH_MANIFESTS);
    let finished = engine.run(&[]).judged();
    assert_delivers(&finished);
    let run = run_of(&finished);
    let namespace = format!("plimsoll-{run}");
    let down = format!("delete namespace {namespace} --ignore-not-found");
    engine.assert_down(&down);
    let forwarder = engine.read("state/forwarder.txt").trim().parse().unwrap();
    assert_end_within(PATIENCE, &[forwarder]);
    let facts = &finished.summary["provenance"]["platform"];
    for (name, fact) in [
        ("engine", "Kubernetes v1.99.0"),
        ("context", "test"),
        ("namespace", &namespace[..]),
        ("replicas", "3 of broker"),
        ("reached by", "port-forward"),
        ("image of broker", "broker:2 sha256:0123"),
    ] {
        assert_eq!(facts[name], fact, "{facts:#}");
    }
    let components = finished.summary["components"].as_array().unwrap();
    assert!(components.iter().any(|component| component["name"] == "port-forward"), "{components:?}");
    assert_eq!(engine.read(&format!("logs/{run}/broker-0.log")), "pod/broker-0 says something\n");
    // What was applied has what the scenario says, and is what a cluster accepts.
    let applied = engine.bench.path("state/applied.yaml");
    let text = engine.read("state/applied.yaml");
    for part in [&format!("\"namespace\": \"{namespace}\"")[..], "\"replicas\": 3", "\"cpu\": \"500m\""] {
        assert!(text.contains(part), "{text}");
    }
    let validated = Command::new("kubernetes-validate").arg(applied).output();
    let validated = validated.expect("kubernetes-validate is installed by scripts/peers");
    assert!(validated.status.success(), "{validated:?}");
}

#[test]
fn manifests_that_do_not_come_up_are_taken_down_and_say_why() {
    for (text, other, fails, said) in [
        ("", "", "rollout status", "the server refuses that"),
        ("", "", "port-forward", "the server refuses that"),
        ("service: broker", "service: brokr", "", "services \"brokr\" not found"),
        ("replicas: { broker", "replicas: { brokr", "", "the files have no workload `brokr`"),
        ("port: 1883", "port: 1884", "", "the service `broker` has no port 1884"),
    ] {
        let engine = Engine::of(WITH_MANIFESTS).with(text, other);
        let finished = engine.run(&[("ENGINE_FAILS", fails)]).exits(1).says(said);
        assert_eq!(finished.summary["verdict"], "failed", "{said}");
        engine.assert_down("delete namespace");
    }
}

#[test]
fn what_is_the_whole_clusters_is_not_applied() {
    let role = "{ \"apiVersion\": \"rbac.authorization.k8s.io/v1\", \"kind\": \"ClusterRole\", \"metadata\": { \"name\": \"x\" } }";
    let engine = Engine::of(WITH_MANIFESTS);
    engine.bench.write("broker.yaml", &format!("{MANIFESTS}\n---\n{role}"));
    engine
        .run(&[])
        .exits(1)
        .says("objects of the whole cluster, which would stay after the run: ClusterRole");
    assert!(!engine.calls().iter().any(|call| call.starts_with("apply")), "{:#?}", engine.calls());
    engine.assert_down("delete namespace");
}

#[test]
fn a_namespace_that_stays_is_named() {
    let engine = Engine::of(WITH_MANIFESTS);
    let finished = engine.run(&[("ENGINE_FAILS", "delete")]).judged();
    finished.says("`kubectl --context test delete namespace`, which takes the platform down, ended with");
    engine.assert_down("delete namespace");
}

#[test]
fn a_folder_with_a_kustomization_is_applied() {
    let engine = Engine::of(WITH_MANIFESTS).with("files: broker.yaml", "files: base");
    fs::create_dir(engine.bench.path("base")).unwrap();
    engine.bench.write("base/kustomization.yaml", r#"{ "resources": ["broker.yaml"] }"#);
    engine.bench.write("base/broker.yaml", MANIFESTS);
    let finished = engine.run(&[]).judged();
    assert_delivers(&finished);
    assert!(engine.read("state/calls.txt").contains("kustomize base\n"));
    engine.assert_down("delete namespace");
}
