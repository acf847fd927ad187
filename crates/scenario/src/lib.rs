//! Files of scenarios, platform profiles and load balancers: read with locations, checked whole, turned into a [`plan::Plan`].
//!
//! A file goes through four steps: `reader` gives a tree in which everything knows its place, `check` compares the
//! tree with the schema of the types in `config`, `resolve` fills in defaults and finds conflicts, and the result
//! is the plan. Each step reports everything that it finds wrong at once. Pure: files and the environment are
//! reached through what the caller passes.

mod address;
mod aliases;
pub mod balancer;
mod balancers;
mod brought_up;
mod check;
mod config;
mod context;
mod diagnostic;
mod draft;
mod duration;
mod editing;
mod environment;
mod facts;
pub mod fields;
mod filters;
mod input_cache;
mod inputs;
mod matrix;
mod names;
mod numbers;
mod objective;
mod observations;
mod overrides;
pub mod plan;
mod planning;
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
mod tree;
mod words;
mod wrap;
pub mod yaml;

pub use brought_up::{BroughtUp, LONGEST_OUTPUT, last_object};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use editing::{EditError, NewValue, ScenarioText, Setting, SettingKind};
pub use environment::Environment;
pub use matrix::{Axis, Matrix, matrix};
pub use numbers::numbers;
pub use objective::objective;
pub use overrides::Override;
pub use profiles::{profile, profiles, read_profile};
pub use quantity::{bit_rate, duration};
pub use quick::{PASSWORD_VARIABLE, QuickOptions, quick};
pub use schema::scenario_schema;
pub use settings::settings;
pub use span::{SourceFile, Span};
pub use wrap::wrapped;

use plan::Plan;

/// Reads the file of a scenario that is one run, sets the overrides, checks the whole and resolves it. The error holds
/// everything that is wrong, with its places.
pub fn load(
    source: &SourceFile,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Plan, Diagnostics> {
    matrix(source, false, overrides, environment)?.one()
}
