//! A run as if other objectives had been demanded: its levels were recorded whole, so that they can be judged again.

use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{LevelRecord, RunRecord};

/// The same run with those objectives in the place of its own of the same name, and beside its others. Levels that a search chose are
/// judged like listed ones, since it would have chosen others.
///
/// # Errors
/// Its levels say nothing of an objective: why, for people.
pub fn rejudged(mut record: RunRecord, objectives: &[Objective]) -> Result<RunRecord, String> {
    for wanted in objectives {
        if let Some(why) = unseen(wanted, &record) {
            return Err(format!("run {} says nothing of {wanted}: {why}", record.id));
        }
        let own = &mut record.terms.objectives.level;
        match own.iter_mut().find(|own| own.key() == wanted.key()) {
            Some(own) if own == wanted => {}
            Some(own) => {
                *own = wanted.clone();
                record.terms.search = None;
            }
            None => {
                own.push(wanted.clone());
                record.terms.search = None;
            }
        }
    }
    Ok(record)
}

/// Why the levels of a run say nothing of an objective.
fn unseen(objective: &Objective, record: &RunRecord) -> Option<String> {
    let population = objective.population.as_ref();
    let place = match population {
        None => None,
        Some(name) => match record.terms.populations.iter().position(|own| own.name == *name) {
            Some(place) => Some(place),
            None => return Some(format!("it has no population `{name}`")),
        },
    };
    let of_it = |level: &LevelRecord, sees: &dyn Fn(&LevelRecord) -> bool| match place {
        None => sees(level),
        Some(place) => level.populations.get(place).is_some_and(sees),
    };
    let any = |sees: &dyn Fn(&LevelRecord) -> bool| record.levels.iter().any(|level| of_it(level, sees));
    match objective.subject {
        Subject::Quantile(metric, _) | Subject::Mean(metric) => {
            let sees = |level: &LevelRecord| {
                let mut samples = level.samples.iter().flatten();
                samples.any(|sample| sample.histograms.get(&metric).is_some_and(|seen| seen.count() > 0))
            };
            let name = metric.name().replace('_', " ");
            (!any(&sees)).then(|| format!("no {name} was recorded; run the scenario with that objective"))
        }
        Subject::Delivered => {
            let sees = |level: &LevelRecord| {
                level.samples.iter().flatten().any(|sample| sample.counts.expected_deliveries > 0)
            };
            (!any(&sees)).then(|| "nothing was to be delivered".to_owned())
        }
        Subject::Connected => {
            let sees = |level: &LevelRecord| {
                level.start.load.devices().is_some() || level.start.load.connect_rate().is_some()
            };
            (!any(&sees)).then(|| "all devices were connected before its levels".to_owned())
        }
        Subject::FaultRecovery => {
            let sees = |level: &LevelRecord| !level.start.faults.is_empty();
            (!any(&sees)).then(|| "nothing went wrong on purpose".to_owned())
        }
        Subject::Achieved => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarize;
    use plimsoll_model::objective::{Comparison, Objectives};
    use plimsoll_model::record::{LevelEnd, LevelStart, RunEnd, SampleRecord, Terms};
    use plimsoll_model::{Counts, Histogram, Load, Metric, Nanos};

    fn below(metric: Metric, q: f64, bound: f64) -> Objective {
        let subject = Subject::Quantile(metric, q);
        Objective { population: None, subject, comparison: Comparison::Below, bound }
    }

    /// Levels of 100 to 400 messages per second, each of which takes ten times as long as at the one before.
    fn run() -> RunRecord {
        let level = |index: u16| {
            let sample = || {
                let mut times = Histogram::new();
                times.record_n(Nanos::from_millis(10i64.pow(u32::from(index))), 100);
                let counts =
                    Counts { due: 100, sent: 100, acknowledged: 100, completed: 100, ..Counts::default() };
                let histograms = [Metric::PublishTime, Metric::PublishTimeFromSend];
                let histograms = histograms.map(|metric| (metric, times.clone()));
                SampleRecord { counts, histograms: histograms.into() }
            };
            let hold_start = Nanos::from_secs(20 * i64::from(index));
            LevelRecord {
                start: LevelStart {
                    index,
                    load: Load::Rate(100.0 * f64::from(index + 1)),
                    hold_start,
                    hold: Nanos::from_secs(10),
                    samples: 10,
                    ..LevelStart::default()
                },
                end: Some(LevelEnd { index, at: hold_start + Nanos::from_secs(11), ..LevelEnd::default() }),
                samples: (0..10).map(|_| Some(sample())).collect(),
                ..LevelRecord::default()
            }
        };
        RunRecord {
            id: "r".into(),
            levels: (0..4).map(level).collect(),
            terms: Terms {
                qos: 1,
                levels: 4,
                objectives: Objectives {
                    level: vec![below(Metric::PublishTime, 0.9, 0.05)],
                    load_line: None,
                },
                ..Terms::default()
            },
            end: Some(RunEnd::Complete),
            ..RunRecord::default()
        }
    }

    fn line(record: &RunRecord) -> Option<f64> {
        summarize(record).load_line.and_then(|line| line.rate)
    }

    #[test]
    fn the_load_line_is_where_the_other_objective_is_met() {
        assert_eq!(line(&run()), Some(200.0));
        let of = |bound| line(&rejudged(run(), &[below(Metric::PublishTime, 0.9, bound)]).unwrap());
        assert_eq!([of(0.05), of(0.005), of(0.5)], [Some(200.0), Some(100.0), Some(300.0)]);
        assert_eq!(of(0.0005), None);
        // Another quantile of the same time is demanded beside it.
        let beside = rejudged(run(), &[below(Metric::PublishTime, 0.5, 0.5)]).unwrap();
        assert_eq!((line(&beside), beside.terms.objectives.level.len()), (Some(200.0), 2));
    }

    #[test]
    fn what_was_not_recorded_is_refused_with_the_reason() {
        let refused = |objective: Objective| rejudged(run(), &[objective]).unwrap_err();
        assert!(refused(below(Metric::SubscribeTime, 0.9, 1.0)).contains("no subscribe time was recorded"));
        let of = |subject| Objective { subject, ..below(Metric::PublishTime, 0.9, 1.0) };
        assert!(refused(of(Subject::Delivered)).contains("nothing was to be delivered"));
        assert!(refused(of(Subject::Connected)).contains("before its levels"));
        let nobody = Objective { population: Some("cameras".into()), ..below(Metric::PublishTime, 0.9, 1.0) };
        assert!(refused(nobody).contains("no population `cameras`"));
    }
}
