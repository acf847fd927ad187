use super::*;
use plimsoll_model::fault::FaultKind;
use plimsoll_model::fault::PlannedFault;
use plimsoll_model::objective::{Comparison, Objective, Objectives, Subject};
use plimsoll_model::record::{LevelEnd, LevelStart, SampleRecord};
use plimsoll_model::{Counts, Histogram, Load, Metric};

const MILLI: Nanos = Nanos(1_000_000);

fn terms() -> Terms {
    let objective = |subject, comparison, bound| Objective { population: None, subject, comparison, bound };
    let level = vec![
        objective(Subject::Delivered, Comparison::AtLeast, 0.999),
        objective(Subject::Quantile(Metric::PublishTime, 0.99), Comparison::Below, 0.05),
    ];
    let objectives = Objectives { level, load_line: None };
    Terms { qos: 1, subscribers: 1, devices: 10, objectives, ..Terms::default() }
}

/// A sample of 100 messages that all took so long, of which so many were lost.
fn sample(took: Nanos, lost: u64) -> Option<SampleRecord> {
    let mut times = Histogram::new();
    times.record_n(took, 100);
    let counts = Counts {
        due: 100,
        sent: 100,
        acknowledged: 100,
        completed: 100,
        expected_deliveries: 100,
        delivered: 100 - lost,
        ..Counts::default()
    };
    Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() })
}

fn planned(at: i64, length: i64) -> PlannedFault {
    let (at, length) = (Nanos::from_millis(at), Nanos::from_millis(length));
    PlannedFault { component: "broker".into(), kind: FaultKind::Pause, at, length }
}

/// A level of samples of a second, with those faults, done `late` after their time.
fn level(samples: Vec<Option<SampleRecord>>, faults: Vec<PlannedFault>, late: Nanos) -> LevelRecord {
    let hold_start = Nanos::from_secs(100);
    let done = |fault: &PlannedFault| FaultRecord {
        began: Some(hold_start + fault.at + late),
        ended: Some(hold_start + fault.end() + late),
        means: "by hand".into(),
        failed: None,
    };
    let hold = Nanos::from_secs(samples.len() as i64);
    let end =
        LevelEnd { at: hold_start + hold, faults: faults.iter().map(done).collect(), ..LevelEnd::default() };
    LevelRecord {
        start: LevelStart {
            load: Load::Rate(100.0),
            hold_start,
            hold,
            samples: samples.len() as u16,
            faults,
            ..LevelStart::default()
        },
        end: Some(end),
        samples,
        ..LevelRecord::default()
    }
}

fn outcome(times: &[i64], faults: Vec<PlannedFault>) -> Vec<FaultSummary> {
    let samples = times.iter().map(|millis| sample(MILLI * *millis, 0)).collect();
    of(&level(samples, faults, MILLI * 20), &terms())
}

#[test]
fn recovery_lasts_until_the_first_of_three_samples_that_meet_the_objectives() {
    // Stopped from 4 s to 6 s; one sample in between is good by luck.
    let times = [5, 5, 5, 5, 2000, 1000, 500, 5, 300, 5, 5, 5, 5, 5];
    let found = &outcome(&times, vec![planned(4000, 2000)])[0];
    assert_eq!(found.recovery.outcome, Outcome::Recovered);
    let near = |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-6);
    assert!(
        near(found.recovery.from_end, 2.98) && near(found.recovery.from_start, 4.98),
        "{:?}",
        found.recovery
    );
    assert_eq!((found.planned, found.actual), ([4.0, 6.0], Some([4.02, 6.02])));
    let spans = [Some(&found.before), Some(&found.during), found.recovering.as_ref(), found.after.as_ref()];
    let spans = spans.map(|phase| phase.map(|phase| phase.span));
    assert_eq!(spans, [Some([0.0, 4.0]), Some([4.0, 7.0]), Some([7.0, 9.0]), Some([9.0, 14.0])]);
    let due: u64 = [&found.before, &found.during].iter().map(|phase| phase.due).sum::<u64>()
        + found.recovering.iter().chain(&found.after).map(|phase| phase.due).sum::<u64>();
    assert_eq!(due, 1400, "each message belongs to one phase");
    assert!(found.alone_missed());
}

#[test]
fn who_does_not_notice_a_fault_has_nothing_to_recover_from() {
    let found = &outcome(&[5; 12], vec![planned(4000, 2000)])[0];
    assert_eq!((found.recovery.outcome, found.recovery.from_start), (Outcome::Undisturbed, Some(0.0)));
    assert!(found.recovering.is_none());
}

#[test]
fn each_of_several_faults_has_a_recovery_of_its_own() {
    let times = [5, 5, 5, 900, 900, 5, 5, 5, 5, 900, 900, 900, 5, 5, 5];
    let found = outcome(&times, vec![planned(3000, 1000), planned(9000, 1000)]);
    let ends: Vec<_> =
        found.iter().map(|fault| fault.recovery.from_end.map(|end| (end * 100.0).round())).collect();
    assert_eq!(ends, [Some(98.0), Some(198.0)]);
    assert_eq!((found[0].after.as_ref().unwrap().span, found[1].before.span), ([5.0, 9.0], [5.0, 9.0]));
}

#[test]
fn who_does_not_recover_is_told_from_who_is_about_to() {
    let bad = |times: &dyn Fn(i64) -> i64| {
        let all: Vec<i64> = (0..30).map(|at| if at < 4 { 5 } else { times(at) }).collect();
        outcome(&all, vec![planned(4000, 2000)])[0].recovery.outcome
    };
    assert_eq!(bad(&|_| 2000), Outcome::NotRecovered);
    assert_eq!(bad(&|at| 5000 - 100 * at), Outcome::Recovering, "its times fall");
    let short: Vec<i64> = (0..12).map(|at| if at < 4 { 5 } else { 2000 }).collect();
    assert_eq!(
        outcome(&short, vec![planned(4000, 2000)])[0].recovery.outcome,
        Outcome::Recovering,
        "six seconds"
    );
}

#[test]
fn nothing_is_said_of_a_platform_that_missed_before_or_of_a_fault_that_was_not_there() {
    let found = &outcome(&[900; 20], vec![planned(4000, 2000)])[0].recovery;
    assert!(found.outcome == Outcome::Unknown && found.why.contains("before it missed"), "{found:?}");
    let mut record = level(vec![sample(MILLI, 0); 20], vec![planned(4000, 2000)], Nanos::ZERO);
    let end = record.end.as_mut().unwrap();
    end.faults[0] = FaultRecord { failed: Some("no rights".into()), ..FaultRecord::default() };
    let found = &of(&record, &terms())[0];
    assert_eq!((found.recovery.outcome, found.actual), (Outcome::Unknown, None));
    assert_eq!(found.failed.as_deref(), Some("no rights"));
    record.end.as_mut().unwrap().faults.clear();
    assert!(of(&record, &terms())[0].failed.is_some(), "nobody told anything");
}

#[test]
fn a_lost_message_is_a_disturbance_whatever_the_others_took() {
    let mut samples = vec![sample(MILLI, 0); 12];
    samples[5] = sample(MILLI, 1);
    let found = &of(&level(samples, vec![planned(4000, 2000)], Nanos::ZERO), &terms())[0];
    assert_eq!((found.recovery.outcome, found.recovery.from_end), (Outcome::Recovered, Some(0.0)));
    assert_eq!((found.before.lost, found.during.lost, found.after.as_ref().unwrap().lost), (0, 1, 0));
}

#[test]
fn a_few_slow_messages_are_chance() {
    let with = |slow: u64| {
        let mut own = sample(MILLI, 0);
        let times = own.as_mut().unwrap().histograms.get_mut(&Metric::PublishTime).unwrap();
        *times = Histogram::new();
        times.record_n(MILLI, 100 - slow);
        times.record_n(MILLI * 100, slow);
        let mut samples = vec![sample(MILLI, 0); 12];
        samples[5] = own;
        of(&level(samples, vec![planned(4000, 2000)], Nanos::ZERO), &terms())[0].recovery.outcome
    };
    // 100 x 1 % + 3.3 x sqrt(0.99) + 1.
    assert_eq!((with(5), with(6)), (Outcome::Undisturbed, Outcome::Recovered));
}

/// A level of which so many of 100 messages a second are sent again since the fault, and so many attempts are answered.
fn retried(repeated: u64, answered: u64) -> Outcome {
    let samples = (0..30).map(|at| {
        let mut own = sample(MILLI * if at < 4 { 5 } else { 2000 }, 0);
        if let Some(own) = own.as_mut().filter(|_| at >= 4) {
            own.counts.completed = answered.min(100);
            own.counts.acknowledged_again = answered.saturating_sub(100);
            own.counts.repeated = repeated;
        }
        own
    });
    of(&level(samples.collect(), vec![planned(4000, 2000)], Nanos::ZERO), &terms())[0].recovery.outcome
}

#[test]
fn retries_that_keep_a_platform_busy_are_told_from_those_that_follow_from_a_broken_one() {
    assert_eq!(retried(200, 250), Outcome::Metastable);
    assert_eq!(retried(200, 60), Outcome::NotRecovered, "it has lost capacity");
    assert_eq!(retried(0, 250), Outcome::NotRecovered, "nobody retries");
    assert_eq!(retried(5, 250), Outcome::NotRecovered, "hardly anybody does");
}

#[test]
fn an_objective_on_recovery_looks_at_the_longest_and_at_who_did_not() {
    let subject = Subject::FaultRecovery;
    let objective = Objective { population: None, subject, comparison: Comparison::Below, bound: 1.5 };
    let judged = |times: &[i64], faults| {
        judge(&objective, &LevelSummary { faults: outcome(times, faults), ..LevelSummary::default() })
    };
    let twice = || vec![planned(3000, 1000), planned(9000, 1000)];
    assert_eq!(judged(&[5, 5, 5, 900, 5, 5, 5, 5, 5, 900, 900, 5, 5, 5, 5], twice()), Standing::Met);
    let missed = judged(&[5, 5, 5, 900, 900, 5, 5, 5, 5, 900, 900, 900, 5, 5, 5], twice());
    assert!(matches!(&missed, Standing::Missed(why) if why.contains("fault_recovery 1.98 s")), "{missed:?}");
    let never: Vec<i64> = (0..30).map(|at| if at < 4 { 5 } else { 2000 }).collect();
    assert!(matches!(judged(&never, vec![planned(4000, 2000)]), Standing::Missed(_)));
    assert!(matches!(judged(&never[..12], vec![planned(4000, 2000)]), Standing::Undecided(_)));
    assert_eq!(judge(&objective, &LevelSummary::default()), Standing::Met);
}

#[test]
fn samples_in_which_our_generator_was_late_say_nothing_of_the_platform() {
    let mut samples: Vec<_> = (0..14).map(|at| sample(MILLI * if at == 4 { 900 } else { 5 }, 0)).collect();
    // We are late in the two samples after the fault, and in one long before it.
    for at in [1, 6, 7] {
        samples[at] = sample(MILLI * 900, 0);
        let mut late = Histogram::new();
        late.record_n(MILLI * 800, 50);
        late.record_n(Nanos(1), 50);
        samples[at].as_mut().unwrap().histograms.insert(Metric::Lateness, late);
    }
    samples[5] = sample(MILLI * 900, 0);
    let found = &of(&level(samples, vec![planned(4000, 1000)], Nanos::ZERO), &terms())[0];
    assert_eq!((found.recovery.outcome, found.recovery.from_end), (Outcome::Recovered, Some(3.0)));
    assert_eq!(found.recovery.resolution, 3.0, "the platform may have recovered right after the missed one");
}

#[test]
fn what_is_not_known_of_one_fault_does_not_keep_the_next_from_being_judged() {
    let times = [900, 900, 900, 900, 900, 5, 5, 5, 5, 900, 900, 5, 5, 5, 5];
    let found = outcome(&times, vec![planned(3000, 1000), planned(9000, 1000)]);
    let outcomes: Vec<Outcome> = found.iter().map(|fault| fault.recovery.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unknown, Outcome::Recovered]);
    assert!(found[0].recovering.is_none() && found[0].after.is_some());
}

#[test]
fn of_an_invalid_level_nobody_says_that_the_platform_did_not_recover() {
    let of = |times: &[i64]| {
        let faults = outcome(times, vec![planned(4000, 2000)]);
        let mut level = LevelSummary { faults, verdict: LevelVerdict::Invalid, ..LevelSummary::default() };
        judge_validity(&mut level);
        level.faults.remove(0).recovery
    };
    let never: Vec<i64> = (0..30).map(|at| if at < 4 { 5 } else { 2000 }).collect();
    let found = of(&never);
    assert!(found.outcome == Outcome::Unknown && found.why.starts_with("the level is invalid"), "{found:?}");
    let found = of(&[5, 5, 5, 5, 2000, 1000, 500, 5, 5, 5, 5]);
    assert_eq!((found.outcome, found.at_most), (Outcome::Recovered, true));
    assert!(found.in_words().starts_with("recovered at most 0.98 s after its end"), "{}", found.in_words());
}
