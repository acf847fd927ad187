//! The runs that predictions start from, and what they say of other capacities.

use super::change::Change;
use super::model_error::ModelError;
use super::quantiles::{self, Model};
use super::{Basis, Bounds, ComponentUse, Configuration, Question, mix};
use crate::headroom::Headroom;
use crate::level::LevelVerdict;
use crate::limits::LimitKind;
use crate::summary::Summary;
use plimsoll_model::cost::Cost;
use plimsoll_model::record::RunRecord;
use plimsoll_model::text::grouped;
use plimsoll_stats::student;
use std::collections::BTreeSet;

/// A component that uses less of its processors may wait for something that they do not show.
const HARDLY: f64 = 0.5;

/// The runs that predictions start from, each with what limits it.
pub struct Measured<'a> {
    groups: Vec<Group<'a>>,
    /// What the platform costs.
    cost: Option<&'a Cost>,
    /// The logarithm of the factor by which both ends are widened.
    widening: f64,
    /// The load line as the runs found it.
    present: Bounds,
}

/// Runs of one mix of messages.
struct Group<'a> {
    /// The share of the wanted mix that is theirs.
    share: f64,
    runs: Vec<(&'a Summary, Headroom)>,
}

impl<'a> Measured<'a> {
    /// Those of some runs.
    ///
    /// # Errors
    /// Why they say nothing, for people.
    pub fn of(basis: &[Basis<'a>], question: &Question, error: &ModelError) -> Result<Measured<'a>, String> {
        for Basis { summary, .. } in basis {
            let id = &summary.run;
            let line = summary.load_line.as_ref();
            let line =
                line.ok_or_else(|| format!("run {id} found no load line, from which predictions start"))?;
            line.rate.ok_or_else(|| {
                format!("the load line of run {id} is no rate of operations, and nothing else is predicted")
            })?;
        }
        let limit = limit(basis, question.limit.as_deref())?;
        // A run that names nobody was of the same configuration.
        let said: Vec<bool> = basis.iter().filter_map(|run| computes(run.summary, &limit)).collect();
        let is_computing = (!said.is_empty()).then(|| said.iter().all(|computes| *computes));
        let of_run = |run: Basis<'a>| {
            let named = Headroom::of(run.summary).filter(|headroom| headroom.component == limit);
            let headroom = named.or_else(|| Headroom::where_limits(limit.clone(), is_computing, run.summary));
            headroom.map(|headroom| (run.summary, headroom)).ok_or_else(|| {
                format!("run {} does not say how full {limit} was at its load line", run.summary.run)
            })
        };
        let groups = mix::groups(basis, question.mix.as_ref())?.into_iter().map(|(share, runs)| {
            Ok::<_, String>(Group {
                share,
                runs: runs.into_iter().map(of_run).collect::<Result<_, String>>()?,
            })
        });
        let mut measured = Measured {
            groups: groups.collect::<Result<_, String>>()?,
            cost: basis.first().and_then(|run| run.record.terms.cost.as_ref()),
            widening: error.widening(),
            present: Bounds { least: None, most: None },
        };
        if measured.groups.len() > 1 && !measured.is_known_to_compute() {
            return Err(format!(
                "another mix is predicted by what its messages cost {limit} to compute, and no run says that it limits by computing \
                 (`plimsoll run SCENARIO --why`)"
            ));
        }
        measured.present = measured.over_runs(&vec![[1.0, 1.0]; measured.runs().count()]);
        Ok(measured)
    }

    /// Each run with what limits it.
    pub fn runs(&self) -> impl Iterator<Item = (&'a Summary, &Headroom)> + Clone {
        self.groups.iter().flat_map(|group| group.runs.iter().map(|(summary, headroom)| (*summary, headroom)))
    }

    /// The component that limits.
    pub fn limited_by(&self) -> &str {
        self.runs().next().map(|(_, headroom)| headroom.component.as_str()).unwrap_or_default()
    }

    /// The load line as the runs found it.
    pub fn present(&self) -> Bounds {
        self.present
    }

    /// What the platform costs; `None` where nothing has a price.
    pub fn cost(&self) -> Option<&'a Cost> {
        self.cost.filter(|cost| cost.total() > 0.0)
    }

    /// What of the component that limits is at its limit, as far as runs say that and agree. One that was full first as the load rose
    /// computed.
    pub fn kind(&self) -> Option<LimitKind> {
        let of = |summary: &Summary| {
            let is_it = |component: Option<&str>| component == Some(self.limited_by());
            match summary.limits.as_slice() {
                [] => {
                    let first_full = Headroom::of(summary).map(|headroom| headroom.component);
                    is_it(first_full.as_deref()).then_some(LimitKind::Processor)
                }
                limits => {
                    limits.iter().find(|limit| is_it(limit.component.as_deref())).map(|limit| limit.kind)
                }
            }
        };
        let mut kinds = self.runs().filter_map(|(summary, _)| of(summary));
        let first = kinds.next()?;
        kinds.all(|kind| kind == first || is_computing(kind) && is_computing(first)).then_some(first)
    }

    /// Whether a run says that what limits computes, and none says otherwise.
    pub fn is_known_to_compute(&self) -> bool {
        self.kind().is_some_and(is_computing)
    }

    /// The load lines that the runs found, times factors of each. An operation of a mix costs its share of what it costs in each group,
    /// so the seconds of an operation are added.
    fn over_runs(&self, ratios: &[[f64; 2]]) -> Bounds {
        let mut ratios = ratios.iter().copied();
        let of_group = |group: &Group<'a>| {
            let runs = group.runs.iter().map(|(summary, _)| *summary);
            let runs: Vec<(&Summary, [f64; 2])> = runs.zip(&mut ratios).collect();
            (group.share, bounds(runs.into_iter()))
        };
        let groups: Vec<(f64, Bounds)> = self.groups.iter().map(of_group).collect();
        if let [(_, alone)] = groups.as_slice() {
            return *alone;
        }
        let end = |of: fn(&Bounds) -> Option<f64>| {
            let seconds: Option<f64> = groups.iter().map(|(share, own)| Some(share / of(own)?)).sum();
            seconds.map(|seconds| 1.0 / seconds)
        };
        Bounds { least: end(|own| own.least), most: end(|own| own.most) }
    }

    /// The ratios of each run, and what limits then; `None` where a component that does not limit has less capacity.
    fn ratios(&self, factors: &[(&str, f64)]) -> Option<(Vec<[f64; 2]>, String)> {
        let mut limited_by = None;
        let of_run = |(_, headroom): (&Summary, &Headroom)| {
            let found = headroom.predicted(factors)?;
            limited_by.get_or_insert(found.limited_by);
            Some(found.ratio)
        };
        let ratios: Option<Vec<[f64; 2]>> = self.runs().map(of_run).collect();
        Some((ratios?, limited_by.unwrap_or_default()))
    }

    /// Both ends of a load line, widened by the model error where anything changes.
    fn widened(&self, found: Bounds, factors: &[(&str, f64)]) -> Bounds {
        if self.widening == 0.0 || factors.iter().all(|(_, factor)| *factor == 1.0) {
            return found;
        }
        let factor = self.widening.exp();
        // More never does harm.
        let is_more = factors.iter().all(|(_, factor)| *factor >= 1.0);
        let at_least = self.present.least.filter(|_| is_more).unwrap_or_default();
        Bounds {
            least: found.least.map(|least| (least / factor).max(at_least)),
            most: found.most.map(|most| most * factor),
        }
    }

    /// The load line where components have so many times their capacity; `None` where nothing is predicted.
    pub fn load_line(&self, factors: &[(&str, f64)]) -> Option<Bounds> {
        let (ratios, _) = self.ratios(factors)?;
        Some(self.widened(self.over_runs(&ratios), factors))
    }

    /// What the runs predict together; `None` where a component that does not limit has less capacity.
    pub fn predict(&self, change: &Change, demand: Option<f64>) -> Option<Configuration> {
        let factors = change.factors();
        let (ratios, limited_by) = self.ratios(&factors)?;
        let without_error = self.over_runs(&ratios);
        let load_line = self.widened(without_error, &factors);
        let is_enough = demand.and_then(|demand| match load_line {
            Bounds { least: Some(least), .. } if least >= demand => Some(true),
            Bounds { most: Some(most), .. } if most < demand => Some(false),
            _ => None,
        });
        Some(Configuration {
            change: change.clone(),
            ratio: Bounds {
                least: ratios.iter().map(|[low, _]| *low).reduce(f64::min),
                most: ratios.iter().map(|[_, high]| *high).reduce(f64::max),
            },
            load_line,
            limited_by,
            cost: self.cost.and_then(|cost| change.cost(cost)),
            is_enough,
            times_at: Vec::new(),
            measured: None,
            is_as_predicted: None,
            without_error,
        })
    }

    /// Adds the times of each configuration at some loads, as all runs together predict them; what is not predicted and why.
    pub fn add_times<'c>(
        &self,
        basis: &[Basis<'_>],
        rates: &[f64],
        configurations: impl IntoIterator<Item = &'c mut Configuration>,
    ) -> BTreeSet<String> {
        if self.groups.len() > 1 {
            return BTreeSet::from(["times are not predicted of another mix".to_owned()]);
        }
        let runs: Vec<(&RunRecord, &Summary)> = basis.iter().map(|run| (run.record, run.summary)).collect();
        let line =
            |summary: &Summary| summary.load_line.as_ref().and_then(|line| line.rate).unwrap_or_default();
        let count = self.runs().count() as f64;
        let capacities = self.runs().map(|(summary, headroom)| line(summary) / headroom.used);
        let model = match Model::of(&runs, self.limited_by(), capacities.sum::<f64>() / count) {
            Ok(model) => model,
            Err(why) => return BTreeSet::from([why]),
        };
        let others: Vec<ComponentUse> = self.components().into_iter().skip(1).collect();
        let mean_line = self.runs().map(|(summary, _)| line(summary)).sum::<f64>() / count;
        let mut open = BTreeSet::new();
        for configuration in configurations {
            let times = |name: &str| configuration.change.factor(name);
            let is_faster = configuration.change.faster.contains_key(self.limited_by());
            let factor = times(self.limited_by());
            for rate in rates {
                let used = |own: &ComponentUse| own.used * rate / mean_line / times(&own.component);
                let fullest = others.iter().map(|own| (own, used(own)));
                let fullest = fullest.max_by(|(_, one), (_, other)| one.total_cmp(other));
                let found = match fullest.filter(|(_, used)| *used > quantiles::OTHERS) {
                    _ if is_faster => Err(format!(
                        "times of {} with faster processors are not simulated",
                        self.limited_by()
                    )),
                    Some((own, used)) => Err(format!(
                        "at {}/s, {} is {:.0} % full, and its waits are not simulated",
                        grouped(*rate),
                        own.component,
                        used * 100.0
                    )),
                    None => model.at(*rate, factor, self.limited_by()),
                };
                match found {
                    Ok(found) => configuration.times_at.push(found),
                    Err(why) => {
                        open.insert(format!("{}: {why}", configuration.change.in_words()));
                    }
                }
            }
        }
        open
    }

    /// The mean over the runs, of each component that all of them know, the one that limits first.
    pub fn components(&self) -> Vec<ComponentUse> {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let limiting = ComponentUse {
            component: self.limited_by().to_owned(),
            used: mean(self.runs().map(|(_, headroom)| headroom.used).collect()),
            at_most: None,
        };
        let of = |name: &str| {
            let own =
                |headroom: &Headroom| headroom.others.iter().find(|other| other.component == name).cloned();
            let each: Option<Vec<_>> = self.runs().map(|(_, headroom)| own(headroom)).collect();
            let each = each?;
            let at_most: Option<Vec<f64>> = each.iter().map(|other| other.at_most).collect();
            Some(ComponentUse {
                component: name.to_owned(),
                used: mean(each.iter().map(|other| other.used).collect()),
                at_most: at_most.map(mean),
            })
        };
        let others = self.runs().next().map(|(_, headroom)| headroom.others.as_slice()).unwrap_or_default();
        std::iter::once(limiting).chain(others.iter().filter_map(|other| of(&other.component))).collect()
    }

    /// What the predictions rest on, for people.
    pub fn assumptions(&self, question: &Question) -> Vec<String> {
        let unproved: Vec<String> = self
            .components()
            .into_iter()
            .skip(1)
            .filter(|own| own.at_most.is_none() && own.used < HARDLY)
            .map(|own| own.component)
            .collect();
        let stays = if question.mix.is_some() { "messages" } else { "messages, their mix" };
        let mut found = vec![
            "what is added works beside what is there: it shares no lock, no database and no processor with it".to_owned(),
            format!("{stays} and the objectives stay as they were in the runs"),
        ];
        if let Some(mix) = &question.mix {
            let how = if self.groups.len() > 1 {
                ": an operation costs its share of what it costs in two mixes that were run"
            } else {
                ", as it was run"
            };
            found.push(format!("the mix is {}{how}", mix::in_words(mix)));
        }
        if !question.faster.is_empty() {
            let names: Vec<&str> = question.faster.keys().map(String::as_str).collect();
            found.push(format!(
                "faster processors divide all that an operation takes in {}, and nothing that it waits for elsewhere",
                names.join(", ")
            ));
        }
        if !unproved.is_empty() {
            found.push(format!(
                "how full others are is read from their processors; whether they wait for something else was not tested: {} \
                 (`plimsoll run SCENARIO --why` tests it)",
                unproved.join(", ")
            ));
        }
        let undecided =
            |summary: &Summary| summary.bounding().is_some_and(|level| level.verdict != LevelVerdict::Missed);
        if self.runs().any(|(summary, _)| undecided(summary)) {
            found.push(
                "the level above a load line did not miss for certain, so load lines may be higher"
                    .to_owned(),
            );
        }
        if self.runs().count() == 1 {
            found.push("one run says nothing of chance: name several of the same configuration".to_owned());
        }
        found
    }
}

/// The component that limits: the one that the user names, or all runs that name any.
fn limit(basis: &[Basis<'_>], said: Option<&str>) -> Result<String, String> {
    if let Some(said) = said {
        return Ok(said.to_owned());
    }
    let named: BTreeSet<String> =
        basis.iter().filter_map(|run| Some(Headroom::of(run.summary)?.component)).collect();
    match (named.len(), named.first()) {
        (1, Some(limit)) => Ok(limit.clone()),
        (0, _) => Err("no run names a component that limits its load line: find it with `plimsoll run SCENARIO --why`, or name it \
                       with --limit"
            .to_owned()),
        _ => Err(format!(
            "the runs do not agree on what limits: {}; name runs of one configuration, or say it with --limit",
            named.into_iter().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Whether a component computes where it limits; `None` where the run does not name it.
fn computes(summary: &Summary, component: &str) -> Option<bool> {
    let of_it = summary.limits.iter().find(|limit| limit.component.as_deref() == Some(component));
    of_it.map(|limit| is_computing(limit.kind))
}

const fn is_computing(kind: LimitKind) -> bool {
    matches!(kind, LimitKind::Processor | LimitKind::Quota)
}

/// Between which ends the load lines of runs lie, each times a factor at least and at most, with 95 % confidence over the runs. The
/// lower end is not known where a run has no load line, and the upper one where no level above it missed.
pub fn bounds<'a>(runs: impl Iterator<Item = (&'a Summary, [f64; 2])> + Clone) -> Bounds {
    let line = |summary: &'a Summary| summary.load_line.as_ref();
    let lows = runs.clone().map(|(summary, [low, _])| Some((line(summary)?.rate? * low).ln()));
    let highs = runs.map(|(summary, [_, high])| Some((line(summary)?.most()? * high).ln()));
    let end = |values: Option<Vec<f64>>, sign: f64| {
        let values = values.filter(|values| !values.is_empty())?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let half = student::mean_interval(&values).map_or(0.0, |interval| (interval.hi - interval.lo) / 2.0);
        Some((mean + sign * half).exp())
    };
    Bounds { least: end(lows.collect(), -1.0), most: end(highs.collect(), 1.0) }
}
