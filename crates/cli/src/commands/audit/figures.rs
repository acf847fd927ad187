//! Finds the figures that other generators report in what they print. A generator that is not listed, or prints
//! something else, reports nothing; nothing is guessed.

use regex_lite::Regex;

/// A figure that a generator may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Messages or requests.
    Count,
    /// The same per second.
    Rate,
    /// Mean time.
    Mean,
    /// Median time.
    P50,
    /// 90th percentile of time.
    P90,
    /// 99th percentile of time.
    P99,
    /// Longest time.
    Max,
}

/// How a generator writes a figure: a pattern with the group `value` and perhaps the group `unit`; without one, times
/// are in the unit given here, as a fraction of a second.
struct Pattern {
    figure: Figure,
    text: &'static str,
    unit: f64,
}

const fn pattern(figure: Figure, text: &'static str, unit: f64) -> Pattern {
    Pattern { figure, text, unit }
}

const MILLISECOND: f64 = 1e-3;
const MICROSECOND: f64 = 1e-6;

/// By the name of the program.
const GENERATORS: [(&str, &[Pattern]); 4] = [
    (
        "wrk",
        &[
            pattern(Figure::Count, r"(?m)^\s*(?<value>\d+) requests in", 1.0),
            pattern(Figure::Rate, r"Requests/sec:\s*(?<value>[\d.]+)", 1.0),
            pattern(Figure::Mean, r"(?m)^\s*Latency\s+(?<value>[\d.]+)(?<unit>us|ms|s|m)\b", 1.0),
            pattern(Figure::Max, r"(?m)^\s*Latency\s+\S+\s+\S+\s+(?<value>[\d.]+)(?<unit>us|ms|s|m)\b", 1.0),
            pattern(Figure::P50, r"(?m)^\s*50%\s+(?<value>[\d.]+)(?<unit>us|ms|s|m)\b", 1.0),
            pattern(Figure::P90, r"(?m)^\s*90%\s+(?<value>[\d.]+)(?<unit>us|ms|s|m)\b", 1.0),
            pattern(Figure::P99, r"(?m)^\s*99%\s+(?<value>[\d.]+)(?<unit>us|ms|s|m)\b", 1.0),
        ],
    ),
    (
        "ab",
        &[
            pattern(Figure::Count, r"Complete requests:\s*(?<value>\d+)", 1.0),
            pattern(Figure::Rate, r"Requests per second:\s*(?<value>[\d.]+)", 1.0),
            pattern(Figure::Mean, r"Total:\s+\d+\s+(?<value>[\d.]+)", MILLISECOND),
            pattern(Figure::P50, r"(?m)^\s*50%\s+(?<value>\d+)", MILLISECOND),
            pattern(Figure::P90, r"(?m)^\s*90%\s+(?<value>\d+)", MILLISECOND),
            pattern(Figure::P99, r"(?m)^\s*99%\s+(?<value>\d+)", MILLISECOND),
            pattern(Figure::Max, r"(?m)^\s*100%\s+(?<value>\d+)", MILLISECOND),
        ],
    ),
    (
        "mqttv5",
        &[
            pattern(Figure::Count, r#""(?:messages|published|total_published)":\s*(?<value>\d+)"#, 1.0),
            pattern(
                Figure::Rate,
                r#""(?:throughput_avg|published_rate|publish_rate)":\s*(?<value>[\d.]+)"#,
                1.0,
            ),
            pattern(Figure::Mean, r#""avg_us":\s*(?<value>[\d.]+)"#, MICROSECOND),
            pattern(Figure::P50, r#""p50_us":\s*(?<value>[\d.]+)"#, MICROSECOND),
            pattern(Figure::P99, r#""p99_us":\s*(?<value>[\d.]+)"#, MICROSECOND),
            pattern(Figure::Max, r#""max_us":\s*(?<value>[\d.]+)"#, MICROSECOND),
        ],
    ),
    (
        "oha",
        &[
            pattern(Figure::Rate, r"Requests/sec:\s*(?<value>[\d.]+)", 1.0),
            pattern(Figure::Mean, r"Average:\s*(?<value>[\d.]+)\s*(?<unit>us|ms|secs?)", 1.0),
            pattern(Figure::Max, r"Slowest:\s*(?<value>[\d.]+)\s*(?<unit>us|ms|secs?)", 1.0),
            pattern(Figure::P50, r"50\.00%\s+in\s+(?<value>[\d.]+)\s*(?<unit>us|ms|secs?)", 1.0),
            pattern(Figure::P90, r"90\.00%\s+in\s+(?<value>[\d.]+)\s*(?<unit>us|ms|secs?)", 1.0),
            pattern(Figure::P99, r"99\.00%\s+in\s+(?<value>[\d.]+)\s*(?<unit>us|ms|secs?)", 1.0),
        ],
    ),
];

/// The generators whose figures are found.
pub fn known() -> String {
    GENERATORS.map(|(name, _)| name).join(", ")
}

/// The figures in what a program printed, times in seconds.
pub fn find(program: &str, printed: &str) -> Vec<(Figure, f64)> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let patterns =
        GENERATORS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, patterns)| patterns);
    patterns.iter().filter_map(|pattern| Some((pattern.figure, value(pattern, printed)?))).collect()
}

fn value(pattern: &Pattern, printed: &str) -> Option<f64> {
    // A pattern that is none is found by the test below.
    let captures = Regex::new(pattern.text).ok()?.captures(printed)?;
    let number: f64 = captures.name("value")?.as_str().parse().ok()?;
    let unit = match captures.name("unit").map(|unit| unit.as_str()) {
        Some("us") => MICROSECOND,
        Some("ms") => MILLISECOND,
        Some("m") => 60.0,
        Some(_) => 1.0,
        None => pattern.unit,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As wrk 4.1 prints.
    const WRK: &str = "  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.23ms    1.09ms  10.03ms   80.28%
    Req/Sec     3.80k   172.68     4.08k    61.90%
  Latency Distribution
     50%    970.00us
     75%    1.68ms
     90%    2.61ms
     99%    5.00ms
  7931 requests in 2.10s, 317.55KB read
Requests/sec:   3776.64
";

    #[test]
    fn every_pattern_is_one() {
        for (name, patterns) in GENERATORS {
            for pattern in patterns {
                let names: Vec<String> =
                    Regex::new(pattern.text).unwrap().capture_names().flatten().map(str::to_owned).collect();
                assert!(names.iter().any(|group| group == "value"), "{name}: {}", pattern.text);
            }
        }
    }

    #[test]
    fn figures_are_found_with_their_units() {
        let found = find("/usr/bin/wrk", WRK);
        let expected = [
            (Figure::Count, 7931.0),
            (Figure::Rate, 3776.64),
            (Figure::Mean, 0.00123),
            (Figure::Max, 0.01003),
            (Figure::P50, 0.00097),
            (Figure::P90, 0.00261),
            (Figure::P99, 0.005),
        ];
        assert_eq!(found.len(), expected.len());
        for ((figure, value), (wanted, number)) in found.iter().zip(expected) {
            assert!(*figure == wanted && (value / number - 1.0).abs() < 1e-9, "{figure:?} {value}");
        }
        assert!(find("unknown", WRK).is_empty());
    }
}
