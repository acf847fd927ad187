//! What the processes of each component do beside computing: threads, faults, and what they read from and write to disks.

use crate::family::Family;
use crate::rates::{Rates, sum_by};
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry =
    SamplerEntry { name: "process", interval: INTERVAL, begin: || Ok(Box::new(ProcessUse::default())) };

/// A counter of a process: which component, which process (told apart by its start, since numbers come again), which quantity.
type Counter = (String, i32, u64, &'static str);

#[derive(Default)]
struct ProcessUse {
    rates: Rates<Counter>,
}

impl Sampler for ProcessUse {
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading> {
        let counters = platform.families.iter().flat_map(counters).collect();
        let rates = self.rates.since_last(Instant::now(), counters);
        let sums = sum_by(rates, |(component, _, _, quantity)| (component.clone(), *quantity));
        let ticks = procfs::ticks_per_second() as f64;
        let rates = sums.into_iter().map(|((component, quantity), rate)| match quantity {
            USER | SYSTEM => Reading::of(&component, quantity, Unit::Processors, rate / ticks),
            DISK_READ | DISK_WRITTEN => Reading::of(&component, quantity, Unit::BytesPerSecond, rate),
            _ => Reading::of(&component, quantity, Unit::PerSecond, rate),
        });
        let threads =
            platform.families.iter().filter(|family| !family.members.is_empty()).flat_map(|family| {
                let threads: i64 = family.members.iter().map(|(_, stat)| stat.num_threads).sum();
                let of = |quantity, value| Reading::of(&family.component, quantity, Unit::Count, value);
                [of("processes", family.members.len() as f64), of("threads", threads as f64)]
            });
        threads.chain(rates).collect()
    }
}

const USER: &str = "user time";
const SYSTEM: &str = "system time";
const DISK_READ: &str = "disk read";
const DISK_WRITTEN: &str = "disk written";

/// The counters of a component's processes. What a process may not show is left out.
fn counters(family: &Family) -> impl Iterator<Item = (Counter, u64)> + '_ {
    family.members.iter().flat_map(move |(process, stat)| {
        let io = process.io().ok();
        let counted = [
            (USER, Some(stat.utime)),
            (SYSTEM, Some(stat.stime)),
            ("minor faults", Some(stat.minflt)),
            ("major faults", Some(stat.majflt)),
            (DISK_READ, io.as_ref().map(|io| io.read_bytes)),
            (DISK_WRITTEN, io.as_ref().map(|io| io.write_bytes)),
        ];
        let own = (process.pid, stat.starttime);
        counted.into_iter().filter_map(move |(quantity, value)| {
            Some(((family.component.clone(), own.0, own.1, quantity), value?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::families;
    use std::net::SocketAddr;

    #[test]
    fn what_a_process_writes_and_touches_is_seen() {
        let folder = std::env::temp_dir().join(format!("plimsoll-process-use-{}", std::process::id()));
        let script = format!(
            "import os,time\nf=os.open('{}',os.O_CREAT|os.O_WRONLY)\nkept=[]\nwhile True:\n  kept.append(bytearray(1<<20))\n  os.write(f,b'x'*65536); os.fsync(f); time.sleep(0.02)\n  kept=kept[-20:]",
            folder.display()
        );
        let mut child = std::process::Command::new("python3").args(["-c", &script]).spawn().unwrap();
        let components = [("writer".to_owned(), child.id() as i32)];
        let mut sampler = ProcessUse::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut read = || {
            let found = families(&components);
            sampler.read(&ObservedPlatform { families: &found, address })
        };
        std::thread::sleep(std::time::Duration::from_millis(300));
        read();
        std::thread::sleep(std::time::Duration::from_millis(700));
        let readings = read();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&folder).unwrap();
        let of = |quantity: &str| readings.iter().find(|reading| reading.quantity == quantity).unwrap().value;
        assert!(of("minor faults") > 10.0, "{readings:?}");
        assert!(
            of(DISK_WRITTEN) > 65536.0 || of(DISK_WRITTEN) == 0.0,
            "a RAM disk has no blocks: {readings:?}"
        );
        assert_eq!((of("processes"), of("threads")), (1.0, 1.0));
        assert!(readings.iter().all(|reading| reading.subject == "writer" && reading.value.is_finite()));
    }
}
