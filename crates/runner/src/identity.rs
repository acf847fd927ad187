//! Who a run is: its id and where it comes from.

use crate::preflight::HostCheck;
use crate::{Options, Placement};
use plimsoll_model::RunId;
use plimsoll_model::record::{Listener, PopulationTerms, Provenance, Terms};
use plimsoll_scenario::plan::{Objective, Objectives, Plan, Protocol};
use plimsoll_store::NewRun;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// A new run id, from the randomness that the operating system gives every hash map.
pub fn new_run_id() -> RunId {
    RunId::from_bits(RandomState::new().hash_one(std::process::id()))
}

/// What the store is told before the run begins.
pub fn new_run(
    plan: &Plan,
    id: RunId,
    options: &Options,
    placement: &Placement,
    warnings: &[HostCheck],
) -> NewRun {
    let mut host = plimsoll_observe::host::facts();
    let warned =
        warnings.iter().map(|finding| (format!("warning: {}", finding.subject), finding.told.clone()));
    host.extend(warned);
    let missing = plimsoll_observe::samplers::missing().into_iter();
    host.extend(missing.map(|(sampler, reason)| (format!("not observed: {sampler}"), reason.to_owned())));
    NewRun {
        id: id.to_string(),
        name: plan.name.clone(),
        scenario: plan.resolved.clone(),
        terms: terms(plan),
        provenance: Provenance {
            plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
            notes: options.repeats.iter().cloned().collect(),
            seed: plan.seed,
            started: options.started.clone().unwrap_or_else(|| {
                jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string()
            }),
            command: options.command.clone(),
            host,
            platform: platform_facts(plan),
            profile: plan.platform.source(),
            placement: placement.facts(),
            clock_epoch: None,
            wall_epoch: None,
            series: options.series.clone(),
            process: plimsoll_observe::process::own_identity(),
            inputs: options.inputs.clone(),
            resumed: Vec::new(),
        },
    }
}

/// Whether what goes to the platform never leaves this host.
fn is_local(plan: &Plan) -> bool {
    match &plan.platform.profile.simulated {
        Some(spec) => spec.network.local,
        None => Placement::is_here(plan),
    }
}

/// What the analysis must know of the plan.
pub fn terms(plan: &Plan) -> Terms {
    let several = plan.with_devices().count() > 1;
    let populations: Vec<PopulationTerms> = match several {
        true => plan.populations().map(|own| terms_of_population(own, plan)).collect(),
        false => Vec::new(),
    };
    let all = || plan.with_devices().map(|own| terms_of(own, plan));
    // Where populations differ, what is asked of all together is what the most demanding of them does.
    let terms = all().reduce(|together, own| Terms {
        qos: together.qos.max(own.qos),
        acknowledged_otherwise: together.acknowledged_otherwise || own.acknowledged_otherwise,
        subscribe_qos: together.subscribe_qos.max(own.subscribe_qos),
        redelivery: together.redelivery.clone().or(own.redelivery),
        subscriber_work: together.subscriber_work.max(own.subscriber_work),
        subscribers_acknowledge_late: together.subscribers_acknowledge_late
            || own.subscribers_acknowledge_late,
        listener: together.listener.or(own.listener),
        delivered_apart: together.delivered_apart && own.delivered_apart,
        repeats_lost: together.repeats_lost || own.repeats_lost,
        several_filters: together.several_filters || own.several_filters,
        persistent: together.persistent || own.persistent,
        datagrams: together.datagrams || own.datagrams,
        ..together
    });
    Terms {
        devices: plan.all_devices(),
        subscribers: plan.all_subscribers(),
        objectives: plan.objectives.clone(),
        cost: plan.cost.clone(),
        populations,
        ..terms.unwrap_or_default()
    }
}

/// One of several populations, with what is demanded of it.
fn terms_of_population(own: &Plan, run: &Plan) -> PopulationTerms {
    let name = own.population.name.clone();
    let of_it = |objective: &&Objective| objective.population.as_ref() == Some(&name);
    let level = run.objectives.level.iter().filter(of_it).cloned().collect();
    PopulationTerms {
        protocol: own.protocol().to_string(),
        first_device: own.population.first_device,
        at: own.sites.devices.clone(),
        terms: Terms { objectives: Objectives { level, load_line: None }, ..terms_of(own, run) },
        name,
    }
}

/// What holds for one population.
fn terms_of(plan: &Plan, run: &Plan) -> Terms {
    let mqtt = plan.protocol() == Protocol::Mqtt;
    let roles = &plan.platform.roles;
    let receivers = run.receivers_of(plan);
    // Those who listen have no QoS that would excuse what comes twice.
    let subscribe_qos = receivers.subscribe_qos();
    Terms {
        devices: plan.devices,
        subscribers: plan.subscribers.count,
        qos: if mqtt { plan.mqtt.qos.level() } else { u8::from(plan.acknowledges()) },
        acknowledged_otherwise: mqtt && plan.mqtt.qos.level() == 0 && plan.acknowledges(),
        subscribe_qos,
        redelivery: plan.redelivery(receivers).map(str::to_owned),
        subscriber_work: plan.subscribers.work,
        subscribers_acknowledge_late: subscribe_qos > 0 && receivers.subscribers.link.delays(),
        listener: roles.listener.as_ref().map(|listener| match listener.protocol {
            Protocol::Coap => Listener::Udp,
            _ => Listener::Tcp,
        }),
        delivered_apart: plan.is_delivered_apart(),
        repeats_lost: plan.retry.is_some()
            || roles.device.request.as_ref().is_some_and(|request| request.retry_lost),
        several_filters: plan.subscribers.filters.len() > 1,
        persistent: plan.mqtt.session.expiry.is_some(),
        // What a platform costs is said of the whole run.
        cost: None,
        // Those of the way down are the same once more.
        levels: run.load.turn.unwrap_or(run.load.levels.len()) as u16,
        precision: run.load.precision,
        search: run.load.search,
        stop_after_missed: run.load.stop_after_missed,
        local: is_local(plan),
        relayed: plan.platform.relays.iter().any(|relay| !relay.options().is_empty()),
        datagrams: plan.protocol().uses_datagrams(),
        objectives: Objectives::default(),
        populations: Vec::new(),
    }
}

/// In which state the run found the platform.
pub fn state_facts(plan: &Plan) -> BTreeMap<String, String> {
    let state = &plan.platform.state;
    let brought_up = plan.platform.command.as_ref();
    let brought_up =
        brought_up.map(|command| format!("brought up for this run, by `{}`", command.up.join(" ")));
    let found = || match (plan.platform.profile.components.is_empty(), state.reset, state.command.as_slice())
    {
        (false, ..) => "started fresh for this run".to_owned(),
        (true, false, _) => "as it was found; earlier runs may have left something".to_owned(),
        (true, true, []) => "reset before this run, by the profile's steps".to_owned(),
        (true, true, command) => format!("reset before this run, by `{}`", command.join(" ")),
    };
    let mut facts = BTreeMap::from([("state".to_owned(), brought_up.unwrap_or_else(found))]);
    if state.preload > 0 {
        facts.insert("preloaded".into(), format!("{} items", state.preload));
    }
    facts
}

/// What devices speak, in the order of the populations.
fn protocols(plan: &Plan) -> String {
    let mut spoken: Vec<String> = Vec::new();
    for protocol in plan.with_devices().map(|plan| plan.protocol().to_string()) {
        if !spoken.contains(&protocol) {
            spoken.push(protocol);
        }
    }
    spoken.join(", ")
}

fn platform_facts(plan: &Plan) -> BTreeMap<String, String> {
    let profile = &plan.platform.profile;
    let mut facts = BTreeMap::from([
        ("profile".to_owned(), profile.name.clone()),
        ("protocol".to_owned(), protocols(plan)),
    ]);
    facts.extend(profile.limits.iter().map(|(name, value)| (format!("limit: {name}"), value.clone())));
    for balancer in plan.platform.balancers.iter().map(|own| &own.balancer) {
        let of = |(name, value): (&String, &String)| {
            (format!("limit of {}: {name}", balancer.name), value.clone())
        };
        facts.extend(balancer.limits.iter().map(of));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, load};

    const OWN: &str = "population: { devices: 4, subscribers: 1 }\n";

    /// What the analysis must know of a scenario with a platform at that address and these keys.
    fn of(address: &str, more: &str) -> Terms {
        let text = format!(
            "name: t\nplatform: {{ profile: existing, address: '{address}' }}\nload: {{ levels: [1/s] }}\n\
             objectives: {{ publish_p99: null }}\n{more}"
        );
        let profile = |_: &str| Err("none".to_owned());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let source = SourceFile { name: "t".into(), text };
        terms(&load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}")))
    }

    #[test]
    fn what_delivers_at_least_once_does_so_however_messages_are_acknowledged() {
        for (address, unacknowledged) in [
            ("amqp://h:1", "amqp: { confirms: false }"),
            ("amqp1://h:1", "amqp1: { acknowledged: false }"),
            ("kafka://h:1", "kafka: { acks: none }"),
        ] {
            let own = |more: &str| of(address, &format!("{OWN}{more}"));
            let (with, without) = (own(""), own(unacknowledged));
            assert!(with.acknowledges() && !without.acknowledges(), "{address}");
            assert!(
                without.redelivery.as_ref().is_some_and(|why| why.contains("at least once")),
                "{address}"
            );
            assert_eq!((with.subscribe_qos, &with.redelivery), (0, &without.redelivery), "{address}");
        }
        assert_eq!(of("nats://h:1", OWN).redelivery, None, "without a stream, at most once");
        assert!(of("nats://h:1", &format!("{OWN}nats: {{ create_stream: memory }}")).redelivery.is_some());
        let mqtt = of("mqtt://h:1", &format!("{OWN}mqtt: {{ qos: 1 }}"));
        assert_eq!((mqtt.qos, mqtt.redelivery), (1, None), "both QoS decide");
    }

    #[test]
    fn subscribers_at_another_platform_receive_as_their_protocol_delivers() {
        let of = |qos: u8, of_subscribers: &str| {
            let more = format!(
                "population: {{ devices: 4 }}\nmqtt: {{ qos: {qos} }}\n\
                 subscribers: {{ count: 1, filters: ['#'], {of_subscribers} }}\n"
            );
            of("mqtt://h:1", &more)
        };
        let kafka = of(0, "platform: { address: 'kafka://h:2' }, kafka: { topic: t }");
        assert!(kafka.redelivery.as_ref().is_some_and(|why| why.starts_with("Kafka")), "{kafka:?}");
        let core = of(1, "platform: { address: 'nats://h:2' }");
        assert_eq!((core.qos, core.subscribe_qos, core.redelivery), (1, 0, None));
        // At which QoS another broker has what it is given, the platform decides.
        let bridged = of(0, "qos: 1, platform: { address: 'mqtt://h:2' }");
        assert_eq!((bridged.qos, bridged.redelivery.as_deref()), (0, Some("QoS 1 delivers at least once")));
    }
}
