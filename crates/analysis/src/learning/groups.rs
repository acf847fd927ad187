//! Sources in groups, each of which is a population: of the same service, method, QoS, shape of the target and class of size.

use super::gathering::{Gathering, Service, Source, is_session};
use super::shape::{Shape, Shaped, parts, shapes};
use std::collections::{BTreeMap, BTreeSet};

/// Devices whose messages are so many times larger are another population.
const SIZE_CLASS: f64 = 4.0;
/// Classes of size among targets of one shape.
const SIZE_CLASSES: usize = 4;

/// Sources of one population, before it is described.
pub(super) struct Group<'a> {
    pub source: &'a Source,
    pub shape: Shape,
}

impl Group<'_> {
    /// Its messages, those included whose times were not kept.
    pub fn messages(&self, gathered: &Gathering) -> u64 {
        self.shape.members.iter().map(|member| gathered.sources[member.source].1.messages).sum()
    }
}

/// Parts of targets that vary: they are names.
pub(super) fn varying_names(groups: &[Group<'_>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for group in groups {
        for member in &group.shape.members {
            names.extend(group.shape.varying.iter().map(|&place| member.parts[place].text.clone()));
        }
    }
    names
}

/// Sources in groups of the same service, method, QoS, shape and class of size.
pub(super) fn groups(gathered: &Gathering) -> Vec<Group<'_>> {
    type Key<'a> = (Service, &'static str, &'a str, u8, bool, usize);
    let mut alike: BTreeMap<Key<'_>, Vec<Shaped>> = BTreeMap::new();
    for (place, (source, _)) in gathered.sources.iter().enumerate() {
        let levels = source.levels();
        let parts = parts(path_of(&levels));
        let key =
            (source.service, source.method, source.topic.as_str(), source.qos, source.retained, parts.len());
        alike.entry(key).or_default().push(Shaped { source: place, parts, client: source.client });
    }
    let means = mean_sizes(gathered);
    let mut groups = Vec::new();
    for ((service, ..), members) in alike {
        for shape in shapes(members, is_session(service.protocol)) {
            for shape in size_classes(shape, &means) {
                let Some(first) = shape.members.first() else { continue };
                groups.push(Group { source: &gathered.sources[first.source].0, shape });
            }
        }
    }
    groups
}

/// A target without scheme and host, where a client of HTTP writes those.
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://") else { return target };
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

/// The mean size of each source's messages.
fn mean_sizes(gathered: &Gathering) -> Vec<f64> {
    let mut sums = vec![(0_u64, 0_u64); gathered.sources.len()];
    for message in &gathered.messages {
        let sum = &mut sums[message.source as usize];
        *sum = (sum.0 + u64::from(message.bytes), sum.1 + 1);
    }
    sums.into_iter().map(|(bytes, count)| bytes as f64 / count.max(1) as f64).collect()
}

/// Divides a shape where the mean sizes of its sources, in their order, grow by [`SIZE_CLASS`] at once.
fn size_classes(mut shape: Shape, means: &[f64]) -> Vec<Shape> {
    let mean = |member: &Shaped| means[member.source].max(1.0);
    shape.members.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
    let mut ends: Vec<usize> = (1..shape.members.len())
        .filter(|&place| mean(&shape.members[place]) >= SIZE_CLASS * mean(&shape.members[place - 1]))
        .collect();
    ends.truncate(SIZE_CLASSES - 1);
    ends.push(shape.members.len());
    let mut rest = shape.members.into_iter();
    let mut begin = 0;
    ends.into_iter()
        .map(|end| {
            let mut members: Vec<Shaped> = rest.by_ref().take(end - begin).collect();
            begin = end;
            members.sort_by_key(|member| member.source);
            Shape { members, varying: shape.varying.clone() }
        })
        .collect()
}
