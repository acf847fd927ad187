//! An engine whose load threads are at workers: its commands leave as orders, and replies come back.

use super::thread::{Commands, ShardThread};
use super::{Engine, Notified};
use crate::clock::Clock;
use crate::run_context::RunContext;
use crate::shard::{Command, Reply};
use plimsoll_scenario::plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A command on its way to a shard.
#[derive(Clone, Debug)]
pub struct Order {
    /// The number of the shard among those of all populations.
    pub shard: u32,
    /// What it is to do.
    pub command: Command,
}

/// How an engine reaches its load threads at workers.
pub struct Orders {
    /// Where orders go.
    pub orders: Sender<Order>,
    /// Where the answers come.
    pub replies: Receiver<Reply>,
    /// Load threads of each population, at all workers.
    pub threads: u32,
}

impl Engine {
    /// An engine over load threads at workers, which have started them.
    pub fn elsewhere(
        plan: &Arc<Plan>,
        orders: Orders,
        clock: Clock,
        run_contexts: Vec<Arc<RunContext>>,
    ) -> Engine {
        let plans: Vec<Arc<Plan>> = std::iter::once(plan).chain(&plan.others).cloned().collect();
        let Orders { orders, replies, threads } = orders;
        let shard = |number: u32| ShardThread {
            commands: Commands::Elsewhere(number, orders.clone()),
            thread: None,
            id: 0,
            processor: None,
        };
        let shards = (0..plans.len() as u32 * threads).map(shard).collect();
        Engine {
            plan: Arc::clone(plan),
            notified: plans.iter().map(|_| Notified::default()).collect(),
            plans,
            clock,
            threads,
            shards,
            simulated: None,
            replies,
            in_set_up: true,
            has_run: false,
            received_rate: 0.0,
            connected: 0,
            notified_ready: false,
            repeated: BTreeMap::new(),
            services: Vec::new(),
            run_contexts,
            lost: None,
        }
    }
}
