//! `plimsoll export`: a stored run for other tools.

use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::{Args, ValueEnum};
use plimsoll_model::RunId;
use plimsoll_model::message::MessageRecord;
use plimsoll_report::{csv, hlog, jtl, k6};

/// Text of the message log written at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Writes a stored run to standard output for other tools
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll export last --format csv --rows samples > samples.csv
  plimsoll export last --format messages > messages.csv
  plimsoll export last --format events > events.csv
  plimsoll export last --format hlog > run.hlog")]
pub struct Export {
    #[command(flatten)]
    run: StoredRun,
    /// Output format
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
    /// The message log as comma-separated values, one row a message. Times are seconds
    /// since the run's epoch
    Messages,
    /// The lives of events at a gateway as comma-separated values, in the columns of
    /// work E. Times are milliseconds since the run's epoch
    Events,
    /// HdrHistogram's log format 1.3: a line a sample and metric, in nanoseconds
    Hlog,
    /// JMeter's result file: the message log, elapsed times from due
    Jtl,
    /// The shape of k6's end-of-test summary, in milliseconds
    K6Summary,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rows {
    /// One row a level
    Levels,
    /// One row a sample
    Samples,
    /// One row for each reading of what a component used
    Components,
    /// One row for each value that another observer saw
    Gauges,
}

impl Export {
    pub fn perform(self) -> Result<u8, Failure> {
        let record = self.run.read()?;
        match (self.format, self.rows) {
            (Format::Csv, None | Some(Rows::Levels)) => {
                say(&csv::levels(&plimsoll_analysis::summarize(&record)))
            }
            (Format::Csv, Some(Rows::Samples)) => say(&csv::samples(&record)),
            (Format::Csv, Some(Rows::Components)) => say(&csv::components(&record)),
            (Format::Csv, Some(Rows::Gauges)) => say(&csv::gauges(&record)),
            (_, Some(_)) => return Err(Failure::Usage("--rows belongs to --format csv".into())),
            (Format::Messages, None) => self.messages(&record.id, csv::message_header(), csv::message)?,
            (Format::Events, None) => {
                let tag = RunId::parse(&record.id).map_or(0, RunId::tag);
                self.messages(&record.id, csv::event_header(), |message| csv::event(tag, message))?;
            }
            (Format::Jtl, None) => {
                let rows = jtl::Rows::of(&record);
                self.messages(&record.id, jtl::HEADER.to_owned(), |message| rows.row(message))?;
            }
            (Format::Hlog, None) => say(&hlog::render(&record)),
            (Format::K6Summary, None) => say(&k6::render(&record)),
        }
        Ok(exit_code::MET)
    }

    /// Writes the message log piece by piece: it can be much larger than memory.
    fn messages(
        &self,
        run: &str,
        header: String,
        row: impl Fn(&MessageRecord) -> String,
    ) -> Result<(), Failure> {
        let mut text = header;
        let mut any = false;
        self.run.open()?.messages(run, |message| {
            any = true;
            text += &row(&message);
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
