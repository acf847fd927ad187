//! Capacities that a component can be bought in: more of what it runs on, or instances of other types. Others count only where the
//! component limits by computing, and in as many processors as its threads can use.

use super::change::Instances;
use super::measured::Measured;
use super::{Basis, MOST_TIMES};
use crate::limits::LimitKind;
use crate::usage;
use plimsoll_model::cost::{Cost, InstanceType, Priced};
use plimsoll_model::record::{LevelRecord, RunRecord};

/// What a component runs on is the type that the scenario names if the processors of both differ by no more than this.
const SAME: f64 = 0.05;
/// One thread does the work where it has at least this share of what the component computes.
const ONE_THREAD: f64 = 0.9;

/// A capacity of a component, and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it costs, or how many present capacities it adds where prices do not count.
    pub price: f64,
    /// The capacity, in present ones.
    pub times: f64,
    /// The instances that it is, where these are of another type than now.
    pub instances: Option<Instances>,
}

/// One more of a present capacity after the other.
pub fn additions() -> Vec<Step> {
    let step = |added: u32| Step { price: f64::from(added), times: 1.0 + f64::from(added), instances: None };
    (0..MOST_TIMES).map(step).collect()
}

/// What money buys of a component, the cheapest first, as far as more money brings more; and what must be said of other instance types.
pub fn bought(
    measured: &Measured<'_>,
    basis: &[Basis<'_>],
    cost: &Cost,
    part: &Priced,
) -> (Vec<Step>, Option<String>) {
    let limits = part.name == measured.limited_by();
    let count = part.count as f64;
    let present = |own: u32| {
        let times = f64::from(own) / count;
        // The present number is exactly once the present capacity.
        Step { price: f64::from(own) * part.price, times, instances: None }
    };
    let mut steps: Vec<Step> = (1..=MOST_TIMES).map(present).collect();
    let mut said = None;
    if let Some(on) = part.on.as_ref().filter(|_| limits && cost.types.len() > 1) {
        match scaling(measured, basis, cost, part, on) {
            Ok(scaling) => {
                for kind in cost.types.iter().filter(|kind| kind.name != *on && scaling.holds(kind)) {
                    let each = scaling.times(kind.processors) / count;
                    let of = |own: u32| Step {
                        price: f64::from(own) * kind.price,
                        times: f64::from(own) * each,
                        instances: Some(Instances { on: kind.name.clone(), count: own }),
                    };
                    steps.extend((1..=MOST_TIMES).map(of));
                }
                said = Some(scaling.in_words(&part.name));
            }
            Err(why) => said = Some(why),
        }
    }
    // Of a component that does not limit, nothing is known of less.
    steps.retain(|step| limits || step.times >= 1.0);
    steps.sort_by(|one, other| one.price.total_cmp(&other.price).then(other.times.total_cmp(&one.times)));
    let mut most = 0.0;
    steps.retain(|step| {
        let brings = step.times > most;
        most = if brings { step.times } else { most };
        brings
    });
    (steps, said)
}

/// How a component's capacity follows from the processors of what it runs on.
struct Scaling {
    /// Those of its present type.
    present: f64,
    /// Whether one thread does all the work.
    is_one_thread: bool,
    /// The most memory that it had, in bytes.
    memory: u64,
}

impl Scaling {
    /// Processors that it can use of so many.
    fn usable(&self, processors: f64) -> f64 {
        if self.is_one_thread { processors.min(1.0) } else { processors }
    }

    /// The capacity on so many processors, in that of its present type.
    fn times(&self, processors: f64) -> f64 {
        self.usable(processors) / self.usable(self.present)
    }

    /// Whether its memory fits.
    fn holds(&self, kind: &InstanceType) -> bool {
        kind.memory.is_none_or(|memory| memory >= self.memory)
    }

    fn in_words(&self, name: &str) -> String {
        match self.is_one_thread {
            true => format!(
                "{name} computes in one thread, so an instance with more processors brings nothing; its memory is taken to stay as \
                 it is"
            ),
            false => format!(
                "{name} on another instance type uses all of its processors, each of which does as much as one does now; its \
                 memory stays as it is"
            ),
        }
    }
}

/// How the component that limits follows from processors.
///
/// # Errors
/// Why that is not known, for people.
fn scaling(
    measured: &Measured<'_>,
    basis: &[Basis<'_>],
    cost: &Cost,
    part: &Priced,
    on: &str,
) -> Result<Scaling, String> {
    let name = part.name.as_str();
    let no = |why: String| format!("{name} is offered on no other instance type: {why}");
    let kind = measured.kind();
    if !matches!(kind, Some(LimitKind::Processor | LimitKind::Quota)) {
        let waits = matches!(kind, Some(LimitKind::Waiting));
        return Err(no(match waits {
            true => "it waits and hardly computes, so more processors bring nothing".to_owned(),
            false => {
                "no run says that it computes where it limits (`plimsoll run SCENARIO --why`)".to_owned()
            }
        }));
    }
    let present = cost.types.iter().find(|kind| kind.name == on).map(|kind| kind.processors);
    let present =
        present.ok_or_else(|| no(format!("the scenario does not say how many processors {on} has")))?;
    for Basis { record, summary } in basis {
        let could = record.components.iter().filter(|usage| usage.component == name);
        let allowed = could.filter_map(|usage| usage.processors).max().map(f64::from);
        // A quota is less than the processors that it may run on.
        let quota = record
            .gauges
            .iter()
            .filter(|gauge| (gauge.sampler.as_str(), gauge.quantity.as_str()) == ("cgroup", "quota"))
            .filter(|gauge| gauge.subject == name && gauge.value > 0.0)
            .map(|gauge| gauge.value)
            .reduce(f64::max);
        let had = quota.into_iter().chain(allowed).reduce(f64::min);
        let had = had.ok_or_else(|| no(format!("run {} does not know its processors", summary.run)))?;
        if (had / present - 1.0).abs() > SAME {
            return Err(no(format!(
                "it could use {had} processors in run {}, and {on} has {present}: what it ran on is not what it is paid for",
                summary.run
            )));
        }
    }
    let threads: Option<Vec<f64>> = basis
        .iter()
        .map(|run| busiest_share(run.record, run.summary.load_line.as_ref()?.level, part))
        .collect();
    let threads = threads.ok_or_else(|| no("what its busiest thread did is not known".to_owned()))?;
    let memory = basis.iter().flat_map(|run| &run.record.components).filter(|usage| usage.component == name);
    Ok(Scaling {
        present,
        is_one_thread: threads.iter().any(|share| *share >= ONE_THREAD),
        memory: memory.map(|usage| usage.rss).max().unwrap_or_default(),
    })
}

/// The share of the processor time of one instance that its busiest thread had in a level.
fn busiest_share(record: &RunRecord, level: u16, part: &Priced) -> Option<f64> {
    let hold = record.levels.iter().find(|own: &&LevelRecord| own.start.index == level)?;
    let hold = usage::hold(&hold.start);
    let all = usage::share(&record.components, &part.name, &hold, |usage| Some(usage.cpu))?;
    let busiest = usage::share(&record.components, &part.name, &hold, |usage| usage.busiest_thread)?;
    (all > 0.0).then(|| busiest * part.count as f64 / all)
}
