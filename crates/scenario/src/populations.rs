//! Several populations in one scenario. Each is planned as if it were alone: what it says is laid over the scenario's tree, so
//! that everything keeps its place in the file; then the plans are put together.

mod joined;
pub(crate) mod part;

use crate::aliases;
use crate::check::check_at;
use crate::config::{CommonSubscribers, OnePopulation, Subscribers};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::plan::{PopulationPlan, ReceiversPlan, SharePlan};
use crate::protocols;
use crate::quantity::{Quantity, Rate};
use crate::span::Span;
use crate::tree::{Entry, Node, Value};
pub(crate) use joined::join;
pub(crate) use part::Part;
use plimsoll_codec::numbering::MOST_DEVICES;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Most populations of a scenario.
const MOST: usize = 100;
/// The name of the population where the scenario names none, and of the subscribers that populations have in common.
const ONLY: &str = "devices";
pub(crate) const COMMON: &str = "subscribers";

/// Sections that a population may have of its own, laid over those of the scenario.
fn own_sections() -> impl Iterator<Item = &'static str> {
    ["platform", "connection"].into_iter().chain(protocols::sections())
}

/// The populations of a scenario that has several, or subscribers apart from them; `None` where it has one, or where something
/// is wrong, which `found` then says.
pub(crate) fn parts(root: &Node, schema: &Json, found: &mut Diagnostics) -> Option<Vec<Part>> {
    let common = root.child("subscribers").filter(|node| !node.is_null());
    let several = root.child("populations").filter(|node| !node.is_null());
    if common.is_none() && several.is_none() {
        return None;
    }
    let mut splitter = Splitter {
        root,
        schema,
        found,
        common: common.cloned(),
        totals: Vec::new(),
        next_subscriber: 0,
        all_devices: u32::MAX,
    };
    splitter.split(several)
}

struct Splitter<'a> {
    root: &'a Node,
    schema: &'a Json,
    found: &'a mut Diagnostics,
    common: Option<Node>,
    /// The levels, where all populations have rates of their own.
    totals: Vec<f64>,
    /// The number of the next subscriber; those in common come first.
    next_subscriber: u32,
    /// Devices of all populations together.
    all_devices: u32,
}

impl Splitter<'_> {
    fn split(&mut self, several: Option<&Node>) -> Option<Vec<Part>> {
        let common = self.common.clone();
        if let Some(common) = &common {
            let read = self.read(common, "subscribers", "/properties/subscribers")?;
            self.next_subscriber = match read {
                CommonSubscribers::Count(count) => count,
                CommonSubscribers::Group(group) => group.count,
            };
        }
        let parts = match several {
            None => vec![self.only()?],
            Some(several) => self.listed(several)?,
        };
        let Some(common) = common else { return Some(parts) };
        let of_others = self.of_others(&common);
        Some(parts.into_iter().chain([of_others]).collect())
    }

    /// The only population of a scenario whose subscribers stand apart.
    fn only(&mut self) -> Option<Part> {
        const KEY: &str = "population.subscribers";
        if self.root.has(KEY) {
            self.error(
                self.root.locate(KEY),
                "`subscribers` and `population.subscribers` are two names of one thing",
                "keep `subscribers`",
            );
            return None;
        }
        let mut root = without(self.root, &["subscribers"]);
        let receivers = self.common.as_ref().map(subscribers_of)?;
        put(&mut root, "population", &self.root.span, |population| {
            insert(population, "subscribers", receivers)
        });
        let population = PopulationPlan {
            name: ONLY.into(),
            receivers: ReceiversPlan::Common,
            ..PopulationPlan::default()
        };
        let own = own_sections().collect();
        Some(Part { root, population, all_devices: None, own, platform: None, load: None })
    }

    fn listed(&mut self, several: &Node) -> Option<Vec<Part>> {
        if self.root.has("population") {
            let span = self.root.locate("population").clone();
            self.error(
                &span,
                "a scenario has either `population` or `populations`",
                "a value of one of them is set by `--set populations.NAME.devices=100`",
            );
            return None;
        }
        let mut several = several.clone();
        if let Value::List(entries) = &mut several.value {
            entries.iter_mut().for_each(|entry| aliases::rename(entry, self.found));
        }
        let written: Vec<OnePopulation> = self.read(&several, "populations", "/properties/populations")?;
        let Value::List(entries) = &several.value else { return None };
        if written.len() > MOST {
            let message = format!("these are {} populations, more than the {MOST} of a run", written.len());
            self.error(&several.span, message, "");
            return None;
        }
        let shares = self.shares(&written, entries)?;
        self.totals = totals(&shares);
        self.all_devices = written.iter().fold(0, |all, one| one.devices.saturating_add(all));
        let names: Vec<&str> = written.iter().map(|one| one.name.as_str()).collect();
        let mut parts: Vec<Part> = Vec::new();
        let mut first_device = 0_u32;
        for ((one, entry), share) in written.iter().zip(entries).zip(shares) {
            if names.iter().filter(|name| **name == one.name).count() > 1 || one.name == COMMON {
                let message = format!("`{}` is the name of something else, too", one.name);
                self.error(entry.locate("name"), message, "give each population a name of its own");
            }
            let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
            if !one.name.chars().all(is_fit)
                || !one.name.starts_with(|first: char| first.is_ascii_lowercase())
            {
                let message = format!("`{}` is no name of a population", one.name);
                let help = "a name begins with a small letter and has small letters, digits, `_` and `-`";
                self.error(entry.locate("name"), message, help);
            }
            if parts.is_empty() && entry.has("platform.profile") {
                self.error(
                    entry.locate("platform.profile"),
                    "the first population speaks to the scenario's own platform",
                    "put a population of that platform first, or name its profile in `platform`",
                );
            }
            parts.push(self.one(one, entry, share, first_device, &names));
            match first_device.checked_add(one.devices).filter(|all| *all <= MOST_DEVICES) {
                Some(all) => first_device = all,
                None => {
                    let message =
                        format!("a run can have {MOST_DEVICES} devices in all populations together");
                    self.error(entry.locate("devices"), message, "");
                    break;
                }
            }
        }
        // A name that is no population's stays where it is, and is reported there.
        self.found.is_empty().then_some(parts)
    }

    /// A population as a scenario of its own.
    fn one(
        &mut self,
        one: &OnePopulation,
        entry: &Node,
        share: Option<SharePlan>,
        first_device: u32,
        names: &[&str],
    ) -> Part {
        let mut root = without(self.root, &["populations", "subscribers"]);
        let own_subscribers = entry.child("subscribers").filter(|node| !node.is_null()).cloned();
        let receivers = match (&own_subscribers, &self.common) {
            (None, Some(_)) => ReceiversPlan::Common,
            _ => ReceiversPlan::Own,
        };
        let first_subscriber = if receivers == ReceiversPlan::Common { 0 } else { self.next_subscriber };
        self.next_subscriber =
            self.next_subscriber.saturating_add(one.subscribers.as_ref().map_or(0, Subscribers::count));
        let subscribers = own_subscribers.or_else(|| self.common.as_ref().map(subscribers_of));
        put(&mut root, "population", &entry.span, |population| {
            for key in ["devices", "link", "at"] {
                if let Some(value) = entry.child(key) {
                    insert(population, key, value.clone());
                }
            }
            if let Some(subscribers) = subscribers {
                insert(population, "subscribers", subscribers);
            }
        });
        let own = lay_over(&mut root, entry);
        if let Some(message) = entry.child("message").filter(|node| !node.is_null()) {
            insert(&mut root, "message", message.clone());
        }
        for key in ["arrivals", "per"] {
            if let Some(value) = entry.child("load").and_then(|load| load.child(key)) {
                put(&mut root, "load", &entry.span, |load| insert(load, key, value.clone()));
            }
        }
        self.total_levels(&mut root);
        let objectives = objectives_of(&root, entry, &one.name, names);
        insert(&mut root, "objectives", objectives);
        if first_device > 0 {
            // The first population's profile says what is asked northbound.
            root = without(&root, &["northbound"]);
        }
        let mut json = |key: &str| {
            let node = entry.child(key).filter(|node| !node.is_null())?;
            let pointer = format!("/$defs/OnePopulation/properties/{key}");
            Some(check_at(node, self.schema, &pointer, key, self.found))
        };
        let (platform, load) = (json("platform"), json("load"));
        let name = one.name.clone();
        let population = PopulationPlan {
            name,
            first_device,
            first_subscriber,
            receivers,
            share,
            ..PopulationPlan::default()
        };
        let all_devices = Some(self.all_devices);
        Part { root, population, all_devices, own, platform, load }
    }

    /// The subscribers that all populations have in common, as a population whose devices are taken away once it is planned.
    fn of_others(&mut self, common: &Node) -> Part {
        let mut root =
            without(self.root, &["populations", "subscribers", "population", "northbound", "message"]);
        root = without(&root, &["objectives"]);
        put(&mut root, "population", &common.span, |population| {
            insert(population, "devices", Node::plain("1", &common.span));
            insert(population, "subscribers", subscribers_of(common));
        });
        let own = lay_over(&mut root, common);
        self.total_levels(&mut root);
        let receivers = ReceiversPlan::OfOthers;
        let population = PopulationPlan { name: COMMON.into(), receivers, ..PopulationPlan::default() };
        Part { root, population, all_devices: Some(self.all_devices), own, platform: None, load: None }
    }

    /// Where all populations say themselves what they have of each level, the scenario's levels are their sums.
    fn total_levels(&self, root: &mut Node) {
        let chosen =
            ["levels", "curve", "spike", "search", "calibrate", "devices", "connect_rates", "in_flight"];
        if chosen.iter().any(|key| root.has(&format!("load.{key}"))) || self.totals.is_empty() {
            return;
        }
        let span = self.root.span.clone();
        let totals = self.totals.iter().map(|total| Node::plain(Rate(*total).show(), &span)).collect();
        put(root, "load", &span, |load| {
            insert(load, "levels", Node { value: Value::List(totals), span: span.clone() });
        });
    }

    /// What each population has of each level, as far as it says so.
    fn shares(&mut self, written: &[OnePopulation], entries: &[Node]) -> Option<Vec<Option<SharePlan>>> {
        let mut shares = Vec::new();
        for (one, entry) in written.iter().zip(entries) {
            let load = one.load.clone().unwrap_or_default();
            let share = match (load.share, load.rate, load.levels) {
                (None, None, None) => None,
                (Some(weight), None, None) => Some(SharePlan::Weight(weight)),
                (None, Some(rate), None) => Some(SharePlan::Rate(rate.0.0)),
                (None, None, Some(levels)) => {
                    Some(SharePlan::Rates(levels.iter().map(|rate| rate.0.0).collect()))
                }
                _ => {
                    let message = "a population has a `share` of the levels, a `rate` or `levels` of its own";
                    self.error(entry.locate("load"), message, "keep one of them");
                    return None;
                }
            };
            shares.push(share);
        }
        let weighs = |share: &Option<SharePlan>| matches!(share, Some(SharePlan::Weight(_)));
        let (with, without) = (shares.iter().any(weighs), shares.iter().position(Option::is_none));
        if let (true, Some(place)) = (with, without) {
            let entry = entries.get(place)?;
            let message = "other populations have a `share` of the levels, and this one has none";
            self.error(entry.locate("name"), message, "give it a `load.share`, or a `load.rate` of its own");
            return None;
        }
        Some(shares)
    }

    /// A part of the scenario as its schema and its type say; `None` where something is wrong with it.
    fn read<T: DeserializeOwned>(&mut self, node: &Node, path: &str, pointer: &str) -> Option<T> {
        let before = self.found.0.len();
        let json = check_at(node, self.schema, pointer, path, self.found);
        if self.found.0.len() > before {
            return None;
        }
        match serde_json::from_value(json) {
            Ok(read) => Some(read),
            Err(error) => {
                self.error(&node.span, format!("`{path}`: {error}"), "");
                None
            }
        }
    }

    fn error(&mut self, span: &Span, message: impl Into<String>, help: &str) {
        let diagnostic = Diagnostic::new(span, message);
        self.found.push(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
    }
}

/// The sums of what populations have of each level; none where one of them has a part of what others leave.
fn totals(shares: &[Option<SharePlan>]) -> Vec<f64> {
    let rates = shares.iter().map(|share| match share {
        Some(SharePlan::Rate(rate)) => Some(std::slice::from_ref(rate)),
        Some(SharePlan::Rates(rates)) => Some(rates.as_slice()),
        _ => None,
    });
    let Some(rates) = rates.collect::<Option<Vec<&[f64]>>>() else { return Vec::new() };
    let levels = rates.iter().map(|rates| rates.len()).max().unwrap_or(0);
    let at = |rates: &&[f64], place: usize| match *rates {
        [always] => Some(*always),
        each => each.get(place).copied(),
    };
    (0..levels).map(|place| rates.iter().filter_map(|rates| at(rates, place)).sum()).collect()
}

/// The scenario without some of its sections.
fn without(root: &Node, sections: &[&str]) -> Node {
    let mut root = root.clone();
    if let Value::Map(entries) = &mut root.value {
        entries.retain(|entry| !sections.contains(&entry.key.as_str()));
    }
    root
}

/// Changes a section of the scenario, which is made where it is missing.
fn put(root: &mut Node, section: &str, span: &Span, change: impl FnOnce(&mut Node)) {
    if root.child(section).is_none_or(Node::is_null) {
        insert(root, section, Node::empty_map(span));
    }
    if let Value::Map(entries) = &mut root.value
        && let Some(entry) = entries.iter_mut().find(|entry| entry.key == section)
    {
        change(&mut entry.value);
    }
}

/// Sets a key of a map.
fn insert(map: &mut Node, key: &str, value: Node) {
    let Value::Map(entries) = &mut map.value else { return };
    entries.retain(|entry| entry.key != key);
    entries.push(Entry { key: key.to_owned(), key_span: value.span.clone(), value });
}

/// Lays the sections that an entry has over those of the scenario; which it has.
fn lay_over(root: &mut Node, entry: &Node) -> BTreeSet<&'static str> {
    let mut own = BTreeSet::new();
    for section in own_sections() {
        let Some(over) = entry.child(section).filter(|node| !node.is_null()) else { continue };
        own.insert(section);
        put(root, section, &over.span, |base| {
            // A platform that is a name alone.
            if section == "platform" && !matches!(base.value, Value::Map(_)) {
                let profile = std::mem::replace(base, Node::empty_map(&over.span));
                insert(base, "profile", profile);
            }
            // Another profile has other addresses, mappings and variables.
            if section == "platform" && over.has("profile") {
                *base = Node::empty_map(&over.span);
            }
            merge(base, over);
        });
    }
    own
}

/// Lays a value over another one: maps key by key, anything else whole.
fn merge(base: &mut Node, over: &Node) {
    let (Value::Map(entries), Value::Map(others)) = (&mut base.value, &over.value) else {
        return base.clone_from(over);
    };
    for other in others {
        match entries.iter_mut().find(|entry| entry.key == other.key) {
            Some(entry) => merge(&mut entry.value, &other.value),
            None => entries.push(other.clone()),
        }
    }
}

/// What common subscribers are within the scenario of one population.
fn subscribers_of(common: &Node) -> Node {
    without(common, &own_sections().collect::<Vec<_>>())
}

/// What is demanded of one population: what it says itself, what the scenario says under its name, and which defaults the scenario
/// switches off.
fn objectives_of(root: &Node, entry: &Node, name: &str, names: &[&str]) -> Node {
    let mut objectives = Node::empty_map(root.locate("objectives"));
    let all = match root.child("objectives").map(|node| &node.value) {
        Some(Value::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    for one in all {
        match one.key.split_once('.') {
            Some((population, key)) if population == name => insert(&mut objectives, key, one.value.clone()),
            Some((population, _)) if names.contains(&population) => {}
            None if one.key == name => merge(&mut objectives, &one.value),
            None if one.value.is_null() => insert(&mut objectives, &one.key, one.value.clone()),
            // Of all together: joined later.
            None => {}
            // Of nobody: the check of the tree tells.
            Some(_) => insert(&mut objectives, &one.key, one.value.clone()),
        }
    }
    if let Some(own) = entry.child("objectives").filter(|node| !node.is_null()) {
        merge(&mut objectives, own);
    }
    objectives
}
