//! From the tree of a scenario to its plan: one population, or several that are put together.

use crate::brought_up::BroughtUp;
use crate::config::Scenario;
use crate::context::Context;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::inputs::Parsed;
use crate::plan::Plan;
use crate::populations::{self, Part};
use crate::tree::Node;
use crate::{check, resolve, schema, yaml};

/// Checks and resolves a tree. What the tree check finds is reported before conflicts are looked for, because a
/// missing or misspelt key would make half of those wrong. `brought_up` is what a command has printed that brought the platform up.
pub(crate) fn plan_of(
    root: &Node,
    environment: &Environment<'_>,
    parsed: &Parsed,
    brought_up: Option<&BroughtUp>,
    mut found: Diagnostics,
) -> Result<Plan, Diagnostics> {
    let parts = populations::parts(root, &schema::POPULATION, &mut found);
    let planned = match &parts {
        None if !found.is_empty() => None,
        None => {
            let mut context =
                Context { root, environment, parsed, found: &mut found, part: None, brought_up };
            planned(&mut context).map(|(plan, json)| Plan { resolved: yaml::write(&json), ..plan })
        }
        Some(parts) => several(parts, root, (environment, parsed), brought_up, &mut found),
    };
    planned.filter(|_| found.is_empty()).ok_or(found)
}

/// The plan of a run of several populations.
fn several(
    parts: &[Part],
    root: &Node,
    (environment, parsed): (&Environment<'_>, &Parsed),
    brought_up: Option<&BroughtUp>,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut plans = Vec::new();
    for part in parts {
        let mut wrong = Diagnostics::default();
        let mut context = Context {
            root: &part.root,
            environment,
            parsed,
            found: &mut wrong,
            part: Some(part),
            brought_up,
        };
        plans.extend(planned(&mut context));
        // What is wrong with the scenario itself is told once.
        for diagnostic in wrong.0 {
            if !found.0.contains(&diagnostic) {
                found.push(diagnostic);
            }
        }
    }
    if !found.is_empty() {
        return None;
    }
    let mut context = Context { root, environment, parsed, found, part: None, brought_up };
    populations::join(parts, plans, &schema::POPULATION, &mut context)
}

/// The plan of one population, and its scenario as resolved; `None` where something was found.
fn planned(context: &mut Context<'_>) -> Option<(Plan, serde_json::Value)> {
    let before = context.found.0.len();
    let json = check::check(context.root, &schema::POPULATION, context.found);
    if context.found.0.len() > before {
        return None;
    }
    match serde_json::from_value::<Scenario>(json) {
        Ok(scenario) => resolve::resolve(scenario, context),
        Err(error) => {
            context.found.push(Diagnostic::new(&context.root.span, format!("not a scenario: {error}")));
            None
        }
    }
}
