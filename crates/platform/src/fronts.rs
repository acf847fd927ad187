//! What stands before components, so that others reach them through it: relays and load balancers.

use crate::balancers;
use crate::placeholders::Placeholders;
use crate::relays;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::PlatformPlan;
use plimsoll_scenario::profile::Component;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// How long what stands before a component may take until it listens.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// What stands before a port of a component.
pub struct Front {
    /// What is started.
    pub component: Component,
    /// The folder that `{dir}` stands for, in that of the platform; `None` for that of the platform itself.
    pub own_folder: Option<String>,
    /// Whether it is a relay, which is no part of the platform.
    pub is_relay: bool,
}

impl Front {
    /// That of a name, started by a command, before the port of that name.
    pub fn new(name: String, command: Vec<String>, port: &str, is_relay: bool) -> Front {
        let component = Component {
            name,
            command,
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            folder: None,
            user: None,
            prepare: Vec::new(),
            ready_port: Some(port.to_owned()),
            ready_within: PATIENCE,
            ready_request: None,
            ports: BTreeMap::new(),
            mqtt5_port: None,
            install: None,
            version: None,
            cost_per_month: None,
            at: None,
        };
        Front { component, own_folder: None, is_relay }
    }
}

/// Finds the ports at which components listen behind what stands before them.
pub fn find_ports(plan: &PlatformPlan, placeholders: &mut Placeholders) -> io::Result<()> {
    for component in plan.profile.components.iter().filter(|component| plan.is_behind_front(&component.name))
    {
        for (_, port) in component.named_ports() {
            placeholders.put_behind_front(port, plan.replicas_of(&component.name))?;
        }
    }
    Ok(())
}

/// What that before a port of a component is called.
pub fn name(plan: &PlatformPlan, component: &str, port: &str) -> String {
    let what = if plan.balancer_before(component).is_some() { "balancer" } else { "relay" };
    if component == port {
        format!("{what} before {component}")
    } else {
        format!("{what} before {component} ({port})")
    }
}

/// What stands before a component that listens already, one for each of its ports.
pub fn before(
    plan: &PlatformPlan,
    component: &Component,
    dir: &Path,
    placeholders: &Placeholders,
) -> Vec<Front> {
    if !plan.is_behind_front(&component.name) {
        return Vec::new();
    }
    let ports: BTreeSet<&String> = component.named_ports().map(|(_, port)| port).collect();
    let of_port = |port: &String| {
        let name = name(plan, &component.name, port);
        match plan.balancer_before(&component.name) {
            Some(balancer) => balancers::before(balancer, port, name, placeholders),
            None => {
                let relay = plan.relays.iter().find(|relay| relay.component == component.name);
                relays::before(relay, port, name, dir, placeholders)
            }
        }
    };
    ports.into_iter().map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile};

    /// What stands before the broker of the profile `embedded`, its public port and those of the replicas.
    fn before_broker(settings: &str) -> (Vec<Front>, u16, Vec<u16>) {
        let text = format!(
            "name: t\nplatform: {{ profile: embedded, {settings} }}\npopulation: {{ devices: 1 }}\n\
             load: {{ levels: [100], hold: 10s }}\n"
        );
        let nowhere = Environment { profile: &|_| Err("there is none".into()), variable: &|_| None };
        let source = SourceFile { name: "t.yaml".into(), text };
        let plan = plimsoll_scenario::load(&source, &[], &nowhere).unwrap_or_else(|found| panic!("{found}"));
        let mut placeholders = Placeholders::new(Path::new("/d"));
        find_ports(&plan.platform, &mut placeholders).unwrap();
        let broker = &plan.platform.profile.components[0];
        let fronts = before(&plan.platform, broker, Path::new("/d"), &placeholders);
        let behind = placeholders.behind_front("mqtt").to_vec();
        (fronts, placeholders.port("mqtt").unwrap(), behind)
    }

    #[test]
    fn a_balancer_has_a_folder_of_its_own_and_knows_the_replicas() {
        let settings =
            "replicas: { broker: 2 }, balancers: { broker: { by: haproxy, policy: least_connections } }";
        let (fronts, port, behind) = before_broker(settings);
        let [front] = &fronts[..] else { panic!("{}", fronts.len()) };
        assert_eq!(front.component.name, "balancer before broker (mqtt)");
        assert_eq!(front.component.ready_port.as_deref(), Some("mqtt"));
        assert!(!front.is_relay && front.component.version.is_some());
        let own = format!("balancer-{port}");
        assert_eq!((front.own_folder.as_ref(), front.component.folder.as_ref()), (Some(&own), Some(&own)));
        let text = &front.component.files[&format!("{own}/haproxy.cfg")];
        for line in [
            "mode tcp".to_owned(),
            "balance leastconn".to_owned(),
            format!("bind 127.0.0.1:{port}"),
            format!("server s1 127.0.0.1:{}", behind[0]),
            format!("server s2 127.0.0.1:{}", behind[1]),
        ] {
            assert!(text.lines().any(|own| own.trim() == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn replicas_without_a_balancer_and_what_the_scenario_says_stand_behind_relays() {
        for settings in ["replicas: { broker: 2 }", "relays: { broker: { delay: 5ms } }"] {
            let (fronts, _, behind) = before_broker(settings);
            let [front] = &fronts[..] else { panic!("{}", fronts.len()) };
            assert_eq!(front.component.name, "relay before broker (mqtt)");
            assert!(front.is_relay && front.own_folder.is_none());
            let command = front.component.command.join(" ");
            assert!(
                behind.iter().all(|port| command.contains(&format!("--to 127.0.0.1:{port}"))),
                "{command}"
            );
            assert_eq!(command.contains("--delay 5ms"), settings.contains("delay"), "{command}");
        }
        assert!(before_broker("clean_up: false").0.is_empty());
    }
}
