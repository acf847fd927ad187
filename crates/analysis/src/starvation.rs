//! Whether processes outside the platform held its processors: a component is not slow because others would not let it run.

use plimsoll_model::record::{ComponentUsage, LevelStart};

/// Share of a hold for which others may hold a component's processor before a miss is the host's.
const HELD: f64 = 0.05;

/// The component that was kept waiting most.
#[derive(Clone, Debug, PartialEq)]
pub struct Starved {
    /// Its name.
    pub component: String,
    /// Share of the hold in which it was ready to run while others held the processors that it may run on.
    pub share: f64,
    /// Processor that it used, 1 for a whole one.
    pub used: f64,
    /// Who held them longest, where that is known.
    pub holder: Option<String>,
}

impl Starved {
    /// Whether it is too much for the component to be blamed.
    pub fn is_robbed(&self) -> bool {
        self.share > HELD
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

/// The component that others kept waiting most in a hold; `None` where that could not be read. Readings count as far as they
/// lie in the hold.
pub fn in_hold(components: &[ComponentUsage], level: &LevelStart) -> Option<Starved> {
    let begin = level.hold_start.as_secs_f64();
    let end = begin + level.hold.as_secs_f64();
    let mut names: Vec<&str> = components.iter().map(|usage| usage.component.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &&str| {
        let (mut held, mut used, mut covered) = (0.0, 0.0, 0.0);
        let mut holder: Option<(f64, &String)> = None;
        for usage in components.iter().filter(|usage| usage.component == *name) {
            let (at, window) = (usage.at.as_secs_f64(), usage.window.as_secs_f64());
            let within = (at.min(end) - (at - window).max(begin)).max(0.0);
            let Some(others) = usage.held_by_others.filter(|_| window > 0.0 && within > 0.0) else {
                continue;
            };
            let part = within / window;
            held += others.as_secs_f64() * part;
            used += usage.cpu.as_secs_f64() * part;
            covered += within;
            let longest = holder.is_none_or(|(most, _)| others.as_secs_f64() > most);
            if let Some(name) = usage.holder.as_ref().filter(|_| longest) {
                holder = Some((others.as_secs_f64(), name));
            }
        }
        (covered > 0.0).then(|| Starved {
            component: (*name).to_owned(),
            share: held / covered,
            used: used / covered,
            holder: holder.map(|(_, name)| name.clone()),
        })
    };
    names.iter().filter_map(of).max_by(|a, b| a.share.total_cmp(&b.share))
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
            rss: 0,
            descriptors: 0,
        };
        let level = LevelStart {
            index: 0,
            offered: None,
            in_flight: None,
            devices: None,
            connect_rate: None,
            hold_start: Nanos::from_secs(2),
            hold: Nanos::from_secs(2),
            samples: 2,
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
        assert!(
            starved.is_robbed() && starved.in_words().contains("stress (pid 7)"),
            "{}",
            starved.in_words()
        );
        assert!(!in_hold(&components[..3], &level).unwrap().is_robbed());
        assert_eq!(in_hold(&[], &level), None);
    }
}
