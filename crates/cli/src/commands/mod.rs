//! The commands, one file each.

mod audit;
mod bundle;
mod capture;
mod chain;
mod check;
mod city;
mod compare;
mod completions;
mod deploy;
mod detach_options;
mod dissect;
mod doctor;
mod documents;
mod export;
mod gateway;
mod guard;
mod init;
mod learn;
mod live_options;
mod load_options;
mod lwm2m;
mod nats_options;
mod ngsi;
mod ocf;
mod outputs;
mod plan;
mod platforms;
mod probe;
mod relay;
mod report;
mod run;
mod runs;
mod serve;
mod show;
mod station;
mod stored;
mod sweep;
mod target;
mod target_broker;
mod target_time;
mod worker;

use crate::failure::Failure;

/// What the user wants.
#[derive(clap::Subcommand)]
pub enum Command {
    Run(run::Run),
    Why(run::Why),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Platforms(platforms::Platforms),
    Runs(runs::Runs),
    Show(show::Show),
    Compare(compare::Compare),
    Serve(serve::Serve),
    Sweep(sweep::Sweep),
    Plan(plan::Plan),
    Worker(worker::Worker),
    Deploy(deploy::Deploy),
    Report(report::Report),
    Capture(capture::Capture),
    Dissect(dissect::Dissect),
    Learn(learn::Learn),
    Export(export::Export),
    Bundle(bundle::Bundle),
    Target(target::Target),
    Gateway(gateway::Gateway),
    Audit(audit::Audit),
    City(city::City),
    Guard(guard::Guard),
    Init(init::Init),
    Completions(completions::Completions),
    Man(completions::Man),
}

impl Command {
    /// Does it, as a command of that program; the exit code.
    pub fn perform(self, program: clap::Command) -> Result<u8, Failure> {
        match self {
            Command::Init(command) => command.perform(),
            Command::Completions(command) => command.perform(program),
            Command::Man(command) => command.perform(program),
            Command::Run(command) => command.perform(),
            Command::Why(command) => command.perform(),
            Command::Check(command) => command.perform(),
            Command::Doctor(command) => command.perform(),
            Command::Platforms(command) => command.perform(),
            Command::Runs(command) => command.perform(),
            Command::Show(command) => command.perform(),
            Command::Compare(command) => command.perform(),
            Command::Serve(command) => command.perform(),
            Command::Sweep(command) => command.perform(),
            Command::Plan(command) => command.perform(),
            Command::Worker(command) => command.perform(),
            Command::Deploy(command) => command.perform(),
            Command::Report(command) => command.perform(),
            Command::Capture(command) => command.perform(),
            Command::Dissect(command) => command.perform(),
            Command::Learn(command) => command.perform(),
            Command::Export(command) => command.perform(),
            Command::Bundle(command) => command.perform(),
            Command::Target(command) => command.perform(),
            Command::Gateway(command) => command.perform(),
            Command::Audit(command) => command.perform(),
            Command::City(command) => command.perform(),
            Command::Guard(command) => command.perform(),
        }
    }
}
