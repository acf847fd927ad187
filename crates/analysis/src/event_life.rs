//! Where events spend their lives between a device and the end of their work at a gateway that polls it.

use crate::summary::TimeSummary;
use plimsoll_model::Metric;
use schemars::JsonSchema;
use serde::Serialize;

/// The parts of the publish time, which is the work's response time: from creation to the end of the work. In seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct EventLife {
    /// Events done in the hold for each that was due in it: the work's load P.
    pub load: Option<f64>,
    /// Created to fetched: at the device.
    pub wait: TimeSummary,
    /// Fetched to retrieved: between the device and the gateway's own code.
    pub transfer: TimeSummary,
    /// Retrieved to taken by the event handler: at the dispatcher.
    pub dispatch: TimeSummary,
    /// Retrieved to done: at the gateway.
    pub processing: TimeSummary,
}

impl EventLife {
    /// Of a level; `None` where nobody polls.
    pub(crate) fn of(load: Option<f64>, time: impl Fn(Metric) -> TimeSummary) -> Option<EventLife> {
        let wait = time(Metric::WaitTime);
        (wait.n > 0).then(|| EventLife {
            load,
            wait,
            transfer: time(Metric::TransferTime),
            dispatch: time(Metric::DispatchTime),
            processing: time(Metric::ProcessingTime),
        })
    }
}
