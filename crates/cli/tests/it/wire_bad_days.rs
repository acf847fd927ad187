//! Bad days of captures: outputs that cannot be written, tools that are killed, files that are taken, damaged or strange.

use crate::harness::{Bench, children, count, kill};
use serde_json::Value;
use std::fs;
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

const CHAIN: &str = "name: chain\nplatform: chain\npopulation: { devices: 10, subscribers: 1 }\n\
    message: { size: 60, marker: ascii }\n\
    load: { levels: [50], warm_up: 500ms, hold: 3s, samples: 3, drain: 2s }\n\
    objectives: { publish_p99: null, delivered: null, achieved: null }\n\
    record: { capture: {} }\n";

fn plain(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures");
    zstd::decode_all(fs::read(format!("{folder}/{name}.zst")).unwrap().as_slice()).unwrap()
}

/// All descendants of a process that have that name.
fn descendants(of: u32, name: &str) -> Vec<u32> {
    let below = children(of).into_iter().flat_map(|child| {
        let is_it = fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|found| found.trim() == name);
        descendants(child, name).into_iter().chain(is_it.then_some(child))
    });
    below.collect()
}

/// Waits for a descendant with that name.
fn descendant(of: u32, name: &str) -> u32 {
    let begin = Instant::now();
    loop {
        if let Some(found) = descendants(of, name).first() {
            return *found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "no {name} below {of}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_standard_output_does_not_take_is_told_and_a_reader_who_goes_away_is_no_error() {
    let bench = Bench::beside_others();
    fs::write(bench.path("c.pcap"), plain("coap_udp.pcap")).unwrap();
    let commands: [&[&str]; 4] =
        [&["dissect", "c.pcap", "-q", "--summary-json", "s.json"], &["platforms"], &["doctor"], &["--help"]];
    for arguments in commands {
        let command = bench.plimsoll(arguments);
        let full = bench.start(&mut bench.behind_shell("exec \"$@\" > /dev/full", &command)).finish();
        full.exits(1).says("cannot write standard output: No space left on device");
    }
    assert!(bench.path("s.json").exists(), "the files are written all the same");
    for arguments in commands {
        let (reader, writer): (PipeReader, PipeWriter) = pipe().unwrap();
        drop(reader);
        let mut command = bench.plimsoll(arguments);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
    }
}

#[test]
fn odd_values_are_usage_errors_that_say_what_is_right() {
    let bench = Bench::beside_others();
    let odd: [(&[&str], &str); 15] = [
        (&["dissect", "c.pcap", "--name", "a=:1", "--name", "b=:1"], ":1 has a name already"),
        (&["dissect", "c.pcap", "--name", "a=:0"], "NAME=HOST:PORT"),
        (&["dissect", "c.pcap", "--name", "=:1"], "NAME=HOST:PORT"),
        (&["dissect", "c.pcap", "--name", "a\u{1b}[31m=:1"], "NAME=HOST:PORT"),
        (&["dissect", "c.pcap", "--export", "-"], "name a file"),
        (&["dissect", "c.pcap", "--summary-json", "-"], "name a file"),
        (&["dissect", "c.pcap", "--conversations", "0"], "16..="),
        (&["dissect", "c.pcap", "--threads", "0"], "1..="),
        (&["capture", "--out", "-"], "name a file"),
        (&["capture", "--limit", "0"], "4..="),
        (&["capture", "--pid", "0"], "1..="),
        (&["capture", "--seconds", "1e30"], "up to 31536000"),
        (&["capture", "--seconds", "nan"], "up to 31536000"),
        (&["capture", "--seconds=-1"], "up to 31536000"),
        (&["capture", "--seconds", "0"], "up to 31536000"),
    ];
    for (arguments, told) in odd {
        let finished = bench.call(arguments).exits(104).says(told);
        assert!(!finished.said().contains('\u{1b}'), "{arguments:?}");
    }
    assert_eq!(bench.files(), Vec::<String>::new());
    let scenario = |with: &str| CHAIN.replace("capture: {}", with);
    for (with, told) in [
        ("capture: { limit: 0MiB }", "at least 4MiB"),
        ("capture: { names: { \"a\\e[31m\": \":1\" } }", "one line"),
        ("capture: { names: { a: \":0\" } }", "no place on the wire"),
    ] {
        bench.write("s.yaml", &scenario(with));
        bench.call(["check", "s.yaml"]).exits(104).says(told);
    }
}

#[test]
fn a_capture_is_not_written_over_unasked_and_two_never_share_a_file() {
    let bench = Bench::beside_others();
    let capture = |more: &[&str]| {
        let arguments =
            ["capture", "--interface", "lo", "--filter", "port 9", "--seconds", "0.2", "--out", "c.pcap"];
        bench.call(arguments.iter().chain(more))
    };
    let first = bench.start(&mut bench.plimsoll([
        "capture",
        "--interface",
        "lo",
        "--filter",
        "port 9",
        "--seconds",
        "600",
        "--out",
        "c.pcap",
    ]));
    let tool = descendant(first.id(), "tcpdump");
    for more in [&[][..], &["--force"]] {
        capture(more).exits(104).says("another capture is being written there");
    }
    first.await_capture();
    first.signal(rustix::process::Signal::INT);
    first.finish().exits(0).says("c.pcap: 0 packets");
    assert!(!fs::exists(format!("/proc/{tool}/exe")).unwrap_or(false), "the tool has ended");
    capture(&[]).exits(104).says("c.pcap exists").says("--force");
    capture(&["--force"]).exits(0);
    fs::remove_file(bench.path("c.pcap")).unwrap();
    capture(&["--limit", "4"]).exits(0).says("c.pcap0: 0 packets");
    capture(&["--limit", "4"]).exits(104).says("c.pcap0 exists");
    assert_eq!(bench.files(), ["c.pcap0"]);
}

#[test]
fn a_tool_that_is_killed_leaves_a_capture_that_is_said_not_to_be_whole() {
    let bench = Bench::beside_others();
    let capturing = bench.start(&mut bench.plimsoll(["capture", "--interface", "lo", "--filter", "port 9"]));
    capturing.await_capture();
    kill(descendant(capturing.id(), "tcpdump"));
    capturing.finish().exits(1).says("the capture is not whole").says("SIGKILL");
}

#[test]
fn damaged_captures_are_reported_as_far_as_they_go() {
    let bench = Bench::beside_others();
    let bytes = plain("chain.pcap");
    let zstd = zstd::encode_all(bytes.as_slice(), 1).unwrap();
    fs::write(bench.path("cut.zst"), &zstd[..zstd.len() / 2]).unwrap();
    let cut = bench.call(["dissect", "cut.zst", "--summary-json", "s.json"]).exits(1);
    cut.says("requests answered").says("cut.zst: cannot be read after byte");
    let summary: Value = serde_json::from_str(&fs::read_to_string(bench.path("s.json")).unwrap()).unwrap();
    assert!(count(&summary, "packets") > 1000);
    assert!(summary["files"][0]["error"].as_str().unwrap().contains("cannot be read after byte"));
    let mut garbage = bytes[..bytes.len() / 2].to_vec();
    garbage.resize(bytes.len(), 0xff);
    fs::write(bench.path("garbage.pcap"), garbage).unwrap();
    fs::write(bench.path("text.pcap"), "no packets\n").unwrap();
    let text = bench.call(["dissect", "text.pcap"]).exits(1).says("text.pcap: this is no capture");
    assert!(text.stderr.lines().all(|line| line.chars().count() <= 80), "{}", text.stderr);
    bench.call(["dissect", "garbage.pcap"]).exits(1).says("reading ended at a record of 4294967295 bytes");
    bench.call(["dissect", "."]).exits(1).says("Is a directory");
}

/// Nothing in it but zeros: what comes out is thrown away as it comes.
#[test]
fn a_bomb_takes_time_and_no_memory() {
    let bench = Bench::beside_others();
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut packer, &plain("chain.pcap")[..24]).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 1 << 28), &mut packer).unwrap();
    fs::write(bench.path("bomb.zst"), packer.finish().unwrap()).unwrap();
    let read = bench.call(["dissect", "bomb.zst", "-q"]).exits(0).says("neither TCP nor UDP");
    assert!(read.peak_memory < 100 << 20, "{} bytes", read.peak_memory);
}

#[test]
fn what_happens_after_a_capture_ended_early_is_nobodys_loss() {
    let bench = Bench::beside_others();
    let run = bench.start(&mut bench.run_command(CHAIN));
    bench.await_level(0);
    // The one that captures, and no other.
    kill(descendant(run.id(), "tcpdump"));
    let run = run.finish().judged().says("the capture ended").says("not known");
    let dissection = &run.summary["dissection"];
    let lost = dissection["losses_by_component"].as_object().unwrap();
    for component in lost.keys() {
        assert!(["worker", "not seen on the wire"].contains(&component.as_str()), "{dissection:#}");
    }
    let ledger = count(run.level(0), "lost");
    assert!(lost.values().filter_map(Value::as_u64).sum::<u64>() >= ledger, "{dissection:#}");
}

#[test]
fn a_capturing_run_that_is_stopped_or_loses_a_component_keeps_its_result_and_leaves_nothing() {
    for name in [Some("redis-server"), None] {
        let bench = Bench::beside_others();
        let folder = bench.path("tmp");
        fs::create_dir(&folder).unwrap();
        let run = bench.start(bench.run_command(CHAIN).env("TMPDIR", &folder));
        let tool = descendant(run.id(), "tcpdump");
        bench.await_level(0);
        let run = match name {
            Some(component) => {
                kill(descendant(run.id(), component));
                run.finish().judged().says("redis died")
            }
            None => {
                run.signal(rustix::process::Signal::INT);
                run.finish().exits(105)
            }
        };
        assert!(count(&run.summary["dissection"], "packets") > 0);
        assert!(!fs::exists(format!("/proc/{tool}/exe")).unwrap_or(false), "the tool has ended");
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn an_interrupt_is_heard_while_a_tool_does_not_begin() {
        let bench = Bench::new();
        let tool = bench.write("tcpdump", "#!/bin/sh\nsleep 60\n");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bench.path("").display(), std::env::var("PATH").unwrap());
        let run = bench
            .run_command("name: a\nplatform: embedded\npopulation: { devices: 1 }\nload: { levels: [1] }\n");
        let mut commands =
            [(run, ["--set", "record.capture={}"]), (bench.plimsoll(["capture"]), ["--interface", "lo"])];
        for (command, more) in &mut commands {
            let started = bench.start(command.args(more).env("PATH", &path));
            let tool = descendant(started.id(), "tcpdump");
            let begin = Instant::now();
            started.signal(rustix::process::Signal::INT);
            started.finish().exits(105);
            // A second for the word, and one for whatever else this machine does.
            assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
            assert!(!fs::exists(format!("/proc/{tool}/exe")).unwrap_or(false), "the tool has ended");
        }
    }
}
