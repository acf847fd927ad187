//! What a sweep says of whole configurations: what each change did to the load line, what limits, and what is worth its money.

use super::{combination, key, label, money, shown, unit};
use crate::text::{hundredths, rate};
use plimsoll_analysis::sweep::{Cell, Change, Effect, Quantity, Sweep, Worth};

/// What is said of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What each change did to the load line.
    Changes,
    /// What limits, by combination.
    Limits,
    /// What is worth its money.
    Worth,
}

impl Part {
    /// What stands over it.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Part::Changes => "what each change did to the load line",
            Part::Limits => "what limits the load",
            Part::Worth => "what is worth its money",
        }
    }
}

/// The parts that have something to say, each in sentences.
pub(crate) fn parts(sweep: &Sweep) -> Vec<(Part, Vec<String>)> {
    let changes = sweep.changes.iter();
    let changes = changes.map(|change| format!("{}: {}", name(sweep, change), in_words(sweep, change)));
    let worth = sweep.worth.as_ref().map(|worth| of_worth(sweep, worth));
    let parts = [
        (Part::Changes, changes.collect()),
        (Part::Limits, limits(sweep)),
        (Part::Worth, worth.unwrap_or_default()),
    ];
    parts.into_iter().filter(|(_, sentences): &(Part, Vec<String>)| !sentences.is_empty()).collect()
}

/// What changes, and what stays.
pub(crate) fn name(sweep: &Sweep, change: &Change) -> String {
    let Some(axis) = sweep.axes.get(change.axis) else { return String::new() };
    let value = |position: &[usize]| {
        let place = position.get(change.axis).copied().unwrap_or_default();
        axis.values.get(place).map(|value| label(value)).unwrap_or_default()
    };
    let others = combination(sweep, &change.from, Some(change.axis));
    let with = if others.is_empty() { String::new() } else { format!(", with {others}") };
    format!("{} from {} to {}{with}", key(axis), value(&change.from), value(&change.to))
}

/// What it did, what it costs, and how the limit moves.
fn in_words(sweep: &Sweep, change: &Change) -> String {
    let lines = [&change.from, &change.to].map(|position| line(sweep, position));
    let rates = match lines {
        [Some(before), Some(after)] => {
            let unit = unit(sweep, Quantity::LoadLine).unwrap_or_default();
            format!(", {after} instead of {before} {unit}")
        }
        _ => String::new(),
    };
    let mut said = match change.effect {
        Effect::Higher => format!("higher{rates}, {}", factor(change)),
        Effect::Lower => format!("lower{rates}, {}", factor(change)),
        Effect::NotDistinguishable => format!("not distinguishable{rates}, {}", factor(change)),
        Effect::RunOnce => format!("run once, so chance is not excluded{rates}"),
        Effect::NoUpperBound => "not known, since no higher level missed for certain".to_owned(),
        Effect::NoLoadLine => "not known, since some run met no level".to_owned(),
    };
    if let Some(predicted) = prediction(change) {
        said += &format!(", {predicted}");
    }
    if let Some((cost, worth)) = change.cost.zip(sweep.worth.as_ref()).filter(|(cost, _)| *cost != 0.0) {
        let sign = if cost > 0.0 { "+" } else { "-" };
        said += &format!("; {sign}{} {} a {}", money(cost.abs()), label(&worth.currency), label(&worth.per));
    }
    match [&change.from, &change.to].map(|position| limit(sweep, position)) {
        [Some(before), Some(after)] if before == after => {
            said += &format!("; {before} limits before and after");
        }
        [Some(before), Some(after)] => said += &format!("; {before} limits before, {after} after"),
        _ => {}
    }
    said
}

/// By which factor the load line changes, as far as that is known.
pub(crate) fn factor(change: &Change) -> String {
    let ratio = change.ratio.map(|ratio| format!("x {}", hundredths(ratio))).unwrap_or_default();
    match (change.least, change.most) {
        (Some(least), Some(most)) => format!("{ratio} ({} to {})", hundredths(least), hundredths(most)),
        (Some(least), None) => format!("x {} at least", hundredths(least)),
        (None, Some(most)) => format!("x {} at most", hundredths(most)),
        (None, None) => ratio,
    }
}

/// Which factor the runs before the change predict, and whether it is so.
pub(crate) fn prediction(change: &Change) -> Option<String> {
    let [low, high] = change.predicted?.map(hundredths);
    let factor = if low == high { format!("x {low}") } else { format!("x {low} to {high}") };
    Some(match change.is_as_predicted() {
        Some(true) => format!("as predicted ({factor})"),
        Some(false) => format!("other than predicted ({factor})"),
        None => format!("predicted {factor}"),
    })
}

fn cell<'a>(sweep: &'a Sweep, position: &[usize]) -> Option<&'a Cell> {
    sweep.cells.iter().find(|cell| cell.position == position)
}

/// The load line of a combination.
pub(crate) fn line(sweep: &Sweep, position: &[usize]) -> Option<String> {
    cell(sweep, position)?.measured(Quantity::LoadLine).map(super::mean)
}

/// What most runs of a combination name as their limit.
pub(crate) fn limit<'a>(sweep: &'a Sweep, position: &[usize]) -> Option<&'a str> {
    cell(sweep, position)?.limits.first().map(|limit| limit.name.as_str())
}

/// What limits, by combination; in one sentence where it is the same of all.
fn limits(sweep: &Sweep) -> Vec<String> {
    let known = || sweep.cells.iter().filter(|cell| !cell.limits.is_empty());
    let Some(first) = known().next().and_then(|cell| limit(sweep, &cell.position)) else { return Vec::new() };
    if known().count() == sweep.cells.len() && known().all(|cell| limit(sweep, &cell.position) == Some(first))
    {
        return vec![format!("{first} in every combination")];
    }
    let of_cell = |cell: &Cell| {
        let named = cell.limits.iter().map(|limit| match cell.runs.len() {
            1 => limit.name.clone(),
            runs => format!("{} ({} of {runs} runs)", limit.name, limit.runs),
        });
        let named: Vec<String> = named.collect();
        let named = if named.is_empty() { "not known".to_owned() } else { named.join(", ") };
        format!("{}: {named}", combination(sweep, &cell.position, None))
    };
    sweep.cells.iter().map(of_cell).collect()
}

fn of_worth(sweep: &Sweep, worth: &Worth) -> Vec<String> {
    let at = |index: usize| sweep.cells.get(index);
    let called = |cell: &Cell| combination(sweep, &cell.position, None);
    let price = |cell: &Cell| {
        let cost = cell.measured(Quantity::Cost).map(|cost| money(cost.mean)).unwrap_or_default();
        format!("{cost} {} a {}", label(&worth.currency), label(&worth.per))
    };
    let unit = |quantity| unit(sweep, quantity).unwrap_or_default();
    let mut said = Vec::new();
    if let Some(demanded) = worth.demanded {
        let wanted = format!("{} {}", rate(demanded), unit(Quantity::LoadLine));
        said.push(match worth.cheapest.and_then(at) {
            Some(cell) => format!("cheapest that sustains {wanted}: {}, {}", called(cell), price(cell)),
            None => format!("no combination is known to sustain {wanted}"),
        });
    }
    if let Some(cell) = worth.best.and_then(at)
        && let Some(measured) = cell.measured(Quantity::LoadLinePerCost)
    {
        let show = |value: f64| shown(Quantity::LoadLinePerCost, value);
        let interval =
            measured.ci95.map(|[low, high]| format!(" ({} to {})", show(low.max(0.0)), show(high)));
        said.push(format!(
            "most for the money: {}, {} {}{}",
            called(cell),
            super::mean(measured),
            unit(Quantity::LoadLinePerCost),
            interval.unwrap_or_default()
        ));
    }
    let front: Vec<String> = worth
        .efficient
        .iter()
        .filter_map(|index| at(*index))
        .map(|cell| {
            let line = line(sweep, &cell.position).unwrap_or_default();
            format!("{} ({line} for {})", called(cell), price(cell))
        })
        .collect();
    if front.len() > 1 {
        said.push(format!(
            "no other combination sustains as much for less (Pareto front): {}",
            front.join("; ")
        ));
    }
    if !worth.unpriced.is_empty() {
        let names: Vec<String> = worth.unpriced.iter().map(|name| label(name)).collect();
        said.push(format!("without a price, so left out of all costs: {}", names.join(", ")));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::priced;

    #[test]
    fn changes_limits_and_money_are_said_in_words() {
        let sweep = priced();
        let parts = parts(&sweep);
        let said = |part: Part| -> Vec<&str> {
            let (_, sentences) = parts.iter().find(|(own, _)| *own == part).unwrap();
            sentences.iter().map(String::as_str).collect()
        };
        let changes = said(Part::Changes);
        let expected = "replicas.worker from 1 to 2: higher, 2,001 instead of 1,001 operations/s, x 2.00 (";
        assert!(changes[0].starts_with(expected), "{changes:?}");
        let expected =
            ", as predicted (x 2.00 to 2.11); +100.00 USD a month; worker (quota) limits before and after";
        assert!(changes[0].ends_with(expected), "{changes:?}");
        let expected = "replicas.worker from 2 to 4: not known, since no higher level missed for certain, \
                        predicted x 2.00 to 2.11; +100.00 USD a month; worker (quota) limits before, database (quota) after";
        assert_eq!(changes[1], expected);
        let limits = ["worker 1: worker (quota) (2 of 2 runs)", "worker 4: database (quota) (2 of 2 runs)"];
        assert_eq!([said(Part::Limits)[0], said(Part::Limits)[2]], limits);
        let worth = said(Part::Worth);
        assert_eq!(worth[0], "cheapest that sustains 1,500 operations/s: worker 2, 200.00 USD a month");
        assert!(
            worth[1].starts_with("most for the money: worker 1, 10.01 operations/s for each USD ("),
            "{worth:?}"
        );
        assert_eq!(worth[3], "without a price, so left out of all costs: agent");
    }

    #[test]
    fn a_sweep_without_load_lines_says_nothing() {
        assert!(parts(&crate::sweep::tests::sweep()).is_empty());
    }
}
