//! `plimsoll check`: reads the scenario, says what would happen, touches nothing unless it is to probe.

use super::load_options::LoadOptions;
use super::probe;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;
use plimsoll_platform::engine::rendered;
use plimsoll_report::plan;
use plimsoll_report::sweep::label;
use plimsoll_report::text::wrapped;
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::Plan;

/// Reads the scenario and says what would happen; changes nothing
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll check examples/quickstart.yaml --set load.hold=3m
  plimsoll check mqtt://localhost:1883 --probe
  plimsoll check scenario.yaml --render
  plimsoll check examples/work-b-ngsi-update.yaml --probe")]
pub struct Check {
    #[command(flatten)]
    load: LoadOptions,
    /// Start the platform and send it a few messages in each form of the marker, to see
    /// which come through unharmed; nothing is counted or stored
    #[arg(long)]
    probe: bool,
    /// Print what `platform.compose` or `platform.manifests` adds to your files, as JSON,
    /// which is YAML as well; no engine is asked
    #[arg(long, conflicts_with = "probe")]
    render: bool,
}

impl Check {
    pub fn perform(self) -> Result<u8, Failure> {
        if self.render {
            return self.rendered();
        }
        match self.load.file() {
            Some(_) if !self.probe => {
                let matrix = self.load.matrix()?;
                if let Some(repeats) = self.load.repeats(&matrix.first) {
                    wrapped(&repeats, "").iter().for_each(|line| say(&format!("{line}\n")));
                    say("\n");
                }
                say(&described(&matrix));
            }
            _ if self.probe => {
                // Of an address, load and devices are the probe's own.
                if self.load.file().is_some() {
                    say(&format!("{}\n", told(&self.load.plan()?)));
                }
                return probe::perform(&self.load.to_probe());
            }
            _ => say(&told(&self.load.plan()?)),
        }
        Ok(exit_code::MET)
    }

    fn rendered(&self) -> Result<u8, Failure> {
        let command = self.load.read_matrix()?.first.platform.command;
        let engine = command.and_then(|command| command.engine).ok_or_else(|| {
            Failure::Usage(
                "--render goes with a scenario that has `platform.compose` or `platform.manifests`".into(),
            )
        })?;
        say(&rendered(&engine));
        Ok(exit_code::MET)
    }
}

/// What would happen: of a scenario in which something varies, what, and the first of its runs.
fn described(matrix: &Matrix) -> String {
    let mut told = String::new();
    if !matrix.axes.is_empty() {
        let combinations = matrix.combinations();
        let runs = if combinations == 1 { "run" } else { "runs" };
        told += &format!("{combinations} {runs}, which `plimsoll sweep` makes; what varies:\n");
        for axis in &matrix.axes {
            let values: Vec<String> = axis.values.iter().map(|value| label(value)).collect();
            let values = format!("{}: {}", axis.key, values.join(", "));
            wrapped(&values, "  ").iter().for_each(|line| told += &format!("{line}\n"));
        }
        let all = matrix.first.longest_duration_of(matrix.combinations());
        told += &format!("each turn at most {all}, if all take as long as the first\n");
        told += "\nthe first of them:\n\n";
    }
    told + &self::told(&matrix.first)
}

fn told(plan: &Plan) -> String {
    plan::render(&plan.name, &plan.facts())
}
