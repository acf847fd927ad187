//! From what is written of LwM2M to what is planned.

use super::config::{Detailed, Lwm2mVersion, MessageKind, MessageResource, Plain, Resource, ValueFormat};
use super::plan::{Lwm2mPlan, ResourcePlan, ValuePlan};
use crate::config::Scenario;
use crate::context::Context;
use crate::plan::{Content, MarkerForm, MessagePlan, PlatformPlan, Protocol, Template};
use plimsoll_codec::lwm2m::{Kind, Path, format};
use plimsoll_model::Nanos;
use std::collections::BTreeSet;

/// Where bytes of an application may stand: object 19, BinaryAppDataContainer.
const DEFAULT_MESSAGE: &str = "19/0/0";
/// Bytes of a message that fit into a datagram in every format, with what stands around them.
const LARGEST_MESSAGE: usize = 40_000;

/// Checks what a scenario says of LwM2M; `message` is what devices send.
pub(crate) fn resolve(
    scenario: &Scenario,
    platform: Option<&PlatformPlan>,
    message: Option<&MessagePlan>,
    context: &mut Context<'_>,
) -> Lwm2mPlan {
    let lwm2m = &scenario.lwm2m;
    let is_spoken = platform.is_some_and(|platform| platform.protocol() == Protocol::Lwm2m);
    for (key, time) in [("lifetime", lwm2m.lifetime.0), ("observed_within", lwm2m.observed_within.0)] {
        if time < Nanos::from_secs(1) {
            context.error(&format!("lwm2m.{key}"), "it takes a second at least");
        }
    }
    let endpoint = Template::compile(&lwm2m.endpoint, &["run", "device"]);
    let endpoint = endpoint.unwrap_or_else(|error| {
        context.template_error("lwm2m.endpoint", error);
        Template { pieces: Vec::new() }
    });
    let is_of_each = |template: &Template| template.pieces.contains(&plimsoll_template::Piece::Device);
    if is_spoken && scenario.population.devices > 1 && !is_of_each(&endpoint) {
        let help =
            "write `{device}` in it: a server takes a second device of the same name for the first one";
        context.error_with_help("lwm2m.endpoint", "all devices have the same name", help);
    }
    let role = platform.map(|platform| &platform.roles.device);
    let of_profile = role.and_then(|role| role.message.clone());
    let default = MessageResource { path: DEFAULT_MESSAGE.to_owned(), kind: MessageKind::Opaque };
    let resource = lwm2m.message.clone().or(of_profile).unwrap_or(default);
    let path = resource_path(&resource.path).unwrap_or_else(|| {
        context.error_with_help("lwm2m.message.path", format!("`{}` is no resource", resource.path), HOW);
        Path::ROOT
    });
    if is_spoken {
        check_way(scenario, platform, context);
    }
    if let Some(message) = message.filter(|_| is_spoken) {
        check_message(resource.kind, message, context);
    }
    Lwm2mPlan {
        endpoint,
        version: match lwm2m.version {
            Lwm2mVersion::V10 => "1.0",
            Lwm2mVersion::V11 => "1.1",
        },
        lifetime: lwm2m.lifetime.0,
        queue_mode: lwm2m.queue_mode,
        update: lwm2m.update,
        deregister: lwm2m.deregister,
        observed_within: lwm2m.observed_within.0,
        registration: role.and_then(|role| role.registration.clone()).unwrap_or_else(|| "/rd".to_owned()),
        message: path,
        message_kind: match resource.kind {
            MessageKind::Opaque => Kind::Opaque,
            MessageKind::String => Kind::String,
            MessageKind::Float => Kind::Float,
            MessageKind::Integer => Kind::Integer,
        },
        format: match lwm2m.format {
            ValueFormat::Tlv => format::TLV,
            ValueFormat::Text => format::TEXT,
            ValueFormat::Opaque => format::OPAQUE,
            ValueFormat::SenmlJson => format::SENML_JSON,
            ValueFormat::SenmlCbor => format::SENML_CBOR,
        },
        resources: resources(scenario, path, context),
    }
}

/// Reports what CoAP has and devices that speak LwM2M have not.
fn check_way(scenario: &Scenario, platform: Option<&PlatformPlan>, context: &mut Context<'_>) {
    let address = platform.and_then(|platform| platform.address.as_ref());
    if address.is_some_and(|address| address.wire.tls) {
        let help = "write the address as `coap://host:5683`";
        context.error_with_help("platform.address", "LwM2M is spoken without DTLS so far", help);
    }
    let coap = &scenario.coap;
    for (key, is_written) in [("sockets", coap.sockets.is_some()), ("block_size", coap.block_size.is_some())]
    {
        if is_written {
            let message = format!("`{key}` means nothing to LwM2M");
            context.error_with_help(&format!("coap.{key}"), message, "remove it");
        }
    }
}

const HOW: &str = "write object, instance and resource, such as `3303/0/5700`";

fn resource_path(text: &str) -> Option<Path> {
    Path::parse(text).filter(|path| path.depth() == 3)
}

/// Reports a message that its resource or a datagram cannot hold.
fn check_message(kind: MessageKind, message: &MessagePlan, context: &mut Context<'_>) {
    let is_number = matches!(kind, MessageKind::Float | MessageKind::Integer);
    let wrong = match (is_number, message.marker) {
        (true, MarkerForm::Binary | MarkerForm::Ascii) => Some((
            "the resource of messages holds a number, and the marker is none",
            "use the marker `integer`",
        )),
        (false, MarkerForm::Binary) if kind == MessageKind::String => {
            Some(("the resource of messages holds a text, and the marker is none", "use the marker `ascii`"))
        }
        _ => None,
    };
    if let Some((message, help)) = wrong {
        context.error_with_help("message.marker", message, help);
    }
    let largest = match &message.content {
        Content::Sized(sizes) => sizes.largest() as usize,
        Content::Template(template) => {
            if is_number && template.pieces != [plimsoll_template::Piece::Marker] {
                let help = "write `{marker}` and nothing else: what stands beside it is not sent";
                context.error_with_help("message.template", "the resource of messages holds a number", help);
            }
            template.longest_with(message.marker.length(), 0, message.feed.as_deref())
        }
    };
    if largest > LARGEST_MESSAGE {
        let reason =
            format!("a message can have {largest} bytes, and a notification has {LARGEST_MESSAGE} at most");
        context.error_with_help("message", reason, "make it smaller: notifications are not sent in blocks");
    }
}

/// What devices have beside their messages: what every device has, and what the scenario says.
fn resources(scenario: &Scenario, message: Path, context: &mut Context<'_>) -> Vec<ResourcePlan> {
    let mut resources = of_every_device(scenario.lwm2m.lifetime.0);
    let mut named = BTreeSet::new();
    for (text, written) in &scenario.lwm2m.resources {
        let at = format!("lwm2m.resources.{text}");
        let Some(path) = resource_path(text) else {
            context.error_with_help(&at, format!("`{text}` is no resource"), HOW);
            continue;
        };
        if path == message {
            context.error_with_help(
                &at,
                "this resource holds the messages",
                "take it out, or see `lwm2m.message`",
            );
            continue;
        }
        let Some(value) = value(written, &at, context) else { continue };
        if !named.insert(path) {
            context.error(&at, "this resource stands here twice");
        }
        resources.retain(|own| own.path != path);
        let is_writable = matches!(written, Resource::Detailed(detailed) if detailed.writable);
        resources.push(ResourcePlan { path, value, is_writable });
    }
    resources.retain(|own| own.path != message);
    resources.sort_by_key(|own| own.path);
    resources
}

/// The server that the device is registered at (object 1), and the device itself (object 3), as far as servers look at them.
fn of_every_device(lifetime: Nanos) -> Vec<ResourcePlan> {
    let text = |text: &str| {
        ValuePlan::Text(Template { pieces: vec![plimsoll_template::Piece::Text(text.to_owned())] })
    };
    let fixed = |path: Path, value: ValuePlan| ResourcePlan { path, value, is_writable: false };
    let seconds = ValuePlan::Integer(lifetime.as_secs_f64().ceil() as i64);
    vec![
        fixed(Path::resource(1, 0, 0), ValuePlan::Integer(1)),
        ResourcePlan { path: Path::resource(1, 0, 1), value: seconds, is_writable: true },
        fixed(Path::resource(1, 0, 7), text("U")),
        fixed(Path::resource(1, 0, 8), ValuePlan::Action),
        fixed(Path::resource(3, 0, 0), text("Plimsoll")),
        fixed(Path::resource(3, 0, 4), ValuePlan::Action),
        fixed(Path::resource(3, 0, 11), ValuePlan::Integer(0)),
        fixed(Path::resource(3, 0, 16), text("U")),
    ]
}

fn value(written: &Resource, at: &str, context: &mut Context<'_>) -> Option<ValuePlan> {
    match written {
        Resource::Plain(value) => plain(value, at, context),
        Resource::Detailed(detailed) => self::detailed(detailed, at, context),
    }
}

fn plain(value: &Plain, at: &str, context: &mut Context<'_>) -> Option<ValuePlan> {
    Some(match value {
        Plain::Boolean(is_true) => ValuePlan::Boolean(*is_true),
        Plain::Integer(number) => ValuePlan::Integer(*number),
        Plain::Float(number) => ValuePlan::Float(*number),
        Plain::Text(text) => {
            let template = Template::compile(text, &["run", "device"]);
            ValuePlan::Text(template.map_err(|error| context.template_error(at, error)).ok()?)
        }
    })
}

fn detailed(detailed: &Detailed, at: &str, context: &mut Context<'_>) -> Option<ValuePlan> {
    let Detailed { value, sine, uniform, execute, writable: _ } = detailed;
    let range = |(min, max): (f64, f64), span: Nanos, context: &mut Context<'_>| {
        if min > max || span <= Nanos::ZERO {
            context.error(at, "the lowest value is above the highest, or its time is none");
        }
        (min, max)
    };
    match (value, sine, uniform, execute) {
        (Some(value), None, None, false) => plain(value, at, context),
        (None, Some(sine), None, false) => {
            let range = range((sine.min, sine.max), sine.period.0, context);
            Some(ValuePlan::Sine { range, period: sine.period.0 })
        }
        (None, None, Some(uniform), false) => {
            let range = range((uniform.min, uniform.max), uniform.every.0, context);
            Some(ValuePlan::Uniform { range, every: uniform.every.0 })
        }
        (None, None, None, true) => Some(ValuePlan::Action),
        _ => {
            let help = "write one of `value`, `sine`, `uniform` and `execute: true`";
            context.error_with_help(at, "a resource holds one thing", help);
            None
        }
    }
}
