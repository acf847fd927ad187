//! Load balancers: those embedded in the program, and those in files of the user.

use crate::balancer::{BalancerMode, BalancingPolicy, LoadBalancer};
use crate::check::{check, near_miss};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::names;
use crate::reader::read;
use crate::schema;
use crate::span::{Origin, SourceFile};
use crate::tree::Node;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

include!(concat!(env!("OUT_DIR"), "/balancers.rs"));

/// How to start a load balancer before the replicas of a component, and what the reader of a report must know of it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BalancerConfig {
    /// The name that a scenario uses.
    name: String,
    /// One line about it.
    title: String,
    /// What the reader must know: limits, how they were set, caveats.
    #[serde(default)]
    description: String,
    /// Limits of the balancer that this file sets or leaves, by name, for the report.
    #[serde(default)]
    limits: BTreeMap<String, String>,
    /// The command and its arguments. `{dir}` stands for a fresh folder of its own. The command stays in the foreground.
    #[cfg_attr(test, schemars(length(min = 1)))]
    command: Vec<String>,
    /// Files to write before the start, by their paths below `{dir}`. In them, `{mode}` stands for what `modes` has, `{policy}`
    /// for what `policies` has, and `{listen}` for the port at which the balancer listens, at 127.0.0.1. A line with
    /// `{server}` in it stands once for each replica: `{server}` is its address and port, and `{number}` counts from 1.
    files: BTreeMap<String, String>,
    /// What the files say for each policy that the balancer has.
    policies: Policies,
    /// What the files say for each mode that the balancer has; the other placeholders may stand in it, too.
    modes: Modes,
    /// How to install the command where it is missing.
    #[serde(default)]
    install: Option<String>,
    /// How to ask for the version: a command and its arguments.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    version: Option<Vec<String>>,
}

/// How a balancer may choose a replica.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Policies {
    /// Each in turn.
    #[serde(default)]
    round_robin: Option<String>,
    /// The one that has the fewest connections.
    #[serde(default)]
    least_connections: Option<String>,
    /// The one that the client's address stands for.
    #[serde(default)]
    source_address: Option<String>,
}

/// What a balancer may understand of what it passes on.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Modes {
    /// Connections of TCP.
    #[serde(default)]
    tcp: Option<String>,
    /// Requests of HTTP.
    #[serde(default)]
    http: Option<String>,
}

/// The names of all embedded balancers.
pub(crate) fn embedded() -> impl Iterator<Item = &'static str> + Clone {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The embedded balancer of that name. Tests ensure that every embedded file is without error.
pub(crate) fn balancer(name: &str) -> Option<LoadBalancer> {
    let (name, text) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
    let source = SourceFile { name: format!("platforms/balancers/{name}.yaml"), text: (*text).to_owned() };
    read_balancer(source).ok()
}

/// What helps where no balancer has a name.
pub(crate) fn help_for_unknown(name: &str) -> String {
    format!("{}; or the path of a file, with a `/` in it or ending in `.yaml`", near_miss(name, embedded()))
}

/// Reads the file of a balancer.
pub(crate) fn read_balancer(source: SourceFile) -> Result<LoadBalancer, Diagnostics> {
    let mut found = Diagnostics::default();
    let origin = Arc::new(Origin::File(source.clone()));
    let Some(root) = read(&origin, &source.text, 0, &mut found) else { return Err(found) };
    let json = check(&root, &schema::BALANCER, &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    let written: BalancerConfig = match serde_json::from_value(json) {
        Ok(written) => written,
        Err(error) => {
            found.push(Diagnostic::new(&root.span, format!("not a load balancer: {error}")));
            return Err(found);
        }
    };
    let balancer = LoadBalancer {
        name: written.name,
        title: written.title,
        description: written.description.trim_end().to_owned(),
        limits: written.limits,
        command: written.command,
        files: written.files,
        policies: written.policies.written(),
        modes: written.modes.written(),
        install: written.install,
        version: written.version,
        source: source.text,
    };
    check_texts(&balancer, &root, &mut found);
    if found.is_empty() { Ok(balancer) } else { Err(found) }
}

impl Policies {
    fn written(self) -> BTreeMap<BalancingPolicy, String> {
        let all = [
            (BalancingPolicy::RoundRobin, self.round_robin),
            (BalancingPolicy::LeastConnections, self.least_connections),
            (BalancingPolicy::SourceAddress, self.source_address),
        ];
        all.into_iter().filter_map(|(policy, text)| Some((policy, text?))).collect()
    }
}

impl Modes {
    fn written(self) -> BTreeMap<BalancerMode, String> {
        let all = [(BalancerMode::Tcp, self.tcp), (BalancerMode::Http, self.http)];
        all.into_iter().filter_map(|(mode, text)| Some((mode, text?))).collect()
    }
}

/// What the schema cannot say.
fn check_texts(balancer: &LoadBalancer, root: &Node, found: &mut Diagnostics) {
    if !names::is_line(&balancer.name) {
        let message = "a name has one line, and no control characters";
        found.push(Diagnostic::new(root.locate("name"), message));
    }
    for path in balancer.files.keys().filter(|path| !names::is_below(path)) {
        let message = format!("`{path}` is not a path below {{dir}}");
        let help = "names, with `/` between folders and what is in them";
        found.push(Diagnostic::new(root.locate("files"), message).help(help));
    }
    for (key, is_empty) in [("policies", balancer.policies.is_empty()), ("modes", balancer.modes.is_empty())]
    {
        if is_empty {
            found.push(Diagnostic::new(root.locate(key), format!("the balancer has no {key}")));
        }
    }
    for (mode, text) in &balancer.modes {
        let files: String = balancer.files.values().map(|file| file.replace("{mode}", text) + "\n").collect();
        for (variable, what) in [
            ("{listen}", "the port at which it listens"),
            ("{server}", "the replicas"),
            ("{policy}", "how it chooses one of them"),
        ] {
            if !files.contains(variable) {
                let mode = mode.key();
                let message = format!("in the mode `{mode}`, `{variable}` stands in no file");
                let help = format!("it says {what}: write it into a file, or into the text of the mode");
                found.push(Diagnostic::new(root.locate(&format!("modes.{mode}")), message).help(help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<LoadBalancer, String> {
        read_balancer(SourceFile { name: "mine.yaml".into(), text: text.into() })
            .map_err(|found| found.to_string())
    }

    const GOOD: &str = "\
name: mine
title: mine
command: [balance, \"{dir}/b.conf\"]
files:
  b.conf: |
    {mode} {policy}
    listen {listen}
    server {server}
policies: { round_robin: turn }
modes: { tcp: plain }
";

    #[test]
    fn every_embedded_balancer_is_without_error_and_has_each_policy_in_each_mode() {
        for (name, text) in EMBEDDED {
            let balancer = read_text(text).unwrap_or_else(|found| panic!("{name}: {found}"));
            assert_eq!(balancer.name, name);
            assert!(!balancer.limits.is_empty() && balancer.install.is_some(), "{name}");
            let all = balancer.policies.keys().flat_map(|&policy| {
                balancer.modes.keys().map(move |&mode| (policy, mode)).collect::<Vec<_>>()
            });
            let all: Vec<_> = all.collect();
            // What authenticates reads requests, and has no other mode.
            assert_eq!((balancer.policies.len(), all.is_empty()), (3, false), "{name}: {all:?}");
            for (policy, mode) in all {
                let files = balancer.files(policy, mode, 40_080, &[40_081, 40_082]);
                let text: String = files.into_values().collect();
                for port in [40_080, 40_081, 40_082] {
                    let address = format!("127.0.0.1:{port}");
                    assert_eq!(text.matches(&address).count(), 1, "{name}, {policy:?}, {mode:?}:\n{text}");
                }
                for variable in ["{mode}", "{policy}", "{listen}", "{server}", "{number}"] {
                    assert!(!text.contains(variable), "{name}, {policy:?}, {mode:?}:\n{text}");
                }
            }
        }
        assert_eq!(balancer("none"), None);
    }

    #[test]
    fn what_is_wrong_with_a_balancer_is_found_at_once() {
        let balancer = read_text(GOOD).unwrap();
        assert_eq!(balancer.source, GOOD);
        assert_eq!(balancer.policies.keys().copied().collect::<Vec<_>>(), [BalancingPolicy::RoundRobin]);
        let wrong = GOOD.replace("b.conf: |", "../b.conf: |").replace("listen {listen}", "listen 80");
        let shown = read_text(&wrong.replace("{policy}", "").replace("{server}", "localhost")).unwrap_err();
        for expected in [
            "`../b.conf` is not a path below",
            "in the mode `tcp`, `{listen}` stands in no file",
            "`{server}` stands in no file",
            "`{policy}` stands in no file",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        for (right, wrong, expected) in [
            ("{ tcp: plain }", "{}", "the balancer has no modes"),
            ("{ round_robin: turn }", "{}", "the balancer has no policies"),
            ("round_robin", "round_robbin", "did you mean `round_robin`?"),
            ("command:", "comand:", "did you mean `command`?"),
            ("[balance, \"{dir}/b.conf\"]", "[]", "the list is empty"),
        ] {
            let shown = read_text(&GOOD.replace(right, wrong)).unwrap_err();
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
    }
}
