//! The power that processors take, where the host can read it (powercap, Documentation/power/powercap of the kernel).

use crate::rates::Rates;
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry = SamplerEntry { name: "energy", interval: INTERVAL, begin };

const ZONES: &str = "/sys/class/powercap";

struct Energy {
    /// The counters, in microjoules, and the names of their zones.
    zones: Vec<(PathBuf, String)>,
    rates: Rates<String>,
}

fn begin() -> Result<Box<dyn Sampler>, &'static str> {
    let zones = zones(Path::new(ZONES));
    match zones.is_empty() {
        true => Err("this host shows no readable energy counter"),
        false => Ok(Box::new(Energy { zones, rates: Rates::default() })),
    }
}

/// The zones in a folder whose counters can be read, in the order of their names.
fn zones(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut zones: Vec<(PathBuf, String)> = entries
        .filter_map(|entry| {
            let counter = entry.path().join("energy_uj");
            read(&counter)?;
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            Some((counter, format!("{} {}", name.trim(), entry.file_name().to_string_lossy())))
        })
        .collect();
    zones.sort();
    zones
}

fn read(counter: &Path) -> Option<u64> {
    fs::read_to_string(counter).ok()?.trim().parse().ok()
}

impl Sampler for Energy {
    fn read(&mut self, _: &ObservedPlatform<'_>) -> Vec<Reading> {
        let counters: HashMap<String, u64> =
            self.zones.iter().filter_map(|(path, name)| Some((name.clone(), read(path)?))).collect();
        let rates = self.rates.since_last(Instant::now(), counters);
        rates.into_iter().map(|(zone, rate)| Reading::host(zone, Unit::Watts, rate / 1e6)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_those_whose_counter_can_be_read() {
        let folder = std::env::temp_dir().join(format!("plimsoll-energy-{}", std::process::id()));
        for (zone, counter) in [("intel-rapl:0", "123"), ("intel-rapl:1", "no number"), ("dtpm", "")] {
            fs::create_dir_all(folder.join(zone)).unwrap();
            fs::write(folder.join(zone).join("energy_uj"), counter).unwrap();
            fs::write(folder.join(zone).join("name"), "package-0\n").unwrap();
        }
        let found: Vec<String> = zones(&folder).into_iter().map(|(_, name)| name).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["package-0 intel-rapl:0"]);
    }
}
