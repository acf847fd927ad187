//! Placeholders of platform profiles: `{port:NAME}`, `{host:NAME}`, `{listen}`, `{dir}`, `{plimsoll}`, `{certificate}`, `{key}`.

use crate::certificate::Certificate;
use crate::free_port::free_port;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where components listen by themselves.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What placeholders stand for, filled in as ports are asked for.
#[derive(Debug)]
pub struct Placeholders {
    dir: PathBuf,
    program: PathBuf,
    /// At which all find each component.
    ports: BTreeMap<String, u16>,
    /// Where the components listen that have these ports, as far as they do not stand here.
    hosts: BTreeMap<String, IpAddr>,
    /// Where those listen that stand here.
    listen: IpAddr,
    /// At which components with something before them listen themselves, each replica at one.
    behind: BTreeMap<String, Vec<u16>>,
    /// The ports of the component that is told something, which of its replicas it is, and its folder where it has one of its own.
    own: BTreeSet<String>,
    replica: usize,
    below: Option<String>,
    /// Made when it is first asked for.
    certificate: Option<Certificate>,
}

impl Placeholders {
    /// No ports yet.
    pub fn new(dir: &Path) -> Placeholders {
        Placeholders {
            dir: dir.to_owned(),
            program: PathBuf::new(),
            ports: BTreeMap::new(),
            hosts: BTreeMap::new(),
            listen: HERE,
            behind: BTreeMap::new(),
            own: BTreeSet::new(),
            replica: 0,
            below: None,
            certificate: None,
        }
    }

    /// Gives the meaning of `{listen}`: where others reach what listens here.
    pub fn listen_at(&mut self, address: IpAddr) {
        self.listen = address;
    }

    /// Takes in where a component listens that stands elsewhere.
    pub fn know(&mut self, name: &str, address: SocketAddr) {
        self.ports.insert(name.to_owned(), address.port());
        self.hosts.insert(name.to_owned(), address.ip());
    }

    /// Where the component listens that has the port of that name.
    pub fn host(&self, name: &str) -> IpAddr {
        self.hosts.get(name).copied().unwrap_or(self.listen)
    }

    /// Where all ports are that were asked for so far or are known, by name.
    pub fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        let address = |(name, port): (&String, &u16)| (name.clone(), SocketAddr::new(self.host(name), *port));
        self.ports.iter().map(address).collect()
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
        free_port(|port| self.ports.values().chain(self.behind.values().flatten()).any(|&own| own == port))
    }

    /// Lets something stand before the port of that name, and so many replicas behind it.
    pub fn put_behind_front(&mut self, name: &str, replicas: usize) -> std::io::Result<()> {
        self.port(name)?;
        while self.behind_front(name).len() < replicas {
            let port = self.free()?;
            self.behind.entry(name.to_owned()).or_default().push(port);
        }
        Ok(())
    }

    /// The ports behind what stands before the port of that name: one for each replica, none where nothing stands there.
    pub fn behind_front(&self, name: &str) -> &[u16] {
        self.behind.get(name).map_or(&[], Vec::as_slice)
    }

    /// From now on a replica of a component is told that has these ports: for it alone they are those at which it listens itself.
    /// `below` is its own folder in that of the platform.
    pub fn speak_to<'a>(
        &mut self,
        ports: impl Iterator<Item = &'a String>,
        replica: usize,
        below: Option<&str>,
    ) {
        (self.own, self.replica) = (ports.cloned().collect(), replica);
        self.below = below.map(str::to_owned);
    }

    /// From now on nobody is told who has ports of its own.
    pub fn speak_to_others(&mut self) {
        self.speak_to(std::iter::empty(), 0, None);
    }

    /// The port of that name for the component that is told something.
    pub fn told_port(&mut self, name: &str) -> std::io::Result<u16> {
        let behind = self.behind.get(name).filter(|_| self.own.contains(name));
        match behind.and_then(|ports| ports.get(self.replica)) {
            Some(&port) => Ok(port),
            None => self.port(name),
        }
    }

    /// The ports that were asked for so far, by name.
    pub fn ports(&self) -> &BTreeMap<String, u16> {
        &self.ports
    }

    fn certificate(&mut self) -> std::io::Result<&Certificate> {
        if self.certificate.is_none() {
            self.certificate = Some(Certificate::make(&self.dir)?);
        }
        self.certificate.as_ref().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// The key of the certificate, where one was made.
    pub fn key(&self) -> Option<&Path> {
        self.certificate.as_ref().map(|made| made.key.as_path())
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
            if let Some(port) = name.strip_prefix("host:") {
                filled.push_str(&self.host(port).to_string());
                rest = remainder;
                continue;
            }
            match (name, name.strip_prefix("port:")) {
                ("listen", _) => filled.push_str(&self.listen.to_string()),
                ("dir", _) => {
                    let own = self.below.as_ref().map(|below| self.dir.join(below));
                    filled.push_str(&own.as_ref().unwrap_or(&self.dir).to_string_lossy());
                }
                ("certificate", _) => filled.push_str(&self.certificate()?.certificate.to_string_lossy()),
                ("key", _) => filled.push_str(&self.certificate()?.key.to_string_lossy()),
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
    fn a_certificate_is_made_once_and_its_key_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let mut placeholders = Placeholders::new(folder.path());
        let files = placeholders.fill("{certificate} {key}").unwrap();
        assert_eq!(placeholders.fill("{certificate} {key}").unwrap(), files);
        let (certificate, key) = files.split_once(' ').unwrap();
        assert!(std::fs::read_to_string(certificate).unwrap().starts_with("-----BEGIN CERTIFICATE"));
        assert!(std::fs::read_to_string(key).unwrap().starts_with("-----BEGIN PRIVATE KEY"));
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(key).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

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
    fn components_elsewhere_have_addresses_of_their_own() {
        let mut placeholders = Placeholders::new(Path::new("/d"));
        let own = placeholders.port("own").unwrap();
        assert_eq!(
            placeholders.fill("{listen} {host:own} {host:db}").unwrap(),
            "127.0.0.1 127.0.0.1 127.0.0.1"
        );
        placeholders.know("db", "192.0.2.7:5432".parse().unwrap());
        placeholders.listen_at([192, 0, 2, 1].into());
        let filled = placeholders.fill("{host:db}:{port:db} {host:own} {listen}").unwrap();
        assert_eq!(filled, "192.0.2.7:5432 192.0.2.1 192.0.2.1");
        let addresses = placeholders.addresses();
        assert_eq!(addresses["own"], SocketAddr::from(([192, 0, 2, 1], own)));
    }

    #[test]
    fn behind_what_stands_before_it_a_component_alone_knows_its_own_port() {
        let mut placeholders = Placeholders::new(Path::new("/d"));
        let public = placeholders.port("m").unwrap();
        placeholders.put_behind_front("m", 2).unwrap();
        let [behind, second] = placeholders.behind_front("m") else { panic!("{placeholders:?}") };
        let (behind, second) = (*behind, *second);
        assert!(public != behind && behind != second && public != second);
        assert_eq!(placeholders.fill("{port:m}").unwrap(), public.to_string());
        placeholders.speak_to([&"m".to_owned()].into_iter(), 0, None);
        assert_eq!(placeholders.fill("{port:m} {dir}").unwrap(), format!("{behind} /d"));
        placeholders.speak_to([&"m".to_owned()].into_iter(), 1, Some("m-2"));
        assert_eq!(placeholders.fill("{port:m} {dir}").unwrap(), format!("{second} /d/m-2"));
        placeholders.speak_to([&"n".to_owned()].into_iter(), 0, None);
        assert_eq!(placeholders.fill("{port:m}").unwrap(), public.to_string());
    }
}
