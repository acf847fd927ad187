//! `check --probe`: says which forms of the marker come through the platform unharmed.

use super::load_options::LoadOptions;
use super::run::options;
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use crate::progress::TerminalProgress;
use plimsoll_report::text::{count, wrapped};
use plimsoll_runner::probe::{ProbeError, Probed, probe};
use plimsoll_scenario::plan::MarkerForm;
use std::path::PathBuf;

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
    say(&format!(
        "{:<9}{:>6}{:>10}{:>11}{:>14}  what is left of the marker\n",
        "form", "sent", "answered", "delivered", "unrecognised"
    ));
    let plan_of = |form| {
        load.with(&format!("message.marker={form}")).plan().map_err(|failure| {
            let told = failure.to_string();
            let first = told.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })
    };
    // A probe has a store of its own.
    let options = options(&StoreOption { store: PathBuf::new() })?;
    let progress = &mut TerminalProgress::new(true);
    let survives = probe(own, plan_of, &options, progress, |form, probed| {
        say(&format!("{}\n", row(form, probed)));
    })?;
    let told = match survives {
        true if !receives => {
            "\nthe platform takes messages; without subscribers nobody can check whether they arrive\n"
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

/// A row of the table.
fn row(form: MarkerForm, probed: &Probed) -> String {
    let level = match probed {
        Probed::Impossible(why) => {
            let text = format!("{form}: cannot stand in this message: {why}");
            return wrapped(&text, "").join("\n");
        }
        Probed::Sent(level) => level,
    };
    let answered = level.acknowledged.map_or("-".to_owned(), |answered| count(answered as f64));
    format!(
        "{:<9}{:>6}{answered:>10}{:>11}{:>14}  {}",
        form.to_string(),
        count(level.sent as f64),
        count(level.delivered as f64),
        count(level.foreign as f64),
        probed.in_words().0,
    )
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Failure {
        match error {
            ProbeError::Run(error) => error.into(),
            ProbeError::Interrupted => Failure::Interrupted("nothing is kept of a probe"),
            ProbeError::NoFolder(_) | ProbeError::Failed(_) => Failure::Undoable(error.to_string()),
        }
    }
}
