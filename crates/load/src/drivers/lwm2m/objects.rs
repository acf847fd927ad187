//! What devices have: objects, instances, resources and their values. It is the same for all of them, up to what a server has
//! written to one ([`own`](super::own)).

use super::changing::{self, Source};
use plimsoll_codec::lwm2m::{Given, Kind, Path, Value, link};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Columns, Lwm2mPlan, ResourcePlan, ValuePlan, Variables};
use std::sync::Arc;

/// See the module.
pub struct Objects {
    /// In the order of their paths.
    resources: Vec<Resource>,
    run: String,
    seed: u64,
    feed: Option<Arc<dyn Columns>>,
}

/// A resource that every device has.
pub struct Resource {
    /// Where it is.
    pub path: Path,
    /// Whether a server may write it.
    pub is_writable: bool,
    holds: Holds,
}

enum Holds {
    /// What is planned.
    Planned(ValuePlan),
    /// The device's newest message.
    Message(Kind),
}

impl Objects {
    /// Those of a plan; values may come from the rows of a feed.
    pub fn new(plan: &Lwm2mPlan, run: String, seed: u64, feed: Option<Arc<dyn Columns>>) -> Objects {
        let planned = |own: &ResourcePlan| Resource {
            path: own.path,
            is_writable: own.is_writable,
            holds: Holds::Planned(own.value.clone()),
        };
        let mut resources: Vec<Resource> = plan.resources.iter().map(planned).collect();
        let holds = Holds::Message(plan.message_kind);
        resources.push(Resource { path: plan.message, is_writable: false, holds });
        resources.sort_by_key(|own| own.path);
        Objects { resources, run, seed, feed }
    }

    /// The resources at or below a path, in the order of their paths.
    pub fn below(&self, path: Path) -> &[Resource] {
        let begin = self.resources.partition_point(|own| own.path < path);
        let rest = self.resources.get(begin..).unwrap_or_default();
        let length = rest.iter().take_while(|own| path.covers(&own.path)).count();
        rest.get(..length).unwrap_or_default()
    }

    /// The resource at a path.
    pub fn at(&self, path: Path) -> Option<&Resource> {
        self.below(path).first().filter(|own| own.path == path)
    }

    /// The resource at a path; of an instance that was created, the one with that number in any other instance of the object.
    pub fn like(&self, path: Path) -> Option<&Resource> {
        let is_like = |own: &&Resource| own.path.resource_id() == path.resource_id();
        self.at(path).or_else(|| self.below(path.up_to(1)).iter().find(is_like))
    }

    /// Values as their resources hold them; those of no known resource are bytes.
    pub fn entries<'a>(&self, given: &'a [(Path, Given<'static>)]) -> Vec<(Path, Value<'a>)> {
        let mut entries = Vec::with_capacity(given.len());
        for (path, given) in given {
            let kind = self.like(path.up_to(3)).and_then(Resource::kind).unwrap_or(Kind::Opaque);
            entries.extend(given.as_kind(kind).map(|value| (*path, value)));
        }
        entries
    }

    /// What a resource holds at a device and a time, if no server has written it; `message` is the device's newest one. `None` of a
    /// resource that is executed, or only written.
    pub fn value(
        &self,
        resource: &Resource,
        device: u32,
        now: Nanos,
        message: &[u8],
    ) -> Option<Given<'static>> {
        let value = match &resource.holds {
            Holds::Message(kind) => return Some(message_value(message, *kind).into()),
            Holds::Planned(value) => value,
        };
        Some(match value {
            ValuePlan::Integer(number) => Given::Integer(*number),
            ValuePlan::Float(number) => Given::Float(*number),
            ValuePlan::Boolean(is_true) => Given::Boolean(*is_true),
            ValuePlan::Text(template) => {
                let variables = Variables { run: &self.run, device, ..Variables::default() };
                let mut text = Vec::new();
                template.render(&variables, &mut || 0, &mut text);
                Given::Text(String::from_utf8_lossy(&text).into_owned().into())
            }
            ValuePlan::Changing { change, every } => {
                let (resource, feed) = (number_of(resource.path), self.feed.as_deref());
                changing::value(change, *every, Source { seed: self.seed, device, resource, feed }, now)
            }
            ValuePlan::Package | ValuePlan::Action => return None,
        })
    }
}

impl Objects {
    /// When something at or below a path changes next by itself, messages apart.
    pub fn next_change(&self, path: Path, device: u32, now: Nanos) -> Option<Nanos> {
        let changes = |own: &Resource| match &own.holds {
            Holds::Planned(ValuePlan::Changing { every, .. }) => {
                Some(changing::next_change(device, *every, now))
            }
            _ => None,
        };
        self.below(path).iter().filter_map(changes).min()
    }
}

impl Resource {
    /// The kind of its value; `None` of one that is executed.
    pub fn kind(&self) -> Option<Kind> {
        match &self.holds {
            Holds::Planned(value) => value.kind(),
            Holds::Message(kind) => Some(*kind),
        }
    }

    /// Whether it holds the device's message.
    pub fn is_message(&self) -> bool {
        matches!(self.holds, Holds::Message(_))
    }
}

/// Instances of objects as links, for a registration (1.0 core, section 5.3.1).
pub fn links(instances: impl Iterator<Item = Path>) -> String {
    let mut links = String::new();
    instances.for_each(|path| link::write(&path.to_string(), "", &mut links));
    links
}

/// The bytes of a message as what its resource holds. A number stands at their beginning: what stands behind it fills the message.
pub fn message_value(message: &[u8], kind: Kind) -> Value<'_> {
    let text = std::str::from_utf8(message).unwrap_or_default();
    match kind {
        Kind::Opaque => Value::Opaque(message),
        Kind::Integer => Value::Integer(digits(text).parse().unwrap_or_default()),
        Kind::Float => Value::Float(digits(text).parse().unwrap_or_default()),
        _ => Value::String(text),
    }
}

/// The digits that a text begins with.
fn digits(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// A path as one number.
fn number_of(path: Path) -> u64 {
    path.ids().iter().fold(1, |all, id| all << 16 | u64::from(*id))
}
