//! What this host does: its processors by mode, who wants one, memory, interfaces and disks.

use crate::rates::Rates;
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, LoadAverage, Meminfo};
use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry = SamplerEntry { name: "host", interval: INTERVAL, begin };

/// Bytes of a sector, whatever the disk says (Documentation/block/stat of the kernel).
const SECTOR: u64 = 512;
/// Most interfaces and disks that are followed: a host with containers may have thousands.
const MOST: usize = 16;

#[derive(Default)]
struct HostUse {
    rates: Rates<(String, Unit, Scale)>,
}

/// By what a rate is divided to have its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scale {
    /// The ticks of all processors in a second.
    Ticks,
    One,
}

fn begin() -> Result<Box<dyn Sampler>, &'static str> {
    match KernelStats::current() {
        Ok(_) => Ok(Box::new(HostUse::default())),
        Err(_) => Err("/proc/stat cannot be read"),
    }
}

impl Sampler for HostUse {
    fn read(&mut self, _: &ObservedPlatform<'_>) -> Vec<Reading> {
        let mut readings = Vec::new();
        let mut counters = HashMap::new();
        let mut processors = 1;
        if let Ok(stats) = KernelStats::current() {
            processors = stats.cpu_time.len().max(1);
            for (mode, ticks) in modes(&stats.total) {
                counters.insert((mode.to_owned(), Unit::Share, Scale::Ticks), ticks);
            }
            counters.insert(("context switches".to_owned(), Unit::PerSecond, Scale::One), stats.ctxt);
            let counts = [("run queue", stats.procs_running), ("blocked on a disk", stats.procs_blocked)];
            readings.extend(counts.into_iter().filter_map(|(quantity, count)| {
                Some(Reading::host(quantity, Unit::Count, f64::from(count?)))
            }));
        }
        if let Ok(load) = LoadAverage::current() {
            readings.push(Reading::host("load average of 1 minute", Unit::Count, f64::from(load.one)));
        }
        if let Ok(memory) = Meminfo::current() {
            readings.push(Reading::host("active memory", Unit::Bytes, memory.active as f64));
            readings.extend(
                memory
                    .mem_available
                    .map(|bytes| Reading::host("available memory", Unit::Bytes, bytes as f64)),
            );
        }
        let traffic = fs::read_to_string("/proc/net/dev").map(|text| interfaces(&text)).unwrap_or_default();
        let disks = fs::read_to_string("/proc/diskstats").map(|text| disks(&text)).unwrap_or_default();
        for (quantity, bytes) in traffic.into_iter().chain(disks) {
            counters.insert((quantity, Unit::BytesPerSecond, Scale::One), bytes);
        }
        let ticks = procfs::ticks_per_second() as f64 * processors as f64;
        let mut rates = self.rates.since_last(Instant::now(), counters);
        rates.sort_by(|one, other| one.0.0.cmp(&other.0.0));
        readings.extend(rates.into_iter().map(|((quantity, unit, scale), rate)| match scale {
            Scale::Ticks => Reading::host(quantity, unit, (rate / ticks).min(1.0)),
            Scale::One => Reading::host(quantity, unit, rate),
        }));
        readings
    }
}

/// Ticks of all processors together by what they did.
fn modes(total: &CpuTime) -> Vec<(&'static str, u64)> {
    let all = [
        ("user", Some(total.user)),
        ("nice", Some(total.nice)),
        ("system", Some(total.system)),
        ("idle", Some(total.idle)),
        ("waiting for a disk", total.iowait),
        ("interrupts", total.irq),
        ("soft interrupts", total.softirq),
        ("stolen", total.steal),
    ];
    all.into_iter().filter_map(|(mode, ticks)| Some((mode, ticks?))).collect()
}

/// Bytes that each interface received and sent so far, from `/proc/net/dev`; without those that never carried any.
fn interfaces(text: &str) -> Vec<(String, u64)> {
    let of = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let (&received, &sent) = (numbers.first()?, numbers.get(8)?);
        let name = name.trim();
        (received + sent > 0)
            .then(|| [(format!("{name} received"), received), (format!("{name} sent"), sent)])
    };
    text.lines().filter_map(of).take(MOST).flatten().collect()
}

/// Bytes that each whole disk read and wrote so far, from `/proc/diskstats`; without those that never did.
fn disks(text: &str) -> Vec<(String, u64)> {
    let is_whole = |name: &str| fs::metadata(format!("/sys/block/{name}")).is_ok();
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, read, written) = (*words.get(2)?, words.get(5)?, words.get(9)?);
        let (read, written): (u64, u64) = (read.parse().ok()?, written.parse().ok()?);
        let counts = is_whole(name) && read + written > 0;
        counts
            .then(|| [(format!("{name} read"), read * SECTOR), (format!("{name} written"), written * SECTOR)])
    };
    text.lines().filter_map(of).take(MOST).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets\n    lo: 10 1 0 0 0 0 0 0 12 1 0 0 0 0 0 0\n  eth0:0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n  bad: x\n";
        assert_eq!(interfaces(text), [("lo received".to_owned(), 10), ("lo sent".to_owned(), 12)]);
        assert!(disks("nonsense\n   8       0 nodisk 1 2 3 4 5 6 7 8 9 10 11\n").is_empty());
    }

    #[test]
    fn a_busy_host_is_seen() {
        let mut sampler = HostUse::default();
        let platform = ObservedPlatform { families: &[], address: SocketAddr::from(([127, 0, 0, 1], 1)) };
        sampler.read(&platform);
        crate::spinning::spin(plimsoll_model::Nanos::from_millis(200));
        let readings = sampler.read(&platform);
        let of = |quantity: &str| readings.iter().find(|reading| reading.quantity == quantity).unwrap().value;
        assert!(of("idle") < 1.0 && of("user") + of("nice") > 0.05, "{readings:?}");
        assert!(of("active memory") > 0.0 && of("run queue") >= 1.0);
        assert!(readings.iter().all(|reading| reading.subject == "host"));
    }
}
