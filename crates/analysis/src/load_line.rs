//! The load line (rule 6) and the verdict.

use crate::laws::ComponentLaws;
use crate::level::{LevelSummary, LevelVerdict};
use crate::processor_bound::{self, ProcessorBound};
use crate::search::{Ending, Finding};
use plimsoll_model::Verdict;
use plimsoll_model::experiment::Block;
use plimsoll_model::record::{DeathRecord, LevelRecord, LevelStart};
use plimsoll_model::text::grouped;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A level that missed is far above one that was met where its load is more than this times that.
const WIDE: f64 = 1.1;

/// The load line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LoadLine {
    /// Operations per second: offered in the open model, achieved in the closed one; null where devices are idle.
    pub rate: Option<f64>,
    /// Devices connected; null where the levels do not differ in that.
    pub devices: Option<u32>,
    /// Connections per second; null where the levels do not differ in that.
    pub connect_rate: Option<f64>,
    /// Index of the level.
    pub level: u16,
    /// Whether the platform may sustain more: no level was missed, or the next one decides nothing.
    pub at_least: bool,
    /// Load of the lowest level above it that missed, up to which the load line may lie; null where none did.
    pub below: Option<f64>,
    /// An upper bound by what a component uses of its processors; null where a level missed, or none used enough to know.
    pub at_most: Option<ProcessorBound>,
    /// Why the next level does not meet; null where there is none.
    pub limited_by: Option<String>,
    /// Index of that next level; null where there is none.
    pub next_level: Option<u16>,
}

impl LoadLine {
    /// How much it is: operations per second, else devices, else connections per second.
    pub fn amount(&self) -> Option<f64> {
        self.rate.or(self.devices.map(f64::from)).or(self.connect_rate)
    }

    /// What it is an amount of, for people.
    pub const fn unit(&self) -> &'static str {
        match (self.rate, self.devices) {
            (Some(_), _) => "operations/s",
            (None, Some(_)) => "devices",
            (None, None) => "connections/s",
        }
    }

    /// Up to which amount it may lie; `None` where no level missed that says so. Where levels are devices and the amount is what they
    /// achieved, the next level is no such amount, and this is the amount itself.
    pub fn most(&self) -> Option<f64> {
        let is_achieved = self.rate.is_some() && (self.devices.is_some() || self.connect_rate.is_some());
        match is_achieved {
            true => self.amount().filter(|_| !self.at_least),
            false => self.below,
        }
    }
}

/// The top of the unbroken run of met levels from the lowest. Of a load that was held again the hold that decided counts.
pub fn find(levels: &[LevelSummary]) -> Option<LoadLine> {
    // A level of many loads says nothing of a single one.
    if levels.iter().any(|level| level.curve.is_some()) {
        return None;
    }
    let rising = rising(levels);
    let met = rising.iter().take_while(|level| level.verdict == LevelVerdict::Met).count();
    let top = rising.get(met.checked_sub(1)?)?;
    let next = rising.get(met);
    // What killed a platform need not have been the load.
    let is_missed = |level: &LevelSummary| level.verdict == LevelVerdict::Missed && level.death.is_none();
    let missed = rising[met..].iter().find(|level| is_missed(level));
    Some(LoadLine {
        rate: top.load.offered().or(top.achieved),
        devices: top.load.devices().filter(|_| top.load.connect_rate().is_none()),
        connect_rate: top.load.connect_rate(),
        level: top.index,
        at_least: next.is_none_or(|level| !is_missed(level)),
        below: missed.map(|level| level.load.amount()),
        at_most: None,
        limited_by: next.map(|level| level.why()),
        next_level: next.map(|level| level.index),
    })
}

/// The load line that a search found.
pub fn of_search(levels: &[LevelSummary], finding: &Finding) -> Option<LoadLine> {
    let level = |index: Option<u16>| levels.iter().find(|level| Some(level.index) == index);
    let (line, above) = (level(finding.level)?, level(finding.above));
    Some(LoadLine {
        rate: Some(line.load.offered()?),
        devices: None,
        connect_rate: None,
        level: line.index,
        at_least: finding.at_least(),
        below: finding.missed,
        at_most: None,
        limited_by: above.map(LevelSummary::why),
        next_level: above.map(|level| level.index),
    })
}

/// The same line with an upper bound by what components use of their processors, where no level missed: that is a better one.
pub fn bounded(line: LoadLine, laws: &[ComponentLaws], levels: &[LevelSummary]) -> LoadLine {
    let is_open =
        line.at_least && line.below.is_none() && line.devices.is_none() && line.connect_rate.is_none();
    let bound = is_open.then(|| processor_bound::find(levels, laws)).flatten();
    let at_most = bound.filter(|bound| line.rate.is_some_and(|rate| bound.rate >= rate));
    LoadLine { at_most, ..line }
}

/// The verdict on a run that came to its end, and why.
pub fn judge(
    levels: &[LevelSummary],
    line: Option<&LoadLine>,
    finding: Option<&Finding>,
    demanded: Option<f64>,
) -> (Verdict, String) {
    let Some(line) = line else { return without_line(levels, finding) };
    let shown = sustained(line);
    let below = |demanded: f64| line.rate.is_some_and(|rate| rate < demanded);
    match demanded {
        Some(demanded) if below(demanded) => {
            let asked = rate(demanded);
            let surely = line.below.is_some_and(|missed| missed <= demanded);
            match surely || !line.at_least {
                true => (Verdict::Missed, format!("{shown}, less than the {asked}/s asked for")),
                false => {
                    let why = undecided(levels, line);
                    let reason = format!(
                        "{shown}; whether it sustains the {asked}/s asked for was not decided: {why}"
                    );
                    (Verdict::Invalid, reason)
                }
            }
        }
        Some(_) => (Verdict::Met, shown),
        None => match finding.map(|finding| (finding.ended, finding.blocked)) {
            Some((Ending::HostLimited, Some(blocked))) => {
                let blocked = rate(blocked);
                let reason = format!(
                    "this host cannot decide: {shown}, and from {blocked}/s on the measurement is invalid"
                );
                (Verdict::Invalid, reason)
            }
            _ => (Verdict::Met, shown),
        },
    }
}

/// Where not even the lowest level is met.
fn without_line(levels: &[LevelSummary], finding: Option<&Finding>) -> (Verdict, String) {
    if let Some(Finding { ended: Ending::NotRepeatable, .. }) = finding {
        return (Verdict::Invalid, "levels that were met missed when they were run again".into());
    }
    let rising = rising(levels);
    let Some(lowest) = rising.first() else {
        return (Verdict::Failed, "no level was run".into());
    };
    if let Some(curve) = &lowest.curve {
        return curve.judge(lowest);
    }
    let why = format!("the lowest level, {}: {}", lowest.load, lowest.why());
    match lowest.verdict {
        LevelVerdict::Missed => (Verdict::Missed, why),
        LevelVerdict::Invalid => (Verdict::Invalid, format!("this host cannot decide: {why}")),
        _ => (Verdict::Invalid, why),
    }
}

/// Why the level after the load line decides nothing.
fn undecided(levels: &[LevelSummary], line: &LoadLine) -> String {
    let next = levels.iter().find(|level| Some(level.index) == line.next_level);
    match next {
        Some(next) if next.verdict == LevelVerdict::Invalid => {
            format!("this host cannot decide, at {} {}", next.load, next.why())
        }
        Some(next) => format!("at {} {}", next.load, next.why()),
        None => "no higher level was run".into(),
    }
}

/// What the platform sustains, for people: where a much higher level missed, also up to where the load line may lie.
fn sustained(line: &LoadLine) -> String {
    match (line.connect_rate, line.devices, line.rate) {
        (Some(connects), ..) => format!("the platform {} {} connections/s", verb(line), rate(connects)),
        (None, Some(devices), _) => {
            format!("the platform {} {} devices", verb(line), grouped(f64::from(devices)))
        }
        (None, None, held) => {
            let held = held.unwrap_or(0.0);
            match line.below.filter(|missed| *missed > held * WIDE) {
                Some(missed) => format!(
                    "the load line is between {} and {}/s: the first was met, the second was missed",
                    rate(held),
                    rate(missed)
                ),
                None => {
                    let bound = line.at_most.as_ref().map(|bound| format!("; {}", bound.in_words()));
                    format!("the platform {} {}/s{}", verb(line), rate(held), bound.unwrap_or_default())
                }
            }
        }
    }
}

fn verb(line: &LoadLine) -> &'static str {
    if line.at_least { "sustains at least" } else { "sustains" }
}

/// What is said first of a run in which the platform died.
pub fn of_the_dead(
    death: &DeathRecord,
    levels: &[LevelSummary],
    experiment: &[LevelRecord],
    line: Option<&LoadLine>,
) -> String {
    let within = levels.iter().rev().find(|level| level.death.is_some());
    let what = match within.and_then(|level| level.reasons.first()) {
        Some(said) => said.clone(),
        None => {
            let when = in_experiment(death, experiment);
            let when = when.unwrap_or_else(|| "between two levels".to_owned());
            format!("{} died {when} ({})", death.component, death.status)
        }
    };
    match line {
        Some(line) => format!("{what}; before that {}", sustained(line)),
        None => format!("{what}; no level was met before"),
    }
}

/// When a component died in an experiment, for people: what was slowed at that time.
fn in_experiment(death: &DeathRecord, experiment: &[LevelRecord]) -> Option<String> {
    let begun = |start: &&LevelStart| start.hold_start <= death.at;
    let start = experiment.iter().map(|level| &level.start).rfind(begun)?;
    let sample = (death.at - start.hold_start).0 / (start.hold.0 / i64::from(start.samples.max(1))).max(1);
    let is_then = |block: &&Block| (i64::from(block.begin)..i64::from(block.end)).contains(&sample);
    let slowed = start.blocks().iter().find(is_then).and_then(|block| block.perturbation.as_ref());
    Some(match slowed.map(|own| own.components.join(" and ")) {
        Some(names) if !names.is_empty() => format!("in the experiment while {names} was slowed"),
        Some(_) => "in the experiment while the platform's processors were used".to_owned(),
        None => "in the experiment while nothing was slowed".to_owned(),
    })
}

/// A whole number where the rate is large enough for one.
pub(crate) fn rate(rate: f64) -> String {
    if rate >= 100.0 { grouped(rate.round_ties_even()) } else { grouped((rate * 100.0).round() / 100.0) }
}

/// By offered load, or by operations in flight; of several holds of one load the one that decided, and of contradicting ones
/// the one that missed.
pub(crate) fn rising(levels: &[LevelSummary]) -> Vec<&LevelSummary> {
    // What was run again on the way down is compared with the way up, and makes no load line.
    let mut rising: Vec<&LevelSummary> = levels.iter().filter(|level| !level.falling).collect();
    let weight = |level: &LevelSummary| match level.verdict {
        LevelVerdict::Missed => 0,
        LevelVerdict::Met => 1,
        LevelVerdict::Undecided | LevelVerdict::Invalid | LevelVerdict::Unfinished => 2,
    };
    // Of two that decide nothing the later one has the better reason.
    rising.sort_by(|a, b| {
        let of_one_load =
            (weight(a), std::cmp::Reverse(a.index)).cmp(&(weight(b), std::cmp::Reverse(b.index)));
        a.load.amount().total_cmp(&b.load.amount()).then(of_one_load)
    });
    rising.dedup_by(|later, kept| later.load.amount() == kept.load.amount());
    rising
}

#[cfg(test)]
mod tests {
    use super::*;
    use LevelVerdict::{Invalid, Met, Missed, Undecided};
    use plimsoll_model::Load;

    fn levels(verdicts: &[LevelVerdict]) -> Vec<LevelSummary> {
        let level = |(index, verdict): (u16, &LevelVerdict)| LevelSummary {
            index,
            load: Load::Rate(100.0 * f64::from(index + 1)),
            verdict: *verdict,
            reasons: vec!["because".into()],
            ..LevelSummary::default()
        };
        (0..).zip(verdicts).map(level).collect()
    }

    fn line(verdicts: &[LevelVerdict]) -> Option<(f64, bool)> {
        find(&levels(verdicts)).map(|line| (line.rate.unwrap(), line.at_least))
    }

    #[test]
    fn ends_the_unbroken_run_from_the_lowest_level() {
        assert_eq!(line(&[Met, Met, Missed, Met]), Some((200.0, false)));
        assert_eq!(line(&[Met, Met]), Some((200.0, true)));
        assert_eq!(line(&[Met, Invalid, Met]), Some((100.0, true)));
        assert_eq!(line(&[Met, Undecided]), Some((100.0, true)));
        assert_eq!(line(&[Missed, Met]), None);
    }

    #[test]
    fn levels_in_any_order_give_the_same_line() {
        let mut shuffled = levels(&[Met, Met, Missed]);
        shuffled.swap(0, 2);
        assert_eq!(find(&shuffled).and_then(|line| line.rate), Some(200.0));
    }

    #[test]
    fn the_verdict_follows_the_lowest_level_and_the_demand() {
        let verdict = |verdicts: &[LevelVerdict], demanded| {
            let levels = levels(verdicts);
            judge(&levels, find(&levels).as_ref(), None, demanded).0
        };
        assert_eq!(verdict(&[Met, Missed], None), Verdict::Met);
        assert_eq!(verdict(&[Missed, Met], None), Verdict::Missed);
        assert_eq!(verdict(&[Invalid], None), Verdict::Invalid);
        assert_eq!(verdict(&[Undecided], None), Verdict::Invalid);
        assert_eq!(verdict(&[Met, Missed], Some(150.0)), Verdict::Missed);
        assert_eq!(verdict(&[Met, Invalid], Some(150.0)), Verdict::Invalid);
        assert_eq!(verdict(&[Met, Met], Some(150.0)), Verdict::Met);
        assert_eq!(verdict(&[Met, Met], Some(300.0)), Verdict::Invalid, "nothing asked for that much");
        assert_eq!(verdict(&[], None), Verdict::Failed);
    }

    #[test]
    fn a_death_in_an_experiment_is_said_with_what_was_slowed() {
        use plimsoll_model::Nanos;
        use plimsoll_model::experiment::{ExperimentLevel, Means, Perturbation, Stage};
        let stop = Nanos::from_millis(100);
        let slowed = |components: &[&str], begin: u16| Block {
            perturbation: Some(Perturbation::new(
                components.iter().map(|&name| name.to_owned()).collect(),
                Means::Stop,
                0.6,
                stop,
            )),
            begin,
            measured: begin + 2,
            end: begin + 10,
        };
        let untouched = Block { perturbation: None, begin: 0, measured: 2, end: 10 };
        let blocks = vec![untouched, slowed(&["store"], 10), slowed(&[], 20)];
        let start = LevelStart {
            hold_start: Nanos::from_secs(100),
            hold: Nanos::from_secs(30),
            samples: 30,
            experiment: Some(ExperimentLevel::new(Stage::Large, blocks)),
            ..LevelStart::default()
        };
        let experiment = [LevelRecord { start, ..LevelRecord::default() }];
        let of = |at: i64, experiment: &[LevelRecord]| {
            let (component, status) = ("store".to_owned(), "exit status: 0".to_owned());
            let death =
                DeathRecord { component, status, at: Nanos::from_secs(at), last_words: String::new() };
            of_the_dead(&death, &[], experiment, None)
        };
        let died = |when: &str| format!("store died {when} (exit status: 0); no level was met before");
        assert_eq!(of(105, &experiment), died("in the experiment while nothing was slowed"));
        assert_eq!(of(115, &experiment), died("in the experiment while store was slowed"));
        assert_eq!(of(125, &experiment), died("in the experiment while the platform's processors were used"));
        assert_eq!(of(90, &experiment), died("between two levels"));
    }
}
