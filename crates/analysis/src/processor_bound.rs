//! An upper bound of the load line where nothing above it could be measured: a component falls behind at the latest where its
//! processors are full. Its use of them is read on this host, whatever became of the times (the utilisation law, see `laws`).

use crate::laws::ComponentLaws;
use crate::level::LevelSummary;
use plimsoll_model::text::grouped;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The part of its processors that a component must have used at the highest load: what is below says little of what is above.
const EVIDENT: f64 = 0.5;
/// How much higher than the load before the highest one must be, so that what it cost more is no chance.
const RISE: f64 = 1.1;

/// A load at which a component has no processor left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProcessorBound {
    /// Operations per second.
    pub rate: f64,
    /// Which component.
    pub component: String,
    /// What it used at the highest load that was run, 1 for a whole processor.
    pub used: f64,
    /// That load as it was achieved, in operations per second.
    pub at: f64,
    /// How many processors it can use at once.
    pub processors: f64,
}

impl ProcessorBound {
    /// For people.
    pub fn in_words(&self) -> String {
        let (component, used) = (&self.component, self.used / self.processors * 100.0);
        let (at, rate) = (grouped(self.at.round()), grouped(rounded(self.rate).round()));
        format!(
            "{component} used {used:.0} % of the processor time that it can get at {at}/s: if each further message costs as much, it \
             needs all of it at about {rate}/s"
        )
    }
}

/// The lowest bound that any component has; `None` where none used enough, or loads differ in something else.
pub fn find(levels: &[LevelSummary], laws: &[ComponentLaws]) -> Option<ProcessorBound> {
    let bounds = laws.iter().filter_map(|laws| of_component(levels, laws));
    bounds.min_by(|one, other| one.rate.total_cmp(&other.rate))
}

fn of_component(levels: &[LevelSummary], laws: &ComponentLaws) -> Option<ProcessorBound> {
    let processors = laws.servers?;
    let is_offered =
        |index: u16| levels.iter().any(|level| level.index == index && level.load.offered().is_some());
    let loaded = laws.levels.iter().filter(|level| level.rate > 0.0 && is_offered(level.level));
    let mut points: Vec<(f64, f64)> = loaded.map(|level| (level.rate, level.used)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let &(at, used) = points.last()?;
    let (before, used_before) = points.iter().rev().find(|(rate, _)| rate * RISE <= at).copied()?;
    // What a further message costs, not what a message costs: idle work is paid once, and larger batches are cheaper.
    let cost = (used - used_before) / (at - before);
    let left = processors - used;
    let of_all = laws.demand.as_ref().and_then(|demand| demand.bound).filter(|&bound| bound >= at);
    let evident = used >= EVIDENT * processors && cost > 0.0 && left >= 0.0;
    evident.then(|| ProcessorBound {
        // A demand that all levels agree on is better known than that of the last two.
        rate: of_all.unwrap_or(at + left / cost),
        component: laws.component.clone(),
        used,
        at,
        processors,
    })
}

/// To two digits, upwards: the bound is no more exact than that.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf((rate.max(1.0).log10()).floor() - 1.0);
    (rate / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;
    use crate::usage::tests::Levels;

    fn bound(levels: &[(f64, f64)], processors: u16) -> Option<ProcessorBound> {
        let Levels { starts, summaries, components } = Levels::of_broker(levels, processors);
        let laws = laws::of(&starts.iter().zip(&summaries).collect::<Vec<_>>(), &components, &[]);
        find(&summaries, &laws)
    }

    #[test]
    fn a_component_is_full_where_what_is_left_pays_for_no_further_message() {
        let found = bound(&[(1000.0, 0.3), (2000.0, 0.5), (4000.0, 0.8)], 1).unwrap();
        assert!((found.rate - (4000.0 + 0.2 / 0.000_15)).abs() < 1.0, "{found:?}");
        assert_eq!(
            found.in_words(),
            "broker used 80 % of the processor time that it can get at 4,000/s: if each further message costs as much, it needs all of it \
             at about 5,400/s"
        );
        let wide = bound(&[(1000.0, 0.3), (4000.0, 1.2)], 2).unwrap();
        assert!((wide.rate - (4000.0 + 0.8 / 0.000_3)).abs() < 1.0, "{wide:?}");
        assert!(wide.in_words().contains("used 60 % of"), "of both: {}", wide.in_words());
    }

    #[test]
    fn little_use_and_single_loads_tell_nothing() {
        assert_eq!(bound(&[(1000.0, 0.1), (2000.0, 0.2)], 1), None, "most of it is free");
        assert_eq!(bound(&[(4000.0, 0.8)], 1), None, "nothing tells what a further message costs");
        assert_eq!(bound(&[(4000.0, 0.8), (4100.0, 0.81)], 1), None);
        assert_eq!(bound(&[(1000.0, 0.9), (2000.0, 0.8)], 1), None, "it did something else");
    }
}
