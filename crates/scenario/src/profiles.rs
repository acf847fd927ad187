//! Platform profiles: those embedded in the program, and those in files of the user.

use crate::check::{check, near_miss};
use crate::config::Metrics;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::ReadFile;
use crate::plan::MetricsPlan;
use crate::profile::Profile;
use crate::reader::read;
use crate::schema;
use crate::span::{Origin, SourceFile};
use crate::tree::Node;
use compile::{Compiler, RoleError};
use plimsoll_model::wire::SharedId;
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) mod compile;
mod components;
pub(crate) mod requirements;
pub(crate) mod roles;
mod simulated;
pub(crate) mod token;

use components::ComponentConfig;
use requirements::Requirements;
use roles::Roles;
use simulated::Simulated;
use token::Token;

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// How to start a platform, how to know that it is up, and what the reader of a report must know of it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileConfig {
    /// The name that a scenario uses.
    name: String,
    /// One line for lists.
    title: String,
    /// What the reader must know: limits, how they were set, caveats.
    #[serde(default)]
    description: String,
    /// Limits of the platform that the profile sets or leaves, by name, for the report.
    #[serde(default)]
    limits: BTreeMap<String, String>,
    /// Name of an embedded profile whose variables, roles, mappings and qualities this one has where it writes none of
    /// its own: another way to start what is spoken to in the same words.
    #[serde(default)]
    like: Option<String>,
    /// What communication it offers, which requirements it meets, how it is documented: by name, for comparisons.
    #[serde(default)]
    qualities: BTreeMap<String, String>,
    /// Which requirements it meets, for comparisons. They stand beside qualities.
    #[serde(default)]
    requirements: Option<Requirements>,
    /// Where ids stand by which captured requests and responses find each other, in protocols that have no ids and keep no
    /// order (WebSocket): each a text with `{id}` in it, such as `"requestId":"{id}"`.
    #[serde(default)]
    shared_ids: Vec<String>,
    /// Values by name that a scenario may set with `platform.with`; `{NAME}` stands for them in the texts of roles.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// The access token (OAuth 2.0) that requests need; a scenario's `platform.token` takes its place.
    #[serde(default)]
    token: Option<Token>,
    /// What registers devices and subscriptions before the run.
    #[serde(default)]
    controller: Option<roles::Controller>,
    /// What a device says. Without it messages go plainly to the topic.
    #[serde(default)]
    device: Option<roles::Device>,
    /// How a subscriber receives. Without it subscribers are MQTT clients.
    #[serde(default)]
    subscriber: Option<roles::Subscriber>,
    /// What a querier asks.
    #[serde(default)]
    querier: Option<roles::Querier>,
    /// Other ways to map messages to what the platform knows, or other protocols to say them in, by name: a scenario
    /// chooses with `platform.mapping`. A role that a mapping has takes the place of the profile's.
    #[serde(default)]
    mappings: BTreeMap<String, Roles>,
    /// The mapping taken where a scenario names none.
    #[serde(default)]
    mapping: Option<String>,
    /// The components, in the order of starting; empty for a platform that runs already.
    components: Vec<ComponentConfig>,
    /// Metrics that the platform itself reports, by its exporters or a Prometheus server: queue lengths, sizes of pools, pauses,
    /// rejected messages.
    #[serde(default)]
    metrics: Vec<Metrics>,
    /// A platform that is only simulated: no process is started and no packet sent, and time passes as fast as it can be
    /// computed. For tests.
    #[serde(default)]
    simulated: Option<Simulated>,
}

/// The profiles embedded in the program, by name. What is only simulated, for tests, is not listed.
pub fn profiles() -> Vec<Profile> {
    let all = EMBEDDED.iter().filter_map(|(name, _)| profile(name));
    all.filter(|profile| profile.simulated.is_none()).collect()
}

/// The names of all embedded profiles.
pub(crate) fn embedded() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The names of those that are listed.
fn names() -> Vec<String> {
    profiles().into_iter().map(|profile| profile.name).collect()
}

/// The embedded profile of that name. Tests ensure that every embedded file is without error.
pub fn profile(name: &str) -> Option<Profile> {
    let (name, text) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
    let alone = |_: &str| Err("an embedded profile has no files beside it".to_owned());
    read_profile(SourceFile { name: format!("platforms/{name}.yaml"), text: (*text).to_owned() }, &alone).ok()
}

/// What helps where no profile has a name.
pub(crate) fn help_for_unknown(name: &str) -> String {
    let help = near_miss(name, names().iter().map(String::as_str));
    format!("{help}; or the path of a file, with a `/` in it or ending in `.yaml`")
}

/// Reads a profile file.
pub fn read_profile(source: SourceFile, file: &ReadFile<'_>) -> Result<Profile, Diagnostics> {
    let mut found = Diagnostics::default();
    // Two runs are repeats of each other only if the files that the profile copies were the same.
    let copied = RefCell::new(String::new());
    let file = |path: &str| {
        let text = file(path)?;
        let line =
            format!("# copies {path}: {} bytes, FNV-1a {:016x}\n", text.len(), fnv_1a(text.as_bytes()));
        copied.borrow_mut().push_str(&line);
        Ok(text)
    };
    let origin = Arc::new(Origin::File(source.clone()));
    let Some(root) = read(&origin, &source.text, 0, &mut found) else { return Err(found) };
    let json = check(&root, &schema::PROFILE, &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    let written: ProfileConfig = match serde_json::from_value(json) {
        Ok(written) => written,
        Err(error) => {
            found.push(Diagnostic::new(&root.span, format!("not a platform profile: {error}")));
            return Err(found);
        }
    };
    let mut written = inherit(written, &root, &mut found);
    let mut components = Vec::new();
    for (position, component) in std::mem::take(&mut written.components).into_iter().enumerate() {
        match component.component(&file) {
            Ok(component) => components.push(component),
            Err((path, wrong)) => {
                let files = root.locate(&format!("components.{position}.files"));
                found.push(Diagnostic::new(files, format!("{path}: {wrong}")));
            }
        }
    }
    if !found.is_empty() {
        return Err(found);
    }
    let shared_ids = shared_ids(&written, &root, &mut found);
    components::check(&components, &written.variables, &root, &mut found);
    check_roles(&written, &root, &mut found);
    let simulated = written.simulated.as_ref().map(Simulated::spec).transpose().unwrap_or_else(|wrong| {
        found.push(Diagnostic::new(root.locate("simulated"), wrong));
        None
    });
    if let Some((key, wrong)) = written.requirements.as_ref().and_then(Requirements::wrong) {
        found.push(Diagnostic::new(root.locate(&format!("requirements.{key}")), wrong));
    }
    let metrics = metrics(&written.metrics, &root, &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    Ok(Profile {
        metrics,
        roles: written.roles(),
        mappings: written.mappings,
        mapping: written.mapping,
        variables: written.variables,
        token: written.token,
        qualities: with_requirements(written.qualities, written.requirements.as_ref()),
        requirements: written.requirements,
        simulated,
        shared_ids,
        name: written.name,
        title: written.title,
        description: written.description.trim_end().to_owned(),
        components,
        limits: written.limits,
        source: with_copied(source.text, &copied.into_inner()),
    })
}

/// Qualities, with those that requirements make of them where there are any.
fn with_requirements(
    mut qualities: BTreeMap<String, String>,
    requirements: Option<&Requirements>,
) -> BTreeMap<String, String> {
    if !qualities.is_empty() || requirements.is_some() {
        qualities.append(&mut requirements::qualities(requirements));
    }
    qualities
}

/// The metrics of a profile, as runs read them.
fn metrics(written: &[Metrics], root: &Node, found: &mut Diagnostics) -> Vec<MetricsPlan> {
    let mut all = Vec::new();
    for (place, metrics) in written.iter().enumerate() {
        match metrics.plan() {
            Ok(metrics) => all.push(metrics),
            Err((key, why)) => {
                let at = format!("metrics.{place}.{key}");
                found.push(Diagnostic::new(root.locate(at.trim_end_matches('.')), why));
            }
        }
    }
    all
}

/// The text of a profile, with a comment for each file that it copies.
fn with_copied(mut text: String, copied: &str) -> String {
    if !copied.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + copied
}

/// The hash of Fowler, Noll and Vo, 64 bits: tells apart files that somebody edits, not those that somebody forges.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn shared_ids(written: &ProfileConfig, root: &Node, found: &mut Diagnostics) -> Vec<SharedId> {
    let mut shared_ids = Vec::new();
    for (index, text) in written.shared_ids.iter().enumerate() {
        match SharedId::parse(text) {
            Ok(shared) => shared_ids.push(shared),
            Err(wrong) => found.push(Diagnostic::new(root.locate(&format!("shared_ids[{index}]")), wrong)),
        }
    }
    shared_ids
}

impl ProfileConfig {
    fn roles(&self) -> Roles {
        Roles {
            controller: self.controller.clone(),
            device: self.device.clone(),
            subscriber: self.subscriber.clone(),
            querier: self.querier.clone(),
        }
    }
}

/// Takes from the profile that this one is like what it does not write itself.
fn inherit(written: ProfileConfig, root: &Node, found: &mut Diagnostics) -> ProfileConfig {
    let Some(name) = &written.like else { return written };
    let Some(model) = profile(name) else {
        let message = format!("there is no embedded profile `{name}` to be like");
        let names: Vec<&str> = embedded().collect();
        let help = near_miss(name, names.iter().copied());
        found.push(Diagnostic::new(root.locate("like"), message).help(help));
        return written;
    };
    let has_roles = written.roles() != Roles::default();
    let roles = if has_roles { written.roles() } else { model.roles };
    let mut variables = model.variables;
    variables.extend(written.variables.clone());
    let mut qualities = model.qualities;
    qualities.extend(written.qualities.clone());
    ProfileConfig {
        controller: roles.controller,
        device: roles.device,
        subscriber: roles.subscriber,
        querier: roles.querier,
        mappings: if written.mappings.is_empty() { model.mappings } else { written.mappings.clone() },
        mapping: written.mapping.clone().or(model.mapping),
        variables,
        token: written.token.clone().or(model.token),
        qualities,
        requirements: written.requirements.clone().or(model.requirements),
        ..written
    }
}

/// Compiles what every role says, in every mapping, so that what is wrong is told where it stands.
fn check_roles(profile: &ProfileConfig, root: &Node, found: &mut Diagnostics) {
    for name in profile.variables.keys() {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_name) {
            let message = format!("`{name}` is no name of a variable");
            let help = "a small letter, then small letters, digits and `_`";
            found.push(Diagnostic::new(root.locate(&format!("variables.{name}")), message).help(help));
        }
    }
    if let Some(name) = profile.mapping.as_ref().filter(|name| !profile.mappings.contains_key(*name)) {
        let help = near_miss(name, profile.mappings.keys().map(String::as_str));
        let message = format!("there is no mapping `{name}`");
        found.push(Diagnostic::new(root.locate("mapping"), message).help(help));
    }
    let mut told: Vec<(String, RoleError)> = Vec::new();
    let mut compile = |roles: &Roles, prefix: &dyn Fn(&str) -> String| {
        // A scenario may bring the access token that a profile only speaks of.
        let variables = &profile.variables;
        let mut compiler =
            Compiler { variables, token: true, columns: None, address: None, errors: Vec::new() };
        compiler.roles(roles);
        for error in compiler.errors {
            let role = error.path.split('.').next().unwrap_or_default();
            let error = (format!("{}{}", prefix(role), error.path), error);
            if !told.contains(&error) {
                told.push(error);
            }
        }
    };
    let of_profile = profile.roles();
    if profile.mappings.is_empty() {
        compile(&of_profile, &|_| String::new());
    }
    // A role may need what another one says, the profile's or the mapping's.
    for (name, roles) in &profile.mappings {
        let together = roles.clone().or(&of_profile);
        compile(&together, &|role| if roles.has(role) { format!("mappings.{name}.") } else { String::new() });
    }
    for (path, RoleError { message, help, .. }) in told {
        found.push(Diagnostic::new(root.locate(&path), message).help(help));
    }
    if let Some(token) = &profile.token {
        let compiler = Compiler {
            variables: &profile.variables,
            token: true,
            columns: None,
            address: None,
            errors: Vec::new(),
        };
        let mut errors = Vec::new();
        // What the environment holds is seen when a scenario asks for it.
        compile::token::resolve(token, &compiler, &|_| Some("/".to_owned()), &mut errors);
        for RoleError { path, message, help } in errors {
            found.push(Diagnostic::new(root.locate(&format!("token.{path}")), message).help(help));
        }
    }
}

#[cfg(test)]
mod tests;
