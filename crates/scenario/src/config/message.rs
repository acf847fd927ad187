//! What a device sends.

use crate::quantity::{AsText, Size};
use serde::{Deserialize, Serialize};

/// What a device sends: filler of a size after the marker, or a template.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Message {
    /// Where a message goes: its topic over MQTT, its path over HTTP and CoAP. `{run}`, `{device}` and `{sequence}` may stand in it.
    /// A profile or, over HTTP and CoAP, the path of a bare address takes its place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Size of the content in bytes, the marker included, up to 1 MiB. Default 64 B. Excludes `template`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<MessageSize>,
    /// The content as text with variables: `{marker}` (exactly once), `{run}`, `{device}`, `{sequence}`, `{time}`
    /// (milliseconds since 1970), `{random:1..6}`, `{random:18.0..25.0:1}` (one decimal). `{{` writes a brace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Form of the marker that every message carries. Default: binary, with a template ascii.
    pub marker: Option<Marker>,
    /// Rows of values: templates take a column's with `{feed:COLUMN}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed: Option<Feed>,
}

impl Default for Message {
    fn default() -> Message {
        let target = "plimsoll/{run}/{device}".to_owned();
        Message { target, size: None, template: None, marker: None, feed: None }
    }
}

/// Rows of values, one a message: the first messages of all devices take the first rows in the order of the devices,
/// their second messages the next ones; after the last row the first comes again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Feed {
    /// A file of comma-separated values with a header line, or of JSON Lines (`.jsonl`), relative to the scenario, of at most
    /// 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The street segments of a city, made from the scenario's seed. Excludes `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<City>,
}

/// Street segments of Porto and the average speeds on them: a row for each segment in the first hour, then one for each
/// in the next. With as many devices as segments each device is a segment, and each of its messages an hour. Columns:
/// `last_hour_average`, `weekly_average`, `combined_average` (m/s), `edge_id`, `lon`, `lat` (degrees).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct City {
    /// How many segments.
    #[serde(default = "City::segments")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub segments: u32,
}

impl City {
    fn segments() -> u32 {
        plimsoll_template::city::SEGMENTS
    }
}

/// The content's size in bytes: one, or a distribution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum MessageSize {
    /// Always the same.
    Fixed(AsText<Size>),
    /// A distribution.
    Distributed(SizeDistribution),
}

/// A distribution of sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum SizeDistribution {
    /// Uniform over whole bytes, both ends included.
    Uniform(UniformSize),
    /// Normal, rounded and clamped to its bounds.
    Normal(NormalSize),
    /// One of a list, by weight.
    Choice(#[cfg_attr(test, schemars(length(min = 1)))] Vec<WeightedSize>),
}

/// Bounds of a uniform distribution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct UniformSize {
    /// Smallest size.
    pub min: AsText<Size>,
    /// Largest size.
    pub max: AsText<Size>,
}

/// A normal distribution, clamped.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NormalSize {
    /// Mean before clamping.
    pub mean: AsText<Size>,
    /// Standard deviation before clamping.
    pub deviation: AsText<Size>,
    /// Smallest size.
    pub min: AsText<Size>,
    /// Largest size.
    pub max: AsText<Size>,
}

/// A size and how often it is drawn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightedSize {
    /// The size.
    pub size: AsText<Size>,
    /// How often it is drawn, in proportion to the other weights.
    #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
    pub weight: f64,
}

/// Form of the marker: `binary` (10 bytes), `ascii` (letters, digits, dot and hyphen) or `integer` (a decimal number
/// below 2^53).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Marker {
    Binary,
    Ascii,
    Integer,
}
