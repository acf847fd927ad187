//! `plimsoll show`: a stored run's result, also of one that was killed.

use super::run::Amount;
use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use crate::progress::colour;
use clap::Args;
use plimsoll_report::{json, series, terminal};

/// Prints a stored run's result, also of one that was killed
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll show last -v")]
pub struct Show {
    #[command(flatten)]
    run: StoredRun,
    /// Print the machine-readable result instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    amount: Amount,
}

impl Show {
    pub fn perform(self) -> Result<u8, Failure> {
        let record = self.run.read()?;
        let summary = plimsoll_analysis::summarize(&record);
        if self.json {
            say(&json::render(&summary));
            return Ok(exit_code::MET);
        }
        say(&terminal::render(&summary, self.amount.detail(), colour()));
        let series = self.run.series(&record)?;
        if !series.is_empty() {
            say(&series::render(&series));
        }
        Ok(exit_code::MET)
    }
}
