//! How the clients connect: subscribers before devices, at the scenario's rate.

use super::{Engine, EngineError, Watch};
use crate::driver::Client;
use crate::layout::Seat;
use crate::shard::{CONNECT_PATIENCE, Command, Reply};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, PopulationPlan};
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
        let devices = self.devices(counts);
        let outcome = self.connect_in_turn(&[subscribers, devices], watch);
        // After a failure no level follows: what the goodbyes still bring belongs to the set-up too.
        self.in_set_up = outcome.is_err();
        outcome
    }

    /// The subscribers of each such population; none of the others.
    fn subscribers(&self, wanted: impl Fn(&Plan) -> bool) -> Vec<Vec<Client>> {
        let of = |plan: &Arc<Plan>| {
            let first = plan.population.first_subscriber;
            let count = if wanted(plan) { plan.own_subscribers() } else { 0 };
            (first..first + count).map(Client::Subscriber).collect()
        };
        self.plans.iter().map(of).collect()
    }

    /// The first so many devices of each population; none of one that is not counted.
    pub(super) fn devices(&self, counts: impl IntoIterator<Item = u32>) -> Vec<Vec<Client>> {
        let counts = counts.into_iter().chain(std::iter::repeat(0));
        let of = |(plan, count): (&Arc<Plan>, u32)| {
            let first = plan.population.first_device;
            (first..first + count).map(Client::Device).collect()
        };
        self.plans.iter().zip(counts).map(of).collect()
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

    fn connect_in_turn(
        &mut self,
        groups: &[Vec<Vec<Client>>],
        watch: &mut dyn Watch,
    ) -> Result<(), EngineError> {
        let wanted = groups.iter().flatten().map(Vec::len).sum::<usize>() as u64;
        let mut ready = 0;
        let outcome =
            groups.iter().try_for_each(|clients| self.connect_all(clients, wanted, &mut ready, watch));
        self.tell_all_and_await(&Command::Flush, watch, |reply| matches!(reply, Reply::Flushed))?;
        outcome
    }

    fn connect_all(
        &mut self,
        clients: &[Vec<Client>],
        wanted: u64,
        ready: &mut u64,
        watch: &mut dyn Watch,
    ) -> Result<(), EngineError> {
        let of = self.shards.len();
        self.tell_to_connect(clients, self.now(), self.plan.load.connect_rate, true)?;
        let mut shards_ready = 0;
        while shards_ready < of {
            self.check_workers()?;
            match self.next(watch)? {
                Some(Reply::AllReady) => shards_ready += 1,
                Some(Reply::ClientReady) => {
                    *ready += 1;
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
        clients: &[Vec<Client>],
        start: Nanos,
        rate: f64,
        awaited: bool,
    ) -> Result<(), EngineError> {
        let all = clients.iter().map(Vec::len).sum::<usize>();
        for ((plan, shards), clients) in self.populations().zip(clients) {
            // Populations connect side by side, each with its part of the rate.
            let part = if clients.len() == all { 1.0 } else { clients.len() as f64 / all as f64 };
            let seats: Vec<&Seat> = shards.iter().map(|(seat, _)| *seat).collect();
            let dealt = dealt(clients, &seats, &plan.population);
            // Shards that have some take turns, so that the population connects evenly.
            let of = dealt.iter().filter(|own| !own.is_empty()).count().max(1) as i64;
            let gap = Nanos::from_secs_f64(of as f64 / (rate * part));
            let mut turn = 0;
            for ((_, shard), clients) in shards.into_iter().zip(dealt) {
                let start = start + Nanos(gap.0.saturating_mul(turn) / of);
                turn += i64::from(!clients.is_empty());
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

/// The clients of each shard of a population, in their order.
fn dealt(clients: &[Client], seats: &[&Seat], population: &PopulationPlan) -> Vec<Vec<Client>> {
    let owns = |seat: &Seat, client: &Client| match *client {
        Client::Device(number) => seat.devices.from(population.first_device).owns(number),
        Client::Subscriber(number) => seat.subscribers.from(population.first_subscriber).owns(number),
    };
    let of_shard = |&seat: &&Seat| clients.iter().copied().filter(|client| owns(seat, client)).collect();
    seats.iter().map(of_shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn each_client_is_connected_by_the_shard_that_owns_it() {
        let clients: Vec<Client> =
            (0..1500).map(Client::Device).chain((0..1100).map(Client::Subscriber)).collect();
        let layout = Layout::of_one_process(1, 3);
        let seats: Vec<&Seat> = layout.seats(0).iter().collect();
        let dealt = dealt(&clients, &seats, &PopulationPlan::default());
        assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), clients.len());
        assert!(
            dealt[0].contains(&Client::Device(1024)),
            "1024 modulo 1024 is 0, whatever it leaves modulo 3"
        );
        assert!(dealt[0].contains(&Client::Subscriber(1024)) && !dealt[1].contains(&Client::Device(1024)));
    }
}
