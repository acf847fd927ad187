//! What a device sends.

use crate::config::{Marker, Message, MessageSize, NormalSize, SizeDistribution, UniformSize};
use crate::context::Context;
use crate::plan::{Content, MarkerForm, MessagePlan, Piece, PlatformPlan, Template};
use crate::quantity::{AsText, Size};
use plimsoll_stats::distribution;
use plimsoll_template::{Columns, Names};
use std::sync::Arc;

/// Largest content, in bytes.
const LARGEST: u32 = 1 << 20;
/// Size where neither size nor template is given, in bytes.
const DEFAULT: u32 = 64;

/// The rows that a template takes values from.
pub(super) struct Rows<'a> {
    /// Names of the columns; none without rows.
    pub columns: &'a [String],
    /// The rows.
    pub table: Option<Arc<dyn Columns>>,
}

pub(super) fn resolve(
    message: &mut Message,
    target: Template,
    platform: Option<&PlatformPlan>,
    rows: Rows<'_>,
    context: &mut Context<'_>,
) -> Option<MessagePlan> {
    if message.size.is_some() && message.template.is_some() {
        context.error_with_help(
            "message.size",
            "a message has either a size or a template",
            "remove one; the size of a template follows from its text",
        );
        return None;
    }
    let wished = platform.and_then(|platform| platform.roles.device.marker);
    let default = match wished {
        _ if message.template.is_some() => Marker::Ascii,
        Some(MarkerForm::Ascii) => Marker::Ascii,
        Some(MarkerForm::Integer) => Marker::Integer,
        Some(MarkerForm::Binary) | None => Marker::Binary,
    };
    let marker = match *message.marker.get_or_insert(default) {
        Marker::Binary => MarkerForm::Binary,
        Marker::Ascii => MarkerForm::Ascii,
        Marker::Integer => MarkerForm::Integer,
    };
    if let (Some(wished), MarkerForm::Binary) = (wished, marker)
        && wished != MarkerForm::Binary
    {
        let help = format!("use `{wished}`, which the profile says survives");
        context.error_with_help("message.marker", "the platform takes text, not a binary marker", help);
    }
    if platform.is_some_and(PlatformPlan::reports_stages) && marker != MarkerForm::Ascii {
        let help = "use `ascii`: the gateway calls events by that in its log";
        context.error_with_help(
            "message.marker",
            format!("no event has a name with the marker `{marker}`"),
            help,
        );
    }
    let body = platform.and_then(|platform| platform.roles.device.envelope.as_ref());
    if marker == MarkerForm::Binary && body.is_some_and(stands_in_cbor) {
        context.error_with_help(
            "message.marker",
            "the message stands in a body of CBOR as text, which is UTF-8, and a binary marker is not (RFC 8949 section 3.1)",
            "use `ascii`, here or as `marker` of the profile's device",
        );
    }
    let content = match &message.template {
        Some(text) => Content::Template(template(text, marker, &rows, context)?),
        None => {
            let size = message.size.get_or_insert(MessageSize::Fixed(AsText(Size(DEFAULT))));
            Content::Sized(sized(size, marker, context)?)
        }
    };
    Some(MessagePlan { target, content, marker, feed: rows.table })
}

/// Whether a body is one of CBOR that has the message or its marker.
fn stands_in_cbor(body: &Template) -> bool {
    let is_it = |piece: &Piece| matches!(piece, Piece::Message(_) | Piece::Marker);
    body.pieces.iter().any(|piece| match piece {
        Piece::CborText(inner) | Piece::CborValue(inner) => inner.iter().any(is_it),
        _ => false,
    })
}

fn template(text: &str, marker: MarkerForm, rows: &Rows<'_>, context: &mut Context<'_>) -> Option<Template> {
    const PATH: &str = "message.template";
    let built_in = &["marker", "run", "device", "sequence", "time", "random", "feed"];
    let names = Names { built_in, columns: Some(rows.columns), ..Names::default() };
    let template = match Template::compile_with(text, &names) {
        Ok(template) => template,
        Err(error) => {
            context.template_error(PATH, error);
            return None;
        }
    };
    let markers = template.pieces.iter().filter(|piece| **piece == Piece::Marker).count();
    if markers != 1 {
        context.error_with_help(
            PATH,
            format!("`{{marker}}` must stand in the template exactly once, but stands {markers} times"),
            "the marker identifies the message of a delivery, as in `{\"id\": \"{marker}\", \"temperature\": 21}`",
        );
    }
    if marker == MarkerForm::Binary {
        context.error_with_help(
            "message.marker",
            "a binary marker is found only at the beginning of a message, not in a text",
            "use `ascii` or `integer` with a template",
        );
    }
    if template.longest_with(marker.length(), 0, rows.table.as_deref()) > LARGEST as usize {
        context.error(PATH, "the template can become larger than 1 MiB");
    }
    Some(template)
}

fn sized(
    size: &MessageSize,
    marker: MarkerForm,
    context: &mut Context<'_>,
) -> Option<distribution::SizeDistribution> {
    let before = context.found.0.len();
    let mut bounds = |path: &str, size: AsText<Size>| {
        let Size(bytes) = size.0;
        let least = marker.length();
        if (bytes as usize) < least {
            let message = format!("{bytes} bytes cannot hold the {marker} marker, which needs {least}");
            context.error_with_help(path, message, "make messages larger; `binary` is the smallest marker");
        }
        if bytes > LARGEST {
            context.error(path, format!("{bytes} bytes are more than the 1 MiB that a message may have"));
        }
        bytes
    };
    let resolved = match size {
        MessageSize::Fixed(size) => distribution::SizeDistribution::Fixed(bounds("message.size", *size)),
        MessageSize::Distributed(SizeDistribution::Uniform(UniformSize { min, max })) => {
            let min = bounds("message.size.uniform.min", *min);
            distribution::SizeDistribution::Uniform { min, max: bounds("message.size.uniform.max", *max) }
        }
        MessageSize::Distributed(SizeDistribution::Normal(NormalSize { mean, deviation, min, max })) => {
            let min = bounds("message.size.normal.min", *min);
            let max = bounds("message.size.normal.max", *max);
            let (mean, deviation) = (f64::from(mean.0.0), f64::from(deviation.0.0));
            distribution::SizeDistribution::Normal { mean, deviation, min, max }
        }
        MessageSize::Distributed(SizeDistribution::Choice(list)) => {
            let weighted = list.iter().enumerate().map(|(position, choice)| {
                (bounds(&format!("message.size.choice.{position}.size"), choice.size), choice.weight)
            });
            distribution::SizeDistribution::Choice(weighted.collect())
        }
    };
    match resolved {
        distribution::SizeDistribution::Uniform { min, max } if min > max => {
            context.error("message.size.uniform.max", "the largest size is below the smallest");
        }
        distribution::SizeDistribution::Normal { min, max, .. } if min > max => {
            context.error("message.size.normal.max", "the largest size is below the smallest");
        }
        distribution::SizeDistribution::Normal { mean, min, max, .. }
            if !(f64::from(min)..=f64::from(max)).contains(&mean) =>
        {
            context.error("message.size.normal.mean", "the mean lies outside `min` and `max`");
        }
        _ => {}
    }
    (context.found.0.len() == before).then_some(resolved)
}
