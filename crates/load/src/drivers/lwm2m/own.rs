//! What a server has changed at one device: values, instances, and when it wants to be notified. Most devices have nothing of that
//! kind, and take no memory for it.

use super::objects::{Objects, Resource};
use super::observations::Paths;
use plimsoll_codec::lwm2m::{Attributes, Given, Path};
use plimsoll_model::Nanos;

/// The object of what a device knows of its servers.
pub const SECURITY: u16 = 0;
/// The object of servers, and its resource with the lifetime of the registration, in seconds.
pub const SERVER: u16 = 1;
pub const LIFETIME: u16 = 1;
/// The periods between notifications that hold where no attribute says otherwise.
const LEAST_PERIOD: Path = Path::resource(1, 0, 2);
const MOST_PERIOD: Path = Path::resource(1, 0, 3);

/// See the module.
#[derive(Default)]
pub struct Own(Option<Box<Changes>>);

#[derive(Default)]
struct Changes {
    /// Values that were written, each in the place of what the resource held.
    written: Vec<(Path, Given<'static>)>,
    /// Instances that are there beside those of all devices, and those that are not.
    created: Vec<Path>,
    deleted: Vec<Path>,
    attributes: Vec<(Path, Attributes)>,
}

/// Values of a device, with what is needed to make them.
pub struct Values<'a> {
    /// What all devices have.
    pub objects: &'a Objects,
    /// What this one has of its own.
    pub own: &'a Own,
    /// The device.
    pub device: u32,
    /// The time.
    pub now: Nanos,
    /// Its newest message.
    pub message: &'a [u8],
}

impl Values<'_> {
    /// All values at or below a path that can be read, in the order of their paths.
    pub fn below(&self, path: Path) -> Vec<(Path, Given<'static>)> {
        let mut values = Vec::new();
        let is_there = |path: Path| !self.own.is_deleted(path);
        for resource in self.objects.below(path).iter().filter(|resource| is_there(resource.path)) {
            let held = || self.objects.value(resource, self.device, self.now, self.message);
            if let Some(value) = self.own.written(resource.path).cloned().or_else(held) {
                values.push((resource.path, value));
            }
        }
        let further = self.own.all_written().iter().filter(|(own, _)| path.covers(own));
        for (own, value) in further.filter(|(own, _)| self.objects.at(*own).is_none()) {
            values.push((*own, value.clone()));
        }
        values.sort_by_key(|(path, _)| *path);
        values
    }

    /// The values of several paths, each in the order of its paths.
    pub fn of(&self, paths: &Paths) -> Vec<(Path, Given<'static>)> {
        let seen =
            |path: Path| self.below(path).into_iter().filter(|(own, _)| own.object() != Some(SECURITY));
        match paths {
            Paths::One(path) => self.below(*path),
            Paths::Several(paths) => paths.iter().copied().flat_map(seen).collect(),
        }
    }

    /// Whether the device has something at that path. An object is there without any instance, too.
    pub fn has(&self, path: Path) -> bool {
        let is_object = path.depth() == 1;
        let is_there = |own: &Resource| is_object || !self.own.is_deleted(own.path);
        let shared = self.objects.below(path).iter().any(is_there);
        shared || self.own.has_created(path) || self.own.all_written().iter().any(|(own, _)| path.covers(own))
    }

    /// What the device registers: its instances, and objects that have none (1.0 core, section 5.3.1).
    pub fn registered(&self) -> Vec<Path> {
        let mut registered = self.instances(Path::ROOT);
        let empty = self.objects.below(Path::ROOT).iter().map(|resource| resource.path.up_to(1));
        let empty: Vec<Path> =
            empty.filter(|object| !registered.iter().any(|own| object.covers(own))).collect();
        registered.extend(empty);
        registered.sort_unstable();
        registered.dedup();
        registered.retain(|path| path.object() != Some(SECURITY));
        registered
    }

    /// The instances of objects that the device has at or below a path, in their order.
    pub fn instances(&self, path: Path) -> Vec<Path> {
        let shared = self.objects.below(path).iter().map(|resource| resource.path.up_to(2));
        let created = self.own.created().iter().copied().filter(|own| path.covers(own));
        let mut instances: Vec<Path> =
            shared.filter(|own| !self.own.is_deleted(*own)).chain(created).collect();
        instances.sort_unstable();
        instances.dedup();
        instances
    }
}

impl Own {
    fn changes(&mut self) -> &mut Changes {
        self.0.get_or_insert_default()
    }

    fn all_written(&self) -> &[(Path, Given<'static>)] {
        self.0.as_ref().map(|own| own.written.as_slice()).unwrap_or_default()
    }

    /// What was written to an object.
    pub fn of_object(&self, object: u16) -> impl Iterator<Item = &(Path, Given<'static>)> {
        self.all_written().iter().filter(move |(path, _)| path.object() == Some(object))
    }

    fn created(&self) -> &[Path] {
        self.0.as_ref().map(|own| own.created.as_slice()).unwrap_or_default()
    }

    /// Whether an instance was created that is that path or below it.
    fn has_created(&self, path: Path) -> bool {
        self.created().iter().any(|own| path.covers(own))
    }

    fn is_deleted(&self, path: Path) -> bool {
        self.0.as_ref().is_some_and(|own| own.deleted.iter().any(|gone| gone.covers(&path)))
    }

    /// How many values were written, and their bytes.
    pub fn count_written(&self) -> (usize, usize) {
        let bytes = self.all_written().iter().map(|(_, value)| value.length());
        (self.all_written().len(), bytes.sum())
    }

    /// How many instances were created or deleted.
    pub fn count_changed(&self) -> usize {
        self.0.as_ref().map_or(0, |own| own.created.len() + own.deleted.len())
    }

    /// What was written to a resource.
    pub fn written(&self, path: Path) -> Option<&Given<'static>> {
        self.all_written().iter().find(|(own, _)| *own == path).map(|(_, value)| value)
    }

    /// Writes a value.
    pub fn write(&mut self, path: Path, value: Given<'static>) {
        let written = &mut self.changes().written;
        match written.iter_mut().find(|(own, _)| *own == path) {
            Some((_, known)) => *known = value,
            None => written.push((path, value)),
        }
    }

    /// Forgets what was written at or below a path, as far as it is wanted.
    pub fn forget(&mut self, path: Path, is_wanted: impl Fn(Path) -> bool) {
        if let Some(changes) = &mut self.0 {
            changes.written.retain(|(own, _)| !path.covers(own) || !is_wanted(*own));
        }
    }

    /// Adds an instance.
    pub fn create(&mut self, instance: Path) {
        let changes = self.changes();
        changes.deleted.retain(|gone| *gone != instance);
        if !changes.created.contains(&instance) {
            changes.created.push(instance);
        }
    }

    /// Takes an instance away with all that was written to it.
    pub fn delete(&mut self, instance: Path) {
        let changes = self.changes();
        changes.written.retain(|(own, _)| !instance.covers(own));
        changes.attributes.retain(|(own, _)| !instance.covers(own));
        changes.created.retain(|own| *own != instance);
        if !changes.deleted.contains(&instance) {
            changes.deleted.push(instance);
        }
    }

    /// The attributes that hold at a path: those of lower levels go before those of higher ones, and last comes what a server wrote
    /// for all of them.
    pub fn attributes(&self, path: Path) -> Attributes {
        let Some(changes) = &self.0 else { return Attributes::default() };
        let levels = (1..=path.depth()).rev().filter_map(|depth| changes.at(path.up_to(depth)));
        let period = |path: Path| match self.written(path) {
            Some(Given::Integer(seconds)) => u32::try_from(*seconds).ok(),
            _ => None,
        };
        let for_all =
            Attributes { pmin: period(LEAST_PERIOD), pmax: period(MOST_PERIOD), ..Attributes::default() };
        levels.fold(Attributes::default(), |lower, higher| lower.or(*higher)).or(for_all)
    }

    /// The attributes that were written to a path itself.
    pub fn attributes_at(&self, path: Path) -> Attributes {
        self.0.as_ref().and_then(|changes| changes.at(path)).copied().unwrap_or_default()
    }

    /// Puts attributes in the place of those of a path.
    pub fn set_attributes(&mut self, path: Path, attributes: Attributes) {
        let all = &mut self.changes().attributes;
        match all.iter_mut().find(|(own, _)| *own == path) {
            Some((_, known)) => *known = attributes,
            None => all.push((path, attributes)),
        }
    }
}

impl Changes {
    fn at(&self, path: Path) -> Option<&Attributes> {
        self.attributes.iter().find(|(own, _)| *own == path).map(|(_, attributes)| attributes)
    }
}
