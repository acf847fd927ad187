//! How long a run takes, and how much is due in it.

use crate::plan::{LevelPlan, Plan};
use plimsoll_model::Nanos;
use std::time::Duration;

impl Plan {
    /// How long the run takes if every drain takes its whole time: connecting, and each level's warm-up, hold and
    /// drain, or the time of the search. Starting a platform comes on top.
    pub fn longest_duration(&self) -> Nanos {
        let experiment = self.load.experiment.map_or(Nanos::ZERO, |experiment| experiment.within);
        if let Some(search) = &self.load.search {
            return self.connecting() + search.time + self.load.idle_after + experiment;
        }
        let besides = self.load.idle_before + self.load.warm_up + self.load.drain;
        let levels = match self.load.calibration {
            Some(calibration) => (besides + self.load.hold) * i64::from(calibration.attempts),
            None => self.load.levels.iter().map(|level| besides + self.hold_of(*level)).sum(),
        };
        let besides = self.connecting_in_levels() + self.holding_again() + self.load.idle_after;
        self.connecting() + levels + besides + experiment
    }

    /// What levels that decide nothing may take in addition.
    pub(crate) fn holding_again(&self) -> Nanos {
        let can = |level: &LevelPlan| !level.connects();
        let any =
            self.load.levels.iter().any(can) && self.load.storm.is_none() && self.load.faults.is_empty();
        if any { self.load.again } else { Nanos::ZERO }
    }

    /// How long so many runs like this one take at most, for people.
    pub fn longest_duration_of(&self, runs: usize) -> String {
        clock(Nanos::from_secs_f64(self.longest_duration().as_secs_f64() * runs as f64))
    }

    /// The planned connecting of all levels, where they connect devices themselves.
    pub(crate) fn connecting_in_levels(&self) -> Nanos {
        let mut connected = 0u32;
        let seconds = self.load.levels.iter().map(|level| match *level {
            LevelPlan::Devices { devices, .. } => {
                let missing = devices.saturating_sub(std::mem::replace(&mut connected, devices));
                f64::from(missing) / self.load.connect_rate
            }
            LevelPlan::ConnectRate(rate) => f64::from(self.all_devices()) / rate,
            _ => 0.0,
        });
        Nanos::from_secs_f64(seconds.sum())
    }

    /// Messages due in the holds of all levels together; `None` in the closed model and where levels are searched, where the platform
    /// decides.
    pub fn messages_due(&self) -> Option<f64> {
        if self.load.search.is_some() || self.load.calibration.is_some() {
            return None;
        }
        let due = |level: &LevelPlan| {
            let rate = Some(level.rate()).filter(|rate| *rate > 0.0)?;
            Some(rate * self.hold_of(*level).as_secs_f64())
        };
        self.load.levels.iter().map(due).sum()
    }

    /// Deliveries of all those messages, if everything arrives.
    pub(crate) fn deliveries_due(&self) -> f64 {
        let of_level = |level: &LevelPlan| -> f64 {
            let shares = self.populations().zip(self.shares_of(*level));
            let per_second: f64 = shares.map(|(plan, share)| plan.deliveries_of_each() * share.rate()).sum();
            per_second * self.hold_of(*level).as_secs_f64()
        };
        self.load.levels.iter().map(of_level).sum()
    }

    /// Deliveries of a message on average: of subscribers who follow some devices, each has its part.
    fn deliveries_of_each(&self) -> f64 {
        let receivers = if self.subscribers.share.is_some() { 1 } else { self.subscribers.count };
        let followed = f64::from(self.subscribers.followed(self.devices)) / f64::from(self.devices.max(1));
        f64::from(receivers) * followed
    }

    /// Clients that are connected before the first level.
    pub(crate) fn clients(&self) -> u64 {
        let before = if self.load.connects_in_levels() { 0 } else { u64::from(self.all_devices()) };
        before + u64::from(self.all_subscribers())
    }

    pub(crate) fn connecting(&self) -> Nanos {
        Nanos::from_secs_f64(self.clients() as f64 / self.load.connect_rate)
    }
}

/// A time in hours, minutes and whole seconds, rounded up.
pub(crate) fn clock(time: Nanos) -> String {
    let time: Duration = time.to_duration();
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
