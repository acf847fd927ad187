//! Load balancers before components: programs of others, started with a configuration for the ports of the replicas.

use crate::fronts::Front;
use crate::placeholders::Placeholders;
use plimsoll_scenario::plan::BalancerPlan;

/// The balancer before a port of a component.
pub fn before(plan: &BalancerPlan, port: &str, name: String, placeholders: &Placeholders) -> Front {
    let listen = placeholders.ports().get(port).copied().unwrap_or_default();
    let files = plan.files(port, listen, placeholders.behind_front(port));
    // Another one may have files of the same names.
    let own = format!("balancer-{listen}");
    let mut front = Front::new(name, plan.balancer.command.clone(), port, false);
    front.component.files = files.into_iter().map(|(path, text)| (format!("{own}/{path}"), text)).collect();
    front.component.folder = Some(own.clone());
    front.component.install.clone_from(&plan.balancer.install);
    front.component.version.clone_from(&plan.balancer.version);
    front.own_folder = Some(own);
    front
}
