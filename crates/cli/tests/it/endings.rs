//! Runs that are ended from outside: what was measured is kept, and nothing is left behind.

use crate::harness::{Bench, STORE, Started, assert_end_within, children, count, kill, on_a_calm_host};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The second level is the one that is disturbed; it is long, so that there is time to do so.
const SCENARIO: &str = "name: disturbed
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100, 200, 300], warm_up: 0s, hold: 3s, samples: 15, drain: 500ms }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

/// A run whose second level goes on, and the processes that it has started.
fn in_second_level(bench: &Bench) -> (Started, Vec<u32>) {
    let run = bench.start(&mut bench.run_command(SCENARIO));
    bench.await_level(1);
    let started = children(run.id());
    assert_eq!(started.len(), 1, "the broker is the only child");
    (run, started)
}

#[test]
fn an_interrupt_keeps_the_levels_and_leaves_no_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let bench = Bench::beside_others();
        let (run, started) = in_second_level(&bench);
        run.signal(signal);
        let run = run.finish().exits(105);
        assert_end_within(Duration::ZERO, &started);
        assert_eq!(run.summary["verdict"], "interrupted");
        assert_eq!(run.levels().len(), 2);
        // Whatever a busy machine made of its times.
        assert_ne!(run.level(0)["verdict"], "unfinished");
        assert_eq!(count(run.level(0), "delivered"), 299);
        assert_eq!(run.level(1)["verdict"], "unfinished", "a level cut short is not judged");
        assert!(count(run.level(1), "delivered") > 0);
        let shown = bench.call(["show", "--store", STORE]).exits(0);
        shown.says("INTERRUPTED").says("100/s").says("200/s");
    }
}

/// It leaves its parent, its process group and its session, as daemons do.
#[test]
fn what_a_component_sends_to_the_background_ends_with_the_run() {
    let bench = Bench::beside_others();
    let number = bench.path("stray");
    let profile = format!(
        "name: daemon\ntitle: a broker with a stray\ndescription: planted\nlimits: {{ all: none }}\ncomponents:\n  - name: broker\n    \
         command: [sh, -c, 'setsid sleep 60 & echo $! > {}; exec {{plimsoll}} target broker --port {{port:mqtt}}']\n    \
         ready_port: mqtt\n    mqtt_port: mqtt\n",
        number.display()
    );
    bench.write("daemon.yaml", &profile);
    let text =
        SCENARIO.replace("platform: embedded", "platform: ./daemon.yaml").replace("[100, 200, 300]", "[100]");
    bench.run(&text).judged();
    let stray: u32 = std::fs::read_to_string(number).unwrap().trim().parse().unwrap();
    assert_end_within(Duration::ZERO, &[stray]);
}

#[test]
fn what_components_say_is_kept_where_the_scenario_wants_it_also_if_the_run_is_killed() {
    let bench = Bench::beside_others();
    let profile = "name: words\ntitle: a broker that speaks\ndescription: planted\nlimits: { all: none }\ncomponents:\n  - name: broker\n    \
         command: [sh, -c, 'echo first words; exec {plimsoll} target broker --port {port:mqtt}']\n    \
         ready_port: mqtt\n    mqtt_port: mqtt\n";
    bench.write("words.yaml", profile);
    let text = SCENARIO
        .replace("platform: embedded", "platform: { profile: ./words.yaml, logs: kept/logs }")
        .replace("[100, 200, 300]", "[100]");
    let logs = || -> Vec<PathBuf> {
        let runs = std::fs::read_dir(bench.path("kept/logs")).unwrap();
        runs.map(|run| run.unwrap().path().join("broker.log")).collect()
    };
    bench.run(&text).judged();
    let run = bench.start(&mut bench.run_command(&text));
    let begin = Instant::now();
    while logs().len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the second run did not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.await_level(0);
    run.signal(Signal::KILL);
    run.finish();
    for log in logs() {
        assert!(std::fs::read_to_string(&log).unwrap().contains("first words"), "{}", log.display());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&log), mode(log.parent().unwrap())), (0o600, 0o700));
    }
}

#[test]
fn a_run_that_goes_on_is_shown_as_such() {
    let bench = Bench::beside_others();
    let (_run, _) = in_second_level(&bench);
    bench.call(["show", "--store", STORE]).exits(0).says("RUNNING").says("still goes on").says("100/s");
    bench.call(["runs", "--store", STORE]).exits(0).says("running");
}

#[test]
fn a_store_that_is_moved_away_does_not_lose_the_report() {
    let bench = Bench::beside_others();
    let (run, _) = in_second_level(&bench);
    std::fs::rename(bench.path(STORE), bench.path("moved.db")).unwrap();
    let run = run.finish();
    // SQLite may refuse to write to a file that was moved; what was measured before is reported all the same.
    assert_ne!(run.level(0)["verdict"], "unfinished", "{}", run.stdout);
    assert_eq!(count(run.level(0), "delivered"), 299);
}

/// A service manager sends two signals, and a terminal that is closed does so: both ask for the same.
#[test]
fn signals_that_come_together_are_one_interrupt() {
    let bench = Bench::beside_others();
    let (run, started) = in_second_level(&bench);
    run.signal(Signal::TERM);
    run.signal(Signal::HUP);
    let run = run.finish().exits(105).says("stopped by the user");
    assert_eq!(count(run.level(0), "delivered"), 299);
    assert_end_within(Duration::from_secs(2), &started);
}

#[test]
fn a_kill_loses_the_current_sample_at_most_and_takes_the_broker_along() {
    let bench = Bench::beside_others();
    let (run, started) = in_second_level(&bench);
    run.signal(Signal::KILL);
    let run = run.finish();
    assert_eq!(run.code, None, "ended by the signal");
    assert_end_within(Duration::from_secs(2), &started);
    let shown = bench.call(["show", "--store", STORE]).exits(0);
    let shown = shown.says("INTERRUPTED").says("it was killed");
    let shown = shown.says("100/s").says("200/s").says("unfinished");
    assert!(!shown.said().contains("300/s"), "the third level was not begun");
    let json = bench.call(["show", "--store", STORE, "--json"]).exits(0);
    let summary: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(count(&summary["levels"][0], "delivered"), 299);
    assert_eq!(
        (&summary["levels"][0]["finished"], &summary["levels"][1]["finished"]),
        (&true.into(), &false.into())
    );
    bench.call(["runs", "--store", STORE]).exits(0).says("interrupted").says("disturbed");
}

#[test]
fn what_a_killed_run_had_measured_is_recovered() {
    let bench = Bench::beside_others();
    let (run, started) = in_second_level(&bench);
    let recover = || bench.call(["runs", "--store", STORE, "--recover"]).exits(0);
    recover().says("no run was cut short");
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None, "ended by the signal");
    assert_end_within(Duration::from_secs(2), &started);
    recover().says("1 of 2 that were begun").says("--resume");
    let shown = bench.call(["show", "--store", STORE]).exits(0);
    shown.says("INTERRUPTED").says("this is what it had measured").says("unfinished");
    recover().says("no run was cut short");
}

/// A reboot ends a run as SIGKILL does.
#[test]
fn a_run_that_was_killed_is_resumed_with_its_interrupted_level() {
    let bench = Bench::beside_others();
    let resume = |scenario: &str| {
        let mut command = bench.run_command(scenario);
        bench.start(command.args(["--resume", "last"])).finish()
    };
    let (run, started) = in_second_level(&bench);
    resume(SCENARIO).exits(104).says("it still goes on");
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None, "ended by the signal");
    assert_end_within(Duration::from_secs(2), &started);
    let changed = resume(&SCENARIO.replace("hold: 3s", "hold: 4s")).exits(104);
    changed.says("the scenario is another one").says("hold: 3s").says("hold: 4s");
    let resumed = resume(SCENARIO).judged();
    let offered: Vec<_> = resumed.levels().iter().map(|level| level["offered"].as_f64().unwrap()).collect();
    assert_eq!(offered, [100.0, 200.0, 200.0, 300.0]);
    let interrupted = resumed.level(1);
    assert_eq!(
        (&interrupted["verdict"], &interrupted["validity"]),
        (&"invalid".into(), &"interrupted".into())
    );
    assert!(interrupted["blame"].is_null(), "{interrupted:#}");
    for (level, due) in [(0, 299), (2, 599), (3, 899)] {
        let level = resumed.level(level);
        assert_eq!((count(level, "due"), count(level, "delivered"), count(level, "foreign")), (due, due, 0));
        assert_ne!(level["verdict"], "unfinished");
    }
    let provenance = &resumed.summary["provenance"]["resumed"];
    assert_eq!((&provenance[0]["kept"], &provenance[0]["interrupted"]), (&1.into(), &1.into()));
    assert!(provenance[0]["boots"][0].is_string(), "{provenance:#}");
    assert_eq!(provenance[0]["boots"][0], provenance[0]["boots"][1], "nobody has started the host again");
    resumed.says("1 level is kept").says("within its level 2").says("platform was started again");
    // The interrupted run stays as it was, and the other one has nothing left.
    bench.call(["runs", "--store", STORE]).exits(0).says("interrupted");
    resume(SCENARIO).exits(104).says("it came to its end");
}

/// The user may go on later, too.
#[test]
fn a_run_that_the_user_has_stopped_is_resumed_again_and_again() {
    let bench = Bench::beside_others();
    let resume = || {
        let mut command = bench.run_command(SCENARIO);
        bench.start(command.args(["--resume", "last"]))
    };
    let (run, _) = in_second_level(&bench);
    run.signal(Signal::INT);
    run.finish().exits(105);
    let again = resume();
    bench.await_level(2);
    again.signal(Signal::INT);
    again.finish().exits(105);
    let resumed = resume().finish().judged();
    let verdicts: Vec<_> = resumed.levels().iter().map(|level| level["validity"].as_str().unwrap()).collect();
    assert_eq!((verdicts.len(), verdicts[1], verdicts[2]), (5, "interrupted", "interrupted"));
    assert_eq!(count(resumed.level(3), "delivered"), 599);
    assert_eq!(resumed.summary["provenance"]["resumed"].as_array().unwrap().len(), 2);
}

/// What the devices send is a part of what is measured.
#[test]
fn a_run_is_not_resumed_with_another_feed() {
    let bench = Bench::beside_others();
    let feed = "message: { template: \"{marker} {feed:text}\", marker: ascii, feed: { file: rows.csv } }\n";
    let scenario = format!("{SCENARIO}{feed}");
    bench.write("rows.csv", "id,text\n1,one\n2,two\n");
    let (run, _) = (bench.start(&mut bench.run_command(&scenario)), bench.await_level(1));
    run.signal(Signal::KILL);
    run.finish();
    bench.write("rows.csv", "id,text\n1,one\n2,three\n");
    let resumed = bench.start(bench.run_command(&scenario).args(["--resume", "last"])).finish().exits(104);
    resumed.says("the file `rows.csv` is another one: it was 20 bytes").says("and is 22 bytes");
}

/// Kills in a series that is enough to meet each phase of a run of about six seconds several times.
const KILLS: u64 = 40;

/// Moments from 0 to the length of the run, spread evenly and in an order that repeats nothing (multiples of the golden
/// ratio).
fn moments() -> impl Iterator<Item = Duration> {
    (1..=KILLS).map(|kill| Duration::from_secs(6).mul_f64((kill as f64 * 0.618_034).fract()))
}

/// Levels of one second: a kill falls into bringing up, a warm-up, a hold, a drain or between levels.
fn short_levels() -> String {
    SCENARIO.replace("warm_up: 0s, hold: 3s", "warm_up: 200ms, hold: 1s")
}

#[test]
#[ignore = "acceptance: kills"]
fn a_run_that_is_killed_at_any_time_leaves_no_process_and_a_store_that_is_read() {
    for moment in moments() {
        let bench = Bench::beside_others();
        let run = bench.start(&mut bench.run_command(&short_levels()));
        std::thread::sleep(moment);
        let started = children(run.id());
        run.signal(Signal::KILL);
        let ended = run.finish().code.is_none();
        assert_end_within(Duration::from_secs(2), &started);
        let shown = bench.call(["show", "--store", STORE, "--json"]);
        // Killed at its very beginning it has not entered itself.
        if shown.code == Some(0) {
            let summary: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
            assert!(
                !ended || summary["verdict"] == "interrupted",
                "after {moment:?}: {}",
                summary["verdict"]
            );
            for level in
                summary["levels"].as_array().unwrap().iter().filter(|level| level["finished"] == true)
            {
                assert_eq!(
                    count(level, "sent") + count(level, "unsent"),
                    count(level, "due"),
                    "after {moment:?}"
                );
            }
        } else {
            assert!(moment < Duration::from_secs(1), "after {moment:?}: {shown:?}");
        }
    }
}

#[test]
#[ignore = "acceptance: kills"]
fn a_broker_that_is_killed_at_any_time_is_never_met() {
    let mut died = 0;
    for moment in moments() {
        let bench = Bench::beside_others();
        let run = bench.start(&mut bench.run_command(&short_levels()));
        std::thread::sleep(moment);
        let started = children(run.id());
        started.iter().for_each(|&broker| kill(broker));
        let finished = run.finish();
        if started.is_empty() {
            // Before it was started, or after the last level: nothing was planted.
            continue;
        }
        died += 1;
        // One that dies before the first level fails the run, one that is taken down anyway harms nothing.
        let over = finished.levels().len() == 3 && finished.level(2)["finished"] == true;
        let expected = if over { vec![0, 99] } else { vec![1, 99] };
        assert!(expected.contains(&finished.code.unwrap_or(-1)), "after {moment:?}: {finished:?}");
    }
    assert!(died >= KILLS / 2, "only {died} of {KILLS} kills hit a broker");
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn a_component_that_is_killed_in_mid_level_is_named_and_the_level_is_missed() {
        let run = on_a_calm_host(|| {
            let bench = Bench::new();
            let (run, started) = in_second_level(&bench);
            for broker in started {
                kill(broker);
            }
            run.finish()
        });
        // The first level was met, but a platform that dies makes the run missed.
        let run = run.exits(99).says("broker died at 200/s");
        assert_eq!(run.levels().len(), 2, "the third level is not run");
        let level = run.level(1);
        assert_eq!(run.summary["verdict"], "missed");
        assert_eq!(level["verdict"], "missed", "{level:#}");
        assert_eq!(count(level, "due"), 599);
        assert_eq!(count(level, "sent") + count(level, "unsent"), 599);
        assert_eq!(run.summary["load_line"]["rate"], 100.0);
    }
}
