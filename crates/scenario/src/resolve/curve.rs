//! A load that changes within a level: a curve from the scenario or from a file, or a spike.

use super::faults::SAMPLES_BESIDE;
use super::rate::HIGHEST_RATE;
use crate::config::{Curve, CurvePoint, Load, Spike, WorkloadModel};
use crate::context::Context;
use crate::quantity::{AsText, Quantity, Rate};
use plimsoll_model::{LoadCurve, Nanos};

/// Most points of a curve, each of which is stored with its run: two weeks of minutes.
const MOST_POINTS: usize = 20_160;
/// Most seconds that a file may have as a time: those since 1970 for some centuries.
const MOST_SECONDS: f64 = 9e9;

/// Times on a curve's own clock, each with its rate.
type Points = Vec<(Nanos, f64)>;

/// The curve that a level follows, where there is one; `None` also where it is wrong, which is reported.
pub(super) fn resolve(load: &mut Load, context: &mut Context<'_>) -> Option<LoadCurve> {
    if load.model != WorkloadModel::Open {
        // Reported with the other keys of the open model.
        return None;
    }
    let key = if load.curve.is_some() { "curve" } else { "spike" };
    if load.curve.is_some() || load.spike.is_some() {
        refuse_beside(key, load, context);
    }
    if let Some(curve) = &load.curve {
        let points = points(curve, context)?;
        let (first, last) = (points.first()?.0, points.last()?.0);
        if !context.written("load.hold") {
            load.hold = AsText(last - first);
        }
        return LoadCurve::new(&points, load.hold.0);
    }
    let spike = load.spike.clone()?;
    of_spike(&spike, load, context)
}

/// Reports what says something else of levels.
fn refuse_beside(key: &str, load: &Load, context: &mut Context<'_>) {
    let excluded = [
        ("messages", load.messages.is_some()),
        ("cycles", load.cycles.is_some()),
        ("stop_after_missed", load.stop_after_missed.is_some()),
        ("ramp_down", load.ramp_down),
    ];
    for (other, _) in excluded.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format!("`{key}` and `{other}` exclude each other");
        let help = format!("remove `{other}`: a {key} is one level that ends by time");
        context.error_with_help(&format!("load.{other}"), message, help);
    }
}

/// The points of a curve on its own clock.
fn points(curve: &Curve, context: &mut Context<'_>) -> Option<Points> {
    let help = "write `curve: { points: [{ at: 0h, rate: 100 }, { at: 8h, rate: 500 }] }` or `curve: { file: day.csv }`";
    match (&curve.points, &curve.file) {
        (Some(written), None) => {
            let points: Points = written.iter().map(|CurvePoint { at, rate }| (at.0, rate.0.0)).collect();
            if let Some((place, why)) = fault(&points) {
                context.error(&format!("load.curve.points.{place}"), why);
                return None;
            }
            Some(points)
        }
        (None, Some(file)) => {
            let text = (context.environment.profile)(file);
            let text = text.map_err(|reason| format!("cannot read the curve `{file}`: {reason}"));
            match text.and_then(|text| of_file(file, &text)) {
                Ok(points) => Some(points),
                Err(reason) => {
                    let help = "the file is like this: a line `time,rate`, then `08:10,480`";
                    context.error_with_help("load.curve.file", reason, help);
                    None
                }
            }
        }
        (Some(_), Some(_)) => {
            context.error_with_help("load.curve", "a curve has either `points` or a `file`", help);
            None
        }
        (None, None) => {
            context.error_with_help("load.curve", "the curve has neither `points` nor a `file`", help);
            None
        }
    }
}

/// What is wrong with points, and with which of them.
fn fault(points: &[(Nanos, f64)]) -> Option<(usize, String)> {
    if points.len() > MOST_POINTS {
        return Some((MOST_POINTS, format!("a curve has {MOST_POINTS} points at most")));
    }
    for (place, (at, rate)) in points.iter().enumerate() {
        if !(0.0..=HIGHEST_RATE).contains(rate) {
            return Some((place, "a rate is from 0 to 10 million per second".to_owned()));
        }
        let before = place.checked_sub(1).and_then(|before| points.get(before));
        if let Some((before, _)) = before.filter(|(before, _)| before > at) {
            let message = format!("{} is earlier than the point before it, {}", at.show(), before.show());
            return Some((place, message));
        }
    }
    let last = points.len().saturating_sub(1);
    if points.first().map(|(at, _)| at) == points.last().map(|(at, _)| at) {
        return Some((last, "a curve has points at two times at least".to_owned()));
    }
    points.iter().all(|(_, rate)| *rate == 0.0).then(|| (last, "the curve offers nothing at all".to_owned()))
}

/// The points of a CSV file; what is wrong has its file and line.
fn of_file(file: &str, text: &str) -> Result<Points, String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((number, header)) = lines.next() else { return Err(format!("{file} has no lines")) };
    let columns: Vec<&str> = fields(header).collect();
    let place = |name: &str| {
        let found = columns.iter().position(|column| *column == name);
        found.ok_or_else(|| format!("{file}, line {number}: there is no column `{name}`"))
    };
    let (time, rate) = (place("time")?, place("rate")?);
    let (mut points, mut numbers) = (Points::new(), Vec::new());
    for (number, line) in lines {
        let wrong = |why: String| format!("{file}, line {number}: {why}");
        let fields: Vec<&str> = fields(line).collect();
        let field = |place: usize, name: &str| {
            fields.get(place).copied().ok_or_else(|| wrong(format!("there is no `{name}`")))
        };
        let (at, rate) = (field(time, "time")?, field(rate, "rate")?);
        let at = time_of(at).map_err(|why| wrong(format!("`{at}` is no time: {why}")))?;
        let rate = Rate::parse(rate).map_err(|why| wrong(format!("`{rate}` is no rate: {why}")))?;
        points.push((at, rate.0));
        numbers.push(number);
    }
    match fault(&points) {
        None => Ok(points),
        Some((place, why)) => {
            let number = numbers.get(place).or(numbers.last()).copied().unwrap_or(number);
            Err(format!("{file}, line {number}: {why}"))
        }
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim())
}

/// A time in a file: hours and minutes, a span with its unit, or seconds.
fn time_of(text: &str) -> Result<Nanos, String> {
    if text.contains(':') {
        let numbers: Option<Vec<i64>> = text.split(':').map(number).collect();
        return match numbers.as_deref() {
            Some([hours, minutes @ ..]) if (1..=2).contains(&minutes.len()) => {
                if minutes.iter().any(|number| *number >= 60) {
                    return Err("an hour has 60 minutes, and a minute 60 seconds".to_owned());
                }
                let units = minutes.iter().zip([60, 1]).map(|(number, unit)| number * unit);
                let whole = hours * 3600 + units.sum::<i64>();
                Ok(Nanos::from_secs(whole))
            }
            _ => Err("it is not written like 08:10 or 08:10:30".to_owned()),
        };
    }
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MOST_SECONDS).contains(&seconds) => Ok(Nanos::from_secs_f64(seconds)),
        Ok(_) => Err("it is no number of seconds from 0 to nine billion".to_owned()),
        Err(_) => Nanos::parse(text),
    }
}

/// Up to five digits.
fn number(text: &str) -> Option<i64> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The load with a spike in it.
fn of_spike(spike: &Spike, load: &Load, context: &mut Context<'_>) -> Option<LoadCurve> {
    let (from, to, at, lasts) = (spike.from.0.0, spike.to.0.0, spike.at.0, spike.length.0);
    let hold = load.hold.0;
    let beside = hold * SAMPLES_BESIDE / i64::from(load.samples.max(1));
    let before = context.found.0.len();
    for (key, rate) in [("from", from), ("to", to)] {
        if !(0.0..=HIGHEST_RATE).contains(&rate) {
            context.error(&format!("load.spike.{key}"), "a rate is from 0 to 10 million per second");
        }
    }
    if to <= from {
        let message = format!("a spike rises, and `to` ({to}) is not above `from` ({from})");
        context.error("load.spike.to", message);
    }
    if lasts <= Nanos::ZERO {
        context.error("load.spike.for", "a spike lasts for some time");
    }
    if at < beside {
        let message = format!(
            "it begins {} into the hold, and the first {SAMPLES_BESIDE} samples show the platform before it",
            at.show()
        );
        let help = format!("begin it at {} or later, or have more `load.samples`", beside.show());
        context.error_with_help("load.spike.at", message, help);
    }
    if at + lasts + beside > hold {
        let message = format!(
            "it ends {} into a hold of {}, and the {SAMPLES_BESIDE} samples after it must show whether the platform recovers",
            (at + lasts).show(),
            hold.show()
        );
        let help = "begin it earlier, shorten `for`, or lengthen `load.hold`";
        context.error_with_help("load.spike.at", message, help);
    }
    let is_fine = context.found.0.len() == before;
    is_fine.then(|| LoadCurve::with_spike((from, to), (at, lasts), hold)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_file_are_clocks_spans_and_seconds() {
        let seconds = |text: &str| time_of(text).map(|time| time.as_secs_f64());
        for (text, expected) in [
            ("08:10", 29_400.0),
            ("08:10:30", 29_430.0),
            ("24:00", 86_400.0),
            ("8h10m", 29_400.0),
            ("29400", 29_400.0),
            ("0.5", 0.5),
            ("1767225600", 1_767_225_600.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["", "8:60", "08:10:30:00", "x:10", "-1", "1e99", "8 bells", ":", "+8:10"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_comments_a_header_and_other_columns() {
        let text =
            "# counted in March\n\ntime , day, rate\n00:00, mon, 100\n# noon\n\"12:00\", mon, 1.5k/s\n";
        let points = of_file("day.csv", text).unwrap();
        assert_eq!(points, [(Nanos::ZERO, 100.0), (Nanos::from_secs(43_200), 1500.0)]);
    }

    #[test]
    fn what_is_wrong_with_a_file_has_its_line() {
        for (text, told) in [
            ("", "day.csv has no lines"),
            ("# nothing\n", "day.csv has no lines"),
            ("at,rate\n", "day.csv, line 1: there is no column `time`"),
            (
                "time,rate\n00:00,100\nnoon,200\n",
                "day.csv, line 3: `noon` is no time: it does not begin with a number",
            ),
            (
                "time,rate\n00:00,100\n\n12:00,much\n",
                "day.csv, line 4: `much` is no rate: it does not begin with a number",
            ),
            ("time,rate\n00:00\n", "day.csv, line 2: there is no `rate`"),
            ("time,rate\n12:00,1\n00:00,1\n", "day.csv, line 3: 0s is earlier than the point before it, 12h"),
            ("time,rate\n12:00,1\n", "day.csv, line 2: a curve has points at two times at least"),
            ("time,rate\n00:00,0\n12:00,0\n", "day.csv, line 3: the curve offers nothing at all"),
            ("time,rate\n00:00,0\n12:00,20M\n", "day.csv, line 3: a rate is from 0 to 10 million per second"),
            ("time,rate\n", "day.csv, line 1: a curve has points at two times at least"),
        ] {
            assert_eq!(of_file("day.csv", text), Err(told.to_owned()), "{text:?}");
        }
    }
}
