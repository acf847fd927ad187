//! Placeholders of platform profiles: `{port:NAME}`, `{dir}`, `{plimsoll}`.

use crate::free_port::free_port;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What placeholders stand for, filled in as ports are asked for.
#[derive(Debug)]
pub struct Placeholders {
    dir: PathBuf,
    program: PathBuf,
    /// At which all find each component.
    ports: BTreeMap<String, u16>,
    /// At which components with a relay before them listen themselves.
    behind: BTreeMap<String, u16>,
    /// The ports of the component that is told something.
    own: BTreeSet<String>,
}

impl Placeholders {
    /// No ports yet.
    pub fn new(dir: &Path) -> Placeholders {
        Placeholders {
            dir: dir.to_owned(),
            program: PathBuf::new(),
            ports: BTreeMap::new(),
            behind: BTreeMap::new(),
            own: BTreeSet::new(),
        }
    }

    /// Gives the meaning of `{plimsoll}`.
    pub fn stand_for_program(&mut self, program: &Path) {
        self.program = program.to_owned();
    }

    /// The port of that name: free when it was first asked for.
    pub fn port(&mut self, name: &str) -> std::io::Result<u16> {
        if let Some(&port) = self.ports.get(name) {
            return Ok(port);
        }
        let port = self.free()?;
        self.ports.insert(name.to_owned(), port);
        Ok(port)
    }

    fn free(&self) -> std::io::Result<u16> {
        free_port(|port| self.ports.values().chain(self.behind.values()).any(|&own| own == port))
    }

    /// Puts a relay before the port of that name.
    pub fn put_behind_relay(&mut self, name: &str) -> std::io::Result<()> {
        self.port(name)?;
        if !self.behind.contains_key(name) {
            let port = self.free()?;
            self.behind.insert(name.to_owned(), port);
        }
        Ok(())
    }

    /// The port behind the relay that stands before the port of that name, if one does.
    pub fn behind_relay(&self, name: &str) -> Option<u16> {
        self.behind.get(name).copied()
    }

    /// From now on a component is told that has these ports: for it alone they are those at which it listens itself.
    pub fn speak_to<'a>(&mut self, ports: impl Iterator<Item = &'a String>) {
        self.own = ports.cloned().collect();
    }

    /// The port of that name for the component that is told something.
    pub fn told_port(&mut self, name: &str) -> std::io::Result<u16> {
        match self.behind.get(name).filter(|_| self.own.contains(name)) {
            Some(&port) => Ok(port),
            None => self.port(name),
        }
    }

    /// The ports that were asked for so far, by name.
    pub fn ports(&self) -> &BTreeMap<String, u16> {
        &self.ports
    }

    /// The same, to keep.
    pub fn into_ports(self) -> BTreeMap<String, u16> {
        self.ports
    }

    /// The text with its placeholders filled in; other braces stay as they are.
    pub fn fill(&mut self, text: &str) -> std::io::Result<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((name, remainder)) = after.split_once('}') else {
                filled.push('{');
                rest = after;
                continue;
            };
            match (name, name.strip_prefix("port:")) {
                ("dir", _) => filled.push_str(&self.dir.to_string_lossy()),
                ("plimsoll", _) => filled.push_str(&self.program.to_string_lossy()),
                (_, Some(port)) => filled.push_str(&self.told_port(port)?.to_string()),
                _ => {
                    filled.push('{');
                    rest = after;
                    continue;
                }
            }
            rest = remainder;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_equal_ports_and_other_braces_stay() {
        let mut placeholders = Placeholders::new(Path::new("/d"));
        placeholders.stand_for_program(Path::new("/p"));
        let filled = placeholders.fill("{dir}/x {plimsoll} {\"a\": {b}} {port:m} {port:m} {").unwrap();
        let port = placeholders.port("m").unwrap();
        assert_eq!(filled, format!("/d/x /p {{\"a\": {{b}}}} {port} {port} {{"));
        assert_ne!(placeholders.port("other").unwrap(), port);
    }

    #[test]
    fn behind_a_relay_a_component_alone_knows_its_own_port() {
        let mut placeholders = Placeholders::new(Path::new("/d"));
        let public = placeholders.port("m").unwrap();
        placeholders.put_behind_relay("m").unwrap();
        let behind = placeholders.behind_relay("m").unwrap();
        assert_ne!(public, behind);
        assert_eq!(placeholders.fill("{port:m}").unwrap(), public.to_string());
        placeholders.speak_to([&"m".to_owned()].into_iter());
        assert_eq!(placeholders.fill("{port:m}").unwrap(), behind.to_string());
        placeholders.speak_to([&"n".to_owned()].into_iter());
        assert_eq!(placeholders.fill("{port:m}").unwrap(), public.to_string());
    }
}
