//! Arrivals at the times of a trace: a CSV file with a line for each message.

use crate::config::{Arrivals, Load, Per, TraceFile, WorkloadModel};
use crate::context::Context;
use crate::plan::ReceiversPlan;
use plimsoll_model::text::grouped;
use plimsoll_model::{ArrivalTrace, Nanos};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Most messages of a file.
const MOST_MESSAGES: usize = 1 << 22;
/// Most seconds that a file may have as a time: those since 1970 for some centuries.
const MOST_SECONDS: f64 = 9e9;
/// Populations that an error lists.
const LISTED: usize = 10;

const KEY: &str = "load.arrivals.trace";

/// The trace that a level plays, where there is one; `None` also where it is wrong, which is reported.
pub(super) fn resolve(load: &Load, devices: u32, context: &mut Context<'_>) -> Option<Arc<ArrivalTrace>> {
    let Some(Arrivals::Trace(written)) = &load.arrivals else { return None };
    if load.model == WorkloadModel::Closed {
        // Reported with the other keys of the open model.
        return None;
    }
    refuse_beside(load, context);
    let TraceFile { file, population } = written;
    let read = || {
        let text = (context.environment.profile)(file);
        let text = text.map_err(|reason| format!("cannot read the trace `{file}`: {reason}"))?;
        of_file(file, &text, population.as_deref()).map(Arc::new)
    };
    let name = format!("{file}\n{}", population.as_deref().unwrap_or_default());
    let trace = match context.parsed.traces.get(&name, read) {
        Ok(trace) => trace,
        Err(reason) => {
            let help =
                "the file is like this: a line `time,device`, then `0.25,7`; the device may be left out";
            context.error_with_help(&format!("{KEY}.file"), reason, help);
            return None;
        }
    };
    check_devices(&trace, devices, context);
    Some(trace)
}

/// Reports what says something else of arrivals, or of levels that a trace could not have.
fn refuse_beside(load: &Load, context: &mut Context<'_>) {
    let excluded = [
        ("per", load.per == Some(Per::Device)),
        ("curve", load.curve.is_some()),
        ("spike", load.spike.is_some()),
        ("messages", load.messages.is_some()),
        ("devices", load.devices.is_some()),
        ("connect_rates", load.connect_rates.is_some()),
        ("model", load.model == WorkloadModel::PartlyOpen),
    ];
    for (key, _) in excluded.into_iter().filter(|(_, is_there)| *is_there) {
        let message = match key {
            "model" => "a trace has the times of messages, and not those of sessions".to_owned(),
            key => format!("a trace and `{key}` exclude each other"),
        };
        let help = format!("remove `{key}`: a trace says when each message comes");
        context.error_with_help(&format!("load.{key}"), message, help);
    }
}

/// Each device of a trace has equally many devices of the population.
fn check_devices(trace: &ArrivalTrace, devices: u32, context: &mut Context<'_>) {
    let sends_nothing = context.part.is_some_and(|part| part.population.receivers == ReceiversPlan::OfOthers);
    let Some(own) = trace.devices().filter(|own| !sends_nothing && !devices.is_multiple_of(*own)) else {
        return;
    };
    let (own, devices) = (grouped(f64::from(own)), grouped(f64::from(devices)));
    let message = format!("the trace has {own} devices, and {devices} are not a multiple of that");
    let help = format!(
        "have {own} devices, or so many times as many; without its column `device`, devices of any number take turns"
    );
    context.error_with_help(KEY, message, help);
}

/// The messages of a population in a CSV file, or all of them; what is wrong has its file and line. The trace has the times and the
/// length of the whole file, so that populations of one file stay together.
fn of_file(file: &str, text: &str, population: Option<&str>) -> Result<ArrivalTrace, String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((number, header)) = lines.next() else { return Err(format!("{file} has no lines")) };
    let columns: Vec<&str> = fields(header).collect();
    let place = |name: &str| columns.iter().position(|column| *column == name);
    let missing = |name: &str| format!("{file}, line {number}: there is no column `{name}`");
    let time = place("time").ok_or_else(|| missing("time"))?;
    let device = place("device");
    let of = population.map(|name| place("population").map(|place| (place, name)));
    let of = of.map(|place| place.ok_or_else(|| missing("population"))).transpose()?;
    let mut rows = Rows::default();
    let mut last_line: u64 = number;
    for (number, line) in lines {
        last_line = number;
        let wrong = |why: String| format!("{file}, line {number}: {why}");
        let field = |place: usize, name: &str| {
            fields(line).nth(place).ok_or_else(|| wrong(format!("there is no `{name}`")))
        };
        let at = field(time, "time")?;
        let at = seconds(at).map_err(|why| wrong(format!("`{at}` is no time: {why}")))?;
        rows.count(at).map_err(wrong)?;
        if let Some((place, wanted)) = of {
            let found = field(place, "population")?;
            if found != wanted {
                rows.pass_over(found);
                continue;
            }
        }
        let device = device.map(|place| field(place, "device")).transpose()?;
        rows.take(at, device);
    }
    rows.trace().map_err(|why| match why {
        Fault::Time(why) => format!("{file}, line {last_line}: {why}"),
        Fault::Nobody(others) => {
            let wanted = population.unwrap_or_default();
            format!("{file} has no messages of the population `{wanted}`; it has those of {others}")
        }
    })
}

/// What was read of a file.
#[derive(Default)]
struct Rows<'a> {
    /// Messages of all populations, and the first and last time.
    all: usize,
    span: Option<(Nanos, Nanos)>,
    times: Vec<Nanos>,
    devices: Vec<u32>,
    /// Devices in the order of their first messages.
    numbers: HashMap<&'a str, u32>,
    /// Populations that are not taken.
    others: BTreeSet<&'a str>,
}

/// What is wrong with the rows together.
enum Fault {
    Time(String),
    /// None is of the population; those that there are.
    Nobody(String),
}

impl<'a> Rows<'a> {
    /// Counts a message of any population.
    fn count(&mut self, at: Nanos) -> Result<(), String> {
        let (first, last) = self.span.unwrap_or((at, at));
        if at < last {
            return Err(format!("{} s is earlier than the message before it, {} s", shown(at), shown(last)));
        }
        self.all += 1;
        if self.all > MOST_MESSAGES {
            return Err(format!("a trace has {} messages at most", grouped(MOST_MESSAGES as f64)));
        }
        self.span = Some((first, at));
        Ok(())
    }

    /// Remembers a population that is not wanted.
    fn pass_over(&mut self, population: &'a str) {
        if self.others.len() <= LISTED {
            self.others.insert(population);
        }
    }

    /// Takes a message.
    fn take(&mut self, at: Nanos, device: Option<&'a str>) {
        self.times.push(at);
        if let Some(name) = device {
            let next = self.numbers.len() as u32;
            self.devices.push(*self.numbers.entry(name).or_insert(next));
        }
    }

    /// The trace, behind whose last message there is a mean gap before it begins again.
    fn trace(self) -> Result<ArrivalTrace, Fault> {
        let few = || Fault::Time("a trace has messages at two times at least".to_owned());
        let (first, last) = self.span.filter(|(first, last)| last > first).ok_or_else(few)?;
        if self.times.is_empty() {
            let others: Vec<String> =
                self.others.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
            let more = if self.others.len() > LISTED { " and others" } else { "" };
            return Err(Fault::Nobody(format!("{}{more}", others.join(", "))));
        }
        let too_long = || Fault::Time("a trace lasts for a year at most".to_owned());
        let length = ArrivalTrace::length_of(last - first, self.all).ok_or_else(too_long)?;
        let times = self.times.into_iter().map(|at| at - first).collect();
        ArrivalTrace::new(times, self.devices, length).ok_or_else(few)
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim())
}

/// Seconds to the nanosecond; a number with an exponent as exactly as a floating-point number is.
fn seconds(text: &str) -> Result<Nanos, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exact = whole.parse::<u32>().ok().filter(|_| are_digits(whole) && are_digits(fraction));
    if let Some(whole) = exact {
        let digits = fraction.bytes().map(|digit| i64::from(digit - b'0')).chain(std::iter::repeat(0));
        let nanos = digits.take(9).fold(0, |nanos, digit| 10 * nanos + digit);
        return Ok(Nanos::from_secs(whole.into()) + Nanos(nanos));
    }
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MOST_SECONDS).contains(&seconds) => Ok(Nanos::from_secs_f64(seconds)),
        _ => Err("it is no number of seconds from 0 to nine billion".to_owned()),
    }
}

/// Seconds for people.
fn shown(at: Nanos) -> String {
    at.as_secs_f64().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("0", 0),
            ("1.5", 1_500_000_000),
            ("1700000000.123456789", 1_700_000_000_123_456_789),
            ("2.0000000019", 2_000_000_001),
            ("3.", 3_000_000_000),
            (".25", 250_000_000),
            ("1.5e-3", 1_500_000),
        ] {
            assert_eq!(seconds(text), Ok(Nanos(nanos)), "{text}");
        }
        for wrong in ["", "-1", "-0.5", "NaN", "inf", "1e99", "+-1", "1,5", "12:30", "0x10", "9e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_times_and_perhaps_devices_and_populations() {
        let text = "# a morning\ntime , device, population\n10, b, meters\n\n10.5, x, valves\n\"12\",a,meters\n14,b,meters\n";
        let meters = of_file("t.csv", text, Some("meters")).unwrap();
        assert_eq!(meters.times(), [0, 2, 4].map(Nanos::from_secs));
        assert_eq!((meters.device(0), meters.device(1), meters.devices()), (Some(0), Some(1), Some(2)));
        // Four messages in four seconds: a gap is 4/3 s, and the file lasts for 16/3 s.
        assert_eq!(meters.length(), Nanos(5_333_333_333));
        let valves = of_file("t.csv", text, Some("valves")).unwrap();
        assert_eq!((valves.times(), valves.length()), (&[Nanos::from_millis(500)][..], meters.length()));
        let all = of_file("t.csv", "time\n0\n0\n1\n", None).unwrap();
        assert_eq!((all.times().len(), all.devices(), all.length()), (3, None, Nanos(1_500_000_000)));
    }

    #[test]
    fn what_is_wrong_with_a_file_has_its_line() {
        for (text, told) in [
            ("", "t.csv has no lines"),
            ("# nothing\n", "t.csv has no lines"),
            ("at,device\n", "t.csv, line 1: there is no column `time`"),
            ("time\n", "t.csv, line 1: a trace has messages at two times at least"),
            ("time\n1\n", "t.csv, line 2: a trace has messages at two times at least"),
            ("time\n1\n1\n", "t.csv, line 3: a trace has messages at two times at least"),
            ("time\n2\n\n1.5\n", "t.csv, line 4: 1.5 s is earlier than the message before it, 2 s"),
            (
                "time\n1\nnoon\n",
                "t.csv, line 3: `noon` is no time: it is no number of seconds from 0 to nine billion",
            ),
            (
                "time\n1\nNaN\n",
                "t.csv, line 3: `NaN` is no time: it is no number of seconds from 0 to nine billion",
            ),
            (
                "time\n-1\n2\n",
                "t.csv, line 2: `-1` is no time: it is no number of seconds from 0 to nine billion",
            ),
            ("time,device\n1,a\n2\n", "t.csv, line 3: there is no `device`"),
            ("time\n0\n40000000\n", "t.csv, line 3: a trace lasts for a year at most"),
        ] {
            assert_eq!(of_file("t.csv", text, None), Err(told.to_owned()), "{text:?}");
        }
        let text = "time,population\n1,a\n2,b\n";
        assert_eq!(
            of_file("t.csv", text, Some("c")).unwrap_err(),
            "t.csv has no messages of the population `c`; it has those of `a`, `b`"
        );
        assert_eq!(
            of_file("t.csv", "time\n1\n2\n", Some("c")).unwrap_err(),
            "t.csv, line 1: there is no column `population`"
        );
        let long = format!("time\n{}", "1\n".repeat(MOST_MESSAGES + 1));
        let told = format!("t.csv, line {}: a trace has 4,194,304 messages at most", MOST_MESSAGES + 2);
        assert_eq!(of_file("t.csv", &long, None), Err(told));
    }

    proptest! {
        /// Whatever is read can be played: it is in order, and lasts longer than until its last message.
        #[test]
        fn any_file_is_read_or_refused(text in "(time|device|population|[0-9.,e\\-\n\"#a ]){0,60}") {
            for population in [None, Some("a")] {
                if let Ok(trace) = of_file("t.csv", &format!("time,device,population\n{text}"), population) {
                    prop_assert!(trace.times().is_sorted());
                    prop_assert!(trace.rate() > 0.0 && trace.times().last() < Some(&trace.length()));
                }
                let _ = of_file("t.csv", &text, population);
            }
        }
    }
}
