//! Quantities as people write them: `30s`, `1.5k/s`, `1 KiB`, `>= 99.9 %`, `mqtt://host:1883`. Each form is a `format`
//! of the JSON Schema, so that the check of the tree and the types agree on it.

use crate::address::{Endpoint, Protocol, SCHEMES, Scheme};
use plimsoll_model::Nanos;
use plimsoll_model::objective::Comparison;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A form of text with a meaning.
pub(crate) trait Quantity: Sized {
    /// Its form.
    const FORM: Form;
    /// Reads it; the error continues "`text` is not NAME: ".
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it so that `parse` reads the same again.
    fn show(&self) -> String;
}

/// What the check of the tree and the schema know of a form.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The `format` in the schema.
    pub format: &'static str,
    /// What it is, with its article.
    pub name: &'static str,
    /// How it is written.
    pub how: &'static str,
    /// A regular expression of texts of this form, for the published schema: it may allow more than `check` does.
    pub pattern: &'static str,
    /// Whether a text is of this form.
    pub check: fn(&str) -> Result<(), String>,
}

/// The forms, in no particular order.
static FORMS: [Form; 10] = [
    Nanos::FORM,
    Rate::FORM,
    Share::FORM,
    Size::FORM,
    Memory::FORM,
    BitRate::FORM,
    Endpoint::FORM,
    Form {
        format: "ratio-condition",
        name: "an objective on a ratio",
        how: "written like `\">= 99.9 %\"`",
        pattern: r"^\s*>=?\s*[0-9.]+\s*%?\s*$",
        check: |text| ratio_condition(text).map(drop),
    },
    Form {
        format: "time-condition",
        name: "an objective on a time",
        how: "written like `\"< 50 ms\"`",
        pattern: r"^\s*<=?(\s*[0-9.]+\s*(ns|us|µs|ms|s|m|h|d))+\s*$",
        check: |text| time_condition(text).map(drop),
    },
    Form {
        format: "rate-condition",
        name: "an objective on a rate",
        how: "written like `\">= 1000\"` or `\">= 1.5k/s\"`",
        pattern: r"^\s*>=\s*[0-9.]+\s*[kM]?\s*(/s)?\s*$",
        check: |text| rate_condition(text).map(drop),
    },
];

/// The form of that `format`.
pub(crate) fn form(format: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.format == format)
}

/// How texts of a schema's `format` are written, for people: "a duration, written like `250ms`"; `None` of other formats.
pub(crate) fn how_written(format: &str) -> Option<String> {
    form(format).map(|form| format!("{}, {}", form.name, form.how))
}

/// A quantity in a file: text there, a value here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AsText<T>(pub T);

/// A span of time.
pub(crate) type Duration = AsText<Nanos>;

impl<T: Quantity> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.show())
    }
}

impl<'de, T: Quantity> Deserialize<'de> for AsText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::parse(&text)
            .map(AsText)
            .map_err(|error| de::Error::custom(format!("`{text}` is not {}: {error}", T::FORM.name)))
    }
}

/// Operations or connections per second; finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(pub f64);

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitRate(pub u64);

/// A part of a whole; 1 is all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub f64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub u32);

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory(pub u64);

/// Units of sizes.
const SMALL: &[(&str, f64)] =
    &[("B", 1.0), ("kB", 1e3), ("KB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0)];
/// More than any host has, in bytes.
const MOST_MEMORY: f64 = (1u64 << 50) as f64;

/// Splits a text into its leading unsigned decimal number and the rest.
fn split_number(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("it is negative".to_owned());
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.parse::<f64>().is_err() {
        return Err("it does not begin with a number".to_owned());
    }
    Ok((number, rest.trim_start()))
}

/// A decimal number times a power of ten, correctly rounded: `99.9` and -2 give the double nearest to 0.999.
fn scaled(number: &str, exponent: i32) -> Result<f64, String> {
    match format!("{number}e{exponent}").parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("the number is too large".to_owned()),
    }
}

/// Units of time and their length in nanoseconds.
const TIME_UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];
const LONGEST: f64 = 365.0 * 86_400e9;

/// Reads a span of time with its unit as scenario files write it, such as `2ms`.
///
/// # Errors
/// Says what is wrong with the text.
pub fn duration(text: &str) -> Result<Nanos, String> {
    Nanos::parse(text)
}

/// Lowest rate of bits: a byte takes at most a second.
const LOWEST_BIT_RATE: u64 = 8;
/// Highest rate of bits.
const HIGHEST_BIT_RATE: u64 = 1_000_000_000_000;

/// Reads bits per second as scenario files write them, such as `10mbit`.
///
/// # Errors
/// Says what is wrong with the text.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    BitRate::parse(text).map(|rate| rate.0)
}

impl Quantity for BitRate {
    const FORM: Form = Form {
        format: "bit-rate",
        name: "a rate of bits",
        how: "written like `64kbit`, `10mbit` or `1gbit`",
        pattern: r"^\s*[0-9.]+\s*[kmg]?bit\s*$",
        check: |text| BitRate::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<BitRate, String> {
        let (number, unit) = split_number(text)?;
        let exponent = match unit.trim_end() {
            "bit" => 0,
            "kbit" => 3,
            "mbit" => 6,
            "gbit" => 9,
            _ => return Err("its unit is none of bit, kbit, mbit and gbit, as in 10mbit".to_owned()),
        };
        let rate = scaled(number, exponent)?;
        if !(LOWEST_BIT_RATE as f64..=HIGHEST_BIT_RATE as f64).contains(&rate) {
            let highest = HIGHEST_BIT_RATE / 1_000_000_000;
            return Err(format!("a rate is {LOWEST_BIT_RATE}bit at least and {highest}gbit at most"));
        }
        Ok(BitRate(rate as u64))
    }

    fn show(&self) -> String {
        format!("{}bit", self.0)
    }
}

impl Quantity for Nanos {
    const FORM: Form = Form {
        // The format `duration` of JSON Schema is that of ISO 8601.
        format: "time-span",
        name: "a duration",
        how: "written like `250ms`, `30s`, `5m` or `1h30m`",
        pattern: r"^(\s*0\s*|(\s*[0-9.]+\s*(ns|us|µs|ms|s|m|h|d))+\s*)$",
        check: |text| Nanos::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Nanos, String> {
        let mut total = 0.0;
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Nanos::ZERO);
        }
        loop {
            let (number, after) = split_number(rest)?;
            let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let Some((_, length)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(if unit.is_empty() {
                    "it has no unit".to_owned()
                } else {
                    format!("`{unit}` is no unit of time")
                });
            };
            total += scaled(number, 0)? * length;
            rest = after.trim_start();
            if rest.is_empty() {
                break;
            }
        }
        if total > LONGEST {
            return Err("it is longer than a year".to_owned());
        }
        Ok(Nanos(total.round() as i64))
    }

    fn show(&self) -> String {
        let units =
            [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];
        let fitting = units.into_iter().chain([("us", 1_000)]).find(|(_, length)| self.0 % length == 0);
        match fitting {
            _ if self.0 == 0 => "0s".to_owned(),
            Some((unit, length)) => format!("{}{unit}", self.0 / length),
            None => format!("{}ns", self.0),
        }
    }
}

impl Quantity for Rate {
    const FORM: Form = Form {
        format: "rate",
        name: "a rate",
        how: "written like `100`, `100/s` or `1.5k/s`",
        pattern: r"^\s*[0-9.]+\s*[kM]?\s*((msg)?/s)?\s*$",
        check: |text| Rate::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Rate, String> {
        let (number, rest) = split_number(text)?;
        // `msg/s` is how results are printed.
        let unit = rest.strip_suffix("msg/s").or(rest.strip_suffix("/s")).unwrap_or(rest).trim_end();
        let exponent = match unit {
            "" => 0,
            "k" => 3,
            "M" => 6,
            _ => return Err(format!("`{rest}` is neither `/s` nor `k/s` nor `M/s`")),
        };
        scaled(number, exponent).map(Rate)
    }

    fn show(&self) -> String {
        format!("{}/s", self.0)
    }
}

impl Quantity for Share {
    const FORM: Form = Form {
        format: "share",
        name: "a share",
        how: "written like `5 %` or `0.05`",
        pattern: r"^\s*[0-9.]+\s*%?\s*$",
        check: |text| Share::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Share, String> {
        let (number, unit) = split_number(text)?;
        let share = match unit {
            "" => scaled(number, 0)?,
            "%" => scaled(number, -2)?,
            _ => return Err(format!("`{unit}` is not %")),
        };
        if share > 1.0 {
            return Err("it is more than 100 %".to_owned());
        }
        Ok(Share(share))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Whole bytes, by the units that are allowed.
fn whole_bytes(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let (number, unit) = split_number(text)?;
    let factor = match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => factor,
        None if unit.is_empty() => &1.0,
        None => {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            return Err(format!("`{unit}` is not one of {}", names.join(", ")));
        }
    };
    let bytes = scaled(number, 0)? * factor;
    if bytes.fract() == 0.0 { Ok(bytes) } else { Err("it is not a whole number of bytes".to_owned()) }
}

impl Quantity for Memory {
    const FORM: Form = Form {
        format: "memory",
        name: "a size of memory",
        how: "written like `256 MiB` or `2 GiB`",
        pattern: r"^\s*[0-9.]+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?\s*$",
        check: |text| Memory::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Memory, String> {
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        let bytes = whole_bytes(text, &[SMALL, &[("GB", 1e9), ("GiB", GIB)]].concat())?;
        if bytes > MOST_MEMORY {
            return Err("it is larger than 1 PiB".to_owned());
        }
        Ok(Memory(bytes as u64))
    }

    fn show(&self) -> String {
        format!("{} B", self.0)
    }
}

impl Quantity for Size {
    const FORM: Form = Form {
        format: "size",
        name: "a size",
        how: "written like `64`, `64 B`, `1 KiB` or `1 MB`",
        pattern: r"^\s*[0-9.]+\s*(B|kB|KB|MB|KiB|MiB)?\s*$",
        check: |text| Size::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Size, String> {
        let bytes = whole_bytes(text, SMALL)?;
        if bytes > f64::from(u32::MAX) {
            return Err("it is larger than 4 GiB".to_owned());
        }
        Ok(Size(bytes as u32))
    }

    fn show(&self) -> String {
        format!("{} B", self.0)
    }
}

impl Quantity for Endpoint {
    const FORM: Form = Form {
        format: "mqtt-address",
        name: "an address",
        how: "written like `mqtt://host:1883`, `mqtts://host:8883` over TLS, or `ws://host/mqtt` and `wss://host/mqtt` over \
              WebSocket, `http://host/path`, `https://host/path`, `coap://host/path` or `coaps://host/path`, and `coap+tcp://host/path` or \
              `coaps+tcp://host/path` over TCP; `nats://host:4222` (`tls://` over TLS), `amqp://host:5672`, `amqp1://host:5672` (1.0) and `kafka://host:9092` are brokers, \
              `gateway://host:port` is where a gateway finds its devices",
        pattern: r"^\s*(mqtts?|wss?|https?|coaps?(\+tcp)?|nats|tls|amqps?1?|kafkas?|gateway)://[^\s#]+\s*$",
        check: |text| Endpoint::parse(text).map(drop),
    };

    fn parse(text: &str) -> Result<Endpoint, String> {
        let text = text.trim();
        let Some((scheme, rest)) = SCHEMES.iter().find_map(|scheme| {
            let rest = text.strip_prefix(scheme.name)?.strip_prefix("://")?;
            Some((scheme, rest))
        }) else {
            let names: Vec<String> = SCHEMES.iter().map(|scheme| format!("`{}://`", scheme.name)).collect();
            let (last, others) =
                names.split_last().map_or((String::new(), &[][..]), |(last, others)| (last.clone(), others));
            return Err(format!("it begins with none of {} and {last}", others.join(", ")));
        };
        let Scheme { protocol, wire, has_path, .. } = *scheme;
        let (rest, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !has_path && !matches!(path, "" | "/") {
            let meant = match protocol {
                Protocol::Amqp => "a virtual host at `amqp.virtual_host`",
                Protocol::Kafka => "a topic at `kafka.topic`",
                _ => "a topic at `message.target`",
            };
            let path = without_query(path);
            return Err(format!("`{path}` after the host means nothing to {protocol}; write {meant}"));
        }
        let unfit = |c: char| !c.is_ascii_graphic() || c == '#';
        if path.contains(unfit) {
            return Err(format!("`{}` is no path of a request", without_query(path)));
        }
        let path = if wire.websocket && path.is_empty() { "/" } else { path };
        if rest.contains('@') {
            return Err(match protocol.has_topics() {
                true => format!("a user name does not belong here but in `{}.username`", protocol.key()),
                false => "a user name does not belong here".to_owned(),
            });
        }
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, after)) => (host, after),
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/?#[]".contains(c);
        if host.is_empty() || host.contains(forbidden) {
            return Err("the host is missing or malformed".to_owned());
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => scheme.port,
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(format!("`{}` is not a port from 1 to 65535", without_query(digits))),
            },
            None => return Err(format!("`{}` after the host is not a port", without_query(port))),
        };
        let path = if has_path { path.to_owned() } else { String::new() };
        Ok(Endpoint { protocol, wire, host: host.to_owned(), port, path })
    }

    fn show(&self) -> String {
        let (scheme, path) = (Scheme::of(self.protocol, self.wire).name, &self.path);
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}{path}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}{path}", self.host, self.port)
        }
    }
}

/// What stands before a query, which may hold a secret.
fn without_query(text: &str) -> &str {
    text.split('?').next().unwrap_or_default()
}

/// A comparison and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Condition {
    pub comparison: Comparison,
    /// Seconds, a fraction of 1, or operations per second.
    pub bound: f64,
}

fn split_condition(text: &str) -> Result<(Comparison, &str), String> {
    let all = [Comparison::AtMost, Comparison::AtLeast, Comparison::Below, Comparison::Above];
    all.into_iter()
        .find_map(|comparison| {
            Some((comparison, text.trim().strip_prefix(comparison.symbol())?.trim_start()))
        })
        .ok_or_else(|| "it does not begin with <, <=, > or >=".to_owned())
}

/// Reads `>= 99.9 %` or `>= 0.999`. More is better, so only `>` and `>=` make sense.
pub(crate) fn ratio_condition(text: &str) -> Result<Condition, String> {
    let (comparison, ratio) = split_condition(text)?;
    if !matches!(comparison, Comparison::Above | Comparison::AtLeast) {
        return Err("more is better here: use > or >=".to_owned());
    }
    Ok(Condition { comparison, bound: Share::parse(ratio)?.0 })
}

/// Reads `< 50 ms`. Less is better, so only `<` and `<=` make sense.
pub(crate) fn time_condition(text: &str) -> Result<Condition, String> {
    let (comparison, time) = split_condition(text)?;
    if !matches!(comparison, Comparison::Below | Comparison::AtMost) {
        return Err("less is better here: use < or <=".to_owned());
    }
    let bound = Nanos::parse(time)?.as_secs_f64();
    if bound == 0.0 {
        return Err("no time is below zero".to_owned());
    }
    Ok(Condition { comparison, bound })
}

/// Reads `>= 1000` or `>= 1k/s`.
pub(crate) fn rate_condition(text: &str) -> Result<Condition, String> {
    let (comparison, rate) = split_condition(text)?;
    if comparison != Comparison::AtLeast {
        return Err("only >= is possible here".to_owned());
    }
    Ok(Condition { comparison, bound: Rate::parse(rate)?.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Wire;
    use proptest::prelude::*;

    #[test]
    fn rates_of_bits_have_a_unit() {
        assert_eq!(bit_rate("10mbit"), Ok(10_000_000));
        assert_eq!(bit_rate("1.5 kbit"), Ok(1500));
        assert_eq!(BitRate(1500).show(), "1500bit");
        for wrong in ["10", "mbit", "10mb", "-1mbit", "nanbit", "infbit", "0bit", "1001gbit", "1é", ""] {
            assert!(bit_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, nanos) in [
            ("30s", 30_000_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("250ms", 250_000_000),
            ("100us", 100_000),
            ("100 µs", 100_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(Nanos::parse(text), Ok(Nanos(nanos)), "{text}");
        }
        for (text, reason) in [
            ("30", "no unit"),
            ("30x", "`x` is no unit"),
            ("-1s", "negative"),
            ("s", "number"),
            ("", "number"),
            ("1..2s", "number"),
            ("400d", "longer than a year"),
        ] {
            assert!(Nanos::parse(text).unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn rates_and_sizes_are_read_with_their_units() {
        for (text, rate) in [
            ("100", 100.0),
            ("100/s", 100.0),
            ("1.5k/s", 1500.0),
            ("2 M", 2e6),
            ("3 msg/s", 3.0),
            ("0.5 /s", 0.5),
        ] {
            assert_eq!(Rate::parse(text), Ok(Rate(rate)), "{text}");
        }
        for text in ["100/m", "-5", "NaN", "inf", "", "1e3", ".", "1.5K/s"] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
        for (text, size) in [("64", 64), ("64 B", 64), ("1 KiB", 1024), ("1 MB", 1_000_000), ("1.5KiB", 1536)]
        {
            assert_eq!(Size::parse(text), Ok(Size(size)), "{text}");
        }
        for text in ["1.5", "1 GB", "5 MiBs", "8000 MiB", "-1"] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_percentage_becomes_the_nearest_double_so_that_999_of_1000_is_enough() {
        let condition = ratio_condition(">= 99.9 %").unwrap();
        assert_eq!(condition, Condition { comparison: Comparison::AtLeast, bound: 0.999 });
        assert!(999.0 / 1000.0 >= condition.bound);
        assert_eq!(ratio_condition("> 0.5").unwrap().bound, 0.5);
        for text in ["99 %", ">= 101 %", "<= 5 %", "= 5 %", ">= 99.9", ">= 5 ms"] {
            assert!(ratio_condition(text).is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_on_times_and_rates_are_read() {
        let condition = time_condition("<50ms").unwrap();
        assert_eq!(condition, Condition { comparison: Comparison::Below, bound: 0.05 });
        assert_eq!(time_condition("<= 1 s").unwrap().comparison, Comparison::AtMost);
        assert!(time_condition("> 1 s").is_err() && time_condition("< 0s").is_err());
        assert_eq!(rate_condition(">= 1.5k/s").unwrap().bound, 1500.0);
        assert!(rate_condition("> 5").is_err());
    }

    #[test]
    fn addresses_are_read_with_and_without_port() {
        let endpoint = |host: &str, port| {
            let wire = Wire { tls: false, websocket: false };
            Ok(Endpoint { protocol: Protocol::Mqtt, wire, host: host.into(), port, path: String::new() })
        };
        assert_eq!(Endpoint::parse("mqtt://localhost:1884"), endpoint("localhost", 1884));
        assert_eq!(Endpoint::parse("mqtt://10.0.0.1"), endpoint("10.0.0.1", 1883));
        assert_eq!(Endpoint::parse("mqtt://[::1]:1/"), endpoint("::1", 1));
        for (text, shown) in [
            ("mqtts://a", "mqtts://a:8883"),
            ("ws://a", "ws://a:80/"),
            ("wss://[::1]/mqtt?x=1", "wss://[::1]:443/mqtt?x=1"),
            ("coap://a", "coap://a:5683"),
            ("coaps://a/in", "coaps://a:5684/in"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().show(), shown);
            assert_eq!(Endpoint::parse(shown), Endpoint::parse(text));
        }
        for text in [
            "localhost:1883",
            "ftp://a",
            "mqtts://a/mqtt",
            "ws://a/m q",
            "mqtt://",
            "mqtt://a:0",
            "mqtt://a:99999",
            "mqtt://u@a",
            "mqtt://[::1",
        ] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_stands_behind_a_host_without_paths_has_a_key_of_its_own() {
        for (text, key) in [
            ("amqp://a/plant", "`amqp.virtual_host`"),
            ("kafkas://a/telemetry", "`kafka.topic`"),
            ("nats://a/city", "`message.target`"),
        ] {
            let reason = Endpoint::parse(text).unwrap_err();
            assert!(reason.contains("after the host means nothing to") && reason.contains(key), "{reason}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_form_panic(text in "[<>=]{0,2} ?[-0-9.]{0,30} ?\\PC{0,6}") {
            for form in &FORMS {
                let _ = (form.check)(&text);
            }
        }

        #[test]
        fn what_is_shown_reads_back_the_same(nanos in 0i64..1_000_000_000_000_000, rate in 0.0f64..1e7, size: u32) {
            prop_assert_eq!(Nanos::parse(&Nanos(nanos).show()), Ok(Nanos(nanos)));
            prop_assert_eq!(Rate::parse(&Rate(rate).show()), Ok(Rate(rate)));
            prop_assert_eq!(Size::parse(&Size(size).show()), Ok(Size(size)));
            prop_assert_eq!(Share::parse(&Share(rate / 1e7).show()), Ok(Share(rate / 1e7)));
        }
    }
}
