//! A load thread: one shard and the orders that it serves.

use super::{EngineError, Order};
use crate::driver::Driver;
use crate::drivers::BoxedPart;
use crate::roles::mux::{OtherRoles, RoleMux};
use crate::shard::{Command, Shard, Wiring};
use crate::share::Share;
use crate::topology::Topology;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Plan;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity, set_current_timer_slack};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// Scheduling priority ("nice" value) of a load thread with precedence; root alone may ask for it.
const PRECEDENCE: i32 = -15;

/// What a load thread starts with.
pub(super) struct Start {
    pub(super) plan: Arc<Plan>,
    pub(super) run: RunId,
    pub(super) topology: Arc<Topology>,
    /// The thread's place among those of its population.
    pub(super) index: u32,
    pub(super) share: Share,
    pub(super) wiring: Wiring,
    pub(super) processor: Option<usize>,
    pub(super) precedence: bool,
}

impl Start {
    /// A thread for these devices, with what else takes part beside them.
    pub(super) fn with(self, devices: BoxedPart, others: OtherRoles) -> Result<ShardThread, EngineError> {
        let driver: Box<dyn Driver + Send> = match others.is_nobody() {
            true => devices,
            false => Box::new(RoleMux::new(devices, others, &self.plan.load)?),
        };
        let Start { plan, run, topology, index, share, wiring, processor, precedence } = self;
        spawn(Shard::new(plan, run, topology, share, driver, wiring), index, processor, precedence)
    }
}

/// A load thread that runs, here or elsewhere. In simulated time there is none, and the engine takes the shard's turns.
pub(super) struct ShardThread {
    pub(super) commands: Commands,
    pub(super) thread: Option<JoinHandle<()>>,
    pub(super) id: i32,
    pub(super) processor: Option<usize>,
}

/// Where the commands of a shard go.
pub(super) enum Commands {
    /// To a thread of this process.
    Here(Sender<Command>),
    /// To the shard of that number, at a worker.
    Elsewhere(u32, Sender<Order>),
}

impl ShardThread {
    pub(super) fn tell(&self, command: Command) -> Result<(), EngineError> {
        let sent = match &self.commands {
            Commands::Here(commands) => commands.send(command).is_ok(),
            Commands::Elsewhere(shard, orders) => orders.send(Order { shard: *shard, command }).is_ok(),
        };
        if sent { Ok(()) } else { Err(EngineError::ShardDied) }
    }
}

fn spawn<D: Driver + Send + 'static>(
    shard: Shard<D>,
    index: u32,
    processor: Option<usize>,
    precedence: bool,
) -> Result<ShardThread, EngineError> {
    let (commands, orders) = channel();
    let (id_in, id_out) = channel();
    let thread = std::thread::Builder::new().name(format!("load-{index}")).spawn(move || {
        prepare_thread(processor, precedence);
        let _ = id_in.send(Pid::as_raw(Some(gettid())));
        serve(shard, &orders);
    })?;
    let id = id_out.recv().map_err(|_| EngineError::ShardDied)?;
    Ok(ShardThread { commands: Commands::Here(commands), thread: Some(thread), id, processor })
}

/// Binds the thread, asks for precedence over whatever else runs on its processor, and for timers without slack. Where
/// the kernel refuses, lateness shows what it costs.
fn prepare_thread(processor: Option<usize>, precedence: bool) {
    if let Some(processor) = processor {
        let mut set = CpuSet::new();
        set.set(processor);
        let _ = sched_setaffinity(None, &set);
    }
    if precedence {
        let _ = setpriority_process(None, PRECEDENCE);
    }
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

fn serve<D: Driver>(mut shard: Shard<D>, orders: &Receiver<Command>) {
    loop {
        loop {
            match orders.try_recv() {
                Ok(Command::Stop) => return shard.apply(Command::Stop),
                Ok(command) => shard.apply(command),
                Err(TryRecvError::Empty) => break,
                // The engine is gone without a goodbye: it panicked or was dropped on an error.
                Err(TryRecvError::Disconnected) => return shard.apply(Command::Stop),
            }
        }
        shard.step();
    }
}
