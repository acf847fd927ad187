//! How a run has gone so far, as a chart of the kind that its report will have. It is drawn again when the run has said something new.

use maud::Markup;
use plimsoll_report::chart::{Axis, Chart, Ink, Panel, Path, Region, Series};
use plimsoll_runner::live::Moment;

/// Heights of the panels, of 900 that they are wide.
const RATES: f64 = 170.0;
const OTHERS: f64 = 110.0;
const MILLISECONDS: f64 = 1e3;

/// The chart; nothing before there is something to show.
pub fn chart(past: &[Moment]) -> Markup {
    let Some(last) = past.last().filter(|_| past.len() > 1) else { return Markup::default() };
    let (unit, seconds) = match last.at {
        end if end > 4.0 * 3600.0 => ("h", 3600.0),
        end if end > 900.0 => ("min", 60.0),
        _ => ("s", 1.0),
    };
    let time = || Axis::span(&format!("Time since the run began ({unit})"), 0.0, last.at / seconds);
    let path = |of: fn(&Moment) -> Option<f64>| -> Path {
        // A level has no line to the next one.
        let levels = past.chunk_by(|one, next| one.level == next.level);
        let end = |level: &[Moment]| level.last().map(|last| (last.at / seconds, None));
        let line = |level: &[Moment]| -> Path {
            level.iter().map(|moment| (moment.at / seconds, of(moment))).chain(end(level)).collect()
        };
        levels.flat_map(line).collect()
    };
    let panel = |name: &str, paths: &[&Path]| {
        let values = paths.iter().flat_map(|path| path.iter()).filter_map(|(_, value)| *value);
        Panel::new(time(), Axis::fitting(name, values.filter(|value| *value > 0.0)))
    };
    let (offered, rate) = (path(|moment| moment.offered), path(|moment| moment.rate));
    let rates = panel("Throughput (/s)", &[&offered, &rate]).height(RATES).regions(levels(past, seconds));
    let rates = rates.series(Series::new("offered", Ink::Neutral).dashed(offered));
    let (p50, p99) = (path(|moment| milliseconds(moment.p50)), path(|moment| milliseconds(moment.p99)));
    let times = panel("Time (ms)", &[&p50, &p99]).height(OTHERS);
    let times = times.series(Series::new("median", Ink::Curve(1)).line(p50));
    let used = path(|moment| moment.processors);
    let processors = panel("Processors", &[&used]).height(OTHERS);
    let caption = "What is offered and what comes to its end, times of the level so far, and the platform's processors on this host.";
    Chart::new("chart-live", caption)
        .panel(rates.series(Series::new("achieved", Ink::Curve(0)).line(rate)))
        .panel(times.series(Series::new("p99", Ink::Curve(2)).line(p99)))
        .panel(processors.series(Series::new("processors", Ink::Curve(3)).line(used)))
        .without_data()
        .render()
}

fn milliseconds(time: Option<f64>) -> Option<f64> {
    time.map(|seconds| seconds * MILLISECONDS)
}

/// The span of each level.
fn levels(past: &[Moment], seconds: f64) -> Vec<Region> {
    let spans = past.chunk_by(|one, next| one.level == next.level);
    let region = |span: &[Moment]| {
        let (first, last) = (span.first()?, span.last()?);
        let name = format!("level {}", first.level?);
        Some(Region { from: first.at / seconds, to: last.at / seconds, name, ink: Ink::Neutral })
    };
    spans.filter_map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: u32, level: Option<usize>) -> Moment {
        let at = f64::from(second);
        Moment {
            at,
            level,
            offered: level.map(|_| 100.0),
            rate: Some(at),
            p99: Some(0.25),
            ..Moment::default()
        }
    }

    #[test]
    fn levels_rates_and_times_are_drawn() {
        let past: Vec<Moment> =
            (0..30).map(|second| moment(second, (second > 3).then_some(1 + second as usize / 20))).collect();
        let drawn = chart(&past).into_string();
        // Also panels of what is not known yet, so that nothing moves when it is.
        for part in ["level 1", "level 2", "Throughput (/s)", "Time (ms)", "Processors", "offered", "p99"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("<script"), "{drawn}");
        let spans: Vec<(f64, f64)> =
            levels(&past, 1.0).into_iter().map(|region| (region.from, region.to)).collect();
        assert_eq!(spans, [(4.0, 19.0), (20.0, 29.0)]);
    }

    #[test]
    fn without_a_past_there_is_no_chart() {
        assert_eq!(chart(&[]).into_string(), "");
        assert_eq!(chart(&[moment(0, None)]).into_string(), "");
    }
}
