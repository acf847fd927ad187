//! The log of a gateway through both of its real ends, without a gateway: lives of events are written as `plimsoll gateway`
//! writes them and read by the test manager of `plimsoll run`, over UDP on this host.
//!
//!     cargo run --release -p plimsoll-cli --example gateway_log [LIVES_PER_SECOND [SECONDS]]
//!
//! Told is how many came, what the manager says is missing, and the processor time of each end for a life, which are three
//! lines.

use plimsoll_gateway::log::{Log, Station, now};
use plimsoll_load::clock::Clock;
use plimsoll_load::drivers::gateway::manager::{ManagedRun, Manager};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

const DEVICES: u64 = 10_000;
const TAG: u16 = 0x4d;
/// A gateway's events end in bursts of a turn of its loop; here of a millisecond.
const TURNS: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let rate = numbers.next().transpose()?.unwrap_or(100_000);
    let seconds = numbers.next().transpose()?.unwrap_or(5);
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let manager =
        Manager::start(free, ManagedRun { tag: TAG, shards: 1, ..ManagedRun::default() }, Clock::start())?;
    let writing = thread::spawn(move || write(&Log::to(free)?, rate, seconds));
    let mut lives = Vec::new();
    let mut came = 0;
    let mut incidents = Vec::new();
    let mut quiet = Instant::now();
    // The log thread needs no longer than this for what the kernel has kept.
    while !writing.is_finished() || quiet.elapsed() < Duration::from_millis(300) {
        manager.take(0, &mut lives);
        incidents.extend(manager.take_incidents());
        if !lives.is_empty() {
            (came, quiet) = (came + lives.len() as u64, Instant::now());
            lives.clear();
        }
        thread::sleep(Duration::from_millis(1));
    }
    let (took, own) = writing.join().map_err(|_| "the writer has failed")??;
    let (sent, all) = (rate / TURNS * TURNS * seconds, seconds_of(ClockId::ProcessCPUTime));
    println!("{sent} lives written in {took:.2} s, {came} read, {} missing", sent - came);
    let each = |spent: f64| spent / sent as f64 * 1e6;
    println!("{:.2} us of CPU a life writing, {:.2} us reading", each(own), each(all - own));
    incidents.iter().for_each(|words| println!("the manager says: {words}"));
    Ok(())
}

/// Writes lives at that rate; how long that took, and its processor time, in seconds.
fn write(log: &Log, rate: u64, seconds: u64) -> std::io::Result<(f64, f64)> {
    let begin = Instant::now();
    let mut event = 0;
    for turn in 1..=seconds * TURNS {
        for _ in 0..rate / TURNS {
            let name = format!("{TAG:04x}-{}-{}", event % DEVICES, event / DEVICES);
            for station in [Station::Retrieved, Station::Dispatched, Station::Done] {
                log.event(station, now(), &name);
            }
            event += 1;
        }
        thread::sleep(Duration::from_millis(turn).saturating_sub(begin.elapsed()));
    }
    let took = begin.elapsed().as_secs_f64();
    log.end();
    Ok((took, seconds_of(ClockId::ThreadCPUTime)))
}

fn seconds_of(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
