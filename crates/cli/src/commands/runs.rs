//! `plimsoll runs`: what is in the run store.

use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;
use plimsoll_model::record::RunEnd;
use plimsoll_observe::process::is_alive;
use plimsoll_store::RunReader;

/// Lists the stored runs, the newest last
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll runs --store plimsoll.db")]
pub struct Runs {
    #[command(flatten)]
    store: StoreOption,
}

impl Runs {
    pub fn perform(self) -> Result<u8, Failure> {
        let runs = RunReader::open(&self.store.store)?.runs()?;
        say(&format!("{:<9} {:<21} {:>6}  {:<12} name\n", "run", "started", "levels", "end"));
        for run in runs {
            let end = match run.end {
                None if run.process.as_deref().is_some_and(is_alive) => "running",
                None => "none",
                Some(RunEnd::Complete) => "complete",
                Some(RunEnd::PlatformDied(_)) => "died",
                Some(RunEnd::Interrupted) => "interrupted",
                Some(RunEnd::Failed(_)) => "failed",
            };
            say(&format!("{:<9} {:<21} {:>6}  {end:<12} {}\n", run.id, run.started, run.levels, run.name));
        }
        Ok(exit_code::MET)
    }
}
