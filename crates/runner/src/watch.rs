//! Stands beside the engine while it works: stores what is measured, reads the platform's processes and the load
//! threads, notices a platform that dies and a user who wants to stop.

use crate::identity;
use crate::observers::Observers;
use crate::secrets::Secrets;
use crate::so_far::Gathering;
use crate::storm::Storm;
use crate::tap::Tap;
use crate::token::Happenings;
use crate::{Options, Progress};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_load::engine::{Engine, Watch};
use plimsoll_load::run_context::Token;
use plimsoll_model::record::{DeathRecord, LevelEnd, LevelStart, Measurement, SamplePart, Terms};
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Nanos, RunId};
use plimsoll_observe::network::NetworkProbe;
use plimsoll_observe::vigil::Vigil;
use plimsoll_platform::{Death, Platform, pause, unless_stopped};
use plimsoll_scenario::plan::{Plan, Protocol};
use plimsoll_store::{Added, RunPosition, RunWriter, StoreError};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the readings of the platform's processes are taken over.
const COMPONENT_INTERVAL: Nanos = Nanos::from_secs(1);

/// How long an answer is awaited at the address of a platform whose clients were lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// After which it is asked once more whether it is there.
const AGAIN: Duration = Duration::from_millis(500);

/// The engine calls ten times a second: after so long without a call this process stood still.
const STANDSTILL: Nanos = Nanos::from_millis(700);

/// See the module.
pub struct RunWatch<'a> {
    writer: &'a mut RunWriter,
    platform: &'a mut Platform,
    progress: &'a mut dyn Progress,
    stop: Arc<AtomicBool>,
    levels: Option<usize>,
    warm_up: Nanos,
    pending: Vec<Measurement>,
    observers: Observers,
    next_component_reading: Nanos,
    /// Whether the connections were looked at since the hold began.
    tcp_counts: bool,
    level: Option<LevelStart>,
    /// What the level shows so far, and what decides it.
    gathering: Option<Gathering>,
    terms: Terms,
    next_sample: u16,
    /// Operations of each sample of the level that were completed or answered.
    completed: Vec<u64>,
    /// Operations of each sample of the level that were due.
    due: Vec<u64>,
    /// Operations of the level, its warm-up included, that were due and have not come to their end.
    open: u64,
    death: Option<DeathRecord>,
    /// Whether all that is known of the platform is its address, over TCP, and nobody plans that it ends.
    is_unwatched: bool,
    /// Over components that were not started by the run.
    vigils: Vec<(String, Vigil)>,
    /// When the engine called last, and for how long this process stood still since the level began.
    last_tick: Option<Nanos>,
    stood_still: Nanos,
    storm: Option<Storm>,
    /// What the storm did in this level.
    stormed: Vec<String>,
    /// What befell the access token.
    happenings: Option<&'a Happenings>,
    /// Captures packets, and wants to know whose connections are whose.
    tap: Option<&'a mut Tap>,
    failure: Option<StoreError>,
    secrets: Secrets,
    /// The access tokens, which a component may have written down.
    token: Arc<Token>,
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
        let is_unwatched = platform.simulation().is_none()
            && plan.platform.profile.components.is_empty()
            && plan.load.storm.is_none()
            && plan.protocol() != Protocol::Coap;
        RunWatch {
            observers: Observers::new(platform, engine, network, plan.record.network != Some(false)),
            tcp_counts: false,
            writer,
            platform,
            progress,
            stop: Arc::clone(&options.stop),
            levels: None,
            warm_up: plan.load.warm_up,
            pending: Vec::new(),
            next_component_reading: Nanos::ZERO,
            level: None,
            gathering: None,
            terms: identity::terms(plan),
            next_sample: 0,
            completed: Vec::new(),
            due: Vec::new(),
            open: 0,
            death: None,
            is_unwatched,
            vigils: Vec::new(),
            last_tick: None,
            stood_still: Nanos::ZERO,
            storm: None,
            stormed: Vec::new(),
            happenings: None,
            tap: None,
            failure: None,
            secrets: Secrets::of(plan),
            token: engine.given().first().map(|given| Arc::clone(&given.token)).unwrap_or_default(),
        }
    }

    /// Lets a storm break out in every level.
    pub fn with_storm(mut self, storm: Option<Storm>) -> RunWatch<'a> {
        self.storm = storm;
        self
    }

    /// Watches processes of the platform that were not started by the run, too, and notices that a component of it ends.
    pub fn with_running(mut self, running: Vec<(String, i32)>, vigils: Vec<(String, Vigil)>) -> RunWatch<'a> {
        self.observers.add(running);
        self.vigils = vigils;
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
        self.progress.step(&self.secrets.hide(what));
    }

    /// Where devices connect.
    pub fn platform_address(&self) -> SocketAddr {
        self.platform.address()
    }

    /// Stores what the reader of the result must know of the run.
    pub fn note(&mut self, note: &str) {
        if self.failure.is_none() {
            self.failure = self.writer.add_note(self.secrets.hide(note)).err();
        }
    }

    /// Takes in how many levels there will be, where that is known.
    pub fn expect_levels(&mut self, levels: Option<usize>) {
        self.levels = levels;
    }

    /// Stores that a level begins; `purpose` says what it is for, where it is not one of a list, and `number` which it is.
    pub fn begin_level(&mut self, start: &LevelStart, purpose: &str, number: usize) {
        self.measured_now(Measurement::LevelStarted(start.clone()));
        let label = plimsoll_analysis::level::label(start);
        let label = if purpose.is_empty() { label } else { format!("{label} ({purpose})") };
        self.progress.level_begun(number, self.levels, &label);
        self.stood_still = Nanos::ZERO;
        self.completed = vec![0; usize::from(start.samples)];
        self.due = vec![0; usize::from(start.samples)];
        self.open = 0;
        self.next_sample = 0;
        self.level = Some(start.clone());
        self.gathering = Some(Gathering::new(&self.terms, start.hold));
        self.observers.begin_level();
        if let Some(storm) = &mut self.storm {
            storm.begin_level(start.hold_start);
        }
    }

    fn note_storm(&mut self, done: Option<(String, bool)>) {
        if let Some((told, new_process)) = done {
            self.stormed.push(told);
            if new_process {
                self.observers.renew(self.platform);
            }
        }
    }

    /// Adds to a level's end what the engine cannot know, also whether the platform is gone, so that higher levels
    /// would tell nothing. A level that the user cut short tells nothing of that by its silence.
    pub fn end_level(&mut self, end: &mut LevelEnd, stopped: bool) {
        let level = self.level.take();
        let hold_end = level.as_ref().map(|level| level.hold_start + end.hold.unwrap_or(level.hold));
        let cut_by_time = level.as_ref().and_then(|level| self.cut_by_time(level)).filter(|_| !stopped);
        if let Some((level, hold)) = level.zip(end.hold) {
            let piece = (level.hold / i64::from(level.samples.max(1))).max(Nanos(1));
            let held = usize::try_from(hold.0 / piece.0 + 1).unwrap_or(usize::MAX);
            self.completed.truncate(held);
            self.due.truncate(held);
        }
        let done = self.storm.as_mut().and_then(|storm| storm.end_level(end.at, self.platform));
        self.note_storm(done);
        if self.death.is_none() && !stopped {
            let missing = self.platform.take_missing(&self.stop);
            self.death = missing.map(|death| self.recorded(death, end.at));
        }
        let last_third = self.completed.len() - self.completed.len() / 3 - 1;
        // Where nothing was asked, silence is no answer.
        let asked = self.open > 0 || self.due.iter().skip(last_third).any(|&due| due > 0);
        let silent = self.completed.iter().skip(last_third).all(|&completed| completed == 0) && asked;
        // Who answers in the drain stood still, or was overloaded, and is there.
        let came_back = end.last_done.zip(hold_end).is_some_and(|(last, hold_end)| last >= hold_end);
        // As long as anybody is served, a connection that is refused is a refusal.
        let lost = end.outages.as_ref().is_some_and(|outages| outages.lost > outages.back);
        let deserted = lost && end.connected == 0;
        if self.death.is_none() && !stopped && (deserted || silent && !came_back) {
            self.death = self.away(end);
        }
        let mut told: Vec<String> = Vec::new();
        // Of a process that stood still itself, silence says nothing.
        if silent && !came_back && self.death.is_none() && !stopped && self.stood_still == Nanos::ZERO {
            told.push("nothing was completed in the last third of the level".into());
        }
        end.platform_gone = !told.is_empty() || self.death.is_some();
        end.death = self.death.clone();
        end.stood_still = self.stood_still;
        told.extend(cut_by_time.filter(|_| !end.platform_gone));
        told.append(&mut self.stormed);
        told.extend(self.happenings.iter().flat_map(|happenings| happenings.take()));
        let since = if self.warm_up > Nanos::ZERO { " (counted with the warm-up)" } else { "" };
        told.extend(end.incident.take().map(|incident| format!("{incident}{since}")));
        end.incident = (!told.is_empty()).then(|| self.secrets.hide(&told.join("; ")));
    }

    /// Says of a level that was to end after a number of messages that its time was over before.
    fn cut_by_time(&self, level: &LevelStart) -> Option<String> {
        let due: u64 = self.due.iter().sum();
        let messages = level.messages.filter(|&messages| due < messages)?;
        let [due, messages] = [due as f64, messages as f64].map(grouped);
        Some(format!("the level ended by time: {due} of its {messages} messages were due by then"))
    }

    /// How long the hold takes, as far as it can be told now.
    fn expected_hold(&self, level: &LevelStart, now: Nanos) -> Nanos {
        let due: u64 = self.due.iter().sum();
        let messages = level.messages.filter(|_| level.put_together.is_some() && due > 0);
        let so_far = (now - level.hold_start).as_secs_f64();
        let expected = messages.map(|messages| Nanos::from_secs_f64(so_far * messages as f64 / due as f64));
        expected.map_or(level.hold, |expected| expected.min(level.hold))
    }

    /// A platform whose processes nobody watches, at whose address nobody listens any more after its clients were lost. A
    /// network that is cut answers otherwise, or not at all.
    fn away(&self, end: &LevelEnd) -> Option<DeathRecord> {
        let address = self.platform.address();
        let refuses = || {
            let asked = unless_stopped(&self.stop, move || TcpStream::connect_timeout(&address, PATIENCE));
            asked.is_some_and(|asked| asked.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
        };
        // Twice: a server that starts its listener again refuses for a moment.
        let refused = self.is_unwatched && refuses() && pause(&self.stop, AGAIN) && refuses();
        refused.then(|| DeathRecord {
            component: format!("the platform at {address}"),
            status: "nobody listens there any more".into(),
            at: end.last_done.unwrap_or(end.at),
            last_words: String::new(),
        })
    }

    /// The component that ended by itself, if one did.
    pub fn death(&self) -> Option<DeathRecord> {
        self.death.clone()
    }

    fn recorded(&self, death: Death, at: Nanos) -> DeathRecord {
        let Death { component, status, last_words } = death;
        let last_words = self.token.hide(&self.secrets.hide(&last_words));
        DeathRecord { component, status, at, last_words }
    }

    /// What was recorded of the run since that position.
    ///
    /// # Errors
    /// The store is damaged or gone.
    pub fn added(&self, id: RunId, position: &mut RunPosition) -> Result<Added, StoreError> {
        self.writer.reader().added(&id.to_string(), position)
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
            tap.look(self.observers.processes());
        }
        self.pending.extend(self.observers.components(now).into_iter().map(Measurement::Component));
        let gauges = self.observers.gauges(now);
        if !gauges.is_empty() {
            self.pending.push(Measurement::Gauges(gauges));
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
            return self.observers.restart(now);
        }
        if self.next_sample < level.samples && !self.tcp_counts {
            // What was sent again before the hold belongs to none of its samples.
            self.tcp_counts = true;
            let _ = self.observers.network();
        }
        if self.next_sample < level.samples && now >= sample_end(self.next_sample) {
            // After a hiccup of ours one reading covers several samples, and is booked under the last of them.
            while self.next_sample + 1 < level.samples && now >= sample_end(self.next_sample + 1) {
                self.next_sample += 1;
            }
            let usages = self.observers.threads(now, level.index, self.next_sample);
            self.pending.extend(usages.into_iter().map(Measurement::Thread));
            let sample = Some(self.next_sample);
            let (counts, histograms) = self.observers.network();
            let part =
                SamplePart { population: SamplePart::OF_ALL, level: level.index, sample, counts, histograms };
            if part.counts != Counts::default() || !part.histograms.is_empty() {
                self.pending.push(Measurement::Sample(part));
            }
            self.next_sample += 1;
        }
    }
}

/// A component that others have started and that has ended. How is known to its parent alone.
fn departed(vigils: &mut [(String, Vigil)]) -> Option<Death> {
    vigils.iter_mut().find_map(|(name, vigil)| {
        let process = vigil.ended()?;
        let status = format!("its process {process} ended; how is not known, since others started it");
        Some(Death { component: name.clone(), status, last_words: String::new() })
    })
}

impl Watch for RunWatch<'_> {
    fn measured(&mut self, measurement: Measurement) -> bool {
        if let Measurement::Sample(part) = &measurement {
            if let Some(gathering) = &mut self.gathering {
                gathering.add(part);
            }
            let Counts { due, completed, refused, answers, .. } = part.counts;
            self.open = (self.open + due).saturating_sub(completed + refused);
            let sample = part.sample.map(usize::from);
            if let Some(sum) = sample.and_then(|sample| self.due.get_mut(sample)) {
                *sum += due;
            }
            if let Some(sum) = sample.and_then(|sample| self.completed.get_mut(sample)) {
                // Who refuses is there.
                *sum += completed + answers;
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
            let death = self.platform.take_death().or_else(|| departed(&mut self.vigils));
            self.death = death.map(|death| self.recorded(death, now));
        }
        let since = now - self.last_tick.replace(now).unwrap_or(now);
        if since > STANDSTILL {
            self.stood_still += since;
        }
        let expected = self.level.as_ref().map(|level| self.expected_hold(level, now));
        if let (Some(level), Some(hold), Some(gathering)) = (&self.level, expected, &mut self.gathering) {
            let begin = level.hold_start - self.warm_up;
            let planned = (self.warm_up + hold).as_secs_f64();
            self.progress.level_goes_on((now - begin).as_secs_f64(), planned, &gathering.told(now));
        }
        self.store();
        self.goes_on()
    }
}
