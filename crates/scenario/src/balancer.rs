//! A load balancer: how it is started before a component, and what its configuration says. Files in `platforms/balancers/`,
//! embedded in the program; a user adds one without compiling.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a load balancer chooses one of the replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BalancingPolicy {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one that has the fewest connections.
    LeastConnections,
    /// The one that the client's address stands for: a client always gets the same one.
    SourceAddress,
}

/// What a load balancer understands of what it passes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BalancerMode {
    /// Connections: each goes to one replica as a whole.
    #[default]
    Tcp,
    /// Requests of HTTP: each goes to a replica of its own, over connections that are kept.
    Http,
}

/// A load balancer, as its file describes it. In `command` and `files`, `{dir}` stands for a fresh folder of its own and
/// `{plimsoll}` for this program.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalancer {
    /// The name that a scenario uses.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// What the reader must know of it.
    pub description: String,
    /// Limits that the file sets or leaves, by name, for the report.
    pub limits: BTreeMap<String, String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Templates of the files that it finds, by their paths below `{dir}`.
    pub(crate) files: BTreeMap<String, String>,
    /// What stands for `{policy}` in the files.
    pub(crate) policies: BTreeMap<BalancingPolicy, String>,
    /// What stands for `{mode}` in the files.
    pub(crate) modes: BTreeMap<BalancerMode, String>,
    /// How to install the command where it is missing.
    pub install: Option<String>,
    /// How to ask for the version: a command and its arguments.
    pub version: Option<Vec<String>>,
    /// The file as written.
    pub source: String,
}

impl BalancingPolicy {
    /// The word for it in files.
    pub fn key(self) -> &'static str {
        match self {
            BalancingPolicy::RoundRobin => "round_robin",
            BalancingPolicy::LeastConnections => "least_connections",
            BalancingPolicy::SourceAddress => "source_address",
        }
    }
}

impl BalancerMode {
    /// The word for it in files.
    pub fn key(self) -> &'static str {
        match self {
            BalancerMode::Tcp => "tcp",
            BalancerMode::Http => "http",
        }
    }
}

impl LoadBalancer {
    /// The files of one that listens at a port of this host and stands before replicas at others, by their paths below `{dir}`.
    pub(crate) fn files(
        &self,
        policy: BalancingPolicy,
        mode: BalancerMode,
        listen: u16,
        replicas: &[u16],
    ) -> BTreeMap<String, String> {
        let mode = self.modes.get(&mode).map_or("", String::as_str);
        let policy = self.policies.get(&policy).map_or("", String::as_str);
        let written = |text: &String| {
            // A mode has a policy, too.
            let text = text.replace("{mode}", mode.trim_end()).replace("{policy}", policy);
            for_each_replica(&text.replace("{listen}", &listen.to_string()), replicas)
        };
        self.files.iter().map(|(path, text)| (path.clone(), written(text))).collect()
    }
}

/// A text in which each line with `{server}` stands once for each replica.
fn for_each_replica(text: &str, replicas: &[u16]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.contains("{server}") {
            let of_replica = |(place, port): (usize, &u16)| {
                let (number, server) = ((place + 1).to_string(), format!("127.0.0.1:{port}"));
                line.replace("{number}", &number).replace("{server}", &server)
            };
            lines.extend(replicas.iter().enumerate().map(of_replica));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_server_stands_once_for_each_replica() {
        let text = "listen {listen} {\n  server s{number} {server};\n}\n";
        assert_eq!(
            for_each_replica(text, &[81, 82]),
            "listen {listen} {\n  server s1 127.0.0.1:81;\n  server s2 127.0.0.1:82;\n}\n"
        );
        assert_eq!(for_each_replica("{server} {", &[81]), "127.0.0.1:81 {\n");
        assert_eq!(for_each_replica("{server}", &[]), "\n");
    }

    #[test]
    fn files_have_the_mode_with_its_policy_and_ports() {
        let balancer = LoadBalancer {
            name: "b".to_owned(),
            title: String::new(),
            description: String::new(),
            limits: BTreeMap::new(),
            command: Vec::new(),
            files: BTreeMap::from([("b.conf".to_owned(), "keep {dir}\n{mode}\n".to_owned())]),
            policies: BTreeMap::from([
                (BalancingPolicy::RoundRobin, String::new()),
                (BalancingPolicy::LeastConnections, "least;".to_owned()),
            ]),
            modes: BTreeMap::from([
                (BalancerMode::Tcp, "tcp {listen} {policy}\n{server}\n".to_owned()),
                (BalancerMode::Http, "http {listen}".to_owned()),
            ]),
            install: None,
            version: None,
            source: String::new(),
        };
        let file = |policy, mode| balancer.files(policy, mode, 80, &[81, 82]).remove("b.conf");
        let (tcp, http) = (BalancerMode::Tcp, BalancerMode::Http);
        assert_eq!(
            file(BalancingPolicy::LeastConnections, tcp).as_deref(),
            Some("keep {dir}\ntcp 80 least;\n127.0.0.1:81\n127.0.0.1:82\n")
        );
        assert_eq!(file(BalancingPolicy::RoundRobin, http).as_deref(), Some("keep {dir}\nhttp 80\n"));
    }
}
