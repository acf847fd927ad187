//! What a gateway is: the eight properties of the abstract gateway and what else decides about its speed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How events are propagated, by the dispatcher or by the event handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// One after the other.
    Serial,
    /// In threads that the kernel interleaves.
    Preemptive,
    /// In state machines that give way to each other on one event loop.
    Cooperative,
}

impl Model {
    /// All, in the order of reports.
    pub const ALL: [Model; 3] = [Model::Serial, Model::Preemptive, Model::Cooperative];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Serial => "serial",
            Model::Preemptive => "preemptive",
            Model::Cooperative => "cooperative",
        }
    }
}

/// Which event loop is under the cooperative models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reactor {
    /// libuv, found when the gateway starts.
    #[default]
    Libuv,
    /// Our own on epoll, with threads for files.
    Epoll,
}

impl Reactor {
    /// All.
    pub const ALL: [Reactor; 2] = [Reactor::Libuv, Reactor::Epoll];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Reactor::Libuv => "libuv",
            Reactor::Epoll => "epoll",
        }
    }
}

/// When the I/O work of an event may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// When its CPU work is done, of which it needs the result.
    #[default]
    After,
    /// At once: neither needs the other.
    Beside,
}

impl Order {
    /// All.
    pub const ALL: [Order; 2] = [Order::After, Order::Beside];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Order::After => "after",
            Order::Beside => "beside",
        }
    }
}

/// How the work of one event differs from that of another; the mean is the intensity, which one event may exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Not at all.
    #[default]
    Constant,
    /// Evenly from nothing to twice the mean.
    Uniform,
    /// Exponentially, up to 16 times the mean: most events are light, few are heavy.
    Exponential,
}

impl Spread {
    /// All.
    pub const ALL: [Spread; 3] = [Spread::Constant, Spread::Uniform, Spread::Exponential];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Spread::Constant => "constant",
            Spread::Uniform => "uniform",
            Spread::Exponential => "exponential",
        }
    }
}

/// What devices speak that send their events of their own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushProtocol {
    /// Calls of JSON objects over TCP.
    Tcp,
    /// HTTP/1.1.
    Http,
    /// MQTT 3.1.1.
    Mqtt,
}

impl PushProtocol {
    /// All.
    pub const ALL: [PushProtocol; 3] = [PushProtocol::Tcp, PushProtocol::Http, PushProtocol::Mqtt];

    /// As on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            PushProtocol::Tcp => "tcp",
            PushProtocol::Http => "http",
            PushProtocol::Mqtt => "mqtt",
        }
    }
}

/// A name that is none of those that there are.
#[derive(Debug, thiserror::Error)]
#[error("`{given}` is none of {known}")]
pub struct Unknown {
    given: String,
    known: String,
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $kind {
            type Err = Unknown;

            fn from_str(text: &str) -> Result<Self, Unknown> {
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| Unknown {
                    given: text.to_owned(),
                    known: Self::ALL.map(Self::name).join(", "),
                })
            }
        }
    )*};
}

named!(Model, Reactor, Order, Spread, PushProtocol);

/// What manager and gateway must agree on before a test, under the names of work E where it has them. What a gateway of somebody
/// else does not send is not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub struct Configuration {
    /// How the dispatcher gets at events.
    pub dispatcher: Model,
    /// How they are handled.
    pub event_handler: Model,
    /// The n-th prime is calculated for each event, n being this times 2^12, rounded down; from 0 to 1, of a spread the mean.
    pub cpu_intensity: f64,
    /// This times 2^28 bytes, rounded down, are written to a file for each event; from 0 to 1, of a spread the mean.
    pub io_intensity: f64,
    /// Threads of the preemptive handler, and of the cooperative one for files.
    pub pool_size: usize,
    /// Processors that the gateway may use; 0 for all.
    pub cores: usize,
    /// How the CPU work of one event differs from that of another.
    #[serde(default)]
    pub cpu_spread: Spread,
    /// The same of the I/O work.
    #[serde(default)]
    pub io_spread: Spread,
    /// When the I/O work begins.
    #[serde(default)]
    pub io_order: Order,
    /// The event loop of the cooperative models.
    #[serde(default)]
    pub event_loop: Reactor,
    /// Devices that are connected at once; 0 for all. With fewer than there are, they take turns.
    #[serde(default)]
    pub sockets: usize,
}

/// A value outside what it may be.
#[derive(Debug, thiserror::Error)]
#[error("{name} is {given}: it must be {range}")]
pub struct OutOfRange {
    name: &'static str,
    given: String,
    range: &'static str,
}

impl Configuration {
    /// From the words that a scenario has for it, by its keys; `None` where one is missing or is none of its values.
    pub fn of_words(words: &BTreeMap<String, String>) -> Option<Configuration> {
        let value =
            |word: &String| word.parse::<Number>().map_or_else(|_| word.as_str().into(), Value::Number);
        let values: Map<String, Value> = words.iter().map(|(key, word)| (key.clone(), value(word))).collect();
        serde_json::from_value(Value::Object(values)).ok()
    }

    /// Checks the ranges.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (name, given) in [("CPU_INTENSITY", self.cpu_intensity), ("IO_INTENSITY", self.io_intensity)] {
            if !(0.0..=1.0).contains(&given) {
                return Err(OutOfRange { name, given: given.to_string(), range: "from 0 to 1" });
            }
        }
        if !(1..=1024).contains(&self.pool_size) {
            let given = self.pool_size.to_string();
            return Err(OutOfRange { name: "POOL_SIZE", given, range: "from 1 to 1024" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for model in Model::ALL {
            assert_eq!(model.to_string().parse::<Model>().unwrap(), model);
        }
        assert_eq!(
            "both".parse::<Model>().unwrap_err().to_string(),
            "`both` is none of serial, preemptive, cooperative"
        );
    }

    fn words() -> BTreeMap<String, String> {
        let words = [
            ("DISPATCHER", "serial"),
            ("EVENT_HANDLER", "cooperative"),
            ("CPU_INTENSITY", "0.1"),
            ("IO_INTENSITY", "2e-4"),
            ("POOL_SIZE", "10"),
            ("CORES", "0"),
        ];
        words.into_iter().map(|(key, word)| (key.to_owned(), word.to_owned())).collect()
    }

    #[test]
    fn a_scenario_has_words_for_it() {
        let configuration = Configuration::of_words(&words()).unwrap();
        assert_eq!(
            (configuration.dispatcher, configuration.event_handler),
            (Model::Serial, Model::Cooperative)
        );
        assert_eq!((configuration.io_intensity, configuration.pool_size), (2e-4, 10));
        for (key, wrong) in [("POOL_SIZE", "ten"), ("DISPATCHER", "5"), ("CORES", "1.5")] {
            let mut words = words();
            words.insert(key.into(), wrong.into());
            assert_eq!(Configuration::of_words(&words), None, "{key}");
        }
        assert_eq!(Configuration::of_words(&BTreeMap::new()), None);
    }

    #[test]
    fn what_cannot_be_is_told() {
        let configuration = Configuration::of_words(&words()).unwrap();
        assert!(configuration.check().is_ok());
        let told = |wrong: Configuration| wrong.check().unwrap_err().to_string();
        assert_eq!(
            told(Configuration { cpu_intensity: 1.5, ..configuration.clone() }),
            "CPU_INTENSITY is 1.5: it must be from 0 to 1"
        );
        assert!(told(Configuration { io_intensity: f64::NAN, ..configuration.clone() }).contains("NaN"));
        assert!(told(Configuration { pool_size: 0, ..configuration }).starts_with("POOL_SIZE is 0"));
    }
}
