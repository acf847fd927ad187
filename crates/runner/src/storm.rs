//! The reconnect storm: kills a component of the platform within each hold and starts it again.

use plimsoll_model::Nanos;
use plimsoll_platform::{Options, Platform};
use plimsoll_scenario::plan::StormPlan;

/// The storm of one run.
pub struct Storm {
    plan: StormPlan,
    options: Options,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing is to come in this level.
    Calm,
    /// The component is to be killed.
    Brewing(Nanos),
    /// It was killed at the first time, and is to be started again at the second.
    Down(Nanos, Nanos),
}

impl Storm {
    /// A storm; `options` are those with which the platform was brought up.
    pub fn new(plan: StormPlan, options: Options) -> Storm {
        Storm { plan, options, state: State::Calm }
    }

    /// Takes in that a level with that hold begins.
    pub fn begin_level(&mut self, hold_start: Nanos) {
        self.state = State::Brewing(hold_start + self.plan.after);
    }

    /// Does what is to be done by now; returns what was done, for people, and whether a process is new.
    pub fn tick(&mut self, now: Nanos, platform: &mut Platform) -> Option<(String, bool)> {
        let name = &self.plan.component;
        match self.state {
            State::Brewing(at) if now >= at => {
                platform.kill(name);
                self.state = State::Down(now, now + self.plan.down);
                let late = now - at;
                let after = self.plan.after + late;
                Some((format!("{name} was killed {after} into the hold"), false))
            }
            State::Down(killed, until) if now >= until => Some(self.start_again(now - killed, platform)),
            _ => None,
        }
    }

    /// A level that ended early, or took its time, does not leave the platform without its component.
    pub fn end_level(&mut self, now: Nanos, platform: &mut Platform) -> Option<(String, bool)> {
        let state = std::mem::replace(&mut self.state, State::Calm);
        match state {
            State::Down(killed, _) => Some(self.start_again(now - killed, platform)),
            State::Calm | State::Brewing(_) => None,
        }
    }

    fn start_again(&mut self, down: Nanos, platform: &mut Platform) -> (String, bool) {
        self.state = State::Calm;
        let name = &self.plan.component;
        match platform.start_again(name, &self.options) {
            Ok(()) => (format!("{name} was started again {down} later"), true),
            Err(error) => (format!("{name} could not be started again: {error}"), false),
        }
    }
}
