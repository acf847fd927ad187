//! Relays before components of the platform.

use crate::quantity::Quantity;
use plimsoll_model::Nanos;

/// Longest delay and longest jitter of a relay.
pub const LONGEST_RELAY_DELAY: Nanos = Nanos::from_secs(60);
/// Shortest time from one fault of a relay to the next.
pub const SHORTEST_RELAY_PERIOD: Nanos = Nanos::from_millis(1);

/// A relay before a component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelayPlan {
    /// The component.
    pub component: String,
    /// How long everything takes, each way.
    pub delay: Nanos,
    /// How much longer it takes at most.
    pub jitter: Nanos,
    /// Bits a second of each way; `None` for any number.
    pub rate: Option<u64>,
    /// Share of the packets that get lost.
    pub loss: f64,
    /// From one cut to the next, and how long each lasts.
    pub cut: Option<(Nanos, Nanos)>,
    /// From one moment to the next at which all connections become half-open.
    pub half_open: Option<Nanos>,
}

impl RelayPlan {
    /// Its options for people.
    pub fn in_words(&self) -> String {
        let options = self.options().join(" ");
        if options.is_empty() { "no fault".to_owned() } else { options }
    }

    /// The options of `plimsoll target relay`.
    pub fn options(&self) -> Vec<String> {
        let time = |time: Nanos| time.show();
        let (cut, rate) = (self.cut, self.rate);
        let options = [
            ("--delay", Some(time(self.delay)).filter(|_| self.delay > Nanos::ZERO)),
            ("--jitter", Some(time(self.jitter)).filter(|_| self.jitter > Nanos::ZERO)),
            ("--rate", rate.map(|bits| format!("{bits}bit"))),
            ("--loss", Some(self.loss.to_string()).filter(|_| self.loss > 0.0)),
            ("--cut", cut.map(|(every, length)| format!("{}:{}", time(every), time(length)))),
            ("--half-open", self.half_open.map(time)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }
}
