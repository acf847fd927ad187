//! `plimsoll export`: a stored run for other tools.

use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::{Args, ValueEnum};
use plimsoll_report::csv;

/// Writes a stored run to standard output for other tools
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll export last --format csv --rows samples > samples.csv")]
pub struct Export {
    #[command(flatten)]
    run: StoredRun,
    /// The format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// What makes a row
    #[arg(long, value_enum, default_value_t = Rows::Levels)]
    rows: Rows,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rows {
    /// One row a level
    Levels,
    /// One row a sample
    Samples,
}

impl Export {
    pub fn perform(self) -> Result<u8, Failure> {
        let record = self.run.read()?;
        match (self.format, self.rows) {
            (Format::Csv, Rows::Levels) => say(&csv::levels(&plimsoll_analysis::summarize(&record))),
            (Format::Csv, Rows::Samples) => say(&csv::samples(&record)),
        }
        Ok(exit_code::MET)
    }
}
