//! What all shards share in a run with a gateway: its test manager, and what that tells of the platform and of levels.

use super::lives::Lives;
use super::manager::{ManagedRun, Manager};
use crate::drivers::{RunService, ServiceContext, StageReader};
use plimsoll_model::Nanos;
use plimsoll_model::record::LevelEnd;
use plimsoll_scenario::plan::Protocol;
use std::sync::Arc;

/// See the module.
pub struct GatewayService {
    manager: Arc<Manager>,
    /// Whether the gateway polls the devices, so that these wait for it and tell of their events.
    polls: bool,
    /// Whether the gateway answers each event, so that its log need not stand for that.
    is_answered: bool,
}

impl GatewayService {
    /// Of a gateway that polls the devices, or logs what becomes of their events; `None` of a run without one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(context: &ServiceContext<'_>) -> std::io::Result<Option<GatewayService>> {
        let ServiceContext { plan, run, clock, .. } = *context;
        let polls = plan.protocol() == Protocol::Gateway;
        let address = if polls { Some(context.address) } else { context.stage_log };
        let Some(address) = address else { return Ok(None) };
        let is_answered = plan.is_answered();
        let managed = ManagedRun {
            tag: run.tag(),
            configuration: plan.platform.roles.device.configuration.clone(),
            polled: if polls { plan.devices } else { 0 },
            is_answered: !polls && is_answered,
            shards: context.shards,
        };
        let told =
            |error| std::io::Error::other(format!("cannot listen for the gateway at {address}: {error}"));
        let manager = Arc::new(Manager::start(address, managed, clock).map_err(told)?);
        Ok(Some(GatewayService { manager, polls, is_answered }))
    }

    /// The test manager.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }
}

impl RunService for GatewayService {
    fn begun(&self, waited: Nanos) -> Option<Result<(), String>> {
        // Devices that are polled wait for the gateway themselves.
        if self.polls { Some(Ok(())) } else { self.manager.begun(waited) }
    }

    fn stage_reader(&self, shard: u32) -> Option<Box<dyn StageReader + Send>> {
        let lives = || Lives::new(Arc::clone(&self.manager), shard, self.is_answered);
        (!self.polls).then(|| Box::new(lives()) as _)
    }

    fn awaits_stages(&self) -> bool {
        !self.polls && self.is_answered
    }

    fn level_ended(&self, end: &mut LevelEnd) {
        end.clock = Some(self.manager.clocks());
    }
}
