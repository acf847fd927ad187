//! Scenario and platform-profile files: read with locations, checked whole, turned into a [`plan::Plan`].
//!
//! A file goes through four steps: `reader` gives a tree in which everything knows its place, `check` compares the
//! tree with the schema of the types in `config`, `resolve` fills in defaults and finds conflicts, and the result
//! is the plan. Each step reports everything that it finds wrong at once. Pure: files and the environment are
//! reached through what the caller passes.

mod address;
mod aliases;
mod captures;
mod check;
pub mod city;
mod config;
mod context;
mod diagnostic;
mod duration;
mod facts;
mod feeds;
mod input_cache;
mod inputs;
mod matrix;
mod names;
mod numbers;
mod objective;
mod observations;
mod overrides;
pub mod plan;
mod populations;
pub mod profile;
mod profiles;
mod protocols;
mod quantity;
mod quick;
mod reader;
mod resolve;
mod schema;
mod secret;
mod settings;
mod span;
mod template;
mod tree;
mod words;
mod wrap;
mod yaml;

pub use captures::Captures;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use matrix::{Axis, Matrix, matrix};
pub use numbers::numbers;
pub use overrides::Override;
pub use profiles::platform_schema;
pub use profiles::{profile, profiles, read_profile};
pub use quantity::duration;
pub use quick::{PASSWORD_VARIABLE, QuickOptions, quick};
pub use schema::scenario_schema;
pub use settings::settings;
pub use span::{SourceFile, Span};
pub use template::{Columns, Variables};
pub use wrap::wrapped;

use config::Scenario;
use context::Context;
use feeds::Feeds;
use plan::Plan;
use populations::Part;
use std::sync::LazyLock;
use tree::Node;

/// Made once: a matrix asks for it a thousand times.
static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(schema::population_schema);

/// What reading a scenario needs of the world outside.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Reads a file that the scenario names, a profile or a certificate, by its path as written, relative to the
    /// scenario's folder; the error says why not.
    pub profile: &'a dyn Fn(&str) -> Result<String, String>,
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads the file of a scenario that is one run, sets the overrides, checks the whole and resolves it. The error holds
/// everything that is wrong, with its places.
pub fn load(
    source: &SourceFile,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Plan, Diagnostics> {
    matrix(source, false, overrides, environment)?.one()
}

/// Checks and resolves a tree. What the tree check finds is reported before conflicts are looked for, because a
/// missing or misspelt key would make half of those wrong.
fn plan_of(
    root: &Node,
    environment: &Environment<'_>,
    feeds: &Feeds,
    mut found: Diagnostics,
) -> Result<Plan, Diagnostics> {
    let parts = populations::parts(root, &SCHEMA, &mut found);
    let planned = match &parts {
        None if !found.is_empty() => None,
        None => {
            let mut context = Context { root, environment, feeds, found: &mut found, part: None };
            planned(&mut context).map(|(plan, json)| Plan { resolved: yaml::write(&json), ..plan })
        }
        Some(parts) => several(parts, root, environment, feeds, &mut found),
    };
    planned.filter(|_| found.is_empty()).ok_or(found)
}

/// The plan of a run of several populations.
fn several(
    parts: &[Part],
    root: &Node,
    environment: &Environment<'_>,
    feeds: &Feeds,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut plans = Vec::new();
    for part in parts {
        let mut wrong = Diagnostics::default();
        let mut context =
            Context { root: &part.root, environment, feeds, found: &mut wrong, part: Some(part) };
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
    let mut context = Context { root, environment, feeds, found, part: None };
    populations::join(parts, plans, &SCHEMA, &mut context)
}

/// The plan of one population, and its scenario as resolved; `None` where something was found.
fn planned(context: &mut Context<'_>) -> Option<(Plan, serde_json::Value)> {
    let before = context.found.0.len();
    let json = check::check(context.root, &SCHEMA, context.found);
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
