//! What to vary: a scenario with a `matrix` is as many as its values have combinations. And its `quick` form.

use crate::aliases;
use crate::check::shortened;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::inputs::Inputs;
use crate::overrides::{self, Change, Override};
use crate::plan::Plan;
use crate::planning::plan_of;
use crate::reader;
use crate::span::{Origin, SourceFile, Span};
use crate::tree::{Entry, Node, Value, is_within};
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
    inputs: Arc<Inputs>,
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
        let planned =
            self.inputs.as_read(|environment| plan_of(&root, environment, &self.inputs.parsed, None, found));
        planned.map(|plan| plan.with_draft(&root, &self.inputs))
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
    source: &SourceFile,
    quick: bool,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Matrix, Diagnostics> {
    let mut found = Diagnostics::default();
    let origin = Arc::new(Origin::File(source.clone()));
    let Some(mut root) = reader::read(&origin, &source.text, 0, &mut found) else { return Err(found) };
    aliases::rename(&mut root, &mut found);
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
    let axes = apply(changes, &mut root, &mut found);
    made_of(root, axes, environment, found)
}

/// Changes the scenario, and gives what varies in it then.
pub(crate) fn apply(changes: Vec<Change>, root: &mut Node, found: &mut Diagnostics) -> Vec<Axis> {
    let mut axes = Vec::new();
    for change in changes {
        let (name, below) = match change.path.split_once('.') {
            Some((name, below)) => (name, Some(below.to_owned())),
            None => (change.path.as_str(), None),
        };
        match name {
            "matrix" => vary(&mut axes, below, change, found),
            "quick" => {
                let message = "the quick form is set where it is written, in the scenario's file";
                found.push(Diagnostic::new(&change.span, message).help("set the key itself"));
            }
            _ => change.apply(root, found),
        }
    }
    axes
}

/// Checks each combination of what varies in a scenario. The error holds that and what was found before.
pub(crate) fn made_of(
    root: Node,
    axes: Vec<Axis>,
    environment: &Environment<'_>,
    mut found: Diagnostics,
) -> Result<Matrix, Diagnostics> {
    let inputs = Arc::new(Inputs::default());
    let first = match check_axes(&axes, &mut found) {
        true => inputs.of(environment, |environment| check(&root, &axes, environment, &inputs, &mut found)),
        false => None,
    };
    match first {
        Some(first) if found.is_empty() => Ok(Matrix { axes, first, root, inputs }),
        _ => Err(found),
    }
}

/// Plans each combination, and keeps the first plan alone.
fn check(
    root: &Node,
    axes: &[Axis],
    environment: &Environment<'_>,
    inputs: &Arc<Inputs>,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut first = None;
    for position in positions(axes) {
        if found.0.len() >= MOST_ERRORS {
            break;
        }
        let mut wrong = Diagnostics::default();
        let root = combined(root.clone(), axes, &position, &mut wrong);
        let planned = plan_of(&root, environment, &inputs.parsed, None, wrong);
        match planned {
            Ok(plan) if plan.schedule.is_some() && !axes.is_empty() => {
                let diagnostic = Diagnostic::new(root.locate("schedule"), "a sweep has no `schedule`");
                found.push(diagnostic.help("`--set schedule=null` leaves it out"));
                break;
            }
            Ok(plan) => {
                first.get_or_insert_with(|| plan.with_draft(&root, inputs));
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

const VARY: &str =
    "write `matrix: { population.devices: [10, 100] }`, or `--set 'matrix.population.devices=[10, 100]'`";

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
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|entry| format!("{}: {}", entry.key, written(&entry.value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
