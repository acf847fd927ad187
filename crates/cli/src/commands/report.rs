//! `plimsoll report`: the HTML report of a stored run.

use super::outputs;
use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{file, say};
use clap::Args;
use plimsoll_report::html;
use std::path::PathBuf;

/// Writes the HTML report of a stored run
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll report last --output report.html")]
pub struct Report {
    #[command(flatten)]
    run: StoredRun,
    /// Where to write the report
    #[arg(short, long, value_name = "FILE.html", default_value = "plimsoll.report.html", value_parser = file())]
    output: PathBuf,
}

impl Report {
    pub fn perform(self) -> Result<u8, Failure> {
        let record = self.run.read()?;
        let summary = plimsoll_analysis::summarize(&record);
        outputs::check(Some(self.run.store()), &[], &[("--output", Some(&self.output))])?;
        let page = html::render_in_series(&record, &summary, &self.run.series(&record)?);
        outputs::write(&self.output, &page)?;
        say(&format!("report: {}\n", self.output.display()));
        Ok(exit_code::MET)
    }
}
