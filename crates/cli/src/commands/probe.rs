//! `check --probe`: sends a few messages in each form of the marker before any counted run, and says which of them come
//! through the platform unharmed.

use super::load_options::LoadOptions;
use super::run::{Occasion, perform_plan};
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use crate::progress::TerminalProgress;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::objective::Objectives;
use plimsoll_model::{Nanos, Verdict};
use plimsoll_platform::folder::Folder;
use plimsoll_report::terminal::{count, wrapped};
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
enum Outcome {
    /// The scenario cannot say it.
    Impossible(String),
    Sent(Box<LevelSummary>),
}

/// Probes the platform of a scenario with each form; the exit code says whether the scenario's own survives.
pub fn perform(load: &LoadOptions) -> Result<u8, Failure> {
    let plan = load.plan()?;
    if plan.with_devices().count() > 1 {
        let told = "a probe tries the messages of one population, and this scenario has several; probe a scenario with \
                    `population` for each of them";
        return Err(Failure::Undoable(told.to_owned()));
    }
    let own = plan.message.marker;
    let receives = plan.subscribers.count > 0;
    // Nobody else knows its name or may look into it, and it goes with the probe.
    let scratch = std::env::current_exe().and_then(|program| Folder::fresh(&program));
    let scratch = scratch.map_err(|error| Failure::Undoable(format!("no temporary folder: {error}")))?;
    let store = StoreOption { store: scratch.path().join("probe.db") };
    say(&format!(
        "{:<9}{:>6}{:>10}{:>11}{:>14}  what is left of the marker\n",
        "form", "sent", "answered", "delivered", "unrecognised"
    ));
    let mut survives = false;
    for form in FORMS {
        let outcome = probe(load, form, &store)?;
        let (row, unharmed) = told(form, &outcome);
        survives |= unharmed && form == own;
        say(&format!("{row}\n"));
    }
    let told = match survives {
        true if !receives => {
            "\nthe platform takes messages; without subscribers nothing shows what is left of them\n"
                .to_owned()
        }
        false if !receives => {
            "\nnothing shows that the platform takes all messages in that form\n".to_owned()
        }
        true => format!("\nthe scenario's own form, {own}, survives: a run can follow every message\n"),
        false => {
            let text = format!(
                "the scenario's own form, {own}, does not survive, so that a run would count its messages as lost; \
                 write `message.marker` with a form that does, or another template"
            );
            format!("\n{}\n", wrapped(&text, "").join("\n"))
        }
    };
    say(&told);
    Ok(if survives { exit_code::MET } else { exit_code::UNDOABLE })
}

fn probe(load: &LoadOptions, form: MarkerForm, store: &StoreOption) -> Result<Outcome, Failure> {
    let plan = match load.with(&format!("message.marker={form}")).plan() {
        Ok(plan) => small(plan),
        Err(failure) => {
            let told = failure.to_string();
            let first = told.lines().next().unwrap_or_default();
            return Ok(Outcome::Impossible(first.trim_start_matches("error: ").to_owned()));
        }
    };
    let outcome =
        perform_plan(&Arc::new(plan), store, &mut TerminalProgress::new(true), Occasion::default())?;
    match outcome.summary.verdict {
        Verdict::Failed => return Err(Failure::Undoable(outcome.summary.reason)),
        Verdict::Interrupted => return Err(Failure::Interrupted("nothing is kept of a probe")),
        _ => {}
    }
    let level = outcome.summary.levels.into_iter().next();
    Ok(level.map_or(Outcome::Impossible("nothing was sent".into()), |level| Outcome::Sent(Box::new(level))))
}

/// The same with few devices and messages, and nothing beside them.
fn small(plan: Plan) -> Plan {
    let load = LoadPlan {
        model: Model::Open { arrivals: InterArrival::Constant, per: ArrivalsPer::Population },
        levels: vec![LevelPlan::Rate(RATE)],
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
    let platform = PlatformPlan { state: StatePlan::default(), ..plan.platform };
    Plan { platform, load, devices, objectives, northbound: None, schedule: None, ..plan }
}

/// A row of the table, and whether the marker came through.
fn told(form: MarkerForm, outcome: &Outcome) -> (String, bool) {
    let level = match outcome {
        Outcome::Impossible(why) => {
            let text = format!("{form}: cannot stand in this message: {why}");
            return (wrapped(&text, "").join("\n"), false);
        }
        Outcome::Sent(level) => level,
    };
    let answered = level.acknowledged.map_or("-".to_owned(), |answered| count(answered as f64));
    let whole = level.expected_deliveries;
    let (word, unharmed) = match (level.refused, level.delivered + level.superseded, level.foreign) {
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
    };
    let row = format!(
        "{:<9}{:>6}{answered:>10}{:>11}{:>14}  {word}",
        form.to_string(),
        count(level.sent as f64),
        count(level.delivered as f64),
        count(level.foreign as f64),
    );
    (row, unharmed)
}
