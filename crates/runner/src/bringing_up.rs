//! Commands of the user's, or an engine, bring a platform up before a run and take it down after it, whatever becomes of both.

use crate::failure::Failure;
use crate::{Options, Progress};
use plimsoll_model::RunId;
use plimsoll_platform::{Commanded, Planned, await_return};
use plimsoll_scenario::plan::{Plan, RunningPlace, RunningPlan, WireNetwork};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A run whose platform is there, as far as it is brought up for it.
pub struct Brought {
    /// The plan, with the platform's address in it once that was printed.
    pub plan: Arc<Plan>,
    /// What the command has printed for the provenance.
    pub facts: BTreeMap<String, String>,
    /// Why the platform is not there.
    pub failure: Option<Failure>,
    /// What takes it down.
    commanded: Option<Commanded>,
}

impl Brought {
    /// Brings the platform of a run up, where commands or an engine do that.
    pub fn of(plan: &Arc<Plan>, id: RunId, options: &Options, progress: &mut dyn Progress) -> Brought {
        let (plan, facts) = (Arc::clone(plan), BTreeMap::new());
        let mut brought = Brought { plan, facts, failure: None, commanded: None };
        brought.failure = brought.bring_up(id, options, progress).err();
        brought
    }

    fn bring_up(&mut self, id: RunId, options: &Options, progress: &mut dyn Progress) -> Result<(), Failure> {
        let before = Arc::clone(&self.plan);
        let Some(command) = &before.platform.command else { return Ok(()) };
        let own = of_platform(options);
        progress.step(&format!("bringing the platform up: {}", command.up.join(" ")));
        // A capture has to see the first connection.
        let held = before.record.capture.is_some();
        let commanded = self.commanded.insert(Commanded::begin(command, &id.to_string(), held, &own)?);
        let printed = commanded.await_up(&options.stop)?;
        let mut plan = before.placed(&printed).map_err(Failure::Unfit)?;
        if command.engine.is_some()
            && let Some(capture) = &mut plan.record.capture
        {
            for network in plan.platform.components.iter().filter_map(network) {
                if !capture.networks.contains(&network) {
                    capture.networks.push(network);
                }
            }
        }
        self.facts = printed.facts;
        self.plan = Arc::new(plan);
        if commanded.is_held() {
            return Ok(());
        }
        self.await_connections(options, progress)
    }

    /// Lets a platform go on that was held, and waits until it is up.
    pub fn release(&mut self, options: &Options, progress: &mut dyn Progress) -> Result<(), Failure> {
        let Some(commanded) = self.commanded.as_mut().filter(|commanded| commanded.is_held()) else {
            return Ok(());
        };
        progress.step("letting the platform go on");
        commanded.release(&of_platform(options))?;
        self.await_connections(options, progress)
    }

    fn await_connections(&self, options: &Options, progress: &mut dyn Progress) -> Result<(), Failure> {
        let (plan, options) = (&self.plan, of_platform(options));
        if !plan.protocol().uses_datagrams()
            && let Planned::Running(address) = Planned::of(&plan.platform, plan.seed, &options)?
        {
            progress.step("waiting until the platform accepts connections");
            await_return(address, "brought up", &options)?;
        }
        Ok(())
    }

    /// Takes the platform down, if a command or an engine has begun to bring it up; what of it may still run, for people.
    pub fn take_down(&mut self, progress: &mut dyn Progress) -> Option<String> {
        let mut commanded = self.commanded.take()?;
        let command = self.plan.platform.command.as_ref();
        let words = command.map(|command| command.down.join(" ")).unwrap_or_default();
        progress.step(&format!("taking the platform down: {words}"));
        commanded.take_down()
    }
}

/// What bringing a platform up needs to know, whatever devices speak.
fn of_platform(options: &Options) -> plimsoll_platform::Options {
    plimsoll_platform::Options {
        program: options.program.clone(),
        processors: Vec::new(),
        logs: None,
        mqtt5: false,
        stop: Arc::clone(&options.stop),
    }
}

/// The network of a component that is a container.
fn network(component: &RunningPlan) -> Option<WireNetwork> {
    match &component.place {
        RunningPlace::Container(name) => Some(WireNetwork::Container(name.clone())),
        RunningPlace::Process(_) | RunningPlace::Port(_) | RunningPlace::Unit(_) => None,
    }
}
