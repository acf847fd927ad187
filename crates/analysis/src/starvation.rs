//! Whether processes outside the platform held its processors: a component is not slow because others would not let it run.

use crate::usage;
use plimsoll_model::record::{ComponentUsage, LevelStart};

/// Share of a hold for which others may hold a component's processor before a miss is the host's.
const HELD: f64 = 0.05;

/// Processor that a component must use for it to be what load threads waited for.
const TAKEN: f64 = 0.3;

/// The component that was kept waiting most.
#[derive(Clone, Debug, PartialEq)]
pub struct Starved {
    /// Its name.
    pub component: String,
    /// Share of the hold in which it was ready to run while others held the processors that it may run on.
    pub share: f64,
    /// The same for all components together: a message may have waited for each of them.
    pub of_all: f64,
    /// Processor that it used, 1 for a whole one.
    pub used: f64,
    /// Share of the hold for which its own quota kept it from running.
    pub throttled: f64,
    /// Who held them longest, where that is known.
    pub holder: Option<String>,
}

impl Starved {
    /// Whether it is too much for the component to be blamed. Its own quota is no fault of others: where that kept it longer, it was
    /// the limit.
    pub fn is_robbed(&self) -> bool {
        self.share > HELD && self.share > self.throttled
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let holder = self.holder.as_ref().map(|holder| format!(" ({holder})")).unwrap_or_default();
        format!(
            "processes outside the platform{holder} held the processor of {} for {:.0} % of the hold (bound 5 %); it used {:.0} %",
            self.component,
            self.share * 100.0,
            self.used * 100.0
        )
    }
}

/// The component that took most of a processor on which load threads run, too, and that in words; `None` where none took so
/// much that it could have kept them waiting.
pub fn beside_load(components: &[ComponentUsage], level: &LevelStart) -> Option<String> {
    let span = usage::hold(level);
    let of = |name: &str| {
        let used = usage::share(components, name, &span, |usage| usage.beside_load.then_some(usage.cpu))?;
        (used > TAKEN).then(|| (name.to_owned(), used))
    };
    let all = usage::names(components).into_iter().filter_map(of);
    let (name, used) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let used = used * 100.0;
    Some(format!("{name} used {used:.0} % of a processor, and it may run on those of the load threads"))
}

/// The component that others kept waiting most in a hold; `None` where that could not be read. Readings count as far as they
/// lie in the hold.
pub fn in_hold(components: &[ComponentUsage], level: &LevelStart) -> Option<Starved> {
    let span = usage::hold(level);
    let of = |name: &str| {
        // What was not read of others is no reading of the component here either.
        let used = |usage: &ComponentUsage| usage.held_by_others.map(|_| usage.cpu);
        Some(Starved {
            component: name.to_owned(),
            share: usage::share(components, name, &span, |usage| usage.held_by_others)?,
            of_all: 0.0,
            used: usage::share(components, name, &span, used)?,
            throttled: usage::share(components, name, &span, |usage| Some(usage.throttled))?,
            holder: usage::holder(components, name, &span),
        })
    };
    let starved: Vec<Starved> = usage::names(components).into_iter().filter_map(of).collect();
    let of_all = starved.iter().map(|starved| starved.share).sum();
    let most = starved.into_iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    Some(Starved { of_all, ..most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    #[test]
    fn the_component_that_waited_most_for_others_is_named_with_who_held_its_processor() {
        let usage = |component: &str, at: i64, held: i64| ComponentUsage {
            component: component.into(),
            at: Nanos::from_secs(at),
            window: Nanos::from_secs(1),
            cpu: Nanos::from_millis(50),
            run_delay: Some(Nanos::from_millis(900)),
            held_by_others: Some(Nanos::from_millis(held)),
            processors: Some(1),
            holder: Some("stress (pid 7)".into()),
            ..ComponentUsage::default()
        };
        let level = LevelStart {
            hold_start: Nanos::from_secs(2),
            hold: Nanos::from_secs(2),
            samples: 2,
            ..LevelStart::default()
        };
        // The first reading lies before the hold.
        let components = [
            usage("a", 2, 999),
            usage("a", 3, 20),
            usage("a", 4, 20),
            usage("b", 3, 550),
            usage("b", 4, 550),
        ];
        let starved = in_hold(&components, &level).unwrap();
        assert_eq!((starved.component.as_str(), (starved.share * 100.0).round()), ("b", 55.0));
        assert_eq!((starved.of_all * 100.0).round(), 57.0);
        assert!(
            starved.is_robbed() && starved.in_words().contains("stress (pid 7)"),
            "{}",
            starved.in_words()
        );
        let limited = ComponentUsage { throttled: Nanos::from_millis(700), ..usage("b", 4, 550) };
        let starved = in_hold(&[limited], &level).unwrap();
        assert!(!starved.is_robbed(), "its own quota kept it longer: {starved:?}");
        assert!(!in_hold(&components[..3], &level).unwrap().is_robbed());
        assert_eq!(in_hold(&[], &level), None);
    }

    #[test]
    fn who_takes_the_processors_of_load_threads_is_told() {
        let usage = |component: &str, cpu: i64, beside_load: bool| ComponentUsage {
            component: component.into(),
            at: Nanos::from_secs(3),
            window: Nanos::from_secs(1),
            cpu: Nanos::from_millis(cpu),
            beside_load,
            ..ComponentUsage::default()
        };
        let hold_start = Nanos::from_secs(2);
        let level = LevelStart { hold_start, hold: Nanos::from_secs(1), samples: 1, ..LevelStart::default() };
        let told = |components: &[ComponentUsage]| beside_load(components, &level);
        let both = [usage("broker", 980, true), usage("store", 990, false)];
        assert!(told(&both).is_some_and(|told| told.starts_with("broker used 98 % of a processor")));
        assert_eq!(told(&both[1..]), None, "it has processors of its own");
        assert_eq!(told(&[usage("broker", 100, true)]), None);
    }
}
