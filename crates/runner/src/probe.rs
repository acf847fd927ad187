//! A few messages in each form of the marker before any counted run: which of them come through the platform unharmed.

use crate::{Options, Progress, RunError, run};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::objective::Objectives;
use plimsoll_model::{Nanos, Verdict};
use plimsoll_platform::folder::Folder;
use plimsoll_scenario::plan::{
    ArrivalsPer, LevelPlan, LoadPlan, MarkerForm, Model, Plan, PlatformPlan, StatePlan,
};
use plimsoll_stats::distribution::InterArrival;
use std::sync::Arc;

/// Messages per second, for a second; devices that send them at most.
const RATE: f64 = 20.0;
const DEVICES: u32 = 4;
/// How long stragglers are awaited.
const PATIENCE: Nanos = Nanos::from_secs(3);

const FORMS: [MarkerForm; 3] = [MarkerForm::Ascii, MarkerForm::Integer, MarkerForm::Binary];

/// What became of the messages of one form.
pub enum Probed {
    /// The scenario cannot say it: why.
    Impossible(String),
    /// They were sent.
    Sent(Box<LevelSummary>),
}

/// Why nothing can be said of a platform.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no place for what is measured.
    #[error("no temporary folder: {0}")]
    NoFolder(std::io::Error),
    /// A run could not be done.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The platform could not be reached, or ended.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

impl Probed {
    /// What is left of the marker, and whether all of it came through.
    pub fn in_words(&self) -> (&'static str, bool) {
        let Probed::Sent(level) = self else { return ("cannot stand in this message", false) };
        let whole = level.expected_deliveries;
        match (level.refused, level.delivered + level.superseded, level.foreign) {
            _ if level.sent == 0 => ("nothing could be sent", false),
            (refused, 0, _) if refused == level.sent => ("refused by the platform", false),
            _ if whole == 0 => match level.acknowledged {
                Some(answered) if answered == level.sent => ("taken; nobody receives it", true),
                Some(0) => ("not answered", false),
                Some(_) => ("some were taken, others not", false),
                None => ("nothing shows whether it was taken", false),
            },
            (_, delivered, _) if delivered == whole => ("all of it", true),
            (_, 0, 0) => ("nothing came", false),
            (_, 0, _) => ("messages came, but without it", false),
            _ => ("some of it", false),
        }
    }
}

/// Sends messages in each form; whether those in the scenario's `own` come through. `plan_of` gives the scenario with another form, or
/// why that cannot be, and `told` is called with what became of each. Nothing of it is stored.
///
/// # Errors
/// The first run that could not be done.
pub fn probe(
    own: MarkerForm,
    plan_of: impl Fn(MarkerForm) -> Result<Plan, String>,
    options: &Options,
    progress: &mut dyn Progress,
    mut told: impl FnMut(MarkerForm, &Probed),
) -> Result<bool, ProbeError> {
    // Nobody else knows its name or may look into it, and it goes with the probe.
    let scratch = Folder::fresh(&options.program).map_err(ProbeError::NoFolder)?;
    let options = Options { store: scratch.path().join("probe.db"), ..options.clone() };
    let mut survives = false;
    for form in FORMS {
        let probed = match plan_of(form) {
            Ok(plan) => send(small(plan), &options, progress)?,
            Err(why) => Probed::Impossible(why),
        };
        survives |= form == own && probed.in_words().1;
        told(form, &probed);
    }
    Ok(survives)
}

fn send(plan: Plan, options: &Options, progress: &mut dyn Progress) -> Result<Probed, ProbeError> {
    let outcome = run(&Arc::new(plan), options, progress)?;
    match outcome.summary.verdict {
        Verdict::Failed => return Err(ProbeError::Failed(outcome.summary.reason)),
        Verdict::Interrupted => return Err(ProbeError::Interrupted),
        _ => {}
    }
    let level = outcome.summary.levels.into_iter().next();
    Ok(level.map_or(Probed::Impossible("nothing was sent".into()), |level| Probed::Sent(Box::new(level))))
}

/// The same with few devices and messages, and nothing beside them.
fn small(plan: Plan) -> Plan {
    let load = LoadPlan {
        model: Model::Open { arrivals: InterArrival::Constant, per: ArrivalsPer::Population },
        levels: vec![LevelPlan::Rate(RATE)],
        turn: None,
        curve: None,
        search: None,
        calibration: None,
        stop_after_missed: None,
        storm: None,
        warm_up: Nanos::ZERO,
        hold: Nanos::from_secs(1),
        count: None,
        samples: 1,
        drain: PATIENCE,
        ..plan.load
    };
    let devices = plan.devices.min(DEVICES);
    let objectives = Objectives::default();
    // What is there is not touched more than the set-up does.
    let platform = PlatformPlan { state: StatePlan::default(), logs: None, ..plan.platform };
    Plan { platform, load, devices, objectives, northbound: None, schedule: None, ..plan }
}
