//! From a scenario as written to a plan: defaults filled in, conflicts found, all at once and with their places.

mod capture;
mod coap;
mod connection;
mod connections;
mod delivery;
mod dtls;
mod feed;
mod identities;
mod load;
mod message;
mod mqtt;
mod northbound;
mod objectives;
mod platform;
mod population;
mod protocol;
mod roles;
mod running;
mod schedule;
mod search;
mod session;
mod state;
mod storm;
mod target;
pub(crate) mod token;
mod transport;

pub(crate) use feed::Feeds;
pub(crate) use roles::{Compiler, RoleError};

use crate::Environment;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::names;
use crate::plan::{CoapPlan, GatewayPlan, HttpPlan, LoadPlan, MqttPlan, Plan, PlatformPlan, RecordPlan};
use crate::tree::Node;
use crate::written::Scenario;
use crate::yaml;
use plimsoll_codec::credentials::hide_query_secrets;
use serde_json::Value;

/// What resolving needs to know and where it puts what it finds.
struct Context<'a> {
    root: &'a Node,
    environment: &'a Environment<'a>,
    feeds: &'a Feeds,
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
    feeds: &Feeds,
    found: &mut Diagnostics,
) -> Option<Plan> {
    let mut context = Context { root, environment, feeds, found };
    if !names::is_line(&scenario.name) {
        context.error("name", "a name has one line, and no control characters");
    }
    let feed = feed::read(&scenario.message, scenario.seed, &mut context);
    let columns = feed.as_ref().map(|feed| feed.columns().to_vec()).unwrap_or_default();
    let platform = platform::resolve(&mut scenario, &columns, &mut context);
    protocol::check(&scenario, platform.as_ref(), &mut context);
    let link = population::link(scenario.population.link, "population.link", &mut context);
    let protocol = platform.as_ref().map(PlatformPlan::protocol).unwrap_or_default();
    let target = target::resolve(&scenario, protocol, &mut context);
    let mqtt = mqtt::resolve(&mut scenario.mqtt, &target, &mut context);
    let address = platform.as_ref().and_then(|platform| platform.address.as_ref());
    let connection = connection::resolve(&scenario.connection, &scenario.population, address, &mut context);
    let session = session::resolve(&scenario.mqtt, &target, &mut context);
    session::check_levels(&scenario, &mut context);
    let mqtt = mqtt.map(|mqtt| MqttPlan { session, ..mqtt });
    let subscribers = mqtt::subscribers(&mut scenario, &mut context);
    if let (Some(platform), Some(subscribers)) = (&platform, &subscribers) {
        population::check_followed(platform, subscribers, scenario.population.devices, &mut context);
    }
    let feed = feed.map(|feed| feed.table(scenario.population.devices));
    let feed = message::Rows { columns: &columns, table: feed };
    let message = message::resolve(&mut scenario.message, target, platform.as_ref(), feed, &mut context);
    let dtls = dtls::resolve(&scenario, address, &mut context);
    let coap = CoapPlan { dtls, ..coap::resolve(&scenario.coap, protocol, &mut context) };
    if let Some(platform) = &platform {
        coap::check_target(platform, &mut context);
    }
    let load = load::resolve(&mut scenario, protocol, &mut context);
    let storm = storm::resolve(&mut scenario.load, platform.as_ref(), &mut context);
    let load = load.map(|load| LoadPlan { storm, ..load });
    storm::check_offline(&scenario, &mut context);
    let schedule = schedule::resolve(scenario.schedule.as_ref(), &mut context);
    let northbound = northbound::resolve(scenario.northbound.as_ref(), platform.as_ref(), &mut context);
    let objectives = objectives::resolve(&mut scenario, platform.as_ref(), &mut context);
    scenario.record.freshness |= objectives.level.iter().any(|objective| objective.subject.needs_freshness());
    let capture = capture::resolve(scenario.record.capture.as_ref(), &mut context);
    // Lost messages are looked for on the wire.
    scenario.record.messages |= capture.is_some();
    let plan = Plan {
        name: scenario.name.clone(),
        seed: scenario.seed,
        platform: platform?,
        devices: scenario.population.devices,
        connection: connection?,
        link,
        subscribers: subscribers?,
        mqtt: mqtt?,
        http: HttpPlan {
            connections: scenario.http.connections,
            pool: scenario.http.pool,
            timeout: scenario.http.timeout.0,
        },
        coap,
        gateway: GatewayPlan { delay: scenario.gateway.delay.0 },
        message: message?,
        load: load?,
        northbound,
        schedule,
        record: RecordPlan {
            messages: scenario.record.messages,
            freshness: scenario.record.freshness,
            network: scenario.record.network,
            capture,
        },
        objectives,
        resolved: String::new(),
    };
    if !context.found.is_empty() {
        return None;
    }
    match serde_json::to_value(&scenario) {
        Ok(mut json) => {
            for address in ["/platform/address", "/platform/token/url"] {
                if let Some(Value::String(address)) = json.pointer_mut(address) {
                    *address = hide_query_secrets(address);
                }
            }
            Some(Plan { resolved: yaml::write(&json), ..plan })
        }
        Err(error) => {
            context.error("", format!("the scenario cannot be written out: {error}"));
            None
        }
    }
}
