//! Where events spend their lives between a device and the end of their work at a gateway.

use crate::time_summary::TimeSummary;
use plimsoll_model::Metric;
use plimsoll_model::record::ClockRecord;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The parts of the publish time, which is the work's response time: from creation to the end of the work. In seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EventLife {
    /// Events done in the hold for each that was due in it: the work's load P.
    pub load: Option<f64>,
    /// How the gateway's clock stood to ours when the level ended.
    pub clock: Option<ClockSummary>,
    /// Created to fetched by a gateway that polls, or to sent by a device that pushes: at the device.
    pub wait: TimeSummary,
    /// Fetched or sent to retrieved: between the device and the gateway's own code. With push, that is where an event waits behind
    /// an earlier one of its device.
    pub transfer: TimeSummary,
    /// Retrieved to taken by the event handler: at the dispatcher.
    pub dispatch: TimeSummary,
    /// Retrieved to done: at the gateway.
    pub processing: TimeSummary,
}

/// How a gateway's clock stands to ours: its times are known no better than that. In seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClockSummary {
    /// Theirs minus ours by the median of the first five round trips, as in work E.
    pub median: f64,
    /// The median is no more wrong than this unless a clock drifts.
    pub median_within: f64,
    /// Theirs minus ours at the last reading, by a line through the readings.
    pub offset: f64,
    /// Half of its 95 % interval.
    pub offset_within: f64,
    /// Parts per million by which their clock is faster.
    pub drift: f64,
    /// Half of its 95 % interval; null with fewer than three readings.
    pub drift_within: Option<f64>,
    /// Readings.
    pub readings: usize,
}

impl From<ClockRecord> for ClockSummary {
    fn from(clock: ClockRecord) -> ClockSummary {
        ClockSummary {
            median: clock.median.as_secs_f64(),
            median_within: clock.median_within.as_secs_f64(),
            offset: clock.offset.as_secs_f64(),
            offset_within: clock.offset_within.as_secs_f64(),
            drift: clock.drift,
            drift_within: clock.drift_within,
            readings: clock.readings,
        }
    }
}

impl EventLife {
    /// Of a level; `None` where no gateway tells.
    pub(crate) fn of(
        load: Option<f64>,
        clock: Option<ClockRecord>,
        time: impl Fn(Metric) -> TimeSummary,
    ) -> Option<EventLife> {
        let wait = time(Metric::WaitTime);
        (wait.n > 0).then(|| EventLife {
            load,
            clock: clock.map(ClockSummary::from),
            wait,
            transfer: time(Metric::TransferTime),
            dispatch: time(Metric::DispatchTime),
            processing: time(Metric::ProcessingTime),
        })
    }
}
