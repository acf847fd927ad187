//! Reads the platform's processes from a thread of its own: whatever keeps the rest of this program waiting, the store or a
//! full processor, keeps no reading from its time.

use plimsoll_model::Nanos;
use plimsoll_model::record::ComponentUsage;
use plimsoll_observe::outside::{Held, OutsideSampler};
use plimsoll_observe::process::ProcessSampler;
use rustix::process::setpriority_process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one reading to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Scheduling priority ("nice" value) of the thread, where the system grants it: it works for a few milliseconds in a second.
const PRECEDENCE: i32 = -10;

/// The thread. Dropped, it ends.
pub struct Sampling {
    /// Whom to read from now on; without a sender the thread ends.
    processes: Option<Sender<Vec<(String, i32)>>>,
    readings: Receiver<ComponentUsage>,
    thread: Option<JoinHandle<()>>,
}

impl Sampling {
    /// Begins to read those processes, each with the name of its component, at the time `now` of the run, while load threads
    /// run on the processors `load`, or anywhere; `None` where the system gives no thread.
    pub fn begin(processes: Vec<(String, i32)>, load: Vec<Option<usize>>, now: Nanos) -> Option<Sampling> {
        let (orders, changes) = channel();
        let (readings_in, readings) = channel();
        let begun = Instant::now();
        let work = move || {
            // Without the right to it, it waits its turn as all others do.
            let _ = setpriority_process(None, PRECEDENCE);
            let mut components = Components::new(processes);
            loop {
                let time = now + Nanos(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX));
                for usage in components.read(time, &load) {
                    if readings_in.send(usage).is_err() {
                        return;
                    }
                }
                match changes.recv_timeout(INTERVAL) {
                    Ok(processes) => components = Components::new(processes),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("sampling".into()).spawn(work).ok()?;
        Some(Sampling { processes: Some(orders), readings, thread: Some(thread) })
    }

    /// Reads those processes from now on.
    pub fn change(&self, processes: Vec<(String, i32)>) {
        if let Some(orders) = &self.processes {
            let _ = orders.send(processes);
        }
    }

    /// What was read since the last call.
    pub fn take(&self) -> Vec<ComponentUsage> {
        self.readings.try_iter().collect()
    }
}

/// What is read in the thread.
struct Components {
    processes: Vec<(String, i32)>,
    samplers: Vec<ProcessSampler>,
    outside: OutsideSampler,
}

impl Components {
    fn new(processes: Vec<(String, i32)>) -> Components {
        let samplers = processes.iter().map(|(name, pid)| ProcessSampler::new(name.clone(), *pid)).collect();
        Components { processes, samplers, outside: OutsideSampler::default() }
    }

    fn read(&mut self, now: Nanos, load: &[Option<usize>]) -> Vec<ComponentUsage> {
        let begun = Instant::now();
        let mut held = self.outside.sample(&self.processes);
        let since = || Nanos(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX));
        let mut usages: Vec<ComponentUsage> =
            self.samplers.iter_mut().filter_map(|sampler| sampler.sample(now + since())).collect();
        for usage in &mut usages {
            if let Some(Held { window, held, holder, processors }) = held.remove(&usage.component) {
                let share = held.as_secs_f64() / window.as_secs_f64();
                let others = Nanos::from_secs_f64(share * usage.window.as_secs_f64());
                // Others held a processor in vain while the component did not want it.
                usage.held_by_others = usage.run_delay.map(|waited| waited.min(others));
                usage.holder = holder;
                usage.beside_load = load.iter().any(|own| own.is_none_or(|own| processors.contains(&own)));
                usage.processors = u16::try_from(processors.len()).ok();
            }
        }
        usages
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.processes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted fault: whoever asks for the readings is kept away for three seconds.
    #[test]
    fn readings_are_taken_in_time_though_nobody_asks_for_them() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let processes = vec![("still".to_owned(), child.id() as i32)];
        let sampling = Sampling::begin(processes, vec![None], Nanos::from_secs(100)).unwrap();
        std::thread::sleep(Duration::from_millis(3_500));
        let readings = sampling.take();
        assert!(readings.len() >= 2, "{readings:?}");
        for reading in &readings {
            assert!(reading.at > Nanos::from_secs(100) && reading.at < Nanos::from_secs(110), "{reading:?}");
            assert!(reading.window < Nanos::from_secs(2) && reading.beside_load, "{reading:?}");
        }
        sampling.change(Vec::new());
        drop(sampling);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
