//! Placeholders of platform profiles: `{port:NAME}`, `{dir}`, `{plimsoll}`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// What placeholders stand for, filled in as ports are asked for.
#[derive(Debug)]
pub struct Placeholders {
    dir: PathBuf,
    program: PathBuf,
    ports: BTreeMap<String, u16>,
}

impl Placeholders {
    /// No ports yet.
    pub fn new(dir: &Path) -> Placeholders {
        Placeholders { dir: dir.to_owned(), program: PathBuf::new(), ports: BTreeMap::new() }
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
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        self.ports.insert(name.to_owned(), port);
        Ok(port)
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
                (_, Some(port)) => filled.push_str(&self.port(port)?.to_string()),
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
}
