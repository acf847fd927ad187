//! The verdict on a level, from what its objectives say and from whether it measured the platform at all.
//!
//! In this order: a platform that died has missed; so has one that missed clearly, whatever the host did; then a level that
//! measured generator, receiver or host is invalid, and so is a miss of a platform whose processors others held; a level that misses
//! nothing is invalid if the clocks of workers leave an objective open; what nothing proves, or what was still changing, is
//! undecided; and what is left is what the objectives say.

use crate::clear;
use crate::level::{LevelSummary, LevelVerdict};
use crate::objective::Standing;
use crate::standing::standing;
use crate::validity;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{DeathRecord, LevelRecord, Terms};
use plimsoll_model::text::grouped;
use plimsoll_model::{Nanos, Validity};

/// Share of what was sent of which nothing need prove that it arrived.
const UNPROVED: f64 = 0.001;

/// Share of what was sent from which on what was refused is told first.
const MOSTLY_REFUSED: f64 = 0.5;

/// Puts verdict, reasons and validity into the summary of a level; `why_invalid` says why where it is not valid.
pub(crate) fn judge(
    level: &mut LevelSummary,
    record: &LevelRecord,
    terms: &Terms,
    why_invalid: Option<String>,
) {
    if let Some(why) = record.end.as_ref().and_then(|end| end.halted.clone()) {
        // What the platform does with a part of the load alone says nothing of it.
        (level.validity, level.verdict) = (Validity::GeneratorBound, LevelVerdict::Invalid);
        (level.reasons, level.is_worth_again) = (vec![why], true);
        return;
    }
    if !level.finished && level.death.is_none() {
        level.reasons = vec!["the run ended within this level".into()];
        level.reasons.extend(level.incident.clone());
        return;
    }
    let of = |objective| standing(objective, level, record);
    let standings: Vec<(&Objective, Standing)> =
        terms.objectives.level.iter().map(|objective| (objective, of(objective))).collect();
    decide(level, record, &standings, why_invalid);
    let is_passing = |(objective, standing): &&(&Objective, Standing)| {
        *standing != Standing::Met && may_pass(level, objective)
    };
    let passing =
        standings.iter().find(is_passing).map(|(objective, _)| level.about(objective).warming.clone());
    if level.verdict != LevelVerdict::Met {
        // That nearly nothing was taken, or nothing any more, explains whatever objective missed.
        let refused = level.refused as f64 > level.sent as f64 * MOSTLY_REFUSED;
        let gone = record.end.as_ref().is_some_and(|end| end.platform_gone);
        let explains = (refused || gone) && level.death.is_none();
        let at = if explains { 0 } else { level.reasons.len() };
        level.reasons.splice(at..at, level.incident.clone());
        level.reasons.extend(passing.clone().unwrap_or_else(|| level.warming.clone()));
        level.reasons.extend(level.stall.clone());
    }
    let open = standings.iter().any(|(_, standing)| matches!(standing, Standing::Undecided(_)));
    level.is_worth_again = match level.verdict {
        LevelVerdict::Undecided => open || passing.is_some(),
        LevelVerdict::Invalid => level.validity == Validity::HostBound,
        _ => false,
    };
}

fn decide(
    level: &mut LevelSummary,
    record: &LevelRecord,
    standings: &[(&Objective, Standing)],
    why_invalid: Option<String>,
) {
    let reasons: Vec<String> = standings.iter().filter_map(|(_, standing)| standing.reason()).collect();
    let gone = record.end.as_ref().is_some_and(|end| end.platform_gone);
    if let Some(death) = &level.death {
        let death = in_words(death, record);
        level.reasons = std::iter::once(death).chain(reasons).collect();
        level.verdict = LevelVerdict::Missed;
        return;
    }
    let all_met = standings.iter().all(|(_, standing)| *standing == Standing::Met);
    let robbed = level.starved.as_ref().filter(|starved| starved.is_robbed() && (gone || !all_met));
    let held = robbed.map(|starved| Nanos::from_secs_f64(record.start.hold.as_secs_f64() * starved.of_all));
    let robbed = robbed.map(|starved| starved.in_words());
    let excuse = validity::excuse(&level.generator).filter(|_| !all_met);
    let clear = |(objective, standing): &&(&Objective, Standing)| {
        matches!(standing, Standing::Missed(_))
            && !may_pass(level, objective)
            && !(excuse.is_some() && waits_for_us(objective.subject))
            && clear::is_clear(objective, level, record, held)
    };
    let clear: Vec<String> = standings.iter().filter(clear).filter_map(|(_, s)| s.reason()).collect();
    let (validity, why) = match (why_invalid, &robbed, excuse) {
        (Some(why), ..) => (level.validity, Some(why)),
        (None, Some(why), _) => (Validity::HostBound, Some(why.clone())),
        (None, None, Some((validity, why))) => (validity, Some(why)),
        (None, None, None) => (Validity::Valid, None),
    };
    if !clear.is_empty() {
        level.verdict = LevelVerdict::Missed;
        level.reasons = clear;
        if level.validity != Validity::Valid || robbed.is_some() {
            level.reasons.extend(why.map(|why| format!("that is clear, although {why}")));
        }
        return;
    }
    level.validity = validity;
    if let Some(why) = why {
        (level.verdict, level.reasons) = (LevelVerdict::Invalid, vec![why]);
        return;
    }
    let is_missed = |(_, standing): &&(&Objective, Standing)| matches!(standing, Standing::Missed(_));
    let is_refused = |(_, standing): &&(&Objective, Standing)| matches!(standing, Standing::Refused(_));
    let missed: Vec<&Objective> =
        standings.iter().filter(is_missed).map(|(objective, _)| *objective).collect();
    let refused: Vec<String> =
        standings.iter().filter(is_refused).filter_map(|(_, standing)| standing.reason()).collect();
    if missed.is_empty() && !gone && !refused.is_empty() {
        (level.validity, level.verdict, level.reasons) =
            (Validity::ClockBound, LevelVerdict::Invalid, refused);
        return;
    }
    let passing = missed.iter().any(|objective| may_pass(level, objective));
    let unproved = (level.unproved as f64 > level.sent as f64 * UNPROVED).then(|| unproved(level));
    (level.verdict, level.reasons) = match (!missed.is_empty(), unproved) {
        _ if gone => (LevelVerdict::Missed, reasons),
        (true, _) if passing => (LevelVerdict::Undecided, reasons),
        (true, _) => (LevelVerdict::Missed, reasons),
        (false, Some(unproved)) => {
            (LevelVerdict::Undecided, std::iter::once(unproved).chain(reasons).collect())
        }
        (false, None) if all_met => (LevelVerdict::Met, reasons),
        (false, None) => (LevelVerdict::Undecided, reasons),
    };
}

/// Whether a later hold may meet an objective that this one missed: a time of those whose platform was still warming up. The
/// times of one population say nothing about those of another.
fn may_pass(level: &LevelSummary, objective: &Objective) -> bool {
    let is_time = matches!(objective.subject, Subject::Quantile(..) | Subject::Mean(_));
    is_time && level.about(objective).warming.is_some()
}

/// Whether a miss may come from our own acknowledgements, for which the platform waits before it delivers more.
fn waits_for_us(subject: Subject) -> bool {
    use plimsoll_model::Metric::{Freshness, SubscribeTime, SubscribeTimeFromSend};
    matches!(
        subject,
        Subject::Quantile(SubscribeTime | SubscribeTimeFromSend | Freshness, _)
            | Subject::Mean(SubscribeTime | SubscribeTimeFromSend | Freshness)
    )
}

fn unproved(level: &LevelSummary) -> String {
    let [unproved, sent] = [level.unproved, level.sent].map(|count| grouped(count as f64));
    format!(
        "nothing proves that {unproved} of {sent} messages arrived: they are neither acknowledged nor delivered to anybody, and the \
         platform answered no ping after them"
    )
}

fn in_words(death: &DeathRecord, record: &LevelRecord) -> String {
    let DeathRecord { component, status, at, .. } = death;
    let when = *at - record.start.hold_start;
    let load = record.start.load;
    let when = match when >= Nanos::ZERO {
        true => format!("after {:.1} s", when.as_secs_f64()),
        false => "before its hold".to_owned(),
    };
    format!("{component} died at {load} {when} ({status}){}", death.in_its_words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::summarize;
    use plimsoll_model::objective::{Comparison, Objectives};
    use plimsoll_model::record::{LevelEnd, LevelStart, PopulationTerms, SampleRecord};
    use plimsoll_model::{Counts, Histogram, Metric};

    /// A level of samples whose messages take these times.
    fn level(micros: &[i64]) -> LevelRecord {
        let sample = |micros: &i64| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_micros(*micros), 30);
            let counts = Counts { due: 30, sent: 30, acknowledged: 30, completed: 30, ..Counts::default() };
            let histograms =
                [(Metric::PublishTime, times.clone()), (Metric::PublishTimeFromSend, times)].into();
            Some(SampleRecord { counts, histograms })
        };
        let samples = u16::try_from(micros.len()).unwrap();
        LevelRecord {
            start: LevelStart { samples, hold: Nanos::from_secs(6), ..LevelStart::default() },
            end: Some(LevelEnd { at: Nanos::from_secs(6), ..LevelEnd::default() }),
            samples: micros.iter().map(sample).collect(),
            ..LevelRecord::default()
        }
    }

    /// That one population warms up excuses no miss of another one.
    #[test]
    fn a_warm_up_excuses_the_times_of_its_own_population() {
        let (warming, steady) = ([90, 80, 70, 60, 50, 40], [80; 6]);
        let of = |name: &str| PopulationTerms {
            name: name.into(),
            terms: Terms { qos: 1, devices: 1, ..Terms::default() },
            ..PopulationTerms::default()
        };
        let judged = |near: &[i64], far: &[i64]| {
            let objective = Objective {
                population: Some("far".into()),
                subject: Subject::Quantile(Metric::PublishTime, 0.95),
                comparison: Comparison::Below,
                bound: 10e-6,
            };
            let terms = Terms {
                qos: 1,
                devices: 2,
                objectives: Objectives { level: vec![objective], load_line: None },
                populations: vec![of("near"), of("far")],
                ..Terms::default()
            };
            let populations = vec![level(near), level(far)];
            let judged = summarize(&LevelRecord { populations, ..level(near) }, &terms, &[]);
            (judged.verdict, judged.reasons.join("; ").contains("warming up"))
        };
        assert_eq!(judged(&warming, &steady).0, LevelVerdict::Missed);
        assert_eq!(judged(&steady, &warming), (LevelVerdict::Undecided, true));
        assert_eq!(judged(&steady, &steady), (LevelVerdict::Missed, false));
    }
}
