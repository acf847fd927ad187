//! The quality of service, as a number.

use plimsoll_codec::mqtt::QoS;
use serde::{Deserialize, Serialize};

/// Quality of service: 0 (at most once), 1 (at least once) or 2 (exactly once).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(crate) struct QosLevel(pub QoS);

impl TryFrom<u8> for QosLevel {
    type Error = String;
    fn try_from(level: u8) -> Result<QosLevel, String> {
        match level {
            0 => Ok(QosLevel(QoS::AtMostOnce)),
            1 => Ok(QosLevel(QoS::AtLeastOnce)),
            2 => Ok(QosLevel(QoS::ExactlyOnce)),
            _ => Err(format!("{level} is no quality of service")),
        }
    }
}

impl From<QosLevel> for u8 {
    fn from(level: QosLevel) -> u8 {
        match level.0 {
            QoS::AtMostOnce => 0,
            QoS::AtLeastOnce => 1,
            QoS::ExactlyOnce => 2,
        }
    }
}
