//! The platform under test: its profile, where it is, how its roles speak.

use crate::address::{Scheme, Wire};
use crate::check::near_miss;
use crate::config::{
    AttachedPlatform, OverWebSocket, Platform, Scenario, SubscriberGroup, Subscribers, With,
};
use crate::context::Context;
use crate::plan::{Ask, CommandPlan, Endpoint, PlatformPlan, Protocol, RolePlan, Secret, TokenPlan};
use crate::profile::{Component, Profile, Roles};
use crate::profiles;
use crate::profiles::compile::{Compiler, token};
use crate::span::SourceFile;
use plimsoll_codec::credentials::query_secrets;
use std::collections::BTreeMap;
use std::path::Path;

/// Resolves the platform and lets its profile say what the scenario leaves open: topic and filters.
pub(super) fn resolve(
    scenario: &mut Scenario,
    columns: &[String],
    context: &mut Context<'_>,
) -> Option<PlatformPlan> {
    let attached = match &scenario.platform {
        Platform::Name(name) => AttachedPlatform::of(name.clone()),
        Platform::Attached(attached) => AttachedPlatform::clone(attached),
    };
    let path = if matches!(scenario.platform, Platform::Name(_)) { "platform" } else { "platform.profile" };
    let name = &attached.profile;
    let mut profile = profile(name, path, context)?;
    let roles = with_mapping(&profile, attached.mapping.as_ref().or(profile.mapping.as_ref()));
    let spoken = roles.device.as_ref().map(|device| device.speaks.0).unwrap_or_default();
    let written: Option<Endpoint> = attached.address.as_ref().map(|written| written.0.clone());
    let address = written.or_else(|| super::command::address(&attached, &profile, spoken, context));
    // A profile may say what is spoken over the WebSocket of the address.
    let is_plain = spoken == Protocol::WebSocket && address.as_ref().is_some_and(|own| own.wire.websocket);
    let said = attached.protocol.or(is_plain.then_some(OverWebSocket::Plain));
    let address = crate::protocols::websocket::over_websocket(address, said, context);
    match (&address, profile.components.is_empty() && profile.simulated.is_none()) {
        (None, true) => context.error_with_help(
            path,
            format!("the profile `{name}` starts nothing, so it needs an address"),
            format!(
                "write `platform: {{ profile: {name}, address: \"{}\" }}`, or let `command`, `compose` or `manifests` bring \
                 it up",
                address_for(spoken)
            ),
        ),
        (Some(_), false) => context.error_with_help(
            "platform.address",
            format!("the profile `{name}` starts its own platform and takes no address"),
            "leave the address out, or use the profile `existing` for a platform that runs already",
        ),
        _ => {}
    }
    let variables = variables(&profile, &attached, context);
    let mut command = super::command::resolve(&attached, &profile, &variables, address.as_ref(), context);
    for word in profile.components.iter_mut().flat_map(Component::words) {
        for (name, value) in &variables {
            *word = word.replace(&format!("{{{name}}}"), value);
        }
    }
    let mapping = mapping(&profile, attached.mapping.as_ref(), context)?;
    let written = attached.token.as_deref().or(profile.token.as_ref());
    let mut compiler = Compiler {
        variables: &variables,
        token: written.is_some(),
        columns: Some(columns),
        address: address.as_ref().map(|address| address.protocol),
        errors: Vec::new(),
    };
    let token = token(&attached, &profile, &compiler, path, context);
    let plan = RolePlan { mapping, token, ..compiler.roles(&roles) };
    for error in std::mem::take(&mut compiler.errors) {
        // The profile's own texts were checked when it was read: what is wrong now comes of what the scenario sets.
        context.error_with_help(
            path,
            format!("profile `{name}`, {}: {}", error.path, error.message),
            error.help,
        );
    }
    fill_in(scenario, &roles, &compiler, context);
    let (address, plan) = super::target::request(address, plan, scenario, context);
    let state = super::state::resolve(&attached, &profile, &plan, context);
    let secrets = secrets(&attached, context);
    super::places::resolve(&attached.at, &mut profile, context);
    let relays = super::relays::resolve(&attached.relays, &profile, context);
    let replicas = super::replicas::resolve(attached.replicas.clone(), &profile, context);
    let balancers = super::balancers::resolve(&attached, &profile, &plan, context);
    let by_engine = command.as_ref().is_some_and(|command| command.engine.is_some());
    let mut quotas = super::quotas::resolve(&attached.quotas, &profile, by_engine, context);
    let processors = super::processors::resolve(attached.processors.clone(), &profile, context);
    let logs = super::logs::resolve(attached.logs.as_ref(), &profile, context);
    let printed = context.brought_up.filter(|_| command.is_some());
    let key = command.as_ref().map(CommandPlan::key).unwrap_or_default();
    let components = super::running::resolve(&attached.components, (key, printed), &profile, context);
    let (mut ports, clean_up) = (attached.ports, attached.clean_up);
    if let Some(engine) = command.as_mut().and_then(|command| command.engine.as_mut()) {
        engine.quotas = std::mem::take(&mut quotas);
        // Their numbers are known when it has brought them up.
        ports.extend(engine.ports.iter().map(|(name, (_, port))| (name.clone(), *port)));
    }
    ports.extend(printed.into_iter().flat_map(|printed| printed.ports.clone()));
    let resolved = PlatformPlan {
        profile,
        address,
        command,
        roles: plan,
        ports,
        relays,
        needs: BTreeMap::new(),
        replicas,
        balancers,
        quotas,
        processors,
        logs,
        components,
        clean_up,
        secrets,
        state,
    };
    check_ports(&resolved, path, context);
    if resolved.address.is_some() {
        // What a command brings up has numbers when that is done, and names them then.
        if resolved.command.is_none() || by_engine || printed.is_some() {
            check_named_ports(&resolved, scenario, context);
        }
        check_beside_devices(&resolved, scenario, context);
    }
    Some(resolved)
}

/// The access token: as the scenario says, else as the profile does.
fn token(
    attached: &AttachedPlatform,
    profile: &Profile,
    compiler: &Compiler<'_>,
    path: &str,
    context: &mut Context<'_>,
) -> Option<TokenPlan> {
    let written = attached.token.as_deref().or(profile.token.as_ref())?;
    let mut errors = Vec::new();
    let plan = token::resolve(written, compiler, context.environment.variable, &mut errors);
    for error in errors {
        match attached.token {
            Some(_) => {
                context.error_with_help(&format!("platform.token.{}", error.path), error.message, error.help);
            }
            None => {
                let message = format!("profile `{}`, token.{}: {}", profile.name, error.path, error.message);
                context.error_with_help(path, message, error.help);
            }
        }
    }
    Some(plan)
}

fn variables(
    profile: &Profile,
    attached: &AttachedPlatform,
    context: &mut Context<'_>,
) -> BTreeMap<String, String> {
    let mut variables = profile.variables.clone();
    let of_command = super::command::variables(attached);
    for (name, value) in &attached.with {
        let value = match value {
            With::Text(text) => Some(text.clone()),
            With::Environment(from) => (context.environment.variable)(&from.env),
        };
        let Some(value) = value else {
            let message = "the environment variable that it names is not set";
            context.error(&format!("platform.with.{name}"), message);
            continue;
        };
        if variables.insert(name.clone(), value).is_none() && !of_command.contains(name.as_str()) {
            let message = format!("the profile `{}` has no variable `{name}`", profile.name);
            let help = match profile.variables.is_empty() {
                true => "it has no variables at all".to_owned(),
                false => near_miss(name, profile.variables.keys().map(String::as_str)),
            };
            context.error_with_help(&format!("platform.with.{name}"), message, help);
        }
    }
    variables
}

/// What came from the environment, and what the address tells.
fn secrets(attached: &AttachedPlatform, context: &Context<'_>) -> Vec<Secret> {
    let values = attached.with.values().filter_map(|value| match value {
        With::Text(_) => None,
        With::Environment(from) => (context.environment.variable)(&from.env),
    });
    let written = attached.address.as_ref().map(|written| &written.0.path);
    let path = written.or(context.brought_up.map(|printed| &printed.address.path));
    values.chain(path.into_iter().flat_map(|path| query_secrets(path))).map(Secret).collect()
}

fn mapping(profile: &Profile, written: Option<&String>, context: &mut Context<'_>) -> Option<Option<String>> {
    let Some(name) = written else { return Some(profile.mapping.clone()) };
    if profile.mappings.contains_key(name) {
        return Some(Some(name.clone()));
    }
    let message = format!("the profile `{}` has no mapping `{name}`", profile.name);
    let help = match profile.mappings.is_empty() {
        true => "it has no mappings".to_owned(),
        false => near_miss(name, profile.mappings.keys().map(String::as_str)),
    };
    context.error_with_help("platform.mapping", message, help);
    None
}

fn with_mapping(profile: &Profile, mapping: Option<&String>) -> Roles {
    let own = mapping.and_then(|name| profile.mappings.get(name)).cloned().unwrap_or_default();
    own.or(&profile.roles)
}

/// What the profile says of topic and filters, where the scenario does not.
fn fill_in(scenario: &mut Scenario, roles: &Roles, compiler: &Compiler<'_>, context: &Context<'_>) {
    let topic = roles.device.as_ref().and_then(|device| device.topic.as_ref());
    if let Some(topic) = topic.filter(|_| !context.written("message.target")) {
        scenario.message.target = compiler.fill(topic);
    }
    let filters = roles.subscriber.as_ref().map(|subscriber| &subscriber.filters);
    if let Some(filters) = filters.filter(|filters| !filters.is_empty()) {
        let filters: Vec<String> = filters.iter().map(|filter| compiler.fill(filter)).collect();
        match &mut scenario.population.subscribers {
            Subscribers::Count(count) => {
                let group = SubscriberGroup { filters: Some(filters), ..SubscriberGroup::of(*count) };
                scenario.population.subscribers = Subscribers::Group(group);
            }
            Subscribers::Group(group) => {
                group.filters.get_or_insert(filters);
            }
        }
    }
}

/// What an address looks like where that is spoken, for people.
fn address_for(protocol: Protocol) -> String {
    let scheme = Scheme::of(protocol, Wire::default());
    format!("{}://host:{}", scheme.name, scheme.port)
}

/// What devices speak must have a port, or an address of that protocol.
fn check_ports(platform: &PlatformPlan, path: &str, context: &mut Context<'_>) {
    let protocol = platform.protocol();
    if let Some(address) = &platform.address {
        if address.protocol != protocol.addressed_as() {
            let message = format!(
                "the address speaks {}, but devices of the profile `{}` speak {protocol}",
                address.protocol, platform.profile.name
            );
            let help = format!("write an address such as `{}`", address_for(protocol));
            context.error_with_help("platform.address", message, help);
        }
        return;
    }
    if !platform.ports.is_empty() && !platform.profile.components.is_empty() {
        let message =
            format!("Plimsoll starts the platform `{}`, and chooses free ports", platform.profile.name);
        let help = "leave `ports` out: it is for a platform that runs already, which has an `address`";
        context.error_with_help("platform.ports", message, help);
    }
    let components = &platform.profile.components;
    if let Some(port) = &platform.roles.device.port {
        let has_it = |component: &Component| component.ports_in_texts().any(|known| known == port);
        if !components.iter().any(has_it) {
            let message = format!(
                "no component of the profile `{}` has `{{port:{port}}}` in its command or files",
                platform.profile.name
            );
            context.error(path, message);
        }
        return;
    }
    if !components.is_empty() && !components.iter().any(|component| component.port(protocol).is_some()) {
        let message = format!(
            "devices speak {protocol}, but no component of the profile `{}` has `{}`",
            platform.profile.name,
            protocol.port_key()
        );
        context.error(path, message);
    }
}

/// What the controller and queriers speak at the address of devices must go over it as it is.
fn check_beside_devices(platform: &PlatformPlan, scenario: &Scenario, context: &mut Context<'_>) {
    let Some(address) = &platform.address else { return };
    let roles = &platform.roles;
    let steps = [&roles.reset, &roles.preload, &roles.set_up, &roles.clean_up].into_iter().flatten();
    let of_steps = steps.map(|step| (&step.ask, roles.controller.requests.protocol()));
    let asks = scenario.northbound.is_some();
    let of_queries = roles.query.iter().filter(|_| asks).map(|query| (&query.ask, query.protocol));
    let mut at_devices = of_steps.chain(of_queries).filter(|(ask, _)| ask.port().is_none());
    let wrong = at_devices.find_map(|(ask, protocol)| match ask {
        Ask::Request(_) if protocol == Protocol::Coap => match address.protocol {
            Protocol::Coap if !address.wire.tls => None,
            Protocol::Coap => Some("requests of CoAP beside those of devices go without DTLS"),
            _ => Some("requests of CoAP go to a port of CoAP"),
        },
        Ask::Message(said) if said.topic.is_some() => {
            let goes = address.protocol == Protocol::Mqtt && !address.wire.websocket;
            (!goes).then_some("messages with a topic go over TCP to a port of MQTT")
        }
        Ask::Message(_) => {
            let goes = matches!(address.protocol, Protocol::Http | Protocol::WebSocket);
            (!goes).then_some("messages without a topic go over WebSocket")
        }
        Ask::Request(_) => None,
    });
    if let Some(message) = wrong {
        let help = "name a port in the profile that takes them, and give its number under `platform.ports`";
        context.error_with_help("platform.address", message, help);
    }
}

/// Ports that subscribers and queriers speak to must have numbers, where the platform runs already.
fn check_named_ports(platform: &PlatformPlan, scenario: &Scenario, context: &mut Context<'_>) {
    let roles = &platform.roles;
    let observed = roles.observes.as_ref().and_then(|observes| observes.port.as_deref());
    let received = roles.receives.as_ref().and_then(|receives| receives.port());
    let queried = roles.query.as_ref().and_then(|query| query.ask.port());
    let has_subscribers = scenario.population.subscribers.count() > 0;
    for (who, port) in [
        ("subscribers", observed.or(received).filter(|_| has_subscribers)),
        ("queriers", queried.filter(|_| scenario.northbound.is_some())),
    ] {
        if let Some(port) = port.filter(|port| !platform.ports.contains_key(*port)) {
            let name = &platform.profile.name;
            let message =
                format!("{who} of the profile `{name}` speak to a port `{port}`, which has no number");
            let help = match platform.command.as_ref().map(|command| (command.engine.as_ref(), command.key()))
            {
                Some((None, _)) => format!("let `up` print it: `\"ports\": {{ \"{port}\": 8080 }}`"),
                Some((Some(_), key)) => format!("name that port below `{key}.ports`"),
                None => format!("write `ports: {{ {port}: 8080 }}`, with the number of that port"),
            };
            context.error_with_help("platform.ports", message, help);
        }
    }
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
    let folder = Path::new(name).parent().map(Path::to_owned).unwrap_or_default();
    let file = |path: &str| (context.environment.profile)(&folder.join(path).to_string_lossy());
    match profiles::read_profile(SourceFile { name: name.to_owned(), text }, &file) {
        Ok(profile) => Some(profile),
        Err(diagnostics) => {
            context.found.0.extend(diagnostics.0);
            None
        }
    }
}
