//! The components of a profile, as written: what is started, and when it is healthy.

use crate::config::Duration;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::ReadFile;
use crate::names;
use crate::plan::Protocol;
use crate::profile::{Component, ReadyRequest};
use crate::tree::Node;
use plimsoll_model::Nanos;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

/// One process of a platform. In `command`, `prepare`, `environment` and `files`, `{port:NAME}` stands for a free port
/// (the same wherever the same NAME stands), `{dir}` for a fresh directory, `{plimsoll}` for this program, `{certificate}` and `{key}` for
/// files with a certificate of this host and its key, in PEM.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ComponentConfig {
    /// Its name in reports.
    name: String,
    /// The command and its arguments.
    #[cfg_attr(test, schemars(length(min = 1)))]
    command: Vec<String>,
    /// Files to write before the start, by their paths below `{dir}`; folders are made where a path names some. Each is a text,
    /// or `{ from: PATH }`, the text of a file beside the profile.
    #[serde(default)]
    files: BTreeMap<String, FileConfig>,
    /// Environment variables, in whose values the same placeholders stand. One without a value is passed on from who runs
    /// Plimsoll. A component has these, and PATH, HOME, LANG and TMPDIR, and no others.
    #[serde(default)]
    environment: BTreeMap<String, Option<String>>,
    /// The folder that the command is started in: a path below `{dir}`, made before, or `{dir}` itself, the default.
    #[serde(default)]
    folder: Option<String>,
    /// The user that the component runs as where Plimsoll runs as root; its files and its folder belong to that user, and
    /// HOME is that user's unless `environment` has it.
    #[serde(default)]
    user: Option<String>,
    /// Commands that run to their end before the component is started, one after the other, such as one that makes a
    /// database. A component that is started again in mid-run finds what they made.
    #[serde(default)]
    prepare: Vec<Vec<String>>,
    /// Name of the port at which the component is healthy when it accepts TCP connections. Without it, the component is healthy
    /// when it has run for half a second.
    #[serde(default)]
    ready_port: Option<String>,
    /// How long it may take from its start until it is healthy.
    #[serde(default = "ready_within")]
    ready_within: Duration,
    /// What that port must answer over HTTP before the component is healthy, where accepting is not enough.
    #[serde(default)]
    ready_request: Option<ReadyRequest>,
    /// Name of the port that speaks MQTT, if any.
    #[serde(default)]
    mqtt_port: Option<String>,
    /// Name of the port that speaks MQTT 5, where `mqtt_port` speaks only older versions.
    #[serde(default)]
    mqtt5_port: Option<String>,
    /// Name of the port that speaks HTTP, if any.
    #[serde(default)]
    http_port: Option<String>,
    /// Name of the UDP port that speaks CoAP, if any.
    #[serde(default)]
    coap_port: Option<String>,
    /// Name of the port that speaks CoAP over TCP, if any.
    #[serde(default)]
    coap_tcp_port: Option<String>,
    /// Name of the port that speaks WebSocket without MQTT, if any.
    #[serde(default)]
    websocket_port: Option<String>,
    /// Name of the UDP port that speaks LwM2M, if any.
    #[serde(default)]
    lwm2m_port: Option<String>,
    /// Name of the port that speaks AMQP 0-9-1, if any.
    #[serde(default)]
    amqp_port: Option<String>,
    /// Name of the port that speaks AMQP 1.0, if any.
    #[serde(default)]
    amqp1_port: Option<String>,
    /// Name of the port that speaks Kafka, if any.
    #[serde(default)]
    kafka_port: Option<String>,
    /// Name of the port that speaks NATS, if any.
    #[serde(default)]
    nats_port: Option<String>,
    /// Of a gateway: name of the port at which its test manager is, which its command names. Plimsoll listens there. A
    /// gateway that polls finds its devices there, too; of one that devices send to, the log has the lives of events.
    #[serde(default)]
    gateway_port: Option<String>,
    /// How to install the command where it is missing.
    #[serde(default)]
    install: Option<String>,
    /// How to ask for the version: a command and its arguments.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    version: Option<Vec<String>>,
    /// Cost a month, in the currency of the user's choice, for cost figures.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0)))]
    cost_per_month: Option<f64>,
    /// The site or the worker that starts it, if workers have the load. Default: the host of the run. A scenario says it with
    /// `platform.at`, too.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    at: Option<String>,
}

/// A file that a component finds.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum FileConfig {
    /// Its text.
    Text(String),
    /// The file that holds its text.
    Copy(Copied),
}

#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Copied {
    /// Path of the file, relative to the profile's folder.
    from: String,
}

fn ready_within() -> Duration {
    crate::quantity::AsText(Nanos::from_secs(20))
}

impl ComponentConfig {
    /// The same, as the plan has it. `file` gives the text of a file beside the profile; what cannot be read is named with the
    /// key of `files` that wants it.
    pub(super) fn component(self, file: &ReadFile<'_>) -> Result<Component, (String, String)> {
        let mut files = BTreeMap::new();
        for (path, written) in self.files {
            let text = match written {
                FileConfig::Text(text) => text,
                FileConfig::Copy(Copied { from }) => file(&from)
                    .map_err(|reason| (path.clone(), format!("cannot read the file `{from}`: {reason}")))?,
            };
            files.insert(path, text);
        }
        let ports = [
            (Protocol::Mqtt, self.mqtt_port),
            (Protocol::Http, self.http_port),
            (Protocol::Coap, self.coap_port),
            (Protocol::CoapTcp, self.coap_tcp_port),
            (Protocol::WebSocket, self.websocket_port),
            (Protocol::Lwm2m, self.lwm2m_port),
            (Protocol::Gateway, self.gateway_port),
            (Protocol::Nats, self.nats_port),
            (Protocol::Amqp, self.amqp_port),
            (Protocol::Amqp1, self.amqp1_port),
            (Protocol::Kafka, self.kafka_port),
        ];
        Ok(Component {
            name: self.name,
            command: self.command,
            files,
            environment: self.environment,
            folder: self.folder,
            user: self.user,
            prepare: self.prepare,
            ready_port: self.ready_port,
            ready_within: self.ready_within.0,
            ready_request: self.ready_request,
            ports: ports.into_iter().filter_map(|(protocol, name)| Some((protocol, name?))).collect(),
            mqtt5_port: self.mqtt5_port,
            install: self.install,
            version: self.version,
            cost_per_month: self.cost_per_month,
            at: self.at,
        })
    }
}

/// What gauges of no component have in the place of its name: the machine, and its processors in an experiment.
const RESERVED: [&str; 2] = ["host", "processors"];

/// What the schema cannot say.
pub(super) fn check(
    components: &[Component],
    variables: &BTreeMap<String, String>,
    root: &Node,
    found: &mut Diagnostics,
) {
    let mut names = HashSet::new();
    for (position, component) in components.iter().enumerate() {
        let at = |key: &str| root.locate(&format!("components.{position}.{key}"));
        if !names.insert(&component.name) {
            let message = format!("a component named `{}` stands above already", component.name);
            found.push(Diagnostic::new(at("name"), message));
        }
        if !names::is_file_name(&component.name) {
            let message = format!("`{}` is no name of a component", plain(&component.name));
            let help = "its output goes into a file of that name: one line, without `/`";
            found.push(Diagnostic::new(at("name"), message).help(help));
        }
        if RESERVED.contains(&component.name.as_str()) {
            let message = format!("no component can be named `{}`", component.name);
            let help = "what is measured of the machine has that name: choose another one";
            found.push(Diagnostic::new(at("name"), message).help(help));
        }
        let texts = || component.texts();
        for (key, port) in component.named_ports() {
            let variable = format!("{{port:{port}}}");
            if !texts().any(|text| text.contains(&variable)) {
                let message = format!("nothing of this component uses `{variable}`");
                found.push(Diagnostic::new(at(&key), message).help("make the component listen on that port"));
            }
        }
        if component.ready_request.is_some() && component.ready_port.is_none() {
            let message = "`ready_request` is asked at a `ready_port`, which is not written";
            found.push(Diagnostic::new(at("ready_request"), message));
        }
        for (number, argument) in component.command.iter().enumerate() {
            let is_unknown = |name: &&str| !is_variable(name) && !variables.contains_key(*name);
            for name in braced(argument).filter(is_unknown) {
                found.push(
                    Diagnostic::new(
                        at(&format!("command.{number}")),
                        format!("there is no variable `{{{name}}}`"),
                    )
                    .help("allowed here: {port:NAME}, {host:NAME}, {listen}, {dir}, {plimsoll}, {certificate}, {key}, and the profile's variables"),
                );
            }
        }
        let files = component.files.keys().map(|name| ("files", name));
        for (key, path) in files.chain(component.folder.iter().map(|folder| ("folder", folder))) {
            if !names::is_below(path) {
                let message = format!("`{path}` is not a path below {{dir}}");
                let help = "names, with `/` between folders and what is in them";
                found.push(Diagnostic::new(at(key), message).help(help));
            }
        }
        for (number, command) in component.prepare.iter().enumerate() {
            if command.is_empty() {
                found.push(Diagnostic::new(at(&format!("prepare.{number}")), "this command has no words"));
            }
        }
        for name in component.environment.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("`{name}` is no name of an environment variable");
                found.push(Diagnostic::new(at("environment"), message));
            }
        }
    }
    for protocol in Protocol::ALL {
        let count = components.iter().filter(|component| component.port(protocol).is_some()).count();
        if count > 1 {
            let message = format!("one component may have an `{}`, but {count} have", protocol.port_key());
            found
                .push(Diagnostic::new(root.locate("components"), message).help("devices speak to that port"));
        }
    }
    if !components.is_empty() && components.iter().all(|component| component.ports.is_empty()) {
        let keys: Vec<String> =
            Protocol::ALL.iter().map(|protocol| format!("`{}`", protocol.port_key())).collect();
        let message = format!("exactly one component must have one of {}", keys.join(", "));
        found.push(Diagnostic::new(root.locate("components"), message).help("devices speak to that port"));
    }
}

/// A name without what would break a line.
fn plain(name: &str) -> String {
    name.escape_debug().to_string()
}

/// The words in braces of a text.
fn braced(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|after| after.split_once('}')).map(|(name, _)| name)
}

fn is_variable(name: &str) -> bool {
    let of_port = name.strip_prefix("port:").or(name.strip_prefix("host:"));
    matches!(name, "dir" | "plimsoll" | "certificate" | "key" | "listen")
        || of_port.is_some_and(|port| !port.is_empty())
}
