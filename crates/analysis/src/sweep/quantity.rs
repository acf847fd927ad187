//! What is measured of a combination.

use super::Taken;
use crate::level::LevelSummary;
use plimsoll_model::Metric;
use serde::Serialize;

/// What is measured of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The load line; absent where a run has none.
    LoadLine,
    /// The load line by what the platform costs.
    LoadLinePerCost,
    /// What the platform costs.
    Cost,
    /// Operations done per second: the work's throughput T.
    Throughput,
    /// Of the operations due in the hold, those that were done in it: the work's load P.
    Done,
    /// Due to done, the mean; absent in overload, where it depends on the length of the hold.
    PublishTime,
    /// Due to done, the median.
    PublishTimeMedian,
    /// Due to done, the 99 % quantile.
    PublishTimeP99,
    /// Due to delivered, the median.
    SubscribeTimeMedian,
    /// Due to delivered, the 99 % quantile.
    SubscribeTimeP99,
    /// Created to fetched or sent, the median.
    WaitTime,
    /// Fetched or sent to retrieved, the median.
    TransferTime,
    /// Retrieved to taken by the handler, the median.
    DispatchTime,
    /// Retrieved to done, the median.
    ProcessingTime,
    /// Processor time of the platform for each operation.
    PlatformCpu,
    /// Processor time of the load threads for each operation.
    GeneratorCpu,
}

impl Quantity {
    /// All, in the order of reports.
    pub const ALL: [Quantity; 16] = [
        Quantity::LoadLine,
        Quantity::LoadLinePerCost,
        Quantity::Cost,
        Quantity::Throughput,
        Quantity::Done,
        Quantity::PublishTime,
        Quantity::PublishTimeMedian,
        Quantity::PublishTimeP99,
        Quantity::SubscribeTimeMedian,
        Quantity::SubscribeTimeP99,
        Quantity::WaitTime,
        Quantity::TransferTime,
        Quantity::DispatchTime,
        Quantity::ProcessingTime,
        Quantity::PlatformCpu,
        Quantity::GeneratorCpu,
    ];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::LoadLine => "load line",
            Quantity::LoadLinePerCost => "load line by cost",
            Quantity::Cost => "cost",
            Quantity::Throughput => "throughput",
            Quantity::Done => "done of what was due",
            Quantity::PublishTime => "publish time, mean",
            Quantity::PublishTimeMedian => "publish time, median",
            Quantity::PublishTimeP99 => "publish time, 99 %",
            Quantity::SubscribeTimeMedian => "subscribe time, median",
            Quantity::SubscribeTimeP99 => "subscribe time, 99 %",
            Quantity::WaitTime => "wait at the device, median",
            Quantity::TransferTime => "device to gateway, median",
            Quantity::DispatchTime => "wait at the dispatcher, median",
            Quantity::ProcessingTime => "processing time, median",
            Quantity::PlatformCpu => "platform's processor time an operation",
            Quantity::GeneratorCpu => "load threads' processor time an operation",
        }
    }

    /// In what it is told to programs; empty where the sweep says so.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::LoadLine | Quantity::LoadLinePerCost | Quantity::Cost => "",
            Quantity::Throughput => "1/s",
            Quantity::Done => "1",
            _ => "s",
        }
    }

    /// Whether it is known of some runs only that it is so much at least: of those which met all of their levels.
    pub(super) const fn may_be_more(self) -> bool {
        matches!(self, Quantity::LoadLine | Quantity::LoadLinePerCost)
    }

    /// Its value in a run, of which that level counts.
    pub(super) fn of(self, run: &Taken, level: &LevelSummary) -> Option<f64> {
        let line = || run.line.as_ref()?.amount();
        let life = level.event_life.as_ref();
        let done = level.achieved.filter(|rate| *rate > 0.0);
        match self {
            Quantity::LoadLine => line(),
            Quantity::LoadLinePerCost => line().and(run.cost.as_ref()?.load_line_per_cost),
            Quantity::Cost => Some(run.cost.as_ref()?.total),
            Quantity::Throughput => level.achieved,
            Quantity::Done => level.achieved_ratio(),
            Quantity::PublishTime => level.times[Metric::PublishTime].mean,
            Quantity::PublishTimeMedian => level.times[Metric::PublishTime].p50,
            Quantity::PublishTimeP99 => level.times[Metric::PublishTime].p99,
            Quantity::SubscribeTimeMedian => level.times[Metric::SubscribeTime].p50,
            Quantity::SubscribeTimeP99 => level.times[Metric::SubscribeTime].p99,
            Quantity::WaitTime => life?.wait.p50,
            Quantity::TransferTime => life?.transfer.p50,
            Quantity::DispatchTime => life?.dispatch.p50,
            Quantity::ProcessingTime => life?.processing.p50,
            Quantity::PlatformCpu => Some(level.platform_cpu? / done?),
            Quantity::GeneratorCpu => Some(level.generator.cpu_per_million? / 1e6),
        }
    }
}
