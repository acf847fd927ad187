//! What a run does now, in one small value: what a page shows of it before its result is there.

use super::State;
use super::past::Moment;
use crate::preflight::HostCheck;
use crate::{Progress, SoFar};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::{Metric, Nanos};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most warnings and ended levels that are shown: a run may have thousands of levels.
const MOST_SHOWN: usize = 100;

/// What a run does. Times are in seconds, sizes in bytes; what is not known yet is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Now {
    /// The process that runs, in a form by which it is known on its host.
    pub process: Option<String>,
    /// The run's id; empty before it is in the run store.
    pub run: String,
    /// The scenario's name; empty before the run is in the run store.
    pub name: String,
    /// Whether everything is over, also what follows the last level.
    pub is_over: bool,
    /// The step before the levels, such as bringing the platform up; empty in a level.
    pub step: String,
    /// Clients that are connected, and those that are wanted, while they connect.
    pub connected: Option<[u64; 2]>,
    /// The level that goes on.
    pub level: Option<LevelNow>,
    /// The levels that ended, the latest last.
    pub ended: Vec<EndedLevel>,
    /// The ledger since the run began.
    pub counts: CountsNow,
    /// The platform's components on this host.
    pub components: Vec<ComponentNow>,
    /// What of this host may spoil or limit the run.
    pub warnings: Vec<String>,
    /// What it did before, at equal distances of time.
    pub past: Vec<Moment>,
}

/// The level that goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelNow {
    /// Its number, from 1.
    pub number: usize,
    /// How many there will be, where that is known.
    pub of: Option<usize>,
    /// What it asks for, in words.
    pub load: String,
    /// Operations per second that it offers; null where it does not offer a rate.
    pub offered: Option<f64>,
    /// Seconds since its warm-up began.
    pub elapsed: f64,
    /// Seconds that it takes without its drain.
    pub planned: f64,
    /// Operations per second that came to their end, over the last seconds.
    pub rate: Option<f64>,
    /// The time whose mean and quantiles follow, by its name in the summary.
    pub time: String,
    /// Its mean.
    pub mean: Option<f64>,
    /// Its median.
    pub p50: Option<f64>,
    /// Its 99 % quantile.
    pub p99: Option<f64>,
    /// Messages refused, connections lost and connections that could not be made.
    pub errors: u64,
    /// Whether the generator has sent in time so far.
    pub sends_in_time: Option<bool>,
    /// Whether its subscribers have read in time so far.
    pub reads_in_time: Option<bool>,
}

/// A level that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedLevel {
    /// What it asked for, in words.
    pub load: String,
    /// Operations per second that were completed.
    pub achieved: Option<f64>,
    /// How it was judged.
    pub verdict: String,
    /// Whether the measurement is valid, by its name in the summary.
    pub validity: String,
}

/// The ledger since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountsNow {
    /// Messages that were due.
    pub due: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that the platform acknowledged.
    pub acknowledged: u64,
    /// Messages that the platform refused.
    pub refused: u64,
    /// Deliveries that the sent messages entail.
    pub expected: u64,
    /// Deliveries in time.
    pub delivered: u64,
    /// Deliveries that had not come when their level was closed.
    pub missing: u64,
    /// Connections that were lost.
    pub disconnected: u64,
}

/// A component, as it was read last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentNow {
    /// Its name.
    pub name: String,
    /// Processors that it used, as a mean over the reading.
    pub processors: f64,
    /// Resident memory in bytes.
    pub memory: u64,
}

/// What a run last reported of its progress. Shared between the run and those who ask.
#[derive(Default)]
pub struct Board(Mutex<Now>);

impl Board {
    /// What was reported.
    pub fn now(&self) -> Now {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // What was written is whole even where another thread panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes in progress, and passes it on.
pub struct Followed<P> {
    inner: P,
    board: Option<Arc<Board>>,
    leading: &'static str,
}

impl<P> Followed<P> {
    /// Of that progress; nothing is taken in without a board.
    pub fn new(inner: P, board: Option<Arc<Board>>) -> Followed<P> {
        Followed { inner, board, leading: Metric::PublishTime.name() }
    }

    fn note(&self, change: impl FnOnce(&mut Now)) {
        if let Some(board) = &self.board {
            change(&mut board.lock());
        }
    }
}

impl<P: Progress> Progress for Followed<P> {
    fn run_begun(&mut self, leading: Metric) {
        self.leading = leading.name();
        // What an earlier run of a schedule left is forgotten.
        self.note(|now| *now = Now::default());
        self.inner.run_begun(leading);
    }

    fn run_over(&mut self) {
        self.note(|now| (now.level, now.connected, now.step) = (None, None, "the run is over".into()));
        self.inner.run_over();
    }

    fn warned(&mut self, finding: &HostCheck) {
        self.note(|now| {
            if now.warnings.len() < MOST_SHOWN {
                now.warnings.push(finding.to_string());
            }
        });
        self.inner.warned(finding);
    }

    fn step(&mut self, what: &str) {
        self.note(|now| (now.level, now.connected, now.step) = (None, None, what.to_owned()));
        self.inner.step(what);
    }

    fn connected(&mut self, ready: u64, wanted: u64) {
        self.note(|now| now.connected = Some([ready, wanted]));
        self.inner.connected(ready, wanted);
    }

    fn level_begun(&mut self, number: usize, of: Option<usize>, label: &str) {
        let time = self.leading.to_owned();
        let level = LevelNow { number, of, load: label.to_owned(), time, ..LevelNow::default() };
        self.note(|now| (now.level, now.connected, now.step) = (Some(level), None, String::new()));
        self.inner.level_begun(number, of, label);
    }

    fn level_goes_on(&mut self, elapsed: f64, planned: f64, so_far: &SoFar) {
        let seconds = |time: Option<Nanos>| time.map(Nanos::as_secs_f64);
        self.note(|now| {
            let Some(level) = &mut now.level else { return };
            (level.elapsed, level.planned) = (elapsed, planned);
            (level.mean, level.p50, level.p99) =
                (seconds(so_far.mean), seconds(so_far.p50), seconds(so_far.p99));
            (level.rate, level.errors) = (so_far.rate, so_far.errors);
            (level.sends_in_time, level.reads_in_time) = (so_far.sends_in_time, so_far.reads_in_time);
        });
        self.inner.level_goes_on(elapsed, planned, so_far);
    }

    fn level_ended(&mut self, level: &LevelSummary) {
        let ended = EndedLevel {
            load: level.load.to_string(),
            achieved: level.achieved,
            verdict: level.verdict.name().to_owned(),
            validity: level.validity.name().to_owned(),
        };
        self.note(|now| {
            now.ended.push(ended);
            let too_many = now.ended.len().saturating_sub(MOST_SHOWN);
            now.ended.drain(..too_many);
            now.level = None;
        });
        self.inner.level_ended(level);
    }
}

impl State {
    /// Adds what was measured to what was reported.
    pub(super) fn add_to(&self, now: &mut Now) {
        (now.run, now.name) = (self.run.clone(), self.name.clone());
        if let (Some(level), Some(start)) = (&mut now.level, &self.level) {
            level.offered = start.load.offered();
        }
        let counts = &self.counts;
        now.counts = CountsNow {
            due: counts.due,
            sent: counts.sent,
            acknowledged: counts.acknowledged,
            refused: counts.refused,
            expected: counts.expected_deliveries,
            delivered: counts.delivered,
            missing: counts.missing_acknowledged + counts.missing_unacknowledged,
            disconnected: counts.disconnected,
        };
        let component = |(name, component): (&String, &super::Component)| ComponentNow {
            name: name.clone(),
            processors: component.last.cpu.as_secs_f64() / component.last.window.as_secs_f64().max(1e-9),
            memory: component.last.rss,
        };
        now.components = self.components.iter().map(component).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Live;
    use plimsoll_model::record::{ComponentUsage, LevelStart, Measurement, SamplePart};
    use plimsoll_model::{Counts, Load};

    /// Counts how often it was called.
    #[derive(Default)]
    struct Counting(usize);

    impl Progress for Counting {
        fn run_begun(&mut self, _: Metric) {
            self.0 += 1;
        }
        fn run_over(&mut self) {
            self.0 += 1;
        }
        fn warned(&mut self, _: &HostCheck) {
            self.0 += 1;
        }
        fn step(&mut self, _: &str) {
            self.0 += 1;
        }
        fn connected(&mut self, _: u64, _: u64) {
            self.0 += 1;
        }
        fn level_begun(&mut self, _: usize, _: Option<usize>, _: &str) {
            self.0 += 1;
        }
        fn level_goes_on(&mut self, _: f64, _: f64, _: &SoFar) {
            self.0 += 1;
        }
        fn level_ended(&mut self, _: &LevelSummary) {
            self.0 += 1;
        }
    }

    #[test]
    fn progress_is_taken_in_and_passed_on() {
        let board = Arc::new(Board::default());
        let mut followed = Followed::new(Counting::default(), Some(Arc::clone(&board)));
        followed.run_begun(Metric::SubscribeTime);
        followed.warned(&HostCheck::warning("host", "slow", "a faster one"));
        followed.step("connecting");
        followed.connected(3, 10);
        let now = board.now();
        assert_eq!((now.step.as_str(), now.connected), ("connecting", Some([3, 10])));
        assert_eq!(now.warnings, ["slow: a faster one"]);
        followed.level_begun(2, Some(5), "100/s");
        let so_far =
            SoFar { rate: Some(99.5), p99: Some(Nanos::from_millis(7)), errors: 4, ..SoFar::default() };
        followed.level_goes_on(1.5, 10.0, &so_far);
        let level = board.now().level.unwrap();
        assert_eq!((level.number, level.of, level.load.as_str()), (2, Some(5), "100/s"));
        assert_eq!((level.rate, level.p50, level.p99), (Some(99.5), None, Some(0.007)));
        assert_eq!((level.time.as_str(), level.errors), ("subscribe_time", 4));
        followed.run_over();
        assert!(board.now().level.is_none());
        followed.run_begun(Metric::PublishTime);
        assert_eq!(board.now(), Now::default(), "another run begins with nothing");
        assert_eq!(followed.inner.0, 8);
    }

    #[test]
    fn what_was_measured_is_added_and_read_as_it_was_written() {
        let live = Live::default();
        live.begin("small", "abc");
        let start = LevelStart { load: Load::Rate(200.0), ..LevelStart::default() };
        live.add(&Measurement::LevelStarted(start));
        let counts = Counts { due: 5, sent: 4, missing_acknowledged: 1, ..Counts::default() };
        live.add(&Measurement::Sample(SamplePart { counts, ..SamplePart::default() }));
        live.add(&Measurement::Component(ComponentUsage {
            component: "broker".into(),
            window: Nanos::from_secs(2),
            cpu: Nanos::from_secs(1),
            rss: 4096,
            ..ComponentUsage::default()
        }));
        let mut now = Now { level: Some(LevelNow::default()), ..Now::default() };
        live.add_to(&mut now);
        assert_eq!((now.name.as_str(), now.run.as_str()), ("small", "abc"));
        assert_eq!(now.level.as_ref().unwrap().offered, Some(200.0));
        assert_eq!((now.counts.due, now.counts.sent, now.counts.missing), (5, 4, 1));
        let component = ComponentNow { name: "broker".into(), processors: 0.5, memory: 4096 };
        assert_eq!(now.components, [component]);
        let text = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Now>(&text).unwrap(), now);
    }
}
