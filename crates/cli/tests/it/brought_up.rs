//! Platforms that commands of the user's bring up and take down: shell scripts around a broker in the background.

use crate::harness::{Bench, Finished, assert_end_within, count, kill};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command may take to be called. It is a matter of milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

const UP: &str = r#"
echo "up $PLIMSOLL_RUN $2" >> calls.txt
echo 'level=info {"not": "the object"}'
echo "a broker at port $1" >&2
PLIMSOLL target broker --port "$1" > broker.log 2>&1 &
echo $! > broker.pid
printf '{"address":"mqtt://127.0.0.1:%s",\n"components":[{"name":"broker","port":%s}],\n' "$1" "$1"
printf '"facts":{"size":"%s"}}\n' "$2"
"#;

const DOWN: &str = "
echo down >> calls.txt
cat > given.json
kill \"$(cat broker.pid)\" || true
";

/// An `up` that goes on until somebody ends it.
const SLOW: &str = "
echo up >> calls.txt
echo $$ > broker.pid
echo still creating >&2
exec sleep 600
";

fn script(bench: &Bench, name: &str, text: &str) {
    let text = text.replace("PLIMSOLL target", &format!("'{}' target", env!("CARGO_BIN_EXE_plimsoll")));
    let path = bench.write(name, &format!("#!/bin/sh{text}"));
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A folder with both scripts, and a scenario that calls them.
fn prepared(up: &str, down: &str) -> (Bench, String) {
    let bench = Bench::beside_others();
    script(&bench, "up.sh", up);
    script(&bench, "down.sh", down);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scenario = format!(
        "name: brought up
platform:
  profile: existing
  with: {{ size: small }}
  command: {{ up: [./up.sh, \"{port}\", \"{{size}}\"], down: [./down.sh] }}
population: {{ devices: 5, subscribers: 1 }}
load: {{ arrivals: constant, levels: [100], warm_up: 0s, hold: 3s, samples: 15, drain: 500ms }}
objectives: {{ publish_p99: null, publish_p50: \"< 10 s\" }}
"
    );
    (bench, scenario)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The scripts that were called so far.
fn calls(bench: &Bench) -> Vec<String> {
    let lines = read(&bench.path("calls.txt"));
    lines.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[track_caller]
fn await_calls(bench: &Bench, awaited: &[&str]) {
    let begin = Instant::now();
    while calls(bench) != awaited {
        assert!(begin.elapsed() < PATIENCE, "{:?} were called", calls(bench));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process that `up` has left running.
fn broker(bench: &Bench) -> u32 {
    let begin = Instant::now();
    loop {
        if let Ok(process) = read(&bench.path("broker.pid")).trim().parse() {
            return process;
        }
        assert!(begin.elapsed() < PATIENCE, "there is no process");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Both scripts were called once, and nothing runs any more.
#[track_caller]
fn assert_down(bench: &Bench) {
    await_calls(bench, &["up", "down"]);
    assert_end_within(PATIENCE, &[broker(bench)]);
}

fn notes(finished: &Finished) -> String {
    finished.summary["notes"].to_string()
}

#[test]
fn a_platform_is_brought_up_for_a_run_and_taken_down_after_it() {
    let (bench, scenario) = prepared(UP, DOWN);
    let finished = bench.run(&scenario).judged();
    let level = finished.level(0);
    assert_eq!((count(level, "due"), count(level, "sent"), count(level, "delivered")), (299, 299, 299));
    assert_eq!(calls(&bench), ["up", "down"]);
    let run = finished.summary["run"].as_str().unwrap();
    assert_eq!(read(&bench.path("calls.txt")), format!("up {run} small\ndown\n"));
    // `down` is given the object alone, and nobody waits for the broker's end but this test.
    let given: serde_json::Value = serde_json::from_str(&read(&bench.path("given.json"))).unwrap();
    assert_eq!(given["facts"]["size"], "small");
    assert_end_within(PATIENCE, &[broker(&bench)]);
    let facts = &finished.summary["provenance"]["platform"];
    assert_eq!(facts["size"], "small");
    assert_eq!(facts["address"], given["address"].as_str().unwrap().trim_start_matches("mqtt://"));
    let state = facts["state"].as_str().unwrap();
    assert!(
        state.starts_with("brought up for this run, by `./up.sh ") && state.ends_with(" small`"),
        "{state}"
    );
    let components = finished.summary["components"].as_array().unwrap();
    assert!(components.iter().any(|component| component["name"] == "broker"), "{components:?}");
}

#[test]
fn what_is_missing_is_seen_before_anything_is_called() {
    let (bench, scenario) = prepared(UP, DOWN);
    bench.write("scenario.yaml", &scenario);
    bench.call(["check", "scenario.yaml"]).exits(0).says("small`, within 10m, which prints an address");
    fs::set_permissions(bench.path("down.sh"), Permissions::from_mode(0o644)).unwrap();
    for command in ["check", "run"] {
        bench.call([command, "scenario.yaml"]).exits(104).says("platform.command.down: `./down.sh`");
    }
    fs::remove_file(bench.path("up.sh")).unwrap();
    bench.call(["check", "scenario.yaml"]).exits(104).says("platform.command.up:").says("No such file");
    assert!(calls(&bench).is_empty());
}

/// The scripts run where the scenario is, wherever Plimsoll runs.
#[test]
fn the_scripts_run_in_the_folder_of_the_scenario() {
    let (bench, scenario) =
        prepared("\nbasename \"$(pwd)\" > ../calls.txt\nexit 3\n", "\npwd >> ../calls.txt\n");
    fs::create_dir(bench.path("inner")).unwrap();
    for name in ["up.sh", "down.sh"] {
        fs::rename(bench.path(name), bench.path(&format!("inner/{name}"))).unwrap();
    }
    bench.write("inner/scenario.yaml", &scenario);
    bench.call(["run", "inner/scenario.yaml", "--no-report"]).exits(1).says("exit status: 3");
    let calls = read(&bench.path("calls.txt"));
    let (first, second) = calls.trim_end().split_once('\n').unwrap();
    assert_eq!((first, second.ends_with("/inner")), ("inner", true), "{calls}");
}

#[test]
fn what_fails_to_come_up_is_taken_down_and_says_why() {
    for (up, said) in [
        ("\nexit 3\n", "which brings the platform up, ended with exit status: 3"),
        ("\nexit 4\n", "the quota is used up"),
        ("\nkill -9 $$\n", "ended with signal: 9 (SIGKILL)"),
        ("\nexit 0\n", "it printed nothing on standard output"),
        ("\necho up\n", "it printed no object of JSON"),
        ("\necho '{\"address\":'\n", "is no object of JSON: EOF"),
        ("\necho '{\"adress\":\"\"}'\n", "unknown field `adress`"),
        ("\necho '{\"address\":\"http://127.0.0.1\"}'\n", "begins with `http://`, not with `mqtt://`"),
        (
            "\necho '{\"address\":\"mqtt://127.0.0.1\",\"components\":[{\"name\":\"a\"}]}'\n",
            "it is not clear",
        ),
    ] {
        let up = up.replacen(
            '\n',
            "\necho up >> calls.txt\nsleep 600 & echo $! > broker.pid\necho the quota is used up >&2\n",
            1,
        );
        let (bench, scenario) = prepared(&up, DOWN);
        let finished = bench.run(&scenario).exits(1).says(said);
        assert_eq!(finished.summary["verdict"], "failed");
        assert_eq!(calls(&bench), ["up", "down"], "{said}");
        assert_down(&bench);
    }
}

#[test]
fn a_command_that_takes_too_long_is_killed() {
    let (bench, scenario) = prepared(SLOW, DOWN);
    let scenario = scenario.replace("down: [./down.sh]", "down: [./down.sh], within: 1s");
    let finished = bench.run(&scenario).exits(1).says("took longer than 1 s and was killed");
    finished.says("`platform.command.within` gives it longer").says("still creating");
    assert_down(&bench);
}

#[test]
fn an_interrupt_of_the_bringing_up_takes_the_platform_down() {
    let (bench, scenario) = prepared(SLOW, DOWN);
    let run = bench.start(&mut bench.run_command(&scenario));
    await_calls(&bench, &["up"]);
    broker(&bench);
    run.signal(Signal::INT);
    let finished = run.finish().exits(105);
    assert_eq!((calls(&bench).len(), &finished.summary["verdict"]), (2, &"interrupted".into()));
    assert_down(&bench);
}

#[test]
fn an_interrupt_in_mid_level_keeps_what_was_measured_and_takes_the_platform_down() {
    let (bench, scenario) = prepared(UP, DOWN);
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    run.signal(Signal::TERM);
    let finished = run.finish().exits(105);
    assert!(count(finished.level(0), "delivered") > 0);
    assert_eq!(calls(&bench), ["up", "down"]);
    assert_down(&bench);
}

#[test]
fn a_kill_while_the_platform_comes_up_takes_it_down_all_the_same() {
    let (bench, scenario) = prepared(SLOW, DOWN);
    let run = bench.start(&mut bench.run_command(&scenario));
    await_calls(&bench, &["up"]);
    broker(&bench);
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None);
    assert_down(&bench);
}

#[test]
fn a_kill_in_mid_level_takes_the_platform_down_all_the_same() {
    let (bench, scenario) = prepared(UP, DOWN);
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None);
    assert_down(&bench);
    assert!(read(&bench.path("given.json")).starts_with('{'));
}

#[test]
fn a_platform_that_dies_is_taken_down() {
    let (bench, scenario) = prepared(UP, DOWN);
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    kill(broker(&bench));
    let finished = run.finish().exits(99);
    assert!(finished.said().contains("broker"), "{}", finished.said());
    assert_eq!(calls(&bench), ["up", "down"]);
}

#[test]
fn what_is_not_taken_down_is_named_and_the_figures_stay() {
    let (bench, scenario) = prepared(UP, &format!("{DOWN}echo the volume is in use >&2\nexit 4\n"));
    let finished = bench.run(&scenario).judged();
    let finished = finished.says("`./down.sh`, which takes the platform down, ended with exit status: 4");
    assert_eq!(count(finished.level(0), "delivered"), 299);
    let named = "(broker) may still run; it said: the volume is in use";
    assert!(notes(&finished).contains(named), "{}", notes(&finished));
}

#[test]
fn of_what_never_came_up_no_place_is_known() {
    let (bench, scenario) = prepared("\nexit 3\n", "\nexec sleep 600\n");
    let scenario = scenario.replace("down: [./down.sh]", "down: [./down.sh], down_within: 1s");
    let finished =
        bench.run(&scenario).exits(1).says("took longer than 1 s and was killed: parts of the platform");
    assert!(notes(&finished).contains("parts of the platform may still run"), "{}", notes(&finished));
}
