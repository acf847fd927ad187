//! The processes of a platform that runs already on this host: those that the scenario names, and in a run that captures, whoever
//! listens at the platform's ports.

use plimsoll_observe::found::{NotFound, Place, ports_of, process_at, program_of};
use plimsoll_observe::vigil::Vigil;
use plimsoll_scenario::plan::{PlatformPlan, RunningPlace};
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

/// A component of the scenario has no process.
#[derive(Debug, thiserror::Error)]
#[error("platform.components: {name}: {cause}")]
pub struct RunningError {
    name: String,
    cause: NotFound,
}

/// Processes and the ports that say what they are on the wire.
#[derive(Debug, Default)]
pub struct Running {
    /// Each component and its first process.
    pub processes: Vec<(String, i32)>,
    /// Servers that are known beside those of the profile.
    pub servers: Vec<(String, SocketAddr)>,
    /// Notices that a component ends which the scenario names.
    pub vigils: Vec<(String, Vigil)>,
}

impl Running {
    /// Finds them. `servers` are those of the profile, which are looked for where the run `captures`.
    pub fn find(
        plan: &PlatformPlan,
        servers: &[(String, SocketAddr)],
        captures: bool,
    ) -> Result<Running, RunningError> {
        let mut running = Running::default();
        for component in &plan.components {
            let place = match &component.place {
                RunningPlace::Process(process) => Place::Process(i32::try_from(*process).unwrap_or(i32::MAX)),
                RunningPlace::Port(port) => Place::Port(*port),
                RunningPlace::Unit(unit) => Place::Unit(unit.clone()),
                RunningPlace::Container(name) => Place::Container(name.clone()),
            };
            let process =
                process_at(&place).map_err(|cause| RunningError { name: component.name.clone(), cause })?;
            running.processes.push((component.name.clone(), process));
            if let Place::Port(port) = place {
                running.servers.push((component.name.clone(), SocketAddr::from(([127, 0, 0, 1], port))));
            }
            running.vigils.push((component.name.clone(), Vigil::over(place, process)));
        }
        if captures && plan.profile.components.is_empty() {
            let address = servers.iter().map(|(_, address)| *address);
            for address in address.filter(is_here).collect::<Vec<_>>() {
                let named = plan.ports.values().map(|&port| SocketAddr::new(address.ip(), port));
                for address in std::iter::once(address).chain(named) {
                    running.listener(address);
                }
            }
        }
        Ok(running)
    }

    /// Who listens there, under the name of its program, unless it is known already.
    fn listener(&mut self, address: SocketAddr) {
        let Ok(process) = process_at(&Place::Port(address.port())) else { return };
        if process == std::process::id() as i32 {
            return;
        }
        let known = self.processes.iter().find(|(_, known)| *known == process).map(|(name, _)| name.clone());
        let Some(name) = known.clone().or_else(|| program_of(process)) else { return };
        if known.is_none() && !self.processes.iter().any(|(taken, _)| *taken == name) {
            self.processes.push((name.clone(), process));
        }
        self.servers.push((name, address));
    }

    /// Ports of this host that they listen at or are connected to: who captures those sees their further legs, too.
    pub fn ports(&self) -> BTreeSet<u16> {
        self.processes.iter().flat_map(|(_, process)| ports_of(*process)).collect()
    }
}

/// Whether that is an address of this host.
fn is_here(address: &SocketAddr) -> bool {
    address.ip().is_loopback() || UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
}
