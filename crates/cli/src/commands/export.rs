//! `plimsoll export`: a stored run for other tools.

use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::{Args, ValueEnum};
use plimsoll_report::csv;

/// Text of the message log written at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Writes a stored run to standard output for other tools
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll export last --format csv --rows samples > samples.csv
  plimsoll export last --format messages > messages.csv")]
pub struct Export {
    #[command(flatten)]
    run: StoredRun,
    /// The format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// What makes a row of csv (default: levels)
    #[arg(long, value_enum)]
    rows: Option<Rows>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
    /// The message log as comma-separated values, one row a message; times in
    /// seconds since the run's epoch
    Messages,
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
            (Format::Csv, None | Some(Rows::Levels)) => {
                say(&csv::levels(&plimsoll_analysis::summarize(&record)))
            }
            (Format::Csv, Some(Rows::Samples)) => say(&csv::samples(&record)),
            (Format::Messages, None) => self.messages(&record.id)?,
            (Format::Messages, Some(_)) => {
                let reason = "--rows belongs to --format csv: the message log has one row a message";
                return Err(Failure::Usage(reason.into()));
            }
        }
        Ok(exit_code::MET)
    }

    /// Writes the message log piece by piece: it can be much larger than memory.
    fn messages(&self, run: &str) -> Result<(), Failure> {
        let mut text = csv::message_header();
        let mut any = false;
        self.run.open()?.messages(run, |message| {
            any = true;
            text += &csv::message(&message);
            if text.len() > PIECE {
                say(&text);
                text.clear();
            }
        })?;
        if !any {
            let reason = format!(
                "run {run} has no message log; run its scenario with --set record.messages=true to get one"
            );
            return Err(Failure::Undoable(reason));
        }
        say(&text);
        Ok(())
    }
}
