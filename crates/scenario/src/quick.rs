//! The file-less form: a scenario from the options of a command line, through the same checks as a file.

use crate::address::protocol_of;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::matrix::{self, Axis, Matrix};
use crate::overrides::Override;
use crate::overrides::{Words, changes, set};
use crate::tree::is_within;
use crate::tree::{Node, Value};
use plimsoll_codec::credentials::hide_credentials;

/// The environment variable that holds the password of the file-less form.
pub const PASSWORD_VARIABLE: &str = "PLIMSOLL_PASSWORD";

/// Characters that a scenario's name may have; an address may have more.
const LONGEST_NAME: usize = 200;

/// What the user typed, as typed. Options left out take the scenario's defaults; each has the meaning and the form
/// of the key of a scenario that it stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuickOptions {
    /// `mqtt://[user@]host[:port]` or another address of a platform that runs already.
    pub address: String,
    /// `--protocol`: what is spoken at a `ws://` or `wss://` address.
    pub protocol: Option<String>,
    /// `--devices`: simulated publishers.
    pub devices: Option<String>,
    /// `--rate`: one rate (`500`, `500/s`), or `FROM..TO/STEP`, in operations per second.
    pub rate: Option<String>,
    /// `--search`: `FROM..TO`, the range in which to search for the load line instead.
    pub search: Option<String>,
    /// `--hold`: measured time of each level.
    pub hold: Option<String>,
    /// `--warm-up`: load before each hold that is not counted.
    pub warm_up: Option<String>,
    /// `--samples`: equal parts of the hold.
    pub samples: Option<String>,
    /// `--drain`: longest wait for stragglers after each hold.
    pub drain: Option<String>,
    /// `--qos`: QoS of publishing.
    pub qos: Option<String>,
    /// `--size`: size of a message.
    pub size: Option<String>,
    /// `--subscribers`: receivers of deliveries.
    pub subscribers: Option<String>,
    /// `--arrivals`: distribution of the gaps between operations.
    pub arrivals: Option<String>,
    /// `--username`: user name for MQTT; the password stands in the environment variable.
    pub username: Option<String>,
    /// `--ca`: file with the authority that signed the platform's certificate.
    pub ca: Option<String>,
    /// `--cert`: file with the certificate that clients show.
    pub certificate: Option<String>,
    /// `--key`: file with its private key.
    pub key: Option<String>,
    /// `--insecure`: the platform's certificate is not checked.
    pub insecure: bool,
    /// `--version`: MQTT version.
    pub version: Option<String>,
    /// `--seed`: seeds every random number.
    pub seed: Option<String>,
}

/// Makes a scenario of options and overrides, which may say what varies, and checks each combination. The password comes from
/// [`PASSWORD_VARIABLE`] where there is a user name. The error holds everything that is wrong, each with its option.
pub fn quick(
    options: &QuickOptions,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Matrix, Diagnostics> {
    let mut found = Diagnostics::default();
    let address = Words::new("", &options.address);
    let mut tree = Tree { root: Node::empty_map(&address.span()), found: &mut found };
    let username = format!("{}.username", section_of(&options.address));
    tree.address(&address);
    if let Some(rate) = &options.rate {
        tree.rate(&Words::new("--rate", rate));
    }
    if let Some(range) = &options.search {
        tree.search(&Words::new("--search", range));
    }
    for (option, path, value) in [
        ("--protocol", "platform.protocol", &options.protocol),
        ("--devices", "population.devices", &options.devices),
        ("--subscribers", "population.subscribers", &options.subscribers),
        ("--qos", "mqtt.qos", &options.qos),
        ("--version", "mqtt.version", &options.version),
        ("--username", username.as_str(), &options.username),
        ("--size", "message.size", &options.size),
        ("--arrivals", "load.arrivals", &options.arrivals),
        ("--warm-up", "load.warm_up", &options.warm_up),
        ("--hold", "load.hold", &options.hold),
        ("--samples", "load.samples", &options.samples),
        ("--drain", "load.drain", &options.drain),
        ("--seed", "seed", &options.seed),
        ("--ca", "connection.tls.ca", &options.ca),
        ("--cert", "connection.tls.certificate", &options.certificate),
        ("--key", "connection.tls.key", &options.key),
        ("--insecure", "connection.tls.verify", &options.insecure.then(|| "false".to_owned())),
    ] {
        if let Some(value) = value {
            tree.option(path, &Words::new(option, value));
        }
    }
    let changes = changes(overrides, tree.found);
    let axes = matrix::apply(changes, &mut tree.root, tree.found);
    tree.complete(&address, &axes, environment);
    let root = tree.root;
    matrix::made_of(root, axes, environment, found)
}

/// The section of the user at an address.
fn section_of(address: &str) -> String {
    let protocol = protocol_of(address).filter(|protocol| protocol.has_topics());
    protocol.unwrap_or_default().key()
}

/// A scenario that grows from options.
struct Tree<'a> {
    root: Node,
    found: &'a mut Diagnostics,
}

impl Tree<'_> {
    /// Sets a value; what stands in its way is reported.
    fn set(&mut self, path: &str, words: &Words, value: Node) {
        if let Err(message) = set(&mut self.root, path, &words.span(), value) {
            self.found.push(Diagnostic::new(&words.span(), message));
        }
    }

    /// An option whose value is that of the key.
    fn option(&mut self, path: &str, words: &Words) {
        if let Some(value) = words.read(self.found) {
            self.set(path, words, value);
        }
    }

    fn address(&mut self, words: &Words) {
        let address = words.value();
        let mut server = address.to_owned();
        let authority = address.find("://").map_or(0, |scheme| scheme + 3);
        // An `@` further on belongs to a path or a query.
        let end = address.get(authority..).and_then(|rest| rest.find(['/', '?', '#']));
        let (place, path) = address.split_at(end.map_or(address.len(), |end| authority + end));
        if let Some((user, host)) = place.get(authority..).and_then(|place| place.rsplit_once('@')) {
            server = format!("{}{host}{path}", address.get(..authority).unwrap_or_default());
            if user.contains(':') {
                self.found.push(
                    Diagnostic::new(
                        &words.span(),
                        "a password does not belong in an address, where others see it",
                    )
                    .help(format!("set it in the environment variable {PASSWORD_VARIABLE}")),
                );
            }
            self.set(
                &format!("{}.username", section_of(address)),
                words,
                text(user.split(':').next().unwrap_or_default(), words),
            );
        }
        let name: String = hide_credentials(&server).chars().take(LONGEST_NAME).collect();
        self.set("name", words, text(&name, words));
        self.set("platform.profile", words, text("existing", words));
        self.set("platform.address", words, text(&server, words));
    }

    fn rate(&mut self, words: &Words) {
        let value = words.value();
        let Some((from, rest)) = value.split_once("..") else {
            let list = Node { value: Value::List(vec![words.node()]), span: words.span() };
            self.set("load.levels", words, list);
            return;
        };
        // The last slash is the step's, unless it begins a `/s`.
        let Some((to, step)) = rest.strip_suffix("/s").unwrap_or(rest).rsplit_once('/') else {
            self.found.push(
                Diagnostic::new(&words.span(), "the range has no step")
                    .help("write `--rate 100..1500/100`: from, to and step in operations per second"),
            );
            self.set("load.levels", words, placeholder_levels(words));
            return;
        };
        let mut start = 0;
        for (key, part, gap) in [("from", from, 2), ("to", to, 1), ("step", step, 0)] {
            let length = part.chars().count();
            let node = Node::plain(part.trim(), &words.part(start, start + length));
            self.set(&format!("load.levels.{key}"), words, node);
            start += length + gap;
        }
    }

    fn search(&mut self, words: &Words) {
        let value = words.value();
        let Some((from, to)) = value.split_once("..") else {
            self.found.push(
                Diagnostic::new(&words.span(), "this is no range")
                    .help("write `--search 100..200k`: from and to in operations per second"),
            );
            self.set("load.levels", words, placeholder_levels(words));
            return;
        };
        let end = from.chars().count();
        let (from, to) = (
            Node::plain(from.trim(), &words.part(0, end)),
            Node::plain(to.trim(), &words.part(end + 2, value.chars().count())),
        );
        self.set("load.search.from", words, from);
        self.set("load.search.to", words, to);
    }

    /// The password, and what the file-less form cannot do without. Where that is missing, a placeholder lets the
    /// check go on.
    fn complete(&mut self, address: &Words, axes: &[Axis], environment: &Environment<'_>) {
        let varies = |path: &str| axes.iter().any(|axis| is_within(&axis.key, Some(path)));
        let password = (environment.variable)(PASSWORD_VARIABLE).is_some();
        let section = section_of(address.value());
        let [user, own] = ["username", "password"].map(|key| format!("{section}.{key}"));
        if password && self.root.has(&user) && !self.root.has(&own) {
            self.set(&format!("{own}.env"), address, text(PASSWORD_VARIABLE, address));
        }
        if !self.root.has("population.devices") && !varies("population.devices") {
            let diagnostic = Diagnostic::new(&address.span(), "the option `--devices` is missing");
            self.found.push(diagnostic.help("write how many devices to simulate, such as `--devices 1000`"));
            self.set("population.devices", address, Node::plain("1", &address.span()));
        }
        let loads = ["load.levels", "load.search", "load.in_flight"];
        if !loads.iter().any(|path| self.root.has(path) || varies(path)) {
            let diagnostic = Diagnostic::new(&address.span(), "the option `--rate` is missing");
            self.found.push(diagnostic.help(
                "write the load in operations per second: `--rate 500`, `--rate 100..1500/100` or `--search \
                         100..200k`",
            ));
            self.set("load.levels", address, placeholder_levels(address));
        }
    }
}

fn placeholder_levels(words: &Words) -> Node {
    Node { value: Value::List(vec![Node::plain("1", &words.span())]), span: words.span() }
}

/// A value that is text whatever it looks like.
fn text(text: &str, words: &Words) -> Node {
    Node::text(text.trim(), &words.span())
}
