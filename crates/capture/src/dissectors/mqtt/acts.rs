//! What packets of MQTT say that a client does: who connects, what is published and subscribed to.

use super::packet::{Header, number};
use super::properties;
use crate::action::{Action, Connect, Publish, name};
use crate::dissect::{KEPT, Step};

/// A property of PUBLISH (5, section 3.3.2.3.4).
const TOPIC_ALIAS: u8 = 0x23;
/// Topics of one conversation that are known by an alias.
const ALIASES: usize = 16;

/// Topics that have an alias, by its number.
#[derive(Default)]
pub(super) struct Aliases(Vec<(u16, String)>);

impl Aliases {
    /// The topic of a PUBLISH: the one that it has, else the one that its alias stands for.
    fn resolve(&mut self, topic: String, alias: Option<u16>) -> String {
        let Some(alias) = alias else { return topic };
        let known = self.0.iter().position(|(number, _)| *number == alias);
        if topic.is_empty() {
            return known.map(|place| self.0[place].1.clone()).unwrap_or_default();
        }
        match known {
            Some(place) => self.0[place].1.clone_from(&topic),
            None if self.0.len() < ALIASES => self.0.push((alias, topic.clone())),
            None => {}
        }
        topic
    }
}

/// Reads a PUBLISH of a client whose topic ends at `head`, as counted from its first byte. Over MQTT 5 the properties
/// stand between topic and content.
pub(super) fn publish(
    header: Header,
    bytes: &[u8],
    head: usize,
    version: Option<u8>,
    aliases: &mut Aliases,
) -> Result<Action, Step> {
    let topic = number(bytes, header.length)
        .and_then(|length| bytes.get(header.length + 2..header.length + 2 + length).map(name));
    let mut content = header.whole() - head;
    let mut alias = None;
    if version == Some(5) {
        let here = bytes.get(head..).unwrap_or_default();
        let whole = properties(here.get(..content).unwrap_or(here));
        match whole {
            None if here.len() < content.min(4) => return Err(Step::Need(head + content.min(4))),
            Some(length) if length <= content && here.len() < length && length <= KEPT / 2 => {
                return Err(Step::Need(head + length));
            }
            Some(length) if length <= content => {
                alias = here.get(..length).and_then(alias_in);
                content -= length;
            }
            _ => {}
        }
    }
    Ok(Action::Publish(Publish {
        method: "PUBLISH",
        target: aliases.resolve(topic.unwrap_or_default(), alias),
        topic: String::new(),
        qos: header.qos(),
        retained: header.flags & 1 != 0,
        bytes: content as u64,
    }))
}

/// The alias among the properties of a PUBLISH, whose length stands before them (5, sections 2.2.2 and 3.3.2.3).
fn alias_in(properties: &[u8]) -> Option<u16> {
    let begin = properties.iter().position(|byte| byte & 128 == 0)? + 1;
    let mut at = begin;
    while let Some(&id) = properties.get(at) {
        at += 1;
        let text = |at: usize| number(properties, at).map(|length| 2 + length);
        at += match id {
            TOPIC_ALIAS => return number(properties, at).map(|alias| alias as u16),
            0x01 => 1,
            0x02 => 4,
            0x03 | 0x08 | 0x09 => text(at)?,
            0x26 => {
                let key = text(at)?;
                key + text(at + key)?
            }
            0x0B => properties.get(at..)?.iter().take(4).position(|byte| byte & 128 == 0)? + 1,
            _ => return None,
        };
    }
    None
}

/// Reads a CONNECT (3.1.1 and 5, section 3.1).
pub(super) fn connect(body: &[u8]) -> Option<Action> {
    let after_name = 2 + number(body, 0)?;
    let &[version, flags, high, low] = body.get(after_name..after_name + 4)? else { return None };
    let mut at = after_name + 4;
    if version == 5 {
        at += properties(body.get(at..)?)?;
    }
    let length = number(body, at)?;
    Some(Action::Connect(Connect {
        client: name(body.get(at + 2..at + 2 + length)?),
        version,
        keep_alive: u16::from_be_bytes([high, low]),
        clean: flags & 2 != 0,
        will: flags & 4 != 0,
        username: flags & 128 != 0,
    }))
}

/// Reads the filters of a SUBSCRIBE (3.1.1 and 5, section 3.8).
pub(super) fn subscribe(body: &[u8], version: Option<u8>) -> Vec<Action> {
    let mut at = 2;
    if version == Some(5) {
        at += body.get(at..).and_then(properties).unwrap_or(0);
    }
    let mut filters = Vec::new();
    while filters.len() < 64
        && let Some(length) = number(body, at)
        && let (Some(filter), Some(options)) = (body.get(at + 2..at + 2 + length), body.get(at + 2 + length))
    {
        filters.push(Action::Subscribe { filter: name(filter), qos: options & 3 });
        at += 3 + length;
    }
    filters
}
