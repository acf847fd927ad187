//! Faults on a schedule.

use super::Duration;
use crate::quantity::{AsText, BitRate, Memory, Share};
use serde::{Deserialize, Serialize};

/// Something that goes wrong on purpose within the hold of a level (docs/faults.md).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The component of the platform that has the fault, or to which the way leads. Default: the first one that devices connect
    /// to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// When it begins, from the beginning of the hold. At least three samples of the hold come before it.
    pub at: Duration,
    /// How long it lasts. At least three samples of the hold come after it. A restart has no such time.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Duration>,
    /// The level in which it happens, by its place in the list from 1. Default: every level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub level: Option<u16>,
    /// `processor`: the share of its processor time that the component keeps, from 1 % to 99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<AsText<Share>>,
    /// `memory`: data that each process of the component may have, such as `64 MiB`. What it has already stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<AsText<Memory>>,
    /// `disk`: the size of the folder in which the component runs, such as `64 MiB`, from its start on. The fault fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<AsText<Memory>>,
    /// `delay`: how much longer everything takes, each way; at most a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// `delay`: what is added to that at most, uniformly drawn; at most a minute. Connections keep their order. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// `rate`: bits a second of each way, which all connections share, such as `1mbit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<AsText<BitRate>>,
    /// `loss`: the share of the packets that get lost, each way: datagrams, and segments of TCP, which are sent again. For TCP this
    /// needs root and `nft`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<AsText<Share>>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultKind {
    /// The component is killed (SIGKILL), and started again after `for` with the same ports and files.
    Kill,
    /// The component is asked to end (SIGTERM), and started again as soon as it has.
    Restart,
    /// All processes of the component are stopped (SIGSTOP), and go on after `for`.
    Pause,
    /// The component keeps only the share `keep` of its processor time.
    Processor,
    /// Each process of the component may have no more data than `limit`: it gets no more memory beyond that.
    Memory,
    /// The folder in which the component runs is full. Needs root.
    Disk,
    /// Connections to the component are reset, new ones too, and datagrams are lost.
    Cut,
    /// What is sent on the connections to the component vanishes, and they stay open.
    HalfOpen,
    /// What is sent to the component and comes from it takes longer, by `delay` and `jitter`.
    Delay,
    /// The ways to and from the component carry no more than `rate`.
    Rate,
    /// Packets to and from the component get lost, the share `loss` of them.
    Loss,
}

impl FaultKind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Restart => "restart",
            FaultKind::Pause => "pause",
            FaultKind::Processor => "processor",
            FaultKind::Memory => "memory",
            FaultKind::Disk => "disk",
            FaultKind::Cut => "cut",
            FaultKind::HalfOpen => "half_open",
            FaultKind::Delay => "delay",
            FaultKind::Rate => "rate",
            FaultKind::Loss => "loss",
        }
    }

    /// The keys that say more of it, of which it needs the first.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            FaultKind::Kill | FaultKind::Restart | FaultKind::Pause => &[],
            FaultKind::Cut | FaultKind::HalfOpen => &[],
            FaultKind::Processor => &["keep"],
            FaultKind::Memory => &["limit"],
            FaultKind::Disk => &["size"],
            FaultKind::Delay => &["delay", "jitter"],
            FaultKind::Rate => &["rate"],
            FaultKind::Loss => &["loss"],
        }
    }
}
