//! The planned faults of a level: each is ordered ahead of its time, or carried out here, and what was done is recorded.

use plimsoll_model::Nanos;
use plimsoll_model::fault::{FaultKind, FaultRecord, PlannedFault};
use plimsoll_model::record::LevelStart;
use plimsoll_platform::{FaultOver, Options, Platform};

/// So long before its time a fault is ordered.
const AHEAD: Nanos = Nanos::from_millis(500);
/// How long a component that is restarted may take to end before it is killed.
const GRACE: Nanos = Nanos::from_secs(5);
/// Guards and relays tell times of another clock, which may differ by the rounding.
const NEAR: Nanos = Nanos::from_millis(1);

/// The faults of one level, in the order of time.
pub struct Faults {
    options: Options,
    /// What the host's monotonic clock showed at time zero of the run, in nanoseconds.
    epoch: i64,
    underway: Vec<Underway>,
}

struct Underway {
    fault: PlannedFault,
    /// When it is to begin and end, on the run's clock.
    from: Nanos,
    to: Nanos,
    state: State,
    record: FaultRecord,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is to come.
    Planned,
    /// A guard or a relay has its order.
    Ordered,
    /// The component was killed.
    Down,
    /// The component was asked to end.
    Ending,
    /// It is over, or could not be done.
    Over,
}

impl Faults {
    /// Of levels to come; `options` are those with which the platform was brought up.
    pub fn new(options: Options) -> Faults {
        Faults { options, epoch: 0, underway: Vec::new() }
    }

    /// Takes in that a level begins. `epoch` is what the host's monotonic clock showed at time zero of the run.
    pub fn begin_level(&mut self, start: &LevelStart, epoch: i64) {
        self.epoch = epoch;
        let underway = |fault: &PlannedFault| Underway {
            from: start.hold_start + fault.at,
            to: start.hold_start + fault.end(),
            fault: fault.clone(),
            state: State::Planned,
            record: FaultRecord::default(),
        };
        self.underway = start.faults.iter().map(underway).collect();
    }

    /// Does what is to be done by now; whether a component has a new process.
    pub fn tick(&mut self, now: Nanos, platform: &mut Platform) -> bool {
        let mut renewed = false;
        for own in &mut self.underway {
            renewed |= own.tick(now, platform, (&self.options, self.epoch));
        }
        for over in platform.take_faults(self.epoch) {
            self.underway.iter_mut().filter(|own| own.is_meant(&over)).for_each(|own| own.take(&over.record));
        }
        renewed
    }

    /// A level that ends does not leave the platform without its component. What was done of each fault, in their order, and
    /// whether a component has a new process.
    pub fn end_level(&mut self, now: Nanos, platform: &mut Platform) -> (Vec<FaultRecord>, bool) {
        let mut renewed = self.tick(now, platform);
        for own in &mut self.underway {
            if matches!(own.state, State::Down | State::Ending) {
                renewed |= own.start_again(now, platform, &self.options);
            }
        }
        let records = std::mem::take(&mut self.underway).into_iter().map(|own| own.record);
        (records.collect(), renewed)
    }
}

impl Underway {
    fn tick(&mut self, now: Nanos, platform: &mut Platform, (options, epoch): (&Options, i64)) -> bool {
        let PlannedFault { component, kind, .. } = &self.fault;
        match (self.state, kind) {
            (State::Planned, FaultKind::Kill) if now >= self.from => {
                platform.kill(component);
                self.record.began = Some(now);
                self.record.means = "by SIGKILL to all its processes".to_owned();
                self.state = State::Down;
            }
            (State::Planned, FaultKind::Restart) if now >= self.from => {
                platform.ask_to_end(component);
                self.record.began = Some(now);
                self.record.means = "by SIGTERM to its processes".to_owned();
                self.state = State::Ending;
            }
            (State::Planned, kind) if !kind.ends_component() && now + AHEAD >= self.from => {
                self.state = State::Ordered;
                if let Err(error) = platform.plan_fault(component, *kind, (self.from, self.to), epoch) {
                    self.record.failed = Some(error.to_string());
                    self.state = State::Over;
                }
            }
            (State::Down, _) if now >= self.to => return self.start_again(now, platform, options),
            (State::Ending, _) if platform.has_ended(component) || now >= self.from + GRACE => {
                return self.start_again(now, platform, options);
            }
            _ => {}
        }
        false
    }

    fn start_again(&mut self, now: Nanos, platform: &mut Platform, options: &Options) -> bool {
        self.state = State::Over;
        match platform.end_and_start_again(&self.fault.component, options) {
            Ok(()) => {
                self.record.ended = Some(now);
                true
            }
            Err(error) => {
                self.record.failed = Some(format!("it could not be started again: {error}"));
                false
            }
        }
    }

    /// Whether that is what became of this one.
    fn is_meant(&self, over: &FaultOver) -> bool {
        let is_near = (self.from - over.from).0.abs() < NEAR.0;
        matches!(self.state, State::Ordered | State::Over)
            && self.fault.component == over.component
            && is_near
    }

    /// Several relays may stand before a component.
    fn take(&mut self, told: &FaultRecord) {
        self.state = State::Over;
        let own = &mut self.record;
        own.began = own.began.into_iter().chain(told.began).min();
        own.ended = own.ended.max(told.ended);
        own.means.clone_from(&told.means);
        own.failed = own.failed.take().or_else(|| told.failed.clone());
    }
}
