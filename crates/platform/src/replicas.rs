//! Replicas of a component: several of the same, each with a name, a folder and ports of its own.

use plimsoll_scenario::plan::PlatformPlan;
use plimsoll_scenario::profile::Component;

/// One of them.
pub struct Replica {
    /// What is started.
    pub component: Component,
    /// The folder that `{dir}` stands for, in that of the platform; `None` where the component is the only one.
    pub own_folder: Option<String>,
}

/// What a replica is called: as the component where there is one alone.
pub fn name(component: &str, place: usize, count: usize) -> String {
    if count > 1 { format!("{component} {}", place + 1) } else { component.to_owned() }
}

/// All replicas of a component.
pub fn of(plan: &PlatformPlan, component: &Component) -> Vec<Replica> {
    let count = plan.replicas_of(&component.name);
    let of_place = |place: usize| {
        let mut replica = component.clone();
        if count == 1 {
            return Replica { component: replica, own_folder: None };
        }
        replica.name = name(&component.name, place, count);
        let own = format!("{}-{}", component.name, place + 1);
        let files = component.files.iter();
        replica.files = files.map(|(path, text)| (format!("{own}/{path}"), text.clone())).collect();
        replica.folder = Some(match &component.folder {
            Some(folder) => format!("{own}/{folder}"),
            None => own.clone(),
        });
        Replica { component: replica, own_folder: Some(own) }
    };
    (0..count).map(of_place).collect()
}
