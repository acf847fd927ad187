//! The components of a platform that stand at one of several hosts, where somebody else says when each is started.

use super::{Death, Platform, facts, reserve};
use crate::PlatformError;
use crate::component::Allowed;
use crate::folder::Folder;
use crate::options::Options;
use crate::placeholders::Placeholders;
use plimsoll_scenario::plan::PlatformPlan;
use plimsoll_scenario::profile::Component;
use rustix::process::geteuid;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// See the module. Dropped, it takes down what was started.
#[derive(Debug)]
pub struct Site {
    platform: Platform,
    profile: String,
    components: Vec<Component>,
    placeholders: Placeholders,
    folder: PathBuf,
    /// The ports of components that stand elsewhere.
    of_others: BTreeSet<String>,
    options: Options,
}

impl Site {
    /// Finds free ports for the components of these names, which will listen at that address; nothing is started yet.
    ///
    /// # Errors
    /// There is no folder for them, or no port.
    pub fn of(
        plan: &PlatformPlan,
        names: &[String],
        listen: IpAddr,
        options: &Options,
    ) -> Result<Site, PlatformError> {
        let wrong = |what: String| PlatformError::Profile { profile: plan.profile.name.clone(), what };
        let dir =
            Folder::fresh(&options.program).map_err(|error| wrong(format!("no folder for it: {error}")))?;
        let is_here = |component: &&Component| names.contains(&component.name);
        let components: Vec<Component> = plan.profile.components.iter().filter(is_here).cloned().collect();
        let elsewhere = plan.profile.components.iter().filter(|component| !is_here(component));
        let of_others = elsewhere.flat_map(Component::named_ports).map(|(_, port)| port.clone()).collect();
        if geteuid().is_root() && components.iter().any(|component| component.user.is_some()) {
            dir.let_pass().map_err(|error| wrong(format!("its folder: {error}")))?;
        }
        let mut placeholders = Placeholders::new(dir.path());
        placeholders.listen_at(listen);
        placeholders.stand_for_program(&options.program);
        for component in &components {
            reserve(component, &mut placeholders).map_err(|error| wrong(format!("no free port: {error}")))?;
        }
        let folder = dir.path().to_owned();
        let mut platform = Platform::at(SocketAddr::new(listen, 0), facts(plan), None, options);
        (platform.listen, platform.dir) = (listen, Some(dir));
        let (profile, options) = (plan.profile.name.clone(), options.clone());
        Ok(Site { platform, profile, components, placeholders, folder, of_others, options })
    }

    /// Where its components will listen, by the names of the ports that the profile says they have.
    pub fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        let mut addresses = self.placeholders.addresses();
        let named: BTreeSet<&String> =
            self.components.iter().flat_map(Component::named_ports).map(|(_, port)| port).collect();
        addresses.retain(|name, _| named.contains(name));
        addresses
    }

    /// Starts a component and waits until it is healthy; its version, where it says one. Components elsewhere listen where `known`
    /// says.
    ///
    /// # Errors
    /// See [`PlatformError`].
    pub fn start(
        &mut self,
        name: &str,
        known: &BTreeMap<String, SocketAddr>,
    ) -> Result<Option<String>, PlatformError> {
        for (port, address) in known.iter().filter(|(port, _)| self.of_others.contains(*port)) {
            self.placeholders.know(port, *address);
        }
        let Some(component) = self.components.iter().find(|component| component.name == name) else {
            let (profile, what) = (self.profile.clone(), format!("no component `{name}` stands here"));
            return Err(PlatformError::Profile { profile, what });
        };
        let (folder, options) = (&self.folder, &self.options);
        self.platform.start(component, folder, &mut self.placeholders, Allowed::default(), options)?;
        Ok(self.platform.components.last().and_then(|running| running.version(folder, options)))
    }

    /// Those that were started: names and process ids.
    pub fn processes(&self) -> Vec<(String, i32)> {
        self.platform.processes()
    }

    /// What they say: their names, and the files that take it.
    pub fn logs(&self) -> Vec<(String, PathBuf)> {
        self.platform.components.iter().map(|running| (running.name.clone(), running.log.clone())).collect()
    }

    /// Where they listen.
    pub fn listens_at(&self) -> SocketAddr {
        self.platform.address()
    }

    /// A component that has ended by itself since the last call.
    pub fn take_death(&mut self) -> Option<Death> {
        self.platform.take_death()
    }
}
