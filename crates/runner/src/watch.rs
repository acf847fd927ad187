//! Stands beside the engine while it works: stores what is measured, reads the platform's processes and the load
//! threads, notices a platform that dies and a user who wants to stop.

use crate::secrets::Secrets;
use crate::storm::Storm;
use crate::tap::Tap;
use crate::token::Happenings;
use crate::{Options, Progress};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_load::engine::{Engine, Watch};
use plimsoll_model::record::{LevelEnd, LevelStart, Measurement, RunRecord, SamplePart};
use plimsoll_model::{Counts, Metric, Nanos, RunId};
use plimsoll_observe::network::NetworkProbe;
use plimsoll_observe::process::ProcessSampler;
use plimsoll_observe::tcp::TcpSampler;
use plimsoll_observe::threads::ThreadSampler;
use plimsoll_platform::Platform;
use plimsoll_scenario::plan::Plan;
use plimsoll_store::{RunWriter, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the platform's processes are read.
const COMPONENT_INTERVAL: Nanos = Nanos::from_secs(1);

/// See the module.
pub struct RunWatch<'a> {
    writer: &'a mut RunWriter,
    platform: &'a mut Platform,
    progress: &'a mut dyn Progress,
    stop: Arc<AtomicBool>,
    levels: Option<usize>,
    warm_up: Nanos,
    pending: Vec<Measurement>,
    components: Vec<ProcessSampler>,
    /// Processes of the platform that were not started by the run.
    running: Vec<(String, i32)>,
    next_component_reading: Nanos,
    threads: ThreadSampler,
    /// Tells the network from the platform, from the first level on; `None` where the scenario does not want it, or no
    /// thread can be had.
    network: Option<NetworkProbe>,
    tcp: TcpSampler,
    /// Whether the connections were looked at since the hold began.
    tcp_counts: bool,
    level: Option<LevelStart>,
    next_sample: u16,
    /// Completed operations of each sample of the level.
    completed: Vec<u64>,
    due: u64,
    death: Option<String>,
    storm: Option<Storm>,
    /// What the storm did in this level.
    stormed: Vec<String>,
    /// What befell the access token.
    happenings: Option<&'a Happenings>,
    /// Captures packets, and wants to know whose connections are whose.
    tap: Option<&'a mut Tap>,
    failure: Option<StoreError>,
    secrets: Secrets,
}

impl<'a> RunWatch<'a> {
    /// Watches one run.
    pub fn new(
        plan: &Plan,
        writer: &'a mut RunWriter,
        platform: &'a mut Platform,
        engine: &Engine,
        options: &Options,
        network: Option<NetworkProbe>,
        progress: &'a mut dyn Progress,
    ) -> RunWatch<'a> {
        let components = platform.processes().into_iter().map(|(name, pid)| ProcessSampler::new(name, pid));
        RunWatch {
            components: components.collect(),
            running: Vec::new(),
            network,
            tcp: TcpSampler::new(platform.address(), engine.listening_ports()),
            tcp_counts: false,
            writer,
            platform,
            progress,
            stop: Arc::clone(&options.stop),
            levels: None,
            warm_up: plan.load.warm_up,
            pending: Vec::new(),
            next_component_reading: Nanos::ZERO,
            threads: ThreadSampler::new(engine.threads()),
            level: None,
            next_sample: 0,
            completed: Vec::new(),
            due: 0,
            death: None,
            storm: None,
            stormed: Vec::new(),
            happenings: None,
            tap: None,
            failure: None,
            secrets: Secrets::of(plan),
        }
    }

    /// Lets a storm break out in every level.
    pub fn with_storm(mut self, storm: Option<Storm>) -> RunWatch<'a> {
        self.storm = storm;
        self
    }

    /// Watches processes of the platform that were not started by the run, too.
    pub fn with_running(mut self, running: Vec<(String, i32)>) -> RunWatch<'a> {
        let samplers = running.iter().map(|(name, process)| ProcessSampler::new(name.clone(), *process));
        self.components.extend(samplers);
        self.running = running;
        self
    }

    /// Tells the tap whose connections are whose, as they come and go.
    pub fn with_tap(mut self, tap: Option<&'a mut Tap>) -> RunWatch<'a> {
        self.tap = tap;
        self
    }

    /// Tells with each level what befell the access token.
    pub fn with_happenings(mut self, happenings: &'a Happenings) -> RunWatch<'a> {
        self.happenings = Some(happenings);
        self
    }

    /// Tells that a step begins.
    pub fn step(&mut self, what: &str) {
        self.progress.step(what);
    }

    /// Takes in how many levels there will be, where that is known.
    pub fn expect_levels(&mut self, levels: Option<usize>) {
        self.levels = levels;
    }

    /// Stores that a level begins; `purpose` says what it is for, where it is not one of a list.
    pub fn begin_level(&mut self, start: &LevelStart, purpose: &str) {
        self.measured_now(Measurement::LevelStarted(start.clone()));
        let label = plimsoll_analysis::level::label(start);
        let label = if purpose.is_empty() { label } else { format!("{label} ({purpose})") };
        self.progress.level_begun(usize::from(start.index) + 1, self.levels, &label);
        self.completed = vec![0; usize::from(start.samples)];
        self.due = 0;
        self.next_sample = 0;
        self.level = Some(start.clone());
        if let Some(network) = &self.network {
            network.begin();
        }
        if let Some(storm) = &mut self.storm {
            storm.begin_level(start.hold_start);
        }
    }

    fn note_storm(&mut self, done: Option<(String, bool)>) {
        if let Some((told, new_process)) = done {
            self.stormed.push(told);
            if new_process {
                let processes = self.platform.processes().into_iter();
                self.components = processes.map(|(name, pid)| ProcessSampler::new(name, pid)).collect();
            }
        }
    }

    /// Adds to a level's end what the engine cannot know, also whether the platform is gone, so that higher levels
    /// would tell nothing. A level that the user cut short tells nothing of that by its silence.
    pub fn end_level(&mut self, end: &mut LevelEnd, stopped: bool) {
        self.level = None;
        let done = self.storm.as_mut().and_then(|storm| storm.end_level(end.at, self.platform));
        self.note_storm(done);
        let last_third = self.completed.len() - self.completed.len() / 3 - 1;
        let silent = self.completed.iter().skip(last_third).all(|&completed| completed == 0) && self.due > 0;
        let mut told: Vec<String> = self.death.clone().into_iter().collect();
        if silent && self.death.is_none() && !stopped {
            told.push("nothing was completed in the last third of the level".into());
        }
        end.platform_gone = !told.is_empty();
        told.append(&mut self.stormed);
        told.extend(self.happenings.iter().flat_map(|happenings| happenings.take()));
        told.extend(end.incident.take());
        end.incident = (!told.is_empty()).then(|| self.secrets.hide(&told.join("; ")));
    }

    /// What was recorded of the run so far.
    ///
    /// # Errors
    /// The store is damaged or gone.
    pub fn record(&self, id: RunId) -> Result<RunRecord, StoreError> {
        self.writer.reader().run(&id.to_string())
    }

    /// Tells that a level is closed.
    pub fn level_ended(&mut self, level: &LevelSummary) {
        self.progress.level_ended(level);
    }

    /// Stores a measurement at once.
    pub fn measured_now(&mut self, measurement: Measurement) {
        self.pending.push(measurement);
        self.store();
    }

    /// Stores what is pending; the first failure of the store, if there was one.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.store();
        self.failure.map_or(Ok(()), Err)
    }

    fn store(&mut self) {
        if self.failure.is_none() && !self.pending.is_empty() {
            self.failure = self.writer.append(&self.pending).err();
        }
        self.pending.clear();
    }

    fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.stop.load(Ordering::Relaxed)
    }

    fn read_components(&mut self, now: Nanos) {
        if now < self.next_component_reading {
            return;
        }
        self.next_component_reading = now + COMPONENT_INTERVAL;
        if let Some(tap) = &mut self.tap {
            tap.look([self.platform.processes(), self.running.clone()].concat());
        }
        for sampler in &mut self.components {
            self.pending.extend(sampler.sample(now).map(Measurement::Component));
        }
    }

    fn read_threads(&mut self, now: Nanos) {
        let Some(level) = &self.level else { return };
        let sample_end = |sample: u16| {
            level.hold_start + level.hold * i64::from(sample + 1) / i64::from(level.samples.max(1))
        };
        if self.next_sample == 0 && now < level.hold_start {
            // Until the hold begins every reading is a new beginning.
            self.tcp_counts = false;
            return self.threads.restart(now);
        }
        if self.next_sample < level.samples && !self.tcp_counts {
            // What was sent again before the hold belongs to none of its samples.
            self.tcp_counts = true;
            let _ = self.tcp.sample();
            let _ = self.network.as_ref().and_then(NetworkProbe::take);
        }
        if self.next_sample < level.samples && now >= sample_end(self.next_sample) {
            // After a hiccup of ours one reading covers several samples, and is booked under the last of them.
            while self.next_sample + 1 < level.samples && now >= sample_end(self.next_sample + 1) {
                self.next_sample += 1;
            }
            let usages = self.threads.sample(now, level.index, self.next_sample);
            self.pending.extend(usages.into_iter().map(Measurement::Thread));
            let sample = Some(self.next_sample);
            let mut part = SamplePart { level: level.index, sample, ..SamplePart::default() };
            if let Some(reading) = self.tcp.sample() {
                (part.counts, part.histograms) = (reading.counts, reading.histograms);
            }
            let round_trips = self.network.as_ref().and_then(NetworkProbe::take);
            part.histograms.extend(round_trips.map(|seen| (Metric::NetworkRtt, seen)));
            if part.counts != Counts::default() || !part.histograms.is_empty() {
                self.pending.push(Measurement::Sample(part));
            }
            self.next_sample += 1;
        }
    }
}

impl Watch for RunWatch<'_> {
    fn measured(&mut self, measurement: Measurement) -> bool {
        if let Measurement::Sample(part) = &measurement {
            self.due += part.counts.due;
            if let Some(sum) = part.sample.and_then(|sample| self.completed.get_mut(usize::from(sample))) {
                *sum += part.counts.completed;
            }
        }
        self.pending.push(measurement);
        self.goes_on()
    }

    fn connected(&mut self, ready: u64, wanted: u64) -> bool {
        self.progress.connected(ready, wanted);
        self.goes_on()
    }

    fn tick(&mut self, now: Nanos) -> bool {
        self.read_threads(now);
        self.read_components(now);
        let done = self.storm.as_mut().and_then(|storm| storm.tick(now, self.platform));
        self.note_storm(done);
        if self.death.is_none() {
            self.death = self.platform.take_death().map(|death| {
                format!("component {} of the platform ended by itself ({})", death.component, death.status)
            });
        }
        if let Some(level) = &self.level {
            let begin = level.hold_start - self.warm_up;
            let planned = (self.warm_up + level.hold).as_secs_f64();
            self.progress.level_goes_on((now - begin).as_secs_f64(), planned);
        }
        self.store();
        self.goes_on()
    }
}
