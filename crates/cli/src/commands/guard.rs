//! `plimsoll guard`: starts a component that ends with the run, keeps a folder that goes with it, and takes down what a command has
//! brought up. For Plimsoll's own use.

use crate::failure::Failure;
use crate::interrupt;
use clap::{Args, Subcommand};
use plimsoll_model::Nanos;
use plimsoll_platform::command_keeper;
use plimsoll_platform::engine::{self, Step};
use plimsoll_platform::folder::keep;
use plimsoll_platform::guard::Bounds;
use plimsoll_platform::supervise::{become_command, supervise};
use plimsoll_scenario::plan::QuotaPlan;
use std::path::PathBuf;

/// Starts what must end with the run
#[derive(Args)]
#[command(hide = true)]
pub struct Guard {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Starts the command that standard input says, and kills it and all that it has started when that is closed
    Supervise(Component),
    /// Becomes a command that ends when its parent does
    Become {
        #[command(flatten)]
        component: Component,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Makes a folder, and removes it when standard input is closed
    Folder,
    /// Runs the command that standard input says and that brings a platform up, and another one that takes it
    /// down when that is closed
    Platform,
    /// Has an engine do a step with a platform
    Engine {
        /// up, release or down
        step: String,
        /// Which platform
        job: String,
    },
}

#[derive(Args)]
struct Component {
    /// Process that this one must be a child of
    #[arg(long)]
    parent: i32,
    /// Processors to be bound to, separated by commas
    #[arg(long, default_value = "")]
    processors: String,
    /// Processors that the command and all that it starts may use at most
    #[arg(long)]
    quota: Option<f64>,
    /// Bytes of memory that they may use at most
    #[arg(long)]
    memory: Option<u64>,
    /// Nanoseconds of each period in which they may use their share of processors
    #[arg(long)]
    period: Option<i64>,
    /// Bytes of data that each of their processes may have
    #[arg(long)]
    data: Option<u64>,
    /// User to run the command as
    #[arg(long)]
    user: Option<String>,
    /// Folder that stays until the command has ended
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder that becomes a file system for the command alone
    #[arg(long, requires = "small_size")]
    small_folder: Option<PathBuf>,
    /// Bytes that this file system has
    #[arg(long)]
    small_size: Option<u64>,
    /// Nobody else may read the files that it makes
    #[arg(long)]
    private: bool,
    /// What it has started goes on once it has ended well
    #[arg(long)]
    leaves: bool,
    /// File that is its standard input
    #[arg(long)]
    input: Option<PathBuf>,
}

impl Guard {
    pub fn perform(self) -> Result<u8, Failure> {
        let failed = |what: &str, error: std::io::Error| Failure::Undoable(format!("{what}: {error}"));
        match self.part {
            Part::Supervise(component) => {
                interrupt::outlast();
                let program = std::env::current_exe();
                program
                    .and_then(|program| supervise(&program, component.parent, &component.bounds()))
                    .map_err(|error| failed("no component", error))
            }
            Part::Become { component, command } => {
                let error = become_command(component.parent, &component.bounds(), &command);
                Err(failed(&command.join(" "), error))
            }
            Part::Folder => {
                interrupt::outlast();
                keep().map(|()| 0).map_err(|error| failed("no folder", error))
            }
            Part::Platform => {
                interrupt::outlast();
                let program = std::env::current_exe();
                let kept = program.and_then(|program| command_keeper::keep(&program));
                kept.map(|()| 0).map_err(|error| failed("no platform", error))
            }
            Part::Engine { step, job } => {
                let step =
                    Step::of(&step).ok_or_else(|| Failure::Usage(format!("there is no step `{step}`")))?;
                engine::perform(step, &job).map(|()| 0).map_err(Failure::Undoable)
            }
        }
    }
}

impl Component {
    fn bounds(&self) -> Bounds {
        Bounds {
            processors: self.processors.split(',').filter_map(|number| number.parse().ok()).collect(),
            quota: QuotaPlan { processors: self.quota, memory: self.memory, period: self.period.map(Nanos) },
            data: self.data,
            user: self.user.clone(),
            folder: self.folder.clone(),
            small_folder: self.small_folder.clone().zip(self.small_size),
            private: self.private,
            leaves: self.leaves,
            input: self.input.clone(),
        }
    }
}
