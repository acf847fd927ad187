//! A platform profile: how to start a platform, how to know that it is up, how to talk to it. Files in
//! `platforms/`, embedded in the program; a user adds one without compiling.

use crate::plan::{MetricsPlan, Protocol};
use crate::profiles::requirements::Requirements;
pub use crate::profiles::roles::Roles;
use crate::profiles::token::Token;
use plimsoll_model::Nanos;
use plimsoll_model::wire::SharedId;
use std::collections::BTreeMap;

/// A platform profile, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name that a scenario uses.
    pub name: String,
    /// One line for lists.
    pub title: String,
    /// What the reader must know: limits, how they were set, caveats.
    pub description: String,
    /// The components, in the order of starting; empty for a platform that runs already.
    pub components: Vec<Component>,
    /// Limits of the platform that the profile sets or leaves, by name, for the report.
    pub limits: BTreeMap<String, String>,
    /// What communication it offers, which requirements it meets, how it is documented: by name, for comparisons.
    pub qualities: BTreeMap<String, String>,
    /// Which requirements it meets; qualities say them in words.
    pub(crate) requirements: Option<Requirements>,
    /// Where ids stand by which captured requests and responses find each other, in protocols that have none.
    pub shared_ids: Vec<SharedId>,
    /// Values by name that a scenario may set; `{NAME}` stands for them in the texts of roles.
    pub variables: BTreeMap<String, String>,
    /// The access token that requests need.
    pub(crate) token: Option<Token>,
    /// How each role speaks to the platform, where no mapping says otherwise.
    pub roles: Roles,
    /// Other ways to say the same, by name; a role that a mapping has takes the place of the profile's.
    pub mappings: BTreeMap<String, Roles>,
    /// The mapping taken where a scenario names none.
    pub mapping: Option<String>,
    /// Metrics that the platform itself tells.
    pub metrics: Vec<MetricsPlan>,
    /// What is simulated in the place of components; `None` of a real platform.
    pub simulated: Option<plimsoll_simulate::Spec>,
    /// The file as written.
    pub source: String,
}

/// One process of a platform. In `command`, `prepare`, `environment` and `files`, `{port:NAME}` stands for a free port
/// (the same wherever the same NAME stands), `{dir}` for a fresh directory, `{plimsoll}` for this program, `{certificate}` and `{key}` for
/// files with a certificate of this host and its key, in PEM. `{listen}` stands for the address at which a component is to listen, so
/// that others reach it, and `{host:NAME}` for the address at which the component listens that has the port NAME: both are
/// 127.0.0.1 unless components stand at workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its name in reports.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Files to write before the start, by their paths below `{dir}`.
    pub files: BTreeMap<String, String>,
    /// Environment variables beside PATH, HOME, LANG and TMPDIR; one without a value is passed on from ours.
    pub environment: BTreeMap<String, Option<String>>,
    /// The folder that the command is started in, below `{dir}`; `None` for `{dir}` itself.
    pub folder: Option<String>,
    /// The user that it runs as where we are root.
    pub user: Option<String>,
    /// Commands that run to their end before the first start.
    pub prepare: Vec<Vec<String>>,
    /// Name of the port at which the component is healthy when it accepts TCP connections; without it, it is healthy when it has
    /// run for a while.
    pub ready_port: Option<String>,
    /// How long it may take until it is healthy.
    pub ready_within: Nanos,
    /// What that port must answer over HTTP before the component is healthy, where accepting is not enough.
    pub ready_request: Option<ReadyRequest>,
    /// Names of the ports at which devices may speak to it, by what is spoken there. At that of a gateway is its test manager.
    pub ports: BTreeMap<Protocol, String>,
    /// Name of the port that speaks MQTT 5, where the one that speaks MQTT knows only older versions.
    pub mqtt5_port: Option<String>,
    /// How to install the command where it is missing.
    pub install: Option<String>,
    /// How to ask for the version: a command and its arguments.
    pub version: Option<Vec<String>>,
    /// Cost a month, in the currency of the user's choice, for cost figures.
    pub cost_per_month: Option<f64>,
    /// The site or the worker that starts it, if workers have the load; `None` for this host.
    pub at: Option<String>,
}

impl Profile {
    /// What its devices speak unless the scenario chooses another mapping; `None` leaves that to an address.
    pub fn device_protocol(&self) -> Option<Protocol> {
        let chosen = self.mapping.as_ref().and_then(|name| self.mappings.get(name));
        let of = |roles: &Roles| roles.device.as_ref().map(|device| device.speaks.0);
        chosen.and_then(of).or_else(|| of(&self.roles))
    }
}

impl Component {
    /// All that it is told, in which ports may stand.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        let commands = self.command.iter().chain(self.prepare.iter().flatten());
        commands.chain(self.files.values()).chain(self.environment.values().flatten())
    }

    /// The words of its commands and the values of its environment, in which the profile's variables stand.
    pub(crate) fn words(&mut self) -> impl Iterator<Item = &mut String> {
        let commands = self.command.iter_mut().chain(self.prepare.iter_mut().flatten());
        commands.chain(self.environment.values_mut().flatten())
    }

    /// Name of the port that speaks a protocol, if any.
    pub fn port(&self, protocol: Protocol) -> Option<&String> {
        self.ports.get(&protocol)
    }

    /// Names of all ports that it is known to listen at, each with the key of the profile that tells it.
    pub fn named_ports(&self) -> impl Iterator<Item = (String, &String)> {
        let spoken = self.ports.iter().map(|(protocol, name)| (protocol.port_key(), name));
        let ready = self.ready_port.iter().map(|name| ("ready_port".to_owned(), name));
        ready.chain(spoken).chain(self.mqtt5_port.iter().map(|name| ("mqtt5_port".to_owned(), name)))
    }
}

impl Component {
    /// The names of all ports that its texts ask for, as `{port:NAME}`, its own and those of others.
    pub fn ports_in_texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.command.iter().chain(self.files.values()).chain(self.environment.values().flatten());
        texts.flat_map(|text| text.split("{port:").skip(1)).filter_map(|rest| Some(rest.split_once('}')?.0))
    }
}

/// A GET that a component answers with a certain status once it is healthy.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadyRequest {
    /// Path and query.
    pub path: String,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The status that means healthy.
    #[serde(default = "ReadyRequest::ok")]
    pub status: u16,
    /// Seconds after the start before anything is asked, for a component that fails if it is asked while it starts.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0, max = 15)))]
    pub after: f64,
}

impl ReadyRequest {
    fn ok() -> u16 {
        200
    }
}
