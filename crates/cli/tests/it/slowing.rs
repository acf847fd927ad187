//! Components that are slowed on order, by their guards, and processors that are used beside them.

use crate::harness::{ATTEMPTS, Bench, assert_end_within};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Dose, Means, Order, Perturbation};
use plimsoll_platform::{Death, Options, Platform};
use plimsoll_scenario::{Environment, SourceFile, load};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The shell works in processes that last for some milliseconds each.
const PROFILE: &str = r#"
name: slowed
title: a shell that works
description: A station, and a shell that forks
limits: { all: none }
components:
  - name: station
    command: ["{plimsoll}", target, station, --protocol, http, --port, "{port:http}", --work, wait]
    ready_port: http
    http_port: http
  - name: shell
    command: [sh, -c, "while :; do (i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done); done"]
device:
  speaks: http
  request: { path: /, body: "{message}", expect: [204] }
"#;

const SCENARIO: &str = "name: slowed
platform: { profile: slowed.yaml, quotas: { shell: 0.5 }, relays: { station: { delay: 1ms } } }
population: { devices: 1 }
load: { levels: [10] }
";

fn bring_up(scenario: &str) -> Platform {
    let source = SourceFile { name: "scenario.yaml".into(), text: scenario.into() };
    let environment = Environment { profile: &|_| Ok(PROFILE.into()), variable: &|_| None };
    let plan = load(&source, &[], &environment).unwrap_or_else(|error| panic!("{error:?}"));
    let program = env!("CARGO_BIN_EXE_plimsoll").into();
    let options =
        Options { program, processors: Vec::new(), logs: None, mqtt5: false, stop: Default::default() };
    Platform::bring_up(&plan.platform, &options).unwrap()
}

fn monotonic() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn order(components: &[&str], means: Means, share: f64, to: Nanos) -> Order {
    let components = components.iter().map(|&name| name.to_owned()).collect();
    let perturbation = Perturbation::new(components, means, share, Nanos::from_millis(20));
    Order { perturbation, from: Nanos::from_millis(100), to }
}

/// The next doses that are told, so many.
fn await_doses(platform: &mut Platform, epoch: i64, count: usize) -> Vec<Dose> {
    let (mut doses, begin) = (Vec::new(), Instant::now());
    while doses.len() < count {
        assert!(begin.elapsed() < Duration::from_secs(20), "{doses:?}");
        doses.extend(platform.take_doses(epoch));
        std::thread::sleep(Duration::from_millis(10));
    }
    doses
}

/// A field of `/proc/PID/stat` behind the name of the process, from its state on (proc_pid_stat(5)).
fn stat(process: i32, place: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(place).unwrap_or_default().to_owned()
}

fn is_stopped(process: i32) -> bool {
    stat(process, 0) == "T"
}

/// A shell that has just started a process goes on, and stops, when that process does (vfork(2)).
fn is_held(process: i32) -> bool {
    is_stopped(process) || stat(process, 0) == "D"
}

fn process_of(platform: &Platform, component: &str) -> i32 {
    platform.processes().into_iter().find(|(name, _)| name == component).unwrap().1
}

/// The quota of a component, in microseconds of each period.
fn quota(process: i32) -> String {
    let guard = stat(process, 1);
    let folders = ["cpu", "cpu,cpuacct", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_its = |name: &str| name.starts_with("plimsoll-") && name.ends_with(&format!(".{guard}"));
    let group =
        entries.map(|entry| entry.path()).find(|path| is_its(&path.file_name().unwrap().to_string_lossy()));
    let read = |name: &str| fs::read_to_string(group.as_ref().unwrap().join(name));
    let text = read("cpu.cfs_quota_us").or_else(|_| read("cpu.max")).unwrap();
    text.split_whitespace().next().unwrap().to_owned()
}

/// Waits until something is so.
#[track_caller]
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A guard of a command of this process, and the line to it.
fn guard(bench: &Bench, script: &str) -> (Child, BufReader<UnixStream>, i32) {
    let (mut line, other) = UnixStream::pair().unwrap();
    let mut command: Command = bench.plimsoll(["guard", "supervise", "--parent"]);
    command.arg(std::process::id().to_string()).stdin(OwnedFd::from(other)).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    drop(command);
    line.write_all(format!("3\0sh\0-c\0{script}\0").as_bytes()).unwrap();
    line.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut line = BufReader::new(line);
    let process = next_line(&mut line).strip_prefix("started ").unwrap().parse().unwrap();
    (child, line, process)
}

fn next_line(line: &mut BufReader<UnixStream>) -> String {
    let mut told = String::new();
    line.read_line(&mut told).unwrap();
    told.trim().to_owned()
}

/// A number that a script writes to a file.
fn await_number(path: &Path) -> i32 {
    await_that("a number", || fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn what_is_stopped_when_plimsoll_is_gone_ends_in_an_orderly_way() {
    let bench = Bench::beside_others();
    let script =
        "trap 'echo asked > asked; exit 0' TERM; sleep 60 & echo $! > child; while :; do sleep 0.01; done";
    let (mut child, mut line, process) = guard(&bench, script);
    let stray = await_number(&bench.path("child"));
    let (from, minute) = (monotonic(), 60_000_000_000);
    // Nonsense and pieces hurt nobody.
    write!(line.get_mut(), "nonsense\n\nstop 1 2\nstop {from} {} ", from + minute).unwrap();
    line.get_mut().write_all(format!("{minute} {minute}\n").as_bytes()).unwrap();
    await_that("stopped", || is_held(process) && is_stopped(stray));
    // As the kernel does when Plimsoll is killed.
    drop(line);
    assert_end_within(Duration::from_secs(10), &[process as u32, stray as u32]);
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(bench.path("asked")).unwrap(), "asked\n");
}

#[test]
fn a_component_that_dies_in_a_stop_takes_all_with_it_and_its_dose_is_told() {
    let bench = Bench::beside_others();
    let (mut child, mut line, process) = guard(&bench, "sleep 60 & echo $! > child; sleep 60");
    let stray = await_number(&bench.path("child"));
    let (from, minute) = (monotonic(), 60_000_000_000);
    writeln!(line.get_mut(), "stop {from} {} {minute} {minute}", from + minute).unwrap();
    await_that("stopped", || is_held(process) && is_stopped(stray));
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    assert!(next_line(&mut line).starts_with("ended "));
    let told = next_line(&mut line);
    let dose: f64 = told.strip_prefix(&format!("dose {from} ")).unwrap().parse().unwrap();
    assert!((1e-9..0.5).contains(&dose), "{told}");
    assert_end_within(Duration::from_secs(10), &[process as u32, stray as u32]);
    child.wait().unwrap();
}

#[test]
fn whom_somebody_else_lets_go_on_in_a_stop_was_not_slowed() {
    let bench = Bench::beside_others();
    let (mut child, mut line, process) = guard(&bench, "exec sleep 60");
    let (from, milli) = (monotonic(), 1_000_000);
    writeln!(line.get_mut(), "stop {from} {} {} {}", from + 2000 * milli, 1500 * milli, 2000 * milli)
        .unwrap();
    await_that("stopped", || is_stopped(process));
    kill_process(Pid::from_raw(process).unwrap(), Signal::CONT).unwrap();
    assert_eq!(next_line(&mut line), format!("dose {from} 0"));
    drop(line);
    assert_end_within(Duration::from_secs(10), &[process as u32]);
    child.wait().unwrap();
}

#[test]
fn whom_somebody_else_has_stopped_stays_stopped() {
    let bench = Bench::beside_others();
    let (mut child, mut line, process) = guard(&bench, "sleep 60 & echo $! > child; sleep 60");
    let stopped = await_number(&bench.path("child"));
    kill_process(Pid::from_raw(stopped).unwrap(), Signal::STOP).unwrap();
    await_that("stopped", || is_stopped(stopped));
    let (from, milli) = (monotonic(), 1_000_000);
    writeln!(line.get_mut(), "stop {from} {} {} {}", from + 200 * milli, 10 * milli, 20 * milli).unwrap();
    assert!(next_line(&mut line).starts_with(&format!("dose {from} 0.")));
    await_that("continued", || !is_held(process));
    assert!(is_stopped(stopped));
    drop(line);
    assert_end_within(Duration::from_secs(10), &[process as u32, stopped as u32]);
    child.wait().unwrap();
}

#[test]
fn a_quota_is_cut_for_a_time_and_put_back() {
    let _bench = Bench::beside_others();
    let mut platform = bring_up(SCENARIO);
    let slowable = platform.slowable();
    let known: Vec<_> =
        slowable.iter().map(|own| (own.component.as_str(), own.quota, own.has_relay)).collect();
    assert_eq!(known, [("station", None, true), ("shell", Some(0.5), false)]);
    let (shell, epoch) = (process_of(&platform, "shell"), monotonic());
    let unknown = order(&["shell", "shall"], Means::Stop, 0.5, Nanos::from_secs(1));
    let refused = platform.slow(&unknown, epoch).unwrap_err();
    assert!(refused.to_string().contains("no component shall"), "{refused}");
    platform.slow(&order(&["station", "shell"], Means::Quota, 0.6, Nanos::from_secs(1)), epoch).unwrap();
    await_that("cut", || quota(shell) == "20000");
    await_that("put back", || quota(shell) == "50000");
    let doses = await_doses(&mut platform, epoch, 2);
    assert!(doses.iter().all(|dose| dose.from == Nanos::from_millis(100)), "{doses:?}");
    assert_eq!((doses[0].component.as_str(), doses[0].share), ("station", 0.0), "it has no quota");
    assert!(doses[1].component == "shell" && (0.1..0.7).contains(&doses[1].share), "{doses:?}");
    assert!(platform.take_doses(epoch).is_empty());
    // One that was killed is slowed no more, and its doses are told.
    let epoch = monotonic();
    platform.slow(&order(&["shell"], Means::Stop, 0.5, Nanos::from_secs(60)), epoch).unwrap();
    platform.kill("shell");
    platform.slow(&order(&["shell"], Means::Stop, 0.5, Nanos::from_secs(60)), epoch).unwrap();
    let doses = await_doses(&mut platform, epoch, 1);
    assert!(doses[0].component == "shell" && doses[0].share < 0.5, "{doses:?}");
    // One that is taken down while it is stopped ends by itself.
    let mut long = order(&["station"], Means::Stop, 1.0, Nanos::from_secs(60));
    long.perturbation.stop = Nanos::from_secs(60);
    platform.slow(&long, epoch).unwrap();
    let station = process_of(&platform, "station");
    await_that("stopped", || is_stopped(station));
    let begin = Instant::now();
    drop(platform);
    assert!(begin.elapsed() < Duration::from_millis(2500), "it was killed after {:?}", begin.elapsed());
}

/// How long a request takes at an address.
fn request(address: SocketAddr) -> Duration {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "POST / HTTP/1.1\r\nHost: station\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204");
    begin.elapsed()
}

#[test]
fn what_passes_a_relay_is_delayed_for_a_time_and_its_component_is_not_slowed() {
    const EACH_WAY: Duration = Duration::from_millis(100);
    let _bench = Bench::beside_others();
    let mut platform = bring_up(SCENARIO);
    let (address, epoch) = (platform.address(), monotonic());
    let mut delay = order(&["station"], Means::Delay, 1.0, Nanos::from_secs(3));
    delay.perturbation.stop = Nanos::from_millis(100);
    platform.slow(&delay, epoch).unwrap();
    let refused =
        platform.slow(&order(&["shell"], Means::Delay, 1.0, Nanos::from_secs(1)), epoch).unwrap_err();
    assert!(refused.to_string().contains("no relay before shell"), "{refused}");
    std::thread::sleep(Duration::from_millis(200));
    let during = request(address);
    assert!(during >= 2 * EACH_WAY, "{during:?}");
    let doses = await_doses(&mut platform, epoch, 1);
    assert!(doses[0].component == "station" && doses[0].share >= 1.0, "{doses:?}");
    let after = (0..ATTEMPTS).map(|_| request(address)).min().unwrap();
    assert!(after < 2 * EACH_WAY, "{after:?}");
}

/// The next death that is told.
fn await_death(platform: &mut Platform) -> Death {
    let begin = Instant::now();
    loop {
        if let Some(death) = platform.take_death() {
            return death;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "no death");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn of_two_that_are_killed_together_both_are_told() {
    let mut platform = bring_up(&SCENARIO.replace(", quotas: { shell: 0.5 }", ""));
    for name in ["station", "shell"] {
        kill_process(Pid::from_raw(process_of(&platform, name)).unwrap(), Signal::KILL).unwrap();
    }
    let death = await_death(&mut platform);
    let other = if death.component == "station" { "shell" } else { "station" };
    assert!(death.status.starts_with("signal: 9"), "{death:?}");
    assert!(
        death.status.ends_with(&format!("; a signal ended {other} nearly at the same time")),
        "{death:?}"
    );
}

#[test]
fn a_killed_guard_is_told_as_such_and_takes_its_component_with_it() {
    let mut platform = bring_up(&SCENARIO.replace(", quotas: { shell: 0.5 }", ""));
    let process = process_of(&platform, "station");
    let guard: i32 = stat(process, 1).parse().unwrap();
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    let death = await_death(&mut platform);
    assert_eq!(death.component, "station");
    assert!(death.status.starts_with("its guard ended: signal: 9"), "{death:?}");
    assert_end_within(Duration::from_secs(10), &[process as u32]);
}

mod alone {
    use super::*;

    /// How long a process and those of its children that have ended have used processors, in seconds.
    fn processor_time(process: i32) -> f64 {
        let ticks = (11..15).map(|place| stat(process, place).parse::<f64>().unwrap());
        ticks.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
    }

    #[test]
    fn what_is_stopped_half_of_the_time_works_half_of_the_time() {
        let _bench = Bench::new();
        let mut platform = bring_up(&SCENARIO.replace("quotas: { shell: 0.5 }", "quotas: {}"));
        let (shell, epoch) = (process_of(&platform, "shell"), monotonic());
        platform.slow(&order(&["shell"], Means::Stop, 0.5, Nanos::from_millis(2100)), epoch).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let before = processor_time(shell);
        let doses = await_doses(&mut platform, epoch, 1);
        let used = processor_time(shell) - before;
        println!("stopped: {used} s of processor time, {doses:?}");
        assert!((0.4..0.55).contains(&doses[0].share), "{doses:?}");
        assert!((0.2..1.3).contains(&used), "{used} s");
    }

    /// Each writing of a quota would grant it anew: ten of them in ten periods would double it.
    #[test]
    fn a_quota_that_stays_cut_from_one_order_to_the_next_is_not_granted_anew() {
        let _bench = Bench::new();
        let mut platform = bring_up(SCENARIO);
        let (shell, epoch) = (process_of(&platform, "shell"), monotonic());
        for place in 1..=10 {
            let mut part = order(&["shell"], Means::Quota, 0.6, Nanos::from_millis(100 * (place + 1)));
            part.from = Nanos::from_millis(100 * place);
            platform.slow(&part, epoch).unwrap();
        }
        await_that("cut", || quota(shell) == "20000");
        let before = processor_time(shell);
        let doses = await_doses(&mut platform, epoch, 10);
        let used = processor_time(shell) - before;
        println!("cut: {used} s of processor time, {doses:?}");
        // A boundary that is reached late gives one dose what the next one lacks.
        let mean = doses.iter().map(|dose| dose.share).sum::<f64>() / 10.0;
        assert!((0.5..0.61).contains(&mean), "{doses:?}");
        assert!(used < 0.3, "{used} s");
        await_that("put back", || quota(shell) == "50000");
    }

    #[test]
    fn processors_are_used_beside_the_platform() {
        let _bench = Bench::new();
        let mut platform = bring_up(SCENARIO);
        let mut attempt = || {
            let epoch = monotonic();
            platform.slow(&order(&[], Means::Occupy, 0.4, Nanos::from_millis(600)), epoch).unwrap();
            let doses = await_doses(&mut platform, epoch, 1);
            println!("occupied: {doses:?}");
            assert_eq!((doses[0].component.as_str(), doses[0].from), ("", Nanos::from_millis(100)));
            assert!(doses[0].share < 0.41, "{doses:?}");
            doses[0].share
        };
        // Processes of another session than this one go as far before as it does (`sched_autogroup_enabled`).
        assert!((0..ATTEMPTS).any(|_| attempt() > 0.12));
    }
}
