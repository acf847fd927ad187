//! How the clients connect: subscribers before devices, at the scenario's rate.

use super::{Engine, EngineError, Watch};
use crate::driver::Client;
use crate::shard::{CONNECT_PATIENCE, Command, Reply};
use crate::share::Share;
use plimsoll_model::Nanos;

impl Engine {
    /// Connects every subscriber, at the scenario's connect rate; for platforms that notify them while the controller
    /// still sets up.
    ///
    /// # Errors
    /// [`EngineError::Connect`] at the first client that fails for good.
    pub fn connect_subscribers(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        let subscribers = (0..self.plan.subscribers.count).map(Client::Subscriber).collect();
        self.subscribers_ready = true;
        self.connect_in_turn(&[subscribers], watch)
    }

    /// Connects every subscriber that was not connected before, then every device, at the scenario's connect rate.
    ///
    /// # Errors
    /// [`EngineError::Connect`] at the first client that fails for good, or where the platform is awaited and does not come.
    pub fn connect(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        self.await_service(watch)?;
        let subscribers = if self.subscribers_ready { 0 } else { self.plan.subscribers.count };
        let devices = if self.plan.load.connects_in_levels() { 0 } else { self.plan.devices };
        let subscribers = (0..subscribers).map(Client::Subscriber).collect();
        let outcome = self.connect_in_turn(&[subscribers, (0..devices).map(Client::Device).collect()], watch);
        // After a failure no level follows: what the goodbyes still bring belongs to the set-up too.
        self.in_set_up = outcome.is_err();
        outcome
    }

    /// Waits until what the shards share says that clients may begin.
    fn await_service(&mut self, watch: &mut dyn Watch) -> Result<(), EngineError> {
        let Some(service) = self.service.clone() else { return Ok(()) };
        let begin = self.now();
        let wanted = u64::from(self.plan.devices) + u64::from(self.plan.subscribers.count);
        loop {
            match service.begun(self.now() - begin) {
                // Nothing that the threads were told is still to be answered.
                None => drop(self.next(watch)?),
                Some(begun) => {
                    return begun.map_err(|reason| EngineError::Connect { ready: 0, wanted, reason });
                }
            }
        }
    }

    fn connect_in_turn(&mut self, groups: &[Vec<Client>], watch: &mut dyn Watch) -> Result<(), EngineError> {
        let wanted = groups.iter().map(Vec::len).sum::<usize>() as u64;
        let mut ready = 0;
        let outcome =
            groups.iter().try_for_each(|clients| self.connect_all(clients, wanted, &mut ready, watch));
        self.tell_all_and_await(&Command::Flush, watch, |reply| matches!(reply, Reply::Flushed))?;
        outcome
    }

    fn connect_all(
        &mut self,
        clients: &[Client],
        wanted: u64,
        ready: &mut u64,
        watch: &mut dyn Watch,
    ) -> Result<(), EngineError> {
        let of = self.shards.len();
        self.tell_to_connect(clients, self.now(), self.plan.load.connect_rate, true)?;
        let mut shards_ready = 0;
        while shards_ready < of {
            match self.next(watch)? {
                Some(Reply::AllReady) => shards_ready += 1,
                Some(Reply::ClientReady) => {
                    *ready += 1;
                    if !watch.connected(*ready, wanted) {
                        return Err(EngineError::Interrupted);
                    }
                }
                Some(Reply::ConnectRepeated(reason)) => *self.repeated.entry(reason).or_default() += 1,
                Some(Reply::ConnectFailed(reason)) => {
                    // Of one that was tried again it is said for how long.
                    let reason = match self.repeated.contains_key(&reason) {
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

    pub(super) fn tell_to_connect(
        &self,
        clients: &[Client],
        start: Nanos,
        rate: f64,
        awaited: bool,
    ) -> Result<(), EngineError> {
        let of = self.shards.len();
        let gap = Nanos::from_secs_f64(of as f64 / rate);
        for (index, (shard, clients)) in self.shards.iter().zip(dealt(clients, of as u32)).enumerate() {
            // Shards take turns, so that the population connects evenly.
            let start = start + Nanos(gap.0 * index as i64 / of as i64);
            shard.tell(Command::Connect { clients, start, gap, awaited })?;
        }
        Ok(())
    }
}

/// The clients of each of so many shards, in their order.
fn dealt(clients: &[Client], of: u32) -> Vec<Vec<Client>> {
    let number = |client: &Client| match *client {
        Client::Device(number) | Client::Subscriber(number) => number,
    };
    let of_shard =
        |index| clients.iter().copied().filter(|client| Share { index, of }.owns(number(client))).collect();
    (0..of).map(of_shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_is_connected_by_the_shard_that_owns_it() {
        let clients: Vec<Client> =
            (0..1500).map(Client::Device).chain((0..1100).map(Client::Subscriber)).collect();
        let dealt = dealt(&clients, 3);
        assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), clients.len());
        assert!(
            dealt[0].contains(&Client::Device(1024)),
            "1024 modulo 1024 is 0, whatever it leaves modulo 3"
        );
        assert!(dealt[0].contains(&Client::Subscriber(1024)) && !dealt[1].contains(&Client::Device(1024)));
    }
}
