//! From what is written of LwM2M to what is planned.

use super::config::{
    ColumnKind, Detailed, FeedColumn, Lwm2mVersion, MessageKind, MessageResource, Plain, Resource, Sine,
    Uniform, ValueFormat, Walk,
};
use super::plan::{BOOTSTRAP_PORT, Change, Lwm2mPlan, ResourcePlan, ValuePlan};
use crate::config::{Lwm2m, Scenario};
use crate::context::Context;
use crate::plan::{Content, MarkerForm, MessagePlan, PlatformPlan, Protocol, Template};
use crate::profile::Component;
use plimsoll_codec::lwm2m::{Kind, Path, format};
use plimsoll_model::Nanos;
use std::collections::BTreeSet;

/// Where bytes of an application may stand: object 19, BinaryAppDataContainer.
const DEFAULT_MESSAGE: &str = "19/0/0";
/// Bytes of a message that fit into a datagram in every format, with what stands around them.
const LARGEST_MESSAGE: usize = 40_000;
/// The same where datagrams are secured: a record carries 16,384 (RFC 6347 section 4.1), and base64 takes four for three.
const LARGEST_SECURED: usize = 12_000;

/// Checks what a scenario says of LwM2M; `message` is what devices send, and `columns` are those of its feed.
pub(crate) fn resolve(
    scenario: &Scenario,
    platform: Option<&PlatformPlan>,
    (message, columns): (Option<&MessagePlan>, &[String]),
    context: &mut Context<'_>,
) -> Lwm2mPlan {
    let lwm2m = &scenario.lwm2m;
    let is_spoken = platform.is_some_and(|platform| platform.protocol() == Protocol::Lwm2m);
    let times = [
        ("lifetime", Some(lwm2m.lifetime)),
        ("observed_within", Some(lwm2m.observed_within)),
        ("nat_rebinding", lwm2m.nat_rebinding),
        ("awake", Some(lwm2m.awake)),
    ];
    for (key, time) in times {
        if time.is_some_and(|time| time.0 < Nanos::from_secs(1)) {
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
    let format_of_profile = of_profile.as_ref().and_then(|resource| resource.format);
    let default =
        MessageResource { path: DEFAULT_MESSAGE.to_owned(), kind: MessageKind::Opaque, format: None };
    let resource = lwm2m.message.clone().or(of_profile).unwrap_or(default);
    let path = resource_path(&resource.path).unwrap_or_else(|| {
        context.error_with_help("lwm2m.message.path", format!("`{}` is no resource", resource.path), HOW);
        Path::ROOT
    });
    if is_spoken {
        check_way(scenario, platform, context);
        check_send(lwm2m, context);
    }
    if let Some(message) = message.filter(|_| is_spoken) {
        let is_secured = platform.and_then(|platform| platform.address.as_ref());
        let is_secured = is_secured.is_some_and(|address| address.wire.tls);
        let largest = if is_secured { LARGEST_SECURED } else { LARGEST_MESSAGE };
        check_message((resource.kind, largest), message, context);
    }
    Lwm2mPlan {
        endpoint,
        version: match lwm2m.version {
            Lwm2mVersion::V10 => "1.0",
            Lwm2mVersion::V11 => "1.1",
        },
        lifetime: lwm2m.lifetime.0,
        awake: lwm2m.queue_mode.then_some(lwm2m.awake.0),
        update: lwm2m.update,
        deregister: lwm2m.deregister,
        bootstrap: lwm2m.bootstrap,
        nat_rebinding: lwm2m.nat_rebinding.map(|every| every.0),
        firmware: lwm2m.firmware.map(|firmware| firmware.install.0),
        observed_within: lwm2m.observed_within.0,
        registration: role.and_then(|role| role.registration.clone()).unwrap_or_else(|| "/rd".to_owned()),
        message: path,
        message_kind: match resource.kind {
            MessageKind::Opaque => Kind::Opaque,
            MessageKind::String => Kind::String,
            MessageKind::Float => Kind::Float,
            MessageKind::Integer => Kind::Integer,
        },
        send: lwm2m.send,
        format: match lwm2m.format.or(resource.format).or(format_of_profile) {
            None | Some(ValueFormat::Tlv | ValueFormat::Text | ValueFormat::Opaque) if lwm2m.send => {
                format::SENML_CBOR
            }
            None | Some(ValueFormat::Tlv) => format::TLV,
            Some(ValueFormat::Text) => format::TEXT,
            Some(ValueFormat::Opaque) => format::OPAQUE,
            Some(ValueFormat::SenmlJson) => format::SENML_JSON,
            Some(ValueFormat::SenmlCbor) => format::SENML_CBOR,
        },
        resources: resources(scenario, (path, columns), context),
    }
}

/// Reports what cannot be combined with the operation Send.
fn check_send(lwm2m: &Lwm2m, context: &mut Context<'_>) {
    if !lwm2m.send {
        return;
    }
    if lwm2m.version == Lwm2mVersion::V10 {
        let help = "write `version: 1.1`";
        context.error_with_help("lwm2m.send", "devices of version 1.0 send nothing of themselves", help);
    }
    if matches!(lwm2m.format, Some(ValueFormat::Tlv | ValueFormat::Text | ValueFormat::Opaque)) {
        let help = "write `senml_cbor` or `senml_json`, or leave it out";
        context.error_with_help("lwm2m.format", "what devices send of themselves is SenML", help);
    }
    let of_message = lwm2m.message.as_ref().and_then(|message| message.format);
    if matches!(of_message, Some(ValueFormat::Tlv | ValueFormat::Text | ValueFormat::Opaque)) {
        let help = "write `senml_cbor` or `senml_json`, or leave it out";
        context.error_with_help("lwm2m.message.format", "what devices send of themselves is SenML", help);
    }
}

/// Reports what CoAP has and devices that speak LwM2M have not.
fn check_way(scenario: &Scenario, platform: Option<&PlatformPlan>, context: &mut Context<'_>) {
    let address = platform.and_then(|platform| platform.address.as_ref());
    let coap = &scenario.coap;
    if coap.sockets.is_some() {
        context.error_with_help("coap.sockets", "`sockets` means nothing to LwM2M", "remove it");
    }
    let is_named = platform.is_none_or(|platform| {
        let mut ports = platform.profile.components.iter().flat_map(Component::ports_in_texts);
        platform.ports.contains_key(BOOTSTRAP_PORT) || ports.any(|port| port == BOOTSTRAP_PORT)
    });
    if scenario.lwm2m.bootstrap && !is_named {
        let help = match address {
            Some(_) => "write `ports: { bootstrap: 5783 }` under `platform`",
            None => "choose a profile that starts a bootstrap server at a port of that name",
        };
        context.error_with_help("lwm2m.bootstrap", "the platform has no port `bootstrap`", help);
    }
}

const HOW: &str =
    "write object, instance and resource, such as `3303/0/5700`; object 0 belongs to bootstrap servers";

/// The path of a resource. Object 0 is what a device knows of its servers, which nobody else sees.
fn resource_path(text: &str) -> Option<Path> {
    Path::parse(text).filter(|path| path.depth() == 3 && path.object() != Some(0))
}

/// Reports a message that its resource or a datagram cannot hold.
fn check_message((kind, most): (MessageKind, usize), message: &MessagePlan, context: &mut Context<'_>) {
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
    if largest > most {
        let reason = format!("a message can have {largest} bytes, and a notification has {most} at most");
        context.error_with_help("message", reason, "make it smaller: notifications are not sent in blocks");
    }
}

/// What devices have beside their messages: what every device has, and what the scenario says.
fn resources(
    scenario: &Scenario,
    (message, columns): (Path, &[String]),
    context: &mut Context<'_>,
) -> Vec<ResourcePlan> {
    let mut resources = of_every_device(&scenario.lwm2m);
    if scenario.lwm2m.firmware.is_some() {
        resources.extend(of_firmware());
    }
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
        let Some(value) = value(written, (&at, columns), context) else { continue };
        if !named.insert(path) {
            let help = "keep one: `/3303/0/5700` and `3303/0/5700` are the same";
            context.error_with_help(&at, "this resource stands here twice", help);
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
fn of_every_device(lwm2m: &Lwm2m) -> Vec<ResourcePlan> {
    // From 1.1 on, queue mode is no binding of its own.
    let binding = if lwm2m.queue_mode && lwm2m.version == Lwm2mVersion::V10 { "UQ" } else { "U" };
    let text = |text: &str| {
        ValuePlan::Text(Template { pieces: vec![plimsoll_template::Piece::Text(text.to_owned())] })
    };
    let fixed = |path: Path, value: ValuePlan| ResourcePlan { path, value, is_writable: false };
    let seconds = ValuePlan::Integer(lwm2m.lifetime.0.as_secs_f64().ceil() as i64);
    vec![
        fixed(Path::resource(1, 0, 0), ValuePlan::Integer(1)),
        ResourcePlan { path: Path::resource(1, 0, 1), value: seconds, is_writable: true },
        ResourcePlan { path: Path::resource(1, 0, 2), value: ValuePlan::Integer(0), is_writable: true },
        ResourcePlan { path: Path::resource(1, 0, 3), value: ValuePlan::Integer(0), is_writable: true },
        fixed(Path::resource(1, 0, 7), text(binding)),
        fixed(Path::resource(1, 0, 8), ValuePlan::Action),
        fixed(Path::resource(3, 0, 0), text("Plimsoll")),
        fixed(Path::resource(3, 0, 4), ValuePlan::Action),
        fixed(Path::resource(3, 0, 11), ValuePlan::Integer(0)),
        fixed(Path::resource(3, 0, 16), text(binding)),
    ]
}

/// The object of firmware (object 5): an image is written, or downloaded over CoAP.
fn of_firmware() -> Vec<ResourcePlan> {
    let resource = |id: u16, value: ValuePlan, is_writable: bool| ResourcePlan {
        path: Path::resource(5, 0, id),
        value,
        is_writable,
    };
    let nothing = || ValuePlan::Text(Template { pieces: Vec::new() });
    vec![
        resource(0, ValuePlan::Package, true),
        resource(1, nothing(), true),
        resource(2, ValuePlan::Action, false),
        resource(3, ValuePlan::Integer(0), false),
        resource(5, ValuePlan::Integer(0), false),
        // Delivery method: both.
        resource(9, ValuePlan::Integer(2), false),
    ]
}

fn value(
    written: &Resource,
    (at, columns): (&str, &[String]),
    context: &mut Context<'_>,
) -> Option<ValuePlan> {
    match written {
        Resource::Plain(value) => plain(value, at, context),
        Resource::Detailed(detailed) => self::detailed(detailed, (at, columns), context),
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

fn detailed(
    detailed: &Detailed,
    (at, columns): (&str, &[String]),
    context: &mut Context<'_>,
) -> Option<ValuePlan> {
    let Detailed { value, sine, uniform, walk, feed, execute, writable: _ } = detailed;
    let range = |(min, max): (f64, f64), spans: &[Nanos], context: &mut Context<'_>| {
        if min > max {
            let help = format!("write `min: {max}` and `max: {min}`, if you meant these");
            context.error_with_help(at, "the lowest value is above the highest", help);
        }
        if spans.iter().any(|span| *span <= Nanos::ZERO) {
            context.error_with_help(at, "`every` or `period` is no time", "write such as `10s`");
        }
        (min, max)
    };
    let (change, every) = match (value, sine, uniform, walk, feed, execute) {
        (Some(value), None, None, None, None, false) => return plain(value, at, context),
        (None, None, None, None, None, true) => return Some(ValuePlan::Action),
        (None, Some(Sine { min, max, period, every }), None, None, None, false) => {
            let range = range((*min, *max), &[period.0, every.0], context);
            (Change::Sine { range, period: period.0 }, every)
        }
        (None, None, Some(Uniform { min, max, every }), None, None, false) => {
            (Change::Uniform { range: range((*min, *max), &[every.0], context) }, every)
        }
        (None, None, None, Some(Walk { min, max, step, every }), None, false) => {
            if !step.is_finite() || *step < 0.0 {
                context.error_with_help(at, "the size of a step is below zero", "write such as `step: 0.5`");
            }
            (Change::Walk { range: range((*min, *max), &[every.0], context), step: *step }, every)
        }
        (None, None, None, None, Some(feed), false) => (column(feed, (at, columns), context)?, &feed.every),
        _ => {
            let help = "write one of `value`, `sine`, `uniform`, `walk`, `feed` and `execute: true`";
            context.error_with_help(at, "a resource holds one thing", help);
            return None;
        }
    };
    Some(ValuePlan::Changing { change, every: every.0 })
}

fn column(feed: &FeedColumn, (at, columns): (&str, &[String]), context: &mut Context<'_>) -> Option<Change> {
    if feed.every.0 <= Nanos::ZERO {
        context.error(at, "the time of a row is none");
    }
    let kind = match feed.kind {
        ColumnKind::Float => Kind::Float,
        ColumnKind::Integer => Kind::Integer,
        ColumnKind::String => Kind::String,
    };
    let Some(column) = columns.iter().position(|name| *name == feed.column) else {
        let help = match columns {
            [] => "give `message.feed` a file".to_owned(),
            columns => format!("its columns are {}", columns.join(", ")),
        };
        context.error_with_help(at, format!("the feed has no column `{}`", feed.column), help);
        return None;
    };
    Some(Change::Column { column, kind })
}
