//! What to vary: a scenario with a `matrix` is as many as its values have combinations. And its `quick` form.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::overrides::{self, Override};
use crate::plan::Plan;
use crate::span::{Origin, Source, Span};
use crate::tree::{Entry, Node, Value};
use crate::{Environment, plan_of, reader};
use std::sync::Arc;

/// Most combinations: each is a run of its own.
const MOST_CELLS: usize = 1_000;
/// Most errors that are looked for: those of the first combinations are mostly those of all.
const MOST_ERRORS: usize = 100;
/// Deepest nesting of keys within `matrix`.
const DEEPEST: usize = 32;

/// A scenario and what varies in it.
pub struct Matrix {
    /// What varies, as written; none in a scenario without a `matrix`.
    pub axes: Vec<Axis>,
    /// Each combination of values, the last axis changing fastest; one where nothing varies.
    pub cells: Vec<Cell>,
}

impl Matrix {
    /// The plan of a scenario in which nothing varies; an error where something does.
    pub fn one(self) -> Result<Plan, Diagnostics> {
        let runs = self.cells.len();
        let mut cells = self.cells.into_iter();
        match (self.axes.first(), cells.next()) {
            (None, Some(cell)) => Ok(cell.plan),
            (Some(axis), _) => {
                let message = format!("the scenario has a `matrix`: it is {runs} runs");
                let help = "`plimsoll sweep` runs all of them; `--set matrix=null` leaves what does not vary";
                Err(Diagnostics(vec![Diagnostic::new(&axis.span, message).help(help)]))
            }
            (None, None) => Err(Diagnostics::default()),
        }
    }
}

/// A key that takes several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, such as `population.devices`.
    pub key: String,
    /// Its values, as written.
    pub values: Vec<String>,
    span: Span,
}

/// One combination.
pub struct Cell {
    /// The index of its value on each axis.
    pub position: Vec<usize>,
    /// What it comes to.
    pub plan: Plan,
}

/// An axis with the places of its values.
struct Varied {
    key: String,
    span: Span,
    values: Vec<Node>,
}

/// Reads a scenario file, in its quick form if asked for, sets the overrides, and checks and resolves each combination of what
/// varies. The error holds everything that is wrong, with its places.
pub fn matrix(
    source: &Source,
    quick: bool,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Matrix, Diagnostics> {
    let mut found = Diagnostics::default();
    let origin = Arc::new(Origin::File(source.clone()));
    let Some(mut root) = reader::read(&origin, &source.text, 0, &mut found) else { return Err(found) };
    nest(&mut root, &mut found);
    if let Some(changes) = take(&mut root, "quick") {
        if quick {
            set_all(&changes, &mut root, &mut found);
        }
    } else if quick {
        let message = "`--quick` was asked for, but the scenario does not say what is quick";
        found.push(Diagnostic::new(&root.span, message).help("write `quick: { load.hold: 2s }`"));
    }
    overrides::apply(overrides, &mut root, &mut found);
    let varied = take(&mut root, "matrix").map(|node| varied(&node, &mut found)).unwrap_or_default();
    let cells = varied.iter().try_fold(1_usize, |cells, axis| cells.checked_mul(axis.values.len()));
    let cells = cells.filter(|cells| *cells <= MOST_CELLS);
    if let (None, Some(axis)) = (cells, varied.first()) {
        let message = format!("`matrix` has more than {MOST_CELLS} combinations, each of which is a run");
        found.push(Diagnostic::new(&axis.span, message));
    }
    let mut planned = Vec::new();
    for number in 0..cells.unwrap_or_default() {
        if found.0.len() >= MOST_ERRORS {
            break;
        }
        let position = position(number, &varied);
        match cell(&root, &varied, &position, environment) {
            Ok(plan) => planned.push(Cell { position, plan }),
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
    if !found.is_empty() {
        return Err(found);
    }
    let axes = varied.iter().map(|axis| Axis {
        key: axis.key.clone(),
        values: axis.values.iter().map(written).collect(),
        span: axis.span.clone(),
    });
    Ok(Matrix { axes: axes.collect(), cells: planned })
}

/// The scenario with the values of one combination.
fn cell(
    root: &Node,
    varied: &[Varied],
    position: &[usize],
    environment: &Environment<'_>,
) -> Result<Plan, Diagnostics> {
    let mut found = Diagnostics::default();
    let mut root = root.clone();
    for (axis, value) in varied.iter().zip(position) {
        let Some(value) = axis.values.get(*value) else { continue };
        if let Err(message) = overrides::set(&mut root, &axis.key, &axis.span, value.clone()) {
            found.push(Diagnostic::new(&axis.span, message));
        }
    }
    plan_of(&root, environment, found)
}

/// The combination of that number, the last axis changing fastest.
fn position(mut number: usize, varied: &[Varied]) -> Vec<usize> {
    let mut position: Vec<usize> = varied
        .iter()
        .rev()
        .map(|axis| {
            let values = axis.values.len().max(1);
            let index = number % values;
            number /= values;
            index
        })
        .collect();
    position.reverse();
    position
}

/// Writes `a.b: [1]` within `matrix` as `a: { b: [1] }`, so that both forms can be set from the command line.
fn nest(root: &mut Node, found: &mut Diagnostics) {
    let Some(matrix) = take(root, "matrix") else { return };
    let Value::Map(_) = &matrix.value else {
        found.push(not_keys("matrix", &matrix));
        return;
    };
    let mut nested = Node::empty_map(&matrix.span);
    let mut leaves = Vec::new();
    gather(&matrix, "", &matrix.span, 0, &mut leaves);
    for (path, span, value) in leaves {
        if nested.has(&path) {
            let message = format!("`matrix` has `{path}` twice, in two forms");
            found.push(Diagnostic::new(span, message));
        } else if let Err(message) = overrides::set(&mut nested, &path, span, value.clone()) {
            found.push(Diagnostic::new(span, message));
        }
    }
    if let Value::Map(entries) = &mut root.value {
        entries.push(Entry { key: "matrix".into(), key_span: matrix.span.clone(), value: nested });
    }
}

/// Takes a key out of the tree.
fn take(root: &mut Node, key: &str) -> Option<Node> {
    let Value::Map(entries) = &mut root.value else { return None };
    let position = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(position).value)
}

/// Sets each key of the quick form.
fn set_all(changes: &Node, root: &mut Node, found: &mut Diagnostics) {
    let Value::Map(entries) = &changes.value else {
        found.push(not_keys("quick", changes));
        return;
    };
    for Entry { key, key_span, value } in entries {
        if let Err(message) = overrides::set(root, key, key_span, value.clone()) {
            found.push(Diagnostic::new(key_span, message));
        }
    }
}

fn not_keys(name: &str, node: &Node) -> Diagnostic {
    let message = format!("`{name}`: expected keys of the scenario, found {}", node.what());
    Diagnostic::new(&node.span, message).help(match name {
        "quick" => "write `quick: { load.hold: 2s }`",
        _ => "write `matrix: { population.devices: [10, 100] }`",
    })
}

/// The axes, in the order in which they are written.
fn varied(matrix: &Node, found: &mut Diagnostics) -> Vec<Varied> {
    let mut leaves = Vec::new();
    gather(matrix, "", &matrix.span, 0, &mut leaves);
    let mut axes = Vec::new();
    for (key, span, value) in leaves {
        match &value.value {
            Value::List(values) if !values.is_empty() => {
                let texts: Vec<String> = values.iter().map(written).collect();
                let twice = texts
                    .iter()
                    .enumerate()
                    .find(|(place, text)| texts.iter().take(*place).any(|one| one == *text));
                if let Some((_, text)) = twice {
                    found.push(Diagnostic::new(span, format!("`matrix.{key}` has the value {text} twice")));
                }
                if key == "seed" {
                    let message = "the seed varies by itself: each turn of `plimsoll sweep` has its own";
                    found.push(Diagnostic::new(span, message));
                }
                axes.push(Varied { key, span: span.clone(), values: values.clone() });
            }
            // An axis can be taken away from the command line.
            Value::Scalar(_) if value.is_null() => {}
            _ => {
                let message = format!("`matrix.{key}`: expected a list of values, found {}", value.what());
                let diagnostic = Diagnostic::new(&value.span, message);
                found.push(diagnostic.help("write `matrix: { population.devices: [10, 100] }`"));
            }
        }
    }
    axes
}

/// The values within nested maps, with their paths and the places of their keys.
fn gather<'n>(
    node: &'n Node,
    path: &str,
    span: &'n Span,
    depth: usize,
    leaves: &mut Vec<(String, &'n Span, &'n Node)>,
) {
    match &node.value {
        Value::Map(entries) if depth < DEEPEST && !entries.is_empty() => {
            for Entry { key, key_span, value } in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                gather(value, &path, key_span, depth + 1, leaves);
            }
        }
        _ if path.is_empty() => {}
        _ => leaves.push((path.to_owned(), span, node)),
    }
}

/// A value as it would be written in one line.
fn written(node: &Node) -> String {
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

    fn read(text: &str, quick: bool, set: &[&str]) -> Result<Matrix, String> {
        let source = Source { name: "f.yaml".into(), text: text.into() };
        let overrides: Vec<Override> = set.iter().map(|text| Override((*text).into())).collect();
        let environment = Environment { profile: &|_| Err("there is none".into()), variable: &|_| None };
        matrix(&source, quick, &overrides, &environment).map_err(|found| found.to_string())
    }

    fn told(matrix: &Matrix) -> Vec<(u32, f64)> {
        matrix.cells.iter().map(|cell| (cell.plan.devices, cell.plan.load.hold.as_secs_f64())).collect()
    }

    #[test]
    fn each_combination_is_a_plan() {
        let matrix = read(SCENARIO, false, &[]).unwrap();
        let expected = [(5, 1.0), (5, 2.0), (5, 3.0), (10, 1.0), (10, 2.0), (10, 3.0)];
        assert_eq!(told(&matrix), expected);
        assert_eq!(matrix.cells[4].position, [1, 1]);
        let axes: Vec<(&str, String)> =
            matrix.axes.iter().map(|axis| (axis.key.as_str(), axis.values.join(" "))).collect();
        assert_eq!(axes, [("population.devices", "5 10".into()), ("load.hold", "1s 2s 3s".into())]);
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
        assert_eq!(matrix.cells[0].plan.load.samples, 2);
        let matrix = read(SCENARIO, true, &["matrix.population.devices=[7]"]).unwrap();
        assert_eq!(told(&matrix), [(7, 4.0)]);
        let matrix = read(SCENARIO, false, &["matrix.load.hold=null", "load.hold=9s"]).unwrap();
        assert_eq!(told(&matrix), [(5, 9.0), (10, 9.0)]);
        let matrix = read(SCENARIO, false, &["matrix=null"]).unwrap();
        assert_eq!((matrix.axes.len(), matrix.cells.len()), (0, 1));
    }

    #[test]
    fn what_is_wrong_is_told_once_with_its_place() {
        for (line, expected) in [
            ("matrix: 5", "expected keys of the scenario, found a number"),
            ("matrix: { population.devices: 5 }", "expected a list of values, found a number"),
            ("matrix: { population.devices: [] }", "expected a list of values"),
            ("matrix: { population.devices: [1, many] }", "`population.devices`"),
            ("matrix: { population.gadgets: [1, 2] }", "unknown key `gadgets`"),
            ("matrix: { name.x: [1, 2] }", "it has no `x`"),
            ("matrix: { population.devices: [1, 2], population: { devices: [3] } }", "twice, in two forms"),
            ("matrix: { population.devices: [1, 1] }", "has the value 1 twice"),
            ("matrix: { seed: [1, 2] }", "the seed varies by itself"),
            ("quick: 5", "expected keys of the scenario, found a number"),
        ] {
            let text = format!(
                "name: a\nplatform: embedded\npopulation: {{ devices: 1 }}\nload: {{ levels: [10] }}\n{line}\n"
            );
            let errors = read(&text, line.starts_with("quick"), &[]).err().unwrap_or_default();
            assert!(errors.contains(expected), "{line}: {errors}");
            assert_eq!(errors.matches(expected).count(), 1, "{line}: {errors}");
            assert!(errors.contains("f.yaml:5"), "{line}: {errors}");
        }
        let many: Vec<String> = (1..200).map(|number| number.to_string()).collect();
        let many = many.join(", ");
        let text =
            SCENARIO.replace("[5, 10]", &format!("[{many}]")).replace("[1s, 2s, 3s]", &format!("[{many}]"));
        assert!(read(&text, false, &[]).err().unwrap().contains("more than 1000 combinations"));
        let plain = "name: a\nplatform: embedded\npopulation: { devices: 1 }\nload: { levels: [10] }\n";
        assert!(read(plain, true, &[]).err().unwrap().contains("does not say what is quick"));
    }
}
