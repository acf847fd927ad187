//! What each change of a configuration did to the load line.

use super::{Axis, Cell, Quantity, Taken};
use crate::compare::mean;
use plimsoll_model::Validity;
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// One key goes from a value to the next one, and everything else stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Change {
    /// The index of the axis whose value changes.
    pub axis: usize,
    /// The combination before: the index of its value on each axis.
    pub from: Vec<usize>,
    /// The combination after.
    pub to: Vec<usize>,
    /// The load line after / that before, geometric means over the runs; null where some run has none.
    pub ratio: Option<f64>,
    /// The ratio at least, with 95 % confidence over the runs (Welch, on logarithms), and as far as the levels are apart; null where
    /// it is not known.
    pub least: Option<f64>,
    /// The ratio at most, in the same way.
    pub most: Option<f64>,
    /// What it did.
    pub effect: Effect,
    /// The ratio at least and at most, as the runs before it predict it: known of replicas and quotas of a component, where the runs
    /// say what limits; null of all else.
    pub predicted: Option<[f64; 2]>,
    /// What the platform costs more after it; null where it has no price.
    pub cost: Option<f64>,
}

impl Change {
    /// Whether the ratio may be what was predicted; `None` where nothing was, or what was measured says too little.
    pub fn is_as_predicted(&self) -> Option<bool> {
        let [low, high] = self.predicted?;
        let is_outside =
            self.least.is_some_and(|least| least > high) || self.most.is_some_and(|most| most < low);
        if is_outside { Some(false) } else { self.least.and(self.most).map(|_| true) }
    }
}

/// What a change did to the load line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The load line is higher after it.
    Higher,
    /// The load line is lower after it.
    Lower,
    /// The interval has 1 in it.
    NotDistinguishable,
    /// Above a load line no level missed for certain, so that the interval has no end.
    NoUpperBound,
    /// One of the combinations was run once.
    RunOnce,
    /// Some run has no load line: it met no level.
    NoLoadLine,
}

/// All changes between combinations that were run, axis by axis.
pub(super) fn of(axes: &[Axis], cells: &[Cell], taken: &[Taken]) -> Vec<Change> {
    let mut changes = Vec::new();
    for axis in 0..axes.len() {
        for cell in cells {
            let differs_there = |other: &&Cell| {
                let mut pairs = other.position.iter().zip(&cell.position).enumerate();
                pairs.all(
                    |(place, (after, before))| if place == axis { after > before } else { after == before },
                )
            };
            // The cells are in the order of the matrix, so the first one is the nearest.
            if let Some(next) = cells.iter().find(differs_there) {
                let mut found = change(axis, cell, next, taken);
                if let (Some(change), Some(key)) = (&mut found, axes.get(axis)) {
                    change.predicted = predicted(scaled(key, axis, cell, next), cell, taken);
                }
                changes.extend(found);
            }
        }
    }
    changes
}

/// What the reader must know of so many comparisons.
pub(super) fn note(changes: &[Change]) -> Option<String> {
    let found =
        changes.iter().filter(|change| matches!(change.effect, Effect::Higher | Effect::Lower)).count();
    let compared = changes.iter().filter(|change| change.least.or(change.most).is_some()).count();
    (found > 0).then(|| {
        format!(
            "{compared} changes were compared, each with 95 % confidence: if none did anything, one in twenty would still \
             be found to; {found} were"
        )
    })
}

/// `None` where no run of either combination has a load line: it was not looked for.
fn change(axis: usize, before: &Cell, after: &Cell, taken: &[Taken]) -> Option<Change> {
    let cost = |cell: &Cell| cell.measured(Quantity::Cost).map(|cost| cost.mean);
    let has_line = |run: &Taken| {
        (run.position == before.position || run.position == after.position) && run.line.is_some()
    };
    if !taken.iter().any(has_line) {
        return None;
    }
    let mut change = Change {
        axis,
        from: before.position.clone(),
        to: after.position.clone(),
        ratio: None,
        least: None,
        most: None,
        effect: Effect::NoLoadLine,
        predicted: None,
        cost: cost(before).zip(cost(after)).map(|(before, after)| after - before),
    };
    let (Some(before), Some(after)) = (Lines::of(before, taken), Lines::of(after, taken)) else {
        return Some(change);
    };
    change.ratio = mean(&before.lows).zip(mean(&after.lows)).map(|(before, after)| (after - before).exp());
    let Some(interval) = student::difference_interval(&before.lows, &after.lows) else {
        change.effect = Effect::RunOnce;
        return Some(change);
    };
    // Each line lies anywhere between the level that it met and the next one.
    change.least = before.room.map(|room| (interval.lo - room).exp());
    change.most = after.room.map(|room| (interval.hi + room).exp());
    change.effect = match (change.least, change.most) {
        (Some(least), _) if least > 1.0 => Effect::Higher,
        (_, Some(most)) if most < 1.0 => Effect::Lower,
        (Some(_), Some(_)) => Effect::NotDistinguishable,
        _ => Effect::NoUpperBound,
    };
    Some(change)
}

/// The component whose capacity a key is, and by which factor that changes.
fn scaled<'a>(axis: &'a Axis, place: usize, before: &Cell, after: &Cell) -> Option<(&'a str, f64)> {
    let below = |prefix: &str| axis.key.strip_prefix(prefix);
    let key = below("platform.replicas.").or_else(|| below("platform.quotas."))?;
    let (numbers, _) = axis.numbers()?;
    let at = |cell: &Cell| numbers.get(*cell.position.get(place)?).copied();
    let factor = at(after)? / at(before)?;
    let component = key.strip_suffix(".processors").unwrap_or(key);
    (factor.is_finite() && factor > 0.0).then_some((component, factor))
}

/// The ratio that the runs before a change predict, all of them together.
fn predicted(scaled: Option<(&str, f64)>, before: &Cell, taken: &[Taken]) -> Option<[f64; 2]> {
    let (component, factor) = scaled?;
    let runs = taken.iter().filter(|run| run.position == before.position);
    let each: Option<Vec<[f64; 2]>> =
        runs.map(|run| Some(run.headroom.as_ref()?.predicted(&[(component, factor)])?.ratio)).collect();
    let each = each.filter(|each| !each.is_empty())?;
    Some(each.iter().fold([f64::INFINITY, 0.0], |[low, high], one| [low.min(one[0]), high.max(one[1])]))
}

/// Where the load lines of a combination lie, in logarithms.
struct Lines {
    /// That of each run at least.
    lows: Vec<f64>,
    /// How much higher they may lie, on average; `None` where some run does not say so.
    room: Option<f64>,
}

impl Lines {
    /// Those of the runs that count; `None` where one has none.
    fn of(cell: &Cell, taken: &[Taken]) -> Option<Lines> {
        let is_valid =
            |run: &&Taken| run.level.as_ref().is_some_and(|level| level.validity == Validity::Valid);
        let (mut lows, mut rooms) = (Vec::new(), Vec::new());
        for run in taken.iter().filter(|run| run.position == cell.position).filter(is_valid) {
            let line = run.line.as_ref()?;
            let amount = line.amount().filter(|amount| *amount > 0.0)?;
            lows.push(amount.ln());
            rooms.push(line.most().map(|most| (most / amount).ln().max(0.0)));
        }
        let rooms: Option<Vec<f64>> = rooms.into_iter().collect();
        (!lows.is_empty()).then(|| Lines { lows, room: rooms.and_then(|rooms| mean(&rooms)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headroom::Headroom;
    use crate::level::LevelSummary;
    use crate::load_line::LoadLine;
    use crate::sweep::tests::bare;
    use crate::sweep::{Origin, Sweep};

    /// A run that sustained that rate, and missed the next one if it is above zero.
    fn run(position: &[usize], rate: f64, missed: f64) -> Taken {
        let line = LoadLine {
            rate: Some(rate),
            devices: None,
            connect_rate: None,
            level: 1,
            at_least: missed == 0.0,
            below: (missed > 0.0).then_some(missed),
            at_most: None,
            limited_by: None,
            next_level: None,
        };
        let level = LevelSummary { index: 1, finished: true, ..LevelSummary::default() };
        Taken { level: Some(level), line: Some(line), ..bare(position) }
    }

    fn sweep(runs: &[Taken]) -> Sweep {
        let axis = |key: &str| Axis { key: key.into(), values: vec!["1".into(), "2".into(), "4".into()] };
        Sweep::of("sweep", Origin::default(), vec![axis("replicas.a"), axis("replicas.b")], runs)
    }

    /// The effects of the changes along the first axis.
    fn effects(runs: &[Taken]) -> Vec<Effect> {
        let of_first = |change: &Change| (change.axis == 0).then_some(change.effect);
        sweep(runs).changes.iter().filter_map(of_first).collect()
    }

    #[test]
    fn a_change_leads_to_the_next_value_that_was_run_and_to_nothing_else() {
        let runs = [[0, 0], [0, 1], [2, 0], [2, 1], [1, 2]].map(|position| run(&position, 100.0, 110.0));
        let changes = sweep(&runs).changes;
        let found: Vec<(usize, &[usize], &[usize])> =
            changes.iter().map(|change| (change.axis, &change.from[..], &change.to[..])).collect();
        let first: [(usize, &[usize], &[usize]); 2] = [(0, &[0, 0], &[2, 0]), (0, &[0, 1], &[2, 1])];
        let second: [(usize, &[usize], &[usize]); 2] = [(1, &[0, 0], &[0, 1]), (1, &[2, 0], &[2, 1])];
        assert_eq!(found, [first, second].concat());
    }

    #[test]
    fn what_repeated_runs_keep_apart_is_an_effect() {
        let pair = |before: [(f64, f64); 3], after: [(f64, f64); 3]| {
            let of = |place: usize| move |(rate, missed)| run(&[place, 0], rate, missed);
            let runs: Vec<Taken> = before.map(of(0)).into_iter().chain(after.map(of(1))).collect();
            let change = sweep(&runs).changes.remove(0);
            (change.effect, change)
        };
        let near = [(1000.0, 1100.0), (1000.0, 1100.0), (1050.0, 1150.0)];
        let twice = near.map(|(rate, missed)| (2.0 * rate, 2.0 * missed));
        let (effect, change) = pair(near, twice);
        assert_eq!(effect, Effect::Higher);
        assert!((change.ratio.unwrap() - 2.0).abs() < 1e-9, "{change:?}");
        assert!(change.least.unwrap() < 1.85 && change.most.unwrap() > 2.15, "{change:?}");
        assert_eq!(pair(twice, near).0, Effect::Lower);
        assert_eq!(pair(near, near).0, Effect::NotDistinguishable);
        // The levels are as far apart as the lines seem to be: both may lie just at 2,000.
        let coarse = |rate: f64| [(rate, 2.0 * rate); 3];
        assert_eq!(pair(coarse(1000.0), coarse(2000.0)).0, Effect::NotDistinguishable);
        // What lies above all levels is higher than what missed them, and nothing else is known of it.
        let above = [(3000.0, 0.0); 3];
        let (effect, change) = pair(near, above);
        assert_eq!((effect, change.most), (Effect::Higher, None));
        assert_eq!(pair(above, above).0, Effect::NoUpperBound);
    }

    #[test]
    fn what_was_run_once_and_what_has_no_load_line_claims_nothing() {
        assert_eq!(effects(&[run(&[0, 0], 1.0, 1.1), run(&[1, 0], 9.0, 9.9)]), [Effect::RunOnce]);
        let without = || Taken { line: None, ..run(&[1, 0], 9.0, 9.9) };
        assert_eq!(effects(&[run(&[0, 0], 1.0, 1.1), without()]), [Effect::NoLoadLine]);
        assert!(effects(&[Taken { position: vec![0, 0], ..without() }, without()]).is_empty());
    }

    #[test]
    fn replicas_of_what_limits_are_predicted_and_those_of_others_change_nothing() {
        let with = |component: &str| {
            let headroom = || Headroom { component: component.into(), used: 0.8, others: Vec::new() };
            let of = |place: usize, rate: f64| Taken {
                headroom: Some(headroom()),
                ..run(&[place, 0], rate, rate * 1.05)
            };
            let key = "platform.replicas.store".to_owned();
            let axis = Axis { key, values: vec!["1".into(), "2".into()] };
            let runs = [of(0, 1000.0), of(0, 1010.0), of(1, 2100.0), of(1, 2110.0)];
            Sweep::of("sweep", Origin::default(), vec![axis], &runs).changes.remove(0)
        };
        let right = with("store");
        let [low, high] = right.predicted.unwrap();
        assert!((low - 2.0).abs() < 1e-6 && (high - 2.25).abs() < 1e-6, "{right:?}");
        assert_eq!(right.is_as_predicted(), Some(true));
        let wrong = with("front");
        assert_eq!((wrong.predicted, wrong.is_as_predicted()), (Some([1.0, 1.0]), Some(false)));
    }

    #[test]
    fn equal_platforms_are_rarely_found_to_differ() {
        let mut state = 7u64;
        let mut normal = || {
            // The sum of twelve uniform numbers is nearly normal.
            let uniform = |state: &mut u64| {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..12).map(|_| uniform(&mut state)).sum::<f64>() - 6.0
        };
        let mut found = 0;
        for _ in 0..1000 {
            let runs: Vec<Taken> = (0..6)
                .map(|number| {
                    let rate = 1000.0 * (0.05 * normal()).exp();
                    // Levels so close that they take nothing from what chance does.
                    run(&[number % 2, 0], rate, rate * 1.000_001)
                })
                .collect();
            found += usize::from(effects(&runs)[0] != Effect::NotDistinguishable);
        }
        // Of 1,000 at 5 %, the 99 % interval of the binomial law is 33 to 69; Welch is a little wide with so few runs.
        assert!((20..=69).contains(&found), "{found}");
    }
}
