//! A platform that is only simulated, with known truth: for tests of what Plimsoll concludes, and hidden from lists.

use crate::quantity::{AsText, Memory, Share};
use plimsoll_model::Nanos;
use plimsoll_simulate::{Fault, FaultKind, GeneratorSpec, NetworkSpec, Spec, StationSpec};
use plimsoll_stats::queue::ServiceTime;
use serde::Deserialize;
use std::num::NonZeroUsize;

/// A simulated platform: stations in a row, the network before them, the generator's host, and what goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    /// The components in the order in which messages pass them.
    #[cfg_attr(test, schemars(length(min = 1)))]
    stations: Vec<Station>,
    /// The station that acknowledges messages. Default the first.
    #[serde(default)]
    acknowledged_by: Option<String>,
    /// Processors on which all stations work, but for those that are `sharing`. Default one for each worker.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    processors: Option<NonZeroUsize>,
    /// The way between generator and platform.
    #[serde(default)]
    network: Network,
    /// Processor time that the generator needs for each message sent and each event read. Default 5us.
    #[serde(default)]
    generator_cost: Option<AsText<Nanos>>,
    /// What goes wrong, and when.
    #[serde(default)]
    faults: Vec<FaultConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Station {
    /// Its name in reports.
    name: String,
    /// Messages served side by side. Default 1.
    #[serde(default = "one")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    workers: usize,
    /// Mean of the service time.
    service: AsText<Nanos>,
    /// How service times vary. Default exponential.
    #[serde(default)]
    law: Law,
    /// Share of the service time that needs a processor. Default 1.
    #[serde(default)]
    processor: Option<AsText<Share>>,
    /// Share of the service time under a lock of all workers. Default 0.
    #[serde(default)]
    lock: Option<AsText<Share>>,
    /// Name of that lock, where several stations have it: equal names are one lock. Default its own.
    #[serde(default)]
    shared_lock: Option<String>,
    /// Share of a processor that it may use. Default all.
    #[serde(default)]
    quota: Option<AsText<Share>>,
    /// Whether all messages share one worker at once. Default no.
    #[serde(default)]
    sharing: bool,
    /// Messages that may wait. Default any number.
    #[serde(default)]
    limit: Option<usize>,
    /// Messages that it may have at the next station, or on the way there, at once. Default any number.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pool: Option<NonZeroUsize>,
    /// Whether a relay stands before it, in which an experiment can delay what passes it. Default no.
    #[serde(default)]
    relay: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Law {
    /// Always equally long.
    Deterministic,
    /// Exponential.
    #[default]
    Exponential,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Network {
    /// A packet there and one back. Default 200us.
    #[serde(default)]
    round_trip: Option<AsText<Nanos>>,
    /// Mean of what each way takes longer at random. Default 20us.
    #[serde(default)]
    jitter: Option<AsText<Nanos>>,
    /// Whether the platform is on the generator's own host. Default no.
    #[serde(default)]
    local: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct FaultConfig {
    /// What goes wrong.
    kind: Kind,
    /// The station that has the fault. Default all, where a station is meant at all.
    #[serde(default)]
    station: Option<String>,
    /// When it begins, from the beginning of the run. Default at once.
    #[serde(default)]
    at: Option<AsText<Nanos>>,
    /// How long it lasts. Default for ever.
    #[serde(default, rename = "for")]
    lasts: Option<AsText<Nanos>>,
    /// Of what is starved, stolen or lost: the share.
    #[serde(default)]
    share: Option<AsText<Share>>,
    /// Of what is slower: so many times.
    #[serde(default)]
    times: Option<f64>,
    /// Of a leak: memory that it loses in a minute.
    #[serde(default)]
    a_minute: Option<AsText<Memory>>,
    /// Of a delay: by so much, each way.
    #[serde(default)]
    by: Option<AsText<Nanos>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Kind {
    Pause,
    Starve,
    Slow,
    WarmUp,
    Leak,
    Lose,
    LoseAcknowledgements,
    Die,
    StarveGenerator,
    StealGenerator,
    PauseGenerator,
    NetworkDelay,
    NetworkLoss,
}

fn one() -> usize {
    1
}

impl Simulated {
    /// What is simulated.
    ///
    /// # Errors
    /// Two stations have one name, or one has none, a station is named that is not there, or a fault lacks what it needs; for people.
    pub fn spec(&self) -> Result<Spec, String> {
        for (place, Station { name, .. }) in self.stations.iter().enumerate() {
            if name.trim().is_empty() || name.contains(char::is_control) {
                return Err(format!("station {} needs a name in one line", place + 1));
            }
            if self.stations.iter().take(place).any(|other| other.name == *name) {
                return Err(format!("two stations are called `{name}`"));
            }
        }
        let share = |written: &Option<AsText<Share>>| written.as_ref().map(|share| share.0.0);
        let position = |name: &String| {
            let found = self.stations.iter().position(|station| station.name == *name);
            found.ok_or_else(|| format!("there is no station `{name}`"))
        };
        // The first station that names a lock gives it its number.
        let lock = |name: &String| {
            self.stations.iter().position(|station| station.shared_lock.as_ref() == Some(name))
        };
        let time = |written: &Option<AsText<Nanos>>| written.as_ref().map(|time| time.0);
        let stations = self.stations.iter().map(|station| StationSpec {
            name: station.name.clone(),
            workers: station.workers,
            service: match station.law {
                Law::Deterministic => ServiceTime::Deterministic(station.service.0),
                Law::Exponential => ServiceTime::Exponential(station.service.0),
            },
            processor: share(&station.processor).unwrap_or(1.0),
            lock: share(&station.lock).unwrap_or(0.0),
            shared_lock: station.shared_lock.as_ref().and_then(lock),
            quota: share(&station.quota).filter(|quota| *quota > 0.0),
            sharing: station.sharing,
            limit: station.limit,
            pool: station.pool.map(NonZeroUsize::get),
            relay: station.relay,
        });
        let fault = |written: &FaultConfig| {
            let station = written.station.as_ref().map(position).transpose()?;
            let missing = |what: &str| format!("a fault of kind {:?} needs `{what}`", written.kind);
            let share = || share(&written.share).ok_or_else(|| missing("share"));
            let times = || match written.times {
                Some(times) if times > 0.0 => Ok(times),
                Some(times) => Err(format!("`times` of a fault is above zero, not {times}")),
                None => Err(missing("times")),
            };
            // Who gets no processor at all comes to no end: `pause` stands for that.
            let taken = || match share()? {
                share if share < 1.0 => Ok(share),
                _ => Err(format!(
                    "a fault of kind {:?} leaves some of the processor: less than 100 %",
                    written.kind
                )),
            };
            let from = time(&written.at).unwrap_or(Nanos::ZERO);
            Ok::<Fault, String>(Fault {
                kind: match written.kind {
                    Kind::Pause => FaultKind::Pause(station),
                    Kind::Starve => FaultKind::Starve(station, taken()?),
                    Kind::Slow => FaultKind::Slow(station, times()?),
                    Kind::WarmUp => FaultKind::WarmUp(station, times()?),
                    Kind::Leak => {
                        let leaked = written.a_minute.as_ref().ok_or_else(|| missing("a_minute"))?;
                        FaultKind::Leak(station, leaked.0.0 as f64 / 60.0)
                    }
                    Kind::Lose => FaultKind::Lose(station, share()?),
                    Kind::LoseAcknowledgements => FaultKind::LoseAcknowledgements(share()?),
                    Kind::Die => FaultKind::Die(station.unwrap_or(0)),
                    Kind::StarveGenerator => FaultKind::StarveGenerator(taken()?),
                    Kind::StealGenerator => FaultKind::StealGenerator(taken()?),
                    Kind::PauseGenerator => FaultKind::PauseGenerator,
                    Kind::NetworkDelay => {
                        FaultKind::NetworkDelay(time(&written.by).ok_or_else(|| missing("by"))?)
                    }
                    Kind::NetworkLoss => FaultKind::NetworkLoss(share()?),
                },
                from,
                to: time(&written.lasts).map_or(Nanos::MAX, |lasts| from + lasts),
            })
        };
        Ok(Spec {
            stations: stations.collect(),
            acknowledged_by: self.acknowledged_by.as_ref().map(position).transpose()?.unwrap_or(0),
            processors: self.processors.map(NonZeroUsize::get),
            network: NetworkSpec {
                round_trip: time(&self.network.round_trip).unwrap_or(Nanos::from_micros(200)),
                jitter: time(&self.network.jitter).unwrap_or(Nanos::from_micros(20)),
                local: self.network.local,
            },
            generator: GeneratorSpec { cost: time(&self.generator_cost).unwrap_or(Nanos::from_micros(5)) },
            faults: self.faults.iter().map(fault).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one_lock() {
        let text = r#"{ "processors": 2, "stations": [
            { "name": "a", "service": "1ms", "pool": 4 },
            { "name": "b", "service": "1ms", "shared_lock": "x" },
            { "name": "c", "service": "1ms", "shared_lock": "y" },
            { "name": "d", "service": "1ms", "shared_lock": "x" } ] }"#;
        let spec = serde_json::from_str::<Simulated>(text).unwrap().spec().unwrap();
        let locks: Vec<Option<usize>> = spec.stations.iter().map(|station| station.shared_lock).collect();
        assert_eq!(locks, [None, Some(1), Some(2), Some(1)]);
        assert_eq!((spec.processors, spec.stations[0].pool), (Some(2), Some(4)));
    }

    #[test]
    fn each_station_has_a_name_of_its_own() {
        let of = |names: [&str; 2]| {
            let stations = names.map(|name| serde_json::json!({ "name": name, "service": "1ms" }));
            let written = serde_json::json!({ "stations": stations });
            serde_json::from_value::<Simulated>(written).unwrap().spec().map(|_| ())
        };
        assert_eq!(of(["a", "b"]), Ok(()));
        assert_eq!(of(["a", "a"]).unwrap_err(), "two stations are called `a`");
        for none in ["", " ", "b\nc"] {
            assert_eq!(of(["a", none]).unwrap_err(), "station 2 needs a name in one line");
        }
    }

    /// Without any processor, or with a time that runs backwards, a simulation comes to no end.
    #[test]
    fn a_fault_without_end_is_refused() {
        let spec = |fault: &str| {
            let text = format!(
                "{{ \"stations\": [{{ \"name\": \"a\", \"service\": \"1ms\" }}], \"faults\": [{fault}] }}"
            );
            serde_json::from_str::<Simulated>(&text).unwrap().spec().map(drop)
        };
        assert_eq!(spec(r#"{ "kind": "starve", "share": "99 %" }"#), Ok(()));
        assert_eq!(spec(r#"{ "kind": "slow", "times": 0.5 }"#), Ok(()));
        assert_eq!(spec(r#"{ "kind": "lose", "share": "100 %" }"#), Ok(()));
        for kind in ["starve", "starve_generator", "steal_generator"] {
            let found = spec(&format!(r#"{{ "kind": "{kind}", "share": "100 %" }}"#));
            assert!(found.is_err_and(|why| why.contains("less than 100 %")), "{kind}");
        }
        for times in ["0", "-5"] {
            let found = spec(&format!(r#"{{ "kind": "slow", "times": {times} }}"#));
            assert!(found.is_err_and(|why| why.contains("above zero")), "{times}");
        }
    }
}
