//! How the clients connect: subscribers before devices, at the scenario's rate.

use super::{Engine, EngineError, Watch};
use crate::clients::{ClientKind, Clients};
use crate::layout::Seat;
use crate::shard::{CONNECT_PATIENCE, Command, Reply};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, PopulationPlan};
use std::ops::Range;
use std::sync::Arc;

impl Engine {
    /// Connects the subscribers that a platform may notify while the controller still sets up, at the scenario's connect rate. Others
    /// may need what the controller captures.
    ///
    /// # Errors
    /// [`EngineError::Connect`] at the first client that fails for good.
    pub fn connect_notified(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        self.notified_ready = true;
        let subscribers = self.subscribers(is_notified);
        self.connect_in_turn(&[subscribers], watch)
    }

    /// Connects every subscriber that was not connected before, then every device, at the scenario's connect rate.
    ///
    /// # Errors
    /// [`EngineError::Connect`] at the first client that fails for good, or where the platform is awaited and does not come.
    pub fn connect(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        self.await_service(watch)?;
        let are_ready = self.notified_ready;
        let subscribers = self.subscribers(|plan| !(are_ready && is_notified(plan)));
        let in_levels = self.plan.load.connects_in_levels();
        let counts = self.plans.iter().map(|plan| if in_levels { 0 } else { plan.devices });
        let devices = Group { kind: ClientKind::Devices, counts: counts.collect() };
        let outcome = self.connect_in_turn(&[subscribers, devices], watch);
        // After a failure no level follows: what the goodbyes still bring belongs to the set-up too.
        self.in_set_up = outcome.is_err();
        outcome
    }

    /// The subscribers of each such population; none of the others.
    fn subscribers(&self, wanted: impl Fn(&Plan) -> bool) -> Group {
        let count = |plan: &Arc<Plan>| if wanted(plan) { plan.own_subscribers() } else { 0 };
        Group { kind: ClientKind::Subscribers, counts: self.plans.iter().map(count).collect() }
    }

    /// Waits until what the shards share says that clients may begin.
    fn await_service(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        let begin = self.now();
        let wanted = u64::from(self.plan.all_devices()) + u64::from(self.plan.all_subscribers());
        for service in self.services.clone() {
            loop {
                match service.begun(self.now() - begin) {
                    // Nothing that the threads were told is still to be answered.
                    None => drop(self.next(watch)?),
                    Some(Ok(())) => break,
                    Some(Err(reason)) => return Err(EngineError::Connect { ready: 0, wanted, reason }),
                }
            }
        }
        Ok(())
    }

    fn connect_in_turn(&mut self, groups: &[Group], watch: &mut dyn Watch) -> Result<(), EngineError> {
        let wanted = groups.iter().map(Group::count).sum();
        let mut ready = 0;
        let outcome = groups.iter().try_for_each(|group| self.connect_all(group, wanted, &mut ready, watch));
        self.tell_all_and_await(&Command::Flush, watch, |reply| matches!(reply, Reply::Flushed))?;
        outcome
    }

    fn connect_all(
        &mut self,
        group: &Group,
        wanted: u64,
        ready: &mut u64,
        watch: &mut dyn Watch,
    ) -> Result<(), EngineError> {
        let of = self.shards.len();
        self.tell_to_connect(group, self.now(), self.plan.load.connect_rate, true)?;
        let mut shards_ready = 0;
        while shards_ready < of {
            self.check_workers()?;
            match self.next(watch)? {
                Some(Reply::AllReady) => shards_ready += 1,
                Some(Reply::Ready(more)) => {
                    *ready += u64::from(more);
                    if !watch.connected(*ready, wanted) {
                        return Err(EngineError::Interrupted);
                    }
                }
                Some(Reply::ConnectRepeated(reason)) => *self.repeated.entry(reason).or_default() += 1,
                Some(Reply::ConnectFailed { reason, tried_again }) => {
                    let reason = match tried_again {
                        true => format!("{reason} (it tried again for {CONNECT_PATIENCE})"),
                        false => reason,
                    };
                    return Err(EngineError::Connect { ready: *ready, wanted, reason });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is to be said of attempts to connect during set-up that failed and were made again with success.
    pub fn repeated_connections(&self) -> Option<String> {
        let times: u64 = self.repeated.values().sum();
        let (reason, _) = self.repeated.iter().max_by_key(|(_, times)| **times)?;
        let (attempts, were) = if times == 1 { ("attempt", "was") } else { ("attempts", "were") };
        Some(format!(
            "{times} {attempts} to connect failed during set-up and {were} made again: {reason}; if the \
             platform was asked for too many at once, a lower `load.connect_rate` (now {}/s) helps",
            self.plan.load.connect_rate
        ))
    }

    /// Tells the clients of each population to connect, so many a second of all together.
    pub(super) fn tell_to_connect(
        &self,
        group: &Group,
        start: Nanos,
        rate: f64,
        awaited: bool,
    ) -> Result<(), EngineError> {
        let all = group.count();
        for ((plan, shards), &count) in self.populations().zip(&group.counts) {
            // Populations connect side by side, each with its part of the rate.
            let part = if u64::from(count) == all { 1.0 } else { f64::from(count) / all as f64 };
            let own = |seat: &Seat| clients_of(seat, group.kind, &plan.population, 0..count);
            // Shards that have some take turns, so that the population connects evenly.
            let of = shards.iter().filter(|(seat, _)| own(seat).count() > 0).count().max(1) as i64;
            let gap = Nanos::from_secs_f64(of as f64 / (rate * part));
            let mut turn = 0;
            for (seat, shard) in shards {
                let clients = own(seat);
                let start = start + Nanos(gap.0.saturating_mul(turn) / of);
                turn += i64::from(clients.count() > 0);
                shard.tell(Command::Connect { clients, start, gap, awaited })?;
            }
        }
        Ok(())
    }
}

/// Whether subscribers are clients of the devices' broker at topics of their own.
fn is_notified(plan: &Plan) -> bool {
    plan.platform.roles.notified.is_some()
}

/// Clients that connect together.
pub(super) struct Group {
    pub(super) kind: ClientKind,
    /// Of each population, how many of its first ones.
    pub(super) counts: Vec<u32>,
}

impl Group {
    fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// What a load thread has of the clients of a population; their numbers are counted from its first one.
pub(super) fn clients_of(
    seat: &Seat,
    kind: ClientKind,
    population: &PopulationPlan,
    numbers: Range<u32>,
) -> Clients {
    let (share, first) = match kind {
        ClientKind::Devices => (seat.devices, population.first_device),
        ClientKind::Subscribers => (seat.subscribers, population.first_subscriber),
    };
    Clients { kind, share: share.from(first), from: first + numbers.start, to: first + numbers.end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Client;
    use crate::layout::Layout;
    use crate::share::BLOCKS;

    #[test]
    fn each_client_is_connected_by_the_shard_that_owns_it() {
        let layout = Layout::of_one_process(1, 3);
        let population = PopulationPlan { first_device: 7, ..PopulationPlan::default() };
        for (kind, number, count) in
            [(ClientKind::Devices, BLOCKS + 7, BLOCKS + 500), (ClientKind::Subscribers, BLOCKS, BLOCKS + 100)]
        {
            let dealt: Vec<Vec<Client>> = (layout.seats(0).iter())
                .map(|seat| clients_of(seat, kind, &population, 0..count))
                .map(|clients| clients.iter().collect())
                .collect();
            assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), count as usize);
            let one = kind.client(number);
            assert!(
                dealt[0].contains(&one),
                "what BLOCKS leaves modulo BLOCKS is 0, whatever it leaves modulo 3"
            );
            assert!(!dealt[1].contains(&one));
        }
    }
}
