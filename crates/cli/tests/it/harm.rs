//! No run does harm: nothing of it outlives it, nobody else reads what it writes, and no file of the user's is lost.

use crate::harness::{Bench, RESULTS, STORE, Started, assert_end_within, children, started_by};
use rustix::process::{Signal, geteuid};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder for the temporary files of a run, through which the users of its components may pass.
pub fn temporary(bench: &Bench) -> PathBuf {
    let folder = bench.path("tmp");
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o711)).unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A run of six processes, two of which fork, one of which is another user's and hides its environment.
fn chain(bench: &Bench, temporary: &Path) -> Started {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/chain.yaml");
    let mut command =
        bench.plimsoll(["run", scenario, "--set", "load.levels=[50]", "--set", "load.hold=20s"]);
    command.args(RESULTS).env("TMPDIR", temporary);
    bench.start(&mut command)
}

/// What of a run still runs: all processes that work in its temporary folder, or speak of it.
fn left_in(temporary: &Path) -> Vec<String> {
    let place = temporary.to_str().unwrap();
    let speaks = |path: PathBuf| {
        let text = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(place)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| process.join("environ").exists())
        .filter(|process| {
            let is_there =
                fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(temporary));
            is_there || speaks(process.join("environ")) || speaks(process.join("cmdline"))
        })
        .map(|process| {
            format!("{}: {}", process.display(), fs::read_to_string(process.join("comm")).unwrap_or_default())
        })
        .collect()
}

/// Fails unless nothing of a run is there within three seconds: no process, no folder, and a store that can be read.
#[track_caller]
pub fn assert_nothing_left(bench: &Bench, temporary: &Path, when: &str) {
    let begin = Instant::now();
    loop {
        let processes = left_in(temporary);
        let files: Vec<_> = fs::read_dir(temporary).unwrap().flatten().map(|entry| entry.path()).collect();
        if processes.is_empty() && files.is_empty() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(3), "{when}: {processes:#?} {files:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.call(["runs", "--store", STORE]).exits(0);
}

/// Waits until the run's last component works.
fn await_components(temporary: &Path) {
    let begin = Instant::now();
    while !left_in(temporary).iter().any(|process| process.contains("tcpdump"))
        || !left_in(temporary).iter().any(|process| process.contains("python3"))
    {
        assert!(begin.elapsed() < Duration::from_secs(30), "{:#?}", left_in(temporary));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Kills a run after a while; a second signal follows where the first asks it to end.
fn kill(run: Started, after: Duration, twice: bool) {
    std::thread::sleep(after);
    match twice {
        true => {
            run.signal(Signal::INT);
            // Those that come together count as one.
            std::thread::sleep(Duration::from_millis(600));
            run.signal(Signal::INT);
        }
        false => run.signal(Signal::KILL),
    }
    run.finish();
}

#[test]
fn nothing_outlives_a_run_that_is_killed_and_nobody_else_reads_its_files() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    for twice in [false, true] {
        let run = chain(&bench, &folder);
        await_components(&folder);
        let mut files = vec![folder.clone()];
        while let Some(path) = files.pop() {
            let data = fs::symlink_metadata(&path).unwrap();
            // Others may pass through the folder that has another user's in it, and see nothing of what is there.
            let open = data.mode() & 0o077;
            assert!(
                path == folder || open == 0 || (data.is_dir() && open == 0o011),
                "{path:?} {:o}",
                data.mode()
            );
            if data.is_dir() {
                files.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
        }
        kill(run, Duration::ZERO, twice);
        assert_nothing_left(&bench, &folder, &format!("twice: {twice}"));
    }
}

/// A hundred kills of the chain: thirty in the first tenth of a second, the others until its load goes on.
#[test]
#[ignore = "acceptance: harm"]
fn a_hundred_kills_leave_nothing() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    for number in 0..100_u32 {
        let part = (f64::from(number) * 0.618_034).fract();
        let longest = if number < 30 { 0.1 } else { 6.0 };
        let after = Duration::from_secs_f64(longest * part);
        let twice = number % 4 == 3;
        let run = chain(&bench, &folder);
        kill(run, after, twice);
        assert_nothing_left(&bench, &folder, &format!("after {after:?}, twice: {twice}"));
    }
}

/// Its component says what it was given, and where it was started.
const CURIOUS: &str = "name: curious
title: a broker that looks around
description: planted
limits: { all: none }
components:
  - name: broker
    prepare:
      - [sh, -c, 'echo {port:mqtt} > made']
    command: [sh, -c, 'env > seen; pwd >> seen; cat made conf/deep/file.txt >> seen; exec {plimsoll} target broker --port {port:mqtt}']
    folder: work/inner
    files: { work/inner/conf/deep/file.txt: 'a file of port {port:mqtt}' }
    environment: { MODE: 'at {port:mqtt}', PASSED_ON: }
    ready_port: mqtt
    ready_within: 30s
    mqtt_port: mqtt
";

const SHORT: &str = "name: short
platform: ./curious.yaml
population: { devices: 2 }
load: { levels: [20], warm_up: 0s, hold: 2s, samples: 2, drain: 500ms }
objectives: { publish_p99: null }
";

/// What the component of that run has seen.
fn await_seen(run: &Started, temporary: &Path) -> String {
    let begin = Instant::now();
    loop {
        let platform = fs::read_dir(temporary).unwrap().flatten().next();
        let seen =
            platform.and_then(|platform| fs::read_to_string(platform.path().join("work/inner/seen")).ok());
        match seen.filter(|seen| seen.contains("a file of port")) {
            Some(seen) => return seen,
            None => assert!(begin.elapsed() < Duration::from_secs(20), "{}", run.said_so_far()),
        }
    }
}

#[test]
fn a_component_has_its_own_folder_files_and_environment_and_no_secret_of_ours() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    bench.write("curious.yaml", CURIOUS);
    let mut command = bench.run_command(SHORT);
    command
        .env("TMPDIR", &folder)
        .env("PASSED_ON", "this")
        .env("PLIMSOLL_PASSWORD", "secret")
        .env("MORE", "that");
    let run = bench.start(&mut command);
    let seen = await_seen(&run, &folder);
    run.finish().judged();
    let variables: Vec<&str> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The last four are the shell's own.
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "MODE",
        "PASSED_ON",
        "PLIMSOLL_PLATFORM_FOLDER",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    assert!(variables.iter().all(|name| known.contains(name)), "{seen}");
    assert!(
        seen.contains("PASSED_ON=this\n") && seen.contains("MODE=at ") && seen.contains("/work/inner\n"),
        "{seen}"
    );
    assert!(!seen.contains("secret"), "{seen}");
}

/// A run whose component is another user's where the tests run as root.
fn of_nobody(bench: &Bench, folder: &Path, environment: &str) -> Started {
    let others = CURIOUS.replace("    folder:", "    user: nobody\n    folder:");
    bench.write("curious.yaml", &others.replace("MODE: 'at {port:mqtt}'", environment));
    bench.start(bench.run_command(SHORT).env("TMPDIR", folder).env("HOME", "/ours"))
}

#[test]
fn a_component_of_another_user_has_that_users_home_unless_its_profile_says_otherwise() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let nobody = users.lines().find(|line| line.starts_with("nobody:")).unwrap();
    let home = nobody.split(':').nth(5).filter(|_| geteuid().is_root()).unwrap_or("/ours");
    for (environment, home) in [("MODE: x", home), ("HOME: /said", "/said"), ("HOME: ", "/ours")] {
        let run = of_nobody(&bench, &folder, environment);
        let seen = await_seen(&run, &folder);
        drop(run);
        assert_nothing_left(&bench, &folder, environment);
        assert!(seen.contains(&format!("HOME={home}\n")), "{environment}: {seen}");
    }
}

#[test]
fn a_component_of_another_user_dies_with_its_guard() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    let run = of_nobody(&bench, &folder, "MODE: x");
    await_seen(&run, &folder);
    let guards = started_by(run.id());
    let components = children(run.id());
    // Nobody but the kernel is there to end it.
    run.signal(Signal::STOP);
    guards.into_iter().for_each(crate::harness::kill);
    assert_eq!(components.len(), 1, "{components:?}");
    assert_end_within(Duration::from_secs(2), &components);
}

#[test]
fn a_preparation_that_fails_is_told_with_its_words() {
    let bench = Bench::beside_others();
    bench.write("curious.yaml", &CURIOUS.replace("echo {port:mqtt} > made", "echo no room here; exit 3"));
    let run = bench.run(SHORT).exits(1);
    run.says("broker").says("goes before its start").says("exit status: 3").says("no room here");
}

#[test]
fn a_run_store_is_whole_or_not_there_and_several_may_begin_at_once() {
    let bench = Bench::beside_others();
    bench.call(["runs", "--store", STORE]).exits(0).says("no runs yet");
    bench.call(["show", "--store", STORE]).exits(104).says("no runs yet");
    // What a run leaves that is killed while it makes its store.
    bench.write(STORE, "");
    bench.call(["runs", "--store", STORE]).exits(0).says("no runs yet");
    bench.write("curious.yaml", CURIOUS);
    bench.write("scenario.yaml", SHORT);
    let runs: Vec<Started> = (0..5)
        .map(|_| bench.start(&mut bench.plimsoll(["run", "scenario.yaml", "--no-report", "--store", STORE])))
        .collect();
    runs.into_iter().for_each(|run| drop(run.finish().judged()));
    let listed = bench.call(["runs", "--store", STORE, "--json"]).exits(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 5);
    for nowhere in [":memory:", ""] {
        let run = bench.call(["run", "scenario.yaml", "--no-report", "--store", nowhere]);
        run.exits(104);
    }
    assert!(!bench.path(":memory:").exists());
}

#[test]
fn runs_in_a_folder_that_nobody_may_write_are_shown_and_no_report_is_promised_there() {
    let bench = Bench::beside_others();
    bench.write("curious.yaml", CURIOUS);
    bench.run(SHORT).judged();
    // The bench's own folder takes what the commands say.
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o711)).unwrap();
    let closed = bench.path("closed");
    fs::create_dir(&closed).unwrap();
    for file in [STORE, "curious.yaml", "scenario.yaml"] {
        fs::rename(bench.path(file), closed.join(file)).unwrap();
    }
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    let call = |arguments: &[&str]| bench.start(bench.as_nobody(arguments).current_dir(&closed)).finish();
    let listed = call(&["runs", "--store", STORE]);
    let shown = call(&["show", "--store", STORE]);
    let report = call(&["report", "--store", STORE, "--output", "out.html"]);
    let run = call(&["run", "scenario.yaml", "--store", "/tmp/none/x.db"]);
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    listed.exits(0).says("short");
    shown.exits(0).says("short run");
    report.exits(1).says("cannot write out.html");
    // Before anything is started, and not after the last level.
    assert!(run.exits(1).says("cannot write scenario.report.html").took < Duration::from_secs(2));
}

#[test]
fn the_run_of_an_ordinary_user_leaves_nothing_either() {
    let bench = Bench::beside_others();
    let folder = temporary(&bench);
    let home = bench.path("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o777)).unwrap();
    for (name, text) in [("curious.yaml", CURIOUS), ("scenario.yaml", SHORT)] {
        fs::write(home.join(name), text).unwrap();
    }
    let arguments = ["run", "scenario.yaml", "--store", STORE];
    let start = || {
        let mut command = bench.as_nobody(&arguments);
        bench.start(command.current_dir(&home).env("TMPDIR", &folder))
    };
    for twice in [false, true] {
        let run = start();
        await_seen(&run, &folder);
        let open: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
        assert!(open.iter().all(|entry| entry.metadata().unwrap().mode() & 0o077 == 0), "{open:?}");
        kill(run, Duration::ZERO, twice);
        assert_nothing_left(&bench, &folder, &format!("twice: {twice}"));
    }
    start().finish().judged();
    assert_nothing_left(&bench, &folder, "to its end");
    let listed = bench.start(bench.as_nobody(&["runs", "--store", STORE]).current_dir(&home)).finish();
    assert_eq!(listed.exits(0).stdout.lines().count(), 4, "a head and three runs");
}

#[test]
fn what_a_user_has_is_not_overwritten_and_a_verdict_outlives_its_report() {
    let bench = Bench::beside_others();
    bench.write("curious.yaml", CURIOUS);
    bench.run(SHORT).judged();
    let scenario = bench.path("scenario.yaml");
    let before = (fs::read(bench.path(STORE)).unwrap(), fs::read(&scenario).unwrap());
    fs::copy(bench.path(STORE), bench.path("other.db")).unwrap();
    for (arguments, told) in [
        (vec!["compare", "last", "last", "--json", STORE], "are the same file"),
        (vec!["compare", "last", "last", "--html", "other.db"], "is a database"),
        (vec!["compare", "last", "last", "--json", "x", "--html", "./x"], "are the same file"),
        (vec!["report", "--output", STORE], "are the same file"),
        (vec!["report", "--output", "scenario.yaml"], "has the name of a scenario"),
        (vec!["run", "scenario.yaml", "--report", "other.db"], "is a database"),
    ] {
        let mut command = bench.plimsoll(&arguments);
        bench.start(command.args(["--store", STORE])).finish().exits(104).says(told);
    }
    assert!(before == (fs::read(bench.path(STORE)).unwrap(), fs::read(&scenario).unwrap()));
    // Of a device that is always full.
    let mut command = bench.plimsoll(["run", "scenario.yaml", "--store", STORE, "--report", "/dev/full"]);
    bench.start(&mut command).finish().unwritten().says("cannot write /dev/full");
}

#[test]
fn an_interrupt_is_heard_while_a_platform_does_not_answer() {
    let bench = Bench::beside_others();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let text = format!(
        "name: silent\nplatform: {{ profile: http, address: \"http://{address}\", mapping: notified }}\n\
         population: {{ devices: 1, subscribers: 1 }}\nload: {{ levels: [5], hold: 2s }}\n"
    );
    let run = bench.start(&mut bench.run_command(&text));
    // The request of the set-up has come, and nobody answers it.
    let _asked = silent.accept().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    run.signal(Signal::INT);
    run.finish().exits(105);
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
}

#[test]
fn a_gateway_listens_here_alone_unless_it_is_asked_to() {
    let bench = Bench::beside_others();
    let gateway = bench.start(&mut bench.plimsoll(["gateway", "--push", "http", "--loop", "epoll"]));
    let begin = Instant::now();
    while !gateway.said_so_far().contains("listening on") {
        assert!(begin.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gateway.said_so_far().contains("listening on 127.0.0.1:"), "{}", gateway.said_so_far());
    gateway.signal(Signal::TERM);
    gateway.finish().exits(0);
}

/// The command of a user that starts a platform anew, as a daemon.
#[test]
fn a_platform_that_a_reset_command_has_started_goes_on() {
    let bench = Bench::beside_others();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (program, number) = (env!("CARGO_BIN_EXE_plimsoll"), bench.path("daemon"));
    let command = format!(
        "setsid {program} target broker --port {port} > /dev/null 2>&1 & echo $! > {}",
        number.display()
    );
    let platform = format!(
        "platform: {{ profile: existing, address: \"mqtt://127.0.0.1:{port}\", between_runs: reset, \
         reset_command: [sh, -c, '{command}'] }}"
    );
    let run = bench.run(&SHORT.replace("platform: ./curious.yaml", &platform));
    let daemon: u32 = fs::read_to_string(number).unwrap().trim().parse().unwrap();
    let goes_on = fs::exists(format!("/proc/{daemon}/exe")).unwrap();
    crate::harness::kill(daemon);
    run.judged();
    assert!(goes_on);
}
