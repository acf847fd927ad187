//! The work that an event causes: the n-th prime, and a buffer that is written to a file.

use crate::configuration::{Configuration, Order, Spread};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Primes that the highest intensity counts.
const PRIMES: f64 = 4096.0;
/// Bytes that the highest intensity writes.
const BYTES: f64 = 268_435_456.0;
/// The heaviest event of an exponential spread, in means.
const HEAVIEST: f64 = 16.0;

/// What all events cause.
#[derive(Clone, Debug)]
pub struct Work {
    cpu: (f64, Spread),
    io: (f64, Spread),
    /// When the I/O work may begin.
    pub order: Order,
    /// Where files are written, one a device.
    folder: PathBuf,
}

/// What one event causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which prime is calculated; none for 0.
    pub prime: u32,
    /// How many bytes are written; no file is opened for 0.
    pub bytes: usize,
}

impl Work {
    /// Of that configuration, with files in that folder.
    pub fn new(configuration: &Configuration, folder: &Path) -> Work {
        Work {
            cpu: (configuration.cpu_intensity, configuration.cpu_spread),
            io: (configuration.io_intensity, configuration.io_spread),
            order: configuration.io_order,
            folder: folder.to_owned(),
        }
    }

    /// The task of an event. It depends on its id alone, so that each gateway does the same for the same event.
    pub fn task(&self, id: &str) -> Task {
        let bits = hash(id.as_bytes());
        let share = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let of = |(mean, spread): (f64, Spread), share: f64| match spread {
            Spread::Constant => mean,
            Spread::Uniform => 2.0 * mean * share,
            // No event may take for ever. What is cut off is e^-16 of the mean, a ten-millionth.
            Spread::Exponential => (-mean * (1.0 - share).ln()).min(HEAVIEST * mean),
        };
        Task {
            prime: (of(self.cpu, share(bits)) * PRIMES) as u32,
            bytes: (of(self.io, share(hash(&bits.to_le_bytes()))) * BYTES) as usize,
        }
    }

    /// The task of an event that causes the mean work.
    pub fn mean(&self) -> Task {
        Task { prime: (self.cpu.0 * PRIMES) as u32, bytes: (self.io.0 * BYTES) as usize }
    }

    /// The file of a device.
    pub fn file(&self, device: usize) -> PathBuf {
        self.folder.join(format!("device-{device}"))
    }

    /// Does the I/O work; waits for the file system.
    pub fn write(&self, device: usize, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        write_letters(&self.file(device), bytes)
    }
}

/// Does the CPU work.
pub fn calculate(prime: u32) {
    if prime > 0 {
        black_box(nth_prime(black_box(prime)));
    }
}

/// The content of files: the same letters for all of them, so that no event needs memory of its own for what it writes.
static LETTERS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![b'e'; 1 << 20]);

/// So many bytes of the content of a file, in pieces.
pub fn letters(bytes: usize) -> impl Iterator<Item = &'static [u8]> {
    let all: &'static [u8] = &LETTERS;
    (0..bytes).step_by(all.len()).map(move |at| &all[..all.len().min(bytes - at)])
}

/// Writes a file of so many bytes; waits for the file system.
pub fn write_letters(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    letters(bytes).try_for_each(|piece| file.write_all(piece))
}

/// The n-th prime, by division by all odd numbers up to the root: what a reader of the work would write.
fn nth_prime(n: u32) -> u32 {
    let is_prime = |candidate: u32| {
        let mut divisor = 3;
        while divisor * divisor <= candidate {
            if candidate.is_multiple_of(divisor) {
                return false;
            }
            divisor += 2;
        }
        true
    };
    if n <= 1 {
        return 2;
    }
    let (mut found, mut candidate) = (1, 1);
    while found < n {
        candidate += 2;
        found += u32::from(is_prime(candidate));
    }
    candidate
}

/// FNV-1a, finished by a mix, since ids differ in few bits.
fn hash(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (folded ^ folded >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(cpu: (f64, Spread), io: (f64, Spread)) -> Work {
        Work { cpu, io, order: Order::After, folder: PathBuf::new() }
    }

    #[test]
    fn primes_are_counted_from_two() {
        let found: Vec<u32> = (1..=10).map(nth_prime).collect();
        assert_eq!(found, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert_eq!((nth_prime(409), nth_prime(4096)), (2803, 38873));
    }

    #[test]
    fn intensities_are_those_of_the_work() {
        let task = work((0.1, Spread::Constant), (2e-4, Spread::Constant)).task("any");
        assert_eq!(task, Task { prime: 409, bytes: 53_687 });
        let nothing = work((0.0, Spread::Exponential), (0.0, Spread::Uniform)).task("any");
        assert_eq!(nothing, Task { prime: 0, bytes: 0 });
    }

    #[test]
    fn files_are_as_long_as_the_work_says() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work {
            folder: folder.path().to_owned(),
            ..work((0.0, Spread::Constant), (0.0, Spread::Constant))
        };
        for bytes in [1, 53_687, 1 << 20, (5 << 20) + 1] {
            work.write(3, bytes).unwrap();
            assert!(std::fs::read(work.file(3)).unwrap() == vec![b'e'; bytes], "{bytes}");
        }
        work.write(4, 0).unwrap();
        assert!(!work.file(4).exists());
    }

    #[test]
    fn work_that_differs_has_the_same_mean_and_depends_on_the_event_alone() {
        for spread in [Spread::Uniform, Spread::Exponential] {
            let work = work((0.5, spread), (0.5, spread));
            let tasks: Vec<Task> = (0..20_000).map(|event| work.task(&format!("e-{event}"))).collect();
            assert_eq!(tasks[7], work.task("e-7"));
            let mean = tasks.iter().map(|task| f64::from(task.prime)).sum::<f64>() / 20_000.0;
            assert!((mean / 2048.0 - 1.0).abs() < 0.03, "{spread}: {mean}");
            let most = if spread == Spread::Uniform { 2.0 } else { HEAVIEST };
            assert!(tasks.iter().all(|task| f64::from(task.prime) <= most * 2048.0), "{spread}");
            let both: f64 = tasks.iter().map(|task| f64::from(task.prime) * task.bytes as f64).sum();
            let bytes = tasks.iter().map(|task| task.bytes as f64).sum::<f64>() / 20_000.0;
            let together = both / 20_000.0 / mean / bytes;
            assert!((together - 1.0).abs() < 0.05, "{spread}: CPU and I/O work are independent: {together}");
        }
    }
}
