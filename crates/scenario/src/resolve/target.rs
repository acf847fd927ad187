//! Where messages go: `message.target`, the path of a bare address, or what the profile says.

use crate::config::Scenario;
use crate::context::Context;
use crate::plan::{Endpoint, Protocol, RequestPlan, RolePlan, Template};
use crate::protocols::mqtt::LONGEST_TEXT;
use crate::protocols::routing;
use plimsoll_codec::mqtt::topic;

/// Variables of targets.
pub(super) const IN_TARGETS: &[&str] = &["run", "device", "sequence"];

const KEY: &str = "message.target";

/// What `message.target` says. Empty where messages go to the path of the address instead, and where it is wrong.
pub(super) fn resolve(scenario: &Scenario, protocol: Protocol, context: &mut Context<'_>) -> Template {
    let nothing = Template { pieces: Vec::new() };
    let target = &scenario.message.target;
    if target.is_empty() && !context.written(KEY) {
        return nothing;
    }
    let levels = routing::levels(target, protocol);
    let template = match Template::compile(&levels, IN_TARGETS) {
        Ok(template) => template,
        Err(error) => {
            context.template_error(KEY, error);
            return nothing;
        }
    };
    let is_request = protocol.sends_requests();
    let is_fit =
        template.longest(0) <= LONGEST_TEXT && (is_request || topic::valid_name(&template.example()));
    if !is_fit {
        let (what, help) = match is_request {
            true => ("path", "a path has 65535 bytes at most"),
            false => (
                "topic",
                "a topic has 1 to 65535 bytes, none of them null, and neither `+` nor `#`, which belong in filters",
            ),
        };
        context.error_with_help(KEY, format!("`{target}` is no {what}"), help);
        return nothing;
    }
    routing::check(&template, protocol, (target, KEY), context);
    template
}

/// Gives devices that send requests one, where the profile has none: a POST of the message to `message.target` below the path of
/// the address. A bare address, for which the profile asks for nothing but messages, is the whole target where the scenario
/// names none. The target is then left out of the resolved scenario, which says the same without it.
pub(super) fn request(
    address: Option<Endpoint>,
    mut roles: RolePlan,
    scenario: &mut Scenario,
    context: &mut Context<'_>,
) -> (Option<Endpoint>, RolePlan) {
    let speaks =
        roles.device.protocol.or(address.as_ref().map(|address| address.protocol)).unwrap_or_default();
    if roles.device.request.is_some() || !speaks.sends_requests() {
        return (address, roles);
    }
    let steps = [&roles.reset, &roles.preload, &roles.set_up, &roles.clean_up];
    let is_bare =
        roles.query.is_none() && roles.token.is_none() && steps.into_iter().all(|steps| steps.is_empty());
    let path = address.as_ref().map(|address| address.path.clone()).unwrap_or_default();
    // What follows the path of an address that others use, too, is put behind it by the driver.
    let own = if is_bare { path.as_str() } else { "" };
    let is_named = context.written(KEY) || matches!(own, "" | "/");
    let (text, key) = match is_named {
        true => (below(own, &scenario.message.target, speaks), KEY),
        false => (own.to_owned(), "platform.address"),
    };
    match Template::compile(&text, IN_TARGETS) {
        Ok(template) => roles.device.request = Some(RequestPlan::post(template)),
        // What is wrong with the scenario's own target is reported where that is resolved.
        Err(_) if is_named => {}
        Err(error) => context.error_with_help(key, error.message, error.help),
    }
    if !is_named {
        scenario.message.target = String::new();
    }
    let address = address.map(|address| match is_bare {
        true => Endpoint { path: String::new(), ..address },
        false => address,
    });
    (address, roles)
}

/// A target below a path, before whose query it stands.
fn below(path: &str, target: &str, speaks: Protocol) -> String {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let target = target.strip_prefix('/').unwrap_or(target);
    let target = if speaks == Protocol::Http { escaped(target) } else { target.to_owned() };
    let joined = format!("{}/{target}", path.trim_end_matches('/'));
    match query {
        Some(query) if target.contains('?') => format!("{joined}&{query}"),
        Some(query) => format!("{joined}?{query}"),
        None => joined,
    }
}

/// The target with what may not stand in a URL escaped (RFC 3986 section 2.1); braces are those of variables.
fn escaped(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'{' | b'}' => out.push(byte.into()),
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'|' => out.push_str(&format!("%{byte:02X}")),
            _ if byte.is_ascii_graphic() => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stands_below_the_path_and_before_the_query() {
        for (path, target, whole) in [
            ("", "in/{device}", "/in/{device}"),
            ("/", "/in", "/in"),
            ("/a/", "in", "/a/in"),
            ("/a?k=1", "in", "/a/in?k=1"),
            ("/a?k=1", "in?x=2", "/a/in?x=2&k=1"),
            ("/a", "grün {run}#", "/a/gr%C3%BCn%20{run}%23"),
        ] {
            assert_eq!(below(path, target, Protocol::Http), whole);
        }
        assert_eq!(below("/a", "grün", Protocol::Coap), "/a/grün", "CoAP carries UTF-8 as it is");
    }
}
