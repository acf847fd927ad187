//! What a faster limiting part would buy: throughput rises with its speed until another part limits (asymptotic bounds of
//! operational analysis; Denning and Buzen, 1978).

use super::argument::stops_others;
use super::evidence::Evidence;
use super::{Estimate, Part};
use crate::limits::{Limit, LimitKind};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// By how much the limiting part becomes faster in the forecasts, in percent.
const PERCENT: [f64; 3] = [10.0, 25.0, SECOND];
/// A second one of it has twice its speed.
const SECOND: f64 = 100.0;

/// An elasticity that may be more than this is all of an operation's time, but for what stops leave out.
const NEARLY_ALL: f64 = 0.95;
/// An elasticity of more than that is none of a part of the time.
const MOST: f64 = 1.25;

/// Components that use more than so many times the processors have some of their own.
const FULLER: f64 = 1.02;

/// What all components share, as a next limit.
const PROCESSORS: &str = "the platform's processors";

/// What a limiting part that is faster would buy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Faster {
    /// By so many percent its speed is higher; 100 stands for a second one of it.
    pub percent: f64,
    /// Operations per second that the platform then sustains; the interval is a nominal 95 % one.
    pub capacity: Estimate,
    /// What limits then; null where it is still the same part.
    pub then: Option<String>,
    /// Whether that holds only if both do not wait for the same: a second one of a component that waits for something that is not
    /// known.
    pub if_apart: bool,
}

impl Faster {
    /// How it is faster, for people.
    pub fn in_words(&self) -> String {
        match self.percent {
            percent if percent < SECOND => format!("{percent} % faster"),
            _ if self.if_apart => "a second one, if both do not wait for the same".to_owned(),
            _ => "a second one".to_owned(),
        }
    }

    /// What limits then, as a clause for people; `None` where it is still the same part.
    pub fn then_in_words(&self) -> Option<String> {
        let then = self.then.as_ref()?;
        Some(format!("then {then} {}", if then == PROCESSORS { "limit" } else { "limits" }))
    }
}

/// The forecasts for what limits alone; none where several parts or something else does.
pub fn of(limits: &[Limit], parts: &[Part], capacity: Estimate, evidence: &Evidence<'_>) -> Vec<Faster> {
    let [Limit { component: Some(name), kind, elasticity: Some(elasticity), .. }] = limits else {
        return Vec::new();
    };
    let Some(own) = evidence.single().find(|part| part.components.first() == Some(name)) else {
        return Vec::new();
    };
    let [own_lo, own_hi] = capacity.ci95.unwrap_or([capacity.mean, capacity.mean]);
    let others: Vec<&Part> =
        parts.iter().filter(|part| part.components.len() == 1 && part.components != own.components).collect();
    let [least, most] = elasticity.ends();
    // Long stops take a little less from who waits than their dose. Where nobody else decides, the rest is the limiting part's.
    let is_all_its_own = most > NEARLY_ALL && !others.iter().any(|part| stops_others(part));
    let (decided, most) = if is_all_its_own { (1.0, most.max(1.0)) } else { (elasticity.mean, most) };
    let of_percent = |&percent: &f64| {
        let faster = 1.0 + percent / 100.0;
        // The part of an operation's time that it decides becomes shorter.
        let by = |part: f64| 1.0 / (1.0 - part.clamp(0.0, MOST) * (1.0 - 1.0 / faster));
        let mut forecast = (capacity.mean * by(decided), own_lo * by(least), own_hi * by(most));
        let mut then = None;
        let mut bound = |name: String, mean: f64, lo: f64, hi: f64| {
            if mean < forecast.0 {
                then = Some(name);
            }
            forecast = (forecast.0.min(mean), forecast.1.min(lo), forecast.2.min(hi));
        };
        for part in &others {
            match part.capacity {
                // It may be at its limit as well.
                _ if stops_others(part) => bound(part.name(), f64::INFINITY, capacity.mean, f64::INFINITY),
                Some(own) => {
                    let [lo, hi] = own.ends();
                    bound(part.name(), own.mean, lo.max(capacity.mean), hi);
                }
                // What it allows at most is not known.
                None => bound(part.name(), f64::INFINITY, part.at_least, f64::INFINITY),
            }
        }
        // By the utilisation law all components together find the processors full.
        let used = evidence.used_by(own).map(|used| used.processor);
        if let (Some(processors), Some(used)) = (evidence.processors, used)
            && evidence.all_used() <= processors * FULLER
        {
            // A second one takes as much for each operation, and a part that waits does not compute less by waiting less.
            let is_cheaper = matches!(kind, LimitKind::Processor) && percent < SECOND;
            let own_left = if is_cheaper { used / faster } else { used };
            let most = capacity.mean * processors / (evidence.all_used() - used + own_left).max(1e-9);
            bound(PROCESSORS.to_owned(), most, most * 0.95, most * 1.05);
        }
        let (mean, lo, hi) = forecast;
        let if_apart = percent >= SECOND && matches!(kind, LimitKind::Waiting | LimitKind::Unknown);
        Faster { percent, capacity: Estimate { mean, ci95: Some([lo, hi]) }, then, if_apart }
    };
    PERCENT.iter().map(of_percent).collect()
}

#[cfg(test)]
mod tests {
    use super::super::DuringStops;
    use super::super::evidence::Used;
    use super::*;
    use plimsoll_model::experiment::Means;

    fn part(name: &str, elasticity: f64, allows: Option<f64>) -> Part {
        let near = |mean: f64, by: f64| Estimate { mean, ci95: Some([mean - by, mean + by]) };
        Part {
            components: vec![name.to_owned()],
            means: Means::Stop,
            dose: 0.6,
            doses: vec![0.6],
            blocks: 6,
            elasticity: near(elasticity, 0.05),
            under_short_stops: None,
            under_medium_stops: None,
            by_large: near(elasticity, 0.05),
            small: None,
            during_stops: DuringStops::default(),
            capacity: allows.map(|rate| near(rate, 5.0)),
            at_least: 400.0,
            used: None,
        }
    }

    /// The forecasts where `a` limits at 100 a second, by such a limit.
    fn forecasts(kind: LimitKind, evidence: &Evidence<'_>) -> Vec<Faster> {
        let limit = Limit {
            component: Some("a".into()),
            components: Vec::new(),
            kind,
            evidence: Vec::new(),
            elasticity: Some(Estimate { mean: 1.0, ci95: Some([1.0, 1.0]) }),
        };
        let capacity = Estimate { mean: 100.0, ci95: Some([99.0, 101.0]) };
        of(&[limit], evidence.parts, capacity, evidence)
    }

    /// What 25 % and a second limiting part buy beside another one.
    fn beside(other: Part) -> Vec<Faster> {
        let parts = [part("a", 1.0, Some(100.0)), other];
        let evidence = Evidence { parts: &parts, capacity: 100.0, ..Evidence::default() };
        forecasts(LimitKind::Waiting, &evidence).split_off(1)
    }

    #[test]
    fn the_next_limit_ends_what_a_faster_part_buys() {
        let [quarter, second] = &beside(part("b", 0.0, Some(150.0)))[..] else { panic!() };
        assert_eq!((quarter.capacity.mean, quarter.then.as_deref()), (125.0, None));
        assert_eq!((second.capacity.mean, second.then.as_deref()), (150.0, Some("b")));
        assert_eq!(
            [quarter, second].map(|own| own.if_apart),
            [false, true],
            "nobody knows what it waits for"
        );
        let [_, second] = &beside(part("b", 0.0, None))[..] else { panic!() };
        assert_eq!((second.capacity.mean, second.then.as_deref()), (200.0, None), "it allows 400 at least");
    }

    #[test]
    fn a_second_one_computes_no_less_for_an_operation() {
        let parts = [part("a", 1.0, Some(100.0)), part("b", 0.0, None)];
        let used = |processor| Used { processor, ..Used::default() };
        let evidence = Evidence {
            parts: &parts,
            capacity: 100.0,
            used: [("a".to_owned(), used(0.9)), ("b".to_owned(), used(0.05))].into(),
            processors: Some(1.0),
            ..Evidence::default()
        };
        let [_, quarter, second] = &forecasts(LimitKind::Processor, &evidence)[..] else { panic!() };
        assert!((quarter.capacity.mean - 125.0).abs() < 5.0, "{quarter:?}");
        assert!((second.capacity.mean - 105.3).abs() < 0.1, "{second:?}");
        assert_eq!(second.then.as_deref(), Some("the platform's processors"));
        assert_eq!(second.in_words(), "a second one");
    }

    #[test]
    fn what_decides_a_part_of_the_time_alone_buys_no_more_than_that() {
        let parts = [part("a", 0.8, Some(100.0)), part("b", 0.0, None)];
        let evidence = Evidence { parts: &parts, capacity: 100.0, ..Evidence::default() };
        let of = |mean: f64| {
            let elasticity = Some(Estimate { mean, ci95: Some([mean - 0.05, mean + 0.05]) });
            let component = Some("a".to_owned());
            let kind = LimitKind::Processor;
            let limit = Limit { component, components: Vec::new(), kind, evidence: Vec::new(), elasticity };
            let capacity = Estimate { mean: 100.0, ci95: Some([99.0, 101.0]) };
            super::of(&[limit], evidence.parts, capacity, &evidence).remove(1).capacity.mean
        };
        assert!((of(0.8) - 119.05).abs() < 0.01, "{}", of(0.8));
        assert_eq!(of(0.92), 125.0, "stops leave out a little");
    }

    #[test]
    fn a_part_that_others_wait_for_is_no_next_limit_and_no_certainty() {
        let [quarter, _] = &beside(part("b", 0.95, Some(100.0)))[..] else { panic!() };
        assert_eq!((quarter.capacity.mean, quarter.then.as_deref()), (125.0, None));
        assert_eq!(quarter.capacity.ci95, Some([100.0, 126.25]));
    }
}
