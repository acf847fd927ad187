//! Bad days of a polled gateway: what the run says of them, and that it goes on.

use crate::gateway::{Python, check, existing, scenario};
use crate::harness::{Bench, count};
use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A scenario whose gateway is started behind a line of shell that ends in `exec "$@"`.
fn behind(bench: &Bench, line: &str, with: &str) -> String {
    let profile =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/gateway.yaml")).unwrap();
    let own = "    command:\n";
    assert_eq!(profile.matches(own).count(), 1);
    let shell = format!("{own}      - sh\n      - -c\n      - '{line}'\n      - sh\n");
    bench.write("behind.yaml", &profile.replace(own, &shell));
    scenario(with).replace("profile: gateway", "profile: ./behind.yaml")
}

#[test]
#[ignore = "acceptance: gateway"]
fn more_devices_than_sockets_take_turns_in_a_run() {
    let bench = Bench::beside_others();
    for dispatcher in ["serial", "preemptive", "cooperative"] {
        let few = scenario(&format!("dispatcher: {dispatcher}, sockets: '2', cpu: '0.01', io: '0.00001'"));
        check(&bench.run(&few), dispatcher);
    }
}

#[test]
fn more_devices_than_open_files_are_refused_with_both_remedies() {
    let bench = Bench::beside_others();
    // 64 for itself, 10 for the pool, which leaves 4.
    let narrow = behind(&bench, "ulimit -n 78; exec \"$@\"", "");
    let refused = bench.run(&narrow).exits(1).says("6 devices are to be connected at once");
    refused.says("4 of them").says("ulimit -n").says("--sockets");
}

/// No file may grow above 4 KiB, as on a disk that is full: the events whose work is larger fail, each is counted, and the
/// others are done.
#[test]
fn a_full_disk_fails_events_and_not_the_run() {
    for (handler, event_loop) in [("serial", "epoll"), ("preemptive", "epoll"), ("cooperative", "libuv")] {
        let bench = Bench::beside_others();
        let with = format!("handler: {handler}, loop: {event_loop}, io: '0.00002', io_spread: uniform");
        let full = behind(&bench, "trap \"\" XFSZ; ulimit -f 8; exec \"$@\"", &with);
        let finished = bench.run(&full).judged();
        let level = finished.level(0);
        let [sent, done, failed] = ["sent", "acknowledged", "refused"].map(|name| count(level, name));
        assert!(done > 0 && failed > 0, "{handler}: {finished:?}");
        assert_eq!(done + failed, sent, "{handler}: {level:#}");
        finished.says("the gateway could not do the work of an event").says("File too large");
    }
}

/// One thread and work of some milliseconds, far more events than it can do: they wait in their devices, nothing is lost, and
/// the run says that it was too much.
#[test]
#[ignore = "acceptance: gateway"]
fn an_exhausted_pool_lets_events_wait_in_their_devices() {
    let bench = Bench::beside_others();
    for dispatcher in ["serial", "preemptive", "cooperative"] {
        let with = format!("dispatcher: {dispatcher}, handler: preemptive, pool: '1', cpu: '1', io: '0'");
        // Without a warm-up, whose events would be before those of the hold in the queues.
        let much = scenario(&with)
            .replace("levels: [60]", "levels: [6000]")
            .replace("warm_up: 200ms", "warm_up: 0s");
        let finished = bench.run(&much).judged();
        let level = finished.level(0);
        let [due, sent, unsent, done] =
            ["due", "sent", "unsent", "acknowledged"].map(|name| count(level, name));
        assert!(done > 0 && unsent > 0 && done <= sent, "{dispatcher}: {level:#}");
        assert_eq!(due, sent + unsent, "{dispatcher}: {level:#}");
        assert_eq!(level["overload"], true, "{dispatcher}: {level:#}");
    }
}

/// A log that loses every fifth datagram on its way.
fn lossy(to: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let lost = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&lost);
    thread::spawn(move || {
        let mut datagram = [0; 4096];
        for number in 0_u64.. {
            let Ok(length) = socket.recv(&mut datagram) else { return };
            if number % 5 == 4 {
                counted.fetch_add(1, Ordering::Relaxed);
            } else {
                // Whoever listened may have ended.
                let _ = socket.send_to(&datagram[..length], to);
            }
        }
    });
    (address, lost)
}

#[test]
fn a_log_that_loses_datagrams_is_told() {
    let bench = Bench::beside_others();
    let manager = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (log, lost) = lossy(manager);
    let (manager_said, log_said) = (manager.to_string(), log.to_string());
    let gateway = ["gateway", "--manager", &manager_said, "--log", &log_said, "--listen", "127.0.0.1:0"];
    let mut gateway = bench.plimsoll(gateway);
    gateway.args(["--loop", "epoll", "--cpu", "0", "--io", "0"]);
    let _gateway = bench.start(&mut gateway);
    let finished = bench.run(&existing(manager)).judged();
    let level = finished.level(0);
    assert!(lost.load(Ordering::Relaxed) > 0);
    let (sent, done) = (count(level, "sent"), count(level, "acknowledged"));
    assert!(0 < done && done < sent, "{level:#}");
    finished.says("datagrams of the gateway's log are missing");
}

/// The events of one device are told under the names of another one: those are foreign, and what was never told is not done.
#[test]
fn a_gateway_that_mistakes_devices_is_told() {
    let bench = Bench::beside_others();
    let manager = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _gateway = Python::start(&manager.to_string(), &["mistaken"]);
    let finished = bench.run(&existing(manager)).judged();
    let level = finished.level(0);
    assert!(count(level, "foreign") > 0, "{level:#}");
    let (sent, done) = (count(level, "sent"), count(level, "acknowledged"));
    assert!(0 < done && done < sent, "{level:#}");
}
