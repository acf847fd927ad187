//! How devices speak CoAP, and what cannot be said in it.

use super::dtls;
use crate::config::{Coap, Scenario};
use crate::context::Context;
use crate::plan::{
    CoapPlan, Endpoint, OptionValue, Piece, PlatformPlan, Protocol, RequestPlan, Template, TlsPlan,
};
use plimsoll_codec::coap::{LARGEST_DATAGRAM, code, option};
use plimsoll_model::Nanos;

/// Longest part of a path or query, in bytes (RFC 7252 section 5.10).
const LONGEST_PART: usize = 255;
/// Largest payload of a record of DTLS (RFC 6347 section 4.1), in bytes.
const LARGEST_RECORD: usize = 1 << 14;
/// What options leave free, for a block and what else is in a request, in bytes.
const BESIDE_OPTIONS: usize = 1_024 + 64;

/// Checks what a scenario says of CoAP.
pub(crate) fn resolve(
    scenario: &Scenario,
    address: Option<&Endpoint>,
    certificates: Option<&TlsPlan>,
    context: &mut Context<'_>,
) -> CoapPlan {
    let coap = &scenario.coap;
    for (key, time) in [("timeout", coap.timeout.0), ("ack_timeout", coap.ack_timeout.0)] {
        if time <= Nanos::ZERO {
            let message = "a request needs some time for its answer";
            context.error(&format!("coap.{key}"), message);
        }
    }
    let block_size = coap.block_size.map(|size| size.0.0);
    if let Some(size) = block_size.filter(|size| !(size.is_power_of_two() && (16..=1024).contains(size))) {
        context.error_with_help(
            "coap.block_size",
            format!("blocks cannot have {size} bytes"),
            "write 16, 32, 64, 128, 256, 512 or 1024 (RFC 7959 section 2.2)",
        );
    }
    let is_over_tcp = address.is_some_and(|address| address.protocol == Protocol::CoapTcp);
    if is_over_tcp {
        let default = Coap::default();
        let of_datagrams = [
            ("confirmable", coap.confirmable != default.confirmable),
            ("ack_timeout", coap.ack_timeout != default.ack_timeout),
            ("max_retransmit", coap.max_retransmit != default.max_retransmit),
        ];
        for (key, _) in of_datagrams.into_iter().filter(|(_, is_said)| *is_said) {
            let message = "over TCP nothing is acknowledged or sent again by CoAP itself";
            context.error_with_help(&format!("coap.{key}"), message, "remove it");
        }
    }
    CoapPlan {
        confirmable: coap.confirmable,
        outstanding: coap.outstanding,
        sockets: coap.sockets,
        ack_timeout: coap.ack_timeout.0,
        max_retransmit: coap.max_retransmit,
        timeout: coap.timeout.0,
        block_size: block_size.and_then(|size| u16::try_from(size).ok()),
        csm: coap.csm,
        ping: coap.ping.map(|ping| ping.0),
        dtls: dtls::resolve(scenario, address, certificates, context),
    }
}

/// The shortest time after which a ping asks whether the platform is there.
const SHORTEST_PING: Nanos = Nanos::from_millis(100);

/// Reports what is wrong of what is said of connections.
pub(crate) fn check_connections(platform: &PlatformPlan, coap: &CoapPlan, context: &mut Context<'_>) {
    let of_connections = [("csm", !coap.csm), ("ping", coap.ping.is_some())];
    let said =
        of_connections.into_iter().filter(|(_, is_said)| *is_said && platform.protocol() == Protocol::Coap);
    if coap.ping.is_some_and(|ping| ping < SHORTEST_PING) {
        context.error_with_help(
            "coap.ping",
            "a platform cannot answer a ping at once",
            format!("write {SHORTEST_PING} or more"),
        );
    }
    for (key, _) in said {
        context.error_with_help(
            &format!("coap.{key}"),
            "over datagrams, there are no connections to say this of",
            "remove it, or write the address as `coap+tcp://host:5683`",
        );
    }
}

/// Reports a path that fits in no request: whatever its message is, it could not be sent.
pub(crate) fn check_target(platform: &PlatformPlan, context: &mut Context<'_>) {
    let largest = match (platform.protocol(), &platform.address) {
        (Protocol::Coap, Some(address)) if address.wire.tls => Some((LARGEST_RECORD, "a record of DTLS")),
        (Protocol::Coap, _) => Some((LARGEST_DATAGRAM, "a datagram")),
        (Protocol::CoapTcp, _) => None,
        _ => return,
    };
    let base = platform.address.as_ref().map(|address| address.path.as_str()).unwrap_or_default();
    let base_part = base.split('/').map(str::len).max().unwrap_or_default();
    let request = platform.roles.device.request.as_ref();
    let Some(target) = request.map(|request| &request.path) else { return };
    let path = if context.written("message.target") { "message.target" } else { "platform" };
    let part = longest_part(target).max(base_part);
    if part > LONGEST_PART {
        context.error_with_help(
            path,
            format!("a part of the path can have {part} bytes, and CoAP's have {LONGEST_PART} at most"),
            "make it shorter, or divide it by slashes: such a request cannot be sent",
        );
    }
    let values = request.map_or(0, |request| {
        let lengths = request.options.iter().map(|option| match &option.value {
            OptionValue::Number(_) => 4,
            OptionValue::Text(text) => text.longest_with(32, 0, None),
        });
        lengths.sum()
    });
    let options = base.len() + target.longest_with(32, 0, None) + values;
    let Some((largest, what)) = largest else { return };
    if options > largest - BESIDE_OPTIONS {
        let message = format!("path and options can have {options} bytes, and {what} has {largest}");
        context.error_with_help(path, message, "make them shorter: such a request cannot be sent");
    }
}

/// The longest that a part between slashes, or between those of a query, can be.
fn longest_part(target: &Template) -> usize {
    let (mut longest, mut current) = (0, 0);
    for piece in &target.pieces {
        match piece {
            Piece::Text(text) => {
                let mut parts = text.split(['/', '?', '&']);
                current += parts.next().map_or(0, str::len);
                for part in parts {
                    longest = longest.max(current);
                    current = part.len();
                }
            }
            other => {
                let alone = Template { pieces: vec![other.clone()] };
                current += alone.longest_with(32, 0, None);
            }
        }
    }
    longest.max(current)
}

/// What of a request means nothing in CoAP: where it stands within the request, what is wrong, what to do.
pub(crate) fn wrong_in(request: &RequestPlan) -> Option<(String, String, String)> {
    if code::method(&request.method).is_none() {
        let help = "write GET, POST, PUT, DELETE, FETCH, PATCH or IPATCH".to_owned();
        return Some(("method".into(), format!("CoAP has no method `{}`", request.method), help));
    }
    if !request.headers.is_empty() {
        let help = "write `options`, by number".to_owned();
        return Some(("headers".into(), "CoAP has no header fields".into(), help));
    }
    if request.retry_lost {
        let help = "remove it; what is not acknowledged is sent again by CoAP itself".to_owned();
        return Some((
            "retry_lost".into(),
            "what a CoAP platform may have taken is not sent again".into(),
            help,
        ));
    }
    for (key, list) in [("expect", &request.expect), ("retry", &request.retry)] {
        if let Some(status) = list.iter().find(|status| code::of_status(**status).is_none()) {
            let help = "write class and detail together: 2.04 is 204".to_owned();
            return Some((key.into(), format!("CoAP has no response code {status}"), help));
        }
    }
    let own = [option::URI_PATH, option::URI_QUERY, option::BLOCK1, option::BLOCK2, option::SIZE1];
    let clash = request.options.iter().find(|option| own.contains(&option.number))?;
    let help = "remove it; path and query stand in `path`".to_owned();
    let message = format!("option {} is added by itself", clash.number);
    Some((format!("options.{}", clash.number), message, help))
}
