//! What a platform may leave out: a message that a newer one of its device has replaced in time, or that falls into a
//! silence which the platform was asked to keep.

use crate::throttle::Throttle;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::DeliveryContract;
use std::sync::Arc;

/// A contract that is more lenient than the delivery of every message.
#[derive(Clone, Debug)]
pub struct Contract {
    /// A message is replaced by a newer one of its device that reaches the same subscriber within this time of its own
    /// sending; `None` until its level closes.
    pub within: Option<Nanos>,
    /// When subscribers were notified, where the platform may leave out what comes too soon after that.
    pub throttle: Option<Arc<Throttle>>,
}

impl Contract {
    /// What a promise allows; `None` where every message is owed. `drain` is how long a delivery may take.
    pub fn of(delivery: DeliveryContract, drain: Nanos, throttle: Option<Arc<Throttle>>) -> Option<Contract> {
        match delivery {
            DeliveryContract::Every => None,
            DeliveryContract::Latest => Some(Contract { within: Some(drain), throttle: None }),
            // A server that observes may keep back what is old for as long as it likes, if it tells the newest then.
            DeliveryContract::Observed => Some(Contract { within: None, throttle: None }),
            DeliveryContract::Throttled(period) => Some(Contract { within: Some(period), throttle }),
        }
    }

    /// Whether what was sent then is replaced by a newer message that came at `at`.
    pub fn replaces(&self, sent: Nanos, at: Nanos) -> bool {
        self.within.is_none_or(|within| at - sent <= within)
    }
}
