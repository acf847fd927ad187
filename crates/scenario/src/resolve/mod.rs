//! From a scenario as written to a plan: defaults filled in, conflicts found, all at once and with their places.

mod balancers;
mod capture;
mod command;
mod component;
mod connection;
mod connections;
mod curve;
mod engine;
mod experiment;
mod faults;
mod feed;
mod hiding;
mod identities;
mod load;
mod logs;
mod message;
mod metrics;
mod northbound;
mod objectives;
mod places;
mod platform;
mod population;
mod prices;
mod processors;
mod quotas;
mod rate;
mod relays;
mod replicas;
mod retry;
mod running;
mod schedule;
mod search;
mod sites;
mod state;
mod storm;
mod subscribers;
mod target;
mod trace;
mod transport;

pub(crate) use hiding::hide_secrets;

use crate::config::Scenario;
use crate::context::Context;
use crate::names;
use crate::plan::{LoadPlan, Plan, PlatformPlan, PopulationPlan, RecordPlan};
use crate::protocols::{self, amqp, amqp1, coap, gateway, http, kafka, lwm2m, mqtt, nats};
use serde_json::Value;

/// Resolves a checked scenario: its plan, and itself with every default filled in. `None` where something was found.
pub(crate) fn resolve(mut scenario: Scenario, context: &mut Context<'_>) -> Option<(Plan, Value)> {
    if !names::is_line(&scenario.name) {
        context.error("name", "a name has one line, and no control characters");
    }
    let feed = feed::read(&scenario.message, scenario.seed, context);
    let columns = feed.as_ref().map(|feed| feed.columns().to_vec()).unwrap_or_default();
    let mut platform = platform::resolve(&mut scenario, &columns, context);
    protocols::forget_inherited(&mut scenario, platform.as_ref(), context);
    protocols::check(&scenario, platform.as_ref(), context);
    let link = population::link(scenario.population.link, "population.link", context);
    let protocol = platform.as_ref().map(PlatformPlan::protocol).unwrap_or_default();
    let target = target::resolve(&scenario, protocol, context);
    let mqtt = mqtt::resolve(&scenario.mqtt, &target, context);
    let address = platform.as_ref().and_then(|platform| platform.address.as_ref());
    let connection =
        connection::resolve(&scenario.connection, &scenario.population, platform.as_ref(), context);
    mqtt::session::resolve::check_levels(&scenario, context);
    let subscribers = subscribers::resolve(&mut scenario, protocol, context);
    if let (Some(platform), Some(subscribers)) = (&platform, &subscribers) {
        population::check_followed(platform, subscribers, scenario.population.devices, context);
    }
    let first_device = context.population().first_device;
    let feed = feed.map(|feed| feed.table(first_device, scenario.population.devices));
    let feed = message::Rows { columns: &columns, table: feed };
    let message = message::resolve(&mut scenario.message, target, platform.as_ref(), feed, context);
    let certificates = connection.as_ref().and_then(|connection| connection.transport.tls.as_ref());
    let coap = coap::resolve(&scenario, address, certificates, context);
    let http = http::resolve(&scenario.http, context);
    let lwm2m = lwm2m::resolve(&scenario, platform.as_ref(), (message.as_ref(), &columns), context);
    let amqp = amqp::resolve(&scenario, context);
    let amqp1 = amqp1::resolve(&scenario, context);
    let kafka = kafka::resolve(&scenario, context);
    let nats = nats::resolve(&scenario.nats, context);
    let gateway = gateway::resolve(&scenario.gateway, context);
    if let Some(platform) = &platform {
        coap::check_target(platform, context);
        coap::check_connections(platform, &coap, context);
    }
    let load = load::resolve(&mut scenario, protocol, context);
    let storm = storm::resolve(&mut scenario.load, platform.as_ref(), context);
    let most_in_flight = (protocols::slice(protocol).most_in_flight)(&scenario).map(|(most, _)| most);
    let experiment = experiment::resolve(&scenario, platform.as_ref(), most_in_flight, context);
    let faults = faults::resolve(&mut scenario, platform.as_mut(), load.as_ref(), context);
    let load = load.map(|load| LoadPlan { storm, experiment, faults, ..load });
    let load =
        load.map(
            |load| if experiment.is_some_and(|own| !own.with_levels) { load.without_levels() } else { load },
        );
    storm::check_offline(&scenario, context);
    let acknowledged = mqtt.as_ref().is_some_and(|mqtt| mqtt.qos.level() > 0);
    let retry = retry::resolve(scenario.retry.as_ref(), platform.as_ref(), acknowledged, context);
    let schedule = schedule::resolve(scenario.schedule.as_ref(), context);
    let northbound = northbound::resolve(scenario.northbound.as_ref(), platform.as_ref(), context);
    let sites = sites::resolve(&scenario, context);
    let clock_bound = sites::clock_bound(&scenario, context);
    let cost = prices::resolve(scenario.prices.as_ref(), platform.as_ref(), context);
    let objectives = objectives::resolve(&mut scenario, platform.as_ref(), context);
    if let Some(load) = &load {
        objectives::check_load_line(&objectives, load, context);
    }
    scenario.record.freshness |= objectives.level.iter().any(|objective| objective.subject.needs_freshness());
    let capture = capture::resolve(scenario.record.capture.as_ref(), context);
    let metrics = metrics::resolve(&scenario.record, platform.as_ref(), context);
    // Lost messages are looked for on the wire.
    scenario.record.messages |= capture.is_some();
    let plan = Plan {
        name: scenario.name.clone(),
        seed: scenario.seed,
        platform: platform?,
        population: PopulationPlan { most_in_flight, ..context.population() },
        others: Vec::new(),
        devices: scenario.population.devices,
        connection: connection?,
        link,
        subscribers: subscribers?,
        mqtt: mqtt?,
        http,
        coap,
        lwm2m,
        amqp,
        amqp1,
        kafka,
        nats,
        gateway,
        message: message?,
        load: load?,
        retry,
        northbound,
        sites,
        clock_bound,
        schedule,
        cost,
        record: RecordPlan {
            messages: scenario.record.messages,
            freshness: scenario.record.freshness,
            network: scenario.record.network,
            unobserved: scenario.record.observers == Some(false),
            capture,
            metrics,
        },
        objectives,
        resolved: String::new(),
        draft: None,
    };
    if !context.found.is_empty() {
        return None;
    }
    match serde_json::to_value(&scenario) {
        Ok(mut json) => {
            hide_secrets(&mut json);
            Some((plan, json))
        }
        Err(error) => {
            context.error("", format!("the scenario cannot be written out: {error}"));
            None
        }
    }
}
