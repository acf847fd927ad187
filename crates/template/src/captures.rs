//! Values that set-up steps took out of the platform's answers, for later requests.

use plimsoll_codec::hiding::hide;
use std::collections::HashMap;

/// Shorter ones are found in texts that have nothing to do with them.
const SHORTEST_SECRET: usize = 4;

/// How often a step is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Each {
    /// Once.
    #[default]
    Once,
    /// Once for each device.
    Device,
    /// Once for each subscriber.
    Subscriber,
    /// Once for each pair of a device and a subscriber.
    Pair,
    /// Once for each thing that the platform is filled with.
    Item,
}

/// A captured value's name, and for whom it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedName {
    /// The name.
    pub name: String,
    /// For whom: of a step that is done once for each device, each device has its own.
    pub each: Each,
    /// Whether it is not shown: its own name, or that of a place where it stands, tells of a secret.
    pub secret: bool,
}

/// Captured values by slot, each for the one whom it was captured for.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    each: Each,
    secret: bool,
    values: HashMap<(u32, u32), String>,
}

impl Captures {
    /// Room for the names of a plan, with no value yet.
    pub fn new(names: &[CapturedName]) -> Captures {
        let slots =
            names.iter().map(|name| Slot { each: name.each, secret: name.secret, values: HashMap::new() });
        Captures { slots: slots.collect() }
    }

    /// Keeps a value for a device, a subscriber, both, or all, as its step was done; takes the place of an earlier one.
    pub fn set(&mut self, slot: usize, device: u32, subscriber: u32, value: String) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.values.insert(key(slot.each, device, subscriber), value);
        }
    }

    /// The value for a device and a subscriber; empty where none was captured.
    pub fn get(&self, slot: usize, device: u32, subscriber: u32) -> &str {
        let found =
            self.slots.get(slot).and_then(|slot| slot.values.get(&key(slot.each, device, subscriber)));
        found.map(String::as_str).unwrap_or_default()
    }

    /// All values: slot, device, subscriber, and the value itself.
    pub fn values(&self) -> impl Iterator<Item = (usize, u32, u32, &str)> {
        self.slots.iter().enumerate().flat_map(|(slot, own)| {
            own.values
                .iter()
                .map(move |(&(device, subscriber), value)| (slot, device, subscriber, value.as_str()))
        })
    }

    /// Gives what was captured for all to others, which know it by the same name.
    pub fn copy_common(&self, names: &[CapturedName], others: &mut Captures, their_names: &[CapturedName]) {
        for (slot, name) in names.iter().enumerate().filter(|(_, name)| name.each == Each::Once) {
            let theirs =
                their_names.iter().position(|other| other.name == name.name && other.each == Each::Once);
            let value = self.slots.get(slot).and_then(|slot| slot.values.get(&(0, 0)));
            if let (Some(theirs), Some(value)) = (theirs, value) {
                others.set(theirs, 0, 0, value.clone());
            }
        }
    }

    /// A text with asterisks in the place of the secrets that were captured for the device and the
    /// subscriber.
    pub fn hide(&self, text: String, device: u32, subscriber: u32) -> String {
        let secrets = self.slots.iter().filter(|slot| slot.secret);
        let values = secrets.filter_map(|slot| slot.values.get(&key(slot.each, device, subscriber)));
        values.fold(text, |text, value| hide_captured(&text, value))
    }

    /// The same for a value of a slot that was not kept.
    pub fn hide_new(&self, text: String, slot: usize, value: &str) -> String {
        let secret = self.slots.get(slot).is_some_and(|slot| slot.secret);
        if secret { hide_captured(&text, value) } else { text }
    }
}

fn hide_captured(text: &str, value: &str) -> String {
    if value.len() < SHORTEST_SECRET { text.to_owned() } else { hide(text, value) }
}

fn key(each: Each, device: u32, subscriber: u32) -> (u32, u32) {
    match each {
        // Nothing is kept of the answers for items.
        Each::Once | Each::Item => (0, 0),
        Each::Device => (device, 0),
        Each::Subscriber => (0, subscriber),
        Each::Pair => (device, subscriber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_whom_they_were_captured_for() {
        let name = |each| CapturedName { name: "x".into(), each, secret: each == Each::Device };
        let mut captures = Captures::new(&[name(Each::Once), name(Each::Device), name(Each::Pair)]);
        captures.set(0, 1, 1, "all".into());
        captures.set(1, 1, 9, "first".into());
        captures.set(2, 1, 9, "pair".into());
        let get = |slot, device, subscriber| captures.get(slot, device, subscriber);
        assert_eq!([get(0, 7, 7), get(1, 1, 0), get(2, 1, 9)], ["all", "first", "pair"]);
        assert_eq!([get(1, 2, 9), get(2, 1, 8), get(9, 1, 1)], ["", "", ""]);
        let hide = |device| captures.hide("first of all".into(), device, 9);
        assert_eq!([hide(1), hide(2)], ["*** of all", "first of all"]);
    }
}
