//! Relays before components: `plimsoll target relay` as components of their own.

use crate::placeholders::Placeholders;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::PlatformPlan;
use plimsoll_scenario::profile::Component;
use std::collections::BTreeMap;

/// How long a relay may take until it listens.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// Finds the ports at which components listen behind their relays.
pub fn find_ports(plan: &PlatformPlan, placeholders: &mut Placeholders) -> std::io::Result<()> {
    for component in plan.profile.components.iter().filter(|component| plan.is_behind_relay(&component.name))
    {
        for (_, port) in component.named_ports() {
            placeholders.put_behind_relay(port, plan.replicas_of(&component.name))?;
        }
    }
    Ok(())
}

/// What the relay before a port of a component is called.
pub fn name(component: &str, port: &str) -> String {
    if component == port {
        format!("relay before {component}")
    } else {
        format!("relay before {component} ({port})")
    }
}

/// The relays before a component that listens already, one for each of its ports.
pub fn before(plan: &PlatformPlan, component: &Component, placeholders: &Placeholders) -> Vec<Component> {
    let relay = plan.relays.iter().find(|relay| relay.component == component.name);
    let mut ports: Vec<&String> = component.named_ports().map(|(_, port)| port).collect();
    ports.sort();
    ports.dedup();
    let of_port = |port: &String| {
        let mut command: Vec<String> = ["{plimsoll}", "target", "relay"].map(str::to_owned).to_vec();
        for behind in placeholders.behind_relay(port) {
            command.extend(["--to".to_owned(), format!("127.0.0.1:{behind}")]);
        }
        command.extend(["--port".into(), format!("{{port:{port}}}")]);
        command.extend(relay.iter().flat_map(|relay| relay.options()));
        Component {
            name: name(&component.name, port),
            command,
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            folder: None,
            user: None,
            prepare: Vec::new(),
            ready_port: Some(port.clone()),
            ready_within: PATIENCE,
            ready_request: None,
            ports: BTreeMap::new(),
            mqtt5_port: None,
            install: None,
            version: None,
            cost_per_month: None,
        }
    };
    ports.into_iter().filter(|_| plan.is_behind_relay(&component.name)).map(of_port).collect()
}
