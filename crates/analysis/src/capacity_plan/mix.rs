//! Another mix of messages: between two mixes that were run, what an operation costs is that share of what it costs in each. A mix is
//! the share that each population has of the operations.

use super::Basis;
use plimsoll_model::record::LevelRecord;
use std::collections::BTreeMap;

/// Shares that differ by no more than this are the same.
const SAME: f64 = 0.01;

type Mix = BTreeMap<String, f64>;

/// Runs, with the share of the wanted mix that is theirs.
type Group<'a> = (f64, Vec<Basis<'a>>);

/// The runs whose load lines say that of the wanted mix: all of them where none is wanted, those of that mix, or those of two mixes
/// that it lies between.
///
/// # Errors
/// Why they say nothing of it, for people.
pub fn groups<'a>(basis: &[Basis<'a>], wanted: Option<&Mix>) -> Result<Vec<Group<'a>>, String> {
    let Some(wanted) = wanted else { return Ok(vec![(1.0, basis.to_vec())]) };
    let mut mixes: Vec<(Mix, Vec<Basis<'a>>)> = Vec::new();
    for run in basis {
        let own = mix(run).ok_or_else(|| {
            format!(
                "run {} has no populations, whose shares are a mix: what each kind of message costs was not measured",
                run.summary.run
            )
        })?;
        match mixes.iter_mut().find(|(known, _)| distance(known, &own) <= SAME) {
            Some((_, runs)) => runs.push(*run),
            None => mixes.push((own, vec![*run])),
        }
    }
    let names = |mix: &Mix| mix.keys().cloned().collect::<Vec<_>>();
    if let Some((known, _)) = mixes.iter().find(|(known, _)| names(known) != names(wanted)) {
        return Err(format!(
            "a mix has a share of each population, and the runs have: {}",
            names(known).join(", ")
        ));
    }
    let wanted = shares(wanted);
    if let Some((_, runs)) = mixes.iter().find(|(known, _)| distance(known, &wanted) <= SAME) {
        return Ok(vec![(1.0, runs.clone())]);
    }
    let mut pairs: Vec<(f64, [Group<'a>; 2])> = Vec::new();
    for (place, (one, runs)) in mixes.iter().enumerate() {
        for (other, others) in mixes.iter().skip(place + 1) {
            if let Some(part) = between(one, other, &wanted) {
                let pair = [(1.0 - part, runs.clone()), (part, others.clone())];
                pairs.push((distance(one, other), pair));
            }
        }
    }
    // The nearer both are, the less is taken to be straight.
    let nearest = pairs.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest.map(|(_, pair)| pair.to_vec()).ok_or_else(|| {
        let known: Vec<String> = mixes.iter().map(|(mix, _)| in_words(mix)).collect();
        let name = wanted.keys().next().cloned().unwrap_or_default();
        format!(
            "a mix is predicted between two that were run, and {} does not lie between any of: {}. Run more mixes, as with `plimsoll sweep \
             SCENARIO --set 'matrix.populations.{name}.load.share=[1, 5]'`, and name runs of two",
            in_words(&wanted),
            known.join("; ")
        )
    })
}

/// The mix at the load line of a run; `None` where it has one population.
fn mix(run: &Basis<'_>) -> Option<Mix> {
    let level = run.summary.load_line.as_ref()?.level;
    let level: &LevelRecord = run.record.levels.iter().find(|own| own.start.index == level)?;
    let names = run.record.terms.populations.iter().map(|own| own.name.clone());
    let rates = level.start.populations.iter().map(|load| load.offered());
    let rates: Mix = names.zip(rates).map(|(name, rate)| Some((name, rate?))).collect::<Option<_>>()?;
    (rates.len() > 1 && rates.values().sum::<f64>() > 0.0).then(|| shares(&rates))
}

/// Shares that are one together.
fn shares(rates: &Mix) -> Mix {
    let sum: f64 = rates.values().sum();
    rates.iter().map(|(name, rate)| (name.clone(), rate / sum)).collect()
}

/// The largest difference of a share.
fn distance(one: &Mix, other: &Mix) -> f64 {
    let of = |name: &String| (share(one, name) - share(other, name)).abs();
    one.keys().chain(other.keys()).map(of).fold(0.0, f64::max)
}

fn share(mix: &Mix, name: &str) -> f64 {
    mix.get(name).copied().unwrap_or(0.0)
}

/// The part of the way from one mix to another one at which the wanted mix lies; `None` where it does not lie between them.
fn between(one: &Mix, other: &Mix, wanted: &Mix) -> Option<f64> {
    let steps = || {
        one.keys().map(|name| (share(other, name) - share(one, name), share(wanted, name) - share(one, name)))
    };
    let length: f64 = steps().map(|(step, _)| step * step).sum();
    let part = steps().map(|(step, way)| step * way).sum::<f64>() / length;
    let is_on_it = steps().all(|(step, way)| (way - part * step).abs() <= SAME);
    (is_on_it && (0.0..=1.0).contains(&part)).then_some(part)
}

/// For people.
pub fn in_words(mix: &BTreeMap<String, f64>) -> String {
    let each = shares(mix).into_iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_line::LoadLine;
    use crate::summary::Summary;
    use plimsoll_model::Load;
    use plimsoll_model::record::{LevelStart, PopulationTerms, RunRecord};

    fn mix(all: &[(&str, f64)]) -> Mix {
        all.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()
    }

    fn run(rates: &[(&str, f64)]) -> (RunRecord, Summary) {
        let mut record = RunRecord::default();
        let population =
            |(name, _): &(&str, f64)| PopulationTerms { name: (*name).into(), ..PopulationTerms::default() };
        record.terms.populations = rates.iter().map(population).collect();
        let populations = rates.iter().map(|(_, rate)| Load::Rate(*rate)).collect();
        let start = LevelStart { index: 1, populations, ..LevelStart::default() };
        record.levels = vec![LevelRecord { start, ..LevelRecord::default() }];
        let load_line = Some(LoadLine {
            rate: Some(1000.0),
            devices: None,
            connect_rate: None,
            level: 1,
            at_least: false,
            below: None,
            at_most: None,
            limited_by: None,
            next_level: None,
        });
        let summary = Summary { load_line, ..crate::summarize(&RunRecord::default()) };
        (record, summary)
    }

    fn found(runs: &[(RunRecord, Summary)], wanted: &[(&str, f64)]) -> Result<Vec<(f64, usize)>, String> {
        let basis: Vec<Basis<'_>> = runs.iter().map(|(record, summary)| Basis { record, summary }).collect();
        let groups = groups(&basis, Some(&mix(wanted)))?;
        Ok(groups.into_iter().map(|(share, runs)| (share, runs.len())).collect())
    }

    #[test]
    fn a_mix_lies_between_two_that_were_run_or_is_one_of_them() {
        let runs = [
            run(&[("sensors", 900.0), ("cameras", 100.0)]),
            run(&[("sensors", 90.0), ("cameras", 10.0)]),
            run(&[("sensors", 500.0), ("cameras", 500.0)]),
            run(&[("sensors", 100.0), ("cameras", 900.0)]),
        ];
        let of = |wanted: &[(&str, f64)]| found(&runs, wanted);
        // Of the mixes around it, the nearest two.
        let half = of(&[("sensors", 7.0), ("cameras", 3.0)]).unwrap();
        assert!((half[0].0 - 0.5).abs() < 1e-9 && (half[1].0 - 0.5).abs() < 1e-9, "{half:?}");
        assert_eq!([half[0].1, half[1].1], [2, 1]);
        assert_eq!(of(&[("sensors", 0.9), ("cameras", 0.1)]).unwrap(), [(1.0, 2)]);
        let beyond = of(&[("sensors", 0.99), ("cameras", 0.01)]).unwrap_err();
        assert!(beyond.contains("cameras 1 %, sensors 99 % does not lie between"), "{beyond}");
        assert!(beyond.contains("matrix.populations.cameras.load.share"), "{beyond}");
        assert!(of(&[("sensors", 1.0)]).unwrap_err().contains("the runs have: cameras, sensors"));
        let alone = [run(&[])];
        assert!(found(&alone, &[("sensors", 1.0)]).unwrap_err().contains("has no populations"));
    }
}
