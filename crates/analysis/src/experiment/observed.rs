//! What was observed beside an experiment, for and against what it names: who is to blame for the levels, the processor time of an
//! operation, and where messages stay on the wire. An observation proves less than an intervention, so it takes no name away. It is
//! said where the two contradict each other.

use crate::dissection::{DissectionSummary, OURSELVES, ResidenceSummary};
use crate::laws::ComponentLaws;
use crate::level;
use crate::limits::{Limit, LimitKind};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::Stage;
use plimsoll_model::record::LevelRecord;
use plimsoll_model::text::grouped;

/// By the utilisation law, processors are full at a rate that is so near to the capacity.
const NEAR: std::ops::RangeInclusive<f64> = 0.85..=1.15;
/// A message stays in a component for so much of its way, at least, for that to be worth a word.
const STAYS: f64 = 0.4;

/// What was observed.
pub struct Observed<'a> {
    /// What the levels alone say.
    pub by_levels: Vec<Limit>,
    pub laws: &'a [ComponentLaws],
    pub dissection: Option<&'a DissectionSummary>,
    /// The levels of the experiment.
    pub experiment: &'a [LevelRecord],
}

impl Observed<'_> {
    /// For people: what speaks for and against a limit that an experiment found at so many operations per second.
    pub fn on(&self, limit: &Limit, capacity: f64) -> Vec<String> {
        let is_it = |name: &str| limit.names(&[name.to_owned()]);
        let mut said = Vec::new();
        for other in &self.by_levels {
            let (Some(name), Some(evidence)) = (&other.component, other.evidence.first()) else { continue };
            said.push(match is_it(name) {
                true => format!("the levels say so, too: {evidence}"),
                false => format!("against it: by the levels, {name} limits ({evidence})"),
            });
        }
        for laws in self.laws {
            let Some((demand, bound)) = laws.demand.as_ref().and_then(|own| Some((own, own.bound?))) else {
                continue;
            };
            let (name, is_near) = (&laws.component, NEAR.contains(&(bound / capacity)));
            let allows = format!(
                "the processor time of {name} for an operation, {}, allows {}/s (utilisation law)",
                Nanos::from_secs_f64(demand.seconds),
                grouped(bound.round())
            );
            match (is_it(name), limit.kind) {
                (true, LimitKind::Processor) if is_near => said.push(allows),
                (true, LimitKind::Processor)
                | (false, LimitKind::Waiting | LimitKind::Lock | LimitKind::Pool | LimitKind::Coupled)
                    if is_near != is_it(name) =>
                {
                    said.push(format!("against it: {allows}"));
                }
                _ => {}
            }
        }
        let is_of_components = limit.component.is_some() || !limit.components.is_empty();
        said.extend(self.longest_stay().filter(|_| is_of_components).map(|hop| {
            let but = if is_it(&hop.component) { "" } else { ". That alone does not make it the limit" };
            in_words(hop, capacity) + but
        }));
        said
    }

    /// For people: in whom a message stays longest, where the experiment gives no name.
    pub fn stay(&self, capacity: f64) -> Option<String> {
        self.longest_stay().map(|hop| in_words(hop, capacity))
    }

    /// In whom a message stays longest that is alone in the platform, so that it waits for no other one.
    fn longest_stay(&self) -> Option<&ResidenceSummary> {
        let is_alone = |level: &&LevelRecord| level.start.stage() == Some(Stage::Alone);
        let alone = level::phase(&self.experiment.iter().find(is_alone)?.start);
        let traces = &self.dissection?.phases.iter().find(|phase| phase.name == alone)?.traces;
        let of_platform = |hop: &&ResidenceSummary| hop.component != OURSELVES;
        let hops = traces.residences.iter().filter(of_platform);
        hops.max_by(|one, other| one.share.total_cmp(&other.share)).filter(|hop| hop.share >= STAYS)
    }
}

fn in_words(hop: &ResidenceSummary, capacity: f64) -> String {
    let mean = hop.times.mean.unwrap_or(0.0);
    format!(
        "on the wire, a message alone stays longest in {}: {}, {:.0} % of its way. At {}/s, {:.1} messages are in it by Little's \
         law, without those that wait",
        hop.component,
        Nanos::from_secs_f64(mean),
        hop.share * 100.0,
        grouped(capacity.round()),
        mean * capacity
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissection::{PhaseSummary, TimesSummary, TraceSummary};
    use crate::laws::{Demand, DemandCourse};
    use plimsoll_model::Load;
    use plimsoll_model::experiment::ExperimentLevel;
    use plimsoll_model::record::LevelStart;

    fn limit(name: &str, kind: LimitKind) -> Limit {
        Limit {
            component: Some(name.to_owned()),
            components: Vec::new(),
            kind,
            evidence: vec!["level 2: it used 99 % of a processor".to_owned()],
            elasticity: None,
        }
    }

    fn laws(component: &str, bound: f64) -> ComponentLaws {
        let demand = Demand {
            seconds: 1.0 / bound,
            interval: None,
            without_load: 0.0,
            course: DemandCourse::Constant,
            bound: Some(bound),
            bound_interval: None,
        };
        ComponentLaws {
            component: component.to_owned(),
            servers: Some(1.0),
            demand: Some(demand),
            levels: Vec::new(),
        }
    }

    fn said(by_levels: Vec<Limit>, laws: &[ComponentLaws], kind: LimitKind) -> String {
        let observed = Observed { by_levels, laws, dissection: None, experiment: &[] };
        observed.on(&limit("a", kind), 100.0).join("; ")
    }

    #[test]
    fn levels_agree_or_contradict() {
        let by = |name: &str| said(vec![limit(name, LimitKind::Processor)], &[], LimitKind::Processor);
        assert_eq!(by("a"), "the levels say so, too: level 2: it used 99 % of a processor");
        assert!(by("b").starts_with("against it: by the levels, b limits"), "{}", by("b"));
    }

    #[test]
    fn processor_time_agrees_or_contradicts() {
        let of = |name: &str, bound, kind| said(Vec::new(), &[laws(name, bound)], kind);
        let allows = |name: &str, time: &str, rate: &str| {
            format!(
                "the processor time of {name} for an operation, {time}, allows {rate}/s (utilisation law)"
            )
        };
        assert_eq!(of("a", 100.0, LimitKind::Processor), allows("a", "10.0 ms", "100"));
        assert_eq!(
            of("a", 1000.0, LimitKind::Processor),
            format!("against it: {}", allows("a", "1.00 ms", "1,000"))
        );
        assert_eq!(of("a", 1000.0, LimitKind::Waiting), "", "who waits computes less than it is occupied");
        assert_eq!(
            of("b", 100.0, LimitKind::Waiting),
            format!("against it: {}", allows("b", "10.0 ms", "100"))
        );
        assert_eq!(of("b", 1000.0, LimitKind::Waiting), "");
    }

    #[test]
    fn the_wire_says_in_whom_a_message_alone_stays() {
        let start = LevelStart {
            load: Load::InFlight(1),
            experiment: Some(ExperimentLevel::new(Stage::Alone, Vec::new())),
            ..LevelStart::default()
        };
        let hop = |component: &str, share: f64| ResidenceSummary {
            component: component.to_owned(),
            times: TimesSummary { mean: Some(share / 100.0), ..TimesSummary::default() },
            share,
            ..ResidenceSummary::default()
        };
        let of = |shares: [f64; 2]| {
            let residences = vec![hop("a", shares[0]), hop("b", shares[1])];
            let traces = TraceSummary { residences, ..TraceSummary::default() };
            let phase = PhaseSummary {
                name: level::phase(&start),
                measured: true,
                traces,
                ..PhaseSummary::default()
            };
            let dissection = DissectionSummary { phases: vec![phase], ..DissectionSummary::default() };
            let experiment = [LevelRecord { start: start.clone(), ..LevelRecord::default() }];
            let dissection = Some(&dissection);
            let observed = Observed { by_levels: Vec::new(), laws: &[], dissection, experiment: &experiment };
            observed.stay(300.0)
        };
        let told = of([0.8, 0.2]).unwrap();
        assert!(told.contains("longest in a: 8.00 ms, 80 % of its way. At 300/s, 2.4 messages"), "{told}");
        assert_eq!(of([0.35, 0.3]), None);
    }
}
