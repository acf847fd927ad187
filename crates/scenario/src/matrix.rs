//! What to vary: a scenario with a `matrix` is as many as its values have combinations. And its `quick` form.

use crate::check::shortened;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::outside::Outside;
use crate::overrides::{self, Change, Override};
use crate::plan::Plan;
use crate::span::{Origin, Source, Span};
use crate::tree::{Entry, Node, Value};
use crate::{Environment, plan_of, reader};
use std::collections::HashSet;
use std::sync::Arc;

/// Most combinations: each is a run of its own.
const MOST_CELLS: usize = 1_000;
/// Most keys that vary, and most that the quick form sets.
const MOST_KEYS: usize = 100;
/// Longest key, in bytes.
const LONGEST_KEY: usize = 1_000;
/// Most errors that are looked for: those of the first combinations are mostly those of all.
const MOST_ERRORS: usize = 100;

/// A scenario and what varies in it: each combination was checked, and is planned when it is asked for. All files were read.
pub struct Matrix {
    /// What varies, as written; none in a scenario without a `matrix`.
    pub axes: Vec<Axis>,
    /// The plan of the first combination, which is the only one where nothing varies.
    pub first: Plan,
    /// The scenario without what varies.
    root: Node,
    outside: Outside,
}

/// A key that takes several values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key, such as `population.devices`.
    pub key: String,
    /// Its values, as written.
    pub values: Vec<String>,
    span: Span,
    nodes: Vec<Node>,
}

impl Matrix {
    /// How many runs it is.
    pub fn combinations(&self) -> usize {
        combinations(&self.axes).unwrap_or_default()
    }

    /// Whether a key, a part of it or what it is a part of has several values.
    pub fn varies(&self, key: &str) -> bool {
        let touches = |axis: &str| is_within(axis, Some(key)) || is_within(key, Some(axis));
        self.axes.iter().any(|axis| axis.values.len() > 1 && touches(&axis.key))
    }

    /// Each combination: the index of its value on each axis, the last axis changing fastest. One where nothing varies.
    pub fn positions(&self) -> impl Iterator<Item = Vec<usize>> {
        positions(&self.axes)
    }

    /// The plan of a combination with that seed.
    ///
    /// # Errors
    /// A position beyond the axes may come to no scenario; those of [`Matrix::positions`] were checked.
    pub fn plan(&self, position: &[usize], seed: u64) -> Result<Plan, Diagnostics> {
        let mut root = self.root.clone();
        let seed = Change {
            path: "seed".into(),
            span: self.root.span.clone(),
            value: Node::plain(seed.to_string(), &self.root.span),
        };
        let mut found = Diagnostics::default();
        seed.apply(&mut root, &mut found);
        let root = combined(root, &self.axes, position, &mut found);
        self.outside.as_read(|environment| plan_of(&root, environment, &self.outside.feeds, found))
    }

    /// The plan of a scenario in which nothing varies; an error where something does.
    pub fn one(self) -> Result<Plan, Diagnostics> {
        let Some(axis) = self.axes.first() else { return Ok(self.first) };
        let combinations = self.combinations();
        let runs = if combinations == 1 { "run" } else { "runs" };
        let message = format!("the scenario has a `matrix`: it is {combinations} {runs}");
        let help = "`plimsoll sweep` runs all of them; `--set matrix=null` leaves what does not vary";
        Err(Diagnostics(vec![Diagnostic::new(&axis.span, message).help(help)]))
    }
}

/// Reads a scenario file, in its quick form if asked for, sets the overrides, and checks each combination of what varies. The error
/// holds everything that is wrong, with its places.
pub fn matrix(
    source: &Source,
    quick: bool,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Matrix, Diagnostics> {
    let mut found = Diagnostics::default();
    let origin = Arc::new(Origin::File(source.clone()));
    let Some(mut root) = reader::read(&origin, &source.text, 0, &mut found) else { return Err(found) };
    // What changes the scenario, and its `matrix` first of all, the later over the earlier.
    let mut changes: Vec<Change> = take(&mut root, "matrix").into_iter().collect();
    match take(&mut root, "quick") {
        Some(form) if quick => changes.extend(changes_of(form, &mut found)),
        None if quick => {
            let message = "`--quick` was asked for, but the scenario does not say what is quick";
            found.push(Diagnostic::new(&root.span, message).help("write `quick: { load.hold: 2s }`"));
        }
        _ => {}
    }
    changes.extend(overrides::changes(overrides, &mut found));
    let mut axes = Vec::new();
    for change in changes {
        let (name, below) = match change.path.split_once('.') {
            Some((name, below)) => (name, Some(below.to_owned())),
            None => (change.path.as_str(), None),
        };
        match name {
            "matrix" => vary(&mut axes, below, change, &mut found),
            "quick" => {
                let message = "the quick form is set where it is written, in the scenario's file";
                found.push(Diagnostic::new(&change.span, message).help("set the key itself"));
            }
            _ => change.apply(&mut root, &mut found),
        }
    }
    let outside = Outside::default();
    let first = match check_axes(&axes, &mut found) {
        true => outside.of(environment, |environment| check(&root, &axes, environment, &outside, &mut found)),
        false => None,
    };
    match first {
        Some(first) if found.is_empty() => Ok(Matrix { axes, first, root, outside }),
        _ => Err(found),
    }
}

/// Plans each combination, and keeps the first plan alone.
fn check(
    root: &Node,
    axes: &[Axis],
    environment: &Environment<'_>,
    outside: &Outside,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut first = None;
    for position in positions(axes) {
        if found.0.len() >= MOST_ERRORS {
            break;
        }
        let mut wrong = Diagnostics::default();
        let root = combined(root.clone(), axes, &position, &mut wrong);
        let planned = plan_of(&root, environment, &outside.feeds, wrong);
        match planned {
            Ok(plan) if plan.schedule.is_some() && !axes.is_empty() => {
                let diagnostic = Diagnostic::new(root.locate("schedule"), "a sweep has no `schedule`");
                found.push(diagnostic.help("`--set schedule=null` leaves it out"));
                break;
            }
            Ok(plan) => {
                first.get_or_insert(plan);
            }
            // What is wrong whatever the combination is told once.
            Err(Diagnostics(more)) => {
                for diagnostic in more {
                    if !found.0.contains(&diagnostic) {
                        found.push(diagnostic);
                    }
                }
            }
        }
    }
    first
}

/// The scenario with the values of one combination.
fn combined(mut root: Node, axes: &[Axis], position: &[usize], found: &mut Diagnostics) -> Node {
    for (axis, value) in axes.iter().zip(position) {
        let Some(value) = axis.nodes.get(*value) else { continue };
        let change = Change { path: axis.key.clone(), span: axis.span.clone(), value: value.clone() };
        change.apply(&mut root, found);
    }
    root
}

/// How many combinations there are; `None` where they are too many.
fn combinations(axes: &[Axis]) -> Option<usize> {
    let cells = axes.iter().try_fold(1_usize, |cells, axis| cells.checked_mul(axis.nodes.len()));
    cells.filter(|cells| *cells <= MOST_CELLS)
}

fn positions(axes: &[Axis]) -> impl Iterator<Item = Vec<usize>> {
    (0..combinations(axes).unwrap_or_default()).map(move |number| position(number, axes))
}

/// The combination of that number, the last axis changing fastest.
fn position(mut number: usize, axes: &[Axis]) -> Vec<usize> {
    let mut position: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let values = axis.nodes.len().max(1);
            let index = number % values;
            number /= values;
            index
        })
        .collect();
    position.reverse();
    position
}

/// Takes a key out of the tree, as what it is to change.
fn take(root: &mut Node, key: &str) -> Option<Change> {
    let Value::Map(entries) = &mut root.value else { return None };
    let position = entries.iter().position(|entry| entry.key == key)?;
    Some(change_of(entries.remove(position)))
}

fn change_of(entry: Entry) -> Change {
    Change { path: entry.key, span: entry.key_span, value: entry.value }
}

/// What the quick form changes.
fn changes_of(form: Change, found: &mut Diagnostics) -> Vec<Change> {
    match form.value.value {
        Value::Map(entries) if entries.len() <= MOST_KEYS => entries.into_iter().map(change_of).collect(),
        Value::Map(_) => {
            let message = format!("`quick` sets more than {MOST_KEYS} keys");
            found.push(Diagnostic::new(&form.span, message));
            Vec::new()
        }
        _ => {
            found.push(not_keys("quick", &form.value));
            Vec::new()
        }
    }
}

fn not_keys(name: &str, node: &Node) -> Diagnostic {
    let message = format!("`{name}`: expected keys of the scenario, found {}", node.what());
    Diagnostic::new(&node.span, message).help(match name {
        "quick" => "write `quick: { load.hold: 2s }`",
        _ => VARY,
    })
}

const VARY: &str = "write `matrix: { population.devices: [10, 100] }`";

/// Changes what varies, as a whole or below a key. Both forms may be written, `a.b: [1]` and `a: { b: [1] }`; keys or nothing in place
/// of values take away what varied there.
fn vary(axes: &mut Vec<Axis>, key: Option<String>, change: Change, found: &mut Diagnostics) {
    let replaces = matches!(change.value.value, Value::Map(_)) || change.value.is_null();
    let above = key.clone();
    let mut written = Vec::new();
    gather(key, change.span, change.value, &mut written, found);
    let mut known = HashSet::new();
    for Axis { key, span, .. } in &written {
        if !known.insert(key.as_str()) {
            let message = format!("`matrix` has `{key}` twice, in two forms");
            found.push(Diagnostic::new(span, message));
        }
    }
    axes.retain(|axis| {
        !replaces || known.contains(axis.key.as_str()) || !is_within(&axis.key, above.as_deref())
    });
    for new in written {
        match axes.iter_mut().find(|axis| axis.key == new.key) {
            Some(axis) => *axis = new,
            None => axes.push(new),
        }
    }
    if let Some(axis) = axes.get(MOST_KEYS) {
        found.push(Diagnostic::new(&axis.span, format!("`matrix` has more than {MOST_KEYS} keys")));
        axes.truncate(MOST_KEYS);
    }
}

/// Whether a key is that one or below it; all are where none is named.
fn is_within(key: &str, above: Option<&str>) -> bool {
    let Some(above) = above else { return true };
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The lists of values within nested maps, one more than there may be at most; what is neither is an error.
fn gather(key: Option<String>, span: Span, node: Node, axes: &mut Vec<Axis>, found: &mut Diagnostics) {
    if let Some(key) = key.as_ref().filter(|key| key.len() > LONGEST_KEY || key.split('.').any(str::is_empty))
    {
        let message = format!("`{}` is no key such as `load.hold`", shortened(key));
        found.push(Diagnostic::new(&span, message).help(VARY));
        return;
    }
    match (node.value, key) {
        (Value::Map(entries), key) if key.is_none() || !entries.is_empty() => {
            for Entry { key: name, key_span, value } in entries {
                if axes.len() > MOST_KEYS {
                    return;
                }
                let key = key.as_ref().map_or(name.clone(), |above| format!("{above}.{name}"));
                gather(Some(key), key_span, value, axes, found);
            }
        }
        (Value::List(nodes), Some(key)) if !nodes.is_empty() => {
            axes.push(Axis { key, values: nodes.iter().map(written).collect(), span, nodes });
        }
        (value, key) => {
            let node = Node { value, span: node.span };
            match key {
                // An axis can be taken away from the command line.
                _ if node.is_null() => {}
                None => found.push(not_keys("matrix", &node)),
                Some(key) => {
                    let message = format!("`matrix.{key}`: expected a list of values, found {}", node.what());
                    found.push(Diagnostic::new(&node.span, message).help(VARY));
                }
            }
        }
    }
}

/// Reports what is wrong with the axes themselves. Whether there are few enough combinations to look at each.
fn check_axes(axes: &[Axis], found: &mut Diagnostics) -> bool {
    let Some(first) = axes.first().filter(|_| combinations(axes).is_none()) else {
        axes.iter().for_each(|axis| check_axis(axis, axes, found));
        return true;
    };
    let message = format!("`matrix` has more than {MOST_CELLS} combinations, each of which is a run");
    found.push(Diagnostic::new(&first.span, message));
    false
}

fn check_axis(axis: &Axis, axes: &[Axis], found: &mut Diagnostics) {
    let Axis { key, values, span, .. } = axis;
    let mut known = HashSet::new();
    if let Some(twice) = values.iter().find(|value| !known.insert(value.as_str())) {
        let message = format!("`matrix.{key}` has the value {} twice", shortened(twice));
        found.push(Diagnostic::new(span, message));
    }
    if key == "seed" {
        let message = "the seed varies by itself: each turn of `plimsoll sweep` has its own";
        found.push(Diagnostic::new(span, message));
    }
    if ["matrix", "quick"].into_iter().any(|own| is_within(key, Some(own))) {
        found.push(Diagnostic::new(span, format!("`{key}` is nothing that can vary")));
    }
    let below = axes.iter().filter(|other| other.key != *key && is_within(&other.key, Some(key)));
    for other in below {
        let message = format!("`matrix` has both `{key}` and `{}`, which is a part of it", other.key);
        let help = format!("keep one of them: `--set matrix.{}=null` takes one away", other.key);
        found.push(Diagnostic::new(&other.span, message).help(help));
    }
}

/// A value as it would be written in one line.
pub(crate) fn written(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar.text.clone(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|entry| format!("{}: {}", entry.key, written(&entry.value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "
name: several
platform: embedded
population: { devices: 1 }
load: { levels: [10] }
matrix:
  population.devices: [5, 10]
  load:
    hold: [1s, 2s, 3s]
quick:
  load.samples: 2
  matrix.load.hold: [4s]
";

    const NOWHERE: Environment<'static> =
        Environment { profile: &|_| Err(String::new()), variable: &|_| None };

    fn read_in(
        environment: &Environment<'_>,
        text: &str,
        quick: bool,
        set: &[&str],
    ) -> Result<Matrix, String> {
        let source = Source { name: "f.yaml".into(), text: text.into() };
        let overrides: Vec<Override> = set.iter().map(|text| Override((*text).into())).collect();
        // Long lines are wrapped.
        let told = |found: Diagnostics| found.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        matrix(&source, quick, &overrides, environment).map_err(told)
    }

    fn read(text: &str, quick: bool, set: &[&str]) -> Result<Matrix, String> {
        read_in(&NOWHERE, text, quick, set)
    }

    /// A scenario with more lines at its end.
    fn plain(lines: &str) -> String {
        format!(
            "name: a\nplatform: embedded\npopulation: {{ devices: 1 }}\nload: {{ levels: [10] }}\n{lines}\n"
        )
    }

    fn plans(matrix: &Matrix) -> Vec<Plan> {
        matrix.positions().map(|position| matrix.plan(&position, 1).unwrap()).collect()
    }

    fn told(matrix: &Matrix) -> Vec<(u32, f64)> {
        plans(matrix).iter().map(|plan| (plan.devices, plan.load.hold.as_secs_f64())).collect()
    }

    fn axes(matrix: &Matrix) -> Vec<(&str, String)> {
        matrix.axes.iter().map(|axis| (axis.key.as_str(), axis.values.join(" "))).collect()
    }

    #[test]
    fn each_combination_is_a_plan() {
        let matrix = read(SCENARIO, false, &[]).unwrap();
        let expected = [(5, 1.0), (5, 2.0), (5, 3.0), (10, 1.0), (10, 2.0), (10, 3.0)];
        assert_eq!(told(&matrix), expected);
        assert_eq!((matrix.combinations(), matrix.first.devices), (6, 5));
        assert_eq!(matrix.positions().nth(4).unwrap(), [1, 1]);
        assert_eq!(axes(&matrix), [("population.devices", "5 10".into()), ("load.hold", "1s 2s 3s".into())]);
        let plan = matrix.plan(&[1, 2], u64::MAX).unwrap();
        assert_eq!((plan.seed, plan.devices), (u64::MAX, 10));
        assert!(plan.resolved.contains(&format!("seed: {}", u64::MAX)), "{}", plan.resolved);
    }

    /// What stood in files and variables when the scenario was read holds for all runs, however late.
    #[test]
    fn everything_is_read_once_and_shared() {
        let asked = std::cell::Cell::new(0);
        let file = |_: &str| {
            asked.set(asked.get() + 1);
            Ok(format!("v\n{}\n", asked.get()))
        };
        let environment = Environment { profile: &file, variable: &|_| Some(asked.get().to_string()) };
        let text = plain(
            "mqtt: { username: a, password: { env: P } }
message: { template: \"{marker} {feed:v}\", feed: { file: f.csv } }
matrix: { population.devices: [1, 2] }",
        );
        let matrix = read_in(&environment, &text, false, &[]).unwrap();
        let password = matrix.first.mqtt.password.clone().unwrap();
        asked.set(7);
        let plans = plans(&matrix);
        assert_eq!(asked.get(), 7, "nothing is read again");
        for plan in &plans {
            let mut row = Vec::new();
            plan.message.feed.as_ref().unwrap().write(0, 0, 0, &mut row);
            assert_eq!((row, plan.mqtt.password.as_ref()), (b"1".to_vec(), Some(&password)));
        }
    }

    /// The command line over the quick form over the file, in whichever form each is written.
    #[test]
    fn a_later_source_takes_the_place_of_an_earlier_one() {
        let text = plain(
            "matrix: { load: { hold: [1s, 2s], samples: [2, 3] }, population.devices: [5] }
quick:
  matrix: { population.devices: [2, 3], load.hold: [4s] }",
        );
        let axes = |quick, set: &[&str]| {
            axes(&read(&text, quick, set).unwrap())
                .into_iter()
                .map(|(key, values)| format!("{key} {values}"))
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(axes(true, &[]), "load.hold 4s; population.devices 2 3");
        assert_eq!(axes(true, &["matrix.population.devices=[40]"]), "load.hold 4s; population.devices 40");
        assert_eq!(axes(false, &["matrix={ load.hold: [9s] }"]), "load.hold 9s");
        assert_eq!(axes(false, &["matrix.load={ hold: [9s] }"]), "load.hold 9s; population.devices 5");
        assert_eq!(axes(false, &["matrix.load=null"]), "population.devices 5");
        assert_eq!(
            axes(false, &["matrix.load=null", "matrix.load.samples=[4]"]),
            "population.devices 5; load.samples 4"
        );
        assert_eq!(axes(false, &["matrix={}"]), "");
    }

    /// Both forms may stand side by side, also under one key.
    #[test]
    fn forms_are_mixed() {
        let text = SCENARIO.replace("  load:\n", "  population: { subscribers: [0, 1] }\n  load:\n");
        let keys: Vec<String> =
            read(&text, false, &[]).unwrap().axes.into_iter().map(|axis| axis.key).collect();
        assert_eq!(keys, ["population.devices", "population.subscribers", "load.hold"]);
    }

    #[test]
    fn the_quick_form_and_the_command_line_change_what_varies() {
        let matrix = read(SCENARIO, true, &[]).unwrap();
        assert_eq!(told(&matrix), [(5, 4.0), (10, 4.0)]);
        assert_eq!(matrix.first.load.samples, 2);
        let matrix = read(SCENARIO, true, &["matrix.population.devices=[7]"]).unwrap();
        assert_eq!(told(&matrix), [(7, 4.0)]);
        let matrix = read(SCENARIO, false, &["matrix.load.hold=null", "load.hold=9s"]).unwrap();
        assert_eq!(told(&matrix), [(5, 9.0), (10, 9.0)]);
        let matrix = read(SCENARIO, false, &["matrix=null"]).unwrap();
        assert_eq!((matrix.axes.len(), matrix.combinations()), (0, 1));
        assert_eq!(matrix.one().unwrap().devices, 1);
    }

    #[test]
    fn what_is_wrong_is_told_once_with_its_place() {
        for (line, expected) in [
            ("matrix: 5", "expected keys of the scenario, found a number"),
            ("matrix: [1, 2]", "expected keys of the scenario, found a list"),
            ("matrix: { \"\": [1, 2] }", "`` is no key such as"),
            ("matrix: { \"\": { population.devices: [1, 2] } }", "`` is no key such as"),
            ("matrix: { population..devices: [1, 2] }", "`population..devices` is no key such as"),
            ("matrix: { population.devices: 5 }", "expected a list of values, found a number"),
            ("matrix: { population.devices: [] }", "expected a list of values"),
            ("matrix: { population: {} }", "expected a list of values, found a map"),
            ("matrix: { population.devices: [1, many] }", "`population.devices`"),
            ("matrix: { population.gadgets: [1, 2] }", "unknown key `gadgets`"),
            ("matrix: { name.x: [1, 2] }", "it has no `x`"),
            ("matrix: { population.devices: [1, 2], population: { devices: [3] } }", "twice, in two forms"),
            ("matrix: { population.devices: [1, 1] }", "has the value 1 twice"),
            ("matrix: { seed: [1, 2] }", "the seed varies by itself"),
            ("matrix: { matrix.population.devices: [1, 2] }", "is nothing that can vary"),
            ("matrix: { load.hold: [1s], load: [{ levels: [1] }] }", "both `load` and `load.hold`"),
            (
                "matrix: { load.levels: [[1, 2]], load.levels.0: [3] }",
                "both `load.levels` and `load.levels.0`",
            ),
            ("matrix: { load.levels.00: [3] }", "`00` is no index"),
            ("matrix: { schedule: [null, { every: 1h, times: 2 }] }", "a sweep has no `schedule`"),
            ("quick: 5", "expected keys of the scenario, found a number"),
            ("quick: { matrix: [1, 2] }", "expected keys of the scenario, found a list"),
            ("quick: { quick: { load.hold: 1s } }", "the quick form is set where it is written"),
        ] {
            let errors = read(&plain(line), line.starts_with("quick"), &[]).err().unwrap_or_default();
            assert!(errors.contains(expected), "{line}: {errors}");
            assert_eq!(errors.matches(expected).count(), 1, "{line}: {errors}");
            assert!(errors.contains("f.yaml:5"), "{line}: {errors}");
        }
        assert!(read(&plain(""), true, &[]).err().unwrap().contains("does not say what is quick"));
    }

    #[test]
    fn what_is_set_wrongly_is_told_too() {
        for (set, expected) in [
            ("matrix=5", "`matrix`: expected keys of the scenario, found a number"),
            ("matrix=[1, 2]", "`matrix`: expected keys of the scenario, found a list"),
            ("matrix=text", "`matrix`: expected keys of the scenario, found a text"),
            ("matrix.=[1]", "is no key such as"),
            ("matrix.load=[{ levels: [1] }]", "both `load` and `load.hold`"),
            ("matrix.load.hold.x=[1]", "both `load.hold` and `load.hold.x`"),
            ("quick.load.hold=1s", "the quick form is set where it is written"),
        ] {
            let errors = read(SCENARIO, false, &[set]).err().unwrap_or_default();
            assert!(errors.contains(expected), "{set}: {errors}");
        }
    }

    /// What is too much is counted before it is looked at one by one.
    #[test]
    fn hostile_numbers_of_keys_and_values_are_refused() {
        let list = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        let keys = |count: usize| (0..count).map(|number| format!("  k{number}: [1]\n")).collect::<String>();
        for (lines, quick, expected) in [
            (
                format!("matrix: {{ load.samples: [{0}], population.devices: [{0}] }}", list(200)),
                false,
                "more than 1000 combinations",
            ),
            (
                format!("matrix: {{ population.devices: [{}] }}", list(20_000)),
                false,
                "more than 1000 combinations",
            ),
            (format!("matrix:\n{}", keys(20_000)), false, "more than 100 keys"),
            (format!("quick:\n{}", keys(20_000)), true, "more than 100 keys"),
            (format!("matrix: {{ {}: {{ b: [1] }} }}", "a".repeat(2_000)), false, "is no key such as"),
        ] {
            let errors = read(&plain(&lines), quick, &[]).err().unwrap_or_default();
            assert!(errors.contains(expected), "{expected}: {errors}");
        }
    }
}
