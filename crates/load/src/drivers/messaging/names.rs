//! How a run calls what it has at a platform: other runs and other people have names of their own.

use crate::driver::Client;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Plan;

/// See the module.
#[derive(Clone, Debug)]
pub struct Names {
    run: String,
    group: Option<String>,
}

impl Names {
    /// Of a population of the run.
    pub fn of(plan: &Plan, run: RunId) -> Names {
        let run = format!("plimsoll-{run}");
        // Two populations may have groups of one name.
        let population = plan.population.first_subscriber;
        let group = plan.subscribers.share.as_ref().map(|group| format!("{run}-{population}-{group}"));
        Names { run, group }
    }

    /// What is made for the run as a whole.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// A client.
    pub fn client(&self, client: Client) -> String {
        let run = &self.run;
        match client {
            Client::Device(device) => format!("{run}-d{device}"),
            Client::Subscriber(subscriber) => format!("{run}-s{subscriber}"),
        }
    }

    /// The group in which the population's subscribers receive in turn; `None` where each receives everything.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }
}
