//! The runs of a matrix in the terminal, as Markdown, as CSV and as JSON; the page with its charts is [`crate::html::sweep`].

pub(crate) mod configurations;

use crate::csv;
use crate::plain;
use crate::text::{WIDTH, count, floor_percent, hanging, rate, time, wrapped};
use plimsoll_analysis::sweep::{Axis, Cell, Measured, Quantity, RunOfCell, Sweep};
use plimsoll_model::Validity;
use plimsoll_model::text::one_line;

/// What the terminal shows; the rest is in the page and the files.
const SHOWN: [Quantity; 8] = [
    Quantity::LoadLine,
    Quantity::Cost,
    Quantity::LoadLinePerCost,
    Quantity::Throughput,
    Quantity::Done,
    Quantity::PublishTimeMedian,
    Quantity::PublishTimeP99,
    Quantity::SubscribeTimeP99,
];

/// Most sentences of a kind in the terminal.
const MOST_SENTENCES: usize = 12;
/// Most characters of a value in tables and charts.
const LABEL: usize = 32;
/// Most characters of the name of a curve, which has a value of each axis.
const CURVE: usize = 40;

/// A value, or what is called so, in one line of at most 32 characters.
pub fn label(value: &str) -> String {
    one_line(value, LABEL)
}

/// The sweep as JSON, by its published schema.
pub fn json(sweep: &Sweep) -> String {
    serde_json::to_string_pretty(sweep).unwrap_or_default() + "\n"
}

/// The JSON Schema (draft 2020-12) of [`json`].
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Sweep).to_value()
}

/// The sweep for the terminal, at most 80 columns wide: a table of each of the main quantities, a row for each curve.
pub fn terminal(sweep: &Sweep) -> String {
    let mut out = String::new();
    for quantity in measured(sweep).filter(|quantity| SHOWN.contains(quantity)) {
        out += &tables(sweep, quantity);
        out.push('\n');
    }
    for (part, sentences) in configurations::parts(sweep) {
        out += &format!("{}\n", part.title());
        for sentence in sentences.iter().take(MOST_SENTENCES) {
            out += &hanging("  ", sentence, "    ").join("\n");
            out.push('\n');
        }
        let more = sentences.len().saturating_sub(MOST_SENTENCES);
        if more > 0 {
            out += &format!("  and {more} more, which the page has\n");
        }
        out.push('\n');
    }
    for note in &sweep.notes {
        out += &wrapped(note, "").join("\n");
        out.push('\n');
    }
    out
}

/// The sweep as Markdown: a table of each quantity, means with half of their 95 % intervals, in brackets what is predicted.
pub fn markdown(sweep: &Sweep) -> String {
    let mut out = String::new();
    let head = foot(sweep);
    for quantity in measured(sweep) {
        let curves = plain::markdown(&curves_name(sweep));
        out += &format!("**{}**, by {}\n\n| {curves} |", heading(sweep, quantity), axis_name(sweep));
        head.iter().for_each(|value| out += &format!(" {} |", plain::markdown(value)));
        out += &format!("\n|---|{}\n", "---|".repeat(head.len()));
        for (common, cells) in sweep.curves() {
            out += &format!("| {} |", plain::markdown(&curve_name(sweep, &common)));
            for place in 0..head.len() {
                let cell = at(&cells, sweep, place);
                let shown = cell.and_then(|cell| cell.measured(quantity)).map_or("–".into(), with_interval);
                let predicted = cell.and_then(|cell| cell.predicted);
                let predicted = predicted.filter(|_| quantity == Quantity::Throughput).map(count);
                let predicted = predicted.map(|rate| format!(" ({rate})")).unwrap_or_default();
                out += &format!(" {shown}{predicted} |");
            }
            out.push('\n');
        }
        out.push('\n');
    }
    for (part, sentences) in configurations::parts(sweep) {
        out += &format!("**{}**\n\n", part.title());
        sentences.iter().for_each(|sentence| out += &format!("- {}\n", plain::markdown(sentence)));
        out.push('\n');
    }
    sweep.notes.iter().for_each(|note| out += &format!("{note}\n"));
    out
}

/// The sweep as comma-separated values: a row for each quantity of each combination, with its unit.
pub fn csv(sweep: &Sweep) -> String {
    let mut header: Vec<String> = sweep.axes.iter().map(|axis| axis.key.clone()).collect();
    let columns =
        ["quantity", "unit", "runs", "at_least", "mean", "ci95_lo", "ci95_hi", "predicted", "run_ids"];
    header.extend(columns.map(str::to_owned));
    let mut out = csv::row(header);
    for cell in &sweep.cells {
        let counts = |run: &&RunOfCell| run.validity == Some(Validity::Valid);
        let runs: Vec<&str> = cell.runs.iter().filter(counts).map(|run| run.run.as_str()).collect();
        for measured in &cell.quantities {
            let values = sweep.axes.iter().zip(&cell.position);
            let mut row: Vec<String> =
                values.map(|(axis, value)| csv::optional(axis.values.get(*value))).collect();
            let predicted = cell.predicted.filter(|_| measured.quantity == Quantity::Throughput);
            row.extend([
                measured.quantity.name().to_owned(),
                match measured.quantity.unit() {
                    "" => unit(sweep, measured.quantity).unwrap_or_default(),
                    unit => unit.to_owned(),
                },
                measured.values.len().to_string(),
                measured.at_least.to_string(),
                measured.mean.to_string(),
                csv::optional(measured.ci95.map(|[low, _]| low)),
                csv::optional(measured.ci95.map(|[_, high]| high)),
                csv::optional(predicted),
                runs.join(" "),
            ]);
            out += &csv::row(row);
        }
    }
    out
}

/// The quantities that some combination has.
pub(crate) fn measured(sweep: &Sweep) -> impl Iterator<Item = Quantity> + '_ {
    let has = |quantity: &Quantity| sweep.cells.iter().any(|cell| cell.measured(*quantity).is_some());
    Quantity::ALL.into_iter().filter(has)
}

/// What varies along the foot of the charts, with its unit.
pub(crate) fn axis_name(sweep: &Sweep) -> String {
    let Some(axis) = sweep.axes.get(sweep.along) else { return String::new() };
    match axis.numbers() {
        Some((_, unit)) if !unit.is_empty() => format!("{} ({})", label(axis.name()), label(unit)),
        _ => label(axis.name()),
    }
}

/// What tells curves apart.
pub(crate) fn curves_name(sweep: &Sweep) -> String {
    let names = sweep.curves_by().into_iter().filter_map(|axis| Some(label(sweep.axes.get(axis)?.name())));
    names.collect::<Vec<_>>().join(" / ")
}

/// What a curve is called: its values.
pub(crate) fn curve_name(sweep: &Sweep, common: &[usize]) -> String {
    sweep.values_of(common).into_iter().map(label).collect::<Vec<_>>().join(" / ")
}

/// What a combination is called: the values of all that varies, but for one axis that is not named.
pub(crate) fn combination(sweep: &Sweep, position: &[usize], but: Option<usize>) -> String {
    let varying = sweep.axes.iter().zip(position).enumerate();
    let varying = varying.filter(|(index, (axis, _))| axis.values.len() > 1 && Some(*index) != but);
    let named = varying.filter_map(|(_, (axis, place))| {
        Some(format!("{} {}", label(axis.name()), label(axis.values.get(*place)?)))
    });
    named.collect::<Vec<_>>().join(", ")
}

/// The key of an axis, where the platform is what a reader thinks of first.
pub(crate) fn key(axis: &Axis) -> String {
    label(axis.key.strip_prefix("platform.").unwrap_or(&axis.key))
}

/// The values along the foot.
pub(crate) fn foot(sweep: &Sweep) -> Vec<String> {
    let axis = sweep.axes.get(sweep.along);
    axis.into_iter().flat_map(|axis| &axis.values).map(|value| label(value)).collect()
}

/// The cell of a curve at a place along the foot.
pub(crate) fn at<'a>(cells: &[&'a Cell], sweep: &Sweep, place: usize) -> Option<&'a Cell> {
    cells.iter().copied().find(|cell| cell.position.get(sweep.along) == Some(&place))
}

/// A quantity over its values: times and shares have their units beside each value.
pub(crate) fn heading(sweep: &Sweep, quantity: Quantity) -> String {
    match unit(sweep, quantity) {
        Some(unit) => format!("{} ({unit})", quantity.name()),
        None => quantity.name().to_owned(),
    }
}

/// The unit of values that stand without one; `None` of those that have it beside them.
pub(crate) fn unit(sweep: &Sweep, quantity: Quantity) -> Option<String> {
    let of_line = sweep.line_unit.as_deref().unwrap_or_default();
    let worth = sweep.worth.as_ref();
    match quantity {
        Quantity::LoadLine => Some(of_line.to_owned()),
        Quantity::LoadLinePerCost => Some(format!("{of_line} for each {}", label(&worth?.currency))),
        Quantity::Cost => worth.map(|worth| format!("{} a {}", label(&worth.currency), label(&worth.per))),
        Quantity::Throughput => Some("operations/s".to_owned()),
        _ => None,
    }
}

/// A value for people.
pub(crate) fn shown(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::LoadLine | Quantity::Throughput => rate(if value >= 10.0 { value.round() } else { value }),
        Quantity::LoadLinePerCost => rate(value),
        Quantity::Cost => money(value),
        Quantity::Done => format!("{} %", floor_percent(value)),
        _ => time(Some(value)),
    }
}

/// An amount of money, without its currency.
pub(crate) fn money(amount: f64) -> String {
    format!("{amount:.2}")
}

/// A mean; that of runs of which some may have sustained more is a bound.
pub(crate) fn mean(measured: &Measured) -> String {
    let sign = if measured.at_least { "\u{2265} " } else { "" };
    format!("{sign}{}", shown(measured.quantity, measured.mean))
}

/// A mean and half of its interval, in one unit.
fn with_interval(measured: &Measured) -> String {
    let mean = mean(measured);
    let Some([low, high]) = measured.ci95 else { return mean };
    let half = (high - low) / 2.0;
    match measured.quantity {
        Quantity::LoadLine | Quantity::Throughput => {
            format!("{mean} ± {}", rate(if half >= 10.0 { half.round() } else { half }))
        }
        Quantity::LoadLinePerCost => format!("{mean} ± {}", rate(half)),
        Quantity::Cost => mean,
        Quantity::Done => format!("{mean} ± {:.2}", (half * 1e4).ceil() / 100.0),
        _ => format!("{mean} ± {}", time(Some(half))),
    }
}

/// A table of one quantity, in as many pieces as the terminal's width asks for.
fn tables(sweep: &Sweep, quantity: Quantity) -> String {
    let curves = sweep.curves();
    let name = |common: &[usize]| one_line(&curve_name(sweep, common), CURVE);
    let names: Vec<String> = curves.iter().map(|(common, _)| name(common)).collect();
    let head = one_line(&curves_name(sweep), CURVE);
    let first = names.iter().chain([&head]).map(|name| name.chars().count()).max().unwrap_or(0);
    let columns: Vec<Vec<String>> = foot(sweep)
        .into_iter()
        .enumerate()
        .map(|(place, value)| {
            let of = |cells: &[&Cell]| at(cells, sweep, place)?.measured(quantity).map(mean);
            let cells = curves.iter().map(|(_, cells)| of(cells).unwrap_or_else(|| "-".into()));
            std::iter::once(value).chain(cells).collect()
        })
        .collect();
    let width = |column: &Vec<String>| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut used = first;
        let fits = rest.iter().take_while(|column| {
            used += width(column);
            used <= WIDTH
        });
        let (piece, after) = rest.split_at(fits.count().max(1));
        rest = after;
        out += &format!("{}, by {}\n", heading(sweep, quantity), axis_name(sweep));
        for (line, name) in std::iter::once(&head).chain(&names).enumerate() {
            let mut text = format!("{name:<first$}");
            for column in piece {
                let cell = column.get(line).map(String::as_str).unwrap_or_default();
                text += &format!("{cell:>width$}", width = width(column));
            }
            out += text.trim_end();
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use plimsoll_analysis::cost::CostSummary;
    use plimsoll_analysis::headroom::Headroom;
    use plimsoll_analysis::level::LevelSummary;
    use plimsoll_analysis::limits::{Limit, LimitKind};
    use plimsoll_analysis::load_line::LoadLine;
    use plimsoll_analysis::sweep::{Origin, Taken};
    use plimsoll_analysis::time_summary::TimeSummary;
    use plimsoll_model::Metric;
    use plimsoll_model::Verdict;

    /// Two curves over three values, each run twice, one of them missing.
    pub(crate) fn sweep() -> Sweep {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let axes = vec![
            axis("platform.with.handler", &["serial", "<b>"]),
            axis("gateway.delay", &["0ms", "10ms", "50ms"]),
        ];
        let time = |p50, p99| TimeSummary { p50, p99: Some(p99), ..TimeSummary::default() };
        let taken = |handler: usize, delay: usize, achieved: f64| Taken {
            position: vec![handler, delay],
            run: format!("{handler}{delay}"),
            verdict: Verdict::Met,
            level: Some(LevelSummary {
                achieved: Some(achieved),
                times: [
                    (Metric::PublishTime, time(Some(1.0 / achieved), 9.0 / achieved)),
                    (Metric::SubscribeTime, time(None, 7.0 / achieved)),
                ]
                .into(),
                finished: true,
                ..LevelSummary::default()
            }),
            line: None,
            demanded: None,
            limits: Vec::new(),
            cost: None,
            headroom: None,
        };
        let origin = Origin {
            plimsoll: "0.1.0".into(),
            written: "2026-03-14T09:26:53Z".into(),
            quick: true,
            platform: Some("gateway".into()),
            warm_up: Some(2.0),
            hold: Some(10.0),
        };
        let mut runs = Vec::new();
        for (handler, delay) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)] {
            let rate = 1000.0 / (1.0 + handler as f64 + delay as f64);
            runs.extend([taken(handler, delay, rate), taken(handler, delay, rate * 1.02)]);
        }
        let mut sweep = Sweep::of("two handlers", origin, axes, &runs);
        for cell in &mut sweep.cells {
            cell.predicted = Some(1234.0);
            cell.bound_by = Some("the pool".into());
        }
        sweep
    }

    /// One key with three values, each run twice, with load lines, limits and prices.
    pub(crate) fn priced() -> Sweep {
        let axes = vec![Axis {
            key: "platform.replicas.worker".into(),
            values: ["1", "2", "4"].map(str::to_owned).to_vec(),
        }];
        let taken = |place: usize, rate: f64, limit: &str| {
            let line = LoadLine {
                rate: Some(rate),
                devices: None,
                connect_rate: None,
                level: 1,
                at_least: place == 2,
                below: (place < 2).then_some(rate * 1.05),
                at_most: None,
                limited_by: None,
                next_level: None,
            };
            let limit = Limit {
                component: Some(limit.to_owned()),
                components: Vec::new(),
                kind: LimitKind::Quota,
                evidence: Vec::new(),
                elasticity: None,
            };
            let total = 100.0 * (place + 1) as f64;
            let cost = CostSummary {
                currency: "USD".into(),
                per: "month".into(),
                total,
                priced: Vec::new(),
                unpriced: vec!["agent".into()],
                load_line_per_cost: Some(rate / total),
            };
            let level = LevelSummary { index: 1, finished: true, ..LevelSummary::default() };
            Taken {
                position: vec![place],
                run: format!("{place}"),
                verdict: Verdict::Met,
                level: Some(level),
                line: Some(line),
                demanded: Some(1500.0),
                limits: vec![limit],
                cost: Some(cost),
                headroom: Some(Headroom { component: "worker".into(), used: 0.9, others: Vec::new() }),
            }
        };
        let runs = [(0, 1000.0, "worker"), (1, 2000.0, "worker"), (2, 2100.0, "database")];
        let runs = runs
            .iter()
            .flat_map(|(place, rate, limit)| [taken(*place, *rate, limit), taken(*place, rate + 2.0, limit)]);
        Sweep::of("workers", Origin::default(), axes, &runs.collect::<Vec<_>>())
    }

    #[test]
    fn it_is_told_in_every_form() {
        let told = terminal(&sweep());
        for expected in [
            "throughput (operations/s), by delay (ms)",
            "handler    0ms  10ms  50ms",
            "<b>        505     -   253",
            "publish time, 99 %, by delay (ms)",
            "serial   8.91 ms  17.8 ms  26.7 ms",
            "subscribe time, 99 %, by delay (ms)",
        ] {
            assert!(told.contains(expected), "{expected}:\n{told}");
        }
        assert!(told.lines().all(|line| line.chars().count() <= WIDTH), "{told}");
        let told = markdown(&sweep());
        assert!(told.contains("| serial | 1,010 ± 127 (1,234) |"), "{told}");
        assert!(told.contains("| &lt;b> | 505 ± 64 (1,234) | – |"), "{told}");
        let told = csv(&sweep());
        assert_eq!(
            told.lines().next(),
            Some(
                "platform.with.handler,gateway.delay,quantity,unit,runs,at_least,mean,ci95_lo,ci95_hi,predicted,run_ids"
            )
        );
        assert!(
            told.lines().any(|line| line.starts_with("serial,0ms,throughput,1/s,2,false,1010,")),
            "{told}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json(&sweep())).unwrap()["along"], 1);
    }

    #[test]
    fn long_values_and_those_of_several_lines_are_shortened() {
        assert_eq!(label("a\n  b\tc"), "a b c");
        assert_eq!(label(&"\u{e4}".repeat(32)), "\u{e4}".repeat(32));
        assert_eq!(
            label(&format!("{}end", "a".repeat(70_000))),
            format!("{}\u{2026}{}end", "a".repeat(16), "a".repeat(12))
        );
        let mut sweep = sweep();
        for value in sweep.axes.iter_mut().flat_map(|axis| &mut axis.values) {
            *value = format!("{value}|\n{}\\", "wide ".repeat(70_000));
        }
        let told = terminal(&sweep);
        assert!(told.lines().all(|line| line.chars().count() <= WIDTH), "{told}");
        let told = markdown(&sweep);
        assert!(told.contains("| serial\\| wide w"), "{told}");
        let table = || told.lines().filter(|line| line.starts_with('|'));
        // Its own bars are those without a backslash before them.
        assert!(table().all(|line| line.replace("\\|", "").matches('|').count() == 5), "{told}");
        assert_eq!(table().count(), 4 * measured(&sweep).count(), "a head, a rule and two curves each");
        // The files for programs have them whole.
        assert!(csv(&sweep).len() > 350_000 && json(&sweep).len() > 350_000);
    }
}
