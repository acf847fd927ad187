//! What a level asks of the platform.

use crate::text::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The load of a level, or what a population has of it. It is stored as four keys of which those that do not apply are null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "LoadKeys", into = "LoadKeys")]
pub enum Load {
    /// Open model: so many operations per second.
    Rate(f64),
    /// Closed model: so many operations in flight.
    InFlight(u32),
    /// So many devices, which the level itself connects.
    Devices {
        /// How many.
        devices: u32,
        /// Operations per second of all of them; `None` leaves them idle.
        rate: Option<f64>,
    },
    /// Devices that the level connects anew, and leaves idle.
    ConnectRate {
        /// Connections begun per second.
        rate: f64,
        /// How many devices, where that is known.
        devices: Option<u32>,
    },
}

/// A load as it is written.
#[derive(Serialize, Deserialize)]
struct LoadKeys {
    offered: Option<f64>,
    in_flight: Option<u32>,
    #[serde(default)]
    devices: Option<u32>,
    #[serde(default)]
    connect_rate: Option<f64>,
}

impl From<LoadKeys> for Load {
    fn from(keys: LoadKeys) -> Load {
        match keys {
            LoadKeys { connect_rate: Some(rate), devices, .. } => Load::ConnectRate { rate, devices },
            LoadKeys { devices: Some(devices), offered: rate, .. } => Load::Devices { devices, rate },
            LoadKeys { offered: Some(rate), .. } => Load::Rate(rate),
            LoadKeys { in_flight, .. } => Load::InFlight(in_flight.unwrap_or_default()),
        }
    }
}

impl From<Load> for LoadKeys {
    fn from(load: Load) -> LoadKeys {
        LoadKeys {
            offered: load.offered(),
            in_flight: load.in_flight(),
            devices: load.devices(),
            connect_rate: load.connect_rate(),
        }
    }
}

impl Default for Load {
    fn default() -> Load {
        Load::InFlight(0)
    }
}

impl Load {
    /// Operations per second asked for; `None` in the closed model, and where devices are idle.
    pub fn offered(self) -> Option<f64> {
        match self {
            Load::Rate(rate) => Some(rate),
            Load::Devices { rate, .. } => rate,
            Load::InFlight(_) | Load::ConnectRate { .. } => None,
        }
    }

    /// Operations kept in flight; `None` in the open model.
    pub fn in_flight(self) -> Option<u32> {
        if let Load::InFlight(count) = self { Some(count) } else { None }
    }

    /// Devices that the level connects; `None` where all are connected before the first level.
    pub fn devices(self) -> Option<u32> {
        match self {
            Load::Devices { devices, .. } => Some(devices),
            Load::ConnectRate { devices, .. } => devices,
            Load::Rate(_) | Load::InFlight(_) => None,
        }
    }

    /// Connections begun per second, where levels differ in that.
    pub fn connect_rate(self) -> Option<f64> {
        if let Load::ConnectRate { rate, .. } = self { Some(rate) } else { None }
    }

    /// What levels are ordered by: operations per second, operations in flight, devices, or connections per second.
    pub fn amount(self) -> f64 {
        match self {
            Load::Rate(rate) | Load::ConnectRate { rate, .. } => rate,
            Load::InFlight(count) => f64::from(count),
            Load::Devices { devices, .. } => f64::from(devices),
        }
    }
}

/// `1,000/s`, `50 in flight`, `2,000 devices` or `500 connections/s`.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = grouped(self.amount());
        f.pad(&match self {
            Load::Rate(_) => format!("{amount}/s"),
            Load::InFlight(_) => format!("{amount} in flight"),
            Load::Devices { .. } => format!("{amount} devices"),
            Load::ConnectRate { .. } => format!("{amount} connections/s"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_read_as_it_was_written() {
        let devices = Some(7);
        for (load, told) in [
            (Load::Rate(1500.0), "1,500/s"),
            (Load::InFlight(50), "50 in flight"),
            (Load::Devices { devices: 2000, rate: Some(10.0) }, "2,000 devices"),
            (Load::Devices { devices: 2000, rate: None }, "2,000 devices"),
            (Load::ConnectRate { rate: 500.0, devices }, "500 connections/s"),
            (Load::ConnectRate { rate: 500.0, devices: None }, "500 connections/s"),
        ] {
            assert_eq!(load.to_string(), told);
            assert_eq!(Load::from(LoadKeys::from(load)), load);
        }
    }
}
