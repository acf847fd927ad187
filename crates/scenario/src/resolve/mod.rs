//! From a scenario as written to a plan: defaults filled in, conflicts found, all at once and with their places.

mod connections;
mod identities;
mod load;
mod message;
mod mqtt;
mod objectives;
mod population;
mod protocol;
mod search;
mod session;
mod storm;
mod transport;

use crate::Environment;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::plan::{Endpoint, LoadPlan, MqttPlan, Plan, PlatformPlan, RecordPlan};
use crate::profile::Profile;
use crate::profiles;
use crate::span::Source;
use crate::tree::Node;
use crate::written::{AttachedPlatform, Platform, Scenario};
use crate::yaml;

/// What resolving needs to know and where it puts what it finds.
struct Context<'a> {
    root: &'a Node,
    environment: &'a Environment<'a>,
    found: &'a mut Diagnostics,
}

impl Context<'_> {
    /// Reports something wrong at a path such as `load.levels.0`.
    fn error(&mut self, path: &str, message: impl Into<String>) {
        self.found.push(Diagnostic::new(self.root.locate(path), message));
    }

    /// The same with what to do about it.
    fn error_with_help(&mut self, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.found.push(Diagnostic::new(self.root.locate(path), message).help(help));
    }

    /// Whether the user wrote something at a path.
    fn written(&self, path: &str) -> bool {
        self.root.has(path)
    }
}

/// Resolves a checked scenario. `None` where something was found.
pub(crate) fn resolve(
    mut scenario: Scenario,
    root: &Node,
    environment: &Environment<'_>,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut context = Context { root, environment, found };
    let platform = platform(&scenario.platform, &mut context);
    let address = platform.as_ref().and_then(|platform| platform.address.as_ref());
    protocol::check(&scenario, address, &mut context);
    let source_addresses = population::source_addresses(&scenario.population, &mut context);
    let link = population::link(scenario.population.link, "population.link", &mut context);
    let mqtt = mqtt::resolve(&mut scenario.mqtt, &mut context);
    let address = platform.as_ref().and_then(|platform| platform.address.as_ref());
    let transport = transport::resolve(&scenario.mqtt, &scenario.population, address, &mut context);
    let session = session::resolve(&scenario.mqtt, &mut context);
    session::check_levels(&scenario, &mut context);
    let mqtt = mqtt.zip(transport).map(|(mqtt, transport)| MqttPlan { transport, session, ..mqtt });
    let subscribers = mqtt::subscribers(&mut scenario, &mut context);
    let message = message::resolve(&mut scenario.message, &mut context);
    let protocol = platform.as_ref().and_then(|platform| platform.address.as_ref());
    let protocol = protocol.map(|address| address.protocol).unwrap_or_default();
    let load = load::resolve(&mut scenario, protocol, &mut context);
    let storm = storm::resolve(&mut scenario.load, platform.as_ref(), &mut context);
    let load = load.map(|load| LoadPlan { storm, ..load });
    storm::check_offline(&scenario, &mut context);
    let objectives = objectives::resolve(&mut scenario, &mut context);
    scenario.record.freshness |= objectives.level.iter().any(|objective| objective.subject.needs_freshness());
    let plan = Plan {
        name: scenario.name.clone(),
        seed: scenario.seed,
        platform: platform?,
        devices: scenario.population.devices,
        source_addresses,
        link,
        subscribers: subscribers?,
        mqtt: mqtt?,
        message: message?,
        load: load?,
        record: RecordPlan { messages: scenario.record.messages, freshness: scenario.record.freshness },
        objectives,
        resolved: String::new(),
    };
    if !context.found.is_empty() {
        return None;
    }
    match serde_json::to_value(&scenario) {
        Ok(json) => Some(Plan { resolved: yaml::write(&json), ..plan }),
        Err(error) => {
            context.error("", format!("the scenario cannot be written out: {error}"));
            None
        }
    }
}

fn platform(written: &Platform, context: &mut Context<'_>) -> Option<PlatformPlan> {
    let (name, path, address) = match written {
        Platform::Name(name) => (name, "platform", None),
        Platform::Attached(AttachedPlatform { profile, address }) => {
            (profile, "platform.profile", address.as_ref().map(|written| written.0.clone()))
        }
    };
    let profile = profile(name, path, context)?;
    let address: Option<Endpoint> = address;
    match (&address, profile.components.is_empty()) {
        (None, true) => context.error_with_help(
            path,
            format!("the profile `{name}` starts nothing, so it needs an address"),
            format!("write `platform: {{ profile: {name}, address: \"mqtt://host:1883\" }}`"),
        ),
        (Some(_), false) => context.error_with_help(
            "platform.address",
            format!("the profile `{name}` starts its own platform and takes no address"),
            "leave the address out, or use the profile `existing` for a platform that runs already",
        ),
        _ => {}
    }
    Some(PlatformPlan { profile, address })
}

/// The profile of that name, or in the file of that path.
fn profile(name: &str, path: &str, context: &mut Context<'_>) -> Option<Profile> {
    if !(name.contains('/') || name.ends_with(".yaml")) {
        let profile = profiles::profile(name);
        if profile.is_none() {
            let help = profiles::help_for_unknown(name);
            context.error_with_help(path, format!("there is no platform profile `{name}`"), help);
        }
        return profile;
    }
    let text = match (context.environment.profile)(name) {
        Ok(text) => text,
        Err(reason) => {
            context.error(path, format!("cannot read the profile `{name}`: {reason}"));
            return None;
        }
    };
    match profiles::read_profile(Source { name: name.to_owned(), text }) {
        Ok(profile) => Some(profile),
        Err(diagnostics) => {
            context.found.0.extend(diagnostics.0);
            None
        }
    }
}
