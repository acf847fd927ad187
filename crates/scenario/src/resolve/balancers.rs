//! Load balancers before components of the platform.

use super::component;
use crate::balancer::{BalancerMode, LoadBalancer};
use crate::balancers;
use crate::config::{AttachedPlatform, Balancer, BalancerSettings};
use crate::context::Context;
use crate::plan::{BalancerPlan, Protocol, RolePlan, Wire};
use crate::profile::{Component, Profile};
use crate::span::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn resolve(
    attached: &AttachedPlatform,
    profile: &Profile,
    roles: &RolePlan,
    context: &mut Context<'_>,
) -> Vec<BalancerPlan> {
    let written = &attached.balancers;
    let help = "start the balancer yourself, and give its address as the platform's";
    if written.is_empty() || !component::any("platform.balancers", profile, help, context) {
        return Vec::new();
    }
    for name in written.keys().filter(|name| attached.relays.contains_key(*name)) {
        context.error_with_help(
            &format!("platform.balancers.{name}"),
            format!("a relay and a balancer cannot both stand before `{name}`"),
            "remove one of them: both listen at the port that others know",
        );
    }
    written.iter().filter_map(|(name, balancer)| plan(name, balancer, profile, roles, context)).collect()
}

fn plan(
    name: &str,
    written: &Balancer,
    profile: &Profile,
    roles: &RolePlan,
    context: &mut Context<'_>,
) -> Option<BalancerPlan> {
    let path = format!("platform.balancers.{name}");
    let (settings, by) = match written {
        Balancer::Name(by) => (BalancerSettings::of(by.clone()), path.clone()),
        Balancer::Set(settings) => (settings.clone(), format!("{path}.by")),
    };
    let help = "a balancer stands before a port that the profile names, as with `ready_port` or `http_port`";
    let component = component::with_port(name, &path, profile, help, context);
    let balancer = read(&settings.by, &by, context);
    let (component, balancer) = (component?, balancer?);
    check_bypass(component, &path, profile, roles, context);
    if !balancer.policies.contains_key(&settings.policy) {
        let has: Vec<&str> = balancer.policies.keys().map(|policy| policy.key()).collect();
        context.error_with_help(
            &format!("{path}.policy"),
            format!("the balancer `{}` has no policy `{}`", balancer.name, settings.policy.key()),
            format!("it has {}", has.join(", ")),
        );
    }
    let ports: BTreeSet<&String> = component.named_ports().map(|(_, port)| port).collect();
    let mut of_port = |port: &String| {
        let spoken = Spoken::at(port, component, roles);
        (port.clone(), mode(&spoken, &settings, &balancer, &path, context))
    };
    let modes: BTreeMap<String, BalancerMode> = ports.into_iter().map(&mut of_port).collect();
    Some(BalancerPlan { component: name.to_owned(), balancer, policy: settings.policy, modes })
}

/// The balancer of that name, or in the file of that path.
fn read(by: &str, path: &str, context: &mut Context<'_>) -> Option<LoadBalancer> {
    if !(by.contains('/') || by.ends_with(".yaml")) {
        let balancer = balancers::balancer(by);
        if balancer.is_none() {
            let help = balancers::help_for_unknown(by);
            context.error_with_help(path, format!("there is no load balancer `{by}`"), help);
        }
        return balancer;
    }
    let text = match (context.environment.profile)(by) {
        Ok(text) => text,
        Err(reason) => {
            context.error(path, format!("cannot read the load balancer `{by}`: {reason}"));
            return None;
        }
    };
    match balancers::read_balancer(SourceFile { name: by.to_owned(), text }) {
        Ok(balancer) => Some(balancer),
        Err(diagnostics) => {
            context.found.0.extend(diagnostics.0);
            None
        }
    }
}

/// Devices that connect to a port which only a text of the component names would not come to the balancer.
fn check_bypass(
    component: &Component,
    path: &str,
    profile: &Profile,
    roles: &RolePlan,
    context: &mut Context<'_>,
) {
    let Some(port) = &roles.device.port else { return };
    let is_named = profile.components.iter().flat_map(Component::named_ports).any(|(_, named)| named == port);
    if !is_named && component.ports_in_texts().any(|known| known == port) {
        let message = format!(
            "devices connect to the port `{port}` of `{}`, which the profile names only in a text, so they would not \
             pass the balancer",
            component.name
        );
        let help = "name it in the profile, as with `ready_port`, `http_port` or `mqtt_port`";
        context.error_with_help(path, message, help);
    }
}

/// What is spoken at a port, as far as the profile says it.
struct Spoken<'a> {
    port: &'a str,
    component: &'a str,
    protocols: Vec<Protocol>,
    /// What lies between them and TCP.
    wire: Wire,
}

impl<'a> Spoken<'a> {
    fn at(port: &'a str, component: &'a Component, roles: &RolePlan) -> Spoken<'a> {
        let spoken = component.ports.iter().filter(|(_, name)| name.as_str() == port);
        let version_5 = component.mqtt5_port.iter().filter(|name| name.as_str() == port);
        let protocols: Vec<Protocol> =
            spoken.map(|(protocol, _)| *protocol).chain(version_5.map(|_| Protocol::Mqtt)).collect();
        let of_devices = match &roles.device.port {
            Some(own) => own == port,
            None => protocols.contains(&roles.device.protocol.unwrap_or_default()),
        };
        let wire = if of_devices { roles.device.wire } else { Wire::default() };
        Spoken { port, component: &component.name, protocols, wire }
    }

    /// Whether it may be HTTP: what the profile does not know may be anything.
    fn may_be_http(&self) -> bool {
        let is_http = |protocol: &Protocol| matches!(protocol, Protocol::Http | Protocol::WebSocket);
        !self.wire.tls && (self.wire.websocket || self.protocols.iter().all(is_http))
    }

    /// What it is called, for people.
    fn in_words(&self) -> String {
        let protocols: Vec<String> = self.protocols.iter().map(Protocol::to_string).collect();
        match (self.wire.tls, protocols.join(" and ")) {
            (false, spoken) => spoken,
            (true, spoken) if spoken.is_empty() => "TLS".to_owned(),
            (true, spoken) => format!("{spoken} over TLS"),
        }
    }
}

/// What a balancer understands at a port; what makes no sense is reported.
fn mode(
    spoken: &Spoken<'_>,
    settings: &BalancerSettings,
    balancer: &LoadBalancer,
    path: &str,
    context: &mut Context<'_>,
) -> BalancerMode {
    let (place, words) = (format!("port `{}` of `{}`", spoken.port, spoken.component), spoken.in_words());
    if spoken.protocols.iter().any(|protocol| protocol.uses_datagrams()) {
        let message =
            format!("a balancer passes on connections, but {words} comes in datagrams to the {place}");
        context.error_with_help(
            path,
            message,
            "remove it: the relay before replicas passes on datagrams, too",
        );
        return BalancerMode::Tcp;
    }
    if spoken.protocols.contains(&Protocol::Gateway) {
        let message = format!("Plimsoll itself listens at the {place}");
        context.error_with_help(path, message, "remove the balancer before this component");
        return BalancerMode::Tcp;
    }
    let is_http = spoken.may_be_http() && spoken.protocols.contains(&Protocol::Http);
    let by_itself = match is_http && balancer.modes.contains_key(&BalancerMode::Http) {
        true => BalancerMode::Http,
        false => BalancerMode::Tcp,
    };
    let mode = settings.mode.unwrap_or(by_itself);
    let key = format!("{path}.mode");
    if mode == BalancerMode::Http && !spoken.may_be_http() {
        let message =
            format!("the {place} speaks {words}, which a balancer in the mode `http` does not read");
        context.error_with_help(&key, message, "remove `mode`: each port then has the mode that fits it");
    }
    if !balancer.modes.contains_key(&mode) {
        let has: Vec<&str> = balancer.modes.keys().map(|mode| mode.key()).collect();
        let message =
            format!("the balancer `{}` has no mode `{}`, which the {place} needs", balancer.name, mode.key());
        context.error_with_help(&key, message, format!("it has {}", has.join(", ")));
    }
    mode
}
