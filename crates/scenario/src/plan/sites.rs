//! Where the clients of a population stand, if workers have the load.

use super::{Plan, ReceiversPlan};

/// Where the clients of a population stand, if workers have the load: at the workers of a site, at the worker of a name, or at all
/// workers. Without workers, all stand on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SitesPlan {
    /// Its devices; `None` for all workers.
    pub devices: Option<String>,
    /// Its subscribers; `None` for all workers.
    pub subscribers: Option<String>,
    /// Those who ask northbound; `None` for all workers.
    pub queriers: Option<String>,
    /// Whether each subscriber stands at the worker of the devices whose messages it receives.
    pub beside: bool,
}

impl Plan {
    /// Who of this population stands where, for people; empty where all stand at all workers.
    pub fn sites_in_words(&self) -> String {
        let sites = &self.sites;
        let of_devices = sites.devices.as_ref().filter(|_| self.devices > 0);
        let own = self.own_subscribers() > 0;
        let of_subscribers = sites.subscribers.as_ref().filter(|_| own && !sites.beside);
        let of_queriers = sites.queriers.as_ref().filter(|_| self.northbound.is_some());
        let at = |who: &str, site: Option<&String>| site.map(|site| format!("{who} at {site}"));
        let parts = [
            at("devices", of_devices),
            at("subscribers", of_subscribers),
            (sites.beside && own).then(|| "subscribers beside the devices that they receive from".to_owned()),
            at("queriers", of_queriers),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The same of all populations of the run; `None` where nobody is pinned.
    pub fn all_sites_in_words(&self) -> Option<String> {
        let several = self.with_devices().count() > 1;
        let of = |plan: &Plan| {
            let told = plan.sites_in_words();
            let is_named = several && plan.population.receivers != ReceiversPlan::OfOthers;
            let name = if is_named { format!("{}: ", plan.population.name) } else { String::new() };
            (!told.is_empty()).then(|| format!("{name}{told}"))
        };
        let told: Vec<String> = self.populations().filter_map(of).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The same, and which components of the platform stand where.
    pub fn all_places_in_words(&self) -> Option<String> {
        let components = self.platform.profile.components.iter();
        let of = components.filter_map(|own| Some(format!("component {} at {}", own.name, own.at.as_ref()?)));
        let told: Vec<String> = self.all_sites_in_words().into_iter().chain(of).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}
