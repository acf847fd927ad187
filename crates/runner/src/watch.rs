//! Stands beside the engine while it works: stores what is measured, reads the platform's processes and the load
//! threads, notices a platform that dies and a user who wants to stop.

mod level;
mod life;
mod recording;

use crate::experiment::Conductor;
use crate::faults::Faults;
use crate::fleet::Reports;
use crate::identity;
use crate::observers::Observers;
use crate::run_capture::RunCapture;
use crate::sampling::Observed;
use crate::secrets::Secrets;
use crate::storm::Storm;
use crate::token::Happenings;
use crate::{Options, Progress};
use level::LevelWatch;
use life::Life;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_load::engine::{Engine, Watch};
use plimsoll_model::experiment::Slowable;
use plimsoll_model::record::{DeathRecord, LevelEnd, LevelStart, Measurement, SamplePart, Terms};
use plimsoll_model::{Counts, Nanos, RunId};
use plimsoll_observe::network::NetworkProbe;
use plimsoll_observe::vigil::Vigil;
use plimsoll_platform::{Death, Platform};
use plimsoll_scenario::plan::Plan;
use plimsoll_store::{Added, RunPosition, RunWriter, StoreError};
use plimsoll_workers::message::Report;
use recording::Recording;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the readings of the platform's processes are taken over.
const COMPONENT_INTERVAL: Nanos = Nanos::from_secs(1);

/// The engine calls ten times a second: after so long without a call this process stood still.
const STANDSTILL: Nanos = Nanos::from_millis(700);

/// See the module.
pub struct RunWatch<'a> {
    recording: Recording<'a>,
    platform: &'a mut Platform,
    life: Life,
    observers: Observers,
    /// Captures packets, and wants to know whose connections are whose.
    capture: Option<&'a mut RunCapture>,
    progress: &'a mut dyn Progress,
    stop: Arc<AtomicBool>,
    terms: Terms,
    warm_up: Nanos,
    /// How many levels there will be, where that is known.
    levels: Option<usize>,
    level: Option<LevelWatch>,
    storm: Option<Storm>,
    faults: Option<Faults>,
    /// Has parts of the platform slowed, in a level of an experiment.
    conductor: Option<Conductor>,
    /// What the host's monotonic clock showed at time zero of the run, in nanoseconds.
    epoch: i64,
    /// What befell the access token.
    happenings: Option<&'a Happenings>,
    /// What workers see of components that they have started.
    reports: Option<Reports>,
    next_component_reading: Nanos,
    /// When the engine called last.
    last_tick: Option<Nanos>,
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
        RunWatch {
            recording: Recording::new(writer, Secrets::of(plan), options.live.clone()),
            life: Life::of(plan, platform, engine, &options.stop),
            observers: Observers::new(platform, engine, network, plan),
            capture: None,
            platform,
            progress,
            stop: Arc::clone(&options.stop),
            terms: identity::terms(plan),
            warm_up: plan.load.warm_up,
            levels: None,
            level: None,
            storm: None,
            faults: None,
            conductor: None,
            epoch: 0,
            happenings: None,
            reports: None,
            next_component_reading: Nanos::ZERO,
            last_tick: None,
        }
    }

    /// Lets a storm break out in every level.
    pub fn with_storm(mut self, storm: Option<Storm>) -> RunWatch<'a> {
        self.storm = storm;
        self
    }

    /// Has the faults of each level happen.
    pub fn with_faults(mut self, faults: Option<Faults>) -> RunWatch<'a> {
        self.faults = faults;
        self
    }

    /// Takes in what the host's monotonic clock showed at time zero of the run, in nanoseconds.
    pub fn with_epoch(self, epoch: i64) -> RunWatch<'a> {
        RunWatch { epoch, ..self }
    }

    /// Watches processes of the platform that were not started by the run, too, and notices that a component of it ends.
    pub fn with_running(mut self, running: Vec<(String, i32)>, vigils: Vec<(String, Vigil)>) -> RunWatch<'a> {
        self.observers.add(running);
        self.life.vigils = vigils;
        self
    }

    /// Tells the run capture whose connections are whose, as they come and go.
    pub fn with_capture(mut self, capture: Option<&'a mut RunCapture>) -> RunWatch<'a> {
        self.capture = capture;
        self
    }

    /// Tells with each level what befell the access token.
    pub fn with_happenings(mut self, happenings: &'a Happenings) -> RunWatch<'a> {
        self.happenings = Some(happenings);
        self
    }

    /// Records what workers see of the components that they have started.
    pub fn with_reports(self, reports: Option<Reports>) -> RunWatch<'a> {
        RunWatch { reports, ..self }
    }

    /// Tells that a step begins.
    pub fn step(&mut self, what: &str) {
        self.progress.step(&self.recording.secrets.hide(what));
    }

    /// The components that can be slowed.
    pub fn slowable(&self) -> Vec<Slowable> {
        self.platform.slowable()
    }

    /// By component behind a relay: the components that have connections to that relay now.
    pub fn callers(&self) -> BTreeMap<String, Vec<String>> {
        self.platform.callers()
    }

    /// Where devices connect.
    pub fn platform_address(&self) -> SocketAddr {
        self.platform.address()
    }

    /// Stores what the reader of the result must know of the run.
    pub fn note(&mut self, note: &str) {
        self.recording.note(note);
    }

    /// Takes in how many levels there will be, where that is known.
    pub fn expect_levels(&mut self, levels: Option<usize>) {
        self.levels = levels;
    }

    /// Stores that a level begins; `purpose` says what it is for, where it is not one of a list, and `number` which it is.
    pub fn begin_level(&mut self, start: &LevelStart, purpose: &str, number: usize) {
        self.measured_now(Measurement::LevelStarted(start.clone()));
        let label = start.load.to_string();
        let label = if purpose.is_empty() { label } else { format!("{label} ({purpose})") };
        self.progress.level_begun(number, self.levels, &label);
        self.level = Some(LevelWatch::begin(start, &self.terms));
        self.conductor = start.experiment.as_ref().map(|_| Conductor::of(start, self.epoch));
        self.observers.begin_level();
        if let Some(storm) = &mut self.storm {
            storm.begin_level(start.hold_start);
        }
        if let Some(faults) = &mut self.faults {
            faults.begin_level(start, self.epoch);
        }
    }

    /// What a storm did goes with the level; a component that it started anew has other processes.
    fn look_at_storm(&mut self, look: impl FnOnce(&mut Storm, &mut Platform) -> Option<(String, bool)>) {
        let Some((told, new_process)) = self.storm.as_mut().and_then(|storm| look(storm, self.platform))
        else {
            return;
        };
        if let Some(level) = &mut self.level {
            level.stormed.push(told);
        }
        if new_process {
            self.observers.renew(self.platform);
        }
    }

    /// Has faults happen whose time comes.
    fn look_at_faults(&mut self, now: Nanos) {
        if self.faults.as_mut().is_some_and(|faults| faults.tick(now, self.platform)) {
            self.observers.renew(self.platform);
        }
    }

    /// Has parts of the platform slowed whose time comes, and records what was done.
    fn conduct(&mut self, now: Nanos) {
        let Some(conductor) = &mut self.conductor else { return };
        let (doses, failed) = conductor.tick(now, self.platform);
        if !doses.is_empty() {
            self.recording.add([Measurement::Gauges(doses)]);
        }
        if let Some(failed) = failed {
            self.recording.note(&failed);
        }
    }

    /// Adds to a level's end what the engine cannot know, also whether the platform is gone, so that higher levels
    /// would tell nothing. A level that the user cut short tells nothing of that by its silence.
    pub fn end_level(&mut self, end: &mut LevelEnd, stopped: bool) {
        self.look_at_storm(|storm, platform| storm.end_level(end.at, platform));
        self.conduct(end.at);
        if let Some(faults) = &mut self.faults {
            let (done, renewed) = faults.end_level(end.at, self.platform);
            end.faults = done;
            if renewed {
                self.observers.renew(self.platform);
            }
        }
        let Some(level) = self.level.take() else { return };
        // Nor does one whose load stopped at a worker.
        let stopped = stopped || end.halted.is_some();
        if !stopped {
            self.life.look_for_missing(self.platform, end.at, &self.recording.secrets);
        }
        // Who answers in the drain stood still, or was overloaded, and is there.
        let came_back = end.last_done.is_some_and(|last| last >= level.hold_end(end));
        let silent = level.is_silent(end) && !came_back;
        // As long as anybody is served, a connection that is refused is a refusal.
        let lost = end.outages.as_ref().is_some_and(|outages| outages.lost > outages.back);
        let deserted = lost && end.connected == 0;
        if !stopped && (deserted || silent) {
            self.life.ask(self.platform, end);
        }
        let death = self.life.death().cloned();
        let mut told: Vec<String> = Vec::new();
        // Of a process that stood still itself, silence says nothing.
        if silent && death.is_none() && !stopped && level.stood_still == Nanos::ZERO {
            told.push("nothing was completed in the last third of the level".into());
        }
        end.platform_gone = !told.is_empty() || death.is_some();
        end.death = death;
        end.stood_still = level.stood_still;
        told.extend(level.cut_by_time().filter(|_| !end.platform_gone && !stopped));
        told.extend(level.stormed);
        told.extend(self.happenings.iter().flat_map(|happenings| happenings.take()));
        let since = if self.warm_up > Nanos::ZERO { " (counted with the warm-up)" } else { "" };
        told.extend(end.incident.take().map(|incident| format!("{incident}{since}")));
        end.incident = (!told.is_empty()).then(|| self.recording.secrets.hide(&told.join("; ")));
    }

    /// The component that ended by itself, if one did.
    pub fn death(&self) -> Option<DeathRecord> {
        self.life.death().cloned()
    }

    /// What was recorded of the run since that position.
    ///
    /// # Errors
    /// The store is damaged or gone.
    pub fn added(&self, id: RunId, position: &mut RunPosition) -> Result<Added, StoreError> {
        self.recording.added(id, position)
    }

    /// Tells that a level is closed.
    pub fn level_ended(&mut self, level: &LevelSummary) {
        self.recording.level_ended(level);
        self.progress.level_ended(level);
    }

    /// Stores a measurement at once.
    pub fn measured_now(&mut self, measurement: Measurement) {
        self.recording.add([measurement]);
        self.recording.store();
    }

    /// Stores what is pending; the first failure of the store, if there was one.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let last = self.observers.finish();
        self.store(last);
        self.recording.finish()
    }

    fn goes_on(&self) -> bool {
        self.recording.is_fine() && !self.stop.load(Ordering::Relaxed)
    }

    fn read_components(&mut self, now: Nanos) {
        if now < self.next_component_reading {
            return;
        }
        self.next_component_reading = now + COMPONENT_INTERVAL;
        if let Some(capture) = &mut self.capture {
            capture.look(self.observers.processes());
        }
        let observed = self.observers.observed(now);
        self.store(observed);
    }

    /// Takes what workers have reported of components.
    fn take_reports(&mut self, now: Nanos) {
        let reports: Vec<Report> = self.reports.iter().flat_map(|reports| reports.try_iter()).collect();
        for report in reports {
            match report {
                Report::Used(usage) => self.recording.add([Measurement::Component(usage)]),
                Report::Saw(gauges) => self.recording.add([Measurement::Gauges(gauges)]),
                Report::Died(DeathRecord { component, status, last_words, .. }) => {
                    let death = Death { component, status, last_words };
                    self.life.take(death, now, &self.recording.secrets);
                }
            }
        }
    }

    fn store(&mut self, observed: Vec<Observed>) {
        let mut gauges = Vec::new();
        for observed in observed {
            match observed {
                Observed::Component(usage) => self.recording.add([Measurement::Component(usage)]),
                Observed::Gauge(gauge) => gauges.push(gauge),
                Observed::Note(note) => self.recording.note(&note),
            }
        }
        if !gauges.is_empty() {
            self.recording.add([Measurement::Gauges(gauges)]);
        }
    }

    fn read_threads(&mut self, now: Nanos) {
        let Some(level) = &mut self.level else { return };
        if level.is_before_hold(now) {
            // Until the hold begins every reading is a new beginning.
            level.looked_at_connections = false;
            return self.observers.restart(now);
        }
        if level.is_sampled() && !level.looked_at_connections {
            // What was sent again before the hold belongs to none of its samples.
            level.looked_at_connections = true;
            let _ = self.observers.network();
        }
        let Some(sample) = level.ended_sample(now) else { return };
        let index = level.start.index;
        self.recording.add(self.observers.threads(now, index, sample).into_iter().map(Measurement::Thread));
        let (counts, histograms) = self.observers.network();
        let (population, sample) = (SamplePart::OF_ALL, Some(sample));
        let part = SamplePart { population, level: index, sample, counts, histograms };
        if part.counts != Counts::default() || !part.histograms.is_empty() {
            self.recording.add([Measurement::Sample(part)]);
        }
    }
}

impl Watch for RunWatch<'_> {
    fn measured(&mut self, measurement: Measurement) -> bool {
        if let (Measurement::Sample(part), Some(level)) = (&measurement, &mut self.level) {
            level.add(part);
        }
        self.recording.add([measurement]);
        self.goes_on()
    }

    fn connected(&mut self, ready: u64, wanted: u64) -> bool {
        self.progress.connected(ready, wanted);
        self.goes_on()
    }

    fn tick(&mut self, now: Nanos) -> bool {
        self.read_threads(now);
        self.read_components(now);
        self.take_reports(now);
        self.look_at_storm(|storm, platform| storm.tick(now, platform));
        self.look_at_faults(now);
        self.conduct(now);
        self.life.look(self.platform, now, &self.recording.secrets);
        let since = now - self.last_tick.replace(now).unwrap_or(now);
        if let Some(level) = &mut self.level {
            if since > STANDSTILL {
                level.stood_still += since;
            }
            let begin = level.start.hold_start - self.warm_up;
            let planned = (self.warm_up + level.expected_hold(now)).as_secs_f64();
            self.progress.level_goes_on((now - begin).as_secs_f64(), planned, &level.told(now));
        }
        self.recording.store();
        self.goes_on()
    }
}
