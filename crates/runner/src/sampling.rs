//! Observes the platform and its host from a thread of its own: whatever keeps the rest of this program waiting, the store or
//! a full processor, keeps no reading from its time.
//!
//! Each sampler has an interval. One whose readings are expensive is asked less often, so that it never takes more than a
//! small share of a processor. What each costs, and where a reading came late, is part of the readings.

use plimsoll_model::Nanos;
use plimsoll_model::record::{ComponentUsage, Gauge};
use plimsoll_observe::cgroup::{Throttling, kept};
use plimsoll_observe::family::{Family, Reader};
use plimsoll_observe::outside::{Held, OutsideSampler, processor_list};
use plimsoll_observe::process::ProcessSampler;
use plimsoll_observe::sampler::{INTERVAL, ObservedPlatform, Unit};
use plimsoll_observe::samplers::{self, Begun};
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Scheduling priority ("nice" value) of the thread, where the system grants it: it works for a few milliseconds in a second.
const PRECEDENCE: i32 = -10;
/// A sampler rests for at least so many times of what its last reading cost.
const REST: u32 = 200;
/// There is a last look at the end where the next one would come within this time: a look back over less would say little.
const LAST_LOOK: Duration = Duration::from_millis(800);
/// A reading that comes so many intervals after the last one leaves a gap.
const LATE: f64 = 1.5;
/// The sampler under whose name the costs and gaps of all others are stored.
const OBSERVERS: &str = "observers";

/// The thread. Dropped, it ends.
pub struct Sampling {
    /// Whom to read from now on; without a sender the thread ends.
    processes: Option<Sender<Vec<(String, i32)>>>,
    readings: Receiver<Observed>,
    thread: Option<JoinHandle<()>>,
}

/// What was read.
pub enum Observed {
    /// What a component used.
    Component(ComponentUsage),
    /// What a sampler saw.
    Gauge(Gauge),
    /// What the reader of the result must know of what was not seen.
    Note(String),
}

impl Sampling {
    /// Begins to observe those processes, each with the name of its component, and the host, at the time `now` of the run,
    /// while load threads run on the processors `load`, or anywhere, and devices reach the platform at that address; `None`
    /// where the system gives no thread.
    pub fn begin(
        processes: Vec<(String, i32)>,
        load: Vec<Option<usize>>,
        address: SocketAddr,
        now: Nanos,
    ) -> Option<Sampling> {
        let (orders, changes) = channel();
        let (readings_in, readings) = channel();
        let begun = Instant::now();
        let work = move || {
            // Without the right to it, it waits its turn as all others do.
            let _ = setpriority_process(None, PRECEDENCE);
            let time = move || now + since(begun);
            let mut components = Components::new(processes);
            let mut all: Vec<Scheduled> = samplers::begin_all().into_iter().map(Scheduled::new).collect();
            let mut next = Instant::now();
            loop {
                let (usages, found) = components.read(time, &load);
                let usages = usages.into_iter().map(Observed::Component);
                let platform = ObservedPlatform { families: &found, address };
                let due = all.iter_mut().filter(|sampler| sampler.next <= Instant::now());
                let gauges = due.flat_map(|sampler| sampler.read(&platform, time)).map(Observed::Gauge);
                for observed in usages.chain(gauges) {
                    if readings_in.send(observed).is_err() {
                        return;
                    }
                }
                // A look that took too long is not made up for.
                next = (next + INTERVAL).max(Instant::now());
                match changes.recv_timeout(next - Instant::now()) {
                    Ok(processes) => components = Components::new(processes),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        // What was used since the last look belongs to the run, too.
                        if Instant::now() + LAST_LOOK > next {
                            // Where nobody asks for it any more, it is lost.
                            for usage in components.read(time, &load).0 {
                                let _ = readings_in.send(Observed::Component(usage));
                            }
                        }
                        return;
                    }
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

    /// What was read since the last call, and what was used up to now; the thread ends.
    pub fn finish(mut self) -> Vec<Observed> {
        self.end();
        self.take()
    }

    fn end(&mut self) {
        self.processes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// What was read since the last call.
    pub fn take(&self) -> Vec<Observed> {
        self.readings.try_iter().collect()
    }
}

fn since(begun: Instant) -> Nanos {
    Nanos(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

/// What an observer of that name cost in the time that passed since its last reading, and the gap where it comes late.
pub(crate) fn late(
    observer: &str,
    at: Nanos,
    passed: Duration,
    interval: Nanos,
    cost: Duration,
) -> Vec<Gauge> {
    let passed = passed.as_secs_f64().max(f64::EPSILON);
    let gauge = |quantity: &str, unit: Unit, value: f64| Gauge {
        at,
        sampler: OBSERVERS.to_owned(),
        subject: observer.to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.name().to_owned(),
        value,
    };
    let cost = gauge("cost", Unit::Processors, cost.as_secs_f64() / passed);
    let gap = (passed > interval.as_secs_f64() * LATE).then(|| gauge("gap", Unit::Seconds, passed));
    std::iter::once(cost).chain(gap).collect()
}

/// Processor time of this thread.
pub(crate) fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A sampler, and when it reads.
struct Scheduled {
    sampler: Begun,
    next: Instant,
    last: Option<Instant>,
}

impl Scheduled {
    fn new(sampler: Begun) -> Scheduled {
        Scheduled { sampler, next: Instant::now(), last: None }
    }

    /// Reads, and adds what the reading cost and how late it came.
    fn read(&mut self, platform: &ObservedPlatform<'_>, time: impl Fn() -> Nanos) -> Vec<Gauge> {
        let (entry, sampler) = &mut self.sampler;
        let (begun, before) = (Instant::now(), own_time());
        let readings = sampler.read(platform);
        let cost = own_time().saturating_sub(before);
        let at = time();
        let last = self.last.replace(begun);
        // Half an interval early is in time: all are asked together.
        self.next = begun + entry.interval.mul_f64(0.5).max(cost * REST);
        let own = last.map(|last| late(entry.name, at, begun - last, Nanos::from(entry.interval), cost));
        // What is no number can be neither stored nor averaged.
        let seen = readings.into_iter().filter(|reading| reading.value.is_finite()).map(|reading| Gauge {
            at,
            sampler: entry.name.to_owned(),
            subject: reading.subject,
            quantity: reading.quantity.into_owned(),
            unit: reading.unit.name().to_owned(),
            value: reading.value,
        });
        seen.chain(own.into_iter().flatten()).collect()
    }
}

/// The processes of components, and what others take of their processors.
struct Components {
    processes: Vec<(String, i32)>,
    samplers: Vec<ProcessSampler>,
    reader: Reader,
    outside: OutsideSampler,
    throttling: Throttling,
}

impl Components {
    fn new(processes: Vec<(String, i32)>) -> Components {
        let samplers = processes.iter().map(|(name, _)| ProcessSampler::new(name.clone())).collect();
        let (outside, mut throttling) = (OutsideSampler::default(), Throttling::begin());
        // Where counting begins.
        for (name, process) in &processes {
            throttling.since_last(name, *process);
        }
        Components { processes, samplers, reader: Reader::default(), outside, throttling }
    }

    /// What each used, and all processes of each.
    fn read(
        &mut self,
        time: impl Fn() -> Nanos,
        load: &[Option<usize>],
    ) -> (Vec<ComponentUsage>, Vec<Family>) {
        if self.processes.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let all = self.reader.read();
        let families = all.families(&self.processes);
        let mut held = self.outside.sample(&self.processes, &all);
        let samplers = self.samplers.iter_mut().zip(&families);
        let mut usages: Vec<ComponentUsage> =
            samplers.filter_map(|(sampler, family)| sampler.sample(time(), &family.members)).collect();
        for usage in &mut usages {
            let root =
                families.iter().find(|family| family.component == usage.component).map(|family| family.root);
            let withheld =
                root.map_or(Nanos::ZERO, |root| self.throttling.since_last(&usage.component, root));
            let window = usage.window.as_secs_f64().max(f64::EPSILON);
            let share = kept(withheld.as_secs_f64() / window, usage.cpu.as_secs_f64() / window);
            let throttled = Nanos::from_secs_f64(share * window);
            usage.throttled = throttled;
            if let Some(Held { window, held, holder, processors }) = held.remove(&usage.component) {
                let share = held.as_secs_f64() / window.as_secs_f64();
                // Others held a processor in vain while the component did not want it, or was kept from it by its own quota.
                let free = (usage.window - throttled).max(Nanos::ZERO);
                let others = Nanos::from_secs_f64(share * free.as_secs_f64());
                usage.held_by_others =
                    usage.run_delay.map(|waited| (waited - throttled).max(Nanos::ZERO).min(others));
                usage.holder = holder;
                usage.beside_load = load.iter().any(|own| own.is_none_or(|own| processors.contains(&own)));
                usage.processors = u16::try_from(processors.len()).ok();
                usage.processor_list = Some(processor_list(&processors));
            }
        }
        (usages, families)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A soak looks at what these samplers read.
    #[test]
    fn the_samplers_of_a_soak_are_there() {
        let is_there = |name: &str| plimsoll_observe::samplers::SAMPLERS.iter().any(|own| own.name == name);
        assert!(plimsoll_analysis::growth::STOCKS.iter().all(|name| is_there(name)));
    }

    /// The planted fault: whoever asks for the readings is kept away for three seconds.
    #[test]
    fn readings_are_taken_in_time_though_nobody_asks_for_them() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let processes = vec![("still".to_owned(), child.id() as i32)];
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let sampling = Sampling::begin(processes, vec![None], address, Nanos::from_secs(100)).unwrap();
        std::thread::sleep(Duration::from_millis(3_500));
        let (mut readings, mut gauges) = (Vec::new(), Vec::new());
        for observed in sampling.take() {
            match observed {
                Observed::Component(usage) => readings.push(usage),
                Observed::Gauge(gauge) => gauges.push(gauge),
                Observed::Note(note) => panic!("{note}"),
            }
        }
        assert!(readings.len() >= 2, "{readings:?}");
        let cost = |gauge: &&Gauge| gauge.sampler == OBSERVERS && gauge.quantity == "cost";
        let costs: Vec<&Gauge> = gauges.iter().filter(cost).collect();
        assert!(costs.iter().all(|cost| cost.value >= 0.0 && cost.value < 0.2), "{costs:?}");
        let subjects: Vec<&str> = costs.iter().map(|cost| cost.subject.as_str()).collect();
        assert!(subjects.contains(&"process") && subjects.contains(&"host"), "{subjects:?}");
        assert!(
            gauges
                .iter()
                .any(|gauge| (gauge.subject.as_str(), gauge.quantity.as_str()) == ("still", "threads"))
        );
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
