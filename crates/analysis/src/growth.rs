//! What grows through a long hold, as in a soak: memory, descriptors, threads, connections, times, losses. Each quantity is tested for a
//! slope. Over all quantities of a level together, the chance is at most 5 % that one is said to grow where none does (Bonferroni).

use crate::usage;
use plimsoll_model::record::{ComponentUsage, Gauge, LevelRecord, SampleRecord};
use plimsoll_model::{Metric, Nanos};
use plimsoll_stats::trend::{self, slope_interval_at};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Shorter holds have no room to tell growth from the end of a warm-up.
const LONG: Nanos = Nanos::from_secs(300);
/// The part of a hold that is left out at its beginning: heaps and caches are filled.
const SETTLING: f64 = 0.25;
/// Into so many equal parts the rest is divided at most, and at least. Of a stock the least value in each counts, which is what stays
/// when garbage was collected; of times and shares the mean.
const PARTS: usize = 20;
const FEWEST: usize = 16;
/// The chance that any quantity of a level is said to grow where none does.
const ALARMS: f64 = 0.05;
/// What fills up rises ever less: in its second half, what grows rises at least so much as over all.
const STEADY: f64 = 0.5;
/// Growth over the tested time that matters: of bytes, of what is counted, and of times and shares as a part of their mean.
const MATTERS: Matters = Matters { bytes: 256.0 * 1024.0, count: 2.0, part: 0.05 };

struct Matters {
    bytes: f64,
    count: f64,
    part: f64,
}

/// What grew in a long hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Soak {
    /// The level's number within the run.
    pub level: u16,
    /// Seconds of the hold that were tested: its beginning is left out.
    pub tested: f64,
    /// How many quantities were tested.
    pub quantities: usize,
    /// Those that grew, in the order of their names.
    pub grew: Vec<Growth>,
}

/// A quantity that grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Growth {
    /// Of what: a component, or `messages` for times and losses.
    pub subject: String,
    /// Which quantity.
    pub quantity: String,
    /// Its unit: `bytes`, `count`, `seconds` or `share` (of one).
    pub unit: String,
    /// Its mean in the tested time.
    pub mean: f64,
    /// How much it grew in a minute.
    pub a_minute: f64,
    /// At least so much, and at most; with the level of confidence that belongs to so many tests.
    pub interval: [f64; 2],
}

impl Growth {
    /// For people, such as `memory of broker grew by 98 KiB a minute (95 KiB to 101 KiB)`.
    pub fn in_words(&self) -> String {
        let shown = |value: f64| match self.unit.as_str() {
            "bytes" => bytes(value),
            "seconds" => Nanos::from_secs_f64(value).to_string(),
            "share" => format!("{:.2} %", value * 100.0),
            _ => format!("{value:.2}"),
        };
        let [lo, hi] = self.interval.map(shown);
        let (quantity, subject) = (&self.quantity, &self.subject);
        format!("{quantity} of {subject} grew by {} a minute ({lo} to {hi})", shown(self.a_minute))
    }
}

/// A size for people.
fn bytes(bytes: f64) -> String {
    let kibibytes = bytes / 1024.0;
    if kibibytes.abs() < 10_240.0 {
        format!("{kibibytes:.0} KiB")
    } else {
        format!("{:.1} MiB", kibibytes / 1024.0)
    }
}

/// What grew in each level with a hold of five minutes or more.
pub fn of(levels: &[LevelRecord], components: &[ComponentUsage], gauges: &[Gauge]) -> Vec<Soak> {
    // What grows with the load of a curve is no leak.
    let is_soak = |level: &&LevelRecord| {
        level.start.hold >= LONG && level.start.experiment.is_none() && level.start.curve.is_none()
    };
    levels.iter().filter(is_soak).filter_map(|level| soak(level, components, gauges)).collect()
}

/// For people, of all levels.
pub fn stories(soaks: &[Soak]) -> Vec<String> {
    let of = |soak: &Soak| {
        let minutes = soak.tested / 60.0;
        let tested = format!("{} quantities over the last {minutes:.0} minutes of the hold", soak.quantities);
        match soak.grew.as_slice() {
            [] => format!("a soak: none of {tested} grew"),
            grew => {
                let grew: Vec<String> = grew.iter().map(Growth::in_words).collect();
                format!("a soak: of {tested}, {} grew: {}", grew.len(), grew.join("; "))
            }
        }
    };
    soaks.iter().map(of).collect()
}

fn soak(level: &LevelRecord, components: &[ComponentUsage], gauges: &[Gauge]) -> Option<Soak> {
    // A level that was cut short ended before its hold did.
    let hold = usage::hold(&level.start);
    let end = level.end.as_ref().map_or(hold.end, |end| end.at.as_secs_f64().min(hold.end));
    let span = hold.start + (end - hold.start) * SETTLING..end;
    if span.end - span.start < LONG.as_secs_f64() * (1.0 - SETTLING) {
        return None;
    }
    let mut series = of_components(components);
    series.extend(of_gauges(gauges));
    series.extend(of_samples(level));
    let tested: Vec<(&Name, Tested)> = series
        .iter()
        .filter_map(|(name, values)| Some((name, Tested::of(values, &span, is_stock(name))?)))
        .collect();
    let confidence = 1.0 - ALARMS / tested.len().max(1) as f64;
    let grew = tested.iter().filter_map(|(name, tested)| tested.growth(name, &span, confidence));
    (!tested.is_empty()).then(|| Soak {
        level: level.start.index,
        tested: span.end - span.start,
        quantities: tested.len(),
        grew: grew.collect(),
    })
}

/// Subject, quantity and unit.
type Name = (String, String, &'static str);
/// Times in seconds on the run's clock, each with a value.
type Values = Vec<(f64, f64)>;

fn of_components(components: &[ComponentUsage]) -> BTreeMap<Name, Values> {
    let mut series: BTreeMap<Name, Values> = BTreeMap::new();
    for usage in components {
        let of = |quantity: &str, unit| (usage.component.clone(), quantity.to_owned(), unit);
        let at = usage.at.as_secs_f64();
        series.entry(of("memory", "bytes")).or_default().push((at, usage.rss as f64));
        if let Some(descriptors) = usage.descriptors {
            series.entry(of("descriptors", "count")).or_default().push((at, descriptors as f64));
        }
    }
    series
}

/// What the platform has, as far as it is counted or has a size. Rates are no stock that could run out.
fn of_gauges(gauges: &[Gauge]) -> BTreeMap<Name, Values> {
    let mut series: BTreeMap<Name, Values> = BTreeMap::new();
    for gauge in
        gauges.iter().filter(|gauge| gauge.subject != HOST && STOCKS.contains(&gauge.sampler.as_str()))
    {
        let unit = match gauge.unit.as_str() {
            "bytes" => "bytes",
            "count" => "count",
            _ => continue,
        };
        let name = (gauge.subject.clone(), gauge.quantity.clone(), unit);
        series.entry(name).or_default().push((gauge.at.as_secs_f64(), gauge.value));
    }
    series
}

/// The subject of what belongs to no component.
const HOST: &str = "host";
/// The samplers whose counts and sizes are stocks of a component, by their names in `plimsoll-observe`.
pub const STOCKS: [&str; 3] = ["process", "tcp", "cgroup"];

fn of_samples(level: &LevelRecord) -> BTreeMap<Name, Values> {
    let mut series: BTreeMap<Name, Values> = BTreeMap::new();
    let length = level.start.hold.as_secs_f64() / f64::from(level.start.samples.max(1));
    for (number, sample) in level.samples.iter().enumerate() {
        let Some(sample) = sample else { continue };
        let at = level.start.hold_start.as_secs_f64() + (number as f64 + 0.5) * length;
        for (quantity, unit, value) in [
            ("publish time (median)", "seconds", median(sample, Metric::PublishTime)),
            ("subscribe time (median)", "seconds", median(sample, Metric::SubscribeTime)),
            ("loss", "share", lost(sample)),
        ] {
            let name = ("messages".to_owned(), quantity.to_owned(), unit);
            series.entry(name).or_default().extend(value.map(|value| (at, value)));
        }
    }
    series
}

fn median(sample: &SampleRecord, metric: Metric) -> Option<f64> {
    sample.histograms.get(&metric)?.quantile(0.5).map(Nanos::as_secs_f64)
}

fn lost(SampleRecord { counts, .. }: &SampleRecord) -> Option<f64> {
    (counts.expected_deliveries > 0).then(|| counts.lost() as f64 / counts.expected_deliveries as f64)
}

fn is_stock((_, _, unit): &Name) -> bool {
    matches!(*unit, "bytes" | "count")
}

/// A quantity in equal parts of the tested time.
struct Tested {
    points: Values,
}

impl Tested {
    /// `None` where the quantity was not seen in each part.
    fn of(values: &Values, span: &Range<f64>, is_stock: bool) -> Option<Tested> {
        let values: Vec<&(f64, f64)> = values.iter().filter(|(at, _)| span.contains(at)).collect();
        // What is seen rarely, as by samples, has fewer parts.
        let parts = values.len().min(PARTS);
        let length = (span.end - span.start) / parts as f64;
        let mut seen: Vec<Values> = vec![Vec::new(); parts];
        for (at, value) in values {
            let place = ((at - span.start) / length) as usize;
            if let Some(part) = seen.get_mut(place) {
                part.push((*at, *value));
            }
        }
        let least = |part: &Values| part.iter().copied().min_by(|(_, one), (_, other)| one.total_cmp(other));
        let mean = |part: &Values| {
            let count = part.len() as f64;
            let sum = |of: fn(&(f64, f64)) -> f64| part.iter().map(of).sum::<f64>() / count;
            (count > 0.0).then(|| (sum(|(at, _)| *at), sum(|(_, value)| *value)))
        };
        let points: Option<Values> =
            seen.iter().map(|part| if is_stock { least(part) } else { mean(part) }).collect();
        points.filter(|points| points.len() >= FEWEST).map(|points| Tested { points })
    }

    /// Whether it surely rises over all, rises on in the second half, and has risen by what matters.
    fn growth(&self, (subject, quantity, unit): &Name, span: &Range<f64>, confidence: f64) -> Option<Growth> {
        let whole = slope_interval_at(&self.points, confidence).filter(|interval| interval.lo > 0.0)?;
        let slope = f64::midpoint(whole.lo, whole.hi);
        let (_, second) = self.points.split_at(self.points.len() / 2);
        let late = trend::slope(second)?;
        let mean = self.points.iter().map(|(_, value)| value).sum::<f64>() / self.points.len() as f64;
        let least = match *unit {
            "bytes" => MATTERS.bytes,
            "count" => MATTERS.count,
            _ => mean * MATTERS.part,
        };
        let is_steady = late >= slope * STEADY;
        let matters = slope * (span.end - span.start) >= least;
        (is_steady && matters).then(|| Growth {
            subject: subject.clone(),
            quantity: quantity.clone(),
            unit: (*unit).to_owned(),
            mean,
            a_minute: slope * 60.0,
            interval: [whole.lo * 60.0, whole.hi * 60.0],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::LevelStart;

    fn level(minutes: i64) -> LevelRecord {
        let start = LevelStart {
            hold_start: Nanos::from_secs(60),
            hold: Nanos::from_secs(60 * minutes),
            samples: 30,
            ..LevelStart::default()
        };
        LevelRecord { start, ..LevelRecord::default() }
    }

    /// A component whose memory is such a function of the seconds of the run, read each second.
    fn broker(memory: impl Fn(f64) -> f64) -> Vec<ComponentUsage> {
        let usage = |second: i64| ComponentUsage {
            component: "broker".into(),
            at: Nanos::from_secs(second),
            window: Nanos::from_secs(1),
            rss: memory(second as f64) as u64,
            descriptors: Some(20),
            ..ComponentUsage::default()
        };
        (0..1200).map(usage).collect()
    }

    fn grown(memory: impl Fn(f64) -> f64) -> Vec<Growth> {
        let mut found = of(&[level(15)], &broker(memory), &[]);
        assert_eq!((found.len(), found[0].quantities), (1, 2), "{found:?}");
        found.remove(0).grew
    }

    const MEBIBYTE: f64 = 1_048_576.0;

    #[test]
    fn a_leak_is_found_with_its_rate() {
        let wave = |second: f64| (second * 0.7).sin() * 0.2 * MEBIBYTE;
        let leak = 100.0 * 1024.0 / 60.0;
        let found = grown(|second| 50.0 * MEBIBYTE + wave(second) + leak * second);
        let [growth] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((growth.subject.as_str(), growth.quantity.as_str()), ("broker", "memory"));
        assert!(growth.interval[0] <= 102_400.0 && 102_400.0 <= growth.interval[1], "{growth:?}");
        assert!(growth.in_words().starts_with("memory of broker grew by 1"), "{}", growth.in_words());
    }

    #[test]
    fn what_fills_up_stays_or_comes_and_goes_does_not_grow() {
        let base = 50.0 * MEBIBYTE;
        assert_eq!(grown(|_| base), []);
        assert_eq!(grown(|second| base + 30.0 * MEBIBYTE * (1.0 - (-second / 60.0).exp())), []);
        assert_eq!(grown(|second| base + 8.0 * MEBIBYTE * (second / 173.0).fract()), []);
        // A single step, as of a table that was doubled once.
        assert_eq!(grown(|second| if second < 500.0 { base } else { base + 4.0 * MEBIBYTE }), []);
        // So little that nobody minds.
        assert_eq!(grown(|second| base + 200.0 * second), []);
    }

    #[test]
    fn short_holds_and_gaps_say_nothing() {
        assert_eq!(of(&[level(4)], &broker(|second| 1e6 * second), &[]), []);
        assert_eq!(of(&[level(15)], &broker(|second| 1e6 * second)[..400], &[]), []);
    }

    #[test]
    fn stocks_of_components_are_tested_and_rates_are_not() {
        let gauge = |quantity: &str, unit: &str, subject: &str| {
            let (quantity, unit, subject) = (quantity.to_owned(), unit.to_owned(), subject.to_owned());
            (0..1000).map(move |second| Gauge {
                at: Nanos::from_secs(second),
                sampler: "process".into(),
                subject: subject.clone(),
                quantity: quantity.clone(),
                unit: unit.clone(),
                value: second as f64,
            })
        };
        let gauges: Vec<Gauge> = gauge("threads", "count", "broker")
            .chain(gauge("disk read", "bytes/s", "broker"))
            .chain(gauge("threads", "count", "host"))
            .collect();
        let found = of(&[level(15)], &[], &gauges);
        assert_eq!((found[0].quantities, found[0].grew.len()), (1, 1), "{found:?}");
        assert!(stories(&found)[0].contains("1 grew: threads of broker grew by 60.00 a minute"), "{found:?}");
    }
}
