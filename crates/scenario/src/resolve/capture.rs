//! What is captured off the wire.

use crate::config::Capture;
use crate::context::Context;
use crate::plan::{CapturePlan, WireNetwork, WirePlace};
use std::path::PathBuf;

/// The host's own network, among the namespaces.
const HOST: &str = "host";
/// The least that a ring of four files can be held to, bytes.
const SMALLEST: u64 = 4 << 20;

pub(super) fn resolve(written: Option<&Capture>, context: &mut Context) -> Option<CapturePlan> {
    let capture = written?;
    let mut names = Vec::new();
    for (name, place) in &capture.names {
        if name.trim().is_empty() || name.contains(char::is_control) {
            context.error("record.capture.names", "a name is visible characters in one line");
        }
        match place_of(place) {
            Some(place) => names.push((name.clone(), place)),
            None => context.error(
                &format!("record.capture.names.{name}"),
                format!(
                    "`{place}` is no place on the wire: write \":PORT\", \"ADDRESS:PORT\" or \"ADDRESS\""
                ),
            ),
        }
    }
    let limit = u64::from(capture.limit.0.0);
    if limit < SMALLEST {
        context.error("record.capture.limit", "four files make up the limit: give at least 4MiB");
    }
    let mut networks = Vec::new();
    for (index, name) in capture.namespaces.iter().enumerate() {
        match network_of(name) {
            Some(network) => networks.push(network),
            None => context.error(
                &format!("record.capture.namespaces.{index}"),
                format!(
                    "`{name}` is no network: write \"{HOST}\", a name of `ip netns`, \"pid:NUMBER\" or \"container:NAME\""
                ),
            ),
        }
    }
    if networks.is_empty() {
        networks.push(WireNetwork::Host);
    }
    Some(CapturePlan {
        interface: capture.interface.clone(),
        networks,
        filter: capture.filter.clone(),
        names,
        limit,
        keep: capture.keep.as_ref().map(PathBuf::from),
    })
}

/// `host`, `pid:4711`, `container:orion`, or the name of a namespace.
fn network_of(text: &str) -> Option<WireNetwork> {
    if let Some(process) = text.strip_prefix("pid:") {
        return process.parse().ok().filter(|&process| process > 0).map(WireNetwork::Process);
    }
    match text.strip_prefix("container:") {
        Some(name) => (!name.is_empty()).then(|| WireNetwork::Container(name.to_owned())),
        None if text == HOST => Some(WireNetwork::Host),
        // It becomes a word of a command.
        None => (!text.is_empty() && !text.starts_with('-')).then(|| WireNetwork::Named(text.to_owned())),
    }
}

/// `:6379`, `10.0.0.7:5432`, `[::1]:5432`, `10.0.0.7`.
fn place_of(text: &str) -> Option<WirePlace> {
    if let Some(port) = text.strip_prefix(':') {
        return port.parse().ok().filter(|port| *port > 0).map(WirePlace::Port);
    }
    let endpoint = || text.parse().ok().map(WirePlace::Endpoint);
    endpoint().or_else(|| text.parse().ok().map(WirePlace::Host))
}
