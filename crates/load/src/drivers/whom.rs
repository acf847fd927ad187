//! Whose words they are that a client says: what variables stand for in them, and which devices a subscriber says them for.

use super::DriverContext;
use crate::run_context::View;
use crate::share::Share;
use plimsoll_scenario::plan::{SubscriberPlan, Variables};

/// Whose connection it is, and about which device something is said over it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whom {
    pub device: u32,
    pub subscriber: u32,
}

/// What may stand in the words of a client.
pub fn variables<'a>((run, view): (&'a str, &'a View), whom: Whom) -> Variables<'a> {
    Variables {
        run,
        device: whom.device,
        subscriber: whom.subscriber,
        time_ms: (crate::clock::wall_nanos() / 1_000_000) as u64,
        token: view.token(),
        captures: view.captures(),
        ..Variables::default()
    }
}

/// Which devices each subscriber follows that receives over connections of its own.
pub struct Following {
    follows: SubscriberPlan,
    followed: u32,
    devices: u32,
    first_device: u32,
}

impl Following {
    /// As the plan says.
    pub fn new(context: &DriverContext) -> Following {
        let plan = &context.plan;
        Following {
            follows: plan.subscribers.clone(),
            followed: plan.subscribers.followed(plan.devices),
            devices: plan.devices,
            first_device: plan.population.first_device,
        }
    }

    /// How many devices each follows.
    pub fn followed(&self) -> u32 {
        self.followed
    }

    /// What a subscriber of a share says about the device at a position among those that it follows.
    pub fn whom(&self, share: Share, slot: u32, position: u32) -> Whom {
        let subscriber = share.number(slot);
        let within = subscriber - share.first;
        let device = self.first_device + self.follows.follows(within, position, self.devices);
        Whom { device, subscriber }
    }
}
