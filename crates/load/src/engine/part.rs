//! The load threads of one process: all of a run, or the part of them that a worker has.

use super::population::{Population, RunParts, throttles};
use super::thread::ShardThread;
use super::{Addresses, EngineError, Notified, all_of};
use crate::clock::Clock;
use crate::drivers::RunService;
use crate::layout::Layout;
use crate::ledger::Delivery;
use crate::mailbox::Mailbox;
use crate::owners::Owners;
use crate::run_context::RunContext;
use crate::shard::{Command, Reply};
use plimsoll_model::RunId;
use plimsoll_model::record::LevelEnd;
use plimsoll_scenario::plan::Plan;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Which of all load threads a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// All load threads.
    pub layout: Arc<Layout>,
    /// The place of the process among those of the layout.
    pub process: usize,
}

/// What was started.
pub(super) struct Started {
    /// The threads of this process, those of the first population first.
    pub(super) shards: Vec<ShardThread>,
    pub(super) notified: Vec<Notified>,
    pub(super) services: Vec<Arc<dyn RunService>>,
    pub(super) replies: Receiver<Reply>,
    /// Of every shard at all processes.
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
}

/// Starts one load thread for each population and processor.
pub(super) fn start(
    (plan, run): (&Arc<Plan>, RunId),
    addresses: &[Addresses],
    (processors, precedence): (&[Option<usize>], bool),
    part: &Part,
    clock: Clock,
    run_contexts: &[Arc<RunContext>],
) -> Result<Started, EngineError> {
    let plans = all_of(plan);
    let (replies_in, replies) = channel();
    let mailboxes: Vec<Arc<Mailbox>> =
        (0..part.layout.count()).map(|_| Arc::new(Mailbox::default())).collect();
    let run_parts = RunParts {
        run,
        clock,
        part,
        processors,
        precedence,
        replies: replies_in,
        mailboxes: mailboxes.clone(),
        owners: Arc::new(Owners::new(plan, &part.layout)),
        throttles: throttles(&plans),
    };
    let (mut shards, mut notified, mut services) = (Vec::new(), Vec::new(), Vec::new());
    for (number, ((plan, addresses), run_context)) in (0..).zip(plans.iter().zip(addresses).zip(run_contexts))
    {
        let population = Population { number, plan, addresses, run_context };
        let started = population.start(&run_parts)?;
        shards.extend(started.shards);
        notified.push(started.notified);
        services.extend(started.service);
    }
    Ok(Started { shards, notified, services, replies, mailboxes })
}

/// The load threads of a worker. Their engine is elsewhere: it gives the commands and awaits the replies.
pub struct LoadPart {
    shards: Vec<ShardThread>,
    /// The numbers of the shards here among all, in rising order.
    numbers: Vec<u32>,
    mailboxes: Vec<Arc<Mailbox>>,
    services: Vec<Arc<dyn RunService>>,
}

impl LoadPart {
    /// Starts the threads, and says where their replies come.
    ///
    /// # Errors
    /// [`EngineError::Start`].
    pub fn start(
        run: (&Arc<Plan>, RunId),
        addresses: &[Addresses],
        processors: (&[Option<usize>], bool),
        part: Part,
        clock: Clock,
        run_contexts: &[Arc<RunContext>],
    ) -> Result<(LoadPart, Receiver<Reply>), EngineError> {
        let started = start(run, addresses, processors, &part, clock, run_contexts)?;
        let Started { shards, replies, mailboxes, services, .. } = started;
        let numbers = part.layout.numbers_at(part.process);
        Ok((LoadPart { shards, numbers, mailboxes, services }, replies))
    }

    /// The place of a shard among those here, by its number among all; `None` where it is at another worker.
    fn place(&self, shard: u32) -> Option<usize> {
        self.numbers.binary_search(&shard).ok()
    }

    /// Gives a command to a shard; one that is not here is left alone.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`].
    pub fn tell(&self, shard: u32, command: Command) -> Result<(), EngineError> {
        let shard = self.place(shard).and_then(|place| self.shards.get(place));
        shard.map_or(Ok(()), |shard| shard.tell(command))
    }

    /// Adds what the shards here share to the end of a level.
    pub fn complete(&self, end: &mut LevelEnd) {
        self.services.iter().for_each(|service| service.level_ended(end));
    }

    /// Gives a command to all shards here.
    ///
    /// # Errors
    /// [`EngineError::ShardDied`].
    pub fn tell_all(&self, command: &Command) -> Result<(), EngineError> {
        self.shards.iter().try_for_each(|shard| shard.tell(command.clone()))
    }

    /// How many shards are here, over all populations.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// Their numbers among all, in rising order.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Leaves with a shard here what another worker has received of its devices.
    pub fn leave(&self, shard: u32, mut deliveries: Vec<Delivery>) {
        if self.place(shard).is_some()
            && let Some(mailbox) = self.mailboxes.get(shard as usize)
        {
            mailbox.leave(&mut deliveries);
        }
    }

    /// Takes what was received here of the devices of shards elsewhere, by the number of their shard.
    pub fn take_for_others(&self) -> Vec<(u32, Vec<Delivery>)> {
        let elsewhere = (0..).zip(&self.mailboxes).filter(|(shard, _)| self.place(*shard).is_none());
        let taken = elsewhere.map(|(shard, mailbox)| {
            let mut deliveries = Vec::new();
            mailbox.take(&mut deliveries);
            (shard, deliveries)
        });
        taken.filter(|(_, deliveries)| !deliveries.is_empty()).collect()
    }

    /// The load threads: kernel thread ids and the processors that they are bound to.
    pub fn threads(&self) -> Vec<(i32, Option<usize>)> {
        self.shards.iter().map(|shard| (shard.id, shard.processor)).collect()
    }

    /// Whether a thread has ended before it was to.
    pub fn has_died(&self) -> bool {
        self.shards.iter().any(|shard| shard.thread.as_ref().is_some_and(JoinHandle::is_finished))
    }

    /// Waits for all threads, which were told to stop.
    pub fn join(mut self) {
        for shard in &mut self.shards {
            if let Some(thread) = shard.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
