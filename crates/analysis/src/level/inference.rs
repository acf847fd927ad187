//! Why times rose from one level to another.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// What a level's times say beside those of the lowest level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Inference {
    /// The level that it is compared with: the lowest one that was measured to its end.
    pub reference: u16,
    /// Which time is compared, from send: `publish` or `subscribe`.
    pub time: &'static str,
    /// Which quantile of it: that of an objective that is not met, else the median.
    pub quantile: f64,
    /// That time less that of the reference, in seconds; null where either has none.
    pub publish_rise: Option<Rise>,
    /// The median of the network's own round trip less that of the reference.
    pub network_rise: Option<Rise>,
    /// What that time rose with.
    pub publish_because: PublishCause,
    /// Of its rise, the share that the network's round trips make; null where that cannot be said.
    pub network_share: Option<f64>,
    /// The 95 % interval of that share, with the intervals of both rises; null in the same cases.
    pub network_share_ci95: Option<[f64; 2]>,
    /// Total time over that of the reference: for equal holds, in the closed model for as many messages. Null where either
    /// has none.
    pub total_ratio: Option<f64>,
    /// What the total time rose with.
    pub total_because: TotalCause,
}

/// A median less another, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Rise {
    /// The difference.
    pub seconds: f64,
    /// Its 95 % interval; null where one of the medians has none.
    pub ci95: Option<[f64; 2]>,
}

/// What a publish time rose with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PublishCause {
    /// It did not, as far as the intervals show.
    NoRise,
    /// The network's round trip rose with it.
    Network,
    /// The network's round trip did not.
    Platform,
    /// The network's round trip makes a part of it.
    Both,
    /// About as many messages as were slow had segments that were sent again.
    Retransmissions,
    /// It rose, but the network's round trip is not known, or not well enough to decide.
    Unknown,
}

/// What a total time rose with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TotalCause {
    /// It did not.
    NoRise,
    /// More messages were sent again after an answer that asks for it, or a lost connection.
    Retries,
    /// More segments or requests were sent again because no acknowledgement came.
    Retransmissions,
    /// Both.
    Both,
    /// Neither of them rose: the publish times themselves are longer.
    Neither,
}
