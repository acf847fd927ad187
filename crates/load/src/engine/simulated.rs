//! The engine in simulated time: one shard, which takes its turns while the engine waits for it, so that everything happens
//! in one thread and in one order.

use super::thread::{Commands, ShardThread};
use super::{Engine, EngineError};
use crate::clock::Clock;
use crate::drivers::simulated::SimulatedDriver;
use crate::layout::Layout;
use crate::owners::Owners;
use crate::run_context::RunContext;
use crate::shard::{Command, Reply, Shard, Wiring};
use crate::share::Share;
use crate::topology::Topology;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{DeliveryContract, Plan};
use plimsoll_simulate::Simulation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};

/// The only shard of a simulated run.
pub(super) struct Simulated {
    pub(super) simulation: Simulation,
    shard: Shard<SimulatedDriver>,
    orders: Receiver<Command>,
    stop: Arc<AtomicBool>,
}

impl Simulated {
    /// The next reply, or none within so long in simulated time, which may never pass, or once the user wants
    /// to stop.
    pub(super) fn receive(
        &mut self,
        replies: &Receiver<Reply>,
        patience: Nanos,
    ) -> Result<Reply, RecvTimeoutError> {
        let end = self.simulation.now() + patience;
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.shard.apply(order);
            }
            match replies.try_recv() {
                Ok(reply) => return Ok(reply),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty)
                    if self.simulation.now() >= end || self.stop.load(Ordering::Relaxed) =>
                {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => self.shard.step(),
            }
        }
    }
}

impl Engine {
    /// An engine whose clients are those of a simulated platform. The watch is asked at once when `stop` is
    /// set.
    ///
    /// # Errors
    /// [`EngineError::NotSimulated`].
    pub fn simulated(
        plan: &Arc<Plan>,
        run: RunId,
        simulation: Simulation,
        stop: &Arc<AtomicBool>,
    ) -> Result<Engine, EngineError> {
        let roles = &plan.platform.roles;
        if !plan.others.is_empty() {
            return Err(EngineError::NotSimulated("has one population"));
        }
        if roles.have_receivers() || plan.northbound.is_some() {
            return Err(EngineError::NotSimulated("has neither listeners, observers nor queries"));
        }
        if !matches!(roles.delivery, DeliveryContract::Every) {
            return Err(EngineError::NotSimulated("delivers every message"));
        }
        let (commands, orders) = channel();
        let (replies_in, replies) = channel();
        let run_context: Arc<RunContext> = Arc::default();
        let layout = Arc::new(Layout::of_one_process(1, 1));
        let wiring = Wiring {
            replies: replies_in,
            mailboxes: vec![Arc::default()],
            number: 0,
            population: 0,
            owners: Arc::new(Owners::new(plan, &layout)),
            queriers: None,
            datagram_header: 0,
            throttle: None,
            awaits_stages: false,
            run_context: Arc::clone(&run_context),
        };
        let population = (plan.devices, plan.subscribers.count);
        let tag = crate::content::run_tag(plan.message.marker, run);
        let content = plan.largest_content();
        let driver = SimulatedDriver::new(simulation.clone(), tag, population, content, plan.acknowledges());
        let topology = Arc::new(Topology::of(plan, run));
        let shard = Shard::new(Arc::clone(plan), run, topology, Share::WHOLE, driver, wiring);
        let thread = ShardThread { commands: Commands::Here(commands), thread: None, id: 0, processor: None };
        let simulated = Simulated { simulation, shard, orders, stop: Arc::clone(stop) };
        let engine = Engine::over(plan, (vec![thread], layout), replies, Clock::start(), vec![run_context]);
        Ok(Engine { simulated: Some(Box::new(simulated)), ..engine })
    }
}
